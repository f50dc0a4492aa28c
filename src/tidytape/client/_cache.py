"""The cache: fetched points of finished intervals, as Parquet files that any program can read.

::

    <folder>/<data type>/<hash of what is asked>/
        query.json                      the query and the service
        <start>-<end>-<hash>.parquet    the points of a finished span, half-open, in epoch seconds; the metadata of the
                                        file say why markets have no points
        .lock                           the lock of the process that fetches

A file is written under another name, renamed, and never changed. Its name has a hash of its bytes, its series and its
span. If the hash is wrong, the client removes the file and fetches the span again. The client fetches only the parts of
a window that no file covers.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import shutil
import tempfile
import threading
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
from tidytape.schema import wire_schema
from tidytape.times import SECOND, Span, intersected, union, without
from tidytape.wire._notes import Note, read_notes, write_notes
from tidytape.wire._sessions import IN_PROGRESS, travelling
from tidytape.wire._tidy import concatenated, with_known

_FORMAT = "1"
"""The version of the layout above; a client with another version starts an empty cache."""

_NAME = re.compile(r"(\d+)-(\d+)-([0-9a-f]{32})\.parquet")
_NOTES = "tidytape.notes"
"""The key of the notes in the metadata of a file; they say why markets have no points."""

_SMALL = 8 * 2**20
"""The client joins adjoining files into a file of at most this size. [byte]"""

_IN_MEMORY = 64 * 2**20
"""How much of the files that a client has read last stays in its memory. [byte]"""

_NEWLY_READ = 60
"""For how long after a reading the next one does not change the time of the file, which others would read anew. [s]"""

_LATENESS = 7 * 86_400
"""How late a service may get its data. [s]

If an answer ends without points, the client caches that end only if it is older. It never caches a point that is not
final, however old the point is.
"""

_ABANDONED = 3_600
"""Age at which an unfinished file counts as left by a dead process. [s]"""

LIMIT = 10 * 2**30
"""The default limit of a cache. [byte]"""


def default_folder() -> Path:
    """Return the folder of the cache: ``TIDYTAPE_CACHE_DIR``, or else the user's cache folder."""
    return Path(
        os.environ.get("TIDYTAPE_CACHE_DIR") or platformdirs.user_cache_dir("tidytape", appauthor=False)
    )


Contents = tuple[pl.DataFrame, tuple[Note, ...]]
"""The points and notes of a file."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A file with the points of one span."""

    start: int
    end: int
    digest: str
    path: Path

    @property
    def size(self) -> int:
        """The size of the file; 0 if another process has removed it. [byte]"""
        with suppress(OSError):
            return self.path.stat().st_size
        return 0

    @property
    def is_of_the_future(self) -> bool:
        """Whether the span ends after now: a process whose clock was ahead wrote it."""
        return self.end > time.time()


