"""A part of a stream as a task: computed and written by whatever process it is given to."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Self

from tidytape.service.answer._engine import Engine
from tidytape.service.stream._changes import Remainder, next_part
from tidytape.service.stream._moments import Moment, moment_at, versions_read
from tidytape.service.stream._tokens import Position
from tidytape.service.work._computing import Answer, Task
from tidytape.wire._stream import Batch, opened, with_token
from tidytape.wire._stream_arrow import ArrowStream

LINES, ARROW, MESSAGES, FRAMES = "lines", "arrow", "messages", "frames"
"""The forms of a batch: a line of JSON, a message of Arrow, one of protocol buffers, and a pickle of its frames."""


def _message(batch: Batch) -> bytes:
    from tidytape.service.proto._encode import encode_batch  # which only gRPC needs

    return encode_batch(batch)


SHARED_TEXTS: Mapping[str, Callable[[Batch], bytes]] = MappingProxyType(
    {
        LINES: opened,
        ARROW: lambda batch: b"",
        MESSAGES: _message,
        FRAMES: lambda batch: pickle.dumps(batch.frames),
    }
)
"""By form what writes the rows of a batch, which all readers of a feed share; Arrow has the token among them."""


def own_text(form: str, batch: Batch, data_type: str) -> bytes:
    """Return what follows on the shared text of a batch: the token, and why the stream ends; of Arrow everything."""
    if form == LINES:
        return with_token(b"", batch)
    if form == MESSAGES:
        from tidytape.service.proto._encode import batch_end

        return batch_end(batch)
    return ArrowStream(data_type).batch(batch) if form == ARROW else b""


@dataclass(frozen=True, slots=True)
class PartAnswer(Answer):
    """A part of a stream as it is sent.

    Attributes
    ----------
    batch : Batch
        What the part says beside its rows, which are in the body.
    position : Position
        The position of the stream after it.
    remainder : Remainder
        What is left of the difference.
    """

    batch: Batch
    position: Position
    remainder: Remainder


@dataclass(slots=True)
class PartTask(Task[PartAnswer]):
    """The next part of a difference between two moments, from the position of a stream on.

    Attributes
    ----------
    remainder : Remainder
        What is left of the difference.
    position : Position
        Where the stream stands.
    form : str
        ``LINES``, ``ARROW``, ``MESSAGES`` or ``FRAMES``.
    write_token : callable or None
        Returns the token of a position; None if the part needs none.
    moments : tuple of Moment or None
        The earlier and the later moment; None in another process.
    versions : tuple
        The same as versions of tables, for another process.
    size : int
        How many bytes the body has, by estimate. [byte]
    """

    remainder: Remainder
    position: Position
    form: str
    write_token: Callable[[Position], str] | None
    moments: tuple[Moment | None, Moment] | None
    versions: tuple[tuple[tuple[str, int], ...] | None, ...] = field(default=())
    size: int = 0

    def for_process(self) -> Self:
        """Return the task with the versions of its moments in place of the moments."""
        versions = [
            None
            if moment is None
            else tuple(sorted(versions_read(self.remainder.query, moment.lake).items()))
            for moment in self.moments or ()
        ]
        return replace(self, moments=None, versions=tuple(versions))

    def computed(self, engine: Engine) -> PartAnswer:
        """Compute and write the part.

        Raises
        ------
        QueryError, LakeError
            As of `next_part`.
        """
        query = self.remainder.query
        since, now = self.moments or [
            None if versions is None else moment_at(engine, query, versions) for versions in self.versions
        ]
        assert now is not None
        difference, remainder = next_part(self.remainder, since, now)
        position = self.position.after(difference.until, difference.over, is_last=difference.is_last)
        moved = self.position.moved(difference.over)
        token = "" if self.write_token is None else self.write_token(position)
        batch = Batch(difference.frames, moved, token=token)
        body = SHARED_TEXTS[self.form](batch) + own_text(self.form, batch, query.type[0])
        return PartAnswer(body, {}, batch.rows, replace(batch, frames={}), position, remainder)
