"""Derivatives: open interest, funding and liquidations of perpetuals, and regulated futures."""

from __future__ import annotations

from datetime import timedelta
from typing import TypeVar

from tidytape.client.series.wanted import Asking, Wanted
from tidytape.query.values import Names, TimeLike

__all__ = ["Derivatives"]

ResultT = TypeVar("ResultT")


class Derivatives(Asking[ResultT]):
    """Open interest, funding and liquidations."""

    def open_interest(
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
        sort_direction: str = "asc",
        quote: str | None = None,
        group_by: str | None = None,
        event: Names = None,
    ) -> ResultT:
        """Fetch the open interest of perpetuals.

        An interval in which nothing was reported has no row. With ``quote="USD"`` every value is null as long as the
        service knows no price of the market, from trades or recorded candles: `candles` of it then has no rows.

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
        sort_direction : str, default 'asc'
            Order in time, ``asc`` or ``desc``.
        quote : str, optional
            ``USD`` converts at the price at which the interval closed.
        group_by : str, optional
            ``sum`` adds up the markets of a coin, in USD; each counts with its last value for up to 24
            hours.
        event : str or list of str, optional
            Slugs of prediction-market events.

        Returns
        -------
        frame, one row per series and timestamp, key (exchange, raw_symbol, timestamp)
            Sorted by the key, in time as asked. Schema OPEN_INTEREST_AGG: exchange, raw_symbol,
            normalized_symbol, coin, category, interval [categorical], and

            - ``amount_unit`` : category, What amounts count, COIN or USD; null where not known.
            - ``is_final`` : bool, Whether the interval can no longer change; null where not known.
            - ``timestamp`` : timestamp, Start of the interval. [UTC]
            - ``open`` : float64, First open interest. [coin or USD, see amount_unit]
            - ``high`` : float64, Highest open interest. [coin or USD, see amount_unit]
            - ``low`` : float64, Lowest open interest. [coin or USD, see amount_unit]
            - ``close`` : float64, Last open interest. [coin or USD, see amount_unit]
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
        ...     day = client.open_interest(
        ...         exchange="DEMO_PERP", coin="BTC", interval="1h", start="2024-08-08", end="2024-08-09", quote="USD"
        ...     )
        >>> day.height
        24
        """
        return self._points(Wanted.of("OPEN_INTEREST_AGG", locals()))

    def funding(
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
        funding_interval: int | str | timedelta | None = None,
        sort_direction: str = "asc",
        group_by: str | None = None,
        event: Names = None,
    ) -> ResultT:
        """Fetch funding rates of perpetuals, and predicted ones.

        A positive rate is paid by longs to shorts; the predicted one is that of the next settlement. Every rate is a
        fraction of the position per ``funding_interval``, whatever the venue's own: per eight hours unless that is
        given. No column says so, it is the same in all rows; ``interval`` is how long a row is. A rate over another
        interval is the same in proportion: over eight hours it is eight times that over one.

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
        funding_interval : int, str or timedelta, optional
            Time that the rates are brought to, e.g. ``1h``; 8 hours unless given. A number counts
            milliseconds.
        sort_direction : str, default 'asc'
            Order in time, ``asc`` or ``desc``.
        group_by : str, optional
            ``open_interest_weighted_avg`` joins the markets of a coin, weighted by their open interest in
            USD.
        event : str or list of str, optional
            Slugs of prediction-market events.

        Returns
        -------
        frame, one row per series and timestamp, key (exchange, raw_symbol, timestamp)
            Sorted by the key, in time as asked. Schema FUNDING_RATE_AGG: exchange, raw_symbol,
            normalized_symbol, coin, category, interval [categorical], and

            - ``is_final`` : bool, Whether the interval can no longer change; null where not known.
            - ``timestamp`` : timestamp, Start of the interval. [UTC]
            - ``rate_open`` : float64, First funding rate; positive: longs pay shorts. [1 per funding
              interval]
            - ``rate_high`` : float64, Highest funding rate. [1 per funding interval]
            - ``rate_low`` : float64, Lowest funding rate. [1 per funding interval]
            - ``rate_close`` : float64, Last funding rate. [1 per funding interval]
            - ``predicted_open`` : float64, First predicted rate of the next settlement. [1 per funding
              interval]
            - ``predicted_high`` : float64, Highest predicted rate. [1 per funding interval]
            - ``predicted_low`` : float64, Lowest predicted rate. [1 per funding interval]
            - ``predicted_close`` : float64, Last predicted rate. [1 per funding interval]
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
        ...     rates = [
        ...         client.funding(
        ...             exchange="DEMO_PERP", coin="BTC", interval="1d", start="2024-08-08", end="2024-08-09",
        ...             funding_interval=over,
        ...         )
        ...         for over in ("1h", "8h")
        ...     ]
        >>> hourly, usual = (rate["rate_close"].item() for rate in rates)
        >>> abs(usual - 8 * hourly) < 1e-12
        True
        """
        return self._points(Wanted.of("FUNDING_RATE_AGG", locals()))

    def liquidations(
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
        side: str | None = None,
        sort_direction: str = "asc",
        quote: str | None = None,
        group_by: str | None = None,
        event: Names = None,
    ) -> ResultT:
        """Fetch what was liquidated, longs and shorts apart.

        BUY are longs that were liquidated, SELL shorts. Venues report some of their liquidations only, so these are
        lower bounds.

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
        side : str, optional
            Keep BUY, longs that were liquidated, or SELL, shorts.
        sort_direction : str, default 'asc'
            Order in time, ``asc`` or ``desc``.
        quote : str, optional
            ``USD`` converts at the price of each liquidation.
        group_by : str, optional
            ``sum`` joins the markets of a coin into one series; amounts are in USD then.
        event : str or list of str, optional
            Slugs of prediction-market events.

        Returns
        -------
        frame, one row per series and timestamp, key (exchange, raw_symbol, side, timestamp)
            Sorted by the key, in time as asked. Schema LIQUIDATION_AGG: exchange, raw_symbol,
            normalized_symbol, coin, category, interval, side [categorical], and

            - ``amount_unit`` : category, What amounts count, COIN or USD; null where not known.
            - ``is_final`` : bool, Whether the interval can no longer change; null where not known.
            - ``timestamp`` : timestamp, Start of the interval. [UTC]
            - ``liquidations`` : float64, Liquidated volume; BUY = longs. [coin or USD, see amount_unit]
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
        ...     day = client.liquidations(
        ...         exchange="DEMO_PERP", coin="BTC", interval="1d", start="2024-08-08", end="2024-08-09"
        ...     )
        >>> day["side"].to_list()
        ['BUY', 'SELL']
        """
        return self._points(Wanted.of("LIQUIDATION_AGG", locals()))

    def cme_open_interest(
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
        sort_direction: str = "asc",
        event: Names = None,
    ) -> ResultT:
        """Fetch the open interest of regulated futures.

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
        sort_direction : str, default 'asc'
            Order in time, ``asc`` or ``desc``.
        event : str or list of str, optional
            Slugs of prediction-market events.

        Returns
        -------
        frame, one row per series and timestamp, key (exchange, raw_symbol, timestamp)
            Sorted by the key, in time as asked. Schema CME_OPEN_INTEREST_AGG: exchange, raw_symbol,
            normalized_symbol, coin, category, interval [categorical], and

            - ``amount_unit`` : category, What amounts count, COIN or USD; null where not known.
            - ``is_final`` : bool, Whether the interval can no longer change; null where not known.
            - ``timestamp`` : timestamp, Start of the interval. [UTC]
            - ``open`` : float64, First open interest. [coin or USD, see amount_unit]
            - ``high`` : float64, Highest open interest. [coin or USD, see amount_unit]
            - ``low`` : float64, Lowest open interest. [coin or USD, see amount_unit]
            - ``close`` : float64, Last open interest. [coin or USD, see amount_unit]
            - ``value_open`` : float64, First value of the open interest. [USD]
            - ``value_high`` : float64, Highest value. [USD]
            - ``value_low`` : float64, Lowest value. [USD]
            - ``value_close`` : float64, Last value. [USD]
            - ``price_open`` : float64, First price. [quote per coin]
            - ``price_high`` : float64, Highest price. [quote per coin]
            - ``price_low`` : float64, Lowest price. [quote per coin]
            - ``price_close`` : float64, Last price. [quote per coin]

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
        ...     day = client.cme_open_interest(
        ...         exchange="DEMO_CME", coin="BTC", interval="1d", start="2024-08-08", end="2024-08-09"
        ...     )
        >>> day.select("open", "price_close", "value_close").null_count().row(0)
        (0, 0, 0)
        """
        return self._points(Wanted.of("CME_OPEN_INTEREST_AGG", locals()))
