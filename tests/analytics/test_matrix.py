"""Every function of the analytics on every engine: the same rows as polars, to twelve digits."""

from __future__ import annotations

from importlib import import_module
from inspect import isfunction
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import polars.selectors as cs
import pytest
from numpy.testing import assert_array_equal
from polars.testing import assert_frame_equal

from analytics.matrix import PAGE, Case, cases, namespaces, page, some_cases
from engines import ENGINES, Engine
from tables import each_row
from tidytape.errors import QueryError

MATRIX = [pytest.param(case, id=f"{namespace}.{case}") for namespace, case in cases()]
ONE_EACH = [pytest.param(case, id=f"{namespace}.{case}") for namespace, case in some_cases()]

# Every run meets one case of each function. The slow tests have all cases of the lazy engines, the long ones all.
OTHERS = [pytest.mark.slow]
OTHERS_OF = {"pandas": [pytest.mark.long], "pyarrow": [pytest.mark.long]}
FIRST = {id(case) for _, case in some_cases()}
ON_ENGINES = [
    pytest.param(
        case,
        engine,
        id=f"{namespace}.{case}-{engine}",
        marks=[] if id(case) in FIRST else OTHERS_OF.get(engine, OTHERS),
    )
    for engine in ENGINES[1:]  # what polars answers is what the others are compared with
    for namespace, case in cases()
]


def plain(frame: pl.DataFrame) -> pl.DataFrame:
    """What engines call differently, called the same: words, whole numbers, and instants."""
    return frame.with_columns(
        cs.categorical().cast(pl.String),
        cs.by_dtype(pl.Enum).cast(pl.String),
        cs.integer().cast(pl.Int64),
        cs.float().cast(pl.Float64).fill_nan(None),  # pandas has no other null
        cs.date().cast(pl.Datetime("us")).dt.replace_time_zone("UTC"),  # pandas has no other dates
        cs.datetime().dt.convert_time_zone("UTC").dt.cast_time_unit("us"),
    )


@pytest.fixture(scope="module")
def expected() -> dict[int, pl.DataFrame]:
    """What polars answers, once for all engines."""
    return {}


@pytest.mark.parametrize(("case", "engine"), ON_ENGINES, indirect=["engine"])
def test_engine_answers_as_polars(case: Case, engine: Engine, expected: dict[int, pl.DataFrame]) -> None:
    given = [engine.frame(frame) for frame in case.frames]
    if engine.name in case.gaps:
        with pytest.raises(QueryError, match="collect it first"):
            case.call(*given)
        return
    if case.own_kind:
        assert_same_kind(case.call(*given), case.call(*case.frames))
        return
    if id(case) not in expected:
        answer = case.call(*case.frames)
        assert isinstance(answer, pl.DataFrame)
        assert len(answer), "a case that answers with nothing shows nothing"
        expected[id(case)] = answer
    wanted, got = expected[id(case)], engine.polars(case.call(*given))
    assert got.columns == wanted.columns
    if engine.name != "spark" and (case.sorts or engine.name != "duckdb"):  # whose frames promise no order
        assert_same(got.select(case.key), wanted.select(case.key))
    assert_same(got.sort(case.key, nulls_last=True), wanted.sort(case.key, nulls_last=True))


IN_ANY_ORDER = [
    pytest.param(case, id=f"{namespace}.{case}")
    for namespace, case in cases()
    if not case.own_kind and case.function != "audit"  # which speaks of the order of rows
]


@pytest.mark.slow
@pytest.mark.parametrize("case", IN_ANY_ORDER)
def test_rows_in_any_order_give_the_same_bits(case: Case) -> None:
    wanted = case.call(*case.frames).sort(case.key, nulls_last=True)
    mixed = [frame.sample(fraction=1, shuffle=True, seed=0) for frame in case.frames]
    assert_frame_equal(case.call(*mixed).sort(case.key, nulls_last=True), wanted, check_exact=True)


@pytest.mark.long
@pytest.mark.parametrize("case", ONE_EACH)
def test_pandas_on_arrow_answers_as_polars(case: Case, expected: dict[int, pl.DataFrame]) -> None:
    if "pandas" in case.gaps or case.own_kind:
        pytest.skip("it answers with no frame")
    given = [frame.to_pandas(use_pyarrow_extension_array=True) for frame in case.frames]
    got = pl.from_pandas(case.call(*given))
    wanted = expected.setdefault(id(case), case.call(*case.frames))
    assert_same(got.sort(case.key, nulls_last=True), wanted.sort(case.key, nulls_last=True))


