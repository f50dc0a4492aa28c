"""The logs that a path leads to, one after another: which files beside it are read, and in which order.

A rotation renames the log and begins a new one at its path, or copies the log and cuts it to nothing. Old logs may be
packed later. Two rotations may happen between two looks, or while nobody looks.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections import deque
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from tidytape.errors import IngestError
from tidytape.lake.hygiene._recorders import beat
from tidytape.lake.record._tail import Log, identity, opened

if TYPE_CHECKING:
    from tidytape.lake.record._follow import Follower

T = TypeVar("T")
Begun = tuple[int, int]  # the time of the first event, and when the file was last changed [ns]


def unread(begun: Mapping[T, Begun], since: Begun) -> list[T]:
    """Return the logs that may hold lines that were not read, in the order in which they began.

    A log that began before ``since`` was read, or was there before anybody followed. So was one that was last changed
    before: its events may be of any time.

    Parameters
    ----------
    begun : mapping of log to (int, int)
        The time of the first event of each log, and when its file was last changed. [ns]
    since : (int, int)
        The same of the log that was read last. [ns]

    Examples
    --------
    >>> sunday, monday, tuesday, wednesday = (1, 9), (10, 19), (20, 35), (30, 39)  # Tuesday's was packed at 35
    >>> logs = {"log": wednesday, "log.1.gz": tuesday, "log.2": monday, "log.3": sunday, "log.copy": (90, 5)}
    >>> unread(logs, since=monday)
    ['log.2', 'log.1.gz', 'log']
    """
    event, changed = since
    later = [log for log, (first, last) in begun.items() if first >= event and last >= changed]
    return sorted(later, key=begun.__getitem__)


class FollowedPath:
    """The logs of one path that were not read to their end.

    Parameters
    ----------
    path : Path
        Where the log is, or will be.
    follower : Follower
        Puts their lines into the lake.
    every : float
        Time between two commits. [s]
    most_lines : int
        How many lines may wait.

    Attributes
    ----------
    logs : deque of Log
        The oldest first.
    """

    def __init__(self, path: Path, follower: Follower, every: float, most_lines: int) -> None:
        self.path = path
        self.logs: deque[Log] = deque()
        self._follower = follower
        self._every = every
        self._most_lines = most_lines
        self._noted: Log | None = None
        self._went_in = -every
        self._last_line: datetime | None = None
        self._complete = datetime.now(UTC)

    def close(self) -> None:
        """Close all files."""
        while self.logs:
            self.logs.popleft().close()

    def go(self, *, is_last: bool) -> bool:
        """Look at the files, and put lines in if it is time to; return whether some went in."""
        self._look()
        went_in = False
        while self.logs:
            log = self.logs[0]
            if grew := log.read():
                self._last_line = datetime.now(UTC)
            # After the log was renamed, its writer may go on writing to it until it writes to the new log.
            log.is_ended |= not (grew or log.is_full) and any(later.size() for later in [*self.logs][1:])
            if log.is_done:
                log.end_line()
            if self._is_due(log, is_last=is_last):
                self._went_in = time.monotonic()
                while self._follower.put(log):  # after a kill one piece up to the end of each table
                    went_in = True
                self._note(log)
            if log.is_done:
                self._follower.end(log)
                self.logs.popleft().close()
            elif not grew:
                break
        if not (self.logs and self.logs[0].lines()):
            self._complete = datetime.now(UTC)
        return went_in

    def beat(self) -> None:
        """Write the heartbeat of the path."""
        files = [file for file in self._follower.report().files if file.path == str(self.path)]
        now = datetime.now(UTC)
        facts = {
            "beat": now,
            "last_line": self._last_line,
            "lag": (now - self._complete).total_seconds(),
            "lines": sum(file.lines for file in files),
            "rows": sum(count.new for file in files for count in file.counts),
            "bad_lines": sum(file.bad_lines for file in files),
            "missing": len(self._follower.missing),
        }
        beat(self._follower.lake, str(self.path.absolute()), facts)

    def _is_due(self, log: Log, *, is_last: bool) -> bool:
        lines = log.lines()
        is_time = time.monotonic() - self._went_in >= self._every
        return bool(lines) and (
            is_last or is_time or log.is_full or log.is_done or lines.count(b"\n") >= self._most_lines
        )

    def _note(self, log: Log) -> None:
        """Note which log of the path is read, once it has an event."""
        if log is not self._noted and (event := self._follower.first_time(log)) is not None:
            self._follower.note_path(self.path, event)
            self._noted = log

    def _look(self) -> None:
        """Look whether the path leads to another log, or the log was cut."""
        newest = self.logs[-1] if self.logs else None
        try:
            facts = self.path.stat()
            if newest is None:
                self._begin(self._live())
            elif newest.identity != identity(facts):
                self._rotate(newest, self._live(), is_cut=False)
            elif not newest.is_same():
                self._rotate(newest, self._live(), is_cut=True)
        except FileNotFoundError:
            return  # not there yet, or just renamed: the next look finds it

    def _live(self) -> Log:
        log = opened(self.path)
        if log.is_packed or log.broken:
            log.close()
            raise IngestError(
                f"{self.path}: a packed file does not grow; ingest or replay it", path=str(self.path)
            )
        return log

    def _begin(self, live: Log) -> None:
        """Begin with the log that was read last, if it was renamed, copied or packed since, else with the path's."""
        rotated = self._rotated()
        known = next((log for log in (live, *reversed(rotated)) if self._follower.knows(log)), None)
        noted = self._follower.noted_path(self.path)
        event = (noted or sys.maxsize) if known is None else max(self._begun(known)[0], noted)
        read = [log for log in (live, *rotated) if self._begun(log)[0] == event and self._follower.knows(log)]
        if noted and not read:
            self._follower.miss(
                f"{self.path}: the log that was followed last is not there or it was cut; lines that it got after the "
                "last look are not in the lake"
            )
        # When a file was packed may be later than its last line; a line is no older than the first event.
        changed = min((event if log.is_packed else log.changed for log in read), default=event)
        self._add(rotated, (event, changed), live)

    def _rotate(self, newest: Log, live: Log, *, is_cut: bool) -> None:
        """Find the logs that began since the newest one, and the rest of that one if its file was cut."""
        rotated = self._rotated()
        since = self._begun(newest)
        if is_cut:
            position, mark = newest.position, newest.mark(newest.position - newest.offset)
            copies = [log for log in rotated if log.head.startswith(newest.head)]
            copy = next((log for log in copies if log.was_read_to(position, mark)), None)
            if copy is None:
                self._follower.miss(
                    f"{self.path}: it was cut, and no copy of it was found; lines that it got after byte {position} "
                    "are not in the lake"
                )
                copy = Log(self.path, Path(os.devnull).open("rb"))  # noqa: SIM115  # the log closes it
            newest.leave_to(copy)
            rotated = [log for log in rotated if log is not copy]
        self._add(rotated, since, live)

    def _add(self, rotated: list[Log], since: Begun, live: Log) -> None:
        """Add the logs that may hold lines that were not read, without copies of others; close the other files."""
        later = unread({log: self._begun(log) for log in rotated}, since)
        texts = [*self.logs, live]
        for log in sorted(later, key=lambda log: (-log.size(), log.is_packed)):
            if not (log.head and any(text.holds(log) for text in texts)):
                texts.append(log)
        for log in rotated:
            if log not in texts:
                log.close()
        for log in [log for log in later if log in texts]:
            if log.broken:
                self._follower.miss(f"{log.path}: {log.broken}")
            self.logs.append(log)
        self.logs.append(live)

    def _begun(self, log: Log) -> Begun:
        return self._follower.first_time(log) or log.changed, log.changed

    def _rotated(self) -> list[Log]:
        """Return the logs beside the path whose names begin with its name, except open ones, as they began."""
        name = re.compile(re.escape(self.path.name) + r"[._~-].*")
        are_open = {log.identity for log in self.logs}
        paths = [path for path in self.path.parent.iterdir() if name.fullmatch(path.name) and path.is_file()]
        logs = [opened(path) for path in paths if identity(path.stat()) not in are_open]
        return sorted(logs, key=self._begun)
