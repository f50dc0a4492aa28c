"""Every check of a lake, and what it reads. A new check is one more row of `CHECKS`.

A check reads the rows of one market, or of many small markets at once, in one version of a table. It yields pairs: how
many rows, files or minutes are wrong, and a description of the first one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from types import MappingProxyType
from typing import Literal, NamedTuple

import polars as pl
import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq

from tidytape.catalogue import BookSide, Side
from tidytape.errors import counted
from tidytape.lake import _delta
from tidytape.lake._amount_units import QUOTED, CountedUnit, description, mismatched, of_symbol
from tidytape.lake._parquet import filesystem
from tidytape.lake._reader import LakeReader
from tidytape.lake._tables import TABLES, Table
from tidytape.lake.hygiene import _rebuilt
from tidytape.lake.rollup import ROLLUP_TABLES
from tidytape.times import DAY, SECOND

Faults = Iterator[tuple[int, str]]
"""How many faults there are, and a description of the first one."""

_AT_ONCE = 20_000_000
"""Rows whose keys are in memory at once."""

_EARLIEST = 946_684_800 * SECOND
"""The year 2000, as where files are read. [ns]"""

_ADVICE = "put its files into a new lake and say what amounts count: --amount-unit, or --contract and --contract-size"


@dataclass(frozen=True)
class Scope:
    """The rows of one market, or of many markets, in one version of a table, for a check.

    Attributes
    ----------
    lake : LakeReader
        For a check that compares with other tables.
    table : Table
        Which table.
    delta : Opened
        The version that is checked.
    partition : mapping of str to str
        The market: values of the table's partition columns. Empty if the table has none, or for many markets.
    files : polars.DataFrame, one row per file of the market
        Its files by the log, see `tidytape.lake._delta.file_log`.
    rows : polars.LazyFrame
        Its rows, in no order.
    now : int
        When the check began. [ns since the epoch]
    members : tuple of Scope
        For many markets: each of them.
    """

    lake: LakeReader
    table: Table
    delta: _delta.Opened
    partition: Mapping[str, str | None]
    files: pl.DataFrame
    rows: pl.LazyFrame
    now: int
    members: tuple[Scope, ...] = ()

    @cached_property
    def files_read(self) -> list[_File]:
        """Every file, read once from begin to end for all checks of files."""
        store = filesystem(self.lake.uri(self.table.name), self.lake.storage_options)
        timed = self.table.name in _TIMED
        logged = self.files.select("path", "rows").iter_rows()
        return [_read_file(store, path, rows, timed=timed) for path, rows in logged]

    @classmethod
    def of_many(cls, members: Sequence[Scope]) -> Scope:
        """Return markets of one version of a table as one scope."""
        first = members[0]
        names = list(first.partition)
        partitions = pl.LazyFrame(
            [tuple(member.partition.values()) for member in members],
            schema=dict.fromkeys(names, pl.String),
            orient="row",
        )
        superset = [
            pl.col(name).is_in(sorted({str(member.partition[name]) for member in members})) for name in names
        ]
        rows = _delta.scanned(first.delta, first.table, first.lake.storage_options)
        return cls(
            first.lake,
            first.table,
            first.delta,
            {},
            pl.concat(member.files for member in members),
            rows.filter(*superset).join(partitions, on=names, how="semi"),
            first.now,
            tuple(members),
        )

    @property
    def size(self) -> int:
        """Number of rows by the log."""
        return int(self.files["rows"].sum())

    @property
    def market(self) -> tuple[str, ...]:
        """Values of the table's partition columns."""
        return tuple(str(value) for value in self.partition.values())


@dataclass(frozen=True, slots=True)
class Check:
    """One check.

    Attributes
    ----------
    name : str
        Its name in a report.
    holds : str
        The condition that must hold.
    tables : collection of str
        Names of the tables that it checks.
    find : callable
        Yields the faults of a scope.
    severity : {"error", "advice"}
        Whether answers may be wrong, or only slow.
    of_many : bool
        Whether the check of many markets at once finds something if and only if the check of one of them does. Then
        the markets are checked one by one only if it finds something.
    """

    name: str
    holds: str
    tables: Collection[str]
    find: Callable[[Scope], Faults]
    severity: Literal["error", "advice"] = "error"
    of_many: bool = True

    def concerns(self, table: Table) -> bool:
        """Return whether the check applies to a table."""
        return table.name in self.tables


