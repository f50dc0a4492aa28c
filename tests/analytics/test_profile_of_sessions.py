"""Levels with the end of their session and the length of its time blocks."""

from __future__ import annotations

from datetime import timedelta

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import tidytape
from analytics.touching import DAY, lists_of
from engines import Engine
from tables import each_row
from tidytape.analytics import pit, profile
from tidytape.errors import MissingColumnError, QueryError

NEXT = DAY + timedelta(days=1)
LEVELS = lists_of(
    {
        ("BTCUSDT", NEXT): {12.0: [0], 11.0: [0, 1]},
        (None, DAY): {5.0: [2]},
        ("BTCUSDT", DAY): {10.0: [1], 9.0: [0]},
        ("ETHUSDT", DAY): {3.0: [0]},
    }
).select("timestamp", "exchange", "raw_symbol", "price", "block_ids", "volume")
SESSIONS = pl.DataFrame(
    [
        ("VENUE", "BTCUSDT", DAY, DAY + timedelta(hours=6), 5),
        ("VENUE", "BTCUSDT", NEXT, NEXT + timedelta(hours=7), 30),
        ("VENUE", None, DAY, DAY + timedelta(days=1), 60),
        ("OTHER", "ETHUSDT", DAY, DAY + timedelta(days=7), 240),
    ],
    schema={
        **{name: LEVELS.schema[name] for name in ("exchange", "raw_symbol", "timestamp")},
        "period_end": LEVELS.schema["timestamp"],
        "block_size_minutes": pl.Int64,
    },
    orient="row",
)
NAMES = ["raw_symbol", "price"]


def test_every_level_gets_the_end_and_the_blocks_of_its_own_session(engine: Engine) -> None:
    added = engine.polars(profile.with_sessions(engine.frame(LEVELS), engine.frame(SESSIONS)))
    assert added.columns == [*LEVELS.columns[:3], "period_end", "block_size_minutes", *LEVELS.columns[3:]]
    hours = (pl.col("period_end") - pl.col("timestamp")).dt.total_hours().alias("hours")
    minutes = pl.col("block_size_minutes").cast(pl.Int64)
    wanted = [
        ("BTCUSDT", 12.0, 7, 30),
        ("BTCUSDT", 11.0, 7, 30),
        (None, 5.0, 24, 60),
        ("BTCUSDT", 10.0, 6, 5),
        ("BTCUSDT", 9.0, 6, 5),
        ("ETHUSDT", 3.0, None, None),  # the other exchange has a session of this name
    ]
    rows = added.select(*NAMES, hours, minutes).rows()
    if engine.name in {"duckdb", "spark"}:  # whose frames promise no order
        rows, wanted = sorted(rows, key=str), sorted(wanted, key=str)
    assert rows == wanted


def test_a_session_without_levels_adds_no_row_and_levels_without_a_session_keep_theirs() -> None:
    assert profile.with_sessions(LEVELS.head(0), SESSIONS).height == 0
    alone = profile.with_sessions(LEVELS, SESSIONS.head(0))
    assert_frame_equal(alone.drop("period_end", "block_size_minutes"), LEVELS)
    assert alone["period_end"].null_count() == alone["block_size_minutes"].null_count() == LEVELS.height


def test_names_may_be_words_or_categories_and_sessions_of_one_market_need_none() -> None:
    categories = SESSIONS.with_columns(pl.col("exchange", "raw_symbol").cast(pl.Categorical))
    wanted = profile.with_sessions(LEVELS, SESSIONS)
    assert_frame_equal(profile.with_sessions(LEVELS, categories), wanted)
    own = LEVELS.filter(raw_symbol="BTCUSDT")
    nameless = SESSIONS.filter(raw_symbol="BTCUSDT").drop("exchange", "raw_symbol")
    assert_frame_equal(profile.with_sessions(own, nameless), wanted.filter(raw_symbol="BTCUSDT"))


