"""Recorded files into a lake, one module per layout.

========================= ===========================================================================
layout                    module
========================= ===========================================================================
``binance-vision``        `binance_vision`: dumps of data.binance.vision
``binance-ws``            `binance_ws`: WebSocket logs of trades and book events
``cryptofeed``            `cryptofeed`: lists of BitMEX instruments
``csv``                   `csv`: any delimited file, with a column map
``deribit-chain``         `deribit_chain`: snapshots of option chains
``jsonl``                 `jsonl`: lines of JSON objects, with a column map
``parquet``               `parquet`: Parquet files, with a column map
``tardis``                `tardis`: CSV datasets of tardis.dev
``tardis-node``           `tardis_node`: normalised messages of tardis-node
========================= ===========================================================================

All but those with a column map are recognised by a file's name and first lines, see `recognise`.
"""

from __future__ import annotations

from tidytape.lake.ingest._summary import summary
from tidytape.lake.ingest.layouts import LAYOUTS
from tidytape.lake.ingest.report import FileReport, IngestReport, MarketReport, Note, TableCount
from tidytape.lake.ingest.run import ingest

__all__ = ["LAYOUTS", "FileReport", "IngestReport", "MarketReport", "Note", "TableCount", "ingest", "summary"]
