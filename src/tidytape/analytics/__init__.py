"""Analytics: points to insight. Every function is pure, a frame in and a frame of the same kind out.

- `profile` : value areas of volume and time profiles, initial balance, single prints, nodes, day types.

A module is imported when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidytape.analytics import profile
else:

    def __getattr__(name):
        if name in __all__:
            return import_module(f"tidytape.analytics.{name}")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__():
        return sorted(__all__)


__all__ = ["profile"]
