"""Files of your own, with a map of their columns: delimited text, lines of JSON objects, and Parquet."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from typing import Any

import orjson
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from tidytape.errors import IngestError, QueryError
from tidytape.lake._batch import Spool
from tidytape.lake.ingest._decode import Header, decoded, delimited, unreadable_header
from tidytape.lake.ingest._layout import Job, Parsed, Progress
from tidytape.lake.ingest._lines import numbered
from tidytape.lake.ingest._mapped import Mapped
from tidytape.lake.ingest._mapped_rows import MappedRows
from tidytape.lake.ingest._market import Market, option

_DELIMITERS = (",", ";", "\t", "|")
_WRITTEN_TAB = "\\t"  # a backslash and a t, as a shell passes them on
_LOOKED_AT = 1000
"""Number of first lines that are searched for names of fields; a field that is often absent should be in one."""
_ROWS = 250_000
"""Most rows of a file that are read at once."""


@dataclass(frozen=True, kw_only=True)
class Csv(Mapped):
    """Delimited files, with a map of their columns.

    Parameters
    ----------
    columns, table, time_unit, time_format, interval
        See `Mapped`.
    delimiter : str, optional
        The character between the columns; by default recognised by the header.

    Examples
    --------
    >>> Csv(columns={"price": "px"}, delimiter=";").table
    'trades'
    """

    name = "csv"
    follows = True
    header_lines = 1

    delimiter: str | None = option("One character; by default recognised by the header.")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.delimiter is None:
            return
        if _character(self.delimiter) is None:
            raise QueryError(
                "delimiter", got=self.delimiter, expected="one ASCII character, e.g. ; or a tab, and no quote"
            )

    def identity(self, market: Market) -> dict[str, Any]:
        """Return the options that change which rows are read."""
        return super().identity(market) | {"delimiter": self.delimiter}

    def read(self, job: Job, spool: Spool, progress: Progress) -> Parsed:
        """Read one file."""
        parsed = Parsed(spool, piece=job.piece)
        readers: list[MappedRows] = []

        def described(number: int, text: str) -> Header:
            if parsed.bad.first and parsed.bad.first[0][0] < number:
                # The broken line may have been the header, and this one a row.
                raise unreadable_header(job, *parsed.bad.first[0])
            delimiter = _character(self.delimiter or max(_DELIMITERS, key=text.count)) or ","
            try:
                names = [name.strip() for name in next(csv.reader([text], delimiter=delimiter))]
            except csv.Error as error:
                reason = "it holds a bare carriage return" if "\r" in text.rstrip("\r") else str(error)
                raise unreadable_header(job, number, reason) from error
            # Made before any line is split, because a wrong map is wrong for all lines.
            readers.append(MappedRows(self, job, names, parsed))
            return Header(names, delimiter=delimiter, is_ragged=True)

        for _, texts in delimited(job, parsed, progress, described):
            readers[0].take(texts)
        if readers:  # empty if the piece has no line yet
            readers[0].finish()
        return parsed


def _character(text: str) -> str | None:
    """Return the character that a delimiter stands for, None if it cannot be a delimiter."""
    character = "\t" if text == _WRITTEN_TAB else text
    is_delimiter = len(character) == 1 and character.isascii() and character not in '"\r\n\0'
    return character if is_delimiter else None


@dataclass(frozen=True, kw_only=True)
class Jsonl(Mapped):
    """Lines of JSON objects, with a map of their fields.

    Fields are those at the top level of the objects. A field that an object lacks, or has as null, is empty. Numbers
    may be written as numbers or as text. A map can name the fields of the first 1,000 objects.

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
        reader: MappedRows | None = None
        names: list[str] = []
        memory = {} if job.piece is None else job.piece.memory
        for lines in numbered(job.path, parsed.bad, progress, job.piece):
            if lines.is_empty():
                continue
            if reader is None:
                looked_at = memory.get("looked_at", 0)
                new_names = _field_names(lines["text"].head(max(_LOOKED_AT - looked_at, 0)))
                names = list(memory.get("names", {}) | dict.fromkeys(new_names))
                memory |= {"names": dict.fromkeys(names), "looked_at": looked_at + lines.height}
                try:
                    if not names:
                        raise IngestError(f"{job.path}: no lines of JSON objects", path=str(job.path), line=1)
                    reader = MappedRows(self, job, names, parsed)
                except (QueryError, IngestError) as error:
                    if job.piece is None or memory["looked_at"] >= _LOOKED_AT:
                        raise
                    # Such as an acknowledgement: later lines of a log that grows may have the fields.
                    parsed.lines += lines.height
                    parsed.bad.take(lines.select("line", reason=pl.lit(str(error))))
                    continue
            parsed.lines += lines.height
            objects = decoded(lines["text"], pl.Struct(dict.fromkeys(names, pl.String())))
            reasons = pl.when(pl.col("object").is_null()).then(
                pl.lit("no JSON object, or a field is no text or number")
            )
            good_objects = parsed.bad.take(
                lines.select("line", objects.alias("object")).with_columns(reason=reasons)
            )
            reader.take(good_objects.unnest("object"))
        if reader is not None:
            reader.finish()
        elif job.piece is None:
            raise IngestError(f"{job.path}: the file has no lines", path=str(job.path))
        return parsed


def _field_names(lines: pl.Series) -> list[str]:
    """Return the fields of some objects that hold text, a number or a flag, in the order in which they first appear."""
    names: dict[str, bool] = {}
    for text in lines:
        try:
            entry = orjson.loads(text)
        except orjson.JSONDecodeError:
            continue
        if isinstance(entry, dict):
            names |= {name: True for name, value in entry.items() if not isinstance(value, dict | list)}
    return list(names)


@dataclass(frozen=True, kw_only=True)
class Parquet(Mapped):
    """Parquet files, with a map of their columns.

    A line is a row, counted from 1. Timestamps must have a zone, such as UTC; timestamps without one are refused,
    unless ``time_unit="iso"`` says that they are in UTC. Times that are numbers are read in ``time_unit``.

    Parameters
    ----------
    columns, table, time_unit, time_format, interval
        See `Mapped`.

    Examples
    --------
    >>> Parquet(time_unit="iso").time_unit
    'iso'
    """

    name = "parquet"

    def read(self, job: Job, spool: Spool, progress: Progress) -> Parsed:
        """Read one file."""
        parsed = Parsed(spool)
        size = job.path.stat().st_size if job.path.is_file() else 0
        try:
            with pq.ParquetFile(job.path) as file:
                reader = MappedRows.of_arrow(self, job, file.schema_arrow, parsed)
                batches = file.iter_batches(batch_size=_ROWS, columns=reader.used)
                for batch in batches:
                    reader.take_arrow(batch)
                    progress(size * batch.num_rows // max(file.metadata.num_rows, 1))
        except (pa.ArrowException, pl.exceptions.PolarsError, OSError) as error:
            raise IngestError(
                f"{job.path}: no Parquet file that can be read: {error}", path=str(job.path)
            ) from error
        reader.finish()
        return parsed
