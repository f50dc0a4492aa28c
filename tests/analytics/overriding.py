"""A case of the matrix, called with other arguments than its own."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from inspect import signature
from typing import Any

import polars as pl
import pytest

from analytics.matrix import Case, cases

__all__ = ["FIRST", "answer", "function", "parameters"]

FIRST: dict[str, tuple[str, Case]] = {}
"""The first case of every function, by its full name."""
for _namespace, _case in cases():
    FIRST.setdefault(f"{_namespace}.{_case.function}", (_namespace, _case))


def function(name: str) -> Any:
    """A function by its full name."""
    namespace, case = FIRST[name]
    return getattr(import_module(f"tidytape.analytics.{namespace}"), case.function)


def parameters(name: str) -> list[str]:
    """The arguments of a function that are no frames."""
    found = signature(function(name)).parameters.values()
    return [one.name for one in found if one.kind is not one.POSITIONAL_ONLY]


def answer(name: str, frames: Iterable[Any] | None = None, **options: Any) -> Any:
    """What a function says of its first case's frames, or of others, with some arguments other than the case's."""
    namespace, case = FIRST[name]
    own = function(name)
    asked = []

    def overridden(*args: Any, **kwargs: Any) -> Any:
        asked.append(options)
        bound = signature(own).bind_partial(*args, **kwargs)
        bound.arguments.update(options)
        return own(*bound.args, **bound.kwargs)

    call = overridden if case.call is own else case.call
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(import_module(f"tidytape.analytics.{namespace}"), case.function, overridden)
        found = call(*(case.frames if frames is None else frames))
    assert asked, "the case does not call its function by its name"
    return found.collect() if isinstance(found, pl.LazyFrame) else found
