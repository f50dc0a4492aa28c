"""Writes frames and names to a file, in the format of its suffix, or prints them."""

from __future__ import annotations

import math
import secrets
import shutil
import sys
import textwrap
from pathlib import Path
from typing import Annotated, Any

import orjson
import polars as pl
import typer

from tidytape.errors import QueryError, counted, escaped
from tidytape.wire import flat
from tidytape.wire._csv import with_text_times

JSON_OPTION: Any = typer.Option("--json", help="Print JSON and nothing else: times in ISO 8601, UTC.")
Json = Annotated[bool, JSON_OPTION]

TABLES = (".parquet", ".csv", ".jsonl")
"""The suffixes of files that can hold a frame."""

PICTURES = (".png", ".svg", ".pdf")
"""The suffixes of files that can hold a picture."""

_ROWS = 20
_TEXT_LENGTHS = (100, 60, 40, 24)
"""Limits of the length of a text in a table; the table uses the largest limit with which it fits."""

_TEXT_TYPES = (pl.Categorical, pl.Enum, pl.String)


def check_target(out: Path | None, *, suffixes: tuple[str, ...] = TABLES) -> None:
    """Refuse a target that cannot be written, before anything is fetched."""
    if out is not None and out.suffix not in suffixes:
        raise QueryError("out", got=str(out), expected="a file ending in " + ", ".join(suffixes))
    if out is not None and (out.is_dir() or not out.parent.is_dir()):
        raise QueryError("out", got=str(out), expected="a file in a folder that exists")


def put(
    frame: pl.DataFrame, out: Path | None, *, rest: str = "--out FILE writes all", rows: int = _ROWS
) -> None:
    """Write a frame to a file, or print it as a table; texts that are the same in every row are printed once, above it.

    Parameters
    ----------
    frame : polars.DataFrame
        The rows.
    out : Path, optional
        The file; if None, the terminal, where each row takes one line.
    rest : str
        Hint on how to get the rows and columns that the terminal has no room for.
    rows : int
        Largest number of rows that the terminal shows.
    """
    if out is None:
        text = _as_text(frame, width=_terminal_width(), rest=rest, rows=rows)
        typer.echo(escaped(text, keep="\n"))
        return
    # Write to a file with a random name first, so that ``out`` is never half written. If ``out`` is a link, replace the
    # file that it leads to.
    target = out.resolve()
    part_file = target.with_name(f".{out.name}.{secrets.token_hex(4)}.part")
    try:
        if out.suffix == ".parquet":
            frame.write_parquet(part_file)
        elif out.suffix == ".csv":
            flat(_harmless(frame)).write_csv(part_file)
        else:
            with_text_times(frame).write_ndjson(part_file)
        part_file.replace(target)
    except pl.exceptions.ComputeError as error:  # polars raises it if the disk is full
        raise OSError(f"{out} cannot be written: {error}") from None
    finally:
        part_file.unlink(missing_ok=True)
    typer.echo(f"{counted(frame.height, 'row')} -> {out}", err=True)


def put_names(names: list[str], column: str, out: Path | None) -> None:
    """Write names to a file as a column, or print them, one per line."""
    if out is None:
        for name in names:
            typer.echo(escaped(name))
    else:
        put(pl.DataFrame({column: names}, schema={column: pl.String}), out)


def put_json(value: Any) -> None:
    """Print a value as JSON: a frame as an array of objects, a data class as an object."""
    typer.echo(as_json(value))


def as_json(value: Any) -> str:
    """Return a value as JSON: a frame as an array of objects, one per row; times in ISO 8601, UTC.

    Examples
    --------
    >>> from datetime import UTC, datetime
    >>> as_json(pl.DataFrame({"rows": [3]})), as_json({"ends": datetime(2024, 8, 8, tzinfo=UTC)})
    ('[{"rows":3}]', '{"ends":"2024-08-08T00:00:00Z"}')
    """
    if isinstance(value, pl.DataFrame):
        return with_text_times(value).write_json()
    options = orjson.OPT_UTC_Z | orjson.OPT_NON_STR_KEYS
    return orjson.dumps(value, option=options, default=str).decode()


