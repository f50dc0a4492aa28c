"""A lake in an object store: everything a lake does, and how it fails."""

from __future__ import annotations

import subprocess
import sys
import time
import traceback
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

import object_store
from ingested import ingest
from tidytape import Client
from tidytape.cli import main
from tidytape.errors import LakeError
from tidytape.lake import Lake, _delta, hygiene

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with object_store.served() as address:
        yield address


@pytest.fixture
def bucket(address: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    return object_store.emptied(address, monkeypatch, tmp_path)


@pytest.fixture
def trades_file(tmp_path: Path) -> Path:
    path = tmp_path / "trades.csv"
    rows = "".join(f"{i},{1_693_929_600 + i},{100 + i % 5},{1 + i % 3},buy\n" for i in range(600))
    path.write_text("id,time,price,amount,side\n" + rows)
    return path


COLUMNS = {"timestamp": "time"}
CSV = {"layout": "csv", "exchange": "COINBASE", "raw_symbol": "BTC-USD", "columns": COLUMNS}


def test_a_lake_lives_in_a_bucket(bucket, trades_file):
    path = f"s3://{bucket}/some/lake"
    lake = Lake.create(path)
    assert ingest(trades_file, lake, **CSV, progress=False).trades_new == 600
    assert ingest(trades_file, lake, **CSV, progress=False).files[0].already_ingested
    lake = Lake(path + "/")
    assert lake.scan("trades", exchange="COINBASE", start=1_693_929_600 * 10**9).collect().height == 600
    assert lake.markets()["raw_symbol"].to_list() == ["BTC-USD"]
    lake.writer().register(pl.DataFrame({"exchange": ["X"], "raw_symbol": ["Y"]}))
    assert lake.markets().height == 2
    with Client.local(path) as client:
        candles = client.candles(
            exchange="COINBASE",
            raw_symbol="BTC-USD",
            interval="1m",
            start="2023-09-05T16:00:00Z",
            end="2023-09-05T16:10:00Z",
        )
    assert candles.height == 10
    assert candles["volume"].sum() == sum(1 + i % 3 for i in range(600))


def test_settings_may_be_given_instead_of_the_environment(bucket, address, monkeypatch, tape):
    for name in object_store.settings(address):
        monkeypatch.delenv(name)
    options = object_store.settings(address) | {"max_retries": "3", "retry_timeout": "20s"}
    lake = Lake.create(f"s3://{bucket}/lake", storage_options=options)
    lake.writer().append("trades", tape(0, 10), source="a")
    assert lake.scan("trades").collect().height == 10
    assert hygiene.check(lake, progress=False).sound


@pytest.mark.long
def test_a_lake_in_a_bucket_is_kept(bucket, tape):
    lake = Lake.create(f"s3://{bucket}/lake")
    symbols = ("BTCUSDT", "BTC/USDT", "a b=%é")
    for symbol in symbols:
        lake.writer().append("trades", tape(100, 200, raw_symbol=symbol), source=f"late {symbol}")
        lake.writer().append("trades", tape(0, 150, raw_symbol=symbol), source=f"early {symbol}")
    before = lake.scan("trades").collect()
    assert hygiene.info(lake).row(0, named=True)["rows"] == 600
    assert hygiene.check(lake, progress=False).findings == ()
    assert len(hygiene.compact(lake, progress=False)) == 3
    trades = hygiene.vacuum(lake, retention_hours=0, dry_run=False)[0]
    assert trades.files == 6
    assert trades.bytes > 0
    assert hygiene.check(lake, progress=False).findings == ()
    after = lake.scan("trades").collect()
    assert after.sort(after.columns).equals(before.sort(before.columns))
    assert all(lake.has_source("trades", f"early {symbol}") for symbol in symbols)


WRITE = """
import sys
import polars as pl
from tidytape.lake import TRADES, Lake
lake, writer = Lake.create(sys.argv[1]), int(sys.argv[2])
for turn in range(5):
    # Half of every span is also the other writer's.
    number = pl.int_range(turn * 100, turn * 100 + 150, eager=True) + writer * 50
    frame = pl.DataFrame({"sequence": number}).with_columns(
        exchange=pl.lit("X"), raw_symbol=pl.lit("Y"), id=number.cast(pl.String), timestamp=number * 10**9 + 10**18,
        side=pl.lit("BUY"), price=pl.lit(1.0), amount=pl.lit(1.0), quote_amount=pl.lit(1.0),
    )
    lake.writer().append("trades", TRADES.conform(frame), source=f"{writer} {turn}")
"""


def test_two_writers_at_once_lose_and_double_nothing(bucket):
    path = f"s3://{bucket}/lake"
    writers = [subprocess.Popen([sys.executable, "-c", WRITE, path, str(number)]) for number in (0, 1)]
    assert [writer.wait(timeout=120) for writer in writers] == [0, 0]
    lake = Lake(path)
    assert sorted(lake.scan("trades").collect()["sequence"].to_list()) == list(range(600))
    assert all(lake.has_source("trades", f"{writer} {turn}") for writer in (0, 1) for turn in range(5))


COMPACT = """
import sys
from tidytape.lake import Lake, hygiene
for _ in range(3):
    hygiene.compact(Lake(sys.argv[1]), everything=True)
"""


@pytest.mark.long
def test_two_compactions_beside_a_writer_lose_and_double_nothing(bucket):
    path = f"s3://{bucket}/lake"
    Lake.create(path)
    jobs = [(WRITE, path, "0"), (WRITE, path, "1"), (COMPACT, path), (COMPACT, path)]
    running = [subprocess.Popen([sys.executable, "-c", *words]) for words in jobs]
    assert [process.wait(timeout=120) for process in running] == [0, 0, 0, 0]
    lake = Lake(path)
    assert sorted(lake.scan("trades").collect()["sequence"].to_list()) == list(range(600))
    assert hygiene.check(lake, progress=False).sound


@pytest.mark.long
def test_the_command_line_takes_the_address(bucket, trades_file, monkeypatch, capsys):
    path = f"s3://{bucket}/lake"
    csv = ("--exchange", "COINBASE", "--raw-symbol", "BTC-USD", "--map", "timestamp=time")
    for words in (
        ("ingest", "csv", str(trades_file), "--lake", path, *csv),
        ("lake", "info", "--lake", path),
        ("lake", "check", "--lake", path),
        ("markets", "--lake", path),
    ):
        monkeypatch.setattr("sys.argv", ["tidytape", *words])
        with pytest.raises(SystemExit) as stopped:
            main()
        assert not stopped.value.code
    said = capsys.readouterr().out
    assert "600 trades" in said
    assert "sound" in said


@pytest.mark.parametrize(
    ("changes", "path", "hint"),
    [
        ({}, "s3://no-such-bucket/lake", "no such bucket"),
        ({"AWS_ENDPOINT_URL": "http://127.0.0.1:9"}, None, "does the store answer"),
        ({"AWS_ALLOW_HTTP": "false"}, None, "AWS_ALLOW_HTTP"),
    ],
)
@pytest.mark.parametrize("way", [Lake, Lake.create])
def test_a_store_that_is_not_there_says_so_soon(bucket, monkeypatch, changes, path, hint, way):
    for name, value in changes.items():
        monkeypatch.setenv(name, value)
    begun = time.monotonic()
    with pytest.raises(LakeError, match=hint) as caught:
        way(path or f"s3://{bucket}/lake")
    assert time.monotonic() - begun < 15
    assert object_store.SECRET not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_credentials_that_are_refused_are_not_shown(bucket, monkeypatch):
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    # The machine's own metadata service, which is asked next, is a port where nobody listens.
    monkeypatch.setenv("AWS_METADATA_ENDPOINT", "http://127.0.0.1:9")
    begun = time.monotonic()
    with pytest.raises(LakeError):
        Lake(f"s3://{bucket}/lake")
    assert time.monotonic() - begun < 15


def test_an_error_that_says_a_credential_is_shown_without_it(monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hunter22hunter22")
    options = {"aws_session_token": "tokentoken"}
    with pytest.raises(LakeError, match="refused") as caught, _delta.failing("look", "s3://bucket", options):
        raise OSError("SignatureDoesNotMatch: hunter22hunter22, tokentoken refused")
    shown = "".join(traceback.format_exception(caught.value))
    assert "hunter22" not in shown
    assert "tokentoken" not in shown
    assert "AWS_SECRET_ACCESS_KEY" in str(caught.value)


@pytest.mark.long
def test_a_reader_needs_no_library_of_amazons(bucket, tape):
    """boto3 is there for these tests only; polars looks for it."""
    Lake.create(f"s3://{bucket}/lake").writer().append("trades", tape(0, 10), source="a")
    code = """
import sys
sys.modules["boto3"] = sys.modules["botocore"] = None
from tidytape.lake import Lake, _delta, hygiene
lake = Lake(sys.argv[1])
assert lake.scan("trades").collect().height == 10 and hygiene.check(lake).sound
"""
    subprocess.run([sys.executable, "-W", "error", "-c", code, f"s3://{bucket}/lake"], check=True, timeout=60)


def test_an_address_holds_no_credentials():
    with pytest.raises(LakeError, match="credentials") as caught:
        Lake("s3://key:hunter22@bucket/lake")
    assert "hunter22" not in str(caught.value)


def test_nothing_in_a_bucket_is_no_lake(bucket):
    with pytest.raises(LakeError, match="no lake at"):
        Lake(f"s3://{bucket}/elsewhere")
