"""An error names an argument to a reader of Python, an option on the command line, and a wire name over HTTP."""

from __future__ import annotations

import ast
import inspect
import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import typer

import page_files
import tidytape
from tidytape.cli import app, main
from tidytape.client._local import connection
from tidytape.errors import QueryError, TidytapeError, worded
from tidytape.lake import Lake
from tidytape.lake.ingest import LAYOUTS, Market, ingest
from tidytape.query import MarketsQuery, MetaQuery, PointsQuery, StreamQuery

QUERIES = (PointsQuery, StreamQuery, MarketsQuery, MetaQuery)
FIELDS = {field for model in QUERIES for field in model.WIRE}
ONLY_IN_PYTHON = {field for model in QUERIES for field, wire in model.WIRE.items() if field != wire}

DAY = "--interval 1h --start 2024-08-08 --end 2024-08-09"
BTC = "--exchange X --raw-symbol BTCUSDT"
COMMANDS = [
    f"fetch candles {BTC} {DAY}",
    f"fetch candles --lake lake {BTC} --interval 2m --start 2024-08-08",
    f"fetch candles --lake lake {BTC} --interval 1h",
    f"fetch candles --lake lake {BTC} {DAY} --limit 5",
    f"fetch candles --lake lake {BTC} --coin BTC {DAY}",
    f"fetch candles --lake lake --exchange X {DAY}",
    f"fetch candles --lake lake --exchange X --raw-symbol NONE {DAY}",
    f"fetch candles --lake lake {BTC} --interval 1h --start 2024-08-09 --end 2024-08-08",
    f"fetch candles --lake lake {BTC} --interval 1h --start -1d --end 2024-08-08",
    f"fetch candles --lake lake {BTC} {DAY} --group-by open_interest_weighted_avg",
    f"fetch candles --base-url http://127.0.0.1:1 --api-key k {BTC} {DAY} --offline --no-cache",
    f"fetch candles --base-url http://127.0.0.1:1 --api-key k {BTC} {DAY} --offline",
    f"fetch candles --base-url http://127.0.0.1:1 --api-key k {BTC} {DAY} --max-wait 0",
    f"fetch candles --base-url http://127.0.0.1:1 --api-key k {BTC} {DAY} --max-wait 5 --on-limit raise",
    f"fetch candles --base-url http://127.0.0.1:1 {BTC} {DAY}",
    f"fetch candles --base-url nowhere --api-key k {BTC} {DAY}",
    f"fetch tpo --lake lake {BTC} --start 2024-08-08",
    f"fetch tpo --lake lake {BTC} {DAY} --block-minutes 7",
    f"fetch tpo --lake lake {BTC} --start 2024-08-08 --session yearly",
    f"fetch tpo --lake lake {BTC} --limit 3 --session daily",
    f"fetch funding --lake lake {BTC} {DAY} --funding-interval soon",
    f"fetch skew --lake lake --exchange X --coin BTC --raw-symbol Z --tenor 5w {DAY}",
    f"fetch token-supply --lake lake {DAY}",
    f"fetch volume-profile --lake lake {BTC} {DAY} --block-size 1e-40",
    "fetch coins --lake lake --type CANDLES",
    "fetch coins --lake lake --start 5 --end 4",
    "markets --lake lake --page-size 5000",
    "markets --lake lake --sort-field size",
    f"plan candles --tier none {BTC} {DAY}",
    "ingest auto own.csv --lake other",
    "ingest csv own.csv --lake other",
    "ingest csv own.csv --lake other --exchange X",
    "ingest csv own.csv --lake other --exchange X --map price=px",
    "ingest csv own.csv --lake other --exchange X --map price=px,amount=qty",
    "ingest csv own.csv --lake other --exchange X --map price=nothing",
    f"ingest csv own.csv --lake other {BTC} --map price=px,amount=qty --time-unit hours",
    f"ingest csv own.csv --lake other {BTC} --map price=px,amount=qty --time-unit s --time-format %Y",
    f"ingest csv own.csv --lake other {BTC} --contract inverse",
    f"ingest csv own.csv --lake other {BTC} --contract-size 5",
    f"ingest csv own.csv --lake other {BTC} --table nothing",
    f"ingest csv broken.csv --lake other {BTC}",
    f"ingest csv own.csv broken.csv --lake other {BTC}",
    "ingest csv candles.csv --lake other --exchange X",
    "ingest csv candles.csv --lake other --exchange X --table candles --raw-symbol BTCUSDT",
    "ingest csv own.csv --lake other --exchange X --raw-symbol XYZ1 --map price=px,amount=qty",
    "ingest kraken own.csv --lake other",
    "ingest tardis deribit_trades.csv --lake other",
    "ingest tardis bitmex_trades.csv --lake other",
    f"replay own.csv --lake other --layout csv {BTC} --speed -1",
    "replay own.csv --lake other --layout nothing",
    "lake info --lake lake --tables --markets",
    "lake info --lake lake --shortest-gap 0h",
    "lake info --lake lake --out picture.gif",
    "lake info --lake nowhere",
    "lake check --lake lake --table nothing",
    "lake check --lake lake --check nothing",
    "report --out page.html --tape x.tape --lake lake",
    "report --out page.html --lake lake --base-url http://127.0.0.1:1",
    "report --out nowhere/page.html --lake lake",
    "report --out page.html --lake lake --exchange NONE",
    "report --out page.html --lake lake --record lake",
    "keys new --keys keys.json --tier none",
    "keys new --keys keys.json --expires 2000-01-01",
    "keys revoke --keys keys.json none",
    "demo --out own.csv",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a small lake and files of several kinds."""
    path = tmp_path_factory.mktemp("readers")
    page_files.lake(path / "lake")
    rows = "1723075200,60000,0.5,buy\n1723075260,60001,0.5,sell\n"
    (path / "own.csv").write_text(f"timestamp,px,qty,side\n{rows}")
    (path / "broken.csv").write_text(f"timestamp,price,amount,side\n{rows}1723075200,ten,1,buy\n")
    (path / "candles.csv").write_text("timestamp,open,high,low,close,volume\n1723075200,1,2,1,2,3\n")
    for exchange, symbol in (("deribit", "BTC-PERPETUAL"), ("bitmex", "XBTUSD")):
        head = "exchange,symbol,timestamp,local_timestamp,id,side,price,amount"
        trade = f"{exchange},{symbol},1723075200000000,1723075200000001,1,buy,60000,10"
        (path / f"{exchange}_trades.csv").write_text(f"{head}\n{trade}\n")
    return path


@pytest.fixture
def said(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[[str], str]:
    """``said(command)``: what a command that fails writes to standard error."""
    monkeypatch.chdir(folder)
    monkeypatch.setenv("TIDYTAPE_CACHE_DIR", str(folder / "cache"))
    for variable in ("TIDYTAPE_BASE_URL", "TIDYTAPE_API_KEY"):
        monkeypatch.delenv(variable, raising=False)

    def failing(command: str) -> str:
        monkeypatch.setattr(
            "sys.argv", ["tidytape", *shlex.split(command), *["--quiet"] * command.startswith("report")]
        )
        with pytest.raises(SystemExit) as stopped:
            main()
        assert stopped.value.code in (1, 2)
        return capsys.readouterr().err

    return failing


def options_of(command: str) -> tuple[set[str], set[str]]:
    """Return the options of a command, and the names of the parameters of all commands that are no words."""
    here: Any = typer.main.get_command(app)
    for word in command.split():
        here = getattr(here, "commands", {}).get(word, here)
    return {option for one in here.params for option in (*one.opts, *one.secondary_opts)}, {
        name for name in every_parameter(typer.main.get_command(app)) if "_" in name
    }


def every_parameter(command: Any) -> Iterator[str]:
    for parameter in command.params:
        yield parameter.name
    for inner in getattr(command, "commands", {}).values():
        yield from every_parameter(inner)


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_the_command_line_names_options_of_the_command(said: Callable[[str], str], command: str) -> None:
    text = said(command)
    options, names = options_of(command)
    assert text.startswith("error: ")
    assert "unexpected" not in text
    assert "``" not in text
    # An error of `ingest auto` ends with the whole command that takes the file.
    of_command = re.sub(r"tidytape ingest \w+ FILE.*", "", text)
    assert set(re.findall(r"(?<![\w'-])--[a-z][a-z-]*", of_command)) <= options
    assert not set(re.findall(r"\w+", text)) & names, text
    assert not re.search(r"[a-z_]+=(None|True|False|\"|')|\w\(\w+=", text), text


# --- HTTP ---

HOUR = {"interval": "HOUR", "from": "1723075200", "period": "86400"}
MARKET = {"type": "TRADE_SIDE_AGNOSTIC_AGG", "exchange": "X", "rawSymbol": "BTCUSDT", **HOUR}
REQUESTS: list[tuple[str, dict[str, str | None]]] = [
    ("/v1/points", {**MARKET, **changes})
    for changes in (
        {"from": None}, {"period": None}, {"period": "-5"}, {"from": "9" * 12}, {"interval": None}, {"interval": "2m"},
        {"period": str(60 * 86_400 * 365)}, {"type": None}, {"exchange": None}, {"rawSymbol": None}, {"coin": "BTC"},
        {"rawSymbol": "NONE"}, {"normalizedSymbol": "BTC-USDT"}, {"start": "5"}, {"raw_symbol": "BTCUSDT"},
        {"tpoSession": "daily"}, {"maxDepth": "0"}, {"blockSize": "1"}, {"tokenName": "Bitcoin"},
        {"sortDirection": "up"},
        {"transform.groupBy.type": "open_interest_weighted_avg"}, {"transform.groupBy.type": "most"},
        {"transform.normalize.fundingInterval": "soon"}, {"tpoBlockSizeMinutes": "7"}, {"event": "none"},
        {"type": "SKEW_OPTION_SUMMARY_AGG", "rawSymbol": None, "coin": "BTC"},
        {"type": "TOKEN_SUPPLY_AGG"}, {"type": "VENUEX_LIQUIDATION_AGG"},
        {"type": "TRADE_AGG", "transform.groupBy.type": "sum", "exchange": "X"},
    )
] + [
    ("/v1/stream", {**MARKET, "from": None}),
    ("/v1/stream", {**MARKET, "token": "no token"}),
    ("/v1/stream", {**MARKET, "token": "eA"}),
    ("/v1/stream", {**MARKET, "gapfill": "true"}),
    ("/v1/markets", {"pageSize": "5000"}),
    ("/v1/markets", {"page_size": "5"}),
    ("/v1/markets", {"sortCriteria.field": "size"}),
    ("/v1/coins", {"from": "5", "to": "4"}),
    ("/v1/coins", {"type": "CANDLES"}),
    ("/v1/usage", {"from": "4"}),
]  # fmt: skip


@pytest.fixture(scope="module")
def service(folder: Path) -> Iterator[httpx.Client]:
    """A service over the lake of the folder."""
    told = connection(folder / "lake")
    with httpx.Client(
        base_url=told["base_url"], transport=told["transport"], headers={"X-Service-Key": told["api_key"]}
    ) as client:
        yield client


@pytest.mark.slow
@pytest.mark.parametrize(("path", "params"), REQUESTS, ids=str)
def test_http_names_wire_names(service: httpx.Client, path: str, params: dict[str, str | None]) -> None:
    sent = {name: value for name, value in params.items() if value is not None}
    response = service.get(path, params=sent)
    body = response.json()
    assert response.status_code in (400, 403), body
    named = set(re.findall(r"``(.+?)``", f"{body['expected']} {body.get('hint')}"))
    model = {"/v1/points": PointsQuery, "/v1/stream": StreamQuery, "/v1/markets": MarketsQuery}.get(
        path, MetaQuery
    )
    assert named <= {*model.WIRE.values(), "/v1/markets"}
    assert body["parameter"] in {*model.WIRE.values(), *sent}
    assert body["message"].startswith(f"{body['parameter']}: ")
    assert worded(body["expected"]) in body["message"]
    assert "``" not in body["message"]
    written = set(re.findall(r"\w+", body["message"])) - set(sent)
    assert not {name for name in ONLY_IN_PYTHON if "_" in name} & written, body


@pytest.mark.slow
def test_an_unknown_parameter_is_named_as_it_was_sent(service: httpx.Client) -> None:
    body = service.get("/v1/points", params={**MARKET, "start": "5"}).json()
    assert (body["parameter"], body["got"]) == ("start", "'5'")


# --- Python ---


def refusals(folder: Path) -> Iterator[tuple[str, Callable[..., Any], dict[str, Any]]]:
    """Yield calls that are refused, with the function whose parameters the error may name."""
    client = tidytape.Client.local(folder / "lake", progress=False)
    day = {"start": "2024-08-08", "end": "2024-08-09"}
    market = {"exchange": "X", "raw_symbol": "BTCUSDT"}
    yield from (
        ("candles", client.candles, market | day | changes)
        for changes in (
            {"interval": "2m"}, {"interval": "1h", "limit": 3}, {"interval": "1h", "coin": "BTC"},
            {"interval": "1h", "raw_symbol": "NONE"}, {"interval": "1h", "end": "2024-08-07"},
            {"interval": "1h", "group_by": "none"}, {"interval": "1h", "start": None},
            {"interval": "1h", "raw_symbol": None},
        )
    )  # fmt: skip
    yield from (
        ("tpo", client.tpo, market | day | changes)
        for changes in ({"block_minutes": 7}, {"session": "x"}, {})
    )
    yield "markets", client.markets, {"page_size": 5_000}
    yield "coins", client.coins, {"start": 5, "end": 4}
    yield "Client", tidytape.Client, {"base_url": "http://x", "api_key": "k", "max_wait": 0}
    yield (
        "Client",
        tidytape.Client,
        {"base_url": "http://x", "api_key": "k", "on_limit": "raise", "max_wait": 5},
    )
    yield "Client", tidytape.Client, {"base_url": "http://x", "api_key": "k", "offline": True, "cache": False}


@pytest.mark.slow
def test_python_names_arguments(folder: Path) -> None:
    for name, function, arguments in refusals(folder):
        with pytest.raises(QueryError) as caught:
            function(**arguments)
        error = caught.value
        known = {*inspect.signature(function).parameters}
        named = {mark.partition("=")[0] for mark in re.findall(r"``(.+?)``", error.marked)}
        assert error.parameter in named
        assert named <= {*known, "client.markets()"}, (name, arguments, error.marked)
        assert "``" not in str(error) + error.expected + (error.hint or "")
        assert not (set(re.findall(r"[a-z]+_\w+", str(error))) & FIELDS) - known, str(error)


def test_python_says_how_to_name_the_market(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(QueryError) as caught:
        ingest(
            folder / "own.csv",
            Lake.create(tmp_path / "lake"),
            LAYOUTS["csv"](columns={"price": "px", "amount": "qty"}),
            market=Market(exchange="X"),
        )
    assert caught.value.hint == 'market=Market(raw_symbol="BTC-USD") says it'


# --- the source ---

SOURCE = Path(tidytape.__file__).parent
ROOMS = ("budget.py", "cli", "client", "lake", "query", "report", "service")
ERRORS = {kind.__name__ for kind in (TidytapeError, *TidytapeError.__subclasses__())} | {
    "QueryError",
    "BudgetError",
    "_refuse",
}


def texts_of_errors() -> Iterator[tuple[str, str]]:
    """Yield each text that is written inside of a call that makes an error, with its place."""
    for path in sorted(SOURCE.rglob("*.py")):
        if path.relative_to(SOURCE).parts[0] not in ROOMS:
            continue
        for call in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in ERRORS:
                for text in ast.walk(call):
                    if isinstance(text, ast.Constant) and isinstance(text.value, str) and " " in text.value:
                        yield f"{path.relative_to(SOURCE)}:{text.lineno}", text.value


@pytest.mark.slow
def test_each_text_of_an_error_marks_the_parameters_that_it_names() -> None:
    names = {name for name in (*FIELDS, *every_parameter(typer.main.get_command(app))) if "_" in name}
    unmarked = {
        place: text
        for place, text in texts_of_errors()
        if set(re.findall(r"\w+", worded(text, lambda mark: ""))) & names
    }
    assert set(unmarked.values()) == {"markets: block_size of "}  # a column of a frame
