"""Sums over markets, the share of each market, and one candle from the candles of all markets."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

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
    with_repeats,
    without_repeats,
)
from tidytape.errors import QueryError
from tidytape.frames import _exact as exact
from tidytape.frames._door import MARKET, OHLC, as_list
from tidytape.frames._joined import (
    COVERAGE,
    IDLE,
    STANDING,
    TRADED,
    UNKNOWN,
    joined,
    standing_sums,
    summed,
    traded,
    with_coverage,
    with_fills,
    with_times,
)
from tidytape.frames._joined import consolidated as one_candle
from tidytape.frames._table import OpenTable
from tidytape.frames._units import AMOUNT_UNIT

_CARRY: Final = "24h"
"""How long the last open interest of a market counts in a sum by default."""

_TRADED: Final = {"volume", "first_timestamp", "last_timestamp"}


def total(
    frame: IntoFrameT,
    /,
    *,
    amount: str | Iterable[str],
    by: str | Iterable[str] | None = None,
    carry: Duration | None = None,
) -> IntoFrameT:
    r"""Sums of amounts over all markets.

    .. math:: A = \sum_i a_i

    If one amount is unknown, the sum is unknown. A market without a row does not count, unless its last open interest
    still does.

    Parameters
    ----------
    frame : frame, n rows, key (exchange, raw_symbol, by, timestamp), any order
        Points of single markets. The amounts of a sum must be in one unit: amounts in coins for markets of one coin, or
        amounts in USD, fetched with ``quote="USD"``. If a series mixes values of ``amount_unit``, its sums and
        ``coverage`` are null.
    amount : str or iterable of str
        Columns to sum, e.g. ``"liquidations"``, or ``("open", "high", "low", "close")`` of open interest.
    by : str or iterable of str, optional
        Columns that tell one sum from another; by default the identity columns that do not name a market, such as
        ``coin`` and ``side``. For levels add ``"price"``.
    carry : str or timedelta, >= 0, optional
        Pass it if the amounts are a stock, not a flow: a market without a report at some time then counts with its last
        report, up to this age. By default ``"24h"`` for open interest, as in the service, and no carry for other
        amounts; ``"0s"`` sums only the reports of each time. A frame has open interest if it has ``amount_unit`` and no
        column of trades such as ``volume``, and ``amount`` names some of ``open``, ``high``, ``low`` and ``close``. The
        last column of ``amount`` is the value at the end of the interval: it is carried, and it replaces the other
        columns where they are null. The frame needs the time ``carry`` before the first time of interest.

    Returns
    -------
    frame, one row per by and timestamp, sorted by these, of the kind of ``frame``
        ``by``, ``timestamp``, the sums : float64, null if the amount of a market is not finite, or a market appears
        twice [as ``amount``]; ``markets`` : int64, how many markets have all amounts; ``coverage`` : float64, their
        share of the markets with a row [1]. With ``carry`` a sum is also null while the last report of a market lacks
        the last column of ``amount``, or has an amount beyond 1e24.

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If the frame has a column ``price`` that is not in ``by``, because it may then have several rows per market. Or
        if amounts are not numbers, or ``carry`` is not a duration.

    References
    ----------
    tidytape's own convention; see definitions.

    Examples
    --------
    >>> import polars as pl
    >>> start = 1_723_075_200_000_000_000  # 2024-08-08 in nanoseconds
    >>> hour = 3_600_000_000_000
    >>> points = pl.DataFrame(
    ...     {"exchange": ["A", "B", "A"], "raw_symbol": "X", "timestamp": [start, start, start + hour],
    ...      "close": [0.1, 0.2, 0.4]}
    ... )
    >>> total(points, amount="close").with_columns(pl.col("timestamp") - start).rows()
    [(0, 2, 1.0, 0.3), (3600000000000, 1, 1.0, 0.4)]
    >>> total(points, amount="close", carry="24h").with_columns(pl.col("timestamp") - start).rows()
    [(0, 2, 1.0, 0.3), (3600000000000, 2, 1.0, 0.6)]
    """
    amounts = arguments.columns("amount", amount, reserved=["markets", COVERAGE])
    table, rows, series_columns = markets(frame, by, amounts, results=["markets", COVERAGE])
    keys, reports = [*series_columns, "timestamp"], without_repeats(rows, series_columns, amounts=amounts)
    is_stock = AMOUNT_UNIT in table.names and {*OHLC} >= {*amounts} and not _TRADED & {*table.names}
    if carry is None and not is_stock:
        is_complete = nw.all_horizontal(*(~nw.col(name).is_null() for name in amounts), ignore_nulls=False)
        reports = reports.with_columns(
            nw.when(is_complete).then(0.0).otherwise(1.0).alias(UNKNOWN), nw.lit(1.0).alias(STANDING)
        )
        sums = summed(reports, keys, [*amounts, STANDING, UNKNOWN, IS_REPEATED, HAS_MIXED_UNITS])
    else:
        longest = arguments.nanoseconds("carry", _CARRY if carry is None else carry)
        counts = [IS_REPEATED, HAS_MIXED_UNITS]
        sums = standing_sums(
            reports,
            rows,
            members=MARKET,
            series_columns=series_columns,
            columns=amounts,
            carry=longest,
            counts=counts,
        )
    reporting, has_share = (
        nw.col(STANDING) - nw.col(UNKNOWN),
        (nw.col(STANDING) > 0) & (nw.col(HAS_MIXED_UNITS) == 0),
    )
    result = sums.select(
        *keys,
        *(nw.when(nw.col(IS_REPEATED) == 0).then(nw.col(name)).alias(name) for name in amounts),
        reporting.cast(nw.Int64()).alias("markets"),
        nw.when(has_share).then(reporting / nw.col(STANDING)).alias(COVERAGE),
    )
    return table.closed(result, sort=keys, main=amounts)


def market_share(frame: IntoFrameT, /, *, amount: str, by: str | Iterable[str] | None = None) -> IntoFrameT:
    r"""Share of each market in the sum over all markets.

    .. math:: s_i = a_i / \sum_j a_j

    Parameters
    ----------
    frame : frame, n rows, key (exchange, raw_symbol, by, timestamp), any order
        Points of single markets, with all amounts in one unit.
    amount : str
        Column of the amounts, e.g. ``"volume"``.
    by : str or iterable of str, optional
        Columns that tell one sum from another; by default the identity columns that do not name a market, such as
        ``coin``.

    Returns
    -------
    frame, a row per row that has a time, sorted by (by, timestamp, exchange, raw_symbol), of the kind of ``frame``
        The frame's columns, and

        - ``total`` : float64, the sum; null if an amount is not finite, or a market appears twice. [as ``amount``]
        - ``share`` : float64, null where the total is null or not positive. [1]

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If the frame has a column ``price`` that is not in ``by``, because it may then have several rows per market. Or
        if ``amount`` does not hold numbers.

    References
    ----------
    tidytape's own convention; see definitions.

    Examples
    --------
    >>> import polars as pl
    >>> points = pl.DataFrame(
    ...     {"exchange": ["A", "B"], "raw_symbol": "X", "timestamp": [0, 0], "volume": [3.0, 1.0]}
    ... )
    >>> market_share(points, amount="volume").select("exchange", "total", "share").rows()
    [('A', 4.0, 0.75), ('B', 4.0, 0.25)]
    """
    arguments.column("amount", amount, reserved=["total", "share"])
    table, _, series_columns = markets(frame, by, [amount], results=["total", "share"])
    rows = with_repeats(table.rows.filter(~nw.col("timestamp").is_null()), series_columns, of_amounts=True)
    in_sum = [exact.summed("total"), nw.col(IS_REPEATED).max()]
    rows = (
        exact.in_parts(rows.with_columns(__own=finite(amount), total=finite(amount)), "total")
        .with_columns(part.over(*series_columns, "timestamp") for part in in_sum)
        .with_columns(total=nw.when(nw.col(IS_REPEATED) == 0).then(exact.total("total")))
    )
    share = nw.when(nw.col("total") > 0).then(nw.col("__own") / nw.col("total"))
    result = rows.with_columns(share=share).select(*dict.fromkeys([*table.names, "total", "share"]))
    return table.closed(result, sort=[*series_columns, "timestamp", *MARKET], main=[amount, "total", "share"])


def dominance(
    frame: IntoFrameT,
    /,
    *,
    universe: Collection[str],
    marketcap: str = "marketcap",
    token: str = "coin",
    by: str | Iterable[str] | None = None,
    carry: Duration = "24h",
) -> IntoFrameT:
    r"""Share of each token in the market caps of a universe of tokens.

    .. math:: d_i = M_i / \sum_{j \in U} M_j

    If the market cap of one token of the universe is unknown, the sum is unknown, and all shares are null.

    Parameters
    ----------
    frame : frame, n rows, key (token, by, timestamp), any order
        Schema ``TOKEN_SUPPLY_AGG``, with all tokens of the universe.
    universe : collection of str
        U, the tokens whose market caps are summed. Dominance depends on it, so there is no default.
    marketcap : str
        Column of the market caps. [USD]
    token : str
        Column that names the token.
    by : str or iterable of str, optional
        Columns that tell one sum from another; by default the identity columns that neither name a market nor are
        ``token``.
    carry : str or timedelta, > 0
        The age up to which the last report of a token counts at times at which only other tokens report.

    Returns
    -------
    frame, a row per row that has a time, sorted by (by, timestamp, token), of the kind of ``frame``
        The frame's columns, and

        - ``dominance`` : float64, null for tokens outside the universe, and if the market cap is not finite or the sum
          is not positive. [1]
        - ``universe_total`` : float64, the sum; null if ``universe_known`` is less than ``universe_size``, also if a
          name of the universe is no token of the frame, and if a token appears twice at the time of its last report.
          [USD]
        - ``universe_known`` : int64, tokens of the universe whose market cap is known.
        - ``universe_size`` : int64, tokens of the universe.

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If the universe is empty or a single string, market caps are not numbers, or ``carry`` is not a positive
        duration.

    References
    ----------
    tidytape's own convention; see definitions.

    Examples
    --------
    >>> import polars as pl
    >>> caps = pl.DataFrame({"coin": ["BTC", "ETH", "X"], "timestamp": [0, 0, 0], "marketcap": [3e12, 1e12, 1e12]})
    >>> dominance(caps, universe=["BTC", "ETH"]).select("coin", "dominance").rows()
    [('BTC', 0.75), ('ETH', 0.25), ('X', None)]
    """
    tokens = [] if isinstance(universe, str) else as_list(universe)
    if not tokens or not all(isinstance(name, str) for name in tokens):
        raise QueryError("universe", got=universe, expected="names of tokens, at least one")
    names = sorted(set(tokens))
    longest = arguments.duration("carry", carry)
    table = OpenTable.of(frame, [token, "timestamp"], numbers=[marketcap])
    result_columns = ["dominance", "universe_total", "universe_known", "universe_size"]
    arguments.column("marketcap", marketcap, reserved=result_columns)
    series_columns = across(table, by, without=[token, marketcap, *result_columns])
    columns = [name for name in table.names if name not in result_columns]
    rows = table.rows.filter(~nw.col("timestamp").is_null()).select(*columns)
    is_in_universe, cap = nw.col(token).is_in(names), finite(marketcap)
    caps = without_repeats(
        rows.filter(is_in_universe).with_columns(__cap=cap),
        series_columns,
        members=[token],
        amounts=["__cap"],
    )
    sums = standing_sums(
        caps,
        rows,
        members=[token],
        series_columns=series_columns,
        columns=["__cap"],
        carry=longest,
        counts=[IS_REPEATED],
    )
    known_count = nw.col(STANDING) - nw.col(UNKNOWN)
    sums = sums.select(
        *series_columns,
        "timestamp",
        universe_total=nw.when(nw.col(IS_REPEATED) == 0, known_count == len(names)).then(nw.col("__cap")),
        universe_known=known_count.cast(nw.Int64()),
    )
    result = joined(rows, sums, on=[*series_columns, "timestamp"]).with_columns(
        dominance=nw.when(is_in_universe, nw.col("universe_total") > 0).then(cap / nw.col("universe_total")),
        universe_size=nw.lit(len(names), nw.Int64()),
    )
    main = [marketcap, "universe_total", "dominance"]
    return table.closed(
        result.select(*columns, *result_columns), sort=[*series_columns, "timestamp", token], main=main
    )


def consolidated(frame: IntoFrameT, /, *, by: str | Iterable[str] | None = None) -> IntoFrameT:
    r"""One candle per interval from the candles of all markets, as if all traded on one market.

    Volumes are summed, and high and low are the extremes. The open is that of the market that traded first, and the
    close that of the market that traded last. If several markets traded at the same moment, the first by (exchange,
    raw_symbol) gives the open and the last gives the close. If it is unknown when one of several markets traded first
    (last), as in recorded candles, the open (close) is null. Candles that only fill a gap count only where no market
    traded. If one volume is unknown, the sum is unknown; high and low are known all the same.

    Parameters
    ----------
    frame : frame, n rows, key (exchange, raw_symbol, by, timestamp), any order
        Candles of single markets: ``open``, ``high``, ``low``, ``close`` [quote per coin], ``volume`` and the times of
        the first and the last trade, if they are known. Prices are in one quote, and volumes in one unit. The service
        reports the volume of a group in USD.
    by : str or iterable of str, optional
        Columns that tell one candle from another; by default the identity columns that do not name a market, such as
        ``coin``.

    Returns
    -------
    frame, one row per by and timestamp, sorted by these, of the kind of ``frame``
        ``by``, ``timestamp``, ``open``, ``high``, ``low``, ``close`` [quote per coin], ``volume`` [as in ``frame``],
        ``first_timestamp``, ``last_timestamp``, ``markets`` : int64, markets that traded, and ``coverage`` : float64,
        share of the candles whose volume is known [1]. If a market has duplicate candles, prices and volume are null,
        and the other columns count one of the duplicates, if possible one with trades. If a series mixes values of
        ``amount_unit``, volume and ``coverage`` are null, but the prices are known.

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If the frame has a column ``price`` that is not in ``by``, because it may then have several rows per market. Or
        if prices or volumes are not numbers, or a time has no zone.

    References
    ----------
    tidytape's own convention; see definitions.

    Examples
    --------
    >>> import polars as pl
    >>> start = 1_723_075_200_000_000_000  # 2024-08-08 in nanoseconds
    >>> candles = pl.DataFrame(
    ...     {
    ...         "exchange": ["A", "B"],
    ...         "raw_symbol": "X",
    ...         "timestamp": [start, start],
    ...         "open": [10.0, 10.5],
    ...         "high": [12.0, 11.0],
    ...         "low": [9.0, 10.0],
    ...         "close": [11.0, 10.0],
    ...         "volume": [0.1, 0.2],
    ...         "first_timestamp": [start + 5, start + 4],
    ...         "last_timestamp": [start + 50, start + 40],
    ...     }
    ... )
    >>> consolidated(candles).select("open", "high", "low", "close", "volume", "markets").row(0)
    (10.5, 12.0, 9.0, 11.0, 0.3, 2)
    """
    table, rows, series_columns = markets(
        frame, by, [*OHLC, "volume"], optional=TRADED, results=["markets", COVERAGE]
    )
    rows = with_times(rows)
    keys, key = [*series_columns, "timestamp"], [*series_columns, *MARKET, "timestamp"]
    rows = with_fills(
        with_repeats(rows, series_columns, of_amounts=True), [*series_columns, *MARKET], cut=True
    )
    rows = traded(rows, key).unique(subset=key, keep="any")
    rows = with_coverage(rows, ["volume"]).with_columns(
        markets=1.0 - nw.col(IDLE), __again=(nw.col(ROW_COUNT) > 1).cast(nw.Float64()).max().over(*keys)
    )
    amounts = ["volume", "markets", "__again", HAS_MIXED_UNITS, COVERAGE]
    candles = one_candle(rows, keys, [*OHLC, *TRADED, *amounts], members=MARKET)
    is_single, has_one_unit = nw.col("__again") == 0, nw.col(HAS_MIXED_UNITS) == 0
    result = candles.select(
        *keys,
        *(nw.when(is_single).then(nw.col(name)).alias(name) for name in OHLC),
        nw.when(is_single, has_one_unit).then(nw.col("volume")).alias("volume"),
        *(name for name in TRADED if name in table.names),
        nw.col("markets").cast(nw.Int64()),
        nw.when(has_one_unit).then(nw.col(COVERAGE)).alias(COVERAGE),
    )
    return table.closed(result, sort=keys, main=[*OHLC, "volume"])
