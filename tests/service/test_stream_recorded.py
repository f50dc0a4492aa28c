"""Streams of the recorded log of a perpetual, as its events go into a lake bit by bit."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from stream_readers import Driven, Held, streams_of
from tidytape.lake import Lake
from tidytape.lake.ingest import Market, ingest
from tidytape.query import StreamQuery
from tidytape.times import SECOND

pytestmark = pytest.mark.slow

TYPES = {
    "candles": ["TRADE_SIDE_AGNOSTIC_AGG", "TRADE_AGG"],
    "volume profile": ["VOLUME_PROFILE_AGG"],
    "market profile": ["TPO_AGG"],
    "book": ["BLOCK_BOOK_SNAPSHOT_AGG"],
    "trades": ["TRADE"],
}
TABLES = ("trades", "book")


@pytest.fixture(scope="module")
def whole(recorded: Path, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    lake = Lake.create(tmp_path_factory.mktemp("streamed") / "whole")
    ingest(recorded / "binance-usdm_ws_btcusdt_20240808.gz", lake, market=Market(exchange="USDM"))
    return lake


def parts(whole: Lake, number: int, *, seed: int) -> Iterator[dict[str, pl.DataFrame]]:
    """Cut the events at random times; a tenth of the trades arrives late, some of them long after."""
    rows = {name: whole.scan(name).collect().sort("timestamp", "sequence") for name in TABLES}
    first = min(frame["timestamp"].min() for frame in rows.values())  # type: ignore[type-var]
    last = max(frame["timestamp"].max() for frame in rows.values())  # type: ignore[type-var]
    chance = random.Random(seed)
    cuts = [first, *sorted(chance.sample(range(first, last), number - 1)), last + 1]  # type: ignore[arg-type]
    trades = rows["trades"]
    late = pl.Series([chance.choice([0] * 9 + [chance.randrange(3)]) for _ in range(trades.height)])
    arrives = pl.Series(cuts[1:]).search_sorted(trades["timestamp"], side="right") + late
    for step, (start, end) in enumerate(pairwise(cuts)):
        arrived = arrives == step if step < number - 1 else arrives >= step
        book = rows["book"].filter(pl.col("timestamp") >= start, pl.col("timestamp") < end)
        yield {"trades": trades.filter(arrived), "book": book}


def grown(whole: Lake, path: Path) -> Lake:
    lake = Lake.create(path)
    lake.writer().register(whole.markets())
    return lake


def query_of(whole: Lake, types: list[str], **more: Any) -> StreamQuery:
    market = whole.markets().row(0, named=True)
    first = whole.extent("trades", market["exchange"], market["raw_symbol"])[0]
    assert first is not None
    return StreamQuery(
        type=types,
        exchange=market["exchange"],
        raw_symbol=market["raw_symbol"],
        interval="1m",
        start=first // SECOND - 60,
        **more,
    )


@pytest.mark.parametrize(
    "types",
    [
        pytest.param(types, id=name, marks=[] if name == "candles" else pytest.mark.long)
        for name, types in TYPES.items()
    ],
)
def test_finals_and_revisions_are_the_historical_answer(
    whole: Lake, tmp_path: Path, types: list[str]
) -> None:
    lake, query = grown(whole, tmp_path / "lake"), query_of(whole, types)

    async def read() -> Held:
        streams, reader = streams_of(lake), None
        for step, rows in enumerate(parts(whole, 16, seed=1)):
            for name, frame in rows.items():
                if frame.height:
                    lake.writer().append(name, frame, source=str(step))
            reader = reader or await Driven(streams, query).open()
            await streams.look()
            await reader.caught_up()
        assert reader is not None
        await reader.close()
        return reader.held

    held = asyncio.run(read())
    (window,) = query.window(query.start or 0, (query.start or 0) + 3_600)
    held.require_answer(lake, window)
    assert held.batches > 10


@pytest.mark.parametrize(
    "types",
    [
        pytest.param(TYPES["candles"], id="candles"),
        pytest.param(TYPES["trades"], id="trades", marks=pytest.mark.long),
    ],
)
def test_a_server_that_is_replaced_at_every_batch_loses_and_repeats_nothing(
    whole: Lake, tmp_path: Path, types: list[str]
) -> None:
    lake, held = grown(whole, tmp_path / "lake"), Held()
    query = query_of(whole, types)

    async def read_one() -> bool:
        """Take one batch from a new server, which then is gone; return whether there was one."""
        reader = Driven(streams_of(Lake(lake.path)), query.model_copy(update={"token": held.token}))
        reader.held = held
        before = held.batches
        await reader.open()
        for _ in range(2_000):
            if held.batches > before or reader.reader.position.place == reader.reader.feed.place:
                break
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.005)
        await reader.close()
        return held.batches > before

    for step, rows in enumerate(parts(whole, 12, seed=2)):
        for name, frame in rows.items():
            if frame.height:
                lake.writer().append(name, frame, source=str(step))
        while asyncio.run(read_one()):
            pass
    (window,) = query.window(query.start or 0, (query.start or 0) + 3_600)
    held.require_answer(lake, window)
