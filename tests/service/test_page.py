"""The page at ``/``: the same for everybody, with nothing in it that is not its own, and nothing left out of it."""

from __future__ import annotations

import asyncio
import base64
import gzip
import hashlib
import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path
from typing import Any

import httpx
import pytest

from lakes import empty_lake
from simulated.everything import everything
from tables import each_row
from tidytape.budget import TIERS
from tidytape.catalogue import DATA_TYPES, SURCHARGE_PARTS
from tidytape.errors import QueryError
from tidytape.query import PointsQuery
from tidytape.service import Keys, create_app
from tidytape.service.page import SCRIPTS, document
from tidytape.service.page._facts import facts

HERE = files("tidytape.service.page")
SVG = "http://www.w3.org/2000/svg"  # a name, which nothing is loaded from
BANNER = "/*! https://github.com/leeoniya/uPlot (v1.6.32) */"  # a comment, the first line of the library
# Files of the release, as docs/adr/0029-charts-are-drawn-by-uplot.md records them.
RELEASE = {
    "uPlot.iife.min.js": "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
    "uPlot.min.css": "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
    "LICENSE": "8f989229699b4fe2f1a0432d0e9edc338a8a911e250e2d1b01ecd770a5f5b1bd",
}


class Markup(HTMLParser):
    """Every element with its attributes, and the text of scripts and styles."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.inline: list[tuple[str, dict[str, str | None], str]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.cdata_elem:  # inside of a script or a style
            self.inline.append((*self.elements[-1], data))

    def text_of(self, tag: str, **attributes: str) -> str:
        return "".join(text for one, has, text in self.inline if one == tag and has == attributes)


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return create_app(everything(tmp_path_factory.mktemp("page") / "lake"), Keys([]))


@pytest.fixture
def get(app: Any) -> Any:
    def answered(path: str = "/", method: str = "GET", **headers: str) -> httpx.Response:
        return asked(app, method, path, {name.replace("_", "-"): value for name, value in headers.items()})

    return answered


def asked(app: Any, method: str, path: str, headers: dict[str, str]) -> httpx.Response:
    async def answer() -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://service") as client:
            return await client.request(method, path, headers={"Accept-Encoding": "identity", **headers})

    return asyncio.run(answer())


# --- what is sent ---


def test_it_is_html_without_a_key(get: Any) -> None:
    answer = get()
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.text.startswith("<!doctype html>")
    assert "x-ratelimit-limit" not in answer.headers
    assert get(method="HEAD").status_code == 200


def test_it_is_the_same_for_everybody(get: Any, tmp_path: Path) -> None:
    """Nothing of the lake is in it, and nothing changes with a key."""
    page = get().content
    assert get(X_Service_Key="any").content == page
    empty = create_app(empty_lake(tmp_path / "empty"), Keys([]))
    assert asked(empty, "GET", "/", {}).content == page


def test_the_browser_is_told_to_run_this_and_nothing_else(get: Any) -> None:
    answer = get()
    page = Markup(answer.text)
    policy = dict(part.split(" ", 1) for part in answer.headers["content-security-policy"].split("; "))
    assert policy == {
        "default-src": "'none'",
        "script-src": digest(page.text_of("script")),
        "style-src": digest(page.text_of("style")),
        "connect-src": "'self'",
        "img-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
        "require-trusted-types-for": "'script'",
        "trusted-types": "'none'",
    }
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"


def digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def test_it_loads_nothing(get: Any) -> None:
    text = get().text
    assert not re.search(r"(?:https?:)?//\w", text.replace(SVG, "").replace(BANNER, ""))
    assert "@import" not in text
    assert "url(" not in text
    for tag, attributes in Markup(text).elements:
        assert tag not in {"iframe", "object", "embed", "img", "base"}
        assert "src" not in attributes
        assert not any(name == "style" or name.startswith("on") for name in attributes)
        if tag == "link":
            assert str(attributes["href"]).startswith("data:image/svg+xml,")


def test_a_browser_that_has_it_is_not_sent_it_again(get: Any) -> None:
    first = get()
    again = get(If_None_Match=first.headers["etag"])
    assert (again.status_code, again.content) == (304, b"")
    assert again.headers["content-security-policy"] == first.headers["content-security-policy"]
    assert first.headers["cache-control"] == "no-cache"


def test_it_is_packed_for_who_takes_that(app: Any) -> None:
    async def raw() -> tuple[bytes, str, str]:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://service") as client:
            request = client.build_request("GET", "/", headers={"Accept-Encoding": "gzip"})
            answer = await client.send(request, stream=True)
            body = b"".join([part async for part in answer.aiter_raw()])
            return body, answer.headers["content-encoding"], answer.headers["vary"]

    body, coding, vary = asyncio.run(raw())
    assert (coding, vary) == ("gzip", "Accept-Encoding")
    assert len(body) < len(gzip.decompress(body)) / 3
    assert gzip.decompress(body) == asked(app, "GET", "/", {}).content


@pytest.mark.parametrize("path", ["/favicon.ico", "/index.html", "/page.css", "/script/main.js"])
def test_there_is_no_other_file(get: Any, path: str) -> None:
    answer = get(path)
    assert (answer.status_code, answer.json()["error"]) == (404, "NOT_FOUND")


def test_it_is_only_read(get: Any) -> None:
    answer = get(method="POST")
    assert (answer.status_code, answer.json()["error"]) == (405, "METHOD_NOT_ALLOWED")


def test_requests_for_it_are_counted_by_name(get: Any) -> None:
    get()
    assert 'tidytape_requests_total{route="page",status="200"}' in get("/metrics").text


# --- what it is made of ---


def test_every_part_of_the_script_is_in_it() -> None:
    parts = {one.name.removesuffix(".js") for one in HERE.joinpath("script").iterdir()}
    assert parts == set(SCRIPTS)
    page = document({})
    for name in SCRIPTS:
        assert HERE.joinpath(f"script/{name}.js").read_text("utf-8") in page


@pytest.mark.parametrize(("name", "digest"), RELEASE.items())
def test_the_library_is_the_release_unmodified_and_its_licence_is_beside_it(name: str, digest: str) -> None:
    content = HERE.joinpath("uplot", name).read_bytes()
    assert hashlib.sha256(content).hexdigest() == digest
    assert digest in (Path(__file__).parents[2] / "docs/adr/0029-charts-are-drawn-by-uplot.md").read_text(
        "utf-8"
    )
    if name != "LICENSE":
        assert content.decode() in document({})


def test_no_name_is_given_twice() -> None:
    """The parts are one script: a name that two of them define would be an error, or silently the later one's."""
    declared = re.compile(r"^(?:async )?(?:function\*?|const|let|class) (\w+)", re.MULTILINE)
    parts = [HERE.joinpath(f"script/{name}.js").read_text("utf-8") for name in SCRIPTS]
    names = [name for part in parts for name in declared.findall(part)]
    assert len(names) > 100
    assert sorted(names) == sorted(set(names))