ALWAYS = [
    case for case in MATRIX if str(case.id).startswith(("profile.value_area", "profile.point_of_control"))
]


@pytest.mark.long
@pytest.mark.skipif("spark" in ENGINES, reason="the whole matrix is asked of Spark")
@pytest.mark.parametrize("case", ALWAYS)
def test_value_areas_are_always_asked_of_spark(case: Case, spark: Any, tmp_path: Path) -> None:
    engine = Engine("spark", spark, tmp_path)
    got = engine.polars(case.call(*map(engine.frame, case.frames)))
    assert_same(got.sort(case.key), case.call(*case.frames).sort(case.key))


# These failed with Spark Connect, and not with a classic session.
CONNECTED = (
    "cross.dominance", "cross.oi_weighted", "cross.total", "flow.oi_price_quadrant", "funding.carry",
    "funding.spread", "profile.day_type",
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.skipif("spark connect" in ENGINES, reason="the whole matrix is asked of Spark Connect")
def test_spark_connect_answers_as_polars(connect: Any, tmp_path: Path) -> None:
    """One test, because each process that has one of several would start a Java."""
    engine = Engine("spark", connect, tmp_path)
    first = {f"{namespace}.{case.function}": case for namespace, case in reversed(cases())}
    for case in (first[name] for name in CONNECTED):
        got = engine.polars(case.call(*map(engine.frame, case.frames)))
        assert pl.Null not in got.dtypes, str(case)
        assert_same(
            got.sort(case.key, nulls_last=True), case.call(*case.frames).sort(case.key, nulls_last=True)
        )


def assert_same(got: pl.DataFrame, wanted: pl.DataFrame) -> None:
    got, wanted = plain(got), plain(wanted)
    # A column of nothing but nulls has no type to compare in pandas.
    bare = [name for name in got.columns if got[name].null_count() == len(got)]
    assert all(wanted[name].null_count() == len(wanted) for name in bare)
    assert_frame_equal(got.drop(bare), wanted.drop(bare), rel_tol=1e-12, abs_tol=1e-13)


def assert_same_kind(got: Any, wanted: Any) -> None:
    assert type(got) is type(wanted)
    if isinstance(wanted, pd.DataFrame):
        assert len(wanted), "a case that answers with nothing shows nothing"
        pd.testing.assert_frame_equal(
            got, wanted, check_freq=False, check_index_type=False, check_column_type=False
        )
        return
    for name, array in vars(wanted).items():
        assert array.size, "a case that answers with nothing shows nothing"
        assert_array_equal(getattr(got, name), array, strict=True)


def shape_of(answer: Any) -> Any:
    """What stays of an answer in kind of its own when there are no rows: names, and of arrays types and dimensions."""
    if isinstance(answer, pd.DataFrame):
        return list(answer.index.names), list(answer.columns.names)
    return {name: (array.dtype, array.ndim) for name, array in vars(answer).items()}


@pytest.mark.long
@pytest.mark.parametrize("case", ONE_EACH)
@pytest.mark.parametrize("kind", ["polars", "pandas"])
def test_empty_frame_keeps_columns_and_dtypes(case: Case, kind: str) -> None:
    engine = Engine(kind)
    if case.own_kind:
        empty = case.call(*(engine.frame(frame.clear()) for frame in case.frames))
        assert shape_of(empty) == shape_of(case.call(*map(engine.frame, case.frames)))
        return
    full = engine.polars(case.call(*map(engine.frame, case.frames)))
    empty = engine.polars(case.call(*(engine.frame(frame.clear()) for frame in case.frames)))
    assert empty.columns == full.columns
    assert len(empty) == 0
    if kind == "polars":
        assert empty.schema == full.schema


@each_row("namespace", namespaces())
def test_every_function_has_a_case(namespace: str) -> None:
    module: Any = import_module(f"tidytape.analytics.{namespace}")
    asked = {case.function for name, case in cases() if name == namespace}
    functions = {name for name in module.__all__ if isfunction(getattr(module, name))}
    frameless = getattr(import_module(f"analytics.cases.{namespace}"), "WITHOUT_FRAME", {})
    assert functions - set(frameless) == asked


def test_the_page_says_what_the_matrix_is() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run python tests/analytics/matrix.py"
