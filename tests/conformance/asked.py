"""What is asked in many places: one right request of each data type, and the group of two venues."""

from __future__ import annotations

from typing import Any

from conformance.lake import DAY, T0

SUM = "GROUP_BY_TYPE_SUM"
AVERAGE = "GROUP_BY_TYPE_OPEN_INTEREST_WEIGHTED_AVG"
USD: dict[str, Any] = {"transform_normalize_quote": "USD"}

PERP: dict[str, Any] = {"rawSymbol": "BTCUSDT_PERP"}
COIN: dict[str, Any] = {"rawSymbol": None, "coin": "BTC"}
VENUES: dict[str, Any] = {"exchange": ["ALPHA", "BETA"], **COIN}
GROUP: dict[str, Any] = {**VENUES, "transform_groupBy_type": SUM}
FUNDING_GROUP: dict[str, Any] = {
    **VENUES, "type": "FUNDING_RATE_AGG", "transform_groupBy_type": AVERAGE,
}  # fmt: skip

REFUSAL = {"error", "message", "parameter", "got", "expected", "hint"}
"""What the body of a refused query may have: code and message always, the others are the facts of the message."""

NOTHING: dict[str, Any] = {"from_": T0 - 10 * DAY}
"""A window in which nothing happened."""

HEATMAP: dict[str, Any] = {"type": "VENUEX_LIQUIDATION_AGG", "exchange": None, **COIN}
TPO: dict[str, Any] = {"type": "TPO_AGG", "rawSymbol": "TPOUSDT", "interval": "DAY", "period": DAY}
TOKEN: dict[str, Any] = {
    "type": "TOKEN_SUPPLY_AGG", "exchange": None, "rawSymbol": None, "tokenName": "Bitcoin",
    "interval": "DAY", "period": DAY,
}  # fmt: skip
SKEW: dict[str, Any] = {
    "type": "SKEW_OPTION_SUMMARY_AGG", "exchange": "OPTIONS", "coin": "BTC", "rawSymbol": "BTC_25", "tenor": "ONE_M",
}  # fmt: skip
VOLATILITY: dict[str, Any] = {
    "type": "IMPLIED_VOLATILITY_OPTION_SUMMARY_AGG", "exchange": "OPTIONS", "coin": "BTC", "rawSymbol": "BTC_ATM",
}  # fmt: skip

BY_TYPE: dict[str, dict[str, Any]] = {
    "TRADE_SIDE_AGNOSTIC_AGG": {},
    "TRADE_AGG": {},
    "OPEN_INTEREST_AGG": PERP,
    "FUNDING_RATE_AGG": PERP,
    "LIQUIDATION_AGG": PERP,
    "TOKEN_SUPPLY_AGG": TOKEN,
    "IMPLIED_VOLATILITY_OPTION_SUMMARY_AGG": VOLATILITY,
    "SKEW_OPTION_SUMMARY_AGG": SKEW,
    "VOLUME_PROFILE_AGG": {},
    "TPO_AGG": TPO,
    "VENUEX_LIQUIDATION_AGG": HEATMAP,
    "BLOCK_BOOK_SNAPSHOT_AGG": {},
    "TRADE": {},
    "CME_OPEN_INTEREST_AGG": {"exchange": "CME", "rawSymbol": "BTCQ4", "period": 3 * 3_600},
    "OPTION_OPEN_INTEREST_AGG": {"exchange": "OPTIONS", **COIN},
}
"""A request of each type that has an answer in the lake."""


def of(name: str, **changed: Any) -> dict[str, Any]:
    """A right request of a data type, or what is changed about it."""
    return {**BY_TYPE[name], "type": name, **changed}


def identity(named: dict[str, Any]) -> dict[str, Any]:
    """What tells a series from others, without what describes it."""
    return {
        name: value for name, value in named.items() if name not in {"amountUnit", "blockSize", "dataUntil"}
    }
