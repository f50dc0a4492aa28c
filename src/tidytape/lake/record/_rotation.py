"""The logs that a path leads to, one after another: which files beside it are read, and in which order.

A rotation renames the log and begins a new one at its path, or copies the log and cuts it to nothing. Old logs may be
packed later. Two rotations may happen between two looks, or while nobody looks.

Neither the times of events nor those of files say whether a log was read: a first event may be late, and a restored
file is new. So every log is read whose text is not in the lake, except the logs that were there before the first start.
"""

from __future__ import annotations

import os
import re
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from tidytape.errors import IngestError
from tidytape.lake._tables import MARKETS
from tidytape.lake.hygiene._info import beat
from tidytape.lake.record._tail import Log, mark_of, opened

if TYPE_CHECKING:
    from tidytape.lake.record._follow import Follower

_GRACE = 10.0
"""How long the writer of a renamed log may go on appending to it after the new log has text. [s]"""


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
    logs : list of Log
        The oldest first.
    """

    def __init__(self, path: Path, follower: Follower, every: float, most_lines: int) -> None:
        if re.search("[\udc80-\udcff]", str(path.absolute())):
            name = os.fsencode(path.absolute())
            raise IngestError(f"{name!r}: a path that is not UTF-8; rename it", path=repr(name))
        self.path, self._note = path, f"path:{path.absolute()}"
        self.logs: list[Log] = []
        self._ended: dict[Log, float] = {}
        self._follower = follower
        self._every, self._most_lines = every, most_lines
        self._went_in = -every
        self._last_line: datetime | None = None
        self._complete = datetime.now(UTC)

    def close(self) -> None:
        """Close all files."""
        for log in self.logs:
            log.close()

    def go(self, *, is_last: bool) -> bool:
        """Look at the files; put waiting lines into the lake if they are due, and return whether any went."""
        self._look()
        went_in = False
        logs = [*self.logs]
        for number, log in enumerate(logs):
            went_in = self._go(log, logs[number + 1 :], is_last=is_last) or went_in
            if not log.is_ended:
                break
        if not any(log.lines() for log in self.logs):
            self._complete = datetime.now(UTC)
        return went_in

    def _go(self, log: Log, later_logs: list[Log], *, is_last: bool) -> bool:
        """Read on in a log; put its waiting lines into the lake if they are due. Return whether any went."""
        went_in, grew, is_over = False, True, False
        while grew:
            if grew := log.read():
                self._last_line = datetime.now(UTC)
            elif not log.is_full and any(later.size() for later in later_logs):
                self._ended.setdefault(log, time.monotonic())
                log.is_ended = True
            # Its writer may go on appending to it for a while, because it does not know of the new log.
            is_over = log.is_done and (is_last or time.monotonic() - self._ended[log] >= _GRACE)
            if is_over:
                log.end_line()
            if self._is_due(log, is_last=is_last):
                went_in = self._put(log) or went_in
        if is_over:
            self._follower.end(log)
            self.logs.remove(log)
            del self._ended[log]
            log.close()
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
        """Put the waiting lines in; return whether some went in. First note which log it is, see `_recall`."""
        if log not in self._follower.followed:
            first = log.first_lines(2) or log.first_lines(1)  # the first may be a header
            self._follower.lake.writer()._note({self._note: mark_of(first)})
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
                if newest is None:
                    self._recall(live, rotated)
                elif is_cut:
                    newest.leave_to(self._copy(newest, rotated))
                self._add(rotated, live)
            elif newest is not None:
                newest.facts = there
        except FileNotFoundError:
            return  # not there yet, or just renamed: the next look finds it
        except OSError as error:
            raise IngestError(f"{self.path}: {error.strerror or error}", path=str(self.path)) from error

    def _recall(self, live: Log, rotated: list[Log]) -> None:
        """Name the log that was followed last if it is gone; if there was none, leave the rotated logs out."""
        last = self._noted(self._note)
        if last is None:
            self._settle(*(log for log in rotated if not live.holds(log)))
        elif last and not any(
            last in {mark_of(log.first_lines(count)) for count in (1, 2)} and self._follower.knows(log)
            for log in (live, *rotated)
        ):
            self._follower.miss(
                f"{self.path}: the log that was followed last is not there or it was cut; lines that it got after the "
                "last look are not in the lake"
            )

    def _noted(self, name: str) -> int | None:
        return self._follower.lake.delta(MARKETS.name).transaction_version(name)

    def _settle(self, *logs: Log) -> None:
        """Note logs that need not be looked into again, by the end of the file: it is then also known when packed."""
        notes = {f"{self._note}:{next(log.stamps())}": 0 for log in logs}
        self._follower.lake.writer()._note({self._note: self._noted(self._note) or 0, **notes})

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

    def _add(self, rotated: list[Log], live: Log) -> None:
        """Add the logs whose text is not in the lake, without copies of others; close the other files."""
        closed = [
            log for log in rotated if not any(os.path.samestat(log.facts, other.facts) for other in self.logs)
        ]
        settled = [
            log
            for log in closed
            if any(self._noted(f"{self._note}:{stamp}") is not None for stamp in log.stamps())
        ]
        texts, unread = [*self.logs, live, *settled], []
        unsettled = [log for log in closed if log not in settled]
        for log in sorted(unsettled, key=lambda log: (-log.size(), log.is_packed)):
            if any(text.holds(log) for text in texts):
                continue
            texts.append(log)
            is_in = self._follower.is_in(log)
            if log.broken and not (is_in and log.head):
                self._follower.miss(f"{log.path}: {log.broken}")
            if not is_in:
                unread.append(log)
            elif log.is_packed or log.broken:
                self._settle(log)
        for log in {*rotated} - {*unread}:
            log.close()
        self.logs.extend([*sorted(unread, key=lambda log: log.facts.st_mtime_ns), live])

    def _rotated(self) -> list[Log]:
        """Return the logs beside the path whose names begin with its name."""
        name = re.compile(re.escape(self.path.name) + r"[._~-].*")
        return [
            opened(path)
            for path in self.path.parent.iterdir()
            if name.fullmatch(path.name) and path.is_file()
        ]
