"""Which files of an archive a window needs, and bring them into a lake."""

from __future__ import annotations

import itertools
import re
import threading
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import platformdirs
import polars as pl
from tqdm.auto import tqdm

from tidytape.archives._archive import Archive, Kind
from tidytape.archives._archives import ARCHIVES
from tidytape.archives._fetching import Fetcher
from tidytape.archives._outcome import IN_LAKE, Received, State, ingested, locked, received
from tidytape.errors import QueryError, nearest
from tidytape.lake import MARKETS, Lake, LakeReader
from tidytape.lake._symbols import told_class
from tidytape.lake.ingest import Market
from tidytape.query import _values as values
from tidytape.query._values import TimeLike

R = TypeVar("R")

_MOST_FILES = 100_000
_SYMBOL = re.compile(r"[\w.-]*\w[\w.-]*")

_CONNECTIONS = 4
"""Most connections to one archive at once."""

_TIME = pl.Datetime("ns", "UTC")
_FILES: Mapping[str, Any] = {
    "start": _TIME,
    "end": _TIME,
    "exchange": pl.String,
    "raw_symbol": pl.String,
    "data": pl.String,
    "address": pl.String,
}
_RESULTS: Mapping[str, Any] = {
    "bytes": pl.Int64,
    "rows": pl.Int64,
    "reason": pl.String,
    "state": pl.Enum([state.value for state in State]),
}


@dataclass(frozen=True, slots=True)
class _File:
    """One file of an archive.

    Attributes
    ----------
    start, end : datetime
        The time that it covers, half-open.
    exchange, symbol : str
        Its market.
    data : str
        Its kind of data.
    path : str
        Its path in the archive.
    name : str
        What it is called on this machine.
    market : Market
        What it does not say.
    """

    start: datetime
    end: datetime
    exchange: str
    symbol: str
    data: str
    path: str
    name: str
    market: Market


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
        Leave out the files that this lake has already.
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
    kinds = _kinds(described, market, _texts(data, "data"), interval)
    window = _window(start, end)
    files: list[_File] = []
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
                names = {"folder": segment.folder, "symbol": raw_symbol, "day": day, "interval": interval}
                path = kind.path.format(**names)
                name = kind.name.format(**names) or path.rpartition("/")[2]
                span = described.span(kind.period, day)
                files.append(_File(*span, segment.exchange, raw_symbol, kind.data, path, name, facts))
    if len(files) > _MOST_FILES:
        expected = f"a window that needs at most {_MOST_FILES:,} files"
        raise QueryError("start", got=start, expected=expected)
    asked = DownloadPlan(
        archive=described.name,
        known=0,
        _archive=described,
        _host=mirror or described.host,
        _files=tuple(files),
    )
    return asked if lake is None else asked.without(Lake(lake) if not isinstance(lake, Lake) else lake)


def _named(known: Mapping[str, R], name: object, parameter: str) -> R:
    """Return what a caller calls by a name."""
    text = values.text(name, parameter).lower()
    if text not in known:
        close = nearest(text, known)
        hint = f"did you mean {close!r}?" if close else None
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
        raise QueryError("end", got=last.isoformat(), expected=f"a time after the start, {first.isoformat()}")
    return first, last


