"""What it would cost to trade at once."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import Literal

import narwhals.stable.v2 as nw
from narwhals.stable.v2.typing import IntoFrameT

from tidytape.analytics._arguments import one_of
from tidytape.analytics.depth._book import IS_ASK, IS_BID, books_of, is_crossed, numbers, stacked
from tidytape.catalogue import AmountUnit, Side

_NOISE = 1e-12  # of a size to trade: what adding the sizes before a level may be off


def slippage(
    frame: IntoFrameT,
    /,
    *,
    size: float | Iterable[float],
    amount: Literal["coin", "quote"] = "coin",
    block_size: Decimal | float | str | None = None,
    by: str | Iterable[str] | None = None,
) -> IntoFrameT:
    r"""Cost of trading a size at once against the book: a curve over sizes, for buys and sells.

    A buy of :math:`Q` takes the asks from the lowest price up, a sell the bids from the highest down, of each level
    :math:`q_i` until they are Q. With the mid :math:`m`,

    .. math:: \bar p = \frac{\sum_i q_i p_i}{\sum_i q_i}, \qquad
              \mathrm{slippage} = \pm 10^4 \left( \frac{\bar p}{m} - 1 \right),

    + for a buy and − for a sell, so that a cost is positive. Fees are not in it.

    Parameters
    ----------
    frame : frame, n rows, key (series, timestamp, side, price), any order
        Schema BLOCK_BOOK_SNAPSHOT_AGG. Uses ``timestamp``, ``side`` (BID or ASK), ``price`` [quote per coin] and
        ``size`` [coin or quote, as ``amount`` says].
    size : float or iterable of float, > 0
        Q, what is traded; several are a row each. [coin or quote]
    amount : {"coin", "quote"}
        What sizes count, those of the frame and those to trade; ``"quote"`` for a frame that was asked for in USD. It
        must be what the column ``amount_unit`` says, where there is one.
    block_size : Decimal, int, float or str, > 0, optional
        Height of the frame's blocks; by default its column ``block_size``, if it has one. What is in a block trades at
        its middle; where the height is not known at ``price``, its low edge, which makes buys and sells half a block
        low. [quote per coin]
    by : str or iterable of str, optional
        The columns that tell series apart; those of the identity that there are, unless said.

    Returns
    -------
    frame, one row per series, timestamp, side and size, sorted by these, of the kind of ``frame``
        The columns of the series, ``timestamp``, and

        - ``side`` : str, BUY or SELL, what one does.
        - ``size`` : float64, what one wants. [as ``amount`` says]
        - ``filled``, ``unfilled`` : float64, what the book sent has of it, and what it lacks. [as ``amount`` says]
        - ``average_price``, ``worst_price`` : float64, null where something is unfilled. [quote per coin]
        - ``mid`` : float64, null where a side is empty. [quote per coin]
        - ``slippage`` : float64, null where something is unfilled, there is no mid, or the whole size trades in the one
          block that holds the best bid and the best ask. [1e-4 of the mid]
        - ``shares_block`` : bool, whether one block holds the best bid and the best ask, null where there is no mid.
        - ``is_crossed`` : bool, whether the best bid lies above the best ask, null where there is no mid. Numbers of
          such a book mean little; see the notes.

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If an argument is not as listed, a column does not hold what it should, or ``amount_unit`` of a frame in memory
        says that sizes count something else than ``amount``, or ``block_size`` something else than the argument or
        several heights in one book; of a lazy frame such a book has null everywhere.

    Notes
    -----
    Beyond what was sent of a book nothing is known, and nothing is guessed. A book with a price or size that is null or
    not finite, a size below 0 or a side that is neither has null everywhere.

    Where the best bid lies above the best ask, a small trade gains: its slippage is below 0. A book of one venue is
    crossed only by mistake, which `quality.audit` finds as ``crossed_book``: leave its rows out. In one that unites
    venues it is what trading on both at once would gain, before fees.

    Where one block holds both the best bid and the best ask, the book does not say how far apart they are. What a trade
    inside that block costs is then unknown; ask for smaller blocks.

    What lacks less than 1e-12 of a size to be all of it is all of it. Average prices are right to some last bits of
    theirs, and slippage, a difference of prices, to 1e-11 of its unit: a smaller one is the noise of floats.

    Examples
    --------
    >>> from datetime import UTC, datetime
    >>> import polars as pl
    >>> book = pl.DataFrame({
    ...     "timestamp": datetime(2024, 8, 8, tzinfo=UTC), "side": ["BID", "ASK", "ASK"],
    ...     "price": [99.0, 101.0, 103.0], "size": [2.0, 1.0, 1.0],
    ... })
    >>> curve = slippage(book, size=[1, 2, 4])
    >>> curve.filter(side="BUY").select("size", "average_price", "slippage", "unfilled").rows()
    [(1.0, 101.0, 100.0, 0.0), (2.0, 102.0, 200.0, 0.0), (4.0, None, None, 2.0)]
    """
    one_of("amount", amount, ("coin", "quote"))
    wanted = numbers("size", size)
    unit = {"coin": AmountUnit.COIN, "quote": AmountUnit.USD}[amount].value
    results = ("filled", "unfilled", "average_price", "worst_price", "slippage", "shares_block")
    books = books_of(frame, by, block_size, results=results, unit=unit)
    price, here, mid = nw.col("price"), nw.col("size"), nw.col("mid")
    rows = books.rows.with_columns(__outward=nw.when(IS_BID).then(-price).otherwise(price))
    before = here.cum_sum().over(*books.book, "side", order_by="__outward") - here
    rows = rows.with_columns(__before=before)

    sides = {Side.BUY: IS_ASK, Side.SELL: IS_BID}
    cases = {(side, n): f"__{side.value}_{n}" for side in sides for n in range(len(wanted))}
    taken = {}
    for (side, n), name in cases.items():
        left = wanted[n] - nw.col("__before")
        is_met = sides[side] & (left > _NOISE * wanted[n]) & (here > 0)
        taken[f"{name}_size"] = nw.when(is_met).then(nw.min_horizontal(left, here)).otherwise(0.0)
        taken[f"{name}_worst"] = nw.when(is_met).then(price)
    rows = rows.with_columns(**taken)
    # Either the coins are what is taken, or the cash is.
    other = {
        f"{name}_other": nw.col(f"{name}_size") * price
        if amount == "coin"
        else nw.when(nw.col(f"{name}_size") > 0).then(nw.col(f"{name}_size") / price).otherwise(0.0)
        for name in cases.values()
    }
    rows = (
        rows.with_columns(**other)
        .group_by(*books.book)
        .agg(
            nw.col("__known").all(),
            mid.max(),
            nw.col("__overlap").max(),
            nw.col(*(f"{name}_{part}" for name in cases.values() for part in ("size", "other"))).sum(),
            *(nw.col(f"{cases[Side.BUY, n]}_worst").max() for n in range(len(wanted))),
            *(nw.col(f"{cases[Side.SELL, n]}_worst").min() for n in range(len(wanted))),
        )
    )

    shares_block = nw.col("__overlap") == 0

    def row(side: Side, n: int, name: str) -> list[str | nw.Expr]:
        filled, other = nw.col(f"{name}_size"), nw.col(f"{name}_other")
        lacking = wanted[n] - filled
        is_whole = nw.col("__known") & (lacking <= _NOISE * wanted[n])
        average = other / filled if amount == "coin" else filled / other
        cost = (average - mid) / mid * 1e4 if side is Side.BUY else (mid - average) / mid * 1e4
        worst = nw.col(f"{name}_worst")
        is_within_block = (shares_block & (worst == mid)).fill_null(value=False)
        return [
            *books.book,
            nw.lit(side.value).alias("side"),
            nw.lit(wanted[n]).alias("size"),
            nw.when("__known")
            .then(nw.when(is_whole).then(nw.lit(wanted[n])).otherwise(filled))
            .alias("filled"),
            nw.when("__known").then(nw.when(is_whole).then(nw.lit(0.0)).otherwise(lacking)).alias("unfilled"),
            nw.when(is_whole).then(average).alias("average_price"),
            nw.when(is_whole).then(worst).alias("worst_price"),
            mid,
            nw.when(is_whole & ~is_within_block).then(cost).alias("slippage"),
            nw.when(~mid.is_null()).then(shares_block).alias("shares_block"),
            is_crossed(),
        ]

    result = stacked(rows, (row(side, n, name) for (side, n), name in cases.items()))
    return books.table.with_words({"side": None}).closed(result, sort=[*books.book, "side", "size"])
