"""Plans, fetches with metadata, parts, files and tapes, through the clients that people use."""

from __future__ import annotations

import asyncio
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pytest

import tidytape
from simulated.everything import ASKED, START, everything
from tidytape.client._metadata import fingerprint
from tidytape.client._request import usage
from tidytape.client._tape import entries, verify
from tidytape.errors import QueryError, TapeError
from tidytape.lake import Lake
from tidytape.query import PointsQuery
from tidytape.query._values import written_time

S0 = START // 10**9
HOUR = 3_600
DAY = {"exchange": "X", "coin": "BTC", "interval": "5m", "start": S0, "end": S0 + 24 * HOUR}


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return everything(tmp_path_factory.mktemp("study") / "lake")


@pytest.fixture
def client(lake: Lake) -> Iterator[tidytape.Client[pl.DataFrame]]:
    with tidytape.Client.local(lake.path) as one:
        yield one


def study(client: tidytape.Client[Any]) -> dict[str, Any]:
    """Something of every kind of answer."""
    answers: dict[str, Any] = {
        name: client.fetch(PointsQuery(type=name, interval="1h", start=S0, end=S0 + 24 * HOUR, **asked)).frame
        for name, asked in ASKED.items()
    }
    answers["sessions"] = client.tpo_sessions(**DAY | {"interval": "1d"})
    answers["descending"] = client.candles(sort_direction="desc", **DAY)
    answers["nothing"] = client.candles(**DAY | {"start": S0 - 900 * HOUR, "end": S0 - 890 * HOUR})
    answers["markets"] = client.markets()
    answers["prediction markets"] = client.prediction_markets()
    answers["block sizes"] = client.block_sizes()
    answers["coins"] = client.coins()
    answers["symbols"] = client.symbols(type="TRADE_AGG")
    return answers


def same(one: Any, other: Any) -> bool:
    if isinstance(one, pl.DataFrame):
        return one.schema == other.schema and one.equals(other)
    if isinstance(one, pd.DataFrame):
        pd.testing.assert_frame_equal(one, other)
        return True
    return bool(one == other)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::tidytape.errors.EmptyAnswerWarning")
