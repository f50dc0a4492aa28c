"""Sessions: published hours by hand, and laws over zones, hours and dates."""

from __future__ import annotations

import pickle
import sys
import warnings
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidytape.errors import QueryError, TidytapeError
from tidytape.sessions import Session

Hours = tuple[str, str] | None

# Published by the exchanges for 2024, in UTC; None is a day off. Summer time begins on 10 March and ends on 3 November.
NEW_YORK: dict[str, Hours] = {
    "2024-01-15": None,  # Martin Luther King Day
    "2024-03-08": ("08 14:30", "08 21:00"),
    "2024-03-11": ("11 13:30", "11 20:00"),
    "2024-03-29": None,  # Good Friday
    "2024-07-03": ("03 13:30", "03 17:00"),  # closes at 13:00
    "2024-07-04": None,
    "2024-11-01": ("01 13:30", "01 20:00"),
    "2024-11-04": ("04 14:30", "04 21:00"),
    "2024-11-28": None,  # Thanksgiving
    "2024-11-29": ("29 14:30", "29 18:00"),  # closes at 13:00
    "2024-12-24": ("24 14:30", "24 18:00"),
    "2024-12-25": None,
}
CHICAGO: dict[str, Hours] = {  # equity futures; dates of trading
    "2024-01-02": ("01 23:00", "02 22:00"),
    "2024-01-15": ("14 23:00", "15 18:00"),  # halts at 12:00
    "2024-03-08": ("07 23:00", "08 22:00"),
    "2024-03-11": ("10 22:00", "11 21:00"),
    "2024-05-27": ("26 22:00", "27 17:00"),  # Memorial Day: halts at 12:00
    "2024-07-04": ("03 22:00", "04 17:00"),  # halts at 12:00
    "2024-11-01": ("31 22:00", "01 21:00"),
    "2024-11-04": ("03 23:00", "04 22:00"),
    "2024-11-28": ("27 23:00", "28 18:00"),  # Thanksgiving: halts at 12:00
    "2024-12-25": None,
}


def _hours(session: Session, day: str) -> Hours:
    first = date.fromisoformat(day)
    rows = session.schedule(first, first + timedelta(days=1)).rows(named=True)
    if not rows:
        return None
    ((row),) = rows
    return f"{row['open']:%d %H:%M}", f"{row['close']:%d %H:%M}"


@pytest.mark.slow
@pytest.mark.parametrize(("name", "published"), [("XNYS", NEW_YORK), ("CME", CHICAGO)])
def test_hours_are_those_that_exchanges_publish(name: str, published: dict[str, Hours]) -> None:
    pytest.importorskip("pandas_market_calendars")
    session = Session.of(name)
    assert {day: _hours(session, day) for day in published} == published


@pytest.mark.slow
def test_an_early_close_by_hand_counts_before_that_of_the_calendar() -> None:
    pytest.importorskip("pandas_market_calendars")
    # The exchange closed at 12:15 on that Friday; the calendar says 12:00.
    # On Good Friday of 2024 it was closed; the calendar says until 08:15.
    futures = Session.of("CME")
    mended = Session(
        futures.open,
        futures.close,
        zone=futures.zone,
        calendar=futures.calendar,
        days_off=["2024-03-29"],
        early_closes={"2024-11-29": "12:15"},
    )
    assert _hours(mended, "2024-11-29") == ("28 23:00", "29 18:15")
    assert _hours(mended, "2024-03-29") is None
    assert mended.schedule("2024-11-29", "2024-11-30")["is_early"].to_list() == [True]
    regular = Session("08:30", "15:00", zone="America/Chicago", calendar="CME_Equity")
    assert _hours(regular, "2024-11-28") == ("28 14:30", "28 18:00")


@pytest.mark.slow
def test_the_hours_of_a_calendar_are_those_of_the_calendar() -> None:
    pytest.importorskip("pandas_market_calendars")
    assert str(Session.of("XTKS")) == "09:00-15:30 Asia/Tokyo Mon-Fri calendar=XTKS pause=11:30-12:30"
    with pytest.raises(QueryError, match=r"session: got 'XNYSS'.*did you mean"):
        Session.of("XNYSS")


ZONES = st.sampled_from(
    ["UTC", "America/New_York", "America/Chicago", "Europe/London", "Asia/Tokyo", "Australia/Lord_Howe",
     "America/Sao_Paulo", "Asia/Kathmandu", "Pacific/Apia", "Africa/Casablanca"]
)  # fmt: skip
HOURS = st.builds(
    lambda hour, minute: f"{hour:02}:{minute:02}", st.integers(0, 23), st.sampled_from([0, 15, 30, 59])
)
DATES = st.dates(date(1990, 1, 1), date(2035, 12, 1))


def _session(
    opens: str, closes: str, zone: str, weekdays: str, off: list[date], early: dict[date, str]
) -> Session:
    """A session with those early closes that lie in it."""
    whole = Session(opens, closes, zone=zone, weekdays=weekdays, days_off=off)
    fitting = {day: hour for day, hour in early.items() if whole._are_inside(hour)}
    return Session(opens, closes, zone=zone, weekdays=weekdays, days_off=off, early_closes=fitting)


