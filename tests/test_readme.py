"""The README shows the frames that its Python prints, and names every picture and data type."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest

from tidytape import plot
from tidytape.catalogue import DATA_TYPES

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_python_prints_what_stands_below_it() -> None:
    printing = re.findall(r"```python\n(.*?)```\n+```text\n(.*?)```", README, flags=re.DOTALL)
    names: dict[str, object] = {}
    for code, shown in printing:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, "README.md", "exec"), names)
        assert printed.getvalue() == shown
    assert len(printing) == 2
    assert len(printing[0][0].strip().splitlines()) <= 10


def test_every_picture_is_named() -> None:
    drawing = {name for name in plot.__all__ if name.islower()} - {"interactive", "panels"}
    pictures = README.partition("- **Pictures**")[2].partition("- **Reports**")[0]
    assert drawing == set(re.findall(r"`([a-z_]+)`", pictures))


def test_every_picture_of_the_page_is_there() -> None:
    root = Path(__file__).parent.parent
    pages = [root / "README.md", root / "docs" / "index.md"]
    for page in pages:
        names = re.findall(r"(?:\]\(|\{figure\} )([\w/]+\.png)", page.read_text(encoding="utf-8"))
        assert names
        assert [name for name in names if not (page.parent / name).is_file()] == []


def test_every_data_type_has_its_name_in_words() -> None:
    words = {
        "TRADE": "trades",
        "TRADE_AGG": "candles",
        "TRADE_SIDE_AGNOSTIC_AGG": "candles",
        "OPEN_INTEREST_AGG": "open interest",
        "FUNDING_RATE_AGG": "funding with predicted rates",
        "LIQUIDATION_AGG": "liquidations",
        "TOKEN_SUPPLY_AGG": "token supply",
        "IMPLIED_VOLATILITY_OPTION_SUMMARY_AGG": "option volatility",
        "SKEW_OPTION_SUMMARY_AGG": "skew",
        "VOLUME_PROFILE_AGG": "volume profiles",
        "TPO_AGG": "market profiles",
        "VENUEX_LIQUIDATION_AGG": "liquidation heatmaps",
        "BLOCK_BOOK_SNAPSHOT_AGG": "order-book",
        "CME_OPEN_INTEREST_AGG": "regulated futures",
        "OPTION_OPEN_INTEREST_AGG": "open interest",
    }
    assert set(words) == set(DATA_TYPES)
    text = " ".join(README.partition("- **Data**")[2].partition("- **Analytics**")[0].split())
    assert [word for word in words.values() if word not in text] == []
