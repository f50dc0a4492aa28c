"""Averages over markets, by what counts more."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import narwhals.stable.v2 as nw
from narwhals.stable.v2.typing import IntoFrameT

from tidytape.analytics import _arguments as arguments
from tidytape.analytics._series import (
    MARKET,
    MIXED,
    TWICE,
    Duration,
    across,
    finite,
    once,
    one_engine,
    unlevelled,
)
from tidytape.catalogue import AmountUnit
from tidytape.errors import MissingColumnError
from tidytape.frames.buckets import length_of
from tidytape.frames.joined import COVERAGE, matched, standing, standing_sums, weighted
from tidytape.frames.table import IDENTITY, Table
from tidytape.frames.units import AMOUNT_UNIT, counting


def oi_weighted(
    rates: IntoFrameT,
    open_interest: IntoFrameT,
    /,
    *,
    rate: str = "rate_close",
    interest: str = "close",
    by: str | Iterable[str] | None = None,
    carry: Duration = "24h",
) -> IntoFrameT:
    r"""Average of a rate over markets by their open interest, and how much of the open interest that covers.

    .. math::

       \bar f = \frac{\sum_{i \in B} f_i O_i}{\sum_{i \in B} O_i}, \qquad
       \mathrm{coverage} = \frac{\sum_{i \in B} O_i}{\sum_i O_i}

    over the markets B that have both. 0.05% on 10 billion and 0.2% on 0.1 billion are 0.051485%. A market without open
    interest stays out.

    Parameters
    ----------
    rates : frame, n rows, key (exchange, raw_symbol, by, timestamp), any order
        Schema ``FUNDING_RATE_AGG``, all rates over one funding interval.
    open_interest : frame of the same kind, m rows, key (exchange, raw_symbol, timestamp), any order
        Schema ``OPEN_INTEREST_AGG``, in USD. What a market last reported counts, up to the age ``carry``: so give the
        time ``carry`` before the first rate too. All markets of it are the whole that the coverage is a share of. Its
        ``interval`` may be another than that of ``rates``: a report counts once its interval has ended, at the end of
        the rate's. Where only one of the frames has the column ``interval``, the other's rows are taken to be as long.
    rate : str
        Column of the rate. [1 per funding interval]
    interest : str
        Column of the open interest. [USD]
    by : str or iterable of str, optional
        Columns that tell one average from another; the identity columns of ``rates`` that are not of one market, such
        as ``coin``. ``open_interest`` has them too, but for ``interval``.
    carry : str or timedelta, > 0
        Up to which age a report counts.

    Returns
    -------
    frame, one row per by and timestamp with a market that has both, sorted so, of the kind of ``rates``
        ``by``, ``timestamp``, and

        - the rate, under its own name : float64. [1 per funding interval]
        - ``coverage`` : float64, above 0 and at most 1. [1]
        - ``open_interest`` : float64, of all markets. [USD]
        - ``venues`` : int64, markets that have both.

        ``coverage`` and ``open_interest`` are null where the open interest of a market is not known: it has a rate and
        no report that still counts, or its last report has no number. Where a market is there twice in either frame,
        or ``amount_unit`` says several units, all numbers but ``venues`` are null.

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If rates or open interest are no numbers, the frames are of two engines, or ``carry`` is no positive duration.

    Examples
    --------
    >>> import polars as pl
    >>> market = {"exchange": ["A", "B"], "raw_symbol": "BTC", "timestamp": [0, 0]}
    >>> rates = pl.DataFrame({**market, "rate_close": [0.0005, 0.002]})
    >>> interest = pl.DataFrame({**market, "close": [10e9, 0.1e9]})
    >>> oi_weighted(rates, interest).select(pl.col("rate_close").round(8), "coverage", "venues").row(0)
    (0.00051485, 1.0, 2)
    """
    held = arguments.duration("carry", carry)
    results = ["coverage", "open_interest", "venues"]
    arguments.column("rate", rate, taken=results)
    table = Table.opened(rates, MARKET, times=["timestamp"], numbers=[rate], parameter="rates")
    other = Table.opened(
        open_interest, MARKET, times=["timestamp"], numbers=[interest], parameter="open_interest"
    )
    one_engine(table, other, "open_interest")
    series = across(table, by, without=[*MARKET, rate, *results])
    if by is None:
        series = [name for name in series if name in IDENTITY or name in other.names]
    shared = [name for name in series if name != "interval"]
    if missing := [name for name in shared if name not in other.names]:
        raise MissingColumnError(missing, available=other.names)
    asked = table.rows.filter(~nw.col("timestamp").is_null())
    said = "interval" in table.names and "interval" in other.names
    length = length_of(nw.col("interval")) if said else nw.lit(0, nw.Int64())
    asked, of_series = matched(asked.with_columns(__until=nw.col("timestamp") + length), series)
    # Where rates of several lengths are one average, what was known when the first of them ended.
    asked = asked.with_columns(__until=nw.col("__until").min().over(*of_series, "timestamp"))
    asked = asked.select(*MARKET, *series, "timestamp", "__until", finite(rate))
    asked = once(asked, series)
    asked = asked.with_columns(nw.when(nw.col(TWICE) == 0).then(nw.col(rate)).otherwise(0.0).alias(rate))
    reports = other.rows.filter(~nw.col("timestamp").is_null())
    if said:
        reports = reports.filter(length > 0)  # what ends nobody knows when is never known
    reports = reports.select(
        *MARKET,
        *shared,
        (nw.col("timestamp") + length).alias("timestamp"),
        finite(interest).alias("__weight"),
        *(nw.col(name) for name in other.names if name == AMOUNT_UNIT),
    )
    reports = once(reports, shared, amounts=["__weight"])
    reports = reports.with_columns(
        __weight=nw.when(nw.col("__weight") < 0).then(0.0).otherwise(nw.col("__weight"))
    )
    asked = asked.filter(~nw.col(rate).is_null())
    moments = asked.select(*MARKET, *shared, nw.col("__until").alias("timestamp"))
    whole = standing_sums(
        reports, moments, members=MARKET, series=shared, columns=["__weight"], carry=held, counts=[TWICE]
    )
    whole, parts = matched(whole, shared)
    until = nw.col("timestamp").alias("__until")
    whole = whole.select(
        *parts, until, nw.col("__weight").alias("open_interest"), nw.col(TWICE).alias("__again")
    )
    # A market that is there twice has both, and no number. An unknown report holds, and has no weight: -1.
    counted = (
        nw.when(nw.col(TWICE) > 0).then(1.0).otherwise(nw.col("__weight").fill_null(-1.0)).alias("__weight")
    )
    weights = standing(
        reports.with_columns(counted), moments, members=MARKET, series=shared, column="__weight", carry=held
    )
    both, markets = matched(asked, [*MARKET, *shared])
    both = both.join(weights.select(*markets, until, "__weight"), on=[*markets, "__until"], how="left")
    both, of_series = matched(both.with_columns(nw.col("__weight").fill_null(-1.0)), series)
    lacks = nw.col("__weight").min().over(*of_series, "timestamp") < 0
    both = both.with_columns(__lacks=nw.when(lacks).then(1.0).otherwise(0.0)).filter(nw.col("__weight") > 0)
    keys = [*series, "timestamp", "__until", "__lacks"]
    means = weighted(both, keys, [rate, TWICE], weight="__weight")
    result = matched(means, shared)[0].join(whole, on=[*parts, "__until"])
    used = nw.col(f"__used_{rate}")
    # Both sums are rounded, each for itself; no share is above 1.
    coverage = nw.min_horizontal(used / nw.col("open_interest"), nw.lit(1.0))
    unique = (nw.col(TWICE) == 0) & (nw.col("__again") == 0)
    known = unique & (nw.col("__lacks") == 0) & ~nw.col("open_interest").is_null()
    result = result.select(
        *series,
        "timestamp",
        nw.when(unique).then(nw.col(rate)).alias(rate),
        coverage=nw.when(known).then(coverage),
        open_interest=nw.when(known).then(nw.col("open_interest")),
        venues=nw.col("__members").cast(nw.Int64()),
    )
    return table.closed(result, sort=[*series, "timestamp"])


def volume_weighted(
    frame: IntoFrameT,
    /,
    *,
    price: str = "close",
    volume: str = "volume",
    unit: Literal["coin", "quote"] = "coin",
    by: str | Iterable[str] | None = None,
) -> IntoFrameT:
    r"""Average price over markets by volume.

    .. math:: \bar p = \sum_i p_i v_i \Big/ \sum_i v_i

    with volumes v in coin; of volumes u in terms of the quote, such as USD, v is u / p.

    Parameters
    ----------
    frame : frame, n rows, key (exchange, raw_symbol, by, timestamp), any order
        Candles of single markets, prices all in terms of one quote.
    price, volume : str
        Columns of the price [quote per coin] and of the volume.
    unit : {"coin", "quote"}
        What volumes are in: coins, as fetched, or the quote, as fetched with ``quote="USD"``.
    by : str or iterable of str, optional
        Columns that tell one average from another; the identity columns that are not of one market, such as ``coin``.

    Returns
    -------
    frame, one row per by and timestamp with a volume, sorted so, of the kind of ``frame``
        ``by``, ``timestamp``, ``vwap`` : float64 [quote per coin], ``volume`` : float64 [coin] and ``venues`` : int64,
        markets in it. A market that did not trade, whose volume is 0, is not. Where the price or the volume of a market
        is unknown, or one is there twice, or ``amount_unit`` says several units, average and volume are null. And
        ``coverage`` : float64, share of the markets whose price and volume are known, null where they have several
        units [1].

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If the frame has a column ``price`` that is not in ``by``: it has several rows per market then. Or if prices or
        volumes are no numbers, or the unit is not one of those listed, or ``amount_unit`` of an eager frame says that
        volumes count something else than ``unit``; of a lazy frame such volumes are unknown.

    Examples
    --------
    >>> import polars as pl
    >>> candles = pl.DataFrame(
    ...     {
    ...         "exchange": ["A", "B"],
    ...         "raw_symbol": "X",
    ...         "timestamp": [0, 0],
    ...         "close": [10.0, 14.0],
    ...         "volume": [3.0, 1.0],
    ...     }
    ... )
    >>> volume_weighted(candles).rows()
    [(0, 11.0, 4.0, 2, 1.0)]
    """
    arguments.one_of("unit", unit, ("coin", "quote"))
    table = Table.opened(frame, MARKET, times=["timestamp"], numbers=[price, volume])
    series = across(table, by, without=[*MARKET, price, volume, "vwap", "venues", COVERAGE])
    unlevelled(table, series, used=[price])
    counted = {"coin": AmountUnit.COIN, "quote": AmountUnit.USD}[unit].value
    hint = "unit='quote' where they count USD, unit='coin' where they count coins"
    table = counting(
        table, counted, [volume], parameter="unit", expected="volumes that count what unit says", hint=hint
    )
    rows = table.rows.filter(~nw.col("timestamp").is_null())
    own, traded = nw.col("vwap"), nw.col("__volume")
    rows = rows.with_columns(vwap=finite(price), __volume=finite(volume))
    rows = rows.filter((traded > 0) | traded.is_null())
    is_known = (own > 0) & (traded > 0)
    # A market whose price or volume is unknown has any, so that its time has a row; its coverage says so.
    rows = rows.with_columns(
        nw.when(is_known).then(1.0).otherwise(0.0).alias(COVERAGE),
        *(
            nw.when(is_known).then(value).otherwise(1.0).alias(name)
            for name, value in (("vwap", own), ("__volume", traded))
        ),
    )
    rows, of_series = matched(once(rows, series, amounts=["__volume"]), series)
    rows = rows.with_columns(
        __weight=traded / own if unit == "quote" else traded,
        __venues=nw.col(COVERAGE).sum().over(*of_series, "timestamp"),
    )
    keys = [*series, "timestamp"]
    means = weighted(rows, [*keys, "__venues", MIXED], ["vwap", TWICE], weight="__weight")
    coverage = nw.col("__venues") / nw.col("__members")
    known = (nw.col(TWICE) == 0) & (coverage == 1)
    result = means.select(
        *keys,
        nw.when(known).then(nw.col("vwap")).alias("vwap"),
        nw.when(known).then(nw.col("__used_vwap")).alias("volume"),
        nw.col("__venues").cast(nw.Int64()).alias("venues"),
        nw.when(nw.col(MIXED) == 0).then(coverage).alias(COVERAGE),
    )
    return table.closed(result, sort=keys)
