"""Fitted curves: parameters that come back, parameters that are known to violate, and the volatilities they say."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

import numpy as np
import pandas as pd
import polars as pl
import pytest

from tables import each_row
from tidytape.analytics import options
from tidytape.errors import MissingColumnError, QueryError

NOW = datetime(2026, 3, 5, 8, tzinfo=UTC)
NAMES = ["a", "b", "rho", "m", "sigma"]

# A. Vogt's, in Gatheral and Jacquier 2014, section 3.1; and their section 5.1 without its butterfly arbitrage.
VOGT = (-0.0410, 0.1331, 0.3060, 0.3586, 0.4153)
VOGT_JUMP_WINGS = (0.01742625, -0.1752111, 0.6997381, 1.316798, 0.0116249)
REPAIRED_JUMP_WINGS = (0.01742625, -0.1752111, 0.6997381, 0.3493158, 0.01548182)


def raw(v, psi, p, c, least):
    """Raw parameters of jump-wings ones at one year, Gatheral and Jacquier's lemma 3.2."""
    b = math.sqrt(v) / 2 * (c + p)
    rho = 1 - p * math.sqrt(v) / b
    beta = rho - 2 * psi * math.sqrt(v) / b
    alpha = math.copysign(math.sqrt(1 / beta**2 - 1), beta)
    lean = -rho + math.copysign(math.sqrt(1 + alpha**2), alpha) - alpha * math.sqrt(1 - rho**2)
    m = (v - least) / (b * lean)
    sigma = alpha * m
    return least - b * sigma * math.sqrt(1 - rho**2), b, rho, m, sigma


def curve(k, a, b, rho, m, sigma):
    return a + b * (rho * (k - m) + math.hypot(k - m, sigma))


def fits(*curves, days=None, **columns):
    """Curves of one chain, a quarter apart."""
    rows = pl.DataFrame([dict(zip(NAMES, map(float, parameters), strict=True)) for parameters in curves])
    return rows.with_columns(
        timestamp=pl.lit(NOW),
        days=pl.Series(days or [365.0 * (place + 1) for place in range(len(curves))], dtype=pl.Float64),
        forward=pl.lit(100.0),
        lowest=pl.lit(-0.5),
        highest=pl.lit(0.5),
    ).with_columns(
        expiry=pl.lit(NOW) + pl.duration(days=pl.col("days")),
        **{name: pl.Series(values, dtype=pl.Float64) for name, values in columns.items()},
    )


def chain(parameters, *, days=91.25, moneyness=None):
    """Quotes on a curve, calls and puts."""
    places = np.linspace(-0.6, 0.5, 23) if moneyness is None else moneyness
    rows = [
        (kind, 100 * math.exp(k), 100 * math.sqrt(curve(k, *parameters) / (days / 365)))
        for k in places
        for kind in ("CALL", "PUT")
    ]
    kinds, strikes, volatility = zip(*rows, strict=True)
    return pl.DataFrame(
        {
            "timestamp": NOW, "expiry": NOW + timedelta(days=days), "option_type": kinds, "strike": strikes,
            "forward": 100.0, "implied_volatility": volatility,
        }
    )  # fmt: skip


# -- fits


@pytest.mark.parametrize("weights", ["equal", "vega"])
@pytest.mark.parametrize(
    "parameters",
    [
        (0.04, 0.1, -0.5, 0.0, 0.2),
        (0.01, 0.3, 0.2, 0.1, 0.1),
        (-0.02, 0.4, -0.3, -0.05, 0.15),
        (0.002, 0.05, -0.9, 0.05, 0.05),
        (0.1, 0.8, 0.0, 0.0, 0.3),
    ],
)
def test_a_curve_comes_back_from_its_quotes(parameters, weights):
    [row] = options.svi(chain(parameters), weights=weights).rows(named=True)
    assert [row[name] for name in NAMES] == pytest.approx(parameters, abs=1e-6)
    assert row["rmse"] < 1e-6
    assert (row["status"], row["quotes"], row["days"], row["forward"]) == ("ok", 23, 91.25, 100.0)
    assert (row["lowest"], row["highest"]) == (pytest.approx(-0.6), pytest.approx(0.5))


@pytest.mark.slow
def test_in_the_money_quotes_do_not_count():
    quotes = chain((0.04, 0.1, -0.5, 0.0, 0.2))
    inside = (pl.col("option_type") == "CALL") != (pl.col("strike") >= pl.col("forward"))
    worse = quotes.with_columns(
        implied_volatility=pl.when(inside).then(300.0).otherwise("implied_volatility")
    )
    assert options.svi(worse).rows() == options.svi(quotes).rows()


