from __future__ import annotations

import re
from dataclasses import fields, is_dataclass

import pytest
from matplotlib.figure import Figure

from tidytape import plot
from tidytape.plot._picture import OnePanel, Picture

# A dataclass with slots is made of a class without them, of the same name.
PICTURES = {
    kind.__name__: kind
    for kind in (*Picture.__subclasses__(), *OnePanel.__subclasses__())
    if is_dataclass(kind) and kind.__name__ != OnePanel.__name__
}.values()


@pytest.mark.parametrize("picture", PICTURES, ids=lambda picture: picture.__name__)
def test_every_picture_has_its_figure(picture: type) -> None:
    outer = Figure()
    part = outer.subfigures(1, 2)[1]
    first, second = part.subplots(2)
    places = {"ax": first, "axes": (first, second)}
    drawn = picture(**{field.name: places.get(field.name) for field in fields(picture)})
    assert drawn.figure is outer


@pytest.mark.parametrize("picture", PICTURES, ids=lambda picture: picture.__name__)
def test_a_function_names_the_attributes_of_what_it_returns(picture: type) -> None:
    name = re.fullmatch(r"What `(\w+)` drew\.", picture.__doc__ or "")
    assert name
    returns = getattr(plot, name[1]).__doc__.partition("Returns\n")[2].partition("Raises\n")[0]
    named = {
        word
        for line in re.findall(r"^ *- (.*?) :", returns, flags=re.MULTILINE)
        for word in re.findall(r"\w+", line)
    }
    assert named == {field.name for field in fields(picture)}
