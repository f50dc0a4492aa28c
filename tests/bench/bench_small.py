"""Where the time of a small answer goes, layer by layer: 1,000 one-minute candles, each time of another window.

Run ``python tests/bench/bench_small.py [rounds]``. Each layer includes those above it, up to the client's frame; beside
them stand what nobody can do without (the rows read from Parquet, the bytes copied once) and what a user would pick
instead: DuckDB on a Parquet file of finished candles, into polars. Times are wall-clock medians of rounds in turn, in
this process, without a network. The target of the client is twice the time of DuckDB.
"""

from __future__ import annotations

import os
import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from unittest import mock

import duckdb
import polars as pl
from bench_history import EXCHANGE, SYMBOL
from bench_serve import DAYS, LAST, prepared

from tidytape import Client, wire
from tidytape.lake import Lake
from tidytape.query import PointsQuery
from tidytape.service.answer import _hot as hot
from tidytape.service.answer._engine import Engine, MarketsByType
from tidytape.service.answer._estimate import Statistics, estimated
from tidytape.wire._encode import encode_all

CANDLES = 1_000
TYPE = "TRADE_SIDE_AGNOSTIC_AGG"
OURS, DUCKDB = "the client's frame", "DuckDB, from Parquet into polars"


def main(rounds: int = 200) -> dict[str, float]:
    """Print the time of each layer; return the medians. [s]"""
    draw = random.Random(7)

    def window() -> dict[str, int]:
        last = LAST - 60 * draw.randrange((DAYS - 2) * 1_440 - CANDLES)
        return {"start": last - 60 * CANDLES, "end": last}

    def query() -> PointsQuery:
        return PointsQuery(type=TYPE, exchange=EXCHANGE, raw_symbol=SYMBOL, interval="1m", **window())

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prepared(folder)
        file, engine, duck = folder / "candles.parquet", Engine(Lake(folder / "lake")), duckdb.connect()

        def looked_up() -> tuple[Engine, PointsQuery, MarketsByType]:
            asked, lake = query(), engine.lake.now()
            markets = engine.at(lake).markets(asked)
            estimated(asked, markets, Statistics(lake))
            return engine.at(lake), asked, markets

        def json() -> bytes:
            now, asked, markets = looked_up()
            found = now.body(asked, markets)
            assert found is not None
            return found[0]

        def arrow() -> bytes:
            now, asked, markets = looked_up()
            ((_, frame),) = now.frames(asked, markets)
            return wire.to_arrow(frame, TYPE)

        def computed() -> bytes:
            now, asked, markets = looked_up()
            with mock.patch.object(hot, "_are_alone", return_value=False):
                frames = now.frames(asked, markets)
                return encode_all(frames, now.notes(asked, markets, frames))

        def rows() -> pl.DataFrame:
            asked, second = window(), pl.col("time")
            return pl.scan_parquet(file).filter(second >= asked["start"], second < asked["end"]).collect()

        def ducks() -> pl.DataFrame:
            asked = window()
            where = f"time >= {asked['start']} AND time < {asked['end']}"
            return duck.sql(f"SELECT * FROM '{file}' WHERE {where}").pl()

        with Client.local(folder / "lake", cache=False, progress=False) as client:
            written = json()
            layers: dict[str, Callable[[], object]] = {
                "a query": query,
                "and its look-up: markets, estimate": looked_up,
                "and JSON, of text in memory": json,
                "or Arrow, of frames in memory": arrow,
                "or JSON, computed and written anew": computed,
                OURS: lambda: client.candles(exchange=EXCHANGE, raw_symbol=SYMBOL, interval="1m", **window()),
                "limit: rows read from Parquet": rows,
                "limit: bytes copied once": lambda: bytearray(written),
                DUCKDB: ducks,
            }
            taken: dict[str, list[float]] = {layer: [] for layer in layers}
            for number in range(rounds + 20):
                for layer, run in layers.items():
                    run()  # so that a layer does not pay for what the one before pushed out of the processor's caches
                    began = time.perf_counter()
                    run()
                    if number >= 20:  # memory is filled in the first rounds
                        taken[layer].append(time.perf_counter() - began)
    medians = {layer: median(times) for layer, times in taken.items()}
    print(f"{CANDLES:,} candles, {len(written):,} bytes of JSON; milliseconds, median and least of {rounds}")
    for layer, times in taken.items():
        print(f"{layer:<38}{medians[layer] * 1e3:9.3f}{min(times) * 1e3:9.3f}")
    print(f"the client takes {medians[OURS] / medians[DUCKDB]:.2f} times as long as DuckDB")
    print(f"load of the machine {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    return medians


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
