"""Points of one key joined to one: sums, extremes, first and last, means by weight; and values that hold.

Weights are amounts, and added as `exact` does. Of their products with what they weigh nobody knows the decimals, and a
mean has few rows, the markets of a coin: those are taken apart into three floats, which costs half as much. They are
whole numbers, multiples of 2**-40, and what is left. Up to 2**14 rows of products of 1e-8 to 1e11 and more add up
exactly, to sums below 9e15. Others add up to 1e-15 of the sum of magnitudes too, but for the last bit in any order.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final

import narwhals.stable.v2 as nw

from tidytape import catalogue
from tidytape.frames import exact
from tidytape.frames.door import Frame

COVERAGE: Final = catalogue.COVERAGE.column
"""Share of the rows of a sum whose amounts are known. [1]"""

LATEST: Final = 2**63 - 1
"""A time no point is as late as. [ns]"""

EARLIEST: Final = -(2**63)
"""A time no point is as early as. [ns]"""

IDLE: Final = "__idle"
"""1 where a candle only fills a gap, else 0."""


def traded(frame: Any, keys: Sequence[str]) -> Any:
    """Return candles without those that only fill a gap, where another of the same keys does not; with `IDLE`."""
    fills = nw.col("first_timestamp").is_null() & (nw.col("volume") == 0)
    idle = nw.when(fills).then(nw.lit(1)).otherwise(nw.lit(0)).alias(IDLE)
    return frame.with_columns(idle).filter(nw.col(IDLE) == nw.col(IDLE).min().over(*keys))


def with_coverage(frame: Any, columns: Collection[str], *, point: Sequence[str] = ()) -> Any:
    """Return points with `COVERAGE`: 1 where their amounts are known, else 0.

    Parameters
    ----------
    frame : frame, n rows
        Points.
    columns : collection of str
        Their payload. A row is known where all columns that are summed are finite, or the first close if none is.
    point : sequence of str
        Columns that name what one point will be made of, if points have levels: the coverage is then the share of rows
        of that point that are known, on each of its levels.
    """
    amounts = [name for name in columns if _rule(name) == "sum"]
    amounts = amounts or [name for name in columns if _rule(name) == "close"][:1]
    known = nw.all_horizontal(*(nw.col(name).is_finite() for name in amounts), ignore_nulls=False)
    frame = frame.with_columns(nw.when(known).then(1.0).otherwise(0.0).alias(COVERAGE))
    if not point or (isinstance(frame, nw.DataFrame) and frame[COVERAGE].min() == 1.0):
        return frame
    return frame.with_columns(nw.col(COVERAGE).mean().over(*point))


def reduced(frame: Frame, keys: Sequence[str], columns: Iterable[str], *, first: str, last: str) -> Frame:
    """Return one row per keys, with the columns joined by the rule that their names say.

    Opens are the first that is not null by the whole numbers in column ``first``, closes the last by those in ``last``;
    no two rows of the same keys have the same. What is null in every row stays null, and a sum of which one amount is
    unknown is null.
    """
    rules = {name: _rule(name) for name in columns}
    ends = {
        name: (nw.col(first), LATEST) if rule == "open" else (nw.col(last), EARLIEST)
        for name, rule in rules.items()
        if rule in {"open", "close"}
    }
    # Not `first` and `last` in a group: Spark has no order there.
    places = [
        nw.when(nw.col(name).is_null()).then(nw.lit(never)).otherwise(place).alias(f"__place_{name}")
        for name, (place, never) in ends.items()
    ]
    bounds = [
        (place.min() if rules[name] == "open" else place.max()).over(*keys).alias(f"__bound_{name}")
        for name in ends
        for place in [nw.col(f"__place_{name}")]
    ]
    picked = [
        nw.when(place == nw.col(f"__bound_{name}")).then(nw.col(name)).alias(name)
        for name, (place, _) in ends.items()
    ]
    if ends:
        frame = frame.with_columns(*places).with_columns(*bounds).with_columns(*picked)
    return _joined(frame, keys, rules)


def summed(frame: Frame, keys: Sequence[str], columns: Iterable[str]) -> Frame:
    """Return one row per keys, with the sums of the columns, null where one of the amounts is unknown."""
    return _joined(frame, keys, {name: "share" if name == COVERAGE else "sum" for name in columns})


def _rule(column: str) -> str:
    """Return what a column's name says of how points join: open, high, low, close, sum or share."""
    if column == COVERAGE:
        return "share"
    word = {"first_timestamp": "low", "last_timestamp": "high"}.get(column, column.rpartition("_")[2])
    return word if word in {"open", "high", "low", "close"} else "sum"


