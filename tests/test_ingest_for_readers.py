"""Each refusal of an ingest names arguments in Python and options on the command line, and has no nanoseconds."""

from __future__ import annotations

import inspect
import json
import re
import shlex
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import pytest
import typer

from ingested import ingest
from lakes import empty_lake
from tidytape.cli import app, main
from tidytape.errors import IngestError, QueryError
from tidytape.lake.ingest import Csv, Market
from tidytape.lake.ingest import ingest as ingest_layout

TRADES = "timestamp,price,amount,side\n"
CANDLES = "timestamp,open,high,low,close,volume\n"
INTEREST = "timestamp,amount\n"
TARDIS = "exchange,symbol,timestamp,local_timestamp,id,side,price,amount\n"
TICKER = (
    "exchange,symbol,timestamp,local_timestamp,funding_timestamp,funding_rate,predicted_funding_rate,"
    "open_interest,last_price,index_price,mark_price\n"
)
DAYS = [f"2024-08-{day:02}T00:00:00Z" for day in range(1, 7)]

FILES = {
    "own.csv": TRADES + "1723075200,60000,0.5,buy\n",
    "px.csv": "time,px,qty,side\n1723075200,60000,0.5,buy\n",
    "word.csv": TRADES + "1723075200,60000,0.5,buy\n1723075201,60000,0.5,A\n1723075202,60000,0.5,A\n",
    "taker.csv": "timestamp,price,amount,taker\n1723075200,60000,0.5,B\n1723075201,60000,0.5,A\n",
    "price.csv": TRADES + "1723075200,ten,0.5,buy\n1723075201,60000,0.5,buy\n",
    "time.csv": TRADES + "soon,60000,0.5,buy\n",
    "candles.csv": CANDLES + "".join(f"{day},1,2,1,2,3\n" for day in DAYS),
    "other_candles.csv": CANDLES + "".join(f"{day},1,2,1,{2 - n / 10},3\n" for n, day in enumerate(DAYS)),
    "burst.csv": CANDLES + f"{DAYS[0]},1,2,1,2,3\n{DAYS[0]},1,2,1,1,3\n{DAYS[1]},1,2,1,1,3\n",
    "hours.csv": CANDLES + f"{DAYS[0]},1,2,1,2,3\n",
    "interest.csv": INTEREST + "".join(f"{day},{n}\n" for n, day in enumerate(DAYS)),
    "other_interest.csv": INTEREST + "".join(f"{day},{n + 7}\n" for n, day in enumerate(DAYS)),
    "funding.csv": "timestamp,rate,funding_interval\n" + "".join(f"{day},0.0001,\n" for day in DAYS),
    "id.csv": "timestamp,price,amount,side,id\n1723075200,60000,0.5,buy,7\n",
    "other_id.csv": "timestamp,price,amount,side,id\n1723075200,60001,0.5,buy,7\n",
    "BTCUSDT-trades-2025-03-01.csv": "101,60000.00,0.10,6000.0,1740787200012345,False,True\n",
    "BTCUSDT-aggTrades-2025-03-01.csv": "51,60000.00,0.10,101,101,1740787200012345,False,True\n",
    "BTCUSDT-trades-2025-03-02.csv": "51,60000.00,0.10,101,101,1740787200012345,False\n",
    "anything.csv": "51,60000.00\n",
    "deribit_trades.csv": TARDIS + "deribit,BTC-PERPETUAL,1723075200000000,1723075200000001,1,buy,60000,10\n",
    "bitmex_trades.csv": TARDIS + "bitmex,XBTUSD,1723075200000000,1723075200000001,1,buy,60000,10\n",
    "ticker.csv": TICKER + "binance-futures,BTCUSDT,1723075200000000,1723075200000001,,0.0001,,5,,,\n",
    "log": f"1723161253000000000 {json.dumps({'data': {'e': 'trade', 's': 'BTCUSDT'}})}\n",
    "empty.csv": "",
    "nothing.zip": "nothing",
}


