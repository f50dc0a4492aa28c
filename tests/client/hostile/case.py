"""A case of a hostile service: what it answers, and what a client must make of that."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from tidytape.errors import TidytapeError

KEY = "sk_live/9f8e7d6c5b4a"
KIND = "TRADE_SIDE_AGNOSTIC_AGG"


def in_json(text: str) -> str:
    return "".join(f"\\u{ord(one):04x}" for one in text)


def in_url(text: str) -> str:
    return "".join(f"%{ord(one):02X}" for one in text)


def key_spellings() -> list[str]:
    """Return what must be nowhere: the key as it is, and as JSON, URLs and Python write it."""
    return [KEY, KEY.replace("/", r"\/"), KEY.replace("/", "%2F"), in_json(KEY), in_url(KEY), KEY[3:-3]]


@dataclass(frozen=True)
class Answer:
    """One answer of the service."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] | list[tuple[str, str]] = field(default_factory=dict)


Outcome = type[TidytapeError] | Callable[[Any], None]


@dataclass(frozen=True)
class Case:
    """What the service answers, what is asked, and what comes of it."""

    name: str
    answers: tuple[Answer | bytes, ...]
    outcome: Outcome
    ask: str = "candles"
    sent: int | None = None
    """How many requests are sent; one for each answer, if left out and the outcome is no error."""
    options: Mapping[str, Any] = field(default_factory=dict)


# --- the right answer -----------------------------------------------------------------------------------------------

VALUES = {"open": 1.5, "high": 2.0, "low": 1.0, "close": 1.25, "volume": 3.0}
TIMES = (0, 60, 120)
ID = {"type": KIND, "exchange": "X", "rawSymbol": "BTC", "interval": "MINUTE"}
COLUMNS = ["exchange", "raw_symbol", "timestamp", *VALUES]


def point(second: Any = 0, **fields: Any) -> dict[str, Any]:
    return {"Point": {"timestamp": {"s": second}, **VALUES, **fields}}


def series(*points: Any, **identity: Any) -> dict[str, Any]:
    return {"id": ID | identity, "points": list(points) or [point(second) for second in TIMES]}


def body(*several: Any) -> bytes:
    return json.dumps({"series": list(several) or [series()]}).encode()


def rows_of(frame: pl.DataFrame) -> list[tuple[Any, ...]]:
    return frame.with_columns(pl.col("timestamp").dt.epoch("s")).select(COLUMNS).rows()


def RIGHT(frame: pl.DataFrame) -> None:  # noqa: N802 - a name of the tables below
    assert rows_of(frame) == [("X", "BTC", second, *VALUES.values()) for second in TIMES]
    assert frame.schema["exchange"] == pl.Categorical


def empty(frame: pl.DataFrame) -> None:
    assert frame.is_empty()
    assert set(COLUMNS) <= set(frame.columns)


def column(name: str, *values: Any) -> Callable[[pl.DataFrame], None]:
    def check(frame: pl.DataFrame) -> None:
        assert repr(frame[name].to_list()) == repr(list(values))

    return check


def equals(*values: Any) -> Callable[[Any], None]:
    def check(found: Any) -> None:
        assert found == list(values)

    return check


def right_and(*checks: Callable[[pl.DataFrame], None]) -> Callable[[pl.DataFrame], None]:
    def check(frame: pl.DataFrame) -> None:
        for one in (RIGHT, *checks):
            one(frame)

    return check


GOOD = body()
OK = Answer(200, GOOD)
