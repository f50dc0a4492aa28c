"""Rows with the blocks that touched them, and the runs that one block alone touched."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import narwhals.stable.v2 as nw
from narwhals.stable.v2.typing import IntoFrameT

from tidytape.analytics.profile._blocks import block_length, said_minutes, touched_rows
from tidytape.analytics.profile._grid import row_price, step_of
from tidytape.analytics.profile._opening import SESSION, Profiles, opened
from tidytape.query.values import TimeLike, epoch_seconds
from tidytape.times import MINUTE, SECOND


def opened_rows(
    levels: IntoFrameT,
    by: str | Iterable[str] | None,
    price: str,
    *,
    results: Iterable[str],
    row_size: float | Decimal | None,
    now: TimeLike | None,
    block_minutes: float | None,
) -> tuple[Profiles[IntoFrameT], nw.LazyFrame[Any]]:
    """Return the caller's sessions, and their rows as `flagged`."""
    step, block_minutes = step_of(row_size), said_minutes(block_minutes)
    times = () if now is None else (SESSION,)
    profiles = opened(
        levels, by, results=results, numbers={"price": price}, times=times, blocks=True, step=step
    )
    if now is None:
        return profiles, flagged(touched_rows(profiles, price, step), profiles.keys, step, now=None)
    length = block_length(profiles, block_minutes)
    rows = touched_rows(profiles, price, step, length, {"start": SESSION})
    return profiles, flagged(rows, profiles.keys, step, now=now)


def flagged(
    rows: nw.LazyFrame[Any], keys: list[str], step: Fraction | None, *, now: TimeLike | None
) -> nw.LazyFrame[Any]:
    """Return `touched_rows`, of sessions that start at ``start``, with their ends and three flags as numbers."""
    index = nw.col("index")
    rows = rows.with_columns(
        row_price=row_price(step), lowest=index.min().over(keys), highest=index.max().over(keys)
    )
    progress = nw.lit(0.0)
    if now is not None:
        until = epoch_seconds(now, parameter="now") * SECOND
        so_far = (until - nw.col("start")).cast(nw.Float64)
        end = (nw.col("last") + 1) * nw.col("block_length") * float(MINUTE)
        progress = nw.when(~end.is_null()).then((end > so_far).cast(nw.Float64))
    return rows.with_columns(
        at_low=(index == nw.col("lowest")).cast(nw.Float64),
        at_high=(index == nw.col("highest")).cast(nw.Float64),
        in_progress=progress,
    )


def runs(rows: nw.LazyFrame[Any], keys: list[str]) -> nw.LazyFrame[Any]:
    """Return one row per run of single rows of `flagged`: its keys, ends, blocks, and whether it is at an end."""
    single = rows.filter("known").filter(nw.col("blocks") == 1)
    # Neighbours of one run are as far from the first row as their number among the single ones.
    single = single.with_columns(one=nw.lit(1.0))
    single = single.with_columns(number=nw.col("one").cum_sum().over(keys, order_by="place"))
    return (
        single.with_columns(run=nw.col("index") - nw.col("number"))
        .group_by(*keys, "run")
        .agg(
            nw.col("row_price").min().alias("low"),
            nw.col("row_price").max().alias("high"),
            nw.col("one").sum().alias("rows"),
            nw.col("first").min(),
            nw.col("last").max(),
            nw.col("in_progress", "at_low", "at_high").max(),
        )
    )
