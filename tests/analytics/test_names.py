"""No column of the caller meets a working one: whatever it is called, it changes no answer and comes back as it was."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from inspect import signature
from typing import Any

import narwhals.stable.v2 as nw
import polars as pl
import polars.selectors as cs
import pytest
from narwhals.group_by import LazyGroupBy
from polars.testing import assert_frame_equal, assert_series_equal

from analytics.matrix import Case, some_cases
from analytics.test_matrix import assert_same_kind
from tidytape.errors import MissingColumnError, QueryError
from tidytape.frames._table import IDENTITY

MATRIX = [pytest.param(namespace, case, id=f"{namespace}.{case}") for namespace, case in some_cases()]
WORDS = (7.25, "word")
ORDINARY = {
    *(
        "_known",
        "_row",
        "a_next",
        "all",
        "alone",
        "at",
        "before",
        "best",
        "by_0",
        "days_next",
        "end",
        "first",
        "gap",
    ),
    *(
        "good",
        "group",
        "index",
        "key",
        "known",
        "last",
        "length",
        "level",
        "life",
        "literal",
        "mixed",
        "name",
        "next",
    ),
    *(
        "number",
        "other_exchange",
        "paid",
        "part",
        "place",
        "rows",
        "rung_0",
        "start",
        "value",
        "variance",
        "x",
        "x_0",
    ),
}
"""Names that a caller may well have, and that have been names of working columns."""


@contextmanager
def recorded(names: set[str]) -> Iterator[None]:
    """Note the name of every column that is made."""

    def noting(function: Callable[..., Any], *, place: int | None = None) -> Callable[..., Any]:
        def noted(*args: Any, **named: Any) -> Any:
            names.update(named if place is None else [name for name in args[place:] if isinstance(name, str)])
            return function(*args, **named)

        return noted

    with pytest.MonkeyPatch.context() as patch:
        for kind in (nw.LazyFrame, nw.DataFrame):
            for method in ("with_columns", "select"):
                patch.setattr(kind, method, noting(getattr(kind, method)))
            patch.setattr(kind, "with_row_index", noting(kind.with_row_index, place=1))
        patch.setattr(LazyGroupBy, "agg", noting(LazyGroupBy.agg))
        patch.setattr(nw.Expr, "alias", noting(nw.Expr.alias, place=1))
        patch.setattr(nw, "new_series", noting(nw.new_series, place=0))
        yield


def answered(namespace: str, case: Case) -> tuple[Any, list[str]]:
    """The case's answer, and the names of working columns that a caller may use for columns of his own."""
    names: set[str] = set()
    with recorded(names):
        answer = case.call(*case.frames)
    function = getattr(import_module(f"tidytape.analytics.{namespace}"), case.function)
    own = {*IDENTITY, *re.findall(r"``(\w+)``", function.__doc__ or "")}
    own.update(*(frame.columns for frame in case.frames), getattr(answer, "columns", ()))
    return answer, sorted(name for name in (names | ORDINARY) - own if not name.startswith("__"))


def same(got: Any, wanted: Any) -> None:
    if isinstance(wanted, pl.DataFrame):
        assert_frame_equal(got.select(wanted.columns), wanted, check_exact=True)
    else:
        assert_same_kind(got, wanted)


@pytest.mark.slow
@pytest.mark.parametrize(("namespace", "case"), MATRIX)
def test_other_columns_change_nothing_and_come_back(namespace: str, case: Case) -> None:
    wanted, names = answered(namespace, case)
    for place, frame in enumerate(case.frames):
        for word in WORDS:
            others = frame.with_columns(pl.lit(word).alias(name) for name in names)
            got = case.call(*case.frames[:place], others, *case.frames[place + 1 :])
            same(got, wanted)
            for name in set(names) & set(getattr(got, "columns", ())):
                # What no row of a second frame meets is null.
                assert got[name].drop_nulls().unique().to_list() == [word], name
                assert place or not got[name].null_count(), name


def has_series(namespace: str, case: Case) -> bool:
    function = getattr(import_module(f"tidytape.analytics.{namespace}"), case.function)
    return not case.own_kind and "by" in signature(function).parameters


# Of two frames the columns that tell series apart hold values that never meet.
@pytest.mark.long
@pytest.mark.filterwarnings("ignore::tidytape.errors.NoMatchWarning")
@pytest.mark.parametrize(("namespace", "case"), [param for param in MATRIX if has_series(*param.values)])
def test_series_may_be_told_apart_by_columns_of_any_name(
    namespace: str, case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, names = answered(namespace, case)
    module = import_module(f"tidytape.analytics.{namespace}")
    function = getattr(module, case.function)

    def asked(by: list[str], copies: list[str]) -> pl.DataFrame:
        def by_copies(*frames: Any, **arguments: Any) -> Any:
            return function(*frames, **{**arguments, "by": [*by, *copies]})

        monkeypatch.setattr(module, case.function, by_copies)
        call = by_copies if case.call is function else case.call
        # A column that the case has not is that of one series.
        given = (
            frame if by[0] in frame.columns else frame.with_columns(pl.lit("one").alias(by[0]))
            for frame in case.frames
        )
        answer: pl.DataFrame = call(
            *(frame.with_columns(pl.col(by[0]).alias(name) for name in copies) for frame in given)
        )
        return answer

    by, wanted = next(told_apart(case, asked))
    for copies in allowed(lambda copies: asked(by, copies), names):
        got = asked(by, copies)
        same(got, wanted)
        for name in copies:
            assert_series_equal(got[name], got[by[0]], check_names=False)


def told_apart(
    case: Case, asked: Callable[[list[str], list[str]], Any]
) -> Iterator[tuple[list[str], pl.DataFrame]]:
    """Columns that may tell the case's series apart, with the answer: those of its key first."""
    first, *others = case.frames
    shared = [name for name in first.columns if all(name in frame.columns for frame in others)]
    words = first.select(shared).select(cs.string() | cs.categorical()).columns
    keys = [name for name in case.key if name in shared and not first[name].dtype.is_temporal()]
    of_words = [name for name in keys if name in words]
    for by in (keys, of_words, *([name] for name in (*of_words, *words, "of"))):
        if by:
            with suppress(QueryError):
                yield by, asked(by, [])


def allowed(asked: Callable[[list[str]], Any], names: list[str]) -> Iterator[list[str]]:
    """The names, without those that are refused."""
    try:
        asked(names)
    except (QueryError, MissingColumnError):
        if len(names) > 1:
            yield from allowed(asked, names[::2])
            yield from allowed(asked, names[1::2])
    else:
        yield names
