"""Value areas on arrays, for frames that are in memory.

The same as `_growth` says as expressions, step by step, and tests hold the two to each other. An engine sorts and
groups anew for each window; arrays in the order of (session, row) are walked through, which is several times as fast.
Taken are the candidates of both sides by falling bound: how many of the other side go before one is a binary search.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any, Final

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from tidytape.analytics.profile._grid import DIGITS, MOST_STEPS
from tidytape.analytics.profile._growth import WIDTHS, Rules, areas

__all__ = ["areas_in_memory", "starts_run"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_ABOVE_ALL: Final = 4 * 10**DIGITS  # a weight is at most a root of 10 times as many units as there are digits
_PART: Final = 2**16  # levels that a processor's cache holds, with what is computed of them
# The share of a session that is all of it. Sums over sessions wrap around; their differences do not.
_WHOLE: Final = 2.0**60


def areas_in_memory(
    levels: nw.DataFrame[Any], keys: list[str], rules: Rules, step: Fraction | None
) -> nw.LazyFrame[Any]:
    """Return what `_growth.areas` does."""
    if levels.is_empty():
        return areas(levels.lazy(), keys, rules, step)
    levels, sessions, session = _in_order(levels, keys)
    price, count = levels["price"].to_numpy(), levels["count"].to_numpy()
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        parts = [
            _areas_of(session[part] - session[part.start], price[part], count[part], rules, step)
            for part in _parts(session)
        ]
    found = [np.concatenate(arrays) for arrays in zip(*parts, strict=True)]
    columns = [
        nw.new_series(name, values, nw.Float64, backend=levels.implementation)
        for name, values in zip(("poc", "val", "vah", "value_area_share"), found, strict=True)
    ]
    results = nw.maybe_reset_index(sessions).with_columns(*columns).lazy()
    return results.with_columns(
        *(nw.col(column.name).fill_nan(None) for column in columns), **rules.columns()
    )


def _in_order(
    levels: nw.DataFrame[Any], keys: list[str]
) -> tuple[nw.DataFrame[Any], nw.DataFrame[Any], Ints]:
    """Return the levels of each session next to each other, the keys of the sessions, and which one a level is of."""
    sessions, session = _runs(levels, keys)
    if sessions.is_duplicated().any():
        levels = nw.maybe_reset_index(levels.sort(*keys))
        sessions, session = _runs(levels, keys)
    return levels, sessions, session


def _runs(levels: nw.DataFrame[Any], keys: list[str]) -> tuple[nw.DataFrame[Any], Ints]:
    """Return the keys of rows that follow each other with the same, null being a key, and which one a row has."""
    is_first = starts_run(levels, keys)
    return levels.select(*keys)[np.flatnonzero(is_first)], np.cumsum(is_first) - 1


def starts_run(levels: nw.DataFrame[Any], keys: list[str]) -> NDArray[np.bool_]:
    """Return whether each row is the first, or has other keys than the one before it, null being a key."""
    is_first: NDArray[np.bool_] = np.arange(len(levels)) == 0
    for key in keys:
        here, before = levels[key], levels[key].shift(1)
        same = (here == before).fill_null(value=False)
        if here.null_count():
            same |= here.is_null() & before.is_null()
        is_first |= ~same.to_numpy().astype(bool)
    return is_first


def _parts(session: Ints) -> list[slice]:
    """Return slices of whole sessions, of about `_PART` levels; a session of more is one."""
    starts = np.flatnonzero(np.diff(session, prepend=-1))
    wanted = np.searchsorted(starts, np.arange(0, len(session), _PART))
    cuts = [*np.unique(starts[wanted[wanted < len(starts)]]).tolist(), len(session)]
    return [slice(start, end) for start, end in pairwise(cuts)]


@dataclass(frozen=True)
class _Rows:
    """Rows of all sessions, in the order of (session, place)."""

    session: Ints
    starts: Ints
    place: Floats
    price: Floats
    count: Floats

    def each(self, of_session: NDArray[Any]) -> NDArray[Any]:
        """Return what a session has for each of its rows."""
        return of_session[self.session]


def _areas_of(
    session: Ints, price: Floats, count: Floats, rules: Rules, step: Fraction | None
) -> tuple[Floats, Floats, Floats, Floats]:
    """Return poc, val, vah and the share enclosed of sessions 0, 1, …, which follow each other; NaN for null."""
    rows = _rows(session, price, count, step)
    total = np.add.reduceat(rows.count, rows.starts)
    has_answer = (total > 0) & (total < np.inf)
    total = np.where(has_answer, total, np.nan)
    scale = _scale(total)
    weight = _in_units(rows.count, rows.each(scale))
    poc = _poc(rows, weight, rules.poc_tie)

    index = rows.place if step else (np.arange(len(rows.place)) - rows.each(rows.starts)).astype(np.float64)
    distance = index - rows.each(index[poc])
    width = WIDTHS[rules.rule]
    rank = np.floor((np.abs(distance) + (width - 1)) / width).astype(np.int64)
    signed = np.where(distance < 0, -rank, rank)
    # Candidates: one or two rows, from below to above.
    first = np.flatnonzero(np.concatenate([[True], (np.diff(rows.session) != 0) | (np.diff(signed) != 0)]))
    last = np.concatenate([first[1:], [len(signed)]]) - 1
    of, signed = rows.session[first], signed[first]
    amount = np.add.reduceat(rows.count, first)
    at = np.flatnonzero(signed == 0)
    bounds = _bounds(_in_units(amount, scale[of]).astype(np.int64), of, signed, at)
    share = np.nan_to_num(amount / total[of] * _WHOLE, nan=0.0, posinf=0.0).astype(np.int64)
    upper, lower = _taken(of, signed, bounds, share=share, at=at, rules=rules)

    enclosed, through, ends = share[at], np.cumsum(share), {}
    for side, taken in ((1, upper), (-1, lower)):
        reach = at + side * taken
        low, high = np.minimum(at, reach), np.maximum(at, reach)
        enclosed = enclosed + np.where(
            taken > 0, through[high] - through[low] + (share[low] - share[at] if side < 0 else 0), 0
        )
        ends[side] = signed[reach] * width, (last if side > 0 else first)[reach]
    found = []
    for steps, row in ((np.zeros(len(at), np.int64), poc), ends[-1], ends[1]):
        if step is None:
            edge = rows.price[row]
        else:
            # The outer row of a pair may have no level: it counts zero, and the area ends there all the same.
            lowest, highest = (
                rows.place[rows.starts],
                rows.place[np.append(rows.starts[1:], len(rows.place)) - 1],
            )
            edge = np.clip(index[poc] + steps, lowest, highest) * float(step.numerator) / step.denominator
        found.append(np.where(has_answer, edge, np.nan))
    part = np.floor(enclosed / _WHOLE * 10.0**DIGITS + 0.5) / 10.0**DIGITS
    return found[0], found[1], found[2], np.where(has_answer, part, np.nan)


def _rows(session: Ints, price: Floats, count: Floats, step: Fraction | None) -> _Rows:
    known = np.isfinite(price) & np.isfinite(count) & (count >= 0)
    if step is not None:
        known &= np.abs(price) < MOST_STEPS * float(step)
    if not known.all():
        price, count = np.where(known, price, 0.0), np.where(known, count, np.inf)
    starts = np.flatnonzero(np.concatenate([[True], np.diff(session) != 0]))
    if step is None:
        place = _in_units(price, _scale(np.maximum.reduceat(np.abs(price), starts))[session])
    else:
        steps = price / float(step)
        nearest = np.floor(steps + 0.5)
        place = nearest - (nearest - steps > 1e-9 + 1e-12 * np.abs(steps))
    same = np.diff(session) == 0
    if not (~same | (np.diff(place) > 0)).all():
        order = np.lexsort((place, session))
        session, place, price, count = session[order], place[order], price[order], count[order]
        first = np.flatnonzero(np.concatenate([[True], (np.diff(session) != 0) | (np.diff(place) != 0)]))
        price, count = np.minimum.reduceat(price, first), np.add.reduceat(count, first)
        session, place = session[first], place[first]
        starts = np.flatnonzero(np.concatenate([[True], np.diff(session) != 0]))
    return _Rows(session, starts, place, price, count)


def _poc(rows: _Rows, weight: Floats, tie: str) -> Ints:
    """Return the row of each session's point of control."""
    place = rows.place
    lowest, highest = place[rows.starts], place[np.append(rows.starts[1:], len(place)) - 1]
    if tie == "center":
        # Places are whole numbers, so a quarter leans to the lower of two rows equally far and moves no other.
        away = np.abs(2 * place - rows.each(lowest + highest - 0.25))
    else:
        away = place if tie == "lower" else -place
    largest = rows.each(np.maximum.reduceat(weight, rows.starts))
    away = np.where(weight == largest, away, np.inf)
    return np.flatnonzero(away == rows.each(np.minimum.reduceat(away, rows.starts)))


