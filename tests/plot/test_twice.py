"""Rows that came twice: no picture adds them up, of no frame."""

from __future__ import annotations

import narwhals.stable.v2 as nw
import polars as pl
import pytest
from matplotlib import pyplot as plt

import tidytape
from tidytape import plot
from tidytape.analytics import quality
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


@pytest.mark.slow
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


@pytest.mark.slow
def test_flow_that_came_twice_is_refused(demo):
    candles = demo.candles(interval="1h", **MARKET)
    sides = demo.candles(interval="1h", by_side=True, **MARKET)
    with pytest.raises(QueryError, match="3 rows with the timestamp and side of another row"):
        plot.order_flow(candles, and_again(sides, 3))
    trades = demo.trades(**MARKET | {"end": "2024-08-08T00:10Z"})
    with pytest.raises(QueryError, match="one row per timestamp and id"):
        plot.order_flow(candles, and_again(trades, 10))
    profile = demo.volume_profile(interval="1h", **MARKET)
    plot.order_flow(candles, profile)
    with pytest.raises(QueryError, match="one row per timestamp and price"):
        plot.order_flow(candles, and_again(profile, 1))


@pytest.mark.slow
def test_flow_that_nothing_tells_apart_is_added_up(demo):
    candles = demo.candles(interval="1h", **MARKET)
    trades = demo.trades(**MARKET | {"end": "2024-08-08T00:10Z"})
    whole = plot.order_flow(candles, trades)
    # Several trades of one moment and side are several trades.
    few = plot.order_flow(candles, trades.select("timestamp", "side", "amount"))
    assert few.cvd.get_data().values == pytest.approx(whole.cvd.get_data().values, nan_ok=True)
    profile = demo.volume_profile(interval="1h", **MARKET)
    plot.order_flow(candles, profile.select("timestamp", "buy_volume", "sell_volume"))


@pytest.mark.slow
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


@pytest.mark.slow
def test_levels_of_two_heights_are_refused(demo):
    fine = demo.volume_profile(interval="1h", **MARKET)
    coarse = demo.volume_profile(interval="1h", block_size=50, **MARKET)
    with pytest.raises(QueryError, match="2 values of block_size"):
        plot.volume_profile(pl.concat([fine, coarse]))


@pytest.mark.parametrize("side", [None, "maker", "BUY"])
def test_a_side_that_is_none_is_no_other_side(demo, side):
    book = demo.book_heatmap(interval="15m", **MARKET)
    strange = book.with_columns(side=pl.lit(side, pl.String))
    for draw in (plot.book_heatmap, plot.depth, plot.slippage):
        with pytest.raises(QueryError, match=r"side.*(rows of BID and ASK|bid or ask)"):
            draw(strange)
    longs = demo.liquidations(interval="1h", **MARKET).filter(pl.col("side") == "BUY")
    with pytest.raises(QueryError, match="a row whose side is not known"):
        plot.liquidations(longs.with_columns(side=pl.lit("N")))


@pytest.mark.slow
def test_touches_of_two_kinds_of_blocks_are_refused(demo):
    days = {"exchange": "DEMO_PERP", "coin": "BTC", "start": "2024-08-08", "end": "2024-08-09"}
    halves, fives = (demo.tpo(session="daily", block_minutes=minutes, **days) for minutes in (30, 5))
    with pytest.raises(QueryError, match="one row per timestamp and price"):
        plot.market_profile(pl.concat([halves, fives]))


@pytest.mark.slow
def test_holdings_and_completeness_that_came_twice_are_refused(demo):
    held = demo.describe(exchange="DEMO_PERP", coin="BTC")
    with pytest.raises(QueryError, match="one row per exchange, raw_symbol, coin, type and tables"):
        plot.coverage(and_again(held, 1))
    hours = quality.completeness(demo.candles(interval="5m", **MARKET), every="1h")
    with pytest.raises(QueryError, match="one row per series and start"):
        plot.completeness(and_again(hours, 1))
