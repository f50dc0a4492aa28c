"""How often a costly test tries: a few times on every run, more when asked to by ``TIDYTAPE_TEST_THOROUGH=1``."""

from __future__ import annotations

import os

__all__ = ["often"]

_THOROUGH = bool(os.environ.get("TIDYTAPE_TEST_THOROUGH"))


def often(times: int, *, thoroughly: int) -> int:
    """Return how often to try."""
    return thoroughly if _THOROUGH else times
