"""Making the minutes: only what is new or changed, chunk by chunk, each chunk one commit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

import polars as pl
from deltalake import DeltaTable
from tqdm.auto import tqdm

from tidytape.lake import _delta
from tidytape.lake.rollup.recipes import MINUTE, RECIPES, Ask, Recipe
from tidytape.lake.rollup.state import Span, State, stale, state_of

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
        return f"{self.table}: {self.rows:,} rows written, {self.instruments:,} instruments"


def rollup(lake: Lake, *, progress: bool | None = None) -> tuple[RolledUp, ...]:
    """Keep the minutes of every instrument, so that queries need not read its events.

    Only what is new since the last time is made. A process may be killed at any moment, and several may run at once:
    a chunk of minutes is there with the note that it is, or not at all. The minute of an instrument's newest event is
    left to the next time, for it may be in progress.

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
        If the lake cannot be read or written.

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
    work = [
        (recipe, (exchange, symbol))
        for recipe in RECIPES.values()
        for exchange, symbol in lake.instruments(recipe.raw.name)
    ]
    written = dict.fromkeys(RECIPES, 0)
    bar = tqdm(work, unit=" instruments", disable=None if progress is None else not progress)
    for recipe, names in bar:
        bar.set_description(f"{recipe.table.name} {' '.join(names)}")
        size = sizes.get(names) if recipe.has_rows else None
        if size is None and recipe.has_rows:
            continue  # nobody has said of which height its rows are
        written[recipe.table.name] += sum(_Job(lake, recipe, names, size).run())
    count = {name: sum(recipe.table.name == name for recipe, _ in work) for name in RECIPES}
    return tuple(RolledUp(name, count[name], rows) for name, rows in written.items())


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
        while (rows := _delta.retrying(uri, self._step, lake.storage_options)) is not None:
            yield rows

    def _step(self, kept: DeltaTable) -> int | None:
        """Make the next chunk, in one commit; return its rows, None where nothing is missing."""
        raw = self.lake.delta(self.recipe.raw.name)
        files = _delta.files(raw, self.names)
        if files.is_empty():
            return None
        first, last = files.select(pl.col("first").min(), pl.col("last").max()).row(0)
        begin, newest = first // MINUTE * MINUTE, last // MINUTE * MINUTE
        state = state_of(kept, self.names, self.block_size)
        if state is not None:
            old = stale(self.recipe, raw, self.names, state)
            if sum(last - first for first, last in old) > _LONGEST or len(old) > _PATCHES:
                # Too much to mend at once: from the first of it on, all is made anew. Rows further on stay until they
                # are replaced, but nobody reads what lies beyond the note.
                state = State(state.version, old[0][0]) if old[0][0] > begin else None
            elif old:
                return self._write(kept, old, State(raw.version(), state.until))
        at = begin if state is None else state.until
        if at >= newest:
            return None
        until = min(newest, _chunk_end(files, at))
        return self._write(kept, [(at, until)], State(raw.version(), until))

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
    span = pl.col("last") - pl.col("first") + 1
    for days in range(1, _LONGEST // _DAY + 1):
        end = (day + days) * _DAY
        inside = pl.min_horizontal("last", pl.lit(end)) - pl.max_horizontal("first", pl.lit(at))
        events = within.select((pl.col("rows") * (inside / span).clip(0, 1)).sum()).item()
        if events > _EVENTS and days > 1:
            return end - _DAY
    return (day + _LONGEST // _DAY) * _DAY
