"""Tables of a report as HTML, made with Great Tables."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from math import floor, isnan, log10
from typing import Any, Literal

import polars as pl

from tidytape.errors import escaped
from tidytape.report._section import ReportTable

_MOST_ROWS = 24
_DIGITS = 6  # largest number of significant digits
_LETTERS = {1e12: "tn", 1e9: "bn", 1e6: "M", 1e3: "k"}
_LEFT_ALIGNED = {"text", "time", "date"}  # styles

Style = Literal["text", "number", "amount", "percent", "points", "count", "time", "date"]


@dataclass(frozen=True)
class Shown:
    """How a table shows a column.

    Attributes
    ----------
    label : str
        Text above the column.
    style : str
        ``text``; ``number``, up to six significant digits; ``amount``, a short number with four; ``percent`` of
        a ratio; ``points``, two decimals; ``count``; ``time`` to the minute, or ``date``, both in UTC.
    unit : str
        Text below the label.
    """

    label: str
    style: Style = "text"
    unit: str = ""


def table(frame: pl.DataFrame, columns: Mapping[str, Shown], text: str) -> ReportTable:
    """Return a frame as a table.

    Parameters
    ----------
    frame : polars.DataFrame
        The rows, in the order of the table. If there are more than 24, the table shows the first 24, and the text below
        the table says so.
    columns : mapping of str to Shown
        The columns to show, in order.
    text : str
        What a row is, for the line below the table.

    Returns
    -------
    ReportTable
    """
    from great_tables import GT, html

    if frame.is_empty():
        return ReportTable("", text)
    rows = frame.select(list(columns)).head(_MOST_ROWS)
    texts = {name: [_text(value, columns[name].style) for value in rows[name]] for name in columns}
    for unit in {shown.unit for shown in columns.values()}:
        _align(
            [texts[name] for name, shown in columns.items() if shown.style == "number" and shown.unit == unit]
        )
    # The styles of the table use this id; without it Great Tables would draw a random one for each page.
    table_id = "t" + hashlib.sha256(f"{text}{list(columns)}".encode()).hexdigest()[:8]
    great = GT(pl.DataFrame(texts), id=table_id)
    for column, shown in columns.items():
        great = great.cols_align("left" if shown.style in _LEFT_ALIGNED else "right", columns=column)
    labels = {
        column: html(f"{shown.label}<br><span class='unit'>{shown.unit or '&nbsp;'}</span>")
        for column, shown in columns.items()
    }
    great = great.cols_label(**labels).tab_options(  # type: ignore[arg-type]
        table_font_size="13px",
        table_width="100%",
        table_border_top_style="none",
        data_row_padding="4px",
        data_row_padding_horizontal="10px",
        column_labels_padding_horizontal="10px",
    )
    if frame.height > rows.height:
        text = f"{text} The first {rows.height} of {frame.height} rows."
    return ReportTable(great.as_raw_html(), text)


def _text(value: Any, style: Style) -> str:
    """Return a value as text, in the style of its column."""
    if value is None or (isinstance(value, float) and isnan(value)):
        return "–"
    if isinstance(value, float):
        # The last bit of a float may depend on the number of cores. It must not decide how 42.825 is rounded.
        value = float(f"{value:.12g}")
    if style == "text":
        return escaped(str(value), keep="\n")
    if style in {"time", "date"}:
        return f"{value:%Y-%m-%d}" if style == "date" else f"{value:%Y-%m-%d %H:%M}"
    if style == "amount":
        text = _amount(value)
    elif style == "number":
        text = _significant(value)
    elif style == "percent":
        text = f"{value:,.2%}"
    else:
        text = f"{value:,.0f}" if style == "count" else f"{value:,.2f}"
    return text.replace("-", "\N{MINUS SIGN}")


def _amount(value: float) -> str:
    """Return a number with four significant digits and, if it is large, a letter such as k, as in pictures.

    Examples
    --------
    >>> [_amount(value) for value in (0.0, 5.227, 88_750.0, -1_695.2, 3.3621e9)]
    ['0', '5.227', '88.75k', '-1.695k', '3.362bn']
    """
    if not value:
        return "0"
    size = next((size for size in _LETTERS if abs(value) >= size * (1 - 5e-5)), 1.0)
    return f"{value / size:#.4g}".rstrip(".") + _LETTERS.get(size, "")


def _significant(value: float) -> str:
    """Return a number with at most six significant digits, without an exponent and without zeros at the end.

    Examples
    --------
    >>> [_significant(value) for value in (60_014.04, 0.5, 1.092604, 1_234_567.8, 0.00001234)]
    ['60,014', '0.5', '1.0926', '1,234,568', '0.00001234']
    """
    integer_digits = (
        len(f"{abs(value):.0f}") if abs(value) >= 1 else 1 + floor(log10(abs(value))) if value else 1
    )
    text = f"{value:,.{max(_DIGITS - integer_digits, 0)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _align(columns: list[list[str]]) -> None:
    """Give the numbers of each row the same number of decimals; the columns have the same unit."""
    for row in range(len(columns[0]) if columns else 0):
        decimals = [len(column[row].partition(".")[2]) for column in columns]
        for column, count in zip(columns, decimals, strict=True):
            if column[row] not in {"–", "0"} and count < max(decimals):
                column[row] += "." * (count == 0) + "0" * (max(decimals) - count)