def _bounds(weight: Ints, of: Ints, signed: Ints, at: Ints) -> Ints:
    """Return the smallest weight from the point of control outward to each candidate."""
    offset = of * _ABOVE_ALL
    upward = np.minimum.accumulate(np.where(signed > 0, weight, _ABOVE_ALL - 1) - offset) + offset
    back = (np.where(signed < 0, weight, _ABOVE_ALL - 1) + offset)[::-1]
    downward = np.minimum.accumulate(back)[::-1] - offset
    bounds = np.where(signed > 0, upward, downward)
    # A nearer candidate without any level counts zero.
    return np.where(np.abs(signed) <= np.abs(np.arange(len(of)) - at[of]), bounds, 0)


def _taken(of: Ints, signed: Ints, bounds: Ints, *, share: Ints, at: Ints, rules: Rules) -> tuple[Ints, Ints]:
    """Return how many candidates the growth takes above and below."""
    through = np.cumsum(share)  # up to and with this one; wraps around
    noise = 10.0**-DIGITS
    limit = (rules.share + (noise if rules.stop == "exceed" else -noise)) * _WHOLE
    rows = {1: np.flatnonzero(signed > 0), -1: np.flatnonzero(signed < 0)}
    # From below to above bounds rise to the point of control and fall beyond it: as keys both only rise.
    floor = {side: of[own] * _ABOVE_ALL for side, own in rows.items()}
    keys = {-1: floor[-1] + bounds[rows[-1]], 1: floor[1] + (_ABOVE_ALL - 1 - bounds[rows[1]])}
    # How many there are of all sessions up to one.
    so_far = {side: np.cumsum(np.bincount(of[own], minlength=len(at))) for side, own in rows.items()}
    found = {}
    for side, own in rows.items():
        # Those of the other side that go before: of larger bounds, and of equal ones if that side is favoured.
        is_favoured, session = (rules.tie == "up") == (side > 0), of[own]
        if side > 0:
            first = np.searchsorted(keys[-1], floor[1] + bounds[own], side="right" if is_favoured else "left")
            low, high = at[session] - (so_far[-1][session] - first), own - 1
        else:
            wanted = floor[-1] + (_ABOVE_ALL - 1 - bounds[own])
            last = np.searchsorted(keys[1], wanted, side="left" if is_favoured else "right")
            before = np.concatenate([[0], so_far[1][:-1]])
            low, high = own + 1, at[session] + last - before[session]
        enclosed = through[high] - through[low] + share[low]
        found[side] = np.bincount(of[own][enclosed < limit], minlength=len(at))
    return found[1], found[-1]


def _scale(largest: Floats) -> Floats:
    decade = np.round(np.log10(np.where(largest > 0, largest, np.nan)))
    return np.power(10.0, DIGITS - decade, dtype=np.float64)


def _in_units(value: Floats, scale: Floats) -> Floats:
    units = np.floor(value * scale + 0.5)
    return np.where(np.isfinite(scale), units, 0.0)
