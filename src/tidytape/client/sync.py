"""The client for plain code: it carries out a flow by blocking."""

from __future__ import annotations

import contextvars
import threading
import time
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from contextlib import closing
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

__all__ = ["Client"]

FrameT = TypeVar("FrameT")
R = TypeVar("R")


class Client(Endpoints[FrameT, list[str], Usage], Generic[FrameT]):
    """Fetch market data as tidy frames.

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
    transport : httpx.BaseTransport, optional
        What carries requests, instead of the network.

    Raises
    ------
    QueryError
        If the address or a number is not usable.
    AuthenticationError
        If there is no key.

    Examples
    --------
    >>> import tidytape
    >>> client = tidytape.Client("http://127.0.0.1:8000", "a-key")
    >>> client
    Client('http://127.0.0.1:8000', backend='polars')
    >>> client.close()
    """

    @overload
    def __init__(
        self: Client[pl.DataFrame],
        base_url: str | None = None,
        api_key: str | None = None,
        *,
        backend: Literal["polars"] = "polars",
        auth_header: str = ...,
        timeout: float = ...,
        deadline: float = ...,
        attempts: int = ...,
        max_body: int = ...,
        transport: httpx.BaseTransport | None = None,
    ) -> None: ...

    @overload
    def __init__(
        self: Client[pd.DataFrame],
        base_url: str | None = None,
        api_key: str | None = None,
        *,
        backend: Literal["pandas"],
        auth_header: str = ...,
        timeout: float = ...,
        deadline: float = ...,
        attempts: int = ...,
        max_body: int = ...,
        transport: httpx.BaseTransport | None = None,
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
        transport: httpx.BaseTransport | None = None,
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
        self._http = httpx.Client(transport=transport, follow_redirects=False)

    @overload
    @staticmethod
    def local(lake: str | Path, *, backend: Literal["polars"] = "polars") -> Client[pl.DataFrame]: ...

    @overload
    @staticmethod
    def local(lake: str | Path, *, backend: Literal["pandas"]) -> Client[pd.DataFrame]: ...

    @staticmethod
    def local(lake: str | Path, *, backend: Backend = "polars") -> Client[Any]:
        """Return a client of the service over a lake, in this process: no key, no network, no bill.

        Parameters
        ----------
        lake : path or URL
            A lake that exists.
        backend : {"polars", "pandas"}

        Returns
        -------
        Client

        Raises
        ------
        LakeError
            If there is no lake.
        """
        from tidytape.client import local

        return Client(**local.connection(lake), backend=backend)

    @overload
    @staticmethod
    def demo(*, backend: Literal["polars"] = "polars") -> Client[pl.DataFrame]: ...

    @overload
    @staticmethod
    def demo(*, backend: Literal["pandas"]) -> Client[pd.DataFrame]: ...

    @staticmethod
    def demo(*, backend: Backend = "polars") -> Client[Any]:
        """Return a client of the service over a small simulated market, made on the spot and the same everywhere.

        Parameters
        ----------
        backend : {"polars", "pandas"}

        Returns
        -------
        Client
            Its lake is removed when the client is closed, or at the latest with the process.

        Examples
        --------
        >>> with Client.demo() as client:
        ...     client.usage().used
        0
        """
        from tidytape.client import local

        return Client(**local.demo_connection(), backend=backend)

    def _run(self, steps: Flow[R]) -> R:
        try:
            step = next(steps)
            while True:
                step = steps.send(self._carry_out(step))
        except StopIteration as done:
            return done.value  # type: ignore[no-any-return]

    def _carry_out(self, step: Send | Wait) -> Answer | Failure | None:
        if isinstance(step, Wait):
            time.sleep(step.seconds)
            return None
        if self._http.is_closed:
            raise closed_error()
        try:
            return _within(step.remaining, lambda: self._answer(step))
        except FAILURES as failure:
            return failure
        except (RuntimeError, CancelledError):  # closed from another thread
            if self._http.is_closed:
                raise closed_error() from None
            raise

    def _answer(self, step: Send) -> Answer:
        with closing(self._http.send(step.request, stream=True)) as response:
            gathering = Gathering(step, response)
            if gathering.readable:
                for part in response.iter_bytes():
                    if not gathering.add(part):
                        break
            return gathering.answer()

    def _fetch_frame(self, steps: Flow[pl.DataFrame], schema: Schema) -> FrameT:
        return self._present(self._run(steps), schema)

    def _fetch_names(self, steps: Flow[list[str]]) -> list[str]:
        return self._run(steps)

    def _fetch_usage(self, steps: Flow[Usage]) -> Usage:
        return self._run(steps)

    def close(self) -> None:
        """Let go of connections."""
        self._http.close()

    def __enter__(self) -> Client[FrameT]:
        """Return the client."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the client."""
        self.close()


def _within(seconds: float, call: Callable[[], R]) -> R:
    """Return what a call returns, or raise TimeoutError after so long.

    httpx bounds every single read, so a server that sends a header byte now and then, or interim responses without
    end, holds a blocking call for ever; looking up a name has no timeout at all. A thread to leave behind bounds all of
    it, for every transport, by public means. The call left behind ends with the next part of a body, or when the server
    falls silent; it does not keep the process alive.
    """
    outcome: Future[R] = Future()

    def run() -> None:
        try:
            outcome.set_result(call())
        except BaseException as error:  # noqa: BLE001 - it is raised where the outcome is asked for
            outcome.set_exception(error)

    threading.Thread(target=contextvars.copy_context().run, args=(run,), daemon=True, name="tidytape").start()
    return outcome.result(seconds)
