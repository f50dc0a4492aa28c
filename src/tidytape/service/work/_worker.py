"""A worker process: it computes one answer at a time and sends it to the service through a pipe.

``python -m tidytape.service.work._worker`` reads pickles from its standard input, first a `Begin`, then a `Job` per
task, and writes one pickle per task to its original standard output. It ends when its input does. It loads no command
line, no client and no web framework.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
import threading
import traceback
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from tidytape.lake import Lake
from tidytape.service.answer._engine import Engine
from tidytape.service.answer._scan import Limits
from tidytape.service.work import _computing as computing
from tidytape.service.work._computing import Task, left_in_memory

if sys.platform != "win32":
    import resource


_NICENESS = 10
"""Niceness of a worker with heavy tasks.

On a busy machine it still gets a tenth of a processor; at 19 its answers would take too long.
"""


@dataclass(frozen=True, slots=True)
class Begin:
    """What a worker needs before its first task.

    Attributes
    ----------
    path : str
        Address of the lake.
    options : mapping of str to str, or None
        Options of the object store.
    memory : int or None
        The most that the process may allocate. [byte]
    limits : Limits
        What one answer may cost to compute.
    """

    path: str
    options: Mapping[str, str] | None
    memory: int | None
    limits: Limits


@dataclass(frozen=True, slots=True)
class Job:
    """A task as it is sent to a worker.

    Attributes
    ----------
    task : Task
    place : str or None
        The path that a large body is written to; None if it goes through the pipe.
    yields : bool
        Whether the operating system runs this worker at a lower priority from now on.
    """

    task: Task[Any]
    place: str | None
    yields: bool


def main() -> None:
    """Compute until the input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C also reaches the service, which ends its workers
    output = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # output of libraries must not mix with the answers
    messages: SimpleQueue[Any] = SimpleQueue()
    threading.Thread(target=_read, args=(messages,), daemon=True).start()
    begin: Begin = messages.get()
    if begin.memory is not None and sys.platform == "linux":
        # An allocation beyond it fails and ends this process alone.
        resource.setrlimit(resource.RLIMIT_DATA, (begin.memory, begin.memory))
    engine = Engine(Lake(begin.path, storage_options=begin.options), limits=begin.limits)
    computing.warm_up(engine)
    output.write(pickle.dumps(None))  # ready
    output.flush()
    while True:
        job: Job = messages.get()
        if job.yields:
            _give_way()
        output.write(_answer(engine, job))
        output.flush()


def _read(messages: SimpleQueue[Any]) -> None:
    """Read messages; end the process in the middle of its work when the service is gone."""
    with suppress(EOFError, OSError):
        while True:
            messages.put(pickle.load(sys.stdin.buffer))
    os._exit(0)


def _answer(engine: Engine, job: Job) -> bytes:
    """Return the pickle of an answer, or of the exception that computing it raised."""
    try:
        answer = computing.computed(engine, job.task)
        assert isinstance(answer.body, bytes)
        return pickle.dumps(replace(answer, body=left_in_memory(answer.body, job.place)))
    except MemoryError:
        os._exit(1)
    except BaseException as error:  # noqa: BLE001 - a Rust panic is a BaseException
        failure = error if isinstance(error, Exception) else RuntimeError(f"{type(error).__name__}: {error}")
        failure.add_note(f"In the worker process:\n{traceback.format_exc()}")
        try:
            message = pickle.dumps(failure)
            pickle.loads(message)
        except Exception:  # noqa: BLE001 - exceptions of libraries may not survive pickling
            message = pickle.dumps(RuntimeError(traceback.format_exc()))
        return message


def _give_way() -> None:
    """Lower the priority of every thread of this process; later threads inherit it."""
    if sys.platform == "linux":
        for thread in Path("/proc/self/task").iterdir():
            with suppress(OSError):  # the thread has ended
                os.setpriority(os.PRIO_PROCESS, int(thread.name), _NICENESS)
    elif sys.platform != "win32":
        os.nice(_NICENESS)


if __name__ == "__main__":
    main()
