"""How the documentation is built: ``python -m sphinx -W -b html docs docs/_build/html``."""

from collections.abc import Callable
from typing import Any

from typer.testing import CliRunner

from tidytape import __version__
from tidytape.cli import app as commands
from tidytape.lake.ingest import LAYOUTS

project = "tidytape"
author = "tidytape contributors"
copyright = author
version = release = __version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "numpydoc",
    "myst_nb",
]
exclude_patterns = ["_build", "_templates"]
templates_path = ["_templates"]
default_role = "literal"

# Reference: one generated page per module, holding what the module's `__all__` names.
autosummary_generate = True
autosummary_ignore_module_all = False
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # numpydoc sections say them, with units
numpydoc_show_class_members = False
numpydoc_attributes_as_param_list = True

# Pages: Markdown; code cells are run at build time, and a cell that fails fails the build.
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
nb_execution_mode = "cache"
nb_execution_raise_on_error = True
nb_execution_timeout = 120

html_theme = "pydata_sphinx_theme"
html_title = f"tidytape {release}"
html_theme_options = {"navigation_with_keys": False, "show_prev_next": False}

# What derives from the layouts of `tidytape ingest`: a comment on a line of its own stands for it in the page's source.


def ingest_layouts() -> str:
    """A table of the layouts and what files they are for."""
    rows = [f"| `{name}` | {help_line(layout)} |" for name, layout in LAYOUTS.items()]
    return "\n".join(["| layout | files |", "| --- | --- |", *rows])


def ingest_amounts() -> str:
    """A table of what decides the unit of the amounts; layouts that say the same of the same tables share a row."""
    layouts: dict[tuple[str, str], list[str]] = {}
    for name, layout in LAYOUTS.items():
        tables: dict[str, list[str]] = {}
        for table, decides in layout.amounts.items():
            tables.setdefault(decides, []).append(f"`{table}`")
        for decides, names in tables.items():
            layouts.setdefault((", ".join(names), decides), []).append(f"`{name}`")
    rows = [f"| {', '.join(names)} | {tables} | {decides} |" for (tables, decides), names in layouts.items()]
    return "\n".join(["| layout | tables | what decides |", "| --- | --- | --- |", *rows])


def ingest_commands() -> str:
    """The help of `tidytape ingest` and of its command per layout."""
    runner = CliRunner(env={"COLUMNS": "100"})
    sections = []
    for words in (["ingest"], ["ingest", "auto"], *(["ingest", name] for name in LAYOUTS)):
        output = runner.invoke(commands, [*words, "--help"], prog_name="tidytape").output
        text = "\n".join(line.rstrip() for line in output.strip().splitlines())
        sections.append(f"## tidytape {' '.join(words)}\n\n```text\n{text}\n```\n")
    return "\n".join(sections)


def help_line(layout: type[Any]) -> str:
    """The first line of what a layout says of itself."""
    return (layout.__doc__ or "").partition("\n")[0]


DERIVED: dict[str, Callable[[], str]] = {
    "<!-- ingest layouts -->": ingest_layouts,
    "<!-- ingest amounts -->": ingest_amounts,
    "<!-- ingest commands -->": ingest_commands,
}


def fill(app: object, page: str, source: list[str]) -> None:
    """Put what derives from the layouts into a page."""
    for comment, derive in DERIVED.items():
        if comment in source[0]:
            source[0] = source[0].replace(comment, derive())


def setup(app: Any) -> None:
    """Connect what fills the pages."""
    app.connect("source-read", fill)
