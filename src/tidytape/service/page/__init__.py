"""``GET /``: the service for a person with a browser, on one page that loads nothing else.

The page is the same for everybody and holds no data. What it shows it asks for with the key that is typed into it,
through the routes that every other caller uses; see ``docs/adr/0015-a-page-at-the-root.md``.
"""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Mapping
from functools import cache

import pyarrow as pa
from fastapi import APIRouter, Request, Response

from tidytape.budget import Tier
from tidytape.service.page.document import document, headers
from tidytape.service.page.facts import facts
from tidytape.service.responses import is_known
from tidytape.service.task import compressed

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

    @cache  # the page never changes, so it is worth the slowest level, once
    def smallest(coding: str | None) -> bytes:
        body, _ = made()
        if coding == "gzip":
            return gzip.compress(body, 9)
        if coding == "zstd":
            body = pa.Codec("zstd", compression_level=19).compress(body, asbytes=True)
        return body

    @router.api_route("/", methods=["GET", "HEAD"])
    def root(request: Request) -> Response:
        request.state.facts["route"] = "page"
        body, sent = made()
        if is_known(sent["ETag"], request.headers.get("if-none-match")):
            return Response(status_code=304, headers=sent)
        _, coding = compressed(body, request.headers.get("accept-encoding", ""))
        smallest_body = smallest(coding.get("Content-Encoding"))
        return Response(smallest_body, headers={**sent, **coding}, media_type="text/html")

    return router