@each_row(
    ("levels", "sessions", "error", "text"),
    [
        (LEVELS, pl.concat([SESSIONS, SESSIONS.head(1)]), QueryError, "comes twice"),
        (LEVELS.drop("exchange", "raw_symbol"), SESSIONS, QueryError, "comes twice"),
        (profile.with_sessions(LEVELS, SESSIONS), SESSIONS, QueryError, "a frame with column period_end"),
        (LEVELS, SESSIONS.to_pandas(), QueryError, "sessions"),
        (LEVELS, SESSIONS.drop("period_end"), MissingColumnError, "period_end"),
        (LEVELS, SESSIONS.drop("block_size_minutes"), MissingColumnError, "block_size_minutes"),
        (LEVELS.drop("timestamp"), SESSIONS, MissingColumnError, "timestamp"),
    ],
)
def test_frames_that_do_not_fit_are_refused(
    levels: pl.DataFrame, sessions: pl.DataFrame, error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        profile.with_sessions(levels, sessions)


def test_a_session_that_comes_twice_doubles_no_level_of_a_lazy_frame(engine: Engine) -> None:
    if engine.name not in {"polars lazy", "duckdb", "spark"}:
        return  # in memory it is refused
    sessions = engine.frame(pl.concat([SESSIONS, SESSIONS.head(1)]))
    added = engine.polars(profile.with_sessions(engine.frame(LEVELS), sessions))
    wanted = profile.with_sessions(LEVELS, SESSIONS.tail(-1))
    columns = ["timestamp", *NAMES, "block_size_minutes"]
    same_zone = pl.col("timestamp").dt.epoch("us"), pl.col("block_size_minutes").cast(pl.Int64)
    in_order = [
        frame.select(columns).with_columns(same_zone).sort(columns).rows() for frame in (added, wanted)
    ]
    assert in_order[0] == in_order[1]
    assert added["period_end"].null_count() == added["block_size_minutes"].null_count()


@each_row(
    ("last", "minutes", "fits"),
    [(11, 30, True), (12, 30, False), (0, 360, True), (1, 360, False), (None, 30, True)],
)
def test_a_session_that_ends_before_a_block_of_its_levels_is_of_other_arguments(
    last: int | None, minutes: int, *, fits: bool
) -> None:
    # A session of six hours. The level of block 0 alone would fit into every session.
    levels = LEVELS.filter(raw_symbol="BTCUSDT", timestamp=DAY).with_columns(
        last_touch_block=pl.Series([0, last])
    )
    sessions = SESSIONS.head(1).with_columns(block_size_minutes=pl.lit(minutes, pl.Int64))
    lazy = profile.with_sessions(levels.lazy(), sessions.lazy()).collect()
    assert lazy["period_end"].null_count() == lazy["block_size_minutes"].null_count() == (0 if fits else 2)
    if fits:
        assert_frame_equal(profile.with_sessions(levels, sessions), lazy)
    else:
        with pytest.raises(QueryError, match="ends before a time block of its levels begins"):
            profile.with_sessions(levels, sessions)


def test_a_session_of_another_interval_is_another_session() -> None:
    hours, days = (LEVELS.with_columns(interval=pl.lit(name)) for name in ("1h", "1d"))
    sessions = SESSIONS.with_columns(interval=pl.lit("1d", pl.Categorical()))
    assert profile.with_sessions(hours, sessions)["period_end"].null_count() == LEVELS.height
    wanted = profile.with_sessions(LEVELS, SESSIONS)
    assert_frame_equal(profile.with_sessions(days, sessions).drop("interval"), wanted)


@pytest.mark.slow
def test_the_block_length_of_the_sessions_is_the_block_length_of_the_analytics() -> None:
    asked = {"exchange": "DEMO_SPOT", "coin": "BTC", "session": "daily", "block_minutes": 60}
    with tidytape.Client.demo() as client:
        days = {**asked, "start": "2024-08-07", "end": "2024-08-09"}
        levels, sessions = client.tpo(**days), client.tpo_sessions(**days)
    ended = profile.with_sessions(levels, sessions)
    calls = (
        (profile.initial_balance, {}),
        (profile.day_type, {}),
        (profile.developing, {"count": "tpo_count"}),
        (profile.summary, {"count": "tpo_count"}),
    )
    for function, arguments in calls:
        with pytest.raises(QueryError, match=r"block_minutes.*with_sessions adds it"):
            function(levels, **arguments)
        of_minutes = function(levels, block_minutes=60, **arguments)
        of_sessions = function(ended, **arguments)
        assert_frame_equal(of_sessions.drop("period_end", "interval"), of_minutes)
        assert set(of_sessions["period_end"]) == set(sessions["period_end"])


@pytest.mark.slow
def test_levels_are_known_at_the_end_of_their_session_and_not_without_it() -> None:
    asked = {"exchange": "DEMO_SPOT", "coin": "BTC", "session": "daily", "start": "2024-08-07"}
    with tidytape.Client.demo() as client:
        levels, sessions = (
            client.tpo(**asked, end="2024-08-09"),
            client.tpo_sessions(**asked, end="2024-08-09"),
        )
    with pytest.raises(QueryError, match=r"profile\.with_sessions adds 'period_end'"):
        pit.known_at(levels)
    ended = profile.with_sessions(levels, sessions)
    known = pit.known_at(ended)
    assert known["known_at"].equals(known["period_end"])
    # The sessions say when they end themselves.
    assert pit.known_at(sessions)["known_at"].to_list() == sessions["period_end"].to_list()
    # On the second day only the first one is known.
    before = pit.as_of(ended, "2024-08-08T12:00")
    assert set(before["timestamp"]) == {sessions["timestamp"].min()}
