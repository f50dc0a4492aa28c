"""Put reports of prediction markets into a lake, and register the markets of their outcomes.

The files are answers of the gamma API of Polymarket: one JSON object, an array of them, or an object per line.

Numbers may be numbers or text, and lists may be text that is itself JSON. Fields are recognised by their names, and
other fields are ignored. An absent, null or empty field is unknown:

================================ ==================================================================================
ours                             gamma's
================================ ==================================================================================
``condition_id``, ``slug``       ``conditionId``, ``slug``; an object without one of them is refused
``reported``                     ``updatedAt``, ISO 8601; an object without it is refused
``raw_symbols``                  ``clobTokenIds``, one token per outcome
``event_slug``                   ``slug`` of the first of ``events``
``icon_url``                     ``icon``
``last_price``                   ``lastTradePrice``
``total_volume``                 ``volume``, else ``volumeNum``
``available_since``              ``startDate``
``available_to``                 ``endDate``
others                           the name that our service uses too: ``question``, ``groupItemTitle``,
                                 ``outcomes``, ``oneDayPriceChange``, ``openInterest``, ``orderPriceMinTickSize``,
                                 ``closed``, ``sportsMarketType``, ``line``
================================ ==================================================================================

``prices`` is unknown, because gamma's ``outcomePrices`` are the present prices of the outcomes, not a history. The open
interest is unknown if only the event has one, because that is the sum of all markets of the event. The last price is
the price of the first outcome.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import orjson
import polars as pl

from tidytape.errors import IngestError, counted
from tidytape.lake._lake import Lake
from tidytape.lake._predictions import outcome_markets
from tidytape.lake._symbols import storable
from tidytape.lake._tables import MARKETS, PREDICTION_MARKETS
from tidytape.lake.ingest._decode import json_values
from tidytape.lake.ingest._lines import BadLines, digest
from tidytape.lake.ingest._time import ISO, nanoseconds
from tidytape.query import _values as values

_QUOTE_COIN = "USDC"
"""The quote of the exchange's prices."""

_QUOTE_COIN_NAME = "USD Coin"
"""Name of the quote."""

_TEXTS = {
    "question": "question",
    "group_item_title": "groupItemTitle",
    "icon_url": "icon",
    "sports_market_type": "sportsMarketType",
}
_TIMES = {"reported": "updatedAt", "available_since": "startDate", "available_to": "endDate"}
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
# By column: the field, its lowest value and its highest value.
_NUMBERS: Mapping[str, tuple[str, float, float]] = {
    "last_price": ("lastTradePrice", 0.0, 1.0),
    "one_day_price_change": ("oneDayPriceChange", -1.0, 1.0),
    "open_interest": ("openInterest", 0.0, math.inf),
    "order_price_min_tick_size": ("orderPriceMinTickSize", 1e-9, 1.0),
    "line": ("line", -math.inf, math.inf),
}

T = TypeVar("T")


def _reports(path: Path, *, exchange: str, bad: BadLines) -> pl.DataFrame:
    """Read the reports of prediction markets in one file, plain or gzip.

    Parameters
    ----------
    path : Path
        The file.
    exchange : str
        Exchange identifier.
    bad : BadLines
        Takes broken objects, with a number from 1: that of the line in a file of lines, otherwise that of the object.

    Returns
    -------
    polars.DataFrame, one row per object, in their order
        The table PREDICTION_MARKETS.

    Raises
    ------
    IngestError
        If the file cannot be read, or is not JSON at all.
    """
    numbers, rows = [], []
    for number, entry in json_values(path, bad, lambda _: None):
        try:
            rows.append(_report(entry) | {"exchange": exchange})
        except ValueError as error:  # also a QueryError
            bad.add(number, str(error))
        else:
            numbers.append(number)
    dtypes = PREDICTION_MARKETS.polars()
    for name in _TIMES:
        dtypes[name] = pl.String()
    reports = pl.DataFrame(rows, schema=dtypes)
    reports_with_times = reports.with_columns(nanoseconds(pl.col(name), ISO) for name in _TIMES)
    is_good = pl.Series([True] * len(numbers), dtype=pl.Boolean)
    for name, field in _TIMES.items():
        is_broken = reports[name].is_not_null() & reports_with_times[name].is_null() & is_good
        for row in is_broken.arg_true():
            bad.add(numbers[row], f"{field} is no written date and time between 2000 and 2100")
        is_good &= ~is_broken
    return PREDICTION_MARKETS.conform(reports_with_times.filter(is_good))


