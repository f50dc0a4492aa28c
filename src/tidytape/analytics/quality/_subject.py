"""The frame that is audited: its rows, its columns, and the checks that apply; a new check is a line in `CHECKS`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Final, Generic

import narwhals.stable.v2 as nw
from narwhals.stable.v2.typing import IntoFrameT

from tidytape.analytics import _arguments as arguments
from tidytape.analytics._series import of_rows
from tidytape.catalogue import DATA_TYPES, Field
from tidytape.errors import QueryError
from tidytape.frames.buckets import bucket_by, length_of
from tidytape.frames.door import listed
from tidytape.frames.table import Table

ROW = "__row"
"""Working name of a row's place in the frame."""


@dataclass(frozen=True)
class Subject(Generic[IntoFrameT]):
    """A frame that is looked at.

    Attributes
    ----------
    table : Table
        The frame.
    rows : narwhals LazyFrame
        Its rows, and ``__timed``, whether there is a time; ``__time`` [ns], 0 without one; the numbers as float64 with
        null for what is none; with intervals also ``__step``, ``__length`` and ``__bucket``.
    by : list of str
        The columns that tell one series from another.
    names : list of str
        Columns of the caller's frame.
    columns : Columns
        What they are.
    numbers : dict of str to str
        Working name of each number.
    checks : tuple of str
        The checks to make.
    limits : Limits
        From when on something is found.
    """

    table: Table[IntoFrameT]
    rows: nw.LazyFrame[Any]
    by: list[str]
    names: list[str]
    columns: Columns
    numbers: dict[str, str]
    checks: tuple[str, ...]
    limits: Limits

    @classmethod
    def of(
        cls,
        native: IntoFrameT,
        *,
        by: str | Iterable[str] | None,
        interval: str | timedelta | None,
        checks: str | Iterable[str] | None,
        limits: Limits,
        without: Iterable[str] = (),
    ) -> Subject[IntoFrameT]:
        """Return a frame to look at."""
        wanted = chosen(checks)
        table = Table.opened(native, times=["timestamp"])
        schema, names, taken = table.schema, table.names, ["timestamp", *without]
        if table.is_eager:  # rows of others have no order
            table = replace(table, rows=table.rows.collect().with_row_index(ROW).lazy())
        # Prices and sizes are looked at, also where they tell levels apart.
        of_default = [*taken, "price", "size"]
        keys = of_rows(table, without=of_default) if by is None else table.series(by, without=taken)
        columns = Columns.of(schema, by=keys)
        # A trade says of which interval it was asked for, and a session of which it is made.
        has_own = "interval" in names and not columns.is_periodic and not columns.is_raw
        has_grid = interval is not None or has_own
        applying = _applying(wanted, names, columns, has_grid=has_grid, is_ordered=table.is_eager)

        time = nw.col("timestamp")
        numbers = {name: f"__number_{name}" for name in columns.numbers}
        floats = {own: nw.col(name).cast(nw.Float64) for name, own in numbers.items()}
        rows = table.rows.with_columns(
            *(nw.when(~value.is_nan()).then(value).alias(own) for own, value in floats.items()),
            __timed=~time.is_null(),
            __time=time.fill_null(0),
        )
        # Sorted once: windows in the order of one whole number are faster than those of several columns.
        order = ["__time", *(numbers[name] for name in columns.sized)]
        rows = rows.with_row_index("__place", order_by=order)
        if has_grid:
            rows = with_grid(rows, interval)
        return cls(table, rows, keys, names, columns, numbers, applying, limits)

    @property
    def series(self) -> list[str]:
        """Columns that tell one series from another; rows without a time are apart."""
        return [*self.by, "__timed"]

    def shifted(self, column: str, rows: int) -> nw.Expr:
        """Return the value so many rows before, or after. Rows of one time are in the order of their numbers."""
        return nw.col(column).shift(rows).over(self.series, order_by="__place")


