"""How the documentation is built: ``python -m sphinx -W -b html docs docs/_build/html``."""

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
nb_execution_in_temp = True  # what a cell writes stays out of docs/

html_theme = "pydata_sphinx_theme"
html_title = f"tidytape {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_theme_options = {"navigation_with_keys": False, "show_prev_next": False}

# The help of the commands of `tidytape ingest`: a comment on a line of its own stands for it in the page's source.


def ingest_commands() -> str:
    """The help of `tidytape ingest` and of its command per layout."""
    runner = CliRunner(env={"COLUMNS": "100"})
    sections = []
    for words in (["ingest"], ["ingest", "auto"], *(["ingest", name] for name in LAYOUTS)):
        output = runner.invoke(commands, [*words, "--help"], prog_name="tidytape").output
        text = "\n".join(line.rstrip() for line in output.strip().splitlines())
        sections.append(f"## tidytape {' '.join(words)}\n\n```text\n{text}\n```\n")
    return "\n".join(sections)


def fill(app: object, page: str, source: list[str]) -> None:
    """Put the help of the layouts' commands into the page of the command line."""
    comment = "<!-- ingest commands -->"
    if comment in source[0]:
        source[0] = source[0].replace(comment, ingest_commands())


def setup(app: Any) -> None:
    """Connect what fills the page."""
    app.connect("source-read", fill)
