"""Term structures of chains, their slope, and what they say of the time between maturities."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal

import narwhals.stable.v2 as nw
from narwhals.stable.v2.typing import IntoFrameT

from tidytape.analytics._arguments import one_of
from tidytape.analytics.options._maturity import in_days, series_of
from tidytape.analytics.options._points import call_point, percents, put_point
from tidytape.analytics.options._structures import flat_within, last_before, shape, single
from tidytape.errors import MissingColumnError, QueryError
from tidytape.frames.ordered import next_of, with_next
from tidytape.frames.table import Table
from tidytape.query.values import TimeLike, epoch_seconds
from tidytape.times import SECOND

_VALUES = ("implied_volatility", "skew")
_SLOPE = ("short", "long", "slope", "structure", "short_days", "long_days", "flat_within")
_FORWARD = ("next_days", "forward_volatility", "calendar_arbitrage")
_NOISE: Final = 1e-12
"""What total variances may differ by and be equal, relative."""


def term_structure(
    points: IntoFrameT,
    /,
    *,
    value: Literal["implied_volatility", "skew"] = "implied_volatility",
    delta: int = 25,
    at: TimeLike | None = None,
    by: str | Iterable[str] | None = None,
) -> IntoFrameT:
    r"""Term structure of volatility or of skew: its value by days to expiry.

    .. math:: \mathrm{skew}_{25} = \sigma(\Delta_\mathrm{put} = -0.25) - \sigma(\Delta_\mathrm{call} = 0.25)

    Skew is the service's, positive when puts are dearer; the negative of the risk reversal.

    Parameters
    ----------
    points : frame, n rows, one per (by, timestamp, days), any order
        As `delta_points` or `constant_maturity` return them. Uses ``timestamp``, ``days`` [d], and ``iv_atm`` or, for
        skew, ``iv_25p`` and ``iv_25c`` [%].
    value : {"implied_volatility", "skew"}
        Of the volatility at the money, or of the skew.
    delta : int
        Size of the delta of the skew, 1 to 49. [%]
    at : time, optional
        Of each series the last chain at or before it; every chain otherwise.
    by : str or iterable of str, optional
        Columns that tell one series from another; otherwise the identity columns that there are.

    Returns
    -------
    frame, one row per (by, timestamp, days), sorted by these, of the kind of ``points``
        The rules ``atm`` and ``delta`` and ``expiry``, if ``points`` has them; ``days`` [d]; and ``implied_volatility``
        [%] or ``skew`` [vol points], float64, null where a point is.

    Raises
    ------
    MissingColumnError
        If ``points`` lacks a column.
    QueryError
        If an argument cannot be right, a column is not numeric, or ``points`` is no frame.

    See Also
    --------
    slope : Its long end less its short end.
    forward_volatility : What it says of the time between two maturities.
    tenor_structure : The same of the service's summaries.
    tidytape.plot.term_structure : Its picture.

    References
    ----------
    .. [1] D. Reiswich and U. Wystup, "FX volatility smile construction", CPQF working paper 20, 2010, section 1.

    Examples
    --------
    >>> from datetime import UTC, datetime
    >>> import polars as pl
    >>> now = datetime(2026, 3, 5, tzinfo=UTC)
    >>> points = pl.DataFrame({"timestamp": now, "days": [56.0, 28.0], "iv_25p": [60.0, 62.0], "iv_25c": [58.0, 57.0]})
    >>> term_structure(points, value="skew").select("days", "skew").rows()
    [(28.0, 5.0), (56.0, 2.0)]
    """
    one_of("value", value, _VALUES)
    [percent] = percents([delta])
    call, put = call_point(percent), put_point(percent)
    needed = ["iv_atm"] if value == "implied_volatility" else [put, call]
    table = Table.opened(points, parameter="points")
    times = ["timestamp", *(["expiry"] if "expiry" in table.names else [])]
    table = Table.opened(table, times=times, numbers=["days", *needed], parameter="points")
    keys = series_of(table, by, without=["expiry", value])
    measure = nw.col("iv_atm") if value == "implied_volatility" else nw.col(put) - nw.col(call)
    rows = table.rows
    if at is not None:
        moment = epoch_seconds(at, parameter="at") * SECOND
        rows = last_before(rows, moment, keys)
    return table.closed(
        rows.select(*keys, *times, "days", measure.alias(value)), sort=[*keys, "timestamp", "days"]
    )


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
    """Slope of a term structure: its value at the long maturity less that at the short one.

    Parameters
    ----------
    structure : frame, n rows, one per (by, timestamp, days), any order
        As `term_structure` returns it, of `constant_maturity` points: the two maturities must be among its ``days``
        [d]. Uses ``timestamp`` and ``implied_volatility`` [%] or ``skew`` [vol points].
    short, long : float or str
        The two maturities, in days [d] or as a tenor, e.g. ``"1m"``.
    value : {"implied_volatility", "skew"}, optional
        Which of the two; the one that ``structure`` has otherwise.
    flat : float, >= 0
        The slope up to which, either way, the structure is called flat. [vol points]
    by : str or iterable of str, optional
        Columns that tell one series from another; otherwise the identity columns that there are.

    Returns
    -------
    frame, one row per (by, timestamp), sorted by these, of the kind of ``structure``
        - ``short``, ``long`` : float64, the values there, null where there is none, or two. [as the value]
        - ``slope`` : float64, long less short. [vol points]
        - ``structure`` : str, ``contango`` where the slope is above ``flat``, ``backwardation`` where it is below minus
          that, ``flat`` between, null where it is null.
        - ``short_days``, ``long_days`` [d], ``flat_within`` : the arguments.

    Raises
    ------
    MissingColumnError
        If ``structure`` lacks a column.
    QueryError
        If ``short`` is not shorter than ``long``, ``flat`` is below 0, ``structure`` has both values and ``value``
        names neither, a column is not numeric, or ``structure`` is no frame.

    References
    ----------
    .. [1] J. Gatheral, "The Volatility Surface", Wiley 2006, chapter 3: term structure and skew.

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
    near, far = in_days("short", short), in_days("long", long)
    if not near < far:
        raise QueryError("long", got=long, expected=f"a maturity longer than short, {near:g} days")
    flat = flat_within(flat)
    table = Table.opened(structure, parameter="structure")
    names = table.names
    if "iv_atm" in names and not set(names).intersection(_VALUES):
        raise QueryError(
            "structure",
            got="points of smiles",
            expected="a term structure",
            hint=f"term_structure(constant_maturity(points, days=[{near:g}, {far:g}])) has these maturities",
        )
    chosen = _chosen(value, names)
    table = Table.opened(table, times=["timestamp"], numbers=["days", chosen], parameter="structure")
    keys = series_of(table, by, without=[chosen, *_SLOPE])
    ends = single(table.rows, [*keys, "timestamp", "days"], [chosen]).with_columns(
        nw.when(nw.col("days") == days).then(nw.col(chosen)).alias(name)
        for name, days in (("short", near), ("long", far))
    )
    result = (
        ends.group_by(*keys, "timestamp")
        .agg(nw.col("short", "long").max())
        .with_columns(slope=nw.col("long") - nw.col("short"))
        .with_columns(
            structure=shape(nw.col("slope"), flat),
            short_days=nw.lit(near),
            long_days=nw.lit(far),
            flat_within=nw.lit(flat),
        )
    )
    return table.closed(result, sort=[*keys, "timestamp"])


