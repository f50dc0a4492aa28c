"""The term structure of the service's option summaries: values by tenor, their slope, and its sign."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import narwhals.stable.v2 as nw
from narwhals.stable.v2.typing import IntoFrameT

from tidytape.analytics.options._maturity import last_before, sloped, value_of
from tidytape.catalogue import Tenor
from tidytape.errors import QueryError
from tidytape.frames.table import Table
from tidytape.query.values import TimeLike, choice

_SLOPE = ("short", "long", "slope", "structure", "short_tenor", "long_tenor", "flat_within")


def tenor_structure(
    frame: IntoFrameT,
    /,
    *,
    value: Literal["implied_volatility", "skew"] | None = None,
    at: TimeLike | None = None,
    by: str | Iterable[str] | None = None,
) -> IntoFrameT:
    r"""Term structure: a value by tenor, with the tenors' length in days, at one time or at every time.

    Parameters
    ----------
    frame : frame, n rows, key (series, tenor, timestamp), any order
        Schema IMPLIED_VOLATILITY_OPTION_SUMMARY_AGG or SKEW_OPTION_SUMMARY_AGG. Uses ``tenor``, ``timestamp`` and the
        value.
    value : {"implied_volatility", "skew"}, optional
        Which column; the one that the frame has otherwise. [%], or [vol points], put minus call
    at : time, optional
        Keep one time of each series: the last at or before this one, whichever tenors it has. Every time otherwise.
    by : str or iterable of str, optional
        The columns that tell one series from another, without the tenor; those of the identity columns that there are
        otherwise.

    Returns
    -------
    frame, one row per (by, timestamp, tenor), sorted by (by, timestamp, days), of the kind of ``frame``
        ``by``, ``timestamp``, ``tenor``, and

        - ``days`` : float64, the tenor's length, null where the tenor is unknown. [d]
        - the value, as it is.

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If ``value`` is none of those listed or left out where the frame has both, or ``at`` is no time.

    See Also
    --------
    tenor_slope : The difference between two tenors.
    constant_maturity : The same from a chain of options, for any number of days.

    Notes
    -----
    A summary of an interval is known when the interval ends, and ``at`` is compared with ``timestamp``, its start.
    Where it matters what was known, shift it, or use `tidytape.analytics.pit.known_at`.

    References
    ----------
    .. [1] The lengths are those of the service's tenors, 30 days to a month and 365 to a year.

    Examples
    --------
    >>> from datetime import UTC, datetime
    >>> import polars as pl
    >>> frame = pl.DataFrame({
    ...     "coin": "BTC", "timestamp": datetime(2026, 3, 5, tzinfo=UTC), "tenor": ["ONE_M", "ONE_W"],
    ...     "implied_volatility": [52.3, 54.7],
    ... })
    >>> tenor_structure(frame).select("tenor", "days", "implied_volatility").rows()
    [('ONE_W', 7.0, 54.7), ('ONE_M', 30.0, 52.3)]
    """
    table, column = _opened(frame, value)
    series = table.series(by, without=("tenor", "timestamp", column, "days"))
    tenor = nw.col("tenor").cast(nw.String)
    days = nw.lit(None, nw.Float64)
    for known in Tenor:
        days = nw.when(tenor == known.value).then(nw.lit(float(known.days))).otherwise(days)
    rows = last_before(table.rows, at, series).select(*series, "timestamp", tenor, days.alias("days"), column)
    return table.closed(rows, sort=[*series, "timestamp", "days"])


def tenor_slope(
    frame: IntoFrameT,
    /,
    *,
    short: str,
    long: str,
    value: Literal["implied_volatility", "skew"] | None = None,
    flat: float = 0.0,
    by: str | Iterable[str] | None = None,
) -> IntoFrameT:
    r"""Slope of the term structure between two tenors, and whether it is in contango or backwardation.

    .. math:: s = v_\mathrm{long} - v_\mathrm{short}

    Parameters
    ----------
    frame : frame, n rows, key (series, tenor, timestamp), any order
        As for `tenor_structure`.
    short, long : str
        Two tenors, by name or alias, ``long`` the longer: ``"1w"`` and ``"3m"``.
    value : {"implied_volatility", "skew"}, optional
        Which column; the one that the frame has otherwise. [%], or [vol points], put minus call
    flat : float, >= 0
        The slope up to which, either way, the structure is called flat. [unit of the value]
    by : str or iterable of str, optional
        The columns that tell one series from another, without the tenor.

    Returns
    -------
    frame, one row per (by, timestamp) with either tenor, sorted by that, of the kind of ``frame``
        ``by``, ``timestamp``, and

        - ``short``, ``long`` : float64, the values; null where the tenor is missing at that time, or there twice.
          [unit of the value]
        - ``slope`` : float64, long minus short, null where either is. [unit of the value]
        - ``structure`` : str, ``contango`` where the slope is above ``flat``, ``backwardation`` where it is below minus
          that, ``flat`` between, null where it is null.
        - ``short_tenor``, ``long_tenor``, ``flat_within`` : the arguments.

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If a tenor is unknown or ``short`` is not the shorter, or another argument is none of what it may be.

    Notes
    -----
    A tenor that is there twice at a time has no value: tell such series apart with ``by``.

    References
    ----------
    .. [1] N. N. Taleb, "Dynamic Hedging", 1997, chapter 9, on the term structure of volatility and its inversions.

    Examples
    --------
    >>> from datetime import UTC, datetime
    >>> import polars as pl
    >>> frame = pl.DataFrame({
    ...     "coin": "BTC", "timestamp": datetime(2026, 3, 5, tzinfo=UTC), "tenor": ["ONE_M", "ONE_W"],
    ...     "implied_volatility": [52.5, 54.75],
    ... })
    >>> tenor_slope(frame, short="1w", long="1m").select("slope", "structure").row(0)
    (-2.25, 'backwardation')
    """
    near, far = (choice(tenor, Tenor, parameter=name) for name, tenor in (("short", short), ("long", long)))
    if near.days >= far.days:
        raise QueryError("short", got=short, expected=f"a tenor shorter than {far.alias}")
    table, column = _opened(frame, value)
    keys = [*table.series(by, without=("tenor", "timestamp", column, *_SLOPE)), "timestamp"]
    ends = {"short": near.value, "long": far.value}
    rows = table.rows.with_columns(nw.col("tenor").cast(nw.String))
    rows = rows.filter(nw.col("tenor").is_in(list(ends.values())))
    return table.closed(sloped(rows, keys, column, along="tenor", **ends, flat=flat), sort=keys)


def _opened(frame: IntoFrameT, value: str | None) -> tuple[Table[IntoFrameT], str]:
    """Return the table, and the name of its value column."""
    table = Table.opened(frame, ["tenor"])
    column = value_of(value, table.names)
    return Table.opened(table, ["tenor"], times=["timestamp"], numbers=[column]), column
