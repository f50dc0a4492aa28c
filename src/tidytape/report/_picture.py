"""Pictures of a report: calls of `tidytape.plot`, which become images or, in an interactive page, figures."""

from __future__ import annotations

import base64
import io
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from matplotlib.figure import Figure

from tidytape import plot

_DPI = 120
_WIDTH = 9.0  # width of a page [in]


@dataclass(frozen=True)
class Plot:
    """A call of a function that `tidytape.plot` and `tidytape.plot.interactive` both have.

    Attributes
    ----------
    name : str
        Name of the function.
    frames : tuple
        Frames to draw.
    options : mapping
        Keyword arguments.
    """

    name: str
    frames: tuple[Any, ...]
    options: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, name: str, *frames: Any, **options: Any) -> Plot:
        """Return the call that is written ``plot.name(*frames, **options)``."""
        return cls(name, frames, options)

    def draw(self, **place: Any) -> None:
        """Draw on ``ax`` or ``axes``."""
        getattr(plot, self.name)(*self.frames, **place, **self.options)

    def place(self, figure: Figure) -> dict[str, Any]:
        """Return the ``ax`` or ``axes`` of a picture that has the figure to itself."""
        if self.name == "candles_with_profile":
            return {"axes": plot.panels(figure)}
        if self.name == "order_flow":
            return {"axes": tuple(figure.subplots(3, 1, sharex=True, height_ratios=(3, 1.4, 2)))}
        if self.name == "open_interest" and self.options.get("candles") is not None:
            return {"axes": tuple(figure.subplots(3, 1, sharex=True, height_ratios=(3, 2, 2)))}
        return {"axes" if self.name == "open_interest" else "ax": figure.add_subplot()}

    def figure(self) -> Any:
        """Return the figure of Plotly."""
        return getattr(plot.interactive, self.name)(*self.frames, **self.options)


class Interactive(NamedTuple):
    """A figure of Plotly: JSON that is safe within a page, and its height. [px]"""

    json: str
    height: int


@dataclass(frozen=True, eq=False)
class Picture:
    """A picture that is drawn when the page is written.

    Attributes
    ----------
    text : str
        Caption, which is also the text for readers who do not see the picture.
    height : float
        At a width of 9 in. [in]
    plots : tuple of Plot
        The plots; several stand side by side, and share their title.
    """

    text: str
    height: float
    plots: tuple[Plot, ...]

    @classmethod
    def of(cls, text: str, height: float, *plots: Plot) -> Picture:
        """Return the picture of one plot or several."""
        return cls(text, height, plots)

    def png(self) -> bytes:
        """Return the picture as PNG: the same bytes for the same data."""
        from matplotlib.backends.backend_agg import FigureCanvasAgg

        figure = Figure(figsize=(_WIDTH, self.height), layout="constrained")
        FigureCanvasAgg(figure)
        if len(self.plots) == 1:
            self.plots[0].draw(**self.plots[0].place(figure))
        else:
            for number, (drawing, ax) in enumerate(
                zip(self.plots, figure.subplots(1, len(self.plots)), strict=True)
            ):
                drawing.draw(ax=ax)
                if number:
                    ax.set_title("", loc="left")  # the first plot has the same title
        file = io.BytesIO()
        with _any_name():
            # Without the version of the library and the time, the same data give the same bytes.
            figure.savefig(
                file, dpi=_DPI, format="png", metadata={"Software": None}, pil_kwargs={"optimize": True}
            )
        return file.getvalue()

    @cached_property
    def source(self) -> str:
        """The picture as the ``src`` of an image."""
        return "data:image/png;base64," + base64.b64encode(self.png()).decode()

    @cached_property
    def figures(self) -> tuple[Interactive, ...]:
        """The figures of Plotly: the same text for the same data."""
        from plotly import io

        # Another template or encoder of the user would make another page of the same tape.
        users, io.templates.default = io.templates.default, "plotly"
        try:
            with _any_name():
                return tuple(_sent(drawing.figure()) for drawing in self.plots)
        finally:
            io.templates.default = users


@contextmanager
def _any_name() -> Iterator[None]:
    """Draw without warnings: a market's name may have letters that the font lacks, or be too long."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield


def _sent(figure: Any) -> Interactive:
    # A `<` could end the script element around the text.
    return Interactive(figure.to_json(engine="orjson").replace("<", r"\u003c"), int(figure.layout.height))
