"""How a value area grows: `areas`, as a plan on any engine, or as a kernel on arrays in memory.

A candidate is the next level, or pair of levels, outward from the point of control on one side. Growth repeatedly takes
the heavier of the two next candidates. It thus visits candidates by falling *bound*, the running minimum of weight
outward along a side: a heavy candidate behind a light one waits for the light one, and then follows it at once. So the
growth is a sort and a cumulative sum, the same expression on every engine.

An engine sorts and groups again for each window function, while arrays that are already sorted by (session, row) need
only one walk. So frames in memory go to a kernel in numpy; property tests hold its results to those of the plan. The
kernel needs no sort: on each side the growth takes the nearest candidates, and a binary search over all sessions at
once finds how many. A second search finds how many candidates of the other side are taken before a given one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any, Final, Literal

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from tidytape.analytics import _arguments as arguments
from tidytape.analytics._arguments import one_of
from tidytape.analytics.profile._levels import (
    DIGITS,
    MOST_STEPS,
    NOISE,
    add_up,
    counted_levels,
    counted_rows,
    in_units,
    row_price,
)
from tidytape.analytics.profile._opening import Profiles
from tidytape.frames.grid import quotient
from tidytape.frames.ordered import starts_run

POC_TIES: Final = ("center", "lower", "upper")
WIDTHS: Final = {"two_row": 2, "one_row": 1}
AREA: Final = ("poc", "val", "vah", "value_area_share")

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_ABOVE_ALL: Final = 4 * 10**DIGITS  # above every weight, which is at most sqrt(10) * 10**DIGITS
_PART: Final = 2**16  # levels per part, so that a part and its temporary arrays fit into a processor's cache
# The volume of a whole session in integer units. Sums over many sessions overflow and wrap around; differences within
# one session stay right.
_WHOLE: Final = 2.0**60


@dataclass(frozen=True)
class Rules:
    """How a value area is grown: the arguments of `value_area` of the same names, checked."""

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

    def columns(self) -> dict[str, nw.Expr]:
        """Return the rules as columns of a result."""
        return {name: nw.lit(value) for name, value in asdict(self).items()}


def value_areas(profiles: Profiles[Any], count: str, rules: Rules) -> nw.LazyFrame[Any]:
    """Return one row per profile: its keys, `AREA` and the rules."""
    counts, in_memory = {"count": count}, profiles.table.is_eager
    if in_memory and add_up(profiles, counts):
        # The kernel reads the caller's columns by their own names: renaming them in a plan would take as long as the
        # areas of a month.
        levels = profiles.table.rows.collect()
        if not levels.is_empty():
            values = (profiles.price, count)
            return _areas_in_memory(levels, profiles.names, values, rules, profiles.step)
    counted = counted_levels(profiles, counts)
    return areas(counted, profiles.keys, rules, profiles.step, in_memory=in_memory)


def areas(
    levels: nw.LazyFrame[Any], keys: list[str], rules: Rules, step: Fraction | None, *, in_memory: bool
) -> nw.LazyFrame[Any]:
    """Return one row per profile as `value_areas` does, from levels with the keys, ``price`` and ``count``."""
    if in_memory and not (collected := levels.collect()).is_empty():
        names = dict(zip(keys, keys, strict=True))
        return _areas_in_memory(collected, names, ("price", "count"), rules, step)
    return _areas_by_plan(levels, keys, rules, step)


def _areas_by_plan(
    levels: nw.LazyFrame[Any], keys: list[str], rules: Rules, step: Fraction | None
) -> nw.LazyFrame[Any]:
    """Return the areas as a lazy plan, which every engine can run."""
    candidates = _candidates(counted_rows(levels, keys, step, tie=rules.poc_tie), keys, rules, step)
    taken = _taken(candidates, keys, rules, gaps=step is not None)
    areas = taken.group_by(keys).agg(
        nw.col("poc", "low").min(), nw.col("high", "total").max(), nw.col("count").sum()
    )
    enclosed = nw.col("count") / nw.col("total")
    return areas.select(
        *keys,
        "poc",
        val=nw.col("low"),
        vah=nw.col("high"),
        value_area_share=quotient((enclosed * 10.0**DIGITS + 0.5).floor(), 10**DIGITS),
        **rules.columns(),
    )


def _candidates(
    rows: nw.LazyFrame[Any], keys: list[str], rules: Rules, step: Fraction | None
) -> nw.LazyFrame[Any]:
    """Return one row per candidate: keys, side and rank outward. The point of control has side 0 and rank 0."""
    width = WIDTHS[rules.rule]
    distance, side, rank = nw.col("from_poc"), nw.col("side"), nw.col("rank")
    rows = rows.with_columns(
        side=(distance > 0).cast(nw.Float64) - (distance < 0).cast(nw.Float64),
        rank=((distance.abs() + (width - 1)) / width).floor(),
    )
    # The outer level of a pair may be absent. It counts zero, but the area still ends at its price.
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


def _taken(candidates: nw.LazyFrame[Any], keys: list[str], rules: Rules, *, gaps: bool) -> nw.LazyFrame[Any]:
    """Keep the candidates that the growth takes."""
    count, rank, outward = nw.col("count"), nw.col("rank"), [*keys, "side"]
    candidates = candidates.with_columns(weight=in_units(count, nw.col("scale")))
    candidates = candidates.with_columns(
        bound=nw.col("weight").cum_min().over(outward, order_by="rank"),
        present=count.cum_count().over(outward, order_by="rank"),
    )
    bound = nw.col("bound")
    if gaps:
        # If a nearer candidate is absent because it has no level, it counts zero, and so does the bound from there on.
        bound = nw.when(rank <= nw.col("present")).then(bound).otherwise(0.0)
    # The point of control precedes every candidate. Bounds are integers, so ± 1/4 orders the sides of equal bounds.
    bound = nw.when(rank > 0).then(bound).otherwise(10.0 ** (DIGITS + 1))
    favoured = 1 if rules.tie == "up" else -1
    candidates = candidates.with_columns(later=-bound - nw.col("side") * favoured / 4)
    enclosed = count.cum_sum().over(keys, order_by=["later", "rank"])
    candidates = candidates.with_columns(before=(enclosed - count) / nw.col("total"))
    limit = rules.share + (NOISE if rules.stop == "exceed" else -NOISE)
    return candidates.filter((rank == 0) | (nw.col("before") < limit).fill_null(value=False))


def _areas_in_memory(
    levels: nw.DataFrame[Any],
    keys: Mapping[str, str],
    values: tuple[str, str],
    rules: Rules,
    step: Fraction | None,
) -> nw.LazyFrame[Any]:
    """Return the areas of levels in memory, by the kernel.

    ``keys`` are names of the result, each with its column of ``levels``; ``values`` are the price and the count.
    """
    by = list(keys.values())
    starts = np.flatnonzero(starts_run(levels, by))
    profiles = levels.select(*by)[starts]
    if profiles.is_duplicated().any():
        ordered = levels.select(*dict.fromkeys([*by, *values])).sort(*by)
        return _areas_in_memory(ordered, keys, values, rules, step)
    prices, counts = (levels.get_column(name).cast(nw.Float64).to_numpy() for name in values)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        parts = [
            _areas_of(_Sessions(part), prices[part[0] : part[-1]], counts[part[0] : part[-1]], rules, step)
            for part in _parts(np.append(starts, len(prices)))
        ]
    areas = [np.concatenate(arrays) for arrays in zip(*parts, strict=True)]
    said = {name: [value] * len(profiles) for name, value in asdict(rules).items()}
    found = nw.from_dict({**dict(zip(AREA, areas, strict=True)), **said}, backend="polars")
    if any(np.isnan(array).any() for array in areas):
        found = found.with_columns(nw.col(*AREA).fill_nan(None))
    profiles = profiles.rename(dict(zip(by, keys, strict=True)))
    return nw.concat([profiles, found], how="horizontal").lazy()


def _parts(starts: Ints) -> list[Ints]:
    """Split sessions into parts of about `_PART` levels; return the starts of each part's sessions, and its end."""
    cuts = np.unique(np.searchsorted(starts, np.arange(0, starts[-1], _PART)))
    return [starts[a : b + 1] for a, b in pairwise([*cuts.tolist(), len(starts) - 1]) if a < b]


