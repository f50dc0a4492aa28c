"""All streams of a service: who may open one, what it costs, and who looks at the lake for them."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from weakref import WeakValueDictionary

from tidytape.budget import weight
from tidytape.catalogue import StreamEnd
from tidytape.errors import LakeError, QueryError
from tidytape.lake import MARKETS, LakeReader
from tidytape.query import PointsQuery, StreamQuery
from tidytape.query._values import written_time
from tidytape.service._accounts import Account
from tidytape.service._answering import charged, require_tier
from tidytape.service._refusals import RefusedError
from tidytape.service.answer._engine import Engine
from tidytape.service.stream._feed import Feed
from tidytape.service.stream._moments import newest_data_time, require_files, versions_of
from tidytape.service.stream._part import LINES
from tidytape.service.stream._reader import Reader
from tidytape.service.stream._tokens import Position, Tokens
from tidytape.service.work._bounds import Looks, Unsent
from tidytape.service.work._computing import Computing, OverloadedError
from tidytape.times import SECOND

_log = logging.getLogger("tidytape.service")
_THREADS = 4
_MOST = 2_000  # streams at once
_PARTS_OF_KEY = 16  # that are computed or wait in the queue
_PAUSE = 60  # seconds
_LOCAL, _REMOTE = 0.2, 1.0  # seconds between two looks at the lake


class Streams:
    """The streams of a service.

    Parameters
    ----------
    engine : Engine
        Answers from the newest version of the lake.
    tokens : Tokens
        Writes and reads resume tokens.
    looks : Looks
        Reads the lake's logs for readers.
    computing : Computing
        Computes history, and what is live and not small.
    unsent : Unsent
        Counts the bytes of history that wait to be sent.
    clock : callable
        Returns epoch nanoseconds. [ns]
    allowed : callable
        Returns whether a key, by its id, is still valid.
    every : float, optional
        Time between two looks at the lake: 0.2 s of a local one, 1 s of one in an object store by default. [s]

    Attributes
    ----------
    looks : Looks
        As given.
    readers : set of Reader
        The open streams.
    is_closing : bool
        Whether the service ends.
    counts : Counter
        Rows that were ``"conflated"``, and streams that were ``"cut"``.
    """

    def __init__(
        self,
        engine: Engine,
        tokens: Tokens,
        looks: Looks,
        computing: Computing,
        unsent: Unsent,
        *,
        clock: Callable[[], int],
        allowed: Callable[[str], bool],
        every: float | None = None,
    ) -> None:
        self._engine, self._tokens, self._clock, self._allowed = engine, tokens, clock, allowed
        self._every = every or (_REMOTE if "://" in engine.lake.path else _LOCAL)
        # Steps of a key that has two wait, so keys take turns: many streams of one delay another by two steps.
        self._live = Looks(engine.lake, ThreadPoolExecutor(_THREADS, "tidytape-live"))
        self.looks, self._computing, self._unsent = looks, computing, unsent
        self._feeds: dict[str, Feed] = {}
        self._held: Counter[str] = Counter()
        self._gates: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        self._looking: asyncio.Task[None] | None = None
        self._steps: set[asyncio.Task[None]] = set()
        self._barred: set[str] = set()
        self.is_closing = False
        self.readers: set[Reader] = set()
        self.counts: Counter[str] = Counter()

    @property
    def lag(self) -> float:
        """How long the oldest batch has been waiting for a reader to take it. [s]"""
        since = [at for reader in self.readers if (at := reader.waits_since) is not None]
        return time.monotonic() - min(since) if since else 0.0

    async def open(
        self, query: StreamQuery, account: Account, facts: dict[str, object], *, form: str = LINES
    ) -> Reader:
        """Open a stream. The caller of this method calls `leave` when the stream is over.

        It takes the weight of the history that it begins with, which `Account.state` then shows, and computes the first
        part of it. ``facts`` is what the log says of the request, ``form`` how batches are written.

        Raises
        ------
        QueryError
            If the query cannot be answered, the tier does not include it, or the token is not of it.
        RefusedError
            If the key holds as many streams as it may, what the stream would go on from was removed, the budget does
            not hold the weight, or the first part cannot be computed now.
        LakeError
            If the lake cannot be read.
        """
        base, digest = await self.looks.run(account.key.id, _of_any_window, query)
        start = self._clock() // SECOND if query.start is None else query.start
        self._require_tier(account, base, start)
        if self._held[account.key.id] >= account.tier.streams:
            raise RefusedError(
                "STREAM_LIMIT_EXCEEDED",
                f"the key holds {self._held[account.key.id]} streams, and a key of the {account.tier.name} tier may "
                f"hold {account.tier.streams} at once",
            )
        if self._held.total() >= _MOST:
            raise RefusedError("UNAVAILABLE", "too many streams are open; try again", retry_after=_PAUSE)
        feed = self._feeds.setdefault(
            digest, Feed(self._engine, base, self._live, self.looks, self._computing, held=self._held)
        )
        reader = Reader(
            feed,
            end=query.end,
            key=account.key.id,
            form=form,
            unsent=self._unsent,
            gate=self._gates.setdefault(account.key.id, asyncio.Semaphore(_PARTS_OF_KEY)),
            ended=partial(self._ended, account.key.id),
            count=self._count,
        )
        # From here on the feed is kept, and computes as far back as this reader needs.
        feed.starts[reader], feed.keys[reader] = start, account.key.id
        self._held[account.key.id] += 1
        # All readers of the query wait for look-ups under `still`, so these do not wait for the others of the key.
        opening = f"{account.key.id} opens"
        try:
            run = partial(feed.run, key=account.key.id)
            lake = await run(self._lake_id)
            async with feed.still:
                moment = feed.moment or await feed.moved(await feed.run(self._now, key=opening), key=opening)
                reader.position = await self._position(query, feed, lake, digest, opening)
                self._require_tier(account, base, reader.position.start)
                # Refuses names that the lake does not hold, and quotes whose price it does not know.
                begin = {"start": reader.position.start, "end": reader.position.start + 1}
                await feed.run(moment.engine.markets, base.model_copy(update=begin), key=opening)
                feed.starts[reader] = reader.position.start
                feed.over = reader.position.after(0, feed.over, is_last=True).over
            reader.write_token = partial(self._tokens.write, lake=lake, query=digest)
            reader.weight = await run(self._weight, query, feed, reader.position)
            if reader.weight or not reader.position.is_whole:
                task = await reader.begun()
                async with charged(account, reader.weight, task, facts):
                    reader.first = task, await reader.computed(task)
        except BaseException:
            self.leave(reader, account)
            raise
        self.readers.add(reader)
        if self._looking is None:
            self._looking = asyncio.get_running_loop().create_task(self._look())
        return reader

    def leave(self, reader: Reader, account: Account) -> None:
        """Close a stream that `open` returned."""
        self._held[account.key.id] -= 1
        self.drop(reader)
        self._unsent.release(reader)

    def drop(self, reader: Reader) -> None:
        """Compute nothing more for a reader, whose stream still counts as one of its key until `leave`."""
        self.readers.discard(reader)
        reader.feed.starts.pop(reader, None)
        reader.feed.keys.pop(reader, None)
        self._feeds = {name: feed for name, feed in self._feeds.items() if feed.starts}
        if not self._feeds and self._looking is not None:
            self._looking.cancel()
            self._looking = None

    def close(self) -> None:
        """End all streams, each with its token; it may be called from any thread."""
        self.is_closing = True
        looking = self._looking
        if looking is not None:
            looking.get_loop().call_soon_threadsafe(self._wake)

    # --- inside ---------------------------------------------------------------------------------------------------

    def _ended(self, key: str) -> tuple[str, str] | None:
        """Return why the service ends a stream of a key."""
        if self.is_closing:
            return StreamEnd.SHUTTING_DOWN, "the service ends; resume with the token"
        if key in self._barred:
            return StreamEnd.INVALID_API_KEY, "the key was revoked, or has expired"
        return None

    def _require_tier(self, account: Account, query: PointsQuery, start: int) -> None:
        require_tier(
            account, query.model_copy(update={"start": start, "end": start + 1}), now=self._clock() // SECOND
        )

    def _count(self, what: str, number: int) -> None:
        self.counts[what] += number

    def _wake(self) -> None:
        for feed in self._feeds.values():
            feed.wake()

    def _lake_id(self) -> str:
        return str(self._engine.lake.delta(MARKETS.name).metadata().id)

    async def _position(self, query: StreamQuery, feed: Feed, lake: str, digest: str, key: str) -> Position:
        """Return where a stream begins: where its token says, or with the history at the moment of the feed."""
        moment, run = feed.moment, partial(feed.run, key=key)
        assert moment is not None
        if query.token is None:
            start = query.start
            if start is None:
                newest = await run(newest_data_time, feed.query, moment) or self._clock()
                start = feed.query.start_of(newest // SECOND)
            return Position(at=feed.versions(moment), since=None, until=start, start=start)
        # A token of an older release may name tables that the query does not depend on.
        position = self._tokens.read(query.token, lake=lake, query=digest).narrowed(feed.tables)
        if query.start is not None and query.start != position.start:
            raise QueryError(
                "start",
                got=written_time(query.start),
                expected=f"{written_time(position.start)}, with which the stream of this token began, or nothing",
            )
        if not _is_at_least(feed.versions(moment), position.at):
            # Another replica has looked at the lake later than this one.
            moment = await feed.moved(await run(self._now), key=key)
        if not _is_at_least(feed.versions(moment), position.at):
            raise _expired("the lake is older than it, put back to an earlier state", position)
        await run(self._require_readable, feed, position)
        return position

    def _require_readable(self, feed: Feed, position: Position) -> None:
        """Raise RefusedError unless the moments that the stream goes on from can be read."""
        moment = feed.moment
        assert moment is not None
        try:
            for versions in filter(None, (position.since, position.at)):
                if versions != feed.versions(moment):
                    require_files(feed.query, feed.moment_at(versions), moment)
        except LakeError as error:
            _log.info("a token has expired: %s", error.message)
            raise _expired("what the stream would go on from was removed from the lake", position) from None

    def _weight(self, query: StreamQuery, feed: Feed, position: Position) -> int:
        """Return the weight of the intervals that are over and not sent yet."""
        moment, base = feed.moment, feed.query
        assert moment is not None
        if position.is_whole:
            first = newest_data_time(base, feed.moment_at(position.at)) // SECOND
        else:
            first = position.until or position.start
        last = newest_data_time(base, moment) // SECOND
        if query.end is not None:
            last = min(last, query.end)
        first, last = base.start_of(first), base.start_of(last)
        return sum(map(weight, query.window(first, last))) if last > first else 0

    def _now(self) -> LakeReader:
        """Return the lake as it is now; every table is looked up at the same time."""
        lake = self._engine.lake.now()
        lake.version()
        return lake

    async def _look(self) -> None:
        """Look at the lake as long as there are readers; the steps of one look do not hold up the next one."""
        while True:
            await asyncio.sleep(self._every)
            self._bar()
            await self._begin_steps()

    async def look(self) -> None:
        """Look at the lake once, and compute what changed in it for every feed."""
        self._bar()
        await asyncio.gather(*await self._begin_steps())

    def _bar(self) -> None:
        """End the streams of keys that are no longer valid."""
        self._barred = {key for key in +self._held if not self._allowed(key)}
        if self._barred:
            self._wake()

    async def _begin_steps(self) -> list[asyncio.Task[None]]:
        """Look at the lake, and begin to compute what changed for each feed that computes nothing now."""
        try:
            lake = await self._live.run("", self._now)
        except LakeError as error:  # the lake cannot be read now; it may come back
            _log.error("streams cannot look at the lake: %s", error.message)
            return []
        versions = versions_of(lake)
        behind = [
            feed for feed in self._feeds.values() if feed.is_behind(versions) and not feed.still.locked()
        ]
        steps = [asyncio.create_task(self._step(feed, lake)) for feed in behind]
        self._steps |= {*steps}
        for step in steps:
            step.add_done_callback(self._steps.discard)
        return steps

    async def _step(self, feed: Feed, lake: LakeReader) -> None:
        try:
            await feed.step(lake)
        except OverloadedError:
            pass  # the next look begins it again
        except Exception as error:  # noqa: BLE001 - its readers are told
            _log.exception("a stream failed")
            feed.failure = error
            self._feeds = {name: other for name, other in self._feeds.items() if other is not feed}
            feed.wake()


def _expired(why: str, position: Position) -> RefusedError:
    """Return the refusal of a token, which says up to when points were delivered."""
    over = ", ".join(f"{name} from {written_time(start // SECOND)}" for name, start in position.over.items())
    known = f"the last interval that was over: {over}" if over else "no interval was over yet"
    return RefusedError("TOKEN_EXPIRED", f"token: {why}; {known}", over=position.over)


def _is_at_least(versions: Mapping[str, int], other: Mapping[str, int]) -> bool:
    return all(versions.get(name, -1) >= version for name, version in other.items())


def _of_any_window(query: StreamQuery) -> tuple[PointsQuery, str]:
    """Return a query of the same points, and a digest that identifies it, whatever its window."""
    base = query.window(0, 1)[0]
    params = [(name, text) for name, text in base.to_params() if name not in {"from", "period"}]
    return base, hashlib.sha256(json.dumps(sorted(params)).encode()).hexdigest()
