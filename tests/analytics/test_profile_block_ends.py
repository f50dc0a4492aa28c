"""When time blocks end: by a plain count of the minutes in which a market trades."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import polars as pl
import pytest

from analytics.touching import DAY, lists_of
from engines import Engine
from tables import each_row
from tidytape import Session, aggregate
from tidytape.analytics import profile
from tidytape.errors import QueryError

HONG_KONG = Session("09:30", "16:00", zone="Asia/Hong_Kong", pause=("12:00", "13:00"))
REGULAR = Session("08:30", "15:00", zone="America/Chicago", early_closes={"2024-11-01": "11:45"})
WHOLE = Session("17:00", "16:00", zone="America/Chicago", days_off=["2024-11-05"])
WEEKDAYS = Session("00:00", "00:00", zone="UTC", weekdays="Mon-Fri")
FIRST, LAST = date(2024, 10, 28), date(2024, 11, 9)  # clocks change in Chicago
MINUTE = timedelta(minutes=1)


def candles_of(session: Session) -> pl.DataFrame:
    """Candles of 5 minutes, around the clock."""
    times = pl.datetime_range(FIRST, LAST, "5m", eager=True, closed="left", time_zone="UTC")
    close = 100.0 + pl.int_range(pl.len()) % 7
    return pl.DataFrame(
        {"timestamp": times, "exchange": "VENUE", "raw_symbol": "S", "interval": "5m"}
    ).with_columns(open=close, high=close + 1, low=close - 1, close=close, volume=1.0)


def levels_of(session: Session, period: str, minutes: int) -> pl.DataFrame:
    """Levels with the end of their session."""
    arguments = {"session": session, "period": period, "block_minutes": minutes, "block_size": 1}
    frame = candles_of(session)
    return profile.with_sessions(
        aggregate.candle_tpo(frame, **arguments), aggregate.candle_tpo_sessions(frame, **arguments)
    )


def truth(session: Session, start: datetime, end: datetime, block: int, minutes: int) -> datetime:
    """When a block ends: after so many minutes in which the market trades, or with its session."""
    left = (block + 1) * minutes
    for _, opens, closes, _, pause, resumes in session.schedule(
        FIRST - 40 * MINUTE * 1_440, "2024-12-20"
    ).rows():
        now = max(opens, start)
        while now < min(closes, end):
            if pause is None or not pause <= now < resumes:
                left -= 1
            now += MINUTE
            if left == 0:
                return now
    return end


ROWS = [
    (HONG_KONG, "daily", 30),
    (HONG_KONG, "daily", 240),  # longer than the morning: a count of blocks does not show the break
    (HONG_KONG, "weekly", 60),
    (REGULAR, "daily", 60),
    (REGULAR, "weekly", 30),
    (WHOLE, "weekly", 240),
    (WEEKDAYS, "monthly", 240),
    (Session.utc_day(), "daily", 240),
    (Session.utc_day(), "weekly", 60),
]


@pytest.mark.slow
@each_row(("session", "period", "minutes"), ROWS)
def test_a_block_is_known_when_the_market_has_traded_it(session: Session, period: str, minutes: int) -> None:
    found = profile.developing(levels_of(session, period, minutes), session=session)
    assert found.height > 3
    for start, end, block, known in found.select("timestamp", "period_end", "block", "known_at").iter_rows():
        assert known == truth(session, start, end, block, minutes)


@pytest.mark.slow
@each_row(("session", "period", "minutes"), ROWS)
def test_without_its_session_no_block_is_known_too_early(session: Session, period: str, minutes: int) -> None:
    levels = levels_of(session, period, minutes)
    found = profile.developing(levels.lazy()).collect()
    exact = profile.developing(levels, session=session)
    assert (found["known_at"] >= exact["known_at"]).all()
    columns = ["timestamp", "block", "poc", "val", "vah"]
    assert found.select(columns).equals(exact.select(columns))
    if session.is_utc_day:
        assert found["known_at"].equals(exact["known_at"])
        return
    assert found["known_at"].equals(found["period_end"])
    is_at_midnight = session == WEEKDAYS  # so nothing tells its levels from those of UTC without an end
    for refused in (levels, *([] if is_at_midnight else [levels.drop("period_end")])):
        with pytest.raises(QueryError, match="count trading time") as caught:
            profile.developing(refused)
        assert caught.value.parameter == "session"
    unknown = profile.developing(levels.lazy().drop("period_end")).collect()["known_at"]
    assert is_at_midnight or unknown.null_count() > 0


@pytest.mark.slow
def test_a_session_that_opens_at_another_time_is_refused() -> None:
    levels = levels_of(REGULAR, "daily", 30)
    with pytest.raises(QueryError, match="opens when they do"):
        profile.developing(levels, session=HONG_KONG)
    lazy = profile.developing(levels.lazy(), session=HONG_KONG).collect()
    assert lazy["known_at"].equals(lazy["period_end"])
    with pytest.raises(QueryError, match="expected a Session") as caught:
        profile.developing(levels, session="CME")
    assert caught.value.parameter == "session"


@pytest.mark.slow
def test_every_engine_tells_the_same_ends(engine: Engine) -> None:
    morning = datetime(2024, 8, 8, 1, 30, tzinfo=UTC)
    levels = lists_of({("BTCUSDT", morning): {10.0: [0, 4], 11.0: [5, 10]}, (None, morning): {5.0: [4]}})
    found = engine.polars(profile.developing(engine.frame(levels), session=HONG_KONG))
    hours = (pl.col("known_at").dt.epoch("s") - int(morning.timestamp())) / 3_600
    wanted = {0: 0.5, 1: 1, 2: 1.5, 3: 2, 4: 2.5, 5: 4, 6: 4.5, 7: 5, 8: 5.5, 9: 6, 10: 6.5}
    rows = found.select("block", hours.alias("hours")).rows()
    assert len(rows) == 12
    assert all(wanted[int(block)] == hour for block, hour in rows)


@pytest.mark.slow
@each_row(
    ("hour", "minute", "blocks", "in_progress"),
    [
        (3, 59, 5, True),
        (4, 0, 5, False),
        (4, 30, 5, False),
        (5, 0, 6, True),
        (5, 29, 6, True),
        (5, 30, 6, False),
        (9, 0, 11, False),
    ],
)
def test_a_run_is_in_progress_until_its_block_has_traded(
    hour: int, minute: int, blocks: int, *, in_progress: bool
) -> None:
    morning, now = (DAY + timedelta(hours=hours, minutes=more) for hours, more in ((1, 30), (hour, minute)))
    levels = lists_of({("BTCUSDT", morning): {10.0: [0], 11.0: [*range(blocks)], 12.0: [blocks - 1]}})
    of_time = {"now": now, "session": HONG_KONG}
    tails = profile.tails(levels, **of_time).filter(end="high")
    assert tails["is_in_progress"].to_list() == [in_progress]
    assert profile.poor_extremes(levels, **of_time)["is_high_in_progress"].to_list() == [in_progress]
    assert profile.summary(levels, **of_time)["is_high_in_progress"].to_list() == [in_progress]
    closed = profile.developing(levels, **of_time)["block"].to_list()
    assert (blocks - 1 in closed) is not in_progress
    with pytest.raises(QueryError, match="count trading time"):
        profile.tails(levels.with_columns(interval=pl.lit("1d")), now=now)
