"""The wire: JSON and Arrow bodies to tidy frames, and back.

``decode`` and ``encode`` are inverses over one schema, `tidytape.schema.schema_of`, and generic over every
data type of `tidytape.catalogue`: fields, levels and envelopes are read from there, nothing here knows a type
by name.

========================  ==============================================================
`decode`, `encode`        one data type: JSON body to tidy frame, tidy frame to JSON body
`encode_all`              several data types in one body
`encode_series`           one series of points that are text already, `point_texts`
`decode_markets`          a page of ``/v1/markets``; `encode_markets` writes one
`decode_names`            a list of names, e.g. ``/v1/coins``
`decode_block_sizes`      ``/v1/block-sizes``
`decode_holdings`         what a service holds; `encode_holdings` writes it
`decode_list`             any other list endpoint
`from_arrow`, `to_arrow`  the same tidy frame as an Arrow IPC stream
`concatenated`            frames of several answers, whose unknown fields may be of different kinds
`fitted`                  a column of one answer as the dtype it has in another
`finality`                whether the interval of each row can still change
`encode_batch`            what a stream sends at once as a line of JSON; `decode_batch` reads one; `Batch`
`over_of_refusal`         up to when a stream had delivered whose token was refused
`Note`                    what an answer says of a market whose points do not fill the window
`notes_in_json`           the notes of a JSON body; `notes_in_arrow`, `read_notes`, `write_notes`
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

from tidytape.wire._arrow import ARROW_BEGIN, ARROW_END, ARROW_MIME, from_arrow, to_arrow
from tidytape.wire._decode import JSON_MIME, decode
from tidytape.wire._encode import PointTexts, encode, encode_all, encode_series, point_texts
from tidytape.wire._holdings import decode_holdings, encode_holdings
from tidytape.wire._lists import decode_block_sizes, decode_list, decode_markets, decode_names, encode_markets
from tidytape.wire._notes import Note, notes_in_arrow, notes_in_json, read_notes, write_notes
from tidytape.wire._stream import LINES_MIME, Batch, decode_batch, encode_batch, over_of_refusal
from tidytape.wire._tidy import DATA_UNTIL, SENT_UNIT, concatenated, finality, fitted

__all__ = [
    "ARROW_BEGIN",
    "ARROW_END",
    "ARROW_MIME",
    "DATA_UNTIL",
    "JSON_MIME",
    "LINES_MIME",
    "SENT_UNIT",
    "Batch",
    "Note",
    "PointTexts",
    "concatenated",
    "decode",
    "decode_batch",
    "decode_block_sizes",
    "decode_holdings",
    "decode_list",
    "decode_markets",
    "decode_names",
    "encode",
    "encode_all",
    "encode_batch",
    "encode_holdings",
    "encode_markets",
    "encode_series",
    "finality",
    "fitted",
    "from_arrow",
    "notes_in_arrow",
    "notes_in_json",
    "over_of_refusal",
    "point_texts",
    "read_notes",
    "to_arrow",
    "write_notes",
]
