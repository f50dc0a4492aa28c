"""Buckets in memory and in Redis: the same answers to the unit, and nothing admitted where nobody counts."""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import logging
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from redis_server import RedisServer
from tables import each_row
from tidytape.budget import MOST_BURST, TIERS, Admission, Tier
from tidytape.catalogue import TierName
from tidytape.errors import BudgetError, QueryError, TidytapeError
from tidytape.service import MemoryBuckets, RedisBuckets
from tidytape.service._buckets import UnreachableError

NS = 1_000_000_000
BASIC = TIERS["basic"]


def sized(per_minute: int, burst: int) -> Tier:
    return Tier("sized", per_minute, burst, None, aggregation=False, rank=TierName.BASIC)


@dataclass
class Clock:
    now_ns: int = 1_800_000_000 * NS

    def __call__(self) -> int:
        return self.now_ns


@dataclass
class Pair:
    """Buckets in memory and in Redis that are told the same time, on an event loop of their own."""

    runner: asyncio.Runner
    clock: Clock
    memory: MemoryBuckets
    redis: RedisBuckets
    owners: Iterator[str]

    def both(self, verb: str, *args: Any) -> tuple[Any, Any]:
        return tuple(self.runner.run(said(getattr(one, verb)(*args))) for one in (self.memory, self.redis))  # type: ignore[return-value]


async def said(asked: Any) -> Any:
    """What a bucket answers, or the error that it raises."""
    try:
        return await asked
    except BudgetError as error:
        return str(error)


@pytest.fixture(scope="module")
def pair(redis_server: RedisServer) -> Iterator[Pair]:
    clock = Clock()
    redis = RedisBuckets(redis_server.url, prefix="pair:", clock=clock, timeout=30)
    with asyncio.Runner() as runner:
        yield Pair(
            runner, clock, MemoryBuckets(clock=clock), redis, (f"owner-{n}" for n in itertools.count())
        )
        runner.run(redis.close())


@pytest.fixture
def run() -> Iterator[Any]:
    with asyncio.Runner() as runner:
        yield runner.run


# --- the same answers -----------------------------------------------------------------------------------------------

