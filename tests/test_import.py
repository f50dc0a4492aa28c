"""The public face: cheap to import, and whole."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

import tidytape
from tables import each_row
from tidytape import errors

HEAVY = [
    "deltalake",
    "starlette",
    "httpx",
    "matplotlib",
    "narwhals",
    "numpy",
    "pandas",
    "polars",
    "pyarrow",
    "pydantic",
    "scipy",
]


def loaded_after(code: str) -> set[str]:
    """The top-level modules that a fresh interpreter has loaded after ``code``."""
    program = f"import json, sys\n{code}\nprint(json.dumps([name.partition('.')[0] for name in sys.modules]))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=dict(os.environ)
    )
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_import_loads_nothing_heavy() -> None:
    assert loaded_after("import tidytape").isdisjoint(HEAVY)


def test_errors_and_version_load_nothing_heavy() -> None:
    assert loaded_after(
        "import tidytape; tidytape.QueryError; tidytape.__version__; dir(tidytape)"
    ).isdisjoint(HEAVY)


@pytest.mark.slow
def test_the_client_loads_neither_plots_nor_service_nor_analytics() -> None:
    loaded = loaded_after("import tidytape; tidytape.Client")
    heavy = [
        "asyncio",
        "deltalake",
        "matplotlib",
        "narwhals",
        "pandas",
        "scipy",
        "starlette",
        "tenacity",
        "tqdm",
    ]
    assert loaded.isdisjoint(heavy)


@pytest.mark.slow
@pytest.mark.parametrize("words", [["--help"], ["--version"], ["cache", "--help"], ["demo", "--help"]])
def test_the_help_of_the_command_line_loads_nothing_heavy(words: list[str]) -> None:
    program = f"""
sys.argv = {["tidytape", *words]!r}
from tidytape.cli import main
try:
    main()
except SystemExit:
    print()
"""
    heavy = {*HEAVY, "asyncio", "click", "orjson", "rich", "tenacity", "tqdm"}
    assert loaded_after(program).isdisjoint(heavy - {"pydantic"})  # typer reads values with it


@pytest.mark.slow
def test_a_command_of_a_method_loads_the_client_once_it_is_used() -> None:
    program = """
sys.argv = ["tidytape", "markets", "--help"]
from tidytape.cli import main
try:
    main()
except SystemExit:
    print()
"""
    assert "polars" in loaded_after(program)


@pytest.mark.slow
def test_aggregates_do_without_what_fits_curves() -> None:
    assert "scipy" not in loaded_after("import tidytape; tidytape.aggregate.skew; tidytape.analytics.profile")


@each_row("name", tidytape.__all__)
def test_every_public_name_resolves(name: str) -> None:
    assert getattr(tidytape, name) is not None
    assert name in dir(tidytape)


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Clint'"):
        tidytape.Clint  # noqa: B018


def test_every_error_is_exported() -> None:
    kinds = {name for name in errors.__all__ if isinstance(getattr(errors, name), type)}
    assert kinds <= set(tidytape.__all__)
    assert all(getattr(tidytape, kind) is getattr(errors, kind) for kind in kinds)


def test_version_is_that_of_the_distribution() -> None:
    from importlib.metadata import version

    assert tidytape.__version__ == version("tidytape")


@pytest.mark.slow
def test_the_parts_of_a_lake_are_reached_as_the_guides_write_them() -> None:
    """A fresh interpreter has imported none of them."""
    for name in ("ingest.ingest", "hygiene.check", "rollup.rollup"):
        assert "tidytape" in loaded_after(f"import tidytape; tidytape.lake.{name}")
