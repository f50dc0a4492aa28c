"""Laws of depth."""

from __future__ import annotations

from datetime import UTC, datetime
from fractions import Fraction

import numpy as np
import polars as pl
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from oracles import depth as oracle
from tidytape.analytics import depth

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


@given(books, st.randoms(use_true_random=False))
def test_order_of_rows_does_not_matter(book, draw):
    rows = rows_of(book)
    shuffled = draw.sample(rows, len(rows))
    same(depth.matrix(frame_of(shuffled)), depth.matrix(frame_of(rows)))


@given(books, st.integers(-3, 3))
def test_sizes_scale(book, power):
    rows = rows_of(book)
    found, scaled = (
        depth.matrix(frame_of(given)) for given in (rows, [(*key, size * 2.0**power) for *key, size in rows])
    )
    assert_array_equal(scaled.bids, found.bids * np.float32(2.0**power))
    assert_array_equal(scaled.asks, found.asks * np.float32(2.0**power))


@given(books, st.sampled_from([2, 3, 5]))
def test_larger_blocks_keep_the_sum_of_every_time(book, block):
    fine, coarse = (depth.matrix(frame_of(rows_of(book)), block_size=size) for size in (1, block))
    for side in ("bids", "asks"):
        assert_array_equal(np.nansum(getattr(fine, side), axis=1), np.nansum(getattr(coarse, side), axis=1))


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
