"""Follow logs that grow: lines that are appended to them go into the lake, piece by piece.

Complete lines go in about every second, and the commit of each table notes up to where in the log its rows come from,
and which text is before that place. So a follower that was killed goes on where it ended: no row is lost, and no row is
there twice. A log has two notes per table, however long it is followed. They are named after the log's first lines, so
a renamed log stays the same log.

A followed log is in the lake as if `tidytape.lake.ingest.ingest` had read it at once, except that later lines cannot
tell anything about earlier ones:

- A name that cannot be guessed is left out instead of refused, and the block size of a market is chosen from the first
  price, which may come from a snapshot of its book.
- Messages of books show that a log is of a spot market; a follower that has read only trades does not know it.
"""

from __future__ import annotations

import copy
import hashlib
import logging
import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tidytape.errors import IngestError, QueryError
from tidytape.lake._batch import Spool
from tidytape.lake._lake import Lake
from tidytape.lake._reader import log_notes
from tidytape.lake._tables import MARKETS, TABLES
from tidytape.lake.hygiene._info import beat
from tidytape.lake.ingest._described import Auto
from tidytape.lake.ingest._layout import Job, Layout, Parsed
from tidytape.lake.ingest._layouts import recognised_by
from tidytape.lake.ingest._lines import BadLines, Piece
from tidytape.lake.ingest._market import Market, require_market
from tidytape.lake.ingest._report import FileReport, IngestReport, TableCount
from tidytape.lake.ingest._run import (
    is_by_words,
    meaning_of_word,
    parsed_by,
    require_object,
    source_of,
    with_marks,
)
from tidytape.lake.ingest._write import NewestStates, Writer, fill_funding_intervals
from tidytape.lake.record._rotation import FollowedPath
from tidytape.lake.record._tail import Log
from tidytape.lake.record._tidy import Beside, Tidier

_LOG = logging.getLogger("tidytape.lake")
_LOOK = 0.05
"""Time between two looks at the files. [s]"""

_BEAT = 5.0
"""Time between two heartbeats. [s]"""

_LEAST_KEEP = 120
"""Least time for ``keep``: a lake keeps a table open for a minute, and an answer takes a while. [s]"""

_NOTE = 64 * 2**20
"""After how much text the end in all tables is noted: a table without rows has no other note. [bytes]"""

_ALL_BAD = 10
"""Most broken lines of a log of which no line could be read yet."""

_CONTEXT = 4 * 2**20
"""How much text before a position is read again, to go on from there. [bytes]"""


def follow(
    files: str | Path | Iterable[str | Path],
    lake: Lake,
    layout: Layout | None = None,
    *,
    market: Market | None = None,
    every: float = 1.0,
    most_lines: int = 100_000,
    skip_bad: bool = False,
    most_bad: int = 100,
    tidy: float | None = 60.0,
    keep: float = 900.0,
    stop: threading.Event | None = None,
    progress: Callable[[IngestReport], object] | None = None,
) -> IngestReport:
    r"""Put the lines that are appended to recorded logs into a lake, until it is stopped.

    A log may not be there yet. A last line waits until its newline is there. If another file replaces the file at a
    path, or the file is cut, all logs that are not in the lake are read first, also after a restart: files beside the
    path whose names begin with its name, plain, gzip or zip, except those that were there before the path was first
    followed. Lines that are appended to an old log are read for ten more seconds. Every five seconds a heartbeat goes
    into the lake, see `tidytape.lake.hygiene.recorders`.

    Parameters
    ----------
    files : path or iterable of paths
        Plain files whose rows are lines.
    lake : Lake
        Where the rows go.
    layout : Layout, optional
        How the files are written; if left out, it is recognised by the name and the first lines of each file.
    market : Market, optional
        Facts of the market that the files do not state.
    every : float
        Time between two commits of one log, > 0. [s]
    most_lines : int
        Commit earlier if so many lines wait.
    skip_bad : bool
        Leave all broken lines out and count them.
    most_bad : int
        How many broken lines of a log are left out, counted and logged if ``skip_bad`` is not set. If no line could be
        read yet, the map or the layout is wrong, so 10 are the most.
    tidy : float, optional
        Time between two rounds of a thread that makes minutes and merges small files, > 0; None for no thread. [s]
    keep : float
        How long merged files and older versions of the tables stay, >= 120: a stream goes on from them. It becomes the
        retention of tables that have none. [s]
    stop : threading.Event, optional
        Set it to end the call; lines that were read are committed first.
    progress : callable, optional
        Called after commits with the report so far.

    Returns
    -------
    IngestReport
        The logs that went in since this call; no markets.

    Raises
    ------
    QueryError
        If an argument cannot be right, or files of a layout cannot be followed.
    IngestError
        If a log has more broken lines than ``most_bad``, or a line contradicts the lake; lines before it went in. If
        lines could not be found after a rotation: after the end of the call, with its ``report``; the others went in.
    LakeError
        If the lake cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> from tidytape.lake.ingest import Csv
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "trades.csv").write_text("timestamp,price,amount,side\n1693929601,100.5,2,buy\n16939")
    >>> stop = threading.Event()
    >>> stop.set()
    >>> report = follow(
    ...     folder / "trades.csv", Lake.create(folder / "lake"), Csv(),
    ...     market=Market(exchange="COINBASE", raw_symbol="BTC-USD"), stop=stop,
    ... )
    >>> report.trades_new
    1
    """
    if not every > 0:
        raise QueryError("every", got=every, expected="a number of seconds above 0")
    if most_lines < 1:
        raise QueryError("most_lines", got=most_lines, expected="a number from 1")
    follower = Follower(lake, layout, market, skip_bad=skip_bad, most_bad=most_bad)
    paths = [Path(files)] if isinstance(files, str | Path) else [Path(file) for file in files]
    followed_paths = [FollowedPath(path, follower, every, most_lines) for path in paths]
    stop = stop or threading.Event()
    with tidied(lake, tidy, keep):
        _run(followed_paths, follower, stop, progress)
    if follower.missing:
        raise IngestError("\n".join(follower.missing), report=follower.report())
    return follower.report()


