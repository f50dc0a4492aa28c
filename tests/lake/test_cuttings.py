"""The rows of a lake do not depend on how its events were cut into commits, nor on merges between them."""

from __future__ import annotations

import json
import random
import tempfile
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from lakes import empty_lake
from thorough import often
from tidytape.lake import TABLES, TRADES, Lake
from tidytape.lake.hygiene import compact

EXAMPLES = often(4, thoroughly=100)


def trades(seed: int, count: int) -> pl.DataFrame:
    """Trades of three markets: ids that rise and gain a digit, ids that fall, and random ids."""
    draw = random.Random(seed)
    numbers = {
        "RISES": range(90, 90 + count), "FALLS": range(2_000, 2_000 - count, -1),
        "RANDOM": [draw.getrandbits(64) for _ in range(count)],
    }  # fmt: skip
    rows = [
        {"exchange": "X", "raw_symbol": symbol, "id": str(number), "timestamp": 10**9 * (place // 2),
         "sequence": place, "side": "BUY", "price": 1.0 + number % 7, "amount": 1.0, "quote_amount": 1.0}
        for symbol, ids in numbers.items()
        for place, number in enumerate(ids)
    ]  # fmt: skip
    return TRADES.conform(pl.DataFrame(rows))


def reports(seed: int, count: int) -> pl.DataFrame:
    """Funding of two markets, at other times each."""
    rows = [
        {"exchange": "X", "raw_symbol": symbol, "timestamp": first + 3_600 * place, "rate": (seed + place) / 1e6,
         "funding_interval": 3_600 * 10**9}
        for symbol, first in (("A", 0), ("B", 10**15))
        for place in range(count)
    ]  # fmt: skip
    return TABLES["funding"].conform(pl.DataFrame(rows))


def pieces(rows: pl.DataFrame, draw: random.Random) -> list[pl.DataFrame]:
    """The rows in pieces that overlap, some twice, some late."""
    order = rows.sort("timestamp")
    cuts = sorted(draw.sample(range(1, order.height), min(8, order.height - 1)))
    bounds = zip([0, *cuts], [*cuts, order.height], strict=True)
    found = [order.slice(max(first - draw.randrange(4), 0), last - first + 4) for first, last in bounds]
    found += draw.sample(found, 2)
    last = found.pop(draw.randrange(len(found)))
    return [*found, last]


@pytest.mark.slow
@settings(max_examples=EXAMPLES, deadline=None)
@given(seed=st.integers(0, 2**32), count=st.integers(12, 30))
@pytest.mark.parametrize("make", [trades, reports])
def test_any_cutting_of_the_same_events_gives_the_same_rows(make, seed, count) -> None:
    draw, rows = random.Random(seed), make(seed, count)
    table = TRADES if make is trades else TABLES["funding"]
    with tempfile.TemporaryDirectory() as folder:
        lake = empty_lake(Path(folder) / "lake")
        writer = lake.writer()
        new = 0
        for number, piece in enumerate(pieces(rows, draw)):
            if draw.random() < 0.3:
                writer = Lake(lake.path).writer()  # as another process
            appended = writer.append(
                table.name, piece.sample(fraction=1, shuffle=True, seed=1), source=f"{number}"
            )
            assert appended.rows_new + appended.duplicates == piece.height
            new += appended.rows_new
            if draw.random() < 0.2:
                compact(Lake(lake.path), everything=True, progress=False)
        stored = Lake(lake.path).scan(table.name).collect()
        assert new == rows.height
        assert_frame_equal(stored.sort(table.key), rows.sort(table.key))


def without_bounds(lake: Lake, table: str) -> None:
    """Take the statistics out of the log, as a writer may that does not note them."""
    for path in Path(lake.path, table, "_delta_log").glob("*.json"):
        actions = [json.loads(line) for line in path.read_text().splitlines()]
        for action in actions:
            if "add" in action:
                action["add"]["stats"] = json.dumps(
                    {"numRecords": json.loads(action["add"]["stats"])["numRecords"]}
                )
        path.write_text("".join(json.dumps(action) + "\n" for action in actions))


def test_a_file_without_bounds_in_the_log_is_looked_at(lake: Lake, tape) -> None:
    lake.writer().append("trades", tape(0, 10), source="one")
    without_bounds(lake, "trades")
    other = Lake(lake.path)
    assert other.writer().append("trades", tape(5, 15), source="two").rows_new == 5
    assert other.scan("trades").collect().height == 15


def test_only_files_with_ids_in_the_range_of_the_market_are_read(lake: Lake, tape) -> None:
    for number in range(5):
        for symbol, first in (("LOW", 1_000), ("HIGH", 9_000)):
            rows = tape(first + 10 * number, first + 10 * number + 10, raw_symbol=symbol)
            lake.writer().append("trades", rows, source=f"{symbol} {number}")
    for path in Path(lake.path, "trades").rglob("*.parquet"):
        path.write_bytes(b"not read")
    both = pl.concat([tape(1_050, 1_060, raw_symbol="LOW"), tape(9_050, 9_060, raw_symbol="HIGH")])
    assert lake.writer().append("trades", both, source="later").rows_new == 20


@pytest.mark.parametrize("name", [name for name, table in TABLES.items() if table.identity])
def test_a_lake_without_rows_reads_nothing(lake: Lake, name: str) -> None:
    table = TABLES[name]
    assert lake.writer().append(name, table.empty(), source="empty").rows_new == 0
    assert lake.scan(name).collect().height == 0
