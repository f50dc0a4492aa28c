"""The client for plain code. Its driver carries out the steps of a flow and blocks until they are done."""

from __future__ import annotations

import contextvars
import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, Unpack, overload

import httpx
import polars as pl

from tidytape._forks import refuse_fork
from tidytape._other_clients import explained
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
from tidytape.client._sync_stream import Stream
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
class Client(
    Endpoints[FrameT, list[str], Usage, Plan, Fetched[FrameT], Written, Stream[FrameT], Live[FrameT]],
    Generic[FrameT],
):
    """Fetch market data as tidy frames.

    Several threads may share a client. A process that was forked after polars or a lake had run cannot use any client:
    polars does not work there, so every call raises a `ForkError`. Start processes with
    ``multiprocessing.get_context("spawn")``.

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
    transport : httpx.BaseTransport, optional
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
        transport: httpx.BaseTransport | None = None,
        **options: Unpack[Options],
    ) -> None: ...

    @overload
    def __init__(
        self: Client[pd.DataFrame],
        base_url: str | None = None,
        api_key: str | None = None,
        *,
        backend: Literal["pandas"],
        transport: httpx.BaseTransport | None = None,
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
        self._processes = {os.getpid(): self._opened()}

    @overload
    @staticmethod
    def local(
        lake: str | Path, *, backend: Literal["polars"] = "polars", **options: Unpack[Options]
    ) -> Client[pl.DataFrame]: ...

    @overload
    @staticmethod
    def local(
        lake: str | Path, *, backend: Literal["pandas"], **options: Unpack[Options]
    ) -> Client[pd.DataFrame]: ...

    @staticmethod
    def local(lake: str | Path, *, backend: Backend = "polars", **options: Unpack[Options]) -> Client[Any]:
        """Return a client that answers from a lake, in this process, without a key or a network.

        Parameters
        ----------
        lake : path or URL
            A lake that exists.
        backend : {"polars", "pandas"}
            Kind of every frame the client returns.
        **options
            The options of `Client`: ``auth_header``, ``timeout``, ``deadline``, ``attempts``, ``max_body``,
            ``on_limit``, ``max_wait``, ``partial``, ``absent``, ``parallel``, ``cache``,
            ``cache_limit``, ``offline``, ``progress``. Here ``timeout`` and ``deadline`` are an hour by
            default.

        Returns
        -------
        Client

        Raises
        ------
        LakeError
            If there is no lake at this path.
        """
        from tidytape.client._local import connection

        return Client(**connection(lake, **options), backend=backend)

    @overload
    @staticmethod
    def demo(
        *, backend: Literal["polars"] = "polars", **options: Unpack[Options]
    ) -> Client[pl.DataFrame]: ...

    @overload
    @staticmethod
    def demo(*, backend: Literal["pandas"], **options: Unpack[Options]) -> Client[pd.DataFrame]: ...

    @staticmethod
    def demo(*, backend: Backend = "polars", **options: Unpack[Options]) -> Client[Any]:
        """Return a client that answers from a small simulated market. None of its exchanges exists.

        The market has two days, from 2024-08-07 to 2024-08-09 00:00 UTC. They are the first two days of the
        market that ``tidytape demo`` and `tidytape.demo.fill` make, so the numbers are the same.

        ================ =================================================== =======================================
        exchange         ``raw_symbol``                                      data
        ================ =================================================== =======================================
        ``DEMO_SPOT``    ``BTCUSDT``, ``ETHUSDT``, ``SOLUSDT``               candles, trades, profiles; books (not SOL)
        ``DEMO_USD``     ``BTC-USD``, ``ETH-USD``                            candles, trades, profiles
        ``DEMO_PERP``    ``BTC-PERP``, ``ETH-PERP``, ``SOL-PERP``            candles, trades, profiles, open interest,
                                                                             funding of 8 hours, liquidations;
                                                                             books (not SOL)
        ``DEMO_LINEAR``  ``BTCUSDT``, ``ETHUSDT``                            as DEMO_PERP, but funding of 4 hours and no
                                                                             books
        ``DEMO_INVERSE`` ``BTCUSD``, contracts of 100 USD                    as DEMO_PERP, but funding of 1 hour and no
                                                                             books
        ``DEMO_OPTIONS`` ``BTC_ATM``, ``ETH_ATM``                            implied volatility; option open interest of
                                                                             the coins
        ``DEMO_OPTIONS`` ``BTC_25``, ``BTC_10``, ``ETH_25``, ``ETH_10``      skew
        ``DEMO_CME``     ``BTCQ4``                                           open interest of regulated futures
        ``DEMO_EVENTS``  ``1001``, ``1002``                                  candles, trades of a prediction market
        ``DEMO_STOCKS``  ``ACME``                                            candles, trades, profiles of sessions
        ``DEMO_METALS``  ``XAUUSD``                                          candles, trades, profiles
        ``DEMO_FX``      ``EURUSD``                                          candles, trades, profiles
        ================ =================================================== =======================================

        Funding settles every 8 hours on ``DEMO_PERP``, every 4 hours on ``DEMO_LINEAR`` and every hour on
        ``DEMO_INVERSE``, from 00:00 UTC: pass that to `tidytape.analytics.funding.accrued` as ``settled_every``.
        ``client.funding`` converts all rates to one interval, 8 hours unless you ask for another.

        Token supply is that of Bitcoin, Ethereum, Solana and Tether. ``DEMO_USD`` has no events for three
        minutes of the first day, and ``DEMO_LINEAR`` for 25 minutes of the second. ``client.markets()`` lists
        the markets.

        The first call on a machine simulates the market, which takes some seconds, and keeps the lake in the folder of
        the client's cache; each client has a copy of its own.

        Parameters
        ----------
        backend : {"polars", "pandas"}
            Kind of every frame the client returns.
        **options
            The options of `Client`: ``auth_header``, ``timeout``, ``deadline``, ``attempts``, ``max_body``,
            ``on_limit``, ``max_wait``, ``partial``, ``absent``, ``parallel``, ``cache``,
            ``cache_limit``, ``offline``, ``progress``.

        Returns
        -------
        Client
            A client whose lake is removed when the client is closed, or at the latest when the process ends.

        Examples
        --------
        >>> with Client.demo() as client:
        ...     client.usage().used
        0
        """
        from tidytape.client._local import connection

        return Client(**connection(None, **options), backend=backend)

    @overload
    @staticmethod
    def replay(
        tape: str | os.PathLike[str], *, backend: Literal["polars"] = "polars", **options: Unpack[Options]
    ) -> Client[pl.DataFrame]: ...

    @overload
    @staticmethod
    def replay(
        tape: str | os.PathLike[str], *, backend: Literal["pandas"], **options: Unpack[Options]
    ) -> Client[pd.DataFrame]: ...

    @staticmethod
    def replay(
        tape: str | os.PathLike[str], *, backend: Backend = "polars", **options: Unpack[Options]
    ) -> Client[Any]:
        """Return a client that answers from a tape, without a network.

        Parameters
        ----------
        tape : path
            The folder of a tape that ``record`` has written.
        backend : {"polars", "pandas"}
            Kind of every frame the client returns.
        **options
            The options of `Client`: ``auth_header``, ``timeout``, ``deadline``, ``attempts``, ``max_body``,
            ``on_limit``, ``max_wait``, ``partial``, ``absent``, ``parallel``, ``progress``. A tape
            needs no cache, so ``cache``, ``cache_limit`` and ``offline`` change nothing.

        Returns
        -------
        Client
            A client that raises a `TapeError` for a question that is not on the tape.

        Raises
        ------
        TapeError
            If the folder cannot be read, or is no tape.

        Examples
        --------
        >>> import tempfile, tidytape
        >>> day = {"exchange": "DEMO_SPOT", "coin": "BTC", "interval": "1h", "start": "2024-08-08", "end": "2024-08-09"}
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with tidytape.Client.demo() as client, client.record(f"{folder}/study.tape"):
        ...         recorded = client.fetch(client.query.candles(**day))
        ...     with tidytape.Client.replay(f"{folder}/study.tape") as replayed:
        ...         again = replayed.fetch(replayed.query.candles(**day))
        >>> again.metadata.hash == recorded.metadata.hash, again.metadata.weight
        (True, 0)
        """
        replayer = Replayer(tape)
        arguments: dict[str, Any] = {**options, "cache": False, "offline": False}
        client: Client[Any] = Client(
            replayer.base_url, "replayed", backend=backend, transport=NO_NETWORK, **arguments
        )
        client._tape = replayer
        return client

    def _opened(self) -> tuple[httpx.Client, threading.BoundedSemaphore]:
        with connection_options(self._settings.base_url, self._transport) as options:
            return httpx.Client(**options), threading.BoundedSemaphore(self._settings.parallel)

    @property
    def _of_process(self) -> tuple[httpx.Client, threading.BoundedSemaphore]:
        """The connections of this process, and its places for open requests.

        Two processes with one socket would read each other's answers.
        """
        return self._processes.get(os.getpid()) or self._processes.setdefault(os.getpid(), self._opened())

    def _run(self, steps: Flow[R]) -> R:
        """Carry out a flow for a caller."""
        refuse_fork()
        try:
            return self._follow(steps)
        except TidytapeError as error:
            failure = error
        raise outward(failure)

    def _follow(self, steps: Flow[R], stop: threading.Event | None = None) -> R:
        try:
            step = next(steps)
            while True:
                step = steps.send(self._carry_out(step, stop))
        except StopIteration as done:
            return done.value  # type: ignore[no-any-return]
        finally:
            steps.close()  # releases locks and weight after every kind of end

    def _carry_out(self, step: Step, stop: threading.Event | None) -> object:
        if isinstance(step, Call):
            return step.function()
        if isinstance(step, Together):
            return self._run_together(step)
        if isinstance(step, Wait):
            if stop is None:
                time.sleep(step.seconds)
            elif stop.wait(step.seconds):
                raise _OtherFailedError
            return None
        if stop is not None and stop.is_set():
            raise _OtherFailedError
        return self._sent(step, stop)

    def _run_together(self, step: Together) -> list[object]:
        """Carry out flows in threads, which stop when one of them fails or the caller is interrupted."""
        if len(step.flows) == 1:
            with self._place():
                return [self._follow(step.flows[0])]
        stop, lock = threading.Event(), threading.Lock()
        numbered_flows = iter(enumerate(step.flows))
        results: dict[int, object] = {}
        errors: list[BaseException] = []

        def work() -> None:
            while not stop.is_set():
                with lock:
                    numbered_flow = next(numbered_flows, None)
                if numbered_flow is None:
                    return
                number, steps = numbered_flow
                try:
                    with self._place(stop):
                        results[number] = self._follow(steps, stop)
                except BaseException as error:  # noqa: BLE001 - the caller's thread raises it
                    errors.append(error)
                    stop.set()

        threads = [
            threading.Thread(
                target=contextvars.copy_context().run, args=(work,), daemon=True, name="tidytape-fetch"
            )
            for _ in range(min(self._settings.parallel, len(step.flows)))
        ]
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                while thread.is_alive():
                    thread.join(_INTERRUPT_POLL)
        finally:
            stop.set()  # after Ctrl-C too; the threads then give back their places and weight
        for error in errors:
            if not isinstance(error, _OtherFailedError):
                raise error
        return [results[number] for number in range(len(step.flows))]

    @contextmanager
    def _place(self, stop: threading.Event | None = None) -> Iterator[None]:
        """Take one of the places for open requests, which all fetches of this client share."""
        _, places = self._of_process
        while not places.acquire(timeout=_INTERRUPT_POLL):
            if stop is not None and stop.is_set():
                raise _OtherFailedError
        try:
            yield
        finally:
            places.release()

    def _sent(self, step: Send, stop: threading.Event | None) -> Answer | Failure:
        if self._closed:
            raise closed_error()
        try:
            if getattr(self._transport, "ends_in_time", False):
                return self._answer(step)
            return _within(step.remaining, lambda: self._answer(step), stop)
        except FAILURES as failure:
            return failure
        except RuntimeError:  # httpx raises it if another thread has closed its client
            if self._closed:
                raise closed_error() from None
            raise

    def _answer(self, step: Send) -> Answer:
        http, _ = self._of_process
        with closing(http.send(step.request, stream=True)) as response:
            gathering = Gathering(step, response)
            if gathering.readable:
                for part in (response.content,) if gathering.is_read else response.iter_raw():
                    if not gathering.add(part):
                        break
            return gathering.answer()

    def _stream_of(self, following: Following) -> Stream[FrameT]:
        return Stream(following, lambda: self._of_process[0], lambda: self._closed)

    @staticmethod
    def _drive(stream: Stream[Any], take: Callable[[Any], None]) -> None:
        for batch in stream:
            take(batch)

    def iter_frames(self, query: Asked) -> Iterator[FrameT]:
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
        >>> import tidytape
        >>> with tidytape.Client.demo() as client:
        ...     asked = client.query.candles(
        ...         exchange="DEMO_SPOT", coin="BTC", interval="1h", start="2024-08-08", end="2024-08-09"
        ...     )
        ...     [frame.height for frame in client.iter_frames(asked)]
        [24]
        """
        query = self._run(self._resolved(query_of(query)))
        for steps in self._frames(query):
            yield self._run(steps)

    def close(self) -> None:
        """Close the connections."""
        self._closed = True
        http, _ = self._of_process
        http.close()

    def __enter__(self) -> Client[FrameT]:
        """Return the client."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the client."""
        self.close()


