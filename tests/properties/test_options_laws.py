"""Laws of option chains: smiles, maturities, prices and curves."""

from __future__ import annotations

import math
import random
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from thorough import often
from tidytape.analytics import options

NOW = datetime(2026, 3, 5, 8, tzinfo=UTC)

volatilities = st.floats(5, 200)
days = st.integers(1, 400)
strikes = st.sets(st.integers(60, 160), min_size=2, max_size=8)


def chain_of(seed):
    """Up to three expiries, of calls and puts, some without a volatility. From a seed, for that is quicker to draw."""
    draw = random.Random(seed)
    rows = [
        (
            NOW + timedelta(days=length),
            kind,
            float(strike),
            draw.uniform(5, 200) if draw.random() > 1 / 7 else None,
        )
        for length in draw.sample(range(1, 401), draw.randint(1, 3))
        for strike in sorted(draw.sample(range(60, 161), draw.randint(1, 12)))
        for kind in ("CALL", "PUT")
    ]
    return frame(rows)


def frame(rows):
    names = ["expiry", "option_type", "strike", "implied_volatility"]
    table = pl.DataFrame(
        rows, schema=names, orient="row", schema_overrides={"implied_volatility": pl.Float64}
    )
    return table.with_columns(coin=pl.lit("BTC"), timestamp=pl.lit(NOW), forward=pl.lit(100.0))


chains = st.integers(0, 2**32).map(chain_of)


def points(chain, **rules):
    return options.delta_points(chain, deltas=(25, 10), **rules)


# The last bit of a logarithm depends on where in a column it stands.
SAME = {"rel_tol": 1e-11, "abs_tol": 1e-11}


# -- rows, series, time


@pytest.mark.slow
@given(chains, st.integers(0, 99), st.sampled_from(["forward", "premium_adjusted"]))
@settings(max_examples=12)
def test_rows_permuted_give_the_same(chain, seed, rule):
    shuffled = chain.sample(fraction=1, shuffle=True, seed=seed)
    assert_frame_equal(points(shuffled, delta=rule), points(chain, delta=rule), **SAME)
    assert_frame_equal(options.forward(shuffled), options.forward(chain), **SAME)


@pytest.mark.slow
@given(chains, chains)
@settings(max_examples=8)
def test_series_beside_each_other_do_not_mix(one, other):
    other = other.with_columns(coin=pl.lit("ETH"))
    both = pl.concat([one, other])
    for function in (points, options.forward, options.atm_volatility):
        assert_frame_equal(function(both), pl.concat([function(one), function(other)]), **SAME)
    together = options.constant_maturity(points(both), days=[7, 30, 90])
    apart = [options.constant_maturity(points(chain), days=[7, 30, 90]) for chain in (one, other)]
    assert_frame_equal(together, pl.concat(apart), **SAME)


@pytest.mark.slow
@given(chains, chains, st.integers(1, 10**6))
@settings(max_examples=8)
def test_the_future_leaves_the_past_as_it_was(past, future, seconds):
    shift = pl.duration(seconds=seconds)
    future = future.with_columns(pl.col("timestamp") + shift, pl.col("expiry") + shift)
    both = points(pl.concat([past, future]))
    was = pl.col("timestamp") == NOW
    assert_frame_equal(both.filter(was), points(past), **SAME)
    maturities = options.constant_maturity(both, days=[7, 30, 90])
    alone = options.constant_maturity(points(past), days=[7, 30, 90])
    assert_frame_equal(maturities.filter(was), alone, **SAME)
    for structure in (options.term_structure(both), options.term_structure(both, at=NOW)):
        assert_frame_equal(structure.filter(was), options.term_structure(points(past)), **SAME)
    forwards = options.forward_volatility(options.term_structure(both))
    alone = options.forward_volatility(options.term_structure(points(past)))
    assert_frame_equal(forwards.filter(was), alone, **SAME)


