"""Rates and prices of several markets: their averages, how far they are apart, and each against a reference."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import narwhals.stable.v2 as nw
from narwhals.stable.v2.typing import IntoFrameT

from tidytape.analytics import _arguments as arguments
from tidytape.analytics._series import (
    MIXED,
    TIMES,
    TWICE,
    Duration,
    across,
    finite,
    markets,
    one_engine,
    with_repeats,
    without_repeats,
)
from tidytape.catalogue import AmountUnit
from tidytape.errors import NoMatchWarning, QueryError, nearest, shown
from tidytape.frames import _exact as exact
from tidytape.frames._door import MARKET, require
from tidytape.frames._joined import COVERAGE, as_of, joined, standing_sums, weighted
from tidytape.frames._rows import first
from tidytape.frames._table import IDENTITY, OpenTable
from tidytape.frames._times import length_of
from tidytape.frames._units import AMOUNT_UNIT, counting


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

    over the markets B that have both. 0.05% on 10 billion and 0.2% on 0.1 billion are 0.051485%. A market without a
    report of open interest is absent and stays out; one whose report is null is unknown, and so is the mean.

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
        - ``markets`` : int64, markets that have both.

        ``coverage`` and ``open_interest`` are null where the open interest of a market is not known: it has a rate and
        no report that still counts, or its last report has no number. Where a market with a rate has such a last
        report, the rate is null, too. Where a market is there twice in either frame,
        or ``amount_unit`` says several units, all numbers but ``markets`` are null.

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If rates or open interest are no numbers, the frames are of two engines, or ``carry`` is no positive duration.

    References
    ----------
    tidytape's own convention; see definitions.

    Examples
    --------
    >>> import polars as pl
    >>> market = {"exchange": ["A", "B"], "raw_symbol": "BTC", "timestamp": [0, 0]}
    >>> rates = pl.DataFrame({**market, "rate_close": [0.0005, 0.002]})
    >>> interest = pl.DataFrame({**market, "close": [10e9, 0.1e9]})
    >>> oi_weighted(rates, interest).select(pl.col("rate_close").round(8), "coverage", "markets").row(0)
    (0.00051485, 1.0, 2)
    """
    longest = arguments.duration("carry", carry)
    results = ["coverage", "open_interest", "markets"]
    arguments.column("rate", rate, reserved=results)
    table = OpenTable.of(rates, MARKET, times=["timestamp"], numbers=[rate], parameter="rates")
    other = OpenTable.of(
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
    rate_rows, reports = (opened.rows.filter(~nw.col("timestamp").is_null()) for opened in (table, other))
    rate_rows = rate_rows.select(
        *MARKET, *series, "timestamp", finite(rate), __end=nw.col("timestamp") + length
    )
    amount = nw.when(nw.col(interest) < 0).then(0.0).otherwise(finite(interest)).alias("__weight")
    unit = [name for name in other.names if name == AMOUNT_UNIT]
    if has_lengths:
        reports = reports.filter(length > 0)  # the others end at an unknown time
    named = [nw.col(name).cast(table.schema[name]) for name in (*MARKET, *shared)]
    reports = reports.select(*named, *unit, amount, timestamp=nw.col("timestamp") + length)
    result = _oi_weighted(rate_rows, reports, rate, series=series, shared=shared, carry=longest)
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
    rates = (
        without_repeats(rates, series, amounts=[rate])
        .filter(~nw.col(rate).is_null())
        .with_columns(__start=nw.col("timestamp"), timestamp=nw.col("__end"))
    )
    reports = without_repeats(reports, shared, amounts=["__weight"])
    all_interest = standing_sums(
        reports, rates, members=MARKET, series=shared, columns=["__weight"], carry=carry, counts=[TWICE]
    ).select(*shared, "timestamp", open_interest=nw.col("__weight"), __again=nw.col(TWICE))
    # Duplicate reports get weight 1, so that the market still counts. A report without a number gets -1, so that it
    # replaces the report before it; the join gives null to a market without a report, which then gets 0.
    weight = nw.when(nw.col(TWICE) > 0).then(1.0).otherwise(nw.col("__weight").fill_null(-1.0))
    reports = reports.with_columns(weight.alias("__weight"))
    at, absent = [*series, "__start"], nw.col("__weight").is_null()
    rows = (
        as_of(rates, reports, "__weight", by=[*MARKET, *shared], carry=carry)
        .with_columns(
            nw.col("__weight").fill_null(0.0), __absent=nw.when(absent).then(1).otherwise(0).cast(nw.Int64())
        )
        .with_columns(nw.col("__absent").max().over(*at), __least=nw.col("__weight").min().over(*at))
        .filter(nw.col("__weight") > 0)
        .with_columns(nw.col(TWICE).max().over(*at))
    )
    means = weighted(rows, [*at, "timestamp", "__absent", "__least", TWICE], [rate], weight="__weight")
    averages: nw.LazyFrame[Any] = joined(means, all_interest, on=[*shared, "timestamp"], how="inner")
    has_reports = (nw.col(TWICE) == 0) & (nw.col("__again") == 0) & (nw.col("__least") >= 0)
    is_known = has_reports & (nw.col("__absent") == 0) & ~nw.col("open_interest").is_null()
    # The two sums are rounded separately, so their quotient could exceed 1.
    coverage = nw.min_horizontal(nw.col(f"__used_{rate}") / nw.col("open_interest"), nw.lit(1.0))
    return averages.select(
        *series,
        nw.col("__start").alias("timestamp"),
        nw.when(has_reports).then(nw.col(rate)).alias(rate),
        coverage=nw.when(is_known).then(coverage),
        open_interest=nw.when(is_known).then(nw.col("open_interest")),
        markets=nw.col("__members").cast(nw.Int64()),
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
        ``by``, ``timestamp``, ``vwap`` : float64 [quote per coin], ``volume`` : float64 [coin] and ``markets`` : int64,
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

    References
    ----------
    .. [1] Berkowitz, S. A., Logue, D. E. and Noser, E. A., "The total cost of transactions on the NYSE", Journal of
       Finance 43 (1), 1988: the average over trades, here over markets.

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
    table, _, series = markets(frame, by, [price, volume], results=["vwap", "markets", COVERAGE])
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
    rows = (
        table.rows.filter(~nw.col("timestamp").is_null())
        .with_columns(vwap=finite(price), __volume=finite(volume))
        .filter((traded > 0) | traded.is_null())
    )
    is_known = (vwap > 0) & (traded > 0)
    # A market whose price or volume is unknown keeps a row, so that its time is in the result, with lower coverage.
    rows = rows.with_columns(
        nw.when(is_known).then(1.0).otherwise(0.0).alias(COVERAGE),
        vwap=nw.when(is_known).then(vwap).otherwise(1.0),
        __volume=nw.when(is_known).then(traded).otherwise(1.0),
    )
    rows = without_repeats(rows, series, amounts=["__volume"]).with_columns(
        nw.col(TWICE).max().over(*keys),
        __weight=traded / vwap if unit == "quote" else traded,
        __reporting=nw.col(COVERAGE).sum().over(*keys),
    )
    means = weighted(rows, [*keys, "__reporting", MIXED, TWICE], ["vwap"], weight="__weight")
    coverage = nw.col("__reporting") / nw.col("__members")
    is_known = (nw.col(TWICE) == 0) & (coverage == 1)
    result = means.select(
        *keys,
        nw.when(is_known).then(vwap).alias("vwap"),
        nw.when(is_known).then(nw.col("__used_vwap")).alias("volume"),
        nw.col("__reporting").cast(nw.Int64()).alias("markets"),
        nw.when(nw.col(MIXED) == 0).then(coverage).alias(COVERAGE),
    )
    return table.closed(result, sort=keys)


def dispersion(
    frame: IntoFrameT, /, *, value: str = "close", by: str | Iterable[str] | None = None
) -> IntoFrameT:
    r"""How far markets are apart at each time, and which of them is the lowest and which the highest.

    .. math:: \mathrm{range} = \max_i x_i - \min_i x_i, \qquad
       \mathrm{deviation} = \sqrt{\frac{1}{n - 1} \sum_i (x_i - \bar x)^2}

    Parameters
    ----------
    frame : frame, n rows, key (exchange, raw_symbol, by, timestamp), any order
        Points of single markets.
    value : str
        Column of what is compared, a price in terms of one quote or a rate over one interval.
    by : str or iterable of str, optional
        Columns whose values markets must share to be compared; the identity columns that are not of one market, such as
        ``coin``.

    Returns
    -------
    frame, one row per by and timestamp with a finite value, sorted so, of the kind of ``frame``
        ``by``, ``timestamp``, and these; all except ``markets`` are null where a market has two rows:

        - ``markets`` : int64, markets with a finite value.
        - ``lowest``, ``highest``, ``mean``, ``median`` : float64. [as ``value``]
        - ``range`` : float64, highest minus lowest. [as ``value``]
        - ``relative_range`` : float64, the range divided by the median; null where the median is not positive. [1]
        - ``deviation`` : float64, standard deviation of the sample; null for a single market. [as ``value``]
        - ``lowest_exchange``, ``lowest_raw_symbol``, ``highest_exchange``, ``highest_raw_symbol`` : of several
          markets with that value, the first by name.

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If the frame has a column ``price`` that is not in ``by``: it has several rows per market then. Or if ``value``
        does not hold numbers.

    References
    ----------
    tidytape's own convention; see definitions.

    Examples
    --------
    >>> import polars as pl
    >>> candles = pl.DataFrame(
    ...     {"exchange": ["A", "B", "C"], "raw_symbol": "X", "timestamp": [0, 0, 0], "close": [10.0, 12.0, 11.0]}
    ... )
    >>> apart = dispersion(candles)
    >>> apart.select("markets", "mean", "median", "range", "deviation", "lowest_exchange", "highest_exchange").row(0)
    (3, 11.0, 11.0, 2.0, 1.0, 'A', 'B')
    """
    table, rows, series = markets(frame, by, [value], results=_FOUND)
    keys = [*series, "timestamp"]
    rows = with_repeats(rows.filter(~nw.col(value).is_null()), series)
    rows = exact.in_parts(rows.with_columns(__down=-nw.col(value), __mean=nw.col(value)), "__mean")
    squared = (nw.col(value) - nw.col(value).mean().over(*keys)) ** 2
    rows = (
        rows.with_columns(__squared=squared, __share=1.0 / nw.col(TIMES))
        # A window adds in the order of the rows; a group's order differs from run to run.
        .with_columns(nw.col("__squared").sum().over(*keys))
    )
    ends = {"lowest": [value, *MARKET], "highest": ["__down", *MARKET]}
    statistics = rows.group_by(*keys).agg(
        nw.len().cast(nw.Float64()).alias("__count"),
        nw.col("__share").sum(),
        nw.col(TWICE, "__squared").max(),
        nw.col(value).min().alias("lowest"),
        nw.col(value).max().alias("highest"),
        nw.col(value).median().alias("median"),
        exact.summed("__mean"),
        *(first(rows, name, order).alias(f"{end}_{name}") for end, order in ends.items() for name in MARKET),
    )
    count, median = nw.col("__count"), nw.col("median")
    statistics = statistics.with_columns(
        markets=(nw.col("__share") + 0.5).floor().cast(nw.Int64()),
        mean=exact.total("__mean") / count,
        range=nw.col("highest") - nw.col("lowest"),
        deviation=nw.when(count > 1)
        .then(nw.col("__squared") / nw.max_horizontal(count - 1, nw.lit(1.0)))
        .sqrt(),
    ).with_columns(relative_range=nw.when(median > 0).then(nw.col("range") / median))
    known = [nw.when(nw.col(TWICE) == 0).then(nw.col(name)).alias(name) for name in _FOUND[1:]]
    return table.with_words({f"{end}_{name}": name for end in _ENDS for name in MARKET}).closed(
        statistics.select(*keys, "markets", *known), sort=keys
    )


def premium(
    frame: IntoFrameT,
    /,
    *,
    reference: Literal["median", "mean"] | Mapping[str, str] = "median",
    value: str = "close",
    by: str | Iterable[str] | None = None,
) -> IntoFrameT:
    r"""How much dearer each market is than a reference.

    .. math:: \pi_i = p_i / p_\mathrm{ref} - 1

    Parameters
    ----------
    frame : frame, n rows, key (exchange, raw_symbol, by, timestamp), any order
        Points of single markets, prices in terms of one quote.
    reference : {"median", "mean"} or mapping of str to str
        Of all markets, each market itself included; or the one market that these columns pick, e.g.
        ``{"exchange": "BINANCE", "raw_symbol": "BTCUSDT"}``.
    value : str
        Column of the price.
    by : str or iterable of str, optional
        Columns whose values markets must share to be compared; the identity columns that are not of one market, such as
        ``coin``.

    Returns
    -------
    frame, one row per finite price, sorted by (by, timestamp, exchange, raw_symbol), of the kind of ``frame``
        ``by``, ``timestamp``, ``exchange``, ``raw_symbol``, the price under its own name, ``reference`` : float64, null
        where no market, or more than one, is picked, so in every row if there is no such market, and where one that
        the median or mean is of is there twice, or the market has no other to be compared with [as ``value``];
        ``premium`` : float64, null where the reference is not positive [1]; ``reference_rule`` : what the reference is.

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If the frame has a column ``price`` that is not in ``by``: it has several rows per market then. Or if
        ``reference`` is none of those, or ``value`` does not hold numbers.

    Warns
    -----
    NoMatchWarning
        If no row is of the market that is the reference. Only frames in memory are looked at.

    References
    ----------
    tidytape's own convention; see definitions.

    Examples
    --------
    >>> import polars as pl
    >>> candles = pl.DataFrame(
    ...     {"exchange": ["A", "B", "C"], "raw_symbol": "X", "timestamp": [0, 0, 0], "close": [10.0, 12.0, 11.0]}
    ... )
    >>> premium(candles, reference={"exchange": "A"})["premium"].round(6).to_list()
    [0.0, 0.2, 0.1]
    """
    added = ["reference", "premium", "reference_rule"]
    arguments.column("value", value, reserved=added)
    table, rows, series = markets(frame, by, [value], results=added)
    rows = with_repeats(rows.filter(~nw.col(value).is_null()), series)
    if isinstance(reference, Mapping):
        require(reference, table.names)
        if not reference or not all(isinstance(name, str) for name in reference.values()):
            raise QueryError("reference", got=reference, expected="a name for each of some columns")
        is_picked = nw.all_horizontal(
            *(nw.col(name).cast(nw.String()) == text for name, text in reference.items()),
            ignore_nulls=False,
        )
        if table.is_eager:
            _warn_unless_picked(table, is_picked, reference)
        rule = ", ".join(f"{name}={text}" for name, text in reference.items())
        chosen, of_group, is_one = rows.filter(is_picked), nw.col(value).max(), nw.col("__count") == 1
    else:
        arguments.one_of("reference", reference, ("median", "mean"))
        rule, chosen, is_one = reference, rows, (nw.col(TWICE) == 0) & (nw.col("__count") > 1)
        of_group = nw.col(value).median() if reference == "median" else nw.col(value).mean()
    keys = [*series, "timestamp"]
    references = (
        chosen.group_by(*keys)
        .agg(of_group.alias("reference"), nw.len().alias("__count"), nw.col(TWICE).max())
        .filter(is_one)
        .select(*keys, "reference")
    )
    rows = joined(rows.select(*keys, *MARKET, value), references, on=keys)
    premium = nw.when(nw.col("reference") > 0).then(nw.col(value) / nw.col("reference") - 1.0)
    return table.closed(
        rows.with_columns(premium=premium, reference_rule=nw.lit(rule)), sort=[*keys, *MARKET]
    )


def _warn_unless_picked(table: OpenTable[Any], picked: nw.Expr, reference: Mapping[str, str]) -> None:
    """Warn if a frame has rows, but none of the reference market."""
    if len(table.rows.head(1).collect()) == 0 or len(table.rows.filter(picked).head(1).collect()) > 0:
        return
    message = f"premium: no row is of the reference {shown(dict(reference))}, so every premium is null"
    for name, text in reference.items():
        there = (
            table.rows.select(nw.col(name).cast(nw.String())).unique().collect()[name].drop_nulls().to_list()
        )
        close = None if text in there else nearest(text, there)
        message += f"; did you mean {close!r}?" if close else ""
    warnings.warn(NoMatchWarning(message, keys=reference), stacklevel=3)


_ENDS = ("lowest", "highest")
_FOUND = (
    "markets",
    *_ENDS,
    "mean",
    "median",
    "range",
    "relative_range",
    "deviation",
    *(f"{end}_{name}" for end in _ENDS for name in MARKET),
)
