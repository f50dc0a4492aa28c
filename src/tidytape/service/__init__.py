"""The market data query service over a lake: the same API, weights and headers that the client speaks to."""

from __future__ import annotations

from tidytape.service.app import KEY_HEADER, create_app
from tidytape.service.computing import Processes
from tidytape.service.keys import Key, KeyFile, Keys, hashed
from tidytape.service.tiers import tiers_of

__all__ = ["KEY_HEADER", "Key", "KeyFile", "Keys", "Processes", "create_app", "hashed", "tiers_of"]
