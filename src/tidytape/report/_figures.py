"""The interactive form of a page: its Plotly figures, and the script that draws them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from tidytape.report._picture import Picture

MOST_BYTES = 8_000_000
"""The largest size of an interactive page. [bytes]"""


class Place(NamedTuple):
    """The element of the page in which the script draws a figure."""

    name: str  # its id
    height: int  # [px]


@dataclass(frozen=True)
class Figures:
    """The figures of a page.

    Attributes
    ----------
    script : str
        The code of Plotly.
    pictures : tuple of Picture
        The pictures that are figures; all others are images.
    has_images : bool
        Whether the page also has images of these pictures, for browsers without scripts.
    """

    script: str
    pictures: tuple[Picture, ...]
    has_images: bool

    def places(self, picture: Picture) -> list[Place]:
        """Return the places of a picture's figures; an empty list if the picture is an image."""
        if picture not in self.pictures:
            return []
        number = self.pictures.index(picture) + 1
        return [
            Place(f"figure-{number}-{part}", figure.height) for part, figure in enumerate(picture.figures, 1)
        ]

    @property
    def json(self) -> str:
        """All figures as one JSON object, by the names of their places."""
        entries = (
            f'"{place.name}": {figure.json}'
            for picture in self.pictures
            for place, figure in zip(self.places(picture), picture.figures, strict=True)
        )
        return "{" + ",\n".join(entries) + "}"


def plotly_script() -> str:
    """Return the code of Plotly; raise ModuleNotFoundError with the command that installs it."""
    try:
        from plotly.offline import get_plotlyjs
    except ModuleNotFoundError as error:
        message = "an interactive report takes plotly: pip install 'tidytape[interactive]'"
        raise ModuleNotFoundError(message, name=error.name) from None
    return str(get_plotlyjs())


def fitting_page(pictures: Iterable[Picture], script: str, render: Callable[[Figures], str]) -> str:
    """Return the page with as many figures as fit within `MOST_BYTES`, and with images of them if these fit, too.

    Parameters
    ----------
    pictures : iterable of Picture
        All pictures of the page. If the page would be too large, the pictures with the largest figures become images.
    script : str
        The code of Plotly.
    render : callable
        Returns the page with the figures that it gets.
    """
    interactive = tuple(pictures)
    text = render(Figures(script, interactive, has_images=False))
    while interactive and len(text.encode()) > MOST_BYTES:
        largest = max(interactive, key=lambda picture: sum(len(figure.json) for figure in picture.figures))
        interactive = tuple(picture for picture in interactive if picture is not largest)
        text = render(Figures(script, interactive, has_images=False))
    with_images = render(Figures(script, interactive, has_images=True))
    return with_images if len(with_images.encode()) <= MOST_BYTES else text
