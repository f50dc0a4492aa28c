"""Workers: processes that compute one answer at a time, ended and replaced only where a limit demands it."""

from __future__ import annotations

import logging
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

from tidytape.lake import LakeReader
from tidytape.service.answer._scan import Limits
from tidytape.service.work._computing import A, SharedBody, StoppedError, Task
from tidytape.service.work._desks import Desk, Desks
from tidytape.service.work._worker import Begin, Job

_log = logging.getLogger("tidytape.service")

_START = 60.0
"""How long a worker may take until it is ready. [s]"""

_GRACE = 2.0
"""How long an idle worker may take to end. [s]"""


class _Desk(Desk):
    """A place where one answer is computed at a time, by one worker process after another."""

    def __init__(self, number: int, command: Sequence[str], begin: Begin) -> None:
        super().__init__(number)
        self._command, self._begin = command, begin
        self.start()

    def start(self) -> None:
        """Start a worker; it is ready some time later."""
        self._process = subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._is_ready = self._is_late = False
        with suppress(StoppedError):  # its first task shows the failure again
            self._send(self._begin)

    @property
    def is_alive(self) -> bool:
        """Whether the process runs."""
        return self._process.poll() is None

    def get_ready(self) -> None:
        """Wait until the worker is ready; raise StoppedError if it ends instead."""
        if not self._is_ready:
            with self._at_most(_START):
                self._receive()
            self._is_ready = True

    def answer(self, job: Job, *, seconds: float) -> Any:
        """Return the worker's answer to a job, or raise the exception that the worker sent.

        Raises
        ------
        StoppedError
            If there is no answer after some seconds, and the process was ended; or if it ended by itself.
        """
        self.get_ready()
        with self._at_most(seconds):
            self._send(job)
            answer = self._receive()
        if isinstance(answer, Exception):
            raise answer
        return answer

    def dismiss(self) -> None:
        """Let the process end: it has no more tasks."""
        assert self._process.stdin is not None
        with suppress(OSError):  # it has ended already
            self._process.stdin.close()

    def wait(self) -> None:
        """Wait until the process has ended."""
        try:
            self._process.wait(_GRACE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()

    @contextmanager
    def _at_most(self, seconds: float) -> Iterator[None]:
        """End the process after some seconds."""
        deadline = threading.Timer(seconds, self._end, [self._process])
        deadline.start()
        try:
            yield
        finally:
            deadline.cancel()

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        self._is_late = process is self._process  # and not another one that has taken its place
        process.kill()

    def _send(self, message: object) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(pickle.dumps(message))
            self._process.stdin.flush()
        except OSError:
            raise self._stopped() from None

    def _receive(self) -> Any:
        assert self._process.stdout is not None
        try:
            return pickle.load(self._process.stdout)
        except (EOFError, OSError, pickle.UnpicklingError):
            raise self._stopped() from None

    def _stopped(self) -> StoppedError:
        self._process.kill()
        return StoppedError(too_long=self._is_late)


class Processes(Desks[_Desk]):
    """Computes in worker processes. Tasks wait while no worker is idle, and keys take turns.

    Heavy tasks never take the last worker, and run at a lower priority of the operating system. A worker is ended
    only if its task exceeds the limit on time or memory; another one takes its place. A task whose caller has hung
    up leaves the queue; if its computation has begun, the service computes it to its end and drops the answer.

    Parameters
    ----------
    lake : LakeReader
        The lake that every worker opens.
    workers : int
        How many answers are computed at once; one per processor, at least 2 and at most 4, if left out. Of several
        workers one is kept free of heavy tasks; a single one computes them all.
    waiting : int
        How many tasks may wait. Beyond it, the newest task of the key with the most is refused.
    waiting_of_key : int
        How many tasks of one key may wait.
    seconds : float
        The longest that one answer may take, not counting the time that its task waits. [s]
    memory : int, optional
        The most that one worker may allocate. [byte]

    Attributes
    ----------
    workers : int
        As given.
    limits : Limits
        What one answer may take, so that it keeps within the limits on time and memory.
    ended : int
        How many workers ended before they answered, whatever the reason.
    """

    command: Sequence[str] = (sys.executable, "-m", "tidytape.service.work._worker")

    def __init__(
        self,
        lake: LakeReader,
        *,
        workers: int | None = None,
        waiting: int = 256,
        waiting_of_key: int = 64,
        seconds: float = 30.0,
        memory: int | None = 4 << 30,
    ) -> None:
        self.workers = workers or max(2, min(4, os.cpu_count() or 1))
        self.ended = 0
        self._seconds = seconds
        self.limits = Limits.of(seconds=seconds, memory=memory)
        begin = Begin(lake.path, lake.storage_options, memory, self.limits)
        super().__init__(
            [_Desk(number, self.command, begin) for number in range(self.workers)],
            waiting=waiting,
            waiting_of_key=waiting_of_key,
        )

    def get_ready(self) -> None:
        """Wait until each worker is ready or has failed; the first task replaces one that has failed."""
        for desk in self._desks:
            with suppress(StoppedError):
                desk.get_ready()

    def close(self) -> None:
        """Refuse new tasks, finish the answers in progress, and end the workers."""
        super().close()
        for desk in self._desks:
            desk.dismiss()
        for desk in self._desks:
            desk.wait()

    # -- inside ------------------------------------------------------------------------------------------------------

    def _lanes_of(self, desk: _Desk) -> tuple[bool, ...]:
        """The lanes that a desk takes from, the preferred one first. The first of several desks takes light tasks."""
        if desk.number == 0 and self.workers > 1:
            return (False,)
        return (False, True) if desk.was_heavy else (True, False)

    def _computed(self, desk: _Desk, task: Task[A]) -> A:
        while not desk.is_alive:  # somebody else ended it while it was idle
            self._replace(desk)
        parcel = SharedBody()
        yields = task.heavy and self.workers > 1
        try:
            answer: A = desk.answer(Job(task.for_process(), parcel.path, yields), seconds=self._seconds)
        except StoppedError as error:
            _log.error(
                "a worker was ended: its answer took %s",
                f"longer than {self._seconds:g} s"
                if error.too_long
                else "more memory than it may, or it failed",
            )
            self._replace(desk)
            raise
        return replace(answer, body=parcel) if answer.body is None else answer

    def _replace(self, desk: _Desk) -> None:
        """Replace a worker that has ended."""
        with self._lock:
            self.ended += 1
        desk.dismiss()
        desk.wait()
        desk.start()
