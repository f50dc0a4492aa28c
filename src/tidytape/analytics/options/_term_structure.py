"""Term structures of chains and of summaries, their slopes, and the volatility between two maturities."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal

import narwhals.stable.v2 as nw
from narwhals.stable.v2.typing import IntoFrameT

from tidytape.analytics._arguments import one_of
from tidytape.analytics._smile import is_above_zero
from tidytape.analytics.options._maturity import (
    SLOPED,
    VALUES,
    in_days,
    last_before,
    series_of,
    single,
    sloped,
    value_of,
)
from tidytape.analytics.options._points import wing_points
from tidytape.catalogue import Tenor
from tidytape.errors import QueryError
from tidytape.frames._rows import next_of, with_next
from tidytape.frames._table import OpenTable
from tidytape.query._values import TimeLike, choice

_SLOPE = ("short", "long", "slope", "structure", "flat_within")
_FORWARD = ("next_days", "forward_volatility", "calendar_arbitrage")
_NOISE: Final = 1e-12
"""Relative difference up to which two total variances are equal."""


def term_structure(
    points: IntoFrameT,
    /,
    *,
    value: Literal["implied_volatility", "skew"] = "implied_volatility",
    delta: int = 25,
    at: TimeLike | None = None,
    by: str | Iterable[str] | None = None,
) -> IntoFrameT:
    r"""Term structure of volatility or of skew: the value by days to expiry.

    .. math:: \mathrm{skew}_{25} = \sigma(\Delta_\mathrm{put} = -0.25) - \sigma(\Delta_\mathrm{call} = 0.25)

    Skew has the sign of the service: positive if puts cost more, the opposite of the risk reversal.

    Parameters
    ----------
    points : frame, n rows, one per (by, timestamp, days), any order
        As `delta_points` or `constant_maturity` return them. Uses ``timestamp``, ``days`` [d], and ``iv_atm`` or, for
        skew, ``iv_25p`` and ``iv_25c`` [%].
    value : {"implied_volatility", "skew"}
        Volatility at the money, or skew.
    delta : int
        Size of the delta of the skew, 1 to 49. [%]
    at : time, optional
        Keep only the last chain of each series at or before this time; by default every chain.
    by : str or iterable of str, optional
        Columns that tell one series from another; by default the identity columns of the frame.

    Returns
    -------
    frame, one row per (by, timestamp, days), sorted by these, of the kind of ``points``
        The rules ``atm`` and ``delta`` and ``expiry``, if ``points`` has them; ``days`` [d]; and ``implied_volatility``
        [%] or ``skew`` [vol points], float64, null if a point is null.

    Raises
    ------
    MissingColumnError
        If ``points`` lacks a column.
    QueryError
        If an argument is not as listed, a column is not numeric, or ``points`` is not a frame.

    See Also
    --------
    slope : The value at a long maturity minus that at a short one.
    forward_volatility : The volatility between two maturities.
    tenor_structure : The same from the service's summaries.
    tidytape.plot.term_structure : The plot.

    References
    ----------
    .. [1] Reiswich, D. and Wystup, U., "FX volatility smile construction", CPQF working paper 20, 2010, for the
       skew, which there is a risk reversal and has the other sign.

    Examples
    --------
    >>> from datetime import UTC, datetime
    >>> import polars as pl
    >>> now = datetime(2026, 3, 5, tzinfo=UTC)
    >>> points = pl.DataFrame({"timestamp": now, "days": [56.0, 28.0], "iv_25p": [60.0, 62.0], "iv_25c": [58.0, 57.0]})
    >>> term_structure(points, value="skew").select("days", "skew").rows()
    [(28.0, 5.0), (56.0, 2.0)]
    """
    one_of("value", value, VALUES)
    _, put, call = wing_points(delta)
    if value == "implied_volatility":
        point_columns, measure = ["iv_atm"], nw.col("iv_atm")
    else:
        point_columns, measure = [put, call], nw.col(put) - nw.col(call)
    table = OpenTable.of(
        points,
        times=["timestamp"],
        optional=["expiry"],
        numbers=["days", *point_columns],
        parameter="points",
    )
    keys = series_of(table, by, without=["expiry", value])
    rows = last_before(table.rows, at, keys).select(*keys, *table.clocks, "days", measure.alias(value))
    return table.closed(rows, sort=[*keys, "timestamp", "days"], main=["days", value])


def slope(
    structure: IntoFrameT,
    /,
    *,
    short: float | str,
    long: float | str,
    value: Literal["implied_volatility", "skew"] | None = None,
    flat: float = 0.0,
    by: str | Iterable[str] | None = None,
) -> IntoFrameT:
    """Slope of a term structure: its value at the long maturity minus that at the short one.

    Below zero the structure is inverted. The slope of skew is
    ``slope(term_structure(constant_maturity(points, days=[7, 90]), value="skew"), short=7, long=90)``.

    Parameters
    ----------
    structure : frame, n rows, one per (by, timestamp, days), any order
        As `term_structure` returns it, of `constant_maturity` points: the two maturities must be among its ``days``
        [d]. Uses ``timestamp`` and ``implied_volatility`` [%] or ``skew`` [vol points].
    short, long : float or str
        The two maturities, in days [d] or as a tenor, e.g. ``"1m"``.
    value : {"implied_volatility", "skew"}, optional
        Which column; by default the one that ``structure`` has.
    flat : float, >= 0
        The structure is called flat if the size of its slope is at most this. [vol points]
    by : str or iterable of str, optional
        Columns that tell one series from another; by default the identity columns of the frame.

    Returns
    -------
    frame, one row per (by, timestamp), sorted by these, of the kind of ``structure``
        - ``short``, ``long`` : float64, the values at the two maturities, null if there is none or more than one. [as
          the value]
        - ``slope`` : float64, long minus short. [vol points]
        - ``structure`` : str, ``contango`` where the slope is above ``flat``, ``backwardation`` (inverted) where it is
          below minus that, ``flat`` between, null where it is null.
        - ``short_days``, ``long_days`` [d], ``flat_within`` : the arguments.

    Raises
    ------
    MissingColumnError
        If ``structure`` lacks a column.
    QueryError
        If ``short`` is not shorter than ``long``, ``flat`` is below 0, ``structure`` has both values and ``value``
        names neither, a column is not numeric, or ``structure`` is not a frame.

    References
    ----------
    .. [1] Gatheral, J., "The Volatility Surface", Wiley 2006, chapter 3.

    Examples
    --------
    >>> from datetime import UTC, datetime
    >>> import polars as pl
    >>> now = datetime(2026, 3, 5, tzinfo=UTC)
    >>> volatility = {"days": [7.0, 30.0, 90.0], "implied_volatility": [60.0, 55.0, 53.0]}
    >>> structure = pl.DataFrame({"timestamp": now, **volatility})
    >>> slope(structure, short="1w", long=90).select("short", "long", "slope", "structure").row(0)
    (60.0, 53.0, -7.0, 'backwardation')
    """
    short_days, long_days = in_days("short", short), in_days("long", long)
    if not short_days < long_days:
        raise QueryError("long", got=long, expected=f"a maturity longer than short, {short_days:g} days")
    table = OpenTable.of(structure, parameter="structure")
    if "iv_atm" in table.names and not set(table.names).intersection(VALUES):
        has_reversal = any(name.endswith("_call_minus_put") for name in table.names)
        is_skew = value == "skew" or (has_reversal and value != "implied_volatility")
        value_argument, note = (', value="skew"', "; skew is put minus call") if is_skew else ("", "")
        call = (
            f"term_structure(constant_maturity(points, days=[{short_days:g}, {long_days:g}]){value_argument})"
        )
        raise QueryError(
            "structure",
            got="points of smiles",
            expected="a term structure",
            hint=f"{call} has these maturities{note}",
        )
    value_column = value_of(value, table.names)
    table = OpenTable.of(table, ["timestamp"], numbers=["days", value_column], parameter="structure")
    keys = [*series_of(table, by, without=[value_column, "short_days", "long_days", *_SLOPE]), "timestamp"]
    result = sloped(table.rows, keys, value_column, along="days", short=short_days, long=long_days, flat=flat)
    return table.closed(result, sort=keys, main=SLOPED)


def forward_volatility(structure: IntoFrameT, /, *, by: str | Iterable[str] | None = None) -> IntoFrameT:
    r"""Forward volatility between each maturity and the next, and calendar arbitrage between them.

    .. math:: \sigma_{12} = \sqrt{\frac{\sigma_2^2 T_2 - \sigma_1^2 T_1}{T_2 - T_1}}

    If total variance falls from one maturity to the next, there is a calendar arbitrage at the money, and no forward
    volatility.

    Parameters
    ----------
    structure : frame, n rows, one per (by, timestamp, days), any order
        As `term_structure` returns it. Uses ``timestamp``, ``days`` [d] and ``implied_volatility`` [%]; rows in which
        one of the last two is null or not above 0 are left out, and so are maturities that appear twice.
    by : str or iterable of str, optional
        Columns that tell one series from another; by default the identity columns of the frame.

    Returns
    -------
    frame, one row per (by, timestamp) and pair of neighbouring maturities, sorted, of the kind of ``structure``
        - ``days``, ``next_days`` : float64, the two maturities. [d]
        - ``forward_volatility`` : float64, null if there is an arbitrage. [%]
        - ``calendar_arbitrage`` : bool, whether total variance falls by a share of more than 1e-12.

    Raises
    ------
    MissingColumnError
        If ``structure`` lacks a column.
    QueryError
        If a column is not numeric, or ``structure`` is not a frame.

    References
    ----------
    .. [1] Gatheral, J. and Jacquier, A., "Arbitrage-free SVI volatility surfaces", Quantitative Finance 14, 2014,
       lemma 2.1.

    Examples
    --------
    >>> from datetime import UTC, datetime
    >>> import polars as pl
    >>> now = datetime(2026, 3, 5, tzinfo=UTC)
    >>> volatility = {"days": [28.0, 56.0, 60.0], "implied_volatility": [60.0, 58.0, 50.0]}
    >>> structure = pl.DataFrame({"timestamp": now, **volatility})
    >>> forward_volatility(structure).select(pl.col("forward_volatility").round(4), "calendar_arbitrage").rows()
    [(55.9285, False), (None, True)]
    """
    numbers = ["days", "implied_volatility"]
    table = OpenTable.of(structure, ["timestamp"], numbers=numbers, parameter="structure")
    keys = [*series_of(table, by, without=[*numbers, *_FORWARD]), "timestamp"]
    days, volatility = nw.col("days"), nw.col("implied_volatility")
    structure_rows = single(table.rows, [*keys, "days"], ["implied_volatility"]).filter(
        is_above_zero(days), is_above_zero(volatility)
    )
    variance, next_days = volatility**2 * days, nw.col(next_of("days"))
    pairs = with_next(
        structure_rows.with_columns(__variance=variance),
        ("days", "__variance"),
        over=keys,
        order_by=("days",),
    ).filter(next_days > days)
    gain = nw.col(next_of("__variance")) - nw.col("__variance")
    is_arbitrage = gain < -_NOISE * nw.col("__variance")
    # Rounding may put a gain of zero slightly below zero.
    forward = (nw.max_horizontal(gain, nw.lit(0.0)) / (next_days - days)).sqrt()
    result = pairs.select(
        *keys,
        "days",
        next_days=next_days,
        forward_volatility=nw.when(~is_arbitrage).then(forward),
        calendar_arbitrage=is_arbitrage,
    )
    return table.closed(
        result, sort=[*keys, "days"], main=["days", "next_days", "calendar_arbitrage", "forward_volatility"]
    )


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
        Which column; by default the one that the frame has. [%], or [vol points], put minus call
    at : time, optional
        Keep only the last time of each series at or before this time, whichever tenors it has. By default keep every
        time.
    by : str or iterable of str, optional
        Columns that tell one series from another, without the tenor; by default the identity columns of the frame.

    Returns
    -------
    frame, one row per (by, timestamp, tenor), sorted by (by, timestamp, days), of the kind of ``frame``
        ``by``, ``timestamp``, ``tenor``, and

        - ``days`` : float64, the tenor's length, null where the tenor is unknown. [d]
        - the value, unchanged.

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If ``value`` is not as listed, or is left out although the frame has both columns, or ``at`` is not a time.

    See Also
    --------
    tenor_slope : The difference between two tenors.
    constant_maturity : The same from a chain of options, for any number of days.

    Notes
    -----
    A summary of an interval is known when the interval ends, but ``at`` is compared with ``timestamp``, its start. If
    it matters what was known, pass an earlier ``at``, or use `tidytape.analytics.pit.known_at`.

    References
    ----------
    tidytape's own convention; see definitions. A month has 30 days and a year 365, as the service counts its
    tenors.

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
    series_columns = table.series_columns(by, without=("tenor", "timestamp", column, "days"))
    tenor = nw.col("tenor").cast(nw.String)
    days = nw.lit(None, nw.Float64)
    for candidate in Tenor:
        days = nw.when(tenor == candidate.value).then(nw.lit(float(candidate.days))).otherwise(days)
    rows = last_before(table.rows, at, series_columns).select(
        *series_columns, "timestamp", tenor, days.alias("days"), column
    )
    return table.closed(rows, sort=[*series_columns, "timestamp", "days"], main=["days", column])


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
        Which column; by default the one that the frame has. [%], or [vol points], put minus call
    flat : float, >= 0
        The structure is called flat if the size of its slope is at most this. [unit of the value]
    by : str or iterable of str, optional
        The columns that tell one series from another, without the tenor.

    Returns
    -------
    frame, one row per (by, timestamp) with either tenor, sorted by that, of the kind of ``frame``
        ``by``, ``timestamp``, and

        - ``short``, ``long`` : float64, the values; null if the tenor is missing at that time, or appears twice. [unit
          of the value]
        - ``slope`` : float64, long minus short, null where either is. [unit of the value]
        - ``structure`` : str, ``contango`` where the slope is above ``flat``, ``backwardation`` (inverted) where it is
          below minus that, ``flat`` between, null where it is null.
        - ``short_tenor``, ``long_tenor``, ``flat_within`` : the arguments.

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If a tenor is unknown or ``short`` is not the shorter, or another argument is not as listed.

    Notes
    -----
    If a tenor appears twice at a time, it has no value: name the column that tells the two series apart in ``by``.

    References
    ----------
    .. [1] Taleb, N. N., "Dynamic Hedging", 1997, chapter 9, on the term structure of volatility and its inversions.

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
    short_tenor, long_tenor = (
        choice(tenor, Tenor, parameter=name) for name, tenor in (("short", short), ("long", long))
    )
    if short_tenor.days >= long_tenor.days:
        raise QueryError("short", got=short, expected=f"a tenor shorter than {long_tenor.alias}")
    table, column = _opened(frame, value)
    keys = [
        *table.series_columns(
            by, without=("tenor", "timestamp", column, "short_tenor", "long_tenor", *_SLOPE)
        ),
        "timestamp",
    ]
    ends = {"short": short_tenor.value, "long": long_tenor.value}
    tenors = nw.col("tenor").cast(nw.String)
    rows = table.rows.with_columns(tenors).filter(tenors.is_in(list(ends.values())))
    return table.closed(sloped(rows, keys, column, along="tenor", **ends, flat=flat), sort=keys, main=SLOPED)


def _opened(frame: IntoFrameT, value: str | None) -> tuple[OpenTable[IntoFrameT], str]:
    """Return the table, and the name of its value column."""
    table = OpenTable.of(frame, ["tenor"])
    column = value_of(value, table.names)
    return OpenTable.of(table, ["timestamp", "tenor"], numbers=[column]), column
