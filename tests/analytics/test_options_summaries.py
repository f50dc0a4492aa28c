"""Term structure of summaries, realised volatility, and how values compare with those before."""

from __future__ import annotations

import statistics
from datetime import UTC, datetime, timedelta
from math import isnan

import numpy as np
import pandas as pd
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from oracles.volatility import realized
from tables import each_row
from tidytape import Client
from tidytape.analytics.options import (
    percentile,
    rank,
    realized_volatility,
    tenor_slope,
    tenor_structure,
    z_score,
)
from tidytape.errors import MissingColumnError, QueryError
from tidytape.times import DAY

pytestmark = pytest.mark.usefixtures("small_times")  # times are small numbers of nanoseconds

START = datetime(2026, 3, 5, tzinfo=UTC)
ESTIMATORS = ["close_to_close", "parkinson", "garman_klass", "rogers_satchell", "yang_zhang"]

# Eight days of candles, and what R's TTR 0.24.3 says of windows of five of them (`volatility`, N = 365), in percent.
CANDLES = pl.DataFrame(
    {
        "timestamp": [START + timedelta(days=day) for day in range(8)],
        "open": [99.57, 105.91, 99.09, 99.63, 98.54, 97.46, 96.86, 93.33],
        "high": [104.67, 106.16, 100.77, 99.83, 98.57, 98.98, 97.39, 93.8],
        "low": [99.39, 98.44, 97.19, 98.41, 97.55, 96.4, 92.69, 92.81],
        "close": [104.17, 98.98, 99.81, 98.68, 97.79, 97.37, 93.51, 93.08],
    }
)
ELSEWHERE = {
    "close_to_close": [None, 42.724635495011668, 34.306549180303151, 28.863986124616865],
    "parkinson": [51.315560556270043, 45.951487242162244, 35.424124683535410, 30.659409288320528],
    "garman_klass": [41.554801774278488, 39.729785945638938, 36.508634728140429, 30.151799867152434],
    "rogers_satchell": [34.701504391087504, 35.110433329527865, 35.567014895737827, 28.490050893152763],
    "yang_zhang": [None, 41.438624787353028, 35.286691462683791, 28.419660255971007],
}


def volatilities(frame: pl.DataFrame, **options: object) -> list[float | None]:
    return realized_volatility(frame, **options)["realized_volatility"].to_list()


@pytest.mark.parametrize("estimator", ELSEWHERE)
def test_equals_another_library(estimator: str) -> None:
    found = volatilities(CANDLES, window=5, estimator=estimator, interval="1d")
    assert found == [None] * 4 + [value and pytest.approx(value, rel=1e-12) for value in ELSEWHERE[estimator]]


@pytest.mark.slow
@each_row("estimator", ESTIMATORS)
@each_row("window", [2, 3, 7])
def test_equals_the_loop_of_the_papers(estimator: str, window: int) -> None:
    candles = CANDLES.select("open", "high", "low", "close").rows()
    found = volatilities(CANDLES, window=window, estimator=estimator, interval="1d")
    for row in range(window, 8):
        expected = realized(candles[row - window : row + 1], estimator=estimator, per_year=365)
        assert found[row] == pytest.approx(expected, rel=1e-11)
    early = {"close_to_close", "yang_zhang"}
    assert (found[window - 1] is None) == (estimator in early)
    assert found[: window - 1] == [None] * (window - 1)


@pytest.mark.slow
@pytest.mark.parametrize("estimator", ["rogers_satchell", "yang_zhang"])
def test_drift_and_jumps_do_not_move_what_is_free_of_them(estimator: str) -> None:
    # Of Brownian motion of a known variance: the mean of many estimates is that variance (Yang and Zhang, 2000).
    random = np.random.default_rng(8)
    days, steps, sigma, jump, drift = 4_000, 400, 0.02, 0.01, 0.015
    overnight = random.normal(0, jump, days) if estimator == "yang_zhang" else np.zeros(days)
    inside = np.cumsum(random.normal(drift / steps, sigma / steps**0.5, (days, steps)), axis=1)
    inside = np.hstack([np.zeros((days, 1)), inside])
    base = np.cumsum(overnight + np.r_[0, inside[:-1, -1]])
    base -= base.mean()
    frame = pl.DataFrame(
        {
            "timestamp": [START + timedelta(days=day) for day in range(days)],
            "open": np.exp(base),
            "high": np.exp(base + inside.max(axis=1)),
            "low": np.exp(base + inside.min(axis=1)),
            "close": np.exp(base + inside[:, -1]),
        }
    )
    found = realized_volatility(frame, window=10, estimator=estimator, interval="1d", days_per_year=1)
    variance = ((found["realized_volatility"].drop_nulls() / 100) ** 2).mean()
    truth = sigma**2 + (jump**2 if estimator == "yang_zhang" else 0)
    # Extremes of 400 steps are a little short of those of the path between them.
    assert variance == pytest.approx(truth, rel=0.09)