class _Sessions:
    """Where each session starts and ends in arrays of levels, or of candidates."""

    def __init__(self, cuts: Ints) -> None:
        """Take the position at which each session starts, and the one at which the last session ends."""
        self.starts = cuts[:-1] - cuts[0]
        self.ends = cuts[1:] - cuts[0]
        self.sizes = self.ends - self.starts

    def each(self, of_session: NDArray[Any]) -> NDArray[Any]:
        """Repeat the value of each session for all its levels."""
        return np.repeat(of_session, self.sizes)

    def runs(self, values: NDArray[Any]) -> tuple[Ints, _Sessions]:
        """Return the start of each run of equal values within a session, and the sessions as positions of runs."""
        is_first = np.ones(len(values), np.bool_)
        np.not_equal(values[1:], values[:-1], out=is_first[1:])
        is_first[self.starts] = True
        first = np.flatnonzero(is_first)
        return first, _Sessions(np.append(np.searchsorted(first, self.starts), len(first)))


def _areas_of(
    sessions: _Sessions, price: Floats, count: Floats, rules: Rules, step: Fraction | None
) -> tuple[Floats, Floats, Floats, Floats]:
    """Return poc, val, vah and the enclosed share of each session; NaN for null."""
    price, count = _known(sessions, price, count, step)
    sessions, place, price, count = _rows(sessions, price, count, step)
    total = np.add.reduceat(count, sessions.starts)
    scale = _scale(total)
    poc = _poc(sessions, place, count, scale, rules.poc_tie)

    # A candidate is one level or two. They are in order of price; ranks below the point of control are negative.
    index = place.astype(np.int64) if step else np.arange(len(place))
    rank = index - sessions.each(index[poc])
    if (width := WIDTHS[rules.rule]) == 2:
        rank = (rank + (rank > 0)) >> 1
    first, of = sessions.runs(rank)
    rank, amount = rank[first], np.add.reduceat(count, first)
    at = np.flatnonzero(rank == 0)
    weight = _units(amount, of.each(scale)).astype(np.int64)
    if step:
        # If a nearer candidate is absent because it has no level, it counts zero, and so does the bound from there on.
        weight[np.abs(rank) > np.abs(np.arange(len(rank)) - of.each(at))] = 0
    through = np.zeros(len(first) + 1, np.int64)  # sum of all candidates before each one; wraps around
    np.cumsum(amount / of.each(np.where(total > 0, total, 1.0)) * _WHOLE, out=through[1:], dtype=np.int64)
    low, high = _grown(of, at, rank, weight, through=through, rules=rules)

    lowest, highest = first[low], np.append(first, len(count))[high + 1] - 1
    if step is None:
        found = [price[row] for row in (poc, lowest, highest)]
    else:
        # The outer level of a pair may be absent. It counts zero, but the area still ends at its price.
        bottom, top, middle = place[sessions.starts], place[sessions.ends - 1], place[poc]
        found = [
            np.clip(middle + steps, bottom, top) * float(step.numerator) / step.denominator
            for steps in (0, rank[low] * width, rank[high] * width)
        ]
    enclosed = (through[high + 1] - through[low]) / _WHOLE
    found.append(np.floor(enclosed * 10.0**DIGITS + 0.5) / 10.0**DIGITS)
    poc_price, val, vah, share = (np.where(total > 0, values, np.nan) for values in found)
    return poc_price, val, vah, share