def _applying(
    wanted: tuple[str, ...] | None, names: list[str], columns: Columns, *, has_grid: bool, is_ordered: bool
) -> tuple[str, ...]:
    """Return the checks that are wanted, or all that apply; raise QueryError if one that is wanted does not."""
    looked_at = {
        "infinite_value": columns.numbers,
        "unknown_value": columns.numbers,
        "inconsistent_ohlc": columns.candles,
        "negative_amount": columns.amounts,
        "unknown_side": "side" in names,
        "frozen_price": columns.prices,
        "crossed_book": columns.is_book,
        "outlier": columns.moving + columns.rates + columns.traded,
        "unit_jump": columns.sized,
        "quote_mismatch": columns.quoted,
    }
    reasons: dict[str, tuple[str, str | None]] = {
        name: ("a frame with the columns it looks at", None) for name, found in looked_at.items() if not found
    }
    if not has_grid:
        for name in ("unknown_interval", "misaligned", "missing_bucket", "stale"):
            reasons[name] = ("a frame of intervals", "say how long they are with interval=")
    if columns.is_raw:
        reasons["misaligned"] = ("a frame of intervals", None)
    if not is_ordered:
        reasons["unordered"] = ("a frame in memory, because rows of others have no order", "collect it first")
    if wanted is None:
        unasked = {"missing_bucket", "stale"} if columns.is_sparse else set()
        return tuple(name for name in CHECKS if name not in reasons and name not in unasked)
    for name in wanted:
        if name in reasons:
            expected, hint = reasons[name]
            raise QueryError("checks", got=name, expected=expected, hint=hint)
    return wanted


CHECKS: Final = {
    "missing_time": "error",
    "duplicate": "error",
    "infinite_value": "error",
    "inconsistent_ohlc": "error",
    "negative_amount": "error",
    "quote_mismatch": "error",
    "unknown_side": "error",
    "crossed_book": "warning",
    "unknown_interval": "warning",
    "misaligned": "warning",
    "missing_bucket": "warning",
    "stale": "warning",
    "unknown_value": "warning",
    "frozen_price": "warning",
    "unit_jump": "warning",
    "outlier": "warning",
    "unordered": "notice",
}
"""Severity of every check, in the order they are made: an outlier is none where a unit jump is.

An error cannot be right, a warning may be; a notice is right, and some programs trip over it.
"""


@dataclass(frozen=True)
class Limits:
    """From when on something is found."""

    outlier: float
    frozen: int
    stale: int
    unit_jump: float

    def __post_init__(self) -> None:
        """Refuse what is no limit."""
        arguments.positive("outlier", self.outlier)
        arguments.whole("frozen", self.frozen)
        arguments.whole("stale", self.stale)
        if not arguments.positive("unit_jump", self.unit_jump) > 1:
            raise QueryError("unit_jump", got=self.unit_jump, expected="a finite number above 1")


def chosen(checks: str | Iterable[str] | None) -> tuple[str, ...] | None:
    """Return the names of checks that a caller asks for, in their order; None for all that apply."""
    if checks is None:
        return None
    names = listed(checks)
    if not names:
        raise QueryError("checks", got=checks, expected="one check or more, or None for all that apply")
    for name in names:
        arguments.one_of("checks", name, CHECKS)
    return tuple(name for name in CHECKS if name in names)


def _fields() -> Iterable[Field]:
    for kind in DATA_TYPES.values():
        yield from kind.fields
        for levels in kind.levels:
            yield from levels.fields


_TIMES: Final = frozenset(field.column for field in _fields() if field.kind == "timestamp")
_PRICES: Final = frozenset(field.column for field in _fields() if field.unit.endswith(" per coin"))
# What is counted, and cannot be less than nothing. Prices can, rates and skews too.
_AMOUNTS: Final = frozenset(
    field.column
    for field in _fields()
    if field.kind in {"double", "int64"} and field.unit.startswith(("coin", "USD", "quote", "TPO", "%"))
) - (_PRICES - {"open", "high", "low", "close"})

_FAMILIES: Final = tuple(
    tuple(f"{prefix}{part}" for part in ("open", "high", "low", "close"))
    for prefix in ("", "price_", "value_", "rate_", "predicted_")
)
# Levels that move by shares of themselves and are there at every interval, so that their logarithms can be compared.
_MOVING: Final = (
    "close",
    "price_close",
    "value_close",
    "oi_close",
    "underlying_price_close",
    "implied_volatility",
    "marketcap",
    "usd_price",
)
# Rates come back to where they were, and change seldom: the level tells what is usual, and not the move.
_RATES: Final = ("rate_close", "predicted_close")
_QUOTED: Final = (("price", "price", "amount", "quote_amount"), ("low", "high", "volume", "quote_volume"))
# What keeps its size for a while, too.
_SIZED: Final = ("volume", "circulating_supply", "total_supply")


