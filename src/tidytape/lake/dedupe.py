"""The rows of a batch that are not there yet. A row that contradicts the one it repeats is an error, never a choice.

An event happens once, so two rows of one id must say the same, wherever they come from. A state may be told several
times for one time of the exchange: venues stamp a burst of updates alike. Of those in one file the one that was
received last holds, else the one on the later line, and the others are counted as superseded.

Between files a state that differs stays an error, because a wrong unit or symbol shows itself by nothing else. Two
recorders of one feed agree: both saw the whole burst. Only where a recording begins or ends may it hold a part of one.
So at the first and the last time that a file has of an instrument the lake's row stays, and the file's is counted as
superseded: both were true at that instant. (A file of a single time has no ends to be cut at: it must agree.) A second
recording with gaps of its own is refused as soon as a gap cuts a burst in two.

Memory is bounded by the parts, beside 8 bytes for each row of those parts that could hold the same ids: none of a tape
whose ids rise, all of one whose ids are random. Such a tape is also compared with everything the lake has of its
instrument, once per million rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import polars as pl

from tidytape.errors import IngestError
from tidytape.lake.batch import Batch, Part
from tidytape.lake.table import Table

__all__ = ["Stored", "fresh"]

Stored = Callable[[frozenset[tuple[str, ...]], Any, Any], pl.LazyFrame]
"""The rows of a table that some instruments have between two values, included, of its ``identity``."""

_AT_ONCE = 2**20
"""Rows that are looked for in the lake together. [rows]"""

_HASH, _PART, _ROW = "__hash", "__part", "__row"


def fresh(batch: Batch, stored: Stored) -> tuple[Batch, int]:
    """Return the rows of a batch whose key is new, each once.

    Parameters
    ----------
    batch : Batch
        What was read.
    stored : callable
        The rows of the table that could repeat some: at least the columns of its ``key`` and ``same``.

    Returns
    -------
    Batch
        Its new rows.
    int
        How many states were left out because another one of their time holds.

    Raises
    ------
    IngestError
        If two rows have the same key and are not the same.
    """
    table = batch.table
    again = _again(batch)
    superseded = sum(map(len, again.values())) if table.tells_states else 0
    kept = Batch(table, batch.spool)
    for run in _runs(batch):
        frames = {position: part.frame() for position, part in run}
        for position in frames.keys() & again.keys():
            frames[position] = _dropped(frames[position], again[position])
        there = _there([part for _, part in run], list(frames.values()), stored, table)
        for position, part in run:
            frame = frames[position]
            if not there.is_empty():
                wrong = _differing(frame, there, table)
                if table.tells_states and wrong.height:
                    inside = _inside(wrong, batch)
                    superseded += wrong.height - inside.height
                    wrong = inside
                _refuse(wrong, table)
                frame = frame.join(there, on=table.key, how="anti", maintain_order="left")
            if frame.height == part.rows:
                kept.parts.append(part)  # where it lies, instead of another copy
            else:
                kept.add(frame)
    return kept, superseded


def _runs(batch: Batch) -> Iterator[list[tuple[int, Part]]]:
    """Yield the parts with their positions, so many at once as fit into memory together."""
    run: list[tuple[int, Part]] = []
    for position, part in enumerate(batch):
        if run and sum(other.rows for _, other in run) + part.rows > _AT_ONCE:
            yield run
            run = []
        run.append((position, part))
    if run:
        yield run


# -- inside the batch ------------------------------------------------------------------------------------------------


def _again(batch: Batch) -> dict[int, pl.Series]:
    """Return the rows that come again, by the position of their part: their positions in it."""
    table = batch.table
    repeated = _repeated(batch)
    if repeated.is_empty():
        return {}
    time = ["received"] if "received" in table.names else []
    found = pl.concat(
        _hashed(part.frame(), table)
        .select(*dict.fromkeys([*table.key, *table.same, *time]), _HASH)
        .with_row_index(_ROW)
        .filter(pl.col(_HASH).is_not_null())
        .filter(_among(repeated))
        .with_columns(pl.lit(position).alias(_PART))
        for position, part in enumerate(batch)
    )
    if table.tells_states:
        found = found.sort(*time, _PART, _ROW)  # nulls first: what has a time of receipt holds
    once = found.unique(table.key, keep="last" if table.tells_states else "first", maintain_order=True)
    if not table.tells_states:
        _refuse(_differing(found, once, table), table)
    others = found.join(once, on=[_PART, _ROW], how="anti")
    return {position: rows[_ROW] for (position,), rows in others.partition_by(_PART, as_dict=True).items()}


def _repeated(batch: Batch) -> pl.Series:
    """Return the hashes, sorted, that more than one row has; a row may share its hash with another by chance."""
    seen = [pl.Series(dtype=pl.UInt64)]
    for position, part in enumerate(batch):
        hashes = _hashed(part.frame(), batch.table)[_HASH].drop_nulls()
        crowded = any(part.meets(other) for place, other in enumerate(batch) if place != position)
        seen.append(hashes if crowded else hashes.filter(hashes.is_duplicated()))
    every = pl.concat(seen).sort()
    return every.filter(every == every.shift(1))


def _hashed(frame: pl.DataFrame, table: Table) -> pl.DataFrame:
    """The rows with the hash of their key, null where any of it is null: such a row repeats nothing."""
    keyed = pl.all_horizontal(pl.col(table.key).is_not_null())
    # Each column by itself is many times faster than the columns as one struct.
    mixed = pl.sum_horizontal(pl.col(name).hash(seed) for seed, name in enumerate(table.key))
    return frame.with_columns(pl.when(keyed).then(mixed).alias(_HASH))


def _among(hashes: pl.Series) -> pl.Expr:
    place = pl.lit(hashes).search_sorted(pl.col(_HASH)).clip(0, len(hashes) - 1)
    return pl.lit(hashes).gather(place) == pl.col(_HASH)


def _dropped(frame: pl.DataFrame, rows: pl.Series) -> pl.DataFrame:
    return (
        frame.with_row_index(_ROW)
        .join(rows.to_frame(), on=_ROW, how="anti", maintain_order="left")
        .drop(_ROW)
    )


# -- beside the lake -------------------------------------------------------------------------------------------------


def _there(parts: list[Part], frames: list[pl.DataFrame], stored: Stored, table: Table) -> pl.DataFrame:
    """Return key and facts of the rows in the lake whose key some rows have."""
    facts = [*table.key, *table.same]
    known = [part for part in parts if part.low is not None]
    if not known:
        return table.empty().select(facts)
    keys = pl.concat(frame.select(table.key) for frame in frames)
    instruments = frozenset().union(*(part.instruments for part in known))
    rows = stored(instruments, min(part.low for part in known), max(part.high for part in known))
    # Streaming, so that what the lake has is never in memory as a whole.
    return rows.select(facts).join(keys.lazy(), on=table.key, how="semi").collect(engine="streaming")


def _differing(frame: pl.DataFrame, there: pl.DataFrame, table: Table) -> pl.DataFrame:
    both = frame.join(there.select(*table.key, *table.same), on=table.key, suffix="_there")
    return both.filter(
        pl.any_horizontal(pl.col(name).ne_missing(pl.col(f"{name}_there")) for name in table.same)
    )


def _inside(wrong: pl.DataFrame, batch: Batch) -> pl.DataFrame:
    """Those rows that are not at one of the two ends of what the batch has of their instrument."""
    names = [name for name in batch.table.key if name != "timestamp"]
    time = pl.col("timestamp")
    ends = (
        pl.concat(part.frame().group_by(names).agg(first=time.min(), last=time.max()) for part in batch)
        .group_by(names)
        .agg(pl.col("first").min(), pl.col("last").max())
    )
    between = (time > pl.col("first")) & (time < pl.col("last"))
    return wrong.join(ends, on=names).filter(between | (pl.col("first") == pl.col("last")))


def _refuse(wrong: pl.DataFrame, table: Table) -> None:
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
