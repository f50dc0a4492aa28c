"""Find out which files of a public archive a window needs."""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeVar

import httpx
import polars as pl

from tidytape.archives._archive import Archive, Kind
from tidytape.archives._archives import ARCHIVES
from tidytape.archives._download import DownloadPlan, opened
from tidytape.archives._planned import PlannedFile
from tidytape.errors import QueryError, did_you_mean
from tidytape.lake import Lake
from tidytape.lake._symbols import told_class
from tidytape.lake.ingest import Market
from tidytape.query import _values as values
from tidytape.query._values import TimeLike

R = TypeVar("R")

_MOST_FILES = 100_000
_SYMBOL = re.compile(r"[\w.-]*\w[\w.-]*")
_KINDS: Mapping[str, Any] = {
    **dict.fromkeys(("archive", "market", "data", "exchange"), pl.String),
    "checksum": pl.Boolean,
    "period": pl.String,
    "address": pl.String,
}


def kinds() -> pl.DataFrame:
    """Return what the public archives have.

    Returns
    -------
    polars.DataFrame, one row per archive, market and kind of data
        ``archive``, ``market`` and ``data`` as `plan` takes them; the ``exchange``, as the lake calls it; ``checksum``,
        whether the archive publishes one; the ``period`` of a file: day, month or first day of a month; and ``address``
        of the file of 2024-08-01, with ``SYMBOL`` and ``INTERVAL`` in the place of what a caller asks for.

    Examples
    --------
    >>> kinds().filter(archive="bybit").select("archive", "market", "data", "period").rows()
    [('bybit', 'derivatives', 'trades', 'day'), ('bybit', 'spot', 'trades', 'day')]
    """
    rows = [
        (
            archive.name,
            market,
            kind.data,
            segment.exchange,
            bool(archive.checksum),
            kind.period.value,
            f"{archive.host}/{kind.path_of(segment, 'SYMBOL', date(2024, 8, 1), 'INTERVAL')}",
        )
        for archive in ARCHIVES.values()
        for market, segment in archive.segments.items()
        for kind in archive.kinds
        if kind.is_of(market)
    ]
    return pl.DataFrame(rows, schema=_KINDS, orient="row")


