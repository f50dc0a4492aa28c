"""The markets that existed at a time, and renamed markets under one name."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import narwhals.stable.v2 as nw
from narwhals.stable.v2.typing import IntoFrame, IntoFrameT

from tidytape.analytics._arguments import nanoseconds
from tidytape.analytics._series import require_one_engine
from tidytape.errors import QueryError, SurvivorWarning, counted, warn
from tidytape.frames._kinds import Kind
from tidytape.frames._table import IDENTITY, OpenTable, Rows

_MARKET = ("exchange", "raw_symbol")
_NAMES = ("raw_symbol", "normalized_symbol", "coin")
"""Columns that may have other names after a market was renamed."""

_SINCE, _LAST, _RENAMED, _HANDOVER, _CHAIN = "__since", "__last", "__renamed", "__handover", "__chain"


def universe(
    markets: IntoFrame,
    times: IntoFrameT,
    /,
    *,
    on: str = "timestamp",
    tolerance: str | timedelta = timedelta(days=1),
) -> IntoFrameT:
    r"""Return the markets that existed at each time, so that a backtest does not see only those that survived.

    A market existed at the time :math:`t` if

    .. math:: t_\mathrm{since} \le t \le t_\mathrm{last} + \mathrm{tolerance},

    with the time since which it is available and its last event. Until ``tolerance`` after that event nobody could know
    that it was the last. A market that was renamed goes on as one market: its old symbol ends with the first event
    under its new symbol at or after ``renamed_at``, or at ``renamed_at`` if the new symbol had events before that.
    Before ``renamed_at`` nobody knew of the renaming, so each symbol counts by its own events. An exchange may give the
    old symbol to another market later: that market counts by its own events, beginning ``tolerance`` after the old
    symbol ended.

    Parameters
    ----------
    markets : frame, n rows
        What ``client.describe()`` returns: one row per market and data type. Uses ``exchange``, ``raw_symbol``,
        ``available_since`` and ``last_timestamp``; if the frame has them, the other identity columns, ``renamed_to``
        and ``renamed_at``, and ``first_timestamp`` for a market without ``available_since``.
    times : frame of the same engine, m rows
        Uses ``on``; the same time may be there several times, as in candles of several markets.
    on : str
        Column of the times. For decisions made when a candle is complete, the candle's ``known_at``.
    tolerance : str or timedelta, >= 0
        The longest time without an event after which a market still counts as one that exists. It must be longer than
        the gaps between two events of a market, and than its candles, because ``last_timestamp`` of candles is the
        start of the last one.

    Returns
    -------
    frame, one row per time and market, sorted by (on, identity), of the kind of ``times``
        ``on``, and the identity columns of ``markets``, of the same types as in ``times``. If the rows of a market have
        several names or categories, the result has the last in alphabetical order. A market has no row if neither of
        its first times is known. If its ``last_timestamp`` is null, it counts as one that still exists.

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If an argument is not as listed, the frames have two engines, or renamings lead back to an older symbol. Only
        frames in memory are checked for the last.

    Warns
    -----
    SurvivorWarning
        If ``last_timestamp`` of some markets is null, as services other than tidytape's do not tell it. Only frames in
        memory are checked.

    Notes
    -----
    The result up to a time does not change if everything after that time is cut off, as long as no gap between two
    events of a market is longer than ``tolerance``.

    References
    ----------
    tidytape's own convention; see definitions.

    Examples
    --------
    >>> from datetime import UTC, datetime
    >>> import polars as pl
    >>> day = lambda number: datetime(2024, 8, number, tzinfo=UTC)
    >>> markets = pl.DataFrame({
    ...     "exchange": "X", "raw_symbol": ["BTCUSDT", "LUNAUSDT"],
    ...     "available_since": day(1), "last_timestamp": [day(9), day(5)],
    ... })
    >>> universe(markets, pl.DataFrame({"timestamp": [day(6), day(7)]})).select("timestamp", "raw_symbol").rows()
    ... # doctest: +NORMALIZE_WHITESPACE
    [(datetime.datetime(2024, 8, 6, 0, 0, tzinfo=zoneinfo.ZoneInfo(key='UTC')), 'BTCUSDT'),
     (datetime.datetime(2024, 8, 6, 0, 0, tzinfo=zoneinfo.ZoneInfo(key='UTC')), 'LUNAUSDT'),
     (datetime.datetime(2024, 8, 7, 0, 0, tzinfo=zoneinfo.ZoneInfo(key='UTC')), 'BTCUSDT')]
    """
    longest = nanoseconds("tolerance", tolerance)
    instants = OpenTable.of(times, times=[on], parameter="times")
    table = OpenTable.of(
        markets,
        _MARKET,
        times=["available_since", "last_timestamp"],
        optional=_OPTIONAL,
        kinds={"renamed_at": Kind.TIME, "first_timestamp": Kind.TIME},
        parameter="markets",
    )
    require_one_engine(table, instants, "times")
    identity = [name for name in IDENTITY if name in table.names and name not in {"interval", "side"}]
    facts = _facts(table, identity)
    if table.is_eager:
        _check(facts.collect())
    when, handover = nw.col(on), nw.col(_HANDOVER)
    existing = (
        instants.rows.select(on).unique().join(facts, how="cross").filter(
            when >= nw.col(_SINCE),
            nw.col(_LAST).is_null() | (when <= nw.col(_LAST) + longest),
            # Events of the old symbol after that are of another market.
            handover.is_null() | (when < handover) | (~nw.col(_LAST).is_null() & (when > handover + longest)),
        )
    )  # fmt: skip
    # Columns that both frames have get the type that they have in ``times``, so that the result can be joined with it.
    columns_of_times = [name for name in identity if name in instants.names]
    instants = instants.with_text_columns(dict.fromkeys(columns_of_times))
    other_columns = {name: name for name in identity if name not in columns_of_times}
    instants = instants.with_text_columns(other_columns, of=table)
    return instants.closed(existing.select(on, *identity), sort=[on, *identity])


_IS_RENAMED = ~nw.col("renamed_to").is_null() & ~nw.col(_RENAMED).is_null()
_OPTIONAL = ("renamed_to", "renamed_at", "first_timestamp")


def _facts(table: OpenTable[Any], identity: list[str]) -> Rows:
    """Return one row per market with the times between which it existed under its symbol, as far as they are known."""
    since = nw.col("available_since")
    if "first_timestamp" in table.names:
        since = nw.coalesce(since, nw.col("first_timestamp"))
    absent = [name for name in _OPTIONAL[:2] if name not in table.names]
    rows = table.rows.with_columns(
        since.alias(_SINCE),
        *(nw.lit(None, nw.String if name == "renamed_to" else nw.Int64).alias(name) for name in absent),
    )
    key = [name for name in (*_MARKET, "tenor") if name in identity]
    if "coin" in identity:
        # Only the coin tells chains of options apart, which have no symbol.
        is_chain = nw.col("raw_symbol").is_null() | (nw.col("raw_symbol") == "")
        rows = rows.with_columns(nw.when(is_chain).then(nw.col("coin")).alias(_CHAIN))
        key.append(_CHAIN)
    facts = rows.group_by(*key).agg(
        nw.col(_SINCE).min(),
        nw.col("last_timestamp").max().alias(_LAST),
        nw.col("renamed_to").max(),
        nw.col("renamed_at").max().alias(_RENAMED),
        *(nw.col(name).max() for name in identity if name not in key),
    )  # fmt: skip
    renamings = facts.filter(_IS_RENAMED)
    new = facts.filter(~nw.col(_SINCE).is_null()).select(
        "exchange", nw.col("raw_symbol").alias("renamed_to"), nw.col(_SINCE).alias("__new_since")
    )
    # The new symbol takes over with its first event, and not before the renaming.
    handovers = (
        renamings.join(new, on=["exchange", "renamed_to"])
        .with_columns(nw.max_horizontal(_RENAMED, "__new_since").alias(_HANDOVER))
        .group_by(*_MARKET).agg(nw.col(_HANDOVER).min())
    )  # fmt: skip
    return facts.join(handovers, on=list(_MARKET), how="left")


def _check(facts: nw.DataFrame[Any]) -> None:
    """Raise QueryError if renamings lead in a circle, and warn of markets whose end is not known."""
    renamings = facts.filter(_IS_RENAMED).select(*_MARKET, "renamed_to")
    new_symbols = {(exchange, old): new for exchange, old, new in renamings.iter_rows()}
    for exchange, symbol in sorted(new_symbols):
        _newest(exchange, symbol, new_symbols)
    is_unknown = facts[_LAST].is_null()
    if is_unknown.any():
        warn(
            SurvivorWarning(
                f"universe: last_timestamp of {counted(int(is_unknown.sum()), 'market')} of {len(is_unknown):,} is not "
                "known; they count as markets that still exist, also where they do not"
            )
        )


def _newest(exchange: str, symbol: str, new_symbols: Mapping[tuple[str, str], str]) -> str:
    """Return the newest symbol of a market; QueryError if its renamings lead in a circle."""
    symbols = [symbol]
    while (new := new_symbols.get((exchange, symbols[-1]))) is not None:
        if new in symbols:
            got = " to ".join([*symbols, new])
            raise QueryError(
                "markets", got=got, expected="renamings that do not lead back to an older symbol"
            )
        symbols.append(new)
    return symbols[-1]


def under_newest_name(frame: IntoFrameT, markets: IntoFrame, /) -> IntoFrameT:
    """Put the rows of a renamed market under its newest name, so that they are one series.

    Parameters
    ----------
    frame : frame, n rows, any order
        Points of any schema. Uses ``exchange``, ``raw_symbol``, ``timestamp``, and ``normalized_symbol`` and ``coin``
        if it has them.
    markets : frame in memory, one or more rows per market
        What ``client.markets()`` or ``client.describe()`` returns. Uses ``exchange``, ``raw_symbol``, ``renamed_to``
        and ``renamed_at``; and the other names of the newest symbol, if that is among the markets.

    Returns
    -------
    frame, m <= n rows, order, columns and kind of ``frame``
        Rows of an old symbol before ``renamed_at`` get the names of the newest symbol; later rows keep their names,
        because the exchange may have given the symbol to another market. Rows of a new symbol before ``renamed_at``
        are left out: until then the series is that of the old symbol.

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If a column of times has other values, ``markets`` belongs to DuckDB or Spark, or its renamings lead back to an
        older symbol.

    References
    ----------
    tidytape's own convention; see definitions.

    Examples
    --------
    >>> from datetime import UTC, datetime
    >>> import polars as pl
    >>> day = lambda number: datetime(2024, 9, number, tzinfo=UTC)
    >>> closes = pl.DataFrame({
    ...     "exchange": "X", "raw_symbol": ["MATICUSDT", "POLUSDT"], "timestamp": [day(12), day(13)],
    ...     "close": [0.38, 0.37],
    ... })
    >>> markets = pl.DataFrame({
    ...     "exchange": "X", "raw_symbol": ["MATICUSDT"], "renamed_to": ["POLUSDT"], "renamed_at": [day(13)],
    ... })
    >>> under_newest_name(closes, markets).select("raw_symbol", "close").rows()
    [('POLUSDT', 0.38), ('POLUSDT', 0.37)]
    """
    table = OpenTable.of(frame, _MARKET, times=["timestamp"])
    facts = OpenTable.of(markets, [*_MARKET, "renamed_to"], times=["renamed_at"], parameter="markets")
    names = [name for name in _NAMES if name in table.names and name in facts.names]
    registered = facts.collected("renamings are followed one by one")
    renamings: dict[tuple[str, str], tuple[str, int]] = {}
    names_of: dict[tuple[str, str], dict[str, str | None]] = {}
    for row in registered.iter_rows(named=True):
        names_of[row["exchange"], row["raw_symbol"]] = {name: row[name] for name in names}
        if row["renamed_to"] is not None and row["renamed_at"] is not None:
            renamings[row["exchange"], row["raw_symbol"]] = row["renamed_to"], row["renamed_at"]
    new_symbols = {market: new for market, (new, _) in renamings.items()}
    new_values = {name: nw.col(name) for name in names}
    rows = table.rows
    for (exchange, old), (new, renamed_at) in renamings.items():
        is_before = (nw.col("exchange") == exchange) & (nw.col("timestamp") < renamed_at)
        is_early = is_before & (nw.col("raw_symbol") == new)
        rows = rows.filter(nw.when(is_early).then(nw.lit(value=False)).otherwise(nw.lit(value=True)))
        newest = _newest(exchange, old, new_symbols)
        of_newest = {"raw_symbol": newest, **names_of.get((exchange, newest), {})}
        for name, value in new_values.items():
            if name in of_newest:
                is_old = is_before & (nw.col("raw_symbol") == old)
                new_values[name] = nw.when(is_old).then(nw.lit(of_newest[name], nw.String)).otherwise(value)
    rows = rows.with_columns(value.alias(name) for name, value in new_values.items())
    return table.with_text_columns(dict.fromkeys(names)).closed(rows.select(*table.names))
