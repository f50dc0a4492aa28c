"""Files of one's own, with a map of their columns to those of any table of the lake.

The map says which column of the file is which of ours: ``{"price": "px", "amount": "qty", …}``. A column of the file
that bears our name is taken without being named. Our columns are those of the table, see `tidytape.lake.TABLES`, but
for ``sequence``, which is the line; those of trades are the ones that stand below. Numbers are taken in the table's
units, as given. What differs:

========================= =========================================================================================
``exchange``              may be left out when the caller names it; of trades the caller always does. The caller's
                          name holds, but not for rows of several exchanges
``raw_symbol``            may be left out when the caller names it; else that one market is taken out of several
``coin``                  may be left out when the caller names it
``interval``              of candles: a number of ns, or a word such as 1m; may be left out when the caller gives it
``side``                  of trades, of the aggressor: buy, b, sell or s; of liquidations, of the position: buy, b or
                          long is a long that was liquidated, sell, s or short a short
``buyer_is_maker``        of trades, instead of ``side``: true or false, t or f, 1 or 0; true: the aggressor sold
``order_side``            of liquidations, instead of ``side``: of the order that closed the position; sell or s is a
                          long that was liquidated
``id``                    of trades and liquidations, may be left out: it is then made from the content
``quote_amount``          of liquidations, may be left out: price times amount
``price``                 of open interest: the mark price, for amounts that are given in contracts
========================= =========================================================================================

Times of each column are written in one way: the ``time_unit`` given, for all columns or for this one, or what the
column's first time tells.

An id that is made is the event itself: timestamp, price, amount, side and its number among identical events. The same
events exported again get the same ids. The order of trades of one timestamp is the id where every id of the file is an
integer of 64 bits, else the line; in a file that starts with its newest trade, the line from the end. How lines of
several files are ordered is told in `tidytape.lake._dedupe`.

A trade without a side is a bad line, because its volume could be on either side.
"""

from __future__ import annotations

import csv
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Any, ClassVar

import orjson
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from tidytape.catalogue import BookSide, Side
from tidytape.errors import IngestError, QueryError, did_you_mean
from tidytape.lake._amount_units import AmountUnit, documented, of_mapped
from tidytape.lake._batch import Spool
from tidytape.lake._dedupe import with_ids
from tidytape.lake._tables import (
    BOOK,
    FUNDING,
    LIQUIDATIONS,
    MARKETS,
    OPEN_INTEREST,
    OPTION_QUOTES,
    PREDICTION_MARKETS,
    RECORDED_CANDLES,
    REGISTRIES,
    TABLES,
    TRADES,
    Table,
)
from tidytape.lake.ingest._alike import alike
from tidytape.lake.ingest._contracts import COUNTED
from tidytape.lake.ingest._decode import Header, decoded, delimited, unreadable_header
from tidytape.lake.ingest._fields import (
    ABOVE_ZERO,
    FLAG,
    INTEGER,
    INTERVAL,
    NAME,
    NOT_NEGATIVE,
    NUMBER,
    TEXT,
    Field,
    Kind,
    checked,
    impossible,
    length,
    time,
    word,
)
from tidytape.lake.ingest._layout import Job, Layout, Parsed, Progress, nothing_to_choose
from tidytape.lake.ingest._lines import numbered
from tidytape.lake.ingest._market import Market, option
from tidytape.lake.ingest._time import DATE, ISO, told, unit_of
from tidytape.schema import Column

EVENTS = tuple(name for name, table in TABLES.items() if table not in REGISTRIES)
"""Names of the tables that rows can be for."""

_REGISTERED_BY = {
    MARKETS.name: "markets are registered with the events of theirs",
    PREDICTION_MARKETS.name: "prediction markets go in with: tidytape ingest polymarket-gamma",
}
SAID = ("exchange", "raw_symbol", "coin", "interval")
"""Columns that the caller may say of the whole file instead."""

