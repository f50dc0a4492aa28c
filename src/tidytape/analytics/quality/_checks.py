"""The checks of an audit: the columns that each one looks at, and the flag that it sets on a row.

`opened` chooses the checks that apply and adds the working columns of all of them. `with_flags` adds the flags. A new
check is a line in `CHECKS`, one in `_columns` if it needs columns, and an expression in `_conditions`; if it needs
working columns of its own, it is a function in `_STEPS` instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import partial, reduce
from operator import or_
from types import MappingProxyType
from typing import Any, Final, Generic

import narwhals.stable.v2 as nw
from narwhals.stable.v2.typing import IntoFrameT

from tidytape.analytics import _arguments as arguments
from tidytape.analytics._series import of_rows
from tidytape.analytics.quality._gaps import count_of, with_grid
from tidytape.catalogue import DATA_TYPES, BookSide, Side
from tidytape.errors import QueryError
from tidytape.frames._door import OHLC, as_list
from tidytape.frames._rows import within
from tidytape.frames._table import OpenTable, Rows
from tidytape.frames._times import bucket_by
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
"""Checks for intervals without a row: columns of a flagged row with their number, the first one and the last. [ns]"""

_FIELDS: Final = [
    field
    for data_type in DATA_TYPES.values()
    for fields in (data_type.fields, *(levels.fields for levels in data_type.levels))
    for field in fields
]
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

_ROUNDED: Final = 0.01
"""Relative difference that rounding by the exchange explains; a wrong unit differs by a factor."""

_SIDE: Final = 5
"""Number of rows before a jump, and after it, that must agree: a spike has fewer."""

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
        Its rows, with ``__timed``, whether the row has a time; ``__time`` [ns], 0 where it has none; ``__place``, the
        rank of the row by time; the numbers as float64, null for NaN, named as `_number` names them; in memory
        ``__row``, the place of the row in the frame; and, where intervals are known, the columns of `with_grid`.
    by : list of str
        The columns that tell one series from another.
    columns : mapping of str to sequence
        The columns that each check looks at.
    checks : list of str
        The checks to make.
    limits : mapping of str to float
        The thresholds, by the names of the arguments of `audit`.
    """

    table: OpenTable[IntoFrameT]
    rows: Rows
    by: list[str]
    columns: Mapping[str, Any]
    checks: list[str]
    limits: Mapping[str, float]

    @property
    def numbers(self) -> list[str]:
        """Names of the working columns of numbers."""
        return [f"__number_{name}" for name in self.columns["unknown_value"]]

    @property
    def series(self) -> list[str]:
        """Columns that tell one series from another; rows without a time are a series of their own."""
        return [*self.by, "__timed"]

    def shifted(self, column: str, rows: int) -> nw.Expr:
        """Return the value ``rows`` rows earlier in the series, or later if negative; equal times sort by numbers."""
        return nw.col(column).shift(rows).over(self.series, order_by="__place")