def test_a_gap_is_no_return() -> None:
    frame = CANDLES.filter(pl.col("timestamp") != START + timedelta(days=3))
    for estimator in ESTIMATORS:
        found = volatilities(frame, window=2, estimator=estimator, interval="1d")
        returns = estimator in {"close_to_close", "yang_zhang"}
        after = [True, True, False, False] if returns else [True, False, False, False]
        assert [value is None for value in found] == [True, returns, False, *after]


@pytest.mark.parametrize("bad", [0.0, -1.0, None, float("nan"), float("inf")])
def test_a_bad_price_gives_null_where_it_counts_and_nowhere_else(bad: float | None) -> None:
    frame = CANDLES.with_columns(close=pl.when(pl.int_range(8) == 2).then(bad).otherwise("close"))
    found = volatilities(frame, window=2, interval="1d")
    assert [value is None for value in found] == [True, True, True, True, True, False, False, False]


def test_the_interval_is_asked_for_or_in_the_frame() -> None:
    with pytest.raises(MissingColumnError, match="interval"):
        realized_volatility(CANDLES, window=2)
    named = CANDLES.with_columns(interval=pl.lit("DAY"))
    assert volatilities(named, window=2) == volatilities(CANDLES, window=2, interval="1d")
    with pytest.raises(QueryError, match="interval: 'EON'"):
        volatilities(named.with_columns(interval=pl.lit("EON")), window=2)


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("window", [2, 5])
def test_frames_in_memory_have_the_volatility_of_plans(estimator: str, window: int) -> None:
    draw = np.random.default_rng(7)
    frames = []
    for name, level in (("A", 1e5), ("B", 1e-3), (None, 1.0)):
        close = level * np.exp(draw.normal(0, 0.01, 60).cumsum())
        days = [START + timedelta(days=int(day)) for day in np.arange(60) + 3 * (np.arange(60) > 40)]
        days[10] = days[20] = None
        prices = {"open": close, "high": close * 1.02, "low": close * 0.99, "close": close * 1.01}
        frames.append(pl.DataFrame({"timestamp": days, "exchange": name, **prices}))
    candles = pl.concat(frames, how="vertical_relaxed").with_columns(
        close=pl.when(pl.int_range(pl.len()) % 29 != 0).then("close"),
        interval=pl.when(pl.int_range(pl.len()) % 31 != 0).then(pl.lit("1d")),
    )
    for frame in (candles, candles.sample(fraction=1.0, shuffle=True, seed=1)):
        in_memory = realized_volatility(frame, window=window, estimator=estimator, by="exchange")
        plan = realized_volatility(frame.lazy(), window=window, estimator=estimator, by="exchange").collect()
        assert_frame_equal(in_memory, plan, rel_tol=1e-9)
        assert in_memory["realized_volatility"].count() > 50


def test_prices_that_do_not_move_have_no_volatility() -> None:
    frame = CANDLES.with_columns(pl.lit(7.3).alias(name) for name in ("open", "high", "low", "close"))
    for estimator in ESTIMATORS:
        assert volatilities(frame, window=3, estimator=estimator, interval="1d")[3:] == [0.0] * 5


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"window": 1}, "window"),
        ({"window": 2, "estimator": "parkinsons"}, "did you mean 'parkinson'"),
        ({"window": 2, "interval": "2x"}, "interval"),
        ({"window": 2, "days_per_year": 0}, "days_per_year"),
    ],
)
def test_bad_arguments_of_volatility(options: dict[str, object], said: str) -> None:
    with pytest.raises(QueryError, match=said):
        realized_volatility(CANDLES, **{"interval": "1d", **options})


# --- term structure --------------------------------------------------------------------------------------------------

SUMMARIES = pl.DataFrame(
    [
        ("BTC", "ONE_M", START, 52.5),
        ("BTC", "ONE_W", START, 54.75),
        ("BTC", "ONE_W", START + timedelta(hours=1), 51.0),
        ("BTC", "ONE_M", START + timedelta(hours=1), 51.5),
        ("ETH", "ONE_M", START, 70.0),
        ("ETH", "SOON", START, 71.0),
    ],
    schema=["coin", "tenor", "timestamp", "implied_volatility"],
    orient="row",
)


