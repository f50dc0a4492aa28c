"""Notebooks are stored with small outputs, to be read on the web; `.ci/run` executes every one of them anew."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

NOTEBOOKS = sorted((Path(__file__).parent.parent / "notebooks").glob("*.ipynb"))
LARGEST = 1_000_000
"""The most that a notebook may take. [bytes]"""
LARGEST_PICTURE = 120_000
"""The most that a picture may take, as it is stored. [bytes]"""
MOST_CELLS, MOST_LINES = 12, 20

_PLACE = re.compile(r"/(?:tmp|home|root|work|Users|private|var)/|[A-Z]:\\\\|ipykernel_|tidytape-demo-")
_KEY = re.compile(r"(?i)(?:api[_-]?key|secret|token)['\"]?\s*[:=]\s*['\"][\w-]{16,}|\b[\w-]{43}\b")
_ADDRESS = re.compile(r" at 0x[0-9a-f]+>|127\.0\.0\.1:\d+")

pytestmark = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def cells(path: Path, kind: str = "code") -> list[dict[str, Any]]:
    return [cell for cell in json.loads(path.read_text("utf-8"))["cells"] if cell["cell_type"] == kind]


def outputs(path: Path) -> list[dict[str, Any]]:
    return [output for cell in cells(path) for output in cell["outputs"]]


def texts(path: Path) -> str:
    """Return all that a notebook printed or showed, but for pictures."""
    parts = [output.get("text", []) for output in outputs(path)]
    parts += [
        text
        for output in outputs(path)
        for kind, text in output.get("data", {}).items()
        if "image" not in kind
    ]
    return "\n".join("".join(part) for part in parts)


def pictures(path: Path) -> list[str]:
    return [
        "".join(output["data"]["image/png"])
        for output in outputs(path)
        if "image/png" in output.get("data", {})
    ]


def test_a_question_stands_at_the_top(path: Path) -> None:
    title, question, *_ = "".join(cells(path, "markdown")[0]["source"]).split("\n\n")
    assert title.startswith("# ")
    assert re.fullmatch(r"\*\*Question: .*\?\*\*", question, re.DOTALL)


def test_it_says_that_the_market_is_simulated(path: Path) -> None:
    assert "simulated" in "".join(cells(path, "markdown")[0]["source"])


def test_every_cell_was_executed_in_order(path: Path) -> None:
    assert [cell["execution_count"] for cell in cells(path)] == list(range(1, len(cells(path)) + 1))


def test_outputs_are_stored_without_errors_and_warnings(path: Path) -> None:
    assert outputs(path)
    assert {output["output_type"] for output in outputs(path)} <= {"stream", "display_data", "execute_result"}
    assert {output.get("name", "stdout") for output in outputs(path)} == {"stdout"}


def test_there_is_a_picture(path: Path) -> None:
    assert pictures(path)


def test_what_is_stored_is_small(path: Path) -> None:
    assert path.stat().st_size <= LARGEST
    assert max(len(picture) * 3 // 4 for picture in pictures(path)) <= LARGEST_PICTURE


def test_cells_are_few_and_short(path: Path) -> None:
    assert len(cells(path)) <= MOST_CELLS
    assert max(len(cell["source"]) for cell in cells(path)) <= MOST_LINES


def test_nothing_of_the_machine_is_stored(path: Path) -> None:
    """Neither a path, nor a key, nor an address that is another one next time."""
    assert not [pattern.pattern for pattern in (_PLACE, _KEY, _ADDRESS) if pattern.search(texts(path))]


def test_metadata_is_in_normal_form(path: Path) -> None:
    """As tests/notebooks.py stores it, so that executing a notebook changes what it printed and nothing else."""
    notebook = json.loads(path.read_text("utf-8"))
    assert notebook["metadata"]["kernelspec"]["name"] == "python3"
    assert [cell["id"] for cell in notebook["cells"]] == [
        f"cell-{number}" for number in range(len(notebook["cells"]))
    ]
    assert not any(cell["metadata"] for cell in notebook["cells"])


def test_links_lead_to_notebooks_that_are_there(path: Path) -> None:
    text = "".join("".join(cell["source"]) for cell in cells(path, "markdown"))
    assert not [
        link for link in re.findall(r"\]\(([\w.]+\.ipynb)\)", text) if not (path.parent / link).exists()
    ]


def test_the_list_of_notebooks_names_it(path: Path) -> None:
    title = "".join(cells(path, "markdown")[0]["source"]).splitlines()[0].removeprefix("# ")
    assert f"[{title}]({path.name})" in (path.parent / "README.md").read_text("utf-8")
