"""The checks of an audit: the columns that each check looks at, and the flag that it sets on a row.

`opened` chooses the checks that apply and adds the working columns that they share. `with_flags` adds the flags. A new
check needs a line in `CHECKS`, a line in `_columns` if it needs columns, and an expression in `_conditions`; if it
needs working columns of its own, it is a function in `_STEPS` instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import partial, reduce
from operator import eq, or_
from types import MappingProxyType
from typing import Any, Final, Generic

import narwhals.stable.v2 as nw
from narwhals.stable.v2.typing import IntoFrameT

from tidytape.analytics import _arguments as arguments
from tidytape.analytics._series import row_columns
from tidytape.analytics.quality._gaps import count_of, first_from, placed, with_grid
from tidytape.catalogue import DATA_TYPES, BookSide, Side
from tidytape.errors import QueryError
from tidytape.frames._door import OHLC, as_list
from tidytape.frames._kinds import KINDS, Kind
from tidytape.frames._rows import within
from tidytape.frames._table import OpenTable, Rows
from tidytape.frames._times import bucket_by
from tidytape.frames._trading_clock import Clocks, with_trading_time, with_world_time
from tidytape.sessions import Session, unless_utc_day
from tidytape.times import DAY, HOUR

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
    "frozen_interest": "warning",
    "frozen_rate": "warning",
    "unit_jump": "warning",
    "outlier": "warning",
    "unordered": "notice",
}
"""Severity of every check, in the order they run; ``outlier`` skips the rows that ``unit_jump`` flags.

Data with an error is wrong. Data with a warning may be right. Data with a notice is right, but breaks some programs.
"""

ABSENT: Final = MappingProxyType(
    {
        "missing_bucket": ("__missing", "__gap_from", "__gap_to"),
        "stale": ("__lag", "__lag_from", "__newest"),
    }
)
"""Checks for intervals without a row, and the columns with their number, the first and the last of them. [ns]"""

_FIELDS: Final = [
    field
    for data_type in DATA_TYPES.values()
    for fields in (data_type.fields, *(levels.fields for levels in data_type.levels))
    for field in fields
]
_NUMBERS: Final = sorted(
    {field.column for field in _FIELDS if field.kind in {"double", "int64"}}
    | {"quote_volume", "quote_amount"}
)
"""Columns of numbers."""
_OF_BLOCKS: Final = frozenset({"block_size_minutes", "block_ids", "sessions"})
"""Columns of profiles whose sessions have time blocks."""
_AS_NUMBERS: Final = {
    "interval": None,  # a word that is no interval is a finding, and so is a negative amount
    **{name: Kind.NUMBER for name in _NUMBERS if KINDS.get(name) is not Kind.COUNT},
}
_TIMES: Final = {field.column for field in _FIELDS if field.kind == "timestamp"}
_PRICES: Final = {field.column for field in _FIELDS if field.unit.endswith(" per coin")}
# Amounts cannot be negative. Prices, rates and skews can.
_AMOUNTS: Final = {
    field.column
    for field in _FIELDS
    if field.kind in {"double", "int64"} and field.unit.startswith(("coin", "USD", "quote", "TPO", "%"))
} - _PRICES.difference(OHLC)

_FAMILIES: Final = [
    [f"{prefix}{part}" for part in OHLC] for prefix in ("", "price_", "value_", "rate_", "predicted_")
]
# Every interval has these values, and their moves are proportional to their size, so log returns are comparable.
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

_ROUNDED: Final = 0.01
"""Relative difference that the exchange's rounding can explain; a wrong unit gives a factor."""

_SIDE: Final = 5
"""How many rows before a jump, and after it, must agree; a spike has fewer."""

_NORMAL: Final = 1.4826
"""Standard deviations of a normal distribution per median absolute deviation. [1]"""

_NORMAL_MEAN: Final = 1.2533
"""Standard deviations per mean absolute deviation, for series whose median absolute deviation is 0. [1]"""

_ENOUGH: Final = 20
"""Fewest values of a series in which `audit` looks for outliers."""


