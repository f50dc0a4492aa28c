"""Put reports of prediction markets into a lake: what they say, and the instruments of their outcomes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from tidytape.errors import IngestError, counted
from tidytape.lake.ingest import polymarket
from tidytape.lake.ingest._lines import BadLines, digest
from tidytape.lake.names import storable
from tidytape.lake.predictions import instruments
from tidytape.lake.store import Lake
from tidytape.lake.tables import MARKETS, PREDICTION_MARKETS

__all__ = ["LAYOUT", "PredictionFile", "PredictionReport", "ingest_prediction_markets"]

LAYOUT = "polymarket-gamma"
"""Name of the layout."""

# What the newest report says best. The names that queries select by stay as first registered.
_REPLACED = ("tick_size", "coin_name", "full_name", "icon_url")


@dataclass(frozen=True, slots=True)
class PredictionFile:
    """What came of one file.

    Attributes
    ----------
    path : str
        The file.
    reports : int
        Reports of prediction markets that were read.
    bad : int
        Objects that were skipped because they are broken.
    first_bad : tuple of (int, str)
        The first of them: the number of its line in a file of lines, else its own, from 1, and what is wrong.
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
    """What an ingest of prediction markets did.

    Attributes
    ----------
    files : tuple of PredictionFile
        In the order they were given.
    prediction_markets : int
        Prediction markets that the files are about.
    instruments : int
        Instruments of theirs that are registered.
    changed : bool
        The lake knows something that it did not know before.
    """

    files: tuple[PredictionFile, ...]
    prediction_markets: int
    instruments: int
    changed: bool

    def __str__(self) -> str:
        markets = counted(self.prediction_markets, "prediction market")
        text = f"{markets}, {counted(self.instruments, 'instrument')}"
        return "\n".join(map(str, (*self.files, text if self.changed else f"{text}; nothing new")))


def ingest_prediction_markets(
    files: str | Path | Iterable[str | Path], lake: Lake, *, exchange: str, skip_bad: bool = False
) -> PredictionReport:
    r"""Put reports of prediction markets into a lake, and register the instruments of their outcomes.

    Every file is read and checked before anything is written. Files may come in any order and again: of each field
    the newest report that tells it counts, see `Lake.register_prediction_markets`.

    Parameters
    ----------
    files : path or iterable of paths
        JSON of the gamma API, plain or gzip, see `tidytape.lake.ingest.polymarket`.
    lake : Lake
        Where they go.
    exchange : str
        Venue identifier, e.g. ``"POLYMARKET"``.
    skip_bad : bool
        Leave broken objects out and count them, instead of failing.

    Returns
    -------
    PredictionReport

    Raises
    ------
    QueryError
        If ``exchange`` is no name.
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
    1 prediction market, 2 instruments
    >>> lake.prediction_markets().select("slug", "last_price").rows()
    [('rain', 0.25)]
    >>> lake.markets()["normalized_symbol"].to_list()
    ['rain:Yes-USDC', 'rain:No-USDC']
    """
    exchange = storable(exchange, parameter="exchange", code="INVALID_EXCHANGE")
    paths = [Path(files)] if isinstance(files, str | Path) else [Path(file) for file in files]
    read = [_read(path, exchange, skip_bad=skip_bad) for path in paths]
    if not read:
        return PredictionReport((), 0, 0, changed=False)
    reports = pl.concat(rows for rows, _ in read)
    before = lake.version()
    lake.require_writable(PREDICTION_MARKETS, MARKETS)
    lake.register_prediction_markets(reports)
    # From what is registered now and not from the files: these may be older than what another file said.
    known = lake.prediction_markets().join(
        reports, on=["exchange", "condition_id"], how="semi", maintain_order="left"
    )
    markets = instruments(known, quote_coin=polymarket.QUOTE_COIN, quote_coin_name=polymarket.QUOTE_COIN_NAME)
    # Last: whoever dies before puts the files in again.
    lake.register(markets, replace=_REPLACED)
    return PredictionReport(
        tuple(file for _, file in read), known.height, markets.height, changed=lake.version() != before
    )


def _read(path: Path, exchange: str, *, skip_bad: bool) -> tuple[pl.DataFrame, PredictionFile]:
    digest(path)  # a folder, a pipe, an empty or unreadable file are refused by name
    bad = BadLines()
    reports = polymarket.read(path, exchange=exchange, bad=bad)
    if bad.count and not (skip_bad and reports.height):
        number, reason = bad.first[0]
        more = f"; {bad.count} bad ones in all" if bad.count > 1 else ""
        hint = " and no good one" if skip_bad else "; skip_bad (--skip-bad) leaves them out"
        raise IngestError(
            f"{path}:{number}: {reason}{more}{hint}", path=str(path), line=number, bad_lines=bad.count
        )
    return reports, PredictionFile(str(path), reports.height, bad.count, tuple(bad.first))
