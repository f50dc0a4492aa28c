"""Prediction markets as the gamma API tells them: one JSON object, an array of them, or an object per line.

Numbers come as numbers or as text, lists as text that is JSON itself. Fields are known by their names, others are
passed over; an absent, null or empty one is unknown:

================================ ==================================================================================
ours                             gamma's
================================ ==================================================================================
``condition_id``, ``slug``       ``conditionId``, ``slug``; an object without one is refused
``reported``                     ``updatedAt``, ISO 8601; likewise
``raw_symbols``                  ``clobTokenIds``, one token per outcome
``event_slug``                   ``slug`` of the first of ``events``
``icon_url``                     ``icon``
``last_price``                   ``lastTradePrice``
``total_volume``                 ``volume``, else ``volumeNum``
``available_since``              ``startDate``
``available_to``                 ``endDate``
others                           the same name on the wire of our service: ``question``, ``groupItemTitle``,
                                 ``outcomes``, ``oneDayPriceChange``, ``openInterest``, ``orderPriceMinTickSize``,
                                 ``closed``, ``sportsMarketType``, ``line``
================================ ==================================================================================

``prices`` stays unknown: gamma's ``outcomePrices`` are the prices of the outcomes now, one each, and no history. So
does the open interest where only the event has one, for it is that of all markets in the event. The last price is
that of the first outcome.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson
import polars as pl

from tidytape.errors import IngestError, counted
from tidytape.lake.ingest._lines import BadLines, numbered
from tidytape.lake.ingest._time import ISO, nanoseconds
from tidytape.lake.names import storable
from tidytape.lake.tables import PREDICTION_MARKETS
from tidytape.query import values

__all__ = ["QUOTE_COIN", "QUOTE_COIN_NAME", "read"]

QUOTE_COIN = "USDC"
"""What the venue's prices are in."""

QUOTE_COIN_NAME = "USD Coin"
"""Its name."""

_TEXTS = {
    "question": "question",
    "group_item_title": "groupItemTitle",
    "icon_url": "icon",
    "sports_market_type": "sportsMarketType",
}
_TIMES = {"reported": "updatedAt", "available_since": "startDate", "available_to": "endDate"}
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
# Lowest and highest value that makes sense.
_NUMBERS: Mapping[str, tuple[str, float, float]] = {
    "last_price": ("lastTradePrice", 0.0, 1.0),
    "one_day_price_change": ("oneDayPriceChange", -1.0, 1.0),
    "open_interest": ("openInterest", 0.0, math.inf),
    "order_price_min_tick_size": ("orderPriceMinTickSize", 1e-9, 1.0),
    "line": ("line", -math.inf, math.inf),
}


def read(path: Path, *, exchange: str, bad: BadLines) -> pl.DataFrame:
    """Read the reports of prediction markets in one file, plain or gzip.

    Parameters
    ----------
    path : Path
        The file.
    exchange : str
        Venue identifier.
    bad : BadLines
        Takes what could not be read: the number of the line in a file of lines, else of the object, from 1.

    Returns
    -------
    polars.DataFrame, one row per object, in their order
        The table PREDICTION_MARKETS.

    Raises
    ------
    IngestError
        If the file cannot be read, or is no JSON at all.
    """
    numbers, rows = [], []
    for number, entry in _entries(path, bad):
        try:
            rows.append(_report(entry) | {"exchange": exchange})
        except ValueError as error:  # a QueryError too
            bad.add(number, str(error))
        else:
            numbers.append(number)
    dtypes = PREDICTION_MARKETS.polars()
    for name in _TIMES:
        dtypes[name] = pl.String()
    reports = pl.DataFrame(rows, schema=dtypes)
    dated = reports.with_columns(nanoseconds(pl.col(name), ISO) for name in _TIMES)
    good = pl.Series([True] * len(numbers), dtype=pl.Boolean)
    for name, theirs in _TIMES.items():
        broken = reports[name].is_not_null() & dated[name].is_null() & good
        for row in broken.arg_true():
            bad.add(numbers[row], f"{theirs} is no written date and time between 2000 and 2100")
        good &= ~broken
    return PREDICTION_MARKETS.conform(dated.filter(good))


