"""Unknown fields that are of one kind in one answer and of another in the next."""

from __future__ import annotations

from itertools import permutations

import orjson
import polars as pl
import pytest

from tidytape.wire import decode
from tidytape.wire._tidy import concatenated, fitted

CANDLES = "TRADE_SIDE_AGNOSTIC_AGG"


def answer(*values: object) -> pl.DataFrame:
    points = [{"Point": {"timestamp": {"s": place}, "foo": value}} for place, value in enumerate(values)]
    return decode(orjson.dumps({"series": [{"id": {"exchange": "X"}, "points": points}]}), CANDLES)


@pytest.mark.parametrize(
    ("first", "second", "kept"),
    [
        (1, [1], ["1", "[1]"]),
        ("x", [1], ["x", "[1]"]),
        ("x", {"a": 1}, ["x", '{"a":1}']),
        ({"a": 1}, 3, ['{"a":1}', "3"]),
        ({"a": 1}, {"a": [1]}, ['{"a":1}', '{"a":[1]}']),
        ([1], ["a"], ["[1]", '["a"]']),
        (True, [True], ["true", "[true]"]),
        (True, 2, ["true", "2"]),
        (1, "x", ["1", "x"]),
        ({}, {"a": 1}, ["{}", '{"a":1}']),
    ],
)
def test_kinds_that_differ_give_text_whether_in_one_answer_or_in_two(
    first: object, second: object, kept: list[str]
) -> None:
    assert concatenated([answer(first), answer(second)])["foo"].to_list() == kept
    assert answer(first, second)["foo"].to_list() == kept


def test_in_whatever_order_the_answers_are_joined() -> None:
    answers = [answer(1), answer("x"), answer([1], "y"), answer(None)]
    for one in permutations(answers):
        left = concatenated([concatenated(one[:2]), concatenated(one[2:])])
        assert sorted(left["foo"].drop_nulls()) == ["1", "[1]", "x", "y"]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (1, 0.5),
        ({"a": 1}, {"b": "x"}),
        ([], [1]),
        (2**53, 0.5),
        ("x", {"a": [1]}),
    ],
)
def test_kinds_that_agree_stay_what_they_are(first: object, second: object) -> None:
    assert concatenated([answer(first), answer(second)])["foo"].dtype == answer(first, second)["foo"].dtype


def test_integers_that_no_integer_of_64_bits_holds_together() -> None:
    frames = [
        pl.DataFrame({"foo": pl.Series([value], dtype=dtype)})
        for value, dtype in ((2**64 - 1, pl.UInt64), (-1, pl.Int64))
    ]
    assert concatenated(frames)["foo"].to_list() == ["18446744073709551615", "-1"]


def test_a_name_that_looks_like_a_pattern() -> None:
    frames = [pl.DataFrame({"^.*$": [value], "open": [1.0]}) for value in (1, [1])]
    assert concatenated(frames).rows() == [("1", 1.0), ("[1]", 1.0)]


def test_a_column_fits_where_it_says_the_same() -> None:
    assert fitted(pl.Series("x", [0.5]), pl.Int64()) is None
    assert fitted(pl.Series("x", [[1]]), pl.Int64()) is None
