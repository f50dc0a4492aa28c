"""Put rows of text into a table, by a map of their columns."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from functools import partial

import polars as pl
import pyarrow as pa

from tidytape.errors import QueryError
from tidytape.lake._amount_units import CountedUnit, documented, of_mapped
from tidytape.lake._dedupe import with_ids
from tidytape.lake._tables import LIQUIDATIONS, OPEN_INTEREST, RECORDED_CANDLES, TRADES
from tidytape.lake.ingest._column_map import ColumnMap
from tidytape.lake.ingest._columns import (
    BELOW_ZERO,
    INSTEAD_OF_SIDE,
    column_of,
    is_needed,
    is_time,
    kind_of,
    known_columns,
)
from tidytape.lake.ingest._fields import ABOVE_ZERO, Field, Kind, checked, impossible, time
from tidytape.lake.ingest._layout import Job, Parsed
from tidytape.lake.ingest._mapped import Mapped
from tidytape.lake.ingest._time import DATE, ISO, unit_of


class MappedRows:
    """Puts the rows of one file into their table.

    Parameters
    ----------
    layout : Mapped
        The table, the map, and how times are written.
    job : Job
        The file, and what the caller says about it.
    header : sequence of str
        Names of the file's columns, in order.
    parsed : Parsed
        Takes the rows.

    Raises
    ------
    QueryError
        If the map names a column that does not exist, or a needed column is not mapped.
    """

    def __init__(self, layout: Mapped, job: Job, header: Sequence[str], parsed: Parsed) -> None:
        self.layout = layout
        self.job = job
        self.table = layout.of
        self.parsed = parsed
        self.header = list(header)
        self.constants = {
            name: value
            for name, value in {
                "exchange": job.exchange,
                "raw_symbol": job.raw_symbol,
                "coin": job.market.coin,
                "interval": layout.candle_length,
            }.items()
            if value is not None and name in self.table.names
        }
        self.mapped = ColumnMap(layout, job, self.header, self.constants).columns()
        # The caller's exchange replaces a column of exchanges, which must then name only one exchange.
        self._replaced_exchange = (
            "exchange" in self.constants
            and self.header.count("exchange") == 1
            and "exchange" not in self.mapped.values()
        )
        memory = {} if parsed.piece is None else parsed.piece.memory
        self._exchanges: set[str] = memory.setdefault("exchanges", set())
        self.units: dict[str, str] = memory.setdefault("units", {})
        # None until the first rows show it; a log that grows begins with its oldest trade.
        self.newest_first: bool | None = None if parsed.piece is None else False
        self.by_id = self.table is TRADES and "id" in self.mapped and memory.get("by_id", True)
        self._memory = memory
        self.before = 0
        parsed.amount_unit = partial(_amount_unit, self._exchanges, job.market.category)
        parsed.time_unit = layout.time_of("timestamp")

    @classmethod
    def of_arrow(cls, layout: Mapped, job: Job, schema: pa.Schema, parsed: Parsed) -> MappedRows:
        """Return an object that takes rows of Arrow data; QueryError also for times whose zone is unknown."""
        # Lists and structs are left out, because none of our columns is one.
        names = [field.name for field in schema if not pa.types.is_nested(field.type)]
        rows = cls(layout, job, names, parsed)
        for column, name in rows.mapped.items():
            _refuse_naive(layout.time_of(column), schema.field(name), job.path.name)
        return rows

    @property
    def used(self) -> list[str]:
        """The file's columns that are read, in the file's order."""
        used = {*self.mapped.values(), *(["exchange"] if self._replaced_exchange else [])}
        return [name for name in self.header if name in used]

    def take_arrow(self, batch: pa.RecordBatch | pa.Table) -> None:
        """Take some rows of Arrow data, which must have the columns `used`."""
        frame = pl.DataFrame(batch.select(self.used))
        line = pl.int_range(self.before + 1, self.before + frame.height + 1, dtype=pl.Int64).alias("line")
        texts = {name: _as_text(name, frame.schema[name]) for name in self.used}
        null_text = pl.lit(None, pl.String)
        self.take(frame.select(line, *(texts.get(name, null_text.alias(name)) for name in self.header)))
        self.before += frame.height
        self.parsed.lines += frame.height

    def take(self, rows: pl.DataFrame) -> None:
        """Take some rows: ``line`` and one column of text per column of the file, in the file's order."""
        if rows.is_empty():
            return
        columns = dict(zip(self.header, rows.columns[1:], strict=False))
        if self._replaced_exchange:
            self._require_one_exchange(rows[columns["exchange"]])
        texts = rows.select(
            "line", *(pl.col(columns[name]).alias(column) for column, name in self.mapped.items())
        )
        constants = {name: pl.lit(value) for name, value in self.constants.items() if name not in self.mapped}
        events = self.parsed.bad.take(checked(texts, self._fields(texts))).with_columns(**constants)
        if "raw_symbol" in self.mapped:
            noun = "trade" if self.table is TRADES else "row"
            events = self.parsed.only(events, self.job.raw_symbol, others=f"{noun} of another market")
        if self.table is RECORDED_CANDLES:
            events = self.parsed.bad.take(impossible(events))
        if not events.is_empty():
            self._put(events)

    def _require_one_exchange(self, names: pl.Series) -> None:
        """Raise QueryError if a column names several exchanges, whose markets the caller's name would merge."""
        self._exchanges |= set(names.drop_nulls().unique()) - {""}
        if len(self._exchanges) > 1:
            exchanges = ", ".join(sorted(self._exchanges)[:5])
            raise QueryError(
                "exchange",
                got=self.constants["exchange"],
                expected=f"rows of one exchange; column exchange of {self.job.path.name} has {exchanges}",
            )

    def _put(self, events: pl.DataFrame) -> None:
        """Add checked rows to the batch of their table, with the columns that tidytape computes."""
        if self.newest_first is None:
            self.newest_first = self.table is TRADES and events["timestamp"][0] > events["timestamp"][-1]
        if self.by_id:
            self.by_id = _are_integers(events["id"])
        other_side = INSTEAD_OF_SIDE.get(self.table.name, "side")
        table_rows = events.rename({other_side: "side"}, strict=False)
        if self.table in (TRADES, LIQUIDATIONS):
            if "quote_amount" not in table_rows.columns:
                table_rows = table_rows.with_columns(quote_amount=pl.col("price") * pl.col("amount"))
            if "id" not in table_rows.columns:
                table_rows = with_ids(table_rows, self.parsed.before(self.table))
        if "sequence" in self.table.names:
            line = pl.col("line")
            table_rows = table_rows.with_columns(sequence=-line if self.newest_first else line)
        frame = self.table.conform(table_rows)
        if self.table is OPEN_INTEREST and "price" in table_rows.columns:
            frame = frame.with_columns(table_rows["price"])
        self.parsed.batch(self.table).add(frame)

    def finish(self) -> None:
        """Set, after the last row, what orders the events of one timestamp."""
        self._memory["by_id"] = self.by_id
        if self.by_id:
            self.parsed.batch(TRADES).order_by_id()
        elif self.table in (TRADES, LIQUIDATIONS):
            self.parsed.batch(self.table).counted = True

    def _fields(self, texts: pl.DataFrame) -> dict[str, Field]:
        fields = {}
        for name, name_in_file in self.mapped.items():
            column = column_of(self.table, name)
            kind = self._time(texts[name]) if is_time(column) else kind_of(self.table, name, column)
            if column is not None and name == "price" and self.job.market.category not in BELOW_ZERO:
                kind = ABOVE_ZERO
            fields[name] = Field(name_in_file, kind, needed=column is None or is_needed(self.table, column))
        return fields

    def _time(self, texts: pl.Series) -> Kind:
        """Return the kind of the times of a column; once the unit is known, it holds for the whole file."""
        name = texts.name
        unit = self.units.get(name) or self.layout.time_of(name) or unit_of(texts)
        if unit is not None:
            self.units[name] = unit
            if name == "timestamp":
                self.parsed.time_unit = unit
        # The unit stays unknown if no text of this block is a time; a later block may show it.
        hint = "time_unit (--time-unit) or time_format (--time-format) says how times are written"
        return time(unit or ISO, hint=hint)


