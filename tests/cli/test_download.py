"""``tidytape download``: what it prints, and how it ends."""

from __future__ import annotations

import json
import shlex
from datetime import date

import pytest

from mirror import Mirror, answers, put_binance
from tidytape.archives import _fetching
from tidytape.cli import main
from tidytape.cli._examples import EXAMPLES
from tidytape.lake import Lake


@pytest.fixture
def run(monkeypatch, capsys):
    def command(*words):
        monkeypatch.setattr("sys.argv", ["tidytape", *map(str, words)])
        with pytest.raises(SystemExit) as stopped:
            main()
        said = capsys.readouterr()
        return int(stopped.value.code or 0), said.out, said.err

    return command


@pytest.fixture
def mirror(monkeypatch, tmp_path):
    monkeypatch.setattr(_fetching, "_PACE", 0.0)
    monkeypatch.chdir(tmp_path)
    with Mirror().served() as serving:
        put_binance(serving, date(2024, 8, 1), 7, trades=5)
        yield serving


@pytest.fixture
def download(run, mirror):
    def downloaded(*words):
        return run("download", *words, "--mirror", mirror.address, "--folder", "files")

    return downloaded


@pytest.mark.slow
def test_the_example_runs_and_runs_again(download, mirror):
    words = shlex.split(EXAMPLES["download"])
    code, said, told = download(*words)
    assert (code, said) == (0, "8 files: 8 ok; 128 rows\n"), told
    assert Lake("lake").scan("trades").collect().height == 35
    mirror.asked.clear()
    code, said, told = download(*words)
    assert (code, said) == (0, "0 files; 0 rows; 8 files in the lake already\n"), told
    assert not mirror.asked


@pytest.mark.slow
def test_json_is_alone_on_the_standard_output(download):
    words = shlex.split(EXAMPLES["download"])
    code, said, _ = download(*words, "--json", "--dry-run")
    found = json.loads(said)
    assert (code, len(found["files"]), found["known"]) == (0, 8, 0)
    assert found["bytes"] > 1_000
    assert found["files"][0]["start"] == "2024-08-01T00:00:00Z"
    code, said, _ = download(*words, "--json")
    assert code == 0
    assert {row["state"] for row in json.loads(said)} == {"ok"}


@pytest.mark.slow
def test_absent_days_are_named_once_per_reason(download):
    words = shlex.split(EXAMPLES["download"].replace("2024-08-08", "2024-08-20"))
    code, said, _ = download(*words)
    assert code == 1
    first, last = said.splitlines()
    days = ", ".join(f"2024-08-{day:02}" for day in range(8, 18))
    assert first == f"BTCUSDT trades: absent, the archive does not have it: {days} and 2 more"
    assert last == "20 files: 12 absent, 8 ok; 128 rows"


@pytest.mark.slow
def test_a_dry_run_writes_nothing(download, tmp_path):
    code, said, told = download(*shlex.split(EXAMPLES["download"]), "--dry-run")
    assert code == 0
    assert "BTCUSDT-trades-2024-08-01.zip" in said
    assert "8 files, " in told
    assert not any(tmp_path.iterdir())


def test_the_list_of_archives(run):
    code, said, _ = run("download", "--list")
    assert code == 0
    assert all(name in said for name in ("binance", "bybit", "okx", "tardis"))
    assert "--out" not in said


@pytest.mark.slow
@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (("--market", "swap"), "--market: got 'swap', expected one of spot, um, cm"),
        (("--data", "books"), "--data: got 'books', expected one of trades"),
        (("--end", "2024-07-01"), "--end: got '2024-07-01T00:00:00Z'"),
        (("--contract", "inverse"), "--contract-size: left out"),
    ],
)
def test_what_cannot_be_right_is_refused_before_anything_is_asked(download, mirror, tmp_path, wrong, message):
    code, _, told = download(*shlex.split(EXAMPLES["download"]), *wrong)
    assert (code, message in told) == (2, True), told
    assert not mirror.asked
    assert not any(tmp_path.iterdir())


@pytest.mark.slow
def test_a_size_that_the_archive_refuses_to_tell_is_one_line(download, mirror):
    mirror.faults = dict.fromkeys(mirror.files, answers(403))
    code, said, told = download(*shlex.split(EXAMPLES["download"]), "--dry-run")
    assert (code, said) == (1, "")
    assert (
        told
        == f"error: the size of a file at {mirror.address} is not known: the server refuses it with 403\n"
    )
