"""Laws of the weight and of the bucket, against oracles in fractions that follow the specification."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidytape.budget import TokenBucket, weight
from tidytape.query import PointsQuery

NS = 1_000_000_000
SECONDS = {
    "1m": 60,
    "5m": 300,
    "15m": 900,
    "30m": 1800,
    "1h": 3600,
    "4h": 14_400,
    "1d": 86_400,
    "1w": 604_800,
}

# Types that can be asked for together, picked by exchange and coin: multiplier, included depth, max points.
TYPES = {
    "TRADE_AGG": (1, None, 100_000),
    "OPEN_INTEREST_AGG": (1, None, 100_000),
    "VOLUME_PROFILE_AGG": (2, None, 20_000),
    "TPO_AGG": (5, None, 20_000),
    "BLOCK_BOOK_SNAPSHOT_AGG": (10, 3500, 4_000),
}


# --- weight ---


def spelled_out(
    names: Sequence[str], period: int, step: int, exchanges: int, depth: int | None, *, joined: bool
) -> int:
    """Steps 1 to 5 of the specification's weight formula, a type at a time, in fractions."""
    total = 0
    for name in names:
        multiplier, included, _ = TYPES[name]
        base = math.ceil(Fraction(period, step) / 1000) * multiplier
        by_exchange = 1 + Fraction(2, 10) * exchanges if joined and exchanges > 1 else 1
        by_depth = Fraction(1)
        if included is not None and depth is not None and depth > included:
            by_depth = 1 + Fraction(2, 10) * math.floor(Fraction(depth - 1, included))
        total += max(1, math.ceil(base * by_exchange * by_depth))
    return total


@pytest.mark.slow
@given(
    names=st.lists(st.sampled_from(sorted(TYPES)), min_size=1, unique=True),
    interval=st.sampled_from(sorted(SECONDS)),
    share=st.fractions(0, 1),
    exchanges=st.integers(1, 16),
    depth=st.none() | st.integers(1, 100_000) | st.sampled_from([3500, 3501, 7000, 7001]),
    joined=st.booleans(),
)
def test_weight_is_the_formula_in_fractions(
    names: list[str], interval: str, share: Fraction, exchanges: int, depth: int | None, *, joined: bool
) -> None:
    step = SECONDS[interval]
    most = min(2**32, step * min(TYPES[name][2] for name in names))
    period = max(1, int(share * most))
    query = PointsQuery(
        type=names,
        exchange=[f"V{i}" for i in range(exchanges)],
        coin="BTC",
        interval=interval,
        start=2**32 - period,
        end=2**32,
        max_depth=depth,
        group_by="sum" if joined else None,
    )
    assert weight(query) == spelled_out(names, period, step, exchanges, depth, joined=joined)


@given(
    points=st.integers(1, 4_000),
    more=st.integers(0, 100),
    depth=st.integers(1, 20_000),
    deeper=st.integers(0, 20_000),
)
def test_weight_never_falls_when_more_is_asked_for(points: int, more: int, depth: int, deeper: int) -> None:
    def cost(points: int, depth: int, exchanges: int) -> int:
        return weight(
            PointsQuery(
                type="BLOCK_BOOK_SNAPSHOT_AGG",
                exchange=list("ABC")[:exchanges],
                coin="BTC",
                interval="1m",
                start=0,
                end=60 * points,
                group_by="sum",
                max_depth=depth,
            )
        )

    least = cost(points, depth, 1)
    assert least >= 1
    assert cost(min(points + more, 4_000), depth, 1) >= least
    assert cost(points, depth + deeper, 1) >= least
    assert cost(points, depth, 2) >= least
    assert cost(points, depth, 3) >= cost(points, depth, 2)


# --- the bucket ---


class Plain:
    """The bucket as the contract says it, in fractions of a token and a plain list of what was taken."""

    def __init__(self, per_minute: int, burst: int, now: int) -> None:
        self.rate = Fraction(per_minute, 60 * NS)
        self.burst = burst
        self.tokens = Fraction(burst)
        self.now = now
        self.taken: list[tuple[int, int]] = []

    def forward(self, now: int) -> None:
        if now < self.now - NS:  # the clock was set back
            self.taken = [(at - self.now + now, weight) for at, weight in self.taken]
            self.now = now
        if now > self.now:
            self.tokens = min(Fraction(self.burst), self.tokens + (now - self.now) * self.rate)
            self.now = now

    def take(self, weight: int) -> bool:
        if weight > self.tokens:
            return False
        self.tokens -= weight
        self.taken.append((self.now, weight))
        return True

    @property
    def used(self) -> int:
        return sum(weight for at, weight in self.taken if at > self.now - 60 * NS)

    @property
    def reset(self) -> int:
        return math.ceil((self.now + (self.burst - self.tokens) / self.rate) / NS)

    def wait(self, weight: int) -> int:
        return math.ceil((weight - self.tokens) / self.rate / NS)


