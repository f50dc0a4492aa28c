"""Reports of a state: what a bucket's reports say, and what was last reported at a moment.

A state (open interest, a funding rate, a market cap) holds until it is reported anew. What is null, not a number or
infinite is no report. Two reports of one time are ordered by their value, so that the answer never depends on the
order of the rows: the smaller is the earlier.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import narwhals.stable.v2 as nw

from tidytape.catalogue import Interval
from tidytape.frames.buckets import bucket_start
from tidytape.frames.door import BUCKET
from tidytape.frames.ordered import first, last
from tidytape.frames.table import Rows
from tidytape.times import DAY

CARRY: Final = DAY
"""How long a report holds when no other follows. [ns]"""

_NAME = "__name"
_VALUE = "__value"
_KIND = "__kind"
_MOST: Final = 9e15  # beyond it floats skip integers; 1,000 of it fit into int64
_PARTS: Final = 1e12  # the finest decimals that are counted


def number(name: str) -> nw.Expr:
    """Return a column as float64, null where it is not finite."""
    value = nw.col(name).cast(nw.Float64())
    return nw.when(value.is_finite()).then(value).alias(name)


def ohlc(column: str, prefix: str = "") -> dict[str, tuple[str, str]]:
    """Open, high, low and close of a column, as `by_bucket` takes them.

    Examples
    --------
    >>> ohlc("rate", "rate_")["rate_open"]
    ('rate', 'first')
    """
    picks = {"open": "first", "high": "max", "low": "min", "close": "last"}
    return {prefix + name: (column, pick) for name, pick in picks.items()}


def by_bucket(
    frame: Rows,
    interval: Interval,
    groups: Sequence[str],
    wanted: Mapping[str, tuple[str, str]],
) -> Rows:
    """Return what the reports of each group and bucket say.

    Parameters
    ----------
    frame : frame, n rows, in any order
        The columns of ``groups``, ``timestamp`` int64 [ns since the epoch], and the reported ones, all of one dtype.
    interval : Interval
        Length of a bucket.
    groups : sequence of str
        Columns that name what is reported on.
    wanted : mapping of str to (str, str)
        Of each new column: the column it comes from, and first, max, min or last. Nulls are passed over.

    Returns
    -------
    frame, one row per group and bucket where some column is not null, in no order
        ``groups``, ``timestamp`` int64, start of the bucket [ns], and the new columns.
    """
    sources = list(dict.fromkeys(source for source, _ in wanted.values()))
    picks = sorted({pick for _, pick in wanted.values()})
    keys = [*groups, BUCKET]
    timed = frame.with_columns(bucket_start(nw.col("timestamp"), interval).alias(BUCKET))
    # Long, so that each column passes over its own nulls. `unpivot` would be the word for it, but Narwhals runs
    # DuckDB's on DuckDB's default connection, where the frame may not be.
    cells = [
        timed.filter(~nw.col(source).is_null()).select(
            *keys, "timestamp", nw.lit(source).alias(_NAME), nw.col(source).alias(_VALUE)
        )
        for source in sources
    ]
    long = nw.concat(cells).group_by(*keys, _NAME).agg(*(_pick(timed, pick).alias(pick) for pick in picks))
    return (
        long.with_columns(
            nw.when(nw.col(_NAME) == source).then(nw.col(pick)).alias(name)
            for name, (source, pick) in wanted.items()
        )
        .group_by(*keys)
        .agg(nw.col(name).max() for name in wanted)
        .select(*groups, nw.col(BUCKET).alias("timestamp"), *wanted)
    )


def _pick(frame: Rows, pick: str) -> nw.Expr:
    value = nw.col(_VALUE)
    order = ("timestamp", _VALUE)
    match pick:
        case "first":
            return first(frame, _VALUE, order)
        case "last":
            return last(frame, _VALUE, order)
        case "max":
            return value.max()
        case _:
            return value.min()


def latest(frame: Rows, interval: Interval, keys: Sequence[str], value: str) -> Rows:
    """Return the last report of each key and bucket, with its own time.

    Parameters
    ----------
    frame : frame, n rows, in any order
        ``keys``, ``timestamp`` int64 [ns since the epoch] and the ``value`` float64, whose nulls are passed over.
    interval : Interval
        Length of a bucket.
    keys : sequence of str
        Columns that name what is reported on.
    value : str
        The column that is reported.

    Returns
    -------
    frame, one row per key and bucket with a report, in no order
        ``keys``, ``timestamp`` int64, of the report [ns], and ``value``.
    """
    return (
        frame.filter(nw.col(value).abs() < _MOST)
        .with_columns(bucket_start(nw.col("timestamp"), interval).alias(BUCKET))
        .group_by(*keys, BUCKET)
        .agg(last(frame, value, ("timestamp", value)), nw.col("timestamp").max())
        .select(*keys, "timestamp", value)
    )


def known_sum(
    reports: Rows,
    moments: Rows,
    *,
    seen: Rows,
    groups: Sequence[str],
    members: Sequence[str],
    value: str,
    until: nw.Expr,
) -> Rows:
    """Return the sum, over the members of each group, of what each last reported, at the moments of the group.

    Each report adds its value when it is made and takes it back when the member reports anew or the report lapses: the
    sum at a moment is a running sum. It runs in whole numbers of 1e-12, so it is exact, and nothing is left over. Where
    a member has a report that holds, and none of them says its value, the sum is unknown.

    Parameters
    ----------
    reports : frame, n rows, in any order
        ``groups``, ``members``, ``timestamp`` int64 [ns], one row per member and time, and the ``value``, below 9e15.
    moments : frame, m rows, in any order
        ``groups`` and ``timestamp`` int64 [ns], each once.
    seen : frame, k rows, in any order
        Every report, with a value or without: ``groups``, ``members`` and ``timestamp``, one row per member and time.
    groups, members : sequence of str
        Columns that name a group, and a member inside it.
    value : str
        The column to sum.
    until : expression, int64
        When a report lapses if no other follows: the first time at which it no longer holds. [ns]

    Returns
    -------
    frame, m rows, in no order
        ``groups``, ``timestamp``, ``value``: the sum, null where nothing or not everything is known, and ``count``
        float64, how many members' values are in it.
    """
    whole = nw.col(value).floor()
    one, zero = nw.lit(1).cast(nw.Int64()), nw.lit(0).cast(nw.Int64())
    limbs = ("whole", "parts", "count", "seen")
    columns = [*groups, "timestamp", _KIND, *limbs]
    follows = nw.col("timestamp").shift(-1).over(*groups, *members, order_by="timestamp")
    parts = [moments.with_columns(one.alias(_KIND), *(zero.alias(name) for name in limbs))]
    said = {
        "whole": whole.cast(nw.Int64()),
        "parts": ((nw.col(value) - whole) * _PARTS + 0.5).floor().cast(nw.Int64()),
        "count": one,
        "seen": zero,
    }
    for frame, adds in ((reports, said), (seen, dict.fromkeys(limbs, zero) | {"seen": one})):
        states = frame.with_columns(
            nw.min_horizontal(until, follows).alias("until"),
            *(added.alias(name) for name, added in adds.items()),
            zero.alias(_KIND),
        )
        parts += [
            states,
            states.with_columns(nw.col("until").alias("timestamp"), *(-nw.col(name) for name in limbs)),
        ]
    changes = nw.concat([frame.select(*columns) for frame in parts])
    # What a group adds it takes back, so a running sum over all of them, group by group, is one within each.
    return (
        changes.with_columns(nw.col(*limbs).cum_sum().over(*groups, order_by=["timestamp", _KIND]))
        .filter(nw.col(_KIND) == 1)
        .with_columns(nw.col(*limbs).cast(nw.Float64()))
        .select(
            *groups,
            "timestamp",
            nw.when((nw.col("count") > 0) & (nw.col("count") == nw.col("seen")))
            # A divisor that is a column: polars multiplies by the rounded reciprocal of a constant one.
            .then(nw.col("whole") + nw.col("parts") / (nw.col("count") * 0.0 + _PARTS))
            .alias(value),
            "count",
        )
    )


def beside(points: Rows, others: Rows, on: Sequence[str]) -> Rows:
    """Return the points with the columns of other points of the same key, null where there are none."""
    return points.join(others, on=list(on), how="left")
