"""Derivatives: open interest, funding and liquidations of perpetuals, and regulated futures."""

from __future__ import annotations

from datetime import timedelta
from typing import TypeVar

from tidytape.client.documented import documented
from tidytape.client.series.wanted import Asking, Wanted
from tidytape.query.values import Names, TimeLike
from tidytape.schema import schema_of

__all__ = ["Derivatives"]

ResultT = TypeVar("ResultT")


class Derivatives(Asking[ResultT]):
    """Open interest, funding and liquidations."""

    @documented(
        schema_of("OPEN_INTEREST_AGG"),
        quote="``USD`` converts at the price at which the interval closed.",
        group_by="``sum`` adds up the markets of a coin, in USD; each counts with its last value for up to 24 hours.",
    )
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

    @documented(
        schema_of("FUNDING_RATE_AGG"),
        group_by="``open_interest_weighted_avg`` joins the markets of a coin, weighted by their open interest in USD.",
    )
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

    @documented(
        schema_of("LIQUIDATION_AGG"),
        side="Keep BUY, longs that were liquidated, or SELL, shorts.",
        quote="``USD`` converts at the price of each liquidation.",
    )
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

    @documented(schema_of("CME_OPEN_INTEREST_AGG"))
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
