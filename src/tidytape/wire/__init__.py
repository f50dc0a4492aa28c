"""The wire: JSON and Arrow bodies to tidy frames, and back; and frames without lists, for CSV.

``decode`` and ``encode`` are inverses over one schema, `tidytape.schema.wire_schema`. They read the fields, levels and
envelope of every data type from `tidytape.catalogue`, so they name no data type.

==========================  =============================================================
`decode`, `encode`          one data type: JSON body to tidy frame, tidy frame to JSON body
`from_arrow`, `to_arrow`    the same tidy frame as an Arrow IPC stream
`levels_of`, `sessions_of`  the two tidy frames of a market profile, which travels as one row per session
`nested`                    that one frame of levels and sessions, the inverse
`decode_markets`            a page of ``/v1/markets``
`decode_names`              a list of names, e.g. ``/v1/coins``
`decode_block_sizes`        ``/v1/block-sizes``
`decode_list`               any other list endpoint
`flat`                      a frame with lists and times as text, for CSV; also `tidytape.flat`
==========================  =============================================================

Examples
--------
>>> body = b'{"series":[{"id":{"exchange":"X"},"points":[{"Point":{"timestamp":{"s":60},"skew":1.5}}]}]}'
>>> frame = decode(body, "SKEW_OPTION_SUMMARY_AGG")
>>> frame.select("exchange", "skew").rows()
[('X', 1.5)]
>>> decode(encode(frame, "SKEW_OPTION_SUMMARY_AGG"), "SKEW_OPTION_SUMMARY_AGG").equals(frame)
True
"""

from __future__ import annotations

from tidytape.wire._arrow import from_arrow, to_arrow
from tidytape.wire._csv import flat
from tidytape.wire._decode import decode
from tidytape.wire._encode import encode
from tidytape.wire._lists import decode_block_sizes, decode_list, decode_markets, decode_names
from tidytape.wire._sessions import levels_of, nested, sessions_of

__all__ = [
    "decode",
    "decode_block_sizes",
    "decode_list",
    "decode_markets",
    "decode_names",
    "encode",
    "flat",
    "from_arrow",
    "levels_of",
    "nested",
    "sessions_of",
    "to_arrow",
]
