"""``GET /``: the service for a person with a browser, on one page that loads nothing else.

The page is the same for everybody and holds no data. What it shows it asks for with the key that is typed into it,
through the routes that every other caller uses; see ``docs/adr/0015-a-page-at-the-root.md``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cache

from fastapi import APIRouter, Request, Response

from tidytape.budget import Tier
from tidytape.service.packing import packed
from tidytape.service.page.document import document, headers
from tidytape.service.page.facts import facts
from tidytape.service.validators import is_known

__all__ = ["page"]


def page(*, key_header: str, tiers: Mapping[str, Tier]) -> APIRouter:
    """Return the route.

    Parameters
    ----------
    key_header : str
        Header that carries the key.
    tiers : mapping of str to Tier
        What each tier may ask for.
    """
    router = APIRouter(include_in_schema=False)

    @cache  # made when it is first asked for: most apps live inside a client and never show it
    def made() -> tuple[bytes, dict[str, str]]:
        body = document(facts(key_header=key_header, tiers=tiers)).encode()
        return body, {**headers(), "ETag": f'W/"{hashlib.sha256(body).hexdigest()[:32]}"'}

    @router.api_route("/", methods=["GET", "HEAD"])
    def root(request: Request) -> Response:
        request.state.facts["route"] = "page"
        body, sent = made()
        if is_known(sent["ETag"], request.headers.get("if-none-match")):
            return Response(status_code=304, headers=sent)
        small, coding = packed(body, request.headers.get("accept-encoding", ""))
        return Response(small, headers={**sent, **coding}, media_type="text/html")

    return router
