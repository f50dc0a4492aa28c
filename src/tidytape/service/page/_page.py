"""``GET /``: the service for a person with a browser, on one page that loads nothing else.

The page is the same for everybody and holds no data. It fetches what it shows with the key that a person types into it,
through the same routes as any other caller; see ``docs/adr/0015-a-page-at-the-root.md``.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

import orjson
import pyarrow as pa
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tidytape.budget import Tier
from tidytape.service._responses import get, is_known
from tidytape.service.page._facts import facts
from tidytape.service.work._computing import compressed

SCRIPTS = (
    "dom", "facts", "format", "weight", "query", "service", "stream", "quota", "answer", "table", "plot", "series",
    "profile", "heatmap", "chart", "controls", "window", "growing", "lake", "builder", "live", "main",
)  # fmt: skip
"""Parts of our script in the order in which they are joined: each may use what earlier parts define."""

_HERE = files("tidytape.service.page")
_SLOWEST = {"gzip": 9, "zstd": 19}
_STRICT = '"use strict";'  # before the library, because it must be the first statement of a script


def document(facts: Mapping[str, Any]) -> str:
    """Return the page.

    Parameters
    ----------
    facts : mapping of str to Any
        What `tidytape.service.page._facts.facts` returns.

    Returns
    -------
    str
        HTML that loads nothing.
    """
    # Escape `<`, which alone can end the script element.
    facts_as_json = orjson.dumps(facts).decode().replace("<", "\\u003c")
    return (
        _read("index.html")
        .replace("/* style */", _style())
        .replace("/* facts */", facts_as_json)
        .replace("/* script */", _script())
    )


def headers() -> dict[str, str]:
    """Return the headers of the page, which let it use only its own script and style and fetch from its own origin."""
    policy = {
        "default-src": "'none'",
        "script-src": _hash(_script()),
        "style-src": _hash(_style()),
        "connect-src": "'self'",
        "img-src": "data:",  # the icon
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
        # The browser refuses to parse text as markup, so text from anybody stays text.
        "require-trusted-types-for": "'script'",
        "trusted-types": "'none'",
    }
    return {
        "Content-Security-Policy": "; ".join(f"{name} {value}" for name, value in policy.items()),
        "Referrer-Policy": "no-referrer",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Cache-Control": "no-cache",  # the browser keeps the page, and asks by its ETag whether it changed
        "Vary": "Accept-Encoding",
    }


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _script() -> str:
    scripts = [_read(f"script/{name}.js") for name in SCRIPTS]
    return "\n".join(["", _STRICT, _read("uplot/uPlot.iife.min.js"), *scripts])


def _style() -> str:
    return "\n".join(["", _read("uplot/uPlot.min.css"), _read("page.css")])


def _read(name: str) -> str:
    return _HERE.joinpath(name).read_text("utf-8")


def page(*, key_header: str, tiers: Mapping[str, Tier]) -> Route:
    """Return the route.

    Parameters
    ----------
    key_header : str
        Header that carries the key.
    tiers : mapping of str to Tier
        The tiers of the service by name.
    """

    @cache  # rendered at the first request, because most apps run inside a client and never show the page
    def rendered() -> tuple[bytes, dict[str, str]]:
        body = document(facts(key_header=key_header, tiers=tiers)).encode()
        return body, {**headers(), "ETag": f'W/"{hashlib.sha256(body).hexdigest()[:32]}"'}

    @cache  # the page never changes, so it is compressed once per coding, at the slowest level
    def smallest(coding: str) -> bytes:
        codec = pa.Codec(coding, compression_level=_SLOWEST[coding])
        return bytes(codec.compress(rendered()[0], asbytes=True))

    def root(request: Request) -> Response:
        request.state.facts["route"] = "page"
        body, page_headers = rendered()
        if is_known(page_headers["ETag"], request.headers.get("if-none-match")):
            return Response(status_code=304, headers=page_headers)
        # Called only to choose the coding that the browser accepts; its fast compression is discarded.
        _, coding_headers = compressed(body, request.headers.get("accept-encoding", ""))
        content = smallest(coding_headers["Content-Encoding"]) if coding_headers else body
        return Response(content, headers={**page_headers, **coding_headers}, media_type="text/html")

    return get("/", root, head=True)
