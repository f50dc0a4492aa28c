"""What holds for every command: an example, JSON, the same exit codes, a line and no traceback."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import typer

import tidytape
from lakes import demo_lake
from tables import each_row
from tidytape.cli import _ingest as ingesting
from tidytape.cli import app, main
from tidytape.cli._examples import EXAMPLES, INGEST
from tidytape.cli._main import EXIT_CODES
from tidytape.lake.ingest import FileReport, IngestReport, TableCount

Run = Callable[..., tuple[int, str, str]]

WITHOUT_JSON = {"serve", "openapi", "report"}
"""A service, a document that is JSON, and two commands that write files."""

CSV = "timestamp,price,amount,side\n1693929601,100.5,2,buy\n1693929661,100.5,1,buy\n"


def leaves(command: click.Command, words: tuple[str, ...] = ()) -> Iterator[tuple[str, click.Command]]:
    inside = getattr(command, "commands", {})
    if not inside:
        yield " ".join(words), command
    for name, one in inside.items():
        yield from leaves(one, (*words, name))


COMMANDS = dict(leaves(typer.main.get_command(app)))  # type: ignore[arg-type]  # typer has a click of its own


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
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a lake, a file of keys, a tape and a file of trades, as the examples name them."""
    path = tmp_path_factory.mktemp("examples")
    demo_lake(path / "lake")
    with tidytape.Client.local(path / "lake") as client, client.record(path / "study.tape"):
        client.candles(exchange="DEMO_SPOT", coin="BTC", interval="1h", start="2024-08-08", end="2024-08-09")
    (path / "trades.csv").write_text(CSV)
    return path


@pytest.fixture
def inside(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("TIDYTAPE_CACHE_DIR", str(folder / "cache"))
    return folder


# --- examples ---


def test_every_command_has_an_example() -> None:
    known = {*EXAMPLES, *(f"ingest {name}" for name in INGEST)}
    assert set(COMMANDS) == known
    for name, command in COMMANDS.items():
        told = (command.epilog or "").replace("\\\n", " ")
        assert told.startswith("\b\nExample:\n"), name
        words = shlex.split(told.partition("Example:\n")[2])
        assert words[0] == "tidytape"
        assert " ".join(words[1:]).startswith(name)


@pytest.mark.slow
@each_row("name", [name for name in COMMANDS if name not in {"serve", "demo", "report"}])
def test_every_option_of_an_example_exists(name: str) -> None:
    words = EXAMPLES.get(name) if name in EXAMPLES else INGEST[name.removeprefix("ingest ")]
    context = COMMANDS[name].make_context(name, shlex.split(words or ""))
    assert context.params


# test_examples runs those of ingest; others have tests of their own.
RUNS = sorted(
    name
    for name in COMMANDS
    if name not in {"serve", "demo", "report", "download", "pull"} and not name.startswith("ingest ")
)


def make_keys(file: Path) -> None:
    """Write a file of keys with the key that the example of ``keys revoke`` names."""
    key = {"id": "1f2e3d4c", "sha256": "0" * 64, "tier": "basic", "created": 0, "expires": None}
    file.write_text(json.dumps([key]))


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_an_example_runs(run: Run, inside: Path, name: str) -> None:
    if name.startswith("keys "):
        make_keys(inside / "keys.json")
    code, said, told = run(*name.split(), *shlex.split(EXAMPLES[name]))
    assert code == 0, told
    assert "no rows" not in said
    if "--json" in EXAMPLES[name]:
        json.loads(said)


# --- JSON ---


def test_every_command_with_a_result_has_json() -> None:
    without = {
        name
        for name, command in COMMANDS.items()
        if "--json" not in {opt for one in command.params for opt in one.opts}
    }
    assert without == WITHOUT_JSON


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name in RUNS if name not in WITHOUT_JSON])
def test_json_is_alone_on_the_standard_output(run: Run, inside: Path, name: str) -> None:
    if name.startswith("keys "):
        make_keys(inside / "keys.json")
    words = shlex.split(EXAMPLES[name])
    code, said, told = run(*name.split(), *words, *([] if "--json" in words else ["--json"]))
    assert code == 0, told
    assert said.count("\n") == 1
    found = json.loads(said)
    assert isinstance(found, list | dict)
    for text in texts(found):
        if re.match(r"\d{4}-\d\d-\d\dT", text) and name != "tape ls":  # a tape notes its times with an offset
            assert text.endswith("Z"), text


def texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from texts(list(value.values()))
    elif isinstance(value, list):
        for one in value:
            yield from texts(one)


@pytest.mark.slow
def test_json_of_what_went_in(run: Run, tmp_path: Path) -> None:
    (tmp_path / "trades.csv").write_text(CSV)
    words = (
        tmp_path / "trades.csv",
        "--lake",
        tmp_path / "lake",
        "--exchange",
        "X",
        "--raw-symbol",
        "BTC-USD",
        "--json",
    )
    code, said, _ = run("ingest", "csv", *words)
    report = json.loads(said)
    assert code == 0
    assert report["files"][0]["counts"] == [
        {"table": "trades", "read": 2, "new": 2, "superseded": 0, "replaced": 0}
    ]
    assert report["markets"][0]["raw_symbol"] == "BTC-USD"
    code, said, _ = run("replay", *words, "--layout", "csv", "--speed", "inf", "--lake", tmp_path / "other")
    assert json.loads(said)["files"][0]["counts"][0]["new"] == 2


@pytest.mark.slow
def test_json_of_keys_never_has_their_hash(run: Run, tmp_path: Path) -> None:
    keys = ("--keys", tmp_path / "keys.json")
    _, said, _ = run("keys", "new", *keys, "--expires", "2099-01-01", "--json")
    made = json.loads(said)
    assert (made["tier"], made["expires"]) == ("basic", "2099-01-01T00:00:00Z")
    (listed,) = json.loads(run("keys", "list", *keys, "--json")[1])
    assert listed == {name: made[name] for name in ("id", "tier", "created", "expires")}
    assert json.loads(run("keys", "revoke", made["id"], *keys, "--json")[1]) == listed
    assert json.loads(run("keys", "list", *keys, "--json")[1]) == []


@pytest.mark.slow
def test_json_of_a_damaged_tape(run: Run, folder: Path, tmp_path: Path) -> None:
    code, said, told = run("tape", "verify", folder / "study.tape", "--json")
    assert (code, json.loads(said), told) == (0, {"is_sound": True, "entries": 1, "wrong": []}, "")
    copy = tmp_path / "copy.tape"
    copy.mkdir()
    for file in (folder / "study.tape").iterdir():
        (copy / file.name).write_bytes(file.read_bytes())
    (copy / "1.arrow").write_bytes(b"x")
    code, said, _ = run("tape", "verify", copy, "--json")
    assert (code, json.loads(said)["is_sound"]) == (1, False)


# --- exit codes, and errors ---


def test_the_help_says_what_exit_codes_mean(run: Run) -> None:
    code, said, _ = run("--help")
    assert code == 0
    assert set(EXIT_CODES) == {0, 1, 2, 130}
    for number, meaning in EXIT_CODES.items():
        assert re.search(rf"^ +{number} +{re.escape(meaning)}$", said, re.MULTILINE)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("lake", "info", "--lake", "nowhere"), 1),
        (("tape", "verify", "nowhere"), 1),
        (("keys", "list", "--keys", "nowhere"), 1),
        (("fetch", "coins", "--lake", "lake", "--type", "CANDLES"), 2),
        (("fetch", "candles", "--lake", "lake", "--interval", "2m"), 2),
        (("fetch", "candles", "--no-such-option"), 2),
        (("no-such-command",), 2),
        (("lake", "vacuum", "--lake", "lake", "--retention-hours", "x"), 2),
    ],
    ids=str,
)
def test_a_wrong_command_line_ends_with_two_and_a_failure_with_one(
    run: Run, inside: Path, words: tuple[str, ...], code: int
) -> None:
    got, said, told = run(*words)
    assert (got, said) == (code, "")
    assert "Traceback" not in told


