"""Normalised messages of tardis-node and tardis-machine: lines of JSON objects.

========================= =========================================================================================
``type``                  becomes
========================= =========================================================================================
``trade``                 trades; one whose side is ``unknown`` is counted, not kept
``derivative_ticker``     funding, where a rate or a predicted rate is known, and open interest, where that is known
``liquidation``           liquidations
``option_summary``        option quotes
anything else             is counted, not kept
========================= =========================================================================================

One file may hold many venues. What the fields mean is told in `_tardis`.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import polars as pl

from tidytape.lake.batch import Spool
from tidytape.lake.ingest import _tardis
from tidytape.lake.ingest._fields import checked
from tidytape.lake.ingest._job import Job, Parsed
from tidytape.lake.ingest._json import decoded
from tidytape.lake.ingest._lines import numbered
from tidytape.lake.ingest._time import ISO

__all__ = ["parse", "recognises"]

_FIELDS = {kind: _tardis.fields(own, message=True, time_unit=ISO) for kind, own in _tardis.KINDS.items()}
_TOLD = {field.name for fields in _FIELDS.values() for field in fields.values()}
_MESSAGE = pl.Struct(dict.fromkeys(["type", *sorted(_TOLD)], pl.String()))
_TYPES = "|".join(
    [*_tardis.KINDS, "book_change", "book_snapshot", "book_ticker", "quote", "trade_bar", "disconnect"]
)


def parse(job: Job, spool: Spool, progress: Callable[[int], object]) -> Parsed:
    """Read one file.

    Parameters
    ----------
    job : Job
        The file; ``raw_symbol`` takes one instrument out of it, ``exchange`` names the venue of a file of one.
    spool : Spool
        Takes the rows.
    progress : callable
        Called with the number of bytes read.

    Returns
    -------
    Parsed

    Raises
    ------
    IngestError
        If the file cannot be read, or ``exchange`` is given and it holds several venues.
    """
    parsed = Parsed(spool)
    venues: set[str] = set()
    for lines in numbered(job.path, parsed.bad, progress):
        parsed.lines += lines.height
        told = decoded(lines["text"], _MESSAGE).alias("message")
        reason = pl.when(pl.col("message").struct.field("type").is_null()).then(
            pl.lit("no JSON object with a type, or a field is no text or number")
        )
        messages = parsed.bad.take(lines.select("line", told).with_columns(reason=reason)).unnest("message")
        for kind, fields in _FIELDS.items():
            texts = messages.filter(pl.col("type") == kind).select(
                "line", *(pl.col(field.name).alias(ours) for ours, field in fields.items())
            )
            rows = parsed.bad.take(checked(texts, fields))
            _tardis.put(
                kind, _tardis.own(rows, job, parsed, what=kind.replace("_", " "), venues=venues), parsed
            )
        others = messages.filter(~pl.col("type").is_in(list(_FIELDS)))
        for kind, count in others.group_by("type").len().iter_rows():
            parsed.ignore(f"{kind} message", count)
    _tardis.finish(parsed)
    return parsed


def recognises(name: str, head: str) -> bool:
    """Whether a file is of such messages: its first line is an object with a type that is known."""
    first = head.partition("\n")[0]
    return re.search(rf'"type":\s*"({_TYPES})"', first) is not None and '"localTimestamp"' in first
