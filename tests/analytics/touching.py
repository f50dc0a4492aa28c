"""Frames of market profiles in the three forms that say which blocks touched a row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import polars as pl

__all__ = ["DAY", "levels_of", "lists_of", "touches_of"]

DAY = datetime(2024, 8, 8, tzinfo=UTC)

Session = tuple[str | None, datetime]
Blocks = Mapping[Session, Mapping[float | None, Sequence[int]]]
"""Of each (symbol, start of the session), the blocks that touched each row."""

_KEY = {"exchange": pl.String, "raw_symbol": pl.String, "timestamp": pl.Datetime("us", "UTC")}


def lists_of(blocks: Blocks, *, minutes: int = 30) -> pl.DataFrame:
    """Levels with the list of their blocks, as a client fetches them."""
    rows = [
        ("VENUE", symbol, start, price, list(of_row), float(len(of_row)) / 4)
        for (symbol, start), session in blocks.items()
        for price, of_row in session.items()
    ]
    schema = {**_KEY, "price": pl.Float64, "block_ids": pl.List(pl.Int32), "volume": pl.Float64}
    return pl.DataFrame(rows, schema=schema, orient="row").with_columns(
        block_size_minutes=pl.lit(minutes, pl.Int64)
    )


def levels_of(blocks: Blocks, *, minutes: int = 30) -> pl.DataFrame:
    """Levels with the number of their blocks, the first and the last of them."""
    lists = lists_of(blocks, minutes=minutes).filter(pl.col("block_ids").list.len() > 0)
    counted = pl.col("block_ids").list
    return lists.with_columns(
        tpo_count=counted.len().cast(pl.Int64),
        first_touch_block=counted.min().cast(pl.Int64),
        last_touch_block=counted.max().cast(pl.Int64),
    ).drop("block_ids")


def touches_of(blocks: Blocks) -> pl.DataFrame:
    """Touches: one row per block and level."""
    lists = lists_of(blocks).drop("block_size_minutes")
    touches = lists.explode("block_ids", empty_as_null=False).rename({"block_ids": "block_id"})
    return touches.with_columns(pl.col("block_id").cast(pl.Int64), volume=pl.lit(0.25))
