"""Read files as numbered lines, block by block, so that memory does not grow with the file.

A file is plain, or packed by gzip, bzip2, xz or zstd, or an archive: zip, or tar that is plain or packed by one of
these. Its first bytes decide which, never its name. The text is UTF-8, or UTF-16 with a byte order mark.
"""

from __future__ import annotations

import codecs
import gzip
import hashlib
import io
import lzma
import os
import re
import struct
import tarfile
import zipfile
import zlib
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from io import BufferedReader
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Any, Self

import polars as pl
import pyarrow as pa

from tidytape.errors import IngestError

BLOCK = 16 * 2**20
"""Size of the text that is parsed at once. [bytes]"""

_LONGEST = 64 * 2**20
"""Longest line of a file. [bytes]"""

NO_SUCH_WORD = " is not one of "
"""Part of the reason of a line with a wrong word."""

_AT_ONCE = 2**16
"""Most text of a packed stream that is lost where it breaks off. [bytes]"""

_SHOWN = 5
"""Most broken lines whose reasons are kept."""

_GZIP = b"\x1f\x8b"
_ZIP = (b"PK\x03\x04", b"PK\x05\x06")
"""The first bytes of a zip archive: with a file in it, or empty."""

_LARGEST_RATIO = 500
"""Largest size of a file divided by its packed size. Packed market data is 5 to 50 times smaller; above this ratio a
file repeats one line, and could fill the disk. [1]"""

_ENCRYPTED = 0x1

