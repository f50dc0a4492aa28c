"""Laws of what is read off profiles beside their value area, each held to a plain loop too."""

from __future__ import annotations

from datetime import timedelta

import narwhals.stable.v2 as nw
import polars as pl
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from analytics.touching import DAY, levels_of, lists_of, touches_of
from oracles import profile as oracle
from thorough import often
from tidytape.analytics import profile
from tidytape.analytics.profile._sessions import untouched, untouched_by_join

STEP = 0.5
blocks = st.frozensets(st.integers(0, 6), min_size=1, max_size=4)
sessions = st.lists(
    st.dictionaries(st.integers(-3, 12), blocks, min_size=1, max_size=10), min_size=1, max_size=4
)
counts = st.lists(st.integers(0, 4) | st.integers(0, 1000), min_size=1, max_size=14)
profiles = st.lists(counts, min_size=1, max_size=5)
rules = st.fixed_dictionaries(
    {
        "share": st.sampled_from([0.7, 0.5, 1]),
        "rule": st.sampled_from(["two_row", "one_row"]),
        "tie": st.sampled_from(["up", "down"]),
        "stop": st.sampled_from(["reach", "exceed"]),
        "poc_tie": st.sampled_from(["center", "lower", "upper"]),
    }
)
quick = settings(max_examples=often(7, thoroughly=15))
quicker = settings(max_examples=6)  # of what plans many windows


def said(sessions, *, first=0):
    """Return sessions as `analytics.touching` takes them, on consecutive days, on a grid of half a unit."""
    return {
        ("BTCUSDT", DAY + timedelta(days=first + day)): {
            (row * STEP): sorted(of_row) for row, of_row in session.items()
        }
        for day, session in enumerate(sessions)
    }


def levels(profiles, *, step=1.0, first=0):
    """Return the frame of profiles 0, 1, …, each a list of counts from row ``first`` upwards."""
    flat = [
        (day, (first + row) * step, float(count))
        for day, counts in enumerate(profiles)
        for row, count in enumerate(counts)
    ]
    return pl.DataFrame(
        flat, schema={"timestamp": pl.Int64, "price": pl.Float64, "volume": pl.Float64}, orient="row"
    )


def rows(frame, *columns):
    """Return columns as tuples, prices in rows of the grid."""
    prices = {"high", "low", "poc", "val", "vah", "initial_balance_high", "initial_balance_low"}
    return frame.select((pl.col(name) / STEP if name in prices else pl.col(name)) for name in columns).rows()


@pytest.mark.slow
@given(sessions)
@quick
def test_single_prints_and_tails_equal_the_plain_loop(sessions):
    expected = [
        (DAY + timedelta(days=day), *run)
        for day, session in enumerate(sessions)
        for run in oracle.single_prints(session)
    ]
    found = profile.single_prints(lists_of(said(sessions)), row_size=STEP)
    columns = ("low", "high", "rows", "first_block", "last_block")
    assert rows(found, "timestamp", *columns) == expected
    expected = [
        (DAY + timedelta(days=day), *run, run[3] >= 3)
        for day, session in enumerate(sessions)
        for run in oracle.tails(session)
    ]
    found = profile.tails(lists_of(said(sessions)), row_size=STEP, min_excess_rows=3)
    assert rows(found, "timestamp", "end", *columns, "is_excess") == expected


@pytest.mark.slow
@given(sessions, st.integers(1, 3))
@quick
def test_poor_extremes_equal_the_plain_loop(sessions, min_excess_rows):
    found = profile.poor_extremes(lists_of(said(sessions)), row_size=STEP, min_excess_rows=min_excess_rows)
    columns = (
        *("high", "low", "high_blocks", "low_blocks", "tail_high_rows", "tail_low_rows"),
        *("is_poor_high", "is_poor_low", "has_excess_high", "has_excess_low"),
    )
    expected = [oracle.poor_extremes(session, min_excess_rows=min_excess_rows) for session in sessions]
    assert rows(found, *columns) == expected


@given(sessions, st.sampled_from([1, 30, 31, 60, 90, 1000]), st.sampled_from([5, 30, 60, 240]))
@quick
def test_initial_balance_equals_the_plain_loop(sessions, minutes, block_minutes):
    found = profile.initial_balance(lists_of(said(sessions), minutes=block_minutes), minutes=minutes)
    expected = [
        oracle.initial_balance(session, minutes=minutes, block_minutes=block_minutes) for session in sessions
    ]
    columns = ("initial_balance_high", "initial_balance_low", "is_extended_up", "is_extended_down")
    assert rows(found, *columns) == expected
    width, up, down = (
        found["initial_balance_range"],
        found["extension_up_x1_5"] - found["initial_balance_high"],
        found["initial_balance_low"] - found["extension_down_x1_5"],
    )
    assert up.to_list() == down.to_list() == (1.5 * width).to_list()


