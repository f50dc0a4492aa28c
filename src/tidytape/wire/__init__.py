"""The wire: JSON and Arrow bodies to tidy frames, and back.

``decode`` and ``encode`` are inverses over one schema, `tidytape.schema.schema_of`, and generic over every
data type of `tidytape.catalogue`: fields, levels and envelopes are read from there, nothing here knows a type
by name.

========================  ==============================================================
`decode`, `encode`        one data type: JSON body to tidy frame, tidy frame to JSON body
`encode_all`              several data types in one body
`decode_markets`          a page of ``/v1/markets``; `encode_markets` writes one
`decode_names`            a list of names, e.g. ``/v1/coins``
`decode_block_sizes`      ``/v1/block-sizes``
`decode_list`             any other list endpoint
`from_arrow`, `to_arrow`  the same tidy frame as an Arrow IPC stream
`concatenated`            frames of several answers, whose unknown fields may be of different kinds
`fitted`                  a column of one answer as the dtype it has in another
========================  ==============================================================

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

from tidytape.wire.arrow import ARROW_MIME, from_arrow, to_arrow
from tidytape.wire.decode import JSON_MIME, decode
from tidytape.wire.encode import encode, encode_all
from tidytape.wire.kinds import concatenated, fitted
from tidytape.wire.lists import decode_block_sizes, decode_list, decode_markets, decode_names, encode_markets

__all__ = [
    "ARROW_MIME",
    "JSON_MIME",
    "concatenated",
    "decode",
    "decode_block_sizes",
    "decode_list",
    "decode_markets",
    "decode_names",
    "encode",
    "encode_all",
    "encode_markets",
    "fitted",
    "from_arrow",
    "to_arrow",
]
