"""Rows of a file whose columns are mapped to ours, for any table of the lake.

Where the rows come from, lines or a Parquet file, is none of this module's business: it is handed the file's column
names once, and then blocks of columns of text.

The columns are those of the table, see `tidytape.lake.TABLES`, but for ``sequence``, which is the line. Numbers are
taken in the table's units, as given. What differs:

========================= =========================================================================================
``exchange``              may be left out when the caller names the venue
``raw_symbol``            may be left out when the caller names the instrument
``coin``                  may be left out when the caller names it
``interval``              of candles: a number of ns, or a word such as 1m; may be left out when the caller gives it
``id``                    of liquidations, may be left out: it is then made from the content
``quote_amount``          of liquidations, may be left out: price times amount
``side``                  of liquidations, of the position: buy, b or long is a long that was liquidated; sell, s or
                          short a short
``order_side``            of liquidations, instead of ``side``: of the order that closed the position; sell or s is a
                          long that was liquidated
``price``                 of open interest: the mark price, for amounts that are given in contracts
========================= =========================================================================================

Times of each column are written in one way: the ``time_unit`` given, for all columns or for this one, or what the
column's first time tells.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import polars as pl

from tidytape.catalogue import BookSide, Side
from tidytape.errors import QueryError, did_you_mean
from tidytape.lake.amount_units import of_mapped
from tidytape.lake.ingest import _mapped_trades
from tidytape.lake.ingest._candles import INTERVAL, impossible
from tidytape.lake.ingest._column_map import columns_of, map_error, mapped_time, unmapped
from tidytape.lake.ingest._fields import (
    ABOVE_ZERO,
    FLAG,
    INTEGER,
    NAME,
    NOT_NEGATIVE,
    NUMBER,
    TEXT,
    Field,
    Kind,
    checked,
    word,
)
from tidytape.lake.ingest._job import Job, Parsed
from tidytape.lake.ingest._repeats import with_ids
from tidytape.lake.ingest._time import ISO, unit_of
from tidytape.lake.table import Table
from tidytape.lake.tables import (
    BOOK,
    LIQUIDATIONS,
    MARKETS,
    OPEN_INTEREST,
    PREDICTION_MARKETS,
    RECORDED_CANDLES,
    REGISTRIES,
    TABLES,
    TRADES,
)
from tidytape.schema import Column

EVENTS = tuple(name for name, table in TABLES.items() if table not in REGISTRIES)
"""Names of the tables that rows can be for."""

_REGISTERED_BY = {
    MARKETS.name: "markets are registered with the events of theirs",
    PREDICTION_MARKETS.name: "prediction markets go in with: tidytape ingest polymarket-gamma",
}
SAID = ("exchange", "raw_symbol", "coin", "interval")
"""Columns that the caller may say of the whole file instead."""

_MORE = {LIQUIDATIONS.name: ("order_side",), OPEN_INTEREST.name: ("price",)}
_NEEDED = {RECORDED_CANDLES.name: ("volume",)}
"""Columns that a file needs, though conversion may leave them null."""
_MADE = {LIQUIDATIONS.name: ("id", "quote_amount")}
_LONG, _SHORT = Side.BUY.value, Side.SELL.value
_WORDS = {
    (LIQUIDATIONS.name, "side"): {
        "buy": _LONG, "b": _LONG, "long": _LONG, "sell": _SHORT, "s": _SHORT, "short": _SHORT
    },
    (LIQUIDATIONS.name, "order_side"): {"sell": _LONG, "s": _LONG, "buy": _SHORT, "b": _SHORT},
    (BOOK.name, "side"): {
        "bid": BookSide.BID.value, "buy": BookSide.BID.value, "b": BookSide.BID.value,
        "ask": BookSide.ASK.value, "sell": BookSide.ASK.value, "s": BookSide.ASK.value, "a": BookSide.ASK.value,
    },
    ("option_quotes", "option_type"): {"call": "CALL", "c": "CALL", "put": "PUT", "p": "PUT"},
}  # fmt: skip
_ABOVE_ZERO = {(LIQUIDATIONS.name, "amount"), ("option_quotes", "strike"), ("quote_rates", "usd")}
_NOT_NEGATIVE = {
    "size",
    "amount",
    "volume",
    "quote_volume",
    "buy_volume",
    "buy_quote_volume",
    "quote_amount",
    "usd_amount",
    "open_interest",
    "implied_volatility",
    "marketcap",
}


def known_columns(table: Table) -> tuple[str, ...]:
    """Return what a column map may name."""
    if table is TRADES:
        return _mapped_trades.COLUMNS
    return (*(name for name in table.names if name != "sequence"), *_MORE.get(table.name, ()))


def needed_columns(table: Table) -> tuple[str, ...]:
    """Return what a file needs, mapped or under our names; of ``side`` there may be another column instead."""
    if table is TRADES:
        return _mapped_trades.NEEDED
    made = {"sequence", *_MADE.get(table.name, ())}
    return tuple(
        column.name for column in table.columns if _is_needed(table, column) and column.name not in made
    )


def _is_needed(table: Table, column: Column) -> bool:
    return not column.nullable or column.name in _NEEDED.get(table.name, ())


class Reader(Protocol):
    """Takes blocks of a file's rows."""

    @property
    def mapped(self) -> Mapping[str, str]:
        """The file's columns that it looks at, by ours."""

    def take(self, rows: pl.DataFrame) -> None:
        """Take some rows: ``line`` and one column of text per column of the file, in the file's order."""

    def finish(self) -> None:
        """Do what is left when all rows were taken."""


