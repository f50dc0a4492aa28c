r"""Option quotes to ATM implied volatility and skew at constant maturity, and to open interest, per interval.

`implied_volatility` and `skew` share these steps. The *chain* of a bucket consists of the last quote of each option in
the bucket, without options that have expired at the last of these quotes. The smile of each expiry gives the volatility
of some points. The total variance of each point is interpolated between the two listed expiries around a tenor:

.. math::

    w_i = \sigma_i^2 T_i, \qquad
    \sigma(\tau)^2 \tau = w_1 + (w_2 - w_1) \frac{\tau - T_1}{T_2 - T_1}, \qquad T_1 \le \tau < T_2

Time is counted ACT/365, to the expiries in the quotes. Nothing is extrapolated: if there is no strike or expiry on one
side, or one of the two expiries around a tenor lacks the point, the value is unknown, and there is no row.

References
----------
    .. [1] Reiswich, Wystup, "FX volatility smile construction", CPQF working paper 20, 2010, section 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Literal

import narwhals.stable.v2 as nw

from tidytape.aggregate._reports import CARRY, known_sum, latest, number
from tidytape.analytics._arguments import VolatilityUnit, one_of, volatility_kind
from tidytape.analytics._smile import CALL, PUT, Ladder, delta_ladder, measured, money_ladder, points
from tidytape.catalogue import Tenor
from tidytape.frames._door import BUCKET
from tidytape.frames._kinds import Kind
from tidytape.frames._rows import interpolated, last, next_of, with_next
from tidytape.frames._table import Rows, tabular
from tidytape.frames._times import bucket_start
from tidytape.times import DAY, YEAR, frame_interval

CHAIN: Final = ("exchange", "coin", BUCKET)
"""Columns that identify one chain."""

EXPIRY: Final = (*CHAIN, "expiry")
"""Columns that identify one expiry of a chain, and so one smile."""

_MEASURED = ("strike", "implied_volatility", "forward")
_NEEDED = ("exchange", "raw_symbol", "timestamp", "coin", "option_type", "expiry", *_MEASURED)
_DELTAS: Final = {"25": 0.25, "10": 0.10}
_COIN: Final = ("exchange", "coin")
_LISTED: Final = ("raw_symbol", "expiry")


def _kinds(*, volatility_unit: VolatilityUnit | None = None, **_: object) -> dict[str, Kind]:
    """Return what the volatilities are, for the arguments of a call."""
    return {"implied_volatility": volatility_kind(volatility_unit)}


@tabular(_NEEDED, kinds=_kinds)
def implied_volatility(
    quotes: Rows,
    /,
    *,
    interval: str,
    atm: Literal["forward", "delta_neutral"] = "forward",
    volatility_unit: VolatilityUnit | None = None,
) -> Rows:
    r"""At-the-money implied volatility of each coin at constant maturity.

    The smile consists of the out-of-the-money options: puts at strikes K below their forward F, calls from K = F on.

    Parameters
    ----------
    quotes : frame, n rows, in any order
        The lake's table ``option_quotes``. Uses ``exchange``, ``raw_symbol``, ``timestamp`` and ``expiry`` int64 [ns
        since the epoch] or with a zone, ``coin``, ``option_type`` (CALL or PUT), ``strike`` and ``forward`` [quote per
        coin], ``implied_volatility`` [%]. A quote that lacks one of the last three is ignored.
    interval : str
        Name or alias of an interval, e.g. ``"HOUR"`` or ``"1h"``. Buckets are aligned to the Unix epoch in UTC, weeks
        to Monday.
    atm : {"forward", "delta_neutral"}
        What "at the money" means. ``"forward"``: K = F; the volatility is linear in ln(K/F) between the two nearest
        listed strikes. ``"delta_neutral"``: the strike of the straddle without forward delta, :math:`F e^{\sigma^2
        T/2}`, which is N(d₁) = 1/2; the volatility is linear in N(d₁).
    volatility_unit : {"percent", "decimal"}, optional
        The unit of ``implied_volatility``; results are in percent. If you leave it out, it is percent, and a frame in
        memory is refused if all its volatilities lie below 5, because they look like decimals.

    Returns
    -------
    frame, one row per exchange, coin, tenor and bucket in which it is known; of the same kind as ``quotes``
        ``exchange``, ``raw_symbol`` (``<COIN>_ATM``), ``coin``, ``tenor``, ``timestamp`` as in ``quotes``, start of the
        bucket, ``implied_volatility`` [%]. Sorted by (exchange, raw_symbol, length of tenor, timestamp) where the
        engine keeps order.

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If the interval or ``atm`` is unknown, or the volatilities look like decimals.

    References
    ----------
    .. [1] Reiswich, Wystup, "FX volatility smile construction", CPQF working paper 20, 2010, section 1.

    Examples
    --------
    28 d at 60% and 56 d at 58%:

    >>> import polars as pl
    >>> start = 1_723_075_200_000_000_000  # 2024-08-08 in nanoseconds
    >>> day = 86_400_000_000_000
    >>> quotes = pl.DataFrame(
    ...     {
    ...         "exchange": "DERIBIT", "raw_symbol": ["A", "B"], "timestamp": start, "coin": "BTC",
    ...         "option_type": "CALL",
    ...         "strike": 70_000.0, "expiry": [start + 28 * day, start + 56 * day], "implied_volatility": [60.0, 58.0],
    ...         "forward": 70_000.0,
    ...     }
    ... )
    >>> volatility = implied_volatility(quotes, interval="1h")
    >>> volatility.select("raw_symbol", "tenor", pl.col("implied_volatility").round(4)).rows()
    [('BTC_ATM', 'ONE_M', 59.7372)]
    """
    one_of("atm", atm, ("forward", "delta_neutral"))
    smile = _smile(chain(quotes, interval), money_ladder(atm, "atm"))
    return _summary(
        _constant_maturity(smile, _tenors(quotes, ("ATM",)), ("atm",)), nw.col("atm"), "implied_volatility"
    )


@tabular(_NEEDED, kinds=_kinds)
def skew(
    quotes: Rows,
    /,
    *,
    interval: str,
    delta: Literal["forward", "premium_adjusted"] = "forward",
    volatility_unit: VolatilityUnit | None = None,
) -> Rows:
    r"""Skew of each coin at constant maturity: volatility of puts minus that of calls, at 25 and at 10 delta.

    .. math:: \mathrm{skew}_{25} = \sigma(\Delta_\mathrm{put} = -0.25) - \sigma(\Delta_\mathrm{call} = 0.25)

    Positive when puts are dearer; the negative of the risk reversal. The point of the put is interpolated between puts,
    that of the call between calls. Delta is computed from each quote's own volatility, forward and time to expiry:

    .. math:: d_{1,2} = \frac{\ln(F/K) \pm \sigma^2 T / 2}{\sigma \sqrt{T}}

    and the volatility is linear in delta between the two listed strikes around the point. Only strikes where delta
    falls as the strike rises count, because the premium-adjusted delta of calls first rises. If several places have the
    delta, the one closest to the forward counts.

    Parameters
    ----------
    quotes : frame, n rows, in any order
        As for `implied_volatility`.
    interval : str
        Name or alias of an interval.
    delta : {"forward", "premium_adjusted"}
        Of a call :math:`N(d_1)` and of a put :math:`-N(-d_1)`; or, for a premium paid in coin,
        :math:`\frac{K}{F} N(d_2)` and :math:`-\frac{K}{F} N(-d_2)`.
    volatility_unit : {"percent", "decimal"}, optional
        As for `implied_volatility`.

    Returns
    -------
    frame, one row per exchange, coin, delta, tenor and bucket in which it is known; of the same kind as ``quotes``
        ``exchange``, ``raw_symbol`` (``<COIN>_25`` or ``<COIN>_10``), ``coin``, ``tenor``, ``timestamp`` as in
        ``quotes``, start of the bucket, ``skew`` [vol points]. Each delta's variance is interpolated, then the
        volatilities are subtracted. Sorted by (exchange, raw_symbol, length of tenor, timestamp) where the engine keeps
        order.

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If the interval or ``delta`` is unknown, or the volatilities look like decimals.

    References
    ----------
    .. [1] Reiswich, Wystup, "FX volatility smile construction", CPQF working paper 20, 2010, section 1.

    Examples
    --------
    The strikes reach 25 delta on both sides, not 10:

    >>> import polars as pl
    >>> start = 1_723_075_200_000_000_000  # 2024-08-08 in nanoseconds
    >>> week = 7 * 86_400_000_000_000
    >>> quotes = pl.DataFrame(
    ...     {
    ...         "exchange": "DERIBIT", "raw_symbol": ["A", "B", "C", "D"], "timestamp": start, "coin": "BTC",
    ...         "option_type": ["PUT", "PUT", "CALL", "CALL"], "strike": [90.0, 100.0, 100.0, 110.0],
    ...         "expiry": start + week, "implied_volatility": [60.0, 50.0, 50.0, 55.0], "forward": 100.0,
    ...     }
    ... )
    >>> skew(quotes, interval="1h").select("raw_symbol", "tenor", pl.col("skew").round(2)).rows()
    [('BTC_25', 'ONE_W', 2.75)]
    """
    one_of("delta", delta, ("forward", "premium_adjusted"))
    targets = {
        f"{kind}_{name}": (kind, sign * value)
        for name, value in _DELTAS.items()
        for kind, sign in ((PUT, -1), (CALL, 1))
    }
    smile = _smile(chain(quotes, interval), delta_ladder(delta, targets))
    at_tenor = _constant_maturity(smile, _tenors(quotes, _DELTAS), tuple(targets))
    measure = nw.coalesce(
        *(
            nw.when(nw.col("ending") == name).then(nw.col(f"{PUT}_{name}") - nw.col(f"{CALL}_{name}"))
            for name in _DELTAS
        )
    )
    return _summary(at_tenor, measure, "skew")


def _smile(options: Rows, ladder: Ladder) -> Rows:
    """Return the volatilities of the points of each expiry, and its ``life``, the time to expiry. [ns]"""
    return points(
        options, [ladder], over=EXPIRY, order_by=("strike", "raw_symbol"), keep=[nw.col("life").min()]
    )


def _tenors(frame: Rows, endings: Iterable[str]) -> Rows:
    """Return one row per ending of a symbol and tenor, with the tenor's ``length`` [ns], on the engine of ``frame``."""
    single_row = frame.select(nw.len().alias("rows"))
    return nw.concat(
        [
            single_row.select(
                nw.lit(ending).alias("ending"),
                nw.lit(tenor.value).alias("tenor"),
                nw.lit(float(tenor.days * DAY)).alias("length"),
            )
            for ending in endings
            for tenor in Tenor
        ]
    )


