"""Opening, reading and appending."""

from __future__ import annotations

import gc
import pickle
import subprocess
import sys
import weakref
from pathlib import Path

import deltalake
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from lakes import as_stored, empty_lake
from stream_readers import trades
from tidytape.errors import IngestError, LakeError, MissingColumnError, QueryError
from tidytape.lake import TABLES, TRADES, Batch, Lake, Spool, _delta

SECOND = 10**9
EPOCH = 1_700_000_000 * SECOND


# -- opening ---------------------------------------------------------------------------------------------------------


def test_a_new_lake_has_every_table_with_its_columns(lake):
    for name, table in TABLES.items():
        got = lake.scan(name).collect()
        assert got.height == 0
        assert dict(got.schema) == table.polars()
    assert lake.markets().height == 0
    assert lake.version() == dict.fromkeys(TABLES, 0)


def test_units_and_meanings_are_in_the_tables_themselves(lake):
    fields = {field.name: field for field in deltalake.DeltaTable(f"{lake.path}/trades").schema().fields}
    assert fields["price"].metadata == {"comment": "Price", "unit": "quote per coin"}
    assert all(fields[column.name].nullable == column.nullable for column in TRADES.stored)


def test_creating_twice_opens(lake, tape):
    lake.writer().append("trades", tape(0, 3), source="a")
    assert Lake.create(lake.path).scan("trades").collect().height == 3
    assert Lake(lake.path).scan("trades").collect().height == 3
    assert Lake(Path(lake.path)).path == lake.path


@pytest.mark.parametrize("kind", ["nothing", "a file", "a folder", "a delta table"])
def test_what_is_no_lake_is_refused_by_name(tmp_path, kind):
    path = tmp_path / "x"
    if kind == "a file":
        path.write_text("hello")
    elif kind == "a folder":
        (path / "y").mkdir(parents=True)
    elif kind == "a delta table":
        deltalake.write_deltalake(path, pl.DataFrame({"a": [1]}))
    with pytest.raises(LakeError, match="no lake at") as caught:
        Lake(path)
    assert caught.value.path == str(path)
    if kind != "nothing":
        with pytest.raises(LakeError, match="lake at"):
            Lake.create(path)


def test_an_unfinished_lake_can_be_finished(tmp_path):
    Lake.create(tmp_path / "whole")
    (tmp_path / "whole" / "trades").rename(tmp_path / "trades")
    (tmp_path / "half").mkdir()
    (tmp_path / "trades").rename(tmp_path / "half" / "trades")
    with pytest.raises(LakeError):
        Lake(tmp_path / "half")
    assert Lake.create(tmp_path / "half").scan("trades").collect().height == 0


def test_an_object_store_is_not_a_local_path(monkeypatch):
    # No network here: that the address and the options arrive is seen by the error naming them.
    with pytest.raises(LakeError, match="memory://bucket/lake"):
        Lake("memory://bucket/lake/")
    with pytest.raises(LakeError, match="foo://bucket/lake"):
        Lake.create("foo://bucket/lake")


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["sp ace", "ha#sh", "q?m", "100%", "50%off", "ünï", "{c}", "*", "a:b&c", "~", "it's", 'a"b']
)
def test_any_folder_can_hold_a_lake(tmp_path, tape, name):
    lake = Lake.create(tmp_path / name / "lake")
    wanted = {
        "exchange": "BINANCE",
        "raw_symbol": "ETH/USDT:X y%2F*",
        "start": EPOCH,
        "end": EPOCH + 5 * SECOND,
    }
    for first in (0, 10):
        lake.writer().append(
            "trades", tape(first, first + 10, raw_symbol=wanted["raw_symbol"]), source=f"{first}"
        )
    lake.writer().append("trades", tape(0, 10, raw_symbol="BTCUSDT"), source="other")
    lake.writer().register(pl.DataFrame({"exchange": ["BINANCE"], "raw_symbol": ["BTCUSDT"]}))
    # Files of others and of other times are skipped: reading succeeds though they are gone.
    frame = Lake(lake.path).scan("trades", **wanted)
    for file in Path(lake.path, "trades").rglob("*.parquet"):
        if pl.read_parquet(file, hive_partitioning=False)["timestamp"].min() > EPOCH or "BTCUSDT" in str(
            file
        ):
            file.unlink()
    assert_frame_equal(frame.collect().sort("sequence"), tape(0, 5, raw_symbol=wanted["raw_symbol"]))
    assert lake.markets().height == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == [name]