def test_a_flat_smile_is_a_curve():
    flat = chain((0.09, 0.0, 0.0, 0.0, 0.1))
    got = options.svi(flat)
    assert got.select("status", pl.col("rmse") < 1e-4).row(0) == ("ok", True)
    volatility = options.smile(got)["implied_volatility"]
    assert volatility.to_list() == pytest.approx([60.0] * 51, abs=1e-3)


@pytest.mark.slow
def test_vega_counts_the_money_more():
    quotes = chain((0.04, 0.1, -0.5, 0.0, 0.2))
    bent = quotes.with_columns(
        implied_volatility=pl.col("implied_volatility")
        + 40 * pl.col("strike").log(math.e).sub(math.log(100)).abs() ** 0.5
    )

    def error_at_the_money(fit):
        at = options.smile(fit, moneyness=0)["implied_volatility"].item()
        return abs(at - bent.filter((pl.col("strike") - 100).abs() < 1e-9)["implied_volatility"].to_list()[0])

    equal, vega = options.svi(bent, weights="equal"), options.svi(bent)
    assert error_at_the_money(vega) < error_at_the_money(equal)
    assert equal["rmse"].item() < vega["rmse"].item()


def parabolas(lives, *, forward=60_000.0):
    """Smiles that are parabolas with far wings, as the demo's are: no curve of SVI, and close to one of a far m."""
    strikes = np.arange(40_000.0, 90_001.0, 2_500.0)
    rows = []
    for days in lives:
        away = (strikes / forward - 1) / math.sqrt(days / 365 + 0.02)
        smile = (50 + 8 * math.sqrt(days / 365) - 7 * away + 9 * away**2).round(2)
        rows += [
            (NOW + timedelta(days=days), kind, strike, value)
            for strike, value in zip(strikes, smile, strict=True)
            for kind in ("CALL", "PUT")
        ]
    columns = ["expiry", "option_type", "strike", "implied_volatility"]
    return pl.DataFrame(rows, schema=columns, orient="row").with_columns(timestamp=NOW, forward=forward)


@pytest.mark.slow
@pytest.mark.parametrize("weights", ["equal", "vega"])
def test_short_lives_and_far_wings_are_fitted(weights):
    lives = [hours / 24 for hours in (1, 2, 3, 5, 8, 11, 13, 17, 20, 22, 23, 27, 30, 36, 41)]
    got = options.svi(parabolas(lives), weights=weights)
    # No curve of SVI is a parabola, so it runs off in the far wings.
    assert got["status"].to_list() == ["ok" if rmse <= 2 else "poor_fit" for rmse in got["rmse"]]
    at_money = options.smile(got, moneyness=0)["implied_volatility"].to_list()
    assert at_money == pytest.approx([50 + 8 * math.sqrt(days / 365) for days in lives], abs=1.5)


@pytest.mark.slow
def test_too_few_quotes_are_said(quotes):
    four = chain((0.04, 0.1, -0.5, 0.0, 0.2), moneyness=[-0.2, -0.1, 0.1, 0.2])
    got = options.svi(four)
    assert got.select("status", "quotes", *NAMES, "rmse").row(0) == ("too_few", 4, *[None] * 6)
    assert got["lowest"].item() == pytest.approx(-0.2)
    expired = options.svi(quotes((-1, "C", 100, 50), (7, "C", 100, None)))
    assert expired.select("status", "quotes", "forward").rows() == [("too_few", 0, None)] * 2


def test_a_chain_without_quotes_has_no_curves(quotes):
    got = options.svi(quotes((7, "C", 100, 50)).clear())
    assert got.is_empty()
    assert "status" in got.columns


def test_numbers_that_are_no_smile_are_said():
    wild = chain((0.04, 0.1, -0.5, 0.0, 0.2), moneyness=np.linspace(-3, 3, 7))
    wild = wild.with_columns(implied_volatility=pl.lit(1e200))
    got = options.svi(wild)
    assert got.select("status", *NAMES, "rmse").row(0) == ("not_converged", *[None] * 6)
    assert options.smile(got, steps=2)["implied_volatility"].to_list() == [None] * 3


