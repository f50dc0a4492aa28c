"""``GET /holdings``: from when to when the lake has what, which no list of the contract tells."""

from __future__ import annotations

from typing import Any

import polars as pl

from tidytape.query import MetaQuery
from tidytape.service.holdings import Holdings
from tidytape.service.lists import narrowed
from tidytape.times import SECOND

__all__ = ["spans"]


def spans(holdings: Holdings, query: MetaQuery) -> list[dict[str, Any]]:
    """Return how many subjects there are of each data type and venue, and from when to when.

    Parameters
    ----------
    holdings : Holdings
        What the lake holds.
    query : MetaQuery
        As for `tidytape.service.lists.listed`.

    Returns
    -------
    list of dict, types in the order of the catalogue, venues sorted
        ``type``; ``exchange``, None where the type has none; ``subjects``, the number of markets, option summaries or
        tokens; ``first`` and ``last``, timestamps of the first and the last event.

    Raises
    ------
    QueryError
        If a type does not exist.
    LakeError
        If the lake cannot be read.
    """
    of_venues = (
        narrowed(holdings, query)
        .group_by("type", "exchange", maintain_order=True)
        .agg(pl.len().alias("subjects"), pl.col("first").min(), pl.col("last").max())
    )
    return [
        {**row, "first": _timestamp(row["first"]), "last": _timestamp(row["last"])}
        for row in of_venues.iter_rows(named=True)
    ]


def _timestamp(ns: int) -> dict[str, int]:
    """A timestamp as the contract writes it."""
    seconds, rest = divmod(ns, SECOND)
    return {"s": seconds, "ns": rest} if rest else {"s": seconds}