@dataclass(frozen=True)
class Subject(Generic[IntoFrameT]):
    """The frame that is audited, with its working columns.

    Attributes
    ----------
    table : OpenTable
        The frame.
    rows : narwhals LazyFrame
        Its rows, with ``__timed``, whether the row has a time; ``__time`` [ns], 0 if it has none; ``__place``, the rank
        of the row by time; the numbers as float64, null for NaN, named as in `_number`; in memory ``__row``, the
        position of the row in the frame; and, if intervals are known, the columns of `with_grid` and
        `placed`.
    by : list of str
        The columns that tell one series from another.
    columns : mapping of str to sequence
        The columns that each check looks at.
    checks : list of str
        The checks to make.
    limits : mapping of str to float
        The thresholds, by the names of the arguments of `audit`.
    clocks : mapping
        Those of `placed`; without a session there is none.
    """

    table: OpenTable[IntoFrameT]
    rows: Rows
    by: list[str]
    columns: Mapping[str, Any]
    checks: list[str]
    limits: Mapping[str, float]
    clocks: Clocks

    @property
    def numbers(self) -> list[str]:
        """Names of the working columns of numbers."""
        return [f"__number_{name}" for name in self.columns["unknown_value"]]

    @property
    def series_columns(self) -> list[str]:
        """Columns that tell one series from another; rows without a time are a series of their own."""
        return [*self.by, "__timed"]

    def shifted(self, column: str, rows: int) -> nw.Expr:
        """Return the value ``rows`` rows earlier in the series, or later if negative; equal times sort by numbers."""
        return nw.col(column).shift(rows).over(self.series_columns, order_by="__place")


def opened(
    frame: IntoFrameT,
    *,
    by: str | Iterable[str] | None,
    interval: str | timedelta | None,
    checks: str | Iterable[str] | None,
    limits: Mapping[str, float],
    session: Session | None,
    without: Iterable[str] = (),
) -> Subject[IntoFrameT]:
    """Open a frame and choose the checks; raise QueryError if one that the caller asks for does not apply."""
    table = OpenTable.of(frame, ["timestamp"], optional=_NUMBERS, kinds=_AS_NUMBERS)
    not_series = ["timestamp", *without]
    # Prices and sizes are audited as numbers, even where they tell levels apart, so they name no series.
    keys = (
        row_columns(table, without=[*not_series, "price", "size"])
        if by is None
        else table.series_columns(by, without=not_series)
    )
    columns = _columns(table.schema, keys)
    # The ``interval`` of a raw trade is the query's, and that of a session with time blocks is its parts': neither is
    # the row's length.
    is_of_blocks = "period_end" in table.names and not _OF_BLOCKS.isdisjoint(table.names)
    has_lengths = "interval" in table.names and not is_of_blocks and not _is_of_events(table.names)
    has_grid = interval is not None or has_lengths
    chosen_checks = _applying(checks, table, columns, has_grid=has_grid)

    rows = table.rows.collect().with_row_index("__row").lazy() if table.is_eager else table.rows
    time = nw.col("timestamp")
    floats = {name: nw.col(name).cast(nw.Float64) for name in columns["unknown_value"]}
    rows = rows.with_columns(
        *(nw.when(~value.is_nan()).then(value).alias(f"__number_{name}") for name, value in floats.items()),
        __timed=~time.is_null(),
        __time=time.fill_null(0),
    )
    # The rows are ranked once, because window functions ordered by one integer are faster than by several columns.
    order = ["__time", *(f"__number_{name}" for name in columns["unit_jump"])]
    rows = rows.with_row_index("__place", order_by=order)
    if has_grid:
        rows = with_grid(rows, interval, session, table)
    # The market of the service never closes.
    rows, clocks = placed(rows, unless_utc_day(session)) if has_grid else (rows, {})
    return Subject(table, rows, keys, columns, chosen_checks, limits, clocks)


def thresholds(*, outlier: float, frozen: int, stale: int, unit_jump: float) -> dict[str, float]:
    """Return the thresholds by name; raise QueryError if one is out of its range."""
    if not arguments.positive("unit_jump", unit_jump) > 1:
        raise QueryError("unit_jump", got=unit_jump, expected="a finite number above 1")
    return {
        "outlier": arguments.positive("outlier", outlier),
        "frozen": arguments.integer("frozen", frozen),
        "stale": arguments.integer("stale", stale),
        "unit_jump": unit_jump,
    }