@dataclass(frozen=True)
class Case:
    """An ingest that is refused, after another one if ``before`` has its file and options."""

    layout: str | None
    file: str
    options: dict[str, Any] = field(default_factory=dict)
    before: tuple[str, dict[str, Any]] | None = None

    def __str__(self) -> str:
        return (
            f"{self.layout} {self.file} {' '.join(f'{name}={value}' for name, value in self.options.items())}"
        )


X = {"exchange": "X"}
BTC = X | {"raw_symbol": "BTCUSDT"}
DAILY = BTC | {"table": "candles", "interval": "1d"}
OF_INTEREST = BTC | {"table": "open_interest"}
OF_FUNDING = BTC | {"table": "funding"}
BINANCE = {"exchange": "BINANCE"}
CASES = [
    Case(None, "own.csv"),
    Case(None, "anything.csv"),
    Case(None, "empty.csv"),
    Case(None, "nothing.zip"),
    Case(None, "BTCUSDT-trades-2025-03-01.csv"),
    Case(None, "BTCUSDT-trades-2025-03-02.csv", BINANCE),
    Case(None, "BTCUSDT-aggTrades-2025-03-01.csv", BINANCE, ("BTCUSDT-trades-2025-03-01.csv", BINANCE)),
    Case(None, "bitmex_trades.csv"),
    Case("tardis", "deribit_trades.csv", {"contract": "linear"}),
    Case(None, "log", BINANCE),
    Case("tardis", "ticker.csv", {"funding_interval": "4h"}, ("ticker.csv", {"funding_interval": "8h"})),
    Case("binance-vision", "anything.csv", BINANCE),
    Case("csv", "own.csv"),
    Case("csv", "own.csv", X),
    Case("csv", "px.csv", BTC),
    Case("csv", "px.csv", BTC | {"columns": {"price": "px", "amount": "nothing"}}),
    Case("csv", "word.csv", BTC),
    Case("csv", "taker.csv", BTC | {"columns": {"side": "taker"}}),
    Case("csv", "price.csv", BTC),
    Case("csv", "time.csv", BTC),
    Case("csv", "own.csv", BTC | {"funding_interval": "8h"}),
    Case("csv", "own.csv", BTC | {"interval": "1h"}),
    Case("csv", "own.csv", BTC | {"time_unit": "hours"}),
    Case("csv", "own.csv", BTC | {"contract_size": "5"}),
    Case("csv", "own.csv", BTC | {"amount_unit": "lots"}),
    Case("csv", "own.csv", {"exchange": "BITMEX", "raw_symbol": "XBTUSD"}),
    Case("csv", "own.csv", X | {"raw_symbol": "XYZ1"}),
    Case("csv", "candles.csv", BTC),
    Case("csv", "candles.csv", BTC | {"table": "candles"}),
    Case("csv", "candles.csv", BTC | {"table": "candles", "interval": "1h"}),
    Case("csv", "burst.csv", DAILY),
    Case("csv", "other_candles.csv", DAILY, ("candles.csv", DAILY)),
    Case("csv", "other_interest.csv", OF_INTEREST, ("interest.csv", OF_INTEREST)),
    Case("csv", "funding.csv", OF_FUNDING | {"funding_interval": "4h"},
         ("funding.csv", OF_FUNDING | {"funding_interval": "8h"})),
    Case("csv", "other_id.csv", BTC, ("id.csv", BTC)),
]  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def put_before(case: Case, folder: Path) -> Path:
    """Return a lake with what goes in before the case."""
    lake = empty_lake(folder / "lake")
    if case.before is not None:
        ingest(case.before[0], lake, layout=case.layout, **case.before[1])
    return folder / "lake"


def options_of(layout: str) -> dict[str, str]:
    """Return the options of the command of a layout by the names of their parameters."""
    command: Any = typer.main.get_command(app)
    for word in ("ingest", layout):
        command = command.commands[word]
    return {option.name: option.opts[0] for option in command.params if option.opts[0].startswith("--")}


