"""Plotly, which is an optional dependency."""

from __future__ import annotations

from types import ModuleType


def graph_objects(function: str) -> ModuleType:
    """Return ``plotly.graph_objects``; raise ModuleNotFoundError with the command that installs it."""
    try:
        import plotly.graph_objects
    except ModuleNotFoundError as error:
        message = f"{function} takes plotly: pip install 'tidytape[interactive]'"
        raise ModuleNotFoundError(message, name=error.name) from None
    graph: ModuleType = plotly.graph_objects
    return graph