@pytest.mark.parametrize(
    "name", ["per%20cent", "%2f", "[b]", "a]", "a^b", "a|b", "x=y", "a\\b", "a\nb", "a\x7fb"]
)
def test_a_folder_that_would_be_misread_is_refused_before_anything_is_written(tmp_path, capfd, name):
    for path in (tmp_path / name, f"{tmp_path}/{name}/lake"):
        with pytest.raises(LakeError, match="is read as something else") as caught:
            Lake.create(path)
        assert caught.value.path == str(path)
        with pytest.raises(LakeError, match="is read as something else"):
            Lake(path)
    assert list(tmp_path.iterdir()) == []
    assert capfd.readouterr().err == ""  # no panic either


def test_a_file_address_is_read_as_the_path_it_stands_for(tmp_path, tape):
    lake = Lake.create((tmp_path / "sp ace").as_uri())
    lake.writer().append("trades", tape(0, 3), source="a")
    assert Lake(tmp_path / "sp ace").scan("trades").collect().height == 3
    assert lake.scan("trades").collect().height == 3
    with pytest.raises(LakeError, match="'%20' in a path"):
        Lake.create((tmp_path / "per%20cent").as_uri())


def test_a_panic_below_is_a_lake_error(tmp_path):
    with (
        pytest.raises(LakeError, match="cannot try at here: Invalid object store url"),
        _delta.failing("try", "here"),
    ):
        deltalake.write_deltalake(str(tmp_path / "[b]"), pl.DataFrame({"a": [1]}))
    with pytest.raises(KeyboardInterrupt), _delta.failing("try", "here"):
        raise KeyboardInterrupt


def test_a_damaged_file_is_a_lake_error(lake, tape):
    lake.writer().append("trades", tape(0, 3), source="a")
    for file in Path(lake.path, "trades").rglob("*.parquet"):
        file.write_bytes(b"PAR1 nothing PAR1")
    with pytest.raises(LakeError, match="cannot write to the table"):
        lake.writer().append("trades", tape(1, 4), source="b")


def test_a_lake_can_be_sent_to_another_process(lake, tape):
    lake.writer().append("trades", tape(0, 3), source="a")
    assert pickle.loads(pickle.dumps(lake)).scan("trades").collect().height == 3


def test_what_the_log_says_is_read_once_per_version(lake, tape):
    lake.writer().append("trades", tape(0, 3), source="a")
    before = lake.delta("trades")
    assert before.get_add_actions() is before.get_add_actions()
    assert before.transaction_version("source:b") is None
    lake.writer().append("trades", tape(3, 5), source="b")
    assert lake.delta("trades").transaction_version("source:b") == 1
    assert lake.delta("trades").get_add_actions().num_rows == 2
    deltalake.write_deltalake(
        before, as_stored(tape(5, 6)).to_arrow(), mode="append"
    )  # which moves it to the new version
    assert before.get_add_actions().num_rows == 3


# -- reading ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def filled(lake, tape):
    for exchange, symbol in (("BINANCE", "BTCUSDT"), ("BINANCE", "ETH/USDT:X y%"), ("COINBASE", "BTCUSDT")):
        for first in (0, 100, 200):
            frame = tape(first, first + 100, exchange=exchange, raw_symbol=symbol)
            lake.writer().append("trades", frame, source=f"{exchange} {symbol} {first}")
    return lake


def test_what_was_appended_is_read(filled, tape):
    got = filled.scan("trades", exchange="BINANCE", raw_symbol="ETH/USDT:X y%").collect().sort("timestamp")
    assert_frame_equal(got, tape(0, 300, exchange="BINANCE", raw_symbol="ETH/USDT:X y%"))


