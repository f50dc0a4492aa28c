"""Delimited files of one's own, with a map of their columns."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from typing import Any

from tidytape.errors import QueryError
from tidytape.lake._batch import Spool
from tidytape.lake.ingest._decode import Header, delimited, unreadable_header
from tidytape.lake.ingest._layout import Job, Parsed, Progress
from tidytape.lake.ingest._mapped import Mapped
from tidytape.lake.ingest._mapped_rows import MappedRows
from tidytape.lake.ingest._market import Market, option

_DELIMITERS = (",", ";", "\t", "|")
_WRITTEN_TAB = "\\t"  # as a shell passes a tab that was typed so


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
        rows: list[MappedRows] = []

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
            # Before any line is split, because a wrong map is wrong for all lines.
            rows.append(MappedRows(self, job, names, parsed))
            return Header(names, delimiter=delimiter, is_ragged=True)

        for _, texts in delimited(job, parsed, progress, described):
            rows[0].take(texts)
        if rows:  # else the piece has no line yet
            rows[0].finish()
        return parsed


def _character(text: str) -> str | None:
    """Return the character that a delimiter stands for, None if it cannot be a delimiter."""
    character = "\t" if text == _WRITTEN_TAB else text
    is_delimiter = len(character) == 1 and character.isascii() and character not in '"\r\n\0'
    return character if is_delimiter else None
