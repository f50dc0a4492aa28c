"""The main job on recorded input: files into a lake, the service over it, frames out, in process and over HTTP."""

from __future__ import annotations

import csv
import gzip
import json
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import polars as pl
import pytest
import uvicorn

import tidytape
from ingested import ingest
from lakes import empty_lake
from tidytape.analytics.profile import value_area
from tidytape.lake import Lake
from tidytape.service import KeyFile, create_app

LOGS = {
    ("BINANCE", "BTCUSDT"): ("binance-spot_ws_btcusdt_20240808.gz", "SPOT", 9_757),
    ("BINANCE", "ETHUSDT"): ("binance-spot_ws_ethusdt_20240808.gz", "SPOT", 6_106),
    ("BINANCE_FUTURES", "BTCUSDT"): ("binance-usdm_ws_btcusdt_20240808.gz", "PERPETUAL", 21_313),
}
WINDOW: dict[str, Any] = {"interval": "1m", "start": "2024-08-08T23:54:00Z", "end": "2024-08-09T00:01:00Z"}
COINBASE = "coinbase_btc-usd_trades_20230905.csv.gz"

every_log = pytest.mark.parametrize(("exchange", "symbol"), list(LOGS))


def filled(path: Path, recorded: Path) -> Path:
    lake = empty_lake(path)
    for (exchange, _), (name, category, _) in LOGS.items():
        ingest(
            [recorded / name], lake, layout="binance-ws", exchange=exchange, category=category, progress=False
        )
    columns = {"price": "price", "amount": "amount", "side": "side", "timestamp": "timestamp"}
    ingest(
        [recorded / COINBASE],
        lake,
        layout="csv",
        exchange="COINBASE",
        raw_symbol="BTC-USD",
        columns=columns,
        progress=False,
    )
    return path


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory, recorded: Path) -> Path:
    return filled(tmp_path_factory.mktemp("recorded") / "lake", recorded)


@pytest.fixture(scope="module")
def client(lake: Path) -> Iterator[tidytape.Client[pl.DataFrame]]:
    with tidytape.Client.local(lake) as made:
        yield made


