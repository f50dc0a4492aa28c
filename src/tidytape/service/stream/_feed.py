"""A feed: the live part of a query, computed once for all of its readers."""

from __future__ import annotations

import asyncio
import pickle
import time
from collections import deque
from collections.abc import Callable, Coroutine, Hashable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from tidytape.lake import LakeReader
from tidytape.query import PointsQuery
from tidytape.service.answer._engine import Engine
from tidytape.service.answer._estimate import Estimate
from tidytape.service.answer._plans import tables_read
from tidytape.service.stream._changes import Difference, Remainder, next_part, whole_difference
from tidytape.service.stream._moments import Moment, over
from tidytape.service.stream._part import FRAMES, PartTask
from tidytape.service.stream._tokens import Position
from tidytape.service.work._bounds import Looks
from tidytape.service.work._computing import Computing
from tidytape.times import SECOND
from tidytape.wire._stream import Batch

R = TypeVar("R")

_KEPT_ROWS = 10_000  # rows of the last batches that stay in memory
_KEPT_SECONDS = 1.0


@dataclass(eq=False)
class Sent:
    """A batch that a feed offers to all its readers.

    Attributes
    ----------
    batch : Batch
        Without a token: each reader has its own.
    before, position : Position
        The position of a reader before it takes the batch, and after it.
    first : int or None
        Its first time; None without rows. [ns since the epoch]
    made_at : float
        When it was made. [s, monotonic]
    total : int
        How many rows the feed has made so far, those of this batch included.
    texts : dict
        The batch in each form that a reader asked for, as the work that writes it once.
    """

    batch: Batch
    before: Position
    position: Position
    first: int | None
    made_at: float = field(default_factory=time.monotonic)
    total: int = 0
    texts: dict[str, asyncio.Future[bytes]] = field(default_factory=dict)


@dataclass(eq=False, slots=True)
class _Shared:
    """Work that several readers wait for."""

    task: asyncio.Task[Any]
    readers: int = 0


