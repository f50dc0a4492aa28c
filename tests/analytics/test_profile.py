"""Points of control and value areas, on every engine."""

from __future__ import annotations

import random
import runpy
from decimal import Decimal
from inspect import isfunction, signature
from itertools import product
from pathlib import Path

import duckdb
import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import tidytape.analytics
from tables import each_row
from tidytape import plot
from tidytape.analytics import profile
from tidytape.analytics.profile import point_of_control, value_area
from tidytape.errors import MissingColumnError, QueryError

pytestmark = pytest.mark.usefixtures("small_times")  # times are small numbers of nanoseconds

oracle = runpy.run_path(str(Path(__file__).parents[1] / "oracles" / "profile.py"))["value_area"]


def plain(counts, **rules):
    """Return the plain loop's answer, the share to the digits that are published."""
    *prices, share = oracle(enumerate(counts), **rules)
    return *prices, None if share is None else round(share, 12)


ENGINES = {
    "polars": lambda frame: frame,
    "polars-lazy": lambda frame: frame.lazy(),
    "pandas": lambda frame: frame.to_pandas(),
    "pandas-pyarrow": lambda frame: frame.to_pandas(use_pyarrow_extension_array=True),
    "pyarrow": lambda frame: frame.to_arrow(),
    "duckdb": lambda frame: duckdb.from_arrow(frame.to_arrow()),
}


@pytest.fixture(params=ENGINES)
def constructor(request):
    """Make the engine's frame from polars."""
    return ENGINES[request.param]


RESULTS = ("poc", "val", "vah", "value_area_share", "poc_count", "share", "rule", "tie", "stop", "poc_tie")


def rows(frame):
    """Return a frame's rows as tuples, what is missing as None: the keys, the results, and the rules."""
    frame = nw.from_native(frame)
    if isinstance(frame, nw.LazyFrame):
        frame = frame.collect()
    keys = [name for name in frame.columns if name not in RESULTS]
    frame = frame.select(*keys, *(name for name in RESULTS if name in frame.columns))
    return [tuple(None if pd.isna(value) else value for value in row) for row in frame.rows()]


def levels(*profiles, step=1):
    """Return a frame of profiles 0, 1, …, each a list of counts from price 0 upwards."""
    flat = [
        (day, row * step, float(count))
        for day, counts in enumerate(profiles)
        for row, count in enumerate(counts)
    ]
    return pl.DataFrame(
        flat, schema={"day": pl.Int64, "price": pl.Float64, "volume": pl.Float64}, orient="row"
    )


# definitions.md, "Profiles": prices are row indices.
GOLDEN = [
    ([1, 4, 10, 4, 1], {"rule": "one_row", "tie": "up"}, (2, 3)),
    ([1, 4, 10, 4, 1], {"rule": "one_row", "tie": "down"}, (1, 2)),
    ([1, 4, 10, 4, 1], {"rule": "one_row", "stop": "exceed"}, (1, 3)),
    ([1, 4, 10, 4, 1], {"rule": "two_row", "tie": "up"}, (2, 4)),
    ([1, 1, 7, 1], {"stop": "reach"}, (2, 2)),
    ([1, 1, 7, 1], {"stop": "exceed", "rule": "one_row"}, (2, 3)),
    ([2, 6, 1, 10, 5, 4, 3], {"rule": "one_row"}, (3, 6)),
    ([2, 6, 1, 10, 5, 4, 3], {"rule": "two_row"}, (1, 5)),
    ([0, 6, 0, 0, 10, 2, 1], {"rule": "one_row"}, (1, 6)),
    ([0, 6, 0, 0, 10, 2, 1], {"rule": "two_row"}, (0, 6)),
]


@pytest.mark.parametrize(("counts", "rules", "area"), GOLDEN)
def test_golden_areas(constructor, counts, rules, area):
    [row] = rows(value_area(constructor(levels(counts)), by="day", **rules))
    assert row[2:4] == area


