"""What was known when; times by hand."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import numpy as np
import pandas as pd
import polars as pl
import pytest

from tables import each_row
from tidytape import Client
from tidytape.analytics import pit
from tidytape.catalogue import Interval
from tidytape.errors import MissingColumnError, NoMatchWarning, QueryError

NOON = datetime(2024, 8, 8, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
TIME = pl.Datetime("ns", "UTC")


def points(*hours, **columns):
    return pl.DataFrame(
        {"timestamp": pl.Series([NOON + hour * HOUR for hour in hours], dtype=TIME), **columns}
    )


@each_row("interval", list(Interval))
@each_row("word", ["value", "alias"])
def test_a_point_is_known_when_its_interval_is_over(interval, word):
    found = pit.known_at(points(0, interval=[getattr(interval, word)]))
    assert found["known_at"].item() == NOON + timedelta(seconds=interval.seconds)
    assert found["known_at_rule"].item() == "interval"
    same = pit.known_at(points(0), interval=getattr(interval, word))
    assert same["known_at"].to_list() == found["known_at"].to_list()


def test_a_settlement_is_known_when_it_settles():
    found = pit.known_at(points(0, 8, interval=["HOUR", "HOUR"]), rule="event", delay=timedelta(seconds=3))
    assert found["known_at"].to_list() == [
        NOON + timedelta(seconds=3),
        NOON + 8 * HOUR + timedelta(seconds=3),
    ]


@pytest.mark.slow
def test_a_profile_is_known_when_its_period_ends_and_not_an_interval_later():
    ends = pl.Series([NOON + 24 * HOUR, None, NOON], dtype=TIME)
    frame = points(0, 0, 1, interval=["THIRTY_MINUTES"] * 3, period_end=ends)
    assert pit.known_at(frame)["known_at"].to_list() == [
        NOON + 24 * HOUR,
        None,
        None,
    ]  # the last ends before it starts
    assert pit.known_at(frame)["known_at_rule"].to_list() == ["period"] * 3
    client = Client.demo()
    sessions = client.tpo_sessions(
        exchange="DEMO_SPOT", raw_symbol="BTCUSDT", interval="30m", session="daily", block_size=100,
        start="2024-08-08", end="2024-08-09",
    )  # fmt: skip
    assert ((pit.known_at(sessions)["known_at"] - sessions["timestamp"]) == timedelta(days=1)).all()


def test_when_a_point_is_known_can_be_said_anew():
    frame = points(0, interval=["HOUR"], close=[1.0])
    event = pit.known_at(frame, rule="event")
    assert pit.known_at(event, rule="interval").equals(pit.known_at(frame))
    assert pit.known_at(event, interval="1h").equals(pit.known_at(frame))


def test_a_frame_that_says_when_it_is_known_is_believed():
    developing = points(0, interval=["HOUR"], known_at=pl.Series([NOON + 9 * HOUR], dtype=TIME))
    assert pit.known_at(developing).equals(developing)
    with pytest.raises(QueryError, match="delay"):
        pit.known_at(developing, delay=HOUR)


@pytest.mark.parametrize(
    ("columns", "apart"),
    [
        ({"tenor": ["7d", "30d"]}, "tenor"),
        ({"side": ["BUY", "SELL"], "volume": 1.0, "close": 2.0}, "side"),
        ({"strike": [1.0, 2.0], "implied_volatility": 50.0}, "strike"),
        ({"price": [1.0, 2.0], "size": 1.0}, "price"),
        ({"price": [1.0, 2.0], "tpo_count": 1, "period_end": NOON}, "price"),
        ({"price": [1.0, 2.0], "volume": 1.0}, "price"),
    ],
)
def test_facts_of_several_kinds_are_not_mixed_by_a_coin(columns, apart):
    facts = points(0, 0).with_columns(
        coin=pl.lit("BTC"),
        interval=pl.lit("HOUR"),
        **{k: pl.Series(v) if isinstance(v, list) else pl.lit(v) for k, v in columns.items()},
    )
    with pytest.raises(QueryError, match=apart):
        pit.asof_join(points(1, coin=["BTC"]), facts, by="coin")
    one = facts.head(1).drop(apart)
    assert pit.asof_join(points(1, coin=["BTC"]), one, by="coin")["timestamp_right"].item() == NOON


def test_trades_have_a_side_and_a_price_of_their_own():
    trades = pit.known_at(
        points(0, coin=["BTC"], id=["1"], side=["BUY"], price=[5.0], amount=[1.0]), rule="event"
    )
    assert pit.asof_join(points(1, coin=["BTC"]), trades, by="coin")["price"].item() == 5.0


def test_of_trades_the_rule_is_asked_for():
    trades = points(0, interval=["MINUTE"], id=["1"], side=["BUY"], price=[5.0], amount=[1.0])
    for refused in (
        lambda: pit.known_at(trades),
        lambda: pit.as_of(trades.lazy(), NOON),
        lambda: pit.asof_join(points(1), trades, by=[]),
    ):
        with pytest.raises(QueryError, match="rule='event'"):
            refused()
    assert pit.known_at(trades, rule="event")["known_at"].to_list() == [NOON]
    assert pit.known_at(trades, rule="interval")["known_at"].to_list() == [NOON + timedelta(minutes=1)]


@pytest.mark.parametrize(
    ("numbers", "last"),
    [
        (["9", "10", None], 2.0),
        ([9, 10, None], 2.0),
        ([10, 9, 3], 1.0),
        ([10, 10, 3], None),
        (pl.Series(["99", "100", "98"], dtype=pl.Categorical), 2.0),
    ],
)
def test_facts_alike_in_time_may_have_an_order(numbers, last, engine):
    trades = points(0, 0, 0, price=[1.0, 2.0, 3.0]).with_columns(id=pl.Series(numbers))
    for rows in (trades, trades.reverse()):
        facts = pit.known_at(engine.frame(rows), rule="event")
        joined = engine.polars(pit.asof_join(engine.frame(points(1)), facts, by=[], order="id"))
        assert joined["price"].to_list() == [last]


def test_an_order_is_of_whole_numbers():
    facts = pit.known_at(points(0, is_last=[True]), rule="event")
    with pytest.raises(QueryError, match="order"):
        pit.asof_join(points(1), facts, by=[], order="is_last")
    with pytest.raises(MissingColumnError, match="sequence"):
        pit.asof_join(points(1), facts, by=[], order="sequence")


def test_of_facts_alike_in_all_of_the_key_none_is_taken():
    facts = points(-1, 0, 0, interval=["HOUR"] * 3, rate=[1.0, 2.0, 3.0])
    for rows in (facts, facts.reverse()):
        assert pit.asof_join(points(0, 1, 2), rows, by=[])["rate"].to_list() == [1.0, None, None]


def test_what_has_no_interval_is_never_known():
    frame = points(0, 1, 2, interval=[None, "fortnight", "HOUR"]).lazy()
    assert pit.known_at(frame).collect()["known_at"].to_list() == [None, None, NOON + 3 * HOUR]
    assert pit.as_of(frame, NOON + 99 * HOUR).collect()["interval"].to_list() == ["1h"]
    with pytest.raises(QueryError, match="interval: 'fortnight'"):
        pit.known_at(frame.collect())


@pytest.mark.parametrize("nulls", [0, 1])
def test_pandas_keeps_nanoseconds_and_its_index(nulls):
    times = pd.DatetimeIndex(["2024-08-08T12:00:00.000000001Z"] * 2)
    frame = pd.DataFrame({"timestamp": times, "interval": ["HOUR", None if nulls else "HOUR"]}, index=[7, 3])
    found = pit.known_at(frame)
    assert found.index.tolist() == [7, 3]
    assert found["known_at"].iloc[0] == pd.Timestamp("2024-08-08T13:00:00.000000001Z")
    assert found["known_at"].isna().sum() == nulls


def test_zero_has_no_sign_in_a_key(engine):
    asked = points(1, 1, strike=[0.0, 5.0]).cast({"timestamp": pl.Datetime("us", "UTC")})
    facts = points(0, 0, strike=[-0.0, 5.0], interval="HOUR", rate=[1.0, 2.0])
    facts = facts.cast({"timestamp": pl.Datetime("us", "UTC")})
    joined = engine.polars(pit.asof_join(engine.frame(asked), engine.frame(facts), by="strike"))
    assert sorted(joined["rate"].to_list()) == [1.0, 2.0]


def test_a_column_of_nothing_has_no_other_type(engine):
    asked = engine.frame(points(1, coin=[None]))
    facts = engine.frame(points(0, 0, interval=["HOUR"] * 2, coin=["BTC", None], rate=[1.0, 2.0]))
    if engine.name in {"polars", "polars lazy", "pandas"}:
        assert engine.polars(pit.asof_join(asked, facts))["rate"].to_list() == [2.0]


T0 = 1_723_161_600 * 10**9  # of nanoseconds near it, floats hold every 256th


def test_whole_nanoseconds_stay_whole_beside_a_null(engine):
    facts = pl.DataFrame({"timestamp": [T0 + 1, T0 + 1], "interval": ["1m", None]})
    known = pit.known_at(engine.frame(facts))
    minute = 60 * 10**9
    assert engine.polars(known)["known_at"].to_list() == [T0 + minute + 1, None]
    asked = engine.frame(pl.DataFrame({"timestamp": [T0, T0 + minute]}))
    assert len(engine.polars(pit.as_of(known, "2024-08-09T00:02:00Z"))) == 1
    assert engine.polars(pit.asof_join(asked, known, by=[]))["known_at_right"].to_list() == [None, None]
    later = engine.frame(pl.DataFrame({"timestamp": [T0, T0 + 2 * minute]}))
    found = engine.polars(pit.asof_join(later, known, by=[]))
    assert found.select("timestamp_right", "known_at_right").rows() == [
        (None, None),
        (T0 + 1, T0 + minute + 1),
    ]


@pytest.mark.slow
def test_a_joined_row_is_not_known_when_its_fact_was(engine):
    """Columns that say when a fact was known never become those of the decision, which would look ahead."""
    hour = 3_600 * 10**9
    decisions = engine.frame(pl.DataFrame({"timestamp": [T0 + 2 * hour], "interval": ["1h"]}))
    facts = pl.DataFrame({"timestamp": [T0], "period_end": [T0 + hour], "interval": ["1h"], "poc": [1.0]})
    joined = pit.asof_join(decisions, engine.frame(facts), by=[], suffix="_area")
    assert engine.polars(joined).columns == [
        "timestamp", "interval", "timestamp_area", "period_end_area", "interval_area", "poc",
    ]  # fmt: skip
    assert engine.polars(pit.known_at(joined))["known_at"].to_list() == [T0 + 3 * hour]
    told = pit.asof_join(decisions, pit.known_at(engine.frame(facts)), by=[])
    assert engine.polars(pit.known_at(told))["known_at"].to_list() == [T0 + 3 * hour]


def test_ids_of_facts_stay_whole_where_no_fact_is_known(engine):
    ids = pl.Series([T0 + 1], dtype=pl.UInt64)
    facts = engine.frame(pl.DataFrame({"timestamp": [T0], "known_at": [T0], "id": ids}))
    asked = engine.frame(pl.DataFrame({"timestamp": [T0 - 1, T0]}))
    found = engine.polars(pit.asof_join(asked, facts, by=[]))
    assert found["id"].to_list() == [None, T0 + 1]


@each_row(
    "at",
    [
        NOON + HOUR,
        (NOON + HOUR).replace(tzinfo=None),
        int((NOON + HOUR).timestamp()),
        "2024-08-08T13:00:00Z",
        np.datetime64("2024-08-08T13:00"),
        pd.Timestamp("2024-08-08T13:00:00Z"),
    ],
)
def test_the_instant_is_said_as_in_a_query(at):
    frame = points(-1, 0, 1, interval=["HOUR"] * 3, n=[1, 2, 3])
    found = pit.as_of(frame, at)
    assert found["n"].to_list() == [1, 2]
    assert found.columns == frame.columns


def test_the_instant_may_be_between_seconds():
    frame = pit.known_at(points(0, interval=["HOUR"]), delay=timedelta(microseconds=5))
    assert len(pit.as_of(frame, NOON + HOUR + timedelta(microseconds=4))) == 0
    assert len(pit.as_of(frame, NOON + HOUR + timedelta(microseconds=5))) == 1
    assert len(pit.as_of(frame, pd.Timestamp("2024-08-08T13:00:00.000004999Z"))) == 0
    assert len(pit.as_of(frame, date(2024, 8, 9))) == 1


def test_a_candle_is_joined_when_it_is_complete():
    funding = points(0, 1, 2, interval=["HOUR"] * 3, rate_close=[1.0, 2.0, 3.0])
    asked = points(0.5, 1, 1.999, 2)
    joined = pit.asof_join(asked, funding)
    assert joined["rate_close"].to_list() == [None, 1.0, 1.0, 2.0]
    assert joined["timestamp_right"].to_list() == [None, NOON, NOON, NOON + HOUR]


def test_a_predicted_rate_meets_only_what_settles_later():
    settled = points(0, 8, rate=[1e-4, 2e-4])
    predicted = points(-1, 7, interval=["HOUR"] * 2, predicted_close=[1.1e-4, 2.1e-4])
    joined = pit.asof_join(pit.known_at(settled, rule="event"), predicted, on="known_at", suffix="_predicted")
    assert joined.select("rate", "predicted_close").rows() == [(1e-4, 1.1e-4), (2e-4, 2.1e-4)]
    late = pit.asof_join(settled, pit.known_at(predicted, delay=timedelta(seconds=1)))
    assert late["predicted_close"].to_list() == [None, 1.1e-4]


def test_durations_may_be_text():
    frame = points(0, 1, interval=["HOUR"] * 2, rate=[1.0, 2.0])
    assert pit.known_at(frame, delay="2m").equals(pit.known_at(frame, delay=timedelta(minutes=2)))
    asked = points(1, 3, 4)
    by_text = pit.asof_join(asked, frame, by=[], tolerance="90m")
    assert by_text["rate"].to_list() == [1.0, 2.0, None]
    assert by_text.equals(pit.asof_join(asked, frame, by=[], tolerance=timedelta(minutes=90)))


def test_facts_that_are_too_old_are_left_out():
    facts = points(0, interval=["HOUR"], rate=[1.0])
    asked = points(1, 2, 2.001)
    assert pit.asof_join(asked, facts, tolerance=HOUR)["rate"].to_list() == [1.0, 1.0, None]
    assert pit.asof_join(asked, facts, tolerance=timedelta(0))["rate"].to_list() == [1.0, None, None]


def test_of_facts_known_at_once_the_latest_counts_with_its_nulls():
    known_at = pl.Series([NOON] * 3, dtype=TIME)
    facts = points(-1, -3, -2, known_at=known_at, rate=[None, 2.0, 3.0])
    assert pit.asof_join(points(0), facts)["rate"].to_list() == [None]
    assert pit.asof_join(points(0), facts.filter(pl.col("rate").is_not_null()))["rate"].to_list() == [3.0]


def test_null_is_a_series_and_so_is_a_word_of_any_kind():
    asked = points(2, 2, 2, coin=pl.Series(["BTC", None, ""], dtype=pl.Categorical()))
    facts = points(0, 0, interval=["HOUR"] * 2, coin=["BTC", None], rate=[1.0, 2.0])
    joined = pit.asof_join(asked, facts)
    assert dict(zip(joined["coin"].to_list(), joined["rate"].to_list(), strict=True)) == {
        "BTC": 1.0,
        None: 2.0,
        "": None,
    }


def test_intervals_need_not_be_the_same():
    asked = pit.known_at(points(0, 1, interval=["MINUTE"] * 2, exchange=["X"] * 2))
    facts = points(0, interval=["HOUR"], exchange=["X"], rate=[1.0])
    joined = pit.asof_join(asked, facts, on="known_at")
    assert joined["rate"].to_list() == [None, 1.0]
    assert joined["interval_right"].to_list() == [None, "1h"]


@pytest.mark.slow
def test_frames_of_the_client_go_through():
    client = Client.demo()
    day = {"exchange": "DEMO_PERP", "raw_symbol": "BTC-PERP", "start": "2024-08-08", "end": "2024-08-09"}
    candles = pit.known_at(client.candles(interval="1h", **day))
    funding = client.funding(interval="4h", **day)
    joined = pit.asof_join(candles, funding, on="known_at", suffix="_funding")
    assert len(joined) == len(candles)
    seen = joined.drop_nulls(
        "known_at_funding" if "known_at_funding" in joined.columns else "timestamp_funding"
    )
    assert len(seen)
    assert (seen["timestamp_funding"] + timedelta(hours=4) <= seen["known_at"]).all()


@each_row(
    ("function", "arguments", "named"),
    [
        ("known_at", {"rule": "close"}, "rule"),
        ("known_at", {"interval": "2x"}, "interval"),
        ("known_at", {"interval": "1h", "rule": "event"}, "interval"),
        ("known_at", {"delay": timedelta(-1)}, "delay"),
        ("known_at", {"delay": 5}, "delay"),
        ("as_of", {"at": "yesterday"}, "at"),
        ("as_of", {"at": None}, "at"),
    ],
)
def test_arguments_are_checked(function, arguments, named):
    with pytest.raises(QueryError) as caught:
        getattr(pit, function)(points(0, interval=["HOUR"]).lazy(), **arguments)
    assert caught.value.parameter == named


FACTS = points(0, interval=["HOUR"], exchange=["X"], side=["BUY"], rate=[1.0])


@each_row(
    ("asked", "facts", "arguments", "named"),
    [
        (points(0, exchange=["X"]), FACTS, {}, "by"),
        (points(0, exchange=[5]), FACTS.drop("side"), {"by": "exchange"}, "by"),
        (points(0, exchange=[5]), FACTS.drop("side"), {}, "by"),
        (points(0, exchange=["X"]), FACTS, {"by": ["exchange", "exchange"]}, "by"),
        (points(0), FACTS, {"by": "timestamp"}, "by"),
        (points(0), FACTS, {"by": [], "tolerance": timedelta(-1)}, "tolerance"),
        (points(0, rate=[1.0], rate_right=[2.0]), FACTS.drop("side"), {"by": []}, "suffix"),
        (points(0), FACTS.to_pandas(), {"by": []}, "facts"),
        (points(0), 5, {"by": []}, "facts"),
    ],
)
def test_what_cannot_be_joined_is_refused(asked, facts, arguments, named):
    with pytest.raises(QueryError) as caught:
        pit.asof_join(asked, facts, **arguments)
    assert caught.value.parameter == named


def test_missing_columns_are_named():
    with pytest.raises(MissingColumnError, match="interval"):
        pit.known_at(points(0))
    with pytest.raises(MissingColumnError, match="at"):
        pit.asof_join(points(0), FACTS, on="at", by=[])
    with pytest.raises(MissingColumnError, match="coin"):
        pit.asof_join(points(0, coin=["BTC"]), FACTS, by="coin")


CANDLE = {"open": 1.0, "high": 2.0, "low": 0.5, "close": 1.5, "volume": 9.0}


def test_candles_are_stamped_as_each_library_expects():
    candles = points(1, 0, interval=["HOUR"] * 2).with_columns(
        **{name: pl.lit(n) for name, n in CANDLE.items()}
    )
    opened = [pd.Timestamp(NOON), pd.Timestamp(NOON + HOUR)]
    backtesting = pit.to_backtesting(candles)
    assert backtesting.index.tolist() == opened
    assert backtesting.columns.tolist() == ["Open", "High", "Low", "Close", "Volume"]
    assert backtesting.iloc[0].tolist() == list(CANDLE.values())
    nautilus = pit.to_nautilus(candles)
    assert nautilus.index.tolist() == [pd.Timestamp(NOON + HOUR), pd.Timestamp(NOON + 2 * HOUR)]
    assert nautilus.columns.tolist() == list(CANDLE)
    vectorbt = pit.to_vectorbt(candles.with_columns(raw_symbol=pl.lit("X")))
    assert vectorbt["Close"].columns.tolist() == ["X"]
    assert vectorbt.index.tolist() == opened
    assert {str(frame.index.tz) for frame in (backtesting, nautilus, vectorbt)} == {"UTC"}


def test_a_backtest_may_have_more_columns():
    candles = points(1, 0, interval=["HOUR"] * 2, funding=[0.2, 0.1], word=["b", "a"]).with_columns(
        **{name: pl.lit(n) for name, n in CANDLE.items()}
    )
    data = pit.to_backtesting(candles, columns=["funding", "word"])
    assert data.columns.tolist() == ["Open", "High", "Low", "Close", "Volume", "funding", "word"]
    assert data["funding"].tolist() == [0.1, 0.2]
    assert data["word"].tolist() == ["a", "b"]
    assert pit.to_backtesting(candles, columns="funding").columns[-1] == "funding"
    with pytest.raises(MissingColumnError, match="rate"):
        pit.to_backtesting(candles, columns=["rate"])
    for taken in ("close", "Close", "timestamp"):
        with pytest.raises(QueryError, match="columns"):
            pit.to_backtesting(candles, columns=[taken])


def test_vectorbt_has_a_column_per_series_of_what_was_joined():
    candles = points(1, 0, 0, raw_symbol=["X", "X", "Y"], Rate=[0.2, 0.1, 0.3]).with_columns(
        **{name: pl.lit(n) for name, n in CANDLE.items()}
    )
    data = pit.to_vectorbt(candles, columns="Rate")
    assert data["Rate"].columns.tolist() == ["X", "Y"]
    assert data["Rate"]["X"].tolist() == [0.1, 0.2]
    assert data["Rate"]["Y"].dropna().tolist() == [0.3]
    assert data["Close"].columns.tolist() == ["X", "Y"]
    lower = pit.to_vectorbt(candles.rename({"Rate": "rate_close"}), columns=["rate_close"])
    assert lower["rate_close"]["X"].tolist() == [0.1, 0.2]
    with pytest.raises(MissingColumnError, match="other"):
        pit.to_vectorbt(candles, columns=["other"])
    for taken in ("close", "Close", "timestamp", "raw_symbol"):
        with pytest.raises(QueryError, match="columns"):
            pit.to_vectorbt(candles, columns=taken)


def test_two_venues_of_one_symbol_are_told_apart_by_name():
    candles = points(0, 0, exchange=["A", "B"], raw_symbol=["X", "X"]).with_columns(
        **{name: pl.lit(n) for name, n in CANDLE.items()}
    )
    with pytest.raises(QueryError, match=r"by=\['raw_symbol', 'exchange'\]"):
        pit.to_vectorbt(candles)


def test_candles_of_a_backtest_are_one_series_each_time_once():
    candles = points(1, 0, interval=["HOUR"] * 2).with_columns(
        **{name: pl.lit(n) for name, n in CANDLE.items()}
    )
    two = pl.concat([candles.with_columns(raw_symbol=pl.lit(name)) for name in "XY"])
    twice = pl.concat([candles, candles]).with_columns(raw_symbol=pl.lit("X"))
    for function in (pit.to_backtesting, pit.to_nautilus):
        with pytest.raises(QueryError, match="one series"):
            function(two)
    for function in (pit.to_backtesting, pit.to_nautilus, pit.to_vectorbt):
        with pytest.raises(QueryError, match="each time once"):
            function(twice)
    with pytest.raises(QueryError, match="fortnight"):
        pit.to_nautilus(candles.with_columns(interval=pl.lit("fortnight")))
    with pytest.raises(QueryError, match="at least one"):
        pit.to_vectorbt(two, by=[])
    assert pit.to_vectorbt(two, by=["raw_symbol", "interval"]).columns.names == [
        "field",
        "raw_symbol",
        "interval",
    ]


def rates(exchange, coin="BTC"):
    return points(0, 1, 2, exchange=exchange, coin=coin, interval="HOUR", rate_close=[1e-4, 2e-4, 3e-4])


def test_a_join_in_which_nothing_meets_says_what_to_pass(engine):
    asked, facts = (engine.frame(rates(exchange)) for exchange in ("A", "B"))
    if engine.name in ("polars lazy", "duckdb"):  # which nobody reads before they are collected
        nothing = engine.polars(pit.asof_join(asked, facts))
    else:
        with pytest.warns(NoMatchWarning, match="exchange is 'A' and 'B'.*pass by='coin'") as caught:
            nothing = engine.polars(pit.asof_join(asked, facts))
        assert caught[0].filename == __file__
        assert caught[0].message.keys == ("exchange", "coin")
    assert nothing["rate_close_right"].to_list() == [None] * 3
    assert engine.polars(pit.asof_join(asked, facts, by="coin"))["rate_close_right"].null_count() == 1


def test_what_a_warning_suggests_is_in_both_frames():
    with pytest.warns(NoMatchWarning, match="coin is 'BTC' and 'ETH'") as caught:
        pit.asof_join(rates("A"), rates("A", coin="ETH"), by="coin")
    assert "pass by='exchange'" in str(caught[0].message)
    with pytest.warns(NoMatchWarning) as caught:
        pit.asof_join(rates("A"), rates("B", coin="ETH"), by="coin")
    assert "pass" not in str(caught[0].message)
    crossed = pl.concat([rates("A", coin="ETH"), rates("B", coin="BTC")])
    with pytest.warns(NoMatchWarning, match="each is in both, but never together"):
        pit.asof_join(rates("A"), crossed)


def test_some_keys_that_meet_and_frames_without_rows_are_no_cause_to_warn():
    both = pl.concat([rates("A"), rates("B")])
    assert pit.asof_join(both, rates("B"))["rate_close_right"].null_count() == 4
    assert pit.asof_join(rates("A"), rates("B").clear())["rate_close_right"].null_count() == 3
    assert pit.asof_join(rates("A").clear(), rates("B")).is_empty()


def test_facts_that_are_all_there_more_than_once_are_warned_of():
    curve = pl.concat([rates("A").with_columns(days=days) for days in (7.0, 30.0)])
    with pytest.warns(NoMatchWarning, match="join by days, or keep one"):
        nothing = pit.asof_join(rates("A"), curve)
    assert nothing["days"].null_count() == 3
    assert pit.asof_join(rates("A"), curve.filter(pl.col("days") == 7))["days"].null_count() == 1


def test_facts_may_say_nothing_but_when_they_were_known():
    facts = pl.DataFrame({"known_at": [NOON], "v": [1.0]})
    assert pit.asof_join(pl.DataFrame({"timestamp": [NOON + HOUR]}), facts)["v"].to_list() == [1.0]


def test_no_delay_and_no_tolerance_may_be_text(small_times):
    frame = pl.DataFrame({"timestamp": [0, 10], "interval": "1h", "v": [1.0, 2.0]})
    assert pit.known_at(frame, delay="0s").equals(pit.known_at(frame))
    decisions = pl.DataFrame({"timestamp": [10, 11], "known_at": [10, 11]})
    facts = pl.DataFrame({"timestamp": [10], "known_at": [10], "w": [2.0]})
    joined = pit.asof_join(decisions, facts, tolerance="0s", by=[])
    assert joined["w"].to_list() == [2.0, None]
    for bad in ("0", "0 apples", "-0s"):
        with pytest.raises(QueryError, match="delay"):
            pit.known_at(frame, delay=bad)
