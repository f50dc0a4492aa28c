"""Making the minutes: only what is new or changed, batch by batch, each batch one commit.

A batch holds the next minutes of as many instruments as memory allows. Minutes that are put in the place of others are
a batch of their own, and so are those of a book, which may be far more than its events.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING

import polars as pl
from deltalake import DeltaTable, Transaction
from tqdm.auto import tqdm

from tidytape.errors import LakeError, TidytapeError, counted
from tidytape.lake import _delta
from tidytape.lake._columns import require_readable, require_writable, unknown
from tidytape.lake.rollup.recipes import RECIPES, Ask, Recipe, within
from tidytape.lake.rollup.state import WHOLE, State, changed_since, edition, stale, state_of
from tidytape.times import DAY, MINUTE, SECOND, Span

if TYPE_CHECKING:
    from tidytape.lake.store import Lake

__all__ = ["RolledUp", "rollup"]

Instrument = tuple[str, str]
"""Exchange and symbol."""

_LONGEST = 92 * DAY
_PATCHES = 100
_EVENTS = 10_000_000
"""Raw events that a batch is made of, about: what memory has to hold."""


@dataclass(frozen=True, slots=True)
class RolledUp:
    """What a rollup did to one table of minutes.

    Attributes
    ----------
    table : str
        Its name.
    instruments : int
        Instruments that have such events.
    rows : int
        Rows that were written.
    """

    table: str
    instruments: int
    rows: int

    def __str__(self) -> str:
        return f"{self.table}: {counted(self.rows, 'row')} written, {counted(self.instruments, 'instrument')}"


def rollup(lake: Lake, *, progress: bool | None = None) -> tuple[RolledUp, ...]:
    """Keep the minutes of every instrument, so that queries need not read its events.

    Only what is new since the last time is made. A process may be killed at any moment, and several may run at once:
    a chunk of minutes is there with the note that it is, or not at all. The minute of an instrument's newest event is
    left to the next time, for it may be in progress. An instrument whose minutes cannot be made keeps no others from
    being made.

    Parameters
    ----------
    lake : Lake
        Whose events.
    progress : bool, optional
        Show a bar on the standard error; by default if that is a terminal.

    Returns
    -------
    tuple of RolledUp, one per table of minutes

    Raises
    ------
    LakeError
        If the lake cannot be read or written, or the minutes of an instrument not be made: after all others are. Before
        anything is written, if minutes have to be made anew that have values in a column of a newer release: this
        release cannot compute them, and queries compute these minutes from the events meanwhile.

    Examples
    --------
    >>> import polars as pl, tempfile
    >>> from tidytape.lake import Lake
    >>> lake = Lake.create(tempfile.mkdtemp())
    >>> trades = pl.DataFrame(
    ...     {
    ...         "exchange": "X", "raw_symbol": "BTCUSDT", "id": ["1", "2"], "timestamp": [0, 60 * 10**9],
    ...         "sequence": [1, 2], "side": "BUY", "price": 10.0, "amount": 1.0, "quote_amount": 10.0,
    ...     }
    ... )
    >>> _ = lake.append("trades", trades, source="by hand")
    >>> rollup(lake)[0].rows, rollup(lake)[0].rows
    (1, 0)
    """
    sizes = {
        (exchange, symbol): None if size is None else Decimal(repr(size))
        for exchange, symbol, size in lake.markets()
        .select("exchange", "raw_symbol", "block_size")
        .iter_rows()
    }
    for name, recipe in RECIPES.items():  # before the first commit
        if lake.has_table(recipe.raw.name):
            require_readable(lake.delta(recipe.raw.name), recipe.raw)
        if lake.has_table(name):
            require_writable(lake.delta(name), recipe.table)
    passes = {name: _Pass.of(lake, recipe, sizes) for name, recipe in RECIPES.items()}
    due = {name: one.due(lake) for name, one in passes.items()}
    for name, one in passes.items():
        _Maker(lake, one.recipe, sizes).require_kept(due[name])
    written = dict.fromkeys(RECIPES, 0)
    failed: list[tuple[str, TidytapeError]] = []
    with tqdm(
        total=sum(map(len, due.values())),
        unit=" instruments",
        disable=None if progress is None else not progress,
    ) as bar:
        for name, one in passes.items():
            bar.set_description(name)
            maker = _Maker(lake, one.recipe, sizes, bar.update)
            written[name] = maker.make(due[name])
            failed += [(f"{name} {' '.join(names)}", error) for names, error in maker.failed]
            one.failed = bool(maker.failed)
    for one in passes.values():
        one.note(lake)
    if failed:
        (what, first), more = failed[0], len(failed) - 1
        others = f"; so did {more} more" if more else ""
        raise LakeError(f"rollup: {what} failed: {first}{others}", path=lake.path) from first
    return tuple(RolledUp(name, len(passes[name].instruments), rows) for name, rows in written.items())


@dataclass(slots=True)
class _Pass:
    """All instruments of one table of minutes: which of them may have something new.

    With thousands of instruments it would take long to ask each. So a pass that has seen to all of them notes up to
    where the events were known, and with which block sizes; the next one asks those that changed since.
    """

    recipe: Recipe
    instruments: list[tuple[str, str]]
    seen: int
    sizes: int
    failed: bool = False

    @classmethod
    def of(cls, lake: Lake, recipe: Recipe, sizes: Mapping[tuple[str, str], Decimal | None]) -> _Pass:
        """Begin one, with the events as they are known now."""
        names = [(exchange, symbol) for exchange, symbol in lake.instruments(recipe.raw.name)]
        seen = edition(lake.delta(recipe.raw.name)) if names else 0
        heights = [(one, str(sizes.get(one))) for one in names] if recipe.has_rows else []
        return cls(recipe, names, seen, zlib.crc32(repr(heights).encode()))

    def due(self, lake: Lake) -> list[tuple[str, str]]:
        """The instruments that may have something new."""
        kept = self._kept(lake)
        if kept is None:
            return self.instruments
        whole, sizes = (kept.transaction_version(name) for name in (WHOLE, "sizes"))
        if whole is None or sizes != self.sizes:
            return self.instruments
        changed = changed_since(lake.delta(self.recipe.raw.name), whole)
        return self.instruments if changed is None else [one for one in self.instruments if one in changed]

    def note(self, lake: Lake) -> None:
        """Note that all instruments are seen to, unless that is noted or not so."""
        kept = self._kept(lake)
        if kept is None or self.failed:
            return
        notes = {WHOLE: self.seen, "sizes": self.sizes}

        def attempt(delta: DeltaTable) -> None:
            if any(delta.transaction_version(name) != value for name, value in notes.items()):
                _delta.noted(delta, [Transaction(name, value) for name, value in notes.items()])

        uri = lake.uri(self.recipe.table.name)
        _delta.retrying(uri, attempt, lake.storage_options, known=kept)

    def _kept(self, lake: Lake) -> _delta.Opened | None:
        name = self.recipe.table.name
        return lake.delta(name) if self.instruments and lake.has_table(name) else None


@dataclass(frozen=True, slots=True)
class _Missing:
    """What is to be made of one instrument.

    Attributes
    ----------
    block_size : Decimal or None
        Height of its price rows.
    old : list of Span
        Minutes that are made and that later events changed.
    rest : Span
        Minutes that are not made yet; empty where it ends before it begins.
    """

    block_size: Decimal | None
    old: list[Span]
    rest: Span

    @property
    def spans(self) -> list[Span]:
        """All of it."""
        first, last = self.rest
        return [*self.old, self.rest] if first < last else self.old


@dataclass(frozen=True, slots=True)
class _Step:
    """The next minutes to be made of one instrument.

    Attributes
    ----------
    names : tuple of str
        The instrument.
    spans : list of Span
        Which minutes.
    state : State
        What is known of its minutes once they are made.
    block_size : Decimal or None
        Height of their price rows.
    events : float
        Raw events that they are made of, about.
    replaces : bool
        Whether other minutes may be kept there.
    is_last : bool
        Whether nothing is missing afterwards.
    """

    names: Instrument
    spans: list[Span]
    state: State
    block_size: Decimal | None
    events: float
    replaces: bool
    is_last: bool

    @property
    def asks(self) -> list[Ask]:
        """What is asked of a recipe, by span."""
        return [Ask(*self.names, first, last, self.block_size) for first, last in self.spans]


class _Maker:
    """Makes the minutes of one table.

    Parameters
    ----------
    lake : Lake
    recipe : Recipe
    sizes : mapping of tuple to Decimal or None
        Block size of each market.
    progress : callable, optional
        Takes the number of instruments that are done.

    Attributes
    ----------
    failed : list of (tuple of str, TidytapeError)
        Instruments whose minutes could not be made.
    """

    def __init__(
        self,
        lake: Lake,
        recipe: Recipe,
        sizes: Mapping[Instrument, Decimal | None],
        progress: Callable[[int], object] = lambda _: None,
    ) -> None:
        self.lake = lake
        self.recipe = recipe
        self.failed: list[tuple[Instrument, TidytapeError]] = []
        self._sizes = sizes
        self._progress = progress
        self._steps: list[_Step] = []
        self._is_made = False

    def require_kept(self, instruments: Sequence[Instrument]) -> None:
        """Raise LakeError if making what is missing of some instruments would lose values of a newer release."""
        lake, table = self.lake, self.recipe.table
        if not instruments or not lake.has_table(table.name):
            return
        kept = lake.delta(table.name)
        if not unknown(kept, table):
            return
        kept.read_notes(len(instruments))
        raw = lake.delta(self.recipe.raw.name)
        missing = ((names, self._missing(kept, raw, names)) for names in instruments)
        asks = [Ask(*names, *span) for names, what in missing if what is not None for span in what.spans]
        _require_kept(lake, kept, self.recipe, asks)

    def make(self, instruments: Sequence[Instrument]) -> int:
        """Make what is missing of some instruments; return how many rows were written."""
        lake, table, written = self.lake, self.recipe.table, 0
        if instruments and not lake.has_table(table.name):
            _delta.create(lake.uri(table.name), table, lake.storage_options)
        waiting = list(instruments)
        while waiting:
            try:
                # What is open already will do for the first attempt: opening a table takes long.
                rows, left = _delta.retrying(
                    lake.uri(table.name),
                    partial(self._batch, waiting),
                    lake.storage_options,
                    known=lake.delta(table.name),
                )
            except TidytapeError as error:
                if len(self._steps) == 1:
                    rows, failed = 0, self._steps[0].names
                    self.failed.append((failed, error))
                    left = [names for names in waiting if names != failed]
                elif self._is_made:
                    raise  # what keeps a batch from being written keeps all others from it too
                else:
                    # One instrument with bad events keeps no other from being made: it is looked for by halves.
                    half = len(waiting) // 2
                    return written + self.make(waiting[:half]) + self.make(waiting[half:])
            written += rows
            self._progress(len(waiting) - len(left))
            waiting = left
        return written

    def _batch(self, waiting: list[Instrument], kept: _delta.Opened) -> tuple[int, list[Instrument]]:
        """Make the next minutes of some instruments in one commit.

        Returns
        -------
        int
            Rows that were written.
        list of tuple of str
            Instruments of which more may be missing.
        """
        self._steps, self._is_made, left = [], False, []
        kept.read_notes(len(waiting))
        raw, events = self.lake.delta(self.recipe.raw.name), 0.0
        for place, names in enumerate(waiting):
            step = self._step(kept, raw, names)
            if step is None:
                continue
            alone = step.replaces or self.recipe.lasts
            if self._steps and (alone or events + step.events > _EVENTS):
                left += waiting[place:]
                break
            self._steps.append(step)
            events += step.events
            if not step.is_last:
                left.append(names)
            if alone:
                left += waiting[place + 1 :]
                break
        return self._written(kept, self._steps) if self._steps else 0, left

    def _missing(self, kept: _delta.Opened, raw: _delta.Opened, names: Instrument) -> _Missing | None:
        """Return what is to be made of an instrument, None where no minutes can be made of it."""
        size = self._sizes.get(names) if self.recipe.has_rows else None
        if size is None and self.recipe.has_rows:
            return None  # its price rows have no height
        first, last = self.lake.extent(self.recipe.raw.name, *names)
        if first is None or last is None:
            return None  # without a file, or another tool wrote them and did not note their times; a check says so
        begin, newest = first // MINUTE * MINUTE, last // MINUTE * MINUTE
        state = state_of(kept, names, size)
        if state is None:
            return _Missing(size, [], (begin, newest))
        old = stale(self.recipe, raw, names, state)
        if sum(last - first for first, last in old) > _LONGEST or len(old) > _PATCHES:
            # Too much to mend at once: from the first of it on, all is made anew. Rows further on stay until they
            # are replaced, but nobody reads what lies beyond the note.
            return _Missing(size, [], (max(old[0][0], begin), newest))
        return _Missing(size, old, (state.until, newest))

    def _step(self, kept: _delta.Opened, raw: _delta.Opened, names: Instrument) -> _Step | None:
        """Return the next minutes to be made of an instrument, None where nothing is missing."""
        missing = self._missing(kept, raw, names)
        if missing is None:
            return None
        size, (at, newest) = missing.block_size, missing.rest
        if missing.old:
            state = State(edition(raw), at)
            return _Step(names, missing.old, state, size, 0.0, replaces=True, is_last=False)
        if at >= newest:
            return None
        until, events = _chunk(_delta.files(raw, names), at, newest)
        return _Step(
            names,
            [(at, until)],
            State(edition(raw), until),
            size,
            events,
            replaces=_delta.may_hold(kept, names, start=at, end=until),
            is_last=until == newest,
        )

    def _written(self, kept: _delta.Opened, steps: list[_Step]) -> int:
        """Make the minutes of some steps, and commit them with their states; return how many rows."""
        table = self.recipe.table
        # Only a step that is a batch by itself has several spans.
        parts = (
            [[ask] for ask in steps[0].asks]
            if len(steps) == 1
            else [[ask for step in steps for ask in step.asks]]
        )
        with _delta.failing(f"make the minutes of {steps[0].names[0]} {steps[0].names[1]}", self.lake.path):
            made = [self.recipe.minutes(self.lake, *asks).select(table.names) for asks in parts]
            rows = table.conform(pl.concat(pl.collect_all(made, engine="streaming"))).sort(table.order)
        self._is_made = True
        notes = [note for step in steps for note in step.state.notes(step.names, step.block_size)]
        if steps[0].replaces:
            _require_kept(
                self.lake, kept, self.recipe, steps[0].asks
            )  # events may have come late since the rollup began
            _delta.replace_spans(kept, table, rows, steps[0].names, steps[0].spans, notes=notes)
        else:
            names = [step.names for step in steps]
            _delta.append_spans(kept, table, rows, names, notes=notes, options=self.lake.storage_options)
        return rows.height


def _require_kept(lake: Lake, kept: _delta.Opened, recipe: Recipe, asks: Sequence[Ask]) -> None:
    """Raise LakeError if some minutes have values in columns that this release does not know.

    Made anew they would be null for good: a newer release reads in the notes that these minutes are made.
    """
    names = [field.name for field in unknown(kept, recipe.table)]
    if not names or not asks:
        return
    has_value = [pl.col(name).is_not_null() for name in names]
    rows = _delta.scanned(kept, recipe.table, lake.storage_options, every=True)
    first = within(rows.filter(pl.any_horizontal(has_value)), asks).select(
        "exchange", "raw_symbol", "timestamp", *has_value
    )
    with _delta.failing("read the table", kept.table_uri, lake.storage_options):
        lost = first.sort("timestamp").head(1).collect(engine="streaming")
    if lost.is_empty():
        return
    exchange, symbol, time, *has = lost.row(0)
    column = names[has.index(True)]
    when = datetime.fromtimestamp(time // SECOND, UTC).isoformat()
    raise LakeError(
        f"table {recipe.table.name!r}: column {column!r} has values in minutes that have to be made anew, the first "
        f"{exchange} {symbol} {when}, and this release does not know it; a newer release of tidytape can make them",
        path=lake.uri(recipe.table.name),
    )


def _chunk(files: Sequence[_delta.Facts], at: int, newest: int) -> tuple[int, float]:
    """Return the end of the next minutes to be made from ``at`` on, and about how many events they are made of.

    They are the longest run of whole days that holds no more events than a batch may, and one day at least.
    """
    day = at // DAY
    until = min(newest, (day + _LONGEST // DAY) * DAY)
    events = _events_within(files, at, until)
    if events <= _EVENTS:
        return until, events
    previous = min(newest, (day + 1) * DAY)
    for days in range(2, _LONGEST // DAY + 1):
        end = min(newest, (day + days) * DAY)
        if _events_within(files, at, end) > _EVENTS:
            break
        previous = end
    return previous, _events_within(files, at, previous)


def _events_within(files: Sequence[_delta.Facts], start: int, end: int) -> float:
    """About how many events some files hold of a span: those of a file as if they lay evenly in its time."""
    total = 0.0
    for rows, first, last, *_ in files:
        if rows is not None and first is not None and last is not None:
            inside = min(last + 1, end) - max(first, start)
            total += rows * min(max(inside / (last - first + 1), 0.0), 1.0)
    return total
