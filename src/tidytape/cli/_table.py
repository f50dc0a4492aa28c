"""A frame as text: a table that fits the terminal, and texts that are harmless in a spreadsheet."""

from __future__ import annotations

import math
import shutil
import sys
import textwrap

import polars as pl

from tidytape.errors import escaped
from tidytape.wire._csv import with_text_times

_TEXT_LENGTHS = (100, 60, 40, 24)
"""Limits of the length of a text in a table; the table uses the largest limit with which it fits."""

_TEXT_TYPES = (pl.Categorical, pl.Enum, pl.String)


def as_text(frame: pl.DataFrame, *, rest: str, rows: int) -> str:
    """Return a frame as text: columns with one value, a table of the others, null columns, and what is not shown.

    Parameters
    ----------
    frame : polars.DataFrame
        The rows.
    rest : str
        Hint on how to get the rows and columns that the terminal has no room for.
    rows : int
        Largest number of rows that the table shows.
    """
    if frame.is_empty():
        return f"no rows; columns: {', '.join(frame.columns)}"
    width = _terminal_width()
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


def harmless(frame: pl.DataFrame) -> pl.DataFrame:
    """Return a frame with harmless texts and names of columns.

    Examples
    --------
    >>> harmless(pl.DataFrame({"=a": ["=1+1", "-5", "BTC-USDT"], "b": [-1, 2, None]})).to_dict(as_series=False)
    {"'=a": ["'=1+1", "'-5", 'BTC-USDT'], 'b': [-1, 2, None]}
    """
    names = pl.DataFrame({"names": frame.columns}, schema={"names": pl.String}).select(_HARMLESS)["names"]
    return frame.with_columns(_HARMLESS).rename(dict(zip(frame.columns, names, strict=True)))
