"""Constant columns and the version in the metadata of an Arrow stream: who reads what, and what is refused."""

from __future__ import annotations

import io
import json
import math
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.ipc
import pytest
from polars.testing import assert_frame_equal

from tables import each_row
from tidytape.catalogue import DATA_TYPES
from tidytape.errors import DecodeError
from tidytape.schema import wire_schema
from tidytape.wire import from_arrow, to_arrow

CANDLES = "TRADE_SIDE_AGNOSTIC_AGG"
MARKET = {"exchange": "X", "raw_symbol": "BTC", "coin": "BTC", "interval": "1m", "amount_unit": "COIN"}
FRAME = wire_schema(CANDLES).conform(
    pl.DataFrame(
        {"timestamp": [0, 60, 120], "open": [1.5, 2.5, 0.5], "close": 2.0, "volume": [0.0, -0.0, 0.0]}
    )
    .with_columns(pl.lit(value).alias(name) for name, value in MARKET.items())
    .with_columns(data_until=pl.lit(10**18).cast(pl.Datetime("ns", "UTC")))
)


def schema_sent(body: bytes) -> pa.Schema:
    with pa.ipc.open_stream(body) as reader:
        return reader.schema


def constants_sent(body: bytes) -> dict[str, Any]:
    metadata = schema_sent(body).metadata or {}
    constants: dict[str, Any] = json.loads(metadata.get(b"tidytape.constants", "{}"))
    return constants


def changed(**metadata: str | None) -> bytes:
    """Return the stream of FRAME with constants once, and other metadata; None removes an entry."""
    with pa.ipc.open_stream(to_arrow(FRAME, CANDLES, constants_once=True)) as reader:
        table = reader.read_all()
    sent = {key.decode(): text.decode() for key, text in table.schema.metadata.items()}
    sent |= {f"tidytape.{name}": text for name, text in metadata.items()}
    table = table.replace_schema_metadata({key: text for key, text in sent.items() if text is not None})
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


# --- what travels once ---


def test_a_constant_column_is_in_the_metadata_and_not_among_the_columns() -> None:
    body = to_arrow(FRAME, CANDLES, constants_once=True)
    assert constants_sent(body) == {
        "exchange": {"place": 1, "type": "category", "value": "X"},
        "raw_symbol": {"place": 2, "type": "category", "value": "BTC"},
        "normalized_symbol": {"place": 3, "type": "category", "value": None},
        "coin": {"place": 4, "type": "category", "value": "BTC"},
        "category": {"place": 5, "type": "category", "value": None},
        "interval": {"place": 6, "type": "category", "value": "1m"},
        "amount_unit": {"place": 7, "type": "category", "value": "COIN"},
        "is_final": {"place": 8, "type": "bool", "value": None},
        "first_timestamp": {"place": 9, "type": "timestamp[ns, tz=UTC]", "value": None},
        "last_timestamp": {"place": 10, "type": "timestamp[ns, tz=UTC]", "value": None},
        "high": {"place": 12, "type": "double", "value": None},
        "low": {"place": 13, "type": "double", "value": None},
        "close": {"place": 14, "type": "double", "value": 2.0},
        "data_until": {"place": 16, "type": "timestamp[ns, tz=UTC]", "value": 10**18},
    }
    assert schema_sent(body).names == ["timestamp", "open", "volume"]  # 0.0 and -0.0 differ
    assert_frame_equal(from_arrow(body, CANDLES), from_arrow(to_arrow(FRAME, CANDLES), CANDLES))


@each_row("value", [math.nan, math.inf, -math.inf])
def test_numbers_that_json_does_not_have_travel_as_columns(value: float) -> None:
    body = to_arrow(FRAME.with_columns(close=value), CANDLES, constants_once=True)
    assert "close" in schema_sent(body).names
    assert from_arrow(body, CANDLES)["close"].equals(pl.Series("close", [value] * 3))


@each_row("value", [0.0, -0.0, 0.1, 5e-324, 1.7976931348623157e308, 2.0**53 + 2])
def test_numbers_come_back_exactly(value: float) -> None:
    read = from_arrow(to_arrow(FRAME.with_columns(close=value), CANDLES, constants_once=True), CANDLES)
    assert [number.hex() for number in read["close"]] == [value.hex()] * 3


