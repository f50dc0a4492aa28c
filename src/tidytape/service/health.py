"""Whether the service is alive and ready, and its figures: for machines that look after it, without a key."""

from __future__ import annotations

from fastapi import APIRouter, Response
from prometheus_client import CONTENT_TYPE_LATEST

from tidytape.errors import LakeError
from tidytape.lake import MARKETS, Lake
from tidytape.service.observer import Figures
from tidytape.service.refusals import refusal

__all__ = ["health"]


def health(lake: Lake, figures: Figures) -> APIRouter:
    """Return the routes.

    Parameters
    ----------
    lake : Lake
        Ready is who can read it.
    figures : Figures
        What ``/metrics`` shows.
    """
    router = APIRouter(include_in_schema=False)

    @router.get("/healthz")
    def alive() -> Response:
        return Response(b'{"status":"alive"}', media_type="application/json")

    @router.get("/readyz")
    def ready() -> Response:
        try:
            lake.delta(MARKETS.name)
        except LakeError:
            return refusal("UNAVAILABLE", "the lake cannot be read")
        return Response(b'{"status":"ready"}', media_type="application/json")

    @router.get("/metrics")
    def metrics() -> Response:
        return Response(figures.page(), media_type=CONTENT_TYPE_LATEST)

    return router
