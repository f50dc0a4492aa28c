"""Answers that a service cut, wherever and however: the frame is whole, or it is an error; never a silent part."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from client.driven import NS, Clock, Driven
from simulated.everything import ASKED, START, everything
from tidytape.budget import weight
from tidytape.catalogue import DATA_TYPES
from tidytape.client._answers import most_weight
from tidytape.client._fetching import planned
from tidytape.client._local import AppTransport
from tidytape.client._window import Window
from tidytape.errors import IncompleteDataError
from tidytape.lake import Lake
from tidytape.query import PointsQuery
from tidytape.service import Key, Keys, create_app, hashed
from tidytape.wire._arrow import ARROW_MIME
from tidytape.wire._decode import JSON_MIME

STEP = 60
NOW = 10**7 * 60
Cut = Callable[[list[tuple[str, int]]], list[tuple[str, int]]]
"""What a service leaves of its rows, each a market and a time, series after series."""


def first_rows(most: int) -> Cut:
    return lambda rows: rows[:most]


def last_rows(most: int) -> Cut:
    return lambda rows: rows[-most:]


def first_in_time(most: int) -> Cut:
    return lambda rows: sorted(sorted(rows, key=lambda row: row[::-1])[:most])


def of_each_series(most: int) -> Cut:
    def cut(rows: list[tuple[str, int]]) -> list[tuple[str, int]]:
        symbols = sorted({symbol for symbol, _ in rows})
        return [row for one in symbols for row in [row for row in rows if row[0] == one][:most]]

    return cut


CUTS = {
    "first rows": first_rows,
    "last rows": last_rows,
    "first in time": first_in_time,
    "of each": of_each_series,
}


class Cutting(httpx.BaseTransport):
    """A service that has candles of markets at certain minutes, and cuts its answers."""

    def __init__(self, markets: dict[str, range | list[int]], cut: Cut) -> None:
        self.markets = {symbol: sorted(minutes) for symbol, minutes in markets.items()}
        self.cut = cut
        self.asked: list[tuple[int, int]] = []
        self.weight = 0

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        if request.url.path != "/v1/points":
            return httpx.Response(404)
        query = PointsQuery.from_params(request.url.params.multi_items())
        self.weight += weight(query)
        self.asked.append((query.start // STEP, query.end // STEP))
        rows = [
            (symbol, minute)
            for symbol, minutes in self.markets.items()
            if not query.raw_symbol or symbol in query.raw_symbol
            for minute in minutes
            if query.start <= minute * STEP < query.end
        ]
        series: dict[str, list[Any]] = {}
        for symbol, minute in self.cut(rows):
            point = {"timestamp": {"s": minute * STEP}, "close": float(minute), "volume": 1.0}
            series.setdefault(symbol, []).append({"Point": point})
        ids = {"type": query.type[0], "exchange": "X", "coin": "BTC"}
        body = [{"id": {**ids, "rawSymbol": symbol}, "points": points} for symbol, points in series.items()]
        return httpx.Response(200, json={"series": body})


def window(minutes: int, *, start: int = 0, name: str = "TRADE_SIDE_AGNOSTIC_AGG", **more: Any) -> Window:
    selected = more or {"raw_symbol": "A"}
    return Window.of(
        PointsQuery.split(
            type=name,
            exchange="X",
            interval="1m",
            start=start * STEP,
            end=(start + minutes) * STEP,
            **selected,
        )
    )


def rows_of(frame: pl.DataFrame) -> list[tuple[str, int]]:
    minute = pl.col("timestamp").dt.epoch("s") // STEP
    return sorted(frame.select(pl.col("raw_symbol").cast(pl.String), minute).iter_rows())


def all_of(service: Cutting) -> list[tuple[str, int]]:
    return sorted((symbol, minute) for symbol, minutes in service.markets.items() for minute in minutes)


@pytest.mark.parametrize("most", [7, 999, 1_000, 1_024])
@pytest.mark.parametrize("how", sorted(CUTS))
@pytest.mark.parametrize("markets", [1, 2, 3], ids="{} markets".format)
def test_whatever_is_cut_the_frame_is_whole_or_an_error(
    tmp_path: Path, most: int, how: str, markets: int
) -> None:
    service = Cutting(dict.fromkeys("ABC"[:markets], range(3 * most // 2 + 1)), CUTS[how](most))
    asked = window(3 * most // 2 + 1, **({"raw_symbol": "A"} if markets == 1 else {"coin": "BTC"}))
    for _ in range(2):  # nothing of a cut answer is kept
        client = Driven(service, Clock(NOW), cache=tmp_path)
        try:
            frame, told = client.fetch(asked)
        except IncompleteDataError:
            continue
        assert rows_of(frame) == all_of(service)
        assert told.is_whole is True
    if markets == 1:
        assert len(service.asked) <= 4


def test_series_that_a_cut_between_two_left_out_are_found() -> None:
    """The answer has two series of five hundred points, both of them whole; the third is not there at all."""
    service = Cutting(dict.fromkeys("ABC", range(500)), first_rows(1_000))
    frame, told = Driven(service, Clock(NOW)).fetch(window(500, coin="BTC"))
    assert rows_of(frame) == all_of(service)
    assert told.weight <= 3 * 1 + 2


@pytest.mark.long
@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 60), st.integers(1, 60), st.integers(1, 4)), min_size=1, max_size=3),
    st.sampled_from(sorted(CUTS)),
    st.integers(1, 70),
    st.sampled_from(["coin", "raw_symbol"]),
    st.randoms(use_true_random=False),
)
def test_the_law_of_cut_answers(
    spans: list[tuple[int, int, int]], how: str, most: int, way: str, chance: random.Random
) -> None:
    """Markets that begin and end anywhere and miss intervals: all their points come, or an error."""
    markets = {
        symbol: [
            minute for minute in range(start, start + length) if chance.randrange(4 * dense) or dense > 2
        ]
        for symbol, (start, length, dense) in zip("ABC", spans, strict=False)
    }
    service = Cutting(markets, CUTS[how](most))
    asked = window(120, **({"coin": "BTC"} if way == "coin" else {"raw_symbol": sorted(markets)}))
    (query,) = (asked.query,)
    try:
        frame, told = Driven(service, Clock(NOW)).fetch(asked)
    except IncompleteDataError:
        assert service.weight <= most_weight(query)
        return
    assert told.weight == service.weight <= most_weight(query)
    # What no probe can know: a series that is not in the answer, and has no point in the time that was asked for again.
    found = {symbol for symbol, _ in rows_of(frame)}
    for symbol in service.markets.keys() - found:
        assert not any(
            start <= one < end for one in service.markets[symbol] for start, end in service.asked[1:]
        )
        assert not service.markets[symbol] or len(service.asked) > 1
    assert rows_of(frame) == [row for row in all_of(service) if row[0] in found]


@pytest.mark.slow
def test_a_window_of_several_requests_is_whole_though_each_answer_was_cut() -> None:
    service = Cutting({"A": range(250_000)}, first_rows(60_000))
    frame, told = Driven(service, Clock(NOW)).fetch(window(250_000))
    assert frame.height == 250_000
    assert frame["timestamp"].is_unique().all()
    assert told.weight <= 3 * 250 + 6


@pytest.mark.slow
def test_data_that_end_early_cost_one_probe_a_side_of_a_fetch(tmp_path: Path) -> None:
    service = Cutting({"A": range(130_000, 340_000)}, first_rows(10**9))
    asked = window(400_000)
    frame, told = Driven(service, Clock(NOW), cache=tmp_path).fetch(asked)
    assert frame.height == 210_000
    # Four requests. The second and the last answer lack an end, and the third one, which is whole, has more rows.
    assert told.requests == len(service.asked) == 4
    again, told = Driven(service, Clock(NOW), cache=tmp_path).fetch(asked)
    assert (again.height, told.requests) == (210_000, 0)  # the cache knows that there is nothing
    small = Cutting({"A": range(30, 70)}, first_rows(10**9))
    _, told = Driven(small, Clock(NOW)).fetch(window(100))
    assert small.asked == [(0, 100), (70, 100), (0, 30)]
    assert (told.requests, told.weight) == (3, 3)


@pytest.mark.parametrize(("until", "requests"), [(70, 1), (69, 1), (68, 2), (5, 2)])
def test_a_time_up_to_which_data_are_known_explains_no_end_that_lies_after_it(
    until: int, requests: int
) -> None:
    class Dated(Cutting):
        def handle_request(self, request: httpx.Request) -> httpx.Response:
            answer = super().handle_request(request)
            body = answer.json() if answer.status_code == 200 else {"series": []}
            for one in body["series"]:
                one["id"]["dataUntil"] = {"s": until * STEP}
            return httpx.Response(answer.status_code, json=body)

    service = Dated({"A": range(70)}, first_rows(10**9))
    frame, told = Driven(service, Clock(NOW)).fetch(window(100))
    assert (frame.height, told.requests) == (70, requests)
    cut = Dated({"A": range(100)}, first_rows(70))
    frame, _ = Driven(cut, Clock(NOW)).fetch(window(100))
    assert frame.height == (70 if requests == 1 else 100)


def test_what_is_whole_is_asked_for_once() -> None:
    for minutes in (7, 100, 1_000, 1_024):
        service = Cutting({"A": range(minutes)}, first_rows(10**9))
        assert Driven(service, Clock(NOW)).fetch(window(minutes))[0].height == minutes
        assert len(service.asked) == 1
    with_gaps = Cutting({"A": [0, 5, 6, 99]}, first_rows(10**9))
    assert Driven(with_gaps, Clock(NOW)).fetch(window(100))[0].height == 4
    assert len(with_gaps.asked) == 1


def test_what_has_not_ended_is_not_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time", lambda: 50.5 * STEP)
    service = Cutting({"A": range(50)}, first_rows(10**9))
    frame, _ = Driven(service, Clock(50.5 * STEP)).fetch(window(100))
    assert frame.height == 50
    assert len(service.asked) == 1


def test_newest_first_is_the_same() -> None:
    service = Cutting({"A": range(30, 70)}, first_rows(25))
    asked = window(100, raw_symbol="A", sort_direction="desc")
    frame, _ = Driven(service, Clock(NOW)).fetch(asked)
    assert frame["timestamp"].dt.epoch("s").to_list() == [minute * STEP for minute in range(69, 29, -1)]


def test_a_cut_answer_may_be_flagged_and_is_not_kept(tmp_path: Path) -> None:
    service = Cutting({"A": range(100)}, first_rows(1))
    client = Driven(service, Clock(NOW), cache=tmp_path, partial="flag")
    for _ in range(2):
        frame, told = client.fetch(window(100))
        assert rows_of(frame) == [("A", 0)]
        assert told.missing == ((2 * STEP, 100 * STEP),)
        assert told.is_whole is False
        assert [type(one) for one in told.failures] == [IncompleteDataError]
        assert told.requests > 0


def test_of_rare_points_nobody_can_know_whether_they_are_whole() -> None:
    class Liquidations(Cutting):
        pass

    service = Liquidations({"A": [5]}, first_rows(10**9))
    _, told = Driven(service, Clock(NOW)).fetch(window(100, name="LIQUIDATION_AGG"))
    assert told.is_whole is None
    assert len(service.asked) == 1
    assert "cannot be known of this type" in told._repr_html_()


def test_a_plan_says_what_a_fetch_weighs_at_most() -> None:
    service = Cutting({"A": range(40_000)}, first_rows(30_000))
    driven = Driven(service, Clock(NOW))
    plan = driven.run(planned(driven.settings, [window(50_000)]))
    assert (plan.weight, plan.weight_at_most) == (50, 152)
    assert "weight 50 (at most 152)" in str(plan)
    _, told = driven.fetch(window(50_000))
    assert 50 < told.weight <= plan.weight_at_most
    rare = driven.run(planned(driven.settings, [window(50_000, name="LIQUIDATION_AGG")]))
    assert (rare.weight_at_most, "at most" in str(rare)) == (rare.weight, False)


@pytest.mark.parametrize("markets", [{"A": range(9)}, {"A": range(9), "B": range(2, 9)}], ids=len)
def test_what_should_have_been_filled_has_no_gaps(markets: dict[str, range | list[int]]) -> None:
    full = Cutting(markets, first_rows(10**9))
    asked = window(9, coin="BTC", gapfill=True)
    assert Driven(full, Clock(NOW)).fetch(asked)[0].height == sum(map(len, markets.values()))
    gaps = Cutting({**markets, "A": [0, 1, 4, 5, 8]}, first_rows(10**9))
    with pytest.raises(IncompleteDataError, match="asked for without gaps") as caught:
        Driven(gaps, Clock(NOW)).fetch(asked)
    assert caught.value.missing == ((2 * STEP, 4 * STEP), (6 * STEP, 8 * STEP))


# --- the service of this library ------------------------------------------------------------------------------------

S0 = START // NS


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return everything(tmp_path_factory.mktemp("whole") / "lake")


class Counted(httpx.BaseTransport):
    """Counts the requests for points."""

    def __init__(self, inner: AppTransport) -> None:
        self.inner, self.points = inner, 0

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        self.points += request.url.path == "/v1/points"
        return self.inner.handle_request(request)


@pytest.fixture(scope="module")
def service(lake: Lake) -> Counted:
    keys = Keys([Key("k", hashed("the-secret-key"), "enterprise", created=0)])
    return Counted(AppTransport(create_app(lake, keys, clock=Clock(S0 + 200 * 86_400))))


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(DATA_TYPES))
@pytest.mark.parametrize("hours", [(0, 2), (-5, 30), (2, 40)], ids=str)
@pytest.mark.parametrize("form", [ARROW_MIME, JSON_MIME], ids=["arrow", "json"])
def test_nothing_is_asked_twice_of_our_own_service(
    service: Counted, name: str, hours: tuple[int, int], form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidytape.client._fetching._ACCEPT", form)
    interval = "1d" if name in {"TOKEN_SUPPLY_AGG", "TPO_AGG"} else "1m"
    first, last = (S0 + hour * 3_600 for hour in hours)
    asked = Window.of(PointsQuery.split(type=name, interval=interval, start=first, end=last, **ASKED[name]))
    service.points = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _, told = Driven(service, Clock(S0 + 200 * 86_400)).fetch(asked)
    assert service.points == told.requests == 1
    assert told.weight == weight(asked.query.model_copy(update={"start": first, "end": last}))
