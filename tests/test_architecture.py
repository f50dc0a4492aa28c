"""The plan of the house, held: imports go down only, and the pure rooms stay pure."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tables import each_row

SRC = Path(__file__).parent.parent / "src"

# From the ground up. A room may import the rooms of the lines above its own.
LAYERS = (
    ("_version", "_forks", "errors", "_other_clients", "catalogue", "times"),
    ("sessions",),
    ("schema", "query", "budget", "frames"),
    ("wire", "aggregate", "analytics"),
    ("lake",),
    ("archives", "demo"),
    ("client", "service"),
    ("plot", "report"),
    ("cli",),
    ("__main__",),
)
FLOOR = {room: floor for floor, rooms in enumerate(LAYERS) for room in rooms}

# Rooms side by side that may see each other, one way, and why.
NEIGHBOURS = {
    ("catalogue", "errors"): "asking for a data type that is not there is an error",
    ("times", "catalogue"): "intervals are an enumeration of the catalogue",
    ("_forks", "errors"): "a forked process in which nothing works is an error",
    ("_other_clients", "errors"): "a name that is not there is an error",
    ("times", "errors"): "asking for an interval that is not there is an error",
    ("frames", "schema"): "an error names the data type that has a missing column",
    ("budget", "query"): "a weight is the weight of a query",
    ("aggregate", "analytics"): "a market profile is served with its point of control and value area",
    ("report", "plot"): "a report is made of plots",
}

# Imports that would go sideways or up, allowed in this one module and inside a function only, and why.
LAZY = {
    ("client/_local.py", "service"): "the in-process client speaks to the service's own app",
    ("sessions.py", "frames"): "a session labels the rows of a frame",
    ("analytics/profile/_day_levels.py", "aggregate"): "the levels of candles are those of their profile",
}

FACE = "__init__.py"
FACE_LOADS = {"_forks", "errors", "_version"}

# A pure room maps frames to frames: no network, no files, no screen, and no engine but through Narwhals.
PURE = {"frames", "aggregate", "analytics"}
OUTSIDE = {
    "aiohttp", "asyncio", "deltalake", "glob", "grpc", "gzip", "http", "httpx", "io",
    "matplotlib", "os", "pathlib", "pickle", "requests", "shutil", "socket", "sqlite3", "starlette",
    "subprocess", "tempfile", "tqdm", "urllib", "uvicorn",
}  # fmt: skip
ENGINES = {"duckdb", "pandas", "polars", "pyarrow", "pyspark"}
DOOR = "frames/_door.py"  # turns frames of pandas and pyarrow into polars; nothing else in those rooms knows them
IN_MEMORY = {
    DOOR,
    "frames/_sorted.py",
}  # frames in memory are polars: the second sorts them and joins what is sorted
EAGER = {"is_pandas", "is_pandas_dataframe", "is_pyarrow", "is_pyarrow_table"}
TYPING_ONLY = ("TYPE_CHECKING", "typing.TYPE_CHECKING")
FILE_VERBS = ("read_", "scan_", "sink_", "write_")


@dataclass(frozen=True)
class Import:
    """One import as written: the module it names, its line, and whether it waits inside a function."""

    target: str
    line: int
    lazy: bool
    typing_only: bool


def imports(tree: ast.Module, package: str) -> Iterator[Import]:
    """Yield the imports of a module that lies in ``package``, relative ones made absolute."""

    def walk(node: ast.AST, *, lazy: bool, typing_only: bool) -> Iterator[Import]:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(alias.name, node.lineno, lazy, typing_only)
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                yield Import(f"{base(node)}.{alias.name}", node.lineno, lazy, typing_only)
        lazy = lazy or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        guarded = node.body if isinstance(node, ast.If) and ast.unparse(node.test) in TYPING_ONLY else []
        for child in ast.iter_child_nodes(node):
            yield from walk(child, lazy=lazy, typing_only=typing_only or child in guarded)

    def base(node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        parents = package.split(".")
        return ".".join(filter(None, [*parents[: len(parents) - node.level + 1], node.module]))

    yield from walk(tree, lazy=False, typing_only=False)


def room_of(path: str) -> str:
    return path.partition("/")[0].removesuffix(".py")


def faults(source: str, path: str) -> list[str]:
    """What is wrong with the module at ``path``, a path below ``src/tidytape``."""
    tree = ast.parse(source)
    room = room_of(path)
    package = ".".join(["tidytape", *path.split("/")[:-1]])
    found = []
    for item in imports(tree, package):
        where = f"{path}:{item.line}"
        top, *rest = item.target.split(".")
        if top == "tidytape":
            reason = crossing(path, room, rest[0] if rest else "", item)
            if reason:
                found.append(f"{where}: imports {item.target}: {reason}")
        elif room in PURE and top in OUTSIDE:
            found.append(f"{where}: imports {item.target}: {room} touches nothing but frames")
        elif (
            room in PURE and top in ENGINES and not item.typing_only and not (path in IN_MEMORY and item.lazy)
        ):
            found.append(f"{where}: imports {item.target}: {room} is written once, against Narwhals")
    if room in PURE:
        found.extend(f"{path}:{line}: {call}: {room} opens no files" for line, call in file_calls(tree))
        asked = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute) and node.attr in EAGER]
        if path != DOOR:
            found.extend(f"{path}:{node.lineno}: {node.attr}: only the door knows pandas" for node in asked)
    return found


def crossing(path: str, room: str, target: str, item: Import) -> str | None:
    if path == FACE:
        return None if item.typing_only or target in FACE_LOADS else "the face loads nothing heavy"
    if room not in FLOOR:
        return f"the plan has no room {room!r}"
    if target not in FLOOR:
        return "a room imports from rooms, never from the face"
    if target == room or FLOOR[target] < FLOOR[room] or (room, target) in NEIGHBOURS:
        return None
    if (path, target) in LAZY:
        return None if item.lazy else "allowed inside a function only"
    if FLOOR[target] == FLOOR[room]:
        return f"{room} and {target} are siblings"
    return f"{target} is above {room}"


def file_calls(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            if name == "open" or name.rpartition(".")[2].startswith(FILE_VERBS):
                yield node.lineno, name


# Nanoseconds stand in times.py. Elsewhere these numbers are something else than a length of time, and why.
NANOSECONDS = {"1000000000", "10 ** 9", "60000000000", "3600000000000", "86400000000000"}
OTHER_BILLIONS = {
    "analytics/_arguments.py": "the largest whole number that an argument may be",
    "client/_local.py": "a budget that nobody uses up",
    "client/_window.py": "the most intervals that a limit may name",
}


def billions(source: str) -> list[str]:
    """Return the numbers of a module that are a unit of time in nanoseconds."""
    nodes = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Constant | ast.BinOp))
    return [text for text in map(ast.unparse, nodes) if text in NANOSECONDS]


MODULES = sorted(path.relative_to(SRC / "tidytape").as_posix() for path in (SRC / "tidytape").rglob("*.py"))


@pytest.mark.slow
@pytest.mark.parametrize("path", MODULES)
def test_module_keeps_to_the_plan(path: str) -> None:
    assert faults((SRC / "tidytape" / path).read_text(encoding="utf-8"), path) == []


@pytest.mark.slow
def test_units_of_time_stand_once() -> None:
    modules = {path for path in MODULES if billions((SRC / "tidytape" / path).read_text(encoding="utf-8"))}
    assert modules == {*OTHER_BILLIONS}


def test_every_room_is_in_the_plan() -> None:
    rooms = {room_of(path) for path in MODULES} - {"__init__"}
    assert rooms <= set(FLOOR)


@each_row(
    ("path", "source"),
    [
        ("query.py", "from tidytape.catalogue import DATA_TYPES"),
        ("budget.py", "from tidytape.query import PointsQuery"),
        ("wire/_decode.py", "from tidytape import schema"),
        ("wire/_decode.py", "from tidytape.wire import arrow"),
        ("wire/_decode.py", "from . import arrow"),
        ("analytics/funding.py", "import narwhals.stable.v2 as nw"),
        (
            "frames/_door.py",
            "def f(frame):\n    import pandas\n    return nw.dependencies.is_pandas_dataframe(frame)",
        ),
        ("client/_local.py", "def transport():\n    from tidytape.service import app"),
        ("lake/_tables.py", "import deltalake\nopen('x')"),
        ("__init__.py", "if TYPE_CHECKING:\n    from tidytape.client import Client"),
        ("__init__.py", "from tidytape.errors import TidytapeError"),
    ],
)
def test_good_imports_pass(path: str, source: str) -> None:
    assert faults(source, path) == []


@each_row(
    ("path", "source", "why"),
    [
        ("schema.py", "import tidytape.wire", "wire is above schema"),
        ("schema.py", "def f():\n    from tidytape.wire import decode", "wire is above schema"),
        ("query.py", "from tidytape.budget import weight", "query and budget are siblings"),
        ("wire/_decode.py", "from ..analytics import profile", "wire and analytics are siblings"),
        ("wire/_decode.py", "from tidytape import Client", "never from the face"),
        ("wire/_decode.py", "import tidytape", "never from the face"),
        (
            "client/_sync.py",
            "def f():\n    from tidytape.service import app",
            "client and service are siblings",
        ),
        ("client/_local.py", "from tidytape.service import app", "inside a function only"),
        ("common/tools.py", "from tidytape import errors", "no room 'common'"),
        ("__init__.py", "from tidytape.client import Client", "loads nothing heavy"),
        ("__init__.py", "if not TYPE_CHECKING:\n    from tidytape import query", "loads nothing heavy"),
        ("aggregate/_trades.py", "import httpx", "touches nothing but frames"),
        (
            "aggregate/_trades.py",
            "def f():\n    from urllib.request import urlopen",
            "touches nothing but frames",
        ),
        ("analytics/funding.py", "import polars as pl", "against Narwhals"),
        ("frames/_door.py", "import pandas", "against Narwhals"),
        ("frames/_table.py", "def f():\n    import pandas", "against Narwhals"),
        ("frames/_table.py", "if frame.implementation.is_pandas():\n    pass", "only the door knows pandas"),
        ("analytics/funding.py", "def f(path):\n    return open(path)", "opens no files"),
        ("analytics/funding.py", "nw.scan_parquet('x', backend='polars')", "opens no files"),
    ],
)
def test_bad_imports_are_found(path: str, source: str, why: str) -> None:
    (fault,) = faults(source, path)
    assert why in fault
