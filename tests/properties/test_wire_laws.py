"""Laws of the wire: writing and reading are inverses, the lanes agree, and no body whatever breaks a
reader."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from tables import in_columns
from tidytape.catalogue import (
    DATA_TYPES,
    DESCRIPTOR_FIELDS,
    IDENTITY_FIELDS,
    DataType,
    Field,
    Interval,
    Levels,
)
from tidytape.errors import DecodeError
from tidytape.schema import LEVELS, LISTS, TPO_SESSIONS, Schema, data_type, schema_of, wire_schema
from tidytape.wire import _columnar as columnar
from tidytape.wire import decode, encode, flat, from_arrow, levels_of, nested, sessions_of, to_arrow
from tidytape.wire._encode import encode_all
from tidytape.wire._faults import parsed, placed
from tidytape.wire._sessions import IN_PROGRESS
from tidytape.wire._spelling import respelled
from tidytape.wire._tidy import Parts, identity_columns

SECOND = 1_000_000_000


@pytest.fixture(scope="module", params=[1, columnar.PIECE], ids=["cut", "whole"])
def _pieces(request: pytest.FixtureRequest) -> Iterator[None]:
    """Long bodies are read in pieces; here short ones are too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(columnar, "PIECE", request.param)
        yield


ALL_TYPES = st.sampled_from(list(DATA_TYPES)).map(data_type)

# --- frames -------------------------------------------------------------------------------------------------

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
times = st.one_of(
    st.integers(-(2**63), 2**63 - 1),
    st.integers(0, 2**31).map(lambda s: s * SECOND),
    st.sampled_from([0, -1, 1]),
)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "double": st.one_of(st.floats(), st.integers(0, 100).map(float)),
    "int64": st.integers(-(2**63), 2**63 - 1),
    "string": texts,
    "bool": st.booleans(),
    "timestamp": times,
    "int32[]": st.lists(st.none() | st.integers(-(2**31), 2**31 - 1), max_size=3),
    "double[]": st.lists(st.none() | st.floats(), max_size=3),
}


DESCRIBED: dict[str, st.SearchStrategy[Any]] = {
    "amount_unit": st.sampled_from([None, "COIN", "USD"]),
    "block_size": st.none() | st.floats(0, exclude_min=True, allow_infinity=False),
    "data_until": st.none() | times,
}


def row(fields: tuple[Field, ...], required: tuple[str, ...] = ()) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {f.column: VALUES[f.kind] if f.column in required else st.none() | VALUES[f.kind] for f in fields}
    )


@st.composite
def frames(draw: st.DrawFn, kind: DataType) -> pl.DataFrame:
    """A frame as `decode` could have given it: rows of a series together, of a point together, bids first."""
    schema = wire_schema(kind.name)
    identity = identity_columns(kind)
    payload = tuple(field for field in kind.fields if field.column not in (*identity, "timestamp"))
    described = {
        column: DESCRIBED[column] for column in (*schema.descriptors, "data_until") if column in DESCRIBED
    }
    ids = st.fixed_dictionaries({column: st.none() | texts for column in identity} | described)
    rows = []
    for series in draw(st.lists(ids, max_size=3, unique_by=lambda one: tuple(map(one.get, identity)))):
        for time in draw(st.lists(times, min_size=1, max_size=3, unique=bool(kind.levels))):
            point = series | {"timestamp": time} | draw(row(payload, required=("id",)))
            levels = [
                level | ({"side": part.book_side} if part.book_side else {})
                for part in kind.levels
                for level in draw(st.lists(row(part.fields, required=("price",)), max_size=2))
            ]
            if kind.has_sessions:
                rows.append(point | {LEVELS: levels})
            else:
                rows += [point | level for level in levels] if kind.levels else [point]
    dtypes = {name: _raw(dtype) for name, dtype in schema.polars().items()}
    made = pl.DataFrame(rows, schema=dtypes | {"data_until": pl.Int64()})
    frame = schema.conform(made).with_columns(pl.col("data_until").cast(pl.Datetime("ns", "UTC")))
    if frame["data_until"].null_count() == frame.height:
        frame = frame.drop("data_until")
    levels = {field.column for part in kind.level_rows for field in part.fields}
    if "volume" in frame.columns and {"buy_volume", "sell_volume"} <= levels and "volume" not in levels:
        frame = frame.with_columns(volume=pl.col("buy_volume") + pl.col("sell_volume"))
    return frame