def test_tenors_stand_in_order_of_their_length() -> None:
    rows = tenor_structure(SUMMARIES).select("coin", "tenor", "days", "implied_volatility").rows()
    assert rows == [
        ("BTC", "ONE_W", 7.0, 54.75),
        ("BTC", "ONE_M", 30.0, 52.5),
        ("BTC", "ONE_W", 7.0, 51.0),
        ("BTC", "ONE_M", 30.0, 51.5),
        ("ETH", "SOON", None, 71.0),
        ("ETH", "ONE_M", 30.0, 70.0),
    ]


def test_at_a_time_there_is_the_last_of_each_series() -> None:
    at = tenor_structure(SUMMARIES, at=START + timedelta(minutes=90))
    assert at.select("coin", "timestamp").unique().sort("coin").rows() == [
        ("BTC", START + timedelta(hours=1)),
        ("ETH", START),
    ]
    assert tenor_structure(SUMMARIES, at="2026-03-04").is_empty()


def test_slope_and_its_name() -> None:
    slopes = tenor_slope(SUMMARIES, short="1w", long="1m")
    assert slopes.select("coin", "slope", "structure").rows() == [
        ("BTC", -2.25, "backwardation"),
        ("BTC", 0.5, "contango"),
        ("ETH", None, None),
    ]
    assert tenor_slope(SUMMARIES, short="1w", long="1m", flat=0.5)["structure"].to_list()[1] == "flat"


def test_the_value_is_the_one_that_there_is() -> None:
    skews = SUMMARIES.rename({"implied_volatility": "skew"})
    assert tenor_slope(skews, short="1w", long="1m")["slope"].to_list() == [-2.25, 0.5, None]
    both = SUMMARIES.with_columns(skew=pl.lit(1.0))
    with pytest.raises(QueryError, match="the frame has both"):
        tenor_structure(both)
    assert "skew" in tenor_structure(both, value="skew").columns
    with pytest.raises(MissingColumnError, match="implied_volatility"):
        tenor_structure(SUMMARIES.drop("implied_volatility"))


@pytest.mark.parametrize(
    "options", [{"short": "1m", "long": "1w"}, {"short": "1w", "long": "2w"}, {"flat": -1}]
)
def test_bad_arguments_of_slopes(options: dict[str, object]) -> None:
    with pytest.raises(QueryError):
        tenor_slope(SUMMARIES, **{"short": "1w", "long": "1m", **options})


@pytest.mark.slow
def test_as_the_service_serves_it() -> None:
    with Client.demo() as client:
        held = client.markets(type="IMPLIED_VOLATILITY_OPTION_SUMMARY_AGG").filter(pl.col("coin") == "BTC")
        first = held["available_since"].min()
        frame = client.implied_volatility(
            exchange=held["exchange"][0],
            raw_symbol=held["raw_symbol"][0],
            interval="1h",
            start=first,
            end=first + timedelta(hours=6),
        )
    structure = tenor_structure(frame)
    assert len(structure) == len(frame) > 6
    assert structure["days"].null_count() == 0
    first_time = structure.filter(pl.col("timestamp") == structure["timestamp"][0])
    assert first_time["days"].is_sorted()


# --- z-score and percentile -------------------------------------------------------------------------------------------

VALUES = [3.0, 1.0, None, 4.0, 1.0, 5.0, 9.0, 2.0, float("nan"), 6.0, 5.0, 5.0]
HISTORY = pl.DataFrame({"timestamp": range(len(VALUES)), "x": VALUES})


def before(row: int, window: int) -> list[float]:
    return [v for v in VALUES[max(row - window, 0) : row] if v is not None and not isnan(v)]


@pytest.mark.parametrize(("window", "least"), [(3, 2), (5, 5), (5, 2), (40, 2)])
def test_z_score_and_percentile_equal_plain_loops(window: int, least: int) -> None:
    z = z_score(HISTORY, value="x", window=window, least=least)["z_score"].to_list()
    p = percentile(HISTORY, value="x", window=window, least=least)["percentile"].to_list()
    plan = percentile(HISTORY.lazy(), value="x", window=window, least=least).collect()
    assert plan["percentile"].to_list() == pytest.approx(p)
    for row, x in enumerate(VALUES):
        past = before(row, window)
        if x is None or isnan(x) or len(past) < least:
            assert z[row] is None
            assert p[row] is None
            continue
        spread = statistics.stdev(past)
        assert z[row] == (pytest.approx((x - statistics.mean(past)) / spread) if spread else None)
        below = sum(1.0 if v < x else 0.5 if v == x else 0.0 for v in past)
        assert p[row] == pytest.approx(100 * below / len(past))


