"""The files of an archive that a window needs, and their way into a lake."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import platformdirs
import polars as pl
from tqdm.auto import tqdm

from tidytape.archives._archive import Archive
from tidytape.archives._fetching import Fetcher, FileFailedError
from tidytape.archives._outcome import IN_LAKE, Received, State, ingested, locked, received
from tidytape.archives._planned import PlannedFile
from tidytape.errors import QueryError, TransportError
from tidytape.lake import MARKETS, Lake, LakeReader, _delta

_CONNECTIONS = 4
"""Most connections to one archive at once."""

_LOOK = 0.2
"""Time between two looks for an interrupt. [s]"""

R = TypeVar("R")

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
    _files: tuple[PlannedFile, ...] = field(repr=False)

    @property
    def files(self) -> pl.DataFrame:
        """The files.

        A polars.DataFrame, one row per file, by symbol, data and time: ``start`` and ``end`` of the time that it covers
        [UTC, half-open], ``exchange``, ``raw_symbol``, ``data``, ``address``.
        """
        return pl.DataFrame([self._row(file) for file in self._files], schema=_FILES, orient="row")

    @cached_property
    def bytes(self) -> int | None:
        """The size of the files as they are sent; it asks the archive. Absent files count as nothing.

        An int [bytes], or None if the archive does not tell.

        Raises
        ------
        TransportError
            If no connection can be made, or the archive refuses to answer.
        """
        stop = threading.Event()
        with self._fetcher(stop) as fetcher, ThreadPoolExecutor(_CONNECTIONS) as pool:
            try:
                asked = [pool.submit(fetcher.length, self._address(file)) for file in self._files]
                lengths = [_awaited(length) for length in asked]
            except FileFailedError as error:
                raise TransportError(f"the size of a file at {self._host} is not known: {error}") from error
            finally:
                stop.set()
                pool.shutdown(cancel_futures=True)
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

        It fetches each file, from where an earlier run broke off, compares it with the checksum that the archive
        publishes, and ingests it. A file that cannot be verified or read leaves nothing in the lake. After Ctrl-C, or a
        kill, a second run goes on; it asks for no file that is in the lake, and for the absent and bad ones again.

        Parameters
        ----------
        lake : path or Lake
            The lake; if there is none, the first file that may go into it makes one.
        keep : bool
            Whether files stay in the folder after they are ingested.
        folder : path, optional
            Where files lie until they are ingested; by default the user's cache folder.
        progress : bool, optional
            Whether to show a progress bar on the standard error; by default only on a terminal.

        Returns
        -------
        polars.DataFrame, one row per file, in the order of ``files``
            The columns of ``files``; ``bytes`` that were received; ``rows`` that the file has; ``reason``, null if
            there is nothing to say; and ``state``:

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
        target = opened(lake)
        home = (
            platformdirs.user_cache_path("tidytape-downloads", appauthor=False)
            if folder is None
            else Path(folder)
        ) / self.archive
        files = self._files if target is None else self.without(target)._files
        rows: list[tuple[object, ...]] = []
        gone_in: set[tuple[str, str]] = set()
        with (
            locked({_place(home, file).parent for file in files}),
            tqdm(total=len(files), unit="file", disable=None if progress is None else not progress) as bar,
        ):
            for file, received in self._received(files, home):
                bar.set_description(file.name)
                try:
                    if target is None and received.state in IN_LAKE and not isinstance(lake, Lake):
                        target = Lake.create(lake)
                    outcome = ingested(received, target, file, source=self._source(file))
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

    def _received(self, files: Sequence[PlannedFile], home: Path) -> Iterator[tuple[PlannedFile, Received]]:
        """Yield each file as it was received, in order; a few that follow are fetched meanwhile."""
        stop = threading.Event()
        remaining = deque(files)
        waiting: deque[tuple[PlannedFile, Future[Received]]] = deque()
        with self._fetcher(stop) as fetcher, ThreadPoolExecutor(_CONNECTIONS) as pool:
            try:
                while remaining or waiting:
                    while remaining and len(waiting) < 2 * _CONNECTIONS:
                        file = remaining.popleft()
                        waiting.append((file, pool.submit(self._receive, fetcher, file, home)))
                    file, future = waiting.popleft()
                    yield file, _awaited(future)
            finally:
                stop.set()
                pool.shutdown(cancel_futures=True)

    def _receive(self, fetcher: Fetcher, file: PlannedFile, home: Path) -> Received:
        if file.end > datetime.now(UTC):
            return Received(
                State.ABSENT,
                reason=f"it covers a time until {file.end:%Y-%m-%d %H:%M} UTC, which is not over",
            )
        return received(fetcher, self._address(file), _place(home, file), checksum=self._archive.checksum)

    def _row(self, file: PlannedFile) -> tuple[object, ...]:
        return file.start, file.end, file.exchange, file.symbol, file.data, self._address(file)

    def _address(self, file: PlannedFile) -> str:
        return f"{self._host}/{quote(file.path)}"

    def _source(self, file: PlannedFile) -> str:
        """Return what the lake notes of a file: its address, also if a mirror sent it, and what the caller stated."""
        facts = {
            name: getattr(file.market, name) for name in ("contract", "contract_size", "funding_nanoseconds")
        }
        stated = (f"{name}={fact}" for name, fact in facts.items() if fact is not None)
        return " ".join([f"{self._archive.host}/{file.path}", *stated])


def _awaited(future: Future[R]) -> R:
    """Return the result of a future, in a way that Ctrl-C ends: polars' handler does not interrupt an endless wait."""
    while not wait([future], timeout=_LOOK).done:
        pass
    return future.result()


def opened(lake: str | Path | Lake | None) -> Lake | None:
    """Return a lake; None if there is none at a path."""
    if lake is None or isinstance(lake, Lake):
        return lake
    return Lake(lake) if _delta.exists(f"{_delta.root_of(lake)}/{MARKETS.name}", None) else None


def _place(home: Path, file: PlannedFile) -> Path:
    """Return where a file lies on this machine."""
    return (home / file.path).with_name(file.name)
