"""The calls of every public function of analytics, aggregate and plot, and the cells of the law on forms."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from inspect import signature
from typing import Any

import polars as pl

from aggregate import cases as aggregate_cases
from analytics import overriding
from analytics.form_answers import as_polars, difference, normal
from analytics.forms import ENGINES, FORMS, IN_MEMORY, RENAMED, Form, cleaned, has_amounts, kind_of
from analytics.matrix import Case
from analytics.matrix import cases as analytics_cases

__all__ = ["ROOMS", "Cell", "Subject", "answer_of", "cells_of", "functions", "subjects"]

ROOMS = ("analytics", "aggregate", "plot")
_UNREAD = {
    "pit.asof_join": {"number"},  # joined as they are
    "quality.audit": {"trade side", "book side"},  # a side that is none is a finding
    "quality.examples": {"trade side", "book side"},
}
"""Kinds of columns that a function gives back, or reports, as they are."""
_OTHER_LENGTHS = {
    "aggregate.gapfill": {"twice as long", "thrice as long", "a sixth as long"},  # the call says the length
    "funding.accrued": {"a sixth as long"},  # no row of ten minutes ends at a settlement
    "funding.predicted_error": {"a sixth as long"},
    "profile.levels": {
        "twice as long",
        "thrice as long",
        "a sixth as long",
    },  # a session has hours of its own
}
"""Forms that contradict the arguments of a call."""
_LABELS = {("cross.total", "price")}
"""Columns that the argument ``by`` of a call names: whatever they hold, they are labels."""


@dataclass(frozen=True)
class Subject:
    """A function, a call of it on clean frames, and where its frames come from.

    Attributes
    ----------
    function : str
        Room and name, such as ``flow.delta``.
    case : Case
        The call.
    """

    function: str
    case: Case
    frames: tuple[pl.DataFrame, ...]

    @property
    def label(self) -> str:
        return f"{self.function} {self.case.label}".strip()


def subject_of(function: str, case: Case) -> Subject:
    return Subject(function, case, tuple(cleaned(frame) for frame in case.frames))


def _renamed(function: str, case: Case) -> Iterator[Subject]:
    """The first case with each column that an argument names under another name."""
    for parameter in signature(overriding.function(function)).parameters.values():
        name = parameter.default
        if parameter.name == "by" or not isinstance(name, str):
            continue
        frames = [frame.rename({name: RENAMED + name}, strict=False) for frame in case.frames]
        if all(name not in frame.columns for frame in case.frames):
            continue

        def call(*fed: Any, parameter: str = parameter.name, name: str = name) -> Any:
            return overriding.answer(function, fed, **{parameter: RENAMED + name})

        key = [RENAMED + column if column == name else column for column in case.key]
        renamed = replace(case, call=call, frames=frames, key=key, label=f"{parameter.name}={RENAMED}{name}")
        yield subject_of(function, renamed)


@cache
def subjects(room: str) -> tuple[Subject, ...]:
    """Return the calls of a room: ``analytics``, ``aggregate`` or ``plot``."""
    if room == "aggregate":
        return tuple(subject_of(f"aggregate.{case.function}", case) for case in aggregate_cases.CASES)
    if room == "plot":
        plot_cases: Any = import_module("plot.cases")  # whose market takes seconds to make
        return tuple(subject_of(f"plot.{case.function}", case) for case in plot_cases.cases())
    calls: list[Subject] = []
    for namespace, case in analytics_cases():
        calls.append(subject_of(f"{namespace}.{case.function}", case))
    first = {subject.function: subject for subject in reversed(calls)}
    calls += [renamed for name, subject in first.items() for renamed in _renamed(name, subject.case)]
    return tuple(calls)


@dataclass(frozen=True)
class Cell:
    """One form of one column of one call, and the engines on which it is asked."""

    subject: Subject
    place: int
    column: str
    form: Form
    engines: tuple[str, ...] = ENGINES

    def __str__(self) -> str:
        number = str(self.place + 1) if len(self.subject.frames) > 1 else ""
        label = self.subject.case.label.replace(" ", "_")
        name = f"{self.subject.function}[{label}]" if label else self.subject.function
        return f"{name}({number}{':' if number else ''}{self.column})"


def answer_of(subject: Subject, frames: Iterable[Any]) -> pl.DataFrame | BaseException:
    """Return what a call answers, as a polars frame, or what it raises."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return as_polars(subject.case.call(*frames))
        except BaseException as error:  # a panic of Rust is no Exception
            if isinstance(error, Exception) or type(error).__name__ == "PanicException":
                return error
            raise


def _reads(subject: Subject, place: int, name: str) -> bool:
    """Return whether a call reads a column: without it, or with another amount unit in each second row, it differs."""
    frames = list(subject.frames)
    usual = answer_of(subject, frames)
    if not isinstance(usual, pl.DataFrame):
        return False
    if name == "amount_unit":
        unit = pl.when(pl.int_range(pl.len()) % 2 == 0).then(pl.lit("COIN")).otherwise(pl.lit("USD"))
        changed = frames[place].with_columns(amount_unit=unit)
    else:
        changed = frames[place].drop(name)
    frames[place] = changed
    other = answer_of(subject, frames)
    if not isinstance(other, pl.DataFrame):
        return True
    usual, other = (normal(frame.drop(name, strict=False), {}) for frame in (usual, other))
    key = [column for column in subject.case.key if column != name]
    return not usual.equals(other) and difference(usual, other, key) != ""


def with_unit(subject: Subject) -> Subject:
    """Return the call with an amount unit in each frame that has amounts, if it answers then."""
    frames = tuple(
        frame.with_columns(amount_unit=pl.lit("COIN"))
        if "amount_unit" not in frame.columns and has_amounts(frame)
        else frame
        for frame in subject.frames
    )
    has_answer = isinstance(answer_of(subject, frames), pl.DataFrame)
    return replace(subject, frames=frames) if has_answer else subject


@cache
def cells_of(room: str, function: str) -> tuple[Cell, ...]:
    """Return the cells of a function: each form of each column that it reads, once for each shape of its frames."""
    cells: list[Cell] = []
    met: set[tuple[frozenset[str], int, str]] = set()
    for call in subjects(room):
        if call.function != function:
            continue
        subject = with_unit(call)
        shape = frozenset(name for frame in subject.frames for name in frame.columns)
        for place, frame in enumerate(subject.frames):
            for name in frame.columns:
                kind = kind_of(frame, name)
                is_new = (shape, place, name) not in met and (
                    RENAMED not in subject.case.label or name.startswith(RENAMED)
                )
                if kind is None or kind in _UNREAD.get(function, ()) or (function, name) in _LABELS:
                    continue
                if not is_new or not _reads(subject, place, name):
                    continue
                met.add((shape, place, name))
                forms = [form for form in FORMS[kind] if form.name not in _OTHER_LENGTHS.get(function, ())]
                engines = _engines(place, name, kind, cells)
                cells += [Cell(subject, place, name, form, engines) for form in forms]
    return tuple(cells)


def _engines(place: int, name: str, kind: str, cells: Sequence[Cell]) -> tuple[str, ...]:
    """Return the engines for a column. Polars meets all; pandas what is no other call's, lazy frames one of a kind."""
    others = [cell for cell in cells if cell.place == place]
    if not any(cell.form.kind == kind for cell in others):
        return ENGINES
    return IN_MEMORY if not any(cell.column == name for cell in others) else IN_MEMORY[:1]


def functions(room: str) -> list[str]:
    """Return the functions of a room, each once."""
    return list(dict.fromkeys(subject.function for subject in subjects(room)))
