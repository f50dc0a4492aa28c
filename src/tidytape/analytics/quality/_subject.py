"""What is looked at: the rows of a frame, what its columns are, and which checks apply."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Generic

import narwhals.stable.v2 as nw
from narwhals.stable.v2.typing import IntoFrameT

from tidytape.analytics._series import of_rows
from tidytape.analytics.quality._checks import CHECKS, Limits, chosen
from tidytape.analytics.quality._columns import Columns
from tidytape.analytics.quality._grid import with_grid
from tidytape.analytics.quality._moves import Windows
from tidytape.errors import QueryError
from tidytape.frames.table import Table

ROW = "__row"
"""Working name of a row's place in the frame."""


@dataclass(frozen=True)
class Subject(Generic[IntoFrameT]):
    """A frame that is looked at.

    Attributes
    ----------
    table : Table
        The frame.
    rows : narwhals LazyFrame
        Its rows, and ``__timed``, whether there is a time; ``__time`` [ns], 0 without one; the numbers as float64 with
        null for what is none; with intervals also ``__step``, ``__length`` and ``__bucket``.
    by : list of str
        The columns that tell one series from another.
    names : list of str
        Columns of the caller's frame.
    columns : Columns
        What they are.
    numbers : dict of str to str
        Working name of each number.
    checks : tuple of str
        The checks to make.
    limits : Limits
        From when on something is found.
    """

    table: Table[IntoFrameT]
    rows: nw.LazyFrame[Any]
    by: list[str]
    names: list[str]
    columns: Columns
    numbers: dict[str, str]
    checks: tuple[str, ...]
    limits: Limits

    @classmethod
    def of(
        cls,
        native: IntoFrameT,
        *,
        by: str | Iterable[str] | None,
        interval: str | timedelta | None,
        checks: str | Iterable[str] | None,
        limits: Limits,
        without: Iterable[str] = (),
    ) -> Subject[IntoFrameT]:
        """Return a frame to look at."""
        wanted = chosen(checks)
        table, is_ordered = _opened(native)
        schema = table.rows.collect_schema()
        names = [name for name in schema.names() if name != ROW]
        taken = ["timestamp", *without]
        # Prices and sizes are looked at, also where they tell levels apart.
        keys = (
            table.series(by, without=taken)
            if by is not None
            else of_rows(table, without=[*taken, "price", "size"])
        )
        columns = Columns.of({name: schema[name] for name in names}, by=keys)
        # A trade says of which interval it was asked for, and a session of which it is made.
        has_own = "interval" in names and not columns.is_periodic and not columns.is_raw
        has_grid = interval is not None or has_own
        applying = _applying(wanted, names, columns, has_grid=has_grid, is_ordered=is_ordered)

        time = nw.col("timestamp")
        numbers = {name: f"__number_{name}" for name in columns.numbers}
        rows = table.rows.with_columns(
            *(_number(name).alias(own) for name, own in numbers.items()),
            __all=nw.lit(0),
            __timed=~time.is_null(),
            __time=nw.when(~time.is_null()).then(time).otherwise(nw.lit(0, nw.Int64())),
        )
        rows = rows.with_columns(
            nw.col("__time").alias("__order"),
            *(nw.col(numbers[name]).alias(f"__order_{name}") for name in columns.sized),
        )
        # Sorted once: windows in the order of one whole number are faster than those of several columns.
        order = ["__order", *(f"__order_{name}" for name in columns.sized)]
        rows = rows.with_row_index("__place", order_by=order)
        if has_grid:
            rows = with_grid(rows, interval)
        return cls(table, rows, keys, names, columns, numbers, applying, limits)

    @property
    def series(self) -> list[str]:
        """Columns that tell one series from another; rows without a time are apart."""
        return [*self.by, "__timed", "__all"]

    @property
    def windows(self) -> Windows:
        """Series in the order of time; of one time in that of the numbers, so that it is not that of the frame."""
        return Windows(self.series, ["__place"])


def _opened(native: IntoFrameT) -> tuple[Table[IntoFrameT], bool]:
    """Return the frame opened, and whether its rows have an order; then they are numbered."""
    table = Table.opened(native, times=["timestamp"])
    if not table.is_eager:
        return table, False
    return replace(table, rows=table.rows.collect().with_row_index(ROW).lazy()), True


def _number(name: str) -> nw.Expr:
    """Return a column as float64, what is no number null."""
    value = nw.col(name).cast(nw.Float64)
    return nw.when(~value.is_nan()).then(value)


def _applying(
    wanted: tuple[str, ...] | None, names: list[str], columns: Columns, *, has_grid: bool, is_ordered: bool
) -> tuple[str, ...]:
    """Return the checks that are wanted, or all that apply; raise QueryError if one that is wanted does not."""
    looked_at = {
        "infinite_value": columns.numbers,
        "unknown_value": columns.numbers,
        "inconsistent_ohlc": columns.candles,
        "negative_amount": columns.amounts,
        "unknown_side": "side" in names,
        "frozen_price": columns.prices,
        "crossed_book": columns.is_book,
        "outlier": columns.moving + columns.rates + columns.traded,
        "unit_jump": columns.sized,
        "quote_mismatch": columns.quoted,
    }
    reasons: dict[str, tuple[str, str | None]] = {
        name: ("a frame with the columns it looks at", None) for name, found in looked_at.items() if not found
    }
    if not has_grid:
        for name in ("unknown_interval", "misaligned", "missing_bucket", "stale"):
            reasons[name] = ("a frame of intervals", "say how long they are with interval=")
    if columns.is_raw:
        reasons["misaligned"] = ("a frame of intervals", None)
    if not is_ordered:
        reasons["unordered"] = ("a frame in memory, because rows of others have no order", "collect it first")
    if wanted is None:
        unasked = {"missing_bucket", "stale"} if columns.is_sparse else set()
        return tuple(name for name in CHECKS if name not in reasons and name not in unasked)
    for name in wanted:
        if name in reasons:
            expected, hint = reasons[name]
            raise QueryError("checks", got=name, expected=expected, hint=hint)
    return wanted