def _constant_maturity(smile: Rows, tenors: Rows, names: Sequence[str]) -> Rows:
    """Interpolate the volatilities of the points to each tenor that lies between two expiries.

    Parameters
    ----------
    smile : frame, one row per chain and expiry
        As `_smile` returns it.
    tenors : frame, one row per ending and tenor
        As `_tenors` returns it.
    names : sequence of str
        The points.
    """
    # Count time in nanoseconds, where whole days are exact floats; a division by the length of a day may round.
    variance = smile.with_columns(nw.col(name) ** 2 * nw.col("life") for name in names)
    expiries = with_next(variance, ("life", *names), over=CHAIN, order_by=("expiry",))
    life, length = nw.col("life"), nw.col("length")
    # Pair each expiry with all tenors, and keep the tenors between it and the next expiry: a join and a filter run on
    # every engine.
    return (
        expiries.join(tenors, how="cross")
        .filter((life == length) | ((life < length) & (length < nw.col(next_of("life")))))
        .with_columns((interpolated(length, "life", name) / length).sqrt().alias(name) for name in names)
    )


def _summary(at_tenor: Rows, measure: nw.Expr, value: str) -> Rows:
    """Return the summaries: the measure under the name ``value``, and symbols such as BTC_25."""
    symbol = nw.concat_str(nw.col("coin"), nw.col("ending"), separator="_").alias("raw_symbol")
    return (
        at_tenor.with_columns(symbol, measure.alias(value))
        .filter(~nw.col(value).is_null())
        .sort("exchange", "raw_symbol", "length", BUCKET)
        .select("exchange", "raw_symbol", "coin", "tenor", nw.col(BUCKET).alias("timestamp"), value)
    )


