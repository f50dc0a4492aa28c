"""Order flow: literal values, what is unknown, what is refused, recorded trades, and the demo's markets."""

from __future__ import annotations

import gzip
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pandas as pd
import polars as pl
import pytest

import tidytape
from engines import Engine
from tables import each_row
from tidytape.analytics import flow
from tidytape.errors import MissingColumnError, QueryError

NOON = datetime(2024, 8, 8, 12, tzinfo=UTC)


def at(minute: float) -> datetime:
    return NOON + timedelta(minutes=minute)


def frame(names: str, *rows: tuple) -> pl.DataFrame:
    """Rows whose first value is the minute after noon."""
    columns = ["timestamp", *names.split()]
    return pl.DataFrame([(at(minute), *values) for minute, *values in rows], schema=columns, orient="row")


def minutes(found: pl.DataFrame, *columns: str, time: str = "timestamp") -> list[tuple]:
    """The minute of each row, and some columns of it."""
    minute = (pl.col(time).dt.convert_time_zone("UTC") - NOON).dt.total_seconds() / 60
    return found.select(minute.alias("minute"), *columns).rows()


# --- delta and imbalance --------------------------------------------------------------------------------------------

SIDES = frame(
    "side volume", (0, "BUY", 3.0), (0, "SELL", 1.0), (1, "SELL", 2.0), (2, "BUY", 0.0), (7, "BUY", 0.5)
)


def test_delta_is_bought_less_sold_and_a_side_without_a_row_is_none() -> None:
    assert minutes(flow.delta(SIDES), "buy_volume", "sell_volume", "delta") == [
        (0, 3.0, 1.0, 2.0),
        (1, 0.0, 2.0, -2.0),
        (2, 0.0, 0.0, 0.0),
        (7, 0.5, 0.0, 0.5),
    ]


def test_imbalance_is_a_share_and_null_where_nothing_was_traded() -> None:
    assert minutes(flow.imbalance(SIDES), "imbalance") == [(0, 0.5), (1, -1.0), (2, None), (7, 1.0)]


def test_intervals_are_summed_and_named() -> None:
    named = SIDES.with_columns(exchange=pl.lit("A"), interval=pl.lit("MINUTE"))
    found = flow.delta(named, interval="5m")
    assert found.columns == ["timestamp", "exchange", "interval", "buy_volume", "sell_volume", "delta"]
    assert found["interval"].unique().to_list() == ["5m"]
    assert minutes(found, "delta") == [(0, 0.0), (5, 0.5)]


@pytest.mark.slow
def test_an_interval_may_be_told_by_its_length() -> None:
    named = SIDES.with_columns(exchange=pl.lit("A"), interval=pl.lit("MINUTE"))
    for function in (flow.delta, flow.imbalance, flow.cvd):
        assert function(named, interval=timedelta(minutes=5)).equals(function(named, interval="5m"))
    assert flow.delta(named, interval=timedelta(hours=2)).equals(flow.delta(named, interval="2h"))
    with pytest.raises(QueryError, match="interval"):
        flow.delta(named, interval=timedelta(days=8))


def test_candles_longer_than_the_interval_are_not_cut(engine: Engine) -> None:
    mixed = SIDES.with_columns(
        interval=pl.when(pl.col("volume") == 3.0).then(pl.lit("HOUR")).otherwise(pl.lit("MINUTE"))
    )
    found = engine.polars(flow.delta(engine.frame(mixed), interval="5m")).sort("timestamp")
    assert minutes(found, "delta") == [(0, None), (5, 0.5)]


def test_trades_are_of_no_interval_whatever_they_were_asked_at() -> None:
    trades = SIDES.rename({"volume": "amount"}).with_columns(interval=pl.lit("HOUR"), id=pl.lit("1"))
    found = flow.delta(trades, interval="5m")
    assert minutes(found, "interval", "delta") == [(0, "5m", 0.0), (5, "5m", 0.5)]


@pytest.mark.parametrize(
    ("side", "volume"),
    [("BUY", None), ("BUY", float("nan")), ("BUY", float("inf")), ("SELL", -1.0), ("N", 1.0), (None, 1.0)],
)
def test_what_is_unknown_makes_its_own_time_null_and_no_other(
    engine: Engine, side: str | None, volume: float | None
) -> None:
    bad = SIDES.vstack(frame("side volume", (1, side, volume)).cast(SIDES.schema))
    found = engine.polars(flow.delta(engine.frame(bad))).sort("timestamp").fill_nan(None)
    assert minutes(found, "buy_volume", "delta") == [
        (0, 3.0, 2.0),
        (1, None, None),
        (2, 0.0, 0.0),
        (7, 0.5, 0.5),
    ]
    shares = engine.polars(flow.imbalance(engine.frame(bad))).sort("timestamp").fill_nan(None)
    assert minutes(shares, "imbalance") == [(0, 0.5), (1, None), (2, None), (7, 1.0)]


