"""Random events of a small market, of every raw table that minutes are made of."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

from tidytape.lake import TABLES

MINUTE = 60 * 10**9
START = 1_723_161_600 * 10**9  # 2024-08-09T00:00:00Z
SYMBOLS = ("BTCUSDT", "BTC'PERP/x")
HOURS = 3


def market(lake) -> None:
    """Register the markets."""
    lake.writer().register(
        pl.DataFrame(
            {
                "exchange": "X",
                "raw_symbol": SYMBOLS,
                "normalized_symbol": ["BTC-USDT", "BTC-USD"],
                "coin": "BTC",
                "quote_coin": ["USDT", "USD"],
                "category": ["SPOT", "PERPETUAL"],
                "block_size": [0.5, 1.0],
            }
        )
    )


def pieces(seed: int, count: int) -> Iterator[tuple[str, pl.DataFrame]]:
    """Yield the events in pieces, each of one table and some span of time; later pieces may hold earlier times."""
    rng = np.random.default_rng(seed)
    for number in range(count):
        # Mostly on from where the last one ended, sometimes anywhere: events that come late.
        late = rng.random() < 0.35
        begin = rng.uniform(0, HOURS * 60) if late else number / count * HOURS * 60
        table = str(rng.choice(["trades", "trades", "book", "open_interest", "funding", "liquidations"]))
        times = START + np.sort(rng.uniform(begin, begin + rng.choice([0.5, 5, 70]), 40) * MINUTE).astype(int)
        yield table, events(table, times, rng, number)


def events(table: str, times: np.ndarray, rng: np.random.Generator, number: int) -> pl.DataFrame:
    """Return events of a table at some times."""
    n = len(times)
    price = (200 + np.cumsum(rng.integers(-3, 4, n))) * 0.25
    amount = rng.integers(1, 10**6, n) / 1e4
    columns = {
        "exchange": "X",
        "raw_symbol": rng.choice(SYMBOLS, n),
        "timestamp": times,
        "id": [f"{number}.{row}" for row in range(n)],
        "sequence": np.arange(n) + number * 1_000,
        "side": rng.choice(["BUY", "SELL"], n),
        "price": price,
        "amount": amount,
        "quote_amount": price * amount,
    }
    if table == "open_interest":
        columns["amount"] = np.where(rng.random(n) < 0.1, np.nan, amount * 1e3)
    if table == "funding":
        columns |= {
            "rate": rng.normal(0, 1e-4, n),
            "predicted_rate": [
                None if gap else float(rate)
                for gap, rate in zip(rng.random(n) < 0.3, rng.normal(0, 1e-4, n), strict=True)
            ],
            "funding_interval": rng.choice([8, 4, 1], n) * 60 * MINUTE,
        }
    if table == "book":
        snapshot = np.arange(n) < (12 if rng.random() < 0.5 else 0)
        ids = (np.where(snapshot, times[0], times) - START) // 10**6  # a venue counts up in time
        columns |= {
            "raw_symbol": SYMBOLS[int(rng.integers(2))],
            "timestamp": np.where(snapshot, times[0], times),
            "first_id": [None if one else int(i) for one, i in zip(snapshot, ids, strict=True)],
            "last_id": ids,
            "is_snapshot": snapshot,
            "side": np.where(price > 50, "ASK", "BID"),
            "size": rng.integers(0, 50, n) / 10,
        }
    frame = pl.DataFrame(columns)
    kind = TABLES[table]
    return kind.conform(frame).unique(kind.key, keep="first", maintain_order=True)