@each_row("path", [*(f"script/{name}.js" for name in SCRIPTS), "uplot/uPlot.iife.min.js"])
def test_no_part_parses_markup_runs_text_or_stores_anything(path: str) -> None:
    code = HERE.joinpath(path).read_text("utf-8")
    assert not re.findall(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|\beval\b|new Function|srcdoc"
        r"|localStorage|sessionStorage|indexedDB|cookie|pushState|replaceState|postMessage|sendBeacon",
        code,
    )


def test_facts_cannot_end_their_element() -> None:
    hostile = "</script><script>alert(1)</script>"
    page = Markup(document(facts(key_header=hostile, tiers=TIERS)))
    assert [tag for tag, _ in page.elements].count("script") == 2
    assert json.loads(page.text_of("script", type="application/json", id="facts"))["keyHeader"] == hostile


# --- its facts ---


@pytest.fixture(scope="module")
def told() -> dict[str, Any]:
    return facts(key_header="X-Service-Key", tiers=TIERS)


def test_facts_of_the_weight_are_the_catalogues(told: dict[str, Any]) -> None:
    assert (told["pointsPerWeight"], told["surchargeParts"]) == (1000, SURCHARGE_PARTS)
    weighed = {
        one["name"]: (one["multiplier"], one["includedDepth"], one["maxPoints"]) for one in told["types"]
    }
    assert weighed == {
        name: (kind.multiplier, kind.included_depth, kind.max_points) for name, kind in DATA_TYPES.items()
    }
    assert [one["burst"] for one in told["tiers"]] == [200, 1500, 1500]


