"""Laws of funding: plain loops agree, rows may be in any order, windows add, the future changes no past."""

from __future__ import annotations

import warnings
from math import isclose

import duckdb
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracles import funding as oracle
from thorough import often
from tidytape.analytics import funding
from tidytape.errors import SettlementWarning

pytestmark = pytest.mark.filterwarnings("ignore::tidytape.errors.SettlementWarning")

HOUR = 3_600_000_000_000
EIGHT = 8 * HOUR

rates = st.none() | st.integers(-50, 50).map(lambda count: count / 1e5)
hours = st.lists(st.tuples(st.integers(-30, 60), rates, rates), min_size=1, unique_by=lambda row: row[0])
positions = st.sampled_from([1.0, -1.0, 2500.0, -0.125])
venues = st.dictionaries(st.sampled_from("ABCDE"), rates, min_size=1)


def points(rows, **columns):
    times, rate, predicted = zip(*rows, strict=True)
    return pl.DataFrame(
        {
            "timestamp": [hour * HOUR for hour in times],
            "rate_close": rate,
            "predicted_close": predicted,
            **columns,
        },
        schema_overrides={"rate_close": pl.Float64, "predicted_close": pl.Float64},
    )


def close(mine, theirs):
    """Whether numbers are equal to twelve digits, and null where the others are."""
    pairs = list(zip(mine, theirs, strict=True))
    return all(
        one is other if None in (one, other) else isclose(one, other, rel_tol=1e-12, abs_tol=1e-12)
        for one, other in pairs
    )


def plain(frame):
    return frame.rename({"rate_close": "rate", "predicted_close": "predicted"}, strict=False).to_dicts()


def across(rates):
    return pl.DataFrame(
        {"exchange": list(rates), "rate_close": list(rates.values())},
        schema_overrides={"rate_close": pl.Float64},
    ).with_columns(raw_symbol=pl.lit("X"), timestamp=pl.lit(0, pl.Int64))


def paid(frame, position=1.0):
    return funding.accrued(
        frame, settled_every="8h", funding_interval="8h", position=position, anchor=0
    ).select("timestamp", "payment", "accrued", "missed")


def errors(frame):
    return funding.predicted_error(frame, settled_every="8h", interval="1h")


@pytest.mark.slow
@given(hours, positions)
def test_settlements_add_up_as_in_a_loop(rows, position):
    frame = points(rows)
    wanted = oracle.accrued(plain(frame), every=EIGHT, own=EIGHT, position=position)
    got = paid(frame, position).rows()
    assert [row[0] for row in got] == [row[0] for row in wanted]
    assert [row[3] for row in got] == [row[3] for row in wanted]
    for mine, theirs in zip(got, wanted, strict=True):
        assert close(mine[1:3], theirs[1:3])


@pytest.mark.slow
@given(hours, st.integers(-30, 60))
def test_what_joined_windows_paid_adds(rows, cut):
    frame = points(rows)
    before, after = (
        frame.filter(side) for side in (pl.col("timestamp") < cut * HOUR, pl.col("timestamp") >= cut * HOUR)
    )
    total = sum(paid(window)["payment"].sum() for window in (before, after))
    whole = paid(frame)
    assert total == pytest.approx(whole["payment"].sum(), abs=1e-12)
    known = whole.filter(missed=0)
    assert known["accrued"].to_list() == pytest.approx(known["payment"].cum_sum().to_list(), abs=1e-12)


@pytest.mark.slow
@given(hours, hours, st.integers(-30, 60))
def test_the_future_changes_no_past(rows, others, now):
    frame, other = points(rows), points(others)
    past = pl.col("timestamp") < now * HOUR
    changed = pl.concat([frame.filter(past), other.filter(~past)])
    for function in (paid, errors):
        assert function(frame).filter(past).equals(function(changed).filter(past))


