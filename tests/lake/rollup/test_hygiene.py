"""Keeping the minutes: they are checked against their events, compacted and vacuumed like any other table."""

from __future__ import annotations

import os
import subprocess
import sys

import polars as pl
import pytest
from deltalake import DeltaTable

from lakes import empty_lake
from simulated import rollup_events as events
from tidytape.lake import TABLES, Lake, hygiene
from tidytape.lake.rollup import ROLLUP_TABLES, rollup


@pytest.fixture
def lake(tmp_path) -> Lake:
    lake = empty_lake(tmp_path / "lake")
    events.market(lake)
    for number, (table, frame) in enumerate(events.pieces(5, 24)):
        lake.writer().append(table, frame, source=str(number))
    rollup(lake, progress=False)
    return lake


def found(lake: Lake) -> dict[str, list[tuple[str, int, str]]]:
    report = hygiene.check(lake, checks=["conserved"], progress=False)
    tables: dict[str, list[tuple[str, int, str]]] = {}
    for one in report.findings:
        tables.setdefault(one.table, []).append((one.market, one.count, one.example))
    return tables


def change(lake: Lake, table: str, **more: str) -> None:
    """Change stored rows as another tool would: no commit of ours says so."""
    DeltaTable(f"{lake.path}/{table}").update(**more)


@pytest.mark.slow
def test_what_a_rollup_made_is_conserved(lake):
    assert set(hygiene.info(lake)["table"]) >= set(ROLLUP_TABLES)
    assert found(lake) == {}


@pytest.mark.long
@pytest.mark.parametrize(
    ("table", "column"),
    [
        ("candles_1m", "volume"),
        ("candles_1m", "quote_volume"),
        ("candles_1m", "high"),
        ("profile_1m", "buy_volume"),
        ("profile_1m", "sell_quote_volume"),
        ("liquidations_1m", "liquidations"),
        ("open_interest_1m", "close"),
        ("funding_1m", "rate_close"),
        ("book_1m", "size"),
    ],
)
def test_a_number_that_no_event_says_is_found(lake, table, column):
    first = lake.delta(table).to_pyarrow_table(columns=["exchange", "raw_symbol", "timestamp"])
    row = pl.DataFrame(first).sort("raw_symbol", "timestamp").row(3, named=True)
    symbol = row["raw_symbol"].replace("'", "''")
    where = f"raw_symbol = '{symbol}' AND timestamp = {row['timestamp']}"
    change(lake, table, updates={column: f"{column} * 1.000001 + 1e-5"}, predicate=where)
    wrong = found(lake)
    assert list(wrong) == [table]
    ((market, count, example),) = wrong[table]
    assert market == f"X {row['raw_symbol']}"
    assert count >= 1
    assert f"{column} is " in example


@pytest.mark.slow
def test_a_minute_that_is_lost_or_made_up_is_found(lake):
    minutes = lake.delta("candles_1m").to_pyarrow_table()
    times = pl.DataFrame(minutes).filter(pl.col("raw_symbol") == "BTCUSDT")["timestamp"].unique().sort()
    DeltaTable(f"{lake.path}/candles_1m").delete(f"raw_symbol = 'BTCUSDT' AND timestamp = {times[5]}")
    ((_, _, example),) = found(lake)["candles_1m"]
    assert "is not kept" in example
    change(
        lake,
        "candles_1m",
        updates={"timestamp": str(times[5])},
        predicate=f"raw_symbol = 'BTCUSDT' AND timestamp = {times[6]}",
    )
    ((_, _, example),) = found(lake)["candles_1m"]
    assert f"timestamp {times[5]}" in example


@pytest.mark.slow
def test_events_that_come_late_are_no_finding(lake):
    late = pl.concat(frame for table, frame in events.pieces(6, 40) if table == "trades")
    lake.writer().append("trades", late.with_columns(id="late " + pl.col("id")), source="late")
    assert found(lake) == {}
    rollup(lake, progress=False)
    assert found(lake) == {}


