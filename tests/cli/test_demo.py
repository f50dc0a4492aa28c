"""The folder of `tidytape demo`: what an interrupted demo left is replaced, what is another's is left alone."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path

import filelock
import polars as pl
import pytest

from tidytape.cli.demo import Journey, journey
from tidytape.demo.market import markets
from tidytape.errors import QueryError, TidytapeError
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


def test_a_lake_whose_making_was_interrupted_is_replaced(folder: Path) -> None:
    Lake.create(folder / "lake")
    shutil.rmtree(folder / "lake" / "markets")
    with pytest.raises(BegunError):
        begin(folder)
    assert not (folder / "lake").exists()


def test_a_lake_whose_removal_was_interrupted_is_replaced(folder: Path) -> None:
    Lake.create(folder / "lake").register(markets())
    shutil.copytree(folder / "lake" / "trades", folder / ".lake.removed" / "trades")
    with pytest.raises(BegunError):
        begin(folder)
    assert [path.name for path in folder.iterdir() if path.is_dir()] == []


def test_files_of_others_are_left_alone(folder: Path) -> None:
    note = folder / "lake" / "trades" / "thesis.txt"
    note.parent.mkdir(parents=True)
    note.write_text("precious")
    with pytest.raises(TidytapeError):
        begin(folder)
    assert note.read_text() == "precious"


def test_a_lake_of_other_exchanges_is_left_alone(folder: Path) -> None:
    lake = Lake.create(folder / "lake")
    lake.register(markets().head(1).with_columns(exchange=pl.lit("MINE")))
    with pytest.raises(QueryError, match="other exchanges"):
        begin(folder)
    assert lake.markets()["exchange"].unique().to_list() == ["MINE"]


@pytest.mark.parametrize(
    ("table", "row"),
    [
        ("token_supply", {"token_name": "Dogecoin", "coin": "DOGE", "marketcap": 1.0}),
        ("quote_rates", {"quote_coin": "EUR", "usd": 1.1}),
        (
            "option_quotes",
            {
                "exchange": "X",
                "raw_symbol": "BTC-C",
                "coin": "BTC",
                "option_type": "CALL",
                "strike": 1.0,
                "expiry": 10**18,
            },
        ),
    ],
)
def test_what_somebody_added_to_the_demos_lake_is_left_alone(
    folder: Path, table: str, row: dict[str, object]
) -> None:
    lake = Lake.create(folder / "lake")
    lake.register(markets())
    lake.append(table, pl.DataFrame([{"timestamp": 10**18, **row}]), source="mine")
    with pytest.raises(QueryError, match="other exchanges, coins or rates"):
        begin(folder)
    assert lake.scan(table).collect().height == 1


def test_a_lake_that_lies_elsewhere_is_left_alone(folder: Path, tmp_path: Path) -> None:
    Lake.create(tmp_path / "disk").register(markets())
    folder.mkdir()
    (folder / "lake").symlink_to(tmp_path / "disk")
    with pytest.raises(QueryError, match="no link"):
        begin(folder)
    assert Lake(tmp_path / "disk").markets().height > 0


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
