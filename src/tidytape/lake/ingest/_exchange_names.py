"""Names of exchanges in the lake, by what vendors and programs call them, and where an exchange has its futures."""

from __future__ import annotations

from collections.abc import Mapping

EXCHANGES: Mapping[str, str] = {
    "glbx": "CME", "1": "CME", "okx": "OKEX", "gate": "GATE_IO", "gateio": "GATE_IO", "binanceus": "BINANCE_US",
    "krakenfutures": "KRAKEN_FUTURES", "htx": "HUOBI", "cryptocom": "CRYPTO_COM", "binanceusdm": "BINANCE",
    "binancecoinm": "BINANCE", "kucoinfutures": "KUCOIN", "coinbaseexchange": "COINBASE",
}  # fmt: skip
"""Names of exchanges in the lake by what vendors call them. Others have their own name in capitals."""

PARTS: Mapping[str, Mapping[str, str]] = {
    "BINANCE": {"linear": "BINANCE_FUTURES", "inverse": "BINANCE_DELIVERY"},
    "BYBIT": {"spot": "BYBIT_SPOT"},
    "DERIBIT": {},
    "GATE_IO": {"contract": "GATE_IO_FUTURES"},
    "HUOBI": {"linear": "HUOBI_DM_LINEAR_SWAP", "inverse": "HUOBI_DM_SWAP"},
    "HYPERLIQUID": {},
    "KRAKEN_FUTURES": {},
    "KUCOIN": {"contract": "KUCOIN_FUTURES"},
    "OKEX": {"swap": "OKEX_SWAP", "future": "OKEX_FUTURES"},
}
"""Where an exchange has its markets of a class, if not under its own name, because symbols of two classes are alike."""
