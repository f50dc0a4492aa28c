"""Changes of open interest and price: whether longs or shorts open or close positions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import narwhals.stable.v2 as nw
from narwhals.stable.v2.typing import IntoFrameT

from tidytape.analytics._arguments import number, one_of
from tidytape.analytics._series import require_one_engine, warn_unless_met
from tidytape.catalogue import AmountUnit
from tidytape.errors import QueryError
from tidytape.frames._rows import with_all
from tidytape.frames._table import OpenTable
from tidytape.frames._times import length_of
from tidytape.frames._units import require_unit

# Rows are joined by these identity columns only: the others may be known for one data type and null for the other.
_SERIES = ("exchange", "raw_symbol", "coin", "interval")
_RESULTS = (
    "since",
    "price",
    "open_interest",
    "price_change",
    "open_interest_change",
    "quadrant",
    "change",
    "price_band",
    "oi_band",
)


def oi_price_quadrant(
    open_interest: IntoFrameT,
    candles: IntoFrameT,
    /,
    *,
    by: str | Iterable[str] | None = None,
    change: Literal["close_to_close", "open_to_close"] = "close_to_close",
    price_band: float = 0.0,
    oi_band: float = 0.0,
) -> IntoFrameT:
    r"""Classify each row by the directions of price and open interest: longs or shorts, opened or closed.

    ============  ====================  =======================
    price         open interest rises   open interest falls
    ============  ====================  =======================
    rises         ``new_longs``         ``short_covering``
    falls         ``new_shorts``        ``long_unwinding``
    ============  ====================  =======================

    A change is relative, :math:`x_t / x_{t'} - 1`. If either change is within its band, the quadrant is ``flat``.

    Parameters
    ----------
    open_interest : frame, n rows, key (by, timestamp), in any order
        Schema OPEN_INTEREST_AGG: ``timestamp``, ``close`` and, if asked for, ``open`` [coin]. Open interest in USD
        moves with the price, so its quadrants would differ.
    candles : frame, m rows, key (by, timestamp), in any order
        Schema TRADE_SIDE_AGNOSTIC_AGG, of the same interval: ``timestamp``, ``close`` and, if asked for, ``open``
        [quote per coin]. Of the same kind as ``open_interest``, in DuckDB of the same connection.
    by : str or iterable of str, optional
        The columns that tell one series from another; without it, those of ``exchange``, ``raw_symbol``, ``coin`` and
        ``interval`` that both have. Null counts as a value. Frames of two intervals have no row in common: fetch both
        with the same, or resample one.
    change : {"close_to_close", "open_to_close"}
        Where a change begins: at the close of the row before, or at the interval's open.
    price_band, oi_band : float, >= 0
        The dead band: relative changes up to it count as flat. [1]

    Returns
    -------
    frame, one row per (by, timestamp) that both have, sorted by these, of the kind of ``open_interest``
        ``by``, ``timestamp`` (start of the interval), and

        - ``since`` : time of the row before, from which the change is measured; after a gap it is not the previous
          interval. Null on the first row. With ``open_to_close``, the time of the row itself.
        - ``price`` [quote per coin], ``open_interest`` [as given] : float64, the closes.
        - ``price_change``, ``open_interest_change`` : float64, relative. [1]
        - ``quadrant`` : str, one of the four above, or ``flat`` if either change is within its band; null where one is
          unknown.
        - ``change`` : str, ``price_band``, ``oi_band`` : float64, the arguments.

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If ``change`` is not as listed, a band is not a number of 0 or more, ``open_interest`` has a volume and so is a
        frame of candles, candles are by side, the frames have two engines, a time has no zone, or a column holds no
        numbers. Or if ``amount_unit`` of an eager ``open_interest`` is USD; with a lazy one, changes and quadrants are
        null.

    Warns
    -----
    NoMatchWarning
        If no series is in both frames, so that the result is empty. Only frames in memory are checked.

    Notes
    -----
    Both frames need not be of one market: with ``by="coin"``, candles of a spot market are joined to the open interest
    of a perpetual. That can be useful, but should be done on purpose.

    Every contract has a long and a short side, so a quadrant only suggests which side was likely the more eager one.

    A value is unknown if it is null, not finite or not above zero, or if a series has several rows at its time. Changes
    from and to it are null. So are changes at a time at which the two frames have different intervals. A row without a
    time is left out. No row depends on a later one.

    References
    ----------
    .. [1] Murphy, J. J., "Technical Analysis of the Financial Markets", 1999, chapter 7: price and open interest.

    Examples
    --------
    >>> from datetime import UTC, datetime
    >>> import polars as pl
    >>> hours = [datetime(2024, 8, 8, hour, tzinfo=UTC) for hour in range(5)]
    >>> candles = pl.DataFrame({"timestamp": hours, "close": [100.0, 101.0, 102.0, 101.0, 99.0]})
    >>> interest = pl.DataFrame({"timestamp": hours, "close": [50.0, 52.0, 51.0, 53.0, 49.0]})
    >>> oi_price_quadrant(interest, candles)["quadrant"].to_list()
    [None, 'new_longs', 'short_covering', 'new_shorts', 'long_unwinding']
    """
    one_of("change", change, ("close_to_close", "open_to_close"))
    bands = {"price_band": price_band, "oi_band": oi_band}
    bands = {name: number(name, band, least=0) for name, band in bands.items()}
    columns = ["close", "open"] if change == "open_to_close" else ["close"]
    table = OpenTable.of(open_interest, ["timestamp"], numbers=columns, parameter="open_interest")
    other = OpenTable.of(candles, ["timestamp"], numbers=columns, parameter="candles")
    require_one_engine(table, other, "candles")
    # Candles have these columns, and open interest lacks them.
    for name in ("volume", "first_timestamp", "last_timestamp"):
        if name in table.names:
            raise QueryError(
                "open_interest",
                got=f"a frame with column {name}",
                expected="open interest, which has none",
                hint="open interest comes first, candles second",
            )
    if "side" in other.names:
        raise QueryError(
            "candles", got="candles by side", expected="candles of both sides", hint="fetch without by_side"
        )
    table = require_unit(
        table,
        AmountUnit.COIN.value,
        columns,
        parameter="open_interest",
        expected="open interest in coin, for in USD it moves with the price",
        hint="fetch it of single markets, without quote='USD'",
    )
    shared_columns = [name for name in _SERIES if name in table.names and name in other.names]
    keys = table.series_columns(
        shared_columns if by is None else by, without=["side", "timestamp", *_RESULTS]
    )
    other.series_columns(keys)
    warn_unless_met("oi_price_quadrant", table, other, keys, called=("open_interest", "candles"))
    key = [*keys, "timestamp"]
    # A key may be text in one frame and categorical in the other.
    prices = with_all(other.rows, (nw.col(name).cast(table.schema[name]) for name in keys))
    has_lengths = "interval" in table.names and "interval" in other.names
    length = length_of(nw.col("interval")) if has_lengths else nw.lit(0, nw.Int64())
    points = _points({"price": prices, "open_interest": table.rows}, columns, key, length=length)
    price, interest = nw.col("__price_close"), nw.col("__open_interest_close")
    earlier_columns = ["timestamp", f"__price_{columns[-1]}", f"__open_interest_{columns[-1]}"]
    since, price_before, interest_before = (
        nw.col(name) if "open" in columns else nw.col(name).shift(1).over(*keys, order_by="timestamp")
        for name in earlier_columns
    )
    rows = points.with_columns(
        since=since,
        price=price,
        open_interest=interest,
        price_change=price / price_before - 1,
        open_interest_change=interest / interest_before - 1,
    ).with_columns(
        _quadrant(**bands).alias("quadrant"),
        nw.lit(change).alias("change"),
        *(nw.lit(band).alias(name) for name, band in bands.items()),
    )
    main = ["price_change", "open_interest_change", "quadrant"]
    return table.closed(rows.select(*key, *_RESULTS), sort=key, times={"since": "timestamp"}, main=main)


def _points(
    stocks: Mapping[str, nw.LazyFrame[Any]], columns: Sequence[str], key: Sequence[str], *, length: nw.Expr
) -> nw.LazyFrame[Any]:
    """Return one row per key that is in both frames, with each value as ``__<stock>_<column>``.

    A value is null if it is not above 0, if a frame has the key twice, or if the two intervals differ in length.
    """
    lengths = [f"__{stock}_length" for stock in stocks]
    points = [
        rows.filter(~nw.col("timestamp").is_null()).select(
            *key,
            length.alias(f"__{stock}_length"),
            *(
                nw.when(nw.col(column) > 0, nw.col(column).is_finite())
                .then(nw.col(column))
                .alias(f"__{stock}_{column}")
                for column in columns
            ),
        )
        for stock, rows in stocks.items()
    ]
    values = [f"__{stock}_{column}" for stock in stocks for column in columns]
    # Grouping both frames at once replaces two group-bys and a join.
    grouped = (
        nw.concat(points, how="diagonal")
        .group_by(*key)
        .agg(nw.col(*lengths, *values).max(), nw.len().alias("__points"))
        .filter(*(~nw.col(name).is_null() for name in lengths))
    )
    is_single = (nw.col("__points") == 2) & (nw.col(lengths[0]) == nw.col(lengths[1]))
    return grouped.with_columns(nw.when(is_single).then(nw.col(name)).alias(name) for name in values)


def _quadrant(*, price_band: float, oi_band: float) -> nw.Expr:
    """Return the quadrant of each row, from its ``price_change`` and ``open_interest_change``."""
    price, interest = nw.col("price_change"), nw.col("open_interest_change")
    conditions = {
        "new_longs": (price > price_band) & (interest > oi_band),
        "short_covering": (price > price_band) & (interest < -oi_band),
        "new_shorts": (price < -price_band) & (interest > oi_band),
        "long_unwinding": (price < -price_band) & (interest < -oi_band),
        "flat": (price.abs() <= price_band) | (interest.abs() <= oi_band),
    }
    is_known = ~price.is_null() & ~interest.is_null()
    return nw.coalesce(*(nw.when(is_known & holds).then(nw.lit(word)) for word, holds in conditions.items()))
