"""A service over a tiny lake, with a clock that stands still unless a test moves it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import polars as pl
import pytest

from redis_server import RedisServer
from tidytape.client._local import AppTransport
from tidytape.lake import Lake
from tidytape.service import Key, Keys, create_app, hashed

NS = 1_000_000_000
T0 = 1_723_161_600  # 2024-08-09T00:00:00Z


@dataclass
class Clock:
    """Epoch nanoseconds that a test moves by hand."""

    now_ns: int = (T0 + 30 * 86_400) * NS

    def __call__(self) -> int:
        return self.now_ns

    def move(self, seconds: float) -> None:
        self.now_ns += int(seconds * NS)


@dataclass
class Service:
    """An app with its clock, and a way to ask it with any key."""

    app: Any
    transport: AppTransport
    clock: Clock
    headers: dict[str, str] = field(default_factory=dict)

    def get(self, path: str, *, key: str | None = "enterprise-key", **kwargs: object) -> httpx.Response:
        with_key = {} if key is None else {"X-Service-Key": key}
        client = httpx.Client(transport=self.transport, base_url="http://service")
        return client.request("GET", path, headers={**with_key, **kwargs.pop("headers", {})}, **kwargs)  # type: ignore[dict-item, arg-type]

    def request(self, method: str, path: str) -> httpx.Response:
        client = httpx.Client(transport=self.transport, base_url="http://service")
        return client.request(method, path, headers={"X-Service-Key": "enterprise-key"})


def trades(exchange: str, raw_symbol: str, rows: list[tuple[float, str, float, float]]) -> pl.DataFrame:
    """Rows of (seconds after T0, side, price, amount)."""
    return pl.DataFrame(
        [
            {
                "exchange": exchange,
                "raw_symbol": raw_symbol,
                "id": str(number),
                "timestamp": T0 * NS + round(seconds * NS),
                "sequence": number,
                "side": side,
                "price": price,
                "amount": amount,
                "quote_amount": price * amount,
                "received": None,
            }
            for number, (seconds, side, price, amount) in enumerate(rows)
        ],
        schema_overrides={"received": pl.Int64},
    )


@pytest.fixture(scope="session")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("service") / "lake"
    made = Lake.create(path)
    made.writer().register(
        pl.DataFrame(
            {
                "exchange": ["ALPHA", "BETA", "ALPHA", "ALPHA"],
                "raw_symbol": ["BTCUSDT", "BTC-PERP", "ETHUSDT", "HUGE"],
                "normalized_symbol": ["BTC-USDT", "BTC-USDT", "ETH-USDT", "HUGE-USDT"],
                "coin": ["BTC", "BTC", "ETH", "HUGE"],
                "quote_coin": ["USDT"] * 4,
                "category": ["SPOT", "PERPETUAL", "SPOT", "SPOT"],
                "tick_size": [0.1, 0.1, 0.01, None],
                "block_size": [0.1, 1.0, 0.5, None],
            }
        )
    )
    btc = [
        (0.0, "BUY", 100.0, 1.0),
        (59.999, "SELL", 101.5, 2.0),
        (60.0, "SELL", 100.3, 0.5),
        (61.5, "BUY", 100.3, 0.25),
        (180.0, "BUY", 99.9, 4.0),
    ]
    made.writer().append("trades", trades("ALPHA", "BTCUSDT", btc), source="test:alpha-btc")
    made.writer().append(
        "trades", trades("BETA", "BTC-PERP", [(30.0, "BUY", 100.2, 3.0)]), source="test:beta-btc"
    )
    made.writer().append(
        "trades", trades("ALPHA", "ETHUSDT", [(10.0, "SELL", 10.25, 7.0)]), source="test:alpha-eth"
    )
    made.writer().append("trades", trades("ALPHA", "HUGE", [(10.0, "BUY", 1e9, 1.0)]), source="test:huge")
    return path


@pytest.fixture
def service(lake: Path) -> Iterator[Service]:
    yield from _served(lake)


def _served(lake: Path) -> Iterator[Service]:
    clock = Clock()
    keys = Keys(
        [
            Key("b", hashed("basic-key"), "basic", created=0),
            Key("a", hashed("advanced-key"), "advanced", created=0),
            Key("e", hashed("enterprise-key"), "enterprise", created=0),
            Key("x", hashed("expired-key"), "enterprise", created=0, expires=1_700_000_000),
        ]
    )
    app = create_app(Lake(lake), keys, clock=clock)
    transport = AppTransport(app)
    yield Service(app, transport, clock)
    transport.close()


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """A server that stays up."""
    server = RedisServer(tmp_path_factory.mktemp("redis"))
    yield server
    server.kill()


@pytest.fixture
def fragile_redis(tmp_path: Path) -> Iterator[RedisServer]:
    """A server of a test's own, to be killed and frozen, that wants a password."""
    server = RedisServer(tmp_path, password="hunter2")
    yield server
    server.kill()


@pytest.fixture
def window() -> Callable[..., dict[str, object]]:
    def params(**changed: object) -> dict[str, object]:
        base = {
            "type": "TRADE_SIDE_AGNOSTIC_AGG",
            "exchange": "ALPHA",
            "rawSymbol": "BTCUSDT",
            "interval": "MINUTE",
            "from": T0,
            "period": 240,
        }
        return {name: value for name, value in {**base, **changed}.items() if value is not None}

    return params
