"""Weight through the real app: one key asked many times at once, of one service and of replicas that share Redis."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette

from redis_server import RedisServer
from tidytape.budget import Tier
from tidytape.catalogue import TierName
from tidytape.lake import Lake
from tidytape.service import Key, Keys, MemoryBuckets, RedisBuckets, create_app, hashed

pytestmark = pytest.mark.slow

SECRET = "a-secret-that-nobody-stores"
# One token flows in per minute, so that what is counted does not depend on how long a test takes.
FIXED = Tier("fixed", 1, 100, None, aggregation=True, rank=TierName.ENTERPRISE)
AWAY = {"error": "UNAVAILABLE", "message": "the bucket store cannot be reached; try again", "retry_after": 2}


@dataclass
class Replicas:
    """Services over one lake and one set of keys, on one event loop."""

    lake: Path
    runner: asyncio.Runner
    apps: list[Starlette] = field(default_factory=list)
    shared: list[RedisBuckets] = field(default_factory=list)

    def open(self, redis: RedisServer | None = None, *, prefix: str = "", timeout: float = 30) -> None:
        buckets = None
        if redis is not None:
            buckets = RedisBuckets(redis.url, prefix=prefix, timeout=timeout)
            self.shared.append(buckets)
        keys = Keys([Key("f", hashed(SECRET), FIXED.name, created=0)])
        self.apps.append(create_app(Lake(self.lake), keys, tiers={FIXED.name: FIXED}, buckets=buckets))

    def client(self, app: Starlette) -> httpx.AsyncClient:
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        return httpx.AsyncClient(
            transport=transport, base_url="http://service", headers={"X-Service-Key": SECRET}
        )

    def get(self, path: str, *, key: str = SECRET, **params: Any) -> httpx.Response:
        async def ask() -> httpx.Response:
            async with self.client(self.apps[0]) as client:
                return await client.get(path, params=params, headers={"X-Service-Key": key})

        return self.runner.run(ask())

    def at_once(
        self, count: int, params: dict[str, Any], *, after: Callable[[int], None] = lambda answered: None
    ) -> list[httpx.Response]:
        """Ask every replica in turn, all at the same time; ``after`` is told how many have answered."""

        async def ask_all() -> list[httpx.Response]:
            clients = [self.client(app) for app in self.apps]
            asking = [clients[n % len(clients)].get("/v1/points", params=params) for n in range(count)]
            answers = []
            for answer in asyncio.as_completed(asking):
                answers.append(await answer)
                after(len(answers))
            return answers

        return self.runner.run(ask_all())


@pytest.fixture
def replicas(lake: Path) -> Iterator[Replicas]:
    with asyncio.Runner() as runner:
        made = Replicas(lake, runner)
        yield made
        for one in made.shared:
            runner.run(one.close())


STORES = {"memory": (1, False), "redis": (1, True), "two replicas": (2, True)}


@pytest.mark.long
@pytest.mark.parametrize(("count", "shared"), STORES.values(), ids=STORES)
def test_200_at_once_spend_exactly_what_there_is(
    replicas: Replicas, request: pytest.FixtureRequest, window: Any, *, count: int, shared: bool
) -> None:
    for _ in range(count):
        redis = request.getfixturevalue("redis_server") if shared else None
        replicas.open(redis, prefix=f"{request.node.name}:")
    answers = replicas.at_once(200, window())
    good = [one for one in answers if one.status_code == 200]
    refused = [one for one in answers if one.status_code == 429]
    assert (len(good), len(refused)) == (100, 100)
    # Each shows what was left when it was let in itself.
    left = [int(one.headers["X-RateLimit-Remaining"]) for one in good]
    assert sorted(left) == list(range(100))
    assert [int(one.headers["X-RateLimit-Used"]) for one in good] == [100 - one for one in left]
    assert {one.headers["X-RateLimit-Remaining"] for one in refused} == {"0"}
    for one in refused:
        assert 0 < int(one.headers["Retry-After"]) == one.json()["retry_after"] <= 60
    assert replicas.get("/v1/usage").json()["used"] == 100


@pytest.fixture
def one_service(replicas: Replicas, redis_server: RedisServer, request: pytest.FixtureRequest) -> Replicas:
    replicas.open(redis_server, prefix=f"{request.node.name}:")
    return replicas


def asked_of(redis: RedisServer, work: Callable[[], httpx.Response]) -> tuple[httpx.Response, int]:
    """What work answers, and how many requests to buckets it made."""
    with redis.client() as client:
        client.config_resetstat()
        answer = work()
        counted = client.info("commandstats").get("cmdstat_evalsha", {"calls": 0})
    return answer, counted["calls"]


@pytest.mark.parametrize(
    ("path", "changed", "status"),
    [
        ("/v1/points", {}, 200),
        ("/v1/points", {"rawSymbol": "NOPE"}, 400),
        ("/v1/points", {"period": 100_001 * 60}, 403),
        ("/v1/types", None, 200),
        ("/v1/markets", None, 200),
        ("/v1/usage", None, 200),
        ("/v1/nothing", None, 404),
    ],
)
def test_buckets_are_asked_once_per_request(
    one_service: Replicas, redis_server: RedisServer, window: Any, path: str, changed: Any, status: int
) -> None:
    one_service.get("/v1/usage")  # the script is known
    params = {} if changed is None else window(**changed)
    answer, calls = asked_of(redis_server, lambda: one_service.get(path, **params))
    assert (answer.status_code, calls) == (status, 1)
    assert answer.headers["X-RateLimit-Limit"] == "1"


def test_buckets_are_not_asked_without_a_known_key(one_service: Replicas, redis_server: RedisServer) -> None:
    one_service.get("/v1/usage")
    for path in ("/healthz", "/metrics", "/openapi.json"):
        answer, calls = asked_of(redis_server, lambda path=path: one_service.get(path))  # type: ignore[misc]
        assert (answer.status_code, calls) == (200, 0)


def test_a_failure_gives_back_and_shows_it(
    one_service: Replicas, redis_server: RedisServer, window: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*args: object, **more: object) -> None:
        raise RuntimeError

    one_service.get("/v1/usage")
    monkeypatch.setattr("tidytape.service.work._computing.computed", broken)
    answer, calls = asked_of(redis_server, lambda: one_service.get("/v1/points", **window()))
    assert (answer.status_code, calls) == (500, 2)
    assert (answer.headers["X-RateLimit-Remaining"], answer.headers["X-RateLimit-Used"]) == ("100", "0")


def test_no_secret_is_stored(one_service: Replicas, redis_server: RedisServer, window: Any) -> None:
    assert one_service.get("/v1/points", **window()).status_code == 200
    assert one_service.get("/v1/usage").status_code == 200
    with redis_server.client() as client:
        names = client.keys("*")
        stored = b"\n".join([*names, *(client.dump(name) for name in names)])
        read = b"\n".join(word for name in names for word in client.lrange(name, 0, -1))
    assert b"test_no_secret_is_stored:f:fixed:1:100" in stored
    for secret in (SECRET, hashed(SECRET)):
        assert secret.encode() not in stored
        assert secret.encode() not in read


def test_buckets_are_closed_when_the_server_shuts_down(lake: Path) -> None:
    class Closing(MemoryBuckets):
        closed = False

        async def close(self) -> None:
            self.closed = True

    async def serve_and_stop() -> list[bool]:
        buckets = Closing()
        app = create_app(Lake(lake), Keys([]), buckets=buckets)
        async with app.router.lifespan_context(app):
            seen = [buckets.closed]
        return [*seen, buckets.closed]

    assert asyncio.run(serve_and_stop()) == [False, True]


# --- Redis is away --------------------------------------------------------------------------------------------------


def test_nobody_is_let_in_while_redis_is_away(
    replicas: Replicas, fragile_redis: RedisServer, window: Any, caplog: pytest.LogCaptureFixture
) -> None:
    replicas.open(fragile_redis)
    assert replicas.get("/v1/points", **window()).status_code == 200
    assert replicas.get("/readyz").json() == {"status": "ready"}
    fragile_redis.kill()
    assert replicas.get("/v1/types", key="a guess").status_code == 401
    for path, params in {"/v1/points": window(), "/v1/types": {}, "/v1/usage": {}, "/v1/nothing": {}}.items():
        answer = replicas.get(path, **params)
        assert (answer.status_code, answer.json()) == (503, AWAY)
        assert answer.headers["Retry-After"] == "2"
        assert "X-RateLimit-Limit" not in answer.headers
    ready = replicas.get("/readyz")
    assert ready.status_code == 503
    assert ready.json() == {"error": "UNAVAILABLE", "message": "the bucket store cannot be reached"}
    assert replicas.get("/healthz").status_code == 200
    assert 'tidytape_requests_total{route="points",status="503"} 1.0' in replicas.get("/metrics").text
    assert 'tidytape_weight_total{tier="fixed"} 1.0' in replicas.get("/metrics").text
    errors = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert len(errors) == 1
    assert "hunter2" not in caplog.text
    fragile_redis.start()
    assert replicas.get("/v1/points", **window()).status_code == 200
    assert replicas.get("/readyz").status_code == 200


def test_a_refund_that_cannot_be_given_is_logged(
    replicas: Replicas,
    fragile_redis: RedisServer,
    window: Any,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def gone(*args: object, **more: object) -> None:
        fragile_redis.kill()
        raise RuntimeError

    replicas.open(fragile_redis)
    monkeypatch.setattr("tidytape.service.work._computing.computed", gone)
    with caplog.at_level(logging.INFO, logger="tidytape.access"):
        answer = replicas.get("/v1/points", **window())
    assert (answer.status_code, answer.json()["error"]) == (500, "INTERNAL_ERROR")
    assert answer.headers["X-RateLimit-Used"] == "1"  # it is charged
    assert "weight 1 was not given back to key f" in caplog.text
    (line,) = (record.message for record in caplog.records if record.name == "tidytape.access")
    assert json.loads(line)["weight"] == 1


def test_whoever_was_let_in_was_counted_though_redis_froze(
    replicas: Replicas, fragile_redis: RedisServer, window: Any
) -> None:
    for _ in range(2):
        replicas.open(fragile_redis, timeout=0.5)
        replicas.get("/v1/usage")
    answers = replicas.at_once(
        60, window(), after=lambda answered: fragile_redis.freeze() if answered == 1 else None
    )
    late = replicas.at_once(4, window())
    fragile_redis.thaw()
    assert {one.status_code for one in late} == {503}
    statuses = [one.status_code for one in answers]
    assert set(statuses) <= {200, 503}
    replicas.apps.clear()
    replicas.open(fragile_redis)
    used = replicas.get("/v1/usage").json()["used"]
    assert 1 <= statuses.count(200) <= used <= 64


def test_killed_in_the_midst(replicas: Replicas, fragile_redis: RedisServer, window: Any) -> None:
    replicas.open(fragile_redis)

    def kill_and_start(answered: int) -> None:
        if answered == 10:
            fragile_redis.kill()
        if answered == 60:
            fragile_redis.start()

    statuses = [one.status_code for one in replicas.at_once(90, window(), after=kill_and_start)]
    assert set(statuses) <= {200, 503}
    assert replicas.get("/v1/points", **window()).status_code == 200