def test_a_type_offers_what_the_table_of_capabilities_says(told: dict[str, Any]) -> None:
    for one in told["types"]:
        kind = DATA_TYPES[one["name"]]
        offered = {
            "transform.normalize.quote": kind.usd or kind.name == "FUNDING_RATE_AGG",
            "transform.groupBy.type": kind.group_by is not None,
            "gapfill": kind.gapfill,
            "tenor": kind.per_tenor,
            "side": kind.per_side,
            "maxDepth": kind.included_depth is not None,
            "blockSize": bool(kind.levels),
            "tpoSession": kind.name == "TPO_AGG",
            "tpoBlockSizeMinutes": kind.name == "TPO_AGG",
            "transform.normalize.fundingInterval": kind.name == "FUNDING_RATE_AGG",
        }
        assert {name: name in one["takes"] for name in offered} == offered, kind.name


def test_ways_of_picking_markets(told: dict[str, Any]) -> None:
    ways = {one["name"]: (one["ways"], one["needsExchange"], one["needsTenor"]) for one in told["types"]}
    assert ways["TRADE"] == ([["rawSymbol"], ["coin"], ["normalizedSymbol"]], True, False)
    assert ways["SKEW_OPTION_SUMMARY_AGG"] == ([["rawSymbol", "coin"]], True, True)
    assert ways["TOKEN_SUPPLY_AGG"] == ([["coin"], ["tokenName"]], False, False)
    assert ways["VENUEX_LIQUIDATION_AGG"] == ([["coin"]], False, False)


@each_row("name", sorted(DATA_TYPES))
def test_every_way_that_is_offered_is_one_that_the_service_takes(told: dict[str, Any], name: str) -> None:
    (one,) = [kind for kind in told["types"] if kind["name"] == name]
    for way in one["ways"]:
        for query in queries(one, way):
            assert PointsQuery.from_params(query.items()).type == (name,)
        for missing in way:
            less = next(queries(one, [name for name in way if name != missing]))
            with pytest.raises(QueryError):
                PointsQuery.from_params(less.items())


def queries(kind: dict[str, Any], way: list[str]) -> Iterator[dict[str, str]]:
    """One with what is needed, and one with every option as well."""
    values = {
        "side": "BUY",
        "gapfill": "true",
        "transform.normalize.quote": "USD",
        "tpoBlockSizeMinutes": "30",
        "tpoSession": "TPO_SESSION_DAILY",
        "maxDepth": "5",
        "blockSize": "1",
        "transform.normalize.fundingInterval": "3600000",
        "event": "e",
        "tenor": "ONE_W",
        "sortDirection": "SORT_DIRECTION_DESC",
    }
    least = {
        "type": kind["name"],
        "interval": "HOUR",
        "from": "0",
        "period": "3600",
        **dict.fromkeys(way, "A"),
    }
    if kind["needsExchange"]:
        least["exchange"] = "X"
    if kind["needsTenor"]:
        least["tenor"] = "ONE_W"
    yield least
    yield {**least, **{name: value for name, value in values.items() if name in kind["takes"]}}
