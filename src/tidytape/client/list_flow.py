"""The flows of the list endpoints; those of markets and usage are in `flow`."""

from __future__ import annotations

import polars as pl

from tidytape import wire
from tidytape.client import flow
from tidytape.client.flow import Flow
from tidytape.client.settings import Settings
from tidytape.errors import IncompleteDataError
from tidytape.query import MarketsQuery, MetaQuery
from tidytape.schema import PREDICTION_MARKETS

__all__ = ["block_sizes", "names", "prediction_markets"]

_NESTED = "prediction_markets"


def names(settings: Settings, name: str, query: MetaQuery) -> Flow[list[str]]:
    """Fetch a list of names, in the service's order."""
    answer = yield from flow.ask(settings, f"/v1/{name}", query.to_params(), accept=wire.JSON_MIME, cost=0)
    return wire.decode_names(answer.content, name)


def block_sizes(settings: Settings, query: MetaQuery) -> Flow[pl.DataFrame]:
    """Fetch the recommended block sizes, in the service's order."""
    answer = yield from flow.ask(
        settings, "/v1/block-sizes", query.to_params(), accept=wire.JSON_MIME, cost=0
    )
    return wire.decode_block_sizes(answer.content)


def prediction_markets(settings: Settings, query: MarketsQuery) -> Flow[pl.DataFrame]:
    """Fetch every page of a search for markets, and return the prediction markets in them.

    Returns
    -------
    polars.DataFrame
        One row per market and prediction market, in the service's order.

    Raises
    ------
    IncompleteDataError
        As for `flow.markets`, or if a market has two prediction markets of one name.
    """
    found = yield from flow.markets(settings, query)
    owner = ["exchange", "raw_symbol"]
    if _NESTED not in found.columns:
        return PREDICTION_MARKETS.empty()
    entries = found.select(*owner, _NESTED).explode(_NESTED).drop_nulls(_NESTED)
    # An entry may have fields of these names that the contract does not know; its market's are meant.
    told = entries[_NESTED].struct.unnest().drop(owner, strict=False)
    rows = PREDICTION_MARKETS.conform(entries.select(owner).hstack(told)).unique(maintain_order=True)
    if rows.select(PREDICTION_MARKETS.key).is_duplicated().any():
        raise IncompleteDataError("/v1/markets: a prediction market came twice with different values")
    return rows