def tidied(lake: Lake, every: float | None, keep: float) -> AbstractContextManager[object]:
    """Return a context in which a thread keeps a lake small; raise QueryError if a time cannot be right."""
    if every is None:
        return nullcontext()
    if not every > 0:
        raise QueryError("tidy", got=every, expected="a number of seconds above 0, or None")
    if not keep >= _LEAST_KEEP:
        raise QueryError("keep", got=keep, expected=f"{_LEAST_KEEP} or more seconds")
    return Beside(Tidier(lake, keep=keep), every)


def _run(
    followed_paths: list[FollowedPath],
    follower: Follower,
    stop: threading.Event,
    progress: Callable[[IngestReport], object] | None,
) -> None:
    try:
        is_last, beaten = False, -_BEAT
        while not is_last:
            if time.monotonic() - beaten >= _BEAT:
                beaten = time.monotonic()
                for path in followed_paths:
                    path.beat()
            is_last = stop.is_set()  # before the look, so that lines appended before it was set are read
            went_in = [path.go(is_last=is_last) for path in followed_paths]
            if progress is not None and any(went_in):
                progress(follower.report())
            if not any(went_in):
                stop.wait(_LOOK)
        follower.note_all()
        for path in followed_paths:
            beat(follower.lake, path.path, None)
    finally:
        for path in followed_paths:
            path.close()


@dataclass(slots=True)
class Followed:
    """One log that is followed: how it is read, and up to where it is in the lake.

    Attributes
    ----------
    job : Job
        How it is read.
    layout : Layout
        How it is written.
    name : str
        Its name in the notes.
    ends : dict of str to int
        Up to where its rows are in each table. [bytes]
    noted : int
        Up to where they are in all tables by the note of the registry. [bytes]
    mark : int
        Stands for the text before ``end``.
    memory : dict
        What the layout remembers.
    newest : NewestStates
        States that it gave.
    waits : int
        Size of the piece that could not be read without later lines. [bytes]
    known : int
        How much of its beginning was in the lake when it was begun. [bytes]
    """

    job: Job
    layout: Layout
    name: str
    ends: dict[str, int]
    noted: int
    mark: int = 0
    memory: dict[str, Any] = field(default_factory=dict)
    newest: NewestStates = field(default_factory=NewestStates)
    waits: int = 0
    lines: int = 0
    counts: dict[str, Counter[str]] = field(default_factory=dict)
    ignored: Counter[str] = field(default_factory=Counter)
    bad: BadLines = field(default_factory=BadLines)
    end: int = 0
    known: int = 0

    def report(self) -> FileReport:
        """Return how many lines and rows of it went in."""
        return FileReport(
            str(self.job.path),
            lines=self.lines,
            counts=tuple(
                TableCount(name, count["read"], count["new"], count["superseded"], count["replaced"])
                for name, count in self.counts.items()
            ),
            bad_lines=self.bad.count,
            first_bad_lines=tuple(self.bad.first),
            ignored=tuple(sorted(self.ignored.items())),
            known_bytes=self.known,
        )


