"""What was fetched before: whole closed intervals of a series, as Parquet files that anything can read.

::

    <folder>/<data type>/<hash of what is asked>/
        query.json                      what is asked, and of which service
        <start>-<end>-<hash>.parquet    the points of a span that was over, half-open, in epoch seconds; in its metadata
                                        why markets have none
        .lock

A file is written under another name first and never changed, and its name tells a hash of its bytes, its series and its
span: one that is not what it was is removed and fetched again, never returned. What is missing of a window is what no
file covers.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import filelock
import platformdirs
import polars as pl

from tidytape.catalogue import NoteCode
from tidytape.client._answers import described
from tidytape.client._window import Window
from tidytape.errors import QueryError
from tidytape.schema import schema_of
from tidytape.times import SECOND, Span, intersected, union, without
from tidytape.wire._notes import Note, read_notes, write_notes
from tidytape.wire._tidy import concatenated, with_known

_FORMAT = "1"
"""Of the layout above; another one begins anew."""

_NAME = re.compile(r"(\d+)-(\d+)-([0-9a-f]{32})\.parquet")
_NOTES = "tidytape.notes"
"""In the metadata of a file: why markets that were asked for have no points in it."""

_SMALL = 8 * 2**20
"""Files that adjoin and are together no longer than this become one. [byte]"""

_BELIEVED = 7 * 86_400
"""Data may come late, so that there is nothing at the end of an answer is believed once it is so old. [s]

A point that is not final is never kept, however old it is.
"""

_ABANDONED = 3_600
"""A part of a file that is so old was left by a process that died. [s]"""

LIMIT = 10 * 2**30
"""How much a cache holds unless it is told otherwise. [byte]"""


def default_folder() -> Path:
    """Return the folder of the cache: ``TIDYTAPE_CACHE_DIR``, else the user's."""
    return Path(
        os.environ.get("TIDYTAPE_CACHE_DIR") or platformdirs.user_cache_dir("tidytape", appauthor=False)
    )


@dataclass(frozen=True, slots=True)
class Segment:
    """The points of one span."""

    start: int
    end: int
    digest: str
    path: Path

    @property
    def size(self) -> int:
        """Size of its file; 0 if another process has removed it. [byte]"""
        with suppress(OSError):
            return self.path.stat().st_size
        return 0

    @property
    def is_of_the_future(self) -> bool:
        """Whether it ends after now, so that a clock that was ahead wrote it."""
        return self.end > time.time()


@dataclass(frozen=True, slots=True)
class Entry:
    """One series of the cache.

    Attributes
    ----------
    data_type : str
        Name of the data type.
    base_url : str
        The service it is from.
    params : list of (str, str)
        What is asked, as URL parameters.
    spans : list of (int, int)
        What is kept, half-open. [s since the epoch]
    size : int
        Of its files. [byte]
    used : float
        When it was read last. [s since the epoch]
    """

    data_type: str
    base_url: str
    params: list[tuple[str, str]]
    spans: list[Span]
    size: int
    used: float


class Cache:
    """A folder of fetched points that all processes of a user share.

    Parameters
    ----------
    folder : path, optional
        Where; the user's cache folder if left out.
    limit : int
        How much it may hold; what was not read for longest goes first. [byte]

    Examples
    --------
    >>> import tempfile
    >>> Cache(tempfile.mkdtemp()).entries()
    []
    """

    def __init__(self, folder: str | os.PathLike[str] | None = None, *, limit: int = LIMIT) -> None:
        if limit < 1:
            raise QueryError("cache_limit", got=limit, expected="a whole number of bytes above 0")
        self.folder = default_folder() if folder is None else Path(folder)
        self.limit = limit

    def series(self, base_url: str, window: Window, *, absent: str = "null") -> Series:
        """Return the cached series of a window's query. Clients with another ``absent`` have another one."""
        asked = {"format": _FORMAT, "base_url": base_url, "params": window.params}
        if absent != "null":
            asked["absent"] = absent
        name = hashlib.sha256(json.dumps(asked).encode()).hexdigest()[:32]
        return Series(self, self.folder / window.data_type / name, window, asked)

    def entries(self) -> list[Entry]:
        """Return the cached series, the one that was read last first."""
        kept = []
        for description in self.folder.glob("*/*/query.json"):
            try:
                query = json.loads(description.read_text("utf-8"))
                segments = list(_segments(description.parent))
                stats = [segment.path.stat() for segment in segments]
                params = [(str(name), str(value)) for name, value in query["params"]]
                url = str(query["base_url"])
            except (OSError, ValueError, KeyError, TypeError):
                continue  # another process removes it
            kept.append(
                Entry(
                    description.parent.parent.name,
                    url,
                    params,
                    union((segment.start, segment.end) for segment in segments),
                    sum(stat.st_size for stat in stats),
                    max((stat.st_mtime for stat in stats), default=0.0),
                )
            )
        return sorted(kept, key=lambda entry: -entry.used)

    def clear(self) -> int:
        """Remove all cached points, and return their size. [byte]"""
        before = self._files()
        for description in self.folder.glob("*/*/query.json"):
            shutil.rmtree(description.parent, ignore_errors=True)
        return sum(size for _, size, path in before if not path.exists())

    def trim(self) -> None:
        """Remove the files that were read longest ago until the rest is within the limit."""
        files = self._files()
        over = sum(size for _, size, _ in files) - self.limit
        for _, size, path in sorted(files):
            if over <= 0:
                return
            path.unlink(missing_ok=True)
            over -= size

    def _files(self) -> list[tuple[float, int, Path]]:
        """Return when each file of points was read last, its size and path."""
        files = []
        for path in self.folder.glob("*/*/*.parquet"):
            with suppress(OSError):  # another process removes it
                stat = path.stat()
                files.append((stat.st_mtime, stat.st_size, path))
        return files


