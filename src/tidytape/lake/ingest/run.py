"""The ingest itself: files are read at once, and go into the lake one after the other."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

from tqdm.auto import tqdm

from tidytape.errors import IngestError, QueryError, TidytapeError, did_you_mean
from tidytape.lake.ingest._candles import length
from tidytape.lake.ingest._job import Job
from tidytape.lake.ingest._markets import Given
from tidytape.lake.ingest._read import Reader
from tidytape.lake.ingest._time import told
from tidytape.lake.ingest._write import Writer
from tidytape.lake.ingest.layouts import LAYOUTS, MAPPED, WITHOUT_FUNDING
from tidytape.lake.ingest.report import IngestReport
from tidytape.lake.names import storable
from tidytape.lake.store import Lake
from tidytape.lake.tables import FUNDING, RECORDED_CANDLES, TRADES
from tidytape.query import values
from tidytape.times import MILLISECOND

__all__ = ["ingest"]

_MOST_WORKERS = 4


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
    time_unit: str | Mapping[str, str] | None = None,
    time_format: str | None = None,
    tick_size: Decimal | float | str | None = None,
    block_size: Decimal | float | str | None = None,
    contract: str | None = None,
    contract_size: Decimal | float | str | None = None,
    amount_unit: str | None = None,
    interval: str | None = None,
    funding_interval: int | str | timedelta | None = None,
    skip_bad: bool = False,
    workers: int | None = None,
    progress: bool | None = None,
) -> IngestReport:
    r"""Put recorded files into a lake.

    Each file goes in as a whole or not at all, in the order given: one that cannot be read, has broken lines or
    contradicts the lake is left out, the others go in, and at the end an error names what was left out. A file that
    went in before, read the same way, is not read again; rows that came from another file are not added again. Whoever
    is killed on the way runs it again, and has the lake of an undisturbed run.

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
        Market class, by name or alias. Where left out, and the market is not registered yet: PERPETUAL of what has
        funding, SPOT of what is traded; of layouts that tell of venues of every class, none.
    columns : mapping of str to str, optional
        Of a ``csv``, ``jsonl`` or ``parquet``: our columns to the file's, e.g. ``{"price": "px"}``.
    delimiter : str, optional
        Of a ``csv``: what stands between its columns; found in the header where left out.
    time_unit : {"iso", "date", "s", "ms", "us", "ns"} or mapping of str to one of them, optional
        Of a ``csv``, ``jsonl`` or ``parquet``: how its times are written, in all columns or by our name of each, e.g.
        ``{"timestamp": "iso", "expiry": "date"}``. Where left out, the first time that is a
        written date and time, or a number that lies between the years 2000 and 2100 in exactly one unit, decides; the
        report says which it was. Dates alone have to be said to be ``date``.
    time_format : str, optional
        Instead of ``time_unit``, of times written in another way: what they look like, in the directives of
        ``strftime``, e.g. ``"%d-%m-%Y %H:%M:%S"``. Which number is the day is never found out. Without ``%z`` they are
        in UTC.
    tick_size : Decimal, int, float or str, optional
        Smallest price step. [quote per coin]
    block_size : Decimal, int, float or str, optional
        Height of a price row of profiles. Where left out, and the market is not registered yet,
        `tidytape.aggregate.recommended_block_size` of the first trade's price in the first file of it.
        [quote per coin]
    contract : {"INVERSE", "LINEAR", "VANILLA"}, optional
        Amounts in the files are numbers of contracts, of this kind, and are converted, see
        `tidytape.lake.ingest.contracts`. The registry keeps it: left out, the registered kind and size hold.
    contract_size : Decimal, int, float or str, optional
        Size of one contract; 1 for VANILLA. [quote per contract if INVERSE, else coin per contract]
    amount_unit : {"coin", "quote", "contracts"}, optional
        What amounts in the files count, volumes of candles included; it holds for all tables and markets of the files,
        and the registry keeps it. Left out, the file, the symbol or the exchange has to say it, see
        `tidytape.lake.amount_units`; what counts contracts or the quote, or an unknown unit, is refused.
        ``"contracts"`` needs ``contract`` and ``contract_size``. Amounts in the quote are divided by their price;
        candles have none, so their volume becomes ``quote_volume``, and their volume in coin is null.
    interval : str, optional
        Of a ``csv``, ``jsonl`` or ``parquet`` of candles: how long all of them are, e.g. ``"1h"``, where no column
        tells.
    funding_interval : int, str or timedelta, optional
        Time between settlements of the funding reports that state none, e.g. ``"8h"``: without it they are not served.
        One that a file states holds. A report that is in the lake without it cannot get it. [ms]
    skip_bad : bool
        Leave broken lines out and count them, instead of failing.
    workers : int, optional
        How many files are read at once, in threads; what goes in, and in which order, does not depend on it. At most
        4 by default, and not more than there are processors. Each takes some 200 MB.
    progress : bool, optional
        Show a bar on the standard error; by default if that is a terminal.

    Returns
    -------
    IngestReport

    Raises
    ------
    QueryError
        If an argument cannot be right, or amounts count contracts, the quote or an unknown unit and nothing was said
        about them: for none of the files. Where it is for some, it is their failure.
    IngestError
        If a file cannot be read, has broken lines and ``skip_bad`` is not set, or contradicts the lake. Of several
        files ``failures`` has the reason of each, and ``report`` says what became of the others.
    LakeError
        If the lake cannot be written. Files before that went in.

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
        _known(layout)
    given = Given(
        normalized_symbol, coin, category, tick_size, block_size, contract, contract_size, amount_unit
    )
    if exchange is not None:
        exchange = storable(exchange, parameter="exchange", code="INVALID_EXCHANGE")
    raw_symbol = None if raw_symbol is None else storable(raw_symbol, parameter="raw_symbol")
    _require_used(
        layout,
        columns=columns,
        time_unit=time_unit,
        time_format=time_format,
        table=table,
        delimiter=delimiter,
        interval=interval,
        funding_interval=funding_interval,
    )
    if workers is None:
        workers = min(_MOST_WORKERS, os.cpu_count() or 1)
    elif workers < 1:
        raise QueryError("workers", got=workers, expected="a number from 1")
    paths = [Path(files)] if isinstance(files, str | Path) else [Path(file) for file in files]
    if table == TRADES.name:
        table = None  # as where it is left out
    # The base asset is a column of some tables; that of trades is the market's, see `Given`.
    of_rows = None if table is None else coin
    job = Job(
        Path(),
        exchange=exchange,
        raw_symbol=raw_symbol,
        columns=columns,
        delimiter=delimiter,
        time_unit=told(time_unit, time_format),
        table=table,
        coin=of_rows,
        interval=None if interval is None else length(interval),
        funding_interval=_nanoseconds(funding_interval),
        layout=layout,
    )
    jobs = [replace(job, path=path) for path in paths]
    # Saying something about the market takes reading, to know which one.
    reader = Reader(lake=lake, skip_bad=skip_bad, again=bool(given.columns or given.unit))
    writer = Writer(lake, given)
    failures = _put_all(jobs, reader, writer, workers=min(workers, len(jobs)), progress=progress)
    report = writer.report()
    if not failures:
        return report
    if not report.files and all(isinstance(error, QueryError) for _, error in failures):
        # Whatever was asked is wrong for every file, so it is what was asked that is wrong.
        raise failures[0][1]
    raise _failed(failures, report)