@pytest.mark.slow
@given(chains, st.integers(-12, 12))
@settings(max_examples=8)
def test_another_unit_of_price_changes_no_volatility(chain, power):
    # A power of two, which moves no digit: a strike at the forward stays there, between its put and its call.
    scaled = chain.with_columns(pl.col("strike") * 2.0**power, pl.col("forward") * 2.0**power)
    keep = ["expiry", "days", "iv_atm"]
    got, want = options.atm_volatility(scaled), options.atm_volatility(chain)
    assert_frame_equal(got.select(keep), want.select(keep), rel_tol=1e-12)


# -- points


@pytest.mark.slow
@given(chains, st.sampled_from(["forward", "premium_adjusted"]))
@settings(max_examples=12)
def test_points_lie_between_the_quotes_of_their_expiry(chain, rule):
    quoted = chain.group_by("expiry").agg(
        low=pl.col("implied_volatility").min(), high=pl.col("implied_volatility").max()
    )
    found = points(chain, delta=rule).join(quoted, on="expiry")
    for name in ("iv_atm", "iv_25p", "iv_25c", "iv_10p", "iv_10c"):
        known = found.filter(pl.col(name).is_not_null())
        assert (known[name] >= known["low"] * (1 - 1e-12)).all()
        assert (known[name] <= known["high"] * (1 + 1e-12)).all()


@pytest.mark.slow
@given(strikes, volatilities, days)
@settings(max_examples=12)
def test_a_flat_smile_is_flat_everywhere(strikes, volatility, length):
    rows = [
        (NOW + timedelta(days=length), kind, float(strike), volatility)
        for strike in strikes
        for kind in ("CALL", "PUT")
    ]
    found = options.butterfly(options.risk_reversal(points(frame(rows))))
    for name in ("iv_atm", "iv_25p", "iv_25c"):
        assert found[name].drop_nulls().to_list() == pytest.approx([volatility] * found[name].count())
    assert found["rr25_call_minus_put"].drop_nulls().to_list() in ([], [pytest.approx(0, abs=1e-9)])
    assert found["bf25"].drop_nulls().to_list() in ([], [pytest.approx(0, abs=1e-9)])


# -- maturities

structures = st.dictionaries(st.integers(1, 400), volatilities, min_size=2, max_size=8)


def structure(by_days, name="implied_volatility"):
    lengths, values = zip(*by_days.items(), strict=True)
    return pl.DataFrame({"timestamp": NOW, "days": [float(length) for length in lengths], name: values})


@pytest.mark.slow
@given(structures, st.floats(0, 1))
@settings(max_examples=often(10, thoroughly=20))
def test_total_variance_at_a_maturity_lies_between_those_around_it(by_days, share):
    lengths = sorted(by_days)
    wanted = lengths[0] + share * (lengths[-1] - lengths[0])
    [found] = options.constant_maturity(structure(by_days, "iv_atm"), days=wanted)["iv_atm"]
    variances = {length: by_days[length] ** 2 * length for length in lengths}
    near = variances[max(length for length in lengths if length <= wanted)]
    far = variances[min(length for length in lengths if length >= wanted)]
    assert min(near, far) * (1 - 1e-12) <= found**2 * wanted <= max(near, far) * (1 + 1e-12)


@pytest.mark.slow
@given(structures)
@settings(max_examples=often(10, thoroughly=20))
def test_at_an_expiry_there_is_the_expiry_itself(by_days):
    found = options.constant_maturity(structure(by_days, "iv_atm"), days=by_days)
    assert found["iv_atm"].to_list() == pytest.approx(
        [by_days[length] for length in sorted(by_days)], rel=1e-14
    )
    outside = options.constant_maturity(
        structure(by_days, "iv_atm"), days=[min(by_days) / 2, 2 * max(by_days)]
    )
    assert outside["iv_atm"].to_list() == [None, None]