@pytest.mark.slow
@pytest.mark.parametrize("weights", ["vega", "equal"])
def test_a_curve_far_from_its_quotes_is_a_poor_fit(weights):
    quotes = chain((0.04, 0.1, -0.5, 0.0, 0.2))
    zigzag = quotes.with_row_index("n").with_columns(
        pl.col("implied_volatility") + pl.when(pl.col("n") % 4 < 2).then(20.0).otherwise(-20.0)
    )
    near, far = (options.svi(one, weights=weights).row(0, named=True) for one in (quotes, zigzag))
    assert (near["status"], far["status"]) == ("ok", "poor_fit")
    # By a plain loop over the quotes: what the status goes by is the root of the mean square error of all of them.
    errors = []
    for row in zigzag.iter_rows(named=True):
        k = math.log(row["strike"] / 100)
        if (row["option_type"] == "CALL") == (k >= 0):
            root = math.sqrt((k - far["m"]) ** 2 + far["sigma"] ** 2)
            w = far["a"] + far["b"] * (far["rho"] * (k - far["m"]) + root)
            errors.append((100 * math.sqrt(w * 365 / 91.25) - row["implied_volatility"]) ** 2)
    rmse = math.sqrt(sum(errors) / len(errors))
    assert far["rmse"] == pytest.approx(rmse)
    assert rmse > 10
    limits = {rmse * 0.99: "poor_fit", rmse * 1.01: "ok"}
    assert {
        limit: options.svi(zigzag, weights=weights, max_rmse=limit)["status"].item() for limit in limits
    } == limits
    for bad in (0, -1.0, None, math.nan):
        with pytest.raises(QueryError, match="max_rmse"):
            options.svi(quotes, max_rmse=bad)


def test_volatilities_of_curves_say_how_far_these_are_from_their_quotes():
    fits = pl.DataFrame(
        {"timestamp": NOW, "expiry": NOW, "days": [20.0, 40.0, 60.0], "forward": 100.0, "a": 0.01, "b": 0.1,
         "rho": 0.0, "m": 0.0, "sigma": 0.1, "lowest": -1.0, "highest": 1.0, "rmse": [0.5, 9.0, 0.25]}
    )  # fmt: skip
    along = options.smile(fits, moneyness=0).sort("days")
    assert along.select("days", "rmse").rows() == [(20.0, 0.5), (40.0, 9.0), (60.0, 0.25)]
    between = options.surface(fits, days=[10, 20, 30, 40, 50, 60], moneyness=[0.0])
    assert between.select("days", "rmse").rows() == [
        (10.0, None), (20.0, 0.5), (30.0, 9.0), (40.0, 9.0), (50.0, 9.0), (60.0, 0.25)
    ]  # fmt: skip
    assert "rmse" not in options.surface(fits.drop("rmse"), days=30, moneyness=0).columns


@pytest.mark.slow
def test_recorded_smiles_are_fitted(chains):
    got = options.svi(chains)
    # 14 of them are 2.6 to 17.2 vol points from their quotes, the others less than one.
    assert got["status"].value_counts(sort=True).rows() == [("ok", 58), ("poor_fit", 14)]
    assert got.select(pl.col("rmse").filter(pl.col("status") == "ok").max()).item() < 1.0
    assert got["rmse"].median() < 0.3
    money = options.smile(got, moneyness=0)["implied_volatility"] - options.atm_volatility(chains)["iv_atm"]
    assert money.abs().median() < 0.1
    assert money.abs().max() < 1.0
    assert got.filter(pl.col("days") > 3, pl.col("lowest") > -1.2)["rmse"].max() < 0.5
    assert (got["b"] * (1 + got["rho"].abs())).max() <= 2 + 1e-9
    where_quoted = options.svi_arbitrage(got, wings=False)
    assert where_quoted["butterfly_arbitrage"].sum() == 0
    assert options.svi_arbitrage(got)["butterfly_arbitrage"].sum() > 0


@pytest.mark.slow
def test_rows_in_another_order_are_fitted_alike(chains):
    one = chains.filter(pl.col("coin") == "ETH", pl.col("timestamp") == chains["timestamp"].max())
    assert options.svi(one.sample(fraction=1, shuffle=True, seed=2)).equals(options.svi(one))


# -- what cannot be


def density(k, parameters):
    """Density of the price at expiry by differences of Black's call prices, in the forward's unit, at one year."""

    def call(strike):
        deviation = math.sqrt(curve(math.log(strike), *parameters))
        d1 = -math.log(strike) / deviation + deviation / 2
        cdf = lambda x: 0.5 * math.erfc(-x / math.sqrt(2))  # noqa: E731
        return cdf(d1) - strike * cdf(d1 - deviation)

    strike, step = math.exp(k), 1e-3
    return (call(strike + step) - 2 * call(strike) + call(strike - step)) / step**2


