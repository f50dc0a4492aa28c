"""``tidytape demo --real``: the steps of the demo, on some days of a market of a public archive."""

from __future__ import annotations

import shlex
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from tidytape.cli._demo import Journey, reported
from tidytape.cli._demo_folder import LAKE, claimed, seal
from tidytape.errors import QueryError, TransportError, counted

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidytape.archives import DownloadPlan

_SMALL_KINDS = ("candles", "open_interest", "funding")
_PUBLISHED = timedelta(days=15)
"""The time after its end in which the archive publishes a month of funding rates."""


def newest_window(days: int, now: datetime) -> tuple[date, date]:
    """Return the last days, half-open, of the newest month that the archive is sure to have.

    Examples
    --------
    >>> newest_window(3, datetime(2026, 11, 27, tzinfo=UTC))
    (datetime.date(2026, 10, 29), datetime.date(2026, 11, 1))
    >>> newest_window(3, datetime(2026, 11, 10, tzinfo=UTC))
    (datetime.date(2026, 9, 28), datetime.date(2026, 10, 1))
    """
    end = (now - _PUBLISHED).date().replace(day=1)
    return end - timedelta(days=days), end


def real_journey(
    out: str | Path,
    coin: str,
    *,
    days: int = 3,
    has_trades: bool = False,
    mirror: str | None = None,
    progress: bool | None = None,
    step: Callable[[str], object] = lambda name: None,
) -> Journey:
    """Bring days of a real market from a public archive into a lake, and write a report about it.

    Parameters
    ----------
    out : path
        Folder for the results; created if it does not exist. The results of an earlier demo are replaced, unless they
        were changed.
    coin : str
        The coin. Its market is the perpetual in USDT on Binance.
    days : int
        Length of the window. [d]
    has_trades : bool
        Whether to fetch trades too, whose files are large.
    mirror : str, optional
        Address of a copy of the archive.
    progress : bool, optional
        Whether to show the progress of the download; by default only on a terminal.
    step : callable
        Called with the name of each step before it begins.

    Returns
    -------
    Journey
        Paths, and what was fetched. Its text is what the command prints.

    Raises
    ------
    QueryError
        If the archive has no market of the coin, or for a reason for which `journey` raises it.
    TransportError
        If the archive cannot be reached, or sends neither candles nor trades. A folder that is there stays as it is if
        the archive cannot be reached.
    """
    from tidytape.archives import IN_LAKE, plan
    from tidytape.cli._download import summary
    from tidytape.lake import Lake
    from tidytape.lake.rollup import rollup

    folder, symbol = Path(out), f"{coin.strip().upper()}USDT"
    kinds = [*_SMALL_KINDS, *(["trades"] if has_trades else [])]
    start, end = newest_window(days, datetime.now(UTC))
    planned = plan("binance", symbol, market="um", data=kinds, start=start, end=end, mirror=mirror)
    step("ask the archive")
    size = _size(planned, coin, folder)
    with claimed(folder):
        step(f"fetch {counted(planned.files.height, 'file')}, {size:,} bytes")
        files = planned.run(folder / LAKE, progress=progress)
        in_lake = files.filter(files["state"].cast(str).is_in(list(IN_LAKE)))
        if not in_lake["data"].is_in(["candles", "trades"]).any():
            raise TransportError(f"no candles of {symbol}: {summary(files)}; {_without_network(folder)}")
        step("precompute minutes")
        rollup(Lake(folder / LAKE), progress=False, is_complete=True)
        archive = str(files["address"][0]).partition("/data/")[0]
        days_text = f"{start} to {end - timedelta(days=1)}"
        results = reported(
            folder,
            about={"archive": archive, "market": f"{symbol}, the perpetual of Binance", "days": days},
            step=step,
            title=f"{symbol} on Binance, {days_text}",
            window=(start.isoformat(), end.isoformat()),
        )
        seal(folder)
    source = f"Real: {symbol}, the perpetual of Binance, {days_text}, from {archive}\n{summary(files)}"
    last_day = f"--start {end - timedelta(days=1)} --end {end}"
    more = (
        f"tidytape download binance {shlex.quote(symbol)} --market um --data {','.join(kinds)} "
        f"--start {start.replace(day=1)} --end {end} --lake lake"
    )
    market = f"--exchange BINANCE_FUTURES --raw-symbol {shlex.quote(symbol)} --interval 1h"
    return replace(results, source=source, window=f"{market} {last_day}", more=more)


def _size(planned: DownloadPlan, coin: str, folder: Path) -> int:
    """Return the size of the files. [bytes]

    Raises
    ------
    QueryError
        If the archive has none of the files.
    TransportError
        If it cannot be reached.
    """
    try:
        size = planned.bytes or 0
    except TransportError as error:
        raise TransportError(f"{error}; {_without_network(folder)}", url=error.url) from error
    if not size:
        expected = "a coin whose symbol with USDT is in the archive, e.g. BTC or 1000PEPE"
        hint = f"it has none of {counted(planned.files.height, 'file')} such as {planned.files['address'][0]}"
        raise QueryError("real", got=coin, expected=expected, hint=hint)
    return size


def _without_network(folder: Path) -> str:
    return f"without the archive: tidytape demo --out {shlex.quote(str(folder))}"
