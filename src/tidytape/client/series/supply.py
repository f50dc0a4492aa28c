"""Tokens: what there is of them and what it is worth."""

from __future__ import annotations

from typing import TypeVar

from tidytape.client.series.wanted import Asking, Wanted
from tidytape.query.values import Names, TimeLike

__all__ = ["Supply"]

ResultT = TypeVar("ResultT")


class Supply(Asking[ResultT]):
    """Supply and dominance of tokens."""

    def token_supply(
        self,
        *,
        interval: str,
        start: TimeLike,
        end: TimeLike,
        token_name: str | None = None,
        coin: Names = None,
        sort_direction: str = "asc",
    ) -> ResultT:
        """Fetch market value, supply and dominance of a token.

        Parameters
        ----------
        interval : str
            ``1m 5m 15m 30m 1h 4h 1d 1w``.
        start : int, datetime, date or str
            Start, inclusive: ISO 8601 or epoch seconds; no zone means UTC.
        end : int, datetime, date or str
            End, exclusive; as ``start``.
        token_name : str, optional
            Token; this or ``coin``. Usually the ``coin_name`` of a market.
        coin : str or list of str, optional
            Base asset, instead of ``token_name``.
        sort_direction : str, default 'asc'
            Order in time, ``asc`` or ``desc``.

        Returns
        -------
        frame, one row per series and timestamp, key (exchange, raw_symbol, coin, timestamp)
            Sorted by the key, in time as asked. Schema TOKEN_SUPPLY_AGG: exchange, raw_symbol,
            normalized_symbol, coin, category, interval [categorical], and

            - ``is_final`` : bool, Whether the interval can no longer change; null where not known.
            - ``timestamp`` : timestamp, Start of the interval. [UTC]
            - ``marketcap`` : float64, Market capitalization, last of the interval. [USD]
            - ``first_marketcap`` : float64, Market capitalization, first of the interval. [USD]
            - ``marketcap_dominance_percent`` : float64, Share of the total. [%]
            - ``circulating_supply`` : float64, Circulating supply. [coin]
            - ``total_supply`` : float64, Total supply. [coin]
            - ``max_supply`` : float64, Maximum supply. [coin]
            - ``total_value_locked`` : float64, Total value locked. [USD]
            - ``fully_diluted_valuation`` : float64, Fully diluted valuation. [USD]
            - ``total_volume`` : float64, Traded volume over 24 hours. [USD]
            - ``usd_price`` : float64, Price. [USD per coin]
            - ``cg_marketcap_rank`` : int64, Rank by market capitalization.
            - ``chain`` : string, Chain the token lives on.
            - ``contract_address`` : string, Address of the token's contract.

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
        ...     day = client.token_supply(coin="BTC", interval="1d", start="2024-08-08", end="2024-08-09")
        >>> 0 < day["marketcap_dominance_percent"].item() < 100
        True
        """
        return self._points(Wanted.of("TOKEN_SUPPLY_AGG", locals()))
