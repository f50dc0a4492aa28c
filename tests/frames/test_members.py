"""Members joined to one series: what stands, what is weighted, and nulls that meet."""

from __future__ import annotations

import math
import random
from typing import Any

import narwhals.stable.v2 as nw
import polars as pl
import pytest

from engines import Engine
from tidytape.frames._joined import STANDING, as_of, joined, standing_sums, weighted
from tidytape.frames._table import OpenTable


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


NAMES: dict[str, Any] = {"members": ["exchange"], "series_columns": ["coin"]}


def test_what_was_reported_stands_up_to_its_age(engine: Engine) -> None:
    asked = reports(
        [("A", "BTC", time, 0.0) for time in (0, 7, 8, 20, 21)]
        + [("B", None, 6, 0.0), ("C", "BTC", 19, 0.0), ("C", "BTC", 21, 0.0), ("C", "BTC", 21, 0.0)]
    )
    table, other = OpenTable.of(engine.frame(REPORTS)), OpenTable.of(engine.frame(asked))
    held = as_of(other.rows.drop("close"), table.rows, "close", by=["exchange", "coin"], carry=7)
    got = engine.polars(table.closed(held)).fill_nan(None).rows()
    assert sorted(got, key=str) == [
        ("A", "BTC", 0, 1.0),
        ("A", "BTC", 20, 3.0),
        ("A", "BTC", 21, 3.0),
        ("A", "BTC", 7, 1.0),
        ("A", "BTC", 8, None),  # too old
        ("B", None, 6, 7.0),
        ("C", "BTC", 19, None),
        ("C", "BTC", 21, 5.0),
        ("C", "BTC", 21, 5.0),
    ]


def test_what_stands_is_summed(engine: Engine) -> None:
    moments = reports([("", "BTC", time, 0.0) for time in (0, 7, 8, 20, 21, 21)] + [("", None, 6, 0.0)])
    table, other = OpenTable.of(engine.frame(REPORTS)), OpenTable.of(engine.frame(moments))
    held = standing_sums(table.rows, other.rows, **NAMES, columns=["close"], carry=7)
    got = engine.polars(table.closed(held.select("coin", "timestamp", "close", STANDING))).fill_nan(None)
    got = got.select("coin", "timestamp", "close", STANDING)
    assert sorted(got.rows(), key=str) == [
        ("BTC", 0, 1.0, 1.0),
        ("BTC", 20, 8.0, 2.0),
        ("BTC", 21, 8.0, 2.0),
        ("BTC", 7, 1.0, 1.0),
        ("BTC", 8, None, 0.0),  # too old
        (None, 6, 7.0, 1.0),
    ]


def test_a_report_may_stand_for_ever(engine: Engine) -> None:
    table = OpenTable.of(engine.frame(REPORTS))
    known = OpenTable.of(engine.frame(REPORTS.drop_nulls("close")))  # a report without an amount would stand
    for held in (
        as_of(table.rows.drop("close"), table.rows, "close", by=["exchange", "coin"], carry=2**80),
        standing_sums(known.rows, table.rows, **NAMES, columns=["close"], carry=2**80),
    ):
        at_ten = engine.polars(table.closed(held.select("timestamp", "close"))).filter(timestamp=10)
        assert at_ten["close"].to_list() == [1.0]


def test_the_last_column_of_a_stock_stands_in_for_the_others(engine: Engine) -> None:
    frame = REPORTS.with_columns(high=pl.Series([2.0, 9.0, None, 8.0, 6.0]))
    table = OpenTable.of(engine.frame(frame))
    own = table.rows.filter(~nw.col("close").is_null())
    held = standing_sums(own, table.rows, **NAMES, columns=["high", "close"], carry=100)
    got = engine.polars(table.closed(held.select("coin", "timestamp", "high", "close")))
    got = got.select("coin", "timestamp", "high", "close")
    assert sorted(got.rows(), key=str) == [
        ("BTC", 0, 2.0, 1.0),
        ("BTC", 10, 1.0, 1.0),
        ("BTC", 20, 9.0, 8.0),
        (None, 5, 8.0, 7.0),
    ]


def test_sums_of_what_stands_leave_nothing_behind(engine: Engine) -> None:
    """Of any order of magnitude; and where one is beyond it, the sum is not known, and known again after it."""
    rng = random.Random(7)
    values = [rng.choice([0.1, 1e-9, 1e9, 1e23, -0.3]) * rng.random() for _ in range(60)]
    values[20] = 1e300
    rows = [(rng.choice("ABC"), "BTC", time, value) for time, value in enumerate(values)]
    table = OpenTable.of(engine.frame(reports(rows)))
    held = standing_sums(table.rows, table.rows, **NAMES, columns=["close"], carry=5)
    got = engine.polars(table.closed(held.select("timestamp", "close"))).fill_nan(None).sort("timestamp")
    for time, value in got.rows():
        last = {name: (at, amount) for name, _, at, amount in rows[: time + 1]}
        stand = [amount for at, amount in last.values() if time - at <= 5]
        if 1e300 in stand:
            assert value is None
        else:
            assert value == pytest.approx(math.fsum(stand), rel=0, abs=2e-15 * sum(map(abs, stand)))


def test_means_leave_out_what_is_null(engine: Engine) -> None:
    frame = pl.DataFrame(
        {"key": ["a", "a", "b"], "x": [1.0, 3.0, None], "y": [None, 2.0, None], "w": [1.0, 3.0, 1.0]}
    )
    table = OpenTable.of(engine.frame(frame))
    means = weighted(table.rows, ["key"], ["x", "y"], weight="w")
    got = engine.polars(table.closed(means.select("key", "x", "y", "__used_x", "__used_y"))).fill_nan(None)
    assert sorted(got.rows()) == [("a", 2.5, 2.0, 4.0, 3.0), ("b", None, None, None, None)]


def test_nulls_meet(engine: Engine) -> None:
    table = OpenTable.of(engine.frame(REPORTS))
    right = table.rows.select("coin", other=nw.col("exchange"))
    got = engine.polars(table.closed(joined(table.rows, right, on=["coin"]).select("exchange", "other")))
    assert ("B", "B") in got.rows()
    assert len(got) == 16 + 1


def test_equal_numbers_meet_and_are_one_group(engine: Engine) -> None:
    """Zero has no sign, and NaN equals NaN; null is no number, and the empty text is not null."""
    nan = math.nan
    frame = pl.DataFrame(
        {"number": [0.0, -0.0, nan, nan, None], "word": ["", "", None, None, None], "row": [1, 2, 4, 8, 16]}
    )
    table = OpenTable.of(engine.frame(frame))
    right = table.rows.select("number", "word", other=nw.col("row"))
    both = (
        joined(table.rows, right, on=["number", "word"], how="inner")
        .group_by("row")
        .agg(nw.col("other").sum())
    )
    groups = table.rows.with_columns(other=nw.col("row").sum().over("number", "word"))
    for got in (both, groups):
        rows = engine.polars(table.closed(got.select("row", nw.col("other").cast(nw.Int64())))).rows()
        expected = [(1, 3), (2, 3), (4, 12), (8, 12), (16, 16)]
        if engine.name == "pandas":  # which has NaN for null
            expected[2:] = [(4, 28), (8, 28), (16, 28)]
        assert sorted(rows) == expected
