"""The methods of a client, defined once for every kind of client.

``Client`` fills the type variables with frames, ``AsyncClient`` with awaitables of frames; the methods, their
parameters and their documentation are these.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Generic, TypeVar

import polars as pl

from tidytape.client import flow
from tidytape.client.fetching import fetched
from tidytape.client.progress import Progress
from tidytape.client.quota import Usage
from tidytape.client.settings import Backend, Settings
from tidytape.client.steps import Flow
from tidytape.client.window import Window
from tidytape.query import MarketsQuery, PointsQuery
from tidytape.query.values import Names, TimeLike
from tidytape.schema import MARKETS, Schema, schema_of

__all__ = ["Endpoints"]

FrameT = TypeVar("FrameT")
UsageT = TypeVar("UsageT")


class Endpoints(ABC, Generic[FrameT, UsageT]):
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
    def _fetch_usage(self, steps: Flow[Usage]) -> UsageT: ...

    def _points(self, queries: Sequence[PointsQuery]) -> FrameT:
        window = Window.of(queries)
        return self._fetch_frame(self._frame_of(window), schema_of(window.data_type))

    def _frame_of(self, window: Window) -> Flow[pl.DataFrame]:
        progress = Progress(window.data_type, wanted=self._settings.progress)
        frame, _ = yield from fetched(self._settings, window, progress)
        return frame

    def points(self, query: PointsQuery | Sequence[PointsQuery]) -> FrameT:
        """Fetch one request as it stands.

        Parameters
        ----------
        query : PointsQuery
            Of one data type.

        Returns
        -------
        frame
            In the schema of the query's data type; rows by series, then time, then price.

        Raises
        ------
        QueryError
            If the query names more than one data type.

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
        return self._points([query] if isinstance(query, PointsQuery) else query)

    def candles(
        self,
        *,
        exchange: Names,
        interval: str,
        start: TimeLike,
        end: TimeLike,
        raw_symbol: Names = None,
        coin: Names = None,
        normalized_symbol: Names = None,
        category: Names = None,
        by_side: bool = False,
        side: str | None = None,
        sort_direction: str = "asc",
        gapfill: bool = False,
        quote: str | None = None,
        group_by: str | None = None,
        event: Names = None,
    ) -> FrameT:
        """Fetch candles.

        Parameters
        ----------
        exchange : str or list of str
            Venue.
        interval : str
            ``1m 5m 15m 30m 1h 4h 1d 1w``.
        start, end : int, datetime, date or str
            The window, half-open; an interval belongs to it when it starts in it.
        raw_symbol, coin, normalized_symbol : str or list of str
            Exactly one of the three.
        category : str or list of str
            Keep these market classes.
        by_side : bool
            One series per aggressor side; a ``side`` implies it.
        side : str
            Keep BUY or SELL.
        sort_direction : str
            ``asc`` or ``desc``.
        gapfill : bool
            Fill missing intervals with the last close, if the service can.
        quote : str
            ``USD`` converts the volume.
        group_by : str
            ``sum`` joins the exchanges.
        event : str or list of str
            Slugs of prediction-market events.

        Returns
        -------
        frame
            One row per series and interval; prices [quote per coin], volume [coin, or USD if so asked or grouped].
            Schema TRADE_SIDE_AGNOSTIC_AGG, or TRADE_AGG by side.

        Raises
        ------
        QueryError
            If the request cannot be right; nothing was sent or charged.
        ServiceError
            If the service gives no answer in time.
        DecodeError
            If the answer is not what the contract says, is of something else, or is longer than ``max_body``.
        IncompleteDataError
            If a point came twice with different values.

        Examples
        --------
        >>> import tidytape
        >>> with tidytape.Client.demo() as client:
        ...     day = client.candles(
        ...         exchange="DEMO_SPOT", raw_symbol="BTCUSDT", interval="1h", start="2024-08-08", end="2024-08-09"
        ...     )
        >>> day.height
        24
        """
        fields = _given(locals(), leave={"by_side"})
        kind = "TRADE_AGG" if by_side or side else "TRADE_SIDE_AGNOSTIC_AGG"
        return self._points(PointsQuery.split(type=kind, **fields))

    def volume_profile(
        self,
        *,
        exchange: Names,
        interval: str,
        start: TimeLike,
        end: TimeLike,
        raw_symbol: Names = None,
        coin: Names = None,
        normalized_symbol: Names = None,
        category: Names = None,
        block_size: float | str | Decimal | None = None,
        sort_direction: str = "asc",
        quote: str | None = None,
        group_by: str | None = None,
        event: Names = None,
    ) -> FrameT:
        """Fetch the volume traded at each price level.

        Parameters
        ----------
        exchange : str or list of str
            Venue.
        interval : str
            ``1m 5m 15m 30m 1h 4h 1d 1w``; one profile each.
        start, end : int, datetime, date or str
            The window, half-open; an interval belongs to it when it starts in it.
        raw_symbol, coin, normalized_symbol : str or list of str
            Exactly one of the three.
        category : str or list of str
            Keep these market classes.
        block_size : number
            Height of a level; the service chooses one otherwise. [quote per coin]
        sort_direction : str
            ``asc`` or ``desc``, in time; prices always ascend.
        quote : str
            ``USD`` converts the volumes.
        group_by : str
            ``sum`` joins the exchanges.
        event : str or list of str
            Slugs of prediction-market events.

        Returns
        -------
        frame
            One row per series, interval and price level: ``price`` is the low edge [quote per coin],
            ``buy_volume``, ``sell_volume`` and their sum ``volume`` [coin, or USD if so asked or grouped].
            Schema VOLUME_PROFILE_AGG.

        Raises
        ------
        QueryError
            If the request cannot be right; nothing was sent or charged.
        ServiceError
            If the service gives no answer in time.
        DecodeError
            If the answer is not what the contract says, is of something else, or is longer than ``max_body``.
        IncompleteDataError
            If a point came twice with different values.

        Examples
        --------
        >>> import tidytape
        >>> with tidytape.Client.demo() as client:
        ...     levels = client.volume_profile(
        ...         exchange="DEMO_SPOT", coin="BTC", interval="1d", start="2024-08-08", end="2024-08-09",
        ...         block_size=100,
        ...     )
        >>> bool((levels["price"] % 100 == 0).all())
        True
        """
        fields = _given(locals())
        return self._points(PointsQuery.split(type="VOLUME_PROFILE_AGG", **fields))

    def markets(
        self,
        *,
        exchange: Names = None,
        coin: Names = None,
        category: Names = None,
        type: Names = None,
        symbol_filter: str | None = None,
        sort_field: str | None = None,
        sort_direction: str | None = None,
        distinct: bool = False,
        page_size: int | None = None,
    ) -> FrameT:
        """Search the markets of the service, all pages. Costs no weight.

        Parameters
        ----------
        exchange, coin, category, type : str or list of str
            Keep these.
        symbol_filter : str
            Part of a symbol, coin name or title, in any case.
        sort_field : str
            What to sort by, e.g. ``available_since``.
        sort_direction : str
            ``asc`` or ``desc``.
        distinct : bool
            One row per normalized symbol.
        page_size : int
            Rows to fetch at a time; it does not change the result.

        Returns
        -------
        frame
            One row per market, in the service's order. Schema MARKETS.

        Raises
        ------
        QueryError
            If the request cannot be right.
        ServiceError
            If the service gives no answer, or not all pages in time.
        DecodeError
            If a page is not what the contract says, or is longer than ``max_body``.
        IncompleteDataError
            If the pages have no end, or a market came twice with different values.

        Examples
        --------
        >>> import tidytape
        >>> with tidytape.Client.demo() as client:
        ...     client.markets()["exchange"].to_list()
        ['DEMO_PERP', 'DEMO_SPOT']
        """
        query = MarketsQuery(**_given(locals()))
        return self._fetch_frame(flow.markets(self._settings, query), MARKETS)

    def usage(self) -> UsageT:
        """Fetch the quota of the key. Costs no weight.

        Returns
        -------
        Usage
            Limit, remaining and used weight, and when the bucket is full again.

        Raises
        ------
        ServiceError
            If the service gives no answer.

        Examples
        --------
        >>> import tidytape
        >>> with tidytape.Client.demo() as client:
        ...     client.usage().window_seconds
        60
        """
        return self._fetch_usage(flow.usage(self._settings))


_REQUIRED = ("start", "end", "interval")


def _given(arguments: dict[str, Any], *, leave: frozenset[str] | set[str] = frozenset()) -> dict[str, Any]:
    """Keep the arguments of a method that its caller gave a value, or that always have one."""
    return {
        name: value
        for name, value in arguments.items()
        if name != "self" and name not in leave and (value is not None or name in _REQUIRED)
    }
