"""Lengths of intervals, buckets of any length, and neighbours in time, on every engine."""

from __future__ import annotations

import narwhals.stable.v2 as nw
import polars as pl
import pytest

from engines import Engine
from tables import each_row
from tidytape.catalogue import Interval
from tidytape.frames._table import OpenTable
from tidytape.frames._times import bucket_by, bucket_start, length_of
from tidytape.times import MONDAY, SECOND

pytestmark = pytest.mark.usefixtures("small_times")

TIMES = [
    0,
    -1,
    1_723_161_600_000_000_123,
    -604_800_000_000_001,
    MONDAY - 1,
    MONDAY,
    1_723_161_600_000_000_122,
]


def computed(engine: Engine, frame: pl.DataFrame, **columns: nw.Expr) -> pl.DataFrame:
    table = OpenTable.of(engine.frame(frame), times=["timestamp"])
    return engine.polars(table.closed(table.rows.with_columns(**columns))).sort("timestamp")


@each_row("interval", list(Interval))
def test_buckets_from_a_monday_are_those_of_every_interval(interval: Interval) -> None:
    rows = nw.from_native(pl.DataFrame({"timestamp": TIMES}))
    ours, theirs = (
        rows.select(bucket=bucket)["bucket"].to_list()
        for bucket in (
            bucket_by(nw.col("timestamp"), interval.seconds * SECOND),
            bucket_start(nw.col("timestamp"), interval),
        )
    )
    assert ours == theirs


def test_times_before_an_origin_lie_in_buckets_too(engine: Engine) -> None:
    found = computed(
        engine, pl.DataFrame({"timestamp": TIMES}), bucket=bucket_by(nw.col("timestamp"), 7, origin=3)
    )
    assert found["bucket"].to_list() == [(time - 3) // 7 * 7 + 3 for time in sorted(TIMES)]


def test_intervals_have_lengths_and_null_has_none(engine: Engine) -> None:
    names = [*map(str, Interval), *(interval.alias for interval in Interval), None]
    frame = pl.DataFrame({"timestamp": range(len(names)), "interval": names})
    lengths = [interval.seconds * SECOND for interval in Interval]
    assert computed(engine, frame, length=length_of(nw.col("interval")))["length"].to_list() == [
        *lengths,
        *lengths,
        0,
    ]
