"""Price rows of a profile: which levels they contain, and what they count.

A *level* is one price of a session as the caller's frame has it. A *row* of a profile, or price row, is one price, or
one step of the grid of ``row_size``; the levels in it are added up. The *place* of a row is its price as a whole
number, of steps or of fine units, and its *index* numbers it: neighbouring rows differ by 1.

Volumes add up, but numbers of time blocks do not: a block that touched two levels of a row touched that row once. So if
several levels share a row, its blocks are counted again.

A frame can say in three ways which blocks touched a level: touches, with one line per block and level (``block_id``);
levels with a list of blocks, as a client fetches them (``block_ids``); and levels with the number, the first and the
last of the blocks (``tpo_count``, ``first_touch_block``, ``last_touch_block``). If a frame has both blocks and numbers,
the blocks are counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, Final

import narwhals.stable.v2 as nw
from narwhals.stable.v2.typing import IntoFrameT

from tidytape.analytics import _arguments as arguments
from tidytape.analytics.profile._opening import BLOCKS, COUNTED, LIST, SESSION, TOUCH, Profiles, is_of_blocks
from tidytape.errors import QueryError
from tidytape.frames import _exact as exact
from tidytape.frames._grid import quotient

DIGITS: Final = 12
"""Numbers are compared to twelve of the sixteen digits of a float.

Then 0.1 + 0.2 equals 0.3, and no comparison depends on the order in which an engine adds. The digits are decimal,
because prices and amounts are decimals.
"""

NOISE: Final = 10.0**-DIGITS
"""How far apart equal shares may be."""

MOST_STEPS: Final = 2.0**50
"""A price this many steps from zero has no row, because floats cannot tell neighbouring rows apart there."""

BLOCK_MINUTES: Final = "block_size_minutes"
"""Column of the length of a block in TPO levels; a length of 0 or less, or above `MOST_MINUTES`, is unknown. [min]"""

MOST_MINUTES: Final = 366 * 24 * 60
"""The longest block, and the latest end of a block after its session's start. [min]"""


def finite(name: str) -> nw.Expr:
    """Return whether a column has a finite value; false for null."""
    return nw.col(name).is_finite().fill_null(value=False)


def countable(name: str) -> nw.Expr:
    """Return whether a column has a finite value of 0 or more; false for null."""
    return (nw.col(name).is_finite() & (nw.col(name) >= 0)).fill_null(value=False)


def with_place(
    levels: nw.LazyFrame[Any], keys: list[str], step: Fraction | None, *, known: nw.Expr
) -> nw.LazyFrame[Any]:
    """Add ``known``, and the ``place`` of each level: its price as a whole number, of steps or of fine units.

    Levels with the same place share a row. An unknown level gets the price 0. `tidytape.frames._grid` decides on exact
    decimals, but prices of levels may be computed. So here a price that misses the grid by rounding noise counts as on
    it.
    """
    price = nw.col("price")
    levels = levels.with_columns(known=known, price=nw.when(known).then(price).otherwise(0.0))
    if step is None:
        return (
            levels.with_columns(furthest=price.abs().max().over(keys))
            .with_columns(place=in_units(price, scale(nw.col("furthest"))))
            .drop("furthest")
        )
    # A row is named by its low edge: with a step of 0.1, 0.19 lies in the row of 0.1.
    steps = price / float(step)
    nearest = (steps + 0.5).floor()
    return levels.with_columns(
        place=nearest - (nearest - steps > 1e-9 + 1e-12 * steps.abs()).cast(nw.Float64)
    )


def indices(keys: list[str], step: Fraction | None) -> nw.Expr:
    """Return the index of each row of a profile: neighbouring rows differ by 1."""
    place = nw.col("place")
    return place if step else place.rank("dense").over(keys).cast(nw.Float64)


def row_price(step: Fraction | None, place: str = "place") -> nw.Expr:
    """Return the price of a row for results: its low edge on the grid, or without a grid the caller's price."""
    if step is None:
        return nw.col("price")
    return quotient(nw.col(place) * float(step.numerator), step.denominator)


def scale(largest: nw.Expr) -> nw.Expr:
    """Return how many fine units make 1, so that ``largest`` is about ``10 ** DIGITS`` units."""
    # The rounding changes direction at the square root of 10 times a power of 10, which no decimal equals, so all
    # engines round the same way.
    decade = nw.when(largest > 0).then(largest).log(10).round()
    return 10.0 ** (DIGITS - decade)


