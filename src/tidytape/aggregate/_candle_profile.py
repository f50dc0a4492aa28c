"""Candles to a volume profile, by a rule that says where in its range a candle traded."""

from __future__ import annotations

from decimal import Decimal
from typing import Final, Literal

import narwhals.stable.v2 as nw
from narwhals.stable.v2.typing import IntoFrameT

from tidytape.analytics._arguments import one_of
from tidytape.catalogue import Interval, Side
from tidytape.errors import QueryError
from tidytape.frames import _exact as exact
from tidytape.frames._door import BUCKET
from tidytape.frames._grid import Grid
from tidytape.frames._rows import MOST_NUMBERS, spread
from tidytape.frames._table import OpenTable, Rows
from tidytape.frames._times import bucket_start
from tidytape.times import interval_of

PRICES: Final = {"close": ("close",), "uniform": ("low", "high")}
"""The prices that each rule of spreading needs."""

_SIDES: Final = {Side.BUY: "buy_volume", Side.SELL: "sell_volume"}
_ROW: Final = "__row"
_PLACED: Final = "__is_placed"
_AT_ONCE: Final = 2**17
"""About the number of candles that polars spreads at the same time."""
_MOST_ROWS: Final = 2**26
"""Most price rows of that many candles; they take about 6 GB."""
_RESULTS: Final = ("price", *_SIDES.values(), "volume", "block_size", "spreading")


def candle_profile(
    candles: IntoFrameT,
    /,
    *,
    interval: str,
    block_size: Decimal | float | str,
    spreading: Literal["close", "uniform"],
) -> IntoFrameT:
    r"""Volume per interval and price row, made of candles: where no trades are at hand.

    A candle does not tell at which of its prices it traded, so a rule must. ``"close"`` puts all of its volume on the
    row of its close. ``"uniform"`` spreads it evenly over its range: row :math:`i` of height :math:`s` is given

    .. math:: v_i = V \, \frac{\min(H, (i + 1) s) - \max(L, i s)}{H - L},
       \qquad \lfloor L / s \rfloor \le i \le \lfloor H / s \rfloor,

    of the volume V of a candle from L to H, and the row of L = H all of it.

    Parameters
    ----------
    candles : frame, n rows, in any order
        ``timestamp`` int64 [ns since the epoch] or with a zone, ``volume`` [coin; USD if fetched in USD], and
        ``close``, or ``low`` and ``high`` [quote per coin]. With ``side`` (schema TRADE_AGG,
        ``client.candles(by_side=True)``) the sides are told apart.
    interval : str
        Name or alias of an interval, no shorter than the candles', e.g. ``"1d"``. Buckets are aligned to the Unix epoch
        in UTC, weeks to Monday.
    block_size : Decimal, int, float or str, > 0
        Height s of a row. Rows are integer multiples of it, decided on exact decimals. [quote per coin]
    spreading : {"close", "uniform"}
        The rule. They make other profiles, so there is no default.

    Returns
    -------
    frame, one row per series, bucket and price row with volume; of the same kind as ``candles``
        The identity columns that there are but for ``side``, and

        - ``timestamp`` : time, start of the bucket.
        - ``amount_unit``, if the candles have it; candles of another unit make a profile of their own.
        - ``block_size`` : float64, height of a row. [quote per coin]
        - ``price`` : float64, low edge of the row; null in the row of the candles without usable prices. [quote per
          coin]
        - ``buy_volume``, ``sell_volume`` : float64, of candles by side alone; null as ``volume``. [as ``volume``]
        - ``volume`` : float64, the sum of both, or the volume; null where a candle of the row has no finite volume or
          a side that is neither BUY nor SELL. [as in ``candles``]
        - ``spreading`` : str, the rule: it marks the profile as one of candles.

        Sorted by series, timestamp and price where the engine keeps order.

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If the interval or the rule is unknown, a time has no zone, numbers are no numbers, or the block size is no
        positive number, or so small that a candle of an eager frame has more than 2**20 rows, or all have more than
        memory has room for.

    See Also
    --------
    candle_tpo : A market profile of candles.

    Notes
    -----
    Volume is kept: the rows of a bucket add up to its candles to 1e-12. Sums do not depend on the order of the candles.
    A candle that ends on the edge of a row gives the row above nothing. A candle of volume zero adds nothing. A candle
    whose volume is not known makes the rows that it reaches null: the row of its close, or those of its range. A candle
    without the finite prices that the rule needs, or with a low above its high, is counted in a row whose price is
    null, so that a value area of such a profile is null, too. The query of a lazy frame fails where a candle has more
    than 2**20 rows.

    References
    ----------
    tidytape's own convention; see definitions.

    Examples
    --------
    >>> import polars as pl
    >>> candles = pl.DataFrame(
    ...     {"timestamp": [0, 60], "low": [10.5, 12.0], "high": [12.5, 12.0], "close": 12.0, "volume": [4.0, 1.0]}
    ... )
    >>> candle_profile(candles, interval="1h", block_size=1, spreading="uniform").select("price", "volume").rows()
    [(10.0, 1.0), (11.0, 2.0), (12.0, 2.0)]
    >>> candle_profile(candles, interval="1h", block_size=1, spreading="close").select("price", "volume").rows()
    [(12.0, 5.0)]
    """
    length, grid = interval_of(interval), Grid.of(block_size)
    one_of("spreading", spreading, PRICES)
    table = OpenTable.of(candles, times=["timestamp"], numbers=[*PRICES[spreading], "volume"])
    if spreading == "uniform" and table.is_eager:
        _require_room(table.rows, grid)
    keys = table.series(None, without=["side", "timestamp", *_RESULTS])
    groups = [name for name in keys if name != "interval"]
    unit = ["amount_unit"] if "amount_unit" in table.names else []
    rows = table.rows.filter(~nw.col("timestamp").is_null())
    result = levels_of(rows, [*groups, *unit], length, grid, spreading).select(
        *(nw.lit(length.alias).alias(name) if name == "interval" else nw.col(name) for name in keys),
        nw.col(BUCKET).alias("timestamp"),
        *unit,
        nw.lit(float(grid.size)).alias("block_size"),
        *("price", *(name for name in _SIDES.values() if "side" in table.names), "volume"),
        nw.lit(spreading).alias("spreading"),
    )
    return table.closed(result, sort=[*keys, "timestamp", *unit, "price"])


