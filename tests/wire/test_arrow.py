"""The Arrow lane: what other readers see, and streams that are not what they should be."""

from __future__ import annotations

import io

import polars as pl
import pyarrow as pa
import pyarrow.ipc
import pytest

from tables import each_row
from tidytape.catalogue import DATA_TYPES
from tidytape.errors import DecodeError, QueryError
from tidytape.schema import schema_of, wire_schema
from tidytape.wire import decode, encode, from_arrow, to_arrow
from tidytape.wire._arrow import ARROW_MIME
from tidytape.wire._decode import JSON_MIME

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


@each_row("name", DATA_TYPES)
def test_empty_frames_of_every_type(name: str) -> None:
    empty = wire_schema(name).empty()
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


@each_row(
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


def test_a_stream_that_does_not_name_its_type_has_the_columns_of_the_first_releases() -> None:
    schema = schema_of("TRADE")
    trades = schema.empty().drop(schema.descriptors)
    assert from_arrow(stream(trades.to_arrow(), None), "TRADE").equals(schema.empty())
    more = trades.with_columns(extra=pl.lit(1))
    for other in (schema.empty(), trades.drop("amount"), more):
        with pytest.raises(DecodeError, match="TRADE: the stream is of type ''"):
            from_arrow(stream(other.to_arrow(), None), "TRADE")


@each_row(
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
def test_buffers_may_be_compressed(codec: str) -> None:
    table = pa.ipc.open_stream(to_arrow(FRAME, SKEW)).read_all()
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression=codec)) as writer:
        writer.write_table(table)
    assert from_arrow(sink.getvalue(), SKEW).equals(FRAME)


@pytest.mark.parametrize(
    ("extra", "why"),
    [
        (pa.array([[{"a": 1}]]), "a column of list<"),
        (pa.array([{"a": 1}]), "a column of struct<"),
        (pa.array([[None]]), "a column of list<"),
    ],
    ids=["structs", "struct", "list of nulls"],
)
def test_columns_that_no_frame_of_json_has_are_refused(extra: pa.Array, why: str) -> None:
    with pytest.raises(DecodeError, match=why):
        from_arrow(stream(pa.table({"timestamp": TIMES, "extra": extra})), SKEW)


@pytest.mark.slow
def test_rows_that_have_no_bytes_are_bounded() -> None:
    nulls = pa.nulls(2**21)
    table = pa.table(
        {"timestamp": pa.array([7] * 2**21).cast(TIMES.type)} | {f"x{n}": nulls for n in range(50)}
    )
    with pytest.raises(DecodeError, match="there would be 2097152 rows of 51 columns, and a frame takes"):
        from_arrow(stream(table), SKEW)


def test_batches_that_share_a_large_dictionary_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    exchange = pa.DictionaryArray.from_arrays(pa.array([0], pa.int32()), ["x" * 50_000])
    batch = pa.record_batch({"timestamp": TIMES, "exchange": exchange})
    assert from_arrow(stream(pa.Table.from_batches([batch] * 5)), SKEW).height == 5
    monkeypatch.setattr("tidytape.wire._faults._FREE_CELLS", 2**10)
    with pytest.raises(DecodeError, match=r"it would hold .* bytes, and of .* bytes a frame takes"):
        from_arrow(stream(pa.Table.from_batches([batch] * 50)), SKEW)


def test_text_that_unpacks_to_much_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidytape.wire._faults._FREE_CELLS", 2**10)
    table = pa.table({"timestamp": TIMES, "extra": ["x" * 10**6]}).replace_schema_metadata(
        {"tidytape.type": SKEW}
    )
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(table)
    with pytest.raises(DecodeError, match="it would hold"):
        from_arrow(sink.getvalue(), SKEW)


@pytest.mark.parametrize("index", [2, -1, 2**31 - 1])
def test_a_dictionary_is_not_read_beyond_its_values(index: int) -> None:
    indices = pa.array([0, 1, None, index], pa.int32())
    exchange = pa.DictionaryArray.from_arrays(indices, ["X", "Y"], safe=False)
    table = pa.table(
        {"timestamp": pa.array([0, 1, 2, 3]).cast(pa.timestamp("ns", tz="UTC")), "exchange": exchange}
    )
    with pytest.raises(DecodeError, match="a dictionary of 2 has no values"):
        from_arrow(stream(table), SKEW)


@pytest.mark.slow
def test_more_columns_than_a_frame_takes() -> None:
    extra = [pl.lit(number).alias(f"f{number}") for number in range(10_000)]
    with pytest.raises(DecodeError, match="10000 different unknown fields, and a frame takes 256"):
        from_arrow(to_arrow(FRAME.with_columns(extra), SKEW), SKEW)
    assert from_arrow(to_arrow(FRAME.with_columns(extra[:1]), SKEW), SKEW).height == 3


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
