"""Files of your own, with a map of their columns: delimited text, JSON, lines of JSON objects, Parquet and Feather."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import orjson
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import feather

from tidytape.errors import IngestError, QueryError, counted
from tidytape.lake._batch import Spool
from tidytape.lake.ingest._columns import known_columns
from tidytape.lake.ingest._decode import Header, decoded, delimited, json_values, unreadable_header
from tidytape.lake.ingest._layout import Job, Parsed, Progress
from tidytape.lake.ingest._lines import numbered
from tidytape.lake.ingest._mapped import Mapped
from tidytape.lake.ingest._mapped_rows import MappedRows
from tidytape.lake.ingest._market import Market, option

DELIMITERS = (",", ";", "\t", "|")
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
    header : str, optional
        Names of the columns, for files without a header: ``"timestamp,price,amount"``. Our names need no map, and a
        column called ``-`` is not read.
    skip_lines : int
        Number of lines before the header.

    Examples
    --------
    >>> Csv(columns={"price": "px"}, delimiter=";").table
    'trades'
    """

    name = "csv"
    follows = True

    delimiter: str | None = option("One character; by default recognised by the header.")
    header: str | None = option(
        "Names of the columns, if the file has no header: timestamp,price,amount; - for one that is not read."
    )
    skip_lines: int = option("Number of lines before the header.", default=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        is_text: object = self.header is None or isinstance(self.header, str)
        if not is_text:
            raise QueryError("header", got=self.header, expected="names with commas: timestamp,price,amount")
        if not str(self.skip_lines).isdecimal():
            raise QueryError("skip_lines", got=self.skip_lines, expected="a number of lines from 0")
        if self.delimiter is None:
            return
        if _character(self.delimiter) is None:
            raise QueryError(
                "delimiter", got=self.delimiter, expected="one ASCII character, e.g. ; or a tab, and no quote"
            )

    @property
    def header_lines(self) -> int:  # type: ignore[override]  # of this object
        """Number of lines before the first row."""
        return int(self.skip_lines) + (self.header is None)

    def identity(self, market: Market) -> dict[str, Any]:
        """Return the options that change which rows are read."""
        own = {"delimiter": self.delimiter, "header": self.header, "skip_lines": int(self.skip_lines)}
        return super().identity(market) | own

    def read(self, job: Job, spool: Spool, progress: Progress) -> Parsed:
        """Read one file."""
        parsed = Parsed(spool, piece=job.piece)
        readers: list[MappedRows] = []

        def described(number: int, text: str) -> Header:
            if parsed.bad.first and parsed.bad.first[0][0] < number:
                # The broken line may have been the header, and this one a row.
                raise unreadable_header(job, *parsed.bad.first[0])
            header = self._header(job, number, text)
            # Made before any line is split, because a wrong map is wrong for all lines.
            readers.append(MappedRows(self, job, header.names, parsed))
            return header

        for block in delimited(job, parsed, progress, described, skip=int(self.skip_lines)):
            readers[0].take_block(block)
        if readers:  # empty if the piece has no line yet
            readers[0].finish()
        return parsed

    def _header(self, job: Job, number: int, text: str) -> Header:
        """Return the columns of a file whose first line is ``text``."""
        delimiter = _character(self.delimiter or max(DELIMITERS, key=text.count)) or ","
        try:
            names = [name.strip() for name in next(csv.reader([text], delimiter=delimiter))]
        except csv.Error as error:
            reason = "it holds a bare carriage return" if "\r" in text.rstrip("\r") else str(error)
            raise unreadable_header(job, number, reason) from error
        if self.header is not None:
            stated = [name.strip() for name in self.header.split(",")]
            if len(stated) != len(names):
                raise QueryError(
                    "header",
                    got=self.header,
                    expected=f"{counted(len(names), 'name')}, as {job.path.name} has columns",
                )
            return Header(
                ["" if name == "-" else name for name in stated],
                is_line=False,
                delimiter=delimiter,
            )
        if is_row(names):
            columns = ",".join(["timestamp", *_LETTERS[1 : len(names)]])
            raise QueryError(
                "header",
                got=None,
                expected=f"the names of the columns of {job.path.name}, whose first line is a row: {text[:_SHOWN]}",
                hint=f"e.g. ``header={columns!r}``; our names need no map",
            )
        return Header(names, delimiter=delimiter)


_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_SHOWN = 80
"""Most characters of a line that an error shows."""
_NUMBER = re.compile(r"[-+]?\d+(?:\.\d*)?(?:[eE][-+]?\d+)?|\d{4}[-./]?\d\d[-./]?\d\d.*")


def is_row(names: list[str]) -> bool:
    """Return whether the first line of a file is a row: a number or a time is among its texts.

    A frame without names of columns is written with the numbers 0, 1, 2, …, which are names.
    """
    is_numbered = [name for name in names if name] == list(
        map(str, range(len([name for name in names if name])))
    )
    return not is_numbered and any(_NUMBER.fullmatch(name) for name in names)


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
            with self._opened(job) as (schema, batches, count):
                reader = MappedRows.of_arrow(self, job, schema, parsed)
                for batch in batches(reader.used):
                    reader.take_arrow(batch)
                    progress(size * batch.num_rows // max(count, 1))
        except (pa.ArrowException, pl.exceptions.PolarsError, OSError) as error:
            raise IngestError(
                f"{job.path}: no {self.name.capitalize()} file that can be read: {error}", path=str(job.path)
            ) from error
        reader.finish()
        return parsed

    @contextmanager
    def _opened(
        self, job: Job
    ) -> Iterator[tuple[pa.Schema, Callable[[list[str]], Iterable[pa.RecordBatch]], int]]:
        """Yield the schema of a file, a function that returns the batches of some columns, and the number of rows."""
        with pq.ParquetFile(job.path) as file:
            yield (
                file.schema_arrow,
                lambda columns: file.iter_batches(batch_size=_ROWS, columns=columns),
                file.metadata.num_rows,
            )


@dataclass(frozen=True, kw_only=True)
class Feather(Parquet):
    """Feather files, with a map of their columns.

    Parameters
    ----------
    columns, table, time_unit, time_format, interval
        See `Mapped`.

    Examples
    --------
    >>> Feather(table="candles", interval="1h").interval
    '1h'
    """

    name = "feather"

    @contextmanager
    def _opened(
        self, job: Job
    ) -> Iterator[tuple[pa.Schema, Callable[[list[str]], Iterable[pa.RecordBatch]], int]]:
        table = feather.read_table(job.path)
        yield table.schema, lambda columns: table.select(columns).to_batches(_ROWS), table.num_rows


@dataclass(frozen=True, kw_only=True)
class Json(Csv):
    """JSON files: an array of objects or of arrays, alone or inside an answer.

    Arrays of arrays need ``header``, the names of their values. A file is read into memory as a whole.

    Parameters
    ----------
    at : str, optional
        Where the array is: ``"result.trades"`` is the array under ``trades`` in the object under ``result``. By default
        the only array of the file that holds objects or arrays.
    columns, table, time_unit, time_format, interval, header
        See `Mapped` and `Csv`.

    Examples
    --------
    >>> Json(at="result.trades", columns={"side": "direction"}).at
    'result.trades'
    """

    name = "json"
    follows = False

    at: str | None = option("Where the array of rows is, e.g. result.trades.")

    def __post_init__(self) -> None:
        super().__post_init__()
        is_text: object = self.at is None or isinstance(self.at, str)
        if not is_text:
            raise QueryError("at", got=self.at, expected="a place in the file, e.g. result.trades")

    def identity(self, market: Market) -> dict[str, Any]:
        """Return the options that change which rows are read."""
        return super().identity(market) | {"at": self.at}

    def read(self, job: Job, spool: Spool, progress: Progress) -> Parsed:
        """Read one file."""
        parsed = Parsed(spool)
        answers = json_values(job.path, parsed.bad, progress)
        rows = [row for number, answer in answers for row in self._rows(answer, job, number)]
        if not rows:
            raise IngestError(f"{job.path}: no objects or arrays of values", path=str(job.path))
        names = self._names(rows, job)
        reader = MappedRows(self, job, names, parsed)
        for first in range(0, len(rows), _ROWS):
            part = rows[first : first + _ROWS]
            columns = {
                f"c{place}": pl.Series([_text(row, name, place) for row in part], dtype=pl.String)
                for place, name in enumerate(names)
            }
            reader.take(pl.DataFrame({"line": range(first + 1, first + len(part) + 1), **columns}))
        parsed.lines = len(rows)
        reader.finish()
        return parsed

    def _rows(self, answer: Any, job: Job, number: int) -> list[Any]:
        """Return the rows of one JSON value: those at the stated place or of its only array, or the value itself."""
        if self.at is not None:
            rows = answer
            for part in self.at.split("."):
                rows = rows.get(part) if isinstance(rows, dict) else None
            if not isinstance(rows, list):
                raise QueryError(
                    "at",
                    got=self.at,
                    expected=f"an array of {job.path.name}: {_or(_arrays(answer)) or 'it has none'}",
                )
            return rows
        column_names = {*known_columns(self.of), *(self.columns or {}).values()}
        is_row_itself = isinstance(answer, dict) and len(column_names & answer.keys()) > 1
        arrays = _arrays(answer) if isinstance(answer, dict) and not is_row_itself else {}
        if len(arrays) > 1:
            raise QueryError("at", got=None, expected=f"one of the arrays of {job.path.name}: {_or(arrays)}")
        if not arrays and not isinstance(answer, dict | list):
            message = f"{job.path}:{number}: neither an object nor an array"
            raise IngestError(message, path=str(job.path), line=number)
        return next(iter(arrays.values()), [answer])

    def _names(self, rows: list[Any], job: Job) -> list[str]:
        """Return the names of the columns: those of the objects, or those that the caller gives to arrays of values."""
        if all(isinstance(row, dict) for row in rows):
            names: dict[str, None] = {}
            for row in rows[:_LOOKED_AT]:
                names |= {name: None for name, value in row.items() if not isinstance(value, dict | list)}
            return list(names)
        width = max(len(row) if isinstance(row, list) else 0 for row in rows[:_LOOKED_AT])
        if self.header is None:
            raise QueryError(
                "header",
                got=None,
                expected=f"the names of the {width} values of an array, e.g. of {str(rows[0])[:_SHOWN]}",
                hint=f"e.g. ``header={','.join(['timestamp', *_LETTERS[1:width]])!r}``; our names need no map",
            )
        names_of_values = [name.strip() for name in self.header.split(",")]
        if len(names_of_values) != width:
            raise QueryError(
                "header",
                got=self.header,
                expected=f"{counted(width, 'name')}, as an array of {job.path.name} has values",
            )
        return ["" if name == "-" else name for name in names_of_values]


def _arrays(answer: Any, path: str = "") -> dict[str, list[Any]]:
    """Return the arrays of objects or of arrays inside an object, by their places."""
    if isinstance(answer, list):
        return (
            {path: answer} if path and answer and all(isinstance(row, dict | list) for row in answer) else {}
        )
    arrays: dict[str, list[Any]] = {}
    if isinstance(answer, dict):
        for name, value in answer.items():
            arrays |= _arrays(value, f"{path}.{name}" if path else name)
    return arrays


def _or(arrays: Iterable[str]) -> str:
    return " or ".join(arrays)


def _text(row: Any, name: str, place: int) -> str | None:
    """Return a value of a row as text; None if the row has none."""
    if isinstance(row, dict):
        value = row.get(name)
    else:
        value = row[place] if isinstance(row, list) and place < len(row) else None
    if isinstance(value, bool):
        return str(value).lower()
    return None if value is None or isinstance(value, dict | list) else str(value)