budgets = st.integers(1, 2_000).flatmap(
    lambda rate: st.tuples(st.just(rate), st.just(2 * rate) | st.integers(1, 4_000))
) | st.tuples(st.integers(1, MOST_BURST), st.integers(MOST_BURST // 2, MOST_BURST))
jumps = (
    st.integers(0, 3_000)
    | st.integers(0, 3 * NS)
    | st.sampled_from([0, 1, 999, 1_000, NS, 60 * NS, 60 * NS - 1_000])
    | st.integers(-100 * NS, 100 * NS)
)
verbs = st.sampled_from(["take", "take", "take", "give_back", "look"])
shares = st.fractions(0, 1, max_denominator=1_000) | st.sampled_from([0, 1, 1.01])


@pytest.mark.slow
@given(budget=budgets, steps=st.lists(st.tuples(jumps, verbs, shares), max_size=40))
@example(budget=(750, 1_500), steps=[(0, "take", 1), (-NS, "take", 1), (0, "look", 0), (60 * NS, "look", 0)])
@example(  # what is given back comes off what was taken last, so the rest is out of the window at the end
    budget=(750, 1_500),
    steps=[(0, "take", 0.3), (30 * NS, "take", 0.3), (NS, "give_back", 0.3), (40 * NS, "look", 0)],
)
@example(budget=(750, 1_500), steps=[(0, "take", 0.3), (0, "give_back", 0.1), (0, "give_back", 0.3)])
@example(budget=(750, 1_500), steps=[(0, "take", 1.01), (-NS, "look", 0)])
@example(budget=(MOST_BURST, MOST_BURST), steps=[(0, "take", 1), (1, "take", 0), (1_000, "take", 1)])
def test_memory_and_redis_answer_the_same(pair: Pair, budget: tuple[int, int], steps: Any) -> None:
    owner, tier = next(pair.owners), sized(*budget)
    for jump, verb, share in steps:
        pair.clock.now_ns += jump
        weight = () if verb == "look" else (round(share * tier.burst),)
        in_memory, in_redis = pair.both(verb, owner, tier, *weight)
        assert in_memory == in_redis


def test_a_step_is_a_microsecond_in_both(pair: Pair) -> None:
    owner = next(pair.owners)
    start = pair.clock.now_ns = 1_800_000_000 * NS
    pair.both("take", owner, BASIC, 200)
    for after, remaining in ((599_999_999, 0), (600_000_000, 1), (600_000_999, 1)):
        pair.clock.now_ns = start + after
        assert [one.remaining for one in pair.both("look", owner, BASIC)] == [remaining] * 2


def test_another_size_is_another_bucket(pair: Pair) -> None:
    owner = next(pair.owners)
    pair.both("take", owner, BASIC, 150)
    for tier in (TIERS["advanced"], replace(BASIC, burst=300)):
        assert [one.used for one in pair.both("look", owner, tier)] == [0, 0]
    assert [one.used for one in pair.both("look", owner, BASIC)] == [150, 150]


def test_owners_of_odd_names_have_buckets_of_their_own(pair: Pair) -> None:
    mark = next(pair.owners)
    owners = [f"{mark}{end}" for end in ("", ":", ":basic", "%3A", " ", "é", "{x}", "*", "\n")]
    for taken, owner in enumerate(owners):
        pair.both("take", owner, BASIC, taken)
    for taken, owner in enumerate(owners):
        assert [one.used for one in pair.both("look", owner, BASIC)] == [taken] * 2
    one, other = replace(BASIC, name="a:b"), replace(BASIC, name="b")
    pair.both("take", f"{mark}x", one, 7)
    assert [said.used for said in pair.both("look", f"{mark}x:a", other)] == [0, 0]


@pytest.mark.parametrize("verb", ["take", "give_back"])
def test_less_than_nothing_cannot_be_moved(pair: Pair, verb: str) -> None:
    for buckets in (pair.memory, pair.redis):
        with pytest.raises(ValueError, match="weight"):
            pair.runner.run(getattr(buckets, verb)("owner", BASIC, -1))


def test_a_tier_that_cannot_be_counted_exactly_is_refused(pair: Pair) -> None:
    with pytest.raises(ValueError, match=str(MOST_BURST)):
        pair.runner.run(pair.redis.take("owner", sized(1, MOST_BURST + 1), 1))


# --- what Redis holds -----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_what_is_kept_is_bounded_and_forgotten(pair: Pair, redis_server: RedisServer) -> None:
    owner, tier = next(pair.owners), sized(50, 100)
    for _ in range(900):  # three minutes, five a second
        pair.runner.run(pair.redis.take(owner, tier, 1))
        pair.clock.now_ns += NS // 5
    with redis_server.client() as stored:
        (name,) = stored.keys(f"pair:{owner}:*")
        assert 50 < stored.llen(name) <= 1 + tier.burst + tier.per_minute
        assert 60_000 < stored.pttl(name) <= 120_000  # until it is full
        pair.clock.now_ns += 3_600 * NS
        pair.runner.run(pair.redis.look(owner, tier))
        assert stored.llen(name) == 1
        assert 0 < stored.pttl(name) <= 60_000  # it is full, and nothing is in the window


def test_every_key_in_redis_ends(pair: Pair, redis_server: RedisServer) -> None:
    pair.runner.run(pair.redis.check())
    with redis_server.client() as stored:
        names = stored.keys("*")
        assert b"pair:check:basic:100:200" in names
        assert all(stored.pttl(name) > 0 for name in names)


def test_the_time_is_the_servers(redis_server: RedisServer, run: Any) -> None:
    ours, theirs = (RedisBuckets(redis_server.url, prefix="time:", timeout=30) for _ in range(2))

    async def ask() -> list[Admission]:
        answers = [await ours.take("a", BASIC, 200), await theirs.look("a", BASIC)]
        await ours.close()
        await theirs.close()
        return answers

    taken, seen = run(ask())
    with redis_server.client() as client:
        seconds, _ = client.time()
    assert taken.used == 200
    assert (seen.used, seen.reset) == (200, taken.reset)
    assert seconds < taken.reset <= seconds + 121


def test_a_request_is_one_round_trip(pair: Pair, redis_server: RedisServer) -> None:
    owner = next(pair.owners)
    pair.runner.run(pair.redis.look(owner, BASIC))  # the script is known and a connection open
    with redis_server.client() as client:
        client.config_resetstat()
        pair.runner.run(pair.redis.take(owner, BASIC, 5))
        pair.runner.run(pair.redis.give_back(owner, BASIC, 5))
        seen = client.info("commandstats")
    asked = {name for name in seen if name.startswith(("cmdstat_eval", "cmdstat_script", "cmdstat_hello"))}
    assert asked == {"cmdstat_evalsha"}
    assert seen["cmdstat_evalsha"]["calls"] == 2


def test_a_weight_no_bucket_can_hold_is_refused_without_asking(run: Any) -> None:
    nowhere = RedisBuckets("redis://127.0.0.1:1/0")
    with pytest.raises(BudgetError, match="201"):
        run(nowhere.take("a", BASIC, 201))


# --- addresses ------------------------------------------------------------------------------------------------------


@each_row(
    "url",
    [
        "http://:hunter2@host",
        "host:6379",
        "redis://:hun/ter2@host/0",
        "redis://user:12/hunter2@host/0",
        "redis://:hunter2@host:port/0",
        "redis://:hunter2@[host/0",
        "redis://:hunter2@host/zero",
        "redis://:hunter2@host/0?socket_timeout=long",
        "redis://:hunter2@host/0?pasword=hunter2",
    ],
)
def test_what_is_no_address_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(QueryError, match="percent-encoding") as caught:
        RedisBuckets(url)
    assert "hun" not in str(caught.value)
    assert "host:" not in str(caught.value).replace("host[:port]", "")
    assert caught.value.__suppress_context__


@pytest.mark.parametrize(
    "url", ["redis://host", "rediss://user:hunter%2F2@host:7000/3", "unix:///run/redis.sock"]
)
def test_addresses(url: str) -> None:
    buckets = RedisBuckets(url)
    assert "hunter" not in repr(vars(buckets))


def test_without_the_extra_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "redis"]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(TidytapeError, match=r"pip install 'tidytape\[redis\]'"):
        RedisBuckets("redis://host")


# --- failure --------------------------------------------------------------------------------------------------------


def outcome(buckets: RedisBuckets) -> Any:
    async def ask() -> Any:
        try:
            return await buckets.take("a", BASIC, 1)
        except UnreachableError as error:
            return str(error)

    return ask()


AWAY = "the bucket store cannot be reached"


def test_killed_and_started_again(
    fragile_redis: RedisServer, run: Any, caplog: pytest.LogCaptureFixture
) -> None:
    buckets = RedisBuckets(fragile_redis.url)
    for _ in range(2):
        assert run(outcome(buckets)).admitted
        fragile_redis.kill()
        caplog.clear()
        assert [run(outcome(buckets)) for _ in range(5)] == [AWAY] * 5
        assert [record.levelno for record in caplog.records] == [logging.ERROR]  # once, not per request
        assert "hunter2" not in caplog.text
        fragile_redis.start()
        assert run(outcome(buckets)).admitted  # at once, on the connection that was lost
        assert caplog.records[-1].message == "the bucket store answers again"
    run(buckets.close())


@pytest.mark.slow
def test_frozen_and_thawed(fragile_redis: RedisServer, run: Any) -> None:
    buckets = RedisBuckets(fragile_redis.url, timeout=0.5)
    assert run(outcome(buckets)).used == 1
    fragile_redis.freeze()

    async def three() -> list[Any]:
        return await asyncio.gather(*(outcome(buckets) for _ in range(3)))

    assert run(three()) == [AWAY] * 3
    fragile_redis.thaw()
    patient = RedisBuckets(fragile_redis.url, timeout=30)
    # What was asked for while it was frozen may be counted, but nobody was let in for it.
    assert 2 <= run(outcome(patient)).used <= 5
    assert run(outcome(buckets)).admitted
    run(patient.close())
    run(buckets.close())


def test_a_wrong_password_is_away_and_not_logged(
    fragile_redis: RedisServer, run: Any, caplog: pytest.LogCaptureFixture
) -> None:
    buckets = RedisBuckets(fragile_redis.url.replace("hunter2", "letmein"))
    assert run(outcome(buckets)) == AWAY
    assert len(caplog.records) == 1
    assert "letmein" not in caplog.text
    run(buckets.close())


def test_a_server_that_may_not_write_is_away(fragile_redis: RedisServer, run: Any) -> None:
    buckets = RedisBuckets(fragile_redis.url)
    with fragile_redis.client() as client:
        client.replicaof("127.0.0.1", 1)
    with pytest.raises(UnreachableError):
        run(buckets.check())
    run(buckets.close())


@pytest.mark.slow
def test_who_stops_waiting_leaves_no_answer_for_the_next(fragile_redis: RedisServer, run: Any) -> None:
    buckets = RedisBuckets(fragile_redis.url, timeout=30)

    async def hang_up_and_ask() -> list[Admission]:
        owners = [hashlib.sha256(bytes([n])).hexdigest() for n in range(64)]
        for weight, owner in enumerate(owners):
            await buckets.take(owner, BASIC, weight)
        for pause in range(40):
            asking = [asyncio.create_task(buckets.look(owner, BASIC)) for owner in owners[::-1]]
            for _ in range(pause):
                await asyncio.sleep(0)
            for task in asking:
                task.cancel()
            await asyncio.gather(*asking, return_exceptions=True)
        return await asyncio.gather(*(buckets.look(owner, BASIC) for owner in owners))

    assert [one.used for one in run(hang_up_and_ask())] == list(range(64))
    run(buckets.close())
