"""Split lines of delimited text, or of JSON objects, into columns.

polars decodes a block of lines in one pass. If that fails, the block is halved again and again until each broken line
is alone, so that its number is known.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Generic, TypeVar

import orjson
import polars as pl
import polars.selectors as cs

from tidytape.errors import IngestError
from tidytape.lake.ingest._fields import Field, all_good, checked
from tidytape.lake.ingest._layout import Job, Parsed, Progress
from tidytape.lake.ingest._lines import BadLines, frame_of, numbered, raw_blocks


@dataclass(frozen=True, slots=True)
class Header:
    """The columns of a delimited file.

    Attributes
    ----------
    names : list of str
        Names of the columns, in order.
    is_line : bool
        Whether the first line is the header, and not a row.
    delimiter : str
        One character; inside quotes it does not separate columns.
    """

    names: list[str]
    is_line: bool = True
    delimiter: str = ","

    def place(self, field: Field) -> str:
        """Return the name that the column of a field has in the frames of `split`."""
        return f"c{self.names.index(field.name)}"


AnyHeader = TypeVar("AnyHeader", bound=Header)
Rows = tuple[pl.DataFrame, Mapping[str, Field]]
"""Rows with one column per field, and the fields by the name of the column."""


@dataclass(frozen=True, slots=True)
class Block(Generic[AnyHeader]):
    """Some lines of a delimited file.

    Attributes
    ----------
    header : Header
        The columns.
    data : bytes
        The lines, without the last newline.
    number : int
        Number of lines before them.
    parsed : Parsed
        Counts the lines, and takes the broken lines.
    of_text : set of str
        Columns of the file of which earlier blocks could not be read as numbers, `c0`, `c1`, …
    """

    header: AnyHeader
    data: bytes
    number: int
    parsed: Parsed
    of_text: set[str]

    def all_good(
        self, dtypes: Mapping[str, type[pl.DataType]], rows_of: Callable[[pl.DataFrame], Rows]
    ) -> pl.DataFrame | None:
        """Return the values of the rows, read as numbers at once; None if a line may be broken or is no row.

        polars reads numbers in a block as it casts their texts. Only what it does not refuse, and `split` does, is
        looked at here: lines of another width, quotes, comments and blank lines.

        Parameters
        ----------
        dtypes : mapping of str to polars.DataType
            What the columns that are read may be read as, by `c0`, `c1`, …
        rows_of : callable
            Takes ``line`` and these columns, and returns what `tidytape.lake.ingest._fields.all_good` takes.
        """
        data, delimiter, width = self.data, self.header.delimiter.encode(), len(self.header.names)
        count = data.count(b"\n") + 1
        has_more = b'"' in data or b"+" in data or _has_comments(data)
        line_ends = (delimiter * (width - 1) + b"\n") * count
        if has_more or width < 2 or data.translate(None, _OTHERS[delimiter]) + b"\n" != line_ends:
            return None
        names = [f"c{place}" for place in range(width)]
        schema = {
            name: pl.String() if name in self.of_text else dtypes.get(name, pl.String)() for name in names
        }
        try:
            data.decode()  # polars looks only at columns of text that are read
            frame = pl.read_csv(
                data,
                has_header=False,
                schema=schema,
                columns=[names.index(name) for name in dtypes],
                separator=self.header.delimiter,
                quote_char=None,
            )
        except (pl.exceptions.PolarsError, UnicodeDecodeError):
            return None
        line = pl.int_range(self.number + 1, self.number + count + 1, dtype=pl.Int64).alias("line")
        is_whole = frame.height == count
        texts = pl.col(pl.String).str.strip_chars()
        rows = all_good(*rows_of(frame.select(line, texts, ~cs.string()))) if is_whole else None
        self.parsed.lines += 0 if rows is None else count
        return rows

    def texts(self, dtypes: Mapping[str, type[pl.DataType]] = MappingProxyType({})) -> pl.DataFrame:
        """Return the rows as columns of text, see `split`; remember the columns whose texts are not of their dtypes."""
        lines = _without_comments(frame_of(self.data, self.number, self.parsed.bad), self.parsed)
        self.parsed.lines += lines.height
        texts = split(lines, self.header, self.parsed.bad)
        wrong_counts = texts.select(
            (pl.col(name).cast(dtype, strict=False).is_null() & (pl.col(name) != "")).sum()
            for name, dtype in dtypes.items()
        )
        self.of_text.update(column.name for column in wrong_counts if 2 * column.sum() > texts.height)
        return texts

    def rows(
        self, fields: Mapping[str, Field], known: Callable[[pl.Series], Mapping[str, Field]] | None = None
    ) -> pl.DataFrame:
        """Return ``line`` and the values of some fields of the good rows; other rows are broken lines.

        Parameters
        ----------
        fields : mapping of str to Field
            The fields by our names.
        known : callable, optional
            Takes the timestamps and returns the fields, if these tell how times are written.
        """

        def rows_of(frame: pl.DataFrame) -> Rows:
            columns = frame.select(
                "line", *(pl.col(self.header.place(field)).alias(name) for name, field in fields.items())
            )
            return columns, fields if known is None else known(columns["timestamp"])

        dtypes = {self.header.place(field): field.kind.dtype for field in fields.values()}
        rows = self.all_good(dtypes, rows_of)
        return self.parsed.bad.take(checked(*rows_of(self.texts(dtypes)))) if rows is None else rows


_OTHERS = {bytes([code]): bytes({*range(256)} - {code, 10}) for code in range(128)}
"""All bytes but one and the newline, by that one."""


def delimited(
    job: Job,
    parsed: Parsed,
    progress: Progress,
    described: Callable[[int, str], AnyHeader],
    *,
    skip: int = 0,
) -> Iterator[Block[AnyHeader]]:
    """Yield the lines of a delimited file, block by block.

    Parameters
    ----------
    job : Job
        The file.
    parsed : Parsed
        Counts the lines, and takes the broken lines.
    progress : callable
        Called with the number of bytes read.
    described : callable
        Takes the number and text of the first readable line, and returns the header, or raises IngestError if the line
        is not a header.
    skip : int
        Number of lines before the header.

    Raises
    ------
    IngestError
        If the file cannot be read or has no lines.
    """
    header: AnyHeader | None = None
    of_text: set[str] = set()
    remembered_facts = {} if job.piece is None else job.piece.memory
    if "header" in remembered_facts:
        header = described(*remembered_facts["header"])
    for data, lines_before in raw_blocks(job.path, parsed.bad, progress, job.piece):
        start, number = 0, lines_before
        while header is None and start <= len(data):
            end = data.find(b"\n", start)
            end = len(data) if end < 0 else end
            lines = frame_of(data[start:end], number, parsed.bad)
            if number >= skip and not (lines := _without_comments(lines, parsed)).is_empty():
                try:
                    header = described(*lines.row(0))
                except IngestError:
                    if parsed.bad.first and parsed.bad.first[0][0] <= number:
                        # The broken line before it was the header.
                        raise unreadable_header(job, *parsed.bad.first[0]) from None
                    raise
                remembered_facts["header"] = lines.row(0)
                if not header.is_line:
                    break
            start, number = end + 1, number + 1
        if header is not None:
            yield Block(header, data[start:], number, parsed, of_text)
    if header is None and parsed.bad.first:
        line, reason = parsed.bad.first[0]
        raise unreadable_header(job, line, reason)
    if header is None and job.piece is None:
        raise IngestError(f"{job.path}: no header, the file has no lines", path=str(job.path))


def _has_comments(data: bytes) -> bool:
    return b"#" in data and (data.startswith(b"#") or b"\n#" in data)


def _without_comments(lines: pl.DataFrame, parsed: Parsed) -> pl.DataFrame:
    """Return the lines without comments, which begin with # and have no delimiter."""
    if not lines["text"].str.starts_with("#").any():
        return lines
    rows = lines.filter(~pl.col("text").str.contains(r"^#[^,;\t|]*$"))
    parsed.ignore("comment", lines.height - rows.height)
    return rows


