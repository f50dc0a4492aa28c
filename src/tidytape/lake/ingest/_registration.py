"""What an ingest registers of its markets: names that are given or guessed, block sizes, the first event."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import polars as pl

from tidytape.catalogue import BookSide, Category
from tidytape.errors import QueryError
from tidytape.frames.grid import Grid, exact, recommended_block_size
from tidytape.lake.ingest.layout import Parsed
from tidytape.lake.ingest.market import Market
from tidytape.lake.symbols import Symbol, guessed, told_class
from tidytape.lake.tables import (
    BOOK,
    CME_OPEN_INTEREST,
    FUNDING,
    LIQUIDATIONS,
    MARKETS,
    OPEN_INTEREST,
    RECORDED_CANDLES,
    TRADES,
)

Instrument = tuple[str, str]


def registry_rows(
    parsed: Parsed, said: Market, registered: pl.DataFrame, *, earlier: Collection[Instrument] = ()
) -> tuple[pl.DataFrame, set[Instrument]]:
    """Return what to register of the instruments in a file, and which of them were guessed.

    Parameters
    ----------
    parsed : Parsed
        What was read.
    said : Market
        What the caller says; a name holds for the files' only instrument.
    registered : polars.DataFrame
        The registry.
    earlier : collection of (str, str)
        Instruments of the files before, of which the caller said the same.

    Returns
    -------
    polars.DataFrame, one row per instrument, sorted
        The table MARKETS.
    set of (str, str)
        Their (exchange, raw_symbol), of those whose coin and quote come from the raw symbol.

    Raises
    ------
    QueryError
        If the symbol of a file's only instrument cannot be guessed and is neither given nor registered, or one name
        is given to several. Of several instruments, those that cannot be guessed get no names.
    """
    _require_class(parsed, said, registered)
    seen = _seen(parsed)
    every = sorted({*seen, *earlier})
    if len(every) > 1 and seen and (said.normalized_symbol or said.coin):
        raise QueryError(
            "normalized_symbol" if said.normalized_symbol else "coin",
            got=said.normalized_symbol or said.coin,
            expected="files of one instrument; these hold " + ", ".join(symbol for _, symbol in every),
        )
    named = registered.filter(pl.col("coin").is_not_null()).select("exchange", "raw_symbol")
    known: set[Instrument] = set(named.iter_rows())
    guesses: set[Instrument] = set()
    rows = []
    dated = registered.filter(pl.col("available_since").is_not_null()).select("exchange", "raw_symbol")
    since_known: set[Instrument] = set(dated.iter_rows())
    for instrument, facts in seen.items():
        names: dict[str, str | None] = {}
        if said.normalized_symbol or said.coin or instrument not in known:
            names = _names(instrument[1], said, needed=facts.traded and len(seen) == 1)
        if names and said.normalized_symbol is None:
            guesses.add(instrument)
        unknown_time = facts.since is None and instrument not in since_known
        rows.append(
            {
                "exchange": instrument[0],
                "raw_symbol": instrument[1],
                **names,
                "category": _class_of(instrument, said, facts, parsed),
                "tick_size": None if said.tick_size is None else float(exact(said.tick_size)),
                "block_size": _block_size(said, facts.price),
                # Another clock says nothing about what the exchange's clock has said.
                "available_since": facts.received if unknown_time else facts.since,
            }
        )
    return MARKETS.conform(
        pl.DataFrame(rows, schema_overrides=MARKETS.polars())
    ) if rows else MARKETS.empty(), guesses


@dataclass(frozen=True, slots=True)
class _Seen:
    """What a file shows of an instrument.

    Attributes
    ----------
    since : int or None
        Its first event by the exchange's clock. [ns]
    received : int
        Its first event by any clock. [ns]
    price : float or None
        That of its first trade, else the middle of its first snapshot, else the open of its first candle.
        [quote per coin]
    traded : bool
        It has trades, a book or candles.
    funded : bool
        It has funding rates.
    """

    since: int | None
    received: int
    price: float | None
    traded: bool
    funded: bool


def _class_of(instrument: Instrument, said: Market, facts: _Seen, parsed: Parsed) -> str | None:
    """The class said; else what the symbol tells, PERPETUAL of what is funded, and SPOT of what is traded.

    Not SPOT where venues of every class are told of, or the file can only be of futures. Open interest alone may be of
    a perpetual or of a future.
    """
    if said.category:
        return said.category
    told = told_class(instrument[1])
    if told is not None or facts.funded:
        return told or Category.PERPETUAL.value
    return Category.SPOT.value if facts.traded and not (parsed.any_class or parsed.futures) else None


def _require_class(parsed: Parsed, said: Market, registered: pl.DataFrame) -> None:
    """Raise QueryError if a file of futures would be mixed with a spot market of the same name."""
    if not parsed.futures:
        return
    spot = registered.filter(pl.col("category") == Category.SPOT.value).select("exchange", "raw_symbol")
    mixed = sorted(set(spot.iter_rows()) & set(_seen(parsed)))
    if mixed or (said.category and said.category == Category.SPOT.value):
        what = " ".join(mixed[0]) if mixed else "these markets"
        raise QueryError(
            "exchange",
            got=mixed[0][0] if mixed else None,
            expected=f"another name of the venue: the file is of futures, and {what} is a spot market",
        )


_TIME = pl.col("timestamp")
_FIRST_SNAPSHOT = pl.col("is_snapshot") & (pl.col("last_id") == pl.col("last_id").filter("is_snapshot").min())
_BID, _ASK = (
    pl.col("price").filter(_FIRST_SNAPSHOT & (pl.col("side") == side.value))
    for side in (BookSide.BID, BookSide.ASK)
)
_SINCE = {
    # A snapshot without a time of the exchange has the recorder's, whose clock is another.
    BOOK.name: _TIME.filter(~pl.col("is_snapshot") | _TIME.ne_missing(pl.col("received"))).min()
}
_PRICES = {
    TRADES.name: pl.col("price").sort_by("timestamp", "sequence").first(),
    BOOK.name: (_BID.max() + _ASK.min()) / 2,
    RECORDED_CANDLES.name: pl.col("open").sort_by("timestamp").first(),
}
"""First price of the tables that say that a market is traded: where there are trades, theirs counts."""

_TABLES = (TRADES, BOOK, RECORDED_CANDLES, FUNDING, OPEN_INTEREST, LIQUIDATIONS, CME_OPEN_INTEREST)
"""Tables whose markets are registered: of options no market is made."""


def _seen(parsed: Parsed) -> dict[Instrument, _Seen]:
    found = [
        part.frame()
        .group_by("exchange", "raw_symbol")
        .agg(
            since=_SINCE.get(table.name, _TIME.min()),
            timestamp=_TIME.min(),
            price=_PRICES.get(table.name, pl.lit(None, pl.Float64)),
        )
        .with_columns(
            rank=pl.lit(rank), traded=pl.lit(table.name in _PRICES), funded=pl.lit(table is FUNDING)
        )
        for rank, table in enumerate(_TABLES)
        for part in parsed.batch(table)
    ]
    if not found:
        return {}
    price = pl.col("price").sort_by("rank", "timestamp").drop_nulls().first()
    summary = (
        pl.concat(found)
        .group_by("exchange", "raw_symbol")
        .agg(pl.col("since", "timestamp").min(), price, pl.col("traded", "funded").any())
        .sort("exchange", "raw_symbol")
    )
    return {(exchange, symbol): _Seen(*facts) for exchange, symbol, *facts in summary.iter_rows()}


def _names(raw_symbol: str, said: Market, *, needed: bool) -> dict[str, str | None]:
    if said.normalized_symbol is not None:
        coin, _, quote = said.normalized_symbol.partition("-")
        return {
            "normalized_symbol": said.normalized_symbol,
            "coin": said.coin or coin,
            "quote_coin": quote or None,
        }
    symbol = guessed(raw_symbol)
    if symbol is None and not needed:
        return {}
    if symbol is None:
        raise QueryError(
            "normalized_symbol",
            got=raw_symbol,
            expected="a symbol that coin and quote can be read from; for this one give normalized_symbol "
            "(--normalized-symbol), e.g. BTC-USDT, and coin (--coin)",
        )
    if said.coin is not None:
        symbol = Symbol(said.coin, symbol.quote_coin)
    return {"normalized_symbol": symbol.normalized, "coin": symbol.coin, "quote_coin": symbol.quote_coin}


def _block_size(said: Market, price: float | None) -> float | None:
    if said.block_size is not None:
        return float(exact(said.block_size))
    if price is None or price <= 0:
        return None
    size = float(recommended_block_size(price, tick_size=said.tick_size))
    try:
        Grid.of(size)
    except QueryError:  # a price beyond what profiles can be made of: none, unless one is given
        return None
    return size
