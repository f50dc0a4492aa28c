"""Computing: the task, the bytes of its answer, and the simplest way, threads of this process.

Threads and worker processes share what stands here. It loads no web framework.
"""

from __future__ import annotations

import os
import sys
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Generic, Protocol, Self, TypeVar

import anyio
import polars as pl
import pyarrow as pa

from tidytape import aggregate, wire
from tidytape.errors import LakeError
from tidytape.lake import LakeReader
from tidytape.query import PointsQuery
from tidytape.service.answer._engine import Engine
from tidytape.service.answer._plans import PLANS
from tidytape.service.answer._scan import Limits, MarketsByType
from tidytape.times import DAY
from tidytape.wire._arrow import ARROW_MIME, ONCE_MIME
from tidytape.wire._decode import JSON_MIME
from tidytape.wire._encode import encode_all
from tidytape.wire._notes import Note
from tidytape.wire._sessions import row_count

PROTO_MIME = "application/x-protobuf"
"""The media type of an answer as a message PointResponse, for gRPC."""

_AT_ONCE = 8
_LARGE = 256 * 1024  # bytes; a smaller body goes through the pipe

PART = 128 * 1024
"""How much of a body is sent at a time: so much a connection holds that nobody reads, and its buffer. [byte]"""


class SharedBody:
    """A body that another process writes into shared memory.

    A pipe takes longer than making the body did. The memory is a file without a name in any folder, so the system frees
    it when this object or its process ends.

    Attributes
    ----------
    path : str or None
        The path that the other process writes to; None if the system has no such files.
    """

    def __init__(self) -> None:
        self.path = None
        if sys.platform == "linux":
            self._file = os.memfd_create("tidytape")
            weakref.finalize(self, os.close, self._file)
            self.path = f"/proc/{os.getpid()}/fd/{self._file}"

    @property
    def size(self) -> int:
        """Length of the body. [byte]"""
        return os.fstat(self._file).st_size

    def parts(self) -> Iterator[bytes]:
        """Yield the body in parts. [byte]"""
        for start in range(0, self.size, PART):
            yield os.pread(self._file, PART, start)


def in_parts(body: bytes) -> Iterator[bytes]:
    """Yield bytes in the parts that they are sent in. [byte]"""
    for start in range(0, len(body), PART):
        yield body[start : start + PART]


def left_in_memory(body: bytes, path: str | None) -> bytes | None:
    """Write a large body to the path of a `SharedBody` and return None; return a small one, or one it cannot write."""
    if path is None or len(body) < _LARGE:
        return body
    try:
        Path(path).write_bytes(body)
    except OSError:
        return body
    return None


_SMALLEST = 1_024  # bytes; a smaller body is not worth the header
_CODINGS = ("zstd", "gzip")


def compressed(body: bytes, accept_encoding: str) -> tuple[bytes, dict[str, str]]:
    """Compress a body with the best coding that the caller accepts, zstd or gzip at their fastest level.

    Parameters
    ----------
    body : bytes
        The body. [byte]
    accept_encoding : str
        The header ``Accept-Encoding`` of the caller; ``*`` means gzip. Of codings of equal quality zstd wins.

    Returns
    -------
    bytes
        The body, compressed or unchanged. [byte]
    dict of str to str
        ``Content-Encoding``, if it is compressed.

    Examples
    --------
    >>> compressed(b"x" * 5000, "gzip, zstd;q=0.5")[1]["Content-Encoding"]
    'gzip'
    >>> compressed(b"x" * 5000, "identity")[1]
    {}
    """
    accepted = qualities(accept_encoding)
    quality = {
        name: accepted.get(name, accepted.get("*", 0.0) if name == "gzip" else 0.0) for name in _CODINGS
    }
    best = max(quality, key=lambda name: quality[name])
    if len(body) < _SMALLEST or not 0 < quality[best] >= accepted.get("identity", 0.0):
        return body, {}
    # A codec of its own: two threads that compress with one end the process.
    return pa.Codec(best, compression_level=1).compress(body, asbytes=True), {"Content-Encoding": best}


