"""Any delimited file with a header and a column map, for any table of the lake; trades unless another is named.

The map says which column of the file is which of ours: ``{"price": "px", "amount": "qty", …}``. A column of the file
that bears our name is taken without being named. What our columns are is told in `_mapped_trades` for trades, and in
`_mapped` for the other tables.
"""

from __future__ import annotations

import csv
from collections.abc import Callable

from tidytape.errors import IngestError, QueryError
from tidytape.lake.batch import Spool
from tidytape.lake.ingest._delimited import split
from tidytape.lake.ingest._job import Job, Parsed
from tidytape.lake.ingest._lines import numbered
from tidytape.lake.ingest._mapped import Reader, reader

__all__ = ["parse"]

_DELIMITERS = (",", ";", "\t", "|")
_WRITTEN_TAB = "\\t"  # as a shell passes it on


def parse(job: Job, spool: Spool, progress: Callable[[int], object]) -> Parsed:
    """Read one file.

    Parameters
    ----------
    job : Job
        The file, its ``table``, ``columns``, ``delimiter`` and ``time_unit``.
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
        If the map names a column that is not there, a needed column is not mapped, no venue or no instrument is named,
        or the delimiter is none.
    IngestError
        If the file cannot be read or has no header.
    """
    parsed = Parsed(spool)
    rows: Reader | None = None
    header: list[str] = []
    delimiter = None if job.delimiter is None else _given_delimiter(job.delimiter)
    for block in numbered(job.path, parsed.bad, progress):
        lines = block
        if rows is None and lines.height:
            line, text = lines.row(0)
            if parsed.bad.first and parsed.bad.first[0][0] < line:
                raise _header_error(job, *parsed.bad.first[0])
            delimiter = delimiter or _delimiter(text)
            try:
                header = [name.strip() for name in next(csv.reader([text], delimiter=delimiter))]
            except csv.Error as error:
                reason = "it holds a bare carriage return" if "\r" in text.rstrip("\r") else str(error)
                raise _header_error(job, line, reason) from error
            rows = reader(job, header, parsed)
            lines = lines[1:]
        if rows is not None and delimiter is not None:
            fields = split(lines, len(header), delimiter, parsed.bad, ragged=True)
            parsed.lines += lines.height - fields.height  # the reader counts those it is given
            rows.take(fields)
    if rows is None:
        if parsed.bad.first:
            raise _header_error(job, *parsed.bad.first[0])
        raise IngestError(f"{job.path}: no header, the file has no lines", path=str(job.path))
    rows.finish()
    return parsed


def _header_error(job: Job, line: int, reason: str) -> IngestError:
    message = f"{job.path}:{line}: the header cannot be read: {reason}"
    return IngestError(message, path=str(job.path), line=line, bad_lines=1)


def _given_delimiter(text: str) -> str:
    delimiter = "\t" if text == _WRITTEN_TAB else text
    if len(delimiter) != 1 or not delimiter.isascii() or delimiter in '"\r\n\0':
        raise QueryError("delimiter", got=text, expected="one ASCII character, e.g. ; or a tab, and no quote")
    return delimiter


def _delimiter(header: str) -> str:
    count = {delimiter: header.count(delimiter) for delimiter in _DELIMITERS}
    return max(_DELIMITERS, key=lambda delimiter: count[delimiter])
