"""What an operator sees: a log line per request, Prometheus metrics, health and readiness."""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

import anyio
import orjson
import polars as pl
from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tidytape.errors import LakeError
from tidytape.lake import MARKETS, LakeReader
from tidytape.lake.hygiene import recorders, require_readable, tables
from tidytape.service._accounts import Keys
from tidytape.service._buckets import Buckets, UnreachableError
from tidytape.service._responses import error_response, get
from tidytape.service.stream._streams import Streams
from tidytape.service.work._bounds import Unsent
from tidytape.service.work._computing import Computing

_log = logging.getLogger("tidytape.service")
_access_log = logging.getLogger("tidytape.access")
_KEY_FILE_FAULTS = "Times the key file was found deleted, unreadable or writable by every user."
_STORE_FAULTS = "Requests to the bucket store that got no answer."
_WORKERS_ENDED = "Workers that ended before their answer was there."
_STREAM_LAG = "How long the oldest batch waits that a reader of a stream has not taken."
_CONFLATED = "Rows of streams that slow readers got as one difference."
_CUT = "Streams that were ended because their reader was too slow."
_OF_RECORDERS = {
    "beat": ("beat_seconds", "When the follower of a log last said that it lives, since the epoch."),
    "last_line": ("last_line_seconds", "When it last found new text in the log, since the epoch."),
    "lag": ("lag_seconds", "How long the lake has lacked lines that it has read."),
    "rows": ("rows", "New rows since it began."),
    "bad_lines": ("bad_lines", "Broken lines that it left out since it began."),
    "missing": ("missing", "Times that it could not find lines since it began."),
}
_UNREAD = "Connections that were cut because their caller read nothing of what was sent."
_UNSENT = "Bytes of answers and streams that wait to be sent."
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class Metrics(Collector):
    """The Prometheus metrics of one service.

    Parameters
    ----------
    lake : LakeReader
        The lake that it reads; ``/metrics`` shows the heartbeats of the logs that are followed into it.
    keys : Keys
    buckets : Buckets
    computing : Computing
    streams : Streams
    unsent : Unsent
        The parts of the service that count something themselves; ``/metrics`` shows what they count.

    Attributes
    ----------
    registry : CollectorRegistry
        The registry that ``/metrics`` shows.
    cut : Counter
        The connections that were cut.
    """

    def __init__(
        self,
        *,
        lake: LakeReader,
        keys: Keys,
        buckets: Buckets,
        computing: Computing,
        streams: Streams,
        unsent: Unsent,
    ) -> None:
        self._parts = lake, keys, buckets, computing, streams, unsent
        self.registry = registry = CollectorRegistry()
        self._requests = Counter(
            "tidytape_requests", "Requests that were answered.", ["route", "status"], registry=registry
        )
        self._seconds = Histogram(
            "tidytape_request_seconds",
            "Time until it was sent.",
            ["route"],
            buckets=_SECONDS,
            registry=registry,
        )
        self._weight = Counter("tidytape_weight", "Weight that was charged.", ["tier"], registry=registry)
        self._rows = Counter("tidytape_rows", "Rows that were sent.", ["type"], registry=registry)
        self._open = Gauge("tidytape_requests_open", "Requests that are being answered.", registry=registry)
        self.cut = Counter("tidytape_connections_cut", _UNREAD, registry=registry)
        registry.register(self)

    def begun(self) -> None:
        """Count a request that came in."""
        self._open.inc()

    def ended(self, facts: dict[str, object], seconds: float) -> None:
        """Count a request that was answered."""
        self._open.dec()
        route = str(facts.get("route", "other"))
        self._requests.labels(route, str(facts["status"])).inc()
        self._seconds.labels(route).observe(seconds)
        if weight := facts.get("weight"):
            self._weight.labels(str(facts.get("tier"))).inc(float(str(weight)))
        if rows := facts.get("rows"):
            self._rows.labels(str(facts.get("type"))).inc(float(str(rows)))

    def collect(self) -> Iterator[Metric]:
        """Yield the numbers that other parts of the service keep, as they are now."""
        lake, keys, buckets, computing, streams, unsent = self._parts
        faults, away = keys.faults, buckets.faults
        waiting, ended = computing.waiting, computing.ended
        yield CounterMetricFamily("tidytape_key_file_faults", _KEY_FILE_FAULTS, value=faults)
        yield CounterMetricFamily("tidytape_bucket_store_faults", _STORE_FAULTS, value=away)
        yield GaugeMetricFamily("tidytape_queries_waiting", "Queries that wait for a worker.", value=waiting)
        yield CounterMetricFamily("tidytape_workers_ended", _WORKERS_ENDED, value=ended)
        yield GaugeMetricFamily("tidytape_unsent_bytes", _UNSENT, value=unsent.total)
        counts = streams.counts
        yield GaugeMetricFamily("tidytape_stream_readers", "Open streams.", value=len(streams.readers))
        yield GaugeMetricFamily("tidytape_stream_lag_seconds", _STREAM_LAG, value=streams.lag)
        yield CounterMetricFamily("tidytape_stream_conflated", _CONFLATED, value=counts["conflated"])
        yield CounterMetricFamily("tidytape_stream_cut", _CUT, value=counts["cut"])
        with suppress(OSError):  # the lake may be away; the other metrics are needed then
            heartbeats = recorders(lake).with_columns(pl.col(pl.Datetime).dt.epoch("us") / 1e6)
            for column, (name, meaning) in _OF_RECORDERS.items():
                family = GaugeMetricFamily(f"tidytape_recorder_{name}", meaning, labels=["log", "host"])
                for row in heartbeats.drop_nulls(column).iter_rows(named=True):
                    family.add_metric([row["log"], row["host"]], row[column])
                yield family

    def page(self) -> bytes:
        """Return the text that Prometheus reads."""
        return generate_latest(self.registry)


