"""Rows of a profile are whole multiples of its levels, where the frame says how high these are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl
import pytest
from matplotlib.figure import Figure

from tidytape import plot
from tidytape.analytics import profile
from tidytape.errors import QueryError

# Levels of 50, most of them traded; the case in small.
VOLUMES = [1, 4, 10, 6, 3, 2, 1]


def levels(size: float | None = 50.0, step: float = 50.0) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "coin": "BTC",
            "timestamp": pl.Series([0] * len(VOLUMES), dtype=pl.Int64),
            "block_size": pl.Series([size] * len(VOLUMES), dtype=pl.Float64),
            "price": [60_000 + step * place for place in range(len(VOLUMES))],
            "volume": [float(volume) for volume in VOLUMES],
            "block_ids": [[0], [0, 1], [1, 2], [1], [2], [2], [3]],
        }
    )


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "value_area": profile.value_area,
    "nodes": profile.nodes,
    "shape": profile.shape,
    "naked_pocs": profile.naked_pocs,
    "composite": profile.composite,
    "single_prints": profile.single_prints,
    "poor_extremes": profile.poor_extremes,
    "initial_balance": lambda frame, **more: profile.initial_balance(frame, block_minutes=30, **more),
    "developing": lambda frame, **more: profile.developing(frame, block_minutes=30, **more),
    "day_type": lambda frame, **more: profile.day_type(frame, block_minutes=30, **more),
    "summary": lambda frame, **more: profile.summary(frame, block_minutes=30, **more),
}
every = pytest.mark.parametrize("name", FUNCTIONS)


@every
@pytest.mark.parametrize("row_size", [10, 75, 49.999])
def test_rows_that_levels_do_not_make_up_are_refused(name: str, row_size: float) -> None:
    with pytest.raises(QueryError, match="a whole multiple of 50, the block_size of the levels") as caught:
        FUNCTIONS[name](levels(), row_size=row_size)
    assert caught.value.parameter == "row_size"


@pytest.mark.slow
@every
@pytest.mark.parametrize("row_size", [50, 100, 50.0])
def test_rows_that_levels_make_up_are_as_without_a_block_size(name: str, row_size: float) -> None:
    known, unknown = (FUNCTIONS[name](frame, row_size=row_size) for frame in (levels(), levels(None)))
    assert known.drop("block_size", strict=False).equals(unknown.drop("block_size", strict=False))


@every
def test_what_is_not_known_is_not_checked(name: str) -> None:
    plain = levels().drop("block_size")
    found = FUNCTIONS[name](levels(None), row_size=10)
    assert found.drop("block_size", strict=False).equals(FUNCTIONS[name](plain, row_size=10))


def test_decimals_are_multiples_of_decimals() -> None:
    tenths = levels(0.1, 0.1)
    assert profile.value_area(tenths, row_size=0.3).height == 1
    with pytest.raises(QueryError, match=r"a whole multiple of 0\.1"):
        profile.value_area(tenths, row_size=0.25)


def test_an_area_of_a_lazy_frame_is_null_where_rows_do_not_fit() -> None:
    day = 1_723_075_200 * 10**9
    both = pl.concat([levels(), levels(10.0).with_columns(timestamp=pl.lit(1, pl.Int64))]).lazy()
    found = profile.value_area(both.with_columns(pl.col("timestamp") + day), row_size=10).collect()
    assert found.select("poc", "val", "vah").rows()[0] == (None, None, None)
    assert found["poc"][1] == 60_100


def test_a_picture_refuses_them_too() -> None:
    frame = levels().with_columns(buy_volume="volume", sell_volume=0.0)
    with pytest.raises(QueryError, match="a whole multiple of 50"):
        plot.volume_profile(frame, row_size=10, ax=Figure().add_subplot())


def test_rows_below_the_levels_give_another_area_where_nobody_knows_their_height() -> None:
    counts = [8.0, 7.0, 4.0, 2.0, 8.0, 1.0, 7.0]
    unknown = levels(None).with_columns(volume=pl.Series(counts))
    assert profile.value_area(unknown, row_size=10).select("val", "vah").row(0) == (60_040, 60_300)
    assert profile.value_area(unknown, row_size=50).select("val", "vah").row(0) == (60_000, 60_300)
