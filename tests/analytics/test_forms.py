"""One law for each public function of analytics, aggregate and plot: a column in another form gives the right answer.

`forms` says which forms must equal the clean one, and which must be refused. The cells that fail today are in
``forms_failing.txt``: a cell that begins to hold must leave it (``python tests/analytics/forms.py --write``).
"""

from __future__ import annotations

from importlib import import_module
from inspect import isfunction
from typing import Any

import pytest

from aggregate import cases as aggregate_cases
from analytics.form_cells import cells_of, functions
from analytics.form_law import failing, known_failures, line_of
from analytics.forms import ENGINES
from analytics.matrix import cases as analytics_cases
from tidytape import aggregate, plot

QUICK: frozenset[str] = frozenset()
"""Functions whose law takes less than a tenth of a second on polars."""

_ANALYTICS = list(dict.fromkeys(f"{namespace}.{case.function}" for namespace, case in analytics_cases()))
_AGGREGATE = list(dict.fromkeys(f"aggregate.{case.function}" for case in aggregate_cases.CASES))
_WITHOUT_PLOTS = [("analytics", name) for name in _ANALYTICS] + [("aggregate", name) for name in _AGGREGATE]


def hold(room: str, function: str, engine: str, subtests: pytest.Subtests) -> None:
    """Assert that the cells of a function that fail are those that are known to fail."""
    lines = {line_of(cell, engine) for cell in cells_of(room, function)}
    known = known_failures() & lines
    _, reasons = failing(room, function, engine)
    for line in sorted(reasons.keys() - known):
        with subtests.test(cell=line):
            pytest.fail(reasons[line])
    for line in sorted(known - reasons.keys()):
        with subtests.test(cell=line):
            pytest.fail("it holds now: run python tests/analytics/forms.py --write")


@pytest.mark.parametrize(
    ("room", "function", "engine"),
    [
        pytest.param(
            room,
            function,
            engine,
            id=f"{function}-{engine}",
            marks=[] if engine == "polars" and function in QUICK else [pytest.mark.slow],
        )
        for room, function in _WITHOUT_PLOTS
        for engine in ENGINES
    ],
)
def test_a_column_in_another_form_is_right_or_refused(
    room: str, function: str, engine: str, subtests: pytest.Subtests
) -> None:
    hold(room, function, engine, subtests)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
def test_a_picture_of_a_column_in_another_form_is_right_or_refused(
    engine: str, subtests: pytest.Subtests
) -> None:
    for function in functions("plot"):
        hold("plot", function, engine, subtests)


def test_every_function_of_aggregate_has_a_call() -> None:
    called = {case.function for case in aggregate_cases.CASES}
    assert called | aggregate_cases.WITHOUT_FRAME.keys() == set(aggregate.__all__)


@pytest.mark.slow
def test_every_picture_has_a_call() -> None:
    plot_cases: Any = import_module("plot.cases")
    drawings = {name for name in plot.__all__ if isfunction(getattr(plot, name))} | {"interactive"}
    assert {case.function for case in plot_cases.cases()} | plot_cases.WITHOUT_FRAME.keys() == drawings


@pytest.mark.slow
def test_no_cell_is_known_to_fail_that_is_none() -> None:
    cells = {
        line_of(cell, engine)
        for room in ("analytics", "aggregate", "plot")
        for function in functions(room)
        for cell in cells_of(room, function)
        for engine in ENGINES
    }
    assert known_failures() <= cells
