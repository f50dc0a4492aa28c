"""Order flow of two markets over three days: a side that did not trade, nulls, an unknown side, rows out of order."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import polars as pl

from analytics.matrix import Case
from tidytape import Session
from tidytape.analytics import flow

START = datetime(2024, 8, 8, 20, tzinfo=UTC)
IDENTITY = {"exchange": pl.String, "raw_symbol": pl.String, "interval": pl.String}
TIME = pl.Datetime("us", "UTC")


def frame(rows: list[tuple], **columns: pl.DataType | type[pl.DataType]) -> pl.DataFrame:
    """Rows of (hours since the start, …), of two markets, shuffled."""
    markets = [("A", "X", "HOUR"), (None, "X", "HOUR")]
    full = [
        (*market, START + timedelta(hours=hours), *values) for market in markets for hours, *values in rows
    ]
    schema = {**IDENTITY, "timestamp": TIME, **columns}
    return pl.DataFrame(full, schema=schema, orient="row").sample(fraction=1, shuffle=True, seed=1)


VOLUMES = [
    (0, "BUY", 0.1), (0, "SELL", 0.3), (1, "BUY", 2.0), (2, "SELL", 0.0), (2, "BUY", 0.0), (3, "SELL", 1.25),
    (4, "BUY", 1.5), (5, "BUY", None), (6, "SELL", 4.0), (28, "BUY", 5.0), (28, "SELL", 0.5), (29, "SELL", 0.5),
]  # fmt: skip
CANDLES = frame(VOLUMES, side=pl.String, volume=pl.Float64)
TRADES = frame(
    [(hours + n / 60, side, amount) for n in range(3) for hours, side, amount in VOLUMES]
    + [
        (30, "BUY", 1e-17),
        (31, "N", 1.0),
        (32, None, 1.0),
        (33, "SELL", float("nan")),
        (34, "BUY", -1.0),
    ],
    side=pl.String,
    amount=pl.Float64,
)
LIQUIDATIONS = frame(
    [
        *((0, "BUY", 2.0), (1, "BUY", 3.0), (1, "SELL", 1.0), (3, "BUY", 3.0), (4, "BUY", 3.0)),
        *((9, "SELL", 7.0), (10, "SELL", None), (11, "SELL", 0.0), (12, "BUY", 0.2)),
    ],
    side=pl.String,
    liquidations=pl.Float64,
)
_CLOSES = [100.0, 101.0, 102.0, 102.0, 90.0, 80.0, None, 85.0, 0.0, 85.0, 86.0]
_INTEREST = [10.0, 11.0, 10.5, 11.0, 12.0, 11.0, 11.0, 12.0, 12.0, 12.5, 12.501]
PRICES = frame(
    [(hour, close and close * 0.99, close) for hour, close in enumerate(_CLOSES)],
    open=pl.Float64,
    close=pl.Float64,
)
OPEN_INTEREST = frame(
    [(hour, close * 1.02, close) for hour, close in enumerate(_INTEREST) if hour != 3] + [(40, 1.0, 1.0)],
    open=pl.Float64,
    close=pl.Float64,
)

_KEY = ["exchange", "raw_symbol", "interval", "timestamp"]
_BY = ["exchange", "raw_symbol"]
PRICED = TRADES.with_columns(price=100.0 + pl.col("timestamp").dt.hour())
BARS = PRICES.with_columns(high=pl.max_horizontal("open", "close"), low=pl.col("close") * 0.98, volume=2.5)

CASES = [
    Case("delta", flow.delta, [CANDLES], _KEY),
    Case(
        "delta", lambda trades: flow.delta(trades, interval="1d"), [TRADES], _KEY, label="of trades, by day"
    ),
    Case("delta", lambda trades: flow.delta(trades, by=[]), [TRADES], ["timestamp"], label="of all together"),
    Case("cvd", flow.cvd, [CANDLES], _KEY),
    Case(
        "cvd",
        lambda trades: flow.cvd(flow.delta(trades, by="exchange"), by="exchange", anchor="session"),
        [TRADES],
        ["exchange", "timestamp"],
        label="of deltas, by session",
    ),
    Case(
        "cvd",
        lambda trades: flow.cvd(
            trades,
            by=_BY,
            interval="5m",
            anchor="session",
            period="8h",
            session_open="2024-08-09T21:30Z",
        ),
        [TRADES],
        [*_BY, "timestamp"],
        label="of trades, by session of 8 hours",
    ),
    Case(
        "cvd",
        lambda trades: flow.cvd(trades, by=_BY, interval="5m", anchor="session", session=Session.of("FX")),
        [TRADES],
        [*_BY, "timestamp"],
        label="of trades, by session of New York",
    ),
    Case(
        "vwap", lambda bars: flow.vwap(bars, anchor="session", period="4h"), [BARS], _KEY, label="of candles"
    ),
    Case(
        "vwap",
        lambda trades: flow.vwap(trades, by="exchange", interval="1h"),
        [PRICED],
        ["exchange", "timestamp"],
        label="of trades, by hour",
    ),
    Case("imbalance", flow.imbalance, [CANDLES], _KEY),
    Case(
        "imbalance", lambda trades: flow.imbalance(trades, interval="4h"), [TRADES], _KEY, label="of trades"
    ),
    Case("oi_price_quadrant", flow.oi_price_quadrant, [OPEN_INTEREST, PRICES], _KEY),
    Case(
        "oi_price_quadrant",
        lambda interest, candles: flow.oi_price_quadrant(
            interest, candles, by="exchange", change="open_to_close", price_band=0.005, oi_band=0.01
        ),
        [OPEN_INTEREST, PRICES],
        ["exchange", "timestamp"],
        label="from the open, with bands",
    ),
    Case("liquidation_imbalance", flow.liquidation_imbalance, [LIQUIDATIONS], _KEY),
    Case(
        "liquidation_imbalance",
        lambda frame: flow.liquidation_imbalance(frame, interval="4h", sampled=False),
        [LIQUIDATIONS],
        _KEY,
        label="by four hours",
    ),
    Case(
        "liquidation_cascades",
        lambda frame: flow.liquidation_cascades(frame, threshold=5, gap="1h", by=[*_BY, "side"]),
        [LIQUIDATIONS],
        [*_BY, "side", "start"],
    ),
    Case(
        "liquidation_cascades",
        lambda frame: flow.liquidation_cascades(
            frame, threshold=0.5, gap="4h", by=[], smallest=1.0, sampled=False
        ),
        [LIQUIDATIONS],
        ["start"],
        label="of all together",
    ),
    Case(
        "large_trade_share",
        lambda trades: flow.large_trade_share(trades, at_least=1.5, interval="4h"),
        [TRADES],
        _KEY,
    ),
    Case(
        "large_trade_share",
        lambda trades: flow.large_trade_share(trades, above_quantile=0.9, by=_BY, interval="1d"),
        [TRADES],
        [*_BY, "timestamp"],
        label="of a quantile",
    ),
    Case(
        "large_trade_share",
        lambda candles: flow.large_trade_share(candles, above_quantile=0.9, by=_BY, volume="volume"),
        [CANDLES.drop_nulls("volume")],
        _BY,
        label="without an interval",
    ),
]