@pytest.mark.slow
def test_equals_the_plain_loop_for_every_rule(constructor):
    draw = random.Random(7)
    profiles = [
        [draw.choice([0, 0, 1, 1, 2, 3, 0.1, 0.2, 0.3]) for _ in range(draw.randint(1, 12))]
        for _ in range(100)
    ]
    frame = levels(*profiles)
    native = constructor(frame)
    for rule, tie, stop, poc_tie in product(
        ["two_row", "one_row"], ["up", "down"], ["reach", "exceed"], ["center", "lower", "upper"]
    ):
        rules = {"share": 0.7, "rule": rule, "tie": tie, "stop": stop, "poc_tie": poc_tie}
        expected = [(day, *plain(counts, **rules), *rules.values()) for day, counts in enumerate(profiles)]
        assert rows(value_area(native, by="day", **rules)) == expected


def test_result_columns_name_the_rules(constructor):
    native = constructor(levels([1, 2]))
    area = nw.from_native(value_area(native, by=["day"], share=0.5, rule="one_row"))
    assert area.collect_schema().names() == [
        "day", "share", "rule", "tie", "stop", "poc_tie", "value_area_share", "val", "poc", "vah",
    ]  # fmt: skip
    assert rows(area.to_native()) == [(0, 1, 1, 1, 0.666666666667, 0.5, "one_row", "up", "reach", "center")]
    assert rows(point_of_control(native, by="day")) == [(0, 1, 2, "center")]


def test_returns_the_kind_it_was_given(constructor):
    native = constructor(levels([1, 2]))
    assert type(value_area(native, by="day")) is type(native)
    assert type(point_of_control(native, by="day")) is type(native)


@pytest.mark.parametrize(
    ("counts", "tie", "poc"),
    [
        ([5, 5, 1, 1, 1], "center", 1),
        ([1, 5, 1, 5, 1], "center", 1),  # equally far: the lower
        ([5, 1, 1, 5, 5], "center", 3),
        ([0, 0, 5, 5, 0], "center", 2),  # rows of zero count belong to the range
        ([5, 5, 1, 5, 1], "lower", 0),
        ([5, 5, 1, 5, 1], "upper", 3),
    ],
)
def test_largest_rows_tie(constructor, counts, tie, poc):
    native = constructor(levels(counts))
    assert rows(point_of_control(native, by="day", tie=tie)) == [(0, poc, 5, tie)]
    assert rows(value_area(native, by="day", poc_tie=tie, row_size=1))[0][1] == poc


def test_rows_equally_far_from_the_middle_tie_on_decimals():
    # Distances taken in floats differ in the last digit, and would choose the upper row on some days.
    prices = [[(first + row) / 10 for row in range(7)] for first in range(1000, 1400)]
    flat = [
        (day, price, count)
        for day, grid in enumerate(prices)
        for price, count in zip(grid, [0, 9, 1, 1, 1, 9, 0], strict=True)
    ]
    frame = pl.DataFrame(flat, schema=["day", "price", "volume"], orient="row")
    lower = [grid[1] for grid in prices]
    assert point_of_control(frame, by="day")["poc"].to_list() == lower
    assert value_area(frame, by="day", row_size=0.1)["poc"].to_list() == lower


def test_noise_of_float_sums_turns_no_tie(constructor):
    # 0.1 + 0.2 is 0.30000000000000004 in floats: above and below tie, so the tie rule decides.
    native = constructor(levels([0.1, 0.2, 0.9, 0.3, 0.0]))
    assert rows(value_area(native, by="day", share=0.8))[0][2:4] == (2, 4)
    assert rows(value_area(native, by="day", share=0.8, tie="down"))[0][2:4] == (0, 2)
    # 0.1 + 0.7 is 0.7999999999999999 in floats, short of 0.8 of 1.
    native = constructor(levels([0.1, 0.1, 0.1, 0.7]))
    assert rows(value_area(native, by="day", share=0.8, rule="one_row"))[0][2:5] == (2, 3, 0.8)


