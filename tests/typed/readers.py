"""What reads a lake has no method that writes: ``mypy`` checks this file, and refuses an ignored error that is none."""

from __future__ import annotations

import polars as pl

from tidytape.lake import Appended, Lake, LakeReader, LakeWriter
from tidytape.lake.hygiene import compact, vacuum
from tidytape.lake.ingest import ingest, ingest_frame
from tidytape.lake.record import follow
from tidytape.lake.rollup import rollup


def written(lake: Lake, rows: pl.DataFrame) -> Appended:
    writer: LakeWriter = lake.writer()
    writer.register(rows)
    return writer.append("trades", rows, source="by hand")


def read(lake: Lake) -> list[LakeReader]:
    return [lake, lake.now(), lake.at({"trades": 0}), lake.now().at({"trades": 0}).now()]


def refused(lake: Lake, rows: pl.DataFrame) -> None:
    lake.append("trades", rows, source="by hand")  # type: ignore[attr-defined]
    lake.register(rows)  # type: ignore[attr-defined]
    lake.now().writer()  # type: ignore[attr-defined]
    lake.at({"trades": 0}).writer()  # type: ignore[attr-defined]
    lake.at({"trades": 0}).append("trades", rows, source="by hand")  # type: ignore[attr-defined]
    lake.now().register(rows)  # type: ignore[attr-defined]
    LakeWriter(lake.now())  # type: ignore[arg-type]
    LakeReader("lake", None)  # type: ignore[abstract]
    compact(lake.now())  # type: ignore[arg-type]
    vacuum(lake.now())  # type: ignore[arg-type]
    rollup(lake.now())  # type: ignore[arg-type]
    ingest("trades.csv", lake.now())  # type: ignore[arg-type]
    ingest_frame(rows, lake.now())  # type: ignore[arg-type]
    follow("trades.csv", lake.now())  # type: ignore[arg-type]
