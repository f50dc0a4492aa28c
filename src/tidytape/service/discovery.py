"""The routes that weigh nothing: markets, lists, holdings, and the quota of the key."""

from __future__ import annotations

from collections.abc import Callable

import anyio
import orjson
from fastapi import APIRouter, Request, Response

from tidytape import wire
from tidytape.catalogue import LISTS
from tidytape.errors import QueryError
from tidytape.lake import Lake
from tidytape.query import MarketsQuery, MetaQuery, respelled
from tidytape.service.accounts import usage
from tidytape.service.inventory import Inventory, entries, spans
from tidytape.service.markets import MarketStatistics, markets_page

__all__ = ["discovery"]


def discovery(lake: Lake, threads: anyio.CapacityLimiter, *, clock: Callable[[], int]) -> APIRouter:
    """Return the routes.

    Parameters
    ----------
    lake : Lake
        The lake that they describe.
    threads : anyio.CapacityLimiter
        Bounds the threads that read the lake.
    clock : callable
        Returns epoch nanoseconds. [ns]
    """
    router = APIRouter()
    inventory, statistics = Inventory(lake), MarketStatistics(lake, clock=clock)

    def add_route(
        path: str,
        model: type[MarketsQuery] | type[MetaQuery],
        body_of: Callable[..., bytes],
        *,
        in_schema: bool = True,
    ) -> None:
        """Add a route that reads a query from the URL and computes its body in a thread."""
        name = path.rpartition("/")[2]

        async def respond(request: Request) -> Response:
            request.state.facts["route"] = name
            query = model.from_params(request.query_params.multi_items())
            try:
                body = await anyio.to_thread.run_sync(body_of, query, limiter=threads)
            except QueryError as error:
                raise respelled(error, model.WIRE) from None
            return Response(body, media_type=wire.JSON_MIME)

        router.add_api_route(path, respond, name=name, include_in_schema=in_schema)

    def add_list(name: str) -> None:
        def body_of(query: MetaQuery) -> bytes:
            return orjson.dumps({LISTS[name]: entries(inventory, name, query)})

        add_route(f"/v1/{name}", MetaQuery, body_of)

    add_route("/v1/markets", MarketsQuery, lambda query: markets_page(inventory, query, statistics))
    for name in LISTS:
        add_list(name)
    # Below /v1 there is the contract and nothing else, so the holdings stand beside it.
    add_route(
        "/holdings",
        MetaQuery,
        lambda query: orjson.dumps({"holdings": spans(inventory, query)}),
        in_schema=False,
    )

    @router.get("/v1/usage")
    async def quota(request: Request) -> Response:
        request.state.facts["route"] = "usage"
        for name, value in request.query_params.multi_items():
            raise QueryError(name, got=value, expected="no parameter here")
        state = await request.state.account.look()
        return Response(orjson.dumps(usage(state)), media_type=wire.JSON_MIME)

    return router
