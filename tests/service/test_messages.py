"""Answers as messages say what answers in JSON say, of every data type and of many queries."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from itertools import product

import orjson
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from messages import comparable, json_of
from simulated import rollup_events as events
from simulated.everything import ASKED, everything
from tidytape import wire
from tidytape.catalogue import DATA_TYPES
from tidytape.errors import QueryError
from tidytape.query import PointsQuery
from tidytape.schema import schema_of
from tidytape.service.answer._engine import Engine
from tidytape.service.proto import market_data_pb2 as pb
from tidytape.service.proto._encode import encode_all
from tidytape.service.work._computing import PROTO_MIME, AnswerTask, computed
from tidytape.wire._decode import JSON_MIME

S0, DAY = events.START // 10**9, 86_400
MORE = [
    {},
    {"sort_direction": "desc"},
    {"quote": "USD"},
    {"group_by": "SUM"},
    {"group_by": "OPEN_INTEREST_WEIGHTED_AVG"},
    {"gapfill": True},
    {"tpo_block_minutes": 5},
    {"side": "BUY"},
    {"max_depth": 2},
]


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    return Engine(everything(tmp_path_factory.mktemp("every") / "lake"))


def both(engine: Engine, query: PointsQuery) -> tuple[bytes, bytes]:
    """The answer as JSON, and that of messages as JSON."""
    markets = engine.markets(query)
    json, messages = (
        computed(engine, AnswerTask(query, markets, form, "identity")).body
        for form in (JSON_MIME, PROTO_MIME)
    )
    assert isinstance(json, bytes)
    assert isinstance(messages, bytes)
    assert pb.PointResponse.FromString(messages).SerializeToString() == messages  # as protobuf writes it
    return json, json_of(messages)


def queries() -> Iterator[PointsQuery]:
    """Every data type with every option that it has."""
    for name, more, interval in product(sorted(ASKED), MORE, ("1h", "1d")):
        asked = {"type": name, "interval": interval, "start": S0, "end": S0 + DAY, **ASKED[name], **more}
        with suppress(QueryError):
            yield PointsQuery(**asked)


@pytest.mark.long
@pytest.mark.parametrize(
    "query", list(queries()), ids=lambda query: " ".join("=".join(one) for one in query.to_params())
)
def test_messages_say_what_json_says(engine: Engine, query: PointsQuery) -> None:
    (name,) = query.type
    json, messages = both(engine, query)
    assert comparable(orjson.loads(messages)) == comparable(orjson.loads(json))
    frame, other = (wire.decode(body, name) for body in (json, messages))
    lists = [column for column, dtype in frame.schema.items() if dtype == pl.List]
    assert frame.with_columns(pl.col(lists).fill_null([])).equals(
        other.with_columns(pl.col(lists).fill_null([]))
    )
    assert frame.height


def test_there_is_a_query_of_every_type() -> None:
    assert {name for query in queries() for name in query.type} == set(DATA_TYPES)


@pytest.mark.slow
def test_several_types_are_in_one_answer(engine: Engine) -> None:
    asked = {"exchange": "X", "coin": "BTC", "interval": "1h", "start": S0, "end": S0 + DAY}
    json, messages = both(engine, PointsQuery(type=["TRADE_AGG", "BLOCK_BOOK_SNAPSHOT_AGG"], **asked))
    assert comparable(orjson.loads(messages)) == comparable(orjson.loads(json))


def test_an_empty_answer_has_the_same_notes(engine: Engine) -> None:
    asked = {"type": "TRADE_AGG", "interval": "1h", "start": S0 - 9 * DAY, "end": S0 - 8 * DAY}
    json, messages = both(engine, PointsQuery(**asked, **ASKED["TRADE_AGG"]))
    assert orjson.loads(json)["notes"]
    assert orjson.loads(messages) == orjson.loads(json)


TIMES = st.integers(0, 2**32 * 10**9 - 1)
VALUES = {
    "Float64": st.floats(allow_nan=False),
    "Int64": st.integers(-(2**63), 2**63 - 1),
    "String": st.text(max_size=200),
    "Boolean": st.booleans(),
    "List(Int32)": st.lists(st.integers(-(2**31), 2**31 - 1), max_size=200),
    "List(Float64)": st.lists(st.floats(allow_nan=False), max_size=20),
}


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(DATA_TYPES))
@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_any_frame_becomes_messages(name: str, data: st.DataObject) -> None:
    """Whatever the values: nulls, no levels on a side, texts of any length, one series or several."""
    kind, schema = DATA_TYPES[name], schema_of(name, grouped=True)
    height = data.draw(st.integers(0, 12))
    rows: dict[str, list] = {}
    for column, dtype in schema.polars().items():
        if column == "timestamp":
            values = (
                st.sampled_from([0, 60 * 10**9, 60 * 10**9 + 1, (2**32 - 1) * 10**9])
                if kind.levels
                else TIMES
            )
        elif dtype == pl.Datetime:
            values = TIMES
        elif dtype == pl.Categorical:
            words = {
                "side": ["BID", "ASK"] if kind.levels else ["BUY", "SELL"],
                "category": ["SPOT", "OPTION"],
                "interval": ["1m", "HOUR"],
                "tenor": ["ONE_W"],
                "amount_unit": ["COIN", "USD"],
            }
            values = st.sampled_from(words.get(column, ["A", "é"]))
        else:
            values = VALUES[str(dtype)]
        if schema[column].nullable:
            values = st.none() | values
        rows[column] = data.draw(st.lists(values, min_size=height, max_size=height))
    plain = {column: dtype for column, dtype in schema.polars().items() if str(dtype) in VALUES}
    frame = schema.conform(pl.DataFrame(rows, schema_overrides=plain, strict=False))
    messages = encode_all([(name, frame)])
    assert pb.PointResponse.FromString(messages).SerializeToString() == messages
    got, expected = orjson.loads(json_of(messages)), orjson.loads(wire.encode(frame, name))
    assert comparable(got["series"]) == comparable(expected["series"])


def test_a_time_that_a_message_cannot_have_is_refused() -> None:
    frame = pl.DataFrame({"timestamp": [-1], "skew": [1.0]})
    with pytest.raises(QueryError, match="1970 to 2106"):
        encode_all([("SKEW_OPTION_SUMMARY_AGG", frame)])


def test_an_unknown_amount_is_not_zero() -> None:
    frame = pl.DataFrame({"timestamp": [0, 0], "liquidations": [None, 0.0], "side": ["BUY", "SELL"]})
    buy, sell = pb.PointResponse.FromString(encode_all([("LIQUIDATION_AGG", frame)])).series
    assert not buy.points[0].liquidation_agg.HasField("liquidations")
    assert sell.points[0].liquidation_agg.HasField("liquidations")