def unreadable_header(job: Job, line: int, reason: str) -> IngestError:
    """Return the error of a file whose first line is broken."""
    message = f"{job.path}:{line}: the header cannot be read: {reason}"
    return IngestError(message, path=str(job.path), line=line, bad_lines=1)


def split(lines: pl.DataFrame, header: Header, bad: BadLines) -> pl.DataFrame:
    r"""Return lines split into columns of text.

    Parameters
    ----------
    lines : polars.DataFrame, one row per line
        ``line`` and ``text``, as `tidytape.lake.ingest.numbered` yields them.
    header : Header
        The columns.
    bad : BadLines
        Takes the lines with too many columns, too few columns, or quotes that do not match.

    Returns
    -------
    polars.DataFrame, one row per good line, same order
        ``line`` and the columns without surrounding spaces. They are called ``c0``, ``c1``, …, because two columns of a
        header may have one name.

    Examples
    --------
    >>> bad = BadLines()
    >>> split(pl.DataFrame({"line": [1, 2], "text": ['7,"a,b"', "8"]}), Header(["a", "b"]), bad).rows()
    [(1, '7', 'a,b')]
    >>> bad.first
    [(2, '1 column, and the header has 2')]
    """
    width = len(header.names)
    text = pl.col("text")
    if lines["text"].str.contains('"', literal=True).any():
        text = text.str.replace_all(r'"[^"]*"', "")
    line_width = text.str.count_matches(header.delimiter, literal=True) + 1
    noun = pl.when(line_width == 1).then(pl.lit("column")).otherwise(pl.lit("columns"))
    reason = pl.coalesce(
        pl.when(text.str.contains('"', literal=True)).then(pl.lit("a quote that does not end")),
        pl.when(line_width > width).then(pl.lit("more columns than the header")),
        pl.when(line_width < width).then(
            pl.format("{} {}, and the header has {}", line_width, noun, pl.lit(width))
        ),
    )
    lines = bad.take(lines.with_columns(reason=reason))
    is_good, table = _salvaged(lines["text"], partial(_columns, width=width, delimiter=header.delimiter))
    for line in lines.filter(~is_good)["line"]:
        bad.add(line, "a misplaced quote")
    return table.select(pl.all().str.strip_chars()).insert_column(0, lines.filter(is_good)["line"])