_OF_TRADES = ("timestamp", "price", "amount", "side", "buyer_is_maker", "id", "raw_symbol")
_MORE = {LIQUIDATIONS.name: ("order_side",), OPEN_INTEREST.name: ("price",)}
_NEEDED = {RECORDED_CANDLES.name: ("volume",)}
"""Columns that a file needs, though conversion may leave them null."""
_MADE = {LIQUIDATIONS.name: ("id", "quote_amount")}
_INSTEAD_OF_SIDE = {TRADES.name: "buyer_is_maker", LIQUIDATIONS.name: "order_side"}
_BUY, _SELL = Side.BUY.value, Side.SELL.value
_BID, _ASK = BookSide.BID.value, BookSide.ASK.value
_WORDS = {
    (TRADES.name, "side"): {"buy": _BUY, "b": _BUY, "sell": _SELL, "s": _SELL},
    (TRADES.name, "buyer_is_maker"): {
        "true": _SELL, "t": _SELL, "1": _SELL, "false": _BUY, "f": _BUY, "0": _BUY,
    },
    (LIQUIDATIONS.name, "side"): {
        "buy": _BUY, "b": _BUY, "long": _BUY, "sell": _SELL, "s": _SELL, "short": _SELL,
    },
    (LIQUIDATIONS.name, "order_side"): {"sell": _BUY, "s": _BUY, "buy": _SELL, "b": _SELL},
    (BOOK.name, "side"): {
        "bid": _BID, "buy": _BID, "b": _BID, "ask": _ASK, "sell": _ASK, "s": _ASK, "a": _ASK,
    },
    (OPTION_QUOTES.name, "option_type"): {"call": "CALL", "c": "CALL", "put": "PUT", "p": "PUT"},
}  # fmt: skip
_ABOVE_ZERO = {
    (TRADES.name, "amount"), (LIQUIDATIONS.name, "amount"), ("option_quotes", "strike"), ("quote_rates", "usd"),
}  # fmt: skip
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
_DELIMITERS = (",", ";", "\t", "|")
_WRITTEN_TAB = "\\t"  # as a shell passes it on
_LOOKED_AT = 1000
"""Lines whose fields are what a map can name: in which a field that is often left out should show up."""
_ROWS = 250_000
"""How many rows of a Parquet file the reader takes at once."""


