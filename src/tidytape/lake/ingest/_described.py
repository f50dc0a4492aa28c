"""Recognise the kind of a file, and read it as the kind's `Description` says."""

from __future__ import annotations

import csv
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from tidytape.catalogue import Category
from tidytape.errors import IngestError, QueryError
from tidytape.lake._batch import Spool
from tidytape.lake._symbols import QUOTES, guessed
from tidytape.lake._tables import RECORDED_CANDLES, TABLES, TRADES, Table
from tidytape.lake.ingest._column_map import plain, suggested_map
from tidytape.lake.ingest._columns import (
    CONSTANT_COLUMNS,
    EVENTS,
    INSTEAD_OF_SIDE,
    known_columns,
    needed_columns,
)
from tidytape.lake.ingest._exchange_names import EXCHANGES, PARTS
from tidytape.lake.ingest._fields import LENGTHS
from tidytape.lake.ingest._layout import Job, Layout, Parsed, Progress, nothing_to_choose
from tidytape.lake.ingest._mapped import BY_ROWS, Mapped
from tidytape.lake.ingest._market import Market, option
from tidytape.lake.ingest._own_files import DELIMITERS, Csv, Feather, Json, Parquet, is_row
from tidytape.lake.ingest._report import Note
from tidytape.times import MINUTE

if TYPE_CHECKING:
    from tidytape.lake.ingest._descriptions import Description

_PREAMBLE = 3
"""Most lines before a header."""


