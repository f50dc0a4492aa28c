"""A closed market has no gap: gaps and completeness among the intervals in which it trades."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import polars as pl
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from engines import Engine
from tidytape import Session, aggregate
from tidytape.analytics import quality
from tidytape.errors import QueryError

NEW_YORK = Session(
    "09:30", "16:00", zone="America/New_York", days_off=["2024-11-28"], early_closes={"2024-11-29": "13:00"}
)
TOKYO = Session("09:00", "15:30", zone="Asia/Tokyo", pause=("11:30", "12:30"))
FUTURES = Session("17:00", "16:00", zone="America/Chicago")
START = datetime(2024, 10, 31, tzinfo=UTC)  # the clocks of America change on 3 November
MINUTES = {"5m": 5, "30m": 30, "1h": 60, "1d": 1_440}


def _frame(minutes: list[int], interval: str) -> pl.DataFrame:
    times = [START + timedelta(minutes=minute) for minute in minutes]
    return pl.DataFrame(
        {"timestamp": times, "interval": interval, "exchange": "X"},
        schema_overrides={"timestamp": pl.Datetime("ns", "UTC")},
    )


def _expected(session: Session, minutes: int, days: int = 60) -> list[datetime]:
    """The starts of all intervals in which the market trades, found one by one."""
    first = (START - timedelta(days=20)).date()
    schedule = session.schedule(first, first + timedelta(days=days)).rows(named=True)
    step, starts = timedelta(minutes=minutes), set()
    for row in schedule:
        if minutes >= 1_440:
            starts.add(datetime(*row["session_date"].timetuple()[:3], tzinfo=UTC))
            continue
        time = datetime(*row["open"].timetuple()[:3], tzinfo=UTC)
        while time < row["close"]:
            in_break = (
                row["break_start"] is not None and row["break_start"] <= time <= row["break_end"] - step
            )
            if time + step > row["open"] and not in_break:
                starts.add(time)
            time += step
    return sorted(starts)


def _day_of(session: Session, time: datetime) -> datetime:
    """The day to which a row of a day belongs, found by a walk through the sessions."""
    day = datetime(*time.timetuple()[:3], tzinfo=UTC)
    rows = session.schedule(day.date() - timedelta(days=9), day.date() + timedelta(days=9)).rows(named=True)
    if time == day and time not in [row["open"] for row in rows]:
        return day
    hours = [timedelta(hours=int(hour[:2]), minutes=int(hour[3:])) for hour in (session.open, session.close)]
    half = ((hours[1] - hours[0]) % timedelta(days=1) or timedelta(days=1)) / 2
    holding = [row for row in rows if row["open"] <= time <= row["close"]]
    after = [row for row in rows if time <= row["open"] + half < time + timedelta(days=1)]
    for row in (*holding[-1:], *after):
        return datetime(*row["session_date"].timetuple()[:3], tzinfo=UTC)
    return day


STAMPED = {
    "open": lambda row, _: row["open"],
    "midnight of the zone": lambda row, zone: datetime(
        *row["session_date"].timetuple()[:3], tzinfo=ZoneInfo(zone)
    ),
    "midnight in UTC": lambda row, _: datetime(*row["session_date"].timetuple()[:3], tzinfo=UTC),
    "close": lambda row, _: row["close"],
}


@pytest.mark.slow
@settings(deadline=None, max_examples=30)
@given(
    st.sampled_from(
        [
            NEW_YORK,
            TOKYO,
            FUTURES,
            Session.of("FX"),
            Session("09:00", "15:00", zone="Pacific/Auckland"),
            Session("04:00", "20:00", zone="America/New_York"),
            Session("00:00", "00:00", zone="America/Chicago", weekdays="Mon-Sun"),
            Session("08:30", "15:00", zone="America/Chicago"),
        ]
    ),
    st.sampled_from(sorted(STAMPED)),
    st.sets(st.integers(1, 18)),
)
def test_a_candle_of_a_day_counts_to_the_date_of_its_session(
    session: Session, stamped: str, lost: set[int]
) -> None:
    assume(
        stamped != "close" or session in (NEW_YORK, TOKYO, FUTURES)
    )  # others close at an open, or at 00:00 UTC
    rows = session.schedule("2024-10-21", "2024-12-05").rows(named=True)[:20]
    times = [STAMPED[stamped](row, session.zone).astimezone(UTC) for row in rows]
    kept = [time for place, time in enumerate(times) if place not in lost]
    frame = pl.DataFrame({"timestamp": kept, "interval": "1d", "exchange": "X"})
    count = quality.completeness(frame, session=session)
    assert count.select("expected", "present").rows() == [(20, 20 - len(lost))]
    dates = [datetime(*row["session_date"].timetuple()[:3], tzinfo=UTC) for row in rows]
    gaps = quality.gaps(frame, session=session)
    starts = [date for place, date in enumerate(dates) if place in lost and place - 1 not in lost]
    assert gaps["start"].to_list() == starts
    assert gaps["missing"].sum() == len(lost)
    # The second series ends five sessions before the first one.
    both = pl.concat(
        [frame, frame.filter(pl.col("timestamp") < times[15]).with_columns(exchange=pl.lit("Y"))]
    )
    late = quality.audit(both, session=session, checks="stale")
    ends = max(place for place in range(15) if place not in lost)
    assert late.select("exchange", "count").rows() == [("Y", 19 - ends)]


@pytest.mark.slow
@pytest.mark.parametrize("session", [NEW_YORK, TOKYO, FUTURES, Session.of("FX")], ids=str)
@pytest.mark.parametrize("interval", ["1d", "1w"])
def test_what_resample_makes_of_whole_sessions_is_complete(session: Session, interval: str) -> None:
    rows = session.schedule("2024-10-21", "2024-12-07").select("open", "close").rows()
    times = [time for row in rows for time in pl.datetime_range(*row, "30m", closed="left", eager=True)]
    minutes = pl.DataFrame({"timestamp": times, "interval": "30m", "exchange": "X"}).with_columns(
        pl.lit(1.0).alias(name) for name in ("open", "high", "low", "close", "volume")
    )
    asked = {"data_type": "TRADE_SIDE_AGNOSTIC_AGG", "interval": interval, "session": session}
    candles = aggregate.resample(minutes, **asked)
    assert quality.gaps(candles, session=session).is_empty()
    expected = len(rows) if interval == "1d" else 7
    assert quality.completeness(candles, session=session)["present"].to_list() == [expected]
    assert quality.completeness(candles, session=session)["expected"].to_list() == [expected]
    assert quality.audit(candles, session=session, checks=["missing_bucket", "stale"]).is_empty()


@pytest.mark.slow
@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.integers(0, 60 * 24 * 8), min_size=1, max_size=60),
    st.sampled_from([NEW_YORK, TOKYO, FUTURES, Session.of("FX")]),
    st.sampled_from(sorted(MINUTES)),
    st.tuples(st.booleans(), st.booleans()),
)
def test_gaps_are_what_a_walk_through_the_intervals_finds(
    minutes: list[int], session: Session, interval: str, bounded: tuple[bool, bool]
) -> None:
    length, frame = MINUTES[interval], _frame(minutes, interval)
    step = timedelta(minutes=length)
    expected = _expected(session, length)
    floors = {START + timedelta(minutes=minute // length * length) for minute in minutes}
    if interval == "1d":
        floors = {_day_of(session, START + timedelta(minutes=minute)) for minute in minutes}
    present = sorted(floors & {*expected})
    window = {}
    if bounded[0]:
        window["start"] = START + timedelta(days=1, minutes=7)
    if bounded[1]:
        window["end"] = START + timedelta(days=6, minutes=7)
    first = window.get("start", present[0] if present else None)
    last = window.get("end", present[-1] + step if present else None)
    inside = [] if first is None or last is None else [time for time in expected if first <= time < last]
    missing = [time for time in inside if time not in floors]
    got = quality.gaps(frame, session=session, **window)
    if not present and not all(bounded):
        assert got["missing"].sum() <= len(expected)
    else:
        runs: list[list[datetime]] = []
        for time in inside:
            if time in floors:
                runs.append([])
            elif runs and runs[-1] is not None:
                runs[-1].append(time)
            else:
                runs.append([time])
        runs = [run for run in runs if run]
        assert got.select("start", "end", "missing").rows() == [
            (run[0], run[-1] + step, len(run)) for run in runs
        ]
        whole = quality.completeness(frame, session=session, **window)
        assert whole.select("expected", "missing").rows() == [(len(inside), len(missing))]


@pytest.mark.slow
@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.integers(0, 60 * 24 * 8), min_size=1, max_size=60),
    st.sampled_from(sorted(MINUTES)),
    st.booleans(),
)
def test_the_day_of_the_service_changes_no_byte(minutes: list[int], interval: str, has_window: bool) -> None:  # noqa: FBT001
    frame = _frame(minutes, interval)
    window = {"start": START - timedelta(days=2), "end": START + timedelta(days=9)} if has_window else {}
    for function in (quality.gaps, quality.completeness):
        plain = function(frame, **window)
        assert function(frame, session=Session.utc_day(), **window).equals(plain)


@pytest.mark.slow
def test_a_year_of_minutes_of_new_york_is_whole_less_one_hour() -> None:
    schedule = NEW_YORK.schedule(date(2024, 1, 1), date(2025, 1, 1))
    minutes = pl.concat(
        pl.datetime_range(opens, closes, "1m", closed="left", time_unit="ns", time_zone="UTC", eager=True)
        for opens, closes in schedule.select("open", "close").rows()
    )
    frame = pl.DataFrame({"timestamp": minutes, "interval": "1m", "exchange": "X"})
    assert quality.completeness(frame, session=NEW_YORK)["completeness"].to_list() == [1.0]
    assert quality.gaps(frame, session=NEW_YORK).is_empty()
    hour = datetime(2024, 5, 3, 15, tzinfo=UTC)
    holed = frame.filter(~pl.col("timestamp").is_between(hour, hour + timedelta(hours=1), closed="left"))
    assert quality.completeness(holed, session=NEW_YORK)["missing"].to_list() == [60]
    gap = quality.gaps(holed, session=NEW_YORK).select("start", "end", "missing").rows()
    assert gap == [(hour, hour + timedelta(hours=1), 60)]


@pytest.mark.slow
def test_gaps_are_the_same_on_every_engine(engine: Engine) -> None:
    frame = _frame([*range(0, 60 * 24 * 8, 95)], "1h").cast({"timestamp": pl.Datetime("us", "UTC")})
    for function in (quality.gaps, quality.completeness):
        expected = function(frame, session=FUTURES)
        got = engine.polars(function(engine.frame(frame), session=FUTURES)).sort("start")
        assert got.select("missing").rows() == expected.select("missing").rows()
        assert got["start"].cast(pl.Datetime("us", "UTC")).to_list() == expected["start"].to_list()


@pytest.mark.slow
def test_candles_of_days_count_to_their_sessions_on_every_engine(engine: Engine) -> None:
    opens = FUTURES.schedule("2024-10-21", "2024-11-16")["open"].gather([*range(9), *range(11, 19)])
    days = pl.DataFrame(
        {"timestamp": opens.cast(pl.Datetime("us", "UTC")), "interval": "1d", "exchange": "X"}
    )
    frame = pl.concat([days, days.head(8).with_columns(exchange=pl.lit("Y"))])
    gaps = engine.polars(quality.gaps(engine.frame(frame), session=FUTURES)).sort("start")
    assert gaps.select("exchange", "missing").rows() == [("X", 2)]
    counts = engine.polars(quality.completeness(engine.frame(frame), session=FUTURES)).sort("exchange")
    assert counts.select("expected", "present").rows() == [(19, 17), (19, 8)]
    late = engine.polars(quality.audit(engine.frame(frame), session=FUTURES, checks="stale"))
    assert late.select("exchange", "count").rows() == [("Y", 11)]


@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.integers(0, 60 * 24 * 8), min_size=1, max_size=60),
    st.sampled_from([NEW_YORK, TOKYO, FUTURES, Session.of("FX")]),
    st.sampled_from(["5m", "30m", "1h", "1d"]),
    st.sampled_from(["2h", "1d", "1w"]),
    st.booleans(),
)
def test_spans_expect_the_intervals_in_which_the_market_trades(
    minutes: list[int],
    session: Session,
    interval: str,
    every: str,
    is_bounded: bool,  # noqa: FBT001
) -> None:
    length, frame = MINUTES[interval], _frame(minutes, interval)
    step, span = timedelta(minutes=length), {"2h": 2, "1d": 24, "1w": 168}[every] * timedelta(hours=1)
    expected = _expected(session, length)
    starts = {START + timedelta(minutes=minute // length * length) for minute in minutes}
    if interval == "1d":
        starts = {_day_of(session, START + timedelta(minutes=minute)) for minute in minutes}
    present, window = sorted(starts & {*expected}), dict[str, datetime]()
    if is_bounded:
        window = {"start": START + timedelta(days=1, minutes=7), "end": START + timedelta(days=6, minutes=7)}
    assume(present or window)
    first = window.get("start", present[0] if present else START)
    last = window.get("end", present[-1] + step if present else START)
    monday = datetime(2024, 10, 28, tzinfo=UTC)
    spans: dict[datetime, list[datetime]] = {}
    for time in expected:
        if first <= time < last:
            spans.setdefault(time - (time - monday) % span, []).append(time)
    got = quality.completeness(frame, session=session, every=every, **window)
    assert got.select("start", "end", "expected", "present").rows() == [
        (times[0], times[-1] + step, len(times), len(starts & {*times})) for times in spans.values()
    ]
    whole = quality.completeness(frame, session=session, **window)
    assert got["expected"].sum() == whole["expected"].sum()
    assert got["present"].sum() == whole["present"].sum()


def test_a_day_off_has_no_span_and_a_day_that_ends_early_expects_less() -> None:
    # Thanksgiving of 2024, the Friday that closes at 13:00, and the weekend.
    opens = NEW_YORK.schedule("2024-11-27", "2024-12-03").select("open", "close").rows()
    times = [time for row in opens for time in pl.datetime_range(*row, "30m", closed="left", eager=True)]
    frame = pl.DataFrame({"timestamp": times[:-1], "interval": "30m", "exchange": "X"})
    days = quality.completeness(frame, session=NEW_YORK, every="1d", end="2024-12-03")
    counts = days.select(pl.col("start").dt.day(), "expected", "present").rows()
    assert counts == [(27, 13, 13), (29, 7, 7), (2, 13, 12)]


@pytest.mark.slow
@pytest.mark.parametrize("session", [NEW_YORK, FUTURES], ids=str)
def test_a_day_that_begins_at_the_open_is_not_misaligned(session: Session) -> None:
    opens = session.schedule("2024-03-04", "2024-03-16")["open"]  # the clock changes between
    frame = pl.DataFrame({"timestamp": opens, "interval": "1d", "exchange": "X"})
    assert quality.audit(frame, session=session).is_empty()
    assert set(quality.audit(frame, checks="misaligned")["finding"]) == {"misaligned"}
    odd = frame.with_columns(interval=pl.lit("1h"), timestamp=pl.col("timestamp").dt.offset_by("7m"))
    assert set(quality.audit(odd, session=session, checks="misaligned")["finding"]) == {"misaligned"}


def test_a_window_in_which_the_market_is_closed_expects_nothing() -> None:
    weekend = {"start": "2024-11-02", "end": "2024-11-04"}
    count = quality.completeness(_frame([600], "1h"), session=NEW_YORK, **weekend)
    assert count.select("expected", "present", "completeness").rows() == [(0, 0, None)]
    assert count["start"].to_list() == [datetime(2024, 11, 2, tzinfo=UTC)]
    assert quality.completeness(_frame([600], "1h"), session=NEW_YORK, every="1d", **weekend).is_empty()


@pytest.mark.slow
def test_spans_are_the_same_on_every_engine(engine: Engine) -> None:
    frame = _frame([*range(0, 60 * 24 * 8, 95)], "1h").cast({"timestamp": pl.Datetime("us", "UTC")})
    expected = quality.completeness(frame, session=FUTURES, every="1d")
    got = engine.polars(quality.completeness(engine.frame(frame), session=FUTURES, every="1d")).sort("start")
    assert got.select("expected", "present").rows() == expected.select("expected", "present").rows()


@pytest.mark.slow
@settings(deadline=None, max_examples=30)
@given(
    st.lists(st.integers(0, 60 * 24 * 8), min_size=1, max_size=60),
    st.sampled_from([NEW_YORK, TOKYO, FUTURES, Session.of("FX")]),
    st.sampled_from(sorted(MINUTES)),
)
def test_an_audit_counts_the_intervals_of_its_gaps(
    minutes: list[int], session: Session, interval: str
) -> None:
    frame = _frame(minutes, interval)
    gaps = quality.gaps(frame, session=session)
    got = quality.audit(frame, session=session, checks="missing_bucket")
    step = timedelta(minutes=MINUTES[interval])
    expected = [(gaps["missing"].sum(), gaps["start"].min(), gaps["end"].max() - step)] if len(gaps) else []
    assert got.select("count", "first", "last").rows() == expected
    before = quality.examples(frame, finding="missing_bucket", session=session, rows=100)
    assert len(before) == len(gaps)


@pytest.mark.slow
def test_an_audit_counts_late_intervals_in_which_the_market_trades() -> None:
    # From Thursday 31 October; Y ends on Friday at 19:30 UTC, half an hour early. The clock changes on Sunday.
    half_hours = list(range(0, 60 * 24 * 6, 30))
    whole = _frame(half_hours, "30m")
    late = whole.head(87).with_columns(exchange=pl.lit("Y"))
    times = NEW_YORK.label(pl.concat([whole, late]))
    frame = times.filter(pl.col("segment") == "regular").drop("session_date", "segment")
    for rows in (frame, frame.reverse()):
        got = quality.audit(rows, session=NEW_YORK, checks=["stale", "missing_bucket"])
        monday = datetime(2024, 11, 5, 20, 30, tzinfo=UTC)
        assert got.select("exchange", "finding", "count", "first", "last").rows() == [
            ("Y", "stale", 1 + 2 * 13, datetime(2024, 11, 1, 19, 30, tzinfo=UTC), monday)
        ]
    assert quality.audit(frame, session=NEW_YORK, checks="stale", stale=27).is_empty()


@pytest.mark.slow
@settings(deadline=None, max_examples=20)
@given(st.lists(st.integers(0, 60 * 24 * 8), min_size=1, max_size=60), st.sampled_from(sorted(MINUTES)))
def test_the_day_of_the_service_changes_no_byte_of_an_audit(minutes: list[int], interval: str) -> None:
    frame = _frame(minutes, interval)
    assert quality.audit(frame, session=Session.utc_day()).equals(quality.audit(frame))


@pytest.mark.slow
def test_an_audit_is_the_same_on_every_engine(engine: Engine) -> None:
    hours = _frame([*range(0, 60 * 24 * 8, 95)], "1h").cast({"timestamp": pl.Datetime("us", "UTC")})
    frame = pl.concat([hours, hours.head(60).with_columns(exchange=pl.lit("Y"))])
    asked = {"session": FUTURES, "checks": ["stale", "missing_bucket"]}
    expected = quality.audit(frame, **asked)
    got = engine.polars(quality.audit(engine.frame(frame), **asked)).sort("exchange", "finding")
    assert expected["finding"].to_list() == ["missing_bucket", "missing_bucket", "stale"]
    assert got.select("count").rows() == expected.select("count").rows()
    assert got["last"].cast(pl.Datetime("us", "UTC")).to_list() == expected["last"].to_list()


@pytest.mark.slow
def test_a_frame_without_rows_is_complete() -> None:
    empty = _frame([], "1h")
    for function in (quality.gaps, quality.completeness, quality.audit):
        assert function(empty, session=NEW_YORK).is_empty()
    with pytest.raises(QueryError, match="session: got 'XNYS', expected a Session"):
        quality.audit(_frame([0], "1h"), session="XNYS")
