"""The client of the service: the same methods in plain code and in asyncio, one frame type per client.

Nothing is loaded until it is used: whoever only reads what the methods take does not load what carries them out.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidytape.client.aio import AsyncClient
    from tidytape.client.aio_stream import AsyncStream
    from tidytape.client.batches import Changes, StreamBatch
    from tidytape.client.budget import Usage
    from tidytape.client.endpoints import Fetched
    from tidytape.client.live import Live
    from tidytape.client.metadata import Metadata, Plan
    from tidytape.client.series import FetchQuery
    from tidytape.client.sync import Client
    from tidytape.client.sync_stream import Stream
else:
    _HOMES = {
        "AsyncClient": "aio",
        "AsyncStream": "aio_stream",
        "Changes": "batches",
        "Client": "sync",
        "Fetched": "endpoints",
        "Live": "live",
        "Metadata": "metadata",
        "Plan": "metadata",
        "Stream": "sync_stream",
        "StreamBatch": "batches",
        "Usage": "budget",
        "FetchQuery": "series",
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