def opened(
    frame: IntoFrameT,
    *,
    by: str | Iterable[str] | None,
    interval: str | timedelta | None,
    checks: str | Iterable[str] | None,
    limits: Mapping[str, float],
    without: Iterable[str] = (),
) -> Subject[IntoFrameT]:
    """Open a frame and choose the checks; raise QueryError if one that the caller asks for does not apply."""
    table = OpenTable.of(frame, times=["timestamp"])
    not_series = ["timestamp", *without]
    # Prices and sizes are audited as numbers, even where they tell levels apart, so they name no series.
    keys = (
        of_rows(table, without=[*not_series, "price", "size"])
        if by is None
        else table.series(by, without=not_series)
    )
    columns = _columns(table.schema, keys)
    # A raw trade's ``interval`` is that of its query, a session's is that of its parts: neither is the row's length.
    has_own = "interval" in table.names and "period_end" not in table.names and not _is_of_events(table.names)
    has_grid = interval is not None or has_own
    applying = _applying(checks, table, columns, has_grid=has_grid)

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
        rows = with_grid(rows, interval)
    return Subject(table, rows, keys, columns, applying, limits)


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
    """Return the columns that each check looks at, none if the frame lacks them; columns of ``by`` are left out.

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
    tells = ["id"] if "id" in schema else ["price", "amount"]
    key = [name for name in tells if name in schema and name not in by]
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
    """Return the checks that a caller names, or all that apply; raise QueryError if a named one does not apply."""
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
        unasked = ("missing_bucket", "stale") if "liquidations" in table.names else ()
        return [name for name in CHECKS if name not in reasons and name not in unasked]
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
    """Return the rows with a flag for each check, and for a check of `ABSENT` the columns named there."""
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
    columns, series, timed, time = subject.columns, subject.series, nw.col("__timed"), nw.col("__time")
    numbers = [nw.col(name) for name in subject.numbers]
    side = nw.col("side").cast(nw.String)
    price, book = _number("price"), [*(name for name in series if name != "side"), "__time"]
    rests = price.is_finite() & (_number("size") > 0)
    bid, ask = (nw.when(rests, side == known.value).then(price) for known in (BookSide.BID, BookSide.ASK))
    return {
        "missing_time": ~timed,
        # A row with a null in its key is no duplicate.
        "duplicate": timed
        & (nw.len().over([*series, "__time", *columns["key"]]) > 1)
        & ~_any(nw.col(name).is_null() for name in columns["key"]),
        "infinite_value": _any(~number.is_null() & ~number.is_finite() for number in numbers),
        "inconsistent_ohlc": _any(
            condition
            for first, high, low, last in (map(_number, four) for four in columns["inconsistent_ohlc"])
            for condition in (low > high, first > high, first < low, last > high, last < low)
        ),
        "negative_amount": _any(_number(name) < 0 for name in columns["negative_amount"]),
        "unknown_side": ~side.is_in([known.value for known in (*Side, *BookSide)]).fill_null(value=False),
        # A bid and an ask may have one price, for a price block holds orders of both sides of the mid.
        "crossed_book": timed & _any((bid > ask.min().over(book), ask < bid.max().over(book))),
        "unknown_interval": nw.col("__step") == 0,
        "misaligned": timed & (time != nw.col("__bucket")),
        # A column that is null throughout a series is not checked there.
        "unknown_value": _any(
            number.is_null() & (within(number.count(), subject.by) > 0) for number in numbers
        ),
        "unordered": timed & (time.cum_max().over(series, order_by="__row") > time),
    }


def _quote_mismatch(subject: Subject[Any], rows: Rows) -> tuple[Rows, nw.Expr]:
    """Flag rows whose quote amount is too small or too large for price times amount, if the series' sum is so too.

    Rounding can put one row outside. A wrong unit puts the whole series outside.
    """
    low, high, amount, quote = map(_number, subject.columns["quote_mismatch"])
    is_known = (amount > 0) & amount.is_finite() & quote.is_finite() & low.is_finite() & high.is_finite()
    terms = (quote, low * amount * (1 - _ROUNDED), high * amount * (1 + _ROUNDED))
    names = ("__quote", "__least", "__most")
    rows = rows.with_columns(
        nw.when(is_known).then(term).alias(name) for name, term in zip(names, terms, strict=True)
    )
    row_terms = [nw.col(name) for name in names]
    outside = [
        (value < least) | (value > most)
        for value, least, most in (row_terms, [column.sum().over(subject.series) for column in row_terms])
    ]
    return rows, outside[0] & outside[1]


def _missing_bucket(subject: Subject[Any], rows: Rows) -> tuple[Rows, nw.Expr]:
    """Flag rows with a gap before the next row of their series."""
    bucket, length = nw.col("__bucket"), nw.col("__length")
    rows = rows.with_columns(__next=subject.shifted("__bucket", -1)).with_columns(
        __missing=count_of(nw.col("__next") - bucket) - 1,
        __gap_from=bucket + length,
        __gap_to=nw.col("__next") - length,
    )
    return rows, nw.col("__timed") & (nw.col("__step") > 0) & (nw.col("__missing") > 0)


def _stale(subject: Subject[Any], rows: Rows) -> tuple[Rows, nw.Expr]:
    """Flag the rows in the last interval of each series that ends too long before the frame's latest interval."""
    bucket, length, end = nw.col("__bucket"), nw.col("__length"), nw.col("__last")
    rows = rows.with_columns(__last=bucket.max().over(subject.series), __newest=bucket.max().over("__timed"))
    behind = nw.col("__newest") - end
    # A series of another interval length may end within an interval of this series, so only whole intervals count.
    rows = rows.with_columns(__lag=count_of(behind - behind % length), __lag_from=end + length)
    is_end = nw.col("__timed") & (nw.col("__step") > 0) & (bucket == end)
    return rows, is_end & (nw.col("__lag") > subject.limits["stale"])


def _frozen(subject: Subject[Any], rows: Rows, *, check: str) -> tuple[Rows, nw.Expr]:
    """Flag the rows of a run in which open, high, low and close all equal the close before."""
    numbers = [_number(name) for name in subject.columns[check]]
    rows = rows.with_columns(__before=subject.shifted(f"__number_{subject.columns[check][-1]}", 1))
    is_same = nw.all_horizontal(*(number == nw.col("__before") for number in numbers), ignore_nulls=False)
    return _long(subject, rows, is_same)


