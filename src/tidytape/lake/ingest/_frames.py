"""Put frames of polars and pandas into a lake, with the checks, reports and rules for repeated rows of files."""

from __future__ import annotations

import dataclasses
import hashlib
import io
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa

from tidytape.errors import QueryError
from tidytape.frames._door import READABLE
from tidytape.lake._batch import Spool
from tidytape.lake._lake import Lake
from tidytape.lake._tables import TRADES
from tidytape.lake.ingest._columns import known_columns
from tidytape.lake.ingest._layout import Job, Parsed, Progress
from tidytape.lake.ingest._mapped import Mapped
from tidytape.lake.ingest._mapped_rows import MappedRows
from tidytape.lake.ingest._market import Market, require_market
from tidytape.lake.ingest._report import IngestReport
from tidytape.lake.ingest._run import require_good, source_of
from tidytape.lake.ingest._write import Writer, fill_funding_intervals

if TYPE_CHECKING:
    import pandas as pd

_NAME = Path("frame")
"""Name of a frame in reports and errors, which name a file by its path."""

_ROWS = 250_000
"""Most rows that are checked at once."""


def ingest_frame(
    frame: Any,
    lake: Lake,
    *,
    table: str = TRADES.name,
    market: Market | None = None,
    columns: Mapping[str, str] | None = None,
    words: Mapping[str, Mapping[str, str]] | None = None,
    time_unit: str | Mapping[str, str] | None = None,
    time_zone: str | None = None,
    interval: str | None = None,
    stamped: str | None = None,
    volatility_unit: str | None = None,
    rate_unit: str | None = None,
    skip_bad: bool = False,
    replace: bool = False,
) -> IngestReport:
    """Put a frame into a lake, as `ingest` does with a file.

    It checks values, converts amounts and registers markets. Rows that are in the lake already are not added again, and
    a frame that was ingested before changes nothing. Rows that have every column of a table can be added unchanged with
    `tidytape.lake.LakeWriter.append`.

    Parameters
    ----------
    frame : polars.DataFrame or pandas.DataFrame, one row per event
        Columns of the table, or of the map. A column of the same name with capitals, such as ``Open``, counts too. In
        pandas an index of times is ``timestamp``, and the levels of another index that have names are columns.
    lake : Lake
        The lake to write to.
    table : str
        The table that the rows go into: the name of one of `tidytape.lake.TABLES`.
    market : tidytape.lake.ingest.Market, optional
        What the frame does not say about its market: mostly exchange and raw symbol, e.g.
        ``Market(exchange="X", raw_symbol="BTC-USD")``.
    columns : mapping of str to str, optional
        Our columns to the frame's, e.g. ``{"price": "px"}``.
    time_unit : {"iso", "date", "s", "ms", "us", "ns"} or mapping of str to one of them, optional
        How times are written, if they are whole numbers or text. Times with a zone need no unit; ``iso`` says that
        times without a zone are in UTC, and ``date`` that dates stand for their first instant in UTC.
    time_zone : str, optional
        Zone of times without one, e.g. ``"America/New_York"``.
    interval : str, optional
        Length of all candles, e.g. ``"1h"``; needed if candles have no column ``interval``.
    words, stamped, volatility_unit, rate_unit
        See `Csv`.
    skip_bad : bool
        Leave broken rows out and count them, instead of failing. A line number in the report is that of a row, from 1.
    replace : bool
        As in `ingest`.

    Returns
    -------
    tidytape.lake.ingest.IngestReport

    Raises
    ------
    QueryError
        If an argument cannot be right, a column is missing or ambiguous, a column has values of several types, the rows
        are of several exchanges, or a time has neither zone nor unit.
    IngestError
        If a row is broken and ``skip_bad`` is not set, or contradicts the lake.
    LakeError
        If the lake cannot be written.

    Examples
    --------
    Candles as ccxt returns them:

    >>> import polars as pl, tempfile
    >>> from tidytape.lake import Lake
    >>> from tidytape.lake.ingest import Market
    >>> ohlcv = [[1700000040000, 10.0, 12.0, 9.0, 11.0, 3.5]]
    >>> candles = pl.DataFrame(
    ...     ohlcv, schema=["timestamp", "open", "high", "low", "close", "volume"], orient="row"
    ... )
    >>> lake = Lake.create(tempfile.mkdtemp())
    >>> report = ingest_frame(
    ...     candles, lake, table="candles", interval="1m", time_unit="ms",
    ...     market=Market(exchange="KRAKEN", raw_symbol="BTC/USD"),
    ... )
    >>> print(report.files[0])
    frame: 1 candle; times in ms
    """
    market = market or Market()
    require_market(market)
    layout = FrameRows(
        table=table,
        columns=columns,
        words=words,
        time_unit=time_unit,
        time_zone=time_zone,
        interval=interval,
        stamped=stamped,
        volatility_unit=volatility_unit,
        rate_unit=rate_unit,
    )
    rows = _polars(frame, layout)
    layout = dataclasses.replace(layout, rows=rows)
    layout.require_used(market)
    job = Job(_NAME, market, layout)
    ipc_file = io.BytesIO()
    rows.write_ipc(ipc_file)
    writer = Writer(lake, market, replace=replace)
    with Spool() as spool:
        parsed = layout.read(job, spool, lambda _: None)
        require_good(parsed, job, skip_bad=skip_bad)
        fill_funding_intervals(job, parsed)
        digest = hashlib.sha256(ipc_file.getbuffer()).hexdigest()
        writer.put(job, parsed, source_of(digest, job, layout, skip_bad=skip_bad))
    return writer.report()


