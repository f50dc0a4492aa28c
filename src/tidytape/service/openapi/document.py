"""The OpenAPI document: every route below ``/v1``, what it takes, and all that it can answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidytape._version import __version__
from tidytape.catalogue import (
    DEFAULT_FUNDING_INTERVAL_MS,
    DEFAULT_TPO_BLOCK_MINUTES,
    ERROR_STATUS,
    LISTS,
    LISTS_OF_A_TYPE,
)
from tidytape.query import MarketsQuery, MetaQuery, PointsQuery
from tidytape.query._base import CODES
from tidytape.service.gate import LONGEST_TARGET
from tidytape.service.markets import DEFAULT_PAGE, LARGEST_PAGE
from tidytape.service.openapi.answers import answer, headers, known, refusals, shared
from tidytape.service.openapi.parameters import parameters, remarks
from tidytape.service.openapi.payloads import camel, schemas
from tidytape.service.openapi.words import Model

__all__ = ["document"]

_ABOUT = f"""\
Time series of market data: candles, open interest, funding, liquidations, profiles, heatmaps, option summaries and
token supply. Every request is a GET below `/v1/` with a key; other methods are answered 405, other paths 404. A
parameter that is not known here is refused. Path and query are at most {LONGEST_TARGET:,} bytes.

