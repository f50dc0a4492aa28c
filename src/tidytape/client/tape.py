"""A tape: every answer of a study in one file, so that it comes out the same next year, anywhere, without a network.

A tape is lines of JSON, each of one form::

    {"sha256":"<of the bytes of the entry>","entry":{...}}

The first entry says what recorded it and when. Each one after it is an answer: what was asked, when, what it cost, and
the body: a frame as an Arrow stream, or a list or an object as JSON, compressed with zstd and in base 64. The last one
says that the tape is whole. An entry holds the hash of the one before, so that none can be changed, moved or left out
without notice; and what was recorded up to a crash can be read.
"""

from __future__ import annotations

import base64
import hashlib
import io
import os
import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any

import httpx
import orjson
import polars as pl
import pyarrow as pa

from tidytape._version import __version__
from tidytape.client.display import described
from tidytape.client.fingerprint import fingerprint
from tidytape.client.quota import Usage
from tidytape.client.steps import printable
from tidytape.errors import TapeError, counted

__all__ = [
    "NO_NETWORK",
    "Recorder",
    "Replayer",
    "TapeEntry",
    "described_ask",
    "entries",
    "manifest",
    "verify",
]

_FORMAT = 1
_OPENING, _BETWEEN, _CLOSING = b'{"sha256":"', b'","entry":', b"}\n"
_DIGEST = 64
_MOST_PACKED = 100_000
"""No body is smaller than that part of what it was: whoever says so wants memory."""

_ZSTD = pa.Codec("zstd", compression_level=3)

Ask = Mapping[str, Any]
"""What is asked, as JSON can say it: the same for the same question."""

Answered = pl.DataFrame | list[str] | Usage


@dataclass(frozen=True, slots=True)
class TapeEntry:
    """One line of the manifest of a tape.

    Attributes
    ----------
    number : int
        Counted from 1; the head of the tape has none.
    ask : dict
        What was asked.
    at : str
        When, as ISO 8601 in UTC.
    rows : int or None
        Of a frame, as the study got it.
    hash : str
        Fingerprint of that frame, or SHA-256 of anything else.
    told : dict
        What else is known of it, such as requests and weight.
    """

    number: int
    ask: dict[str, Any]
    at: str
    rows: int | None
    hash: str
    told: dict[str, Any]


# --- writing --------------------------------------------------------------------------------------------------------


class Recorder:
    """Writes a tape: a context manager, whose end makes the tape whole.

    Parameters
    ----------
    path : path
        The tape.
    base_url : str
        The service that is asked.
    overwrite : bool
        Whether a tape that is there is replaced.

    Raises
    ------
    TapeError
        If there is one.
    """

    def __init__(self, path: str | os.PathLike[str], *, base_url: str, overwrite: bool = False) -> None:
        self.path = Path(path)
        self._lock = threading.Lock()
        self._last = ""
        self._count = 0
        try:
            self._file = self.path.open("wb" if overwrite else "xb", buffering=0)
        except FileExistsError:
            raise TapeError(
                f"{self.path} is there already; overwrite=True records it anew", path=str(self.path)
            ) from None
        except OSError as error:
            raise TapeError(f"{self.path} cannot be written: {error.strerror}", path=str(self.path)) from None
        versions = {"tidytape": __version__, "polars": pl.__version__, "python": sys.version.split()[0]}
        try:
            self._put({"tape": _FORMAT, "service": base_url, "created": _now(), "versions": versions})
        except TapeError:
            self._file.close()
            raise

    def add(self, ask: Ask, answered: Answered, told: Mapping[str, Any] | None = None) -> None:
        """Record an answer."""
        form, body, hashed = _written(answered)
        entry = {
            "ask": ask,
            "at": _now(),
            "told": told or {},
            "rows": answered.height if isinstance(answered, pl.DataFrame) else None,
            "hash": hashed,
            "form": form,
            "size": len(body),
            "body": base64.b64encode(_ZSTD.compress(body, asbytes=True)).decode("ascii"),
        }
        with self._lock:
            if self._file.closed:
                return  # asked while it was recorded, answered after
            self._put({"number": self._count + 1, **entry})
            self._count += 1

    def _put(self, entry: dict[str, Any]) -> None:
        content = orjson.dumps({**entry, "before": self._last})
        digest = hashlib.sha256(content).hexdigest()
        at, line = self._file.tell(), memoryview(_OPENING + digest.encode() + _BETWEEN + content + _CLOSING)
        try:
            while line:
                line = line[self._file.write(line) :]
        except OSError as error:
            self._file.truncate(at)  # half a line would take the next one along
            self._file.seek(at)
            raise TapeError(f"{self.path} cannot be written: {error.strerror}", path=str(self.path)) from None
        self._last = digest

    def close(self, *, failed: str | None = None) -> None:
        """Make it whole, or say which error ended the study before its end."""
        with self._lock:
            if not self._file.closed:
                with self._file:  # closed whatever happens
                    self._put({"end": self._count, "at": _now()} | ({"failed": failed} if failed else {}))
                    os.fsync(self._file.fileno())

    def __enter__(self) -> Recorder:
        """Return it."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Make it whole; what a study did before it failed is recorded too, and that it did."""
        self.close(failed=None if kind is None else kind.__name__)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _written(answered: Answered) -> tuple[str, bytes, str]:
    if isinstance(answered, pl.DataFrame):
        stream = io.BytesIO()
        answered.write_ipc_stream(stream)
        return "arrow", stream.getvalue(), fingerprint(answered)
    form = "usage" if isinstance(answered, Usage) else "names"
    body = orjson.dumps(asdict(answered) if isinstance(answered, Usage) else answered)
    return form, body, hashlib.sha256(body).hexdigest()