def reader(job: Job, header: Sequence[str], parsed: Parsed) -> Reader:
    """Return what takes the rows of a file into the job's table.

    Parameters
    ----------
    job : Job
        With ``table`` and ``columns``.
    header : sequence of str
        Names of the file's columns, in order.
    parsed : Parsed
        Takes the rows.

    Raises
    ------
    QueryError
        If there is no such table, the map names a column that is not there, or a column that is needed is not mapped.
    """
    name = job.table or TRADES.name
    if name not in EVENTS:
        hint = _REGISTERED_BY.get(name) or did_you_mean(name, EVENTS)
        raise QueryError("table", got=name, expected="one of " + ", ".join(EVENTS), hint=hint)
    _require_times(job, TABLES[name])
    parsed.amount_unit = of_mapped
    parsed.time_unit = job.time_unit_of("timestamp")
    if name == TRADES.name:
        return _mapped_trades.Reader(job, header, parsed)
    return _Rows(job, TABLES[name], header, parsed)


class _Rows:
    """Takes the rows of any table but trades."""

    def __init__(self, job: Job, table: Table, header: Sequence[str], parsed: Parsed) -> None:
        self.job = job
        self.table = table
        self.parsed = parsed
        self.header = list(header)
        self.mapped = _mapped(job, table, self.header)
        self.units: dict[str, str] = {}

    def take(self, rows: pl.DataFrame) -> None:
        parsed, table, job = self.parsed, self.table, self.job
        parsed.lines += rows.height
        if rows.is_empty():
            return
        columns = rows.columns[1:]
        texts = rows.select(
            "line",
            *(pl.col(columns[self.header.index(name)]).alias(ours) for ours, name in self.mapped.items()),
        )
        constants = {
            name: value
            for name in SAID
            if name in table.names and name not in self.mapped and (value := getattr(job, name)) is not None
        }
        values = parsed.bad.take(checked(texts, self._fields(texts))).with_columns(
            **{name: pl.lit(value) for name, value in constants.items()}
        )
        if job.raw_symbol is not None and "raw_symbol" in self.mapped:
            others = values.filter(pl.col("raw_symbol") != job.raw_symbol).height
            if others:
                parsed.ignore("row of another instrument", others)
            values = values.filter(pl.col("raw_symbol") == job.raw_symbol)
        if table is RECORDED_CANDLES:
            values = parsed.bad.take(impossible(values))
        if values.is_empty():
            return
        batch = parsed.batch(table)
        if "sequence" in table.names:
            values = values.with_columns(sequence=pl.col("line"))
        if "order_side" in values.columns:
            values = values.rename({"order_side": "side"})
        if table is LIQUIDATIONS:
            if "quote_amount" not in values.columns:
                values = values.with_columns(quote_amount=pl.col("price") * pl.col("amount"))
            if "id" not in values.columns:
                values = with_ids(values, batch)
        frame = table.conform(values)
        if table is OPEN_INTEREST and "price" in values.columns:
            frame = frame.with_columns(values["price"])
        batch.add(frame)

    def finish(self) -> None:
        if self.table is LIQUIDATIONS:
            self.parsed.batch(self.table).counted = True

    def _fields(self, texts: pl.DataFrame) -> dict[str, Field]:
        fields = {}
        for ours, theirs in self.mapped.items():
            column = _column(self.table, ours)
            kind = self._time(texts[ours]) if _is_time(column) else _kind(self.table, ours, column)
            if ours == "timestamp":
                self.parsed.time_unit = self.units.get(ours, self.parsed.time_unit)
            fields[ours] = Field(theirs, kind, needed=column is None or _is_needed(self.table, column))
        return fields

    def _time(self, texts: pl.Series) -> Kind:
        name = texts.name
        if name not in self.units:
            found = self.job.time_unit_of(name) or unit_of(texts)
            if found is None:
                return mapped_time(ISO)  # nothing of this block is a time, a later one may have some
            self.units[name] = found
        return mapped_time(self.units[name])


