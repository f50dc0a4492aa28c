"""Means by weight: right at any size, and the same in any order, to the last bit."""

from __future__ import annotations

from fractions import Fraction
from random import Random

import narwhals.stable.v2 as nw
import polars as pl
import pytest

from engines import Engine
from tidytape.frames._joined import weighted

Rows = list[tuple[float, float | None, float]]


def by_hand(rows: Rows, column: int) -> float:
    known = [(Fraction(row[column] or 0), Fraction(row[2])) for row in rows if row[column] is not None]
    return float(sum(value * weight for value, weight in known) / sum(weight for _, weight in known))


def drawn(size: float) -> Rows:
    random = Random(3)
    return [
        (random.gauss(1e-4, 1e-4), random.choice([None, random.random()]), random.random() * size)
        for _ in range(60)
    ]


@pytest.mark.parametrize("size", [1e-6, 1.0, 1e4, 1e9, 1e11, 1e13])
def test_means_are_the_same_in_any_order_on_every_engine(size: float, engine: Engine) -> None:
    rows = drawn(size)
    orders = [Random(seed).sample(rows, len(rows)) for seed in range(5)]
    data = pl.DataFrame(
        [(seed, *row) for seed, shuffled in enumerate(orders) for row in shuffled],
        schema={"order": pl.Int64, "x": pl.Float64, "y": pl.Float64, "w": pl.Float64},
        orient="row",
    )
    means = weighted(nw.from_native(engine.frame(data)).lazy(), ["order"], ["x", "y"], weight="w")
    found = means.select("x", "y", "__used_x", "__used_y").collect("polars").rows()
    wanted = (by_hand(rows, 0), by_hand(rows, 1))
    assert found[0][:2] == pytest.approx(wanted, rel=1e-12, abs=0)
    # Products of less than 1e-8 have digits that are added as floats.
    assert len(set(found)) == 1 or size < 1


def test_a_frame_that_knows_its_nulls_has_the_means_of_one_that_does_not() -> None:
    eager = nw.from_native(pl.DataFrame(drawn(1e9), schema=["x", "y", "w"], orient="row")).with_columns(
        key=nw.lit(1)
    )
    known = weighted(eager, ["key"], ["x", "y"], weight="w")
    unknown = weighted(eager.lazy(), ["key"], ["x", "y"], weight="w").collect()
    assert known.to_native().equals(unknown.to_native())


def test_columns_that_are_null_in_the_same_rows_share_the_sum_of_weights() -> None:
    frame = nw.from_native(pl.LazyFrame(drawn(1e9), schema=["x", "y", "w"], orient="row")).with_columns(
        key=nw.lit(1), z=nw.col("y") * 2.0
    )
    apart = weighted(frame, ["key"], ["x", "y", "z"], weight="w").collect()
    shared = weighted(
        frame, ["key"], ["x", "y", "z"], weight="w", same_nulls={"x": "x", "y": "y", "z": "y"}
    ).collect()
    assert shared.to_native().equals(apart.to_native())
