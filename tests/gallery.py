"""The pictures of README, of the front page and of the service's page: ``python tests/gallery.py`` makes them anew.

They show the demo's market. Names after the command make these alone, e.g. ``python tests/gallery.py funding page``.
"page" needs chromium and chromedriver.
"""

from __future__ import annotations

import base64
import io
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import matplotlib as mpl
import polars as pl
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure, SubFigure
from PIL import Image

import tidytape
from page_reader import Page, browser, serving, until
from tidytape import plot
from tidytape.analytics import cross, options
from tidytape.client._demo_lake import copied
from tidytape.lake import Lake

IMAGES = Path(__file__).parent.parent / "docs" / "images"
DAYS = {"start": "2024-08-07", "end": "2024-08-09"}
PERP = {"exchange": "DEMO_PERP", "raw_symbol": "BTC-PERP"}
SPOT = {"exchange": "DEMO_SPOT", "raw_symbol": "BTCUSDT"}

Place = Figure | SubFigure
Draw = Callable[[tidytape.Client[pl.DataFrame], Place], object]


def candles_with_profile(client: tidytape.Client[pl.DataFrame], place: Place) -> object:
    day = DAYS | {"start": "2024-08-08"}
    candles = client.candles(interval="15m", **SPOT, **day)
    profile = client.volume_profile(interval="1d", **SPOT, **day)
    return plot.candles_with_profile(candles, profile, axes=plot.panels(place))


def market_profile(client: tidytape.Client[pl.DataFrame], place: Place) -> object:
    levels = client.tpo(session="daily", **SPOT, **DAYS)
    return plot.market_profile(levels, ax=place.add_subplot(), block_minutes=30)


def footprint(client: tidytape.Client[pl.DataFrame], place: Place) -> object:
    window = {"start": "2024-08-08T13:00Z", "end": "2024-08-08T15:00Z"}
    return plot.footprint(client.volume_profile(interval="15m", **PERP, **window), ax=place.add_subplot())


def order_flow(client: tidytape.Client[pl.DataFrame], place: Place) -> object:
    axes = place.subplots(3, 1, sharex=True, height_ratios=(3, 1.4, 2))
    candles = client.candles(interval="15m", **PERP, **DAYS)
    sides = client.candles(interval="15m", by_side=True, **PERP, **DAYS)
    return plot.order_flow(candles, sides, axes=tuple(axes))


def open_interest(client: tidytape.Client[pl.DataFrame], place: Place) -> object:
    axes = place.subplots(3, 1, sharex=True, height_ratios=(3, 2, 2))
    candles = client.candles(interval="1h", **PERP, **DAYS)
    return plot.open_interest(client.open_interest(interval="1h", **PERP, **DAYS), candles=candles, axes=axes)


def funding(client: tidytape.Client[pl.DataFrame], place: Place) -> object:
    asked = {
        "exchange": ["DEMO_PERP", "DEMO_LINEAR", "DEMO_INVERSE"],
        "coin": "BTC",
        "interval": "1h",
        **DAYS,
    }
    rates, interest = client.funding(**asked), client.open_interest(**asked)
    return plot.funding(rates, open_interest=interest, ax=place.add_subplot())


def premium(client: tidytape.Client[pl.DataFrame], place: Place) -> object:
    exchanges = ["DEMO_SPOT", "DEMO_USD", "DEMO_PERP", "DEMO_LINEAR"]
    candles = client.candles(exchange=exchanges, coin="BTC", interval="15m", **DAYS)
    return plot.premium(cross.premium(candles), ax=place.add_subplot())


def book_heatmap(client: tidytape.Client[pl.DataFrame], place: Place) -> object:
    return plot.book_heatmap(client.book_heatmap(interval="5m", **SPOT, **DAYS), ax=place.add_subplot())