# -- rows ------------------------------------------------------------------------------------------------------------


def _where(condition: Callable[[Scope], pl.Expr]) -> Callable[[Scope], Faults]:
    """Return a check that finds rows for which a condition is true."""

    def find(scope: Scope) -> Faults:
        wrong = condition(scope)
        count = scope.rows.select(wrong.sum()).collect(engine="streaming").item() or 0
        if count:
            yield count, _first_row(scope, wrong)

    return find


def _first_row(scope: Scope, condition: pl.Expr) -> str:
    """Describe a row for which a condition is true."""
    columns = (*scope.table.key, "timestamp", "amount", "price")
    names = [name for name in dict.fromkeys(columns) if name in scope.table.names]
    rows = scope.rows.filter(condition).select(names).head(1).collect(engine="streaming")
    return ", ".join(f"{name} {value!r}" for row in rows.iter_rows(named=True) for name, value in row.items())


def _repeated_key(scope: Scope) -> Faults:
    """Find keys of more than one row; keys that contain a null are ignored."""
    return _repeated(scope, scope.table.key)


def _repeated_sequence(scope: Scope) -> Faults:
    """Find trades of one timestamp with the same sequence."""
    return _repeated(scope, (*scope.table.partitions, "timestamp", "sequence"))


def _repeated(scope: Scope, key: Sequence[str]) -> Faults:
    # The partition columns are the same in every row of one market.
    same = () if scope.members else scope.table.partitions
    names = [name for name in key if name not in same] or list(key)
    keyed = scope.rows.filter(pl.all_horizontal(pl.col(names).is_not_null())).select(names)
    # Rows with the same key have the same hash, so each share of the hashes is checked alone, in bounded memory.
    shares = -(-max(scope.size, 1) // _AT_ONCE)
    count, example = 0, ""
    for share in range(shares):
        rows = keyed if shares == 1 else keyed.filter(pl.struct(names).hash() % shares == share)
        repeated = (
            rows.group_by(names)
            .agg(__rows=pl.len())
            .filter(pl.col("__rows") > 1)
            .select(__keys=pl.len(), first=pl.struct(*names, "__rows").sort_by(names).first())
            .collect(engine="streaming")
            .row(0, named=True)
        )
        if repeated["__keys"] and not example:
            first = repeated["first"]
            values = ", ".join(f"{name} {first[name]!r}" for name in names)
            example = f"{values} has {counted(first['__rows'], 'row')}"
        count += repeated["__keys"]
    if count:
        yield count, example


def _null(scope: Scope) -> Faults:
    """Find nulls in columns that may not be null."""
    required = [column.name for column in scope.table.columns if not column.nullable]
    counts = scope.rows.select(pl.col(required).null_count()).collect(engine="streaming").row(0, named=True)
    for name, count in counts.items():
        if count:
            yield count, _first_row(scope, pl.col(name).is_null())


def _unreal_time(scope: Scope) -> pl.Expr:
    time = pl.col("timestamp")
    return (time < _EARLIEST) | (time > scope.now + DAY)


def _unreal_amount(scope: Scope) -> pl.Expr:
    amount, price = pl.col("amount"), pl.col("price")
    return ~amount.is_finite() | (amount <= 0) | ~price.is_finite()


def _unreal_number(scope: Scope) -> pl.Expr:
    """Return whether a number is not finite; an unknown number is null. The check "amounts" checks those of trades."""
    others = {"amount", "price"} if scope.table.name in _TRADED else set()
    floats = [column.name for column in scope.table.columns if column.dtype == "float64"]
    return pl.any_horizontal(~pl.col(name).is_finite() for name in floats if name not in others)


def _unknown_word(scope: Scope) -> pl.Expr:
    """Return whether a side, option type or contract is unknown: only some answers would include such a row."""
    words = {**_WORDS, "side": tuple(map(str, BookSide if scope.table.name in {"book", "book_1m"} else Side))}
    names = [name for name in words if name in scope.table.names]
    return pl.any_horizontal(~pl.col(name).is_in(words[name]) for name in names)


_WORDS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"option_type": ("CALL", "PUT"), "contract": ("INVERSE", "LINEAR", "VANILLA")}
)