def _known(layout: str) -> None:
    if layout not in LAYOUTS:
        raise QueryError(
            "layout",
            got=layout,
            expected="one of " + ", ".join(LAYOUTS),
            hint=did_you_mean(layout, LAYOUTS),
        )


def _require_used(layout: str | None, *, table: str | None, **said: object) -> None:
    """Raise QueryError where something was said that means nothing to the layout and table."""
    mapped = layout in MAPPED
    uses = {
        "columns": mapped,
        "time_unit": mapped,
        "time_format": mapped,
        "table": mapped,
        "delimiter": layout == "csv",
        "interval": mapped and table == RECORDED_CANDLES.name,
        "funding_interval": table == FUNDING.name if mapped else layout not in WITHOUT_FUNDING,
    }
    files = f"{layout} files of {table or TRADES.name}" if mapped else f"{layout or 'recognised'} files"
    for name, value in {**said, "table": table}.items():
        if value is not None and not uses[name]:
            raise QueryError(name, got=value, expected=f"nothing, {files} have none to choose")


def _nanoseconds(duration: int | str | timedelta | None) -> int | None:
    if duration is None:
        return None
    return values.milliseconds(duration, parameter="funding_interval") * MILLISECOND


def _put_all(
    jobs: Sequence[Job], reader: Reader, writer: Writer, *, workers: int, progress: bool | None
) -> list[tuple[str, TidytapeError]]:
    """Put every file in that can be, and return what is wrong with each of the others; of one file it is raised."""
    failures: list[tuple[str, TidytapeError]] = []
    with tqdm(
        total=sum(_size(job.path) for job in jobs),
        unit="B",
        unit_scale=True,
        disable=None if progress is None else not progress,
    ) as bar:
        for read in reader.read(jobs, workers=workers, progress=bar.update):
            bar.set_description(read.job.path.name)
            with read.spool:
                try:
                    writer.put(read)
                except (IngestError, QueryError) as error:
                    if len(jobs) == 1:
                        raise
                    failures.append((str(read.job.path), error))
    return failures


def _size(path: Path) -> int:
    try:
        return path.stat().st_size if path.is_file() else 0
    except (OSError, ValueError):  # reading it will tell why
        return 0


def _failed(failures: list[tuple[str, TidytapeError]], report: IngestReport) -> IngestError:
    count = len(failures) + len(report.files)
    others = ", the others did" if report.files else ""
    reasons = (
        error.message if error.message.startswith(path) else f"{path}: {error.message}"
        for path, error in failures
    )
    lines = "".join(f"\n  {reason}" for reason in reasons)
    return IngestError(
        f"{len(failures)} of {count} files did not go into the lake{others}:{lines}",
        failures=tuple(failures),
        report=report,
    )
