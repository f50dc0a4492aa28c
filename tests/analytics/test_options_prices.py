"""Black's price and the volatility it implies: by another library, by an integral, there and back."""

from __future__ import annotations

import math
import warnings
from datetime import UTC, datetime, timedelta

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.integrate import quad

from engines import Engine
from tables import each_row
from tidytape.analytics import options
from tidytape.analytics.options import _black
from tidytape.analytics.options._black import _log_value, implied_deviation
from tidytape.errors import MissingColumnError, QueryError

NOW = datetime(2026, 3, 5, 8, tzinfo=UTC)


def option(**columns):
    """Options of 30 days on a forward of 70,000."""
    known = {
        "timestamp": NOW,
        "expiry": NOW + timedelta(days=30),
        "option_type": "CALL",
        "strike": 70_000.0,
        "forward": 70_000.0,
    }
    return pl.DataFrame({**known, **columns})


def grid():
    """Strikes from a tenth of the forward to ten times of it, an hour to three years, 5% to 300%."""
    rows = [
        (kind, 70_000.0 * math.exp(moneyness), NOW + timedelta(hours=hours), volatility)
        for kind in ("CALL", "PUT")
        for moneyness in np.linspace(-2.3, 2.3, 47)
        for hours in (1, 6, 24, 72, 168, 720, 2160, 8760, 26280)
        for volatility in (5.0, 20.0, 50.0, 80.0, 150.0, 300.0)
    ]
    kind, strike, expiry, volatility = zip(*rows, strict=True)
    return option(option_type=kind, strike=strike, expiry=expiry, implied_volatility=volatility)


@pytest.fixture(scope="module")
def ql():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its types have no module
        return pytest.importorskip(
            "QuantLib", reason="QuantLib has no wheel for this Python: nothing to compare with"
        )


def by_quantlib(ql, frame):
    sides = {"CALL": ql.Option.Call, "PUT": ql.Option.Put}
    return [
        ql.blackFormula(
            sides[row["option_type"]],
            row["strike"],
            row["forward"],
            row["implied_volatility"] / 100 * math.sqrt((row["expiry"] - NOW) / timedelta(days=365)),
        )
        for row in frame.iter_rows(named=True)
    ]


# -- prices


@pytest.mark.slow
def test_price_is_that_of_quantlib(ql):
    frame = grid()
    want = by_quantlib(ql, frame)
    scale = frame.select(pl.max_horizontal("strike", "forward")).to_series().to_numpy()
    quote = options.black76_price(frame, premium="quote")["black76_price"].to_numpy()
    assert np.max(np.abs(quote - want) / scale) < 1e-14
    coin = options.black76_price(frame)["black76_price"].to_numpy()
    assert coin * 70_000 == pytest.approx(quote, rel=1e-15)
    assert (coin >= 0).all()


@pytest.mark.slow
@pytest.mark.parametrize("premium", ["coin", "quote"])
def test_price_of_an_absurd_volatility_is_the_limit(engine, premium):
    absurd = [1e6, 1e300, 1.7e308, 1e-300, 5e-324]
    none = [float("inf"), float("-inf"), float("nan"), -50.0, -1e300]
    volatility = [*absurd, *none] * 2
    half = len(volatility) // 2
    frame = option(
        implied_volatility=volatility,
        strike=[60_000.0] * len(volatility),
        forward=[75_000.0] * len(volatility),
        option_type=["CALL"] * half + ["PUT"] * half,
    )
    got = engine.polars(options.black76_price(engine.frame(frame), premium=premium))["black76_price"]
    unit = 1.0 if premium == "quote" else 75_000.0
    want = [75_000.0] * 3 + [15_000.0] * 2 + [None] * 5 + [60_000.0] * 3 + [0.0] * 2 + [None] * 5
    want = [price if price is None else price / unit for price in want]
    assert not got.is_nan().any()
    for one, other in zip(got, want, strict=True):
        assert one == (other if other is None else pytest.approx(other, rel=1e-14))


@pytest.mark.slow
def test_price_at_the_money_of_no_volatility_to_speak_of_is_nothing(engine):
    frame = option(implied_volatility=[5e-324], strike=[70_000.0], forward=[70_000.0], option_type=["CALL"])
    prices = options.black76_price(engine.frame(frame), volatility_unit="percent")
    assert engine.polars(prices)["black76_price"].to_list() == [0.0]


