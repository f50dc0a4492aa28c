"""A tape: every answer of a study in a folder, so that the study gives the same next year, anywhere, without a network.

::

    study.tape/
        manifest.jsonl      a line per answer, added when it is recorded
        1.arrow             a frame, as an Arrow file
        2.json              a list of names, or a quota

A line of the manifest is ``{"sha256":"…","entry":{…}}``. The hash covers the entries of all lines up to this one. So if
a line is changed, moved, added or removed, its hash is wrong, and the reader ignores everything after it.

The first line has the versions and the time of the recording, the last line says that the tape is complete. Each line
between them has the question, time, weight, file and file hash of one answer. If a study is killed, its tape has all
answers until then, and lacks the last line. If an answer cannot be written, its line says why, and has no file. A full
disk has room for such lines, because a recording holds 64 KiB until then.
"""

from __future__ import annotations

import base64
import hashlib
import io
import os
import sys
import tempfile
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
"""The position of the entry in a line."""
MANIFEST = "manifest.jsonl"

Ask = Mapping[str, Any]
"""A question in a form that JSON can hold; equal questions have equal forms."""

Answered = pl.DataFrame | list[str] | Usage


@dataclass(frozen=True, slots=True)
class TapeEntry:
    """One answer of a tape.

    Attributes
    ----------
    number : int
        The number of the entry, from 1.
    ask : dict
        The question.
    at : str
        The time of the answer, as ISO 8601 in UTC.
    rows : int or None
        The number of rows of the frame that the study got; None if the answer is no frame.
    hash : str
        The fingerprint of that frame, or the SHA-256 of another answer.
    facts : dict
        Facts of the fetch, such as requests and weight.
    read : callable
        Reads the answer: a frame, names or a quota. Raises TapeError if the answer is not as it was recorded,
        or is missing.
    missing : str or None
        Why the recording does not have the answer; None if it does.
    """

    number: int
    ask: dict[str, Any]
    at: str
    rows: int | None
    hash: str
    facts: dict[str, Any]
    read: Callable[[], Answered] = field(repr=False, compare=False)
    missing: str | None = None


class Tape:
    """A client's tape, which records or replays answers. This base class does neither."""

    replayed: Path | None = None
    """The folder that a client replays from."""

    def answer_to(self, ask: Ask, *, moves_on: bool = True) -> tuple[Answered, TapeEntry] | None:
        """Return the recorded answer to a question, or None if the client must ask the service."""
        return None

    def has(self, ask: Ask) -> bool:
        """Return whether the tape answers a question, so that the client sends nothing."""
        return False

    def add(self, ask: Ask, answered: Answered, facts: Mapping[str, Any] | None = None) -> None:
        """Record an answer."""


NO_TAPE = Tape()
"""The tape of a client that neither records nor replays."""


# --- writing --------------------------------------------------------------------------------------------------------


