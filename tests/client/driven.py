"""A client whose clock a test moves: it carries out flows as the real ones do, but waiting is only noted."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import polars as pl

from tidytape.client._budget import Quota
from tidytape.client._cache import LIMIT
from tidytape.client._fetching import fetched
from tidytape.client._metadata import Metadata
from tidytape.client._settings import Settings
from tidytape.client._steps import Answer, Call, Send, Together, Wait
from tidytape.client._window import Window

NS = 10**9


class Clock:
    """Epoch nanoseconds, the same for the service and the client."""

    def __init__(self, second: float) -> None:
        self.now_ns = int(second * NS)

    def __call__(self) -> int:
        return self.now_ns


class Driven:
    """Carries out flows one step after the other."""

    def __init__(
        self, transport: httpx.BaseTransport, clock: Clock, *, cache: Path | bool = False, **options: Any
    ):
        self.clock = clock
        self.http = httpx.Client(transport=transport)
        self.waited = 0.0
        self.answers: list[Answer] = []
        self.requests: list[httpx.Request] = []
        given = {
            "auth_header": "X-Service-Key", "timeout": 60.0, "deadline": 300.0, "attempts": 6, "max_body": 2**30,
            "on_limit": "wait", "max_wait": None, "partial": "raise", "parallel": 1, "offline": False,
            "progress": False, "cache": cache, "cache_limit": LIMIT, "is_network": False, "absent": "null",
        } | options  # fmt: skip
        settings = Settings.read("http://service", "the-secret-key", **given)  # type: ignore[arg-type]
        self.settings = replace(settings, quota=Quota(clock=clock))

    def fetch(self, window: Window, *, progress: bool = False) -> tuple[pl.DataFrame, Metadata]:
        settings = replace(self.settings, progress=progress)
        return self.run(fetched(settings, window))  # type: ignore[no-any-return]

    def run(self, steps: Generator[Any, Any, Any]) -> Any:
        try:
            step = next(steps)
            while True:
                step = steps.send(self._carry_out(step))
        except StopIteration as done:
            return done.value
        finally:
            steps.close()

    def _carry_out(self, step: object) -> object:
        if isinstance(step, Wait):
            self.waited += step.seconds
            self.clock.now_ns += round(step.seconds * NS)
            return None
        if isinstance(step, Call):
            return step.function()
        if isinstance(step, Together):
            return [self.run(steps) for steps in step.flows]
        assert isinstance(step, Send)
        self.requests.append(step.request)
        try:
            response = self.http.send(step.request)
        except httpx.HTTPError as failure:
            return failure
        self.answers.append(Answer(response.status_code, response.headers, response.content))
        return self.answers[-1]
