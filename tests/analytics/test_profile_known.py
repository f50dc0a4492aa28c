"""When what is read off profiles is known: not before their sessions end, whatever interval they were made of."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import narwhals.stable.v2 as nw
import polars as pl
import pytest

import tidytape
from tidytape.analytics import pit, profile
from tidytape.errors import MissingColumnError, QueryError

ASKED = {"exchange": "DEMO_SPOT", "raw_symbol": "BTCUSDT", "end": "2024-08-09"}
SESSIONS = {
    "weekly": {"session": "weekly", "block_size": 100, "block_minutes": 240, "start": "2024-08-05"},
    "monthly": {"session": "monthly", "block_size": 100, "block_minutes": 240, "start": "2024-08-01"},
    "daily by the hour": {"session": "daily", "interval": "1h", "block_size": 50, "start": "2024-08-07"},
    "of an interval": {"interval": "4h", "block_size": 50, "start": "2024-08-08"},
}
COUNTING = ("value_area", "point_of_control", "nodes", "shape", "naked_pocs", "summary")
OF_BLOCKS = ("initial_balance", "single_prints", "tails", "poor_extremes", "day_type")


@pytest.fixture(scope="module")
def client():
    return tidytape.Client.demo()


def levels_of(client, session):
    """Return levels with the end of their sessions and the length of their blocks."""
    asked = {**ASKED, **SESSIONS[session]}
    return profile.with_sessions(client.tpo(**asked), client.tpo_sessions(**asked))


def without_hindsight(found):
    """Return a result without what later sessions decide."""
    return nw.from_native(found).drop("is_naked", "touched_at", strict=False).to_native()


@pytest.mark.long
@pytest.mark.parametrize("backend", ["polars", "pandas"])
@pytest.mark.parametrize("session", list(SESSIONS))
def test_a_result_is_known_when_its_session_ends(session, backend):
    levels = levels_of(tidytape.Client.demo(backend=backend), session)
    as_polars = pl.from_pandas(levels) if backend == "pandas" else levels
    ends = dict(as_polars.select("timestamp", "period_end").unique().rows())
    for name in (*COUNTING, *OF_BLOCKS):
        counts = [{"count": "tpo_count"}, {"count": "volume"}] if name in COUNTING else [{}]
        for arguments in counts:
            found = pit.known_at(without_hindsight(getattr(profile, name)(levels, **arguments)))
            found = pl.from_pandas(found) if backend == "pandas" else found
            known = dict(found.select("timestamp", "known_at").unique().rows())
            # Not every session has a single print.
            assert known == {start: ends[start] for start in known}, name
            assert known or name == "single_prints"
            assert set(found["known_at_rule"]) <= {"period"}


@pytest.mark.slow
def test_no_decision_meets_the_value_area_of_a_session_that_goes_on(client):
    levels = levels_of(client, "daily by the hour")
    candles = pit.known_at(client.candles(interval="1h", **ASKED, start="2024-08-07"))
    joined = pit.asof_join(
        candles, profile.value_area(levels, count="tpo_count"), on="known_at", suffix="_of"
    )
    first_end = datetime(2024, 8, 8, tzinfo=UTC)
    met = joined.filter(~pl.col("poc").is_null())
    assert met["known_at"].min() == first_end
    assert (met["timestamp_of"] + timedelta(days=1) <= met["known_at"]).all()


@pytest.mark.slow
def test_a_session_told_by_names_of_the_caller_keeps_its_end(client):
    levels = levels_of(client, "weekly")
    found = profile.value_area(levels, by=["raw_symbol", "interval", "timestamp"])
    assert found.columns[:4] == ["timestamp", "raw_symbol", "interval", "period_end"]
    assert pit.known_at(found)["known_at"].item() == datetime(2024, 8, 12, tzinfo=UTC)


@pytest.mark.slow
def test_sessions_that_start_at_once_and_end_apart_are_two_profiles(client):
    week = levels_of(client, "weekly")
    day = week.with_columns(period_end=pl.col("timestamp").dt.offset_by("1d"))
    both = pl.concat([week, day])
    assert profile.value_area(both)["period_end"].to_list() == [
        datetime(2024, 8, 6, tzinfo=UTC),
        datetime(2024, 8, 12, tzinfo=UTC),
    ]


@pytest.mark.slow
def test_sessions_without_an_end_are_never_known_by_an_interval(client):
    levels = levels_of(client, "weekly").drop("period_end")
    with pytest.raises(QueryError, match="with_sessions adds 'period_end'"):
        pit.known_at(levels)
    with pytest.raises(QueryError, match="with_sessions adds 'period_end'"):
        pit.as_of(levels, "2024-08-09")
    assert pit.known_at(levels, rule="interval")["known_at"][0] == datetime(2024, 8, 6, tzinfo=UTC)
    for name in (*COUNTING, *OF_BLOCKS, "composite"):
        found = getattr(profile, name)(levels, **({"row_size": 100} if name == "composite" else {}))
        assert "interval" not in found.columns, name
        with pytest.raises(MissingColumnError, match="interval"):
            pit.known_at(without_hindsight(found))
    assert "interval" in profile.value_area(levels.lazy(), by=["interval", "timestamp"]).collect_schema()
    lazy = profile.value_area(levels.lazy()).collect()
    assert lazy.equals(profile.value_area(levels))


@pytest.mark.slow
def test_an_interval_is_how_long_a_volume_profile_lasts(client):
    levels = client.volume_profile(interval="1d", block_size=50, start="2024-08-07", **ASKED)
    found = pit.known_at(without_hindsight(profile.summary(levels)))
    assert (found["known_at"] - found["timestamp"]).to_list() == [timedelta(days=1)] * 2
    assert set(found["known_at_rule"]) == {"interval"}


@pytest.mark.slow
def test_a_composite_is_known_when_its_last_session_ends(client):
    days = client.volume_profile(interval="1d", block_size=50, start="2024-08-07", **ASKED)
    hours = levels_of(client, "daily by the hour")
    for levels, count in ((days, "volume"), (hours, "tpo_count")):
        both = profile.composite(levels, count=count, row_size=50)
        assert set(both["sessions"]) == {2}
        area = pit.known_at(profile.value_area(both, count=count, row_size=50))
        assert area["timestamp"].to_list() == [datetime(2024, 8, 7, tzinfo=UTC)]
        assert area["known_at"].to_list() == [datetime(2024, 8, 9, tzinfo=UTC)]
        assert set(pit.known_at(both)["known_at"]) == {datetime(2024, 8, 9, tzinfo=UTC)}


@pytest.mark.slow
@pytest.mark.parametrize("function", [profile.naked_pocs, profile.summary])
def test_what_later_sessions_decide_is_not_known_when_a_session_ends(client, function):
    found = function(levels_of(client, "daily by the hour"), count="tpo_count")
    for refused in (pit.known_at, lambda frame: pit.as_of(frame, "2024-08-09")):
        with pytest.raises(QueryError, match="which later sessions decide"):
            refused(found)
    assert pit.known_at(found, rule="period")["known_at"].to_list() == found["period_end"].to_list()
