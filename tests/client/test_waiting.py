"""Long waits for the budget: told, bounded where that is asked, and reckoned anew with what the service says."""

from __future__ import annotations

import logging
import time
from typing import Any

import httpx
import pytest

import tidytape
from client.driven import NS, Clock, Driven
from tidytape.client._budget import Quota
from tidytape.client._plans import planned
from tidytape.client._window import Window
from tidytape.errors import BudgetError, QueryError
from tidytape.query import PointsQuery

STEP = 60
BOOK = {"type": "BLOCK_BOOK_SNAPSHOT_AGG", "exchange": "X", "raw_symbol": "BTC", "interval": "1m"}


def window_of(points: int) -> Window:
    """A thousand points weigh 10."""
    return Window.of(PointsQuery.split(start=0, end=points * STEP, **BOOK))  # type: ignore[arg-type]


class Service(httpx.BaseTransport):
    """Nothing to tell, but of its budget of 100 a minute and 200 at once at first."""

    def __init__(self, limit: int = 100) -> None:
        self.limit = limit
        self.sent = 0

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        if request.url.path == "/v1/usage":
            told = {
                "limit": self.limit,
                "remaining": 2 * self.limit,
                "used": 0,
                "reset": 0,
                "window_seconds": 60,
            }
            return httpx.Response(200, json=told)
        self.sent += 1
        return httpx.Response(200, json={"series": []})


@pytest.fixture
def service() -> Service:
    return Service()


def test_a_wait_beyond_the_bound_is_refused_before_anything_is_sent(service: Service) -> None:
    driven = Driven(service, Clock(0), max_wait=500)
    with pytest.raises(BudgetError) as caught:
        driven.fetch(window_of(200_000))  # weight 2,000
    assert (caught.value.weight, caught.value.available) == (2_000, 200)
    assert caught.value.seconds == pytest.approx(1_080, abs=1)
    assert str(caught.value) == (
        "weight 2,000 is more than the 200 left; it will be there in 18 min 0 s, at 100 a minute and 200 at once, "
        "and max_wait is 8 min 20 s; max_wait=1081 allows it, and max_wait=None any wait"
    )
    assert (service.sent, driven.waited, driven.settings.quota.available) == (0, 0, 200)


@pytest.mark.slow
def test_a_wait_within_the_bound_is_waited_for(service: Service) -> None:
    driven = Driven(service, Clock(0), max_wait=1_100)
    _, told = driven.fetch(window_of(200_000))
    assert told.weight == 2_000
    assert driven.waited == pytest.approx(1_080, rel=0.01)


def test_a_wait_that_others_made_too_long_is_refused_too(service: Service) -> None:
    driven = Driven(service, Clock(0), max_wait=100, partial="flag")
    driven.settings.quota.heard(limit=100, remaining=200, reset=None, taken=0)
    driven.settings.quota.take(400)
    _, told = driven.fetch(window_of(4_000))
    assert [type(one) for one in told.failures] == [BudgetError]
    assert (service.sent, driven.waited) == (0, 0)
    assert driven.settings.quota.seconds_for(0) == pytest.approx(120, abs=1)  # what was not used is back


def test_raising_charges_nothing_however_many_requests_it_takes(service: Service) -> None:
    driven = Driven(service, Clock(0), on_limit="raise")
    with pytest.raises(BudgetError, match=r"it will be there in 60 s, at 100 a minute and 200 at once$"):
        driven.fetch(window_of(30_000))
    assert (service.sent, driven.waited) == (0, 0)
    _, told = driven.fetch(window_of(20_000))
    assert told.weight == 200


def test_what_can_be_had_at_once_is_fetched_where_the_rest_is_flagged(service: Service) -> None:
    driven = Driven(service, Clock(0), on_limit="raise", partial="flag")
    _, told = driven.fetch(window_of(30_000))
    assert told.weight == 200
    assert told.missing == ((20_000 * STEP, 30_000 * STEP),)


def test_what_weighs_for_days_to_come_is_told(service: Service, caplog: pytest.LogCaptureFixture) -> None:
    driven = Driven(service, Clock(0), max_wait=1)
    today = int(time.time())
    until_tonight = Window.of(PointsQuery.split(start=today - 600, end=today + 80_000, **BOOK))  # type: ignore[arg-type]
    driven.fetch(until_tonight)
    assert caplog.records == []
    assert driven.run(planned(driven.settings, [until_tonight])).ahead == 0
    of_a_year = Window.of(PointsQuery.split(start=today, end=today + 365 * 86_400, **BOOK))  # type: ignore[arg-type]
    plan = driven.run(planned(driven.settings, [of_a_year]))
    assert (plan.weight, plan.ahead) == (5_260, 5_240)
    with pytest.raises(BudgetError):
        driven.fetch(of_a_year)
    (told,) = caplog.messages
    assert "weight 5,240 of this fetch is for a time more than a day ahead of now" in told


def test_a_wait_that_will_not_be_is_not_told(service: Service, caplog: pytest.LogCaptureFixture) -> None:
    driven = Driven(service, Clock(0), max_wait=5, partial="flag")
    driven.fetch(window_of(200_000))
    assert driven.waited <= 5
    assert caplog.records == []


