"""Sums of amounts: the decimal one would get by hand, whatever the order of the rows."""

from __future__ import annotations

import math
from decimal import Decimal
from random import Random
from typing import Any

import narwhals.stable.v2 as nw
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines import Engine
from tidytape.aggregate import candles
from tidytape.frames._exact import in_parts, summed, total, where

eight_decimals = st.integers(min_value=0, max_value=10**13).map(lambda count: count / 10**8)


def added(amounts: list[float], kind: Any = pl.DataFrame) -> float:
    frame = in_parts(nw.from_native(kind({"amount": amounts})), "amount")
    return frame.select(summed("amount")).select(total("amount"))["amount"][0]


@pytest.mark.slow
@given(st.lists(eight_decimals, min_size=1, max_size=50))
def test_amounts_of_eight_decimals_add_up_to_the_exact_decimal(amounts: list[float]) -> None:
    by_hand = sum((Decimal(repr(amount)) for amount in amounts), Decimal(0))
    assert added(amounts) == float(by_hand)
    assert added(amounts, pd.DataFrame) == float(by_hand)


@pytest.mark.slow
@given(st.lists(eight_decimals, min_size=1, max_size=50), st.randoms(use_true_random=False))
def test_another_order_is_the_same_sum_to_the_last_bit(amounts: list[float], random: Any) -> None:
    shuffled = random.sample(amounts, len(amounts))
    assert added(shuffled) == added(amounts)


@pytest.mark.slow
@given(
    st.lists(
        st.integers(min_value=0, max_value=10**18).map(lambda count: count / 10**17), min_size=1, max_size=50
    ),
    st.randoms(use_true_random=False),
)
def test_amounts_of_more_decimals_add_up_the_same_in_any_order(amounts: list[float], random: Any) -> None:
    assert added(random.sample(amounts, len(amounts))) == added(amounts)
    assert added(amounts) == pytest.approx(math.fsum(amounts), rel=1e-15, abs=1e-16)


def test_one_amount_is_itself() -> None:
    for amount in (0.1, 12345.123456789012, 1e-9, 3.3e-15, 123456.78901234, 0.30000000000000004):
        assert added([amount]) == pytest.approx(amount, rel=1e-15, abs=1e-17)


@pytest.mark.parametrize(
    "amounts",
    [
        [1.0, 1e-12, 3.3e-10],
        [1.23456789012e-9] * 3,
        [2e11, 3.5],
        [6e10] * 4,
        [-0.5, 0.25],
        [0.0],
    ],
)
def test_amounts_of_unlike_sizes_and_signs(amounts: list[float]) -> None:
    assert added(amounts) == pytest.approx(math.fsum(amounts), rel=1e-12)
    assert added(amounts, pd.DataFrame) == pytest.approx(math.fsum(amounts), rel=1e-12)


@pytest.mark.parametrize("bad", [None, math.nan, math.inf, -math.inf])
def test_a_sum_with_an_unknown_amount_is_unknown(bad: float | None, engine: Engine) -> None:
    data = pl.DataFrame({"of": [1, 1, 1, 2, 3, 3], "amount": [1.0, bad, 2.0, bad, 0.5, 0.25]}, strict=False)
    frame = in_parts(nw.from_native(engine.frame(data)).lazy(), "amount")
    halves = frame.with_columns(half=nw.col("amount").is_null()).group_by("of", "half").agg(summed("amount"))
    sums = halves.group_by("of").agg(summed("amount")).select("of", total("amount")).collect("polars")
    assert sums.sort("of")["amount"].to_list() == [None, None, 0.75]


def test_an_unknown_amount_counts_only_where_its_condition_holds() -> None:
    frame = in_parts(nw.from_native(pl.DataFrame({"amount": [1.0, None], "is_in": [True, False]})), "amount")
    rows = frame.with_columns(*where(nw.col("is_in"), "amount", "inside"))
    sums = rows.select(summed("amount", "inside")).select(total("amount"), total("inside"))
    assert sums.rows() == [(None, 1.0)]


SIZES = [1e-12, 1e-3, 1e9, 1e11, 1e13, 1e15, 1e18]


@pytest.mark.parametrize("size", SIZES)
def test_amounts_of_any_size_add_up_the_same_in_any_order_on_every_engine(
    size: float, engine: Engine
) -> None:
    random = Random(7)
    amounts = [random.random() * size for _ in range(500)]
    orders = [random.sample(amounts, len(amounts)) for _ in range(4)]
    data = pl.DataFrame({"order": range(4), "amount": orders}).explode("amount")
    frame = nw.from_native(engine.frame(data)).lazy()
    sums = in_parts(frame, "amount").group_by("order").agg(summed("amount")).select(total("amount"))
    found = sums.collect("polars")["amount"].to_list()
    assert found == pytest.approx([math.fsum(amounts)] * 4, rel=1e-15, abs=0)
    assert len(set(found)) == 1 or size < 1e-9  # what no part counts is added in floats


def test_what_is_added_and_taken_away_again_leaves_nothing(engine: Engine) -> None:
    random = Random(11)
    amounts = [random.random() * 10.0**power for power in range(-8, 19) for _ in range(20)]
    both = random.sample([*amounts, *(-amount for amount in amounts)], 2 * len(amounts))
    frame = nw.from_native(engine.frame(pl.DataFrame({"all": 1, "amount": both}))).lazy()
    sums = in_parts(frame, "amount").group_by("all").agg(summed("amount")).select(total("amount"))
    assert sums.collect("polars")["amount"].to_list() == [0.0]


def test_small_amounts_beside_large_ones_are_not_lost() -> None:
    assert added([1e15, 0.25, -1e15]) == 0.25
    assert added([1e15] * 3 + [0.1] * 10) == 3e15 + 1
    assert added([1e25, 1.0, -1e25]) == 1.0


def test_sums_beyond_all_parts_are_those_of_floats() -> None:
    amounts = [3e290, 1e300, 1.0]
    assert added(amounts) == math.fsum(amounts)
    assert added([1e308, 1e308]) == math.inf


@pytest.mark.slow
def test_candles_come_out_the_same_to_the_last_bit_every_time() -> None:
    count = 200_000
    trades = pl.DataFrame(
        {
            "exchange": ["X"] * count,
            "raw_symbol": ["B"] * count,
            "timestamp": [number * 1_000_000 for number in range(count)],
            "sequence": range(count),
            "price": [100.0] * count,
            "amount": [(number * 7919 % 100_000) / 10**5 for number in range(count)],
        }
    )
    first = candles(trades.lazy(), interval="1m").collect(engine="streaming")
    for seed in range(20):
        again = candles(trades.sample(fraction=1, shuffle=True, seed=seed).lazy(), interval="1m")
        assert again.collect(engine="streaming").equals(first)
