"""The client for asyncio: it carries out a flow by awaiting."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, overload

import httpx
import polars as pl

from tidytape.client.backends import Present, presenter
from tidytape.client.endpoints import Endpoints
from tidytape.client.flow import FAILURES, Answer, Failure, Flow, Gathering, Send, Usage, Wait, closed_error
from tidytape.client.settings import MAX_BODY, Backend, Settings
from tidytape.schema import Schema

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

    import pandas as pd

__all__ = ["AsyncClient"]

FrameT = TypeVar("FrameT")
R = TypeVar("R")


class AsyncClient(
    Endpoints[Coroutine[Any, Any, FrameT], Coroutine[Any, Any, list[str]], Coroutine[Any, Any, Usage]],
    Generic[FrameT],
):
    """Fetch market data as tidy frames, from asyncio. The methods are those of ``Client``, to be awaited.

    Parameters
    ----------
    base_url : str, optional
        Address of the service; else ``TIDYTAPE_BASE_URL``.
    api_key : str, optional
        Key of the service; else ``TIDYTAPE_API_KEY``. It is sent in a header and shown nowhere.
    backend : {"polars", "pandas"}
        Kind of every frame this client returns.
    auth_header : str
        Header that carries the key.
    timeout : float
        Longest wait for a response to go on. [s]
    deadline : float
        Longest time one request may take, retries and waits included; for a list, all its pages. [s]
    attempts : int
        Most times one request is sent.
    max_body : int
        Longest body of one response, decompressed; a longer one is refused before it is read whole. [byte]
    transport : httpx.AsyncBaseTransport, optional
        What carries requests, instead of the network.

    Raises
    ------
    QueryError
        If the address or a number is not usable.
    AuthenticationError
        If there is no key.

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
        auth_header: str = ...,
        timeout: float = ...,
        deadline: float = ...,
        attempts: int = ...,
        max_body: int = ...,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None: ...

    @overload
    def __init__(
        self: AsyncClient[pd.DataFrame],
        base_url: str | None = None,
        api_key: str | None = None,
        *,
        backend: Literal["pandas"],
        auth_header: str = ...,
        timeout: float = ...,
        deadline: float = ...,
        attempts: int = ...,
        max_body: int = ...,
        transport: httpx.AsyncBaseTransport | None = None,
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
        )
        super().__init__(settings, backend)
        self._present: Present[FrameT] = presenter(backend)
        # A redirect would carry the key to wherever it points.
        self._http = httpx.AsyncClient(transport=transport, follow_redirects=False)

    @overload
    @staticmethod
    def local(lake: str | Path, *, backend: Literal["polars"] = "polars") -> AsyncClient[pl.DataFrame]: ...

    @overload
    @staticmethod
    def local(lake: str | Path, *, backend: Literal["pandas"]) -> AsyncClient[pd.DataFrame]: ...

    @staticmethod
    def local(lake: str | Path, *, backend: Backend = "polars") -> AsyncClient[Any]:
        """Return a client of the service over a lake, in this process; see ``Client.local``."""
        from tidytape.client import local

        return AsyncClient(**local.async_connection(lake), backend=backend)

    @overload
    @staticmethod
    def demo(*, backend: Literal["polars"] = "polars") -> AsyncClient[pl.DataFrame]: ...

    @overload
    @staticmethod
    def demo(*, backend: Literal["pandas"]) -> AsyncClient[pd.DataFrame]: ...

    @staticmethod
    def demo(*, backend: Backend = "polars") -> AsyncClient[Any]:
        """Return a client of the service over a small simulated market; see ``Client.demo``."""
        from tidytape.client import local

        return AsyncClient(**local.async_demo_connection(), backend=backend)

    async def _run(self, steps: Flow[R]) -> R:
        try:
            step = next(steps)
            while True:
                step = steps.send(await self._carry_out(step))
        except StopIteration as done:
            return done.value  # type: ignore[no-any-return]

    async def _carry_out(self, step: Send | Wait) -> Answer | Failure | None:
        if isinstance(step, Wait):
            await asyncio.sleep(step.seconds)
            return None
        if self._http.is_closed:
            raise closed_error()
        try:
            async with asyncio.timeout(step.remaining):
                return await self._answer(step)
        except FAILURES as failure:
            return failure
        except RuntimeError:  # closed from another task
            if self._http.is_closed:
                raise closed_error() from None
            raise

    async def _answer(self, step: Send) -> Answer:
        async with aclosing(await self._http.send(step.request, stream=True)) as response:
            gathering = Gathering(step, response)
            if gathering.readable:
                async for part in response.aiter_bytes():
                    if not gathering.add(part):
                        break
            return gathering.answer()

    async def _fetch_frame(self, steps: Flow[pl.DataFrame], schema: Schema) -> FrameT:
        return self._present(await self._run(steps), schema)

    async def _fetch_names(self, steps: Flow[list[str]]) -> list[str]:
        return await self._run(steps)

    async def _fetch_usage(self, steps: Flow[Usage]) -> Usage:
        return await self._run(steps)

    async def aclose(self) -> None:
        """Let go of connections."""
        await self._http.aclose()

    async def __aenter__(self) -> AsyncClient[FrameT]:
        """Return the client."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the client."""
        await self.aclose()
