"""What computes answers: the protocol that the routes use, and threads of this process as the simplest way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import anyio

from tidytape.service.engine import Engine
from tidytape.service.scan import Limits
from tidytape.service.task import Made, SharedBody, Task, computed

__all__ = ["Answer", "Computing", "OverloadedError", "StoppedError", "Threads"]

_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class Answer:
    """A computed answer.

    Attributes
    ----------
    body : bytes or SharedBody
        In the form and the coding of the task. [byte]
    headers : mapping of str to str
        The headers that say how it is compressed.
    rows : int
        Rows of its frames.
    """

    body: bytes | SharedBody
    headers: Mapping[str, str]
    rows: int


class OverloadedError(Exception):
    """Too many tasks wait, or the service is about to end: this task is refused."""


class StoppedError(Exception):
    """The worker ended before it answered: it took too long, or more memory than it may.

    Attributes
    ----------
    too_long : bool
        Whether it took too long.
    """

    def __init__(self, *, too_long: bool) -> None:
        super().__init__("took too long" if too_long else "ended without an answer")
        self.too_long = too_long


class Computing(Protocol):
    """Computes answers off the event loop."""

    @property
    def limits(self) -> Limits:
        """What one answer may take."""

    @property
    def waiting(self) -> int:
        """How many tasks wait."""

    @property
    def ended(self) -> int:
        """How many workers ended before they answered."""

    async def answer(self, task: Task) -> Answer:
        """Return the answer. Cancelling the coroutine drops the task unless its computation has begun."""


class Threads:
    """Computes in threads of this process, which nothing can stop: for a client in the same process.

    Parameters
    ----------
    engine : Engine
    at_once : int
        How many answers are computed at the same time; others wait.
    """

    def __init__(self, engine: Engine, *, at_once: int = _AT_ONCE) -> None:
        self._engine = engine
        self._limiter = anyio.CapacityLimiter(at_once)

    @property
    def limits(self) -> Limits:
        """Those of the engine."""
        return self._engine.limits

    @property
    def waiting(self) -> int:
        """How many tasks wait for a thread."""
        return self._limiter.statistics().tasks_waiting

    @property
    def ended(self) -> int:
        """Always 0: a thread cannot be ended."""
        return 0

    async def answer(self, task: Task) -> Answer:
        """Return the answer."""

        def work() -> Made:
            task.begun = True
            return computed(self._engine, task)

        return Answer(*await anyio.to_thread.run_sync(work, limiter=self._limiter))
