"""Points of four markets of two coins: ties, nulls, a market that falls silent, a coin without a name."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import polars as pl

from analytics.matrix import Case
from tidytape.analytics import cross

START = datetime(2024, 8, 8, tzinfo=UTC)
_TIME = pl.Datetime("us", "UTC")
_PRICES = ("open", "high", "low", "close")


def at(hour: float | None, second: float = 0.0) -> datetime | None:
    return None if hour is None else START + timedelta(hours=hour, seconds=second)


CANDLES = (
    pl.DataFrame(
        [
            # exchange, symbol, coin, hour, open, high, low, close, volume, first, last
            ("B", "BTCUSDT", "BTC", 0, 10.0, 12.0, 9.0, 11.0, 0.1, 5, 50),
            ("A", "BTCUSDT", "BTC", 0, 10.5, 11.0, 10.0, 10.0, 0.2, 5, 50),  # at the same moments
            ("A", "BTCUSDC", "BTC", 0, 10.5, 11.5, 10.5, 11.0, 0.3, 7, 49),
            ("B", "BTCUSDT", "BTC", 1, 11.0, 11.0, 11.0, 11.0, 0.0, None, None),  # only fills a gap
            ("A", "BTCUSDT", "BTC", 1, 10.0, 10.5, 9.5, 10.25, 0.7, 1, 9),
            ("B", "BTCUSDT", "BTC", 2, 11.0, 11.0, 11.0, 11.0, 0.0, None, None),
            ("A", "BTCUSDT", "BTC", 3, None, None, None, None, None, 1, 9),
            ("A", "BTCUSDC", "BTC", 3, 10.0, 10.0, 10.0, 10.0, 1.5, 3, 8),
            ("A", "X", None, 0, 0.1, 0.3, 0.1, 0.2, 4.0, 5, 50),
            ("B", "X", None, 0, 0.2, 0.2, 0.2, 0.2, 1.0, 4, 4),
        ],
        schema=["exchange", "raw_symbol", "coin", "hour", *_PRICES, "volume", "first", "last"],
        orient="row",
    )
    .with_columns(
        interval=pl.lit("HOUR"),
        timestamp=(pl.lit(START) + pl.duration(hours="hour")).cast(_TIME),
        first_timestamp=(pl.lit(START) + pl.duration(hours="hour", seconds="first")).cast(_TIME),
        last_timestamp=(pl.lit(START) + pl.duration(hours="hour", seconds="last")).cast(_TIME),
    )
    .drop("hour", "first", "last")
    .cast({"exchange": pl.Categorical, "raw_symbol": pl.Categorical})
    .sample(fraction=1, shuffle=True, seed=5)
)

TWICE = pl.concat([CANDLES, CANDLES.filter(pl.col("timestamp") == START)])

INTEREST = (
    pl.DataFrame(
        [
            ("A", "BTC", 0, 9e9, 11e9, None, 10e9),
            ("B", "BTC", 0, 0.1e9, 0.1e9, 0.1e9, 0.1e9),
            ("C", "BTC", 0, 1e9, 1e9, 1e9, 1e9),
            ("B", "BTC", 2, 0.2e9, 0.4e9, 0.1e9, 0.3e9),
            ("A", "BTC", 30, 7e9, 7e9, 7e9, 7e9),
            ("C", "BTC", 30, 1e9, 1e9, 1e9, None),
            ("A", None, 2, 5.0, 5.0, 5.0, 5.0),
            ("B", None, 2, 0.0, 0.0, 0.0, 0.0),
        ],
        schema=["exchange", "coin", "hour", *_PRICES],
        orient="row",
    )
    .with_columns(
        raw_symbol=pl.coalesce("coin", pl.lit("X")) + "-PERP",
        timestamp=(pl.lit(START) + pl.duration(hours="hour")).cast(_TIME),
    )
    .drop("hour")
    .sample(fraction=1, shuffle=True, seed=6)
)

RATES = (
    pl.DataFrame(
        [
            ("A", "BTC", 0, 0.0005),
            ("B", "BTC", 0, 0.002),
            ("D", "BTC", 0, 0.9),  # without open interest
            ("A", "BTC", 1, None),
            ("B", "BTC", 1, -0.001),
            ("A", "BTC", 26, 0.0001),  # its open interest is too old
            ("B", "BTC", 26, 0.0003),
            ("A", None, 2, 0.0004),
            ("B", None, 2, 0.0008),
        ],
        schema=["exchange", "coin", "hour", "rate_close"],
        orient="row",
    )
    .with_columns(
        raw_symbol=pl.coalesce("coin", pl.lit("X")) + "-PERP",
        interval=pl.lit("HOUR"),
        timestamp=(pl.lit(START) + pl.duration(hours="hour")).cast(_TIME),
    )
    .drop("hour")
    .cast({"exchange": pl.Categorical})
)

LEVELS = pl.DataFrame(
    {
        "exchange": ["A", "A", "B", "B", "B"],
        "raw_symbol": ["X"] * 5,
        "coin": ["BTC"] * 5,
        "timestamp": [START] * 5,
        "price": [0.1, 0.2, 0.2, 0.3, 0.3],
        "buy_volume": [0.1, 0.2, 0.1, None, 1.0],
        "sell_volume": [0.0, 0.0, 0.3, float("inf"), 2.0],
    },
    schema_overrides={"timestamp": _TIME},
)

CAPS = pl.DataFrame(
    {
        "coin": ["BTC", "ETH", "X", "BTC", "X", "ETH", "BTC"],
        "timestamp": [START] * 3 + [START + timedelta(hours=12)] * 2 + [START + timedelta(days=2)] * 2,
        "marketcap": [3e12, 1e12, 1e12, 2e12, 5e11, 1.5e12, None],
    },
    schema_overrides={"timestamp": _TIME},
)

ACROSS = ["coin", "interval", "timestamp"]
MARKETS = [*ACROSS, "exchange", "raw_symbol"]

CASES = [
    Case("total", lambda candles: cross.total(candles, amount="volume"), [CANDLES], ACROSS),
    Case(
        "total",
        lambda interest: cross.total(interest, amount=_PRICES, carry="24h"),
        [INTEREST],
        ["coin", "timestamp"],
        label="of a stock",
    ),
    Case(
        "total",
        lambda levels: cross.total(levels, amount=["buy_volume", "sell_volume"], by=["coin", "price"]),
        [LEVELS],
        ["coin", "price", "timestamp"],
        label="of levels",
    ),
    Case("market_share", lambda candles: cross.market_share(candles, amount="volume"), [CANDLES], MARKETS),
    Case(
        "dominance",
        lambda caps: cross.dominance(caps, universe={"BTC", "ETH"}),
        [CAPS],
        ["timestamp", "coin"],
    ),
    Case("oi_weighted", cross.oi_weighted, [RATES, INTEREST], ACROSS),
    Case(
        "oi_weighted",
        lambda rates, interest: cross.oi_weighted(rates, interest, by=(), carry="1h"),
        [RATES, INTEREST],
        ["timestamp"],
        label="of all, an hour",
    ),
    Case(
        "oi_weighted",
        cross.oi_weighted,
        [
            RATES.with_columns(interval=pl.lit("DAY")),
            INTEREST.with_columns(
                interval=pl.when(exchange="A").then(pl.lit("1d")).otherwise(pl.lit("HOUR"))
            ),
        ],
        ACROSS,
        label="of other lengths",
    ),
    Case("volume_weighted", cross.volume_weighted, [CANDLES], ACROSS),
    Case(
        "volume_weighted",
        lambda candles: cross.volume_weighted(candles, price="open", unit="quote", by="coin"),
        [CANDLES],
        ["coin", "timestamp"],
        label="of volumes in USD",
    ),
    Case("consolidated", cross.consolidated, [CANDLES], ACROSS),
    *(
        Case(call.__name__, call, [TWICE], ACROSS, label="a market twice")
        for call in (cross.consolidated, cross.dispersion, cross.volume_weighted)
    ),
    *(
        Case(
            "total",
            lambda candles, carry=carry: cross.total(candles, amount="volume", carry=carry),
            [TWICE],
            ACROSS,
            label=f"a market twice, {carry}",
        )
        for carry in (None, "1h")
    ),
    Case("dispersion", cross.dispersion, [CANDLES], ACROSS),
    Case("premium", cross.premium, [CANDLES], MARKETS),
    Case(
        "premium",
        lambda candles: cross.premium(candles, reference="mean", value="open"),
        [CANDLES],
        MARKETS,
        label="over the mean",
    ),
    Case(
        "premium",
        lambda candles: cross.premium(
            candles, reference={"exchange": "A", "raw_symbol": "BTCUSDC"}, by="coin"
        ),
        [CANDLES],
        ["coin", "timestamp", "exchange", "raw_symbol"],
        label="over a market",
    ),
]
