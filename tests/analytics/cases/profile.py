"""Profiles of three days: ties, a row without a count, one day without any."""

from __future__ import annotations

import polars as pl

from analytics.matrix import Case
from tidytape.analytics import profile

_COUNTS = {"a": [1, 4, 10, 4, 1], "b": [0, 6, 0, 0, 10, 2, 1], "c": [2, 2]}
LEVELS = pl.DataFrame(
    [(day, float(row), float(count)) for day, counts in _COUNTS.items() for row, count in enumerate(counts)],
    schema=["day", "price", "volume"],
    orient="row",
).sample(fraction=1, shuffle=True, seed=1)

CASES = [
    Case("point_of_control", lambda levels: profile.point_of_control(levels, by="day"), [LEVELS], ["day"]),
    Case("value_area", lambda levels: profile.value_area(levels, by="day"), [LEVELS], ["day"]),
    Case(
        "value_area",
        lambda levels: profile.value_area(
            levels, by="day", rule="one_row", tie="down", stop="exceed", row_size=1
        ),
        [LEVELS],
        ["day"],
        label="one row, down, exceed",
    ),
]
