"""The folder of `tidytape demo`: what an interrupted demo left is replaced, what is another's is left alone."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Callable
from pathlib import Path

import filelock
import polars as pl
import pytest

from tidytape.cli._demo import Journey, journey
from tidytape.cli._demo_folder import claimed, seal
from tidytape.demo._market import markets
from tidytape.errors import QueryError
from tidytape.lake import Lake


class BegunError(Exception):
    """The folder was accepted, and the simulation would begin."""


def begin(folder: Path) -> None:
    def stop(name: str) -> None:
        raise BegunError

    journey(folder, days=1, step=stop)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / 'a "market", déjà vu'


def test_what_an_interrupted_demo_left_is_replaced(folder: Path) -> None:
    with pytest.raises(BegunError):
        begin(folder)
    Lake.create(folder / "lake").writer().register(markets())
    shutil.rmtree(folder / "lake" / "markets")  # its making, or its removal, was interrupted
    with pytest.raises(BegunError):
        begin(folder)
    assert not (folder / "lake").exists()


@pytest.fixture
def complete(folder: Path) -> Path:
    """The folder of a demo that is complete, but for what is in its results."""
    with claimed(folder):
        lake = Lake.create(folder / "lake")
        lake.writer().register(markets())
        (folder / "market.tape").mkdir()
        (folder / "market.tape" / "manifest.jsonl").write_text("a tape")
        (folder / "report.html").write_text("a page")
        seal(folder)
    return folder


def test_what_a_complete_demo_left_is_replaced(complete: Path) -> None:
    with pytest.raises(BegunError):
        begin(complete)
    assert [path.name for path in complete.iterdir() if not path.name.startswith(".")] == []


def add_trades(folder: Path) -> None:
    trade = {
        "exchange": "DEMO_SPOT",
        "raw_symbol": "BTCUSDT",
        "timestamp": 10**18,
        "id": "mine",
        "side": "BUY",
    }
    rows = pl.DataFrame([{**trade, "sequence": 0, "price": 1.0, "amount": 1.0, "quote_amount": 1.0}])
    Lake(folder / "lake").writer().append("trades", rows, source="mine")


@pytest.mark.parametrize(
    "change",
    [
        add_trades,
        lambda folder: (folder / "lake" / "notes.txt").write_text("precious"),
        lambda folder: (folder / "market.tape" / "manifest.jsonl").write_text("a study of mine"),
        lambda folder: (folder / "report.html").write_text("a page of mine"),
        lambda folder: (folder / ".demo.json").unlink(),
        lambda folder: (folder / "report.html").rename(folder / "mine.html"),
    ],
    ids=["rows", "a file", "a tape", "a page", "no marker", "a page elsewhere"],
)
def test_what_was_changed_since_is_left_alone(complete: Path, change: Callable[[Path], object]) -> None:
    change(complete)
    before = files(complete)
    if (complete / "mine.html").exists():  # of another name, so no demo writes there
        with pytest.raises(BegunError):
            begin(complete)
        assert (complete / "mine.html").read_text() == "a page"
        return
    with pytest.raises(QueryError, match="an earlier demo wrote and nobody changed"):
        begin(complete)
    assert files(complete) == before


@pytest.mark.parametrize("name", ["lake", "market.tape", "report.html"])
def test_files_of_others_are_left_alone(folder: Path, name: str) -> None:
    (folder / name).mkdir(parents=True)
    (folder / name / "thesis.txt").write_text("precious")
    with pytest.raises(QueryError, match="an earlier demo wrote and nobody changed"):
        begin(folder)
    assert files(folder).keys() == {".lock", f"{name}/thesis.txt"}


@pytest.mark.parametrize("name", ["lake", "market.tape", "report.html"])
def test_a_link_is_left_alone(complete: Path, tmp_path: Path, name: str) -> None:
    (complete / name).rename(tmp_path / "elsewhere")
    (complete / name).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(QueryError, match="an earlier demo wrote and nobody changed"):
        begin(complete)
    assert (tmp_path / "elsewhere").exists()


def test_a_folder_that_cannot_be_written_is_named(folder: Path) -> None:
    (folder / ".lock").mkdir(parents=True)
    with pytest.raises(QueryError, match="a folder that can be written"):
        begin(folder)


def files(folder: Path) -> dict[str, bytes]:
    return {str(one.relative_to(folder)): one.read_bytes() for one in folder.rglob("*") if one.is_file()}


def test_only_one_demo_writes_to_a_folder(folder: Path) -> None:
    folder.mkdir()
    with filelock.FileLock(folder / ".lock"), pytest.raises(QueryError, match="no other demo"):
        begin(folder)


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(QueryError, match="a folder"):
        begin(tmp_path / "file")


def test_a_seed_that_no_tape_can_hold_is_refused_at_once(folder: Path) -> None:
    with pytest.raises(QueryError, match="below"):
        journey(folder, seed=2**64)
    assert not folder.exists()


def test_the_commands_to_try_next_work_in_any_folder(folder: Path) -> None:
    done = Journey(folder / "lake", folder / "market.tape", folder / "report.html", pl.DataFrame())
    tries = [shlex.split(line) for line in str(done).splitlines() if line.startswith("tidytape ")]
    paths = [str(done.lake), str(done.lake), str(done.tape)]
    assert all(path in words for path, words in zip(paths, tries, strict=True))
