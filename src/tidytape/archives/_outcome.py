"""What becomes of one file of an archive: received and verified, then ingested, or left out with a reason."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from urllib.parse import unquote

import filelock

from tidytape.archives._fetching import Fetcher, FileFailedError
from tidytape.archives._planned import PlannedFile
from tidytape.errors import IngestError, QueryError
from tidytape.lake import Lake
from tidytape.lake.ingest._run import ingest_one


class State(StrEnum):
    """What became of a file."""

    OK = "ok"
    NO_CHECKSUM = "no_checksum"
    ABSENT = "absent"
    BAD_CHECKSUM = "bad_checksum"
    DEFECT = "defect"
    FAILED = "failed"


IN_LAKE = frozenset({State.OK, State.NO_CHECKSUM})
"""The states of files whose rows are in the lake."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a file, see `DownloadPlan.run`."""

    state: State
    bytes: int
    rows: int
    reason: str | None


@dataclass(frozen=True, slots=True)
class Received:
    """A file as it came from the archive, or why it did not.

    Attributes
    ----------
    state : State
        What is known so far.
    path : Path or None
        Where it lies.
    bytes : int
        Its size.
    reason : str or None
        What a user should know.
    """

    state: State
    path: Path | None = None
    bytes: int = 0
    reason: str | None = None

    def left_out(self, reason: str) -> Outcome:
        """Return the outcome of a file that does not go into the lake."""
        return Outcome(State.DEFECT, self.bytes, 0, reason)


def received(fetcher: Fetcher, address: str, path: Path, *, checksum: str) -> Received:
    """Fetch a file and compare it with its checksum; if they differ, fetch both once more.

    ``checksum`` is what follows the address in that of the checksum; empty if there are none.
    """
    try:
        file = fetcher.file(address, path, is_verified=bool(checksum))
        if file is None:
            return Received(State.ABSENT, reason="the archive does not have it")
        if not checksum:
            return Received(State.NO_CHECKSUM, path, file.bytes, "the archive publishes no checksums")
        expected = _checksum(fetcher, address, checksum)
        if expected not in {None, file.sha256}:
            path.unlink()
            file = fetcher.file(address, path, is_verified=True)
            expected = _checksum(fetcher, address, checksum)
    except FileFailedError as error:
        return Received(State.FAILED, reason=str(error))
    if file is None:
        return Received(State.ABSENT, reason="the archive does not have it any more")
    if expected is None:
        return Received(State.NO_CHECKSUM, path, file.bytes, "the archive has no checksum of it")
    if expected != file.sha256:
        reason = "what is published as its checksum is no SHA-256 of it"
        if expected:
            reason = f"its SHA-256 is {file.sha256[:12]}…, published is {expected[:12]}…"
        return Received(State.BAD_CHECKSUM, path, file.bytes, reason)
    return Received(State.OK, path, file.bytes)


def _checksum(fetcher: Fetcher, address: str, suffix: str) -> str | None:
    return fetcher.checksum(address + suffix, unquote(address).rpartition("/")[2])


def ingested(file: Received, lake: Lake | None, planned: PlannedFile, *, source: str) -> Outcome:
    """Put a file into the lake, if it may go there, and note its source."""
    if lake is None or file.path is None or file.state not in IN_LAKE:
        return Outcome(file.state, file.bytes, 0, file.reason)
    try:
        read = ingest_one(file.path, lake, planned.market, name=source, check=planned.require)
    except IngestError as error:
        return file.left_out(
            str(error).removeprefix(f"{file.path}: ").replace(str(file.path), file.path.name)
        )
    except QueryError as error:
        if error.parameter != "layout":
            raise
        return file.left_out("it is empty, or of a kind that tidytape does not know")
    rows = sum(count.read for count in read.counts)
    left_out = sum(count.superseded for count in read.counts)
    remarks = [
        *([file.reason] if file.reason else []),
        *([] if rows or read.already_ingested else ["it has no rows"]),
        *([f"{left_out:,} of them left out, for another row of their time counts"] if left_out else []),
        *(f"left out: {what} ({count:,})" for what, count in read.ignored),
        *(str(note) for note in read.notes if not note.said.startswith("read as ")),
    ]
    state = State.DEFECT if read.ignored and not rows else file.state
    return Outcome(state, file.bytes, rows, "; ".join(remarks) or None)


@contextmanager
def locked(folders: Collection[Path]) -> Iterator[None]:
    """Keep other processes from fetching into folders.

    Raises
    ------
    QueryError
        If another one does.
    """
    with ExitStack() as locks:
        for folder in sorted(folders):
            folder.mkdir(parents=True, exist_ok=True)
            try:
                locks.enter_context(filelock.FileLock(folder / ".lock", timeout=0))
            except filelock.Timeout:
                raise QueryError(
                    "folder", got=str(folder), expected="a folder into which no other download writes"
                ) from None
        yield
