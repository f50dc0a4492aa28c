"""What a report is made of: sections, each with how to read it, pictures, tables, and the rule behind them."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable
from dataclasses import dataclass, field

from matplotlib.figure import Figure

__all__ = ["Picture", "Section", "Table"]

_DPI = 120
_WIDTH = 9.0  # of a page [in]


@dataclass(frozen=True)
class Picture:
    """A picture that is drawn when the page is written.

    Attributes
    ----------
    draw : callable
        Draws on the empty figure that it is given.
    text : str
        What the picture shows: for readers who do not see it, and below it for everyone.
    height : float
        At a width of 9 in. [in]
    """

    draw: Callable[[Figure], object]
    text: str
    height: float = 4.2

    def png(self) -> bytes:
        """Return the picture, the same bytes for the same data."""
        from matplotlib.backends.backend_agg import FigureCanvasAgg

        figure = Figure(figsize=(_WIDTH, self.height), layout="constrained")
        FigureCanvasAgg(figure)
        self.draw(figure)
        file = io.BytesIO()
        # Neither the library's version nor a time belongs to a picture that has to come out the same.
        figure.savefig(
            file, dpi=_DPI, format="png", metadata={"Software": None}, pil_kwargs={"optimize": True}
        )
        return file.getvalue()

    @property
    def source(self) -> str:
        """The picture as the ``src`` of an image."""
        return "data:image/png;base64," + base64.b64encode(self.png()).decode()


@dataclass(frozen=True)
class Table:
    """A table as HTML.

    Attributes
    ----------
    html : str
        Empty where the table has no rows.
    text : str
        What a row is.
    """

    html: str
    text: str


@dataclass
class Section:
    """One subject of a report.

    Attributes
    ----------
    reading : str
        How to read it.
    rule : str
        The rule behind its numbers.
    parts : list of Picture or Table
        In the order of the page.
    entries : tuple of int
        Numbers of the tape's entries that it is made of.
    """

    reading: str
    rule: str
    parts: list[Picture | Table] = field(default_factory=list)
    entries: tuple[int, ...] = ()
