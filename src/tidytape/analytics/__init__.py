"""Analytics: points to insight. Every function is pure, a frame in and a frame of the same kind out.

- `flow` : delta, CVD, imbalance, open interest against price, liquidations, large trades.
- `profile` : point of control and value area of volume and time profiles.
- `quality` : what is wrong with a frame, what is missing in it, how much there is.

A module is imported when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidytape.analytics import flow, profile, quality
else:

    def __getattr__(name):
        if name in __all__:
            return import_module(f"tidytape.analytics.{name}")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__():
        return sorted(__all__)


__all__ = ["flow", "profile", "quality"]