class Recorder(Tape):
    """A context manager that writes a tape, and completes the tape when it ends.

    Parameters
    ----------
    path : path
        The folder of the tape.
    base_url : str
        The address of the service.
    overwrite : bool
        Whether to replace an existing tape.
    about : mapping, optional
        Facts of the study, such as a seed, as JSON can hold them. They stand in the first line, beside the commit of
        the study's code.

    Raises
    ------
    TapeError
        If the path exists already, or cannot be written.
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
        self._lines = 0
        self._missing: list[dict[str, Any]] = []  # entries whose lines are still to be written
        if overwrite:
            _remove(self.path)
        versions = {"tidytape": __version__, "polars": pl.__version__, "python": sys.version.split()[0]}
        try:
            self.path.mkdir(exist_ok=overwrite)
            self._manifest = (self.path / MANIFEST).open("xb", buffering=0)
            self._put(
                {
                    "tape": _FORMAT,
                    "service": base_url,
                    "created": _now(),
                    "versions": versions,
                    "study": study,
                }
            )
            # It has no name. It is closed when the disk is full, to make room for lines of the manifest.
            self._room = tempfile.TemporaryFile(dir=self.path, buffering=0)  # noqa: SIM115 - closed by `close`
            self._room.write(bytes(1 << 16))
        except FileExistsError:
            raise TapeError(
                f"{self.path} is there already; ``overwrite=True`` records it anew", path=str(self.path)
            ) from None
        except (OSError, ValueError) as error:  # ValueError: a path that holds a null
            raise _unwritable(self.path, error) from None

    def add(self, ask: Ask, answered: Answered, facts: Mapping[str, Any] | None = None) -> None:
        """Record an answer."""
        suffix, content, digest = _written(answered)
        with self._lock:
            if self._manifest.closed:
                return  # the answer came after the recording had ended
            self._require_own()
            number = self._lines + len(self._missing)
            file = self.path / f"{number}.{suffix}"
            entry = {
                "number": number,
                "ask": ask,
                "at": _now(),
                "told": facts or {},
                "rows": answered.height if isinstance(answered, pl.DataFrame) else None,
                "hash": digest,
                "file": file.name,
                "sha256": hashlib.sha256(content).hexdigest(),
            }
            try:
                file.write_bytes(content)
                self._put(entry)
            except OSError as error:
                self._missing.append(entry | {"missing": str(error.strerror or error)})
                self._room.close()
                with suppress(OSError):  # else the line is written before the next one
                    file.unlink(missing_ok=True)
                    self._put()
                raise _unwritable(self.path, error) from None

    def _require_own(self) -> None:
        """Raise TapeError if another recording has replaced the tape; this one would overwrite its files."""
        with suppress(OSError):
            if os.path.samestat(os.fstat(self._manifest.fileno()), (self.path / MANIFEST).stat()):
                return
        raise TapeError(f"{self.path} was removed or replaced while it was recorded", path=str(self.path))

    def _put(self, *entries: dict[str, Any]) -> None:
        """Write the lines of the missing answers and of some entries: all of them, or none if it fails."""
        digest, at, lines = self._digest.copy(), self._manifest.tell(), b""
        for content in map(orjson.dumps, (*self._missing, *entries)):
            digest.update(content)
            lines += framed(digest.hexdigest(), content)
        try:
            while lines:
                lines = lines[self._manifest.write(lines) :]
            self._lines, self._missing, self._digest = (
                self._lines + len((*self._missing, *entries)),
                [],
                digest,
            )
        except BaseException:  # Ctrl-C too
            self._manifest.truncate(at)  # after half a line the next line could not be read
            self._manifest.seek(at)
            raise

    def close(self, *, failed: str | None = None) -> None:
        """Write the last line, which says that the tape is complete, or names the error that ended the study."""
        with self._lock:
            if not self._manifest.closed:
                with self._manifest:  # closed whatever happens
                    self._room.close()
                    if failed is None:
                        self._require_own()
                    try:
                        self._put(
                            {"end": self._lines + len(self._missing) - 1, "at": _now()}
                            | ({"failed": failed} if failed else {})
                        )
                        os.fsync(self._manifest.fileno())
                    except OSError as error:
                        raise _unwritable(self.path, error) from None

    def __enter__(self) -> Recorder:
        """Return the recorder."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Finish the tape. If the study failed, the tape has its answers and the name of the error."""
        self.close(failed=None if kind is None else kind.__name__)


def framed(digest: str, content: bytes) -> bytes:
    """Return the line of the manifest for an entry."""
    return b"".join((_OPENING, digest.encode(), _BETWEEN, content, _CLOSING))


def _remove(path: Path) -> None:
    """Remove the files of a tape, and no others; raise TapeError if the path is no tape."""
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
        path.rmdir()  # fails, and the folder stays, if it has other files


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
"""The transport of a client that replays a tape; it refuses every request."""


@dataclass(slots=True)
class TapeContents:
    """The answers of a tape, up to the first line that was changed."""

    service: str
    head: dict[str, Any] = field(default_factory=dict)
    """The first line: when the recording began, with which versions, and of which study."""
    answers: list[TapeEntry] = field(default_factory=list)
    broken: str | None = (
        "the tape was not finished: the study was ended before it was, or its end was cut off"
    )
    """Why the tape may lack answers after the last one; None if it ends as it was recorded."""
    failed: str | None = None
    """The name of the error that ended the study."""


class Replayer(Tape):
    """Replays a tape: the answers to a question come in the order of recording, and the last one comes again and again.

    Parameters
    ----------
    path : path
        The tape.

    Raises
    ------
    TapeError
        If the tape cannot be read, or its first line is not the first line of a tape.
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

    def answer_to(self, ask: Ask, *, moves_on: bool = True) -> tuple[Answered, TapeEntry]:
        """Return the answer to a question, and its entry. With ``moves_on`` the next call returns the next answer.

        Raises
        ------
        TapeError
            If the tape has no answer to the question, or the answer is not as it was recorded.
        """
        self.has(ask)
        key = _key(ask)
        with self._lock:
            recorded, turn = self._recorded[key], self._turns.get(key, 0)
            if turn == len(recorded) and self._broken:
                raise TapeError(
                    f"{self.path} has no more answers to {described_ask(ask)}, and may have had some: {self._broken}",
                    path=str(self.path),
                    entries=(recorded[-1].number + 1,),
                )
            turn = min(turn, len(recorded) - 1)
            self._turns[key] = turn + moves_on
        return recorded[turn].read(), recorded[turn]

    def has(self, ask: Ask) -> bool:
        """Return True if the tape has an answer to a question.

        Raises
        ------
        TapeError
            If the tape has no answer to it.
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
        params = _params(ask)
        firsts = [recorded[0] for recorded in self._recorded.values()]
        of_this_kind = [entry for entry in firsts if entry.ask.get("ask") == ask.get("ask")]
        if not of_this_kind:
            return None

        def likeness(entry: TapeEntry) -> tuple[bool, int, int, int]:
            other = _params(entry.ask)
            has_same_types = all(param[:1] != ("type",) for param in other ^ params)
            return has_same_types, len(params & other), -len(other ^ params), -entry.number

        best = max(of_this_kind, key=likeness)
        return f"entry {best.number}, {described_ask(best.ask)}"