def test_a_window_of_a_year_of_hours_is_ranked() -> None:
    hours = np.arange(9_000)
    frame = pd.DataFrame({"timestamp": hours, "x": (hours * 7_919 % 9_001).astype(float)}, index=hours[::-1])
    found = percentile(frame, value="x", window=8_760)
    assert found.index.equals(frame.index)
    past, now = frame["x"].to_numpy()[-8_761:-1], frame["x"].to_numpy()[-1]
    assert found["percentile"].to_numpy()[-1] == pytest.approx(100 * (past < now).mean())
    assert found["percentile"].notna().sum() == 240


def test_values_that_are_all_the_same_have_no_z_score() -> None:
    frame = pl.DataFrame({"timestamp": range(6), "x": [0.1 + 0.2, 0.3, 0.3, 0.3, 0.3, 0.30001]})
    assert z_score(frame, value="x", window=3)["z_score"].to_list() == [None] * 6


def test_the_future_leaves_the_past_as_it_was() -> None:
    changed = HISTORY.with_columns(x=pl.when(pl.col("timestamp") >= 7).then(-1e6).otherwise("x"))
    for function, name in ((z_score, "z_score"), (percentile, "percentile")):
        now, then = (function(frame, value="x", window=3, least=2)[name][:7] for frame in (HISTORY, changed))
        assert now.to_list() == then.to_list()


def test_bad_arguments_of_comparisons() -> None:
    with pytest.raises(QueryError, match="window"):
        z_score(HISTORY, value="x", window=1)
    with pytest.raises(QueryError, match="at most the window"):
        percentile(HISTORY, value="x", window=3, least=4)
    with pytest.raises(QueryError, match="a frame without it"):
        z_score(HISTORY.with_columns(z_score=0), value="x", window=3)
    with pytest.raises(MissingColumnError, match="y"):
        percentile(HISTORY, value="y", window=3)


# --- rank, holes, impossible prices -------------------------------------------------------------------------------


@pytest.mark.parametrize(("window", "least"), [(2, 2), (3, 2), (40, 5)])
def test_rank_equals_the_plain_loop(window: int, least: int) -> None:
    values = HISTORY.sort("timestamp")["x"].fill_nan(None).to_list()
    expected: list[float | None] = []
    for place, value in enumerate(values):
        before = [x for x in values[max(place - window, 0) : place] if x is not None]
        known = value is not None and len(before) >= least and max(before) > min(before)
        expected.append(100 * (value - min(before)) / (max(before) - min(before)) if known else None)
    for frame in (HISTORY, HISTORY.lazy()):
        got = rank(frame, value="x", window=window, least=least)
        got = (got.collect() if isinstance(got, pl.LazyFrame) else got).sort("timestamp")
        assert got["rank"].to_list() == [x if x is None else pytest.approx(x) for x in expected]


def test_a_window_across_a_hole_says_since_when_it_is() -> None:
    days = [0, 1, 2, 3, 100, 101]
    frame = pl.DataFrame({"timestamp": [day * DAY for day in days], "x": [1.0, 3.0, 2.0, 5.0, 4.0, 1.0]})
    for function, name in ((z_score, "z_score"), (percentile, "percentile"), (rank, "rank")):
        got = function(frame, value="x", window=2)
        assert got[f"{name}_since"].to_list() == [None, 0, 0, DAY, 2 * DAY, 3 * DAY]
        with pytest.raises(QueryError, match=f"{name}_since"):
            function(got.drop(name), value="x", window=2)


def test_a_variance_below_zero_is_no_volatility() -> None:
    prices = {"open": [100.0] * 3, "high": [101.0] * 3, "low": [99.0] * 3, "close": [110.0] * 3}
    frame = pl.DataFrame({"timestamp": [0, DAY, 2 * DAY], **prices})
    got = realized_volatility(frame, window=2, interval="1d", estimator="garman_klass")
    assert got["realized_volatility"].to_list() == [None, None, None]
    still = frame.with_columns(pl.lit(100.0).alias(name) for name in prices)
    got = realized_volatility(still, window=2, interval="1d", estimator="garman_klass")
    assert got["realized_volatility"].to_list() == [None, 0.0, 0.0]
    assert str(got["realized_volatility"][1]) == "0.0"
