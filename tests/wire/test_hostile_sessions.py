"""Market profiles of a service that sends names of ours, or more levels than its bytes can hold."""

from __future__ import annotations

import io
import json
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.ipc
import pytest
from polars.testing import assert_frame_equal

from tables import each_row
from tidytape.errors import DecodeError
from tidytape.wire import decode, encode, from_arrow, levels_of, nested, sessions_of, to_arrow
from tidytape.wire._sessions import IN_PROGRESS, reserved_names

SESSION = {
    "timestamp": {"s": 86_400},
    "period_end": {"s": 172_800},
    "block_size_minutes": 30,
    "single_prints": [10.0],
}
LEVEL = {"price": 10.0, "block_ids": [3], "volume": 2.0, "tpo_count": 1, "last_touch_block": 3}


def frame_of(session: dict[str, Any], level: dict[str, Any]) -> pl.DataFrame:
    """Return the frame of a body with one session, and one level in it."""
    payload = {**SESSION, **session, "levels": [{**LEVEL, **level}]}
    series = {"id": {"exchange": "X", "rawSymbol": "BTC"}, "points": [{"Point": {"TpoAggregation": payload}}]}
    return decode(json.dumps({"series": [series]}).encode(), "TPO_AGG")


PLAIN = frame_of({}, {})


def stream(frame: pl.DataFrame, **column: Any) -> bytes:
    """Return an Arrow stream of a frame with another column."""
    with pa.ipc.open_stream(to_arrow(frame, "TPO_AGG")) as reader:
        table = reader.read_all()
    for name, values in column.items():
        place = table.schema.get_field_index(name)
        table = table.append_column(name, values) if place < 0 else table.set_column(place, name, values)
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(table)
    return sink.getvalue()


@pytest.mark.slow
@each_row("name", sorted(reserved_names("TPO_AGG")))
@each_row("value", ["x", 0.5])
def test_a_field_of_a_level_with_a_name_of_ours_replaces_nothing(name: str, value: Any) -> None:
    frame = frame_of({"coverage": 0.5}, {name: value})
    plain = frame_of({"coverage": 0.5}, {})
    levels = levels_of(frame)
    assert_frame_equal(levels.drop(f"level_{name}"), levels_of(plain))
    assert_frame_equal(sessions_of(frame), sessions_of(plain))
    for read in (
        from_arrow(to_arrow(frame, "TPO_AGG"), "TPO_AGG"),
        decode(encode(frame, "TPO_AGG"), "TPO_AGG"),
    ):
        assert_frame_equal(levels_of(read), levels)


@each_row("name", sorted(reserved_names("TPO_AGG")))
def test_a_stream_whose_levels_have_a_column_of_ours_is_refused(name: str) -> None:
    level = {"price": 10.0, name: 1}
    with pytest.raises(DecodeError, match="which levels do not have on the way"):
        from_arrow(stream(PLAIN, levels=pa.array([[level]])), "TPO_AGG")


@each_row("value", ["x", 0, 0.5, True, [1], {"a": 1}])
def test_a_block_in_progress_that_a_service_sends_is_an_unknown_field(value: Any) -> None:
    frame = frame_of({IN_PROGRESS: value}, {})
    assert_frame_equal(levels_of(frame), levels_of(PLAIN))
    assert f"point_{IN_PROGRESS}" in sessions_of(frame).columns


@each_row("value", ["x", 0, 0.5, [1], None])
def test_a_stream_with_a_block_in_progress_is_refused(value: Any) -> None:
    with pytest.raises(DecodeError, match="which only a client has"):
        from_arrow(stream(PLAIN, **{IN_PROGRESS: pa.array([value])}), "TPO_AGG")


@pytest.mark.slow
@each_row("name", ["price", "volume", "block_ids", "tpo_count", "first_touch_block"])
def test_levels_keep_their_columns_if_sessions_have_one_of_the_same_name(name: str) -> None:
    frame = frame_of({name: 7}, {})
    levels, sessions = levels_of(frame), sessions_of(frame)
    assert sessions[name].to_list() == [7]
    assert_frame_equal(levels_of(nested(levels, sessions)), levels_of(PLAIN))


def test_levels_count_as_rows_of_a_stream() -> None:
    count = 1_000_000
    fields = [PLAIN.schema["levels"].inner.fields[0].name]  # type: ignore[attr-defined]
    prices = pa.StructArray.from_arrays([pa.array(np.zeros(count))], names=fields)
    body = stream(PLAIN, levels=pa.LargeListArray.from_arrays(pa.array([0, count]), prices))
    assert len(body) < 20_000
    with pytest.raises(DecodeError, match="there would be 1000000 rows"):
        from_arrow(body, "TPO_AGG")


def test_a_list_of_a_level_with_a_wrong_offset_is_refused() -> None:
    # The offsets of the lists of blocks. pyarrow crashes if it counts bytes behind them.
    body = to_arrow(frame_of({}, {"block_ids": [7] * 1_234}), "TPO_AGG")
    offsets = np.array([0, 1_234]).tobytes()
    start = body.rindex(offsets)  # the head of the batch has these bytes too
    for wrong in (-(2**56), 2**56, 1_235, -1):
        wrong_offsets = np.array([0, wrong]).tobytes()
        with pytest.raises(DecodeError, match="the body is not an Arrow stream"):
            from_arrow(body[:start] + wrong_offsets + body[start + len(offsets) :], "TPO_AGG")


def test_levels_with_two_columns_of_one_name_are_refused() -> None:
    columns = [pa.array([10.0]), pa.array([1.0]), pa.array([2.0])]
    levels = pa.StructArray.from_arrays(columns, names=["price", "buy_volume", "buy_volume"])
    with pytest.raises(DecodeError, match="a column of "):
        from_arrow(stream(PLAIN, levels=pa.LargeListArray.from_arrays(pa.array([0, 1]), levels)), "TPO_AGG")


def test_a_name_inside_a_list_that_is_not_utf8_is_refused() -> None:
    body = stream(PLAIN, single_prints=pa.array([[10.0]], pa.large_list(pa.field("qqqq", pa.float64()))))
    assert body.count(b"qqqq") == 1
    with pytest.raises(DecodeError, match="can't decode byte"):
        from_arrow(body.replace(b"qqqq", b"q\xffqq"), "TPO_AGG")
