"""What a report is made of: sections, each with how to read it, pictures, tables, and the rule behind them."""

from __future__ import annotations

from dataclasses import dataclass, field

from tidytape.report._picture import Picture


@dataclass(frozen=True)
class Table:
    """A table as HTML.

    Attributes
    ----------
    html : str
        Empty where the table has no rows.
    text : str
        What a row is.
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
    parts : list of Picture or Table
        In the order of the page.
    entries : tuple of int
        Numbers of the tape's entries that it is made of.
    """

    reading: str
    rule: str
    parts: list[Picture | Table] = field(default_factory=list)
    entries: tuple[int, ...] = ()
