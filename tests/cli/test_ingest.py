"""``tidytape ingest``, one command per layout."""

from __future__ import annotations

import inspect
import zipfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tidytape.cli import ingest as commands
from tidytape.errors import QueryError
from tidytape.lake import Lake
from tidytape.lake.ingest import LAYOUTS, ingest

T = 1_700_000_000


@pytest.fixture
def run(tmp_path):
    def call(*words):
        result = CliRunner().invoke(commands.app, [*map(str, words), "--lake", str(tmp_path / "lake")])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == 0, result.output
        return result.output

    return call


@pytest.fixture
def lake(tmp_path):
    return lambda: Lake(tmp_path / "lake")


def test_there_is_a_command_for_every_layout():
    names = {command.name for command in commands.app.registered_commands}
    assert names == {"auto", "polymarket-gamma", *LAYOUTS}


def test_every_option_is_an_argument_of_ingest():
    known = {*inspect.signature(ingest).parameters, "files", "lake"}
    for command in commands.app.registered_commands:
        assert command.callback is not None
        assert set(inspect.signature(command.callback).parameters) <= known


def test_a_table_by_map(run, lake, tmp_path):
    path = tmp_path / "oi.csv"
    path.write_text(f"when,oi\n{T},5\n")
    run(
        "csv",
        path,
        "--table",
        "open_interest",
        "--map",
        "timestamp=when,amount=oi",
        "--exchange",
        "X",
        "--raw-symbol",
        "A",
    )
    assert lake().scan("open_interest").collect()["amount"].to_list() == [5.0]


def test_a_table_without_venue(run, lake, tmp_path):
    path = tmp_path / "rates.jsonl"
    path.write_text('{"quote_coin": "EUR", "timestamp": "2023-11-14", "usd": 1.1}\n')
    run("jsonl", path, "--table", "quote_rates", "--time-unit", "date")
    assert lake().scan("quote_rates").collect()["usd"].to_list() == [1.1]
    with pytest.raises(QueryError, match="time_unit: got 'day'"):
        run("jsonl", path, "--table", "quote_rates", "--time-unit", "day")


def test_a_dump(run, lake, tmp_path):
    path = tmp_path / "BTCUSDT-trades-2023-11-14.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("BTCUSDT-trades-2023-11-14.csv", f"1,10.5,2,21,{T}000,True,True\n")
    assert "1 trade" in run("auto", path, "--exchange", "BINANCE")
    assert "already in the lake" in run("binance-vision", path, "--exchange", "BINANCE")
    assert lake().scan("trades").collect()["raw_symbol"].to_list() == ["BTCUSDT"]


def test_files_are_recognised_and_asked_for_their_venue(run, lake, recorded):
    names = ("tardis_bitmex_trades_XBTUSD.csv", "deribit_options_snapshot_20260305T042746Z.csv.gz")
    with pytest.raises(QueryError, match="exchange: got None"):
        run("auto", recorded / names[1])
    said = run("auto", recorded / names[0])
    assert "10 trades" in said
    assert run("tardis", recorded / names[0], "--exchange", "OTHER").count("10 trades") >= 1
    assert lake().scan("trades").collect()["exchange"].unique().sort().to_list() == ["BITMEX", "OTHER"]


@pytest.mark.parametrize("layout", ["tardis-node", "cryptofeed"])
def test_recorded_files(run, recorded, layout):
    name = {
        "tardis-node": "tardis-node_normalized_liquidation.jsonl",
        "cryptofeed": "cryptofeed_BITMEX.0_instruments.gz",
    }[layout]
    assert Path(name).name in run(layout, recorded / name)


def test_what_is_not_said_is_not_passed_on(monkeypatch, run, tmp_path):
    seen = {}
    monkeypatch.setattr(commands, "_ingest", lambda files, lake, **options: seen.update(options))
    run("tardis", tmp_path / "x")
    assert seen == {"layout": "tardis", "skip_bad": False}
    seen.clear()
    run(
        "binance-vision",
        tmp_path / "x",
        "--exchange",
        "E",
        "--contract",
        "inverse",
        "--contract-size",
        "100",
        "--workers",
        "2",
    )
    assert seen == {
        "layout": "binance-vision", "exchange": "E", "contract": "inverse", "contract_size": "100", "workers": 2,
        "skip_bad": False,
    }  # fmt: skip