def _session(
    opens: str, closes: str, zone: str, weekdays: str, off: list[date], early: dict[date, str]
) -> Session:
    """A session with those early closes that lie in it."""
    whole = Session(opens, closes, zone=zone, weekdays=weekdays, days_off=off)
    fitting = {day: hour for day, hour in early.items() if whole._are_inside(hour)}
    return Session(opens, closes, zone=zone, weekdays=weekdays, days_off=off, early_closes=fitting)


SESSIONS = st.builds(
    _session,
    HOURS, HOURS, ZONES, st.sampled_from(["Mon-Fri", "Mon-Sun", "Sun-Thu", "Mon,Wed", "Sat-Mon"]),
    st.lists(DATES, max_size=3), st.dictionaries(DATES, HOURS, max_size=2),
)  # fmt: skip


@settings(deadline=None)
@given(SESSIONS)
def test_a_session_comes_back_from_its_text_and_from_a_pickle(session: Session) -> None:
    assert Session.parsed(str(session)) == session
    assert eval(repr(session), {"Session": Session}) == session
    assert pickle.loads(pickle.dumps(session)) == session
    assert hash(Session.parsed(str(session))) == hash(session)


@pytest.mark.slow
@settings(deadline=None)
@given(SESSIONS, DATES, st.integers(0, 40))
def test_sessions_do_not_overlap_and_open_by_the_clock_of_their_zone(
    session: Session, first: date, days: int
) -> None:
    frame = session.schedule(first, first + timedelta(days=days))
    rows = frame.rows(named=True)
    assert [row["session_date"] for row in rows] == sorted({row["session_date"] for row in rows})
    zone, weekday_names = ZoneInfo(session.zone), ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]
    for row, following in pairwise([*rows, None]):
        assert row["open"] < row["close"]
        assert row["session_date"] not in session.days_off
        if following is not None:
            assert row["close"] <= following["open"]
        local = row["open"].astimezone(zone)
        written = datetime.combine(local.date(), datetime.strptime(session.open, "%H:%M").time(), zone)  # noqa: DTZ007
        is_there = written.astimezone(UTC).astimezone(zone).replace(tzinfo=None) == written.replace(
            tzinfo=None
        )
        assert not is_there or f"{local:%H:%M}" == session.open
        if not row["is_early"] and is_there:
            last = (row["close"] - timedelta(microseconds=1)).astimezone(zone)
            assert (
                last.date() == row["session_date"]
                or f"{row['close'].astimezone(zone):%H:%M}" != session.close
            )
    kept = {weekday_names[row["session_date"].weekday()] for row in rows}
    spelled = Session("00:00", "00:00", zone="UTC", weekdays=session.weekdays).schedule(
        "2024-01-01", "2024-01-08"
    )
    assert kept <= {weekday_names[day.weekday()] for day in spelled["session_date"]}


@pytest.mark.slow
@settings(deadline=None)
@given(HOURS, ZONES, DATES, st.integers(1, 400))
def test_sessions_of_a_whole_day_tile_time(hour: str, zone: str, first: date, days: int) -> None:
    rows = (
        Session(hour, hour, zone=zone, weekdays="Mon-Sun")
        .schedule(first, first + timedelta(days=days))
        .rows()
    )
    assert all(close == opens for (_, _, close, *_), (_, opens, *_) in pairwise(rows))


@pytest.mark.slow
@settings(deadline=None)
@given(SESSIONS, DATES, st.integers(0, 500), st.integers(0, 500))
def test_a_schedule_is_the_same_however_it_is_cut(session: Session, first: date, one: int, two: int) -> None:
    middle, end = first + timedelta(days=one), first + timedelta(days=one + two)
    parts = pl.concat([session.schedule(first, middle), session.schedule(middle, end)])
    assert session.schedule(first, end).equals(parts)


def test_the_day_of_the_service_is_the_date() -> None:
    days = Session.utc_day().schedule("2024-02-28", "2024-03-02")
    midnight = pl.col("session_date").cast(pl.Datetime("ns", "UTC"))
    assert days.filter(open=midnight, close=midnight.dt.offset_by("1d")).height == days.height == 3
    assert Session.utc_day().is_utc_day
    assert not Session.of("FX").is_utc_day


def test_a_future_that_opens_on_sunday_trades_on_monday() -> None:
    week = Session("17:00", "16:00", zone="America/Chicago").schedule("2024-08-01", "2024-08-08")
    assert [f"{day:%a}" for day in week["session_date"]] == ["Thu", "Fri", "Mon", "Tue", "Wed"]
    assert f"{week['open'][2]:%a %H:%M}" == "Sun 22:00"


