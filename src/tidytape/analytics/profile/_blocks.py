"""Blocks of time that touched the rows of a profile, however a frame says them.

Three frames do: touches, one row per block and level (``block_id``); levels with a list of blocks, as a client fetches
them (``block_ids``); and levels with their number and the first and last of them (``tpo_count``, ``first_touch_block``,
``last_touch_block``). Where a frame says it twice, our own count of the blocks goes before the number that was sent.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, Final

import narwhals.stable.v2 as nw
from narwhals.stable.v2.typing import IntoFrameT

from tidytape.analytics import _arguments as arguments
from tidytape.analytics.profile._grid import known_price, with_index, with_place
from tidytape.analytics.profile._opening import TOUCH, Profiles
from tidytape.errors import QueryError

BLOCK_MINUTES: Final = "block_size_minutes"
"""Column in which TPO levels say how long a block is; what is no number above 0, or of years, is not known."""

MOST_MINUTES: Final = 366 * 24 * 60
"""No block is longer than that, and none ends later after its session's start. [min]"""

_LIST: Final = "block_ids"
_COUNTED: Final = ("tpo_count", "first_touch_block", "last_touch_block")
_SAYING_BLOCKS: Final = f"{_LIST!r}, {TOUCH!r}, or " + ", ".join(map(repr, _COUNTED))


def has_blocks(profiles: Profiles[IntoFrameT]) -> bool:
    """Return whether the frame says which blocks touched its levels."""
    return lists_blocks(profiles) or set(_COUNTED) <= set(profiles.table.names)


def lists_blocks(profiles: Profiles[IntoFrameT]) -> bool:
    """Return whether the frame names each block that touched its levels."""
    names = profiles.table.names
    return TOUCH in names or _LIST in names


def is_of_touches(profiles: Profiles[IntoFrameT]) -> bool:
    """Return whether the frame has a row for each block that touched a level."""
    return TOUCH in profiles.table.names


def block_length(profiles: Profiles[IntoFrameT], block_minutes: float | None) -> nw.Expr:
    """Return how long a block is, as the caller or else his frame says it. [min]"""
    said = said_minutes(block_minutes)
    if not has_blocks(profiles):
        _refuse(profiles.table.names, _SAYING_BLOCKS)
    if said is not None:
        return nw.lit(said)
    if BLOCK_MINUTES not in profiles.table.names:
        expected = f"the length of a block, which the frame does not say in {BLOCK_MINUTES!r}"
        raise QueryError("block_minutes", got=None, expected=expected)
    profiles.require_number(BLOCK_MINUTES, BLOCK_MINUTES)
    length = nw.col(BLOCK_MINUTES).cast(nw.Float64)
    return nw.when((length > 0) & (length <= MOST_MINUTES)).then(length)


def said_minutes(block_minutes: object) -> float | None:
    """Return the length of a block that a caller says, if he does; QueryError if it is none. [min]"""
    if block_minutes is None:
        return None
    minutes = arguments.positive("block_minutes", block_minutes)
    if minutes > MOST_MINUTES:
        raise QueryError("block_minutes", got=block_minutes, expected=f"at most a year, {MOST_MINUTES:,}")
    return minutes


def touches(
    profiles: Profiles[IntoFrameT], price: str, columns: dict[str, str | nw.Expr] | None = None
) -> nw.LazyFrame[Any]:
    """Return one row per level and block: the keys, ``price``, ``block`` (float64, null for none) and some columns."""
    names = profiles.table.names
    if not lists_blocks(profiles):
        _refuse(names, f"{_LIST!r} as of Client.tpo, or {TOUCH!r} as of aggregate.tpo_touches")
    given: dict[str, str | nw.Expr] = {"price": price, **(columns or {})}
    if TOUCH in names:
        profiles.require_number("levels", TOUCH)
        return profiles.rows({**given, "block": TOUCH}, numbers=("price", "block"))
    rows = profiles.rows({**given, "block": _LIST}, numbers=("price",))
    kind = rows.collect_schema()["block"]
    if kind == nw.Unknown:  # polars' type of a column of nulls
        rows, kind = rows.with_columns(nw.col("block").cast(nw.List(nw.Float64))), nw.List(nw.Float64)
    if not isinstance(kind, nw.List | nw.Array) or not kind.inner.is_numeric():
        raise QueryError("levels", got=f"{_LIST}: {kind}", expected="lists of numbers of blocks")
    return rows.explode("block").with_columns(nw.col("block").cast(nw.Float64))


def touched_rows(
    profiles: Profiles[IntoFrameT],
    price: str,
    step: Fraction | None,
    length: nw.Expr | None = None,
    columns: dict[str, str | nw.Expr] | None = None,
) -> nw.LazyFrame[Any]:
    """Return one row per profile and price row that a block touched.

    The keys, ``place``, ``index`` (neighbours differ by 1), ``price``, ``blocks`` (how many), ``first`` and ``last`` of
    them, all float64; ``known``, whether all of the profile is; ``block_length``, if it is given;
    and ``columns``, of which a row has the largest.
    """
    columns = {**({} if length is None else {"block_length": length}), **(columns or {})}
    keys, names = profiles.keys, profiles.table.names
    price_, block = nw.col("price"), nw.col("block")
    others = [nw.col(name).max() for name in columns]
    if TOUCH in names or _LIST in names:
        rows = touches(profiles, price, columns).with_columns(known=known_price())
        rows = with_place(rows.with_columns(price=nw.when("known").then(price_).otherwise(0.0)), keys, step)
        # By block first: levels that share a row may share blocks.
        rows = rows.group_by(*keys, "place", "block").agg(price_.min(), nw.col("known").all(), *others)
        rows = rows.group_by(*keys, "place").agg(
            price_.min(),
            block.count().alias("blocks"),
            block.min().alias("first"),
            block.max().alias("last"),
            nw.col("known").all(),
            *others,
        )
        rows = rows.with_columns(nw.col("blocks").cast(nw.Float64))
    else:
        if not set(_COUNTED) <= set(names):
            _refuse(names, _SAYING_BLOCKS)
        counted = dict(zip(("blocks", "first", "last"), _COUNTED, strict=True))
        for name in _COUNTED:
            profiles.require_number("levels", name)
        rows = profiles.rows({"price": price, **counted, **columns}, numbers=("price", *counted))
        known = known_price() & ~nw.col("blocks").is_null()
        rows = rows.with_columns(known=known, levels=nw.lit(1.0))
        rows = with_place(rows.with_columns(price=nw.when("known").then(price_).otherwise(0.0)), keys, step)
        rows = rows.group_by(*keys, "place").agg(
            price_.min(),
            nw.col("blocks", "levels").sum(),
            nw.col("first").min(),
            nw.col("last").max(),
            nw.col("known").all(),
            *others,
        )
        # How many blocks touched a row of several levels, numbers alone do not say.
        rows = rows.with_columns(known=nw.col("known") & (nw.col("levels") == 1)).drop("levels")
    rows = rows.with_columns(known=nw.col("known").all().over(keys))
    touched = rows.filter((nw.col("blocks") > 0) | ~nw.col("known"))
    return with_index(touched, keys, step)


def _refuse(names: list[str], expected: str) -> None:
    raise QueryError(
        "levels",
        got=f"columns {', '.join(names)}",
        expected=f"levels that say which blocks touched them: {expected}",
        hint="a volume profile has no blocks",
    )
