"""Streams on this machine: the delay from a line of a log to its delivery, 200 readers, and rows a second.

``python tests/bench/bench_stream.py delay [seconds] [readers]`` plays the recorded log of a perpetual into a growing
file, ``tidytape ingest binance-ws --follow`` puts it into a lake, and ``tidytape serve`` streams it to readers: ten of
them read a batch and then wait three seconds, one never reads, half of the others read candles, and half raw trades. It
prints the delay from a line to its trade's delivery, by kind of reader, and what memory the service takes.

``python tests/bench/bench_stream.py rows`` asks for the same 100,000 candles and trades as a stream, as the answer of
``/v1/points``, and as JSON over a WebSocket, one message a row and one a thousand rows, made by orjson of a polars
frame in memory. Ratios are rows a second of each over those of the stream.
"""

from __future__ import annotations

import asyncio
import gzip
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from statistics import median, quantiles

import httpx
from bench_history import END, EXCHANGE, SYMBOL, filled, rolled_up
from bench_serve import free_port

DATA = Path(os.environ.get("TIDYTAPE_RECORDED_DATA", "../shared/data"))
LOG = DATA / "binance-usdm_ws_btcusdt_20240808.gz"
TIERS = "[load]\nper_minute = 40000000\nburst = 80000000\ntypes = 'enterprise'\nstreams = 1000\n"
TRADE = re.compile(rb'"e":"trade".*?"T":(\d+).*?"t":(\d+)')
CANDLE = re.compile(rb'"lastTimestamp":\{"s":(\d+)(?:,"ns":(\d+))?')
SENT = re.compile(rb'"id":"(\d+)"')
TIDYTAPE = str(Path(sys.executable).with_name("tidytape"))
SPEED = 4  # times real time: some 250 trades a second