@dataclass(frozen=True, slots=True)
class Entry:
    """One series of the cache.

    Attributes
    ----------
    data_type : str
        Name of the data type.
    base_url : str
        The address of the service.
    params : list of (str, str)
        The query, as URL parameters.
    spans : list of (int, int)
        The cached spans, half-open. [s since the epoch]
    size : int
        The size of the files. [byte]
    used : float
        The time of the last reading. [s since the epoch]
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
        The folder; by default the user's cache folder.
    limit : int
        The largest size of all files. Above it, the client removes the least recently read files. [byte]

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
        self._recent: dict[Path, tuple[tuple[int, int] | None, Contents]] = {}
        self._recent_lock = threading.Lock()

    def opened(self, segment: Segment, data_type: str) -> Contents | None:
        """Return the points and notes of a file; None if it is damaged. Raise OSError if it cannot be read now.

        The contents of the last files stay in memory, and are used as long as nobody writes to the file.
        """
        with self._recent_lock:
            stamp, contents = self._recent.pop(segment.path, (None, None))
        if contents is None or stamp != _stamp(segment.path):
            contents = _opened(segment)
            if contents is None:
                return None
            frame, notes = contents
            contents = travelling(frame, data_type), notes  # a file of an older release has another form
        with suppress(OSError):  # the file's time is the time of its last reading
            if segment.path.stat().st_mtime < time.time() - _NEWLY_READ:
                os.utime(segment.path)
        with self._recent_lock:
            self._recent[segment.path] = _stamp(segment.path), contents
            while sum(frame.estimated_size() for _, (frame, _) in self._recent.values()) > _IN_MEMORY:
                del self._recent[next(iter(self._recent))]
        return contents

    def series(self, base_url: str, window: Window, *, absent: str = "null") -> Series:
        """Return the cached series of a window's query. Each value of ``absent`` has its own series."""
        description = {"format": _FORMAT, "base_url": base_url, "params": window.params}
        if absent != "null":
            description["absent"] = absent
        name = hashlib.sha256(json.dumps(description).encode()).hexdigest()[:32]
        return Series(self, self.folder / window.data_type / name, window, description)

    def entries(self) -> list[Entry]:
        """Return the cached series, the most recently read one first."""
        entries = []
        for description in self.folder.glob("*/*/query.json"):
            try:
                query = json.loads(description.read_text("utf-8"))
                segments = list(_segments(description.parent))
                stats = [segment.path.stat() for segment in segments]
                params = [(str(name), str(value)) for name, value in query["params"]]
                url = str(query["base_url"])
            except (OSError, ValueError, KeyError, TypeError):
                continue  # another process is removing the series
            entries.append(
                Entry(
                    description.parent.parent.name,
                    url,
                    params,
                    union((segment.start, segment.end) for segment in segments),
                    sum(stat.st_size for stat in stats),
                    max((stat.st_mtime for stat in stats), default=0.0),
                )
            )
        return sorted(entries, key=lambda entry: -entry.used)

    def clear(self) -> int:
        """Remove all cached points, and return their size. [byte]"""
        before = self._files()
        for description in self.folder.glob("*/*/query.json"):
            shutil.rmtree(description.parent, ignore_errors=True)
        return sum(size for _, size, path in before if not path.exists())

    def trim(self) -> None:
        """Remove the least recently read files, until the other files are within the limit."""
        files = self._files()
        excess = sum(size for _, size, _ in files) - self.limit
        for _, size, path in sorted(files):
            if excess <= 0:
                return
            path.unlink(missing_ok=True)
            excess -= size

    def _files(self) -> list[tuple[float, int, Path]]:
        """Return the time of the last reading, size and path of each file of points."""
        files = []
        for path in self.folder.glob("*/*/*.parquet"):
            with suppress(OSError):  # another process may remove the file meanwhile
                stat = path.stat()
                files.append((stat.st_mtime, stat.st_size, path))
        return files