def test_a_row_without_a_time_is_left_out(engine: Engine) -> None:
    late = SIDES.vstack(pl.DataFrame({"timestamp": [None], "side": "BUY", "volume": 9.0}).cast(SIDES.schema))
    found = engine.polars(flow.delta(engine.frame(late))).sort("timestamp")
    assert found["delta"].to_list() == [2.0, -2.0, 0.0, 0.5]
    late = LIQUIDATED.vstack(
        pl.DataFrame({"timestamp": [None], "side": "BUY", "liquidations": 9.0}).cast(LIQUIDATED.schema)
    )
    cascades = engine.polars(flow.liquidation_cascades(engine.frame(late), threshold=5, gap="1m"))
    assert cascades.sort("start")["liquidations"].to_list() == [5.0, 6.0]
    late = PRICES.vstack(pl.DataFrame({"timestamp": [None], "open": 9.0, "close": 9.0}).cast(PRICES.schema))
    quadrants = engine.polars(flow.oi_price_quadrant(engine.frame(INTEREST), engine.frame(late)))
    assert len(quadrants) == len(PRICES)


def test_delta_of_a_profile_has_rows_of_prices() -> None:
    profile = frame("price buy_volume sell_volume volume", (0, 10.0, 1.0, 2.5, 3.5), (0, 11.0, 4.0, 0.0, 4.0))
    assert flow.delta(profile, by="price").select("price", "delta").rows() == [(10.0, -1.5), (11.0, 4.0)]


def test_another_column_of_amounts_may_be_named() -> None:
    trades = frame("side amount quote_amount", (0, "BUY", 1.0, 50.0), (0, "SELL", 2.0, 20.0))
    assert flow.delta(trades)["delta"].item() == -1.0
    assert flow.delta(trades, volume="quote_amount")["delta"].item() == 30.0


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(MissingColumnError, match="volume"):
        flow.delta(SIDES.drop("volume"))
    with pytest.raises(MissingColumnError, match="side"):
        flow.delta(SIDES.drop("side"))
    with pytest.raises(QueryError, match="numbers in column volume"):
        flow.delta(SIDES.with_columns(pl.col("volume").cast(pl.String)))
    with pytest.raises(QueryError, match="side"):
        flow.delta(SIDES, by="side")
    with pytest.raises(QueryError, match="zone"):
        flow.delta(SIDES.with_columns(pl.col("timestamp").dt.replace_time_zone(None)))
    with pytest.raises(QueryError, match="did you mean"):
        flow.delta(SIDES, interval="MINUTE S")


# --- cvd ------------------------------------------------------------------------------------------------------------


def test_cvd_runs_on_from_the_first_row() -> None:
    found = flow.cvd(SIDES)
    assert minutes(found, "delta", "cvd") == [(0, 2.0, 2.0), (1, -2.0, 0.0), (2, 0.0, 0.0), (7, 0.5, 0.5)]
    assert found["anchor"].unique().to_list() == ["none"]
    assert found["anchored_at"].unique().to_list() == [NOON]


HOURS = pl.DataFrame(
    {
        "timestamp": [datetime(2024, 8, 11, tzinfo=UTC) + timedelta(hours=8 * n) for n in range(6)],
        "side": "BUY",
        "volume": [1.0, 2.0, 4.0, 8.0, 16.0, 32.0],
    }
)


@pytest.mark.parametrize(
    ("session", "opens", "expected"),
    [
        ("1d", None, [1, 3, 7, 8, 24, 56]),
        ("8h", None, [1, 2, 4, 8, 16, 32]),
        ("16h", "2024-08-11", [1, 3, 4, 12, 16, 48]),
        (
            "1w",
            None,
            [1, 3, 7, 8, 24, 56],
        ),  # the 11th of August 2024 was a Sunday, so the second day opens a week
        ("1d", "2030-01-01T08:00Z", [1, 2, 6, 14, 16, 48]),
        (timedelta(hours=16), 1723334400 - 16 * 3600, [1, 3, 4, 12, 16, 48]),
    ],
)
def test_cvd_starts_anew_with_each_session(session, opens, expected) -> None:
    found = flow.cvd(HOURS, anchor="session", period=session, session_open=opens)
    assert found["cvd"].to_list() == expected


