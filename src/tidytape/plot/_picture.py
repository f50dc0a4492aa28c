"""The base classes of what drawing functions return."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tidytape._other_clients import unknown_name


class Picture:
    """The result of a drawing function: its artists, their axes (``ax`` or ``axes``) and their figure."""

    __slots__ = ()

    if not TYPE_CHECKING:  # a type checker would accept any name at all

        def __getattr__(self, name):
            names = dir(type(self))
            axes = "ax" if "ax" in names else "axes[0]"
            part = axes if hasattr(Axes, name) else "figure" if hasattr(Figure, name) else None
            raise unknown_name(self, name, names, instead=part and f"drawn.{part}.{name}, of what is drawn")

    @property
    def figure(self) -> Figure:
        """The figure, e.g. to save it: ``drawn.figure.savefig("drawn.png")``."""
        drawn: Any = self
        return cast(Figure, (drawn.ax if hasattr(drawn, "ax") else drawn.axes[0]).get_figure(root=True))


@dataclass(frozen=True, slots=True)
class OnePanel(Picture):
    """A picture on one axes."""

    ax: Axes
