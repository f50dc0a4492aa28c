"""Candles without gaps: an interval without trades repeats the close before it."""

from __future__ import annotations

from typing import Any

import narwhals.stable.v2 as nw
from narwhals.stable.v2.typing import IntoFrameT

from tidytape.aggregate.resample import series_of
from tidytape.frames.joined import COVERAGE, last_known
from tidytape.frames.table import Table
from tidytape.times import SECOND, interval_of

__all__ = ["gapfill"]

_TIMES = ("first_timestamp", "last_timestamp")
_UNIT = "amount_unit"
_NEEDED = ("timestamp", "open", "high", "low", "close", "volume", *_TIMES)
_BASE = 4  # of the digits that buckets are counted with
_REAL, _DIGIT, _ALL = "__real", "__digit", "__all"


def gapfill(
    candles: IntoFrameT, /, *, interval: str, start: int, end: int, last: IntoFrameT | None = None
) -> IntoFrameT:
    """Candles with every gap of a window filled: open, high, low and close are the last close, and no volume.

    No close is invented: what lies before the first known close of a series stays absent.

    Parameters
    ----------
    candles : frame, n rows, key (series, timestamp), in any order
        Schema of a candle type, as a client returns it. Times are int64 [ns since the epoch] or have a zone. Of the
        columns that name a series, those it has count; ``side`` is one.
    interval : str
        Name or alias of the candles' interval.
    start, end : int
        The window, start inclusive, end exclusive: the intervals that start in it are filled. [ns since the epoch]
    last : frame, one row per series, of the same kind as ``candles``, optional
        The last close of each series before the window: the columns that name a series, and ``close``
        [quote per coin]. A series of which there is no candle is filled from it too.

    Returns
    -------
    frame, the rows of ``candles`` and one per gap; of the same kind as ``candles``
        The same columns, times and categories of the same types. Filled rows have ``volume`` 0 [as in ``candles``],
        ``coverage`` 1 and the ``amount_unit`` of the nearest candle of the series, the ones before it first, if the
        frame has these columns. They are null in ``first_timestamp``, ``last_timestamp``, ``is_final`` and columns that
        the schema does not know. Sorted by series and ``timestamp`` where the engine keeps order.

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If the interval is unknown, or a time has no zone.

    Examples
    --------
    >>> import polars as pl
    >>> minute = 60_000_000_000
    >>> candles = pl.DataFrame(
    ...     {
    ...         "exchange": "X",
    ...         "raw_symbol": "BTCUSDT",
    ...         "timestamp": [minute],
    ...         **dict.fromkeys(("open", "high", "low", "close"), 10.0),
    ...         "volume": 2.0,
    ...         "first_timestamp": minute + 5,
    ...         "last_timestamp": minute + 5,
    ...     }
    ... )
    >>> filled = gapfill(candles, interval="1m", start=0, end=3 * minute)
    >>> filled.select("timestamp", "open", "close", "volume", "last_timestamp").rows()
    [(60000000000, 10.0, 10.0, 2.0, 60000000005), (120000000000, 10.0, 10.0, 0.0, None)]
    """
    unit = interval_of(interval)
    step, offset = unit.seconds * SECOND, unit.offset * SECOND
    begin = -(-(start - offset) // step) * step + offset
    table = Table.opened(candles, _NEEDED, times=["timestamp", *_TIMES])
    frame: Any = table.rows
    schema = frame.collect_schema()
    columns = schema.names()
    named = series_of(frame, "TRADE_AGG")
    series = [*named, _ALL]
    has_unit = [name for name in columns if name == _UNIT]
    frame = frame.with_columns(nw.col(name).cast(nw.String()) for name in has_unit)
    no_unit = [nw.lit(None, nw.String()).alias(name) for name in has_unit]
    rows = [frame.select(*named, "timestamp", "close", *has_unit)]
    if last is not None:
        before = Table.opened(last, [*named, "close"], parameter="last").rows
        words = [nw.col(name).cast(nw.Categorical()) for name in named if schema[name] == nw.Categorical]
        before = before.with_columns(words)
        rows.append(
            before.select(*named, nw.lit(begin - 1, nw.Int64()).alias("timestamp"), "close", *no_unit)
        )
    real = nw.concat(rows).with_columns(nw.lit(0).alias(_ALL), nw.lit(1).alias(_REAL))
    names = real.select(*series).unique()
    numbers = _numbers(names.head(1), max(0, -(-(end - begin) // step)))
    gaps = names.join(numbers, how="cross").select(
        *named,
        (nw.col(_DIGIT) * step + begin).alias("timestamp"),
        nw.lit(None, nw.Float64()).alias("close"),
        *no_unit,
        _ALL,
        nw.lit(0).alias(_REAL),
    )
    stamps = nw.concat([real, gaps])
    taken = nw.col(_REAL).max().over(*series, "timestamp")
    stamps = stamps.with_columns(taken.alias("__taken")).filter(nw.col(_REAL) == nw.col("__taken"))
    filled = stamps.with_columns(
        last_known(name, by=series, order=["timestamp"]) for name in ("close", *has_unit)
    )
    later = [
        nw.col(name).fill_null(strategy="backward").over(*series, order_by="timestamp") for name in has_unit
    ]
    filled = filled.with_columns(later) if later else filled
    filled = filled.filter((nw.col(_REAL) == 0) & ~nw.col("close").is_null()).select(
        *named,
        "timestamp",
        *(nw.col("close").alias(name) for name in ("open", "high", "low", "close")),
        nw.lit(0.0).alias("volume"),
        *(nw.lit(1.0).alias(COVERAGE) for name in columns if name == COVERAGE),
        *has_unit,
    )
    whole = nw.concat([frame, filled], how="diagonal")
    return table.closed(whole, sort=[*named, "timestamp"])


def _numbers(one: Any, count: int) -> Any:
    """Return the whole numbers below ``count``, made of one row so that they are of its engine; none of no row."""
    digits = nw.concat([one.select(nw.lit(digit, nw.Int64()).alias(_DIGIT)) for digit in range(_BASE)])
    numbers, reach = digits, _BASE
    while reach < count:
        higher = digits.select((nw.col(_DIGIT) * reach).alias("__higher")).filter(nw.col("__higher") < count)
        numbers = numbers.join(higher, how="cross").select(
            (nw.col(_DIGIT) + nw.col("__higher")).alias(_DIGIT)
        )
        reach *= _BASE
    return numbers.filter(nw.col(_DIGIT) < count)