def _columns(schema: Mapping[str, Any], by: list[str]) -> dict[str, Any]:
    """Return the columns that each check looks at, empty if the frame lacks them; columns of ``by`` are left out.

    ``key`` are the columns that tell apart the rows of one series and time.
    """
    numbers = [
        name for name, dtype in schema.items() if dtype.is_numeric() and name not in by and name not in _TIMES
    ]
    # Open interest has open, high, low and close too, but no volume.
    is_priced = "volume" in numbers
    families = [four for four in _FAMILIES if set(four) <= set(numbers)]
    candles = [four for four in families if four[0] == "price_open" or (four[0] == "open" and is_priced)]
    # An event without an id is told apart by its price and amount, a level by its price.
    event_key = ["id"] if "id" in schema else ["price", "amount"]
    key = [name for name in event_key if name in schema and name not in by]
    is_event = _is_of_events(schema)
    moving = [] if key else [name for name in _MOVING if name in numbers]
    is_book = not is_event and "side" in schema and {"price", "size"} <= set(numbers)
    return {
        "key": key,
        "infinite_value": numbers,
        "unknown_value": numbers,
        "inconsistent_ohlc": families,
        "negative_amount": [
            name for name in numbers if name in _AMOUNTS and not (is_priced and name in _PRICES)
        ],
        "quote_mismatch": next((four for four in _QUOTED if set(four) <= set(numbers)), ()),
        "unknown_side": [name for name in ("side",) if name in schema],
        "crossed_book": ["side", "price", "size"] if is_book else [],
        "frozen_price": candles[0] if candles and not key else [],
        "frozen_interest": []
        if is_priced or key
        else next((four for four in families if "open" in four), []),
        "frozen_rate": [name for name in _RATES if name in numbers],
        "unit_jump": moving + ([] if key else [name for name in _SIZED if name in numbers]),
        "outlier": [name for name in numbers if name in {*moving, *_RATES} or (is_event and name == "price")],
    }


def _is_of_events(names: Iterable[str]) -> bool:
    """Return whether each row is an event: only events have an id or an amount."""
    return not {"id", "amount"}.isdisjoint(names)


def _applying(
    checks: str | Iterable[str] | None, table: OpenTable[Any], columns: Mapping[str, Any], *, has_grid: bool
) -> list[str]:
    """Return the checks that the caller names, or all that apply; raise QueryError if a named check does not apply."""
    reasons: dict[str, tuple[str, str | None]] = {
        name: ("a frame with the columns it looks at", None) for name in CHECKS if not columns.get(name, True)
    }
    if not has_grid:
        for name in ("unknown_interval", "misaligned", "missing_bucket", "stale"):
            reasons[name] = ("a frame of intervals", "say how long they are with interval=")
    if _is_of_events(table.names):
        reasons["misaligned"] = ("a frame of intervals", None)
    if not table.is_eager:
        reasons["unordered"] = ("a frame in memory, because rows of others have no order", "collect it first")
    if checks is None:
        # An interval without a liquidation has no row.
        left_out = ("missing_bucket", "stale") if "liquidations" in table.names else ()
        return [name for name in CHECKS if name not in reasons and name not in left_out]
    names = as_list(checks)
    if not names:
        raise QueryError("checks", got=checks, expected="one check or more, or None for all that apply")
    for name in names:
        arguments.one_of("checks", name, CHECKS)
        if name in reasons:
            expected, hint = reasons[name]
            raise QueryError("checks", got=name, expected=expected, hint=hint)
    return [name for name in CHECKS if name in names]


def flag(name: str) -> str:
    """Return the name of the column that flags the rows of a check's finding."""
    return f"__is_{name}"


def with_flags(subject: Subject[Any]) -> Rows:
    """Add a flag for each check, and for the checks in `ABSENT` the columns that it names."""
    rows, conditions = subject.rows, _conditions(subject)
    for check in subject.checks:
        if check in _STEPS:
            rows, conditions[check] = _STEPS[check](subject, rows)
        rows = rows.with_columns(conditions[check].fill_null(value=False).alias(flag(check)))
    return rows


