"""Logs that grow: followed as they are written, or played again, into a lake that is tidied meanwhile."""

from __future__ import annotations

from tidytape.lake.record._follow import follow
from tidytape.lake.record._replay import replay

__all__ = ["follow", "replay"]
