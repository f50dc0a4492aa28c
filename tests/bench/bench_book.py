"""Books rebuilt from recorded updates: tidytape, the dict a user would keep, DuckDB SQL.

Run ``python tests/bench/bench_book.py [folder of recorded data]``. Every contender answers the same two questions
at 564 update ids of 126,090 events of one recorded log, from the same rows in memory: the best bid and ask, for which a
dict is hard to beat, and the whole books in blocks, as a heatmap has them.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl

from tidytape import aggregate
from tidytape.lake import Lake
from tidytape.lake.ingest import BinanceWs, Market, ingest

LOG = "binance-spot_ws_btcusdt_20240808.gz"
WHOSE = ["exchange", "raw_symbol"]
INSTANTS = 564
ROUNDS = 5
BLOCK = 2  # [USDT]
Best = dict[int, tuple[float, float, float, float]]
Blocks = dict[tuple[int, str, float], float]

RUNS_SQL = """
    WITH snapshots AS (
        SELECT *, lead(last_id) OVER (ORDER BY last_id) AS ending
        FROM (SELECT DISTINCT last_id FROM events WHERE is_snapshot)
    ), placed AS (
        SELECT events.*, snapshots.ending, lead(events.last_id) OVER (
            PARTITION BY side, price ORDER BY events.last_id, is_snapshot, sequence
        ) AS following
        FROM events ASOF JOIN snapshots ON events.last_id >= snapshots.last_id
    ), runs AS (
        SELECT side, price, size, last_id AS since, least(following, ending) AS until FROM placed WHERE size > 0
    ), books AS (
        SELECT ids.last_id, side, price, size
        FROM ids JOIN runs ON ids.last_id >= since AND ids.last_id < coalesce(until, 9223372036854775807)
    )
