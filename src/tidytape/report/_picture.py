"""Pictures of a report: calls of `tidytape.plot` that give images or, in an interactive page, Plotly figures."""

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

    def draw(self, **axes: Any) -> None:
        """Draw on axes, which are passed as ``ax`` or ``axes``, as the function takes them."""
        getattr(plot, self.name)(*self.frames, **axes, **self.options)

    def axes_on(self, figure: Figure) -> dict[str, Any]:
        """Return new axes that fill a figure, as the argument ``ax`` or ``axes`` of `draw`."""
        if self.name == "candles_with_profile":
            return {"axes": plot.panels(figure)}
        if self.name == "order_flow":
            return {"axes": tuple(figure.subplots(3, 1, sharex=True, height_ratios=(3, 1.4, 2)))}
        if self.name == "open_interest" and self.options.get("candles") is not None:
            return {"axes": tuple(figure.subplots(3, 1, sharex=True, height_ratios=(3, 2, 2)))}
        return {"axes" if self.name == "open_interest" else "ax": figure.add_subplot()}

    def figure(self) -> Any:
        """Return the Plotly figure."""
        return getattr(plot.interactive, self.name)(*self.frames, **self.options)


class Interactive(NamedTuple):
    """A Plotly figure as JSON."""

    json: str  # safe within a script element of a page
    height: int  # [px]


@dataclass(frozen=True, eq=False)
class Picture:
    """A picture that is drawn when the page is written.

    Attributes
    ----------
    text : str
        Caption, which is also the alternative text of the image.
    height : float
        Height at a width of 9 inches. [in]
    plots : tuple of Plot
        The plots; several plots are side by side, and have the same title.
    """

    text: str
    height: float
    plots: tuple[Plot, ...]

    @classmethod
    def of(cls, text: str, height: float, *plots: Plot) -> Picture:
        """Return a picture of one or several plots."""
        return cls(text, height, plots)

    def png(self) -> bytes:
        """Return the picture as PNG: the same bytes for the same data."""
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.image import imsave

        figure = Figure(figsize=(_WIDTH, self.height), layout="constrained", dpi=_DPI)
        canvas: Any = FigureCanvasAgg(figure)  # matplotlib ships no types of it
        if len(self.plots) == 1:
            self.plots[0].draw(**self.plots[0].axes_on(figure))
        else:
            for index, (drawing, ax) in enumerate(
                zip(self.plots, figure.subplots(1, len(self.plots)), strict=True)
            ):
                drawing.draw(ax=ax)
                if index:
                    ax.set_title("", loc="left")  # the first plot already has this title
        file = io.BytesIO()
        with _without_font_warnings():
            canvas.draw()  # once; `savefig` draws twice, first only to lay the picture out
        # Leave out matplotlib's version, so that the same data give the same bytes.
        metadata: Any = {"Software": None}
        imsave(file, canvas.buffer_rgba(), format="png", dpi=_DPI, metadata=metadata)
        return file.getvalue()

    @cached_property
    def source(self) -> str:
        """The picture as the ``src`` of an image."""
        return "data:image/png;base64," + base64.b64encode(self.png()).decode()

    @cached_property
    def figures(self) -> tuple[Interactive, ...]:
        """The Plotly figures of the plots: the same text for the same data."""
        from plotly import io

        # Do not use the user's own template: the same tape must give the same page.
        user_template, io.templates.default = io.templates.default, "plotly"
        try:
            with _without_font_warnings():
                return tuple(_as_json(drawing.figure()) for drawing in self.plots)
        finally:
            io.templates.default = user_template


@contextmanager
def _without_font_warnings() -> Iterator[None]:
    """Ignore warnings of drawing: a market's name may have letters that the font lacks, or be too long."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield


def _as_json(figure: Any) -> Interactive:
    # A "</script>" in the text would end the script element around it, so escape every "<".
    return Interactive(figure.to_json(engine="orjson").replace("<", r"\u003c"), int(figure.layout.height))