_PRICES = ("open", "close")

IMPOSSIBLE: Mapping[str, pl.Expr] = MappingProxyType(
    {
        "book": pl.col("size") < 0,
        "candles": (pl.min_horizontal(_PRICES) < pl.col("low"))
        | (pl.max_horizontal(_PRICES) > pl.col("high"))
        | (pl.col("volume") < 0)
        | (pl.col("interval") <= 0),
        "open_interest": pl.col("amount") < 0,
        "option_quotes": (pl.col("strike") <= 0)
        | (pl.col("implied_volatility") < 0)
        | (pl.col("open_interest") < 0),
        "token_supply": pl.col("marketcap") < 0,
        "quote_rates": pl.col("usd") <= 0,
        "markets": pl.any_horizontal(pl.col("tick_size", "block_size", "contract_size") <= 0),
    }
)
"""Conditions that no row may meet, by the table's name. A price may be below zero, which has happened."""


# -- units -----------------------------------------------------------------------------------------------------------


def _unlike_quote(scope: Scope) -> Faults:
    """Find days on which the amount in the quote is not the amount in coin times a traded price."""
    day = (pl.col("timestamp") // DAY).alias("day")
    names = [pl.col(name) for name in scope.table.partitions] if scope.members else []
    days = mismatched(scope.rows, scope.table.name, by=[day, *names])
    if days.height:
        first, ratio = days.select("day", "ratio").row(0)
        date = datetime.fromtimestamp(first * DAY // SECOND, UTC).date()
        yield days.height, f"on {date} {description(scope.table.name, ratio)}; {_ADVICE}"


def _contracts_as_coins(scope: Scope) -> Faults:
    """Find markets whose symbol shows amounts in contracts or the quote, but whose amounts were stored as coins."""
    for member in scope.members or (scope,):
        exchange, raw_symbol = member.market
        unit = of_symbol(raw_symbol)
        if unit in {None, CountedUnit.COIN}:
            continue
        market = scope.lake.markets().filter(exchange=exchange, raw_symbol=raw_symbol)
        if market.select(pl.any_horizontal(pl.col("contract", "amount_units").is_not_null()).any()).item():
            continue
        counts = "contracts" if unit is CountedUnit.CONTRACTS else "the quote"
        rows = counted(member.size, "amount")
        yield (
            member.size,
            f"{raw_symbol} counts {counts} by its symbol, and {rows} went in as coins; {_ADVICE}",
        )


# -- files -----------------------------------------------------------------------------------------------------------


class _File(NamedTuple):
    """A file that was read. ``fault`` says why it cannot be read, or that the log says another number of rows."""

    path: str
    fault: str
    first: int | None
    last: int | None
    is_sorted: bool


def _broken(scope: Scope) -> Faults:
    """Find files that are missing, cannot be read to the end, or have another number of rows than the log says."""
    faults = [file.fault for file in scope.files_read if file.fault]
    if faults:
        yield len(faults), faults[0]


def _misdescribed(scope: Scope) -> Faults:
    """Find files with times outside of the bounds in the log, by which readers skip files."""
    faults = []
    logged = scope.files.select("first", "last").iter_rows()
    for file, (first, last) in zip(scope.files_read, logged, strict=True):
        if file.first is None or file.last is None:
            continue
        if first is None or last is None or file.first < first or file.last > last:
            faults.append(f"{file.path}: holds {file.first} to {file.last}, the log says {first} to {last}")
    if faults:
        yield len(faults), faults[0]


def _unsorted(scope: Scope) -> Faults:
    """Find files whose rows are not in the order of time, so that a reader cannot skip by time."""
    faults = [file.path for file in scope.files_read if not file.is_sorted]
    if faults:
        yield len(faults), f"{faults[0]}; compact --everything puts them in order"


def _read_file(store: pyarrow.fs.FileSystem, path: str, logged: int | None, *, timed: bool) -> _File:
    first: int | None = None
    last: int | None = None
    is_sorted = True
    try:
        file = pq.ParquetFile(path, filesystem=store, page_checksum_verification=True)
        rows = file.metadata.num_rows
        # Reads every column: no other check does, so only this one notices every damaged page. Reads batches, because a
        # file may be larger than memory.
        for batch in file.iter_batches(batch_size=2**16):
            times = (
                pl.Series(batch.column("timestamp"), dtype=pl.Int64).drop_nulls() if timed else pl.Series()
            )
            if times.is_empty():
                continue
            is_sorted = is_sorted and times.is_sorted() and (last is None or times[0] >= last)
            least, most = int(times.min()), int(times.max())  # type: ignore[arg-type]  # polars types any value
            first = least if first is None else min(first, least)
            last = most if last is None else max(last, most)
    except (OSError, pa.ArrowException) as error:
        is_missing = isinstance(error, FileNotFoundError)
        reason = "is missing" if is_missing else " ".join(str(error).split())[:200]
        return _File(path, f"{path}: {reason}", None, None, is_sorted=True)
    differs = logged is not None and rows != logged
    fault = f"{path}: holds {counted(rows, 'row')}, the log says {logged}" if differs else ""
    return _File(path, fault, first, last, is_sorted)


# -- all of them -----------------------------------------------------------------------------------------------------

_EVERY: Mapping[str, Table] = MappingProxyType({**TABLES, **ROLLUP_TABLES})
_TIMED = [name for name, table in _EVERY.items() if "timestamp" in table.names]
_TRADED = ("trades", "liquidations")
_WORDED = [name for name, table in _EVERY.items() if {"side", *_WORDS} & {*table.names}]

# In a report a number that is not finite counts as absent: no answer shows it.
_REPORTS = {"open_interest", "funding", "option_quotes", "cme_open_interest", "token_supply"}
_MEASURED = [
    name
    for name, table in _EVERY.items()
    if name not in _REPORTS and any(column.dtype == "float64" for column in table.columns)
]

# The rows of other tables are in the order of tokens or intervals, and are read in that order.
_BY_TIME = [
    name
    for name, table in _EVERY.items()
    if [column for column in table.order if column not in table.partitions][:1] == ["timestamp"]
]

# Recorded candles and open interest may state amounts in coins, whatever the symbol shows.
_SYMBOLIC = ("trades", "book", "liquidations")

FILES = Check("files", "the files that the log names are there and can be read", _EVERY, _broken)
"""Made first: a market with a file that cannot be read is not checked further."""

CHECKS: tuple[Check, ...] = (
    FILES,
    Check("keys", "no two rows have the same key", _EVERY, _repeated_key),
    Check("nulls", "a column that may not be null is not", _EVERY, _null),
    Check("log", "times lie where the log says, by which readers skip files", _TIMED, _misdescribed),
    Check("times", "times lie between the year 2000 and tomorrow", _TIMED, _where(_unreal_time)),
    Check("amounts", "amounts are finite and above zero, prices finite", _TRADED, _where(_unreal_amount)),
    Check("numbers", "numbers that answers show are finite", _MEASURED, _where(_unreal_number)),
    Check("words", "sides, option types and contracts are known ones", _WORDED, _where(_unknown_word)),
    Check(
        "values",
        "nothing is below what it can be, or outside of its candle",
        IMPOSSIBLE,
        _where(lambda scope: IMPOSSIBLE[scope.table.name]),
    ),
    Check("quote", "amounts in the quote are amounts in coin times a price", QUOTED, _unlike_quote),
    Check("units", "amounts of contracts went in as such", _SYMBOLIC, _contracts_as_coins),
    Check("sequence", "trades of one timestamp have an order", ["trades"], _repeated_sequence),
    Check(
        "ids",
        "ids of a book rise in time, to within five minutes",
        ["book"],
        _rebuilt.unlike_ids,
        of_many=False,
    ),
    Check(
        "snapshots",
        "a recorded book is not crossed",
        ["book"],
        _rebuilt.crossed_snapshot,
        of_many=False,
    ),
    Check(
        "books",
        "a rebuilt book is not crossed at the end of a minute",
        ["book"],
        _rebuilt.crossed_book,
        of_many=False,
    ),
    Check(
        "conserved",
        "minutes hold what their events say: volumes, prices, rates",
        ROLLUP_TABLES,
        _rebuilt.unlike_events,
    ),
    Check("order", "rows of a file rise in time", _BY_TIME, _unsorted, severity="advice"),
)
"""Every check, in the order in which they are made."""