def test_a_share_met_exactly_is_reached_and_not_exceeded(constructor):
    native = constructor(levels(*[[1] * 10] * 3, [7, 1, 1, 1], [0.7, 0.1, 0.1, 0.1], [3, 60, 7, 14, 16]))
    reached = rows(value_area(native, by="day", rule="one_row"))
    assert [row[4] for row in reached] == [0.7, 0.7, 0.7, 0.7, 0.7, 0.81]
    exceeded = rows(value_area(native, by="day", rule="one_row", stop="exceed"))
    assert [row[4] for row in exceeded] == [0.8, 0.8, 0.8, 0.8, 0.8, 0.81]


@each_row("percent", [7, 14, 28, 29, 55, 56, 57, 58, 69, 70])
def test_a_percentage_is_the_decimal_it_says(percent):
    # 100 * 0.29 and its like are not whole in floats.
    frame = levels([percent, *[1] * (100 - percent)])
    assert value_area(frame, by="day", share=percent / 100)["value_area_share"].item() == percent / 100
    assert (
        value_area(frame, by="day", share=percent / 100, stop="exceed")["value_area_share"].item()
        > percent / 100
    )


def test_missing_rows_count_zero_on_a_grid(constructor):
    sparse = levels([0, 6, 0, 0, 10, 2, 1]).filter((pl.col("volume") > 0) | (pl.col("price") == 0))
    native = constructor(sparse)
    assert rows(value_area(native, by="day", row_size=1, rule="one_row"))[0][2:4] == (1, 6)
    assert rows(value_area(native, by="day", row_size=1))[0][2:4] == (0, 6)
    # The pair ends at 0, where no level is; without a grid 1 is the neighbour of 4.
    native = constructor(levels([1, 0, 6, 0, 0, 10]).filter(pl.col("volume") > 0))
    assert rows(value_area(native, by="day", row_size=1))[0][2:4] == (1, 5)
    assert rows(value_area(native, by="day"))[0][2:4] == (0, 5)


@pytest.mark.parametrize(
    "row_size", [0.1, Decimal("0.1"), np.float64(0.1)], ids=["float", "decimal", "numpy"]
)
def test_grid_prices_are_exact_decimals(constructor, row_size):
    native = constructor(levels(range(1, 40), [3, 0, 0, 9, 1], step=0.1).filter(pl.col("volume") > 0))
    first, second = rows(value_area(native, by="day", row_size=row_size, share=1))
    assert first[1:4] == (3.8, 0.0, 3.8)
    assert second[1:4] == (0.3, 0.0, 0.4)
    sparse = constructor(levels([0, 1, 0, 9], step=0.1).filter(pl.col("price") != 0))
    [area] = rows(value_area(sparse, by="day", row_size=0.1, share=1))
    assert area[1:4] == (0.3, 0.1, 0.3)


def test_equal_prices_are_one_row(constructor):
    frame = pl.DataFrame({"day": 0, "price": [0.3, 0.1 + 0.2, 0.4, 0.5], "volume": [2, 2, 3, 1]})
    assert rows(point_of_control(constructor(frame), by="day")) == [(0, 0.3, 4, "center")]
    assert rows(value_area(constructor(frame), by="day", share=0.5))[0][1:5] == (0.3, 0.3, 0.3, 0.5)


