"""Series of a frame: the columns that tell rows and markets apart, how long intervals are, and when rows end."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Any, Final, cast

import narwhals.stable.v2 as nw
from narwhals.stable.v2.typing import IntoFrameT

from tidytape.analytics import _arguments as arguments
from tidytape.errors import NoMatchWarning, QueryError, shown, warn
from tidytape.frames._dialects import dialect_of, in_sql
from tidytape.frames._door import MARKET, wrapped
from tidytape.frames._joined import joined
from tidytape.frames._rows import with_all
from tidytape.frames._table import IDENTITY, OpenTable
from tidytape.frames._units import AMOUNT_UNIT, has_one_unit
from tidytape.times import HOUR


def one_series(table: OpenTable[Any], names: Sequence[str]) -> dict[str, Any]:
    """Return the only value of each of some columns; refuse a frame that has several values in one of them.

    Parameters
    ----------
    table : OpenTable
        The frame.
    names : sequence of str
        The columns that name its series.

    Returns
    -------
    dict of str to object
        The value of each column; None if the frame has no rows.

    Raises
    ------
    QueryError
        If a column holds several values.
    """
    if not names:
        return {}
    rows = table.rows.select(*names)
    first = next(rows.head(1).collect().iter_rows(named=True), dict.fromkeys(names))
    # Comparing all rows with the first needs neither the distinct values nor a sort.
    is_first_value = {
        name: (
            nw.col(name).is_null() if value is None else (nw.col(name) == value).fill_null(value=False)
        ).all()
        for name, value in first.items()
    }
    (comparisons,) = rows.select(**is_first_value).collect().iter_rows(named=True)
    for name, is_same in comparisons.items():
        if is_same is False:
            raise QueryError(
                "frame",
                got=f"several values in column {name}, one of them {first[name]!r}",
                expected="one series",
                hint=f"filter the frame to one {name}, or drop the column",
            )
    return first


WORDS: Final = (nw.String, nw.Categorical, nw.Enum)
"""Types of columns of text."""

_LEVELS: Final = {"size", "liquidations", "tpo_count", "volume", "block_ids", "block_id", "buy_volume"}
_POINTS: Final = {"id", "open", "close"}

_POINTS_OF_SMILES: Final = ("strike", "option_type", "moneyness")
_ARGUMENTS: Final = (
    "bps", "estimator", "window", "overnight", "other_exchange", "other_raw_symbol", "short_days", "long_days",
    "short_tenor", "long_tenor", "realized_exchange", "realized_raw_symbol", "realized_estimator", "realized_window",
    "realized_overnight",
)  # fmt: skip
_RULES: Final = ("atm", "delta")


def is_of_levels(names: Iterable[str]) -> bool:
    """Return whether each row of a frame with these columns is a level.

    Trades and candles have prices too. A level has a size or a count, but no id, open or close.
    """
    names = set(names)
    return "price" in names and not _POINTS & names and bool(_LEVELS & names)


def row_columns(table: OpenTable[Any], *, without: Iterable[str] = ()) -> list[str]:
    """Return the columns that, with the time, identify a row: the identity columns, and columns such as ``expiry``.

    A series may have several rows at each time: one per maturity, per expiry, per distance from the mid, per second
    market of a spread, or per argument of a result. ``days`` to an expiry shrink from one time to the next, so they
    identify a maturity only in frames without ``expiry`` and ``tenor``.

    Parameters
    ----------
    table : OpenTable
    without : iterable of str
        Columns to leave out: the time, the value, columns of the result.
    """
    schema: Mapping[str, Any] = table.schema
    names = [
        *IDENTITY,
        *_POINTS_OF_SMILES,
        *_ARGUMENTS,
        next((name for name in ("expiry", "tenor", "days") if name in schema), "days"),
        # In a chain ``delta`` is a number, the option's delta; in points of smiles it is text, the rule of the point.
        *(name for name in _RULES if isinstance(schema.get(name), WORDS)),
        *(["price"] if is_of_levels(schema) else []),
        *(["size"] if "unfilled" in schema else []),  # slippage, with a row per size
    ]
    left_out = set(without)
    return [name for name in dict.fromkeys(names) if name in schema and name not in left_out]


Duration = str | timedelta
"""A timedelta, or a text such as ``"8h"``; a bare number has no unit."""

HAS_MIXED_UNITS = "__has_mixed_units"
"""1.0 where a series has several amount units, so that its amounts do not add up; else 0.0."""

ROW_COUNT = "__row_count"
"""How many rows of the frame have the same key as this row."""

IS_REPEATED = "__is_repeated"
"""1.0 where several rows have the same key, e.g. a market two rows at one time, so that sums are wrong; else 0.0."""

_OF_A_MARKET = (*MARKET, "normalized_symbol", "category")


def across(
    table: OpenTable[Any], by: str | Iterable[str] | None, *, without: Iterable[str] = ()
) -> list[str]:
    """Return the columns that markets must share to be compared: ``by``, or all columns of the key but the market's."""
    if by is None:
        return row_columns(table, without=(*_OF_A_MARKET, "timestamp", "price", *without))
    return table.series_columns(by, without=("timestamp", *without))