@dataclass(frozen=True, kw_only=True)
class Auto(Layout):
    """Files whose layout can be recognised by their names and first lines.

    Parameters
    ----------
    interval, time_unit, time_zone, time_format, stamped, security, volatility_unit, rate_unit
        Facts that a file may not show, see `Csv` and `Lean`; an error asks for those that it needs.
    """

    name = "auto"
    follows = True
    amounts: ClassVar[Mapping[str, str]] = {}

    interval: str | None = option("Length of candles, if the file does not show it, e.g. 1h.")
    time_unit: str | None = option("Unit of times that no kind tells: iso, date, epoch, s, ms, us or ns.")
    time_zone: str | None = option("Zone of times without an offset, e.g. America/New_York+7h.")
    time_format: str | None = option("Format of times that no kind tells, e.g. '%d-%m-%Y %H:%M'.")
    stamped: str | None = option("Time of candles: start or end.")
    security: str | None = option("What files of LEAN are of, e.g. equity.")
    volatility_unit: str | None = option("Unit of implied volatilities: percent or decimal.")
    rate_unit: str | None = option("Unit of funding rates: fraction or percent.")

    @property
    def stated(self) -> dict[str, str]:
        """The facts that the caller states."""
        facts = {attribute.name: getattr(self, attribute.name) for attribute in fields(self)}
        return {name: fact for name, fact in facts.items() if fact is not None}

    def with_facts(self, layout: Layout) -> Layout:
        """Return the layout of a file with the caller's facts; QueryError if it does not use one."""
        if isinstance(layout, Described):
            return replace(layout, stated=self.stated)
        kind: Any = layout
        options = {attribute.name for attribute in fields(kind)} if is_dataclass(kind) else set[str]()
        for name, fact in self.stated.items():
            if name not in options:
                raise nothing_to_choose(name, fact, layout.files)
        return replace(kind, **self.stated) if self.stated else layout

    def read(self, job: Job, spool: Spool, progress: Progress) -> Parsed:
        """Raise: a file is read by the layout that is recognised."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class Described(Layout):
    """A file of a kind that a description tells.

    Parameters
    ----------
    description : Description
        Its kind.
    where : str
        Its path, and the name of the file in the archive.
    skip_lines : int
        Number of lines before its header.
    row : str
        Its first row.
    stated : mapping of str to str
        Facts that the caller states, by option of `Mapped`.
    """

    description: Description
    where: str = ""
    skip_lines: int = 0
    row: str = ""
    stated: Mapping[str, str] = field(default_factory=dict, hash=False)

    amounts: ClassVar[Mapping[str, str]] = {}

    @property
    def name(self) -> str:  # type: ignore[override]  # of the kind
        """The kind, in reports and in the sources that a lake notes."""
        return self.description.title

    @property
    def files(self) -> str:
        """What an error calls files of this kind."""
        return self.description.title

    def identity(self, market: Market) -> dict[str, Any]:
        """Return what changes which rows are read."""
        groups = self.description.groups(self.where, self.row)
        market = self._market(market, groups)
        return {
            "stated": dict(self.stated),
            "skip_lines": self.skip_lines,
            "named": {name: getattr(market, name) for name in _TOLD if getattr(market, name) is not None},
            "read": [self._layout(layout, groups).identity(market) for layout in self.description.reads],
        }

    def require_used(self, market: Market) -> None:
        """Do nothing: each of the kind's layouts checks it."""

    def read(self, job: Job, spool: Spool, progress: Progress) -> Parsed:
        """Read one file as its kind says; QueryError if the caller must state a fact."""
        description = self.description
        if description.refusal:
            raise IngestError(f"{job.path}: {description.title}: {description.refusal}", path=str(job.path))
        if _NOT_TRADED.search(self.where) and any(
            layout.of is RECORDED_CANDLES for layout in description.reads
        ):
            raise IngestError(
                f"{job.path}: mark or index prices by its name: they are not traded, and the lake has no table for "
                "them",
                path=str(job.path),
            )
        groups = description.groups(self.where, self.row)
        job = replace(job, market=self._market(job.market, groups))
        parsed: Parsed | None = None
        for layout in description.reads:
            layout = self._layout(layout, groups)  # noqa: PLW2901
            self._ask(job, layout)
            layout.require_used(job.market)
            read = layout.read(job, spool, progress if parsed is None else lambda _: None)
            if parsed is None:
                parsed = read
            else:
                for batch in read.batches:
                    parsed.batch(batch.table).parts += batch.parts
        assert parsed is not None  # a description without a refusal has a layout
        _require_likely(description, parsed, job)
        parsed.kind = groups["kind"].lower() if "kind" in groups else description.kind
        for exchange, raw_symbol in {name[:2] for batch in parsed.batches for name in batch.markets}:
            category = job.market.category or _class_of(description.classes, raw_symbol)
            parsed.markets[exchange, raw_symbol] = replace(job.market, category=category)
            parsed.futures |= category in {Category.PERPETUAL, Category.FUTURE}
        rows = sum(batch.rows for batch in parsed.batches)
        parsed.notes.append(Note("row", f"read as {description.title}", rows))
        return parsed

    def _market(self, market: Market, groups: Mapping[str, str]) -> Market:
        """Return the facts of the market: the caller's, else those in the name of the file, else those of its kind."""
        facts = dict(self.description.market)
        if "exchange" in groups:
            facts["exchange"] = EXCHANGES.get(groups["exchange"].lower(), groups["exchange"].upper())
        elif _is_of_another(facts.get("exchange"), self.where):
            del facts["exchange"]
        if "coin" in groups:
            facts["coin"] = groups["coin"].upper()
        if "class" in groups:
            facts["category"] = {"PERP": "PERPETUAL", "FTS": "FUTURE"}.get(groups["class"], groups["class"])
        if facts.get("category") == Category.PERPETUAL and "exchange" in facts:
            exchange = facts["exchange"]
            facts["exchange"] = PARTS.get(exchange, {}).get("contract", exchange)
        if "raw_symbol" not in {
            column for layout in self.description.reads for column in layout.columns or {}
        }:
            raw_symbol = _raw_symbol(self.description, groups)
            if raw_symbol is not None:
                facts["raw_symbol"] = raw_symbol
        if market.normalized_symbol is not None:
            facts.pop("quote", None)
        return replace(
            market, **{name: fact for name, fact in facts.items() if getattr(market, name) is None}
        )

    def _layout(self, layout: Mapped, groups: Mapping[str, str]) -> Mapped:
        """Return how the rows are read, with the facts of the name of the file and of the caller."""
        facts: dict[str, Any] = {}
        has_lengths = "interval" in (layout.columns or {})
        for name, fact in self.stated.items():
            if not hasattr(layout, name) or (name == "interval" and has_lengths):
                raise nothing_to_choose(name, fact, self.files)
        if layout.of is RECORDED_CANDLES and layout.interval is None and not has_lengths:
            facts["interval"] = length_named(groups.get("interval")) or BY_ROWS
        if {"time_format", "time_unit"} & self.stated.keys():
            facts |= {"time_format": None, "time_unit": None}
        facts |= self.stated
        if self.skip_lines:
            facts["skip_lines"] = self.skip_lines
        return replace(layout, **facts)

    def _ask(self, job: Job, layout: Mapped) -> None:
        """Raise QueryError if the caller does not state a fact that the kind asks for; the error names all of them."""
        asked_facts = dict(self.description.asks)
        if "exchange" in self.description.market:
            asked_facts = {"exchange": "the exchange, for its folder is called after another", **asked_facts}
        symbol, quote = job.market.raw_symbol or "", job.market.quote
        if "quote" in asked_facts and quote is not None and symbol.upper().endswith(f"-{quote.upper()}"):
            raise QueryError(
                "quote",
                got=quote,
                expected=f"nothing beside {symbol}, which names it",
                hint=f"a file of its own name, {symbol}.csv, is recognised as that of a pair",
            )
        unknown = {
            parameter: what
            for parameter, what in asked_facts.items()
            if getattr(job.market, parameter, None) is None and getattr(layout, parameter, None) is None
            if parameter != "quote" or job.market.normalized_symbol is None
        }
        if unknown:
            first, *others = unknown
            facts = "; and ".join([unknown[first], *(f"``{other}``, {unknown[other]}" for other in others)])
            raise QueryError(
                first,
                got=None,
                expected=f"{facts}: {job.path.name} looks like {self.description.title}, which do not tell it",
            )


