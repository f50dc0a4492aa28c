"""An example of every command, which its help shows. Tests run all examples."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import typer

_DAY = "--start 2024-08-08 --end 2024-08-09"
_SPOT = "--exchange DEMO_SPOT --coin BTC"
_PERP = "--exchange DEMO_PERP --coin BTC"
_OPTIONS = "--exchange DEMO_OPTIONS --coin BTC"

_SERIES: Mapping[str, str] = MappingProxyType(
    {
        "candles": f"{_SPOT} --interval 1h {_DAY}",
        "trades": f"{_SPOT} --start 2024-08-08T00:00 --end 2024-08-08T00:05",
        "open-interest": f"{_PERP} --interval 1h {_DAY}",
        "funding": f"{_PERP} --interval 1h {_DAY}",
        "liquidations": f"{_PERP} --interval 1h {_DAY}",
        "cme-open-interest": f"--exchange DEMO_CME --raw-symbol BTCQ4 --interval 1h {_DAY}",
        "volume-profile": f"{_SPOT} --interval 1d {_DAY}",
        "tpo": f"{_SPOT} --session daily {_DAY}",
        "tpo-sessions": f"{_SPOT} --session daily {_DAY}",
        "book-heatmap": f"{_SPOT} --interval 1h {_DAY}",
        "liquidation-heatmap": f"{_PERP} --interval 1h {_DAY}",
        "implied-volatility": f"{_OPTIONS} --interval 1h {_DAY}",
        "skew": f"{_OPTIONS} --raw-symbol BTC_25 --tenor 1w --interval 1h {_DAY}",
        "option-open-interest": f"{_OPTIONS} --interval 1h {_DAY}",
        "token-supply": f"--token-name Bitcoin --interval 1h {_DAY}",
    }
)
_LISTS: Mapping[str, str] = MappingProxyType(
    {
        "prediction-markets": "--exchange DEMO_EVENTS",
        "block-sizes": "--exchange DEMO_SPOT",
        "describe": "--coin BTC",
        "types": "--exchange DEMO_SPOT",
        "exchanges": "--type TRADE_AGG",
        "categories": "--coin BTC",
        "coins": "--type TRADE_AGG",
        "symbols": "--type TRADE_AGG",
        "normalized-symbols": "--type TRADE_AGG",
        "tenors": "--exchange DEMO_OPTIONS",
    }
)

EXAMPLES: Mapping[str, str] = MappingProxyType(
    {
        "demo": "--out demo",
        "report": "--out report.html --lake lake --coin BTC",
        "markets": "--lake lake --category PERPETUAL",
        "usage": "--lake lake --json",
        "pull": "bybit BTC/USDT:USDT --data candles,funding --since 30d --lake lake",
        "download": "binance BTCUSDT --market um --data trades,funding --start 2024-08-01 --end 2024-08-08 --lake lake",
        "rollup": "--lake lake",
        "replay": "trades.csv --lake live --layout csv --exchange COINBASE --raw-symbol BTC-USD --speed 60",
        "serve": "--lake lake --keys keys.json --port 8000",
        "openapi": "",
        **{f"fetch {name}": f"--lake lake {words}" for name, words in {**_SERIES, **_LISTS}.items()},
        **{f"plan {name}": f"--lake lake {words}" for name, words in _SERIES.items()},
        "keys new": "--keys keys.json --tier enterprise --expires 2099-01-01",
        "keys list": "--keys keys.json --json",
        "keys revoke": "--keys keys.json 1f2e3d4c",
        "lake info": "--lake lake --shortest-gap 15m --out coverage.png",
        "lake check": "--lake lake --table trades",
        "lake set": "--lake lake --heatmap-exchange DEMO_PERP",
        "lake rename": "DEMO_SPOT BTCUSDT XBTUSDT --at 2024-09-01 --lake lake",
        "lake compact": "--lake lake",
        "lake keep": "--lake lake",
        "lake close": "--lake lake --exchange DEMO_SPOT",
        "lake vacuum": "--lake lake --dry-run",
        "cache ls": "--json",
        "cache clear": "--yes",
        "tape verify": "study.tape",
        "tape ls": "study.tape --json",
        "ingest polymarket-gamma": "markets.json --lake lake",
    }
)
"""By command, the words that follow it in its example."""

INGEST: Mapping[str, str] = MappingProxyType(
    {
        "auto": "BTCUSDT-trades-2024-08-08.zip --lake lake --exchange BINANCE",
        "binance-vision": "BTCUSDT-trades-2024-08-08.zip --lake lake --exchange BINANCE",
        "binance-ws": "messages.gz --lake lake --exchange BINANCE --category SPOT",
        "coinbase": "trades.json --lake lake --raw-symbol BTC-USD",
        "cryptofeed": "BITMEX.0.gz --lake lake --exchange BITMEX",
        "csv": "trades.csv --lake lake --exchange COINBASE --raw-symbol BTC-USD --map price=px,amount=qty",
        "deribit-chain": "options_snapshot_20260305T042746Z.csv.gz --lake lake",
        "feather": "candles.feather --lake lake --table candles --interval 1m --exchange X --raw-symbol BTC-USD",
        "json": "trades.json --lake lake --at result.trades --exchange COINBASE --raw-symbol BTC-USD --map price=px",
        "jsonl": "trades.jsonl --lake lake --exchange COINBASE --raw-symbol BTC-USD --map price=px,amount=qty",
        "kraken": "trades.json --lake lake",
        "lean": "20221213_trade.zip --lake lake --exchange BINANCE --raw-symbol BTCBUSD",
        "parquet": "candles.parquet --lake lake --table candles --interval 1m --exchange X --raw-symbol BTC-USD",
        "tardis": "deribit_trades_2024-08-08_BTC-PERPETUAL.csv.gz --lake lake --amount-unit quote",
        "tardis-node": "trade.jsonl.gz --lake lake",
    }
)
"""By layout, the words that follow the command ``tidytape ingest LAYOUT`` in its example."""


def example(command: str, words: str) -> str:
    """Return the text below the help of a command.

    Examples
    --------
    >>> print(example("rollup", "--lake lake").replace(chr(8), "(as it is)"))
    (as it is)
    Example:
      tidytape rollup --lake lake
    """
    lines, line = [], "tidytape " + command
    for word in _pairs(words):
        if len(line) + len(word) > _WIDTH:
            lines.append(f"  {line} \\")
            line = "   " + word
        else:
            line = f"{line} {word}"
    return "\n".join(["\b", "Example:", *lines, f"  {line}"])


_WIDTH = 74


def _pairs(words: str) -> list[str]:
    """Return the words; an option and its value are one text, so that no line ends between them."""
    pairs: list[str] = []
    for word in words.split():
        if pairs and pairs[-1].startswith("--") and " " not in pairs[-1] and not word.startswith("--"):
            pairs[-1] += f" {word}"
        else:
            pairs.append(word)
    return pairs


def add_examples(app: typer.Typer, *above: str) -> None:
    """Add an example below the help of each command that has one in `EXAMPLES`; ``above`` are the groups above it."""
    for info in app.registered_commands:
        name = info.name or getattr(info.callback, "__name__", "").replace("_", "-")
        command = " ".join((*above, name))
        if command in EXAMPLES:
            info.epilog = example(command, EXAMPLES[command])
    for group in app.registered_groups:
        if group.typer_instance is not None and group.name:
            add_examples(group.typer_instance, *above, group.name)
