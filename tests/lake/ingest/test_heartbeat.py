"""What a follower says while it lives: its heartbeat, its bad lines, and what it could not find."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from typer.testing import CliRunner

from followed import HEAD, SAID, Steps, ids, trades
from lakes import empty_lake
from tidytape.cli import app
from tidytape.errors import IngestError
from tidytape.lake import Lake
from tidytape.lake.hygiene import recorders
from tidytape.lake.hygiene._info import beat
from tidytape.lake.ingest import Csv
from tidytape.lake.record import _follow, follow

pytestmark = pytest.mark.slow

TORN = "\0\0\0\0" + trades(7)[-9:] + "16939\n"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    log = tmp_path / "log"
    log.write_text(HEAD + trades(1, 2) + TORN + trades(3))
    return log


def run(path: Path, lake: Lake, *steps: Any, **more: Any) -> Any:
    return follow(path, lake, Csv(), market=SAID, every=1e-9, tidy=None, stop=Steps(*steps), **more)


def test_a_heartbeat_has_what_went_in_and_goes_with_its_follower(
    lake: Lake, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_follow, "_BEAT", 0)
    seen = []
    run(path, lake, lambda: None, lambda: seen.append((recorders(lake), shown(lake))))
    ((heartbeats, text),) = seen
    (heartbeat,) = heartbeats.to_dicts()
    assert (heartbeat["log"], heartbeat["rows"], heartbeat["bad_lines"]) == (str(path), 3, 2)
    assert (heartbeat["lines"], heartbeat["missing"]) == (5, 0)
    assert heartbeat["lag"] < 5
    for name in ("beat", "last_line"):
        assert datetime.now(UTC) - heartbeat[name] < timedelta(minutes=1)
    assert str(path) in text
    assert "bad_lines" in text
    assert recorders(lake).is_empty()
    assert "bad_lines" not in shown(lake)


def shown(lake: Lake) -> str:
    answer = CliRunner().invoke(app, ["lake", "info", "--lake", lake.path])
    assert answer.exit_code == 0
    return answer.stdout


def test_a_follower_that_died_leaves_its_heartbeat(lake: Lake, path: Path) -> None:
    with pytest.raises(IngestError):
        run(path, lake, most_bad=0)
    assert recorders(lake)["log"].to_list() == [str(path)]


def test_a_broken_heartbeat_is_skipped_and_the_others_stay(lake: Lake, tmp_path: Path) -> None:
    facts = {"beat": datetime.now(UTC), "lag": 0.0, "lines": 1, "rows": 1, "bad_lines": 0, "missing": 0}
    for name in ("a.log", "b.log"):
        beat(lake, tmp_path / name, facts)
    folder = Path(lake.path) / "recorders"
    (first, second) = sorted(folder.iterdir())
    text = first.read_bytes()
    (folder / "folder.parquet").mkdir()
    (folder / "gone.parquet").symlink_to("nowhere")
    pl.DataFrame({"log": ["another tool"]}).write_parquet(folder / "other.parquet")
    for broken in (b"", text[: len(text) // 2], text[:-1], text[:-30] + b"\xff" * 22 + text[-8:]):
        first.write_bytes(broken)
        assert recorders(lake).height == 1
        assert "bad_lines" in shown(lake)
    beat(lake, tmp_path / "a.log", facts)
    beat(lake, tmp_path / "b.log", facts)
    assert recorders(lake).height == 2
    assert {path.suffix for path in folder.iterdir()} == {".parquet"}
    assert second.exists()


def test_torn_lines_are_left_out_and_named_up_to_a_bound(
    lake: Lake, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    report = run(path, lake, most_bad=2)
    assert ids(lake) == [1, 2, 3]
    assert report.bad_lines == 2
    assert f"{path}:4: " in caplog.text
    with path.open("a") as file:
        file.write(trades(4) + "\0\n" * 3)
    with pytest.raises(IngestError, match=r"log:8: .* over 2 broken lines; skip_bad=True"):
        run(path, lake, most_bad=2)
    assert ids(lake) == [1, 2, 3, 4]


def test_what_was_not_found_ends_the_command_with_1_and_the_report(tmp_path: Path, path: Path) -> None:
    lake = empty_lake(tmp_path / "lake")
    run(path, lake)
    path.write_text(HEAD + trades(8))
    words = [
        "ingest",
        "csv",
        "--follow",
        str(path),
        "--lake",
        lake.path,
        "--exchange",
        "X",
        "--raw-symbol",
        "BTC-USD",
    ]
    process = subprocess.Popen(
        [sys.executable, "-c", "from tidytape.cli import main; main()", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    assert "is not there or it was cut" in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "1 trade" in out
    assert "it was cut" in err


def test_a_pipe_ends_the_command(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    words = ["--follow", str(tmp_path / "pipe"), "--lake", str(tmp_path / "lake"), "--exchange", "X"]
    answer = CliRunner().invoke(app, ["ingest", "csv", *words, "--raw-symbol", "A-USD"])
    assert answer.exit_code != 0
    assert "not a regular file" in str(answer.exception)
