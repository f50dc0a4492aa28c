"""``tidytape ingest``, one command per layout."""

from __future__ import annotations

import gzip
import os
import re
import zipfile
from functools import cache
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from ingested import ingest
from lakes import empty_lake
from tidytape.cli import _ingest as commands
from tidytape.cli import app as main_app
from tidytape.cli import main
from tidytape.errors import IngestError, QueryError
from tidytape.lake import Lake
from tidytape.lake.ingest import LAYOUTS, Market, summary
from tidytape.lake.ingest._layouts import options_of

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


@cache
def layout_commands():
    return typer.main.get_command(main_app).commands["ingest"].commands


def test_there_is_a_command_for_every_layout():
    assert set(layout_commands()) == {"auto", "polymarket-gamma", *LAYOUTS}


@pytest.mark.slow
def test_every_option_is_said_of_the_layout_the_market_or_the_run():
    always, following = (
        {"files", "lake", "verbose", "as_json", "skip_bad", "replace", "workers", "tidy"},
        {"follow", "every", "most_bad", "keep"},
    )
    for name, layout in LAYOUTS.items():
        run = always | following if layout.follows else always
        options = {param.name for param in layout_commands()[name].params} - {"help"}
        assert run <= options
        assert options - run <= {*options_of(Market), *options_of(layout)}, name


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_dump(run, lake, tmp_path):
    path = tmp_path / "BTCUSDT-trades-2023-11-14.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("BTCUSDT-trades-2023-11-14.csv", f"1,10.5,2,21,{T}000,True,True\n")
    assert "1 trade" in run("auto", path, "--exchange", "BINANCE")
    assert "already in the lake" in run("binance-vision", path, "--exchange", "BINANCE")
    assert lake().scan("trades").collect()["raw_symbol"].to_list() == ["BTCUSDT"]


@pytest.mark.slow
def test_files_are_recognised_and_asked_for_their_venue(run, lake, recorded):
    names = ("tardis_bitmex_trades_XBTUSD.csv", "binance-vision_quoted_rows_BTCUSD_PERP_metrics.csv")
    with pytest.raises(QueryError, match="exchange: left out"):
        run("auto", recorded / names[1])
    # A venue is for the files that do not name theirs.
    with pytest.raises(QueryError, match="the amounts of BITMEX XBTUSD are numbers of contracts"):
        run("auto", recorded / names[0], "--exchange", "BINANCE_COINM")
    contract = ("--contract", "inverse", "--contract-size", "1")
    assert "10 trades" in run("auto", recorded / names[0], "--exchange", "BINANCE_COINM", *contract)
    with pytest.raises(QueryError, match="the amounts of OTHER XBTUSD are numbers of contracts"):
        run("tardis", recorded / names[0], "--exchange", "OTHER")
    assert run("tardis", recorded / names[0], "--exchange", "OTHER", *contract).count("10 trades") >= 1
    assert lake().scan("trades").collect()["exchange"].unique().sort().to_list() == ["BITMEX", "OTHER"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["derivative_ticker.jsonl.gz", "liquidation.jsonl"])
def test_many_markets_and_venues_take_few_lines_unless_all_are_wanted(run, recorded, kind):
    file = recorded / f"tardis-node_normalized_{kind}"
    assert len(run("tardis-node", file, "--amount-unit", "coin").splitlines()) < 10


@pytest.mark.slow
def test_verbose_tells_of_every_market(run, recorded):
    file = recorded / "tardis-node_normalized_liquidation.jsonl"
    listed = run("tardis-node", file, "--verbose", "--amount-unit", "coin").splitlines()
    assert sum(" in the lake" in line for line in listed) > 20


@pytest.fixture
def refused(tmp_path, monkeypatch, capsys):
    """What a command says on the standard error when it cannot be carried out."""

    def call(*words):
        monkeypatch.setattr("sys.argv", ["tidytape", *map(str, words), "--lake", str(tmp_path / "lake")])
        with pytest.raises(SystemExit) as stopped:
            main()
        assert stopped.value.code
        return capsys.readouterr().err

    return call


