"""Amounts of two sides, side by side: one row per series and time, what is unknown null."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Generic

import narwhals.stable.v2 as nw
from narwhals.stable.v2.typing import IntoFrameT

from tidytape.catalogue import Side
from tidytape.frames import exact
from tidytape.frames.buckets import SECOND, bucket_start, interval_of
from tidytape.frames.steps import length_of
from tidytape.frames.table import Table

__all__ = ["Sides", "quotient", "sides", "usable"]


@dataclass(frozen=True)
class Sides(Generic[IntoFrameT]):
    """Amounts of two sides.

    Attributes
    ----------
    table : Table
        The frame they are of.
    rows : narwhals LazyFrame, one row per (by, timestamp)
        ``by``, ``timestamp`` [ns], and a column per side, both null where one is unknown.
    by : list of str
        The columns that tell one series from another.
    """

    table: Table[IntoFrameT]
    rows: nw.LazyFrame[Any]
    by: list[str]


def sides(
    frame: IntoFrameT,
    *,
    by: str | Iterable[str] | None,
    interval: str | timedelta | None,
    amount: str | None,
    candidates: Sequence[str],
    names: tuple[str, str],
    results: Sequence[str] = (),
) -> Sides[IntoFrameT]:
    """Return what the sides BUY and SELL amount to.

    Parameters
    ----------
    frame : frame
        With ``timestamp``, and ``side`` with a column of amounts; or with both of ``names``.
    by : str or iterable of str, optional
        The columns that tell one series from another; identity columns but for ``side``.
    interval : str or timedelta, optional
        Interval to sum over; without it, each time is one of its own.
    amount : str, optional
        Column of the amounts; one of ``candidates``.
    candidates : sequence of str
        Names of it, the first that there is.
    names : (str, str)
        What the amounts of BUY and of SELL are called.
    results : sequence of str
        What else the caller will add.
    """
    table = Table.opened(frame, times=["timestamp"])
    present = table.names
    if amount is None and set(names) <= set(present):
        table = Table.opened(frame, times=["timestamp"], numbers=names)
        bought, sold = (nw.col(name) for name in names)
        known = usable(bought) & usable(sold)
    else:
        if amount is None:
            amount = next((name for name in candidates if name in present), candidates[0])
        table = Table.opened(frame, ["side"], times=["timestamp"], numbers=[amount])
        side, value = nw.col("side").cast(nw.String), nw.col(amount)
        is_buy, is_sell = side == str(Side.BUY), side == str(Side.SELL)
        known = (is_buy | is_sell) & usable(value)
        bought, sold = (nw.when(one).then(value).otherwise(0.0) for one in (is_buy, is_sell))
    keys = table.series(by, without=["side", "timestamp", *names, *results])
    rows, time = table.rows, nw.col("timestamp")
    labels: dict[str, nw.Expr] = {}
    if interval is not None:
        wanted = interval_of(interval)
        if "interval" in present and "id" not in present:
            # What was summed over more than is asked for cannot be told apart again. A trade was not.
            known = known & (length_of(nw.col("interval")) <= wanted.seconds * SECOND)
        labels = {"interval": nw.lit(str(wanted))} if "interval" in keys else {}
        time = bucket_start(time, wanted)
    groups = [name for name in keys if name not in labels]
    known = known.fill_null(value=False)
    # Working names, because a column may have one of the results' names and be something else.
    rows = (
        rows.filter(~nw.col("timestamp").is_null())
        .with_columns(__known=known, __buy=bought, __sell=sold, __time=time)
        .with_columns(
            nw.when("__known").then(nw.col(name)).otherwise(0.0).alias(name) for name in ("__buy", "__sell")
        )
        .pipe(exact.in_parts, "__buy", "__sell")
        .group_by(*groups, "__time")
        .agg(exact.summed("__buy", "__sell"), nw.col("__known").all())
        .with_columns(exact.total("__buy"), exact.total("__sell"))
        .select(
            *(labels[name].alias(name) if name in labels else nw.col(name) for name in keys),
            nw.col("__time").alias("timestamp"),
            *(
                nw.when("__known").then(nw.col(own)).alias(name)
                for own, name in zip(("__buy", "__sell"), names, strict=True)
            ),
        )
    )
    return Sides(table.with_words(dict.fromkeys(labels)), rows, keys)


def usable(value: nw.Expr) -> nw.Expr:
    """Return whether an amount is one: finite, and not below zero. Null where it is null."""
    return value.is_finite() & (value >= 0)


def quotient(over: nw.Expr, under: nw.Expr) -> nw.Expr:
    """Return a share, null where it is of nothing or not finite."""
    share = nw.when(under > 0).then(over / under)
    return nw.when(share.is_finite()).then(share)