@dataclass(frozen=True, kw_only=True)
class Mapped(Layout):
    """Rows of any table, with a map of their columns.

    Parameters
    ----------
    columns : mapping of str to str, optional
        Our columns to the file's, e.g. ``{"price": "px"}``.
    table : str
        What the rows are, the name of one of `tidytape.lake.TABLES`.
    time_unit : {"iso", "date", "s", "ms", "us", "ns"} or mapping of str to one of them, optional
        How times are written, in all columns or by our name of each, e.g. ``{"timestamp": "iso", "expiry": "date"}``.
        Where left out, the first time that is a written date and time, or a number that lies between the years 2000
        and 2100 in exactly one unit, decides; the report says which it was. Dates alone have to be said to be
        ``date``.
    time_format : str, optional
        Instead of ``time_unit``, of times written in another way: what they look like, in the directives of
        ``strftime``, e.g. ``"%d-%m-%Y %H:%M:%S"``. Which number is the day is never found out. Without ``%z`` they are
        in UTC.
    interval : str, optional
        Of candles: how long all of them are, e.g. ``"1h"``, where no column tells.

    Raises
    ------
    QueryError
        If there is no such table, unit, format or interval, or one is given that means nothing to the table.
    """

    amounts: ClassVar[Mapping[str, str]] = MappingProxyType(
        dict.fromkeys(
            (*(table.name for table in COUNTED), OPTION_QUOTES.name),
            "the map (coins), unless the symbol or the exchange is known to count something else",
        )
    )

    table: str = option(
        "Table to fill: trades, candles, book, open_interest, funding, ….", default=TRADES.name
    )
    columns: Mapping[str, str] | None = option(
        "Columns of the table and of the file: id=tid,price=px,amount=qty,side=side,timestamp=time. Columns of the "
        "same name need no entry. Trades have timestamp, price, amount, side (or buyer_is_maker), id and raw_symbol.",
        flag="--map",
    )
    time_unit: str | Mapping[str, str] | None = option(
        "Unit of times, if they do not show it: iso, date, s, ms, us or ns; or one per column, "
        "timestamp=iso,expiry=date.",
    )
    time_format: str | None = option("Format of other times, e.g. '%d-%m-%Y %H:%M:%S'; UTC without a %z.")
    interval: str | None = option("Length of candles, if the file has no column interval, e.g. 1h.")

    def __post_init__(self) -> None:
        if self.table not in EVENTS:
            hint = _REGISTERED_BY.get(self.table) or did_you_mean(self.table, EVENTS)
            raise QueryError("table", got=self.table, expected="one of " + ", ".join(EVENTS), hint=hint)
        if self.interval is not None and self.table != RECORDED_CANDLES.name:
            raise nothing_to_choose("interval", self.interval, self.files)
        self.candle_length  # noqa: B018  # says that it is none
        is_map: object = self.columns is None or isinstance(
            self.columns, Mapping
        )  # whatever an untyped caller gives
        if not is_map:
            raise QueryError(
                "columns", got=self.columns, expected='a dict of our columns, e.g. {"price": "px"}'
            )
        is_unit: object = self.time_unit is None or isinstance(self.time_unit, str | Mapping)
        if not is_unit:
            raise QueryError(
                "time_unit", got=self.time_unit, expected='a text such as "ms", or a dict of columns'
            )
        if isinstance(self.times, Mapping):
            names = self.time_columns
            for name in self.times:
                if name not in names:
                    raise QueryError(
                        "time_unit",
                        got=name,
                        expected=f"one of the columns of times of {self.table}: {', '.join(names)}",
                        hint=did_you_mean(name, names),
                    )

    @property
    def of(self) -> Table:
        """The table that the rows are for."""
        return TABLES[self.table]

    @property
    def times(self) -> str | Mapping[str, str] | None:
        """How times are written: a unit, a format, a unit per column, or None."""
        return told(self.time_unit, self.time_format)

    @property
    def time_columns(self) -> list[str]:
        """Our columns that hold times."""
        return [name for name in known_columns(self.of) if _is_time(_column(self.of, name))]

    def time_of(self, column: str) -> str | None:
        """Return how the caller says that the times of one of our columns are written."""
        times = self.times
        return times if isinstance(times, str | None) else times.get(column)

    @property
    def candle_length(self) -> int | None:
        """Length of the candles. [ns]"""
        return None if self.interval is None else length(self.interval)

    @property
    def files(self) -> str:
        """What an error calls files of this layout."""
        return f"{self.name} files of {self.table}"

    def identity(self, market: Market) -> dict[str, Any]:
        """Return the options that change which rows are read; those of trades are called as ever."""
        times = self.times
        is_of_trades = self.table == TRADES.name
        return {
            "table": None if is_of_trades else self.table,
            "coin": None if is_of_trades else market.coin,
            "columns": dict(self.columns or {}),
            "time_unit": dict(times) if isinstance(times, Mapping) else times,
            "interval": self.candle_length,
        }

    def require_used(self, market: Market) -> None:
        """Raise QueryError if the caller says of the market what these files have no place for."""
        if market.funding_interval is not None and self.table != FUNDING.name:
            raise nothing_to_choose("funding_interval", market.funding_interval, self.files)