def _frozen_rate(subject: Subject[Any], rows: Rows) -> tuple[Rows, nw.Expr]:
    """Flag the rows of a run of a day or more in which rate and predicted rate, if there is one, are those before."""
    names = subject.columns["frozen_rate"]
    rows = rows.with_columns(
        subject.shifted(f"__number_{name}", 1).alias(f"__before_{name}") for name in names
    )
    is_same = ~_number(names[0]).is_null()
    for number, before in ((_number(name), nw.col(f"__before_{name}")) for name in names):
        is_same &= (number == before).fill_null(value=False) | (number.is_null() & before.is_null())
    rows, is_long = _long(subject, rows, is_same)
    first, last = (
        bound.over([*subject.series, "__run"]) for bound in (nw.col("__time").min(), nw.col("__time").max())
    )
    return rows, is_long & (last - first >= DAY)


def _long(subject: Subject[Any], rows: Rows, is_same: nw.Expr) -> tuple[Rows, nw.Expr]:
    """Return whether a row is like the one before it, in a run of such rows that is long enough."""
    rows = rows.with_columns(__same=is_same.fill_null(value=False).cast(nw.Int64)).with_columns(
        __run=(1 - nw.col("__same")).cum_sum().over(subject.series, order_by="__place")
    )
    length = nw.col("__same").sum().over([*subject.series, "__run"])
    return rows, nw.col("__timed") & (nw.col("__same") == 1) & (length >= subject.limits["frozen"])


def _unit_jump(subject: Subject[Any], rows: Rows) -> tuple[Rows, nw.Expr]:
    """Flag a row where a number and the next four are all above the five before, or all below, by a given factor."""
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
    """Flag rows whose move or level is far from the usual one, unless the unit changes there."""
    if "unit_jump" not in subject.checks:
        rows, jumps = _unit_jump(subject, rows)
        rows = rows.with_columns(jumps.fill_null(value=False).alias(flag("unit_jump")))
    far_flags = []
    for name in subject.columns["outlier"]:
        rows, is_far = _far(subject, rows, name)
        rows = rows.with_columns(is_far.alias(f"__far_{name}"))
        far_flags.append(nw.col(f"__far_{name}"))
    return rows, nw.col("__timed") & _any(far_flags)


def _far(subject: Subject[Any], rows: Rows, name: str) -> tuple[Rows, nw.Expr]:
    """Return whether a funding rate, the logarithm of a trade's price, or the move of anything else is far from usual.

    Rates are compared with the median of their series, prices of trades with that of their hour.
    """
    series, value, level, off, most = (
        subject.series,
        _number(name),
        *map(nw.col, ("__level", "__off", "__most")),
    )
    logarithm, around = nw.when(value > 0, value.is_finite()).then(value).log(), subject.series
    is_rate, is_price = name in _RATES, name == "price"
    if is_rate:
        rows = rows.with_columns(__level=nw.when(value.is_finite()).then(value))
    elif is_price:
        rows = rows.with_columns(__hour=bucket_by(nw.col("__time"), HOUR), __level=logarithm)
        around = [*series, "__hour"]
    else:
        rows = rows.with_columns(__log=logarithm)
        since = {place: nw.col("__log") - subject.shifted("__log", place) for place in (1, 2)}
        rows = rows.with_columns(__level=since[1], __both=since[2])
    rows = rows.with_columns(__usual=level.median().over(around)).with_columns(
        __off=(level - nw.col("__usual")).abs()
    )
    mad = off.median().over(series)
    deviation = nw.when(mad > 0).then(mad * _NORMAL).otherwise(off.mean().over(series) * _NORMAL_MEAN)
    rows = rows.with_columns(__most=deviation * subject.limits["outlier"])
    is_far = (level.count().over(series) >= _ENOUGH) & (off > most)
    if is_rate:
        return rows, is_far
    # In a series that is mostly positive, a value of 0 or less has no logarithm. It counts as far.
    is_nothing = (value <= 0) & (value.median().over(series) > 0)
    if is_price:
        return rows, _any([is_far, is_nothing])
    # After a single far row, the move back is far too. It is not flagged if both moves together are not far.
    is_back = (subject.shifted("__off", 1) > most) & (
        (nw.col("__both") - nw.col("__usual") - nw.col("__usual")).abs() <= most
    )
    is_far = is_far & ~is_back.fill_null(value=False)
    return rows, _any([is_far, is_nothing]) & ~nw.col(flag("unit_jump"))


_STEPS: Final[Mapping[str, Callable[[Subject[Any], Rows], tuple[Rows, nw.Expr]]]] = MappingProxyType(
    {
        "quote_mismatch": _quote_mismatch,
        "missing_bucket": _missing_bucket,
        "stale": _stale,
        "frozen_price": partial(_frozen, check="frozen_price"),
        "frozen_interest": partial(_frozen, check="frozen_interest"),
        "frozen_rate": _frozen_rate,
        "unit_jump": _unit_jump,
        "outlier": _outlier,
    }
)
"""Checks whose conditions need working columns, which they add themselves."""
