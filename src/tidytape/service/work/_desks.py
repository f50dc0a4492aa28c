"""Desks: places where one task at a time is computed. Tasks wait while no desk is idle, and keys take turns."""

from __future__ import annotations

import asyncio
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, Generic, Protocol, TypeVar

from tidytape.service.answer._engine import Engine
from tidytape.service.answer._scan import Limits
from tidytape.service.work._computing import (
    A,
    Computing,
    OverloadedError,
    StoppedError,
    Task,
    computed,
    warm_up,
)
from tidytape.service.work._fair_queue import FairQueue


class Waiting:
    """A task and the future of its answer."""

    def __init__(self, task: Task[Any]) -> None:
        self.task = task
        self.began: float | None = None
        self.future: Future[Any] = Future()

    def refuse(self) -> None:
        """Refuse the task, unless its caller has hung up."""
        if self.future.set_running_or_notify_cancel():
            self.future.set_exception(OverloadedError())


class Desk:
    """A place where one answer is computed at a time, by a thread of its own."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.was_heavy = False
        self.tasks: SimpleQueue[Waiting | None] = SimpleQueue()


D = TypeVar("D", bound=Desk)


class Desks(ABC, Generic[D]):
    """Computes answers at desks. Tasks wait while none is idle, and keys take turns.

    A task whose caller has hung up leaves the queue; if its computation has begun, it runs to its end and the answer is
    dropped.

    Parameters
    ----------
    desks : sequence of Desk
    waiting : int
        How many tasks may wait. Beyond it, the newest task of the key with the most is refused.
    waiting_of_key : int
        How many tasks of one key may wait.
    """

    def __init__(self, desks: Sequence[D], *, waiting: int, waiting_of_key: int) -> None:
        self._lock = threading.Lock()
        self._turns: FairQueue[Waiting] = FairQueue(most=waiting, most_of_key=waiting_of_key)
        self._closed = False
        self._desks = desks
        self._idle = list(desks)
        self._threads = [
            threading.Thread(
                target=self._serve, args=(desk,), daemon=True, name=f"tidytape-desk-{desk.number}"
            )
            for desk in desks
        ]
        for thread in self._threads:
            thread.start()

    @property
    def waiting(self) -> int:
        """How many tasks wait."""
        return len(self._turns)

    @property
    def busy(self) -> int:
        """How many answers are computed."""
        return len(self._desks) - len(self._idle)

    async def run(self, task: Task[A]) -> A:
        """Return the answer.

        Raises
        ------
        OverloadedError
            If too many tasks wait, and this one is refused.
        StoppedError
            If it took too long, or more memory than it may.
        """
        waiting = Waiting(task)
        with self._lock:
            if self._closed:
                raise OverloadedError
            self._turns.add(task.key, waiting, heavy=task.heavy)
            self._hand_out()
            self._refuse_surplus()
        try:
            return await self._awaited(waiting)  # type: ignore[no-any-return]  # of this task
        except asyncio.CancelledError:
            with self._lock:
                self._turns.drop(waiting)
            raise

    def drain(self) -> None:
        """Refuse the tasks that wait, and from now on every task that finds no idle desk."""
        with self._lock:
            self._turns.most = 0
            self._refuse_surplus()

    def close(self) -> None:
        """Refuse new tasks, and finish the answers in progress."""
        self.drain()
        with self._lock:
            self._closed = True
        for desk in self._desks:
            desk.tasks.put(None)
        for thread in self._threads:
            thread.join()

    # -- inside ------------------------------------------------------------------------------------------------------

    async def _awaited(self, waiting: Waiting) -> Any:
        """Return the answer once a desk has computed it."""
        return await asyncio.wrap_future(waiting.future)

    @abstractmethod
    def _computed(self, desk: D, task: Task[A]) -> A:
        """Compute an answer at a desk."""

    def _lanes_of(self, desk: D) -> tuple[bool, ...]:
        """The lanes that a desk takes from, the preferred one first; True is the lane of heavy tasks."""
        return (False, True)

    def _hand_out(self) -> None:
        """Hand waiting tasks to idle desks. The caller holds the lock."""
        for desk in sorted(self._idle, key=lambda desk: desk.number):
            for heavy in self._lanes_of(desk):
                if (waiting := self._turns.next(heavy=heavy)) is not None:
                    self._idle.remove(desk)
                    desk.was_heavy = heavy
                    desk.tasks.put(waiting)
                    break

    def _refuse_surplus(self) -> None:
        """Refuse waiting tasks until the queue is within its bounds. The caller holds the lock."""
        while (surplus := self._turns.surplus()) is not None:
            surplus.refuse()

    def _serve(self, desk: D) -> None:
        """Compute what is handed to a desk: the body of its thread."""
        while (waiting := desk.tasks.get()) is not None:
            if waiting.future.set_running_or_notify_cancel():
                waiting.task.begun = True
                waiting.began = time.monotonic()
                try:
                    waiting.future.set_result(self._computed(desk, waiting.task))
                except Exception as error:  # noqa: BLE001 - the caller waits for any outcome
                    waiting.future.set_exception(error)
                except BaseException as error:  # noqa: BLE001 - a Rust panic, which would end the event loop
                    failure = RuntimeError(f"{type(error).__name__}: {error}")
                    waiting.future.set_exception(failure.with_traceback(error.__traceback__))
            with self._lock:
                self._idle.append(desk)
                self._hand_out()


class SmallDesks(Desks[Desk]):
    """Computes small answers in threads of this process: where they arrive, and without a copy of what is in memory.

    Nothing can stop a thread, so its tasks must be small, see `Estimate.is_small`. An answer
    that takes too long all the same is thrown away when it is there.

    Parameters
    ----------
    engine : Engine
    desks : int
        How many answers are computed at once.
    waiting, waiting_of_key : int
        As of `Desks`.
    seconds : float
        The longest that one answer may take, not counting the time that its task waits. [s]
    """

    def __init__(
        self, engine: Engine, *, desks: int, waiting: int, waiting_of_key: int, seconds: float
    ) -> None:
        self.engine, self._seconds = engine, seconds
        super().__init__(
            [Desk(number) for number in range(desks)], waiting=waiting, waiting_of_key=waiting_of_key
        )

    async def _awaited(self, waiting: Waiting) -> Any:
        answer, seconds = asyncio.wrap_future(waiting.future), self._seconds
        try:
            while seconds > 0:
                if (await asyncio.wait({answer}, timeout=seconds))[0]:
                    return answer.result()
                seconds = self._seconds - (0 if waiting.began is None else time.monotonic() - waiting.began)
        finally:
            answer.cancel()
        raise StoppedError(too_long=True)

    def _computed(self, desk: Desk, task: Task[A]) -> A:
        return computed(self.engine, task)


class ClosableComputing(Computing, Protocol):
    """Computes answers until it is closed."""

    def get_ready(self) -> None:
        """Wait until the first answer takes no longer than later ones."""

    def drain(self) -> None:
        """Refuse the tasks that wait, and from now on every task that would have to."""

    def close(self) -> None:
        """Refuse new tasks, and finish the answers in progress."""


class SmallFirst:
    """Computes small answers in this process and leaves all others to worker processes.

    So neither waits for the other, and what takes long can be ended.

    Parameters
    ----------
    small : SmallDesks
    others : ClosableComputing
        The worker processes.
    """

    def __init__(self, small: SmallDesks, others: ClosableComputing) -> None:
        self._small, self._others = small, others
        self.limits: Limits = others.limits

    @property
    def waiting(self) -> int:
        """How many tasks wait."""
        return self._small.waiting + self._others.waiting

    @property
    def ended(self) -> int:
        """How many workers ended before they answered."""
        return self._others.ended

    async def run(self, task: Task[A]) -> A:
        """Return the answer; see `Desks.run`."""
        return await (self._small if task.small else self._others).run(task)

    def get_ready(self) -> None:
        """Wait until the first answers take no longer than later ones; to be called before the first task."""
        warm_up(self._small.engine)
        self._others.get_ready()

    def drain(self) -> None:
        """Refuse the tasks that wait, and from now on every task that finds no idle desk."""
        self._small.drain()
        self._others.drain()

    def close(self) -> None:
        """Refuse new tasks, and finish the answers in progress."""
        self._small.close()
        self._others.close()
