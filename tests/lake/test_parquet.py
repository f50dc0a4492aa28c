"""Files of a table: sorted, in small row groups, with true statistics, whatever the order of the rows that come."""

from __future__ import annotations

import json
from pathlib import Path

import deltalake
import polars as pl
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from lakes import empty_lake
from tidytape.lake import TABLES, TRADES, Batch, Lake, _parquet

GROUP = 8


@pytest.fixture
def small(monkeypatch):
    """Row groups of 8 rows, files of 4 groups, room for 3 groups."""
    monkeypatch.setattr(_parquet, "ROW_GROUP", GROUP)
    monkeypatch.setattr(_parquet, "_FILE", 4 * GROUP)
    monkeypatch.setattr(_parquet, "_WAITING", 3 * GROUP)


def files_of(lake: Lake, table: str = "trades") -> list[dict]:
    """Each file of a table as the log tells of it, with its path on disk."""
    adds = []
    for log in sorted(Path(lake.path, table, "_delta_log").glob("*.json")):
        adds += [action["add"] for action in map(json.loads, log.read_text().splitlines()) if "add" in action]
    found = deltalake.DeltaTable(f"{lake.path}/{table}").file_uris()
    return [
        add | {"stats": json.loads(add["stats"]), "uri": uri}
        for add in adds
        for uri in found
        if Path(uri).name == Path(add["path"]).name
    ]


def true_to_its_word(lake: Lake, table: str = "trades") -> None:
    """Every file is sorted, in small groups, and is what its statistics say."""
    order = [name for name in TABLES[table].order if name not in TABLES[table].partitions]
    for file in files_of(lake, table):
        rows = pl.read_parquet(file["uri"], hive_partitioning=False)
        assert_frame_equal(rows, rows.sort(order, maintain_order=True))
        meta = pq.read_metadata(file["uri"])
        assert max(meta.row_group(i).num_rows for i in range(meta.num_row_groups)) <= _parquet.ROW_GROUP
        assert file["size"] == Path(file["uri"]).stat().st_size
        stats = file["stats"]
        assert stats["numRecords"] == rows.height
        assert stats["nullCount"] == {name: rows[name].null_count() for name in rows.columns}
        for name in stats["minValues"]:
            assert (stats["minValues"][name], stats["maxValues"][name]) == (
                rows[name].min(),
                rows[name].max(),
            )
        assert "timestamp" in stats["minValues"]


orders = st.lists(st.integers(0, 199), unique=True, min_size=1, max_size=120)


@pytest.mark.long
@settings(max_examples=60, deadline=None)
@given(numbers=orders, size=st.integers(1, 40), symbols=st.integers(1, 3))
def test_any_order_in_any_parts(tmp_path_factory, tape, numbers, size, symbols):
    monkeypatch = pytest.MonkeyPatch()
    with monkeypatch.context() as patch:
        patch.setattr(_parquet, "ROW_GROUP", GROUP)
        patch.setattr(_parquet, "_FILE", 4 * GROUP)
        patch.setattr(_parquet, "_WAITING", 3 * GROUP)
        lake = empty_lake(tmp_path_factory.mktemp("lake"))
        rows = tape(0, 200)[numbers].with_columns(
            raw_symbol=pl.format("S/{}", pl.col("sequence") % symbols), timestamp=pl.col("timestamp") // 5 * 5
        )
        batch = Batch(TRADES)
        for begin in range(0, rows.height, size):
            batch.add(rows[begin : begin + size])
        lake.writer().append("trades", batch, source="a")
        assert_frame_equal(lake.scan("trades").collect().sort("sequence"), rows.sort("sequence"))
        true_to_its_word(lake)


def test_a_tape_in_order_becomes_whole_row_groups(lake, tape, small):
    batch = Batch(TRADES)
    for first in range(0, 100, 5):  # each overlaps the next a little
        batch.add(tape(first, first + 5).with_columns(timestamp=pl.col("timestamp") + pl.col("sequence") % 2))
    lake.writer().append("trades", batch, source="a")
    true_to_its_word(lake)
    groups = []
    for file in sorted(files_of(lake), key=lambda file: file["stats"]["minValues"]["timestamp"]):
        meta = pq.read_metadata(file["uri"])
        groups += [meta.row_group(i).num_rows for i in range(meta.num_row_groups)]
    assert groups == [GROUP] * 12 + [4]
    assert len(files_of(lake)) == 4  # 32 rows each


