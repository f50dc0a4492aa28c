"""Laws of `pull`: whatever the pages are, the lake has what came, once, and what did not come is a hole."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import ccxt
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tidytape
from odd_exchange import MINUTE, NOW, OPEN, OddExchange, candle, served
from thorough import often
from tidytape.lake import Lake

LENGTH = 200
START = OPEN - LENGTH * MINUTE
WINDOW = {"since": datetime.fromtimestamp(START / 1000, UTC), "progress": False}
FEW: dict[str, Any] = {
    "max_examples": often(12, thoroughly=200),
    "suppress_health_check": [HealthCheck.too_slow],
}
"""Each example writes lakes."""

TIMES = st.integers(-20, LENGTH + 1).map(lambda minute: START + minute * MINUTE)
ERRORS = st.sampled_from(
    [ccxt.DDoSProtection("429"), ccxt.ExchangeNotAvailable("503"), ccxt.RequestTimeout("late")]
)
PAGES = st.one_of(
    st.lists(TIMES | st.none(), max_size=30),  # unsorted, with duplicates, nulls and the candle in progress
    st.integers(0, 40),  # so many from since on
    st.integers(0, 40).map(lambda count: -count),  # so many of the newest ones
    ERRORS,
)


def candles_in(lake: Lake) -> pl.DataFrame:
    return lake.scan("candles").drop("received").sort("timestamp").collect()


def expected_gaps(times: set[int], start: int = START, end: int = OPEN) -> list[tuple[int, int]]:
    """The stretches without candles, minute by minute. [ms]"""
    gaps: list[tuple[int, int]] = []
    for time in range(start, end, MINUTE):
        if time in times:
            continue
        if gaps and gaps[-1][1] == time:
            gaps[-1] = gaps[-1][0], time + MINUTE
        else:
            gaps.append((time, time + MINUTE))
    return gaps


def gaps_of(result: pl.DataFrame) -> list[tuple[int, int]]:
    rows = result.filter(pl.col("gap_from").is_not_null())
    assert rows["reason"].null_count() == 0
    assert rows["rows"].sum() == 0
    return list(rows.select(pl.col("gap_from", "gap_to").dt.epoch("ms")).iter_rows())


@pytest.mark.slow
@settings(**FEW)
@given(pages=st.lists(PAGES, min_size=1, max_size=12), holes=st.sets(st.integers(0, LENGTH), max_size=60))
def test_the_lake_has_what_came_and_each_other_stretch_is_a_hole(pages: list[Any], holes: set[int]) -> None:
    there = [START + minute * MINUTE for minute in range(-20, LENGTH + 2) if minute not in holes]
    came: set[int] = set()
    todo = iter(pages)

    def page(since: int | None, params: Mapping[str, Any]) -> list[Any]:
        kind = next(todo, None)
        if isinstance(kind, Exception):
            raise kind
        if kind is None:
            times: list[int | None] = []
        elif isinstance(kind, list):
            times = kind
        else:
            times = [
                *[time for time in there if since is None or time >= since][:kind],
                *(there[kind:] if kind < 0 else []),
            ]
        came.update(time for time in times if time is not None)
        return [candle(time) for time in times]

    with tempfile.TemporaryDirectory() as folder:
        result = tidytape.pull(OddExchange(candles=page), "BTC/USDT", lake=folder, **WINDOW)
        rows = candles_in(Lake(folder))
    closed = {time for time in came if START <= time < OPEN}
    assert rows["timestamp"].to_list() == [time * 1_000_000 for time in sorted(closed)]
    assert list(rows.select("open", "high", "low", "close", "volume").iter_rows()) == [
        tuple(candle(time)[1:]) for time in sorted(closed)
    ]
    assert gaps_of(result) == expected_gaps(closed)
    assert result["rows"][0] == len(closed)


@pytest.mark.slow
@settings(**FEW)
@given(
    stops=st.lists(st.integers(0, 8), min_size=1, max_size=4),
    holes=st.sets(st.integers(0, LENGTH), max_size=60),
    limit=st.integers(1, 60),
    stop=st.sampled_from([KeyboardInterrupt, ccxt.ExchangeError, ccxt.BadRequest]),
)
def test_an_interrupted_pull_that_is_run_again_gives_the_lake_of_one_run(
    stops: list[int], holes: set[int], limit: int, stop: type[BaseException]
) -> None:
    times = [START + minute * MINUTE for minute in range(-20, LENGTH + 2) if minute not in holes]
    whole = served(times, limit)
    left = [0]

    def broken(since: int | None, params: Mapping[str, Any]) -> list[Any]:
        left[0] -= 1
        if left[0] < 0:
            raise stop
        return whole(since, params)

    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        result = tidytape.pull(OddExchange(candles=whole), "BTC/USDT", lake=one, **WINDOW)
        for count in stops:
            left[0] = count
            with suppress(KeyboardInterrupt, tidytape.FetchError):
                tidytape.pull(OddExchange(candles=broken), "BTC/USDT", lake=other, **WINDOW)
        again = tidytape.pull(OddExchange(candles=whole), "BTC/USDT", lake=other, **WINDOW)
        assert again.equals(result)
        assert candles_in(Lake(other)).equals(candles_in(Lake(one)))
        assert Lake(other).markets().equals(Lake(one).markets())


def settlement(time: int) -> dict[str, Any]:
    return {"timestamp": time, "fundingRate": time // 3_600_000 % 5 / 10_000}


@pytest.mark.slow
@settings(**FEW)
@given(
    steps=st.lists(st.sampled_from([1, 4, 8, 8, 8, 16]), min_size=1, max_size=14),
    jitter=st.integers(0, 900),
    limit=st.integers(1, 5),
    stops=st.lists(st.integers(1, 4), max_size=4),
)
def test_settlements_have_the_same_intervals_however_often_the_pull_was_interrupted(
    steps: list[int], jitter: int, limit: int, stops: list[int]
) -> None:
    hours = [sum(steps[:count]) for count in range(len(steps) + 1)]
    times = [NOW - (hours[-1] + 1 - hour) * 3_600_000 + jitter * (hour % 2) for hour in hours]
    left = [0]

    def page(since: int | None, params: Mapping[str, Any]) -> list[Any]:
        left[0] -= 1
        if left[0] == 0:
            raise KeyboardInterrupt
        return [settlement(time) for time in times if since is None or time >= since][:limit][::-1]

    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        arguments: dict[str, Any] = {
            "data": "funding",
            "since": "20d",
            "amount_unit": "coin",
            "progress": False,
        }
        result = tidytape.pull(OddExchange(funding=page), "BTC/USDT:USDT", lake=one, **arguments)
        for count in stops:
            left[0] = count
            with suppress(KeyboardInterrupt):
                tidytape.pull(OddExchange(funding=page), "BTC/USDT:USDT", lake=other, **arguments)
        left[0] = 0
        assert tidytape.pull(OddExchange(funding=page), "BTC/USDT:USDT", lake=other, **arguments).equals(
            result
        )
        rows, others = (Lake(lake).scan("funding").sort("timestamp").collect() for lake in (one, other))
        assert rows.equals(others)
    assert rows["timestamp"].to_list() == [time * 1_000_000 for time in times]
    assert rows["rate"].to_list() == [settlement(time)["fundingRate"] for time in times]


def trade(number: int) -> dict[str, Any]:
    """Trades, two of them at each time, one time in 30 seconds."""
    time = START + number // 2 * 30_000
    return {"id": str(number), "timestamp": time, "price": 100.0 + number % 7, "amount": 1.0, "side": "buy"}


@pytest.mark.slow
@settings(**FEW)
@given(
    limit=st.integers(3, 40),
    takes_since=st.booleans(),
    is_exclusive=st.booleans(),
    stops=st.lists(st.integers(1, 6), max_size=3),
    growth=st.lists(st.integers(0, 60), min_size=1, max_size=3),
)
def test_trades_that_did_not_come_are_holes(
    *, limit: int, takes_since: bool, is_exclusive: bool, stops: list[int], growth: list[int]
) -> None:
    there = [trade(number) for number in range(60)]
    left = [0]

    def page(since: int | None, params: Mapping[str, Any]) -> list[Any]:
        left[0] -= 1
        if left[0] == 0:
            raise KeyboardInterrupt
        if since is None or not takes_since:
            return [row for row in there[-limit:] if row["timestamp"] >= (since or 0)]
        return [row for row in there if row["timestamp"] >= since + is_exclusive][:limit]

    arguments: dict[str, Any] = {"data": "trades", **WINDOW}
    with tempfile.TemporaryDirectory() as folder:
        for count, more in zip([*stops, 0, 0, 0], growth, strict=False):
            left[0] = count
            with suppress(KeyboardInterrupt):
                tidytape.pull(OddExchange(trades=page), "BTC/USDT", lake=folder, **arguments)
            there += [trade(number) for number in range(len(there), len(there) + more)]
        left[0] = 0
        result = tidytape.pull(OddExchange(trades=page), "BTC/USDT", lake=folder, **arguments)
        rows = Lake(folder).scan("trades").sort("timestamp", "sequence").collect()
    ids = {int(trade_id) for trade_id in rows["id"]}
    assert rows["id"].is_unique().all()
    missing = {row["timestamp"] for number, row in enumerate(there) if number not in ids}
    gaps = gaps_of(result)
    assert all(any(start <= time < end for start, end in gaps) for time in missing)
    if takes_since:
        assert gaps == []
    assert missing or not gaps or stops


@pytest.mark.slow
@pytest.mark.parametrize("lengths", [[40, 20, 10, 5, 2, 1]])
def test_a_limit_that_shrinks_loses_nothing(tmp_path: Any, lengths: list[int]) -> None:
    times = list(range(START, OPEN + MINUTE, MINUTE))
    limits = iter(lengths)

    def page(since: int | None, params: Mapping[str, Any]) -> list[Any]:
        return served(times, next(limits, 3))(since, params)

    result = tidytape.pull(OddExchange(candles=page), "BTC/USDT", lake=tmp_path, **WINDOW)
    assert result.select("rows", "gap_from").rows() == [(LENGTH, None)]


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 3, 4, 9])
def test_a_millisecond_with_more_trades_than_a_page_has_is_a_hole(tmp_path: Any, count: int) -> None:
    times = [*range(4), *[4] * count, *range(5, 9)]
    there = [
        {"id": str(number), "timestamp": START + 60_000 * time, "price": 1.0, "amount": 1.0, "side": "sell"}
        for number, time in enumerate(times)
    ]

    def page(since: int | None, params: Mapping[str, Any]) -> list[Any]:
        return there[-3:] if since is None else [row for row in there if row["timestamp"] >= since][:3]

    result = tidytape.pull(OddExchange(trades=page), "BTC/USDT", data="trades", lake=tmp_path, **WINDOW)
    burst = START + 4 * 60_000
    assert gaps_of(result) == ([(burst, burst + 1)] if count >= 3 else [])
    assert result["rows"][0] == 8 + min(count, 3)


@pytest.mark.slow
@settings(**FEW)
@given(
    pauses=st.lists(st.sampled_from([0, 0, 1, 1_000, 60_000, 3_600_000, 3_600_001, 9_000_000]), max_size=25),
    limit=st.integers(5, 12),
    is_exclusive=st.booleans(),
    cut=st.integers(1, 40),
)
def test_quiet_hours_end_no_walk_through_trades(
    pauses: list[int], limit: int, *, is_exclusive: bool, cut: int
) -> None:
    """An exchange that sends the trades of an hour, as Binance does."""
    first = NOW - 80 * 3_600_000
    times = [first + sum(pauses[:count]) for count in range(len(pauses) + 1)]
    there = [
        {"id": str(number), "timestamp": time, "price": 1.0, "amount": 1.0, "side": "sell"}
        for number, time in enumerate(times)
    ]
    left = [cut]

    def page(since: int | None, params: Mapping[str, Any]) -> list[Any]:
        left[0] -= 1
        if left[0] == 0:
            raise KeyboardInterrupt
        if since is None:
            return there[-limit:]
        return [row for row in there if since + is_exclusive <= row["timestamp"] <= since + 3_600_000][:limit]

    arguments: dict[str, Any] = {"data": "trades", "since": "81h", "progress": False}
    with tempfile.TemporaryDirectory() as folder:
        with suppress(KeyboardInterrupt):
            tidytape.pull(OddExchange(trades=page), "BTC/USDT", lake=folder, **arguments)
        left[0] = 0
        result = tidytape.pull(OddExchange(trades=page), "BTC/USDT", lake=folder, **arguments)
        stored = set(Lake(folder).scan("trades").collect()["id"])
    gaps = gaps_of(result)
    missing = [row["timestamp"] for row in there if row["id"] not in stored]
    assert all(any(start <= time < end for start, end in gaps) for time in missing)
    crowded = {
        time for time in times if times.count(time) + times.count(time + 1) + times.count(time - 1) >= limit
    }
    assert set(missing) <= crowded


def spoiled(kind: str, row: dict[str, Any], number: int) -> dict[str, Any]:
    """A trade without an id or a time, with the id of the trade before it, or only repeated."""
    return (
        row
        | {
            "no id": {"id": None},
            "empty id": {"id": ""},
            "no time": {"timestamp": None},
            "id of another": {"id": str(number - 1)},
            "whole": {},
        }[kind]
    )


@pytest.mark.slow
@settings(**FEW)
@given(
    kind=st.sampled_from(["no id", "empty id", "no time", "id of another", "whole"]),
    which=st.sets(st.integers(1, 59), min_size=1),
    limit=st.integers(4, 70),
    numbers=st.booleans(),
)
def test_trades_that_no_id_tells_apart_are_a_hole_that_says_so(
    *, kind: str, which: set[int], limit: int, numbers: bool
) -> None:
    there = [spoiled(kind, trade(n), n) if n in which else trade(n) for n in range(60)]
    ids = [int(row["id"]) if numbers and row["id"] else row["id"] for row in there]

    def page(since: int | None, params: Mapping[str, Any]) -> list[Any]:
        rows = [
            row | {"id": trade_id}
            for number, (row, trade_id) in enumerate(zip(there, ids, strict=True))
            if since is None or trade(number)["timestamp"] >= since
        ]
        return [*(rows[-limit:] if since is None else rows[:limit]), *rows[:1] * (since is not None)]

    with tempfile.TemporaryDirectory() as folder:
        for _ in range(2):
            result = tidytape.pull(OddExchange(trades=page), "BTC/USDT", data="trades", lake=folder, **WINDOW)
            stored = set(Lake(folder).scan("trades").collect()["id"])
            gaps = gaps_of(result)
            missing = [trade(n)["timestamp"] for n in range(60) if str(n) not in stored]
            assert all(any(start <= time < end for start, end in gaps) for time in missing)
            assert bool(missing) == (kind != "whole")
            reasons = result["reason"].drop_nulls().to_list()
            assert any("without an id" in reason for reason in reasons) == (kind != "whole")


@pytest.mark.slow
@pytest.mark.parametrize("step", [1, 1_000, 60_000])
@pytest.mark.parametrize("limit", [1, 2])
@pytest.mark.parametrize("newest", [1, 2, 20])
def test_a_walk_in_steps_of_one_trade_ends(tmp_path: Any, step: int, limit: int, newest: int) -> None:
    there = [trade(number) | {"timestamp": START + 1_000 + number * step} for number in range(60)]

    def page(since: int | None, params: Mapping[str, Any]) -> list[Any]:
        return (
            there[-newest:] if since is None else [row for row in there if row["timestamp"] >= since][:limit]
        )

    exchange = OddExchange(trades=page)
    result = tidytape.pull(exchange, "BTC/USDT", data="trades", lake=tmp_path, **WINDOW)
    assert len(exchange.asked) <= 70
    stored = set(Lake(tmp_path).scan("trades").collect()["id"])
    missing = [row["timestamp"] for row in there if row["id"] not in stored]
    assert all(any(start <= time < end for start, end in gaps_of(result)) for time in missing)
    reasons = result["reason"].drop_nulls().to_list()
    assert bool(missing) == any("so few trades at once" in reason for reason in reasons)


def test_an_end_within_a_page_of_trades_is_no_hole(tmp_path: Any) -> None:
    there = [trade(number) for number in range(300)]

    def page(since: int | None, params: Mapping[str, Any]) -> list[Any]:
        return there[-20:] if since is None else [row for row in there if row["timestamp"] >= since][:20]

    window = {**WINDOW, "until": datetime.fromtimestamp(START / 1000 + 1_215, UTC)}
    result = tidytape.pull(OddExchange(trades=page), "BTC/USDT", data="trades", lake=tmp_path, **window)
    assert result.select("rows", "gap_from").rows() == [(82, None)]