@dataclass(frozen=True)
class Columns:
    """The columns of a frame by what they are.

    Attributes
    ----------
    numbers : tuple of str
        Payload.
    amounts : tuple of str
        Of these, what cannot be below zero.
    candles : tuple of tuple of str
        Open, high, low and close, where all four are there.
    prices : tuple of str
        Of these fours, the first of prices; empty where there is none.
    moving, sized : tuple of str
        What moves by shares of itself; and what keeps its size, these among them.
    rates : tuple of str
        What stays about one level, and may be below zero.
    traded : tuple of str
        Prices of events.
    quoted : tuple of str
        Lowest and highest price, amount in coin and amount in the quote; empty where one of them is not there.
    key : tuple of str
        What names a row beside its series and time: the id of an event, or else its price and amount; the price of a
        level.
    is_book : bool
        Whether rows are what rests at a price, on one side.
    is_sparse : bool
        Whether an interval in which nothing happened has no row.
    is_raw : bool
        Whether rows are events, at any time.
    is_periodic : bool
        Whether rows are sessions that say themselves when they end.
    """

    numbers: tuple[str, ...]
    amounts: tuple[str, ...]
    candles: tuple[tuple[str, ...], ...]
    prices: tuple[str, ...]
    moving: tuple[str, ...]
    sized: tuple[str, ...]
    rates: tuple[str, ...]
    traded: tuple[str, ...]
    quoted: tuple[str, ...]
    key: tuple[str, ...]
    is_book: bool
    is_sparse: bool
    is_raw: bool
    is_periodic: bool

    @classmethod
    def of(cls, schema: Mapping[str, Any], *, by: Iterable[str]) -> Columns:
        """Return what the columns of a schema are, but for those that name a series."""
        named = set(by)
        numbers = tuple(
            name
            for name, dtype in schema.items()
            if dtype.is_numeric() and name not in named and name not in _TIMES
        )
        # Open interest has an open and a close as well; it has no volume.
        is_priced = "volume" in numbers
        amounts = _AMOUNTS - _PRICES if is_priced else _AMOUNTS
        candles = tuple(four for four in _FAMILIES if set(four) <= set(numbers))
        prices = next(
            (four for four in candles if four[0] == "price_open" or (four[0] == "open" and is_priced)), ()
        )
        # An event has an amount; one without an id is told from others by all that it says.
        is_raw = "id" in schema or "amount" in schema
        tells = ("id",) if "id" in schema else ("price", "amount")
        key = tuple(name for name in tells if name in schema and name not in named)
        moving = () if key else tuple(name for name in _MOVING if name in numbers)
        return cls(
            numbers=numbers,
            amounts=tuple(name for name in numbers if name in amounts),
            candles=candles,
            prices=() if key else prices,
            moving=moving,
            sized=moving + (() if key else tuple(name for name in _SIZED if name in numbers)),
            rates=tuple(name for name in _RATES if name in numbers),
            traded=tuple(name for name in ("price",) if is_raw and name in numbers),
            quoted=next((four for four in _QUOTED if set(four) <= set(numbers)), ()),
            key=key,
            is_book=not is_raw and "side" in schema and {"price", "size"} <= set(numbers),
            is_sparse="liquidations" in schema,
            is_raw=is_raw,
            is_periodic="period_end" in schema,
        )


def with_grid(rows: nw.LazyFrame[Any], interval: str | timedelta | None) -> nw.LazyFrame[Any]:
    """Return the rows with ``__step``, the length of each one's interval, and ``__bucket``, its start. [ns]

    The length is 0 where it is not known; then the bucket is the time itself.
    """
    if interval is None:
        step = length_of(nw.col("interval"))
    else:
        step = nw.lit(arguments.length("interval", interval), nw.Int64())
    rows = rows.with_columns(__step=step, __length=nw.max_horizontal(step, nw.lit(1, nw.Int64())))
    return rows.with_columns(__bucket=bucket_by(nw.col("__time"), nw.col("__length")))


def count_of(span: nw.Expr) -> nw.Expr:
    """Return how many intervals a span is, which is a whole number of them."""
    # A quotient of floats, rounded: whole division is one of floats on Spark, and cut off.
    return (span.cast(nw.Float64) / nw.col("__length").cast(nw.Float64)).round().cast(nw.Int64)
