"""Values: numbers that are some, words that are known, amounts that can be."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

import polars as pl

from tidytape.catalogue import BookSide, Side
from tidytape.lake.hygiene._rows import bad
from tidytape.lake.hygiene._subject import Found, Subject
from tidytape.lake.rollup.tables import BOOKS
from tidytape.lake.tables import (
    BOOK,
    CME_OPEN_INTEREST,
    FUNDING,
    LIQUIDATIONS,
    MARKETS,
    OPEN_INTEREST,
    OPTION_QUOTES,
    QUOTE_RATES,
    RECORDED_CANDLES,
    TOKEN_SUPPLY,
    TRADES,
)

_SIDES = tuple(map(str, Side))
_BOOK_SIDES = tuple(map(str, BookSide))
_WORDS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"side": _SIDES, "option_type": ("CALL", "PUT"), "contract": ("INVERSE", "LINEAR", "VANILLA")}
)

REPORTS = frozenset({OPEN_INTEREST, FUNDING, OPTION_QUOTES, CME_OPEN_INTEREST, TOKEN_SUPPLY})
"""Tables of which a number that is none counts as not reported: no answer shows it."""

_PRICES = ("open", "close")

IMPOSSIBLE: Mapping[str, pl.Expr] = MappingProxyType(
    {
        BOOK.name: pl.col("size") < 0,
        RECORDED_CANDLES.name: (pl.min_horizontal(_PRICES) < pl.col("low"))
        | (pl.max_horizontal(_PRICES) > pl.col("high"))
        | (pl.col("volume") < 0)
        | (pl.col("interval") <= 0),
        OPEN_INTEREST.name: pl.col("amount") < 0,
        OPTION_QUOTES.name: (pl.col("strike") <= 0)
        | (pl.col("implied_volatility") < 0)
        | (pl.col("open_interest") < 0),
        TOKEN_SUPPLY.name: pl.col("marketcap") < 0,
        QUOTE_RATES.name: pl.col("usd") <= 0,
        MARKETS.name: pl.any_horizontal(pl.col("tick_size", "block_size", "contract_size") <= 0),
    }
)
"""What no row of a table can be, by the table's name. Prices may be below zero: there were such."""


def unreal_number(subject: Subject) -> Iterator[Found]:
    """Numbers that are not finite: what is not known is null. Amounts and prices of trades are checked elsewhere."""
    others = {"amount", "price"} if subject.table in {TRADES, LIQUIDATIONS} else set()
    floats = [column.name for column in subject.table.columns if column.dtype == "float64"]
    names = [name for name in floats if name not in others]
    return bad(subject, pl.any_horizontal(~pl.col(name).is_finite() for name in names))


def unknown_word(subject: Subject) -> Iterator[Found]:
    """Sides and the like that nothing asks for, so that their rows are in no answer, or in some and not in others."""
    known = {**_WORDS, "side": _BOOK_SIDES if subject.table in {BOOK, BOOKS} else _SIDES}
    names = [name for name in known if name in subject.table.names]
    if names:
        yield from bad(subject, pl.any_horizontal(~pl.col(name).is_in(known[name]) for name in names))


def impossible(subject: Subject) -> Iterator[Found]:
    """Amounts below zero, candles whose open or close lies outside of them, intervals of no length."""
    return bad(subject, IMPOSSIBLE[subject.table.name])
