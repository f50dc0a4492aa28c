"""The ingest itself: threads read several files at once, and the files go into the lake one after the other."""

from __future__ import annotations

import json
import os
import re
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import polars as pl
from tqdm.auto import tqdm

from tidytape.errors import IngestError, QueryError, TidytapeError
from tidytape.lake._batch import IN_MEMORY, Spool
from tidytape.lake._lake import Lake
from tidytape.lake._tables import MARKETS, TABLES
from tidytape.lake.hygiene._merging import tidy_a_little
from tidytape.lake.ingest._described import Auto, Described
from tidytape.lake.ingest._layout import Job, Layout, Parsed, Progress
from tidytape.lake.ingest._layouts import LAYOUTS, recognised
from tidytape.lake.ingest._lines import NO_SUCH_WORD, BadLines, digest
from tidytape.lake.ingest._market import Market, require_market
from tidytape.lake.ingest._report import FileReport, IngestReport, Note
from tidytape.lake.ingest._write import Writer, fill_funding_intervals

_MOST_WORKERS = 4

UNUSED = "whose exchange its layout knows: {} is not used"
"""The note about an exchange that the caller named for a recognised file."""


def ingest(
    files: str | Path | Iterable[str | Path],
    lake: Lake,
    layout: Layout | None = None,
    *,
    market: Market | None = None,
    skip_bad: bool = False,
    replace: bool = False,
    workers: int | None = None,
    tidy: bool = True,
    progress: bool | None = None,
) -> IngestReport:
    r"""Put recorded files into a lake.

    Each file goes in completely or not at all, in the order of the arguments. A file that cannot be read, has broken
    lines or contradicts the lake is left out; the others go in, and at the end an error names the files that were left
    out. A file that the lake has already, read in the same way, is not read again, and rows that came from another file
    are not added again. If an ingest is interrupted, run it again; the lake is then that of an undisturbed run.

    A market's last candle in the lake may have been open when it was recorded: if a file goes on past it, the candle of
    the file replaces it. A value of a file fills a null of a state that is the same otherwise. Trades and aggregated
    trades are the same trades under other ids, so a market takes the kind that came first, and the other is refused.

    Parameters
    ----------
    files : path or iterable of paths
        Plain, packed (gz, bz2, xz, zst) or in an archive (zip, tar). A recording may be in several files, which may
        overlap: each row is added once.
    lake : Lake
        The lake that gets the files.
    layout : Layout, optional
        How the files are written, e.g. ``Tardis()`` or ``Csv(columns={"price": "px"})``. By default each file is
        recognised by its name and first lines; ``Auto(interval="1m")`` states facts that recognised files do not show.
    market : Market, optional
        What the files do not say about their market. Recognised files that name their exchange ignore that of the
        market.
    skip_bad : bool
        Skip broken lines and count them, instead of leaving the file out.
    replace : bool
        Let the states of the files, such as candles and funding rates, replace those of the lake that differ, instead
        of leaving the file out. The report has their number. Files that the lake has already are read again.
    workers : int, optional
        Number of files that are read at once, in threads; the lake does not depend on it. By default 4, or the number
        of processors if that is smaller. Each thread takes some 200 MB.
    tidy : bool
        After every eighth commit of a table, merge the small files of its markets. The work is bounded, and files that
        were replaced stay, see `tidytape.lake.hygiene.keep`.
    progress : bool, optional
        Whether to show a progress bar on the standard error; by default only on a terminal.

    Returns
    -------
    IngestReport

    Raises
    ------
    QueryError
        If an argument is wrong, or if the caller has to say what amounts count, and this holds for every file. If it
        holds for some files only, these are left out.
    IngestError
        If a file cannot be read, has broken lines and ``skip_bad`` is not set, or contradicts the lake. For several
        files, ``failures`` has the reason of each, and ``report`` is the report of the others.
    LakeError
        If the lake cannot be written. Earlier files are in the lake.

    Examples
    --------
    >>> import tempfile
    >>> from tidytape.lake.ingest import Csv
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "trades.csv").write_text("time,px,qty,side\n1693929601,100.5,2,buy\n")
    >>> report = ingest(
    ...     folder / "trades.csv", Lake.create(folder / "lake"),
    ...     Csv(columns={"timestamp": "time", "price": "px", "amount": "qty"}),
    ...     market=Market(exchange="COINBASE", raw_symbol="BTC-USD"),
    ... )
    >>> report.trades_new, report.files[0].time_unit, report.markets[0].normalized_symbol
    (1, 's', 'BTC-USD')
    """
    market = market or Market()
    require_market(market)
    if layout is not None:
        require_object(layout)
        layout.require_used(market)
    if workers is None:
        workers = min(_MOST_WORKERS, os.cpu_count() or 1)
    elif workers < 1:
        raise QueryError("workers", got=workers, expected="a number from 1")
    paths = [Path(files)] if isinstance(files, str | Path) else [Path(file) for file in files]
    jobs = [Job(path, market, layout) for path in paths]
    # If the caller changes facts of the market, even known files are read, to know which market that is.
    again = replace or bool(market.replaced or market.stated_unit or market.factor)
    reader = FileReader(lake=lake, skip_bad=skip_bad, again=again)
    writer = Writer(lake, market, replace=replace)
    failures = _put_all(jobs, reader, writer, workers=min(workers, len(jobs)), tidy=tidy, progress=progress)
    report = writer.report()
    if not failures:
        return report
    if not report.files and all(isinstance(error, QueryError) for _, error in failures):
        # An argument is wrong for every file.
        raise failures[0][1]
    raise _failed(failures, report)


