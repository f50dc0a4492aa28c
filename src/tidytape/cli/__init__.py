"""The command line: parse, call, print. It has no logic of its own."""

from __future__ import annotations

from tidytape.cli._main import app, main

__all__ = ["app", "main"]
