"""Replay recorded logs: their lines go into a lake at a multiple of the speed at which they were recorded.

The timestamps stay as they were recorded. Lines go in as those of a followed log do, so a replay that was killed goes
on where it ended.
"""

from __future__ import annotations

import copy
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path

from tidytape.errors import IngestError, QueryError
from tidytape.lake._batch import Spool
from tidytape.lake._lake import Lake
from tidytape.lake.ingest._layout import Layout
from tidytape.lake.ingest._lines import Piece
from tidytape.lake.ingest._market import Market
from tidytape.lake.ingest._report import IngestReport
from tidytape.lake.record._follow import Followed, Follower, tidied
from tidytape.lake.record._tail import Log, opened
from tidytape.times import SECOND

_MOST_SPEED = 1e9
"""31 years per second; more could not be computed with."""

_MOST = 1024
"""How many lines are read together to find their times."""


def replay(
    files: str | Path | Iterable[str | Path],
    lake: Lake,
    layout: Layout | None = None,
    *,
    market: Market | None = None,
    speed: float = 60.0,
    every: float = 1.0,
    skip_bad: bool = False,
    tidy: float | None = 60.0,
    keep: float = 900.0,
    stop: threading.Event | None = None,
    progress: Callable[[IngestReport], object] | None = None,
) -> IngestReport:
    r"""Put recorded logs into a lake as if their events happened now, at a multiple of real time.

    Lines of several files go in by the times of their events, so that the files keep step. A line without an event goes
    in with the line before it.

    Parameters
    ----------
    files : path or iterable of paths
        Files whose rows are lines, plain, gzip or zip.
    lake : Lake
        Where the rows go.
    layout : Layout, optional
        How the files are written; if left out, it is recognised by the name and the first lines of each file.
    market : Market, optional
        Facts of the market that the files do not state.
    speed : float
        Seconds of events per second, > 0, at most 1e9. ``math.inf``: without
        waiting, in commits of ``every`` seconds of events.
    every : float
        Time between two commits of one file, > 0, at most 1e9. [s]
    skip_bad : bool
        Leave broken lines out and count them, instead of failing.
    tidy, keep : float
        See `tidytape.lake.record.follow`. [s]
    stop : threading.Event, optional
        Set it to end the replay.
    progress : callable, optional
        Called after commits with the report so far.

    Returns
    -------
    IngestReport
        The files that went in since this call; no markets.

    Raises
    ------
    QueryError
        If an argument cannot be right, or the rows of a layout are no lines.
    IngestError
        If a file cannot be read or has no lines, a line is broken and ``skip_bad`` is not set, or contradicts the lake.
    LakeError
        If the lake cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> from tidytape.lake.ingest import Csv
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "trades.csv").write_text(
    ...     "timestamp,price,amount,side\n1693929601,100.5,2,buy\n1693929661,100.5,1,buy\n"
    ... )
    >>> market = Market(exchange="COINBASE", raw_symbol="BTC-USD")
    >>> lake = Lake.create(folder / "lake")
    >>> replay(folder / "trades.csv", lake, Csv(), market=market, speed=math.inf).trades_new
    2
    """
    if not (0 < speed <= _MOST_SPEED or speed == math.inf):
        raise QueryError("speed", got=speed, expected=f"a number above 0, up to {_MOST_SPEED:g}, or inf")
    if not 0 < every <= _MOST_SPEED:
        raise QueryError("every", got=every, expected=f"a number of seconds above 0, up to {_MOST_SPEED:g}")
    follower = Follower(lake, layout, market, skip_bad=skip_bad)
    paths = [Path(files)] if isinstance(files, str | Path) else [Path(file) for file in files]
    stop = stop or threading.Event()
    with tidied(lake, tidy, keep):
        _run(paths, follower, speed=speed, every=every, stop=stop, progress=progress)
    return follower.report()