def ingest_one(
    path: Path, lake: Lake, market: Market, *, name: str, check: Callable[[Parsed], None]
) -> FileReport:
    """Put one file that is recognised into a lake, as `ingest` does, without a report about markets.

    Parameters
    ----------
    path : Path
        The file.
    lake : Lake
        The lake.
    market : Market
        What the file does not say about its market.
    name : str
        Another name of the file, which the lake notes, see `LakeReader.has_source`; nothing is noted of a file of which
        every row was left out.
    check : callable
        Called with what was read, before anything is written; it may raise an IngestError.

    Raises
    ------
    QueryError, IngestError, LakeError
        As `ingest` does.
    """
    reader = FileReader(lake=lake, skip_bad=False, again=False)
    (read,) = reader.read([Job(path, market, None)], workers=1, progress=lambda _: None)
    with read.spool:
        if read.error is not None:
            raise read.error
        if read.parsed is not None:
            check(read.parsed)
            if read.parsed.ignored and not read.parsed.batches:
                ignored = tuple(sorted(read.parsed.ignored.items()))
                return FileReport(str(path), lines=read.parsed.lines, ignored=ignored)
        return Writer(lake, market).put(read.job, read.parsed, read.source, names=[name])


def _put_all(
    jobs: Sequence[Job],
    reader: FileReader,
    writer: Writer,
    *,
    workers: int,
    tidy: bool,
    progress: bool | None,
) -> list[tuple[str, TidytapeError]]:
    """Put the files into the lake, and return the error of each that failed; if there is only one file, raise it."""
    failures: list[tuple[str, TidytapeError]] = []
    with tqdm(
        total=sum(_size(job.path) for job in jobs),
        unit="B",
        unit_scale=True,
        disable=None if progress is None else not progress,
    ) as bar:
        for read in reader.read(jobs, workers=workers, progress=bar.update):
            bar.set_description(read.job.path.name)
            with read.spool:
                try:
                    if read.error is not None:
                        raise read.error
                    put = writer.put(read.job, read.parsed, read.source)
                    if tidy:
                        tidy_a_little(reader.lake.writer(), [TABLES[count.table] for count in put.counts])
                except (IngestError, QueryError) as error:
                    if len(jobs) == 1:
                        raise
                    failures.append((str(read.job.path), error))
    return failures


def _size(path: Path) -> int:
    try:
        return path.stat().st_size if path.is_file() else 0
    except (OSError, ValueError):  # reading the file will raise the reason
        return 0


def _failed(failures: list[tuple[str, TidytapeError]], report: IngestReport) -> IngestError:
    count = len(failures) + len(report.files)
    others = ", the others did" if report.files else ""
    reasons = (
        error.marked if error.message.startswith(path) else f"{path}: {error.marked}"
        for path, error in failures
    )
    lines = "".join(f"\n  {reason}" for reason in reasons)
    return IngestError(
        f"{len(failures)} of {count} files did not go into the lake{others}:{lines}",
        failures=tuple(failures),
        report=report,
    )


