"""A client under a budget: never refused, no longer waiting than need be, and no more weight than need be."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from client.driven import NS, Clock, Driven
from simulated.everything import ASKED, START, everything
from tidytape.budget import TIERS, Tier, TokenBucket, weight
from tidytape.catalogue import TierName
from tidytape.client._budget import Quota, quota_of, reported
from tidytape.client._local import AppTransport
from tidytape.client._window import Window
from tidytape.errors import BudgetError
from tidytape.lake import Lake
from tidytape.query import PointsQuery
from tidytape.service import Key, Keys, create_app, hashed

S0 = START // NS
DAYS = 90
# The budget of the basic tier, with every data type: what is tested is the budget.
BASIC = Tier(
    "basic", TIERS["basic"].per_minute, TIERS["basic"].burst, None, aggregation=True, rank=TierName.ENTERPRISE
)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return everything(tmp_path_factory.mktemp("budget") / "lake")


@pytest.fixture
def clock() -> Clock:
    return Clock(S0 + 200 * 86_400)


@pytest.fixture
def service(lake: Lake, clock: Clock) -> Iterator[AppTransport]:
    keys = Keys([Key("k", hashed("the-secret-key"), "basic", created=0)])
    transport = AppTransport(create_app(lake, keys, tiers={"basic": BASIC}, clock=clock))
    yield transport
    transport.close()


def window_of(name: str, **more: Any) -> Window:
    queries = PointsQuery.split(
        type=name, interval="1m", start=S0 - 86_400, end=S0 + (DAYS - 1) * 86_400, **ASKED[name], **more
    )
    return Window.of(queries)


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(ASKED))
def test_ninety_days_of_minutes_are_never_refused_and_wait_no_longer_than_the_bucket_needs(
    service: AppTransport, clock: Clock, name: str
) -> None:
    client = Driven(service, clock)
    window = window_of(name)
    frame, told = client.fetch(window)
    assert {answer.status for answer in client.answers} == {200}
    thousands = -(-DAYS * 1_440 // 1_000)
    least = thousands * weight(window.request(0, 60_000))
    assert told.weight == least
    best = max(0.0, (least - BASIC.burst) / BASIC.per_minute * 60)
    assert best <= client.waited <= best * 1.05
    assert told.requests == sum(request.url.path == "/v1/points" for request in client.requests)
    assert not frame.is_empty() or name == "SKEW_OPTION_SUMMARY_AGG"


@pytest.mark.slow
def test_a_client_that_comes_late_learns_what_is_left(service: AppTransport, clock: Clock) -> None:
    first = Driven(service, clock)
    first.fetch(window_of("LIQUIDATION_AGG"))  # 130 of 200
    second = Driven(service, clock)
    _, told = second.fetch(window_of("LIQUIDATION_AGG"))
    assert {answer.status for answer in second.answers} == {200}
    best = (2 * told.weight - BASIC.burst) / BASIC.per_minute * 60
    assert best - 1 <= second.waited <= best * 1.05


@pytest.mark.slow
def test_raising_instead_of_waiting_charges_nothing(service: AppTransport, clock: Clock) -> None:
    client = Driven(service, clock, on_limit="raise")
    client.fetch(window_of("LIQUIDATION_AGG"))
    with pytest.raises(BudgetError) as caught:
        client.fetch(window_of("LIQUIDATION_AGG"))
    assert caught.value.available < caught.value.weight
    assert client.waited == 0
    told = client.http.get("http://service/v1/usage", headers={"X-Service-Key": "the-secret-key"}).json()
    assert told["used"] <= BASIC.burst
    # What was taken for requests that were never sent is back.
    assert client.settings.quota.available == pytest.approx(told["remaining"], abs=1)


def test_a_service_that_tells_nothing_is_asked_without_waiting() -> None:
    quota = Quota(clock=lambda: 0)
    assert [quota.take(1_000).wait for _ in range(3)] == [0, 0, 0]
    assert quota.seconds_for(10**9) == 0
    assert quota.burst is None


@pytest.mark.slow
@given(
    per_minute=st.integers(1, 1_000),
    weights=st.lists(st.integers(1, 50), min_size=1, max_size=30),
    pauses=st.lists(st.floats(0, 30), min_size=30, max_size=30),
    latency=st.floats(0, 2),
)
def test_whatever_is_waited_for_the_service_admits(
    per_minute: int, weights: list[int], pauses: list[float], latency: float
) -> None:
    clock = Clock(0)
    bucket = TokenBucket(per_minute, 2 * per_minute, now_ns=0)
    quota = Quota(clock=clock)
    quota.heard(limit=per_minute, remaining=2 * per_minute, reset=0, taken=0)
    for taken, pause in zip(weights, pauses, strict=False):
        cost = min(taken, 2 * per_minute)
        clock.now_ns += round(quota.take(cost).wait * NS)
        clock.now_ns += round(latency / 2 * NS)
        told = bucket.take(cost, now_ns=clock.now_ns)
        assert told.admitted
        clock.now_ns += round(latency / 2 * NS)
        reset = told.reset - clock.now_ns / NS
        quota.heard(limit=told.limit, remaining=told.remaining, reset=reset, taken=cost)
        clock.now_ns += round(pause * NS)


def test_two_clients_of_one_key_share_what_is_known_of_it() -> None:
    one, other = quota_of("http://a", "k"), quota_of("http://a", "k")
    assert one is other
    assert quota_of("http://a", "other") is not one
    assert quota_of("http://b", "k") is not one


def test_a_bucket_of_another_size_is_recognised() -> None:
    quota = Quota(clock=lambda: 0)
    quota.heard(limit=100, remaining=50, reset=0, taken=0)  # full with 50
    assert quota.burst == 50
    quota.heard(limit=100, remaining=120, reset=48, taken=0)
    assert quota.burst == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"x-ratelimit-limit": "100", "x-ratelimit-remaining": "9" * 400, "x-ratelimit-reset": "0"},
        {"x-ratelimit-limit": "-5", "x-ratelimit-remaining": "7"},
        {"x-ratelimit-limit": "many", "x-ratelimit-remaining": "7"},
        {},
    ],
)
def test_headers_that_say_nothing_are_passed_over(headers: dict[str, str]) -> None:
    assert reported(headers, now=0) is None


def test_a_clock_ahead_of_the_service_makes_no_bucket_smaller() -> None:
    quota = Quota(clock=lambda: 0)
    told = reported(
        {"x-ratelimit-limit": "100", "x-ratelimit-remaining": "3", "x-ratelimit-reset": "1000"}, now=1_300
    )
    assert told is not None
    quota.heard(limit=told[0], remaining=told[1], reset=told[2], taken=0)
    assert quota.burst == 200
    long = {"x-ratelimit-limit": "1", "x-ratelimit-remaining": "1", "x-ratelimit-reset": "9" * 400}
    assert reported(long, now=0) == (1, 1, None)


@pytest.mark.slow
def test_an_outsider_that_spends_the_budget_is_waited_for(service: AppTransport, clock: Clock) -> None:
    client = Driven(service, clock)
    client.fetch(window_of("LIQUIDATION_AGG", side="BUY"))
    headers = {"X-Service-Key": "the-secret-key"}
    params = window_of("LIQUIDATION_AGG").request(0, 60_000 * 60).to_params()
    httpx.Client(transport=service).get(
        "http://service/v1/points", params=params, headers=headers
    ).raise_for_status()
    frame, told = client.fetch(window_of("LIQUIDATION_AGG"))
    assert told.weight == 130
    assert {answer.status for answer in client.answers} <= {200, 429}
    assert not frame.is_empty()