def test_profile_without_an_answer_is_null_and_the_others_stay(constructor):
    nan, inf = float("nan"), float("inf")
    bad = [(1.0, None), (1.0, nan), (1.0, inf), (1.0, -1.0), (None, 1.0), (nan, 1.0), (inf, 1.0), (1.0, 0.0)]
    flat = [(day, *level) for day, level in enumerate(bad)]
    flat += [(day, 2.0, 7.0) for day in range(len(bad) - 1)]
    flat += [(len(bad), 2.0, 7.0)]
    native = constructor(
        pl.DataFrame(flat, schema={"day": pl.Int64, "price": pl.Float64, "volume": pl.Float64}, orient="row")
    )
    for row_size in (None, 0.5):
        *unknown, known = rows(value_area(native, by="day", row_size=row_size))
        assert [row[:5] for row in unknown] == [(day, None, None, None, None) for day in range(len(bad))]
        assert known[:5] == (len(bad), 2, 2, 2, 1)
    *unknown, known = rows(point_of_control(native, by="day"))
    assert [row[1:3] for row in unknown] == [(None, None)] * len(bad)
    assert known[1:3] == (2, 7)


def test_an_empty_frame_gives_an_empty_frame(constructor):
    native = constructor(levels([1]).clear())
    assert rows(value_area(native, by="day")) == []
    assert rows(value_area(native, by="day", row_size=0.5)) == []
    assert rows(point_of_control(native, by="day")) == []


def test_by_takes_several_columns_of_any_type_and_nulls(constructor):
    frame = levels([1, 2], [3, 1], [1, 5]).with_columns(
        day=pl.col("day").replace_strict({0: None, 1: "a", 2: "b"}, return_dtype=pl.String),
        timestamp=pl.datetime(2024, 1, 1, time_unit="ns", time_zone="UTC"),
    )
    area = value_area(constructor(frame), by=("day", "timestamp"))
    assert sorted((row[1] or "", row[2]) for row in rows(area)) == [("", 1), ("a", 0), ("b", 1)]
    given, got = (nw.from_native(native).collect_schema() for native in (constructor(frame), area))
    assert (got["day"], got["timestamp"]) == (given["day"], given["timestamp"])


def test_result_is_sorted_by_its_keys(constructor):
    frame = levels(*[[1, 2, 1]] * 50).sample(fraction=1, shuffle=True, seed=1)
    native = constructor(frame)
    assert [row[0] for row in rows(value_area(native, by="day"))] == list(range(50))
    assert [row[0] for row in rows(point_of_control(native, by="day"))] == list(range(50))


def test_columns_may_have_any_names(constructor):
    # Among them names that the function could use itself.
    frame = levels([1, 4, 10, 4, 1]).rename({"day": "side", "price": "rank", "volume": "units"})
    native = constructor(frame.with_columns(total=1, by_0=2))
    assert rows(value_area(native, by=["side", "total"], price="rank", count="units"))[0][:5] == (
        0,
        1,
        2,
        2,
        4,
    )


@pytest.mark.parametrize("dtype", [pl.Int32, pl.UInt8, pl.Float32, pl.Decimal(10, 2)])
def test_counts_and_prices_may_be_any_number(dtype):
    frame = levels([1, 4, 10, 4, 1]).cast({"price": dtype, "volume": dtype})
    assert rows(value_area(frame, by="day"))[0][:5] == (0, 2.0, 2.0, 4.0, 0.75)


def test_pandas_index_is_not_looked_at():
    frame = levels([1, 4, 10, 4, 1], [2, 1]).to_pandas().set_index(pd.Index([3, 3, 1, 0, 0, 5, 1]))
    area = value_area(frame, by="day")
    assert area["vah"].tolist() == [4, 1]
    assert area.index.tolist() == [0, 1]


def test_pandas_categories_without_rows_give_no_profile():
    frame = levels([1, 4, 10]).to_pandas()
    frame["day"] = pd.Categorical(["x"] * 3, categories=["x", "y"])
    assert value_area(frame, by="day")["day"].tolist() == ["x"]