def levels_of(candles: Rows, groups: list[str], length: Interval, grid: Grid, spreading: str) -> Rows:
    """Return the volume of candles per group, bucket and price row: the core of `candle_profile`.

    Parameters
    ----------
    candles : frame, n rows
        ``timestamp`` int64, never null, the columns of `candle_profile`, and those of ``groups``.
    groups : list of str
        Columns that tell one profile from another.
    length : Interval
        Length of a bucket.
    grid : Grid
        The price rows.
    spreading : str
        The rule.

    Returns
    -------
    frame, one row per group, bucket and price row
        ``groups``, the start of the bucket, ``price``, ``volume``, and of candles by side ``buy_volume`` and
        ``sell_volume``.
    """
    prices = PRICES[spreading]
    by_side = "side" in candles.collect_schema().names()
    rows = (
        candles.select(
            *groups,
            bucket_start(nw.col("timestamp"), length).alias(BUCKET),
            *(nw.col("side").cast(nw.String()) for _ in range(by_side)),
            nw.when(nw.col("volume").is_finite()).then(nw.col("volume")).alias("volume"),
            *prices,
            has_prices(grid, *prices).alias(_PLACED),
        )
        # A candle without usable prices goes to row 0. Grouping by _PLACED keeps it apart from candles that lie there.
        .with_columns(nw.when(_PLACED).then(nw.col(name)).otherwise(0.0).alias(name) for name in prices)
    )
    at_close = rows.with_columns(grid.row(nw.col(prices[-1])).alias(_ROW))
    rows = _spread(rows, grid) if spreading == "uniform" else at_close
    rows = rows.filter((nw.col("volume") != 0).fill_null(value=True))
    sides = _SIDES if by_side else {}
    if by_side:
        has_side = nw.col("side").is_in([str(side) for side in sides]).fill_null(value=False)
        rows = rows.with_columns(nw.when(has_side).then(nw.col("volume")).alias("volume"))
    rows = exact.in_parts(rows, "volume")
    for side, name in sides.items():
        # A candle of an unknown side, whose volume is null by now, makes both sides null.
        is_other = nw.col("side").is_in([str(other) for other in sides if other is not side])
        rows = rows.with_columns(exact.where(~is_other.fill_null(value=False), "volume", name))
    volumes = list(sides.values()) or ["volume"]
    levels = (
        rows.group_by(*groups, BUCKET, _PLACED, _ROW)
        .agg(exact.summed(*volumes))
        .with_columns(exact.total(name) for name in volumes)
    )
    if by_side:
        levels = levels.with_columns(volume=nw.col("buy_volume") + nw.col("sell_volume"))
    price = nw.when(_PLACED).then(grid.price(nw.col(_ROW))).alias("price")
    return levels.select(*groups, BUCKET, price, *dict.fromkeys([*volumes, "volume"]))


def has_prices(grid: Grid, *prices: str) -> nw.Expr:
    """Return whether a candle has these prices and they are possible: finite, on the grid, a low not above its high."""
    conditions = [nw.col(name).abs() <= grid.furthest for name in prices]
    if "low" in prices:
        conditions.append(nw.col("low") <= nw.col("high"))
    return nw.all_horizontal(*conditions, ignore_nulls=False).fill_null(value=False)


def _require_room(candles: Rows, grid: Grid) -> None:
    """Raise QueryError if the block size cuts candles into more rows than `spread` can number, or memory can hold."""
    row, placed = grid.row, candles.filter(has_prices(grid, "low", "high"))
    rows = placed.select(rows=row(nw.col("high")) - row(nw.col("low")) + 1).collect("polars")["rows"]
    if not len(rows):
        return
    most, at_once = int(rows.max()), int(rows.mean() * min(len(rows), _AT_ONCE))
    if most > MOST_NUMBERS or at_once > _MOST_ROWS:
        expected = (
            f"a size that cuts each candle into at most {MOST_NUMBERS:,} rows, and fewer if many are so long"
        )
        raise QueryError(
            "block_size",
            got=str(grid.size),
            expected=expected,
            hint=f"one has {most:,}, and the mean is {rows.mean():,.0f}",
        )


def _spread(candles: Rows, grid: Grid) -> Rows:
    """Return one row per candle and price row of its range, with the row's share of the volume."""
    low, high, row = nw.col("low"), nw.col("high"), nw.col(_ROW)
    rows = spread(
        candles.with_columns(__first=grid.row(low), __last=grid.row(high)), "__first", "__last", name=_ROW
    )
    within = nw.min_horizontal(high, grid.price(row + 1)) - nw.max_horizontal(low, grid.price(row))
    # Of up to three candles polars keeps a repeated value once, and would multiply by its rounded reciprocal: adding
    # a zero per row makes it a column.
    length = high - low + row * 0.0
    share = nw.when(high > low).then(within / length).otherwise(1.0)
    # The row above a candle that ends on its edge gets nothing, whatever the volume is.
    return (
        rows.with_columns(share.alias("__share"))
        .filter(nw.col("__share") > 0)
        .with_columns((nw.col("volume") * nw.col("__share")).alias("volume"))
    )
