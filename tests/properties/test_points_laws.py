"""Laws of points to points: resample, group, convert to USD, fill gaps."""

from __future__ import annotations

from collections import defaultdict
from decimal import Decimal

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from thorough import often
from tidytape.aggregate import (
    candles,
    gapfill,
    group,
    liquidations,
    open_interest,
    resample,
    to_usd,
    volume_profile,
)
from tidytape.catalogue import Interval

MINUTE = 60 * 10**9
AGNOSTIC = "TRADE_SIDE_AGNOSTIC_AGG"
ALIASES = [interval.alias for interval in Interval]

trade = st.tuples(
    st.sampled_from(["A", "B"]),
    st.sampled_from(["X", "Y"]),
    st.sampled_from([0, 1, MINUTE, 60 * MINUTE, -1]) | st.integers(-(10**13), 10**13),
    st.sampled_from(["BUY", "SELL"]),
    st.integers(1, 400).map(lambda n: n / 10),
    st.integers(1, 10**9).map(lambda n: n / 10**5),
)


@st.composite
def tapes(draw, **kwargs):
    rows = draw(st.lists(trade, max_size=30, **kwargs))
    columns = ["exchange", "raw_symbol", "timestamp", "side", "price", "amount"]
    types = [pl.String, pl.String, pl.Int64, pl.String, pl.Float64, pl.Float64]
    frame = pl.DataFrame(rows, schema=dict(zip(columns, types, strict=True)), orient="row")
    order = draw(st.permutations(range(len(rows))))
    return frame.with_columns(sequence=pl.Series(order, dtype=pl.Int64))


steps = st.lists(st.sampled_from(range(len(ALIASES))), min_size=3, max_size=3).map(
    lambda places: [ALIASES[place] for place in sorted(places)]
)


def points(tape: pl.DataFrame, interval: str) -> dict[str, pl.DataFrame]:
    events = tape.unique(["exchange", "raw_symbol", "timestamp"], maintain_order=True)
    return {
        AGNOSTIC: candles(tape, interval=interval),
        "TRADE_AGG": candles(tape, interval=interval, by_side=True),
        "VOLUME_PROFILE_AGG": volume_profile(tape, interval=interval, block_size="0.5"),
        "LIQUIDATION_AGG": liquidations(tape, interval=interval),
        "OPEN_INTEREST_AGG": open_interest(events, interval=interval),
    }


@pytest.mark.slow
@settings(max_examples=often(20, thoroughly=40))  # every type each time
@given(tapes(), steps)
def test_resampling_is_aggregating_at_the_coarser_interval(tape, steps):
    fine, _, coarse = steps
    expected = points(tape, coarse)
    for name, frame in points(tape, fine).items():
        got = resample(frame, data_type=name, interval=coarse, source=fine)
        assert (got["coverage"] == 1).all()
        assert_frame_equal(got.drop("coverage"), expected[name], check_exact=True)


@pytest.mark.slow
@settings(max_examples=often(20, thoroughly=40))  # every type each time
@given(tapes(), steps)
def test_resampling_twice_is_resampling_once(tape, steps):
    fine, middle, coarse = steps
    for name, frame in points(tape, fine).items():
        once = resample(frame, data_type=name, interval=coarse)
        twice = resample(resample(frame, data_type=name, interval=middle), data_type=name, interval=coarse)
        assert_frame_equal(twice, once, check_exact=True)


@pytest.mark.slow
@settings(max_examples=often(20, thoroughly=40))  # every type each time
@given(tapes(), st.sampled_from(ALIASES), st.integers(0, 9))
def test_the_order_of_rows_does_not_matter(tape, interval, seed):
    for name, frame in points(tape, "1m").items():
        other = frame.sample(fraction=1, shuffle=True, seed=seed)
        for of in (
            lambda f, name=name: resample(f, data_type=name, interval=interval),
            lambda f, name=name: group(f, data_type=name),
        ):
            assert_frame_equal(of(other), of(frame), check_exact=True)


@pytest.mark.slow
@settings(max_examples=often(20, thoroughly=40))  # every type each time
@given(tapes())
def test_a_group_of_one_is_itself(tape):
    one = tape.filter(exchange="A", raw_symbol="X")
    for name, frame in points(one, "1h").items():
        assert_frame_equal(
            group(frame, data_type=name).drop("coverage"),
            frame.drop("exchange", "raw_symbol"),
            check_exact=True,
        )


@pytest.mark.slow
@given(tapes(), st.sampled_from(["1h", "1d"]))
def test_grouped_candles_equal_the_plain_loop(tape, interval):
    members = candles(tape, interval=interval)
    buckets = defaultdict(list)
    for row in members.to_dicts():
        buckets[row["timestamp"]].append(row)
    expected = []
    for timestamp, rows in sorted(buckets.items()):
        name = lambda row: (row["exchange"], row["raw_symbol"])  # noqa: E731
        first = min(rows, key=lambda row: (row["first_timestamp"], name(row)))
        last = max(rows, key=lambda row: (row["last_timestamp"], name(row)))
        high, low = max(row["high"] for row in rows), min(row["low"] for row in rows)
        volume = float(sum(Decimal(repr(row["volume"])) for row in rows))
        times = first["first_timestamp"], last["last_timestamp"]
        expected.append((timestamp, first["open"], high, low, last["close"], volume, *times))
    names = ["timestamp", "open", "high", "low", "close", "volume", "first_timestamp", "last_timestamp"]
    assert group(members, data_type=AGNOSTIC).select(names).rows() == expected


