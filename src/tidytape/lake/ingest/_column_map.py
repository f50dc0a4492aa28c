"""What a map of our columns to a file's has for every table, and what can be wrong with one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tidytape.errors import QueryError, did_you_mean
from tidytape.lake.ingest._fields import Kind, time
from tidytape.lake.ingest._job import Job


def columns_of(job: Job, header: Sequence[str], limit: int = 200) -> str:
    """Name a file's columns, or the first of them: the first line of another kind of file may be anything."""
    text = ", ".join(header)
    return f"one of the columns of {job.path.name}: {text if len(text) <= limit else text[:limit] + '…'}"


def map_error(got: object, known: Iterable[str], expected: str) -> QueryError:
    """Return the error of a column map: what was named, what is known, and what was expected."""
    hint = did_you_mean(got, known) if isinstance(got, str) else None
    return QueryError("columns", got=got, expected=expected, hint=hint)


def unmapped(job: Job, header: Sequence[str], missing: str) -> QueryError:
    """Return the error of a column map that says nothing of columns of ours that are needed."""
    return map_error(job.columns or None, (), f"{missing} mapped to {columns_of(job, header)}")


def mapped_time(unit: str) -> Kind:
    """Times of a file of which the caller may say how they are written."""
    return time(
        unit, hint="time_unit (--time-unit) or time_format (--time-format) says how times are written"
    )