def books(tmp_path, minutes: list[int], ids: list[int | None]) -> Lake:
    """A lake with a book, rolled up: events in some minutes, the first and every third a snapshot."""
    lake = empty_lake(tmp_path / "books")
    events.market(lake)
    rows = pl.DataFrame({"timestamp": minutes, "last_id": ids}).select(
        pl.col("timestamp") * events.MINUTE + events.START,
        pl.col("last_id").cast(pl.Int64),
        exchange=pl.lit("X"),
        raw_symbol=pl.lit("BTCUSDT"),
        is_snapshot=pl.int_range(pl.len()) % 3 == 0,
        side=pl.lit("BID"),
        price=10.0 + pl.int_range(pl.len()),
        size=1.0,
        sequence=pl.int_range(pl.len()),
    )
    lake.writer().append("book", TABLES["book"].conform(rows), source="books")
    rollup(lake, progress=False)
    return lake


def test_a_book_whose_ids_run_against_its_times_is_found_as_such(tmp_path):
    # The rollup reads all of it at once, a check up to the last minute that is kept: nothing says which is right.
    lake = books(tmp_path, [0, 1, 2, 35, 36, 38, 75, 75], [31, 32, 33, 1, 2, 3, 21, 22])
    report = hygiene.check(lake, checks=["ids", "conserved"], progress=False)
    (finding,) = report.findings
    assert (finding.check, finding.severity, finding.table) == ("ids", "error", "book")
    assert finding.count == 4
    assert finding.example == "2024-08-09T00:35:00+00:00: id 1 comes more than 5 minutes after id 33"


@pytest.mark.parametrize(("late", "count"), [(5, 0), (6, 1)])
def test_ids_may_differ_from_times_as_much_as_clocks_do(tmp_path, late, count):
    lake = books(tmp_path, [0, 1, 1 + late, 30], [1, 3, 2, 4])
    report = hygiene.check(lake, checks=["ids"], progress=False)
    assert sum(one.count for one in report.findings) == count


def test_a_book_without_ids_is_in_the_order_of_its_times(tmp_path):
    lake = books(tmp_path, [0, 1, 40, 41], [9, 8, None, 1])
    assert hygiene.check(lake, checks=["ids", "conserved"], progress=False).sound


@pytest.mark.slow
def test_minutes_survive_compacting_and_vacuuming(lake):
    def kept() -> dict[str, pl.DataFrame]:
        return {
            name: pl.DataFrame(lake.delta(name).to_pyarrow_table()).sort(table.key).select(table.names)
            for name, table in ROLLUP_TABLES.items()
        }

    before = kept()
    done = hygiene.compact(lake, everything=True, progress=False)
    assert {one.table for one in done} >= set(ROLLUP_TABLES)
    hygiene.vacuum(lake, retention_hours=0, dry_run=False)
    after = kept()
    assert all(after[name].equals(before[name]) for name in before)
    # Neither the notes of the minutes nor those of their events are lost: nothing is made again.
    assert sum(one.rows for one in rollup(lake, progress=False)) == 0
    assert hygiene.check(lake, progress=False).sound


ROLL = """
import sys
from tidytape.lake import Lake
from tidytape.lake.rollup import rollup
from simulated import rollup_events as events
lake = Lake(sys.argv[1])
for number, (table, frame) in enumerate(events.pieces(9, 20)):
    if table == "trades":
        lake.writer().append(table, frame.with_columns(id="more " + frame["id"]), source=f"more {number}")
        rollup(lake, progress=False)
"""
COMPACT = """
import sys
from tidytape.lake import TABLES, Lake, hygiene
for _ in range(6):
    hygiene.compact(Lake(sys.argv[1]), everything=True, tables=["trades", "candles_1m", "profile_1m"])
"""


@pytest.mark.long
def test_rollups_and_compactions_at_once_lose_and_double_nothing(lake, pytestconfig):
    environment = {"PYTHONPATH": str(pytestconfig.rootpath / "tests")}
    running = [
        subprocess.Popen([sys.executable, "-c", code, lake.path], env=os.environ | environment)
        for code in (ROLL, COMPACT, COMPACT)
    ]
    assert [process.wait(timeout=300) for process in running] == [0, 0, 0]
    lake = Lake(lake.path)
    report = hygiene.check(lake, tables=["trades", "candles_1m", "profile_1m"], progress=False)
    assert report.sound, report
