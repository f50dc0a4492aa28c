"""Laws of quality: what the plain loops find, whatever the order of the rows."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from oracles import quality as oracle
from tidytape.analytics import quality

HOUR = 3_600 * 10**9
quick = settings(max_examples=10)  # each is several frames

# Few values, so that rows stand still; and others of another size.
closes = st.lists(
    st.integers(1, 4).map(float) | st.sampled_from([10.0, 50.0, 0.5, 0.0]), min_size=1, max_size=45
)
buckets = st.lists(st.integers(-20, 40), min_size=1, max_size=30)
orders = st.randoms(use_true_random=False)
outlier_limits = st.sampled_from([0.9, 3.3, 20.7])
amounts = st.none() | st.sampled_from([float("nan"), float("inf"), -1.0, 0.0]) | st.integers(0, 5).map(float)
rows = st.lists(
    st.tuples(st.none() | st.integers(0, 20).map(lambda half: half * HOUR // 2), amounts, amounts),
    min_size=1,
    max_size=30,
)


def candles(values: list[float], name: str = "A") -> pl.DataFrame:
    """Hours on which the price is one."""
    return pl.DataFrame(
        {
            "exchange": name,
            "interval": "HOUR",
            "timestamp": [hour * HOUR for hour in range(len(values))],
            **dict.fromkeys(("open", "high", "low", "close"), values),
            "volume": 1.0,
        },
        schema_overrides={"close": pl.Float64},
    )


def spoiled(drawn: list[tuple], name: str = "A") -> pl.DataFrame:
    schema = {"timestamp": pl.Int64, "close": pl.Float64, "volume": pl.Float64}
    frame = pl.DataFrame(drawn, schema=schema, orient="row")
    return frame.with_columns(exchange=pl.lit(name), interval=pl.lit("HOUR"))


def permuted(frame: pl.DataFrame, draw) -> pl.DataFrame:
    return frame[draw.sample(range(len(frame)), len(frame))]


def hours(frame: pl.DataFrame, finding: str, **limits: float) -> set[int]:
    """The rows of a finding, by their hour."""
    found = quality.examples(frame, finding=finding, rows=1_000, **limits)
    return {time // HOUR for time in found["timestamp"]}


def audit_but_for_order(frame: pl.DataFrame) -> pl.DataFrame:
    return quality.audit(frame).filter(pl.col("finding") != "unordered")


@pytest.mark.slow
@quick
@given(closes, st.integers(1, 6))
def test_standstills_equal_the_plain_loop(values, limit):
    assert hours(candles(values), "frozen_price", frozen=limit) == oracle.frozen(values, limit)


@pytest.mark.slow
@quick
@given(closes, st.sampled_from([1.5, 2.0, 8.0]))
def test_unit_jumps_equal_the_plain_loop(values, factor):
    assert hours(candles(values), "unit_jump", unit_jump=factor) == oracle.unit_jumps(values, factor)


@pytest.mark.slow
@quick
@given(closes, outlier_limits)
def test_outliers_equal_the_plain_loop(values, limit):
    expected = oracle.outliers(values, limit) - oracle.unit_jumps(values, 8)
    assert hours(candles(values), "outlier", outlier=limit) == expected


@pytest.mark.slow
@quick
@given(st.lists(st.integers(-3, 3).map(float) | st.sampled_from([50.0, -9.0]), max_size=45), outlier_limits)
def test_far_rates_equal_the_plain_loop(values, limit):
    rates = pl.Series(values, dtype=pl.Float64)
    times = pl.Series([hour * HOUR for hour in range(len(values))], dtype=pl.Int64)
    frame = pl.DataFrame({"timestamp": times, "rate_close": rates})
    assert hours(frame, "outlier", outlier=limit) == oracle.far_rates(values, limit)


@pytest.mark.slow
@quick
@given(
    st.lists(st.tuples(st.integers(-5_000, 9_000), st.sampled_from([1.0, 2.0, 3.0, 40.0])), max_size=45),
    outlier_limits,
    orders,
)
def test_far_prices_equal_the_plain_loop(drawn, limit, draw):
    trades = pl.DataFrame(
        [(time * 10**9, str(number), price) for number, (time, price) in enumerate(drawn)],
        schema={"timestamp": pl.Int64, "id": pl.String, "price": pl.Float64},
        orient="row",
    )
    found = quality.examples(permuted(trades, draw), finding="outlier", rows=100, outlier=limit)
    assert {int(name) for name in found["id"]} == oracle.far_prices(drawn, limit)


@pytest.mark.slow
@quick
@given(
    st.lists(
        st.tuples(
            st.integers(0, 3),
            st.sampled_from(["BID", "ASK"]),
            st.integers(1, 6).map(float),
            st.integers(0, 2).map(float),
        ),
        max_size=20,
        unique_by=lambda row: row[:3],
    ),
    orders,
)
def test_crossed_books_equal_the_plain_loop(drawn, draw):
    schema = {"timestamp": pl.Int64, "side": pl.String, "price": pl.Float64, "size": pl.Float64}
    book = pl.DataFrame(drawn, schema=schema, orient="row")
    for by in (None, []):
        found = quality.examples(permuted(book, draw), finding="crossed_book", rows=100, by=by)
        assert sorted(found.rows()) == sorted(drawn[row] for row in oracle.crossed(drawn))


@pytest.mark.slow
@quick
@given(buckets, st.integers(0, HOUR - 1))
def test_gaps_equal_the_plain_loop(drawn, offset):
    times = [hour * HOUR + offset for hour in drawn]
    found = quality.gaps(pl.DataFrame({"timestamp": times}), interval="1h")
    expected = oracle.gaps(times, HOUR)
    assert found.rows() == expected
    frame = pl.DataFrame({"timestamp": times, "close": 1.0})
    audited = quality.audit(frame, interval="1h", checks="missing_bucket")
    assert audited["count"].sum() == sum(missing for *_, missing in expected)


@pytest.mark.slow
@quick
@given(buckets, st.integers(-30, 50), st.integers(1, 60))
def test_gaps_of_a_window_and_what_is_there_make_it_up(drawn, begin, length):
    shift = 1_000  # hours that a moment before 1970 does not have
    frame = pl.DataFrame({"timestamp": [(hour + shift) * HOUR for hour in drawn]})
    start = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(hours=begin + shift)
    window = {"interval": "1h", "start": start, "end": start + timedelta(hours=length)}
    share = quality.completeness(frame, **window)
    assert share["expected"].item() == length
    assert share["present"].item() == len({hour for hour in drawn if begin <= hour < begin + length})
    assert quality.gaps(frame, **window)["missing"].sum() == share["missing"].item()
    assert share["completeness"].item() == share["present"].item() / length


@pytest.mark.slow
@quick
@given(buckets, st.integers(-30, 50), st.integers(1, 60), st.sampled_from([1, 3, 5, 24]))
def test_spans_of_a_window_are_windows_of_their_own_and_make_it_up(drawn, begin, length, hours):
    shift = 1_000
    frame = pl.DataFrame({"timestamp": [(hour + shift) * HOUR for hour in drawn]})
    start = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(hours=begin + shift)
    window = {"interval": "1h", "start": start, "end": start + timedelta(hours=length)}
    whole = quality.completeness(frame, **window)
    spans = quality.completeness(frame, **window, every=timedelta(hours=hours))
    assert spans.select(pl.col("expected", "present", "missing").sum()).row(0) == whole.select(
        "expected", "present", "missing"
    ).row(0)
    assert spans["start"].to_list()[1:] == spans["end"].to_list()[:-1]
    for span in spans.iter_slices(1):
        own = {"start": as_time(span["start"]), "end": as_time(span["end"])}
        alone = quality.completeness(frame, interval="1h", **own)
        assert_frame_equal(alone, span)


def as_time(column):
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=column.item() // 1000)


@pytest.mark.slow
@quick
@given(rows, rows, orders)
def test_order_of_rows_changes_nothing_but_what_is_out_of_it(left, right, draw):
    frame = pl.concat([spoiled(left), spoiled(right, "B")])
    other = permuted(frame, draw)
    for function in (audit_but_for_order, quality.gaps, quality.completeness):
        assert_frame_equal(function(other), function(frame), check_exact=True)


@pytest.mark.slow
@quick
@given(closes, orders)
def test_order_of_rows_does_not_matter_to_moves(values, draw):
    checks = ["frozen_price", "outlier", "unit_jump"]
    frame = candles(values)
    limits = {"checks": checks, "frozen": 2, "outlier": 3, "unit_jump": 2}
    assert_frame_equal(
        quality.audit(permuted(frame, draw), **limits), quality.audit(frame, **limits), check_exact=True
    )


@pytest.mark.slow
@quick
@given(rows, rows)
def test_series_do_not_touch_each_other_but_for_who_is_stale(left, right):
    one, other = spoiled(left), spoiled(right, "B")
    together = quality.audit(pl.concat([one, other])).filter(pl.col("finding") != "stale")
    assert_frame_equal(together, pl.concat([quality.audit(one), quality.audit(other)]), check_exact=True)
    gaps = pl.concat([quality.gaps(one), quality.gaps(other)])
    assert_frame_equal(quality.gaps(pl.concat([one, other])), gaps, check_exact=True)


@pytest.mark.slow
@quick
@given(rows)
def test_sorted_rows_are_not_out_of_order(drawn):
    frame = spoiled(drawn).sort("timestamp", nulls_last=True)
    assert "unordered" not in quality.audit(frame)["finding"]
    times = frame["timestamp"].drop_nulls().to_list()
    later = frame.reverse()
    expected = sum(time < max(times) for time in times)
    found = quality.audit(later, checks="unordered")["count"].sum()
    assert found == expected


@pytest.mark.slow
@quick
@given(rows, st.integers(0, 200))
def test_time_may_be_another(drawn, days):
    frame = spoiled(drawn)
    shift = days * 24 * HOUR
    moved = quality.audit(frame.with_columns(pl.col("timestamp") + shift))
    expected = quality.audit(frame).with_columns(pl.col("first", "last") + shift)
    assert_frame_equal(moved, expected, check_exact=True)


@pytest.mark.slow
@quick
@given(rows)
def test_counts_are_those_of_the_rows(drawn):
    frame = spoiled(drawn)
    for finding, count in quality.audit(frame).select("finding", "count").rows():
        if finding not in {"missing_bucket", "stale"}:
            assert quality.examples(frame, finding=finding, rows=1_000).height == count
    assert quality.audit(frame).filter(pl.col("count") < 1).is_empty()


@pytest.mark.slow
@quick
@given(closes, st.integers(1, 5))
def test_a_scale_changes_no_finding(values, power):
    frame = candles(values)
    scaled = frame.with_columns(pl.col("open", "high", "low", "close") * 2.0**power)
    for check in ("frozen_price", "unit_jump"):
        assert hours(scaled, check, frozen=2, unit_jump=2) == hours(frame, check, frozen=2, unit_jump=2)


@pytest.mark.slow
@pytest.mark.parametrize("finding", ["frozen_price", "unit_jump", "outlier"])
def test_the_loops_find_something(finding):
    """The laws above would hold of nothing, too."""
    values = [100.0 + math.sin(n) for n in range(30)]
    values[10] = 900.0
    values += [100.0] * 6 + [5_000.0 + n % 3 for n in range(6)]
    found = hours(candles(values), finding, frozen=5)
    assert found == {"frozen_price": {31, 32, 33, 34, 35}, "unit_jump": {36}, "outlier": {10}}[finding]
