"""The wire against what one would write without it. Run: ``python tests/bench/bench_wire.py``.

Every time is the best of several alternating runs; every ratio is of two times from this run.
"""

from __future__ import annotations

import json
import resource
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import orjson
import pandas as pd
import polars as pl

from tidytape.schema import schema_of
from tidytape.wire import decode, encode, from_arrow, to_arrow

CANDLES = "TRADE_SIDE_AGNOSTIC_AGG"
PROFILE = "VOLUME_PROFILE_AGG"
ROWS = 100_000
ROUNDS = 7
IDENTITY = {
    "exchange": "BINANCE",
    "rawSymbol": "BTCUSDT",
    "normalizedSymbol": "BTC-USDT",
    "coin": "BTC",
    "category": "SPOT",
    "interval": "MINUTE",
}
COLUMNS = dict(
    zip(
        IDENTITY, ("exchange", "raw_symbol", "normalized_symbol", "coin", "category", "interval"), strict=True
    )
)


def candles() -> pl.DataFrame:
    random = np.random.default_rng(0)
    price = 60_000 + random.normal(0, 10, ROWS).cumsum()
    start = 1_700_000_000_000_000_000 + np.arange(ROWS) * 60_000_000_000
    frame = pl.DataFrame(
        {
            "timestamp": start,
            "open": price.round(2),
            "high": (price + random.random(ROWS) * 20).round(2),
            "low": (price - random.random(ROWS) * 20).round(2),
            "close": (price + random.normal(0, 5, ROWS)).round(2),
            "volume": random.exponential(3.0, ROWS),
            "first_timestamp": start + random.integers(0, 10**9, ROWS),
            "last_timestamp": start + 59 * 10**9 + random.integers(0, 10**9, ROWS),
        }
    )
    return conformed(frame, CANDLES)


def profile() -> pl.DataFrame:
    random = np.random.default_rng(0)
    level = np.arange(ROWS)
    frame = pl.DataFrame(
        {
            "timestamp": 1_700_000_000_000_000_000 + level // 200 * 3_600_000_000_000,
            "price": 60_000.0 + level % 200 * 5,
            "buy_volume": random.exponential(3.0, ROWS),
            "sell_volume": random.exponential(3.0, ROWS),
        }
    ).with_columns(volume=pl.col("buy_volume") + pl.col("sell_volume"))
    return conformed(frame, PROFILE)


def conformed(frame: pl.DataFrame, name: str) -> pl.DataFrame:
    return schema_of(name).conform(
        frame.with_columns(pl.lit(IDENTITY[wire]).alias(c) for wire, c in COLUMNS.items())
    )


# --- what one would write instead ---------------------------------------------------------------------------


def stamp(nanoseconds: int) -> dict[str, int]:
    seconds, rest = divmod(nanoseconds, 1_000_000_000)
    return {"s": seconds, "ns": rest} if rest else {"s": seconds}


def with_dicts(frame: pl.DataFrame) -> bytes:
    """Encode candles by way of dicts; leaves out nulls, as the wire does."""
    times = {"timestamp": "timestamp", "first_timestamp": "firstTimestamp", "last_timestamp": "lastTimestamp"}
    values = ("open", "high", "low", "close", "volume")
    points = []
    for row in frame.with_columns(pl.col(pl.Datetime).dt.epoch("ns")).rows(named=True):
        payload: dict[str, Any] = {name: row[name] for name in values if row[name] is not None}
        payload |= {wire: stamp(row[name]) for name, wire in times.items() if row[name] is not None}
        points.append({"Point": payload})
    return orjson.dumps({"series": [{"id": {"type": CANDLES} | IDENTITY, "points": points}]})


def profile_with_dicts(frame: pl.DataFrame) -> bytes:
    points: dict[int, list[float]] = {}
    for row in frame.with_columns(pl.col(pl.Datetime).dt.epoch("ns")).rows(named=True):
        points.setdefault(row["timestamp"], []).extend((row["price"], row["buy_volume"], row["sell_volume"]))
    payloads = [{"Point": {"timestamp": stamp(time), "profile": values}} for time, values in points.items()]
    return orjson.dumps({"series": [{"id": {"type": PROFILE} | IDENTITY, "points": payloads}]})


