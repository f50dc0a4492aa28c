"""Candles of data.binance.vision, ``klines``.

How long they are the name tells, ``BTCUSDT-1m-2024-08-08.zip``; where it does not, the first row that closes one unit
of time before another candle would open. Every row must agree. A month has no length, so its candles are refused.

Dumps of candles of mark, index and premium prices have the same names and columns. They have no volume, though prices
moved, and no such row is taken for trades.

COIN-M futures count contracts, and tell the coins beside: those are the volume. The volume in terms of the quote is
contracts times the size of one, so it is null while nobody said what a contract is.
"""

from __future__ import annotations

import re

import polars as pl

from tidytape.errors import IngestError
from tidytape.lake.ingest._candles import LENGTHS, impossible
from tidytape.lake.ingest._job import Job, Parsed
from tidytape.lake.ingest._time import UNITS
from tidytape.lake.tables import RECORDED_CANDLES

INTERVALS = r"\d{1,2}(?:s|m|h|d|w|mo)"
"""How names write how long candles are."""

_NAMED = re.compile(rf"-({INTERVALS})-\d{{4}}-")
_WORDS = {length: word for word, length in LENGTHS.items() if word.islower()}


def named_length(job: Job) -> int | None:
    """Return how long a file's candles are by its name, None where that does not tell. [ns]

    Raises
    ------
    IngestError
        If it names none that a candle of the lake can have.
    """
    match = _NAMED.search(job.path.name)
    if match is None:
        return None
    if match[1].endswith("mo"):
        reason = "klines of months: they differ in length, and a candle of the lake has one; take those of 1d"
    elif match[1] not in LENGTHS:
        reason = f"klines of {match[1]}: none of {', '.join(_WORDS[one] for one in sorted(_WORDS))}"
    else:
        return LENGTHS[match[1]]
    raise IngestError(f"{job.path}: {reason}", path=str(job.path))


def put(rows: pl.DataFrame, job: Job, parsed: Parsed, *, coin_margined: bool) -> None:
    """Put checked rows into the table of recorded candles.

    Parameters
    ----------
    rows : polars.DataFrame, one row per line
        The columns of the dump by our names: ``close_time`` and ``trades`` beside those of the table.
    job : Job
        The file.
    parsed : Parsed
        Takes the rows; its ``time_unit`` is that of both times, and its ``interval`` what rows before told.
    coin_margined : bool
        The volumes are contracts, and those of the quote coin.
    """
    unit = 10 ** UNITS.get(parsed.time_unit or "ms", 6)
    told = rows.with_columns(interval=pl.col("close_time") - pl.col("timestamp") + unit)
    named = named_length(job)
    if parsed.interval is None:
        known = told["interval"].filter(told["interval"].is_in(list(_WORDS)))
        parsed.interval = named or (known[0] if known.len() else None)
    good = parsed.bad.take(_agreeing(told, parsed.interval, named=named is not None))
    idle = (pl.col("volume") == 0) & ((pl.col("trades") != 0) | (pl.col("high") != pl.col("low")))
    good = parsed.bad.take(
        good.with_columns(
            reason=pl.when(idle).then(
                pl.lit("no volume, but a price that moved: of a mark, index or premium, not of trades")
            )
        )
    )
    if coin_margined:
        good = good.rename({"volume": "contracts", "buy_volume": "buy_contracts"}).rename(
            {"quote_volume": "volume", "buy_quote_volume": "buy_volume"}
        )
    good = parsed.bad.take(impossible(good))
    candles = RECORDED_CANDLES.conform(good)
    if coin_margined:
        candles = candles.with_columns(good["contracts"], good["buy_contracts"])
    parsed.batch(RECORDED_CANDLES).add(candles)


def _agreeing(rows: pl.DataFrame, wanted: int | None, *, named: bool) -> pl.DataFrame:
    """The rows with a ``reason`` where one closes at another time than its length says."""
    if wanted is None:
        reason = "it closes when no candle would whose length is one of " + ", ".join(
            _WORDS[one] for one in sorted(_WORDS)
        )
        return rows.with_columns(reason=pl.lit(reason))
    before = "the name of the file" if named else "a row before it"
    reason = f"it does not close after {_WORDS[wanted]}, as {before} says"
    return rows.with_columns(reason=pl.when(pl.col("interval") != wanted).then(pl.lit(reason)))
