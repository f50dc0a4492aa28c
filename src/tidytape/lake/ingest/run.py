"""The ingest itself: read every file, check everything, and only then commit."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from decimal import Decimal
from pathlib import Path

import polars as pl
from tqdm.auto import tqdm

from tidytape.errors import IngestError, QueryError, nearest
from tidytape.lake.batch import Batch, Spool
from tidytape.lake.ingest._job import Job, Layout, Parsed
from tidytape.lake.ingest._lines import digest
from tidytape.lake.ingest._markets import Given, registry_rows
from tidytape.lake.ingest.layouts import LAYOUTS, MAPPED
from tidytape.lake.ingest.recognise import recognised
from tidytape.lake.ingest.report import FileReport, IngestReport, MarketReport
from tidytape.lake.names import storable
from tidytape.lake.store import Lake
from tidytape.lake.tables import BOOK, MARKETS, OPTION_QUOTES, TABLES, TRADES

__all__ = ["ingest"]


def ingest(
    files: str | Path | Iterable[str | Path],
    lake: Lake,
    *,
    layout: str | None = None,
    exchange: str | None = None,
    table: str | None = None,
    raw_symbol: str | None = None,
    normalized_symbol: str | None = None,
    coin: str | None = None,
    category: str | None = None,
    columns: Mapping[str, str] | None = None,
    delimiter: str | None = None,
    time_unit: str | None = None,
    tick_size: Decimal | float | str | None = None,
    block_size: Decimal | float | str | None = None,
    skip_bad: bool = False,
    progress: bool | None = None,
) -> IngestReport:
    r"""Put recorded files into a lake.

    Every file is read and checked before anything is written: a mistake leaves the lake as it was. A file that went
    in before, read the same way, is not read again; rows that came from another file are not added again.

    Parameters
    ----------
    files : path or iterable of paths
        Plain, gzip or zip. A tape that was cut into files is put together again, see `tidytape.lake.order`.
    lake : Lake
        Where they go.
    layout : str, optional
        How the files are written, one of `LAYOUTS`. Where left out, each file's name and first lines tell; a ``csv``,
        ``jsonl`` or ``parquet`` file of one's own is never told.
    exchange : str, optional
        Venue identifier, e.g. ``"BINANCE"``. Files of ``tardis`` and ``tardis-node`` name it themselves, and
        ``cryptofeed`` has one; others need it.
    table : str, optional
        Of a ``csv``, ``jsonl`` or ``parquet``: what its rows are, the name of one of `tidytape.lake.TABLES`; trades
        where left out.
    raw_symbol : str, optional
        The one instrument to take from the files. Files that do not name it need it.
    normalized_symbol, coin : str, optional
        What the instrument is called across exchanges, e.g. ``"BTC-USDT"`` and ``"BTC"``; read out of the raw symbol
        where left out and not registered yet.
    category : str, optional
        Market class, by name or alias. SPOT for a market that is not registered yet.
    columns : mapping of str to str, optional
        Of a ``csv``, ``jsonl`` or ``parquet``: our columns to the file's, e.g. ``{"price": "px"}``.
    delimiter : str, optional
        Of a ``csv``: what stands between its columns; found in the header where left out.
    time_unit : {"iso", "date", "s", "ms", "us", "ns"}, optional
        Of a ``csv``, ``jsonl`` or ``parquet``: how its times are written. Where left out, the first time that is a
        written date and time, or a number that lies between the years 2000 and 2100 in exactly one unit, decides; the
        report says which it was. Dates alone have to be said to be ``date``.
    tick_size : Decimal, int, float or str, optional
        Smallest price step. [quote per coin]
    block_size : Decimal, int, float or str, optional
        Height of a price row of profiles. Where left out, and the market is not registered yet,
        `tidytape.aggregate.recommended_block_size` of its first trade's price. [quote per coin]
    skip_bad : bool
        Leave broken lines out and count them, instead of failing.
    progress : bool, optional
        Show a bar on the standard error; by default if that is a terminal.

    Returns
    -------
    IngestReport

    Raises
    ------
    QueryError
        If an argument cannot be right.
    IngestError
        If a file cannot be read, has broken lines and ``skip_bad`` is not set, or contradicts the lake.
    LakeError
        If the lake cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "trades.csv").write_text("time,px,qty,side\n1693929601,100.5,2,buy\n")
    >>> report = ingest(
    ...     folder / "trades.csv", Lake.create(folder / "lake"), layout="csv", exchange="COINBASE",
    ...     raw_symbol="BTC-USD", columns={"timestamp": "time", "price": "px", "amount": "qty"},
    ... )
    >>> report.trades_new, report.files[0].time_unit, report.markets[0].normalized_symbol
    (1, 's', 'BTC-USD')
    """
    if layout is not None:
        _layout(layout)
    given = Given(normalized_symbol, coin, category, tick_size, block_size)
    if exchange is not None:
        exchange = storable(exchange, parameter="exchange", code="INVALID_EXCHANGE")
    raw_symbol = None if raw_symbol is None else storable(raw_symbol, parameter="raw_symbol")
    choices = {"columns": columns, "time_unit": time_unit, "table": table} if layout not in MAPPED else {}
    if layout != "csv":
        choices["delimiter"] = delimiter
    for name, value in choices.items():
        if value is not None:
            raise QueryError(
                name, got=value, expected=f"nothing, {layout or 'recognised'} files have none to choose"
            )
    paths = [Path(files)] if isinstance(files, str | Path) else [Path(file) for file in files]
    layouts = [layout or recognised(path) for path in paths]
    if table == TRADES.name:
        table = None  # as where it is left out
    # The base asset is a column of some tables; that of trades is the market's, see `Given`.
    of_rows = None if table is None else coin
    jobs = [Job(path, exchange, raw_symbol, columns, delimiter, time_unit, table, of_rows) for path in paths]
    sources = [_source(job, name, skip_bad=skip_bad) for job, name in zip(jobs, layouts, strict=True)]
    with Spool() as spool:
        parsed: list[Parsed | None] = []
        size = sum(path.stat().st_size for path in paths)
        with tqdm(
            total=size, unit="B", unit_scale=True, disable=None if progress is None else not progress
        ) as bar:
            for job, source, name in zip(jobs, sources, layouts, strict=True):
                bar.set_description(job.path.name)
                read = _layout(name)
                # Markets are committed last, so their source stands for the whole file. Saying something about the
                # market takes reading, to know which one.
                done = not given.columns and lake.has_source(MARKETS.name, source)
                parsed.append(
                    None if done else _checked(read(job, spool, bar.update), job, skip_bad=skip_bad)
                )
        return _committed(lake, jobs, sources, parsed, given)


def _layout(name: str) -> Layout:
    if name not in LAYOUTS:
        close = nearest(name, LAYOUTS)
        raise QueryError(
            "layout",
            got=name,
            expected="one of " + ", ".join(LAYOUTS),
            hint=f"did you mean {close!r}?" if close else None,
        )
    return LAYOUTS[name]


def _source(job: Job, layout: str, *, skip_bad: bool) -> str:
    """What names a file and the way it is read: the same file read otherwise has other rows."""
    way = {
        "layout": layout,
        "exchange": job.exchange,
        "raw_symbol": job.raw_symbol,
        "columns": dict(sorted(job.columns.items())) if job.columns else None,
        "delimiter": job.delimiter,
        "time_unit": job.time_unit,
        "table": job.table,
        "coin": job.coin,
        "skip_bad": skip_bad,
    }
    said = {name: value for name, value in way.items() if value}
    return f"sha256:{digest(job.path)} {json.dumps(said, sort_keys=True)}"


def _checked(parsed: Parsed, job: Job, *, skip_bad: bool) -> Parsed:
    bad = parsed.bad
    if bad.count and not (skip_bad and parsed.batches):
        line, reason = bad.first[0]
        more = f"; {bad.count} bad lines in all" if bad.count > 1 else ""
        hint = " and no good one" if skip_bad else "; skip_bad (--skip-bad) leaves them out"
        raise IngestError(
            f"{job.path}:{line}: {reason}{more}{hint}", path=str(job.path), line=line, bad_lines=bad.count
        )
    return parsed


def _committed(
    lake: Lake, jobs: list[Job], sources: list[str], parsed: list[Parsed | None], given: Given
) -> IngestReport:
    files = [one for one in parsed if one is not None]
    registered = lake.markets()
    markets, guesses = registry_rows(files, given, registered)
    # All files together, so that two that contradict each other leave no trace either.
    for table in TABLES.values():
        together = Batch(table)
        together.parts = [
            part for one in files for batch in one.batches if batch.table is table for part in batch
        ]
        if together.parts:
            lake.check(together)
    reports = []
    for job, source, one in zip(jobs, sources, parsed, strict=True):
        if one is None:
            reports.append(FileReport(str(job.path), already_ingested=True))
            continue
        new = {
            batch.table: lake.append(batch.table.name, batch, source=source).rows_new for batch in one.batches
        }
        reports.append(
            FileReport(
                path=str(job.path),
                lines=one.lines,
                trades_read=one.batch(TRADES).rows,
                trades_new=new.get(TRADES, 0),
                book_rows_read=one.batch(BOOK).rows,
                book_rows_new=new.get(BOOK, 0),
                quotes_read=one.batch(OPTION_QUOTES).rows,
                quotes_new=new.get(OPTION_QUOTES, 0),
                bad_lines=one.bad.count,
                first_bad_lines=tuple(one.bad.first),
                ignored=tuple(sorted(one.ignored.items())),
                time_unit=one.time_unit,
            )
        )
    # Last, so that a market is never without its events. Whoever dies before reads the files again.
    read = [source for source, one in zip(sources, parsed, strict=True) if one is not None]
    if read:
        lake.register(markets, replace=given.columns, sources=read)
    known = [job for job, one in zip(jobs, parsed, strict=True) if one is None]
    return IngestReport(tuple(reports), _market_reports(lake, markets, known, guesses))


def _market_reports(
    lake: Lake, touched: pl.DataFrame, known: list[Job], guesses: set[tuple[str, str]]
) -> tuple[MarketReport, ...]:
    key = ["exchange", "raw_symbol"]
    names = [*key, "normalized_symbol", "coin", "quote_coin", "category", "block_size"]
    instruments = set(touched.select(key).iter_rows())

    def concerned(exchange: str, raw_symbol: str) -> bool:
        # A file that went in before was not read again, so it may be of any instrument of its venue.
        return (exchange, raw_symbol) in instruments or any(
            job.exchange in {None, exchange} and job.raw_symbol in {None, raw_symbol} for job in known
        )

    return tuple(
        MarketReport(
            **row,
            trades=lake.scan(TRADES.name, exchange=row["exchange"], raw_symbol=row["raw_symbol"])
            .select(pl.len())
            .collect()
            .item(),
            guessed=(row["exchange"], row["raw_symbol"]) in guesses,
        )
        for row in lake.markets().sort(key).select(names).iter_rows(named=True)
        if concerned(row["exchange"], row["raw_symbol"])
    )