def test_sessions_say_when_they_opened(engine: Engine) -> None:
    found = engine.polars(
        flow.cvd(engine.frame(HOURS), anchor="session", period="16h", session_open="2024-08-11")
    )
    opened = found.sort("timestamp")["anchored_at"].dt.convert_time_zone("UTC").to_list()
    assert opened == [datetime(2024, 8, 11, tzinfo=UTC) + timedelta(hours=16 * n) for n in (0, 0, 1, 1, 2, 2)]


def test_sessions_of_any_length_may_be_a_column() -> None:
    named = HOURS.with_columns(session=pl.Series(["a", "b", "b", "b", "c", "c"]))
    assert flow.cvd(named, by="session")["cvd"].to_list() == [1, 2, 6, 14, 16, 48]


@pytest.mark.parametrize(
    ("interval", "session", "opens", "whole"),
    [
        ("1h", "1d", "2024-08-08T13:30Z", "30m"),
        ("1d", "8h", None, "4h"),  # longer than the session
        ("4h", timedelta(hours=6), None, "1h"),
        ("1w", timedelta(days=7), "2024-08-08", "1d"),
    ],
)
def test_a_session_does_not_open_within_an_interval(interval, session, opens, whole) -> None:
    how = {"anchor": "session", "period": session, "session_open": opens}
    with pytest.raises(QueryError, match=f"interval.*'{whole}'"):
        flow.cvd(SIDES.lazy(), interval=interval, **how)
    assert len(flow.cvd(SIDES, interval=whole, **how))


@pytest.mark.slow
def test_a_candle_of_two_sessions_leaves_both_unknown(engine: Engine) -> None:
    hours = [(60.0 * hour, "BUY", 2.0**hour) for hour in range(6)]
    candles = frame("side volume", *hours, (0.0, "SELL", 0.0)).with_columns(interval=pl.lit("HOUR"))
    found = flow.cvd(engine.frame(candles), anchor="session", period="4h", session_open="2024-08-08T09:30Z")
    got = engine.polars(found).sort("timestamp")["cvd"].fill_nan(None).to_list()
    assert got == [1.0, None, None, None, None, None]  # one opens at 13:30
    later = candles.filter(pl.col("timestamp") != at(60))
    found = flow.cvd(engine.frame(later), anchor="session", period="4h", session_open="2024-08-08T09:30Z")
    got = engine.polars(found).sort("timestamp")["cvd"].fill_nan(None).to_list()
    assert got == [1.0, 4.0, 12.0, 28.0, None]  # and one at 17:30
    trades = candles.with_columns(id=pl.int_range(pl.len()))
    assert flow.cvd(trades, anchor="session", session_open="2024-08-08T13:30Z")["cvd"].null_count() == 0


def test_after_an_unknown_delta_the_sum_is_unknown_until_it_starts_anew() -> None:
    holed = HOURS.with_columns(volume=pl.when(pl.col("volume") == 2).then(None).otherwise("volume"))
    assert flow.cvd(holed)["cvd"].to_list() == [1, None, None, None, None, None]
    assert flow.cvd(holed, anchor="session")["cvd"].to_list() == [1, None, None, 8, 24, 56]


def test_cvd_of_a_delta_is_that_of_its_trades() -> None:
    assert flow.cvd(flow.delta(SIDES)).equals(flow.cvd(SIDES))


@pytest.mark.parametrize("unit", [1.0, 1e9, 1e14])
def test_what_was_bought_and_sold_again_leaves_exactly_nothing(unit, engine: Engine) -> None:
    volumes = [0.1, 0.7, 1 / 3, 0.2, 1e-6, 0.3]
    volumes = [volume * unit for volume in volumes]
    bought = [(minute, "BUY", volume) for minute, volume in enumerate(volumes)]
    sold = [(6 + minute, "SELL", volume) for minute, volume in enumerate(sorted(volumes))]
    frames = engine.frame(frame("side volume", *bought, *sold))
    assert engine.polars(flow.cvd(frames)).sort("timestamp")["cvd"][-1] == 0.0


