"""Tables of a report, made by Great Tables."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import polars as pl

from tidytape.report._section import Table

if TYPE_CHECKING:
    from great_tables import GT

__all__ = ["Shown", "table"]

_MOST_ROWS = 24
_DIGITS = 6

Style = Literal["text", "number", "amount", "percent", "points", "count", "time", "date"]


@dataclass(frozen=True)
class Shown:
    """How a column is shown.

    Attributes
    ----------
    label : str
        What stands above it.
    style : str
        ``text``; ``number``, six significant digits; ``amount``, a short number; ``percent`` of a ratio; ``points``,
        two decimals; ``count``; ``time`` to the minute, or ``date``, both in UTC.
    unit : str
        Below the label.
    """

    label: str
    style: Style = "text"
    unit: str = ""


def table(frame: pl.DataFrame, columns: Mapping[str, Shown], text: str) -> Table:
    """Return a frame as a table.

    Parameters
    ----------
    frame : polars.DataFrame
        The rows, in the order of the table. At most 24 are shown, and the text below the table says so.
    columns : mapping of str to Shown
        The columns to show, in order.
    text : str
        What a row is, for the line below the table.

    Returns
    -------
    Table
    """
    from great_tables import GT, html

    if frame.is_empty():
        return Table("", text)
    rows = frame.select(list(columns)).head(_MOST_ROWS)
    texts = [
        pl.col(name).dt.strftime("%Y-%m-%d" if shown.style == "date" else "%Y-%m-%d %H:%M")
        for name, shown in columns.items()
        if shown.style in {"time", "date"}
    ]
    categories = [
        pl.col(name).cast(pl.String) for name, dtype in rows.schema.items() if dtype == pl.Categorical
    ]
    rows = rows.with_columns(*texts, *categories)
    # Names the table's style sheet within the page; the same for the same table.
    name = "t" + hashlib.sha256(f"{text}{list(columns)}".encode()).hexdigest()[:8]
    great = GT(rows, id=name)
    for column, shown in columns.items():
        great = _formatted(great, column, shown.style)
    labels = {
        column: html(f"{shown.label}<br><span class='unit'>{shown.unit or '&nbsp;'}</span>")
        for column, shown in columns.items()
    }
    great = great.cols_label(**labels).sub_missing(missing_text="–")  # type: ignore[arg-type]
    great = great.tab_options(
        table_font_size="13px", table_width="100%", data_row_padding="4px", table_border_top_style="none"
    )
    if frame.height > rows.height:
        text = f"{text} The first {rows.height} of {frame.height} rows."
    return Table(great.as_raw_html(), text)


def _formatted(great: GT, column: str, style: Style) -> GT:
    if style in {"text", "time", "date"}:
        return great.cols_align("left", columns=column)
    great = great.cols_align("right", columns=column)
    if style == "number":
        return great.fmt_number(column, n_sigfig=_DIGITS, drop_trailing_zeros=True)
    if style == "amount":
        return great.fmt_number(column, n_sigfig=4, compact=True, drop_trailing_zeros=True)
    if style == "percent":
        return great.fmt_percent(column, decimals=2)
    return great.fmt_number(column, decimals=0 if style == "count" else 2)
