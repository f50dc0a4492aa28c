"""``tidytape serve`` on two workers beside callers who ask for much, or do not read what they asked for.

Run ``python tests/bench/bench_admission.py [heavy|streams|answers|rpc] [trades a day]`` on an idle machine. The lake
has five days of trades of one market, 400,000 a day if left out, without rollups. Each part prints what a light stream
or a light ``/v1/points`` of another key takes while nothing else happens and under the load, and the ratio. Targets:

- ``heavy``: beside 4 streams of market profiles over five days and 60 more that are open, the first line of a light
  stream within 5 times its idle time, the 95th percentile of a light request within 3 times; the heavy ones finish.
- ``streams``: beside 500 streams that nobody reads, a light request within 3 times.
- ``answers``: 300 answers of 100,000 trades that nobody reads add at most 256 MiB, and are gone within a minute.
- ``rpc``: the same as ``streams`` and ``answers`` over gRPC, 200 of each.

No light request may get another status than 200.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median, quantiles
from typing import Any
from urllib.parse import urlencode

import httpx
from bench_history import END, EXCHANGE, SYMBOL, filled
from bench_serve import free_port
from bench_turns import Served, served

DAYS = 5
FIRST = END // 10**9 - DAYS * 86_400
MARKET = {"exchange": EXCHANGE, "rawSymbol": SYMBOL}
LIGHT = {
    **MARKET,
    "type": "TRADE_SIDE_AGNOSTIC_AGG",
    "interval": "MINUTE",
    "from": END // 10**9 - 7_200,
    "period": 3_600,
}
HEAVY = {**MARKET, "type": "TPO_AGG", "interval": "HOUR", "from": FIRST}


def first_line(service: Served, params: dict[str, Any], *, key: int = 1) -> float:
    """Return how long the first line of a stream takes. [s]"""
    began = time.perf_counter()
    headers = {"X-Service-Key": service.keys[key]}
    with httpx.stream(
        "GET", f"{service.url}/v1/stream", params=params, headers=headers, timeout=200
    ) as answer:
        answer.raise_for_status()
        next(answer.iter_lines())
        return time.perf_counter() - began


def opened(service: Served, path: str, params: dict[str, Any], *, key: int = 0) -> socket.socket:
    """Ask over a socket that reads nothing."""
    sock = socket.create_connection(("127.0.0.1", service.port), timeout=60)
    head = f"X-Service-Key: {service.keys[key]}\r\n\r\n"
    sock.sendall(f"GET {path}?{urlencode(params)} HTTP/1.1\r\nHost: x\r\n{head}".encode())
    return sock


def held(service: Served) -> float:
    """Return the memory of the service process, files in memory included. [MiB]"""
    folder, size = Path(f"/proc/{service.process.pid}"), 0
    size += int((folder / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    for file in (folder / "fd").iterdir():
        with contextlib.suppress(OSError):
            if "memfd:" in str(file.readlink()):
                size += file.stat().st_blocks * 512
    return size / 2**20


def percentile(work: Callable[[], float], times: int) -> float:
    """Return the 95th percentile of how long something takes. [s]"""
    return quantiles([work() for _ in range(times)], n=20)[-1]


def shown(what: str, idle: float, busy: float, most: float) -> None:
    print(
        f"{what:36} idle {idle:7.3f} s   busy {busy:7.3f} s   ratio {busy / idle:6.1f}   target {most:g}",
        flush=True,
    )


@contextlib.contextmanager
def reading(service: Served, count: int, params: dict[str, Any]) -> Iterator[list[float]]:
    """Read streams of the first key in threads; yield when the history of each was there. [s]"""
    began, finished, stop = time.perf_counter(), [], threading.Event()

    def read() -> None:
        headers = {"X-Service-Key": service.keys[0]}
        with httpx.stream(
            "GET", f"{service.url}/v1/stream", params=params, headers=headers, timeout=600
        ) as answer:
            answer.raise_for_status()
            for line in answer.iter_lines():
                if (f'"over":{{"{params["type"]}"' in line and '"update"' in line) or '"end"' in line:
                    finished.append(time.perf_counter() - began)
                if stop.is_set():
                    return

    threads = [threading.Thread(target=read, daemon=True) for _ in range(count)]
    for thread in threads:
        thread.start()
    yield finished
    stop.set()


def heavy(service: Served) -> None:
    idle = median(first_line(service, LIGHT) for _ in range(10))
    points = percentile(lambda: service.took(LIGHT, key=1), 40)
    with reading(service, 4, HEAVY) as finished, contextlib.ExitStack() as stack:
        for _ in range(60):
            stack.enter_context(opened(service, "/v1/stream", HEAVY))
        time.sleep(2)
        lines = [first_line(service, LIGHT) for _ in range(10)]
        shown("first line, median of 10", idle, median(lines), 5)
        shown("first line, the longest of 10", idle, max(lines), 5)
        shown("/v1/points, p95", points, percentile(lambda: service.took(LIGHT, key=1), 60), 3)
        until = time.perf_counter() + 300
        while len(finished) < 4 and time.perf_counter() < until:
            time.sleep(1)
        print(f"heavy streams that finished: {len(finished)} of 4 after {max(finished, default=0):.0f} s")
        print(f"memory of the service: {held(service):.0f} MiB")


def streams(service: Served) -> None:
    before, points = held(service), percentile(lambda: service.took(LIGHT, key=1), 40)
    trades = {**MARKET, "type": "TRADE", "from": FIRST}
    with contextlib.ExitStack() as stack:
        for _ in range(500):
            stack.enter_context(opened(service, "/v1/stream", trades))
        for second in range(0, 60, 10):
            busy = percentile(lambda: service.took(LIGHT, key=1), 40)
            shown(f"/v1/points, p95, after {second} s", points, busy, 3)
            print(f"memory of the service: {before:.0f} MiB before, {held(service):.0f} MiB now")
            time.sleep(5)
    shown_metrics(service)


def answers(service: Served) -> None:
    before, points = held(service), percentile(lambda: service.took(LIGHT, key=1), 40)
    per_day = int(sys.argv[2]) if len(sys.argv) > 2 else 400_000
    trades = {**MARKET, "type": "TRADE", "from": FIRST + 3_600, "period": int(86_400 * 99_000 / per_day)}
    with contextlib.ExitStack() as stack:
        began, most = time.perf_counter(), 0.0
        for number in range(300):
            trades["from"] = FIRST + 3_600 + number
            stack.enter_context(opened(service, "/v1/points", trades))
        while time.perf_counter() < began + 70:
            most = max(most, held(service) - before)
            time.sleep(0.5)
            if time.perf_counter() < began + 20:
                shown("/v1/points, p95", points, percentile(lambda: service.took(LIGHT, key=1), 20), 3)
        print(
            f"300 answers that nobody reads add {most:.0f} MiB at most, {held(service) - before:.0f} MiB after 70 s"
        )
    shown_metrics(service)


def rpc(service: Served) -> None:
    import grpc

    from tidytape.service.proto import market_data_pb2 as pb

    points = percentile(lambda: service.took(LIGHT, key=1), 40)
    before = held(service)
    request = pb.PointRequest(
        type=["TRADE"], exchange=[EXCHANGE], rawSymbol=[SYMBOL], **{"from": FIRST}
    ).SerializeToString()
    metadata = [("x-service-key", service.keys[0])]
    options = [("grpc.use_local_subchannel_pool", 1)]
    channels = [grpc.insecure_channel(f"127.0.0.1:{RPC_PORT}", options=options) for _ in range(4)]
    method = "/tidytape.v1.MarketData/StreamPoints"
    calls = [channels[number % 4].unary_stream(method)(request, metadata=metadata) for number in range(200)]
    for second in range(0, 40, 10):
        busy = percentile(lambda: service.took(LIGHT, key=1), 40)
        shown(f"/v1/points, p95, after {second} s", points, busy, 3)
        print(f"memory of the service: {before:.0f} MiB before, {held(service):.0f} MiB now")
        time.sleep(5)
    for call in calls:
        call.cancel()
    shown_metrics(service)


def shown_metrics(service: Served) -> None:
    names = (
        "tidytape_connections_cut_total",
        "tidytape_unsent",
        "tidytape_workers_ended_total",
        "tidytape_stream_cut",
    )
    text = httpx.get(f"{service.url}/metrics").text
    print(*(line for line in text.splitlines() if line.startswith(names)), sep="\n")


RPC_PORT = free_port()
PARTS = {"heavy": heavy, "streams": streams, "answers": answers, "rpc": rpc}


def main(parts: list[str], per_day: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        filled(Path(folder) / "lake", days=DAYS, per_day=per_day)
        for part in parts:
            print(f"--- {part}", flush=True)
            with served(Path(folder), "--grpc-port", str(RPC_PORT)) as service:
                PARTS[part](service)


if __name__ == "__main__":
    main(
        [sys.argv[1]] if len(sys.argv) > 1 else list(PARTS),
        int(sys.argv[2]) if len(sys.argv) > 2 else 400_000,
    )
