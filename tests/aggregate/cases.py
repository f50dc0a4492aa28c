"""A call of each function of ``tidytape.aggregate``: events and points of two markets over two hours.

Times have a zone, as a client's frames have, and each frame is clean: sides are BUY, SELL, BID or ASK, and numbers are
float64. ``WITHOUT_FRAME`` names what takes no frame.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any

import polars as pl

from analytics.matrix import Case
from tidytape import aggregate

__all__ = ["CASES", "WITHOUT_FRAME"]

START = datetime(2024, 8, 8, tzinfo=UTC)
TIME = pl.Datetime("us", "UTC")
MARKET = ["exchange", "raw_symbol"]
WITHOUT_FRAME = {"Grid": "is the grid itself", "recommended_block_size": "takes a price"}


def frame(rows: list[tuple[Any, ...]], names: list[str]) -> pl.DataFrame:
    """Rows of (symbol, seconds since the start, …) of exchange A, in no order."""
    table = pl.DataFrame(
        rows, schema=["raw_symbol", "seconds", *names], orient="row", infer_schema_length=None
    )
    return table.select(
        pl.lit("A").alias("exchange"),
        "raw_symbol",
        (pl.lit(START) + pl.duration(seconds="seconds")).cast(TIME).alias("timestamp"),
        *names,
    ).sample(fraction=1, shuffle=True, seed=3)


_PRICES = [9999.5, 10000.5, 10001.0, 9998.0, 10000.5, 9999.5, 10002.5, 10001.5]
TRADES = frame(
    [
        (
            symbol,
            600 * step + 7 * (symbol == "Y"),
            step,
            f"{symbol}{step}",
            ("BUY", "SELL")[step % 3 == 1],
            price,
            float(step + 1),
            price * (step + 1),
        )
        for symbol in "XY"
        for step, price in enumerate(_PRICES)
    ],
    ["sequence", "id", "side", "price", "amount", "quote_amount"],
)
LIQUIDATIONS = TRADES.with_columns(coin=pl.lit("BTC"))
MINUTES = aggregate.minute_candles(TRADES)
LEVELS = aggregate.minute_profile(TRADES, block_size="0.5")

CANDLES = frame(
    [
        (symbol, 1800 * step, "THIRTY_MINUTES", price, price + 2.5, price - 1.5, price + 1.0, float(step + 1))
        for symbol in "XY"
        for step, price in enumerate(_PRICES)
    ],
    ["interval", "open", "high", "low", "close", "volume"],
).with_columns(
    first_timestamp=pl.col("timestamp") + timedelta(minutes=1),
    last_timestamp=pl.col("timestamp") + timedelta(minutes=20),
    amount_unit=pl.lit("COIN"),
    coin=pl.lit("BTC"),
)
SIDES = pl.concat([CANDLES.with_columns(side=pl.lit(side)) for side in ("BUY", "SELL")])
RATES = frame(
    [
        (symbol, 1800 * step, "THIRTY_MINUTES", *(1e-4 * (step + part) for part in (1, 3, 0, 2, 1, 3, 0, 2)))
        for symbol in "XY"
        for step in range(4)
    ],
    ["interval"]
    + [f"{kind}_{part}" for kind in ("rate", "predicted") for part in ("open", "high", "low", "close")],
).with_columns(coin=pl.lit("BTC"))
PROFILE = frame(
    [
        (symbol, 1800 * step, "THIRTY_MINUTES", 9999.5 + row / 2, float(row + 1), float(step + 1))
        for symbol in "XY"
        for step, row in product(range(4), range(3))
    ],
    ["interval", "price", "buy_volume", "sell_volume"],
).with_columns(
    volume=pl.col("buy_volume") + pl.col("sell_volume"), amount_unit=pl.lit("COIN"), coin=pl.lit("BTC")
)
BLOCKS = PROFILE.select(
    *("exchange", "raw_symbol", "coin", "interval", "amount_unit", "timestamp", "price"),
    side=pl.when(pl.col("price") < 10000.0).then(pl.lit("BID")).otherwise(pl.lit("ASK")),
    size=pl.col("volume"),
)
LIQUIDATED = SIDES.select(
    *("exchange", "raw_symbol", "coin", "interval", "amount_unit", "side", "timestamp"),
    liquidations=pl.col("volume"),
)
INTEREST = CANDLES.drop("volume", "first_timestamp", "last_timestamp")
_OHLC = ["open", "high", "low", "close"]
FUTURES = INTEREST.drop("amount_unit").with_columns(
    (pl.col(name) * factor).alias(f"{prefix}_{name}")
    for prefix, factor in (("value", 2.0), ("price", 0.5))
    for name in _OHLC
)

BOOK = frame(
    [
        ("X", 60 * minute, step, minute == 0, side, price, float(size), 10 * minute + step)
        for minute, size in ((0, 4), (1, 6), (3, 5))
        for step, (side, price) in enumerate(
            [("BID", 99.5), ("BID", 99.0), ("ASK", 100.5), ("ASK", 101.0)][: 4 if minute == 0 else 2]
        )
    ],
    ["step", "is_snapshot", "side", "price", "size", "sequence"],
).select(
    *MARKET,
    "timestamp",
    (pl.col("sequence") // 10 + 1).alias("last_id"),
    "is_snapshot",
    "side",
    "price",
    "size",
    "sequence",
)
RUNS = aggregate.book_runs(BOOK)
INSTANTS = frame([("X", 90, 2), ("X", 400, 4)], ["last_id"])
_LAST_EVENT = int(START.timestamp() * 10**9) + 180 * 10**9
BOOK_MINUTES = aggregate.book_heatmap(BOOK, interval="1m", block_size="0.5", in_quote=True)

REPORTS = frame(
    [
        (
            symbol,
            1200 * step,
            100.0 + step,
            1000000.0 + 10000.0 * step,
            10000.0 + step,
            0.0001 * (step + 1),
            0.0001 * (step + 2),
            (1 + 7 * (symbol == "Y")) * 3600 * 10**9,
        )
        for symbol in "XY"
        for step in range(5)
    ],
    ["amount", "usd_amount", "price", "rate", "predicted_rate", "funding_interval"],
)
TOKENS = pl.DataFrame(
    [
        (
            name,
            name[:3].upper(),
            START + timedelta(hours=9 * step),
            1000000000000.0 * (step + size),
            *tuple(1000000.0 * (step + size + part) for part in range(7)),
            size,
            "chain",
            "0x1",
        )
        for size, name in enumerate(("bitcoin", "ethereum"), 1)
        for step in range(4)
    ],
    schema=[
        "token_name",
        "coin",
        "timestamp",
        "marketcap",
        "total_value_locked",
        "fully_diluted_valuation",
        "total_volume",
        "circulating_supply",
        "total_supply",
        "max_supply",
        "usd_price",
        "cg_marketcap_rank",
        "chain",
        "contract_address",
    ],
    schema_overrides={"timestamp": TIME},
    orient="row",
).with_columns(pl.col("usd_price") / 1e3)
CHAIN = pl.DataFrame(
    [
        (
            "A",
            f"BTC-{days}-{strike}-{kind}",
            START + timedelta(minutes=40 * step),
            "BTC",
            kind,
            float(strike),
            START + timedelta(days=days, hours=8),
            60.0 - step + abs(strike - 10000) / 500,
            10000.0 + days,
            float(step + days),
        )
        for step, days, strike, kind in product(
            range(2), (7, 35), range(7_000, 13_001, 1_000), ("CALL", "PUT")
        )
    ],
    schema=[
        "exchange",
        "raw_symbol",
        "timestamp",
        "coin",
        "option_type",
        "strike",
        "expiry",
        "implied_volatility",
        "forward",
        "open_interest",
    ],
    schema_overrides={"timestamp": TIME, "expiry": TIME},
    orient="row",
)
PRICES = CANDLES.select(*MARKET, "timestamp", "close")
RATES_IN_USD = pl.DataFrame(
    {"quote_coin": ["EUR"] * 2, "timestamp": [START, START + timedelta(hours=1)], "usd": [1.1, 1.2]},
    schema_overrides={"timestamp": TIME},
)
LAST = pl.DataFrame(
    {
        "exchange": ["A"],
        "raw_symbol": ["Z"],
        "coin": ["BTC"],
        "interval": ["THIRTY_MINUTES"],
        "close": [5.0],
    }
)

BY_TIME = [*MARKET, "timestamp"]
BY_SIDE = [*MARKET, "side", "timestamp"]
BY_LEVEL = [*MARKET, "timestamp", "price"]
DAY: dict[str, Any] = {"interval": "1d", "block_size": "0.5"}
_PAYLOADS = {
    "TRADE_SIDE_AGNOSTIC_AGG": (CANDLES, []),
    "TRADE_AGG": (SIDES, ["side"]),
    "OPEN_INTEREST_AGG": (INTEREST, []),
    "FUNDING_RATE_AGG": (RATES, []),
    "LIQUIDATION_AGG": (LIQUIDATED, ["side"]),
    "VOLUME_PROFILE_AGG": (PROFILE, ["price"]),
}

CASES = [
    Case("book_runs", aggregate.book_runs, [BOOK], [*MARKET, "side", "price", "since"]),
    Case("book_at", aggregate.book_at, [RUNS, INSTANTS], [*BY_TIME, "side", "price"]),
    Case(
        "book_heatmap",
        lambda events: aggregate.book_heatmap(events, interval="1m", block_size="0.5", in_quote=True),
        [BOOK],
        [*BY_TIME, "side", "price"],
    ),
    Case(
        "book_of",
        lambda minutes: aggregate.book_of(minutes, interval="5m", block_size=1, in_progress=_LAST_EVENT),
        [BOOK_MINUTES],
        [*BY_TIME, "side", "price"],
    ),
    Case(
        "book_of",
        lambda minutes: aggregate.book_of(
            minutes, interval="5m", block_size=1, in_progress=_LAST_EVENT, amount="quote"
        ),
        [BOOK_MINUTES],
        [*BY_TIME, "side", "price"],
        label="in quote",
    ),
    *(
        Case(
            "candle_profile",
            lambda candles, rule=rule: aggregate.candle_profile(candles, **DAY, spreading=rule),
            [rows],
            BY_LEVEL,
            label=label,
        )
        for label, rows, rule in (
            ("of closes", CANDLES, "close"),
            ("spread", CANDLES, "uniform"),
            ("by side", SIDES, "close"),
        )
    ),
    *(
        Case(
            "candle_tpo",
            lambda candles: aggregate.candle_tpo(candles, block_size="0.5"),
            [rows],
            BY_LEVEL,
            label=label,
        )
        for label, rows in (("", CANDLES), ("by side", SIDES))
    ),
    Case(
        "candle_tpo_sessions",
        lambda candles: aggregate.candle_tpo_sessions(candles, block_size="0.5"),
        [CANDLES],
        BY_TIME,
    ),
    Case("candles", lambda trades: aggregate.candles(trades, interval="1h"), [TRADES], BY_TIME),
    Case(
        "candles",
        lambda trades: aggregate.candles(trades, interval="1h", by_side=True),
        [TRADES],
        BY_SIDE,
        label="by side",
    ),
    Case("candles_of", lambda minutes: aggregate.candles_of(minutes, interval="1h"), [MINUTES], BY_TIME),
    Case(
        "candles_of",
        lambda minutes: aggregate.candles_of(minutes, interval="1h", by_side=True, amount="quote"),
        [MINUTES],
        BY_SIDE,
        label="by side, in quote",
    ),
    Case(
        "cme_open_interest",
        lambda reports: aggregate.cme_open_interest(reports, interval="1h"),
        [REPORTS],
        BY_TIME,
    ),
    Case(
        "funding",
        lambda reports: aggregate.funding(reports, interval="1h", funding_interval="8h"),
        [REPORTS],
        BY_TIME,
    ),
    Case(
        "gapfill",
        lambda candles: aggregate.gapfill(
            candles, interval="30m", start="2024-08-08", end="2024-08-08T06:00"
        ),
        [CANDLES],
        BY_TIME,
    ),
    Case(
        "gapfill",
        lambda candles, last: aggregate.gapfill(
            candles, interval="30m", start="2024-08-08", end="2024-08-08T05:00", last=last
        ),
        [CANDLES, LAST],
        BY_TIME,
        label="with a close before",
    ),
    *(
        Case(
            "group",
            lambda points, data_type=data_type: aggregate.group(points, data_type=data_type),
            [rows],
            ["coin", "timestamp", *more],
            label=data_type,
        )
        for data_type, (rows, more) in (
            _PAYLOADS | {"BLOCK_BOOK_SNAPSHOT_AGG": (BLOCKS, ["side", "price"])}
        ).items()
        if data_type != "FUNDING_RATE_AGG"
    ),
    Case(
        "group",
        lambda rates, interest: aggregate.group(rates, data_type="FUNDING_RATE_AGG", weights=interest),
        [RATES, INTEREST.drop("amount_unit")],
        ["coin", "timestamp"],
        label="FUNDING_RATE_AGG",
    ),
    Case(
        "implied_volatility",
        lambda quotes: aggregate.implied_volatility(quotes, interval="1h"),
        [CHAIN],
        ["exchange", "coin", "timestamp", "tenor", "raw_symbol"],
    ),
    Case(
        "skew",
        lambda quotes: aggregate.skew(quotes, interval="1h"),
        [CHAIN],
        ["exchange", "coin", "timestamp", "tenor", "raw_symbol"],
    ),
    Case(
        "option_open_interest",
        lambda quotes: aggregate.option_open_interest(quotes, interval="1h"),
        [CHAIN],
        ["exchange", "coin", "timestamp"],
    ),
    Case(
        "liquidation_heatmap",
        lambda events: aggregate.liquidation_heatmap(events, interval="1h", block_size="0.5"),
        [LIQUIDATIONS],
        ["exchange", "coin", "timestamp", "price"],
    ),
    Case("liquidations", lambda events: aggregate.liquidations(events, interval="1h"), [TRADES], BY_SIDE),
    Case("minute_candles", aggregate.minute_candles, [TRADES], BY_SIDE),
    Case(
        "minute_candles",
        lambda trades: aggregate.minute_candles(trades, by_side=False),
        [TRADES],
        BY_TIME,
        label="of both sides",
    ),
    Case(
        "minute_profile",
        lambda trades: aggregate.minute_profile(trades, block_size="0.5"),
        [TRADES],
        BY_LEVEL,
    ),
    Case(
        "open_interest", lambda reports: aggregate.open_interest(reports, interval="1h"), [REPORTS], BY_TIME
    ),
    Case("profile_of", lambda minutes: aggregate.profile_of(minutes, **DAY), [LEVELS], BY_LEVEL),
    Case(
        "profile_of",
        lambda minutes: aggregate.profile_of(minutes, **DAY, amount="quote"),
        [LEVELS],
        BY_LEVEL,
        label="in quote",
    ),
    Case("volume_profile", lambda trades: aggregate.volume_profile(trades, **DAY), [TRADES], BY_LEVEL),
    Case("raw_trades", aggregate.raw_trades, [TRADES], [*BY_TIME, "id"]),
    *(
        Case(
            "resample",
            lambda points, data_type=data_type: aggregate.resample(
                points, data_type=data_type, interval="1h"
            ),
            [rows],
            [*BY_TIME, *more],
            label=data_type,
        )
        for data_type, (rows, more) in (_PAYLOADS | {"CME_OPEN_INTEREST_AGG": (FUTURES, [])}).items()
    ),
    Case("to_usd", lambda trades: aggregate.to_usd(trades, quote="USDT"), [TRADES], [*BY_TIME, "id"]),
    Case(
        "to_usd",
        lambda trades, rates: aggregate.to_usd(trades, quote="EUR", rates=rates),
        [TRADES, RATES_IN_USD],
        [*BY_TIME, "id"],
        label="by rates",
    ),
    Case(
        "to_usd",
        lambda interest, prices: aggregate.to_usd(
            interest, quote="USDT", data_type="OPEN_INTEREST_AGG", prices=prices
        ),
        [INTEREST, PRICES],
        BY_TIME,
        label="of open interest",
    ),
    Case(
        "to_usd",
        lambda levels: aggregate.to_usd(levels, quote="USDT", data_type="VOLUME_PROFILE_AGG"),
        [PROFILE],
        BY_LEVEL,
        label="of levels",
    ),
    Case(
        "token_supply",
        lambda reports: aggregate.token_supply(reports, interval="1d"),
        [TOKENS],
        ["token_name", "timestamp"],
    ),
    Case("tpo", lambda trades: aggregate.tpo(trades, **DAY), [TRADES], BY_LEVEL),
    Case(
        "tpo_of",
        lambda candles, levels: aggregate.tpo_of(candles, levels, **DAY),
        [MINUTES, LEVELS],
        BY_LEVEL,
    ),
    Case("tpo_sessions", lambda trades: aggregate.tpo_sessions(trades, **DAY), [TRADES], BY_TIME),
    Case(
        "tpo_sessions_of",
        lambda candles, levels: aggregate.tpo_sessions_of(candles, levels, **DAY),
        [MINUTES, LEVELS],
        BY_TIME,
    ),
    Case(
        "tpo_touches", lambda trades: aggregate.tpo_touches(trades, **DAY), [TRADES], [*BY_LEVEL, "block_id"]
    ),
    Case(
        "tpo_touches_of",
        lambda candles, levels: aggregate.tpo_touches_of(candles, levels, **DAY),
        [MINUTES, LEVELS],
        [*BY_LEVEL, "block_id"],
    ),
]