@each_row(
    ("column", "how"),
    [
        (pl.Series("extra", ["x"] * 3), "once"),
        (pl.Series("extra", [7] * 3, pl.UInt64), "once"),
        (pl.Series("extra", [2**64 - 1] * 3, pl.UInt64), "once"),
        (pl.Series("extra", [-7] * 3, pl.Int8), "once"),
        (pl.Series("extra", [0.1] * 3, pl.Float32), "once"),
        (pl.Series("extra", [True] * 3), "once"),
        (pl.Series("extra", [None] * 3, pl.String), "once"),
        (pl.Series("extra", [None] * 3), "once"),
        (pl.Series("extra", ["x"] * 3, pl.Categorical()), "once"),
        (pl.Series("extra", ["x", "y", "x"]), "as a column"),
        (pl.Series("extra", ["x", None, "x"]), "as a column"),
        (pl.Series("extra", [7] * 3).cast(pl.Date), "as a column"),
        (pl.Series("extra", [[1.5]] * 3), "as a column"),
    ],
)
def test_columns_that_the_schema_does_not_know(column: pl.Series, how: str) -> None:
    frame = FRAME.with_columns(column)
    body = to_arrow(frame, CANDLES, constants_once=True)
    assert ("extra" in constants_sent(body)) == (how == "once")
    assert_frame_equal(from_arrow(body, CANDLES), from_arrow(to_arrow(frame, CANDLES), CANDLES))


def test_unknown_columns_keep_their_order() -> None:
    frame = FRAME.with_columns(a=pl.lit(1), b=pl.int_range(3), c=pl.lit("x"), d=pl.int_range(3))
    assert from_arrow(to_arrow(frame, CANDLES, constants_once=True), CANDLES).columns[-4:] == [
        "a",
        "b",
        "c",
        "d",
    ]


@each_row("name", DATA_TYPES)
def test_an_answer_without_rows_has_every_column(name: str) -> None:
    empty = wire_schema(name).empty()
    body = to_arrow(empty, name, constants_once=True)
    assert constants_sent(body) == {}
    assert from_arrow(body, name).schema == empty.schema


def test_one_row_has_its_time_as_a_column() -> None:
    body = to_arrow(FRAME.head(1), CANDLES, constants_once=True)
    assert schema_sent(body).names == ["timestamp"]
    assert_frame_equal(from_arrow(body, CANDLES), from_arrow(to_arrow(FRAME.head(1), CANDLES), CANDLES))


# --- plain readers ---


def test_any_reader_reads_the_plain_form() -> None:
    body = to_arrow(FRAME, CANDLES)
    expected = FRAME.select("exchange", "interval", "open", "close", "category").rows()
    assert expected[0] == ("X", "1m", 1.5, 2.0, None)
    table = pa.ipc.open_stream(body).read_all()
    assert table.column_names == FRAME.columns
    read = {
        "pyarrow": [tuple(row.values()) for row in table.to_pylist()],
        "polars": pl.read_ipc_stream(io.BytesIO(body)).rows(),
        "duckdb": duckdb.from_arrow(table).fetchall(),
    }
    for reader, rows in read.items():
        places = [FRAME.columns.index(name) for name in ("exchange", "interval", "open", "close", "category")]
        assert [tuple(row[place] for place in places) for row in rows] == expected, reader
    pandas = table.to_pandas()
    assert list(pandas.columns) == FRAME.columns
    assert list(pandas["exchange"]) == ["X"] * 3
    assert list(pandas["close"]) == [2.0] * 3
    assert constants_sent(body) == {}


# --- the version ---


def test_both_forms_say_their_version() -> None:
    for once in (False, True):
        metadata = schema_sent(to_arrow(FRAME, CANDLES, constants_once=once)).metadata
        assert metadata[b"tidytape.version"] == b"2"


def test_a_stream_without_a_version_is_read() -> None:
    assert_frame_equal(from_arrow(changed(version=None), CANDLES), from_arrow(changed(), CANDLES))


@each_row("version", ["3", "10", "2.1", "x", "", "-1", "9" * 5_000])
def test_a_newer_version_is_refused_with_what_to_do(version: str) -> None:
    with pytest.raises(DecodeError, match=r"reads up to version 2; update tidytape"):
        from_arrow(changed(version=version), CANDLES)