def decoded(text: pl.Series, dtype: pl.Struct) -> pl.Series:
    """Return each line as a struct of ``dtype``, null if the line is not an object of that shape.

    Parameters
    ----------
    text : polars.Series of str
        One JSON object each.
    dtype : polars.Struct
        The fields to read. Other fields are ignored; absent fields become null.

    Returns
    -------
    polars.Series of struct, same length and order

    Examples
    --------
    >>> decoded(pl.Series(['{"a": 1, "b": 2}', '{"a": "x"}', '{"a":']), pl.Struct({"a": pl.Int64})).to_list()
    [{'a': 1}, None, None]
    """
    stripped = text.str.strip_chars()
    may_be_object = stripped.str.starts_with("{") & stripped.str.ends_with("}")
    table = _objects(text.filter(may_be_object), dtype=dtype)
    if table is not None and table.height == len(text):
        return table["object"]
    # Most broken lines are not JSON at all, and a test of each line finds them faster than halving.
    may_be_object &= text.map_elements(_is_json, return_dtype=pl.Boolean)
    is_good, table = _salvaged(text.filter(may_be_object), partial(_objects, dtype=dtype))
    rows = pl.int_range(len(text), eager=True).filter(may_be_object).filter(is_good)
    objects = pl.DataFrame({"row": rows, "object": table["object"]})
    return pl.select(row=pl.int_range(len(text))).join(objects, on="row", how="left", maintain_order="left")[
        "object"
    ]


def _salvaged(
    text: pl.Series, decode: Callable[[pl.Series], pl.DataFrame | None]
) -> tuple[pl.Series, pl.DataFrame]:
    """Return which lines can be decoded, as a boolean per line, and a frame of the decoded lines."""
    table = decode(text)
    if table is not None:
        return pl.repeat(value=True, n=len(text), dtype=pl.Boolean, eager=True), table
    if len(text) == 1:
        no_rows = decode(text.clear())
        assert no_rows is not None
        return pl.Series([False]), no_rows
    half = len(text) // 2
    (is_first_good, first_table), (is_second_good, second_table) = (
        _salvaged(part, decode) for part in (text[:half], text[half:])
    )
    return is_first_good.append(is_second_good), first_table.vstack(second_table)


def _columns(text: pl.Series, *, width: int, delimiter: str) -> pl.DataFrame | None:
    """Split all lines in one pass; return None if a line has too many columns or a misplaced quote."""
    names = [f"c{position}" for position in range(width)]
    csv_text = "\n".join([delimiter.join(names), *text, ""])
    try:
        table = pl.read_csv(
            io.BytesIO(csv_text.encode()),
            separator=delimiter,
            infer_schema=False,
            quote_char='"' if '"' in csv_text else None,
        )
    except pl.exceptions.PolarsError:
        return None
    return table if table.height == len(text) and table.columns == names else None


def _is_json(text: str) -> bool:
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        return False
    return True


def _objects(text: pl.Series, *, dtype: pl.Struct) -> pl.DataFrame | None:
    """Decode all lines in one pass; return None if a line is broken, or is not one object."""
    if text.is_empty():
        return pl.DataFrame(schema={"object": dtype})
    try:
        objects = text.str.json_decode(dtype)
    except pl.exceptions.PolarsError:
        return None
    return pl.DataFrame({"object": objects}) if len(objects) == len(text) else None


def json_values(path: Path, bad: BadLines, progress: Progress) -> Iterator[tuple[int, Any]]:
    """Yield the JSON values of a small file with their numbers: one value, the items of one array, or a value per line.

    Parameters
    ----------
    path : Path
        The file; all of it is read into memory.
    bad : BadLines
        Takes the lines that are not JSON, if each line of the file is one value.
    progress : callable
        Called with the number of bytes read.

    Raises
    ------
    IngestError
        If the file cannot be read, or is no JSON at all.
    """
    no_lines = pl.DataFrame(schema={"line": pl.Int64(), "text": pl.String()})
    lines = pl.concat([*numbered(path, bad, progress), no_lines])
    if lines.is_empty():
        if not bad.count:
            raise IngestError(f"{path}: the file is empty", path=str(path))
        return
    try:
        content = orjson.loads("\n".join(lines["text"]))
    except orjson.JSONDecodeError as error:
        text = lines["text"].str.strip_chars()
        if lines.height == 1 or not text.str.contains(r"^(\{.*\}|\[.*\])$").any():
            if bad.count:  # a bad line already says why
                return
            raise IngestError(f"{path}: no JSON: {error}", path=str(path)) from error
    else:
        yield from enumerate(content if isinstance(content, list) else [content], 1)
        return
    for number, text in lines.select("line", "text").iter_rows():
        try:
            value = orjson.loads(text)
        except orjson.JSONDecodeError as error:
            bad.add(number, f"no JSON: {error}")
        else:
            yield number, value
