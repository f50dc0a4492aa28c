"""Rates and prices of several markets: averages, how far they are apart, and premiums over a reference."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import narwhals.stable.v2 as nw
from narwhals.stable.v2.typing import IntoFrameT

from tidytape.analytics import _arguments as arguments
from tidytape.analytics._series import (
    HAS_MIXED_UNITS,
    IS_REPEATED,
    ROW_COUNT,
    Duration,
    across,
    finite,
    markets,
    require_one_engine,
    with_repeats,
    without_repeats,
)
from tidytape.catalogue import AmountUnit
from tidytape.errors import NoMatchWarning, QueryError, nearest, shown, warn
from tidytape.frames import _exact as exact
from tidytape.frames._door import MARKET, require
from tidytape.frames._joined import COVERAGE, as_of, joined, standing_sums, weighted
from tidytape.frames._rows import first
from tidytape.frames._table import IDENTITY, OpenTable
from tidytape.frames._times import length_of
from tidytape.frames._units import AMOUNT_UNIT, require_unit


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
    r"""Average of a rate over markets, weighted by open interest, and how much of the open interest it covers.

    .. math::

       \bar f = \frac{\sum_{i \in B} f_i O_i}{\sum_{i \in B} O_i}, \qquad
       \mathrm{coverage} = \frac{\sum_{i \in B} O_i}{\sum_i O_i}

    where B are the markets that have both a rate and open interest. Rates of 0.05% on 10 billion and 0.2% on 0.1
    billion average 0.051485%. A market without a report of open interest is absent and left out; a market whose report
    is null is unknown, and so is the mean.

    Parameters
    ----------
    rates : frame, n rows, key (exchange, raw_symbol, by, timestamp), any order
        Schema ``FUNDING_RATE_AGG``, all rates over one funding interval.
    open_interest : frame of the same kind, m rows, key (exchange, raw_symbol, timestamp), any order
        Schema ``OPEN_INTEREST_AGG``, in USD. The last report of a market counts up to the age ``carry``, so the frame
        needs the time ``carry`` before the first rate. Coverage is a share of the open interest of all markets of this
        frame. Its ``interval`` may differ from that of ``rates``: at the end of a rate's interval, the last report
        counts whose interval has ended. If only one frame has the column ``interval``, rows of both are taken to be
        equally long.
    rate : str
        Column of the rate. [1 per funding interval]
    interest : str
        Column of the open interest. [USD]
    by : str or iterable of str, optional
        Columns that tell one average from another; by default the identity columns of ``rates`` that do not name a
        market, such as ``coin``. ``open_interest`` needs them too, except ``interval``.
    carry : str or timedelta, > 0
        The age up to which a report counts.

    Returns
    -------
    frame, one row per by and timestamp with a market that has both, sorted by these, of the kind of ``rates``
        ``by``, ``timestamp``, and

        - the rate, under its own name : float64. [1 per funding interval]
        - ``coverage`` : float64, above 0 and at most 1. [1]
        - ``open_interest`` : float64, of all markets. [USD]
        - ``markets`` : int64, markets that have both.

        ``coverage`` and ``open_interest`` are null if the open interest of a market is not known: the market has a rate
        but no report that still counts, or its last report is null; in the second case the rate is null too. If a
        market appears twice in either frame, or ``amount_unit`` has several units, all numbers except ``markets`` are
        null.

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If rates or open interest are not numbers, the frames have two engines, or ``carry`` is not a positive duration.

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
    table = OpenTable.of(rates, [*MARKET, "timestamp"], numbers=[rate], parameter="rates")
    other = OpenTable.of(open_interest, [*MARKET, "timestamp"], numbers=[interest], parameter="open_interest")
    require_one_engine(table, other, "open_interest")
    series_columns = across(table, by, without=[*MARKET, rate, *results])
    if by is None:
        series_columns = [name for name in series_columns if name in IDENTITY or name in other.names]
    join_columns = [name for name in series_columns if name != "interval"]
    require(join_columns, other.names)
    has_lengths = "interval" in table.names and "interval" in other.names
    length = length_of(nw.col("interval")) if has_lengths else nw.lit(0, nw.Int64())
    rate_rows, reports = (opened.rows.filter(~nw.col("timestamp").is_null()) for opened in (table, other))
    rate_rows = rate_rows.select(
        *MARKET, *series_columns, "timestamp", finite(rate), __end=nw.col("timestamp") + length
    )
    amount = nw.when(nw.col(interest) < 0).then(0.0).otherwise(finite(interest)).alias("__weight")
    unit = [name for name in other.names if name == AMOUNT_UNIT]
    if has_lengths:
        reports = reports.filter(length > 0)  # the end of other reports is unknown
    key_columns = [nw.col(name).cast(table.schema[name]) for name in (*MARKET, *join_columns)]
    reports = reports.select(*key_columns, *unit, amount, timestamp=nw.col("timestamp") + length)
    result = _oi_weighted(rate_rows, reports, rate, by=series_columns, shared=join_columns, carry=longest)
    return table.closed(
        result.select(*series_columns, "timestamp", rate, *results),
        sort=[*series_columns, "timestamp"],
        main=["open_interest", rate],
    )