# --- what is refused ---


@each_row(
    ("constants", "why"),
    [
        ("[]", "cannot be read"),
        ("{", "cannot be read"),
        ('{"exchange": "X"}', "cannot be read"),
        ('{"exchange": {"type": "category", "value": "X"}}', "cannot be read"),
        ('{"exchange": {"place": "x", "type": "category", "value": "X"}}', "cannot be read"),
        ('{"exchange": {"place": 1, "type": "struct", "value": "X"}}', "cannot be read"),
        ('{"exchange": {"place": 1, "type": [], "value": "X"}}', "cannot be read"),
        ('{"exchange": {"place": 1, "type": "category", "value": 7}}', "cannot be read"),
        ('{"exchange": {"place": 1, "type": "category", "value": ["X"]}}', "cannot be read"),
        ('{"close": {"place": 1, "type": "double", "value": "2"}}', "cannot be read"),
        ('{"count": {"place": 1, "type": "int8", "value": 128}}', "cannot be read"),
        ('{"close": {"place": 1, "type": "int64", "value": 2}}', "column close is Int64"),
        ('{"exchange": {"place": 1, "type": "int64", "value": 2}}', "column exchange is Int64"),
        ('{"open": {"place": 1, "type": "double", "value": 2.0}}', "duplicate|open"),
    ],
)
def test_constants_that_are_none(constants: str, why: str) -> None:
    with pytest.raises(DecodeError, match=why):
        from_arrow(changed(constants=constants), CANDLES)


@each_row("place", [-5, 0, 99, 10**18])
def test_a_place_that_does_not_exist_loses_nothing(place: int) -> None:
    constants = {"exchange": {"place": place, "type": "category", "value": "X"}}
    assert from_arrow(changed(constants=json.dumps(constants)), CANDLES)["exchange"].to_list() == ["X"] * 3


@each_row(
    ("name", "entry"),
    [
        ("block_size_minutes", {"type": "int64", "value": 1.5}),
        ("period_end", {"type": "timestamp[ns, tz=UTC]", "value": 1.5}),
        ("is_odd", {"type": "uint8", "value": 1.0}),
        ("coin", {"place": 1.5, "type": "category", "value": "X"}),
        ("coin", {"place": 10**30, "type": "category", "value": "X"}),
        ("coin", {"place": "1", "type": "category", "value": "X"}),
    ],
)
def test_a_number_that_is_not_whole_is_refused_where_an_integer_is_due(
    name: str, entry: dict[str, Any]
) -> None:
    constants = json.dumps({name: {"place": 1} | entry})
    with pytest.raises(DecodeError, match="the constant columns of the stream cannot be read"):
        from_arrow(changed(constants=constants), CANDLES)


def test_a_time_that_is_null_is_refused() -> None:
    table = pa.table({"open": [1.5]}).replace_schema_metadata(
        {
            "tidytape.type": CANDLES,
            "tidytape.constants": '{"timestamp": {"place": 0, "type": "timestamp[ns, tz=UTC]", "value": null}}',
        }
    )
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    with pytest.raises(DecodeError, match="timestamp has nulls"):
        from_arrow(sink.getvalue(), CANDLES)


def test_constants_are_bounded_like_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    many = {f"x{number}": {"place": 0, "type": "int64", "value": 1} for number in range(300)}
    with pytest.raises(DecodeError, match="300 different unknown fields"):
        from_arrow(changed(constants=json.dumps(many)), CANDLES)
    monkeypatch.setattr("tidytape.wire._faults._FREE_CELLS", 2**8)
    rows = wire_schema(CANDLES).conform(FRAME.select(pl.col("timestamp").repeat_by(2_000).explode()))
    assert from_arrow(to_arrow(rows, CANDLES, constants_once=True), CANDLES).height == 6_000
    wide = rows.with_columns(pl.lit(1).alias(f"x{number}") for number in range(50))
    with pytest.raises(DecodeError, match="rows of 66 columns, and a frame takes"):
        from_arrow(to_arrow(wide, CANDLES, constants_once=True), CANDLES)
    long = rows.with_columns(pl.lit("x" * 2_000).alias("text"))
    with pytest.raises(DecodeError, match="it would hold"):
        from_arrow(to_arrow(long, CANDLES, constants_once=True), CANDLES)
