"""The description of the service: valid, whole, and nothing but what the models and the catalogue say."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import orjson
import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator
from typer.testing import CliRunner

from api_page import PAGE, reference_page
from tables import each_row
from tidytape.catalogue import (
    DATA_TYPES,
    ERROR_STATUS,
    LISTS,
    LISTS_OF_A_TYPE,
    MARKET_FIELDS,
    PREDICTION_MARKET_FIELDS,
    RATE_LIMIT_HEADERS,
    USAGE_FIELDS,
)
from tidytape.cli import app as commands
from tidytape.query import MarketsQuery, MetaQuery, PointsQuery, StreamQuery
from tidytape.service.http._openapi import camel, document
from tidytape.wire._arrow import ARROW_MIME, ONCE_MIME
from tidytape.wire._decode import JSON_MIME
from tidytape.wire._pages import PAGE_ENDS
from tidytape.wire._spelling import payload_fields

MODELS = {"/v1/points": PointsQuery, "/v1/stream": StreamQuery, "/v1/markets": MarketsQuery} | {
    f"/v1/{name}": MetaQuery for name in LISTS
}


@pytest.fixture(scope="module")
def described() -> dict[str, Any]:
    return document(key_header="X-Service-Key")


def operations(described: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, ways in described["paths"].items():
        assert list(ways) == ["get"]
        yield path, ways["get"]


def asked(described: dict[str, Any], path: str, name: str) -> dict[str, Any]:
    (found,) = (one for one in described["paths"][path]["get"]["parameters"] if one["name"] == name)
    return found


@pytest.mark.slow
def test_it_is_valid_openapi(described: dict[str, Any]) -> None:
    assert described["openapi"] == "3.1.0"
    assert [error.message for error in OpenAPIV31SpecValidator(described).iter_errors()] == []


def test_every_reference_leads_somewhere_and_every_schema_is_used(described: dict[str, Any]) -> None:
    def references(inside: Any) -> Iterator[str]:
        if isinstance(inside, dict):
            yield from ([inside["$ref"]] if "$ref" in inside else [])
            inside = list(inside.values())
        for one in inside if isinstance(inside, list) else []:
            yield from references(one)

    there = {
        f"#/components/{room}/{name}"
        for room in ("schemas", "headers", "responses")
        for name in described["components"][room]
    }
    assert set(references(described)) <= there
    unused = there - set(references(described))
    # Refusals that no route of the description gives, but other paths and methods, and the server.
    codes = ("InvalidRequest", "NotFound", "MethodNotAllowed", "HeadersTooLong")
    several = [code for code in ERROR_STATUS if ERROR_STATUS[code] in {400, 403} and code != "INVALID_PARAMS"]
    assert unused == {f"#/components/responses/{name}" for name in {*codes, *map(camel, several)}}


def test_every_route_of_the_app_is_in_it_and_no_other(service: Any, described: dict[str, Any]) -> None:
    of_contract = [route.path for route in service.app.routes if route.path.startswith("/v1/")]
    assert of_contract == list(described["paths"])


def test_the_service_answers_with_it(service: Any, described: dict[str, Any]) -> None:
    answer = service.get("/openapi.json", key=None)
    assert answer.json() == orjson.loads(orjson.dumps(described))
    assert described["security"] == [{"Key": []}]


def test_the_header_of_the_key_is_the_one_of_the_deployment() -> None:
    key = document(key_header="X-Other")["components"]["securitySchemes"]["Key"]
    assert (key["type"], key["in"], key["name"]) == ("apiKey", "header", "X-Other")


@each_row("path", MODELS)
def test_every_parameter_is_in_it_with_what_it_means(described: dict[str, Any], path: str) -> None:
    told = [one for one in described["paths"][path]["get"]["parameters"] if one["in"] == "query"]
    assert [one["name"] for one in told] == list(MODELS[path].WIRE.values())
    for one in told:
        assert one["description"].endswith((".", "]")), one
        assert "``" not in one["description"]
        assert one["schema"]


def test_parameters_say_what_they_take(described: dict[str, Any]) -> None:
    points = "/v1/points"
    assert asked(described, points, "transform.normalize.quote")["schema"] == {
        "$ref": "#/components/schemas/Quote"
    }
    assert described["components"]["schemas"]["Quote"]["enum"] == ["USD"]
    exchange = asked(described, points, "exchange")
    assert (exchange["style"], exchange["explode"], exchange["schema"]["type"]) == ("form", True, "array")
    assert exchange["schema"]["items"]["maxLength"] == 256
    period = asked(described, points, "period")
    assert (period["schema"]["minimum"], period["schema"]["maximum"]) == (1, 2**32)
    assert period["description"].endswith("[s]")
    assert asked(described, points, "sortDirection")["schema"]["default"] == "SORT_DIRECTION_ASC"
    assert asked(described, points, "tpoBlockSizeMinutes")["schema"]["enum"] == [5, 30, 60, 240]
    assert asked(described, points, "transform.normalize.fundingInterval")["schema"]["default"] == 28_800_000
    size = asked(described, "/v1/markets", "pageSize")["schema"]
    assert (size["minimum"], size["maximum"], size["default"]) == (1, 1000, 100)


def test_what_is_needed_is_said(described: dict[str, Any]) -> None:
    needed = {
        path: [one["name"] for one in operation["parameters"] if one.get("required")]
        for path, operation in operations(described)
    }
    expected = {path: [] for path in described["paths"]} | {
        f"/v1/{name}": ["type"] for name in LISTS_OF_A_TYPE
    }
    assert needed == expected | {"/v1/points": ["type", "from", "period"], "/v1/stream": ["type"]}


def test_every_error_code_is_in_it_under_its_status(described: dict[str, Any]) -> None:
    assert described["components"]["schemas"]["Error"]["properties"]["error"]["enum"] == list(ERROR_STATUS)
    found = set()
    for _, operation in operations(described):
        for status, response in operation["responses"].items():
            whole = response
            if "$ref" in response:
                whole = described["components"]["responses"][response["$ref"].rpartition("/")[2]]
            if int(status) >= 400:
                schema = whole["content"]["application/json"]["schema"]
                codes = schema["properties"]["error"]["enum"]
                assert {ERROR_STATUS[code] for code in codes} == {int(status)}
                assert ("Retry-After" in whole["headers"]) == (status in {"429", "503"})
                found |= set(codes)
            assert "X-Request-Id" in whole["headers"]
            assert (set(RATE_LIMIT_HEADERS) <= set(whole["headers"])) == (status not in {"401", "503"})
    elsewhere = {"INVALID_REQUEST", "NOT_FOUND", "METHOD_NOT_ALLOWED", "HEADERS_TOO_LONG"}
    assert found == set(ERROR_STATUS) - elsewhere
    assert {camel(code) for code in elsewhere} <= set(described["components"]["responses"])


def test_every_field_of_the_catalogue_is_in_it(described: dict[str, Any]) -> None:
    schemas = described["components"]["schemas"]
    for name, kind in DATA_TYPES.items():
        fields = [field.name for field in kind.fields] + [levels.name for levels in kind.levels]
        fields += [field.name for field in payload_fields(kind)[len(kind.fields) :]]
        assert list(schemas[f"{camel(name)}Payload"]["properties"]) == fields
        assert schemas[f"{camel(name)}Id"]["properties"]["type"]["const"] == name
    assert [one["$ref"] for one in schemas["Points"]["properties"]["series"]["items"]["oneOf"]] == [
        f"#/components/schemas/{camel(name)}Series" for name in DATA_TYPES
    ]
    assert list(schemas["Market"]["properties"]) == [
        *(one.name for one in MARKET_FIELDS),
        "predictionMarkets",
    ]
    assert list(schemas["PredictionMarket"]["properties"]) == [one.name for one in PREDICTION_MARKET_FIELDS]
    assert list(schemas["Usage"]["properties"]) == [one.name for one in USAGE_FIELDS]


def test_operations_have_names_of_their_own(described: dict[str, Any]) -> None:
    names = [operation["operationId"] for _, operation in operations(described)]
    assert len(set(names)) == len(names)
    assert {"getPoints", "listMarkets", "listBlockSizes", "getUsage"} <= set(names)
    tags = {tag["name"] for tag in described["tags"]}
    assert {tag for _, operation in operations(described) for tag in operation["tags"]} == tags


def test_arrow_and_304_are_answered_as_described(
    service: Any, window: Any, described: dict[str, Any]
) -> None:
    responses = described["paths"]["/v1/points"]["get"]["responses"]
    assert set(responses["200"]["content"]) == {JSON_MIME, ARROW_MIME, ONCE_MIME}
    answer: httpx.Response = service.get(
        "/v1/points", params=window(), headers={"Accept": ARROW_MIME, "If-None-Match": '"another"'}
    )
    assert answer.headers["content-type"] == ARROW_MIME
    again = service.get(
        "/v1/points",
        params=window(),
        headers={"Accept": ARROW_MIME, "If-None-Match": answer.headers["etag"]},
    )
    assert again.status_code == 304
    for response, status in ((answer, "200"), (again, "304")):
        names = {name.lower() for name in responses[status]["headers"]} - {PAGE_ENDS.lower()}
        assert names <= set(response.headers)


def test_the_page_is_what_the_document_says(described: dict[str, Any]) -> None:
    assert PAGE.read_text("utf-8") == reference_page(described), "python tests/api_page.py"


def test_the_page_has_every_route_parameter_code_and_field(described: dict[str, Any]) -> None:
    shown = reference_page(described)
    for path, operation in operations(described):
        assert f"`GET {path}`" in shown
        assert all(f"`{one['name']}`" in shown for one in operation["parameters"])
    assert all(f"| {status} | `{code}` |" in shown for code, status in ERROR_STATUS.items())
    fields = [field for kind in DATA_TYPES.values() for field in kind.fields]
    assert all(
        f"| `{field.name}` |" in shown for field in (*fields, *MARKET_FIELDS, *PREDICTION_MARKET_FIELDS)
    )


@pytest.mark.slow
def test_the_command_prints_it(described: dict[str, Any]) -> None:
    printed = CliRunner().invoke(commands, ["openapi"])
    assert orjson.loads(printed.stdout) == orjson.loads(orjson.dumps(described))