class Series:
    """The cached points of one series; a series is a query without its times.

    Parameters
    ----------
    cache : Cache
    folder : path
        The folder of the series.
    window : Window
        A window of the series; its start and end do not matter.
    description : dict
        The contents of ``query.json``.
    """

    def __init__(self, cache: Cache, folder: Path, window: Window, description: dict[str, Any]) -> None:
        self._cache = cache
        self._folder = folder
        self._window = window
        self._description = description
        self._schema = wire_schema(window.data_type, grouped=window.query.group_by is not None)

    def missing(self, span: Span) -> list[Span]:
        """Return the parts of a span that no file covers."""
        segments = _segments(self._folder)
        return without(
            span, ((segment.start, segment.end) for segment in segments if not segment.is_of_the_future)
        )

    def read(self, span: Span) -> tuple[list[pl.DataFrame], list[Note], list[Span]]:
        """Return the cached points of a span, each once, their notes, and the parts of the span that are missing.

        It removes a file that is damaged, or that covers a time in the future. Then the span of the file is missing.
        """
        frames: list[pl.DataFrame] = []
        notes: list[Note] = []
        covered: list[Span] = []
        for segment in _segments(self._folder):
            # Files may overlap: take from each only the parts that no earlier file covers.
            new_parts = [
                part
                for overlap in intersected(span, [(segment.start, segment.end)])
                for part in without(overlap, covered)
            ]
            if not new_parts:
                continue
            try:
                contents = self._cache.opened(segment, self._window.data_type)
            except OSError:
                continue  # another process is removing the file, or joining it with others
            if contents is None or segment.is_of_the_future:
                with suppress(OSError):
                    segment.path.unlink(missing_ok=True)
                continue
            frame, file_notes = contents
            frames += [_between(frame, part) for part in new_parts]
            notes += file_notes
            covered = union([*covered, *new_parts])
        return [self._described(frame) for frame in frames], notes, without(span, covered)

    def _described(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Return a cached frame in the schema of its data type.

        Files of older releases lack columns that follow from the query, and name intervals as the service does.
        """
        return described(with_known(self._schema.conform(frame)), self._window.query, answered_at=None)

    def store(
        self, span: Span, frame: pl.DataFrame, *, closed: int, now: float, notes: Iterable[Note] = ()
    ) -> None:
        """Cache the part of a span that can no longer change, without intervals in which a point is not final.

        Parameters
        ----------
        span : (int, int)
            The span of the request. [s since the epoch]
        frame : polars.DataFrame
            The points of the span.
        closed : int
            Points that start before this time can no longer change. [s since the epoch]
        now : float
            The time before which the answer is settled, ``now`` of its `Part`. [s since the epoch]
        notes : iterable of Note
            Why markets have no points, as the service says it.
        """
        start, end = span[0], min(span[1], closed)
        complete_until = self._window.floored(int(now) - _LATENESS)
        unsettled = self._unsettled(_between(frame, (start, end)))
        if end > complete_until:
            end = min(end, max(self._end_of_shortest(_between(frame, (start, end)), start), complete_until))
            end = min([end, *(first for first, _ in unsettled if first >= complete_until)])
            # A market whose data lag, or that the service does not have yet, may have points tomorrow.
            end = min([end, *(max(_known_until(note, end), complete_until) for note in notes)])
        # Leave out older intervals that are not final: a delisted market never finishes its last interval. The client
        # requests that interval each time.
        settled = without((start, end), unsettled) if start < end else []
        if not settled:
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        description = self._folder / "query.json"
        if not description.exists():
            _put(description, json.dumps(self._description, indent=1).encode())
        for part in settled:
            self._write(part, _between(frame, part), notes)

    def _unsettled(self, frame: pl.DataFrame) -> list[Span]:
        """Return the intervals in which a point may still change."""
        if "is_final" not in frame.columns:
            return []
        starts = frame.filter(~pl.col("is_final"))["timestamp"].dt.epoch("s").unique().to_list()
        floored = (self._window.floored(start) for start in starts)
        return [(start, start + self._window.step) for start in floored]

    def _end_of_shortest(self, frame: pl.DataFrame, start: int) -> int:
        """Return the end of the series that ends first; return ``start`` if there are no points.

        With ``gapfill`` also return ``start``, because filled candles do not show where the data end.
        """
        if frame.is_empty() or self._window.query.gapfill:
            return start
        series_columns = [name for name in self._schema.identity if name in frame.columns]
        last = pl.col("timestamp").max()
        last_points = frame.group_by(series_columns).agg(last) if series_columns else frame.select(last)
        return int(last_points["timestamp"].dt.epoch("s").min()) + self._window.step  # type: ignore[arg-type]

    def tidy(self) -> None:
        """Join small adjoining files into one, and remove old files above the limit of the cache."""
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
        for unfinished_file in self._folder.glob(".*.part"):
            with suppress(OSError):
                if unfinished_file.stat().st_mtime < time.time() - _ABANDONED:
                    unfinished_file.unlink()
        self._cache.trim()

    def _join(self, run: Sequence[Segment]) -> None:
        """Write the points of adjoining files to one file, and remove those files."""
        try:
            data_type = self._window.data_type
            contents = [self._cache.opened(segment, data_type) for segment in run]
        except OSError:
            return  # another process has joined them
        undamaged_contents = [content for content in contents if content is not None]
        if len(undamaged_contents) < len(run):
            return  # the next reading removes the damaged file
        notes = [note for _, file_notes in undamaged_contents for note in file_notes]
        span = run[0].start, run[-1].end
        self._write(span, concatenated([frame for frame, _ in undamaged_contents]), notes)
        for segment in run:
            segment.path.unlink(missing_ok=True)

    def _write(self, span: Span, frame: pl.DataFrame, notes: Iterable[Note]) -> None:
        body = io.BytesIO()
        # PART says that a market has points only in a part of the window; the points of the file show that.
        notes_of_empty = dict.fromkeys(note for note in notes if note.code is not NoteCode.PART)
        metadata = {_NOTES: write_notes(notes_of_empty).decode()} if notes_of_empty else None
        frame = frame.drop(IN_PROGRESS, strict=False)  # null in intervals that are final
        frame.write_parquet(body, compression="zstd", compression_level=1, metadata=metadata)
        content = body.getvalue()
        digest = _digest(self._folder, span, content)
        _put(self._folder / f"{span[0]}-{span[1]}-{digest}.parquet", content)

    def lock(self) -> filelock.FileLock:
        """Return the lock that a process holds while it fetches points; the system frees it if the process dies."""
        self._folder.mkdir(parents=True, exist_ok=True)
        # Not thread-local, because asyncio may run the next step of a fetch in another thread.
        return filelock.FileLock(self._folder / ".lock", thread_local=False)


def _segments(folder: Path) -> Iterator[Segment]:
    """Yield the files of a series, sorted by start; of two files with the same start, the longer one comes first."""
    segments: list[Segment] = []
    with suppress(OSError):
        segments = [
            Segment(int(name[1]), int(name[2]), name[3], path)
            for path in folder.iterdir()
            if (name := _NAME.fullmatch(path.name))
        ]
    yield from sorted(segments, key=lambda segment: (segment.start, -segment.end, segment.digest))


def _stamp(path: Path) -> tuple[int, int] | None:
    """Return the size of a file and the time of its last change, of which any writing changes one; None without it."""
    with suppress(OSError):
        stat = path.stat()
        return stat.st_size, stat.st_mtime_ns
    return None


def _opened(segment: Segment) -> Contents | None:
    """Return the points and notes of a file, or None if the file is damaged. Raise OSError if it cannot be read now."""
    content = segment.path.read_bytes()
    if _digest(segment.path.parent, (segment.start, segment.end), content) != segment.digest:
        return None
    try:
        frame = pl.read_parquet(io.BytesIO(content))
        notes = pl.read_parquet_metadata(io.BytesIO(content)).get(_NOTES, "")
    except (OSError, pl.exceptions.PolarsError):
        return None
    return frame, read_notes(notes.encode()) or ()


def _digest(folder: Path, span: Span, content: bytes) -> str:
    """Return the hash of a file's series, span and bytes."""
    return hashlib.sha256(f"{folder.name} {span[0]} {span[1]}\n".encode() + content).hexdigest()[:32]


def _known_until(note: Note, end: int) -> int:
    """Return the second up to which the service knows a market without points. [s since the epoch]

    It is at most ``end``, and 0 if the service does not have the market's data.
    """
    if note.code is NoteCode.NO_DATA:
        return 0
    if note.code is not NoteCode.OUTSIDE or note.first is None or note.last is None:
        return end
    begins_after_end = note.first >= end * SECOND
    return end if begins_after_end else min(end, note.last // SECOND)


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