def described_ask(ask: Ask, method: str | None = None) -> str:
    """Return a question as text, with times in ISO 8601. A ``method`` stands in the text instead of the data type.

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


def _params(ask: Ask) -> set[tuple[str, ...]]:
    return {tuple(map(str, param)) for param in ask.get("params") or ()}


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
    """Return a list of the defects of a tape; it is empty if the tape is complete and unchanged.

    Raises
    ------
    TapeError
        If it cannot be read.
    """
    contents = opened(Path(path))
    defects = []
    for entry in contents.answers:
        try:
            entry.read()
        except TapeError as error:
            defects.append(str(error))
    if contents.failed:
        ended = printable(str(contents.failed))
        defects.append(f"{path}: the tape is not complete: {ended} ended the study while it was recorded")
    return defects + ([f"{path}: {contents.broken}"] if contents.broken else [])


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
        # No recording writes such lines, so the tape is forged.
        raise TapeError(f"{path} is no tape that was recorded", path=str(path)) from None


Line = tuple[dict[str, Any], Callable[[], bytes]] | None
"""An entry, and a function that reads its answer; None if the line was changed after the recording."""


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
        # A method may compute its frame from the answer; then the entry has the facts of that frame too.
        frame = {"rows": entry["rows"], "hash": entry["hash"]} | entry["told"].get("returned", {})
        _require_readable(entry, frame["rows"], frame["hash"])
        answer = partial(_read, path, entry, read)
        contents.answers.append(
            TapeEntry(
                number,
                entry["ask"],
                entry["at"],
                frame["rows"],
                frame["hash"],
                entry["told"],
                answer,
                entry.get("missing"),
            )
        )
    return contents


def _is_entry(entry: dict[str, Any], number: int) -> bool:
    if "end" in entry:
        return bool(entry["end"] == number - 1)
    kinds = {"number": int, "ask": dict, "at": str, "hash": str, "told": dict}
    is_complete = "rows" in entry and all(isinstance(entry.get(name), kind) for name, kind in kinds.items())
    return is_complete and entry["number"] == number


def _require_readable_head(head: Mapping[str, Any]) -> None:
    """Raise TypeError or AttributeError if the facts of a study are not what a recording writes."""
    study = head.get("study") or {}
    for facts in (study, head.get("versions") or {}, study.get("about") or {}):
        facts.items()


def _require_readable(entry: Mapping[str, Any], rows: object, digest: object) -> None:
    """Raise ValueError or TypeError if the facts of an answer are not what a recording writes."""
    ask, facts = entry["ask"], entry["told"]
    datetime.fromisoformat(entry["at"])
    _params(ask)
    for name, value in ask.get("params") or ():
        hash((name, value))  # a list has no hash
    for start, end in facts.get("missing", ()):
        int(start), int(end)
    numbers = (rows or 0, facts.get("weight", 0), facts.get("seconds", 0))
    texts = (digest, ask["ask"])
    are_numbers = all(isinstance(number, int | float) for number in numbers)
    if not are_numbers or not all(isinstance(text, str) for text in texts):
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
    """Return an answer; raise TapeError if it is missing, or is not the one that was recorded."""
    try:
        content = read()
        if entry["rows"] is None:
            value = orjson.loads(content)
            return Usage(**value) if isinstance(value, dict) else list(value)
        is_old = (
            entry.get("form") == "arrow"
        )  # a tape of one file has Arrow streams, a folder has Arrow files
        read_frame = pl.read_ipc_stream if is_old else pl.read_ipc
        frame = read_frame(io.BytesIO(content))
        if fingerprint(frame) != entry["hash"]:
            raise ValueError("the frame is not the one that was recorded")
        return frame
    except (OSError, ValueError, TypeError, KeyError, pl.exceptions.PolarsError) as error:
        why = (
            f"is missing ({described_ask(entry['ask'])}): it could not be written: {printable(str(entry['missing']))}"
            if "missing" in entry
            else f"is damaged: {'its file is missing' if isinstance(error, FileNotFoundError) else error}"
        )
        message = f"{path}: entry {entry['number']} {why}"
        raise TapeError(message, path=str(path), entries=(entry["number"],)) from None


# --- tapes of one file, which older releases recorded ---


_MOST_PACKED = 100_000
"""The largest ratio of compression that is believed, so that a forged tape cannot fill the memory."""


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
