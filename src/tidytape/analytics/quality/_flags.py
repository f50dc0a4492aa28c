"""What each check looks for: a flag on every row."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

import narwhals.stable.v2 as nw

from tidytape.analytics.quality import _levels as levels
from tidytape.analytics.quality import _moves as moves
from tidytape.analytics.quality._grid import count_of
from tidytape.analytics.quality._subject import ROW, Subject
from tidytape.catalogue import BookSide, Side
from tidytape.frames.ordered import with_neighbour

Rows = nw.LazyFrame[Any]

_ROUNDED: Final = 0.01
"""Relative difference that rounding by the exchange explains; a wrong unit differs by a factor."""

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
    rows = with_neighbour(rows, "__bucket", name="__next", over=subject.series, order=["__order"], back=-1)
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
    rows = rows.with_columns(
        __last=bucket.max().over(subject.series), __newest=bucket.max().over(["__all", "__timed"])
    )
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
    rows = rows.with_columns(
        nw.col(own).count().over([*subject.by, "__all"]).alias(f"{own}_count") for own in owns
    )
    return rows, _any(nw.col(own).is_null() & (nw.col(f"{own}_count") > 0) for own in owns)


def _frozen_price(subject: Subject[Any], rows: Rows) -> tuple[Rows, nw.Expr]:
    prices = [subject.numbers[name] for name in subject.columns.prices]
    rows, condition = moves.frozen(rows, prices, subject.windows, limit=subject.limits.frozen)
    return rows, nw.col("__timed") & condition


def _unit_jump(subject: Subject[Any], rows: Rows) -> tuple[Rows, nw.Expr]:
    sized = [subject.numbers[name] for name in subject.columns.sized]
    rows, condition = moves.unit_jumps(rows, sized, subject.windows, factor=subject.limits.unit_jump)
    return rows, nw.col("__timed") & condition


def _outlier(subject: Subject[Any], rows: Rows) -> tuple[Rows, nw.Expr]:
    moving, rates, traded = (
        [subject.numbers[name] for name in names]
        for names in (subject.columns.moving, subject.columns.rates, subject.columns.traded)
    )
    if "unit_jump" not in subject.checks:
        rows, jumps = _unit_jump(subject, rows)
        rows = rows.with_columns(jumps.fill_null(value=False).alias(flag("unit_jump")))
    limit = subject.limits.outlier
    rows, is_far_move = moves.outliers(rows, moving, subject.windows, limit=limit)
    rows, is_far_rate = levels.far_rates(rows, rates, subject.series, limit=limit)
    rows, is_far_price = levels.far_prices(rows, traded, subject.series, limit=limit)
    is_far = (is_far_move & ~nw.col(flag("unit_jump"))) | is_far_rate | is_far_price
    return rows, nw.col("__timed") & is_far


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


def _any(conditions: Iterable[nw.Expr]) -> nw.Expr:
    found: nw.Expr = nw.lit(value=False)
    for condition in conditions:
        found = found | condition.fill_null(value=False)
    return found
