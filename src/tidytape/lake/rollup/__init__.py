"""Rollups: minutes of every instrument, kept beside its raw events so that queries cost what their answer does.

Examples
--------
::

    rollup(lake)                                     # tidytape rollup --lake lake
    minutes(lake, "candles_1m", exchange="BINANCE", raw_symbol="BTCUSDT", start=start, end=end)
"""

from __future__ import annotations

from tidytape.lake.rollup.build import RolledUp, rollup
from tidytape.lake.rollup.many import minutes_of_many
from tidytape.lake.rollup.read import minutes, sources
from tidytape.lake.rollup.tables import ROLLUP_TABLES

__all__ = ["ROLLUP_TABLES", "RolledUp", "minutes", "minutes_of_many", "rollup", "sources"]
