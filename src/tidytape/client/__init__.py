"""The client of the service: the same methods in plain code and in asyncio, one frame type per client.

Nothing is loaded until it is used: code that only reads the parameters of the methods does not load what fetches.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidytape.client._aio import AsyncClient
    from tidytape.client._aio_stream import AsyncStream
    from tidytape.client._batches import Changes, StreamBatch
    from tidytape.client._budget import Usage
    from tidytape.client._endpoints import Fetched
    from tidytape.client._live import Live
    from tidytape.client._metadata import Metadata
    from tidytape.client._plans import Plan
    from tidytape.client._series import FetchQuery
    from tidytape.client._sync import Client
    from tidytape.client._sync_stream import Stream
else:
    _HOMES = {
        "AsyncClient": "_aio",
        "AsyncStream": "_aio_stream",
        "Changes": "_batches",
        "Client": "_sync",
        "Fetched": "_endpoints",
        "Live": "_live",
        "Metadata": "_metadata",
        "Plan": "_plans",
        "Stream": "_sync_stream",
        "StreamBatch": "_batches",
        "Usage": "_budget",
        "FetchQuery": "_series",
    }

    def __getattr__(name):
        # Hidden from type checkers, which would otherwise accept any name at all.
        if name in _HOMES:
            value = globals()[name] = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
            return value
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__():
        return sorted({*globals(), *_HOMES})


__all__ = [
    "AsyncClient",
    "AsyncStream",
    "Changes",
    "Client",
    "FetchQuery",
    "Fetched",
    "Live",
    "Metadata",
    "Plan",
    "Stream",
    "StreamBatch",
    "Usage",
]
