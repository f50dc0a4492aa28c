"""A call of each function of ``tidytape.plot`` that takes a frame, which answers with every number that it drew."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from typing import Any

import numpy as np
import polars as pl
from matplotlib.artist import Artist
from matplotlib.collections import Collection, LineCollection, PathCollection, PolyCollection, QuadMesh
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, StepPatch

import tidytape
from analytics.matrix import Case
from tidytape import plot
from tidytape.analytics import cross, options, quality

__all__ = ["PICTURES", "WITHOUT_FRAME", "cases", "drawn_numbers"]

WITHOUT_FRAME = {
    "interactive": "the same pictures for the browser",
    "live": "takes a live frame",
    "live_widget": "takes a live frame",
    "panels": "makes axes",
}
_HOURS = {"start": "2024-08-08", "end": "2024-08-08T06:00"}
_SPOT = {"exchange": "DEMO_SPOT", "raw_symbol": "BTCUSDT", **_HOURS}
_PERP = {"exchange": "DEMO_PERP", "raw_symbol": "BTC-PERP", **_HOURS}
_COIN = {"exchange": "DEMO_PERP", "coin": "BTC", **_HOURS}
_PLACES: dict[str, Any] = {
    "candles_with_profile": lambda figure: {"axes": plot.panels(figure)},
    "order_flow": lambda figure: {"axes": figure.subplots(3, sharex=True)},
    "open_interest": lambda figure: {"axes": figure.subplots(3, sharex=True)},
}


PICTURES: dict[str, Callable[[], plot.Drawing]] = {}
"""What draws the picture of each case, once `cases` was called."""


def drawn_numbers(figure: Figure) -> pl.DataFrame:
    """Return the numbers of all marks of a figure and the limits of its data, in the order of drawing."""
    numbers = np.concatenate([np.ravel(np.asarray(array, float)) for array in _arrays(figure)])
    return pl.DataFrame({"place": np.arange(numbers.size), "drawn": numbers}).fill_nan(None)


def _arrays(figure: Figure) -> Iterator[Any]:
    for ax in figure.axes:
        yield from (ax.get_xlim(), ax.get_ylim())
        for artist in ax.get_children():
            yield from _of_artist(artist)


def _of_artist(artist: Artist) -> Iterator[Any]:
    match artist:
        case Line2D():
            yield from (artist.get_xdata(orig=False), artist.get_ydata(orig=False))
        case StepPatch():
            values, edges, baseline = artist.get_data()
            yield from (values, edges, [0.0] if baseline is None else baseline)
        case Patch():
            yield artist.get_path().vertices
        case AxesImage():
            yield from (np.ma.filled(np.ma.asarray(artist.get_array(), float), np.nan), artist.get_extent())
        case QuadMesh():
            yield np.ma.filled(np.ma.asarray(artist.get_array(), float), np.nan)
        case LineCollection():
            yield from artist.get_segments()
        case PathCollection():
            yield from (artist.get_offsets(), artist.get_sizes())
        case PolyCollection():
            yield from (path.vertices for path in artist.get_paths())
        case Collection():
            yield artist.get_offsets()


def _picture(name: str, frames: Sequence[pl.DataFrame], *others: str, label: str = "", **asked: Any) -> Case:
    """Return the case of a function, whose last frames are those of the arguments that ``others`` names."""

    def picture(*drawn: Any) -> plot.Drawing:
        figure = Figure(figsize=(8, 5), dpi=100)
        place = _PLACES.get(name, lambda figure: {"ax": figure.add_subplot()})(figure)
        first = len(drawn) - len(others)
        named = dict(zip(others, drawn[first:], strict=True))
        answer: plot.Drawing = getattr(plot, name)(*drawn[:first], **named, **place, **asked)
        return answer

    def draw(*drawn: Any) -> pl.DataFrame:
        return drawn_numbers(picture(*drawn).figure)

    PICTURES[f"{name} {label}".strip()] = partial(picture, *frames)
    return Case(name, draw, frames, ["place"], own_kind=True, label=label)


@cache
def cases() -> list[Case]:
    """Return the cases; their frames are fetched from the simulated market on the first call."""
    with tidytape.Client.demo() as client:
        candles = client.candles(interval="1h", **_SPOT)
        perpetual = client.candles(interval="1h", **_PERP)
        sides = client.candles(interval="1h", by_side=True, **_PERP)
        minutes = {"start": "2024-08-08", "end": "2024-08-08T00:20"}
        trades = client.trades(**_SPOT | minutes)
        both = client.candles(
            exchange=["DEMO_SPOT", "DEMO_PERP"], raw_symbol=None, coin="BTC", interval="1h", **_HOURS
        )
        profile = client.volume_profile(interval="1h", block_size=50, **_PERP)
        whole = client.volume_profile(interval="1d", block_size=50, **_SPOT | {"end": "2024-08-09"})
        book = client.book_heatmap(interval="15m", block_size=50, **_SPOT | {"end": "2024-08-08T01:00"})
        interest = client.open_interest(interval="1h", **_PERP)
        rates = client.funding(interval="1h", **_COIN)
        liquidations = client.liquidations(interval="1h", **_PERP)
        heatmap = client.liquidation_heatmap(interval="1h", **_COIN)
        tpo = client.tpo(session="daily", block_size=100, **_SPOT | {"end": "2024-08-09"})
        summary = {"exchange": "DEMO_OPTIONS", "interval": "1h", **_HOURS}
        implied = client.implied_volatility(raw_symbol="BTC_ATM", **summary)
        skew = client.skew(tenor="1w", coin="BTC", raw_symbol="BTC_25", **summary)
        chain = client.events("option_quotes", coin="BTC", start="2024-08-08", end="2024-08-08T00:15")
        holdings = client.describe(coin="BTC")
        realized = options.realized_volatility(client.candles(interval="5m", **_SPOT), window=12)
    fits = options.svi(chain)
    return [
        _picture("candles", [candles]),
        _picture("volume", [candles]),
        _picture("volume_profile", [whole]),
        _picture("candles_with_profile", [candles, whole]),
        _picture("market_profile", [tpo], block_minutes=30),
        _picture("footprint", [profile]),
        _picture("order_flow", [perpetual, sides]),
        _picture("order_flow", [candles, trades], label="of trades"),
        _picture("funding", [rates, interest], "open_interest"),
        _picture("open_interest", [interest, perpetual], "candles"),
        _picture("premium", [cross.premium(both)]),
        _picture("market_share", [cross.market_share(both, amount="volume")]),
        _picture("volatility", [implied, realized], "realized"),
        _picture("skew", [skew]),
        _picture("smile", [chain, fits], "curves"),
        _picture("surface", [fits]),
        _picture("term_structure", [options.term_structure(options.delta_points(chain))]),
        _picture("liquidations", [liquidations, perpetual], "candles"),
        _picture("liquidation_heatmap", [heatmap, perpetual], "candles"),
        _picture("book_heatmap", [book, trades], "trades"),
        _picture("depth", [book]),
        _picture("slippage", [book], size=[0.1, 1, 10]),
        _picture("coverage", [holdings]),
        _picture("completeness", [quality.completeness(both, every="1h")]),
    ]
