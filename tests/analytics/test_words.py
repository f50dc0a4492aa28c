"""Words kept as categories: every function answers as of text, and with the types the caller's columns have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import polars.selectors as cs
import pyarrow as pa
import pytest

from analytics.matrix import Case, some_cases
from analytics.test_matrix import assert_same, plain
from engines import Engine
from tidytape.frames._table import IDENTITY

MATRIX = [
    pytest.param(case, id=f"{namespace}.{case}")
    for namespace, case in some_cases()
    if not case.own_kind and "pandas" not in case.gaps
]


def words_of(frame: pl.DataFrame) -> list[str]:
    return [name for name, dtype in frame.schema.items() if dtype in (pl.String, pl.Categorical)]


def said(frame: pl.DataFrame, name: str) -> list[str]:
    """The words of a column, in an order that is not theirs, with one that is not there."""
    return sorted({"none of them", *frame[name].cast(pl.String).drop_nulls()}, reverse=True)


def as_enum(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.with_columns(pl.col(name).cast(pl.Enum(said(frame, name))) for name in words_of(frame))


def as_categorical(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.with_columns(pl.col(name).cast(pl.Categorical()) for name in words_of(frame))


def as_pandas(*, ordered: bool) -> Callable[[pl.DataFrame], pd.DataFrame]:
    def made(frame: pl.DataFrame) -> pd.DataFrame:
        types = {name: pd.CategoricalDtype(said(frame, name), ordered=ordered) for name in words_of(frame)}
        return frame.to_pandas().astype("object").astype(frame.to_pandas().dtypes.to_dict() | types)

    return made


def as_dictionary(frame: pl.DataFrame) -> pa.Table:
    table = frame.with_columns(cs.categorical().cast(pl.String)).to_arrow()
    for name in words_of(frame):
        at = table.schema.get_field_index(name)
        coded = table.column(name).cast(pa.string()).cast(pa.dictionary(pa.int16(), pa.string()))
        table = table.set_column(at, name, coded)
    return table


def as_duckdb(frame: pl.DataFrame) -> duckdb.DuckDBPyRelation:
    text = Engine("duckdb").frame(frame.with_columns(cs.categorical().cast(pl.String)))
    kinds = {name: ", ".join(f"'{word}'" for word in said(frame, name)) for name in words_of(frame)}
    cast = ", ".join(f'"{name}"::ENUM({words}) AS "{name}"' for name, words in kinds.items())
    return text.project(f"* REPLACE ({cast})") if cast else text


def types_of(native: Any) -> dict[str, Any]:
    if isinstance(native, duckdb.DuckDBPyRelation):
        return dict(zip(native.columns, map(str, native.types), strict=True))
    if isinstance(native, pa.Table):
        return {field.name: field.type for field in native.schema}
    return dict(native.dtypes) if isinstance(native, pd.DataFrame) else dict(native.schema)


KINDS: dict[str, tuple[str, Callable[[pl.DataFrame], Any]]] = {
    "Categorical": ("polars", as_categorical),
    "Enum": ("polars", as_enum),
    "category": ("pandas", as_pandas(ordered=False)),
    "ordered category": ("pandas", as_pandas(ordered=True)),
    "dictionary": ("pyarrow", as_dictionary),
    "ENUM": ("duckdb", as_duckdb),
}


@pytest.fixture(scope="module")
def of_text() -> dict[int, pl.DataFrame]:
    """What is answered of text, once for all kinds."""
    return {}


# Those that take no word but their own, and those that say an order, of every case; all of them where columns of words
# are new, are written anew, or meet those of another frame.
STRICT = ("Enum", "ordered category")
CHANGING = (
    *("cross.dispersion", "cross.oi_weighted", "depth.regrid", "depth.slippage", "flow.delta"),
    *("flow.large_trade_share", "flow.oi_price_quadrant", "funding.carry", "funding.spread"),
    *(
        "options.smile",
        "options.volatility_risk_premium",
        "pit.asof_join",
        "profile.value_area",
        "quality.gaps",
    ),
)
ASKED = [
    pytest.param(kind, *case.values, id=f"{kind}-{case.id}")
    for kind in KINDS
    for case in MATRIX
    if kind in STRICT or str(case.id).startswith(CHANGING)
]


@pytest.mark.long
@pytest.mark.parametrize(("kind", "case"), ASKED)
def test_categories_stay_what_they_are(kind: str, case: Case, of_text: dict[int, pl.DataFrame]) -> None:
    name, made = KINDS[kind]
    if name in case.gaps:
        pytest.skip("the engine cannot do it")
    if id(case) not in of_text:
        of_text[id(case)] = case.call(
            *(frame.with_columns(cs.categorical().cast(pl.String)) for frame in case.frames)
        )
    given = [made(frame) for frame in case.frames]
    answer = case.call(*given)
    wanted, got = of_text[id(case)], Engine(name).polars(answer)
    assert_same(*(plain(frame).sort(case.key, nulls_last=True) for frame in (got, wanted)))
    before, after = types_of(given[0]), types_of(answer)
    for column in words_of(case.frames[0]):
        if column not in after or column not in IDENTITY:
            continue
        if set(wanted[column].drop_nulls()) <= set(said(case.frames[0], column)):
            assert after[column] == before[column], column
        else:  # a word of the function's own, such as another interval
            assert str(after[column]).lower().startswith(("categorical", "category", "dictionary", "varchar"))
