"""How a value area grows.

Growing takes the larger of the two next candidates again and again, and that visits them in the order of the *running
minimum along each side*, larger first: a candidate behind a smaller one waits for it, and is then at once larger than
whatever the other side offers. So the growth is a sort and a cumulative sum, the same expression on every engine.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any, Final

import narwhals.stable.v2 as nw

from tidytape.analytics import _arguments as arguments
from tidytape.analytics._arguments import one_of
from tidytape.analytics.profile._grid import (
    DIGITS,
    MOST_STEPS,
    in_units,
    quotient,
    scale,
    with_index,
    with_place,
)

POC_TIES: Final = ("center", "lower", "upper")
WIDTHS: Final = {"two_row": 2, "one_row": 1}


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
        """Return the columns that say them beside a result."""
        return {name: nw.lit(value) for name, value in asdict(self).items()}


def areas(
    levels: nw.LazyFrame[Any], keys: list[str], rules: Rules, step: Fraction | None
) -> nw.LazyFrame[Any]:
    """Return one row per profile: its keys, ``poc``, ``val``, ``vah``, ``value_area_share`` and the rules."""
    return grown(counted_rows(levels, keys, tie=rules.poc_tie, step=step), keys, rules, step)


def grown(rows: nw.LazyFrame[Any], keys: list[str], rules: Rules, step: Fraction | None) -> nw.LazyFrame[Any]:
    """Return what `areas` does, of `counted_rows`."""
    candidates = _candidates(rows, keys, width=WIDTHS[rules.rule], step=step)
    return (
        _taken(candidates, keys, rules, gaps=step is not None)
        .group_by(keys)
        .agg(nw.col("poc", "low").min(), nw.col("high", "total").max(), nw.col("count").sum())
        .with_columns(enclosed=nw.col("count") / nw.col("total"))
        .select(
            *keys,
            "poc",
            val=nw.col("low"),
            vah=nw.col("high"),
            value_area_share=quotient((nw.col("enclosed") * 10.0**DIGITS + 0.5).floor(), 10**DIGITS),
            **rules.columns(),
        )
    )


def counted_rows(
    levels: nw.LazyFrame[Any], keys: list[str], *, tie: str, step: Fraction | None
) -> nw.LazyFrame[Any]:
    """Return one row per (keys, price row), with its signed distance from the point of control in rows.

    ``total`` is the profile's count, null where there is no answer.
    """
    price, count, total, place = nw.col("price"), nw.col("count"), nw.col("total"), nw.col("place")
    known = (price.is_finite() & count.is_finite() & (count >= 0)).fill_null(value=False)
    if step is not None:
        known &= price.abs() < MOST_STEPS * float(step)
    levels = levels.with_columns(known=known).with_columns(
        price=nw.when("known").then(price).otherwise(0.0),
        # What is unknown could be the largest; nor is the total known then.
        count=nw.when("known").then(count).otherwise(float("inf")),
    )
    rows = with_place(levels, keys, step).group_by(*keys, "place").agg(price.min(), count.sum())
    rows = rows.with_columns(
        total=count.sum().over(keys),
        lowest=place.min().over(keys),
        highest=place.max().over(keys),
    )
    rows = with_index(rows, keys, step)
    rows = rows.with_columns(total=nw.when(total > 0, total < float("inf")).then(total))
    rows = rows.with_columns(scale=scale(total)).with_columns(weight=in_units(count, nw.col("scale")))
    # Places are whole numbers, so a quarter leans to the lower of two rows equally far and moves no other.
    middle = nw.col("lowest") + nw.col("highest") - 0.25
    away = {"center": (2 * place - middle).abs(), "lower": place, "upper": -place}[tie]
    rows = rows.with_columns(away=away, largest=nw.col("weight").max().over(keys))
    rows = rows.with_columns(nearest=nw.when(nw.col("weight") == nw.col("largest")).then(nw.col("away")))
    rows = rows.with_columns(nearest=nw.col("nearest").min().over(keys))
    rows = rows.with_columns(poc_index=nw.when(nw.col("away") == nw.col("nearest")).then(nw.col("index")))
    rows = rows.with_columns(poc_index=nw.col("poc_index").max().over(keys))
    return rows.with_columns(from_poc=nw.col("index") - nw.col("poc_index"))


def _candidates(
    rows: nw.LazyFrame[Any], keys: list[str], *, width: int, step: Fraction | None
) -> nw.LazyFrame[Any]:
    """Return one row per (keys, side, rank outward), the point of control being side 0 and rank 0."""
    distance, side, rank = nw.col("from_poc"), nw.col("side"), nw.col("rank")
    rows = rows.with_columns(
        side=(distance > 0).cast(nw.Float64) - (distance < 0).cast(nw.Float64),
        rank=((distance.abs() + (width - 1)) / width).floor(),
    )
    edge = nw.col("price")
    if step is not None:
        # The outer row of a pair may have no level: it counts zero, and the area ends there all the same.
        outer = nw.col("poc_index") + side * rank * width
        index = nw.min_horizontal(nw.max_horizontal(outer, "lowest"), "highest")
        edge = quotient(index * float(step.numerator), step.denominator)
    edge = nw.when(~nw.col("total").is_null()).then(edge)
    rows = rows.select(
        *keys,
        *("side", "rank", "total", "scale", "count"),
        low=edge,
        high=edge,
        poc=nw.when(side == 0).then(edge),
    )
    if width == 1:  # each row is a candidate
        return rows
    return rows.group_by(*keys, "side", "rank").agg(
        nw.col("poc", "low").min(), nw.col("high", "total", "scale").max(), nw.col("count").sum()
    )


def _taken(candidates: nw.LazyFrame[Any], keys: list[str], rules: Rules, *, gaps: bool) -> nw.LazyFrame[Any]:
    """Keep the candidates that the growth takes."""
    count, total, rank = nw.col("count"), nw.col("total"), nw.col("rank")
    outward = [*keys, "side"]
    candidates = candidates.with_columns(weight=in_units(count, nw.col("scale")))
    bounds = {"bound": nw.col("weight").cum_min().over(outward, order_by="rank")}
    if gaps:
        bounds["present"] = count.cum_count().over(outward, order_by="rank")
    candidates = candidates.with_columns(**bounds)
    bound = nw.col("bound")
    if gaps:
        # A nearer candidate without any level counts zero.
        bound = nw.when(rank <= nw.col("present")).then(bound).otherwise(0.0)
    # The point of control goes before every weight. Bounds are whole numbers: a half puts one side first.
    bound = nw.when(rank > 0).then(bound).otherwise(10.0 ** (DIGITS + 1))
    favoured = 1 if rules.tie == "up" else -1
    candidates = candidates.with_columns(later=-bound - nw.col("side") * favoured / 4)
    enclosed = count.cum_sum().over(keys, order_by=["later", "rank"])
    candidates = candidates.with_columns(before=(enclosed - count) / total)
    noise = 10.0**-DIGITS
    short = (
        nw.col("before") < rules.share - noise
        if rules.stop == "reach"
        else nw.col("before") < rules.share + noise
    )
    return candidates.filter((rank == 0) | short.fill_null(value=False))
