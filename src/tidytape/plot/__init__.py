"""Pictures of tidy frames, with matplotlib: one function per subject.

- `book_heatmap` : resting size over time and price, with mid and trades.
- `liquidations` : liquidated volume over time; `liquidation_heatmap` over time and price.
- `candles` : prices over time.
- `volume` : traded volume over time.
- `volume_profile` : traded volume by price, with the point of control and the value area.
- `market_profile` : time blocks at each price, as blocks or letters, sessions side by side.
- `candles_with_profile` : the three of them on shared axes, laid out by `panels`.
- `footprint` : volume sold and bought at each price in each interval.
- `order_flow` : candles, delta and cumulative volume delta on shared time.
- `depth` : resting size from the mid up to each price; `slippage` : cost of a market order by its size.
- `funding` : settled and predicted funding rates per year, and their mean by open interest.
- `open_interest` : open interest over time; with candles also which positions were opened or closed.
- `premium` : relative difference between each market's price and a reference price.
- `market_share` : shares of markets in a sum, stacked.
- `volatility` : implied volatility over time by tenor, with realised volatility.
- `skew` : skew or risk reversals over time by tenor.
- `smile` : implied volatility by strike, one colour per expiry.
- `surface` : implied volatility over strike and time to expiry.
- `term_structure` : implied volatility or skew by tenor or by days to expiry.
- `completeness` : how complete series are, as a calendar.
- `coverage` : first and last time and gaps of each market in a lake or a service.
- `Drawing` : what each of these functions returns.
- `interactive` : the same pictures as Plotly figures, in which you can zoom and read values.
- `live` : a live frame, drawn anew as it grows; `live_widget` : the same as a widget, where plotly is installed.

Every function draws on the axes that you pass, or on a new figure, and returns a `Drawing`: ``drawn.save("drawn.png")``
writes the picture to a file, and "Returns" of a function names its artists and numbers. A picture of several panels
takes ``axes``, one per panel from the top down; any other takes ``ax``. ``title`` replaces the title. No function shows
a window, and none changes a setting or another figure. Polars and pandas frames look the same, and times may be
datetimes with a zone or int64 nanoseconds since the epoch. More than 5,000 candles are joined to candles of a coarser
interval, and the title says so.
"""

from __future__ import annotations

from tidytape import _other_clients
from tidytape.plot import interactive
from tidytape.plot._candles import candles, volume
from tidytape.plot._completeness import completeness
from tidytape.plot._coverage import coverage
from tidytape.plot._cross import market_share, premium
from tidytape.plot._depth import depth, slippage
from tidytape.plot._footprint import footprint
from tidytape.plot._funding import funding
from tidytape.plot._heatmap import book_heatmap
from tidytape.plot._liquidations import liquidation_heatmap, liquidations
from tidytape.plot._live import live
from tidytape.plot._market_profile import market_profile
from tidytape.plot._matplotlib import Drawing
from tidytape.plot._open_interest import open_interest
from tidytape.plot._order_flow import order_flow
from tidytape.plot._panels import candles_with_profile, panels
from tidytape.plot._profile import volume_profile
from tidytape.plot._smile import smile
from tidytape.plot._surface import surface
from tidytape.plot._term_structure import term_structure
from tidytape.plot._volatility import skew, volatility
from tidytape.plot._widget import live_widget

__all__ = [
    "Drawing",
    "book_heatmap",
    "candles",
    "candles_with_profile",
    "completeness",
    "coverage",
    "depth",
    "footprint",
    "funding",
    "interactive",
    "liquidation_heatmap",
    "liquidations",
    "live",
    "live_widget",
    "market_profile",
    "market_share",
    "open_interest",
    "order_flow",
    "panels",
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
