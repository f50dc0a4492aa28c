"""Readers of streams as tests drive them: without a server, one step at a time."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import polars as pl
from polars.testing import assert_frame_equal

from tidytape.budget import TIERS
from tidytape.catalogue import Change
from tidytape.lake import Lake
from tidytape.query import PointsQuery, StreamQuery
from tidytape.schema import data_type, wire_schema
from tidytape.service._accounts import Account, Key
from tidytape.service._buckets import MemoryBuckets
from tidytape.service.answer._engine import Engine
from tidytape.service.stream._part import FRAMES
from tidytape.service.stream._streams import Streams
from tidytape.service.stream._tokens import Tokens
from tidytape.service.work._bounds import Looks, Unsent
from tidytape.service.work._computing import Computing, Threads
from tidytape.wire._sessions import IN_PROGRESS
from tidytape.wire._stream import Batch
from tidytape.wire._tidy import DATA_UNTIL, identity_columns

SECRET = b"s" * 32
NEVER = 10.0**6  # seconds: a test says itself when the service looks at the lake


def streams_of(
    lake: Lake, *, every: float = NEVER, secret: bytes = SECRET, computing: Computing | None = None
) -> Streams:
    engine = Engine(lake)
    return Streams(
        engine,
        Tokens(secret),
        Looks(lake, ThreadPoolExecutor(2)),
        computing or Threads(engine),
        Unsent(),
        clock=lambda: 0,
        allowed=lambda key: True,
        every=every,
    )


def account(tier: str = "enterprise", key: str = "e") -> Account:
    return Account(Key(key, "0" * 64, tier, created=0), TIERS[tier], MemoryBuckets(clock=lambda: 0))


def point_of(name: str) -> list[str]:
    """The columns that tell points of a type apart; of levels, those of the point that they belong to."""
    kind = data_type(name)
    columns = [one for one in identity_columns(kind) if one in wire_schema(name).key_of(grouped=False)]
    return [*columns, "timestamp", *(["id"] if name == "TRADE" else [])]


class Held:
    """What a careful reader holds: each point as it was sent last, and what was final."""

    def __init__(self) -> None:
        self.points: dict[str, pl.DataFrame] = {}
        self.finals: dict[str, pl.DataFrame] = {}
        self.over: dict[str, int] = {}
        self.token: str | None = None
        self.end: tuple[str, str] | None = None
        self.batches = 0

    def apply(self, batch: Batch) -> None:
        self.batches += 1
        for (name, change), frame in batch.frames.items():
            assert frame.height
            point = point_of(name)
            seen = self.finals.get(name)
            if change is Change.FINAL:
                if (
                    seen is not None
                ):  # exactly once, in the order of time, and not after its interval was over
                    assert frame.join(seen, on=point, how="semi", nulls_equal=True).is_empty(), name
                    series = point[: point.index("timestamp")]
                    last = seen.group_by(series).agg(pl.col("timestamp").max().alias("last"))
                    first = frame.join(last, on=series, nulls_equal=True)
                    if name == "TRADE":
                        assert (first["timestamp"] >= first["last"]).all()
                if name != "TRADE":
                    assert frame["is_final"].all()
                    over = self.over.get(name, -1)
                    assert (frame["timestamp"].dt.epoch("ns") > over).all(), (name, over)
            if change is Change.UPDATE:
                assert not frame["is_final"].any()
                if seen is not None:  # what is final does not become an update again
                    assert frame.join(seen, on=point, how="semi", nulls_equal=True).is_empty(), name
            else:
                # An interval that is over may have points of a market that is not known beyond it.
                held = _replaced(seen, frame, point)
                self.finals[name] = held if name == "TRADE" else held.filter("is_final")
            self.points[name] = _replaced(self.points.get(name), frame, point)
        for name, start in batch.over.items():
            assert start > self.over.get(name, -1)
            self.over[name] = start
        self.token, self.end = batch.token, batch.end

    def require_answer(self, lake: Lake, query: PointsQuery) -> None:
        """Hold what was sent against the answer to the same query: finals and revisions are history."""
        engine = Engine(lake, keeps=False)
        for name, answer in engine.frames(query, engine.markets(query)):
            final = answer if name == "TRADE" else answer.filter("is_final")
            for sent, expected in ((self.points, answer), (self.finals, final)):
                held = sent.get(name, expected.clear())
                columns = expected.columns
                assert_frame_equal(
                    plain(held, name, columns), plain(expected, name, columns), check_exact=True
                )


def plain(frame: pl.DataFrame, name: str, columns: Sequence[str]) -> pl.DataFrame:
    aside = {"is_final", DATA_UNTIL, IN_PROGRESS}
    kept = [column for column in columns if column not in aside]
    return frame.select(kept).sort(wire_schema(name).key_of(grouped=False))


def _replaced(held: pl.DataFrame | None, frame: pl.DataFrame, point: list[str]) -> pl.DataFrame:
    if held is None:
        return frame
    return pl.concat([held.join(frame, on=point, how="anti", nulls_equal=True), frame], how="diagonal")


class Driven:
    """One reader, whose deliveries are taken when the test says so."""

    def __init__(self, streams: Streams, query: StreamQuery, who: Account | None = None) -> None:
        self.streams, self.query, self.account = streams, query, who or account()
        self.held, self.reader, self._task = Held(), None, None
        self.may_read = asyncio.Event()
        self.may_read.set()

    async def open(self) -> Driven:
        self.reader = await self.streams.open(self.query, self.account, {"id": "x"}, form=FRAMES)
        self._task = asyncio.create_task(self._read())
        return self

    async def _read(self) -> None:
        async for delivery in self.reader.deliveries():
            await self.may_read.wait()
            batch = delivery.batch
            if delivery.answer is not None:
                batch = replace(batch, frames=pickle.loads(b"".join(delivery.answer.parts())))
            self.held.apply(batch)

    async def caught_up(self) -> None:
        """Wait until it has taken all that there is."""
        feed = self.reader.feed
        for _ in range(3_000):
            if self._task.done():
                self._task.result()
                return
            if self.reader.position.place == feed.place and self.reader.position.is_whole:
                await asyncio.sleep(0)
                await asyncio.sleep(0)
                if self.reader.position.place == feed.place:
                    return
            await asyncio.sleep(0.002)
        raise AssertionError("the reader does not catch up")

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self.streams.leave(self.reader, self.account)
            self._task = None


def trades(
    rows: Iterable[tuple[str, int, str | None, float, float]], symbol: str = "BTCUSDT"
) -> pl.DataFrame:
    """Rows of (id, ns, side, price, amount)."""
    listed: list[dict[str, Any]] = [
        {
            "exchange": "X", "raw_symbol": symbol, "id": name, "timestamp": time, "sequence": int(name), "side": side,
            "price": price, "amount": amount, "quote_amount": price * amount, "received": None,
        }
        for name, time, side, price, amount in rows
    ]  # fmt: skip
    return pl.DataFrame(listed, schema_overrides={"received": pl.Int64})


def registered(lake: Lake, *symbols: str) -> None:
    market = {
        "exchange": "X",
        "coin": "BTC",
        "quote_coin": "USDT",
        "category": "SPOT",
        "block_size": 5.0,
        "tenor": None,
    }
    names = [
        {**market, "tenor": None, "raw_symbol": symbol, "normalized_symbol": symbol} for symbol in symbols
    ]
    lake.writer().register(pl.DataFrame(names, schema_overrides={"tenor": pl.String}))