@dataclass(slots=True)
class Read:
    """The result of reading one file.

    Attributes
    ----------
    job : Job
        The file, and how it is read.
    spool : Spool
        Holds its rows. The caller must close it.
    source : str
        Names the file and the way it is read.
    parsed : Parsed or None
        What the file holds; None if the lake has it already, or if it failed.
    error : IngestError or QueryError or None
        Why it cannot go into the lake.
    """

    job: Job
    spool: Spool
    source: str = ""
    parsed: Parsed | None = None
    error: IngestError | QueryError | None = None


class _ReadingStoppedError(Exception):
    """Raised in a reading thread when the caller takes no more files."""


class FileReader:
    """Reads files, each by its layout, and yields them in the order of the jobs.

    Threads are enough, because polars works outside Python's lock. Four files of 5 million trades took 37 s one by one,
    20 s in four threads and 16 s in four processes. Processes would need pickled arguments and a guarded main module.

    Parameters
    ----------
    lake : Lake
        Knows the files that it has already.
    skip_bad : bool
        Whether broken lines are skipped.
    again : bool
        Whether files that the lake has already are read too.
    """

    def __init__(self, *, lake: Lake, skip_bad: bool, again: bool) -> None:
        self.lake = lake
        self._skip_bad = skip_bad
        self._again = again
        self._memory: float = IN_MEMORY
        self._stop = threading.Event()

    def read(self, jobs: Sequence[Job], *, workers: int, progress: Progress) -> Iterator[Read]:
        """Yield the result of each file, in order.

        Parameters
        ----------
        jobs : sequence of Job
            The files.
        workers : int
            Number of files that are read at once; with 1, no file is read ahead.
        progress : callable
            Called with the number of bytes read, by one thread at a time.
        """
        if workers <= 1:
            for job in jobs:
                yield self._read_file(job, progress)
            return
        # The files in memory: those that are being read, one that waits, and one that is being written.
        self._memory = IN_MEMORY / (workers + 2)
        lock = threading.Lock()

        def report(count: int) -> None:
            if self._stop.is_set():
                raise _ReadingStoppedError
            with lock:
                progress(count)

        waiting: deque[Future[Read]] = deque()
        remaining = deque(jobs)
        with ThreadPoolExecutor(workers, thread_name_prefix="tidytape-ingest") as pool:
            try:
                while remaining or waiting:
                    # One more than there are workers, so that no worker is idle while a file is written.
                    while remaining and len(waiting) <= workers:
                        waiting.append(pool.submit(self._read_file, remaining.popleft(), report))
                    yield waiting.popleft().result()
            finally:
                self._stop.set()
                for future in waiting:
                    if not future.cancel() and future.exception() is None:
                        future.result().spool.close()

    def _read_file(self, job: Job, progress: Progress) -> Read:
        read = Read(job, Spool(self._memory))
        try:
            layout = job.layout or Auto()
            unused_exchange = None
            is_recognised = isinstance(layout, Auto)
            if isinstance(layout, Auto):
                layout = layout.with_facts(recognised(job.path))
            if is_recognised and layout.names_exchange:
                # The caller's exchange is for files that do not name theirs.
                unused_exchange, job = job.exchange, job.of(exchange=None)
            read.source = source_of(digest(job.path), job, layout, skip_bad=self._skip_bad)
            # Markets are committed last, so a file whose source is noted there is in the lake completely.
            if self._again or not self.lake.has_source(MARKETS.name, read.source):
                read.parsed = parsed_by(layout, job, read.spool, progress)
                require_good(read.parsed, job, skip_bad=self._skip_bad)
                fill_funding_intervals(job, read.parsed)
                if unused_exchange is not None:
                    read.parsed.notes.append(Note("file", UNUSED.format(unused_exchange), 1))
        except (IngestError, QueryError) as error:
            read.error = error
        except BaseException:
            read.spool.close()
            raise
        return read


def require_object(layout: object) -> None:
    """Raise QueryError unless it is an object of a layout that has a name."""
    if isinstance(layout, type) and issubclass(layout, Layout):
        called = layout.__name__
        raise QueryError("layout", got=layout, expected=f"an object: {called}(), with its options")
    if not isinstance(layout, Layout):
        raise QueryError("layout", got=layout, expected="an object of a layout, e.g. Csv()")
    if not isinstance(getattr(layout, "name", None), str):
        kind = type(layout).__name__
        raise QueryError(
            "layout", got=layout, expected=f'a layout with a name: name = "…" in the class {kind}'
        )


