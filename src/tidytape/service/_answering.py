"""The part of an answer that HTTP and gRPC share: the tier, the weight, the computation, and every refusal.

A caller's query goes through `Points.prepare`, which costs nothing, and then `Points.answer`, which takes its weight.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import anyio

from tidytape.budget import weight
from tidytape.lake import LakeReader
from tidytape.query import PointsQuery
from tidytape.service._accounts import Account
from tidytape.service._buckets import UnreachableError
from tidytape.service._refusals import PAUSE, RefusedError
from tidytape.service._responses import etag
from tidytape.service.answer._engine import Engine
from tidytape.service.answer._estimate import Estimate, Statistics, estimated
from tidytape.service.answer._pages import found_ends, pages, require_trades
from tidytape.service.answer._scan import MarketsByType
from tidytape.service.work._bounds import Looks, Unsent
from tidytape.service.work._computing import (
    Answer,
    AnswerTask,
    Computing,
    OverloadedError,
    StoppedError,
    Task,
)
from tidytape.times import SECOND

R = TypeVar("R")
_log = logging.getLogger("tidytape.service")

_ROOM = 10.0  # seconds that an answer waits until earlier ones of its key are sent
_BYTES_PER_ROW = 128  # of an answer, about
_LITTLE = 64 << 10  # bytes that are not counted: a socket takes them


class Waiting(Protocol):
    """Waits for work, or until the caller hangs up: then it cancels the work and returns None."""

    async def __call__(self, work: Coroutine[Any, Any, R], /) -> R | None: ...


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """A query that the tier of its caller includes, with what its answer takes.

    Attributes
    ----------
    query : PointsQuery
    account : Account
    form : str
        Media type of the answer.
    tag : str or None
        ETag of the answer.
    lake : LakeReader
        The lake at the moment of the request.
    markets : dict of str to list of Market
        The markets that the query selects, by data type.
    estimate : Estimate
        What the answer takes.
    page_ends : tuple of int
        If the caller takes pages and the window has more than one: the ends of all, of which the query is the first.
        [s since the epoch]
    """

    query: PointsQuery
    account: Account
    form: str
    tag: str | None
    lake: LakeReader
    markets: MarketsByType
    estimate: Estimate
    page_ends: tuple[int, ...] = ()


class Points:
    """Answers queries for points.

    Parameters
    ----------
    engine : Engine
        Finds the markets that a query selects.
    looks : Looks
        Reads the lake's logs.
    computing : Computing
        Computes the answers.
    unsent : Unsent
        Counts the bytes of the answers until they are sent.
    clock : callable
        Returns epoch nanoseconds. [ns]
    """

    def __init__(
        self,
        engine: Engine,
        looks: Looks,
        computing: Computing,
        unsent: Unsent,
        *,
        clock: Callable[[], int],
    ) -> None:
        self._engine, self._looks, self._computing, self._clock = engine, looks, computing, clock
        self._unsent = unsent

    async def prepare(
        self,
        params: Iterable[tuple[str, str]],
        account: Account,
        facts: dict[str, object],
        form_of: Callable[[PointsQuery], str],
        *,
        takes_pages: bool = False,
    ) -> Prepared:
        """Read a query and find what its answer takes.

        Parameters
        ----------
        params : iterable of (str, str)
            The parameters of ``/v1/points``.
        account : Account
            The caller.
        facts : dict of str to object
            What the log says of the request; the query is added.
        form_of : callable
            Returns the media type of the answer to a query.
        takes_pages : bool
            Whether the caller takes the first page of a window with more trades than one answer may have.

        Raises
        ------
        QueryError
            If the query is not valid, the tier does not include it, or its answer would take more than the service
            allows.
        """

        def look_up() -> Prepared:
            # A query of thousands of symbols takes milliseconds to read, so it is not read in the event loop.
            query = PointsQuery.from_params(params)
            facts.update(route="points", type=",".join(data_type.name for data_type in query.data_types))
            require_tier(account, query, now=self._clock() // SECOND)
            form, lake = form_of(query), self._engine.lake.now()
            statistics, ends = Statistics(lake), [query.end]
            with PointsQuery.named_as_on_wire():
                markets = self._engine.at(lake).markets(query)
                if takes_pages and query.data_types[0].interval_optional and len(query.type) == 1:
                    ends = found_ends(query, markets, statistics)
                    query = pages(query, ends)[0]
                tag = etag(lake, query, form=form, now=self._clock() // SECOND)
                estimate = estimated(query, markets, statistics)
                estimate.require(query, self._computing.limits)
                require_trades(query, markets, statistics)
            page_ends = tuple(ends) if len(ends) > 1 else ()
            return Prepared(query, account, form, tag, lake, markets, estimate, page_ends)

        return await self._looks.run(account.key.id, look_up)

    async def answer(
        self, prepared: Prepared, facts: dict[str, object], *, coding: str, wait: Waiting
    ) -> Answer | None:
        """Take the weight of a query and return its answer; None if its caller hung up first.

        The caller of this method calls `sent` when the answer is sent.

        Parameters
        ----------
        prepared : Prepared
        facts : dict of str to object
            What the log says of the request; the weight and the rows are added.
        coding : str
            The header ``Accept-Encoding`` of the caller.
        wait : callable
            Waits for the answer, or until the caller hangs up.

        Raises
        ------
        RefusedError
            If the budget is used up, too many queries wait, the answer takes too long, or earlier answers of the key
            are not read.
        QueryError
            If the rows show that the query cannot be answered.
        """
        query, account, estimate = prepared.query, prepared.account, prepared.estimate
        task = AnswerTask(
            query,
            prepared.markets,
            prepared.form,
            coding,
            key=account.key.id,
            heavy=estimate.is_heavy,
            small=estimate.is_small,
            lake=prepared.lake,
        )
        size = _BYTES_PER_ROW * estimate.made

        async def compute() -> Answer:
            if size > _LITTLE:
                try:
                    async with asyncio.timeout(_ROOM):
                        await self._unsent.take(prepared, task.key, size)
                except TimeoutError:
                    message = "earlier answers of this key are not read; read them and try again"
                    raise RefusedError("UNAVAILABLE", message, retry_after=PAUSE) from None
            return await self._computing.run(task)

        answer = None
        try:
            with PointsQuery.named_as_on_wire():
                async with charged(account, weight(query), task, facts):
                    answer = await wait(compute())
        finally:
            if answer is None:
                self.sent(prepared)
        if answer is not None:
            self._unsent.resize(prepared, answer.size)
            facts["rows"] = answer.rows
        return answer

    def sent(self, prepared: Prepared) -> None:
        """Count the bytes of an answer no longer: it is sent, or nobody takes it."""
        self._unsent.release(prepared)


@asynccontextmanager
async def charged(
    account: Account, weight: int, task: Task[Any], facts: dict[str, object]
) -> AsyncIterator[None]:
    """Take a weight for a task that is computed in the context; give it back unless the computation has begun.

    Parameters
    ----------
    account : Account
    weight : int
    task : Task
    facts : dict of str to object
        What the log says of the request; the weight is added.

    Raises
    ------
    RefusedError
        If the budget is used up, too many tasks wait, or the answer takes too long.
    """
    if weight:
        admission = await account.take(weight)
        if not admission.admitted:
            raise RefusedError(
                "RATE_LIMITED",
                f"weight {weight} is more than the {admission.remaining} left; wait {admission.retry_after} s",
                retry_after=admission.retry_after,
            )
        facts.update(weight=weight)
    is_charged = False
    try:
        yield
        # A caller who hangs up pays for an answer whose computation has begun: it runs to its end.
        is_charged = task.begun
    except asyncio.CancelledError:
        is_charged = task.begun
        raise
    except OverloadedError:
        raise RefusedError(
            "UNAVAILABLE", "too many queries are waiting; try again", retry_after=PAUSE
        ) from None
    except StoppedError as error:
        _log.error("request %s: its worker %s", facts["id"], error)
        if error.too_long:
            is_charged = True  # otherwise keeping the service busy would be free
            raise RefusedError("TIMEOUT", f"the answer took too long; request {facts['id']}") from None
        raise RefusedError(
            "INTERNAL_ERROR", f"the worker ended before the answer was there; request {facts['id']}"
        ) from None
    finally:
        if weight and not is_charged:
            await _give_back(account, weight, facts)


async def _give_back(account: Account, weight: int, facts: dict[str, object]) -> None:
    """Give the weight back; log the key and the weight if the bucket store cannot be reached."""
    with anyio.CancelScope(shield=True):
        try:
            await account.give_back(weight)
        except UnreachableError as error:
            _log.error("weight %d was not given back to key %s: %s", weight, account.key.id, error)
        else:
            facts.pop("weight")


def require_tier(account: Account, query: PointsQuery, *, now: int) -> None:
    """Raise QueryError if the tier of an account does not include the query."""
    with PointsQuery.named_as_on_wire():
        account.tier.require(query, now=now)
