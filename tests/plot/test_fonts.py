"""Names in Chinese, Japanese and Korean characters: drawn with a font that has them, or as boxes, with one warning."""

from __future__ import annotations

import warnings

import matplotlib as mpl
import numpy as np
import polars as pl
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import fontManager

from tidytape import plot
from tidytape.plot import _fonts, _style

NAME = "币安人生USDT"
BOXES = "Last Resort High-Efficiency"


def named(hours, name=NAME):
    return hours((0, 60, 62, 59, 61, 1), (1, 61, 63, 60, 62, 2)).with_columns(raw_symbol=pl.lit(name))


def title(ax):
    return ax._left_title


@pytest.fixture
def without_fonts(monkeypatch):
    """A machine on which no font has these characters."""
    names = [name for name in fontManager.get_font_names() if name not in _fonts._FAMILIES]
    monkeypatch.setattr(fontManager, "get_font_names", lambda: names)


def draw(figure):
    """Draw a figure, with every warning as an error."""
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())


def test_without_a_font_one_warning_says_what_to_install(hours, ax, without_fonts):
    with pytest.warns(UserWarning, match="fonts-noto-cjk") as caught:
        drawn = plot.candles(named(hours), ax=ax)
    (warning,) = caught
    assert NAME in str(warning.message)
    assert mpl.get_cachedir() in str(warning.message)
    assert warning.filename == __file__
    assert title(ax).get_text() == f"Candles · X {NAME}, 1h"  # the name itself stays
    if BOXES in fontManager.get_font_names():
        draw(drawn.figure)  # matplotlib does not warn of each character


def test_a_font_that_is_there_follows_those_of_the_settings(hours, ax, monkeypatch):
    installed = ["DejaVu Sans", "WenQuanYi Zen Hei", "Noto Sans CJK JP"]
    monkeypatch.setattr(fontManager, "get_font_names", lambda: installed)
    plot.candles(named(hours), ax=ax)
    assert title(ax).get_fontfamily() == [
        *mpl.rcParams["font.family"],
        "Noto Sans CJK JP",
        "WenQuanYi Zen Hei",
    ]
    assert ax.yaxis.label.get_fontfamily() == mpl.rcParams["font.family"]
    assert mpl.rcParams["font.family"] == mpl.rcParamsDefault["font.family"]


def test_a_font_of_the_caller_that_has_the_characters_is_enough(hours, ax, without_fonts, monkeypatch):
    monkeypatch.setattr(_fonts, "_has_glyphs", lambda text: True)
    plot.candles(named(hours), ax=ax)
    assert title(ax).get_fontfamily() == mpl.rcParams["font.family"]


def test_the_usual_font_is_asked_for_its_characters(ax):
    assert _fonts._has_glyphs(ax.text(0, 0, "60,000 × 1 · −2"))
    assert not _fonts._has_glyphs(ax.text(0, 0, NAME))
    if BOXES in fontManager.get_font_names():
        assert _fonts._has_glyphs(ax.text(0, 0, NAME, family=["DejaVu Sans", BOXES]))


@pytest.mark.parametrize("name", ["BTCUSDT", "ÄÖ-ß", "1000PEPE×2"])
def test_other_names_are_as_they_were(hours, ax, without_fonts, name):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plot.candles(named(hours, name), ax=ax)
    assert title(ax).get_fontfamily() == mpl.rcParams["font.family"]


def test_legends_and_rows_have_the_font_too(hours, monkeypatch):
    monkeypatch.setattr(fontManager, "get_font_names", lambda: ["Noto Sans CJK SC"])
    figure = Figure()
    share = pl.concat([named(hours), named(hours, "BTCUSDT")]).with_columns(
        share=pl.when(raw_symbol=pl.lit(NAME)).then(0.25).otherwise(0.75), total=1.0
    )
    drawn = plot.market_share(share, ax=figure.add_subplot())
    texts = [text for text in drawn.ax.get_legend().get_texts() if NAME in text.get_text()]
    assert [text.get_fontfamily()[-1] for text in texts] == ["Noto Sans CJK SC"]


@pytest.mark.skipif(
    not set(_fonts._FAMILIES) & set(fontManager.get_font_names()),
    reason="needs a font with Chinese characters",
)
def test_the_characters_differ_in_the_picture(hours):
    images = []
    for name in ("币安", "人生"):
        figure = Figure(dpi=100)
        plot.candles(named(hours, name), ax=figure.add_subplot())
        images.append(draw(figure))
    assert (images[0] != images[1]).any()


def test_a_wide_character_has_the_room_of_two(ax):
    assert [_style.columns(text) for text in ("BTC", NAME, "")] == [3, 12, 0]