class Follower:
    """Puts the lines of logs into a lake, and knows up to where each log is in the lake.

    Parameters
    ----------
    lake : Lake
        Where they go.
    layout : Layout or None
        How they are written.
    market : Market or None
        Facts of the market that the logs do not state.
    skip_bad : bool
        Leave all broken lines out.
    most_bad : int
        How many broken lines of a log are left out if ``skip_bad`` is not set; one more is an error.

    Attributes
    ----------
    missing : list of str
        What could not be found or read.
    followed : dict of Log to Followed
        The logs that are followed.
    """

    def __init__(
        self, lake: Lake, layout: Layout | None, market: Market | None, *, skip_bad: bool, most_bad: int = 0
    ) -> None:
        self.lake = lake
        self._layout = layout
        self._market = market or Market()
        require_market(self._market)
        if layout is not None:
            require_object(layout)
            layout.require_used(self._market)
            require_followed(layout)
        self._most_bad = math.inf if skip_bad else most_bad
        self.missing: list[str] = []
        self._writer = Writer(lake, self._market)
        self.followed: dict[Log, Followed] = {}
        self._done: list[Followed] = []

    def report(self) -> IngestReport:
        """Return the logs with what went in."""
        return IngestReport(tuple(log.report() for log in (*self._done, *self.followed.values())), ())

    def knows(self, log: Log) -> bool:
        """Return whether what the lake has of logs that begin so, if it has any, is the text of this one."""
        _, _, first = self._named(log) or (None, None, "")
        name, ends = self._ends(log, first)
        return name == first or any(ends.values())

    def is_in(self, log: Log) -> bool:
        """Return whether the lake has all lines of a log."""
        named = self._named(log)
        return named is None or min(self._ends(log, named[2])[1].values()) >= log.size()

    def put(self, log: Log) -> bool:
        """Put the waiting lines of a log into the lake; return whether some went in."""
        followed = self.begin(log)
        if followed is None:
            return False
        later = [end for end in followed.ends.values() if end > log.offset]
        data = log.lines(min(later, default=None))
        if not data or len(data) == followed.waits:
            return False
        size = self._put(followed, log, Piece(data, log.line, log.offset))
        if not size:
            followed.waits = len(data)
            return False
        followed.waits = 0
        log.take(size)
        followed.end, followed.mark = log.offset, log.mark()
        if followed.end - followed.noted >= _NOTE:
            self._note(followed)
        return True

    def note_all(self) -> None:
        """Note up to where each log is in the lake, so that a restart does not read lines without rows again."""
        for followed in self.followed.values():
            self._note(followed)

    def end(self, log: Log) -> None:
        """Forget a log that was read to its end."""
        followed = self.followed.pop(log, None)
        if followed is not None:
            if log.lines():
                self.miss(f"{log.path}:{log.line + 1}: the last lines cannot be read without later ones")
            self._note(followed)
            self._done.append(followed)

    def _note(self, followed: Followed) -> None:
        if followed.end > followed.noted:
            self.lake.writer()._note(log_notes(followed.name, followed.end, followed.mark))
            followed.noted = followed.end

    def _named(self, log: Log) -> tuple[Job, Layout, str] | None:
        """Return the job, layout and name of a log; None while it has too few lines."""
        first = log.first_lines(1)
        if not first:
            return None
        layout = self._layout
        job = Job(log.path, self._market, layout)
        if layout is None or isinstance(layout, Auto):
            text = first.decode("utf-8", errors="replace").removeprefix("\ufeff")
            layout = (layout or Auto()).with_facts(recognised_by([log.path.name], text, log.path))
            require_followed(layout)
            if layout.names_exchange:
                job = job.of(exchange=None)
        if layout.header_lines:
            first = log.first_lines(layout.header_lines + 1)
            if not first:
                return None
        content = hashlib.sha256(first).hexdigest()
        return job, layout, source_of(content, job, layout, skip_bad=False)

    def _ends(self, log: Log, first: str, number: int = 1) -> tuple[str, dict[str, int]]:
        """Return the name that a log has in the lake, and its end in each table, at least that in the registry. [bytes]

        A log that begins as an earlier one and goes on in another way gets a number.
        """
        name = first if number == 1 else f"{first} {number}"
        read = {table: self.lake._log_end(table, name) for table in TABLES}
        if not log.was_read_to(*max(read.values())):
            return self._ends(log, first, number + 1)
        noted, _ = read[MARKETS.name]
        return name, {table: max(noted, end) for table, (end, _) in read.items()}

    def miss(self, what: str) -> None:
        """Name lines that could not be found or read; the report of the call has it."""
        _LOG.warning("%s", what)
        self.missing.append(what)

    def begin(self, log: Log) -> Followed | None:
        """Return a log with the place from which to go on; None while it has too few lines to recognise it."""
        if log in self.followed:
            return self.followed[log]
        named = self._named(log)
        if named is None:
            return None
        job, layout, first = named
        name, ends = self._ends(log, first)
        noted = ends.pop(MARKETS.name)
        for other in [other for other, followed in self.followed.items() if followed.name == name]:
            if not (log.is_ended or other.is_ended):
                raise IngestError(
                    f"{log.path}: begins with the same lines as another file that is followed, {other.path}",
                    path=str(log.path),
                )
            self.end(other)  # its text is the beginning of this log
            return self.begin(log)
        followed = Followed(job, layout, name, ends, noted)
        start = min(ends.values())
        if start != log.offset:
            log.seek(start)
            log.read()
        if start:
            self._remember(followed, log, start)
        followed.end = followed.known = start
        self.followed[log] = followed
        return followed

    def _remember(self, followed: Followed, log: Log, start: int) -> None:
        """Read the beginning of a log and the lines before ``start``, so that the layout knows what it knew there."""
        head = log.start(start)
        at, tail = log.tail(start, _CONTEXT)
        if at < len(head):
            tail, at = tail[len(head) - at :], len(head)
        for offset, data in ((0, head), (at, tail)):
            if data:
                piece = Piece(data, 0, offset, followed.memory)
                with Spool() as spool:
                    parsed = self.parsed(followed, piece, spool)
                    parsed.remember()
                    self._writer.remember(parsed, followed.newest)

    def parsed(self, followed: Followed, piece: Piece, spool: Spool) -> Parsed:
        """Read a piece of a log."""
        job = Job(followed.job.path, followed.job.market, followed.job.layout, piece)
        parsed = parsed_by(followed.layout, job, spool, lambda _: None)
        fill_funding_intervals(job, parsed)
        return parsed

    def _put(self, followed: Followed, log: Log, piece: Piece) -> int:
        """Put a piece in; return how many bytes of it went in: 0 if it needs later lines."""
        memory = copy.deepcopy(followed.memory)
        piece = Piece(piece.data, piece.line, piece.offset, memory)
        with Spool() as spool:
            parsed = self.parsed(followed, piece, spool)
            if parsed.waits:
                return 0
            bad = followed.bad.count + parsed.bad.count
            is_unread = bad == followed.lines + parsed.lines and _ALL_BAD < self._most_bad < math.inf
            most = _ALL_BAD if is_unread else self._most_bad
            if parsed.bad.count and bad > most:
                hint = f"over {most} broken lines; " if most else ""
                if is_by_words(parsed.bad):
                    hint += meaning_of_word(parsed.bad.first[0][1], followed.layout)
                else:
                    hint += "no line could be read" if is_unread else "``skip_bad=True`` leaves it out"
                return self._put_before_bad(followed, log, piece, parsed, hint)
            parsed.remember()
            job = Job(followed.job.path, followed.job.market, followed.job.layout, piece)
            mark = log.mark(len(piece.data))
            appended = self._writer.put_piece(
                job, parsed, log=followed.name, mark=mark, newest=followed.newest
            )
        followed.memory = memory
        followed.lines += parsed.lines
        followed.ignored.update(parsed.ignored)
        for line, reason in parsed.bad.first:
            _LOG.warning("%s:%s: %s; the line is left out", log.path, line, reason)
            followed.bad.add(line, reason)
        followed.bad.count += parsed.bad.count - len(parsed.bad.first)
        end = piece.offset + len(piece.data)
        for table in appended:
            followed.ends[table.table] = max(followed.ends[table.table], end)
            counts = followed.counts.setdefault(table.table, Counter())
            counts.update(
                read=table.rows_read,
                new=table.rows_new,
                superseded=table.superseded,
                replaced=table.replaced,
            )
        return len(piece.data)

    def _put_before_bad(self, followed: Followed, log: Log, piece: Piece, parsed: Parsed, hint: str) -> int:
        """Put the lines before the first broken line of a piece in, then raise the error of that line."""
        line, reason = parsed.bad.first[0]
        good = b"".join(part + b"\n" for part in piece.data.split(b"\n")[: line - 1 - piece.line])
        if good:
            self._put(followed, log, Piece(good, piece.line, piece.offset))
            followed.end, followed.mark = piece.offset + len(good), log.mark(len(good))
            self._note(followed)
        raise IngestError(
            f"{log.path}:{line}: {with_marks(reason)}; {hint}".removesuffix("; "),
            path=str(log.path),
            line=line,
            bad_lines=followed.bad.count + parsed.bad.count,
        )


def require_followed(layout: Layout) -> None:
    """Raise QueryError if files of a layout cannot be read while they grow."""
    if not layout.follows:
        raise QueryError(
            "layout",
            got=layout.name,
            expected=f"a layout whose rows are lines; {layout.files} are read as a whole: ingest them",
        )
