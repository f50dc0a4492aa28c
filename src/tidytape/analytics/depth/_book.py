"""Books, opened for what asks how far from the middle something rests."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final, Generic

import narwhals.stable.v2 as nw
from narwhals.stable.v2.typing import IntoFrameT

from tidytape.analytics._arguments import positive
from tidytape.catalogue import BookSide
from tidytape.errors import QueryError
from tidytape.frames.door import listed
from tidytape.frames.grid import Grid
from tidytape.frames.table import Table
from tidytape.frames.units import AMOUNT_UNIT, BLOCK_SIZE, counting, of_one, on_blocks

IS_BID, IS_ASK = nw.col("side") == BookSide.BID.value, nw.col("side") == BookSide.ASK.value

_UNIT_HINT: Final = "amount='quote' where they count USD, amount='coin' where they count coins"

_TAKEN = ("timestamp", "side", "price", "size", "mid", "is_crossed", BLOCK_SIZE)


@dataclass(frozen=True)
class Books(Generic[IntoFrameT]):
    """A frame of books, its rows, and the columns that tell one book from another.

    Attributes
    ----------
    table : Table
    rows : narwhals LazyFrame
        The series' columns, ``timestamp`` [ns], ``side``, ``price`` [quote per coin] and ``size``, all of them numbers;
        ``__known``, whether all of the book is; ``mid`` and ``__overlap``, how far the best bid lies above the best
        ask, null where a book has none; ``__height``, of a block, null where it is not known.
    book : list of str
        The series' columns and ``timestamp``.
    """

    table: Table[IntoFrameT]
    rows: nw.LazyFrame[Any]
    book: list[str]


def books_of(
    frame: IntoFrameT,
    by: str | Iterable[str] | None,
    block_size: Decimal | float | str | None,
    *,
    results: Iterable[str],
    unit: str | None = None,
) -> Books[IntoFrameT]:
    """Return the books of a frame; a book of which something is not known has no mid, and zeros for numbers.

    A block counts at its middle where its height is known: from ``block_size``, or from the column ``block_size``, and
    where a frame has both they must be equal. Sizes of a series count one unit, by the column ``amount_unit``: ``unit``
    if that is given. What does not fit is an error of an eager frame, and not known of a lazy one.
    """
    grid = None if block_size is None else Grid.of(block_size)
    table = Table.opened(frame)
    has_heights = grid is None and BLOCK_SIZE in table.names
    numbers = ["price", "size", *([BLOCK_SIZE] if has_heights else [])]
    table = Table.opened(table, ["side"], times=["timestamp"], numbers=numbers)
    series = table.series(by, without=[*_TAKEN, *results])
    height: nw.Expr = nw.lit(None if grid is None else float(grid.size), nw.Float64)
    if has_heights:
        height = nw.when(nw.col(BLOCK_SIZE).is_finite() & (nw.col(BLOCK_SIZE) > 0)).then(nw.col(BLOCK_SIZE))
    book = [*series, "timestamp"]
    if unit is not None:
        expected = "sizes that count what amount says"
        table = counting(table, unit, ["size"], parameter="amount", expected=expected, hint=_UNIT_HINT)
    table = of_one(table, AMOUNT_UNIT, series, ["size"])
    if grid is not None:
        table = on_blocks(table, Fraction(grid.size), "price", parameter="block_size", exactly=True)
    table = of_one(table, BLOCK_SIZE, book, ["price"])
    price, size = nw.col("price"), nw.col("size")
    is_known = (price.is_finite() & size.is_finite() & (size >= 0) & (IS_BID | IS_ASK)).fill_null(value=False)
    rows = (
        table.rows.select(*book, "side", "price", "size", __known=is_known, __height=height)
        .with_columns(
            price=nw.when("__known").then(price + nw.col("__height").fill_null(0.0) / 2).otherwise(0.0),
            size=nw.when("__known").then(size).otherwise(0.0),
        )
        .with_columns(
            __known=nw.col("__known").all().over(book),
            __bid=nw.when(IS_BID & (size > 0)).then(price),
            __ask=nw.when(IS_ASK & (size > 0)).then(price),
        )
        .with_columns(nw.col("__bid").max().over(book), nw.col("__ask").min().over(book))
        .with_columns(
            mid=nw.when("__known").then((nw.col("__bid") + nw.col("__ask")) / 2),
            __overlap=nw.when("__known").then(nw.col("__bid") - nw.col("__ask")),
        )
        .select(*book, "side", "price", "size", "__known", "mid", "__overlap", "__height")
    )
    return Books(table, rows, book)


def is_crossed() -> nw.Expr:
    """Return whether the best bid is above the best ask, null where a book has no mid."""
    return nw.when(~nw.col("mid").is_null()).then(nw.col("__overlap") > 0).alias("is_crossed")


def numbers(parameter: str, got: float | Iterable[float]) -> list[float]:
    """Return one or several finite numbers above 0, in order; raise QueryError if one is anything else."""
    found = sorted(positive(parameter, one) for one in listed(got))
    if not found or len(set(found)) < len(found):
        raise QueryError(parameter, got=got, expected="a number above 0, or several, each once")
    return found


def stacked(rows: nw.LazyFrame[Any], parts: Iterable[Iterable[str | nw.Expr]]) -> nw.LazyFrame[Any]:
    """Return the rows once for each of some selections, one below the other."""
    return nw.concat([rows.select(*part) for part in parts])
