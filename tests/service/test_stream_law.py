"""The law of streams: finals and revisions are history, whatever happens to the lake, the reader and the server."""

from __future__ import annotations

import asyncio
import os
import tempfile
from operator import itemgetter
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from lakes import empty_lake
from stream_readers import Driven, registered, streams_of, trades
from tidytape.lake import Lake, hygiene
from tidytape.lake.rollup import rollup
from tidytape.query import StreamQuery
from tidytape.service._refusals import RefusedError
from tidytape.times import MINUTE, SECOND

EXAMPLES = 8 * int(os.environ.get("TIDYTAPE_TIMES") or 1)
START = 1_723_161_600 * SECOND
TYPES = ["TRADE_SIDE_AGNOSTIC_AGG", "TRADE_AGG", "VOLUME_PROFILE_AGG"]
SYMBOLS = ["BTCUSDT", "BTCUSD"]

price = st.integers(100, 130).map(float)
amount = st.sampled_from([0.5, 1.0, 2.25])
side = st.sampled_from(["BUY", "SELL", None])
some = st.lists(st.tuples(st.integers(0, 90 * SECOND), side, price, amount), min_size=1, max_size=6)


class Streaming(RuleBasedStateMachine):
    """One lake, a server that may be replaced, and two readers: of points, and of raw trades too."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.folder = tempfile.TemporaryDirectory()
        self.number = 0
        self.now = START
        self.readers: list[Driven] = []

    def run(self, work: Any) -> Any:
        return self.loop.run_until_complete(work)

    @initialize()
    def begin(self) -> None:
        self.lake = empty_lake(f"{self.folder.name}/lake")
        registered(self.lake, *SYMBOLS)
        self._append([(0, "BUY", 100.0, 1.0)], "BTCUSDT", self.now)
        self.streams = streams_of(self.lake)
        queries = [
            StreamQuery(type=types, exchange="X", coin="BTC", interval="1m", start=START // SECOND - 600)
            for types in (TYPES, ["TRADE", "TPO_AGG"])
        ]
        self.readers = [self.run(Driven(self.streams, query).open()) for query in queries]

    def _append(self, rows: Any, symbol: str, since: int) -> None:
        listed = []
        for after, *rest in rows:
            self.number += 1
            listed.append((str(self.number), since + after, *rest))
        self.lake.writer().append("trades", trades(listed, symbol), source=f"source {self.number}")
        self.now = max(self.now, *(row[1] for row in listed))

    @rule(rows=some, symbol=st.sampled_from(SYMBOLS))
    def append(self, rows: Any, symbol: str) -> None:
        self._append(sorted(rows, key=itemgetter(0)), symbol, self.now)

    @rule(rows=some, symbol=st.sampled_from(SYMBOLS), minutes=st.integers(1, 15))
    def append_late(self, rows: Any, symbol: str, minutes: int) -> None:
        self._append(rows, symbol, self.now - minutes * MINUTE)

    @rule()
    def look(self) -> None:
        self.run(self.streams.look())

    @rule()
    def compact(self) -> None:
        hygiene.compact(self.lake, everything=True, progress=False)

    @rule()
    def roll_up(self) -> None:
        rollup(self.lake, progress=False)

    @rule(which=st.integers(0, 1))
    def stop_reading(self, which: int) -> None:
        self.readers[which].may_read.clear()

    @rule(which=st.integers(0, 1))
    def read_on(self, which: int) -> None:
        self.readers[which].may_read.set()

    @rule(which=st.integers(0, 1))
    def disconnect(self, which: int) -> None:
        """It comes back with the token of what it applied last, to the same server."""
        self._come_back([which])

    @rule()
    def restart(self) -> None:
        """Another server goes on, with nothing but the lake and the secret."""
        for reader in self.readers:
            self.run(reader.close())
        self.streams = streams_of(Lake(self.lake.path))
        self._come_back([0, 1])

    @rule()
    def vacuum(self) -> None:
        """Files of older versions go; a token that needs them is refused, and a stream that needs them ends."""
        hygiene.vacuum(self.lake, retention_hours=0, dry_run=False)

    def _come_back(self, which: list[int]) -> None:
        for number in which:
            old = self.readers[number]
            self.run(old.close())
            query = old.query.model_copy(update={"token": old.held.token})
            new = Driven(self.streams, query)
            new.held = old.held
            try:
                self.readers[number] = self.run(new.open())
            except RefusedError as error:
                if error.code != "TOKEN_EXPIRED":
                    raise
                new = Driven(self.streams, old.query.model_copy(update={"token": None}))
                self.readers[number] = self.run(new.open())

    @precondition(lambda self: self.readers)
    @invariant()
    def finals_and_revisions_are_history(self) -> None:
        self.look()
        for number, reader in enumerate(self.readers):
            if not reader.may_read.is_set():
                continue
            self.run(reader.caught_up())
            if reader.held.end is not None:
                assert reader.held.end[0] == "TOKEN_EXPIRED"
                self._come_back([number])
                self.run(self.readers[number].caught_up())
            (query,) = reader.query.window(START // SECOND - 600, self.now // SECOND + 60)
            self.readers[number].held.require_answer(self.lake, query)

    def teardown(self) -> None:
        for reader in self.readers:
            self.run(reader.close())
        self.loop.close()
        self.folder.cleanup()


Streaming.TestCase.settings = settings(
    max_examples=EXAMPLES,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
TestStreaming = pytest.mark.long(Streaming.TestCase)