def markets(
    frame: IntoFrameT,
    by: str | Iterable[str] | None,
    numbers: Sequence[str],
    *,
    results: Sequence[str],
    optional: Sequence[str] = (),
) -> tuple[OpenTable[IntoFrameT], nw.LazyFrame[Any], list[str]]:
    """Open points of single markets; return the table, the rows that have a time, and the columns that name a series.

    Numbers that are not finite are null in these rows.

    Raises
    ------
    QueryError
        If the frame has a row for each price, and ``by`` does not tell prices apart.
    """
    table = OpenTable.of(frame, [*MARKET, "timestamp"], numbers=numbers, optional=optional)
    series_columns = across(table, by, without=[*MARKET, *numbers, *optional, *results])
    if "price" in table.names and "price" not in {*series_columns, *numbers}:
        raise QueryError(
            "by",
            got=series_columns,
            expected="'price' among the columns: the frame has it, and so may have several rows per market",
            hint="add it to by, or drop the column",
        )
    rows = table.rows.filter(~nw.col("timestamp").is_null()).with_columns(finite(name) for name in numbers)
    return table, rows, series_columns


def with_repeats(
    rows: nw.LazyFrame[Any],
    series_columns: Sequence[str],
    *,
    members: Sequence[str] = MARKET,
    of_amounts: bool = False,
) -> nw.LazyFrame[Any]:
    """Add `ROW_COUNT`, how many rows a member of a series has at one time, and `IS_REPEATED`, 1.0 if it has several.

    Amounts in different units cannot be summed. So with ``of_amounts`` the rows also get `HAS_MIXED_UNITS`, 1.0 where a
    series has several amount units, and `IS_REPEATED` is 1.0 there, too.
    """
    rows = repeated(rows, [*series_columns, *members, "timestamp"])
    if not of_amounts:
        return rows
    has_unit = AMOUNT_UNIT in rows.collect_schema().names()
    differ = ~has_one_unit(AMOUNT_UNIT, series_columns) if has_unit else nw.lit(value=False)
    return rows.with_columns(nw.when(differ).then(1.0).otherwise(0.0).alias(HAS_MIXED_UNITS)).with_columns(
        nw.max_horizontal(IS_REPEATED, HAS_MIXED_UNITS).alias(IS_REPEATED)
    )


def repeated(rows: nw.LazyFrame[Any], key: Sequence[str]) -> nw.LazyFrame[Any]:
    """Add `ROW_COUNT`, how many rows have the same key, and `IS_REPEATED`, 1.0 if there are several, else 0.0."""
    return rows.with_columns(nw.len().over(*key).alias(ROW_COUNT)).with_columns(
        nw.when(nw.col(ROW_COUNT) > 1).then(1.0).otherwise(0.0).alias(IS_REPEATED)
    )


def without_repeats(
    rows: nw.LazyFrame[Any],
    series_columns: Sequence[str],
    *,
    members: Sequence[str] = MARKET,
    amounts: Sequence[str] = (),
) -> nw.LazyFrame[Any]:
    """Return one row per series, member and time, with `IS_REPEATED`; of repeated rows, keep an arbitrary one.

    Repeated rows get amount 0, so that sums do not count the arbitrary row.
    """
    rows = with_repeats(rows, series_columns, members=members, of_amounts=bool(amounts)).unique(
        subset=[*series_columns, *members, "timestamp"], keep="any"
    )
    is_single = nw.col(IS_REPEATED) == 0
    return with_all(
        rows, (nw.when(is_single).then(nw.col(name)).otherwise(0.0).alias(name) for name in amounts)
    )


def finite(name: str) -> nw.Expr:
    """Return a column of numbers, null where it is not finite."""
    return nw.when(nw.col(name).is_finite()).then(nw.col(name)).alias(name)


def in_memory(native: IntoFrameT, parameter: str, why: str) -> tuple[IntoFrameT, bool]:
    """Return a frame in memory, and whether the caller's is a lazy frame of polars, which was collected.

    Raises
    ------
    QueryError
        If the frame belongs to DuckDB or Spark, which ``why`` explains.
    """
    frame = wrapped(native, parameter=parameter)
    if not isinstance(frame, nw.LazyFrame):
        return native, False
    if in_sql(frame):
        OpenTable.of(native, parameter=parameter).collected(why)
    return cast("IntoFrameT", frame.collect().to_native()), True


def as_lazy(native: IntoFrameT, *, is_lazy: bool) -> IntoFrameT:
    """Return a frame in memory as a lazy one if ``is_lazy``; undoes `in_memory`."""
    frame: Any = nw.from_native(native)
    return cast("IntoFrameT", frame.lazy().to_native()) if is_lazy else native