@dataclass(frozen=True, kw_only=True)
class Csv(Mapped):
    """Delimited files, with a map of their columns.

    Parameters
    ----------
    columns, table, time_unit, time_format, interval
        See `Mapped`.
    delimiter : str, optional
        What stands between the columns; found in the header where left out.

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
        if self._between(self.delimiter) is None:
            raise QueryError(
                "delimiter", got=self.delimiter, expected="one ASCII character, e.g. ; or a tab, and no quote"
            )

    def identity(self, market: Market) -> dict[str, Any]:
        """Return the options that change which rows are read."""
        return super().identity(market) | {"delimiter": self.delimiter}

    def read(self, job: Job, spool: Spool, progress: Progress) -> Parsed:
        """Read one file."""
        parsed = Parsed(spool, piece=job.piece)
        rows: list[Rows] = []

        def described(number: int, text: str) -> Header:
            if parsed.bad.first and parsed.bad.first[0][0] < number:
                # Any line could be a header of one's own, so this one may be a row.
                raise unreadable_header(job, *parsed.bad.first[0])
            delimiter = self._between(self.delimiter or max(_DELIMITERS, key=text.count)) or ","
            try:
                names = [name.strip() for name in next(csv.reader([text], delimiter=delimiter))]
            except csv.Error as error:
                reason = "it holds a bare carriage return" if "\r" in text.rstrip("\r") else str(error)
                raise unreadable_header(job, number, reason) from error
            # Before the lines are split: what is wrong with the map is wrong for all of them.
            rows.append(Rows(self, job, names, parsed))
            return Header(names, delimiter=delimiter, is_ragged=True)

        for _, texts in delimited(job, parsed, progress, described):
            rows[0].take(texts)
        if rows:  # else the piece has no line yet
            rows[0].finish()
        return parsed

    @staticmethod
    def _between(text: str) -> str | None:
        """Return the character that a delimiter stands for, None if it is none."""
        delimiter = "\t" if text == _WRITTEN_TAB else text
        is_one = len(delimiter) == 1 and delimiter.isascii() and delimiter not in '"\r\n\0'
        return delimiter if is_one else None


@dataclass(frozen=True, kw_only=True)
class Jsonl(Mapped):
    """Lines of JSON objects, with a map of their fields.

    Fields are those at the top of the objects. One that an object lacks, or has as null, is empty. Numbers may be
    written as numbers or as text. A map can name the fields of the first 1,000 objects.

    Parameters
    ----------
    columns, table, time_unit, time_format, interval
        See `Mapped`.

    Examples
    --------
    >>> Jsonl(table="funding").table
    'funding'
    """

    name = "jsonl"
    follows = True

    def read(self, job: Job, spool: Spool, progress: Progress) -> Parsed:
        """Read one file."""
        parsed = Parsed(spool, piece=job.piece)
        rows: Rows | None = None
        names: list[str] = []
        memory = {} if job.piece is None else job.piece.memory
        for lines in numbered(job.path, parsed.bad, progress, job.piece):
            if lines.is_empty():
                continue
            if rows is None:
                seen, looked_at = memory.get("names", {}), memory.get("looked_at", 0)
                seen = seen | dict.fromkeys(_field_names(lines["text"].head(max(_LOOKED_AT - looked_at, 0))))
                memory |= {"names": seen, "looked_at": looked_at + lines.height}
                names = list(seen)
                if not names:
                    raise IngestError(f"{job.path}: no lines of JSON objects", path=str(job.path), line=1)
                rows = Rows(self, job, names, parsed)
            parsed.lines += lines.height
            objects = decoded(lines["text"], pl.Struct(dict.fromkeys(names, pl.String())))
            broken = pl.when(pl.col("object").is_null()).then(
                pl.lit("no JSON object, or a field is no text or number")
            )
            good = parsed.bad.take(lines.select("line", objects.alias("object")).with_columns(reason=broken))
            rows.take(good.unnest("object"))
        if rows is not None:
            rows.finish()
        elif job.piece is None:
            raise IngestError(f"{job.path}: the file has no lines", path=str(job.path))
        return parsed


def _field_names(lines: pl.Series) -> list[str]:
    """Fields of some objects that hold text, a number or a flag, in the order in which they show up."""
    names: dict[str, bool] = {}
    for text in lines:
        try:
            entry = orjson.loads(text)
        except orjson.JSONDecodeError:
            continue
        if isinstance(entry, dict):
            names |= {name: True for name, value in entry.items() if not isinstance(value, dict | list)}
    return list(names)


@dataclass(frozen=True, kw_only=True)
class Parquet(Mapped):
    """Parquet files, with a map of their columns.

    A line is a row, counted from 1. Timestamps that say that they are in UTC, or in a zone, are taken; those that do
    not are refused, unless ``time_unit="iso"`` says that they are meant in UTC. Numbers are read in ``time_unit`` where
    they are times.

    Parameters
    ----------
    columns, table, time_unit, time_format, interval
        See `Mapped`.

    Examples
    --------
    >>> Parquet(time_unit="iso").time_unit
    'iso'
    """

    name = "parquet"

    def read(self, job: Job, spool: Spool, progress: Progress) -> Parsed:
        """Read one file."""
        parsed = Parsed(spool)
        size = job.path.stat().st_size if job.path.is_file() else 0
        try:
            with pq.ParquetFile(job.path) as file:
                rows = Rows.of_arrow(self, job, file.schema_arrow, parsed)
                batches = file.iter_batches(batch_size=_ROWS, columns=rows.used)
                for batch in batches:
                    rows.take_arrow(batch)
                    progress(size * batch.num_rows // max(file.metadata.num_rows, 1))
        except (pa.ArrowException, pl.exceptions.PolarsError, OSError) as error:
            raise IngestError(
                f"{job.path}: no Parquet file that can be read: {error}", path=str(job.path)
            ) from error
        rows.finish()
        return parsed


class Rows:
    """Takes the rows of one file into the table that they are for.

    Parameters
    ----------
    layout : Mapped
        What the rows are.
    job : Job
        The file, and what the caller says of it.
    header : sequence of str
        Names of the file's columns, in order.
    parsed : Parsed
        Takes the rows.

    Raises
    ------
    QueryError
        If the map names a column that is not there, or a column that is needed is not mapped.
    """

    def __init__(self, layout: Mapped, job: Job, header: Sequence[str], parsed: Parsed) -> None:
        self.layout = layout
        self.job = job
        self.table = layout.of
        self.parsed = parsed
        self.header = list(header)
        self.said = {
            name: value
            for name, value in {
                "exchange": job.exchange,
                "raw_symbol": job.raw_symbol,
                "coin": job.market.coin,
                "interval": layout.candle_length,
            }.items()
            if value is not None and name in self.table.names
        }
        self.mapped = self._mapped()
        is_said_twice = "exchange" in self.said and self.header.count("exchange") == 1
        self._renamed = "exchange" if is_said_twice and "exchange" not in self.mapped.values() else None
        memory = {} if parsed.piece is None else parsed.piece.memory
        self._exchanges: set[str] = memory.setdefault("exchanges", set())
        self.units: dict[str, str] = memory.setdefault("units", {})
        # A log that grows begins with its oldest trade.
        self.newest_first: bool | None = None if parsed.piece is None else False
        self.by_id = self.table is TRADES and "id" in self.mapped and memory.get("by_id", True)
        self._memory = memory
        self.before = 0
        parsed.amount_unit = partial(_amount_unit, self._exchanges)
        parsed.time_unit = layout.time_of("timestamp")

    @classmethod
    def of_arrow(cls, layout: Mapped, job: Job, schema: pa.Schema, parsed: Parsed) -> Rows:
        """Return what takes the rows of Arrow data; QueryError too if a time has no zone and none is said."""
        # Only what is flat: nothing of ours is a list or a struct.
        names = [field.name for field in schema if not pa.types.is_nested(field.type)]
        rows = cls(layout, job, names, parsed)
        for ours, theirs in rows.mapped.items():
            _refuse_naive(layout.time_of(ours), schema.field(theirs), job.path.name)
        return rows

    @property
    def used(self) -> list[str]:
        """The file's columns that are read, in the file's order."""
        return [name for name in self.header if name in self.mapped.values() or name == self._renamed]

    def take_arrow(self, batch: pa.RecordBatch | pa.Table) -> None:
        """Take some rows of Arrow data, which has at least the columns that are read."""
        frame = pl.DataFrame(batch.select(self.used))
        line = pl.int_range(self.before + 1, self.before + frame.height + 1, dtype=pl.Int64).alias("line")
        texts = {name: _as_text(name, frame.schema[name]) for name in self.used}
        nothing = pl.lit(None, pl.String)
        self.take(frame.select(line, *(texts.get(name, nothing.alias(name)) for name in self.header)))
        self.before += frame.height
        self.parsed.lines += frame.height

    def take(self, rows: pl.DataFrame) -> None:
        """Take some rows: ``line`` and one column of text per column of the file, in the file's order."""
        if rows.is_empty():
            return
        columns = rows.columns[1:]
        if self._renamed is not None:
            self._require_one_exchange(rows[columns[self.header.index(self._renamed)]])
        texts = rows.select(
            "line",
            *(pl.col(columns[self.header.index(name)]).alias(ours) for ours, name in self.mapped.items()),
        )
        constants = {name: pl.lit(value) for name, value in self.said.items() if name not in self.mapped}
        values = self.parsed.bad.take(checked(texts, self._fields(texts))).with_columns(**constants)
        if "raw_symbol" in self.mapped:
            what = "trade" if self.table is TRADES else "row"
            values = self.parsed.only(values, self.job.raw_symbol, others=f"{what} of another market")
        if self.table is RECORDED_CANDLES:
            values = self.parsed.bad.take(impossible(values))
        if not values.is_empty():
            self._put(values)

    def _require_one_exchange(self, names: pl.Series) -> None:
        """Raise QueryError if a column has several exchanges, whose markets the name that is said would make one."""
        self._exchanges |= set(names.drop_nulls().unique()) - {""}
        if len(self._exchanges) > 1:
            held = ", ".join(sorted(self._exchanges)[:5])
            raise QueryError(
                "exchange",
                got=self.said["exchange"],
                expected=f"rows of one exchange; column exchange of {self.job.path.name} has {held}",
            )

    def _put(self, values: pl.DataFrame) -> None:
        batch = self.parsed.batch(self.table)
        if self.newest_first is None:
            self.newest_first = self.table is TRADES and values["timestamp"][0] > values["timestamp"][-1]
        if self.by_id:
            # As it is written in one way only, so that two ids are never one number.
            number = pl.col("id").str.extract(r"^(0|[1-9]\d{0,18})$").cast(pl.Int64, strict=False)
            self.by_id = not values.select(number.is_null().any()).item()
        instead = _INSTEAD_OF_SIDE.get(self.table.name, "side")
        placed = values.rename({instead: "side"}, strict=False)
        if self.table in (TRADES, LIQUIDATIONS):
            if "quote_amount" not in placed.columns:
                placed = placed.with_columns(quote_amount=pl.col("price") * pl.col("amount"))
            if "id" not in placed.columns:
                placed = with_ids(placed, self.parsed.before(self.table))
        if "sequence" in self.table.names:
            line = pl.col("line")
            placed = placed.with_columns(sequence=-line if self.newest_first else line)
        frame = self.table.conform(placed)
        if self.table is OPEN_INTEREST and "price" in placed.columns:
            frame = frame.with_columns(placed["price"])
        batch.add(frame)

    def finish(self) -> None:
        """Say what orders the events of one timestamp, now that all ids were seen."""
        self._memory["by_id"] = self.by_id
        if self.by_id:
            self.parsed.batch(TRADES).order_by_id()
        elif self.table in (TRADES, LIQUIDATIONS):
            self.parsed.batch(self.table).counted = True

    def _fields(self, texts: pl.DataFrame) -> dict[str, Field]:
        fields = {}
        for ours, theirs in self.mapped.items():
            column = _column(self.table, ours)
            kind = self._time(texts[ours]) if _is_time(column) else _kind(self.table, ours, column)
            fields[ours] = Field(theirs, kind, needed=column is None or _is_needed(self.table, column))
        return fields

    def _time(self, texts: pl.Series) -> Kind:
        name = texts.name
        unit = self.units.get(name) or self.layout.time_of(name) or unit_of(texts)
        if unit is not None:
            self.units[name] = unit
            if name == "timestamp":
                self.parsed.time_unit = unit
        # Where no value of this block is a time, a later block may have some.
        hint = "time_unit (--time-unit) or time_format (--time-format) says how times are written"
        return time(unit or ISO, hint=hint)

    def _mapped(self) -> dict[str, str]:
        """Our columns to those of the file, the ones that were named and the ones that bear our name."""
        known, header = known_columns(self.table), self.header
        named = dict(self.layout.columns or {})
        if self.table is TRADES:
            self.job.known_exchange  # noqa: B018  # says that the exchange is missing
        for ours, theirs in named.items():
            if ours not in known:
                raise _map_error(ours, known, f"one of {', '.join(known)} to be mapped")
            if header.count(theirs) != 1:
                raise _map_error(theirs, header, f"for {ours} {self._columns_of()}")
        mapped = named | {
            name: name
            for name in known
            if name not in named and header.count(name) == 1 and name not in named.values()
        }
        for name in self.said:
            # What the caller says of the whole file holds; but one market can be taken out of several.
            if name not in named and name != "raw_symbol":
                mapped.pop(name, None)
        instead = _INSTEAD_OF_SIDE.get(self.table.name, "side")
        if instead != "side" and {"side", instead} <= set(mapped):
            if {"side", instead} <= set(named):
                raise _map_error(named["side"], (), f"either side or {instead} to be mapped, not both")
            mapped.pop("side" if instead in named else instead)
        self._require_all({*mapped, *self.said, *(["side"] if instead in mapped else [])})
        return mapped

    def _suggested(self, there: set[str]) -> str | None:
        """Return a map that the names of the file's columns suggest; None where no name does."""
        named = dict(self.layout.columns or {})
        used = {*named.values(), *(there & set(self.header))}
        missing = [name for name in known_columns(self.table) if name not in there]
        pairs = alike(missing, [name for name in self.header if name not in used])
        instead = _INSTEAD_OF_SIDE.get(self.table.name, "side")
        if instead != "side" and {"side"} & {*there, *pairs}:
            pairs.pop(instead, None)
        if not pairs:
            return None
        columns = named | pairs
        return f"try ``columns={columns}``"

    def _require_all(self, there: Iterable[str]) -> None:
        """Raise QueryError if a column that is needed is neither mapped nor said."""
        missing = [name for name in needed_columns(self.table) if name not in set(there)]
        if "exchange" in missing:
            self.job.known_exchange  # noqa: B018  # says that the exchange is missing
        unmapped = [name for name in missing if name != "raw_symbol"]
        if self.table is TRADES:
            unmapped = ["side or buyer_is_maker" if name == "side" else name for name in unmapped]
        if "raw_symbol" in missing and not (unmapped and self.table is TRADES):
            raise QueryError(
                "raw_symbol",
                got=None,
                expected="the market of the file, or a column that names it",
                hint='``market=Market(raw_symbol="BTC-USD")`` says it',
            )
        if unmapped == ["interval"]:
            raise QueryError(
                "interval",
                got=None,
                expected="how long the candles are, or a column that tells it",
                hint='``interval="1d"`` says it for all of them',
            )
        if unmapped:
            expected = f"{', '.join(unmapped)} mapped to {self._columns_of()}"
            hint = self._suggested(set(there))
            if self.table is TRADES and {"open", "high", "low", "close"} <= {
                one.casefold() for one in self.header
            }:
                hint = 'candles go into a table of their own: ``table="candles"``'
            raise _map_error(self.layout.columns or None, (), expected, hint=hint)

    def _columns_of(self, limit: int = 200) -> str:
        """Name a file's columns, or the first of them: the first line of another kind of file may be anything."""
        text = ", ".join(self.header)
        return f"one of the columns of {self.job.path.name}: {text if len(text) <= limit else text[:limit] + '…'}"


