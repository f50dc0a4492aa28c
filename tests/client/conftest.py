"""A service that answers what a test tells it to, and a client whose waiting is noted instead of slept."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import httpx
import pytest

import tidytape

Answer = httpx.Response | Exception | Callable[[httpx.Request], httpx.Response]


class Script(httpx.BaseTransport):
    """Gives its answers one after the other, the last one for ever, and keeps the requests."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.requests: list[httpx.Request] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer(request) if callable(answer) else answer


@pytest.fixture
def script() -> type[Script]:
    return Script


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    noted: list[float] = []
    sleep, mine = time.sleep, threading.current_thread()

    def note(seconds: float) -> None:
        # Not of threads that other tests left behind, which would turn without a rest.
        if threading.current_thread() is mine:
            noted.append(seconds)
        else:
            sleep(seconds)

    monkeypatch.setattr("time.sleep", note)
    return noted


@pytest.fixture
def client() -> Callable[..., tidytape.Client[Any]]:
    def make(transport: httpx.BaseTransport, **options: Any) -> tidytape.Client[Any]:
        return tidytape.Client("http://service", "the-secret-key", transport=transport, **options)

    return make


WINDOW = {"exchange": "X", "raw_symbol": "BTC", "interval": "1m", "start": 0, "end": 600}


def candle(second: int, close: float = 1.0) -> dict[str, Any]:
    return {
        "Point": {
            "timestamp": {"s": second},
            "open": 1.0,
            "high": 2.0,
            "low": 0.5,
            "close": close,
            "volume": 3.0,
        }
    }


def body(*seconds: int | dict[str, Any]) -> dict[str, Any]:
    series_id = {"type": "TRADE_SIDE_AGNOSTIC_AGG", "exchange": "X", "rawSymbol": "BTC"}
    points = [one if isinstance(one, dict) else candle(one) for one in seconds]
    # The service says that there are no others, so that they need not fill a window.
    part = {"code": "PART", "exchange": "X", "rawSymbol": "BTC"}
    return {"series": [{"id": series_id, "points": points}], "notes": [part]}


@pytest.fixture
def window() -> dict[str, Any]:
    return dict(WINDOW)


@pytest.fixture
def candles() -> Callable[..., httpx.Response]:
    return lambda *seconds: httpx.Response(200, json=body(*seconds))


@pytest.fixture
def point() -> Callable[..., dict[str, Any]]:
    return candle