def _run(
    paths: list[Path],
    follower: Follower,
    *,
    speed: float,
    every: float,
    stop: threading.Event,
    progress: Callable[[IngestReport], object] | None,
) -> None:
    grain = round(every * SECOND * (speed if math.isfinite(speed) else 1))
    logs: list[_Replayed] = []
    try:
        for path in paths:
            logs.append(_Replayed(path, follower, grain))  # noqa: PERF401  # if one fails, the open ones are closed
        for log in logs:
            log.put_played()
        first = now = min((start for log in logs if (start := log.next_time) is not None), default=0)
        began, rounds = time.monotonic(), 0
        while any(log.next_time is not None for log in logs) and not stop.is_set():
            went_in = [log.put_until(now) for log in logs]
            if progress is not None and any(went_in):
                progress(follower.report())
            if math.isfinite(speed):
                rounds = max(rounds + 1, int((time.monotonic() - began) / every))
                stop.wait(max(began + rounds * every - time.monotonic(), 0))
                now = first + round((time.monotonic() - began) * speed * SECOND)
            else:
                waiting = [start for log in logs if (start := log.next_time) is not None]
                now = max(now + grain, min(waiting, default=0))
        follower.note_all()
    finally:
        for log in logs:
            log.close()


class _Replayed:
    """The lines of one file and the times at which they go in."""

    def __init__(self, path: Path, follower: Follower, grain: int) -> None:
        self._log = _opened(path)
        followed = follower.begin(self._log)
        if followed is None:
            self._log.end_line()
            followed = follower.begin(self._log)
        if followed is None:
            self.close()
            raise IngestError(f"{path}: the file has no lines of events", path=str(path))
        self._followed: Followed = followed
        self._played = max(followed.ends.values(), default=0)
        self._follower = follower
        self._grain = grain
        self._memory = copy.deepcopy(followed.memory)
        self._timed = self._log.limit = self._log.offset
        self._line = self._log.line
        self._count = _MOST
        self._waiting: deque[tuple[int, int]] = deque()
        self._latest: int | None = None

    def close(self) -> None:
        """Close the file."""
        self._log.close()

    @property
    def next_time(self) -> int | None:
        """When the next lines go in; None after the last lines. [ns]"""
        while not self._waiting:
            if not self._look():
                return None
        return self._waiting[0][1]

    def put_played(self) -> None:
        """Put the lines in, without waiting, that an earlier replay has put into one of the tables."""
        while self.next_time is not None and self._waiting[0][0] <= self._played:
            self.put_until(self._waiting[0][1])

    def put_until(self, now: int) -> bool:
        """Put the lines in whose time is at most ``now``; return whether some went in."""
        went_in = False
        while (due := self.next_time) is not None and due <= now:
            self._log.limit = self._waiting.popleft()[0]
            if self._log.is_full and not self._waiting:
                went_in = self._put() or went_in
        return self._put() or went_in

    def _put(self) -> bool:
        went_in = False
        while self._log.lines() and self._follower.put(self._log):
            went_in = True
        return went_in

    def _look(self) -> bool:
        """Find the time of the next lines; return whether there are any."""
        data = self._log.lines_from(self._timed)
        if not data and not self._log.is_done:
            self._put()
            self._log.read()
            data = self._log.lines_from(self._timed)
        if not data and self._log.is_done:
            self._log.end_line()
            data = self._log.lines_from(self._timed)
        if not data:
            return False
        lines = data.split(b"\n")[:-1]
        while True:
            piece = b"".join(line + b"\n" for line in lines[: self._count])
            memory = copy.deepcopy(self._memory)
            first, last = self._bounds(Piece(piece, self._line, self._timed, memory))
            if first is None or last is None or last - first <= self._grain or self._count == 1:
                break
            self._count = max(min(self._count, len(lines)) // 2, 1)
        self._memory = memory
        self._timed += len(piece)
        self._line += piece.count(b"\n")
        self._count = min(self._count * 2, _MOST)
        times = [moment for moment in (last, self._latest) if moment is not None]
        self._latest = max(times, default=-(2**63))
        self._waiting.append((self._timed, self._latest))
        return True

    def _bounds(self, piece: Piece) -> tuple[int | None, int | None]:
        """Return the first and the last time of the events of some lines."""
        with Spool() as spool:
            parsed = self._follower.parsed(self._followed, piece, spool)
            parsed.remember()
            parts = [part for batch in parsed.batches for part in batch]
        return min((part.first for part in parts), default=None), max(
            (part.last for part in parts), default=None
        )


def _opened(path: Path) -> Log:
    """Open a complete log, and read its beginning; IngestError if it cannot be read."""
    try:
        log = opened(path)
    except OSError as error:
        raise IngestError(f"{path}: {error.strerror or error}", path=str(path)) from error
    log.is_ended = True
    log.read()
    if log.broken:
        log.close()
        raise IngestError(f"{path}: {log.broken}", path=str(path))
    return log