"""


def recorded(folder: Path) -> pl.DataFrame:
    with tempfile.TemporaryDirectory() as lake:
        ingest(folder / LOG, Lake.create(Path(lake) / "lake"), BinanceWs(), market=Market(exchange="BINANCE"))
        return Lake(Path(lake) / "lake").scan("book").collect()


def ours(events: pl.DataFrame, ids: pl.DataFrame) -> pl.LazyFrame:
    return aggregate.book_at(aggregate.book_runs(events.lazy()), ids.lazy(), by="last_id")


def our_best(events: pl.DataFrame, ids: pl.DataFrame) -> Best:
    best = (
        ours(events, ids)
        .group_by("last_id", "side")
        .agg(
            pl.col("price").max().alias("highest"),
            pl.col("size").max_by("price").alias("at_highest"),
            pl.col("price").min().alias("lowest"),
            pl.col("size").min_by("price").alias("at_lowest"),
        )
        .collect(engine="streaming")
    )
    bids = {row[0]: row[2:4] for row in best.filter(side="BID").iter_rows()}
    return {row[0]: (*bids[row[0]], *row[4:]) for row in best.filter(side="ASK").iter_rows()}


def our_blocks(events: pl.DataFrame, ids: pl.DataFrame) -> pl.DataFrame:
    keys = ("last_id", "side", pl.col("price") // BLOCK)
    return ours(events, ids).group_by(keys).agg(pl.col("size").sum()).collect(engine="streaming")


def books(events: pl.DataFrame, ids: pl.DataFrame) -> Iterator[tuple[int, dict[str, dict[float, float]]]]:
    """Keep a dict per side, event by event; yield it at each id."""
    wanted, last, snapshot = set(ids["last_id"]), None, None
    book: dict[str, dict[float, float]] = {"BID": {}, "ASK": {}}
    ordered = events.sort("last_id", "is_snapshot", "sequence")
    for at, whole, side, price, size in ordered.select(
        "last_id", "is_snapshot", "side", "price", "size"
    ).iter_rows():
        if at != last:
            if last in wanted:
                yield last, book
            last = at
        if whole and snapshot != at:
            book, snapshot = {"BID": {}, "ASK": {}}, at
        if size:
            book[side][price] = size
        else:
            book[side].pop(price, None)
    if last in wanted:
        yield last, book


def loop_best(events: pl.DataFrame, ids: pl.DataFrame) -> Best:
    found = {}
    for last, book in books(events, ids):
        bid, ask = max(book["BID"]), min(book["ASK"])
        found[last] = (bid, book["BID"][bid], ask, book["ASK"][ask])
    return found


def loop_blocks(events: pl.DataFrame, ids: pl.DataFrame) -> Blocks:
    found: Blocks = defaultdict(float)
    for last, book in books(events, ids):
        for side, levels in book.items():
            for price, size in levels.items():
                found[last, side, price // BLOCK] += size
    return found


def sql_best(connection: duckdb.DuckDBPyConnection) -> Best:
    rows = connection.sql(
        RUNS_SQL
        + """
        SELECT last_id,
            max(price) FILTER (side = 'BID'), arg_max(size, price) FILTER (side = 'BID'),
            min(price) FILTER (side = 'ASK'), arg_min(size, price) FILTER (side = 'ASK')
        FROM books GROUP BY last_id
        """
    ).fetchall()
    return {last: tuple(row) for last, *row in rows}


def sql_blocks(connection: duckdb.DuckDBPyConnection) -> pl.DataFrame:
    return connection.sql(
        RUNS_SQL + f"SELECT last_id, side, floor(price / {BLOCK}) AS row, sum(size) FROM books GROUP BY ALL"
    ).pl()


def plain(result: Best | Blocks | pl.DataFrame) -> Best | Blocks:
    """Return what a contender found as a dict, to be compared."""
    return {row[:3]: row[3] for row in result.iter_rows()} if isinstance(result, pl.DataFrame) else result


def main(folder: str = "../shared/data") -> dict[str, dict[str, float]]:
    """Print the best times of two questions and their ratios to ours; return the ratios.

    The contenders take turns, so that whatever else the machine does falls on all of them.
    """
    events = recorded(Path(folder))
    start = events.filter("is_snapshot")["last_id"].max()
    every = events.filter(pl.col("last_id") > start).select(*WHOSE, "last_id").unique().sort("last_id")
    ids = every.gather_every(max(every.height // INSTANTS, 1)).head(INSTANTS)
    connection = duckdb.connect()
    for name, frame in (("events", events), ("ids", ids)):
        connection.register("frame", frame.to_arrow())
        connection.execute(f"CREATE TABLE {name} AS SELECT * FROM frame")
    questions: dict[str, dict[str, Callable[[], Best | Blocks | pl.DataFrame]]] = {
        "best bid and ask, with sizes": {
            "tidytape": lambda: our_best(events, ids),
            "a dict per side": lambda: loop_best(events, ids),
            "DuckDB SQL": lambda: sql_best(connection),
        },
        f"whole books, in blocks of {BLOCK}": {
            "tidytape": lambda: our_blocks(events, ids),
            "a dict per side": lambda: loop_blocks(events, ids),
            "DuckDB SQL": lambda: sql_blocks(connection),
        },
    }
    print(f"{events.height:,} events, {ids.height:,} books, best of {ROUNDS}")
    runs = min(timed(lambda: aggregate.book_runs(events))[0] for _ in range(ROUNDS))
    print(f"the runs alone: {runs:.3f} s")
    ratios = {}
    for question, contenders in questions.items():
        seconds = dict.fromkeys(contenders, float("inf"))
        expected = plain(contenders["tidytape"]())
        for _ in range(ROUNDS):
            for name, run in contenders.items():
                taken, found = timed(run)
                seconds[name], result = min(seconds[name], taken), plain(found)
                assert result.keys() == expected.keys(), name
                assert np.allclose([result[key] for key in expected], list(expected.values())), name
        ratios[question] = {name: taken / seconds["tidytape"] for name, taken in seconds.items()}
        print(question)
        for name, taken in seconds.items():
            print(f"    {name:<20}{taken:8.3f} s{ratios[question][name]:8.2f} times ours")
    return ratios


def timed(run: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    result = run()
    return time.perf_counter() - start, result


if __name__ == "__main__":
    main(*sys.argv[1:])
