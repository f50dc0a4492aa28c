"""Put rows of text into a table, by a map of their columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any

import polars as pl
import pyarrow as pa

from tidytape.errors import IngestError, QueryError
from tidytape.lake._amount_units import CountedUnit, documented, of_mapped
from tidytape.lake._dedupe import with_ids
from tidytape.lake._tables import (
    FUNDING,
    LIQUIDATIONS,
    OPEN_INTEREST,
    OPTION_QUOTES,
    RECORDED_CANDLES,
    TRADES,
)
from tidytape.lake.ingest._column_map import NAMES_OF_MARKETS, ColumnMap, folded
from tidytape.lake.ingest._columns import (
    BELOW_ZERO,
    INSTEAD_OF_SIDE,
    column_of,
    is_needed,
    is_time,
    kind_of,
    known_columns,
)
from tidytape.lake.ingest._decode import Block, Header, Rows
from tidytape.lake.ingest._fields import (
    ABOVE_ZERO,
    LENGTHS,
    Field,
    Kind,
    all_good,
    checked,
    impossible,
    time,
)
from tidytape.lake.ingest._layout import Job, Parsed
from tidytape.lake.ingest._mapped import BY_ROWS, Mapped
from tidytape.lake.ingest._session_dates import on_utc_days, with_allowed_starts
from tidytape.lake.ingest._time import DATE, ISO, Zone, from_epoch, unit_of
from tidytape.times import MINUTE, SECOND


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
        # A column without a name, or with that of another, is called by its place.
        self.header = [
            name if name and list(header).count(name) == 1 else f"#{place}"
            for place, name in enumerate(header, 1)
        ]
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
        stated_length = job.market.funding_nanoseconds if self.table is FUNDING else None
        self._length_by_rows = (
            _LENGTHS.get(self.table.name) if layout.interval == BY_ROWS and not stated_length else None
        )
        if self._length_by_rows is not None:
            self.constants[self._length_by_rows] = BY_ROWS
        self.mapped = ColumnMap(layout, job, self.header, self.constants).columns()
        # The caller's exchange replaces a column of exchanges, which must then name only one exchange.
        self._replaced_exchange = (
            "exchange" in self.constants
            and self.header.count("exchange") == 1
            and ("exchange",) not in self.mapped.values()
            and (layout.columns or {}).get("exchange") != ""
        )
        # The caller names the market, so other columns that may name it must not name several.
        self._names_of_markets = [
            name
            for name in self.header
            if "raw_symbol" in self.constants
            and "raw_symbol" not in {*self.mapped, *(layout.columns or {})}
            and folded(name) in NAMES_OF_MARKETS
        ]
        memory = {} if parsed.piece is None else parsed.piece.memory
        self._symbols: set[str] = memory.setdefault("symbols", set())
        self._exchanges: set[str] = memory.setdefault("exchanges", set())
        self.units: dict[str, str] = memory.setdefault("units", {})
        # None until the first rows show it; a log that grows begins with its oldest trade.
        self.newest_first: bool | None = None if parsed.piece is None else False
        self.by_id = self.table is TRADES and "id" in self.mapped and memory.get("by_id", True)
        self._memory = memory
        self.before = 0
        self._words = {
            column: {
                text.lower(): None if meaning == _UNKNOWN else meaning for text, meaning in words.items()
            }
            for column, words in (layout.words or {}).items()
        }
        self._doubtful = dict.fromkeys(_DOUBTFUL, (0, 0))
        parsed.amount_unit = self._amount_unit
        parsed.is_described = (layout.counted or layout.documented_by) is not None
        parsed.time_unit = layout.time_of("timestamp")

    @classmethod
    def of_arrow(cls, layout: Mapped, job: Job, schema: pa.Schema, parsed: Parsed) -> MappedRows:
        """Return an object that takes rows of Arrow data; QueryError also for times whose zone is unknown."""
        # Lists and structs are left out, because none of our columns is one.
        names = [
            field.name
            for field in schema
            if field.name and schema.names.count(field.name) == 1 and not pa.types.is_nested(field.type)
        ]
        rows = cls(layout, job, names, parsed)
        for column, parts in rows.mapped.items():
            for name in rows.named(parts):
                _refuse_naive(layout, column, schema.field(name), job.path.name)
        return rows

    def named(self, parts: Iterable[str]) -> list[str]:
        """Return the parts of a column that are columns of the file, and not texts in quotes."""
        return [part for part in parts if part in self.header]

    @property
    def used(self) -> list[str]:
        """The file's columns that are read, in the file's order."""
        used = {*chain.from_iterable(self.mapped.values()), *self.layout.where, *self._names_of_markets}
        if self._replaced_exchange:
            used.add("exchange")
        return [name for name in self.header if name in used]

    def take_arrow(self, batch: pa.RecordBatch | pa.Table) -> None:
        """Take some rows of Arrow data, which must have the columns `used`."""
        frame = pl.DataFrame(batch.select(self.used))
        line = pl.int_range(self.before + 1, self.before + frame.height + 1, dtype=pl.Int64).alias("line")
        texts = {name: _as_text(name, frame.schema[name]) for name in self.used}
        rows = frame.select(line, *(texts | self._numbers(frame.schema)).values())
        events = (
            None if self.layout.where else all_good(*self._texts(rows, {name: name for name in self.used}))
        )
        if events is None:
            null_text = pl.lit(None, pl.String)
            self.take(frame.select(line, *(texts.get(name, null_text.alias(name)) for name in self.header)))
        else:
            self._take_good(events)
        self.before += frame.height
        self.parsed.lines += frame.height

    def _numbers(self, schema: pl.Schema) -> dict[str, pl.Expr]:
        """Return the columns of Arrow data whose numbers are those that their texts stand for."""
        numbers = {}
        for name, (column, dtype) in self._as_they_are().items():
            stored, number = schema[name], pl.col(name)
            is_in_utc = getattr(stored, "time_zone", None) is not None or self.layout.zone == Zone()
            if isinstance(stored, pl.Datetime) and is_in_utc and self._known_unit(column) in {None, ISO}:
                numbers[name] = number
            # Not of 32 bits: the nearest number of 64 bits is another than that of its text.
            elif dtype is not pl.String and (
                stored == dtype or (stored.is_integer() and stored != pl.UInt64)
            ):
                numbers[name] = number.cast(dtype)
        return numbers

    def _as_they_are(self) -> dict[str, tuple[str, type[pl.DataType]]]:
        """Return our column, and what it can be read as, by the columns of the file whose texts are not changed."""
        uses = [*chain.from_iterable(self.mapped.values()), *self._names_of_markets]
        changed = {*self.layout.rewrites, *self.layout.divisors, *self._words}
        columns = {}
        for column, (name, *others) in self.mapped.items():
            if others or name not in self.header or uses.count(name) > 1 or column in changed:
                continue
            definition = column_of(self.table, column)
            unit = self._known_unit(column) or "ns"
            kind = time(unit) if is_time(definition) else kind_of(self.table, column, definition)
            columns[name] = column, kind.dtype
        return columns

    def take_block(self, block: Block[Header]) -> None:
        """Take the rows of a block of a delimited file."""
        as_they_are = self._as_they_are()
        columns = {name: f"c{place}" for place, name in enumerate(self.header) if name in self.used}
        dtypes = {columns[name]: as_they_are.get(name, ("", pl.String))[1] for name in columns}
        rows_of = partial(self._texts, columns=columns)
        events = None if self.layout.where else block.all_good(dtypes, rows_of)
        if events is None:
            self.take(block.texts(dtypes))
        else:
            self._take_good(events)

    def _texts(self, rows: pl.DataFrame, columns: Mapping[str, str]) -> Rows:
        """Return our columns of some rows, and what they hold; ``columns`` are the frame's names of the file's."""
        self._require_one_of_each(rows, columns)
        texts = rows.select("line", *(self._joined(column, columns) for column in self.mapped))
        return texts, self._fields(texts)

    def take(self, rows: pl.DataFrame) -> None:
        """Take some rows: ``line`` and one column of text per column of the file, in the file's order."""
        if rows.is_empty():
            return
        columns = dict(zip(self.header, rows.columns[1:], strict=False))
        for name, pattern in self.layout.where.items():
            if name in columns:
                others = rows.filter(~pl.col(columns[name]).fill_null("").str.contains(pattern))
                self.parsed.ignore(f"row of another {name}", others.height)
                rows = (
                    rows.join(others, on="line", how="anti", maintain_order="left") if others.height else rows
                )
        texts, fields = self._texts(rows, columns)
        events = checked(texts, fields)
        if self.table is RECORDED_CANDLES and events["reason"].null_count() < events.height:
            events = checked(self._with_values(texts), fields)
        self._take_good(self.parsed.bad.take(events))

    def _take_good(self, events: pl.DataFrame) -> None:
        """Take the values of rows without a wrong one."""
        if events.is_empty():
            return
        if self._length_by_rows is not None and self.constants[self._length_by_rows] == BY_ROWS:
            self.constants[self._length_by_rows] = _step(events, self._length_by_rows, self.job)
        constants = {name: pl.lit(value) for name, value in self.constants.items() if name not in self.mapped}
        events = self._divided(events).with_columns(**constants)
        if self.table is OPTION_QUOTES and "raw_symbol" not in events.columns:
            events = events.with_columns(_OPTION_NAME)
        if "raw_symbol" in self.mapped:
            noun = "trade" if self.table is TRADES else "row"
            events = self.parsed.only(events, self.job.raw_symbol, others=f"{noun} of another market")
        if self.table is RECORDED_CANDLES:
            if self.layout.stamped == "end":
                events = events.with_columns(timestamp=_start_of(pl.col("timestamp"), pl.col("interval")))
            if (session := self.job.market.stated_session) is not None:
                events = with_allowed_starts(impossible(on_utc_days(events, session)), session)
            else:
                events = impossible(events)
            events = self.parsed.bad.take(events)
        if not events.is_empty():
            self._put(self._in_our_units(events))

    def _joined(self, column: str, columns: Mapping[str, str]) -> pl.Expr:
        """Return the text of one of our columns; ``columns`` are the names of the file's columns in the frame."""
        parts = [
            pl.col(columns[part]) if part in columns else pl.lit(part.strip("'"))
            for part in self.mapped[column]
        ]
        is_time_column = is_time(column_of(self.table, column))
        text = parts[0] if len(parts) == 1 else pl.concat_str(parts, separator=" " if is_time_column else "-")
        if column in self.layout.rewrites:
            text = text.str.replace(*self.layout.rewrites[column])
        if words := self._words.get(column):
            text = text.str.to_lowercase().replace(words)
        if column in self.layout.divisors:
            is_price = (text != _NO_PRICE) & ~text.str.contains(".", literal=True)
            text = pl.when(is_price).then(text)
        return text.alias(column)

    def _with_values(self, texts: pl.DataFrame) -> pl.DataFrame:
        """Return the candles, and count those without prices or volume: without trades, or still open."""
        prices = [pl.col(name) for name in ("open", "high", "low", "close") if name in self.mapped]
        volume = [pl.col("volume")] if "volume" in self.mapped else []
        is_empty = pl.any_horizontal(text.is_in(_NONE) for text in (*prices, *volume)) | pl.all_horizontal(
            text.fill_null("") == "" for text in prices
        )
        candles = texts.filter(~is_empty.fill_null(value=False))
        self.parsed.ignore("candle without prices or volume", texts.height - candles.height)
        return candles

    def _in_our_units(self, events: pl.DataFrame) -> pl.DataFrame:
        """Return rates as fractions and volatilities in percent, and count values whose unit is doubtful."""
        for column, (parameter, is_doubtful) in _DOUBTFUL.items():
            if column not in self.mapped:
                continue
            unit = getattr(self.layout, parameter)
            if unit is None:
                values = events[column].drop_nulls()
                doubtful, count = self._doubtful[column]
                is_one = values.to_frame().select(is_doubtful(pl.col(column)).sum()).item()
                self._doubtful[column] = doubtful + is_one, count + len(values)
            elif unit == "decimal":
                events = events.with_columns(pl.col(column) * 100)
            elif column == "rate" and unit == "percent":
                events = events.with_columns(pl.col(column) / 100)
        return events

    def _divided(self, events: pl.DataFrame) -> pl.DataFrame:
        """Return the rows with numbers divided as the caller says; IngestError if they are too small for that."""
        for name in sorted({*self.layout.divisors} & {*self.mapped}):
            divisor = self.layout.divisors[name]
            usual: Any = events[name].abs().median() or _FEWEST
            if divisor == _BILLION and float(usual) < _FEWEST:
                raise IngestError(
                    f"{self.job.path}: the {name} {events[name][0]:g} is too small for a number of billionths; is it "
                    "the price itself?",
                    path=str(self.job.path),
                )
            events = events.with_columns(pl.col(name) / divisor)
        return events

    def _require_one_of_each(self, rows: pl.DataFrame, columns: Mapping[str, str]) -> None:
        """Raise QueryError if the rows are of several exchanges or markets, which the caller's name would merge."""
        if self._replaced_exchange:
            self._require_one_exchange(rows[columns["exchange"]])
        for name in self._names_of_markets:
            self._require_one_market(name, rows[columns[name]])

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

    def _require_one_market(self, column: str, symbols: pl.Series) -> None:
        """Raise QueryError if a column that nobody mapped names several markets, which would become one."""
        self._symbols |= set(symbols.drop_nulls().unique()) - {""}
        if len(self._symbols) > 1:
            shown = ", ".join(sorted(self._symbols)[:5])
            raise QueryError(
                "columns",
                got=self.layout.columns or None,
                expected=f"``raw_symbol`` mapped to column {column} of {self.job.path.name}, which names {shown}",
                hint=f"try ``columns={dict(self.layout.columns or {}) | {'raw_symbol': column}}``; an empty name says "
                "that it names no markets",
            )

    def _put(self, events: pl.DataFrame) -> None:
        """Add checked rows to the batch of their table, with the columns that tidytape computes."""
        if self.newest_first is None:
            self.newest_first = self.table is TRADES and events["timestamp"][0] > events["timestamp"][-1]
        number = _integers(events["id"]) if self.by_id else None
        self.by_id = number is not None
        other_side = INSTEAD_OF_SIDE.get(self.table.name, "side")
        table_rows = events.rename({other_side: "side"}, strict=False)
        if self.table in (TRADES, LIQUIDATIONS):
            if "side" not in table_rows.columns:
                table_rows = table_rows.with_columns(side=pl.lit(None, pl.String))
            if "quote_amount" not in table_rows.columns:
                table_rows = table_rows.with_columns(quote_amount=pl.col("price") * pl.col("amount"))
            if "id" not in table_rows.columns:
                table_rows = with_ids(table_rows, self.parsed.before(self.table))
        if "sequence" in self.table.names:
            line = pl.col("line")
            table_rows = table_rows.with_columns(sequence=-line if self.newest_first else line)
        frame = self.table.conform(table_rows)
        if self.table is TRADES:
            # Until the last row nobody knows whether the lines order the trades.
            frame = frame.with_columns(number if number is not None else "sequence", _line="sequence")
        if self.table is OPEN_INTEREST and "price" in table_rows.columns:
            frame = frame.with_columns(table_rows["price"])
        self.parsed.batch(self.table).add(frame)

    def _amount_unit(self, table: str, exchange: str, raw_symbol: str) -> CountedUnit | None:
        """Return the unit of amounts: the kind's, else the file's exchange shows it, else the caller's."""
        if self.layout.counted is not None:
            return self.layout.counted
        if self.layout.documented_by is not None:
            return documented(self.layout.documented_by, raw_symbol, table, otherwise=None)
        unit = of_mapped(table, exchange, raw_symbol, self.job.market.category)
        for name in self._exchanges:  # there is at most one
            unit = documented(name, raw_symbol, table, otherwise=unit)
        return unit

    def finish(self) -> None:
        """Set, after the last row, what orders the events of one timestamp; QueryError if a unit is doubtful."""
        for column, (doubtful, count) in self._doubtful.items():
            if 2 * doubtful > count and self.parsed.piece is None:
                raise _doubtful_unit(column, self.job)
        self._memory["by_id"] = self.by_id
        if self.table in (TRADES, LIQUIDATIONS) and not self.by_id:
            batch = self.parsed.batch(self.table)
            batch.counted = True
            if self.table is TRADES:
                batch.change(lambda rows: rows.with_columns(sequence="_line"))

    def _fields(self, texts: pl.DataFrame) -> dict[str, Field]:
        fields = {}
        for name, parts in self.mapped.items():
            column = column_of(self.table, name)
            kind = self._time(texts[name]) if is_time(column) else kind_of(self.table, name, column)
            if column is not None and name == "price" and self.job.market.category not in BELOW_ZERO:
                kind = ABOVE_ZERO
            is_known = None not in self._words.get(name, {}).values()
            needed = (column is None or is_needed(self.table, column)) and is_known
            fields[name] = Field("+".join(parts), kind, needed=needed)
        return fields

    def _time(self, texts: pl.Series) -> Kind:
        """Return the kind of the times of a column; once the unit is known, it holds for the whole file."""
        name = texts.name
        stored = texts.dtype
        unit = self._known_unit(name) or (ISO if isinstance(stored, pl.Datetime) else unit_of(texts))
        if unit is not None:
            self.units[name] = unit
            if name == "timestamp":
                self.parsed.time_unit = unit
        # The unit stays unknown if no text of this block is a time; a later block may show it.
        hint = "time_unit (--time-unit) or time_format (--time-format) says how times are written"
        # Numbers of which none is a time in any unit are none in nanoseconds either.
        kind = time(unit or (ISO if stored == pl.String else "ns"), self.layout.zone, hint=hint)
        if isinstance(stored, pl.Datetime):
            step = stored.time_unit
            kind = replace(kind, number=lambda time: from_epoch(time.to_physical(), step), dtype=pl.Int64)
        return kind

    def _known_unit(self, column: str) -> str | None:
        """Return how the times of one of our columns are written, if the caller or earlier rows say it."""
        return self.units.get(column) or self.layout.time_of(column)


