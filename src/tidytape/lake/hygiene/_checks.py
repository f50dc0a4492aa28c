"""Every check of a lake. A new check is one more entry of `CHECKS`.

A check reads the rows of one market, or of many small markets at once, in one version of a table. It yields pairs: how
many rows, files or minutes are wrong, and a description of the first one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Literal

import polars as pl

from tidytape.catalogue import BookSide, Side
from tidytape.errors import counted
from tidytape.lake._amount_units import QUOTED, CountedUnit, description, mismatched, of_symbol
from tidytape.lake._dedupe import written, written_time
from tidytape.lake._tables import TABLES, Table
from tidytape.lake.hygiene import _rebuilt
from tidytape.lake.hygiene._scope import Faults, Scope
from tidytape.lake.rollup import ROLLUP_TABLES
from tidytape.times import DAY, SECOND

_AT_ONCE = 20_000_000
"""Most rows whose keys are in memory at once."""

_EARLIEST = 946_684_800 * SECOND
"""The year 2000, the earliest time that an ingest accepts. [ns]"""

_ADVICE = "put its files into a new lake and say what amounts count: --amount-unit, or --contract and --contract-size"


@dataclass(frozen=True, slots=True)
class Check:
    """One check.

    Attributes
    ----------
    name : str
        The name in a report.
    holds : str
        The condition that must hold.
    tables : collection of str
        Names of the tables that it checks.
    find : callable
        Yields the faults of a scope.
    severity : {"error", "advice"}
        Whether answers may be wrong, or only slow.
    of_many : bool
        Whether a check of many markets at once finds something exactly if a check of one of them does. Then the markets
        are checked one by one only if the check of all of them finds something.
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
        is_wrong = condition(scope)
        count = scope.rows.select(is_wrong.sum()).collect(engine="streaming").item() or 0
        if count:
            yield count, _first_row(scope, is_wrong)

    return find


def _first_row(scope: Scope, condition: pl.Expr) -> str:
    """Describe a row for which a condition is true."""
    columns = (*scope.table.key, "timestamp", "amount", "price")
    column_names = [name for name in dict.fromkeys(columns) if name in scope.table.names]
    rows = scope.rows.filter(condition).select(column_names).head(1).collect(engine="streaming")
    return ", ".join(f"{name} {value!r}" for row in rows.iter_rows(named=True) for name, value in row.items())


def _repeated_key(scope: Scope) -> Faults:
    """Find keys of more than one row; keys that contain a null are ignored."""
    return _repeated(scope, scope.table.key)


def _repeated_sequence(scope: Scope) -> Faults:
    """Find trades of one timestamp with the same sequence."""
    return _repeated(scope, (*scope.table.partitions, "timestamp", "sequence"))


def _repeated(scope: Scope, key: Sequence[str]) -> Faults:
    # The partition columns are the same in every row of one market.
    constant_columns = () if scope.members else scope.table.partitions
    key_columns = [name for name in key if name not in constant_columns] or list(key)
    complete_keys = scope.rows.filter(pl.all_horizontal(pl.col(key_columns).is_not_null())).select(
        key_columns
    )
    # Rows with the same key have the same hash, so each share of the hashes can be checked alone, in bounded memory.
    share_count = -(-max(scope.size, 1) // _AT_ONCE)
    count, example = 0, ""
    for share in range(share_count):
        rows = (
            complete_keys
            if share_count == 1
            else complete_keys.filter(pl.struct(key_columns).hash() % share_count == share)
        )
        repeats = (
            rows.group_by(key_columns)
            .agg(__rows=pl.len())
            .filter(pl.col("__rows") > 1)
            .select(__keys=pl.len(), first=pl.struct(*key_columns, "__rows").sort_by(key_columns).first())
            .collect(engine="streaming")
            .row(0, named=True)
        )
        if repeats["__keys"] and not example:
            first_key = repeats["first"]
            values = ", ".join(
                f"{name} {written(first_key[name], scope.table, name)}" for name in key_columns
            )
            example = f"{values} has {counted(first_key['__rows'], 'row')}"
        count += repeats["__keys"]
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
    """Return whether a number is not finite; null, an unknown number, passes. The check "amounts" is for trades."""
    checked_elsewhere = {"amount", "price"} if scope.table.name in _TRADED else set()
    float_columns = [column.name for column in scope.table.columns if column.dtype == "float64"]
    return pl.any_horizontal(
        ~pl.col(name).is_finite() for name in float_columns if name not in checked_elsewhere
    )


def _unknown_word(scope: Scope) -> pl.Expr:
    """Return whether a side, option type or contract is unknown: some answers would leave such a row out."""
    words = {**_WORDS, "side": tuple(map(str, BookSide if scope.table.name in {"book", "book_1m"} else Side))}
    word_columns = [name for name in words if name in scope.table.names]
    return pl.any_horizontal(~pl.col(name).is_in(words[name]) for name in word_columns)


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
        "markets": pl.any_horizontal(pl.col("tick_size", "block_size", "contract_size", "factor") <= 0),
    }
)
"""Conditions that no row may meet, by the table's name. A price may be below zero, which has happened."""


