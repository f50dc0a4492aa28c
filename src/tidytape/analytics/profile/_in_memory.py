"""Value areas on arrays, for frames that are in memory.

The same as `_growth` says as expressions, step by step, and tests hold the two to each other. An engine sorts and
groups anew for each window; arrays in the order of (session, row) are walked through, which is many times as fast.
Candidates of both sides are taken by falling bound, so of each side the nearest ones. How many they are is a binary
search of all sessions at once, and so is how many of the other side go before one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from fractions import Fraction
from itertools import pairwise
from typing import Any, Final, Literal

import narwhals.stable.v2 as nw
import numpy as np
from narwhals.stable.v2.typing import IntoFrameT
from numpy.typing import NDArray

from tidytape.analytics.profile._counts import add_up, counted_levels
from tidytape.analytics.profile._grid import DIGITS, MOST_STEPS
from tidytape.analytics.profile._growth import WIDTHS, Rules, areas
from tidytape.analytics.profile._opening import Profiles
from tidytape.frames.ordered import starts_run

_FOUND: Final = ("poc", "val", "vah", "value_area_share")

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_ABOVE_ALL: Final = 4 * 10**DIGITS  # a weight is at most a root of 10 times as many units as there are digits
_PART: Final = 2**16  # levels that a processor's cache holds, with what is computed of them
# The share of a session that is all of it. Sums over sessions wrap around; their differences do not.
_WHOLE: Final = 2.0**60


def areas_in_memory(
    profiles: Profiles[IntoFrameT], price: str, count: str, rules: Rules, step: Fraction | None
) -> IntoFrameT:
    """Return what `_growth.areas` does of the profiles of an eager frame, as the caller gets it."""
    keys = names = list(profiles.names.values())
    levels = profiles.table.rows.collect()
    if levels.is_empty():
        rows = counted_levels(profiles, {"count": count}, price, step)
        return profiles.closed(areas(rows, profiles.keys, rules, step))
    if not add_up(profiles, [count], step):
        levels = counted_levels(profiles, {"count": count}, price, step).collect()
        keys, price, count = profiles.keys, "price", "count"
    levels, sessions, starts = _in_order(levels, keys, [price, count])
    prices, counts = (levels.get_column(name).cast(nw.Float64).to_numpy() for name in (price, count))
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        parts = [
            _areas_of(_Sessions(part), prices[part[0] : part[-1]], counts[part[0] : part[-1]], rules, step)
            for part in _parts(np.append(starts, len(prices)))
        ]
    found = {
        name: np.concatenate(arrays) for name, arrays in zip(_FOUND, zip(*parts, strict=True), strict=True)
    }
    columns = {name: [value] * len(starts) for name, value in asdict(rules).items()}
    results = nw.from_dict({**found, **columns}, backend="polars")
    if any(np.isnan(values).any() for values in found.values()):
        results = results.with_columns(nw.col(*_FOUND).fill_nan(None))
    if keys != names:
        sessions = sessions.rename(profiles.names)
    return profiles.published(nw.concat([sessions, results], how="horizontal"))


def _in_order(
    levels: nw.DataFrame[Any], keys: list[str], values: list[str]
) -> tuple[nw.DataFrame[Any], nw.DataFrame[Any], Ints]:
    """Return the levels of each session next to each other, the keys of the sessions, and where each starts."""
    sessions, starts = _runs(levels, keys)
    if sessions.is_duplicated().any():
        levels = levels.select(list(dict.fromkeys([*keys, *values]))).sort(*keys)
        sessions, starts = _runs(levels, keys)
    return levels, sessions, starts


def _runs(levels: nw.DataFrame[Any], keys: list[str]) -> tuple[nw.DataFrame[Any], Ints]:
    """Return the keys of rows that follow each other with the same, null being a key, and where they start."""
    starts = np.flatnonzero(starts_run(levels, keys))
    return levels.select(*keys)[starts], starts


def _parts(starts: Ints) -> list[Ints]:
    """Return the starts of whole sessions, and their end, by parts of about `_PART` levels; longer ones are alone."""
    cuts = np.unique(np.searchsorted(starts, np.arange(0, starts[-1], _PART)))
    return [starts[a : b + 1] for a, b in pairwise([*cuts.tolist(), len(starts) - 1]) if a < b]


class _Sessions:
    """Sessions that follow each other in arrays of rows, or of candidates."""

    def __init__(self, cuts: Ints) -> None:
        """Take where each starts, and where the last one ends."""
        self.starts = cuts[:-1] - cuts[0]
        self.ends = cuts[1:] - cuts[0]
        self.sizes = self.ends - self.starts

    def each(self, of_session: NDArray[Any]) -> NDArray[Any]:
        """Return what a session has for each of its rows."""
        return np.repeat(of_session, self.sizes)


def _areas_of(
    sessions: _Sessions, price: Floats, count: Floats, rules: Rules, step: Fraction | None
) -> tuple[Floats, Floats, Floats, Floats]:
    """Return poc, val, vah and the share enclosed of each session; NaN for null."""
    price, count = _known(sessions, price, count, step)
    sessions, place, price, count = _rows(sessions, price, count, step)
    total = np.add.reduceat(count, sessions.starts)
    scale = _scale(total)
    poc = _poc(sessions, place, count, scale, rules.poc_tie)

    # Candidates: one or two rows, from below to above; negative ranks are below.
    index = place.astype(np.int64) if step else np.arange(len(place))
    rank = index - sessions.each(index[poc])
    if (width := WIDTHS[rules.rule]) == 2:
        rank = (rank + (rank > 0)) >> 1
    is_first = _differs(rank)
    is_first[sessions.starts] = True
    first = np.flatnonzero(is_first)
    rank, amount = rank[first], np.add.reduceat(count, first)
    of = _Sessions(np.append(np.searchsorted(first, sessions.starts), len(first)))
    at = np.flatnonzero(rank == 0)
    weight = _in_units(amount, of.each(scale)).astype(np.int64)
    if step:
        # A nearer candidate without any level counts zero.
        weight[np.abs(rank) > np.abs(np.arange(len(rank)) - of.each(at))] = 0
    through = np.zeros(len(first) + 1, np.int64)  # up to each candidate; wraps around
    np.cumsum(amount / of.each(np.where(total > 0, total, 1.0)) * _WHOLE, out=through[1:], dtype=np.int64)
    low, high = _grown(of, at, rank, weight, through=through, rules=rules)

    lowest, highest = first[low], np.append(first, len(count))[high + 1] - 1
    if step is None:
        found = [price[row] for row in (poc, lowest, highest)]
    else:
        # The outer row of a pair may have no level: it counts zero, and the area ends there all the same.
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
    """Return prices and counts, all of them zero of a session that has an unknown one."""
    furthest = MOST_STEPS * float(step) if step else np.inf
    largest = np.finfo(np.float64).max / len(count)
    # No comparison with NaN is true.
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
    """Return place, price and count of one row per place, in their order within the sessions."""
    starts = sessions.starts
    if step is None:
        furthest = np.maximum(np.maximum.reduceat(price, starts), -np.minimum.reduceat(price, starts))
        place = _in_units(price, sessions.each(_scale(furthest)))
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
    is_first = _differs(place)
    is_first[starts] = True
    first = np.flatnonzero(is_first)
    price, count = np.minimum.reduceat(price[order], first), np.add.reduceat(count[order], first)
    return _Sessions(np.append(np.searchsorted(first, starts), len(first))), place[first], price, count


def _order(sessions: _Sessions, place: Floats) -> Ints:
    """Return the order of (session, place, row)."""
    above = (place - place.min()).astype(np.int64)
    row, bits = np.arange(len(place)), len(place).bit_length()
    session, width = np.arange(len(sessions.starts)), int(above.max()).bit_length()
    if len(session).bit_length() + width + bits > 63:
        order: Ints = np.lexsort((place, sessions.each(session)))
        return order
    # Numbers are sorted in half the time that their order is found in, so the three are put into one.
    key: Ints = above << bits
    key |= sessions.each(session << (width + bits))
    key |= row
    key.sort()
    key &= (1 << bits) - 1
    return key


def _poc(sessions: _Sessions, place: Floats, count: Floats, scale: Floats, tie: str) -> Ints:
    """Return the row of each session's point of control."""
    largest = _in_units(np.maximum.reduceat(count, sessions.starts), scale)
    row = np.flatnonzero(_in_units(count, sessions.each(scale)) == sessions.each(largest))
    session = np.searchsorted(sessions.starts, row, side="right") - 1
    if tie == "center":
        # Places are whole numbers, so a quarter leans to the lower of two rows equally far and moves no other.
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
    # From below to above bounds rise to the point of control and fall beyond it. With the session before them, and
    # the bounds beyond the point of control negative, both only rise through all sessions.
    session = np.arange(len(at)) * _ABOVE_ALL
    offset = of.each(session)
    beyond = np.maximum.accumulate(offset - np.where(rank > 0, weight, _ABOVE_ALL - 1))
    below = np.minimum.accumulate((offset + np.where(rank < 0, weight, _ABOVE_ALL - 1))[::-1])[::-1]
    noise = 10.0**-DIGITS
    limit = (rules.share + (noise if rules.stop == "exceed" else -noise)) * _WHOLE
    # Those of the other side go before that have larger bounds, and of equal ones if that side is favoured.
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
    """Return how many candidates are taken of as many as there are of a side, where nearer ones go before."""
    least = np.zeros_like(most)
    while (least < most).any():
        middle = (least + most + 1) >> 1
        taken = takes(middle) | (least == most)
        least, most = np.where(taken, middle, least), np.where(taken, most, middle - 1)
    return least


def _differs(values: NDArray[Any]) -> Bools:
    """Return whether each value differs from the one before it; the first one does."""
    differs = np.ones(len(values), np.bool_)
    np.not_equal(values[1:], values[:-1], out=differs[1:])
    return differs


def _scale(largest: Floats) -> Floats:
    """Return how many units there are in 1, as `_grid.scale`; 0 for none."""
    decade = np.round(np.log10(np.where(largest > 0, largest, np.nan)))
    scale = np.power(10.0, DIGITS - decade, dtype=np.float64)
    return np.where(np.isfinite(scale), scale, 0.0)


def _in_units(value: Floats, scale: Floats) -> Floats:
    units = value * scale
    units += 0.5
    return np.floor(units, out=units)
