"""The fetch of a window: what is kept, what that leaves to ask for at the least weight, and whether it is all there."""

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

from tidytape.budget import Tier, weight
from tidytape.catalogue import Interval, NoteCode
from tidytape.client._answers import (
    Part,
    decoded,
    is_clashing,
    is_dense,
    joined,
    lacking,
    may_lack_series,
    most_weight,
    names_one_series,
    new_rows,
    notes_of,
    reach,
    series_of,
    tail_of,
    within,
)
from tidytape.client._cache import Series
from tidytape.client._display import spans
from tidytape.client._metadata import Bar, Metadata, Plan, PlanPart, progress, reasons_of
from tidytape.client._request import Tally, ask, informed, is_too_long, refuse_to_wait
from tidytape.client._settings import Settings, is_loopback
from tidytape.client._steps import Call, Flow, Together, Wait
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
from tidytape.query._values import written_time
from tidytape.times import Span, intersected, union, without
from tidytape.wire._arrow import ARROW_MIME
from tidytape.wire._decode import JSON_MIME
from tidytape.wire._notes import Note
from tidytape.wire._tidy import DATA_UNTIL, concatenated

R = TypeVar("R")

_ACCEPT = f"{ARROW_MIME}, {JSON_MIME};q=0.9"
_POLL = 0.1
"""How often to look whether another process has finished what it fetches. [s]"""


def fetched(settings: Settings, window: Window) -> Flow[tuple[pl.DataFrame, Metadata]]:
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
    fetch = _Fetch(settings, window)
    with ExitStack() as held:
        missing = yield from fetch.uncached(held)
        if missing:
            requests = covering(window, missing, burst=settings.quota.burst)
            if len(requests) > 1 and not settings.quota.is_known:
                yield from informed(settings)
                requests = covering(window, missing, burst=settings.quota.burst)
            with progress(window.data_type, len(requests), wanted=settings.progress) as bar:
                fetch.announce(missing, requests, bar)
                if requests:
                    yield Together([fetch.part(query, bar) for query in requests])
                yield from fetch.settled(bar)
            yield from fetch.tidied()
    frame = joined([part for part in fetch.frames if part.width], window.query)
    frame = within(frame, window.start, window.end)
    if window.query.gapfill and not fetch.missing:
        _check_filled(frame, window)
    return frame, fetch.metadata(frame)


def _how_kept(settings: Settings) -> str:
    """Say how a user fills the cache."""
    fetched = "fetch it online with ``cache=True``" if is_loopback(settings.base_url) else "fetch it online"
    return f"the cache has no answer to it from {settings.base_url}; {fetched} first"


def _is_held(lock: filelock.BaseFileLock) -> bool:
    """Try to take a lock, and return whether it is held now, or cannot be held by anybody."""
    try:
        lock.acquire(blocking=False)
    except filelock.Timeout:
        return False
    except (OSError, NotImplementedError) as error:  # where nothing can be written nobody is kept waiting
        _warn(error)
    return True


def _spared(keep: Callable[[], R]) -> R | None:
    """Run a function that writes the cache; warn and return None if it cannot, for the caller has the points anyway."""
    try:
        return keep()
    except (OSError, pl.exceptions.PolarsError) as error:
        _warn(error)
        return None


def _warn(error: Exception) -> None:
    warnings.warn(f"the cache cannot be written: {error}", RuntimeWarning, stacklevel=3)