@pytest.mark.slow
def test_a_map_is_told_by_columns_and_options_by_their_flags(refused, tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(f"when,raw_symbols,rates\n{T},A,1\n")
    csv = ("ingest", "csv", path, "--exchange", "X")
    known = "timestamp, price, amount, side, buyer_is_maker, id, raw_symbol"
    assert refused(*csv, "--map", "symbol=raw_symbols") == (
        f"error: --map: got 'symbol', expected one of {known} to be mapped; did you mean 'raw_symbol'?\n"
    )
    assert refused(*csv) == (
        "error: --map: left out, expected timestamp, price, amount, side or buyer_is_maker mapped to one of the "
        "columns of a.csv: when, raw_symbols, rates\n"
    )
    said = refused(*csv, "--table", "open_interest", "--map", "timestamp=when,raw_symbol=raw_symbols")
    assert said.startswith(
        "error: --map: got 'timestamp=when,raw_symbol=raw_symbols', expected amount mapped to one of the columns of"
    )
    assert refused(*csv, "--map", "when").startswith("error: --map: got 'when', expected name=column pairs")
    assert refused(*csv, "--time-unit", "s", "--time-format", "%Y").startswith(
        "error: --time-format: got '%Y', expected nothing, for --time-unit says it already"
    )
    assert refused("ingest", "csv", path).startswith(
        "error: --exchange: left out, expected the exchange of a.csv"
    )
    contract = refused(*csv, "--contract", "inverse")
    assert contract.startswith("error: --contract-size: left out, expected the size of one INVERSE contract")
    # Of several files each is told alike.
    other = tmp_path / "b.csv"
    other.write_text("timestamp,price,amount,side\n")
    broken = tmp_path / "c.csv"
    broken.write_text("")
    several = refused("ingest", "csv", path, other, broken, "--exchange", "X", "--map", "timestamp=timestamp")
    assert f"{path}: --map: got 'timestamp', expected for timestamp one of the columns of a.csv" in several
    assert f"{other}: --raw-symbol: left out, expected the market of the file" in several


@pytest.fixture
def mixture(tmp_path):
    """Two files that are good among some of every kind that cannot be read."""
    row = f"1,10.5,2,21,{T}000,True,True\n"

    def path(name, data=b""):
        made = tmp_path / name
        made.write_bytes(data)
        return made

    def zipped(name, *members):
        made = tmp_path / name
        with zipfile.ZipFile(made, "w") as archive:
            for member in members:
                archive.writestr(member, row)
        return made

    good = [
        zipped("BTCUSDT-trades-2023-11-14.zip", "a.csv"),
        path("ETHUSDT-trades-2023-11-14.csv", row.encode()),
    ]
    (tmp_path / "folder").mkdir()
    closed = path("LTCUSDT-trades-2023-11-14.csv", row.encode())
    closed.chmod(0)
    bad = [
        (path("what.txt", b"hello\n"), "layout: left out|neither the first line nor the name"),
        (
            path("ADAUSDT-trades-2023-11-14.csv.gz", gzip.compress(row.encode() * 999)[:-9]),
            "the gzip stream breaks off",
        ),
        (zipped("BNBUSDT-trades-2023-11-14.zip", "a.csv", "b.csv"), "it holds 2 files: a.csv, b.csv"),
        (path("XRPUSDT-trades-2023-11-14.zip", good[0].read_bytes()[:-30]), "no whole zip archive"),
        (path("SOLUSDT-trades-2023-11-14.csv"), "the file is empty"),
        (tmp_path / "folder", "a folder, not a file"),
        (tmp_path / "missing.zip", "No such file"),
        (
            path("BTCUSDT-bookDepth-2023-11-14.csv", b"timestamp,percentage,depth,notional\n"),
            "bookDepth: amounts within",
        ),
    ]
    if os.geteuid():  # whom no permission stops cannot be stopped
        bad.append((closed, "Permission denied"))
    return good, bad


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["auto", "binance-vision"])
@pytest.mark.parametrize("good_first", [True, False])
def test_bad_files_do_not_lose_the_others(mixture, lake, tmp_path, monkeypatch, capsys, layout, good_first):
    good, bad = mixture
    files = [path for path, _ in bad]
    files = [*good, *files] if good_first else [*files, *good]
    monkeypatch.setattr(
        "sys.argv",
        ["tidytape", "ingest", layout, *map(str, files), "--lake", str(tmp_path / "lake"), "--exchange", "X"],
    )
    with pytest.raises(SystemExit) as stopped:
        main()
    said = capsys.readouterr()
    assert stopped.value.code == 1
    assert said.out.count("1 trade;") == 2
    assert said.err.startswith(
        f"error: {len(bad)} of {len(files)} files did not go into the lake, the others did:\n"
    )
    lines = said.err.splitlines()[1:]
    assert len(lines) == len(bad)
    for line, (path, reason) in zip(lines, bad, strict=True):
        assert str(path) in line
        assert re.search(reason, line)
    assert sorted(lake().scan("trades").collect()["raw_symbol"]) == ["BTCUSDT", "ETHUSDT"]


