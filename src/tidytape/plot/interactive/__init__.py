"""The pictures of `tidytape.plot` as figures of Plotly, in which you can zoom and read values with their units.

The functions have the names of those in `tidytape.plot` and take the same frames and options, except ``ax`` and
``axes``. Their figures show the same numbers, units, titles and colours. They need Plotly:
``pip install 'tidytape[interactive]'``.

>>> import tidytape
>>> market = {"exchange": "DEMO_SPOT", "raw_symbol": "BTCUSDT", "start": "2024-08-08", "end": "2024-08-09"}
>>> with tidytape.Client.demo() as client:
...     figure = candles(client.candles(interval="1h", **market))
>>> figure.layout.title.text, figure.layout.title.subtitle.text, figure.layout.yaxis.title.text
('Candles', 'DEMO_SPOT BTCUSDT, 1h', 'Price [USDT per BTC]')

A notebook shows a figure that a cell returns; ``figure.write_html("candles.html")`` makes a page of it.

Every function also takes

- ``title`` : str, optional. The title, in place of the picture's own; an empty text shows none.
- ``timezone`` : str or tzinfo. Zone of the time axis. Plotly has no time zones, so all times are shown with the offset
  from UTC that the zone has at the first time. If the offset changes later, the axis label names the offset shown.
- ``dark`` : bool. Whether the background of the figure is dark.

and raises the errors of the static function, and ModuleNotFoundError if Plotly is not installed.

Figures stay small. If there are more than 5,000 candles, every picture shows candles of a coarser interval, the finest
that fits, and the title says so. If lines have more than 20,000 points, the figure keeps the lowest and the highest
point of each column of pixels. A heatmap is one image, with a grid of at most 20,000 cells that show their values on
hovering.

Two functions of `tidytape.plot` have no counterpart here: instead of `live` use `tidytape.plot.live_widget`; `panels`
lays out axes of matplotlib, which a figure of Plotly does not have.
"""

from __future__ import annotations

from tidytape import _other_clients
from tidytape.plot.interactive._markets import (
    completeness,
    coverage,
    funding,
    market_share,
    open_interest,
    premium,
    skew,
    smile,
    surface,
    term_structure,
    volatility,
)
from tidytape.plot.interactive._prices import (
    book_heatmap,
    candles,
    candles_with_profile,
    depth,
    footprint,
    liquidation_heatmap,
    liquidations,
    market_profile,
    order_flow,
    slippage,
    volume,
    volume_profile,
)

__all__ = [
    "book_heatmap",
    "candles",
    "candles_with_profile",
    "completeness",
    "coverage",
    "depth",
    "footprint",
    "funding",
    "liquidation_heatmap",
    "liquidations",
    "market_profile",
    "market_share",
    "open_interest",
    "order_flow",
    "premium",
    "skew",
    "slippage",
    "smile",
    "surface",
    "term_structure",
    "volatility",
    "volume",
    "volume_profile",
]

_other_clients.explain(__name__, __all__)
