"""The wire against what one would write without it. Run ``python tests/bench/bench_wire.py [points]``.

JSON of candles, funding rates, market profiles, volume profiles and book heatmaps becomes a tidy frame. Beside it stand
``json.loads`` with ``pandas.json_normalize``, which gives a row per point, its levels left in lists; ``orjson.loads``,
which ends with Python objects; and ``polars.read_json`` with the schema, whose one row still has to be taken apart. The
targets: these take 15, 2 and 1 / 1.3 times as long as ours, and Arrow a tenth; and an import of tidytape at most 1.3
times one of polars.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import orjson
import pandas as pd
import polars as pl
import pyarrow as pa
from contest import contest, imported

from tidytape.schema import TPO_SESSIONS, data_type, schema_of, wire_schema
from tidytape.wire import decode, encode, from_arrow, nested, to_arrow
from tidytape.wire._columnar import document_type

CANDLES = "TRADE_SIDE_AGNOSTIC_AGG"
PROFILE_LEVELS = 15
BOOK_LEVELS = 10  # on either side
TPO_LEVELS = 10
TICK = 5.0
IDENTITY = {
    "exchange": "BINANCE",
    "rawSymbol": "BTCUSDT",
    "normalizedSymbol": "BTC-USDT",
    "coin": "BTC",
    "category": "PERPETUAL",
    "interval": "1m",
}
COLUMNS = ("exchange", "raw_symbol", "normalized_symbol", "coin", "category", "interval")

# --- points -------------------------------------------------------------------------------------------------


class Market:
    """A market's minutes, made of random numbers that are the same each time."""

    def __init__(self, points: int) -> None:
        self.random = np.random.default_rng(0)
        self.points = points
        self.start = 1_700_000_000_000_000_000 + np.arange(points) * 60_000_000_000
        self.price = (60_000 + self.random.normal(0, 10, points).cumsum()).round(2)

    def volumes(self, rows: int) -> Any:
        return self.random.exponential(3.0, rows).round(5)

    def candles(self) -> pl.DataFrame:
        rise = self.random.normal(0, 5, self.points).round(2)
        within = partial(self.random.integers, 0, 10**9, self.points)
        return pl.DataFrame(
            {
                "timestamp": self.start,
                "open": self.price,
                "high": self.price + rise.clip(0) + 3,
                "low": self.price + rise.clip(None, 0) - 3,
                "close": self.price + rise,
                "volume": self.volumes(self.points),
                "first_timestamp": self.start + within(),
                "last_timestamp": self.start + 59 * 10**9 + within(),
            }
        ).with_columns(pl.col("high", "low", "close").round(2))

    def funding(self) -> pl.DataFrame:
        names = [
            f"{rate}_{value}" for rate in ("rate", "predicted") for value in ("open", "high", "low", "close")
        ]
        rates = {name: self.random.normal(1e-4, 3e-5, self.points).round(8) for name in names}
        return pl.DataFrame({"timestamp": self.start} | rates)

    def profiles(self) -> pl.DataFrame:
        return self._ladder(PROFILE_LEVELS).with_columns(*self._sides(PROFILE_LEVELS))

    def books(self) -> pl.DataFrame:
        ladder = self._ladder(2 * BOOK_LEVELS)
        bid = np.tile(np.arange(2 * BOOK_LEVELS) < BOOK_LEVELS, self.points)
        return ladder.with_columns(
            pl.Series("side", np.where(bid, "BID", "ASK")), pl.Series("size", self.volumes(ladder.height))
        )

    def market_profiles(self) -> pl.DataFrame:
        ladder = self._ladder(TPO_LEVELS)
        first = self.random.integers(0, 44, ladder.height)
        blocks = self.random.integers(1, 4, ladder.height)
        low = pl.col("price").min().over("timestamp")
        places = {"val_price": 1, "poc_price": 4, "vah_price": 8, "ibr_low": 0, "ibr_high": 6}
        places |= {"profile_low": 0, "opening_price": 2, "closing_price": 3, "profile_high": 9}
        profiles = (
            ladder.with_columns(
                *self._sides(TPO_LEVELS), *((low + place * TICK).alias(n) for n, place in places.items())
            )
            .with_columns(
                pl.Series("first_touch_block", first),
                pl.Series("last_touch_block", first + blocks - 1),
                pl.Series("tpo_count", blocks),
                period_start="timestamp",
                period_end=pl.col("timestamp") + 86_400 * 10**9,
                block_size_minutes=30,
                value_area_percentage=70.0,
            )
            .with_columns(
                block_ids=pl.int_ranges("first_touch_block", pl.col("last_touch_block") + 1, dtype=pl.Int32),
                total_tpo_count=pl.col("tpo_count").sum().over("timestamp"),
                total_volume=pl.col("volume").sum().over("timestamp"),
                poor_highs=pl.concat_list("profile_high"),
                poor_lows=pl.concat_list("profile_low"),
                single_prints=pl.concat_list("profile_high", "profile_low"),
            )
        )
        of_levels, of_sessions = (
            [name for name in schema.names if name in profiles.columns]
            for schema in (schema_of("TPO_AGG"), TPO_SESSIONS)
        )
        sessions = profiles.select(of_sessions).unique("timestamp", keep="first", maintain_order=True)
        return nested(profiles.select(of_levels), sessions)

    def _ladder(self, levels: int) -> pl.DataFrame:
        """Levels around the price of each point."""
        point, level = np.repeat(np.arange(self.points), levels), np.tile(np.arange(levels), self.points)
        price = (self.price[point] // TICK + level - levels // 2) * TICK
        return pl.DataFrame({"timestamp": self.start[point], "price": price})

    def _sides(self, levels: int) -> list[pl.Series]:
        buys, sells = self.volumes(self.points * levels), self.volumes(self.points * levels)
        return [
            pl.Series("buy_volume", buys),
            pl.Series("sell_volume", sells),
            pl.Series("volume", buys + sells),
        ]


def tidy(frame: pl.DataFrame, name: str) -> pl.DataFrame:
    identity = [pl.lit(value).alias(column) for column, value in zip(COLUMNS, IDENTITY.values(), strict=True)]
    return wire_schema(name).conform(frame.with_columns(*identity))


# --- rivals -------------------------------------------------------------------------------------------------


def normalized(body: bytes) -> pd.DataFrame:
    return pd.json_normalize(json.loads(body)["series"], ["points"], [["id", field] for field in IDENTITY])


def reader_of(name: str) -> Callable[[bytes], pl.DataFrame]:
    shape = pl.from_arrow(pa.schema(document_type(data_type(name))).empty_table())
    assert isinstance(shape, pl.DataFrame)
    return partial(pl.read_json, schema=shape.schema)


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
    return orjson.dumps(
        {"series": [{"id": {"type": CANDLES} | IDENTITY | {"interval": "MINUTE"}, "points": points}]}
    )


# --- contests -----------------------------------------------------------------------------------------------


def read(name: str, frame: pl.DataFrame, points: int) -> dict[str, float]:
    """Let all read the JSON of a frame, and us its Arrow."""
    body, arrow = encode(frame, name), to_arrow(frame, name)
    print(
        f"\n{name}: {points:,} points, {frame.height:,} rows;"
        f" {len(body) / 1e6:.0f} MB of JSON, {len(arrow) / 1e6:.0f} MB of Arrow"
    )
    read_json = reader_of(name)
    assert decode(body, name).equals(frame)
    assert from_arrow(arrow, name).equals(frame)
    nested = read_json(body)["series"].item().struct.field("points")
    assert len(normalized(body)) == nested.list.len().sum() == points
    return contest(
        {
            "tidytape": lambda: decode(body, name),
            "json.loads, json_normalize": lambda: normalized(body),
            "orjson.loads alone": lambda: orjson.loads(body),
            "polars.read_json, nested": lambda: read_json(body),
            "tidytape, from Arrow": lambda: from_arrow(arrow, name),
        },
        rounds=3,
    )


def main(points: int = 100_000) -> None:
    """Print the times and their ratios to ours."""
    market = Market(points)
    candles = tidy(market.candles(), CANDLES)
    read(CANDLES, candles, points)
    read("FUNDING_RATE_AGG", tidy(market.funding(), "FUNDING_RATE_AGG"), points)
    read("TPO_AGG", tidy(market.market_profiles(), "TPO_AGG"), points)
    read("VOLUME_PROFILE_AGG", tidy(market.profiles(), "VOLUME_PROFILE_AGG"), points)
    read("BLOCK_BOOK_SNAPSHOT_AGG", tidy(market.books(), "BLOCK_BOOK_SNAPSHOT_AGG"), points)

    body = encode(candles, CANDLES)
    extended = body.replace(b'"open":', b'"trades":7,"open":')
    print("\nread candles that have a field nobody knows")
    contest(
        {
            "tidytape": lambda: decode(extended, CANDLES),
            "json.loads, json_normalize": lambda: normalized(extended),
            "orjson.loads alone": lambda: orjson.loads(extended),
        },
        rounds=3,
    )
    assert orjson.loads(with_dicts(candles)) == orjson.loads(body)
    print("\nwrite candles")
    contest(
        {
            "tidytape": lambda: encode(candles, CANDLES),
            "dicts and orjson": lambda: with_dicts(candles),
            "tidytape, as Arrow": lambda: to_arrow(candles, CANDLES),
        }
    )
    print(f"\nimport tidytape / import polars: {imported('tidytape') / imported('polars'):.2f}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
