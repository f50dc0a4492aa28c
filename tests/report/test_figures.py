"""Interactive reports: the same bytes, at most 8 MB, nothing from outside, and no errors in a browser."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import polars as pl
import pytest
from typer.testing import CliRunner

import tidytape
from page_reader import CHROMIUM, DRIVER, browser, requested
from tidytape import report
from tidytape.cli import app
from tidytape.report._figures import MOST_BYTES, fitting_page
from tidytape.report._picture import Interactive, Picture, Plot

plotly = pytest.importorskip("plotly")

DAY = {"start": "2024-08-08", "end": "2024-08-09"}
SMALL = {"exchange": "DEMO_SPOT", "raw_symbol": "BTCUSDT", "interval": "1h", **DAY}


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tape with the candles of one market."""
    tape = tmp_path_factory.mktemp("small") / "study.tape"
    with tidytape.Client.demo() as client, client.record(tape):
        client.candles(**SMALL)
    return tape


@pytest.fixture(scope="module")
def page(small: Path) -> str:
    return report.write(small, small.parent / "report.html", interactive=True).read_text(encoding="utf-8")


def figures(page: str) -> dict[str, dict]:
    (text,) = re.findall(
        r'<script type="application/json" id="figures">(.*?)</script>', page, flags=re.DOTALL
    )
    return json.loads(text)


@pytest.mark.slow
def test_plotly_is_there_once_and_each_figure_has_its_place(page: str) -> None:
    assert page.count(plotly.offline.get_plotlyjs()) == 1
    places = re.findall(r'<div class="plot" id="([\w-]+)"', page)
    assert (
        places == [*figures(page)] == ["figure-1-1", "figure-2-1", "figure-3-1"]
    )  # candles, their market profile, and which hours have them
    assert len(page.encode()) <= MOST_BYTES


@pytest.mark.slow
def test_figures_are_those_of_the_interactive_plots(small: Path, page: str) -> None:
    with tidytape.Client.replay(small) as client:
        figure = tidytape.plot.interactive.candles(client.candles(**SMALL))
    assert figures(page)["figure-1-1"] == json.loads(figure.to_json())


@pytest.mark.slow
def test_images_are_there_for_browsers_without_scripts(page: str) -> None:
    assert len(re.findall(r"<noscript>\s*<div class=\"wide\"><img", page)) == 3
    outside = re.sub(r"<noscript>.*?</noscript>|<script.*?</script>", "", page, flags=re.DOTALL)
    assert "<img" not in outside
    assert "plotly 7" in outside or "plotly 6" in outside  # the manifest says what drew


@pytest.mark.slow
def test_the_same_tape_gives_the_same_bytes(small: Path, page: str, tmp_path: Path) -> None:
    again = report.write(small, tmp_path / "again.html", interactive=True)
    assert again.read_text(encoding="utf-8") == page


@pytest.mark.slow
def test_the_users_template_and_encoder_have_no_part_in_a_figure(
    small: Path, page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plotly.io.templates, "default", "plotly_dark")
    monkeypatch.setattr(plotly.io.json.config, "default_engine", "json")
    again = report.write(small, tmp_path / "again.html", interactive=True)
    assert figures(again.read_text(encoding="utf-8")) == figures(page)
    assert again.read_text(encoding="utf-8") == page
    assert plotly.io.templates.default == "plotly_dark"


@pytest.mark.slow
def test_a_page_that_is_not_interactive_has_no_script(small: Path, tmp_path: Path) -> None:
    assert "<script" not in report.write(small, tmp_path / "static.html").read_text(encoding="utf-8")


