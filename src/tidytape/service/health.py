"""Whether the service is alive and ready, its figures, and what it is: for machines, without a key."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import anyio
import orjson
from fastapi import APIRouter, Response
from prometheus_client import CONTENT_TYPE_LATEST

from tidytape.errors import LakeError
from tidytape.lake import MARKETS, Lake
from tidytape.lake.hygiene import tables
from tidytape.lake.readiness import require_readable
from tidytape.service.buckets import Buckets, UnreachableError
from tidytape.service.observer import Figures
from tidytape.service.refusals import refusal

__all__ = ["health"]

_log = logging.getLogger("tidytape.service")
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
    readiness = _Readiness(lake)

    @router.api_route("/healthz", methods=_LOOK)
    def alive() -> Response:
        return Response(b'{"status":"alive"}', media_type="application/json")

    @router.api_route("/readyz", methods=_LOOK)
    async def ready() -> Response:
        try:
            await anyio.to_thread.run_sync(readiness.check)
            await buckets.check()
        except LakeError:  # the log says why; whoever asks has no key
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


class _Readiness:
    """Whether the lake can be read: every table that it ever had, as it is on disk now."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self._tables: set[str] = set()
        self._logged: str | None = None

    def check(self) -> None:
        """Raise LakeError where the lake cannot be read; log the reason when it is a new one."""
        try:
            # A table that was there and is gone counts: its name is kept.
            self._tables |= {table.name for table in tables(self._lake, None)}
            require_readable(self._lake, sorted(self._tables | {MARKETS.name}))
        except LakeError as error:
            if self._logged != error.message:
                self._logged = error.message
                _log.error("not ready: %s", error.message)
            raise
        self._logged = None
