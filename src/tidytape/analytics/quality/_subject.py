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
    """The frame that is audited, with its working columns.

    Attributes
    ----------
    table : Table
        The frame.
    rows : narwhals LazyFrame
        Its rows, with ``__timed``, whether the row has a time; ``__time`` [ns], 0 where it has none; the numbers as
        float64, null for NaN; and, where intervals are known, the columns of `with_grid`.
    by : list of str
        The columns that tell one series from another.
    names : list of str
        Columns of the caller's frame.
    columns : Columns
        These columns, sorted by role.
    numbers : dict of str to str
        The working column of each column of numbers.
    checks : tuple of str
        The checks to make.
    limits : Limits
        The thresholds of the checks.
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
        """Open a frame and choose the checks; raise QueryError if one that the caller asks for does not apply."""
        wanted = chosen(checks)
        table = Table.opened(native, times=["timestamp"])
        schema, names, taken = table.schema, table.names, ["timestamp", *without]
        if table.is_eager:  # rows of lazy frames have no order
            table = replace(table, rows=table.rows.collect().with_row_index(ROW).lazy())
        # Prices and sizes are audited as numbers, even where they tell levels apart, so they name no series.
        not_keys = [*taken, "price", "size"]
        keys = of_rows(table, without=not_keys) if by is None else table.series(by, without=taken)
        columns = Columns.of(schema, by=keys)
        # The ``interval`` of a raw trade is that of its query, and that of a session is that of its parts.
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
        # The rows are ranked once, because window functions ordered by one integer are faster than by several columns.
        order = ["__time", *(numbers[name] for name in columns.sized)]
        rows = rows.with_row_index("__place", order_by=order)
        if has_grid:
            rows = with_grid(rows, interval)
        return cls(table, rows, keys, names, columns, numbers, applying, limits)

    @property
    def series(self) -> list[str]:
        """Columns that tell one series from another; rows without a time are a series of their own."""
        return [*self.by, "__timed"]

    def shifted(self, column: str, rows: int) -> nw.Expr:
        """Return the value ``rows`` rows earlier in the series, or later if negative; equal times sort by numbers."""
        return nw.col(column).shift(rows).over(self.series, order_by="__place")


def _applying(
    wanted: tuple[str, ...] | None, names: list[str], columns: Columns, *, has_grid: bool, is_ordered: bool
) -> tuple[str, ...]:
    """Return the checks a caller wants, or all that apply; raise QueryError if a wanted one does not apply."""
    required = {
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
        name: ("a frame with the columns it looks at", None)
        for name, needed in required.items()
        if not needed
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
"""Severity of every check, in the order they run; ``unit_jump`` runs before ``outlier``, which skips its rows.

Data with an error is wrong. Data with a warning may be right. Data with a notice is right, but breaks some programs.
"""


@dataclass(frozen=True)
class Limits:
    """The thresholds above which a check finds something."""

    outlier: float
    frozen: int
    stale: int
    unit_jump: float

    def __post_init__(self) -> None:
        """Raise QueryError unless each threshold is in its range."""
        arguments.positive("outlier", self.outlier)
        arguments.whole("frozen", self.frozen)
        arguments.whole("stale", self.stale)
        if not arguments.positive("unit_jump", self.unit_jump) > 1:
            raise QueryError("unit_jump", got=self.unit_jump, expected="a finite number above 1")


def chosen(checks: str | Iterable[str] | None) -> tuple[str, ...] | None:
    """Return the checks that a caller names, in the order of `CHECKS`; None if the caller leaves the choice open."""
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
# Amounts cannot be negative. Prices, rates and skews can.
_AMOUNTS: Final = frozenset(
    field.column
    for field in _fields()
    if field.kind in {"double", "int64"} and field.unit.startswith(("coin", "USD", "quote", "TPO", "%"))
) - (_PRICES - {"open", "high", "low", "close"})

_FAMILIES: Final = tuple(
    tuple(f"{prefix}{part}" for part in ("open", "high", "low", "close"))
    for prefix in ("", "price_", "value_", "rate_", "predicted_")
)
# Values that every interval has and that move in proportion to themselves, so their log returns are comparable.
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
# Rates rarely change and return to their usual value, so outliers show in the value, not in its move.
_RATES: Final = ("rate_close", "predicted_close")
_QUOTED: Final = (("price", "price", "amount", "quote_amount"), ("low", "high", "volume", "quote_volume"))
# Beside the moving values, these keep their order of magnitude, so that a jump in it shows a change of unit.
_SIZED: Final = ("volume", "circulating_supply", "total_supply")


@dataclass(frozen=True)
class Columns:
    """The columns of a frame, sorted by role.

    Attributes
    ----------
    numbers : tuple of str
        All columns of numbers that are neither times nor part of the identity.
    amounts : tuple of str
        Those numbers that cannot be negative.
    candles : tuple of tuple of str
        Each complete set of open, high, low and close.
    prices : tuple of str
        The first such set that holds prices; empty if none does.
    moving, sized : tuple of str
        Numbers whose log returns are compared; these and the numbers that keep their order of magnitude.
    rates : tuple of str
        Funding rates: they stay near one value and may be negative.
    traded : tuple of str
        Prices of events.
    quoted : tuple of str
        Lowest and highest price, amount in coin and amount in the quote; empty if one of the four is absent.
    key : tuple of str
        Columns that tell rows of one series and time apart: the id of an event, or else its price and amount; the price
        of a level.
    is_book : bool
        Whether a row is a level of one side of a book.
    is_sparse : bool
        Whether an interval in which nothing happened has no row.
    is_raw : bool
        Whether a row is an event, at any time.
    is_periodic : bool
        Whether a row is a session, with its end in ``period_end``.
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
        """Sort the columns of a schema by role, without the columns that name a series."""
        named = set(by)
        numbers = tuple(
            name
            for name, dtype in schema.items()
            if dtype.is_numeric() and name not in named and name not in _TIMES
        )
        # Open interest has open, high, low and close too, but no volume.
        is_priced = "volume" in numbers
        amounts = _AMOUNTS - _PRICES if is_priced else _AMOUNTS
        candles = tuple(four for four in _FAMILIES if set(four) <= set(numbers))
        prices = next(
            (four for four in candles if four[0] == "price_open" or (four[0] == "open" and is_priced)), ()
        )
        # Only events have an id or an amount. Events without an id are told apart by price and amount.
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
    """Add the interval of each row: its length ``__step`` and its start ``__bucket``. [ns]

    Where the length is unknown, ``__step`` is 0 and the bucket starts at the row's own time. ``__length`` is the length
    to divide by: ``__step``, but at least 1.
    """
    if interval is None:
        step = length_of(nw.col("interval"))
    else:
        step = nw.lit(arguments.length("interval", interval), nw.Int64())
    rows = rows.with_columns(__step=step, __length=nw.max_horizontal(step, nw.lit(1, nw.Int64())))
    return rows.with_columns(__bucket=bucket_by(nw.col("__time"), nw.col("__length")))


def count_of(span: nw.Expr) -> nw.Expr:
    """Return how many intervals a span holds; the span is a whole multiple of the interval."""
    # Spark divides integers as floats and truncates, which may lose one. Rounding the float quotient does not.
    return (span.cast(nw.Float64) / nw.col("__length").cast(nw.Float64)).round().cast(nw.Int64)