def _amount_unit(in_file: Collection[str], table: str, exchange: str, raw_symbol: str) -> AmountUnit | None:
    """Return what amounts count: by the file's own name of the exchange if that is known, else by the caller's."""
    unit = of_mapped(table, exchange, raw_symbol)
    for name in in_file:  # one at most
        unit = documented(name, raw_symbol, table, otherwise=unit)
    return unit


def put_texts(
    texts: pl.DataFrame | Iterable[pl.DataFrame],
    rows_are: Mapped,
    job: Job,
    parsed: Parsed,
    *,
    exchange: str | None = None,
) -> None:
    """Put rows that a layout found into the table that they are for, once per file and table.

    Values are checked as those of a ``csv`` file. A wrong one is a bad line of ``parsed``.

    Parameters
    ----------
    texts : polars.DataFrame, one row per event, or iterable of them
        ``line``, the number of the line, and columns of text by our names, the same in each frame; a column
        ``raw_symbol`` tells the market of each row. Columns that the table does not have are passed over.
    rows_are : Csv
        The table, how times are written, and of candles how long they are.
    job : Job
        The file, and what the caller says of it.
    parsed : Parsed
        Takes the rows.
    exchange : str, optional
        The exchange of the rows, unless the caller names it.

    Raises
    ------
    QueryError
        If a column is missing, or nobody says the exchange or the market.
    """
    job = job.of(exchange=job.exchange or exchange)
    rows: Rows | None = None
    for frame in [texts] if isinstance(texts, pl.DataFrame) else texts:
        if rows is None:
            names = frame.columns[1:]
            known = known_columns(rows_are.of)
            mapped = replace(rows_are, columns={name: name for name in names if name in known})
            rows = Rows(mapped, job, names, parsed)
        rows.take(frame)
    if rows is not None:
        rows.finish()


