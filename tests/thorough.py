"""How often a costly test tries: a few times on every run, more when asked to by ``TIDYTAPE_TEST_THOROUGH=1``."""

from __future__ import annotations

import os
from typing import TypeVar

__all__ = ["often"]

_T = TypeVar("_T")

_THOROUGH = bool(os.environ.get("TIDYTAPE_TEST_THOROUGH"))


def often(times: _T, *, thoroughly: _T) -> _T:
    """Return how often to try, or what."""
    return thoroughly if _THOROUGH else times
