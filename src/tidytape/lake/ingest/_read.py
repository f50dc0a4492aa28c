"""Reading files at once, ahead of those that write them; what comes out is in the order that was given."""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace

from tidytape.errors import IngestError, QueryError
from tidytape.lake.batch import Room, Spool
from tidytape.lake.ingest._funding import stated
from tidytape.lake.ingest._job import Job, Parsed
from tidytape.lake.ingest._lines import digest
from tidytape.lake.ingest.layouts import LAYOUTS, NAMING
from tidytape.lake.ingest.recognise import recognised
from tidytape.lake.store import Lake
from tidytape.lake.tables import MARKETS

Progress = Callable[[int], object]


@dataclass(slots=True)
class Read:
    """What came of reading one file.

    Attributes
    ----------
    job : Job
        How it was to be read.
    spool : Spool
        Holds its rows, and must be closed.
    source : str
        What names the file and the way it is read.
    parsed : Parsed or None
        What it holds; None where it went in before, or cannot go in.
    error : IngestError or QueryError or None
        Why it cannot go in.
    """

    job: Job
    spool: Spool
    source: str = ""
    parsed: Parsed | None = None
    error: IngestError | QueryError | None = None


class _StoppedError(Exception):
    """Nobody waits for the rest of the files."""


class Reader:
    """Reads files, each by its layout.

    Threads are enough: polars works outside Python's lock. Four files of 5 million trades took 37 s one by one, 20 s
    in four threads and 16 s in four processes, which would need everything pickled and a guarded main module.

    Parameters
    ----------
    lake : Lake
        Knows which files went in before.
    skip_bad : bool
        Whether broken lines are left out.
    again : bool
        Read also what went in before.
    """

    def __init__(self, *, lake: Lake, skip_bad: bool, again: bool) -> None:
        self._lake = lake
        self._skip_bad = skip_bad
        self._again = again
        self._room = Room()
        self._stop = threading.Event()

    def read(self, jobs: Sequence[Job], *, workers: int, progress: Progress) -> Iterator[Read]:
        """Yield what came of each file, in order.

        Parameters
        ----------
        jobs : sequence of Job
            The files.
        workers : int
            How many are read at once; with one, none is read ahead.
        progress : callable
            Called with the number of bytes read, by one thread at a time.
        """
        if workers <= 1:
            for job in jobs:
                yield self._one(job, progress)
            return
        lock = threading.Lock()

        def told(count: int) -> None:
            if self._stop.is_set():
                raise _StoppedError
            with lock:
                progress(count)

        waiting: deque[Future[Read]] = deque()
        left = deque(jobs)
        with ThreadPoolExecutor(workers, thread_name_prefix="tidytape-ingest") as pool:
            try:
                while left or waiting:
                    # One more than there are workers, so that none rests while a file is written.
                    while left and len(waiting) <= workers:
                        waiting.append(pool.submit(self._one, left.popleft(), told))
                    yield waiting.popleft().result()
            finally:
                self._stop.set()
                for future in waiting:
                    if not future.cancel() and future.exception() is None:
                        future.result().spool.close()

    def _one(self, job: Job, progress: Progress) -> Read:
        read = Read(job, Spool(self._room))
        try:
            layout = job.layout or recognised(job.path)
            if job.layout is None and layout in NAMING:
                job = replace(job, exchange=None)  # the caller means the files that do not say
            read.source = _source(job, layout, skip_bad=self._skip_bad)
            # Markets are committed last, so their source stands for the whole file.
            if self._again or not self._lake.has_source(MARKETS.name, read.source):
                parsed = _checked(LAYOUTS[layout](job, read.spool, progress), job, skip_bad=self._skip_bad)
                stated(job, parsed)
                read.parsed = parsed
        except (IngestError, QueryError) as error:
            read.error = error
        except BaseException:
            read.spool.close()
            raise
        return read


def _source(job: Job, layout: str, *, skip_bad: bool) -> str:
    """What names a file and the way it is read: the same file read otherwise has other rows."""
    way = {
        "layout": layout,
        "exchange": job.exchange,
        "raw_symbol": job.raw_symbol,
        "columns": dict(sorted(job.columns.items())) if job.columns else None,
        "delimiter": job.delimiter,
        "time_unit": job.time_unit,
        "table": job.table,
        "coin": job.coin,
        "interval": job.interval,
        "funding_interval": job.funding_interval,
        "skip_bad": skip_bad,
    }
    said = {name: value for name, value in way.items() if value}
    return f"sha256:{digest(job.path)} {json.dumps(said, sort_keys=True)}"


def _checked(parsed: Parsed, job: Job, *, skip_bad: bool) -> Parsed:
    bad = parsed.bad
    if bad.count and not (skip_bad and parsed.batches):
        line, reason = bad.first[0]
        more = f"; {bad.count} bad lines in all" if bad.count > 1 else ""
        hint = " and no good one" if skip_bad else "; skip_bad (--skip-bad) leaves them out"
        raise IngestError(
            f"{job.path}:{line}: {reason}{more}{hint}", path=str(job.path), line=line, bad_lines=bad.count
        )
    return parsed
