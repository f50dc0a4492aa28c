"""What a client gets of a market whose trades partly have no side: the same from a lake, a service, a cache, a tape."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from lakes import empty_lake
from stream_readers import registered, trades
from tables import each_row
from tidytape import Client
from tidytape.analytics import flow
from tidytape.catalogue import NoteCode
from tidytape.client._local import AppTransport
from tidytape.lake import Lake
from tidytape.report._answers import Answers
from tidytape.report._flow import flows
from tidytape.report._section import ReportTable
from tidytape.service import Key, Keys, create_app, hashed
from tidytape.times import HOUR, MINUTE, SECOND

T0 = 1_723_161_600
MARKET = {"exchange": "X", "raw_symbol": "BTCUSDT", "start": T0, "end": T0 + 7_200}
CALLS: dict[str, dict[str, Any]] = {
    "candles": {"interval": "1h", "by_side": True},
    "trades": {},
    "volume_profile": {"interval": "1h"},
    "tpo": {"interval": "1h"},
}


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    made = empty_lake(tmp_path_factory.mktemp("sideless") / "lake")
    registered(made, "BTCUSDT")
    sides = [None, "BUY", "SELL", None, "BUY", "SELL"]
    rows = [
        (
            str(number),
            T0 * SECOND + number * 10 * MINUTE + number // 3 * HOUR,
            side,
            100.0 + number,
            1.0 + number,
        )
        for number, side in enumerate(sides)
    ]
    made.writer().append("trades", trades(rows), source="a")
    return made


def remote(lake: Lake, **options: Any) -> Client[pl.DataFrame]:
    keys = Keys([Key("caller", hashed("secret"), "enterprise", created=0)])
    transport: httpx.BaseTransport = AppTransport(create_app(lake, keys))
    return Client("http://service", "secret", transport=transport, **options)


@pytest.mark.slow
@each_row("name", list(CALLS))
def test_both_ways_to_a_lake_say_the_same(lake: Lake, name: str) -> None:
    with Client.local(lake.path) as local, remote(lake) as far:
        query = getattr(local.query, name)(**MARKET, **CALLS[name])
        near, sent = local.fetch(query), far.fetch(query)
        assert_frame_equal(sent.frame, near.frame)
        assert sent.metadata.reason == near.metadata.reason
    (reason,) = near.metadata.reason
    assert reason.code is NoteCode.NO_SIDE
    assert "X BTCUSDT has trades without a side" in str(reason)


def test_a_side_alone_says_that_other_trades_have_none(lake: Lake) -> None:
    with Client.local(lake.path) as client:
        answer = client.fetch(client.query.candles(**MARKET, interval="1h", side="BUY"))
        assert answer.frame["side"].to_list() == ["BUY"] * 2
        assert [reason.code for reason in answer.metadata.reason] == [NoteCode.NO_SIDE]
        assert not client.fetch(client.query.candles(**MARKET, interval="1h")).metadata.reason


def test_the_cache_and_a_tape_repeat_it(lake: Lake, tmp_path: Path) -> None:
    with remote(lake, cache=tmp_path / "cache") as client:
        query = client.query.volume_profile(**MARKET | {"end": T0 + 3_600}, interval="1h")
        with client.record(tmp_path / "a.tape"):
            first = client.fetch(query)
        again = client.fetch(query)
        assert again.metadata.requests == 0
    with Client.replay(tmp_path / "a.tape") as client:
        replayed = client.fetch(query)
    for other in (again, replayed):
        assert_frame_equal(other.frame, first.frame)
        assert [reason.code for reason in other.metadata.reason] == [NoteCode.NO_SIDE]


def test_flow_of_what_is_fetched_knows_what_is_unknown(lake: Lake) -> None:
    with Client.local(lake.path) as client:
        by_side = client.candles(**MARKET, interval="1h", by_side=True)
        candles = client.candles(**MARKET, interval="1h")
        levels = client.volume_profile(**MARKET, interval="1h")
        raw = client.trades(**MARKET)
    assert by_side["side"].to_list() == [None, None, "BUY", "BUY", "SELL", "SELL"]
    assert by_side.group_by("timestamp").agg(pl.col("volume").sum()).sort("timestamp")[
        "volume"
    ].to_list() == (candles["volume"].to_list())
    assert flow.delta(by_side)["delta"].to_list() == [None, None]
    assert flow.delta(raw, interval="1h")["delta"].to_list() == [None, None]
    assert raw["side"].null_count() == 2
    assert levels["volume"].sum() == candles["volume"].sum()
    assert raw.schema["side"] == by_side.schema["side"] == pl.Categorical


@pytest.mark.slow
def test_a_report_shows_no_delta_where_it_is_not_known(lake: Lake, tmp_path: Path) -> None:
    with Client.local(lake.path) as client, client.record(tmp_path / "a.tape"):
        client.candles(**MARKET, interval="1h", by_side=True)
        client.candles(**MARKET, interval="1h")
    section = flows(Answers(tmp_path / "a.tape"), "UTC")
    assert section is not None
    (part,) = section.parts  # no picture: it takes no rows without a side
    assert isinstance(part, ReportTable)
    assert part.html.count("–") == 4  # bought, sold, delta, imbalance
