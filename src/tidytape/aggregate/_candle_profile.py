"""Candles to a volume profile, by a rule that says at which prices a candle traded."""

from __future__ import annotations

from decimal import Decimal
from typing import Final, Literal

import narwhals.stable.v2 as nw
from narwhals.stable.v2.typing import IntoFrameT

from tidytape.aggregate._straddling import (
    STRADDLES,
    buckets,
    length_of_candles,
    require_whole,
    with_straddles,
)
from tidytape.analytics._arguments import one_of
from tidytape.frames._door import BUCKET
from tidytape.frames._grid import Grid
from tidytape.frames._spreading import PRICES, SIDES, levels_of, require_room
from tidytape.frames._table import OpenTable
from tidytape.sessions import Session
from tidytape.times import frame_interval

_RESULTS: Final = ("price", *SIDES.values(), "volume", "block_size", "spreading")


def candle_profile(
    candles: IntoFrameT,
    /,
    *,
    interval: str,
    block_size: Decimal | float | str,
    spreading: Literal["close", "uniform"],
    session: Session | None = None,
) -> IntoFrameT:
    r"""Volume per interval and price row from candles, if no trades are available.

    A candle does not tell at which of its prices it traded, so a rule must. ``"close"`` puts its volume into the row of
    its close. ``"uniform"`` spreads its volume evenly over its range: row :math:`i` of height :math:`s` gets

    .. math:: v_i = V \, \frac{\min(H, (i + 1) s) - \max(L, i s)}{H - L},
       \qquad \lfloor L / s \rfloor \le i \le \lfloor H / s \rfloor,

    of the volume V of a candle with low L and high H. If L = H, its row gets all of V.

    Parameters
    ----------
    candles : frame, n rows, in any order
        ``timestamp`` int64 [ns since the epoch] or with a zone, ``volume`` [coin; USD if fetched in USD], and
        ``close``, or ``low`` and ``high`` [quote per coin]. With ``side`` (schema TRADE_AGG,
        ``client.candles(by_side=True)``) the result has the volume of each side.
    interval : str
        Name or alias of an interval, no shorter than the candles', e.g. ``"1d"``. Buckets are aligned to the Unix epoch
        in UTC, weeks to Monday.
    block_size : Decimal, int, float or str, > 0
        Height s of a row. Rows are integer multiples of it, decided on exact decimals. [quote per coin]
    spreading : {"close", "uniform"}
        The rule. The two rules give different profiles, so there is no default.
    session : Session, optional
        When the market trades: candles at other times are left out, and buckets count trading time from the open; one
        of ``"1d"`` is a session, one of ``"1w"`` the sessions whose dates lie in a week from Monday. By default buckets
        are those of UTC.

    Returns
    -------
    frame, one row per series, bucket and price row with volume; of the same kind as ``candles``
        The identity columns of the frame except ``side``, and

        - ``timestamp`` : time, start of the bucket; and with a session ``period_end``, its end, when it is known.
        - ``amount_unit``, if the candles have it; candles with different units get separate profiles.
        - ``block_size`` : float64, height of a row. [quote per coin]
        - ``price`` : float64, low edge of the row; null in the row for candles without usable prices. [quote per coin]
        - ``buy_volume``, ``sell_volume`` : float64, only for candles by side; null if ``volume`` is. [as ``volume``]
        - ``volume`` : float64, null if a candle of the row has no finite volume, or a side that is neither BUY nor
          SELL. [as in ``candles``]
        - ``spreading`` : str, the rule, which marks the profile as one from candles.

        Sorted by series, timestamp and price where the engine keeps order.

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If the interval or the rule is unknown, a time has no zone, a column of numbers has other values, or the block
        size is not a positive number, or so small that a candle of an eager frame has more than 2**20 rows, or that the
        rows of all candles do not fit into memory; or if a candle of an eager frame lies in two buckets, or in a
        session in part, by its column ``interval`` or else by the time between candles.

    See Also
    --------
    candle_tpo : A market profile from candles.

    Notes
    -----
    The rows of a bucket add up to the volume of its candles, to 1e-12. Sums do not depend on the order of the candles.
    A candle that ends on the edge of a row adds nothing to the row above. A candle with volume zero adds nothing. A
    candle with an unknown volume makes its rows null: the row of its close, or all rows of its range. If a candle lacks
    the finite prices that the rule needs, or its low is above its high, it counts in a row with a null price; a value
    area of such a profile is null, too. So does a candle of a lazy frame that lies in two buckets, with an unknown
    volume. The query of a lazy frame fails if a candle has more than 2**20 rows.

    References
    ----------
    tidytape's own convention; see definitions.

    Examples
    --------
    >>> import polars as pl
    >>> start = 1_723_075_200_000_000_000  # 2024-08-08 in nanoseconds
    >>> candles = pl.DataFrame(
    ...     {"timestamp": [start, start + 60],
    ...      "low": [10.5, 12.0], "high": [12.5, 12.0], "close": 12.0, "volume": [4.0, 1.0]}
    ... )
    >>> candle_profile(candles, interval="1h", block_size=1, spreading="uniform").select("price", "volume").rows()
    [(10.0, 1.0), (11.0, 2.0), (12.0, 2.0)]
    >>> candle_profile(candles, interval="1h", block_size=1, spreading="close").select("price", "volume").rows()
    [(12.0, 5.0)]
    """
    length, grid = frame_interval(interval), Grid.of(block_size)
    one_of("spreading", spreading, PRICES)
    table = OpenTable.of(candles, ["timestamp"], numbers=[*PRICES[spreading], "volume"], optional=["side"])
    if spreading == "uniform" and table.is_eager:
        require_room(table.rows, grid)
    keys = table.series_columns(None, without=["side", "timestamp", *_RESULTS])
    groups = [name for name in keys if name != "interval"]
    unit = ["amount_unit"] if "amount_unit" in table.names else []
    clock, start_of = buckets(session, length, table.rows)
    rows = table.rows.filter(~nw.col("timestamp").is_null())
    rows = with_straddles(rows, length_of_candles(table), start_of, clock)
    if table.is_eager:
        rows = require_whole(rows, "bucket", session)
    else:
        # How much of such a candle belongs to the bucket is not known.
        unknown = (*PRICES[spreading], "volume")
        rows = rows.with_columns(
            nw.when(~nw.col(STRADDLES)).then(nw.col(name)).alias(name) for name in unknown
        )
    levels = levels_of(rows, [*groups, *unit], start_of(nw.col("timestamp")), grid, spreading).rename(
        {BUCKET: "timestamp"}
    )
    ends = [] if clock is None else ["period_end"]
    result = (levels if clock is None else clock.told(clock.with_ends(levels, length, *ends))).select(
        *(nw.lit(length.alias).alias(name) if name == "interval" else nw.col(name) for name in keys),
        "timestamp",
        *ends,
        *unit,
        nw.lit(float(grid.size)).alias("block_size"),
        *("price", *(name for name in SIDES.values() if "side" in table.names), "volume"),
        nw.lit(spreading).alias("spreading"),
    )
    return table.closed(
        result,
        sort=[*keys, "timestamp", *unit, "price"],
        times=dict.fromkeys(ends, "timestamp"),
        main=["price", "buy_volume", "sell_volume", "volume"],
    )
