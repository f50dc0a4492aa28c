"""Candles to a volume profile, by a stated rule of where in its range a candle traded."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Final, Literal

import narwhals.stable.v2 as nw
from narwhals.stable.v2.typing import IntoFrameT

from tidytape.catalogue import Side
from tidytape.errors import QueryError
from tidytape.frames import exact
from tidytape.frames.buckets import bucket_start, interval_of
from tidytape.frames.doors import BUCKET
from tidytape.frames.grid import Grid
from tidytape.frames.spread import spread
from tidytape.frames.table import Table

__all__ = ["candle_profile"]

Spreading = Literal["close", "uniform"]

_PRICES: Final = {"close": ("close",), "uniform": ("low", "high")}
_SIDES: Final = {Side.BUY: "buy_volume", Side.SELL: "sell_volume"}
_ROW: Final = "__row"
_RESULTS: Final = ("price", *_SIDES.values(), "volume", "spreading")


def candle_profile(
    candles: IntoFrameT, /, *, interval: str, block_size: Decimal | float | str, spreading: Spreading
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
        ``timestamp`` (of any kind the engine has, or int64 [ns since the epoch]), ``volume`` [coin, or USD if so
        asked], and ``close``, or ``low`` and ``high`` [quote per coin]. With ``side`` (schema TRADE_AGG,
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
        - ``price`` : float64, low edge of the row. [quote per coin]
        - ``buy_volume``, ``sell_volume`` : float64, of candles by side alone. [as ``volume``]
        - ``volume`` : float64, the sum of both, or the volume. [as in ``candles``]
        - ``spreading`` : str, the rule.

        Sorted by series, timestamp and price where the engine keeps order.

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If the interval or the rule is unknown, a time has no zone, numbers are no numbers, or the block size is no
        positive number.

    Notes
    -----
    Volume is kept: the rows of a bucket add up to its candles to 1e-12. Sums do not depend on the order of the candles.
    A candle that ends on the edge of a row gives the row above nothing. One without a finite volume, or without the
    finite prices that the rule needs, low not above high, adds nothing; so does one by side that is neither BUY nor
    SELL. The query of a candle with more than 2**20 rows fails.

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
    wanted, grid = interval_of(interval), Grid.of(block_size)
    if spreading not in _PRICES:
        raise QueryError("spreading", got=spreading, expected="'close' or 'uniform'")
    prices = _PRICES[spreading]
    table = Table.opened(candles, times=["timestamp"], numbers=[*prices, "volume"])
    keys = table.series(None, without=["side", "timestamp", *_RESULTS])
    labels = {"interval": nw.lit(str(wanted))} if "interval" in keys else {}
    groups = [name for name in keys if name not in labels]
    by_side = "side" in table.names
    usable = [nw.col(name).is_finite() for name in (*prices, "volume")]
    rows = table.rows.filter(~nw.col("timestamp").is_null(), *usable).select(
        *groups,
        bucket_start(nw.col("timestamp"), wanted).alias(BUCKET),
        *(nw.col("side").cast(nw.String()) for _ in range(by_side)),
        *prices,
        "volume",
    )
    placed = _spread if spreading == "uniform" else _at_close
    rows = placed(rows, grid)
    rows = exact.in_parts(rows.filter(nw.col("volume") != 0), "volume")
    sides = _SIDES if by_side else {}
    for side, name in sides.items():
        rows = rows.with_columns(exact.where(nw.col("side") == str(side), "volume", name))
    volumes = list(sides.values()) or ["volume"]
    levels = rows.group_by(*groups, BUCKET, _ROW).agg(exact.summed(*volumes))
    levels = levels.with_columns(exact.total(name) for name in volumes)
    if by_side:
        levels = levels.with_columns(volume=nw.col("buy_volume") + nw.col("sell_volume"))
    result = levels.select(
        *(labels[name].alias(name) if name in labels else nw.col(name) for name in keys),
        nw.col(BUCKET).alias("timestamp"),
        grid.price(nw.col(_ROW)).alias("price"),
        *dict.fromkeys([*volumes, "volume"]),
        nw.lit(spreading).alias("spreading"),
    )
    return table.closed(result, sort=[*keys, "timestamp", "price"])


def _at_close(candles: nw.LazyFrame[Any], grid: Grid) -> nw.LazyFrame[Any]:
    return candles.with_columns(grid.row(nw.col("close")).alias(_ROW))


def _spread(candles: nw.LazyFrame[Any], grid: Grid) -> nw.LazyFrame[Any]:
    """Return one row per candle and price row of its range, with its part of the volume."""
    low, high, row = nw.col("low"), nw.col("high"), nw.col(_ROW)
    rows = spread(
        candles.filter(low <= high).with_columns(__first=grid.row(low), __last=grid.row(high)),
        "__first",
        "__last",
        name=_ROW,
    )
    within = nw.min_horizontal(high, grid.price(row + 1)) - nw.max_horizontal(low, grid.price(row))
    share = nw.when(high > low).then(within / (high - low)).otherwise(1.0)
    return rows.with_columns((nw.col("volume") * share).alias("volume"))
