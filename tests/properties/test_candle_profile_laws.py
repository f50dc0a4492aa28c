"""Laws of volume profiles of candles."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracles import candle_profile as oracle
from tidytape.aggregate import candle_profile

HOUR = 3_600_000_000_000

times = st.integers(-3 * HOUR, 3 * HOUR) | st.sampled_from([-1, 0, HOUR - 1, HOUR])
ticks = st.integers(0, 5_000)
widths = st.integers(0, 300) | st.just(0)
volumes = st.integers(0, 10**9).map(lambda count: count / 10**5) | st.sampled_from([1e-9, 1e12, 1e15])
sizes = st.sampled_from(["0.01", "0.1", "0.3", "0.25", "1", "50"])
rules = st.sampled_from(["close", "uniform"])


@st.composite
def candles(draw):
    low, width = draw(ticks), draw(widths)
    close = draw(st.integers(low, low + width))
    return draw(times), low / 100, (low + width) / 100, close / 100, draw(volumes)


tapes = st.lists(candles(), min_size=1, max_size=12)


def profile(tape, size, rule) -> pl.DataFrame:
    columns = dict.fromkeys(["low", "high", "close", "volume"], pl.Float64)
    frame = pl.DataFrame(tape, schema={"timestamp": pl.Int64, **columns}, orient="row")
    return candle_profile(frame, interval="1h", block_size=size, spreading=rule)


def shown(found: pl.DataFrame) -> list[tuple]:
    return found.select("timestamp", "price", "volume").rows()


@pytest.mark.slow
@given(tapes, sizes, rules)
def test_the_profile_equals_the_plain_loop(tape, size, rule):
    wanted = oracle.profile(tape, HOUR, size, spreading=rule)
    found = {(time, price): volume for time, price, volume in shown(profile(tape, size, rule))}
    assert set(found) == set(wanted)
    assert found == pytest.approx({key: float(volume) for key, volume in wanted.items()}, rel=1e-9)


@pytest.mark.slow
@given(tapes, sizes, rules)
def test_volume_is_kept(tape, size, rule):
    total = sum(volume for *_, volume in tape)
    assert profile(tape, size, rule)["volume"].sum() == pytest.approx(total, rel=1e-12)


@pytest.mark.slow
@given(tapes, sizes, rules, st.randoms(use_true_random=False))
def test_the_order_of_candles_does_not_matter(tape, size, rule, random):
    # ADR 7: of parts below 4e-11 coin the last bit may depend on the order, and a candle has 300 parts at most.
    tape = [(*prices, volume if volume == 0 or volume > 1e-7 else 1e-6) for *prices, volume in tape]
    assert shown(profile(random.sample(tape, len(tape)), size, rule)) == shown(profile(tape, size, rule))


@pytest.mark.slow
@given(tapes, sizes, rules)
def test_a_candle_of_one_price_is_one_row(tape, size, rule):
    flat = [(number * HOUR, price, price, price, 1.0) for number, (_, price, *_) in enumerate(tape)]
    assert profile(flat, size, rule)["volume"].to_list() == [1.0] * len(tape)


@pytest.mark.slow
@given(tapes, rules, st.integers(0, 40))
def test_prices_shifted_by_rows_shift_the_profile(tape, rule, rows):
    # In quarters, which floats say exactly, so that nothing but the rows moves.
    exact = [(time, *(round(price * 4) / 4 for price in prices), volume) for time, *prices, volume in tape]
    moved = [(time, *(price + rows * 0.5 for price in prices), volume) for time, *prices, volume in exact]
    expected = [
        (time, price + rows * 0.5, volume) for time, price, volume in shown(profile(exact, "0.5", rule))
    ]
    assert shown(profile(moved, "0.5", rule)) == expected


@pytest.mark.slow
@given(tapes)
def test_coarser_rows_hold_what_finer_ones_do(tape):
    fine = profile(tape, "0.1", "uniform").with_columns(price=(pl.col("price") + 1e-9) // 1)
    coarse = profile(tape, "1", "uniform").filter(pl.col("volume") > 1e-9)
    keys = ["timestamp", "price"]
    together = coarse.join(fine.group_by(keys).agg(fine=pl.col("volume").sum()), on=keys, how="left")
    assert together["fine"].to_list() == pytest.approx(together["volume"].to_list(), rel=1e-9, abs=1e-9)