def served(folder: Path, lake: Path) -> tuple[subprocess.Popen[bytes], str, str]:
    (folder / "tiers.toml").write_text(TIERS)
    keys, port = str(folder / "keys.json"), free_port()
    made = subprocess.run(
        [TIDYTAPE, "keys", "new", "--keys", keys, "--tier", "load", "--tiers", str(folder / "tiers.toml")],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    key = made.stdout.split()[-1]
    with (folder / "serve.log").open("wb") as log:
        process = subprocess.Popen(
            [TIDYTAPE, "serve", "--lake", str(lake), "--keys", keys, "--tiers", str(folder / "tiers.toml"),
             "--port", str(port)], stdout=log, stderr=log,
        )  # fmt: skip
    url = f"http://127.0.0.1:{port}"
    for _ in range(300):
        try:
            httpx.get(f"{url}/healthz")
            break
        except httpx.HTTPError:
            time.sleep(0.1)
    return process, url, key


def memory(pid: int) -> float:
    """Resident memory of a process. [MiB]"""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


# --- delay ----------------------------------------------------------------------------------------------------------


async def read(
    kind: str, url: str, key: str, delays: dict[str, list[float]], written: dict[int, float]
) -> None:
    """Read a stream over a bare connection, so that 200 of them cost little here."""
    host, port = url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port), limit=2**26)
    name = "TRADE_SIDE_AGNOSTIC_AGG" if kind == "candles" else "TRADE"
    target = f"/v1/stream?type={name}&exchange=USDM&rawSymbol=BTCUSDT&interval=MINUTE"
    writer.write(f"GET {target} HTTP/1.1\r\nHost: {host}\r\nX-Service-Key: {key}\r\n\r\n".encode())
    await writer.drain()
    status = await reader.readline()
    if b"200" not in status:
        raise SystemExit(f"{kind}: {status!r} {await reader.read(500)!r}")
    if kind == "stopped":
        await asyncio.Event().wait()
    seen, joined = 0, time.time()
    try:
        while line := await reader.readline():
            now = time.time()
            if b'"end"' in line:
                delays[f"{kind}: {line[line.find(b'code') :][:40].decode()}"].append(0.0)
            if kind == "candles":
                at = max(
                    (int(s) * 1_000 + int(ns or 0) // 1_000_000 for s, ns in CANDLE.findall(line)), default=0
                )
                moments = [written[-at]] if -at in written else []
            else:
                ids = [one for one in map(int, SENT.findall(line)) if one > seen]
                seen = max([seen, *ids])
                moments = [written[one] for one in ids if one in written]
            # What was written before this reader came is history.
            delays[kind] += [now - moment for moment in moments if moment > joined]
            if kind == "slow":
                await asyncio.sleep(3)
    finally:
        writer.close()


async def write(log: Path, seconds: float, written: dict[int, float]) -> None:
    """Write the recorded lines to a growing log by their own times, some times as fast."""
    with gzip.open(LOG, "rb") as lines, log.open("ab", buffering=0) as growing:
        began, first = time.time(), None
        for line in lines:
            received = int(line.split(b" ", 1)[0]) / 1e9
            first = received if first is None else first
            due = began + (received - first) / SPEED
            if due - began > seconds:
                return
            if (wait := due - time.time()) > 0.002:
                await asyncio.sleep(wait)
            growing.write(line)
            if found := TRADE.search(line):
                written[int(found[2])] = written[-int(found[1])] = time.time()


async def delay(seconds: float, readers: int) -> None:
    folder = Path(tempfile.mkdtemp())
    lake, log = folder / "lake", folder / "growing.log"
    log.touch()
    with (folder / "follow.log").open("wb") as out:
        follower = subprocess.Popen(
            [TIDYTAPE, "ingest", "binance-ws", str(log), "--lake", str(lake), "--exchange",
             "USDM", "--follow"], stdout=out, stderr=out,
        )  # fmt: skip
    written: dict[int, float] = {}
    writing = asyncio.create_task(write(log, seconds, written))
    for _ in range(120):
        if (lake / "markets" / "_delta_log" / "00000000000000000001.json").exists():
            break
        await asyncio.sleep(0.5)
    else:
        raise SystemExit((folder / "follow.log").read_text())
    await asyncio.sleep(3)
    process, url, key = await asyncio.to_thread(served, folder, lake)
    delays: dict[str, list[float]] = defaultdict(list)
    rest = readers - 11
    kinds = ["slow"] * 10 + ["stopped"] + ["trades"] * (rest - rest // 2) + ["candles"] * (rest // 2)
    tasks = [asyncio.create_task(read(kind, url, key, delays, written)) for kind in kinds]
    held = []
    while not writing.done():
        await asyncio.sleep(5)
        held.append(memory(process.pid))
        print(f"{len(held) * 5:4} s  {held[-1]:7.0f} MiB", flush=True)
        for task in tasks:
            if task.done() and task.exception():
                raise task.exception()
    await asyncio.sleep(5)
    for kind, values in sorted(delays.items()):
        if len(values) > 100:
            at = quantiles(values, n=100)
            print(f"{kind:10} {len(values):9,} deliveries, delay p50 {at[49]:.2f} s, p99 {at[98]:.2f} s")
        else:
            print(f"{kind}: {len(values)}")
    text = httpx.get(f"{url}/metrics").text
    print(*(line for line in text.splitlines() if line.startswith("tidytape_stream")), sep="\n")
    for task in tasks:
        task.cancel()
    for one in (process, follower):
        one.terminate()
        one.wait(30)


# --- rows a second --------------------------------------------------------------------------------------------------


def rows() -> None:
    from websockets.sync.client import connect

    folder = Path(tempfile.mkdtemp())
    lake = filled(folder / "lake", days=75, per_day=20_000)
    rolled_up(lake)
    process, url, key = served(folder, folder / "lake")
    last = END // 10**9 - 86_400
    windows = {"TRADE_SIDE_AGNOSTIC_AGG": 100_000 * 60, "TRADE": 4 * 86_400}
    others: list[subprocess.Popen[bytes]] = []
    script, port = folder / "sockets.py", free_port()
    script.write_text(SOCKETS)
    try:
        for name, period in windows.items():
            asked = {
                "type": name, "exchange": EXCHANGE, "rawSymbol": SYMBOL, "interval": "MINUTE",
                "from": str(last - period), "period": str(period),
            }  # fmt: skip
            answer = httpx.get(f"{url}/v1/points", params=asked, headers={"X-Service-Key": key}, timeout=60)
            from tidytape import wire

            frame = wire.decode(answer.read(), name)
            frame.write_parquet(folder / "rows.parquet")
            others.append(
                subprocess.Popen([sys.executable, str(script), str(folder / "rows.parquet"), str(port)])
            )
            time.sleep(3)
            seconds: dict[str, list[float]] = defaultdict(list)
            for _ in range(5):
                began = time.perf_counter()
                count = streamed(url, key, asked)
                seconds["stream"].append(time.perf_counter() - began)
                assert count == frame.height, (count, frame.height)
                began = time.perf_counter()
                streamed(url, key, asked, arrow=True)
                seconds["stream, Arrow"].append(time.perf_counter() - began)
                began = time.perf_counter()
                httpx.get(f"{url}/v1/points", params=asked, headers={"X-Service-Key": key}, timeout=60).read()
                seconds["/v1/points"].append(time.perf_counter() - began)
                for path, what in (("one", "socket, a row"), ("many", "socket, 1,000 rows")):
                    began = time.perf_counter()
                    with connect(f"ws://127.0.0.1:{port}/{path}", max_size=None) as socket:
                        for _message in socket:
                            pass
                    seconds[what].append(time.perf_counter() - began)
            others.pop().terminate()
            stream = median(seconds["stream"])
            for what, values in seconds.items():
                took = median(values)
                ratio = stream / took
                print(f"{name:24} {what:20} {frame.height / took:12,.0f} rows/s  {ratio:6.2f}")
    finally:
        for one in (process, *others):
            one.terminate()
            one.wait(30)


def streamed(url: str, key: str, asked: dict[str, str], *, arrow: bool = False) -> int:
    headers = {"X-Service-Key": key, **({"Accept": "application/vnd.apache.arrow.stream"} if arrow else {})}
    with httpx.stream("GET", f"{url}/v1/stream", params=asked, headers=headers, timeout=60) as response:
        body = b"".join(response.iter_raw())
    return body.count(b'"Point"')


SOCKETS = """
import asyncio, sys
import orjson, polars as pl
from websockets.asyncio.server import serve
rows = pl.read_parquet(sys.argv[1])
async def send(socket):
    size = 1 if socket.request.path == "/one" else 1_000
    for start in range(0, rows.height, 1_000):
        part = rows.slice(start, 1_000).to_dicts()
        for first in range(0, len(part), size):
            await socket.send(orjson.dumps(part[first : first + size]))
async def main():
    async with serve(send, "127.0.0.1", int(sys.argv[2]), compression=None) as server:
        await server.serve_forever()
asyncio.run(main())
"""

if __name__ == "__main__":
    if sys.argv[1:2] == ["rows"]:
        rows()
    else:
        more = sys.argv[2:]
        asyncio.run(delay(float(more[0]) if more else 60.0, int(more[1]) if len(more) > 1 else 200))
