"""Public archives and the exchanges' own APIs: what brings files and events into a lake."""

from __future__ import annotations

from tidytape.archives._pull import pull

__all__ = ["pull"]
