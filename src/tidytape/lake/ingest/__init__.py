"""Recorded files into a lake.

A layout says how files are written, and `Market` what the files do not say of their market::

    ingest(files, lake, Csv(columns={"price": "px"}), market=Market(exchange="X", raw_symbol="BTC-USD"))

`LAYOUTS` has every layout by its name. All but those with a column map are recognised by a file's name and first lines,
where no layout is given. Frames go in with `tidytape.lake.Lake.write`.

A layout of one's own is a subclass of `Answers` for JSON answers, or of `Layout`, whose ``read`` fills a `Parsed` with
`put_texts`. It is passed to `ingest` as an object; it is never recognised, and no command bears its name.
"""

from __future__ import annotations

from tidytape.lake.ingest import layouts
from tidytape.lake.ingest._lines import BadLines, Piece, numbered
from tidytape.lake.ingest.answers import Answers, Event
from tidytape.lake.ingest.follow import follow
from tidytape.lake.ingest.layout import Job, Layout, Parsed, Progress
from tidytape.lake.ingest.layouts import *  # noqa: F403  # every layout, so that a new one is named once
from tidytape.lake.ingest.mapped import put_texts
from tidytape.lake.ingest.market import Market
from tidytape.lake.ingest.replay import replay
from tidytape.lake.ingest.report import FileReport, IngestReport, MarketReport, Note, TableCount, summary
from tidytape.lake.ingest.run import ingest

__all__ = [
    "Answers",
    "BadLines",
    "Event",
    "FileReport",
    "IngestReport",
    "Job",
    "Layout",
    "Market",
    "MarketReport",
    "Note",
    "Parsed",
    "Piece",
    "Progress",
    "TableCount",
    "follow",
    "ingest",
    "numbered",
    "put_texts",
    "replay",
    "summary",
]
__all__ += layouts.__all__
