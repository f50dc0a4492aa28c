"""The routes that weigh nothing: markets, lists, holdings, and the quota of the key."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor

import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tidytape import wire
from tidytape.catalogue import LISTS
from tidytape.errors import QueryError
from tidytape.lake import Lake
from tidytape.query import MarketsQuery, MetaQuery, respelled
from tidytape.service.accounts import usage
from tidytape.service.inventory import Inventory, entries, spans
from tidytape.service.markets import MarketStatistics, markets_page
from tidytape.service.responses import get

__all__ = ["discovery"]


def discovery(lake: Lake, threads: Executor, *, clock: Callable[[], int]) -> list[Route]:
    """Return the routes.

    Parameters
    ----------
    lake : Lake
        The lake that they describe.
    threads : Executor
        The threads that read the lake.
    clock : callable
        Returns epoch nanoseconds. [ns]
    """
    inventory, statistics = Inventory(lake), MarketStatistics(lake, clock=clock)

    def route(path: str, model: type[MarketsQuery] | type[MetaQuery], body_of: Callable[..., bytes]) -> Route:
        """Return a route that reads a query from the URL and computes its body in a thread."""
        name = path.rpartition("/")[2]

        async def respond(request: Request) -> Response:
            request.state.facts["route"] = name
            query = model.from_params(request.query_params.multi_items())
            try:
                body = await asyncio.get_running_loop().run_in_executor(threads, body_of, query)
            except QueryError as error:
                raise respelled(error, model.WIRE) from None
            return Response(body, media_type=wire.JSON_MIME)

        return get(path, respond)

    def list_route(name: str) -> Route:
        def body_of(query: MetaQuery) -> bytes:
            return orjson.dumps({LISTS[name]: entries(inventory, name, query)})

        return route(f"/v1/{name}", MetaQuery, body_of)

    async def quota(request: Request) -> Response:
        request.state.facts["route"] = "usage"
        for name, value in request.query_params.multi_items():
            raise QueryError(name, got=value, expected="no parameter here")
        state = await request.state.account.look()
        return Response(orjson.dumps(usage(state)), media_type=wire.JSON_MIME)

    return [
        route("/v1/markets", MarketsQuery, lambda query: markets_page(inventory, query, statistics)),
        *map(list_route, LISTS),
        # Below /v1 there is the contract and nothing else, so the holdings stand beside it.
        route("/holdings", MetaQuery, lambda query: orjson.dumps({"holdings": spans(inventory, query)})),
        get("/v1/usage", quota),
    ]
