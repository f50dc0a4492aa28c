"""Amounts of two sides, side by side: one row per series and time, what is unknown null."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Generic

import narwhals.stable.v2 as nw
from narwhals.stable.v2.typing import IntoFrameT

from tidytape.catalogue import Side
from tidytape.errors import QueryError
from tidytape.frames import exact
from tidytape.frames.buckets import bucket_start, length_of
from tidytape.frames.table import Table
from tidytape.frames.units import AMOUNT_UNIT, of_one
from tidytape.times import SECOND, interval_of


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
    need_both: bool = False,
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
    need_both : bool
        Whether candles of which all are of one side are refused, if eager, and else unknown: they say nothing of the
        other side.
    """
    table = Table.opened(frame, times=["timestamp"])
    present = table.names
    is_by_side = amount is not None or not set(names) <= set(present)
    if not is_by_side:
        table = Table.opened(table, times=["timestamp"], numbers=names)
        bought, sold = (nw.col(name) for name in names)
        known = usable(bought) & usable(sold)
        amounts = list(names)
    else:
        if amount is None:
            amount = next((name for name in candidates if name in present), candidates[0])
        table = Table.opened(table, ["side"], times=["timestamp"], numbers=[amount])
        side, value = nw.col("side").cast(nw.String), nw.col(amount)
        is_buy, is_sell = side == str(Side.BUY), side == str(Side.SELL)
        known = (is_buy | is_sell) & usable(value)
        bought, sold = (nw.when(one).then(value).otherwise(0.0) for one in (is_buy, is_sell))
        amounts = [amount]
    keys = table.series(by, without=["side", "timestamp", *names, *results])
    # A trade has one side; candles of one side were asked for by side.
    is_checked = need_both and is_by_side and "interval" in present and "id" not in present
    if is_checked and table.is_eager:
        _require_both(table)
    table = of_one(table, AMOUNT_UNIT, keys, amounts)
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
    if is_checked and not table.is_eager:
        known = known & _has_both()
        rows = rows.with_columns(__all=nw.lit(0))
    # Working names, because a column may have one of the results' names and be something else.
    rows = (
        rows.filter(~nw.col("timestamp").is_null())
        .with_columns(__buy=nw.when(known).then(bought), __sell=nw.when(known).then(sold), __time=time)
        .pipe(exact.in_parts, "__buy", "__sell")
        .group_by(*groups, "__time")
        .agg(exact.summed("__buy", "__sell"))
        .with_columns(exact.total("__buy"), exact.total("__sell"))
        .select(
            *(labels[name].alias(name) if name in labels else nw.col(name) for name in keys),
            nw.col("__time").alias("timestamp"),
            *(nw.col(own).alias(name) for own, name in zip(("__buy", "__sell"), names, strict=True)),
        )
    )
    return Sides(table.with_words(dict.fromkeys(labels)), rows, keys)


def _require_both(table: Table[IntoFrameT]) -> None:
    """Raise QueryError if a frame has rows of one side, BUY or SELL, and none of the other."""
    present = table.rows.select(nw.col("side").cast(nw.String)).unique().collect()["side"].to_list()
    (*found,) = (str(side) for side in Side if str(side) in present)
    if len(found) == 1:
        expected, hint = "candles of both sides", "fetch them with by_side=True, without side"
        raise QueryError("frame", got=f"candles of side {found[0]} alone", expected=expected, hint=hint)


def _has_both() -> nw.Expr:
    """Return whether a frame has rows of both sides; its rows need a column ``__all``, the same in all."""
    side = nw.col("side").cast(nw.String)
    both = [nw.when(side == str(one)).then(1).otherwise(0).max().over("__all") for one in Side]
    return nw.min_horizontal(*both) > 0


def usable(value: nw.Expr) -> nw.Expr:
    """Return whether an amount is one: finite, and not below zero. Null where it is null."""
    return value.is_finite() & (value >= 0)


def quotient(over: nw.Expr, under: nw.Expr) -> nw.Expr:
    """Return a share, null where it is of nothing or not finite."""
    share = nw.when(under > 0).then(over / under)
    return nw.when(share.is_finite()).then(share)