def test_sums_of_decimals_are_the_decimals_of_a_person() -> None:
    tenths = frame("side volume", *((minute, "BUY", 0.1) for minute in range(1_000)))
    assert flow.cvd(tenths)["cvd"].to_list() == [count / 10 for count in range(1, 1_001)]


def test_an_anchor_or_session_that_is_none_is_refused() -> None:
    with pytest.raises(QueryError, match="anchor"):
        flow.cvd(SIDES, anchor="sessions")
    for session in ("1M", "", "0h", 0):
        with pytest.raises(QueryError, match="period: got"):
            flow.cvd(SIDES, anchor="session", period=session)
    with pytest.raises(QueryError, match="session_open"):
        flow.cvd(SIDES, anchor="session", session_open="noon")
    for unused in ({"period": "8h"}, {"session_open": "2024-08-08T08:00Z"}):
        with pytest.raises(QueryError, match="anchor='session'"):
            flow.cvd(SIDES, **unused)


# --- open interest and price ----------------------------------------------------------------------------------------

PRICES = frame(
    "open close", *((n, p * 0.5, p) for n, p in enumerate([100.0, 101.0, 102.0, 101.0, 99.0, 99.0]))
)
INTEREST = frame("open close", *((n, p * 2, p) for n, p in enumerate([50.0, 52.0, 51.0, 53.0, 49.0, 60.0])))


def test_quadrants_are_named_for_who_opens_and_who_closes() -> None:
    found = flow.oi_price_quadrant(INTEREST, PRICES)
    words = [None, "new_longs", "short_covering", "new_shorts", "long_unwinding", "flat"]
    assert found["quadrant"].to_list() == words
    assert found["price_change"].to_list() == pytest.approx(
        [None, 0.01, 1 / 101, -1 / 102, -2 / 101, 0.0], nan_ok=True
    )
    assert found["open_interest_change"][1] == pytest.approx(0.04)


def test_changes_within_a_band_are_none() -> None:
    found = flow.oi_price_quadrant(INTEREST, PRICES, price_band=0.0099, oi_band=0.05)
    assert found["quadrant"].to_list() == [None, "flat", "flat", "flat", "long_unwinding", "flat"]
    assert found.select("price_band", "oi_band").unique().rows() == [(0.0099, 0.05)]


def test_changes_may_be_those_since_the_open() -> None:
    found = flow.oi_price_quadrant(INTEREST, PRICES, change="open_to_close")
    assert found["quadrant"].to_list() == ["short_covering"] * 6
    assert found["since"].to_list() == found["timestamp"].to_list()
    assert found["price_change"].to_list() == [1.0] * 6


def test_a_change_across_a_gap_says_since_when(engine: Engine) -> None:
    found = engine.polars(
        flow.oi_price_quadrant(engine.frame(INTEREST.gather([0, 1, 4])), engine.frame(PRICES))
    )
    since = found.sort("timestamp").with_columns(pl.col("since").dt.convert_time_zone("UTC"))
    assert minutes(since, time="since") == [(None,), (0,), (1,)]
    assert found.sort("timestamp")["quadrant"].to_list() == [None, "new_longs", "long_unwinding"]


@pytest.mark.parametrize("bad", [None, float("nan"), 0.0, -1.0, float("inf")])
def test_a_close_that_is_none_leaves_two_changes_unknown(engine: Engine, bad: float | None) -> None:
    holed = PRICES.with_columns(close=pl.when(pl.col("close") == 102).then(pl.lit(bad)).otherwise("close"))
    found = engine.polars(flow.oi_price_quadrant(engine.frame(INTEREST), engine.frame(holed)))
    words = [None, "new_longs", None, None, "long_unwinding", "flat"]
    assert found.sort("timestamp")["quadrant"].to_list() == words


def test_two_candles_of_one_time_are_none() -> None:
    found = flow.oi_price_quadrant(INTEREST, PRICES.vstack(PRICES.gather([2])))
    assert found["quadrant"].to_list() == [None, "new_longs", None, None, "long_unwinding", "flat"]


def test_series_do_not_mix_and_null_is_a_name() -> None:
    def named(frame: pl.DataFrame, dtype: pl.DataType) -> pl.DataFrame:
        names = pl.DataFrame({"exchange": ["A", None]}, schema={"exchange": dtype})
        return frame.join(names, how="cross")

    found = flow.oi_price_quadrant(
        named(INTEREST, pl.Categorical()), named(PRICES, pl.String()).with_columns(coin=pl.lit("BTC"))
    )
    assert found["exchange"].dtype == pl.Categorical
    one = flow.oi_price_quadrant(INTEREST, PRICES)
    assert len(found) == 12
    for part in found.partition_by("exchange"):
        assert part.drop("exchange").equals(one)


