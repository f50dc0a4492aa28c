"""Realised volatility of candles, and the premium of implied volatility over it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from math import log
from typing import Any, Final, Literal

import narwhals.stable.v2 as nw
from narwhals.stable.v2.typing import IntoFrame, IntoFrameT

from tidytape.analytics._arguments import (
    VolatilityUnit,
    integer,
    nanoseconds,
    one_of,
    positive,
    volatility_kind,
)
from tidytape.analytics._series import require_one_engine, warn_unless_met
from tidytape.analytics._smile import above_zero
from tidytape.analytics.options._nights import SUMS, Nights
from tidytape.analytics.pit._known import EVER, KNOWN, KNOWN_AT, WHEN, known, last_known
from tidytape.errors import GapWarning, QueryError, counted, warn
from tidytape.frames._door import MARKET, OHLC
from tidytape.frames._joined import LATEST, joined
from tidytape.frames._sorted import in_order, is_new
from tidytape.frames._table import OpenTable
from tidytape.sessions import Session, unless_utc_day
from tidytape.times import DAY, frame_interval

_REALIZED = ("realized_volatility", "estimator", "window", "overnight")
_MEASURES = {name: f"realized_{name}" for name in (*MARKET, *_REALIZED[1:])}
_RESULTS = ("volatility_risk_premium", "variance_risk_premium")

_BEFORE = nw.col("__before")
"""The close of the candle before."""

_UP, _DOWN, _MOVE = ((nw.col(price) / nw.col("open")).log() for price in ("high", "low", "close"))
_RANGE = (_UP - _DOWN) * (_UP - _DOWN)
_ROGERS_SATCHELL = _UP * (_UP - _MOVE) + _DOWN * (_DOWN - _MOVE)

_TERMS: Final[Mapping[str, Mapping[str, nw.Expr]]] = {
    "close_to_close": {"__close_to_close": (nw.col("close") / _BEFORE).log()},
    # A candle with an unknown close gives no range.
    "parkinson": {"__parkinson": nw.when(~nw.col("close").is_null()).then(_RANGE) / (4 * log(2))},
    "garman_klass": {"__garman_klass": _RANGE * 0.5 - _MOVE * _MOVE * (2 * log(2) - 1)},
    "rogers_satchell": {"__rogers_satchell": _ROGERS_SATCHELL},
    "yang_zhang": {
        "__overnight": (nw.col("open") / _BEFORE).log(),
        "__open_to_close": _MOVE,
        "__rogers_satchell": _ROGERS_SATCHELL,
    },
}
"""Terms of each estimator, one value per candle."""

_RETURNS = frozenset({"__close_to_close", "__overnight", "__open_to_close"})
"""Estimators take the sample variance of these terms over the window, and the mean of all other terms."""

_ROUNDING = 1e-15
"""How far below zero rounding may put a variance of zero."""

Estimator = Literal["close_to_close", "parkinson", "garman_klass", "rogers_satchell", "yang_zhang"]


def realized_volatility(
    frame: IntoFrameT,
    /,
    *,
    window: int,
    estimator: Estimator = "close_to_close",
    interval: str | None = None,
    days_per_year: float | None = None,
    by: str | Iterable[str] | None = None,
    session: Session | None = None,
    overnight: Literal["keep", "drop"] = "keep",
) -> IntoFrameT:
    r"""Realised volatility over the last candles, per year.

    With :math:`o = \ln(O_i / C_{i-1})`, :math:`c = \ln(C_i / O_i)`, :math:`u = \ln(H_i / O_i)`,
    :math:`d = \ln(L_i / O_i)` over the last :math:`n` candles, and :math:`V` the sample variance (divided by
    :math:`n - 1`), the variance of one candle is

    .. math::

        \sigma^2_\mathrm{close} &= V(o + c) \\
        \sigma^2_\mathrm{parkinson} &= \frac{1}{4 n \ln 2} \sum (u - d)^2 \\
        \sigma^2_\mathrm{garman\ klass} &= \frac1n \sum \left[\tfrac12 (u - d)^2 - (2 \ln 2 - 1) c^2\right] \\
        \sigma^2_\mathrm{rogers\ satchell} &= \frac1n \sum [u (u - c) + d (d - c)] \\
        \sigma^2_\mathrm{yang\ zhang} &= V(o) + k V(c) + (1 - k) \sigma^2_\mathrm{rogers\ satchell}, \qquad
            k = \frac{0.34}{1.34 + (n + 1) / (n - 1)}

    and the volatility :math:`100 \sqrt{\sigma^2 D / \Delta}` with :math:`D` days a year and candles of
    :math:`\Delta` days. With a session it is :math:`100 \sqrt{s^2 D}`, see Notes.

    Parameters
    ----------
    frame : frame, n rows, key (series, timestamp), any order
        Candles. Uses ``timestamp``, ``close`` and, except for ``close_to_close``, ``open``, ``high``, ``low`` [price];
        with a session ``close_to_close`` uses ``open`` if it is there.
    window : int, >= 2
        How many candles, up to and including the row's own. ``close_to_close`` and ``yang_zhang`` also need the close
        before them; with a session every estimator does.
    estimator : {"close_to_close", "parkinson", "garman_klass", "rogers_satchell", "yang_zhang"}
        The formula. The middle three ignore moves between a close and the next open, except over the nights of a
        session; ``parkinson`` and ``garman_klass`` assume a drift of zero.
    interval : str, optional
        Length of a candle, e.g. ``"1h"``; by default the column ``interval``.
    days_per_year : float, > 0, optional
        D; by default 365. With a session it is a number of sessions, by default of those whose dates lie in the
        calendar year of the row. [d]
    by : str or iterable of str, optional
        Columns that tell one series from another; by default the identity columns of the frame.
    session : Session, optional
        When the market trades. Then a candle follows another if the market does not trade between them: the next
        session follows a night, a weekend or a day off. A candle in which it does not trade has null, and does not
        count. By default the market trades all day.
    overnight : {"keep", "drop"}
        With a session, whether the returns from its close to the next open count. ``"drop"`` gives the volatility
        within sessions, intraday.

    Returns
    -------
    frame, n rows, key (series, timestamp), sorted by it, of the kind of ``frame``
        ``by``, ``timestamp``, and

        - ``realized_volatility`` : float64, null until there are enough candles, and if one of them is missing, appears
          twice, or has a price that is null or not above zero; and if the variance is below zero, such as
          ``garman_klass`` of a close far above its high. It is known when the row's candle ends. [%]
        - ``estimator`` : str, ``window`` : int64, the arguments.
        - ``overnight`` : str, the argument, if there is a session other than the UTC day.

    Raises
    ------
    MissingColumnError
        If a column is absent, including ``interval`` if the argument is not given.
    QueryError
        If an argument is not as listed, or ``overnight="drop"`` has no session.

    Warns
    -----
    GapWarning
        If every row is null because of gaps, such as the weekends of daily candles without a session. Only frames in
        memory are checked.

    See Also
    --------
    volatility_risk_premium : Implied volatility minus this.

    Notes
    -----
    Returns need candles without a gap between them, so the volatility of a window with a gap is null. If gaps mean that
    nothing traded, fill them first with `tidytape.aggregate.gapfill`.

    With a session, :math:`s^2` is the variance of a session. In candles shorter than a day the gap
    :math:`g = \ln(O_i / C_{i-1})` over a night is a return of its own, and the candle after it begins at its open:

    .. math:: s^2 = (m + \gamma) \, \frac{n \sigma^2 + \sum g^2}{w + n_g}

    where a session trades for :math:`m` candles and follows :math:`\gamma` nights (13 half hours and 1 night: 14
    returns), and the window has :math:`w` candles, of which one that trades for a part of its time counts as this part,
    and :math:`n_g` nights. If nights are dropped, :math:`g`, :math:`\gamma` and :math:`n_g` are 0. A frame without
    ``open`` has the night in the first return of a session, so there :math:`s^2 = m n \sigma^2 / w`; if nights are
    dropped, this return and its candle do not count. In ``yang_zhang`` the squares of all :math:`o` within sessions are
    summed with those of :math:`g`, in place of :math:`V(o)`. A break at noon is no night: its return counts as any
    other.

    A candle of a day or longer has the sessions whose dates lie in it, :math:`w` in a window. It belongs to the date of
    its session as in `tidytape.analytics.quality.completeness`, so it may start at the open or at midnight. Its night
    is in :math:`o`, and :math:`s^2 = n \sigma^2 / w`; the middle three estimators add :math:`\sum g^2 / w`. If nights
    are dropped, :math:`V(c)` replaces :math:`V(o + c)`, which needs ``open``, and ``yang_zhang`` has no :math:`V(o)`.

    References
    ----------
    .. [1] Parkinson, M., "The extreme value method for estimating the variance of the rate of return", J. Business
       53 (1980), eq. 5.
    .. [2] Garman, M. B. and Klass, M. J., "On the estimation of security price volatilities from historical data",
       J. Business 53 (1980), the practical form of eq. 20.
    .. [3] Rogers, L. C. G. and Satchell, S. E., "Estimating variance from high, low and closing prices", Ann. Appl.
       Probab. 1 (1991).
    .. [4] Yang, D. and Zhang, Q., "Drift-independent volatility estimation based on high, low, open, and close
       prices", J. Business 73 (2000), eq. 7 and 8.

    Examples
    --------
    >>> from datetime import UTC, datetime, timedelta
    >>> import polars as pl
    >>> days = [datetime(2026, 3, 1, tzinfo=UTC) + timedelta(days=day) for day in range(4)]
    >>> frame = pl.DataFrame({"timestamp": days, "close": [100.0, 102.0, 101.0, 103.0]})
    >>> realized_volatility(frame, window=3, interval="1d")["realized_volatility"].round(2).to_list()
    [None, None, None, 32.6]

    Of a stock on business days, Friday before Monday:

    >>> from tidytape import Session
    >>> stocks = Session("09:30", "16:00", zone="America/New_York")
    >>> days = [datetime(2026, 3, day, tzinfo=UTC) for day in (5, 6, 9, 10)]
    >>> frame = frame.with_columns(timestamp=pl.Series(days))
    >>> found = realized_volatility(frame, window=3, interval="1d", session=stocks, days_per_year=252)
    >>> found["realized_volatility"].round(2).to_list()
    [None, None, None, 27.09]
    """
    one_of("estimator", estimator, _TERMS)
    one_of("overnight", overnight, ("keep", "drop"))
    window = integer("window", window, least=2)
    days = positive("days_per_year", 365.0 if days_per_year is None else days_per_year)
    if session is None and overnight == "drop":
        raise QueryError("overnight", got="drop", expected="'keep', or a session too")
    prices: Iterable[str] = OHLC if estimator != "close_to_close" else ("close",)
    table = OpenTable.of(
        frame, [] if interval is not None else ["interval"], times=["timestamp"], numbers=prices
    )
    nights = None
    # The day of the service has no night.
    closing_session = unless_utc_day(session)
    if closing_session is not None:
        table = OpenTable.of(table, optional=["open"])
        nights = Nights(closing_session, keeps=overnight == "keep", has_open="open" in table.names)
        prices = [name for name in OHLC if name in prices or (name == "open" and nights.has_open)]
    series_columns = table.series_columns(by, without=("timestamp", *OHLC, *_REALIZED))
    # Some engines need a partition column for a window function, and engines sort null times differently.
    rows = table.rows.with_columns(
        __one=nw.lit(1),
        __time=nw.col("timestamp").fill_null(LATEST),
        __length=table.lengths if interval is None else nw.lit(frame_interval(interval).nanoseconds),
        **{name: above_zero(nw.col(name)) for name in prices},
    )
    rows = rows if nights is None else nights.placed(rows)
    keys = series_columns if nights is None else [*series_columns, "__is_closed"]
    candles: Any = rows
    if table.is_eager:
        in_memory = in_order(rows.collect("polars").to_native(), [*keys, "__time"])
        # The first candle of a series follows no other, so it has no length that a time between two candles equals.
        lengths = in_memory["__length"].set(is_new(in_memory, keys), None)
        candles = nw.from_native(in_memory.with_columns(lengths))
    with_variance = _with_variance(candles, ["__one", *keys], estimator, window, nights)
    per_year = (
        nw.col("__variance") * (days * DAY / nw.col("__length"))
        if nights is None
        else nights.per_session(nw.col("__variance"))
        * (nw.col("__of_year") if days_per_year is None else days)
    )
    result = with_variance.select(
        *series_columns,
        "timestamp",
        realized_volatility=per_year.sqrt() * 100.0,
        estimator=nw.lit(estimator),
        window=nw.lit(window, nw.Int64),
        **({} if nights is None else {"overnight": nw.lit(overnight)}),
    )
    if table.is_eager and result["realized_volatility"].is_null().all():
        _warn_of_gaps(with_variance, series_columns, estimator, window, nights)
    return table.closed(result, sort=[*series_columns, "timestamp"])


def _with_variance(candles: Any, keys: list[str], estimator: str, window: int, nights: Nights | None) -> Any:
    """Add ``__variance``, the variance per candle over the window; null if a candle in it is missing or null.

    Candles in memory are sorted by series and time, and the first of each series has no ``__length``. With ``nights``
    the `SUMS` are added too.
    """

    def in_series(value: nw.Expr) -> nw.Expr:
        is_lazy = isinstance(candles, nw.LazyFrame)
        return value.over(*keys, order_by="__time") if is_lazy else value

    time, length, terms = nw.col("__time"), nw.col("__length"), _TERMS[estimator]
    since, is_next = time - in_series(time.shift(1)), nw.col("__since") == length
    # Ranges know of no gap. The oldest candle of the window need not follow another.
    sums, least = {"__follows": window - 1} if _RETURNS.isdisjoint(terms) else {}, None
    if nights is not None:
        sums, least = (
            dict.fromkeys(("__follows", *SUMS), window),
            None if nights.has_open or nights.keeps else 2,
        )
        since = nw.col("__from") - in_series(nw.col("__until").shift(1))
        is_next = (nw.col("__since") == 0) & ~(_BEFORE.is_null() | nw.col("close").is_null())
        terms = nights.terms(terms, is_range=_RETURNS.isdisjoint(terms))
    if_next = nw.when(is_next, length > 0)
    candles_with_terms = (
        candles.with_columns(__before=in_series(nw.col("close").shift(1)), __since=since)
        # A return over a gap is null, and so is the variance of a window with it.
        .with_columns(__before=if_next.then(_BEFORE), __follows=if_next.then(nw.lit(1.0)))
        .with_columns(**terms)
        .with_columns(
            in_series(
                nw.col(name).rolling_var(window, min_samples=least)
                if name in _RETURNS
                else nw.col(name).rolling_mean(window)
            )
            for name in terms
            if name not in sums
        )
        .with_columns(
            __whole=in_series(nw.col("__follows").rolling_sum(sums["__follows"])) if sums else "__follows",
            **{name: in_series(nw.col(name).rolling_sum(window)) for name in SUMS if name in sums},
        )
    )
    variance = nw.col(next(iter(terms)))
    if estimator == "yang_zhang":
        k = 0.34 / (1.34 + (window + 1) / (window - 1))
        variance = variance + nw.col("__open_to_close") * k + nw.col("__rogers_satchell") * (1 - k)
    # Rounding may put a variance of zero slightly below zero. Impossible prices put it far below; it has no root then.
    is_variance = variance > -_ROUNDING
    variance = nw.when(variance > 0).then(variance).otherwise((variance * 0.0).abs())
    return candles_with_terms.with_columns(
        __variance=nw.when(~nw.col("__whole").is_null(), is_variance).then(variance)
    )


def _warn_of_gaps(
    candles: Any, series_columns: list[str], estimator: str, window: int, nights: Nights | None
) -> None:
    """Warn if a series has enough candles for the window, but no run of candles without a gap is as long as that."""
    needed = window if nights is None and _RETURNS.isdisjoint(_TERMS[estimator]) else window + 1
    runs = candles.with_columns(__run=nw.col("__follows").is_null().cast(nw.Int64).cum_sum())
    longest, most = (
        grouped.agg(rows=nw.len())["rows"].max() or 0
        for grouped in (runs.group_by("__run"), candles.group_by("__one", *series_columns))
    )
    if longest < needed <= most:
        hint = (
            "pass session= if the market closes at times" if nights is None else "quality.gaps lists the gaps"
        )
        reason = f"the longest run without a gap is of {counted(longest, 'candle')}, and window={window} needs {needed}"
        warn(GapWarning(f"realized_volatility: every row is null, because {reason}; {hint}"))


def volatility_risk_premium(
    implied: IntoFrameT,
    realized: IntoFrame,
    /,
    *,
    on: str = "coin",
    implied_interval: str | None = None,
    realized_interval: str | None = None,
    tolerance: str | timedelta | None = None,
    volatility_unit: VolatilityUnit | None = None,
) -> IntoFrameT:
    r"""Volatility risk premium: implied volatility minus the realised volatility known at that time.

    .. math:: \mathrm{vrp} = \sigma_\mathrm{implied} - \sigma_\mathrm{realised}, \qquad
        \mathrm{variance} = \left(\frac{\sigma_\mathrm{implied}}{100}\right)^2
        - \left(\frac{\sigma_\mathrm{realised}}{100}\right)^2

    Parameters
    ----------
    implied : frame, n rows, key (series, tenor, timestamp), any order
        Summaries, schema IMPLIED_VOLATILITY_OPTION_SUMMARY_AGG. Uses ``timestamp``, ``on``, ``implied_volatility`` [%]
        and the interval.
    realized : frame of the same engine, key (market, timestamp), any order
        What `realized_volatility` returns. Uses ``timestamp``, ``on``, ``realized_volatility`` [%] and the interval;
        ``exchange`` and ``raw_symbol`` tell its markets apart, ``estimator``, ``window`` and ``overnight`` how they
        were measured.
    on : str
        Column of both frames that names the underlying.
    implied_interval, realized_interval : str, optional
        Length of the rows of each frame; by default its column ``interval``. A frame with ``known_at`` needs none. For
        volatilities of a chain, which are known at their timestamp, use ``known_at(implied, rule="event")``.
    tolerance : str or timedelta, >= 0, optional
        The longest time between the realised volatility becoming known and the implied one.
    volatility_unit : {"percent", "decimal"}, optional
        The unit of ``implied_volatility``; results are in percent. If you leave it out, it is percent, and a frame in
        memory is refused if all its volatilities lie below 5, because they look like decimals.

    Returns
    -------
    frame, one row per row of ``implied`` and market, estimator and window of ``realized`` with the same ``on``
        Sorted by ``on``, the series of ``implied``, the market and ``timestamp``. The columns of ``implied``, and

        - ``known_at`` : time at which the row is known, the end of its interval.
        - ``realized_exchange``, ``realized_raw_symbol``, ``realized_estimator``, ``realized_window``,
          ``realized_overnight`` : the market and its measure, where ``realized`` names them.
        - ``realized_volatility`` : float64, the last one known at that time, null if none is. [%]
        - ``volatility_risk_premium`` : float64, above zero if implied volatility is higher. [vol points]
        - ``variance_risk_premium`` : float64, the same for variances, which add up over time. [1 per year]

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If an argument is not as listed, the frames have two engines, or ``implied`` has a column of a result, or
        ``known_at_realized``.

    Warns
    -----
    NoMatchWarning
        If no value of ``on`` is in both frames. Only frames in memory are checked.

    See Also
    --------
    realized_volatility : The realised volatility.

    Notes
    -----
    The realised volatility looks back over its window, the implied one ahead over its tenor. A row uses nothing that
    became known after its implied volatility. The volatility realised *over* the tenor is known only at its end.

    References
    ----------
    .. [1] Carr, P. and Wu, L., "Variance risk premiums", Review of Financial Studies 22 (2009), with the sign
       turned: there it is what a buyer of variance is paid.

    Examples
    --------
    >>> from datetime import UTC, datetime
    >>> import polars as pl
    >>> day = datetime(2026, 3, 5, tzinfo=UTC)
    >>> implied = pl.DataFrame({"coin": "BTC", "timestamp": [day], "implied_volatility": 52.0})
    >>> realized = pl.DataFrame({"coin": "BTC", "timestamp": [day], "realized_volatility": 41.5})
    >>> premium = volatility_risk_premium(implied, realized, implied_interval="1d", realized_interval="1h")
    >>> premium["volatility_risk_premium"].to_list()
    [10.5]
    """
    limit = EVER if tolerance is None else nanoseconds("tolerance", tolerance)
    implied_table = OpenTable.of(
        implied,
        [on, "implied_volatility"],
        times=["timestamp"],
        kinds={"implied_volatility": volatility_kind(volatility_unit)},
        parameter="implied",
    )
    realized_table = OpenTable.of(
        realized, [on], times=["timestamp"], numbers=["realized_volatility"], parameter="realized"
    )
    require_one_engine(implied_table, realized_table, "realized")
    measures = {name: alias for name, alias in _MEASURES.items() if name in realized_table.names}
    results = ["realized_volatility", *measures.values(), *_RESULTS]
    if colliding := [name for name in (*results, "known_at_realized") if name in implied_table.names]:
        raise QueryError("implied", got=f"a column {colliding[0]!r}", expected="a frame without it")
    series_columns = list(dict.fromkeys([on, *implied_table.series_columns()]))
    implied_table, decisions, _ = known(implied_table, interval=implied_interval)
    realized_table, facts, _ = known(realized_table, interval=realized_interval)
    names = ("implied", "realized")
    warn_unless_met(
        "volatility_risk_premium", implied_table, realized_table, [on], called=names, parameter="on"
    )
    keys = [on, *measures.values()]
    facts = facts.select(
        on, WHEN, "realized_volatility", **{alias: nw.col(name) for name, alias in measures.items()}
    )
    # Pair each implied row with each realised market of its ``on``, so that no market replaces another.
    decisions = joined(decisions, facts.select(*keys).unique(), on=[on])
    rows = last_known(
        decisions, facts, {"realized_volatility": "realized_volatility"}, at=WHEN, by=keys, limit=limit
    )
    iv, rv = nw.col("implied_volatility"), nw.col("realized_volatility")
    result = rows.select(
        *(name for name in implied_table.names if name not in KNOWN),
        nw.col(WHEN).alias(KNOWN_AT),
        *measures.values(),
        "realized_volatility",
        volatility_risk_premium=iv - rv,
        variance_risk_premium=(iv / 100.0) * (iv / 100.0) - (rv / 100.0) * (rv / 100.0),
    )
    return implied_table.with_text_columns(
        {alias: name for name, alias in measures.items()}, of=realized_table
    ).closed(
        result,
        sort=[*series_columns, *measures.values(), "timestamp"],
        times={KNOWN_AT: "timestamp"},
        main=["implied_volatility", "realized_volatility", *_RESULTS[::-1]],
    )
