"""Every check there is. A new one is one more row here."""

from __future__ import annotations

from tidytape.lake.hygiene import _book, _files, _minutes, _rows, _units, _values
from tidytape.lake.hygiene._subject import Check
from tidytape.lake.quoted import QUOTED
from tidytape.lake.rollup import ROLLUP_TABLES
from tidytape.lake.table import Table
from tidytape.lake.tables import BOOK, LIQUIDATIONS, TRADES

__all__ = ["CHECKS", "FILES"]


def _every(table: Table) -> bool:
    return bool(table.names)


def _timed(table: Table) -> bool:
    return "timestamp" in table.names


def _by_time(table: Table) -> bool:
    # Others are written token by token, or interval by interval, and so they are read.
    return next((name for name in table.order if name not in table.partitions), None) == "timestamp"


def _traded(table: Table) -> bool:
    return table in {TRADES, LIQUIDATIONS}


def _measured(table: Table) -> bool:
    return table not in _values.REPORTS and any(column.dtype == "float64" for column in table.columns)


def _limited(table: Table) -> bool:
    return table.name in _values.IMPOSSIBLE


def _quoted(table: Table) -> bool:
    return table.name in QUOTED


def _symbolic(table: Table) -> bool:
    return table in _units.SYMBOLIC


def _trades(table: Table) -> bool:
    return table is TRADES


def _books(table: Table) -> bool:
    return table is BOOK


def _rolled_up(table: Table) -> bool:
    return table.name in ROLLUP_TABLES


FILES = Check("files", "the files that the log names are there and can be read", _every, _files.broken)
"""Made first: what cannot be read is not checked further."""

CHECKS: tuple[Check, ...] = (
    FILES,
    Check("keys", "no two rows have the same key", _every, _rows.repeated_key, together=True),
    Check("nulls", "a column that may not be null is not", _every, _rows.null, together=True),
    Check(
        "log",
        "times lie where the log says, by which readers skip files",
        _timed,
        _files.misdescribed,
        together=True,
    ),
    Check("times", "times lie between the year 2000 and tomorrow", _timed, _rows.unreal_time, together=True),
    Check(
        "amounts",
        "amounts are finite and above zero, prices finite",
        _traded,
        _rows.unreal_amount,
        together=True,
    ),
    Check("numbers", "numbers that answers show are finite", _measured, _values.unreal_number, together=True),
    Check(
        "words",
        "sides, option types and contracts are known ones",
        _every,
        _values.unknown_word,
        together=True,
    ),
    Check(
        "values",
        "nothing is below what it can be, or outside of its candle",
        _limited,
        _values.impossible,
        together=True,
    ),
    Check(
        "quote",
        "amounts in the quote are amounts in coin times a price",
        _quoted,
        _units.unlike_quote,
        together=True,
    ),
    Check(
        "units", "amounts of contracts went in as such", _symbolic, _units.contracts_as_coins, together=True
    ),
    Check(
        "sequence", "trades of one timestamp have an order", _trades, _rows.repeated_sequence, together=True
    ),
    Check("ids", "ids of a book rise in time, to within five minutes", _books, _book.unlike_ids),
    Check("snapshots", "a recorded book is not crossed", _books, _book.crossed_snapshot),
    Check(
        "books",
        "a rebuilt book is not crossed at the end of a minute",
        _books,
        _book.crossed_book,
    ),
    Check(
        "conserved",
        "minutes hold what their events say: volumes, prices, rates",
        _rolled_up,
        _minutes.unlike_events,
        together=True,
    ),
    Check(
        "order", "rows of a file rise in time", _by_time, _files.unsorted, severity="advice", together=True
    ),
)
"""Every check, in the order they are made."""
