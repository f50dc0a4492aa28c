"""The Arrow lane: what other readers see, and streams that are not what they should be."""

from __future__ import annotations

import io
import struct

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.ipc
import pytest

from tidytape.catalogue import DATA_TYPES
from tidytape.errors import DecodeError, QueryError
from tidytape.schema import schema_of
from tidytape.wire import ARROW_MIME, JSON_MIME, decode, encode, from_arrow, to_arrow

END = b"\xff\xff\xff\xff\0\0\0\0"
SKEW = "SKEW_OPTION_SUMMARY_AGG"
FRAME = schema_of(SKEW).conform(
    pl.DataFrame({"exchange": ["X", "X", None], "timestamp": [0, 1, 2], "skew": [1.5, None, float("nan")]})
)


def stream(table: pa.Table, name: str | None = SKEW) -> bytes:
    table = table.replace_schema_metadata({"tidytape.type": name} if name else None)
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def test_media_types() -> None:
    assert (ARROW_MIME, JSON_MIME) == ("application/vnd.apache.arrow.stream", "application/json")


@pytest.mark.parametrize("name", DATA_TYPES)
def test_empty_frames_of_every_type(name: str) -> None:
    empty = schema_of(name).empty()
    assert from_arrow(to_arrow(empty, name), name).equals(empty)
    assert from_arrow(to_arrow(empty, name), name).schema == empty.schema


def test_it_is_the_frame_that_json_gives() -> None:
    assert from_arrow(to_arrow(FRAME, SKEW), SKEW).equals(decode(encode(FRAME, SKEW), SKEW))


def test_any_arrow_reader_can_read_it() -> None:
    table = pa.ipc.open_stream(to_arrow(FRAME, SKEW)).read_all()
    assert pa.types.is_dictionary(table.schema.field("exchange").type)
    assert table.schema.field("timestamp").type == pa.timestamp("ns", tz="UTC")
    assert table["exchange"].to_pylist() == ["X", "X", None]


def test_a_frame_of_several_chunks() -> None:
    assert from_arrow(to_arrow(pl.concat([FRAME, FRAME], rechunk=False), SKEW), SKEW).equals(
        pl.concat([FRAME, FRAME])
    )


def test_another_writer_may_use_plain_strings_and_leave_out_nulls() -> None:
    table = pa.table(
        {
            "skew": [1.5],
            "timestamp": pa.array([7], pa.timestamp("ns", tz="UTC")),
            "exchange": ["X"],
            "extra": [1],
        }
    )
    frame = from_arrow(stream(table), SKEW)
    assert frame.columns == [*schema_of(SKEW).names, "extra"]
    assert frame.select("exchange", "coin", "skew", "extra").rows() == [("X", None, 1.5, 1)]


TIMES = pa.array([7], pa.timestamp("ns", tz="UTC"))


@pytest.mark.parametrize(
    ("columns", "why"),
    [
        ({"skew": [1.5]}, "has no column timestamp"),
        ({"timestamp": pa.array([None], TIMES.type)}, "timestamp has nulls"),
        ({"timestamp": [7]}, "column timestamp is Int64"),
        ({"timestamp": pa.array([7], pa.timestamp("us", tz="UTC"))}, "column timestamp is Datetime"),
        ({"timestamp": pa.array([7], pa.timestamp("ns"))}, "column timestamp is Datetime"),
        ({"timestamp": TIMES, "skew": ["1.5"]}, "column skew is String"),
        ({"timestamp": TIMES, "skew": pa.array([1.5], pa.float32())}, "column skew is Float32"),
        ({"timestamp": TIMES, "exchange": [1]}, "column exchange is Int64"),
        ({"timestamp": TIMES, "extra": pa.array([b"x"])}, "a column of binary"),
        (
            {"timestamp": TIMES, "extra": pa.array([1], pa.timestamp("s", tz="Mars/Base"))},
            "a column of timestamp",
        ),
    ],
)
def test_columns_that_are_not_the_schemas(columns: dict[str, object], why: str) -> None:
    with pytest.raises(DecodeError, match=why):
        from_arrow(stream(pa.table(columns)), SKEW)


def test_the_frame_of_another_type() -> None:
    with pytest.raises(DecodeError, match="TRADE: the stream is of type 'SKEW_OPTION_SUMMARY_AGG'"):
        from_arrow(to_arrow(FRAME, SKEW), "TRADE")
    with pytest.raises(QueryError):
        from_arrow(to_arrow(FRAME, SKEW), "SKEW")