@pytest.mark.slow
def test_price_of_what_is_not_known_is_null(engine):
    frame = option(
        implied_volatility=[50.0, None, 0.0, 50.0, 50.0, 50.0, 50.0],
        strike=[70_000.0, 7e4, 7e4, -1.0, 7e4, 7e4, 7e4],
        forward=[70_000.0, 7e4, 7e4, 7e4, float("nan"), 7e4, 7e4],
        option_type=["CALL", "CALL", "CALL", "CALL", "CALL", None, "PUT"],
        expiry=[NOW + timedelta(days=30)] * 6 + [NOW],
    )
    got = engine.polars(options.black76_price(engine.frame(frame)))
    assert got.columns == [*frame.columns, "black76_price"]
    assert got["black76_price"].fill_nan(None).to_list()[1:] == [None] * 5 + [
        0.0
    ]  # at its expiry it is worth nothing
    assert got["strike"].to_list() == frame["strike"].to_list()


def test_recorded_prices_follow_from_recorded_volatilities(chains):
    priced = options.black76_price(chains)
    error = (priced["black76_price"] - priced["mark_price"]).abs()
    assert error.null_count() == 0
    assert error.median() < 1e-4  # of a coin
    assert error.quantile(0.9) < 2e-4
    assert len(error) > 5_500


def test_recorded_volatilities_follow_from_recorded_prices(chains):
    got = options.implied_volatility(chains.with_columns(recorded=pl.col("implied_volatility")))
    moneyness, left = (pl.col("strike") / pl.col("forward")).log(), pl.col("expiry") - pl.col("timestamp")
    near = got.filter(moneyness.abs() < 0.1, left > timedelta(days=6))
    assert len(near) > 300
    assert set(near["status"]) == {"ok"}
    # Volatilities are recorded to 0.01%, and forwards of a snapshot are seconds apart.
    assert (near["implied_volatility"] - near["recorded"]).abs().median() < 0.01
    assert set(got.filter(pl.col("implied_volatility").is_null())["status"]) == {
        "below_intrinsic",
        "no_time_value",
    }


# -- and back


@pytest.mark.slow
def test_there_and_back(ql):
    """Every volatility comes back to 1e-8, but where the price as a float no longer says it; and that is told."""
    frame = grid()
    paid = frame.with_columns(paid=pl.Series(by_quantlib(ql, frame)), given=pl.col("implied_volatility"))
    got = options.implied_volatility(paid, price="paid", premium="quote")
    ok = got.filter(pl.col("status") == "ok")
    # QuantLib's own price has no digits where it is small beside the forward.
    sure = ok.filter(pl.col("paid") > 1e-7 * pl.col("forward"))
    assert len(sure) > 1_800
    assert (sure["implied_volatility"] / sure["given"] - 1).abs().max() < 1e-8
    assert set(got["status"]) == {"ok", "imprecise", "no_time_value"}


def exact_share(x, s):
    """Time value as a share of the most it can be: the integral of vega, in which nothing is subtracted."""
    top = -0.5 * ((x / s) ** 2 + s * s / 4)  # vega at s, its logarithm

    def density(v):
        u = s * math.exp(-v)
        return math.exp(-0.5 * ((x / u) ** 2 + u * u / 4) - top) * u

    value, _ = quad(density, 0, 60, epsabs=0, epsrel=1e-13, limit=500, points=[1e-3, 1e-2, 0.1, 1, 5])
    return math.log(value / math.sqrt(2 * math.pi)) + top - x / 2


@each_row("x", [0.0, -1e-6, -1e-3, -0.02, -0.3, -1.0, -2.5, -6.0])
def test_the_normalised_value_is_the_integral_of_vega(x):
    deviations = [s for s in (1e-5, 1.99e-3, 2.01e-3, 0.02, 0.3, 1.0, 2.5) if abs(x / s) < 35]
    assert deviations
    for s in deviations:
        want = exact_share(x, s) + x / 2
        got = _log_value(np.array([x]), np.array([s])).item()
        assert got == pytest.approx(want, abs=1e-10), (x, s)


@pytest.mark.parametrize("of_wings", [False, True])
def test_few_steps_find_what_a_bracket_finds(monkeypatch, of_wings):
    draw = np.random.default_rng(5)
    count = 4_000
    x = -np.abs(draw.normal(0, 0.3, count)) if not of_wings else -(10 ** draw.uniform(-8, 2, count))
    share = draw.uniform(1e-6, 1 - 1e-6, count)
    if of_wings:
        share = np.where(
            share < 0.5, 10 ** draw.uniform(-299, 0, count), 1 - 10 ** draw.uniform(-15, 0, count)
        )
        share = share.clip(1e-299, 1 - 1e-15)
    by_steps = implied_deviation(x, share)
    monkeypatch.setattr(_black, "_STEPS", 0)
    np.testing.assert_allclose(by_steps, implied_deviation(x, share), rtol=1e-10)


