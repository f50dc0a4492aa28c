"""The normal distribution, on every engine."""

from __future__ import annotations

import math

import narwhals.stable.v2 as nw
import numpy as np
import polars as pl
import pytest

from tidytape.analytics._smile import normal_cdf


def test_normal_distribution_equals_that_of_the_standard_library(engine):
    x = [
        *np.linspace(-10, 10, 4001),
        0.0,
        -0.0,
        -40.0,
        40.0,
        1e-300,
        1e30,
        -1e30,
        1e300,
        -1e300,
        math.inf,
        -math.inf,
    ]
    frame = nw.from_native(engine.frame(pl.DataFrame({"x": x}))).select(p=normal_cdf(nw.col("x")))
    want = [0.5 * math.erfc(-value / math.sqrt(2)) for value in x]
    assert engine.polars(frame.to_native())["p"].to_list() == pytest.approx(want, abs=1e-15, rel=0)


def test_of_no_number_there_is_none(engine):
    x = pl.DataFrame({"x": [None, math.nan, 0.0]})
    frame = nw.from_native(engine.frame(x)).select(p=normal_cdf(nw.col("x")))
    assert engine.polars(frame.to_native())["p"].fill_nan(None).to_list() == [None, None, 0.5]