def _known(sessions: _Sessions, price: Floats, count: Floats, step: Fraction | None) -> tuple[Floats, Floats]:
    """Return prices and counts, all zero in a session that has an unknown one."""
    furthest = MOST_STEPS * float(step) if step else np.inf
    largest = np.finfo(np.float64).max / len(count)
    # Comparisons with NaN are false, so a NaN never takes this short cut.
    if -furthest < price.min() and price.max() < furthest and count.min() >= 0 and count.max() < largest:
        return price, count
    known = (np.abs(price) < furthest) & (count >= 0)
    is_known = np.logical_and.reduceat(known, sessions.starts)
    is_known &= np.add.reduceat(count, sessions.starts) < np.inf
    known = sessions.each(is_known)
    return np.where(known, price, 0.0), np.where(known, count, 0.0)


def _rows(
    sessions: _Sessions, price: Floats, count: Floats, step: Fraction | None
) -> tuple[_Sessions, Floats, Floats, Floats]:
    """Merge the levels of a session that share a place; return sessions, place, price and count in order of place.

    The place is the price as a whole number: of steps, or, without a step, of units as fine as ``DIGITS`` digits.
    """
    starts = sessions.starts
    if step is None:
        furthest = np.maximum(np.maximum.reduceat(price, starts), -np.minimum.reduceat(price, starts))
        place = _units(price, sessions.each(_scale(furthest)))
    else:
        steps = price / float(step)
        nearest = np.floor(steps + 0.5)
        place = nearest - (nearest - steps > 1e-9 + 1e-12 * np.abs(steps))
    rises = np.empty(len(place), np.bool_)
    np.greater(place[1:], place[:-1], out=rises[1:])
    rises[starts] = True
    if rises.all():
        return sessions, place, price, count
    order = _order(sessions, place)
    place = place[order]
    first, of = sessions.runs(place)
    price, count = np.minimum.reduceat(price[order], first), np.add.reduceat(count[order], first)
    return of, place[first], price, count