ALIKE = {
    ("CME_OPEN_INTEREST_AGG", "OPEN_INTEREST_AGG"): "has price_close, ",
    ("OPEN_INTEREST_AGG", "TRADE_SIDE_AGNOSTIC_AGG"): "lacks first_timestamp, last_timestamp, volume,",
    ("TRADE_SIDE_AGNOSTIC_AGG", "TRADE_AGG"): "lacks side,",
    ("TRADE_AGG", "TRADE_SIDE_AGNOSTIC_AGG"): "has side,",
    ("FUNDING_RATE_AGG", "TRADE_SIDE_AGNOSTIC_AGG"): "lacks close, ",
}


@pytest.mark.parametrize(("sent", "asked"), ALIKE)
def test_a_stream_of_another_type_is_told_by_its_name_or_by_its_columns(sent: str, asked: str) -> None:
    with pytest.raises(DecodeError, match=f"{asked}: the stream is of type '{sent}'"):
        from_arrow(to_arrow(schema_of(sent).empty(), sent), asked)
    unnamed = schema_of(sent).empty().to_arrow()
    with pytest.raises(DecodeError, match=f"does not name its type, and {ALIKE[sent, asked]}"):
        from_arrow(stream(unnamed, None), asked)


@pytest.mark.parametrize("name", DATA_TYPES)
def test_a_stream_without_its_type_is_read_where_it_has_all_columns(name: str) -> None:
    sink = io.BytesIO()
    schema_of(name).empty().write_ipc_stream(sink, compat_level=pl.CompatLevel.oldest())
    assert from_arrow(sink.getvalue(), name).equals(schema_of(name).empty())


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b"\xff\xff\xff\xff",
        b"ARROW1\0\0",
        to_arrow(FRAME, SKEW)[:-200],
        to_arrow(FRAME, SKEW)[:50],
    ],
)
def test_bodies_that_are_no_stream(body: bytes) -> None:
    with pytest.raises(DecodeError, match="not an Arrow stream"):
        from_arrow(body, SKEW)


@pytest.mark.parametrize("codec", ["zstd", "lz4"])
def test_compressed_buffers_are_refused_before_they_are_read(codec: str) -> None:
    rows = 2**24
    zeros = pa.Table.from_arrays([pa.array(np.zeros(rows, "int64"))], ["timestamp"])
    zeros = zeros.cast(
        pa.schema([pa.field("timestamp", pa.timestamp("ns", tz="UTC"))], {"tidytape.type": SKEW})
    )
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, zeros.schema, options=pa.ipc.IpcWriteOptions(compression=codec)) as writer:
        writer.write_table(zeros)
    assert len(sink.getvalue()) < rows
    del zeros
    before = pa.total_allocated_bytes()
    with pytest.raises(DecodeError, match="buffers are compressed"):
        from_arrow(sink.getvalue(), SKEW)
    assert pa.total_allocated_bytes() - before < rows


def test_a_compressed_dictionary_is_refused() -> None:
    table = pa.table({"timestamp": TIMES, "exchange": pa.array(["x" * 1000]).dictionary_encode()})
    table = table.replace_schema_metadata({"tidytape.type": SKEW})
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as plain:
        plain.write_table(table)
    assert from_arrow(sink.getvalue(), SKEW).height == 1
    packed = io.BytesIO()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_stream(packed, table.schema, options=options) as writer:
        writer.write_table(table)
    # The dictionary of the one stream before the rows of the other: only it is compressed.
    schema, dictionary, _ = pa.ipc.MessageReader.open_stream(packed.getvalue())
    *_, rows = pa.ipc.MessageReader.open_stream(sink.getvalue())
    body = b"".join(one.serialize().to_pybytes() for one in (schema, dictionary, rows)) + END
    with pytest.raises(DecodeError, match="buffers are compressed"):
        from_arrow(body, SKEW)