# -- units -----------------------------------------------------------------------------------------------------------


def _unlike_quote(scope: Scope) -> Faults:
    """Find days on which the amount in the quote is not the amount in coin times a traded price."""
    day = (pl.col("timestamp") // DAY).alias("day")
    market_columns = [pl.col(name) for name in scope.table.partitions] if scope.members else []
    days = mismatched(scope.rows, scope.table.name, by=[day, *market_columns])
    if days.height:
        first_day, ratio = days.select("day", "ratio").row(0)
        date = datetime.fromtimestamp(first_day * DAY // SECOND, UTC).date()
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
        counted_unit = "contracts" if unit is CountedUnit.CONTRACTS else "the quote"
        rows = counted(member.size, "amount")
        yield (
            member.size,
            f"{raw_symbol} counts {counted_unit} by its symbol, and {rows} went in as coins; {_ADVICE}",
        )


# -- files -----------------------------------------------------------------------------------------------------------


def _broken(scope: Scope) -> Faults:
    """Find files that are missing, cannot be read to the end, or have another number of rows than the log says."""
    faults = [file.fault for file in scope.files_read if file.fault]
    if faults:
        yield len(faults), faults[0]


def _misdescribed(scope: Scope) -> Faults:
    """Find files with times outside of the bounds in the log, by which readers skip files."""
    faults = []
    bounds_in_log = scope.files.select("first", "last").iter_rows()
    for file, (first, last) in zip(scope.files_read, bounds_in_log, strict=True):
        if file.first is None or file.last is None:
            continue
        if first is None or last is None or file.first < first or file.last > last:
            in_file, in_log = (
                " to ".join("nothing" if time is None else written_time(time) for time in times)
                for times in ((file.first, file.last), (first, last))
            )
            faults.append(f"{file.path}: holds {in_file}, the log says {in_log}")
    if faults:
        yield len(faults), faults[0]


def _unsorted(scope: Scope) -> Faults:
    """Find files whose rows are not in the order of time, so that a reader cannot skip by time."""
    faults = [file.path for file in scope.files_read if not file.is_sorted]
    if faults:
        yield len(faults), f"{faults[0]}; compact --everything puts them in order"


# -- all of them -----------------------------------------------------------------------------------------------------

_EVERY: Mapping[str, Table] = MappingProxyType({**TABLES, **ROLLUP_TABLES})
_TIMED = [name for name, table in _EVERY.items() if "timestamp" in table.names]
_TRADED = ("trades", "liquidations")
_WORDED = [name for name, table in _EVERY.items() if {"side", *_WORDS} & {*table.names}]

# The check "numbers" leaves these tables out: answers treat a number that is not finite in a report as null.
_REPORTS = {"open_interest", "funding", "option_quotes", "cme_open_interest", "token_supply"}
_MEASURED = [
    name
    for name, table in _EVERY.items()
    if name not in _REPORTS and any(column.dtype == "float64" for column in table.columns)
]

# The files of these tables are in the order of time; those of others are in the order of tokens or intervals first.
_BY_TIME = [
    name
    for name, table in _EVERY.items()
    if [column for column in table.order if column not in table.partitions][:1] == ["timestamp"]
]

# Recorded candles and open interest are not checked: they may have amounts in coins, whatever the symbol shows.
_SYMBOLIC = ("trades", "book", "liquidations")

FILES = Check("files", "the files that the log names are there and can be read", _EVERY, _broken)
"""This check is made first: a market with a file that cannot be read is not checked further."""

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
