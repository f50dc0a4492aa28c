"""A copy of public archives on this machine, small, and with the defects that real ones have.

``python tests/mirror.py --port 8123`` serves a week of BTCUSDT, to try ``tidytape download --mirror`` without network.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import math
import random
import re
import threading
import time
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from urllib.parse import unquote

Fault = Callable[["Request"], bool]
"""What goes wrong with a request; it returns whether it answered."""


@dataclass
class Request:
    """One request for a file."""

    handler: BaseHTTPRequestHandler
    path: str
    content: bytes | None
    number: int
    """How often the path was asked for before."""

    def answer(self, status: int, body: bytes = b"", *, sent: int | None = None, **headers: str) -> None:
        """Send an answer; of its body only the first bytes, and then break off, if ``sent`` is less than its length."""
        self.handler.send_response(status)
        headers.setdefault("Content_Length", str(len(body)))
        for name, value in headers.items():
            self.handler.send_header(name.replace("_", "-"), value)
        self.handler.end_headers()
        if self.handler.command == "HEAD":
            return
        self.handler.wfile.write(body if sent is None else body[:sent])
        if sent is not None and sent < len(body):
            self.handler.close_connection = True

    def file(self, *, sent: int | None = None, ranges: bool = True, mark: bool = True) -> None:
        """Send the file, or the part that is asked for."""
        if self.content is None:
            self.answer(404, b"<Error><Code>NoSuchKey</Code></Error>")
            return
        tag = f'"{hashlib.md5(self.content).hexdigest()}"'
        headers = {"ETag": tag} if mark else {}
        asked = re.match(r"bytes=(\d+)-", self.handler.headers.get("Range", ""))
        is_same = self.handler.headers.get("If-Range", tag) == tag
        if asked and ranges and is_same:
            start, size = int(asked[1]), len(self.content)
            if start >= size:
                self.answer(416, Content_Range=f"bytes */{size}")
                return
            headers["Content-Range"] = f"bytes {start}-{size - 1}/{size}"
            self.answer(206, self.content[start:], sent=sent, **headers)
        else:
            self.answer(200, self.content, sent=sent, **headers)


@dataclass
class Mirror:
    """Files by path, and what goes wrong with them."""

    files: dict[str, bytes] = field(default_factory=dict)
    faults: dict[str, Fault] = field(default_factory=dict)
    asked: Counter[str] = field(default_factory=Counter)
    """How often each path was asked for, its length not counted."""
    sent_heads: list[dict[str, str]] = field(default_factory=list)
    address: str = ""

    def put(self, path: str, content: bytes, *, checksum: bool | str = True) -> None:
        """Add a file, and its checksum."""
        self.files[path] = content
        if checksum:
            digest = checksum if isinstance(checksum, str) else hashlib.sha256(content).hexdigest()
            self.files[f"{path}.CHECKSUM"] = f"{digest}  {path.rpartition('/')[2]}\n".encode()

    @contextmanager
    def served(self, port: int = 0) -> Iterator[Mirror]:
        """Serve until the block ends."""
        mirror = self
        lock = threading.Lock()

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                path = unquote(self.path.lstrip("/"))
                with lock:
                    number = mirror.asked[path]
                    mirror.asked[path] += self.command == "GET"
                    mirror.sent_heads.append(dict(self.headers))
                request = Request(self, path, mirror.files.get(path), number)
                fault = mirror.faults.get(path)
                if fault is None or not fault(request):
                    request.file()

            do_HEAD = do_GET  # noqa: N815

            def log_message(self, *_: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_: object) -> None:
                pass  # the client went away

        server = Server(("127.0.0.1", port), Handler)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        self.address = f"http://127.0.0.1:{server.server_address[1]}"
        try:
            yield self
        finally:
            server.shutdown()
            server.server_close()
            thread.join()


# --- what goes wrong ---


def answers(status: int, times: int = 10**9, **headers: str) -> Fault:
    """A status instead of the file, the first times."""

    def fault(request: Request) -> bool:
        if request.number < times:
            request.answer(status, **headers)
        return request.number < times

    return fault


def breaks_off(every: int, **how: bool) -> Fault:
    """Each answer breaks off after some bytes."""

    def fault(request: Request) -> bool:
        request.file(sent=every, **how)
        return True

    return fault


def slow(pause: float) -> Fault:
    """A pause before the answer. [s]"""

    def fault(request: Request) -> bool:
        time.sleep(pause)
        return False

    return fault


def moved(to: str) -> Fault:
    """A redirect."""

    def fault(request: Request) -> bool:
        request.answer(302, Location=to)
        return True

    return fault


# --- small archives ---


def zipped(name: str, text: str) -> bytes:
    """A zip archive of one file, the same bytes each time."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(zipfile.ZipInfo(name), text)
    return packed.getvalue()


def milliseconds(day: date) -> int:
    """The midnight at which a day begins. [ms]"""
    return int(datetime.combine(day, datetime.min.time(), UTC).timestamp()) * 1000