budgets = st.integers(1, 2_000).flatmap(
    lambda rate: st.tuples(st.just(rate), st.just(2 * rate) | st.integers(1, 4_000))
)
pauses = (
    st.integers(0, 3) | st.integers(0, 3 * NS) | st.integers(0, 200 * NS) | st.sampled_from([NS, 60 * NS])
)
jumps = st.sampled_from([0, 1, 10 * NS, 25 * NS, 45 * NS, 60 * NS]) | st.integers(-100 * NS, 100 * NS)
steps = st.lists(st.tuples(pauses, st.fractions(0, 1)), max_size=40)


@pytest.mark.slow
@given(budget=budgets, steps=steps, now=st.integers(0, 2**32 * NS))
def test_bucket_is_the_plain_one_under_any_pattern_of_calls(
    budget: tuple[int, int], steps: list[tuple[int, Fraction]], now: int
) -> None:
    per_minute, burst = budget
    bucket, plain = TokenBucket(per_minute, burst, now_ns=now), Plain(per_minute, burst, now)
    for pause, share in steps:
        now += pause
        wanted = round(share * burst)
        plain.forward(now)
        admitted = plain.take(wanted)
        got = bucket.take(wanted, now_ns=now)
        assert got.admitted is admitted
        assert got.limit == per_minute
        assert got.remaining == math.floor(plain.tokens)
        assert got.used == plain.used
        assert got.reset == plain.reset
        assert got.retry_after == (0 if admitted else plain.wait(wanted))


@pytest.mark.slow
@given(budget=budgets, steps=steps)
def test_retry_after_is_the_first_whole_second_that_is_enough(
    budget: tuple[int, int], steps: list[tuple[int, Fraction]]
) -> None:
    per_minute, burst = budget
    bucket, now = TokenBucket(per_minute, burst, now_ns=0), 0
    bucket.take(burst, now_ns=now)
    for pause, share in steps:
        now += pause
        wanted = max(1, round(share * burst))
        got = bucket.take(wanted, now_ns=now)
        if not got.admitted:
            assert got.retry_after >= 1
            assert not bucket.take(wanted, now_ns=now + (got.retry_after - 1) * NS).admitted
            now += got.retry_after * NS
            assert bucket.take(wanted, now_ns=now).admitted


@pytest.mark.slow
@given(budget=budgets, steps=steps)
def test_no_window_admits_more_than_burst_and_refill(
    budget: tuple[int, int], steps: list[tuple[int, Fraction]]
) -> None:
    per_minute, burst = budget
    bucket, now = TokenBucket(per_minute, burst, now_ns=0), 0
    taken: list[tuple[int, int]] = []
    for pause, share in steps:
        now += pause
        wanted = round(share * burst)
        if bucket.take(wanted, now_ns=now).admitted:
            taken.append((now, wanted))
    for i, (first, _) in enumerate(taken):
        for j in range(i, len(taken)):
            spent = sum(wanted for _, wanted in taken[i : j + 1])
            assert spent <= burst + Fraction(per_minute * (taken[j][0] - first), 60 * NS)


@given(
    budget=budgets,
    steps=st.lists(st.tuples(jumps, st.sampled_from([0.05, 0.2, 0.5]), st.booleans()), max_size=40),
)
def test_giving_back_and_a_clock_that_is_set_back_keep_the_books(
    budget: tuple[int, int], steps: list[tuple[int, float, bool]]
) -> None:
    per_minute, burst = budget
    start = 1_000 * NS
    bucket, plain, now = TokenBucket(per_minute, burst, now_ns=start), Plain(per_minute, burst, start), start
    since = 0  # how many of the plain list were taken before the last weight was given back
    owed: list[int] = []
    for pause, share, given_back in steps:
        now = max(0, now + pause)
        plain.forward(now)
        if given_back and owed:
            returned = owed.pop()
            plain.tokens = min(Fraction(burst), plain.tokens + returned)
            since = len(plain.taken)
            got = bucket.give_back(returned, now_ns=now)
        else:
            wanted = round(share * burst)
            got = bucket.take(wanted, now_ns=now)
            assert got.admitted is plain.take(wanted)
            if got.admitted:
                owed.append(wanted)
        assert got.remaining == math.floor(plain.tokens)
        assert got.reset == plain.reset
        certain = sum(weight for at, weight in plain.taken[since:] if at > plain.now - 60 * NS)
        assert certain <= got.used <= plain.used
        assert got.used <= burst + per_minute  # which bounds what a bucket has to remember
