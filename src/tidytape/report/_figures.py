"""The interactive form of a page: its figures of Plotly, and the code that draws them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from tidytape.report._picture import Picture

MOST_BYTES = 8_000_000
"""What an interactive page has at most."""


class Place(NamedTuple):
    """Where a figure stands in the page: its name, and its height. [px]"""

    name: str
    height: int


@dataclass(frozen=True)
class Figures:
    """The figures of a page.

    Attributes
    ----------
    script : str
        The code of Plotly.
    pictures : tuple of Picture
        The pictures that are figures; the others stay images.
    has_images : bool
        Whether images of these pictures are in the page too, for browsers without scripts.
    """

    script: str
    pictures: tuple[Picture, ...]
    has_images: bool

    def places(self, picture: Picture) -> list[Place]:
        """Return the places of a picture's figures; none where it stays an image."""
        if picture not in self.pictures:
            return []
        number = self.pictures.index(picture) + 1
        return [
            Place(f"figure-{number}-{part}", figure.height) for part, figure in enumerate(picture.figures, 1)
        ]

    @property
    def json(self) -> str:
        """All figures as one object, by the names of their places."""
        entries = (
            f'"{place.name}": {figure.json}'
            for picture in self.pictures
            for place, figure in zip(self.places(picture), picture.figures, strict=True)
        )
        return "{" + ",\n".join(entries) + "}"


def plotly_script() -> str:
    """Return the code of Plotly; raise ModuleNotFoundError that names the extra where it is not installed."""
    try:
        from plotly.offline import get_plotlyjs
    except ModuleNotFoundError as error:
        message = "an interactive report takes plotly: pip install 'tidytape[interactive]'"
        raise ModuleNotFoundError(message, name=error.name) from None
    return str(get_plotlyjs())


def fitted(pictures: Iterable[Picture], script: str, render: Callable[[Figures], str]) -> str:
    """Return the page with as many figures as its size permits, and with images beside them if there is room.

    Parameters
    ----------
    pictures : iterable of Picture
        All that the page has. Those with the largest figures stay images where the page would be too large.
    script : str
        The code of Plotly.
    render : callable
        Returns the page with some figures.
    """
    kept = tuple(pictures)
    text = render(Figures(script, kept, has_images=False))
    while kept and len(text.encode()) > MOST_BYTES:
        largest = max(kept, key=lambda picture: sum(len(figure.json) for figure in picture.figures))
        kept = tuple(picture for picture in kept if picture is not largest)
        text = render(Figures(script, kept, has_images=False))
    whole = render(Figures(script, kept, has_images=True))
    return whole if len(whole.encode()) <= MOST_BYTES else text
