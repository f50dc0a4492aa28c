"""The REST APIs of Bybit and OKX on this machine, for ccxt's own classes: as their documentation describes them.

Both send the newest rows first, and the interval that is in progress. Bybit's public trades take no ``since``.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import ccxt

MINUTE = 60_000  # [ms]
HOUR = 60 * MINUTE
NOW = 1_723_118_430_000  # 2024-08-08T12:00:30Z [ms]
SINCE = NOW - 3 * 24 * HOUR
HOLE = range(NOW // HOUR * HOUR - 5 * HOUR, NOW // HOUR * HOUR - 4 * HOUR)
"""An hour without candles."""

Answer = list[Any]


def price_at(time: int) -> float:
    return 60_000.0 + time // MINUTE % 97 / 2


def coins_at(time: int) -> float:
    return (time // MINUTE % 13 + 1) / 1_000


def candles(length: int = MINUTE) -> list[tuple[int, float, float, float, float, float]]:
    """Start, open, high, low, close and coins of every candle, the one in progress included."""
    rows = []
    for time in range(SINCE // length * length, NOW, length):
        if time not in HOLE:
            price = price_at(time)
            rows.append((time, price, price + 2, price - 2, price + 1, coins_at(time)))
    return rows


def settlements() -> list[tuple[int, float]]:
    """Time and rate of each settlement."""
    first = SINCE // (8 * HOUR) * 8 * HOUR
    return [(time, time // HOUR % 7 / 10_000) for time in range(first, NOW, 8 * HOUR)]


def trades() -> list[dict[str, Any]]:
    """Trades, one each 10 s for an hour, some of one time."""
    return [
        {"id": str(10_000 + number), "time": NOW - HOUR + number // 2 * 20_000, "price": price_at(number * MINUTE),
         "size": number % 5 + 1, "side": "Buy" if number % 3 else "Sell"}
        for number in range(360)
    ]  # fmt: skip


def newest_first(rows: list[Any], query: dict[str, str], start: str, end: str, limit: int) -> list[Any]:
    """Rows between two times, both included, the newest ones first; without an end the oldest ones after the start."""
    first, last = int(query.get(start, 0)), int(query.get(end, NOW))
    inside = [row for row in rows if first <= row[0] <= last]
    count = int(query.get("limit", limit))
    return (inside[:count] if start in query and end not in query else inside[-count:])[::-1]


def bybit(path: str, query: dict[str, str]) -> object:
    category = query.get("category", "")
    result: dict[str, Any] = {"category": category}
    match path.removeprefix("/v5/market/"):
        case "time":
            result = {"timeSecond": str(NOW // 1_000), "timeNano": str(NOW * 1_000_000)}
        case "instruments-info":
            result["list"] = [] if query.get("status") else BYBIT_MARKETS.get(category, [])
        case "kline":
            rows = newest_first(candles(), query, "start", "end", 200)
            result["list"] = [[str(cell) for cell in _bybit_candle(category, row)] for row in rows]
        case "funding/history":
            rows = newest_first(settlements(), query, "startTime", "endTime", 200)
            result["list"] = [
                {"symbol": query["symbol"], "fundingRate": str(rate), "fundingRateTimestamp": str(time)}
                for time, rate in rows
            ]
        case "open-interest":
            reports = [(time, coins_at(time)) for time in range(SINCE // 300_000 * 300_000, NOW, 300_000)]
            rows = newest_first(reports, query, "startTime", "endTime", 50)
            result |= {"symbol": query["symbol"], "nextPageCursor": ""}
            result["list"] = [{"openInterest": str(coins), "timestamp": str(time)} for time, coins in rows]
        case "recent-trade":
            newest = trades()[-min(int(query.get("limit", 500)), 60 if category == "spot" else 1_000) :][::-1]
            result["list"] = [
                {"execId": trade["id"], "symbol": query["symbol"], "price": str(trade["price"]), "side": trade["side"],
                 "size": str(trade["size"]), "time": str(trade["time"]), "isBlockTrade": False}
                for trade in newest
            ]  # fmt: skip
        case _:
            return {"retCode": 10001, "retMsg": f"no such path: {path}", "result": {}}
    return {"retCode": 0, "retMsg": "OK", "result": result, "retExtInfo": {}, "time": NOW}


def _bybit_candle(category: str, row: tuple[float, ...]) -> list[float]:
    """Time, prices, and what the market counts and its worth: coins and the quote, or in inverse markets reversed."""
    time, *prices, coins = row
    quote = coins * prices[3]
    return [time, *prices, *((quote, coins) if category == "inverse" else (coins, quote))]


def _bybit_market(symbol: str, kind: str, quote: str, settle: str) -> dict[str, Any]:
    sizes = {"minOrderQty": "1" if quote == "USD" else "0.001", "qtyStep": "0.001"}
    return {
        "symbol": symbol, "contractType": kind, "status": "Trading", "baseCoin": "BTC", "quoteCoin": quote,
        "settleCoin": settle, "priceFilter": {"tickSize": "0.5"}, "lotSizeFilter": sizes, "fundingInterval": 480,
        "launchTime": "1584230400000", "deliveryTime": "0",
    }  # fmt: skip


BYBIT_MARKETS = {
    "spot": [{"symbol": "BTCUSDT", "baseCoin": "BTC", "quoteCoin": "USDT", "status": "Trading",
              "lotSizeFilter": {"basePrecision": "0.000001"}, "priceFilter": {"tickSize": "0.01"}}],
    "linear": [_bybit_market("BTCUSDT", "LinearPerpetual", "USDT", "USDT")],
    "inverse": [_bybit_market("BTCUSD", "InversePerpetual", "USD", "BTC")],
}  # fmt: skip


def okx(path: str, query: dict[str, str]) -> object:
    symbol = query.get("instId", "")
    window = {"limit": query["limit"]} if "limit" in query else {}
    # Rows after ``before`` and before ``after``, both excluded.
    window |= {
        "start": str(int(query.get("before", -1)) + 1),
        "end": str(int(query.get("after", NOW + 1)) - 1),
    }
    rows: list[Any]
    match path.removeprefix("/api/v5/"):
        case "public/time":
            rows = [{"ts": str(NOW)}]
        case "public/instruments":
            rows = OKX_MARKETS.get(query["instType"], [])
        case "market/candles" | "market/history-candles":
            rows = [
                [
                    str(time),
                    *map(str, prices),
                    *_okx_volumes(symbol, coins, prices[3]),
                    str(int(time + MINUTE <= NOW)),
                ]
                for time, *prices, coins in newest_first(candles(), window, "start", "end", 100)
            ]
        case "public/funding-rate-history":
            rows = [
                {"instId": symbol, "fundingTime": str(time), "fundingRate": "0.5", "realizedRate": str(rate)}
                for time, rate in newest_first(settlements(), window, "start", "end", 100)
            ]
        case "market/trades":
            rows = [
                {"instId": symbol, "side": trade["side"].lower(), "sz": str(trade["size"]), "px": str(trade["price"]),
                 "tradeId": trade["id"], "ts": str(trade["time"])}
                for trade in trades()[-int(query.get("limit", 100)) :][::-1]
            ]  # fmt: skip
        case _:
            return {"code": "51000", "msg": f"no such path: {path}", "data": []}
    return {"code": "0", "msg": "", "data": rows}


def _okx_volumes(symbol: str, coins: float, price: float) -> tuple[str, str, str]:
    """Contracts (coins in spot markets), coins (the quote in spot markets), and the quote."""
    quote = coins * price
    if symbol == "BTC-USDT":
        return str(coins), str(quote), str(quote)
    contracts = coins / 0.01 if symbol == "BTC-USDT-SWAP" else quote / 100
    return str(contracts), str(coins), str(quote)


def _okx_market(symbol: str, kind: str, **facts: str) -> dict[str, str]:
    return {
        "instId": symbol, "instType": kind, "state": "live", "tickSz": "0.1", "lotSz": "0.01", "minSz": "0.01",
        "baseCcy": "", "quoteCcy": "", "settleCcy": "", "uly": "", "ctVal": "", "ctMult": "", "ctType": "", **facts,
    }  # fmt: skip


OKX_MARKETS = {
    "SPOT": [_okx_market("BTC-USDT", "SPOT", baseCcy="BTC", quoteCcy="USDT")],
    "SWAP": [
        _okx_market("BTC-USDT-SWAP", "SWAP", settleCcy="USDT", uly="BTC-USDT", ctVal="0.01", ctMult="1"),
        _okx_market("BTC-USD-SWAP", "SWAP", settleCcy="BTC", uly="BTC-USD", ctVal="100", ctMult="1"),
    ],
}  # fmt: skip

APIS = {"bybit": bybit, "okx": okx}


@contextmanager
def opened(name: str) -> Iterator[Any]:
    """Yield an object of ccxt whose exchange is this machine; ``asked`` has the path and query of every request."""
    asked: list[tuple[str, dict[str, str]]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            query = dict(parse_qsl(parts.query))
            asked.append((parts.path, query))
            body = json.dumps(APIS[name](parts.path, query)).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    exchange = getattr(ccxt, name)({"rateLimit": 1})
    address = f"http://127.0.0.1:{server.server_port}"
    exchange.urls["api"] = dict.fromkeys(exchange.urls["api"], address)
    exchange.asked = asked
    try:
        yield exchange
    finally:
        exchange.session.close()
        server.shutdown()
        server.server_close()
        thread.join()
