"""What rests near the middle of a book."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import Any, cast

import narwhals.stable.v2 as nw
from narwhals.stable.v2.typing import IntoFrameT

from tidytape.analytics.depth._book import IS_ASK, IS_BID, books_of, is_crossed, numbers, stacked
from tidytape.frames import exact

_BPS = 10_000.0
_NOISE = 1e-12  # of a price: what writing a decimal as a float, and a product of it, may be off


def depth_within(
    frame: IntoFrameT,
    /,
    *,
    bps: float | Iterable[float] = 10.0,
    block_size: Decimal | float | str | None = None,
    by: str | Iterable[str] | None = None,
) -> IntoFrameT:
    r"""Size that rests within some distance of the mid, of either side.

    With the mid :math:`m` between the highest bid and the lowest ask,

    .. math::

        B(x) = \sum_{p \ge m (1 - x / 10^4)} s^\mathrm{bid}_p, \qquad
        A(x) = \sum_{p \le m (1 + x / 10^4)} s^\mathrm{ask}_p.

    Parameters
    ----------
    frame : frame, n rows, key (series, timestamp, side, price), any order
        Schema BLOCK_BOOK_SNAPSHOT_AGG. Uses ``timestamp``, ``side`` (BID or ASK), ``price`` [quote per coin] and
        ``size`` [coin; USD if so asked].
    bps : float or iterable of float, > 0
        x, the distance, both ends included; several are a row each. [1e-4 of the mid]
    block_size : Decimal, int, float or str, > 0, optional
        Height of the frame's blocks; by default its column ``block_size``, if it has one. A block counts at its middle;
        where the height is not known at ``price``, its low edge, which leaves every mid half a block low.
        [quote per coin]
    by : str or iterable of str, optional
        The columns that tell series apart; those of the identity that there are, unless said.

    Returns
    -------
    frame, one row per series, timestamp and distance, sorted by these, of the kind of ``frame``
        The columns of the series, ``timestamp``, and

        - ``bps`` : float64, the distance.
        - ``mid`` : float64, null where a side is empty or something of the book is not known. [quote per coin]
        - ``bid_depth``, ``ask_depth`` : float64, null where there is no mid, or where the distance is known to be less
          than half a block: what lies where inside a block is not known. [coin; USD if so asked]
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

    A book of one venue is crossed only by mistake, which `quality.audit` finds as ``crossed_book``: leave its rows out.
    One that unites venues may well be crossed, and its mid then lies between what one bids and what another one asks.

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
    results = ("bps", "bid_depth", "ask_depth", "bid_covered", "ask_covered")
    books = books_of(frame, by, block_size, results=results)
    price, mid = nw.col("price"), nw.col("mid")
    # How far on its own side of the mid a price is, in the units of its bounds: no quotient that engines round apart.
    rows = books.rows.with_columns(
        __below=nw.when(IS_BID).then((mid - price) * _BPS),
        __above=nw.when(IS_ASK).then((price - mid) * _BPS),
        __scale=mid.abs(),
    ).pipe(exact.in_parts, "size")
    within = {}
    for number, distance in enumerate(distances):
        for side, away in (("__below", nw.col("__below")), ("__above", nw.col("__above"))):
            is_within = away <= nw.col("__scale") * (distance + _NOISE * _BPS)
            within[f"{side}_{number}"] = is_within
    sums = list(within)
    rows = rows.with_columns(
        part for name, is_within in within.items() for part in exact.where(is_within, "size", name)
    )
    rows = (
        rows.group_by(*books.book)
        .agg(
            mid.max(),
            nw.col("__overlap", "__height").max(),
            nw.col("__below").max(),
            nw.col("__above").max(),
            exact.summed(*sums),
        )
        .with_columns(*(exact.total(name) for name in sums))
    )
    has_mid = ~mid.is_null()

    def total(side: str, number: int) -> nw.Expr:
        reach = mid.abs() * (distances[number] + _NOISE * _BPS)
        is_inside_block = (reach < nw.col("__height") / 2 * _BPS).fill_null(value=False)
        return nw.when(has_mid & ~is_inside_block).then(nw.col(f"{side}_{number}"))

    def covered(side: str, distance: float) -> nw.Expr:
        return nw.when(has_mid).then(nw.col(side) >= mid.abs() * (distance - _NOISE * _BPS))

    result = stacked(
        rows,
        (
            [
                *books.book,
                nw.lit(distance).alias("bps"),
                mid,
                total("__below", number).alias("bid_depth"),
                total("__above", number).alias("ask_depth"),
                covered("__below", distance).alias("bid_covered"),
                covered("__above", distance).alias("ask_covered"),
                is_crossed(),
            ]
            for number, distance in enumerate(distances)
        ),
    )
    return books.table.closed(result, sort=[*books.book, "bps"])


def imbalance(
    frame: IntoFrameT,
    /,
    *,
    bps: float | Iterable[float] = 10.0,
    block_size: Decimal | float | str | None = None,
    by: str | Iterable[str] | None = None,
) -> IntoFrameT:
    r"""Imbalance of what rests near the mid: 1 where there are bids alone, −1 where there are asks alone.

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
    .. [1] Á. Cartea, S. Jaimungal and J. Penalva, "Algorithmic and High-Frequency Trading", 2015, chapter 12, there of
       the volumes at the best prices.

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
