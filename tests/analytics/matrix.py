"""The matrix of functions and engines: what is asked of which, and the page of the documentation that says so.

A namespace's cases lie in ``cases/<namespace>.py`` as ``CASES``, and functions that take no frame in ``WITHOUT_FRAME``.
``python tests/analytics/matrix.py`` rewrites the page.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import polars as pl

__all__ = ["PAGE", "Case", "cases", "namespaces", "page", "some_cases"]

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "engines.md"


@dataclass(frozen=True)
class Case:
    """One call, to be made on every engine.

    Attributes
    ----------
    function : str
        Name of the function in its namespace.
    call : callable
        From frames of an engine to a frame of it.
    frames : sequence of polars.DataFrame
        What it is given.
    key : sequence of str
        Columns that tell the rows of the result apart, in the order they are sorted by.
    gaps : mapping of str to str
        Engines that cannot do it, each with the reason; the call must then raise `QueryError`.
    sorts : bool
        Whether the rows of the result are sorted by the key; otherwise they stand where they stood.
    label : str
        What tells it from other cases of the function.
    own_kind : bool
        Whether it answers alike on every engine, with arrays or another library's frame, and not in kind.
    """

    function: str
    call: Callable[..., Any]
    frames: Sequence[pl.DataFrame]
    key: Sequence[str]
    gaps: Mapping[str, str] = field(default_factory=dict)
    sorts: bool = True
    label: str = ""
    own_kind: bool = False

    def __str__(self) -> str:
        return f"{self.function} {self.label}".strip()


def namespaces() -> list[str]:
    from tidytape import analytics

    return list(analytics.__all__)


def cases() -> list[tuple[str, Case]]:
    """Return the cases of every namespace, in order."""
    return [(name, case) for name in namespaces() for case in import_module(f"analytics.cases.{name}").CASES]


def some_cases() -> list[tuple[str, Case]]:
    """Return one case of each function, for laws that ask much of each; all when asked to be thorough."""
    from thorough import often  # found only after the last lines of this module when it is a script

    first = {(namespace, case.function): (namespace, case) for namespace, case in reversed(cases())}
    return often(list(first.values())[::-1], thoroughly=cases())


def page() -> str:
    """Return the page: the functions that an engine cannot compute, and why; every other function runs on all."""
    engines = ["polars", "polars lazy", "pandas", "pyarrow", "duckdb", "spark"]
    titles = ["polars", "lazy", "pandas", "pyarrow", "DuckDB", "Spark"]
    gaps: dict[str, dict[str, str]] = {}
    for namespace, case in cases():
        if case.gaps:
            gaps.setdefault(f"{namespace}.{case.function}", {}).update(case.gaps)
    reasons = list(dict.fromkeys(reason for found in gaps.values() for reason in found.values()))
    lines = [
        "# Functions and engines",
        "",
        "Every function of the analytics takes a frame of polars (eager or lazy), pandas, pyarrow, DuckDB or Spark,",
        "and returns one of the same kind, or arrays. A test computes each function on each engine, and compares",
        "it with the answer of polars, to twelve digits. These are the exceptions; a number names the reason below.",
        "",
        "| function | " + " | ".join(titles) + " |",
        "| --- |" + " --- |" * len(titles),
    ]
    for function, found in gaps.items():
        cells = [str(reasons.index(found[engine]) + 1) if engine in found else "✓" for engine in engines]
        lines.append(f"| `{function}` | " + " | ".join(cells) + " |")
    lines += ["", *(f"{number}. {reason}" for number, reason in enumerate(reasons, 1))]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))
    PAGE.write_text(page(), encoding="utf-8")
