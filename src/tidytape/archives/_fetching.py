"""Fetch one file of an archive: resume where it broke off, wait where the server asks for it, give up with a reason."""

from __future__ import annotations

import email.utils
import hashlib
import re
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

import httpx
from tenacity import RetryCallState, Retrying, retry_if_exception_type

from tidytape._version import __version__
from tidytape.errors import TransportError

R = TypeVar("R")

_ATTEMPTS = 6
"""Largest number of requests in a row that bring nothing."""
_FEW_ATTEMPTS = 2
"""The same where no connection was ever made."""
_PACE = 0.04
"""Least time between the beginnings of two requests. [s]"""
_FIRST_PAUSE = 0.5
"""Pause after the first request that brings nothing; it doubles with each further one. [s]"""
_LONGEST_PAUSE = 120.0
"""Longest pause between two requests. [s]"""
_MOST_WITHOUT_LENGTH = 2**32
"""Largest size of a file whose length the server does not tell. [bytes]"""
_TRANSIENT = frozenset({408, 425, 429, 500, 502, 503, 504})
_ABSENT = frozenset({404, 410})
_RANGE = re.compile(r"bytes (\d+)-\d+/(\d+)")
_SHA256 = re.compile(r"(?<![0-9a-zA-Z])([0-9a-fA-F]{64})(?![0-9a-zA-Z])(?:[ \t]+\*?([^\s*]+))?")
_MOST_OF_CHECKSUM = 1_000
"""Most that is read of a checksum. [bytes]"""


class FileFailedError(Exception):
    """A file that cannot be fetched; the message says why."""


class _TryAgainError(Exception):
    """An attempt that brought nothing. ``pause`` is what the server asks for. [s]"""

    def __init__(self, reason: str, pause: float | None = None, *, is_connected: bool = True) -> None:
        super().__init__(reason)
        self.pause = pause
        self.is_connected = is_connected


class StoppedError(Exception):
    """The caller wants no more files."""


@dataclass(frozen=True, slots=True)
class FetchedFile:
    """A file that lies on this machine.

    Attributes
    ----------
    path : Path
        Where.
    bytes : int
        Its size.
    sha256 : str
        Of its content.
    """

    path: Path
    bytes: int
    sha256: str


