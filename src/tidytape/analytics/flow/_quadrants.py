"""Open interest against price: who opens positions, and who closes them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import narwhals.stable.v2 as nw
from narwhals.stable.v2.typing import IntoFrameT

from tidytape.analytics._arguments import number, one_of
from tidytape.analytics._series import one_engine, warn_unless_met
from tidytape.catalogue import AmountUnit
from tidytape.errors import QueryError
from tidytape.frames.buckets import length_of
from tidytape.frames.ordered import with_neighbour
from tidytape.frames.table import Table
from tidytape.frames.units import counting

# Not all identity columns: what only describes a series may be told with one type of data and not with another.
_SERIES = ("exchange", "raw_symbol", "coin", "interval")
# What candles have and open interest has not.
_TRADED = ("volume", "first_timestamp", "last_timestamp")
_CHANGES = ("close_to_close", "open_to_close")
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
    r"""Quadrant of open interest and price: are positions opened or closed, and which.

    ============  ====================  =======================
    price         open interest rises   open interest falls
    ============  ====================  =======================
    rises         ``new_longs``         ``short_covering``
    falls         ``new_shorts``        ``long_unwinding``
    ============  ====================  =======================

    A change is relative, :math:`x_t / x_{t'} - 1`; one of at most the band, in either direction, is ``flat``.

    Parameters
    ----------
    open_interest : frame, n rows, key (by, timestamp), in any order
        Schema OPEN_INTEREST_AGG: ``timestamp``, ``close`` and, if asked for, ``open`` [coin]. In USD it moves with the
        price, and has other quadrants.
    candles : frame, m rows, key (by, timestamp), in any order
        Schema TRADE_SIDE_AGNOSTIC_AGG, of the same interval: ``timestamp``, ``close`` and, if asked for, ``open``
        [quote per coin]. Of the same kind as ``open_interest``, in DuckDB of the same connection.
    by : str or iterable of str, optional
        The columns that tell one series from another; without it, those of ``exchange``, ``raw_symbol``, ``coin`` and
        ``interval`` that both have. Null is a value. Frames of two intervals have no row in common: fetch both with
        the same, or resample one.
    change : {"close_to_close", "open_to_close"}
        Since when: since the close of the row before, or since the interval's open.
    price_band, oi_band : float, >= 0
        The dead band: relative changes up to it are none. [1]

    Returns
    -------
    frame, one row per (by, timestamp) that both have, sorted by them, of the kind of ``open_interest``
        ``by``, ``timestamp`` (start of the interval), and

        - ``since`` : time, of the row that a change is from; after a gap that is not the interval before. Null on the
          first row. With ``open_to_close`` the row's own.
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
        If ``change`` is none of those, a band is no number of 0 or more, ``open_interest`` has the volume of candles,
        candles are by side, the frames are of two engines, a time has no zone, or a column holds no numbers. Or if
        ``amount_unit`` of an eager ``open_interest`` is USD; of a lazy one its changes and quadrants are null.

    Warns
    -----
    NoMatchWarning
        If no series is in both frames, so that the result is empty. Only frames in memory are looked at.

    Notes
    -----
    Nothing says that both frames are of one market: by ``coin`` alone, candles of a spot market meet the open interest
    of a perpetual, which is a fair question, and one to ask on purpose.

    Every contract has a long and a short, so the words say who is likely the one in a hurry, no more.

    A value that is null, not finite or not above zero is unknown, and so is one that a series has twice at a time:
    changes from it and to it are null, as are those of rows whose intervals differ. A row without a time is left out.
    No row depends on a later one.

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
    one_of("change", change, _CHANGES)
    bands = {
        name: number(name, band, least=0) for name, band in (("price_band", price_band), ("oi_band", oi_band))
    }
    opens = change == "open_to_close"
    columns = ["close", "open"] if opens else ["close"]
    table = Table.opened(open_interest, times=["timestamp"], numbers=columns, parameter="open_interest")
    other = Table.opened(candles, times=["timestamp"], numbers=columns, parameter="candles")
    one_engine(table, other, "candles")
    if traded := [name for name in _TRADED if name in table.names]:
        got, hint = f"a frame with column {traded[0]}", "open interest comes first, candles second"
        raise QueryError("open_interest", got=got, expected="open interest, which has none", hint=hint)
    if "side" in other.names:
        raise QueryError(
            "candles", got="candles by side", expected="candles of both sides", hint="fetch without by_side"
        )
    table = counting(
        table,
        AmountUnit.COIN.value,
        columns,
        parameter="open_interest",
        expected="open interest in coin, for in USD it moves with the price",
        hint="fetch it of single markets, without quote='USD'",
    )
    shared = [name for name in _SERIES if name in table.names and name in other.names]
    keys = table.series(shared if by is None else by, without=["side", "timestamp", *_RESULTS])
    other.series(keys)
    warn_unless_met("oi_price_quadrant", table, other, keys, called=("open_interest", "candles"))
    series = [*keys, "__all"]
    # Not a join, which would lose a series of which a key is null; each frame has zeros where the other has values.
    dtypes = table.rows.collect_schema()
    both_say = "interval" in table.names and "interval" in other.names
    length = length_of(nw.col("interval")) if both_say else nw.lit(0, nw.Int64())
    halves = [
        side.rows.filter(~nw.col("timestamp").is_null()).select(
            *(nw.col(name).cast(dtypes[name]) for name in keys),
            "timestamp",
            nw.lit(0).alias("__all"),
            *(
                (_positive(column) if own else nw.lit(0.0)).alias(f"__{what}_{column}")
                for what, own in (("price", side is other), ("interest", side is table))
                for column in columns
            ),
            nw.lit(int(side is other), nw.Int64()).alias("__prices"),
            nw.lit(int(side is table), nw.Int64()).alias("__interests"),
            (length if side is other else -length).alias("__longer"),
        )
        for side in (other, table)
    ]
    values = [f"__{what}_{column}" for what in ("price", "interest") for column in columns]
    rows = (
        nw.concat(halves)
        .group_by(*series, "timestamp")
        .agg(nw.col(*values, "__prices", "__interests", "__longer").sum())
        .filter((nw.col("__prices") > 0) & (nw.col("__interests") > 0))
        .with_columns(
            __order=nw.col("timestamp"),
            __once=(nw.col("__prices") + nw.col("__interests") == 2) & (nw.col("__longer") == 0),
        )
        .with_columns(nw.when("__once", nw.col(name) > 0).then(nw.col(name)).alias(name) for name in values)
    )
    if opens:
        rows = rows.with_columns(since=nw.col("timestamp"))
        befores = {what: nw.col(f"__{what}_open") for what in ("price", "interest")}
    else:
        rows = with_neighbour(rows, "timestamp", name="since", over=series, order=["__order"])
        rows = rows.with_columns(
            nw.when(nw.col("since") < nw.col("timestamp")).then(nw.col("since")).alias("since"),
            *(
                nw.col(f"__{what}_close").shift(1).over(series, order_by="__order").alias(f"__{what}_before")
                for what in ("price", "interest")
            ),
        )
        befores = {what: nw.col(f"__{what}_before") for what in ("price", "interest")}
    rows = rows.with_columns(
        price_change=nw.col("__price_close") / befores["price"] - 1,
        open_interest_change=nw.col("__interest_close") / befores["interest"] - 1,
    )
    rows = rows.select(
        *keys,
        "timestamp",
        "since",
        nw.col("__price_close").alias("price"),
        nw.col("__interest_close").alias("open_interest"),
        "price_change",
        "open_interest_change",
        _quadrant(**bands).alias("quadrant"),
        nw.lit(change).alias("change"),
        *(nw.lit(band).alias(name) for name, band in bands.items()),
    )
    return table.closed(rows, sort=[*keys, "timestamp"], times={"since": "timestamp"})


def _positive(column: str) -> nw.Expr:
    """Return a value, 0 where it is none."""
    value = nw.col(column)
    return nw.when((value.is_finite() & (value > 0)).fill_null(value=False)).then(value).otherwise(0.0)


def _quadrant(*, price_band: float, oi_band: float) -> nw.Expr:
    price, interest = nw.col("price_change"), nw.col("open_interest_change")
    words = {
        "new_longs": (price > price_band) & (interest > oi_band),
        "short_covering": (price > price_band) & (interest < -oi_band),
        "new_shorts": (price < -price_band) & (interest > oi_band),
        "long_unwinding": (price < -price_band) & (interest < -oi_band),
        "flat": (price.abs() <= price_band) | (interest.abs() <= oi_band),
    }
    known = ~price.is_null() & ~interest.is_null()
    return nw.coalesce(*(nw.when(known & holds).then(nw.lit(word)) for word, holds in words.items()))
