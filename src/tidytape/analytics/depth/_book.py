"""Resting size near the mid of a book, and the cost of a market order."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from fractions import Fraction
from typing import Any, Literal, cast

import narwhals.stable.v2 as nw
from narwhals.stable.v2.typing import IntoFrameT

from tidytape.analytics._arguments import one_of, positive
from tidytape.catalogue import AmountUnit, BookSide, Side
from tidytape.errors import QueryError
from tidytape.frames import _exact as exact
from tidytape.frames._door import as_list
from tidytape.frames._grid import Grid
from tidytape.frames._kinds import OF_BOOKS
from tidytape.frames._rows import crossed
from tidytape.frames._table import OpenTable
from tidytape.frames._units import AMOUNT_UNIT, BLOCK_SIZE, require_blocks, require_one_unit, require_unit

_BPS = 10_000.0
_NOISE = 1e-12  # rounding error of prices, sizes, their products and sums, as a share of them


def depth_within(
    frame: IntoFrameT,
    /,
    *,
    bps: float | Iterable[float] = 10.0,
    block_size: Decimal | float | str | None = None,
    by: str | Iterable[str] | None = None,
) -> IntoFrameT:
    r"""Resting size within a distance of the mid, on each side.

    With the mid :math:`m` between the highest bid and the lowest ask,

    .. math::

        B(x) = \sum_{p \ge m (1 - x / 10^4)} s^\mathrm{bid}_p, \qquad
        A(x) = \sum_{p \le m (1 + x / 10^4)} s^\mathrm{ask}_p.

    Parameters
    ----------
    frame : frame, n rows, key (series, timestamp, side, price), any order
        Schema BLOCK_BOOK_SNAPSHOT_AGG. Uses ``timestamp``, ``side`` (BID or ASK), ``price`` [quote per coin] and
        ``size`` [coin; USD if fetched in USD].
    bps : float or iterable of float, > 0
        x, the distance, both ends included; each distance has its own row. [1e-4 of the mid]
    block_size : Decimal, int, float or str, > 0, optional
        Height of the frame's blocks; by default its column ``block_size``, if it has one. A block counts at its middle
        if the height is known. Otherwise it counts at ``price``, its low edge, and every mid is half a block too low.
        [quote per coin]
    by : str or iterable of str, optional
        Columns that tell one series from another; by default the identity columns of the frame.

    Returns
    -------
    frame, one row per series, timestamp and distance, sorted by these, of the kind of ``frame``
        The columns of the series, ``timestamp``, and

        - ``bps`` : float64, the distance.
        - ``mid`` : float64, null if a side is empty or a row of the book is unknown. [quote per coin]
        - ``bid_depth``, ``ask_depth`` : float64, null without a mid, or if the distance is less than half the known
          height of a block, because positions inside a block are unknown. [coin; USD if fetched in USD]
        - ``bid_covered``, ``ask_covered`` : bool, whether the side of the book in ``frame`` reaches as far as the
          distance. If not, the depth is a lower bound. Null without a mid.
        - ``is_crossed`` : bool, whether the best bid lies above the best ask, null without a mid. The numbers of a
          crossed book mean little; see the notes.

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If an argument is not as listed, or a column has values of another type. Or if an eager frame has several amount
        units in one series, several values of ``block_size`` in one book, or another ``block_size`` than the argument;
        in a lazy frame such a book is unknown.

    Notes
    -----
    A book is unknown if a price or size is null or not finite, a size is below 0, or a side is neither BID nor ASK.
    Orders of size 0 are ignored. Bids above the mid, as in a block with both sides, are within the distance.

    A crossed book of one exchange is an error, which `quality.audit` finds as ``crossed_book``: leave its rows out. A
    book that combines exchanges may be crossed without an error. Its mid then lies between a bid of one exchange and an
    ask of another.

    References
    ----------
    tidytape's own convention; see definitions.

    Examples
    --------
    >>> from datetime import UTC, datetime
    >>> import polars as pl
    >>> book = pl.DataFrame({
    ...     "timestamp": datetime(2024, 8, 8, tzinfo=UTC), "side": ["BID", "BID", "ASK", "ASK"],
    ...     "price": [99.0, 99.95, 100.05, 100.1], "size": [3.0, 1.0, 2.0, 4.0],
    ... })
    >>> depth_within(book, bps=[5, 10]).select("bps", "mid", "bid_depth", "ask_depth", "ask_covered").rows()
    [(5.0, 100.0, 1.0, 2.0, True), (10.0, 100.0, 1.0, 6.0, True)]
    """
    distances = numbers("bps", bps)
    table, rows, book = books_of(
        frame, by, block_size, results=("bps", "bid_depth", "ask_depth", "bid_covered", "ask_covered")
    )
    price, mid = nw.col("price"), nw.col("mid")
    # Compare the distance from the mid, times 10,000, with multiples of the mid, because engines round quotients
    # differently.
    rows = rows.with_columns(
        __below=nw.when(IS_BID).then((mid - price) * _BPS),
        __above=nw.when(IS_ASK).then((price - mid) * _BPS),
        __scale=mid.abs(),
    ).pipe(exact.in_parts, "size")
    sides = ("__below", "__above")
    conditions = {
        f"{side}_{number}": nw.col(side) <= nw.col("__scale") * (distance + _NOISE * _BPS)
        for number, distance in enumerate(distances)
        for side in sides
    }
    rows = rows.with_columns(
        part for name, is_within in conditions.items() for part in exact.where(is_within, "size", name)
    )
    rows = (
        rows.group_by(*book)
        .agg(mid.max(), nw.col("__overlap", "__height", *sides).max(), exact.summed(*conditions))
        .with_columns(*map(exact.total, conditions))
    )
    has_mid = ~mid.is_null()

    def total(side: str, number: int) -> nw.Expr:
        reach = mid.abs() * (distances[number] + _NOISE * _BPS)
        is_inside_block = (reach < nw.col("__height") / 2 * _BPS).fill_null(value=False)
        return nw.when(has_mid & ~is_inside_block).then(nw.col(f"{side}_{number}"))

    def covered(side: str, distance: float) -> nw.Expr:
        return nw.when(has_mid).then(nw.col(side) >= mid.abs() * (distance - _NOISE * _BPS))

    parts = [
        rows.select(
            *book,
            nw.lit(distance).alias("bps"),
            mid,
            total("__below", number).alias("bid_depth"),
            total("__above", number).alias("ask_depth"),
            covered("__below", distance).alias("bid_covered"),
            covered("__above", distance).alias("ask_covered"),
            IS_CROSSED,
        )
        for number, distance in enumerate(distances)
    ]
    return table.closed(nw.concat(parts), sort=[*book, "bps"], main=["mid", "bid_depth", "ask_depth"])


def imbalance(
    frame: IntoFrameT,
    /,
    *,
    bps: float | Iterable[float] = 10.0,
    block_size: Decimal | float | str | None = None,
    by: str | Iterable[str] | None = None,
) -> IntoFrameT:
    r"""Imbalance of the sizes near the mid: 1 for only bids, −1 for only asks.

    .. math:: \rho(x) = \frac{B(x) - A(x)}{B(x) + A(x)},

    with the depths :math:`B` and :math:`A` of `depth_within` [1]_.

    Parameters
    ----------
    frame : frame, n rows, key (series, timestamp, side, price), any order
        As for `depth_within`.
    bps, block_size, by
        As for `depth_within`.

    Returns
    -------
    frame, one row per series, timestamp and distance, sorted by these, of the kind of ``frame``
        The columns of `depth_within`, and ``imbalance`` : float64, from −1 to 1, null without a mid or without size
        within the distance. [1]

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If an argument is not as listed, or a column has values of another type. Or if an eager frame has several amount
        units in one series, several values of ``block_size`` in one book, or another ``block_size`` than the argument;
        in a lazy frame such a book is unknown.

    References
    ----------
    .. [1] Cartea, Á., Jaimungal, S. and Penalva, J., "Algorithmic and High-Frequency Trading", 2015, chapter 12,
       there of the volumes at the best prices.

    Examples
    --------
    >>> from datetime import UTC, datetime
    >>> import polars as pl
    >>> book = pl.DataFrame({
    ...     "timestamp": datetime(2024, 8, 8, tzinfo=UTC), "side": ["BID", "ASK"],
    ...     "price": [99.95, 100.05], "size": [3.0, 1.0],
    ... })
    >>> imbalance(book)["imbalance"].to_list()
    [0.5]
    """
    depths: Any = nw.from_native(cast("Any", depth_within(frame, bps=bps, block_size=block_size, by=by)))
    bid, ask = nw.col("bid_depth"), nw.col("ask_depth")
    share = nw.when(bid + ask > 0).then((bid - ask) / (bid + ask))
    return cast("IntoFrameT", depths.with_columns(imbalance=share).to_native())


def slippage(
    frame: IntoFrameT,
    /,
    *,
    size: float | Iterable[float],
    amount: Literal["coin", "quote"] = "coin",
    block_size: Decimal | float | str | None = None,
    by: str | Iterable[str] | None = None,
) -> IntoFrameT:
    r"""Slippage: the cost of market orders of given sizes against the book, for buys and sells.

    A buy of :math:`Q` takes asks from the lowest price up, a sell takes bids from the highest price down: :math:`q_i`
    of level i, until the sum is Q. With the mid :math:`m`,

    .. math:: \bar p = \frac{\sum_i q_i p_i}{\sum_i q_i}, \qquad
              \mathrm{slippage} = \pm 10^4 \left( \frac{\bar p}{m} - 1 \right),

    with + for a buy and − for a sell, so that a cost is positive. Fees are not included.

    Parameters
    ----------
    frame : frame, n rows, key (series, timestamp, side, price), any order
        Schema BLOCK_BOOK_SNAPSHOT_AGG. Uses ``timestamp``, ``side`` (BID or ASK), ``price`` [quote per coin] and
        ``size`` [coin or quote, as ``amount`` says].
    size : float or iterable of float, > 0
        Q, the size of the order; each size has its own row. [coin or quote]
    amount : {"coin", "quote"}
        What the sizes of the frame and of the orders count; ``"quote"`` for a frame fetched in USD. It must agree with
        the column ``amount_unit``, if the frame has it.
    block_size : Decimal, int, float or str, > 0, optional
        Height of the frame's blocks; by default its column ``block_size``, if it has one. Orders in a block trade at
        its middle if the height is known. Otherwise they trade at ``price``, its low edge, so prices of buys and sells
        are half a block too low. [quote per coin]
    by : str or iterable of str, optional
        Columns that tell one series from another; by default the identity columns of the frame.

    Returns
    -------
    frame, one row per series, timestamp, side and size, sorted by these, of the kind of ``frame``
        The columns of the series, ``timestamp``, and

        - ``side`` : str, BUY or SELL, the side of the order.
        - ``size`` : float64, the size of the order. [as ``amount`` says]
        - ``filled``, ``unfilled`` : float64, how much of it the book in ``frame`` can fill, and the rest. [as
          ``amount`` says]
        - ``average_price``, ``worst_price`` : float64, null unless all is filled. [quote per coin]
        - ``mid`` : float64, null if a side is empty. [quote per coin]
        - ``slippage`` : float64, null unless all is filled, without a mid, or if the order trades only in a block that
          holds both the best bid and the best ask. [1e-4 of the mid]
        - ``shares_block`` : bool, whether one block holds the best bid and the best ask, null without a mid.
        - ``is_crossed`` : bool, whether the best bid lies above the best ask, null without a mid. The numbers of a
          crossed book mean little; see the notes.

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If an argument is not as listed, a column has values of another type, or if in an eager frame ``amount_unit``
        contradicts ``amount``, ``block_size`` differs from the argument, or one book has several values of
        ``block_size``; in a lazy frame all results of such a book are null.

    Notes
    -----
    Nothing is assumed about levels beyond those in ``frame``. All results of a book are null if a price or size is null
    or not finite, a size is below 0, or a side is neither BID nor ASK.

    If the best bid lies above the best ask, a small order has negative slippage. A crossed book of one exchange is an
    error, which `quality.audit` finds as ``crossed_book``: leave its rows out. In a book that combines exchanges, the
    negative slippage is a possible gain of trading on both at once, before fees.

    If one block holds both the best bid and the best ask, the book does not tell how far apart they are. The cost of an
    order inside that block is then unknown; fetch smaller blocks.

    An order counts as filled if less than 1e-12 of it is unfilled. Average prices are right except for their last bits;
    slippage, a difference of prices, is right to 1e-11 of its unit.

    References
    ----------
    .. [1] Foucault, T., Pagano, M. and Röell, A., "Market Liquidity", 2013, section 2.2: the cost of a trade
       against the mid.

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
    order_sizes = numbers("size", size)
    unit = {"coin": AmountUnit.COIN, "quote": AmountUnit.USD}[amount].value
    table, rows, book = books_of(
        frame,
        by,
        block_size,
        results=("filled", "unfilled", "average_price", "worst_price", "slippage", "shares_block"),
        unit=unit,
    )
    price, level_size, mid = nw.col("price"), nw.col("size"), nw.col("mid")
    rows = rows.with_columns(__outward=nw.when(IS_BID).then(-price).otherwise(price))

    # If sizes count coins, the other amount is in the quote, and vice versa.
    def other(part: nw.Expr) -> nw.Expr:
        return part * price if amount == "coin" else part / price

    # Add both amounts outward, price by price: the order within a group, and so the rounding, would differ from run to
    # run.
    rows = rows.with_columns(
        __upto=level_size, __other=nw.when(level_size > 0).then(other(level_size)).otherwise(0.0)
    )
    outward = [*book, "side"]
    rows = rows.with_columns(nw.col("__upto", "__other").cum_sum().over(*outward, order_by="__outward"))
    inward = nw.col("__upto", "__other").shift(1).over(*outward, order_by="__outward").fill_null(0.0)
    rows = rows.with_columns(inward.name.suffix("_before"))
    size_up_to, size_before = nw.col("__upto"), nw.col("__upto_before")

    # Each level meets each order, so that the plan does not grow with the number of orders.
    order = nw.col("__order")
    rows = crossed(rows, "__order", order_sizes)
    is_reached = (order - size_before > _NOISE * order) & (level_size > 0)
    is_last = is_reached & (order - size_up_to <= _NOISE * order)
    paid_before_and_here = nw.col("__other_before") + other(
        nw.min_horizontal(order - size_before, level_size)
    )
    rows = rows.with_columns(
        __filled=nw.when(is_reached).then(nw.min_horizontal(size_up_to, order)),
        __paid=nw.when(is_last).then(paid_before_and_here),
        __worst=nw.when(is_reached).then(price),
    )
    parts_of_order = ("filled", "paid", "worst")
    sides = {Side.BUY: IS_ASK, Side.SELL: IS_BID}
    of_sides = {
        f"__{side.value}_{part}": nw.when(is_on_side).then(nw.col(f"__{part}"))
        for side, is_on_side in sides.items()
        for part in parts_of_order
    }
    lowest = f"__{Side.SELL.value}_worst"
    rows = (
        rows.with_columns(**of_sides)
        .group_by(*book, "__order")
        .agg(
            nw.col("__known").all(),
            nw.col("mid", "__overlap", *(name for name in of_sides if name != lowest)).max(),
            nw.col(lowest).min(),
        )
    )
    best_prices_share_block = nw.col("__overlap") == 0

    def row(side: Side) -> list[str | nw.Expr]:
        some_filled, paid, worst = (nw.col(f"__{side.value}_{part}") for part in parts_of_order)
        filled = some_filled.fill_null(0.0)
        missing_size = order - filled
        is_complete = nw.col("__known") & (missing_size <= _NOISE * order)
        average = paid / filled if amount == "coin" else filled / paid
        cost = (average - mid) / mid * 1e4 if side is Side.BUY else (mid - average) / mid * 1e4
        is_within_block = (best_prices_share_block & (worst == mid)).fill_null(value=False)
        return [
            *book,
            nw.lit(side.value).alias("side"),
            order.alias("size"),
            nw.when("__known").then(nw.when(is_complete).then(order).otherwise(filled)).alias("filled"),
            nw.when("__known")
            .then(nw.when(is_complete).then(nw.lit(0.0)).otherwise(missing_size))
            .alias("unfilled"),
            nw.when(is_complete).then(average).alias("average_price"),
            nw.when(is_complete).then(worst).alias("worst_price"),
            mid,
            nw.when(is_complete & ~is_within_block).then(cost).alias("slippage"),
            best_prices_share_block.alias("shares_block"),
            IS_CROSSED,
        ]

    parts = [rows.select(*row(side)) for side in sides]
    return table.with_text_columns({"side": None}).closed(
        nw.concat(parts),
        sort=[*book, "side", "size"],
        main=["size", "unfilled", "average_price", "slippage"],
    )


