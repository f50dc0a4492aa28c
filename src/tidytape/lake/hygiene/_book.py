"""Order books: the best bid is below the best ask, and ids rise in time."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import polars as pl

from tidytape.aggregate import book_at, book_runs
from tidytape.lake.hygiene._subject import Found, Subject
from tidytape.lake.rollup.recipes import SKEW
from tidytape.times import DAY, MINUTE, SECOND

_OVERLAP = 10 * SECOND
"""Updates that arrived this long before the book they change are read with it. [ns]"""


def crossed_snapshot(subject: Subject) -> Iterator[Found]:
    """Snapshots as they were recorded."""
    crossed = (
        subject.rows.filter("is_snapshot", pl.col("size") > 0)
        .group_by("timestamp", "last_id")
        .agg(*_BEST)
        .filter(pl.col("bid") >= pl.col("ask"))
        .sort("timestamp")
        .collect(engine="streaming")
    )
    return _found(crossed)


def crossed_book(subject: Subject) -> Iterator[Found]:
    """Books as they are rebuilt, at the end of each minute in which something happened.

    Day by day, so that memory holds the events of one day. The book that a day ends with begins the next as if it were
    a snapshot.
    """
    count, first = 0, None
    held: pl.DataFrame | None = None
    for day in _days(subject):
        time = pl.col("timestamp")
        events = subject.rows.filter(time >= day - _OVERLAP, time < day + DAY).collect(engine="streaming")
        if held is not None:
            # What the book of yesterday knows already is left out; without ids, what is of yesterday.
            place = held["last_id"][0]
            known = time < day if place is None else pl.col("last_id") <= place
            events = pl.concat([held, events.filter(~known.fill_null(value=False))], how="diagonal_relaxed")
        runs = book_runs(events)
        crossed = _crossed(subject, runs, events.filter(time >= day))
        count += crossed.height
        if first is None and crossed.height:
            first = crossed.head(1)
        held = _carried(runs, events)
    if first is not None:
        yield count, next(_found(first))[1]


def unlike_ids(subject: Subject) -> Iterator[Found]:
    """Events whose ids say another order than their times."""
    late = late_by_id(subject.rows)
    if late.height:
        row = late.row(0, named=True)
        when = datetime.fromtimestamp(row["minute"] * MINUTE // SECOND, UTC).isoformat()
        yield (
            late.height,
            f"{when}: id {row['lowest']} comes more than {SKEW // MINUTE} minutes after id {row['before']}",
        )


def late_by_id(events: pl.LazyFrame) -> pl.DataFrame:
    """Return the minutes of one book that have events whose ids belong more than `SKEW` earlier.

    A book is put in the order of its ids, and read from a snapshot on, with as much before and after as clocks may
    differ. Where ids and times differ by more, it depends on what is read what the book was.

    Parameters
    ----------
    events : polars.LazyFrame
        ``timestamp`` [ns since the epoch] and ``last_id`` of one instrument, in any order.

    Returns
    -------
    polars.DataFrame, one row per such minute, sorted
        ``minute`` [min since the epoch], ``lowest`` id in it, and ``before``, a higher one that came earlier. No rows
        where an event has no id: then times alone give the order.
    """
    id_ = pl.col("last_id")
    minutes = (
        events.group_by(minute=pl.col("timestamp") // MINUTE)
        .agg(lowest=id_.min(), highest=id_.max(), unnumbered=id_.null_count())
        .drop_nulls("minute")
        .sort("minute")
        .collect(engine="streaming")
    )
    before = minutes.select(pl.col("minute") + SKEW // MINUTE + 1, before=pl.col("highest").cum_max())
    late = minutes.join_asof(before, on="minute").filter(pl.col("lowest") < pl.col("before"))
    return late.clear() if minutes["unnumbered"].sum() else late.select("minute", "lowest", "before")


_BEST = (
    pl.col("price").filter(pl.col("side") == "BID").max().alias("bid"),
    pl.col("price").filter(pl.col("side") == "ASK").min().alias("ask"),
)


def _days(subject: Subject) -> list[int]:
    """Days with events, each by its start. [ns]"""
    start = (pl.col("timestamp") // DAY * DAY).alias("day")
    return (
        subject.rows.select(start.unique())
        .drop_nulls()
        .sort("day")
        .collect(engine="streaming")["day"]
        .to_list()
    )


def _crossed(subject: Subject, runs: pl.DataFrame, events: pl.DataFrame) -> pl.DataFrame:
    end = (pl.col("timestamp") // MINUTE + 1) * MINUTE - 1
    instants = (
        events.drop_nulls("timestamp")
        .select(timestamp=end.unique())
        .with_columns(**{name: pl.lit(value) for name, value in subject.partition.items()})
    )
    return (
        book_at(runs.lazy(), instants.lazy())
        .group_by("timestamp")
        .agg(*_BEST)
        .filter(pl.col("bid") >= pl.col("ask"))
        .sort("timestamp")
        .collect(engine="streaming")
    )


def _carried(runs: pl.DataFrame, events: pl.DataFrame) -> pl.DataFrame | None:
    """The last book of some runs, as a snapshot."""
    open_runs = runs.filter(pl.col("until").is_null())
    if open_runs.is_empty():
        return None
    has_ids = events["last_id"].null_count() == 0
    return open_runs.select(
        "exchange",
        "raw_symbol",
        timestamp=pl.lit(events["timestamp"].max(), pl.Int64),
        last_id=pl.lit(events["last_id"].max() if has_ids else None, pl.Int64),
        is_snapshot=pl.lit(True),
        side="side",
        price="price",
        size="size",
        sequence=pl.int_range(pl.len(), dtype=pl.Int64),
    )


def _found(crossed: pl.DataFrame) -> Iterator[Found]:
    if crossed.height:
        row = crossed.row(0, named=True)
        when = datetime.fromtimestamp(row["timestamp"] // SECOND, UTC).isoformat()
        yield crossed.height, f"{when}: bid {row['bid']!r} is not below ask {row['ask']!r}"
