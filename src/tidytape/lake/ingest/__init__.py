"""Recorded files into a lake, one module per layout.

========================= ===========================================================================
layout                    module
========================= ===========================================================================
``binance-ws``            `binance_ws`: WebSocket logs of trades and book events
``csv``                   `csv`: any delimited file of trades, with a column map
``deribit-chain``         `deribit_chain`: snapshots of option chains
========================= ===========================================================================
"""

from __future__ import annotations

from tidytape.lake.ingest.layouts import LAYOUTS
from tidytape.lake.ingest.report import FileReport, IngestReport, MarketReport, TableCount
from tidytape.lake.ingest.run import ingest

__all__ = ["LAYOUTS", "FileReport", "IngestReport", "MarketReport", "TableCount", "ingest"]
