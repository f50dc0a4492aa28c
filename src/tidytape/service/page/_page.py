"""``GET /``: the service for a person with a browser, on one page that loads nothing else.

The page is the same for everybody and holds no data. What it shows it asks for with the key that is typed into it,
through the routes that every other caller uses; see ``docs/adr/0015-a-page-at-the-root.md``.
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
"""Parts of our script in the order in which they are joined: each may use what those before it define."""

_HERE = files("tidytape.service.page")
_SLOWEST = {"gzip": 9, "zstd": 19}
_STRICT = '"use strict";'  # before the library, since it has to be the first statement of a script


def document(facts: Mapping[str, Any]) -> str:
    """Return the page.

    Parameters
    ----------
    facts : mapping of str to Any
        From `tidytape.service.page._facts.facts`.

    Returns
    -------
    str
        HTML that loads nothing from anywhere.
    """
    # Inside of a script element only `<` can end it.
    written = orjson.dumps(facts).decode().replace("<", "\\u003c")
    return (
        _read("index.html")
        .replace("/* style */", _style())
        .replace("/* facts */", written)
        .replace("/* script */", _script())
    )


def headers() -> dict[str, str]:
    """Return the headers of the page: it runs the script and the style it came with, and asks its own origin."""
    policy = {
        "default-src": "'none'",
        "script-src": _hash(_script()),
        "style-src": _hash(_style()),
        "connect-src": "'self'",
        "img-src": "data:",  # its icon
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
        # No text ever becomes markup, whoever wrote it: the browser refuses to parse any.
        "require-trusted-types-for": "'script'",
        "trusted-types": "'none'",
    }
    return {
        "Content-Security-Policy": "; ".join(f"{name} {value}" for name, value in policy.items()),
        "Referrer-Policy": "no-referrer",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Cache-Control": "no-cache",  # kept, and asked for again by its ETag
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
        What each tier may ask for.
    """

    @cache  # rendered at the first request, because most apps are inside a client and never show it
    def rendered() -> tuple[bytes, dict[str, str]]:
        body = document(facts(key_header=key_header, tiers=tiers)).encode()
        return body, {**headers(), "ETag": f'W/"{hashlib.sha256(body).hexdigest()[:32]}"'}

    @cache  # the page never changes, so that it is compressed once, at the slowest level
    def smallest(coding: str) -> bytes:
        codec = pa.Codec(coding, compression_level=_SLOWEST[coding])
        return bytes(codec.compress(rendered()[0], asbytes=True))

    def root(request: Request) -> Response:
        request.state.facts["route"] = "page"
        body, sent = rendered()
        if is_known(sent["ETag"], request.headers.get("if-none-match")):
            return Response(status_code=304, headers=sent)
        _, coding = compressed(body, request.headers.get("accept-encoding", ""))
        small = smallest(coding["Content-Encoding"]) if coding else body
        return Response(small, headers={**sent, **coding}, media_type="text/html")

    return get("/", root, head=True)
