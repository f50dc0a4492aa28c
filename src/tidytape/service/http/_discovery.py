"""The lists, which weigh nothing: markets, names, holdings, and the quota of the key."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tidytape.catalogue import LISTS
from tidytape.errors import QueryError
from tidytape.lake import LakeReader
from tidytape.query import MarketsQuery, MetaQuery
from tidytape.service._accounts import Account, usage
from tidytape.service._responses import GONE, get, params_of, while_connected
from tidytape.service.answer._holdings import DescribedLake
from tidytape.service.answer._inventory import Inventory, entries, spans
from tidytape.service.answer._markets import MarketStatistics, markets_page
from tidytape.service.work._bounds import Looks
from tidytape.wire._decode import JSON_MIME
from tidytape.wire._holdings import encode_holdings


class Lists:
    """Answers requests for lists.

    Parameters
    ----------
    lake : LakeReader
        The lake that they describe.
    looks : Looks
        Reads the lake for callers, in turns of their keys.
    clock : callable
        Returns epoch nanoseconds. [ns]
    """

    def __init__(self, lake: LakeReader, looks: Looks, *, clock: Callable[[], int]) -> None:
        inventory, statistics = Inventory(lake), MarketStatistics(lake, clock=clock)
        described_lake = DescribedLake(lake)
        self._looks = looks
        self._kinds: dict[str, tuple[type[MarketsQuery] | type[MetaQuery], Callable[[Any], bytes]]] = {
            "markets": (MarketsQuery, lambda query: markets_page(inventory, query, statistics)),
            "holdings": (MetaQuery, lambda query: orjson.dumps({"holdings": spans(inventory, query)})),
            "holdings/markets": (MetaQuery, partial(_holdings_body, described_lake)),
            **{name: (MetaQuery, partial(_list_body, inventory, name)) for name in LISTS},
        }

    async def body(
        self, name: str, params: Iterable[tuple[str, str]], account: Account, facts: dict[str, object]
    ) -> bytes:
        """Return a list as JSON.

        Parameters
        ----------
        name : str
            ``markets``, ``holdings``, ``holdings/markets``, ``usage`` or a key of `tidytape.catalogue.LISTS`.
        params : iterable of (str, str)
            The parameters of its route.
        account : Account
            The caller.
        facts : dict of str to object
            What the log says of the request; the route is added.

        Raises
        ------
        QueryError
            If a parameter is not what it may be.
        """
        facts["route"] = name
        if name == "usage":
            for parameter, value in params:
                raise QueryError(parameter, got=value, expected="no parameter here")
            return orjson.dumps(usage(await account.look()))
        model, body_of = self._kinds[name]

        def look_up() -> bytes:
            query = model.from_params(params)
            with model.named_as_on_wire():
                return body_of(query)

        return await self._looks.run(account.key.id, look_up)


def _list_body(inventory: Inventory, name: str, query: MetaQuery) -> bytes:
    return orjson.dumps({LISTS[name]: entries(inventory, name, query)})


def _holdings_body(described_lake: DescribedLake, query: MetaQuery) -> bytes:
    return encode_holdings(described_lake.rows(query))


def discovery(lists: Lists) -> list[Route]:
    """Return the routes.

    Parameters
    ----------
    lists : Lists
    """

    def route(path: str) -> Route:
        name = path.removeprefix("/v1").removeprefix("/")

        async def respond(request: Request) -> Response:
            state = request.state
            body = await while_connected(
                request, lists.body(name, params_of(request), state.account, state.facts)
            )
            return Response(status_code=GONE) if body is None else Response(body, media_type=JSON_MIME)

        return get(path, respond)

    # Below /v1 there is the contract and nothing else, so the holdings stand beside it.
    return [
        *map(
            route,
            (*(f"/v1/{name}" for name in ("markets", *LISTS)), "/holdings", "/holdings/markets", "/v1/usage"),
        )
    ]