def _raw(dtype: pl.DataType) -> pl.DataType:
    if isinstance(dtype, pl.Datetime):
        return pl.Int64()
    return pl.String() if dtype == pl.Categorical else dtype


def assert_same(left: pl.DataFrame, right: pl.DataFrame) -> None:
    assert left.schema == right.schema
    assert left.equals(right)
    # To Python a negative zero equals zero; written out it does not.
    assert repr(left.rows()) == repr(right.rows())


def given_values(frame: pl.DataFrame) -> pl.DataFrame:
    """Return what is written: what follows from the rest is not."""
    return frame.drop("is_final", "is_in_progress", IN_PROGRESS, strict=False)


@pytest.mark.slow
@given(st.data(), ALL_TYPES)
def test_decode_is_the_inverse_of_encode(data: st.DataObject, kind: DataType) -> None:
    frame = data.draw(frames(kind))
    body = encode(frame, kind.name)
    assert_same(given_values(decode(body, kind.name)), given_values(frame))
    json.loads(body, parse_constant=_no_word)


def _no_word(word: str) -> None:
    raise AssertionError(f"{word} is no JSON")


def by_value(body: bytes, kind: DataType) -> Parts:
    """Read a body value by value, as `decode` does where its columns cannot be read from the bytes."""
    with placed(kind.name) as place:
        return columnar.read_spelled(respelled(parsed(body), kind, place), kind, len(body))


@pytest.mark.slow
@pytest.mark.usefixtures("_pieces")
@given(st.data(), ALL_TYPES)
def test_both_lanes_read_the_same(data: st.DataObject, kind: DataType) -> None:
    body = encode(data.draw(frames(kind)), kind.name)
    fast = columnar.read(body, kind)
    if fast is not None:
        assert_same(fast.frame(kind), by_value(body, kind).frame(kind))


@pytest.mark.slow
@given(st.data(), ALL_TYPES)
def test_rows_may_lie_anywhere(data: st.DataObject, kind: DataType) -> None:
    frame = data.draw(frames(kind))
    key = [*identity_columns(kind), "timestamp", *(["side"] if any(p.book_side for p in kind.levels) else [])]
    spread = {field.column for field in kind.fields if kind.level_rows}
    spread -= {*identity_columns(kind), "timestamp"}
    spread |= {"is_final"}
    names = [name for name in frame.columns if name not in spread]
    shuffled = frame.sample(fraction=1, shuffle=True, seed=data.draw(st.integers(0, 9)))
    back = decode(encode(shuffled, kind.name), kind.name)
    assert_same(
        back.select(names).sort(key, maintain_order=True),
        shuffled.select(names).sort(key, maintain_order=True),
    )


@pytest.mark.slow
@given(st.data(), ALL_TYPES, ALL_TYPES)
def test_types_in_one_body_do_not_see_each_other(data: st.DataObject, one: DataType, other: DataType) -> None:
    first, second = data.draw(frames(one)), data.draw(frames(other))
    body = encode_all([(one.name, first), (other.name, second)])
    if one != other:
        types = [one.name, other.name]
        assert_same(given_values(decode(body, one.name, among=types)), given_values(first))
        assert_same(given_values(decode(body, other.name, among=types)), given_values(second))


# --- market profiles ----------------------------------------------------------------------------------------

TPO = data_type("TPO_AGG")
UNKNOWN: dict[str, tuple[pl.DataType, st.SearchStrategy[Any]]] = {
    "of_text": (pl.String(), texts),
    "of_flag": (pl.Boolean(), st.booleans()),
    "of_count": (pl.Int64(), st.integers(-(2**63), 2**63 - 1)),
}