@given(structures)
@settings(max_examples=often(10, thoroughly=20))
def test_forward_variances_add_up(by_days):
    """From the first to the last: total variance, unless it falls, which is flagged."""
    found = options.forward_volatility(structure(by_days))
    assert len(found) == len(by_days) - 1
    flagged = found["calendar_arbitrage"]
    assert (found["forward_volatility"].is_null() == flagged).all()
    lengths = sorted(by_days)
    gains = [by_days[far] ** 2 * far - by_days[near] ** 2 * near for near, far in pairwise(lengths)]
    for gain, row in zip(gains, found.rows(named=True), strict=True):
        if not row["calendar_arbitrage"]:
            width = row["next_days"] - row["days"]
            assert row["forward_volatility"] ** 2 * width == pytest.approx(max(gain, 0), rel=1e-9, abs=1e-4)
        else:
            assert gain < 0


@pytest.mark.slow
@given(structures)
@settings(max_examples=often(10, thoroughly=20))
def test_slope_turned_round_has_the_other_sign(by_days):
    short, long = min(by_days), max(by_days)
    rising = options.slope(structure(by_days), short=short, long=long).row(0, named=True)
    turned = by_days | {short: by_days[long], long: by_days[short]}
    falling = options.slope(structure(turned), short=short, long=long).row(0, named=True)
    assert rising["slope"] == -falling["slope"]
    assert {rising["structure"], falling["structure"]} in ({"contango", "backwardation"}, {"flat"})


# -- prices


@st.composite
def priced(draw):
    rows = draw(st.lists(st.tuples(st.floats(-1.5, 1.5), volatilities, days), min_size=1, max_size=8))
    moneyness, volatility, length = (np.array(column, float) for column in zip(*rows, strict=True))
    times = [NOW + timedelta(days=float(day)) for day in length]
    one = pl.DataFrame(
        {
            "timestamp": NOW, "expiry": times, "strike": 70_000.0 * np.exp(moneyness), "forward": 70_000.0,
            "implied_volatility": volatility,
        }
    )  # fmt: skip
    return pl.concat([one.with_columns(option_type=pl.lit(kind)) for kind in ("CALL", "PUT")])


@pytest.mark.slow
@given(priced())
@settings(max_examples=often(10, thoroughly=20))
def test_call_less_put_is_the_forward_less_the_strike(chain):
    call, put = options.black76_price(chain).partition_by("option_type")
    gap = (call["black76_price"] - put["black76_price"]) - (1 - call["strike"] / call["forward"])
    assert gap.abs().max() < 1e-14 * 5


@pytest.mark.slow
@given(priced(), st.floats(1.01, 2))
@settings(max_examples=often(10, thoroughly=20))
def test_price_rises_with_volatility_and_stays_within_bounds(chain, factor):
    price = options.black76_price(chain)["black76_price"]
    dearer = options.black76_price(chain.with_columns(pl.col("implied_volatility") * factor))["black76_price"]
    assert (dearer >= price - 1e-14).all()
    most = chain.select(
        pl.when(pl.col("option_type") == "CALL").then(1.0).otherwise(pl.col("strike") / pl.col("forward"))
    ).to_series()
    assert (price <= most + 1e-14).all()
    assert (price >= 0).all()


@pytest.mark.slow
@given(priced())
@settings(max_examples=often(10, thoroughly=20))
def test_a_volatility_comes_back_from_its_price(chain):
    priced = options.black76_price(chain).with_columns(given=pl.col("implied_volatility"))
    # Of call and put of a strike the cheaper is all time value.
    time_value = pl.col("black76_price").min().over("strike", "expiry")
    found = options.implied_volatility(priced, price="black76_price").with_columns(time_value=time_value)
    # A price is known to 1e-15 of a coin or so, whatever is left of that of the time value.
    certain = found.filter(pl.col("status") == "ok", pl.col("time_value") > 1e-6)
    errors = (certain["implied_volatility"] / certain["given"] - 1).abs().to_list()
    assert max(errors, default=0) < 1e-8
    assert set(found["status"]) <= {"ok", "imprecise", "no_time_value", "below_intrinsic", "above_maximum"}


# -- curves