class _Fetch:
    """The state of the fetch of one window."""

    def __init__(self, settings: Settings, window: Window) -> None:
        self._settings = settings
        self._window = window
        self._kept: Series | None = None
        if settings.cache is not None:
            self._kept = settings.cache.series(settings.base_url, window, absent=settings.absent)
        self._is_alone = False
        self.frames: list[pl.DataFrame] = []
        self._cached: list[Span] = []
        self.missing: list[Span] = []
        """Spans that were not answered, where that is to be flagged."""
        self._failures: list[TidytapeError] = []
        self._tally = Tally()
        self._notes: list[Note] = []
        """What the service says of markets without points, now and when the cached points were fetched."""
        self._doubtful: list[Part] = []
        """Answers of which something is missing at the ends that nobody explains."""
        self._whole: list[Part] = []
        """Answers that are whole: a service that gives so much did not cut one with less."""
        self._series: set[tuple[str | None, ...]] = set()
        """Series of answers that lack none."""

    # --- the cache ---

    def uncached(self, held: ExitStack) -> Flow[list[Span]]:
        """Return what the cache lacks of the window, as soon as no other process is fetching the same series."""
        if self._kept is None:
            return [self._window.asked]
        missing: list[Span] = yield Call(self._look)
        if missing and self._settings.offline:
            raise IncompleteDataError(
                f"{self._window.data_type}: the client is offline, and the cache lacks {spans(missing)}"
                + ("" if self.frames else f"; {_how_kept(self._settings)}"),
                missing=tuple(missing),
            )
        if missing:
            missing = yield from self._once_alone(self._kept, held)
        return missing

    def _look(self) -> list[Span]:
        """Read the cached points of the window; return what is missing."""
        assert self._kept is not None
        self.frames, self._notes, missing = self._kept.read(self._window.span)
        self._cached = without(self._window.span, missing)
        return missing

    def _once_alone(self, kept: Series, held: ExitStack) -> Flow[list[Span]]:
        """Wait while another process fetches the same series, for what it gets is cached; return what is missing."""
        missing: list[Span] = []
        lock = yield Call(lambda: _spared(kept.lock))
        if lock is None:  # a folder that cannot be written to keeps nothing
            missing = yield Call(self._look)
            self._kept = None
            return missing
        held.callback(lock.release)
        before: list[Span] = []
        began = time.monotonic()
        while not (is_alone := (yield Call(lambda: _is_held(lock)))):
            missing = yield Call(lambda: kept.missing(self._window.span))
            # The other process joins files in the end: a file may go while it is read, and come again.
            if not (missing or (yield Call(self._look))):
                return []
            if missing != before:  # the other process gets on
                before, began = missing, time.monotonic()
            if time.monotonic() - began > self._settings.deadline:
                break  # it waits for something; to fetch twice costs weight, and nothing else
            yield Wait(_POLL)
        self._is_alone = is_alone
        missing = yield Call(self._look)
        return missing

    def tidied(self) -> Flow[None]:
        """Join small files of the cache, and see to its limit."""
        if self._kept is not None and self._is_alone:
            yield Call(partial(_spared, self._kept.tidy))

    # --- requests ---

    def announce(self, missing: Sequence[Span], requests: Sequence[PointsQuery], bar: Bar) -> None:
        """Say how long the budget will make the fetch wait, or refuse to wait, before anything is sent."""
        settings = self._settings
        bar.looks_ahead(ahead(self._window, missing, now=time.time(), burst=settings.quota.burst))
        cost = sum(map(weight, requests))
        wait = settings.quota.seconds_for(cost)
        if settings.partial == "raise":  # else the fetch gets what it can, and flags the rest
            refuse_to_wait(settings, wait, cost, settings.quota.available)
        if not is_too_long(settings, wait):
            bar.waits(wait)

    def part(self, query: PointsQuery, bar: Bar) -> Flow[None]:
        """Fetch one request; where it has more trades than the service gives at once, in shorter ones."""
        at, whole = query.start, query.period
        most = whole
        try:
            if self._settings.quota.is_asked:  # others are on their way, and the budget of all is not known
                yield from informed(self._settings)
            while at < query.end:
                shorter = query.model_copy(update={"start": at, "end": min(at + most, query.end)})
                try:
                    part = yield from self._asked(shorter, bar)
                except QueryError as error:
                    most = _shorter(shorter, error)
                    continue
                if any(lacking(part)) or may_lack_series(part):
                    self._doubtful.append(part)
                else:
                    self._whole += [part] if is_dense(part.query) else []
                    yield from self._believed(part, part.frame)
                at, most = shorter.end, min(whole, 2 * most)
        except (ServiceError, BudgetError) as error:
            self._flag(error, [(query.start, query.end)])
        bar.advance()

    def _asked(self, query: PointsQuery, bar: Bar) -> Flow[Part]:
        settings = self._settings
        now = time.time()  # what was over then is over, however long the answer takes
        answer = yield from ask(
            settings,
            "/v1/points",
            query.to_params(),
            accept=_ACCEPT,
            cost=weight(query),
            waits=bar.waits,
            tally=self._tally,
        )
        # By the earlier of both clocks, and a little before: a service may settle what has just ended.
        sure = min(now, answer.sent_at) - SETTLING
        frame = decoded(answer, query, absent=settings.absent)
        notes = notes_of(answer)
        settings.quota.has_notes |= notes is not None
        self._notes += notes or ()
        return Part(query, frame, notes, self._window.closed(sure), sure)

    def _believed(self, part: Part, frame: pl.DataFrame) -> Flow[None]:
        """Take the points of an answer that is whole, and cache them."""
        frame = within(frame, part.query.start, part.query.end).drop(DATA_UNTIL, strict=False)
        self.frames.append(frame)
        notes = part.notes or ()
        # That the service has no such data, or the tier does not see them, may be otherwise tomorrow.
        is_lacking = frame.is_empty() and {note.code for note in notes} & {NoteCode.NO_DATA, NoteCode.TIER}
        if self._kept is not None and not is_lacking and not is_clashing(frame, part.query):
            span = part.query.start, part.query.end
            store = partial(self._kept.store, span, frame, closed=part.closed, now=part.now, notes=notes)
            yield Call(lambda: _spared(store))

    def _flag(self, error: TidytapeError, missing: Sequence[Span]) -> None:
        """Note what is missing and why, where that is to be flagged; else raise the error."""
        if self._settings.partial != "flag" or isinstance(error, AuthenticationError | TierError):
            raise error
        self.missing += missing
        self._failures.append(error)

    # --- answers that end early ---

    def settled(self, bar: Bar) -> Flow[None]:
        """Check which doubtful answers the service cut; the longest first, because a whole one clears shorter ones."""
        for part in sorted(self._doubtful, key=lambda part: part.frame.height, reverse=True):
            try:
                frame = yield from self._made_whole(part, bar)
            except (IncompleteDataError, ServiceError, BudgetError) as error:
                named = error.missing if isinstance(error, IncompleteDataError) else ()
                self._flag(error, named or list(filter(None, lacking(part))) or [part.span])
                frame = within(part.frame, part.query.start, part.query.end)
                self.frames.append(frame.drop(DATA_UNTIL, strict=False))
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
        """Send a request for part of the window again."""
        (part,) = yield Together([self._asked(self._window.request(*span), bar)])
        return part  # type: ignore[no-any-return]  # of the one flow

    def _asked_again(self, part: Part, probe: Part, spent: int, bar: Bar) -> Flow[pl.DataFrame]:
        """Fetch a cut answer again, in requests so short that no answer reaches the size of the cut one."""
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
        return concatenated([frame for frame in frames if frame.width])

    def metadata(self, frame: pl.DataFrame) -> Metadata:
        """Return the metadata of the finished fetch."""
        window = self._window
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
            reasons_of(window, dict.fromkeys(self._notes), frame, now=time.time()),
            not self.missing if is_dense(window.query) else None,
        )