_TOLD = ("exchange", "raw_symbol", "coin", "category")
"""Attributes of `Market` that the name of a file may tell, which so change where its rows go."""
_NAMED = re.compile(
    r"(?<![a-z])(?:binance|bitfinex|bitget|bitmex|bitstamp|bybit|coinbase|deribit|gate|gateio|gemini|htx|huobi|"
    r"hyperliquid|kraken|kucoin|mexc|okex|okx|poloniex|upbit)(?![a-z])"
)
"""Names of exchanges in the names of files and folders."""
_NOT_TRADED = re.compile(
    r"(?i)[-_]mark\.[^/]*$|[-_]\d+[smhdw][-_](?:index|premiumIndex)\.[^/]*$"
    r"|(?:/|[-_.])(?:mark|index|premium[-_]?index)[-_ ]?price[^/]*(?:/[^/]*){0,3}$|/premiumIndex[^/]*(?:/[^/]*){0,3}$"
)
"""Names of files of prices at which nobody trades."""


def _is_of_another(exchange: str | None, where: str) -> bool:
    """Return whether the nearest name of an exchange in a path is not that of the kind."""
    for name in reversed(where.lower().split("/")[-4:]):
        if exchange is not None and (named := _NAMED.findall(name)):
            kind_name = exchange.lower().replace("_", "")
            return not any(
                kind_name.startswith(EXCHANGES.get(word, word).lower().replace("_", "")) for word in named
            )
    return False


def _require_likely(description: Description, parsed: Parsed, job: Job) -> None:
    """Raise IngestError if rows without names of columns are likely to be other ones than those of the kind.

    A candle opens near the price at which the one before it closes. If each closes near the price at which the one
    before it opens, the two columns are the other way round. And trades do not happen at whole minutes only.
    """
    if not any(isinstance(layout, Csv) and layout.header for layout in description.reads):
        return
    time, market = pl.col("timestamp"), ["exchange", "raw_symbol"]
    for part in parsed.batch(RECORDED_CANDLES).parts[:1]:
        candles = part.frame().sort("timestamp")
        gaps = candles.select(
            as_said=(pl.col("open").shift(-1) - pl.col("close")).abs().over(market).sum(),
            other_way=(pl.col("close").shift(-1) - pl.col("open")).abs().over(market).sum(),
        ).row(0)
        if candles.height >= _FEWEST and _LIKELIER * gaps[1] < gaps[0]:
            reason = "each candle closes where the one before it opens: open and close are likely the other way round"
            raise _other_columns(reason, "timestamp,close,high,low,open,volume", job)
    for part in parsed.batch(TRADES).parts[:1]:
        times = part.frame().select(time.unique())
        if times.height >= _FEWEST and times.select((time % MINUTE == 0).all()).item():
            reason = "all times are whole minutes, as those of candles, of which a row may be the close and the volume"
            raise _other_columns(reason, "timestamp,price,amount", job)