def test_what_only_describes_a_series_need_not_be_told_twice() -> None:
    one = {"exchange": pl.lit("A"), "raw_symbol": pl.lit("X"), "interval": pl.lit("MINUTE")}
    interest = INTEREST.with_columns(
        **one, normalized_symbol=pl.lit(None, pl.String), category=pl.lit("PERPETUAL")
    )
    candles = PRICES.with_columns(**one, normalized_symbol=pl.lit("X-USD"))
    found = flow.oi_price_quadrant(interest, candles)
    assert found.columns[:5] == ["timestamp", "exchange", "raw_symbol", "interval", "change"]
    assert len(found) == len(PRICES)


def test_candles_by_side_and_bands_below_zero_are_refused() -> None:
    with pytest.raises(QueryError, match="by_side"):
        flow.oi_price_quadrant(INTEREST, PRICES.with_columns(side=pl.lit("BUY")))
    with pytest.raises(QueryError, match="oi_band"):
        flow.oi_price_quadrant(INTEREST, PRICES, oi_band=-0.1)
    with pytest.raises(QueryError, match="change"):
        flow.oi_price_quadrant(INTEREST, PRICES, change="close")
    with pytest.raises(MissingColumnError, match="open"):
        flow.oi_price_quadrant(INTEREST, PRICES.drop("open"), change="open_to_close")
    with pytest.raises(MissingColumnError, match="exchange"):
        flow.oi_price_quadrant(INTEREST.with_columns(exchange=pl.lit("A")), PRICES, by="exchange")


# --- liquidations ---------------------------------------------------------------------------------------------------

LIQUIDATED = frame(
    "side liquidations",
    *((0, "BUY", 3.0), (0, "SELL", 1.0), (1, "BUY", 2.0), (2, "SELL", 4.0), (3, "BUY", 0.0), (9, "BUY", 6.0)),
)


def test_longs_liquidated_make_the_imbalance_positive() -> None:
    found = flow.liquidation_imbalance(LIQUIDATED)
    assert minutes(found, "long_liquidations", "short_liquidations", "liquidation_imbalance") == [
        (0, 3.0, 1.0, 0.5),
        (1, 2.0, 0.0, 1.0),
        (2, 0.0, 4.0, -1.0),
        (3, 0.0, 0.0, None),
        (9, 6.0, 0.0, 1.0),
    ]


def test_totals_of_sampled_feeds_are_marked_as_lower_bounds() -> None:
    assert flow.liquidation_imbalance(LIQUIDATED)["is_lower_bound"].all()
    assert not flow.liquidation_imbalance(LIQUIDATED, sampled=False)["is_lower_bound"].any()
    assert flow.liquidation_cascades(LIQUIDATED, threshold=1, gap="1m")["is_lower_bound"].all()


def test_cascades_are_runs_of_a_side_that_reach_the_threshold() -> None:
    found = flow.liquidation_cascades(LIQUIDATED, threshold=5, gap="1m")
    columns = ("side", "liquidations", "count", "largest")
    assert minutes(found, *columns, time="start") == [(0, "BUY", 5.0, 2, 3.0), (9, "BUY", 6.0, 1, 6.0)]
    assert minutes(found, time="end") == [(1,), (9,)]
    assert minutes(found, time="largest_at") == [(0,), (9,)]
    assert found.select("threshold", "gap", "smallest").unique().rows() == [(5.0, 60.0, 0.0)]


def test_a_longer_gap_joins_runs_and_sides_join_if_so_asked() -> None:
    found = flow.liquidation_cascades(LIQUIDATED, threshold=5, gap=timedelta(minutes=8), by=[])
    assert minutes(found, "liquidations", "count", time="start") == [(0, 16.0, 5)]
    found = flow.liquidation_cascades(LIQUIDATED, threshold=5, gap="8m", by=[], smallest=2.5)
    assert minutes(found, "liquidations", "count", time="start") == [(0, 13.0, 3)]