@pytest.mark.parametrize(
    ("arguments", "parameter"),
    [
        ({"rule": "two_rows"}, "rule"),
        ({"tie": "center"}, "tie"),
        ({"stop": 5}, "stop"),
        ({"poc_tie": "middle"}, "poc_tie"),
        ({"share": 0}, "share"),
        ({"share": 1.01}, "share"),
        ({"share": float("nan")}, "share"),
        ({"share": True}, "share"),
        ({"share": "0.7"}, "share"),
        ({"row_size": 0}, "row_size"),
        ({"row_size": -0.1}, "row_size"),
        ({"row_size": float("inf")}, "row_size"),
        ({"row_size": "0.1"}, "row_size"),
        ({"by": []}, "by"),
        ({"by": ["day", "day"]}, "by"),
        ({"by": "price"}, "by"),
        ({"by": "val"}, "by"),
        ({"price": "text"}, "levels"),
        ({"count": "text"}, "levels"),
    ],
)
def test_argument_that_cannot_be_right_is_refused(constructor, arguments, parameter):
    native = constructor(levels([1, 2]).with_columns(text=pl.lit("1"), val=1))
    with pytest.raises(QueryError) as error:
        value_area(native, **{"by": "day", **arguments})
    assert error.value.parameter == parameter


def test_point_of_control_refuses_an_unknown_tie():
    with pytest.raises(QueryError, match="did you mean 'center'") as error:
        point_of_control(levels([1]), by="day", tie="centre")
    assert error.value.parameter == "tie"


@pytest.mark.parametrize("function", [value_area, point_of_control])
def test_missing_column_says_what_is_there(constructor, function):
    with pytest.raises(MissingColumnError) as error:
        function(constructor(levels([1])), by=["dy", "day"], count="volumes")
    assert error.value.missing == ("dy", "volumes")
    assert error.value.available == ("day", "price", "volume")


@pytest.mark.parametrize("thing", [None, {"price": [1]}, [1, 2], pl.Series([1])])
def test_what_is_no_frame_is_refused(thing):
    with pytest.raises(QueryError) as error:
        value_area(thing, by="day")
    assert error.value.parameter == "levels"


def test_profile_is_loaded_on_first_use():
    assert tidytape.analytics.profile.value_area is value_area
    assert "profile" in dir(tidytape.analytics)
    with pytest.raises(AttributeError, match="profiles"):
        tidytape.analytics.profiles  # noqa: B018


def test_arrow_strings_stay_strings():
    table = pa.table({"day": ["a", "a"], "price": [1.0, 2.0], "volume": [1, 2]})
    assert nw.from_native(value_area(table, by="day")).schema["day"] == nw.String


def test_sessions_may_lie_in_any_order_and_have_any_keys(constructor):
    # In memory sessions are walked through, and put in order first where they are scattered.
    frame = levels([1, 4, 10, 4, 1], [0, 6, 0, 0, 10, 2, 1], [2, 2]).with_columns(
        side=pl.Series(["a"] * 5 + [None] * 7 + ["b"] * 2)
    )
    expected = {(0, "a", 2, 2, 4), (1, None, 4, 0, 6), (2, "b", 0, 0, 1)}
    for given in (frame, frame.sort("price"), frame.sample(fraction=1, shuffle=True, seed=3)):
        assert {row[:5] for row in rows(value_area(constructor(given), by=["day", "side"]))} == expected


@pytest.mark.slow
def test_sessions_large_and_small_equal_what_a_lazy_frame_gives():
    # More levels than are worked on at once, in one session and in many.
    draw = np.random.default_rng(4)
    sizes = [70_000, *draw.integers(1, 400, 400).tolist(), 1]
    frame = pl.DataFrame(
        {
            "day": np.repeat(np.arange(len(sizes)), sizes),
            "price": np.concatenate([np.arange(size) for size in sizes]) / 10,
            "volume": draw.integers(0, 50, sum(sizes)),
        }
    ).filter(draw.random(sum(sizes)) < 0.9)
    for rules in ({}, {"rule": "one_row", "stop": "exceed", "tie": "down"}):
        for row_size in (None, 0.1):
            lazily = value_area(frame.lazy(), by="day", row_size=row_size, **rules).collect()
            assert value_area(frame, by="day", row_size=row_size, **rules).equals(lazily)