def normalized(body: bytes) -> pd.DataFrame:
    return pd.json_normalize(json.loads(body)["series"], ["points"], [["id", field] for field in IDENTITY])


def profile_loops(body: bytes) -> pd.DataFrame:
    rows = [
        (point["Point"]["timestamp"]["s"], *point["Point"]["profile"][i : i + 3])
        for series in json.loads(body)["series"]
        for point in series["points"]
        for i in range(0, len(point["Point"]["profile"]), 3)
    ]
    return pd.DataFrame(rows, columns=["timestamp", "price", "buy_volume", "sell_volume"])


# --- measuring ----------------------------------------------------------------------------------------------


def best(contestants: dict[str, Callable[[], Any]], rounds: int = ROUNDS) -> dict[str, float]:
    """Return the best time of each, in seconds; they take turns, so that a slow moment of the machine hits
    all."""
    times = dict.fromkeys(contestants, float("inf"))
    for _ in range(rounds):
        for name, run in contestants.items():
            start = time.perf_counter()
            run()
            times[name] = min(times[name], time.perf_counter() - start)
    return times


def report(title: str, contestants: dict[str, Callable[[], Any]], rounds: int = ROUNDS) -> None:
    times = best(contestants, rounds)
    (ours, mine), *others = times.items()
    print(f"{title}: {ours} {mine * 1e3:.0f} ms")
    for name, spent in others:
        print(f"    {spent / mine:6.1f} times faster than {name} ({spent * 1e3:.0f} ms)")


def peak() -> float:
    """Return the most memory this process has had. [MB]"""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    """Print the ratios."""
    bars, levels = candles(), profile()
    before = peak()
    body = encode(bars, CANDLES)
    print(
        f"{ROWS:,} candles are {len(body) / 1e6:.1f} MB of JSON; writing takes {peak() - before:.0f} MB more"
    )
    before = peak()
    assert decode(body, CANDLES).equals(bars)
    print(f"reading takes {peak() - before:.0f} MB more")
    assert orjson.loads(with_dicts(bars)) == orjson.loads(body)
    flat = encode(levels, PROFILE)
    assert orjson.loads(profile_with_dicts(levels)) == orjson.loads(flat)
    extended = body.replace(b'"open":', b'"trades":7,"open":')
    arrow = to_arrow(bars)

    report(
        "encode candles",
        {"tidytape": lambda: encode(bars, CANDLES), "dicts and orjson": lambda: with_dicts(bars)},
    )
    report(
        "decode candles",
        {
            "tidytape": lambda: decode(body, CANDLES),
            "orjson.loads alone": lambda: orjson.loads(body),
            "json.loads and pandas.json_normalize": lambda: normalized(body),
        },
        rounds=4,
    )
    report(
        "decode candles with an unknown field",
        {
            "tidytape": lambda: decode(extended, CANDLES),
            "json.loads and pandas.json_normalize": lambda: normalized(extended),
        },
        rounds=3,
    )
    report(
        f"encode a profile of {ROWS:,} levels",
        {"tidytape": lambda: encode(levels, PROFILE), "dicts and orjson": lambda: profile_with_dicts(levels)},
    )
    report(
        f"decode a profile of {ROWS:,} levels",
        {
            "tidytape": lambda: decode(flat, PROFILE),
            "orjson.loads alone": lambda: orjson.loads(flat),
            "json.loads and loops": lambda: profile_loops(flat),
        },
    )
    report(
        "write candles as Arrow",
        {"tidytape": lambda: to_arrow(bars), "as JSON": lambda: encode(bars, CANDLES)},
    )
    report(
        "read candles from Arrow",
        {"tidytape": lambda: from_arrow(arrow, CANDLES), "from JSON": lambda: decode(body, CANDLES)},
    )


if __name__ == "__main__":
    main()
