"""Recorded files into a lake.

A layout says how files are written, and `Market` what the files do not say of their market::

    ingest(files, lake, Csv(columns={"price": "px"}), market=Market(exchange="X", raw_symbol="BTC-USD"))

`LAYOUTS` has every layout by its name. All but those with a column map are recognised by a file's name and first lines,
where no layout is given. `ingest_frame` puts a frame in.

A layout of one's own is a subclass of `Answers` for JSON answers, or of `Layout`, whose ``read`` fills a `Parsed` with
`put_texts`. It is passed to `ingest` as an object; it is never recognised, and no command bears its name.
"""

from __future__ import annotations

from tidytape.lake.ingest._answers import Answers, Event
from tidytape.lake.ingest._binance_vision import BinanceVision
from tidytape.lake.ingest._binance_ws import BinanceWs
from tidytape.lake.ingest._coinbase import Coinbase
from tidytape.lake.ingest._cryptofeed import Cryptofeed
from tidytape.lake.ingest._deribit_chain import DeribitChain
from tidytape.lake.ingest._frames import ingest_frame
from tidytape.lake.ingest._kraken import Kraken
from tidytape.lake.ingest._layout import Job, Layout, Parsed, Progress
from tidytape.lake.ingest._layouts import LAYOUTS
from tidytape.lake.ingest._lean import Lean
from tidytape.lake.ingest._lines import BadLines, Piece, numbered
from tidytape.lake.ingest._mapped import Csv, Jsonl, Parquet, put_texts
from tidytape.lake.ingest._market import Market
from tidytape.lake.ingest._report import FileReport, IngestReport, MarketReport, Note, TableCount, summary
from tidytape.lake.ingest._run import ingest
from tidytape.lake.ingest._tardis import Tardis, TardisNode

__all__ = [
    "LAYOUTS",
    "Answers",
    "BadLines",
    "BinanceVision",
    "BinanceWs",
    "Coinbase",
    "Cryptofeed",
    "Csv",
    "DeribitChain",
    "Event",
    "FileReport",
    "IngestReport",
    "Job",
    "Jsonl",
    "Kraken",
    "Layout",
    "Lean",
    "Market",
    "MarketReport",
    "Note",
    "Parquet",
    "Parsed",
    "Piece",
    "Progress",
    "TableCount",
    "Tardis",
    "TardisNode",
    "ingest",
    "ingest_frame",
    "numbered",
    "put_texts",
    "summary",
]
