"""The lake of `Client.demo`: made once, whole or not at all, by one process, and a copy for each client."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import polars as pl
import pytest

import tidytape
from tidytape.client import _demo_lake as demo_lake
from tidytape.client._cache import default_folder
from tidytape.client._demo_lake import DAYS, made_once
from tidytape.demo import fill

DAY = {"exchange": "DEMO_SPOT", "coin": "BTC", "interval": "1h", "start": "2024-08-08", "end": "2024-08-09"}


def writes(text: str, made: list[Path] | None = None) -> Callable[[Path], None]:
    """A maker that writes one file."""

    def make(path: Path) -> None:
        (path / "file").write_text(text)
        if made is not None:
            made.append(path)

    return make


def fails(path: Path) -> None:
    (path / "file").write_text("half")
    raise RuntimeError("in the middle")


def test_it_is_made_once(tmp_path: Path) -> None:
    made: list[Path] = []
    for _ in range(3):
        path = made_once(tmp_path / "demo", "name", writes("whole", made))
        assert (path / "file").read_text() == "whole"
    assert len(made) == 1
    assert made[0].parent == path.parent  # so that it can be moved at once
    assert not made[0].exists()
    assert made_once(tmp_path / "demo", "other", writes("other", made)) != path


def test_a_half_never_gets_the_name(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError):
        made_once(tmp_path, "name", fails)
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == []
    assert (made_once(tmp_path, "name", writes("whole")) / "file").read_text() == "whole"


def test_of_several_that_come_at_once_the_first_makes_it(tmp_path: Path) -> None:
    made: list[Path] = []
    begin = threading.Barrier(6, timeout=20)

    def slowly(path: Path) -> None:
        time.sleep(0.2)
        writes("whole", made)(path)

    def come(_: int) -> str:
        begin.wait()
        return (made_once(tmp_path, "name", slowly) / "file").read_text()

    with ThreadPoolExecutor(6) as threads:
        assert set(threads.map(come, range(6))) == {"whole"}
    assert len(made) == 1


def test_what_nobody_uses_is_removed_and_what_is_used_stays(tmp_path: Path) -> None:
    now = time.time()
    for name, days in {"used": 30, "old": 30, "young": 1, ".new-dead": 1, ".new-alive": 0}.items():
        (tmp_path / name).mkdir()
        os.utime(tmp_path / name, (now - days * 86_400,) * 2)
    made_once(tmp_path, "used", fails)  # it is there
    made_once(tmp_path, "name", writes("whole"))
    assert {path.name for path in tmp_path.iterdir() if path.is_dir()} == {
        "used",
        "young",
        "name",
        ".new-alive",
    }
    for number in range(20):
        (tmp_path / f"many {number}").mkdir()
        os.utime(tmp_path / f"many {number}", (now - 3_600 - number,) * 2)
    made_once(tmp_path, "another", writes("whole"))
    assert len([path for path in tmp_path.iterdir() if path.is_dir() and path.name[0] != "."]) == 8
    assert (tmp_path / "name").is_dir()


def test_the_name_says_what_the_bytes_follow_from() -> None:
    name = demo_lake._name()
    assert len(name) == 16
    assert all((Path(tidytape.__file__).parent / source).exists() for source in demo_lake._SOURCES)


@pytest.mark.long
def test_where_nothing_can_be_written_a_process_has_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("no folder")
    monkeypatch.setenv("TIDYTAPE_CACHE_DIR", str(blocked))
    monkeypatch.setattr(demo_lake, "DAYS", 1)
    with tidytape.Client.demo() as first, tidytape.Client.demo() as second:
        assert first.candles(**DAY | {"start": "2024-08-07", "end": "2024-08-08"}).height == 24
        assert second.coins(type="TOKEN_SUPPLY_AGG") == ["BTC", "ETH", "SOL", "USDT"]
    assert blocked.read_text() == "no folder"


@pytest.mark.slow
def test_a_client_writes_to_a_copy(tmp_path: Path) -> None:
    """What a client's lake loses or gains is the next client's no more."""
    kept_at = default_folder() / "demo" / demo_lake._name()
    with tidytape.Client.demo() as client:
        expected = client.candles(**DAY)
        before = {path: path.stat().st_mtime_ns for path in kept_at.rglob("*") if path.is_file()}
        folder = Path(client._of_process[0]._transport._resources.folder)  # type: ignore[attr-defined]
        for path in folder.rglob("*"):
            if path.is_file():
                path.write_bytes(b"")
    assert {path: path.stat().st_mtime_ns for path in kept_at.rglob("*") if path.is_file()} == before
    with tidytape.Client.demo() as client:
        assert client.candles(**DAY).equals(expected)


@pytest.mark.slow
def test_a_demo_client_has_the_numbers_of_a_lake_that_was_filled(tmp_path: Path) -> None:
    fill(tmp_path / "lake", days=DAYS + 1)
    with tidytape.Client.demo() as demo, tidytape.Client.local(tmp_path / "lake") as local:
        for method, asked in (
            ("candles", DAY),
            ("funding", DAY | {"exchange": "DEMO_LINEAR"}),
            ("volume_profile", DAY | {"end": "2024-08-08T06:00"}),
            ("skew", DAY | {"exchange": "DEMO_OPTIONS", "raw_symbol": "BTC_25", "tenor": "1w"}),
        ):
            frames: list[pl.DataFrame] = [getattr(client, method)(**asked) for client in (demo, local)]
            ours, theirs = (frame.drop("is_final") for frame in frames)
            assert ours.height
            assert ours.equals(theirs), method


@pytest.mark.slow
def test_a_new_process_does_not_simulate_again() -> None:
    with tidytape.Client.demo():
        program = (
            "import sys, tidytape\n"
            "with tidytape.Client.demo() as client: print(len(client.markets()))\n"
            "assert 'tidytape.demo._hidden' not in sys.modules\n"
        )
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 20