@pytest.mark.slow
@settings(max_examples=often(20, thoroughly=40))  # every type each time
@given(tapes())
def test_a_group_of_whole_sums_is_the_whole(tape):
    whole = tape.with_columns(exchange=pl.lit("A"), raw_symbol=pl.lit("X"))
    for name in ("VOLUME_PROFILE_AGG", "LIQUIDATION_AGG"):
        got = group(points(tape, "1h")[name], data_type=name)
        expected = points(whole, "1h")[name].drop("exchange", "raw_symbol")
        assert_frame_equal(got.drop("coverage"), expected, check_exact=True)


@pytest.mark.slow
@given(tapes(), st.sampled_from(["1h", "4h", "1d"]))
def test_grouped_stocks_equal_the_plain_loop(tape, interval):
    members = points(tape, interval)["OPEN_INTEREST_AGG"]
    rows = members.to_dicts()
    expected = []
    for timestamp in sorted({row["timestamp"] for row in rows}):
        total = [Decimal(0)] * 4
        for member in {(row["exchange"], row["raw_symbol"]) for row in rows}:
            known = [
                r for r in rows if (r["exchange"], r["raw_symbol"]) == member and r["timestamp"] <= timestamp
            ]
            newest = max(known, key=lambda row: row["timestamp"], default=None)
            if newest is None or timestamp - newest["timestamp"] > 1440 * MINUTE:
                continue
            own = newest["timestamp"] == timestamp
            names = ("open", "high", "low", "close") if own else ("close",) * 4
            total = [one + Decimal(repr(newest[name])) for one, name in zip(total, names, strict=True)]
        expected.append((timestamp, *map(float, total)))
    assert group(members, data_type="OPEN_INTEREST_AGG").drop("coverage").rows() == expected


@pytest.mark.slow
@given(tapes(), st.integers(-300, 300), st.integers(0, 300), st.booleans())
def test_filled_gaps_equal_the_plain_loop(tape, first, length, known):
    start, end = first * MINUTE, (first + length) * MINUTE
    names = ["exchange", "raw_symbol", "timestamp", "open", "high", "low", "close", "volume"]
    frame = candles(tape, interval="1m").select(*names, "first_timestamp", "last_timestamp")
    inside = frame.filter(pl.col("timestamp").is_between(start, end, closed="left"))
    before = frame.filter(pl.col("timestamp") < start)
    last = before.sort("timestamp").unique(["exchange", "raw_symbol"], keep="last")
    last = last.select("exchange", "raw_symbol", "close")
    got = gapfill(inside, interval="1m", start=start, end=end, last=last if known else None)
    closes = {(e, s): c for e, s, c in last.rows()} if known else {}
    real = {(row["exchange"], row["raw_symbol"], row["timestamp"]): row for row in inside.to_dicts()}
    expected = []
    for series in sorted({key[:2] for key in real} | set(closes)):
        for bucket in range(start, end, MINUTE):
            row = real.get((*series, bucket))
            if row is not None:
                closes[series] = row["close"]
                expected.append(tuple(row.values()))
            elif series in closes:
                expected.append((*series, bucket, *[closes[series]] * 4, 0.0, None, None))
    assert got.select(frame.columns).rows() == expected


@pytest.mark.slow
@given(tapes(min_size=1), st.integers(1, 2000))
def test_filling_adds_no_volume_and_resampling_undoes_it(tape, length):
    frame = candles(tape, interval="1m")
    start = frame["timestamp"].min()
    filled = gapfill(frame, interval="1m", start=start, end=start + length * MINUTE)
    assert filled.filter(pl.col("first_timestamp").is_not_null()).equals(frame)
    assert_frame_equal(gapfill(filled, interval="1m", start=start, end=start + length * MINUTE), filled)
    coarse = resample(filled, data_type=AGNOSTIC, interval="1h")
    traded = coarse.filter(pl.col("first_timestamp").is_not_null())
    assert_frame_equal(traded.drop("coverage"), candles(tape, interval="1h"), check_exact=True)


@pytest.mark.slow
@given(
    tapes(), st.lists(st.tuples(st.integers(-(10**13), 10**13), st.integers(1, 9)), unique_by=lambda r: r[0])
)
def test_a_rate_is_the_last_that_was_known(tape, rates):
    schema = {"quote_coin": pl.String, "timestamp": pl.Int64, "usd": pl.Float64}
    frame = pl.DataFrame([("EUR", *rate) for rate in rates], schema=schema, orient="row")
    got = to_usd(tape, quote="EUR", rates=frame).sort("sequence")
    for before, after in zip(tape.sort("sequence").to_dicts(), got.to_dicts(), strict=True):
        known = [rate for rate in sorted(rates) if rate[0] <= before["timestamp"]]
        worth = before["amount"] * (before["price"] * known[-1][1]) if known else None
        assert after == before | {"amount": worth}