def in_units(value: nw.Expr, scale: nw.Expr) -> nw.Expr:
    """Return ``value`` rounded to whole fine units; 0 for null."""
    # floor(x + 1/2), because engines disagree on how to round halves.
    return (value * scale + 0.5).floor().fill_null(0.0)


def counted_rows(
    levels: nw.LazyFrame[Any], keys: list[str], step: Fraction | None, *, tie: str = "center"
) -> nw.LazyFrame[Any]:
    """Return the rows of profiles, with ``from_poc``, the signed distance from the point of control. [row]

    Columns of the row: ``price``, ``count``, ``place``, ``index``, and ``weight``, its count in fine units. Columns of
    its profile: ``total``, the sum of the counts, null if a price or count is unknown; ``scale``, how many fine units
    make 1; ``largest``, the largest weight; ``lowest`` and ``highest``, the places of its ends.
    """
    price, count, total, place = nw.col("price"), nw.col("count"), nw.col("total"), nw.col("place")
    is_known = finite("price") & countable("count")
    if step is not None:
        is_known &= price.abs() < MOST_STEPS * float(step)
    # An unknown count could be the largest, so it becomes infinite, and its profile has no total.
    levels = levels.with_columns(count=nw.when(is_known).then(count))
    levels = exact.in_parts(with_place(levels, keys, step, known=is_known), "count")
    rows = (
        levels.group_by(*keys, "place")
        .agg(price.min(), exact.summed("count"))
        .with_columns(exact.total("count").fill_null(float("inf")))
        .with_columns(exact.summed("count").over(keys))
        .with_columns(
            total=exact.total("count"),
            lowest=place.min().over(keys),
            highest=place.max().over(keys),
            index=indices(keys, step),
        )
        .drop(exact.parts_of("count"))
    )
    # Places are whole numbers, so subtracting 1/4 prefers the lower of two equally distant rows and changes nothing
    # else.
    middle = nw.col("lowest") + nw.col("highest") - 0.25
    tie_rank, weight = nw.col("tie_rank"), nw.col("weight")
    rows = (
        rows.with_columns(
            total=nw.when(total > 0, total < float("inf")).then(total),
            tie_rank={"center": (2 * place - middle).abs(), "lower": place, "upper": -place}[tie],
        )
        .with_columns(scale=scale(total))
        .with_columns(weight=in_units(count, nw.col("scale")))
        .with_columns(largest=weight.max().over(keys))
        .with_columns(least_tie_rank=nw.when(weight == nw.col("largest")).then(tie_rank).min().over(keys))
    )
    poc_index = nw.when(tie_rank == nw.col("least_tie_rank")).then(nw.col("index")).max().over(keys)
    return rows.with_columns(from_poc=nw.col("index") - poc_index)