def _entries(path: Path, bad: BadLines) -> Iterator[tuple[int, Any]]:
    """Yield every object with its number."""
    lines = pl.concat([*numbered(path, bad, lambda _: None), pl.DataFrame(schema=_LINES)])
    if lines.is_empty():
        if not bad.count:
            raise IngestError(f"{path}: the file is empty", path=str(path))
        return
    try:
        whole = orjson.loads("\n".join(lines["text"]))
    except orjson.JSONDecodeError as error:
        text = lines["text"].str.strip_chars()
        if lines.height == 1 or not (text.str.starts_with("{") & text.str.ends_with("}")).any():
            if bad.count:  # which says why
                return
            raise IngestError(f"{path}: no JSON: {error}", path=str(path)) from error
    else:
        yield from enumerate(whole if isinstance(whole, list) else [whole], 1)
        return
    for number, text in lines.select("line", "text").iter_rows():
        try:
            entry = orjson.loads(text)
        except orjson.JSONDecodeError as error:
            bad.add(number, f"no JSON: {error}")
        else:
            yield number, entry


_LINES = {"line": pl.Int64(), "text": pl.String()}


def _report(entry: Any) -> dict[str, Any]:
    """Return one object as a row, times as they are written; ValueError says what is wrong with it."""
    if not isinstance(entry, dict):
        raise ValueError("not a JSON object")
    slug, outcomes = _required(entry, "slug"), _texts(entry, "outcomes")
    tokens = _texts(entry, "clobTokenIds")
    if outcomes is not None and tokens is not None and len(outcomes) != len(tokens):
        raise ValueError(f"{counted(len(outcomes), 'outcome')}, and {counted(len(tokens), 'clobTokenId')}")
    for names, what in ((outcomes, "outcomes"), (tokens, "clobTokenIds")):
        if names is not None and len(set(names)) < len(names):
            raise ValueError(f"{what} names one twice")
    for token in tokens or ():
        storable(token, parameter="clobTokenIds")
    for outcome in outcomes or ():
        # The instrument's normalized symbol, which a query can ask for.
        values.text(f"{slug}:{outcome}-{QUOTE_COIN}", parameter="outcomes")
    return {
        "condition_id": _required(entry, "conditionId"),
        "slug": slug,
        "outcomes": outcomes,
        "raw_symbols": tokens,
        "event_slug": _event_slug(entry),
        "closed": _flag(entry, "closed"),
        "total_volume": _volume(entry),
        **{ours: _text(entry, theirs) for ours, theirs in _TEXTS.items()},
        **{ours: _text(entry, theirs) for ours, theirs in _TIMES.items()},
        "reported": _required(entry, _TIMES["reported"]),
        **{ours: _number(entry, *how) for ours, how in _NUMBERS.items()},
    }


def _required(entry: Mapping[str, Any], name: str) -> str:
    text = _text(entry, name)
    if text is None:
        raise ValueError(f"no {name}")
    return text


def _text(entry: Mapping[str, Any], name: str) -> str | None:
    value = entry.get(name)
    if value is None:
        return None
    if not isinstance(value, str):
        raise ValueError(f"{name} is no text")
    return value.strip() or None


def _flag(entry: Mapping[str, Any], name: str) -> bool | None:
    value = entry.get(name)
    if value is not None and not isinstance(value, bool):
        raise ValueError(f"{name} is neither true nor false")
    return value


def _number(entry: Mapping[str, Any], name: str, low: float, high: float) -> float | None:
    value = entry.get(name)
    if value is None or value == "":
        return None
    if isinstance(value, str) and _NUMBER.fullmatch(value.strip()):
        value = float(value)
    # A bool is an int in Python, and no number here.
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{name} is no finite number")
    if not low <= value <= high:
        raise ValueError(f"{name} is {value:g}, and not between {low:g} and {high:g}")
    return float(value)


def _volume(entry: Mapping[str, Any]) -> float | None:
    volume = _number(entry, "volume", 0.0, math.inf)
    return _number(entry, "volumeNum", 0.0, math.inf) if volume is None else volume


def _texts(entry: Mapping[str, Any], name: str) -> list[str] | None:
    """Return a list of texts, which may itself be written as text; an empty one is unknown."""
    value = entry.get(name)
    if isinstance(value, str) and value.strip():
        try:
            value = orjson.loads(value)
        except orjson.JSONDecodeError:
            raise ValueError(f"{name} is no list in JSON") from None
    if not value and (value is None or isinstance(value, str | list)):
        return None
    if not isinstance(value, list) or not all(isinstance(one, str) and one.strip() for one in value):
        raise ValueError(f"{name} is no list of texts")
    return [one.strip() for one in value]


def _event_slug(entry: Mapping[str, Any]) -> str | None:
    events = entry.get("events")
    if events is None or events == []:
        return None
    if not isinstance(events, list) or not isinstance(events[0], dict):
        raise ValueError("events is no list of objects")
    return _text(events[0], "slug")
