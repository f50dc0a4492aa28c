"""What implied volatility pays beyond what was realised."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, cast

import narwhals.stable.v2 as nw
from narwhals.stable.v2.typing import IntoFrame, IntoFrameT

from tidytape.analytics._arguments import nanoseconds
from tidytape.analytics._series import MARKET, one_engine, warn_unless_met
from tidytape.analytics.pit import known_at
from tidytape.analytics.pit._join import joined
from tidytape.analytics.pit._known import of_facts
from tidytape.errors import QueryError
from tidytape.frames.table import Table

_WHOSE = {name: f"realized_{name}" for name in (*MARKET, "estimator", "window")}
_RESULTS = ("volatility_risk_premium", "variance_risk_premium")


def volatility_risk_premium(
    implied: IntoFrameT,
    realized: IntoFrame,
    /,
    *,
    on: str = "coin",
    implied_interval: str | None = None,
    realized_interval: str | None = None,
    tolerance: str | timedelta | None = None,
) -> IntoFrameT:
    r"""Volatility risk premium: implied volatility less the one realised by then.

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
        ``exchange`` and ``raw_symbol`` tell its markets apart, ``estimator`` and ``window`` how they were measured.
    on : str
        Column of both that says what is volatile.
    implied_interval, realized_interval : str, optional
        Length of the rows of each; what column ``interval`` says otherwise. A frame that has ``known_at`` needs none:
        volatilities of a chain are known at their instant, ``known_at(implied, rule="event")``.
    tolerance : str or timedelta, >= 0, optional
        How long before the implied volatility the realised one may have become known, at most.

    Returns
    -------
    frame, one row per row of ``implied`` and market, estimator and window of ``realized`` of the same ``on``
        Sorted by ``on``, the series of ``implied``, the market and ``timestamp``. The columns of ``implied``, and

        - ``known_at`` : time at which the row is known, the end of its interval.
        - ``realized_exchange``, ``realized_raw_symbol``, ``realized_estimator``, ``realized_window`` : the market and
          its measure, where ``realized`` names them.
        - ``realized_volatility`` : float64, the last known by then, null if none is. [%]
        - ``volatility_risk_premium`` : float64, above zero where options pay more than was realised. [vol points]
        - ``variance_risk_premium`` : float64, the same of variances, which add over time. [1 per year]

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If an argument is none of what it may be, the frames are of two engines, or ``implied`` has a column of a
        result, or ``known_at_realized``.

    Warns
    -----
    NoMatchWarning
        If no ``on`` of ``implied`` is one of ``realized``. Only frames in memory are looked at.

    See Also
    --------
    realized_volatility : The other side of it.

    Notes
    -----
    Both are as known when the implied volatility is: the realised one looks back over its window, the implied one ahead
    over its tenor. Nothing after that time is used. What was realised *over* the tenor is known at its end only.

    References
    ----------
    .. [1] P. Carr and L. Wu, "Variance risk premiums", Review of Financial Studies 22 (2009), with the sign turned:
       there it is what a buyer of variance is paid.

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
    limit = None if tolerance is None else nanoseconds("tolerance", tolerance)
    left = Table.opened(
        implied, [on], times=["timestamp"], numbers=["implied_volatility"], parameter="implied"
    )
    right = Table.opened(
        realized, [on], times=["timestamp"], numbers=["realized_volatility"], parameter="realized"
    )
    one_engine(left, right, "realized")
    whose = {name: alias for name, alias in _WHOSE.items() if name in right.names}
    taken = [
        name
        for name in (*_RESULTS, "realized_volatility", "known_at_realized", *whose.values())
        if name in left.names
    ]
    if taken:
        raise QueryError("implied", got=f"a column {taken[0]!r}", expected="a frame without it")
    keys = [on, *whose.values()]
    series = list(dict.fromkeys([on, *left.series()]))

    told: Any = known_at(realized, interval=realized_interval)
    facts = Table.opened(told, times=["known_at"])
    rows = facts.rows.select(
        on, "known_at", "realized_volatility", **{alias: nw.col(name) for name, alias in whose.items()}
    )
    asked = Table.opened(known_at(implied, interval=implied_interval), times=["known_at"])
    # Every market of the realised is asked for at every time of the implied: none is taken for another.
    markets = _with_text(rows, on).select(*keys).unique()
    decisions = _with_text(asked.rows.drop("known_at_rule", strict=False), on).join(
        markets, on=on, how="left"
    )
    words = {alias: name for name, alias in whose.items()}
    of_markets = Table.opened(asked.with_words(words, of=facts).closed(decisions), times=["known_at"])
    last, known = of_facts(cast("IntoFrame", facts.with_words(words).closed(rows)))
    premium = joined(of_markets, last, known, on="known_at", by=keys, limit=limit, suffix="_realized")
    warn_unless_met(
        "volatility_risk_premium", left, right, [on], called=("implied", "realized"), parameter="on"
    )
    result = Table.opened(premium, numbers=["implied_volatility", "realized_volatility"])
    ours, theirs = nw.col("implied_volatility"), nw.col("realized_volatility")
    rows = result.rows.drop("known_at_realized").with_columns(
        volatility_risk_premium=ours - theirs,
        variance_risk_premium=(ours / 100.0) * (ours / 100.0) - (theirs / 100.0) * (theirs / 100.0),
    )
    order = [name for name in rows.collect_schema().names() if name not in (*whose.values(), "known_at")]
    place = order.index("realized_volatility")
    order[place:place] = ["known_at", *whose.values()]
    return result.closed(rows.select(*order), sort=[*series, *whose.values(), "timestamp"])


def _with_text(rows: nw.LazyFrame[Any], name: str) -> nw.LazyFrame[Any]:
    """Return the rows with categories of one column as text, which joins text and other categories."""
    is_category = isinstance(rows.collect_schema()[name], nw.Categorical | nw.Enum)
    return rows.with_columns(nw.col(name).cast(nw.String)) if is_category else rows