class Fetcher:
    """Fetches files, from several threads at once.

    Parameters
    ----------
    connections : int
        Most connections at once.
    stop : threading.Event
        Ends what runs, as soon as it is set.
    sends_parts : bool
        Whether the server tells the length of a file, and sends the rest of one.
    """

    def __init__(self, connections: int, stop: threading.Event, *, sends_parts: bool = True) -> None:
        self._stop = stop
        self._sends_parts = sends_parts
        self._has_connected = False
        self._next_request = 0.0
        self._pace = threading.Lock()
        self._client = httpx.Client(
            follow_redirects=True,
            timeout=httpx.Timeout(15.0),
            limits=httpx.Limits(max_connections=connections),
            headers={"User-Agent": f"tidytape/{__version__}", "Accept-Encoding": "identity"},
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()

    def length(self, address: str) -> int | None:
        """Return the length of a file, 0 if it is absent; None if the server does not tell. [bytes]"""
        if not self._sends_parts:
            return None

        def ask() -> int | None:
            response = self._client.head(address)
            _require_answer(response)
            length = response.headers.get("Content-Length")
            return 0 if not response.is_success else None if length is None else int(length)

        return self._retried(address, ask)

    def checksum(self, address: str, name: str) -> str | None:
        """Return the SHA-256 of a file that an address holds, in lower case.

        Returns
        -------
        str or None
            None if there is nothing, and empty if what is there has none, or only those of other files.
        """

        def ask() -> str | None:
            with self._client.stream("GET", address) as response:
                _require_answer(response)
                beginning = b""
                for chunk in response.iter_bytes():
                    self._require_running()
                    beginning += chunk
                    if len(beginning) > _MOST_OF_CHECKSUM:
                        break
            if not response.is_success:
                return None
            found = _SHA256.findall(beginning[:_MOST_OF_CHECKSUM].decode("ascii", "replace"))
            digests = [digest for digest, named in found if named in {"", name}]
            return str(digests[0]).lower() if digests else ""

        return self._retried(address, ask)

    def file(self, address: str, path: Path, *, is_verified: bool) -> FetchedFile | None:
        """Fetch a file, from where an earlier attempt broke off.

        Parameters
        ----------
        address : str
            Its address.
        path : Path
            Where it will lie. Until it is whole, its beginning lies beside it, as ``path.part``.
        is_verified : bool
            Whether the caller compares a checksum. Without one, a file is only resumed if the server tells that it is
            still the same.

        Returns
        -------
        FetchedFile or None
            None if the archive does not have it.

        Raises
        ------
        FileFailedError
            If the server refuses it, or goes on failing.
        TransportError
            If no connection can be made.
        StoppedError
            If the caller stopped.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and not is_verified and self.length(address) != path.stat().st_size:
            path.unlink()  # an earlier run left it
        if not path.exists():
            part = _Part(path, is_verified=is_verified, goes_on=self._sends_parts)
            while not part.is_whole:
                if not self._retried(address, lambda: self._read_on(address, part)):
                    return None
            part.finish()
        with path.open("rb") as content:
            return FetchedFile(path, path.stat().st_size, hashlib.file_digest(content, "sha256").hexdigest())

    def _read_on(self, address: str, part: _Part) -> bool:
        """Read as much of a file as the server sends; return whether it has the file."""
        most = part.most
        try:
            with self._client.stream("GET", address, headers=part.headers()) as response:
                if response.status_code in _ABSENT:
                    return False
                if response.status_code == httpx.codes.REQUESTED_RANGE_NOT_SATISFIABLE:
                    part.require_all(response)
                    return True
                _require_answer(response)
                with part.opened(response) as add:
                    for chunk in response.iter_raw():
                        self._require_running()
                        add(chunk)
        except httpx.TransportError as error:
            if part.most == most:
                raise _broken(error) from error
        if part.most == most and not part.is_whole:
            raise _TryAgainError("the server sends nothing more of it")
        return True  # if it broke off, the caller asks for the rest

    def _retried(self, address: str, ask: Callable[[], R]) -> R:
        def attempt() -> R:
            self._keep_pace()
            self._require_running()
            try:
                return ask()
            except httpx.TransportError as error:
                raise _broken(error) from error
            except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as error:
                raise FileFailedError(_named(error)) from error

        retrying = Retrying(
            retry=retry_if_exception_type(_TryAgainError),
            stop=self._is_enough,
            wait=_pause,
            sleep=self._sleep,
            reraise=True,
        )
        try:
            answer = retrying(attempt)
        except _TryAgainError as error:
            if not self._has_connected:
                raise TransportError(f"no connection to {address}: {error}", url=address) from error
            raise FileFailedError(f"{error}, {retrying.statistics['attempt_number']} times") from error
        self._has_connected = True
        return answer

    def _is_enough(self, state: RetryCallState) -> bool:
        """Return whether to give up: soon where no connection was ever made, because there may be no network."""
        error = state.outcome.exception() if state.outcome is not None else None
        self._has_connected |= isinstance(error, _TryAgainError) and error.is_connected
        return state.attempt_number >= (_ATTEMPTS if self._has_connected else _FEW_ATTEMPTS)

    def _keep_pace(self) -> None:
        """Wait so that requests, of all threads together, begin some time apart."""
        with self._pace:
            begins = max(self._next_request, time.monotonic())
            self._next_request = begins + _PACE
        self._stop.wait(begins - time.monotonic())

    def _sleep(self, seconds: float) -> None:
        self._stop.wait(seconds)

    def _require_running(self) -> None:
        if self._stop.is_set():
            raise StoppedError


class _Part:
    """The beginning of a file, and what tells whether the rest would be of the same file."""

    def __init__(self, path: Path, *, is_verified: bool, goes_on: bool) -> None:
        self._path = path
        self._goes_on = goes_on
        self._part = path.with_name(f"{path.name}.part")
        self._mark = path.with_name(f"{path.name}.mark")
        self._is_verified = is_verified
        self._length: int | None = None
        self.is_whole = False
        self.most = self.size
        """The most that was there at any time. [bytes]"""

    @property
    def size(self) -> int:
        """What is there. [bytes]"""
        return self._part.stat().st_size if self._part.exists() else 0

    def headers(self) -> dict[str, str]:
        """Return the headers that ask for the rest."""
        mark = self._mark.read_text() if self._mark.exists() else ""
        if not self._goes_on or not self.size or not (mark or self._is_verified):
            return {}
        return {"Range": f"bytes={self.size}-"} | ({"If-Range": mark} if mark else {})

    @contextmanager
    def opened(self, response: httpx.Response) -> Iterator[Callable[[bytes], None]]:
        """Yield a function that puts a piece of a response behind what is there; without a range it begins anew."""
        if response.status_code == httpx.codes.PARTIAL_CONTENT:
            found = _RANGE.match(response.headers.get("Content-Range", ""))
            if found is None or int(found[1]) != self.size:
                self.clear()
                raise _TryAgainError("the server sends another part of the file than was asked for")
            self._length = int(found[2])
        else:
            self.clear()
            self._mark.write_text(_validator(response))
            length = response.headers.get("Content-Length")
            self._length = None if length is None else int(length)
        if self._length is not None and self._length - self.size > shutil.disk_usage(self._path.parent).free:
            raise FileFailedError(f"{self._length:,} bytes do not fit on the disk of {self._path.parent}")
        with self._part.open("ab") as file:

            def add(chunk: bytes) -> None:
                file.write(chunk)
                self.most = max(self.most, file.tell())
                if file.tell() > (_MOST_WITHOUT_LENGTH if self._length is None else self._length):
                    raise FileFailedError(f"the server sends more than {file.tell():,} bytes")

            yield add
        self.is_whole = self._length in {None, self.size}

    def require_all(self, response: httpx.Response) -> None:
        """Begin anew unless a server that has no more of the file says that all of it is there."""
        self.is_whole = response.headers.get("Content-Range") == f"bytes */{self.size}"
        if not self.is_whole:
            self.clear()
            raise _TryAgainError("the server has less of the file than before")

    def clear(self) -> None:
        """Forget what is there."""
        self._mark.unlink(missing_ok=True)
        self._part.write_bytes(b"")

    def finish(self) -> None:
        """Give the file its name."""
        self._mark.unlink(missing_ok=True)
        self._part.replace(self._path)


def _require_answer(response: httpx.Response) -> None:
    """Raise unless a response has what was asked for, or says that there is no such file."""
    status = response.status_code
    if status in _TRANSIENT:
        raise _TryAgainError(f"the server answers {status}", _asked_pause(response))
    if not response.is_success and status not in _ABSENT:
        raise FileFailedError(f"the server refuses it with {status}")


def _asked_pause(response: httpx.Response) -> float | None:
    """Return the pause that a response asks for, as seconds or as a date. [s]"""
    text = response.headers.get("Retry-After", "")
    with suppress(ValueError):
        return max(0.0, float(text))
    with suppress(ValueError, TypeError):
        return max(0.0, email.utils.parsedate_to_datetime(text).timestamp() - time.time())
    return None


def _pause(state: RetryCallState) -> float:
    """Return the pause before the next attempt: the server's, else one that doubles. [s]"""
    error = state.outcome.exception() if state.outcome is not None else None
    asked = error.pause if isinstance(error, _TryAgainError) else None
    return min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** (state.attempt_number - 1) if asked is None else asked)


def _broken(error: httpx.TransportError) -> _TryAgainError:
    is_connected = not isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.ProxyError)
    return _TryAgainError(_named(error), is_connected=is_connected)


def _named(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".rstrip(": ")


def _validator(response: httpx.Response) -> str:
    """Return what an ``If-Range`` may hold: a strong entity tag, else the time of the last change."""
    tag = str(response.headers.get("ETag", ""))
    mark = tag if tag.startswith('"') else str(response.headers.get("Last-Modified", ""))
    return mark if mark.isascii() else ""
