"""The pictures of `tidytape.plot` that answer to the mouse: figures of Plotly, which zoom, and say values with units.

Functions have the names of `tidytape.plot` and take the same frames and options, but for ``ax`` and ``axes``. What is
shown is what the static function draws: the same numbers, units, titles and colours. They need Plotly:
``pip install 'tidytape[interactive]'``.

>>> import tidytape
>>> market = {"exchange": "DEMO_SPOT", "raw_symbol": "BTCUSDT", "start": "2024-08-08", "end": "2024-08-09"}
>>> with tidytape.Client.demo() as client:
...     figure = candles(client.candles(interval="1h", **market))
>>> figure.layout.title.text, figure.layout.yaxis.title.text
('DEMO_SPOT BTCUSDT, 1h', 'Price [USDT per BTC]')

A notebook shows a figure that a cell returns; ``figure.write_html("candles.html")`` makes a page of it.

Every function also takes

- ``timezone`` : str or tzinfo. Zone of the time axis. Plotly knows no time zones, so times have the offset from UTC
  that the zone has at the first of them; where it changes later, the label says which offset is shown.
- ``dark`` : bool. Whether the face of the figure is dark.

and raises what the static function raises, and ModuleNotFoundError where Plotly is not installed.

A figure stays small: at most 5,000 candles, of the next coarser interval that fits where there are more, which the
title says; lines of more than 20,000 points keep the lowest and the highest point of each column of pixels.
"""

from __future__ import annotations

from tidytape.plot.interactive._candles import candles, volume
from tidytape.plot.interactive._lines import funding, premium, skew, volatility
from tidytape.plot.interactive._liquidations import liquidations
from tidytape.plot.interactive._open_interest import open_interest
from tidytape.plot.interactive._order_flow import order_flow
from tidytape.plot.interactive._profile import candles_with_profile, volume_profile

__all__ = [
    "candles",
    "candles_with_profile",
    "funding",
    "liquidations",
    "open_interest",
    "order_flow",
    "premium",
    "skew",
    "volatility",
    "volume",
    "volume_profile",
]
