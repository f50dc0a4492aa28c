"""The rows of a batch that are not there yet. A row that contradicts the one it repeats is an error, never a choice."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl

from tidytape.errors import IngestError
from tidytape.lake.batch import Batch, Part
from tidytape.lake.table import Table

__all__ = ["fresh"]


def fresh(batch: Batch, stored: Callable[[Part], pl.LazyFrame]) -> Batch:
    """Return the rows of a batch whose key is new, each once.

    Parameters
    ----------
    batch : Batch
        What was read.
    stored : callable
        The rows of the table that could repeat rows of a part: at least the columns of the table's ``key`` and
        ``same``.

    Returns
    -------
    Batch
        Its rows sorted inside each part by the table's ``order``.

    Raises
    ------
    IngestError
        If two rows have the same key and are not the same.
    """
    table = batch.table
    kept = Batch(table, batch.spool)
    facts = [*table.key, *table.same]
    for part in batch:
        frame = _each_once(part.frame(), table)
        for earlier in kept:
            if part.meets(earlier):
                frame = _without(frame, earlier.frame().lazy(), table)
        frame = _without(frame, stored(part).select(facts), table)
        kept.add(frame.sort(table.order))
    return kept


def _each_once(frame: pl.DataFrame, table: Table) -> pl.DataFrame:
    keyed = pl.all_horizontal(pl.col(table.key).is_not_null())
    repeated = frame.filter(keyed & pl.struct(table.key).is_duplicated())
    if repeated.is_empty():
        return frame
    once = repeated.unique(table.key, keep="first", maintain_order=True)
    _agree(repeated, once, table)
    first = frame.with_row_index("__row").unique(table.key, keep="first").get_column("__row")
    rows = pl.int_range(frame.height)
    return frame.filter(~keyed | rows.is_in(first.implode()))


def _without(frame: pl.DataFrame, known: pl.LazyFrame, table: Table) -> pl.DataFrame:
    """Rows whose key is not among the known ones. A null equals nothing, so a row with one stays."""
    there = known.join(frame.lazy().select(table.key), on=table.key, how="semi").collect()
    if there.is_empty():
        return frame
    _agree(frame, there, table)
    return frame.join(there, on=table.key, how="anti", maintain_order="left")


def _agree(frame: pl.DataFrame, there: pl.DataFrame, table: Table) -> None:
    both = frame.join(there.select(*table.key, *table.same), on=table.key, suffix="_there")
    differs = pl.any_horizontal(pl.col(name).ne_missing(pl.col(f"{name}_there")) for name in table.same)
    wrong = both.filter(differs)
    if wrong.is_empty():
        return
    row = wrong.row(0, named=True)
    key = ", ".join(f"{name} {row[name]!r}" for name in table.key)
    what = ", ".join(
        f"{name} {row[name]!r} and {row[f'{name}_there']!r}"
        for name in table.same
        if row[name] != row[f"{name}_there"]
    )
    raise IngestError(
        f"{table.name}: the same row with different content, {wrong.height} in all: {key} has {what}"
    )
