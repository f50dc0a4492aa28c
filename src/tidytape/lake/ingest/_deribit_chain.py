"""Snapshots of Deribit's option chains, as delimited files with a header.

One line per option. Columns are recognised by their names, and others are ignored:

========================= =========================================================================================
ours                      the file's
========================= =========================================================================================
``timestamp``             ``timestamp``, ISO 8601, of the whole snapshot
``raw_symbol``            ``instrument_name``, e.g. BTC-27MAR26-60000-P
``coin``                  ``currency``
``option_type``           ``option_type``, call or put
``strike``                ``strike``, quote per coin
``expiry``                ``expiry_datetime``, ISO 8601, as given
``implied_volatility``    ``implied_volatility`` of the mark price, a decimal there and percent here
``delta``                 ``delta``
``forward``               ``futures_price``, quote per coin
``mark_price``            ``mark_price``, in coin
``open_interest``         ``open_interest``, in coin
========================= =========================================================================================

The last five columns may be empty, which means unknown. A quote without a volatility is kept, because of its open
interest.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import polars as pl

from tidytape.errors import IngestError
from tidytape.lake._amount_units import of_coins
from tidytape.lake._batch import Spool
from tidytape.lake._tables import OPTION_QUOTES
from tidytape.lake.ingest._decode import Header, delimited
from tidytape.lake.ingest._fields import ABOVE_ZERO, NAME, NUMBER, Field, time, word
from tidytape.lake.ingest._layout import Job, Layout, Parsed, Progress
from tidytape.lake.ingest._time import ISO

_FIELDS = {
    "timestamp": Field("timestamp", time(ISO)),
    "raw_symbol": Field("instrument_name", NAME),
    "coin": Field("currency", NAME),
    "option_type": Field("option_type", word({"call": "CALL", "put": "PUT"})),
    "strike": Field("strike", ABOVE_ZERO),
    "expiry": Field("expiry_datetime", time(ISO)),
    "implied_volatility": Field("implied_volatility", NUMBER, needed=False),
    "delta": Field("delta", NUMBER, needed=False),
    "forward": Field("futures_price", NUMBER, needed=False),
    "mark_price": Field("mark_price", NUMBER, needed=False),
    "open_interest": Field("open_interest", NUMBER, needed=False),
}


class DeribitChain(Layout):
    """Snapshots of option chains: implied volatility, delta, forward, open interest."""

    name = "deribit-chain"
    names_exchange = True
    follows = True
    header_lines = 1
    default_exchange = "DERIBIT"
    market_options = ("exchange", "raw_symbol")
    amounts: ClassVar[Mapping[str, str]] = {OPTION_QUOTES.name: "the layout: coins"}

    @classmethod
    def recognises(cls, name: str, head: str) -> bool:
        """Return whether a file is such a snapshot: its header has all columns of `_FIELDS`."""
        return not _missing(_names(head.partition("\n")[0]))

    def read(self, job: Job, spool: Spool, progress: Progress) -> Parsed:
        """Read one file."""
        parsed = Parsed(spool, amount_unit=of_coins, piece=job.piece)
        exchange = pl.lit(job.exchange or self.default_exchange)
        for block in delimited(job, parsed, progress, lambda _, first: _header(job, first)):
            quotes = block.rows(_FIELDS)
            quotes = parsed.only(quotes, job.raw_symbol, others="quote of another option")
            percent = pl.col("implied_volatility") * 100
            parsed.batch(OPTION_QUOTES).add(
                OPTION_QUOTES.conform(quotes.with_columns(percent, exchange=exchange))
            )
        return parsed


def _names(line: str) -> list[str]:
    return [name.strip() for name in line.split(",")]


def _missing(names: list[str]) -> list[str]:
    return [field.name for field in _FIELDS.values() if names.count(field.name) != 1]


def _header(job: Job, first: str) -> Header:
    names = _names(first)
    missing_names = _missing(names)
    if missing_names:
        raise IngestError(
            f"{job.path}: no option chain, its header lacks {', '.join(missing_names)}",
            path=str(job.path),
            line=1,
        )
    return Header(names)