@pytest.mark.slow
@given(hours)
def test_predictions_are_compared_as_in_a_loop(rows):
    got = errors(points(rows)).select("timestamp", "error").rows()
    assert got == oracle.predicted_error(plain(points(rows)), every=EIGHT, interval=HOUR)


@pytest.mark.slow
@given(hours, st.randoms(use_true_random=False))
def test_order_of_rows_does_not_matter(rows, draw):
    frame = points(rows)
    mixed = frame[draw.sample(range(len(frame)), len(frame))]
    assert paid(mixed).equals(paid(frame))
    assert errors(mixed).equals(errors(frame))


@pytest.mark.slow
@given(hours, hours)
def test_series_do_not_touch_each_other(first, second):
    frames = [points(rows, exchange=name) for rows, name in ((first, "A"), (second, "B"))]
    together = paid(pl.concat(frames))  # sorted by exchange, then time
    assert together.equals(pl.concat([paid(frame) for frame in frames]))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::tidytape.errors.NoMatchWarning")  # costs of exchanges that are not there
@given(
    venues,
    st.dictionaries(st.sampled_from("ABCDE"), st.integers(0, 9).map(lambda cost: cost / 1e4), min_size=1),
)
def test_the_best_pair_is_that_of_a_loop(rates, costs):
    frame = across(rates)
    got = funding.carry(frame, costs=costs, holding="3d", funding_interval="8h")
    wanted = oracle.carry(
        [{"exchange": name, "rate": rate} for name, rate in rates.items()], ratio=9.0, costs=costs
    )
    found = got.select("long_exchange", "short_exchange", "carry").rows()
    assert found == ([] if wanted is None else [wanted])


@pytest.mark.slow
@given(venues)
def test_spreads_are_antisymmetric_and_add_along_a_path(rates):
    frame = funding.spread(across(rates))
    spread = {(row[0], row[1]): row[2] for row in frame.select("exchange", "other_exchange", "spread").rows()}
    for (one, other), difference in spread.items():
        back = spread[other, one]
        assert difference is None or difference == -back
        for third in rates:
            if third not in {one, other} and None not in (difference, spread[other, third]):
                assert difference + spread[other, third] == pytest.approx(spread[one, third], abs=1e-15)


@pytest.mark.slow
@settings(max_examples=often(12, thoroughly=25))  # of five calls each
@given(hours, st.integers(1, 48), st.integers(1, 48))
def test_intervals_compose_and_scale(rows, through, to):
    frame = points(rows)
    direct = funding.normalized(frame, to=f"{to}h", funding_interval="8h")
    by_way = funding.normalized(
        funding.normalized(frame, to=f"{through}h", funding_interval="8h"), to=f"{to}h"
    )
    assert close(by_way["rate_close"], direct["rate_close"])
    assert close(*(funding.annualized(one)["apr"] for one in (direct, by_way)))


@pytest.mark.slow
@given(hours)
def test_a_warning_is_a_rate_that_changes_between_settlements(rows):
    told = {}
    for hour, rate, _ in rows:
        if rate is not None:
            told.setdefault(hour // 8, set()).add(rate)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        paid(points(rows))
    wanted = [SettlementWarning] if any(len(several) > 1 for several in told.values()) else []
    assert [warning.category for warning in caught] == wanted


@pytest.mark.slow
@settings(max_examples=10)  # an engine's start-up each time
@given(hours)
def test_engines_agree(rows):
    frame = points(rows, exchange="A")
    wanted = paid(frame).rows()
    arrow = duckdb.from_arrow(frame.to_arrow())
    duck = funding.accrued(arrow, settled_every="8h", funding_interval="8h").pl()
    pandas = pl.from_pandas(funding.accrued(frame.to_pandas(), settled_every="8h", funding_interval="8h"))
    for got in (duck, pandas):
        found = got.select("timestamp", "payment", "accrued", "missed").fill_nan(None).rows()
        assert all(close(mine, theirs) for mine, theirs in zip(found, wanted, strict=True))
