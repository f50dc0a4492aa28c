"""What the service says of each series: what its amounts count, how high its levels are, and up to when it is known.

A market is known up to its newest event in every table that the points are made of. Nothing after that is taken as
known, not even the rest of a quiet minute: a trade may still come in. A market without an event in one of these tables
is not known at all, as its events may still be ingested; markets of a category that has no such data do not count.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import polars as pl

from tidytape.catalogue import AmountUnit
from tidytape.lake import Lake
from tidytape.schema import data_type, schema_of
from tidytape.service.options import Instrument, quote_markets
from tidytape.service.plans import SOURCES, Want, has_tiles, in_usd
from tidytape.times import DAY
from tidytape.wire.tidy import DATA_UNTIL, with_finality

__all__ = ["descriptions", "with_descriptors"]

_CANDLES = "TRADE_SIDE_AGNOSTIC_AGG"


def descriptions(name: str, wants: Iterable[Want]) -> pl.DataFrame:
    """Return what the series of each market say of themselves.

    Parameters
    ----------
    name : str
        Name of the data type.
    wants : iterable of Want
        What is asked of each market.

    Returns
    -------
    polars.DataFrame, one row per market
        ``exchange``, ``raw_symbol``, ``coin``, the descriptors of the type but ``is_final``, and ``data_until`` [UTC].
    """
    rows = [
        {
            "exchange": want.one.exchange,
            "raw_symbol": want.one.raw_symbol,
            "coin": want.one.coin,
            "amount_unit": AmountUnit.USD if in_usd(want.query) else AmountUnit.COIN,
            "block_size": None if want.one.block_size is None else float(want.one.block_size),
            DATA_UNTIL: _known_until(name, want),
        }
        for want in wants
    ]
    dtypes = {
        **dict.fromkeys(["exchange", "raw_symbol", "coin", "amount_unit"], pl.String()),
        "block_size": pl.Float64(),
        DATA_UNTIL: pl.Datetime("ns", "UTC"),
    }
    left_out = {"amount_unit", "block_size"}.difference(schema_of(name).names)
    return pl.DataFrame(rows, schema=dtypes).drop(left_out)


def with_descriptors(
    frame: pl.DataFrame, described: pl.DataFrame, data_type: str, *, by_coin: bool
) -> pl.DataFrame:
    """Return points with what their series say of themselves.

    Parameters
    ----------
    frame : polars.DataFrame
        In the schema of its data type.
    described : polars.DataFrame
        Of the markets, see `descriptions`.
    data_type : str
        Its name.
    by_coin : bool
        Whether the coin alone names a series, as of a group or a token. A group is known up to what its oldest member
        is known up to, and its members have one unit and one block size.
    """
    keys = ["exchange", "raw_symbol", "coin"]
    values = [name for name in described.columns if name not in keys]
    dtypes = {**described.schema, **frame.schema}
    if described.height == 1:  # without the join, which takes longer than to read the points
        frame = frame.with_columns(pl.lit(described[name]).first().cast(dtypes[name]) for name in values)
        return with_finality(frame, data_type)
    if by_coin:
        keys = ["coin"]
        described = described.group_by(keys).agg(pl.col(name).min() for name in values)
    described = described.with_columns(pl.col(keys).replace("", None))  # what has no exchange or no symbol
    left = frame.select(pl.col(keys).cast(pl.String))
    found = left.join(described, on=keys, how="left", nulls_equal=True, maintain_order="left")
    frame = frame.with_columns(found[name].cast(dtypes[name]) for name in values)
    return with_finality(frame, data_type)


def _known_until(name: str, want: Want) -> int | None:
    """Return the oldest of the newest events in the tables that points are made of; None where none is needed. [ns]"""
    return min(_newest_events(name, want), default=None)


def _newest_events(name: str, want: Want) -> Iterator[int]:
    """Give the newest event of each table that points are made of; 0 of one without events. [ns]"""
    lake, one = want.lake, want.one
    if name == "TOKEN_SUPPLY_AGG":
        yield from _tokens(lake, one)
    elif one.members:
        # Most markets of a coin never have liquidations.
        newest = [_last(lake, "liquidations", one.exchange, symbol) for symbol in one.members]
        yield min(filter(None, newest), default=0)
    elif name not in SOURCES:  # of options
        yield _last(lake, "option_quotes", one.exchange, one.coin or "")
    else:
        newest_event = _newest_of_candles(want) if name == _CANDLES else _source(lake, SOURCES[name], one)
        categories = data_type(name).categories
        if not newest_event and categories and one.category is not None and one.category not in categories:
            return  # a spot market has no funding, and keeps no group from being final
        yield newest_event
        # A group's funding is weighted by open interest in US dollars.
        if name == "FUNDING_RATE_AGG" and in_usd(want.query):
            yield _source(lake, SOURCES["OPEN_INTEREST_AGG"], one)
        if name in {"FUNDING_RATE_AGG", "OPEN_INTEREST_AGG"} and in_usd(want.query):
            yield _newest_of_candles(want)
    if want.needs_rates and one.quote_coin is not None:
        yield from _rates(lake, one.quote_coin)


def _newest_of_candles(want: Want) -> int:
    """Return the newest trade, or the newest recorded candle where those of the window make up its interval."""
    partition = want.one.exchange, want.one.raw_symbol
    trade, candle = (_last(want.lake, table, *partition) for table in ("trades", "candles"))
    return max(trade, candle) if not trade or (candle > trade and has_tiles(want)) else trade


def _source(lake: Lake, tables: Iterable[str], one: Instrument) -> int:
    """Return the newest event of the first of these tables that has any of a market; 0 where none has."""
    newest = (_last(lake, table, one.exchange, one.raw_symbol) for table in tables)
    return next(filter(None, newest), 0)


def _last(lake: Lake, table: str, *partition: str) -> int:
    """Return the newest event of a partition of a table; 0 without any."""
    _, last = lake.extent(table, *partition)
    return last or 0


def _tokens(lake: Lake, one: Instrument) -> Iterator[int]:
    """Give the newest report of each token whose market capitalisation counts in the share of this one."""
    newest = lake.scan("token_supply").group_by("token_name").agg(pl.col("timestamp").max()).collect()
    own = newest.filter(pl.col("token_name") == one.raw_symbol)["timestamp"].max()
    yield from newest.filter(pl.col("timestamp") > own - DAY)["timestamp"]  # type: ignore[operator]  # an int


def _rates(lake: Lake, quote: str) -> Iterator[int]:
    """Give the newest of what a quote is known to be worth."""
    reported = lake.scan("quote_rates").filter(pl.col("quote_coin") == quote)
    last = reported.select(pl.col("timestamp").max()).collect().item()
    if last is not None:
        yield last
        return
    yield from filter(None, (_last(lake, "trades", *market) for market in quote_markets(lake, quote)))
