"""Making the minutes: only what is new or changed, chunk by chunk, each chunk one commit."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

import polars as pl
from deltalake import DeltaTable, Transaction
from tqdm.auto import tqdm

from tidytape.errors import LakeError, QueryError, counted
from tidytape.lake import _delta
from tidytape.lake.rollup.recipes import MINUTE, RECIPES, Ask, Recipe
from tidytape.lake.rollup.state import WHOLE, Span, State, changed_since, edition, stale, state_of

if TYPE_CHECKING:
    from tidytape.lake.store import Lake

__all__ = ["RolledUp", "rollup"]

_DAY = 1_440 * MINUTE
_LONGEST = 92 * _DAY
_PATCHES = 100
_EVENTS = 10_000_000
"""Raw events that a chunk is made of, about: what memory has to hold."""


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
        If the lake cannot be read or written, or the minutes of an instrument not be made: after all others are.

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
    passes = {name: _Pass.of(lake, recipe, sizes) for name, recipe in RECIPES.items()}
    work = [(one.recipe, names) for one in passes.values() for names in one.due(lake)]
    written = dict.fromkeys(RECIPES, 0)
    failed: list[tuple[str, LakeError | QueryError]] = []
    bar = tqdm(work, unit=" instruments", disable=None if progress is None else not progress)
    for recipe, names in bar:
        what = f"{recipe.table.name} {' '.join(names)}"
        bar.set_description(what)
        size = sizes.get(names) if recipe.has_rows else None
        if size is None and recipe.has_rows:
            continue  # nobody has said of which height its rows are
        try:
            written[recipe.table.name] += sum(_Job(lake, recipe, names, size).run())
        except (LakeError, QueryError) as error:
            failed.append((what, error))
            passes[recipe.table.name].failed = True
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

    def _kept(self, lake: Lake) -> DeltaTable | None:
        name = self.recipe.table.name
        return lake.delta(name) if self.instruments and lake.has_table(name) else None


@dataclass(frozen=True, slots=True)
class _Job:
    """The minutes of one table and instrument."""

    lake: Lake
    recipe: Recipe
    names: tuple[str, str]
    block_size: Decimal | None

    def run(self) -> Iterator[int]:
        """Make what is missing; yield the rows of each chunk."""
        table, lake = self.recipe.table, self.lake
        if not lake.has_table(table.name):
            _delta.create(lake.uri(table.name), table, lake.storage_options)
        uri = lake.uri(table.name)
        # What is open already will do: with thousands of instruments, opening it for each is what takes the time.
        while (
            rows := _delta.retrying(uri, self._step, lake.storage_options, known=lake.delta(table.name))
        ) is not None:
            yield rows

    def _step(self, kept: DeltaTable) -> int | None:
        """Make the next chunk, in one commit; return its rows, None where nothing is missing."""
        raw = self.lake.delta(self.recipe.raw.name)
        files = _delta.files(raw, self.names)
        if files.is_empty():
            return None
        first, last = files.select(pl.col("first").min(), pl.col("last").max()).row(0)
        if first is None:
            return None  # another tool wrote them, and did not note their times; a check says so
        begin, newest = first // MINUTE * MINUTE, last // MINUTE * MINUTE
        state = state_of(kept, self.names, self.block_size)
        if state is not None:
            old = stale(self.recipe, raw, self.names, state)
            if sum(last - first for first, last in old) > _LONGEST or len(old) > _PATCHES:
                # Too much to mend at once: from the first of it on, all is made anew. Rows further on stay until they
                # are replaced, but nobody reads what lies beyond the note.
                state = State(state.version, old[0][0]) if old[0][0] > begin else None
            elif old:
                return self._write(kept, old, State(edition(raw), state.until))
        at = begin if state is None else state.until
        if at >= newest:
            return None
        until = min(newest, _chunk_end(files, at))
        return self._write(kept, [(at, until)], State(edition(raw), until))

    def _write(self, kept: DeltaTable, spans: list[Span], state: State) -> int:
        """Make the minutes of some spans, and put them in the place of what is kept there; return how many rows."""
        table = self.recipe.table
        asks = [Ask(*self.names, first, last, self.block_size) for first, last in spans]
        made = [self.recipe.minutes(self.lake, ask).select(table.names) for ask in asks]
        rows = table.conform(pl.concat(pl.collect_all(made, engine="streaming"))).sort(table.order)
        notes = state.notes(self.names, self.block_size)
        _delta.replace_spans(kept, table, rows, self.names, spans, notes=notes)
        return rows.height


def _chunk_end(files: pl.DataFrame, at: int) -> int:
    """Return the end of the longest run of whole days from ``at`` on that holds no more events than a chunk may."""
    day = at // _DAY
    within = files.filter(pl.col("last") >= at)
    longest = (day + _LONGEST // _DAY) * _DAY
    if within["rows"].sum() <= _EVENTS:
        return longest
    span = pl.col("last") - pl.col("first") + 1
    for days in range(1, _LONGEST // _DAY + 1):
        end = (day + days) * _DAY
        inside = pl.min_horizontal("last", pl.lit(end)) - pl.max_horizontal("first", pl.lit(at))
        events = within.select((pl.col("rows") * (inside / span).clip(0, 1)).sum()).item()
        if events > _EVENTS and days > 1:
            return end - _DAY
    return longest
