"""Realised volatility of a market that closes: nights are returns, or dropped, and no gaps."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from math import log, sqrt
from statistics import variance
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from engines import Engine
from oracles.volatility import realized
from tables import each_row
from tidytape import Session
from tidytape.analytics import options
from tidytape.errors import GapWarning, MissingColumnError, QueryError

NEW_YORK = Session(
    "09:30", "16:00", zone="America/New_York", days_off=["2024-11-28"], early_closes={"2024-11-29": "13:00"}
)
TOKYO = Session("09:00", "15:30", zone="Asia/Tokyo", pause=("11:30", "12:30"))
FUTURES = Session("17:00", "16:00", zone="America/Chicago")
SESSIONS = {"New York": NEW_YORK, "Tokyo": TOKYO, "futures": FUTURES, "FX": Session.of("FX")}
ESTIMATORS = ["close_to_close", "parkinson", "garman_klass", "rogers_satchell", "yang_zhang"]
RANGES = {"parkinson", "garman_klass", "rogers_satchell"}
PRICES = ("open", "high", "low", "close")


def _starts(
    session: Session, minutes: int, start: str = "2024-10-28", end: str = "2024-12-06"
) -> list[datetime]:
    """The starts of all candles from each open on, in which the market trades."""
    step, starts = timedelta(minutes=minutes), list[datetime]()
    for row in session.schedule(start, end).rows(named=True):
        parts = [(row["open"], row["close"])]
        if row["break_start"] is not None:
            parts = [(row["open"], row["break_start"]), (row["break_end"], row["close"])]
        for opening, stop in parts:
            begin = max(opening, starts[-1] + step) if starts else opening
            starts += [begin + number * step for number in range(-(-(stop - begin) // step))]
    return starts


def _candles(starts: list[datetime], seed: int = 0, **columns: Any) -> pl.DataFrame:
    random = np.random.default_rng(seed)
    opens = 100 * np.exp(np.cumsum(random.normal(0, 0.01, len(starts))))
    closes = opens * np.exp(random.normal(0, 0.005, len(starts)))
    highs = np.maximum(opens, closes) * np.exp(abs(random.normal(0, 0.003, len(starts))))
    lows = np.minimum(opens, closes) * np.exp(-abs(random.normal(0, 0.003, len(starts))))
    prices = dict(zip(PRICES, (opens, highs, lows, closes), strict=True))
    frame = pl.DataFrame({"timestamp": starts, **prices, **columns})
    return frame.cast({"timestamp": pl.Datetime("us", "UTC")})


def _volatilities(frame: pl.DataFrame, **arguments: Any) -> list[float | None]:
    return options.realized_volatility(frame, **arguments)["realized_volatility"].to_list()


def _walk(
    frame: pl.DataFrame,
    session: Session,
    *,
    minutes: int,
    window: int,
    estimator: str,
    keeps: bool,
    days: float,
) -> list[float | None]:
    """The volatility of each row from a walk over the schedule, candle by candle."""
    schedule = session.schedule("2024-10-20", "2024-12-20").rows(named=True)
    step, usual = timedelta(minutes=minutes), 60 * {NEW_YORK: 6.5, TOKYO: 5.5, FUTURES: 23}.get(session, 24.0)
    nights_a_session = 1.0 if session in (NEW_YORK, TOKYO, FUTURES) else 0.2
    rows = frame.rows(named=True)
    traded: list[float] = []
    nights: list[bool] = []
    for row in rows:
        spans = [(day["open"], day["close"]) for day in schedule]
        breaks = [
            (day["break_start"], day["break_end"]) for day in schedule if day["break_start"] is not None
        ]

        def overlap(parts: list[tuple[datetime, datetime]], start: datetime = row["timestamp"]) -> float:
            lengths = [(min(end, start + step) - max(begin, start)).total_seconds() for begin, end in parts]
            return sum(max(length, 0.0) for length in lengths) / 60

        traded.append((overlap(spans) - overlap(breaks)) / minutes)
        is_open = any(begin == row["timestamp"] for begin, _ in spans)
        nights.append(is_open and not any(end == row["timestamp"] for _, end in spans))
    found: list[float | None] = []
    for last in range(len(rows)):
        first = last - window + 1
        if first < 1:
            found.append(None)
            continue
        block = range(first, last + 1)
        gaps = {at: log(rows[at]["open"] / rows[at - 1]["close"]) for at in block}
        squares = [gaps[at] ** 2 for at in block if nights[at] and keeps]
        if estimator == "close_to_close":
            one = variance(
                log(rows[at]["close"] / rows[at]["open"]) + (0 if nights[at] else gaps[at]) for at in block
            )
            between = sum(squares)
        else:
            # The estimator of the papers, of candles that all open where the one before closed: no move between them.
            level, moved = 1.0, [(1.0, 1.0, 1.0, 1.0)]
            for at in block:
                factor = level / rows[at]["open"]
                moved.append(tuple(rows[at][name] * factor for name in PRICES))
                level = moved[-1][3]
            one = (realized(moved, estimator=estimator, per_year=1) / 100) ** 2
            inside = [gaps[at] ** 2 for at in block if not nights[at]] if estimator == "yang_zhang" else []
            between = sum(squares) + sum(inside)
        share = keeps * nights_a_session
        returns = sum(traded[at] for at in block) + len(squares)
        found.append(100 * sqrt((usual / minutes + share) * (window * one + between) / returns * days))
    return found


@pytest.mark.slow
@settings(deadline=None, max_examples=30)
@given(
    st.sampled_from(sorted(SESSIONS)),
    st.sampled_from(ESTIMATORS),
    st.sampled_from([30, 60, 240]),
    st.integers(2, 20),
    st.booleans(),
    st.integers(0, 9),
)
def test_equals_a_walk_over_the_schedule(
    name: str,
    estimator: str,
    minutes: int,
    window: int,
    keeps: bool,  # noqa: FBT001
    seed: int,
) -> None:
    session = SESSIONS[name]
    frame = _candles(_starts(session, minutes), seed)
    arguments = {"minutes": minutes, "window": window, "estimator": estimator, "days": 252}
    expected = _walk(frame, session, keeps=keeps, **arguments)
    got = _volatilities(
        frame,
        window=window,
        estimator=estimator,
        interval=f"{minutes}m",
        session=session,
        overnight="keep" if keeps else "drop",
        days_per_year=252,
    )
    assert got == [value if value is None else pytest.approx(value, rel=1e-9) for value in expected]


def _simulated(days: int, candles: int, *, of_night: float = 0.2) -> pl.DataFrame:
    """Half hours of 20 % a year, of which a share is of the nights."""
    random, daily = np.random.default_rng(4), 0.2**2 / 252
    schedule = NEW_YORK.schedule(date(2010, 1, 1), date(2010, 1, 1) + timedelta(days=days))
    nights = random.normal(0, sqrt(of_night * daily), len(schedule))
    moves = random.normal(0, sqrt((1 - of_night) * daily / candles), (len(schedule), candles))
    log_open = np.cumsum(nights + np.r_[0, moves.sum(axis=1)[:-1]])
    closes = log_open[:, None] + np.cumsum(moves, axis=1)
    opens = np.hstack([log_open[:, None], closes[:, :-1]])
    times = [
        opening + timedelta(minutes=30 * number) for opening in schedule["open"] for number in range(candles)
    ]
    return pl.DataFrame({"timestamp": times, "open": np.exp(opens.ravel()), "close": np.exp(closes.ravel())})


@pytest.mark.slow
@each_row("has_open", [True, False])
@each_row("window", [10, 26])
def test_half_hours_read_what_was_simulated(window: int, has_open: bool) -> None:  # noqa: FBT001
    frame = _simulated(3_000, 13).drop([] if has_open else ["open"])
    asked = {"window": window, "interval": "30m", "session": NEW_YORK, "days_per_year": 252}
    for overnight, truth in (("keep", 20.0), ("drop", 20.0 * sqrt(0.8))):
        got = options.realized_volatility(frame, overnight=overnight, **asked)
        assert got["overnight"].unique().to_list() == [overnight]
        assert got["realized_volatility"].null_count() == window
        assert sqrt((got["realized_volatility"] ** 2).mean()) == pytest.approx(truth, rel=0.01)


def test_thirteen_half_hours_and_a_night_are_fourteen_returns() -> None:
    frame = _simulated(30, 13)
    got = _volatilities(frame, window=13, interval="30m", session=NEW_YORK, days_per_year=252)
    prices = frame.tail(14).rows(named=True)
    night = log(prices[1]["open"] / prices[0]["close"])
    moves = [log(prices[1]["close"] / prices[1]["open"])]
    moves += [log(now["close"] / before["close"]) for before, now in pairwise(prices[1:])]
    mean = (13 * variance(moves) + night**2) / 14
    assert got[-1] == pytest.approx(100 * sqrt(mean * 14 * 252), rel=1e-12)


@pytest.mark.slow
@each_row("estimator", ESTIMATORS)
@each_row("hours", [0, 5, 15])
def test_business_days_are_neighbours(estimator: str, hours: int) -> None:
    # From midnight in UTC, in New York, or (as the candle of the day before) in Tokyo: the same days.
    zone = {0: NEW_YORK, 5: NEW_YORK, 15: TOKYO}[hours]
    days = pl.Series(zone.schedule("2024-10-28", "2024-11-28")["session_date"]).cast(pl.Datetime("us"))
    starts = days.dt.replace_time_zone("UTC").dt.offset_by(f"{hours - (24 if hours == 15 else 0)}h").to_list()
    frame = _candles(starts)
    candles = frame.select(PRICES).rows()
    for overnight in ("keep", "drop"):
        got = _volatilities(
            frame,
            window=5,
            estimator=estimator,
            interval="1d",
            session=zone,
            overnight=overnight,
            days_per_year=252,
        )
        assert got[:5] == [None] * 5
        for row in range(5, len(candles)):
            block = candles[row - 5 : row + 1]
            nights = [log(now[0] / before[3]) for before, now in pairwise(block)]
            moves = [log(close / opens) for opens, _, _, close in block[1:]]
            expected = (realized(block, estimator=estimator, per_year=252) / 100) ** 2
            if estimator == "close_to_close" and overnight == "drop":
                expected = 252 * variance(moves)
            elif estimator == "yang_zhang" and overnight == "drop":
                expected -= 252 * variance(nights)
            elif estimator in RANGES and overnight == "keep":
                expected += 252 * sum(night**2 for night in nights) / 5
            assert got[row] == pytest.approx(100 * sqrt(expected), rel=1e-11)


@pytest.mark.slow
def test_candles_of_a_day_may_start_at_the_open_in_every_zone() -> None:
    for session in SESSIONS.values():
        starts = session.schedule("2024-10-28", "2024-11-28")["open"].to_list()
        assert None not in _volatilities(_candles(starts), window=3, interval="1d", session=session)[3:]
    # A day of 25 hours and one of 23, both traded through.
    every_day = Session("00:00", "00:00", zone="America/New_York", weekdays="Mon-Sun")
    for start, end in (("2024-10-28", "2024-11-08"), ("2024-03-04", "2024-03-15")):
        starts = every_day.schedule(start, end)["open"].to_list()
        assert None not in _volatilities(_candles(starts), window=3, interval="1d", session=every_day)[3:]


def test_weeks_scale_by_their_own_sessions() -> None:
    starts = [datetime(2024, 11, 4, tzinfo=UTC) + timedelta(weeks=week) for week in range(6)]
    frame = _candles(starts)
    got = _volatilities(frame, window=4, interval="1w", session=NEW_YORK, days_per_year=252)
    closes = frame["close"].log().diff()[2:].to_list()
    assert got[-1] == pytest.approx(100 * sqrt(4 * variance(closes) / (5 + 4 + 5 + 5) * 252), rel=1e-12)


def test_sessions_a_year_are_those_of_the_calendar_year() -> None:
    few = Session("09:30", "16:00", zone="America/New_York", weekdays="Mon")
    mondays = few.schedule("2023-11-20", "2024-02-05")["open"].to_list()
    frame = _candles(mondays)
    plain, one = (
        _volatilities(frame, window=2, interval="1d", session=few, days_per_year=days) for days in (None, 1)
    )
    ratios = [(a / b) ** 2 for a, b in zip(plain[2:], one[2:], strict=True)]
    assert ratios == [pytest.approx(52 if time.year == 2023 else 53) for time in mondays[2:]]


def test_a_candle_while_the_market_is_closed_does_not_count() -> None:
    inside = _candles(_starts(NEW_YORK, 30))
    outside = _candles([datetime(2024, 10, 29, hour, tzinfo=UTC) for hour in (9, 11, 22)], seed=5)
    asked = {"window": 4, "interval": "30m", "session": NEW_YORK}
    expected = options.realized_volatility(inside, **asked)
    got = options.realized_volatility(pl.concat([inside, outside]), **asked)
    is_outside = pl.col("timestamp").is_in(outside["timestamp"].implode())
    assert got.filter(is_outside)["realized_volatility"].null_count() == 3
    assert_frame_equal(got.filter(~is_outside), expected)


@pytest.mark.slow
@each_row("estimator", ESTIMATORS)
@each_row("overnight", ["keep", "drop"])
def test_a_missing_half_hour_is_a_gap_and_a_repeated_one_too(estimator: str, overnight: str) -> None:
    frame = _candles(_starts(NEW_YORK, 30))
    asked = {
        "window": 3,
        "interval": "30m",
        "estimator": estimator,
        "session": NEW_YORK,
        "overnight": overnight,
    }
    missing = _volatilities(frame.filter(pl.int_range(pl.len()) != 40), **asked)
    assert [place for place, value in enumerate(missing) if value is None] == [0, 1, 2, 40, 41, 42]
    twice = _volatilities(frame[[*range(41), *range(40, 60)]], **asked)
    assert [place for place, value in enumerate(twice) if value is None] == [0, 1, 2, 41, 42, 43]
    unknown = frame.with_columns(close=pl.when(pl.int_range(pl.len()) != 40).then("close"))
    assert [place for place, value in enumerate(_volatilities(unknown, **asked)) if value is None] == [
        0, 1, 2, 40, 41, 42, 43,
    ]  # fmt: skip


@pytest.mark.slow
@each_row("estimator", ESTIMATORS)
@each_row("days_per_year", [None, 252])
def test_the_day_of_the_service_changes_no_byte(estimator: str, days_per_year: float | None) -> None:
    starts = [datetime(2024, 11, 1, tzinfo=UTC) + timedelta(hours=hour) for hour in range(60) if hour != 30]
    frame = _candles(starts)
    asked = {"window": 4, "interval": "1h", "estimator": estimator, "days_per_year": days_per_year}
    plain = options.realized_volatility(frame, **asked)
    for overnight in ("keep", "drop"):
        got = options.realized_volatility(frame, session=Session.utc_day(), overnight=overnight, **asked)
        assert got.equals(plain)
        assert got.columns == plain.columns


@pytest.mark.slow
@each_row("estimator", ESTIMATORS)
def test_no_row_depends_on_a_later_one(estimator: str) -> None:
    frame = _candles(_starts(FUTURES, 240), interval="4h")
    asked = {"window": 4, "estimator": estimator, "session": FUTURES}
    whole = options.realized_volatility(frame, **asked)
    for rows in (20, 31, 77):
        part = options.realized_volatility(frame.head(rows), **asked)
        assert_frame_equal(part, whole.head(rows), check_exact=True)


@pytest.mark.slow
def test_every_engine_says_the_same(engine: Engine) -> None:
    frames = [
        _candles(_starts(session, minutes), exchange=name, interval=interval)
        for name, session, minutes, interval in (
            ("A", TOKYO, 30, "30m"), ("B", TOKYO, 60, "1h"), ("C", TOKYO, 1_440, "1d"), (None, NEW_YORK, 30, "30m"),
        )
    ]  # fmt: skip
    frame = pl.concat(frames, how="vertical_relaxed").sample(fraction=1.0, shuffle=True, seed=1)
    for estimator in ESTIMATORS:
        for overnight in ("keep", "drop"):
            asked = {"window": 4, "estimator": estimator, "session": TOKYO, "overnight": overnight}
            expected = options.realized_volatility(frame, **asked)
            got = engine.polars(options.realized_volatility(engine.frame(frame), **asked))
            order = ["exchange", "timestamp"]
            values = [rows.sort(order).select("realized_volatility") for rows in (got, expected)]
            assert_frame_equal(*values, rel_tol=1e-8)
            assert expected["realized_volatility"].count() > 300


def test_without_a_session_a_market_that_closes_is_warned_of() -> None:
    frame = _candles(
        NEW_YORK.schedule("2024-10-28", "2024-11-28")["session_date"].cast(pl.Datetime).to_list()
    )
    said = "longest run without a gap is of 5 candles, and window=10 needs 11; pass session="
    with pytest.warns(GapWarning, match=said):
        options.realized_volatility(frame, window=10, interval="1d")
    with pytest.warns(GapWarning, match="of 13 candles, and window=14 needs 14;"):
        options.realized_volatility(
            _candles(_starts(NEW_YORK, 30)), window=14, interval="30m", estimator="parkinson"
        )
    with pytest.warns(GapWarning, match=r"window=3 needs 4; quality\.gaps"):
        options.realized_volatility(frame[::2], window=3, interval="1d", session=NEW_YORK)
    # Too few rows, or too few of them known, are no gap.
    assert _volatilities(frame.head(4), window=10, interval="1d") == [None] * 4
    assert _volatilities(frame.head(5), window=2, interval="1d", estimator="parkinson")[1:].count(None) == 0
    unknown = frame.with_columns(close=pl.lit(None, pl.Float64))
    assert _volatilities(unknown, window=2, interval="1d", estimator="parkinson") == [None] * len(frame)


def test_a_premium_tells_nights_kept_from_nights_dropped() -> None:
    candles = _candles(_starts(NEW_YORK, 30), coin="X", interval="30m")
    realized_frames = [
        options.realized_volatility(candles, window=4, session=NEW_YORK, overnight=overnight, by="coin")
        for overnight in ("keep", "drop")
    ]
    implied = pl.DataFrame(
        {
            "coin": "X",
            "timestamp": [datetime(2024, 12, 6, tzinfo=UTC)],
            "implied_volatility": 20.0,
            "interval": "1h",
        }
    )
    got = options.volatility_risk_premium(implied, pl.concat(realized_frames), realized_interval="30m")
    assert sorted(got["realized_overnight"].to_list()) == ["drop", "keep"]
    assert got["realized_volatility"].n_unique() == 2


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"overnight": "drop"}, "overnight: got 'drop', expected 'keep', or a session too"),
        ({"overnight": "kept", "session": NEW_YORK}, "did you mean 'keep'"),
        ({"session": "XNYS"}, r"session: got 'XNYS', expected a Session; Session\.of"),
    ],
)
def test_bad_arguments(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(QueryError, match=said):
        options.realized_volatility(_candles(_starts(NEW_YORK, 30)), window=2, interval="30m", **arguments)


def test_other_estimators_need_the_open() -> None:
    closes = _candles(_starts(NEW_YORK, 30)).select("timestamp", "close")
    with pytest.raises(MissingColumnError, match="open"):
        options.realized_volatility(
            closes, window=2, interval="30m", session=NEW_YORK, estimator="yang_zhang"
        )


@pytest.mark.parametrize(
    "session",
    [
        # Its middle lies before 00:00 UTC of its date: 21:00 to 00:45 UTC in summer.
        Session("10:00", "13:45", zone="Pacific/Auckland"),
        Session("15:00", "19:30", zone="America/New_York", days_off=["2024-11-28"]),
        FUTURES,
        NEW_YORK,
    ],
    ids=str,
)
@pytest.mark.parametrize("interval", ["1d", "1w"])
def test_candles_at_midnight_utc_of_their_dates_are_those_at_the_open(
    session: Session, interval: str
) -> None:
    dates = session.schedule("2024-10-28", "2025-01-06").select("session_date", "open")
    if interval == "1w":
        dates = dates.unique(pl.col("session_date").dt.truncate("1w"), keep="first", maintain_order=True)
    midnights = dates["session_date"]
    midnights = midnights.dt.truncate("1w") if interval == "1w" else midnights
    at_open = _candles(dates["open"].to_list(), interval=interval)
    at_midnight = at_open.with_columns(
        timestamp=midnights.cast(pl.Datetime("us")).dt.replace_time_zone("UTC")
    )
    for arguments in ({}, {"estimator": "yang_zhang", "overnight": "drop"}):
        expected = _volatilities(at_open, window=4, session=session, **arguments)
        assert expected[:4] == [None] * 4
        assert None not in expected[4:]
        assert _volatilities(at_midnight, window=4, session=session, **arguments) == expected


def test_weeks_that_begin_with_a_day_off_follow_one_another() -> None:
    # Memorial Day is the Monday of the fourth week.
    stocks = Session("09:30", "16:00", zone="America/New_York", days_off=["2024-05-27"])
    weeks = stocks.schedule("2024-05-06", "2024-06-29").with_columns(
        week=pl.col("session_date").dt.truncate("1w")
    ).unique("week", keep="first", maintain_order=True)  # fmt: skip
    frame = _candles(weeks["open"].to_list(), interval="1w")
    got = _volatilities(frame, window=2, session=stocks)
    assert None not in got[2:]
    mondays = weeks["week"].cast(pl.Datetime("us")).dt.replace_time_zone("UTC")
    assert _volatilities(frame.with_columns(timestamp=mondays), window=2, session=stocks) == got
