"""Whether the service is alive and ready, its figures, and what it is: for machines, without a key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import anyio
import orjson
from fastapi import APIRouter, Response
from prometheus_client import CONTENT_TYPE_LATEST

from tidytape.errors import LakeError
from tidytape.lake import MARKETS, Lake
from tidytape.service.buckets import Buckets, UnreachableError
from tidytape.service.observer import Figures
from tidytape.service.refusals import refusal

__all__ = ["health"]

_LOOK = ["GET", "HEAD"]  # what looks after a service often asks for the head alone


def health(lake: Lake, buckets: Buckets, figures: Figures, description: Mapping[str, Any]) -> APIRouter:
    """Return the routes.

    Parameters
    ----------
    lake : Lake
        Ready is who can read it,
    buckets : Buckets
        and can be told what a key has left.
    figures : Figures
        What ``/metrics`` shows.
    description : mapping
        The OpenAPI document.
    """
    router = APIRouter(include_in_schema=False)

    @router.api_route("/healthz", methods=_LOOK)
    def alive() -> Response:
        return Response(b'{"status":"alive"}', media_type="application/json")

    @router.api_route("/readyz", methods=_LOOK)
    async def ready() -> Response:
        try:
            await anyio.to_thread.run_sync(lake.delta, MARKETS.name)
            await buckets.check()
        except LakeError:
            return refusal("UNAVAILABLE", "the lake cannot be read")
        except UnreachableError as error:
            return refusal("UNAVAILABLE", str(error))
        return Response(b'{"status":"ready"}', media_type="application/json")

    @router.get("/metrics")
    def metrics() -> Response:
        return Response(figures.page(), media_type=CONTENT_TYPE_LATEST)

    described = orjson.dumps(description)

    @router.get("/openapi.json")
    def describe() -> Response:
        return Response(described, media_type="application/json")

    return router