Every answer that refuses has one shape, `Error`. Headers tell the quota of the key on every answer to it. Data weighs,
discovery does not; a request that is refused or fails weighs nothing.
"""
_POINTS = """\
Not everything that each parameter allows goes together. An instrument is selected in one way; options belong to the
data types that have them; window and interval make no more points than the type allows. What breaks such a rule, or
names what the lake does not hold, is answered 400 or 403 with a code and a message, before it costs anything.
"""
_SUMMARIES = {
    "types": "Data types of what there is",
    "exchanges": "Venues",
    "categories": "Market classes",
    "coins": "Base assets",
    "symbols": "Exchange-native symbols",
    "normalized-symbols": "Cross-exchange symbols",
    "tenors": "Tenors that option summaries have",
    "block-sizes": "Recommended heights of a row of the order-book heatmap",
}
_LIST = "The filters narrow it; what nothing matches is an empty list. `to` is later than `from`."
_LIST_OF_A_TYPE = "Without `type` the answer is 500, as the contract has it."

_OF_NO_ROUTE = ("INVALID_REQUEST", "NOT_FOUND", "METHOD_NOT_ALLOWED", "HEADERS_TOO_LONG")
_OF_POINTS_ONLY = (
    "UNSUPPORTED", "TYPE_NOT_PERMITTED", "HISTORY_NOT_PERMITTED", "AGGREGATION_NOT_PERMITTED", "POINT_LIMIT_EXCEEDED",
    "RATE_LIMITED", "TIMEOUT",
)  # fmt: skip

# What an operation's first answer gives the next question.
_FIRST_MARKET = {
    "exchange": "$response.body#/symbols/0/exchange",
    "rawSymbol": "$response.body#/symbols/0/rawSymbol",
}
_LINKS: dict[str, dict[str, Any]] = {
    "Markets": {
        "PointsOfTheFirst": {"operationId": "getPoints", "parameters": _FIRST_MARKET},
        "NextPage": {
            "operationId": "listMarkets",
            "parameters": {"pageOffset": "$response.body#/nextOffset"},
        },
    },
    "Exchanges": {
        "Markets": {
            "operationId": "listMarkets",
            "parameters": {"exchange": "$response.body#/exchanges/0"},
        },
    },
    "Coins": {
        "Markets": {"operationId": "listMarkets", "parameters": {"coin": "$response.body#/coins/0"}},
    },
}


def document(*, key_header: str) -> dict[str, Any]:
    """Return the description of the service.

    Parameters
    ----------
    key_header : str
        Header that carries the key.

    Returns
    -------
    dict
        OpenAPI 3.1, for `json.dumps`.

    Examples
    --------
    >>> list(document(key_header="X-Service-Key")["paths"])[:3]
    ['/v1/points', '/v1/markets', '/v1/types']
    """
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Market Data Query Service",
            "version": __version__,
            "description": _ABOUT,
            "license": {"name": "MIT", "identifier": "MIT"},
        },
        "tags": [
            {"name": "data", "description": "Points of series. They weigh."},
            {"name": "markets", "description": "What can be asked for, in full."},
            {"name": "lists", "description": "What there is, one kind at a time. All take the same filters."},
            {"name": "quota", "description": "What is left to spend."},
        ],
        "security": [{"Key": []}],
        "paths": {path: {"get": operation} for path, operation in _operations().items()},
        "components": {
            "securitySchemes": {
                "Key": {
                    "type": "apiKey",
                    "in": "header",
                    "name": key_header,
                    "description": "The key of an account.",
                }
            },
            "schemas": schemas(),
            "headers": headers(),
            "responses": shared(),
        },
    }


def _operations() -> dict[str, dict[str, Any]]:
    described = [
        {**one, "example": _EXAMPLE[one["name"]]} if one["name"] in _EXAMPLE else one
        for one in parameters(PointsQuery, narrowed=_USED_WHERE_LEFT_OUT)
    ]
    points = {
        "operationId": "getPoints",
        "tags": ["data"],
        "summary": "Points of one or more series",
        "description": f"{_POINTS}\n{remarks(PointsQuery)}",
        "parameters": [
            *described,
            {
                "name": "If-None-Match",
                "in": "header",
                "description": "ETags of answers that the caller has; one that still holds is answered 304.",
                "schema": {"type": "string"},
            },
        ],
        "responses": {
            "200": answer("Points", arrow=True),
            "304": known(),
            **refusals(code for code in ERROR_STATUS if code not in _OF_NO_ROUTE),
        },
    }
    size = {"page_size": {"maximum": LARGEST_PAGE, "default": DEFAULT_PAGE}}
    markets = _discovery(
        "Markets",
        "markets",
        MarketsQuery,
        parameters(MarketsQuery, narrowed=size),
        summary="Markets with their figures of 24 hours",
        description="Pages in a fixed order: by venue and symbol, or as `sortCriteria.field` says.",
    )
    usage = _discovery(
        "Usage", "quota", None, [], summary="The quota of the key", description="It takes no parameters."
    )
    lists = {
        f"/v1/{name}": _discovery(
            camel(name),
            "lists",
            MetaQuery,
            parameters(MetaQuery, required=("type",) if name in LISTS_OF_A_TYPE else ()),
            summary=_SUMMARIES[name],
            description=_LIST_OF_A_TYPE if name in LISTS_OF_A_TYPE else _LIST,
        )
        for name in LISTS
    }
    return {"/v1/points": points, "/v1/markets": markets, **lists, "/v1/usage": usage}


_EXAMPLE = {
    "type": ["TRADE_SIDE_AGNOSTIC_AGG"],
    "exchange": ["X"],
    "coin": ["BTC"],
    "interval": "HOUR",
    "from": 1_723_161_600,
    "period": 86_400,
}
_USED_WHERE_LEFT_OUT: Mapping[str, Mapping[str, Any]] = {
    "funding_interval": {"default": DEFAULT_FUNDING_INTERVAL_MS},
    # No default for machines: some send it along, and what is no market profile refuses it.
    "tpo_block_minutes": {"description": f"{DEFAULT_TPO_BLOCK_MINUTES} where it is left out."},
}


def _discovery(
    schema: str,
    tag: str,
    model: Model | None,
    described: list[dict[str, Any]],
    *,
    summary: str,
    description: str,
) -> dict[str, Any]:
    fields = () if model is None else model.WIRE
    # A code of another parameter's than this route has cannot be answered.
    others = {code for field, code in CODES.items() if field not in fields} - {
        code for field, code in CODES.items() if field in fields
    }
    codes = [code for code in ERROR_STATUS if code not in {*_OF_NO_ROUTE, *_OF_POINTS_ONLY, *others}]
    verb = "get" if model is None else "list"
    return {
        "operationId": f"{verb}{schema}",
        "tags": [tag],
        "summary": summary,
        "description": description,
        "parameters": described,
        "responses": {"200": answer(schema, links=_LINKS.get(schema)), **refusals(codes)},
    }
