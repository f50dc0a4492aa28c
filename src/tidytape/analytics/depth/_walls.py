"""Levels of a book that stay."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

import narwhals.stable.v2 as nw
from narwhals.stable.v2.typing import IntoFrameT

from tidytape.analytics._arguments import nanoseconds, positive, whole
from tidytape.frames.ordered import within
from tidytape.frames.table import Table
from tidytape.frames.units import AMOUNT_UNIT, BLOCK_SIZE, of_one

_NOISE = 1e-12
_TAKEN = ("timestamp", "side", "price", "size")
_RESULTS = (
    "first_timestamp",
    "last_timestamp",
    "snapshots",
    "size_min",
    "size_mean",
    "size_max",
    "is_standing",
)


def walls(
    frame: IntoFrameT,
    /,
    *,
    threshold: float,
    snapshots: int = 3,
    duration: str | timedelta = timedelta(0),
    max_gap: str | timedelta | None = None,
    by: str | Iterable[str] | None = None,
) -> IntoFrameT:
    """Walls: prices at which a large size rests in one snapshot after the other.

    A wall is a longest run of successive snapshots of a series that each have at least ``threshold`` at one price and
    side. It stands in at least ``snapshots`` of them, and from the first to the last at least ``duration``.

    Parameters
    ----------
    frame : frame, n rows, key (series, timestamp, side, price), any order
        Schema BLOCK_BOOK_SNAPSHOT_AGG. Uses ``timestamp``, ``side``, ``price`` [quote per coin] and ``size`` [coin; USD
        if so asked].
    threshold : float, > 0
        Least size. [as ``size``]
    snapshots : int, >= 1
        Least number of snapshots.
    duration : str or timedelta, >= 0
        Least time from the first of them to the last, e.g. ``"10m"``.
    max_gap : str or timedelta, >= 0, optional
        Snapshots further apart do not follow each other: what happened in between is not known, and a wall ends. By
        default each snapshot follows the one before, however long ago that was.
    by : str or iterable of str, optional
        Columns that tell one series from another; by default the identity columns that the frame has.

    Returns
    -------
    frame, one row per wall, sorted by series, first time, side and price, of the kind of ``frame``
        The columns of the series, ``side``, ``price``, and

        - ``first_timestamp``, ``last_timestamp`` : of its first and its last snapshot, as ``timestamp`` says times.
        - ``snapshots`` : int64, how many.
        - ``size_min``, ``size_mean``, ``size_max`` : float64, over its snapshots. [as ``size``]
        - ``is_standing`` : bool, whether its last snapshot is the series' last: it may yet go on.

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If an argument is not as listed, a column does not hold what it should, or an eager frame has several
        ``amount_unit`` or ``block_size`` in one series; of a lazy frame such a series has no walls.

    Notes
    -----
    Sizes of one price, side and time are added. A size that is null or not finite is not known to be large, so a wall
    ends there. That a wall lasted is known at its last snapshot, not at its first.

    Examples
    --------
    >>> from datetime import UTC, datetime
    >>> import polars as pl
    >>> book = pl.DataFrame({
    ...     "timestamp": [datetime(2024, 8, 8, 0, minute, tzinfo=UTC) for minute in (0, 1, 2, 3, 4)],
    ...     "side": "BID", "price": 99.0, "size": [50.0, 60.0, 1.0, 70.0, 80.0],
    ... })
    >>> walls(book, threshold=50, snapshots=2).select("snapshots", "size_min", "is_standing").rows()
    [(2, 50.0, False), (2, 70.0, True)]
    """
    threshold = positive("threshold", threshold)
    snapshots = whole("snapshots", snapshots)
    least = nanoseconds("duration", duration)
    furthest = None if max_gap is None else nanoseconds("max_gap", max_gap)
    table = Table.opened(frame, ["side"], times=["timestamp"], numbers=["price", "size"])
    series = table.series(by, without=[*_TAKEN, *_RESULTS])
    for column in (AMOUNT_UNIT, BLOCK_SIZE):
        table = of_one(table, column, series, ["size"])
    level = [*series, "side", "price"]
    time, number, size = nw.col("timestamp"), nw.col("__number"), nw.col("size")
    rows = _numbered(table.rows.filter(~time.is_null()), series, furthest)
    # An infinite size is unknown, and so is a sum with it.
    is_known = (size.is_finite() & (size >= 0)).fill_null(value=False)
    sizes = rows.with_columns(
        size=nw.when(is_known).then(size).otherwise(float("inf")), __newest=within(number.max(), series)
    )
    large = (
        sizes.group_by(*level, "timestamp", "__number", "__newest")
        .agg(size.sum())
        .filter(size >= threshold * (1 - _NOISE), size < float("inf"))
    )
    # Both grow by one from snapshot to snapshot, so their difference names a run.
    place = size.cum_count().over(*level, order_by="__number").cast(nw.Int64)
    runs = large.with_columns(__run=number - place, is_standing=number == nw.col("__newest"))
    found = runs.group_by(*level, "__run").agg(
        first_timestamp=time.min(),
        last_timestamp=time.max(),
        snapshots=nw.len().cast(nw.Int64),
        size_min=size.min(),
        size_mean=size.mean(),
        size_max=size.max(),
        is_standing=nw.col("is_standing").any(),
    )
    lasted = nw.col("last_timestamp") - nw.col("first_timestamp")
    result = found.filter(nw.col("snapshots") >= snapshots, lasted >= least)
    return table.closed(
        result.select(*level, *_RESULTS),
        sort=[*series, "first_timestamp", "side", "price"],
        times={"first_timestamp": "timestamp", "last_timestamp": "timestamp"},
    )


def _numbered(rows: nw.LazyFrame[Any], series: list[str], furthest: int | None) -> nw.LazyFrame[Any]:
    """Add the ``__number`` of each row's snapshot in its series; one is left out where two are too far apart."""
    time, gaps = nw.col("timestamp"), nw.col("__gaps")
    rows = rows.with_columns(__number=within(time.rank("dense"), series).cast(nw.Int64))
    if furthest is None:
        return rows
    is_far = time - time.shift(1).over(*series, order_by="timestamp") > furthest
    rows = rows.with_columns(__gaps=is_far.fill_null(value=False).cast(nw.Int64))
    rows = rows.with_columns(gaps.cum_sum().over(*series, order_by="timestamp"))
    # Rows of one time stand in any order.
    return rows.with_columns(__number=nw.col("__number") + gaps.max().over(*series, "timestamp"))
