"""All notes of a table at once are what delta-rs says of each."""

from __future__ import annotations

from pathlib import Path

import deltalake
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction

from tidytape.lake import TRADES, _delta
from tidytape.lake._delta import all_notes
from tidytape.lake._parquet import filesystem


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """A table with 120 commits of notes, some of them noted several times, and so with checkpoints."""
    uri = str(tmp_path / "trades")
    _delta.create(uri, TRADES, None)
    for number in range(120):
        notes = [Transaction(f"often {number % 7}", number), Transaction(f'once "txn" {number}/Ü', number)]
        properties = CommitProperties(app_transactions=notes)
        delta = DeltaTable(uri)
        delta.create_write_transaction([], "append", delta.schema(), commit_properties=properties)
    return uri


@pytest.mark.slow
def test_all_notes_at_once_are_those_of_the_log(uri: str) -> None:
    log = Path(uri) / "_delta_log"
    assert (log / "_last_checkpoint").exists()
    opened = _delta.opened(uri, None)
    names = [
        *(f"often {number}" for number in range(8)),
        *(f'once "txn" {number}/Ü' for number in range(121)),
    ]
    expected = [DeltaTable.transaction_version(opened, name) for name in names]
    assert expected[-1] is None
    assert len([value for value in expected if value is not None]) == 127
    opened.read_notes(1_000)
    for number in range(120):
        (log / f"{number:020}.json").unlink(missing_ok=True)  # nothing is looked up one by one any more
    assert [opened.transaction_version(name) for name in names] == expected


@pytest.mark.slow
def test_notes_of_an_older_version_are_those_of_it(uri: str) -> None:
    store = filesystem(uri, None)
    for version in (0, 1, 99, 110):
        old = deltalake.DeltaTable(uri, version=version)
        notes = all_notes(store, version)
        assert notes is not None
        assert all(old.transaction_version(name) == value for name, value in notes.items())
        assert len(notes) == version + min(version, 7)


@pytest.mark.long
@pytest.mark.parametrize("what", ["a commit that is gone", "a checkpoint of parts", "no json"])
def test_a_log_of_another_layout_is_left_to_delta_rs(uri: str, what: str) -> None:
    log = Path(uri) / "_delta_log"
    if what == "a commit that is gone":
        (log / f"{120:020}.json").unlink()
    elif what == "a checkpoint of parts":
        (log / "_last_checkpoint").write_text('{"version": 100, "size": 5, "parts": 2}')
    else:
        (log / "_last_checkpoint").write_text("{")
    assert all_notes(filesystem(uri, None), 120) is None
