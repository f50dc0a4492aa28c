"""What every drawing function returns."""

from __future__ import annotations

import copy
import pickle
import re
from pathlib import Path
from typing import Any

import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from plot.cases import PICTURES, cases
from tidytape import plot
from tidytape.errors import QueryError
from tidytape.plot import _matplotlib, _plotly
from tidytape.plot._model import Mark, Model


@pytest.fixture
def drawn(hours: Any, ax: Axes) -> Any:
    return plot.candles(hours((0, 60.0, 64.0, 59.0, 62.0, 5.0)), ax=ax)


def test_a_drawing_has_its_figure_in_a_part_of_it(hours: Any) -> None:
    outer = Figure()
    ax = outer.subfigures(1, 2)[1].add_subplot()
    drawn = plot.candles(hours((0, 60.0, 64.0, 59.0, 62.0, 5.0)), ax=ax)
    assert drawn.figure is outer
    assert drawn.axes == (ax,)
    assert drawn.ax is ax


def test_a_drawing_prints_in_one_line_and_saves_itself(drawn: Any, tmp_path: Any) -> None:
    assert repr(drawn) == "Drawing('Candles · X BTCUSDT, 1h')"
    drawn.save(tmp_path / "candles.png", dpi=50)
    assert (tmp_path / "candles.png").read_bytes().startswith(b"\x89PNG")


def test_artists_are_attributes_and_a_wrong_name_says_what_there_is(drawn: Any) -> None:
    assert drawn.bodies is drawn.artists["bodies"]
    assert {"bodies", "wicks"} <= {*dir(drawn)}
    with pytest.raises(AttributeError, match=r"drawn\.ax\.set_title"):
        drawn.set_title("mine")
    assert isinstance(drawn.model, Model)
    assert copy.copy(drawn).axes == drawn.axes
    assert pickle.loads(pickle.dumps(drawn.model)).panels[0].title == "Candles · X BTCUSDT, 1h"


@pytest.mark.parametrize("title", ["Mine", ""])
def test_a_title_of_the_caller_is_the_only_one(hours: Any, ax: Axes, title: str) -> None:
    plot.candles(hours((0, 60.0, 64.0, 59.0, 62.0, 5.0)), ax=ax, title=title)
    assert ax.get_title(loc="left") == title
    assert ax.get_title() == ""


def test_a_failure_leaves_no_figure_behind() -> None:
    import matplotlib.pyplot as plt

    before = plt.get_fignums()
    with pytest.raises(QueryError):
        plot.candles([1, 2])  # type: ignore[arg-type]
    assert plt.get_fignums() == before


def test_both_renderers_know_every_mark() -> None:
    kinds = {kind for kind in Mark.__subclasses__() if kind.__module__ == Mark.__module__}
    in_image = {"Texts", "Contours", "Rows", "Key"}  # part of an image, of an axis, of the static legend
    assert {kind.__name__ for kind in kinds - {*_plotly._ADD}} == in_image
    renderer = Path(_matplotlib.__file__).read_text(encoding="utf-8")
    assert [kind.__name__ for kind in kinds if f"model.{kind.__name__}" not in renderer] == ["Regions"]


@pytest.mark.slow
def test_what_a_docstring_names_is_there() -> None:
    cases()
    for case, picture in PICTURES.items():
        name = case.partition(" ")[0]
        returns = getattr(plot, name).__doc__.partition("Returns\n")[2].partition("Raises\n")[0]
        named = {
            word
            for line in re.findall(r"^ *- (.*?) :", returns, flags=re.MULTILINE)
            for word in re.findall(r"\w+", line)
        }
        drawn = picture()
        assert named <= {*dir(drawn)}, case
        assert {*drawn.artists, *drawn.model.facts} <= named, case