def test_start_is_in_and_end_is_out(filled):
    got = filled.scan(
        "trades", exchange="COINBASE", start=EPOCH + 10 * SECOND, end=EPOCH + 20 * SECOND
    ).collect()
    assert sorted(got["sequence"]) == list(range(10, 20))


def test_several_markets_can_be_asked_for(filled):
    got = filled.scan("trades", exchange=["BINANCE", "COINBASE"], raw_symbol=("BTCUSDT",)).collect()
    assert got.height == 600
    assert filled.scan("trades", exchange=[]).collect().height == 0


def test_files_of_others_and_of_other_times_are_not_opened(filled):
    wanted = filled.scan(
        "trades",
        exchange="BINANCE",
        raw_symbol="BTCUSDT",
        start=EPOCH + 120 * SECOND,
        end=EPOCH + 130 * SECOND,
    )
    stats = deltalake.DeltaTable(f"{filled.path}/trades").get_add_actions(flatten=True)
    kept = {
        path
        for path, exchange, symbol, first in zip(
            *(stats.column(name).to_pylist() for name in
              ("path", "partition.exchange", "partition.raw_symbol", "min.timestamp")),
            strict=True,
        )
        if (exchange, symbol, first) == ("BINANCE", "BTCUSDT", EPOCH + 100 * SECOND)
    }  # fmt: skip
    assert len(kept) == 1
    # Every other file is gone: reading succeeds only if none of them is opened.
    for file in Path(filled.path, "trades").rglob("*.parquet"):
        if file.name not in {Path(path).name for path in kept}:
            file.unlink()
    assert sorted(wanted.collect()["sequence"]) == list(range(120, 130))


def test_an_unknown_table_is_named(lake, tape):
    with pytest.raises(QueryError, match="did you mean 'trades'"):
        lake.scan("trade")
    with pytest.raises(QueryError, match="markets are registered"):
        lake.writer().append("markets", tape(0, 1), source="a")


# -- appending -------------------------------------------------------------------------------------------------------


def test_a_source_is_added_once(lake, tape):
    first = lake.writer().append("trades", tape(0, 10), source="a")
    assert (first.rows_read, first.rows_new, first.duplicates, first.already_ingested) == (10, 10, 0, False)
    version = lake.version()
    again = lake.writer().append("trades", tape(0, 10), source="a")
    assert (again.rows_new, again.already_ingested) == (0, True)
    assert lake.version() == version
    assert lake.has_source("trades", "a")
    assert not lake.has_source("trades", "b")
    assert not lake.has_source("book", "a")


def test_rows_of_overlapping_sources_are_added_once(lake, tape):
    lake.writer().append("trades", tape(0, 10), source="a")
    report = lake.writer().append("trades", tape(5, 15), source="b")
    assert (report.rows_new, report.duplicates) == (5, 5)
    assert lake.writer().append("trades", tape(2, 4), source="c").rows_new == 0
    assert lake.has_source("trades", "c")
    assert sorted(lake.scan("trades").collect()["sequence"]) == list(range(15))


def test_a_row_twice_in_one_batch_is_added_once(lake, tape):
    report = lake.writer().append("trades", pl.concat([tape(0, 10), tape(3, 5)]), source="a")
    assert (report.rows_new, report.duplicates) == (10, 2)


def test_the_same_id_elsewhere_is_another_trade(lake, tape):
    lake.writer().append("trades", tape(0, 3), source="a")
    assert lake.writer().append("trades", tape(0, 3, raw_symbol="ETHUSDT"), source="b").rows_new == 3
    assert lake.writer().append("trades", tape(0, 3, exchange="COINBASE"), source="c").rows_new == 3