@pytest.mark.slow
def test_a_long_wait_is_told_once_and_a_short_one_never(
    service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    driven = Driven(service, Clock(0))
    driven.fetch(window_of(21_000))
    assert driven.waited > 5
    assert caplog.records == []
    driven.fetch(window_of(200_000))
    (record,) = caplog.records
    assert (record.name, record.levelno) == ("tidytape", logging.WARNING)
    assert (
        "BLOCK_BOOK_SNAPSHOT_AGG: the budget of the key makes this fetch wait 20 min 0 s, until 20"
        in record.message
    )


@pytest.mark.slow
def test_a_bar_says_until_when_it_waits(
    service: Service, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    Driven(service, Clock(0)).fetch(window_of(200_000), progress=True)
    assert "waits for the budget until 20" in capsys.readouterr().err
    assert caplog.records == []


def test_a_wait_that_grew_is_told_again(caplog: pytest.LogCaptureFixture) -> None:
    class Shrinking(Service):
        def handle_request(self, request: httpx.Request) -> httpx.Response:
            response = super().handle_request(request)
            if self.sent == 5:  # somebody else has taken what there was
                response.headers.update({"X-RateLimit-Limit": "10", "X-RateLimit-Remaining": "0"})
            return response

    Driven(Shrinking(), Clock(0)).fetch(window_of(36_000))
    first, *more = caplog.messages
    assert "wait 96 s" in first
    assert "wait 2 min 0 s" in more[0]  # until the bucket is full, which holds no more than 20 now


def test_what_no_bucket_can_hold_any_more_waits_until_it_is_full() -> None:
    clock = Clock(0)
    quota = Quota(clock=clock)
    quota.heard(limit=60, remaining=120, reset=None, taken=0)
    quota.take(120)
    heavy = quota.take(100)
    quota.heard(limit=30, remaining=0, reset=None, taken=120)
    assert quota.burst == 60
    assert 0 < heavy.wait <= 200
    clock.now_ns += 400 * NS
    assert heavy.wait == 0


def test_a_wait_is_reckoned_anew_with_what_the_service_says() -> None:
    clock = Clock(0)
    quota = Quota(clock=clock)
    quota.heard(limit=60, remaining=0, reset=None, taken=0)
    first, second = quota.take(60), quota.take(60)
    assert (round(first.wait), round(second.wait)) == (60, 120)
    clock.now_ns += 30 * NS
    assert (round(first.wait), round(second.wait)) == (30, 90)
    quota.heard(limit=600, remaining=30, reset=None, taken=0)
    assert (round(first.wait), round(second.wait)) == (3, 9)
    quota.heard(limit=30, remaining=30, reset=None, taken=0)
    assert (round(first.wait), round(second.wait)) == (60, 180)


def test_an_answer_that_took_long_does_not_know_of_what_was_spent_since() -> None:
    quota = Quota(clock=lambda: 0)
    quota.heard(limit=60, remaining=100, reset=None, taken=0)
    quota.take(1)
    slow = quota.line
    for spent in range(1, 50):
        quota.take(1)
        quota.heard(limit=60, remaining=99 - spent, reset=None, taken=1, sent=quota.line)
    quota.heard(limit=60, remaining=99, reset=None, taken=1, sent=slow)  # it was so when it was sent
    assert quota.available == 50
    quota.heard(limit=60, remaining=99, reset=None, taken=0, sent=quota.line)  # and now it is so again
    assert quota.available == 99


def test_who_leaves_the_line_lets_nobody_in_too_soon() -> None:
    quota = Quota(clock=lambda: 0)
    quota.heard(limit=60, remaining=0, reset=None, taken=0)
    first, second, third = (quota.take(60) for _ in range(3))
    second.give_up()
    assert round(first.wait) == 60
    assert 120 <= round(third.wait) <= 180
    assert round(quota.take(60).wait) == 180


@pytest.mark.slow
def test_a_fetch_goes_on_as_soon_as_the_budget_is_larger(service: Service) -> None:
    class Raised(Driven):
        def _carry_out(self, step: object) -> Any:
            done = super()._carry_out(step)
            if self.waited:
                self.settings.quota.heard(limit=100_000, remaining=0, reset=None, taken=0)
            return done

    driven = Raised(service, Clock(0))
    driven.fetch(window_of(200_000))
    assert 0 < driven.waited < 30  # not the eighteen minutes that it was at first


@pytest.mark.parametrize("value", [0, -1, "60", True, float("nan")])
def test_a_bound_that_is_none_is_refused(value: object) -> None:
    with pytest.raises(QueryError, match="max_wait"):
        tidytape.Client("http://service", "k", max_wait=value)  # type: ignore[call-overload]


@pytest.mark.slow
def test_a_client_waits_a_quarter_of_an_hour_unless_told_otherwise() -> None:
    bounds = [
        tidytape.Client("https://service", "k", **options)._settings.max_wait  # type: ignore[call-overload]
        for options in (
            {},
            {"max_wait": None},
            {"max_wait": float("inf")},
            {"on_limit": "raise"},
            {"max_wait": 5},
        )
    ]
    assert bounds == [900.0, None, None, 0.0, 5.0]


def test_a_bound_where_nothing_is_waited_for_is_refused() -> None:
    with pytest.raises(QueryError, match="max_wait: got 60, expected nothing where on_limit is 'raise'"):
        tidytape.Client("http://service", "k", max_wait=60, on_limit="raise")
