"""The market data query service over a lake: the same API, weights and headers that the client speaks to."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidytape.service.accounts import Key, KeyFile, Keys, hashed, tiers_of
    from tidytape.service.app import KEY_HEADER, create_app
    from tidytape.service.buckets import Buckets, MemoryBuckets, RedisBuckets
    from tidytape.service.processes import Processes
else:
    # Each name is imported when it is first used: a worker process loads the engine, and no web framework.
    _HOMES = {
        "KEY_HEADER": "app",
        "Buckets": "buckets",
        "Key": "accounts",
        "KeyFile": "accounts",
        "Keys": "accounts",
        "MemoryBuckets": "buckets",
        "Processes": "processes",
        "RedisBuckets": "buckets",
        "create_app": "app",
        "hashed": "accounts",
        "tiers_of": "accounts",
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
