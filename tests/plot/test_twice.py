"""Rows that came twice: no picture adds them up, of no frame."""

from __future__ import annotations

import narwhals.stable.v2 as nw
import pytest
from matplotlib import pyplot as plt

import tidytape
from tidytape import plot
from tidytape.errors import QueryError

HOURS = {"start": "2024-08-08", "end": "2024-08-08T06:00Z"}
MARKET = {"exchange": "DEMO_PERP", "raw_symbol": "BTC-PERP", **HOURS}
COIN = {"exchange": "DEMO_PERP", "coin": "BTC", **HOURS}
SPOT = {"exchange": "DEMO_SPOT", "raw_symbol": "BTCUSDT", **HOURS}
PICTURES = {
    "liquidations": ("liquidations", "15m"),
    "liquidation_heatmap": ("liquidation_heatmap", "15m"),
    "volume_profile": ("volume_profile", "1h"),
    "footprint": ("volume_profile", "1h"),
    "book_heatmap": ("book_heatmap", "15m"),
    "depth": ("book_heatmap", "15m"),
    "slippage": ("book_heatmap", "15m"),
    "candles": ("candles", "1h"),
    "funding": ("funding", "1h"),
    "open_interest": ("open_interest", "1h"),
}
"""The method of the client whose frame a picture draws, and an interval."""


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def demo():
    with tidytape.Client.demo() as client:
        yield client


def and_again(frame, rows):
    """Return a frame with its first rows once more."""
    frame = nw.from_native(frame)
    return nw.concat([frame, frame.head(rows)]).to_native()


@pytest.mark.parametrize("backend", ["polars", "pandas"])
@pytest.mark.parametrize("name", PICTURES)
def test_a_row_that_came_twice_is_refused(name, backend):
    method, interval = PICTURES[name]
    with tidytape.Client.demo(backend=backend) as client:
        whose = COIN if method == "liquidation_heatmap" else MARKET
        frame = getattr(client, method)(interval=interval, **whose)
    draw = getattr(plot, name)
    draw(frame)
    for rows in (1, len(frame)):
        with pytest.raises(QueryError, match="one row per"):
            draw(and_again(frame, rows))


def test_flow_that_came_twice_is_refused_and_trades_may_come_twice(demo):
    candles = demo.candles(interval="1h", **MARKET)
    sides = demo.candles(interval="1h", by_side=True, **MARKET)
    with pytest.raises(QueryError, match="3 rows with the timestamp and side of another row"):
        plot.order_flow(candles, and_again(sides, 3))
    sums = sides.pivot("side", index="timestamp", values="volume")
    sums = sums.rename({"BUY": "buy_volume", "SELL": "sell_volume"})
    plot.order_flow(candles, sums)
    with pytest.raises(QueryError, match=r"one row per timestamp"):
        plot.order_flow(candles, and_again(sums, 2))
    trades = demo.trades(**MARKET | {"end": "2024-08-08T00:10Z"})
    plot.order_flow(candles, and_again(trades, 10))


def test_what_is_of_another_market_is_named_in_the_title(demo):
    def titled(drawn):
        return (drawn.ax if hasattr(drawn, "ax") else drawn.axes.price).get_title(loc="left")

    candles = demo.candles(interval="1h", **SPOT)
    sides = demo.candles(interval="1h", by_side=True, **MARKET)
    assert titled(plot.order_flow(candles, sides)).endswith("1h, flow of DEMO_PERP BTC-PERP")
    own = demo.candles(interval="1h", **MARKET)
    assert titled(plot.order_flow(own, sides)) == "Order flow · DEMO_PERP BTC-PERP, 1h"

    liquidations = demo.liquidations(interval="1h", **MARKET)
    title = titled(plot.liquidations(liquidations, candles=candles))
    assert title == "Liquidations · DEMO_PERP BTC-PERP, 1h, close of DEMO_SPOT BTCUSDT"

    book = demo.book_heatmap(interval="15m", **MARKET)
    trades = demo.trades(**SPOT | {"end": "2024-08-08T00:10Z"})
    assert titled(plot.book_heatmap(book, trades=trades)).endswith("15m, trades of DEMO_SPOT BTCUSDT")