def test_jump_wings_of_the_paper_are_its_raw_parameters():
    assert raw(*VOGT_JUMP_WINGS) == pytest.approx(VOGT, abs=2e-4)


def test_a_butterfly_known_to_violate_is_found():
    [row] = options.svi_arbitrage(fits(VOGT)).rows(named=True)
    assert row["butterfly_arbitrage"] is True
    assert row["least_density"] < 0
    assert 0.6 < row["density_at"] < 1.2  # the paper's figure 2
    assert density(row["density_at"], VOGT) < 0
    assert row["wing_arbitrage"] is False
    assert row["calendar_arbitrage"] is None


def test_the_papers_repair_has_none():
    repaired = raw(*REPAIRED_JUMP_WINGS)
    [row] = options.svi_arbitrage(fits(repaired)).rows(named=True)
    assert row["butterfly_arbitrage"] is False
    assert row["least_density"] > 0
    assert all(density(k, repaired) > -1e-9 for k in np.linspace(-1.5, 1.5, 61))


def g_of(k, a, b, rho, m, sigma):
    """What has the sign of the density of the price at expiry."""
    w, first = curve(k, a, b, rho, m, sigma), b * (rho + (k - m) / math.hypot(k - m, sigma))
    second = b * sigma**2 / math.hypot(k - m, sigma) ** 3
    return (1 - k * first / (2 * w)) ** 2 - first**2 / 4 * (1 / w + 0.25) + second / 2


@pytest.mark.slow
@pytest.mark.parametrize("parameters", [VOGT, raw(*REPAIRED_JUMP_WINGS), (0.04, 0.1, -0.5, 0.0, 0.2)])
def test_least_density_is_that_of_a_fine_grid(parameters):
    [row] = options.svi_arbitrage(fits(parameters)).rows(named=True)
    least = min(g_of(k, *parameters) for k in np.linspace(-20, 20, 200_001))
    assert row["least_density"] == pytest.approx(least, abs=1e-5)  # far out it falls on, if hardly
    assert row["least_density"] == pytest.approx(g_of(row["density_at"], *parameters), abs=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("parameters", "at"),
    [
        ((-5.8896e-05, 0.013174, -0.73305, 0.31383, 0.0067811), 0.3212),
        ((-1e-4 + 1e-9, 0.01, 0.0, 0.05, 0.01), 0.05),
        ((0.02, 0.9, -0.99, -0.3, 1e-5), -0.3),
    ],
)
def test_a_narrow_dip_where_quoted_is_found(parameters, at):
    frame = fits(parameters).with_columns(lowest=-0.4, highest=0.4)
    [row] = options.svi_arbitrage(frame, wings=False).rows(named=True)
    around = [
        np.linspace(-0.4, 0.4, 20_001),
        *(at + np.linspace(-1, 1, 20_001) * 10.0**n for n in range(-8, -1)),
    ]
    least = min(g_of(k, *parameters) for k in np.concatenate(around) if abs(k) <= 0.4)
    assert row["least_density"] <= least + 1e-6
    assert row["least_density"] == pytest.approx(g_of(row["density_at"], *parameters), abs=1e-6)


def test_a_curve_with_a_kink_has_all_of_its_density_there():
    kinked = fits((0.04, 0.1, -0.3, 0.1, 0.0)).with_columns(lowest=-0.4, highest=0.4)
    for wings in (True, False):
        [row] = options.svi_arbitrage(kinked, wings=wings).rows(named=True)
        [bent] = options.svi_arbitrage(kinked.with_columns(sigma=1e-9), wings=wings).rows(named=True)
        assert row["butterfly_arbitrage"] is False
        assert row["least_density"] == pytest.approx(bent["least_density"], abs=1e-9)


def test_total_variance_below_zero_is_an_arbitrage():
    [row] = options.svi_arbitrage(fits((-0.05, 0.1, 0.0, 0.0, 0.2))).rows(named=True)
    assert (row["butterfly_arbitrage"], row["least_density"], row["density_at"]) == (True, None, None)


