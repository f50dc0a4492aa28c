"""Counts of the rows of a profile, on a grid that may be coarser than its levels.

Volumes of levels that share a row add up. Blocks do not, because one that touched two levels of a row touched one row.
Of touches, which are a row per block, they are counted on any grid.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any

import narwhals.stable.v2 as nw
from narwhals.stable.v2.typing import IntoFrameT

from tidytape.analytics.profile._blocks import is_of_touches, lists_blocks, touches
from tidytape.analytics.profile._grid import DIGITS, known_price, with_place
from tidytape.analytics.profile._merged import merged
from tidytape.analytics.profile._opening import BLOCKS, SESSION, Profiles


def add_up(profiles: Profiles[IntoFrameT], counts: Iterable[str], step: Fraction | None) -> bool:
    """Return whether the counts of levels that share a row are those of the row, added."""
    return BLOCKS not in counts or (step is None and not is_of_touches(profiles))


def counted_levels(
    profiles: Profiles[IntoFrameT],
    counts: Mapping[str, str],
    price: str,
    step: Fraction | None,
    *,
    session: str = SESSION,
) -> nw.LazyFrame[Any]:
    """Return the keys, ``price`` and counts under working names, of levels, or of the rows of a session they share.

    Where several levels of a session share a row, its ``tpo_count`` is that of the blocks that the frame lists, and
    null where it lists none. Of touches it is that of their blocks everywhere. Sessions are told apart by a column of
    this name, if there is one.
    """
    numbers = ("price", *counts)
    if add_up(profiles, counts.values(), step):
        return profiles.rows({"price": price, **counts}, numbers=numbers)
    of_touches = is_of_touches(profiles)
    of_blocks = [name for name, column in counts.items() if column == BLOCKS]
    given: dict[str, str | nw.Expr] = {"price": price, **counts}
    if of_touches:
        given |= dict.fromkeys(of_blocks, nw.lit(0.0))
    # Of several sessions each has blocks of its own.
    is_timed = session in profiles.table.names
    sessions: dict[str, str | nw.Expr] = {"session": session if is_timed else nw.lit(0)}
    key = [*profiles.keys, "session", "has_price", "place"]
    known = {name: f"known_{name}" for name in counts}
    most = {name: f"most_{name}" for name in of_blocks}
    levels = _placed(profiles.rows({**given, **sessions}, numbers=numbers), key, step)
    rows = levels.with_columns(
        (nw.col(name).is_finite() & (nw.col(name) >= 0)).fill_null(value=False).alias(alias)
        for name, alias in known.items()
    )
    rows = rows.with_columns(nw.col(name).alias(alias) for name, alias in most.items())
    together = (nw.col("price").min(), nw.col("top", *most.values()).max(), nw.col(*counts).sum())
    rows = rows.with_columns(top=nw.col("price")).group_by(*key).agg(*together, nw.col(*known.values()).all())
    rows = rows.with_columns(nw.when(alias).then(nw.col(name)).alias(name) for name, alias in known.items())
    rows = rows.drop(*known.values())
    blocks: nw.Expr = nw.lit(None, nw.Float64)
    if lists_blocks(profiles):
        touched = _placed(touches(profiles, price, sessions), key, step)
        touched = touched.group_by(*key, "block").agg(nw.col("price").min())
        touched = touched.group_by(*key).agg(nw.col("block").count().alias("blocks"))
        rows, blocks = merged([rows, touched], key), nw.col("blocks")
    is_shared = nw.col("top") - nw.col("price") > 10.0**-DIGITS * nw.col("top").abs()
    rows = rows.with_columns(shared=is_shared, listed=blocks)
    for name, largest in most.items():
        # Fewer blocks than a single level has are not all that there were.
        is_whole = ~nw.col(name).is_null() & (nw.col("listed") >= nw.col(largest))
        own = nw.when(nw.col("shared")).then(nw.when(is_whole).then(nw.col("listed"))).otherwise(nw.col(name))
        rows = rows.with_columns((nw.col("listed") if of_touches else own).alias(name))
    return rows.select(*profiles.keys, nw.when("has_price").then(nw.col("price")).alias("price"), *counts)


def _placed(levels: nw.LazyFrame[Any], key: list[str], step: Fraction | None) -> nw.LazyFrame[Any]:
    """Add ``has_price``, and the ``place`` of each level on the grid; one without a price is at 0."""
    levels = levels.with_columns(has_price=known_price())
    levels = levels.with_columns(price=nw.when("has_price").then(nw.col("price")).otherwise(0.0))
    return with_place(levels, key[:-1], step)
