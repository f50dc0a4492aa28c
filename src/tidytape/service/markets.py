"""``GET /v1/markets``: filter, sort and page the lake's registry of markets, prediction markets with them."""

from __future__ import annotations

import polars as pl

from tidytape import wire
from tidytape.catalogue import MarketSortField, SortDirection
from tidytape.errors import QueryError
from tidytape.lake.predictions import by_instrument
from tidytape.query import MarketsQuery
from tidytape.schema import MARKETS, PREDICTION_MARKET_ENTRY, data_type
from tidytape.service.figures import Figures
from tidytape.service.holdings import Holdings

__all__ = ["DEFAULT_PAGE", "LARGEST_PAGE", "page"]

DEFAULT_PAGE = 100
"""Results of a page when no size is asked for."""

LARGEST_PAGE = 1_000
"""Most results of a page."""

_REGISTERED = (None, MarketSortField.MARKETCAP, MarketSortField.AVAILABLE_SINCE)
"""Sort fields that are no figure of the last 24 hours."""

_ORDER = ["exchange", "raw_symbol", "tenor"]
_SEARCHED = ("raw_symbol", "normalized_symbol", "coin", "coin_name", "quote_coin_name", "full_name")


def page(holdings: Holdings, query: MarketsQuery, *, figures: Figures) -> bytes:
    """Return the body of one page.

    Parameters
    ----------
    holdings : Holdings
        What the lake holds.
    query : MarketsQuery
    figures : Figures
        Last prices and figures of the last 24 hours.

    Returns
    -------
    bytes
        JSON with ``symbols`` and ``nextOffset``, which is the offset plus the number of results. A market that is an
        outcome of a prediction market has that in ``predictionMarkets``; an option summary is a market per tenor.

    Raises
    ------
    QueryError
        If the page is too large, or a data type does not exist.
    """
    size = query.page_size or DEFAULT_PAGE
    if size > LARGEST_PAGE:
        raise QueryError("pageSize", got=size, expected=f"at most {LARGEST_PAGE}")
    found = _filtered(holdings, query).sort(_ORDER)
    computed = query.sort_field not in _REGISTERED or query.distinct
    if computed:
        found = figures.of(found, sort_field=query.sort_field)
    if query.distinct:
        found = _distinct(found)
    if query.sort_field is not None:
        found = found.sort(
            query.sort_field.alias,
            descending=query.sort_direction is SortDirection.DESC,
            nulls_last=True,
            maintain_order=True,
        )
    shown = found.slice(query.page_offset, size)
    shown = shown if computed else figures.of(shown)
    entries = MARKETS.conform(shown).select(MARKETS.names)
    return wire.encode_markets(
        _with_predictions(entries, holdings.lake.prediction_markets()), query.page_offset + shown.height
    )


def _distinct(markets: pl.DataFrame) -> pl.DataFrame:
    """One market per normalized symbol: of the venue that traded most of it, of several such the first by name."""
    ranked = markets.sort("volume_24h", descending=True, nulls_last=True, maintain_order=True)
    # What has no such symbol is like nothing else.
    first = pl.col("normalized_symbol").is_first_distinct() | pl.col("normalized_symbol").is_null()
    return ranked.filter(first).sort(_ORDER)


def _with_predictions(markets: pl.DataFrame, predictions: pl.DataFrame) -> pl.DataFrame:
    """Markets with a column ``prediction_markets``, a list of what each is an outcome of, null where of nothing."""
    key = ["exchange", "raw_symbol"]
    outcomes = by_instrument(predictions).join(markets.select(key).cast(pl.String), on=key, how="semi")
    entries = PREDICTION_MARKET_ENTRY.conform(outcomes.select(PREDICTION_MARKET_ENTRY.names))
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


def _filtered(holdings: Holdings, query: MarketsQuery) -> pl.DataFrame:
    known = [holdings.lake.markets(), holdings.option_summaries()]
    markets = pl.concat(known, how="diagonal").unique(_ORDER, keep="first")
    reported = holdings.marketcaps().rename({"marketcap": "reported"})
    markets = markets.join(reported, on="coin", how="left", maintain_order="left")
    # What was registered with the market is older than what reports say.
    markets = markets.with_columns(marketcap=pl.coalesce("reported", "marketcap")).drop("reported")
    for column in ("exchange", "coin", "category"):
        wanted = [str(one) for one in getattr(query, column)]
        if wanted:
            markets = markets.filter(pl.col(column).is_in(wanted))
    for name in query.type:
        data_type(name)  # a type that does not exist is an error, not a page of nothing
    if query.type:
        of_types = holdings.all().filter(pl.col("type").is_in(query.type))
        markets = markets.join(of_types, on=["exchange", "raw_symbol"], how="semi", maintain_order="left")
    if query.symbol_filter:
        part = query.symbol_filter.lower()
        searched = [pl.col(name).str.to_lowercase().str.contains(part, literal=True) for name in _SEARCHED]
        markets = markets.filter(pl.any_horizontal(*[hit.fill_null(value=False) for hit in searched]))
    return markets