def counted_levels(
    profiles: Profiles[IntoFrameT], counts: Mapping[str, str], *, session: str = SESSION
) -> nw.LazyFrame[Any]:
    """Return the keys, ``price`` and the counts under working names, one row per level, or per price row of a session.

    ``counts`` maps working names to the frame's columns. If levels share a price row, their numbers of time blocks
    (``tpo_count``) cannot be added up, because one block may touch several of them. Instead the listed blocks of the
    price row are counted; the count is null if the frame lists no blocks, or not all. The blocks of a frame of touches
    are always counted. ``session`` is the column that tells sessions apart; a frame without that column is one session.
    """
    step, of_touches = profiles.step, profiles.of_touches
    if BLOCKS not in counts.values() or (step is None and not of_touches):
        return profiles.rows(counts, numbers=counts)
    block_count = next(name for name, column in counts.items() if column == BLOCKS)
    # Blocks of two sessions differ, even if they have the same number.
    sessions: dict[str, str | nw.Expr] = {
        "session": session if session in profiles.table.names else nw.lit(0)
    }
    columns = {**counts, **sessions, **({block_count: nw.lit(0.0)} if of_touches else {})}
    keys = [*profiles.keys, "session", "known"]
    # An infinite count stands for an unknown one, and makes a sum unknown.
    levels = with_place(
        profiles.rows(columns, numbers=counts), keys, step, known=finite("price")
    ).with_columns(
        nw.when(countable(name)).then(nw.col(name)).otherwise(float("inf")).alias(name) for name in counts
    )
    price, blocks_of_level = nw.col("price"), nw.col(block_count)
    rows = levels.group_by(*keys, "place").agg(
        price.min(), price.max().alias("top"), nw.col(*counts).sum(), blocks_of_level.max().alias("most")
    )
    blocks: nw.Expr = nw.lit(None, nw.Float64)
    if profiles.lists_blocks:
        blocks_by_row = (
            with_place(touches(profiles, sessions), keys, step, known=finite("price"))
            .group_by(*keys, "place", "block")
            .agg(price.min())
            .group_by(*keys, "place")
            .agg(nw.col("block").count().cast(nw.Float64).alias("blocks"))
        )
        rows, blocks = merged([rows, blocks_by_row], [*keys, "place"]), nw.col("blocks")
    is_shared = nw.lit(of_touches) | (nw.col("top") - price > NOISE * nw.col("top").abs())
    # If a row lists fewer blocks than one of its levels counts, the list is incomplete.
    listed_blocks = nw.when(blocks >= nw.col("most")).then(blocks)
    result = {name: nw.col(name) for name in counts}
    result |= {block_count: nw.when(is_shared).then(listed_blocks).otherwise(blocks_of_level)}
    return rows.select(*profiles.keys, price=nw.when("known").then(price), **result)


def require_rows(rows: object, row_size: object, count: str) -> None:
    """Raise QueryError unless ``rows`` is None, or a number of rows that the counts of a profile can be cut into."""
    if rows is None:
        return
    arguments.integer("rows", rows, most=100_000)
    if row_size is not None or is_of_blocks(count):
        expected = "none beside ``row_size``" if row_size is not None else "a ``row_size``, with time blocks"
        raise QueryError("rows", got=rows, expected=expected)


def counted_in_rows(
    profiles: Profiles[Any], count: str, rows: int | None
) -> tuple[nw.LazyFrame[Any], list[str], Fraction | None]:
    """Return `counted_levels`, the columns that tell profiles apart, and the height of their price rows.

    With ``rows``, the range of each profile is cut into as many rows of equal height: a price is then the place of its
    row, from 0 on, and the lowest price and the height are keys too. `with_prices` makes prices of places.
    """
    levels = counted_levels(profiles, {"count": count})
    if rows is None:
        return levels, profiles.keys, profiles.step
    price, lowest, keys = nw.col("price"), nw.col("__lowest"), profiles.keys
    levels = levels.with_columns(__known=nw.when(finite("price")).then(price))
    levels = levels.with_columns(
        __lowest=nw.col("__known").min().over(keys), __highest=nw.col("__known").max().over(keys)
    )
    levels = levels.with_columns(__height=(nw.col("__highest") - lowest) / float(rows))
    height = nw.when(nw.col("__height") > 0).then(nw.col("__height")).otherwise(1.0)
    place = nw.min_horizontal((nw.col("__known") - lowest) / height, nw.lit(rows - 1.0))
    # The least of a null and a number is the number.
    place = nw.when(~nw.col("__known").is_null()).then(place)
    keys = [*keys, "__lowest", "__height"]
    return levels.select(*keys, "count", price=place), keys, Fraction(1)


def with_prices(result: nw.LazyFrame[Any], rows: int | None, *names: str) -> nw.LazyFrame[Any]:
    """Return a result with the prices of the places that some columns have, see `counted_in_rows`."""
    if rows is None:
        return result
    prices = ((nw.col("__lowest") + nw.col(name) * nw.col("__height")).alias(name) for name in names)
    return result.with_columns(prices).drop("__lowest", "__height")


def block_length(profiles: Profiles[IntoFrameT], block_minutes: object) -> nw.Expr:
    """Return the length of a time block, from the argument or else from the frame. [min]"""
    minutes = checked_minutes(block_minutes)
    if minutes is not None:
        return nw.lit(minutes)
    if BLOCK_MINUTES not in profiles.table.names:
        raise no_block_length()
    profiles.require_number(BLOCK_MINUTES, BLOCK_MINUTES)
    length = nw.col(BLOCK_MINUTES).cast(nw.Float64)
    return nw.when((length > 0) & (length <= MOST_MINUTES)).then(length)


