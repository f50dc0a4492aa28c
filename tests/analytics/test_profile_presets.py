"""Rules of platforms by name, and profiles cut into a number of rows."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from engines import ENGINES
from tables import each_row
from tidytape.analytics import profile
from tidytape.errors import QueryError

CBOT = {"share": 0.70, "rule": "two_row", "tie": "up", "stop": "reach", "poc_tie": "center"}
ONE_ROW = {"share": 0.70, "rule": "one_row", "tie": "up", "stop": "exceed", "poc_tie": "center"}


def levels(*counts: float, first: float = 0.0, height: float = 1.0) -> pl.DataFrame:
    prices = [first + number * height for number in range(len(counts))]
    return pl.DataFrame({"day": "a", "price": prices, "volume": [float(count) for count in counts]})


def random_levels(seed: int = 1) -> pl.DataFrame:
    draw = np.random.default_rng(seed)
    return pl.concat(
        levels(*draw.integers(0, 9, 40), first=float(day)).with_columns(day=pl.lit(str(day)))
        for day in range(20)
    )


@each_row(
    ("preset", "rules"),
    [("cbot", CBOT), ("investor_rt", CBOT), ("lean", ONE_ROW), ("market_profile", ONE_ROW), (None, CBOT)],
)
def test_a_preset_is_its_arguments(preset, rules):
    frame = random_levels()
    assert_frame_equal(
        profile.value_area(frame, by="day", preset=preset), profile.value_area(frame, by="day", **rules)
    )


def test_what_the_caller_says_counts_before_the_preset():
    frame = random_levels()
    found = profile.value_area(frame, by="day", preset="lean", rule="two_row", share=0.5)
    assert_frame_equal(
        found, profile.value_area(frame, by="day", **{**ONE_ROW, "rule": "two_row", "share": 0.5})
    )
    assert found.select("share", "rule", "stop").unique().row(0) == (0.5, "two_row", "exceed")


def test_presets_differ_as_published():
    # Linn Software, method A: prices join in pairs, the upper pair unless the lower one has more, up to 70 % or more.
    equal_sides = levels(1, 2, 2, 9, 2, 2, 1)
    assert profile.value_area(equal_sides, by="day", preset="investor_rt").select("val", "vah").row(0) == (
        1,
        5,
    )
    # Lean: one price at a time, the upper one if both are equal, while the sum is not above 70 %.
    exact = levels(1, 1, 7, 1)
    assert profile.value_area(exact, by="day", preset="lean").select("val", "vah").row(0) == (2, 3)
    assert profile.value_area(exact, by="day", preset="cbot").select("val", "vah").row(0) == (2, 2)


# Closes and volumes of days, and point of control, value area low and high of the last three of them: the first rows of
# the table that QuantConnect tests its indicator VolumeProfile(3, 0.70, 0.05) with.
LEAN = [
    (135.419998, 3_148_600, None),
    (134.339996, 2_373_700, None),
    (134.100006, 2_425_500, (135.45, 134.15, 135.45)),
    (134.190002, 3_090_800, (134.2, 134.15, 134.35)),
    (135.309998, 4_346_000, (135.35, 134.2, 135.35)),
    (136.740005, 3_730_600, (135.35, 135.35, 136.75)),
    (136.690002, 3_255_400, (135.35, 135.35, 136.75)),
]


def test_lean_publishes_these_numbers():
    for last in range(2, len(LEAN)):
        days = LEAN[last - 2 : last + 1]
        rows = [-(-round(close * 1e6) // 50_000) / 20 for close, *_ in days]  # it rounds prices up to 0.05
        frame = pl.DataFrame({"day": "a", "price": rows, "volume": [float(volume) for _, volume, _ in days]})
        found = profile.value_area(frame, by="day", preset="lean")
        assert found.select("poc", "val", "vah").row(0) == pytest.approx(days[-1][-1])


# --- a number of rows ---


def test_rows_by_hand():
    # From 10 to 20 in five rows of 2: 10 and 11, 12 and 13, 14 and 15, 16 and 17, 18 to 20.
    frame = levels(1, 1, 2, 2, 9, 1, 1, 1, 0, 0, 2, first=10)
    found = profile.value_area(frame, by="day", rows=5, rule="one_row")
    # 2, 4, 10, 2, 2: 14 of 20 are 70 %.
    assert found.select("val", "poc", "vah", "value_area_share").row(0) == (12, 14, 14, 0.7)


@each_row("rows", [1, 3, 24, 1000])
def test_rows_equal_a_row_size_where_the_range_is_a_whole_number_of_them(rows):
    height = 0.1
    draw = np.random.default_rng(rows)
    # The lowest price is a row edge, and the highest one lies inside of the last row.
    places = np.unique(np.append(draw.integers(0, rows, 50), [0, rows - 1]))
    prices = (places * height).round(9).tolist()
    frame = pl.DataFrame(
        {"day": "a", "price": prices, "volume": draw.integers(1, 9, len(prices)).astype(float)}
    )
    # The end of the range itself belongs to the last row, and without volume it changes nothing.
    ended = pl.concat([frame, pl.DataFrame({"day": "a", "price": [rows * height], "volume": [0.0]})])
    found = profile.value_area(ended, by="day", rows=rows).drop("poc", "val", "vah")
    wanted = profile.value_area(frame, by="day", row_size=height)
    assert_frame_equal(found, wanted.drop("poc", "val", "vah"))
    names = ["poc", "val", "vah"]
    got = profile.value_area(ended, by="day", rows=rows).select(names)
    assert_frame_equal(got, wanted.select(names), rel_tol=1e-12)


def test_a_profile_of_one_price_is_one_row():
    assert profile.value_area(levels(5, first=7), by="day", rows=24).select("val", "poc", "vah").row(0) == (
        7,
        7,
        7,
    )


def test_an_unknown_price_or_count_has_no_value_area():
    frame = levels(1, 5, 2)
    for name in ("price", "volume"):
        for value in (None, float("nan"), float("inf")):
            odd = frame.with_columns(pl.when(pl.col("price") == 1).then(value).otherwise(name).alias(name))
            assert profile.value_area(odd, by="day", rows=2)["poc"].to_list() == [None], (name, value)


@pytest.mark.parametrize("engine", ENGINES, indirect=True)
def test_every_engine_cuts_alike(engine):
    frame = random_levels()
    found = engine.polars(profile.value_area(engine.frame(frame), by="day", rows=7))
    assert_frame_equal(found.sort("day"), profile.value_area(frame, by="day", rows=7), rel_tol=1e-12)


@each_row(
    ("options", "named"),
    [
        ({"preset": "tradingview"}, "preset"),
        ({"preset": 5}, "preset"),
        ({"rows": 0}, "rows"),
        ({"rows": 2.5}, "rows"),
        ({"rows": 24, "row_size": 1}, "rows"),
        ({"rows": 24, "count": "tpo_count"}, "rows"),
    ],
)
def test_arguments_are_checked(options, named):
    with pytest.raises(QueryError) as caught:
        profile.value_area(levels(1, 2).with_columns(tpo_count=1), by="day", **options)
    assert caught.value.parameter == named


@pytest.mark.parametrize("rows", [1, 4, 9])
def test_shapes_and_nodes_of_a_number_of_rows_are_those_of_the_rows_counted_by_hand(rows: int) -> None:
    random = np.random.default_rng(rows)
    prices, volumes = np.sort(random.choice(200, 60, replace=False)) / 8, random.integers(1, 40, 60) * 1.0
    frame = pl.DataFrame({"day": 1, "price": prices, "volume": volumes})
    height = (prices[-1] - prices[0]) / rows
    places = np.minimum((prices - prices[0]) // height, rows - 1)
    by_hand = pl.DataFrame({"day": 1, "price": places, "volume": volumes})
    assert_frame_equal(
        profile.shape(frame, by="day", rows=rows), profile.shape(by_hand, by="day", row_size=1)
    )
    expected = profile.nodes(by_hand, by="day", row_size=1, within=1)
    expected = expected.with_columns(pl.col("low", "high") * height + prices[0])
    assert_frame_equal(profile.nodes(frame, by="day", rows=rows, within=1), expected)


@pytest.mark.parametrize("function", [profile.shape, profile.nodes])
def test_shapes_and_nodes_refuse_rows_as_value_areas_do(function):
    frame = pl.DataFrame({"day": 1, "price": [1.0, 2.0], "volume": 1.0, "tpo_count": 1.0})
    for more in ({"rows": 0}, {"rows": 2, "row_size": 1}, {"rows": 2, "count": "tpo_count"}):
        with pytest.raises(QueryError, match="rows"):
            function(frame, by="day", **more)
