"""Touches to the levels of market profiles: how many blocks touched each, and the value areas of these counts.

An engine hashes every touch, and then sorts the levels for the value area. But sessions are dense: nearly all rows
between the lowest and the highest are touched. So in memory each touch counts in the cell of an array that its session
and row give, and the cells are levels in order. Polars does that, within its plan; other engines group.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, Final, cast

import narwhals.stable.v2 as nw
import numpy as np

from tidytape.analytics.profile._growth import AREA, Rules, areas
from tidytape.frames.grid import Grid
from tidytape.frames.table import Rows

_RULES: Final = Rules(0.70, "two_row", "up", "reach", "center")  # the defaults of `value_area`
_LEVEL: Final = ("session", "row", "tpo_count", "first_touch_block", "last_touch_block")
_CELLS: Final = 8  # per touch; a session with wide gaps has more, and then polars groups too


def counted(touched: Rows, grid: Grid) -> Rows:
    """Return the levels of sessions: how many blocks touched each, which first and last, and their value areas.

    Parameters
    ----------
    touched : frame, one row per session, block and price row touched
        ``session``, from 0 on, ``block_id``, ``row`` : int64.
    grid : Grid
        The price rows.

    Returns
    -------
    frame, one row per session and row touched
        ``session``, ``row``, ``tpo_count``, ``first_touch_block``, ``last_touch_block`` int64, ``price`` [quote per
        coin], and of the session ``poc``, ``val``, ``vah`` [quote per coin], ``value_area_share`` [1].
    """
    if not touched.implementation.is_polars():
        return _with_areas(_grouped(touched), grid, in_memory=False)
    polars = touched.implementation.to_native_namespace()

    def in_memory(native: Any) -> Any:
        levels = _in_cells(nw.from_native(native, eager_only=True))
        return _with_areas(levels.lazy(), grid, in_memory=True).collect().to_native()

    types = dict.fromkeys(_LEVEL, polars.Int64) | dict.fromkeys(("price", *AREA), polars.Float64)
    rows: Rows = nw.from_native(touched.to_native().map_batches(in_memory, schema=types))
    return rows


def beside(rows: Rows, others: Rows, key: list[str]) -> Rows:
    """Add the columns of other rows with the same key; polars keeps the order of the rows, so none needs a sort."""
    if not rows.implementation.is_polars():
        return rows.join(others, on=key, how="left")
    joined = rows.to_native().join(others.to_native(), on=key, how="left", maintain_order="left")
    return cast("Rows", nw.from_native(joined))


def _with_areas(levels: Rows, grid: Grid, *, in_memory: bool) -> Rows:
    levels = levels.with_columns(price=grid.price(nw.col("row")))
    counts = levels.select("session", "price", count=nw.col("tpo_count").cast(nw.Float64))
    found = areas(counts, ["session"], _RULES, Fraction(grid.size), in_memory=in_memory)
    return beside(levels, found.select("session", *AREA), ["session"])


def _grouped(touched: Rows) -> Rows:
    return touched.group_by("session", "row").agg(
        nw.len().cast(nw.Int64).alias("tpo_count"),
        nw.col("block_id").min().alias("first_touch_block"),
        nw.col("block_id").max().alias("last_touch_block"),
    )


def _in_cells(touched: nw.DataFrame[Any]) -> nw.DataFrame[Any]:
    """Return what `_grouped` does, in order of session and row."""
    session, row, block = (touched[name].to_numpy() for name in ("session", "row", "block_id"))
    sessions = int(session.max(initial=-1)) + 1
    lowest, highest = np.full(sessions, np.iinfo(np.int64).max), np.full(sessions, np.iinfo(np.int64).min)
    np.minimum.at(lowest, session, row)
    np.maximum.at(highest, session, row)
    sizes = highest - lowest + 1
    if not 0 < sizes.astype(float).sum() <= _CELLS * len(touched):
        return _grouped(touched.lazy()).collect().sort("session", "row")
    ends = np.cumsum(sizes)
    before = ends - sizes - lowest  # cell of a session's row 0, were there one
    cell = row + before[session]
    counts = np.bincount(cell, minlength=ends[-1])
    first, last = np.full(ends[-1], np.iinfo(np.int64).max), np.full(ends[-1], -1)
    np.minimum.at(first, cell, block)
    np.maximum.at(last, cell, block)
    level = np.flatnonzero(counts)
    session = np.repeat(np.arange(sessions), sizes)[level]
    values = session, level - before[session], counts[level], first[level], last[level]
    return nw.from_dict(dict(zip(_LEVEL, values, strict=True)), backend=touched.implementation)
