"""The law on forms: whether the answer to a column in another form is right, and which cells are known to fail."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import narwhals.exceptions
import numpy as np
import polars as pl

from analytics.form_answers import CANONICAL, brought, difference, normal, other_number, stretched
from analytics.form_cells import Cell, answer_of, cells_of
from analytics.forms import IN_MEMORY
from tidytape.errors import QueryError, TidytapeError

__all__ = ["FAILING", "Judge", "failing", "known_failures", "line_of", "write"]

FAILING = Path(__file__).with_name("forms_failing.txt")
ERRORS = (TidytapeError, pl.exceptions.PolarsError, duckdb.Error, narwhals.exceptions.NarwhalsError)

_KEEPS_TYPES = {"aggregate.gapfill", "aggregate.to_usd", "aggregate.book_at"}
"""Of aggregate, those that return rows of the caller, as they are."""
_COUNTS = ("coverage", "universe_known")
"""How much of a sum is known, which counts what is null."""
_MARKET = ("exchange", "raw_symbol", "coin")
_TOTALS = ("volume", "quote_volume", "liquidations")


@dataclass
class Judge:
    """The cells of an engine, judged; the answers of clean frames are computed once."""

    engine: str
    right: dict[Any, pl.DataFrame | None] = field(default_factory=dict)

    def reason(self, cell: Cell) -> str | None:
        """Return why a cell fails; an empty text if it does not, None if there is no such cell on the engine."""
        clean = cell.subject.frames[cell.place][cell.column]
        column, fed = cell.form.clean(clean), cell.form.fed(clean)
        if column is None or fed is None or (cell.form.pandas and self.engine != "pandas"):
            return None
        right = self._right(cell, column)
        if right is None or not len(right):
            return None
        frames = stretched(cell.subject.frames, cell.form.pace)
        if cell.form.pace != 1:
            frames = [
                frame.with_columns(cell.form.fed(frame["interval"])) if "interval" in frame.columns else frame
                for frame in frames
            ]
        frames[cell.place] = frames[cell.place].with_columns(fed.alias(cell.column))
        dtypes = [
            {cell.column: cell.form.pandas} if n == cell.place and cell.form.pandas else {}
            for n in range(len(frames))
        ]
        native = [brought(frame, self.engine, dtype) for frame, dtype in zip(frames, dtypes, strict=True)]
        got = answer_of(cell.subject, native)
        if not isinstance(got, pl.DataFrame):
            return self._of_error(cell, got)
        reason = self._of_answer(cell, got, right, frames[cell.place][cell.column])
        if not reason or self.engine in IN_MEMORY or cell.form.verdict != "refused":
            return reason
        # A lazy frame cannot be looked at: there, what has no reading is null.
        readable = column.clear(len(column))
        if fed.dtype == column.dtype:
            readable = column.zip_with((fed == column).fill_null(value=False), readable)
        without = self._right(cell, readable)
        if without is None:
            return reason
        return reason if self._of_answer(cell, got, without, frames[cell.place][cell.column]) else ""

    def _right(self, cell: Cell, column: pl.Series) -> pl.DataFrame | None:
        key = (cell.subject.label, cell.place, cell.column, *(column.hash().to_list()), column.dtype)
        if key not in self.right:
            frames = list(cell.subject.frames)
            frames[cell.place] = frames[cell.place].with_columns(column.alias(cell.column))
            answered = answer_of(cell.subject, [brought(frame, self.engine) for frame in frames])
            self.right[key] = answered if isinstance(answered, pl.DataFrame) else None
        return self.right[key]

    def _of_error(self, cell: Cell, error: BaseException) -> str:
        said = " ".join(str(error).split())
        brief = f"{type(error).__name__}: {said[:160]}"
        if self.engine not in IN_MEMORY and (
            cell.form.verdict != "accepted" or not isinstance(error, ERRORS)
        ):
            return "" if isinstance(error, ERRORS) else f"ends in a {brief}"
        if not isinstance(error, QueryError):
            return f"ends in a {brief}"
        if cell.form.verdict == "total kept" and cell.subject.function.startswith("plot."):
            return ""  # no picture has a place for a side that nobody knows
        if cell.form.verdict in ("equal", "accepted", "total kept", "others kept"):
            return f"is refused: {brief}"
        if cell.column not in said and error.parameter != cell.column:
            return f"is refused, without the name of the column: {brief}"
        if cell.form.words and not any(word in said for word in cell.form.words):
            return f"is refused, without a word of {'/'.join(cell.form.words)}: {brief}"
        return ""

    def _of_answer(self, cell: Cell, got: pl.DataFrame, right: pl.DataFrame, fed: pl.Series) -> str:
        verdict, key = cell.form.verdict, cell.subject.case.key
        if verdict == "equal" and (reason := self._other_type(cell, got, right)):
            return reason
        canon = {cell.column: CANONICAL[cell.form.kind]} if cell.form.kind in CANONICAL else {}
        got, right = normal(got, canon), normal(right, canon)
        fed = normal(fed.to_frame(), canon)[cell.column]
        if verdict == "total kept":
            return self._other_total(got, right)
        if verdict == "others kept":
            return self._other_markets(cell, got, right)
        if verdict == "accepted":
            names = [name for name in right.columns if name in got.columns and right[name].drop_nulls().len()]
            if not len(got):
                return "is not understood: no rows"
            empty = [name for name in names if not got[name].drop_nulls().len()]
            return f"is not understood: {empty} are null" if empty else ""
        if verdict == "equal" and self.engine in IN_MEMORY:
            return difference(got, right, key)
        if verdict == "refused" and self.engine in IN_MEMORY:
            return f"is taken: {difference(got, right, key) or 'for the right one'}"
        if verdict == "unknown unit":
            if not difference(got, right.drop(cell.column, strict=False), key):
                return "is one unit"
            names = [name for name in right.columns if name in got.columns and name != cell.column]
            more = [name for name in names if got[name].null_count() > right[name].null_count()]
            if not more and len(got):
                return "is one unit: no number is null"
        if not difference(got, right, key):
            return ""
        return other_number(got, right, key, fed)

    def _other_type(self, cell: Cell, got: pl.DataFrame, right: pl.DataFrame) -> str:
        """Numbers that a function computes are float64, whatever it was fed."""
        keeps = not cell.subject.function.startswith("aggregate.") or cell.subject.function in _KEEPS_TYPES
        for name, dtype in right.schema.items():
            kept = keeps and name == cell.column
            actual = got.schema.get(name, dtype)
            if dtype == pl.Float64 and not kept and (actual == pl.Float32 or isinstance(actual, pl.Decimal)):
                return f"{name} is {actual}"
        return ""

    @staticmethod
    def _other_markets(cell: Cell, got: pl.DataFrame, right: pl.DataFrame) -> str:
        clean = cell.subject.frames[cell.place]
        fed = cell.form.fed(clean[cell.column])
        assert fed is not None
        got, right = (frame.drop(_COUNTS, strict=False) for frame in (got, right))
        names = [name for name in _MARKET if name in clean.columns and name in got.columns]
        market = clean.filter(fed.is_null() & clean[cell.column].is_not_null()).select(names)
        if not names:
            return ""
        got, right = (frame.join(market, on=names, how="anti", nulls_equal=True) for frame in (got, right))
        key = cell.subject.case.key
        return difference(got, right, key) and other_number(got, right, key, fed.alias(""))

    @staticmethod
    def _other_total(got: pl.DataFrame, right: pl.DataFrame) -> str:
        for name in _TOTALS:
            if name not in got.columns or name not in right.columns or got[name].null_count():
                continue
            if not np.isclose(got[name].sum(), right[name].sum()):
                return f"the sum of {name} is {got[name].sum()}, not {right[name].sum()}"
        return ""


def failing(room: str, function: str, engine: str) -> tuple[Counter[tuple[str, str]], dict[str, str]]:
    """Return the cells of a function on an engine, counted by kind and form, and why those fail that do."""
    judge, counts, reasons = Judge(engine), Counter[tuple[str, str]](), {}
    for cell in cells_of(room, function):
        if engine not in cell.engines:
            continue
        reason = judge.reason(cell)
        if reason is not None:
            counts[cell.form.kind, cell.form.name] += 1
            if reason:
                reasons[line_of(cell, engine)] = reason
    return counts, reasons


def line_of(cell: Cell, engine: str) -> str:
    return f"{cell.form.kind} | {cell.form.name} | {engine} | {cell}"


@cache
def known_failures() -> frozenset[str]:
    """Return the cells that are known to fail."""
    if not FAILING.exists():
        return frozenset()
    lines = set()
    for line in FAILING.read_text(encoding="utf-8").splitlines():
        kind, form, engine, cells = line.split(" | ")
        lines |= {f"{kind} | {form} | {engine} | {cell}" for cell in cells.split()}
    return frozenset(lines)


def write(lines: Collection[str], functions: Collection[str], engines: Collection[str]) -> None:
    """Write the cells of these functions and engines that fail, beside the known ones of others."""
    groups: dict[str, list[str]] = defaultdict(list)
    for line in known_failures().union(lines):
        start, _, cell = line.rpartition(" | ")
        is_judged = re.split(r"[\[(]", cell)[0] in functions and start.rpartition(" | ")[2] in engines
        if line in lines or not is_judged:
            groups[start].append(cell)
    text = "".join(f"{start} | {' '.join(sorted(groups[start]))}\n" for start in sorted(groups))
    FAILING.write_text(text, encoding="utf-8")
