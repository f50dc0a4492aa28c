"""Discovery, which weighs nothing: markets, the lists, what there is from when to when, and the caller's quota."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import orjson
from fastapi import APIRouter, Request, Response

from tidytape import wire
from tidytape.catalogue import LISTS
from tidytape.errors import QueryError
from tidytape.lake import Lake
from tidytape.query import MarketsQuery, MetaQuery, respelled
from tidytape.service.figures import Figures
from tidytape.service.holdings import Holdings
from tidytape.service.limits import usage
from tidytape.service.lists import listed
from tidytape.service.markets import page
from tidytape.service.spans import spans
from tidytape.service.workers import Workers

__all__ = ["discovery"]


def discovery(lake: Lake, workers: Workers, *, clock: Callable[[], int]) -> APIRouter:
    """Return the routes.

    Parameters
    ----------
    lake : Lake
        What there is.
    workers : Workers
        Where it is looked for.
    clock : callable
        Returns epoch nanoseconds. [ns]
    """
    router = APIRouter()
    holdings, figures = Holdings(lake), Figures(lake, clock=clock)

    @router.get("/v1/markets")
    async def markets(request: Request) -> Response:
        request.state.facts["route"] = "markets"
        query = MarketsQuery.from_params(request.query_params.multi_items())
        body = await workers.run(partial(page, figures=figures), holdings, query)
        return Response(body, media_type=wire.JSON_MIME)

    def list_route(name: str) -> None:
        @router.get(f"/v1/{name}", name=name)
        async def list_(request: Request) -> Response:
            request.state.facts["route"] = name
            query = MetaQuery.from_params(request.query_params.multi_items())
            try:
                found = await workers.run(listed, holdings, name, query)
            except QueryError as error:
                raise respelled(error, MetaQuery.WIRE) from None
            return Response(orjson.dumps({LISTS[name]: found}), media_type=wire.JSON_MIME)

    for name in LISTS:
        list_route(name)

    # Not below /v1, where there is the contract and nothing else.
    @router.get("/holdings", include_in_schema=False)
    async def held(request: Request) -> Response:
        request.state.facts["route"] = "holdings"
        query = MetaQuery.from_params(request.query_params.multi_items())
        found = await workers.run(spans, holdings, query)
        return Response(orjson.dumps({"holdings": found}), media_type=wire.JSON_MIME)

    @router.get("/v1/usage")
    async def quota(request: Request) -> Response:
        request.state.facts["route"] = "usage"
        for name, value in request.query_params.multi_items():
            raise QueryError(name, got=value, expected="no parameter here")
        state = await request.state.account.look()
        return Response(orjson.dumps(usage(state)), media_type=wire.JSON_MIME)

    return router
