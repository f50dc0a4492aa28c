"""A chain of options, opened: its times, its keys, and which of its quotes are good for a smile."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Generic

import narwhals.stable.v2 as nw
import numpy as np
from narwhals.stable.v2.typing import IntoFrameT
from numpy.typing import NDArray

from tidytape.analytics._expiries import EXPIRES as _EXPIRES
from tidytape.analytics._smile import CALL, PUT, Frame, measured
from tidytape.frames.table import Table
from tidytape.frames.times import counted_beside, midnights
from tidytape.times import DAY, YEAR

CHAIN_COLUMNS: Final = ("timestamp", "expiry", "strike", "option_type")
"""What tells one quote of a series of chains from another."""

QUOTED: Final = ("strike", "implied_volatility", "forward")
"""Numbers without which a quote is no point of a smile."""

_OF_OPTIONS = ("raw_symbol", "normalized_symbol", "side", *CHAIN_COLUMNS)

_UNDERLYING: Final = ("forward", "underlying_price")
"""Prices of what an option is on: one of an expiry, but for how long a snapshot takes."""

_FARTHEST: Final = 1.05
"""Highest over lowest of those within one snapshot, at most; the recorded ones are closer by far, two coins are not."""


@dataclass(frozen=True)
class Chain(Generic[IntoFrameT]):
    """A caller's chain, and its quotes to work on.

    Attributes
    ----------
    rows : narwhals LazyFrame
        All columns, and ``__life``, float64, from the quote to its expiry. [ns]
    by : list of str
        Columns that tell one series of chains from another.
    """

    table: Table[IntoFrameT]
    rows: Frame
    by: list[str]
    dates: bool

    @classmethod
    def opened(
        cls,
        native: IntoFrameT,
        by: str | Iterable[str] | None,
        *,
        numbers: Iterable[str] = QUOTED,
        results: Iterable[str] = (),
        whole: bool = False,
    ) -> Chain[IntoFrameT]:
        """Return the chain opened; errors as of `Table.opened` and `Table.series`.

        Parameters
        ----------
        native : frame
            Eager or lazy, of any engine.
        by : str, iterable of str or None
            As of `Table.series`; identity columns of single options are none of a chain.
        numbers : iterable of str
            Columns it must have, of numbers.
        results : iterable of str
            Columns that the result will have beside these.
        whole : bool
            Whether the rows come back, with the times of their expiries as they are, in reach of nanoseconds or not.
        """
        numbers = (*numbers, "strike")
        needed = (*CHAIN_COLUMNS, *numbers)
        table = Table.opened(native, needed, times=["timestamp"], numbers=numbers)
        dates = table.rows.collect_schema()["expiry"] == nw.Date
        if dates:
            rows = midnights(table.rows, "expiry").with_columns(nw.col("expiry") + _EXPIRES)
        elif whole:
            rows = counted_beside(table.rows, "expiry", "__expiry")
        else:
            table = Table.opened(table, needed, times=["timestamp", "expiry"], numbers=numbers)
            rows = table.rows
        expiry = nw.col("__expiry" if whole and not dates else "expiry")
        life = (expiry - nw.col("timestamp")).cast(nw.Float64)
        keys = table.series(by, without=(*_OF_OPTIONS, *numbers, *results))
        return cls(table, rows.with_columns(life.alias("__life")), keys, dates)

    @property
    def smile(self) -> list[str]:
        """Columns that name one smile: a series, a time and an expiry."""
        return [*self.by, "timestamp", "expiry"]

    def measured(self) -> Frame:
        """Return the quotes of chains and expiries that are known, with what `measured` adds.

        A quote that is no point of a smile is blank: without a call or put, a positive strike, volatility or forward,
        or with no time left. So are all of a smile that is `with_mixed`.
        """
        positive = [nw.col(name).is_finite() & (nw.col(name) > 0) for name in QUOTED]
        kind = kind_of() == CALL
        kind = kind | (kind_of() == PUT)
        good = nw.all_horizontal(*positive, kind, nw.col("__life") > 0, ignore_nulls=False)
        quotes = (
            self.rows.filter(~nw.col("timestamp").is_null(), ~nw.col("expiry").is_null())
            .with_columns(good.fill_null(value=False).alias("__good"), option_type=kind_of())
            .with_columns(nw.when("__good").then(nw.col(name)).alias(name) for name in QUOTED)
        )
        quotes = self.with_mixed(quotes, "implied_volatility", "forward")
        quotes = quotes.with_columns(nw.col("__good") & ~nw.col("__mixed")).with_columns(
            *(nw.when("__good").then(nw.col(name)).alias(name) for name in QUOTED),
            nw.when("__good").then(nw.col("__life")).alias("__alive"),
        )
        return measured(quotes, years_of(nw.col("__alive")))

    def with_mixed(self, quotes: Frame, *names: str) -> Frame:
        """Add ``__mixed``, whether a smile is of several underlyings, or of several snapshots.

        That is so where one option has several values in one of some columns of numbers; and where the quotes have
        several coins, or forwards farther apart than a snapshot takes: their strikes need not meet.
        """
        option = [*self.smile, "strike", "option_type"]
        apart = [nw.col(name).max().over(*option) > nw.col(name).min().over(*option) for name in names]
        schema = quotes.collect_schema()
        if "coin" in schema and "coin" not in self.by:
            apart.append(nw.col("coin").max().over(*self.smile) > nw.col("coin").min().over(*self.smile))
        for name in _UNDERLYING:
            if name in schema and schema[name].is_numeric():
                price = nw.col(name).cast(nw.Float64)
                own = f"__{name}"
                quotes = quotes.with_columns(nw.when(price.is_finite() & (price > 0)).then(price).alias(own))
                least, most = nw.col(own).min().over(*self.smile), nw.col(own).max().over(*self.smile)
                apart.append(most > least * _FARTHEST)
        several = nw.any_horizontal(*(one.fill_null(value=False) for one in apart), ignore_nulls=False)
        quotes = quotes.with_columns(several.cast(nw.Float64).alias("__mixed"))
        return quotes.with_columns(nw.col("__mixed").max().over(*self.smile) > 0)

    def collected(self, rows: Frame, why: str) -> nw.DataFrame[Any]:
        """Return rows in memory, as of `Table.collected`."""
        return replace(self.table, rows=rows).collected(why)

    def closed(
        self,
        result: nw.LazyFrame[Any] | nw.DataFrame[Any],
        *,
        sort: Sequence[str] = (),
        like_rows: bool = False,
    ) -> IntoFrameT:
        """Return a result as the kind of frame that was opened, an expiry as it was, or as the time of the quote."""
        names = result.collect_schema().names()
        times = {"expiry": "timestamp"} if self.dates and "expiry" in names else None
        return self.table.closed(result, sort=sort, times=times, like_rows=like_rows)


def kind_of() -> nw.Expr:
    """Return what ``option_type`` says, CALL or PUT, however it is written: call, Put, C, p."""
    said = nw.col("option_type").cast(nw.String).str.to_uppercase()
    return nw.when(said == "C").then(nw.lit(CALL)).when(said == "P").then(nw.lit(PUT)).otherwise(said)


def days_of(life: nw.Expr) -> nw.Expr:
    """Return a time in days of ACT/365. [d]"""
    # By a column: polars multiplies by the rounded reciprocal of a literal, and 30 days would not be 30.
    return life / (life * 0.0 + float(DAY))


def years_of(life: nw.Expr) -> nw.Expr:
    """Return a time in years of ACT/365. [y]"""
    return life / (life * 0.0 + float(YEAR))


def floats(column: nw.Series[Any]) -> NDArray[np.float64]:
    """Return a column of numbers as an array, NaN where it is null."""
    return column.cast(nw.Float64).to_numpy().astype(np.float64)


def null_for_nan(frame: nw.DataFrame[Any], names: Iterable[str]) -> nw.DataFrame[Any]:
    """Return a frame made of arrays with null where these columns have no number."""
    return frame.with_columns(
        nw.when(~nw.col(name).is_nan()).then(nw.col(name)).alias(name) for name in names
    )
