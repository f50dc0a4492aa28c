"""A command that starts again when a crash ends it."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import suppress
from queue import Empty, SimpleQueue


def pause(crashes: int) -> float:
    """Return how long to wait before the next start, after some crashes in a row. [s]

    Examples
    --------
    >>> [pause(crashes) for crashes in (1, 2, 3, 4, 5, 6, 7, 1_000)]
    [0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]
    """
    return 0.0 if crashes == 1 else min(2.0 ** min(crashes - 2, 10), 30.0)


def supervised(command: list[str]) -> int:
    """Run a command until it ends by itself, and start it again each time that a crash ends it.

    A crash is a signal that did not come through this process. SIGTERM, SIGINT and SIGHUP are passed on, and after them
    the command does not start again. Each crash is one line on standard error.

    Parameters
    ----------
    command : list of str
        The program and its arguments.

    Returns
    -------
    int
        The exit code of the command. If a signal that was passed on ended it, 128 plus its number, as in a shell.
    """
    signals: SimpleQueue[int] = SimpleQueue()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda number, _: signals.put(number))
    crashes = stop = 0
    while True:
        # In a group of its own: Ctrl-C at a terminal would reach it twice, and then it does not finish its answers.
        began, child = time.monotonic(), subprocess.Popen(command, process_group=0)
        while (code := child.poll()) is None:
            with suppress(Empty):
                stop = signals.get(timeout=0.1)
                child.send_signal(stop)
        if code >= 0 or stop:
            return code if code >= 0 else 128 - code
        crashes = 1 if time.monotonic() - began > 60 else crashes + 1  # after a minute they are not in a row
        name = {number.value: number.name for number in signal.Signals}.get(-code, f"signal {-code}")
        line = f"error: {name} ended the service; it starts again in {pause(crashes):g} s\n"
        with suppress(OSError):  # whoever reads standard error may be gone
            os.write(2, line.encode())
        with suppress(Empty):
            return 128 + signals.get(timeout=pause(crashes))
