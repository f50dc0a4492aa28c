"""Mistakes that users of other libraries make in names, values and arity: each answer names what to write instead."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import matplotlib.pyplot as plt
import polars as pl
import pytest

import tidytape
from tables import each_row
from tidytape import aggregate, plot, report
from tidytape.analytics import cross, depth, flow, funding, options, pit, profile, quality

DAY = {"start": "2024-08-08", "end": "2024-08-09"}
SPOT = {"exchange": "DEMO_SPOT", "raw_symbol": "BTCUSDT"}
HOUR = {**SPOT, "interval": "1h"}
CANDLES = {**HOUR, **DAY}


@pytest.fixture(scope="module")
def frames() -> Any:
    """The client of the demo, and frames as users have them."""
    with tidytape.Client.demo() as client:
        candles = client.candles(**CANDLES)
        sides, levels = client.candles(**CANDLES, by_side=True), client.volume_profile(**CANDLES)
        trades = client.trades(**SPOT, start="2024-08-08", end="2024-08-08T00:10:00Z")
        rates = client.funding(exchange="DEMO_PERP", coin="BTC", interval="1h", **DAY)
        book = client.book_heatmap(**HOUR, start="2024-08-08", end="2024-08-08T03:00:00Z")
        pandas = candles.to_pandas()
        capitals = pandas[["timestamp", "open", "high", "low", "close", "volume"]].rename(
            columns=str.capitalize
        )
        yield SimpleNamespace(
            client=client,
            query=client.query.candles(**CANDLES),
            candles=candles,
            sides=sides,
            levels=levels,
            trades=trades,
            rates=rates,
            book=book,
            pandas=pandas,
            capitals=capitals.rename(columns={"Timestamp": "Date"}),
            milliseconds=pandas.assign(timestamp=pandas["timestamp"].astype("int64") // 1_000_000),
        )
        plt.close("all")


CLIENT = [
    (lambda f: f.client.fetch_ohlcv("BTC/USDT", "1h"), 'write client.candles(interval="1h"'),
    (lambda f: f.client.klines(**HOUR), 'write client.candles(interval="1h"'),
    (lambda f: f.client.scan("BTC"), "write polars.scan_parquet(path)"),
    (lambda f: f.client.order_book("BTC/USDT"), "write client.book_heatmap(interval=…)"),
    (lambda f: f.client.value_area(f.levels), "write tidytape.analytics.profile.value_area"),
    (lambda f: f.client.markets("BTC"), "write markets(exchange=…, coin=…"),
    (lambda f: f.client.candles("BTC/USDT", "1h", 0), "write candles(exchange=…, interval=…, start=…"),
    (lambda f: f.client.candles(symbol="BTC/USDT"), 'write exchange="…" and raw_symbol="…"'),
    (lambda f: f.client.candles(**SPOT, timeframe="1h", **DAY), 'write interval="1h"'),
    (
        lambda f: f.client.candles(**SPOT, interval="1mo", **DAY),
        "months have no fixed length: take '1d' or '1w'",
    ),
    (lambda f: f.client.candles(**SPOT, interval="60min", **DAY), "did you mean '1h'?"),
    (lambda f: f.client.candles(**HOUR, start="01/08/2024"), "for example '2024-08-09T00:00:00Z'"),
    (lambda f: f.client.candles(**HOUR, start="2024-08-08", end="now"), "without end the window ends now"),
    (lambda f: f.client.candles(**HOUR, start=1723075200000), "this looks like milliseconds"),
    (lambda f: f.client.candles(**{**CANDLES, "exchange": "demo_spot"}), "did you mean 'DEMO_SPOT'?"),
    (
        lambda f: f.client.candles(**{**CANDLES, "exchange": "binance"}),
        "client.markets() lists what there is",
    ),
    (
        lambda f: f.client.candles(exchange="DEMO_SPOT", coin="BTC/USDT", interval="1h", **DAY),
        "did you mean 'BTC'?",
    ),
    (lambda f: f.client.candles(**HOUR, period="1mo"), 'write start="-30d"'),
    (lambda f: f.client.candles(**CANDLES, columns=["close"]), "leave it out: select columns of the frame"),
    (lambda f: f.client.candles(**CANDLES, by_side="yes"), "by_side: got 'yes', expected true or false"),
    (lambda f: f.client.candles(**CANDLES, sort="desc"), 'write sort_direction="desc"'),
    (lambda f: f.client.funding(**CANDLES, funding_interval=8), "of hours, write '8h'"),
    (lambda f: f.client.volume_profile(**CANDLES, bins=50), "write block_size=10"),
    (
        lambda f: tidytape.Client.candles(**CANDLES),
        "write client.candles(…) after client = tidytape.Client(…)",
    ),
    (lambda f: tidytape.Client.demo("pandas"), "write demo(backend=…)"),
    (lambda f: tidytape.download("BTC-USD"), "write client.candles(exchange=…"),
    (lambda f: f.query.collect(), "write client.fetch(query).frame"),
]
"""Of ccxt, yfinance and polars, over a client."""

FUNCTIONS = [
    (lambda f: tidytape.analytics.vwap(f.sides), "write tidytape.analytics.flow.vwap"),
    (lambda f: tidytape.analytics.rsi(f.candles), "write a method of the frame"),
    (lambda f: profile.value_areas(f.levels), "did you mean 'value_area'?"),
    (lambda f: profile.volume_profile(f.trades), "write tidytape.aggregate.volume_profile"),
    (lambda f: profile.poc(f.levels), "write profile.point_of_control(levels)"),
    (lambda f: aggregate.ohlcv(f.trades), 'aggregate.candles(trades, interval="1h")'),
    (lambda f: profile.value_area(f.levels, share=70), "70 percent is 0.7"),
    (lambda f: profile.value_area(f.levels, percent=70), "write share=0.7"),
    (lambda f: profile.value_area(f.levels, 0.7), "write value_area(levels, by=…"),
    (lambda f: profile.value_area(f.levels, group_by="timestamp"), 'write by="raw_symbol"'),
    (lambda f: profile.value_area(f.levels, rule="two-row"), "did you mean 'two_row'?"),
    (lambda f: profile.value_area(f.levels["volume"]), "pass the whole frame, not one column"),
    (lambda f: profile.value_area(f.candles), "client.volume_profile(...)"),
    (lambda f: flow.vwap(f.candles, window=20), "it takes frame, by, anchor, session"),
    (lambda f: flow.vwap(f.capitals), "rename its columns: {'Date': 'timestamp', 'High': 'high'"),
    (
        lambda f: flow.vwap(f.pandas.rename(columns={"volume": "vol"})),
        "rename its columns: {'vol': 'volume'}",
    ),
    (lambda f: flow.vwap(f.pandas.set_index("timestamp")), "frame.reset_index() makes it a column"),
    (lambda f: flow.vwap(f.milliseconds), "pd.to_datetime(frame['timestamp'], unit='ms', utc=True)"),
    (lambda f: flow.vwap(f.query), "pass client.fetch(query).frame"),
    (lambda f: flow.cvd(f.candles), "client.candles(..., by_side=True) returns it"),
    (
        lambda f: flow.vwap(f.candles.cast({"close": pl.String})),
        "text becomes numbers with frame.with_columns(",
    ),
    (lambda f: flow.cvd(f.sides, reset="1d"), 'write anchor="session" and period="1d"'),
    (lambda f: options.realized_volatility(f.candles, period=24), "write window=20, a number of rows"),
    (lambda f: options.realized_volatility(f.candles, n=24), "write window=20, a number of rows"),
    (lambda f: options.realized_volatility(f.candles, 24), "write realized_volatility(frame, window=…"),
    (lambda f: options.z_score(f.candles["close"], window=20), "write z_score(frame, value=…, window=…"),
    (lambda f: funding.annualized(f.rates, funding_interval=8), "of hours, write '8h'"),
    (lambda f: depth.depth_within(f.book, levels=10), "write bps=10"),
    (lambda f: cross.market_share(f.candles, amount="Volume"), "did you mean 'volume'?"),
    (lambda f: quality.gaps(f.candles, interval="1M"), "months have no fixed length"),
    (lambda f: aggregate.candles(f.trades, "1h"), "write candles(trades, interval=…, by_side=…)"),
    (lambda f: aggregate.candles(f.trades, freq="1h"), 'write interval="1h"'),
    (lambda f: aggregate.volume_profile(f.trades, interval="1h", bins=50), "write block_size=10"),
    (
        lambda f: aggregate.resample(f.candles, data_type="candles", interval="4h"),
        "did you mean 'TRADE_SIDE_AGNOSTIC_AGG'?",
    ),
]
"""Of pandas, polars and libraries of indicators, over analytics and aggregate."""

PLOTS = [
    (lambda f: plot.candlestick(f.candles), "write plot.candles(frame)"),
    (lambda f: plot.candles(f.candles, figsize=(8, 4)), "write ax=…, axes of your own"),
    (lambda f: plot.candles(f.candles, tz="Europe/Berlin"), 'write timezone="Europe/Berlin"'),
    (lambda f: plot.candles(f.capitals), "rename its columns: {'Date': 'timestamp', 'Open': 'open'"),
    (lambda f: plot.candles(f.pandas["close"]), "pass the whole frame, not one column"),
    (lambda f: plot.candles(f.query), "pass client.fetch(query).frame"),
    (lambda f: plot.candles(f.candles).savefig("a.png"), "write drawn.figure.savefig"),
    (lambda f: plot.candles(f.candles).set_title("BTC"), "write drawn.ax.set_title"),
    (lambda f: plot.volume_profile(f.levels, share=70), "70 percent is 0.7"),
    (lambda f: plot.market_share(f.candles), 'cross.market_share(frame, amount="volume") returns it'),
    (lambda f: plot.interactive.candle(f.candles), "did you mean 'candles'?"),
]
"""Of matplotlib and pandas, over plots."""

STUDIES = [
    (lambda f: pit.merge_asof(f.candles, f.rates), "write pit.asof_join(decisions, facts)"),
    (lambda f: pit.as_of(f.candles, when="2024-08-08"), 'write at="2024-08-08T12:00:00Z"'),
    (lambda f: pit.as_of(f.candles, at="08/08/2024"), "for example '2024-08-09T00:00:00Z'"),
    (lambda f: pit.asof_join(f.candles, f.rates, left_on="timestamp"), 'write on="timestamp"'),
    (
        lambda f: pit.asof_join(f.candles, f.rates, direction="forward"),
        "leave it out: only rows that were known",
    ),
    (lambda f: pit.asof_join(f.candles), "write asof_join(decisions, facts, on=…"),
    (lambda f: pit.known_at(f.candles, lag="1h"), 'write delay="1m"'),
    (lambda f: report.write("study.tape", output="report.html"), 'write out="report.html"'),
    (lambda f: report.record(f.client), "write record(client, tape, start=…"),
]
"""Of merge_asof and of libraries for backtests, over pit and reports."""


@pytest.mark.slow
@each_row("call, words", [*CLIENT, *FUNCTIONS, *PLOTS, *STUDIES])
def test_a_mistake_is_answered_with_what_to_write(frames: Any, call: Any, words: str) -> None:
    with pytest.raises(tidytape.TidytapeError) as caught:
        call(frames)
    assert words in str(caught.value)
