"""The fetch of a window: what is kept, what that leaves to ask for at the least weight, and whether it is all there."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from itertools import pairwise
from typing import TypeVar

import filelock
import polars as pl

from tidytape import wire
from tidytape.budget import weight
from tidytape.catalogue import Interval, NoteCode
from tidytape.client.asking import Tally, ask, is_too_long, refuse_to_wait
from tidytape.client.cache import Series
from tidytape.client.display import spans
from tidytape.client.listing import informed
from tidytape.client.metadata import Metadata
from tidytape.client.network import is_loopback
from tidytape.client.progress import Bar, Progress
from tidytape.client.reasons import reasons_of
from tidytape.client.settings import Settings
from tidytape.client.steps import Call, Flow, Together, Wait
from tidytape.client.tidying import decoded, is_clashing, joined, notes_of, within
from tidytape.client.wholeness import (
    Part,
    is_dense,
    lacking,
    may_lack_series,
    most_weight,
    names_one_series,
    new_rows,
    reach,
    series_of,
    tail_of,
)
from tidytape.client.window import SETTLING, Window, ahead, covering
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
from tidytape.query.values import written_time
from tidytape.times import Span, union, without
from tidytape.wire import Note

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
        gathered.kept = settings.cache.series(settings.base_url, window, absent=settings.absent)
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
    fetched = "fetch it online with cache=True" if is_loopback(settings.base_url) else "fetch it online"
    return f"the cache has no answer to it from {settings.base_url}; {fetched} first"


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
        self._tally = Tally()
        self.notes: list[Note] = []
        """What the service said of markets without points, now and when what is kept was fetched."""
        self._doubtful: list[Part] = []
        """Answers of which something is missing at the ends that nobody explains."""
        self._whole: list[Part] = []
        """Answers that are whole: a service that gives so much did not cut one with less."""
        self._series: set[tuple[str | None, ...]] = set()
        """Series of answers that lack none."""

    @property
    def is_partial(self) -> bool:
        """Whether parts were not answered, and that was to be flagged."""
        return bool(self._missing)

    def look(self) -> list[Span]:
        """Read what is kept; return what is missing."""
        assert self.kept is not None
        self.frames, self.notes, missing = self.kept.read(self._window.span)
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
        self.frames, self.notes, missing = kept.read(self._window.span)
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
            yield from self._settled(bar)

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
        """Fetch one request; where it has more trades than the service gives at once, in shorter ones."""
        at, whole = query.start, query.period
        most = whole
        while at < query.end:
            part = query.model_copy(update={"start": at, "end": min(at + most, query.end)})
            try:
                answer = yield from self._answered(part, bar)
            except QueryError as error:
                most = _shorter(part, error)
                continue
            yield from self._took(answer)
            at, most = part.end, min(whole, 2 * most)

    def _took(self, part: Part) -> Flow[None]:
        """Keep the points of an answer, unless something is missing at its ends that nobody explains."""
        if any(lacking(part)) or may_lack_series(part):
            self._doubtful.append(part)
            return
        if is_dense(part.query):
            self._whole.append(part)
        yield from self._believed(part, part.frame)

    def _believed(self, part: Part, frame: pl.DataFrame) -> Flow[None]:
        """Keep the points of an answer that is whole."""
        frame = within(frame, part.query.start, part.query.end).drop(wire.DATA_UNTIL, strict=False)
        self.frames.append(frame)
        notes = part.notes or ()
        # That the service has no such data, or the tier does not see them, may be otherwise tomorrow.
        is_lacking = frame.is_empty() and {note.code for note in notes} & {NoteCode.NO_DATA, NoteCode.TIER}
        if self.kept is not None and not is_lacking and not is_clashing(frame, part.query):
            kept, closed = self.kept, part.closed
            span = part.query.start, part.query.end
            store = partial(kept.store, span, frame, closed=closed, now=part.now, notes=notes)
            yield Call(lambda: _spared(store))

    def _answered(self, query: PointsQuery, bar: Bar) -> Flow[Part]:
        now = time.time()  # what was over then is over, however long the answer takes
        answer = yield from ask(
            self._settings,
            "/v1/points",
            query.to_params(),
            accept=_ACCEPT,
            cost=weight(query),
            waits=bar.waits,
            tally=self._tally,
        )
        # By the earlier of both clocks, and a little before: a service may settle what has just ended.
        sure = min(now, answer.sent_at) - SETTLING
        frame = decoded(answer, query, absent=self._settings.absent)
        notes = notes_of(answer)
        self._settings.quota.has_notes |= notes is not None
        self.notes += notes or ()
        return Part(query, frame, notes, self._window.closed(sure), sure)

    # --- answers that end early ---

    def _settled(self, bar: Bar) -> Flow[None]:
        """Find out which of the doubtful answers were cut: those with most rows first, for they tell of the others."""
        doubtful = sorted(self._doubtful, key=lambda part: part.frame.height, reverse=True)
        for part in doubtful:
            try:
                frame = yield from self._made_whole(part, bar)
            except (IncompleteDataError, ServiceError, BudgetError) as error:
                if self._settings.partial != "flag" or isinstance(error, AuthenticationError | TierError):
                    raise
                named = error.missing if isinstance(error, IncompleteDataError) else ()
                self._missing += named or list(filter(None, lacking(part))) or [part.span]
                self._failures.append(error)
                frame = within(part.frame, part.query.start, part.query.end)
                self.frames.append(frame.drop(wire.DATA_UNTIL, strict=False))
            else:
                yield from self._believed(part, frame)

    def _made_whole(self, part: Part, bar: Bar) -> Flow[pl.DataFrame]:
        """Return the points of a doubtful answer, after one probe at each end that is missing."""
        size, series = part.size, series_of(part.frame)
        ends = [span for span in lacking(part)[::-1] if span]
        if any(size.is_below(whole.size) for whole in self._whole) or (not ends and series <= self._series):
            return part.frame
        spent = weight(part.query)
        tail = tail_of(part)
        for span in ends or ([tail] if tail else []):
            probe = yield from self._once_more(span, bar)
            spent += weight(probe.query)
            is_sure = within(probe.frame, *span).is_empty() or probe.size.is_below(size)
            if not is_sure or not new_rows(probe.frame, part.frame, span).is_empty():
                return (yield from self._asked_again(part, probe, spent, bar))
        self._whole.append(part)
        self._series |= series
        return part.frame

    def _once_more(self, span: Span, bar: Bar) -> Flow[Part]:
        """Ask for a part of what was asked for before."""
        (part,) = yield Together([self._answered(self._window.request(*span), bar)])
        return part  # type: ignore[no-any-return]  # of the one flow

    def _asked_again(self, part: Part, probe: Part, spent: int, bar: Bar) -> Flow[pl.DataFrame]:
        """Ask again for what a service cut, for so little at a time that no answer reaches the size of the cut one."""
        whole, step, limit = part.span, part.query.step, part.size
        series = series_of(part.frame) | series_of(probe.frame)
        is_one = names_one_series(part.query)
        frames = [within(part.frame, whole[1], part.query.end)]
        sure = []
        if is_one:  # else any point of it may lack a series
            frames, sure = [part.frame], [reach(part.frame, whole, step)]
        if probe.size.is_below(limit):
            frames.append(probe.frame)
            sure.append(probe.span)
        elif is_one:
            frames.append(probe.frame)
            sure.append(reach(probe.frame, whole, step))
        todo = without(whole, sure)
        points = (limit.rows - 1) // len(series)
        while todo:
            at, until = todo[0]
            query = self._window.request(at, min(at + points * step, until)) if points else part.query
            spent += weight(query)
            if not points or spent > most_weight(part.query):
                raise IncompleteDataError(
                    f"{self._window.data_type}: the service cut an answer at {counted(limit.rows, 'row')}, and more "
                    f"may lie at {written_time(at)}; ask for fewer markets or a shorter window at a time",
                    missing=tuple(todo),
                )
            answer = yield from self._once_more((query.start, query.end), bar)
            series |= series_of(answer.frame)
            rows = answer.frame.height
            if rows and not answer.size.is_below(limit):
                points //= 2  # cut too: there are more series than were known, or points at the edges
                continue
            frames.append(within(answer.frame, query.start, query.end))
            todo[:1] = [(query.end, until)] if query.end < until else []
            # So many that they reach the limit, as far as this answer tells.
            points = min(10 * points, points * (limit.rows - 1) // max(1, rows))
        return wire.concatenated([frame for frame in frames if frame.width])

    def told(self, frame: pl.DataFrame) -> Metadata:
        """Return what the fetch was."""
        window = self._window
        return Metadata(
            window.query,
            window.start,
            window.end,
            self._tally.requests,
            self._tally.weight,
            tuple(self._cached),
            tuple(union(self._missing)),
            tuple(self._failures),
            datetime.now(UTC),
            frame,
            reasons_of(window, dict.fromkeys(self.notes), frame, now=time.time()),
            not self._missing if is_dense(window.query) else None,
        )


def _shorter(query: PointsQuery, error: QueryError) -> int:
    """Return how long a window to ask for instead of one with more trades than the service gives at once. [s]

    As long as the service says that one may be, else half as long. Nothing is charged for a request that is refused.

    Raises
    ------
    QueryError
        The error itself, where it says something else, or no shorter window would be answered.
    """
    if error.code != "POINT_LIMIT_EXCEEDED" or query.interval is not None or query.period == 1:
        raise error
    fits = hinted_window(str(error))
    if fits == 0:
        raise error
    return fits if fits is not None and fits < query.period else query.period // 2


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
    missing = union(found)
    raise IncompleteDataError(
        f"{window.data_type}: asked for without gaps, the service left {spans(missing)}",
        missing=tuple(missing),
    )
