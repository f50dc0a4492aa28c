"""A batch of a stream as a line of JSON, and back.

A line has the series of each change exactly as ``/v1/points`` has them: ``{"final":[…],"token":"…"}``. Empty members
are left out, so a heartbeat is a line with only a token.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import orjson
import polars as pl

from tidytape.catalogue import Change
from tidytape.errors import DecodeError
from tidytape.wire._decode import decode
from tidytape.wire._encode import encode_all
from tidytape.wire._faults import Fault, check_utf8, parsed, placed
from tidytape.wire._sessions import row_count
from tidytape.wire._values import read_value, written_time

LINES_MIME = "application/x-ndjson"
"""The media type of a stream in JSON, with a batch on each line."""


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch of a stream. A reader that applies each batch and keeps its token has every point up to it exactly once.

    Attributes
    ----------
    frames : mapping of (str, Change) to polars.DataFrame
        The points of each data type and change; a frame without rows is absent.
    over : mapping of str to int
        By data type the start of the last interval that is over: after this batch, only revisions come of that interval
        and of earlier ones. A data type is absent if its last interval has not changed. [ns since the epoch]
    token : str
        Resumes the stream after this batch.
    end : (str, str) or None
        Code and message if the service ends the stream here; the code is one of `tidytape.catalogue.StreamEnd`, or of a
        newer service.
    """

    frames: Mapping[tuple[str, Change], pl.DataFrame] = field(default_factory=dict)
    over: Mapping[str, int] = field(default_factory=dict)
    token: str = ""
    end: tuple[str, str] | None = None

    @property
    def rows(self) -> int:
        """The number of rows of all frames, of market profiles that of their levels."""
        return sum(map(row_count, self.frames.values()))


def encode_batch(batch: Batch) -> bytes:
    r"""Write a batch as a line.

    Returns
    -------
    bytes
        With the end of the line. [byte]

    Raises
    ------
    QueryError, MissingColumnError, DecodeError
        As for `tidytape.wire.encode`.

    Examples
    --------
    >>> encode_batch(Batch(over={"TRADE_AGG": 60_000_000_000}, token="a"))
    b'{"over":{"TRADE_AGG":{"s":60}},"token":"a"}\n'
    """
    return with_token(opened(batch), batch)


def opened(batch: Batch) -> bytes:
    """Return the line of a batch up to its token. All readers of the same points share that part of the line."""
    json_members = []
    for change in Change:
        frames = [
            (name, frame) for (name, kind), frame in batch.frames.items() if kind is change and frame.height
        ]
        if frames:
            series = encode_all(frames).removeprefix(b'{"series":').removesuffix(b"}")
            json_members.append(b'"%b":%b' % (change.encode(), series))
    if batch.over:
        over = {name: written_time(start) for name, start in batch.over.items()}
        json_members.append(b'"over":' + orjson.dumps(over))
    return b"{" + b"".join(member + b"," for member in json_members)


def with_token(line: bytes, batch: Batch) -> bytes:
    """Complete a line that `opened` returned, with the token and the end of a batch."""
    line_parts = [line, b'"token":', orjson.dumps(batch.token)]
    if batch.end is not None:
        code, message = batch.end
        line_parts += [b',"end":', orjson.dumps({"code": code, "message": message})]
    return b"".join([*line_parts, b"}\n"])


def decode_batch(
    line: bytes, data_types: Collection[str], *, absent: Literal["null", "zero"] = "null"
) -> Batch:
    """Read a line as a batch.

    Parameters
    ----------
    line : bytes
        JSON in UTF-8. [byte]
    data_types : collection of str
        The data types of the query.
    absent : {"null", "zero"}
        As in `tidytape.wire.decode`.

    Returns
    -------
    Batch
        The batch, with frames as `tidytape.wire.decode` returns them. Unknown members of the line are ignored.

    Raises
    ------
    DecodeError
        If the line is not one of a stream, or as for `tidytape.wire.decode`.

    Examples
    --------
    >>> line = b'{"final":[{"id":{"exchange":"X"},"points":[{"Point":{"timestamp":{"s":60},"skew":1.5}}]}],"token":"a"}'
    >>> batch = decode_batch(line, ["SKEW_OPTION_SUMMARY_AGG"])
    >>> batch.token, batch.frames["SKEW_OPTION_SUMMARY_AGG", Change.FINAL]["skew"].to_list()
    ('a', [1.5])
    """
    first = next(iter(data_types))
    check_utf8(line, first)
    with placed(first):
        json_members = parsed(line, first)
        if not isinstance(json_members, dict):
            raise Fault("a line of a stream is no object")
        token, end = json_members.get("token"), json_members.get("end")
        if not isinstance(token, str):
            raise Fault("a line of a stream has no token")
        over = _object(json_members.get("over"), "over")
        starts = {name: read_value(start, "timestamp") for name, start in over.items() if name in data_types}
        end_members = _object(end, "end")
    frames = {}
    for change in Change:
        series = json_members.get(change)
        if not series:
            continue
        body = _body(series, first)
        for name in data_types:
            frame = decode(body, name, among=data_types, absent=absent)
            if frame.height:
                frames[name, change] = frame
    return Batch(
        frames,
        starts,
        token,
        None if end is None else (str(end_members.get("code")), str(end_members.get("message", ""))),
    )


def over_of_refusal(body: bytes, data_types: Collection[str]) -> dict[str, int]:
    """Return, from the refusal of a token, the start of the last interval that was over, by data type. [ns]

    The dict is empty if the refusal does not say it, or does not say it as our service does.

    Examples
    --------
    >>> over_of_refusal(b'{"error":"TOKEN_EXPIRED","over":{"TRADE_AGG":{"s":60}}}', ["TRADE_AGG"])
    {'TRADE_AGG': 60000000000}
    """
    try:
        over = orjson.loads(body)["over"]
        starts = {name: read_value(over[name], "timestamp") for name in data_types if name in over}
    except (ValueError, TypeError, KeyError, Fault):
        return {}
    return {name: start for name, start in starts.items() if start is not None}


def _body(series: Any, data_type: str) -> bytes:
    """Return some series as a body of ``/v1/points``."""
    try:
        return orjson.dumps({"series": series})
    except orjson.JSONEncodeError as error:  # a whole number that no dtype holds
        raise DecodeError(f"{data_type}: {error}", data_type=data_type) from None


def _object(value: Any, name: str) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise Fault(f"{name} is no object")
    return value