def no_block_length() -> QueryError:
    """Return the error for levels that do not say how long a time block is."""
    return QueryError(
        "block_minutes",
        got=None,
        expected=f"the length of a block, which the frame does not say in {BLOCK_MINUTES!r}",
        hint="profile.with_sessions adds it; without block_minutes, client.tpo has blocks of 30 minutes",
    )


def checked_minutes(block_minutes: object) -> float | None:
    """Return the argument as the length of a block, or None for None; raise QueryError for anything else. [min]"""
    minutes = None if block_minutes is None else arguments.positive("block_minutes", block_minutes)
    if minutes is not None and minutes > MOST_MINUTES:
        raise QueryError("block_minutes", got=block_minutes, expected=f"at most a year, {MOST_MINUTES:,}")
    return minutes


def touches(profiles: Profiles[IntoFrameT], columns: Mapping[str, str | nw.Expr]) -> nw.LazyFrame[Any]:
    """Return one row per level and block: keys, ``price``, ``block`` (float64, null without blocks) and ``columns``."""
    if profiles.of_touches:
        profiles.require_number("levels", TOUCH)
        return profiles.rows({**columns, "block": TOUCH}, numbers=["block"])
    rows = profiles.rows({**columns, "block": LIST})
    dtype = rows.collect_schema()["block"]
    if dtype == nw.Unknown:  # the type of a polars column that holds only nulls
        rows, dtype = rows.with_columns(nw.col("block").cast(nw.List(nw.Float64))), nw.List(nw.Float64)
    if not isinstance(dtype, nw.List | nw.Array) or not dtype.inner.is_numeric():
        raise QueryError("levels", got=f"{LIST}: {dtype}", expected="lists of numbers of blocks")
    return rows.explode("block").with_columns(nw.col("block").cast(nw.Float64))


def touched_rows(
    profiles: Profiles[IntoFrameT], columns: Mapping[str, str | nw.Expr] | None = None
) -> nw.LazyFrame[Any]:
    """Return the rows of profiles that a block touched.

    They have the keys; ``place``, ``index``, ``price``; ``blocks``, ``first`` and ``last``, the number of blocks that
    touched the row and the first and last of them, float64; ``known``, whether the whole profile is known; and
    ``columns``, each with the largest value among the row's levels.
    """
    columns = columns or {}
    keys, step, block, known = profiles.keys, profiles.step, nw.col("block"), nw.col("known")
    maxima = [nw.col(name).max() for name in columns]
    if profiles.lists_blocks:
        # Levels that share a row may share blocks, so count each block of a row once.
        levels = (
            with_place(touches(profiles, columns), keys, step, known=finite("price"))
            .group_by(*keys, "place", "block")
            .agg(nw.col("price").min(), known.all(), *maxima)
            .with_columns(blocks=(~block.is_null()).cast(nw.Float64), first=block, last=block)
        )
        is_known = known.all()
    else:
        for name in COUNTED.values():
            profiles.require_number("levels", name)
        levels = profiles.rows({**COUNTED, **columns}, numbers=COUNTED)
        levels = with_place(levels, keys, step, known=finite("price") & ~nw.col("blocks").is_null())
        # If several levels share a row, their numbers of blocks do not tell how many blocks touched the row.
        is_known = known.all() & (nw.len() == 1)
    rows = (
        levels.group_by(*keys, "place")
        .agg(
            nw.col("price").min(),
            nw.col("blocks").sum(),
            nw.col("first").min(),
            nw.col("last").max(),
            is_known.alias("known"),
            *maxima,
        )
        .with_columns(known=known.all().over(keys))
    )
    return rows.filter((nw.col("blocks") > 0) | ~known).with_columns(index=indices(keys, step))


def merged(parts: Sequence[nw.LazyFrame[Any]], keys: list[str]) -> nw.LazyFrame[Any]:
    """Return one row per profile with the columns of all parts, null where a part has no row.

    Parts are stacked and grouped instead of joined, because a key may be null.
    """
    stacked = nw.concat(parts, how="diagonal")
    columns = [name for name in stacked.collect_schema().names() if name not in keys]
    return stacked.group_by(*keys).agg(nw.col(*columns).max())
