"""The base class of the streams of both clients, and functions that end a response."""

from __future__ import annotations

import contextlib
import socket
from abc import ABC, abstractmethod
from typing import Any, Generic, TypeVar

import httpx

from tidytape.client._display import described
from tidytape.client._following import Following
from tidytape.query import StreamQuery

FrameT = TypeVar("FrameT")

ABORT = "tidytape.abort"
"""The extension of a response in which its transport puts a function that ends the response without blocking."""


def abort(response: httpx.Response) -> None:
    """End a response without blocking. It wakes another thread that waits for the response."""
    if ABORT in response.extensions:
        response.extensions[ABORT]()
        return
    stream = response.extensions.get("network_stream")
    if stream is not None:
        shut(stream.get_extra_info("socket"))


def shut(connection: Any) -> None:
    """End a connection without blocking. It wakes another thread that reads the socket."""
    # Do not call the `shutdown` of a TLS socket: it drops the TLS object, which the other thread is using.
    shutdown = socket.socket.shutdown if isinstance(connection, socket.socket) else type(connection).shutdown
    with contextlib.suppress(OSError):
        shutdown(connection, socket.SHUT_RDWR)


class StoppedError(Exception):
    """The stream was stopped."""


class StreamBase(ABC, Generic[FrameT]):
    """The query, the token and the text of a stream."""

    def __init__(self, following: Following) -> None:
        self._following = following

    @property
    def query(self) -> StreamQuery:
        """The query of the stream."""
        return self._following.query

    @property
    def token(self) -> str | None:
        """The token that resumes the stream after the last batch that was returned; None before the first batch."""
        return self._following.token

    def __repr__(self) -> str:
        """Return the query without the token, which is long."""
        params = self.query.model_copy(update={"token": None}).to_params()
        return f"<{type(self).__name__} {described(params)}>"

    @abstractmethod
    def stop(self) -> None:
        """End the iteration, from any thread, and close the connection, without blocking."""
