"""Amounts of two sides, side by side: one row per series and time, what is unknown null."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any

import narwhals.stable.v2 as nw
from narwhals.stable.v2.typing import IntoFrameT

from tidytape.catalogue import Side
from tidytape.errors import QueryError
from tidytape.frames import exact
from tidytape.frames.buckets import bucket_start, length_of
from tidytape.frames.table import Table
from tidytape.frames.units import AMOUNT_UNIT, of_one
from tidytape.times import SECOND, interval_of


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
) -> tuple[Table[IntoFrameT], nw.LazyFrame[Any], list[str]]:
    """Return the frame, one row per (by, timestamp) with what the sides BUY and SELL amount to, and the names of by.

    Both amounts are null where one is unknown.

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
    present, by_side = table.names, amount is not None or not set(names) <= set(table.names)
    if by_side:
        amounts = [
            amount
            if amount is not None
            else next((name for name in candidates if name in present), candidates[0])
        ]
        table = Table.opened(table, ["side"], times=["timestamp"], numbers=amounts)
        side, value = nw.col("side").cast(nw.String), nw.col(amounts[0])
        is_known = side.is_in([str(one) for one in Side]) & usable(value)
        bought, sold = (nw.when(side == str(one)).then(value).otherwise(0.0) for one in (Side.BUY, Side.SELL))
    else:
        amounts = list(names)
        table = Table.opened(table, times=["timestamp"], numbers=amounts)
        bought, sold = (nw.col(name) for name in names)
        is_known = usable(bought) & usable(sold)
    keys = table.series(by, without=["side", "timestamp", *names, *results])
    # A trade has one side; candles of one side were asked for by side.
    if need_both and by_side and has_intervals(table, present):
        is_known = is_known & _of_both(table)
    table = of_one(table, AMOUNT_UNIT, keys, amounts)
    start, fits, labels = buckets(table, keys, interval)
    # Working names, because a column may have one of the results' names and be something else.
    rows = table.rows.filter(~nw.col("timestamp").is_null()).with_columns(
        __buy=nw.when(is_known, fits).then(bought),
        __sell=nw.when(is_known, fits).then(sold),
        __start=start,
    )
    rows = summed_by_bucket(rows, keys, labels, {"__buy": names[0], "__sell": names[1]})
    return table.with_words(dict.fromkeys(labels)), rows, keys


def summed_by_bucket(
    rows: nw.LazyFrame[Any], keys: Sequence[str], labels: Mapping[str, nw.Expr], sums: Mapping[str, str]
) -> nw.LazyFrame[Any]:
    """Return one row per keys and bucket: ``keys``, ``timestamp``, and the sum of each column under its new name.

    ``__start`` is the column of the bucket's start, and ``labels`` the columns of `buckets`. A sum is null where one of
    its amounts is.
    """
    return (
        exact.in_parts(rows, *sums)
        .group_by(*(name for name in keys if name not in labels), "__start")
        .agg(exact.summed(*sums))
        .with_columns(*(exact.total(name).alias(total) for name, total in sums.items()), **labels)
        .select(*keys, nw.col("__start").alias("timestamp"), *sums.values())
    )


def _of_both(table: Table[Any]) -> nw.Expr:
    """Return whether a frame has rows of both sides; raise QueryError if an eager one has rows of one alone."""
    side = nw.col("side").cast(nw.String)
    sides = [str(one) for one in Side]
    if not table.is_eager:
        return nw.all_horizontal(*((side == one).any() for one in sides), ignore_nulls=True)
    there = table.rows.select(side).unique().collect()["side"].to_list()
    if len(alone := [one for one in sides if one in there]) == 1:
        expected, hint = "candles of both sides", "fetch them with by_side=True, without side"
        raise QueryError("frame", got=f"candles of side {alone[0]} alone", expected=expected, hint=hint)
    return nw.lit(value=True)


def buckets(
    table: Table[Any], keys: Sequence[str], interval: str | timedelta | None
) -> tuple[nw.Expr, nw.Expr, dict[str, nw.Expr]]:
    """Return the start of the interval that each row lies in, whether it lies in no other, and its column ``interval``.

    Without ``interval`` each time is one of its own. Otherwise results name theirs, if ``keys`` do.
    """
    time = nw.col("timestamp")
    if interval is None:
        return time, nw.lit(value=True), {}
    wanted = interval_of(interval)
    fits: nw.Expr = nw.lit(value=True)
    if has_intervals(table, table.names):
        # What was summed over more than is asked for cannot be told apart again. A trade was not.
        fits = length_of(nw.col("interval")) <= wanted.seconds * SECOND
    labels = {"interval": nw.lit(str(wanted))} if "interval" in keys else {}
    return bucket_start(time, wanted), fits, labels


def has_intervals(table: Table[Any], columns: Sequence[str]) -> bool:
    """Return whether ``interval`` is among the columns and is each row's own length: a trade, with an id, has none."""
    return "interval" in columns and "id" not in table.names


def usable(value: nw.Expr) -> nw.Expr:
    """Return whether an amount is one: finite, and not below zero. Null where it is null."""
    return value.is_finite() & (value >= 0)


def quotient(over: nw.Expr, under: nw.Expr) -> nw.Expr:
    """Return a share, null where it is of nothing or not finite."""
    share = nw.when(under > 0).then(over / under)
    return nw.when(share.is_finite()).then(share)
