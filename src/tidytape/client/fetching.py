"""The fetch of a window: what is kept, what that leaves to ask for at the least weight, and whether it is all there."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import pairwise
from typing import TypeVar

import filelock
import polars as pl

from tidytape import wire
from tidytape.budget import weight
from tidytape.catalogue import Interval
from tidytape.client.asking import ask, is_too_long, refuse_to_wait
from tidytape.client.cache import Series
from tidytape.client.display import spans
from tidytape.client.listing import informed
from tidytape.client.metadata import Metadata
from tidytape.client.progress import Bar, Progress
from tidytape.client.settings import Settings, is_loopback
from tidytape.client.steps import Call, Flow, Together, Wait
from tidytape.client.tidying import decoded, joined, within
from tidytape.client.window import SETTLING, Span, Window, ahead, covering, united, without
from tidytape.errors import (
    AuthenticationError,
    BudgetError,
    IncompleteDataError,
    ServiceError,
    TidytapeError,
    TierError,
)
from tidytape.query import PointsQuery
from tidytape.query.values import written_time

__all__ = ["fetched"]

R = TypeVar("R")

_ACCEPT = f"{wire.ARROW_MIME}, {wire.JSON_MIME};q=0.9"
_POLL = 0.1
"""How often to look whether another process has finished what it fetches. [s]"""


def fetched(settings: Settings, window: Window, progress: Progress) -> Flow[tuple[pl.DataFrame, Metadata]]:
    """Fetch a window: from the cache what it has, the rest from the service, several requests at once.

    Returns
    -------
    polars.DataFrame
        In the schema of the data type; rows by series, then time in the direction asked for, then price.
    Metadata
        What it was and what it cost.

    Raises
    ------
    DecodeError
        If the service sent something that is not what the contract says.
    IncompleteDataError
        If a point came twice with different values, an answer is not whole, or the client is offline and not all of
        it is in the cache.
    BudgetError
        If the budget would make it wait, and that is longer than it may.
    ServiceError
        If a part was not answered, unless ``partial="flag"``.
    """
    gathered = _Gathered(settings, window)
    if settings.cache is None:
        yield from gathered.ask_for([window.asked], progress)
    else:
        gathered.kept = settings.cache.series(settings.base_url, window)
        missing = yield Call(gathered.look)
        if missing and settings.offline:
            raise IncompleteDataError(
                f"{window.data_type}: the client is offline, and the cache lacks {spans(missing)}"
                + ("" if gathered.frames else f"; {_how_kept(settings)}"),
                missing=tuple(missing),
            )
        if missing:
            yield from gathered.ask_alone(progress)
    frame = joined([one for one in gathered.frames if one.width], window.query)
    frame = within(frame, window.start, window.end)
    if window.query.gapfill and not gathered.is_partial:
        _check_filled(frame, window)
    return frame, gathered.told(frame)


def _how_kept(settings: Settings) -> str:
    """Say how anything comes to be in the cache."""
    kept = f"nothing of it is kept of {settings.base_url}: what is fetched online"
    return f"{kept} with cache=True is" if is_loopback(settings.base_url) else f"{kept} is"


@contextmanager
def _held(lock: filelock.BaseFileLock) -> Iterator[Callable[[], bool]]:
    """Give a function that tries to take a lock; it is let go of at the end."""

    def take() -> bool:
        try:
            lock.acquire(blocking=False)
        except filelock.Timeout:
            return False
        except (OSError, NotImplementedError) as error:  # where nothing can be written nobody is kept waiting
            _warn(error)
        return True

    try:
        yield take
    finally:
        lock.release()


def _spared(keep: Callable[[], R]) -> R | None:
    """Return what a function returns; warn where the cache cannot be written, for what was fetched is there anyway."""
    try:
        return keep()
    except (OSError, pl.exceptions.PolarsError) as error:
        _warn(error)
        return None


def _warn(error: Exception) -> None:
    warnings.warn(f"the cache cannot be written: {error}", RuntimeWarning, stacklevel=3)


class _Gathered:
    """What has come together of a window."""

    def __init__(self, settings: Settings, window: Window) -> None:
        self._settings = settings
        self._window = window
        self.kept: Series | None = None
        self.frames: list[pl.DataFrame] = []
        self._cached: list[Span] = []
        self._missing: list[Span] = []
        self._failures: list[TidytapeError] = []
        self._requests = 0
        self._weight = 0
        self._sent_at = time.time()

    @property
    def is_partial(self) -> bool:
        """Whether parts were not answered, and that was to be flagged."""
        return bool(self._missing)

    def look(self) -> list[Span]:
        """Read what is kept; return what is missing."""
        assert self.kept is not None
        self.frames, missing = self.kept.read(self._window.span)
        self._cached = without(self._window.span, missing)
        return missing

    def ask_alone(self, progress: Progress) -> Flow[None]:
        """Fetch what is missing, while nobody else fetches of the same series: what they get is kept for us."""
        assert self.kept is not None
        kept, began = self.kept, time.monotonic()
        before: list[Span] | None = None
        missing: list[Span] = []
        lock = yield Call(lambda: _spared(kept.lock))
        if lock is None:  # a folder that cannot be written to keeps nothing
            self.kept = None
            yield from self.ask_for(self.look_again(kept), progress)
            return
        with _held(lock) as take:
            while not (is_alone := (yield Call(take))):
                missing = yield Call(lambda: kept.missing(self._window.span))
                # Who has the lock joins files in the end: what is there may go while it is read, and come again.
                missing = missing or (yield Call(self.look))
                if not missing:
                    break  # the other one has fetched all of it
                if missing != before:
                    before, began = missing, time.monotonic()  # it gets on
                if time.monotonic() - began > self._settings.deadline:
                    missing = yield Call(self.look)
                    break  # it waits for something; what is fetched twice costs, and nothing else
                yield Wait(_POLL)
            else:
                missing = yield Call(self.look)
            yield from self.ask_for(missing, progress)
            if is_alone:
                yield Call(lambda: _spared(kept.tidy))

    def look_again(self, kept: Series) -> list[Span]:
        """Read what is kept where nothing can be added."""
        self.frames, missing = kept.read(self._window.span)
        self._cached = without(self._window.span, missing)
        return missing

    def ask_for(self, missing: Sequence[Span], progress: Progress) -> Flow[None]:
        """Fetch what is missing."""
        settings = self._settings
        requests = covering(self._window, missing, burst=settings.quota.burst)
        if len(requests) > 1 and not settings.quota.is_known:
            yield from informed(settings)
            requests = covering(self._window, missing, burst=settings.quota.burst)
        with progress.of(len(requests)) as bar:
            bar.looks_ahead(ahead(self._window, missing, now=time.time(), burst=settings.quota.burst))
            self._foretell(sum(map(weight, requests)), bar)
            if requests:
                yield Together([self._part(one, bar) for one in requests])

    def _foretell(self, cost: int, bar: Bar) -> None:
        """Say how long the budget will make all of it wait, or refuse to, before anything is sent."""
        wait = self._settings.quota.seconds_for(cost)
        if self._settings.partial == "raise":  # else what can be had is fetched, and the rest is flagged
            refuse_to_wait(self._settings, wait, cost, self._settings.quota.available)
        if not is_too_long(self._settings, wait):  # what it refuses to wait, it does not wait
            bar.waits(wait)

    def _part(self, query: PointsQuery, bar: Bar) -> Flow[None]:
        try:
            if self._settings.quota.is_asked:  # others are on their way, and the budget of all is not known
                yield from informed(self._settings)
            yield from self._asked(query, bar)
        except (ServiceError, BudgetError) as error:
            if self._settings.partial != "flag" or isinstance(error, AuthenticationError | TierError):
                raise
            self._missing.append((query.start, query.end))
            self._failures.append(error)
        bar.advance()

    def _asked(self, query: PointsQuery, bar: Bar) -> Flow[None]:
        """Fetch one request, and go on asking where its answer seems to have been cut, for as much as came then."""
        at = query.start
        most = whole = query.end - query.start
        limit = 0
        while at < query.end:
            part = query.model_copy(update={"start": at, "end": min(at + most, query.end)})
            now = time.time()  # what was over then is over, however long the answer takes
            frame = yield from self._answered(part, bar)
            whole_until = _whole_until(frame, part)
            if whole_until <= at:
                raise IncompleteDataError(
                    f"{self._window.data_type}: more lies at {written_time(at)} than the service gives in one answer",
                    missing=((at, part.end),),
                )
            was_cut = whole_until < part.end
            if was_cut and _may_lack_series(frame, whole_until, part):
                most, limit = whole_until - at, frame.height
                continue
            if query.interval is None:
                most = whole
            elif was_cut:
                most, limit = whole_until - at, frame.height
            elif limit:  # as much as should reach the limit again, if there is one
                most = min(whole, most * max(limit, frame.height) // max(1, frame.height))
            frame = within(frame, at, whole_until)
            yield from self._keep((at, whole_until), frame, now)
            self.frames.append(frame)
            at = whole_until

    def _answered(self, query: PointsQuery, bar: Bar) -> Flow[pl.DataFrame]:
        cost = weight(query)
        answer = yield from ask(
            self._settings, "/v1/points", query.to_params(), accept=_ACCEPT, cost=cost, waits=bar.waits
        )
        self._requests += 1 + answer.lost
        self._weight += cost * (1 + answer.lost)
        self._sent_at = answer.sent_at
        return decoded(answer, query)

    def _keep(self, span: Span, frame: pl.DataFrame, now: float) -> Flow[None]:
        if self.kept is None:
            return
        kept = self.kept
        # By the earlier of both clocks, and a little before: a service may settle what has just ended.
        sure = min(now, self._sent_at) - SETTLING
        closed = self._window.closed(sure)
        yield Call(lambda: _spared(lambda: kept.store(span, frame, closed=closed, now=sure)))

    def told(self, frame: pl.DataFrame) -> Metadata:
        """Return what the fetch was."""
        window = self._window
        return Metadata(
            window.query,
            window.start,
            window.end,
            self._requests,
            self._weight,
            tuple(self._cached),
            tuple(united(self._missing)),
            tuple(self._failures),
            datetime.now(UTC),
            frame,
        )


# --- completeness ---------------------------------------------------------------------------------------------------

_ROUND = 100


def _whole_until(frame: pl.DataFrame, query: PointsQuery) -> int:
    """Return up to where an answer is whole: its end, unless it may have been cut. [s since the epoch]

    Services that cut do so at a limit of theirs, a round number: of points of a series, or of rows of all. That an
    answer has one by chance costs one request more, for what is left of its window; an answer that was cut and taken
    for whole would cost the truth. What is counted is what was sent, points at the edges of the window too.
    """
    if frame.is_empty():
        return query.end
    series = [name for name in ("exchange", "raw_symbol", "coin", "side", "tenor") if name in frame.columns]
    points = pl.len() if query.interval is None else pl.col("timestamp").n_unique()
    counts = frame.group_by(series).agg(
        points.alias("n"), pl.col("timestamp").max().dt.epoch("s").alias("last")
    )
    if frame.height % _ROUND:  # of all rows
        is_round = pl.col("n") % _ROUND == 0
        if query.grid is not None and query.data_types[0].levels:  # a point without levels has no row
            slots = (pl.col("last") - query.span[0]) // query.grid.seconds + 1
            is_round |= slots % _ROUND == 0
        counts = counts.filter(is_round)
    counts = counts.filter(pl.col("last") >= query.start)
    if counts.is_empty():
        return query.end
    last = int(counts["last"].min())  # type: ignore[arg-type]
    # A second of trades may itself have been cut; it is asked for again.
    after = last if query.grid is None else last + query.grid.seconds
    # One second and no more was asked for: there is nothing that it could be cut to.
    return query.end if after >= query.end or query.end - query.start <= 1 else after


def _may_lack_series(frame: pl.DataFrame, whole_until: int, query: PointsQuery) -> bool:
    """Whether rows that were cut may have come series after series, so that some are not there at all."""
    step = 1 if query.grid is None else query.grid.seconds
    return frame.height % _ROUND == 0 and not within(frame, whole_until + step, query.end).is_empty()


def _check_filled(frame: pl.DataFrame, window: Window) -> None:
    """Raise where candles that were to be filled have gaps."""
    assert isinstance(window.query.interval, Interval)
    step = window.query.interval.seconds
    series = [name for name in ("exchange", "raw_symbol", "coin", "side") if name in frame.columns]
    counts = frame.group_by(series).agg(
        pl.len().alias("n"),
        pl.col("timestamp").min().dt.epoch("s").alias("first"),
        pl.col("timestamp").max().dt.epoch("s").alias("last"),
    )
    gaps = counts.filter((pl.col("last") - pl.col("first")) // step + 1 != pl.col("n"))
    if gaps.is_empty():
        return
    found = []
    for names in gaps.select(series).iter_rows(named=True):
        of_it = frame.filter(*(pl.col(name).eq_missing(pl.lit(value)) for name, value in names.items()))
        at = of_it["timestamp"].dt.epoch("s").sort().to_list()
        found += [(one + step, other) for one, other in pairwise(at) if other - one > step]
    missing = united(found)
    raise IncompleteDataError(
        f"{window.data_type}: asked for without gaps, the service left {spans(missing)}",
        missing=tuple(missing),
    )