@pytest.mark.parametrize("bad", [None, float("nan"), float("inf"), -7.0])
def test_a_run_with_an_unknown_amount_may_be_a_cascade_and_has_no_sum(
    engine: Engine, bad: float | None
) -> None:
    more = LIQUIDATED.vstack(
        frame("side liquidations", (4, "BUY", bad), (30, "SELL", bad)).cast(LIQUIDATED.schema)
    )
    found = engine.polars(flow.liquidation_cascades(engine.frame(more), threshold=5, gap="3m", smallest=1))
    found = found.sort("start", "side").with_columns(pl.col("liquidations", "largest").fill_nan(None))
    columns = ("side", "liquidations", "count", "largest")
    assert minutes(found, *columns, time="start") == [
        (0, "BUY", None, 3, None),
        (0, "SELL", 5.0, 2, 4.0),
        (9, "BUY", 6.0, 1, 6.0),
        (30, "SELL", None, 1, None),
    ]
    assert minutes(found.filter(pl.col("largest_at").is_not_null()), time="largest_at") == [(2,), (9,)]


def test_a_liquidation_of_nothing_continues_no_run(engine: Engine) -> None:
    more = LIQUIDATED.vstack(frame("side liquidations", (5, "BUY", 0.0)).cast(LIQUIDATED.schema))
    found = engine.polars(flow.liquidation_cascades(engine.frame(more), threshold=5, gap="5m"))
    assert found.sort("start")["liquidations"].to_list() == [5.0, 5.0, 6.0]


def test_a_pause_is_measured_to_the_nanosecond() -> None:
    start = pd.Timestamp("2024-08-08T12:00:00.000000001Z")
    for more, runs in ((0, 1), (1, 2)):
        times = [start, start + pd.Timedelta("1s") + pd.Timedelta(more, "ns")]
        liquidations = pd.DataFrame({"timestamp": times, "liquidations": 1.0})
        found = flow.liquidation_cascades(liquidations, threshold=1, gap="1s")
        assert len(found) == runs
        assert found["start"].iloc[0] == start
        assert found["end"].iloc[-1] == times[1]


def test_thresholds_and_gaps_that_are_none_are_refused() -> None:
    for threshold in (0, -1, float("nan"), "5", True):
        with pytest.raises(QueryError, match="threshold"):
            flow.liquidation_cascades(LIQUIDATED, threshold=threshold, gap="1m")
    for gap in ("", "soon", 1.5, timedelta(0)):
        with pytest.raises(QueryError, match="gap"):
            flow.liquidation_cascades(LIQUIDATED, threshold=1, gap=gap)
    with pytest.raises(MissingColumnError, match="liquidations"):
        flow.liquidation_cascades(LIQUIDATED.drop("liquidations"), threshold=1, gap="1m")


# --- large trades ---------------------------------------------------------------------------------------------------

TRADES = frame("side amount", *((n / 8, "BUY", a) for n, a in enumerate([1.0, 2.0, 3.0, 4.0, 10.0, 3.0])))


def test_trades_of_the_size_and_above_are_large() -> None:
    found = flow.large_trade_share(TRADES, at_least=4)
    assert found.drop("timestamp").rows() == [(4.0, "at_least", 2, 6, 14.0, 23.0, 14 / 23)]
    assert found["timestamp"].to_list() == [NOON]


@each_row(
    ("quantile", "threshold", "count"),
    [
        (0.5, 3.0, 2),
        (0.49, 3.0, 2),
        (1 / 3, 2.0, 4),
        (0.84, 10.0, 0),
        (0.83, 4.0, 1),
        (0.01, 1.0, 5),
        (1e-12, 1.0, 5),
    ],
)
def test_trades_above_a_quantile_of_their_own_are_large(
    quantile: float, threshold: float, count: int
) -> None:
    found = flow.large_trade_share(TRADES, above_quantile=quantile)
    assert found.select("threshold", "large_trades", "threshold_rule").row(0) == (
        threshold,
        count,
        "above_quantile",
    )


def test_both_sides_count_together_unless_asked_apart() -> None:
    both = TRADES.with_columns(side=pl.Series(["BUY", "SELL"] * 3), exchange=pl.lit("A"))
    assert flow.large_trade_share(both, at_least=4)["large_trade_share"].to_list() == [14 / 23]
    apart = flow.large_trade_share(both, at_least=4, by="side")
    assert apart.select("side", "large_trade_share").rows() == [("BUY", 10 / 14), ("SELL", 4 / 9)]


