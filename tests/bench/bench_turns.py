"""``tidytape serve`` on two workers under callers who hang up, and under one key's heavy requests.

Run ``python tests/bench/bench_turns.py [hang-ups|heavy]``. It takes about two minutes and prints, for each case, what
a light request of another key takes while nothing else happens and under the load, and the ratio. The targets: after
callers hung up, the next answer within 20 times the idle one, no worker ended, and the service ends within 5 s of
SIGTERM; under 8 heavy requests of one key, the 95th percentile of another key's light request within 3 times its
idle one.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median, quantiles
from urllib.parse import urlencode

import httpx
from bench_history import END, EXCHANGE, SYMBOL, filled

from tidytape.demo import fill
from tidytape.demo._market import START_NS

TIERS = "[load]\nper_minute = 40000000\nburst = 80000000\naggregation = true\ntypes = 'enterprise'\nstreams = 1000\n"
DEMO = START_NS // 10**9
DAYS = 60
FIRST = END // 10**9 - DAYS * 86_400

LIGHT_OF_DEMO = {
    "type": "TRADE_SIDE_AGNOSTIC_AGG", "exchange": "DEMO_SPOT", "rawSymbol": "BTCUSDT", "interval": "MINUTE",
    "from": DEMO, "period": 3_600,
}  # fmt: skip
LIGHT = {
    "type": "TRADE_SIDE_AGNOSTIC_AGG", "exchange": EXCHANGE, "rawSymbol": SYMBOL, "interval": "MINUTE",
    "from": END // 10**9 - 7_200, "period": 3_600,
}  # fmt: skip
HEAVY = {
    "type": "TPO_AGG", "exchange": EXCHANGE, "rawSymbol": SYMBOL, "interval": "DAY", "blockSize": "0.5",
    "tpoBlockSizeMinutes": 30, "from": FIRST, "period": DAYS * 86_400,
}  # fmt: skip


class Served:
    """A service in a process of its own."""

    def __init__(self, folder: Path, port: int, process: subprocess.Popen[bytes], keys: list[str]) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.port = port
        self.process = process
        self.keys = keys

    def took(self, params: dict[str, object], *, key: int = 0) -> float:
        """Return how long one request takes on a connection of its own. [s]"""
        began = time.perf_counter()
        answer = httpx.get(
            f"{self.url}/v1/points", params=params, headers={"X-Service-Key": self.keys[key]}, timeout=60
        )
        answer.raise_for_status()
        return time.perf_counter() - began

    def workers(self) -> set[int]:
        """Return the processes below it."""
        tasks = Path(f"/proc/{self.process.pid}/task").glob("*/children")
        return {int(one) for task in tasks for one in task.read_text().split()}


@contextlib.contextmanager
def served(folder: Path, *words: str) -> Iterator[Served]:
    """Serve the lake of a folder on two workers, to two keys."""
    (folder / "tiers.toml").write_text(TIERS)
    command = [sys.executable, "-c", "from tidytape.cli import main; main()"]
    new = [*command, "keys", "new", "--tier", "load", "--tiers", "tiers.toml", "--keys", "keys.json"]
    keys = [
        subprocess.run(new, cwd=folder, capture_output=True, text=True, check=True).stdout.split()[-1]
        for _ in range(2)
    ]
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = int(one.getsockname()[1])
    serve = ["serve", "--lake", "lake", "--keys", "keys.json", "--tiers", "tiers.toml", "--workers", "2"]
    with (folder / "serve.log").open("wb") as log:
        process = subprocess.Popen(
            [*command, *serve, "--port", str(port), *words], cwd=folder, stdout=log, stderr=log
        )
        try:
            for _ in range(300):
                with contextlib.suppress(httpx.HTTPError):
                    httpx.get(f"http://127.0.0.1:{port}/healthz")
                    break
                time.sleep(0.1)
            yield Served(folder, port, process, keys)
        finally:
            began = time.perf_counter()
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(120)
                print(f"  ended {time.perf_counter() - began:.1f} s after SIGTERM")
            except subprocess.TimeoutExpired:
                process.kill()
                print("  did not end within 120 s of SIGTERM")


def hang_up(server: Served, connections: int) -> None:
    """Send a small request on each of some connections, and close them while it is answered."""
    rng = random.Random(7)
    head = f"GET /v1/points?{urlencode(LIGHT_OF_DEMO)} HTTP/1.1\r\nHost: x\r\nX-Service-Key: {server.keys[0]}\r\n\r\n"

    def one(pause: float) -> None:
        with socket.create_connection(("127.0.0.1", server.port)) as connection:
            connection.sendall(head.encode())
            time.sleep(pause)

    clients = [threading.Thread(target=one, args=(rng.uniform(0.002, 0.03),)) for _ in range(connections)]
    for client in clients:
        client.start()
    for client in clients:
        client.join()


def hang_ups(folder: Path) -> None:
    """Print what the next request takes after callers hung up, in quiet and under a load of small requests."""
    fill(folder / "lake", days=2)
    with served(folder) as server:
        idle = median([server.took(LIGHT_OF_DEMO, key=1) for _ in range(25)][5:])
        before = server.workers()
        print(f"hang-ups: a small request takes {idle * 1e3:.0f} ms while nothing else happens")
        hang_up(server, 192)
        after = server.took(LIGHT_OF_DEMO, key=1)
        print(f"  after 192 hung up: {after * 1e3:.0f} ms, {after / idle:.1f} times")
        over = threading.Event()
        answered: list[float] = []

        def load() -> None:
            while not over.is_set():
                answered.append(server.took(LIGHT_OF_DEMO))

        clients = [threading.Thread(target=load) for _ in range(4)]
        for client in clients:
            client.start()
        time.sleep(2)
        hang_up(server, 64)
        after = server.took(LIGHT_OF_DEMO, key=1)
        over.set()
        for client in clients:
            client.join()
        print(f"  after 64 more under load: {after * 1e3:.0f} ms, {after / idle:.1f} times")
        print(f"  {len(answered)} requests of the load answered, the slowest in {max(answered) * 1e3:.0f} ms")
        print(f"  workers ended: {len(before - server.workers())} of {len(before)}")


def heavy(folder: Path) -> None:
    """Print what a light request of one key takes while another key asks 8 heavy ones at once."""
    filled(folder / "lake", days=DAYS, per_day=20_000)
    with served(folder, "--seconds", "120") as server:
        alone = server.took(HEAVY)
        idle = [server.took(LIGHT, key=1) for _ in range(65)][5:]
        p95 = quantiles(idle, n=20)[-1]
        print(
            f"heavy: one takes {alone:.1f} s; a light one {median(idle) * 1e3:.0f} ms, p95 {p95 * 1e3:.0f} ms"
        )
        took: list[float] = []

        def ask() -> None:
            with contextlib.suppress(httpx.HTTPError):
                took.append(server.took(HEAVY))

        clients = [threading.Thread(target=ask) for _ in range(8)]
        began = time.perf_counter()
        for client in clients:
            client.start()
        time.sleep(0.5)
        loaded: list[float] = []
        while any(client.is_alive() for client in clients) and time.perf_counter() - began < 60:
            loaded.append(server.took(LIGHT, key=1))
        still = sum(client.is_alive() for client in clients)
        if len(loaded) > 1:
            slow = quantiles(loaded, n=20)[-1]
            print(
                f"  under 8 heavy ones: {len(loaded)} light ones, p95 {slow * 1e3:.0f} ms, {slow / p95:.1f} times; "
                f"the slowest {max(loaded) * 1e3:.0f} ms"
            )
        else:
            print(f"  under 8 heavy ones: {[round(one, 1) for one in loaded]} s")
        print(f"  heavy ones answered: {len(took)}, still waiting: {still}")


def main(*names: str) -> None:
    """Run the cases of some names, all of them without any."""
    print(f"load of the machine {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    for case in (hang_ups, heavy):
        if names and case.__name__.replace("_", "-") not in names:
            continue
        folder = Path(tempfile.mkdtemp())
        try:
            case(folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
