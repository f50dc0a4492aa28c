"""Points to points of a coarser interval, and candles with gaps filled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

import narwhals.stable.v2 as nw
from narwhals.stable.v2.typing import IntoFrameT

from tidytape.aggregate._straddling import STRADDLES, buckets, require_whole, with_straddles
from tidytape.catalogue import AMOUNT, DATA_TYPES
from tidytape.errors import QueryError
from tidytape.frames._door import BUCKET, OHLC
from tidytape.frames._joined import (
    COVERAGE,
    IDLE,
    TRADED,
    last_known,
    reduced,
    traded,
    with_coverage,
    with_fills,
    with_times,
)
from tidytape.frames._rows import spread, with_all
from tidytape.frames._table import OpenTable, Rows, tabular
from tidytape.frames._times import bucket_start, length_of
from tidytape.frames._trading_clock import TradingClock
from tidytape.frames._units import AMOUNT_UNIT, has_one_unit
from tidytape.query._values import TimeLike, epoch_seconds
from tidytape.schema import schema_of, type_hint
from tidytape.sessions import Session
from tidytape.times import SECOND, FrameInterval, frame_interval

CANDLES: Final = ("TRADE_SIDE_AGNOSTIC_AGG", "TRADE_AGG")
"""The candle types."""

_RESAMPLABLE = (
    *CANDLES,
    "OPEN_INTEREST_AGG",
    "FUNDING_RATE_AGG",
    "LIQUIDATION_AGG",
    "VOLUME_PROFILE_AGG",
    "CME_OPEN_INTEREST_AGG",
)


def _needed(
    *, data_type: str, interval: str, source: str | None = None, session: Session | None = None
) -> list[str]:
    length = frame_interval(interval)
    if data_type not in _RESAMPLABLE:
        raise QueryError(
            "data_type",
            got=data_type,
            expected="one of " + ", ".join(_RESAMPLABLE),
            hint="aggregate its raw events at the interval wanted"
            if data_type in DATA_TYPES
            else type_hint(data_type),
            code="UNSUPPORTED",
        )
    if source is not None:
        _require_multiple(length, frame_interval(source))
    more_keys = [name for name in ("side", "price") if name in schema_of(data_type).key]
    return [*(name for name in payload_of(data_type) if name not in TRADED), "timestamp", *more_keys]


def _check_source(
    points: OpenTable[Any],
    *,
    data_type: str,
    interval: str,
    source: str | None = None,
    session: Session | None = None,
) -> OpenTable[Any]:
    """Raise QueryError unless ``interval`` is a multiple of all intervals of the points, and each lies in one.

    The points in memory get the column `STRADDLES`, so that nobody looks for such points again.
    """
    length = frame_interval(interval)
    if source is None:
        for finer in intervals_of(points):
            _require_multiple(length, finer)
    if points.is_eager and (source is not None or "interval" in points.names):
        rows = points.rows.filter(~nw.col("timestamp").is_null())
        clock, start_of = buckets(session, length, rows)
        rows = with_straddles(rows, _own_length(source), start_of, clock)
        require_whole(rows, "interval", session, parameter="points")
        points = replace(points, rows=points.rows.with_columns(nw.lit(value=False).alias(STRADDLES)))
    return points


def _require_multiple(coarser: FrameInterval, finer: FrameInterval) -> None:
    """Raise QueryError unless the coarser interval is a multiple of the finer one."""
    if coarser.seconds % finer.seconds:
        raise QueryError(
            "interval",
            got=coarser.alias,
            expected=f"a whole multiple of {finer.alias}",
            code="INVALID_INTERVAL",
        )


def intervals_of(points: OpenTable[Any]) -> list[FrameInterval]:
    """Return the intervals in the column ``interval``; an empty list for lazy points, or without the column."""
    if not points.is_eager or "interval" not in points.names:
        return []
    words = points.rows.select("interval").drop_nulls().unique().collect()["interval"].to_list()
    return [*map(frame_interval, words)]


def _main(*, data_type: str, **_: object) -> Sequence[str]:
    return schema_of(data_type).names[-4:]


@tabular(
    _needed,
    check=_check_source,
    optional=(*TRADED, "volume"),
    new_times={"period_end": "timestamp"},
    main=_main,
)
def resample(
    points: Rows,
    /,
    *,
    data_type: str,
    interval: str,
    source: str | None = None,
    session: Session | None = None,
) -> Rows:
    """Points of a coarser interval, equal to what aggregating the raw events at that interval gives.

    An open is that of the first point of the interval that has one, a close that of the last; highs and lows are the
    extremes. Volumes and liquidations are summed; the sums do not depend on the order of the rows. If one amount is
    unknown (null), the sum is unknown; an absent point adds nothing. A candle that only fills a gap counts only if its
    interval has no other candle: it has no volume and no first trade, and its four prices are the close before it. Any
    other candle counts, also one without volume whose price moved, and one without a close before it. Candles
    need no times of trades.

    Parameters
    ----------
    points : frame, n rows, key (series, timestamp) or (series, timestamp, price), in any order
        Schema of ``data_type``, as a client returns it. Times are int64 [ns since the epoch] or have a zone. It may
        have any of the columns that name a series.
    data_type : str
        A candle type, ``OPEN_INTEREST_AGG``, ``FUNDING_RATE_AGG``, ``LIQUIDATION_AGG``, ``VOLUME_PROFILE_AGG`` or
        ``CME_OPEN_INTEREST_AGG``.
    interval : str
        Name or alias of the new interval, a whole multiple of the interval of the points.
    source : str, optional
        Interval of the points; by default that of their column ``interval``. Without either, and for lazy frames, the
        interval of the points is not checked.
    session : Session, optional
        When the market trades: points at other times are left out, and intervals count trading time from the open;
        ``"1d"`` is a session, ``"1w"`` the sessions whose dates lie in a week from Monday, and ``timestamp`` the open.
        By default intervals are those of UTC.

    Returns
    -------
    frame, one row per series and interval (and price) with a point; of the same kind as ``points``
        The columns that name a series, ``interval`` if ``points`` has it, ``timestamp``, start of the interval, with a
        session ``period_end``, when the interval ends and is known, the values of the type in its units, and
        ``coverage`` : float64, the share of the rows of ``points`` that are known [1]. Times and categories have the
        types of ``points``. A row is known if its amounts are finite; for open interest and rates, if the close is
        finite; for levels, the rows of all levels of an interval count together. Amounts are null if ``amount_unit``
        has several units. Descriptors are left out, because whether an interval is final does not follow from its
        parts. Sorted by that key where the engine keeps order.

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If the interval is unknown or no whole multiple of that of the points, a point in memory lies in two intervals
        or in a session in part, the points of the type cannot be joined, or a time has no zone. In a lazy frame the
        amounts of such a point are unknown.

    References
    ----------
    tidytape's own convention; see definitions.

    Examples
    --------
    >>> import polars as pl
    >>> start = 1_723_075_200_000_000_000  # 2024-08-08 in nanoseconds
    >>> minutes = pl.DataFrame(
    ...     {
    ...         "exchange": "X",
    ...         "raw_symbol": "BTCUSDT",
    ...         "side": "BUY",
    ...         "timestamp": [start, start + 60_000_000_000, start + 300_000_000_000],
    ...         "liquidations": [0.1, 0.2, 4.0],
    ...     }
    ... )
    >>> longer = resample(minutes, data_type="LIQUIDATION_AGG", interval="5m")
    >>> longer.select(pl.col("timestamp") - start, "liquidations").rows()
    [(0, 0.3), (300000000000, 4.0)]
    """
    length, schema, columns = frame_interval(interval), schema_of(data_type), payload_of(data_type)
    absent = {*TRADED}.difference(points.collect_schema().names())
    clock, start_of = buckets(session, length, points)
    if clock is not None:
        points = _on_clock(points, source, clock, start_of, columns)
    frame: Any = with_times(points, columns)
    series_columns = [name for name in series_of(frame, data_type) if name != "interval"]
    level_columns = ["price"] if "price" in schema.key else []
    keys = [*series_columns, BUCKET, *level_columns]
    frame = frame.with_columns(start_of(nw.col("timestamp")).alias(BUCKET))
    frame = in_one_unit(frame, data_type, [*series_columns, BUCKET])
    if data_type in CANDLES:
        has_fills = IDLE in frame.collect_schema().names()
        frame = traded(frame if has_fills else with_fills(frame, series_columns, cut=False), keys)
    frame = with_coverage(frame, columns, point=[*series_columns, BUCKET] if level_columns else ())
    combined: Any = reduced(frame, keys, [*columns, COVERAGE], first="timestamp", last="timestamp").rename(
        {BUCKET: "timestamp"}
    )
    if clock is not None:
        combined = clock.told(clock.with_ends(combined, length, "period_end"))
    if "interval" in frame.collect_schema().names():
        combined = combined.with_columns(nw.lit(length.alias).alias("interval"))
    result_series = series_of(combined, data_type)
    payload = [
        name
        for name in dict.fromkeys((*level_columns, *columns, "volume"))
        if name in schema.names and name not in result_series and name not in absent
    ]
    times = ["timestamp"] if clock is None else ["timestamp", "period_end"]
    rows: Rows = combined.select(*result_series, *times, *payload, COVERAGE)
    return rows.sort(*series_columns, "timestamp", *level_columns)


def _on_clock(
    points: Rows,
    source: str | None,
    clock: TradingClock,
    start_of: Callable[[nw.Expr], nw.Expr],
    columns: Sequence[str],
) -> Rows:
    """Return the points of times at which the market trades, on its clock; those that lie in two intervals unknown."""
    names = points.collect_schema().names()
    if STRADDLES in names or (source is None and "interval" not in names):
        return clock.open_rows(points)
    rows = with_straddles(points, _own_length(source), start_of, clock)
    known = (nw.when(~nw.col(STRADDLES)).then(nw.col(name)).alias(name) for name in columns if name in names)
    return rows.with_columns(known).drop(STRADDLES)


def _own_length(source: str | None) -> nw.Expr:
    """Return the length of each point: that of ``source``, or of its column ``interval``. [ns]"""
    if source is not None:
        return nw.lit(frame_interval(source).nanoseconds, nw.Int64())
    length = length_of(nw.col("interval"))
    return nw.when(length > 0).then(length).otherwise(1)


def in_one_unit(frame: Any, data_type: str, keys: Sequence[str]) -> Any:
    """Set amounts to null in rows that would be added up although they count different units.

    The column ``amount_unit``, if the frame has it, says what amounts count; null counts as a unit of its own.
    """
    names = frame.collect_schema().names()
    if AMOUNT_UNIT not in names:
        return frame
    is_summable, schema = has_one_unit(AMOUNT_UNIT, keys), schema_of(data_type)
    amounts = [column.name for column in schema.columns if column.unit == AMOUNT and column.name in names]
    return with_all(frame, (nw.when(is_summable).then(nw.col(name)).alias(name) for name in amounts))


def series_of(frame: Rows, data_type: str) -> list[str]:
    """Return the columns of a frame that name its series, in the order of the schema."""
    present = frame.collect_schema().names()
    return [name for name in schema_of(data_type).identity if name in present]


def payload_of(data_type: str) -> list[str]:
    """Return the value columns of a data type: those that are neither identity, descriptor or key, nor derived."""
    schema, kind = schema_of(data_type), DATA_TYPES[data_type]
    key_columns = {*schema.identity, *schema.descriptors, *schema.key}
    fields = [*kind.fields, *(kind.levels[0].fields if kind.levels else ())]
    return [field.column for field in fields if field.column not in key_columns]


def gapfill(
    candles: IntoFrameT, /, *, interval: str, start: TimeLike, end: TimeLike, last: IntoFrameT | None = None
) -> IntoFrameT:
    """Fill every gap of a window with candles whose prices are the last close and whose volume is 0.

    No close is invented: intervals before the first known close of a series stay absent.

    Parameters
    ----------
    candles : frame, n rows, key (series, timestamp), in any order
        Schema of a candle type, as a client returns it. Times are int64 [ns since the epoch] or have a zone. It may
        have any of the columns that name a series; ``side`` is one.
    interval : str
        Name or alias of the candles' interval.
    start, end : datetime, date, str or int
        The window, start inclusive, end exclusive: the intervals that start in it are filled. A text is ISO 8601, and a
        time without a zone is UTC; an int counts nanoseconds since the epoch. [ns]
    last : frame, one row per series, of the same kind as ``candles``, optional
        The last close of each series before the window: the columns that name a series, and ``close`` [quote per coin].
        A series without candles is filled from it, too.

    Returns
    -------
    frame, the rows of ``candles`` and one per gap; of the same kind as ``candles``
        The same columns, times and categories of the same types. Filled rows have ``volume`` 0 [as in ``candles``],
        ``coverage`` 1 and the ``amount_unit`` of the nearest candle of the series, preferably one before it, if the
        frame has these columns. Their ``first_timestamp``, ``last_timestamp``, ``is_final`` and columns that the schema
        does not know are null. Sorted by series and ``timestamp`` where the engine keeps order.

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If the interval is unknown, the column ``interval`` of candles in memory says another one, the window ends
        before it starts, or a time has no zone.

    References
    ----------
    tidytape's own convention; see definitions.

    Examples
    --------
    >>> import polars as pl
    >>> start = 1_723_075_200_000_000_000  # 2024-08-08 in nanoseconds
    >>> minute = 60_000_000_000
    >>> candles = pl.DataFrame(
    ...     {
    ...         "exchange": "X",
    ...         "raw_symbol": "BTCUSDT",
    ...         "timestamp": [start + minute],
    ...         **dict.fromkeys(("open", "high", "low", "close"), 10.0),
    ...         "volume": 2.0,
    ...         "first_timestamp": start + minute + 5,
    ...         "last_timestamp": start + minute + 5,
    ...     }
    ... )
    >>> filled = gapfill(candles, interval="1m", start=start, end=start + 3 * minute)
    >>> filled.select(pl.col("timestamp", "last_timestamp") - start, "open", "close", "volume").rows()
    [(60000000000, 60000000005, 10.0, 10.0, 2.0), (120000000000, None, 10.0, 10.0, 0.0)]
    """
    length = frame_interval(interval)
    step, offset = length.nanoseconds, length.offset * SECOND
    since, until = _moment("start", start), _moment("end", end)
    if until < since:
        raise QueryError("end", got=end, expected="a time at or after start")
    begin = -(-(since - offset) // step) * step + offset
    table = OpenTable.of(candles, ["timestamp", *OHLC, "volume"], optional=TRADED)
    if other := next((interval for interval in intervals_of(table) if interval != length), None):
        raise QueryError("interval", got=length.alias, expected=f"{other.alias}, that of the candles")
    frame: Any = table.rows
    series_columns, units = (
        series_of(frame, "TRADE_AGG"),
        [name for name in table.names if name == AMOUNT_UNIT],
    )
    frame = with_all(frame, (nw.col(name).cast(nw.String()) for name in units))
    close = nw.col("close")
    rows = frame.select(*series_columns, "timestamp", nw.when(close.is_finite()).then(close), *units)
    if last is not None:
        last_rows = OpenTable.of(last, [*series_columns, "close"], parameter="last").rows
        categories = [name for name in series_columns if table.schema[name] == nw.Categorical]
        last_rows = with_all(last_rows, (nw.col(name).cast(nw.Categorical()) for name in categories))
        last_closes = last_rows.select(
            *series_columns,
            nw.lit(begin - 1, nw.Int64()).alias("timestamp"),
            nw.when(close.is_finite()).then(close),
            *(nw.lit(None, nw.String()).alias(name) for name in units),
        )
        rows = nw.concat([rows, last_closes])
    time = nw.col("timestamp")
    next_time = time.shift(-1).over(*series_columns, order_by="timestamp").fill_null(until)
    # The gap after each candle consists of the intervals in the window that start before the next candle.
    first = nw.max_horizontal(bucket_start(time, length) + step, nw.lit(begin, nw.Int64()))
    final = bucket_start(nw.min_horizontal(next_time, nw.lit(until, nw.Int64())) - 1, length)
    order = ["timestamp"]
    rows = rows.with_columns(
        *(last_known(name, by=series_columns, order=order) for name in ("close", *units)),
        __begin=first,
        __first=nw.lit(0, nw.Int64()),
        __last=(final - first) // step,
    )
    backward = (nw.col(name).fill_null(strategy="backward") for name in units)
    rows = with_all(rows, (unit.over(*series_columns, order_by=order) for unit in backward))
    gaps = rows.filter(~nw.col("close").is_null(), nw.col("__last") >= 0, nw.col("__begin") > time)
    filled = spread(gaps, "__first", "__last", name="__number", digits=6).select(
        *series_columns,
        (nw.col("__begin") + nw.col("__number") * step).alias("timestamp"),
        *(nw.col("close").alias(name) for name in OHLC),
        nw.lit(0.0).alias("volume"),
        *(nw.lit(1.0).alias(name) for name in table.names if name == COVERAGE),
        *units,
    )
    return table.closed(nw.concat([frame, filled], how="diagonal"), sort=[*series_columns, "timestamp"])


def _moment(parameter: str, time: TimeLike) -> int:
    """Return a time as nanoseconds since the epoch; an int is one already, anything else is read as in a query."""
    if isinstance(time, int) and not isinstance(time, bool) and abs(time) < 2**63:
        return time
    if isinstance(time, float):
        raise QueryError(
            parameter, got=time, expected="a datetime, a date, ISO 8601 text, or whole nanoseconds"
        )
    return epoch_seconds(time, parameter=parameter) * SECOND
