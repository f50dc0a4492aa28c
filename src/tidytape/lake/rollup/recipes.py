"""What minutes are made of, one recipe per table: raw events in, minutes out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from types import MappingProxyType
from typing import TYPE_CHECKING

import polars as pl

from tidytape import aggregate
from tidytape.catalogue import DEFAULT_FUNDING_INTERVAL_MS
from tidytape.frames.table import planned
from tidytape.lake.rollup.tables import (
    BOOKS,
    CANDLES,
    CANDLES_OF_BOTH,
    FUNDINGS,
    LIQUIDATED,
    OPEN_INTERESTS,
    PROFILES,
)
from tidytape.lake.table import Table
from tidytape.lake.tables import BOOK, FUNDING, LIQUIDATIONS, OPEN_INTEREST, TRADES
from tidytape.times import MINUTE

if TYPE_CHECKING:
    from tidytape.lake.store import Lake

__all__ = ["RECIPES", "SKEW", "Ask", "Recipe", "within"]


SKEW = 5 * MINUTE
"""A snapshot may be timed by a clock that runs so far before or after that of the updates around it. [ns]"""


@dataclass(frozen=True, slots=True)
class Ask:
    """Some minutes of one instrument.

    Attributes
    ----------
    exchange, raw_symbol : str
        The instrument.
    start, end : int
        Minutes that start at ``start <= timestamp < end``, both on the minute. [ns since the epoch]
    block_size : Decimal or None
        Height of their price rows, where they have any. [quote per coin]
    """

    exchange: str
    raw_symbol: str
    start: int
    end: int
    block_size: Decimal | None = None

    @property
    def names(self) -> tuple[str, str]:
        """The instrument."""
        return self.exchange, self.raw_symbol


@dataclass(frozen=True, slots=True)
class Recipe:
    """How the minutes of a table are made.

    Attributes
    ----------
    table : Table
        Whose minutes.
    raw : Table
        The events they are made of.
    make : callable
        From a lake and what is asked of some instruments to their minutes, computed from raw events alone; in no order.
    has_rows : bool
        Whether they are of price rows, so of a block size.
    lasts : bool
        Whether an event shows in minutes after its own: all minutes from there on depend on it.
    """

    table: Table
    raw: Table
    make: Callable[[Lake, Sequence[Ask]], pl.LazyFrame]
    has_rows: bool = False
    lasts: bool = False

    def minutes(self, lake: Lake, *asks: Ask) -> pl.LazyFrame:
        """Return the minutes of some instruments, one span of each, computed from raw events alone; in no order."""
        return self.make(lake, asks)


def within(rows: pl.LazyFrame, asks: Sequence[Ask]) -> pl.LazyFrame:
    """Return the rows of some instruments in the spans asked for. Spans of one instrument lie apart."""
    exchange, symbol, time = pl.col("exchange"), pl.col("raw_symbol"), pl.col("timestamp")
    # By these conditions files are skipped, whoever is asked for; the join then leaves out what lies between.
    near = rows.filter(
        exchange.is_in(sorted({ask.exchange for ask in asks})),
        symbol.is_in(sorted({ask.raw_symbol for ask in asks})),
        time >= min(ask.start for ask in asks),
        time < max(ask.end for ask in asks),
    )
    if len(asks) == 1:
        return near
    spans = pl.LazyFrame(
        [(ask.exchange, ask.raw_symbol, ask.start, ask.end) for ask in asks],
        schema={"exchange": pl.String, "raw_symbol": pl.String, _FIRST: pl.Int64, _END: pl.Int64},
        orient="row",
    )
    inside = near.join(spans, on=["exchange", "raw_symbol"])
    return inside.filter(time >= pl.col(_FIRST), time < pl.col(_END)).drop(_FIRST, _END)


_FIRST, _END = "__first", "__end"


def _events(lake: Lake, table: Table, asks: Sequence[Ask]) -> pl.LazyFrame:
    return within(lake.scan(table.name), asks)


def _candles(lake: Lake, asks: Sequence[Ask]) -> pl.LazyFrame:
    return planned(aggregate.minute_candles.core, _events(lake, TRADES, asks))


def _candles_of_both(lake: Lake, asks: Sequence[Ask]) -> pl.LazyFrame:
    return planned(aggregate.minute_candles.core, _events(lake, TRADES, asks), by_side=False)


def _profiles(lake: Lake, asks: Sequence[Ask]) -> pl.LazyFrame:
    of_size: dict[Decimal, list[Ask]] = {}
    for ask in asks:
        of_size.setdefault(_size(ask), []).append(ask)
    return pl.concat(
        planned(aggregate.minute_profile.core, _events(lake, TRADES, alike), block_size=size)
        for size, alike in of_size.items()
    )


def _open_interests(lake: Lake, asks: Sequence[Ask]) -> pl.LazyFrame:
    return aggregate.open_interest(_events(lake, OPEN_INTEREST, asks), interval="1m")


def _fundings(lake: Lake, asks: Sequence[Ask]) -> pl.LazyFrame:
    reports = _events(lake, FUNDING, asks)
    return aggregate.funding(reports, interval="1m", funding_interval=DEFAULT_FUNDING_INTERVAL_MS)


def _liquidated(lake: Lake, asks: Sequence[Ask]) -> pl.LazyFrame:
    events = _events(lake, LIQUIDATIONS, asks)
    in_quote = events.with_columns(amount=pl.col("quote_amount"))
    coins, quotes = (aggregate.liquidations(frame, interval="1m") for frame in (events, in_quote))
    return coins.join(quotes.rename({"liquidations": "quote_liquidations"}), on=LIQUIDATED.key)


def _books(lake: Lake, asks: Sequence[Ask]) -> pl.LazyFrame:
    return pl.concat(_book(lake, ask) for ask in asks)


def _book(lake: Lake, ask: Ask) -> pl.LazyFrame:
    events = lake.scan(BOOK.name, exchange=ask.exchange, raw_symbol=ask.raw_symbol)
    time = pl.col("timestamp")
    # A book is known from a snapshot on, so the last one before is where to begin.
    begin = events.filter("is_snapshot", time <= ask.start - SKEW).select(time.max())
    since = begin.collect(engine="streaming").item()
    first = ask.start - SKEW if since is None else since
    _, last = lake.extent(BOOK.name, *ask.names)
    known = events.filter(time >= first // MINUTE * MINUTE - SKEW, time < ask.end + SKEW)
    return aggregate.book_heatmap(
        known, interval="1m", block_size=_size(ask), in_quote=True, last=last
    ).filter(time.is_between(ask.start, ask.end, closed="left"))


def _size(ask: Ask) -> Decimal:
    if ask.block_size is None:
        raise ValueError("minutes of price rows need a block size")
    return ask.block_size


_ALL = (
    Recipe(CANDLES, TRADES, _candles),
    Recipe(CANDLES_OF_BOTH, TRADES, _candles_of_both),
    Recipe(PROFILES, TRADES, _profiles, has_rows=True),
    Recipe(OPEN_INTERESTS, OPEN_INTEREST, _open_interests),
    Recipe(FUNDINGS, FUNDING, _fundings),
    Recipe(LIQUIDATED, LIQUIDATIONS, _liquidated),
    Recipe(BOOKS, BOOK, _books, has_rows=True, lasts=True),
)

RECIPES: Mapping[str, Recipe] = MappingProxyType({recipe.table.name: recipe for recipe in _ALL})
"""How each table of minutes is made."""