def plan(
    archive: str,
    symbols: str | Collection[str],
    *,
    market: str,
    data: str | Collection[str],
    start: TimeLike,
    end: TimeLike | None = None,
    interval: str = "1m",
    contract: str | None = None,
    contract_size: Decimal | float | str | None = None,
    funding_interval: int | str | timedelta | None = None,
    lake: str | Path | Lake | None = None,
    mirror: str | None = None,
) -> DownloadPlan:
    """Plan which files of a public archive a window needs.

    Parameters
    ----------
    archive : str
        Name of an archive, see `kinds`.
    symbols : str or collection of str
        Raw symbols, as the exchange writes them.
    market : str
        Which of the markets of the archive, e.g. ``"spot"``.
    data : str or collection of str
        What to fetch, e.g. ``["trades", "funding"]``.
    start : int, str, date or datetime
        Start of the window, inclusive.
    end : int, str, date or datetime, optional
        End of the window, exclusive; by default the last midnight in UTC. A file that has any part of the window is
        fetched whole.
    interval : str
        Length of candles, if the archive has several.
    contract, contract_size, funding_interval : optional
        What files do not show if they count contracts, or have rates without a funding interval, see
        `tidytape.lake.ingest.Market`.
    lake : path or Lake, optional
        Leave out the files that this lake has already; none, if there is no such lake.
    mirror : str, optional
        Address of a copy of the archive, with the same paths.

    Returns
    -------
    DownloadPlan

    Raises
    ------
    QueryError
        If the archive does not have such files, or the window needs more than 100,000 of them.
    LakeError
        If there is no lake at that path.

    Examples
    --------
    >>> week = plan(
    ...     "binance", "BTCUSDT", market="um", data=["trades", "funding"], start="2024-08-01", end="2024-08-08"
    ... )
    >>> week.files.group_by("data", maintain_order=True).len().rows()
    [('trades', 7), ('funding', 1)]
    >>> week.files["address"][0]
    'https://data.binance.vision/data/futures/um/daily/trades/BTCUSDT/BTCUSDT-trades-2024-08-01.zip'
    """
    described = _named(ARCHIVES, archive, "archive")
    segment = _named(described.segments, market, "market")
    kinds = _kinds(described, market.strip().lower(), _texts(data, "data"), interval)
    window = _window(start, end)
    files: list[PlannedFile] = []
    for raw_symbol in map(str.upper, _texts(symbols, "symbols")):
        if not _SYMBOL.fullmatch(raw_symbol):
            raise QueryError(
                "symbols", got=raw_symbol, expected="symbols as the exchange writes them, e.g. BTCUSDT"
            )
        for kind in kinds:
            facts = Market(
                exchange=None if described.names_exchange else segment.exchange,
                category=told_class(raw_symbol) or segment.category,
                contract=contract if kind.may_count_contracts else None,
                contract_size=contract_size if kind.may_count_contracts else None,
                funding_interval=funding_interval,
            )
            days = described.days(kind.period, *window)
            for day in itertools.islice(days, _MOST_FILES + 1 - len(files)):
                asked = (segment, raw_symbol, day, interval)
                span = described.span(kind.period, day)
                path, name = kind.path_of(*asked), kind.name_of(*asked)
                files.append(PlannedFile(*span, segment.exchange, raw_symbol, kind.data, path, name, facts))
    if len(files) > _MOST_FILES:
        expected = f"a window that needs at most {_MOST_FILES:,} files"
        raise QueryError("start", got=start, expected=expected)
    host = described.host if mirror is None else _address(mirror)
    planned = DownloadPlan(
        archive=described.name,
        known=0,
        _archive=described,
        _host=host,
        _files=tuple(files),
    )
    known_lake = opened(lake)
    return planned if known_lake is None else planned.without(known_lake)


def _address(mirror: str) -> str:
    """Return the address of a mirror, without a slash at the end."""
    try:
        is_address = httpx.URL(mirror).scheme in {"http", "https"} and bool(httpx.URL(mirror).host)
    except (httpx.InvalidURL, TypeError):
        is_address = False
    if not is_address:
        raise QueryError("mirror", got=mirror, expected="the address of a server, e.g. http://127.0.0.1:8123")
    return mirror.rstrip("/")


def _named(known: Mapping[str, R], name: object, parameter: str) -> R:
    """Return what a caller calls by a name."""
    text = name.strip().lower() if isinstance(name, str) else ""
    if text not in known:
        hint = did_you_mean(text, known)
        raise QueryError(parameter, got=name, expected="one of " + ", ".join(known), hint=hint)
    return known[text]


def _texts(names: object, parameter: str) -> list[str]:
    """Return one name or several, each once."""
    texts = list(dict.fromkeys(values.text(name, parameter) for name in values.many(names, parameter)))
    if not texts:
        raise QueryError(parameter, got=names, expected="at least one")
    return texts


def _kinds(archive: Archive, market: str, data: Sequence[str], interval: str) -> list[Kind]:
    """Return what a caller asks for."""
    of_market = {
        kind.data: kind for kind in archive.kinds if not kind.segments or market.lower() in kind.segments
    }
    kinds = [_named(of_market, name, "data") for name in data]
    for kind in kinds:
        if kind.intervals and interval not in kind.intervals:
            raise QueryError("interval", got=interval, expected="one of " + ", ".join(kind.intervals))
    return kinds


def _window(start: TimeLike, end: TimeLike | None) -> tuple[datetime, datetime]:
    first = datetime.fromtimestamp(values.epoch_seconds(start, "start"), UTC)
    midnight = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    last = midnight if end is None else datetime.fromtimestamp(values.epoch_seconds(end, "end"), UTC)
    if last <= first:
        expected = f"a time after the start, {values.written_time(int(first.timestamp()))}"
        raise QueryError("end", got=values.written_time(int(last.timestamp())), expected=expected)
    return first, last