class Series:
    """The cached points of one series; a series is a query without its times.

    Parameters
    ----------
    cache : Cache
    folder : path
        Its folder.
    window : Window
        What is asked; its time does not matter.
    asked : dict
        What stands in ``query.json``.
    """

    def __init__(self, cache: Cache, folder: Path, window: Window, asked: dict[str, Any]) -> None:
        self._cache = cache
        self._folder = folder
        self._window = window
        self._asked = asked
        self._schema = schema_of(window.data_type, grouped=window.query.group_by is not None)

    def missing(self, span: Span) -> list[Span]:
        """Return the parts of a span that no file covers."""
        segments = _segments(self._folder)
        return without(
            span, ((segment.start, segment.end) for segment in segments if not segment.is_of_the_future)
        )

    def read(self, span: Span) -> tuple[list[pl.DataFrame], list[Note], list[Span]]:
        """Return the cached points of a span, each once, their notes, and the parts of the span that are missing.

        A file that is damaged, or tells of a time that is yet to come, is removed, and what it covered is missing.
        """
        frames: list[pl.DataFrame] = []
        notes: list[Note] = []
        taken: list[Span] = []
        for segment in _segments(self._folder):
            parts = [
                part
                for overlap in intersected(span, [(segment.start, segment.end)])
                for part in without(overlap, taken)
            ]
            if not parts:
                continue
            try:
                points = _opened(segment)
            except OSError:
                continue  # it may be there again the next time
            if points is None or segment.is_of_the_future:
                with suppress(OSError):
                    segment.path.unlink(missing_ok=True)
                continue
            frame, file_notes = points
            frames += [_between(frame, part) for part in parts]
            notes += file_notes
            taken = union([*taken, *parts])
        return [self._described(frame) for frame in frames], notes, without(span, taken)

    def _described(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Return a cached frame in the schema.

        Files of older releases lack columns that follow from the query, and name intervals as the service does.
        """
        return described(with_known(self._schema.conform(frame)), self._window.query, answered_at=None)

    def store(
        self, span: Span, frame: pl.DataFrame, *, closed: int, now: float, notes: Iterable[Note] = ()
    ) -> None:
        """Cache the closed part of a span, without the intervals that have a point that is not final.

        Parameters
        ----------
        span : (int, int)
            What was asked for and answered. [s since the epoch]
        frame : polars.DataFrame
            Its points.
        closed : int
            Points that start before it can no longer change. [s since the epoch]
        now : float
            [s since the epoch]
        notes : iterable of Note
            What the service said of markets without points.
        """
        start, end = span[0], min(span[1], closed)
        believed = self._window.floored(int(now) - _BELIEVED)
        unsettled = self._unsettled(_between(frame, (start, end)))
        if end > believed:
            end = min(end, max(self._told(_between(frame, (start, end)), start), believed))
            end = min([end, *(first for first, _ in unsettled if first >= believed)])
            # A market that lags behind, or is not there yet, may have points tomorrow.
            end = min([end, *(max(_known_until(note, end), believed) for note in notes)])
        # A market that ended never settles its last interval: that one is asked for again, the rest is kept.
        settled = without((start, end), unsettled) if start < end else []
        if not settled:
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        description = self._folder / "query.json"
        if not description.exists():
            _put(description, json.dumps(self._asked, indent=1).encode())
        for part in settled:
            self._write(part, _between(frame, part), notes)

    def _unsettled(self, frame: pl.DataFrame) -> list[Span]:
        """Return the intervals in which a point may still change, for its market is not known to their end."""
        if "is_final" not in frame.columns:
            return []
        starts = frame.filter(~pl.col("is_final"))["timestamp"].dt.epoch("s").unique().to_list()
        floored = (self._window.floored(start) for start in starts)
        return [(start, start + self._window.step) for start in floored]

    def _told(self, frame: pl.DataFrame, start: int) -> int:
        """Return up to where every series of an answer tells something; filled intervals tell nothing."""
        if frame.is_empty() or self._window.query.gapfill:
            return start
        series = [name for name in self._schema.identity if name in frame.columns]
        last = pl.col("timestamp").max()
        lasts = frame.group_by(series).agg(last) if series else frame.select(last)
        return int(lasts["timestamp"].dt.epoch("s").min()) + self._window.step  # type: ignore[arg-type]

    def tidy(self) -> None:
        """Make files that adjoin and are small into one, and see to the limit of the cache."""
        runs: list[list[Segment]] = []
        size = 0
        for segment in _segments(self._folder):
            size += segment.size
            if runs and segment.start == runs[-1][-1].end and size <= _SMALL:
                runs[-1].append(segment)
            else:
                runs.append([segment])
                size = segment.size
        for run in runs:
            if len(run) > 1:
                self._join(run)
        for part in self._folder.glob(".*.part"):
            with suppress(OSError):
                if part.stat().st_mtime < time.time() - _ABANDONED:
                    part.unlink()
        self._cache.trim()

    def _join(self, run: Sequence[Segment]) -> None:
        try:
            frames = [_opened(segment) for segment in run]
        except OSError:
            return  # another process has joined them
        sound = [points for points in frames if points is not None]
        if len(sound) < len(run):
            return  # it is found out when it is read
        notes = [note for _, file_notes in sound for note in file_notes]
        self._write((run[0].start, run[-1].end), concatenated([frame for frame, _ in sound]), notes)
        for segment in run:
            segment.path.unlink(missing_ok=True)

    def _write(self, span: Span, frame: pl.DataFrame, notes: Iterable[Note]) -> None:
        body = io.BytesIO()
        # Where a market has points in a part of the window is not said again: they are here.
        empty = dict.fromkeys(note for note in notes if note.code is not NoteCode.PART)
        metadata = {_NOTES: write_notes(empty).decode()} if empty else None
        frame.write_parquet(body, compression="zstd", compression_level=1, metadata=metadata)
        content = body.getvalue()
        digest = _digest(self._folder, span, content)
        _put(self._folder / f"{span[0]}-{span[1]}-{digest}.parquet", content)

    def lock(self) -> filelock.FileLock:
        """Return the lock that a process holds while it fetches missing points; it ends with the process."""
        self._folder.mkdir(parents=True, exist_ok=True)
        # Not of one thread: a task of asyncio may go on in another one.
        return filelock.FileLock(self._folder / ".lock", thread_local=False)


def _segments(folder: Path) -> Iterator[Segment]:
    """Yield the files of a series in the order of their starts; of two with the same start the longer one first."""
    segments: list[Segment] = []
    with suppress(OSError):
        segments = [
            Segment(int(name[1]), int(name[2]), name[3], path)
            for path in folder.iterdir()
            if (name := _NAME.fullmatch(path.name))
        ]
    yield from sorted(segments, key=lambda segment: (segment.start, -segment.end, segment.digest))


def _opened(segment: Segment) -> tuple[pl.DataFrame, tuple[Note, ...]] | None:
    """Return points and notes of a file, or None if its hash is wrong. Raise OSError if it cannot be read now."""
    content = segment.path.read_bytes()
    if _digest(segment.path.parent, (segment.start, segment.end), content) != segment.digest:
        return None
    try:
        frame = pl.read_parquet(io.BytesIO(content))
        notes = pl.read_parquet_metadata(io.BytesIO(content)).get(_NOTES, "")
    except (OSError, pl.exceptions.PolarsError):
        return None
    with suppress(OSError):
        os.utime(segment.path)  # it was read just now
    return frame, read_notes(notes.encode()) or ()


def _digest(folder: Path, span: Span, content: bytes) -> str:
    """Return the hash of a file's series, span and bytes."""
    return hashlib.sha256(f"{folder.name} {span[0]} {span[1]}\n".encode() + content).hexdigest()[:32]


def _known_until(note: Note, end: int) -> int:
    """Return up to where a market without points before ``end`` is known, as the service says. [s]"""
    if note.code is NoteCode.NO_DATA:
        return 0
    if note.code is not NoteCode.OUTSIDE or note.first is None or note.last is None:
        return end
    has_begun_later = note.first >= end * SECOND
    return end if has_begun_later else min(end, note.last // SECOND)


def _between(frame: pl.DataFrame, span: Span) -> pl.DataFrame:
    second = pl.col("timestamp").dt.epoch("s")
    return frame.filter(second >= span[0], second < span[1])


def _put(path: Path, content: bytes) -> None:
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
