"""The fetch of a window: read the cache, request the rest, check that the answers are complete, join them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import chain, pairwise
from types import MappingProxyType
from typing import TypeVar

import filelock
import polars as pl

from tidytape.budget import weight
from tidytape.catalogue import Interval, NoteCode
from tidytape.client._answers import (
    Part,
    decoded,
    is_clashing,
    is_dense,
    joined,
    most_weight,
    narrower_span,
    new_points,
    notes_of,
    series_of,
    spans_to_check,
    within,
    without_sessions,
)
from tidytape.client._cache import Series
from tidytape.client._display import Bar, progress, spans
from tidytape.client._metadata import Metadata
from tidytape.client._request import Tally, ask, informed, is_too_long, refuse_to_wait
from tidytape.client._settings import Settings, is_loopback
from tidytape.client._steps import Call, Flow, Together, Wait, printable
from tidytape.client._window import SETTLING, Window, ahead, covering
from tidytape.errors import (
    AuthenticationError,
    BudgetError,
    IncompleteDataError,
    QueryError,
    ServiceError,
    TidytapeError,
    TierError,
    counted,
    warn,
)
from tidytape.query import PointsQuery, hinted_window
from tidytape.times import Span, union, without
from tidytape.wire._arrow import ARROW_MIME, ONCE_MIME
from tidytape.wire._decode import JSON_MIME
from tidytape.wire._notes import Note
from tidytape.wire._pages import PAGE_ENDS, PAGES, asks_for_pages, read_page_ends

R = TypeVar("R")

_ACCEPT = f"{ONCE_MIME}, {ARROW_MIME};q=0.9, {JSON_MIME};q=0.8"
_IN_PAGES: Mapping[str, str] = MappingProxyType({"Prefer": PAGES})
_NO_PAGES: Mapping[str, str] = MappingProxyType({})
_POLL = 0.1
"""Pause between two looks whether the other process has finished its fetch. [s]"""


def fetched(settings: Settings, window: Window) -> Flow[tuple[pl.DataFrame, Metadata]]:
    """Fetch a window: what the cache has from the cache, the rest from the service, in several requests at once.

    Returns
    -------
    polars.DataFrame
        In the schema of the data type; rows by series, then time in the direction asked for, then price.
    Metadata
        The query, and the requests and the weight that it took.

    Raises
    ------
    DecodeError
        If an answer breaks the contract.
    IncompleteDataError
        If a point came twice with different values, the service cut an answer, or the client is offline and the cache
        lacks a part of the window. If it lacks only single intervals, which were not final when they were fetched, the
        client warns, and the metadata has them as missing.
    BudgetError
        If the fetch would have to wait for the budget longer than ``max_wait``.
    ServiceError
        If a part was not answered, unless ``partial="flag"``.
    """
    fetch = _Fetch(settings, window)
    with ExitStack() as locks:
        missing_spans = yield from fetch.read_cache(locks)
        if missing_spans:
            requests = covering(window, missing_spans, burst=settings.quota.burst)
            if len(requests) > 1 and not settings.quota.is_known:
                yield from informed(settings)
                requests = covering(window, missing_spans, burst=settings.quota.burst)
            with progress(window.data_type, len(requests), shows=settings.progress) as bar:
                fetch.announce(missing_spans, requests, bar)
                while requests:  # an answer may name more
                    further = yield Together([fetch.request(query, bar) for query in requests])
                    requests = [*chain.from_iterable(further)]
                    bar.expect(len(requests))
                yield from fetch.check(bar)
            yield from fetch.tidy_cache()
    frame = joined([part for part in fetch.frames if part.width], window.query)
    frame, sessions = without_sessions(within(frame, window.start, window.end))
    if window.query.gapfill and not fetch.missing:
        _check_filled(frame, window)
    return frame, fetch.metadata(frame, sessions)


class _Fetch:
    """The state of the fetch of one window. The methods stand in the order in which `fetched` calls them."""

    def __init__(self, settings: Settings, window: Window) -> None:
        self._settings = settings
        self._window = window
        self._cache: Series | None = None
        if settings.cache is not None:
            self._cache = settings.cache.series(settings.base_url, window, absent=settings.absent)
        self._has_lock = False
        self.frames: list[pl.DataFrame] = []
        self._cached: list[Span] = []
        self.missing: list[Span] = []
        """Spans without an answer; with ``partial="raise"`` an error is raised instead."""
        self._failures: list[TidytapeError] = []
        self._tally = Tally()
        self._notes: list[Note] = []
        """Why markets have no points: notes of the answers, and notes of the cached files."""
        self._unchecked: list[Part] = []
        """Answers that the service may have cut."""
        self._complete: list[Part] = []
        """Answers that the service did not cut. It did not cut any smaller answer either."""

    # --- the cache ---

    def read_cache(self, locks: ExitStack) -> Flow[list[Span]]:
        """Read the cached points, and return the spans that the cache lacks.

        If another process is fetching the same series, first wait for the points that it caches.
        """
        if self._cache is None:
            return [self._window.unaligned]
        missing_spans: list[Span] = yield Call(self._read)
        if missing_spans and self._settings.offline:
            error = IncompleteDataError(
                f"{self._window.data_type}: the client is offline, and the cache lacks {spans(missing_spans)}"
                + ("" if self.frames else f"; {_how_to_fill_cache(self._settings)}"),
                missing=tuple(missing_spans),
            )
            # The cache never has the last interval of a recording that ended, unless the lake says that it is over.
            if not self.frames or any(end - start > self._window.step for start, end in missing_spans):
                raise error
            self.missing += missing_spans
            self._failures.append(error)
            warn(RuntimeWarning(f"{error}, which was not final; the frame has the rest"))
            return []
        if missing_spans:
            missing_spans = yield from self._lock_cache(self._cache, locks)
        return missing_spans

    def _read(self) -> list[Span]:
        """Read the cached points of the window; return the spans that the cache lacks."""
        assert self._cache is not None
        self.frames, self._notes, missing_spans = self._cache.read(self._window.span)
        self._cached = without(self._window.span, missing_spans)
        return missing_spans

    def _lock_cache(self, cache: Series, locks: ExitStack) -> Flow[list[Span]]:
        """Lock the series, and return the spans that the cache lacks.

        While another process has the lock, wait for the points that it caches.
        """
        missing_spans: list[Span] = []
        lock = yield Call(lambda: _try_to_write(cache.lock))
        if lock is None:  # the folder cannot be written to, so nothing can be cached
            missing_spans = yield Call(self._read)
            self._cache = None
            return missing_spans
        locks.callback(lock.release)
        missing_before: list[Span] = []
        began = time.monotonic()
        while not (has_lock := (yield Call(lambda: _has_lock(lock)))):
            missing_spans = yield Call(lambda: cache.missing(self._window.span))
            # The other process joins files when it has fetched all. A file that vanishes during our reading then leaves
            # a span without points, although the cache has them: look again.
            if not (missing_spans or (yield Call(self._read))):
                return []
            if missing_spans != missing_before:  # the other process has cached more
                missing_before, began = missing_spans, time.monotonic()
            if time.monotonic() - began > self._settings.deadline:
                break  # the other process is stuck; fetching its points once more only costs weight
            yield Wait(_POLL)
        self._has_lock = has_lock
        missing_spans = yield Call(self._read)
        return missing_spans

    # --- requests ---

    def announce(self, missing_spans: Sequence[Span], requests: Sequence[PointsQuery], bar: Bar) -> None:
        """Report how long the budget will make the fetch wait, or refuse to wait, before anything is sent."""
        settings = self._settings
        bar.looks_ahead(ahead(self._window, missing_spans, now=time.time(), burst=settings.quota.burst))
        cost = sum(map(weight, requests))
        wait = settings.quota.seconds_for(cost)
        if settings.partial == "raise":  # with "flag" the fetch gets what it can
            refuse_to_wait(settings, wait, cost, settings.quota.available)
        if not is_too_long(settings, wait):
            bar.waits(wait)

    def request(self, query: PointsQuery, bar: Bar) -> Flow[list[PointsQuery]]:
        """Fetch the points of one request; return the requests for what its answer does not have.

        A window with more trades than the service gives at once has several pages. The answer is the first, and names
        the ends of the others. A service that does not know pages refuses such a window.
        """
        further: list[PointsQuery] = []
        try:
            if self._settings.quota.is_asked:  # other requests are on their way, and the budget is not known
                yield from informed(self._settings)
            try:
                part, further = yield from self._ask(query, bar)
            except QueryError as error:
                further = _shorter(query, error)
            else:
                if spans_to_check(part):
                    self._unchecked.append(part)
                else:
                    self._complete += [part] if is_dense(part.query) else []
                    yield from self._accept(part)
        except (ServiceError, BudgetError) as error:
            self._flag(error, [(query.start, query.end)])
        bar.advance()
        return further

    def _ask(self, query: PointsQuery, bar: Bar) -> Flow[tuple[Part, list[PointsQuery]]]:
        """Send one request, and decode its answer; also return the requests for the other pages of the window."""
        settings = self._settings
        now = time.time()  # before the request: an interval that is over now is over in the answer too
        answer = yield from ask(
            settings,
            "/v1/points",
            query.to_params(),
            accept=_ACCEPT,
            cost=weight(query),
            waits=bar.waits,
            tally=self._tally,
            headers=_NO_PAGES if query.grid else _IN_PAGES,
        )
        ends = read_page_ends(
            answer.headers.get(PAGE_ENDS),
            start=query.start,
            end=query.end,
            are_applied=asks_for_pages([answer.headers.get("preference-applied", "")]),
        )
        page, *further = (self._window.request(*span) for span in pairwise((query.start, *ends)))
        self._tally.weight += weight(page) - weight(query)  # the service charges the page alone
        # The earlier of both clocks, less a minute: a service may still change an interval that has just ended.
        settled_until = min(now, answer.sent_at) - SETTLING
        frame = decoded(answer, page, absent=settings.absent)
        notes = notes_of(answer)
        settings.quota.has_notes |= notes is not None
        self._notes += notes or ()
        return Part(page, frame, notes, self._window.closed(settled_until), settled_until), further

    def _accept(self, part: Part) -> Flow[None]:
        """Take the points of a complete answer, and cache them."""
        points = part.points
        self.frames.append(points)
        notes = part.notes or ()
        # Do not cache such an answer: tomorrow the service may have the data, or the key a tier that sees them.
        may_come_later = points.is_empty() and {note.code for note in notes} & {
            NoteCode.NO_DATA,
            NoteCode.TIER,
        }
        if self._cache is not None and not may_come_later and not is_clashing(points, part.query):
            span = part.query.start, part.query.end
            store = partial(self._cache.store, span, points, closed=part.closed, now=part.now, notes=notes)
            yield Call(lambda: _try_to_write(store))

    def _flag(self, error: TidytapeError, missing_spans: Sequence[Span]) -> None:
        """With ``partial="flag"`` note the missing spans and the error; else raise the error."""
        if self._settings.partial != "flag" or isinstance(error, AuthenticationError | TierError):
            raise error
        self.missing += missing_spans
        self._failures.append(error)

    # --- answers that the service may have cut ---

    def check(self, bar: Bar) -> Flow[None]:
        """Accept the answers that the service did not cut; raise an error for a cut answer, or flag it.

        The longest answer comes first: if it is complete, the shorter answers need no further request.
        """
        for part in sorted(self._unchecked, key=lambda part: part.frame.height, reverse=True):
            try:
                yield from self._require_complete(part, bar)
            except (IncompleteDataError, ServiceError, BudgetError) as error:
                missing_spans = (
                    error.missing if isinstance(error, IncompleteDataError) else spans_to_check(part)
                )
                self._flag(error, missing_spans)
                self.frames.append(part.points)
            else:
                self._complete.append(part)
                yield from self._accept(part)

    def _require_complete(self, part: Part, bar: Bar) -> Flow[None]:
        """Request again the spans that the service may have cut; raise IncompleteDataError if they have more points.

        A complete answer that is longer makes that unnecessary.
        """
        if any(part.size.is_below(complete.size) for complete in self._complete):
            return  # a complete answer is longer, so no limit cut this one
        total_weight, unchecked = weight(part.query), spans_to_check(part)
        while unchecked:
            span = unchecked.pop(0)
            query = self._window.request(*span)
            total_weight += weight(query)
            if total_weight > most_weight(part.query):
                raise _unchecked_error(part, span)
            ((probe, _),) = yield Together([self._ask(query, bar)])
            extra_points = new_points(probe.frame, part.frame, span)
            if not extra_points.is_empty():
                raise _cut_error(part, extra_points, span)
            unchecked += narrower_span(part, probe, span)

    def tidy_cache(self) -> Flow[None]:
        """Join small files of the cache, and remove old files above its limit."""
        if self._cache is not None and self._has_lock:
            yield Call(partial(_try_to_write, self._cache.tidy))

    def metadata(self, frame: pl.DataFrame, sessions: Mapping[tuple[str, str], str]) -> Metadata:
        """Return the metadata of the finished fetch."""
        return Metadata.of_fetch(
            self._window,
            frame,
            self._notes,
            requests=self._tally.requests,
            weight=self._tally.weight,
            cached=self._cached,
            missing=union(self.missing),
            failures=self._failures,
            sessions=sessions,
        )


def _cut_error(part: Part, extra_points: pl.DataFrame, span: Span) -> IncompleteDataError:
    """Return the error for an answer that lacks points of a span, which a second request brought."""
    market = " ".join(
        filter(None, extra_points.select("exchange", "raw_symbol", "coin").cast(pl.String).row(0))
    )
    # If the answer lacks a series altogether, that series may have points at any time.
    is_known = series_of(extra_points) <= series_of(part.frame)
    return IncompleteDataError(
        f"{part.query.type[0]}: the service cut an answer at {counted(part.size.rows, 'row')}: it also has "
        f"{counted(extra_points.height, 'row')} in {spans([span])}, the first of {printable(market)}; ask for a "
        "shorter window or fewer markets at a time",
        missing=tuple(union(spans_to_check(part) if is_known else [part.span])),
    )


def _unchecked_error(part: Part, span: Span) -> IncompleteDataError:
    """Return the error for an answer whose check would weigh more than a plan says."""
    return IncompleteDataError(
        f"{part.query.type[0]}: the service may have cut an answer at {counted(part.size.rows, 'row')}, and to check "
        f"{spans([span])} would weigh more than a plan says; ask for a shorter window or fewer markets at a time",
        missing=tuple(union(spans_to_check(part))),
    )


def _how_to_fill_cache(settings: Settings) -> str:
    """Say how a user fills the cache."""
    fetch = "fetch it online with ``cache=True``" if is_loopback(settings.base_url) else "fetch it online"
    return f"the cache has no answer to it from {settings.base_url}; {fetch} first"


def _has_lock(lock: filelock.BaseFileLock) -> bool:
    """Try to take a lock; return whether this process has it now, or no process can have it."""
    try:
        lock.acquire(blocking=False)
    except filelock.Timeout:
        return False
    # A folder that cannot be written to has no locks.
    except (OSError, NotImplementedError) as error:
        _warn(error)
    return True


def _try_to_write(write: Callable[[], R]) -> R | None:
    """Run a function that writes to the cache; if it cannot, warn and return None: the caller has the points anyway."""
    try:
        return write()
    except (OSError, pl.exceptions.PolarsError) as error:
        _warn(error)
        return None


def _warn(error: Exception) -> None:
    warn(RuntimeWarning(f"the cache cannot be written: {error}"))


def _shorter(query: PointsQuery, error: QueryError) -> list[PointsQuery]:
    """Return two shorter requests for a request with more trades than the service gives at once.

    The first is as long as the service says, or else half as long. The service charges nothing for a refused request.

    Raises
    ------
    QueryError
        ``error`` itself, if it has another cause, or the service would refuse every shorter request too.
    """
    if error.code != "POINT_LIMIT_EXCEEDED" or query.interval is not None or query.period == 1:
        raise error
    hinted_period = hinted_window(str(error))
    if hinted_period == 0:
        raise error
    is_shorter = hinted_period is not None and hinted_period < query.period
    middle = query.start + (hinted_period if hinted_period and is_shorter else query.period // 2)
    spans = (query.start, middle), (middle, query.end)
    return [query.model_copy(update={"start": start, "end": end}) for start, end in spans]


def _check_filled(frame: pl.DataFrame, window: Window) -> None:
    """Raise IncompleteDataError if candles that the service should have filled have gaps."""
    assert isinstance(window.query.interval, Interval)
    series_columns = [name for name in ("exchange", "raw_symbol", "coin", "side") if name in frame.columns]
    second = pl.col("timestamp").dt.epoch("s")
    next_start = second.shift(-1).over(series_columns, order_by="timestamp")
    gaps = frame.select(start=second + window.query.interval.seconds, end=next_start)
    missing_spans = union(gaps.filter(pl.col("start") < pl.col("end")).iter_rows())
    if not missing_spans:
        return
    raise IncompleteDataError(
        f"{window.data_type}: asked for without gaps, the service left {spans(missing_spans)}",
        missing=tuple(missing_spans),
    )