@pytest.mark.parametrize("backend", ["polars", pytest.param("pandas", marks=pytest.mark.long)])
def test_a_study_comes_out_the_same_from_its_tape(
    lake: Lake, tmp_path: Path, backend: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tidytape.Client.local(lake.path, backend=backend) as client:
        with client.record(tmp_path / "study.tape"):
            first = study(client)
        assert client.coins()  # what is asked afterwards is not in it
    moved = tmp_path / "elsewhere" / "another.tape"
    moved.parent.mkdir()
    shutil.move(tmp_path / "study.tape", moved)
    assert verify(moved) == []
    assert len(entries(moved)) == len(first)

    def no_network(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError("no network is needed")

    monkeypatch.setattr(socket, "socket", no_network)
    with tidytape.Client.replay(moved, backend=backend) as replayed:
        again = study(replayed)
        assert again.keys() == first.keys()
        for name, answer in first.items():
            assert same(answer, again[name]), name
        with pytest.raises(TapeError, match="has no answer to"):
            replayed.candles(**DAY | {"coin": "ETH"})


@pytest.mark.slow
def test_what_is_not_on_a_tape_is_told_with_what_is_nearest(client: Any, tmp_path: Path) -> None:
    hour = DAY | {"interval": "1h"}
    with client.record(tmp_path / "t"):
        client.coins(exchange="X")
        client.candles(**DAY)
        client.open_interest(**hour)
        client.candles(**hour)
    replayed = tidytape.Client.replay(tmp_path / "t")
    with pytest.raises(TapeError) as caught:
        replayed.candles(**hour | {"end": S0 + HOUR})
    first, last, later = (written_time(second) for second in (S0, S0 + HOUR, S0 + 24 * HOUR))
    series = "TRADE_SIDE_AGNOSTIC_AGG exchange=X coin=BTC interval=1h"
    assert f"has no answer to {series}, {first} to {last}; it was not asked" in str(caught.value)
    assert str(caught.value).endswith(f"the nearest it has is entry 4, {series}, {first} to {later}")
    with pytest.raises(TapeError, match="nearest it has is entry 3, OPEN_INTEREST_AGG "):
        replayed.open_interest(**DAY | {"interval": "1d"})
    with pytest.raises(
        TapeError, match=r"has no answer to coins exchange=Y; .* is entry 1, coins exchange=X"
    ):
        replayed.coins(exchange="Y")
    with pytest.raises(
        TapeError,
        match=r"has no answer to tenors; it was not asked when the tape was recorded, or it failed then$",
    ):
        replayed.tenors()


@pytest.mark.slow
def test_a_tape_is_replayed_from_asyncio_too(client: Any, tmp_path: Path) -> None:
    with client.record(tmp_path / "t"):
        candles = client.candles(**DAY)

    async def replay() -> pl.DataFrame:
        async with tidytape.AsyncClient.replay(tmp_path / "t") as replayed:
            return await replayed.candles(**DAY)

    assert asyncio.run(replay()).equals(candles)


@pytest.mark.slow
def test_a_plan_of_a_tape_costs_nothing_and_asks_nobody(
    client: Any, lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with client.record(tmp_path / "t"):
        client.candles(**DAY)
        client.candles(**DAY)
        client.usage()

    def no_network(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError("no network is needed")

    monkeypatch.setattr(socket, "socket", no_network)
    replayed = tidytape.Client.replay(tmp_path / "t")
    asked = client.query.candles(**DAY)
    plan = replayed.plan(asked)
    assert (plan.requests, plan.weight, plan.seconds) == ((), 0, 0)
    assert replayed.plan([asked, asked]).weight == 0
    assert replayed.usage() == replayed.usage()
    assert repr(replayed) == f"Client.replay({str(tmp_path / 't')!r}, backend='polars')"
    with pytest.raises(TapeError, match="has no answer to FUNDING_RATE_AGG"):
        replayed.plan([asked, client.query.funding(**DAY)])
    with pytest.raises(TapeError, match="a tape is replayed, and nothing is sent"):
        replayed._run(usage(replayed._settings))


@pytest.mark.slow
def test_the_hash_is_that_of_the_recorded_frame(client: Any, tmp_path: Path) -> None:
    asked = client.query.candles(**DAY)
    with client.record(tmp_path / "t"):
        first = client.fetch(asked)
    replayed = tidytape.Client.replay(tmp_path / "t").fetch(asked)
    assert replayed.metadata.hash == first.metadata.hash == entries(tmp_path / "t")[0].hash
    assert first.metadata.hash == fingerprint(first.frame)
    assert (replayed.metadata.weight, replayed.metadata.requests) == (0, 0)
    assert replayed.metadata.at.timestamp() == pytest.approx(first.metadata.at.timestamp(), abs=60)
    assert first.metadata.weight == 1


@pytest.mark.slow
def test_the_hash_is_of_the_frame_that_is_returned(client: Any, tmp_path: Path) -> None:
    asked = client.query.tpo_sessions(**DAY | {"interval": "1d"})
    with client.record(tmp_path / "t"):
        first = client.fetch(asked)
    assert first.metadata.hash == fingerprint(first.frame)
    assert f" {first.frame.height:,} rows" in repr(first.metadata)
    again = tidytape.Client.replay(tmp_path / "t").fetch(asked)
    assert again.metadata.hash == first.metadata.hash
    (listed,) = entries(tmp_path / "t")
    assert (listed.rows, listed.hash) == (first.frame.height, first.metadata.hash)
    assert listed.facts["returned"]["method"] == "tpo_sessions"


@pytest.mark.slow
def test_one_tape_at_a_time(client: Any, tmp_path: Path) -> None:
    with client.record(tmp_path / "t"):
        with pytest.raises(QueryError, match="one tape at a time"), client.record(tmp_path / "u"):
            pass
        client.coins()
    assert not (tmp_path / "u").exists()
    assert [one.ask["ask"] for one in entries(tmp_path / "t")] == ["coins"]


@pytest.mark.slow
def test_a_study_that_fails_is_on_the_tape_as_far_as_it_went(client: Any, tmp_path: Path) -> None:
    def failing() -> None:
        with client.record(tmp_path / "t"):
            client.coins()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        failing()
    (wrong,) = verify(tmp_path / "t")
    assert (
        wrong
        == f"{tmp_path / 't'}: the tape is not complete: ZeroDivisionError ended the study while it was recorded"
    )
    client.coins()
    assert len(entries(tmp_path / "t")) == 1
    assert tidytape.Client.replay(tmp_path / "t").coins() == client.coins()


@pytest.mark.slow
def test_asyncio_records_too(lake: Lake, tmp_path: Path) -> None:
    async def record() -> list[str]:
        async with tidytape.AsyncClient.local(lake.path) as client, client.record(tmp_path / "t"):
            return await client.coins()

    coins = asyncio.run(record())
    assert verify(tmp_path / "t") == []
    assert tidytape.Client.replay(tmp_path / "t").coins() == coins


@pytest.mark.slow
def test_a_damaged_entry_is_named(client: Any, tmp_path: Path) -> None:
    with client.record(tmp_path / "t"):
        client.coins()
        client.candles(**DAY)
    damaged = (tmp_path / "t" / "2.arrow").read_bytes().replace(b"BTC", b"BTD")
    (tmp_path / "t" / "2.arrow").write_bytes(damaged + b" ")
    with tidytape.Client.replay(tmp_path / "t") as replayed:
        assert replayed.coins() == client.coins()
        with pytest.raises(
            TapeError, match="entry 2 is damaged: its bytes are not those that were rec"
        ) as caught:
            replayed.candles(**DAY)
    assert caught.value.entries == (2,)
    assert [one.number for one in entries(tmp_path / "t")] == [1, 2]


@pytest.mark.slow
def test_a_plan_is_what_a_fetch_then_does(client: Any) -> None:
    for method in ("candles", "tpo", "book_heatmap", "liquidations"):
        asked = getattr(client.query, method)(**DAY | {"interval": "1m", "end": S0 + 20 * 86_400})
        plan, told = client.plan(asked), client.fetch(asked).metadata
        assert (plan.weight, len(plan.requests)) == (told.weight, told.requests)
        assert str(plan).startswith(f"{told.requests} request")
        shown = plan._repr_html_()
        assert f"weight {plan.weight}" in shown
        assert shown.count("<tr>") == 1 + min(10, told.requests)
    assert client.usage().used > 0


@pytest.mark.slow
def test_parts_are_the_whole(client: Any, lake: Lake, tmp_path: Path) -> None:
    asked = client.query.book_heatmap(**DAY | {"interval": "1m", "end": S0 + 20 * 86_400, "max_depth": 2})
    whole = client.fetch(asked).frame
    parts = list(client.iter_frames(asked))
    assert len(parts) == len(client.plan(asked).requests) > 1
    assert pl.concat(parts).sort(whole.columns).equals(whole.sort(whole.columns))
    told = client.to_parquet(asked, tmp_path / "book.parquet")
    assert (told.rows, told.requests) == (whole.height, len(parts))
    written = pl.read_parquet(tmp_path / "book.parquet")
    assert written.schema == whole.schema
    assert written.equals(pl.concat(parts))
    assert pl.concat([written, whole]).height == 2 * whole.height
    key = [name for name, dtype in whole.schema.items() if dtype == pl.Categorical]
    assert (
        written.unique(key).join(whole.unique(key), on=key, nulls_equal=True).height
        == whole.unique(key).height
    )
    in_pandas = pd.read_parquet(tmp_path / "book.parquet")
    assert {name for name in in_pandas if in_pandas[name].dtype == "category"} == set(key)

    async def again() -> list[pl.DataFrame]:
        async with tidytape.AsyncClient.local(lake.path) as other:
            return [frame async for frame in other.iter_frames(asked)]

    assert all(one.equals(other) for one, other in zip(parts, asyncio.run(again()), strict=True))


@pytest.mark.slow
def test_parts_come_newest_first_where_that_is_asked(client: Any) -> None:
    asked = client.query.book_heatmap(
        sort_direction="desc", **DAY | {"interval": "1m", "end": S0 + 20 * 86_400, "max_depth": 2}
    )
    starts = [one["timestamp"][0] for one in client.iter_frames(asked) if one.height]
    assert starts == sorted(starts, reverse=True)


@pytest.mark.filterwarnings("ignore::tidytape.errors.EmptyAnswerWarning")
def test_a_file_that_could_not_be_finished_is_not_there(client: Any, tmp_path: Path) -> None:
    asked = client.query.candles(**DAY | {"coin": "NOPE"})
    with pytest.raises(QueryError):
        client.to_parquet(asked, tmp_path / "none.parquet")
    assert list(tmp_path.iterdir()) == []
    told = client.to_parquet(
        client.query.candles(**DAY | {"start": 0, "end": 600}), tmp_path / "empty.parquet"
    )
    assert told.rows == 0
    assert "close" in pl.read_parquet(tmp_path / "empty.parquet").columns


def test_a_file_that_cannot_be_is_refused_before_anything_is_sent(client: Any, tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "nowhere" / "x.parquet", tmp_path / "x.csv"):
        with pytest.raises(QueryError, match="path: "):
            client.to_parquet(client.query.candles(**DAY), path)
    assert client.usage().used == 0


def test_what_is_no_query_is_refused(client: Any) -> None:
    frame = pl.DataFrame({"close": [1.0, 2.0]})
    for wrong, called in {
        "candles": "'candles'", "none": None, "frame": "a DataFrame", "dict": "a dict", "list": "an empty list",
        "frames": "a list with a DataFrame",
    }.items():  # fmt: skip
        given = {"none": None, "frame": frame, "dict": DAY, "list": [], "frames": [frame]}.get(wrong, wrong)
        for use in (client.plan, client.fetch):
            with pytest.raises(QueryError) as caught:
                use(given)
            assert str(caught.value) == (
                f"query: got {called}, expected what a method of client.query returns, e.g. client.query.candles(...), "
                "or a PointsQuery"
            )