def _joined(frame: Frame, keys: Sequence[str], rules: dict[str, str]) -> Frame:
    sums = [name for name, rule in rules.items() if rule == "sum"]
    lows = [name for name, rule in rules.items() if rule == "low"]
    highs = [name for name, rule in rules.items() if rule in {"open", "high", "close"}]
    if sums:
        frame = exact.in_parts(frame, *sums)
    parts = [
        *(nw.col(name).max() for name in highs),
        *(nw.col(name).min() for name in lows),
        *(nw.col(name).mean() for name, rule in rules.items() if rule == "share"),
        *([exact.summed(*sums)] if sums else []),
    ]
    results = {name: exact.total(name) for name in sums}
    points = (
        frame.group_by(*keys).agg(*parts).select(*keys, *(results.get(name, nw.col(name)) for name in rules))
    )
    if {"buy_volume", "sell_volume"} <= set(rules) and "volume" not in keys:
        points = points.with_columns((nw.col("buy_volume") + nw.col("sell_volume")).alias("volume"))
    return points


def last_known(frame: Any, name: str, *, known: nw.Expr, by: Sequence[str], order: Sequence[str]) -> Any:
    """Return the frame with the last known value of a column that is not null, at or before each row, as ``__name``.

    ``by`` names the series, ``order`` puts its rows in an order without ties. Before the first it is null.
    """
    found = nw.when(known).then(nw.col(name)).alias(f"__{name}")
    last = nw.col(f"__{name}").fill_null(strategy="forward")
    return frame.with_columns(found).with_columns(last.over(*by, order_by=order))


_PLACES: Final = {"whole": 0, "fraction": -40}
_PARTS: Final = (*_PLACES, "left")


def weighted(frame: Any, keys: Sequence[str], values: Sequence[str], *, weight: str) -> Any:
    r"""Return one row per keys, with the mean of each column by weight, :math:`\sum_i w_i x_i / \sum_i w_i`.

    Rows in which a value is null are left out of its mean; ``__used_`` and its name is the sum of the other rows'
    weights, null where there is none; ``__members`` the number of all rows. The sums do not depend on their order.
    """
    frame = exact.in_parts(_in_parts(frame, values, weight=weight), weight)
    # Of values without nulls the weights are all used. A lazy frame does not know; there each has a sum of its own.
    used = {name: weight if _is_whole(frame, name) else f"__used_{name}" for name in values}
    for name, own in used.items():
        if own != weight:
            frame = frame.with_columns(exact.where(~nw.col(name).is_null(), weight, own))
    owns = list(dict.fromkeys(used.values()))
    parts = [_name(name, part) for name in values for part in _PARTS]
    sums = frame.group_by(*keys).agg(nw.col(*parts).sum(), exact.summed(*owns), nw.len().alias("__members"))
    sums = sums.with_columns(*(_total(name) for name in values), *(exact.total(own) for own in owns))
    has = {name: nw.col(own) > 0 for name, own in used.items()}
    return sums.select(
        *keys,
        "__members",
        *(nw.when(has[name]).then(nw.col(name) / nw.col(own)).alias(name) for name, own in used.items()),
        *(nw.when(has[name]).then(nw.col(own)).alias(f"__used_{name}") for name, own in used.items()),
    )


def _in_parts(frame: Any, values: Sequence[str], *, weight: str) -> Any:
    """Add the parts of the products of values and their weight."""
    left = {name: nw.col(_name(name, "left")) for name in values}
    frame = frame.with_columns((nw.col(weight) * nw.col(name)).alias(_name(name, "left")) for name in values)
    for part, place in _PLACES.items():
        frame = frame.with_columns(
            exact.rounded(left[name], place).alias(_name(name, part)) for name in values
        )
        frame = frame.with_columns(
            (left[name] - nw.col(_name(name, part))).alias(_name(name, "left")) for name in values
        )
    return frame


def _is_whole(frame: Any, name: str) -> bool:
    return isinstance(frame, nw.DataFrame) and frame[name].null_count() == 0


def _total(name: str) -> nw.Expr:
    whole, fraction, left = (nw.col(_name(name, part)) for part in _PARTS)
    exact_sum = whole + (fraction + left)
    return nw.when(whole.is_finite()).then(exact_sum).otherwise(whole).alias(name)


def _name(column: str, part: str) -> str:
    return f"__weighted_{column}_{part}"