def _any(conditions: Iterable[nw.Expr]) -> nw.Expr:
    """Return whether any condition holds; null does not hold."""
    return reduce(or_, (condition.fill_null(value=False) for condition in conditions), nw.lit(value=False))


def _number(name: str) -> nw.Expr:
    """Return a column as float64, null for NaN."""
    return nw.col(f"__number_{name}")


def _conditions(subject: Subject[Any]) -> dict[str, nw.Expr]:
    """Return the conditions of the checks that need no working column of their own."""
    columns, series_columns, timed, time = (
        subject.columns,
        subject.series_columns,
        nw.col("__timed"),
        nw.col("__time"),
    )
    numbers = [nw.col(name) for name in subject.numbers]
    side = nw.col("side").cast(nw.String)
    price, book = _number("price"), [*(name for name in series_columns if name != "side"), "__time"]
    is_order = price.is_finite() & (_number("size") > 0)
    bid, ask = (
        nw.when(is_order, side == book_side.value).then(price) for book_side in (BookSide.BID, BookSide.ASK)
    )
    # A day may start at the open, or at midnight in any zone.
    is_of_session = (
        nw.lit(bool(subject.clocks)) & (nw.col("__length") >= DAY) & ~nw.col("__on_clock").is_null()
    )
    return {
        "missing_time": ~timed,
        # A row with a null in its key is no duplicate.
        "duplicate": timed
        & (nw.len().over([*series_columns, "__time", *columns["key"]]) > 1)
        & ~_any(nw.col(name).is_null() for name in columns["key"]),
        "infinite_value": _any(~number.is_null() & ~number.is_finite() for number in numbers),
        "inconsistent_ohlc": _any(
            condition
            for first, high, low, last in (map(_number, four) for four in columns["inconsistent_ohlc"])
            for condition in (low > high, first > high, first < low, last > high, last < low)
        ),
        "negative_amount": _any(_number(name) < 0 for name in columns["negative_amount"]),
        "unknown_side": ~side.is_in([known.value for known in (*Side, *BookSide)]).fill_null(value=True),
        # A bid and an ask may have the same price, because one price block can hold orders of both sides.
        "crossed_book": timed & _any((bid > ask.min().over(book), ask < bid.max().over(book))),
        "unknown_interval": nw.col("__step") == 0,
        "misaligned": timed & (time != nw.col("__bucket")) & ~is_of_session,
        # A column that is null throughout a series is not checked there.
        "unknown_value": _any(
            number.is_null() & (within(number.count(), subject.by) > 0) for number in numbers
        ),
        "unordered": timed & (time.cum_max().over(series_columns, order_by="__row") > time),
    }


def _quote_mismatch(subject: Subject[Any], rows: Rows) -> tuple[Rows, nw.Expr]:
    """Flag rows whose quote amount does not fit price times amount, if the sums of the series do not fit either.

    Rounding can make a single row fail. A wrong unit makes the sums of the whole series fail.
    """
    low, high, amount, quote = map(_number, subject.columns["quote_mismatch"])
    is_known = (amount > 0) & amount.is_finite() & quote.is_finite() & low.is_finite() & high.is_finite()
    terms = (quote, low * amount * (1 - _ROUNDED), high * amount * (1 + _ROUNDED))
    names = ("__quote", "__least", "__most")
    rows = rows.with_columns(
        nw.when(is_known).then(term).alias(name) for name, term in zip(names, terms, strict=True)
    )
    row_columns = [nw.col(name) for name in names]
    outside = [
        (value < minimum) | (value > maximum)
        for value, minimum, maximum in (
            row_columns,
            [column.sum().over(subject.series_columns) for column in row_columns],
        )
    ]
    return rows, outside[0] & outside[1]