@pytest.mark.parametrize(
    "change",
    [
        {"price": 1.0},
        {"amount": 9.5},
        {"side": "BUY"},
        {"timestamp": EPOCH + 5 * SECOND + 1},
        {"timestamp": EPOCH + 6 * SECOND - 1},
        {"timestamp": EPOCH + 3605 * SECOND},  # a clock an hour off
        {"timestamp": EPOCH - 10**6 * SECOND},
    ],
)
def test_a_row_that_contradicts_the_lake_is_an_error(lake, tape, change):
    lake.writer().append("trades", tape(0, 10), source="a")
    version = lake.version()
    with pytest.raises(IngestError, match="id '5'"):
        lake.writer().append(
            "trades", tape(5, 6).with_columns(**{k: pl.lit(v) for k, v in change.items()}), source="b"
        )
    assert lake.version() == version


def test_a_tape_again_by_another_clock_is_an_error_between_files_too(lake, tape):
    moved = tape(0, 10).with_columns(timestamp=pl.col("timestamp") + 3600 * SECOND)
    batch = Batch(TRADES)
    batch.add(tape(0, 10))
    batch.add(moved)
    with pytest.raises(IngestError, match="10 in all"):
        lake.writer().append("trades", batch, source="a")


@pytest.mark.parametrize("prefix", ["", "p" * 100, "é" * 70, "\U0010ffff" * 70])
def test_ids_of_any_length_are_found_again(lake, tape, prefix):
    def named(first, last):
        return tape(first, last).with_columns(id=pl.lit(prefix) + pl.col("id"))

    lake.writer().append("trades", named(0, 2000), source="a")
    assert lake.writer().append("trades", named(990, 2010), source="b").rows_new == 10


def test_files_of_other_ids_are_not_opened_to_find_duplicates(lake, tape):
    lake.writer().append("trades", tape(10_000, 20_000), source="a")
    lake.writer().append("trades", tape(20_000, 30_000), source="b")
    for file in Path(lake.path, "trades").rglob("*.parquet"):
        if pl.read_parquet(file, hive_partitioning=False)["sequence"].min() == 10_000:
            file.unlink()
    assert lake.writer().append("trades", tape(29_000, 31_000), source="c").rows_new == 1000


def test_a_book_event_by_another_clock_is_the_same(lake):
    row = {
        "exchange": "A", "raw_symbol": "X", "timestamp": 1, "first_id": 1, "last_id": 2, "is_snapshot": False,
        "side": "BID", "price": 1.0, "size": 2.0, "sequence": 1,
    }  # fmt: skip
    lake.writer().append("book", pl.DataFrame([row]), source="a")
    assert (
        lake.writer().append("book", pl.DataFrame([row | {"timestamp": 3600 * SECOND}]), source="b").rows_new
        == 0
    )


@pytest.mark.parametrize("symbol", ["L" * 300, "é" * 200, "a\tb", " a", "", "__HIVE_DEFAULT_PARTITION__"])
def test_a_name_that_cannot_be_a_folder_is_refused(lake, tape, symbol):
    version = lake.version()
    with pytest.raises(IngestError, match="no name of an exchange or symbol"):
        lake.writer().append("trades", tape(0, 3, raw_symbol=symbol), source="a")
    with pytest.raises(IngestError, match="no name of an exchange or symbol"):
        lake.writer().append("trades", tape(0, 3, exchange=symbol), source="a")
    assert lake.version() == version


def test_a_name_as_long_as_a_folder_can_be(lake, tape):
    for symbol in ("L" * 244, "é" * 40 + "L" * 4):
        lake.writer().append("trades", tape(0, 3, raw_symbol=symbol), source=symbol)
        assert lake.scan("trades", raw_symbol=symbol).collect().height == 3


def test_rows_that_contradict_each_other_are_an_error(lake, tape):
    with pytest.raises(
        IngestError, match=r"id '5' has price 105\.0 and 1\.0|id '5' has price 1\.0 and 105\.0"
    ):
        lake.writer().append(
            "trades", pl.concat([tape(0, 10), tape(5, 6).with_columns(price=1.0)]), source="a"
        )
    assert lake.scan("trades").collect().height == 0


def test_what_only_differs_by_recorder_is_the_same_trade(lake, tape):
    lake.writer().append("trades", tape(0, 10), source="a")
    other = tape(0, 10).with_columns(received=pl.col("timestamp") + 5, sequence=pl.col("sequence") + 1000)
    assert lake.writer().append("trades", other, source="b").rows_new == 0