# --- reading --------------------------------------------------------------------------------------------------------


def _refuse(request: httpx.Request) -> httpx.Response:
    raise TapeError(f"{request.url.path}: a tape is replayed, and nothing is sent")


NO_NETWORK = httpx.MockTransport(_refuse)
"""What carries the requests of a client that replays: nowhere."""


class Replayer:
    """Gives the answers of a tape, in the order in which they were recorded; the last of a question for ever.

    Where an entry is damaged, moved or gone, nobody knows whose turn comes after: from there on nothing is answered.

    Parameters
    ----------
    path : path
        The tape.

    Raises
    ------
    TapeError
        If it cannot be read, or its head is not one.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._lock = threading.Lock()
        self._lines: dict[bytes, list[tuple[int, int, int]]] = {}
        self._next: dict[bytes, int] = {}
        self._damaged: list[tuple[int, str]] = []
        self._broken_at: int | None = None
        """The first place where the tape is not as it was recorded: which answer was whose turn is not known there."""
        head: dict[str, Any] | None = None
        before: object = ""
        is_ended, number = False, 0
        for number, offset, line in _lines(self.path):
            entry, trouble = _checked(line)
            if self._broken_at is None and (entry is None or entry.get("before") != before):
                self._broken_at = number
            before = line[len(_OPENING) : len(_OPENING) + _DIGEST].decode("ascii", "replace")
            if number == 0:
                head = entry
            elif entry is None:
                self._damaged.append((number, trouble))
            elif "ask" in entry:
                self._lines.setdefault(_key(entry["ask"]), []).append((number, offset, len(line)))
            is_ended = entry is not None and "end" in entry
        if self._broken_at is None and not is_ended:
            self._broken_at = number + 1
        if head is None or head.get("tape") != _FORMAT:
            raise TapeError(f"{self.path} is no tape, or its head is damaged", path=str(self.path))
        self.base_url = str(head.get("service"))

    def found(self, ask: Ask) -> tuple[Answered, TapeEntry]:
        """Return the answer to a question, and its entry.

        Raises
        ------
        TapeError
            If the tape has none, or it is not what was recorded.
        """
        self.check(ask)
        key = _key(ask)
        with self._lock:
            found = self._lines[key]
            turn = self._next.get(key, 0)
            broken = self._broken_at
            if broken is not None and (turn == len(found) or found[turn][0] >= broken):
                raise TapeError(
                    f"{self.path} is not as it was recorded from entry {broken} on, so that this may not be the answer "
                    f"that {described_ask(ask)} had at this point; tape verify says more",
                    path=str(self.path),
                    entries=(broken,),
                )
            is_last = turn == len(found) - 1 and broken is None
            self._next[key] = turn if is_last else turn + 1
        number, offset, length = found[turn]
        with self.path.open("rb") as file:
            file.seek(offset)
            entry, trouble = _checked(file.read(length))
        if entry is None:
            raise _damaged(self.path, number, trouble)
        try:
            return _read(entry), _listed(number, entry)
        except ValueError as error:
            raise _damaged(self.path, number, str(error)) from None

    def check(self, ask: Ask) -> None:
        """Do nothing where the tape has an answer to a question, and do not give it.

        Raises
        ------
        TapeError
            If the tape has none.
        """
        if _key(ask) in self._lines:
            return
        said = f"{self.path} has no answer to {described_ask(ask)}"
        if self._damaged:
            number, trouble = self._damaged[0]
            more = f", and {counted(len(self._damaged) - 1, 'more')}" if len(self._damaged) > 1 else ""
            said += f"; it may have been entry {number}, which is damaged ({trouble}){more}"
        else:
            said += "; it was not asked when the tape was recorded, or it failed then"
        near = self._nearest(ask)
        raise TapeError(
            said + (f"; the nearest it has is {near}" if near else ""),
            path=str(self.path),
            entries=tuple(number for number, _ in self._damaged),
        )

    def _nearest(self, ask: Ask) -> str | None:
        """Describe the entry that differs least from a question: of the same kind, in the fewest parameters."""
        asked = _facts(ask)

        def alike(other: Ask) -> tuple[int, int]:
            facts = _facts(other)
            same = len(asked & facts)
            return same, -len(facts ^ asked)

        others = [
            (other, lines[0][0])
            for other, lines in ((orjson.loads(key), lines) for key, lines in self._lines.items())
            if other.get("ask") == ask.get("ask")
        ]
        if not others:
            return None
        best, number = max(others, key=lambda one: (_type(one[0]) == _type(ask), *alike(one[0]), -one[1]))
        return f"entry {number}, {described_ask(best)}"


def described_ask(ask: Ask, method: str | None = None) -> str:
    """Return what was asked as people write it, times in ISO 8601; by a method that has no data type of its own.

    Examples
    --------
    >>> described_ask({"ask": "coins", "params": [["exchange", "X"]]})
    'coins exchange=X'
    >>> described_ask({"ask": "points", "params": [["type", "TRADE"], ["from", "0"], ["period", "60"]]})
    'TRADE, 1970-01-01T00:00:00Z to 1970-01-01T00:01:00Z'
    """
    try:
        said = described(ask.get("params") or [])
    except (ValueError, TypeError, OverflowError, OSError):  # a tape may hold anything
        said = orjson.dumps(ask.get("params")).decode()
    name = ask.get("ask")
    if method:
        name, said = method, said.partition(" ")[2]
    return printable(said if name == "points" else f"{name} {said}".strip())


def _facts(ask: Ask) -> set[tuple[str, ...]]:
    return {tuple(map(str, one)) for one in ask.get("params") or ()}


def _type(ask: Ask) -> set[tuple[str, ...]]:
    return {one for one in _facts(ask) if one[:1] == ("type",)}


def _damaged(path: Path, number: int, trouble: str) -> TapeError:
    return TapeError(f"{path}: entry {number} is damaged: {trouble}", path=str(path), entries=(number,))


def _key(ask: Ask) -> bytes:
    return orjson.dumps(ask, option=orjson.OPT_SORT_KEYS)


def _lines(path: Path) -> Iterator[tuple[int, int, bytes]]:
    """Give number, offset and bytes of each line; the head is number 0."""
    offset = 0
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file):
                yield number, offset, line
                offset += len(line)
    except OSError as error:
        raise TapeError(f"{path} cannot be read: {error.strerror}", path=str(path)) from None


def _checked(line: bytes) -> tuple[dict[str, Any] | None, str]:
    """Return the entry of a line, or None and what is wrong with it."""
    at = len(_OPENING)
    framed = (
        line.startswith(_OPENING)
        and line[at + _DIGEST : at + _DIGEST + len(_BETWEEN)] == _BETWEEN
        and line.endswith(_CLOSING)
    )
    if not framed:
        return None, "the line is not one of a tape, or not whole"
    content = line[at + _DIGEST + len(_BETWEEN) : -len(_CLOSING)]
    if hashlib.sha256(content).hexdigest().encode() != line[at : at + _DIGEST]:
        return None, "its bytes are not those that were recorded"
    try:
        entry = orjson.loads(content)
    except ValueError:
        return None, "it is no JSON"
    return (entry, "") if isinstance(entry, dict) else (None, "it is no entry")


def _read(entry: dict[str, Any]) -> Answered:
    """Return the answer of an entry; ValueError where it is not what its hash says."""
    try:
        packed, size = base64.b64decode(entry["body"]), int(entry["size"])
        if not 0 <= size <= len(packed) * _MOST_PACKED:
            raise ValueError(f"{len(packed)} bytes cannot become {size}")
        body = _ZSTD.decompress(packed, decompressed_size=size, asbytes=True)
        if entry["form"] == "arrow":
            frame = pl.read_ipc_stream(io.BytesIO(body))
            if fingerprint(frame) != entry["hash"]:
                raise ValueError("the frame is not the one that was recorded")
            return frame
        if hashlib.sha256(body).hexdigest() != entry["hash"]:
            raise ValueError("the answer is not the one that was recorded")
        said = orjson.loads(body)
        return Usage(**said) if entry["form"] == "usage" else list(said)
    except (KeyError, TypeError, pa.ArrowException, pl.exceptions.PolarsError, OSError, SystemError) as error:
        raise ValueError(str(error)) from None


def _listed(number: int, entry: dict[str, Any]) -> TapeEntry:
    """Return the manifest of an entry; ValueError where it lacks what one says."""
    try:
        datetime.fromisoformat(entry["at"])
        ask, told = dict(entry["ask"]), dict(entry["told"])
        # Of a frame that a method makes of its answer, what the study got.
        got = {"rows": entry["rows"], "hash": entry["hash"]} | dict(told.get("returned", {}))
        return TapeEntry(number, ask, entry["at"], got["rows"], str(got["hash"]), told)
    except (KeyError, TypeError) as error:
        raise ValueError(f"it lacks {error}") from None


def entries(path: str | os.PathLike[str]) -> list[TapeEntry]:
    """Return the manifest of a tape: one entry per answer, in the order of recording.

    Raises
    ------
    TapeError
        If it cannot be read.
    """
    return [one for one in manifest(path) if isinstance(one, TapeEntry)]


def manifest(path: str | os.PathLike[str]) -> Iterator[TapeEntry | TapeError]:
    """Give the entries of a tape, and in the place of each that is damaged what is wrong with it.

    What an answer says is not looked into; `verify` does.

    Raises
    ------
    TapeError
        If it cannot be read.
    """
    path = Path(path)
    for number, _, line in _lines(path):
        entry, trouble = _checked(line)
        if entry is None and number:
            yield _damaged(path, number, trouble)
        elif entry is not None and "ask" in entry:
            try:
                yield _listed(number, entry)
            except ValueError as error:
                yield _damaged(path, number, str(error))


def _wrong_at_the_end(entry: dict[str, Any], ended: int, has: int) -> Iterator[str]:
    if ended != has:
        yield f"the tape was recorded with {counted(ended, 'entry', 'entries')} and has {has:,}"
    if failed := entry.get("failed"):
        yield f"the tape is not complete: {printable(str(failed))} ended the study while it was recorded"


def verify(path: str | os.PathLike[str]) -> list[str]:
    """Return what is wrong with a tape, entry by entry; nothing where it is whole and as it was recorded.

    Raises
    ------
    TapeError
        If it cannot be read.
    """
    wrong: list[str] = []
    before: str | None = ""
    ended: int | None = None
    number = -1
    for number, _, line in _lines(Path(path)):
        name = f"entry {number}" if number else "the head"
        entry, trouble = _checked(line)
        if ended is not None:
            wrong.append(f"{name} stands after the end of the tape")
        if entry is None:
            wrong.append(f"{name} is damaged: {trouble}")
            before = None
            continue
        if before is not None and entry.get("before") != before:
            wrong.append(f"{name} does not follow the one before it: an entry was moved, added or left out")
        before = line[len(_OPENING) : len(_OPENING) + _DIGEST].decode("ascii")
        if "ask" in entry:
            if entry.get("number") != number:
                wrong.append(f"{name} was recorded as {entry.get('number')}")
            try:
                _read(entry)
                _listed(number, entry)
            except ValueError as error:
                wrong.append(f"{name} is damaged: {error}")
        elif "end" in entry:
            ended = entry["end"] if isinstance(entry["end"], int) else -1
            wrong += _wrong_at_the_end(entry, ended, number - 1)
        elif number or entry.get("tape") != _FORMAT:
            wrong.append(f"{name} is of another kind than a tape of format {_FORMAT} has")
    if number < 0:
        wrong.append("the tape is empty")
    elif ended is None:
        wrong.append("the tape was not finished: the study was ended before it was, or its end was cut off")
    return wrong
