"""One reader of a stream: history first, then what its feed has, from wherever it stands."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Hashable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain

from tidytape.catalogue import StreamEnd
from tidytape.errors import LakeError, QueryError
from tidytape.service.stream._feed import Feed, Sent, within
from tidytape.service.stream._moments import after, known_beyond
from tidytape.service.stream._part import ARROW, SHARED_TEXTS, PartAnswer, PartTask, own_text
from tidytape.service.stream._tokens import Position
from tidytape.service.work._bounds import Unsent
from tidytape.service.work._computing import PART, OverloadedError, in_parts
from tidytape.times import SECOND
from tidytape.wire._stream import Batch

HEARTBEAT = 15.0
"""Longest time between two batches of a stream; one without rows says that the service is alive. [s]"""

# If the next batch is older than this, the reader gets one difference, from its position to the newest points, in place
# of the batches between. [s]
_LATE = 1.0
_MOST_TRADES = 100_000  # rows that a reader of raw trades may be behind before it is cut
_PART, _SMALL_PART = 4 << 20, 16 << 10  # bytes of a part at most and at least, about: its rows are bounded
_BYTES_PER_ROW = 512  # of a part, about
_CHECK = 1.0  # seconds between two looks at whether the stream has ended, while a part is computed


@dataclass(frozen=True, slots=True)
class Delivery:
    """What a reader sends next.

    Attributes
    ----------
    batch : Batch
        With its token.
    sent : Sent or None
        The batch of the feed that it is, whose texts may be shared; None if it is this reader's own.
    answer : PartAnswer or None
        The part of a difference that it is, with the rows of the batch; None if these are live.
    """

    batch: Batch
    sent: Sent | None = None
    answer: PartAnswer | None = None

    @property
    def rows(self) -> int:
        """The number of its rows."""
        return self.batch.rows if self.answer is None else self.answer.rows


class Reader:
    """A stream that one caller reads.

    Parameters
    ----------
    feed : Feed
        The live part of its query.
    end : int or None
        End of its window. [s since the epoch]
    key : str
        Id of its caller's key.
    form : str
        How its batches are written, see `tidytape.service.stream._part`.
    unsent : Unsent
        Counts its parts until they are sent.
    gate : asyncio.Semaphore
        Bounds how many parts of its key wait to be computed, so that they do not fill the queue.
    ended : callable
        Returns why the service ends the stream, None to go on.
    count : callable
        Called with ``"conflated"`` and the number of rows that a difference replaced, and with ``"cut"``.

    Attributes
    ----------
    position : Position
        Where it stands after what was taken from `deliveries` last.
    form : str
        As given.
    write_token : callable
        Returns the token of a position.
    weight : int
        What the history took from the budget.
    first : tuple of PartTask and PartAnswer, or None
        The first part, which was computed before the stream was open, until it is sent.
    unsent : Unsent
        As given.
    """

    position: Position
    write_token: Callable[[Position], str]

    def __init__(
        self,
        feed: Feed,
        *,
        end: int | None,
        key: str,
        form: str,
        unsent: Unsent,
        gate: asyncio.Semaphore,
        ended: Callable[[], tuple[str, str] | None],
        count: Callable[[str, int], None],
    ) -> None:
        self.feed, self.weight, self._heartbeat = feed, 0, HEARTBEAT
        self._end, self._key, self.form, self.unsent = end, key, form, unsent
        self._gate, self._ended, self._count = gate, ended, count
        self.first: tuple[PartTask, PartAnswer] | None = None
        self._total: int | None = None
        self._sent_at = time.monotonic()

    @property
    def waits_since(self) -> float | None:
        """When the feed made the oldest batch that this reader has not taken; None without any. [s, monotonic]"""
        waiting = self.feed.after(self.position)
        if waiting is None and self.position.place != self.feed.place:
            waiting = self.feed.oldest
        return None if waiting is None else waiting.made_at

    async def deliveries(self) -> AsyncIterator[Delivery]:
        """Yield batches to send; the last one says why the service ends the stream, if it does."""
        try:
            async for delivery in self._deliveries():
                self._sent_at = time.monotonic()
                yield delivery
        except LakeError:
            try:
                await self.feed.run(self.feed.look, key=self._key)
            except LakeError:
                message = "the lake cannot be read now; resume with the token"
                yield self.last(StreamEnd.INTERNAL_ERROR, message)
            else:
                message = "what the stream goes on from was removed from the lake"
                yield self.last(StreamEnd.TOKEN_EXPIRED, message)
        except QueryError as error:
            yield self.last(StreamEnd.INTERNAL_ERROR, str(error))

    async def _deliveries(self) -> AsyncIterator[Delivery]:
        feed = self.feed
        while True:
            if (reason := self._ended()) is not None:
                yield self.last(*reason)
                return
            if feed.failure is not None:
                # A caller who resumes with the token learns whether the stream can go on.
                yield self.last(
                    StreamEnd.INTERNAL_ERROR, "the stream could not be computed; resume with the token"
                )
                return
            if self.position.is_whole and await self._is_over():
                yield self.last(StreamEnd.PERIOD_OVER, "everything up to the end of the period is final")
                return
            sent = feed.after(self.position)
            if sent is not None and (self._takes_all or time.monotonic() - sent.made_at <= _LATE):
                if (delivery := self._delivered(sent)) is not None:
                    yield delivery
            elif self._has_all:
                waited = time.monotonic() - self._sent_at
                if waited >= self._heartbeat:
                    yield Delivery(self._with_token(Batch()))
                else:
                    await feed.changed(self._heartbeat - waited)
            else:
                if self._is_cut:
                    self._count("cut", 1)
                    yield self.last(StreamEnd.SLOW_READER, f"more than {_MOST_TRADES:,} trades were waiting")
                    return
                async for delivery in self._difference():
                    yield delivery

    @property
    def _takes_all(self) -> bool:
        """Whether it takes every batch of the feed: raw trades have nothing to conflate."""
        return any(data_type.interval_optional for data_type in self.feed.query.data_types)

    @property
    def _is_current(self) -> bool:
        """Whether everything was sent up to the moment of the feed."""
        moment = self.feed.moment
        return (
            self.position.is_whole and moment is not None and self.feed.versions(moment) == self.position.at
        )

    @property
    def _has_all(self) -> bool:
        """Whether it has to wait: it has taken every batch, or the feed is computing the next one."""
        return self.position.place == self.feed.place or self._is_current

    @property
    def _is_cut(self) -> bool:
        return self._takes_all and self._total is not None and self.feed.total - self._total > _MOST_TRADES

    async def _is_over(self) -> bool:
        moment, end = self.feed.moment, self._end
        if moment is None or end is None or not self._is_current:
            return False
        # The last interval that starts in the window may end after it.
        query = self.feed.query
        return await self.feed.run(known_beyond, query, moment, after(query, end - 1) * SECOND, key=self._key)

    def _delivered(self, sent: Sent) -> Delivery | None:
        """Take a batch of the feed, and return its part that lies in the window; None if there is none."""
        start = self.position.start
        times = [time for time in (sent.first, *sent.batch.over.values()) if time is not None]
        is_inside = self._end is None and all(time >= start * SECOND for time in times)
        over = self.position.over
        is_new = all(time > over.get(name, -1) for name, time in sent.batch.over.items())
        batch = sent.batch if is_inside and is_new else within(sent.batch, start, self._end, over)
        self.position = replace(sent.position, start=start, over={**over, **sent.position.over})
        self._total, self.first = sent.total, None
        if not batch.frames and not batch.over:
            return None
        return Delivery(self._with_token(batch), sent if batch is sent.batch else None)

    async def begun(self) -> PartTask:
        """Return the task of the next part of the difference between its position and that of the feed."""
        feed, position, key = self.feed, self.position, self._key
        if position.is_whole:
            assert feed.moment is not None
            if self._total is not None and not self._takes_all:
                self._count("conflated", feed.total - self._total)
            self.position = position = position.towards(feed.versions(feed.moment))

        async def begin() -> PartTask:
            since = (
                None if position.since is None else await feed.run(feed.moment_at, position.since, key=key)
            )
            now = await feed.run(feed.moment_at, position.at, key=key)
            remainder, estimate = await feed.begun(
                position, since=since, now=now, start=position.start, end=self._end, key=key
            )
            return PartTask(
                remainder,
                position,
                self.form,
                self.write_token,
                (since, now),
                key=key,
                heavy=estimate.is_heavy,
                small=estimate.is_small,
                size=min(_PART, max(_SMALL_PART, _BYTES_PER_ROW * estimate.made)),
            )

        # A copy: whether it has begun decides what the caller of this reader pays.
        return replace(await feed.once(("begun", self._place), begin))

    @property
    def _place(self) -> Hashable:
        """What is the same for all readers of its key that are sent the same next part."""
        position = self.position
        over = tuple(sorted(position.over.items()))
        return self._key, self.form, position.place, position.start, self._end, over

    async def computed(self, task: PartTask, *, shared: bool = False) -> PartAnswer:
        """Return a part, whose bytes count until the next one; it may be shared with readers who need the same one."""

        async def run() -> PartAnswer:
            async with self._gate:
                return await self.feed.computing.run(task)

        self.unsent.release(self)
        await self.unsent.take(self, self._key, task.size)
        answer = await (self.feed.once(("part", self._place), run) if shared else run())
        self.unsent.resize(self, answer.size)
        return answer

    async def _difference(self) -> AsyncIterator[Delivery]:
        """Yield the difference between its position and that of the feed, history first."""
        (task, answer), self.first = self.first or (await self.begun(), None), None
        while answer is not None or (answer := await self._unless_ended(task)) is not None:
            self.position = answer.position
            if answer.rows or answer.batch.over:
                yield Delivery(answer.batch, answer=answer)
            if self.position.is_whole:
                self._total = self.feed.total
                break
            task, answer = (
                replace(task, remainder=answer.remainder, position=answer.position, begun=False),
                None,
            )
        self.unsent.release(self)

    async def _unless_ended(self, task: PartTask) -> PartAnswer | None:
        """Return a part; None if the service ends the stream before it is there."""
        while True:
            computing = asyncio.ensure_future(self.computed(task, shared=True))
            try:
                while self._ended() is None:
                    if (await asyncio.wait({computing}, timeout=_CHECK))[0]:
                        return computing.result()
                return None
            except OverloadedError:  # too many tasks wait: this one waits here
                await asyncio.sleep(_CHECK)
            finally:
                computing.cancel()

    async def texts(self, delivery: Delivery) -> Iterator[bytes]:
        """Return what is sent of a delivery, in parts; it is written outside of the event loop. [byte]"""
        if delivery.answer is not None:
            return delivery.answer.parts()
        batch, sent, write = delivery.batch, delivery.sent, SHARED_TEXTS[self.form]
        shared = {} if sent is None else sent.texts
        if self.form not in shared:
            shared[self.form] = asyncio.ensure_future(self.feed.run(write, batch))
        text = await asyncio.shield(shared[self.form])
        write_own = partial(own_text, self.form, batch, self.feed.query.type[0])
        own_part = await self.feed.run(write_own) if self.form == ARROW else write_own()
        if len(text) < PART:  # a small delivery is sent in one piece
            return in_parts(text + own_part)
        return chain(in_parts(text), in_parts(own_part))

    def beat_every(self, seconds: float) -> None:
        """Send a heartbeat so often from now on. [s]"""
        if seconds < self._heartbeat:
            self._heartbeat = seconds
            self.feed.wake()

    def _with_token(self, batch: Batch) -> Batch:
        return replace(batch, token=self.write_token(self.position))

    def last(self, code: str, message: str) -> Delivery:
        """Return the last delivery of the stream: why it ends, and the token of its position."""
        return Delivery(self._with_token(Batch(end=(code, message))))
