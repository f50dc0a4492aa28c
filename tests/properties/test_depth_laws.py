"""Laws of depth."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from unittest import mock

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from polars.testing import assert_frame_equal

from oracles import depth as oracle
from thorough import often
from tidytape.analytics import depth
from tidytape.analytics.depth import _matrix

few = settings(max_examples=often(12, thoroughly=25))  # a query each

START = datetime(2024, 8, 8, tzinfo=UTC)
MINUTE = 60_000_000_000

# Few times and prices, so that cells meet; sizes are sixteenths, whose sums are exact.
levels = st.tuples(
    st.integers(0, 5),
    st.sampled_from(["BID", "ASK"]),
    st.integers(0, 12),
    st.integers(0, 99).map(lambda n: n / 16),
)
books = st.lists(levels, min_size=1, max_size=40)
steps = st.sampled_from(["0.1", "0.25", "0.01", "5", "1", "0.000001"])
firsts = st.integers(0, 100_000)


def rows_of(book, step="1", first=0):
    """Return (ns, side, price, size) rows on a grid of prices."""
    start = int(START.timestamp()) * 10**9
    return [
        (start + minute * MINUTE, side, float((first + row) * Fraction(step)), size)
        for minute, side, row, size in book
    ]


def frame_of(rows):
    schema = {"timestamp": pl.Int64, "side": pl.String, "price": pl.Float64, "size": pl.Float64}
    frame = pl.DataFrame(rows, schema=schema, orient="row")
    return frame.with_columns(pl.from_epoch("timestamp", time_unit="ns").dt.replace_time_zone("UTC"))


def same(found, wanted):
    for name in ("bids", "asks", "times", "prices"):
        assert_array_equal(getattr(found, name), getattr(wanted, name))


@pytest.mark.slow
@settings(max_examples=often(25, thoroughly=50))
@given(books, steps, firsts, st.sampled_from([None, "1", "3", "2.5"]), st.booleans())
def test_matrix_equals_the_plain_loop(book, step, first, coarser, is_even):
    rows = rows_of(book, step, first)
    block = None if coarser is None else float(Fraction(coarser) * Fraction(step))
    found = depth.matrix(frame_of(rows), block_size=block, interval="1m" if is_even else None)
    bids, asks, times, prices = oracle.matrix(rows, block_size=block, step=MINUTE if is_even else None)
    assert_array_equal(found.bids, np.array(bids, np.float32))
    assert_array_equal(found.asks, np.array(asks, np.float32))
    assert found.times.astype(int).tolist() == times
    assert found.prices.tolist() == prices


@pytest.mark.slow
@settings(max_examples=often(25, thoroughly=100))
@given(books, st.sampled_from([None, "3"]), st.booleans(), st.integers(1, 9), st.booleans(), st.booleans())
def test_however_many_parts_there_are_the_matrix_is_the_plain_loop_s(
    book, coarser, is_even, at_once, is_sorted, has_lost
):
    rows = rows_of(sorted(book) if is_sorted else book)
    # Rows in no cell, whose times are in no order.
    lost = [(rows[0][0] - 7, "BID", math.inf, 1.0), (rows[0][0] + 7, "ASK", None, 1.0)] if has_lost else []
    with mock.patch.object(_matrix, "_AT_ONCE", at_once):
        found = depth.matrix(
            frame_of([*rows[:1], *lost, *rows[1:]]), block_size=coarser, interval="1m" if is_even else None
        )
    bids, asks, times, prices = oracle.matrix(rows, block_size=coarser, step=MINUTE if is_even else None)
    assert_array_equal(found.bids, np.array(bids, np.float32))
    assert_array_equal(found.asks, np.array(asks, np.float32))
    assert found.times.astype(int).tolist() == times
    assert found.prices.tolist() == prices


@pytest.mark.slow
@few
@given(books, st.randoms(use_true_random=False))
def test_order_of_rows_does_not_matter(book, draw):
    rows = rows_of(book)
    shuffled = draw.sample(rows, len(rows))
    same(depth.matrix(frame_of(shuffled)), depth.matrix(frame_of(rows)))


@few
@given(books, st.integers(-3, 3))
def test_sizes_scale(book, power):
    rows = rows_of(book)
    found, scaled = (
        depth.matrix(frame_of(given)) for given in (rows, [(*key, size * 2.0**power) for *key, size in rows])
    )
    assert_array_equal(scaled.bids, found.bids * np.float32(2.0**power))
    assert_array_equal(scaled.asks, found.asks * np.float32(2.0**power))


@pytest.mark.slow
@few
@given(books, st.sampled_from([2, 3, 5]))
def test_larger_blocks_keep_the_sum_of_every_time(book, block):
    fine, coarse = (depth.matrix(frame_of(rows_of(book)), block_size=size) for size in (1, block))
    for side in ("bids", "asks"):
        assert_array_equal(np.nansum(getattr(fine, side), axis=1), np.nansum(getattr(coarse, side), axis=1))


@pytest.mark.slow
@few
@given(books, books)
def test_what_comes_later_leaves_the_past_as_it_was(book, later):
    rows = rows_of(book)
    found = depth.matrix(frame_of(rows), block_size=1)
    after = rows + [(time + 10 * MINUTE, *rest) for time, *rest in rows_of(later)]
    whole = depth.matrix(frame_of(after), block_size=1)
    lines = np.isin(whole.times, found.times)
    columns = np.isin(whole.prices, found.prices)
    assert_array_equal(whole.bids[lines][:, columns], found.bids)
    assert_array_equal(whole.asks[lines][:, columns], found.asks)


def close(found, wanted):
    """Whether numbers, Nones and booleans are the same, numbers to twelve digits."""
    if found is None or wanted is None or isinstance(wanted, bool):
        return found is wanted
    return abs(found - float(wanted)) <= 1e-12 * max(1.0, abs(float(wanted)))


def same_rows(found, wanted):
    assert len(found) == len(wanted)
    for got, expected in zip(found, wanted, strict=True):
        assert all(map(close, got, expected)), (got, expected)


@pytest.mark.slow
@few
@given(books, steps, firsts.filter(bool), st.sampled_from([1, 50, 333.3, 5000]))
def test_depth_within_equals_the_plain_loop(book, step, first, bps):
    rows = rows_of(book, step, first)
    found = depth.depth_within(frame_of(rows), bps=bps)
    wanted = oracle.depth_within(rows, bps)
    columns = ["bid_depth", "ask_depth", "bid_covered", "ask_covered", "is_crossed"]
    same_rows(found.select(columns).rows(), [wanted[time] for time in sorted(wanted)])


@pytest.mark.slow
@few
@given(books)
def test_a_wider_band_holds_the_narrower(book):
    found = depth.imbalance(frame_of(rows_of(book, first=100)), bps=[10, 100, 1000])
    for _, of_a_time in found.drop_nulls("mid").group_by("timestamp", maintain_order=True):
        assert of_a_time["bps"].to_list() == [10, 100, 1000]
        assert of_a_time["bid_depth"].is_sorted()
        assert of_a_time["ask_depth"].is_sorted()
    assert found["imbalance"].drop_nulls().is_between(-1, 1).all()


@pytest.mark.slow
@few
@given(
    books, steps, firsts.filter(bool), st.sampled_from([0.1, 1, 7.5, 60]), st.sampled_from(["coin", "quote"])
)
def test_slippage_equals_the_plain_loop(book, step, first, size, amount):
    rows = rows_of(book, step, first)
    found = depth.slippage(frame_of(rows), size=size, amount=amount)
    wanted = oracle.slippage(rows, size, amount=amount)
    same_rows(
        found.select("filled", "average_price", "worst_price").rows(),
        [wanted[key][:3] for key in sorted(wanted)],
    )
    for got, (*_, expected) in zip(found["slippage"], (wanted[key] for key in sorted(wanted)), strict=True):
        assert (got is None) == (expected is None)
        assert got is None or abs(got - float(expected)) < 1e-7  # of 1e4: the difference of two prices
    assert (found["filled"] + found["unfilled"]).to_list() == [size] * len(found)


@pytest.mark.slow
@few
@given(books)
def test_larger_sizes_cost_no_less(book):
    curve = depth.slippage(frame_of(rows_of(book, first=100)), size=[1, 2, 5, 20])
    for _, of_a_side in curve.group_by("timestamp", "side", maintain_order=True):
        costs = of_a_side["slippage"].drop_nulls()
        assert (costs.diff().drop_nulls() >= -1e-8).all()
        assert of_a_side["average_price"].is_null().is_sorted()


@pytest.mark.slow
@few
@given(books, st.sampled_from([0.5, 2, 5]), st.integers(1, 3), st.sampled_from([None, 1, 2]))
def test_walls_equal_the_plain_loop(book, threshold, snapshots, minutes):
    rows = rows_of(book)
    gap = None if minutes is None else timedelta(minutes=minutes)
    found = depth.walls(frame_of(rows), threshold=threshold, snapshots=snapshots, max_gap=gap)
    columns = ["first_timestamp", "side", "price", "last_timestamp", "snapshots", "size_min", "size_max"]
    columns += ["is_start_known", "is_end_known"]
    times = pl.col("first_timestamp", "last_timestamp").dt.epoch("ns")
    wanted = oracle.walls(rows, threshold, snapshots, None if minutes is None else minutes * MINUTE)
    assert found.with_columns(times).select(columns).rows() == wanted
    assert found["is_standing"].to_list() == [wall[3] == max(time for time, *_ in rows) for wall in wanted]


@pytest.mark.slow
@few
@given(books, steps, st.sampled_from(["2", "3", "7.5"]), st.sampled_from([None, "5m"]))
def test_regridding_keeps_sums(book, step, coarser, interval):
    frame = frame_of(rows_of(book, step))
    block = float(Fraction(coarser) * Fraction(step))
    key = ["timestamp", "side"]

    def total(of):
        return of.group_by(key).agg(pl.col("size").sum()).sort(key).rows()

    assert total(depth.regrid(frame, block_size=block)) == total(frame)
    for rule in ("last", "mean", "sum"):
        times = depth.regrid(frame, interval=interval, time=rule)
        both = depth.regrid(frame, interval=interval, time=rule, block_size=block)
        assert both["time_rule"].unique().to_list() == [rule]
        for (*at, got), (*of, wanted) in zip(total(both), total(times), strict=True):
            assert at == of
            assert abs(got - wanted) <= 1e-12 * wanted


@pytest.mark.slow
@few
@given(books)
def test_the_mean_of_a_book_that_stands_still_is_that_book(book):
    rows = rows_of([(0, *rest) for _, *rest in book])
    still = [(time + minute * MINUTE, *rest) for minute in range(5) for time, *rest in rows]
    once = depth.regrid(frame_of(rows)).drop("time_rule")
    for rule in ("mean", "last"):
        assert depth.regrid(frame_of(still), interval="5m", time=rule).drop("time_rule").equals(once)


@pytest.mark.slow
@few
@given(books, books)
def test_numbers_of_a_book_do_not_know_the_next(book, later):
    rows = rows_of(book, first=100)
    end = max(time for time, *_ in rows)
    after = rows + [(time + 10 * MINUTE, *rest) for time, *rest in rows_of(later, first=100)]
    for function in (
        lambda frame: depth.imbalance(frame, bps=[20, 200]),
        lambda frame: depth.slippage(frame, size=[1, 9]),
        lambda frame: depth.regrid(frame, block_size=5),
    ):
        past = pl.col("timestamp").dt.epoch("ns") <= end
        assert function(frame_of(after)).filter(past).equals(function(frame_of(rows)))


@pytest.mark.slow
@few
@given(books, st.randoms(use_true_random=False))
def test_order_and_other_series_do_not_matter(book, draw):
    rows = rows_of(book, first=100)
    one = frame_of(rows).with_columns(exchange=pl.lit("A"))
    two = one.with_columns(exchange=pl.lit("B"), size=pl.col("size") * 2)
    mixed = pl.concat([one, two])[draw.sample(range(2 * len(one)), 2 * len(one))]
    for function in (
        lambda frame: depth.imbalance(frame, bps=[20, 200]),
        lambda frame: depth.slippage(frame, size=[1, 9]),
        lambda frame: depth.regrid(frame, block_size=5, interval="5m"),
        lambda frame: depth.walls(frame, threshold=1, snapshots=2),
    ):
        wanted = pl.concat([function(one), function(two)])
        assert_frame_equal(function(mixed), wanted, rel_tol=1e-12)
