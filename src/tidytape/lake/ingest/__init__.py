"""Put recorded files and frames into a lake.

A layout is a format of files. `Market` says what the files do not say about their market::

    ingest(files, lake, Csv(columns={"price": "px"}), market=Market(exchange="X", raw_symbol="BTC-USD"))

`LAYOUTS` has every layout by its name. Without a layout, `ingest` recognises each file by its name and first lines, as
one of them or as one of the kinds of which there are descriptions; `Auto` states what such a file does not show.
`ingest_frame` puts a frame into a lake, and `ingest_prediction_markets` puts reports of prediction markets into one.

A layout of your own is a subclass of `Answers` for JSON answers, or of `Layout`, whose ``read`` fills a `Parsed` with
`put_texts`. Pass an instance to `ingest`: its files are never recognised, and it has no command.
"""

from __future__ import annotations

from tidytape.lake.ingest._answers import Answers, Event
from tidytape.lake.ingest._binance_vision import BinanceVision
from tidytape.lake.ingest._binance_ws import BinanceWs
from tidytape.lake.ingest._coinbase import Coinbase
from tidytape.lake.ingest._cryptofeed import Cryptofeed
from tidytape.lake.ingest._deribit_chain import DeribitChain
from tidytape.lake.ingest._described import Auto
from tidytape.lake.ingest._frames import ingest_frame
from tidytape.lake.ingest._kraken import Kraken
from tidytape.lake.ingest._layout import Job, Layout, Parsed, Progress
from tidytape.lake.ingest._layouts import LAYOUTS
from tidytape.lake.ingest._lean import Lean
from tidytape.lake.ingest._lines import BadLines, Piece, members, numbered
from tidytape.lake.ingest._mapped_rows import put_texts
from tidytape.lake.ingest._market import Market
from tidytape.lake.ingest._own_files import Csv, Feather, Json, Jsonl, Parquet
from tidytape.lake.ingest._prediction import PredictionFile, PredictionReport, ingest_prediction_markets
from tidytape.lake.ingest._report import FileReport, IngestReport, MarketReport, Note, TableCount, summary
from tidytape.lake.ingest._run import ingest
from tidytape.lake.ingest._tardis import Tardis, TardisNode

__all__ = [
    "LAYOUTS",
    "Answers",
    "Auto",
    "BadLines",
    "BinanceVision",
    "BinanceWs",
    "Coinbase",
    "Cryptofeed",
    "Csv",
    "DeribitChain",
    "Event",
    "Feather",
    "FileReport",
    "IngestReport",
    "Job",
    "Json",
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
    "PredictionFile",
    "PredictionReport",
    "Progress",
    "TableCount",
    "Tardis",
    "TardisNode",
    "ingest",
    "ingest_frame",
    "ingest_prediction_markets",
    "members",
    "numbered",
    "put_texts",
    "summary",
]
