"""The sections of a report: pictures and tables, with a text on how to read them and the rules behind them."""

from __future__ import annotations

from dataclasses import dataclass, field

from tidytape.report._picture import Picture


@dataclass(frozen=True)
class ReportTable:
    """A table as HTML.

    Attributes
    ----------
    html : str
        The table; empty if it has no rows.
    text : str
        What a row is, for the line below the table.
    """

    html: str
    text: str


@dataclass
class Section:
    """One subject of a report.

    Attributes
    ----------
    reading : str
        How to read the section.
    rule : str
        The rules by which its numbers are computed.
    parts : list of Picture or ReportTable
        Pictures and tables, in the order of the page.
    entries : tuple of int
        Numbers of the entries of the tape whose data the section shows.
    """

    reading: str
    rule: str
    parts: list[Picture | ReportTable] = field(default_factory=list)
    entries: tuple[int, ...] = ()