_NO_DATA = re.compile(
    r"(^|/)(__MACOSX/|\._|\.DS_Store$|(readme|licen[cs]e|copying)[^/.]*(\.(txt|md|rst|html?|pdf))?$)"
    r"|\.(checksum|sha256|md5)$",
    re.IGNORECASE,
)
"""Members of archives that hold no data: what a Mac adds, checksums, and texts for readers."""


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
    members : list of (int, str)
        Number of lines before each member of an archive, and its name; the only member of any other file is the file.
    """

    count: int = 0
    first: list[tuple[int, str]] = field(default_factory=list)
    wrong_words: int = 0
    members: list[tuple[int, str]] = field(default_factory=list)

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

    def by_member(self) -> None:
        """Number the first broken lines from the beginning of their members, whose names the reasons then have."""
        if len(self.members) > 1:
            starts = [start for start, _ in self.members]
            places = [(bisect_left(starts, line) - 1, line, reason) for line, reason in self.first]
            self.first = [
                (line - starts[place], f"{self.members[place][1]}: {reason}")
                for place, line, reason in places
            ]


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
    """Yield the lines of a file that are not blank. The file is plain, packed, or an archive of one file.

    Members of an archive that hold no data, such as checksums, do not count.

    Parameters
    ----------
    path : Path
        The file.
    bad : BadLines
        Takes lines that are not UTF-8, and the line where a packed stream breaks off.
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
        If the file cannot be read, a line is longer than 64 MiB, or an archive is not one file.
    """
    for data, number in raw_blocks(path, bad, progress, piece):
        yield frame_of(data, number, bad)


def raw_blocks(
    path: Path, bad: BadLines, progress: Callable[[int], object], piece: Piece | None = None
) -> Iterator[tuple[bytes, int]]:
    """Yield the lines that `numbered` yields as bytes without the last newline, and the number of lines before them."""
    if piece is not None:
        data = piece.data if piece.line else piece.data.removeprefix(codecs.BOM_UTF8)
        yield data.removesuffix(b"\n"), piece.line
        return
    for _, data, number in _named(path, bad, progress, several=False):
        yield data, number


def members(
    path: Path, bad: BadLines, progress: Callable[[int], object]
) -> Iterator[tuple[str, pl.DataFrame]]:
    """Yield the lines of each data member of an archive, block by block, with the member's name.

    Any other file is its own only member. Memory is bounded as in `numbered`.

    Parameters
    ----------
    path, bad, progress
        As in `numbered`. After the last line, `BadLines.by_member` says in which members the broken lines are.

    Yields
    ------
    str
        Name of the member, without its folders.
    polars.DataFrame, one row per line
        ``line`` and ``text``. Numbers of lines go on from member to member, so that each is unique.

    Raises
    ------
    IngestError
        If the file cannot be read, a line is longer than 64 MiB, or an archive has no data member.
    """
    for name, data, number in _named(path, bad, progress, several=True):
        yield name, frame_of(data, number, bad)


def _named(
    path: Path, bad: BadLines, progress: Callable[[int], object], *, several: bool
) -> Iterator[tuple[str, bytes, int]]:
    number = 0
    with _opened(path) as file:
        for text in _texts(file, path, several=several):
            bad.members.append((number, text.name))
            unfinished_line = b""
            reason_broken: str | None = None
            for block in _in_utf8(text, _blocks(text, progress)):
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
                yield text.name, lines, number
                number += lines.count(b"\n") + 1
            if reason_broken is not None:
                # The text after the last newline is the beginning of a line whose end is lost.
                number += 1
                bad.add(number, reason_broken)
            elif unfinished_line:
                yield text.name, unfinished_line, number
                number += 1


def frame_of(data: bytes, number: int, bad: BadLines) -> pl.DataFrame:
    """Return the lines of a block that are not blank; ``number`` is the number of lines before it."""
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
    frame = pl.DataFrame(
        {
            "line": pl.int_range(number + 1, number + len(texts) + 1, eager=True),
            "text": pl.Series(texts, dtype=pl.String),
        }
    )
    return frame.filter(pl.col("text").str.strip_chars().str.len_bytes() > 0)


def first_text(path: Path, size: int = 64 * 2**10) -> str:
    """Return the beginning of the text of a file, or of an archive's first data member; empty if it cannot be unpacked.

    Raises
    ------
    IngestError
        If the file cannot be read, or is an archive without a data member.
    """
    with _opened(path) as file:
        texts = _texts(file, path, several=True)  # an archive is open for as long as this is referenced
        text = next(texts)
        block = next(_in_utf8(text, _blocks(text, lambda _: None)), b"")
    if isinstance(block, str):
        return ""
    return block[:size].decode("utf-8", errors="replace")


def unpacked_blocks(path: Path, file: BufferedReader, size: int = 0) -> Iterator[bytes | str]:
    """Yield the text of a packed file in blocks of about ``size``; if it is broken, the last is the reason as a str."""
    for text in _texts(file, path, several=False):
        yield from _blocks(text, lambda _: None, size)


def inner_name(path: Path) -> str:
    """Return the name of an archive's first data member; for any other file, its own name without that of its packing.

    Raises
    ------
    IngestError
        If the file cannot be read, or is an archive without a data member.
    """
    with _opened(path) as file:
        return next(_texts(file, path, several=True)).name


@dataclass(frozen=True, slots=True)
class _Text:
    """One text of a file.

    Attributes
    ----------
    name : str
        Name of the member of an archive, or of the file.
    stream : binary file
        The text, unpacked.
    what : str
        What a message calls that which is unpacked.
    position : callable
        Returns how much of the file was read. [bytes]
    before : int
        How much of the file was read before this text. [bytes]
    """

    name: str
    stream: Any
    what: str
    position: Callable[[], int]
    before: int = 0


def _texts(file: BufferedReader, path: Path, *, several: bool) -> Iterator[_Text]:
    """Yield the data members of an archive, or the only text of any other file.

    Raises
    ------
    IngestError
        If an archive is broken or has no data member, or if it has several and only one is expected.
    """
    file.seek(0)
    if _begins(file, *_ZIP):
        yield from _zipped(file, path, several=several)
        return
    is_tar = _is_tar(_stream(file)[0])
    stream, what = _stream(file)
    if is_tar:
        yield from _tarred(stream, file, path, several=several)
        return
    name = path.name if stream is file else _PACKING.sub("", path.name)
    yield _Text(name, stream, what, file.tell)


_PACKING = re.compile(r"(?<=.)\.(gz|bz2|xz|zst|zstd)$", re.IGNORECASE)


def _begins(file: BufferedReader, *begins: bytes) -> bool:
    """Return whether a file begins with one of some bytes; a file that is cut off before their end counts."""
    magic = file.peek(8)
    return any(magic and magic[: len(begin)] == begin[: len(magic)] for begin in begins)


class _Xz(io.RawIOBase):
    """The text of xz streams; other bytes between them are an error, which `lzma.LZMAFile` would overlook."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self._stream = lzma.LZMADecompressor()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        text = b""
        while not text:
            packed = self._stream.unused_data.lstrip(b"\0") if self._stream.eof else b""
            if not packed and (self._stream.eof or self._stream.needs_input):
                packed = self._file.read(_AT_ONCE)
                if not packed and self._stream.eof:
                    return 0
                if not packed:
                    raise EOFError
            if self._stream.eof:
                self._stream = lzma.LZMADecompressor()
            text = self._stream.decompress(packed, len(buffer))
        buffer[: len(text)] = text
        return len(text)