@dataclass(frozen=True)
class DownloadPlan:
    """The files of an archive that a window needs.

    `plan` makes it. No request is sent before ``bytes`` or ``run``.

    Attributes
    ----------
    archive : str
        Name of the archive.
    known : int
        Number of files that were left out because the lake has them.
    """

    archive: str
    known: int
    _archive: Archive = field(repr=False)
    _host: str = field(repr=False)
    _files: tuple[_File, ...] = field(repr=False)

    @property
    def files(self) -> pl.DataFrame:
        """The files.

        A polars.DataFrame, one row per file, by symbol, data and time: ``start`` and ``end`` of the time that it covers
        [UTC, half-open], ``exchange``, ``raw_symbol``, ``data``, ``address``.
        """
        return pl.DataFrame([self._row(file) for file in self._files], schema=_FILES, orient="row")

    @cached_property
    def bytes(self) -> int | None:
        """The size of the files as they are sent; it asks the archive. Those that it does not have count as nothing.

        An int [bytes], or None if the archive does not tell.

        Raises
        ------
        TransportError
            If no connection can be made.
        """
        with self._fetcher(threading.Event()) as fetcher, ThreadPoolExecutor(_CONNECTIONS) as pool:
            lengths = list(pool.map(fetcher.length, map(self._address, self._files)))
        return None if None in lengths else sum(length or 0 for length in lengths)

    def run(
        self,
        lake: str | Path | Lake,
        *,
        keep: bool = False,
        folder: str | Path | None = None,
        progress: bool | None = None,
    ) -> pl.DataFrame:
        """Fetch the files, verify them, and put them into a lake.

        Each file is fetched, from where an earlier run broke off; compared with the checksum that the archive
        publishes; and ingested. A file that cannot be verified or read leaves nothing in the lake. After Ctrl-C, or a
        kill, a second run goes on; it asks for no file that is in the lake, and for the absent and bad ones again.

        Parameters
        ----------
        lake : path or Lake
            The lake; it is made if there is none.
        keep : bool
            Whether files stay in the folder after they are ingested.
        folder : path, optional
            Where files lie until they are ingested; by default the user's cache folder.
        progress : bool, optional
            Whether to show a progress bar on the standard error; by default only on a terminal.

        Returns
        -------
        polars.DataFrame, one row per file, in the order of ``files``
            The columns of ``files``; ``bytes`` that were received; ``rows`` that the file has; ``reason``, null if there
            is nothing to say; and ``state``:

            - ``ok``: its checksum agrees, and its rows are in the lake
            - ``no_checksum``: its rows are in the lake, and there was no checksum to compare
            - ``absent``: the archive does not have it
            - ``bad_checksum``: it differs from its checksum, also when fetched once more
            - ``defect``: it cannot be read, or contradicts the lake
            - ``failed``: the archive refuses it, or went on failing

        Raises
        ------
        QueryError
            If a fact is needed that the files do not show, such as ``contract_size``, or another process fetches into
            the folder. The files stay, so that the next run need not fetch them again.
        TransportError
            If no connection can be made.
        LakeError
            If the lake cannot be written.
        """
        if not isinstance(lake, Lake):
            lake = Lake.create(lake)
        home = (
            platformdirs.user_cache_path("tidytape-downloads", appauthor=False)
            if folder is None
            else Path(folder)
        ) / self.archive
        files = self.without(lake)._files
        rows: list[tuple[object, ...]] = []
        gone_in: set[tuple[str, str]] = set()
        with (
            locked({_place(home, file).parent for file in files}),
            tqdm(total=len(files), unit="file", disable=None if progress is None else not progress) as bar,
        ):
            for file, received in self._received(files, home):
                bar.set_description(file.name)
                try:
                    outcome = ingested(received, lake, file.market, source=self._source(file))
                except QueryError as error:
                    if (file.symbol, file.data) not in gone_in:
                        raise  # the fact is missing for all files
                    outcome = received.left_out(str(error))
                if outcome.state in IN_LAKE:
                    gone_in.add((file.symbol, file.data))
                if received.path is not None and not (keep and outcome.state in IN_LAKE):
                    received.path.unlink()
                rows.append((*self._row(file), outcome.bytes, outcome.rows, outcome.reason, outcome.state))
                bar.update()
        return pl.DataFrame(rows, schema={**_FILES, **_RESULTS}, orient="row")

    def without(self, lake: LakeReader) -> DownloadPlan:
        """Return the plan without the files that a lake has.

        Parameters
        ----------
        lake : Lake or LakeReader
            The lake.

        Returns
        -------
        DownloadPlan
        """
        lake_now = lake.now()
        files = tuple(
            file for file in self._files if not lake_now.has_source(MARKETS.name, self._source(file))
        )
        return replace(self, known=self.known + len(self._files) - len(files), _files=files)

    def _fetcher(self, stop: threading.Event) -> Fetcher:
        return Fetcher(_CONNECTIONS, stop, sends_parts=self._archive.sends_parts)

    def _received(self, files: Sequence[_File], home: Path) -> Iterator[tuple[_File, Received]]:
        """Yield each file as it was received, in order; a few that follow are fetched meanwhile."""
        stop = threading.Event()
        remaining = deque(files)
        waiting: deque[tuple[_File, Future[Received]]] = deque()
        with self._fetcher(stop) as fetcher, ThreadPoolExecutor(_CONNECTIONS) as pool:
            try:
                while remaining or waiting:
                    while remaining and len(waiting) < 2 * _CONNECTIONS:
                        file = remaining.popleft()
                        waiting.append((file, pool.submit(self._receive, fetcher, file, home)))
                    file, future = waiting.popleft()
                    yield file, future.result()
            finally:
                stop.set()
                pool.shutdown(cancel_futures=True)

    def _receive(self, fetcher: Fetcher, file: _File, home: Path) -> Received:
        if file.end > datetime.now(UTC):
            return Received(
                State.ABSENT,
                reason=f"it covers a time until {file.end:%Y-%m-%d %H:%M} UTC, which is not over",
            )
        return received(fetcher, self._address(file), _place(home, file), checksum=self._archive.checksum)

    def _row(self, file: _File) -> tuple[object, ...]:
        return file.start, file.end, file.exchange, file.symbol, file.data, self._address(file)

    def _address(self, file: _File) -> str:
        return f"{self._host}/{quote(file.path)}"

    def _source(self, file: _File) -> str:
        """Return what the lake notes of a file: its address in the archive, also if a mirror sent it, and what was stated."""
        facts = {name: getattr(file.market, name) for name in ("contract", "contract_size", "funding_nanoseconds")}
        stated = (f"{name}={fact}" for name, fact in facts.items() if fact is not None)
        return " ".join([f"{self._archive.host}/{file.path}", *stated])


def _place(home: Path, file: _File) -> Path:
    """Return where a file lies on this machine."""
    return (home / file.path).with_name(file.name)
