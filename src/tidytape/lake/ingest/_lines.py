"""Read files as numbered lines: plain, gzip or zip, block by block, so that memory does not grow with the file."""

from __future__ import annotations

import gzip
import hashlib
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import BufferedReader
from pathlib import Path
from typing import Any, BinaryIO

import polars as pl

from tidytape.errors import IngestError

BLOCK = 16 * 2**20
"""Size of the text that is parsed at once. [bytes]"""

_LONGEST = 64 * 2**20
"""Longest line of a file. [bytes]"""

NO_SUCH_WORD = " is not one of "
"""Part of the reason of a line with a wrong word."""

_SHOWN = 5
"""Most broken lines whose reasons are kept."""

_GZIP = b"\x1f\x8b"
_ZIP = (b"PK\x03\x04", b"PK\x05\x06")
"""The first bytes of a zip archive: with a file in it, or empty."""

_LARGEST_RATIO = 500
"""Largest size of a file divided by its packed size. Packed market data is 5 to 50 times smaller; above this ratio a
file repeats one line, and could fill the disk. [1]"""

_ENCRYPTED = 0x1


@dataclass(slots=True)
class BadLines:
    """The broken lines of one file: how many there are, and the first of them.

    Attributes
    ----------
    count : int
        Number of broken lines.
    first : list of (int, str)
        Line number, from 1, and reason of the first broken lines.
    wrong_words : int
        Number of lines that are broken because of a word of a column, such as a side.
    """

    count: int = 0
    first: list[tuple[int, str]] = field(default_factory=list)
    wrong_words: int = 0

    def add(self, line: int, reason: str) -> None:
        """Add one broken line."""
        self.count += 1
        self.first = sorted([*self.first, (line, reason)])[:_SHOWN]

    def take(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Return the rows without a ``reason``, and drop that column; add the other rows as broken lines.

        Parameters
        ----------
        frame : polars.DataFrame, one row per line
            With ``line`` and ``reason``, null if the line is good.
        """
        bad_rows = frame.filter(pl.col("reason").is_not_null())
        if not bad_rows.is_empty():
            self.count += bad_rows.height
            is_wrong_word = pl.col("reason").str.contains(NO_SUCH_WORD, literal=True)
            self.wrong_words += bad_rows.filter(is_wrong_word).height
            first_rows = bad_rows.select("line", "reason").sort("line").head(_SHOWN).iter_rows()
            self.first = sorted([*self.first, *first_rows])[:_SHOWN]
        return frame.filter(pl.col("reason").is_null()).drop("reason")


@dataclass(frozen=True, slots=True)
class Piece:
    """Complete lines of a log that grows, see `tidytape.lake.record.follow`.

    Attributes
    ----------
    data : bytes
        The lines, each with its newline.
    line : int
        Number of lines of the log before this piece.
    offset : int
        Where this piece begins in the log. [bytes]
    memory : dict
        What the layout remembers from earlier lines, such as the header; the layout may add to it.
    """

    data: bytes
    line: int = 0
    offset: int = 0
    memory: dict[str, Any] = field(default_factory=dict)


def digest(path: Path) -> str:
    """Return the SHA-256 of a file's bytes in hexadecimal; IngestError if the file cannot be read."""
    with _opened(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def is_packed(magic: bytes) -> bool:
    """Return whether the first four bytes of a file are those of a gzip stream or a zip archive."""
    return magic in _ZIP or magic.startswith(_GZIP)


@contextmanager
def _opened(path: Path) -> Iterator[BufferedReader]:
    """Open a regular file that is not empty; IngestError for any other file, or if reading fails."""
    try:
        if path.is_dir():
            raise IngestError(f"{path}: a folder, not a file", path=str(path))
        if path.exists() and not path.is_file():
            # A pipe can be read only once, and a device may never end.
            raise IngestError(f"{path}: not a regular file", path=str(path))
        with path.open("rb") as file:
            if not file.read(1):
                raise IngestError(f"{path}: the file is empty", path=str(path))
            file.seek(0)
            yield file
    except (OSError, ValueError) as error:  # ValueError: a path with a null byte
        raise IngestError(f"{path}: {getattr(error, 'strerror', None) or error}", path=str(path)) from error


def numbered(
    path: Path, bad: BadLines, progress: Callable[[int], object], piece: Piece | None = None
) -> Iterator[pl.DataFrame]:
    """Yield the lines of a file that are not blank. The file is plain, gzip, or a zip archive of one file.

    Parameters
    ----------
    path : Path
        The file.
    bad : BadLines
        Takes lines that are not UTF-8, and the line where a gzip or zip stream breaks off.
    progress : callable
        Called with the number of bytes read from the disk.
    piece : Piece, optional
        Lines of the file that are already in memory; the file is not opened.

    Yields
    ------
    polars.DataFrame, one row per line
        ``line``, its number from 1, and ``text``.

    Raises
    ------
    IngestError
        If the file cannot be read, a line is longer than 64 MiB, or a zip archive is not one file.
    """
    if piece is not None:
        yield _frame(piece.data.removesuffix(b"\n"), piece.line, bad)[0]
        return
    number = 0
    unfinished_line = b""
    reason_broken: str | None = None
    with _opened(path) as file:
        for block in _blocks(file, path, progress):
            if isinstance(block, str):
                reason_broken = block
                break
            head, newline, tail = block.rpartition(b"\n")
            if not newline:
                unfinished_line += tail
                if len(unfinished_line) > _LONGEST:
                    message = f"{path}:{number + 1}: a line longer than {_LONGEST} bytes"
                    raise IngestError(message, path=str(path), line=number + 1, bad_lines=1)
                continue
            lines, unfinished_line = unfinished_line + head, tail
            frame, number = _frame(lines, number, bad)
            yield frame
    if reason_broken is not None:
        # The text after the last newline is the beginning of a line whose end is lost.
        bad.add(number + 1, reason_broken)
    elif unfinished_line:
        frame, number = _frame(unfinished_line, number, bad)
        yield frame


def _frame(data: bytes, number: int, bad: BadLines) -> tuple[pl.DataFrame, int]:
    """Return the lines of a block, and the number of its last line."""
    try:
        texts: list[str | None] = list(data.decode("utf-8").split("\n"))
    except UnicodeDecodeError:
        texts = []
        for line, raw in enumerate(data.split(b"\n"), number + 1):
            try:
                texts.append(raw.decode("utf-8"))
            except UnicodeDecodeError:
                texts.append(None)
                bad.add(line, "not UTF-8")
    if number == 0 and texts[0]:
        texts[0] = texts[0].removeprefix("\ufeff")
    last_number = number + len(texts)
    frame = pl.DataFrame(
        {
            "line": pl.int_range(number + 1, last_number + 1, eager=True),
            "text": pl.Series(texts, dtype=pl.String),
        }
    )
    return frame.filter(pl.col("text").str.strip_chars().str.len_bytes() > 0), last_number


def first_text(path: Path, size: int = 64 * 2**10) -> str:
    """Return the beginning of a file's text, unpacked; empty if it cannot be unpacked.

    Raises
    ------
    IngestError
        If the file cannot be read, or is a zip archive of several files or none.
    """
    with _opened(path) as file:
        block = next(_blocks(file, path, lambda _: None), b"")
    if isinstance(block, str):
        return ""
    return block[:size].decode("utf-8", errors="replace").removeprefix("\ufeff")


def unpacked_blocks(path: Path, file: BinaryIO, size: int = 0) -> Iterator[bytes | str]:
    """Yield the text of a packed file in blocks of about ``size``; if it is broken, the last is the reason as a str."""
    file.seek(0)
    return _blocks(file, path, lambda _: None, size)


def inner_name(path: Path) -> str:
    """Return the name of the only file in a zip archive; for any other file, its own name.

    Raises
    ------
    IngestError
        If the file cannot be read, or is a zip archive of several files or none.
    """
    with _opened(path) as file:
        if file.read(len(_ZIP[0])) not in _ZIP:
            return path.name
        with _archive(file, path) as archive:
            return Path(_only_member(archive, path).filename).name


def _blocks(
    file: BinaryIO, path: Path, progress: Callable[[int], object], size: int = 0
) -> Iterator[bytes | str]:
    """Yield the file's text in blocks of bytes; if a packed stream is broken, the last item is the reason as a str."""
    size = size or BLOCK
    magic = file.read(len(_ZIP[0]))
    file.seek(0)
    if magic in _ZIP:
        with _archive(file, path) as archive:
            member = _only_member(archive, path)
            try:
                with archive.open(member) as text:
                    share = member.compress_size / max(member.file_size, 1)
                    yield from _unpacked(
                        text, "zip archive", lambda: int(text.tell() * share), progress, size // 4
                    )
            except NotImplementedError as error:
                message = f"{path}: a zip archive packed in a way not supported: {error}"
                raise IngestError(message, path=str(path)) from error
    elif magic.startswith(_GZIP):
        with gzip.GzipFile(fileobj=file) as text:
            yield from _unpacked(text, "gzip stream", file.tell, progress, size)
    else:
        yield from _unpacked(file, "file", file.tell, progress, size // 4)


def _unpacked(
    text: Any, what: str, position: Callable[[], int], progress: Callable[[int], object], size: int
) -> Iterator[bytes | str]:
    """Yield the blocks of a stream; if it is broken, the last item is the reason as a str."""
    position_before = unpacked = 0
    reason_broken: str | None = None
    while reason_broken is None:
        parts: list[bytes] = []
        try:
            # Read in a loop, because a packed stream returns few bytes per read.
            while size_missing := size - sum(map(len, parts)):
                part = text.read1(size_missing)
                if not part:
                    break
                parts.append(part)
        except EOFError:
            reason_broken = f"the {what} breaks off"
        except (gzip.BadGzipFile, zipfile.BadZipFile, zlib.error) as error:
            reason_broken = f"the {what} is broken: {error}"
            # Damage is noticed late, so the last unpacked bytes may be wrong. They are right if the error is only that
            # other bytes follow a complete stream, whose checksum was right.
            if not str(error).startswith("Not a gzipped file"):
                parts.clear()
        position_now = position()
        progress(position_now - position_before)
        position_before = position_now
        unpacked += sum(map(len, parts))
        if unpacked > max(_LARGEST_RATIO * position_now, _LONGEST):
            reason_broken = (
                f"the {what} unpacks to over {_LARGEST_RATIO} times its size; unpack a right one by hand"
            )
        if parts:
            yield b"".join(parts)
        elif reason_broken is None:
            return
    yield reason_broken


def _archive(file: BinaryIO, path: Path) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(file)
    except zipfile.BadZipFile as error:
        # The table of contents is at the end of the archive.
        message = f"{path}: no whole zip archive, or one that was cut off: {error}"
        raise IngestError(message, path=str(path)) from error


def _only_member(archive: zipfile.ZipFile, path: Path) -> zipfile.ZipInfo:
    """Return the archive's only file; IngestError if there is not exactly one, or if it is encrypted or too large."""
    members = [member for member in archive.infolist() if not member.is_dir()]
    reason = ""
    if len(members) != 1:
        names = ", ".join(member.filename for member in members[:5])
        content = (
            f"{len(members)} files: {names}{', …' if len(members) > 5 else ''}" if members else "no file"
        )
        reason = f"a zip archive of one file was expected, it holds {content}"
    elif members[0].flag_bits & _ENCRYPTED:
        reason = "the zip archive is encrypted"
    elif members[0].file_size > _LARGEST_RATIO * max(members[0].compress_size, 1):
        (member,) = members
        reason = (
            f"{member.filename} would unpack to {member.file_size:,} bytes from {member.compress_size:,}, more than "
            f"{_LARGEST_RATIO} times as much; unpack it by hand if it is no zip bomb"
        )
    if reason:
        raise IngestError(f"{path}: {reason}", path=str(path))
    return members[0]
