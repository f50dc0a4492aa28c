"""Public archives of market data, and the exchanges' own APIs: what brings files and events into a lake."""

from __future__ import annotations

from tidytape.archives._plan import DownloadPlan, plan

__all__ = ["DownloadPlan", "plan"]
