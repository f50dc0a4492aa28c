"""Answers of Kraken's REST API as they were saved: ``/0/public/Trades`` and ``/0/public/OHLC``.

An answer is an object whose ``result`` has an array per pair, under Kraken's name of it (XXBTZUSD). Trades are price,
volume, seconds, ``b`` or ``s`` of the taker, order type, text and, in newer answers, an id [1]_. Candles are seconds,
open, high, low, close, mean price, volume and number of trades; the last one is still open [2]_ and is left out. The
answer does not have their length, so the caller gives it. A file may hold one answer, or one per line.

References
----------
.. [1] Kraken, "REST API", Get Recent Trades.
.. [2] Kraken, "REST API", Get OHLC Data.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tidytape.lake._tables import RECORDED_CANDLES, TRADES
from tidytape.lake.ingest._answers import Answers, Event
from tidytape.lake.ingest._layout import Parsed

_TRADE = ("price", "amount", "timestamp", "side", "order_type", "text", "id")
_CANDLE = ("timestamp", "open", "high", "low", "close", "mean", "volume", "trades")


@dataclass(frozen=True, kw_only=True)
class Kraken(Answers):
    """Saved JSON of Kraken's REST API: trades and candles.

    Parameters
    ----------
    interval : str, optional
        Length of the candles, e.g. ``"1m"``; files of candles need it.

    Examples
    --------
    >>> Kraken(interval="1m").default_exchange
    'KRAKEN'
    """

    name = "kraken"
    default_exchange = "KRAKEN"
    time_units = {TRADES.name: "s", RECORDED_CANDLES.name: "s"}  # noqa: RUF012

    @classmethod
    def recognises(cls, name: str, head: str) -> bool:
        """Return whether a file is an answer: it begins with the list of errors, then a result."""
        return re.match(r'\s*\{\s*"error"\s*:\s*\[[^]]*\]\s*,\s*"result"\s*:', head) is not None

    def events(self, answer: Any, parsed: Parsed) -> Iterator[Event]:
        """Yield the events of an answer."""
        result = answer.get("result") if isinstance(answer, dict) else None
        if not isinstance(result, dict):
            yield "no answer of Kraken with a result"
            return
        for pair, entries in result.items():
            if pair == "last":
                continue
            if not isinstance(entries, list):
                yield "neither a trade nor a candle of Kraken"
                continue
            if entries and _names(entries[-1]) is _CANDLE:
                parsed.ignore("candle that was still open")
                entries = entries[:-1]  # noqa: PLW2901
            for entry in entries:
                if names := _names(entry):
                    table = RECORDED_CANDLES if names is _CANDLE else TRADES
                    yield table.name, {"raw_symbol": pair, **dict(zip(names, entry, strict=False))}
                else:
                    yield "neither a trade nor a candle of Kraken"


def _names(entry: Any) -> tuple[str, ...]:
    """Return the names of the values of an entry, by their number; no names if it is of another kind."""
    width = len(entry) if isinstance(entry, list) else 0
    return {len(_TRADE) - 1: _TRADE, len(_TRADE): _TRADE, len(_CANDLE): _CANDLE}.get(width, ())
