"""Trades of a file whose columns are mapped to ours.

========================= =========================================================================================
ours                      the file's
========================= =========================================================================================
``timestamp``             ISO 8601, naive means UTC, or an epoch number; its unit is found out, see ``time_unit``
``price``, ``amount``     numbers, quote per coin and coin
``side``                  of the aggressor: buy, sell, b or s in any case
``buyer_is_maker``        instead of ``side``: true or false, t or f, 1 or 0; true means that the aggressor sold
``id``                    may be left out
``raw_symbol``            may be left out when the caller names the instrument
========================= =========================================================================================

Without ids one is made from the trade itself: timestamp, price, amount, side and its number among identical trades.
The same trades exported again get the same ids. The order of trades of one timestamp is the id where every id of the
file is an integer of 64 bits, else the line; in a file that starts with its newest trade, the line from the end. How
lines of several files are ordered is told in `tidytape.lake.order`.

A trade without a side is a bad line, because nobody can tell whose volume it was.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from tidytape.catalogue import Side
from tidytape.errors import QueryError
from tidytape.lake.ingest._column_map import columns_of, map_error, mapped_time, unmapped
from tidytape.lake.ingest._fields import ABOVE_ZERO, NAME, NUMBER, TEXT, Field, checked, word
from tidytape.lake.ingest._job import Job, Parsed
from tidytape.lake.ingest._repeats import with_ids
from tidytape.lake.ingest._time import ISO, unit_of
from tidytape.lake.tables import TRADES

COLUMNS = ("timestamp", "price", "amount", "side", "buyer_is_maker", "id", "raw_symbol")
"""What a column map may name."""

NEEDED = ("timestamp", "price", "amount", "side", "raw_symbol")
"""What a file needs; ``buyer_is_maker`` will do for ``side``, and the caller may say the instrument."""

_BUY, _SELL = Side.BUY.value, Side.SELL.value
_KINDS = {
    "price": NUMBER,
    "amount": ABOVE_ZERO,
    "side": word({"buy": _BUY, "b": _BUY, "sell": _SELL, "s": _SELL}),
    "buyer_is_maker": word({"true": _SELL, "t": _SELL, "1": _SELL, "false": _BUY, "f": _BUY, "0": _BUY}),
    "id": TEXT,
    "raw_symbol": NAME,
}


class Reader:
    """Takes blocks of trades.

    Parameters
    ----------
    job : Job
        With ``columns`` and ``time_unit``.
    header : sequence of str
        Names of the file's columns, in order.
    parsed : Parsed
        Takes the trades.

    Raises
    ------
    QueryError
        If the map names a column that is not there, a needed column is not mapped, or no instrument is named.
    """

    def __init__(self, job: Job, header: Sequence[str], parsed: Parsed) -> None:
        self.job = job
        self.exchange = job.venue
        self.parsed = parsed
        self.header = list(header)
        self.mapped = _mapped(job, self.header)
        self.newest_first: bool | None = None
        self.by_id = "id" in self.mapped

    def take(self, rows: pl.DataFrame) -> None:
        """Take some rows: ``line`` and one column of text per column of the file, in the file's order."""
        parsed = self.parsed
        parsed.lines += rows.height
        columns = rows.columns[1:]
        texts = rows.select(
            "line",
            *(pl.col(columns[self.header.index(name)]).alias(ours) for ours, name in self.mapped.items()),
        )
        if parsed.time_unit is None:
            parsed.time_unit = unit_of(texts["timestamp"])
        trades = parsed.bad.take(checked(texts, self._fields(parsed.time_unit or ISO)))
        if "raw_symbol" not in self.mapped:
            trades = trades.with_columns(raw_symbol=pl.lit(self.job.raw_symbol, pl.String))
        if self.job.raw_symbol is not None and "raw_symbol" in self.mapped:
            others = trades.filter(pl.col("raw_symbol") != self.job.raw_symbol)
            if others.height:
                parsed.ignore("trade of another instrument", others.height)
            trades = trades.filter(pl.col("raw_symbol") == self.job.raw_symbol)
        if trades.is_empty():
            return
        if self.newest_first is None:
            self.newest_first = trades["timestamp"][0] > trades["timestamp"][-1]
        parsed.batch(TRADES).add(self._trades(trades))

    def finish(self) -> None:
        """Say what orders the trades of one timestamp, now that all ids were seen."""
        if self.by_id:
            self.parsed.batch(TRADES).order_by_id()
        else:
            self.parsed.batch(TRADES).counted = True

    def _fields(self, time_unit: str) -> dict[str, Field]:
        """What the mapped columns hold, by our names."""
        kinds = _KINDS | {"timestamp": mapped_time(time_unit)}
        return {ours: Field(theirs, kinds[ours]) for ours, theirs in self.mapped.items()}

    def _trades(self, trades: pl.DataFrame) -> pl.DataFrame:
        if self.by_id:
            # As it is written in one way only, so that two ids are never one number.
            number = pl.col("id").str.extract(r"^(0|[1-9]\d{0,18})$").cast(pl.Int64, strict=False)
            self.by_id = not trades.select(number.is_null().any()).item()
        placed = trades.rename({"buyer_is_maker": "side"}, strict=False).with_columns(
            exchange=pl.lit(self.exchange)
        )
        return TRADES.conform(
            (placed if "id" in self.mapped else with_ids(placed, self.parsed.batch(TRADES))).with_columns(
                sequence=-pl.col("line") if self.newest_first else pl.col("line"),
                quote_amount=pl.col("price") * pl.col("amount"),
            )
        )


def _mapped(job: Job, header: list[str]) -> dict[str, str]:
    """Our columns to those of the file, the ones that were named and the ones that bear our name."""
    named = dict(job.columns or {})
    for ours, theirs in named.items():
        if ours not in COLUMNS:
            raise map_error(ours, COLUMNS, "one of " + ", ".join(COLUMNS) + " to be mapped")
        if header.count(theirs) != 1:
            raise map_error(theirs, header, f"for {ours} {columns_of(job, header)}")
    mapped = named | {
        name: name
        for name in COLUMNS
        if name not in named and header.count(name) == 1 and name not in named.values()
    }
    if job.raw_symbol is not None and "raw_symbol" not in named:
        mapped.pop("raw_symbol", None)
    given = {*mapped, "raw_symbol", *(["side"] if "buyer_is_maker" in mapped else [])}
    absent = [name for name in NEEDED if name not in given]
    missing = ["side or buyer_is_maker" if name == "side" else name for name in absent]
    if missing:
        raise unmapped(job, header, ", ".join(missing))
    if "side" in mapped and "buyer_is_maker" in mapped:
        if {"side", "buyer_is_maker"} <= set(named):
            raise map_error(named["side"], (), "either side or buyer_is_maker to be mapped, not both")
        mapped.pop("side" if "buyer_is_maker" in named else "buyer_is_maker")
    if "raw_symbol" not in mapped and job.raw_symbol is None:
        raise QueryError(
            "raw_symbol", got=None, expected="the instrument of the file, or a column that names it"
        )
    return mapped