def _report(entry: Any) -> dict[str, Any]:
    """Return one object as a row, with times as text; ValueError if the object is broken."""
    if not isinstance(entry, dict):
        raise ValueError("not a JSON object")
    slug = _required(entry, "slug")
    outcomes, tokens = _texts(entry, "outcomes"), _texts(entry, "clobTokenIds")
    if outcomes is not None and tokens is not None and len(outcomes) != len(tokens):
        raise ValueError(f"{counted(len(outcomes), 'outcome')}, and {counted(len(tokens), 'clobTokenId')}")
    for names, field_name in ((outcomes, "outcomes"), (tokens, "clobTokenIds")):
        if names is not None and len(set(names)) < len(names):
            raise ValueError(f"{field_name} names one twice")
    for token in tokens or ():
        storable(token, parameter="clobTokenIds")
    for outcome in outcomes or ():
        # Check the normalized symbol of the outcome's market, because a query can select by it.
        values.text(f"{slug}:{outcome}-{_QUOTE_COIN}", parameter="outcomes")
    return {
        "condition_id": _required(entry, "conditionId"),
        "slug": slug,
        "outcomes": outcomes,
        "raw_symbols": tokens,
        "event_slug": _event_slug(entry),
        "closed": _value(entry, "closed", bool, "neither true nor false"),
        "total_volume": _number(entry, "volume", 0.0, math.inf, instead="volumeNum"),
        **{column: _text(entry, field) for column, field in _TEXTS.items()},
        **{column: _text(entry, field) for column, field in _TIMES.items()},
        "reported": _required(entry, _TIMES["reported"]),
        **{column: _number(entry, *field_and_bounds) for column, field_and_bounds in _NUMBERS.items()},
    }


def _required(entry: Mapping[str, Any], name: str) -> str:
    text = _text(entry, name)
    if text is None:
        raise ValueError(f"no {name}")
    return text


def _value(entry: Mapping[str, Any], name: str, kind: type[T], otherwise: str) -> T | None:
    """Return a value, or None if it is absent; ValueError if it does not have the type ``kind``."""
    value = entry.get(name)
    if value is not None and not isinstance(value, kind):
        raise ValueError(f"{name} is {otherwise}")
    return value


def _text(entry: Mapping[str, Any], name: str) -> str | None:
    return (_value(entry, name, str, "no text") or "").strip() or None


def _number(
    entry: Mapping[str, Any], name: str, low: float, high: float, *, instead: str | None = None
) -> float | None:
    """Return a number from ``low`` to ``high``, from the field ``instead`` if this one is empty; else ValueError."""
    value = entry.get(name)
    if value is None or value == "":
        return None if instead is None else _number(entry, instead, low, high)
    if isinstance(value, str) and _NUMBER.fullmatch(value.strip()):
        value = float(value)
    # A bool is an int in Python, but not a number here.
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{name} is no finite number")
    if not low <= value <= high:
        raise ValueError(f"{name} is {value:g}, and not between {low:g} and {high:g}")
    return float(value)


def _texts(entry: Mapping[str, Any], name: str) -> list[str] | None:
    """Return a list of texts, which may be JSON in a text; None for an empty list."""
    value = entry.get(name)
    if isinstance(value, str) and value.strip():
        try:
            value = orjson.loads(value)
        except orjson.JSONDecodeError:
            raise ValueError(f"{name} is no list in JSON") from None
    if not value and (value is None or isinstance(value, str | list)):
        return None
    if not isinstance(value, list) or not all(isinstance(text, str) and text.strip() for text in value):
        raise ValueError(f"{name} is no list of texts")
    return [text.strip() for text in value]


def _event_slug(entry: Mapping[str, Any]) -> str | None:
    events = [] if entry.get("events") is None else entry["events"]
    if not isinstance(events, list) or not all(isinstance(event, dict) for event in events[:1]):
        raise ValueError("events is no list of objects")
    return _text(events[0], "slug") if events else None


LAYOUT = "polymarket-gamma"
"""Name of the layout."""

# Columns in which newer reports replace values. The names by which queries select markets stay as first registered.
_REPLACED = ("tick_size", "coin_name", "full_name", "icon_url")


@dataclass(frozen=True, slots=True)
class PredictionFile:
    """The result of one file.

    Attributes
    ----------
    path : str
        The file.
    reports : int
        Reports of prediction markets that were read.
    bad : int
        Broken objects that were skipped.
    first_bad : tuple of (int, str)
        The first of them, with the reason and a number from 1: that of the line in a file of lines, otherwise that of
        the object.
    """

    path: str
    reports: int
    bad: int = 0
    first_bad: tuple[tuple[int, str], ...] = ()

    def __str__(self) -> str:
        text = f"{self.path}: {counted(self.reports, 'report')}"
        if self.bad:
            text += f"; {counted(self.bad, 'bad one')} skipped"
            text += "".join(f"\n  {number}: {reason}" for number, reason in self.first_bad)
        return text


