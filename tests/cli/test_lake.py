"""``tidytape lake`` as a user meets it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import deltalake
import polars as pl
import pytest

from lakes import as_stored, empty_lake
from tidytape.cli import main
from tidytape.lake import TRADES, Lake
from tidytape.lake.hygiene._checks import CHECKS

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    def command(*words: object) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["tidytape", *map(str, words)])
        with pytest.raises(SystemExit) as stopped:
            main()
        said = capsys.readouterr()
        return int(stopped.value.code or 0), said.out, said.err

    return command


def tape(first: int, last: int) -> pl.DataFrame:
    number = pl.int_range(first, last, eager=True)
    frame = pl.DataFrame({"sequence": number}).with_columns(
        exchange=pl.lit("BINANCE"),
        raw_symbol=pl.lit("BTCUSDT"),
        id=number.cast(pl.String),
        timestamp=number * 10**9 + 1_700_000_000 * 10**9,
        side=pl.lit("BUY"),
        price=pl.lit(10.0),
        amount=pl.lit(1.0),
        quote_amount=pl.lit(10.0),
    )
    return TRADES.conform(frame)


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    path = tmp_path / "lake"
    made = empty_lake(path)
    made.writer().append("trades", tape(0, 100), source="a")
    made.writer().append("trades", tape(50, 150), source="b")
    return path


@pytest.mark.slow
def test_info(run, lake):
    code, said, _ = run("lake", "info", "--lake", lake)
    assert code == 0
    assert said.count("2023-11-14T22:13:20Z") == 1  # five types of one table
    assert "longest_gap" not in said  # there is none, and that is nothing unknown
    code, said, told = run("lake", "info", "--lake", lake, "--json")
    rows = json.loads(said)
    assert (code, told) == (0, "")
    assert [row["type"] for row in rows] == [
        "TRADE", "TRADE_SIDE_AGNOSTIC_AGG", "TRADE_AGG", "VOLUME_PROFILE_AGG", "TPO_AGG"
    ]  # fmt: skip
    assert {name: rows[0][name] for name in ("raw_symbol", "rows", "gaps", "first_timestamp", "quiet")} == {
        "raw_symbol": "BTCUSDT",
        "rows": 150,
        "gaps": 0,
        "first_timestamp": "2023-11-14T22:13:20Z",
        "quiet": "PT1H",
    }


@pytest.mark.slow
def test_info_tells_gaps(run, lake, tmp_path):
    Lake(lake).writer().append("trades", tape(10_000, 10_100), source="c")
    (row,) = [
        row for row in json.loads(run("lake", "info", "--lake", lake, "--json")[1]) if row["type"] == "TRADE"
    ]
    assert (row["gaps"], row["longest_gap"], row["gap_starts"]) == (1, "PT2H44M11S", ["2023-11-14T22:15:49Z"])
    words = ("lake", "info", "--lake", lake, "--shortest-gap", "3h", "--events", "--json")
    assert json.loads(run(*words)[1])[0]["gaps"] == 0
    code, said, told = run("lake", "info", "--lake", lake, "--out", tmp_path / "held.parquet")
    assert (code, said, told) == (0, "", f"5 rows -> {tmp_path / 'held.parquet'}\n")
    assert pl.read_parquet(tmp_path / "held.parquet")["gaps"].to_list() == [1] * 5
    assert run("lake", "info", "--lake", lake, "--shortest-gap", "soon")[0] == 2


@pytest.mark.slow
def test_info_draws(run, lake, tmp_path):
    code, said, told = run("lake", "info", "--lake", lake, "--out", tmp_path / "held.png")
    assert (code, said, told) == (0, "", f"5 rows drawn -> {tmp_path / 'held.png'}\n")
    assert (tmp_path / "held.png").read_bytes().startswith(b"\x89PNG")
    code, _, told = run("lake", "info", "--tables", "--lake", lake, "--out", tmp_path / "held.png")
    assert code == 2
    assert told.startswith("error: --out: got ")


@pytest.mark.slow
def test_info_of_tables(run, lake):
    code, said, _ = run("lake", "info", "--tables", "--lake", lake, "--json")
    table = json.loads(said)[0]
    assert code == 0
    assert {name: table[name] for name in ("table", "rows", "files", "version", "first")} == {
        "table": "trades",
        "rows": 150,
        "files": 2,
        "version": 2,
        "first": "2023-11-14T22:13:20Z",
    }
    code, _, told = run("lake", "info", "--tables", "--markets", "--lake", lake)
    assert code == 2
    assert told.startswith("error: --tables: got '--markets too'")


@pytest.mark.slow
def test_info_of_markets(run, lake):
    code, said, _ = run("lake", "info", "--markets", "--lake", lake, "--json")
    assert code == 0
    assert [row["raw_symbol"] for row in json.loads(said)] == ["BTCUSDT"]
    assert "BTCUSDT" in run("lake", "info", "--markets", "--lake", lake)[1]


@pytest.mark.slow
def test_check(run, lake):
    code, said, _ = run("lake", "check", "--lake", lake)
    assert (code, said.splitlines()[-1]) == (0, f"150 rows, {len(CHECKS)} checks: sound")
    deltalake.write_deltalake(f"{lake}/trades", as_stored(tape(3, 5)), mode="append")
    code, said, _ = run("lake", "check", "--lake", lake, "--check", "keys")
    assert code == 1
    assert said.startswith("error: keys: trades BINANCE BTCUSDT: 2, first: id '3' has 2 rows")
    code, said, _ = run("lake", "check", "--lake", lake, "--json", "--table", "trades")
    assert code == 1
    assert [finding["check"] for finding in json.loads(said)] == ["keys", "sequence"]


@pytest.mark.slow
def test_compact_and_vacuum(run, lake):
    code, said, _ = run("lake", "compact", "--lake", lake)
    assert code == 0
    assert said.startswith("trades BINANCE BTCUSDT: 2 -> 1 file, ")
    assert run("lake", "compact", "--lake", lake)[1] == "nothing to compact\n"
    for words in ((), ("--dry-run",), ("--yes", "--dry-run")):
        code, said, _ = run("lake", "vacuum", "--lake", lake, "--retention-hours", 0, *words)
        assert (code, said.splitlines()[0][:28]) == (0, "trades: would delete 2 files")
    code, said, _ = run("lake", "vacuum", "--lake", lake, "--retention-hours", 0, "--yes", "--json")
    assert json.loads(said)[0]["files"] == 2
    assert run("lake", "check", "--lake", lake)[0] == 0


@pytest.mark.slow
def test_keep(run, lake):
    for number in range(1, 9):
        Lake(lake).writer().append("trades", tape(150 * number, 150 * number + 3), source=f"{number}")
    code, said, _ = run("lake", "keep", "--lake", lake)
    assert code == 0
    assert said.startswith("trades: merged 10 small files\n")
    assert run("lake", "keep", "--lake", lake)[1] == "nothing to do\n"
    assert run("lake", "keep", "--lake", lake, "--json")[1] == "[]\n"
    assert run("lake", "check", "--lake", lake)[0] == 0


@pytest.mark.parametrize("command", ["info", "check", "compact", "keep", "vacuum"])
def test_no_lake(run, tmp_path, command):
    code, said, told = run("lake", command, "--lake", tmp_path / "none")
    assert (code, said) == (1, "")
    assert told.startswith("error: no lake at")


@pytest.mark.slow
def test_a_check_that_is_none(run, lake):
    code, _, told = run("lake", "check", "--lake", lake, "--check", "key")
    assert code == 2
    assert "did you mean 'keys'" in told


@pytest.mark.slow
def test_rename(run, lake):
    Lake(lake).writer().register(pl.DataFrame({"exchange": ["BINANCE"], "raw_symbol": ["BTCUSDT"]}))
    words = ("lake", "rename", "BINANCE", "BTCUSDT")
    code, said, _ = run(*words, "XBTUSDT", "--at", "2024-09-13T10:00:00Z", "--lake", lake, "--json")
    noted = {"renamed_to": "XBTUSDT", "renamed_at": "2024-09-13T10:00:00Z"}
    assert (code, json.loads(said)) == (0, [{"exchange": "BINANCE", "raw_symbol": "BTCUSDT", **noted}])
    code, _, said = run(*words, "BTCUSDT", "--at", "2024-09-13", "--lake", lake)
    assert (code, said.count("\n")) == (2, 1)
    assert "new: got 'BTCUSDT', expected a symbol that does not lead back to BTCUSDT" in said
    corrected = (*words, "BTCUSD", "--at", "2024-09-13T10:00:00Z", "--lake", lake)
    code, _, said = run(*corrected)
    assert (code, "or --replace" in said) == (2, True)
    assert run(*corrected, "--replace")[0] == 0
