"""A recording that is over: `lake close` says so, and then its last interval is final."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from typer.testing import CliRunner

import tidytape
from lakes import empty_lake
from tidytape.cli import app
from tidytape.client._local import AppTransport
from tidytape.errors import IncompleteDataError, QueryError
from tidytape.lake import Lake
from tidytape.service import Key, Keys, create_app, hashed
from tidytape.times import MINUTE, SECOND

START = int(datetime(2024, 8, 8, tzinfo=UTC).timestamp()) * SECOND
DAY: dict[str, Any] = {"exchange": "X", "coin": "BTC", "start": "2024-08-08", "end": "2024-08-09"}


def trades(symbol: str, first: int, last: int) -> pl.DataFrame:
    """A trade every minute from one minute of the day to another."""
    minute = pl.int_range(first, last, eager=True)
    return pl.DataFrame(
        {
            "exchange": "X", "raw_symbol": symbol, "id": minute.cast(pl.String), "timestamp": START + minute * MINUTE,
            "sequence": minute, "side": "BUY", "price": 100.0, "amount": 1.0, "quote_amount": 100.0,
        }
    )  # fmt: skip


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = empty_lake(tmp_path / "lake")
    names = {"exchange": "X", "quote_coin": "USDT", "coin": "BTC", "category": "SPOT", "block_size": 1.0}
    lake.writer().register(pl.DataFrame([names | {"raw_symbol": symbol} for symbol in ("A", "B")]))
    for symbol in ("A", "B"):
        lake.writer().append("trades", trades(symbol, 0, 630), source=symbol)  # until 10:29
    return lake


def finality(lake: Lake, symbol: str = "A", **options: Any) -> dict[str, bool]:
    asked = {name: value for name, value in DAY.items() if name != "coin"} | options
    with tidytape.Client.local(lake.path) as client:
        methods = {
            "1m": client.candles(raw_symbol=symbol, interval="1m", **asked),
            "1h": client.candles(raw_symbol=symbol, interval="1h", **asked),
            "1w": client.candles(raw_symbol=symbol, interval="1w", **asked | {"start": "2024-08-05"}),
            "profile": client.volume_profile(raw_symbol=symbol, interval="1d", **asked),
            "month": client.tpo_sessions(
                raw_symbol=symbol, interval="1d", session="monthly", **asked | {"start": "2024-08-01"}
            ),
            "group": client.candles(coin="BTC", interval="1d", group_by="sum", **asked),
        }
    return {name: bool(frame["is_final"].all()) for name, frame in methods.items()}


@pytest.mark.slow
def test_a_closed_recording_is_final_to_its_last_interval(lake: Lake) -> None:
    assert not any(finality(lake).values())
    assert lake.closed_at("X", "A") is None
    assert lake.writer().close_recording("X", "A") == [("A", START + 629 * MINUTE)]
    assert lake.closed_at("X", "A") == START + 629 * MINUTE
    assert finality(lake) == {name: name != "group" for name in finality(lake)}  # of the group, B is open
    assert not any(finality(lake, "B").values())
    assert [symbol for symbol, _ in lake.writer().close_recording("X")] == ["A", "B"]
    assert all(finality(lake, "B").values())


@pytest.mark.slow
def test_closing_changes_no_point_and_events_that_follow_open_it_again(lake: Lake) -> None:
    with tidytape.Client.local(lake.path) as client:
        before = client.candles(interval="1h", **DAY)
        lake.writer().close_recording("X")
        after = client.candles(interval="1h", **DAY)
        assert before.drop("is_final").equals(after.drop("is_final"))
        lake.writer().append("trades", trades("A", 630, 640), source="more")
        assert not any(finality(lake).values())
        lake.writer().close_recording("X")
        assert all(finality(lake).values())


def test_a_moment_before_the_closing_is_still_open(lake: Lake) -> None:
    versions = lake.version()
    lake.writer().close_recording("X")
    assert lake.at(versions).closed_at("X", "A") is None
    assert lake.now().closed_at("X", "A") == START + 629 * MINUTE


def test_what_the_lake_does_not_have_cannot_be_closed(lake: Lake) -> None:
    with pytest.raises(QueryError, match="exchange: got 'Y', expected one of which the lake has events"):
        lake.writer().close_recording("Y")
    with pytest.raises(QueryError, match="raw_symbol: got 'C'"):
        lake.writer().close_recording("X", "C")


def test_the_command_closes(lake: Lake) -> None:
    done = CliRunner().invoke(
        app, ["lake", "close", "--lake", lake.path, "--exchange", "X", "--raw-symbol", "A"]
    )
    assert "2024-08-08" in done.output
    assert lake.closed_at("X", "A") == START + 629 * MINUTE
    assert lake.closed_at("X", "B") is None


def test_the_check_of_a_closed_lake_is_sound(lake: Lake) -> None:
    from tidytape.lake import hygiene

    lake.writer().close_recording("X")
    assert hygiene.check(lake).sound


@pytest.fixture
def remote(lake: Lake, tmp_path: Path) -> Any:
    """Return clients of a service that reads the lake, with one cache; ``offline=True`` for one that sends nothing."""
    service = create_app(lake, Keys([Key("k", hashed("key"), "enterprise", created=0)]))
    return lambda **options: tidytape.Client(
        "http://service", "key", transport=AppTransport(service), cache=tmp_path / "cache", **options
    )


@pytest.mark.slow
def test_offline_an_open_recording_comes_without_its_last_interval_and_says_so(
    lake: Lake, remote: Any
) -> None:
    asked = {"interval": "1h", **DAY}
    with remote() as client:
        online = client.candles(**asked)
    last = (START // SECOND + 10 * 3_600, START // SECOND + 11 * 3_600)
    with remote(offline=True) as client:
        with pytest.warns(RuntimeWarning, match="lacks 2024-08-08T10:00:00Z to .*, which was not final"):
            answer = client.fetch(client.query.candles(**asked))
        assert answer.frame.equals(online.filter(pl.col("is_final")))
        assert answer.metadata.missing == (last,)
        assert "lacks" in str(answer.metadata.failures[0])
        with pytest.raises(IncompleteDataError):  # two days, one of which nobody fetched
            client.candles(**asked | {"end": "2024-08-10"})
        with pytest.raises(IncompleteDataError):  # the open interval alone
            client.candles(**asked | {"start": "2024-08-08T10:00", "end": "2024-08-08T11:00"})
    lake.writer().close_recording("X")
    with remote() as client:
        assert client.candles(**asked)["is_final"].all()
    with remote(offline=True) as client:
        whole = client.candles(**asked)
    assert whole.drop("is_final").equals(online.drop("is_final"))
    assert whole["is_final"].all()
