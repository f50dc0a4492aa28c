"""A fetch of several requests: whole or an error, several at once, and nothing more is sent once one has failed."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import polars as pl
import pytest

import tidytape
from client.driven import Clock, Driven
from tidytape.client._window import Window
from tidytape.errors import (
    AuthenticationError,
    BudgetError,
    DecodeError,
    IncompleteDataError,
    QueryError,
    ServerError,
)
from tidytape.query import PointsQuery, window_hint

STEP = 60


class Service(httpx.BaseTransport):
    """A candle for every minute asked for, no more than so many at once, and trouble where a test wants it."""

    def __init__(
        self, *, most: int = 10**9, trouble: Callable[[int], httpx.Response | None] | None = None
    ) -> None:
        self.most = most
        self.trouble = trouble or (lambda start: None)
        self.asked: list[tuple[int, int]] = []
        self.at_once = self.open = 0
        self.lock = threading.Lock()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        if request.url.path != "/v1/points":
            return httpx.Response(404)
        start, period = (int(request.url.params[name]) for name in ("from", "period"))
        with self.lock:
            self.open += 1
            self.at_once = max(self.at_once, self.open)
            self.asked.append((start, start + period))
        try:
            time.sleep(0.005)
            return self.trouble(start) or self.answer(request, start, start + period)
        finally:
            with self.lock:
                self.open -= 1

    def answer(self, request: httpx.Request, start: int, end: int) -> httpx.Response:
        times = range(start, end, STEP)[: self.most]
        points = [{"Point": {"timestamp": {"s": one}, "close": 1.0, "volume": 1.0}} for one in times]
        ids = {"type": request.url.params["type"], "exchange": "X", "rawSymbol": "BTC"}
        return httpx.Response(200, json={"series": [{"id": ids, "points": points}]})


def queries(points: int, **more: Any) -> list[PointsQuery]:
    return PointsQuery.split(
        type="TRADE_SIDE_AGNOSTIC_AGG", exchange="X", raw_symbol="BTC", interval="1m", start=0,
        end=points * STEP, **more,
    )  # fmt: skip


def books(points: int) -> list[PointsQuery]:
    """Of a type whose requests hold 4,000 points at most."""
    return PointsQuery.split(
        type="BLOCK_BOOK_SNAPSHOT_AGG",
        exchange="X",
        raw_symbol="BTC",
        interval="1m",
        start=0,
        end=points * STEP,
    )


class Books(Service):
    def answer(self, request: httpx.Request, start: int, end: int) -> httpx.Response:
        point = {"timestamp": {"s": start}, "bids": [1.0, float(start)], "asks": [2.0, 1.0]}
        ids = {"type": "BLOCK_BOOK_SNAPSHOT_AGG", "exchange": "X", "rawSymbol": "BTC"}
        return httpx.Response(200, json={"series": [{"id": ids, "points": [{"Point": point}]}]})


def client(service: Service, **options: Any) -> tidytape.Client[Any]:
    return tidytape.Client("http://service", "k", transport=service, **{"attempts": 1, **options})


@pytest.mark.parametrize("parallel", [1, 3])
def test_requests_go_out_several_at_once_and_come_together_in_order(parallel: int) -> None:
    together = threading.Barrier(parallel)

    def wait_for_the_others(start: int) -> None:
        if start < parallel * 4_000 * STEP:
            together.wait(30)

    service = Books(trouble=wait_for_the_others)
    frame = client(service, parallel=parallel).fetch(books(40_000)).frame
    assert service.at_once == parallel
    assert len(service.asked) == 10
    assert frame.filter(pl.col("side") == "BID")["size"].to_list() == [4_000.0 * STEP * n for n in range(10)]


def test_a_series_that_was_cut_is_an_error_though_another_reaches_the_end() -> None:
    class Two(Service):
        def answer(self, request: httpx.Request, start: int, end: int) -> httpx.Response:
            left, series = 1_000, []
            for symbol in ("A", "B"):
                times = range(start, end, STEP)[:left]
                left -= len(times)
                ids = {"type": request.url.params["type"], "exchange": "X", "rawSymbol": symbol}
                points = [{"Point": {"timestamp": {"s": one}, "close": 1.0}} for one in times]
                series.append({"id": ids, "points": points})
            return httpx.Response(200, json={"series": series})

    asked = PointsQuery(
        type="TRADE_SIDE_AGNOSTIC_AGG", exchange="X", coin="BTC", interval="1m", start=0, end=600 * STEP
    )
    with pytest.raises(IncompleteDataError, match=r"also has 200 rows in .* the first of X B;"):
        client(Two()).fetch(asked)


class Trades(Service):
    """Seven trades in every second, a thousand at once."""

    def __init__(self, per_second: int) -> None:
        super().__init__()
        self.per_second = per_second

    def answer(self, request: httpx.Request, start: int, end: int) -> httpx.Response:
        numbers = range(start * self.per_second, end * self.per_second)[:1_000]
        points = [
            {
                "Point": {
                    "timestamp": {"s": n // self.per_second, "ns": n % self.per_second},
                    "id": str(n),
                    "price": 1.0,
                }
            }
            for n in numbers
        ]
        ids = {"type": "TRADE", "exchange": "X", "rawSymbol": "BTC", "side": "BUY"}
        return httpx.Response(200, json={"series": [{"id": ids, "points": points}]})


class Refuses(Trades):
    """Trades of a service that refuses a window with more than a thousand; it may say how long a window fits."""

    def __init__(self, per_second: int, *, says: bool) -> None:
        super().__init__(per_second)
        self.says = says
        self.refused = 0

    def answer(self, request: httpx.Request, start: int, end: int) -> httpx.Response:
        count = (end - start) * self.per_second
        if count <= 1_000:
            return super().answer(request, start, end)
        self.refused += 1
        hint = f"; {window_hint(1_000 // self.per_second)}" if self.says else ""
        message = f"period: got '{count} trades', expected at most 1,000 trades in one request{hint}"
        return httpx.Response(403, json={"error": "POINT_LIMIT_EXCEEDED", "message": message})


@pytest.mark.parametrize(("says", "answered"), [(True, 3), (False, 4)])
def test_a_window_with_too_many_trades_is_asked_for_in_shorter_ones_which_alone_weigh(
    *, says: bool, answered: int
) -> None:
    service = Refuses(7, says=says)
    query = PointsQuery(type="TRADE", exchange="X", raw_symbol="BTC", start=0, end=357)
    frame, told = Driven(service, Clock(0)).fetch(Window.of(query))
    assert frame.height == 357 * 7
    assert frame["id"].is_unique().all()
    assert service.refused >= 1
    assert len(service.asked) - service.refused == answered
    assert told.weight == answered


@pytest.mark.parametrize("says", [True, False])
def test_a_second_with_too_many_trades_is_the_error_of_the_service(*, says: bool) -> None:
    query = PointsQuery(type="TRADE", exchange="X", raw_symbol="BTC", start=0, end=4)
    with pytest.raises(QueryError, match="at most 1,000 trades"):
        client(Refuses(1_500, says=says)).fetch(query)


def broken(at: int) -> Callable[[int], httpx.Response | None]:
    body = {"error": "INTERNAL_ERROR", "message": "request 1"}
    return lambda start: httpx.Response(500, json=body) if start == at else None


def test_a_part_without_an_answer_is_an_error_and_nothing_more_is_sent() -> None:
    service = Books(trouble=broken(4_000 * STEP))
    with pytest.raises(ServerError):
        client(service, parallel=1).fetch(books(400_000))
    assert len(service.asked) == 2


def test_a_part_without_an_answer_may_be_flagged_instead() -> None:
    nothing = Driven(Books(trouble=broken(0)), Clock(0), partial="flag", attempts=1)
    frame, told = nothing.fetch(Window.of(books(4_000)))
    assert frame.is_empty()
    assert told.missing == ((0, 4_000 * STEP),)
    service = Books(trouble=broken(4_000 * STEP))
    driven = Driven(service, Clock(0), partial="flag", attempts=1)
    frame, told = driven.fetch(Window.of(books(12_000)))
    assert frame.filter(pl.col("side") == "BID")["size"].to_list() == [0.0, 8_000.0 * STEP]
    assert told.missing == ((4_000 * STEP, 8_000 * STEP),)
    assert [type(one) for one in told.failures] == [ServerError]
    assert (told.requests, told.weight) == (3, 80)  # the one that failed was sent


def test_a_key_that_is_refused_is_never_flagged() -> None:
    refused = httpx.Response(401, json={"error": "INVALID_API_KEY", "message": "no"})
    with pytest.raises(AuthenticationError):
        client(Service(trouble=lambda start: refused), partial="flag").fetch(queries(5))


def test_filled_candles_with_a_gap_are_not_whole() -> None:
    class Gap(Service):
        def answer(self, request: httpx.Request, start: int, end: int) -> httpx.Response:
            times = [one * STEP for one in (2, 3, 6, 7) if start <= one * STEP < end]
            points = [{"Point": {"timestamp": {"s": one}, "close": 1.0}} for one in times]
            ids = {"type": request.url.params["type"], "exchange": "X", "rawSymbol": "BTC"}
            return httpx.Response(200, json={"series": [{"id": ids, "points": points}]})

    with pytest.raises(IncompleteDataError) as caught:
        client(Gap()).fetch(queries(9, gapfill=True))
    assert caught.value.missing == ((4 * STEP, 6 * STEP),)
    assert client(Gap()).fetch(queries(9)).frame.height == 4


def test_a_request_that_no_bucket_can_hold_is_not_sent() -> None:
    service = Books()
    driven = Driven(service, Clock(0))
    driven.settings.quota.heard(limit=4, remaining=8, reset=0, taken=0)
    with pytest.raises(BudgetError):
        driven.fetch(Window.of(books(4_000)))
    assert service.asked == []
    driven.settings.quota.heard(limit=10, remaining=20, reset=0, taken=0)
    _, told = driven.fetch(Window.of(books(8_000)))
    assert [end - start for start, end in service.asked] == [2_000 * STEP] * 4
    assert told.weight == 80


def test_what_is_refused_or_fails_gives_its_weight_back() -> None:
    driven = Driven(Service(trouble=broken(0)), Clock(0), attempts=3)
    driven.settings.quota.heard(limit=100, remaining=200, reset=0, taken=0)
    with pytest.raises(ServerError):
        driven.fetch(Window.of(queries(5)))
    assert driven.settings.quota.available == 200


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="signals are of another kind there")
def test_ctrl_c_ends_a_fetch_of_many_requests_at_once() -> None:
    program = """