@dataclass(frozen=True, slots=True)
class PredictionReport:
    """The result of an ingest of prediction markets.

    Attributes
    ----------
    files : tuple of PredictionFile
        The results of the files, in the order of the arguments.
    prediction_markets : int
        Number of prediction markets that the files are about.
    outcomes : int
        Number of their outcomes, whose markets are registered.
    changed : bool
        Whether the lake got new data.
    """

    files: tuple[PredictionFile, ...]
    prediction_markets: int
    outcomes: int
    changed: bool

    def __str__(self) -> str:
        markets = counted(self.prediction_markets, "prediction market")
        text = f"{markets}, {counted(self.outcomes, 'outcome')}"
        return "\n".join(map(str, (*self.files, text if self.changed else f"{text}; nothing new")))


def ingest_prediction_markets(
    files: str | Path | Iterable[str | Path], lake: Lake, *, exchange: str, skip_bad: bool = False
) -> PredictionReport:
    r"""Put reports of prediction markets into a lake, and register the markets of their outcomes.

    It reads and checks every file before it writes anything. Files may come in any order, and more than once: for each
    field the newest report with a value counts, see `LakeWriter.register_prediction_markets`.

    Parameters
    ----------
    files : path or iterable of paths
        JSON of the gamma API, plain or gzip, see this module.
    lake : Lake
        The lake to write to.
    exchange : str
        Exchange identifier, e.g. ``"POLYMARKET"``.
    skip_bad : bool
        Leave broken objects out and count them, instead of failing.

    Returns
    -------
    PredictionReport

    Raises
    ------
    QueryError
        If ``exchange`` is not a name.
    IngestError
        If a file cannot be read, or has broken objects and ``skip_bad`` is not set.
    LakeError
        If the lake cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "rain.json").write_text(
    ...     r'{"conditionId": "0x1", "slug": "rain", "updatedAt": "2026-03-11T15:14:46Z", "lastTradePrice": "0.25",'
    ...     r' "outcomes": "[\"Yes\", \"No\"]", "clobTokenIds": "[\"11\", \"22\"]"}'
    ... )
    >>> lake = Lake.create(folder / "lake")
    >>> print(str(ingest_prediction_markets(folder / "rain.json", lake, exchange="POLYMARKET")).splitlines()[-1])
    1 prediction market, 2 outcomes
    >>> lake.prediction_markets().select("slug", "last_price").rows()
    [('rain', 0.25)]
    >>> lake.markets()["normalized_symbol"].to_list()
    ['rain:Yes-USDC', 'rain:No-USDC']
    """
    exchange = storable(exchange, parameter="exchange", code="INVALID_EXCHANGE")
    paths = [Path(files)] if isinstance(files, str | Path) else [Path(file) for file in files]
    files_read = [_read(path, exchange, skip_bad=skip_bad) for path in paths]
    if not files_read:
        return PredictionReport((), 0, 0, changed=False)
    reports = pl.concat(rows for rows, _ in files_read)
    versions_before = lake.version()
    writer = lake.writer()
    writer._require_writable(PREDICTION_MARKETS, MARKETS)
    writer.register_prediction_markets(reports)
    # Read the registry and not the files, because files may be older than the registered reports.
    prediction_markets = lake.prediction_markets().join(
        reports, on=["exchange", "condition_id"], how="semi", maintain_order="left"
    )
    markets = outcome_markets(prediction_markets, quote_coin=_QUOTE_COIN, quote_coin_name=_QUOTE_COIN_NAME)
    # Register the markets last, so that the next ingest of the same files completes an interrupted one.
    writer.register(markets, replace=_REPLACED)
    return PredictionReport(
        tuple(file for _, file in files_read),
        prediction_markets.height,
        markets.height,
        changed=lake.version() != versions_before,
    )


def _read(path: Path, exchange: str, *, skip_bad: bool) -> tuple[pl.DataFrame, PredictionFile]:
    digest(path)  # raises an error that names a folder, a pipe, an empty or an unreadable file
    bad = BadLines()
    reports = _reports(path, exchange=exchange, bad=bad)
    if bad.count and not (skip_bad and reports.height):
        number, reason = bad.first[0]
        more = f"; {bad.count} bad ones in all" if bad.count > 1 else ""
        hint = " and no good one" if skip_bad else "; ``skip_bad=True`` leaves them out"
        raise IngestError(
            f"{path}:{number}: {reason}{more}{hint}", path=str(path), line=number, bad_lines=bad.count
        )
    return reports, PredictionFile(str(path), reports.height, bad.count, tuple(bad.first))
