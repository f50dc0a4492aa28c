"""Fewer files, and none too many: compacting and vacuuming change no row."""

from __future__ import annotations

import importlib
import os
import random
import threading
from itertools import pairwise
from pathlib import Path
from urllib.parse import unquote

import deltalake
import polars as pl
import pyarrow.parquet as pq
import pytest

from ingested import ingest
from lakes import as_stored
from tidytape.errors import LakeError, QueryError
from tidytape.lake import TRADES, Lake, _commit, hygiene

# The name in the package is the function.
compacting = importlib.import_module("tidytape.lake.hygiene._files")

OLD = (1_000_000_000, 1_000_000_000)


def rows(lake: Lake, table: str = "trades") -> pl.DataFrame:
    frame = lake.scan(table).collect()
    return frame.sort(frame.columns)


def files(lake: Lake, table: str = "trades") -> list[str]:
    return deltalake.DeltaTable(f"{lake.path}/{table}").file_uris()


def on_disk(lake: Lake) -> set[Path]:
    """The files of rows; a checkpoint of the log is none."""
    return {
        path for path in (Path(lake.path) / "trades").rglob("*.parquet") if path.parent.name != "_delta_log"
    }


def on_disk_now(lake: Lake) -> list[Path]:
    root = Path(lake.path) / "trades"
    return [
        root / unquote(path)
        for path in deltalake.DeltaTable(root).get_add_actions().column("path").to_pylist()
    ]


# -- compact ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_compacting_keeps_every_row_and_what_is_known_of_sources(lake, tape):
    for number in range(5):
        lake.writer().append("trades", tape(number * 10, number * 10 + 15), source=f"file {number}")
        lake.writer().append(
            "trades", tape(number * 10, number * 10 + 15, raw_symbol="A/B=%"), source=f"too {number}"
        )
    before = rows(lake)
    counters = [
        deltalake.DeltaTable(f"{lake.path}/trades").transaction_version(f"instrument:BINANCE/{name}")
        for name in ("BTCUSDT", "A/B=%")
    ]
    done = hygiene.compact(lake, progress=False)
    assert [(one.market, one.files_before, one.files_after) for one in done] == [
        ("BINANCE A/B=%", 5, 1),
        ("BINANCE BTCUSDT", 5, 1),
    ]
    assert len(files(lake)) == 2
    assert rows(lake).equals(before)
    assert all(
        lake.writer().append("trades", tape(0, 15), source=f"file {n}").already_ingested for n in range(5)
    )
    assert lake.writer().append("trades", tape(0, 55), source="new").rows_new == 0
    table = deltalake.DeltaTable(f"{lake.path}/trades")
    assert table.transaction_version("instrument:BINANCE/A/B=%") == counters[1] + 1 == 6


@pytest.mark.slow
def test_a_file_that_went_in_before_is_still_known(lake, recorded):
    path = recorded / "coinbase_btc-usd_trades_20230905.csv.gz"
    names = {"timestamp": "time", "price": "price", "amount": "size", "id": "trade_id"}
    header = pl.read_csv(path, n_rows=1).columns
    columns = {ours: theirs for ours, theirs in names.items() if theirs in header}
    how = {
        "layout": "csv",
        "exchange": "COINBASE",
        "raw_symbol": "BTC-USD",
        "columns": columns,
        "progress": False,
    }
    ingest(path, lake, **how)
    before = rows(lake)
    assert len(hygiene.compact(lake, everything=True, progress=False)) == 1
    assert ingest(path, lake, **how).files[0].already_ingested
    assert rows(lake).equals(before)


@pytest.mark.slow
def test_compacting_twice_does_nothing_the_second_time(lake, tape):
    for number in range(3):
        lake.writer().append("trades", tape(number * 10, number * 10 + 10), source=str(number))
    assert len(hygiene.compact(lake, progress=False)) == 1
    version = lake.version()
    assert hygiene.compact(lake, progress=False) == ()
    assert lake.version() == version


@pytest.mark.slow
def test_row_groups_follow_each_other_in_time(lake, tape):
    """What delta's own compact does not give: a reader of one hour skips the rest."""
    parts = list(range(8))
    random.Random(1).shuffle(parts)
    for part in parts:
        lake.writer().append("trades", tape(part * 100_000, (part + 1) * 100_000), source=str(part))
    hygiene.compact(lake, progress=False)
    (file,) = files(lake)
    data = pq.ParquetFile(file).metadata
    column = pq.ParquetFile(file).schema_arrow.names.index("timestamp")
    spans = [data.row_group(group).column(column).statistics for group in range(data.num_row_groups)]
    assert len(spans) > 2
    assert all(earlier.max <= later.min for earlier, later in pairwise(spans))
    assert hygiene.check(lake, progress=False).findings == ()


