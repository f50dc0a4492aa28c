"""A small lake that has events of every data type."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import polars as pl

from simulated import rollup_events as events
from tidytape.lake import TABLES, Lake

START, MINUTE = events.START, events.MINUTE
DAY = 86_400

MARKET = {"exchange": "X", "coin": "BTC"}

# What selects events of each data type.
ASKED: dict[str, dict[str, str]] = {
    "TRADE": MARKET,
    "TRADE_SIDE_AGNOSTIC_AGG": MARKET,
    "TRADE_AGG": MARKET,
    "OPEN_INTEREST_AGG": MARKET,
    "FUNDING_RATE_AGG": MARKET,
    "LIQUIDATION_AGG": MARKET,
    "VOLUME_PROFILE_AGG": MARKET,
    "TPO_AGG": MARKET,
    "BLOCK_BOOK_SNAPSHOT_AGG": MARKET,
    "VENUEX_LIQUIDATION_AGG": {"coin": "BTC"},
    "CME_OPEN_INTEREST_AGG": {"exchange": "CME", "raw_symbol": "BTCQ4"},
    "TOKEN_SUPPLY_AGG": {"token_name": "bitcoin"},
    "IMPLIED_VOLATILITY_OPTION_SUMMARY_AGG": {"exchange": "DERIBIT", "coin": "BTC"},
    "SKEW_OPTION_SUMMARY_AGG": {
        "exchange": "DERIBIT", "coin": "BTC", "raw_symbol": "BTC_25", "tenor": "1w",
    },
    "OPTION_OPEN_INTEREST_AGG": {"exchange": "DERIBIT", "coin": "BTC"},
}  # fmt: skip


def everything(path: Path) -> Lake:
    """Make it: markets of X, recorded candles, a future of CME, tokens, and an option chain of DERIBIT."""
    made = Lake.create(path)
    events.market(made)
    for number, (table, rows) in enumerate(events.pieces(3, 40)):
        made.writer().append(table, rows, source=str(number))
    made.writer().register(
        pl.DataFrame(
            {
                "exchange": ["CME", "X"],
                "raw_symbol": ["BTCQ4", "OLDUSDT"],
                "normalized_symbol": ["BTC-USD", "OLD-USDT"],
                "coin": ["BTC", "OLD"],
                "quote_coin": ["USD", "USDT"],
                "category": ["FUTURE", "SPOT"],
            }
        )
    )
    hours = [START + hour * 60 * MINUTE for hour in range(3)]
    cme = {"exchange": "CME", "raw_symbol": "BTCQ4", "timestamp": hours, "amount": [5.0, 7.0, 6.0]}
    made.writer().append("cme_open_interest", pl.DataFrame(cme | {"price": [10.0, 11.0, 12.0]}), source="cme")
    tokens = {"token_name": ["bitcoin", "ethereum"], "coin": ["BTC", "ETH"], "timestamp": START}
    made.writer().append("token_supply", pl.DataFrame(tokens | {"marketcap": [3e12, 1e12]}), source="tokens")
    made.writer().append("option_quotes", _quotes(), source="chain")
    candles = {
        "exchange": "X",
        "raw_symbol": "OLDUSDT",
        "timestamp": [START, START + MINUTE, START + 60 * MINUTE],
        "interval": [MINUTE, MINUTE, 60 * MINUTE],
        "open": [1.0, 2.0, 3.0],
        "high": [2.0, 5.0, 4.0],
        "low": [0.5, 2.0, 3.0],
        "close": [2.0, 4.0, 3.5],
        "volume": [10.0, 20.0, 60.0],
    }
    made.writer().append("candles", pl.DataFrame(candles), source="candles")
    return made


def _quotes() -> pl.DataFrame:
    """A smile of two expiries, around a week away, quoted once an hour."""
    options = product(range(3), (6, 9), range(70, 140, 5), ("CALL", "PUT"))
    rows = [
        {
            "exchange": "DERIBIT",
            "raw_symbol": f"BTC-{days}-{strike}-{kind[0]}",
            "timestamp": START + hour * 60 * MINUTE,
            "coin": "BTC",
            "option_type": kind,
            "strike": float(strike),
            "expiry": START + days * DAY * 10**9,
            "implied_volatility": 60.0 + abs(strike - 100) / 5 + hour,
            "forward": 100.0,
            "open_interest": 2.0,
        }
        for hour, days, strike, kind in options
    ]
    return TABLES["option_quotes"].conform(pl.DataFrame(rows))
