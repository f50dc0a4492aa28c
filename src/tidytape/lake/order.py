"""The order of trades of one timestamp where nothing but their lines tells it.

The lines of one file order its trades, and say nothing about another file. So a file that is added counts on from what
the lake holds between its first and its last new trade: of one timestamp, what comes later to the lake happened later.
One case is known better. Where the file and the lake share nothing but the timestamps at the file's ends, they are
pieces of one tape, and the file's trades at its last timestamp happened before those that are there.

A tape cut anywhere into files is so put together again whatever the order in which they are added, oldest or newest
trade first; only the pieces of one single timestamp must be added in their order. Nobody can know where trades belong
that a later file has and an earlier one leaves out in the middle of a timestamp, nor how trades with integer ids and
trades without stand beside each other.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

import polars as pl

from tidytape.lake.batch import Batch

__all__ = ["counted_on"]

_INSTRUMENT = ["exchange", "raw_symbol"]


def counted_on(new: Batch, stored: Callable[[Collection[tuple[str, ...]], int, int], pl.LazyFrame]) -> Batch:
    """Return a batch with its ``sequence`` counted on from the rows that are there.

    Parameters
    ----------
    new : Batch
        New rows, whose ``sequence`` orders those of one instrument and timestamp.
    stored : callable
        Of some instruments, the rows of the table from one timestamp to another, both included.

    Returns
    -------
    Batch
        The same rows. No two rows of one instrument, here or there, have the same (timestamp, sequence), unless those
        there have already.
    """
    if not new.parts:
        return new
    time, sequence = pl.col("timestamp"), pl.col("sequence")
    spans = (
        pl.concat(
            part.frame()
            .group_by(_INSTRUMENT)
            .agg(first=time.min(), last=time.max(), low=sequence.min(), high=sequence.max())
            for part in new
        )
        .group_by(_INSTRUMENT)
        .agg(pl.col("first", "low").min(), pl.col("last", "high").max())
    )
    begin, end = min(part.first for part in new), max(part.last for part in new)
    there = (
        stored(new.instruments, begin, end)
        .select(*_INSTRUMENT, "timestamp", "sequence")
        .join(spans.lazy(), on=_INSTRUMENT)
        .filter(time.is_between("first", "last"))
        .group_by(*_INSTRUMENT, "last", "low", "high")
        .agg(
            top=sequence.max(),
            bottom=sequence.filter(time == pl.col("last")).min(),
            apart=((time == pl.col("first")) | (time == pl.col("last"))).all()
            & (pl.col("first") < pl.col("last")).all(),
        )
        .select(
            *_INSTRUMENT,
            "last",
            up=pl.max_horizontal(pl.col("top") - pl.col("low") + 1, 0),
            down=pl.when("apart").then(pl.min_horizontal(pl.col("bottom") - pl.col("high") - 1, 0)),
        )
        .collect()
    )
    if there.is_empty():
        return new
    shift = pl.coalesce(pl.when(time == pl.col("last")).then("down"), "up").fill_null(0)

    def shifted(rows: pl.DataFrame) -> pl.DataFrame:
        with_shift = rows.join(there, on=_INSTRUMENT, how="left", maintain_order="left")
        return with_shift.with_columns(sequence=sequence + shift).select(rows.columns)

    counted = Batch(new.table, new.spool)
    counted.parts = [part.changed(shifted) for part in new]
    return counted
