"""The service against its own description: requests made of it, valid and not, and every answer held to it.

All checks of schemathesis are on, in all of its phases. Two of them are told what the contract says:

- A request that keeps to every parameter may still break a rule between them, or name what the lake does not hold; the
  description says so, and 400 is accepted there. `refused_by_a_rule_alone` holds that each value was good by itself.
- `type` missing on the two lists that need it is a 500, as the contract has it. `fails_as_documented` holds that it is
  this failure and no other.

Random parameters of points hardly ever go together, so what fuzzing makes of them is brought to fit the data type.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from copy import deepcopy
from typing import Any
from urllib.parse import parse_qsl, urlsplit
from zlib import crc32

import pytest
import schemathesis
from schemathesis.checks import CheckContext
from schemathesis.config import SchemathesisConfig
from schemathesis.core.transport import Response
from schemathesis.engine import Status, events, from_schema
from schemathesis.hooks import HookContext

from simulated import rollup_events
from simulated.everything import ASKED, DAY, everything
from tidytape.budget import Tier
from tidytape.catalogue import DATA_TYPES, LISTS, LISTS_OF_A_TYPE, DataType, Interval, TierName
from tidytape.errors import QueryError
from tidytape.query import MarketsQuery, MetaQuery, PointsQuery
from tidytape.query._base import FORMS
from tidytape.query._values import MOST_DIGITS
from tidytape.service import KEY_HEADER, Key, Keys, create_app, hashed
from tidytape.service.http._openapi import document

pytestmark = pytest.mark.slow

S0 = rollup_events.START // 10**9
KEY = "a-key"
# How many requests per route, or chains of them; TIDYTAPE_TIMES=100 makes a hundred times as many.
EXAMPLES = {"examples": 1, "coverage": 1, "fuzzing": 40, "stateful": 15}
TIMES = int(os.environ.get("TIDYTAPE_TIMES") or 1)

POINTS = "/v1/points"
LIST_ROUTES = [f"/v1/{name}" for name in LISTS]
NEED_A_TYPE = [f"/v1/{name}" for name in LISTS_OF_A_TYPE]
MODELS = {POINTS: PointsQuery, "/v1/markets": MarketsQuery} | dict.fromkeys(LIST_ROUTES, MetaQuery)

# What the lake holds, so that some of what is asked for is there.
HELD: dict[str, list[Any]] = {
    "exchange": ["X", "CME", "DERIBIT"],
    "coin": ["BTC"],
    "rawSymbol": ["BTCUSDT", "BTCQ4", "BTC_25"],
    "from": [S0, S0 + 90],
    "period": [300, 3_600, DAY],
}


def settings(phase: str, examples: int) -> dict[str, Any]:
    a_rule_may_refuse = {"positive_data_acceptance": {"expected-statuses": ["2xx", "3xx", "400", "403"]}}
    may_fail = {"not_a_server_error": {"expected-statuses": ["2xx", "3xx", "4xx", "500"]}}
    return {
        "headers": {KEY_HEADER: KEY},
        "seed": 1,
        "generation": {"deterministic": True, "database": "none"},
        "continue-on-failure": True,
        "phases": {"enabled": False, phase: {"enabled": True} | _generation(phase, examples)},
        "dictionaries": {name: {"values": values} for name, values in HELD.items()},
        "parameters": {f"query.{name}": {"dictionary": name, "probability": 0.8} for name in HELD},
        "operations": [
            {"include-path": [POINTS, *LIST_ROUTES], "checks": a_rule_may_refuse},
            {"include-path": NEED_A_TYPE, "checks": a_rule_may_refuse | may_fail},
        ],
    }


def _generation(phase: str, examples: int) -> dict[str, Any]:
    return {} if phase == "coverage" else {"generation": {"max-examples": examples}}


def sent(response: Response) -> list[tuple[str, str]]:
    return parse_qsl(urlsplit(response.request.url).query, keep_blank_values=True)


# --- checks of our own ----------------------------------------------------------------------------------------------


@schemathesis.check
def refused_by_a_rule_alone(ctx: CheckContext, response: Response, case: Any) -> None:
    """What keeps to the description and is refused has good values: a rule between them, or the lake, refused it."""
    if response.status_code != 400 or not case.meta.generation.mode.is_positive or case.path not in MODELS:
        return
    model = MODELS[case.path]
    fields = {wire_name: field for field, wire_name in model.WIRE.items()}
    for name, value in sent(response):
        field = fields[name]
        form = model.ONLY_ON_WIRE[field].form if field in model.ONLY_ON_WIRE else FORMS[field]
        try:
            form.read(value, field)
        except QueryError as error:
            if (
                "significant digits" not in error.expected
            ):  # no JSON schema can say how many; the description does
                raise AssertionError(f"{error}, which its schema allows") from error


@schemathesis.check
def fails_as_documented(ctx: CheckContext, response: Response, case: Any) -> None:
    """The one failure there is: a list that needs a type was asked without."""
    if response.status_code >= 500:
        typed = "type" in dict(sent(response))
        assert (response.status_code, case.path in NEED_A_TYPE, typed) == (500, True, False)
        assert response.json()["message"].startswith("type: left out")


@schemathesis.check
def what_fits_is_answered(ctx: CheckContext, response: Response, case: Any) -> None:
    """Parameters that were brought to fit the data type are answered, but for rows too fine for the prices held."""
    if _is_fitted(case) and response.status_code not in {200, 304}:
        assert response.json()["message"].startswith("blockSize: got"), response.text


# --- parameters that go together ------------------------------------------------------------------------------------


@schemathesis.hook
def before_call(context: HookContext, case: Any, kwargs: dict[str, Any]) -> None:
    """Write 10.0 as 10, which JSON schema takes for one integer, and bring random parameters of points to fit."""
    case.query = {name: _as_written(value) for name, value in case.query.items()}
    if _is_fitted(case):
        chance = crc32(repr(case.query).encode())  # the first of an enumeration is drawn far too often
        case.query = fitted(case.query, list(DATA_TYPES.values())[chance % len(DATA_TYPES)])


def _as_written(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _is_fitted(case: Any) -> bool:
    meta = case.meta
    return case.path == POINTS and meta.phase.name.name == "FUZZING" and meta.generation.mode.is_positive


def fitted(query: Mapping[str, Any], kind: DataType) -> dict[str, Any]:
    step = Interval(query.get("interval", "HOUR")).seconds
    most = min(300 * step, 2**32 - query["from"])
    options = {name: query[name] for name in (*ALWAYS, *_options(kind)) if name in query}
    if "transform.groupBy.type" in options:
        options["transform.groupBy.type"] = str(kind.group_by)
    if "blockSize" in options:
        options["blockSize"] = float(f"{options['blockSize']:.{MOST_DIGITS}g}")
    return {
        "interval": "HOUR",
        **options,
        "type": [kind.name],
        "period": min(query["period"], most),
        **{
            PointsQuery.WIRE[field]: [value] if field in PointsQuery.REPEATABLE else value
            for field, value in ASKED[kind.name].items()
        },
    }


ALWAYS = ("from", "interval", "side", "sortDirection", "transform.normalize.fundingInterval")


def _options(kind: DataType) -> list[str]:
    """The options that a type has; that they are the only ones is held elsewhere."""
    has = {
        "gapfill": kind.gapfill,
        "tenor": kind.per_tenor,
        "transform.normalize.quote": kind.usd,
        "transform.groupBy.type": kind.group_by is not None,
        "tpoBlockSizeMinutes": kind.name == "TPO_AGG",
        "tpoSession": kind.name == "TPO_AGG",
        "blockSize": bool(kind.levels),
    }
    return [name for name, there in has.items() if there]


# --- the run --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Any:
    lake = everything(tmp_path_factory.mktemp("described") / "lake")
    endless = Tier("endless", 10**9, 10**9, None, aggregation=True, rank=TierName.ENTERPRISE)
    return create_app(
        lake, Keys([Key("id", hashed(KEY), endless.name, created=0)]), tiers={endless.name: endless}
    )


def closed(schema: Any) -> Any:
    """The same schema with objects that have no field but those it names: what is not described is not answered."""
    if isinstance(schema, dict):
        more = {"additionalProperties": False} if schema.get("type") == "object" else {}
        return {name: closed(inner) for name, inner in schema.items()} | more
    return [closed(inner) for inner in schema] if isinstance(schema, list) else schema


@pytest.mark.parametrize(
    ("phase", "examples"),
    [
        pytest.param(phase, examples, id=phase, marks=pytest.mark.long if phase == "fuzzing" else [])
        for phase, examples in EXAMPLES.items()
    ],
)
def test_the_service_is_what_it_says_it_is(app: Any, phase: str, examples: int) -> None:
    described = closed(deepcopy(document(key_header=KEY_HEADER)))
    del described["paths"]["/v1/stream"]  # which has no end
    schema = schemathesis.openapi.from_dict(
        described, config=SchemathesisConfig.from_dict(settings(phase, examples * TIMES))
    )
    schema.app = app
    found, answered = [], set()
    for event in from_schema(schema).execute():
        if isinstance(event, events.NonFatalError | events.FatalError):
            found.append(repr(event))
        if isinstance(event, events.ScenarioFinished):
            recorder = event.recorder
            answered |= {
                (recorder.cases[case].value.path, interaction.response.status_code)
                for case, interaction in recorder.interactions.items()
                if interaction.response is not None
            }
            for case, checks in recorder.checks.items():
                for check in checks:
                    if check.status is Status.FAILURE:
                        command = recorder.cases[case].value.as_curl_command()
                        found.append(f"{check.name}: {check.failure_info.failure}\n{command}")
    assert not found, "\n\n".join(found)
    assert {status for _, status in answered} >= {200}
