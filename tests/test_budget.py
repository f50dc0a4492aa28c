"""What a request costs, to the unit, and a bucket that neither gives nor takes more than it says."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from threading import Barrier
from typing import Any

import pytest

from tables import each_row
from tidytape.budget import TIERS, Admission, Tier, TokenBucket, tier, weight
from tidytape.catalogue import DATA_TYPES, TierName
from tidytape.errors import BudgetError, QueryError
from tidytape.query import PointsQuery
from tidytape.times import SECOND

S = 1_000_000_000


def asked(name: Any, points: int = 1_000, exchanges: int = 1, **changes: Any) -> PointsQuery:
    """A request for minutes of one type, over so many exchanges; joined where there are several."""
    fields: dict[str, Any] = {
        "type": name,
        "exchange": list("ABCDEFGH")[:exchanges],
        "coin": "BTC",
        "interval": "1m",
        "start": 0,
        "end": 60 * points,
    }
    if exchanges > 1:
        fields["group_by"] = "sum"
    return PointsQuery(**{**fields, **changes})


# --- weight: the specification's worked shapes ---


@pytest.mark.parametrize(("exchanges", "expected"), [(1, 1), (2, 2), (3, 2), (5, 2)])
def test_thousand_points_of_a_1x_type(exchanges: int, expected: int) -> None:
    assert weight(asked("TRADE_AGG", exchanges=exchanges)) == expected


@pytest.mark.parametrize(("exchanges", "expected"), [(1, 10), (2, 14), (3, 16), (5, 20)])
def test_thousand_points_of_a_10x_type(exchanges: int, expected: int) -> None:
    assert weight(asked("BLOCK_BOOK_SNAPSHOT_AGG", exchanges=exchanges)) == expected


@each_row(
    ("depth", "expected"),
    [(None, 10), (1, 10), (3500, 10), (3501, 12), (7000, 12), (7001, 14), (10_500, 14), (10_501, 16)],
)
def test_depth_of_the_order_book_heatmap(depth: int | None, expected: int) -> None:
    assert weight(asked("BLOCK_BOOK_SNAPSHOT_AGG", max_depth=depth)) == expected


@each_row(
    ("depth", "expected"),
    [(None, 5), (1, 5), (1500, 5), (1501, 6), (3000, 6), (3001, 7), (4500, 7), (4501, 8)],
)
def test_depth_of_the_liquidation_heatmap(depth: int | None, expected: int) -> None:
    assert weight(asked("VENUEX_LIQUIDATION_AGG", exchanges=0, max_depth=depth)) == expected


@pytest.mark.parametrize("name", ["TRADE_AGG", "VOLUME_PROFILE_AGG", "TPO_AGG"])
def test_depth_costs_nothing_elsewhere(name: str) -> None:
    assert weight(asked(name, max_depth=10**12)) == weight(asked(name)) == DATA_TYPES[name].multiplier


@each_row(
    ("name", "multiplier"),
    [
        *dict.fromkeys(["TRADE", "TRADE_SIDE_AGNOSTIC_AGG", "TRADE_AGG", "OPEN_INTEREST_AGG"], 1).items(),
        *dict.fromkeys(["FUNDING_RATE_AGG", "LIQUIDATION_AGG", "TOKEN_SUPPLY_AGG"], 1).items(),
        *dict.fromkeys(["CME_OPEN_INTEREST_AGG", "OPTION_OPEN_INTEREST_AGG"], 1).items(),
        ("IMPLIED_VOLATILITY_OPTION_SUMMARY_AGG", 1),
        ("SKEW_OPTION_SUMMARY_AGG", 1),
        ("VOLUME_PROFILE_AGG", 2),
        ("TPO_AGG", 5),
        ("VENUEX_LIQUIDATION_AGG", 5),
        ("BLOCK_BOOK_SNAPSHOT_AGG", 10),
        ("NEW_AGG", 1),
    ],
)
def test_multiplier_of_every_type(name: str, multiplier: int) -> None:
    fields = {"SKEW_OPTION_SUMMARY_AGG": {"raw_symbol": "BTC_25", "tenor": "1w"}}.get(name, {})
    costs = [weight(asked(name, points, **fields)) for points in (1, 999, 1_000, 1_001, 2_000, 2_001, 4_000)]
    assert costs == [multiplier * thousands for thousands in (1, 1, 1, 2, 2, 3, 4)]


@each_row(
    ("interval", "period", "expected"),
    [
        ("1m", 1, 1),
        ("1m", 60_000, 1),
        ("1m", 60_001, 2),
        ("1h", 3_600_000, 1),
        ("1w", 604_800_001, 2),
        ("4h", 86_400, 1),
    ],
)
def test_points_are_the_window_over_the_interval(interval: str, period: int, expected: int) -> None:
    assert weight(asked("TRADE_AGG", interval=interval, end=period)) == expected


def test_raw_trades_without_an_interval_weigh_as_minutes() -> None:
    assert weight(asked("TRADE", 1_001, interval=None)) == 2


def test_largest_request_of_every_limit() -> None:
    assert weight(asked("TRADE_AGG", 100_000)) == 100
    assert weight(asked("VOLUME_PROFILE_AGG", 20_000)) == 40
    assert weight(asked("TPO_AGG", 20_000)) == 100
    assert weight(asked("VENUEX_LIQUIDATION_AGG", 5_000)) == 25
    assert weight(asked("BLOCK_BOOK_SNAPSHOT_AGG", 4_000)) == 40


def test_exchanges_and_depth_together() -> None:
    # 10 x 1.4 x 1.2 = 16.8, rounded up once.
    assert weight(asked("BLOCK_BOOK_SNAPSHOT_AGG", exchanges=2, max_depth=3501)) == 17


@pytest.mark.parametrize(
    "changes", [{"group_by": None}, {"exchange": ["A", "A"]}, {"exchange": ["A"], "group_by": "sum"}]
)
def test_exchanges_count_only_where_several_are_joined(changes: dict[str, Any]) -> None:
    assert (
        weight(asked("BLOCK_BOOK_SNAPSHOT_AGG", **{"exchange": ["A", "B"], "group_by": "sum", **changes}))
        == 10
    )


def test_open_interest_weighted_average_counts_exchanges_too() -> None:
    fields = {"exchange": ["A", "B"], "group_by": "open_interest_weighted_avg"}
    assert weight(asked("FUNDING_RATE_AGG", 10_000, **fields)) == 14


def test_several_types_add_up() -> None:
    assert (
        weight(asked(["TRADE_AGG", "VOLUME_PROFILE_AGG", "BLOCK_BOOK_SNAPSHOT_AGG", "NEW_AGG"]))
        == 1 + 2 + 10 + 1
    )
    # Each is rounded up by itself: 2 for each 1.4.
    assert weight(asked(["TRADE_AGG", "LIQUIDATION_AGG"], exchanges=2)) == 4
    assert weight(asked(["TRADE_AGG", "BLOCK_BOOK_SNAPSHOT_AGG"], max_depth=3501)) == 13


@pytest.mark.parametrize(("exchanges", "thousands", "exact", "in_floats"), [(6, 25, 55, 56), (7, 5, 12, 13)])
def test_exact_where_floats_charge_one_too_many(
    exchanges: int, thousands: int, exact: int, in_floats: int
) -> None:
    assert math.ceil(thousands * (1 + 0.2 * exchanges)) == in_floats
    assert Fraction(thousands) * (1 + Fraction(exchanges, 5)) == exact
    assert weight(asked("TRADE_AGG", 1_000 * thousands, exchanges=exchanges)) == exact


# --- tiers ---


@pytest.mark.parametrize(
    ("name", "per_minute", "burst", "history_days", "aggregation"),
    [
        ("basic", 100, 200, 90, False),
        ("advanced", 750, 1_500, 365, True),
        ("enterprise", 750, 1_500, None, True),
    ],
)
def test_tier(name: str, per_minute: int, burst: int, history_days: int | None, aggregation: bool) -> None:  # noqa: FBT001
    one = tier(name)
    assert (one.per_minute, one.burst, one.history_days, one.aggregation) == (
        per_minute,
        burst,
        history_days,
        aggregation,
    )
    assert tier(name.upper()) is TIERS[name]


@each_row("name", sorted(DATA_TYPES))
def test_types_of_a_tier(name: str) -> None:
    above_basic = {
        *("TOKEN_SUPPLY_AGG", "IMPLIED_VOLATILITY_OPTION_SUMMARY_AGG"),
        *("SKEW_OPTION_SUMMARY_AGG", "VENUEX_LIQUIDATION_AGG"),
    }
    permitted = [TIERS[one].permits(DATA_TYPES[name]) for one in ("basic", "advanced", "enterprise")]
    assert permitted == [name not in above_basic, True, True]


def test_unknown_tier_names_the_nearest() -> None:
    with pytest.raises(QueryError, match="did you mean 'advanced'") as caught:
        tier("Advance")
    assert (caught.value.parameter, caught.value.got) == ("tier", "Advance")


def test_tiers_are_data() -> None:
    own = {"Tiny": Tier("Tiny", 1, 2, 1, aggregation=False, rank=TierName.BASIC)}
    assert tier("tiny", own).burst == 2
    with pytest.raises(QueryError, match="one of Tiny"):
        tier("basic", own)


# --- the bucket ---


def basic(now_ns: int = 0) -> TokenBucket:
    return TokenBucket(100, 200, now_ns=now_ns)


def test_fresh_key_spends_its_burst_and_no_more() -> None:
    bucket = basic()
    admissions = [bucket.take(1, now_ns=0) for _ in range(201)]
    assert [one.admitted for one in admissions] == [True] * 200 + [False]
    assert (admissions[100].remaining, admissions[100].used) == (99, 101)
    refused = admissions[200]
    assert (refused.limit, refused.remaining, refused.used, refused.retry_after) == (100, 0, 200, 1)


def test_fresh_bucket_is_full() -> None:
    state = basic(now_ns=5 * S).look(now_ns=5 * S)
    assert state == Admission(admitted=True, limit=100, remaining=200, used=0, reset=5, retry_after=0)


@pytest.mark.parametrize(("weight_", "expected"), [(1, 1), (2, 2), (100, 60), (101, 61), (200, 120)])
def test_retry_after_of_an_empty_bucket(weight_: int, expected: int) -> None:
    bucket = basic()
    bucket.take(200, now_ns=0)
    assert bucket.take(weight_, now_ns=0).retry_after == expected
    assert not bucket.take(weight_, now_ns=(expected - 1) * S).admitted
    assert bucket.take(weight_, now_ns=expected * S).admitted


def test_refused_request_costs_nothing() -> None:
    bucket = basic()
    before = bucket.take(150, now_ns=0)
    refused = bucket.take(51, now_ns=0)
    assert (refused.admitted, refused.remaining, refused.used) == (False, before.remaining, before.used)
    assert bucket.take(50, now_ns=0).admitted


def test_refill_is_to_the_nanosecond() -> None:
    bucket = basic()
    bucket.take(200, now_ns=0)
    assert not bucket.take(1, now_ns=599_999_999).admitted
    assert bucket.take(1, now_ns=600_000_000).admitted


def test_refill_does_not_depend_on_how_often_it_is_looked_at() -> None:
    # 7 per minute does not divide a nanosecond: rounding at each look would lose or gain.
    watched, left_alone = (TokenBucket(7, 14, now_ns=0) for _ in range(2))
    for bucket in (watched, left_alone):
        bucket.take(14, now_ns=0)
    for now in range(0, 60 * S, 59_999_999):
        watched.look(now_ns=now)
    assert not watched.take(7, now_ns=60 * S - 1).admitted
    assert watched.look(now_ns=60 * S) == left_alone.look(now_ns=60 * S)
    assert watched.take(7, now_ns=60 * S).admitted


def test_bucket_never_holds_more_than_its_burst() -> None:
    bucket = basic()
    assert bucket.look(now_ns=10**6 * S).remaining == 200
    assert bucket.take(200, now_ns=10**6 * S).admitted
    assert not bucket.take(1, now_ns=10**6 * S).admitted


def test_remaining_is_whole_tokens() -> None:
    bucket = basic()
    bucket.take(200, now_ns=0)
    seen = [bucket.look(now_ns=now).remaining for now in (599_999_999, 600_000_000, 1_199_999_999)]
    assert seen == [0, 1, 1]


def test_used_is_the_weight_of_the_last_sixty_seconds() -> None:
    bucket = basic()
    bucket.take(30, now_ns=0)
    bucket.take(20, now_ns=10 * S)
    seen = [bucket.look(now_ns=now).used for now in (10 * S, 60 * S - 1, 60 * S, 70 * S - 1, 70 * S)]
    assert seen == [50, 50, 20, 20, 0]


@each_row(
    ("taken", "now_ns", "expected"),
    [(200, 0, 120), (1, 0, 1), (5, 0, 3), (6, 0, 4), (5, 1, 4), (0, 1, 1), (0, 0, 0)],
)
def test_reset_is_when_it_is_full_again_rounded_up(taken: int, now_ns: int, expected: int) -> None:
    bucket = basic()
    assert bucket.take(taken, now_ns=now_ns).reset == expected


def test_heavier_than_the_bucket_is_an_error_not_a_wait_without_end() -> None:
    bucket = basic()
    with pytest.raises(BudgetError, match="201") as caught:
        bucket.take(201, now_ns=0)
    assert (caught.value.weight, caught.value.available) == (201, 200)
    assert bucket.look(now_ns=0).remaining == 200


def test_weight_given_back_can_be_taken_again() -> None:
    bucket = basic()
    bucket.take(200, now_ns=0)
    state = bucket.give_back(50, now_ns=0)
    assert (state.admitted, state.remaining, state.used, state.retry_after) == (True, 50, 150, 0)
    assert bucket.take(50, now_ns=0).admitted
    assert not bucket.take(1, now_ns=0).admitted


def test_giving_back_never_overfills() -> None:
    bucket = basic()
    bucket.take(10, now_ns=0)
    assert bucket.give_back(10, now_ns=60 * S).remaining == 200
    assert bucket.give_back(10, now_ns=60 * S).used == 0


def test_weight_given_back_does_not_hide_what_is_taken_later() -> None:
    bucket = basic()
    bucket.take(100, now_ns=0)
    bucket.give_back(100, now_ns=59 * S)
    assert bucket.take(50, now_ns=61 * S).used == 50


@pytest.mark.parametrize("verb", ["take", "give_back"])
def test_less_than_nothing_cannot_be_moved(verb: str) -> None:
    bucket = basic()
    with pytest.raises(ValueError, match="weight"):
        getattr(bucket, verb)(-1, now_ns=0)


def test_calls_that_come_out_of_order_refill_nothing() -> None:
    bucket = basic(now_ns=100 * S)
    bucket.take(200, now_ns=100 * S)
    assert not bucket.take(1, now_ns=99 * S).admitted
    assert bucket.look(now_ns=100 * S).remaining == 0
    assert bucket.look(now_ns=106 * S).remaining == 10


def test_retry_after_a_step_back_is_counted_from_the_callers_clock() -> None:
    bucket = basic(now_ns=100 * S)
    bucket.take(200, now_ns=100 * S)
    refused = bucket.take(1, now_ns=40 * S)
    assert bucket.take(1, now_ns=(40 + refused.retry_after) * S).admitted


@pytest.mark.parametrize("weight_", [1, 3])
def test_threads_cannot_overspend(weight_: int) -> None:
    bucket = TokenBucket(750, 1_500, now_ns=0)
    together = Barrier(16)

    def spend(_: int) -> int:
        together.wait()
        return sum(bucket.take(weight_, now_ns=0).admitted for _ in range(200))

    with ThreadPoolExecutor(16) as pool:
        admitted = sum(pool.map(spend, range(16)))
    assert admitted == 1_500 // weight_
    assert bucket.look(now_ns=0).used == admitted * weight_


def test_threads_that_give_back_end_where_they_began() -> None:
    bucket = TokenBucket(750, 1_500, now_ns=0)
    together = Barrier(16)

    def borrow(_: int) -> None:
        together.wait()
        for _ in range(100):
            if bucket.take(100, now_ns=0).admitted:
                bucket.give_back(100, now_ns=0)

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(borrow, range(16)))
    assert bucket.look(now_ns=0).remaining == 1_500
    assert bucket.look(now_ns=0).used == 0


def test_a_clock_that_is_set_back_an_hour_does_not_empty_the_bucket_for_an_hour() -> None:
    hour = 3_600 * 10**9
    bucket = TokenBucket(100, 200, now_ns=2 * hour)
    assert bucket.take(200, now_ns=2 * hour).remaining == 0
    assert not bucket.take(1, now_ns=hour).admitted  # the step itself gives nothing
    state = bucket.look(now_ns=hour + 60 * 10**9)
    assert (state.remaining, state.used, state.reset) == (100, 0, 3_600 + 120)


@pytest.mark.parametrize("name", TIERS)
def test_a_tier_waits_exactly_as_long_as_its_bucket_makes_it_wait(name: str) -> None:
    one, sent = TIERS[name], 0
    bucket = TokenBucket(one.per_minute, one.burst, now_ns=0)
    for part in [one.burst // 2] * 5 + [28]:
        sent += part
        now = round(one.seconds_for(sent) * SECOND)
        assert not now or not bucket.take(part, now_ns=now - SECOND // 1_000).admitted
        assert bucket.take(part, now_ns=now).admitted
