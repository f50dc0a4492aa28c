"""The wall: a path says whether it may be imported, and ``__all__`` of a room is what its namespace holds."""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path

import pytest

import tidytape

SOURCE = Path(tidytape.__file__).parent
MODULES = sorted(SOURCE.rglob("*.py"))
ROOMS = [
    *(path for path in MODULES if path.name == "__init__.py"),
    *(path for path in SOURCE.glob("*.py") if not path.name.startswith("_")),
]
PAGES = [
    page
    for page in sorted((SOURCE.parents[1] / "docs").rglob("*.md"))
    if "adr" not in page.parts and page.name not in {"changelog.md", "migration.md", "contributing.md"}
]


def name_of(path: Path) -> str:
    """Return the name that imports a file of the package."""
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def bound(path: Path) -> set[str]:
    """Return the names without an underscore that a room binds: what it defines and what it takes from tidytape."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tidytape"):
            names.update(alias.asname or alias.name for alias in node.names)
    return {name for name in names if not name.startswith("_")}


def test_modules_below_a_room_bear_an_underscore() -> None:
    inner = [path for path in MODULES if path.parent != SOURCE and path.name != "__init__.py"]
    generated = {path for path in inner if path.stem.endswith("_pb2")}
    assert [name_of(path) for path in inner if path not in generated and not path.name.startswith("_")] == []


def test_only_rooms_say_what_is_public() -> None:
    inner = set(MODULES) - set(ROOMS)
    assert [name_of(path) for path in inner if "__all__" in path.read_text("utf-8")] == []


@pytest.mark.parametrize("path", [path for path in ROOMS if path.name == "__init__.py"], ids=name_of)
def test_all_of_a_room_is_what_its_namespace_holds(path: Path) -> None:
    room = importlib.import_module(name_of(path))
    public = getattr(room, "__all__", [])
    assert len(public) == len(set(public))
    assert set(public) - {"__version__"} == bound(path)
    assert all(hasattr(room, name) for name in public)


def test_pages_for_users_name_nothing_behind_the_wall() -> None:
    inner = re.compile(r"tidytape(?:\.\w+)*(?:\._\w+| import _\w+)")
    named = {page.name: inner.findall(page.read_text("utf-8")) for page in PAGES}
    assert {page: paths for page, paths in named.items() if paths} == {}
