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
from typing import TYPE_CHECKING, Any

from tidytape.errors import IngestError
from tidytape.lake._tables import MARKETS
from tidytape.lake.hygiene._info import beat
from tidytape.lake.record._tail import Log, opened

if TYPE_CHECKING:
    from tidytape.lake.record._follow import Follower

Begun = tuple[int, int]  # of a log: the time of the first event, and when the file was last changed [ns]


def unread(begun: Mapping[Any, Begun], since: Begun) -> list[Any]:
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
        self.path, self._note = path, f"path:{path.absolute()}"
        self.logs: deque[Log] = deque()
        self._follower = follower
        self._every, self._most_lines = every, most_lines
        self._went_in = -every
        self._noted: Log | None = None
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
                went_in = self._put(log) or went_in
            if log.is_done:
                self._follower.end(log)
                self.logs.popleft().close()
            elif not grew:
                break
        if not (self.logs and self.logs[0].lines()):
            self._complete = datetime.now(UTC)
        return went_in

    def _is_due(self, log: Log, *, is_last: bool) -> bool:
        lines = log.lines()
        return bool(lines) and (
            is_last
            or log.is_full
            or log.is_done
            or lines.count(b"\n") >= self._most_lines
            or time.monotonic() - self._went_in >= self._every
        )

    def _put(self, log: Log) -> bool:
        """Put the waiting lines in; return whether some went in. First note when the log began, see `_begin`."""
        if self._noted is not log and (event := self._follower.first_time(log)):
            self._follower.lake.writer()._note({self._note: event})
            self._noted = log
        self._went_in = time.monotonic()
        went_in = False
        while self._follower.put(log):  # after a kill one piece up to the end of each table
            went_in = True
        return went_in

    def beat(self) -> None:
        """Write the heartbeat of the path."""
        files = [file for file in self._follower.report().files if file.path == str(self.path)]
        facts = {
            "beat": datetime.now(UTC),
            "last_line": self._last_line,
            "lag": (datetime.now(UTC) - self._complete).total_seconds(),
            "lines": sum(file.lines for file in files),
            "rows": sum(count.new for file in files for count in file.counts),
            "bad_lines": sum(file.bad_lines for file in files),
            "missing": len(self._follower.missing),
        }
        beat(self._follower.lake, self.path, facts)

    def _look(self) -> None:
        """Look whether the path leads to another log, or the log was cut."""
        newest = self.logs[-1] if self.logs else None
        try:
            there = self.path.stat()
            is_replaced = newest is None or not os.path.samestat(there, newest.facts)
            is_cut = newest is not None and not newest.is_same()
            if is_replaced or is_cut:
                live = opened(self.path)
                if live.is_packed or live.broken:
                    live.close()
                    raise IngestError(
                        f"{self.path}: a packed file does not grow; ingest or replay it", path=str(self.path)
                    )
                rotated = self._rotated()
                since = self._last(live, rotated) if newest is None else self._begun(newest)
                if newest is not None and is_cut:
                    newest.leave_to(self._copy(newest, rotated))
                self._add(rotated, since, live)
            elif newest is not None:
                newest.facts = there
        except FileNotFoundError:
            return  # not there yet, or just renamed: the next look finds it
        except OSError as error:
            raise IngestError(f"{self.path}: {error.strerror or error}", path=str(self.path)) from error

    def _last(self, live: Log, rotated: list[Log]) -> Begun:
        """Return when the log began, and was changed, that was read last by an earlier follower of the path."""
        event = self._follower.lake.delta(MARKETS.name).transaction_version(self._note)
        if event is None:
            return sys.maxsize, 0  # nobody followed the path
        logs = [log for log in (live, *rotated) if self._begun(log)[0] == event and self._follower.knows(log)]
        if not logs:
            self._follower.miss(
                f"{self.path}: the log that was followed last is not there or it was cut; lines that it got after the "
                "last look are not in the lake"
            )
        # When a file was packed may be later than its last line; a line is no older than the first event.
        return event, min((event if log.is_packed else log.facts.st_mtime_ns for log in logs), default=event)

    def _copy(self, log: Log, rotated: list[Log]) -> Log:
        """Return the copy of a log whose file was cut, and remove it from the rotated logs."""
        position, mark = log.position, log.mark(log.position - log.offset)
        for copy in rotated:
            if copy.head.startswith(log.head) and copy.was_read_to(position, mark):
                rotated.remove(copy)
                return copy
        self._follower.miss(
            f"{self.path}: it was cut, and no copy of it was found; lines that it got after byte {position} are not in "
            "the lake"
        )
        return Log(self.path, Path(os.devnull).open("rb"))  # the log closes it

    def _add(self, rotated: list[Log], since: Begun, live: Log) -> None:
        """Add the logs that may hold lines that were not read, without copies of others; close the other files."""
        closed = [
            log for log in rotated if not any(os.path.samestat(log.facts, other.facts) for other in self.logs)
        ]
        later = unread({log: self._begun(log) for log in closed}, since)
        texts = [*self.logs, live]
        for log in sorted(later, key=lambda log: (-log.size(), log.is_packed)):
            if not (log.head and any(text.holds(log) for text in texts)):
                texts.append(log)
                if log.broken:
                    self._follower.miss(f"{log.path}: {log.broken}")
        for log in {*rotated} - {*texts}:
            log.close()
        self.logs.extend([*(log for log in later if log in texts), live])

    def _begun(self, log: Log) -> Begun:
        return self._follower.first_time(log) or log.facts.st_mtime_ns, log.facts.st_mtime_ns

    def _rotated(self) -> list[Log]:
        """Return the logs beside the path whose names begin with its name."""
        name = re.compile(re.escape(self.path.name) + r"[._~-].*")
        return [
            opened(path)
            for path in self.path.parent.iterdir()
            if name.fullmatch(path.name) and path.is_file()
        ]