class _Packed:
    """A file that stays open when Arrow is done with it."""

    closed = False

    def __init__(self, file: Any) -> None:
        self.read = file.read

    def close(self) -> None:
        """Leave the file open."""


def _unpacked_by_arrow(file: Any, *, packing: str) -> BufferedReader:
    stream = pa.CompressedInputStream(pa.PythonFile(_Packed(file), mode="r"), packing)
    return BufferedReader(stream, _AT_ONCE)


_STREAMS: Mapping[bytes, tuple[str, Callable[[Any], Any]]] = MappingProxyType(
    {
        _GZIP: ("gzip stream", lambda file: gzip.GzipFile(fileobj=file)),
        b"BZh": ("bzip2 stream", partial(_unpacked_by_arrow, packing="bz2")),
        b"\xfd7zXZ\0": ("xz stream", lambda file: BufferedReader(_Xz(file), _AT_ONCE)),
        b"\x28\xb5\x2f\xfd": ("zstd stream", partial(_unpacked_by_arrow, packing="zstd")),
    }
)
"""What unpacks a stream, by the first bytes of the stream, and what a message calls it."""

_DAMAGE = (EOFError, OSError, lzma.LZMAError, tarfile.TarError, zipfile.BadZipFile, zlib.error)
"""Errors of what unpacks. An OSError with a number is one of the disk."""

_BREAKS_OFF = re.compile("^$|Truncated|ended before|unexpected end")
"""What is said of a stream or an archive that is cut off."""


def _reason(error: Exception, what: str) -> str:
    """Return why a stream or an archive cannot be unpacked; an error of the disk is raised again."""
    if isinstance(error, OSError) and error.errno is not None:
        raise error
    return f"the {what} " + ("breaks off" if _BREAKS_OFF.search(str(error)) else f"is broken: {error}")


def _stream(file: BufferedReader) -> tuple[Any, str]:
    """Return what unpacks a file, and what a message calls it; the file itself if it is not packed."""
    file.seek(0)
    for begin, (what, unpacked) in _STREAMS.items():
        if _begins(file, begin):
            return unpacked(file), what
    return file, "file"


def _is_tar(stream: Any) -> bool:
    """Return whether a text begins with the header of a tar archive, which has a checksum."""
    try:
        tarfile.TarInfo.frombuf(stream.read(tarfile.BLOCKSIZE), tarfile.ENCODING, "surrogateescape")
    except _DAMAGE:
        return False
    return True


