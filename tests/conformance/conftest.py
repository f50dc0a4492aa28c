"""The service as a foreign client meets it: HTTP requests with a key, JSON answers, and a clock that stands still."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import polars as pl
import pytest

from conformance.asked import REFUSAL, identity
from conformance.lake import NOW, NS, T0, create, option_quotes
from lakes import empty_lake
from tidytape.lake import Lake
from tidytape.lake.rollup import rollup
from tidytape.service import Key, Keys, create_app, hashed


@dataclass
class Clock:
    """Epoch nanoseconds that a test moves by hand."""

    now_ns: int = NOW * NS

    def __call__(self) -> int:
        return self.now_ns

    def move(self, seconds: float) -> None:
        self.now_ns += round(seconds * NS)


@dataclass
class Service:
    """The real app with fresh buckets. Each tier has one key, which is the tier's name."""

    lake: Lake
    clock: Clock = field(default_factory=Clock)
    runner: asyncio.Runner = field(default_factory=asyncio.Runner)
    answers: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.open()

    def open(self, **options: Any) -> None:
        """Start the app anew, with settings of a test's own."""
        keys = [Key(name, hashed(name), name, created=0) for name in ("basic", "advanced", "enterprise")]
        keys.append(Key("old", hashed("expired"), "enterprise", created=0, expires=NOW))
        app = create_app(self.lake, Keys(keys), clock=self.clock, **options)
        self.transport = httpx.ASGITransport(app, raise_app_exceptions=False)

    # --- asking -----------------------------------------------------------------------------------------------------

    def request(
        self, method: str, path: str, *, key: str | None = "enterprise", **params: Any
    ) -> httpx.Response:
        return self.runner.run(self._request(method, path, key, params))

    async def _request(
        self, method: str, path: str, key: str | None, params: dict[str, Any]
    ) -> httpx.Response:
        headers = {} if key is None else {"X-Service-Key": key}
        given = {name: value for name, value in params.items() if value is not None}
        client = httpx.AsyncClient(transport=self.transport, base_url="http://service")
        return await client.request(method, path, params=given, headers=headers)

    def get(self, path: str, *, key: str | None = "enterprise", **params: Any) -> httpx.Response:
        return self.request("GET", path, key=key, **params)

    def points(self, *, key: str | None = "enterprise", **changed: Any) -> httpx.Response:
        """Ask for the first five minutes of a market's candles, or what is changed about that; None leaves out."""
        return self.get("/v1/points", key=key, **_named(changed))

    def at_once(self, count: int, *, key: str, **changed: Any) -> list[httpx.Response]:
        """Ask the same many times in parallel."""

        async def together() -> list[httpx.Response]:
            params = _named(changed)
            return await asyncio.gather(
                *(self._request("GET", "/v1/points", key, params) for _ in range(count))
            )

        return self.runner.run(together())

    # --- reading the answer -----------------------------------------------------------------------------------------

    def series(self, **changed: Any) -> list[dict[str, Any]]:
        """The series of an answer; tests of many of its fields ask for it once."""
        asked = repr((self.lake.path, self.clock.now_ns, sorted(_named(changed).items())))
        if asked not in self.answers:
            response = self.points(**changed)
            assert response.status_code == 200, response.text
            self.answers[asked] = response.json()["series"]
        return self.answers[asked]

    def id(self, **changed: Any) -> dict[str, Any]:
        """The identifier of the only series of an answer."""
        (series,) = self.series(**changed)
        found: dict[str, Any] = series["id"]
        return found

    def identity(self, **changed: Any) -> dict[str, Any]:
        """What tells the only series of an answer from others, without what describes it."""
        return identity(self.id(**changed))

    def payloads(self, **changed: Any) -> list[dict[str, Any]]:
        """The payloads of the only series of an answer, without their envelope."""
        (series,) = self.series(**changed)
        return payloads(series)

    def rows(self, *names: str, **changed: Any) -> list[tuple[Any, ...]]:
        """Of each point of the only series: its second after T0, and some of its fields."""
        return [
            (p["timestamp"]["s"] - T0, *(p.get(name) for name in names)) for p in self.payloads(**changed)
        ]

    def refused(self, *, key: str = "enterprise", **changed: Any) -> tuple[int, str]:
        """Status and code of a refusal, which has the one shape and costs nothing."""
        response = self.points(key=key, **changed)
        assert {"error", "message"} <= set(response.json()) <= REFUSAL, response.text
        assert response.headers["X-RateLimit-Used"] == "0"
        return response.status_code, response.json()["error"]

    def weight(self, *, key: str = "enterprise", **changed: Any) -> int:
        """What a request costs."""
        before = self.get("/v1/usage", key=key).json()["used"]
        response = self.points(key=key, **changed)
        assert response.status_code == 200, response.text
        return int(response.headers["X-RateLimit-Used"]) - before

    def markets(self, **params: Any) -> list[str]:
        """The venues and symbols of a page of markets, one string each."""
        response = self.get("/v1/markets", **params)
        assert response.status_code == 200, response.text
        return [f"{one['exchange']} {one['rawSymbol']}" for one in response.json()["symbols"]]


def _named(changed: dict[str, Any]) -> dict[str, Any]:
    """Parameters by their names: an underscore stands for a dot, or for nothing at the end (``from_``)."""
    params = {
        "type": "TRADE_SIDE_AGNOSTIC_AGG",
        "exchange": "ALPHA",
        "rawSymbol": "BTCUSDT",
        "interval": "MINUTE",
        "from": T0,
        "period": 300,
    }
    return params | {name.rstrip("_").replace("_", "."): value for name, value in changed.items()}


def payloads(series: dict[str, Any]) -> list[dict[str, Any]]:
    """The payloads of a series, without their envelope."""
    inside = [point["Point"] for point in series["points"]]
    return [point.get("TpoAggregation", point) for point in inside]


@pytest.fixture(scope="session")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return Lake(create(Path(tmp_path_factory.mktemp("conformance") / "lake")))


@pytest.fixture(scope="session")
def rolled_lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """The same lake, its minutes made."""
    made = Lake(create(Path(tmp_path_factory.mktemp("conformance") / "rolled")))
    rollup(made)
    return made


@pytest.fixture
def many_markets(tmp_path: Path) -> Lake:
    """A lake with nothing but one more market than a page has by default."""
    made = empty_lake(tmp_path / "many")
    made.writer().register(
        pl.DataFrame({"exchange": "MANY", "raw_symbol": [f"S{number:03}" for number in range(101)]})
    )
    return made


@pytest.fixture
def only_quotes(tmp_path: Path) -> Lake:
    """A lake with the quotes of a chain of options, and nothing registered."""
    made = empty_lake(tmp_path / "quotes")
    made.writer().append("option_quotes", option_quotes(), source="conformance")
    return made


@pytest.fixture(scope="session")
def answers() -> dict[str, list[dict[str, Any]]]:
    return {}


@pytest.fixture
def service(lake: Lake, answers: dict[str, list[dict[str, Any]]]) -> Iterator[Service]:
    made = Service(lake, answers=answers)
    with made.runner:
        yield made


def pytest_report_header() -> str:
    return "conformance: the tests are named after spec.md (test_spec_*) and silences.md (test_silences_*)"
