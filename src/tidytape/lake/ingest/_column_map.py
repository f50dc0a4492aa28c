"""What can be wrong with a map of our columns to a file's."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tidytape.errors import QueryError, nearest
from tidytape.lake.ingest._job import Job

__all__ = ["columns_of", "map_error"]


def columns_of(job: Job, header: Sequence[str], limit: int = 200) -> str:
    """Name a file's columns, or the first of them: the first line of another kind of file may be anything."""
    text = ", ".join(header)
    return f"one of the columns of {job.path.name}: {text if len(text) <= limit else text[:limit] + '…'}"


def map_error(got: str | None, known: Iterable[str], expected: str) -> QueryError:
    """Return the error of a column map: what was named, what is known, and what was expected."""
    close = nearest(got, known) if got is not None else None
    return QueryError(
        "columns", got=got, expected=expected, hint=f"did you mean {close!r}?" if close else None
    )