def test_an_amount_that_is_none_leaves_its_row_unknown(engine: Engine) -> None:
    holed = TRADES.with_columns(
        amount=pl.when(pl.col("amount") == 4).then(None).otherwise("amount"),
        exchange=pl.when(pl.col("amount") < 4).then(pl.lit("A")).otherwise(pl.lit("B")),
    )
    for rule in ({"at_least": 3}, {"above_quantile": 0.5}):
        found = engine.polars(flow.large_trade_share(engine.frame(holed), **rule)).sort("exchange")
        assert found["large_trade_share"].fill_nan(None).to_list() == [6 / 9, None]
        assert found["trades"].to_list() == [4, 2]


def test_one_threshold_is_given_and_is_one() -> None:
    for rules in ({}, {"at_least": 1, "above_quantile": 0.5}, {"at_least": 0}, {"above_quantile": 1}):
        with pytest.raises(QueryError):
            flow.large_trade_share(TRADES, **rules)


# --- what was recorded, and the demo --------------------------------------------------------------------------------


def test_recorded_trades_add_up(recorded: Path) -> None:
    with gzip.open(recorded / "coinbase_btc-usd_trades_20230905.csv.gz") as file:
        trades = pl.read_csv(file).with_columns(
            pl.col("timestamp").str.to_datetime(time_unit="us", time_zone="UTC"),
            pl.col("side").str.to_uppercase(),
        )
    found = flow.cvd(trades, by="symbol", interval="1m")
    signed = pl.when(pl.col("side") == "BUY").then("amount").otherwise(-pl.col("amount"))
    assert found["cvd"][-1] == pytest.approx(trades.select(signed.sum()).item(), rel=1e-9)
    assert len(found) == 60
    share = flow.large_trade_share(trades, by="symbol", at_least=1)
    large = trades.filter(pl.col("amount") >= 1)
    assert share.select("large_trades", "trades").row(0) == (len(large), 5_882)
    assert share["large_volume"].item() == pytest.approx(large["amount"].sum(), rel=1e-12)


DAY = {
    "exchange": "DEMO_PERP",
    "raw_symbol": "BTC-PERP",
    "start": "2024-08-08T12:00",
    "end": "2024-08-08T18:00",
}


@pytest.fixture(scope="module")
def client() -> tidytape.Client:
    return tidytape.Client.demo()


@pytest.mark.slow
def test_candles_by_side_and_their_trades_say_the_same(client: tidytape.Client) -> None:
    of_candles = flow.delta(client.candles(by_side=True, interval="5m", **DAY))
    of_trades = flow.delta(client.trades(**DAY), interval="5m")
    same = ["exchange", "raw_symbol", "timestamp", "buy_volume", "sell_volume", "delta"]
    assert of_candles.select(same).equals(of_trades.select(same))
    assert len(of_candles) == 72


@pytest.mark.slow
def test_what_the_client_gives_goes_in_as_it_is(client: tidytape.Client) -> None:
    interest = client.open_interest(interval="5m", **DAY)
    found = flow.oi_price_quadrant(interest, client.candles(interval="5m", **DAY), price_band=1e-4)
    assert set(found["quadrant"].drop_nulls()) == {
        *("new_longs", "short_covering", "new_shorts", "long_unwinding", "flat")
    }
    assert len(found) == 72
    liquidations = client.liquidations(interval="5m", **DAY)
    cascades = flow.liquidation_cascades(liquidations, threshold=10, gap="5m")
    assert len(cascades)
    assert (cascades["liquidations"] >= 10).all()
    total = flow.liquidation_imbalance(liquidations, interval="1d")
    sides = total.select("long_liquidations", "short_liquidations").row(0)
    assert sum(sides) == pytest.approx(liquidations["liquidations"].sum())


def test_an_hour_has_no_large_trades_of_five_minutes() -> None:
    candles = pl.DataFrame({"timestamp": NOON, "interval": ["HOUR"], "volume": [9.0]})
    share = flow.large_trade_share(candles, at_least=1, interval="5m", volume="volume")
    assert share.select("volume", "large_trade_share", "threshold").row(0) == (None, None, None)
    assert flow.large_trade_share(candles, at_least=1, interval="1d", volume="volume")["volume"].item() == 9.0


def test_frames_that_are_not_what_they_should_be_are_refused() -> None:
    candles = PRICES.with_columns(volume=1.0)
    with pytest.raises(QueryError, match="open_interest"):
        flow.oi_price_quadrant(candles, INTEREST)
    with pytest.raises(QueryError, match="candles"):
        flow.oi_price_quadrant(INTEREST, PRICES.to_pandas())


