"""The definition in protocol buffers, held against the catalogue."""

from __future__ import annotations

import re
import subprocess
import sys
from enum import StrEnum
from pathlib import Path

import pytest

from tables import each_row
from tidytape import catalogue, service
from tidytape.catalogue import DATA_TYPES, DESCRIPTOR_FIELDS, IDENTITY_FIELDS, Field
from tidytape.query import MarketsQuery, MetaQuery, PointsQuery
from tidytape.service.proto import market_data_pb2 as pb
from tidytape.wire._spelling import payload_fields

MESSAGES = pb.DESCRIPTOR.message_types_by_name
PAYLOADS = MESSAGES["Point"].fields_by_name
KINDS = {"timestamp": "MESSAGE", "int32[]": "INT32", "double[]": "DOUBLE", "string[]": "STRING"}
ENUMS: dict[str, type[StrEnum]] = {
    "Interval": catalogue.Interval,
    "Category": catalogue.Category,
    "Side": catalogue.Side,
    "Tenor": catalogue.Tenor,
    "SortDirection": catalogue.SortDirection,
    "TPOSession": catalogue.TPOSession,
    "GroupByType": catalogue.GroupBy,
    "MarketSortField": catalogue.MarketSortField,
    "AmountUnit": catalogue.AmountUnit,
    "NoteCode": catalogue.NoteCode,
}
UNKNOWN = {
    "PointType": "UNKNOWN_TYPE",
    "Interval": "UNKNOWN_AGGREGATION_INTERVAL",
    "Category": "UNKNOWN_CATEGORY",
    "Side": "UNKNOWN_SIDE",
}  # as the specification has them
SOURCE = (Path(service.__file__).parent / "proto" / "market_data.proto").read_text("utf-8")


def type_of(field) -> str:
    names = {
        value: name.removeprefix("TYPE_") for name, value in vars(type(field)).items() if name[:5] == "TYPE_"
    }
    return names[field.type]


def check(message: str, fields: tuple[Field, ...], more: tuple[str, ...] = ()) -> None:
    """Hold a message against fields of the catalogue: names, names in JSON, kinds, and null told from 0."""
    of_message = {field.name: field for field in MESSAGES[message].fields}
    assert set(of_message) == {*(field.name for field in fields), *more}
    for field in fields:
        got = of_message[field.name]
        assert got.json_name == field.name
        assert got.is_repeated == field.kind.endswith("[]")
        assert type_of(got) in {KINDS.get(field.kind, field.kind.upper()), "ENUM"}
        if got.enum_type is not None:
            assert field.kind.startswith("string")
            assert got.enum_type.name in {"PointType", *ENUMS}
        if field.kind == "double":
            assert got.has_presence


def test_every_data_type_is_a_payload_under_its_number() -> None:
    numbers = {name: number for name, number in pb.PointType.items() if number}
    assert {field.name: field.number for field in MESSAGES["Point"].fields} == {
        name.lower(): number for name, number in numbers.items()
    }
    assert set(numbers) == set(DATA_TYPES)
    for name, kind in DATA_TYPES.items():
        assert numbers[name] == kind.number if kind.number else numbers[name] > 1000


@each_row("name", DATA_TYPES)
def test_a_payload_has_the_fields_of_its_type(name: str) -> None:
    kind = DATA_TYPES[name]
    field = PAYLOADS[name.lower()]
    if kind.envelope:
        assert field.json_name == kind.envelope
    check(field.message_type.name, payload_fields(kind), tuple(levels.name for levels in kind.levels))
    for levels in kind.levels:
        array = field.message_type.fields_by_name[levels.name]
        assert array.is_repeated
        if levels.flat:
            assert type_of(array) == "DOUBLE"
        else:
            check(array.message_type.name, levels.fields)


@each_row("name", ENUMS)
def test_an_enumeration_has_the_values_of_the_catalogue(name: str) -> None:
    numbers = dict(pb.DESCRIPTOR.enum_types_by_name[name].values_by_name.items())
    unknown, *values = sorted(numbers, key=lambda value: numbers[value].number)
    assert numbers[unknown].number == 0
    assert unknown == UNKNOWN.get(name, unknown)
    assert set(values) == {member.value for member in ENUMS[name]}
    for member in ENUMS[name]:
        given = getattr(member, "number", None)
        assert given is None or numbers[member.value].number == given


def test_numbers_that_are_not_the_specifications_are_said_to_be_ours() -> None:
    given = {kind.name for kind in DATA_TYPES.values() if kind.number}
    given |= {member.value for enum in ENUMS.values() for member in enum if getattr(member, "number", None)}
    for enum in re.findall(r"^enum \w+ \{\n(.*?)^\}", SOURCE, re.DOTALL | re.MULTILINE):
        for value, comment in re.findall(r"^  (\w+) = \d+;(.*)$", enum, re.MULTILINE):
            assert ("Ours" in comment) == (value not in {*given, *UNKNOWN.values()}), value


def test_enumerations_are_open() -> None:
    """A number that this definition does not know survives."""
    from_later = b"\x08\xe7\x07" + b"\x38\x09"  # type 999, side 9
    series = pb.SeriesId.FromString(from_later)
    assert (series.type, series.side) == (999, 9)
    assert series.SerializeToString() == from_later


def test_a_series_has_the_fields_that_the_catalogue_has() -> None:
    check("SeriesId", (*IDENTITY_FIELDS, *DESCRIPTOR_FIELDS), ("type",))


def test_lists_have_the_fields_that_the_catalogue_has() -> None:
    check("Market", catalogue.MARKET_FIELDS, ("predictionMarkets",))
    check("PredictionMarket", catalogue.PREDICTION_MARKET_FIELDS)
    check("BlockSize", catalogue.BLOCK_SIZE_FIELDS)
    check("Note", catalogue.NOTE_FIELDS)
    assert [field.name for field in MESSAGES["UsageResponse"].fields] == [
        field.name for field in catalogue.USAGE_FIELDS
    ]
    assert {field.name for field in MESSAGES["PointMetaResponse"].fields} == set(catalogue.LISTS.values())


@pytest.mark.parametrize(
    ("message", "query", "more"),
    [
        ("PointRequest", PointsQuery, {"token"}),
        ("MarketRequest", MarketsQuery, set()),
        ("PointMetaRequest", MetaQuery, set()),
    ],
)
def test_a_request_has_the_parameters_of_its_query(message: str, query: type, more: set[str]) -> None:
    def names(descriptor, prefix: str = "") -> dict[str, bool]:
        found = {}
        for field in descriptor.fields:
            if field.message_type is not None:
                found |= names(field.message_type, f"{prefix}{field.name}.")
            else:
                found[prefix + field.name] = field.is_repeated
        return found

    got = names(MESSAGES[message])
    assert set(got) - more == set(query.WIRE.values())
    assert {name for name, many in got.items() if many} == {query.WIRE[name] for name in query.REPEATABLE}


def test_absent_times_of_a_request_are_told_from_zero() -> None:
    request = pb.PointRequest(**{"from": 0})
    assert request.HasField("from")
    assert not request.HasField("period")


def test_times_are_those_of_the_specification() -> None:
    fields = [(field.name, field.json_name, type_of(field)) for field in MESSAGES["Timestamp"].fields]
    assert fields == [("seconds", "s", "FIXED32"), ("nanoseconds", "ns", "FIXED32")]


@pytest.mark.slow
def test_the_classes_are_fresh() -> None:
    subprocess.run([sys.executable, "-m", "tidytape.service.proto", "--check"], check=True)