def test_options_that_are_traded_need_no_bracket(monkeypatch):
    monkeypatch.setattr(_black, "_bracketed", None)
    x, deviation = np.meshgrid(-np.geomspace(1e-4, 0.5, 60), np.geomspace(0.05, 1.0, 60))
    x, deviation = x[-x < 4 * deviation], deviation[-x < 4 * deviation]
    share = np.exp(_log_value(x, deviation) - x / 2)
    np.testing.assert_allclose(implied_deviation(x, share), deviation, rtol=1e-9)


@pytest.mark.parametrize("kind", ["CALL", "PUT"])
def test_deep_wings_come_back_from_prices_with_digits(kind):
    """Out of the money a price of 1e-90 says its volatility as well as any."""
    side = 1 if kind == "CALL" else -1
    rows = [
        (moneyness * side, deviation)
        for moneyness in (0.0, 0.001, 0.01, 0.1, 0.5, 1.0, 3.0)
        for deviation in (1e-4, 1e-3, 0.01, 0.05, 0.2, 1.0, 3.0)
        if moneyness / deviation < 35
    ]
    years = 30 / 365
    most = [1.0 if kind == "CALL" else math.exp(moneyness) for moneyness, _ in rows]
    paid = [
        math.exp(exact_share(-abs(moneyness), s)) * m for (moneyness, s), m in zip(rows, most, strict=True)
    ]
    frame = option(
        option_type=kind, strike=[70_000 * math.exp(moneyness) for moneyness, _ in rows], mark_price=paid
    )
    got = options.implied_volatility(frame)
    want = [100 * s / math.sqrt(years) for _, s in rows]
    assert min(paid) < 1e-90
    sure = got["status"] == "ok"
    assert sure.sum() >= len(rows) - 2
    assert (got["implied_volatility"] / pl.Series(want) - 1).abs().filter(sure).max() < 1e-8
    assert (got["implied_volatility"] / pl.Series(want) - 1).abs().max() < 1e-3


@pytest.mark.parametrize(
    ("columns", "status"),
    [
        ({"mark_price": 0.05}, "ok"),
        ({"mark_price": 0.05, "option_type": "PUT"}, "ok"),
        ({"mark_price": 1e-300}, "ok"),
        ({"mark_price": 0.0}, "no_time_value"),
        ({"mark_price": 0.0, "option_type": "PUT", "strike": 90_000.0}, "below_intrinsic"),
        ({"mark_price": -0.01}, "below_intrinsic"),
        ({"mark_price": 0.5, "strike": 35_000.0}, "no_time_value"),
        ({"mark_price": 0.5 - 1e-16, "strike": 35_000.0}, "no_time_value"),
        ({"mark_price": 0.4999, "strike": 35_000.0}, "below_intrinsic"),
        ({"mark_price": 0.5 + 3e-15, "strike": 35_000.0}, "imprecise"),
        ({"mark_price": 0.5 + 1e-7, "strike": 35_000.0}, "ok"),
        ({"mark_price": 1.0, "strike": 90_000.0}, "above_maximum"),
        ({"mark_price": 0.9, "option_type": "PUT", "strike": 63_000.0}, "above_maximum"),
        ({"mark_price": 0.89, "option_type": "PUT", "strike": 63_000.0}, "ok"),
        ({"mark_price": 1.0 - 1e-14, "strike": 90_000.0}, "imprecise"),
        ({"mark_price": 0.05, "expiry": NOW}, "expired"),
        ({"mark_price": None}, "unknown"),
        ({"mark_price": float("nan")}, "unknown"),
        ({"mark_price": float("inf")}, "unknown"),
        ({"mark_price": 0.05, "strike": 0.0}, "unknown"),
        ({"mark_price": 0.05, "forward": None}, "unknown"),
        ({"mark_price": 0.05, "option_type": None}, "unknown"),
        ({"mark_price": 0.05, "expiry": None}, "unknown"),
    ],
    ids=str,
)
@pytest.mark.parametrize("kind", ["polars", "pandas"])
def test_status_says_why(kind, columns, status):
    schema = {"expiry": pl.Datetime("us", "UTC"), "option_type": pl.String}
    frame = option(**{name: [value] for name, value in columns.items()}).cast(schema)
    frame = frame.cast(dict.fromkeys(("mark_price", "strike", "forward"), pl.Float64))
    frame = pl.concat([frame, option(mark_price=0.05)])
    got = options.implied_volatility(frame if kind == "polars" else frame.to_pandas())
    got = got if kind == "polars" else pl.from_pandas(got)
    assert got["status"].to_list() == [status, "ok"]
    assert (got["implied_volatility"].fill_nan(None)[0] is not None) == (status in {"ok", "imprecise"})