_FEWEST = 4
"""Fewest rows from which columns are judged."""
_LIKELIER = 4


def _other_columns(reason: str, header: str, job: Job) -> IngestError:
    hint = f"if not, ``Csv(header={header!r})`` says what they are"
    return IngestError(f"{job.path}: {reason}; {hint}", path=str(job.path))


def _class_of(classes: Mapping[str, str], raw_symbol: str) -> str | None:
    return next((category for pattern, category in classes.items() if re.search(pattern, raw_symbol)), None)


def _raw_symbol(description: Description, groups: Mapping[str, str]) -> str | None:
    """Return the symbol that the name of a file shows; for a kind of any name only if it is one of a pair."""
    try:
        raw_symbol = description.raw_symbol.format(**groups)
    except KeyError:
        return groups.get("raw_symbol")
    pair = guessed(raw_symbol)
    return None if description.is_any_name and (pair is None or pair.quote_coin not in QUOTES) else raw_symbol


_WORDS = frozenset(
    {
        "s", "sec", "secs", "second", "seconds", "m", "min", "mins", "minute", "minutes", "h", "hr", "hour", "hours",
        "hourly", "d", "day", "days", "daily", "w", "week", "weeks", "weekly",
    }
)  # fmt: skip


def length_named(text: str | None) -> str | None:
    """Return the length of candles that a word in the name of a file stands for.

    Examples
    --------
    >>> [length_named(word) for word in ("1h", "M5", "60", "minute", "1_Hour", "Daily", "1 Min", "d", "7", "1M")]
    ['1h', '5m', '1h', '1m', '1h', '1d', '1m', '1d', None, None]
    """
    if text is None:
        return None
    match = re.fullmatch(r"(?:([MHDW])(\d+)|(\d*)[ _]?([a-zA-Z]*))", text)
    if match is None:
        return None
    word = (match[1] or match[4] or "m").lower()
    if re.fullmatch(r"\d*M", text) or word not in _WORDS:
        return None  # months differ in length; Dukascopy's 1_M is a minute
    count, unit = int(match[2] or match[3] or 1), word[:1]
    if unit == "m" and count >= 60 and count % 60 == 0:
        count, unit = count // 60, "h"
    if unit == "h" and count % 24 == 0:
        count, unit = count // 24, "d"
    if unit == "d" and count == 7:
        count, unit = 1, "w"
    word = f"{count}{unit}"
    return word if word in LENGTHS else None


def described(path: Path, inner: str, head: str) -> Described | None:
    """Return the layout of a file whose kind is described, by its path, the name inside it and its beginning.

    Of several kinds, the one counts whose header has the most columns. None if no kind fits, or several equally.
    """
    from tidytape.lake.ingest._descriptions import DESCRIPTIONS  # they take a tenth of a second to make

    where = "/".join(dict.fromkeys([path.absolute().as_posix().removesuffix(f"/{inner}"), inner]))
    fitting: dict[int, list[Described]] = {}
    for skip_lines, names, row, layout in _readings(path, head):
        names = [plain(name) for name in names]  # noqa: PLW2901
        for description in DESCRIPTIONS:
            if (
                (not description.reads or type(description.reads[0]) is layout)
                and bool(description.header) == bool(names)
                and {*description.header} <= {*names}
                and re.search(description.columns, ",".join(names))
                and re.search(description.row, row, re.DOTALL)
                and (not description.needs_path or re.search(description.paths[0], where))
            ):
                named = sum(map(bool, description.header))
                rank = 10 * named + 2 * bool(description.row) + 3 * description.needs_path
                kind = Described(description=description, where=where, skip_lines=skip_lines, row=row)
                fitting.setdefault(rank, []).append(kind)
    best = fitting[max(fitting)] if fitting else []
    return best[0] if len({kind.name for kind in best}) == 1 else None


