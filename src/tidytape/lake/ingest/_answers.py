"""The base class of layouts for saved answers of REST APIs, each of which has trades or candles."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar

import polars as pl

from tidytape.errors import QueryError
from tidytape.lake._batch import Spool
from tidytape.lake._tables import RECORDED_CANDLES, TRADES
from tidytape.lake.ingest._decode import json_values
from tidytape.lake.ingest._fields import length
from tidytape.lake.ingest._layout import Job, Layout, Parsed, Progress
from tidytape.lake.ingest._mapped_rows import put_texts
from tidytape.lake.ingest._market import Market, option
from tidytape.lake.ingest._own_files import Csv

Event = tuple[str, Mapping[str, Any]] | str
"""The name of a table and the values of one row by our columns; or, as a str, the reason why an entry is no event."""


@dataclass(frozen=True, kw_only=True)
class Answers(Layout):
    """Saved JSON of a REST API; a file holds one answer, or one per line. Events are numbered through the file.

    Subclasses define ``name``, ``time_units`` and ``events``, and ``default_exchange`` if all files are of one
    exchange.

    Parameters
    ----------
    interval : str, optional
        Length of the candles, e.g. ``"1m"``; files of candles need it.

    Attributes
    ----------
    time_units : mapping of str to str
        How times are written in each table that gets events: ``iso``, ``date``, ``s``, ``ms``, ``us`` or ``ns``.

    Raises
    ------
    QueryError
        If there is no such interval.
    """

    names_exchange = True
    market_options = tuple(name for name in Layout.market_options if name != "funding_interval")
    amounts: ClassVar[Mapping[str, str]] = MappingProxyType(
        dict.fromkeys((TRADES.name, RECORDED_CANDLES.name), "the layout: coins")
    )
    time_units: ClassVar[Mapping[str, str]]

    interval: str | None = option("Length of candles, which the answers do not tell, e.g. 1h.")

    def __post_init__(self) -> None:
        if self.interval is not None:
            length(self.interval)

    def identity(self, market: Market) -> dict[str, Any]:
        """Return the options that change which rows are read."""
        return {"interval": self.interval}

    @abstractmethod
    def events(self, answer: Any, parsed: Parsed) -> Iterator[Event]:
        """Yield the events of an answer, or of an item of an array.

        Parameters
        ----------
        answer : object
            One JSON value.
        parsed : Parsed
            Its method ``ignore`` counts messages that are not kept.

        Yields
        ------
        (str, mapping) or str
            Name of the table, and values by its columns, as JSON has them. A missing value is null. A str is the reason
            why an entry is not an event: the entry counts as a bad line, and reading goes on with the next entry.

        Raises
        ------
        ValueError, LookupError
            If the answer is broken: the rest of it is not read, and it counts as a bad line. The text of a ValueError
            says what is wrong. For a LookupError, e.g. of ``answer["price"]``, the message says that the answer has no
            such field.
        """

    def read(self, job: Job, spool: Spool, progress: Progress) -> Parsed:
        """Read one file."""
        parsed = Parsed(spool)
        rows: dict[str, list[dict[str, Any]]] = {}
        for _, answer in json_values(job.path, parsed.bad, progress):
            try:
                for event in self.events(answer, parsed):
                    parsed.lines += 1
                    if isinstance(event, str):
                        parsed.bad.add(parsed.lines, event)
                        continue
                    table, values = event
                    rows.setdefault(table, []).append({"line": parsed.lines, **values})
            except LookupError as error:
                parsed.lines += 1
                parsed.bad.add(parsed.lines, f"the answer has no {_missing(error)}")
            except ValueError as error:
                parsed.lines += 1
                parsed.bad.add(parsed.lines, str(error))
        if RECORDED_CANDLES.name in rows and self.interval is None:
            raise QueryError("interval", got=None, expected=f"how long the candles of {job.path.name} are")
        for table, events in rows.items():
            interval = self.interval if table == RECORDED_CANDLES.name else None
            rows_are = Csv(table=table, time_unit=self._time_unit(table, job), interval=interval)
            put_texts(_texts(events), rows_are, job, parsed, exchange=self.default_exchange)
        return parsed

    def _time_unit(self, table: str, job: Job) -> str:
        """Return how the times of a table are written; QueryError if the layout does not say it."""
        time_units: object = getattr(self, "time_units", None)
        if not isinstance(time_units, Mapping) or table not in time_units:
            raise QueryError(
                "time_units",
                got=time_units,
                expected=f"how the layout {self.name} writes the times of {table}, which it found in {job.path}",
                hint=f'e.g. time_units = {{"{table}": "ms"}}',
            )
        return str(time_units[table])


def _missing(error: LookupError) -> str:
    """Return the name of the field that an answer does not have, or words for an item of a list."""
    return (
        repr(error.args[0]) if isinstance(error, KeyError) and error.args else "item at some place of a list"
    )


def _texts(rows: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
    """Return rows as columns of text, with ``line`` as a number; a null or missing value is null."""
    names = dict.fromkeys(name for row in rows for name in row if name != "line")
    columns: dict[str, Any] = {"line": pl.Series([row["line"] for row in rows], dtype=pl.Int64)}
    for name in names:
        texts = [None if row.get(name) is None else str(row[name]) for row in rows]
        columns[name] = pl.Series(texts, dtype=pl.String)
    return pl.DataFrame(columns)
