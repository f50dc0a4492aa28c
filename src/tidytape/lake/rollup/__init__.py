"""Rollups: precomputed minutes of every market, which queries read instead of raw events.

Examples
--------
::

    rollup(lake)                                     # tidytape rollup --lake lake
    minutes(lake, "candles_1m", exchange="BINANCE", raw_symbol="BTCUSDT", start=start, end=end)
"""

from __future__ import annotations

from tidytape.lake.rollup._build import RolledUp, rollup
from tidytape.lake.rollup._recipes import ROLLUP_TABLES
from tidytape.lake.rollup._state import Sources, minutes, minutes_of_many, sources

__all__ = ["ROLLUP_TABLES", "RolledUp", "Sources", "minutes", "minutes_of_many", "rollup", "sources"]