@pytest.mark.parametrize(
    ("b", "rho", "steep"),
    [(1.1, 0.9, True), (1.1, -0.9, True), (1.0, 0.9, False), (2.0, 0.0, False), (2.1, 0.0, True)],
)
def test_wings_steeper_than_two_are_found(b, rho, steep):
    [row] = options.svi_arbitrage(fits((0.04, b, rho, 0.0, 0.2))).rows(named=True)
    assert row["wing_arbitrage"] is steep
    assert (row["left_wing"], row["right_wing"]) == (
        pytest.approx(b * (1 - rho)),
        pytest.approx(b * (1 + rho)),
    )
    if steep:  # far enough out, such a wing is one of butterflies as well
        assert row["butterfly_arbitrage"] is True


CALM = (0.04, 0.1, -0.3, 0.0, 0.2)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("following", "everywhere", "where_quoted"),
    [
        (CALM, False, False),
        ((0.05, 0.1, -0.3, 0.0, 0.2), False, False),
        ((0.03, 0.1, -0.3, 0.0, 0.2), True, True),
        ((0.05, 0.2, -0.3, 0.0, 0.2), False, False),
        ((0.041, 0.1, 0.3, 0.0, 0.2), True, True),  # leans the other way: below on the left
        ((0.09, 0.09, -0.3, 0.0, 0.2), True, False),  # flatter: they cross where nothing is quoted
        ((0.06, 0.1, -0.2, 0.0, 0.2), True, False),
    ],
)
def test_calendar_crossings_are_found(following, everywhere, where_quoted):
    both = fits(CALM, following)
    got = options.svi_arbitrage(both)
    assert got["calendar_arbitrage"].to_list() == [everywhere, None]
    assert options.svi_arbitrage(both, wings=False)["calendar_arbitrage"].to_list() == [where_quoted, None]
    gain, at = got.select("least_gain", "gain_at").row(0)
    assert gain == pytest.approx(curve(at, *following) - curve(at, *CALM), abs=1e-12)
    grid = np.linspace(-20, 20, 40_001)
    assert gain <= min(curve(k, *following) - curve(k, *CALM) for k in grid) + 1e-12


def test_curves_of_other_times_and_series_do_not_cross():
    low = fits((0.01, 0.1, -0.3, 0.0, 0.2), days=[730.0])
    for other in (
        low.with_columns(timestamp=pl.lit(NOW + timedelta(hours=1)), coin=pl.lit("BTC")),
        low.with_columns(coin=pl.lit("ETH")),
    ):
        both = pl.concat([fits(CALM).with_columns(coin=pl.lit("BTC")), other])
        assert options.svi_arbitrage(both)["calendar_arbitrage"].to_list() == [None, None]
    both = pl.concat([fits(CALM), low])
    assert options.svi_arbitrage(both)["calendar_arbitrage"].to_list() == [True, None]


def test_without_a_fit_nothing_is_said():
    got = options.svi_arbitrage(fits(CALM, [math.nan] * 5).fill_nan(None))
    assert got.select("least_density", "butterfly_arbitrage", "calendar_arbitrage").rows()[1] == (
        None,
        None,
        None,
    )
    assert got["calendar_arbitrage"].to_list() == [None, None]
    assert got["butterfly_arbitrage"].to_list() == [False, None]
    pandas = options.svi_arbitrage(fits(CALM).to_pandas())
    assert isinstance(pandas, pd.DataFrame)


# -- volatilities


def test_smile_is_the_curve_within_its_quotes(engine):
    rows = fits((0.04, 0.1, -0.5, 0.0, 0.2), days=[91.25])
    got = engine.polars(options.smile(engine.frame(rows), moneyness=[0.6, -0.2, 0.5]))
    assert got.columns == ["timestamp", "expiry", "days", "moneyness", "strike", "implied_volatility"]
    want = [100 * math.sqrt(curve(k, 0.04, 0.1, -0.5, 0.0, 0.2) / 0.25) for k in (-0.2, 0.5, 0.6)]
    values = got["implied_volatility"].fill_nan(None).to_list()
    assert values == [pytest.approx(want[0], abs=1e-12), pytest.approx(want[1], abs=1e-12), None]
    assert got["strike"].to_list() == pytest.approx([100 * math.exp(k) for k in (-0.2, 0.5, 0.6)])
    beyond = engine.polars(options.smile(engine.frame(rows), moneyness=0.6, wings=True))
    assert beyond["implied_volatility"].to_list() == [pytest.approx(want[2], abs=1e-12)]
    even = engine.polars(options.smile(engine.frame(rows), steps=4))
    assert even["moneyness"].to_list() == [-0.5, -0.25, 0.0, 0.25, 0.5]
    assert not even["implied_volatility"].has_nulls()


