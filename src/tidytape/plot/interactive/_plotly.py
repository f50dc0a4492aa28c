"""Plotly, which is no dependency."""

from __future__ import annotations

from types import ModuleType


def graph_objects(wanted_by: str) -> ModuleType:
    """Return ``plotly.graph_objects``; raise ModuleNotFoundError that names the extra where it is not installed."""
    try:
        import plotly.graph_objects
    except ModuleNotFoundError as error:
        message = f"{wanted_by} takes plotly: pip install 'tidytape[interactive]'"
        raise ModuleNotFoundError(message, name=error.name) from None
    graph: ModuleType = plotly.graph_objects
    return graph