# Errors that Python raises if code meets data that its author did not expect.
_MISTAKES = (
    ArithmeticError,
    AttributeError,
    LookupError,
    OSError,
    TypeError,
    ValueError,
    pl.exceptions.PolarsError,
)


def parsed_by(layout: Layout, job: Job, spool: Spool, progress: Progress) -> Parsed:
    """Read a file; if a caller's own layout raises an error that is not of tidytape, raise an IngestError instead."""
    if type(layout) in {Described, *LAYOUTS.values()}:
        return layout.read(job, spool, progress)
    try:
        parsed: object = layout.read(job, spool, progress)
    except TidytapeError:
        raise
    except _MISTAKES as error:
        raise IngestError(
            f"{job.path}: the layout {layout.name} failed with {type(error).__name__}: {error}",
            path=str(job.path),
        ) from error
    if not isinstance(parsed, Parsed):
        raise IngestError(
            f"{job.path}: the layout {layout.name} returned {type(parsed).__name__} from read, expected Parsed",
            path=str(job.path),
        )
    return parsed


def source_of(content: str, job: Job, layout: Layout, *, skip_bad: bool) -> str:
    """Return a name for a content, by its SHA-256, and the way it is read, because the rows depend on both."""
    way = {
        "layout": layout.name,
        "exchange": job.exchange,
        "raw_symbol": job.raw_symbol,
        "funding_interval": job.market.funding_nanoseconds,
        "session": job.market.session,
        "skip_bad": skip_bad,
        "named": layout.told_by_name(job),
        **layout.identity(job.market),
    }
    named = {name: value for name, value in way.items() if value}
    return f"sha256:{content} {json.dumps(named, sort_keys=True)}"


_WRONG_WORD = re.compile(rf"the (.+) '(.*)'{NO_SUCH_WORD}.*", re.DOTALL)
_BOTH_SPELLINGS = re.compile(r"(\w+) \(--[a-z-]+\)")


def require_good(parsed: Parsed, job: Job, *, skip_bad: bool) -> None:
    """Raise IngestError if a file has broken lines and they are not skipped, or if it has no good lines."""
    bad = parsed.bad
    if not bad.count or (skip_bad and parsed.batches):
        return
    line, reason = _example(bad)
    more = f"; {bad.count} bad lines in all" if bad.count > 1 else ""
    no_good = " and no good one" if skip_bad else ""
    advice = "" if skip_bad else "``skip_bad=True`` leaves them out"
    if is_by_words(bad):
        advice = meaning_of_word(reason, job.layout)
    message = f"{job.path}:{line}: {with_marks(reason)}{more}{no_good}"
    raise IngestError(
        f"{message}; {advice}" if advice else message, path=str(job.path), line=line, bad_lines=bad.count
    )


def with_marks(reason: str) -> str:
    """Return a reason with marks around parameters, which a report names twice, as time_unit (--time-unit)."""
    return _BOTH_SPELLINGS.sub(r"``\1``", reason)


def is_by_words(bad: BadLines) -> bool:
    """Return whether most lines are broken by a word, so that without them the rest of the file would be one-sided."""
    return bad.count > 0 and 2 * bad.wrong_words >= bad.count


def _example(bad: BadLines) -> tuple[int, str]:
    """Return the line and the reason that stand for all broken lines."""
    by_words = [example for example in bad.first if NO_SUCH_WORD in example[1]]
    return by_words[0] if by_words and is_by_words(bad) else bad.first[0]


def meaning_of_word(reason: str, layout: Layout | None) -> str:
    """Return how a caller says what the word in a reason means; empty if files of the layout have no map."""
    match = _WRONG_WORD.fullmatch(reason)
    columns = getattr(layout, "columns", None)
    if match is None or not hasattr(layout, "columns"):
        return ""
    name, word = match.groups()
    column_map = columns or {}
    column = next((column for column in column_map if column_map[column] == name), name)
    return f"``words={ {column: {word: 'MEANING'}} }`` says which of them it means"
