"""A recorded log that grows: read what was appended, line by line, and compare it with other files.

A log is known by its text: by its first lines, and by the text before the place up to which it was read. A renamed,
copied, packed or restored file has the same text, but not the same name, device or inode.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterator
from functools import cached_property
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO

from tidytape.errors import IngestError
from tidytape.lake.ingest._lines import is_packed, unpacked_blocks

_AT_ONCE = 8 * 2**20
"""How much text may wait in memory; it is read as one piece. [bytes]"""

_LONGEST = 64 * 2**20
_HEAD = 64 * 2**10
_MARKED = 4 * 2**10
"""How much text before a place is compared, to know a log again. [bytes]"""


_UNREADABLE = {
    begin: f"packed by {tool}, which follow does not read; unpack it, and follow again"
    for begin, tool in {b"\x28\xb5\x2f\xfd": "zstd", b"\xfd7zX": "xz", b"BZh": "bzip2"}.items()
}


class Log:
    """One recorded log, from a place on.

    Parameters
    ----------
    path : Path
        Where it is.
    file : binary file
        The log, open; gzip and zip are unpacked into a temporary file when the text is needed.

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
    is_packed : bool
        Whether it is gzip or zip.
    limit : int or None
        `lines` returns no lines from here on. [bytes]
    head : bytes
        Its first 64 KiB, or as much as it has.
    facts : os.stat_result
        Of the file, at the last look.
    broken : str
        Why its packed stream cannot be read to the end; empty if it can.
    """

    def __init__(self, path: Path, file: BufferedReader) -> None:
        self.path, self._raw = path, file
        self.offset = self.line = 0
        self.is_ended = False
        self.limit: int | None = None
        self._before, self._waiting = b"", bytearray()
        magic = os.pread(file.fileno(), 4, 0)
        self.is_packed = is_packed(magic)
        self.broken = next((reason for begin, reason in _UNREADABLE.items() if magic.startswith(begin)), "")
        self.facts = os.fstat(file.fileno())
        first = unpacked_blocks(path, file, _HEAD) if self.is_packed else [self._between(0, _HEAD)]
        self.head = next((block for block in first if isinstance(block, bytes)), b"")

    @cached_property
    def file(self) -> BinaryIO:
        """The text of the log."""
        if not self.is_packed:
            return Path(os.devnull).open("rb") if self.broken else self._raw
        plain = tempfile.TemporaryFile(prefix="tidytape-")  # noqa: SIM115  # `close` closes it
        for block in unpacked_blocks(self.path, self._raw):
            if isinstance(block, str):
                self.broken = block
            else:
                plain.write(block)
        plain.flush()
        return plain

    def close(self) -> None:
        """Close the file."""
        self._raw.close()
        if "file" in self.__dict__:
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
        head = self.head
        while head.count(b"\n") < count and len(head) < self.size():
            if len(head) >= _LONGEST:
                raise IngestError(
                    f"{self.path}: a line longer than {_LONGEST} bytes", path=str(self.path), line=1
                )
            head = self._between(0, max(4 * len(head), _HEAD))
        lines = head.split(b"\n")
        return b"\n".join(lines[:count]) + b"\n" if len(lines) > count else b""

    def is_same(self) -> bool:
        """Return whether the file still has the text that was read."""
        facts = os.fstat(self._raw.fileno())
        was_looked_at = facts.st_size == self.facts.st_size and facts.st_mtime_ns == self.facts.st_mtime_ns
        return was_looked_at or self.was_read_to(self.position, self.mark(len(self._waiting)))

    def mark(self, size: int = 0) -> int:
        """Return a number that stands for the text before the end of the first ``size`` waiting bytes."""
        return mark_of(self._text_until_waiting(size))

    def was_read_to(self, end: int, mark: int) -> bool:
        """Return whether the text up to ``end`` is the text of a mark; a mark of 0 stands for any text."""
        return end <= self.size() + 1 and mark in {0, mark_of(self._text_until(end))}

    def holds(self, other: Log) -> bool:
        """Return whether the log begins with all the text of another one, by its first and last 4 KiB."""
        return (
            self.head.startswith(other.head[:_MARKED])
            and bool(other.head or not other.broken)
            and self.size() >= other.size()
            and self._text_until(other.size()) == other._text_until(other.size())
        )

    def stamps(self) -> Iterator[int]:
        """Yield a number for the size and end of the file, and one for those of its text, equal if it is plain."""
        size = self.facts.st_size
        yield mark_of(b"%d " % size + os.pread(self._raw.fileno(), _MARKED, max(size - _MARKED, 0)))
        yield mark_of(b"%d " % self.size() + self._text_until(self.size()))

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

    def _text_until(self, end: int) -> bytes:
        text = self._between(max(end - _MARKED, 0), end)
        # The last line may have got the newline that it lacked, see `end_line`.
        return text + b"\n" if end == self.size() + 1 else text

    def _text_until_waiting(self, size: int) -> bytes:
        return (self._before + self._waiting[max(size - _MARKED, 0) : size])[-_MARKED:]

    def start(self, end: int) -> bytes:
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
        self._waiting.clear()
        starts = range(0, offset, _AT_ONCE)
        lines = sum(self._between(at, min(at + _AT_ONCE, offset)).count(b"\n") for at in starts)
        self.line = lines + (offset > self.size())  # a last line without a newline
        self._before = self._text_until(offset)
        self.offset = offset

    def read(self) -> bool:
        """Read the text that was appended, as much of it as may wait; return whether there was some."""
        room = _AT_ONCE - len(self._waiting)
        if room <= 0 and b"\n" not in self._waiting:
            room = _AT_ONCE  # one long line
        if len(self._waiting) > _LONGEST:
            raise IngestError(
                f"{self.path}:{self.line + 1}: a line longer than {_LONGEST} bytes",
                path=str(self.path),
                line=self.line + 1,
            )
        text = self._between(self.position, self.position + room)
        self._waiting += text
        if text and len(self.head) < _HEAD:
            self.head = self._between(0, _HEAD)
        return bool(text)

    def lines(self, end: int | None = None) -> bytes:
        """Return the complete lines that wait, up to ``end`` if it is given."""
        ends = [place for place in (end, self.limit) if place is not None]
        waiting_bytes = self._waiting[: max(min(ends) - self.offset, 0)] if ends else self._waiting
        return _whole_lines(waiting_bytes)

    def lines_from(self, start: int) -> bytes:
        """Return the complete lines that wait from ``start`` on, also those beyond the limit."""
        return _whole_lines(self._waiting[start - self.offset :])

    @property
    def is_full(self) -> bool:
        """Whether the limit of waiting text is reached, so that the file may have more."""
        return len(self._waiting) >= _AT_ONCE

    def end_line(self) -> None:
        """Add the newline that the last line of a log that ended lacks."""
        if self._waiting and not self._waiting.endswith(b"\n"):
            self._waiting += b"\n"

    def take(self, size: int) -> None:
        """Remove ``size`` bytes from the waiting text: they are in the lake."""
        self._before = self._text_until_waiting(size)
        self.line += self._waiting[:size].count(b"\n")
        self.offset += size
        del self._waiting[:size]

    def leave_to(self, copy: Log) -> None:
        """Read on from a copy of the log, at the same position."""
        self.close()
        self._raw, self.file, self.facts = copy._raw, copy.file, copy.facts


def opened(path: Path) -> Log:
    """Open a log; IngestError if it is no regular file, such as a pipe, OSError if it cannot be opened."""
    if path.exists() and not path.is_file():
        raise IngestError(f"{path}: not a regular file", path=str(path))
    return Log(path, path.open("rb"))


def mark_of(text: bytes) -> int:
    """Return a number that stands for a text; it can be a note of Delta Lake, which is an int64."""
    return int.from_bytes(hashlib.sha256(text).digest()[:8], "big") >> 1


def _whole_lines(data: bytes | bytearray) -> bytes:
    return bytes(data[: data.rfind(b"\n") + 1])
