"""Lines of JSON objects of one's own, with a map of their fields."""

from __future__ import annotations

from dataclasses import dataclass

import orjson
import polars as pl

from tidytape.errors import IngestError
from tidytape.lake._batch import Spool
from tidytape.lake.ingest._decode import decoded
from tidytape.lake.ingest._layout import Job, Parsed, Progress
from tidytape.lake.ingest._lines import numbered
from tidytape.lake.ingest._mapped import Mapped
from tidytape.lake.ingest._mapped_rows import MappedRows

_LOOKED_AT = 1000
"""Number of first lines whose fields a map can name: a field that is often absent should be in one of them."""


@dataclass(frozen=True, kw_only=True)
class Jsonl(Mapped):
    """Lines of JSON objects, with a map of their fields.

    Fields are those at the top of the objects. One that an object lacks, or has as null, is empty. Numbers may be
    written as numbers or as text. A map can name the fields of the first 1,000 objects.

    Parameters
    ----------
    columns, table, time_unit, time_format, interval
        See `Mapped`.

    Examples
    --------
    >>> Jsonl(table="funding").table
    'funding'
    """

    name = "jsonl"
    follows = True

    def read(self, job: Job, spool: Spool, progress: Progress) -> Parsed:
        """Read one file."""
        parsed = Parsed(spool, piece=job.piece)
        rows: MappedRows | None = None
        names: list[str] = []
        memory = {} if job.piece is None else job.piece.memory
        for lines in numbered(job.path, parsed.bad, progress, job.piece):
            if lines.is_empty():
                continue
            if rows is None:
                looked_at = memory.get("looked_at", 0)
                new_names = _field_names(lines["text"].head(max(_LOOKED_AT - looked_at, 0)))
                names = list(memory.get("names", {}) | dict.fromkeys(new_names))
                memory |= {"names": dict.fromkeys(names), "looked_at": looked_at + lines.height}
                if not names:
                    raise IngestError(f"{job.path}: no lines of JSON objects", path=str(job.path), line=1)
                rows = MappedRows(self, job, names, parsed)
            parsed.lines += lines.height
            objects = decoded(lines["text"], pl.Struct(dict.fromkeys(names, pl.String())))
            broken = pl.when(pl.col("object").is_null()).then(
                pl.lit("no JSON object, or a field is no text or number")
            )
            good = parsed.bad.take(lines.select("line", objects.alias("object")).with_columns(reason=broken))
            rows.take(good.unnest("object"))
        if rows is not None:
            rows.finish()
        elif job.piece is None:
            raise IngestError(f"{job.path}: the file has no lines", path=str(job.path))
        return parsed


def _field_names(lines: pl.Series) -> list[str]:
    """Return the fields of some objects that hold text, a number or a flag, in the order of their first appearance."""
    names: dict[str, bool] = {}
    for text in lines:
        try:
            entry = orjson.loads(text)
        except orjson.JSONDecodeError:
            continue
        if isinstance(entry, dict):
            names |= {name: True for name, value in entry.items() if not isinstance(value, dict | list)}
    return list(names)
