"""A deterministic simulated market, with which everything runs without an API key, a network and costs."""

from __future__ import annotations

from tidytape.demo._lake import fill

__all__ = ["fill"]