def chain(quotes: Rows, interval: str) -> Rows:
    """Return the chain of each bucket: the last quote of each option that has not expired at the chain's last quote.

    A quote is ignored unless its strike, volatility and forward are positive.

    Parameters
    ----------
    quotes : frame, n rows
        The lake's ``option_quotes``.
    interval : str
        Name or alias of an interval.

    Returns
    -------
    frame, one row per option and bucket
        The needed columns; the bucket; ``life``, float64, from the chain's last quote to the expiry [ns]; and what
        `measured` adds, with the time from the quote itself to the expiry.
    """
    bucket = bucket_start(nw.col("timestamp"), frame_interval(interval))
    time, expiry = nw.col("timestamp"), nw.col("expiry")
    is_positive = [nw.col(name).is_finite() & (nw.col(name) > 0) for name in _MEASURED]
    chains = (
        quotes.select(*_NEEDED, bucket.alias(BUCKET))
        .filter(*is_positive)
        .with_columns(time.max().over("exchange", "raw_symbol", BUCKET).alias("last"))
        .filter(time == nw.col("last"))
        .with_columns(time.max().over(*CHAIN).alias("last"))
        .filter(expiry > nw.col("last"))
        .with_columns((expiry - nw.col("last")).cast(nw.Float64()).alias("life"))
    )
    return measured(chains, (expiry - time).cast(nw.Float64()) / float(YEAR))


