"""Recorded logs that grow: read what was appended, line by line, over rotations.

A log is known by its first lines, which stay the same if it is renamed or copied. A path leads to one log after
another: a rotation renames the file and begins a new one at the path, or copies the file and cuts it to nothing. In
both cases the rest of the old log is read before the new one.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from tidytape.errors import IngestError
from tidytape.lake.ingest._lines import is_packed

_AT_ONCE = 8 * 2**20
"""How much text may wait in memory; it is read as one piece. [bytes]"""

_LONGEST = 64 * 2**20
_HEAD = 64 * 2**10


class Log:
    """One recorded log, from a place on.

    Parameters
    ----------
    path : Path
        Where it is.
    file : binary file
        The log, open.

    Attributes
    ----------
    path : Path
        Where it is.
    offset : int
        Where the waiting lines begin. [bytes]
    line : int
        Lines before them.
    is_ended : bool
        Whether no more lines are appended.
    limit : int or None
        `lines` returns no lines from here on. [bytes]
    file : binary file
        The log, or a copy of it.
    first : bytes
        Its first lines, once `first_lines` was called.
    """

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self.path = path
        self.offset = 0
        self.line = 0
        self.is_ended = False
        self.limit: int | None = None
        self.file = file
        self._waiting = bytearray()
        self.first = b""
        self._size_and_time: tuple[int, int] | None = None

    def close(self) -> None:
        """Close the file."""
        self.file.close()

    @property
    def position(self) -> int:
        """Position in the log up to which it was read. [bytes]"""
        return self.offset + len(self._waiting)

    def size(self) -> int:
        """Return how long the log is. [bytes]"""
        return os.fstat(self.file.fileno()).st_size

    def first_lines(self, count: int) -> bytes:
        """Return the first ``count`` lines, which identify the log; no bytes until it has that many lines."""
        if self.first.count(b"\n") < count:
            head = self._between(0, _HEAD)
            while head.count(b"\n") < count and len(head) < self.size():
                if len(head) >= _LONGEST:
                    raise IngestError(
                        f"{self.path}: a line longer than {_LONGEST} bytes", path=str(self.path), line=1
                    )
                head = self._between(0, 4 * len(head))
            lines = head.split(b"\n")
            if len(lines) > count:
                self.first = b"\n".join(lines[:count]) + b"\n"
        return self.first if self.first.count(b"\n") >= count else b""

    def is_same(self) -> bool:
        """Return whether the file still begins with the lines that were read, and is no shorter."""
        facts = os.fstat(self.file.fileno())
        size_and_time = facts.st_size, facts.st_mtime_ns
        if size_and_time == self._size_and_time:
            return True
        self._size_and_time = size_and_time
        return facts.st_size >= self.position and self.begins_with(self.first)

    def begins_with(self, lines: bytes) -> bool:
        """Return whether the log begins with some lines."""
        return self._between(0, len(lines)) == lines

    @property
    def is_done(self) -> bool:
        """Whether the log was read to its end and its writer appends no more lines."""
        return self.is_ended and self.position >= self.size()

    def _between(self, start: int, end: int) -> bytes:
        parts = []
        while start < end and (part := os.pread(self.file.fileno(), end - start, start)):
            parts.append(part)
            start += len(part)
        return b"".join(parts)

    def head(self, end: int) -> bytes:
        """Return complete lines from the beginning of the log, at most up to ``end``."""
        return _whole_lines(self._between(0, min(end, _HEAD)))

    def tail(self, end: int, size: int) -> tuple[int, bytes]:
        """Return where the last lines before ``end`` begin, and these lines, which have about ``size`` bytes."""
        start = max(end - size, 0)
        data = self._between(start, end)
        skipped = 0 if start == 0 else data.find(b"\n") + 1
        return start + skipped, data[skipped:]

    def seek(self, offset: int) -> None:
        """Go to the beginning of a line; the text before it is read to count its lines."""
        start = 0
        while start < offset:
            block = self._between(start, min(start + _AT_ONCE, offset))
            if not block and self.is_ended and start == offset - 1:
                self.line += 1  # its last line had no newline
                break
            if not block:
                raise IngestError(
                    f"{self.path}: {start} bytes long, and {offset} of them were read before: it was cut",
                    path=str(self.path),
                )
            self.line += block.count(b"\n")
            start += len(block)
        self.offset = offset

    def read(self) -> None:
        """Read the text that was appended, as much of it as may wait."""
        room = _AT_ONCE - len(self._waiting)
        if room <= 0 and b"\n" not in self._waiting:
            room = _AT_ONCE  # one long line
        if len(self._waiting) > _LONGEST:
            raise IngestError(
                f"{self.path}:{self.line + 1}: a line longer than {_LONGEST} bytes",
                path=str(self.path),
                line=self.line + 1,
            )
        if room > 0:
            self._waiting += self._between(self.position, self.position + room)

    def lines(self, end: int | None = None) -> bytes:
        """Return the complete lines that wait, up to ``end`` if it is given."""
        ends = [place for place in (end, self.limit) if place is not None]
        waiting = self._waiting[: max(min(ends) - self.offset, 0)] if ends else self._waiting
        return _whole_lines(waiting)

    def lines_from(self, start: int) -> bytes:
        """Return the complete lines that wait from ``start`` on, also those beyond the limit."""
        return _whole_lines(self._waiting[start - self.offset :])

    @property
    def is_full(self) -> bool:
        """Whether the limit of waiting text is reached, so that the file may have more."""
        return len(self._waiting) >= _AT_ONCE

    @property
    def rest(self) -> bytes:
        """The waiting text after the last newline."""
        return bytes(self._waiting[self._waiting.rfind(b"\n") + 1 :])

    def end_line(self) -> None:
        """Add the newline that the last line of a log that ended lacks."""
        if self.rest:
            self._waiting += b"\n"

    def take(self, size: int) -> None:
        """Remove ``size`` bytes from the waiting text: they are in the lake."""
        self.line += self._waiting[:size].count(b"\n")
        self.offset += size
        del self._waiting[:size]

    def leave_to(self, file: BinaryIO) -> None:
        """Read on from a copy of the log, at the same position."""
        self.file.close()
        self.file = file


def _whole_lines(data: bytes | bytearray) -> bytes:
    return bytes(data[: data.rfind(b"\n") + 1])


class Tail:
    """The logs that a path leads to, one after another.

    Parameters
    ----------
    path : Path
        Where the log is, or will be.

    Attributes
    ----------
    logs : deque of Log
        Logs that were not read to their end, the oldest first.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.logs: deque[Log] = deque()

    def look(self) -> None:
        """Read the text that was appended, and look whether another log is at the path."""
        newest = self.logs[-1] if self.logs else None
        if newest is None or self._is_replaced(newest):
            self._open()
        elif not newest.is_same():
            self._cut(newest)
        if not self.logs:
            return
        current = self.logs[0]
        before = current.position
        current.read()
        # After the log was renamed, its writer may go on writing to it for a while before it writes to the new log.
        if len(self.logs) > 1 and current.position == before and not current.is_full:
            current.is_ended = current.is_ended or self.logs[1].size() > 0

    def next(self) -> None:
        """Go on with the log that replaced the current one."""
        self.logs.popleft().close()

    def older(self) -> Iterator[Log]:
        """Yield the files beside the path whose name begins with the path's name, the oldest first."""
        paths_by_time = []
        for path in self.path.parent.glob(f"{_escaped(self.path.name)}*"):
            try:
                if path != self.path and path.is_file() and not is_packed(path):
                    paths_by_time.append((path.stat().st_mtime_ns, path))
            except OSError:  # it was renamed meanwhile
                continue
        for _, path in sorted(paths_by_time):
            yield Log(path, path.open("rb"))

    def close(self) -> None:
        """Close all files."""
        while self.logs:
            self.next()

    def _open(self) -> None:
        try:
            file = self.path.open("rb")
        except FileNotFoundError:
            return
        except OSError as error:
            raise IngestError(f"{self.path}: {error.strerror}", path=str(self.path)) from error
        if is_packed(self.path):
            file.close()
            raise IngestError(
                f"{self.path}: a packed file does not grow; ingest or replay it", path=str(self.path)
            )
        self.logs.append(Log(self.path, file))

    def _is_replaced(self, log: Log) -> bool:
        try:
            there = self.path.stat()
        except FileNotFoundError:
            return False  # the log was renamed, and the new one is not there yet
        here = os.fstat(log.file.fileno())
        return (there.st_dev, there.st_ino) != (here.st_dev, here.st_ino)

    def _cut(self, log: Log) -> None:
        """Read the rest of a truncated log from its copy, if one matches, and then the file from its beginning."""
        rest: BinaryIO = Path(os.devnull).open("rb")  # noqa: SIM115  # the log closes it
        for copy in self.older():
            if log.first and copy.begins_with(log.first) and copy.size() >= log.position:
                rest, copy.file = copy.file, rest
            copy.close()
        log.leave_to(rest)
        log.is_ended = True
        self._open()


def _escaped(name: str) -> str:
    return "".join(f"[{character}]" if character in "*?[" else character for character in name)