def _missing_bucket(subject: Subject[Any], rows: Rows) -> tuple[Rows, nw.Expr]:
    """Flag rows with a gap before the next row of their series."""
    on_clock, length, series_columns = nw.col("__on_clock"), nw.col("__length"), subject.series_columns
    if subject.clocks:
        rows = rows.with_columns(__is_closed=on_clock.is_null())
        series_columns = [*series_columns, "__is_closed"]
    rows = rows.with_columns(__next=on_clock.shift(-1).over(series_columns, order_by="__place")).with_columns(
        __missing=count_of(nw.col("__next") - on_clock) - 1,
        __gap_from=on_clock + length,
        __gap_to=nw.col("__next") - length,
    )
    for name in ("__gap_from", "__gap_to"):
        rows = with_world_time(rows, nw.col(name), name, subject.clocks, ["__length"])
    return rows, nw.col("__timed") & (nw.col("__step") > 0) & (nw.col("__missing") > 0)


def _stale(subject: Subject[Any], rows: Rows) -> tuple[Rows, nw.Expr]:
    """Flag the rows in the last interval of a series, if it lies too long before the latest interval of the frame."""
    bucket, length, on_clock, last = map(nw.col, ("__bucket", "__length", "__on_clock", "__last"))
    # A row of a day may begin after 00:00 UTC of its session's date.
    newest = nw.max_horizontal("__time", bucket) if subject.clocks else bucket
    rows = rows.with_columns(
        __last=on_clock.max().over(subject.series_columns),
        __newest=bucket.max().over("__timed"),
        __after=first_from(newest.max().over("__timed") + 1),
    )
    # The latest interval may belong to a series of another interval length, so only whole intervals of this one count.
    rows = with_trading_time(rows, nw.col("__after"), "__after", subject.clocks, ["__length"])
    rows = rows.with_columns(__lag=count_of(nw.col("__after") - last) - 1, __lag_from=last + length)
    rows = with_world_time(rows, nw.col("__lag_from"), "__lag_from", subject.clocks, ["__length"])
    is_end = nw.col("__timed") & (nw.col("__step") > 0) & (on_clock == last)
    return rows, is_end & (nw.col("__lag") > subject.limits["stale"])


def _frozen(subject: Subject[Any], rows: Rows, *, check: str, least: int = 0) -> tuple[Rows, nw.Expr]:
    """Flag the rows of a long run in which open, high, low and close all equal the close before.

    With ``least``, the shortest time from the first to the last row of a run [ns], each number equals its own value
    before, and numbers that are null are not compared.
    """
    names = subject.columns[check]
    closes = names if least else names[-1:] * len(names)
    rows = rows.with_columns(
        subject.shifted(f"__number_{close}", 1).alias(f"__before_{close}") for close in {*closes}
    )
    before = [nw.col(f"__before_{close}") for close in closes]
    is_same = nw.all_horizontal(*map(eq, map(_number, names), before), ignore_nulls=least > 0)
    rows = rows.with_columns(
        __same=(is_same & ~before[0].is_null()).fill_null(value=False).cast(nw.Int64)
    ).with_columns(__run=(1 - nw.col("__same")).cum_sum().over(subject.series_columns, order_by="__place"))
    run, time = [*subject.series_columns, "__run"], nw.col("__time")
    is_long = nw.col("__same").sum().over(run) >= subject.limits["frozen"]
    lasts = time.max().over(run) - time.min().over(run) >= least
    return rows, nw.col("__timed") & (nw.col("__same") == 1) & is_long & lasts


def _unit_jump(subject: Subject[Any], rows: Rows) -> tuple[Rows, nw.Expr]:
    """Flag a row if its number and the next four are all above the five before, or all below, by ``unit_jump``."""
    factor = subject.limits["unit_jump"]
    before = {f"__before_{rows_before}": rows_before for rows_before in range(1, _SIDE + 1)}
    after = {f"__after_{ahead}": -ahead for ahead in range(_SIDE)}
    low, high = nw.min_horizontal(*before), nw.max_horizontal(*before)
    lower, higher = nw.min_horizontal(*after), nw.max_horizontal(*after)
    # With fewer than five rows on a side, or a null among them, no row is flagged.
    is_known = nw.all_horizontal(*(~nw.col(name).is_null() for name in before | after), ignore_nulls=False)
    jumps = is_known & (((low > 0) & (lower >= high * factor)) | ((lower > 0) & (higher * factor <= low)))
    flags = [f"__jumps_{name}" for name in subject.columns["unit_jump"]]
    for name, result in zip(subject.columns["unit_jump"], flags, strict=True):
        shifts = {
            shifted: subject.shifted(f"__number_{name}", rows_back)
            for shifted, rows_back in (before | after).items()
        }
        rows = rows.with_columns(**shifts).with_columns(jumps.alias(result))
    return rows, nw.col("__timed") & _any(nw.col(name) for name in flags)


