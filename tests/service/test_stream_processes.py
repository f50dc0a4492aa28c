"""Streams between processes: a server that is killed at random moments while a log is replayed, and plain curl."""

from __future__ import annotations

import json
import random
import re
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import httpx
import pytest

from stream_readers import Held
from thorough import often
from tidytape.lake import Lake
from tidytape.lake.ingest import Market
from tidytape.lake.record import replay
from tidytape.query import StreamQuery
from tidytape.service import KeyFile, tiers_of
from tidytape.times import SECOND
from tidytape.wire._stream import decode_batch

pytestmark = pytest.mark.slow

KILLS = often(3, thoroughly=50)
TIDYTAPE = [sys.executable, "-c", "from tidytape.cli import main; main()"]


class Server:
    """``tidytape serve`` over a lake, to be killed and started again."""

    def __init__(self, folder: Path, lake: Lake) -> None:
        self.folder, self.lake, self.number = folder, lake, 0
        (folder / "tiers.toml").write_text(
            "[test]\nper_minute = 1000000\nstreams = 100\ntypes = 'enterprise'\n"
        )
        self.tiers = tiers_of(folder / "tiers.toml")
        _, self.key = KeyFile(folder / "keys.json", tiers=self.tiers).new("test")
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> str:
        self.number += 1
        log = self.folder / f"serve {self.number}.log"
        with log.open("wb") as out:
            self.process = subprocess.Popen(
                [*TIDYTAPE, "serve", "--lake", self.lake.path, "--keys", str(self.folder / "keys.json"),
                 "--tiers", str(self.folder / "tiers.toml"), "--port", "0"], stdout=out, stderr=out,
            )  # fmt: skip
        while not (found := re.search(r"running on (http://[\d.:]+)", log.read_text())):
            assert self.process.poll() is None, log.read_text()
            time.sleep(0.02)
        return found[1]

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait(30)


@pytest.fixture
def market() -> Market:
    return Market(exchange="USDM")


@pytest.fixture
def log(recorded: Path) -> Path:
    return recorded / "binance-usdm_ws_btcusdt_20240808.gz"


@pytest.mark.long
def test_a_server_that_is_killed_at_random_moments_loses_and_repeats_nothing(
    log: Path, market: Market, tmp_path: Path
) -> None:
    lake = Lake.create(tmp_path / "lake")
    server, chance = Server(tmp_path, lake), random.Random(17)
    types = ["TRADE_SIDE_AGNOSTIC_AGG", "TRADE_AGG", "TRADE", "VOLUME_PROFILE_AGG"]
    stop = threading.Event()
    # About four seconds for each server: two of them start it.
    speed = 346 / (4 * KILLS)
    playing = threading.Thread(
        target=replay, args=(log, lake), kwargs={"market": market, "speed": speed, "stop": stop}
    )
    playing.start()
    while not (lake.extent("trades", "USDM", "BTCUSDT")[0]):
        time.sleep(0.1)
    first = lake.extent("trades", "USDM", "BTCUSDT")[0] or 0
    query = StreamQuery(
        type=types, exchange="USDM", raw_symbol="BTCUSDT", interval="1m", start=first // SECOND - 60
    )
    held, ended = Held(), threading.Event()

    def read(address: str) -> None:
        """Apply whole lines until the server is gone; a half line counts for nothing."""
        asked = query.model_copy(update={"token": held.token}).to_params()
        head = {"X-Service-Key": server.key}
        try:
            with httpx.stream(
                "GET", f"{address}/v1/stream", params=asked, headers=head, timeout=60
            ) as answer:
                assert answer.status_code == 200, answer.read()
                rest = b""
                for part in answer.iter_raw():
                    *whole, rest = (rest + part).split(b"\n")
                    for line in whole:
                        held.apply(decode_batch(line, types))
                        if _is_all(held, lake, query):
                            ended.set()
        except httpx.HTTPError:
            pass

    try:
        for _ in range(KILLS):
            reading = threading.Thread(target=read, args=(server.start(),))
            reading.start()
            time.sleep(chance.uniform(0.2, 2.5))
            server.kill()
            reading.join(60)
        playing.join(300)
        ended.clear()  # it may have caught up with the replay before
        reading = threading.Thread(target=read, args=(server.start(),), daemon=True)
        reading.start()
        assert ended.wait(120), held.batches
    finally:
        stop.set()
        server.kill()
        playing.join(60)
    reading.join(60)
    (window,) = query.window(query.start or 0, (query.start or 0) + 3_600)
    held.require_answer(lake, window)


def _is_all(held: Held, lake: Lake, query: StreamQuery) -> bool:
    """Whether every trade that the lake has was sent."""
    trades = held.finals.get("TRADE")
    last = lake.extent("trades", "USDM", "BTCUSDT")[1]
    return trades is not None and trades["timestamp"].dt.epoch("ns").max() == last and held.batches > 3


@pytest.mark.long
def test_curl_reads_a_stream(log: Path, market: Market, tmp_path: Path) -> None:
    curl = shutil.which("curl")
    if curl is None:
        pytest.skip("curl is not installed")
    lake = Lake.create(tmp_path / "lake")
    replay(log, lake, market=market, speed=float("inf"), every=120.0)
    first, last = lake.extent("trades", "USDM", "BTCUSDT")
    assert first is not None
    assert last is not None
    server = Server(tmp_path, lake)
    address = server.start()
    start = first // SECOND // 60 * 60
    period = last // SECOND // 60 * 60 - start
    target = (
        f"{address}/v1/stream?type=TRADE_SIDE_AGNOSTIC_AGG&exchange=USDM&rawSymbol=BTCUSDT&interval=MINUTE"
        f"&from={start}&period={period}"
    )
    try:
        done = subprocess.run(
            [curl, "-sN", "-H", f"X-Service-Key: {server.key}", target],
            capture_output=True,
            timeout=60,
            check=True,
        )
        answer = httpx.get(
            target.replace("/v1/stream", "/v1/points"), headers={"X-Service-Key": server.key}, timeout=60
        )
    finally:
        server.kill()
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    points = [point for line in lines for series in line.get("final", []) for point in series["points"]]
    assert points == answer.json()["series"][0]["points"]
    assert lines[-1]["end"]["code"] == "PERIOD_OVER"
