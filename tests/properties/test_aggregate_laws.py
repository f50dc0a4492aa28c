"""Laws of candles and volume profiles."""

from __future__ import annotations

import runpy
from decimal import ROUND_FLOOR, Decimal
from pathlib import Path

import duckdb
import narwhals.stable.v2 as nw
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from thorough import often
from tidytape.aggregate import Grid, candles, volume_profile
from tidytape.catalogue import Interval

oracle = runpy.run_path(str(Path(__file__).parents[1] / "aggregate" / "oracle.py"))

SCHEMA = {
    "exchange": pl.String,
    "raw_symbol": pl.String,
    "timestamp": pl.Int64,
    "sequence": pl.Int64,
    "side": pl.String,
    "price": pl.Float64,
    "amount": pl.Float64,
}

# Few times and few prices, so that ties are the rule. A sequence is unique, like a trade id.
times = st.sampled_from([0, 1, 59_999_999_999, 60_000_000_000, 3_600_000_000_000, -1, -604_800_000_000_000])
trade = st.tuples(
    st.sampled_from(["A", "B"]),
    st.sampled_from(["X", "Y"]),
    times | st.integers(-(10**15), 10**15),
    st.sampled_from(["BUY", "SELL"]),
    st.integers(-30, 300).map(lambda n: n / 10) | st.integers(1, 10**7).map(lambda n: n / 1000),
    st.integers(1, 10**9).map(lambda n: n / 10**5),
)
tapes = st.lists(trade, max_size=40).flatmap(
    lambda rows: st.permutations(range(len(rows))).map(
        lambda order: pl.DataFrame(
            [
                (exchange, symbol, time, sequence, *rest)
                for (exchange, symbol, time, *rest), sequence in zip(rows, order, strict=True)
            ],
            schema=SCHEMA,
            orient="row",
        )
    )
)
intervals = st.sampled_from([interval.alias for interval in Interval])
sizes = st.sampled_from(["0.1", "0.2", "0.3", "0.05", "0.25", "1", "5"])


def same(left: pl.DataFrame, right: pl.DataFrame) -> None:
    assert_frame_equal(left, right, check_exact=False, rel_tol=1e-9, abs_tol=1e-12)


@pytest.mark.slow
@given(tapes, intervals, st.booleans())
def test_candles_equal_the_plain_loop(tape, interval, by_side):
    expected = oracle["candles"](tape.to_dicts(), interval, by_side=by_side)
    got = candles(tape, interval=interval, by_side=by_side)
    same(got, pl.DataFrame(expected, schema=got.schema))


@pytest.mark.slow
@given(tapes, intervals, sizes)
def test_profile_equals_the_plain_loop(tape, interval, size):
    expected = oracle["volume_profile"](tape.to_dicts(), interval, size)
    got = volume_profile(tape, interval=interval, block_size=size)
    same(got, pl.DataFrame(expected, schema=got.schema))


@pytest.mark.slow
@given(tapes, intervals, sizes, st.randoms(use_true_random=False))
def test_the_order_of_rows_does_not_matter(tape, interval, size, random):
    order = list(range(tape.height))
    random.shuffle(order)
    other = tape[order]
    same(candles(tape, interval=interval), candles(other, interval=interval))
    same(
        volume_profile(tape, interval=interval, block_size=size),
        volume_profile(other, interval=interval, block_size=size),
    )


@pytest.mark.slow
@given(tapes, intervals, sizes, st.sampled_from(times.elements))
def test_split_and_joined(tape, interval, size, at):
    cut = oracle["start"](at, interval)
    parts = [tape.filter(pl.col("timestamp") < cut), tape.filter(pl.col("timestamp") >= cut)]
    key = ["exchange", "raw_symbol", "timestamp"]
    joined = pl.concat(candles(part, interval=interval) for part in parts).sort(key)
    same(joined, candles(tape, interval=interval))
    joined = pl.concat(volume_profile(part, interval=interval, block_size=size) for part in parts)
    same(joined.sort(*key, "price"), volume_profile(tape, interval=interval, block_size=size))


@pytest.mark.slow
@given(tapes, intervals, sizes)
def test_volume_is_conserved(tape, interval, size):
    key = ["exchange", "raw_symbol", "timestamp"]
    bucket = pl.col("timestamp").map_elements(lambda t: oracle["start"](t, interval), return_dtype=pl.Int64)
    of_trades = tape.with_columns(bucket).group_by(key).agg(volume=pl.col("amount").sum()).sort(key)
    same(candles(tape, interval=interval).select(*key, "volume"), of_trades)
    by_side = candles(tape, interval=interval, by_side=True)
    same(by_side.group_by(key).agg(pl.col("volume").sum()).sort(key), of_trades)
    profile = volume_profile(tape, interval=interval, block_size=size)
    same(profile.group_by(key).agg(pl.col("volume").sum()).sort(key), of_trades)
    for side in ("BUY", "SELL"):
        column = f"{side.lower()}_volume"
        of_side = by_side.filter(side=side).select(*key, "volume")
        of_profile = (
            profile.group_by(key).agg(volume=pl.col(column).sum()).filter(pl.col("volume") > 0).sort(key)
        )
        same(of_profile, of_side)


@pytest.mark.long
@settings(max_examples=often(20, thoroughly=40))  # five engines each time
@given(tapes, intervals, sizes)
def test_engines_agree(tape, interval, size):
    def both(native):
        return (
            candles(native, interval=interval, by_side=True),
            volume_profile(native, interval=interval, block_size=size),
        )

    expected = both(tape)
    lazy = [frame.collect(engine="streaming") for frame in both(tape.lazy())]
    with duckdb.connect() as connection:
        in_duckdb = [frame.pl() for frame in both(connection.from_arrow(tape.to_arrow()))]
    in_pandas = [pl.from_pandas(frame, schema_overrides=SCHEMA) for frame in both(tape.to_pandas())]
    in_pyarrow = [pl.DataFrame(frame) for frame in both(tape.to_arrow())]
    for found in (lazy, in_duckdb, in_pandas, in_pyarrow):
        for got, wanted in zip(found, expected, strict=True):
            same(got, wanted)


decimals = st.tuples(st.integers(-(10**14), 10**14), st.integers(0, 10)).map(
    lambda pair: Decimal(pair[0]).scaleb(-pair[1])
)
block_sizes = st.tuples(st.integers(1, 9999), st.integers(-2, 8)).map(
    lambda pair: Decimal(pair[0]).scaleb(-pair[1])
)


@given(
    st.lists(decimals, min_size=1, max_size=50), block_sizes, st.integers(-(10**9), 10**9), st.integers(-2, 2)
)
def test_rows_equal_exact_decimals(prices, size, row, ulps):
    grid = Grid.of(size)
    # A price of the grid, and its neighbours one unit of the last of 15 digits away.
    edge = row * size
    unit = Decimal(1).scaleb(max(edge.adjusted(), size.adjusted()) - 14)
    prices = [*prices, edge, edge + ulps * unit]
    prices = [price for price in prices if len(price.normalize().as_tuple().digits) <= 15]
    expected = [int((price / size).to_integral_value(ROUND_FLOOR)) for price in prices]
    kept = [
        (price, wanted)
        for price, wanted in zip(prices, expected, strict=True)
        if abs(wanted) < 2**50 and len((wanted * size).normalize().as_tuple().digits) <= 15
    ]
    frame = nw.from_native(
        pl.DataFrame({"price": [float(price) for price, _ in kept]}, schema={"price": pl.Float64})
    )
    got = frame.select(row=grid.row(nw.col("price"))).to_native()["row"].to_list()
    assert got == [wanted for _, wanted in kept]
