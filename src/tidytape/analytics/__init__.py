"""Analytics: points to insight. Every function is pure, a frame in and a frame of the same kind out.

- `depth` : resting size over time and price: matrices, depth near the mid, walls, what a trade would cost.
- `pit` : point in time: what was known when, and frames for backtests.
- `profile` : point of control and value area of volume and time profiles.

A module is imported when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidytape.analytics import depth, pit, profile
else:

    def __getattr__(name):
        if name in __all__:
            return import_module(f"tidytape.analytics.{name}")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__():
        return sorted(__all__)


__all__ = ["depth", "pit", "profile"]
