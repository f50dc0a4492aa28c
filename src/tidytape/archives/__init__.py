"""Public archives of market data, and the exchanges' own APIs: what brings files and events into a lake."""

from __future__ import annotations

from tidytape.archives._download import DownloadPlan
from tidytape.archives._outcome import IN_LAKE, State
from tidytape.archives._plan import kinds, plan
from tidytape.archives._pull import pull

__all__ = ["IN_LAKE", "DownloadPlan", "State", "kinds", "plan", "pull"]