def candles_of_the_raw_file(path: Path) -> dict[int, dict[str, float]]:
    """Twenty lines that know nothing of tidytape: candles from the log, first and last by trade id."""
    trades = []
    with gzip.open(path, "rt") as lines:
        for line in lines:
            data = json.loads(line.split(" ", 1)[1]).get("data", {})
            if data.get("e") == "trade":
                trades.append((data["T"], data["t"], float(data["p"]), float(data["q"])))
    minutes = defaultdict(list)
    for trade in sorted(trades):
        minutes[trade[0] // 60_000 * 60].append(trade)
    return {
        minute: {
            "open": rows[0][2],
            "high": max(row[2] for row in rows),
            "low": min(row[2] for row in rows),
            "close": rows[-1][2],
            "volume": sum(row[3] for row in rows),
            "first_timestamp": rows[0][0],
            "last_timestamp": rows[-1][0],
        }
        for minute, rows in minutes.items()
    }


@pytest.mark.slow
@every_log
def test_every_trade_of_the_logs_is_in_the_lake_once(lake: Path, exchange: str, symbol: str) -> None:
    trades = Lake(lake).scan("trades", exchange=exchange, raw_symbol=symbol).collect()
    assert trades.height == trades["id"].n_unique() == LOGS[exchange, symbol][2]


@pytest.mark.slow
def test_ingesting_everything_again_changes_nothing(tmp_path: Path, recorded: Path) -> None:
    path = filled(tmp_path / "lake", recorded)
    before = {name: Lake(path).scan(name).select(pl.len()).collect().item() for name in ("trades", "book")}
    filled(path, recorded)
    after = {name: Lake(path).scan(name).select(pl.len()).collect().item() for name in ("trades", "book")}
    assert before == after
    assert before["trades"] == 9_757 + 6_106 + 21_313 + 5_882


@pytest.mark.slow
@every_log
def test_candles_equal_those_of_the_raw_file(
    client: tidytape.Client[pl.DataFrame], recorded: Path, exchange: str, symbol: str
) -> None:
    expected = candles_of_the_raw_file(recorded / LOGS[exchange, symbol][0])
    frame = client.candles(exchange=exchange, raw_symbol=symbol, **WINDOW)
    found = frame.with_columns(
        pl.col("timestamp").dt.epoch("s"),
        *(pl.col(name).dt.epoch("ms") for name in ("first_timestamp", "last_timestamp")),
    )
    assert found["timestamp"].to_list() == sorted(expected)
    for row in found.iter_rows(named=True):
        wanted = expected[row["timestamp"]]
        assert {name: row[name] for name in wanted if name != "volume"} == {
            name: value for name, value in wanted.items() if name != "volume"
        }
        assert row["volume"] == pytest.approx(wanted["volume"], rel=1e-9)


@pytest.mark.slow
@every_log
def test_buys_and_sells_add_up(client: tidytape.Client[pl.DataFrame], exchange: str, symbol: str) -> None:
    both = client.candles(exchange=exchange, raw_symbol=symbol, **WINDOW)
    sides = client.candles(exchange=exchange, raw_symbol=symbol, by_side=True, **WINDOW)
    summed = sides.group_by("timestamp").agg(pl.col("volume").sum()).sort("timestamp")
    assert summed["volume"].to_list() == pytest.approx(both["volume"].to_list(), rel=1e-12)


@pytest.mark.slow
def test_a_profile_sums_to_the_volume_of_its_trades(
    client: tidytape.Client[pl.DataFrame], recorded: Path
) -> None:
    with gzip.open(recorded / COINBASE, "rt") as file:
        amounts = [float(row["amount"]) for row in csv.DictReader(file)]
    assert len(amounts) == 5_882
    profile = client.volume_profile(
        exchange="COINBASE",
        raw_symbol="BTC-USD",
        interval="1h",
        start="2023-09-05T16:00Z",
        end="2023-09-05T17:00Z",
    )
    assert profile["timestamp"].n_unique() == 1
    assert profile["volume"].sum() == pytest.approx(sum(amounts), rel=1e-12)
    area = value_area(profile, by="timestamp")
    assert area["value_area_share"][0] >= 0.70
    assert area["val"][0] <= area["poc"][0] <= area["vah"][0]


@pytest.fixture
def address(lake: Path, tmp_path: Path) -> Iterator[tuple[str, str]]:
    """A service on a real port of this machine, and a key."""
    _, key = KeyFile(tmp_path / "keys.json").new("enterprise")
    app = create_app(Lake(lake), KeyFile(tmp_path / "keys.json"))
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="error"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    yield f"http://127.0.0.1:{port}", key
    server.should_exit = True
    thread.join(10)


@pytest.mark.slow
def test_over_http_the_frames_are_the_same(
    client: tidytape.Client[pl.DataFrame], address: tuple[str, str]
) -> None:
    base_url, key = address
    with tidytape.Client(base_url, key) as remote:
        for fetch in ("candles", "volume_profile"):
            query = {"exchange": "BINANCE", "coin": ["BTC", "ETH"], **WINDOW}
            assert getattr(remote, fetch)(**query).equals(getattr(client, fetch)(**query))
        assert remote.markets().equals(client.markets())


@pytest.mark.slow
def test_over_http_plain_json_decodes_to_the_same_frame(
    client: tidytape.Client[pl.DataFrame], address: tuple[str, str]
) -> None:
    base_url, key = address
    query = tidytape.PointsQuery(type="TRADE_AGG", exchange="BINANCE", raw_symbol="BTCUSDT", **WINDOW)
    response = httpx.get(f"{base_url}/v1/points", params=query.to_params(), headers={"X-Service-Key": key})
    assert response.headers["content-type"] == "application/json"
    decoded = tidytape.wire.decode(response.content, "TRADE_AGG").drop("data_until")
    assert decoded.equals(client.fetch(query).frame)
