"""The fetch of a window: read the cache, request the rest, check that the answers are complete, join them."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from functools import partial
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
)
from tidytape.client._cache import Series
from tidytape.client._display import Bar, progress, spans
from tidytape.client._metadata import Metadata
from tidytape.client._reasons import Reason, reasons_of
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
)
from tidytape.query import PointsQuery, hinted_window
from tidytape.times import Span, union, without
from tidytape.wire._arrow import ARROW_MIME
from tidytape.wire._decode import JSON_MIME
from tidytape.wire._notes import Note

R = TypeVar("R")

_ACCEPT = f"{ARROW_MIME}, {JSON_MIME};q=0.9"
_POLL = 0.1
"""How often to look whether the other process has finished its fetch. [s]"""


def fetched(settings: Settings, window: Window) -> Flow[tuple[pl.DataFrame, Metadata]]:
    """Fetch a window: what the cache has from the cache, the rest from the service, in several requests at once.

    Returns
    -------
    polars.DataFrame
        In the schema of the data type; rows by series, then time in the direction asked for, then price.
    Metadata
        What was asked, and what it cost.

    Raises
    ------
    DecodeError
        If the service sent something that is not what the contract says.
    IncompleteDataError
        If a point came twice with different values, the service cut an answer, or the client is offline and the cache
        lacks a part of the window.
    BudgetError
        If the fetch would have to wait for the budget longer than it may.
    ServiceError
        If a part was not answered, unless ``partial="flag"``.
    """
    fetch = _Fetch(settings, window)
    with ExitStack() as locks:
        missing = yield from fetch.read_cache(locks)
        if missing:
            requests = covering(window, missing, burst=settings.quota.burst)
            if len(requests) > 1 and not settings.quota.is_known:
                yield from informed(settings)
                requests = covering(window, missing, burst=settings.quota.burst)
            with progress(window.data_type, len(requests), shows=settings.progress) as bar:
                fetch.announce(missing, requests, bar)
                if requests:
                    yield Together([fetch.request(query, bar) for query in requests])
                yield from fetch.check(bar)
            yield from fetch.tidy_cache()
    frame = joined([part for part in fetch.frames if part.width], window.query)
    frame = within(frame, window.start, window.end)
    if window.query.gapfill and not fetch.missing:
        _check_filled(frame, window)
    return frame, fetch.metadata(frame)


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
        """Spans that were not answered; with ``partial="raise"`` an error is raised instead."""
        self._failures: list[TidytapeError] = []
        self._tally = Tally()
        self._notes: list[Note] = []
        """Why markets have no points, as the service says it now, or said it when the cached points were fetched."""
        self._unchecked: list[Part] = []
        """Answers that the service may have cut."""
        self._complete: list[Part] = []
        """Answers that the service did not cut, so it did not cut any smaller answer either."""

    # --- the cache ---

    def read_cache(self, locks: ExitStack) -> Flow[list[Span]]:
        """Read the cached points; return what the cache lacks, once no other process is fetching the same series."""
        if self._cache is None:
            return [self._window.unaligned]
        missing: list[Span] = yield Call(self._read)
        if missing and self._settings.offline:
            raise IncompleteDataError(
                f"{self._window.data_type}: the client is offline, and the cache lacks {spans(missing)}"
                + ("" if self.frames else f"; {_how_to_fill_cache(self._settings)}"),
                missing=tuple(missing),
            )
        if missing:
            missing = yield from self._lock_cache(self._cache, locks)
        return missing

    def _read(self) -> list[Span]:
        """Read the cached points of the window; return what is missing."""
        assert self._cache is not None
        self.frames, self._notes, missing = self._cache.read(self._window.span)
        self._cached = without(self._window.span, missing)
        return missing

    def _lock_cache(self, cache: Series, locks: ExitStack) -> Flow[list[Span]]:
        """Lock the series; while another process has the lock, wait for the points that it caches."""
        missing: list[Span] = []
        lock = yield Call(lambda: _try_to_write(cache.lock))
        if lock is None:  # the folder cannot be written to, so nothing can be cached
            missing = yield Call(self._read)
            self._cache = None
            return missing
        locks.callback(lock.release)
        missing_before: list[Span] = []
        began = time.monotonic()
        while not (has_lock := (yield Call(lambda: _has_lock(lock)))):
            missing = yield Call(lambda: cache.missing(self._window.span))
            # The other process joins files in the end: a file may go while it is read, and come again.
            if not (missing or (yield Call(self._read))):
                return []
            if missing != missing_before:  # the other process has cached more
                missing_before, began = missing, time.monotonic()
            if time.monotonic() - began > self._settings.deadline:
                break  # the other process is stuck; to fetch twice only costs weight
            yield Wait(_POLL)
        self._has_lock = has_lock
        missing = yield Call(self._read)
        return missing

    # --- requests ---

    def announce(self, missing: Sequence[Span], requests: Sequence[PointsQuery], bar: Bar) -> None:
        """Report how long the budget will make the fetch wait, or refuse to wait, before anything is sent."""
        settings = self._settings
        bar.looks_ahead(ahead(self._window, missing, now=time.time(), burst=settings.quota.burst))
        cost = sum(map(weight, requests))
        wait = settings.quota.seconds_for(cost)
        if settings.partial == "raise":  # with "flag" the fetch gets what it can
            refuse_to_wait(settings, wait, cost, settings.quota.available)
        if not is_too_long(settings, wait):
            bar.waits(wait)

    def request(self, query: PointsQuery, bar: Bar) -> Flow[None]:
        """Fetch one request; if it has more trades than the service gives at once, in shorter requests."""
        start, longest = query.start, query.period
        try:
            if self._settings.quota.is_asked:  # other requests are on their way, and the budget is not known
                yield from informed(self._settings)
            while start < query.end:
                shorter = query.model_copy(update={"start": start, "end": min(start + longest, query.end)})
                try:
                    part = yield from self._ask(shorter, bar)
                except QueryError as error:
                    longest = _shorter_period(shorter, error)
                    continue
                if spans_to_check(part):
                    self._unchecked.append(part)
                else:
                    self._complete += [part] if is_dense(part.query) else []
                    yield from self._accept(part)
                start, longest = shorter.end, min(query.period, 2 * longest)
        except (ServiceError, BudgetError) as error:
            self._flag(error, [(query.start, query.end)])
        bar.advance()

    def _ask(self, query: PointsQuery, bar: Bar) -> Flow[Part]:
        """Send one request, and decode its answer."""
        settings = self._settings
        now = time.time()  # before the request: what is over now is over in the answer
        answer = yield from ask(
            settings,
            "/v1/points",
            query.to_params(),
            accept=_ACCEPT,
            cost=weight(query),
            waits=bar.waits,
            tally=self._tally,
        )
        # The earlier of both clocks, and a minute before it: a service may still change what has just ended.
        settled = min(now, answer.sent_at) - SETTLING
        frame = decoded(answer, query, absent=settings.absent)
        notes = notes_of(answer)
        settings.quota.has_notes |= notes is not None
        self._notes += notes or ()
        return Part(query, frame, notes, self._window.closed(settled), settled)

    def _accept(self, part: Part) -> Flow[None]:
        """Take the points of a complete answer, and cache them."""
        points = part.points
        self.frames.append(points)
        notes = part.notes or ()
        # Tomorrow the service may have such data, or the key may be of a tier that sees them.
        may_come = points.is_empty() and {note.code for note in notes} & {NoteCode.NO_DATA, NoteCode.TIER}
        if self._cache is not None and not may_come and not is_clashing(points, part.query):
            span = part.query.start, part.query.end
            store = partial(self._cache.store, span, points, closed=part.closed, now=part.now, notes=notes)
            yield Call(lambda: _try_to_write(store))

    def _flag(self, error: TidytapeError, missing: Sequence[Span]) -> None:
        """Note with ``partial="flag"`` what is missing and why; else raise the error."""
        if self._settings.partial != "flag" or isinstance(error, AuthenticationError | TierError):
            raise error
        self.missing += missing
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
                missing = error.missing if isinstance(error, IncompleteDataError) else spans_to_check(part)
                self._flag(error, missing)
                self.frames.append(part.points)
            else:
                self._complete.append(part)
                yield from self._accept(part)

    def _require_complete(self, part: Part, bar: Bar) -> Flow[None]:
        """Request the doubtful ends of an answer once more; raise IncompleteDataError if that brings other points."""
        if any(part.size.is_below(complete.size) for complete in self._complete):
            return  # a complete answer is longer, so no limit cut this one
        total_weight, unchecked = weight(part.query), spans_to_check(part)
        while unchecked:
            span = unchecked.pop(0)
            query = self._window.request(*span)
            total_weight += weight(query)
            if total_weight > most_weight(part.query):
                raise _unchecked_error(part, span)
            (probe,) = yield Together([self._ask(query, bar)])
            new = new_points(probe.frame, part.frame, span)
            if not new.is_empty():
                raise _cut_error(part, new, span)
            unchecked += narrower_span(part, probe, span)

    def tidy_cache(self) -> Flow[None]:
        """Join small files of the cache, and remove old files above its limit."""
        if self._cache is not None and self._has_lock:
            yield Call(partial(_try_to_write, self._cache.tidy))

    def metadata(self, frame: pl.DataFrame) -> Metadata:
        """Return the metadata of the finished fetch."""
        window = self._window
        reasons: tuple[Reason, ...] = ()
        if self._notes or frame.is_empty():  # else there is nothing to explain
            reasons = reasons_of(window, dict.fromkeys(self._notes), frame, now=time.time())
        return Metadata(
            window.query,
            window.start,
            window.end,
            self._tally.requests,
            self._tally.weight,
            tuple(self._cached),
            tuple(union(self.missing)),
            tuple(self._failures),
            datetime.now(UTC),
            frame,
            reasons,
            not self.missing if is_dense(window.query) else None,
        )


def _cut_error(part: Part, new: pl.DataFrame, span: Span) -> IncompleteDataError:
    """Return the error for an answer that lacks points which the service has in a span."""
    market = " ".join(filter(None, new.select("exchange", "raw_symbol", "coin").cast(pl.String).row(0)))
    # If the answer lacks a series altogether, that series may have points at any time.
    is_known = series_of(new) <= series_of(part.frame)
    return IncompleteDataError(
        f"{part.query.type[0]}: the service cut an answer at {counted(part.size.rows, 'row')}: it also has "
        f"{counted(new.height, 'row')} in {spans([span])}, the first of {printable(market)}; ask for a shorter window "
        "or fewer markets at a time",
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
    except (
        OSError,
        NotImplementedError,
    ) as error:  # in a folder that cannot be written to there are no locks
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
    warnings.warn(f"the cache cannot be written: {error}", RuntimeWarning, stacklevel=3)


def _shorter_period(query: PointsQuery, error: QueryError) -> int:
    """Return a shorter period for a request with more trades than the service gives at once. [s]

    It is the period that the service names, or else half the period. The service charges nothing for a refused request.

    Raises
    ------
    QueryError
        The error itself, if it says something else, or the service would answer no shorter request.
    """
    if error.code != "POINT_LIMIT_EXCEEDED" or query.interval is not None or query.period == 1:
        raise error
    fits = hinted_window(str(error))
    if fits == 0:
        raise error
    return fits if fits is not None and fits < query.period else query.period // 2


def _check_filled(frame: pl.DataFrame, window: Window) -> None:
    """Raise IncompleteDataError if candles that the service should have filled have gaps."""
    assert isinstance(window.query.interval, Interval)
    series = [name for name in ("exchange", "raw_symbol", "coin", "side") if name in frame.columns]
    second = pl.col("timestamp").dt.epoch("s")
    following = second.shift(-1).over(series, order_by="timestamp")
    gaps = frame.select(start=second + window.query.interval.seconds, end=following)
    missing = union(gaps.filter(pl.col("start") < pl.col("end")).iter_rows())
    if not missing:
        return
    raise IncompleteDataError(
        f"{window.data_type}: asked for without gaps, the service left {spans(missing)}",
        missing=tuple(missing),
    )
