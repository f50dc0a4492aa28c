"""Market profiles of a caller's session: of minutes that the client fetches, as `aggregate.candle_tpo` makes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from polars.testing import assert_frame_equal

import tidytape
from tidytape import Session, aggregate
from tidytape.errors import QueryError

STOCKS = Session("09:30", "16:00", zone="America/New_York")
ASKED: dict[str, Any] = {
    "exchange": "DEMO_SPOT",
    "coin": "BTC",
    "start": "2024-08-08",
    "end": "2024-08-09",
    "block_size": 100,
}
WHAT_BLOCKS_SAY = ["timestamp", "price", "tpo_count", "first_touch_block", "last_touch_block", "block_ids"]


@pytest.fixture(scope="module")
def client() -> Any:
    with tidytape.Client.demo() as client:
        yield client


@pytest.mark.slow
def test_the_utc_day_has_the_blocks_of_the_service(client: Any) -> None:
    ours, services = (client.tpo(**ASKED, session=session) for session in (Session.utc_day(), "daily"))
    assert_frame_equal(ours[WHAT_BLOCKS_SAY], services[WHAT_BLOCKS_SAY])
    prices = ["timestamp", "period_end", "poc_price", "vah_price", "val_price", "ibr_high", "ibr_low"]
    ours, services = (
        client.tpo_sessions(**ASKED, session=session) for session in (Session.utc_day(), "daily")
    )
    assert_frame_equal(ours[prices], services[prices])


@pytest.mark.slow
def test_a_profile_covers_whole_sessions_that_open_in_the_window(client: Any) -> None:
    asked = ASKED | {"start": "2024-08-07T14:00Z", "end": "2024-08-08T14:00Z"}
    levels = client.tpo(**asked, session=STOCKS)
    minutes = client.candles(
        exchange="DEMO_SPOT", coin="BTC", interval="1m", by_side=True,
        start="2024-08-08T13:30Z", end="2024-08-08T20:00Z",
    )  # fmt: skip
    of_minutes = aggregate.candle_tpo(minutes, session=STOCKS, block_size=100)
    assert_frame_equal(
        levels.drop("is_in_progress"), of_minutes.drop("is_in_progress"), check_column_order=False
    )
    assert levels["spreading"].unique().to_list() == ["uniform"]
    assert levels["is_in_progress"].null_count() == levels.height


@pytest.mark.slow
def test_the_plan_is_that_of_the_minutes_and_the_fetch_costs_it(client: Any) -> None:
    query = client.query.tpo(**ASKED, session=STOCKS)
    minutes = client.query.candles(
        exchange="DEMO_SPOT", coin="BTC", interval="1m", by_side=True,
        start="2024-08-08T13:30Z", end="2024-08-08T20:00Z",
    )  # fmt: skip
    assert client.plan(query).weight == client.plan(minutes).weight
    fetched = client.fetch(query)
    assert fetched.metadata.weight == client.plan(query).weight
    assert_frame_equal(*client.iter_frames(query), fetched.frame)


@pytest.mark.slow
def test_the_text_of_a_session_is_one(client: Any) -> None:
    assert_frame_equal(client.tpo(**ASKED, session=str(STOCKS)), client.tpo(**ASKED, session=STOCKS))
    with pytest.raises(QueryError, match="daily"):
        client.tpo(**ASKED, session="dayly")


@pytest.mark.slow
def test_without_points_the_columns_stay(client: Any) -> None:
    full = client.tpo(**ASKED, session=STOCKS)
    with pytest.warns(tidytape.EmptyAnswerWarning):
        none = client.tpo(**ASKED | {"start": "2024-09-05", "end": "2024-09-06"}, session=STOCKS)
    assert none.height == 0
    assert none.schema == full.schema


def test_a_warning_speaks_of_the_profiles_that_were_asked_for(client: Any, tmp_path: Path) -> None:
    asked = ASKED | {"start": "2024-09-05", "end": "2024-09-06", "session": STOCKS}
    query = client.query.tpo_sessions(**asked)
    for fetch in (
        lambda: client.tpo(**asked),
        lambda: client.tpo_sessions(**asked),
        lambda: [*client.iter_frames(query)],
        lambda: client.to_parquet(query, tmp_path / "none.parquet"),
    ):
        with pytest.warns(tidytape.EmptyAnswerWarning, match="BTCUSDT has TPO_AGG from .*, and none in"):
            fetch()
    with pytest.warns(tidytape.EmptyAnswerWarning, match="DEMO_STOCKS BTC has no TPO_AGG"):
        client.tpo(**ASKED | {"exchange": ["DEMO_SPOT", "DEMO_STOCKS"]}, session=STOCKS)


@pytest.mark.slow
def test_a_tape_replays_it(tmp_path: Path) -> None:
    with tidytape.Client.demo() as client, client.record(tmp_path / "study.tape"):
        recorded = client.tpo(**ASKED, session=STOCKS)
    with tidytape.Client.replay(tmp_path / "study.tape") as client:
        assert_frame_equal(client.tpo(**ASKED, session=STOCKS), recorded)


@pytest.mark.parametrize(
    ("changed", "parameter"),
    [
        ({"interval": "1h"}, "interval"),
        ({"block_size": None}, "block_size"),
        ({"start": None, "limit": 3}, "limit"),
        ({"group_by": "sum"}, "group_by"),
        ({"sort_direction": "desc"}, "sort_direction"),
        ({"start": "2024-08-10", "end": "2024-08-11"}, "start"),
        ({"session": Session("09:30:30", "16:00", zone="UTC")}, "session"),
    ],
)
def test_what_the_client_cannot_compute_is_refused(
    client: Any, changed: dict[str, Any], parameter: str
) -> None:
    for method in (client.tpo, client.tpo_sessions):
        with pytest.raises(QueryError) as error:
            method(**ASKED | {"session": STOCKS} | changed)
        assert error.value.parameter == parameter