@pytest.mark.slow
def test_bad_files_do_not_lose_the_others_with_a_bar(mixture, lake, tmp_path, capsys):
    good, bad = mixture
    with pytest.raises(IngestError, match=f"{len(bad)} of {len(bad) + 2} files"):
        ingest(
            [path for path, _ in bad] + good,
            empty_lake(tmp_path / "lake"),
            exchange="X",
            progress=True,
            workers=4,
        )
    assert lake().scan("trades").collect().height == 2
    assert "B/s" in capsys.readouterr().err


@pytest.mark.slow
def test_candles_and_funding_are_told_what_their_files_do_not(run, lake, tmp_path):
    candles, funding = tmp_path / "candles.csv", tmp_path / "funding.csv"
    candles.write_text(f"timestamp,open,high,low,close,volume\n{T // 3600 * 3600},1,2,1,2,5\n")
    funding.write_text(f"timestamp,rate\n{T},0.0001\n")
    market = ("--exchange", "X", "--raw-symbol", "BTCUSDT")
    assert "1 candle" in run("csv", candles, "--table", "candles", "--interval", "1h", *market)
    run("csv", funding, "--table", "funding", "--funding-interval", "8h", *market)
    assert lake().scan("candles").collect()["interval"].to_list() == [3600 * 10**9]
    assert lake().scan("funding").collect()["funding_interval"].to_list() == [8 * 3600 * 10**9]


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["tardis-node", "cryptofeed"])
def test_recorded_files(run, recorded, layout):
    said = ("--amount-unit", "coin")
    name = {
        "tardis-node": "tardis-node_normalized_liquidation.jsonl",
        "cryptofeed": "cryptofeed_BITMEX.0_instruments.gz",
    }[layout]
    assert Path(name).name in run(layout, recorded / name, *(said if layout == "tardis-node" else ()))


def test_what_is_not_said_is_not_passed_on(monkeypatch, run, tmp_path):
    seen = {}
    monkeypatch.setattr(commands, "_ingest", lambda files, lake, **options: seen.update(options))
    run("tardis", tmp_path / "x")
    following = {"follow": False, "every": 1.0, "most_bad": 100, "keep": 900.0, "tidy": True}
    assert seen.pop("format_report") is summary
    assert seen == {"layout": "tardis", "skip_bad": False, "replace": False, **following}
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
    assert seen.pop("format_report") is summary
    assert seen == {
        "layout": "binance-vision", "exchange": "E", "contract": "inverse", "contract_size": "100", "workers": 2,
        "skip_bad": False, "replace": False, "tidy": True,
    }  # fmt: skip


@pytest.mark.slow
def test_units_of_times_and_amounts_are_said_as_options(run, refused, lake, tmp_path):
    quotes, candles = tmp_path / "quotes.csv", tmp_path / "candles.csv"
    quotes.write_text(f"timestamp,expiry,strike,option_type,coin\n{T}000,2024-03-29,60000,call,BTC\n")
    market = ("--exchange", "FTX", "--raw-symbol", "BTC-PERP")
    run("csv", quotes, "--table", "option_quotes", "--time-unit", "timestamp=ms,expiry=date", *market)
    assert lake().scan("option_quotes").collect()["expiry"].to_list() == [1_711_670_400 * 10**9]
    candles.write_text(f"timestamp,open,high,low,close,volume\n{T // 3600 * 3600},1,2,1,2,5\n")
    table = ("csv", candles, "--table", "candles", "--interval", "1h", *market)
    assert refused("ingest", *table).startswith(
        "error: --amount-unit: left out, expected quote (--amount-unit quote)"
    )
    run(*table, "--amount-unit", "quote")
    assert lake().scan("candles").collect().select("volume", "quote_volume").rows() == [(None, 5.0)]
    assert "error: --time-unit: got 'timestamp=', expected name=unit pairs" in refused(
        "ingest", *table, "--time-unit", "timestamp="
    )
