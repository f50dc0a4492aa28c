"""What minutes are made of, one recipe per table: raw events in, minutes out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from types import MappingProxyType
from typing import TYPE_CHECKING

import polars as pl

from tidytape import aggregate
from tidytape.catalogue import DEFAULT_FUNDING_INTERVAL_MS
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

if TYPE_CHECKING:
    from tidytape.lake.store import Lake

__all__ = ["MINUTE", "RECIPES", "Ask", "Recipe"]

MINUTE = 60_000_000_000
"""Length of a minute. [ns]"""

# A snapshot may be timed by a clock that runs before or after that of the updates around it. [ns]
_SKEW = 5 * MINUTE


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
    minutes : callable
        From a lake and what is asked to the minutes, computed from raw events alone; in no order.
    has_rows : bool
        Whether they are of price rows, so of a block size.
    lasts : bool
        Whether an event shows in minutes after its own: all minutes from there on depend on it.
    """

    table: Table
    raw: Table
    minutes: Callable[[Lake, Ask], pl.LazyFrame]
    has_rows: bool = False
    lasts: bool = False


def _events(lake: Lake, table: Table, ask: Ask) -> pl.LazyFrame:
    return lake.scan(
        table.name, exchange=ask.exchange, raw_symbol=ask.raw_symbol, start=ask.start, end=ask.end
    )


def _candles(lake: Lake, ask: Ask) -> pl.LazyFrame:
    return aggregate.minute_candles(_events(lake, TRADES, ask))


def _candles_of_both(lake: Lake, ask: Ask) -> pl.LazyFrame:
    return aggregate.minute_candles(_events(lake, TRADES, ask), by_side=False)


def _profiles(lake: Lake, ask: Ask) -> pl.LazyFrame:
    return aggregate.minute_profile(_events(lake, TRADES, ask), block_size=_size(ask))


def _open_interests(lake: Lake, ask: Ask) -> pl.LazyFrame:
    return aggregate.open_interest(_events(lake, OPEN_INTEREST, ask), interval="1m")


def _fundings(lake: Lake, ask: Ask) -> pl.LazyFrame:
    reports = _events(lake, FUNDING, ask)
    return aggregate.funding(reports, interval="1m", funding_interval=DEFAULT_FUNDING_INTERVAL_MS)


def _liquidated(lake: Lake, ask: Ask) -> pl.LazyFrame:
    events = _events(lake, LIQUIDATIONS, ask)
    in_quote = events.with_columns(amount=pl.col("quote_amount"))
    coins, quotes = (aggregate.liquidations(frame, interval="1m") for frame in (events, in_quote))
    return coins.join(quotes.rename({"liquidations": "quote_liquidations"}), on=LIQUIDATED.key)


def _books(lake: Lake, ask: Ask) -> pl.LazyFrame:
    events = lake.scan(BOOK.name, exchange=ask.exchange, raw_symbol=ask.raw_symbol)
    time = pl.col("timestamp")
    # A book is known from a snapshot on, so the last one before is where to begin.
    begin = events.filter("is_snapshot", time <= ask.start - _SKEW).select(time.max())
    since = begin.collect(engine="streaming").item()
    first = ask.start - _SKEW if since is None else since
    _, last = lake.extent(BOOK.name, *ask.names)
    known = events.filter(time >= first - _SKEW, time < ask.end + _SKEW)
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