def written(options: dict[str, Any], flags: dict[str, str]) -> str:
    texts = {
        name: ",".join(f"{ours}={theirs}" for ours, theirs in value.items())
        if isinstance(value, dict)
        else value
        for name, value in options.items()
    }
    return " ".join(f"{flags[name]} {shlex.quote(text)}" for name, text in texts.items())


NANOSECONDS = re.compile(r"(?<![\w.])\d{16,}")
IN_PYTHON = {
    *inspect.signature(ingest_layout).parameters,
    *(one.name for kind in (Market, Csv) for one in fields(kind)),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_command_line_names_options(
    case: Case, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = options_of(case.layout or "auto")
    lake = put_before(case, folder)
    words = f"ingest {case.layout or 'auto'} {case.file} --lake {lake} {written(case.options, flags)}"
    monkeypatch.setattr("sys.argv", ["tidytape", *shlex.split(words)])
    with pytest.raises(SystemExit):
        main()
    text = capsys.readouterr().err
    assert text.startswith("error: ")
    assert "unexpected" not in text
    assert "``" not in text
    other_command = r"tidytape ingest (csv|json|lean) FILE.*"
    assert set(re.findall(r"(?<![\w'-])--[a-z][a-z-]*", re.sub(other_command, "", text))) <= set(
        flags.values()
    ), text
    assert not set(re.findall(r"\w+", text)) & {name for name in IN_PYTHON if "_" in name}, text
    assert not re.search(r"[a-z_]+=(None|True|False|\"|')|\w\(\w+=|Market\(|\w\(--", text), text
    assert not NANOSECONDS.search(text), text


@pytest.mark.parametrize("case", CASES, ids=str)
def test_python_names_arguments(case: Case, folder: Path) -> None:
    lake = put_before(case, folder)
    with pytest.raises((QueryError, IngestError)) as caught:
        ingest(folder / case.file, empty_lake(lake), layout=case.layout, **case.options)
    text = str(caught.value)
    assert "``" not in text
    assert not re.findall(r"(?<![\w'-])--[a-z][a-z-]*", text), text
    named = {mark.partition("=")[0] for mark in re.findall(r"``(.+?)``", caught.value.marked)}
    assert {name for name in named if name.isidentifier()} <= IN_PYTHON | {"layout"}, named
    assert not NANOSECONDS.search(text), text


ROW, WORD, NUMBER = "{},60000,0.5,buy\n", "{},60000,0.5,A\n", "{},ten,0.5,buy\n"


@pytest.mark.parametrize(
    ("rows", "is_by_word"),
    [
        ([ROW, WORD], True),
        ([WORD] * 3, True),
        ([NUMBER, WORD, WORD, ROW], True),
        ([NUMBER, NUMBER, NUMBER, WORD], False),
        ([NUMBER, ROW], False),
    ],
)
def test_lines_that_a_word_makes_bad_are_not_to_be_skipped(
    folder: Path, rows: list[str], *, is_by_word: bool
) -> None:
    """Skipping them would drop every sell."""
    path = folder / "rows.csv"
    path.write_text(TRADES + "".join(row.format(1_723_075_200 + at) for at, row in enumerate(rows)))
    with pytest.raises(IngestError) as caught:
        ingest(path, empty_lake(folder / "lake"), layout="csv", **BTC)
    text = str(caught.value)
    assert ("skip_bad=True" in text) == (not is_by_word)
    assert ("words={'side': {'A': 'MEANING'}}" in text) == is_by_word
    assert ("the side 'A' is not one of buy, b, sell, s" in text) == is_by_word
    if ROW not in rows:
        with pytest.raises(IngestError, match="and no good one"):
            ingest(path, empty_lake(folder / "lake"), layout="csv", skip_bad=True, **BTC)