def test_the_newest_first_becomes_whole_row_groups_too(lake, tape, small):
    batch = Batch(TRADES)
    for first in range(95, -1, -5):
        batch.add(tape(first, first + 5)[::-1])
    lake.writer().append("trades", batch, source="a")
    true_to_its_word(lake)
    assert len(files_of(lake)) == 4


@pytest.mark.slow
def test_many_markets_keep_few_files_open(lake, tape, small, monkeypatch):
    monkeypatch.setattr(_parquet, "_OPEN", 3)
    opened, most = set(), []
    begin, close = _parquet._File.__init__, _parquet._File.close

    def counted(self, *args, **options):
        begin(self, *args, **options)
        opened.add(self)
        most.append(len(opened))

    def closed(self):
        opened.discard(self)
        return close(self)

    monkeypatch.setattr(_parquet._File, "__init__", counted)
    monkeypatch.setattr(_parquet._File, "close", closed)
    rows = tape(0, 900).with_columns(raw_symbol=pl.format("S{}", pl.col("sequence") % 30))
    batch = Batch(TRADES)
    for first in range(0, 900, 60):
        batch.add(rows[first : first + 60])
    lake.writer().append("trades", batch, source="a")
    assert not opened
    assert max(most) <= 4
    true_to_its_word(lake)
    assert_frame_equal(lake.scan("trades").collect().sort("sequence"), rows)


def test_books_with_nulls_and_truth_values(lake):
    rows = pl.DataFrame(
        {
            "exchange": "A", "raw_symbol": "ü/%2F", "timestamp": [3, 1, 2], "first_id": [None, 1, 2],
            "last_id": [None, 1, 2], "is_snapshot": [True, False, False], "side": ["BID", "ASK", "BID"],
            "price": [1.0, 2.0, 3.0], "size": [0.0, 1.0, 2.0], "sequence": [1, 2, 3],
        }
    )  # fmt: skip
    lake.writer().append("book", rows, source="a")
    true_to_its_word(lake, "book")
    assert lake.scan("book", raw_symbol="ü/%2F").collect().height == 3
    (file,) = files_of(lake, "book")
    assert "is_snapshot" not in file["stats"]["minValues"]
    assert file["stats"]["nullCount"]["first_id"] == 1


def test_a_table_without_partitions(lake):
    rows = pl.DataFrame({"quote_coin": ["EUR", "EUR"], "timestamp": [2, 1], "usd": [1.1, 1.2]})
    lake.writer().append("quote_rates", rows, source="a")
    true_to_its_word(lake, "quote_rates")
    assert lake.scan("quote_rates").collect().height == 2


def test_files_that_were_not_committed_are_removed(lake, tape, monkeypatch):
    def files():
        return sorted(Path(lake.path, "trades").rglob("*.parquet"))

    def broken(*_, **__):
        raise deltalake.exceptions.CommitFailedError("lost a race")

    monkeypatch.setattr("tidytape.lake._commit._ATTEMPTS", 2)
    monkeypatch.setattr("tidytape.lake._delta.Opened.create_write_transaction", broken)
    with pytest.raises(Exception, match="lost a race"):
        lake.writer().append("trades", tape(0, 10), source="a")
    assert files() == []
    monkeypatch.undo()
    batch = Batch(TRADES)
    batch.add(tape(0, 10))
    batch.add(tape(10, 20))

    def unreadable(_rows):
        raise OSError("gone")

    batch.parts[1] = batch.parts[1].changed(unreadable)
    with pytest.raises(Exception, match="gone"):
        lake.writer().append("trades", batch, source="a")
    assert files() == []


def test_other_engines_read_the_files(lake, tape):
    import duckdb

    lake.writer().append("trades", tape(0, 1000, raw_symbol="ETH/USDT:X y%"), source="a")
    table = deltalake.DeltaTable(f"{lake.path}/trades").to_pyarrow_table()
    assert table.num_rows == 1000
    assert set(table["raw_symbol"].to_pylist()) == {"ETH/USDT:X y%"}
    (file,) = files_of(lake)
    read = duckdb.sql(f"select sum(sequence) from read_parquet('{file['uri']}', hive_partitioning=false)")
    assert read.fetchall() == [(499500,)]
