"""The list endpoints: what there is of a lake, narrowed by the filters that all of them share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import polars as pl

from tidytape.aggregate import recommended_block_size
from tidytape.catalogue import LISTS, LISTS_OF_A_TYPE, Category, Tenor
from tidytape.errors import QueryError
from tidytape.lake import Lake
from tidytape.query import MetaQuery
from tidytape.schema import data_type
from tidytape.service.holdings import Holdings, tenors
from tidytape.times import SECOND

__all__ = ["listed", "narrowed"]

_BOOK = "BLOCK_BOOK_SNAPSHOT_AGG"
_FILTERS = ("type", "exchange", "category", "coin", "raw_symbol", "normalized_symbol")


def listed(holdings: Holdings, name: str, query: MetaQuery) -> list[Any]:
    """Return what a list endpoint lists.

    Parameters
    ----------
    holdings : Holdings
        What the lake holds.
    name : str
        Name of the endpoint, one of `tidytape.catalogue.LISTS`.
    query : MetaQuery
        What has no data type, venue, class, coin or symbol that is asked for is left out, and with ``start`` or ``end``
        what has no event between them.

    Returns
    -------
    list of str, sorted; of block sizes, list of dict
        ``exchange``, ``rawSymbol`` and ``blockSize`` [quote per coin].

    Raises
    ------
    QueryError
        If a type does not exist; or the endpoint needs one and there is none, of which the contract has a server error.
    LakeError
        If the lake cannot be read.
    """
    if name in LISTS_OF_A_TYPE and not query.type:
        raise QueryError("type", got=None, expected="at least one data type", code="INTERNAL_ERROR")
    return _LISTED[LISTS[name]](holdings.lake, narrowed(holdings, query), query)


def narrowed(holdings: Holdings, query: MetaQuery) -> pl.DataFrame:
    """Return what the lake holds of what a query asks for.

    Parameters
    ----------
    holdings : Holdings
        What the lake holds.
    query : MetaQuery
        As for `listed`.

    Returns
    -------
    polars.DataFrame, one row per data type and subject
        As of `tidytape.service.holdings.holdings`.

    Raises
    ------
    QueryError
        If a type does not exist.
    LakeError
        If the lake cannot be read.
    """
    for one in query.type:
        data_type(one)  # a type that does not exist is an error, not a list of nothing
    held = holdings.all()
    for column in _FILTERS:
        wanted = [str(one) for one in getattr(query, column)]
        if wanted:
            held = held.filter(pl.col(column).is_in(wanted))
    if query.start is not None:
        held = held.filter(pl.col("last") >= query.start * SECOND)
    if query.end is not None:
        held = held.filter(pl.col("first") < query.end * SECOND)
    return held


def _column(name: str) -> Callable[[Lake, pl.DataFrame, MetaQuery], list[Any]]:
    def distinct(lake: Lake, held: pl.DataFrame, query: MetaQuery) -> list[Any]:
        return held[name].drop_nulls().unique().sort().to_list()

    return distinct


def _types(lake: Lake, held: pl.DataFrame, query: MetaQuery) -> list[Any]:
    return held["type"].unique(maintain_order=True).to_list()  # in the order of the catalogue


def _categories(lake: Lake, held: pl.DataFrame, query: MetaQuery) -> list[Any]:
    there = set(held["category"])
    return [one.value for one in Category if one.value in there]


def _tenors(lake: Lake, held: pl.DataFrame, query: MetaQuery) -> list[Any]:
    end = None if query.end is None else query.end * SECOND
    there = set(tenors(lake, held, end=end)["tenor"])
    return [one.value for one in Tenor if one.value in there]


def _block_sizes(lake: Lake, held: pl.DataFrame, query: MetaQuery) -> list[Any]:
    """What is recommended for the book as it last stood, of every market that has one."""
    books = held.filter(pl.col("type") == _BOOK).select("exchange", "raw_symbol")
    facts = lake.markets().filter(pl.col("tenor").is_null())
    rows = books.join(facts, on=["exchange", "raw_symbol"], how="left").sort("exchange", "raw_symbol")
    found = []
    for exchange, symbol, tick, size in rows.select(
        "exchange", "raw_symbol", "tick_size", "block_size"
    ).iter_rows():
        middle = _middle(lake, exchange, symbol)
        best = size if middle is None else float(recommended_block_size(middle, tick_size=tick))
        if best is not None:
            found.append({"exchange": exchange, "rawSymbol": symbol, "blockSize": best})
    return found


def _middle(lake: Lake, exchange: str, symbol: str) -> float | None:
    """The middle of the last snapshot of a book, None where there is none with two sides."""
    book = lake.scan("book", exchange=exchange, raw_symbol=symbol).filter("is_snapshot", pl.col("size") > 0)
    time, price, side = pl.col("timestamp"), pl.col("price"), pl.col("side")
    newest = book.select(time.max()).collect(engine="streaming").item()
    if newest is None:
        return None
    last = book.filter(time == newest).select(
        (price.filter(side == "BID").max() + price.filter(side == "ASK").min()) / 2
    )
    middle: float | None = last.collect(engine="streaming").item()
    return middle if middle is not None and middle > 0 else None


_LISTED: Mapping[str, Callable[[Lake, pl.DataFrame, MetaQuery], list[Any]]] = MappingProxyType(
    {
        "types": _types,
        "exchanges": _column("exchange"),
        "categories": _categories,
        "coins": _column("coin"),
        "rawSymbols": _column("raw_symbol"),
        "normalizedSymbols": _column("normalized_symbol"),
        "tenors": _tenors,
        "blockSizes": _block_sizes,
    }
)
