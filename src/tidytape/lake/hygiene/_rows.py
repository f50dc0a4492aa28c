"""Rows: keys that name one row, values that can be."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import polars as pl

from tidytape.errors import counted
from tidytape.lake.hygiene._subject import Found, Subject
from tidytape.times import DAY, SECOND

_AT_ONCE = 20_000_000
"""Rows whose keys are held in memory at once."""

_EARLIEST = 946_684_800 * SECOND
"""The year 2000, as where files are read. [ns]"""


def repeated_key(subject: Subject) -> Iterator[Found]:
    """Keys of more than one row. A key with a null among it is nobody's."""
    return _repeated(subject, subject.table.key)


def repeated_sequence(subject: Subject) -> Iterator[Found]:
    """Places in the order of one timestamp that more than one row has."""
    return _repeated(subject, (*subject.table.partitions, "timestamp", "sequence"))


def null(subject: Subject) -> Iterator[Found]:
    """Nulls where the table has none."""
    required = [column.name for column in subject.table.columns if not column.nullable]
    counts = subject.rows.select(pl.col(required).null_count()).collect(engine="streaming").row(0, named=True)
    for name, count in counts.items():
        if count:
            yield count, _row(subject, pl.col(name).is_null())


def unreal_time(subject: Subject) -> Iterator[Found]:
    """Times before the year 2000, or more than a day from now."""
    time = pl.col("timestamp")
    return bad(subject, (time < _EARLIEST) | (time > subject.now + DAY))


def unreal_amount(subject: Subject) -> Iterator[Found]:
    """Prices and amounts that are not finite, and amounts that are not above zero."""
    amount, price = pl.col("amount"), pl.col("price")
    return bad(subject, ~amount.is_finite() | (amount <= 0) | ~price.is_finite())


def bad(subject: Subject, condition: pl.Expr) -> Iterator[Found]:
    """Rows of which a condition holds."""
    count = subject.rows.select(condition.sum()).collect(engine="streaming").item() or 0
    if count:
        yield count, _row(subject, condition)


def _row(subject: Subject, condition: pl.Expr) -> str:
    """A row of which a condition holds."""
    telling = (*subject.table.key, "timestamp", "amount", "price")
    names = [name for name in dict.fromkeys(telling) if name in subject.table.names]
    found = subject.rows.filter(condition).select(names).head(1).collect(engine="streaming")
    return (
        ""
        if found.is_empty()
        else ", ".join(f"{name} {value!r}" for name, value in found.row(0, named=True).items())
    )


def _repeated(subject: Subject, key: Sequence[str]) -> Iterator[Found]:
    # Of one instrument its names are the same in each row.
    same = () if subject.members else subject.table.partitions
    names = [name for name in key if name not in same] or list(key)
    keyed = subject.rows.filter(pl.all_horizontal(pl.col(names).is_not_null())).select(names)
    # Rows of one key have one hash, so a share of the hashes is checked by itself, in memory that is bounded.
    shares = -(-max(subject.size, 1) // _AT_ONCE)
    count, example = 0, ""
    for share in range(shares):
        mine = keyed if shares == 1 else keyed.filter(pl.struct(names).hash() % shares == share)
        repeated = (
            mine.group_by(names)
            .agg(__rows=pl.len())
            .filter(pl.col("__rows") > 1)
            .select(
                __keys=pl.len(),
                **{name: pl.col(name).sort_by(names).first() for name in names},
                __rows=pl.col("__rows").sort_by(names).first(),
            )
            .collect(engine="streaming")
            .row(0, named=True)
        )
        if repeated["__keys"] and not example:
            example = (
                ", ".join(f"{name} {repeated[name]!r}" for name in names)
                + f" has {counted(repeated['__rows'], 'row')}"
            )
        count += repeated["__keys"]
    if count:
        yield count, example
