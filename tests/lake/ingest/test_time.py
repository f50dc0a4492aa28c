"""Written times and epoch numbers, without guessing."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tables import each_row
from tidytape.errors import QueryError
from tidytape.lake.ingest._time import UNITS, nanoseconds, unit_of, written_as

FIRST, LAST = 946_684_800, 4_102_444_800


def ns(text, unit):
    return pl.DataFrame({"t": [text]}, schema={"t": pl.String}).select(nanoseconds(pl.col("t"), unit))["t"][0]


@pytest.mark.slow
@each_row(
    ("text", "expected"),
    [
        ("2023-09-05T16:00:01.281719Z", 1_693_929_601_281_719_000),
        ("2023-09-05 16:00:01.281719 UTC", 1_693_929_601_281_719_000),
        ("2023-09-05T18:00:01.281719123+02:00", 1_693_929_601_281_719_123),
        ("2023-09-05T12:30:01-0330", 1_693_929_601_000_000_000),
        ("2023-09-05T16:00:01", 1_693_929_601_000_000_000),  # naive means UTC
        ("2023-09-05T16:00:01.2817191239", 1_693_929_601_281_719_123),  # cut off, not rounded
        ("2023-09-05", None),
        ("2023-02-30T16:00:01Z", None),
        ("2023-09-05T25:00:01Z", None),
        ("2023-09-05T23:59:60Z", None),
        ("2023-09-05T23:60:00Z", None),
        ("2023-09-05T24:00:00Z", None),
        ("2023-09-05T23:59:59+99:99", None),
        ("2023-09-05T23:59:59+24:00", None),
        ("2023-09-05T23:59:59-0560", None),
        ("05/09/2023 16:00:01", None),
        ("1693929601", None),
        ("1999-12-31T23:59:59Z", None),
        ("", None),
        (None, None),
    ],
)
def test_written_times(text, expected):
    assert ns(text, "iso") == expected


@each_row(
    ("text", "unit", "expected"),
    [
        ("1693929601", "s", 1_693_929_601_000_000_000),
        ("1693929601.281719123456", "s", 1_693_929_601_281_719_123),
        ("1693929601.5", "s", 1_693_929_601_500_000_000),
        ("1693929601281", "ms", 1_693_929_601_281_000_000),
        ("1693929601281719", "us", 1_693_929_601_281_719_000),
        ("1693929601281719.5", "us", 1_693_929_601_281_719_500),
        ("1693929601281719123", "ns", 1_693_929_601_281_719_123),
        ("1693929601281", "s", None),
        ("9999999999999999999", "s", None),
        ("9999999999999999999", "ns", None),
        ("1693929601", "ms", None),
        ("-1693929601", "s", None),
        ("1.6e9", "s", None),
        ("now", "s", None),
    ],
)
def test_numbers(text, unit, expected):
    assert ns(text, unit) == expected


@given(st.integers(FIRST, LAST - 1), st.sampled_from(list(UNITS)), st.integers(0, 10**9 - 1))
def test_every_number_of_the_century_has_one_unit(second, unit, fraction):
    digits = 9 - UNITS[unit]
    number = second * 10**digits + fraction // 10 ** UNITS[unit]
    assert unit_of(pl.Series([str(number)])) == unit
    assert ns(str(number), unit) == number * 10 ** UNITS[unit]


@each_row("text", ["0", "12", "86400", "99999999999", "hello", "", None, "2023-09-05"])
def test_what_could_be_anything_is_nothing(text):
    assert unit_of(pl.Series([text], dtype=pl.String)) is None


def test_an_unknown_unit_is_named():
    with pytest.raises(QueryError, match="time_unit: got 'm'"):
        written_as("m", None)


def test_a_year_of_more_nanoseconds_than_64_bits_hold_is_none_of_this_century():
    assert ns("2607-12-31T00:00:00Z", "iso") is None
    assert ns("2607-12-31", "date") is None
