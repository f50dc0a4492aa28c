from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import polars as pl
import pytest
from matplotlib.dates import date2num
from numpy.testing import assert_allclose

from tidytape.errors import MissingColumnError, QueryError
from tidytape.plot._tracks import line_of, tracks

START = datetime(2024, 8, 8, tzinfo=UTC)
HOUR = 1 / 24


def points(*rows, interval="HOUR", **columns):
    """Points of (exchange, symbol, hour, value)."""
    exchange, symbol, hours, values = zip(*rows, strict=True)
    return pl.DataFrame(
        {
            "exchange": exchange,
            "raw_symbol": symbol,
            "coin": "BTC",
            "interval": interval,
            "timestamp": [START + timedelta(hours=hour) for hour in hours],
            "value": values,
            **columns,
        },
        schema_overrides={"value": pl.Float64},
    )


def test_each_series_is_in_order_of_time(native):
    found = tracks(native(points(("A", "X", 1, 2), ("B", "Y", 0, 9), ("A", "X", 0, 1))), "frame", ["value"])
    assert list(found.by_label) == ["A X", "B Y"]
    track = found.by_label["A X"]
    assert_allclose(track.values["value"], [1, 2])
    assert_allclose(track.start, date2num(START) + np.array([0, HOUR]))
    assert_allclose(track.end, track.start + HOUR)
    assert found.title() == "BTC, 2 markets, 1h"


def test_series_are_named_by_what_tells_them_apart():
    def labels(*rows, **columns):
        return list(tracks(points(*rows, **columns), "frame", ["value"]).by_label)

    assert labels(("A", "X", 0, 1), ("A", "Y", 0, 1)) == ["X", "Y"]
    assert labels(("A", "X", 0, 1), ("B", "X", 0, 1)) == ["A", "B"]
    assert labels(("A", "X", 0, 1)) == ["A X"]
    assert labels(("A", "X", 0, 1), ("A", "X", 0, 1), side=["BUY", "SELL"]) == ["BUY", "SELL"]
    assert labels(("A", None, 0, 1), ("A", "X", 0, 1)) == ["null", "X"]


def test_missing_intervals_are_gaps():
    track = tracks(points(*(("A", "X", hour, hour) for hour in (0, 1, 4))), "frame", ["value"]).by_label[
        "A X"
    ]
    hours = (track.line("value")[0] - date2num(START)) * 24
    assert_allclose(hours, [0, 1, 2, 4], atol=1e-6)
    assert_allclose(track.line("value")[1], [0, 1, np.nan, 4])
    assert_allclose(track.steps("value")[1], [0, 1, np.nan, 4, 4])
    assert_allclose((track.steps("value")[0][-1] - date2num(START)) * 24, 5)


def test_without_an_interval_a_value_counts_until_the_next_one_if_that_is_not_late():
    given = points(*(("A", "X", hour, hour) for hour in (0, 5, 11, 16, 40))).drop("interval")
    track = tracks(given, "frame", ["value"]).by_label["A X"]
    hours = (track.steps("value")[0] - date2num(START)) * 24
    assert_allclose(
        hours, [0, 5, 11, 16, 16 + 5.5, 40, 40 + 5.5], atol=1e-6
    )  # steps have a median of 5.5 hours
    assert_allclose(track.line("value")[1], [0, 5, 11, 16, np.nan, 40])


def test_a_value_between_gaps_is_a_dot():
    values = np.array([1, 2, np.nan, 3, np.nan, 4])
    line = line_of(np.arange(6.0), values)
    assert (line.marker, line.marked) == ("o", [3, 5])
    assert line_of(np.arange(2.0), values[:2]).marker is None


def test_what_is_no_number_is_unknown():
    track = tracks(
        points(("A", "X", 0, None), ("A", "X", 1, float("inf"))), "frame", ["value"], optional=["b"]
    )
    assert np.isnan(track.by_label["A X"].values["value"]).all()
    assert np.isnan(track.by_label["A X"].values["b"]).all()


def test_a_frame_without_rows_has_no_series(native):
    found = tracks(native(points(("A", "X", 0, 1)).clear()), "frame", ["value"])
    assert (found.by_label, found.bounds(), found.title()) == ({}, None, "")


def test_what_is_wrong_with_a_frame_is_named():
    one = points(("A", "X", 0, 1))
    with pytest.raises(MissingColumnError, match="'value'"):
        tracks(one.drop("value"), "frame", ["value"])
    with pytest.raises(QueryError, match="several rows of A X at one time"):
        tracks(pl.concat([one, one]), "frame", ["value"])
    with pytest.raises(QueryError, match="2 values of interval"):
        tracks(points(("A", "X", 0, 1), ("A", "X", 0, 1), interval=["HOUR", "DAY"]), "frame", ["value"])
