"""Tables whose rows are too many, and too cheap, to be tests of their own: one test runs all rows."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import Any

import polars as pl
import pytest

__all__ = ["each_row", "in_columns"]

Test = Callable[..., None]


def in_columns(frame: pl.DataFrame, names: Iterable[str]) -> pl.DataFrame:
    """Return a frame, which must have these columns and no others, with its columns in the order of these names."""
    names = list(names)
    assert sorted(frame.columns) == sorted(names)
    return frame.select(names)


Param = type(pytest.param())


def each_row(names: str | Sequence[str], rows: Iterable[Any]) -> Callable[[Test], Test]:
    """Run a test with each row of a table: one test, where ``pytest.mark.parametrize`` makes one of each row.

    Each row that fails is reported as a subtest with its values; the rows after it still run. All rows share the
    fixtures of the test. Two tables on one test make the product of their rows.
    """
    columns = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    table = []
    for row in rows:
        cells = row.values if isinstance(row, Param) else row if len(columns) > 1 else (row,)
        table.append(dict(zip(columns, cells, strict=True)))

    def decorated(test: Test) -> Test:
        inner, inner_table = getattr(test, "table", (test, [{}]))
        product = [{**row, **inner_row} for inner_row in inner_table for row in table]

        @wraps(test)
        def every_row(subtests: pytest.Subtests, **fixtures: Any) -> None:
            for row in product:
                try:
                    inner(**fixtures, **row)
                except (Exception, pytest.fail.Exception):
                    with subtests.test(**row):
                        raise

        parameters = inspect.signature(inner).parameters
        assert product[0].keys() <= parameters.keys(), f"{inner.__name__} has no parameter of some column"
        fixtures = [parameter for name, parameter in parameters.items() if name not in product[0]]
        subtests = inspect.Parameter("subtests", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        every_row.__signature__ = inspect.Signature([subtests, *fixtures])  # type: ignore[attr-defined]
        every_row.table = (inner, product)  # type: ignore[attr-defined]
        return every_row

    return decorated