@pytest.mark.slow
def test_files_follow_each_other_in_time_where_one_is_not_enough(lake, tape):
    for part in (1, 0, 2, 3):
        lake.writer().append("trades", tape(part * 150_000, (part + 1) * 150_000), source=str(part))
    (done,) = hygiene.compact(lake, target=100_000, everything=True, progress=False)
    assert done.files_after > 1
    actions = pl.DataFrame(deltalake.DeltaTable(f"{lake.path}/trades").get_add_actions(flatten=True))
    spans = actions.select("min.timestamp", "max.timestamp").sort("min.timestamp").rows()
    assert all(earlier[1] <= later[0] for earlier, later in pairwise(spans))
    assert rows(lake).height == 600_000


@pytest.mark.slow
def test_compacting_while_another_writes(lake, tape):
    for number in range(6):
        lake.writer().append("trades", tape(number * 100, number * 100 + 100), source=f"before {number}")
    failed: list[BaseException] = []

    def write() -> None:
        try:
            for number in range(6, 18):
                lake.writer().append(
                    "trades", tape(number * 100 - 30, number * 100 + 100), source=f"during {number}"
                )
        except BaseException as error:  # noqa: BLE001 - reported below
            failed.append(error)

    def tidy() -> None:
        try:
            for _ in range(6):
                hygiene.compact(lake, progress=False)
        except BaseException as error:  # noqa: BLE001 - reported below
            failed.append(error)

    threads = [threading.Thread(target=write), threading.Thread(target=tidy), threading.Thread(target=tidy)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert rows(lake)["sequence"].sort().to_list() == list(range(1800))
    assert all(lake.has_source("trades", f"during {number}") for number in range(6, 18))
    assert hygiene.check(lake, progress=False).sound


@pytest.mark.slow
def test_a_compaction_that_others_overtook_begins_again(lake, tape, monkeypatch):
    """Of the same market: appended to, or compacted."""
    lake.writer().append("trades", tape(0, 100), source="a")
    lake.writer().append("trades", tape(100, 200), source="b")
    in_order, turns = compacting._in_order, []

    def overtaken(*args):
        turns.append(len(turns))
        if turns[-1] == 0:
            lake.writer().append("trades", tape(150, 300), source="c")
        elif turns[-1] == 1:
            hygiene.compact(lake, everything=True, progress=False)  # takes the third turn
        return in_order(*args)

    monkeypatch.setattr(compacting, "_in_order", overtaken)
    hygiene.compact(lake, progress=False)
    assert turns == [0, 1, 2, 3]
    assert rows(lake)["sequence"].sort().to_list() == list(range(300))
    assert lake.has_source("trades", "c")


@pytest.mark.slow
def test_a_compaction_does_not_mind_other_markets(lake, tape, monkeypatch):
    for number in (0, 1):
        lake.writer().append("trades", tape(number * 10, number * 10 + 10), source=str(number))
    in_order, turns = compacting._in_order, []

    def beside(*args):
        turns.append(len(turns))
        lake.writer().append(
            "trades", tape(0, 50, raw_symbol=f"ETH{len(turns)}"), source=f"other {len(turns)}"
        )
        return in_order(*args)

    monkeypatch.setattr(compacting, "_in_order", beside)
    hygiene.compact(lake, progress=False)
    assert turns == [0]
    assert rows(lake).height == 70


@pytest.mark.slow
def test_an_append_that_was_overtaken_by_a_compaction_begins_again(lake, tape, monkeypatch):
    for number in (0, 1):
        lake.writer().append("trades", tape(number * 10, number * 10 + 10), source=str(number))
    commit, turns = _commit.commit, []

    def overtaken(*args, **more):
        turns.append(len(turns))
        if turns == [0]:
            hygiene.compact(lake, progress=False)
        commit(*args, **more)

    monkeypatch.setattr(_commit, "commit", overtaken)
    assert lake.writer().append("trades", tape(15, 30), source="late").rows_new == 10
    assert len(turns) == 2
    assert rows(lake)["sequence"].sort().to_list() == list(range(30))


@pytest.mark.slow
def test_names_with_quotes_and_tables_without_markets(lake, tape):
    for number in (0, 1):
        symbol = "it's A' OR '1'='1"
        lake.writer().append(
            "trades", tape(number * 10, number * 10 + 10, raw_symbol=symbol), source=f"q{number}"
        )
        rate = pl.DataFrame(
            {"quote_coin": ["EUR"], "timestamp": [1_700_000_000_000_000_000 + number], "usd": [1.1]}
        )
        lake.writer().append("quote_rates", rate, source=str(number))
    lake.writer().append("trades", tape(0, 10), source="beside")
    assert [one.files_after for one in hygiene.compact(lake, progress=False)] == [1, 1]
    assert rows(lake).height == 30
    assert rows(lake, "quote_rates").height == 2
    assert lake.has_source("quote_rates", "1")
    assert hygiene.check(lake, progress=False).findings == ()


def test_a_table_without_markets_that_was_appended_to_begins_again(lake, monkeypatch):
    def rate(number: int) -> pl.DataFrame:
        return pl.DataFrame(
            {"quote_coin": ["EUR"], "timestamp": [1_700_000_000 * 10**9 + number], "usd": [1.1]}
        )

    for number in (0, 1):
        lake.writer().append("quote_rates", rate(number), source=str(number))
    in_order, turns = compacting._in_order, []

    def overtaken(*args):
        turns.append(len(turns))
        if turns == [0]:
            lake.writer().append("quote_rates", rate(2), source="2")
        return in_order(*args)

    monkeypatch.setattr(compacting, "_in_order", overtaken)
    hygiene.compact(lake, progress=False)
    assert len(turns) == 2
    assert rows(lake, "quote_rates").height == 3


@pytest.mark.slow
def test_rows_are_sorted_in_spans_that_fit_memory(lake, tape, monkeypatch):
    monkeypatch.setattr("tidytape.lake.hygiene._files._AT_ONCE", 150)
    for number in (2, 0, 1):
        lake.writer().append("trades", tape(number * 1000, number * 1000 + 1000), source=str(number))
    before = rows(lake)
    assert len(hygiene.compact(lake, progress=False)) == 1
    assert rows(lake).equals(before)
    assert hygiene.check(lake, progress=False).findings == ()


@pytest.mark.slow
def test_the_log_says_of_new_files_what_is_in_them(lake, tape):
    """Readers leave out files by it, so what it says must be so, also of numbers that are none and of nulls."""
    for number in (0, 1):
        lake.writer().append("trades", tape(number * 10, number * 10 + 10), source=str(number))
    odd = tape(20, 24).with_columns(
        price=pl.Series([float("nan"), float("inf"), 5.0, 7.0]),
        received=pl.Series([None, 3, 1, None], dtype=pl.Int64),
    )
    deltalake.write_deltalake(f"{lake.path}/trades", as_stored(odd), mode="append")
    before = rows(lake)
    hygiene.compact(lake, progress=False)
    (said,) = pl.DataFrame(
        deltalake.DeltaTable(f"{lake.path}/trades").get_add_actions(flatten=True)
    ).to_dicts()
    frame = rows(lake)
    assert said["num_records"] == frame.height == 24
    for name in ("id", "timestamp", "sequence", "side", "amount", "received"):
        assert (said[f"min.{name}"], said[f"max.{name}"]) == (frame[name].min(), frame[name].max())
        assert said[f"null_count.{name}"] == frame[name].null_count()
    assert said.get("min.price") is None
    for condition in (
        pl.col("price").is_nan(),
        pl.col("price") > 1e300,
        pl.col("price") < 6,
        pl.col("received") == 1,
    ):
        assert lake.scan("trades").filter(condition).collect().height == before.filter(condition).height > 0


@pytest.mark.slow
def test_other_engines_read_what_was_written(lake, tape):
    duckdb = pytest.importorskip("duckdb")
    for number in (0, 1):
        lake.writer().append(
            "trades", tape(number * 10, number * 10 + 10, raw_symbol="A/B=%"), source=str(number)
        )
    hygiene.compact(lake, progress=False)
    table = deltalake.DeltaTable(f"{lake.path}/trades").to_pyarrow_dataset().to_table()
    assert table.schema.names == [column.name for column in TRADES.stored]
    assert set(table["raw_symbol"].to_pylist()) == {"A/B=%"}
    (path,) = on_disk_now(lake)
    assert duckdb.sql(f"select sum(sequence) from read_parquet('{path}')").fetchall() == [(190,)]


def test_rows_without_a_time_are_not_lost(lake, tape):
    frame = tape(0, 10).with_columns(timestamp=pl.when(pl.col("sequence") > 2).then("timestamp"))
    deltalake.write_deltalake(
        f"{lake.path}/trades",
        frame,
        mode="overwrite",
        schema_mode="overwrite",
        partition_by=TRADES.partitions,
    )
    version = lake.version()
    with pytest.raises(LakeError, match="3 of 10 rows without a time"):
        hygiene.compact(lake, everything=True, progress=False)
    assert lake.version() == version
    assert rows(lake).height == 10


@pytest.mark.parametrize("wrong", [{"target": 0}, {"tables": ["trade"]}])
def test_compacting_what_cannot_be(lake, wrong):
    with pytest.raises(QueryError):
        hygiene.compact(lake, **wrong)


# -- vacuum ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def compacted(lake, tape) -> Lake:
    """Three markets, each of two files that were replaced and one that replaced them."""
    for symbol in ("BTCUSDT", "A/B=%", "é x"):
        lake.writer().append("trades", tape(0, 100, raw_symbol=symbol), source=symbol)
        lake.writer().append("trades", tape(50, 200, raw_symbol=symbol), source=symbol + "2")
    hygiene.compact(lake, progress=False)
    return lake


@pytest.mark.slow
def test_vacuuming_first_only_says_what_it_would_do(compacted):
    there = on_disk(compacted)
    version = compacted.version()
    first = hygiene.vacuum(compacted, retention_hours=0)[0]
    assert (first.table, first.files, first.dry_run) == ("trades", 6, True)
    assert first.bytes == sum(
        file.stat().st_size for file in there if str(file) not in {str(Path(uri)) for uri in files(compacted)}
    )
    assert on_disk(compacted) == there
    assert compacted.version() == version


@pytest.mark.slow
def test_vacuuming_keeps_a_week(compacted):
    there = on_disk(compacted)
    assert hygiene.vacuum(compacted, dry_run=False)[0].files == 0
    assert on_disk(compacted) == there


@pytest.mark.slow
def test_vacuuming_deletes_what_was_replaced_and_no_row(compacted):
    before = rows(compacted)
    reader = compacted.scan("trades", raw_symbol="A/B=%")  # opened before, read after
    assert hygiene.vacuum(compacted, retention_hours=0, dry_run=False)[0].files == 6
    assert len(on_disk(compacted)) == 3
    assert rows(compacted).equals(before)
    assert reader.collect().height == 200
    assert hygiene.check(compacted, progress=False).findings == ()
    assert compacted.has_source("trades", "A/B=%2")
    assert hygiene.vacuum(compacted, retention_hours=0)[0].files == 0


@pytest.mark.slow
def test_vacuuming_deletes_what_a_killed_ingest_left_behind(compacted):
    for file in on_disk(compacted):
        os.utime(file, OLD)  # however old the lake's own files are, they stay
    folder = Path(files(compacted)[0]).parent
    left, underway = folder / "part-9-left.parquet", folder / "part-9-underway.parquet"
    left.write_bytes(b"x" * 10)
    os.utime(left, OLD)
    underway.write_bytes(b"x" * 10)
    before = rows(compacted)
    # Even with no retention: the other one may be committed in a moment.
    done = hygiene.vacuum(compacted, retention_hours=0, dry_run=False)[0]
    assert done.files == 7
    assert not left.exists()
    assert underway.exists()
    assert rows(compacted).equals(before)


@pytest.mark.slow
def test_what_the_newest_version_needs_is_never_deleted(compacted, monkeypatch):
    """Should delta-rs ever misread a path, nothing is lost."""
    needed = [str(Path(uri).relative_to(Path(compacted.path) / "trades")) for uri in files(compacted)]
    monkeypatch.setattr(deltalake.DeltaTable, "vacuum", lambda self, *args, **more: needed)
    with pytest.raises(LakeError, match="needs it"):
        hygiene.vacuum(compacted, retention_hours=0, dry_run=False)


@pytest.mark.parametrize("wrong", [{"retention_hours": -1}, {"tables": ["trade"]}])
def test_vacuuming_what_cannot_be(lake, wrong):
    with pytest.raises(QueryError):
        hygiene.vacuum(lake, **wrong)
