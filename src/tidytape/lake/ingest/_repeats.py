"""Rows of one file that share a key: ids where it has none, the last of several snapshots, one id for two events."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from tidytape.lake.batch import Batch, Part

_CONTENT = ("exchange", "raw_symbol", "timestamp", "price", "amount", "side")


def with_ids(rows: pl.DataFrame, before: Batch) -> pl.DataFrame:
    """Add ids made from content; identical events are numbered, on from those read before.

    Parameters
    ----------
    rows : polars.DataFrame, one row per event
        ``exchange``, ``raw_symbol``, ``timestamp``, ``price``, ``amount`` and ``side``.
    before : Batch
        The file's events so far.

    Returns
    -------
    polars.DataFrame, same rows
        With ``id``. The same events in another export get the same ids.
    """
    if rows.is_empty():
        return rows.with_columns(id=pl.lit(None, pl.String))
    first, last = rows["timestamp"].min(), rows["timestamp"].max()
    ids = pl.concat_str(
        *(pl.col(name) for name in ("timestamp", "price", "amount", "side", "__number")), separator="/"
    )
    earlier = [
        part.frame().select(_CONTENT)
        for part in before
        if part.first <= last and first <= part.last  # type: ignore[operator]  # polars types any value
    ]
    numbered = rows.with_columns(pl.int_range(pl.len()).over(_CONTENT).alias("__number"))
    if earlier:
        seen = pl.concat(earlier).group_by(_CONTENT).agg(pl.len().cast(pl.Int64).alias("__seen"))
        numbered = numbered.join(seen, on=_CONTENT, how="left", maintain_order="left").with_columns(
            pl.col("__number") + pl.col("__seen").fill_null(0)
        )
    return numbered.with_columns(ids.alias("id"))


def one_id_each(rows: pl.DataFrame, same: Sequence[str]) -> pl.DataFrame:
    """Add a ``reason`` where an id was given to another event before; a row that only repeats it is good.

    Only the rows at hand are compared. Such an id in another block of the file is an error when the file is checked.

    Parameters
    ----------
    rows : polars.DataFrame, one row per event
        ``exchange``, ``raw_symbol``, ``id`` and what ``same`` names.
    same : sequence of str
        Columns in which events of one id must agree.
    """
    key = ["exchange", "raw_symbol", "id"]
    differs = pl.any_horizontal(pl.col(name) != pl.col(name).first().over(key) for name in same)
    return rows.with_columns(
        reason=pl.when(pl.col("id").is_not_null() & differs).then(
            pl.lit("another event before it has the same id")
        )
    )


def keep_latest(batch: Batch, event: pl.Expr) -> int:
    """Of several events of one instrument and timestamp keep the one that was read last; return how many went.

    It is for events of many rows, such as snapshots of a book; of states of one row the lake itself keeps one, see
    `tidytape.lake.dedupe`. Parts are compared only where their times overlap, so that a file larger than memory can be
    gone through.

    Parameters
    ----------
    batch : Batch
        Of a table with exchange, raw_symbol and timestamp, its rows in the order of the file.
    event : expression
        Number of the event that a row belongs to, rising in the file.
    """
    key = ["exchange", "raw_symbol", "timestamp"]
    number = event.alias("__event")
    kept: list[Part] = []
    gone = 0
    for part in reversed(batch.parts):
        every = part.frame().with_columns(number)
        rest = every.filter(pl.col("__event") == pl.col("__event").max().over(key))
        for later in kept:
            if part.first <= later.last and later.first <= part.last:
                rest = rest.join(later.frame().select(key), on=key, how="anti", maintain_order="left")
        if rest.height == part.rows:
            kept.append(part)
            continue
        gone += every["__event"].n_unique() - rest["__event"].n_unique()
        smaller = Batch(batch.table, batch.spool)
        smaller.add(rest.drop("__event"))
        kept += smaller.parts
    batch.parts = kept[::-1]
    return gone
