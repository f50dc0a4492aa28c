"""The page in a browser: a service on this machine, and the page as its reader uses it."""

from __future__ import annotations

import asyncio
import json
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
import uvicorn

from simulated import rollup_events as events
from tidytape.budget import TIERS, Tier
from tidytape.catalogue import TierName
from tidytape.lake import Lake
from tidytape.query import PointsQuery
from tidytape.service import Key, Keys, create_app, hashed
from tidytape.service.answer._engine import Engine
from tidytape.service.answer._scan import Limits
from tidytape.service.work._computing import AnswerTask, Task, Threads

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
IN_A_BROWSER = [
    pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="needs chromium and chromedriver"),
    pytest.mark.slow,
]

NS = 10**9
NOW = events.START + 2 * 86_400 * NS  # the service's clock stands still, so that no weight comes back
SMALL = Tier("small", 10, 20, None, aggregation=False, rank=TierName.BASIC)
SECRET = "a-key-that-nothing-may-keep"
KEYS = {"basic": "basic", "enterprise": "enterprise", "small": "small", SECRET: "enterprise"}


# --- a service and a browser ---


@dataclass
class Held:
    """Computes answers, and keeps them back for as long as it is told to."""

    inner: Threads
    back: bool = False
    asked: list[PointsQuery] = field(default_factory=list)

    @property
    def limits(self) -> Limits:
        return self.inner.limits

    async def run(self, task: Task[Any]) -> Any:
        if isinstance(task, AnswerTask):
            self.asked.append(task.query)
        while self.back:
            await asyncio.sleep(0.01)
        return await self.inner.run(task)


@dataclass
class Served:
    """A service on this machine, over a small lake with events of every type."""

    lake: Lake
    held: Held
    origin: str = ""

    def ask(self, path: str, key: str = "enterprise") -> httpx.Response:
        return httpx.get(f"{self.origin}{path}", headers={"X-Service-Key": key})

    def used(self, key: str = "enterprise") -> int:
        return int(self.ask("/v1/usage", key).json()["used"])


def below(prefix: str, app: Any) -> Any:
    """What a proxy does that passes on what is below a prefix, and nothing else."""

    async def passed_on(scope: Any, receive: Any, send: Any) -> None:
        assert scope["path"].startswith(prefix), scope["path"]
        await app({**scope, "path": scope["path"].removeprefix(prefix)}, receive, send)

    return passed_on


@contextmanager
def serving(lake: Lake, *, prefix: str = "", port: int = 0, **options: Any) -> Iterator[Served]:
    held = Held(Threads(Engine(lake, clock=lambda: NOW)))
    tiers = {**TIERS, SMALL.name: SMALL}
    keys = Keys(
        [Key(f"id-{place}", hashed(key), tier, created=0) for place, (key, tier) in enumerate(KEYS.items())]
    )
    app = create_app(lake, keys, tiers=tiers, computing=held, clock=lambda: NOW, **options)
    server = uvicorn.Server(
        uvicorn.Config(below(prefix, app), port=port, log_config=None, access_log=False, lifespan="off")
    )
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    until(lambda: server.started)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield Served(lake, held, f"http://127.0.0.1:{port}{prefix}")
    finally:
        app.state.streams.close()
        server.should_exit = True
        thread.join()


def until(is_so: Any) -> None:
    for _ in range(1_000):
        if is_so():
            return
        time.sleep(0.02)
    raise AssertionError("it never came to that")


@contextmanager
def browser(profile: Path) -> Iterator[Any]:
    """Chromium that stores what it has to in a folder of its own."""
    webdriver = pytest.importorskip("selenium.webdriver")
    options = webdriver.ChromeOptions()
    options.binary_location = str(CHROMIUM)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    for flag in (
        *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
        *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
        "--disable-dev-shm-usage",  # which is small in some containers
        f"--user-data-dir={profile}",
        "--window-size=1280,1000",
    ):
        options.add_argument(flag)
    made = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    try:
        yield made
    finally:
        made.quit()