@pytest.mark.parametrize("sessions", [40, 1_000])
def test_levels_in_any_order_equal_what_a_lazy_frame_gives(sessions):
    # Each session has prices as far apart as their digits allow, some of them twice: of a thousand sessions the order
    # does not fit into one whole number.
    draw = np.random.default_rng(5)
    prices = np.array([-300_000.0, -1.5, 0.0, 0.000001, 7.25, 300_000.0])
    frame = pl.DataFrame(
        {
            "day": np.repeat(np.arange(sessions), 12),
            "price": draw.choice(prices, 12 * sessions),
            "volume": draw.integers(0, 9, 12 * sessions) / 10,
        }
    )
    lazily = value_area(frame.lazy(), by="day").collect()
    assert value_area(frame, by="day").equals(lazily)
    assert value_area(frame.sample(fraction=1, shuffle=True, seed=1), by="day").equals(lazily)


def test_neighbouring_keys_are_told_apart_whatever_their_size(constructor):
    # As floats the two are one.
    keys = [2**60, 2**60 + 1]
    frame = pl.DataFrame({"day": np.repeat(keys, 2), "price": [1.0, 2.0, 3.0, 4.0], "volume": [5, 1, 1, 5]})
    assert [row[:2] for row in rows(value_area(constructor(frame), by="day"))] == [(keys[0], 1), (keys[1], 4)]


def test_an_index_of_pandas_that_repeats_itself_counts_for_nothing():
    frame = levels([1, 4, 10, 4, 1], [3, 1, 1], [2, 2]).with_columns(
        side=pl.Series([None, *"aabbbabb", None])
    )
    given = frame.to_pandas().set_axis([3, 3, 1, 1, 2, 3, 3, 0, 0, 1])
    expected = rows(value_area(frame, by=["day", "side"]))
    assert rows(value_area(given, by=["day", "side"])) == expected


def test_keys_may_be_called_as_the_columns_of_rows_are():
    frame = pl.DataFrame(
        {
            "count": [1, 1, 2],
            "price": ["b", "b", "a"],
            "level": [10.0, 11.0, 5.0],
            "tpo_count": [2, 1, 1],
            "block_ids": [[1, 2], [1], [3]],
        }
    )
    asked = {"by": ["count", "price"], "price": "level", "count": "tpo_count", "row_size": 1}
    assert value_area(frame, **asked).rows() == value_area(frame.lazy(), **asked).collect().rows()


def test_a_total_that_no_float_holds_leaves_its_profile_unknown():
    frame = pl.DataFrame({"day": [1, 1, 2], "price": [1.0, 2.0, 3.0], "volume": [1.5e308, 1.5e308, 1.5e308]})
    for given in (frame, frame.lazy()):
        assert value_area(given, by="day").lazy().collect()["poc"].to_list() == [None, 3.0]


@pytest.mark.parametrize("lazy", [False, True])
def test_a_price_that_no_row_can_have_leaves_its_profile_unknown(lazy):
    frame = pl.DataFrame(
        {"day": [1, 1, 1, 2], "price": [1.0, 2.0, 3e300, 5.0], "volume": [1.0, 2.0, 1.0, 1.0]}
    )
    found = value_area(frame.lazy() if lazy else frame, by="day", row_size=1).lazy().collect()
    assert found["poc"].to_list() == [None, 5.0]


def test_a_value_area_encloses_the_same_share_everywhere_unless_asked() -> None:
    functions = [getattr(module, name) for module in (profile, plot) for name in module.__all__]
    shares = {
        parameters["share"].default
        for parameters in (signature(function).parameters for function in functions if isfunction(function))
        if "share" in parameters
    }
    assert shares == {0.70}
