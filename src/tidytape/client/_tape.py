"""A tape: every answer of a study in a folder, so that it comes out the same next year, anywhere, without a network.

::

    study.tape/
        manifest.jsonl      a line per answer, added when it is recorded
        1.arrow             a frame, as an Arrow file
        2.json              a list of names, or a quota

A line of the manifest is ``{"sha256":"…","entry":{…}}``, where the hash is of the entries of all lines so far, this one
included: a line that was changed, moved, added or left out does not have the hash it should have, and nothing after it
is believed.
The first line says what recorded the tape and when, the last that it is whole. Between them, a line says of an answer
what was asked, when, what it cost, in which file it is, and the hash of that file. A study that is killed leaves a
tape without its last line, and all answers that it had.
"""

from __future__ import annotations

import base64
import hashlib
import io
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any

import httpx
import orjson
import polars as pl
import pyarrow as pa

from tidytape._version import __version__
from tidytape.client._budget import Usage
from tidytape.client._commit import commit
from tidytape.client._display import described
from tidytape.client._metadata import fingerprint
from tidytape.client._steps import printable
from tidytape.errors import QueryError, TapeError

_FORMAT = 2
_OPENING, _BETWEEN, _CLOSING = b'{"sha256":"', b'","entry":', b"}\n"
CONTENT = slice(len(_OPENING) + 64 + len(_BETWEEN), -len(_CLOSING))
"""Where the entry lies in a line."""
MANIFEST = "manifest.jsonl"

Ask = Mapping[str, Any]
"""What is asked, as JSON can say it: the same for the same question."""

Answered = pl.DataFrame | list[str] | Usage


@dataclass(frozen=True, slots=True)
class TapeEntry:
    """One answer of a tape.

    Attributes
    ----------
    number : int
        Counted from 1.
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
    read : callable
        Reads the answer: a frame, names or a quota. Raises TapeError if it is not what was recorded.
    """

    number: int
    ask: dict[str, Any]
    at: str
    rows: int | None
    hash: str
    told: dict[str, Any]
    read: Callable[[], Answered] = field(repr=False, compare=False)


class Tape:
    """What a client records on or replays from. This base class does neither."""

    replayed: Path | None = None
    """The folder that a client replays from."""

    def found(self, ask: Ask, *, moves_on: bool = True) -> tuple[Answered, TapeEntry] | None:
        """Return the recorded answer to a question, or None if the client must ask the service."""
        return None

    def has(self, ask: Ask) -> bool:
        """Return whether the tape answers a question, so that nothing is sent for it."""
        return False

    def add(self, ask: Ask, answered: Answered, told: Mapping[str, Any] | None = None) -> None:
        """Keep an answer."""


NO_TAPE = Tape()
"""The tape of a client that neither records nor replays."""


# --- writing --------------------------------------------------------------------------------------------------------


