"""Answers of Coinbase Exchange's REST API as they were saved: ``/products/…/trades`` and ``/products/…/candles``.

Trades are an array of objects. Their ``side`` is the side of the maker [1]_; ours is the other side, of the aggressor.
Candles are an array of arrays: seconds, low, high, open, close, volume [2]_. The answer states neither the length of
the candles nor the product, so the caller gives both. A file may hold one answer, or one per line.

References
----------
.. [1] Coinbase, "Exchange REST API", Get product trades, side.
.. [2] Coinbase, "Exchange REST API", Get product candles.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tidytape.lake._tables import RECORDED_CANDLES, TRADES
from tidytape.lake.ingest._answers import Answers, Event
from tidytape.lake.ingest._layout import Parsed

_TRADE = {"id": "trade_id", "timestamp": "time", "price": "price", "amount": "size", "side": "side"}
_CANDLE = ("timestamp", "low", "high", "open", "close", "volume")
_TAKERS = {"buy": "sell", "sell": "buy"}


@dataclass(frozen=True, kw_only=True)
class Coinbase(Answers):
    """Saved JSON of Coinbase Exchange's REST API: trades and candles.

    Parameters
    ----------
    interval : str, optional
        Length of the candles, e.g. ``"1m"``; files of candles need it.

    Examples
    --------
    >>> Coinbase(interval="1m").name
    'coinbase'
    """

    name = "coinbase"
    default_exchange = "COINBASE"
    time_units = {TRADES.name: "iso", RECORDED_CANDLES.name: "s"}  # noqa: RUF012

    @classmethod
    def recognises(cls, name: str, head: str) -> bool:
        """Return whether a file is an answer with trades; candles could be of any exchange."""
        first_object = re.match(r"\s*\[\s*\{([^}]*)\}", head)
        return first_object is not None and all(f'"{field}"' in first_object[1] for field in _TRADE.values())

    def events(self, answer: Any, parsed: Parsed) -> Iterator[Event]:
        """Yield the events of an answer, or of an item of an array."""
        is_array = isinstance(answer, list) and any(isinstance(entry, list | dict) for entry in answer)
        yield from map(_event, answer if is_array else [answer])


def _event(entry: Any) -> Event:
    """Return the event of an entry of an answer."""
    if isinstance(entry, dict) and entry.keys() >= set(_TRADE.values()):
        trade = {column: entry[field] for column, field in _TRADE.items()}
        maker = str(trade["side"]).lower()
        return TRADES.name, trade | {"side": _TAKERS.get(maker, maker)}
    if isinstance(entry, list) and len(entry) == len(_CANDLE):
        return RECORDED_CANDLES.name, dict(zip(_CANDLE, entry, strict=True))
    return "neither a trade nor a candle of Coinbase"
