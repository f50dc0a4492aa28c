"""An app that answers over HTTP and gRPC on sockets, in a thread of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
import httpx
import uvicorn

SERVICE = "/tidytape.v1.MarketData/"


@dataclass
class Served:
    """Both addresses, and ways to ask them."""

    app: Any
    http: httpx.Client
    channel: grpc.Channel
    stop: Callable[[], None]
    key: str = "enterprise-key"
    trailing: dict[str, str] = field(default_factory=dict)

    def get(self, path: str, params: Any = None, **headers: str) -> httpx.Response:
        return self.http.get(path, params=params, headers={"x-service-key": self.key, **headers})

    def call(
        self, method: str, body: bytes = b"", *, metadata: Iterable[tuple[str, str]] | None = None
    ) -> bytes:
        """Return the response of a method as bytes; keeps the trailing metadata."""
        unary = self.channel.unary_unary(SERVICE + method)
        metadata = [("x-service-key", self.key)] if metadata is None else metadata
        try:
            response, call = unary.with_call(body, metadata=list(metadata), timeout=60)
        except grpc.RpcError as error:
            self.trailing = dict(error.trailing_metadata() or ())
            raise
        self.trailing = dict(call.trailing_metadata())
        return response


@contextmanager
def running(app: Any) -> Iterator[Served]:
    """Run an app that was made with ``grpc_address``."""
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_config=None))
    thread = threading.Thread(target=server.run)
    thread.start()

    def stop() -> None:
        """End the server, as an operator does."""
        server.should_exit = True
        thread.join()

    try:
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        options = [("grpc.max_receive_message_length", -1)]
        with (
            httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as http,
            grpc.insecure_channel(f"127.0.0.1:{app.state.grpc_port}", options) as channel,
        ):
            yield Served(app, http, channel, stop)
    finally:
        stop()
