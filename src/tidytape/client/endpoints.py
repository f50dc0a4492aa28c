"""What a client can be asked, and the flow that answers each of it; defined once for every kind of client.

``Client`` fills the type variables with frames, ``AsyncClient`` with awaitables of frames; the methods, their
parameters and their documentation are the same.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, TypeVar

import polars as pl

from tidytape.client import flow, list_flow
from tidytape.client.documented import documented
from tidytape.client.flow import Flow, Usage
from tidytape.client.lists import ListMethods
from tidytape.client.series import SeriesMethods, Wanted
from tidytape.client.settings import Backend, Settings
from tidytape.query import MarketsQuery, MetaQuery, PointsQuery
from tidytape.schema import BLOCK_SIZES, MARKETS, PREDICTION_MARKETS, Schema, schema_of

__all__ = ["Endpoints"]

FrameT = TypeVar("FrameT")
NamesT = TypeVar("NamesT")
UsageT = TypeVar("UsageT")

_TABLES: Mapping[str, tuple[Callable[[Settings, Any], Flow[pl.DataFrame]], Schema]] = MappingProxyType(
    {
        "markets": (flow.markets, MARKETS),
        "prediction-markets": (list_flow.prediction_markets, PREDICTION_MARKETS),
        "block-sizes": (list_flow.block_sizes, BLOCK_SIZES),
    }
)


class Endpoints(SeriesMethods[FrameT], ListMethods[FrameT, NamesT, UsageT]):
    """What can be asked of the service. All arguments are keyword-only.

    Windows are half-open: ``start`` belongs to them, ``end`` does not. Times are epoch seconds, datetimes, dates or
    ISO 8601 strings; what has no zone is UTC. A candle or profile belongs to the window when its interval starts in it:
    a window from 23:50 to 00:05 has one hour in it, that of midnight. A window longer than one request may cover is
    fetched in several, and the client waits where the budget of the key is used up.
    """

    def __init__(self, settings: Settings, backend: Backend) -> None:
        self._settings = settings
        self._backend = backend

    def __repr__(self) -> str:
        """Return the address and the backend, never the key."""
        return f"{type(self).__name__}({self._settings.base_url!r}, backend={self._backend!r})"

    @abstractmethod
    def _fetch_frame(self, steps: Flow[pl.DataFrame], schema: Schema) -> FrameT: ...

    @abstractmethod
    def _fetch_names(self, steps: Flow[list[str]]) -> NamesT: ...

    @abstractmethod
    def _fetch_usage(self, steps: Flow[Usage]) -> UsageT: ...

    def _points(self, wanted: Wanted) -> FrameT:
        return self._fetch_frame(_finished(self._settings, wanted), wanted.schema)

    def _names(self, name: str, query: MetaQuery) -> NamesT:
        return self._fetch_names(list_flow.names(self._settings, name, query))

    def _table(self, name: str, query: MetaQuery | MarketsQuery) -> FrameT:
        steps, schema = _TABLES[name]
        return self._fetch_frame(steps(self._settings, query), schema)

    def _usage(self) -> UsageT:
        return self._fetch_usage(flow.usage(self._settings))

    @documented()
    def points(self, query: PointsQuery) -> FrameT:
        """Fetch one request as it stands.

        Returns
        -------
        frame
            In the schema of the query's data type; rows by series, then time, then price.

        Examples
        --------
        >>> import tidytape
        >>> query = tidytape.PointsQuery(
        ...     type="TRADE_AGG", exchange="DEMO_SPOT", coin="BTC", interval="1d", start="2024-08-07", end="2024-08-09"
        ... )
        >>> with tidytape.Client.demo() as client:
        ...     client.points(query)["side"].unique().sort().to_list()
        ['BUY', 'SELL']
        """
        return self._points(Wanted((query,), schema_of(query.type[0])))


def _finished(settings: Settings, wanted: Wanted) -> Flow[pl.DataFrame]:
    frame = yield from flow.points(settings, wanted.queries)
    return frame if wanted.finish is None else wanted.finish(frame)