def _integers(ids: pl.Series) -> pl.Series | None:
    """Return ids as ``sequence`` if all are integers of 64 bits without leading zeros, so that equal numbers are equal.

    It returns None otherwise.
    """
    numbers = ids.cast(pl.Int64, strict=False).alias("sequence")
    is_written_so = (numbers.cast(pl.String) == ids) & (numbers >= 0)
    return numbers if is_written_so.fill_null(value=False).all() else None


_UNKNOWN = "none"
"""The meaning that a caller gives to a word for unknown."""
_NONE = ("null", "NULL", "NaN", "nan", "None", "N/A", "NA", "-", "9223372036854775807")
"""Words for no value."""
_BILLION = 1e9
_FEWEST = 1e6
"""Least median of prices in billionths; below it they would be less than a thousandth."""
_NO_PRICE = "9223372036854775807"
"""The integer of 64 bits that stands for no price, where prices are integers."""
_DOUBTFUL: Mapping[str, tuple[str, Callable[[pl.Expr], pl.Expr]]] = {
    "implied_volatility": ("volatility_unit", lambda percent: percent < 5),
    "rate": ("rate_unit", lambda fraction: fraction.abs() >= 0.005),
}
"""Columns whose unit is doubtful if most values are as these functions say, and the option that states the unit."""


