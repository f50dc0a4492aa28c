"""Gaps: stretches of time in which a table has no event of a market."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any, Final

import polars as pl

from tidytape.errors import QueryError
from tidytape.lake import _delta
from tidytape.lake._reader import LakeReader
from tidytape.lake._tables import TABLES, Table
from tidytape.lake.hygiene._info import files_of
from tidytape.lake.rollup._recipes import RECIPES, ROLLUP_TABLES, Recipe
from tidytape.lake.rollup._state import noted, stale
from tidytape.times import HOUR, MINUTE, intersected

GAPS_FROM: Final = ("events", "minutes", "files")
"""The sources of gaps, the most exact one first."""

MOST_ROWS: Final = 10_000_000
"""Most rows of a table that is read as a whole, in a fraction of a second. [rows]"""

_MOST_GAPS = 1_000
"""Most gaps of a market that are listed: the longest ones."""

_LEAST = HOUR
_OF_EVENTS, _OF_STATES = 20.0, 1.5
"""A gap is at least this many times the usual distance. Trades come at random, so ten times the usual distance is
common; reports come regularly.
"""

_MINUTES = {"trades": "candles_of_both_1m", "open_interest": "open_interest_1m", "funding": "funding_1m"}
"""Tables of minutes with a row only if an event is in the minute. Minutes of a book go on through a gap, because the
book stays as it was."""

_TIMES: dict[str, Any] = {"first": pl.Int64, "last": pl.Int64}
_LISTS: dict[str, Any] = {
    "rows": pl.Int64,
    "bytes": pl.Int64,
    "first": pl.Int64,
    "last": pl.Int64,
    "quiet": pl.Int64,
    "gaps_from": pl.String,
    "gaps": pl.Int64,
    "longest_gap": pl.Int64,
    "gap_starts": pl.List(pl.Int64),
    "gap_ends": pl.List(pl.Int64),
}


def gaps(
    lake: LakeReader, table: str, *, quiet: timedelta | None = None, most_rows: int | None = MOST_ROWS
) -> pl.DataFrame:
    """Return how many events of each market a table has, and the gaps between them.

    A gap is a long time between two neighbouring events, see ``quiet``. Gaps are read from the most exact source that
    has at most ``most_rows`` rows: the events themselves, the minutes that a rollup stored, or the log, which has the
    first and the last event of each file. The log does not show a gap inside a file.

    Parameters
    ----------
    lake : LakeReader
        The lake to read.
    table : str
        Name of a table of events, e.g. ``"trades"``.
    quiet : timedelta, optional
        The shortest gap; an hour if left out. It is longer for a market whose events are rare: 20 times the usual
        distance between neighbouring minutes with trades, book updates or candles, 1.5 times that of reports, which
        come regularly. The usual distance is the median; if gaps are read from files, it is the mean.
    most_rows : int, optional
        Most rows of the table to read; None reads the events, however many there are. [rows]

    Returns
    -------
    polars.DataFrame, one row per market, sorted by it
        - the columns that name the market: ``exchange`` and ``raw_symbol``; of option quotes ``exchange`` and ``coin``;
          of token supply ``token_name``
        - ``rows``, ``bytes`` : int64, events, and size of their files; ``bytes`` is null in a table without partitions
        - ``first``, ``last`` : int64, first and last event; of candles, the start of the last one [ns since the epoch]
        - ``quiet`` : int64, shortest gap [ns]
        - ``gaps_from`` : ``events``, ``minutes`` or ``files``; null of liquidations: a quiet hour and a lost one look
          the same there, so their gaps are null too
        - ``gaps`` : int64, how many; ``longest_gap`` : int64 [ns], null without any
        - ``gap_starts``, ``gap_ends`` : list of int64, last event before and first event after each of the 1,000
          longest gaps, in order of time [ns since the epoch]

    Raises
    ------
    QueryError
        If there is no such table of events, or ``quiet`` is not positive.
    LakeError
        If the lake cannot be read.

    Examples
    --------
    >>> import polars as pl, tempfile
    >>> from tidytape.lake import Lake
    >>> lake = Lake.create(tempfile.mkdtemp())
    >>> minutes = [0, 1, 2, 302]
    >>> trades = pl.DataFrame({
    ...     "exchange": "X", "raw_symbol": "BTCUSDT", "id": list("abcd"),
    ...     "timestamp": [minute * 60 * 10**9 for minute in minutes], "sequence": minutes, "side": "BUY", "price": 10.0,
    ...     "amount": 1.0, "quote_amount": 10.0,
    ... })
    >>> _ = lake.writer().append("trades", trades, source="by hand")
    >>> from datetime import timedelta
    >>> gaps(lake, "trades", quiet=timedelta(hours=2)).select("rows", "gaps_from", "gaps", "gap_starts").row(0)
    (4, 'events', 1, [120000000000])
    """
    if table not in TABLES or not TABLES[table].key or "timestamp" not in TABLES[table].names:
        table_names = [name for name, definition in TABLES.items() if "timestamp" in definition.names]
        raise QueryError("table", got=table, expected="one of " + ", ".join(table_names))
    shortest = _LEAST if quiet is None else _nanoseconds(quiet)
    definition = TABLES[table]
    market_columns = list(definition.partitions or definition.key[:1])
    if not lake.has_table(table):
        return pl.DataFrame(schema=dict.fromkeys(market_columns, pl.String) | _LISTS)
    totals = _totals(lake, definition, market_columns)
    if table == "liquidations" or totals.is_empty():
        return totals.select(
            *market_columns, *(_column(totals, name, dtype) for name, dtype in _LISTS.items())
        )
    spans = _spans(lake, definition, market_columns, totals, most_rows)
    return _with_gaps(totals, spans, market_columns, definition, shortest)


def _column(frame: pl.DataFrame, name: str, dtype: Any) -> pl.Expr:
    return (pl.col(name) if name in frame.columns else pl.lit(None)).cast(dtype).alias(name)


def _nanoseconds(quiet: timedelta) -> int:
    length = round(quiet.total_seconds() * 1e9)
    if length <= 0:
        raise QueryError("quiet", got=quiet, expected="a length above zero")
    return length


def _totals(lake: LakeReader, table: Table, market: list[str]) -> pl.DataFrame:
    """Return rows, bytes and times of each market of a table, from the log if the log names the markets."""
    if table.partitions:
        files = files_of(lake, table)
        totals = (pl.col("rows").sum(), pl.col("bytes").sum(), pl.col("first").min(), pl.col("last").max())
        return files.group_by(market).agg(totals).filter(pl.col("rows") > 0).sort(market)
    time = pl.col("timestamp")
    counts = lake.scan(table.name).group_by(market).agg(rows=pl.len(), first=time.min(), last=time.max())
    return counts.sort(market).collect(engine="streaming")


def _spans(
    lake: LakeReader, table: Table, market: list[str], totals: pl.DataFrame, most_rows: int | None
) -> pl.DataFrame:
    """Return the spans in which a table has events of a market: ``first`` and ``last``, ends included. [ns]"""
    if most_rows is None or not table.partitions or totals["rows"].sum() <= most_rows:
        return _by_events(lake, table, market)
    minutes_and_spans = list(_by_minutes(lake, table, totals, most_rows)) if table.name in _MINUTES else []
    files = _by_files(lake, table)
    if not minutes_and_spans:
        return files
    minutes = pl.concat(minutes_and_spans)
    return pl.concat(
        [minutes, files.join(minutes.select(market).unique(), on=market, how="anti")], how="diagonal"
    )


def _by_events(lake: LakeReader, table: Table, market: list[str]) -> pl.DataFrame:
    """Return the times of the first and the last event of each minute."""
    time = pl.col("timestamp")
    end = time + pl.col("interval") if "interval" in table.names else time
    return (
        lake.scan(table.name)
        .group_by(*market, __minute=time // MINUTE)
        .agg(first=time.min(), last=end.max())
        .select(*market, *_TIMES, gaps_from=pl.lit("events"))
        .collect(engine="streaming")
    )


def _by_files(lake: LakeReader, table: Table) -> pl.DataFrame:
    """Return the times of the first and the last event of each file, and ``usual``, the mean distance inside files."""
    files = files_of(lake, table).filter(pl.col("first").is_not_null())
    mean_distance = (pl.col("last") - pl.col("first")).sum() / pl.col("rows").sum()
    usual = mean_distance.over(table.partitions)
    return files.select(*table.partitions, *_TIMES, gaps_from=pl.lit("files"), usual=usual)


def _by_minutes(
    lake: LakeReader, table: Table, totals: pl.DataFrame, most_rows: int
) -> Iterator[pl.DataFrame]:
    """Yield the stored minutes of markets, and the spans of files with events that came after the rollup."""
    table_of_minutes = _MINUTES[table.name]
    if not lake.has_table(table_of_minutes):
        return
    stored_minutes = lake.delta(table_of_minutes)
    if _delta.file_log(stored_minutes)["rows"].fill_null(most_rows + 1).sum() > most_rows:
        return
    markets = totals.select(table.partitions)
    stored_minutes.read_notes(markets.height)
    raw = lake.delta(table.name)  # opened after the minutes, so no older than they are
    outdated = {
        name: _outdated_spans(stored_minutes, RECIPES[table_of_minutes], raw, name) for name in markets.rows()
    }
    spans_by_market = {name: spans for name, spans in outdated.items() if spans is not None}
    if not spans_by_market:
        return
    names = pl.DataFrame(list(spans_by_market), schema=table.partitions, orient="row")
    minutes = _delta.scanned(stored_minutes, ROLLUP_TABLES[table_of_minutes], lake.storage_options)
    time = pl.col("timestamp")
    has_times = "first_timestamp" in ROLLUP_TABLES[table_of_minutes].names
    first, last = (
        (pl.col("first_timestamp"), pl.col("last_timestamp")) if has_times else (time, time + MINUTE)
    )
    yield (
        minutes.join(names.lazy(), on=table.partitions, how="semi")
        .select(*table.partitions, first=first, last=last, gaps_from=pl.lit("minutes"))
        .collect(engine="streaming")
    )
    spans_of_files = [
        (*name, start, end - 1, "minutes")
        for name, spans in spans_by_market.items()
        for file in lake._files(table.name, *name)
        if file.first is not None and file.last is not None
        for start, end in intersected((file.first, file.last + 1), spans)
    ]
    schema = dict.fromkeys(table.partitions, pl.String) | _TIMES | {"gaps_from": pl.String}
    yield pl.DataFrame(spans_of_files, schema=schema, orient="row")


def _outdated_spans(
    stored: _delta.Opened, recipe: Recipe, raw: _delta.Opened, market: tuple[str, ...]
) -> list[tuple[int, int]] | None:
    """Return the spans whose stored minutes lack events; None if no minutes of the market are stored."""
    note = noted(stored, market)  # type: ignore[arg-type]  # exchange and symbol
    if note is None:
        return None
    state, _ = note
    return [*stale(recipe, raw, market, state), (state.until, 2**63 - 1)]  # type: ignore[arg-type]


def _with_gaps(
    totals: pl.DataFrame, spans: pl.DataFrame, market: list[str], table: Table, shortest: int
) -> pl.DataFrame:
    factor = _OF_STATES if table.tells_states and "interval" not in table.names else _OF_EVENTS
    first, last, length = pl.col("first"), pl.col("last"), pl.col("__length")
    median = length.median().over(market)
    usual = pl.coalesce("usual", median) if "usual" in spans.columns else median
    usual = (usual * factor).fill_null(0).cast(pl.Int64)
    spans_with_previous = (
        spans.sort(*market, "first", "last")
        .with_columns(__before=last.cum_max().shift(1).over(market))
        .with_columns(__length=first - pl.col("__before"))
        .with_columns(quiet=pl.max_horizontal(pl.lit(shortest, pl.Int64), usual))
    )
    is_gap = length >= pl.col("quiet")
    is_listed = is_gap & (length.rank("ordinal", descending=True) <= _MOST_GAPS)
    lists = spans_with_previous.group_by(market, maintain_order=True).agg(
        pl.col("quiet").first(),
        pl.col("gaps_from").first(),
        gaps=is_gap.sum().cast(pl.Int64),
        longest_gap=length.filter(is_gap).max(),
        gap_starts=pl.col("__before").filter(is_listed),
        gap_ends=first.filter(is_listed),
    )
    joined = totals.join(lists, on=market, how="left", maintain_order="left")
    return joined.select(*market, *(_column(joined, name, dtype) for name, dtype in _LISTS.items()))