def _oi_weighted(
    rates: nw.LazyFrame[Any],
    reports: nw.LazyFrame[Any],
    rate: str,
    *,
    by: Sequence[str],
    shared: Sequence[str],
    carry: int,
) -> nw.LazyFrame[Any]:
    """Return the mean of rates, weighted by the open interest last reported at the end of each rate's interval."""
    keys = [*by, "timestamp"]
    # If an average covers rates of several interval lengths, it uses the open interest at the end of the shortest.
    rates = rates.with_columns(nw.col("__end").min().over(*keys))
    rates = (
        without_repeats(rates, by, amounts=[rate])
        .filter(~nw.col(rate).is_null())
        .with_columns(__start=nw.col("timestamp"), timestamp=nw.col("__end"))
    )
    reports = without_repeats(reports, shared, amounts=["__weight"])
    total_interest = standing_sums(
        reports,
        rates,
        members=MARKET,
        series_columns=shared,
        columns=["__weight"],
        carry=carry,
        counts=[IS_REPEATED],
    ).select(*shared, "timestamp", open_interest=nw.col("__weight"), __again=nw.col(IS_REPEATED))
    # Duplicate reports get weight 1, so that the market still counts. A report without a number gets -1, so that it
    # replaces the report before it; the join gives null to a market without a report, which then gets 0.
    weight = nw.when(nw.col(IS_REPEATED) > 0).then(1.0).otherwise(nw.col("__weight").fill_null(-1.0))
    reports = reports.with_columns(weight.alias("__weight"))
    rate_keys, is_absent = [*by, "__start"], nw.col("__weight").is_null()
    rows = (
        as_of(rates, reports, "__weight", by=[*MARKET, *shared], carry=carry)
        .with_columns(nw.col("__weight").fill_null(0.0), __absent=nw.when(is_absent).then(1).otherwise(0))
        .with_columns(
            nw.col("__absent").max().over(*rate_keys), __least=nw.col("__weight").min().over(*rate_keys)
        )
        .filter(nw.col("__weight") > 0)
        .with_columns(nw.col(IS_REPEATED).max().over(*rate_keys))
    )
    keys_of_means = [*rate_keys, "timestamp", "__absent", "__least", IS_REPEATED]
    means = weighted(rows, keys_of_means, [rate], weight="__weight")
    averages: nw.LazyFrame[Any] = joined(means, total_interest, on=[*shared, "timestamp"], how="inner")
    has_reports = (nw.col(IS_REPEATED) == 0) & (nw.col("__again") == 0) & (nw.col("__least") >= 0)
    is_known = has_reports & (nw.col("__absent") == 0) & ~nw.col("open_interest").is_null()
    # The two sums are rounded separately, so their quotient could exceed 1.
    coverage = nw.min_horizontal(nw.col(f"__used_{rate}") / nw.col("open_interest"), nw.lit(1.0))
    return averages.select(
        *by,
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
    r"""Average price over markets, weighted by volume.

    .. math:: \bar p = \sum_i p_i v_i \Big/ \sum_i v_i

    with volumes v in coin. If volumes u are in the quote, such as USD, v is u / p.

    Parameters
    ----------
    frame : frame, n rows, key (exchange, raw_symbol, by, timestamp), any order
        Candles of single markets, with all prices in one quote.
    price, volume : str
        Columns of the price [quote per coin] and of the volume.
    unit : {"coin", "quote"}
        What volumes count: coins, the default of a fetch, or the quote, as fetched with ``quote="USD"``.
    by : str or iterable of str, optional
        Columns that tell one average from another; by default the identity columns that do not name a market, such as
        ``coin``.

    Returns
    -------
    frame, one row per by and timestamp with a volume, sorted by these, of the kind of ``frame``
        ``by``, ``timestamp``, ``vwap`` : float64 [quote per coin], ``volume`` : float64 [coin], ``markets`` : int64,
        how many markets the average has, and ``coverage`` : float64, share of the markets whose price and volume are
        known, null if they have several units [1]. A market with volume 0 is left out. If the price or the volume of a
        market is unknown, if a market appears twice, or if ``amount_unit`` has several units, average and volume are
        null.

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If the frame has a column ``price`` that is not in ``by``, because it may then have several rows per market. Or
        if prices or volumes are not numbers, or the unit is not one of those listed, or ``amount_unit`` of an eager
        frame says that volumes count something else than ``unit``; in a lazy frame such volumes are unknown.

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
    [(0, 2, 1.0, 4.0, 11.0)]
    """
    arguments.one_of("unit", unit, ("coin", "quote"))
    table, _, series_columns = markets(frame, by, [price, volume], results=["vwap", "markets", COVERAGE])
    table = require_unit(
        table,
        {"coin": AmountUnit.COIN, "quote": AmountUnit.USD}[unit].value,
        [volume],
        parameter="unit",
        expected="volumes that count what unit says",
        hint="unit='quote' where they count USD, unit='coin' where they count coins",
    )
    keys = [*series_columns, "timestamp"]
    vwap, market_volume = nw.col("vwap"), nw.col("__volume")
    rows = (
        table.rows.filter(~nw.col("timestamp").is_null())
        .with_columns(vwap=finite(price), __volume=finite(volume))
        .filter((market_volume > 0) | market_volume.is_null())
    )
    is_known = (vwap > 0) & (market_volume > 0)
    # A market whose price or volume is unknown keeps a row, so that its time is in the result, with lower coverage.
    rows = rows.with_columns(
        nw.when(is_known).then(1.0).otherwise(0.0).alias(COVERAGE),
        vwap=nw.when(is_known).then(vwap).otherwise(1.0),
        __volume=nw.when(is_known).then(market_volume).otherwise(1.0),
    )
    rows = without_repeats(rows, series_columns, amounts=["__volume"]).with_columns(
        nw.col(IS_REPEATED).max().over(*keys),
        __weight=market_volume / vwap if unit == "quote" else market_volume,
        __reporting=nw.col(COVERAGE).sum().over(*keys),
    )
    means = weighted(rows, [*keys, "__reporting", HAS_MIXED_UNITS, IS_REPEATED], ["vwap"], weight="__weight")
    coverage = nw.col("__reporting") / nw.col("__members")
    is_known = (nw.col(IS_REPEATED) == 0) & (coverage == 1)
    result = means.select(
        *keys,
        nw.when(is_known).then(vwap).alias("vwap"),
        nw.when(is_known).then(nw.col("__used_vwap")).alias("volume"),
        nw.col("__reporting").cast(nw.Int64()).alias("markets"),
        nw.when(nw.col(HAS_MIXED_UNITS) == 0).then(coverage).alias(COVERAGE),
    )
    return table.closed(result, sort=keys, main=["volume", "vwap"])


def dispersion(
    frame: IntoFrameT, /, *, value: str = "close", by: str | Iterable[str] | None = None
) -> IntoFrameT:
    r"""How far markets are apart at each time, and which market is the lowest and which the highest.

    .. math:: \mathrm{range} = \max_i x_i - \min_i x_i, \qquad
       \mathrm{deviation} = \sqrt{\frac{1}{n - 1} \sum_i (x_i - \bar x)^2}

    Parameters
    ----------
    frame : frame, n rows, key (exchange, raw_symbol, by, timestamp), any order
        Points of single markets.
    value : str
        Column to compare: prices in one quote, or rates over one interval.
    by : str or iterable of str, optional
        Columns whose values markets must share to be compared; by default the identity columns that do not name a
        market, such as ``coin``.

    Returns
    -------
    frame, one row per by and timestamp with a finite value, sorted by these, of the kind of ``frame``
        ``by``, ``timestamp``, and these; all except ``markets`` are null where a market has two rows:

        - ``markets`` : int64, markets with a finite value.
        - ``lowest``, ``highest``, ``mean``, ``median`` : float64. [as ``value``]
        - ``range`` : float64, highest minus lowest. [as ``value``]
        - ``relative_range`` : float64, the range divided by the median; null where the median is not positive. [1]
        - ``deviation`` : float64, standard deviation of the sample; null for a single market. [as ``value``]
        - ``lowest_exchange``, ``lowest_raw_symbol``, ``highest_exchange``, ``highest_raw_symbol`` : the market with
          that value; among several, the first by name.

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If the frame has a column ``price`` that is not in ``by``, because it may then have several rows per market. Or
        if ``value`` does not hold numbers.

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
    table, rows, series_columns = markets(frame, by, [value], results=_STATISTICS)
    keys = [*series_columns, "timestamp"]
    rows = with_repeats(rows.filter(~nw.col(value).is_null()), series_columns)
    rows = exact.in_parts(rows.with_columns(__down=-nw.col(value), __mean=nw.col(value)), "__mean")
    squared = (nw.col(value) - nw.col(value).mean().over(*keys)) ** 2
    rows = (
        rows.with_columns(__squared=squared, __share=1.0 / nw.col(ROW_COUNT))
        # Add in a window, which keeps the order of the rows; the order within a group differs from run to run.
        .with_columns(nw.col("__squared").sum().over(*keys))
    )
    ends = {"lowest": [value, *MARKET], "highest": ["__down", *MARKET]}
    statistics = rows.group_by(*keys).agg(
        nw.len().cast(nw.Float64()).alias("__count"),
        nw.col("__share").sum(),
        nw.col(IS_REPEATED, "__squared").max(),
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
    known_statistics = [
        nw.when(nw.col(IS_REPEATED) == 0).then(nw.col(name)).alias(name) for name in _STATISTICS[1:]
    ]
    return table.with_text_columns({f"{end}_{name}": name for end in _ENDS for name in MARKET}).closed(
        statistics.select(*keys, "markets", *known_statistics),
        sort=keys,
        main=["lowest_exchange", "highest_exchange", "median", "relative_range"],
    )


def premium(
    frame: IntoFrameT,
    /,
    *,
    reference: Literal["median", "mean"] | Mapping[str, str] = "median",
    value: str = "close",
    by: str | Iterable[str] | None = None,
) -> IntoFrameT:
    r"""Premium: how much higher the price of each market is than a reference.

    .. math:: \pi_i = p_i / p_\mathrm{ref} - 1

    Parameters
    ----------
    frame : frame, n rows, key (exchange, raw_symbol, by, timestamp), any order
        Points of single markets, with all prices in one quote.
    reference : {"median", "mean"} or mapping of str to str
        The median or mean of all markets, the market itself included; or the one market that these columns pick, e.g.
        ``{"exchange": "BINANCE", "raw_symbol": "BTCUSDT"}``.
    value : str
        Column of the price.
    by : str or iterable of str, optional
        Columns whose values markets must share to be compared; by default the identity columns that do not name a
        market, such as ``coin``.

    Returns
    -------
    frame, one row per finite price, sorted by (by, timestamp, exchange, raw_symbol), of the kind of ``frame``
        ``by``, ``timestamp``, ``exchange``, ``raw_symbol``, the price under its own name; ``reference`` : float64, null
        if the mapping picks no market or several at that time, if a market of the median or mean appears twice, or if
        there is no other market to compare with [as ``value``]; ``premium`` : float64, null if the reference is null or
        not positive [1]; ``reference_rule`` : str, the reference as text.

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If the frame has a column ``price`` that is not in ``by``, because it may then have several rows per market. Or
        if ``reference`` is not as listed, or ``value`` does not hold numbers.

    Warns
    -----
    NoMatchWarning
        If no row is of the reference market. Only frames in memory are checked.

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
    result_columns = ["reference", "premium", "reference_rule"]
    arguments.column("value", value, reserved=result_columns)
    table, rows, series_columns = markets(frame, by, [value], results=result_columns)
    rows = with_repeats(rows.filter(~nw.col(value).is_null()), series_columns)
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
        reference_rows, statistic, is_single = (
            rows.filter(is_picked),
            nw.col(value).max(),
            nw.col("__count") == 1,
        )
    else:
        arguments.one_of("reference", reference, ("median", "mean"))
        rule, reference_rows = reference, rows
        is_single = (nw.col(IS_REPEATED) == 0) & (nw.col("__count") > 1)
        statistic = nw.col(value).median() if reference == "median" else nw.col(value).mean()
    keys = [*series_columns, "timestamp"]
    references = (
        reference_rows.group_by(*keys)
        .agg(statistic.alias("reference"), nw.len().alias("__count"), nw.col(IS_REPEATED).max())
        .filter(is_single)
        .select(*keys, "reference")
    )
    rows = joined(rows.select(*keys, *MARKET, value), references, on=keys)
    premium = nw.when(nw.col("reference") > 0).then(nw.col(value) / nw.col("reference") - 1.0)
    return table.closed(
        rows.with_columns(premium=premium, reference_rule=nw.lit(rule)),
        sort=[*keys, *MARKET],
        main=[value, "reference", "premium"],
    )


def _warn_unless_picked(table: OpenTable[Any], picked: nw.Expr, reference: Mapping[str, str]) -> None:
    """Warn if a frame has rows, but none of the reference market."""
    if len(table.rows.head(1).collect()) == 0 or len(table.rows.filter(picked).head(1).collect()) > 0:
        return
    message = f"premium: no row is of the reference {shown(dict(reference))}, so every premium is null"
    for name, text in reference.items():
        present_names = (
            table.rows.select(nw.col(name).cast(nw.String())).unique().collect()[name].drop_nulls().to_list()
        )
        close = None if text in present_names else nearest(text, present_names)
        message += f"; did you mean {close!r}?" if close else ""
    warn(NoMatchWarning(message, keys=reference))


_ENDS = ("lowest", "highest")
_STATISTICS = (
    "markets",
    *_ENDS,
    "mean",
    "median",
    "range",
    "relative_range",
    "deviation",
    *(f"{end}_{name}" for end in _ENDS for name in MARKET),
)