IS_BID, IS_ASK = nw.col("side") == BookSide.BID.value, nw.col("side") == BookSide.ASK.value
IS_CROSSED = (nw.col("__overlap") > 0).alias("is_crossed")  # null where a book has no mid, as `__overlap` is

_TAKEN = ("timestamp", "side", "price", "size", "mid", "is_crossed", BLOCK_SIZE)


def books_of(
    frame: IntoFrameT,
    by: str | Iterable[str] | None,
    block_size: Decimal | float | str | None,
    *,
    results: Iterable[str],
    unit: str | None = None,
) -> tuple[OpenTable[IntoFrameT], nw.LazyFrame[Any], list[str]]:
    """Open a frame of books; return the table, its rows, and the columns that tell books apart.

    Rows have the columns of the series, ``timestamp`` [ns], ``side``, ``price`` [quote per coin] and ``size``;
    ``__known``, whether every row of the book is known; ``mid``, and ``__overlap``, how far the best bid lies above the
    best ask, both null if a side is empty or a row unknown; and ``__height``, the height of a block, null if unknown.
    An unknown row has price and size 0.

    A block counts at its middle if its height is known from the argument ``block_size`` or from the column; if both
    exist, they must be equal. The sizes of a series must have one ``amount_unit``, and it must be ``unit`` if that is
    given. Rows that break these rules are an error in an eager frame, and unknown in a lazy one.
    """
    grid = None if block_size is None else Grid.of(block_size)
    table = OpenTable.of(frame)
    has_heights = grid is None and BLOCK_SIZE in table.names
    numbers = ["price", "size", *([BLOCK_SIZE] if has_heights else [])]
    table = OpenTable.of(table, ["timestamp", "side", *numbers], kinds=OF_BOOKS)
    series_columns = table.series_columns(by, without=[*_TAKEN, *results])
    height: nw.Expr = nw.lit(None if grid is None else float(grid.size), nw.Float64)
    if has_heights:
        height = nw.when(nw.col(BLOCK_SIZE).is_finite() & (nw.col(BLOCK_SIZE) > 0)).then(nw.col(BLOCK_SIZE))
    book = [*series_columns, "timestamp"]
    if unit is not None:
        table = require_unit(
            table,
            unit,
            ["size"],
            parameter="amount",
            expected="sizes that count what amount says",
            hint="amount='quote' where they count USD, amount='coin' where they count coins",
        )
    table = require_one_unit(table, AMOUNT_UNIT, series_columns, ["size"])
    if grid is not None:
        table = require_blocks(table, Fraction(grid.size), "price", parameter="block_size", exactly=True)
    table = require_one_unit(table, BLOCK_SIZE, book, ["price"])
    price, size = nw.col("price"), nw.col("size")
    is_known = (price.is_finite() & size.is_finite() & (size >= 0) & ~nw.col("side").is_null()).fill_null(
        value=False
    )
    rows = (
        table.rows.select(
            *book,
            "side",
            price=nw.when(is_known).then(price + height.fill_null(0.0) / 2).otherwise(0.0),
            size=nw.when(is_known).then(size).otherwise(0.0),
            __known=is_known,
            __height=height,
        )
        .with_columns(
            __bid=nw.when(IS_BID & (size > 0)).then(price), __ask=nw.when(IS_ASK & (size > 0)).then(price)
        )
        .with_columns(
            nw.col("__known").all().over(*book),
            nw.col("__bid").max().over(*book),
            nw.col("__ask").min().over(*book),
        )
    )
    bid, ask, is_complete = nw.col("__bid"), nw.col("__ask"), nw.col("__known")
    rows = rows.with_columns(
        mid=nw.when(is_complete).then((bid + ask) / 2), __overlap=nw.when(is_complete).then(bid - ask)
    )
    return table, rows, book


def numbers(parameter: str, argument: float | Iterable[float]) -> list[float]:
    """Return one or several finite numbers above 0, in ascending order; raise QueryError for anything else."""
    ordered = sorted(positive(parameter, number) for number in as_list(argument))
    if not ordered or len(set(ordered)) < len(ordered):
        raise QueryError(parameter, got=argument, expected="a number above 0, or several, each once")
    return ordered
