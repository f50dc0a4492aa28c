"""How the documentation is built: ``python -m sphinx -W -b html docs docs/_build/html``."""

from tidytape import __version__

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