def test_columns_that_share_their_bytes_are_refused() -> None:
    rows, extra = 1000, 50
    names = ["timestamp", *(f"x{number}" for number in range(extra))]
    fields = [pa.field(name, pa.timestamp("ns", tz="UTC")) for name in names]
    values = pa.array(np.arange(rows)).cast(fields[0].type)
    table = pa.Table.from_arrays([values] * (1 + extra), schema=pa.schema(fields))
    schema, batch = pa.ipc.MessageReader.open_stream(stream(table))
    metadata = batch.metadata.to_pybytes()
    length = rows * 8
    for number in range(1 + extra):  # Buffer{offset, length}: each column says it is where the first one is
        metadata = metadata.replace(
            struct.pack("<qq", number * length, length), struct.pack("<qq", 0, length)
        )
    metadata = metadata.replace(
        struct.pack("<q", (1 + extra) * length), struct.pack("<q", length)
    )  # of the body
    size = -(-len(metadata) // 8) * 8
    body = schema.serialize().to_pybytes() + b"\xff" * 4 + struct.pack("<i", size)
    body += metadata.ljust(size, b"\0") + batch.body.to_pybytes()[:length] + END
    assert pa.ipc.open_stream(body).read_all().num_columns == 1 + extra  # pyarrow takes it
    with pytest.raises(DecodeError, match="a batch of 408000 bytes in a body of"):
        from_arrow(body, SKEW)


NULLS = pa.nulls(100_000)
LAST = [0, len(NULLS)]


@pytest.mark.parametrize(
    ("extra", "why"),
    [
        (pa.ListArray.from_arrays(LAST, NULLS), "100000 nulls of no type in a body of"),
        (pa.LargeListArray.from_arrays(LAST, NULLS), "100000 nulls of no type"),
        (
            pa.ListArray.from_arrays(LAST, pa.StructArray.from_arrays([NULLS], ["a"])),
            "100000 nulls of no type",
        ),
        (pa.array([[{}, {}]]), "a column of struct<>"),
        (pa.array([{}]), "a column of struct<>"),
    ],
    ids=["list", "large list", "structs of nulls", "empty structs", "empty struct"],
)
def test_values_that_have_no_bytes_are_refused(extra: pa.Array, why: str) -> None:
    with pytest.raises(DecodeError, match=why):
        from_arrow(stream(pa.table({"timestamp": TIMES, "extra": extra})), SKEW)


def test_as_many_nulls_as_there_are_bytes() -> None:
    frame = from_arrow(stream(pa.table({"timestamp": TIMES, "none": [None], "nones": [[None] * 9]})), SKEW)
    assert frame["nones"].to_list() == [[None] * 9]


def test_many_batches_that_share_a_large_dictionary_are_refused() -> None:
    exchange = pa.DictionaryArray.from_arrays(pa.array([0], pa.int32()), ["x" * 50_000])
    batch = pa.record_batch({"timestamp": TIMES, "exchange": exchange})
    assert from_arrow(stream(pa.Table.from_batches([batch] * 5)), SKEW).height == 5
    with pytest.raises(DecodeError, match=r"batches of .* bytes in a body of"):
        from_arrow(stream(pa.Table.from_batches([batch] * 50)), SKEW)


@pytest.mark.parametrize("index", [2, -1, 2**31 - 1])
def test_a_dictionary_is_not_read_beyond_its_values(index: int) -> None:
    indices = pa.array([0, 1, None, index], pa.int32())
    exchange = pa.DictionaryArray.from_arrays(indices, ["X", "Y"], safe=False)
    table = pa.table(
        {"timestamp": pa.array([0, 1, 2, 3]).cast(pa.timestamp("ns", tz="UTC")), "exchange": exchange}
    )
    with pytest.raises(DecodeError, match="a dictionary of 2 has no values"):
        from_arrow(stream(table), SKEW)


@pytest.mark.parametrize("wide", ["columns", "struct"])
def test_more_columns_than_a_frame_takes(wide: str) -> None:
    many = {f"f{number}": 1 for number in range(10_000)}
    extra = (
        [pl.lit(many[name]).alias(name) for name in many]
        if wide == "columns"
        else [pl.Series("x", [many] * 3)]
    )
    with pytest.raises(DecodeError, match="more than 256 different unknown fields"):
        from_arrow(to_arrow(FRAME.with_columns(extra), SKEW), SKEW)
    assert (
        from_arrow(to_arrow(FRAME.with_columns(extra[:1] if wide == "columns" else []), SKEW), SKEW).height
        == 3
    )


def test_text_that_is_not_utf8_is_found() -> None:
    body = to_arrow(
        pl.DataFrame({"exchange": ["SPOILED"]}).with_columns(
            timestamp=pl.lit(0).cast(pl.Datetime("ns", "UTC"))
        ),
        SKEW,
    )
    assert from_arrow(body, SKEW)["exchange"].to_list() == ["SPOILED"]
    with pytest.raises(DecodeError):
        from_arrow(body.replace(b"SPOILED", b"SPO\xff\xfeED"), SKEW)
