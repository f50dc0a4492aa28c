"""What an operator sees: an id per request, one line per request in the log, and figures for Prometheus."""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable, Iterator

import orjson
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import Metric
from prometheus_client.registry import Collector
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["Figures", "Observer"]

_log = logging.getLogger("tidytape.access")
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class Figures:
    """Counters of one service.

    Attributes
    ----------
    registry : CollectorRegistry
        Where they are.
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        here = self.registry
        self._requests = Counter(
            "tidytape_requests", "Requests that were answered.", ["route", "status"], registry=here
        )
        self._seconds = Histogram(
            "tidytape_request_seconds", "Time until it was sent.", ["route"], buckets=_SECONDS, registry=here
        )
        self._weight = Counter("tidytape_weight", "Weight that was charged.", ["tier"], registry=here)
        self._rows = Counter("tidytape_rows", "Rows that were sent.", ["type"], registry=here)
        self._open = Gauge("tidytape_requests_open", "Requests that are being answered.", registry=here)
        self._read = _Read()
        here.register(self._read)

    def begun(self) -> None:
        """Count a request that came in."""
        self._open.inc()

    def ended(self, facts: dict[str, object], seconds: float) -> None:
        """Count what became of it."""
        self._open.dec()
        route = str(facts.get("route", "other"))
        self._requests.labels(route, str(facts["status"])).inc()
        self._seconds.labels(route).observe(seconds)
        if weight := facts.get("weight"):
            self._weight.labels(str(facts.get("tier"))).inc(float(str(weight)))
        if rows := facts.get("rows"):
            self._rows.labels(str(facts.get("type"))).inc(float(str(rows)))

    def watch(self, metric: type[Metric], name: str, meaning: str, read: Callable[[], float]) -> None:
        """Show a number that another part of the service keeps, as it is when the page is read.

        Parameters
        ----------
        metric : type
            ``CounterMetricFamily`` of a number that only grows, else ``GaugeMetricFamily``.
        name, meaning : str
            As Prometheus shows them.
        read : callable
            Returns the number.
        """
        self._read.sources.append((metric, name, meaning, read))

    def page(self) -> bytes:
        """Return them as Prometheus reads them."""
        return generate_latest(self.registry)


class _Read(Collector):
    """Metrics that are read from elsewhere when they are asked for."""

    def __init__(self) -> None:
        self.sources: list[tuple[type[Metric], str, str, Callable[[], float]]] = []

    def collect(self) -> Iterator[Metric]:
        for metric, name, meaning, read in self.sources:
            yield metric(name, meaning, value=read())  # type: ignore[call-arg]  # of both families


class Observer:
    """ASGI middleware around everything else.

    What is known of a request along the way is put into ``scope["state"]["facts"]``: ``key`` (its id, never the key),
    ``tier``, ``route``, ``type``, ``weight``, ``rows``. The line in the log, of the logger ``tidytape.access``, is one
    JSON object of these, ``id``, ``method``, ``status`` and ``ms``.

    Parameters
    ----------
    app : ASGI application
    figures : Figures
    """

    def __init__(self, app: ASGIApp, *, figures: Figures) -> None:
        self._app = app
        self._figures = figures

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

        self._figures.begun()
        try:
            await self._app(scope, receive, send_with_id)
        finally:
            seconds = time.perf_counter() - began
            self._figures.ended(facts, seconds)
            # A status of 0: the caller was gone before there was an answer.
            _log.info(orjson.dumps({**facts, "ms": round(seconds * 1000, 1)}).decode())
