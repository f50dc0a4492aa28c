"""The markets that existed at a time of the past."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import polars as pl

from tidytape.catalogue import MarketSortField
from tidytape.client._request import listed_holdings, markets
from tidytape.client._settings import Settings
from tidytape.client._steps import Flow
from tidytape.errors import QueryError
from tidytape.query import MarketsQuery, MetaQuery
from tidytape.query._values import TimeLike, epoch_seconds, written_time
from tidytape.schema import HOLDINGS

_KEY = ["exchange", "raw_symbol", "coin"]
_OF_TODAY = (
    "last_price",
    "volume_24h",
    "volume_change_24h",
    "price_change_24h",
    "oi_change_24h",
    "marketcap",
)
"""Columns whose values a service knows for the present only."""


@dataclass(frozen=True, slots=True)
class AsOfQuery:
    """A search for the markets that existed at a time.

    Parameters
    ----------
    search : MarketsQuery
        The search.
    as_of : int
        The time. [s since the epoch]

    Raises
    ------
    QueryError
        If the search ranks markets by values of the present.
    """

    search: MarketsQuery
    as_of: int

    @classmethod
    def of(cls, *, as_of: TimeLike, **fields: Any) -> AsOfQuery:
        """Return the query of a time and the fields of a search."""
        search = MarketsQuery(**fields)
        if search.distinct:
            raise QueryError("distinct", got=True, expected="nothing beside ``as_of``: today's volume ranks")
        if search.sort_field not in {None, MarketSortField.AVAILABLE_SINCE}:
            expected = "available_since, or nothing, beside ``as_of``: the others are of today"
            raise QueryError("sort_field", got=str(search.sort_field), expected=expected)
        return cls(search, epoch_seconds(as_of, parameter="as_of"))

    def to_params(self) -> list[tuple[str, str]]:
        """Return the parameters by which a tape finds the answer."""
        return [*self.search.to_params(), ("asOf", written_time(self.as_of))]


def markets_as_of(settings: Settings, query: AsOfQuery) -> Flow[pl.DataFrame]:
    """Fetch the markets that existed at a time, see `tidytape.analytics.pit.universe`.

    Returns
    -------
    polars.DataFrame
        Schema MARKETS, and ``last_timestamp``, the last event of the market, null if the service does not tell it.
        Values of the present and later renamings are null.
    """
    from tidytape.analytics import pit

    search = query.search
    rows = yield from markets(settings, search)
    # All coins and symbols: those of the search may have been renamed to others.
    holdings = yield from listed_holdings(settings, MetaQuery(type=search.type, exchange=search.exchange))
    if holdings is None:
        holdings = HOLDINGS.empty()
    lives = holdings.with_columns(pl.col("raw_symbol").fill_null("")).group_by(_KEY)
    events = lives.agg(
        pl.col("first_timestamp", "available_since", "renamed_at").min(),
        pl.col("last_timestamp").max(),
        pl.col("renamed_to").first(),
    )
    ends = events.select(*_KEY, "first_timestamp", "last_timestamp")
    rows = rows.join(ends, on=_KEY, how="left", nulls_equal=True, maintain_order="left")
    others = events.join(rows, on=_KEY, how="anti", nulls_equal=True)
    instant = pl.from_epoch(pl.Series("timestamp", [query.as_of]), "s").dt.cast_time_unit("ns")
    existing = pit.universe(
        pl.concat([rows, others], how="diagonal"), instant.dt.replace_time_zone("UTC").to_frame()
    )
    identity = [name for name in existing.columns if name != "timestamp"]
    later = pl.col("renamed_at").dt.epoch("s") > query.as_of
    return (
        rows.join(existing, on=identity, how="semi", nulls_equal=True, maintain_order="left")
        .with_columns(pl.lit(None, pl.Float64).alias(name) for name in _OF_TODAY)
        .with_columns(
            pl.when(~later.fill_null(value=False)).then(name) for name in ("renamed_to", "renamed_at")
        )
        .drop("first_timestamp")
    )
