"""A deterministic simulated market, so that everything runs with no key, no network and no bill."""

from __future__ import annotations

from tidytape.demo._lake import fill

__all__ = ["fill"]
