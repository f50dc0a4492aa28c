"""Where answers are computed: in threads of this process, or in processes that can be stopped."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import sys
from collections.abc import Mapping
from concurrent.futures import CancelledError
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import anyio
from pebble import ProcessExpired, ProcessPool

from tidytape import wire
from tidytape.lake import Lake
from tidytape.query import PointsQuery
from tidytape.service.engine import Engine, Subjects
from tidytape.service.packing import packed
from tidytape.service.parcels import Parcel, laid_down

if sys.platform != "win32":
    import resource

if TYPE_CHECKING:
    from pebble import ProcessFuture

__all__ = ["Answer", "Computing", "OverloadedError", "Processes", "StoppedError", "Task", "Threads"]

_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class Task:
    """What is to be computed.

    Attributes
    ----------
    query : PointsQuery
        The query.
    subjects : dict of str to list of Instrument
        What it selects.
    form : str
        Media type of the answer.
    coding : str
        Packings that the caller takes, as its header says it.
    """

    query: PointsQuery
    subjects: Subjects
    form: str
    coding: str


@dataclass(frozen=True, slots=True)
class Answer:
    """What was computed.

    Attributes
    ----------
    body : bytes or Parcel
        In the form and packing asked for. [byte]
    headers : mapping of str to str
        That say how it is packed.
    rows : int
        Rows of its frames.
    """

    body: bytes | Parcel
    headers: Mapping[str, str]
    rows: int


class OverloadedError(Exception):
    """So much is waiting that nothing more is taken."""


class StoppedError(Exception):
    """The computation was stopped: it took too long, or more memory than it may.

    Attributes
    ----------
    too_long : bool
        Which of the two.
    """

    def __init__(self, *, too_long: bool) -> None:
        super().__init__("took too long" if too_long else "ended without an answer")
        self.too_long = too_long


class Computing(Protocol):
    """Computes answers, off the event loop."""

    async def answer(self, task: Task) -> Answer:
        """Return the answer; a coroutine that is cancelled lets go of the computation."""


class Threads:
    """Computes in threads of this process, where nothing can stop what runs: for a client of its own process.

    Parameters
    ----------
    engine : Engine
    at_once : int
        How many answers are computed at the same time; others wait.
    """

    def __init__(self, engine: Engine, *, at_once: int = _AT_ONCE) -> None:
        self._engine = engine
        self._limiter = anyio.CapacityLimiter(at_once)

    async def answer(self, task: Task) -> Answer:
        """Return the answer."""
        made = await anyio.to_thread.run_sync(_computed, self._engine, task, limiter=self._limiter)
        return Answer(*made)


class Processes:
    """Computes in processes, which are ended where an answer takes too long, too much memory, or nobody waits for it.

    Parameters
    ----------
    lake : Lake
        What the answers are from; every process opens it.
    workers : int
        How many processes there are.
    waiting : int
        How many tasks may wait for one; beyond it `OverloadedError`.
    seconds : float
        The longest that one answer may take. [s]
    memory : int, optional
        The most that one process may allocate. [byte]
    """

    def __init__(
        self,
        lake: Lake,
        *,
        workers: int | None = None,
        waiting: int = 64,
        seconds: float = 30.0,
        memory: int | None = 4 << 30,
    ) -> None:
        self.workers = workers or min(4, os.cpu_count() or 1)
        self._most = self.workers + waiting
        self._seconds = seconds
        self._taken = 0
        self._begin = _begin, (lake.path, lake.storage_options, memory)
        self._closed = False
        self._pool = self._new_pool()

    async def answer(self, task: Task) -> Answer:
        """Return the answer.

        Raises
        ------
        OverloadedError
            If too much is waiting.
        StoppedError
            If the process had to be ended.
        """
        if self._taken >= self._most:
            raise OverloadedError
        self._taken += 1
        future: ProcessFuture[Made] | None = None
        parcel = Parcel()
        try:
            future = self._scheduled(task, parcel.path)
            body, headers, rows = await asyncio.wrap_future(future)
            return Answer(parcel if body is None else body, headers, rows)
        except TimeoutError:
            raise StoppedError(too_long=True) from None
        except ProcessExpired:
            raise StoppedError(too_long=False) from None
        except (asyncio.CancelledError, CancelledError):
            if future is not None:
                future.cancel()  # type: ignore[no-untyped-call]  # ends the process that computes it
            raise
        finally:
            self._taken -= 1

    def _scheduled(self, task: Task, place: str | None) -> ProcessFuture[Made]:
        try:
            return self._pool.schedule(_work, args=(task, place), timeout=self._seconds)
        except RuntimeError:
            # A process that is killed while it takes a task, by the system for want of memory, takes its pool along.
            if self._closed:
                raise StoppedError(too_long=False) from None
            self._pool = self._new_pool()
            return self._pool.schedule(_work, args=(task, place), timeout=self._seconds)

    def _new_pool(self) -> ProcessPool:
        begin, arguments = self._begin
        context = multiprocessing.get_context("spawn")
        pool = ProcessPool(max_workers=self.workers, initializer=begin, initargs=arguments, context=context)
        pool.schedule(_ready)  # the first task starts the processes, so that no caller waits for that
        return pool

    def close(self) -> None:
        """Take nothing more, finish what is being computed, and end the processes."""
        self._closed = True
        self._pool.close()  # type: ignore[no-untyped-call]
        self._pool.join()


Made = tuple[bytes | None, Mapping[str, str], int]
"""Body, headers and rows of an answer; no body where it was laid down in a parcel."""


def _computed(engine: Engine, task: Task) -> tuple[bytes, Mapping[str, str], int]:
    frames = engine.frames(task.query, task.subjects)
    if all(frame.is_empty() for _, frame in frames):
        engine.refuse_finer(task.query, task.subjects)  # else it would look as if nothing had been traded
    body = wire.to_arrow(frames[0][1]) if task.form == wire.ARROW_MIME else wire.encode_all(frames)
    body, headers = packed(body, task.coding)
    return body, headers, sum(frame.height for _, frame in frames)


# --- in a process of its own ----------------------------------------------------------------------------------------

_engines: list[Engine] = []


def _begin(path: str, options: Mapping[str, str] | None, memory: int | None) -> None:
    if memory is not None and sys.platform == "linux":
        # What allocates more is ended by the system; nobody but its caller is touched.
        resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    _engines[:] = [Engine(Lake(path, storage_options=options))]


def _ready() -> None:
    return


def _work(task: Task, place: str | None) -> Made:
    body, headers, rows = _computed(_engines[0], task)
    return laid_down(body, place), headers, rows
