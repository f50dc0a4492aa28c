"""One reader of a stream: history first, then what its feed has, from wherever it stands."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from typing import Any

from tidytape.catalogue import StreamEnd
from tidytape.errors import LakeError, QueryError
from tidytape.service.stream._changes import TooMuchError
from tidytape.service.stream._feed import Feed, Sent, within
from tidytape.service.stream._moments import Moment, after, known_beyond
from tidytape.service.stream._tokens import Position
from tidytape.times import SECOND
from tidytape.wire._stream import Batch

HEARTBEAT = 15.0
"""Longest time between two batches of a stream; one without rows says that the service is alive. [s]"""

_LATE = 1.0  # seconds of data that a reader may be behind before it gets the difference instead
_MOST_TRADES = 100_000  # rows that a reader of raw trades may be behind before it is cut


@dataclass(frozen=True, slots=True)
class Delivery:
    """What a reader sends next.

    Attributes
    ----------
    batch : Batch
        With its token.
    sent : Sent or None
        The batch of the feed that it is, whose texts may be shared; None if it is this reader's own.
    """

    batch: Batch
    sent: Sent | None = None


class Reader:
    """A stream that one caller reads.

    Parameters
    ----------
    feed : Feed
        The live part of its query.
    end : int or None
        End of its window. [s since the epoch]
    ended : callable
        Returns why the service ends the stream, None to go on.
    count : callable
        Called with ``"conflated"`` and the number of rows that a difference replaced, and with ``"cut"``.

    Attributes
    ----------
    position : Position
        Where it stands after what was taken from `deliveries` last.
    write_token : callable
        Returns the token of a position.
    weight : int
        What the history took from the budget.
    """

    position: Position
    write_token: Callable[[Position], str]

    def __init__(
        self,
        feed: Feed,
        *,
        end: int | None,
        ended: Callable[[], tuple[str, str] | None],
        count: Callable[[str, int], None],
    ) -> None:
        self.feed, self.weight = feed, 0
        self._end, self._ended, self._count = end, ended, count
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
            yield self.last(StreamEnd.TOKEN_EXPIRED, "what the stream goes on from was removed from the lake")
        except (QueryError, TooMuchError) as error:
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
                if waited >= HEARTBEAT:
                    yield Delivery(self._with_token(Batch()))
                else:
                    await feed.changed(HEARTBEAT - waited)
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
        return await self.feed.run(known_beyond, query, moment, after(query, end - 1) * SECOND)

    def _delivered(self, sent: Sent) -> Delivery | None:
        """Take a batch of the feed, and return its part that lies in the window; None if there is none."""
        start = self.position.start
        times = [time for time in (sent.first, *sent.batch.over.values()) if time is not None]
        is_inside = self._end is None and all(time >= start * SECOND for time in times)
        over = self.position.over
        is_new = all(time > over.get(name, -1) for name, time in sent.batch.over.items())
        batch = sent.batch if is_inside and is_new else within(sent.batch, start, self._end, over)
        self.position = replace(sent.position, start=start, over={**over, **sent.position.over})
        self._total = sent.total
        if not batch.frames and not batch.over:
            return None
        return Delivery(self._with_token(batch), sent if batch is sent.batch else None)

    async def _difference(self) -> AsyncIterator[Delivery]:
        """Yield the difference between its position and that of the feed, history first."""
        feed, position = self.feed, self.position
        if position.is_whole:
            assert feed.moment is not None
            if self._total is not None and not self._takes_all:
                self._count("conflated", feed.total - self._total)
            position = position.towards(feed.versions(feed.moment))
        since = None if position.since is None else await self._moment(position.since)
        now = await self._moment(position.at)
        parts = feed.parts(position, since=since, now=now, start=position.start, end=self._end, live=False)
        last = None if self._end is None else feed.query.start_of(self._end - 1) * SECOND
        async for part, ends in parts:
            over = {name: at if last is None else min(at, last) for name, at in ends.items()}
            moved = {name: at for name, at in over.items() if at > position.over.get(name, -1)}
            self.position = position = position.after(part.until, over, is_last=part.is_last)
            if part.frames or moved:
                yield Delivery(self._with_token(Batch(part.frames, moved)))
            if self._ended() is not None:
                return
        self._total = feed.total

    async def _moment(self, versions: Any) -> Moment:
        return await self.feed.run(self.feed.moment_at, versions, live=False)

    def _with_token(self, batch: Batch) -> Batch:
        return replace(batch, token=self.write_token(self.position))

    def last(self, code: str, message: str) -> Delivery:
        """Return the last delivery of the stream: why it ends, and the token of its position."""
        return Delivery(self._with_token(Batch(end=(code, message))))