def _order(sessions: _Sessions, place: Floats) -> Ints:
    """Return the positions that sort by (session, place, row)."""
    above = (place - place.min()).astype(np.int64)
    row, bits = np.arange(len(place)), len(place).bit_length()
    session, width = np.arange(len(sessions.starts)), int(above.max()).bit_length()
    if len(session).bit_length() + width + bits > 63:
        order: Ints = np.lexsort((place, sessions.each(session)))
        return order
    # Sorting integers takes half the time of argsort, so the three are packed into one integer.
    key: Ints = above << bits
    key |= sessions.each(session << (width + bits))
    key |= row
    key.sort()
    key &= (1 << bits) - 1
    return key


def _poc(sessions: _Sessions, place: Floats, count: Floats, scale: Floats, tie: str) -> Ints:
    """Return the row of each session's point of control."""
    largest = _units(np.maximum.reduceat(count, sessions.starts), scale)
    row = np.flatnonzero(_units(count, sessions.each(scale)) == sessions.each(largest))
    session = np.searchsorted(sessions.starts, row, side="right") - 1
    if tie == "center":
        # Places are integers, so subtracting 1/4 prefers the lower of two equally distant levels and changes no other.
        middle = place[sessions.starts] + place[sessions.ends - 1] - 0.25
        away = np.abs(2 * place[row] - middle[session])
    else:
        away = place[row] if tie == "lower" else -place[row]
    nearest = np.minimum.reduceat(away, np.searchsorted(row, sessions.starts))
    poc: Ints = row[away == nearest[session]]
    return poc


def _grown(
    of: _Sessions, at: Ints, rank: Ints, weight: Ints, *, through: Ints, rules: Rules
) -> tuple[Ints, Ints]:
    """Return the lowest and the highest candidate that the growth of each session takes."""
    # Bounds rise up to the point of control and fall above it. Adding an offset per session, and negating the bounds
    # above, makes both arrays sorted over all sessions at once, so that searchsorted works.
    session = np.arange(len(at)) * _ABOVE_ALL
    offset = of.each(session)
    beyond = np.maximum.accumulate(offset - np.where(rank > 0, weight, _ABOVE_ALL - 1))
    below = np.minimum.accumulate((offset + np.where(rank < 0, weight, _ABOVE_ALL - 1))[::-1])[::-1]
    noise = 10.0**-DIGITS
    limit = (rules.share + (noise if rules.stop == "exceed" else -noise)) * _WHOLE
    # A candidate waits for those of the other side with larger bounds, and with equal ones if that side is favoured.
    side: Literal["left", "right"] = "right" if rules.tie == "up" else "left"

    def takes_upper(taken: Ints) -> Bools:
        candidate = at + taken
        lowest = np.searchsorted(below, 2 * session - beyond[candidate], side=side)
        is_short: Bools = through[candidate] - through[lowest] < limit
        return is_short

    def takes_lower(taken: Ints) -> Bools:
        candidate = at - taken
        end = np.searchsorted(beyond, 2 * session - below[candidate], side=side)
        is_short: Bools = through[end] - through[candidate + 1] < limit
        return is_short

    return at - _most(at - of.starts, takes_lower), at + _most(of.ends - 1 - at, takes_upper)


def _most(most: Ints, takes: Callable[[Ints], Bools]) -> Ints:
    """Return, per session, the largest number up to ``most`` for which ``takes`` holds, by binary search."""
    least = np.zeros_like(most)
    while (least < most).any():
        middle = (least + most + 1) >> 1
        taken = takes(middle) | (least == most)
        least, most = np.where(taken, middle, least), np.where(taken, most, middle - 1)
    return least


def _scale(largest: Floats) -> Floats:
    """Return how many units make 1, as `_levels.scale` does; 0 where ``largest`` is not above 0."""
    decade = np.round(np.log10(np.where(largest > 0, largest, np.nan)))
    scale = np.power(10.0, DIGITS - decade, dtype=np.float64)
    return np.where(np.isfinite(scale), scale, 0.0)


def _units(value: Floats, scale: Floats) -> Floats:
    units = value * scale
    units += 0.5
    return np.floor(units, out=units)
