"""Averages over markets: funding rates weighted by open interest, and prices weighted by volume."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal

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
    markets,
    once,
    one_engine,
)
from tidytape.catalogue import AmountUnit
from tidytape.frames.buckets import length_of
from tidytape.frames.door import require
from tidytape.frames.joined import COVERAGE, as_of, joined, standing_sums, weighted
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
    require(shared, other.names)
    has_lengths = "interval" in table.names and "interval" in other.names
    length = length_of(nw.col("interval")) if has_lengths else nw.lit(0, nw.Int64())
    asked, reports = (one.rows.filter(~nw.col("timestamp").is_null()) for one in (table, other))
    asked = asked.select(*MARKET, *series, "timestamp", finite(rate), __end=nw.col("timestamp") + length)
    amount = nw.when(nw.col(interest) < 0).then(0.0).otherwise(finite(interest)).alias("__weight")
    unit = [name for name in other.names if name == AMOUNT_UNIT]
    if has_lengths:
        reports = reports.filter(length > 0)  # the others end at an unknown time
    named = [nw.col(name).cast(table.schema[name]) for name in (*MARKET, *shared)]
    reports = reports.select(*named, *unit, amount, timestamp=nw.col("timestamp") + length)
    result = _oi_weighted(asked, reports, rate, series=series, shared=shared, carry=held)
    return table.closed(result.select(*series, "timestamp", rate, *results), sort=[*series, "timestamp"])


def _oi_weighted(
    rates: nw.LazyFrame[Any],
    reports: nw.LazyFrame[Any],
    rate: str,
    *,
    series: Sequence[str],
    shared: Sequence[str],
    carry: int,
) -> nw.LazyFrame[Any]:
    """Return the mean of rates, weighted by the open interest last reported at the end of each rate's interval."""
    keys = [*series, "timestamp"]
    # If an average covers rates of several interval lengths, it uses the open interest at the end of the shortest.
    rates = rates.with_columns(nw.col("__end").min().over(*keys))
    rates = once(rates, series, amounts=[rate]).filter(~nw.col(rate).is_null())
    rates = rates.with_columns(__start=nw.col("timestamp"), timestamp=nw.col("__end"))
    reports = once(reports, shared, amounts=["__weight"])
    whole = standing_sums(
        reports, rates, members=MARKET, series=shared, columns=["__weight"], carry=carry, counts=[TWICE]
    ).select(*shared, "timestamp", open_interest=nw.col("__weight"), __again=nw.col(TWICE))
    # Duplicate reports get weight 1, so that the market still counts. A report without a number gets -1, so that it
    # replaces the report before it; the join gives -1 to a market without a report, too.
    weight = nw.when(nw.col(TWICE) > 0).then(1.0).otherwise(nw.col("__weight").fill_null(-1.0))
    reports = reports.with_columns(weight.alias("__weight"))
    rows = as_of(rates, reports, "__weight", by=[*MARKET, *shared], carry=carry)
    rows = rows.with_columns(nw.col("__weight").fill_null(-1.0))
    at = [*series, "__start"]
    rows = rows.with_columns(__least=nw.col("__weight").min().over(*at)).filter(nw.col("__weight") > 0)
    is_known = (nw.col("__least") >= 0).cast(nw.Int64())
    rows = rows.with_columns(nw.col(TWICE).max().over(*at), __known=is_known)
    means = weighted(rows, [*at, "timestamp", "__known", TWICE], [rate], weight="__weight")
    found: nw.LazyFrame[Any] = joined(means, whole, on=[*shared, "timestamp"], how="inner")
    is_single = (nw.col(TWICE) == 0) & (nw.col("__again") == 0)
    is_known = is_single & (nw.col("__known") == 1) & ~nw.col("open_interest").is_null()
    # The two sums are rounded separately, so their quotient could exceed 1.
    coverage = nw.min_horizontal(nw.col(f"__used_{rate}") / nw.col("open_interest"), nw.lit(1.0))
    return found.select(
        *series,
        nw.col("__start").alias("timestamp"),
        nw.when(is_single).then(nw.col(rate)).alias(rate),
        coverage=nw.when(is_known).then(coverage),
        open_interest=nw.when(is_known).then(nw.col("open_interest")),
        venues=nw.col("__members").cast(nw.Int64()),
    )


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
    table, _, series = markets(frame, by, [price, volume], results=["vwap", "venues", COVERAGE])
    table = counting(
        table,
        {"coin": AmountUnit.COIN, "quote": AmountUnit.USD}[unit].value,
        [volume],
        parameter="unit",
        expected="volumes that count what unit says",
        hint="unit='quote' where they count USD, unit='coin' where they count coins",
    )
    keys = [*series, "timestamp"]
    vwap, traded = nw.col("vwap"), nw.col("__volume")
    rows = table.rows.filter(~nw.col("timestamp").is_null())
    rows = rows.with_columns(vwap=finite(price), __volume=finite(volume))
    rows = rows.filter((traded > 0) | traded.is_null())
    is_known = (vwap > 0) & (traded > 0)
    # A market whose price or volume is unknown keeps a row, so that its time is in the result, with lower coverage.
    rows = rows.with_columns(
        nw.when(is_known).then(1.0).otherwise(0.0).alias(COVERAGE),
        vwap=nw.when(is_known).then(vwap).otherwise(1.0),
        __volume=nw.when(is_known).then(traded).otherwise(1.0),
    )
    rows = once(rows, series, amounts=["__volume"]).with_columns(
        nw.col(TWICE).max().over(*keys),
        __weight=traded / vwap if unit == "quote" else traded,
        __venues=nw.col(COVERAGE).sum().over(*keys),
    )
    means = weighted(rows, [*keys, "__venues", MIXED, TWICE], ["vwap"], weight="__weight")
    coverage = nw.col("__venues") / nw.col("__members")
    is_known = (nw.col(TWICE) == 0) & (coverage == 1)
    result = means.select(
        *keys,
        nw.when(is_known).then(vwap).alias("vwap"),
        nw.when(is_known).then(nw.col("__used_vwap")).alias("volume"),
        nw.col("__venues").cast(nw.Int64()).alias("venues"),
        nw.when(nw.col(MIXED) == 0).then(coverage).alias(COVERAGE),
    )
    return table.closed(result, sort=keys)
