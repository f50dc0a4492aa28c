"""Touches to levels of market profiles: how many blocks touched each level, and the value areas of these counts.

Grouping would make a row for every touch, hash it, and then sort the levels for the value area. But sessions are dense:
nearly all price rows between the lowest and the highest are touched. So in polars one array has a cell for each row of
each session, in order, and each block fills a slice of the array. SQL engines group.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, Final, cast

import narwhals.stable.v2 as nw
import numpy as np

from tidytape.analytics.profile._growth import AREA, Rules, areas
from tidytape.frames._dialects import in_sql
from tidytape.frames._grid import Grid
from tidytape.frames._rows import MOST_NUMBERS, spread
from tidytape.frames._table import Rows

_RULES: Final = Rules(0.70, "two_row", "up", "reach", "center")  # the defaults of `value_area`
_LEVEL: Final = ("session", "row", "tpo_count", "first_touch_block", "last_touch_block")
VOLUMES: Final = ("buy_volume", "sell_volume", "volume")
_CELLS: Final = (
    8  # largest number of cells per touch; sessions with wide gaps need more, and then polars groups, too
)


def counted(ranges: Rows, traded: Rows, grid: Grid) -> Rows:
    """Return the levels of sessions with their numbers of blocks and volumes, and the value areas of the sessions.

    Parameters
    ----------
    ranges : frame, one or more rows per session and block
        ``session``, ``block_id``, and the ``lowest`` and ``highest`` price row that the block touched, int64.
    traded : frame, one row per session and price row with a trade
        ``session``, ``row`` int64, and `VOLUMES`.
    grid : Grid
        The price rows.

    Returns
    -------
    frame, one row per session and row touched; of polars in that order
        ``session``, ``row``, ``tpo_count``, ``first_touch_block``, ``last_touch_block`` int64, `VOLUMES`, ``price``
        [quote per coin], and for the session ``poc``, ``val``, ``vah`` [quote per coin], ``value_area_share`` [1].
    """
    if in_sql(ranges):
        return with_volumes(_with_areas(_grouped(touches(ranges)), grid, in_memory=False), traded)
    polars = ranges.implementation.to_native_namespace()

    def in_memory(native: Any) -> Any:
        return (
            _with_areas(_in_cells(nw.from_native(native, eager_only=True)).lazy(), grid, in_memory=True)
            .collect()
            .to_native()
        )

    types = dict.fromkeys(_LEVEL, polars.Int64) | dict.fromkeys((*VOLUMES, "price", *AREA), polars.Float64)
    # `map_batches` takes one frame, so the two are stacked.
    stacked = nw.concat([ranges, traded.select("session", "row", *VOLUMES)], how="diagonal").to_native()
    rows: Rows = nw.from_native(stacked.map_batches(in_memory, schema=types))
    return rows


def with_volumes(rows: Rows, traded: Rows, key: Sequence[str] = ("session", "row")) -> Rows:
    """Add the volumes traded on touched rows; 0 on rows without a trade."""
    traded = traded.select(*key, *VOLUMES, nw.lit(value=True).alias("is_traded"))
    is_traded = ~nw.col("is_traded").is_null()  # a volume may be null: unknown
    return (
        rows.join(traded, on=list(key), how="left")
        .with_columns(nw.when(is_traded).then(nw.col(name)).otherwise(0.0).alias(name) for name in VOLUMES)
        .drop("is_traded")
    )


def touches(ranges: Rows) -> Rows:
    """Return one row per session, block and row in a range."""
    return spread(ranges, "lowest", "highest", name="row").unique()


def with_columns_of(rows: Rows, others: Rows, key: list[str]) -> Rows:
    """Add the columns of the other rows that have the same key; polars keeps the order of the rows."""
    if in_sql(rows):
        return rows.join(others, on=key, how="left")
    rows_with_others = rows.to_native().join(others.to_native(), on=key, how="left", maintain_order="left")
    return cast("Rows", nw.from_native(rows_with_others))


def _with_areas(levels: Rows, grid: Grid, *, in_memory: bool) -> Rows:
    """Add the price of each level, and the value area of its session."""
    levels = levels.with_columns(price=grid.price(nw.col("row")))
    counts = levels.select("session", "price", count=nw.col("tpo_count").cast(nw.Float64))
    value_areas = areas(counts, ["session"], _RULES, Fraction(grid.size), in_memory=in_memory)
    return with_columns_of(levels, value_areas.select("session", *AREA), ["session"])


def _grouped(touched: Rows) -> Rows:
    """Return the number, the first and the last of the blocks that touched each row of each session."""
    return touched.group_by("session", "row").agg(
        nw.len().cast(nw.Int64).alias("tpo_count"),
        nw.col("block_id").min().alias("first_touch_block"),
        nw.col("block_id").max().alias("last_touch_block"),
    )


def _in_cells(both: nw.DataFrame[Any]) -> nw.DataFrame[Any]:
    """Return the levels, sorted by session and row; ``both`` has the ranges and, below them, the traded rows."""
    traded = both.filter(nw.col("block_id").is_null()).select("session", "row", *VOLUMES)
    ranges = (
        both.select("session", "block_id", "lowest", "highest")
        .filter(nw.col("lowest") <= nw.col("highest"))
        .sort("session", "block_id", "lowest")
    )
    session, block, low, high = (ranges[name].to_numpy() for name in ranges.columns)
    range_size = high - low + 1
    starts = np.flatnonzero(np.diff(session, prepend=-1))
    lowest, highest = np.minimum.reduceat(low, starts), np.maximum.reduceat(high, starts)
    spans = highest - lowest + 1
    is_sparse = spans.sum(dtype=float) > _CELLS * range_size.sum(dtype=float)
    if not len(ranges) or is_sparse or range_size.max() > MOST_NUMBERS:
        return with_volumes(_grouped(touches(ranges.lazy())), traded.lazy()).collect().sort("session", "row")
    ends = np.cumsum(spans)
    cell_count, row_of_cell = ends[-1], np.repeat(lowest - ends + spans, spans) + np.arange(ends[-1])
    cell_offset = np.repeat(ends - spans - lowest, np.diff(starts, append=len(low)))
    begin, end = low + cell_offset, high + cell_offset + 1
    # The ranges of several markets in one block may overlap, so each range starts after the ends of those before it.
    is_next = (np.diff(session, prepend=-1) != 0) | (np.diff(block, prepend=-1) != 0)
    block_offset = np.cumsum(is_next) * (cell_count + 1)  # the offset lifts each block above those before it
    end_so_far = np.maximum.accumulate(end + block_offset)
    begin[1:] = np.clip(end_so_far[:-1] - block_offset[1:], begin[1:], end[1:])
    changes = np.bincount(begin, minlength=cell_count + 1) - np.bincount(end, minlength=cell_count + 1)
    counts, first, last = (
        np.cumsum(changes)[:-1],
        np.empty(cell_count, np.int64),
        np.empty(cell_count, np.int64),
    )
    slices = list(zip(begin.tolist(), end.tolist(), block.tolist(), strict=True))
    for start, stop, number in slices:
        last[start:stop] = number
    for start, stop, number in reversed(slices):
        first[start:stop] = number
    touched_cells = np.flatnonzero(counts)
    cell_columns = (np.repeat(session[starts], spans), row_of_cell, counts, first, last)
    columns = {name: values[touched_cells] for name, values in zip(_LEVEL, cell_columns, strict=True)}

    # Trades lie on rows that their blocks touched, unless volumes and ranges come from different data.
    row, traded_session = (traded[name].to_numpy() for name in ("row", "session"))
    at_session = np.minimum(np.searchsorted(session[starts], traded_session), len(starts) - 1)
    is_inside = (
        (session[starts][at_session] == traded_session)
        & (lowest[at_session] <= row)
        & (row <= highest[at_session])
    )
    cell = (row + (ends - spans - lowest)[at_session])[is_inside].astype(np.int64)  # a null row is NaN
    for name in VOLUMES:
        volume = np.zeros(cell_count)
        volume[cell] = traded[name].to_numpy()[is_inside]
        columns[name] = volume[touched_cells]
    # In the arrays, unknown volumes are NaN.
    return nw.from_dict(columns, backend=both.implementation).with_columns(nw.col(*VOLUMES).fill_nan(None))