def test_a_batch_in_parts_and_on_disk_is_one_commit(lake, tape):
    with Spool(limit=0) as spool:
        batch = Batch(TRADES, spool)
        for first in (0, 10, 15, 5):  # overlapping parts
            batch.add(tape(first, first + 10))
        assert all(isinstance(part.content, Path) for part in batch)
        report = lake.writer().append("trades", batch, source="a")
        folder = batch.parts[0].content.parent
    assert (report.rows_read, report.rows_new) == (40, 25)
    assert lake.version()["trades"] == 1
    assert_frame_equal(lake.scan("trades").collect().sort("sequence"), tape(0, 25))
    assert not folder.exists()


def test_a_missing_column_and_a_null_are_named(lake, tape):
    with pytest.raises(MissingColumnError, match="price"):
        lake.writer().append("trades", tape(0, 3).drop("price"), source="a")
    with pytest.raises(IngestError, match="null in column 'amount'"):
        lake.writer().append("trades", tape(0, 3).with_columns(amount=None), source="a")
    with pytest.raises(IngestError, match="dtype"):
        lake.writer().append("trades", tape(0, 3).with_columns(price=pl.lit("cheap")), source="a")
    assert lake.writer().append("trades", tape(0, 3).drop("received"), source="a").rows_new == 3


def test_an_event_without_an_id_is_nobodys_duplicate(lake):
    row = {
        "exchange": "A", "raw_symbol": "X", "timestamp": 1, "is_snapshot": False, "side": "BID", "price": 1.0,
        "size": 2.0, "sequence": 1,
    }  # fmt: skip
    frame = pl.DataFrame([row, row])
    assert lake.writer().append("book", frame, source="a").rows_new == 2
    assert lake.writer().append("book", frame, source="b").rows_new == 2
    known = frame.with_columns(first_id=1, last_id=2)
    assert lake.writer().append("book", known, source="c").rows_new == 1
    with pytest.raises(IngestError, match="size"):
        lake.writer().append("book", known.with_columns(size=3.0), source="d")


WRITER = """
import runpy, sys
import polars as pl
from tidytape.lake import Lake
path, parquet, who = sys.argv[1:]
lake = Lake(path)
tape = pl.read_parquet(parquet)
print("ready", flush=True)
sys.stdin.readline()
new = 0
for part in range(8):
    new += lake.writer().append("trades", tape.slice(part * 500, 1000), source=f"{who} {part}").rows_new
lake.writer().register(pl.DataFrame({"exchange": ["BINANCE"], "raw_symbol": [who], "coin": ["BTC"]}))
print(new)
"""


@pytest.mark.slow
def test_writers_at_the_same_time_lose_nothing_and_double_nothing(lake, tape, tmp_path):
    tape(0, 4500).write_parquet(tmp_path / "tape.parquet")
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, lake.path, str(tmp_path / "tape.parquet"), who],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for who in ("one", "two", "three")
    ]
    for writer in writers:
        assert writer.stdout.readline() == "ready\n"
    for writer in writers:  # all wait for this
        writer.stdin.write("go\n")
        writer.stdin.flush()
    new = [int(writer.communicate(timeout=120)[0]) for writer in writers]
    assert all(writer.returncode == 0 for writer in writers)
    assert sum(new) == 4500
    assert_frame_equal(lake.scan("trades").collect().sort("sequence"), tape(0, 4500))
    assert lake.markets()["raw_symbol"].to_list() == ["one", "three", "two"]


# -- registering -----------------------------------------------------------------------------------------------------


def market(**fields):
    return pl.DataFrame([{"exchange": "BINANCE", "raw_symbol": "BTCUSDT"} | fields])


def test_what_is_registered_stays(lake):
    lake.writer().register(market(coin="BTC", block_size=2.0, available_since=5))
    lake.writer().register(market(coin="XBT", block_size=5.0, tick_size=0.01, available_since=9))
    row = lake.markets().row(0, named=True)
    assert (row["coin"], row["block_size"], row["tick_size"], row["available_since"]) == ("BTC", 2.0, 0.01, 5)
    lake.writer().register(market(available_since=3))
    assert lake.markets()["available_since"].to_list() == [3]