def _as_text(frame: pl.DataFrame, *, width: int | None, rest: str, rows: int) -> str:
    """Return a frame as text: columns with one value, a table of the others, null columns, and what is not shown."""
    if frame.is_empty():
        return f"no rows; columns: {', '.join(frame.columns)}"
    null_columns = [column.name for column in frame if column.null_count() == frame.height]
    known = frame.drop(null_columns)
    constant_columns = [
        column.name for column in known if column.dtype in _TEXT_TYPES and column.n_unique() == 1
    ]
    heading = "  ".join(f"{name}={known[name][0]}" for name in constant_columns)
    varying = known.drop(constant_columns) if len(constant_columns) < known.width else known
    table, notes = _fitted_table(with_text_times(varying), width, rows)
    if frame.height > rows:
        notes = [f"{frame.height} rows, {frame.height - rows} not shown", *notes]
    null_note = f"null in every row: {', '.join(null_columns)}" if null_columns else ""
    footer = "; ".join([*notes, rest]) if notes else ""
    return "\n".join(filter(None, (heading, table, textwrap.fill(null_note, width or 1_000), footer)))


def _fitted_table(frame: pl.DataFrame, width: int | None, rows: int) -> tuple[str, list[str]]:
    """Return a table that is at most ``width`` wide, and notes that name what was cut or left out.

    Long texts are cut first. If that is not enough, columns are left out from the middle, because the first columns
    identify a row and the last are its results.
    """
    room = math.inf if width is None else width
    longest, names = _TEXT_LENGTHS[0], frame.columns
    table = _table(frame, longest, rows)
    for longest in _TEXT_LENGTHS:
        table = _table(frame, longest, rows)
        if _width_of(table) <= room:
            break
    while _width_of(table) > room and len(names) > 1:
        del names[len(names) // 2]
        table = _table(frame[names], longest, rows)
    if _width_of(table) > room:
        longest = max(longest - (_width_of(table) - int(room)), 1)
        table = _table(frame[names], longest, rows)
    texts = [column for column in frame[names] if column.dtype in _TEXT_TYPES]
    cut_columns = [column.name for column in texts if _longest(column, rows) > longest]
    hidden_columns = [name for name in frame.columns if name not in names]
    notes = [f"cut: {', '.join(cut_columns)}"] if cut_columns else []
    return table, notes + ([f"columns not shown: {', '.join(hidden_columns)}"] if hidden_columns else [])


def _table(frame: pl.DataFrame, longest: int, rows: int) -> str:
    with pl.Config(
        tbl_rows=rows,
        tbl_cols=-1,
        tbl_width_chars=1000,  # in a narrower table polars breaks a row into several lines
        fmt_str_lengths=longest,
        tbl_hide_column_data_types=True,
        tbl_hide_dataframe_shape=True,
        tbl_formatting="UTF8_BORDERS_ONLY",
    ):
        return str(frame)


def _longest(texts: pl.Series, rows: int) -> int:
    """Return the length of the longest text that a table shows: if there are many rows, of the first and last ones."""
    visible = texts if len(texts) <= rows else texts.head(rows // 2).append(texts.tail(rows // 2))
    return max((len(text) for text in visible if text is not None), default=0)


def _width_of(table: str) -> int:
    return max(map(len, table.splitlines()))


def _terminal_width() -> int | None:
    """Return the characters in a line of the terminal; None if the output is not a terminal, so that any line fits."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


_HARMLESS = (
    pl.col(*_TEXT_TYPES)
    .cast(pl.String)
    .str.replace_many(
        {
            control: escaped(control)
            for control in map(chr, (0x61C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)))
        }
    )
    .str.replace(r"^[=+\-@\t\r]", "'$0")
)
"""Texts without controls of direction; an apostrophe stands before one that begins like a formula."""


def _harmless(frame: pl.DataFrame) -> pl.DataFrame:
    """Return a frame with harmless texts and names of columns.

    Examples
    --------
    >>> _harmless(pl.DataFrame({"=a": ["=1+1", "-5", "BTC-USDT"], "b": [-1, 2, None]})).to_dict(as_series=False)
    {"'=a": ["'=1+1", "'-5", 'BTC-USDT'], 'b': [-1, 2, None]}
    """
    names = pl.DataFrame({"names": frame.columns}, schema={"names": pl.String}).select(_HARMLESS)["names"]
    return frame.with_columns(_HARMLESS).rename(dict(zip(frame.columns, names, strict=True)))