_INTERRUPT_POLL = 0.1
"""Longest wait during which Ctrl-C, or the failure of another thread, has no effect. [s]"""


class _OtherFailedError(Exception):
    """Another flow of the same `Together` has failed."""


def _within(seconds: float, call: Callable[[], R], stop: threading.Event | None) -> R:
    """Run a call in a thread; raise TimeoutError after ``seconds``, or stop waiting when another request has failed.

    The timeouts of httpx limit each read, and none limits the lookup of a host name. So a server that sends a byte of a
    header now and then could block a call for ever. The caller can abandon a thread, so a thread limits the whole call,
    for every transport. An abandoned call ends with the next part of a body, or when the server falls silent; its
    thread is a daemon.
    """
    outcome: Future[R] = Future()

    def run() -> None:
        try:
            outcome.set_result(call())
        except BaseException as error:  # noqa: BLE001 - outcome.result() raises it
            outcome.set_exception(error)

    threading.Thread(target=contextvars.copy_context().run, args=(run,), daemon=True, name="tidytape").start()
    until = time.monotonic() + seconds
    while not wait([outcome], min(_INTERRUPT_POLL, remaining := max(0.0, until - time.monotonic()))).done:
        if stop is not None and stop.is_set():
            raise _OtherFailedError
        if not remaining:
            raise TimeoutError
    return outcome.result()
