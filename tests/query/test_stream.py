"""The request for a stream: that of points without its form, whose window may be open."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from query.conftest import fields_of
from query.test_wire import EVERYTHING
from tables import each_row
from tidytape.catalogue import DATA_TYPES
from tidytape.errors import QueryError
from tidytape.query import PointsQuery, StreamQuery

FORM = {"sort_direction", "gapfill"}
STREAMED = [(wire, value) for wire, value in EVERYTHING if wire != "sortDirection"]
DAY = 86_400


def stream_of(name: str, **changes: Any) -> StreamQuery:
    return StreamQuery(**fields_of(name, **{"start": ..., "end": ..., **changes}))


def test_a_stream_has_every_field_of_points_but_the_form() -> None:
    assert PointsQuery.model_fields.keys() - FORM == StreamQuery.model_fields.keys() - {"token"}
    assert PointsQuery.WIRE.keys() - FORM == StreamQuery.WIRE.keys() - {"token"}
    assert StreamQuery.model_fields.keys() == StreamQuery.WIRE.keys()


def test_parameters_in_and_out() -> None:
    params = [*STREAMED, ("token", "eyJ2IjoxfQ.c2ln")]
    query = StreamQuery.from_params(params)
    assert query.to_params() == params
    assert (query.start, query.period, query.token) == (1_723_161_600, 3600, "eyJ2IjoxfQ.c2ln")


@each_row("name", DATA_TYPES)
def test_a_stream_needs_no_window(name: str) -> None:
    query = stream_of(name)
    assert not {"from", "period", "token"} & dict(query.to_params()).keys()
    assert StreamQuery.from_params(query.to_params()) == query
    started = stream_of(name, start=60)
    assert (started.start, started.end, dict(started.to_params())["from"]) == (60, None, "60")


@each_row("name", DATA_TYPES)
def test_a_window_of_a_stream_is_that_of_points(name: str, ask: Any) -> None:
    assert stream_of(name).window(0, 3600) == [ask(name)]


def test_a_stream_is_not_limited_in_points() -> None:
    query = stream_of("TRADE_AGG", start=0, end=1_000 * DAY)
    parts = query.window(0, 1_000 * DAY)
    assert len(parts) > 1
    assert [parts[0].start, parts[-1].end] == [0, 1_000 * DAY]
    assert all(one.end == following.start for one, following in pairwise(parts))


@each_row(
    ("changes", "parameter"),
    [
        ({"type": ()}, "type"),
        ({"interval": None}, "interval"),
        ({"interval": "2m"}, "interval"),
        ({"coin": ...}, "raw_symbol"),
        ({"exchange": ...}, "exchange"),
        ({"tpo_session": "daily"}, "tpo_session"),
        ({"end": 60}, "start"),
        ({"start": 60, "end": 60}, "end"),
        ({"token": ""}, "token"),
        ({"token": "a b"}, "token"),
        ({"token": "a" * 8_193}, "token"),
        ({"token": 1}, "token"),
        ({"gapfill": True}, "gapfill"),
        ({"sort_direction": "asc"}, "sort_direction"),
    ],
)
def test_what_cannot_be_right_is_refused(changes: dict[str, Any], parameter: str) -> None:
    with pytest.raises(QueryError) as refused:
        stream_of("TRADE_AGG", **changes)
    assert refused.value.parameter == parameter


@each_row(
    ("params", "parameter"),
    [
        ([("period", "60")], "from"),
        ([("from", "0"), ("period", "0")], "period"),
        ([("from", "60"), ("period", str(2**32))], "period"),
        ([("from", "-1")], "from"),
        ([("gapfill", "true")], "gapfill"),
        ([("token", "\n")], "token"),
        ([("token", "a"), ("token", "b")], "token"),
    ],
)
def test_the_wire_has_names_of_its_own(params: list[tuple[str, str]], parameter: str) -> None:
    known = [("type", "TRADE_AGG"), ("exchange", "X"), ("coin", "BTC"), ("interval", "MINUTE")]
    with pytest.raises(QueryError) as refused:
        StreamQuery.from_params(known + params)
    assert refused.value.parameter == parameter
