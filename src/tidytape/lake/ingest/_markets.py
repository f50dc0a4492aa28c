"""What the registry gets to know from an ingest: symbols given or guessed, block sizes, the first event."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal

import polars as pl

from tidytape.aggregate.grid import Grid, exact, recommended_block_size
from tidytape.catalogue import BookSide, Category
from tidytape.errors import QueryError, nearest
from tidytape.lake.ingest._job import Parsed
from tidytape.lake.symbols import Symbol, guessed
from tidytape.lake.tables import BOOK, MARKETS, TRADES
from tidytape.query import values

__all__ = ["Given", "registry_rows"]

Instrument = tuple[str, str]
Number = Decimal | float | str


@dataclass(frozen=True, slots=True)
class Given:
    """What the caller said about the market, None where nothing."""

    normalized_symbol: str | None = None
    coin: str | None = None
    category: str | None = None
    tick_size: Number | None = None
    block_size: Number | None = None

    def __post_init__(self) -> None:
        for name in ("normalized_symbol", "coin"):
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, values.text(value, parameter=name))
        if self.normalized_symbol and not all(map(str.strip, self.normalized_symbol.split("-"))):
            raise QueryError("normalized_symbol", got=self.normalized_symbol, expected="e.g. BTC-USDT")
        for name in ("tick_size", "block_size"):
            value = getattr(self, name)
            if value is not None:
                _on_grid(value, name)
        if self.category is not None:
            _category(self.category)

    @property
    def columns(self) -> list[str]:
        """Columns of the registry in which what was said wins."""
        named = ["normalized_symbol", "coin", "quote_coin"] if self.normalized_symbol or self.coin else []
        return named + [
            name for name in ("category", "tick_size", "block_size") if getattr(self, name) is not None
        ]


def registry_rows(
    files: Iterable[Parsed], given: Given, registered: pl.DataFrame
) -> tuple[pl.DataFrame, set[Instrument]]:
    """Return what to register of the instruments in some files, and which of them were guessed.

    Parameters
    ----------
    files : iterable of Parsed
        What was read.
    given : Given
        What the caller said; it holds for the files' only instrument.
    registered : polars.DataFrame
        The registry.

    Returns
    -------
    polars.DataFrame, one row per instrument, sorted
        The table MARKETS.
    set of (str, str)
        Their (exchange, raw_symbol), of those whose coin and quote come from the raw symbol.

    Raises
    ------
    QueryError
        If a symbol cannot be guessed and is neither given nor registered, or one name is given to several.
    """
    seen = _seen(files)
    if len(seen) > 1 and (given.normalized_symbol or given.coin):
        raise QueryError(
            "normalized_symbol" if given.normalized_symbol else "coin",
            got=given.normalized_symbol or given.coin,
            expected="files of one instrument; these hold " + ", ".join(symbol for _, symbol in seen),
        )
    named = registered.filter(pl.col("coin").is_not_null()).select("exchange", "raw_symbol")
    known: set[Instrument] = set(named.iter_rows())
    guesses: set[Instrument] = set()
    rows = []
    dated = registered.filter(pl.col("available_since").is_not_null()).select("exchange", "raw_symbol")
    since_known: set[Instrument] = set(dated.iter_rows())
    for instrument, (since, received, price) in seen.items():
        said = given.normalized_symbol or given.coin
        names = {} if instrument in known and not said else _names(instrument[1], given)
        if names and given.normalized_symbol is None:
            guesses.add(instrument)
        rows.append(
            {
                "exchange": instrument[0],
                "raw_symbol": instrument[1],
                **names,
                "category": _category(given.category or Category.SPOT),
                "tick_size": None if given.tick_size is None else float(exact(given.tick_size)),
                "block_size": _block_size(given, price),
                # Another clock says nothing about what the exchange's clock has said.
                "available_since": received if since is None and instrument not in since_known else since,
            }
        )
    return MARKETS.conform(
        pl.DataFrame(rows, schema_overrides=MARKETS.polars())
    ) if rows else MARKETS.empty(), guesses


def _seen(files: Iterable[Parsed]) -> dict[Instrument, tuple[int | None, int, float | None]]:
    """Each instrument's first event by the exchange's clock, None without, and by any; and a price.

    The price is that of its first trade, else the middle of its first snapshot.
    """
    trades, books = [], []
    for parsed in files:
        trades += [_first_trades(part.frame()) for part in parsed.batch(TRADES)]
        books += [_first_books(part.frame()) for part in parsed.batch(BOOK)]
    if not trades + books:
        return {}
    instrument = ("exchange", "raw_symbol")
    # Trades first: where there are any, theirs is the price.
    found = pl.concat(
        frame.with_columns(rank=pl.lit(rank))
        for rank, frames in enumerate((trades, books))
        for frame in frames
    )
    price = pl.col("price").sort_by("rank", "timestamp").drop_nulls().first()
    summary = found.group_by(instrument).agg(pl.col("since", "timestamp").min(), price).sort(instrument)
    return {(exchange, symbol): facts for exchange, symbol, *facts in summary.iter_rows()}  # type: ignore[misc]


def _first_trades(trades: pl.DataFrame) -> pl.DataFrame:
    first = pl.col("price").sort_by("timestamp", "sequence").first()
    time = pl.col("timestamp").min()
    return trades.group_by("exchange", "raw_symbol").agg(time.alias("since"), time, first)


def _first_books(book: pl.DataFrame) -> pl.DataFrame:
    snapshot = pl.col("is_snapshot") & (pl.col("last_id") == pl.col("last_id").filter("is_snapshot").min())
    best_bid = pl.col("price").filter(snapshot & (pl.col("side") == BookSide.BID.value)).max()
    best_ask = pl.col("price").filter(snapshot & (pl.col("side") == BookSide.ASK.value)).min()
    # A snapshot without a time of the exchange has the recorder's, whose clock is another.
    time = pl.col("timestamp")
    since = time.filter(~pl.col("is_snapshot") | time.ne_missing(pl.col("received"))).min().alias("since")
    return book.group_by("exchange", "raw_symbol").agg(
        since, time.min(), ((best_bid + best_ask) / 2).alias("price")
    )


def _names(raw_symbol: str, given: Given) -> dict[str, str | None]:
    if given.normalized_symbol is not None:
        coin, _, quote = given.normalized_symbol.partition("-")
        return {
            "normalized_symbol": given.normalized_symbol,
            "coin": given.coin or coin,
            "quote_coin": quote or None,
        }
    symbol = guessed(raw_symbol)
    if symbol is None:
        raise QueryError(
            "normalized_symbol",
            got=raw_symbol,
            expected="a symbol that coin and quote can be read from; for this one give normalized_symbol "
            "(--normalized-symbol), e.g. BTC-USDT, and coin (--coin)",
        )
    if given.coin is not None:
        symbol = Symbol(given.coin, symbol.quote_coin)
    return {"normalized_symbol": symbol.normalized, "coin": symbol.coin, "quote_coin": symbol.quote_coin}


def _block_size(given: Given, price: float | None) -> float | None:
    if given.block_size is not None:
        return float(exact(given.block_size))
    if price is None or price <= 0:
        return None
    size = float(recommended_block_size(price, tick_size=given.tick_size))
    try:
        Grid.of(size)
    except QueryError:  # a price beyond what profiles can be made of: none, unless one is given
        return None
    return size


def _on_grid(value: Number, name: str) -> None:
    """Raise QueryError unless the number can be the height of a row."""
    number = exact(value, name)
    # The exponent first: the grid writes all its digits out.
    if not -23 <= number.adjusted() <= 15:
        raise QueryError(name, got=value, expected="a number from 1e-22 to 1e15")
    try:
        Grid.of(number)
    except QueryError as error:
        raise QueryError(name, got=value, expected=error.expected) from error


def _category(value: str) -> str:
    by_name = {name: category for category in Category for name in (category.value, category.alias)}
    if value not in by_name:
        close = nearest(value, by_name)
        raise QueryError(
            "category",
            got=value,
            expected="one of " + ", ".join(Category),
            hint=f"did you mean {close!r}?" if close else None,
        )
    return by_name[value].value
