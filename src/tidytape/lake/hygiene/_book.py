"""Order books: the best bid is below the best ask."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import polars as pl

from tidytape.aggregate import book_at, book_runs
from tidytape.lake.hygiene._subject import Found, Subject

__all__ = ["crossed_book", "crossed_snapshot"]

_DAY = 86_400 * 10**9
_MINUTE = 60 * 10**9
_OVERLAP = 10 * 10**9
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
        events = subject.rows.filter(time >= day - _OVERLAP, time < day + _DAY).collect(engine="streaming")
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


_BEST = (
    pl.col("price").filter(pl.col("side") == "BID").max().alias("bid"),
    pl.col("price").filter(pl.col("side") == "ASK").min().alias("ask"),
)


def _days(subject: Subject) -> list[int]:
    """Days with events, each by its start. [ns]"""
    start = (pl.col("timestamp") // _DAY * _DAY).alias("day")
    return (
        subject.rows.select(start.unique())
        .drop_nulls()
        .sort("day")
        .collect(engine="streaming")["day"]
        .to_list()
    )


def _crossed(subject: Subject, runs: pl.DataFrame, events: pl.DataFrame) -> pl.DataFrame:
    end = (pl.col("timestamp") // _MINUTE + 1) * _MINUTE - 1
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
        when = datetime.fromtimestamp(row["timestamp"] // 10**9, UTC).isoformat()
        yield crossed.height, f"{when}: bid {row['bid']!r} is not below ask {row['ask']!r}"