@pytest.mark.slow
def test_rows_stay_where_they_are():
    frame = pd.DataFrame({**option(mark_price=[0.05, 0.06, None]).to_pandas()}).set_index(pd.Index([7, 3, 3]))
    got = options.implied_volatility(frame)
    assert got.index.tolist() == [7, 3, 3]
    assert got["mark_price"].tolist()[:2] == [0.05, 0.06]
    assert got["status"].tolist() == ["ok", "ok", "unknown"]
    assert got["implied_volatility"].iloc[0] < got["implied_volatility"].iloc[1]
    assert options.black76_price(frame.assign(implied_volatility=50.0)).index.tolist() == [7, 3, 3]


@pytest.mark.slow
def test_an_expiry_that_is_a_date():
    frame = option(mark_price=0.05, implied_volatility=50.0)
    dates = frame.with_columns(pl.col("expiry").dt.date())
    for function, column in (
        (options.implied_volatility, "implied_volatility"),
        (options.black76_price, "black76_price"),
    ):
        got, want = function(dates), function(frame)
        assert got.select("expiry", column).rows() == want.select("expiry", column).rows()


NEVER = datetime(9999, 12, 31, tzinfo=UTC)


@pytest.mark.slow
def test_an_expiry_out_of_reach_is_not_known_and_comes_back(engine: Engine):
    frame = option(mark_price=0.05, implied_volatility=50.0, expiry=[NEVER, NOW + timedelta(days=30)])
    got = engine.polars(options.black76_price(engine.frame(frame))).sort("black76_price", nulls_last=True)
    assert [price is None for price in got["black76_price"].fill_nan(None)] == [False, True]
    if engine.name != "spark":  # which writes times into Parquet as nanoseconds that are too many
        assert got["expiry"].dt.convert_time_zone("UTC").to_list() == [NOW + timedelta(days=30), NEVER]
    points = engine.polars(options.delta_points(engine.frame(frame.with_columns(coin=pl.lit("BTC")))))
    assert points["days"].to_list() == [30.0]


def test_a_volatility_of_an_expiry_out_of_reach_is_not_known():
    got = options.implied_volatility(option(mark_price=0.05, expiry=[NEVER, NOW + timedelta(days=30)]))
    assert got.select("expiry", "status").rows() == [(NEVER, "unknown"), (NOW + timedelta(days=30), "ok")]


def test_premium_in_quote_is_that_in_coin():
    frame = option(mark_price=[0.05, 0.3], strike=[70_000.0, 50_000.0])
    quote = frame.with_columns(mark_price=pl.col("mark_price") * 70_000)
    want = options.implied_volatility(frame)["implied_volatility"].to_list()
    assert options.implied_volatility(quote, premium="quote")[
        "implied_volatility"
    ].to_list() == pytest.approx(want, rel=1e-12)


def test_search_has_an_end_everywhere():
    x = -np.abs(np.random.default_rng(3).normal(0, 2, 5_000))
    share = np.concatenate([np.geomspace(1e-300, 0.5, 2_500), 1 - np.geomspace(1e-15, 0.5, 2_500)])
    assert np.isfinite(implied_deviation(x, share)).all()


@pytest.mark.parametrize("function", [options.black76_price, options.implied_volatility])
def test_what_cannot_be_right_is_refused(function):
    with pytest.raises(QueryError, match="premium"):
        function(option(mark_price=0.05, implied_volatility=50.0), premium="usd")
    with pytest.raises(MissingColumnError) as error:
        function(option().drop("forward"))
    assert "forward" in error.value.missing


@pytest.mark.slow
def test_the_price_at_expiry_is_the_intrinsic_value(engine):
    now = datetime(2026, 3, 6, 8, tzinfo=UTC)
    chain = pl.DataFrame(
        {
            "timestamp": [now, now, now, now, now + timedelta(seconds=1)],
            "expiry": [now] * 5,
            "strike": [50_000.0, 50_000.0, 70_000.0, 70_000.0, 50_000.0],
            "option_type": ["CALL", "PUT", "CALL", "PUT", "CALL"],
            "forward": [60_000.0] * 5,
            "implied_volatility": [50.0, 50.0, None, 50.0, 50.0],
        }
    )
    for premium, unit in (("quote", 1.0), ("coin", 60_000.0)):
        got = engine.polars(options.black76_price(engine.frame(chain), premium=premium))
        prices = got.sort("timestamp", "strike", "option_type")["black76_price"].fill_nan(None).to_list()
        assert prices == [10_000.0 / unit, 0.0, 0.0, 10_000.0 / unit, None]