def choices(header: str) -> Iterator[tuple[str, dict[str, str], float]]:
    """Yield each choice that a header such as ``Accept`` names, in lower case, its parameters, and its quality.

    The quality is 0 if it is no number.

    Examples
    --------
    >>> list(choices("text/csv;header=absent;q=0.5, */*"))
    [('text/csv', {'header': 'absent'}, 0.5), ('*/*', {}, 1.0)]
    """
    for choice in header.lower().split(","):
        name, *options = (part.strip() for part in choice.split(";"))
        pairs = (option.partition("=") for option in options)
        parameters = {parameter.strip(): text.strip().strip('"') for parameter, _, text in pairs}
        try:
            quality = float(parameters.pop("q", 1.0))
        except ValueError:
            quality = 0.0
        yield name, parameters, quality


def qualities(header: str) -> dict[str, float]:
    """Return the quality of each choice that a header such as ``Accept`` names, in lower case; 0 if it is no number."""
    return {name: quality for name, _, quality in choices(header)}


def form_accepted(accept: str) -> str:
    """Return the media type of points that a header ``Accept`` asks for.

    Arrow with any quality is preferred to JSON. Of the forms of Arrow the one of higher quality is chosen, of equal
    qualities the one with constants once. Other parameters, and other values, ask for plain Arrow.

    Examples
    --------
    >>> form_accepted("application/vnd.apache.arrow.stream;constants=once, application/json;q=0.9")
    'application/vnd.apache.arrow.stream;constants=once'
    >>> form_accepted("application/vnd.apache.arrow.stream;q=0"), form_accepted("*/*")
    ('application/json', 'application/json')
    """
    forms = {JSON_MIME: 0.0, ARROW_MIME: 0.0, ONCE_MIME: 0.0}
    for name, parameters, quality in choices(accept):
        if name == ARROW_MIME:
            form = ONCE_MIME if parameters.get("constants") == "once" else ARROW_MIME
            forms[form] = max(forms[form], quality)
    return max(forms, key=lambda form: (forms[form], forms[form] > 0 and form == ONCE_MIME))


@dataclass(frozen=True, slots=True)
class Answer:
    """A computed answer.

    Attributes
    ----------
    body : bytes or SharedBody or None
        In the form and the coding of the task; None while another process has it. [byte]
    headers : mapping of str to str
        The headers that say how it is compressed.
    rows : int
        Rows of its frames.
    """

    body: bytes | SharedBody | None
    headers: Mapping[str, str]
    rows: int

    @property
    def size(self) -> int:
        """Length of the body. [byte]"""
        return self.body.size if isinstance(self.body, SharedBody) else len(self.body or b"")

    def parts(self) -> Iterator[bytes]:
        """Yield the body in parts. [byte]"""
        if isinstance(self.body, SharedBody):
            yield from self.body.parts()
        else:
            yield from in_parts(self.body or b"")


A = TypeVar("A", bound=Answer)


@dataclass(slots=True, kw_only=True)
class Task(ABC, Generic[A]):
    """Something to compute for a key: an answer, or a part of a stream. It is pickled for another process.

    Attributes
    ----------
    key : str
        Id of the caller's key; the queue serves keys in turn.
    heavy : bool
        Whether it may not take the last worker, see `tidytape.service.answer._estimate`.
    small : bool
        Whether it is so small for certain that a thread of the service may compute it, which nothing can stop.
    begun : bool
        Whether its computation has begun. A task that is dropped earlier costs the caller nothing.
    """

    key: str = ""
    heavy: bool = False
    small: bool = False
    begun: bool = False

    @abstractmethod
    def computed(self, engine: Engine) -> A:
        """Compute the answer."""

    @abstractmethod
    def for_process(self) -> Self:
        """Return the task as another process gets it."""


@dataclass(slots=True)
class AnswerTask(Task[Answer]):
    """A whole answer to compute.

    Attributes
    ----------
    query : PointsQuery
        The query.
    markets : dict of str to list of Market
        The markets that it selects, by data type.
    form : str
        Media type of the answer.
    coding : str
        The ``Accept-Encoding`` header of the caller.
    lake : LakeReader or None
        The lake at the moment of the request, which everything that it needs is read from; None in another process.
    """

    query: PointsQuery
    markets: MarketsByType
    form: str
    coding: str
    lake: LakeReader | None = None

    def for_process(self) -> Self:
        """Return the task without the lake, which another process opens itself."""
        return replace(self, lake=None)

    def computed(self, engine: Engine) -> Answer:
        """Compute the answer.

        Raises
        ------
        QueryError
            If the rows show that the query cannot be answered.
        """
        if self.lake is not None:
            engine = engine.at(self.lake)
        query, markets = self.query, self.markets
        if (body_and_rows := engine.body(query, markets, form=self.form)) is not None:
            body, rows = body_and_rows
            return Answer(*compressed(body, self.coding), rows)
        frames, notes = engine.answer(query, markets)
        body = _ENCODED[self.form](frames, notes)
        return Answer(*compressed(body, self.coding), sum(row_count(frame) for _, frame in frames))


