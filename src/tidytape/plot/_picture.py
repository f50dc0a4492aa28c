"""The base classes of what drawing functions return."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from matplotlib.axes import Axes
from matplotlib.figure import Figure


class Picture:
    """The result of a drawing function: its artists, their axes (``ax`` or ``axes``) and their figure."""

    __slots__ = ()

    @property
    def figure(self) -> Figure:
        """The figure, e.g. to save it: ``drawn.figure.savefig("drawn.png")``."""
        drawn: Any = self
        return cast(Figure, (drawn.ax if hasattr(drawn, "ax") else drawn.axes[0]).get_figure(root=True))


@dataclass(frozen=True, slots=True)
class OnePanel(Picture):
    """A picture on one axes."""

    ax: Axes