def _outlier(subject: Subject[Any], rows: Rows) -> tuple[Rows, nw.Expr]:
    """Flag rows whose move or value is far from the usual one, unless the unit changes there."""
    if "unit_jump" not in subject.checks:
        rows, jumps = _unit_jump(subject, rows)
        rows = rows.with_columns(jumps.fill_null(value=False).alias(flag("unit_jump")))
    for name in subject.columns["outlier"]:
        rows, is_far = _far(subject, rows, name)
        rows = rows.with_columns(is_far.alias(f"__far_{name}"))
    return rows, nw.col("__timed") & _any(nw.col(f"__far_{name}") for name in subject.columns["outlier"])


def _far(subject: Subject[Any], rows: Rows, name: str) -> tuple[Rows, nw.Expr]:
    """Return whether a funding rate, the log of a trade's price, or the move of another number is far from the usual.

    A rate is compared with the median of its series, the price of a trade with the median of its hour.
    """
    compared, distance, limit = map(nw.col, ("__compared", "__distance", "__limit"))
    series_columns, value = subject.series_columns, _number(name)
    logarithm, peers = nw.when(value > 0, value.is_finite()).then(value).log(), subject.series_columns
    is_rate, is_price = name in _RATES, name == "price"
    if is_rate:
        rows = rows.with_columns(__compared=nw.when(value.is_finite()).then(value))
    elif is_price:
        rows = rows.with_columns(__hour=bucket_by(nw.col("__time"), HOUR), __compared=logarithm)
        peers = [*series_columns, "__hour"]
    else:
        rows = rows.with_columns(__log=logarithm)
        moves = {rows_back: nw.col("__log") - subject.shifted("__log", rows_back) for rows_back in (1, 2)}
        rows = rows.with_columns(__compared=moves[1], __both=moves[2])
    rows = rows.with_columns(__usual=compared.median().over(peers)).with_columns(
        __distance=(compared - nw.col("__usual")).abs()
    )
    mad = distance.median().over(series_columns)
    deviation = (
        nw.when(mad > 0).then(mad * _NORMAL).otherwise(distance.mean().over(series_columns) * _NORMAL_MEAN)
    )
    rows = rows.with_columns(__limit=deviation * subject.limits["outlier"])
    is_far = (compared.count().over(series_columns) >= _ENOUGH) & (distance > limit)
    if is_rate:
        return rows, is_far
    # A value of 0 or less has no logarithm. In a series that is mostly positive it counts as far.
    is_not_positive = (value <= 0) & (value.median().over(series_columns) > 0)
    if is_price:
        return rows, _any([is_far, is_not_positive])
    # After a single outlier the move back is far, too. Do not flag it if the sum of the two moves differs from twice
    # the usual (median) move by at most the limit.
    is_back = (subject.shifted("__distance", 1) > limit) & (
        (nw.col("__both") - nw.col("__usual") - nw.col("__usual")).abs() <= limit
    )
    is_far = is_far & ~is_back.fill_null(value=False)
    return rows, _any([is_far, is_not_positive]) & ~nw.col(flag("unit_jump"))


_STEPS: Final[Mapping[str, Callable[[Subject[Any], Rows], tuple[Rows, nw.Expr]]]] = MappingProxyType(
    {
        "quote_mismatch": _quote_mismatch,
        "missing_bucket": _missing_bucket,
        "stale": _stale,
        "frozen_price": partial(_frozen, check="frozen_price"),
        "frozen_interest": partial(_frozen, check="frozen_interest"),
        "frozen_rate": partial(_frozen, check="frozen_rate", least=DAY),
        "unit_jump": _unit_jump,
        "outlier": _outlier,
    }
)
"""Checks that add working columns for their condition."""
