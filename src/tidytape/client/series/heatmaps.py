"""Heatmaps: resting orders and liquidations over time and price."""

from __future__ import annotations

from decimal import Decimal
from typing import TypeVar

from tidytape.client.series.wanted import Asking, Wanted
from tidytape.query.values import Names, TimeLike
from tidytape.schema import data_type

__all__ = ["Heatmaps"]

ResultT = TypeVar("ResultT")


def _weighing(name: str) -> str:
    return f"; more than {data_type(name).included_depth} weigh more."


class Heatmaps(Asking[ResultT]):
    """The order book and liquidations of a coin, by time and price."""

    def book_heatmap(
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
        max_depth: int | None = None,
        sort_direction: str = "asc",
        quote: str | None = None,
        group_by: str | None = None,
        event: Names = None,
    ) -> ResultT:
        """Fetch the order book at each price level.

        It is the size that rested there as the interval ended. ``block_sizes`` says which heights of a level the
        service recommends.

        Parameters
        ----------
        exchange : str or list of str
            Venue.
        interval : str
            ``1m 5m 15m 30m 1h 4h 1d 1w``.
        start : int, datetime, date or str
            Start, inclusive: ISO 8601 or epoch seconds; no zone means UTC.
        end : int, datetime, date or str
            End, exclusive; as ``start``.
        raw_symbol : str or list of str, optional
            Exchange-native symbol; exactly one of this, ``coin`` and ``normalized_symbol`` picks the
            markets.
        coin : str or list of str, optional
            Base asset, instead of ``raw_symbol``.
        normalized_symbol : str or list of str, optional
            Cross-exchange symbol, instead of ``raw_symbol``.
        category : str or list of str, optional
            Keep these market classes: SPOT, PERPETUAL, FUTURE, OPTION or COMBO.
        block_size : number, optional
            Height of a price level; the service chooses one otherwise. [quote per coin]
        max_depth : int, optional
            Most price levels of each side, from the middle out; more than 3500 weigh more.
        sort_direction : str, default 'asc'
            Order in time, ``asc`` or ``desc``; prices always ascend.
        quote : str, optional
            ``USD`` converts the sizes, each at its own price.
        group_by : str, optional
            ``sum`` joins the books of a coin into one; sizes are in USD then.
        event : str or list of str, optional
            Slugs of prediction-market events.

        Returns
        -------
        frame, one row per series, timestamp, side and price, key (exchange, raw_symbol, timestamp, side, price)
            Sorted by the key, in time as asked. Schema BLOCK_BOOK_SNAPSHOT_AGG: exchange, raw_symbol,
            normalized_symbol, coin, category, interval [categorical], and

            - ``amount_unit`` : category, What amounts count, COIN or USD; null where not known.
            - ``block_size`` : float64, Height of a price level; null where not known. [quote per coin]
            - ``is_final`` : bool, Whether the interval can no longer change; null where not known.
            - ``timestamp`` : timestamp, Start of the interval. [UTC]
            - ``side`` : category, BID or ASK.
            - ``price`` : float64, Low edge of the level. [quote per coin]
            - ``size`` : float64, Resting size at the level. [coin or USD, see amount_unit]
            - ``coverage`` : float64, with ``group_by``: Share of what was added up that is known; null
              where that is unknown. [1]

        Raises
        ------
        QueryError
            If the request cannot be right; nothing was sent or charged.
        ServiceError
            If the service gives no answer in time.
        DecodeError
            If the answer is not what the contract says, is of something else, or is longer than
            ``max_body``.
        IncompleteDataError
            If a row came twice with different values.

        Examples
        --------
        >>> import tidytape
        >>> with tidytape.Client.demo() as client:
        ...     book = client.book_heatmap(
        ...         exchange="DEMO_SPOT", coin="BTC", interval="1h", start="2024-08-08", end="2024-08-08T01:00",
        ...         block_size=10, max_depth=3,
        ...     )
        >>> book["side"].to_list()
        ['ASK', 'ASK', 'ASK', 'BID', 'BID', 'BID']
        """
        return self._points(Wanted.of("BLOCK_BOOK_SNAPSHOT_AGG", locals()))

    def liquidation_heatmap(
        self,
        *,
        coin: Names,
        interval: str,
        start: TimeLike,
        end: TimeLike,
        exchange: Names = None,
        block_size: float | str | Decimal | None = None,
        max_depth: int | None = None,
        sort_direction: str = "asc",
        quote: str | None = None,
    ) -> ResultT:
        """Fetch what was liquidated at each price level.

        It is of all markets of a coin on one venue.

        Parameters
        ----------
        coin : str or list of str
            Base asset.
        interval : str
            ``1m 5m 15m 30m 1h 4h 1d 1w``.
        start : int, datetime, date or str
            Start, inclusive: ISO 8601 or epoch seconds; no zone means UTC.
        end : int, datetime, date or str
            End, exclusive; as ``start``.
        exchange : str or list of str, optional
            Venue, where the service has several to choose from.
        block_size : number, optional
            Height of a price level; the service chooses one otherwise. [quote per coin]
        max_depth : int, optional
            Most price levels; more than 1500 weigh more.
        sort_direction : str, default 'asc'
            Order in time, ``asc`` or ``desc``; prices always ascend.
        quote : str, optional
            ``USD`` converts at the price of each liquidation.

        Returns
        -------
        frame, one row per series, timestamp and price, key (exchange, raw_symbol, coin, timestamp, price)
            Sorted by the key, in time as asked. Schema VENUEX_LIQUIDATION_AGG: exchange, raw_symbol,
            normalized_symbol, coin, category, interval [categorical], and

            - ``amount_unit`` : category, What amounts count, COIN or USD; null where not known.
            - ``block_size`` : float64, Height of a price level; null where not known. [quote per coin]
            - ``is_final`` : bool, Whether the interval can no longer change; null where not known.
            - ``timestamp`` : timestamp, Start of the interval. [UTC]
            - ``price`` : float64, Low edge of the level. [quote per coin]
            - ``liquidations`` : float64, Liquidation volume at the level. [coin or USD, see amount_unit]

        Raises
        ------
        QueryError
            If the request cannot be right; nothing was sent or charged.
        ServiceError
            If the service gives no answer in time.
        DecodeError
            If the answer is not what the contract says, is of something else, or is longer than
            ``max_body``.
        IncompleteDataError
            If a row came twice with different values.

        Examples
        --------
        >>> import tidytape
        >>> with tidytape.Client.demo() as client:
        ...     levels = client.liquidation_heatmap(
        ...         coin="BTC", interval="1d", start="2024-08-08", end="2024-08-09", block_size=500
        ...     )
        >>> levels["liquidations"].min() > 0
        True
        """
        return self._points(Wanted.of("VENUEX_LIQUIDATION_AGG", locals()))
