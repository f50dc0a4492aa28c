"""Prices: candles and the trades they are made of."""

from __future__ import annotations

from typing import TypeVar

from tidytape.client.documented import documented
from tidytape.client.parameters import given
from tidytape.client.series.wanted import Asking, Wanted
from tidytape.query.values import Names, TimeLike
from tidytape.schema import schema_of

__all__ = ["Prices"]

ResultT = TypeVar("ResultT")


class Prices(Asking[ResultT]):
    """Candles and trades."""

    @documented(
        schema_of("TRADE_SIDE_AGNOSTIC_AGG"),
        quote="``USD`` converts the volume; prices stay as they are.",
    )
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

    @documented(schema_of("TRADE"))
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
