"""Sums of amounts: the decimal one would get by hand, whatever the order of the rows."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import narwhals.stable.v2 as nw
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidytape.aggregate import candles
from tidytape.frames.exact import parts, summed, total

eight_decimals = st.integers(min_value=0, max_value=10**13).map(lambda count: count / 10**8)


def added(amounts: list[float], kind: Any = pl.DataFrame) -> float:
    frame = nw.from_native(kind({"amount": amounts})).with_columns(parts("amount"))
    return float(frame.select(summed("amount")).select(total("amount"))["amount"][0])


@given(st.lists(eight_decimals, min_size=1, max_size=50))
def test_amounts_of_eight_decimals_add_up_to_the_exact_decimal(amounts: list[float]) -> None:
    by_hand = sum((Decimal(repr(amount)) for amount in amounts), Decimal(0))
    assert added(amounts) == float(by_hand)
    assert added(amounts, pd.DataFrame) == float(by_hand)


@given(st.lists(eight_decimals, min_size=1, max_size=50), st.randoms(use_true_random=False))
def test_another_order_is_the_same_sum_to_the_last_bit(amounts: list[float], random: Any) -> None:
    shuffled = random.sample(amounts, len(amounts))
    assert added(shuffled) == added(amounts)


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
        [2e11, 3.5],  # one amount beyond what units can count
        [6e10] * 4,  # each fits, their sum does not
        [-0.5, 0.25],
        [0.0],
    ],
)
def test_what_cannot_be_counted_is_added_as_floats(amounts: list[float]) -> None:
    assert added(amounts) == pytest.approx(math.fsum(amounts), rel=1e-12)
    assert added(amounts, pd.DataFrame) == pytest.approx(math.fsum(amounts), rel=1e-12)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_what_is_no_amount_is_not_hidden(bad: float) -> None:
    assert not math.isfinite(added([1.0, bad]))


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
