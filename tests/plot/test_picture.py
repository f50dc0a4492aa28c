from __future__ import annotations

from dataclasses import fields, is_dataclass

import pytest
from matplotlib.figure import Figure

from tidytape import plot

PICTURES = [kind for kind in (getattr(plot, name) for name in plot.__all__) if is_dataclass(kind)]


@pytest.mark.parametrize("picture", PICTURES, ids=lambda picture: picture.__name__)
def test_every_picture_has_its_figure(picture: type) -> None:
    outer = Figure()
    part = outer.subfigures(1, 2)[1]
    first, second = part.subplots(2)
    places = {"ax": first, "axes": (first, second)}
    drawn = picture(**{one.name: places.get(one.name) for one in fields(picture)})
    assert drawn.figure is outer