@pytest.mark.parametrize(
    ("wrong", "parameter"),
    [
        ({"open": "24:00"}, "open"),
        ({"open": 9}, "open"),
        ({"close": "16.00"}, "close"),
        ({"close": "16:00Z"}, "close"),
        ({"zone": "New York"}, "zone"),
        ({"zone": "../etc/passwd"}, "zone"),
        ({"zone": None}, "zone"),
        ({"weekdays": "Mon-Xyz"}, "weekdays"),
        ({"weekdays": ""}, "weekdays"),
        ({"days_off": ["2024-13-01"]}, "days_off"),
        ({"days_off": [datetime(2024, 1, 1, tzinfo=UTC)]}, "days_off"),
        ({"early_closes": {"2024-01-01": "noon"}}, "early_closes"),
        ({"pause": ("12:30", "11:30")}, "pause"),
        ({"pause": ("11:30",)}, "pause"),
        ({"pause": "11:30"}, "pause"),
        ({"weekdays": "Mon–Fri"}, "weekdays"),
        ({"weekdays": "Monkey"}, "weekdays"),
        ({"weekdays": "Mon-"}, "weekdays"),
        ({"days_off": "2024-07-04"}, "days_off"),
        ({"days_off": None}, "days_off"),
        ({"early_closes": ["2024-07-04"]}, "early_closes"),
        ({"early_closes": {"2024-07-03": "09:00"}}, "early_closes"),
        ({"early_closes": {"2024-07-03": "16:00"}}, "early_closes"),
        ({"early_closes": {"2024-07-03": "17:00"}}, "early_closes"),
        ({"pause": ("08:00", "11:30")}, "pause"),
        ({"pause": ("15:00", "17:00")}, "pause"),
    ],
    ids=str,
)
def test_what_cannot_be_read_is_named(wrong: dict[str, Any], parameter: str) -> None:
    asked = {"open": "09:30", "close": "16:00", "zone": "America/New_York", **wrong}
    with pytest.raises(QueryError) as refused:
        Session(asked.pop("open"), asked.pop("close"), **asked)
    assert refused.value.parameter == parameter


@pytest.mark.parametrize(
    "text", ["09:30 UTC", "09:30-16:00 UTC Mon-Fri what=1", "a b c", "09:30-16:00-17:00 UTC Mon"]
)
def test_a_text_that_is_no_session_is_refused(text: str) -> None:
    with pytest.raises(QueryError, match="session: got"):
        Session.parsed(text)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["daily", "nonsense"])
@pytest.mark.parametrize("has_calendars", [True, False])
def test_a_word_that_names_no_session_is_refused_with_what_a_session_is(
    name: str,
    has_calendars: bool,  # noqa: FBT001
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if has_calendars:
        pytest.importorskip("pandas_market_calendars")
    else:
        monkeypatch.setitem(sys.modules, "pandas_market_calendars", None)
    with pytest.raises(QueryError if has_calendars else TidytapeError) as refused:
        Session.parsed(name)
    message = str(refused.value)
    assert message.startswith(f"session: got '{name}', expected a session as str writes it")
    assert "09:30-16:00 America/New_York Mon-Fri" in message
    assert "UTC, FX, CME, CME_REGULAR, XNYS" in message
    assert ("pip install 'tidytape[calendars]'" in message) is not has_calendars


def test_a_name_with_spaces_comes_back_and_a_break_may_vanish() -> None:
    spaced = Session("09:30", "16:00", zone="America/New_York", calendar="CME Globex Equity")
    assert Session.parsed(str(spaced)) == spaced
    assert Session("09:30", "16:00", zone="UTC", weekdays="monday - Friday").weekdays == "Mon-Fri"
    night = Session("00:00", "06:00", zone="America/New_York", weekdays="Mon-Sun", pause=("02:30", "03:15"))
    assert night.schedule("2024-03-10", "2024-03-11")["break_start"].to_list() == [None]
    with pytest.raises(QueryError, match="session: left out"):
        Session.parsed(None)  # type: ignore[arg-type]
    with pytest.raises(QueryError, match="start: got '1600-01-01'"):
        night.schedule("1600-01-01", "1600-02-01")


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["CME_Equity", "CME Globex Crypto", "24/7", "EUREX_Extended", "XNYS", "XTKS"]
)
def test_calendars_of_every_kind_have_hours(name: str) -> None:
    pytest.importorskip("pandas_market_calendars")
    session = Session.of(name)
    assert Session.parsed(str(session)) == session
    assert session.schedule("2024-08-05", "2024-08-10").height >= 4


@pytest.mark.slow
def test_calendars_that_warn_about_what_they_call_are_quiet() -> None:
    pytest.importorskip("pandas_market_calendars")
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        assert Session.of("XHKG").schedule("1996-08-05", "1996-08-10").height == 5
    assert shown == []


def test_a_schedule_that_ends_before_it_begins_is_refused() -> None:
    with pytest.raises(QueryError, match="end: got '2024-01-01', expected a date not before start"):
        Session.utc_day().schedule("2024-01-02", "2024-01-01")
    assert Session.utc_day().schedule("2024-01-01", "2024-01-01").columns[0] == "session_date"