def _shorter(query: PointsQuery, error: QueryError) -> int:
    """Return a shorter window for one with more trades than the service gives at once. [s]

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
    series = [name for name in ("exchange", "raw_symbol", "coin", "side") if name in frame.columns]
    second = pl.col("timestamp").dt.epoch("s")
    following = second.shift(-1).over(series, order_by="timestamp")
    spans_between = frame.select(start=second + window.query.interval.seconds, end=following)
    missing = union(spans_between.filter(pl.col("start") < pl.col("end")).iter_rows())
    if not missing:
        return
    raise IncompleteDataError(
        f"{window.data_type}: asked for without gaps, the service left {spans(missing)}",
        missing=tuple(missing),
    )


# --- plans ---


def planned(settings: Settings, windows: Sequence[Window], tier: Tier | None = None) -> Flow[Plan]:
    """Plan fetches of several windows; send nothing that has weight, and nothing at all for a tier that is named."""
    lacking = yield Call(lambda: [_missing(settings, window) for window in windows])
    if tier is None and any(lacking):
        yield from informed(settings)
    now, quota = time.time(), settings.quota
    burst = quota.burst if tier is None else tier.burst
    parts: list[PlanPart] = []
    coming: dict[tuple[tuple[str, str], ...], list[Span]] = {}
    for window, missing in zip(windows, lacking, strict=True):
        left = missing
        if settings.cache is not None and not settings.offline:  # what one part fetches is kept for the next
            series = coming.setdefault(tuple(window.params), [])
            left = [rest for span in missing for rest in without(span, series)]
            series += intersected((0, window.closed(now - SETTLING)), missing)
        to_ask = [] if settings.offline else left
        parts.append(
            PlanPart(
                window.query,
                window.start,
                window.end,
                requests=tuple(covering(window, to_ask, burst=burst)),
                cached=() if settings.cache is None else tuple(without(window.span, left)),
                ahead=ahead(window, to_ask, now=now, burst=burst),
                lacking=tuple(left) if settings.offline else (),
                is_certain=settings.is_certain,
            )
        )
    cost = sum(part.weight for part in parts)
    if tier is not None:
        refusal = _refusal(tier, windows, now=now)
        return Plan(tuple(parts), None if refusal else tier.seconds_for(cost), tier.name, refusal)
    return Plan(tuple(parts), quota.seconds_for(cost) if quota.is_known else None)


def _refusal(tier: Tier, windows: Sequence[Window], *, now: float) -> str | None:
    """Return why a tier does not include one of the windows; None if it includes them all."""
    try:
        for window in windows:
            tier.require(window.query, now=now)
    except QueryError as error:
        return str(error)
    return None


def _missing(settings: Settings, window: Window) -> list[Span]:
    if settings.cache is None:
        return [window.asked]
    return settings.cache.series(settings.base_url, window, absent=settings.absent).missing(window.span)