def test_smile_without_a_fit_is_null():
    rows = fits(CALM, [math.nan] * 5, CALM, (-0.05, 0.1, 0.0, 0.0, 0.2), days=[1.0, 2.0, -3.0, 4.0]).fill_nan(
        None
    )
    got = options.smile(rows, moneyness=0)
    assert got.sort("days")["implied_volatility"].is_null().to_list() == [True, False, True, True]


def test_surface_is_linear_in_total_variance(engine):
    near, far = (0.04, 0.1, -0.5, 0.0, 0.2), (0.08, 0.1, -0.4, 0.0, 0.3)
    rows = fits(near, far, days=[28.0, 56.0], highest=[0.5, 0.3])
    got = engine.polars(options.surface(engine.frame(rows), days=[20, 28, 30, 56, 60], moneyness=[0.1, 0.4]))
    assert got.columns == ["timestamp", "days", "moneyness", "implied_volatility"]
    w1, w2 = curve(0.1, *near), curve(0.1, *far)
    at_30 = 100 * math.sqrt((w1 + (w2 - w1) * 2 / 28) * 365 / 30)
    values = got.filter(pl.col("moneyness") == 0.1)["implied_volatility"].fill_nan(None).to_list()
    assert values == [
        None,
        pytest.approx(100 * math.sqrt(w1 * 365 / 28), abs=1e-12),
        pytest.approx(at_30, abs=1e-10),
        pytest.approx(100 * math.sqrt(w2 * 365 / 56), abs=1e-12),
        None,
    ]
    # At 0.4 only the near expiry has quotes: at its maturity alone there is a value.
    wing = got.filter(pl.col("moneyness") == 0.4)["implied_volatility"].fill_nan(None)
    assert wing.is_null().to_list() == [True, False, True, True, True]
    beyond = engine.polars(options.surface(engine.frame(rows), days=30, moneyness=0.4, wings=True))
    assert not beyond["implied_volatility"].has_nulls()


@pytest.mark.slow
def test_surface_at_an_expiry_is_its_smile(chains):
    got = options.svi(chains)
    fit = got.filter(pl.col("coin") == "BTC").row(4, named=True)
    places = [-0.1, 0.0, 0.1]
    one = got.filter(pl.col("coin") == "BTC", pl.col("timestamp") == fit["timestamp"])
    along = options.smile(one, moneyness=places).filter(pl.col("days") == fit["days"])
    across = options.surface(one, days=fit["days"], moneyness=places)
    assert across["implied_volatility"].to_list() == pytest.approx(
        along["implied_volatility"].to_list(), abs=1e-12
    )


# -- arguments


@each_row(
    ("call", "parameter"),
    [
        (lambda: options.svi(chain(CALM), weights="gamma"), "weights"),
        (lambda: options.svi(chain(CALM), by="rho"), "by"),
        (lambda: options.smile(fits(CALM), moneyness=[]), "moneyness"),
        (lambda: options.smile(fits(CALM), moneyness=math.nan), "moneyness"),
        (lambda: options.smile(fits(CALM), moneyness="0"), "moneyness"),
        (lambda: options.smile(fits(CALM), steps=0), "steps"),
        (lambda: options.surface(fits(CALM), days=0, moneyness=0), "days"),
        (lambda: options.surface(fits(CALM), days=30, moneyness=[True]), "moneyness"),
        (lambda: options.svi_arbitrage("fits"), "fits"),
    ],
)
def test_argument_that_cannot_be_right_is_refused(call, parameter):
    with pytest.raises(QueryError) as error:
        call()
    assert error.value.parameter == parameter


def test_missing_columns_are_said():
    with pytest.raises(MissingColumnError, match="rho"):
        options.smile(fits(CALM).drop("rho"))
    with pytest.raises(MissingColumnError, match="lowest"):
        options.svi_arbitrage(fits(CALM).drop("lowest"), wings=False)
    assert options.svi_arbitrage(fits(CALM).drop("lowest", "forward"))["butterfly_arbitrage"].to_list() == [
        False
    ]


def test_a_smile_of_two_underlyings_is_not_fitted(quotes) -> None:
    one = quotes(*((30, "C" if strike >= 100 else "P", strike, 50.0) for strike in range(80, 125, 5)))
    other = one.with_columns(pl.col("strike", "forward") * 0.03)
    fit = options.svi(pl.concat([one, other])).row(0, named=True)
    assert (fit["status"], fit["quotes"], fit["a"], fit["forward"]) == ("mixed", 0, None, None)
    assert options.svi(one)["status"].to_list() == ["ok"]
