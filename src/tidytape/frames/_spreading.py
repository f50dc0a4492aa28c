"""The volume of candles on price rows, by a rule that says at which prices a candle traded."""

from __future__ import annotations

from typing import Final

import narwhals.stable.v2 as nw

from tidytape.catalogue import Side
from tidytape.errors import QueryError
from tidytape.frames import _exact as exact
from tidytape.frames._door import BUCKET
from tidytape.frames._grid import Grid
from tidytape.frames._rows import MOST_NUMBERS, spread
from tidytape.frames._table import Rows

PRICES: Final = {"close": ("close",), "uniform": ("low", "high")}
"""The prices of a candle that each rule needs."""

SIDES: Final = {Side.BUY: "buy_volume", Side.SELL: "sell_volume"}
_ROW: Final = "__row"
_HAS_PRICES: Final = "__has_prices"
_AT_ONCE: Final = 2**17
"""About how many candles polars spreads at the same time."""
_MOST_ROWS: Final = 2**26
"""How many price rows these candles may have together; so many take about 6 GB."""


def levels_of(candles: Rows, groups: list[str], bucket: nw.Expr, grid: Grid, spreading: str) -> Rows:
    """Return the volume of candles per group, bucket and price row; as `tidytape.aggregate.candle_profile` spreads it.

    Parameters
    ----------
    candles : frame, n rows
        ``timestamp`` int64, never null, ``volume``, the prices that the rule needs, ``side`` if there are sides, and
        those of ``groups``.
    groups : list of str
        Columns that tell one profile from another.
    bucket : expression, int64
        The start of the bucket in which a candle lies. [ns]
    grid : Grid
        The price rows.
    spreading : str
        The rule.

    Returns
    -------
    frame, one row per group, bucket and price row
        ``groups``, the start of the bucket, ``price``, ``volume``, and for candles by side ``buy_volume`` and
        ``sell_volume``.
    """
    prices = PRICES[spreading]
    by_side = "side" in candles.collect_schema().names()
    rows = (
        candles.select(
            *groups,
            bucket.alias(BUCKET),
            *(nw.col("side").cast(nw.String()) for _ in range(by_side)),
            nw.when(nw.col("volume").is_finite()).then(nw.col("volume")).alias("volume"),
            *prices,
            has_prices(grid, *prices).alias(_HAS_PRICES),
        )
        # A candle without usable prices goes to row 0. Grouping by `_HAS_PRICES` keeps it apart from candles that lie
        # there.
        .with_columns(nw.when(_HAS_PRICES).then(nw.col(name)).otherwise(0.0).alias(name) for name in prices)
    )
    at_close = rows.with_columns(grid.row(nw.col(prices[-1])).alias(_ROW))
    rows = _spread(rows, grid) if spreading == "uniform" else at_close
    rows = rows.filter((nw.col("volume") != 0).fill_null(value=True))
    sides = SIDES if by_side else {}
    if by_side:
        has_side = nw.col("side").is_in([str(side) for side in sides]).fill_null(value=False)
        rows = rows.with_columns(nw.when(has_side).then(nw.col("volume")).alias("volume"))
    rows = exact.in_parts(rows, "volume")
    for side, name in sides.items():
        # A candle with an unknown side, whose volume is null by now, makes the volumes of both sides null.
        is_other = nw.col("side").is_in([str(other) for other in sides if other is not side])
        rows = rows.with_columns(exact.where(~is_other.fill_null(value=False), "volume", name))
    volumes = list(sides.values()) or ["volume"]
    levels = (
        rows.group_by(*groups, BUCKET, _HAS_PRICES, _ROW)
        .agg(exact.summed(*volumes))
        .with_columns(exact.total(name) for name in volumes)
    )
    if by_side:
        levels = levels.with_columns(volume=nw.col("buy_volume") + nw.col("sell_volume"))
    price = nw.when(_HAS_PRICES).then(grid.price(nw.col(_ROW))).alias("price")
    return levels.select(*groups, BUCKET, price, *dict.fromkeys([*volumes, "volume"]))


def has_prices(grid: Grid, *prices: str) -> nw.Expr:
    """Return whether a candle has possible prices: finite, within reach of the grid, and a low not above its high."""
    conditions = [nw.col(name).abs() <= grid.furthest for name in prices]
    if "low" in prices:
        conditions.append(nw.col("low") <= nw.col("high"))
    return nw.all_horizontal(*conditions, ignore_nulls=False).fill_null(value=False)


def require_room(candles: Rows, grid: Grid) -> None:
    """Raise QueryError if the block size cuts candles into more rows than `spread` can number, or memory can hold."""
    priced = candles.filter(has_prices(grid, "low", "high"))
    lengths = grid.row(nw.col("high")) - grid.row(nw.col("low")) + 1
    rows = priced.select(rows=lengths).collect("polars")["rows"]
    if not len(rows):
        return
    longest, rows_in_memory = int(rows.max()), int(rows.mean() * min(len(rows), _AT_ONCE))
    if longest > MOST_NUMBERS or rows_in_memory > _MOST_ROWS:
        raise QueryError(
            "block_size",
            got=str(grid.size),
            expected=f"a size that cuts each candle into at most {MOST_NUMBERS:,} rows, and fewer if many are so long",
            hint=f"one candle has {longest:,} rows, and the mean is {rows.mean():,.0f} rows",
        )


def _spread(candles: Rows, grid: Grid) -> Rows:
    """Return one row per candle and price row of its range, with the row's share of the volume."""
    low, high, row = nw.col("low"), nw.col("high"), nw.col(_ROW)
    rows = spread(
        candles.with_columns(__first=grid.row(low), __last=grid.row(high)), "__first", "__last", name=_ROW
    )
    overlap = nw.min_horizontal(high, grid.price(row + 1)) - nw.max_horizontal(low, grid.price(row))
    # Of up to three candles polars keeps a repeated value once, and would multiply by its rounded reciprocal: adding
    # a zero per row makes it a column.
    length = high - low + row * 0.0
    share = nw.when(high > low).then(overlap / length).otherwise(1.0)
    # A candle that ends on the low edge of a row has no share of that row, so an unknown volume must not make that row
    # null.
    return (
        rows.with_columns(share.alias("__share"))
        .filter(nw.col("__share") > 0)
        .with_columns((nw.col("volume") * nw.col("__share")).alias("volume"))
    )
