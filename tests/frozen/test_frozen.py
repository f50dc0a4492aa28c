"""What users wrote to disk with an older release opens, answers the same, and replays as it was recorded."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import tidytape
from frozen.freeze import ADDRESS, STUDY
from tidytape.catalogue import Interval
from tidytape.client._local import connection
from tidytape.client._tape import entries, verify

RELEASES = sorted(path for path in Path(__file__).parent.iterdir() if (path / "hashes.json").is_file())
ids = [path.name for path in RELEASES]

DESCRIBING = {"amount_unit", "block_size", "is_final", "coverage", "factor", "renamed_to", "renamed_at"}
"""Columns that younger releases add to a data type, and to `markets`, which has a block size of its own."""

LEARNED = {"marketcap"}
"""Columns of `markets` that were null in an older release, and that younger ones compute from the same lake."""


@pytest.fixture(params=RELEASES, ids=ids)
def release(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy of the folder of a release: opening may write."""
    return Path(shutil.copytree(request.param, tmp_path / "release"))


def ask(client: Any, name: str) -> pl.DataFrame:
    method, arguments = STUDY[name]
    frame: pl.DataFrame = getattr(client, method)(**arguments)
    return frame


def assert_same(got: pl.DataFrame, old: pl.DataFrame) -> None:
    """The columns of old have the values of old, but for the names of intervals; what is new describes them."""
    if "interval" in old.columns:
        aliases = {interval.value: interval.alias for interval in Interval}
        old = old.with_columns(pl.col("interval").cast(pl.String).replace(aliases).cast(pl.Categorical()))
    assert set(got.columns) - set(old.columns) <= DESCRIBING
    if "id" in old.columns:  # younger releases return the trades of both sides in the order of time
        old = old.sort("timestamp", pl.col("id").str.len_chars(), "id", maintain_order=True)
    if "prediction_markets" in old.columns:  # whose entries have the fields of their release
        fields = [field.name for field in old.schema["prediction_markets"].inner.fields]
        entry = pl.struct(pl.element().struct.field(*fields))
        got = got.with_columns(pl.col("prediction_markets").list.eval(entry))
    learned = [name for name in LEARNED & set(old.columns) if old[name].is_null().all()]
    got, old = got.drop(learned), old.drop(learned)
    assert_frame_equal(got.select(old.columns), old, check_dtypes=True, categorical_as_str=True)


def test_there_is_something_to_open() -> None:
    assert RELEASES


@pytest.mark.slow
@pytest.mark.parametrize("name", STUDY)
def test_an_old_lake_answers_the_same(release: Path, name: str) -> None:
    with tidytape.Client.local(release / "lake") as client:
        assert_same(ask(client, name), pl.read_parquet(release / "answers" / f"{name}.parquet"))


@pytest.mark.slow
@pytest.mark.parametrize("name", STUDY)
def test_an_old_cache_is_read_or_passed_over(release: Path, name: str) -> None:
    """Whether its files are read or fetched anew, the answer is the same, and the cache goes on working."""
    arguments = connection(release / "lake") | {
        "base_url": ADDRESS,
        "cache": release / "cache",
        "progress": False,
    }
    old = pl.read_parquet(release / "answers" / f"{name}.parquet")
    with tidytape.Client(**arguments) as client:
        assert_same(ask(client, name), old)
    if name == "markets":  # lists are not kept
        return
    arguments["transport"] = None
    with tidytape.Client(**arguments, offline=True) as client:
        assert_same(ask(client, name), old)


@pytest.mark.slow
def test_an_old_tape_replays_as_it_was_recorded(release: Path) -> None:
    tape = release / "study.tape"
    assert verify(tape) == []
    hashes = json.loads((release / "hashes.json").read_text())
    assert [entry.hash for entry in entries(tape)] == list(hashes.values())
    with tidytape.Client.replay(tape) as client, tidytape.Client.local(release / "lake") as local:
        for name in STUDY:
            got = ask(client, name)
            old = pl.read_parquet(release / "answers" / f"{name}.parquet")
            assert sorted(got.columns) == sorted(old.columns), name
            now = ask(local, name).columns
            assert got.columns == [column for column in now if column in got.columns], name
            assert_frame_equal(got.select(old.columns), old, categorical_as_str=True)