@pytest.mark.slow
def test_without_plotly_nothing_is_written(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "plotly.offline", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'tidytape\[interactive\]'"):
        report.write(small, tmp_path / "report.html", interactive=True)
    assert not [*tmp_path.iterdir()]


@pytest.mark.slow
def test_no_text_of_a_market_ends_the_script() -> None:
    names = {"exchange": "X</script><script>alert(1)</script>\u202e", "raw_symbol": "<b>A"}
    with tidytape.Client.demo() as client:
        candles = client.candles(**SMALL).with_columns(**{name: pl.lit(text) for name, text in names.items()})
    (sent,) = Picture.of("A picture.", 4.0, Plot.of("candles", candles)).figures
    assert "<" not in sent.json
    assert json.loads(sent.json)["layout"]["title"]["subtitle"]["text"].startswith("X&lt;/script&gt;")
    assert "\\u202e" not in sent.json.replace("\\\\u202e", "written out")


@pytest.mark.slow
def test_a_name_that_the_font_lacks_warns_of_nothing() -> None:
    with tidytape.Client.demo() as client:
        candles = client.candles(**SMALL).with_columns(exchange=pl.lit("\N{ROCKET}"))
    assert Picture.of("A picture.", 4.0, Plot.of("candles", candles)).png().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("sizes", "kept", "has_images"), [((1, 2), 2, True), ((1, 5), 2, False), ((1, 9), 1, True)]
)
def test_the_largest_figures_stay_images_where_a_page_would_be_too_large(
    sizes: tuple[int, ...], kept: int, *, has_images: bool
) -> None:
    pictures = [
        SimpleNamespace(figures=(Interactive("1" * size * 1_000_000, 400),), image=1_500_000)
        for size in sizes
    ]

    def render(figures) -> str:
        text = figures.json + figures.script
        images = [one for one in pictures if one not in figures.pictures or figures.has_images]
        rendered.append(figures)
        return text + "i" * sum(one.image for one in images)

    rendered: list = []
    page = fitting_page(pictures, "s" * 1_000_000, render)
    assert len(page) <= MOST_BYTES
    last = next(one for one in reversed(rendered) if len(render(one)) == len(page))
    assert len(last.pictures) == kept
    assert last.has_images == has_images


# --- the whole report ---


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    with tidytape.Client.demo() as client:
        report.record(client, folder / "market.tape", coin="BTC", **DAY)
    words = [
        "report",
        "--tape",
        str(folder / "market.tape"),
        "--out",
        str(folder / "report.html"),
        "--interactive",
    ]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    return folder / "report.html"


@pytest.mark.long
def test_every_picture_of_a_whole_report_is_a_figure(whole: Path) -> None:
    page = whole.read_text(encoding="utf-8")
    assert len(page.encode()) <= MOST_BYTES
    assert len(figures(page)) >= 15
    for figure in figures(page).values():
        assert figure["data"]


@pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="needs chromium and chromedriver")
@pytest.mark.long
@pytest.mark.parametrize("width", [400, 1400])
def test_the_page_works_on_a_telephone_and_a_desk(whole: Path, tmp_path: Path, width: int) -> None:
    with browser(tmp_path) as driver:
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        requested(driver)  # what the browser opened at its start
        driver.get(f"file://{whole}")
        driver.execute_script("dispatchEvent(new Event('beforeprint'))")  # which draws all figures
        places, drawn, wide, shown = driver.execute_script(
            "const places = [...document.querySelectorAll('.plot')];"
            "const root = document.documentElement;"
            "return [places.length, places.filter(one => one.querySelector('.main-svg')).length,"
            " root.scrollWidth, root.clientWidth]"
        )
        assert places == drawn >= 15
        assert wide <= shown
        assert [line for line in driver.get_log("browser") if line["level"] in {"SEVERE", "WARNING"}] == []
        assert requested(driver) == [f"file://{whole}"]


@pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="needs chromium and chromedriver")
@pytest.mark.long
def test_figures_are_drawn_as_they_come_near(whole: Path, tmp_path: Path) -> None:
    with browser(tmp_path) as driver:
        driver.get(f"file://{whole}")
        count = "return document.querySelectorAll('.plot .plot-container').length"
        first = driver.execute_script(count)
        driver.execute_script("document.querySelectorAll('.plot')[10].scrollIntoView()")
        driver.execute_async_script("setTimeout(arguments[0], 1500)")
        assert 0 < first < driver.execute_script(count)
