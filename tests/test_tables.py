"""A table's test runs every row, reports each row that fails with its values, and goes on after it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tables import each_row


class Subtests:
    """Stands for the fixture: notes the rows that it is given and takes their errors."""

    def __init__(self) -> None:
        self.rows: list[dict[str, object]] = []

    @contextmanager
    def test(self, **row: object) -> Iterator[None]:
        self.rows.append(row)
        with pytest.raises(AssertionError):
            yield


def test_two_tables_make_the_product_of_their_rows() -> None:
    seen = []

    @each_row("first", [1, 2])
    @each_row(("second", "third"), [(3, 4), pytest.param(5, 6)])
    def rows(first: int, second: int, third: int) -> None:
        seen.append((first, second, third))
        assert (first, second) != (1, 5)

    subtests: Any = Subtests()
    rows(subtests=subtests)
    assert seen == [(1, 3, 4), (2, 3, 4), (1, 5, 6), (2, 5, 6)]
    assert subtests.rows == [{"first": 1, "second": 5, "third": 6}]


def test_a_column_that_the_test_does_not_take_is_refused() -> None:
    with pytest.raises(AssertionError, match="rows has no parameter of some column"):

        @each_row("second", [1])
        def rows(first: int) -> None:
            raise AssertionError(first)