@pytest.mark.slow
@given(sessions, rules)
@quick
def test_developing_equals_the_plain_loop_and_ends_with_the_whole(sessions, rules):
    frame = lists_of(said(sessions))
    found = profile.developing(frame, row_size=STEP, **rules)
    expected = [row for session in sessions for row in oracle.developing(session, **rules)]
    assert rows(found, "block", "poc", "val", "vah", "value_area_share") == expected
    whole = profile.value_area(levels_of(said(sessions)), count="tpo_count", row_size=STEP, **rules)
    last = found.group_by("exchange", "raw_symbol", "timestamp", maintain_order=True).last()
    assert_frame_equal(last.select(whole.columns), whole)


@pytest.mark.slow
@given(sessions, st.dictionaries(st.integers(-9, 20), st.integers(7, 9), max_size=5), rules)
@quick
def test_developing_does_not_look_ahead(sessions, later, rules):
    frame = touches_of(said(sessions))
    future = pl.DataFrame(
        {"price": [row * STEP for row in later], "block_id": list(later.values()), "volume": 7.0},
        schema={"price": pl.Float64, "block_id": pl.Int64, "volume": pl.Float64},
    )
    days = frame.select("exchange", "raw_symbol", "timestamp").unique()
    changed = pl.concat([frame, days.join(future, how="cross")], how="diagonal_relaxed")
    for count in (None, "volume"):
        arguments = {"row_size": STEP, "block_minutes": 30, "count": count, **rules}
        before = profile.developing(frame, **arguments)
        after = profile.developing(changed, **arguments)
        assert_frame_equal(after.join(before, on=["timestamp", "block"], how="semi"), before)


@pytest.mark.slow
@given(sessions)
@quicker
def test_three_forms_of_blocks_say_the_same(sessions):
    lists, counted, touches = (make(said(sessions)) for make in (lists_of, levels_of, touches_of))
    for function in (profile.single_prints, profile.tails, profile.poor_extremes, profile.day_type):
        arguments = {"row_size": STEP, "block_minutes": 30}
        expected = function(lists, **arguments)
        assert_frame_equal(function(counted, **arguments), expected)
        assert_frame_equal(function(touches, **arguments), expected)


@pytest.mark.slow
@given(sessions, st.randoms(use_true_random=False))
@quicker
def test_order_of_rows_does_not_matter(sessions, draw):
    frame = lists_of(said(sessions))
    mixed = frame[draw.sample(range(frame.height), frame.height)]
    for function in (profile.summary, profile.developing, profile.nodes, profile.tails):
        assert_frame_equal(function(mixed, row_size=STEP), function(frame, row_size=STEP))


@pytest.mark.slow
@given(sessions, sessions)
@quicker
def test_series_do_not_touch_each_other(left, right):
    left, right = lists_of(said(left)), lists_of(said(right)).with_columns(raw_symbol=pl.lit("ETHUSDT"))
    for function in (profile.summary, profile.developing, profile.naked_pocs, profile.nodes):
        apart = pl.concat([function(left), function(right)])
        assert_frame_equal(function(pl.concat([right, left])), apart)


@pytest.mark.slow
@given(sessions, sessions)
@quicker
def test_later_sessions_change_only_what_was_touched(past, future):
    before = lists_of(said(past))
    later = lists_of(said(future, first=len(past)))
    arguments = {"row_size": STEP, "lookback": 2}
    alone = profile.summary(before, **arguments)
    seen = profile.summary(pl.concat([before, later]), **arguments).head(alone.height)
    looks_ahead = ["is_naked", "touched_at"]
    assert_frame_equal(seen.drop(looks_ahead), alone.drop(looks_ahead))
    touched = alone.filter(~pl.col("is_naked")).select("timestamp", *looks_ahead)
    assert_frame_equal(seen.join(touched, on="timestamp", how="semi").select(touched.columns), touched)


@pytest.mark.slow
@given(profiles, st.integers(1, 4), st.booleans())
@quick
def test_nodes_equal_the_plain_loop(profiles, within, sparse):
    profiles = [[1, *counts, 1] for counts in profiles]
    expected = [
        (day, kind, float(low), float(high), high - low + 1)
        for day, counts in enumerate(profiles)
        for kind, low, high in oracle.nodes(counts, within=within)
    ]
    frame = levels(profiles)
    frame = frame.filter(pl.col("volume") > 0) if sparse else frame
    found = profile.nodes(frame, within=within, row_size=1 if sparse else None)
    assert found.select("timestamp", "kind", "low", "high", "rows").rows() == expected


