"""Profiles and candles of sessions: trading time counts from the open, whatever the clock of the world shows."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import narwhals.stable.v2 as nw
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from tidytape import Session, aggregate
from tidytape.analytics import pit, profile
from tidytape.errors import QueryError
from tidytape.frames._trading_clock import TradingClock

MINUTE = 60 * 10**9
DAY = 1_440 * MINUTE
NEW_YORK = Session("09:30", "16:00", zone="America/New_York")
SHANGHAI = Session("09:30", "15:00", zone="Asia/Shanghai", pause=("11:30", "13:00"))
FUTURES = Session("17:00", "16:00", zone="America/Chicago")
ALWAYS_NEW_YORK = Session("00:00", "00:00", zone="America/New_York", weekdays="Mon-Sun")
SESSIONS = [NEW_YORK, SHANGHAI, FUTURES, ALWAYS_NEW_YORK, Session.utc_day()]
START = int(datetime(2024, 10, 30, tzinfo=UTC).timestamp()) * 10**9  # clocks in America change on 3 November


def trades_of(rows: list[tuple[int, float, float, str]]) -> pl.DataFrame:
    schema = {"timestamp": pl.Int64, "price": pl.Float64, "amount": pl.Float64, "side": pl.String}
    frame = pl.DataFrame(rows, schema=schema, orient="row").with_row_index("sequence")
    return frame.with_columns(
        pl.col("sequence").cast(pl.Int64),
        exchange=pl.lit("X"),
        raw_symbol=pl.lit("A"),
        quote_amount=pl.col("price") * pl.col("amount"),
    )


trades = st.lists(
    st.tuples(
        st.integers(0, 9 * 1_440 * 4).map(lambda quarter: START + quarter * MINUTE // 4),
        st.integers(900, 1_100).map(lambda ticks: ticks / 10),
        st.integers(1, 1_000).map(lambda lots: lots / 100),
        st.sampled_from(["BUY", "SELL"]),
    ),
    min_size=1,
    max_size=60,
).map(trades_of)


def candles_of(trades: pl.DataFrame, interval: str = "5m") -> pl.DataFrame:
    return aggregate.candles(trades, interval=interval).with_columns(interval=pl.lit(interval))


def _of_trades(function: Callable[..., Any], **more: Any) -> Callable[..., pl.DataFrame]:
    return lambda trades, **session: function(trades, interval="1d", block_size=1, **more, **session)


def _of_minutes(function: Callable[..., Any]) -> Callable[..., pl.DataFrame]:
    def run(trades: pl.DataFrame, **session: Any) -> pl.DataFrame:
        minutes = aggregate.minute_candles(trades), aggregate.minute_profile(trades, block_size=1)
        found: pl.DataFrame = function(*minutes, interval="1d", block_size=1, **session)
        return found

    return run


def _of_candles(function: Callable[..., Any], **more: Any) -> Callable[..., pl.DataFrame]:
    return lambda trades, **session: function(candles_of(trades), **more, **session)


CANDLES = {"data_type": "TRADE_SIDE_AGNOSTIC_AGG"}
FUNCTIONS: dict[str, Callable[..., pl.DataFrame]] = {
    "tpo": _of_trades(aggregate.tpo),
    "tpo, 60 minutes": _of_trades(aggregate.tpo, block_minutes=60, now=START + 3 * DAY),
    "tpo, weekly": _of_trades(aggregate.tpo, period="weekly"),
    "tpo, monthly": _of_trades(aggregate.tpo, period="monthly"),
    "tpo_sessions": _of_trades(aggregate.tpo_sessions),
    "tpo_sessions, weekly": _of_trades(aggregate.tpo_sessions, period="weekly"),
    "tpo_sessions, monthly": _of_trades(aggregate.tpo_sessions, period="monthly"),
    "tpo_touches": _of_trades(aggregate.tpo_touches),
    "tpo_of": _of_minutes(aggregate.tpo_of),
    "tpo_sessions_of": _of_minutes(aggregate.tpo_sessions_of),
    "tpo_touches_of": _of_minutes(aggregate.tpo_touches_of),
    "candle_tpo": _of_candles(aggregate.candle_tpo, block_size=1),
    "candle_tpo_sessions": _of_candles(aggregate.candle_tpo_sessions, block_size=1, period="monthly"),
    "candle_profile, day": _of_candles(
        aggregate.candle_profile, interval="1d", block_size=1, spreading="uniform"
    ),
    "candle_profile, hour": _of_candles(
        aggregate.candle_profile, interval="1h", block_size=1, spreading="close"
    ),
    "candle_profile, week": _of_candles(
        aggregate.candle_profile, interval="1w", block_size=1, spreading="close"
    ),
    "resample, day": _of_candles(aggregate.resample, interval="1d", **CANDLES),
    "resample, hour": _of_candles(aggregate.resample, interval="1h", **CANDLES),
    "resample, week": _of_candles(aggregate.resample, interval="1w", **CANDLES),
}


ON_A_CLOCK = Session("00:00", "00:00", zone="Etc/UTC", weekdays="Mon-Sun")
"""The UTC day in other words, for which functions use the clock."""


@pytest.mark.slow
@pytest.mark.parametrize("name", FUNCTIONS)
@settings(max_examples=8)
@given(trades=trades)
def test_the_utc_day_as_a_session_changes_nothing(name: str, trades: pl.DataFrame) -> None:
    without = FUNCTIONS[name](trades)
    assert_frame_equal(FUNCTIONS[name](trades, session=Session.utc_day()), without, check_exact=True)
    on_a_clock = FUNCTIONS[name](trades, session=ON_A_CLOCK)
    assert_frame_equal(on_a_clock.select(without.columns), without, check_exact=True)


@pytest.mark.parametrize("session", SESSIONS[:4], ids=str)
@pytest.mark.parametrize("interval", ["15m", "1h", "1d", "1w"])
def test_no_candle_of_a_session_is_known_before_it_ends(session: Session, interval: str) -> None:
    """The last minute in each is over when it is known, whatever breaks and changes of the clock lie in it."""
    minutes = pl.DataFrame({"timestamp": [START + minute * MINUTE for minute in range(9 * 1_440)]})
    minutes = minutes.with_columns(
        **{name: pl.col("timestamp").cast(pl.Float64) for name in ("open", "high", "low", "close")},
        volume=1.0, interval=pl.lit("1m"),
    )  # fmt: skip
    bars = aggregate.resample(minutes, interval=interval, session=session, **CANDLES)
    last_minute = (bars["close"].cast(pl.Int64) + MINUTE).to_list()
    known = pit.known_at(bars)["known_at"].cast(pl.Int64).to_list()
    assert known == bars["period_end"].cast(pl.Int64).to_list()
    traded = [time for _, time in _trading(session, minutes["timestamp"].to_list())]
    assert all(last <= time for last, time in zip(last_minute, known, strict=True))
    if interval in {"15m", "1h"}:
        # Rows at the ends of the frame are cut off there.
        assert all(last == time for last, time in [*zip(last_minute, known, strict=True)][1:-1])
    elif interval == "1d":
        assert {*known} <= {*traded}
    profiles = aggregate.candle_profile(
        minutes, interval=interval, block_size=10**12, spreading="close", session=session
    )
    assert {*profiles.select("timestamp", "period_end").iter_rows()} == {
        *bars.select("timestamp", "period_end").iter_rows()
    }


@pytest.mark.slow
@pytest.mark.parametrize("session", [FUTURES, NEW_YORK, SHANGHAI, ALWAYS_NEW_YORK], ids=str)
def test_days_of_a_session_make_its_weeks(session: Session) -> None:
    minutes = pl.DataFrame({"timestamp": [START + minute * MINUTE for minute in range(0, 12 * 1_440, 30)]})
    minutes = minutes.with_columns(
        **dict.fromkeys(("open", "high", "low", "close"), 1.0), volume=1.0, interval=pl.lit("30m")
    )
    days = aggregate.resample(minutes, interval="1d", session=session, **CANDLES)
    if session is ALWAYS_NEW_YORK:  # has a day of 25 hours, of which a candle of a day cannot be told
        return
    weeks = aggregate.resample(days, interval="1w", session=session, **CANDLES)
    assert_frame_equal(weeks, aggregate.resample(minutes, interval="1w", session=session, **CANDLES))


def _schedule(session: Session, trades: pl.DataFrame) -> list[tuple[int, int]]:
    days = [datetime.fromtimestamp(time / 1e9, UTC).date() for time in trades["timestamp"]]
    found = session.schedule(min(days) - timedelta(days=3), max(days) + timedelta(days=3))
    return [
        (int(o.timestamp()) * 10**9, int(c.timestamp()) * 10**9)
        for o, c in found.select("open", "close").rows()
    ]


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in FUNCTIONS if "week" not in name and "month" not in name])
@pytest.mark.parametrize("session", SESSIONS[:4], ids=str)
@settings(max_examples=2)
@given(trades=trades)
def test_a_session_alone_gives_its_rows_of_the_whole(
    name: str, session: Session, trades: pl.DataFrame
) -> None:
    """The rows of a window cut at the edges of a session are those of the whole."""
    function = FUNCTIONS[name] if name != "candle_tpo_sessions" else _of_candles(
        aggregate.candle_tpo_sessions, block_size=1
    )  # fmt: skip
    whole, parts = function(trades, session=session), list[pl.DataFrame]()
    for begin, end in _schedule(session, trades):
        part = trades.filter(pl.col("timestamp").is_between(begin, end, closed="left"))
        if part.height:
            parts.append(function(part, session=session))
    assert_frame_equal(pl.concat([whole.clear(), *parts]), whole, check_exact=True)
    opens = {begin for begin, _ in _schedule(session, trades)}
    if "hour" not in name:
        assert {*whole["timestamp"].cast(pl.Int64).to_list()} <= opens


@pytest.mark.slow
@pytest.mark.parametrize("session", SESSIONS, ids=str)
@settings(max_examples=20)
@given(minutes=st.lists(st.integers(0, 60 * 1_440), min_size=1, max_size=40))
def test_the_clock_runs_while_the_market_trades_and_its_times_can_be_told(
    session: Session, minutes: list[int]
) -> None:
    times = sorted({START + minute * MINUTE for minute in minutes})
    rows: Any = nw.from_native(pl.LazyFrame({"timestamp": times}))
    for period in ("daily", "weekly", "monthly"):
        clock = TradingClock.of(session, period, rows)  # type: ignore[arg-type]
        shown = clock.running(rows, nw.col("timestamp"), "shown").collect()
        assert shown["shown"].is_sorted()
        is_open = [
            any(begin <= time < end for begin, end in _trading(session, times)) for time in times
        ]  # fmt: skip
        assert shown["__is_open"].to_list() == is_open
        assert [clock.now(time) for time, opens in zip(times, is_open, strict=True) if opens] == (
            shown.filter(nw.col("__is_open"))["shown"].to_list()
        )
        kept = clock.told(clock.open_rows(rows)).collect()["timestamp"].to_list()
        assert kept == [time for time, opens in zip(times, is_open, strict=True) if opens]


@pytest.mark.parametrize("session", SESSIONS, ids=str)
@settings(max_examples=20)
@given(minutes=st.lists(st.integers(0, 60 * 1_440), min_size=1, max_size=40))
def test_a_clock_without_a_period_counts_the_time_in_which_the_market_trades(
    session: Session, minutes: list[int]
) -> None:
    times = sorted({START + minute * MINUTE for minute in minutes})
    rows: Any = nw.from_native(pl.LazyFrame({"timestamp": times}))
    clock = TradingClock(session, times[0], times[-1])
    shown = clock.running(rows, nw.col("timestamp"), "timestamp")
    parts = _trading(session, times)
    traded = [sum(max(0, min(time, end) - begin) for begin, end in parts) for time in times]
    on_clock = shown.collect()["timestamp"].to_list()
    assert [time - on_clock[0] for time in on_clock] == [time - traded[0] for time in traded]
    # A clock that stands still tells the time at which it runs again.
    next_times = [
        next(max(time, begin) for begin, end in parts if time < end) for time in times
        if time < parts[-1][1]
    ]  # fmt: skip
    assert clock.told(shown).collect()["timestamp"].to_list()[: len(next_times)] == next_times
    # Before a night it has reached the open already, and in a break it has not.
    starts = shown.with_columns(is_start=nw.col("timestamp") == nw.col("__opened")).collect()["is_start"]
    opens = [begin for begin, _ in _schedule_near(session, times)]
    closes = [end for _, end in _schedule_near(session, times)]
    in_sessions = [
        any(begin < time < end for begin, end in zip(opens, closes, strict=True)) for time in times
    ]
    joined = [time in opens and time in closes for time in times]
    expected = [not inside and not both for inside, both in zip(in_sessions, joined, strict=True)]
    assert starts.to_list() == expected


def _schedule_near(session: Session, times: list[int]) -> list[tuple[int, int]]:
    days = [datetime.fromtimestamp(time / 1e9, UTC).date() for time in (times[0], times[-1])]
    rows = session.schedule(days[0] - timedelta(days=3), days[1] + timedelta(days=3)).select("open", "close")
    return [tuple(int(time.timestamp()) * 10**9 for time in row) for row in rows.rows()]  # type: ignore[misc]


def _trading(session: Session, times: list[int]) -> list[tuple[int, int]]:
    days = [datetime.fromtimestamp(time / 1e9, UTC).date() for time in (times[0], times[-1])]
    found = list[tuple[int, int]]()
    for row in session.schedule(days[0] - timedelta(days=3), days[1] + timedelta(days=3)).rows(named=True):
        opens, closes, pause, resume = (
            None if row[name] is None else int(row[name].timestamp()) * 10**9
            for name in ("open", "close", "break_start", "break_end")
        )
        assert opens is not None
        assert closes is not None
        found += [(opens, closes)] if pause is None or resume is None else [(opens, pause), (resume, closes)]
    return found


# --- by hand ---


def _minutes(day: str, hours: list[tuple[str, float]], zone: str, length: str = "30m") -> pl.DataFrame:
    times = [datetime.fromisoformat(f"{day}T{hour}").replace(tzinfo=ZoneInfo(zone)) for hour, _ in hours]
    prices = [price for _, price in hours]
    frame = pl.DataFrame({"timestamp": times, "open": prices, "high": prices, "low": prices, "close": prices})
    frame = frame.with_columns(pl.col("timestamp").dt.convert_time_zone("UTC").dt.cast_time_unit("ns"))
    return frame.with_columns(
        volume=1.0, interval=pl.lit(length), exchange=pl.lit("X"), raw_symbol=pl.lit("A")
    )


@pytest.mark.slow
@pytest.mark.parametrize("day", ["2024-11-01", "2024-11-04"])  # summer time, and winter time
def test_regular_hours_on_both_sides_of_the_change_to_winter_time(day: str) -> None:
    """Worked by hand: 60 minutes of balance at 10 and 12, then an extension to 14; the night before does not count."""
    hours = [
        ("03:00", 99.0),
        ("09:30", 10.0),
        ("10:00", 12.0),
        ("10:30", 13.0),
        ("15:30", 14.0),
        ("16:00", 50.0),
    ]
    candles = _minutes(day, hours, "America/New_York")
    levels = aggregate.candle_tpo(candles, block_size=1, session=NEW_YORK)
    assert levels.select("price", "block_ids", "volume").rows() == [
        (10.0, [0], 1.0),
        (12.0, [1], 1.0),
        (13.0, [2], 1.0),
        (14.0, [12], 1.0),
    ]
    found = aggregate.candle_tpo_sessions(candles, block_size=1, session=NEW_YORK).row(0, named=True)
    opens = datetime.fromisoformat(f"{day}T09:30").replace(tzinfo=ZoneInfo("America/New_York"))
    assert (found["timestamp"], found["period_start"]) == (opens, opens)
    assert found["period_end"] == opens + timedelta(hours=6, minutes=30)
    assert (found["ibr_low"], found["ibr_high"]) == (10.0, 12.0)
    assert (found["opening_price"], found["closing_price"]) == (10.0, 14.0)
    with_sessions = profile.with_sessions(
        levels, aggregate.candle_tpo_sessions(candles, block_size=1, session=NEW_YORK)
    )
    balance = profile.initial_balance(with_sessions, row_size=1).row(0, named=True)
    assert (balance["initial_balance_low"], balance["initial_balance_high"]) == (10.0, 12.0)


def test_a_break_counts_no_trading_time() -> None:
    hours = [("09:30", 10.0), ("11:00", 11.0), ("13:00", 12.0), ("14:30", 13.0)]
    candles = _minutes("2024-08-08", hours, "Asia/Shanghai")
    levels = aggregate.candle_tpo(candles, block_size=1, session=SHANGHAI)
    assert levels["block_ids"].to_list() == [[0], [3], [4], [7]]
    hourly = aggregate.resample(candles, data_type="TRADE_SIDE_AGNOSTIC_AGG", interval="1h", session=SHANGHAI)
    local = hourly["timestamp"].dt.convert_time_zone("Asia/Shanghai").dt.strftime("%H:%M")
    assert local.to_list() == ["09:30", "10:30", "13:00", "14:00"]


def test_a_daily_candle_of_a_session_has_the_time_of_its_open() -> None:
    candles = pl.concat(
        [_minutes("2024-11-01", [("09:30", 10.0), ("15:30", 12.0)], "America/New_York"),
         _minutes("2024-11-04", [("09:30", 13.0), ("17:00", 99.0)], "America/New_York")]
    )  # fmt: skip
    of_days = aggregate.resample(
        candles, data_type="TRADE_SIDE_AGNOSTIC_AGG", interval="1d", session=NEW_YORK
    )
    assert of_days.select(pl.col("timestamp").dt.strftime("%d %H:%M"), "open", "close", "volume").rows() == [
        ("01 13:30", 10.0, 12.0, 2.0),
        ("04 14:30", 13.0, 13.0, 1.0),
    ]
    week = aggregate.resample(candles, data_type="TRADE_SIDE_AGNOSTIC_AGG", interval="1w", session=NEW_YORK)
    assert week["timestamp"].dt.strftime("%d %H:%M").to_list() == ["28 13:30", "04 14:30"]


# --- candles that lie in two buckets ---


@pytest.mark.parametrize(
    ("interval", "length", "offset"),
    [("1w", "1w", 1_440), ("1d", "1d", 5 * 60), ("1d", "4h", 120), ("1h", "30m", 45), ("4h", "1h", 10)],
)
@pytest.mark.parametrize("is_named", [True, False])
def test_a_candle_that_lies_in_two_buckets_is_refused(
    interval: str, length: str, offset: int, *, is_named: bool
) -> None:
    minutes = {"1w": 10_080, "1d": 1_440, "4h": 240, "1h": 60, "30m": 30}[length]
    monday = int(datetime(2024, 8, 5, tzinfo=UTC).timestamp()) * 10**9
    times = [monday + (offset + minutes * place) * MINUTE for place in range(60)]
    prices = dict.fromkeys(("open", "high", "low", "close"), 1.0)
    candles = pl.DataFrame(
        {"timestamp": times, **prices, "volume": 1.0, "exchange": "X", "raw_symbol": "A"}
    ).with_columns(**({"interval": pl.lit(length)} if is_named else {}))
    with pytest.raises(QueryError, match="in two buckets"):
        aggregate.candle_profile(candles, interval=interval, block_size=1, spreading="close")
    if is_named:
        with pytest.raises(QueryError, match="in two intervals"):
            aggregate.resample(candles, data_type="TRADE_SIDE_AGNOSTIC_AGG", interval=interval)
    aligned = candles.with_columns(pl.col("timestamp") - offset * MINUTE)
    found = aggregate.candle_profile(aligned, interval=interval, block_size=1, spreading="close")
    assert found["volume"].sum() == 60.0
    # A lazy frame is not read: how much of such a candle lies at a price is unknown.
    if is_named:
        lazily = aggregate.candle_profile(
            candles.lazy(), interval=interval, block_size=1, spreading="close"
        ).collect()
        straddling = lazily.filter(pl.col("price").is_null())
        assert straddling.height > 0
        assert straddling["volume"].null_count() == straddling.height


@pytest.mark.parametrize(
    ("hour", "length", "is_refused"),
    [
        ("09:00", "1h", True),  # the market opens in it
        ("09:30", "1h", False),
        ("15:00", "1h", False),
        ("15:30", "1h", False),  # the last one from the open on, cut by the close
        ("15:45", "30m", True),
        ("00:00", "1d", True),  # a whole session, and the night
        ("16:00", "1h", False),  # not in a session at all
    ],
)
def test_a_candle_lies_in_a_session_or_is_refused(hour: str, length: str, *, is_refused: bool) -> None:
    candles = _minutes("2024-08-08", [(hour, 10.0)], "America/New_York", length)
    call: dict[str, Any] = {"interval": "1d", "block_size": 1, "spreading": "close", "session": NEW_YORK}
    if is_refused:
        with pytest.raises(QueryError, match="in part"):
            aggregate.candle_profile(candles, **call)
        return
    found = aggregate.candle_profile(candles, **call)
    assert found.height == (0 if hour == "16:00" else 1)


def test_a_lazy_candle_that_lies_in_a_session_in_part_is_unknown_there() -> None:
    candles = _minutes(
        "2024-08-08", [("09:00", 10.0), ("09:30", 11.0), ("10:30", 12.0)], "America/New_York", "1h"
    )
    open_ = datetime(2024, 8, 8, 13, 30, tzinfo=UTC)
    profiles = aggregate.candle_profile(
        candles.lazy(), interval="1d", block_size=1, spreading="close", session=NEW_YORK
    ).collect()
    assert profiles.select("timestamp", "price", "volume").rows() == [
        (open_, None, None), (open_, 11.0, 1.0), (open_, 12.0, 1.0)
    ]  # fmt: skip
    day = aggregate.resample(candles.lazy(), interval="1d", session=NEW_YORK, **CANDLES).collect()
    assert day.select("timestamp", "volume").rows() == [(open_, None)]
    assert day["coverage"].item() == pytest.approx(2 / 3)


def test_a_text_that_is_no_length_is_told_what_a_session_is() -> None:
    candles = _minutes("2024-08-08", [("09:30", 10.0)], "America/New_York")
    with pytest.raises(QueryError, match=r"Session\.of") as error:
        aggregate.candle_tpo(candles, block_size=1, session="CME")
    assert error.value.parameter == "session"


@pytest.mark.parametrize("function", [aggregate.candle_tpo, aggregate.candle_tpo_sessions])
def test_a_length_is_a_period_and_the_old_word_warns(function: Callable[..., Any]) -> None:
    candles = _minutes("2024-08-08", [("09:30", 10.0)], "America/New_York")
    with pytest.warns(DeprecationWarning, match="period='weekly'"):
        old = function(candles, block_size=1, session="weekly")
    assert_frame_equal(old, function(candles, block_size=1, period="weekly"))
    with pytest.raises(QueryError, match="period"):
        function(candles, block_size=1, session="weekly", period="daily")
    with pytest.raises(QueryError, match="1d or 1w"):
        function(candles, block_size=1, session=NEW_YORK, interval="1h")
    with pytest.raises(QueryError, match="a Session"):
        function(candles, block_size=1, session=3)
