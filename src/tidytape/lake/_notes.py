"""Read all notes of a Delta table in one pass over its log.

delta-rs looks one note up in 6 ms where the log has 8,000 of them, and has no call for all: of 2,000 markets with three
notes each that were 26 s.
"""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq

_LOG = "_delta_log"


def all_notes(files: pyarrow.fs.FileSystem, version: int) -> dict[str, int] | None:
    """Return the newest value of each note in the log of a table, up to a version.

    Parameters
    ----------
    files : pyarrow.fs.FileSystem
        The table's folder.
    version : int
        Of the table.

    Returns
    -------
    dict of str to int, or None
        None where the log is not laid out as delta-rs lays it out: commits of JSON after at most one checkpoint, which
        is one Parquet file.
    """
    try:
        checkpoint = _newest_checkpoint(files, version)
        notes = {} if checkpoint is None else _of_checkpoint(files, checkpoint)
        for number in range(0 if checkpoint is None else checkpoint + 1, version + 1):
            notes |= _of_commit(files, number)
    except (OSError, ValueError, KeyError, pa.ArrowException):
        return None
    return notes


def _newest_checkpoint(files: pyarrow.fs.FileSystem, version: int) -> int | None:
    """Version of the checkpoint to begin with; None where the log is read from its first commit on."""
    pointer = f"{_LOG}/_last_checkpoint"
    if files.get_file_info(pointer).type == pyarrow.fs.FileType.NotFound:
        return None
    with files.open_input_file(pointer) as file:
        facts = json.loads(file.read())
    if facts.get("parts") is not None or facts.get("v2Checkpoint") is not None:
        raise ValueError("a checkpoint of several files")
    newest = int(facts["version"])
    return newest if newest <= version else None


def _of_checkpoint(files: pyarrow.fs.FileSystem, version: int) -> dict[str, int]:
    rows = pq.read_table(f"{_LOG}/{version:020}.checkpoint.parquet", columns=["txn"], filesystem=files)
    notes = rows.column("txn").drop_null().combine_chunks()
    names, values = notes.field("appId").to_pylist(), notes.field("version").to_pylist()
    return {name: value for name, value in zip(names, values, strict=True) if name is not None}


def _of_commit(files: pyarrow.fs.FileSystem, version: int) -> dict[str, int]:
    with files.open_input_file(f"{_LOG}/{version:020}.json") as file:
        lines = file.read().splitlines()
    # Most lines are files, and take long to parse.
    actions = (json.loads(line) for line in lines if b'"txn"' in line)
    return {action["txn"]["appId"]: action["txn"]["version"] for action in actions if "txn" in action}