class _Header(tarfile.TarInfo):
    """A member of a tar archive; a header that is broken is an error, which `tarfile` takes for the end."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        try:
            return super().frombuf(buf, encoding, errors)
        except tarfile.EOFHeaderError:  # type: ignore[attr-defined]
            raise
        except tarfile.HeaderError as error:
            raise EOFError(f"a header of a member is broken: {error}") from error


def _tarred(stream: Any, file: BufferedReader, path: Path, *, several: bool) -> Iterator[_Text]:
    """Yield the data members of a tar archive."""
    names: list[str] = []
    before = 0
    largest = max(_LARGEST_RATIO * os.fstat(file.fileno()).st_size, _LONGEST)
    try:
        with tarfile.open(fileobj=stream, mode="r|", tarinfo=_Header) as archive:
            for member in archive:
                if member.offset_data + member.size > largest:
                    raise IngestError(f"{path}: {member.name} {_BOMB}", path=str(path))
                if not member.isfile() or _NO_DATA.search(member.name):
                    continue
                names.append(member.name)
                if not several and len(names) > 1:
                    break
                text = archive.extractfile(member)
                yield _Text(PurePosixPath(member.name).name, text, "tar archive", file.tell, before)
                before = file.tell()
            else:
                # What packs the archive has its checksum at its end, behind the end of the archive.
                assert archive.fileobj is not None
                if archive.fileobj.read(_LONGEST).strip(b"\0"):
                    raise EOFError("more follows its end")
    except _DAMAGE as error:
        raise IngestError(f"{path}: {_reason(error, 'tar archive')}", path=str(path)) from error
    _require_members(names, path, "tar", several=several)


_BOMB = f"would unpack to more than {_LARGEST_RATIO} times its size; unpack it by hand if it is no bomb"


def _zipped(file: BufferedReader, path: Path, *, several: bool) -> Iterator[_Text]:
    """Yield the data members of a zip archive."""
    try:
        with zipfile.ZipFile(file) as archive:
            data_members = _data_members(archive)
            _require_members([member.filename for member in data_members], path, "zip", several=several)
            for member in data_members:
                _require_readable(member, path)
                with archive.open(member) as packed:
                    share = member.compress_size / max(member.file_size, 1)
                    name = PurePosixPath(member.filename).name
                    yield _Text(name, packed, "zip archive", partial(_share_of, packed, share))
    except NotImplementedError as error:
        message = f"{path}: a zip archive packed in a way not supported: {error}"
        raise IngestError(message, path=str(path)) from error
    except (zipfile.BadZipFile, struct.error) as error:
        # The table of contents is at the end of the archive.
        message = f"{path}: no whole zip archive, or one that was cut off: {error}"
        raise IngestError(message, path=str(path)) from error


def _share_of(packed: Any, share: float) -> int:
    return int(packed.tell() * share)


def _data_members(archive: zipfile.ZipFile) -> list[zipfile.ZipInfo]:
    """Return the members of an archive that hold data; a .txt beside a .csv of its name is a report about it."""
    files = [
        member
        for member in archive.infolist()
        if not member.is_dir() and not _NO_DATA.search(member.filename)
    ]
    names = {member.filename for member in files}
    return [member for member in files if f"{member.filename.removesuffix('.txt')}.csv" not in names]


def _require_members(names: Sequence[str], path: Path, kind: str, *, several: bool) -> None:
    """Raise IngestError unless an archive has a data member, and not several if only one is expected."""
    if len(names) == 1 or (names and several):
        return
    shown = ", ".join(names[:5])
    content = f"{len(names)} files: {shown}{', …' if len(names) > 5 else ''}" if names else "no file"
    raise IngestError(
        f"{path}: a {kind} archive of one file was expected, it holds {content}", path=str(path)
    )


def _require_readable(member: zipfile.ZipInfo, path: Path) -> None:
    """Raise IngestError if a member is encrypted, or so large that it could fill the disk."""
    reason = ""
    if member.flag_bits & _ENCRYPTED:
        reason = "the zip archive is encrypted"
    elif member.file_size > _LARGEST_RATIO * max(member.compress_size, 1):
        reason = (
            f"{member.filename} would unpack to {member.file_size:,} bytes from {member.compress_size:,}, more than "
            f"{_LARGEST_RATIO} times as much; unpack it by hand if it is no zip bomb"
        )
    if reason:
        raise IngestError(f"{path}: {reason}", path=str(path))


def _in_utf8(text: _Text, blocks: Iterable[bytes | str]) -> Iterator[bytes | str]:
    """Yield the blocks of a text without a byte order mark, and those of UTF-16 with one as UTF-8."""
    try:
        mark = text.stream.peek(4)
    except _DAMAGE as error:
        yield _reason(error, text.what)
        return
    if mark.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        # Half a pair of code units becomes bytes that are no UTF-8, and so a bad line.
        decoder = codecs.getincrementaldecoder("utf-16")("surrogatepass")
        for block in blocks:
            yield block if isinstance(block, str) else decoder.decode(block).encode("utf-8", "surrogatepass")
        if decoder.getstate()[0]:
            yield "the UTF-16 text breaks off"
        return
    if mark.startswith(codecs.BOM_UTF8):
        text.stream.read(len(codecs.BOM_UTF8))
    yield from blocks


def _blocks(text: _Text, progress: Callable[[int], object], size: int = 0) -> Iterator[bytes | str]:
    """Yield the blocks of a text; if its stream is broken, the last item is the reason as a str."""
    size = size or BLOCK
    if not text.what.endswith("stream"):
        size //= 4
    position_before, unpacked = text.before, 0
    reason_broken: str | None = None
    while reason_broken is None:
        parts: list[bytes] = []
        try:
            # Read in a loop, because a packed stream returns few bytes per read.
            while size_missing := size - sum(map(len, parts)):
                part = text.stream.read1(min(size_missing, _AT_ONCE))
                if not part:
                    break
                parts.append(part)
        except _DAMAGE as error:
            reason_broken = _reason(error, text.what)
            # Damage is noticed late, so the last unpacked bytes may be wrong. They are right if the error is only that
            # the stream ends early, or that other bytes follow a complete stream, whose checksum was right.
            if not reason_broken.endswith("breaks off") and not str(error).startswith("Not a gzipped file"):
                parts.clear()
        position_now = text.position()
        progress(position_now - position_before)
        position_before = position_now
        unpacked += sum(map(len, parts))
        if unpacked > max(_LARGEST_RATIO * position_now, _LONGEST):
            reason_broken = (
                f"the {text.what} unpacks to over {_LARGEST_RATIO} times its size; unpack a right one by hand"
            )
        if parts:
            yield b"".join(parts)
        elif reason_broken is None:
            return
    yield reason_broken
