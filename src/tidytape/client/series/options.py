"""Options: volatility, skew and open interest of a coin's option chain."""

from __future__ import annotations

from typing import TypeVar

from tidytape.client.documented import documented
from tidytape.client.parameters import PARAMETERS
from tidytape.client.series.wanted import Asking, Wanted
from tidytape.query.values import Names, TimeLike
from tidytape.schema import schema_of

__all__ = ["Options"]

ResultT = TypeVar("ResultT")

_VENUE = "Option venue."


class Options(Asking[ResultT]):
    """Summaries of option chains."""

    @documented(
        schema_of("IMPLIED_VOLATILITY_OPTION_SUMMARY_AGG"),
        exchange=_VENUE,
        raw_symbol="Symbol of a summary; this, ``coin`` or both.",
        coin="Base asset of the options.",
        tenor=PARAMETERS["tenor"].text + " All of them unless given.",
    )
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

    @documented(
        schema_of("SKEW_OPTION_SUMMARY_AGG"),
        exchange=_VENUE,
        coin="Base asset of the options.",
        raw_symbol="Symbol of the summary, which says what kind of skew it is.",
    )
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

    @documented(schema_of("OPTION_OPEN_INTEREST_AGG"), exchange=_VENUE)
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
