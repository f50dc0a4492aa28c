"""What each method of a client is asked, of the lake that `everything` makes."""

from __future__ import annotations

from typing import Any

import polars as pl

from simulated import rollup_events as events
from tidytape.lake import Lake

START = events.START // 10**9
DAY = 86_400

_DAY: dict[str, Any] = {"start": START, "end": START + DAY}
_HOURS = _DAY | {"interval": "1h"}
_MARKET: dict[str, Any] = {"exchange": "X", "coin": "BTC"}
_OPTIONS: dict[str, Any] = {"exchange": "DERIBIT", "coin": "BTC"}

SERIES: dict[str, tuple[str, dict[str, Any]]] = {
    "candles": ("TRADE_SIDE_AGNOSTIC_AGG", _MARKET | _HOURS),
    "trades": ("TRADE", _MARKET | _DAY),
    "open_interest": ("OPEN_INTEREST_AGG", _MARKET | _HOURS),
    "funding": ("FUNDING_RATE_AGG", _MARKET | _HOURS),
    "liquidations": ("LIQUIDATION_AGG", _MARKET | _HOURS),
    "cme_open_interest": (
        "CME_OPEN_INTEREST_AGG",
        {"exchange": "CME", "raw_symbol": "BTCQ4"} | _HOURS,
    ),
    "volume_profile": ("VOLUME_PROFILE_AGG", _MARKET | _HOURS),
    "tpo": ("TPO_AGG", _MARKET | _HOURS),
    "tpo_sessions": ("TPO_AGG", _MARKET | _HOURS),
    "book_heatmap": ("BLOCK_BOOK_SNAPSHOT_AGG", _MARKET | _HOURS),
    "liquidation_heatmap": ("VENUEX_LIQUIDATION_AGG", {"coin": "BTC"} | _HOURS),
    "implied_volatility": ("IMPLIED_VOLATILITY_OPTION_SUMMARY_AGG", _OPTIONS | _HOURS),
    "skew": ("SKEW_OPTION_SUMMARY_AGG", _OPTIONS | _HOURS | {"raw_symbol": "BTC_25", "tenor": "1w"}),
    "option_open_interest": ("OPTION_OPEN_INTEREST_AGG", _OPTIONS | _HOURS),
    "token_supply": ("TOKEN_SUPPLY_AGG", {"token_name": "bitcoin", "interval": "1d"} | _DAY),
}
"""Of each method: the data type it asks for, and arguments with which there are rows."""

LISTS: dict[str, dict[str, Any]] = {
    "markets": {},
    "describe": {},
    "prediction_markets": {},
    "block_sizes": {},
    "types": {},
    "exchanges": {},
    "categories": {},
    "coins": {},
    "symbols": {"type": "TRADE"},
    "normalized_symbols": {"type": "TRADE"},
    "tenors": {},
    "usage": {},
}
"""Of each method that lists: arguments with which it lists something."""


def predicted(lake: Lake) -> Lake:
    """Register a prediction market, and the markets of its outcomes."""
    report = {
        "exchange": "P", "condition_id": "0x1", "reported": 1, "slug": "rain", "outcomes": ["Yes", "No"],
        "raw_symbols": ["11", "22"], "prices": [0.5, 0.25], "closed": False, "last_price": 0.25,
    }  # fmt: skip
    lake.writer().register_prediction_markets(pl.DataFrame([report]))
    lake.writer().register(pl.DataFrame({"exchange": "P", "raw_symbol": ["11", "22"], "category": "SPOT"}))
    return lake
