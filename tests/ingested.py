"""An ingest whose layout and market are named one option at a time, as on the command line."""

from __future__ import annotations

from typing import Any

from tidytape.lake.ingest import IngestReport
from tidytape.lake.ingest import ingest as ingest_layout
from tidytape.lake.ingest._layouts import by_name


def ingest(
    files: Any,
    lake: Any,
    *,
    layout: str | None = None,
    skip_bad: bool = False,
    replace: bool = False,
    workers: int | None = None,
    progress: bool | None = None,
    **options: Any,
) -> IngestReport:
    """Ingest by the name of a layout, and options of it and of the market."""
    chosen, market = by_name(layout, options)
    return ingest_layout(
        files,
        lake,
        chosen,
        market=market,
        skip_bad=skip_bad,
        replace=replace,
        workers=workers,
        progress=progress,
    )