def _readings(path: Path, head: str) -> Iterator[tuple[int, list[str], str, type[Mapped]]]:
    """Yield ways to read the beginning of a file: lines before the header, its names, the first row, layout."""
    if head.startswith(("ARROW1", "PAR1")):
        kind = "Parquet" if head.startswith("PAR1") else "Feather"
        try:
            schema = (
                pq.read_schema(path) if kind == "Parquet" else pa.ipc.open_file(pa.OSFile(str(path))).schema
            )
        except (pa.ArrowException, OSError) as error:
            message = f"{path}: no {kind} file that can be read, or one that is packed; unpack it: {error}"
            raise IngestError(message, path=str(path)) from error
        yield 0, schema.names, "", Parquet if head.startswith("PAR1") else Feather
        return
    if re.match(r"\s*(?:\{|\[\s*[\[{])", head):
        yield 0, [], head, Json
        return
    lines = [line.rstrip("\r") for line in head.split("\n")]
    for skip_lines, line in enumerate(lines[:_PREAMBLE]):
        if line.startswith("#") or not line.strip():
            continue
        delimiter = max(DELIMITERS, key=line.count)
        try:
            names = [name.strip() for name in next(csv.reader([line], delimiter=delimiter))]
        except csv.Error:
            return
        if is_row(names):
            if skip_lines == 0:
                yield 0, [], line.replace('"', ""), Csv
            return
        yield (
            skip_lines,
            names,
            "".join(lines[skip_lines + 1 : skip_lines + 2]).replace('"', ""),
            Csv,
        )


def looks_like(path: Path, head: str) -> tuple[str, str]:
    """Return what an unknown file looks like, and the layout that takes it, as Python writes it.

    Examples
    --------
    >>> looks_like(Path("a.csv"), "when;px;qty;side")
    ('text with the columns when, px, qty, side', "Csv(columns={'price': 'px', 'amount': 'qty'})")
    """
    reading = next(_readings(path, head), None)
    if reading is None:
        return "empty or no text", "Csv()"
    _, names, row, layout = reading
    if layout is Json:
        return "JSON", "Json()"
    if not names:
        columns = row.count(max(DELIMITERS, key=row.count)) + 1
        header = ",".join(["timestamp", *(f"c{place}" for place in range(2, columns + 1))])
        return f"text without a header, {columns} columns", f"Csv(header={header!r})"
    columns_by_table = {name: _columns_for(TABLES[name], names) for name in EVENTS}
    possible_tables = [name for name in EVENTS if not _missing(name, columns_by_table[name])]
    table = max(possible_tables, key=lambda name: len(columns_by_table[name]), default=TRADES.name)
    renamed = {
        column: name_in_file
        for column, name_in_file in columns_by_table[table].items()
        if plain(name_in_file) != column
    }
    options: dict[str, object] = {} if table == TRADES.name else {"table": table}
    options |= {"columns": renamed} if renamed else {}
    arguments = ", ".join(f"{name}={text!r}" for name, text in options.items())
    shown = ", ".join(names)
    shown = shown if len(shown) <= _SHOWN else shown[:_SHOWN] + "…"
    kind = "text" if layout is Csv else layout.__name__
    return f"{kind} with the columns {shown}", f"{layout.__name__}({arguments})"


def _missing(table: str, column_names: Collection[str]) -> set[str]:
    """Return the columns that a table needs and a file lacks, without those that may be one value."""
    sides = {"side"} if INSTEAD_OF_SIDE.get(table) in column_names else set[str]()
    return {*needed_columns(TABLES[table])} - {*column_names, *CONSTANT_COLUMNS, *sides}


def _columns_for(table: Table, names: list[str]) -> dict[str, str]:
    """Return the columns of a file that are, or may be, columns of a table that it needs."""
    wanted_columns = [
        *needed_columns(table),
        *([INSTEAD_OF_SIDE[table.name]] if table.name in INSTEAD_OF_SIDE else []),
    ]
    same = {column: name for column in known_columns(table) for name in names if plain(name) == column}
    missing = [column for column in wanted_columns if column not in same]
    return same | suggested_map(missing, [name for name in names if name not in same.values()])


_SHOWN = 200
"""Most characters of names of columns that an error shows."""
