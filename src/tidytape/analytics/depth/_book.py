"""Sizes that rest near the mid of a book, and the cost of an order that takes them."""

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
from tidytape.frames._table import OpenTable
from tidytape.frames._units import AMOUNT_UNIT, BLOCK_SIZE, counting, of_one, on_blocks

_BPS = 10_000.0
_NOISE = 1e-12  # share of a price or size by which floats of decimals, their products and sums may be off


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
        x, the distance, both ends included; several are a row each. [1e-4 of the mid]
    block_size : Decimal, int, float or str, > 0, optional
        Height of the frame's blocks; by default its column ``block_size``, if it has one. A block counts at its middle;
        where the height is not known at ``price``, its low edge, which leaves every mid half a block low.
        [quote per coin]
    by : str or iterable of str, optional
        Columns that tell one series from another; by default the identity columns of the frame.

    Returns
    -------
    frame, one row per series, timestamp and distance, sorted by these, of the kind of ``frame``
        The columns of the series, ``timestamp``, and

        - ``bps`` : float64, the distance.
        - ``mid`` : float64, null where a side is empty or something of the book is not known. [quote per coin]
        - ``bid_depth``, ``ask_depth`` : float64, null where there is no mid, or where the distance is known to be less
          than half a block: what lies where inside a block is not known. [coin; USD if fetched in USD]
        - ``bid_covered``, ``ask_covered`` : bool, whether what was sent of the side reaches so far. If not, the depth
          is a lower bound. Null where there is no mid.
        - ``is_crossed`` : bool, whether the best bid lies above the best ask, null where there is no mid. Numbers of
          such a book mean little; see the notes.

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If an argument is not as listed, or a column does not hold what it should. Or if an eager frame has several
        ``amount_unit`` in one series, several ``block_size`` in one book, or another than the argument says; of a lazy
        frame such a book is not known.

    Notes
    -----
    A book with a price or size that is null or not finite, a size below 0 or a side that is neither is not known.
    Orders of size 0 are none. Bids above the mid, as in a block that has both sides, are within.

    A book of one exchange is crossed only by mistake, which `quality.audit` finds as ``crossed_book``: leave its rows
    out. A book that unites exchanges may well be crossed. Its mid then lies between a bid of one exchange and an ask of
    another.

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
    # The distance of a price from the mid, times 10,000, is compared with multiples of the mid: engines round quotients
    # differently.
    rows = rows.with_columns(
        __below=nw.when(IS_BID).then((mid - price) * _BPS),
        __above=nw.when(IS_ASK).then((price - mid) * _BPS),
        __scale=mid.abs(),
    ).pipe(exact.in_parts, "size")
    sides = ("__below", "__above")
    within = {
        f"{side}_{number}": nw.col(side) <= nw.col("__scale") * (distance + _NOISE * _BPS)
        for number, distance in enumerate(distances)
        for side in sides
    }
    rows = rows.with_columns(
        part for name, is_within in within.items() for part in exact.where(is_within, "size", name)
    )
    rows = (
        rows.group_by(*book)
        .agg(mid.max(), nw.col("__overlap", "__height", *sides).max(), exact.summed(*within))
        .with_columns(*map(exact.total, within))
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
    return table.closed(nw.concat(parts), sort=[*book, "bps"])


def imbalance(
    frame: IntoFrameT,
    /,
    *,
    bps: float | Iterable[float] = 10.0,
    block_size: Decimal | float | str | None = None,
    by: str | Iterable[str] | None = None,
) -> IntoFrameT:
    r"""Imbalance of the sizes near the mid: 1 if there are only bids, −1 if there are only asks.

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
        The columns of `depth_within`, and ``imbalance`` : float64, from −1 to 1, null where there is no mid or nothing
        within. [1]

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If an argument is not as listed, or a column does not hold what it should. Or if an eager frame has several
        ``amount_unit`` in one series, several ``block_size`` in one book, or another than the argument says; of a lazy
        frame such a book is not known.

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
    near: Any = nw.from_native(cast("Any", depth_within(frame, bps=bps, block_size=block_size, by=by)))
    bid, ask = nw.col("bid_depth"), nw.col("ask_depth")
    share = nw.when(bid + ask > 0).then((bid - ask) / (bid + ask))
    return cast("IntoFrameT", near.with_columns(imbalance=share).to_native())


def slippage(
    frame: IntoFrameT,
    /,
    *,
    size: float | Iterable[float],
    amount: Literal["coin", "quote"] = "coin",
    block_size: Decimal | float | str | None = None,
    by: str | Iterable[str] | None = None,
) -> IntoFrameT:
    r"""Cost of a market order against the book, by size, for buys and sells.

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
        Columns that tell one series from another; by default the identity columns of the frame.

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

    Where the best bid lies above the best ask, a small trade gains: its slippage is below 0. A book of one exchange is
    crossed only by mistake, which `quality.audit` finds as ``crossed_book``: leave its rows out. In one that unites
    exchanges it is what trading on both at once would gain, before fees.

    Where one block holds both the best bid and the best ask, the book does not say how far apart they are. What a trade
    inside that block costs is then unknown; ask for smaller blocks.

    What lacks less than 1e-12 of a size to be all of it is all of it. Average prices are right to some last bits of
    theirs, and slippage, a difference of prices, to 1e-11 of its unit: a smaller one is the noise of floats.

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
    price, here, mid = nw.col("price"), nw.col("size"), nw.col("mid")
    rows = rows.with_columns(__outward=nw.when(IS_BID).then(-price).otherwise(price))

    # An order takes coins, and the other amount is cash; or the other way round.
    def other(part: nw.Expr) -> nw.Expr:
        return part * price if amount == "coin" else part / price

    # Both are added outward, price by price: a group's order differs from run to run, and so would the rounding.
    rows = rows.with_columns(__upto=here, __other=nw.when(here > 0).then(other(here)).otherwise(0.0))
    outward = [*book, "side"]
    rows = rows.with_columns(nw.col("__upto", "__other").cum_sum().over(*outward, order_by="__outward"))
    inward = nw.col("__upto", "__other").shift(1).over(*outward, order_by="__outward").fill_null(0.0)
    rows = rows.with_columns(inward.name.suffix("_before"))
    upto, before = nw.col("__upto"), nw.col("__upto_before")

    sides = {Side.BUY: IS_ASK, Side.SELL: IS_BID}
    cases = {(side, n): f"__{side.value}_{n}" for side in sides for n in range(len(order_sizes))}
    fills = {}
    for (side, n), name in cases.items():
        is_met = sides[side] & (order_sizes[n] - before > _NOISE * order_sizes[n]) & (here > 0)
        is_last = is_met & (order_sizes[n] - upto <= _NOISE * order_sizes[n])
        part = nw.min_horizontal(order_sizes[n] - before, here)
        fills[f"{name}_size"] = nw.when(is_met).then(nw.min_horizontal(upto, nw.lit(order_sizes[n])))
        fills[f"{name}_other"] = nw.when(is_last).then(nw.col("__other_before") + other(part))
        fills[f"{name}_worst"] = nw.when(is_met).then(price)
    worst = {name: nw.col(f"{name}_worst") for name in cases.values()}
    rows = (
        rows.with_columns(**fills)
        .group_by(*book)
        .agg(
            nw.col("__known").all(),
            nw.col("mid", "__overlap").max(),
            nw.col(*(f"{name}_{part}" for name in cases.values() for part in ("size", "other"))).max(),
            *(
                worst[name].max() if side is Side.BUY else worst[name].min()
                for (side, _), name in cases.items()
            ),
        )
    )
    shares_block = nw.col("__overlap") == 0

    def row(side: Side, n: int, name: str) -> list[str | nw.Expr]:
        filled, paid = nw.col(f"{name}_size").fill_null(0.0), nw.col(f"{name}_other")
        lacking = order_sizes[n] - filled
        is_whole = nw.col("__known") & (lacking <= _NOISE * order_sizes[n])
        average = paid / filled if amount == "coin" else filled / paid
        cost = (average - mid) / mid * 1e4 if side is Side.BUY else (mid - average) / mid * 1e4
        is_within_block = (shares_block & (worst[name] == mid)).fill_null(value=False)
        return [
            *book,
            nw.lit(side.value).alias("side"),
            nw.lit(order_sizes[n]).alias("size"),
            nw.when("__known")
            .then(nw.when(is_whole).then(nw.lit(order_sizes[n])).otherwise(filled))
            .alias("filled"),
            nw.when("__known").then(nw.when(is_whole).then(nw.lit(0.0)).otherwise(lacking)).alias("unfilled"),
            nw.when(is_whole).then(average).alias("average_price"),
            nw.when(is_whole).then(worst[name]).alias("worst_price"),
            mid,
            nw.when(is_whole & ~is_within_block).then(cost).alias("slippage"),
            shares_block.alias("shares_block"),
            IS_CROSSED,
        ]

    parts = [rows.select(*row(side, n, name)) for (side, n), name in cases.items()]
    return table.with_words({"side": None}).closed(nw.concat(parts), sort=[*book, "side", "size"])


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
    """Open a frame of books; return the table, its rows, and the columns that tell one book from another.

    Rows have the series' columns, ``timestamp`` [ns], ``side``, ``price`` [quote per coin] and ``size``; ``__known``,
    whether every row of the book is known; ``mid`` and ``__overlap``, how far the best bid lies above the best ask,
    null where the book has no mid; ``__height`` of a block, null where it is unknown. An unknown row has price and size
    0, and its book has no mid.

    A block counts at its middle if its height is known, from the argument ``block_size`` or from the column; if both
    say it, they must be equal. The sizes of a series count one unit, by the column ``amount_unit``: ``unit`` if that is
    not None. A row that does not fit is an error in an eager frame, and unknown in a lazy one.
    """
    grid = None if block_size is None else Grid.of(block_size)
    table = OpenTable.of(frame)
    has_heights = grid is None and BLOCK_SIZE in table.names
    numbers = ["price", "size", *([BLOCK_SIZE] if has_heights else [])]
    table = OpenTable.of(table, ["side"], times=["timestamp"], numbers=numbers)
    series = table.series(by, without=[*_TAKEN, *results])
    height: nw.Expr = nw.lit(None if grid is None else float(grid.size), nw.Float64)
    if has_heights:
        height = nw.when(nw.col(BLOCK_SIZE).is_finite() & (nw.col(BLOCK_SIZE) > 0)).then(nw.col(BLOCK_SIZE))
    book = [*series, "timestamp"]
    if unit is not None:
        table = counting(
            table,
            unit,
            ["size"],
            parameter="amount",
            expected="sizes that count what amount says",
            hint="amount='quote' where they count USD, amount='coin' where they count coins",
        )
    table = of_one(table, AMOUNT_UNIT, series, ["size"])
    if grid is not None:
        table = on_blocks(table, Fraction(grid.size), "price", parameter="block_size", exactly=True)
    table = of_one(table, BLOCK_SIZE, book, ["price"])
    price, size = nw.col("price"), nw.col("size")
    is_known = (price.is_finite() & size.is_finite() & (size >= 0) & (IS_BID | IS_ASK)).fill_null(value=False)
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
    bid, ask, is_whole = nw.col("__bid"), nw.col("__ask"), nw.col("__known")
    rows = rows.with_columns(
        mid=nw.when(is_whole).then((bid + ask) / 2), __overlap=nw.when(is_whole).then(bid - ask)
    )
    return table, rows, book


def numbers(parameter: str, argument: float | Iterable[float]) -> list[float]:
    """Return one or several finite numbers above 0, in order; raise QueryError if one is anything else."""
    ordered = sorted(positive(parameter, number) for number in as_list(argument))
    if not ordered or len(set(ordered)) < len(ordered):
        raise QueryError(parameter, got=argument, expected="a number above 0, or several, each once")
    return ordered