def _are_integers(ids: pl.Series) -> bool:
    """Return whether all ids are integers of 64 bits without leading zeros, so that equal numbers are equal ids."""
    numbers = ids.str.extract(r"^(0|[1-9]\d{0,18})$").cast(pl.Int64, strict=False)
    return not numbers.is_null().any()


def _amount_unit(
    exchanges: Collection[str], category: str | None, table: str, exchange: str, raw_symbol: str
) -> CountedUnit | None:
    """Return the unit of amounts: by the file's name of the exchange if that is known, else by the caller's name."""
    unit = of_mapped(table, exchange, raw_symbol, category)
    for name in exchanges:  # there is at most one
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
    """Put rows of text into a table. Call it once per file and table.

    Values are checked as in a ``csv`` file. A row with a wrong value is a bad line of ``parsed``.

    Parameters
    ----------
    texts : polars.DataFrame, one row per event, or iterable of them
        ``line``, the number of the line, and columns of text by our names, the same in each frame; a column
        ``raw_symbol`` names the market of each row. Columns that the table does not have are ignored.
    rows_are : Csv
        The table, how times are written, and the length of candles.
    job : Job
        The file, and what the caller says about it.
    parsed : Parsed
        Takes the rows.
    exchange : str, optional
        The exchange of the rows, unless the caller names it.

    Raises
    ------
    QueryError
        If a column is missing, or if neither caller nor rows name the exchange or the market.
    """
    job = job.of(exchange=job.exchange or exchange)
    rows: MappedRows | None = None
    for frame in [texts] if isinstance(texts, pl.DataFrame) else texts:
        if rows is None:
            names = frame.columns[1:]
            known_names = known_columns(rows_are.of)
            layout = replace(rows_are, columns={name: name for name in names if name in known_names})
            rows = MappedRows(layout, job, names, parsed)
        rows.take(frame)
    if rows is not None:
        rows.finish()


def _refuse_naive(unit: str | None, field: pa.Field, file: str) -> None:
    """Raise QueryError if times have no zone, or no time of day, and the caller does not say what they mean."""
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
    """Return a column as text; times become ISO 8601 in UTC."""
    column = pl.col(name)
    if not isinstance(dtype, pl.Datetime):
        return column.cast(pl.String).alias(name)
    utc = column.dt.convert_time_zone("UTC") if dtype.time_zone else column.dt.replace_time_zone("UTC")
    return utc.dt.strftime("%Y-%m-%dT%H:%M:%S%.9fZ").alias(name)