@tabular(
    [*_COIN, *_LISTED, "timestamp", "forward", "open_interest"],
    sort=[*_COIN, "timestamp"],
)
def option_open_interest(quotes: Rows, /, *, interval: str) -> Rows:
    """Open interest of all options of a coin on an exchange at the end of each interval, and the last underlying price.

    Open interest is a stock: at the time of the last quote of any option of the coin in the interval, each option
    counts with its last report, in this interval or before. A report counts until the option expires, but at most for
    24 hours, ends included. So ``quotes`` must contain the 24 hours before the first interval. The point of a long
    interval equals that of the last shorter interval in it. If an option was quoted in these 24 hours without a report
    of open interest, the sum is unknown: null.

    The underlying's price is the last forward price in the interval; if several expiries are quoted at that time, that
    of the nearest. It is not carried into other intervals. Sums are exact to 1e-12. A quote at or after the expiry of
    its option is left out, and so is a quote with neither value.

    Parameters
    ----------
    quotes : frame, n rows, in any order
        Columns ``exchange``, ``coin``, ``raw_symbol``, ``timestamp`` and ``expiry`` int64 [ns since the epoch] or with
        a zone, ``forward`` [quote per coin], ``open_interest`` [coin]. A value that is null, NaN or infinite is no
        report, and neither is an open interest of 9e15 or more. If an option has two reports at one time, the larger
        counts.
    interval : str
        Name or alias of an interval, e.g. ``"HOUR"`` or ``"1h"``. Buckets are aligned to the Unix epoch in UTC, weeks
        to Monday.

    Returns
    -------
    frame, one row per exchange, coin and bucket with a quote of it; of the same kind as ``quotes``
        ``exchange``, ``coin``, ``timestamp`` as in ``quotes``, start of the bucket, ``underlying_price_close`` [quote
        per coin], ``oi_close`` [coin], null unless it is known for every option. It has no ``raw_symbol``. Sorted by
        (exchange, coin, timestamp) where the engine keeps order.

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If the interval is unknown.

    References
    ----------
    tidytape's own convention; see definitions.

    Examples
    --------
    >>> import polars as pl
    >>> start = 1_723_075_200_000_000_000  # 2024-08-08 in nanoseconds
    >>> hour = 3_600_000_000_000
    >>> quotes = pl.DataFrame(
    ...     {
    ...         "exchange": "DERIBIT",
    ...         "coin": "BTC",
    ...         "raw_symbol": ["BTC-1JAN70-C", "BTC-2JAN70-C", "BTC-2JAN70-C"],
    ...         "timestamp": [start, start, start + hour],
    ...         "expiry": [start + 8 * hour, start + 32 * hour, start + 32 * hour],
    ...         "forward": [60_000.0, 60_100.0, 60_200.0],
    ...         "open_interest": [5.0, 1.0, 2.0],
    ...     }
    ... )
    >>> points = option_open_interest(quotes, interval="1h")
    >>> points.select("underlying_price_close", "oi_close").rows()
    [(60000.0, 6.0), (60200.0, 7.0)]
    """
    bucket = frame_interval(interval)
    start = bucket_start(nw.col("timestamp"), bucket)
    frame = (
        quotes.filter(nw.col("timestamp") < nw.col("expiry"))
        .with_columns(start.alias(BUCKET), number("forward"), number("open_interest"))
        .filter(~(nw.col("forward").is_null() & nw.col("open_interest").is_null()))
    )
    moments = frame.group_by(*_COIN, BUCKET).agg(nw.col("timestamp").max()).select(*_COIN, "timestamp")
    last_reports = latest(frame, bucket, [*_COIN, *_LISTED], "open_interest")
    last_quotes = frame.group_by(*_COIN, *_LISTED, BUCKET).agg(nw.col("timestamp").max())
    stock = known_sum(
        last_reports,
        moments,
        all_reports=last_quotes.select(*_COIN, *_LISTED, "timestamp"),
        groups=_COIN,
        members=_LISTED,
        value="open_interest",
        until=nw.min_horizontal(nw.col("timestamp") + CARRY + 1, nw.col("expiry")),
    ).with_columns(start.alias(BUCKET))
    underlying = (
        frame.filter(~nw.col("forward").is_null())
        .with_columns((-nw.col("expiry")).alias("nearness"))
        .group_by(*_COIN, BUCKET)
        .agg(last(frame, "forward", ("timestamp", "nearness", "forward")).alias("underlying_price_close"))
    )
    return stock.join(underlying, on=[*_COIN, BUCKET], how="left").select(
        *_COIN,
        nw.col(BUCKET).alias("timestamp"),
        "underlying_price_close",
        nw.col("open_interest").alias("oi_close"),
    )
