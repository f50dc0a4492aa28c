"""Fonts for names that the usual font cannot write, such as 币安人生USDT."""

from __future__ import annotations

import re
from collections.abc import Iterable

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.font_manager import FontProperties, findfont, fontManager, get_font
from matplotlib.text import Text

from tidytape.errors import warn

_FAMILIES = (
    # Linux
    "Noto Sans CJK SC", "Noto Sans CJK JP", "Noto Sans CJK TC", "Noto Sans CJK KR", "Noto Sans SC",
    "Source Han Sans SC", "Source Han Sans CN", "WenQuanYi Zen Hei", "WenQuanYi Micro Hei", "Droid Sans Fallback",
    # macOS
    "PingFang SC", "PingFang HK", "Hiragino Sans GB", "Hiragino Sans", "Heiti TC", "STHeiti", "Apple SD Gothic Neo",
    "Arial Unicode MS",
    # Windows
    "Microsoft YaHei", "SimHei", "SimSun", "Yu Gothic", "MS Gothic", "Malgun Gothic",
)  # fmt: skip
"""Families of fonts with Chinese characters, and most with Japanese and Korean ones, in the order of preference."""
_BOXES = "Last Resort High-Efficiency"  # comes with matplotlib, and has a box for every character
_EAST_ASIAN = re.compile(
    "[\u1100-\u11ff\u2e80-\ua4cf\uac00-\ud7ff\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff]"
)


def use_wide_fonts(axes: Iterable[Axes]) -> None:
    """Let Chinese, Japanese and Korean texts of axes use fonts that are installed, after their own.

    If there is none, the characters are boxes, and one warning says what to install.
    """
    texts = [text for ax in axes for text in ax.findobj(Text) if _EAST_ASIAN.search(text.get_text())]
    lacking = [text for text in texts if not _has_glyphs(text)]
    families = [name for name in _FAMILIES if name in fontManager.get_font_names()]
    for text in lacking:
        text.set_fontfamily(
            [*text.get_fontfamily(), *(families or {_BOXES}.intersection(fontManager.get_font_names()))]
        )
    if lacking and not families:
        warn(
            UserWarning(
                f"no font here has the characters of {lacking[0].get_text()!r}, so the picture has boxes. "
                "Install one, e.g. the package fonts-noto-cjk of Debian and Ubuntu, or google-noto-sans-cjk-fonts of "
                f"Fedora, and delete fontlist-*.json in {mpl.get_cachedir()}, where matplotlib keeps its list of fonts"
            )
        )


def _has_glyphs(text: Text) -> bool:
    """Return whether the fonts of a text have all of its East Asian characters."""
    fonts = [get_font(findfont(FontProperties(family=[name]))) for name in text.get_fontfamily()]
    return all(
        any(font.get_char_index(ord(letter)) for font in fonts)
        for letter in _EAST_ASIAN.findall(text.get_text())
    )