class Recorder(Tape):
    """Writes a tape: a context manager, whose end makes the tape whole.

    Parameters
    ----------
    path : path
        The tape.
    base_url : str
        The service that is asked.
    overwrite : bool
        Whether a tape that is there is replaced.
    about : mapping, optional
        Facts of the study, such as a seed, as JSON can hold them. They stand in the first line, beside the commit of
        the study's code.

    Raises
    ------
    TapeError
        If there is one, or something else, or it cannot be written.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        base_url: str,
        overwrite: bool = False,
        about: Mapping[str, Any] | None = None,
    ) -> None:
        try:
            study = {"commit": commit(), "about": orjson.loads(orjson.dumps(dict(about or {})))}
        except (TypeError, ValueError):
            raise QueryError(
                "about", got=about, expected="a mapping of names to what JSON can hold"
            ) from None
        self.path = Path(path)
        self._lock = threading.Lock()
        self._digest = hashlib.sha256()
        self._count = 0
        if overwrite:
            _remove(self.path)
        try:
            self.path.mkdir(exist_ok=overwrite)
            self._manifest = (self.path / MANIFEST).open("xb", buffering=0)
        except FileExistsError:
            raise TapeError(
                f"{self.path} is there already; ``overwrite=True`` records it anew", path=str(self.path)
            ) from None
        except (OSError, ValueError) as error:  # ValueError: a path that holds a null
            raise _unwritable(self.path, error) from None
        versions = {"tidytape": __version__, "polars": pl.__version__, "python": sys.version.split()[0]}
        self._put(
            {"tape": _FORMAT, "service": base_url, "created": _now(), "versions": versions, "study": study}
        )

    def add(self, ask: Ask, answered: Answered, told: Mapping[str, Any] | None = None) -> None:
        """Record an answer."""
        suffix, content, hashed = _written(answered)
        with self._lock:
            if self._manifest.closed:
                return  # asked while it was recorded, answered after
            self._require_own()
            number = self._count + 1
            file = f"{number}.{suffix}"
            try:
                (self.path / file).write_bytes(content)
            except OSError as error:
                raise _unwritable(self.path, error) from None
            rows = answered.height if isinstance(answered, pl.DataFrame) else None
            entry = {"number": number, "ask": ask, "at": _now(), "told": told or {}, "rows": rows}
            self._put(entry | {"hash": hashed, "file": file, "sha256": hashlib.sha256(content).hexdigest()})
            self._count = number

    def _require_own(self) -> None:
        """Raise TapeError if the tape is another's by now, whose files would be written over."""
        with suppress(OSError):
            if os.path.samestat(os.fstat(self._manifest.fileno()), (self.path / MANIFEST).stat()):
                return
        raise TapeError(f"{self.path} was removed or replaced while it was recorded", path=str(self.path))

    def _put(self, entry: dict[str, Any]) -> None:
        content, digest = orjson.dumps(entry), self._digest.copy()
        digest.update(content)
        at, line = self._manifest.tell(), memoryview(framed(digest.hexdigest(), content))
        try:
            while line:
                line = line[self._manifest.write(line) :]
            self._digest = digest
        except BaseException as error:  # Ctrl-C too
            self._manifest.truncate(at)  # half a line would take the next one along
            self._manifest.seek(at)
            if isinstance(error, OSError):
                raise _unwritable(self.path, error) from None
            raise

    def close(self, *, failed: str | None = None) -> None:
        """Make it whole, or say which error ended the study before its end."""
        with self._lock:
            if not self._manifest.closed:
                with self._manifest:  # closed whatever happens
                    if failed is None:
                        self._require_own()
                    self._put({"end": self._count, "at": _now()} | ({"failed": failed} if failed else {}))
                    os.fsync(self._manifest.fileno())

    def __enter__(self) -> Recorder:
        """Return it."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Finish the tape. If the study failed, the tape has its answers and the name of the error."""
        self.close(failed=None if kind is None else kind.__name__)


def framed(digest: str, content: bytes) -> bytes:
    """Return the line of an entry."""
    return b"".join((_OPENING, digest.encode(), _BETWEEN, content, _CLOSING))


def _remove(path: Path) -> None:
    """Remove a tape, and nothing that is not of it; raise TapeError where something else is there."""
    if not path.exists():
        return
    if path.is_dir() and not any(file.stat().st_size or file.name != MANIFEST for file in path.iterdir()):
        (path / MANIFEST).unlink(missing_ok=True)  # a recording that ended before its first line
        return
    contents = opened(path)
    if path.is_file():
        path.unlink()
        return
    for entry in contents.answers:
        for suffix in ("arrow", "json"):
            (path / f"{entry.number}.{suffix}").unlink(missing_ok=True)
    (path / MANIFEST).unlink()
    with suppress(OSError):
        path.rmdir()  # it stays where other files are in it


def _unwritable(path: Path, error: OSError | ValueError) -> TapeError:
    reason = getattr(error, "strerror", None) or error
    return TapeError(f"{printable(str(path))} cannot be written: {reason}", path=str(path))


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _written(answered: Answered) -> tuple[str, bytes, str]:
    """Return the suffix and the content of an answer's file, and the answer's hash."""
    if isinstance(answered, pl.DataFrame):
        file = io.BytesIO()
        answered.write_ipc(file, compression="zstd")
        return "arrow", file.getvalue(), fingerprint(answered)
    body = orjson.dumps(asdict(answered) if isinstance(answered, Usage) else answered)
    return "json", body, hashlib.sha256(body).hexdigest()


