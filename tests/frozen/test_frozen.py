"""What users wrote to disk with an older release opens, answers the same, and replays as it was recorded."""

from __future__ import annotations

import json
import shutil
import warnings
from pathlib import Path
from typing import Any

import httpx
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import tidytape
from frozen.freeze import ADDRESS, FORMS, STUDY
from tidytape.catalogue import Interval
from tidytape.client._answers import decoded, joined, within
from tidytape.client._local import connection
from tidytape.client._steps import Answer
from tidytape.client._tape import entries, verify
from tidytape.schema import LISTS, TPO_SESSIONS, schema_of

RELEASES = sorted(path for path in Path(__file__).parent.iterdir() if (path / "hashes.json").is_file())
ids = [path.name for path in RELEASES]

DESCRIBING = {
    "amount_unit", "block_size", "is_final", "coverage", "factor", "renamed_to", "renamed_at", "session",
}  # fmt: skip
"""Columns that younger releases add to a data type, and to `markets`, which has a block size of its own."""

OF_LEVELS = {*LISTS, "is_in_progress"}
"""Flags of levels, which older releases had only as lists of their session."""

OF_SESSIONS = {*TPO_SESSIONS.names} - {*schema_of("TPO_AGG").names}
"""Columns that older releases repeated on each level of a market profile, and that are in its sessions alone."""

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
    if "block_ids" in old.columns:
        assert got["is_single_print"].to_list() == old.select(in_list("single_prints")).to_series().to_list()
        assert got["is_poor_low"].to_list() == old.select(in_list("poor_lows")).to_series().to_list()
        got, old = got.drop(OF_LEVELS), old.drop(OF_SESSIONS)
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


def in_list(name: str) -> pl.Expr:
    return pl.col(name).list.contains(pl.col("price"))


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
    with tidytape.Client(**arguments, offline=True) as client, warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".* which was not final; the frame has the rest", RuntimeWarning)
        got = ask(client, name)
    if "is_final" in old.columns:  # a cache has no interval that may still change
        old = old.filter("is_final")
    assert_same(got, old)


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
            now = ask(local, name).columns
            assert got.columns == [column for column in now if column in got.columns], name
            moved = OF_SESSIONS if name == "tpo" else set()
            assert {*old.columns} - {*got.columns} == moved & {*old.columns}, name
            is_profile = name in {"tpo", "tpo_sessions"}
            assert {*got.columns} - {*old.columns} <= (OF_LEVELS | DESCRIBING if is_profile else set()), name
            names = [column for column in old.columns if column not in moved]
            assert_frame_equal(got.select(names), old.select(names), categorical_as_str=True)


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", [name for name in STUDY if name not in {"markets", "tpo_sessions"}])
def test_a_client_of_today_reads_what_an_old_service_sends(release: Path, name: str, form: str) -> None:
    body = (release / "bodies" / f"{name}.{form}").read_bytes()
    answer = Answer(200, httpx.Headers({"content-type": FORMS[form]}), body)
    with tidytape.Client.local(release / "lake") as client:
        for method in (name, "tpo_sessions") if name == "tpo" else (name,):
            called, arguments = STUDY[method]
            query = getattr(client.query, called)(**arguments)
            window = query.queries[0]
            points = within(decoded(answer, window), window.start, window.end).drop(
                "data_until", strict=False
            )
            frame = joined([points], window)
            frame = frame if query.finish is None else query.finish(frame)
            assert_same(
                query.schema.arranged(frame), pl.read_parquet(release / "answers" / f"{method}.parquet")
            )