@pytest.mark.slow
@given(profiles, rules)
@quick
def test_naked_pocs_equal_the_plain_loop(profiles, rules):
    profiles = [[*counts, 1] for counts in profiles]
    frame = pl.concat(
        levels([counts], first=3 * day % 7).with_columns(timestamp=pl.lit(day, pl.Int64))
        for day, counts in enumerate(profiles)
    )
    found = profile.naked_pocs(frame, tie=rules["poc_tie"])
    ends = frame.group_by("timestamp", maintain_order=True).agg(low=pl.min("price"), high=pl.max("price"))
    pocs = profile.point_of_control(frame, by="timestamp", tie=rules["poc_tie"])["poc"]
    assert found["poc"].to_list() == pocs.to_list()
    expected = oracle.touched_by(list(zip(pocs, ends["low"], ends["high"], strict=True)))
    assert found["touched_at"].to_list() == expected
    assert found["is_naked"].to_list() == [touched is None for touched in expected]


_price = st.none() | st.integers(0, 8).map(float)
_ranges = st.none() | st.tuples(st.integers(0, 8), st.integers(0, 3)).map(lambda ends: (ends[0], sum(ends)))


@given(
    st.lists(
        st.tuples(st.sampled_from(["A", "B", None]), st.none() | st.integers(0, 40), _price, _ranges),
        min_size=1,
        max_size=40,
        unique_by=lambda session: session[:2],
    )
)
@quick
def test_touches_in_memory_equal_the_join(sessions):
    rows = [(key, start, price, *(ends or (None, None))) for key, start, price, ends in sessions]
    types = {"key": pl.String, "start": pl.Int64, "poc": pl.Float64, "low": pl.Float64, "high": pl.Float64}
    frame = nw.from_native(pl.LazyFrame(rows, schema=types, orient="row"))
    found, expected = (
        touched(frame, ["key"]).collect().to_native().select(*types, "touched_at").sort("key", "start")
        for touched in (untouched, untouched_by_join)
    )
    assert_frame_equal(found, expected)


@pytest.mark.slow
@given(profiles, st.sampled_from([0.1, 0.25, 0.5]), st.booleans())
@quick
def test_shape_equals_the_plain_loop(profiles, min_second, sparse):
    profiles = [[1, *counts, 1] for counts in profiles]
    frame = levels(profiles)
    frame = frame.filter(pl.col("volume") > 0) if sparse else frame
    found = profile.shape(frame, min_second=min_second, row_size=1 if sparse else None)
    expected = [oracle.shape(counts, min_second=min_second) for counts in profiles]
    features = found.select("poc_position", "mean_position", "valley_depth", "second_share")
    wanted = pl.DataFrame(
        [[None if value is None else float(value) for value in row] for row in expected],
        schema=dict.fromkeys(features.columns, pl.Float64),
        orient="row",
    )
    assert_frame_equal(features, wanted, rel_tol=1e-12)


@pytest.mark.slow
@given(profiles)
@quick
def test_composite_of_one_session_is_that_session(profiles):
    frame = levels(profiles, step=0.1)
    alone = profile.composite(frame, by="timestamp", row_size=0.1)
    assert alone["volume"].to_list() == frame["volume"].to_list()
    area = profile.value_area(frame, row_size=0.1)
    assert_frame_equal(profile.value_area(alone, row_size=0.1), area)


@pytest.mark.slow
@given(profiles, profiles)
@quick
def test_composite_adds_counts_and_may_be_made_in_steps(first, second):
    frame = levels([*first, *second]).with_columns(coin=pl.lit("BTC"))
    cut = pl.col("timestamp") < len(first)
    parts = pl.concat(profile.composite(frame.filter(half), row_size=1) for half in (cut, ~cut))
    whole = profile.composite(frame, row_size=1)
    assert_frame_equal(profile.composite(parts, row_size=1), whole)
    assert whole["volume"].sum() == frame["volume"].sum()
    coarse = profile.composite(frame, row_size=5)
    assert_frame_equal(profile.composite(whole, row_size=5), coarse)


@pytest.mark.slow
@given(profiles, st.integers(-10, 10), st.integers(-300, 300))
@quicker
def test_counts_scale_and_prices_shift(profiles, power, shift):
    assume(any(map(any, profiles)))
    frame = levels(profiles)
    moved = frame.with_columns(pl.col("price") + shift, pl.col("volume") * 2.0**power)
    found, same = (profile.summary(given, row_size=1) for given in (frame, moved))
    prices, amounts = ["high", "low", "poc", "val", "vah"], ["total", "poc_count"]
    back = same.with_columns(pl.col(prices) - shift, pl.col(amounts) / 2.0**power)
    assert_frame_equal(back, found)
