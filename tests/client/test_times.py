"""Windows that count back from now, end now, or have a limit; and the same windows of a tape, next year."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import polars as pl
import pytest

import tidytape
from tables import each_row
from tidytape.client._series import SeriesMethods
from tidytape.client._tape import entries
from tidytape.client._window import Times
from tidytape.errors import QueryError, TapeError
from tidytape.query import PointsQuery

NOW = 1_723_161_599.5  # 2024-08-08T23:59:59.5Z
HOURS = {"exchange": "DEMO_SPOT", "coin": "BTC", "interval": "1h"}


@pytest.fixture(scope="module")
def client() -> Iterator[tidytape.Client[pl.DataFrame]]:
    with tidytape.Client.demo() as demo:
        yield demo


def at(monkeypatch: pytest.MonkeyPatch, second: float) -> None:
    monkeypatch.setattr("tidytape.client._window.time", SimpleNamespace(time=lambda: second))


def probe(**fields: Any) -> PointsQuery:
    return PointsQuery(
        **{"type": "TRADE_AGG", "exchange": "X", "coin": "BTC", "start": 0, "end": 1, **fields}
    )


@each_row(
    ("written", "expected"),
    [
        (Times("-90s"), (NOW - 0.5 - 90, NOW - 0.5)),
        (Times("-2m", "-1m"), (NOW - 0.5 - 120, NOW - 0.5 - 60)),
        (Times(" -1h "), (NOW - 0.5 - 3_600, NOW - 0.5)),
        (Times("-30d"), (NOW - 0.5 - 30 * 86_400, NOW - 0.5)),
        (Times("-2w"), (NOW - 0.5 - 14 * 86_400, NOW - 0.5)),
        (Times("2024-08-01"), ("2024-08-01", NOW - 0.5)),
        (Times(0, 60), (0, 60)),
    ],
)
def test_times_count_back_from_now_in_whole_seconds(
    written: Times, expected: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    at(monkeypatch, NOW)
    assert written.resolved(probe) == expected


@pytest.mark.parametrize(
    ("interval", "end", "limit", "start"),
    [
        ("1m", 600, 3, 420),
        ("1m", 601, 3, 480),  # the interval that begins at 600 is the last
        ("1h", "1970-01-02", 24, 0),
        ("1w", 4 * 86_400, 1, -3 * 86_400),
        ("1w", 4 * 86_400 + 1, 1, 4 * 86_400),  # weeks begin on Mondays
    ],
)
def test_a_limit_is_of_the_last_intervals_that_begin_before_the_end(
    interval: str, end: Any, limit: int, start: int
) -> None:
    if start < 0:
        with pytest.raises(QueryError, match="limit: got 1, expected intervals since 1970-01-01"):
            Times(None, end, limit).resolved(lambda: probe(interval=interval))
        return
    first, last = Times(None, end, limit).resolved(lambda: probe(interval=interval))
    assert first == start
    assert probe(interval=interval, start=first, end=last).span[0] == start


def test_the_last_candles_are_those_before_the_end(client: Any) -> None:
    whole = client.candles(**HOURS, start="2024-08-08", end="2024-08-09")
    assert client.candles(**HOURS, limit=5, end="2024-08-09").equals(whole.tail(5))
    assert client.query.candles(**HOURS, limit=5, end="2024-08-09").relative == ()


@each_row(
    ("times", "words"),
    [
        ({}, "start: left out, expected a time, '-30d' to count back from now, or limit instead"),
        ({"end": "2024-08-09"}, "start: left out"),
        (
            {"start": "-2d", "end": "2024-08-09"},
            r"start: got '-2d', expected a time before end \(2024-08-09T00:00:00Z\); such a start counts back from now",
        ),
        ({"start": "-1d", "limit": 3}, "limit: got 3, expected nothing where start is given"),
        ({"limit": 0}, "limit: got 0, expected a whole number from 1"),
        ({"limit": "many"}, "limit: got 'many', expected a whole number"),
        ({"start": "-30 days"}, "start: got '-30 days', expected epoch seconds"),
        ({"start": "-1mo"}, "string, or '-30d' to count back from now, in s, m, h, d, w; for example '2024-"),
        ({"start": "30d"}, "string, or '-30d' to count back from now, in s, m, h, d, w; did you mean '-30d'"),
        ({"start": "-1d", "end": "-2d"}, "end: got .*expected a time after start"),
        ({"start": pd.date_range("2024-08-08", periods=2)}, r"start: got 'DatetimeIndex of 2', .*index\[0\]"),
        ({"start": 0, "end": ["2024-08-09"]}, "end: got 'list of 1', expected one time"),
    ],
)
def test_a_window_that_cannot_be_is_refused_by_name(times: dict[str, Any], words: str, client: Any) -> None:
    used = client.usage().used
    with pytest.raises(QueryError, match=words):
        client.candles(**HOURS, **times)
    assert client.usage().used <= used


def test_sessions_have_no_limit_and_trades_none_either(client: Any) -> None:
    profile = {"exchange": "DEMO_SPOT", "coin": "BTC", "session": "monthly", "end": "2024-08-09"}
    with pytest.raises(
        QueryError, match="limit: got 2, expected intervals of a fixed length; give start instead"
    ):
        client.tpo(**profile, limit=2)
    with pytest.raises(TypeError, match="limit"):
        client.trades(exchange="DEMO_SPOT", coin="BTC", limit=2)


def test_every_series_may_end_now() -> None:
    for name, method in vars(SeriesMethods).items():
        if not name.startswith("_"):
            parameters = inspect.signature(method).parameters
            assert parameters["start"].default is parameters["end"].default is None, name


def study(client: Any, folder: Path) -> list[pl.DataFrame]:
    """What a script asks of the last hours, in every way there is."""
    asked = client.query.candles(**HOURS, start="-6h")
    client.plan(asked)
    client.to_parquet(asked, folder / "hours.parquet")
    return [
        client.candles(**HOURS, start="-3h"),
        client.candles(**HOURS, limit=2),
        client.fetch(asked).frame,
        *client.iter_frames(asked),
        pl.read_parquet(folder / "hours.parquet"),
    ]


@pytest.mark.slow
def test_a_tape_gives_the_windows_of_when_it_was_recorded(
    client: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at(monkeypatch, NOW)
    with client.record(tmp_path / "tape"):
        recorded = study(client, tmp_path)
    assert [frame.height for frame in recorded] == [3, 2, 6, 6, 6]
    window = next(one for one in entries(tmp_path / "tape") if one.ask["ask"] == "window")
    assert ["start", "-6h"] in window.ask["params"]
    at(monkeypatch, NOW + 365 * 86_400)
    with tidytape.Client.replay(tmp_path / "tape") as replayed:
        assert all(one.equals(other) for one, other in zip(study(replayed, tmp_path), recorded, strict=True))
        asked = replayed.query.candles(**HOURS, start="-6h")
        assert replayed.fetch(asked).metadata.end == int(NOW)
        with pytest.raises(TapeError, match=r"has no answer to window .* start=-7h"):
            replayed.candles(**HOURS, start="-7h")


@pytest.mark.slow
def test_windows_come_from_the_tape_one_after_the_other(
    client: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with client.record(tmp_path / "tape"):
        for hour in range(3):
            at(monkeypatch, NOW - 3_600 * hour)
            client.candles(**HOURS, start="-1h")
    with tidytape.Client.replay(tmp_path / "tape") as replayed:
        plans, ends = [], []
        for _ in range(3):
            asked = replayed.query.candles(**HOURS, start="-1h")
            plans.append(replayed.plan(asked).parts[0].end)
            ends.append(replayed.fetch(asked).metadata.end)
    assert plans == ends == [int(NOW), int(NOW) - 3_600, int(NOW) - 7_200]


@pytest.mark.slow
def test_an_async_client_counts_back_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    at(monkeypatch, NOW)

    async def heights() -> list[int]:
        async with tidytape.AsyncClient.demo() as client:
            with client.record(tmp_path / "tape"):
                asked = client.query.candles(**HOURS, limit=4)
                return [frame.height async for frame in client.iter_frames(asked)]

    assert asyncio.run(heights()) == [4]


@pytest.mark.slow
@pytest.mark.parametrize("window", [["a", "b"], ["1"], ["1", "2", "3"], [None, None]], ids=str)
def test_a_window_that_is_none_is_damage(
    client: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, window: list[Any]
) -> None:
    at(monkeypatch, NOW)
    with client.record(tmp_path / "tape"):
        client.candles(**HOURS, start="-6h")
        asked = entries(tmp_path / "tape")[0].ask
        asked["params"][-1] = ["start", "-7h"]
        client._tape.add(asked, window)
    replayed: Any = tidytape.Client.replay(tmp_path / "tape")
    with replayed, pytest.raises(TapeError, match="it is no window"):
        replayed.candles(**HOURS, start="-7h")