def test_what_is_said_on_purpose_wins(lake):
    lake.writer().register(market(coin="BTC", block_size=2.0))
    lake.writer().register(market(coin="XBT", block_size=5.0), replace=["block_size"])
    lake.writer().register(market(), replace=["coin"])
    assert lake.markets().select("coin", "block_size").rows() == [("BTC", 5.0)]


def test_registering_the_same_again_makes_no_version(lake):
    lake.writer().register(market(coin="BTC"))
    version = lake.version()
    lake.writer().register(market(coin="BTC"))
    assert lake.version() == version


def test_the_sources_of_markets_are_noted(lake):
    lake.writer().register(market(coin="BTC"), sources=["a", "b"])
    version = lake.version()
    assert lake.has_source("markets", "a")
    assert not lake.has_source("markets", "c")
    lake.writer().register(market(coin="BTC"), sources=["b"])
    assert lake.version() == version
    lake.writer().register(market(coin="BTC"), sources=["c"])
    assert lake.has_source("markets", "c")


def test_markets_are_sorted_and_named_once(lake):
    two = pl.concat([market(), market().with_columns(exchange=pl.lit("A"))])
    lake.writer().register(two)
    assert lake.markets()["exchange"].to_list() == ["A", "BINANCE"]
    with pytest.raises(IngestError, match="twice"):
        lake.writer().register(pl.concat([market(), market()]))
    with pytest.raises(MissingColumnError, match="coins"):
        lake.writer().register(market(), replace=["coins"])
    with pytest.raises(MissingColumnError, match="raw_symbol"):
        lake.writer().register(pl.DataFrame({"exchange": ["A"]}))


def test_a_summary_symbol_is_a_market_per_tenor(lake):
    lake.writer().register(market(tenor="ONE_W", coin="BTC"))
    lake.writer().register(market(tenor="ONE_M", coin="BTC"))
    lake.writer().register(market(coin="ETH"))
    lake.writer().register(market(full_name="Bitcoin", tenor=None))
    assert lake.markets().select("tenor", "coin", "full_name").rows() == [
        (None, "ETH", "Bitcoin"),
        ("ONE_M", "BTC", None),
        ("ONE_W", "BTC", None),
    ]
    with pytest.raises(IngestError, match="twice"):
        lake.writer().register(pl.concat([market(tenor="ONE_W")] * 2))


@pytest.mark.slow
def test_versions_that_are_not_the_newest_any_more_are_freed(tmp_path: Path) -> None:
    """A lake that others write to has a new version every second."""
    lake = empty_lake(tmp_path / "lake")
    seen: list[weakref.ref[object]] = []
    for number in range(12):
        lake.writer().append(
            "trades", trades([(str(number), number * SECOND, "BUY", 1.0, 1.0)]), source=str(number)
        )
        found = lake.scan("trades", exchange="X", raw_symbol="BTCUSDT", start=0, end=10**18).collect()
        assert found.height == number + 1
        seen.append(weakref.ref(lake.delta("trades")))
    gc.collect()
    alive = [one for one in seen if one() is not None]
    assert len(alive) <= 5


@pytest.mark.slow
def test_a_lake_as_it_was_has_the_rows_of_then(tmp_path: Path) -> None:
    lake = empty_lake(tmp_path / "lake")
    lake.writer().append("trades", trades([("1", 1, "BUY", 1.0, 1.0)]), source="a")
    then = lake.version()
    lake.writer().append("trades", trades([("2", 2, "BUY", 1.0, 1.0)]), source="b")
    assert lake.at(then).scan("trades").collect().height == 1
    assert lake.at(then).version() == then
    assert lake.at({"trades": 0}).scan("trades").collect().height == 0
    assert not lake.at({}).has_table("trades")
    with pytest.raises(LakeError, match="open the table"):
        lake.at({"trades": 99}).extent("trades", "X", "BTCUSDT")
