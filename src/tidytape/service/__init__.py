"""The market data query service over a lake: the same API, weights and headers that the client speaks to."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidytape.service._accounts import Key, KeyFile, Keys, hashed, tiers_of
    from tidytape.service._buckets import Buckets, MemoryBuckets, RedisBuckets
    from tidytape.service.http._app import KEY_HEADER, create_app
    from tidytape.service.work._processes import Processes
else:
    # Each name is imported when it is first used: a worker process loads the engine, and no web framework.
    _HOMES = {
        "KEY_HEADER": "http._app",
        "Buckets": "_buckets",
        "Key": "_accounts",
        "KeyFile": "_accounts",
        "Keys": "_accounts",
        "MemoryBuckets": "_buckets",
        "Processes": "work._processes",
        "RedisBuckets": "_buckets",
        "create_app": "http._app",
        "hashed": "_accounts",
        "tiers_of": "_accounts",
    }

    def __getattr__(name):
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
        return value

    def __dir__():
        return sorted(__all__)


__all__ = [
    "KEY_HEADER",
    "Buckets",
    "Key",
    "KeyFile",
    "Keys",
    "MemoryBuckets",
    "Processes",
    "RedisBuckets",
    "create_app",
    "hashed",
    "tiers_of",
]