def test_the_nearest_type_is_suggested(run: Run, inside: Path) -> None:
    told = run("fetch", "coins", "--lake", "lake", "--type", "CANDLES")[2]
    assert "did you mean 'TRADE_SIDE_AGNOSTIC_AGG'?" in told


@pytest.mark.slow
def test_a_lake_that_is_not_there_says_what_makes_one(run: Run, tmp_path: Path) -> None:
    run("keys", "new", "--keys", tmp_path / "keys.json")
    code, _, told = run("serve", "--lake", tmp_path / "lake", "--keys", tmp_path / "keys.json", "--port", "0")
    assert code == 1
    assert "'tidytape ingest' makes one of recorded files, 'tidytape demo' a simulated one" in told


@pytest.mark.slow
@pytest.mark.parametrize("place", [0, 2, 4])
def test_a_traceback_comes_only_with_debug(run: Run, tmp_path: Path, place: int) -> None:
    words = ["lake", "info", "--lake", str(tmp_path / "none")]
    code, _, told = run(*words)
    assert (code, told.count("\n")) == (1, 1)
    words.insert(place, "--debug")
    code, said, told = run(*words)
    assert (code, said) == (1, "")
    assert told.startswith("Traceback (most recent call last):\n")
    assert "tidytape.errors.LakeError: no lake at" in told
    assert told.splitlines()[-1].startswith("error: no lake at")


def test_an_error_that_nobody_expected_is_one_line(
    run: Run, monkeypatch: pytest.MonkeyPatch, inside: Path
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("by nothing")

    monkeypatch.setattr("tidytape.lake.hygiene.info", broken)
    code, said, told = run("lake", "info", "--lake", "lake", "--tables")
    assert (code, said) == (1, "")
    assert told == "error: unexpected ZeroDivisionError: by nothing; --debug shows where\n"


def test_an_extra_that_is_not_installed_is_said_with_the_way_out(
    run: Run, monkeypatch: pytest.MonkeyPatch, inside: Path
) -> None:
    for module in ("plotly", "plotly.offline"):
        monkeypatch.setitem(sys.modules, module, None)
    code, _, told = run("report", "--tape", "any.tape", "--out", "report.html", "--interactive")
    assert code == 1
    assert told == "error: an interactive report takes plotly: pip install 'tidytape[interactive]'\n"


def test_an_interrupt_ends_with_130(run: Run, monkeypatch: pytest.MonkeyPatch, inside: Path) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("tidytape.lake.hygiene.info", interrupted)
    assert run("lake", "info", "--lake", "lake", "--tables")[0] == 130


# --- completion ---


@pytest.mark.slow
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_knows_the_commands(shell: str) -> None:
    words = {"COMP_WORDS": "tidytape lake ", "COMP_CWORD": "2", "_TYPER_COMPLETE_ARGS": "tidytape lake "}
    environment = {
        **os.environ,
        **words,
        "_TIDYTAPE_COMPLETE": f"complete_{shell}",
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
    }
    code = "from tidytape.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    for name in ("info", "check", "compact", "vacuum"):
        assert name in done.stdout


# --- progress ---


def test_without_a_terminal_a_line_tells_how_far_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    report = IngestReport((FileReport("a", counts=(TableCount("trades", 1_500, 1_234),)),), ())
    with ingesting.shown_rows(pause=0.05) as progress:
        progress(report)
        assert capsys.readouterr().err == ""
        time.sleep(0.06)
        progress(report)
        progress(report)
    told = capsys.readouterr()
    assert told.out == ""
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ  1,234 new rows\n", told.err)


@pytest.mark.slow
def test_a_second_replay_says_that_there_was_nothing_new(run: Run, tmp_path: Path) -> None:
    (tmp_path / "trades.csv").write_text(CSV)
    words = (tmp_path / "trades.csv", "--lake", tmp_path / "lake", "--layout", "csv", "--exchange", "X", "--raw-symbol",
             "BTC-USD", "--speed", "inf")  # fmt: skip
    assert run("replay", *words)[1] == f"{tmp_path / 'trades.csv'}: 2 trades\n"
    assert (
        run("replay", *words)[1]
        == f"{tmp_path / 'trades.csv'}: nothing new; {len(CSV)} bytes went in earlier\n"
    )
