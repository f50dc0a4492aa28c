"""Members joined to one series: what stands, what is weighted, and nulls that meet."""

from __future__ import annotations

from typing import Any

import narwhals.stable.v2 as nw
import polars as pl

from engines import Engine
from tidytape.frames.members import matched, standing
from tidytape.frames.table import Table
from tidytape.frames.weighted import weighted


def reports(rows: list[tuple[Any, ...]]) -> pl.DataFrame:
    columns = {"exchange": pl.String, "coin": pl.String, "timestamp": pl.Int64, "close": pl.Float64}
    return pl.DataFrame(rows, schema=columns, orient="row")


REPORTS = reports(
    [
        ("A", "BTC", 0, 1.0),
        ("A", "BTC", 10, None),
        ("A", "BTC", 20, 3.0),
        ("B", None, 5, 7.0),
        ("C", "BTC", 20, 5.0),
    ]
)


def test_what_was_reported_stands_up_to_its_age() -> None:
    moments = reports([("", "BTC", time, 0.0) for time in (0, 7, 8, 20, 21)] + [("", None, 6, 0.0)])
    held = standing(
        nw.from_native(REPORTS).lazy(),
        nw.from_native(moments).lazy(),
        members=["exchange"],
        series=["coin"],
        columns=["close"],
        carry=7,
    )
    got = held.collect().select("exchange", "coin", "timestamp", "close").rows()
    assert sorted(got, key=str) == [
        ("A", "BTC", 0, 1.0),
        ("A", "BTC", 20, 3.0),
        ("A", "BTC", 21, 3.0),
        ("A", "BTC", 7, 1.0),  # and at 8 it is too old
        ("B", None, 6, 7.0),
        ("C", "BTC", 20, 5.0),
        ("C", "BTC", 21, 5.0),
    ]


def test_the_last_column_of_a_stock_stands_in_for_the_others(engine: Engine) -> None:
    frame = REPORTS.with_columns(high=pl.Series([2.0, 9.0, None, 8.0, 6.0]))
    table = Table.opened(engine.frame(frame))
    names = {"members": ["exchange"], "series": ["coin"], "columns": ["high", "close"]}
    own = table.rows.filter(~nw.col("close").is_null())
    held = standing(own, own, **names, carry=100)
    got = engine.polars(table.closed(held.select("exchange", "timestamp", "high", "close")))
    assert sorted(got.rows()) == [
        ("A", 0, 2.0, 1.0),
        ("A", 20, 3.0, 3.0),
        ("B", 5, 8.0, 7.0),
        ("C", 20, 6.0, 5.0),
    ]


def test_means_leave_out_what_is_null(engine: Engine) -> None:
    frame = pl.DataFrame(
        {"key": ["a", "a", "b"], "x": [1.0, 3.0, None], "y": [None, 2.0, None], "w": [1.0, 3.0, 1.0]}
    )
    table = Table.opened(engine.frame(frame))
    means = weighted(table.rows, ["key"], ["x", "y"], weight="w")
    got = engine.polars(table.closed(means.select("key", "x", "y", "__used_x", "__used_y"))).fill_nan(None)
    assert sorted(got.rows()) == [("a", 2.5, 2.0, 4.0, 3.0), ("b", None, None, None, None)]


def test_nulls_meet(engine: Engine) -> None:
    table = Table.opened(engine.frame(REPORTS))
    left, texts = matched(table.rows, ["coin"])
    right = left.select(*texts, other=nw.col("exchange"))
    got = engine.polars(table.closed(left.join(right, on=texts).select("exchange", "other")))
    assert ("B", "B") in got.rows()
    assert len(got) == 16 + 1
