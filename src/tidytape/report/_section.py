"""The sections of a report: each says how to read it, and has pictures, tables and the rule behind them."""

from __future__ import annotations

from dataclasses import dataclass, field

from tidytape.report._picture import Picture


@dataclass(frozen=True)
class ReportTable:
    """A table as HTML.

    Attributes
    ----------
    html : str
        Empty if the table has no rows.
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
        How to read it.
    rule : str
        The rule behind its numbers.
    parts : list of Picture or ReportTable
        In the order of the page.
    entries : tuple of int
        Numbers of the entries of the tape whose data it shows.
    """

    reading: str
    rule: str
    parts: list[Picture | ReportTable] = field(default_factory=list)
    entries: tuple[int, ...] = ()
