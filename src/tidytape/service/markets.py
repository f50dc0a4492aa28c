"""``GET /v1/markets``: filter, sort and page the lake's registry of markets, prediction markets with them."""

from __future__ import annotations

import polars as pl

from tidytape import wire
from tidytape.catalogue import MarketSortField, SortDirection
from tidytape.errors import QueryError
from tidytape.lake import Lake
from tidytape.lake.predictions import by_instrument
from tidytape.query import MarketsQuery
from tidytape.schema import MARKETS, PREDICTION_MARKETS, schema_of
from tidytape.service.plans import SOURCES
from tidytape.service.selection import FLAVOURS

__all__ = ["DEFAULT_PAGE", "LARGEST_PAGE", "page"]

DEFAULT_PAGE = 100
"""Results of a page when no size is asked for."""

LARGEST_PAGE = 1_000
"""Most results of a page."""

_SORTABLE = {
    MarketSortField.MARKETCAP: "marketcap",
    MarketSortField.AVAILABLE_SINCE: "available_since",
}
_SEARCHED = ("raw_symbol", "normalized_symbol", "coin", "coin_name", "quote_coin_name", "full_name")


def page(lake: Lake, query: MarketsQuery) -> bytes:
    """Return the body of one page.

    Parameters
    ----------
    lake : Lake
    query : MarketsQuery

    Returns
    -------
    bytes
        JSON with ``symbols`` and ``nextOffset``, which is the offset plus the number of results. A market that is an
        outcome of a prediction market has that in ``predictionMarkets``.

    Raises
    ------
    QueryError
        If the page is too large, or the markets cannot be sorted so.
    """
    size = query.page_size or DEFAULT_PAGE
    if size > LARGEST_PAGE:
        raise QueryError("pageSize", got=size, expected=f"at most {LARGEST_PAGE}")
    found = _sorted(_filtered(lake, query), query)
    if query.distinct:
        # What has no such symbol is like nothing else.
        first = pl.col("normalized_symbol").is_first_distinct() | pl.col("normalized_symbol").is_null()
        found = found.filter(first)
    shown = found.slice(query.page_offset, size)
    entries = MARKETS.conform(shown).select(MARKETS.names)
    return wire.encode_markets(
        _with_predictions(entries, lake.prediction_markets()), query.page_offset + shown.height
    )


def _with_predictions(markets: pl.DataFrame, predictions: pl.DataFrame) -> pl.DataFrame:
    """Markets with a column ``prediction_markets``, a list of what each is an outcome of, null where of nothing."""
    key = ["exchange", "raw_symbol"]
    outcomes = by_instrument(predictions).join(markets.select(key).cast(pl.String), on=key, how="semi")
    entries = PREDICTION_MARKETS.conform(outcomes.select(PREDICTION_MARKETS.names))
    lists = (
        outcomes.select(key)
        .with_columns(entries.to_struct("prediction_markets"))
        .group_by(key, maintain_order=True)
        .agg("prediction_markets")
    )
    return (
        markets.with_columns(pl.col(key).cast(pl.String))
        .join(lists, on=key, how="left", maintain_order="left")
        .cast(dict.fromkeys(key, pl.Categorical()))
    )


def _filtered(lake: Lake, query: MarketsQuery) -> pl.DataFrame:
    markets = lake.markets()
    for column in ("exchange", "coin", "category"):
        wanted = [str(one) for one in getattr(query, column)]
        if wanted:
            markets = markets.filter(pl.col(column).is_in(wanted))
    if query.type:
        known = sorted({names for name in query.type for names in _with_data(lake, name)})
        key = ["exchange", "raw_symbol"]
        with_events = pl.DataFrame(known, schema=dict.fromkeys(key, pl.String), orient="row")
        markets = markets.join(with_events, on=key, how="semi", maintain_order="left")
    if query.symbol_filter:
        part = query.symbol_filter.lower()
        searched = [pl.col(name).str.to_lowercase().str.contains(part, literal=True) for name in _SEARCHED]
        markets = markets.filter(pl.any_horizontal(*[hit.fill_null(value=False) for hit in searched]))
    return markets


def _with_data(lake: Lake, name: str) -> list[tuple[str, ...]]:
    """Return the venue and symbol of what has events that a data type is made of."""
    schema_of(name)  # a type that does not exist is INVALID_TYPE
    if name in FLAVOURS:
        chains = lake.instruments("option_quotes")
        return [(venue, f"{coin}_{flavour}") for venue, coin in chains for flavour in FLAVOURS[name]]
    tables = [SOURCES[name]] if name in SOURCES else []
    if name == "TRADE_SIDE_AGNOSTIC_AGG":
        tables.append("candles")  # that somebody else made
    return [names for table in tables for names in lake.instruments(table)]


def _sorted(markets: pl.DataFrame, query: MarketsQuery) -> pl.DataFrame:
    markets = markets.sort("exchange", "raw_symbol")
    if query.sort_field is None:
        return markets
    if query.sort_field not in _SORTABLE:
        raise QueryError(
            "sortCriteria.field",
            got=str(query.sort_field),
            expected="one of " + ", ".join(_SORTABLE),
            hint="the other figures are not computed from the lake yet",
            code="UNSUPPORTED",
        )
    return markets.sort(
        _SORTABLE[query.sort_field],
        descending=query.sort_direction is SortDirection.DESC,
        nulls_last=True,
        maintain_order=True,
    )
