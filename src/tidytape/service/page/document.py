"""The page as one document: markup, style, script and facts put together, and the headers that hold it to that."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

import orjson

__all__ = ["SCRIPTS", "document", "headers"]

SCRIPTS = (
    "dom", "facts", "format", "weight", "query", "service", "quota", "answer", "table", "plot", "series", "profile",
    "heatmap", "chart", "controls", "window", "lake", "builder", "main",
)  # fmt: skip
"""Parts of our script in the order in which they are joined: each may use what those before it define."""

_HERE = files("tidytape.service.page")
_STRICT = '"use strict";'  # before the library, since it has to be the first statement of a script


def document(facts: Mapping[str, Any]) -> str:
    """Return the page.

    Parameters
    ----------
    facts : mapping of str to Any
        From `tidytape.service.page.facts.facts`.

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
    ours = [_read(f"script/{name}.js") for name in SCRIPTS]
    return "\n".join(["", _STRICT, _read("uplot/uPlot.iife.min.js"), *ours])


def _style() -> str:
    return "\n".join(["", _read("uplot/uPlot.min.css"), _read("page.css")])


def _read(name: str) -> str:
    return _HERE.joinpath(name).read_text("utf-8")
