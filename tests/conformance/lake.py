"""The lake that the conformance suite asks: tiny, of every data type, its values exact in binary.

Times are seconds after ``T0``, a Friday at midnight UTC. What each answer must be is worked out by hand in the tests.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from pathlib import Path
from typing import Any

import polars as pl

from tidytape.lake import TABLES, Lake

NS = 1_000_000_000
T0 = 1_723_161_600  # 2024-08-09T00:00:00Z, a Friday
HOUR, DAY, WEEK = 3_600, 86_400, 604_800
MONDAY = T0 - 4 * DAY  # 2024-08-05
AUGUST = T0 - 8 * DAY  # 2024-08-01
NOW = T0 + 10 * DAY

# venue, raw symbol, normalized symbol, coin, quote, class, block size
MARKETS = [
    ("ALPHA", "BTCUSDT", "BTC-USDT", "BTC", "USDT", "SPOT", 0.5),
    ("ALPHA", "BTCUSDT_PERP", "BTC-USDT", "BTC", "USDT", "PERPETUAL", 0.5),
    ("ALPHA", "ETHUSDT", "ETH-USDT", "ETH", "USDT", "SPOT", 0.25),
    ("BETA", "BTC-PERP", "BTC-USDT", "BTC", "USDT", "PERPETUAL", 1.0),
    ("BETA", "ETHUSD", "ETH-USD", "ETH", "USD", "SPOT", 0.25),
    # Quotes that are not USD: one whose worth a market tells, one of which nothing is known.
    ("GAMMA", "BTCEUR", "BTC-EUR", "BTC", "EUR", "SPOT", 0.5),
    ("GAMMA", "EURUSDT", "EUR-USDT", "EUR", "USDT", "SPOT", 0.25),
    ("GAMMA", "BTCTRY", "BTC-TRY", "BTC", "TRY", "SPOT", 0.5),
    # One trade in the last second of a day; prices on a grid of tenths; sessions of a market profile.
    ("ALPHA", "LATEUSDT", "LATE-USDT", "LATE", "USDT", "SPOT", 0.5),
    ("ALPHA", "GRIDUSDT", "GRID-USDT", "GRID", "USDT", "SPOT", 0.1),
    ("ALPHA", "TPOUSDT", "TPO-USDT", "TPO", "USDT", "SPOT", 1.0),
    ("BETA", "TPO-PERP", "TPO-USDT", "TPO", "USDT", "PERPETUAL", 1.0),
    # One whose candles were recorded, and whose trades were not.
    ("GAMMA", "OLDUSDT", "OLD-USDT", "OLD", "USDT", "SPOT", 0.5),
    # What is no crypto exchange.
    ("CME", "BTCQ4", "BTC-USD", "BTC", "USD", "FUTURE", 5.0),
    ("VENUEX", "BTC-A", "BTC-USDT", "BTC", "USDT", "PERPETUAL", 0.5),
    ("VENUEX", "BTC-B", "BTC-USDT", "BTC", "USDT", "PERPETUAL", 0.5),
    ("STOCKS", "ACME", "ACME-USD", "ACME", "USD", "SPOT", 0.25),
    ("METALS", "XAU", "XAU-USD", "XAU", "USD", "SPOT", 0.25),
    ("BANKS", "EURUSD", "EUR-USD", "EUR", "USD", "SPOT", 0.25),
    ("PREDICT", "11", "rain:Yes-USDC", "rain:Yes", "USDC", "SPOT", 0.25),
    ("PREDICT", "22", "rain:No-USDC", "rain:No", "USDC", "SPOT", 0.25),
    ("PREDICT", "33", "snow:Yes-USDC", "snow:Yes", "USDC", "SPOT", 0.25),
]

# What is registered of a market beside its names.
TOLD = {
    "exchange": "ALPHA", "raw_symbol": "BTCUSDT", "coin_name": "Bitcoin", "quote_coin_name": "Tether",
    "full_name": "Bitcoin / Tether", "icon_url": "https://icons.example/btc.svg", "marketcap": 3.5e12,
    "available_since": (T0 - 40 * DAY) * NS,
}  # fmt: skip

SUMMARIES = [
    {"exchange": "OPTIONS", "raw_symbol": symbol, "normalized_symbol": "BTC", "coin": "BTC", "category": "OPTION",
     "tenor": "ONE_M"}
    for symbol in ("BTC_ATM", "BTC_25", "BTC_10")
]  # fmt: skip

# venue, raw symbol, second, side of the aggressor, price, amount
TRADES = [
    ("ALPHA", "BTCUSDT", -40 * DAY, "BUY", 90.0, 1.0),
    ("ALPHA", "BTCUSDT", -36 * HOUR, "SELL", 95.0, 1.0),
    ("ALPHA", "BTCUSDT", 0, "BUY", 100.0, 1.0),
    ("ALPHA", "BTCUSDT", 59.75, "SELL", 101.5, 2.0),
    ("ALPHA", "BTCUSDT", 60, "SELL", 100.5, 0.5),
    ("ALPHA", "BTCUSDT", 61.5, "BUY", 100.5, 0.25),
    ("ALPHA", "BTCUSDT", 180, "BUY", 99.0, 4.0),
    ("ALPHA", "BTCUSDT_PERP", 45, "BUY", 96.0, 2.0),
    ("ALPHA", "BTCUSDT_PERP", 200, "SELL", 98.0, 1.0),
    ("BETA", "BTC-PERP", -100, "SELL", 99.0, 1.0),
    ("BETA", "BTC-PERP", 30, "BUY", 100.0, 3.0),
    ("BETA", "BTC-PERP", 62, "SELL", 102.0, 1.0),
    ("ALPHA", "ETHUSDT", 10, "SELL", 10.25, 8.0),
    ("BETA", "ETHUSD", 20, "BUY", 10.5, 2.0),
    ("GAMMA", "BTCEUR", 60, "BUY", 80.0, 1.0),
    ("GAMMA", "BTCEUR", 120, "BUY", 81.0, 1.0),
    ("GAMMA", "EURUSDT", -90, "BUY", 1.25, 1.0),
    ("GAMMA", "EURUSDT", 90, "BUY", 1.5, 1.0),
    ("GAMMA", "BTCTRY", 60, "BUY", 3000.0, 1.0),
    ("ALPHA", "LATEUSDT", DAY - 1, "BUY", 7.0, 1.0),
    *[("ALPHA", "GRIDUSDT", second, "BUY", price, 1.0) for second, price in enumerate((0.3, 0.7, 1.1, 2.3))],
    *[("STOCKS", "ACME", 5, "BUY", 50.0, 1.0), ("METALS", "XAU", 5, "BUY", 2400.0, 1.0)],
    *[("BANKS", "EURUSD", 5, "SELL", 1.25, 1.0), ("PREDICT", "11", 5, "BUY", 0.25, 100.0)],
    *[("PREDICT", "22", 5, "BUY", 0.75, 100.0), ("PREDICT", "33", 5, "BUY", 0.5, 100.0)],
]

# Sessions of a market profile: the price range of each half hour, one unit bought at the low and one sold at the high.
# The first day touches its rows 10 to 14 one, four, ten, four and one times: the golden profile of definitions.md.
FRIDAY = [(10, 12), *[(11, 12)] * 3, *[(12, 13)] * 3, (12, 14), *[(12, 12)] * 2]
# The second has inner single prints at 23 and 25, a tail at 20 and 21, and a poor high at 26.
SATURDAY = [(20, 22), (22, 24), (24, 26), (26, 26)]


def create(path: Path) -> Path:
    """Make the lake."""
    made = Lake.create(path)
    columns = ("exchange", "raw_symbol", "normalized_symbol", "coin", "quote_coin", "category", "block_size")
    made.writer().register(pl.DataFrame(MARKETS, schema=columns, orient="row"))
    made.writer().register(
        pl.DataFrame([TOLD, {"exchange": "ALPHA", "raw_symbol": "BTCUSDT_PERP", "available_since": T0 * NS}])
    )
    made.writer().register(pl.DataFrame(SUMMARIES))
    _append(made, "trades", _trades([*TRADES, *_sessions()]))
    _append(made, "open_interest", _rows(("amount",), OPEN_INTEREST))
    _append(made, "funding", _rows(("rate", "predicted_rate", "hours"), FUNDING))
    _append(made, "liquidations", _trades(LIQUIDATIONS))
    _append(made, "book", _book())
    _append(made, "cme_open_interest", _rows(("amount", "usd_amount", "price"), CME))
    _append(made, "candles", CANDLES)
    _append(made, "option_quotes", option_quotes())
    _append(made, "token_supply", TOKENS)
    made.writer().register_prediction_markets(pl.DataFrame(PREDICTIONS))
    return path


OPEN_INTEREST = [
    ("ALPHA", "BTCUSDT_PERP", -30 * HOUR, 4.0),
    ("ALPHA", "BTCUSDT_PERP", 10, 5.0),
    ("ALPHA", "BTCUSDT_PERP", 40, 7.0),
    ("ALPHA", "BTCUSDT_PERP", 50, 6.0),
    ("ALPHA", "BTCUSDT_PERP", 130, 8.0),
    ("ALPHA", "BTCUSDT_PERP", DAY, 9.0),
    ("ALPHA", "BTCUSDT_PERP", DAY + 120, 9.0),
    ("BETA", "BTC-PERP", 20, 10.0),
    ("BETA", "BTC-PERP", 70, 12.0),
]

# rate, predicted rate, hours that the rates are over
FUNDING = [
    ("ALPHA", "BTCUSDT_PERP", 0, 0.0001, 0.0002, 8),
    ("ALPHA", "BTCUSDT_PERP", 30, 0.0003, 0.0001, 8),
    ("BETA", "BTC-PERP", 0, 0.0001, None, 1),
    ("BETA", "BTC-PERP", 60, 0.0002, None, 1),
    ("VENUEX", "BTC-A", 0, 0.0005, None, 8),  # a market without open interest
]

LIQUIDATIONS = [
    ("ALPHA", "BTCUSDT_PERP", 5, "BUY", 98.0, 2.0),
    ("ALPHA", "BTCUSDT_PERP", 6, "BUY", 97.0, 1.0),
    ("ALPHA", "BTCUSDT_PERP", 65, "SELL", 101.0, 3.0),
    ("BETA", "BTC-PERP", 5, "BUY", 100.0, 4.0),
    ("VENUEX", "BTC-A", 10, "BUY", 100.25, 2.0),
    ("VENUEX", "BTC-A", 20, "SELL", 100.75, 1.0),
    ("VENUEX", "BTC-A", 30, "SELL", 101.0, 4.0),
    ("VENUEX", "BTC-B", 40, "SELL", 101.25, 1.0),
]

# venue, raw symbol, second, update id, whether a snapshot, side, price, size
BOOK = [
    ("ALPHA", "BTCUSDT", 1, 10, True, "BID", 100.0, 1.0),
    ("ALPHA", "BTCUSDT", 1, 10, True, "BID", 99.75, 2.0),
    ("ALPHA", "BTCUSDT", 1, 10, True, "BID", 99.0, 4.0),
    ("ALPHA", "BTCUSDT", 1, 10, True, "ASK", 100.5, 3.0),
    ("ALPHA", "BTCUSDT", 1, 10, True, "ASK", 101.25, 5.0),
    ("ALPHA", "BTCUSDT", 70, 11, False, "BID", 100.0, 0.0),
    ("ALPHA", "BTCUSDT", 71, 12, False, "ASK", 100.5, 1.0),
    ("ALPHA", "BTCUSDT", 125, 13, False, "ASK", 101.25, 6.0),
    ("BETA", "BTC-PERP", 2, 10, True, "BID", 99.0, 10.0),
    ("BETA", "BTC-PERP", 2, 10, True, "BID", 98.0, 20.0),
    ("BETA", "BTC-PERP", 2, 10, True, "ASK", 101.0, 10.0),
    ("BETA", "BTC-PERP", 65, 11, False, "ASK", 102.0, 1.0),
]

CME = [("CME", "BTCQ4", 0, 5.0, 500.0, 100.0), ("CME", "BTCQ4", HOUR, 7.0, 770.0, 110.0),
       ("CME", "BTCQ4", 2 * HOUR, 6.0, 630.0, 105.0)]  # fmt: skip

CANDLES = pl.DataFrame(
    {
        "exchange": "GAMMA", "raw_symbol": "OLDUSDT", "timestamp": [T0 * NS, (T0 + 60) * NS], "interval": 60 * NS,
        "open": [1.0, 2.0], "high": [2.0, 5.0], "low": [0.5, 2.0], "close": [2.0, 4.0], "volume": [10.0, 20.0],
    }
)  # fmt: skip

TOKENS = pl.DataFrame(
    [
        {"token_name": "Bitcoin", "coin": "BTC", "timestamp": T0 * NS, "marketcap": 3.0e12},
        {
            "token_name": "Bitcoin", "coin": "BTC", "timestamp": (T0 + HOUR) * NS, "marketcap": 3.5e12,
            "circulating_supply": 19.5e6, "total_supply": 19.75e6, "max_supply": 21e6, "total_value_locked": 1e9,
            "fully_diluted_valuation": 4e12, "total_volume": 5e10, "usd_price": 179_487.5,
            "cg_marketcap_rank": 1, "chain": "bitcoin", "contract_address": "none",
        },
        {"token_name": "Ethereum", "coin": "ETH", "timestamp": T0 * NS, "marketcap": 1.5e12},
    ]
)  # fmt: skip

# Expiries 28 and 56 days away. Every put below the forward of 100 is quoted 2 points above every call from there on, so
# whatever strike a delta falls on, its volatility is known: 60 and 58 for calls, as in the example of definitions.md.
OPTION_DAYS = {28: 60.0, 56: 58.0}
STRIKES = range(50, 200, 5)

PREDICTION = {
    "slug": "rain-in-may", "question": "Rain in May?", "group_item_title": "May", "outcomes": ["Yes", "No"],
    "last_price": 0.25, "one_day_price_change": -0.05, "prices": [0.3, 0.25], "total_volume": 1e6,
    "buy_volume_24h": 10.0, "sell_volume_24h": 20.0, "volume_change_24h": -5.5, "open_interest": 1234.5,
    "one_day_oi_change": 1.5, "unique_traders": 77.0, "order_price_min_tick_size": 0.01, "condition_id": "0x1",
    "closed": True, "available_since": 1_700_000_000 * NS, "available_to": 1_800_000_000 * NS,
    "sports_market_type": "totals", "line": 2.5,
}  # fmt: skip

PREDICTIONS = [
    {"exchange": "PREDICT", "reported": 1, "raw_symbols": ["11", "22"], "event_slug": "rain", **PREDICTION},
    {"exchange": "PREDICT", "reported": 1, "raw_symbols": ["33"], "event_slug": "snow", "condition_id": "0x2",
     "slug": "snow-in-may", "outcomes": ["Yes"]},
]  # fmt: skip


def _sessions() -> Iterable[tuple[Any, ...]]:
    for day, blocks in enumerate((FRIDAY, SATURDAY)):
        for block, (low, high) in enumerate(blocks):
            second = day * DAY + block * 1_800
            yield "ALPHA", "TPOUSDT", second, "BUY", float(low), 1.0
            yield "ALPHA", "TPOUSDT", second + 60, "SELL", float(high), 1.0
    yield "BETA", "TPO-PERP", 600, "BUY", 13.0, 2.0


def _append(lake: Lake, table: str, rows: pl.DataFrame) -> None:
    lake.writer().append(table, TABLES[table].conform(rows), source=f"conformance:{table}")


def _ns(second: float) -> int:
    return T0 * NS + round(second * NS)


def _trades(events: Iterable[tuple[Any, ...]]) -> pl.DataFrame:
    return pl.DataFrame(
        [
            {
                "exchange": exchange,
                "raw_symbol": symbol,
                "id": str(number),
                "timestamp": _ns(second),
                "sequence": number,
                "side": side,
                "price": price,
                "amount": amount,
                "quote_amount": price * amount,
            }
            for number, (exchange, symbol, second, side, price, amount) in enumerate(events)
        ]
    )


def _rows(columns: tuple[str, ...], events: Iterable[tuple[Any, ...]]) -> pl.DataFrame:
    rows = []
    for exchange, symbol, second, *values in events:
        row = {"exchange": exchange, "raw_symbol": symbol, "timestamp": _ns(second)}
        row |= dict(zip(columns, values, strict=True))
        if "hours" in row:
            row["funding_interval"] = row.pop("hours") * HOUR * NS
        rows.append(row)
    return pl.DataFrame(rows)


def _book() -> pl.DataFrame:
    return pl.DataFrame(
        [
            {
                "exchange": exchange,
                "raw_symbol": symbol,
                "timestamp": _ns(second),
                "first_id": None if snapshot else update,
                "last_id": update,
                "is_snapshot": snapshot,
                "side": side,
                "price": price,
                "size": size,
                "sequence": number,
            }
            for number, (exchange, symbol, second, update, snapshot, side, price, size) in enumerate(BOOK)
        ],
        schema_overrides={"first_id": pl.Int64},
    )


def option_quotes() -> pl.DataFrame:
    """The chain of one coin."""
    quotes = pl.DataFrame(
        [
            {
                "exchange": "OPTIONS",
                "raw_symbol": f"BTC-{days}-{strike}-{kind[0]}",
                "timestamp": T0 * NS,
                "coin": "BTC",
                "option_type": kind,
                "strike": float(strike),
                "expiry": _ns(days * DAY),
                "implied_volatility": OPTION_DAYS[days] + (2.0 if kind == "PUT" else 0.0),
                "forward": 100.0,
                "open_interest": 2.0,
            }
            for days, strike, kind in product(OPTION_DAYS, STRIKES, ("CALL", "PUT"))
        ]
    )
    return TABLES["option_quotes"].conform(quotes)