# --- reading --------------------------------------------------------------------------------------------------------


def _refuse(request: httpx.Request) -> httpx.Response:
    raise TapeError(f"{request.url.path}: a tape is replayed, and nothing is sent")


NO_NETWORK = httpx.MockTransport(_refuse)
"""What carries the requests of a client that replays: nowhere."""


@dataclass(slots=True)
class TapeContents:
    """The answers of a tape, up to the first line that was changed."""

    service: str
    head: dict[str, Any] = field(default_factory=dict)
    """The first line: when the tape was begun, by which versions, of which study."""
    answers: list[TapeEntry] = field(default_factory=list)
    broken: str | None = (
        "the tape was not finished: the study was ended before it was, or its end was cut off"
    )
    """Why nobody knows what came after the last answer; None where the tape ends as it was recorded."""
    failed: str | None = None
    """The error that ended the study."""


class Replayer(Tape):
    """Gives the answers of a tape, in the order in which they were recorded; the last of a question for ever.

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
        self.replayed = self.path = Path(path)
        self._lock = threading.Lock()
        contents = opened(self.path)
        self.base_url, self._broken = contents.service, contents.broken
        self._recorded: dict[bytes, list[TapeEntry]] = {}
        self._turns: dict[bytes, int] = {}
        for entry in contents.answers:
            self._recorded.setdefault(_key(entry.ask), []).append(entry)

    def found(self, ask: Ask, *, moves_on: bool = True) -> tuple[Answered, TapeEntry]:
        """Return the answer to a question, and its entry; the next one the next time, if it moves on.

        Raises
        ------
        TapeError
            If the tape has none, or it is not what was recorded.
        """
        self.has(ask)
        key = _key(ask)
        with self._lock:
            kept, turn = self._recorded[key], self._turns.get(key, 0)
            if turn == len(kept) and self._broken:
                raise TapeError(
                    f"{self.path} has no more answers to {described_ask(ask)}, and may have had some: {self._broken}",
                    path=str(self.path),
                    entries=(kept[-1].number + 1,),
                )
            turn = min(turn, len(kept) - 1)
            self._turns[key] = turn + moves_on
        return kept[turn].read(), kept[turn]

    def has(self, ask: Ask) -> bool:
        """Return True where the tape has an answer to a question, and do not give it.

        Raises
        ------
        TapeError
            If the tape has none.
        """
        if _key(ask) in self._recorded:
            return True
        why = self._broken or "it was not asked when the tape was recorded, or it failed then"
        near = self._nearest(ask)
        raise TapeError(
            f"{self.path} has no answer to {described_ask(ask)}; {why}"
            + (f"; the nearest it has is {near}" if near else ""),
            path=str(self.path),
        )

    def _nearest(self, ask: Ask) -> str | None:
        """Describe the entry that differs least from a question: of the same kind, in the fewest parameters."""
        asked = _facts(ask)
        alike = [kept[0] for kept in self._recorded.values() if kept[0].ask.get("ask") == ask.get("ask")]
        if not alike:
            return None

        def likeness(entry: TapeEntry) -> tuple[bool, int, int, int]:
            facts = _facts(entry.ask)
            of_one_type = {one for one in facts ^ asked if one[:1] == ("type",)} == set()
            return of_one_type, len(asked & facts), -len(facts ^ asked), -entry.number

        best = max(alike, key=likeness)
        return f"entry {best.number}, {described_ask(best.ask)}"


def described_ask(ask: Ask, method: str | None = None) -> str:
    """Return a question as text, with times in ISO 8601. ``method`` names one that has no data type of its own.

    Examples
    --------
    >>> described_ask({"ask": "coins", "params": [["exchange", "X"]]})
    'coins exchange=X'
    >>> described_ask({"ask": "points", "params": [["type", "TRADE"], ["from", "0"], ["period", "60"]]})
    'TRADE, 1970-01-01T00:00:00Z to 1970-01-01T00:01:00Z'
    """
    try:
        text = described(ask.get("params") or [])
    except (ValueError, TypeError, OverflowError, OSError):  # a tape may hold anything
        text = orjson.dumps(ask.get("params")).decode()
    name = ask.get("ask")
    if method:
        name, text = method, text.partition(" ")[2]
    return printable(text if name == "points" else f"{name} {text}".strip())


def _facts(ask: Ask) -> set[tuple[str, ...]]:
    return {tuple(map(str, one)) for one in ask.get("params") or ()}


def _key(ask: Ask) -> bytes:
    return orjson.dumps(ask, option=orjson.OPT_SORT_KEYS)


def entries(path: str | os.PathLike[str]) -> list[TapeEntry]:
    """Return one entry per answer of a tape, in the order of recording, up to the first damaged line.

    Raises
    ------
    TapeError
        If it cannot be read.
    """
    return opened(Path(path)).answers


def verify(path: str | os.PathLike[str]) -> list[str]:
    """Return a list of what is wrong with a tape; it is empty if the tape is whole and unchanged.

    Raises
    ------
    TapeError
        If it cannot be read.
    """
    contents = opened(Path(path))
    wrong = []
    for entry in contents.answers:
        try:
            entry.read()
        except TapeError as error:
            wrong.append(str(error))
    if contents.failed:
        ended = printable(str(contents.failed))
        wrong.append(f"{path}: the tape is not complete: {ended} ended the study while it was recorded")
    return wrong + ([f"{path}: {contents.broken}"] if contents.broken else [])


def opened(path: Path) -> TapeContents:
    """Read the contents of a tape.

    Raises
    ------
    TapeError
        If it cannot be read, or is no tape.
    """
    try:
        return _contents(path, _lines_of_file(path) if path.is_file() else _lines_of(path))
    except OSError as error:
        why = f"the folder has no {MANIFEST}" if path.is_dir() else error.strerror
        raise TapeError(f"{path} cannot be read: {why}", path=str(path)) from None
    except (ValueError, TypeError, AttributeError, KeyError):
        # Lines that were recorded are none of these: whoever wrote it made up a tape.
        raise TapeError(f"{path} is no tape that was recorded", path=str(path)) from None


Line = tuple[dict[str, Any], Callable[[], bytes]] | None
"""An entry, and a function that reads its answer; None where a line is not as it was recorded."""


def _contents(path: Path, lines: Iterator[Line]) -> TapeContents:
    head = next(lines, None)
    if head is None or head[0].get("tape") not in {1, _FORMAT}:
        raise TapeError(f"{path} is no tape, or its head is damaged", path=str(path))
    _require_readable_head(head[0])
    contents = TapeContents(str(head[0].get("service")), head[0])
    for number, line in enumerate(lines, 1):
        if contents.broken is None or line is None or not _is_entry(line[0], number):
            contents.broken = f"it is not as it was recorded from entry {number} on"
            break
        entry, read = line
        if "end" in entry:
            contents.broken, contents.failed = None, entry.get("failed")
            continue
        # Of a frame that a method makes of its answer, what the study got.
        got = {"rows": entry["rows"], "hash": entry["hash"]} | entry["told"].get("returned", {})
        _require_readable(entry, got["rows"], got["hash"])
        answer = partial(_read, path, entry, read)
        contents.answers.append(
            TapeEntry(number, entry["ask"], entry["at"], got["rows"], got["hash"], entry["told"], answer)
        )
    return contents


def _is_entry(entry: dict[str, Any], number: int) -> bool:
    if "end" in entry:
        return bool(entry["end"] == number - 1)
    kinds = {"number": int, "ask": dict, "at": str, "hash": str, "told": dict}
    is_whole = "rows" in entry and all(isinstance(entry.get(name), kind) for name, kind in kinds.items())
    return is_whole and entry["number"] == number


def _require_readable_head(head: Mapping[str, Any]) -> None:
    """Raise TypeError or AttributeError where the facts of a study cannot be read: nothing recorded them."""
    study = head.get("study") or {}
    for facts in (study, head.get("versions") or {}, study.get("about") or {}):
        facts.items()


def _require_readable(entry: Mapping[str, Any], rows: object, digest: object) -> None:
    """Raise ValueError or TypeError where the facts of an answer cannot be read: nothing recorded them."""
    ask, told = entry["ask"], entry["told"]
    datetime.fromisoformat(entry["at"])
    _facts(ask)
    for name, value in ask.get("params") or ():
        hash((name, value))  # which a list has not
    for start, end in told.get("missing", ()):
        int(start), int(end)
    numbers = (rows or 0, told.get("weight", 0), told.get("seconds", 0))
    texts = (digest, ask["ask"])
    if not all(isinstance(one, int | float) for one in numbers) or not all(
        isinstance(one, str) for one in texts
    ):
        raise TypeError


def _lines_of(folder: Path) -> Iterator[Line]:
    """Yield the lines of a manifest, up to the first that was changed."""
    digest = hashlib.sha256()
    with (folder / MANIFEST).open("rb") as manifest:
        for line in manifest:
            content = line[CONTENT]
            digest.update(content)
            if line != framed(digest.hexdigest(), content):
                yield None
                return
            yield orjson.loads(content), partial(_file_of, folder, content)


def _file_of(folder: Path, content: bytes) -> bytes:
    entry = orjson.loads(content)
    read: bytes = (folder / Path(entry["file"]).name).read_bytes()
    if hashlib.sha256(read).hexdigest() != entry["sha256"]:
        raise ValueError("its bytes are not those that were recorded")
    return read


def _read(path: Path, entry: dict[str, Any], read: Callable[[], bytes]) -> Answered:
    """Return an answer, if it is the one that was recorded."""
    try:
        content = read()
        if entry["rows"] is None:
            value = orjson.loads(content)
            return Usage(**value) if isinstance(value, dict) else list(value)
        is_old = entry.get("form") == "arrow"  # a tape of one file keeps a frame as a stream
        read_frame = pl.read_ipc_stream if is_old else pl.read_ipc
        frame = read_frame(io.BytesIO(content))
        if fingerprint(frame) != entry["hash"]:
            raise ValueError("the frame is not the one that was recorded")
        return frame
    except (OSError, ValueError, TypeError, KeyError, pl.exceptions.PolarsError) as error:
        number, why = (
            entry["number"],
            "its file is missing" if isinstance(error, FileNotFoundError) else error,
        )
        raise TapeError(
            f"{path}: entry {number} is damaged: {why}", path=str(path), entries=(number,)
        ) from None


# --- ---


_MOST_PACKED = 100_000
"""No body is smaller than that part of what it was: whoever says so wants memory."""


def _lines_of_file(path: Path) -> Iterator[Line]:
    """Yield the lines of a tape of one file, up to the first that was changed."""
    before, offset = "", 0
    with path.open("rb") as file:
        for line in file:
            content = line[CONTENT]
            digest = hashlib.sha256(content).hexdigest()
            if line != framed(digest, content):
                yield None
                return
            entry = orjson.loads(content)
            entry.pop("body", None)
            follows = entry.get("before") == before
            yield (entry, partial(_body, path, offset, len(line))) if follows else None
            before, offset = digest, offset + len(line)


def _body(path: Path, offset: int, length: int) -> bytes:
    """Return the body of the entry of a line."""
    with path.open("rb") as file:
        file.seek(offset)
        entry: dict[str, Any] = orjson.loads(file.read(length)[CONTENT])
    try:
        packed, size = base64.b64decode(entry["body"]), int(entry["size"])
        if not 0 <= size <= len(packed) * _MOST_PACKED:
            raise ValueError(f"{len(packed)} bytes cannot become {size}")
        return bytes(pa.Codec("zstd").decompress(packed, decompressed_size=size, asbytes=True))
    except (KeyError, TypeError, pa.ArrowException, OSError, SystemError) as error:
        raise ValueError(str(error)) from None
