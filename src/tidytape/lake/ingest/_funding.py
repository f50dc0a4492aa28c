"""Funding reports that do not state the time between settlements: filled in where the caller says it, else counted.

A rate is one per funding interval, so without it there is no telling what the rate is over a year, and such a report is
never served, see `tidytape.aggregate.funding`. An interval that is stated holds, whatever the caller says.
"""

from __future__ import annotations

from functools import partial

import polars as pl

from tidytape.errors import IngestError, counted
from tidytape.lake.ingest._job import Job, Parsed
from tidytape.lake.ingest.report import Note
from tidytape.lake.store import Lake
from tidytape.lake.tables import FUNDING
from tidytape.times import HOUR

UNSTATED = (
    "without a funding interval and so not served; funding_interval (--funding-interval), said when a file first goes "
    "in, fills it in"
)
"""What is noted of reports without one."""

_KEY = list(FUNDING.key)


def stated(job: Job, parsed: Parsed) -> None:
    """Fill in the funding interval that the caller says, or note how many reports have none."""
    batch = parsed.batch(FUNDING)
    if job.funding_interval is not None:
        batch.change(partial(_filled, interval=job.funding_interval))
        return
    count = sum(part.frame()["funding_interval"].null_count() for part in batch)
    if count:
        parsed.notes.append(Note("funding report", UNSTATED, count))


def require_fillable(job: Job, parsed: Parsed, lake: Lake) -> None:
    """Raise IngestError where the lake has a report with another funding interval, or none, than the caller says.

    What is in a lake stays as it is: without this the report would silently stay unserved, or be served over another.
    """
    if job.funding_interval is None:
        return
    for part in parsed.batch(FUNDING):
        exchanges, symbols = (list(names) for names in zip(*part.instruments, strict=True))
        there = lake.scan(
            FUNDING.name, exchange=exchanges, raw_symbol=symbols, start=part.first, end=part.last + 1
        )
        told = part.frame().lazy().select(*_KEY, said="funding_interval")
        other = pl.col("said").ne_missing(pl.col("funding_interval"))
        wrong = there.join(told, on=_KEY).filter(other).sort(_KEY).collect()
        if wrong.height:
            row = wrong.row(0, named=True)
            stored = "no" if row["funding_interval"] is None else f"{row['funding_interval'] / HOUR:g} h as"
            raise IngestError(
                f"{job.path}: {counted(wrong.height, 'funding report')} of it in the lake with {stored} funding "
                f"interval, e.g. {row['exchange']} {row['raw_symbol']} at {row['timestamp']}; what is in a lake stays "
                "as it is, so put the files into a new one",
                path=str(job.path),
            )


def _filled(reports: pl.DataFrame, *, interval: int) -> pl.DataFrame:
    return reports.with_columns(pl.col("funding_interval").fill_null(interval))
