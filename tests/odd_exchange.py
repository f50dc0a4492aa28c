"""An exchange of ccxt without a network, whose answers are as odd as a test makes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import ccxt

MINUTE = 60_000  # [ms]
NOW = 1_723_118_430_000  # 2024-08-08T12:00:30Z [ms]
OPEN = NOW // MINUTE * MINUTE
"""Start of the candle in progress. [ms]"""

Page = Callable[[int | None, Mapping[str, Any]], list[Any]]


def candle(time: int | None) -> list[Any]:
    """A candle that its time determines; without a time, one of nulls."""
    if time is None:
        return [None] * 6
    price = 100 + time // MINUTE % 89
    return [time, price, price + 2.5, price - 2.5, price + 1, time // MINUTE % 7 / 8]


MARKETS: dict[str, dict[str, Any]] = {
    "BTC/USDT": {"id": "BTCUSDT", "quote": "USDT", "type": "spot", "spot": True},
    "BTC/USDT:USDT": {
        "id": "BTCUSDT", "quote": "USDT", "settle": "USDT", "type": "swap", "swap": True, "contract": True,
        "linear": True, "inverse": False, "contractSize": 0.01,
    },
    "BTC/USD:BTC": {
        "id": "BTCUSD", "quote": "USD", "settle": "BTC", "type": "swap", "swap": True, "contract": True,
        "linear": False, "inverse": True, "contractSize": 100.0,
    },
}  # fmt: skip


class OddExchange(ccxt.Exchange):
    """An exchange whose pages are what functions return.

    Parameters
    ----------
    pages : functions by method of ccxt
        Each takes ``since`` and the other parameters, and returns a page, or raises an error of ccxt.
    """

    def __init__(self, **pages: Page) -> None:
        super().__init__({"apiKey": "the-key-of-a-user", "secret": "the-secret-of-a-user"})
        self.pages = pages
        self.asked: list[int | None] = []
        self.slept: list[float] = []

    def describe(self) -> dict[str, Any]:
        has = dict.fromkeys(
            ("fetchOHLCV", "fetchTrades", "fetchFundingRateHistory", "fetchOpenInterestHistory", "fetchTime"),
            True,
        )
        described = {"id": "odd", "timeframes": {"1m": "1m", "5m": "5m", "1h": "1h"}, "has": has}
        return self.deep_extend(super().describe(), described)  # type: ignore[no-any-return]

    def fetch_time(self, params: Any = None) -> int:
        return NOW

    def fetch_markets(self, params: Any = None) -> list[dict[str, Any]]:
        kinds = dict.fromkeys(("spot", "swap", "future", "option", "contract"), False)
        common = kinds | {"base": "BTC", "active": True, "precision": {}, "limits": {}}
        return [{"symbol": symbol, **common, **facts} for symbol, facts in MARKETS.items()]

    def sleep(self, milliseconds: float) -> None:
        self.slept.append(milliseconds)

    def _page(self, method: str, since: int | None, params: Mapping[str, Any] | None) -> list[Any]:
        self.asked.append(since)
        return self.pages[method](since, params or {})

    def fetch_ohlcv(
        self,
        symbol: str,
        timeframe: str = "1m",
        since: int | None = None,
        limit: int | None = None,
        params: Any = None,
    ) -> list[Any]:
        return self._page("candles", since, params)

    def fetch_funding_rate_history(
        self,
        symbol: str | None = None,
        since: int | None = None,
        limit: int | None = None,
        params: Any = None,
    ) -> list[Any]:
        return self._page("funding", since, params)

    def fetch_open_interest_history(
        self,
        symbol: str,
        timeframe: str = "1h",
        since: int | None = None,
        limit: int | None = None,
        params: Any = None,
    ) -> list[Any]:
        return self._page("open_interest", since, params)

    def fetch_trades(
        self, symbol: str, since: int | None = None, limit: int | None = None, params: Any = None
    ) -> list[Any]:
        return self._page("trades", since, params)


def served(times: list[int], limit: int = 40) -> Page:
    """A page of the oldest candles from ``since`` on."""
    return lambda since, _: [candle(time) for time in times if since is None or time >= since][:limit]