def prices(day: date, count: int) -> list[float]:
    """Prices of a day, the same each time."""
    walk = random.Random(day.toordinal())
    price, walked = 60_000 + 500 * math.sin(day.toordinal()), []
    for _ in range(count):
        price += walk.gauss(0, 20)
        walked.append(round(price, 1))
    return walked


def binance_trades(day: date, count: int = 50, *, header: bool = True, microseconds: bool = False) -> str:
    """Trades of Binance, some seconds apart."""
    first, step = milliseconds(day), 86_400_000 // max(1, count)
    rows = [
        f"{day.toordinal() * 1_000_000 + n},{price},{0.001 * (n + 1):.3f},{price * 0.001 * (n + 1):.4f},"
        f"{(first + n * step) * (1000 if microseconds else 1)},{'true' if n % 3 else 'false'}"
        + (",True" if microseconds else "")
        for n, price in enumerate(prices(day, count))
    ]
    return "\n".join([*(["id,price,qty,quote_qty,time,is_buyer_maker"] if header else []), *rows, ""])


def binance_candles(day: date, minutes: int = 1, *, header: bool = True) -> str:
    """Candles of Binance."""
    length = minutes * 60_000
    walked = prices(day, 1440 // minutes + 1)
    rows = []
    for n, (opening, closing) in enumerate(pairwise(walked)):
        time_ = milliseconds(day) + n * length
        high, low = max(opening, closing) + 5, min(opening, closing) - 5
        volume = 1 + n % 7
        rows.append(
            f"{time_},{opening},{high},{low},{closing},{volume},{time_ + length - 1},{volume * opening},{10 + n % 5},"
            f"{volume / 2},{volume * opening / 2},0"
        )
    of_takers = "taker_buy_volume,taker_buy_quote_volume"
    names = f"open_time,open,high,low,close,volume,close_time,quote_volume,count,{of_takers},ignore"
    return "\n".join([*([names] if header else []), *rows, ""])


def binance_funding(month: date) -> str:
    """Funding rates of a month."""
    day, rows = month, ["calc_time,funding_interval_hours,last_funding_rate"]
    while day.month == month.month:
        rows += [
            f"{milliseconds(day) + hour * 3_600_000 + 3},8,{0.0001 + hour * 1e-6:.8f}" for hour in (0, 8, 16)
        ]
        day += timedelta(days=1)
    return "\n".join([*rows, ""])


def binance_metrics(day: date, *, blank: Mapping[int, str] | None = None) -> str:
    """Open interest, every five minutes."""
    names = (
        "create_time,symbol,sum_open_interest,sum_open_interest_value,count_toptrader_long_short_ratio,"
        "sum_toptrader_long_short_ratio,count_long_short_ratio,sum_taker_long_short_vol_ratio"
    )
    rows = []
    for n, price in enumerate(prices(day, 288)):
        time_ = datetime.combine(day, datetime.min.time(), UTC) + timedelta(minutes=5 * n)
        amount = 80_000 + n
        values = (blank or {}).get(n, f"{amount},{amount * price:.2f}")
        rows.append(f"{time_:%Y-%m-%d %H:%M:%S},BTCUSDT,{values},1.5,1.2,1.1,0.9")
    return "\n".join([names, *rows, ""])


def put_binance(mirror: Mirror, first: date, days: int, *, symbol: str = "BTCUSDT", trades: int = 50) -> None:
    """Add days of the USD-M market of Binance."""
    folder = "data/futures/um"
    for n in range(days):
        day = first + timedelta(days=n)
        for kind, name, text in (
            ("trades", f"{symbol}-trades-{day}", binance_trades(day, trades)),
            ("klines", f"{symbol}-1m-{day}", binance_candles(day)),
            ("metrics", f"{symbol}-metrics-{day}", binance_metrics(day)),
        ):
            below = f"{symbol}/1m" if kind == "klines" else symbol
            mirror.put(f"{folder}/daily/{kind}/{below}/{name}.zip", zipped(f"{name}.csv", text))
        if day.day == 1 or n == 0:
            name = f"{symbol}-fundingRate-{day:%Y-%m}"
            content = zipped(f"{name}.csv", binance_funding(day.replace(day=1)))
            mirror.put(f"{folder}/monthly/fundingRate/{symbol}/{name}.zip", content)


def gzipped(text: str) -> bytes:
    """A gzip file, the same bytes each time."""
    return gzip.compress(text.encode(), mtime=0)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=8123)
    parser.add_argument("--first", type=date.fromisoformat, default=date(2024, 8, 1))
    parser.add_argument("--days", type=int, default=7)
    arguments = parser.parse_args()
    mirror = Mirror()
    put_binance(mirror, arguments.first, arguments.days, trades=20_000)
    with mirror.served(arguments.port) as serving:
        print(serving.address, flush=True)
        threading.Event().wait()
