"""Laws of what was known when: nothing that comes later changes what was seen before."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import duckdb
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from oracles import pit as oracle
from thorough import often
from tidytape.analytics import pit
from tidytape.catalogue import Interval

# Keys that never meet are among those drawn.
pytestmark = pytest.mark.filterwarnings("ignore::tidytape.errors.NoMatchWarning")

START = datetime(2024, 8, 8, tzinfo=UTC)
TIME = pl.Datetime("ns", "UTC")

few = settings(max_examples=often(20, thoroughly=40))

# Few keys and times, so that they meet. A fact's number tells it from the others.
keys = st.sampled_from(["A", "B", None])
times = st.integers(0, 12)
decided = st.lists(st.tuples(keys, st.none() | times), min_size=1, max_size=12)
told = st.lists(st.tuples(keys, times, st.none() | times), max_size=12, unique_by=lambda fact: fact[:2])


def moments(minutes):
    return pl.Series([None if n is None else START + timedelta(minutes=n) for n in minutes], dtype=TIME)


def decisions_of(rows):
    return pl.DataFrame(
        {
            "exchange": pl.Series([key for key, _ in rows], dtype=pl.String),
            "timestamp": moments([at for _, at in rows]),
            "decision": pl.Series(range(len(rows)), dtype=pl.Int64),
        }
    )


def facts_of(rows):
    return pl.DataFrame(
        {
            "exchange": pl.Series([key for key, *_ in rows], dtype=pl.String),
            "timestamp": moments([timestamp for _, timestamp, _ in rows]),
            "known_at": moments([known_at for *_, known_at in rows]),
            "fact": pl.Series([float(number) for number in range(len(rows))], dtype=pl.Float64),
        }
    )


def found(joined):
    return joined.sort("decision")["fact"].to_list()


@pytest.mark.slow
@few
@given(decided, told, st.none() | st.integers(0, 5))
def test_join_equals_the_plain_loop(decisions, facts, minutes):
    tolerance = None if minutes is None else timedelta(minutes=minutes)
    joined = pit.asof_join(decisions_of(decisions), facts_of(facts), tolerance=tolerance)
    assert found(joined) == oracle.asof_join(decisions, facts, minutes)
    assert joined.columns == [
        "timestamp",
        "exchange",
        "decision",
        "timestamp_right",
        "known_at_right",
        "fact",
    ]
    assert joined.sort("decision").select("exchange", "timestamp", "decision").equals(decisions_of(decisions))


@pytest.mark.slow
@settings(max_examples=often(7, thoroughly=15))
@given(decided, told, st.none() | st.integers(0, 5))
def test_engines_join_alike(decisions, facts, minutes):
    tolerance = None if minutes is None else timedelta(minutes=minutes)
    wanted = oracle.asof_join(decisions, facts, minutes)
    left, right = decisions_of(decisions), facts_of(facts)
    pandas = pit.asof_join(left.to_pandas(), right.to_pandas(), tolerance=tolerance)
    answers = pandas.sort_values("decision")["fact"]
    assert [None if pd.isna(fact) else fact for fact in answers] == wanted
    connection = duckdb.connect()
    duck = pit.asof_join(
        connection.from_arrow(left.to_arrow()), connection.from_arrow(right.to_arrow()), tolerance=tolerance
    )
    assert found(duck.pl()) == wanted


strikes = st.sampled_from([0.0, -0.0, 1.0, None])


@pytest.mark.slow
@few
@given(
    st.lists(st.tuples(keys, strikes, st.none() | times), max_size=8),
    st.lists(st.tuples(keys, strikes, times, st.none() | times, st.none() | st.integers(0, 2)), max_size=8),
    st.sampled_from([[], ["strike"], ["exchange", "strike"]]),
    st.sampled_from([None, "sequence"]),
    st.sampled_from([pl.String, pl.Categorical]),
)
def test_frames_in_memory_join_as_plans_do(decisions, facts, by, order, dtype):
    left = decisions_of([(key, at) for key, _, at in decisions]).with_columns(
        strike=pl.Series([strike for _, strike, _ in decisions], dtype=pl.Float64)
    )
    right = facts_of([(key, timestamp, known) for key, _, timestamp, known, _ in facts]).with_columns(
        strike=pl.Series([fact[1] for fact in facts], dtype=pl.Float64),
        sequence=pl.Series([fact[4] for fact in facts], dtype=pl.Int64),
    )
    right = right.cast({"exchange": dtype}).drop([] if "strike" in by else ["strike"])
    in_memory = pit.asof_join(left, right, by=by, order=order)
    plan = pit.asof_join(left.lazy(), right.lazy(), by=by, order=order)
    assert_frame_equal(in_memory.sort("decision"), plan.collect().sort("decision"))
    assert in_memory.select(*by, "timestamp").equals(
        in_memory.sort(*by, "timestamp").select(*by, "timestamp")
    )


@pytest.mark.slow
@few
@given(decided, told, told, st.randoms(use_true_random=False))
def test_the_future_changed_leaves_the_past_as_it_was(decisions, facts, others, draw):
    now = max((at for _, at in decisions if at is not None), default=0)
    # Others that become known after the last decision, and the same ones once more with another value.
    later = [(key, timestamp, None if known is None else known + now + 1) for key, timestamp, known in others]
    future = facts_of(later).with_columns(pl.col("fact") + 1000)
    both = pl.concat([facts_of(facts), future])
    both = both[draw.sample(range(len(both)), len(both))]
    wanted = found(pit.asof_join(decisions_of(decisions), facts_of(facts)))
    assert found(pit.asof_join(decisions_of(decisions), both)) == wanted


@pytest.mark.slow
@few
@given(decided, told)
def test_each_decision_sees_the_view_of_its_time(decisions, facts):
    frame = facts_of(facts)
    joined = pit.asof_join(decisions_of(decisions), frame)
    for row in joined.iter_rows(named=True):
        if row["timestamp"] is None:
            assert row["fact"] is None
            continue
        view = pit.as_of(frame, row["timestamp"])
        view = view.filter(pl.col("exchange").eq_missing(row["exchange"])).sort("known_at", "timestamp")
        assert row["fact"] == (view["fact"][-1] if len(view) else None)


@pytest.mark.slow
@few
@given(told, times, times)
def test_views_only_grow(facts, one, other):
    early, late = (START + timedelta(minutes=minute) for minute in sorted([one, other]))
    frame = facts_of(facts)
    assert pit.as_of(pit.as_of(frame, late), early).equals(pit.as_of(frame, early))
    assert set(pit.as_of(frame, early)["fact"]) <= set(pit.as_of(frame, late)["fact"])
    assert (pit.as_of(frame, early)["known_at"] <= early).all()


@pytest.mark.slow
@few
@given(
    st.lists(st.tuples(times, st.sampled_from([*Interval, "1m", "4h", "2h", None])), min_size=1),
    st.sampled_from(["interval", "event"]),
    st.integers(0, 10**9),
)
def test_nothing_is_known_before_its_time(rows, rule, late):
    frame = pl.DataFrame(
        {
            "timestamp": moments([time for time, _ in rows]),
            "interval": [None if name is None else str(name) for _, name in rows],
        }
    )
    known = pit.known_at(frame, rule=rule, delay=timedelta(microseconds=late))
    assert (known["known_at"] >= known["timestamp"]).drop_nulls().all()
    assert known.drop("known_at", "known_at_rule", "interval", strict=False).equals(
        frame.drop("interval", strict=False)
    )
    assert_frame_equal(pit.known_at(frame[::-1], rule=rule, delay=timedelta(microseconds=late))[::-1], known)
