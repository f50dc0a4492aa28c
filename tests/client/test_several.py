"""Several fetches under one budget: planned together, fetched together, and never more at once than was allowed."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import polars as pl
import pytest

import tidytape
from client.driven import NS, Clock
from simulated.everything import START, everything
from tidytape.budget import TIERS
from tidytape.client._budget import Quota
from tidytape.client._local import AppTransport, AsyncAppTransport
from tidytape.errors import QueryError
from tidytape.lake import Lake
from tidytape.query import PointsQuery
from tidytape.service import Key, Keys, create_app, hashed

S0 = START // NS
HOUR = 3_600
DAY = {"exchange": "X", "coin": "BTC", "start": S0, "end": S0 + 24 * HOUR}


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return everything(tmp_path_factory.mktemp("several") / "lake")


def app_of(lake: Lake, clock: Clock | None = None) -> Any:
    keys = Keys([Key("k", hashed("the-secret-key"), "basic", created=0)])
    tiers = {"basic": replace(TIERS["basic"], history_days=None)}
    return create_app(lake, keys, tiers=tiers, **({"clock": clock} if clock else {}))


@pytest.fixture
def client(lake: Lake) -> Iterator[tidytape.Client[pl.DataFrame]]:
    with tidytape.Client("http://several", "the-secret-key", transport=AppTransport(app_of(lake))) as one:
        yield one


@pytest.mark.slow
def test_a_plan_of_several_is_what_fetching_each_then_does(client: Any) -> None:
    asked = [
        client.query.candles(interval="1m", **DAY),
        client.query.tpo(interval="1h", **DAY),
        client.query.book_heatmap(interval="1m", **DAY | {"end": S0 + 6 * 24 * HOUR}),
        client.query.funding(interval="1h", **DAY),
    ]
    plan = client.plan(asked)
    told = [client.fetch(one).metadata for one in asked]
    assert [part.weight for part in plan.parts] == [one.weight for one in told]
    assert [len(part.requests) for part in plan.parts] == [one.requests for one in told]
    assert plan.weight == sum(one.weight for one in told)
    assert plan.seconds == 0
    lines, shown = str(plan).splitlines(), plan._repr_html_()
    assert lines[0].startswith(
        f"4 queries: {len(plan.requests)} requests, weight {plan.weight} (at most {plan.weight_at_most}), 0 s"
    )
    for part, line, name in zip(plan.parts, lines[1:], ("TRADE", "TPO", "BLOCK", "FUNDING"), strict=True):
        assert line.strip().startswith(name)
        assert line.endswith(str(part))
        assert f"<td>{part.weight}</td>" in shown
    assert shown.count("<tr>") == 1 + 4


def test_a_plan_for_a_tier_is_that_of_its_key_and_sends_nothing(client: Any) -> None:
    year = {"exchange": "X", "coin": "BTC", "interval": "1m", "start": S0, "end": S0 + 366 * 24 * HOUR}
    asked = client.query.candles(**year)
    client.usage()  # a basic key whose bucket is full
    of_key = client.plan(asked)
    with tidytape.Client("https://nobody.invalid", "k", cache=False) as elsewhere:
        of_tier = elsewhere.plan(asked, tier="basic")
        roomy = elsewhere.plan(
            asked, tier=replace(TIERS["basic"], per_minute=10_000, burst=20_000, history_days=None)
        )
        grouped = client.query.candles(
            **year | {"exchange": ["X", "Y"], "group_by": "sum", "start": "-1d", "end": None}
        )
        refusals = [elsewhere.plan(grouped, tier=name).refusal for name in ("basic", "advanced")]
        with pytest.raises(QueryError, match="did you mean 'basic'"):
            elsewhere.plan(asked, tier="basci")
    assert of_tier.requests == of_key.requests
    assert of_tier.seconds is None  # no wait helps
    assert of_key.seconds
    assert str(of_tier).startswith("the basic tier refuses it: start: got")
    assert "waiting" not in str(of_tier)
    assert (roomy.seconds, roomy.refusal) == (0, None)
    assert refusals == [
        "group_by: got 'GROUP_BY_TYPE_SUM', expected no value; the basic tier does not aggregate exchanges",
        None,
    ]


def test_the_wait_is_that_of_all_together(client: Any) -> None:
    books = [
        client.query.book_heatmap(
            interval="1m", **DAY | {"start": S0 + day * 86_400, "end": S0 + (day + 1) * 86_400}
        )
        for day in range(15)
    ]
    alone, all_of_them = client.plan(books[0]), client.plan(books)
    assert (alone.weight, alone.seconds) == (20, 0)
    assert all_of_them.weight == 300
    assert all_of_them.seconds == pytest.approx((300 - 200) / 100 * 60, abs=1)
    assert "60 s of waiting" in str(all_of_them)


@pytest.mark.slow
def test_what_one_part_fetches_weighs_nothing_in_the_next(lake: Lake, tmp_path: Path) -> None:
    with tidytape.Client(
        "http://several", "the-secret-key", transport=AppTransport(app_of(lake)), cache=tmp_path
    ) as kept:
        final = DAY | {"start": S0 - 22 * HOUR, "end": S0 + 2 * HOUR}
        asked = [kept.query.tpo(interval="1h", **final), kept.query.tpo_sessions(interval="1h", **final)]
        plan = kept.plan(asked)
        told = [kept.fetch(one).metadata for one in asked]
        assert [part.weight for part in plan.parts] == [one.weight for one in told] == [5, 0]
        assert plan.parts[1].cached == told[1].cached == ((S0 - 22 * HOUR, S0 + 2 * HOUR),)


def test_queries_that_differ_in_time_alone_are_one_window(client: Any) -> None:
    parts = PointsQuery.split(
        type="BLOCK_BOOK_SNAPSHOT_AGG", exchange="X", coin="BTC", interval="1m", start=S0, end=S0 + 9_000 * 60
    )
    assert len(parts) > 1
    assert len(client.plan(parts).parts) == 1
    assert len(client.plan([parts, parts[0]]).parts) == 2
    others = [PointsQuery(type=name, interval="1h", **DAY) for name in ("TRADE_AGG", "OPEN_INTEREST_AGG")]
    assert [part.weight for part in client.plan(others).parts] == [1, 1]
    with pytest.raises(QueryError, match="adjoin"):
        client.plan([parts[0], parts[2]])


def test_a_frame_is_of_one_series(client: Any, tmp_path: Path) -> None:
    asked = [client.query.candles(interval="1m", **DAY), client.query.funding(interval="1h", **DAY)]
    for use in (
        client.fetch,
        lambda query: client.to_parquet(query, tmp_path / "x.parquet"),
        lambda query: next(client.iter_frames(query)),
    ):
        with pytest.raises(QueryError, match=r"query: got '2 queries', .* asyncio\.gather.*client\.plan"):
            use(asked)
    assert client.usage().used == 0


class Counting(AsyncAppTransport):
    def __init__(self, app: Any) -> None:
        super().__init__(app)
        self.open = self.most = 0
        self.statuses: list[int] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        is_points = request.url.path == "/v1/points"
        self.open += is_points
        self.most = max(self.most, self.open)
        response = await super().handle_async_request(request)
        self.open -= is_points
        self.statuses.append(response.status_code)
        return response


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::tidytape.errors.EmptyAnswerWarning")
def test_gathered_fetches_share_the_budget_and_none_is_refused(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, sleep = Clock(S0 + 200 * 86_400), asyncio.sleep

    async def pass_on(seconds: float) -> None:
        clock.now_ns += round(seconds * NS)
        await sleep(0)

    monkeypatch.setattr(asyncio, "sleep", pass_on)
    transport = Counting(app_of(lake, clock))
    began = clock.now_ns

    async def study() -> list[Any]:
        async with tidytape.AsyncClient("http://several", "the-secret-key", transport=transport) as client:
            client._settings = replace(client._settings, quota=Quota(clock=clock))
            asked = [
                client.query.candles(
                    interval="1m", **DAY | {"start": S0 + n * HOUR, "end": S0 + (n + 1) * HOUR}
                )
                for n in range(230)
            ]
            return await asyncio.gather(*map(client.fetch, asked))

    told = asyncio.run(study())
    assert sum(one.metadata.weight for one in told) == 230
    assert set(transport.statuses) == {200}
    assert transport.most == 4
    assert clock.now_ns - began >= (230 - 200) / 100 * 60 * NS


def test_threads_that_share_a_client_share_its_places() -> None:
    class Slow(httpx.BaseTransport):
        def __init__(self) -> None:
            self.open = self.most = 0
            self.lock = threading.Lock()
            self.together = threading.Barrier(2)

        def handle_request(self, request: httpx.Request) -> httpx.Response:
            if request.url.path != "/v1/points":
                return httpx.Response(404)
            with self.lock:
                self.open += 1
                self.most = max(self.most, self.open)
            self.together.wait(30)
            with self.lock:
                self.open -= 1
            return httpx.Response(200, json={"series": []})

    transport = Slow()
    client = tidytape.Client("http://service", "another-key", transport=transport, parallel=2)
    with ThreadPoolExecutor(8) as pool:
        frames = list(
            pool.map(lambda n: client.candles(interval="1m", **DAY | {"start": S0 + n * 60}), range(8))
        )
    assert len(frames) == 8
    assert transport.most == 2
