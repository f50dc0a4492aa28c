"""silences.md, "Time"."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.asked import PERP, TPO, of
from conformance.lake import AUGUST, DAY, HOUR, MONDAY, T0, WEEK
from tables import each_row


def test_the_window_is_half_open(service: Any) -> None:
    assert service.rows(from_=T0, period=180) == [(0,), (60,)]
    assert service.rows(from_=T0 + 60, period=120) == [(60,)]


def test_a_window_of_1000_minutes_gives_1000_points(service: Any) -> None:
    assert len(service.payloads(gapfill="true", period=60_000)) == 1_000


@pytest.mark.slow
@each_row(("start", "period", "ids"), [
    (T0 + 30, 31, ["3", "4"]),  # 59.75 s and 60 s
    (T0 + 60, 1, ["4"]),
    (T0 + 60, 2, ["4", "5"]),
    (T0 + 1, 58, []),
])  # fmt: skip
@each_row("interval", [None, "MINUTE", "HOUR"])
def test_a_trade_belongs_to_the_window_by_its_own_time(
    service: Any, start: int, period: int, ids: list[str], interval: str | None
) -> None:
    found = service.series(type="TRADE", interval=interval, from_=start, period=period)
    assert sorted(point["Point"]["id"] for one in found for point in one["points"]) == ids


@pytest.mark.parametrize(
    ("from_", "starts"), [(T0 - 59, [0, 60]), (T0, [0, 60]), (T0 + 1, [60, 180]), (T0 + 59, [60, 180])]
)
def test_buckets_are_aligned_to_the_epoch_not_to_from(service: Any, from_: int, starts: list[int]) -> None:
    assert [start for (start,) in service.rows(from_=from_, period=180)] == starts


def test_a_week_starts_on_monday_at_midnight_utc(service: Any) -> None:
    found = service.payloads(interval="WEEK", from_=T0 - 2 * WEEK, period=3 * WEEK)
    assert [one["timestamp"]["s"] for one in found] == [MONDAY]
    assert service.series(interval="WEEK", from_=MONDAY + 1, period=6 * DAY) == []


def test_a_first_bucket_that_starts_before_from_is_not_returned(service: Any) -> None:
    assert service.series(interval="HOUR", from_=T0 + 1, period=HOUR - 1) == []
    assert service.rows(interval="DAY", from_=T0 - DAY + 1, period=2 * DAY) == [(0,)]


@pytest.mark.parametrize("name", ["OPEN_INTEREST_AGG", "FUNDING_RATE_AGG"])
def test_a_first_bucket_that_starts_before_from_is_not_returned_of_any_type(service: Any, name: str) -> None:
    assert all(
        start >= 60
        for (start,) in service.rows(type=name, exchange="BETA", rawSymbol="BTC-PERP", from_=T0 + 1)
    )


def test_timestamp_is_the_start_of_the_interval(service: Any) -> None:
    assert service.rows("firstTimestamp", interval="FOUR_HOURS", rawSymbol="LATEUSDT", period=DAY) == [
        (20 * HOUR, {"s": T0 + DAY - 1})
    ]


@pytest.mark.parametrize("seconds", [61, 100, 119])
def test_the_interval_in_progress_is_returned_as_it_stands(service: Any, seconds: int) -> None:
    service.clock.now_ns = (T0 + seconds) * 10**9
    assert service.rows("volume")[1] == (60, 0.75)


def test_gaps_are_not_filled_that_have_not_begun(service: Any) -> None:
    service.clock.now_ns = (T0 + 130) * 10**9
    asked = {"exchange": "ALPHA", "rawSymbol": "ETHUSDT", "gapfill": "true"}
    assert [start for (start,) in service.rows(**asked)] == [0, 60, 120]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("session", "start"),
    [("TPO_SESSION_DAILY", T0), ("TPO_SESSION_WEEKLY", MONDAY), ("TPO_SESSION_MONTHLY", AUGUST)],
)
def test_tpo_sessions_start_at_midnight_utc(service: Any, session: str, start: int) -> None:
    found = service.payloads(**{**TPO, "from_": start, "period": DAY}, tpoSession=session)
    assert [one["timestamp"] for one in found] == [{"s": start}]


@pytest.mark.slow
def test_an_unspecified_tpo_session_is_one_interval_long(service: Any) -> None:
    found = service.payloads(**{**TPO, "interval": "HOUR", "period": DAY})
    assert [one["timestamp"]["s"] - T0 for one in found] == [hour * HOUR for hour in range(5)]
    assert {one["period_end"]["s"] - one["period_start"]["s"] for one in found} == {HOUR}


@pytest.mark.parametrize(
    "name", ["LIQUIDATION_AGG", "OPEN_INTEREST_AGG", "VOLUME_PROFILE_AGG", "BLOCK_BOOK_SNAPSHOT_AGG"]
)
def test_points_of_every_type_start_inside_the_window(service: Any, name: str) -> None:
    asked = of(
        name,
        interval="MINUTE",
        from_=T0 + 60,
        period=60,
        **({} if "BOOK" in name or "PROFILE" in name else PERP),
    )
    starts = {p["Point"]["timestamp"]["s"] for one in service.series(**asked) for p in one["points"]}
    assert starts <= {T0 + 60}
