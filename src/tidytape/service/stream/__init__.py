"""Streams of points: history, and then what is new.

One stream goes through these files: `http` (the route), `streams` (who may open one), `reader` (what one caller is
sent), `feed` (the live part of a query, computed once for all its readers), `changes` (the difference between two
moments of the lake), `tokens` (where a stream stands). The decision is docs/adr/0034.
"""

from __future__ import annotations

from tidytape.service.stream._http import stream
from tidytape.service.stream._reader import HEARTBEAT, Delivery, Reader
from tidytape.service.stream._streams import Streams
from tidytape.service.stream._tokens import Position, Tokens, token_secret

__all__ = ["HEARTBEAT", "Delivery", "Position", "Reader", "Streams", "Tokens", "stream", "token_secret"]
