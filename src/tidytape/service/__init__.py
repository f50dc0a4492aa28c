"""The market data query service over a lake: the same API, weights and headers that the client speaks to."""

from __future__ import annotations

from tidytape.service.app import KEY_HEADER, create_app
from tidytape.service.buckets import Buckets, MemoryBuckets
from tidytape.service.computing import Processes
from tidytape.service.keys import Key, KeyFile, Keys, hashed
from tidytape.service.redis_buckets import RedisBuckets
from tidytape.service.tiers import tiers_of

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