def test_rows_of_two_intervals_have_no_quadrant() -> None:
    interest, candles = (
        rows.with_columns(exchange=pl.lit("A"), interval=pl.lit(interval))
        for rows, interval in ((INTEREST, "MINUTE"), (PRICES, "HOUR"))
    )
    mixed = flow.oi_price_quadrant(interest, candles, by="exchange")
    assert mixed["quadrant"].to_list() == [None] * 6
    same = flow.oi_price_quadrant(interest, candles.with_columns(interval=pl.lit("1m")), by="exchange")
    assert same["quadrant"].to_list() == flow.oi_price_quadrant(INTEREST, PRICES)["quadrant"].to_list()


def test_the_result_of_an_interval_is_named_by_it() -> None:
    candles = pl.DataFrame(
        {
            "timestamp": [datetime(2024, 8, 8, hour, tzinfo=UTC) for hour in (0, 1, 13)],
            "interval": "HOUR", "coin": "BTC", "volume": [1.0, 2.0, 3.0],
        }
    )  # fmt: skip
    days = flow.large_trade_share(candles, at_least=2, interval="1d", volume="volume")
    assert days["interval"].to_list() == ["1d"]
    by_coin = flow.large_trade_share(candles, at_least=2, interval="1d", volume="volume", by="coin")
    assert "interval" not in by_coin.columns
    assert by_coin["large_trade_share"].to_list() == days["large_trade_share"].to_list() == [5 / 6]


def test_vwap_weighs_prices_by_what_was_traded_since_the_anchor() -> None:
    trades = pl.DataFrame(
        {
            "timestamp": [datetime(2024, 8, 8, hour, tzinfo=UTC) for hour in (22, 23, 23)]
            + [datetime(2024, 8, 9, hour, tzinfo=UTC) for hour in (0, 1, 2)],
            "price": [100.0, 110.0, 90.0, 120.0, None, 130.0],
            "amount": [1.0, 2.0, 1.0, 4.0, 0.0, None],
        }
    )
    found = flow.vwap(trades.sample(fraction=1, shuffle=True, seed=3))
    # (100 + 220 + 90) / 4 and (410 + 480) / 8; nothing was traded at 1 o'clock, nobody knows how much at 2.
    assert found["vwap"].to_list() == [100.0, 102.5, 111.25, 111.25, None]
    assert found["volume"].to_list() == [1.0, 3.0, 4.0, 0.0, None]
    by_day = flow.vwap(trades, anchor="session")
    assert by_day["vwap"].to_list() == [100.0, 102.5, 120.0, 120.0, None]
    assert flow.vwap(trades.head(5), interval="1d")["vwap"].to_list() == [102.5, 111.25]


def test_vwap_of_candles_takes_their_typical_price() -> None:
    hours = [datetime(2024, 8, 8, hour, tzinfo=UTC) for hour in (0, 1)]
    candles = pl.DataFrame(
        {"timestamp": hours, "high": [13.0, 21.0], "low": [8.0, 18.0], "close": [9.0, 21.0]}
    )
    found = flow.vwap(candles.with_columns(volume=pl.Series([1.0, 3.0])))
    assert found["vwap"].to_list() == [10.0, 17.5]  # typical prices 10 and 20
    with pytest.raises(QueryError, match="amounts in coins"):
        flow.vwap(candles.with_columns(volume=1.0, amount_unit=pl.lit("USD")))


def test_vwap_of_recorded_trades_is_theirs_and_that_of_their_candles_is_near(recorded: Path) -> None:
    with gzip.open(recorded / "coinbase_btc-usd_trades_20230905.csv.gz") as file:
        trades = pl.read_csv(file).with_columns(
            pl.col("timestamp").str.to_datetime(time_unit="us", time_zone="UTC")
        )
    found = flow.vwap(trades, by="symbol", interval="1m")
    worth = (pl.col("price") * pl.col("amount")).sum() / pl.col("amount").sum()
    assert found["vwap"][-1] == pytest.approx(trades.select(worth).item(), rel=1e-12)
    assert len(found) == 60
    minutes = trades.group_by("symbol", pl.col("timestamp").dt.truncate("1m")).agg(
        high=pl.col("price").max(),
        low=pl.col("price").min(),
        close=pl.col("price").last(),
        volume=pl.col("amount").sum(),
    )
    of_candles = flow.vwap(minutes, by="symbol")
    assert of_candles["vwap"].to_list() == pytest.approx(found["vwap"].to_list(), rel=2e-4)