def liquidation_heatmap(client: tidytape.Client[pl.DataFrame], place: Place) -> object:
    heatmap = client.liquidation_heatmap(exchange="DEMO_PERP", coin="BTC", interval="15m", **DAYS)
    candles = client.candles(interval="15m", **PERP, **DAYS)
    return plot.liquidation_heatmap(heatmap, candles=candles, ax=place.add_subplot())


def _chain(client: tidytape.Client[pl.DataFrame]) -> pl.DataFrame:
    return client.events("option_quotes", coin="BTC", start="2024-08-08T12:00Z", end="2024-08-08T13:00Z")


def smile(client: tidytape.Client[pl.DataFrame], place: Place) -> object:
    chain = _chain(client)
    return plot.smile(chain, curves=options.svi(chain), x="deviation", ax=place.add_subplot())


def surface(client: tidytape.Client[pl.DataFrame], place: Place) -> object:
    return plot.surface(options.svi(_chain(client)), ax=place.add_subplot())


def term_structure(client: tidytape.Client[pl.DataFrame], place: Place) -> object:
    chain = client.events("option_quotes", coin="BTC", **DAYS)
    structure = options.term_structure(options.delta_points(chain))
    return plot.term_structure(structure, ax=place.add_subplot())


GALLERY: dict[str, tuple[Draw, float]] = {
    draw.__name__: (draw, height)
    for draw, height in (
        (candles_with_profile, 5.0),
        (market_profile, 5.0),
        (footprint, 5.0),
        (order_flow, 5.0),
        (open_interest, 6.2),
        (funding, 5.0),
        (premium, 5.0),
        (book_heatmap, 5.0),
        (liquidation_heatmap, 5.0),
        (smile, 5.0),
        (surface, 5.0),
        (term_structure, 5.0),
    )
}


def first(client: tidytape.Client[pl.DataFrame], place: Figure) -> None:
    """Draw the picture at the top of README: four subjects at once."""
    parts = place.subfigures(2, 2, wspace=0.02, hspace=0.03)
    for part, draw in zip(parts.flat, (market_profile, book_heatmap, funding, smile), strict=True):
        draw(client, part)


def service_page(path: Path) -> None:
    """Store what a reader of the service's page sees after one query."""
    with (
        tempfile.TemporaryDirectory() as profile,
        serving(Lake(copied()), port=8000) as served,
        browser(Path(profile)) as driver,
    ):
        size = {"width": 1280, "height": 1000, "deviceScaleFactor": 1, "mobile": False}
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        page = Page(driver, served.origin)
        page.open()
        page.enter()
        page.find("#search").send_keys(PERP["raw_symbol"])
        until(lambda: page.texts("#markets tbody button") == [PERP["raw_symbol"]])
        page.find("#markets tbody button").click()
        until(lambda: page.find("#rawSymbol").get_attribute("value") == PERP["raw_symbol"])
        page.choose("#interval", "FIFTEEN_MINUTES")
        page.find("#send").click()
        until(lambda: page.is_at_rest("answer") and page.find("#answer-body").is_displayed())
        clip = {"x": 0, "y": 0, "width": 1280, "height": 1640, "scale": 1}
        shot = driver.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": True, "clip": clip})
    picture = Image.open(io.BytesIO(base64.b64decode(shot["data"]))).convert("RGB")
    picture.quantize(128, dither=Image.Dither.NONE).save(path, optimize=True)


def main(names: list[str]) -> None:
    with tidytape.Client.demo() as client, mpl.rc_context(mpl.rcParamsDefault):
        for name, (draw, height) in (GALLERY | {"tidytape": (first, 9.6)}).items():
            if names and name not in names:
                continue
            figure = Figure(figsize=(16 if name == "tidytape" else 9, height), layout="constrained")
            FigureCanvasAgg(figure)
            draw(client, figure)
            dpi = 90 if name == "tidytape" else 100
            figure.savefig(
                IMAGES / f"{name}.png", dpi=dpi, metadata={"Software": None}, pil_kwargs={"optimize": True}
            )

    if not names or "page" in names:
        service_page(IMAGES / "page.png")


if __name__ == "__main__":
    main(sys.argv[1:])
