"""Laws of order flow."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from oracles import flow as oracle
from thorough import often
from tidytape.analytics import flow

MINUTE = 60 * 10**9
DAY = 1_440 * MINUTE

quick = settings(max_examples=often(15, thoroughly=30))  # each is several frames

times = st.integers(-3_000, 3_000).map(lambda minutes: minutes * MINUTE) | st.integers(-(10**14), 10**14)
amounts = st.integers(0, 40).map(lambda n: n / 8) | st.integers(0, 10**9).map(lambda n: n / 10**5)
trades = st.lists(st.tuples(times, st.sampled_from(["BUY", "SELL"]), amounts), min_size=1, max_size=25)
orders = st.randoms(use_true_random=False)
anchors = st.sampled_from([{"anchor": "none"}, {"anchor": "session", "period": "1d"}])
prices = st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=20)
bands = st.fixed_dictionaries(
    {"price_band": st.sampled_from([0.0, 0.1, 0.5]), "oi_band": st.sampled_from([0.0, 0.2])}
)


def frame(rows, **named) -> pl.DataFrame:
    columns = {"timestamp": pl.Int64, "side": pl.String, "amount": pl.Float64}
    made = pl.DataFrame(rows, schema=columns, orient="row")
    return made.with_columns(**{name: pl.lit(value) for name, value in named.items()})


def permuted(rows: pl.DataFrame, draw) -> pl.DataFrame:
    return rows[draw.sample(range(len(rows)), len(rows))]


def everything(rows: pl.DataFrame) -> list[pl.DataFrame]:
    by = {"by": "exchange"}
    return [
        flow.delta(rows, **by, interval="5m"),
        flow.imbalance(rows, **by),
        flow.cvd(rows, **by, anchor="session"),
        flow.liquidation_imbalance(rows, **by, interval="1d"),
        flow.liquidation_cascades(rows, **by, threshold=1, gap="1h"),
        flow.large_trade_share(rows, **by, at_least=1, interval="1d"),
        flow.large_trade_share(rows, **by, above_quantile=0.75),
    ]


@pytest.mark.slow
@quick
@given(trades)
def test_delta_and_cvd_equal_the_plain_loops(rows):
    found = flow.cvd(frame(rows), interval="5m", anchor="session")
    # The loop counts days from the epoch, which is where they open.
    expected = oracle.deltas(rows, 5 * MINUTE)
    assert found["timestamp"].to_list() == list(expected)
    assert found["delta"].to_list() == pytest.approx([float(delta) for delta in expected.values()], abs=1e-9)
    sums = [float(total) for total in oracle.cumulated(expected, DAY)]
    assert found["cvd"].to_list() == pytest.approx(sums, abs=1e-8)


@pytest.mark.slow
@quick
@given(trades, st.sampled_from([1.0, 5.0, 100.0]), st.sampled_from([1, 60, 6_000]))
def test_cascades_equal_the_plain_loop(rows, threshold, minutes):
    found = flow.liquidation_cascades(frame(rows), by=[], threshold=threshold, gap=f"{minutes}m")
    expected = oracle.cascades(
        [(time, amount) for time, _, amount in rows if amount > 0], threshold, minutes * MINUTE
    )
    columns = ["start", "end", "liquidations", "count", "largest", "largest_at"]
    assert found.select(columns).rows() == expected


@pytest.mark.slow
@quick
@given(trades, st.none() | st.sampled_from([1.0, 3.0]), st.integers(1, 19))
def test_large_shares_equal_the_plain_loop(rows, at_least, twentieths):
    quantile = None if at_least else Fraction(twentieths, 20)
    found = flow.large_trade_share(
        frame(rows), at_least=at_least, above_quantile=None if at_least else twentieths / 20
    )
    expected = oracle.large_share([a for *_, a in rows], at_least=at_least, above_quantile=quantile)
    assert found["large_trade_share"].item() == (
        None if expected is None else pytest.approx(expected, abs=1e-12)
    )


@pytest.mark.slow
@quick
@given(prices, bands)
def test_quadrants_equal_the_plain_words(rows, bands):
    interest, candles = of_prices(rows)
    found = flow.oi_price_quadrant(interest, candles, **bands)["quadrant"].to_list()
    changes = [
        (price / price_before - 1, interest / interest_before - 1)
        for (price_before, interest_before), (price, interest) in pairwise(rows)
    ]
    assert found == [None, *(oracle.quadrant(*both, **bands) for both in changes)]


def of_prices(rows) -> tuple[pl.DataFrame, pl.DataFrame]:
    times = [number * MINUTE for number in range(len(rows))]
    columns = zip(*rows, strict=True)
    candles, interest = (
        pl.DataFrame({"timestamp": times, "close": [float(v) for v in column]}) for column in columns
    )
    return interest, candles


@pytest.mark.slow
@settings(max_examples=12)  # every function each time
@given(trades, trades, orders)
def test_order_of_rows_does_not_matter(left, right, draw):
    rows = pl.concat([frame(left, exchange="A"), frame(right, exchange="B")])
    for found, expected in zip(everything(permuted(rows, draw)), everything(rows), strict=True):
        assert_frame_equal(found, expected, check_exact=True)


@pytest.mark.slow
@settings(max_examples=12)  # every function each time
@given(trades, trades)
def test_series_do_not_touch_each_other(left, right):
    one, other = frame(left, exchange="A"), frame(right, exchange="B")
    apart = zip(everything(one), everything(other), strict=True)
    for found, parts in zip(everything(pl.concat([one, other])), apart, strict=True):
        assert_frame_equal(found, pl.concat(parts), check_exact=True)


@pytest.mark.slow
@quick
@given(prices, bands, orders)
def test_order_of_rows_does_not_matter_to_quadrants(rows, bands, draw):
    interest, candles = of_prices(rows)
    found = flow.oi_price_quadrant(permuted(interest, draw), permuted(candles, draw), **bands)
    assert_frame_equal(found, flow.oi_price_quadrant(interest, candles, **bands), check_exact=True)


@pytest.mark.slow
@quick
@given(trades, anchors)
def test_the_differences_of_cvd_are_delta(rows, anchor):
    found = flow.cvd(frame(rows), **anchor)
    for session in found.partition_by("anchored_at"):
        differences = session["cvd"].diff().fill_null(session["cvd"][0])
        assert differences.to_list() == pytest.approx(session["delta"].to_list(), abs=1e-8)


@pytest.mark.slow
@quick
@given(trades)
def test_cvd_of_a_session_is_that_of_the_session_alone(rows):
    found = flow.cvd(frame(rows), anchor="session")
    alone = [
        flow.cvd(frame(rows).filter(pl.col("timestamp").is_between(day, day + DAY, closed="left")))
        for day in found["anchored_at"].unique(maintain_order=True)
    ]
    shown = ["timestamp", "delta", "cvd"]
    assert_frame_equal(found.select(shown), pl.concat(alone).select(shown), check_exact=True)


@pytest.mark.slow
@quick
@given(trades, times, st.sampled_from([1.0, 1e12]))
def test_cvd_goes_on_from_where_it_was_cut(rows, cut, unit):
    scaled = frame([(time, side, amount * unit) for time, side, amount in rows])
    before, after = (
        flow.cvd(scaled.filter(part)) for part in (pl.col("timestamp") < cut, pl.col("timestamp") >= cut)
    )
    reached = before["cvd"][-1] if len(before) else 0.0
    expected = [*before["cvd"], *(after["cvd"] + reached)]
    gross = scaled["amount"].sum()
    assert flow.cvd(scaled)["cvd"].to_list() == pytest.approx(expected, rel=1e-15, abs=1e-15 * gross)


@pytest.mark.slow
@quick
@given(trades)
def test_imbalances_lie_between_minus_one_and_one(rows):
    for found in (
        flow.imbalance(frame(rows))["imbalance"],
        flow.imbalance(frame(rows), interval="1d")["imbalance"],
    ):
        assert found.drop_nulls().is_between(-1, 1).all()


@pytest.mark.slow
@quick
@given(trades)
def test_turning_the_sides_turns_the_signs(rows):
    turned = frame([(time, {"BUY": "SELL", "SELL": "BUY"}[side], amount) for time, side, amount in rows])
    for function, column in (
        (flow.delta, "delta"),
        (flow.cvd, "cvd"),
        (flow.imbalance, "imbalance"),
        (flow.liquidation_imbalance, "liquidation_imbalance"),
    ):
        expected = [value if value is None else -value for value in function(frame(rows))[column]]
        assert function(turned)[column].to_list() == expected


@pytest.mark.slow
@quick
@given(trades, st.integers(-20, 20))
def test_amounts_scale_by_powers_of_two(rows, power):
    scaled = frame(rows).with_columns(pl.col("amount") * 2.0**power)
    assert flow.imbalance(scaled)["imbalance"].to_list() == pytest.approx(
        flow.imbalance(frame(rows))["imbalance"].to_list(), nan_ok=True
    )
    assert flow.cvd(scaled)["cvd"].to_list() == pytest.approx(
        [value * 2.0**power for value in flow.cvd(frame(rows))["cvd"]], rel=1e-9, abs=1e-9 * 2.0**power
    )


@pytest.mark.slow
@quick
@given(trades, trades, anchors)
def test_the_future_leaves_past_sums_as_they_were(rows, others, anchor):
    now = max(time for time, *_ in rows)
    later = [(now + 1 + abs(time), side, amount) for time, side, amount in others]
    found = flow.cvd(frame([*rows, *later]), **anchor).filter(pl.col("timestamp") <= now)
    assert_frame_equal(found, flow.cvd(frame(rows), **anchor), check_exact=True)


@pytest.mark.slow
@quick
@given(prices, prices, bands)
def test_the_future_leaves_past_quadrants_as_they_were(rows, others, bands):
    past = flow.oi_price_quadrant(*of_prices(rows), **bands)
    found = flow.oi_price_quadrant(*of_prices([*rows, *others]), **bands)
    assert_frame_equal(found.head(len(rows)), past, check_exact=True)


@pytest.mark.slow
@quick
@given(trades, trades, st.sampled_from([{"at_least": 2.0}, {"above_quantile": 0.75}]))
def test_the_future_leaves_past_shares_as_they_were(rows, others, rule):
    end = (max(time for time, *_ in rows) // DAY + 1) * DAY
    later = [(end + abs(time), side, amount) for time, side, amount in others]
    found = flow.large_trade_share(frame([*rows, *later]), interval="1d", **rule)
    past = flow.large_trade_share(frame(rows), interval="1d", **rule)
    assert_frame_equal(found.filter(pl.col("timestamp") < end), past, check_exact=True)


@pytest.mark.slow
@quick
@given(trades, st.integers(1, 4))
def test_cascades_hold_what_is_in_them_and_no_more(rows, threshold):
    found = flow.liquidation_cascades(frame(rows), by="side", threshold=threshold, gap="1h")
    total = frame(rows)["amount"].sum()
    assert found["liquidations"].sum() <= total * (1 + 1e-12)
    assert (found["start"] <= found["largest_at"]).all()
    assert (found["largest_at"] <= found["end"]).all()
    assert (found["largest"] <= found["liquidations"]).all()
