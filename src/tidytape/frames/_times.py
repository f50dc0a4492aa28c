"""Times as whole nanoseconds since the epoch, and back, on every engine.

Engines agree on integers and on little else about time. DuckDB has two types of times, with and without nanoseconds,
which it does not compare with each other. Spark cannot subtract one time from another. Some engines refuse a time that
others truncate. So inside, a time is what the lake stores: int64 nanoseconds since the epoch, in UTC. Where frames come
in and go out, a time has the caller's type. A time before 1677-09-21 or after 2262-04-11 does not fit into int64; it is
null inside.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final

import narwhals.stable.v2 as nw

from tidytape.catalogue import Interval
from tidytape.errors import QueryError
from tidytape.frames._dialects import REACH, Frame, dialect_of
from tidytape.times import (
    DAY,
    MICROSECOND,
    MILLISECOND,
    MONDAY,
    SECOND,
    UNIT_SECONDS,
    UNITS,
    YEAR,
    AnyInterval,
    frame_interval,
)

_NANOSECONDS: Final = {"ns": 1, "us": MICROSECOND, "ms": MILLISECOND, "s": SECOND}


@dataclass(frozen=True)
class Clock:
    """The type of a column of times: int64 nanoseconds, or times with one unit and zone."""

    unit: Any = None
    zone: Any = None
    native: str | None = None
    """Name of the type in the SQL of an SQL engine."""
    is_length: bool = False
    """Whether the column holds lengths of time; `counted` converts times only."""

    @property
    def dtype(self) -> Any:
        """The type of the column on polars."""
        return nw.Duration(self.unit) if self.is_length else nw.Datetime(self.unit, self.zone)

    @property
    def is_nanoseconds(self) -> bool:
        """Whether the column is int64 nanoseconds already."""
        return self.unit is None and self.native is None


EXPECTED_TIMES: Final = "int64 nanoseconds since the epoch, or times with a zone"

FIRST_TIME: Final = 3 * YEAR
"""Integers nearer to 0 are refused as times: they are times of today in a unit coarser than nanoseconds. [ns]"""

_UNITS: Final = {10**11: ("s", "seconds"), 10**14: ("ms", "milliseconds"), FIRST_TIME: ("us", "microseconds")}
"""Limits, each with the unit of a time of today below it, as pandas and polars write the unit and in words."""

_EPOCHS: Final = {"pandas": "pd.to_datetime(frame[{0!r}], unit={1!r}, utc=True)"}


def unit_hint(column: str, time: float, engine: str) -> str | None:
    """Return the hint for a time that is no nanoseconds: what unit it looks like, and how to read it in the engine."""
    units = next((units for limit, units in _UNITS.items() if time < limit), None)
    if units is None:
        return None
    call = _EPOCHS.get(engine, "pl.from_epoch({0!r}, time_unit={1!r}).dt.replace_time_zone('UTC')")
    return f"looks like {units[1]}: {call.format(column, units[0])}"


def clock_of(
    frame: Frame,
    column: str,
    dtype: Any,
    *,
    values: Any = None,
    engine: str = "polars",
) -> Clock:
    """Return the `Clock` of a column of times, whose type is ``dtype`` to Narwhals.

    Raises
    ------
    QueryError
        If the column holds times without a zone, or anything other than times. ``values`` in memory, and
        the ``engine`` of the caller, make the hint clearer.
    """
    if dtype.is_signed_integer():
        return Clock()
    if dialect := dialect_of(frame):
        if native := dialect.instant_type(frame.to_native(), column, dtype):
            return Clock(native=native)
    elif isinstance(dtype, nw.Datetime) and dtype.time_zone is not None:
        return Clock(dtype.time_unit, dtype.time_zone)
    hint = None
    if isinstance(dtype, nw.Datetime) or str(dtype) == "Unknown":
        hint = "say which zone they are of, e.g. with replace_time_zone('UTC') or tz_localize('UTC')"
    elif dtype in {nw.String, nw.Object, nw.Categorical}:
        hint = "text becomes times with pd.to_datetime(…, utc=True), or .str.to_datetime(time_zone='UTC') of polars"
    elif dtype.is_numeric():
        largest = None if values is None else values.abs().max()
        hint = (largest and unit_hint(column, largest, engine)) or (
            "floats hold every 256th nanosecond only: read times as times with a zone where they come from"
        )
    raise QueryError(column, got=f"{column}: {dtype}", expected=EXPECTED_TIMES, hint=hint)


def counted(frame: nw.LazyFrame[Any], clocks: dict[str, Clock]) -> nw.LazyFrame[Any]:
    """Return the frame with these columns as int64 nanoseconds; a time that int64 does not reach becomes null."""
    clocks = {
        name: clock for name, clock in clocks.items() if not clock.is_nanoseconds and not clock.is_length
    }
    if not clocks:
        return frame
    if dialect := dialect_of(frame):
        return dialect.replaced(
            frame, {name: dialect.nanoseconds(name, str(clock.native)) for name, clock in clocks.items()}
        )
    return frame.with_columns(
        nw.col(name).dt.timestamp("ns").cast(nw.Int64)
        if clock.unit == "ns"
        else _within(nw.col(name).dt.timestamp(clock.unit).cast(nw.Int64), _NANOSECONDS[clock.unit])
        for name, clock in clocks.items()
    )


def _within(count: nw.Expr, unit: int) -> nw.Expr:
    """Return a count of some unit in nanoseconds, null where int64 does not reach."""
    most = REACH // unit
    return nw.when((count >= -most) & (count <= most)).then(count * unit)


def with_counted(frame: nw.LazyFrame[Any], column: str, name: str) -> nw.LazyFrame[Any]:
    """Return the frame with another column, ``name``: the times of ``column`` as int64 nanoseconds.

    Raises
    ------
    QueryError
        As in `clock_of`.
    """
    return counted(
        frame.with_columns(nw.col(column).alias(name)),
        {name: clock_of(frame, column, frame.collect_schema()[column])},
    )


def dated(frame: nw.LazyFrame[Any], clocks: dict[str, Clock]) -> nw.LazyFrame[Any]:
    """Return the frame with these columns of int64 nanoseconds as times again; undoes `counted`."""
    clocks = {name: clock for name, clock in clocks.items() if not clock.is_nanoseconds}
    if not clocks:
        return frame
    if dialect := dialect_of(frame):
        times = {name: clock for name, clock in clocks.items() if not clock.is_length}
        instants = {name: dialect.instants(name, str(clock.native)) for name, clock in times.items()}
        return dialect.replaced(frame, instants) if instants else frame
    return frame.with_columns(
        (nw.col(name) // _NANOSECONDS[clock.unit]).cast(clock.dtype).alias(name)
        for name, clock in clocks.items()
    )


def midnights(frame: nw.LazyFrame[Any], column: str) -> nw.LazyFrame[Any]:
    """Return the frame with a column of dates as int64 nanoseconds: each day's start in UTC, null out of reach."""
    if dialect := dialect_of(frame):
        return dialect.replaced(frame, {column: dialect.midnights(column)})
    return frame.with_columns(
        _within(nw.col(column).dt.timestamp("ms").cast(nw.Int64), _NANOSECONDS["ms"]).alias(column)
    )