def forward_volatility(structure: IntoFrameT, /, *, by: str | Iterable[str] | None = None) -> IntoFrameT:
    r"""Forward volatility between each maturity and the next, and whether they contradict each other.

    .. math:: \sigma_{12} = \sqrt{\frac{\sigma_2^2 T_2 - \sigma_1^2 T_1}{T_2 - T_1}}

    Total variance that falls from one maturity to the next is a calendar arbitrage at the money: then there is no such
    volatility.

    Parameters
    ----------
    structure : frame, n rows, one per (by, timestamp, days), any order
        As `term_structure` returns it. Uses ``timestamp``, ``days`` [d] and ``implied_volatility`` [%]; rows without
        one of the last two, or with one not above 0, are passed over, and so are maturities that are there twice.
    by : str or iterable of str, optional
        Columns that tell one series from another; otherwise the identity columns that there are.

    Returns
    -------
    frame, one row per (by, timestamp) and pair of neighbouring maturities, sorted, of the kind of ``structure``
        - ``days``, ``next_days`` : float64, from when to when. [d]
        - ``forward_volatility`` : float64, null where there is an arbitrage. [%]
        - ``calendar_arbitrage`` : bool, whether total variance falls by more than 1e-12 of itself.

    Raises
    ------
    MissingColumnError
        If ``structure`` lacks a column.
    QueryError
        If a column is not numeric, or ``structure`` is no frame.

    References
    ----------
    .. [1] J. Gatheral and A. Jacquier, "Arbitrage-free SVI volatility surfaces", Quantitative Finance 14, 2014,
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
    table = Table.opened(structure, times=["timestamp"], numbers=numbers, parameter="structure")
    keys = series_of(table, by, without=[*numbers, *_FORWARD])
    days, volatility = nw.col("days"), nw.col("implied_volatility")
    known = single(table.rows, [*keys, "timestamp", "days"], ["implied_volatility"]).filter(
        days.is_finite() & (days > 0), volatility.is_finite() & (volatility > 0)
    )
    pairs = with_next(
        known.with_columns(__variance=volatility**2 * days),
        ("days", "__variance"),
        over=(*keys, "timestamp"),
        order_by=("days",),
    ).filter(nw.col(next_of("days")) > days)
    gained = nw.col(next_of("__variance")) - nw.col("__variance")
    falls = gained < -_NOISE * nw.col("__variance")
    result = pairs.with_columns(calendar_arbitrage=falls).select(
        *keys,
        "timestamp",
        "days",
        nw.col(next_of("days")).alias("next_days"),
        # What is below zero within the noise is zero.
        nw.when(~falls)
        .then((nw.max_horizontal(gained, nw.lit(0.0)) / (nw.col(next_of("days")) - days)).sqrt())
        .alias("forward_volatility"),
        "calendar_arbitrage",
    )
    return table.closed(result, sort=[*keys, "timestamp", "days"])


def _chosen(value: str | None, names: list[str]) -> str:
    """Return which value of a structure is meant."""
    if value is not None:
        one_of("value", value, _VALUES)
        return value
    found = [name for name in _VALUES if name in names]
    if len(found) > 1:
        raise QueryError("value", got=None, expected=f"one of {', '.join(found)}", hint="the frame has both")
    if not found:
        raise MissingColumnError(["implied_volatility"], available=names)
    return found[0]
