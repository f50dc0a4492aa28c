"""The columns of an answer that describe a series: its descriptors, and up to which time it is known."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import polars as pl

from tidytape.catalogue import AmountUnit, Selection
from tidytape.lake import LakeReader
from tidytape.schema import data_type, schema_of
from tidytape.service.answer._candles import has_tiles
from tidytape.service.answer._plans import PLANS, reads
from tidytape.service.answer._scan import MarketScan, in_usd, quote_markets
from tidytape.times import DAY
from tidytape.wire._tidy import DATA_UNTIL, SESSION, with_finality, with_series


def descriptions(name: str, scans: Iterable[MarketScan]) -> pl.DataFrame:
    """Return the descriptors of the series of each market.

    Parameters
    ----------
    name : str
        Name of the data type.
    scans : iterable of MarketScan
        The scan of each market.

    Returns
    -------
    polars.DataFrame, one row per market
        ``exchange``, ``raw_symbol``, ``coin``, the descriptors of the type without ``is_final``, and ``data_until``
        [UTC]: the oldest of the newest events in the tables that the points are made of. It is the epoch if one of
        these tables has no event of the market, because events may still be ingested; it is null for a market of a
        category that never has such data. If the recording of the market is over, it is 31 days after its last event,
        so that every interval and session with events has ended. And ``session``, if the lake states that of a market.
    """
    dtypes = {
        "block_size": pl.Float64(),
        DATA_UNTIL: pl.Datetime("ns", "UTC"),
        SESSION: pl.Categorical(),
    }
    schema = {column: dtypes.get(column, pl.String()) for column in _columns(name)}
    described = pl.DataFrame([description(name, scan) for scan in scans], schema=schema)
    return described.drop(SESSION) if described[SESSION].null_count() == described.height else described


def description(name: str, scan: MarketScan) -> dict[str, Any]:
    """Return a row of `descriptions`, with times in ns since the epoch."""
    descriptors = {
        "exchange": scan.market.exchange,
        "raw_symbol": scan.market.raw_symbol,
        "coin": scan.market.coin,
        "amount_unit": AmountUnit.USD if in_usd(scan.query) else AmountUnit.COIN,
        "block_size": None if scan.market.block_size is None else float(scan.market.block_size),
        DATA_UNTIL: known_until(name, scan, counts_closed=True),
        SESSION: scan.market.session,
    }
    return {column: descriptors[column] for column in _columns(name)}


def _columns(name: str) -> list[str]:
    """Return the columns of `descriptions` of a data type."""
    type_columns = [column for column in ("amount_unit", "block_size") if column in schema_of(name).names]
    return ["exchange", "raw_symbol", "coin", *type_columns, DATA_UNTIL, SESSION]


def with_descriptors(
    frame: pl.DataFrame, described: pl.DataFrame, data_type: str, *, by_coin: bool
) -> pl.DataFrame:
    """Add to points the descriptors of their series.

    Parameters
    ----------
    frame : polars.DataFrame
        The points, in the schema of their data type.
    described : polars.DataFrame
        The descriptors of the markets, see `descriptions`.
    data_type : str
        Name of the data type.
    by_coin : bool
        Whether only the coin names a series, as for a group or a token. A group is known up to the earliest time up to
        which one of its members is known; all members have the same unit and block size.
    """
    key_columns = ["exchange", "raw_symbol", "coin"]
    value_columns = [name for name in described.columns if name not in key_columns]
    dtypes = {**described.schema, **frame.schema}
    if described.height == 1:  # no join, because a join takes longer than reading the points
        columns = (
            described[name].cast(dtypes[name]).new_from_index(0, frame.height) for name in value_columns
        )
        return with_finality(with_series(frame, *columns), data_type)
    if by_coin:
        key_columns = ["coin"]
        described = described.group_by(key_columns).agg(pl.col(name).min() for name in value_columns)
    # Tokens and coins have an empty exchange or symbol here, and null in the points.
    described = described.with_columns(pl.col(key_columns).replace("", None))
    names = frame.select(pl.col(key_columns).cast(pl.String))
    joined = names.join(described, on=key_columns, how="left", nulls_equal=True, maintain_order="left")
    frame = frame.with_columns(joined[name].cast(dtypes[name]) for name in value_columns)
    return with_finality(frame, data_type)


_LONGEST_SESSION = 31 * DAY


def known_until(name: str, scan: MarketScan, *, counts_closed: bool = False) -> int | None:
    """Return the oldest of the newest events in the tables that points are made of; None if no event is needed. [ns]

    With ``counts_closed`` a recording that is over is known longer than any interval or session.
    """
    newest_events = list(_newest_events(name, scan))
    if counts_closed and data_type(name).selection is not Selection.TOKEN:
        ends = [scan.lake.closed_at(*partition) or 0 for partition in scan.market.partitions]
        if all(ends) and max(newest_events, default=0) <= max(ends):
            return max(ends) + _LONGEST_SESSION
    return min(newest_events, default=None)


def _newest_events(name: str, scan: MarketScan) -> Iterator[int]:
    """Yield the newest event of each type that the points of a market are made of; 0 for a type without events. [ns]"""
    definition, market = data_type(name), scan.market
    if definition.selection is Selection.TOKEN:
        yield from _newest_of_tokens(name, scan)
    else:
        newest_event, *newest_of_others = (_newest_of_type(other, scan) for other in reads(name, scan.query))
        is_of_class = (
            not definition.categories or market.category is None or market.category in definition.categories
        )
        if not newest_event and not is_of_class:
            return  # e.g. a spot market never has funding, so it must not keep a group from being final
        yield newest_event
        yield from newest_of_others
    if scan.needs_rates and market.quote_coin is not None:
        yield from _rate_times(scan.lake, market.quote_coin)


def _newest_of_type(name: str, scan: MarketScan) -> int:
    """Return the newest event of a market for points of a data type; 0 without events. [ns]

    For a coin with several markets this is the oldest of their newest events. Markets without events do not count,
    because most markets of a coin never have liquidations.
    """
    table, *other_tables = PLANS[name].tables
    if other_tables:
        return _newest_of_candles(scan)
    newest_events = (_newest(scan.lake, table, *partition) for partition in scan.market.partitions)
    return min(filter(None, newest_events), default=0)


def _newest_of_candles(scan: MarketScan) -> int:
    """Return the newest trade, or the newest recorded candle if that is newer and candles can be used. [ns]"""
    partition = scan.market.exchange, scan.market.raw_symbol
    trade, candle = (_newest(scan.lake, table, *partition) for table in ("trades", "candles"))
    return max(trade, candle) if not trade or (candle > trade and has_tiles(scan)) else trade


def _newest(lake: LakeReader, table: str, *partition: str) -> int:
    """Return the newest event of a partition of a table; 0 without events. [ns]"""
    _, last_event = lake.extent(table, *partition)
    return last_event or 0


def _newest_of_tokens(name: str, scan: MarketScan) -> Iterator[int]:
    """Yield the newest report of each token whose market capitalisation counts in this token's dominance. [ns]"""
    reports = scan.lake.scan("token_supply").group_by("token_name").agg(pl.col("timestamp").max()).collect()
    newest_report: Any = reports.filter(pl.col("token_name") == scan.market.raw_symbol)["timestamp"].max()
    if newest_report is None:
        yield 0
        return
    is_counted = pl.col("timestamp") > newest_report - reads(name, scan.query)[name].before
    yield from reports.filter(is_counted)["timestamp"]


def _rate_times(lake: LakeReader, quote: str) -> Iterator[int]:
    """Yield the times up to which the USD rate of a quote is known. [ns]"""
    last_report = (
        lake.scan("quote_rates")
        .filter(pl.col("quote_coin") == quote)
        .select(pl.col("timestamp").max())
        .collect()
        .item()
    )
    if last_report is not None:
        yield last_report
        return
    yield from filter(None, (_newest(lake, "trades", *market) for market in quote_markets(lake, quote)))
