"""Notes: why an answer has no points of a market, or none in a part of the window."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import polars as pl

from tidytape.catalogue import DataType, Interval, NoteCode, Selection, Tenor
from tidytape.lake import TABLES, LakeReader
from tidytape.query import PointsQuery
from tidytape.schema import data_type as data_type_of
from tidytape.service.answer._candles import lengths_without_points
from tidytape.service.answer._inventory import tenors, types_of
from tidytape.service.answer._plans import PLANS, TABLES_OF_MARKETS
from tidytape.service.answer._scan import Market, MarketScan
from tidytape.times import DAY, SECOND
from tidytape.wire._notes import Note
from tidytape.wire._tidy import epoch_nanoseconds

_QUIET = DAY
"""The longest time between two events of a market that the lake covers; a longer one is a hole in its data. [ns]"""

_TABLES = sorted({table for tables in TABLES_OF_MARKETS.values() for table in tables})


def notes_of(
    lake: LakeReader,
    query: PointsQuery,
    name: str,
    markets: Sequence[Market],
    frame: pl.DataFrame,
    *,
    now: int,
) -> list[Note]:
    """Return a note for each market of the query whose points do not fill the window.

    Nearly all facts come from the logs of the lake's tables, which are in memory. Rows are read only for markets with
    recorded candles, because no log has the lengths of candles.

    Parameters
    ----------
    lake : LakeReader
    query : PointsQuery
    name : str
        The data type.
    markets : sequence of Market
        The markets of that type that the query selects.
    frame : polars.DataFrame
        The answer.
    now : int
        The present time. [ns since the epoch]

    Returns
    -------
    list of Note
        A market without points has a note that says why. A market with points has a note if its type is dense and the
        points do not reach both ends of the window. So has a member of a group that adds nothing, and an exchange of
        the query without a selected market, so have parameters that the type has no use for, and a market of whose
        trades some have no side, if the points tell sides.
    """
    data_type = data_type_of(name)
    notes = notes_of_query(query, name, markets)
    notes += notes_of_sides(name, (MarketScan(lake, market, query) for market in markets))
    if len(markets) == 1 and frame.height and not data_type.dense:
        return notes
    columns = ["coin"] if query.group_by or data_type.selection is Selection.TOKEN else _MARKET
    is_full_by_market = _full(frame, data_type, query, columns, has_one_market=len(markets) == 1)
    exchanges_of_class = {
        market.exchange
        for market in markets
        if not data_type.categories or market.category in data_type.categories
    }
    for market in markets:
        key = tuple(getattr(market, column) or None for column in columns)
        scan = MarketScan(lake, market, query)
        if key in is_full_by_market and not query.group_by:
            note = _part(data_type, scan, is_full=is_full_by_market[key])
        elif frame.height and market.exchange in exchanges_of_class and _is_of_no_such_class(data_type, scan):
            note = None
        else:
            note = _lacking(
                data_type,
                scan,
                is_empty=key not in is_full_by_market,
                is_full=is_full_by_market.get(key, False),
                now=now,
            )
        notes += [] if note is None else [note]
    return notes


_USED: Mapping[str, Callable[[DataType], bool]] = MappingProxyType(
    {
        "max_depth": lambda data_type: data_type.included_depth is not None,
        "funding_interval": lambda data_type: data_type.funding_interval,
    }
)
"""The parameters that a data type may have no use for, and whether it has."""


def notes_of_query(query: PointsQuery, name: str, markets: Sequence[Market]) -> list[Note]:
    """Return the notes that need no points: parameters without use, sums over exchanges, and absent markets."""
    is_used = {field: is_used(data_type_of(name)) for field, is_used in _USED.items()}
    ignored = tuple(
        PointsQuery.WIRE[field]
        for field, used in is_used.items()
        if not used and getattr(query, field) is not None
    )
    notes = [Note(NoteCode.IGNORED, name, parameters=ignored)] if ignored else []
    notes += [
        Note(NoteCode.SUMMED, name, coin=market.coin, exchanges=market.exchanges)
        for market in markets
        if len(market.exchanges) > 1
    ]
    return notes + absent(query, name, markets)


def notes_of_sides(name: str, scans: Iterable[MarketScan]) -> list[Note]:
    """Return a note for each market with trades without a side in the window, if the points of the type tell sides.

    The logs say which files have such trades. Only these files are read, up to the first such trade.
    """
    if not PLANS[name].tells_sides:
        return []
    return [
        Note(NoteCode.NO_SIDE, name, scan.market.exchange, scan.market.raw_symbol, scan.market.coin)
        for scan in scans
        if scan.may_lack_sides and not _sideless(scan, name).head(1).collect(engine="streaming").is_empty()
    ]


def _sideless(scan: MarketScan, name: str) -> pl.LazyFrame:
    """Return the trades without a side in the window; that of raw trades is not widened to whole intervals."""
    query, market = scan.query, scan.market
    start, end = (query.start, query.end) if data_type_of(name).interval_optional else query.span
    names = {"exchange": market.exchange, "raw_symbol": market.raw_symbol}
    trades = scan.lake.scan("trades", **names, start=start * SECOND, end=end * SECOND)
    return trades.select("side").filter(pl.col("side").is_null())


def absent(query: PointsQuery, name: str, markets: Sequence[Market]) -> list[Note]:
    """Return a note for each exchange of a query that has none of the symbols or coins that another exchange has.

    There are no notes if the query names a ``category`` or ``event``, which may leave exchanges out on purpose.

    Examples
    --------
    >>> query = PointsQuery(type="TRADE_AGG", exchange=["X", "Y"], coin="SOL", interval="1d", start=0, end=86_400)
    >>> [note] = absent(query, "TRADE_AGG", [Market("X", "SOL-USD", "SOL-USD", "SOL", "SPOT", None)])
    >>> note.code, note.exchange, note.coin
    (<NoteCode.NO_DATA: 'NO_DATA'>, 'Y', 'SOL')
    """
    if (
        data_type_of(name).selection not in {Selection.MARKET, Selection.OPTION_SUMMARY}
        or query.category
        or query.event
    ):
        return []
    symbol = ", ".join(query.raw_symbol or query.normalized_symbol) or None
    coin = ", ".join(query.coin) or None
    exchanges = {market.exchange for market in markets}
    return [
        Note(NoteCode.NO_DATA, name, exchange, symbol, coin)
        for exchange in query.exchange
        if exchange not in exchanges
    ]


def note_of_reach(query: PointsQuery, name: str, scan: MarketScan, first: int, last: int) -> list[Note]:
    """Return what `notes_of` returns for one market that has points.

    Every series of the market has points from ``first`` to ``last``. [ns since the epoch]
    """
    data_type = data_type_of(name)
    note = (
        _part(data_type, scan, is_full=_reaches(query, first // SECOND, last // SECOND))
        if data_type.dense
        else None
    )
    return [] if note is None else [note]


def _reaches(query: PointsQuery, first: Any, last: Any) -> Any:
    """Return whether points from ``first`` to ``last`` [s], numbers or expressions, reach both ends of the window."""
    start, end = query.span
    return (first <= start) & (last >= end - query.step)


_MARKET = ["exchange", "raw_symbol", "coin"]


def _full(
    frame: pl.DataFrame, data_type: DataType, query: PointsQuery, columns: list[str], *, has_one_market: bool
) -> dict[tuple[str | None, ...], bool]:
    """Return for each market with points whether they reach both ends of the window; true if the type is not dense.

    ``has_one_market`` says that all points belong to one market.
    """
    side_columns = ["side"] if data_type.per_side else []
    if has_one_market and not side_columns and frame.height:  # faster than a query of polars
        times = epoch_nanoseconds(frame["timestamp"])
        reaches_ends = not data_type.dense or _reaches(query, times.min() // SECOND, times.max() // SECOND)
        return {tuple(frame[column][0] for column in columns): bool(reaches_ends)}
    first, last = pl.col("timestamp").min(), pl.col("timestamp").max()
    series = frame.group_by(*columns, *side_columns).agg(first=first, last=last)
    if side_columns:
        # A market may have few trades without a side; they need not reach an end that a side reaches.
        ends = {"first": pl.col("first").min().over(columns), "last": pl.col("last").max().over(columns)}
        is_sideless = pl.col("side").is_null()
        series = series.with_columns(
            pl.when(is_sideless).then(end).otherwise(name).alias(name) for name, end in ends.items()
        )
    first, last = pl.col("first").dt.epoch("s"), pl.col("last").dt.epoch("s")
    reaches_ends = _reaches(query, first, last) if data_type.dense else pl.lit(value=True)
    series = series.select(*columns, *side_columns, reaches_ends)
    is_full_by_market: dict[tuple[str | None, ...], bool] = {}
    for *names, is_full in series.iter_rows():
        market = tuple(names[: len(columns)])
        is_full_by_market[market] = bool(is_full) and is_full_by_market.get(market, True)
    return is_full_by_market


def able_intervals(scan: MarketScan) -> list[Interval] | None:
    """Return the intervals for which the recorded candles of a market suffice, if the points leave some candles out.

    None if the points include every recorded candle of the window.
    """
    candle_lengths = lengths_without_points(scan)
    if not candle_lengths:
        return None
    return [
        interval for interval in Interval if any(interval.seconds % length == 0 for length in candle_lengths)
    ]


def _is_of_no_such_class(data_type: DataType, scan: MarketScan) -> bool:
    """Return whether a coin or a common symbol selected a market whose category does not have the type."""
    return (
        not scan.query.raw_symbol
        and bool(data_type.categories)
        and scan.market.category not in data_type.categories
    )


def _lacking(
    data_type: DataType, scan: MarketScan, *, is_empty: bool, is_full: bool, now: int
) -> Note | None:
    """Return why a market has no points, or adds none to its group; None if the points are complete."""
    events = _events(data_type, scan)
    if events is None:
        types = tuple(
            name
            for name, plan in PLANS.items()
            if TABLES[plan.tables[0]].partitions and scan.extent(*plan.tables)
        )
        return _note(NoteCode.NO_DATA, data_type, scan, types=types)
    if scan.start > now or scan.query.around is not None:
        return _note(NoteCode.NOT_BEGUN, data_type, scan)
    types = _types_of_candles(data_type, scan)
    if _is_outside(data_type, scan, events) or (types and (scan.end <= events[0] or scan.start > events[1])):
        return _note(NoteCode.OUTSIDE, data_type, scan, types=types)
    if not is_empty:
        return _part(data_type, scan, is_full=is_full)
    if intervals := _intervals(data_type, scan):
        return _note(NoteCode.NO_DATA, data_type, scan, intervals=intervals)
    tenor = scan.query.tenor
    if (
        tenor is not None
        and (tenors_with_quotes := _tenors(data_type, scan, last=events[1]))
        and tenor not in tenors_with_quotes
    ):
        return _note(NoteCode.NO_DATA, data_type, scan, tenors=tuple(map(str, tenors_with_quotes)))
    return _note(NoteCode.QUIET, data_type, scan)


def _is_outside(data_type: DataType, scan: MarketScan, events: tuple[int, int]) -> bool:
    """Return whether the window lies outside of all events of a market, or far outside of those of the type."""
    first, last = (scan.extent(*_TABLES) if data_type.name in TABLES_OF_MARKETS else None) or events
    is_before = scan.end <= max(first, events[0] - _QUIET)
    return is_before or scan.start > min(last, events[1] + _QUIET)


def _part(data_type: DataType, scan: MarketScan, *, is_full: bool) -> Note | None:
    """Return the note of a market with incomplete points; None if they reach both ends and include every candle."""
    intervals = _intervals(data_type, scan)
    if is_full and not intervals:
        return None
    return _note(
        NoteCode.PART, data_type, scan, types=_types_of_candles(data_type, scan), intervals=intervals
    )


def _note(code: NoteCode, data_type: DataType, scan: MarketScan, **lists: tuple[str, ...]) -> Note:
    """Return a note about a market, with the times of its first and last event, and the symbol that it had or has."""
    market, is_token = scan.market, data_type.selection is Selection.TOKEN
    symbol = None if is_token else market.raw_symbol or None
    coin = market.coin or (market.raw_symbol if is_token else None)
    first, last = _events(data_type, scan) or (None, None)
    note = Note(code, data_type.name, market.exchange or None, symbol, coin, first, last)
    more: dict[str, Any] = {**lists, **_other_symbol(scan)}
    return replace(note, **more)


def _other_symbol(scan: MarketScan) -> dict[str, Any]:
    """Return the symbol that a market had at the start of the window, or has at its end, if it is another one."""
    renamed_at, symbol = pl.col("renamed_at"), scan.market.raw_symbol
    renamings = scan.lake.markets().filter(exchange=scan.market.exchange).drop_nulls("renamed_at")
    before = renamings.filter(renamed_at > scan.start, renamed_to=symbol)
    since = renamings.filter(renamed_at < scan.end, raw_symbol=symbol)
    for row in before.iter_rows(named=True):
        return {"renamed_from": row["raw_symbol"], "renamed_at": row["renamed_at"]}
    for row in since.iter_rows(named=True):
        return {"renamed_to": row["renamed_to"], "renamed_at": row["renamed_at"]}
    return {}


def _events(data_type: DataType, scan: MarketScan) -> tuple[int, int] | None:
    """Return the times of the first and the last event of a market for a data type; None without events. [ns]"""
    if data_type.selection is not Selection.TOKEN:
        return scan.extent(*PLANS[data_type.name].tables)
    reports = scan.lake.scan("token_supply").filter(pl.col("token_name") == scan.market.raw_symbol)
    first, last = (
        reports.select(first=pl.col("timestamp").min(), last=pl.col("timestamp").max()).collect().row(0)
    )
    return None if first is None else (first, last)


def _intervals(data_type: DataType, scan: MarketScan) -> tuple[str, ...]:
    """Return `able_intervals` of a type that is made of recorded candles; an empty tuple for other types."""
    return tuple(map(str, able_intervals(scan) or ())) if "candles" in PLANS[data_type.name].tables else ()


def _types_of_candles(data_type: DataType, scan: MarketScan) -> tuple[str, ...]:
    """Return the types made of recorded candles, if this type needs trades and only candles cover the whole window."""
    if TABLES_OF_MARKETS.get(data_type.name) != ("trades",) or not scan.holds("candles"):
        return ()
    candles, trades = scan.extent("candles"), scan.extent("trades")
    if candles is None or trades is None:
        return ()
    is_beyond = min(scan.end - 1, candles[1]) > trades[1] or max(scan.start, candles[0]) < trades[0]
    return tuple(types_of("candles")) if is_beyond else ()


def _tenors(data_type: DataType, scan: MarketScan, *, last: int) -> list[Tenor]:
    """Return the tenors that an option summary has on the last day with quotes, shortest first."""
    market = scan.market
    row = {
        "type": data_type.name,
        "exchange": market.exchange,
        "raw_symbol": market.raw_symbol,
        "coin": market.coin,
        "last": last,
    }
    tenors_present = set(tenors(scan.lake, pl.DataFrame([row]))["tenor"])
    return [tenor for tenor in Tenor if tenor in tenors_present]
