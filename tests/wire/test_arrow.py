"""The Arrow lane: what other readers see, and streams that are not what they should be."""

from __future__ import annotations

import io

import polars as pl
import pyarrow as pa
import pyarrow.ipc
import pytest

from tidytape.catalogue import DATA_TYPES
from tidytape.errors import DecodeError, QueryError
from tidytape.schema import schema_of
from tidytape.wire import ARROW_MIME, JSON_MIME, decode, encode, from_arrow, to_arrow

SKEW = "SKEW_OPTION_SUMMARY_AGG"
FRAME = schema_of(SKEW).conform(
    pl.DataFrame({"exchange": ["X", "X", None], "timestamp": [0, 1, 2], "skew": [1.5, None, float("nan")]})
)


def stream(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def test_media_types() -> None:
    assert (ARROW_MIME, JSON_MIME) == ("application/vnd.apache.arrow.stream", "application/json")


@pytest.mark.parametrize("name", DATA_TYPES)
def test_empty_frames_of_every_type(name: str) -> None:
    empty = schema_of(name).empty()
    assert from_arrow(to_arrow(empty), name).equals(empty)
    assert from_arrow(to_arrow(empty), name).schema == empty.schema


def test_it_is_the_frame_that_json_gives() -> None:
    assert from_arrow(to_arrow(FRAME), SKEW).equals(decode(encode(FRAME, SKEW), SKEW))


def test_any_arrow_reader_can_read_it() -> None:
    table = pa.ipc.open_stream(to_arrow(FRAME)).read_all()
    assert pa.types.is_dictionary(table.schema.field("exchange").type)
    assert table.schema.field("timestamp").type == pa.timestamp("ns", tz="UTC")
    assert table["exchange"].to_pylist() == ["X", "X", None]


def test_a_frame_of_several_chunks() -> None:
    assert from_arrow(to_arrow(pl.concat([FRAME, FRAME], rechunk=False)), SKEW).equals(
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
    with pytest.raises(DecodeError, match="no column id"):
        from_arrow(to_arrow(FRAME), "TRADE")
    with pytest.raises(QueryError):
        from_arrow(to_arrow(FRAME), "SKEW")


@pytest.mark.parametrize(
    "body", [b"", b"{}", b"\xff\xff\xff\xff", b"ARROW1\0\0", to_arrow(FRAME)[:-200], to_arrow(FRAME)[:50]]
)
def test_bodies_that_are_no_stream(body: bytes) -> None:
    with pytest.raises(DecodeError, match="not an Arrow stream"):
        from_arrow(body, SKEW)


def test_text_that_is_not_utf8_is_found() -> None:
    body = to_arrow(
        pl.DataFrame({"exchange": ["SPOILED"]}).with_columns(
            timestamp=pl.lit(0).cast(pl.Datetime("ns", "UTC"))
        )
    )
    assert from_arrow(body, SKEW)["exchange"].to_list() == ["SPOILED"]
    with pytest.raises(DecodeError):
        from_arrow(body.replace(b"SPOILED", b"SPO\xff\xfeED"), SKEW)