def _doubtful_unit(column: str, job: Job) -> QueryError:
    parameter, _ = _DOUBTFUL[column]
    expected = {
        "implied_volatility": "percent or decimal: most volatilities of {} are below 5, as decimals are",
        "rate": "fraction or percent: most rates of {} are 0.005 or more, which is 0.5 % as a fraction",
    }[column]
    return QueryError(parameter, got=None, expected=expected.format(job.path.name))


_OPTION_NAME = pl.concat_str(
    pl.col("coin"),
    pl.from_epoch("expiry", time_unit="ns").dt.strftime("%y%m%d"),
    pl.col("strike").cast(pl.String).str.strip_suffix(".0"),
    pl.col("option_type").str.head(1),
    separator="-",
).alias("raw_symbol")
"""The name of an option whose file has none: BTC-240927-60000-C."""


_LENGTHS = {RECORDED_CANDLES.name: "interval", FUNDING.name: "funding_interval"}
_FEWEST_STEPS = 2


def _step(rows: pl.DataFrame, parameter: str, job: Job) -> int:
    """Return the length that the steps between rows show: that of most candles, of all settlements to the minute. [ns]

    Raises
    ------
    QueryError
        If they show none.
    """
    step = pl.col("timestamp").diff()
    steps = rows.sort("timestamp").select(step.over("raw_symbol") if "raw_symbol" in rows.columns else step)
    if parameter == "funding_interval":
        steps = steps.with_columns(pl.col("timestamp").add(MINUTE // 2) // MINUTE * MINUTE)
    lengths = steps.to_series().drop_nulls()
    least = lengths.min() if len(lengths) >= _FEWEST_STEPS else 0
    count = (lengths == least).sum()
    is_of_all, is_of_most = count == len(lengths), 2 * count > len(lengths)
    is_shown = is_of_all if parameter == "funding_interval" else is_of_most and least in LENGTHS.values()
    if not is_shown or not isinstance(least, int) or least <= 0:
        raise QueryError(
            parameter,
            got=None,
            expected=f"the length of the intervals of {job.path.name}, e.g. 1h: the steps of its rows do not show it",
        )
    return least


def _start_of(end: pl.Expr, interval: pl.Expr) -> pl.Expr:
    """Return the start of a candle from its end, which may be up to a second early. [ns]"""
    missing = -end % interval
    return end + pl.when(missing <= SECOND).then(missing).otherwise(0) - interval


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


def _refuse_naive(layout: Mapped, column: str, field: pa.Field, file: str) -> None:
    """Raise QueryError if times have no zone, or no time of day, and the caller does not say what they mean."""
    unit = layout.time_of(column)
    if unit == ISO or (layout.time_zone is not None and not pa.types.is_date(field.type)):
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
    """Return a column as text; times become ISO 8601, in UTC if they have a zone."""
    column = pl.col(name)
    if not isinstance(dtype, pl.Datetime):
        return column.cast(pl.String).alias(name)
    if dtype.time_zone is None:
        return column.dt.strftime("%Y-%m-%dT%H:%M:%S%.9f").alias(name)
    return column.dt.convert_time_zone("UTC").dt.strftime("%Y-%m-%dT%H:%M:%S%.9fZ").alias(name)
