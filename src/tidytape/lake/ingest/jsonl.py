"""Lines of JSON objects with a column map, for any table of the lake; trades unless another is named.

The map says which field of the objects is which of ours, as for `csv`. Fields are those at the top of the objects; one
that an object lacks, or has as null, is empty. Numbers may be written as numbers or as text.
"""

from __future__ import annotations

from collections.abc import Callable

import orjson
import polars as pl

from tidytape.errors import IngestError
from tidytape.lake.batch import Spool
from tidytape.lake.ingest._job import Job, Parsed
from tidytape.lake.ingest._json import decoded
from tidytape.lake.ingest._lines import numbered
from tidytape.lake.ingest._mapped import Reader, reader

__all__ = ["parse"]

_LOOKED_AT = 1000
"""Lines whose fields are what a map can name: in which a field that is often left out should show up."""


def parse(job: Job, spool: Spool, progress: Callable[[int], object]) -> Parsed:
    """Read one file.

    Parameters
    ----------
    job : Job
        The file, its ``table``, ``columns`` and ``time_unit``.
    spool : Spool
        Takes the rows.
    progress : callable
        Called with the number of bytes read.

    Returns
    -------
    Parsed

    Raises
    ------
    QueryError
        If the map names a field that none of the first 1,000 objects has, a needed one is not mapped, or no venue or
        no instrument is named.
    IngestError
        If the file cannot be read, or none of its first lines is an object.
    """
    parsed = Parsed(spool)
    rows: Reader | None = None
    names: list[str] = []
    for lines in numbered(job.path, parsed.bad, progress):
        if lines.is_empty():
            continue
        if rows is None:
            names = _names(lines["text"].head(_LOOKED_AT))
            if not names:
                raise IngestError(f"{job.path}: no lines of JSON objects", path=str(job.path), line=1)
            rows = reader(job, names, parsed)
        objects = decoded(lines["text"], pl.Struct(dict.fromkeys(names, pl.String())))
        broken = pl.when(objects.is_null()).then(pl.lit("no JSON object, or a field is no text or number"))
        told = pl.select(reason=broken)["reason"]
        good = parsed.bad.take(lines.with_columns(objects.alias("object"), told)).drop("text")
        parsed.lines += lines.height - good.height  # the reader counts those it is given
        rows.take(good.unnest("object"))
    if rows is None:
        raise IngestError(f"{job.path}: the file has no lines", path=str(job.path))
    rows.finish()
    return parsed


def _names(lines: pl.Series) -> list[str]:
    """Fields of some objects that hold text, a number or a flag, in the order in which they show up."""
    names: dict[str, bool] = {}
    for text in lines:
        try:
            found = orjson.loads(text)
        except orjson.JSONDecodeError:
            continue
        if isinstance(found, dict):
            names |= {name: True for name, value in found.items() if not isinstance(value, dict | list)}
    return list(names)
