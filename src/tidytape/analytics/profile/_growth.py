"""The growth of value areas: a query plan for any engine, and a faster kernel for arrays in memory.

A candidate is the next level, or pair of levels, outward from the point of control on one side. Growth repeatedly takes
the heavier of the two next candidates. So it takes candidates by falling *bound*, the running minimum of weight outward
along a side: a heavy candidate beyond a light one must wait for the light one, and then follows at once. Growth is
therefore a sort and a cumulative sum, the same on every engine.

An engine sorts and groups again for each window function, but sorted arrays need only one pass. So frames in memory use
a numpy kernel; property tests compare its results with those of the plan.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any, Final

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from tidytape.analytics import _arguments as arguments
from tidytape.analytics._arguments import one_of
from tidytape.analytics.profile._levels import (
    DIGITS,
    MOST_STEPS,
    NOISE,
    counted_rows,
    in_units,
    row_price,
)
from tidytape.frames._grid import quotient
from tidytape.frames._rows import starts_run

POC_TIES: Final = ("center", "lower", "upper")
WIDTHS: Final = {"two_row": 2, "one_row": 1}
PRESETS: Final = {
    "cbot": ("two_row", "up", "reach", "center"),
    "investor_rt": ("two_row", "up", "reach", "center"),
    "lean": ("one_row", "up", "exceed", "center"),
    "market_profile": ("one_row", "up", "exceed", "center"),
}
"""The rules of platforms and packages: ``rule``, ``tie``, ``stop`` and ``poc_tie``; each encloses 70 %."""

AREA: Final = ("poc", "val", "vah", "value_area_share")

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_ABOVE_ALL: Final = 8 * 10**DIGITS  # larger than twice the largest weight, sqrt(10) * 10**DIGITS
_PART: Final = 2**16  # levels per part, so that a part and its temporary arrays fit into a processor's cache
# The count of a whole session in integer units. Sums over many sessions overflow and wrap around, but differences
# within one session stay right.
_WHOLE: Final = 2.0**60


@dataclass(frozen=True)
class Rules:
    """The rules of growth: the arguments of `value_area` with the same names, checked."""

    share: float
    rule: str
    tie: str
    stop: str
    poc_tie: str

    def __post_init__(self) -> None:
        one_of("rule", self.rule, tuple(WIDTHS))
        one_of("tie", self.tie, ("up", "down"))
        one_of("stop", self.stop, ("reach", "exceed"))
        one_of("poc_tie", self.poc_tie, POC_TIES)
        object.__setattr__(self, "share", arguments.share("share", self.share))

    @classmethod
    def of(
        cls,
        preset: str | None,
        *,
        share: float,
        rule: str | None,
        tie: str | None,
        stop: str | None,
        poc_tie: str | None,
    ) -> Rules:
        """Return the rules of a preset, by default of the CBOT; those that the caller gives count before it."""
        preset = "cbot" if preset is None else preset
        one_of("preset", preset, PRESETS)
        rules = zip(PRESETS[preset], (rule, tie, stop, poc_tie), strict=True)
        chosen = (of_preset if of_caller is None else of_caller for of_preset, of_caller in rules)
        return cls(share, *chosen)

    def columns(self) -> dict[str, nw.Expr]:
        """Return the rules as columns of a result."""
        return {name: nw.lit(value) for name, value in asdict(self).items()}


def areas(
    levels: nw.LazyFrame[Any], keys: list[str], rules: Rules, step: Fraction | None, *, in_memory: bool
) -> nw.LazyFrame[Any]:
    """Return one row per profile with keys, `AREA` and rules, from levels with keys, ``price`` and ``count``."""
    if in_memory and not (collected := levels.collect()).is_empty():
        return _areas_in_memory(collected, keys, rules, step)
    return _areas_by_plan(levels, keys, rules, step)


def _areas_by_plan(
    levels: nw.LazyFrame[Any], keys: list[str], rules: Rules, step: Fraction | None
) -> nw.LazyFrame[Any]:
    """Return the areas as a lazy plan for any engine, which adds up the candidates that the growth takes."""
    candidates = _candidates(counted_rows(levels, keys, step, tie=rules.poc_tie), keys, rules, step)
    count, total, rank, outward = nw.col("count"), nw.col("total"), nw.col("rank"), [*keys, "side"]
    candidates = candidates.with_columns(weight=in_units(count, nw.col("scale"))).with_columns(
        bound=nw.col("weight").cum_min().over(outward, order_by="rank"),
        present=count.cum_count().over(outward, order_by="rank"),
    )
    # If a nearer candidate is absent, its weight is zero, so from there outward the bound is zero.
    bound = nw.when(rank <= nw.col("present")).then(nw.col("bound")).otherwise(0.0)
    # The point of control (rank 0) gets the largest bound, so it is sorted first.
    bound = nw.when(rank > 0).then(bound).otherwise(10.0 ** (DIGITS + 1))
    tie_sign = 1 if rules.tie == "up" else -1
    # Bounds are integers, so the ± 1/4 changes the order only of two sides with equal bounds.
    candidates = candidates.with_columns(later=-bound - nw.col("side") * tie_sign / 4)
    candidates = candidates.with_columns(
        enclosed=count.cum_sum().over(keys, order_by=["later", "rank"])
    ).with_columns(before=(nw.col("enclosed") - count) / total)
    limit = rules.share + (NOISE if rules.stop == "exceed" else -NOISE)
    return (
        candidates.filter((rank == 0) | (nw.col("before") < limit).fill_null(value=False))
        .group_by(keys)
        .agg(nw.col("poc", "low").min(), nw.col("high", "total", "enclosed").max())
        .select(
            *keys,
            "poc",
            val=nw.col("low"),
            vah=nw.col("high"),
            value_area_share=quotient((nw.col("enclosed") / total * 10.0**DIGITS + 0.5).floor(), 10**DIGITS),
            **rules.columns(),
        )
    )


def _candidates(
    rows: nw.LazyFrame[Any], keys: list[str], rules: Rules, step: Fraction | None
) -> nw.LazyFrame[Any]:
    """Return one row per candidate: keys, side, and rank outward. The point of control has side 0 and rank 0."""
    width = WIDTHS[rules.rule]
    distance, side, rank = nw.col("from_poc"), nw.col("side"), nw.col("rank")
    rows = rows.with_columns(
        side=(distance > 0).cast(nw.Float64) - (distance < 0).cast(nw.Float64),
        rank=((distance.abs() + (width - 1)) / width).floor(),
    )
    # A pair may lack its outer level. That level counts zero, but the area still ends at its price.
    outer = nw.col("index") - distance + side * rank * width
    rows = rows.with_columns(edge=nw.min_horizontal(nw.max_horizontal(outer, "lowest"), "highest"))
    edge = nw.when(~nw.col("total").is_null()).then(row_price(step, "edge"))
    rows = rows.select(
        *keys,
        *("side", "rank", "total", "scale", "count"),
        low=edge,
        high=edge,
        poc=nw.when(side == 0).then(edge),
    )
    if width == 1:  # each level is a candidate
        return rows
    return rows.group_by(*keys, "side", "rank").agg(
        nw.col("poc", "low").min(), nw.col("high", "total", "scale").max(), nw.col("count").sum()
    )


def _areas_in_memory(
    levels: nw.DataFrame[Any], keys: list[str], rules: Rules, step: Fraction | None
) -> nw.LazyFrame[Any]:
    """Return the areas of levels in memory: run the kernel on one part of the levels after the other."""
    starts = np.flatnonzero(starts_run(levels, keys))
    frame, polars = levels.to_native(), levels.implementation.to_native_namespace()
    profiles = frame.select(keys)[starts]
    if profiles.is_duplicated().any():
        return _areas_in_memory(levels.sort(*keys), keys, rules, step)
    price, count = (frame[name].to_numpy() for name in ("price", "count"))
    # A part has about `_PART` levels, and contains whole sessions only.
    starts = np.append(starts, len(price))
    cuts = np.searchsorted(starts, np.arange(0, len(price), _PART))
    parts = []
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        for first, end in pairwise(np.unique([*cuts, len(profiles)])):
            part = slice(starts[first], starts[end])
            parts.append(_areas_of(starts[first:end] - part.start, price[part], count[part], rules, step))
    results = dict(zip(AREA, np.concatenate(parts, axis=1), strict=True))
    areas: nw.LazyFrame[Any] = nw.from_native(profiles.hstack(polars.DataFrame(results)).lazy())
    return areas.with_columns(nw.col(*AREA).fill_nan(None), **rules.columns())


def _areas_of(
    starts: Ints, price: Floats, count: Floats, rules: Rules, step: Fraction | None
) -> list[Floats]:
    """Return poc, val, vah and the enclosed share of each session; NaN for null.

    ``price`` and ``count`` have the levels of one session after the other; ``starts`` has the first index of each.
    """
    starts, place, price, count = _rows(starts, price, count, step)
    sizes = np.diff(starts, append=len(count))
    bottom, top, total = place[starts], place[starts + sizes - 1], np.add.reduceat(count, starts)

    # The point of control is the heaviest row; among equally heavy rows, the one with the least ``tie_rank``.
    scale = np.nan_to_num(10.0 ** (DIGITS - np.round(np.log10(total))), posinf=0.0)
    weight = np.floor(count * np.repeat(scale, sizes) + 0.5)
    heaviest = np.flatnonzero(weight == np.repeat(np.maximum.reduceat(weight, starts), sizes))
    session = np.searchsorted(starts, heaviest, side="right") - 1
    tie_rank = place[heaviest] if rules.poc_tie == "lower" else -place[heaviest]
    if rules.poc_tie == "center":
        # Places are integers, so subtracting 1/4 prefers the lower of two equally distant rows and changes nothing
        # else.
        tie_rank = np.abs(2 * place[heaviest] - (bottom + top - 0.25)[session])
    poc_index = heaviest[
        tie_rank == np.minimum.reduceat(tie_rank, np.searchsorted(heaviest, starts))[session]
    ]

    # A candidate is one row or a pair. Candidates are in order of price; ranks below the point of control are negative.
    index = place.astype(np.int64) if step else np.arange(len(place))
    rank = index - np.repeat(index[poc_index], sizes)
    if (width := WIDTHS[rules.rule]) == 2:
        rank = (rank + (rank > 0)) >> 1
    is_first = np.append(True, rank[1:] != rank[:-1])
    is_first[starts] = True
    first = np.flatnonzero(is_first)
    rank, starts, amount = rank[first], np.searchsorted(first, starts), np.add.reduceat(count, first)
    sizes = np.diff(starts, append=len(first))
    weight = np.floor(amount * np.repeat(scale, sizes) + 0.5)
    share = amount / np.repeat(np.where(total > 0, total, 1.0), sizes)
    if step:
        # If a nearer candidate is absent, its weight is zero, so the bound from there outward is zero.
        position = np.arange(len(rank)) - np.repeat(np.flatnonzero(rank == 0), sizes)
        weight = np.where(np.abs(rank) > np.abs(position), 0.0, weight)
    low, high, enclosed = _grown(starts, rank, weight, share, rules)

    if step is None:
        prices = [price[poc_index], price[first[low]], price[np.append(first, len(count))[high + 1] - 1]]
    else:
        # A pair may lack its outer level. That level counts zero, but the area still ends at its price.
        prices = [
            np.clip(place[poc_index] + steps, bottom, top) * float(step.numerator) / step.denominator
            for steps in (0, rank[low] * width, rank[high] * width)
        ]
    enclosed = np.floor(enclosed * 10.0**DIGITS + 0.5) / 10.0**DIGITS
    return [np.where(total > 0, values, np.nan) for values in (*prices, enclosed)]


def _rows(
    starts: Ints, price: Floats, count: Floats, step: Fraction | None
) -> tuple[Ints, Floats, Floats, Floats]:
    """Add up the levels of each session that share a place; return starts, place, price and count, sorted by place.

    The place is the price as a whole number, as in `with_place`. If a session has an unknown price or count, all its
    prices and counts become zero.
    """
    sizes = np.diff(starts, append=len(price))
    furthest = MOST_STEPS * float(step) if step else np.inf
    largest, total = np.maximum.reduceat(np.abs(price), starts), np.add.reduceat(count, starts)
    # A minimum or maximum over values with a NaN is NaN, and comparisons with NaN are false.
    is_known = (largest < furthest) & (np.minimum.reduceat(count, starts) >= 0) & (total < np.inf)
    if not is_known.all():
        largest = np.where(is_known, largest, 0.0)
        price = np.where(np.repeat(is_known, sizes), price, 0.0)
        count = np.where(np.repeat(is_known, sizes), count, 0.0)
    if step is None:
        scale = np.nan_to_num(10.0 ** (DIGITS - np.round(np.log10(largest))), posinf=0.0)
        place = np.floor(price * np.repeat(scale, sizes) + 0.5)
    else:
        steps = price / float(step)
        nearest = np.floor(steps + 0.5)
        place = nearest - (nearest - steps > 1e-9 + 1e-12 * np.abs(steps))
    rises = np.append(True, place[1:] > place[:-1])
    rises[starts] = True
    if rises.all():
        return starts, place, price, count
    order = _order(sizes, place)
    place, price, count = place[order], price[order], count[order]
    is_first = np.append(True, place[1:] != place[:-1])
    is_first[starts] = True
    first = np.flatnonzero(is_first)
    starts = np.searchsorted(first, starts)
    return starts, place[first], np.minimum.reduceat(price, first), np.add.reduceat(count, first)


def _order(sizes: Ints, place: Floats) -> Ints:
    """Return the positions of levels sorted by (session, place, position)."""
    above = (place - place.min()).astype(np.int64)
    row, bits = np.arange(len(place)), len(place).bit_length()
    session, width = np.arange(len(sizes)), int(above.max()).bit_length()
    if len(session).bit_length() + width + bits > 63:
        order: Ints = np.lexsort((place, np.repeat(session, sizes)))
        return order
    # Sorting integers takes half the time of argsort, so pack session, place and position into one integer.
    key: Ints = np.repeat(session << (width + bits), sizes) | (above << bits) | row
    key.sort()
    return key & ((1 << bits) - 1)


def _grown(
    starts: Ints, rank: Ints, weight: Floats, share: Floats, rules: Rules
) -> tuple[Ints, Ints, Floats]:
    """Return the lowest and the highest candidate that the growth of each session takes, and the enclosed share.

    The candidates of a session are in order of price. The candidate with rank 0 is the point of control.
    """
    sizes, poc_index = np.diff(starts, append=len(rank)), np.flatnonzero(rank == 0)
    number, session = np.arange(len(rank)), np.repeat(np.arange(len(starts)), sizes)
    # Order the candidates of a session outward: the point of control, then those below it, then those above it.
    is_above = number > poc_index[session]
    candidate = np.where(is_above, number, (poc_index + starts)[session] - number)
    double_weight = 2 * weight.astype(np.int64)[candidate]
    double_weight[starts] = _ABOVE_ALL - 2  # the point of control precedes every candidate
    # The bound is the running minimum of weight, so -2 * bound is the running maximum of -2 * weight. An offset lifts
    # each side above all sides before, so one running maximum over all sides starts again on each side.
    order_key = np.maximum.accumulate((2 * session + is_above) * _ABOVE_ALL - double_weight)
    # Remove the offset between the two sides of a session, so that sorting merges them. All numbers are even, so ± 1
    # decides which side comes first if two bounds are equal.
    order_key -= is_above * (_ABOVE_ALL + (1 if rules.tie == "up" else -1))
    order = np.argsort(order_key, kind="stable")  # both sides are sorted already: this merges them
    amounts = (share * _WHOLE).astype(np.int64)[candidate[order]]
    sums_through = np.cumsum(amounts)  # overflows and wraps around, see `_WHOLE`
    sums_before = sums_through - amounts
    limit = (rules.share + (NOISE if rules.stop == "exceed" else -NOISE)) * _WHOLE
    is_taken = sums_before - sums_before[starts][session] < limit
    is_taken[starts] = True
    number_taken = np.add.reduceat(is_taken, starts, dtype=np.int64)
    above = np.add.reduceat(is_taken & is_above[order], starts, dtype=np.int64)
    return (
        poc_index + above - number_taken + 1,
        poc_index + above,
        (sums_through[starts + number_taken - 1] - sums_before[starts]) / _WHOLE,
    )