def require_one_engine(table: OpenTable[Any], other: OpenTable[Any], parameter: str) -> None:
    """Raise QueryError unless two frames have the same engine and, in DuckDB, the same connection."""
    first, second = table.engine, other.engine
    if first is not second:
        raise QueryError(
            parameter, got=f"a frame of {second.value}", expected=f"a frame of {first.value}, like the first"
        )
    dialect = dialect_of(table.rows)
    if dialect and not dialect.can_join(table.rows.to_native(), other.rows.to_native()):
        raise QueryError(
            parameter,
            got="a frame of another connection of DuckDB",
            expected="one of the connection of the first",
            hint="bring it over, e.g. with connection.from_arrow(frame.to_arrow_table())",
        )


_SUGGESTED: Final = ("coin", "normalized_symbol", "raw_symbol", "exchange")
"""Columns that frames of different markets may share, the most likely first; a warning suggests one."""


def warn_unless_met(
    function: str,
    first: OpenTable[Any],
    second: OpenTable[Any],
    keys: Sequence[str],
    *,
    called: tuple[str, str],
    parameter: str = "by",
) -> None:
    """Warn if two frames in memory both have rows but share no key; lazy frames are not read.

    Parameters
    ----------
    function : str
        The name of the public function. The warning points at its caller.
    first, second : OpenTable
    keys : sequence of str
        Columns of both that must be equal.
    called : tuple of str
        What the function calls the two frames.
    parameter : str
        The argument that names the keys.
    """
    if not first.is_eager or not second.is_eager or not keys:
        return

    def values(table: OpenTable[Any], names: Sequence[str]) -> nw.DataFrame[Any]:
        return table.rows.select(*names).unique().collect()

    def meet(names: Sequence[str]) -> bool:
        return len(joined(values(first, names), values(second, names), on=names, how="inner")) > 0

    if meet(keys) or len(first.rows.head(1).collect()) == 0 or len(second.rows.head(1).collect()) == 0:
        return
    unshared = [name for name in keys if not meet([name])]
    reasons = [
        f"{name} is {' and '.join(_example(values(table, [name])) for table in (first, second))}"
        for name in unshared[:3]
    ]
    message = (
        f"{function}: no row of {called[0]} has the {', '.join(keys)} of a row of {called[1]}, so nothing matches"
        f" ({', '.join(reasons) or 'each is in both, but never together'})"
    )
    if "interval" in unshared:
        message += "; fetch both with one interval, or resample one"
    else:
        both = (name for name in _SUGGESTED if name in first.names and name in second.names)
        hint = next((name for name in both if name not in unshared and meet([name])), None)
        message += f"; {hint} is the same in both: pass {parameter}={hint!r}" if hint else ""
    warn(NoMatchWarning(message, keys=keys))


def _example(values: nw.DataFrame[Any]) -> str:
    """Return one value as text for a message, and the number of values if there are several."""
    (value,) = values.sort(*values.columns, nulls_last=True).row(0)
    return shown(value, 40) + (f" (of {len(values)})" if len(values) > 1 else "")


def length(table: OpenTable[Any], interval: str | timedelta | None) -> Any:
    """Return the length of each row's interval, from the argument ``interval`` or else the column ``interval``. [ns]

    Raises
    ------
    QueryError
        If there is neither a length nor the column, or both.
    """
    if interval is None and "interval" in table.names:
        return nw.when(table.lengths > 0).then(table.lengths)
    if interval is None:
        raise QueryError("interval", got=None, expected="the length of the rows' intervals, e.g. '1h'")
    if "interval" in table.names:
        raise QueryError("interval", got=interval, expected="nothing: the frame's column interval says it")
    return arguments.duration("interval", interval)


def ends(table: OpenTable[Any], interval: str | timedelta | None) -> nw.Expr:
    """Return the end of each row's interval; without an ``interval``, as argument or column, its ``timestamp``. [ns]"""
    start = nw.col("timestamp")
    is_instant = interval is None and "interval" not in table.names
    return start if is_instant else start + cast("nw.Expr", length(table, interval))


SESSION_END: Final = "period_end"
"""Column that says when a session ends."""

_OF_BLOCKS: Final = frozenset(
    {"block_ids", "block_id", "block_size_minutes", "tpo_count", "first_touch_block"}
)


def knows_length(names: Collection[str]) -> bool:
    """Return whether these columns tell how long a row lasts: its ``interval``, or until `SESSION_END`.

    The ``interval`` of a session with time blocks is not its length: a session of a week may have the interval of a
    day.

    Examples
    --------
    >>> knows_length(["timestamp", "interval", "price", "volume"])
    True
    >>> knows_length(["timestamp", "interval", "price", "tpo_count"])
    False
    """
    return SESSION_END in names or _OF_BLOCKS.isdisjoint(names)


EXPIRES: Final = 8 * HOUR
"""Time of the day at which a contract expires if its expiry is only a date: 08:00 UTC. [ns]"""


def is_day(expiry: object) -> bool:
    """Return whether an expiry is a date without a time of day.

    Examples
    --------
    >>> is_day("2024-08-30"), is_day(date(2024, 8, 30)), is_day("2024-08-30T08:00Z"), is_day(1724976000)
    (True, True, False, False)
    """
    if not isinstance(expiry, str):
        return isinstance(expiry, date) and not isinstance(expiry, datetime)
    try:
        date.fromisoformat(expiry.strip())
    except ValueError:
        return False
    return True
