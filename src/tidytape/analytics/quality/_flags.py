"""What each check looks for: a flag on every row. A new check is a function here and a line in `_FLAGS`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial, reduce
from operator import or_
from types import MappingProxyType
from typing import Any, Final

import narwhals.stable.v2 as nw

from tidytape.analytics.quality._subject import ROW, Subject, count_of
from tidytape.catalogue import BookSide, Side
from tidytape.frames.buckets import bucket_by
from tidytape.frames.ordered import within
from tidytape.times import HOUR

Rows = nw.LazyFrame[Any]

_ROUNDED: Final = 0.01
"""Relative difference that rounding by the exchange explains; a wrong unit differs by a factor."""

_SIDE = 5
"""Rows on either side of a jump that tell it from a spike."""

_NORMAL: Final = 1.4826
"""Standard deviations of a normal distribution per median absolute deviation. [1]"""

_NORMAL_MEAN: Final = 1.2533
"""The same per mean absolute deviation, for series that mostly do not move. [1]"""

_ENOUGH: Final = 20
"""Numbers that tell what is usual."""

_SIDES = tuple(map(str, (*Side, *BookSide)))

ABSENT: Final[Mapping[str, tuple[str, str, str]]] = MappingProxyType(
    {
        "missing_bucket": ("__missing", "__gap_from", "__gap_to"),
        "stale": ("__lag", "__lag_from", "__newest"),
    }
)
"""Checks that look at intervals that are not there, and on a flagged row how many, the first and the last. [ns]"""


def flag(name: str) -> str:
    """Return the name of the column that says whether a row is one of a finding."""
    return f"__is_{name}"


def with_flags(subject: Subject[Any]) -> Rows:
    """Return the rows with a flag for each check."""
    rows = subject.rows
    for name in subject.checks:
        rows, condition = _FLAGS[name](subject, rows)
        rows = rows.with_columns(condition.fill_null(value=False).alias(flag(name)))
    return rows


def _any(conditions: Iterable[nw.Expr]) -> nw.Expr:
    """Return whether any condition holds; null does not hold."""
    return reduce(or_, (one.fill_null(value=False) for one in conditions), nw.lit(value=False))


def _missing_time(_: Subject[Any], rows: Rows) -> tuple[Rows, nw.Expr]:
    return rows, ~nw.col("__timed")


def _duplicate(subject: Subject[Any], rows: Rows) -> tuple[Rows, nw.Expr]:
    key = subject.columns.key
    rows = rows.with_columns(__rows=nw.len().over([*subject.series, "__time", *key]))
    # A key with a null among it is nobody's.
    return rows, nw.col("__timed") & (nw.col("__rows") > 1) & ~_any(nw.col(name).is_null() for name in key)


def _infinite_value(subject: Subject[Any], rows: Rows) -> tuple[Rows, nw.Expr]:
    values = [nw.col(own) for own in subject.numbers.values()]
    return rows, _any(~value.is_null() & ~value.is_finite() for value in values)


def _inconsistent_ohlc(subject: Subject[Any], rows: Rows) -> tuple[Rows, nw.Expr]:
    def contradictions() -> Iterator[nw.Expr]:
        for four in subject.columns.candles:
            first, high, low, last = (nw.col(subject.numbers[name]) for name in four)
            yield from (low > high, first > high, first < low, last > high, last < low)

    return rows, _any(contradictions())


def _negative_amount(subject: Subject[Any], rows: Rows) -> tuple[Rows, nw.Expr]:
    return rows, _any(nw.col(subject.numbers[name]) < 0 for name in subject.columns.amounts)


def _quote_mismatch(subject: Subject[Any], rows: Rows) -> tuple[Rows, nw.Expr]:
    low, high, amount, quote = (nw.col(subject.numbers[name]) for name in subject.columns.quoted)
    known = (amount > 0) & amount.is_finite() & quote.is_finite() & low.is_finite() & high.is_finite()
    rows = rows.with_columns(__quote_known=known.fill_null(value=False))
    known = nw.col("__quote_known")
    rows = rows.with_columns(
        __quote=nw.when(known).then(quote),
        __least=nw.when(known).then(low * amount * (1 - _ROUNDED)),
        __most=nw.when(known).then(high * amount * (1 + _ROUNDED)),
    )
    sums = ("__quote", "__least", "__most")
    rows = rows.with_columns(nw.col(name).sum().over(subject.series).alias(f"{name}_sum") for name in sums)

    def is_outside(suffix: str) -> nw.Expr:
        amount_in_quote = nw.col(f"__quote{suffix}")
        return (amount_in_quote < nw.col(f"__least{suffix}")) | (amount_in_quote > nw.col(f"__most{suffix}"))

    # Rounding can put one row outside; a wrong unit puts the whole series there.
    return rows, is_outside("") & is_outside("_sum")


def _unknown_side(_: Subject[Any], rows: Rows) -> tuple[Rows, nw.Expr]:
    side = nw.col("side").cast(nw.String)
    return rows, side.is_null() | ~side.is_in(_SIDES).fill_null(value=False)


def _crossed_book(subject: Subject[Any], rows: Rows) -> tuple[Rows, nw.Expr]:
    price, size, side = (
        nw.col(name) for name in (subject.numbers["price"], subject.numbers["size"], "__side")
    )
    book = [*(name for name in subject.series if name != "side"), "__time"]
    rows = rows.with_columns(__side=nw.col("side").cast(nw.String))
    is_bid, is_ask = side == BookSide.BID.value, side == BookSide.ASK.value
    rests = price.is_finite() & (size > 0)
    rows = rows.with_columns(
        __bid=nw.when(rests & is_bid).then(price), __ask=nw.when(rests & is_ask).then(price)
    )
    bid, ask = nw.col("__bid"), nw.col("__ask")
    rows = rows.with_columns(__best_bid=bid.max().over(book), __best_ask=ask.min().over(book))
    # Of one price there may be both: a block holds what rests in it, on either side of the mid.
    return rows, nw.col("__timed") & _any((bid > nw.col("__best_ask"), ask < nw.col("__best_bid")))


def _unknown_interval(_: Subject[Any], rows: Rows) -> tuple[Rows, nw.Expr]:
    return rows, nw.col("__step") == 0


def _misaligned(_: Subject[Any], rows: Rows) -> tuple[Rows, nw.Expr]:
    return rows, nw.col("__timed") & (nw.col("__time") != nw.col("__bucket"))


def _missing_bucket(subject: Subject[Any], rows: Rows) -> tuple[Rows, nw.Expr]:
    following = nw.col("__bucket").shift(-1).over(subject.series, order_by="__place")
    rows = rows.with_columns(__next=following)
    missing = count_of(nw.col("__next") - nw.col("__bucket")) - 1
    is_known = nw.col("__timed") & (nw.col("__step") > 0)
    rows = rows.with_columns(
        __missing=nw.when(is_known & (missing > 0)).then(missing).otherwise(nw.lit(0, nw.Int64())),
        __gap_from=nw.col("__bucket") + nw.col("__length"),
        __gap_to=nw.col("__next") - nw.col("__length"),
    )
    return rows, nw.col("__missing") > 0


def _stale(subject: Subject[Any], rows: Rows) -> tuple[Rows, nw.Expr]:
    bucket, length = nw.col("__bucket"), nw.col("__length")
    rows = rows.with_columns(__last=bucket.max().over(subject.series), __newest=bucket.max().over("__timed"))
    # Down to a whole number: series of other intervals end within one.
    behind = nw.col("__newest") - nw.col("__last")
    lag = count_of(behind - behind % length)
    is_end = nw.col("__timed") & (nw.col("__step") > 0) & (bucket == nw.col("__last"))
    rows = rows.with_columns(
        __lag=nw.when(is_end).then(lag).otherwise(nw.lit(0, nw.Int64())),
        __lag_from=nw.col("__last") + length,
    )
    return rows, nw.col("__lag") > subject.limits.stale


def _unknown_value(subject: Subject[Any], rows: Rows) -> tuple[Rows, nw.Expr]:
    owns = list(subject.numbers.values())
    # What a series never has it is not asked for.
    rows = rows.with_columns(within(nw.col(own).count(), subject.by).alias(f"{own}_count") for own in owns)
    return rows, _any(nw.col(own).is_null() & (nw.col(f"{own}_count") > 0) for own in owns)


def _frozen_price(subject: Subject[Any], rows: Rows) -> tuple[Rows, nw.Expr]:
    prices = [subject.numbers[name] for name in subject.columns.prices]
    rows = rows.with_columns(__before=subject.shifted(prices[-1], 1))
    is_same = nw.all_horizontal(
        *(nw.col(price) == nw.col("__before") for price in prices), ignore_nulls=False
    )
    rows = rows.with_columns(__same=is_same.fill_null(value=False).cast(nw.Int64))
    run = (1 - nw.col("__same")).cum_sum().over(subject.series, order_by="__place")
    rows = rows.with_columns(__run=run)
    still = nw.col("__same").sum().over([*subject.series, "__run"])
    return rows, nw.col("__timed") & (nw.col("__same") == 1) & (still >= subject.limits.frozen)


def _unit_jump(subject: Subject[Any], rows: Rows) -> tuple[Rows, nw.Expr]:
    """Tell whether from a row on five numbers are all so many times the five before, or a part of them."""
    factor = subject.limits.unit_jump
    before = {f"__before_{back}": back for back in range(1, _SIDE + 1)}
    after = {f"__after_{ahead}": -ahead for ahead in range(_SIDE)}
    low, high, lower, higher = map(nw.col, ("__low", "__high", "__lower", "__higher"))

    def jumps(rows: Rows, column: str) -> tuple[Rows, nw.Expr]:
        rows = rows.with_columns(
            **{name: subject.shifted(column, by) for name, by in (before | after).items()}
        )
        rows = rows.with_columns(
            __low=nw.min_horizontal(*before),
            __high=nw.max_horizontal(*before),
            __lower=nw.min_horizontal(*after),
            __higher=nw.max_horizontal(*after),
        )
        # Fewer than five rows on a side, or a null among them, tell nothing.
        known = [~nw.col(name).is_null() for name in (*before, *after)]
        up = (low > 0) & (lower >= high * factor)
        down = (lower > 0) & (higher * factor <= low)
        return rows, nw.all_horizontal(*known, ignore_nulls=False) & (up | down)

    rows, condition = _in_any(rows, [subject.numbers[name] for name in subject.columns.sized], jumps)
    return rows, nw.col("__timed") & condition


def _outlier(subject: Subject[Any], rows: Rows) -> tuple[Rows, nw.Expr]:
    if "unit_jump" not in subject.checks:
        rows, jumps = _unit_jump(subject, rows)
        rows = rows.with_columns(jumps.fill_null(value=False).alias(flag("unit_jump")))
    found = []
    for names, look in (
        (subject.columns.moving, _far_move),
        (subject.columns.rates, _far_rate),
        (subject.columns.traded, _far_price),
    ):
        columns = [subject.numbers[name] for name in names]
        rows, is_far = _in_any(rows, columns, partial(look, subject))
        found.append(is_far)
    is_far_move, *is_far_level = found
    return rows, nw.col("__timed") & _any([is_far_move & ~nw.col(flag("unit_jump")), *is_far_level])


def _far_move(subject: Subject[Any], rows: Rows, column: str) -> tuple[Rows, nw.Expr]:
    """Tell whether the move to a row is far from the usual one, and not the way back from a single such row."""
    log, move, usual = nw.col("__log"), nw.col("__move"), nw.col("__usual")
    rows = rows.with_columns(__log=_logarithm(column))
    rows = rows.with_columns(
        __move=log - subject.shifted("__log", 1), __both=log - subject.shifted("__log", 2)
    )
    rows = _with_most(rows, subject, "__move", around=subject.series)
    most = nw.col("__most")
    was_far = ((subject.shifted("__move", 1) - usual).abs() > most).fill_null(value=False)
    is_back = ((nw.col("__both") - usual - usual).abs() <= most).fill_null(value=False)
    is_far = (nw.col("__count") >= _ENOUGH) & ((move - usual).abs() > most) & ~(was_far & is_back)
    return rows, _any([is_far, _is_nothing(subject, column)])


def _far_rate(subject: Subject[Any], rows: Rows, column: str) -> tuple[Rows, nw.Expr]:
    """Tell whether a rate is far from the median of its series."""
    value = nw.col(column)
    rows = rows.with_columns(__level=nw.when(value.is_finite()).then(value))
    return _far_level(subject, rows, around=subject.series)


def _far_price(subject: Subject[Any], rows: Rows, column: str) -> tuple[Rows, nw.Expr]:
    """Tell whether the price of an event is far from the median of its hour."""
    rows = rows.with_columns(__hour=bucket_by(nw.col("__time"), HOUR), __level=_logarithm(column))
    rows, is_far = _far_level(subject, rows, around=[*subject.series, "__hour"])
    return rows, _any([is_far, _is_nothing(subject, column)])


def _far_level(subject: Subject[Any], rows: Rows, *, around: list[str]) -> tuple[Rows, nw.Expr]:
    rows = _with_most(rows, subject, "__level", around=around)
    off = (nw.col("__level") - nw.col("__usual")).abs()
    return rows, (nw.col("__count") >= _ENOUGH) & (off > nw.col("__most"))


def _with_most(rows: Rows, subject: Subject[Any], column: str, *, around: list[str]) -> Rows:
    """Return the rows with ``__usual``, the median around each, ``__count``, and ``__most``, how far is usual."""
    value, series = nw.col(column), subject.series
    rows = rows.with_columns(__usual=value.median().over(around), __count=value.count().over(series))
    rows = rows.with_columns(__off=(value - nw.col("__usual")).abs())
    rows = rows.with_columns(
        __mad=nw.col("__off").median().over(series), __mean=nw.col("__off").mean().over(series)
    )
    mad = nw.col("__mad")
    deviation = nw.when(mad > 0).then(mad * _NORMAL).otherwise(nw.col("__mean") * _NORMAL_MEAN)
    return rows.with_columns(__most=deviation * subject.limits.outlier)


def _logarithm(column: str) -> nw.Expr:
    value = nw.col(column)
    return nw.when((value > 0) & value.is_finite()).then(value).log()


def _is_nothing(subject: Subject[Any], column: str) -> nw.Expr:
    """Tell whether a level has no logarithm; among others it is as far as can be."""
    value = nw.col(column)
    return (value <= 0) & (value.median().over(subject.series) > 0)


def _in_any(
    rows: Rows, columns: Iterable[str], look: Callable[[Rows, str], tuple[Rows, nw.Expr]]
) -> tuple[Rows, nw.Expr]:
    """Return the rows, and whether a look at any of the columns finds something there."""
    found = []
    for column in columns:
        rows, condition = look(rows, column)
        rows = rows.with_columns(condition.fill_null(value=False).alias(f"__found_{column}"))
        found.append(nw.col(f"__found_{column}"))
    return rows, _any(found)


def _unordered(subject: Subject[Any], rows: Rows) -> tuple[Rows, nw.Expr]:
    rows = rows.with_columns(__latest=nw.col("__time").cum_max().over(subject.series, order_by=ROW))
    return rows, nw.col("__timed") & (nw.col("__latest") > nw.col("__time"))


_FLAGS: Final[Mapping[str, Callable[[Subject[Any], Rows], tuple[Rows, nw.Expr]]]] = MappingProxyType(
    {
        "missing_time": _missing_time,
        "duplicate": _duplicate,
        "infinite_value": _infinite_value,
        "inconsistent_ohlc": _inconsistent_ohlc,
        "negative_amount": _negative_amount,
        "quote_mismatch": _quote_mismatch,
        "unknown_side": _unknown_side,
        "crossed_book": _crossed_book,
        "unknown_interval": _unknown_interval,
        "misaligned": _misaligned,
        "missing_bucket": _missing_bucket,
        "stale": _stale,
        "unknown_value": _unknown_value,
        "frozen_price": _frozen_price,
        "unit_jump": _unit_jump,
        "outlier": _outlier,
        "unordered": _unordered,
    }
)
