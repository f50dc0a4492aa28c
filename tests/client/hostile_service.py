"""A hostile service, as data: what it answers, and what a client must make of that.

A `Case` has the answers in the order in which they are given, the last one for ever. An answer is a status, headers and
a body, or the bytes of a whole connection. What comes of it is the right candles, another frame or list that a function
checks, or an error by its class. The service repeats the key of the client wherever a case says `KEY`.
"""

from __future__ import annotations

from client.hostile.answers import headers, packings, statuses
from client.hostile.bodies import bodies, levels, odd_series, wrong_series
from client.hostile.case import KEY, Answer, Case, key_spellings
from client.hostile.connections import connections
from client.hostile.lists import lists
from client.hostile.streams import odd_streams, streams

__all__ = ["CASES", "KEY", "WIRE_CASES", "Answer", "Case", "key_spellings"]

CASES = [
    *statuses(), *headers(), *packings(), *bodies(), *wrong_series(), *odd_series(), *levels(), *streams(),
    *odd_streams(), *lists(),
]  # fmt: skip
"""What a transport in the same process can answer."""

WIRE_CASES = list(connections())
"""What takes a connection of its own."""