import httpx, os, signal, threading, time, tidytape
from tidytape.query import PointsQuery
sent = []
class Slow(httpx.BaseTransport):
    def handle_request(self, request):
        if request.url.path != "/v1/points":
            return httpx.Response(404)
        sent.append(1)
        time.sleep(1)
        return httpx.Response(200, json={"series": []})
client = tidytape.Client("http://service", "k", transport=Slow(), parallel=2, progress=False)
queries = PointsQuery.split(
    type="BLOCK_BOOK_SNAPSHOT_AGG", exchange="X", raw_symbol="B", interval="1m", start=0, end=200_000 * 60
)
threading.Timer(1.5, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    client.fetch(queries)
except KeyboardInterrupt:
    print(len(sent))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 20  # of fifty


@pytest.mark.slow
def test_an_interrupt_ends_a_fetch_of_many_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    service = Books()
    fetcher = client(service, parallel=2)
    join = threading.Thread.join

    def interrupted(self: threading.Thread, timeout: float | None = None) -> None:
        if self.name == "tidytape-fetch":
            monkeypatch.setattr(threading.Thread, "join", join)
            raise KeyboardInterrupt  # as Ctrl-C does while it is waited for
        join(self, timeout)

    monkeypatch.setattr(threading.Thread, "join", interrupted)
    with pytest.raises(KeyboardInterrupt):
        fetcher.fetch(books(4_000_000))
    until = time.monotonic() + 10
    while any(one.name == "tidytape-fetch" for one in threading.enumerate()):
        assert time.monotonic() < until
        time.sleep(0.01)
    assert len(service.asked) < 100


@pytest.mark.slow
def test_progress_is_shown_where_it_is_wanted(capsys: pytest.CaptureFixture[str]) -> None:
    client(Books(), progress=True).fetch(books(12_000))
    assert "BLOCK_BOOK_SNAPSHOT_AGG" in capsys.readouterr().err
    for quiet in (False, None):
        client(Books(), progress=quiet).fetch(books(12_000))
        assert capsys.readouterr().err == ""


def shifted(by: int, *, most: int = 10**9) -> Service:
    """Answers a window that begins so many points later than the one asked for."""

    class Shifted(Service):
        def answer(self, request: httpx.Request, start: int, end: int) -> httpx.Response:
            return super().answer(request, start + by * STEP, end)

    return Shifted(most=most)


@pytest.mark.parametrize("by", [-1_000, 1_000_000])
def test_points_of_another_window_are_refused(by: int, tmp_path: Path) -> None:
    class Elsewhere(Service):
        def answer(self, request: httpx.Request, start: int, end: int) -> httpx.Response:
            return super().answer(request, start + by * STEP, end + by * STEP)

    asked = PointsQuery(
        type="TRADE_SIDE_AGNOSTIC_AGG", exchange="X", raw_symbol="BTC", interval="1m", start=10**6 * STEP,
        end=(10**6 + 10) * STEP,
    )  # fmt: skip
    asking = client(Elsewhere(), cache=tmp_path)
    for _ in range(2):  # nothing of it is kept
        with pytest.raises(DecodeError, match="of 10 rows lie outside the window"):
            asking.fetch(asked)


@pytest.mark.slow
def test_the_interval_before_the_window_is_dropped_and_counts_for_the_limit() -> None:
    asking = client(shifted(-1, most=1_000))
    assert asking.fetch(queries(999)).frame.height == 999
    with pytest.raises(IncompleteDataError, match="cut an answer at 1,000 rows"):
        asking.fetch(queries(1_000))


def test_series_after_series_cut_at_a_limit_are_an_error() -> None:
    class Three(Service):
        def answer(self, request: httpx.Request, start: int, end: int) -> httpx.Response:
            left, series = 1_000, []
            for symbol in ("A", "B", "C"):
                times = range(start, end, STEP)[:left]
                left -= len(times)
                ids = {"type": request.url.params["type"], "exchange": "X", "rawSymbol": symbol}
                points = [{"Point": {"timestamp": {"s": one}, "close": 1.0}} for one in times]
                series += [{"id": ids, "points": points}] if points else []
            return httpx.Response(200, json={"series": series})

    asked = PointsQuery(
        type="TRADE_SIDE_AGNOSTIC_AGG", exchange="X", coin="BTC", interval="1m", start=0, end=600 * STEP
    )
    with pytest.raises(IncompleteDataError, match="cut an answer at 1,000 rows"):
        client(Three()).fetch(asked)


def test_parts_that_hang_do_not_hold_up_an_error_nor_places() -> None:
    release = threading.Event()

    def trouble(start: int) -> httpx.Response | None:
        if start == 0:
            return httpx.Response(401, json={"error": "INVALID_API_KEY", "message": "expired"})
        if start < 12_000 * STEP:
            release.wait(30)
        return None

    asking = client(Books(trouble=trouble), parallel=3)
    with pytest.raises(AuthenticationError):
        asking.fetch(books(12_000))
    assert not release.is_set()
    assert asking.fetch(books(36_000)[3:]).frame.height == 12
    release.set()


FORKED = """
import os, sys, tidytape
with tidytape.Client(sys.argv[1], "k", progress=False) as client:
    client.coins()
    child = os.fork()
    if not child:
        client.coins()
        os._exit(0)
    os.waitpid(child, 0)
    client.coins()
"""


@pytest.fixture
def coins() -> Iterator[tuple[str, list[int]]]:
    """The address of a service that keeps connections open, and the port of who asked, one by one."""
    ports: list[int] = []

    class Coins(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            ports.append(self.client_address[1])
            self.send_response(200)
            self.send_header("Content-Length", "12")
            self.end_headers()
            self.wfile.write(b'{"coins":[]}')

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Coins)
    server.daemon_threads = True
    serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    serving.start()
    yield f"http://127.0.0.1:{server.server_address[1]}", ports
    server.shutdown()
    serving.join()
    server.server_close()


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_process_has_connections_of_its_own(coins: tuple[str, list[int]]) -> None:
    subprocess.run([sys.executable, "-c", FORKED, coins[0]], check=True, timeout=60)
    parent, child, again = coins[1]
    assert parent == again != child


LOOPS = """
import asyncio, sys, tidytape
client = tidytape.AsyncClient(sys.argv[1], "k", progress=False)
for _ in range(2):
    asyncio.run(client.coins())
asyncio.run(client.aclose())
try:
    asyncio.run(client.coins())
except tidytape.errors.TransportError as error:
    assert "closed" in str(error)
"""


@pytest.mark.slow
def test_an_async_client_may_be_used_on_one_loop_after_the_other(coins: tuple[str, list[int]]) -> None:
    subprocess.run([sys.executable, "-c", LOOPS, coins[0]], check=True, timeout=60)
    assert len(set(coins[1])) == len(coins[1]) == 2
