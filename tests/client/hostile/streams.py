"""Bodies of Arrow."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.ipc

from client.hostile.case import GOOD, KEY, KIND, RIGHT, TIMES, VALUES, Answer, Case, column, empty
from tidytape.errors import DecodeError
from tidytape.schema import schema_of
from tidytape.wire import to_arrow
from tidytape.wire._arrow import ARROW_MIME

ARROW = {"content-type": ARROW_MIME}


@cache
def candles() -> pa.Table:
    rows = {"exchange": ["X"] * 3, "raw_symbol": ["BTC"] * 3, "timestamp": [one * 10**9 for one in TIMES]}
    frame = schema_of(KIND).conform(
        pl.DataFrame(rows | {name: [value] * 3 for name, value in VALUES.items()})
    )
    return pa.ipc.open_stream(to_arrow(frame, KIND)).read_all()


def arrow(table: pa.Table | None = None, **options: Any) -> bytes:
    table = candles() if table is None else table
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def changed(name: str, values: Any) -> bytes:
    table = candles()
    place = table.schema.get_field_index(name)
    return arrow(table.set_column(place, name, values))


def batches(*several: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, several[0].schema) as writer:
        for one in several:
            writer.write_batch(one)
    return bytes(sink.getvalue())


def of_type(name: str | bytes | None) -> bytes:
    return arrow(candles().replace_schema_metadata({"tidytape.type": name} if name is not None else None))


def another(kind: str, *, named: bool) -> bytes:
    frame = schema_of(kind).conform(pl.DataFrame({"exchange": ["X"], "timestamp": [0]}))
    if named:
        return to_arrow(frame, kind)
    return arrow(frame.to_arrow(compat_level=pl.CompatLevel.oldest()))


def in_file_format() -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, candles().schema) as writer:
        writer.write_table(candles())
    return bytes(sink.getvalue())


def streams() -> Iterator[Case]:
    utc = pa.timestamp("ns", tz="UTC")
    good, names = arrow(), pa.DictionaryArray
    beyond = names.from_arrays(pa.array([0, 1, 7], pa.int32()), ["X", "X"], safe=False)
    negative = names.from_arrays(pa.array([0, -1, 0], pa.int32()), ["X"], safe=False)
    many = candles()
    for number in range(300):
        many = many.append_column(f"x{number}", pa.array([1, 2, 3]))
    wrong = {
        "cut in half": good[: len(good) // 2],
        "cut before its end": good[:-8],
        "one byte": b"\xff",
        "its mark": b"\xff" * 4,
        "only an end": b"\xff\xff\xff\xff\0\0\0\0",
        "the file format": in_file_format(),
        "a length of 2 GB": b"\xff" * 4 + struct.pack("<i", 2**31 - 1) + good[8:],
        "bytes turned": good[:40] + good[60:40:-1] + good[60:],
        "JSON with an end": GOOD + b"\xff\xff\xff\xff\0\0\0\0",
        "not named": of_type(None),
        "named another type": of_type("OPEN_INTEREST_AGG"),
        "named the key": of_type(KEY),
        "named by bytes": of_type(b"\xff\xfe"),
        "open interest": another("OPEN_INTEREST_AGG", named=True),
        "open interest, not named": another("OPEN_INTEREST_AGG", named=False),
        "funding, not named": another("FUNDING_RATE_AGG", named=False),
        "sides, not named": another("TRADE_AGG", named=False),
        "microseconds": changed("timestamp", pa.array([0, 1, 2]).cast(pa.timestamp("us", tz="UTC"))),
        "times without a zone": changed("timestamp", pa.array([0, 1, 2]).cast(pa.timestamp("ns"))),
        "times of another zone": changed(
            "timestamp", pa.array([0, 1, 2]).cast(pa.timestamp("ns", tz="Asia/Tokyo"))
        ),
        "times as integers": changed("timestamp", pa.array([0, 60, 120])),
        "null times": changed("timestamp", pa.nulls(3, utc)),
        "times of another day": changed("timestamp", pa.array([9 * 86_400 * 10**9] * 3).cast(utc)),
        "times beside the grid": changed("timestamp", pa.array([1, 2, 3]).cast(utc)),
        "prices as floats of 32 bits": changed("close", pa.array([1.0, 2.0, 3.0], pa.float32())),
        "prices as texts": changed("close", pa.array(["1", "2", "3"])),
        "prices as decimals": changed("close", pa.array([1, 2, 3]).cast(pa.decimal128(30, 2))),
        "prices as integers": changed("close", pa.array([1, 2, 3])),
        "prices as nulls of no type": changed("close", pa.nulls(3)),
        "prices as lists": changed("close", pa.array([[1.0], [2.0], [3.0]])),
        "prices by run length": changed(
            "close", pa.RunEndEncodedArray.from_arrays(pa.array([3], pa.int32()), pa.array([1.0]))
        ),
        "prices in a dictionary": changed("close", pa.array([1.0, 1.0, 2.0]).dictionary_encode()),
        "names as bytes": changed("exchange", pa.array([b"X"] * 3)),
        "names as numbers": changed("exchange", pa.array([1, 2, 3])),
        "a dictionary of numbers": changed("exchange", pa.array([1, 1, 2]).dictionary_encode()),
        "an index beyond its dictionary": changed("exchange", beyond),
        "an index below zero": changed("exchange", negative),
        "another exchange": changed("exchange", pa.array(["Y"] * 3)),
        "the key as exchange": changed("exchange", pa.array([KEY] * 3)),
        "text that is not UTF-8": changed("exchange", pa.array(["SPOILED"] * 3)).replace(
            b"SPOILED", b"SPO\xff\xfeED"
        ),
        "two columns of one name": arrow(candles().append_column("close", candles()["close"])),
        "no time": arrow(candles().drop_columns("timestamp")),
        "300 more columns": arrow(many),
    }
    for name, content in wrong.items():
        yield Case(f"stream, {name}", (Answer(200, content, ARROW),), DecodeError)


def odd_streams() -> Iterator[Case]:
    table = candles()
    first, second = table.slice(0, 1), table.slice(1, 2)
    place = table.schema.get_field_index("exchange")
    replaced = [
        one.set_column(
            place,
            "exchange",
            pa.DictionaryArray.from_arrays(pa.array([at] * one.num_rows, pa.int32()), words),
        )
        .combine_chunks()
        .to_batches()[0]
        for one, at, words in ((first, 0, ["X", "Y"]), (second, 1, ["Z", "X"]))
    ]
    unused = pa.DictionaryArray.from_arrays(pa.array([1, 1, 1], pa.int8()), [KEY, "X", None])
    right = {
        "as it should be": arrow(),
        "packed with zstd": arrow(compression="zstd"),
        "packed with lz4": arrow(compression="lz4"),
        "in three batches": arrow(pa.concat_tables([first, second])),
        "a dictionary that is replaced": batches(*replaced),
        "a dictionary with the key and a null": changed("exchange", unused),
        "names as plain texts": changed("exchange", pa.array(["X"] * 3)),
        "names as long texts": changed("exchange", pa.array(["X"] * 3, pa.large_string())),
        "columns turned around": arrow(table.select(table.column_names[::-1])),
        "a column with the key as its name": arrow(table.append_column(KEY, pa.array([1, 2, 3]))),
        "a column of the key": arrow(table.append_column("echo", pa.array([KEY] * 3))),
        "metadata with the key": arrow(table.replace_schema_metadata({"tidytape.type": KIND, "key": KEY})),
    }
    for name, content in right.items():
        yield Case(f"stream, {name}", (Answer(200, content, ARROW),), RIGHT)
    yield Case("stream, no batch", (Answer(200, arrow(table.slice(0, 0)), ARROW),), empty)
    nan = changed("close", pa.array(np.array([np.nan, np.inf, 1.0])))
    yield Case("stream, NaN", (Answer(200, nan, ARROW),), column("close", float("nan"), float("inf"), 1.0))
