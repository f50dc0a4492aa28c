"""How the documentation is built: ``python -m sphinx -W -b html docs docs/_build/html``."""

from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
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
html_theme_options = {
    "navigation_with_keys": False,
    "show_prev_next": False,
    "header_links_before_dropdown": 6,
    "secondary_sidebar_items": {"**": ["page-toc", "sourcelink"], "index": []},
}
html_sidebars = {
    page: [] for page in ("index", "quickstart", "contributing", "changelog", "migration", "concepts/*")
}
html_math_renderer = "mathml"

# Formulas are MathML, made when the pages are built: a reader's browser loads no script for them.


def mathml(latex: str, display: str) -> str:
    """The formula as MathML; one of several lines is aligned at its ``&``."""
    known = latex.replace(r"\arg", r"\operatorname{arg}").strip()
    lines = rf"\begin{{aligned}}{known}\end{{aligned}}" if r"\\" in known or "&" in known else known
    markup = convert(lines, display=display)
    if "<mi>\\" in markup:
        raise ValueError(f"a formula has a command that latex2mathml does not know: {latex}")
    return markup


def inline_formula(page: Any, node: nodes.math) -> None:
    """Write a formula within a sentence."""
    page.body.append(mathml(node.astext(), "inline"))
    raise nodes.SkipNode


def block_formula(page: Any, node: nodes.math_block) -> None:
    """Write a formula on a line of its own."""
    page.body.append(f'<div class="formula">{mathml(node.astext(), "block")}</div>')
    raise nodes.SkipNode


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
    """Connect what fills the page and what writes formulas."""
    app.connect("source-read", fill)
    app.add_html_math_renderer("mathml", (inline_formula, None), (block_formula, None))