@st.composite
def profiles(draw: st.DrawFn) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Levels and sessions of markets or groups, in the order of the wire; each may have unknown fields."""
    whole = draw(frames(TPO)).unique(["exchange", "raw_symbol", "coin", "timestamp"], maintain_order=True)
    if whole.height and draw(st.booleans()):
        shares = draw(st.lists(st.floats(0, 1), min_size=whole.height, max_size=whole.height))
        whole = whole.with_columns(coverage=pl.Series(shares, dtype=pl.Float64))
    return draw(with_unknown(levels_of(whole), "level")), draw(with_unknown(sessions_of(whole), "session"))


@st.composite
def with_unknown(draw: st.DrawFn, frame: pl.DataFrame, of: str) -> pl.DataFrame:
    for name in draw(st.sets(st.sampled_from(sorted(UNKNOWN)))):
        dtype, values = UNKNOWN[name]
        column = draw(st.lists(st.none() | values, min_size=frame.height, max_size=frame.height))
        if any(value is not None for value in column):
            frame = frame.with_columns(pl.Series(f"{of}_{name}", column, dtype))
    return frame


def described_by(frame: pl.DataFrame, schema: Schema) -> bool:
    """Return whether a frame has the columns of a schema first, in their order."""
    names = (schema.with_coverage() if "coverage" in frame.columns else schema).names
    return frame.columns[: len(names)] == [*names]


@pytest.mark.slow
@given(profiles())
def test_levels_and_sessions_come_back_as_the_pair(pair: tuple[pl.DataFrame, pl.DataFrame]) -> None:
    levels, sessions = pair
    travelling = nested(levels, sessions)
    for back in (
        decode(encode(travelling, TPO.name), TPO.name),
        from_arrow(to_arrow(travelling, TPO.name), TPO.name),
    ):
        own_levels, own_sessions = levels_of(back), sessions_of(back)
        assert described_by(own_levels, schema_of(TPO.name))
        assert described_by(own_sessions, TPO_SESSIONS)
        assert_same(given_values(in_columns(own_levels, levels.columns)), given_values(levels))
        assert_same(given_values(in_columns(own_sessions, sessions.columns)), given_values(sessions))


@pytest.mark.slow
@given(frames(TPO))
def test_a_level_has_nothing_of_its_session_but_the_flags_of_its_lists(whole: pl.DataFrame) -> None:
    levels, sessions = levels_of(whole), sessions_of(whole)
    in_both = {"timestamp", *TPO_SESSIONS.identity, *TPO_SESSIONS.descriptors}
    assert {*levels.columns} & {*sessions.columns} == in_both
    flags = levels.select("price", *LISTS).rows(named=True)
    for session, own in zip(whole.rows(named=True), whole[LEVELS].to_list(), strict=True):
        for level in own:
            row = flags.pop(0)
            assert same(row["price"], level["price"])
            for flag, prices in LISTS.items():
                listed = session[prices]
                wanted = None if listed is None else any(same(level["price"], price) for price in listed)
                assert row[flag] is wanted
    assert not flags


@pytest.mark.slow
@given(profiles())
def test_a_frame_of_sessions_is_the_nest_of_its_two_frames(pair: tuple[pl.DataFrame, pl.DataFrame]) -> None:
    whole = nested(*pair)
    assert_same(nested(levels_of(whole), sessions_of(whole)), whole)


@pytest.mark.slow
@given(st.data(), ALL_TYPES)
def test_arrow_is_the_same_frame(data: st.DataObject, kind: DataType) -> None:
    frame = data.draw(frames(kind))
    back = from_arrow(to_arrow(frame, kind.name), kind.name)
    assert_same(given_values(back), given_values(frame))


def from_text(text: pl.Expr, dtype: pl.DataType) -> pl.Expr:
    """Return a column of a CSV file in the dtype that it was written from, as the guides say."""
    if isinstance(dtype, pl.Datetime):
        return text.str.to_datetime(time_unit="ns", time_zone="UTC")
    if isinstance(dtype, pl.List):
        return text.str.json_decode(dtype)
    return text == "true" if dtype == pl.Boolean else text.cast(dtype)


@st.composite
def frames_with_constants(draw: st.DrawFn, kind: DataType) -> pl.DataFrame:
    """Return a frame with some columns that have the value of one of their rows on every row, unknown columns too."""
    frame = draw(frames(kind))
    number = st.sampled_from([0.0, -0.0, math.nan, math.inf, 1e-320, 0.1])
    column = st.lists(number | st.none(), min_size=frame.height, max_size=frame.height)
    frame = frame.with_columns(
        pl.Series("numbers", draw(column), pl.Float64),
        pl.Series("small", draw(column), pl.Float32),
        pl.lit(draw(texts)).alias("note"),
        pl.lit(draw(st.integers(0, 2**64 - 1)), pl.UInt64).alias("count"),
        pl.lit(None).alias("nothing"),
    )
    constants = draw(st.sets(st.sampled_from(frame.columns))) if frame.height else ()
    row = draw(st.integers(0, max(frame.height - 1, 0)))
    return frame.with_columns(frame[name].new_from_index(row, frame.height) for name in constants)


@pytest.mark.slow
@given(st.data(), ALL_TYPES)
def test_a_flat_frame_comes_back_from_csv(data: st.DataObject, kind: DataType) -> None:
    drawn = data.draw(frames(kind))
    for frame in (levels_of(drawn), sessions_of(drawn)) if kind.has_sessions else (drawn,):
        columns = flat(frame)
        assert not any(dtype.is_nested() or dtype.is_temporal() for dtype in columns.dtypes)
        assert flat(columns).equals(columns)
        assert flat(frame.lazy()).collect().equals(columns)
        written = pl.read_csv(columns.write_csv().encode(), infer_schema=False)
        back = written.select(from_text(pl.col(name), dtype) for name, dtype in frame.schema.items())
        numbers = pl.selectors.by_dtype(pl.List(pl.Float64))
        finite = pl.when(pl.element().is_finite()).then(pl.element())
        assert_same(back, frame.with_columns(numbers.list.eval(finite)))


@pytest.mark.slow
@given(st.data(), ALL_TYPES)
def test_constants_that_travel_once_come_back_bit_by_bit(data: st.DataObject, kind: DataType) -> None:
    frame = data.draw(frames_with_constants(kind))
    plain = from_arrow(to_arrow(frame, kind.name), kind.name)
    once = from_arrow(to_arrow(frame, kind.name, constants_once=True), kind.name)
    assert_same(once, plain)


@pytest.mark.slow
@given(
    st.lists(
        st.tuples(st.none() | texts, st.none() | st.booleans(), st.none() | st.integers(-(2**63), 2**63 - 1))
    )
)
def test_unknown_scalars_come_back(values: list[tuple[Any, ...]]) -> None:
    schema = {"note": pl.String, "live": pl.Boolean, "count": pl.Int64}
    extras = pl.DataFrame(values, schema=schema, orient="row")
    extras = extras.select(column for column in extras if column.null_count() < len(column))
    kind = DATA_TYPES["SKEW_OPTION_SUMMARY_AGG"]
    frame = schema_of(kind.name).conform(extras.with_columns(timestamp=pl.int_range(extras.height)))
    back = decode(encode(frame, kind.name), kind.name)
    assert_same(back.select(frame.columns), frame)


# --- the plain oracle ---------------------------------------------------------------------------------------


ALIASES = {interval.value: interval.alias for interval in Interval}


def plain(body: bytes, kind: DataType) -> list[dict[str, Any]]:
    """The rows of a contract-shaped body, one value after the other; times in nanoseconds."""
    rows = []
    for series in json.loads(body).get("series", []):
        identity = series.get("id", {})
        if identity.get("type", kind.name) != kind.name:
            continue
        columns = {field.column: identity.get(field.name) for field in IDENTITY_FIELDS} | {
            f.column: plain_value(identity.get(f.name), f) for f in DESCRIPTOR_FIELDS
        }
        columns["interval"] = ALIASES.get(columns["interval"], columns["interval"])
        if columns["block_size"] is not None and not 0 < columns["block_size"] < math.inf:
            columns["block_size"] = None
        for point in series.get("points", []):
            payload = point["Point"]
            if kind.envelope:
                payload = payload[kind.envelope]
            named = {f.column: plain_value(payload.get(f.name), f) for f in kind.fields}
            base = columns | {name: value for name, value in named.items() if columns.get(name) is None}
            base["is_final"] = plain_finality(base, kind)
            levels = [
                level for part in kind.levels for level in plain_levels(payload.get(part.name, []), part)
            ]
            if kind.has_sessions:
                rows.append(base | {LEVELS: levels})
            else:
                rows += [base | level for level in levels] if kind.levels else [base]
    return rows


def plain_levels(sent: list[Any], part: Levels) -> list[dict[str, Any]]:
    """The levels of one array of a point."""
    if part.flat:
        stride = len(part.fields)
        sent = [
            {field.name: sent[start + place] for place, field in enumerate(part.fields)}
            for start in range(0, len(sent), stride)
        ]
    side = {"side": part.book_side.value} if part.book_side else {}
    return [{f.column: plain_value(level.get(f.name), f) for f in part.fields} | side for level in sent]


def plain_finality(row: dict[str, Any], kind: DataType) -> bool | None:
    if kind.envelope:
        end = row["period_end"]
    else:
        lengths = {name: one.seconds * SECOND for one in Interval for name in (one.value, one.alias)}
        length = lengths.get(row["interval"])
        end = None if length is None else row["timestamp"] + length
    return None if end is None or row["data_until"] is None else end <= row["data_until"]


def plain_value(value: Any, field: Field) -> Any:
    if value is None:
        return None
    if field.kind == "timestamp":
        return int(value.get("s", 0)) * SECOND + int(value.get("ns", 0))
    if field.kind == "double":
        return float(value)
    if field.kind == "int64":
        return int(value)
    if field.kind.endswith("[]"):
        return [
            None if item is None else (float if field.kind == "double[]" else int)(item) for item in value
        ]
    return value


# --- bodies -------------------------------------------------------------------------------------------------

finite = st.floats(allow_nan=False, allow_infinity=False)
seconds = st.integers(-9_223_372_035, 9_223_372_035)
PLAIN: dict[str, st.SearchStrategy[Any]] = {
    "double": finite | st.integers(-(2**70), 2**70),
    "int64": st.integers(-(2**63), 2**63 - 1),
    "string": texts,
    "timestamp": st.fixed_dictionaries({"s": seconds}, optional={"ns": st.integers(0, SECOND - 1)}),
    "int32[]": st.lists(st.integers(-(2**31), 2**31 - 1), max_size=3),
    "double[]": st.lists(finite, max_size=3),
}
# The same, in every spelling of proto3 JSON.
SPELT: dict[str, st.SearchStrategy[Any]] = PLAIN | {
    "double": st.one_of(
        PLAIN["double"], PLAIN["double"].map(str), st.sampled_from(["NaN", "Infinity", "-Infinity"])
    ),
    "int64": st.one_of(PLAIN["int64"], PLAIN["int64"].map(str)),
    "timestamp": st.fixed_dictionaries(
        {}, optional={"s": seconds | seconds.map(str), "ns": st.integers(0, SECOND - 1).map(str)}
    ),
    "double[]": st.lists(finite | finite.map(str), max_size=3),
}


def members(
    fields: tuple[Field, ...], values: dict[str, st.SearchStrategy[Any]], required: tuple[str, ...]
) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {f.name: values[f.kind] for f in fields if f.column in required},
        optional={f.name: values[f.kind] | st.none() for f in fields if f.column not in required},
    )


@st.composite
def bodies(draw: st.DrawFn, kind: DataType, values: dict[str, st.SearchStrategy[Any]]) -> bytes:
    arrays = {
        levels.name: st.lists(st.tuples(*(values[f.kind] for f in levels.fields)), max_size=3).map(
            lambda rows: [value for row in rows for value in row]
        )
        if levels.flat
        else st.lists(members(levels.fields, values, ("price",)), max_size=3)
        for levels in kind.levels
    }
    payload = st.builds(
        lambda scalars, levels: scalars | levels,
        members(kind.fields, values, ("timestamp", "id")),
        st.fixed_dictionaries({}, optional=arrays),
    )
    if kind.envelope:
        payload = payload.map(lambda inner: {kind.envelope: inner})
    known = {*identity_columns(kind), *wire_schema(kind.name).descriptors, "data_until"}
    described = {
        "amountUnit": st.sampled_from(["COIN", "USD"]),
        "interval": st.sampled_from(["MINUTE", "1h", "WEEK", "another"]),
    }
    identity = st.builds(
        lambda scalars, drawn, name: (
            scalars | {key: value for key, value in drawn.items() if key in scalars} | name
        ),
        members(tuple(f for f in (*IDENTITY_FIELDS, *DESCRIPTOR_FIELDS) if f.column in known), values, ()),
        st.fixed_dictionaries(described),
        st.fixed_dictionaries({}, optional={"type": st.sampled_from([kind.name, "ANOTHER"])}),
    )
    points = st.lists(payload.map(lambda inner: {"Point": inner}), max_size=3)
    series = st.fixed_dictionaries({"id": identity}, optional={"points": points})
    document = {"series": draw(st.lists(series, max_size=3))}
    indent = draw(st.sampled_from([None, 1]))
    return json.dumps(document, indent=indent, ensure_ascii=draw(st.booleans())).encode()


@pytest.mark.slow
@pytest.mark.usefixtures("_pieces")
@pytest.mark.parametrize("values", [PLAIN, SPELT], ids=["plain", "proto3"])
@given(data=st.data(), kind=ALL_TYPES)
def test_decode_agrees_with_plain_loops(
    values: dict[str, st.SearchStrategy[Any]], data: st.DataObject, kind: DataType
) -> None:
    body = data.draw(bodies(kind, values))
    frame = decode(body, kind.name, among=["ANOTHER"])
    got = frame.with_columns(pl.col(pl.Datetime).dt.epoch("ns")).rows(named=True)
    wanted = plain(body, kind)
    assert len(got) == len(wanted)
    for row, oracle in zip(got, wanted, strict=True):
        derived = set(row) - set(oracle)
        assert derived <= {"volume", "point_coin", IN_PROGRESS}
        for name in set(row) - derived:
            assert same(row[name], oracle[name]), (name, row[name], oracle[name])
        if "volume" in derived and None not in (oracle["buy_volume"], oracle["sell_volume"]):
            assert same(row["volume"], oracle["buy_volume"] + oracle["sell_volume"])


def same(left: Any, right: Any) -> bool:
    if type(left) is type(right) is list:
        return len(left) == len(right) and all(map(same, left, right))
    if type(left) is type(right) is dict:
        return [*left] == [*right] and all(map(same, left.values(), right.values()))
    if isinstance(left, float) and math.isnan(left):
        return isinstance(right, float) and math.isnan(right)
    return type(left) is type(right) and left == right


# --- hostile bodies -----------------------------------------------------------------------------------------

SPLICES = [
    b"null", b"true", b'""', b'"x"', b'"12"', b'"NaN"', b"NaN", b"Inf", b"-0", b"1e999",
    b"18446744073709551616", b"[]", b"{}", b"[null]", b'[1,"a"]', b'{"a":{"b":[]}}', b"\xff", b'"\\ud800"',
    b'"\\u0000"', b'"2024-01-01"', b'"zig":1,', b"}", b"]", b",",
]  # fmt: skip


@st.composite
def broken(draw: st.DrawFn, body: bytes) -> bytes:
    """Cut out, repeat, splice in, or flip a bit, a few times."""
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(body)))
        stop = draw(
            st.one_of(st.just(start), st.integers(max(start - 40, 0), start + 40), st.just(len(body)))
        )
        splice = draw(st.one_of(st.sampled_from(SPLICES), st.binary(max_size=1)))
        if start < len(body) and draw(st.booleans()):
            stop, splice = start + 1, bytes([body[start] ^ 1 << draw(st.integers(0, 7))])
        body = body[:start] + splice + body[stop:]
    return body


@pytest.mark.slow
@pytest.mark.usefixtures("_pieces")
@given(st.data(), ALL_TYPES)
def test_a_broken_body_is_a_frame_or_a_decode_error(data: st.DataObject, kind: DataType) -> None:
    body = data.draw(broken(data.draw(bodies(kind, SPELT))))
    try:
        frame = decode(body, kind.name)
    except DecodeError:
        with pytest.raises(DecodeError):
            by_value(body, kind)
        return
    dtypes = wire_schema(kind.name).polars()
    assert dict(list(frame.schema.items())[: len(dtypes)]) == dtypes
    # However it was read: value by value it is the same.
    again = by_value(body, kind).frame(kind)
    assert frame.select(list(dtypes)).equals(again.select(list(dtypes)))


@pytest.mark.slow
@given(st.data(), ALL_TYPES)
def test_a_broken_stream_is_a_frame_or_a_decode_error(data: st.DataObject, kind: DataType) -> None:
    frame = data.draw(frames_with_constants(kind))
    body = data.draw(broken(to_arrow(frame, kind.name, constants_once=data.draw(st.booleans()))))
    try:
        frame = from_arrow(body, kind.name)
    except DecodeError:
        return
    dtypes = wire_schema(kind.name).polars()
    assert dict(list(frame.schema.items())[: len(dtypes)]) == dtypes
    frame.rows()


@given(st.binary(max_size=40))
def test_any_bytes(body: bytes) -> None:
    for read in (lambda: decode(body, "TRADE"), lambda: from_arrow(body, "TRADE")):
        with suppress(DecodeError):
            read()


SPELLED = [
    *["1", "-0", "1.5", "9007199254740993", "18446744073709551615", "true"],
    *['"a"', '"2024-01-01"', "null", "[1]", '{"a":1}', None],
]


@pytest.mark.parametrize(
    "name", ["trades", "rawSymbol", "raw_symbol", "Open", "open", "price", "a\\u0062c", "", "x.y"]
)
@settings(max_examples=10)
@given(
    values=st.lists(
        st.sampled_from(SPELLED),
        min_size=1,
        max_size=4,
    ),
    other=st.sampled_from(["1", '"a"', "false", None]),
)
def test_an_unknown_field_is_the_same_beside_numbers_in_any_spelling(
    name: str, values: list[str | None], other: str | None
) -> None:
    """The way by bytes and the way by values agree: a number that is written as text forces the second one."""

    def body(volume: str) -> bytes:
        points = [
            "".join(
                [
                    f'{{"Point":{{"timestamp":{{"s":{60 * number}}},"close":1,"volume":{volume}',
                    "" if value is None else f',"{name}":{value}',
                    "" if other is None else f',"rank":{other}',
                    "}}",
                ]
            )
            for number, value in enumerate(values)
        ]
        return f'{{"series":[{{"id":{{"exchange":"X"}},"points":[{",".join(points)}]}}]}}'.encode()

    def outcome(volume: str) -> object:
        try:
            return decode(body(volume), "TRADE_SIDE_AGNOSTIC_AGG")
        except DecodeError as error:
            return str(error)

    by_bytes, by_values = outcome("2"), outcome('"2"')
    if isinstance(by_bytes, pl.DataFrame):
        assert isinstance(by_values, pl.DataFrame)
        assert_frame_equal(by_bytes, by_values)
    else:
        assert by_bytes == by_values