class Feed:
    """The live part of a query.

    Parameters
    ----------
    engine : Engine
        Answers from the newest version of the lake.
    query : PointsQuery
        What is asked, of any window.
    live : Looks
        Computes and writes what is live and small.
    looks : Looks
        Reads the lake's logs for readers.
    computing : Computing
        Computes what is live and not small.
    held : mapping of str to int
        How many streams each key holds.

    Attributes
    ----------
    starts : dict
        The start of the window of each reader; it is computed from the earliest on. [s since the epoch]
    keys : dict
        The id of the key of each reader. That of them which holds the fewest streams has the turns of the feed.
    still : asyncio.Lock
        Whoever holds it keeps the feed from moving on; the feed itself holds it while it computes.
    moment : Moment
        Up to which everything is sent.
    total : int
        How many rows it has made.
    over : dict of str to int
        By data type the start of the last interval that was said to be over to any reader. [ns since the epoch]
    place : tuple
        Where a reader stands that has taken everything.
    failure : Exception or None
        Why it ended.
    """

    def __init__(
        self,
        engine: Engine,
        query: PointsQuery,
        live: Looks,
        looks: Looks,
        computing: Computing,
        *,
        held: Mapping[str, int],
    ) -> None:
        self._engine, self._live, self._looks, self.computing = engine, live, looks, computing
        self._held = held
        self.query = query
        self.tables = tables_read(query)
        self.starts: dict[object, int] = {}
        self.keys: dict[object, str] = {}
        self.moment: Moment | None = None
        self.total = 0
        self.place: tuple[object, ...] = ()
        self.failure: Exception | None = None
        self.over: Mapping[str, int] = {}
        self._sent: deque[Sent] = deque()
        self._by_place: dict[object, Sent] = {}
        self._changed = asyncio.Event()
        self._shared: dict[Hashable, _Shared] = {}
        self.still = asyncio.Lock()

    async def run(self, work: Callable[..., R], *args: Any, key: str | None = None) -> R:
        """Run a function in a thread: a look-up for a key, or a small live step."""
        if key is not None:
            return await self._looks.run(key, work, *args)
        return await self._live.run(self._key, work, *args)

    @property
    def _key(self) -> str:
        return min(self.keys.values(), key=self._held.__getitem__, default="")

    # --- the lake -------------------------------------------------------------------------------------------------

    def versions(self, moment: Moment) -> dict[str, int]:
        """Return the versions of the tables that the query depends on."""
        return {name: moment.versions.get(name, -1) for name in self.tables}

    def look(self) -> None:
        """Raise LakeError if the newest version of the lake cannot be looked at."""
        self._engine.lake.now().version()

    def moment_at(self, versions: Mapping[str, int]) -> Moment:
        """Return the lake at some versions; it may read logs."""
        if self.moment is not None and self.versions(self.moment) == versions:
            return self.moment
        return self._moment(self._engine.lake.at(versions))

    def _moment(self, lake: LakeReader) -> Moment:
        return Moment(self._engine.at(lake, keeps=False))

    async def step(self, lake: LakeReader) -> None:
        """Compute what changed in the lake, up to one moment of it."""
        async with self.still:
            await self.moved(lake)

    async def moved(self, lake: LakeReader, *, key: str | None = None) -> Moment:
        """Compute what changed in the lake, for a caller who holds `still`; return the moment that it reaches.

        ``key`` is that of the reader who needs it now, whose look-ups they are.
        """
        now = self._moment(lake)
        if self.moment is None:
            self.moment, self.over = now, await self.run(self._over_at, now, key=key)
            self.place = Position(self.versions(now), None, None, 0).place
        if not self.is_behind(now.versions):
            return self.moment
        before = Position(self.versions(self.moment), None, None, 0, self.over)
        position = before.towards(self.versions(now))
        start = min(self.starts.values(), default=0)
        remainder, estimate = await self.begun(position, since=self.moment, now=now, start=start, end=None)
        while not position.is_whole:
            part, remainder = await self._part(remainder, estimate, position, self.moment, now)
            after = position.after(part.until, part.over, is_last=part.is_last)
            if part.is_last:
                self.over, self.moment = after.over, now
            if part.frames or part.is_last:
                self._publish(part, before, after)
                before = after
            position = after
        return now

    async def _part(
        self, remainder: Remainder, estimate: Estimate, position: Position, since: Moment, now: Moment
    ) -> tuple[Difference, Remainder]:
        """Compute the next part of what is live: in the threads of its own lane, or like an answer if it is large."""
        if estimate.is_probably_small:
            return await self.run(next_part, remainder, since, now)
        task = PartTask(
            remainder,
            position,
            FRAMES,
            None,
            (since, now),
            key=self._key,
            heavy=estimate.is_heavy,
        )
        answer = await self.computing.run(task)
        frames = await self.run(pickle.loads, b"".join(answer.parts()))
        after = answer.position
        until = position.start if after.until is None else after.until
        return Difference(frames, until, after.over, is_last=after.is_whole), answer.remainder

    def is_behind(self, versions: Mapping[str, int]) -> bool:
        """Return whether a table that the query depends on has a newer version than the feed has reached."""
        moment = self.moment
        return moment is None or any(
            versions.get(name, -1) > moment.versions.get(name, -1) for name in self.tables
        )

    def _over_at(self, moment: Moment) -> dict[str, int]:
        return over(self.query, moment.engine.markets(self.query, rates=False), moment)

    async def begun(
        self,
        position: Position,
        *,
        since: Moment | None,
        now: Moment,
        start: int,
        end: int | None,
        key: str | None = None,
    ) -> tuple[Remainder, Estimate]:
        """Return what is left of a difference after a position, and what an answer takes that has all of it."""
        first = start if position.until is None else max(start, position.until)

        def begin() -> tuple[Remainder, Estimate]:
            remainder = whole_difference(
                self.query,
                since=since,
                now=now,
                start=first,
                end=end,
                already=position.over,
                ends=self._over_at(now),
            )
            return remainder, remainder.estimate(now.lake)

        return await self.run(begin, key=key)

    # --- readers --------------------------------------------------------------------------------------------------

    def after(self, position: Position) -> Sent | None:
        """Return the next batch for a reader at a position; None if the feed has none that follows on it."""
        return self._by_place.get(position.place)

    @property
    def oldest(self) -> Sent | None:
        """The oldest batch that it keeps."""
        return self._sent[0] if self._sent else None

    async def once(self, name: Hashable, work: Callable[[], Coroutine[Any, Any, R]]) -> R:
        """Do work that has a name; readers who need it while it is done share it, and it ends with the last of them."""
        if (shared := self._shared.get(name)) is None:
            shared = self._shared[name] = _Shared(asyncio.create_task(work()))
        shared.readers += 1
        try:
            return await asyncio.shield(shared.task)
        finally:
            shared.readers -= 1
            if not shared.readers:
                del self._shared[name]
                shared.task.cancel()

    async def changed(self, timeout: float) -> None:
        """Wait for the next batch, at most some seconds."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._changed.wait(), timeout)

    def wake(self) -> None:
        """Wake all readers that wait."""
        self._changed.set()
        self._changed = asyncio.Event()

    def _publish(self, part: Difference, before: Position, after: Position) -> None:
        batch = Batch(part.frames, before.moved(part.over))
        self.total += batch.rows
        sent = Sent(batch, before, after, _first_of(part), total=self.total)
        self._sent.append(sent)
        self._by_place[before.place], self.place = sent, after.place
        rows = sum(sent_.batch.rows for sent_ in self._sent)
        while len(self._sent) > 1 and (
            rows > _KEPT_ROWS or self._sent[0].made_at < sent.made_at - _KEPT_SECONDS
        ):
            oldest = self._sent.popleft()
            rows -= oldest.batch.rows
            del self._by_place[oldest.before.place]
        self.wake()


def within(batch: Batch, start: int, end: int | None, already: Mapping[str, int]) -> Batch:
    """Return the part of a batch that lies in a window [s since the epoch], without ends that ``already`` were sent."""
    frames = {}
    for key, frame in batch.frames.items():
        times = frame["timestamp"].to_physical()
        inside = times >= start * SECOND
        if end is not None:
            inside &= times < end * SECOND
        if (rows := frame.filter(inside)).height:
            frames[key] = rows
    over = {name: at if end is None else min(at, (end - 1) * SECOND) for name, at in batch.over.items()}
    moved = {name: at for name, at in over.items() if at >= start * SECOND and at > already.get(name, -1)}
    return replace(batch, frames=frames, over=moved)


def _first_of(part: Difference) -> int | None:
    """Return the time of the first point of a part; None if it has no points. [ns since the epoch]"""
    times = (frame["timestamp"].to_physical().min() for frame in part.frames.values())
    return min(times, default=None)  # type: ignore[type-var, return-value]  # ints
