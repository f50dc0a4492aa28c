"""A command for every method of the client: the same names, the same arguments, the same answers."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from inspect import signature
from pathlib import Path
from typing import Any

import click
import httpx
import polars as pl
import pytest
import typer

import tidytape
from simulated.asked import LISTS, SERIES, predicted
from simulated.everything import everything
from tidytape.cli import _fetch as fetch
from tidytape.cli import app, main
from tidytape.client._display import Bar
from tidytape.client._endpoints import Endpoints
from tidytape.client._series import SeriesMethods
from tidytape.errors import QueryError, counted

Run = Callable[..., tuple[int, str, str]]

ASKED: dict[str, dict[str, Any]] = {name: asked for name, (_, asked) in SERIES.items()} | LISTS
NAMES = ["types", "exchanges", "categories", "coins", "symbols", "normalized_symbols", "tenors"]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    def command(*words: object) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["tidytape", *map(str, words)])
        with pytest.raises(SystemExit) as stopped:
            main()
        said = capsys.readouterr()
        return int(stopped.value.code or 0), said.out, said.err

    return command


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(predicted(everything(tmp_path_factory.mktemp("fetch") / "lake")).path)


def words_of(name: str) -> list[str]:
    """The command of a method."""
    return [*(["fetch"] if name not in {"markets", "usage"} else []), name.replace("_", "-")]


def options_of(arguments: dict[str, Any]) -> list[str]:
    """Arguments of a method, as options."""
    return [word for name, value in arguments.items() for word in (f"--{name.replace('_', '-')}", str(value))]


@functools.cache
def command_of(name: str) -> click.Command:
    found: Any = typer.main.get_command(app)
    for word in words_of(name):
        found = found.commands[word]
    return found  # type: ignore[no-any-return]


@pytest.mark.slow
@pytest.mark.parametrize("name", ASKED)
def test_options_are_the_parameters_of_the_method(name: str) -> None:
    command, method = command_of(name), getattr(Endpoints, name)
    shared = {"out", "as_json", "help", *signature(fetch._client).parameters}
    options: dict[str, Any] = {str(one.name): one for one in command.params}
    parameters = [one for one in signature(method).parameters.values() if one.name != "self"]
    assert set(options) - shared == {one.name for one in parameters}
    for parameter in parameters:
        option = parameter.name
        assert options[option].opts == [f"--{option.replace('_', '-')}"]
        assert options[option].multiple == (parameter.annotation == "Names")
        assert options[option].help
        assert "``" not in options[option].help


def test_there_is_a_command_for_every_method_and_no_other() -> None:
    inside = typer.main.get_command(fetch.app)
    expected = {words[-1] for words in map(words_of, ASKED) if len(words) == 2}
    assert set(inside.commands) == expected  # type: ignore[attr-defined]
    assert set(typer.main.get_command(fetch.plans).commands) == {  # type: ignore[attr-defined]
        name.replace("_", "-") for name in dir(SeriesMethods) if not name.startswith("_")
    }
    public = {name for name in dir(Endpoints) if not name.startswith("_")}
    public -= {"stream", "live", "events", "has_lake"}
    assert public - {"points", "query", "plan", "fetch", "to_parquet", "record"} == set(ASKED)


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name in ASKED if name not in {*NAMES, "usage"}])
def test_a_file_holds_what_the_method_returns(run: Run, lake: Path, tmp_path: Path, name: str) -> None:
    with tidytape.Client.local(lake) as client:
        frame = getattr(client, name)(**ASKED[name])
    assert frame.height
    out = tmp_path / f"{name}.parquet"
    said = run(*words_of(name), *options_of(ASKED[name]), "--lake", lake, "--out", out)
    assert said[:2] == (0, "")
    written, *cost = said[2].splitlines()
    assert written == f"{counted(frame.height, 'row')} -> {out}"
    assert cost == ([] if name in LISTS else [f"1 request, weight {weight_of(lake, name)}"])
    again = pl.read_parquet(out)
    assert again.equals(frame)
    assert again.schema == frame.schema


def weight_of(lake: Path, name: str) -> int:
    with tidytape.Client.local(lake) as client:
        return client.plan(getattr(client.query, name)(**ASKED[name])).weight


@pytest.mark.slow
def test_what_is_kept_is_what_the_client_keeps(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TIDYTAPE_CACHE_DIR", str(tmp_path))
    for address in ("http://127.0.0.1:8000", "http://localhost", "https://service"):
        for cache in (None, True, False):
            with (
                fetch._client(base_url=address, api_key="k", cache=cache) as made,
                tidytape.Client(address, "k", cache=cache) as plain,
            ):
                kept = made._settings.cache is not None
                assert kept == (plain._settings.cache is not None)
                assert kept == (address == "https://service" if cache is None else cache)


DAYS = [
    "--exchange",
    "X",
    "--coin",
    "BTC",
    "--interval",
    "1m",
    "--start",
    "2024-01-01",
    "--end",
    "2024-12-01",
]


def poor(monkeypatch: pytest.MonkeyPatch, **more: Any) -> None:
    """A service whose budget for a minute is 60, of which nothing is left."""
    usage = {"limit": 60, "remaining": 0, "used": 60, "reset": 0, "window_seconds": 60}
    answer = httpx.MockTransport(
        lambda request: httpx.Response(200, json=usage if request.url.path == "/v1/usage" else {"series": []})
    )

    class Poor(tidytape.Client[pl.DataFrame]):
        def __init__(self, *given: Any, **options: Any) -> None:
            super().__init__(*given, transport=answer, **options, **more)

    monkeypatch.setattr("tidytape.client.Client", Poor)
    monkeypatch.setattr("time.sleep", lambda seconds: None)


@pytest.mark.slow
def test_the_budget_may_make_it_wait_no_longer_than_said(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    poor(monkeypatch)
    service = ["--base-url", "http://poor", "--api-key", "k"]
    code, said, told = run("fetch", "candles", *DAYS, *service, "--max-wait", 5)
    assert (code, said) == (1, "")
    assert "and --max-wait is 5 s" in told
    assert "--max-wait: got 0.0" in run("fetch", "candles", *DAYS, *service, "--max-wait", 0)[2]
    refused = run("fetch", "candles", *DAYS, *service, "--on-limit", "raise")[2]
    assert "more than the" in refused  # 0, or what has come back since
    assert "left" in refused


@pytest.mark.slow
def test_what_is_kept_is_listed_under_a_heading(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    poor(monkeypatch)
    assert run("cache", "ls", "--folder", tmp_path) == (0, "", f"0 bytes in {tmp_path}\n")
    monkeypatch.setenv("TIDYTAPE_CACHE_DIR", str(tmp_path))
    service = ["--base-url", "http://127.0.0.1:8000", "--api-key", "k"]
    hour = [
        "--exchange",
        "X",
        "--coin",
        "BTC",
        "--interval",
        "1m",
        "--start",
        "2024-01-01",
        "--end",
        "2024-01-02",
    ]
    assert run("fetch", "candles", *hour, *service)[0] == 0
    assert not any(tmp_path.iterdir())
    assert run("fetch", "candles", *hour, *service, "--cache")[0] == 0
    _, listed, told = run("cache", "ls")
    assert told.startswith("type  asked  kept, in UTC  size  service\n")
    assert listed.startswith(
        "TRADE_SIDE_AGNOSTIC_AGG  exchange=X coin=BTC interval=MINUTE  2024-01-01T00:00:00Z to "
    )
    _, planned, _ = run("plan", "candles", *hour, *service, "--cache")
    assert planned.startswith(
        "from the cache: 2024-01-01T00:00:00Z to 2024-01-02T00:00:00Z\n0 requests, weight 0"
    )


@pytest.mark.slow
def test_a_plan_for_a_tier_needs_no_service(run: Any) -> None:
    code, said, _ = run(
        *("plan", "candles", "--exchange", "BINANCE", "--coin", "BTC", "--interval", "1m"),
        *("--start", "2024-01-01", "--end", "2025-01-01", "--tier", "basic"),
    )
    assert code == 1
    assert said.startswith(
        "the basic tier refuses it: start: got '2024-01-01T00:00:00Z', expected a time in the last"
    )
    assert "6 requests, weight 528 (at most 1,596)\n" in said
    assert "waiting" not in said
    assert len(said.splitlines()) == 1


@pytest.mark.slow
def test_a_plan_that_a_tier_allows_says_its_wait(run: Any) -> None:
    asked = ["--exchange", "BINANCE", "--coin", "BTC", "--interval", "1m", "--start", "2024-01-01"]
    code, said, _ = run("plan", "candles", *asked, "--end", "2025-01-01", "--tier", "enterprise")
    assert code == 0
    assert said.splitlines()[-1].startswith("6 requests, weight 528 (at most 1,596), ")
    assert "of waiting for the budget of the enterprise tier" in said
    code, said, _ = run("plan", "candles", *asked, "--end", "2025-01-01", "--tier", "basic", "--json")
    assert (code, json.loads(said)["seconds"]) == (1, None)


def test_what_is_missing_is_told_and_is_no_success(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    poor(monkeypatch)
    asked = [*DAYS, "--base-url", "http://poorer", "--api-key", "k", "--out", tmp_path / "none.parquet"]
    code, _, told = run("fetch", "candles", *asked, "--partial", "flag", "--max-wait", 5)
    assert code == 1
    written, cost, missing = told.splitlines()
    assert written.startswith("0 rows -> ")
    assert cost == "0 requests, weight 0"
    assert missing.startswith("error: missing 2024-01-01T00:00:00Z to 2024-12-01T00:00:00Z: weight ")
    assert "and --max-wait is 5 s; --max-wait " in missing
    assert missing.endswith("allows it, and --max-wait inf any wait")


@pytest.mark.slow
def test_a_warning_names_options(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def wait(**options: Any) -> Any:
        Bar("TRADE").waits(36)
        raise QueryError("lake", got=None, expected="nothing more")

    monkeypatch.setattr(fetch, "_client", wait)
    _, _, told = run("fetch", "coins")
    assert told.startswith("warning: TRADE: the budget of the key makes this fetch wait 36 s, until ")
    assert "; --max-wait bounds that, and a plan tells it beforehand\n" in told


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tpo_sessions", "markets"])
def test_lists_are_json_in_a_table_of_text(run: Run, lake: Path, tmp_path: Path, name: str) -> None:
    with tidytape.Client.local(lake) as client:
        frame = getattr(client, name)(**ASKED[name])
    asked = (*words_of(name), *options_of(ASKED[name]), "--lake", lake, "--out")
    for suffix in ("csv", "jsonl"):
        assert run(*asked, tmp_path / f"rows.{suffix}")[0] == 0
    lines = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text("utf-8").splitlines()]
    table = pl.read_csv(tmp_path / "rows.csv", infer_schema=False)
    assert table.columns == frame.columns == list(lines[0])
    nested = [column for column in frame if column.dtype.is_nested()]
    assert nested
    for column in nested:
        values = [line[column.name] for line in lines]
        assert [one and json.loads(one) for one in table[column.name]] == values
        assert [one is None for one in values] == column.is_null().to_list()
        if column.dtype == pl.List(pl.Float64):
            assert values == column.to_list()


@pytest.mark.slow
def test_the_terminal_shows_a_frame_of_lists(run: Run, lake: Path) -> None:
    code, said, _ = run(*words_of("tpo_sessions"), *options_of(ASKED["tpo_sessions"]), "--lake", lake)
    assert code == 0
    assert "poc_price" in said


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_names_are_printed_one_a_line_or_written_as_a_column(
    run: Run, lake: Path, tmp_path: Path, name: str
) -> None:
    with tidytape.Client.local(lake) as client:
        names = getattr(client, name)(**ASKED[name])
    asked = (*words_of(name), *options_of(ASKED[name]), "--lake", lake)
    assert run(*asked) == (0, "".join(f"{one}\n" for one in names), "")
    out = tmp_path / "names.jsonl"
    assert run(*asked, "--out", out)[0] == 0
    (column,) = pl.read_ndjson(out).iter_columns()
    assert column.to_list() == names
    assert column.name in {"type", "exchange", "category", "coin", "raw_symbol", "normalized_symbol", "tenor"}


@pytest.mark.slow
def test_no_names_are_an_empty_file(run: Run, lake: Path, tmp_path: Path) -> None:
    asked = ("fetch", "coins", "--exchange", "NOWHERE", "--lake", lake)
    assert run(*asked) == (0, "", "")
    assert run(*asked, "--out", tmp_path / "none.parquet")[0] == 0
    assert pl.read_parquet(tmp_path / "none.parquet").schema == {"coin": pl.String}


@pytest.mark.slow
def test_usage_is_a_row(run: Run, lake: Path, tmp_path: Path) -> None:
    assert run("usage", "--lake", lake)[1].split()[:3] != []
    out = tmp_path / "usage.jsonl"
    assert run("usage", "--lake", lake, "--out", out)[0] == 0
    (usage,) = pl.read_ndjson(out).to_dicts()
    assert (usage["used"], usage["window_seconds"]) == (0, 60)
    assert usage["remaining"] == usage["limit"] * 2 or usage["remaining"] == usage["limit"]


@pytest.mark.slow
def test_markets_take_all_their_filters(run: Run, lake: Path, tmp_path: Path) -> None:
    def listed(*words: str) -> list[str]:
        out = tmp_path / "markets.jsonl"
        assert run("markets", "--lake", lake, *words, "--out", out)[0] == 0
        return [json.loads(line)["raw_symbol"] for line in out.read_text("utf-8").splitlines()]

    assert listed("--symbol-filter", "old") == ["OLDUSDT"]
    assert listed("--category", "future", "--category", "option") == ["BTCQ4", "BTC_10", "BTC_25", "BTC_ATM"]
    assert listed("--type", "CME_OPEN_INTEREST_AGG", "--coin", "BTC") == ["BTCQ4"]
    assert listed("--exchange", "P", "--page-size", "1") == ["11", "22"]
    newest = listed("--exchange", "X", "--sort-field", "volume_24h", "--sort-direction", "desc", "--distinct")
    assert set(newest) == {"BTCUSDT", "BTC'PERP/x", "OLDUSDT"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["fetch", "tpo", "--session", "yearly"], "--session: got 'yearly', expected one of"),
        (["fetch", "tpo", "--block-minutes", "7"], "--block-minutes: got 7, expected one of 5"),
        (["fetch", "tpo", "--raw-symbol", "BTCUSDT"], "--coin: got "),
        (["fetch", "tpo", "--sort-direction", "up"], "--sort-direction: got 'up'"),
        (["fetch", "tpo", "--block-size", "wide"], "--block-size: got 'wide'"),
        (["fetch", "funding", "--funding-interval", "soon"], "--funding-interval: got 'soon'"),
    ],
)
def test_a_wrong_option_is_named_as_an_option(run: Run, lake: Path, words: list[str], error: str) -> None:
    code, said, told = run(*words, *options_of(SERIES["tpo"][1]), "--lake", lake)
    assert (code, said) == (2, "")
    assert told.startswith(f"error: {error}")
    assert told.count("\n") == 1


@pytest.mark.slow
def test_what_services_fail_at_is_refused_here(run: Run, lake: Path) -> None:
    code, _, told = run("fetch", "symbols", "--lake", lake)
    assert code == 2
    assert told.startswith("error: --type: left out, expected at least one data type")


@pytest.mark.slow
def test_names_from_outside_do_not_act_on_the_terminal(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/v1/coins":
            return httpx.Response(200, json=["BTC", "\x1b[2J\r\nETH", "日本"])
        entry = {"exchange": "X", "rawSymbol": "\x1b]0;owned\x07", "coin": "BTC"}
        return httpx.Response(200, json={"symbols": [entry], "nextOffset": 0})

    def made(**options: Any) -> Any:
        return tidytape.Client("http://service", "a-key", transport=httpx.MockTransport(answer))

    monkeypatch.setattr(fetch, "_client", made)
    assert run("fetch", "coins")[1] == "BTC\n\\x1b[2J\\r\\nETH\n日本\n"
    code, said, _ = run("markets")
    assert code == 0
    assert "\x1b" not in said
    assert "owned" in said
