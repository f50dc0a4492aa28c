"""Laws of points of control and value areas."""

from __future__ import annotations

import runpy
from fractions import Fraction
from pathlib import Path

import duckdb
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thorough import often
from tidytape.analytics.profile import point_of_control, value_area

oracle = runpy.run_path(str(Path(__file__).parents[1] / "oracles" / "profile.py"))["value_area"]

# Small numbers, so that ties and zeros are the rule and not the exception.
counts = st.lists(st.integers(0, 4) | st.integers(0, 10**9), min_size=1, max_size=14)
volumes = st.lists(
    st.integers(0, 9).map(lambda n: n / 10) | st.floats(0, 1e6).map(lambda v: round(v, 5)),
    min_size=1,
    max_size=14,
)
profiles = st.lists(counts | volumes, min_size=1, max_size=6)
steps = st.sampled_from(["0.1", "0.25", "0.01", "5", "1", "0.000001"])
rules = st.fixed_dictionaries(
    {
        "share": st.sampled_from([0.7, 0.68, 0.5, 0.1, 1]),
        "rule": st.sampled_from(["two_row", "one_row"]),
        "tie": st.sampled_from(["up", "down"]),
        "stop": st.sampled_from(["reach", "exceed"]),
        "poc_tie": st.sampled_from(["center", "lower", "upper"]),
    }
)


def levels(profiles, *, step="1", first=0):
    """Return the frame of profiles 0, 1, …, whose prices are exact multiples of ``step``."""
    flat = [
        (day, float((first + row) * Fraction(step)), float(count))
        for day, profile in enumerate(profiles)
        for row, count in enumerate(profile)
    ]
    return pl.DataFrame(
        flat, schema={"day": pl.Int64, "price": pl.Float64, "volume": pl.Float64}, orient="row"
    )


def plain(day, **rules):
    """Return the plain loop's answer, the share to the digits that are published."""
    *prices, share = oracle(day.select("price", "volume").rows(), **rules)
    return *prices, None if share is None else round(share, 12)


def areas(frame, **rules):
    """Return the areas of a frame in memory, which those of the same frame lazily must be too."""
    columns = ("day", "poc", "val", "vah", "value_area_share")
    in_memory = value_area(frame, by="day", **rules).select(columns).rows()
    assert value_area(frame.lazy(), by="day", **rules).select(columns).collect().rows() == in_memory
    return in_memory


@pytest.mark.slow
@given(profiles, steps, st.integers(-10_000, 10_000_000), rules)
def test_area_equals_the_plain_loop(profiles, step, first, rules):
    frame = levels(profiles, step=step, first=first)
    days = frame.partition_by("day", maintain_order=True)
    expected = [(n, *plain(day, **rules)) for n, day in enumerate(days)]
    assert areas(frame, **rules) == expected
    assert areas(frame, row_size=float(step), **rules) == expected


@pytest.mark.slow
@given(profiles, steps, st.integers(-100, 100_000), rules, st.data())
def test_area_on_a_grid_equals_the_plain_loop_over_sparse_levels(profiles, step, first, rules, data):
    frame = levels(profiles, step=step, first=first)
    kept = data.draw(st.lists(st.booleans(), min_size=frame.height, max_size=frame.height))
    days = frame.filter(pl.Series(kept, dtype=pl.Boolean)).partition_by("day", maintain_order=True)
    expected = [(day["day"][0], *plain(day, row_size=step, **rules)) for day in days]
    assert areas(frame.filter(pl.Series(kept, dtype=pl.Boolean)), row_size=float(step), **rules) == expected


@pytest.mark.slow
@given(profiles, rules, st.randoms(use_true_random=False))
def test_order_of_rows_does_not_matter(profiles, rules, draw):
    frame = levels(profiles)
    order = draw.sample(range(frame.height), frame.height)
    assert areas(frame[order], **rules) == areas(frame, **rules)


@pytest.mark.slow
@given(profiles, profiles, rules)
def test_sessions_do_not_touch_each_other(left, right, rules):
    later = levels(right).with_columns(pl.col("day") + len(left))
    together = areas(pl.concat([levels(left), later]), **rules)
    assert together == areas(levels(left), **rules) + areas(later, **rules)


@pytest.mark.slow
@given(st.lists(counts, min_size=1), rules, st.integers(-20, 20))
def test_counts_scale_by_powers_of_two(profiles, rules, power):
    frame = levels(profiles)
    scaled = frame.with_columns(pl.col("volume") * 2.0**power)
    assert areas(scaled, **rules) == areas(frame, **rules)


@pytest.mark.slow
@given(st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=14), min_size=1), rules)
def test_counts_may_be_shares_of_the_total(profiles, rules):
    # 1/7 + 3/7 and 4/7 differ in floats; the ties stay ties.
    frame = levels(profiles).filter(pl.col("volume").sum().over("day") > 0)
    shares = frame.with_columns(pl.col("volume") / pl.col("volume").sum().over("day"))
    assert areas(shares, **rules) == areas(frame, **rules)


@pytest.mark.slow
@given(profiles, rules, steps, st.integers(-1000, 1_000_000))
def test_prices_shift_with_the_grid(profiles, rules, step, shift):
    rows = areas(levels(profiles), row_size=1, **rules)
    shifted = areas(levels(profiles, step=step, first=shift), row_size=float(step), **rules)

    def move(price):
        return None if price is None else float((int(price) + shift) * Fraction(step))

    assert shifted == [(day, *map(move, prices), share) for day, *prices, share in rows]


@pytest.mark.slow
@given(profiles, rules)
def test_splitting_a_row_changes_nothing(profiles, rules):
    frame = levels(profiles)
    halves = pl.concat([frame, frame]).with_columns(pl.col("volume") / 2)
    assert areas(halves, **rules) == areas(frame, **rules)


@pytest.mark.slow
@given(profiles, rules)
def test_area_holds_the_point_of_control_and_the_share(profiles, rules):
    frame = levels(profiles)
    rules = rules | {"stop": "reach"}
    pocs = point_of_control(frame, by="day", tie=rules["poc_tie"])["poc"].to_list()
    for (_, poc, val, vah, share), of_its_own in zip(areas(frame, **rules), pocs, strict=True):
        assert poc == of_its_own
        assert poc is None or (val <= poc <= vah and rules["share"] <= share <= 1)


@pytest.mark.slow
@given(profiles, rules)
def test_a_larger_share_encloses_the_smaller(profiles, rules):
    frame = levels(profiles)
    small, large = areas(frame, **rules | {"share": 0.4}), areas(frame, **rules | {"share": 0.8})
    for (_, _, val, vah, _), (_, _, lower, higher, _) in zip(small, large, strict=True):
        assert val is None or lower <= val <= vah <= higher


@pytest.mark.slow
@settings(max_examples=often(20, thoroughly=40))  # an engine's start-up each time
@given(profiles, rules, st.sampled_from([None, 1]))
def test_engines_agree(profiles, rules, row_size):
    frame = levels(profiles)
    expected = areas(frame, row_size=row_size, **rules)

    def some(area):
        return area.select("day", "poc", "val", "vah", "value_area_share").rows()

    pandas = value_area(frame.to_pandas(), by="day", row_size=row_size, **rules)
    assert some(pl.from_pandas(pandas)) == expected
    duck = value_area(duckdb.from_arrow(frame.to_arrow()), by="day", row_size=row_size, **rules)
    assert some(duck.pl()) == expected
