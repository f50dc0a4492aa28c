"""Defaults of ``by``: whatever tells the rows of one time apart is among them, so that no default finds only nulls."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import polars as pl
import pytest

from analytics.matrix import cases
from tidytape.analytics import cross, depth, funding, options, quality
from tidytape.analytics._series import row_columns
from tidytape.frames._table import OpenTable

START = datetime(2026, 3, 5, 8, tzinfo=UTC)
HOURS = [START + timedelta(hours=hour) for hour in range(12)]

_OF_SESSIONS = {"period_end", "block", "low", "end", "row", "n", "rate"}
"""Keys of what is no value that changes over time: parts of a session, and rows that only the test names."""


@pytest.mark.slow
@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=f"{namespace}.{case}")
        for namespace, case in cases()
        if "timestamp" in case.key
        and not _OF_SESSIONS & set(case.key)
        and namespace not in ("quality", "profile")
        and case.function != "leaks"  # which lists values, not points
    ],
)
def test_what_tells_rows_of_a_result_apart_is_among_the_defaults(case):
    result = case.call(*case.frames)
    result = result.collect() if isinstance(result, pl.LazyFrame) else result
    default = {*row_columns(OpenTable.of(result)), "timestamp"}
    # ``days`` of one time and ``expiry``, or tenor, name the same maturity.
    same = {"days"} if default & {"expiry", "tenor"} else set()
    assert set(case.key) - same <= default


def points(**columns):
    """Volatilities that rise by one an hour, of two maturities of one coin."""
    frames = [
        pl.DataFrame(
            {"coin": "BTC", "timestamp": HOURS, "days": days, "iv_atm": [level + n for n in range(12)]}
        )
        for days, level in ((20.0, 40.0), (40.0, 60.0))
    ]
    return pl.concat(frames).with_columns(**columns)


def every_value(frame, value):
    """Percentile and z-score of the last rows, each by the defaults."""
    ranked = options.percentile(frame, value=value, window=3)
    scored = options.z_score(frame, value=value, window=3)
    last = pl.col("timestamp") == pl.col("timestamp").max()
    return ranked.filter(last)["percentile"].to_list(), scored.filter(last)["z_score"].to_list()


def test_maturities_are_ranked_each_among_its_own():
    curve = options.constant_maturity(points(), days=[20, 30])
    ranks, scores = every_value(curve, "iv_atm")
    assert ranks == [100.0, 100.0]
    assert scores[0] == pytest.approx(2.0)  # one above the highest of three that are one apart
    structure = options.term_structure(curve)
    assert every_value(structure, "implied_volatility")[0] == [100.0, 100.0]
    steep = pl.concat(
        [options.slope(structure, short=20, long=30), options.slope(structure, short=20, long=30)]
    ).with_columns(short_days=pl.Series([20.0] * 12 + [10.0] * 12))
    assert None not in every_value(steep, "long")[0]


def test_expiries_are_ranked_each_among_its_own_although_their_days_shrink():
    expiring = points(expiry=pl.lit(START) + pl.duration(days=pl.col("days").cast(pl.Int64)))
    expiring = expiring.with_columns(
        days=(pl.col("expiry") - pl.col("timestamp")).dt.total_seconds() / 86_400
    )
    assert every_value(expiring, "iv_atm")[0] == [100.0, 100.0]


@pytest.mark.slow
def test_distances_sizes_and_windows_are_ranked_each_among_its_own():
    book = pl.DataFrame(
        [
            (time, side, price, 1.0 + n)
            for n, time in enumerate(HOURS)
            for side, price in (("BID", 99.9), ("ASK", 100.1))
        ],
        schema=["timestamp", "side", "price", "size"],
        orient="row",
    )
    assert every_value(depth.depth_within(book, bps=[10, 20]), "bid_depth")[0] == [100.0, 100.0]
    curve = depth.slippage(book, size=[0.5, 1.0])
    assert every_value(curve, "filled")[0] == [50.0] * 4
    levels = book.select("timestamp", "price", volume="size")
    assert every_value(levels, "volume")[0] == [100.0, 100.0]
    candles = pl.DataFrame({"coin": "BTC", "timestamp": HOURS, "close": [100.0 + n**2 for n in range(12)]})
    realized = pl.concat(
        [options.realized_volatility(candles, window=window, interval="1h") for window in (2, 3)]
    )
    assert None not in every_value(realized, "realized_volatility")[0]


def test_spreads_of_pairs_of_markets_are_ranked_each_among_its_own():
    rates = pl.concat(
        pl.DataFrame({"exchange": venue, "raw_symbol": "X", "coin": "BTC", "timestamp": HOURS,
                      "rate_close": [slope * n for n in range(12)], "funding_interval": 8.0})
        for venue, slope in (("A", 3e-5), ("B", 2e-5), ("C", 1e-5))
    )  # fmt: skip
    pairs = funding.spread(rates)
    assert None not in every_value(pairs, "spread")[0]


def test_markets_are_compared_at_each_maturity():
    both = pl.concat([points(exchange=pl.lit(venue), raw_symbol=pl.lit("X")) for venue in "AB"])
    both = both.with_columns(pl.col("iv_atm") * pl.when(pl.col("exchange") == "B").then(1.1).otherwise(1.0))
    over = cross.premium(both, value="iv_atm", reference={"exchange": "A"})
    assert over.group_by("days", "exchange").agg(pl.col("premium").round(6).first()).sort(pl.all()).rows() == [
        (20.0, "A", 0.0), (20.0, "B", 0.1), (40.0, "A", 0.0), (40.0, "B", 0.1)
    ]  # fmt: skip


def test_strikes_keep_apart_between_maturities():
    frames = [points(moneyness=pl.lit(k), implied_volatility=pl.col("iv_atm") + k) for k in (-0.1, 0.1)]
    between = options.constant_maturity(pl.concat(frames), days=30, columns=["implied_volatility"])
    assert between.height == 24
    assert between["implied_volatility"].null_count() == 0


def test_maturities_are_no_repeated_rows():
    assert quality.audit(points(), interval="1h").is_empty()


def test_a_maturity_that_is_null_is_a_series_of_its_own_on_every_engine(engine):
    frame = points(days=pl.when(pl.col("days") == 20.0).then(20.0))
    wanted = options.percentile(frame, value="iv_atm", window=3)
    assert wanted["percentile"].to_list().count(100.0) == 18
    got = engine.polars(options.percentile(engine.frame(frame), value="iv_atm", window=3))
    order = ["days", "timestamp"]
    assert got.sort(order)["percentile"].to_list() == wanted.sort(order)["percentile"].to_list()


@pytest.mark.slow
def test_each_window_of_the_realised_has_its_own_premium(engine):
    candles = pl.DataFrame({"coin": "BTC", "timestamp": HOURS, "close": [100.0 + n**2 for n in range(12)]})
    realized = pl.concat(
        options.realized_volatility(candles, window=window, interval="1h") for window in (2, 3)
    )
    implied = pl.DataFrame({"coin": ["BTC", "ETH"], "timestamp": HOURS[-1], "implied_volatility": 50.0})
    given = {"implied_interval": "1h", "realized_interval": "1h"}
    premium = options.volatility_risk_premium(engine.frame(implied), engine.frame(realized), **given)
    wanted = realized.filter(pl.col("timestamp") == HOURS[-1]).sort("window")["realized_volatility"].to_list()
    rows = engine.polars(premium).sort("coin", "realized_window", nulls_last=True)
    assert rows.select("coin", "realized_estimator", "realized_window").rows() == [
        ("BTC", "close_to_close", 2), ("BTC", "close_to_close", 3), ("ETH", None, None)
    ]  # fmt: skip
    assert rows["realized_volatility"].to_list() == [*map(pytest.approx, wanted), None]
    assert rows["volatility_risk_premium"].null_count() == 1