@dataclass(frozen=True, kw_only=True)
class FrameRows(Mapped):
    """The rows of a frame, with a map of their columns."""

    name = "frame"

    rows: pl.DataFrame = field(default_factory=pl.DataFrame)

    def may_read(self, name: str) -> bool:
        """Return whether a column may be one of ours, by the map or by its name."""
        mapped = {part for text in (self.columns or {}).values() for part in (text, *text.split("+"))}
        return name in mapped or name.lower() in known_columns(self.of)

    def read(self, job: Job, spool: Spool, progress: Progress) -> Parsed:
        """Read the frame."""
        parsed = Parsed(spool)
        data = self.rows.to_arrow()
        rows = MappedRows.of_arrow(self, job, data.schema, parsed)
        for column in self.time_columns:
            if column in rows.mapped and self.time_of(column) is None and self.time_zone is None:
                for name in rows.named(rows.mapped[column]):
                    _require_zoned(data.schema.field(name))
        try:
            for start in range(0, data.num_rows, _ROWS):
                rows.take_arrow(data.slice(start, _ROWS))
        except pl.exceptions.PolarsError as error:  # e.g. durations, or bytes that are not text
            reason = str(error).partition("\n")[0]
            raise QueryError("frame", got=reason, expected=f"columns of {READABLE}") from None
        rows.finish()
        return parsed


def _polars(frame: Any, layout: FrameRows) -> pl.DataFrame:
    """Return a frame as a frame of polars: named levels of the index, and an index of times, become columns.

    Columns that polars cannot hold are left out; QueryError if such a column may be ours.
    """
    import pandas as pd

    if isinstance(frame, pl.DataFrame):
        columns: dict[str, Any] = frame.to_dict()
    elif isinstance(frame, pd.DataFrame):
        flat = _flat(frame)
        columns = {name: flat[name] for name in flat.columns}
    else:
        raise QueryError("frame", got=type(frame).__name__, expected="an eager frame of polars or pandas")
    series = {name: _as_series(column) for name, column in columns.items()}
    for name, column in series.items():
        if column is None and layout.may_read(name):
            dtype_of_column = f"{columns[name].dtype} in column {name}"
            raise QueryError("frame", got=dtype_of_column, expected=f"one kind of {READABLE}")
    return pl.DataFrame({name: column for name, column in series.items() if column is not None})


def _flat(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a frame of pandas with its index among its columns, and with names of one level."""
    import pandas as pd

    names = [str(name) for name in frame.columns.get_level_values(0)]
    if len(set(names)) < len(names):
        raise QueryError(
            "frame",
            got="columns that are called alike",
            expected="one market; of several tickers take each, frame.xs(ticker, axis=1, level=1)",
        )
    index = frame.index.rename("timestamp") if isinstance(frame.index, pd.DatetimeIndex) else frame.index
    levels = [level for level, name in enumerate(index.names) if name is not None]
    for name in (str(index.names[level]) for level in levels):
        if name in names:
            hint = "frame.reset_index(drop=True) leaves the index out"
            raise QueryError("frame", got=f"{name} in the index and in a column", expected="one", hint=hint)
        names.append(name)
    flat = frame.set_axis(names[: frame.shape[1]], axis=1)
    for level in levels:
        flat[str(index.names[level])] = index.get_level_values(level)
    return flat


def _as_series(column: Any) -> pl.Series | None:
    """Return a column as a series of polars that Arrow can hold, or None."""
    try:
        series = column if isinstance(column, pl.Series) else pl.from_pandas(column)
        if series.dtype == pl.Object:
            return None
        series.to_arrow()
    except (pa.ArrowException, pl.exceptions.PolarsError, TypeError, ValueError, OverflowError):
        return None
    return series


def _require_zoned(column: pa.Field) -> None:
    """Raise QueryError if times are numbers or text, and the caller does not say how they are written."""
    if not pa.types.is_timestamp(column.type):
        raise QueryError(
            "time_unit",
            got=None,
            expected=f"how the times of {column.name} are written, e.g. ms: they are {column.type}, whose unit is not "
            "guessed",
        )