class RequestLog:
    """ASGI middleware that logs and counts every request; it wraps all other middleware and the routes.

    Middleware and routes put what they know of a request into ``scope["state"]["facts"]``: ``key`` (its id, never the
    key), ``tier``, ``route``, ``type``, ``weight``, ``rows``. The logger ``tidytape.access`` gets a line per request:
    a JSON object of these and ``id``, ``method``, ``status`` and ``ms``.

    Parameters
    ----------
    app : ASGI application
    metrics : Metrics
    """

    def __init__(self, app: ASGIApp, *, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()
        facts: dict[str, object] = {"id": secrets.token_hex(8), "method": scope["method"], "status": 0}
        scope.setdefault("state", {})["facts"] = facts

        async def send_with_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                facts["status"] = message["status"]
                headers = MutableHeaders(scope=message)
                headers["X-Request-Id"] = str(facts["id"])
                headers["X-Content-Type-Options"] = (
                    "nosniff"  # JSON that quotes a request is never run as a page
                )
            await send(message)

        self._metrics.begun()
        try:
            await self._app(scope, receive, send_with_id)
        finally:
            seconds = time.perf_counter() - began
            self._metrics.ended(facts, seconds)
            # Status 0: the caller hung up before the answer.
            _access_log.info(orjson.dumps({**facts, "ms": round(seconds * 1000, 1)}).decode())


def health(
    lake: LakeReader, buckets: Buckets, metrics: Metrics, description: Mapping[str, Any]
) -> list[Route]:
    """Return the routes.

    Parameters
    ----------
    lake : LakeReader
    buckets : Buckets
        The service is ready if it can read the lake and reach the buckets.
    metrics : Metrics
        The metrics that ``/metrics`` shows.
    description : mapping
        The OpenAPI document.
    """
    known: set[str] = set()
    logged = ""

    def require_lake() -> None:
        """Raise LakeError unless every table that the lake ever had can be read from disk now."""
        # A table that has vanished is a fault, so its name stays in the set.
        known.update(table.name for table in tables(lake, None))
        require_readable(lake, sorted({*known, MARKETS.name}))

    async def alive(request: Request) -> Response:
        return Response(b'{"status":"alive"}', media_type="application/json")

    async def ready(request: Request) -> Response:
        nonlocal logged
        try:
            await anyio.to_thread.run_sync(require_lake)
            await buckets.check()
        except LakeError as error:  # the log says why; the caller has no key and learns nothing more
            if logged != error.message:
                logged = error.message
                _log.error("not ready: %s", logged)
            return error_response("UNAVAILABLE", "the lake cannot be read")
        except UnreachableError as error:
            return error_response("UNAVAILABLE", str(error))
        logged = ""
        return Response(b'{"status":"ready"}', media_type="application/json")

    def show_metrics(request: Request) -> Response:
        return Response(metrics.page(), media_type=CONTENT_TYPE_LATEST)

    described = orjson.dumps(description)

    async def describe(request: Request) -> Response:
        return Response(described, media_type="application/json")

    return [
        get("/healthz", alive, head=True),  # monitors often ask for the head alone
        get("/readyz", ready, head=True),
        get("/metrics", show_metrics),
        get("/openapi.json", describe),
    ]