def _is_time(column: Column | None) -> bool:
    return column is not None and column.unit.startswith("ns since the epoch")


def _kind(table: Table, name: str, column: Column | None) -> Kind:
    if (table.name, name) in _WORDS:
        return word(_WORDS[table.name, name])
    if name in {*table.partitions, "exchange", "raw_symbol"}:
        return NAME
    if (table.name, name) == (RECORDED_CANDLES.name, "interval"):
        return INTERVAL
    if column is None:  # the price beside open interest
        return NUMBER
    if column.dtype == "float64":
        if (table.name, name) in _ABOVE_ZERO:
            return ABOVE_ZERO
        return NOT_NEGATIVE if name in _NOT_NEGATIVE else NUMBER
    return {"string": TEXT, "int64": INTEGER, "bool": FLAG}[column.dtype]


def _require_times(job: Job, table: Table) -> None:
    """Raise QueryError if a unit of time is said of a column that holds no times."""
    if isinstance(job.time_unit, str | None):
        return
    times = [name for name in known_columns(table) if _is_time(_column(table, name))]
    for name in job.time_unit:
        if name not in times:
            raise QueryError(
                "time_unit",
                got=name,
                expected=f"one of the columns of times of {table.name}: {', '.join(times)}",
                hint=did_you_mean(name, times),
            )


def _column(table: Table, name: str) -> Column | None:
    return next((column for column in table.columns if column.name == name), None)


def _mapped(job: Job, table: Table, header: list[str]) -> dict[str, str]:
    """Our columns to those of the file, the ones that were named and the ones that bear our name."""
    known = known_columns(table)
    named = dict(job.columns or {})
    for ours, theirs in named.items():
        if ours not in known:
            raise map_error(ours, known, f"one of {', '.join(known)} to be mapped")
        if header.count(theirs) != 1:
            raise map_error(theirs, header, f"for {ours} {columns_of(job, header)}")
    mapped = named | {
        name: name
        for name in known
        if name not in named and header.count(name) == 1 and name not in named.values()
    }
    for name in SAID:
        # What the caller says of the whole file is said; but the one instrument can be taken out of several.
        if getattr(job, name) is not None and name not in named and name != "raw_symbol":
            mapped.pop(name, None)
    if {"side", "order_side"} <= set(mapped):
        if {"side", "order_side"} <= set(named):
            raise map_error(named["side"], (), "either side or order_side to be mapped, not both")
        mapped.pop("side" if "order_side" in named else "order_side")
    _all_there(job, table, header, mapped)
    return mapped


def _all_there(job: Job, table: Table, header: list[str], mapped: dict[str, str]) -> None:
    given = {name for name in SAID if getattr(job, name) is not None} | set(mapped)
    if "order_side" in mapped:
        given.add("side")
    missing = [name for name in needed_columns(table) if name not in given]
    if "exchange" in missing:
        job.venue  # noqa: B018  # says that the venue is missing
    if "raw_symbol" in missing:
        raise QueryError(
            "raw_symbol", got=None, expected="the instrument of the file, or a column that names it"
        )
    if missing:
        raise unmapped(job, header, ", ".join(missing))
