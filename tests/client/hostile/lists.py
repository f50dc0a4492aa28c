"""Pages of markets, lists of names, and the quota."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import polars as pl

from client.hostile.answers import refusal
from client.hostile.case import KEY, Answer, Case, Outcome, column, equals
from tidytape.errors import DecodeError, IncompleteDataError


def page(*symbols: Any, following: Any) -> Answer:
    entries = [{"exchange": "X", "rawSymbol": one} if isinstance(one, str) else one for one in symbols]
    return Answer(200, json.dumps({"symbols": entries, "nextOffset": following}).encode())


def of(**fields: Any) -> Answer:
    return Answer(200, json.dumps(fields).encode())


def lists() -> Iterator[Case]:
    end = page(following=0)
    moved = {"exchange": "X", "rawSymbol": "B", "coin": "ETH", "lastPrice": 2.0}

    def symbols(*wanted: str) -> Callable[[pl.DataFrame], None]:
        return column("raw_symbol", *wanted)

    pages: dict[str, tuple[tuple[Answer, ...], Outcome]] = {
        "a market that moved down": (
            (page("A", "B", following=2), page(moved, "C", following=4), end),
            symbols("A", "B", "C"),
        ),
        "a page pushed down": (
            (page("A", following=1), page("A", following=2), page("B", following=3), end),
            symbols("A", "B"),
        ),
        "an offset not heeded": (
            (
                page("A", "B", following=2),
                page("A", "B", following=4),
                page("A", "B", following=6),
                page("A", "B", following=8),
            ),
            IncompleteDataError,
        ),
        "an offset going back": ((page("A", following=1), page("B", following=-7)), symbols("A", "B")),
        "an offset as a text": ((page("A", following="1"), end), symbols("A")),
        "an offset as a word": ((page("A", following=KEY),), DecodeError),
        "an offset beyond 64 bits": ((page("A", following=10**40),), DecodeError),
        "a null market": ((page(None, following=0),), DecodeError),
        "a market without an exchange": ((page({"rawSymbol": "A"}, following=0),), DecodeError),
        "a price as a word": ((page(moved | {"lastPrice": KEY}, following=0),), DecodeError),
        "an error": ((of(error="NO", message=KEY),), DecodeError),
        "a failure between pages": ((page("A", following=1), refusal(503), end), symbols("A")),
        "nothing": ((Answer(200, b"{}"),), symbols()),
        "the key as a market": ((page(KEY, following=0),), symbols("*" * len(KEY))),
    }
    for name, (answers, outcome) in pages.items():
        yield Case(f"markets, {name}", answers, outcome, ask="markets")
    names: dict[str, tuple[Answer, Outcome]] = {
        "the list": (of(coins=["BTC"]), equals("BTC")),
        "a bare array": (Answer(200, b'["BTC"]'), equals("BTC")),
        "null": (of(coins=None), equals()),
        "numbers": (of(coins=[1]), DecodeError),
        "nulls": (of(coins=[None]), DecodeError),
        "objects": (of(coins=[{"coin": "BTC"}]), DecodeError),
        "two arrays": (of(a=[], b=[]), DecodeError),
        "the key": (of(coins=[KEY]), equals("*" * len(KEY))),
        "an error": (of(error="NO", message=KEY), DecodeError),
        "an error with details": (of(error="NO", details=[KEY]), DecodeError),
        "errors": (of(errors=[KEY]), DecodeError),
        "a page": (Answer(200, b"<html>"), DecodeError),
        "cut": (Answer(200, b'{"coins":["B'), DecodeError),
    }
    for name, (answer, outcome) in names.items():
        yield Case(f"coins, {name}", (answer,), outcome, ask="coins")
    quota = {"limit": 1, "remaining": 1, "used": 0, "reset": 1, "window_seconds": 60}
    for name, value in {
        "a word": "much",
        "the key": KEY,
        "null": None,
        "an array": [1],
        "true": True,
        "a large number": 10**300,
    }.items():
        yield Case(f"usage, {name}", (of(**quota | {"limit": value}),), DecodeError, ask="usage")
    yield Case("block sizes, a word", (of(blockSizes=[{"blockSize": KEY}]),), DecodeError, ask="block_sizes")
