"""What an ingest registers about the markets of a file: names, class, first event and block size."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import polars as pl

from tidytape.catalogue import BookSide, Category
from tidytape.errors import QueryError
from tidytape.frames._grid import Grid, exact, recommended_block_size
from tidytape.lake._batch import Part
from tidytape.lake._symbols import Symbol, guessed, multiple, told_class
from tidytape.lake._tables import (
    BOOK,
    CME_OPEN_INTEREST,
    FUNDING,
    LIQUIDATIONS,
    MARKETS,
    OPEN_INTEREST,
    RECORDED_CANDLES,
    TRADES,
)
from tidytape.lake.ingest._factors import coin_of
from tidytape.lake.ingest._layout import Parsed
from tidytape.lake.ingest._market import Market, MarketKey


def registry_rows(
    parsed: Parsed,
    market: Market,
    registered: pl.DataFrame,
    *,
    factors: Mapping[MarketKey, Decimal],
    earlier: Collection[MarketKey] = (),
) -> tuple[pl.DataFrame, set[MarketKey]]:
    """Return the rows to register for the markets of a file, and the markets whose coin and quote are guessed.

    Parameters
    ----------
    parsed : Parsed
        What was read.
    market : Market
        What the caller says; a name is that of the files' only market.
    registered : polars.DataFrame
        The registry.
    factors : mapping of (str, str) to Decimal
        Coins in one unit, by market.
    earlier : collection of (str, str)
        Markets of earlier files in the same call.

    Returns
    -------
    polars.DataFrame, one row per market, sorted
        The table MARKETS.
    set of (str, str)
        The markets, (exchange, raw_symbol), whose coin and quote are guessed from the raw symbol.

    Raises
    ------
    QueryError
        If the names of a file's only market cannot be guessed and are neither given nor registered, or one name is
        given to several markets. If a file has several markets, those whose names cannot be guessed get no names.
    """
    summaries = _summaries(parsed)
    _require_class(parsed, market, registered, summaries)
    _require_one_name(market, summaries, earlier)
    markets_with_coin, markets_with_time = (
        _with_value(registered, "coin"),
        _with_value(registered, "available_since"),
    )
    has_later_pieces = parsed.piece is not None  # later pieces may hold other markets, and earlier events
    rows: list[dict[str, Any]] = []
    guesses: set[MarketKey] = set()
    for key, summary in summaries.items():
        names: dict[str, str | None] = {}
        if market.normalized_symbol or market.coin or market.quote or key not in markets_with_coin:
            is_only = len(summaries) == 1 and not has_later_pieces
            is_named = market.normalized_symbol or market.coin or market.quote
            namer = market if is_named else parsed.markets.get(key, market)
            names = _names(key[1], namer, needed=summary.traded and is_only)
            if coin_of(market) is None:
                names = _of_one_coin(names, key, factors[key])
            if names and namer.normalized_symbol is None and namer.quote is None:
                guesses.add(key)
        since = summary.since
        if since is None and key not in markets_with_time and not has_later_pieces:
            # The time of receipt is the last resort: registered times are of the exchange's clock.
            since = summary.received
        rows.append(
            {
                "exchange": key[0],
                "raw_symbol": key[1],
                **names,
                "category": _class_of(key, market, summary, parsed),
                "tick_size": None if market.tick_size is None else float(exact(market.tick_size)),
                "block_size": _block_size(market, summary.price),
                "session": market.session,
                "available_since": since,
            }
        )
    if not rows:
        return MARKETS.empty(), guesses
    return MARKETS.conform(pl.DataFrame(rows, schema_overrides=MARKETS.polars())), guesses


def _with_value(registered: pl.DataFrame, column: str) -> set[MarketKey]:
    """Return the markets whose row of the registry has a value in a column."""
    rows = registered.filter(pl.col(column).is_not_null()).select("exchange", "raw_symbol")
    return set(rows.iter_rows())


@dataclass(frozen=True, slots=True)
class _Summary:
    """What a file shows about a market.

    Attributes
    ----------
    since : int or None
        Time of the first event by the exchange's clock. [ns]
    received : int
        Time of the first event by any clock. [ns]
    price : float or None
        Price of the first trade, else the middle of the first snapshot, else the open of the first candle.
        [quote per coin]
    traded : bool
        Whether it has trades, a book or candles.
    funded : bool
        Whether it has funding rates.
    """

    since: int | None
    received: int
    price: float | None
    traded: bool
    funded: bool


_TIME = pl.col("timestamp")
_FIRST_SNAPSHOT = pl.col("is_snapshot") & (pl.col("last_id") == pl.col("last_id").filter("is_snapshot").min())
_BID, _ASK = (
    pl.col("price").filter(_FIRST_SNAPSHOT & (pl.col("side") == side.value))
    for side in (BookSide.BID, BookSide.ASK)
)
_SINCE = {
    # A snapshot without a time of the exchange has the time of receipt, which is of the recorder's clock.
    BOOK.name: _TIME.filter(~pl.col("is_snapshot") | _TIME.ne_missing(pl.col("received"))).min()
}
_IS_FIRST = _TIME.min() == _TIME
_PRICES = {
    # Sorts only the trades of one time.
    TRADES.name: pl.col("price").filter(_IS_FIRST).sort_by(pl.col("sequence").filter(_IS_FIRST)).first(),
    BOOK.name: (_BID.max() + _ASK.min()) / 2,
    RECORDED_CANDLES.name: pl.col("open").sort_by("timestamp").first(),
}
"""First price in the tables whose rows show that a market is traded. If a market has trades, the price is theirs."""

_TABLES = (TRADES, BOOK, RECORDED_CANDLES, FUNDING, OPEN_INTEREST, LIQUIDATIONS, CME_OPEN_INTEREST)
"""Tables whose markets are registered. Options are not registered."""


def _summaries(parsed: Parsed) -> dict[MarketKey, _Summary]:
    """Return what a file shows about each of its markets, sorted by market."""
    frames = [
        _by_market(
            part,
            since=_SINCE.get(table.name, _TIME.min()),
            timestamp=_TIME.min(),
            price=_PRICES.get(table.name, pl.lit(None, pl.Float64)),
        ).with_columns(
            rank=pl.lit(rank), traded=pl.lit(table.name in _PRICES), funded=pl.lit(table is FUNDING)
        )
        for rank, table in enumerate(_TABLES)
        for part in parsed.batch(table)
    ]
    if not frames:
        return {}
    price = pl.col("price").sort_by("rank", "timestamp").drop_nulls().first()
    rows = (
        pl.concat(frames)
        .group_by("exchange", "raw_symbol")
        .agg(pl.col("since", "timestamp").min(), price, pl.col("traded", "funded").any())
        .sort("exchange", "raw_symbol")
    )
    return {(exchange, symbol): _Summary(*facts) for exchange, symbol, *facts in rows.iter_rows()}


def _by_market(part: Part, **facts: pl.Expr) -> pl.DataFrame:
    """Return aggregates of each market of a part; of a single market without looking which row is whose."""
    names, rows = ("exchange", "raw_symbol"), part.frame()
    if len(part.markets) == 1:
        return rows.select(pl.col(names).first(), **facts)
    return rows.group_by(names).agg(**facts)


def _class_of(key: MarketKey, market: Market, summary: _Summary, parsed: Parsed) -> str | None:
    """Return the class of a market: the caller's, else the kind's of the file, else the symbol's, else a guess.

    The guess is PERPETUAL if funded, else SPOT if traded; not SPOT if the caller says what a contract is, or the file
    may hold markets of every class, or only holds futures. It is null for a market with only open interest, which may
    be a perpetual or a future.
    """
    in_file = parsed.markets.get(key, market)
    category = market.category or in_file.category or told_class(key[1])
    if category:
        return category
    if summary.funded:
        return Category.PERPETUAL.value
    is_any = parsed.any_class or parsed.futures or market.contract is not None
    return Category.SPOT.value if summary.traded and not is_any else None


def _require_class(
    parsed: Parsed, market: Market, registered: pl.DataFrame, keys: Collection[MarketKey]
) -> None:
    """Raise QueryError if events of a future would be mixed with a spot market of the same name."""
    if not parsed.futures:
        return
    spot_markets = registered.filter(pl.col("category") == Category.SPOT.value).select(
        "exchange", "raw_symbol"
    )
    mixed_markets = sorted(set(spot_markets.iter_rows()) & set(keys))
    if mixed_markets or (market.category and market.category == Category.SPOT.value):
        markets = " ".join(mixed_markets[0]) if mixed_markets else "these markets"
        raise QueryError(
            "exchange",
            got=mixed_markets[0][0] if mixed_markets else None,
            expected=f"another name of the exchange: the file is of futures, and {markets} is a spot market",
        )


def _require_one_name(market: Market, keys: Collection[MarketKey], earlier: Collection[MarketKey]) -> None:
    """Raise QueryError if the caller gives one name to several markets."""
    name = market.normalized_symbol or market.coin
    if name and keys and len({*keys, *earlier}) > 1:
        symbols = ", ".join(symbol for _, symbol in sorted({*keys, *earlier}))
        raise QueryError(
            "normalized_symbol" if market.normalized_symbol else "coin",
            got=name,
            expected=f"files of one market; these hold {symbols}",
        )


def _names(raw_symbol: str, market: Market, *, needed: bool) -> dict[str, str | None]:
    """Return the names of a market from the caller or the raw symbol.

    If they cannot be guessed, return no names, or raise QueryError if they are needed.
    """
    if market.normalized_symbol is not None:
        coin, _, quote = market.normalized_symbol.partition("-")
        return {
            "normalized_symbol": market.normalized_symbol,
            "coin": market.coin or coin,
            "quote_coin": quote or None,
        }
    symbol = guessed(raw_symbol) if market.quote is None else Symbol(raw_symbol.upper(), market.quote.upper())
    if symbol is None and not needed:
        return {}
    if symbol is None:
        raise QueryError(
            "quote",
            got=None,
            expected=f"the currency of {raw_symbol}, e.g. USD, if that is a ticker: coin and quote cannot be read of "
            "it; or ``normalized_symbol``, e.g. BTC-USDT",
        )
    if market.coin is not None:
        symbol = Symbol(market.coin, symbol.quote_coin)
    return {"normalized_symbol": symbol.normalized, "coin": symbol.coin, "quote_coin": symbol.quote_coin}


def _of_one_coin(names: dict[str, str | None], key: MarketKey, factor: Decimal) -> dict[str, str | None]:
    """Return the names of the coin, if the names are those of a unit of several coins, such as ``1000PEPE``."""
    unit = multiple(*key, name=names.get("coin"))
    if not names or unit is None or unit[0] != factor:
        return names
    return names | {"coin": unit[1], "normalized_symbol": f"{unit[1]}-{names['quote_coin']}"}


def _block_size(market: Market, price: float | None) -> float | None:
    """Return the block size of a market: the caller's, else the one that its first price recommends."""
    if market.block_size is not None:
        return float(exact(market.block_size))
    if price is None or price <= 0:
        return None
    size = float(recommended_block_size(price, tick_size=market.tick_size))
    try:
        Grid.of(size)
    except QueryError:  # profiles cannot be made at such a price
        return None
    return size
