"""A final row never changes: more events are appended, the same is asked again, and it is the same row."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from ingested import ingest
from lakes import empty_lake
from simulated.everything import ASKED, START, everything
from tidytape.catalogue import DATA_TYPES
from tidytape.lake import TABLES, Lake
from tidytape.lake.rollup import rollup
from tidytape.query import PointsQuery
from tidytape.schema import wire_schema
from tidytape.service.answer._engine import Engine

S0, HOURS = START // 10**9, 5
EVENTS = [name for name, table in TABLES.items() if "timestamp" in [column.name for column in table.columns]]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    folder = tmp_path_factory.mktemp("final")
    made = everything(folder / "events")
    return copied(made, folder / "whole", lambda rows: rows)


def copied(source: Lake, path: Path, kept: Callable[[pl.DataFrame], pl.DataFrame]) -> Lake:
    """Return a lake with what is kept of each table and market."""
    made = empty_lake(path)
    made.writer().register(source.markets())
    for table in EVENTS:
        rows, partition = source.scan(table).collect(), list(TABLES[table].partitions)
        if table == "book":  # an exchange numbers its updates as they happen
            number = pl.col("timestamp").rank("dense").cast(pl.Int64).over(partition)
            rows = rows.with_columns(first_id=pl.when(~pl.col("is_snapshot")).then(number), last_id=number)
        for place, market in enumerate(rows.partition_by(partition) if partition else [rows]):
            if (held := kept(market)).height:
                made.writer().append(table, held, source=f"{table} {place}")
    return made


def until(source: Lake, path: Path, rng: np.random.Generator, *, first: int, last: int) -> Lake:
    """Return what had come in of a lake at some time, of each table and market at another one."""
    return copied(
        source, path, lambda rows: rows.filter(pl.col("timestamp") <= int(rng.integers(first, last)))
    )


def ways(name: str) -> list[dict[str, Any]]:
    kind = DATA_TYPES[name]
    found: list[dict[str, Any]] = [{}]
    if kind.usd:
        found.append({"quote": "USD"})
    if kind.group_by:
        found.append({"group_by": kind.group_by.alias})
    if kind.gapfill:
        found.append({"gapfill": "true"})
    return found


def final_rows(lake: Lake, query: PointsQuery) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the rows that are final, and all of them."""
    engine = Engine(lake)
    ((_, frame),) = engine.frames(query, engine.markets(query))
    frame = frame.drop("data_until")
    assert frame["is_final"].null_count() == 0
    return frame.filter("is_final"), frame


def assert_final_rows_stay(before: Lake, after: Lake, query: PointsQuery) -> int:
    final, _ = final_rows(before, query)
    _, later = final_rows(after, query)
    schema = wire_schema(query.type[0])
    key = list(schema.key_of(grouped=query.group_by is not None))
    times = final.select(key).unique()
    again = later.join(times, on=key, nulls_equal=True, maintain_order="left").select(final.columns)
    assert again.sort(key).equals(final.sort(key)), query
    return final.height


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3))
def test_a_final_row_never_changes(whole: Lake, tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    hour = 3_600 * 10**9
    held = until(whole, tmp_path / "held", rng, first=START + hour, last=START + HOURS * hour)
    if seed % 2:
        rollup(held)
    count = dict.fromkeys(ASKED, 0)
    wanted: dict[str, dict[str, Any]] = {**ASKED}
    for name, asked in wanted.items():
        if name == "TRADE":
            continue
        for way in ways(name):
            interval = "1h" if name == "TPO_AGG" else rng.choice(["1m", "15m", "1h"])
            query = PointsQuery(type=name, interval=interval, start=S0, end=S0 + HOURS * 3600, **asked, **way)
            try:
                Engine(held).markets(query)
            except ValueError:
                continue  # nothing of it had come in
            count[name] += assert_final_rows_stay(held, whole, query)
    assert sum(n > 0 for n in count.values()) >= 8, count


@pytest.mark.slow
def test_a_recorded_market_at_any_time(recorded: Path, tmp_path: Path) -> None:
    """Of a day of recorded trades what came in by some moment, and then the rest."""
    whole = empty_lake(tmp_path / "whole")
    ingest(
        recorded / "coinbase_btc-usd_trades_20230905.csv.gz",
        whole,
        layout="csv",
        exchange="COINBASE",
        raw_symbol="BTC-USD",
    )
    trades = whole.scan("trades").collect()
    times = trades["timestamp"].to_list()
    first, last = min(times), max(times)
    rng, count = np.random.default_rng(0), 0
    for number in range(3):
        held = until(whole, tmp_path / f"held{number}", rng, first=first, last=last)
        (exchange, symbol), *_ = held.markets_in("trades")
        window: dict[str, Any] = {"start": first // 10**9 - 3600, "end": last // 10**9 + 3600}
        for name in ("TRADE_SIDE_AGNOSTIC_AGG", "TRADE_AGG"):
            for gapfill in (False, True):
                query = PointsQuery(
                    type=name, exchange=exchange, raw_symbol=symbol, interval="1m", gapfill=gapfill, **window
                )
                count += assert_final_rows_stay(held, whole, query)
    assert count


@pytest.mark.slow
def test_nothing_is_final_while_a_member_has_no_event(whole: Lake, tmp_path: Path) -> None:
    """What such a member traded may still be ingested, and then the sum of the group is another."""
    made = copied(whole, tmp_path / "made", lambda rows: rows)
    query = PointsQuery(
        type="TRADE_SIDE_AGNOSTIC_AGG", exchange="X", coin="BTC", interval="1h", start=S0, end=S0 + 3600,
        group_by="sum",
    )  # fmt: skip
    _, before = final_rows(made, query)
    late = {"exchange": "X", "raw_symbol": "LATE", "coin": "BTC", "quote_coin": "USDT", "category": "SPOT"}
    made.writer().register(pl.DataFrame([late]))
    _, after = final_rows(made, query)
    assert (before["is_final"].to_list(), after["is_final"].to_list()) == ([True], [False])