class Page:
    """The page as its reader uses it."""

    def __init__(self, driver: Any, origin: str) -> None:
        self.driver = driver
        self.origin = origin

    def open(self) -> None:
        for kind in ("browser", "performance"):
            self.driver.get_log(kind)  # what another test left
        self.driver.get(f"{self.origin}/")

    def is_entered(self) -> bool:
        room = "document.querySelector('#room')"
        return bool(
            self.js(f"return location.href === `${{arguments[0]}}/` && {room}?.hidden === false", self.origin)
        )

    def js(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(script, *arguments)

    def find(self, selector: str) -> Any:
        return self.driver.find_element("css selector", selector)

    def all(self, selector: str) -> list[Any]:
        return list(self.driver.find_elements("css selector", selector))

    def text(self, selector: str) -> str:
        return str(self.js("return document.querySelector(arguments[0]).textContent", selector))

    def texts(self, selector: str) -> list[str]:
        found = self.js(
            "return [...document.querySelectorAll(arguments[0])].map((one) => one.textContent)", selector
        )
        return [str(one) for one in found]

    def offered(self) -> set[str]:
        """Names of the parameters that can be chosen."""
        shown = "[...document.querySelectorAll('[data-parameter]')].filter((one) => !one.disabled)"
        return set(self.js(f"return {shown}.map((one) => one.dataset.parameter)"))

    def enter(self, key: str = "enterprise") -> None:
        self.find("#key").send_keys(key + "\n")
        until(self.is_ready)

    def is_ready(self) -> bool:
        return self.is_at_rest("query")

    def is_at_rest(self, name: str) -> bool:
        return bool(self.js("return document.getElementById(arguments[0]).ariaBusy === 'false'", name))

    def choose(self, control: str, value: str) -> None:
        from selenium.webdriver.support.ui import Select

        Select(self.find(control)).select_by_value(value)
        until(self.is_ready)

    def tick(self, selector: str, value: str, *, on: bool = True) -> None:
        (box,) = [one for one in self.all(selector) if one.get_attribute("value") == value]
        if box.is_selected() != on:
            self.js("arguments[0].click()", box)
        until(self.is_ready)

    def type(self, selector: str, text: str) -> None:
        box = self.find(selector)
        box.clear()
        box.send_keys(text + "\t")
        until(self.is_ready)

    def send(self) -> None:
        self.js("arguments[0].scrollIntoView({ block: 'center' })", self.find("#send"))
        self.find("#send").click()

    def ask(self) -> None:
        self.send()
        until(lambda: self.is_at_rest("answer"))

    def lines(self) -> dict[str, str]:
        return dict(zip(self.texts("#lines dt"), self.texts("#lines code"), strict=True))

    def weight(self) -> int:
        return int(self.text("#weight").removeprefix("Weight ").replace(",", ""))

    def rows(self) -> list[dict[str, str]]:
        names = [text.partition(" [")[0] for text in self.texts("#rows th")]
        cells = self.js(
            "return [...document.querySelectorAll('#rows tbody tr')]"
            ".map((row) => [...row.cells].map((cell) => cell.textContent))"
        )
        return [dict(zip(names, row, strict=True)) for row in cells]


def assert_harmless(page: Page) -> None:
    """Whatever was done: no error, nothing that the policy refused, no foreign element, no request to anybody else."""
    complaints = [one for one in page.driver.get_log("browser") if one["source"] != "network"]
    assert complaints == [], complaints
    foreign = [url for url in requested(page.driver) if origin_of(url) != origin_of(page.origin)]
    assert foreign == [], foreign
    assert page.js("return document.querySelectorAll('img, #room i + i, [onerror], [onload]').length") == 0


def requested(driver: Any) -> list[str]:
    messages = (json.loads(one["message"])["message"] for one in driver.get_log("performance"))
    urls = [
        one["params"]["request"]["url"] for one in messages if one["method"] == "Network.requestWillBeSent"
    ]
    # The browser's first, empty tab loads pages of its own (``chrome:`` and the like); nobody on a network sees them.
    return [url for url in urls if not url.startswith(("data:", "chrome"))]


def origin_of(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"
