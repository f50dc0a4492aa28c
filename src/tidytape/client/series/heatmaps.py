"""Heatmaps: resting orders and liquidations over time and price."""

from __future__ import annotations

from decimal import Decimal
from typing import TypeVar

from tidytape.client.documented import documented
from tidytape.client.series.wanted import Asking, Wanted
from tidytape.query.values import Names, TimeLike
from tidytape.schema import data_type, schema_of

__all__ = ["Heatmaps"]

ResultT = TypeVar("ResultT")

_IN_TIME = "Order in time, ``asc`` or ``desc``; prices always ascend."


def _weighing(name: str) -> str:
    return f"; more than {data_type(name).included_depth} weigh more."


class Heatmaps(Asking[ResultT]):
    """The order book and liquidations of a coin, by time and price."""

    @documented(
        schema_of("BLOCK_BOOK_SNAPSHOT_AGG"),
        sort_direction=_IN_TIME,
        quote="``USD`` converts the sizes, each at its own price.",
        group_by="``sum`` joins the books of a coin into one; sizes are in USD then.",
        max_depth="Most price levels of each side, from the middle out"
        + _weighing("BLOCK_BOOK_SNAPSHOT_AGG"),
    )
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

    @documented(
        schema_of("VENUEX_LIQUIDATION_AGG"),
        coin="Base asset.",
        exchange="Venue, where the service has several to choose from.",
        max_depth="Most price levels" + _weighing("VENUEX_LIQUIDATION_AGG"),
        sort_direction=_IN_TIME,
        quote="``USD`` converts at the price of each liquidation.",
    )
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