def as_dates(frame: nw.LazyFrame[Any], column: str) -> nw.LazyFrame[Any]:
    """Return the frame with a column of int64 nanoseconds, starts of days in UTC, as dates; undoes `midnights`."""
    if dialect := dialect_of(frame):
        return dialect.replaced(frame, {column: dialect.dates(column)})
    return frame.with_columns((nw.col(column) // DAY).cast(nw.Int32).cast(nw.Date))


def bucket_start(timestamp: nw.Expr, interval: AnyInterval) -> nw.Expr:
    """Return the start of the bucket that a time lies in, aligned to the Unix epoch in UTC, weeks to Monday.

    Parameters
    ----------
    timestamp : expression, int64
        Epoch time. [ns]
    interval : AnyInterval
        Length of a bucket.

    Returns
    -------
    expression, int64
        Epoch time. [ns]

    Examples
    --------
    >>> import polars as pl
    >>> from tidytape.times import frame_interval
    >>> frame = nw.from_native(pl.DataFrame({"timestamp": [59_999_999_999, 60_000_000_000, -1]}))
    >>> frame.select(bucket_start(nw.col("timestamp"), frame_interval("1m"))).to_native()["timestamp"].to_list()
    [0, 60000000000, -60000000000]
    """
    step, offset = interval.seconds * SECOND, interval.offset * SECOND
    # Subtract the remainder. Spark divides integers as floats, and a float cannot hold the nanoseconds since the epoch
    # exactly.
    if offset == 0:
        return timestamp - timestamp % step
    return timestamp - (timestamp - offset) % step


FEW_WORDS: Final = 8
"""Up to so many words, comparing each row with each word is quicker than reading the text of each row."""


def length_of(interval: nw.Expr, words: Collection[str] = ()) -> nw.Expr:
    """Return the lengths of intervals from the words that the door makes of them, such as ``2h``; 0 for null. [ns]

    Parameters
    ----------
    interval : expression
        Words of the door.
    words : collection of str, optional
        All words of the column, in any spelling, if they are known.
    """
    length: nw.Expr = nw.lit(0, nw.Int64())
    if 0 < len(words) <= FEW_WORDS:
        for word_interval in map(frame_interval, words):
            nanoseconds = nw.lit(word_interval.nanoseconds, nw.Int64())
            length = nw.when(interval == word_interval.alias).then(nanoseconds).otherwise(length)
        return length
    word = interval.cast(nw.String)
    for unit, seconds in UNITS.items():
        length = (
            nw.when(word.str.ends_with(unit)).then(nw.lit(seconds * SECOND, nw.Int64())).otherwise(length)
        )
    return (word.str.strip_chars("".join(UNITS)).cast(nw.Int64) * length).fill_null(0)


_A_WEEK_AT_MOST: Final = (
    "^(1w|[1-7]d|([1-9]|[1-9][0-9]|1[0-5][0-9]|16[0-8])h|([1-9][0-9]{0,3}|100[0-7][0-9]|10080)m"
    "|([1-9][0-9]{0,4}|[1-5][0-9]{5}|60[0-3][0-9]{3}|604[0-7][0-9]{2}|604800)s)$"
)
"""Numbers and units of at most a week. As text, because an expression that computes lengths is slow on some engines."""


def interval_words(interval: nw.Expr) -> nw.Expr:
    """Return words for intervals as `length_of` reads them, as `frame_interval` would; null for any other word."""
    text = interval.str.strip_chars()
    name = text.str.to_lowercase().str.replace_all("[0-9 ]", "")
    unit: nw.Expr = nw.lit(None, nw.String)
    for letter, seconds in UNITS.items():
        names = [name for name, length in UNIT_SECONDS.items() if length == seconds]
        unit = nw.when(name.is_in(names)).then(nw.lit(letter)).otherwise(unit)
    digits = text.str.replace_all("[^0-9]", "")
    word = nw.concat_str(nw.when(digits != "").then(digits).otherwise(nw.lit("1")), unit)
    is_read = text.str.contains("^[0-9]{0,6} ?[A-Za-z]+$") & ~text.str.ends_with("M")
    words: nw.Expr = nw.when(is_read & word.str.contains(_A_WEEK_AT_MOST)).then(word)
    for known in Interval:
        if known.seconds not in UNITS.values():  # FOUR_HOURS, which has its number in its name
            words = nw.when(text.str.to_uppercase() == known.value).then(nw.lit(known.alias)).otherwise(words)
    return words


def bucket_by(timestamp: nw.Expr, length: nw.Expr | int, *, origin: int = MONDAY) -> nw.Expr:
    """Return the start of the bucket that a time lies in; one bucket starts at ``origin``.

    Parameters
    ----------
    timestamp : expression, int64
        Epoch time. [ns]
    length : expression or int, above 0
        Length of a bucket. [ns]
    origin : int
        A time at which a bucket starts. [ns]

    Returns
    -------
    expression, int64
        Epoch time. [ns]

    Examples
    --------
    >>> import polars as pl
    >>> frame = nw.from_native(pl.DataFrame({"timestamp": [7, -1]}))
    >>> frame.select(bucket_by(nw.col("timestamp"), 5, origin=1)).to_native()["timestamp"].to_list()
    [6, -4]
    """
    # The remainder is taken twice, because engines disagree on the remainder of a negative number.
    return timestamp - ((timestamp - origin) % length + length) % length
