"""Prices: candles and the trades they are made of."""

from __future__ import annotations

from typing import TypeVar

from tidytape.client.series.wanted import Asking, Wanted, given
from tidytape.query.values import Names, TimeLike

__all__ = ["Prices"]

ResultT = TypeVar("ResultT")


class Prices(Asking[ResultT]):
    """Candles and trades."""

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
    ) -> ResultT:
        """Fetch candles.

        By side the frame has schema TRADE_AGG: the same columns and ``side``, BUY or SELL, which is in the key too.

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
        by_side : bool, default False
            One series per aggressor side; a ``side`` implies it.
        side : str, optional
            Keep BUY or SELL.
        sort_direction : str, default 'asc'
            Order in time, ``asc`` or ``desc``.
        gapfill : bool, default False
            Fill missing intervals with the last close, if the service can.
        quote : str, optional
            ``USD`` converts the volume; prices stay as they are.
        group_by : str, optional
            ``sum`` joins the markets of a coin into one series; amounts are in USD then.
        event : str or list of str, optional
            Slugs of prediction-market events.

        Returns
        -------
        frame, one row per series and timestamp, key (exchange, raw_symbol, timestamp)
            Sorted by the key, in time as asked. Schema TRADE_SIDE_AGNOSTIC_AGG: exchange, raw_symbol,
            normalized_symbol, coin, category, interval [categorical], and

            - ``amount_unit`` : category, What amounts count, COIN or USD; null where not known.
            - ``is_final`` : bool, Whether the interval can no longer change; null where not known.
            - ``timestamp`` : timestamp, Start of the interval. [UTC]
            - ``open`` : float64, Price of the first trade. [quote per coin]
            - ``high`` : float64, Highest price. [quote per coin]
            - ``low`` : float64, Lowest price. [quote per coin]
            - ``close`` : float64, Price of the last trade. [quote per coin]
            - ``volume`` : float64, Traded volume, of the series' side where it has one. [coin or USD, see
              amount_unit]
            - ``first_timestamp`` : timestamp, Time of the first trade. [UTC]
            - ``last_timestamp`` : timestamp, Time of the last trade. [UTC]
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
        ...     day = client.candles(
        ...         exchange="DEMO_SPOT", raw_symbol="BTCUSDT", interval="1h", start="2024-08-08", end="2024-08-09"
        ...     )
        >>> day.height
        24
        """
        name = "TRADE_AGG" if by_side or side else "TRADE_SIDE_AGNOSTIC_AGG"
        return self._points(Wanted.of(name, given(locals(), leave={"by_side", "name"})))

    def trades(
        self,
        *,
        exchange: Names,
        start: TimeLike,
        end: TimeLike,
        raw_symbol: Names = None,
        coin: Names = None,
        normalized_symbol: Names = None,
        category: Names = None,
        side: str | None = None,
        sort_direction: str = "asc",
        event: Names = None,
    ) -> ResultT:
        """Fetch raw trades.

        Each side of the aggressor is a series of its own.

        Parameters
        ----------
        exchange : str or list of str
            Venue.
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
        side : str, optional
            Keep BUY or SELL.
        sort_direction : str, default 'asc'
            Order in time, ``asc`` or ``desc``.
        event : str or list of str, optional
            Slugs of prediction-market events.

        Returns
        -------
        frame, one row per trade, key (exchange, raw_symbol, side, timestamp, id)
            Sorted by the key, in time as asked. Schema TRADE: exchange, raw_symbol, normalized_symbol,
            coin, category, interval, side [categorical], and

            - ``amount_unit`` : category, What amounts count, COIN or USD; null where not known.
            - ``timestamp`` : timestamp, Time of the trade. [UTC]
            - ``id`` : string, Exchange-native trade id.
            - ``price`` : float64, Price. [quote per coin]
            - ``amount`` : float64, Amount. [coin or USD, see amount_unit]
            - ``quote_amount`` : float64, Amount in terms of the quote. [quote]

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
        ...     minute = client.trades(
        ...         exchange="DEMO_SPOT", coin="BTC", start="2024-08-08T12:00", end="2024-08-08T12:01", side="buy"
        ...     )
        >>> minute["side"].unique().to_list()
        ['BUY']
        """
        return self._points(Wanted.of("TRADE", locals()))