@st.composite
def curves(draw):
    """Curves whose total variance is positive and whose wings are within Lee's bound."""
    b, rho = draw(st.floats(0.01, 1)), draw(st.floats(-0.95, 0.95))
    m, sigma = draw(st.floats(-0.3, 0.3)), draw(st.floats(0.05, 1))
    least = draw(st.floats(0.001, 0.5))
    return {"a": least - b * sigma * np.sqrt(1 - rho**2), "b": b, "rho": rho, "m": m, "sigma": sigma}


@pytest.mark.slow
@given(curves(), st.floats(0.01, 0.2))
@settings(max_examples=often(7, thoroughly=15))
def test_a_curve_lifted_has_no_calendar_arbitrage_and_lowered_has(curve, step):
    for gain, arbitrage in ((step, False), (-step, True)):
        pair = pl.DataFrame([curve, curve | {"a": curve["a"] + gain}]).with_columns(
            timestamp=pl.lit(NOW), days=pl.Series([30.0, 60.0])
        )
        found = options.svi_arbitrage(pair)
        assert found["calendar_arbitrage"].to_list() == [arbitrage, None]
        assert found["least_gain"][0] == pytest.approx(gain, abs=1e-9)


@pytest.mark.slow
@given(curves())
@settings(max_examples=often(7, thoroughly=15))
def test_a_curve_mirrored_is_alike(curve):
    mirrored = curve | {"rho": -curve["rho"], "m": -curve["m"]}
    both = pl.DataFrame([curve, mirrored]).with_columns(
        timestamp=pl.lit(NOW), days=pl.lit(30.0), coin=pl.Series(["BTC", "ETH"])
    )
    one, other = options.svi_arbitrage(both).rows(named=True)
    assert one["least_density"] == pytest.approx(other["least_density"], abs=1e-6)
    assert one["butterfly_arbitrage"] == other["butterfly_arbitrage"] or abs(one["least_density"]) < 1e-6
    assert one["left_wing"] == pytest.approx(other["right_wing"])


@pytest.mark.slow
@given(curves(), st.integers(7, 300))
@settings(max_examples=often(7, thoroughly=15))
def test_a_fit_to_a_curve_is_the_curve(curve, length):
    fit = pl.DataFrame([curve]).with_columns(
        timestamp=pl.lit(NOW), expiry=pl.lit(NOW + timedelta(days=length)), days=pl.lit(float(length)),
        forward=pl.lit(100.0), lowest=pl.lit(-0.5), highest=pl.lit(0.5),
    )  # fmt: skip
    said = options.smile(fit, steps=20)
    kind = pl.when(pl.col("moneyness") < 0).then(pl.lit("PUT")).otherwise(pl.lit("CALL"))
    chain = said.with_columns(option_type=kind, forward=pl.lit(100.0))
    again = options.svi(chain, weights="equal")
    assert again["rmse"].item() < 1e-3


@pytest.mark.slow
@settings(max_examples=often(20, thoroughly=500))
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["A", "B", None]),
            st.none() | st.sampled_from([float("nan"), -0.0, 0.0, 1e300]) | st.integers(-3, 3).map(float),
        ),
        max_size=40,
    ),
    st.integers(1, 45),
    st.randoms(use_true_random=False),
)
def test_percentiles_equal_the_plain_loop(drawn, window, draw):
    schema = {"exchange": pl.String, "x": pl.Float64}
    history = pl.DataFrame(drawn, schema=schema, orient="row").with_row_index("timestamp")
    history = history.cast({"timestamp": pl.Int64})[draw.sample(range(len(drawn)), len(drawn))]
    found = options.percentile(history, value="x", window=window, least=1).sort("timestamp")
    plan = options.percentile(history.lazy(), value="x", window=window, least=1).collect().sort("timestamp")
    assert_frame_equal(plan, found)
    for row, ((series, x), got) in enumerate(zip(drawn, found["percentile"], strict=True)):
        own = [value for name, value in drawn[:row] if name == series][-window:]
        past = [value for value in own if value is not None and math.isfinite(value)]
        if x is None or math.isnan(x) or not past:
            assert got is None
        else:
            wins = sum(1.0 if value < x else 0.5 if value == x else 0.0 for value in past)
            assert got == pytest.approx(100 * wins / len(past), rel=1e-12)
