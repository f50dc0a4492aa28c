"""Whether the service is alive and ready, and its figures: for machines that look after it, without a key."""

from __future__ import annotations

import anyio
from fastapi import APIRouter, Response
from prometheus_client import CONTENT_TYPE_LATEST

from tidytape.errors import LakeError
from tidytape.lake import MARKETS, Lake
from tidytape.service.buckets import Buckets, UnreachableError
from tidytape.service.observer import Figures
from tidytape.service.refusals import refusal

__all__ = ["health"]


def health(lake: Lake, buckets: Buckets, figures: Figures) -> APIRouter:
    """Return the routes.

    Parameters
    ----------
    lake : Lake
        Ready is who can read it,
    buckets : Buckets
        and can be told what a key has left.
    figures : Figures
        What ``/metrics`` shows.
    """
    router = APIRouter(include_in_schema=False)

    @router.get("/healthz")
    def alive() -> Response:
        return Response(b'{"status":"alive"}', media_type="application/json")

    @router.get("/readyz")
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

    return router