def known_columns(table: Table) -> tuple[str, ...]:
    """Return what a column map may name."""
    if table is TRADES:
        return _OF_TRADES
    return (*(name for name in table.names if name != "sequence"), *_MORE.get(table.name, ()))


def needed_columns(table: Table) -> tuple[str, ...]:
    """Return what a file needs, mapped or under our names; of ``side`` there may be another column instead."""
    if table is TRADES:
        return tuple(name for name in _OF_TRADES if name not in {"buyer_is_maker", "id"})
    made = {"sequence", *_MADE.get(table.name, ())}
    return tuple(
        column.name for column in table.columns if _is_needed(table, column) and column.name not in made
    )


def _is_needed(table: Table, column: Column) -> bool:
    return not column.nullable or column.name in _NEEDED.get(table.name, ())


def _is_time(column: Column | None) -> bool:
    return column is not None and column.unit.startswith("ns since the epoch")


def _column(table: Table, name: str) -> Column | None:
    return next((column for column in table.columns if column.name == name), None)


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


def _map_error(got: object, known: Iterable[str], expected: str, *, hint: str | None = None) -> QueryError:
    """Return the error of a column map: what was named, what is known, and what was expected."""
    if isinstance(got, str):
        hint = did_you_mean(got, known)
    return QueryError("columns", got=got, expected=expected, hint=hint)


def _refuse_naive(unit: str | None, field: pa.Field, file: str) -> None:
    """Raise QueryError if a time has no zone, or no time of day, and nothing says what it is."""
    if unit == ISO:
        return
    if pa.types.is_timestamp(field.type) and field.type.tz is None:
        raise QueryError(
            "time_unit",
            got=unit,
            expected=f"iso, to say that {field.name} of {file}, which has no time zone, is meant in UTC",
        )
    if pa.types.is_date(field.type) and unit != DATE:
        raise QueryError(
            "time_unit",
            got=unit,
            expected=f"date, to say that {field.name} of {file}, a date, is meant as its first instant",
        )


def _as_text(name: str, dtype: pl.DataType) -> pl.Expr:
    """A column as text."""
    column = pl.col(name)
    if not isinstance(dtype, pl.Datetime):
        return column.cast(pl.String).alias(name)
    utc = column.dt.convert_time_zone("UTC") if dtype.time_zone else column.dt.replace_time_zone("UTC")
    return utc.dt.strftime("%Y-%m-%dT%H:%M:%S%.9fZ").alias(name)
