"""What an ingest did, in few lines however many files, venues and markets there were."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from tidytape.errors import counted
from tidytape.lake.ingest.report import FileReport, IngestReport, MarketReport, Note
from tidytape.lake.tables import TABLES

_FEW = 5
"""Most files, and most markets, that have a line each."""

_EXAMPLES = 3


def summary(report: IngestReport) -> str:
    """Return a report as a few lines: what there is little of one by one, what there is much of by its kind.

    Parameters
    ----------
    report : IngestReport
        What ``str(report)`` tells file by file and market by market.

    Examples
    --------
    >>> file = FileReport("a.csv", notes=tuple(Note("amount", "taken for coins", n, f"X{n}") for n in (1, 2, 3, 4)))
    >>> print(summary(IngestReport((file,), ())))
    a.csv: no events
      10 amounts of 4 venues, taken for coins: X4 (4), X3 (3), X2 (2) and 1 more
    """
    files = report.files if len(report.files) <= _FEW else [_together(report)]
    lines = [*(file.without_notes for file in files), *_notes(report.files)]
    if len(report.markets) <= _FEW:
        lines += map(str, report.markets)
    else:
        lines += _markets(report.markets)
    return "\n".join(lines)


def _together(report: IngestReport) -> FileReport:
    """All files as if they were one."""
    files = report.files
    known = sum(file.already_ingested for file in files)
    units = {file.time_unit for file in files}
    counts = (report.count(table) for table in TABLES.values())
    ignored: Counter[str] = Counter()
    for file in files:
        ignored.update(dict(file.ignored))
    bad = [(line, f"{reason} ({file.path})") for file in files for line, reason in file.first_bad_lines]
    return FileReport(
        counted(len(files), "file") + (f", {known:,} of them already in the lake" if known else ""),
        already_ingested=False,
        counts=tuple(count for count in counts if count.read),
        bad_lines=report.bad_lines,
        first_bad_lines=tuple(bad[:_EXAMPLES]),
        ignored=tuple(sorted(ignored.items())),
        time_unit=units.pop() if len(units) == 1 else None,
    )


def _notes(files: Sequence[FileReport]) -> Iterator[str]:
    """What is to be known of the rows of some files, a line for each kind of it."""
    venues: dict[tuple[str, str], Counter[str | None]] = {}
    for file in files:
        for note in file.notes:
            venues.setdefault((note.row, note.said), Counter())[note.venue] += note.count
    for (row, said), counts in venues.items():
        if len(counts) == 1:
            ((venue, count),) = counts.items()
            yield f"  {Note(row, said, count, venue)}"
            continue
        names = [f"{venue} ({count:,})" for venue, count in counts.most_common()]
        yield f"  {Note(row, said, counts.total(), counted(len(counts), 'venue'))}: {_some(names)}"


def _markets(markets: Sequence[MarketReport]) -> Iterator[str]:
    """Many markets: how many, and of how many the same is to be known."""
    trades = counted(sum(one.trades for one in markets), "trade")
    yield f"{counted(len(markets), 'market')}, {trades} in the lake: {_some(list(map(_key, markets)))}"
    guessed = [f"{_key(one)} as {one.normalized_symbol}" for one in markets if one.guessed]
    if guessed:
        yield f"  {counted(len(guessed), 'name')} guessed from the raw symbol: {_some(guessed)}"
    unnamed = [_key(one) for one in markets if one.coin is None]
    if unnamed:
        yield (
            f"  {counted(len(unnamed), 'market')} without names, which no rule reads out of the raw symbol: "
            f"{_some(unnamed)}; to name one, ingest its file again with --raw-symbol SYMBOL --normalized-symbol "
            "COIN-QUOTE; until then exchange and raw symbol select it"
        )
    open_class = [_key(one) for one in markets if one.category is None]
    if open_class:
        yield f"  {counted(len(open_class), 'market')} of a class not told: {_some(open_class)}; --category tells it"


def _key(market: MarketReport) -> str:
    return f"{market.exchange} {market.raw_symbol}"


def _some(names: Sequence[str]) -> str:
    more = len(names) - _EXAMPLES
    return ", ".join(names[:_EXAMPLES]) + (f" and {more:,} more" if more > 0 else "")
