"""Differences of funding rates between markets, and the pair of markets that pays best."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import narwhals.stable.v2 as nw
from narwhals.stable.v2.typing import IntoFrameT

from tidytape.analytics import _arguments as arguments
from tidytape.analytics._series import IS_REPEATED, Duration, across, finite, without_repeats
from tidytape.analytics.funding._rates import OWN, own_interval
from tidytape.errors import NoMatchWarning, QueryError, warn
from tidytape.frames._door import MARKET
from tidytape.frames._joined import joined
from tidytape.frames._rows import first
from tidytape.frames._table import OpenTable
from tidytape.times import DAY


def spread(
    frame: IntoFrameT, /, *, by: str | Iterable[str] | None = None, rate: str = "rate_close"
) -> IntoFrameT:
    r"""Differences of funding rates between each two markets.

    .. math:: s_{ij} = f_i - f_j

    The result is a matrix in long form: pivot it on ``other_exchange`` for the wide form. The matrix is antisymmetric;
    its diagonal, which is zero, is left out.

    Parameters
    ----------
    frame : frame, n rows, key (exchange, raw_symbol, by, timestamp), any order
        Schema ``FUNDING_RATE_AGG``. All rates must be over one funding interval, as the client fetches them. In a
        frame with a column ``funding_interval`` [ns] they may differ: two markets are then compared only if theirs are
        equal. `normalized` brings all rates to one interval.
    by : str or iterable of str, optional
        Columns whose values two markets must share to be compared. By default the identity columns that do not name
        the market, such as ``coin``.
    rate : str
        Column of the rate. [1 per funding interval]

    Returns
    -------
    frame, one row per by, timestamp and ordered pair of markets, sorted by these, of the kind of ``frame``
        ``by``, ``timestamp``, ``exchange``, ``raw_symbol``, ``other_exchange``, ``other_raw_symbol`` and ``spread`` :
        float64, above 0 if the first market's longs pay more [1 per funding interval], null if a rate is not
        finite, or if one of the markets appears twice.

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If ``rate`` does not hold numbers.

    References
    ----------
    tidytape's own convention; see definitions.

    Examples
    --------
    >>> import polars as pl
    >>> points = pl.DataFrame(
    ...     {"exchange": ["A", "B"], "raw_symbol": "BTC", "timestamp": [0, 0], "rate_close": [0.0003, 0.0001]}
    ... )
    >>> spread(points).select("exchange", "other_exchange", pl.col("spread").round(8)).rows()
    [('A', 'B', 0.0002), ('B', 'A', -0.0002)]
    """
    table = OpenTable.of(frame, [*MARKET, "timestamp"], numbers=[rate])
    series_columns = across(table, by, without=[*MARKET, *_OTHER.values(), "spread", rate])
    rows = table.rows.with_columns(__rate=finite(rate))
    intervals = [OWN] if OWN in table.names else []
    pairs = _pairs(rows, series_columns, ["__rate", *intervals])
    difference = nw.col("__rate") - nw.col("__other_rate")
    if intervals:
        difference = nw.when(nw.col(OWN) == nw.col(f"__other_{OWN}")).then(difference)
    key = [*series_columns, "timestamp", *MARKET, *_OTHER.values()]
    return table.with_text_columns({other: name for name, other in _OTHER.items()}).closed(
        pairs.select(*key, spread=difference), sort=key, main=[*_OTHER.values(), "spread"]
    )


def carry(
    frame: IntoFrameT,
    /,
    *,
    costs: float | Mapping[str, float] | str,
    holding: Duration,
    by: str | Iterable[str] | None = None,
    rate: str = "rate_close",
    funding_interval: Duration | None = None,
) -> IntoFrameT:
    r"""The pair of markets that pays best if you are long on one, short on the other, and the rates do not change.

    .. math::

       c_{ls} = (f_s / T_s - f_l / T_l) H - k_l - k_s, \qquad (l, s) = \arg\max_{l \ne s} c_{ls}

    The short leg, where funding is high, receives it. The long leg, where funding is low, pays little. The two legs
    hedge the price. Only ``costs`` are subtracted: they must hold fees, slippage and the like.

    Parameters
    ----------
    frame : frame, n rows, key (exchange, raw_symbol, by, timestamp), any order
        Schema ``FUNDING_RATE_AGG``.
    costs : float, mapping of str to float, or str
        k, what it costs to open and close one leg, as a share of the leg's value: one number for all markets, a
        mapping by ``exchange``, or the name of a column. A market is in no pair if its cost is unknown, or if it
        appears twice. [1]
    holding : str or timedelta, > 0
        H, how long the pair is held, e.g. ``"30d"``.
    by : str or iterable of str, optional
        Columns whose values two markets must share to be a pair. By default the identity columns that do not name the
        market, such as ``coin``.
    rate : str
        Column of the rate. [1 per funding interval]
    funding_interval : str or timedelta, > 0, optional
        T, the interval that each rate is paid for. Needed, and only allowed, if the frame has no column
        ``funding_interval``. [ns in the column]

    Returns
    -------
    frame, one row per by and timestamp with two markets or more, sorted by these, of the kind of ``frame``
        ``by``, ``timestamp``, ``long_exchange``, ``long_raw_symbol``, ``short_exchange``, ``short_raw_symbol``, and

        - ``gross`` : float64, funding of both legs over the holding. [1]
        - ``costs`` : float64, of both legs. [1]
        - ``carry`` : float64, the gross minus the costs. If no pair earns its costs, the best one is below 0. [1]
        - ``apr`` : float64, the carry per year of 365 days, simple. [1 per year]

        If several pairs have the same carry, the first by name of the long, then of the short market.

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If a cost is not a finite number, or the mapping is empty; if a duration is not valid; or if the funding
        interval is given neither by the argument nor by the column, or by both. The
        mapping may have exchanges that the frame lacks.

    Warns
    -----
    NoMatchWarning
        If an exchange in the mapping has no market in an eager frame, and an exchange in the frame has no cost: one of
        the two may be misspelt.

    References
    ----------
    tidytape's own convention; see definitions.

    Examples
    --------
    >>> import polars as pl
    >>> points = pl.DataFrame(
    ...     {
    ...         "exchange": ["A", "B", "C"],
    ...         "raw_symbol": "BTC",
    ...         "timestamp": [0, 0, 0],
    ...         "rate_close": [0.0003, 0.0001, 0.00035],
    ...     }
    ... )
    >>> best = carry(points, costs={"A": 0.001, "B": 0.001, "C": 0.02}, holding="30d", funding_interval="8h")
    >>> best.select("long_exchange", "short_exchange", pl.col("gross", "carry").round(6)).row(0)
    ('B', 'A', 0.018, 0.016)
    """
    duration = arguments.duration("holding", holding)
    numbers = [rate, costs] if isinstance(costs, str) else [rate]
    table = OpenTable.of(frame, [*MARKET, "timestamp"], numbers=numbers, optional=["funding_interval"])
    series_columns = across(table, by, without=[*MARKET, *_OTHER.values(), *_RESULTS, *numbers])
    ratio = float(duration) / own_interval(table, funding_interval)
    rows = table.rows.with_columns(__earned=finite(rate) * ratio, __cost=_cost(costs))
    if table.is_eager and isinstance(costs, Mapping):
        _warn_of_unknown_names(table, costs)
    pairs = (
        _pairs(rows, series_columns, ["__earned", "__cost"])
        .with_columns(
            gross=nw.col("__other_earned") - nw.col("__earned"),
            costs=nw.col("__cost") + nw.col("__other_cost"),
        )
        .with_columns(carry=nw.col("gross") - nw.col("costs"))
        .filter(~nw.col("carry").is_null())
        .with_columns(apr=nw.col("carry") * (365.0 * DAY / duration), __worse=-nw.col("carry"))
    )
    keys, order = [*series_columns, "timestamp"], ["__worse", *MARKET, *_OTHER.values()]
    results = dict(zip(_RESULTS, (*MARKET, *_OTHER.values(), "gross", "costs", "carry", "apr"), strict=True))
    best = pairs.group_by(*keys).agg(
        first(pairs, name, order).alias(result) for result, name in results.items()
    )
    return table.with_text_columns({f"{leg}_{name}": name for leg in _LEGS for name in MARKET}).closed(
        best, sort=keys, main=["long_exchange", "short_exchange", "carry", "apr"]
    )


_OTHER = {name: f"other_{name}" for name in MARKET}
_LEGS = ("long", "short")
_RESULTS = (
    *(f"{leg}_{name}" for leg in _LEGS for name in MARKET),
    *("gross", "costs", "carry", "apr"),
)


def _pairs(rows: nw.LazyFrame[Any], series_columns: list[str], values: list[str]) -> nw.LazyFrame[Any]:
    """Return one row per ordered pair of markets and time; values of the second market are ``__other_<name>``."""
    key, is_single = [*series_columns, "timestamp"], nw.col(IS_REPEATED) == 0
    rows = without_repeats(rows.filter(~nw.col("timestamp").is_null()), series_columns).select(
        *key, *MARKET, *(nw.when(is_single).then(nw.col(name)).alias(name) for name in values)
    )
    others = {name: f"__other_{name.removeprefix('__')}" for name in values}
    pairs = joined(rows, rows.rename(_OTHER | others), on=key, how="inner")
    differ = [
        nw.coalesce(nw.col(name) != nw.col(other), nw.col(name).is_null() != nw.col(other).is_null())
        for name, other in _OTHER.items()
    ]
    return pairs.filter(nw.any_horizontal(*differ, ignore_nulls=True))


def _warn_of_unknown_names(table: OpenTable[Any], costs: Mapping[str, float]) -> None:
    """Warn if a cost has no market and a market has no cost: one of the names may be misspelt."""
    exchanges = {
        str(name) for name in table.rows.select("exchange").unique().collect()["exchange"].drop_nulls()
    }
    unused, uncosted = sorted(map(str, {*costs} - exchanges)), sorted(exchanges - {*costs})
    if unused and uncosted:
        message = (
            f"costs: no market is of {', '.join(unused)}, and there is no cost for {', '.join(uncosted)}, whose "
            "markets are in no pair; is a name misspelt?"
        )
        warn(NoMatchWarning(message, keys=["exchange"]))


def _cost(costs: float | Mapping[str, float] | str) -> nw.Expr:
    """Return the cost of each row's market; null if the mapping lacks its exchange."""
    if isinstance(costs, str):
        return finite(costs)
    by_exchange = costs if isinstance(costs, Mapping) else {"all": costs}
    if not by_exchange or not all(map(arguments.is_number, by_exchange.values())):
        raise QueryError(
            "costs", got=costs, expected="a finite number, one for each of some exchanges, or a column"
        )
    if not isinstance(costs, Mapping):
        return nw.lit(float(costs))
    exchange = nw.col("exchange").cast(nw.String())
    return nw.coalesce(*[nw.when(exchange == name).then(nw.lit(float(cost))) for name, cost in costs.items()])
