"""Heatmaps to coarser prices and times."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from fractions import Fraction
from typing import Literal

import narwhals.stable.v2 as nw
from narwhals.stable.v2.typing import IntoFrameT

from tidytape.analytics._arguments import one_of
from tidytape.catalogue import Interval
from tidytape.frames import exact
from tidytape.frames.buckets import bucket_start
from tidytape.frames.grid import Grid
from tidytape.frames.table import Table
from tidytape.frames.units import AMOUNT_UNIT, BLOCK_SIZE, of_one, on_blocks
from tidytape.times import interval_of


def regrid(
    frame: IntoFrameT,
    /,
    *,
    block_size: Decimal | float | str | None = None,
    interval: str | None = None,
    time: Literal["last", "mean", "sum"] | None = None,
    by: str | Iterable[str] | None = None,
) -> IntoFrameT:
    r"""Heatmap of coarser rows of price, coarser times, or both.

    Prices are rows of ``block_size``, and sizes are added: the sum of a time and side stays what it was. Of the times
    :math:`t_1 < \dots < t_n` that a series has in an interval, a book is ``last`` or ``mean``,

    .. math:: s = s_{t_n}, \qquad s = \frac{1}{n} \sum_i s_{t_i},

    with 0 at a time that sent nothing at the price; liquidations, which happen and do not rest, are the ``sum``.

    Parameters
    ----------
    frame : frame, n rows, key (series, timestamp, side, price) or (series, timestamp, price), any order
        Schema BLOCK_BOOK_SNAPSHOT_AGG, whose ``size`` it adds, or VENUEX_LIQUIDATION_AGG, whose ``liquidations``.
        [coin; USD if so asked]
    block_size : Decimal, int, float or str, > 0, optional
        Height of a row, the decimal it is written as; a whole multiple of that of the frame, or blocks are put whole
        where their low edge is. Prices stay as they are without it. [quote per coin]
    interval : str, optional
        Name or alias of an interval, a whole multiple of that of the rows: what a longer one sums up is not known of a
        shorter. Times stay as they are without it.
    time : {"last", "mean", "sum"}, optional
        What becomes of the times of an interval; for a book ``last``, for liquidations ``sum``, unless said.
    by : str or iterable of str, optional
        Columns that tell one series from another; by default the identity columns that the frame has.

    Returns
    -------
    frame, one row per series, timestamp, side and price that there is, sorted by these, of the kind of ``frame``
        The columns of the series, with ``interval`` as asked; ``timestamp``, start of the interval; ``side`` of a book;
        ``price``, low edge of the row [quote per coin]; ``size`` or ``liquidations``, float64, null where one that went
        into it is not known; ``block_size``, as asked or as in ``frame``, null where that of a block is not known, and
        ``amount_unit``, each where ``frame`` has it; and ``time_rule``, what became of times.

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If an argument is not one of those listed, or a column does not hold what it should. Or if an eager frame has a
        ``block_size`` of which the argument is no whole multiple, or several ``amount_unit`` or, of one time, several
        ``block_size`` in one series; of a lazy frame the sizes or prices are null there.

    Notes
    -----
    Sums do not depend on the order of the rows, and are exact for amounts of up to eight places. A size that is null,
    not finite or below 0 is not known. Rows whose price is null or not finite stay apart, under a price of null; so do
    prices beyond 2**53 rows from zero, where floats do not tell one row from the next.

    The mean of a book counts a price as empty at times that did not reach so far out. Where that happens, ask for more
    depth than you look at.

    Examples
    --------
    >>> from datetime import UTC, datetime
    >>> import polars as pl
    >>> book = pl.DataFrame({
    ...     "timestamp": [datetime(2024, 8, 8, 0, minute, tzinfo=UTC) for minute in (0, 0, 1)],
    ...     "side": "BID", "price": [99.0, 99.5, 99.5], "size": [3.0, 1.0, 4.0],
    ... })
    >>> regrid(book, block_size=1)["size"].to_list()
    [4.0, 4.0]
    >>> regrid(book, block_size=1, interval="5m", time="mean").select("price", "size", "time_rule").rows()
    [(99.0, 4.0, 'mean')]
    """
    grid = None if block_size is None else Grid.of(block_size)
    wanted = None if interval is None else interval_of(interval)
    table, value = _opened(frame)
    rule = ("last" if value == "size" else "sum") if time is None else time
    one_of("time", rule, ("last", "mean", "sum"))
    sides = ["side"] if value == "size" else []
    series = table.series(by, without=["timestamp", "start", "price", value, "time_rule", BLOCK_SIZE, *sides])
    described = [name for name in (AMOUNT_UNIT, BLOCK_SIZE) if name in table.names and name not in series]
    table = of_one(table, AMOUNT_UNIT, series, [value])
    if grid is not None:
        table = on_blocks(table, Fraction(grid.size), "price", parameter="block_size")
    # Blocks of several heights make up rows of one, but those of one time would count twice.
    table = of_one(table, BLOCK_SIZE, series if grid is None else [*series, "timestamp"], ["price"])

    price, size = nw.col("price"), nw.col(value)
    is_known = (size.is_finite() & (size >= 0)).fill_null(value=False)
    if wanted is not None and "interval" in table.names:
        is_known = is_known & _fits(wanted)
    rows = table.rows.with_columns(
        price=nw.when(price.is_finite()).then(price),
        start=nw.col("timestamp") if wanted is None else bucket_start(nw.col("timestamp"), wanted),
        __count=nw.lit(1.0),
    ).with_columns(nw.when(is_known).then(size).alias(value))
    bucket = [*series, "start"]
    if grid is not None and BLOCK_SIZE in described:
        rows = rows.with_columns(__sized=~nw.col(BLOCK_SIZE).is_null())
        is_sized = nw.col("__sized").all().over(bucket)
        rows = rows.with_columns(nw.when(is_sized).then(nw.lit(float(grid.size))).alias(BLOCK_SIZE))
    if rule == "last":
        latest = nw.col("timestamp").max().over(bucket)
        rows = rows.filter(nw.col("timestamp") == latest)
    elif rule == "mean":
        rows = rows.with_columns(__order=nw.col("timestamp").rank("dense").over(bucket).cast(nw.Float64))
        rows = rows.with_columns(__count=nw.col("__order").max().over(bucket))
    if grid is not None:
        rows = rows.with_columns(price=grid.edge(price))
    keys = [*bucket, *sides, "price", *described]
    result = (
        exact.in_parts(rows, value)
        .group_by(*keys)
        .agg(exact.summed(value), nw.col("__count").max())
        .with_columns(exact.total(value))
        .with_columns((size / nw.col("__count")).alias(value))
        .select(
            *(name for name in series if name != "interval"),
            *_interval(series, wanted),
            nw.col("start").alias("timestamp"),
            *sides,
            "price",
            value,
            *described,
            time_rule=nw.lit(rule),
        )
        .select(*series, "timestamp", *sides, "price", value, *described, "time_rule")
    )
    told = table if wanted is None else table.with_words({"interval": None})
    return told.closed(result, sort=[*series, "timestamp", *sides, "price"])


def _opened(frame: IntoFrameT) -> tuple[Table[IntoFrameT], str]:
    """Open the frame; return it with the name of the column to add up."""
    table = Table.opened(frame)
    value = "size" if "size" in table.names or "liquidations" not in table.names else "liquidations"
    needed = ["side"] if value == "size" else []
    return Table.opened(table, needed, times=["timestamp"], numbers=["price", value]), value


def _fits(wanted: Interval) -> nw.Expr:
    """Return whether the wanted interval is a whole multiple of a row's; also true of a row without an interval."""
    strange = [own for own in Interval if wanted.seconds % own.seconds]
    names = [name for own in strange for name in (own.value, own.alias)]
    return ~nw.col("interval").cast(nw.String).is_in(names).fill_null(value=False)


def _interval(series: list[str], wanted: Interval | None) -> list[nw.Expr]:
    """Return the column ``interval`` of the result, or an empty list if the series has none."""
    if "interval" not in series:
        return []
    return [nw.col("interval") if wanted is None else nw.lit(wanted.value).alias("interval")]