def warm_up(engine: Engine) -> None:
    """Open the lake and compute a small market profile: the first answer of a process imports libraries meanwhile."""
    with suppress(LakeError):  # the answer to a query says what is wrong with the lake
        engine.lake.now().version()
    trade = dict.fromkeys(("exchange", "raw_symbol", "side"), "BUY") | {
        "timestamp": 20_000 * DAY,
        "sequence": 0,
    }
    trades = pl.DataFrame([trade | {"price": 1.0, "amount": 1.0}])
    functions = (aggregate.tpo, aggregate.tpo_sessions)
    levels, sessions = (function(trades, interval="1d", block_size=1) for function in functions)
    name = next(name for name, plan in PLANS.items() if plan.has_time_blocks)
    wire.encode(wire.nested(levels, sessions, name), name)


class OverloadedError(Exception):
    """Too many tasks wait, or the service is about to end: this task is refused."""


class StoppedError(Exception):
    """The worker ended before it answered: it took too long, or more memory than it may.

    Attributes
    ----------
    too_long : bool
        Whether it took too long.
    """

    def __init__(self, *, too_long: bool) -> None:
        super().__init__("took too long" if too_long else "ended without an answer")
        self.too_long = too_long


class Computing(Protocol):
    """Computes tasks off the event loop."""

    @property
    def limits(self) -> Limits:
        """What one task may take."""

    @property
    def waiting(self) -> int:
        """How many tasks wait."""

    @property
    def ended(self) -> int:
        """How many workers ended before they answered."""

    async def run(self, task: Task[A]) -> A:
        """Return the answer. Cancelling the coroutine drops the task unless its computation has begun."""


def computed(engine: Engine, task: Task[A]) -> A:
    """Compute a task; every way of computing calls this function.

    Raises
    ------
    LakeError
        If an object store does not answer; and what the task raises.
    """
    with engine.lake._reading():
        return task.computed(engine)


Frames = Sequence[tuple[str, pl.DataFrame]]


def _arrow(frames: Frames, notes: Sequence[Note], *, constants_once: bool = False) -> bytes:
    ((name, frame),) = frames  # one Arrow stream has one schema
    return wire.to_arrow(frame, name, notes, constants_once=constants_once)


def _proto(frames: Frames, notes: Sequence[Note]) -> bytes:
    from tidytape.service.proto._encode import encode_all  # which only gRPC needs

    return encode_all(frames, notes)


_ENCODED: Mapping[str, Callable[[Frames, Sequence[Note]], bytes]] = MappingProxyType(
    {
        JSON_MIME: encode_all,
        ARROW_MIME: _arrow,
        ONCE_MIME: partial(_arrow, constants_once=True),
        PROTO_MIME: _proto,
    }
)
"""The function that writes the body of an answer, by media type."""


class Threads:
    """Computes in threads of this process, which nothing can stop: for a client in the same process.

    Parameters
    ----------
    engine : Engine
    at_once : int
        How many answers are computed at the same time; others wait.
    """

    ended = 0  # a thread cannot be ended

    def __init__(self, engine: Engine, *, at_once: int = _AT_ONCE) -> None:
        self._engine = engine
        self.limits = engine.limits
        self._limiter = anyio.CapacityLimiter(at_once)

    @property
    def waiting(self) -> int:
        """How many tasks wait for a thread."""
        return self._limiter.statistics().tasks_waiting

    async def run(self, task: Task[A]) -> A:
        """Return the answer."""

        def work() -> A:
            task.begun = True
            return computed(self._engine, task)

        return await anyio.to_thread.run_sync(work, limiter=self._limiter)
