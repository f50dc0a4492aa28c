"""The client for asyncio. Its driver awaits each step of a flow."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, Unpack, overload

import httpx
import polars as pl

from tidytape._forks import refuse_fork
from tidytape._other_clients import explained
from tidytape.client._aio_stream import AsyncStream
from tidytape.client._budget import Usage
from tidytape.client._endpoints import Asked, Endpoints, Fetched, Written, query_of
from tidytape.client._following import Following
from tidytape.client._live import Live
from tidytape.client._plans import Plan
from tidytape.client._settings import (
    CACHE_LIMIT,
    MAX_BODY,
    MAX_WAIT,
    Backend,
    OnLimit,
    Options,
    Partial,
    Settings,
    connection_options,
)
from tidytape.client._steps import (
    FAILURES,
    Answer,
    Call,
    Failure,
    Flow,
    Gathering,
    Send,
    Step,
    Together,
    Wait,
    closed_error,
    outward,
)
from tidytape.client._tape import NO_NETWORK, Replayer
from tidytape.errors import TidytapeError
from tidytape.wire._decode import Absent

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

    import pandas as pd


FrameT = TypeVar("FrameT")
R = TypeVar("R")


@explained
class AsyncClient(
    Endpoints[
        Coroutine[Any, Any, FrameT],
        Coroutine[Any, Any, list[str]],
        Coroutine[Any, Any, Usage],
        Coroutine[Any, Any, Plan],
        Coroutine[Any, Any, Fetched[FrameT]],
        Coroutine[Any, Any, Written],
        AsyncStream[FrameT],
        Live[FrameT],
    ],
    Generic[FrameT],
):
    """Fetch market data as tidy frames, from asyncio. It has the methods of ``Client``; await what they return.

    Parameters
    ----------
    base_url : str, optional
        Address of the service; else ``TIDYTAPE_BASE_URL``.
    api_key : str, optional
        Key of the service; else ``TIDYTAPE_API_KEY``. The client sends it in a header and never shows it.
    backend : {"polars", "pandas"}
        Kind of every frame this client returns.
    auth_header : str
        Header that carries the key.
    timeout : float
        Longest pause while a response arrives. [s]
    deadline : float
        Longest time of one request with its retries, or of all pages of a list. Waiting for the budget does
        not count. [s]
    attempts : int
        How often the client sends one request at most. Six attempts take about a second if no service has
        answered yet, and about 15 s if one has answered before, because it may be restarting.
    max_body : int
        Largest body of one response, decompressed; the client stops reading a larger one. [byte]
    on_limit : {"wait", "raise"}
        What to do if the budget of the key is used up: wait for it, or raise `BudgetError`. With ``"raise"``
        do not pass ``max_wait``.
    max_wait : float or None
        Longest time that a fetch may wait for the budget. [s] If it had to wait longer, it raises a
        `BudgetError` that says how long, before it sends anything. None allows any wait. The progress bar or
        the log announces a wait of more than ten seconds.
    partial : {"raise", "flag"}
        What to do if a part of the window is missing: raise an error, or return the rest and list the missing
        part in the metadata.
    absent : {"null", "zero"}
        What it means if a point lacks a number that every point should have, such as the volume of a candle:
        null, or 0 for a service that leaves out zeros as proto3 does. Optional numbers, such as open interest
        and predicted rates, and numbers that are sent as null are null in both cases.
    parallel : int
        Largest number of requests for points that are open at once, of all fetches of this client.
    cache : bool or path, optional
        Whether to store final points and not to fetch them again, or the folder to store them in. By default
        the client stores them in the user's cache folder, except those of a service on this machine or of a
        ``transport``.
    cache_limit : int
        Largest size of the cache. [byte]
    offline : bool
        Answer only from the cache.
    progress : bool, optional
        Whether to show a progress bar. By default there is one in terminals and notebooks, for fetches of
        several requests.
    transport : httpx.AsyncBaseTransport, optional
        Carries the requests instead of the network.

    Raises
    ------
    QueryError
        If the address or a number is not usable.
    AuthenticationError
        If there is no key.
    TransportError
        If the proxy or the certificates that the environment names are not usable.

    Warns
    -----
    UnencryptedKeyWarning
        If the client would send the key to another machine over plain http.

    Examples
    --------
    >>> import asyncio, tidytape
    >>> async def used():
    ...     async with tidytape.AsyncClient.demo() as client:
    ...         return (await client.usage()).used
    >>> asyncio.run(used())
    0
    """

    @overload
    def __init__(
        self: AsyncClient[pl.DataFrame],
        base_url: str | None = None,
        api_key: str | None = None,
        *,
        backend: Literal["polars"] = "polars",
        transport: httpx.AsyncBaseTransport | None = None,
        **options: Unpack[Options],
    ) -> None: ...

    @overload
    def __init__(
        self: AsyncClient[pd.DataFrame],
        base_url: str | None = None,
        api_key: str | None = None,
        *,
        backend: Literal["pandas"],
        transport: httpx.AsyncBaseTransport | None = None,
        **options: Unpack[Options],
    ) -> None: ...

    def __init__(
        self,
        base_url: str | None = None,
        api_key: str | None = None,
        *,
        backend: Backend = "polars",
        auth_header: str = "X-Service-Key",
        timeout: float = 30.0,
        deadline: float = 300.0,
        attempts: int = 6,
        max_body: int = MAX_BODY,
        on_limit: OnLimit = "wait",
        max_wait: float | None = MAX_WAIT,
        partial: Partial = "raise",
        absent: Absent = "null",
        parallel: int = 4,
        cache: bool | str | os.PathLike[str] | None = None,
        cache_limit: int = CACHE_LIMIT,
        offline: bool = False,
        progress: bool | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        settings = Settings.read(
            base_url,
            api_key,
            auth_header=auth_header,
            timeout=timeout,
            deadline=deadline,
            attempts=attempts,
            max_body=max_body,
            on_limit=on_limit,
            max_wait=max_wait,
            partial=partial,
            absent=absent,
            parallel=parallel,
            cache=cache,
            cache_limit=cache_limit,
            offline=offline,
            progress=progress,
            is_network=transport is None,
        )
        super().__init__(settings, backend, transport)
        self._loops: dict[asyncio.AbstractEventLoop, tuple[httpx.AsyncClient, asyncio.Semaphore]] = {}

    @overload
    @staticmethod
    def local(
        lake: str | Path, *, backend: Literal["polars"] = "polars", **options: Unpack[Options]
    ) -> AsyncClient[pl.DataFrame]: ...

    @overload
    @staticmethod
    def local(
        lake: str | Path, *, backend: Literal["pandas"], **options: Unpack[Options]
    ) -> AsyncClient[pd.DataFrame]: ...

    @staticmethod
    def local(
        lake: str | Path, *, backend: Backend = "polars", **options: Unpack[Options]
    ) -> AsyncClient[Any]:
        """Return a client of the service over a lake, in this process; see ``Client.local``.

        Parameters
        ----------
        lake : path or URL
            A lake that exists.
        backend : {"polars", "pandas"}
            Kind of every frame the client returns.
        **options
            The options of `AsyncClient`: ``auth_header``, ``timeout``, ``deadline``, ``attempts``, ``max_body``,
            ``on_limit``, ``max_wait``, ``partial``, ``absent``, ``parallel``, ``cache``,
            ``cache_limit``, ``offline``, ``progress``. Here ``timeout`` and ``deadline`` are an hour by
            default.

        Returns
        -------
        AsyncClient

        Raises
        ------
        LakeError
            If there is no lake at this path.
        """
        from tidytape.client._local import AsyncAppTransport, connection

        return AsyncClient(**connection(lake, AsyncAppTransport, **options), backend=backend)

    @overload
    @staticmethod
    def demo(
        *, backend: Literal["polars"] = "polars", **options: Unpack[Options]
    ) -> AsyncClient[pl.DataFrame]: ...

    @overload
    @staticmethod
    def demo(*, backend: Literal["pandas"], **options: Unpack[Options]) -> AsyncClient[pd.DataFrame]: ...

    @staticmethod
    def demo(*, backend: Backend = "polars", **options: Unpack[Options]) -> AsyncClient[Any]:
        """Return a client of the service over a small simulated market; see ``Client.demo``.

        Parameters
        ----------
        backend : {"polars", "pandas"}
            Kind of every frame the client returns.
        **options
            The options of `AsyncClient`: ``auth_header``, ``timeout``, ``deadline``, ``attempts``, ``max_body``,
            ``on_limit``, ``max_wait``, ``partial``, ``absent``, ``parallel``, ``cache``,
            ``cache_limit``, ``offline``, ``progress``.

        Returns
        -------
        AsyncClient
            A client whose lake is removed when the client is closed, or at the latest when the process ends.
        """
        from tidytape.client._local import AsyncAppTransport, connection

        return AsyncClient(**connection(None, AsyncAppTransport, **options), backend=backend)

    @overload
    @staticmethod
    def replay(
        tape: str | os.PathLike[str], *, backend: Literal["polars"] = "polars", **options: Unpack[Options]
    ) -> AsyncClient[pl.DataFrame]: ...

    @overload
    @staticmethod
    def replay(
        tape: str | os.PathLike[str], *, backend: Literal["pandas"], **options: Unpack[Options]
    ) -> AsyncClient[pd.DataFrame]: ...

    @staticmethod
    def replay(
        tape: str | os.PathLike[str], *, backend: Backend = "polars", **options: Unpack[Options]
    ) -> AsyncClient[Any]:
        """Return a client that answers from a tape, without a network.

        Parameters
        ----------
        tape : path
            The folder of a tape that ``record`` has written.
        backend : {"polars", "pandas"}
            Kind of every frame the client returns.
        **options
            The options of `AsyncClient`: ``auth_header``, ``timeout``, ``deadline``, ``attempts``, ``max_body``,
            ``on_limit``, ``max_wait``, ``partial``, ``absent``, ``parallel``, ``progress``. A tape
            needs no cache, so ``cache``, ``cache_limit`` and ``offline`` change nothing.

        Returns
        -------
        AsyncClient
            A client that raises a `TapeError` for a question that is not on the tape.

        Raises
        ------
        TapeError
            If the folder cannot be read, or is no tape.

        Examples
        --------
        >>> import asyncio, tempfile, tidytape
        >>> async def coins(folder):
        ...     async with tidytape.AsyncClient.demo() as client:
        ...         with client.record(f"{folder}/study.tape"):
        ...             recorded = await client.coins(exchange="DEMO_SPOT")
        ...     async with tidytape.AsyncClient.replay(f"{folder}/study.tape") as replayed:
        ...         return recorded, await replayed.coins(exchange="DEMO_SPOT")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     asyncio.run(coins(folder))
        (['BTC', 'ETH', 'SOL'], ['BTC', 'ETH', 'SOL'])
        """
        replayer = Replayer(tape)
        arguments: dict[str, Any] = {**options, "cache": False, "offline": False}
        client: AsyncClient[Any] = AsyncClient(
            replayer.base_url, "replayed", backend=backend, transport=NO_NETWORK, **arguments
        )
        client._tape = replayer
        return client

    async def _run(self, steps: Flow[R]) -> R:
        """Carry out a flow for a caller."""
        refuse_fork()
        try:
            return await self._follow(steps)
        except TidytapeError as error:
            failure = error
        raise outward(failure)

    async def _follow(self, steps: Flow[R]) -> R:
        try:
            step = next(steps)
            while True:
                step = steps.send(await self._carry_out(step))
        except StopIteration as done:
            return done.value  # type: ignore[no-any-return]
        finally:
            steps.close()  # releases locks and weight after every kind of end

    async def _carry_out(self, step: Step) -> object:
        if isinstance(step, Call):
            return await asyncio.to_thread(step.function)
        if isinstance(step, Together):
            return await self._run_together(step)
        if isinstance(step, Wait):
            await asyncio.sleep(step.seconds)
            return None
        return await self._sent(step)

    @property
    def _of_loop(self) -> tuple[httpx.AsyncClient, asyncio.Semaphore]:
        """The connections of the running loop, and its places for open requests; no connection outlives its loop."""
        loop = asyncio.get_running_loop()
        if loop not in self._loops:
            with connection_options(self._settings.base_url, self._transport) as options:
                http_and_places = httpx.AsyncClient(**options), asyncio.Semaphore(self._settings.parallel)
            open_loops = {other: pair for other, pair in self._loops.items() if not other.is_closed()}
            self._loops = open_loops | {loop: http_and_places}
        return self._loops[loop]

    async def _run_together(self, step: Together) -> list[object]:
        _, places = self._of_loop  # all fetches of this client share the places

        async def run(steps: Flow[object]) -> object:
            async with places:
                return await self._follow(steps)

        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(run(steps)) for steps in step.flows]
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None
        return [task.result() for task in tasks]

    async def _sent(self, step: Send) -> Answer | Failure:
        if self._closed:
            raise closed_error()
        try:
            async with asyncio.timeout(step.remaining):
                return await self._answer(step)
        except FAILURES as failure:
            return failure
        except RuntimeError:  # httpx raises it if another task has closed its client
            if self._closed:
                raise closed_error() from None
            raise

    async def _answer(self, step: Send) -> Answer:
        http, _ = self._of_loop
        async with aclosing(await http.send(step.request, stream=True)) as response:
            gathering = Gathering(step, response)
            if gathering.readable and gathering.is_read:
                gathering.add(response.content)
            elif gathering.readable:
                async for part in response.aiter_raw():
                    if not gathering.add(part):
                        break
            return gathering.answer()

    def _stream_of(self, following: Following) -> AsyncStream[FrameT]:
        return AsyncStream(following, lambda: self._of_loop[0], lambda: self._closed)

    @staticmethod
    def _drive(stream: AsyncStream[Any], take: Callable[[Any], None]) -> None:
        async def follow() -> None:
            async with stream:
                async for batch in stream:
                    take(batch)

        asyncio.run(follow())

    async def iter_frames(self, query: Asked) -> AsyncIterator[FrameT]:
        """Fetch one frame per request. So the data need not fit into memory.

        Parameters
        ----------
        query : what a method of ``client.query`` returns, a PointsQuery, or several whose windows adjoin

        Yields
        ------
        frame
            The parts of the frame that the method of the query returns, in the order of time.

        Raises
        ------
        TidytapeError
            The same errors as the method of the query. The cache then has the points that came before the error.

        Examples
        --------
        >>> import asyncio, tidytape
        >>> async def rows():
        ...     async with tidytape.AsyncClient.demo() as client:
        ...         asked = client.query.candles(
        ...             exchange="DEMO_SPOT", coin="BTC", interval="1h", start="2024-08-08", end="2024-08-09"
        ...         )
        ...         return [frame.height async for frame in client.iter_frames(asked)]
        >>> asyncio.run(rows())
        [24]
        """
        query = await self._run(self._resolved(query_of(query)))
        for steps in self._frames(query):
            yield await self._run(steps)

    async def aclose(self) -> None:
        """Close the connections."""
        self._closed = True
        http, _ = self._of_loop
        await http.aclose()

    async def __aenter__(self) -> AsyncClient[FrameT]:
        """Return the client."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the client."""
        await self.aclose()
