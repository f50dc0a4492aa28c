"""Options: volatility, skew and open interest of a coin's option chain."""

from __future__ import annotations

from typing import TypeVar

from tidytape.client.series.wanted import Asking, Wanted
from tidytape.query.values import Names, TimeLike

__all__ = ["Options"]

ResultT = TypeVar("ResultT")


class Options(Asking[ResultT]):
    """Summaries of option chains."""

    def implied_volatility(
        self,
        *,
        exchange: Names,
        interval: str,
        start: TimeLike,
        end: TimeLike,
        coin: Names = None,
        raw_symbol: Names = None,
        tenor: str | None = None,
        sort_direction: str = "asc",
    ) -> ResultT:
        """Fetch implied volatility at constant times to expiry.

        Parameters
        ----------
        exchange : str or list of str
            Option venue.
        interval : str
            ``1m 5m 15m 30m 1h 4h 1d 1w``.
        start : int, datetime, date or str
            Start, inclusive: ISO 8601 or epoch seconds; no zone means UTC.
        end : int, datetime, date or str
            End, exclusive; as ``start``.
        coin : str or list of str, optional
            Base asset of the options.
        raw_symbol : str or list of str, optional
            Symbol of a summary; this, ``coin`` or both.
        tenor : str, optional
            Time to expiry: ``1d 3d 1w 1m 2m 3m 6m 1y``. All of them unless given.
        sort_direction : str, default 'asc'
            Order in time, ``asc`` or ``desc``.

        Returns
        -------
        frame, one row per series and timestamp, key (exchange, raw_symbol, tenor, timestamp)
            Sorted by the key, in time as asked. Schema IMPLIED_VOLATILITY_OPTION_SUMMARY_AGG: exchange,
            raw_symbol, normalized_symbol, coin, category, interval, tenor [categorical], and

            - ``is_final`` : bool, Whether the interval can no longer change; null where not known.
            - ``timestamp`` : timestamp, Start of the interval. [UTC]
            - ``implied_volatility`` : float64, Implied volatility, annualised. [%]

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
        ...     day = client.implied_volatility(
        ...         exchange="DEMO_OPTIONS", coin="BTC", interval="1d", start="2024-08-08", end="2024-08-09", tenor="1m"
        ...     )
        >>> day.select("raw_symbol", "tenor").rows()
        [('BTC_ATM', 'ONE_M')]
        """
        return self._points(Wanted.of("IMPLIED_VOLATILITY_OPTION_SUMMARY_AGG", locals()))

    def skew(
        self,
        *,
        exchange: str,
        coin: str,
        raw_symbol: str,
        tenor: str,
        interval: str,
        start: TimeLike,
        end: TimeLike,
        sort_direction: str = "asc",
    ) -> ResultT:
        """Fetch the skew of options.

        What it is, the service defines: ours says how much dearer puts are than calls.
        ``markets(type="SKEW_OPTION_SUMMARY_AGG")`` lists the summaries there are, and their tenors.

        Parameters
        ----------
        exchange : str
            Option venue.
        coin : str
            Base asset of the options.
        raw_symbol : str
            Symbol of the summary, which says what kind of skew it is.
        tenor : str
            Time to expiry: ``1d 3d 1w 1m 2m 3m 6m 1y``.
        interval : str
            ``1m 5m 15m 30m 1h 4h 1d 1w``.
        start : int, datetime, date or str
            Start, inclusive: ISO 8601 or epoch seconds; no zone means UTC.
        end : int, datetime, date or str
            End, exclusive; as ``start``.
        sort_direction : str, default 'asc'
            Order in time, ``asc`` or ``desc``.

        Returns
        -------
        frame, one row per series and timestamp, key (exchange, raw_symbol, tenor, timestamp)
            Sorted by the key, in time as asked. Schema SKEW_OPTION_SUMMARY_AGG: exchange, raw_symbol,
            normalized_symbol, coin, category, interval, tenor [categorical], and

            - ``is_final`` : bool, Whether the interval can no longer change; null where not known.
            - ``timestamp`` : timestamp, Start of the interval. [UTC]
            - ``skew`` : float64, Volatility of the put less that of the call; positive: puts are dearer.
              [vol points]

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
        ...     day = client.skew(
        ...         exchange="DEMO_OPTIONS", coin="BTC", raw_symbol="BTC_25", tenor="1w",
        ...         interval="1d", start="2024-08-08", end="2024-08-09",
        ...     )
        >>> day["skew"].item() > 0
        True
        """
        return self._points(Wanted.of("SKEW_OPTION_SUMMARY_AGG", locals()))

    def option_open_interest(
        self,
        *,
        exchange: Names,
        interval: str,
        start: TimeLike,
        end: TimeLike,
        raw_symbol: Names = None,
        coin: Names = None,
        normalized_symbol: Names = None,
        sort_direction: str = "asc",
    ) -> ResultT:
        """Fetch the open interest of all options of a coin.

        Parameters
        ----------
        exchange : str or list of str
            Option venue.
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
        sort_direction : str, default 'asc'
            Order in time, ``asc`` or ``desc``.

        Returns
        -------
        frame, one row per series and timestamp, key (exchange, raw_symbol, timestamp)
            Sorted by the key, in time as asked. Schema OPTION_OPEN_INTEREST_AGG: exchange, raw_symbol,
            normalized_symbol, coin, category, interval [categorical], and

            - ``amount_unit`` : category, What amounts count, COIN or USD; null where not known.
            - ``is_final`` : bool, Whether the interval can no longer change; null where not known.
            - ``timestamp`` : timestamp, Start of the interval. [UTC]
            - ``underlying_price_close`` : float64, Last underlying price. [quote per coin]
            - ``oi_close`` : float64, Last open interest. [coin or USD, see amount_unit]

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
        ...     day = client.option_open_interest(
        ...         exchange="DEMO_OPTIONS", coin="BTC", interval="1h", start="2024-08-08", end="2024-08-09"
        ...     )
        >>> day.height
        24
        """
        return self._points(Wanted.of("OPTION_OPEN_INTEREST_AGG", locals()))
