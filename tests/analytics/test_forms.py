"""One law for each public function of analytics, aggregate and plot: a column in another form gives the right answer.

`forms` says which forms must equal the clean one, and which must be refused. The cells that fail today are in
``forms_failing.txt``: a cell that begins to hold must leave it (``python tests/analytics/forms.py --write``).
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from importlib import import_module
from inspect import isfunction
from typing import Any

import polars as pl
import pytest

from aggregate import cases as aggregate_cases
from analytics.form_cells import ROOMS, Cell, Subject, cells_of, functions
from analytics.form_law import Judge, failing, known_failures, line_of
from analytics.forms import ENGINES, FORMS
from analytics.matrix import Case
from analytics.matrix import cases as analytics_cases
from tables import each_row
from tidytape import aggregate, plot
from tidytape.errors import QueryError

_NAMES = {
    "analytics": dict.fromkeys(f"{namespace}.{case.function}" for namespace, case in analytics_cases()),
    "aggregate": dict.fromkeys(f"aggregate.{case.function}" for case in aggregate_cases.CASES),
}
CALLS = [
    pytest.param(room, function, engine, id=f"{function}-{engine}", marks=pytest.mark.long)
    for room, names in _NAMES.items()
    for function in names
    for engine in ENGINES
]


def hold(room: str, function: str, engine: str, subtests: pytest.Subtests) -> None:
    """Assert that the cells of a function that fail are those that are known to fail."""
    known = known_failures() & {line_of(cell, engine) for cell in cells_of(room, function)}
    _, reasons = failing(room, function, engine)
    for line in sorted(reasons.keys() - known):
        with subtests.test(cell=line):
            pytest.fail(reasons[line])
    for line in sorted(known - reasons.keys()):
        with subtests.test(cell=line):
            pytest.fail("it holds now: run python tests/analytics/forms.py --write")


@pytest.mark.parametrize(("room", "function", "engine"), CALLS)
def test_a_column_in_another_form_is_right_or_refused(
    room: str, function: str, engine: str, subtests: pytest.Subtests
) -> None:
    hold(room, function, engine, subtests)


@pytest.mark.long
@pytest.mark.parametrize("engine", ENGINES)
def test_a_picture_of_a_column_in_another_form_is_right_or_refused(
    engine: str, subtests: pytest.Subtests
) -> None:
    for function in functions("plot"):
        hold("plot", function, engine, subtests)


def test_every_function_of_aggregate_has_a_call() -> None:
    calls = {case.function for case in aggregate_cases.CASES}
    assert calls | aggregate_cases.WITHOUT_FRAME.keys() == set(aggregate.__all__)


@pytest.mark.slow
def test_every_picture_has_a_call() -> None:
    plot_cases: Any = import_module("plot.cases")
    pictures = {name for name in plot.__all__ if isfunction(getattr(plot, name))} | {"interactive"}
    assert {case.function for case in plot_cases.cases()} | plot_cases.WITHOUT_FRAME.keys() == pictures


@pytest.mark.long
def test_only_cells_are_known_to_fail() -> None:
    cells = {
        line_of(cell, engine)
        for room in ROOMS
        for function in functions(room)
        for cell in cells_of(room, function)
        for engine in cell.engines
    }
    assert known_failures() <= cells


# --- the law itself, on two functions that are right and wrong on purpose ---

_TRADES = pl.DataFrame(
    {
        "timestamp": [datetime(2024, 8, 8, tzinfo=UTC) + timedelta(minutes=minute) for minute in range(3)],
        "side": ["BUY", "SELL", "BUY"],
        "amount": [0.5, 1.25, 2.0],
    },
    schema_overrides={"timestamp": pl.Datetime("us", "UTC")},
)


def careless(trades: Any) -> Any:
    """Count what was bought, as it comes."""
    bought = pl.when(pl.col("side") == "BUY").then(pl.col("amount")).otherwise(0)
    return trades.with_columns(bought=bought, volume=pl.col("amount").sum(), until=pl.col("timestamp"))


def careful(trades: Any) -> Any:
    """Count what was bought, of numbers, times and sides only."""
    frame = trades.lazy().collect()
    if not frame["amount"].dtype.is_numeric():
        raise QueryError("amount", got=str(frame["amount"].dtype), expected="numbers in column amount")
    if frame["timestamp"].dtype == pl.Int64 and frame["timestamp"].max() < 10**17:
        unit = "microseconds" if frame["timestamp"].max() > 10**14 else "milliseconds or seconds"
        raise QueryError("timestamp", got=f"what looks like {unit}", expected="nanoseconds")
    words = {"BUY": "BUY", "B": "BUY", "SELL": "SELL", "S": "SELL", "N": None}
    sides = frame["side"].cast(pl.String).str.to_uppercase()
    if others := set(sides.drop_nulls()) - words.keys():
        row = frame["side"].cast(pl.String).filter(sides == min(others))[0]
        raise QueryError("side", got=row, expected="buy or sell in column side")
    short = frame["amount"].cast(pl.String) if frame["amount"].dtype == pl.Float32 else frame["amount"]
    amounts = short.cast(pl.Float64).fill_nan(None)
    sides = sides.replace_strict(words, default=None)
    clean = frame.with_columns(sides, amount=amounts)
    bought = pl.when(pl.col("side") == "BUY").then(pl.col("amount")).when(pl.col("side") == "SELL").then(0)
    answer = clean.with_columns(bought=bought, volume=pl.col("amount").sum(), until=pl.col("timestamp"))
    return answer.lazy() if isinstance(trades, pl.LazyFrame) else answer


def reason_of(call: Any, column: str, name: str, engine: str = "polars") -> str | None:
    case = Case("call", call, [_TRADES], ["timestamp"])
    kind = {"amount": "number", "timestamp": "time", "side": "trade side"}[column]
    form = next(form for form in FORMS[kind] if form.name == name)
    return Judge(engine).reason(Cell(Subject("flow.call", case, (_TRADES,)), 0, column, form))


@each_row(
    "column, name, reason",
    [
        ("amount", "Decimal", "is Decimal"),
        ("amount", "NaN in a row", "volume"),
        ("amount", "text", "ends in a "),
        ("amount", "boolean", "is taken"),
        ("timestamp", "int64 ms", "is taken"),
        ("timestamp", "float ns", "is taken"),
        ("side", "buy, sell", "bought"),
        ("side", "bid, ask", "is taken"),
        ("side", "a word that is none", "is taken"),
    ],
)
def test_what_a_careless_function_answers_fails(column: str, name: str, reason: str) -> None:
    said = reason_of(careless, column, name)
    assert said is not None
    assert reason in said


@pytest.mark.slow
@each_row("engine", ["polars", "polars lazy"])
@each_row(
    "column, name",
    [
        *(("amount", name) for name in ("Decimal", "float32", "NaN in a row", "null in a row", "text")),
        *(("timestamp", name) for name in ("datetime ms", "Asia/Tokyo", "int64 ns", "int64 us", "int64 ms")),
        *(
            ("side", name)
            for name in ("buy, sell", "b, s", "enum", "N in a row", "null in a row", "bid, ask")
        ),
    ],
)
def test_what_a_careful_function_answers_holds(engine: str, column: str, name: str) -> None:
    assert reason_of(careful, column, name, engine) == ""


@each_row("name, reason", [("int64 ms", "until"), ("int64 s", "until")])
def test_a_lazy_frame_may_give_null_and_no_other_time(name: str, reason: str) -> None:
    assert reason in str(reason_of(careless_in_time, "timestamp", name, "polars lazy"))
    assert reason_of(null_in_time, "timestamp", name, "polars lazy") == ""


def careless_in_time(trades: Any) -> Any:
    return trades.with_columns(until=pl.col("timestamp").cast(pl.Int64) + 60)


def null_in_time(trades: Any) -> Any:
    return trades.with_columns(until=pl.lit(None, pl.Int64))
