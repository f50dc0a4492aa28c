"""Raw answers of BitMEX's list of instruments, as cryptofeed records them.

A line is the address of the request, `` -> ``, the receive time in epoch seconds, ``: `` and the answer. Each contract
of the list is converted to a report of funding, if it has a rate, and to a report of open interest, if it has one.
Other lines are counted, not kept.

Open interest is in contracts, and the list says what one contract is [1]_: an inverse one is ``multiplier`` over
``underlyingToSettleMultiplier`` in the quote, a linear one ``multiplier`` over ``quoteToSettleMultiplier`` in coin. The
registry keeps the contract, so trades of the same markets need no ``contract``. The value of a quanto contract in coin
depends on the rates of two other markets, so its open interest is counted, not kept.

References
----------
.. [1] BitMEX, "API Explorer", Instrument.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import orjson
import polars as pl

from tidytape.frames._grid import exact
from tidytape.lake._amount_units import CountedUnit
from tidytape.lake._batch import Spool
from tidytape.lake._tables import FUNDING, OPEN_INTEREST
from tidytape.lake.ingest._contracts import Contract, ContractKind
from tidytape.lake.ingest._fields import FLAG, NAME, NOT_NEGATIVE, NUMBER, TEXT, Field, checked, time
from tidytape.lake.ingest._layout import Job, Layout, Parsed, Progress
from tidytape.lake.ingest._lines import numbered
from tidytape.lake.ingest._time import ISO, nanoseconds
from tidytape.times import SECOND

_ADDRESS = "https://www.bitmex.com/api/v1/instrument"
_LINE = re.compile(r"(\S+) -> (\d+(?:\.\d+)?): (.*)", re.DOTALL)
_FIELDS = {
    "raw_symbol": Field("symbol", NAME),
    "timestamp": Field("timestamp", time(ISO)),
    "rate": Field("fundingRate", NUMBER, needed=False),
    "predicted_rate": Field("indicativeFundingRate", NUMBER, needed=False),
    "next_funding": Field("fundingTimestamp", time(ISO), needed=False),
    "interval": Field("fundingInterval", TEXT, needed=False),
    "amount": Field("openInterest", NOT_NEGATIVE, needed=False),
    "price": Field("markPrice", NUMBER, needed=False),
    "is_inverse": Field("isInverse", FLAG, needed=False),
    "is_quanto": Field("isQuanto", FLAG, needed=False),
    "multiplier": Field("multiplier", NUMBER, needed=False),
    "underlying_multiplier": Field("underlyingToSettleMultiplier", NUMBER, needed=False),
    "quote_multiplier": Field("quoteToSettleMultiplier", NUMBER, needed=False),
}


class Cryptofeed(Layout):
    """Lists of BitMEX instruments: funding and open interest."""

    name = "cryptofeed"
    names_exchange = True
    follows = True
    default_exchange = "BITMEX"
    market_options = (
        "exchange",
        "raw_symbol",
        "contract",
        "contract_size",
        "amount_unit",
        "funding_interval",
    )
    amounts: ClassVar[Mapping[str, str]] = {OPEN_INTEREST.name: "the list of instruments itself"}

    @classmethod
    def recognises(cls, name: str, head: str) -> bool:
        """Return whether a file is such a record: it begins with the address of the list."""
        return head.startswith(_ADDRESS)

    def read(self, job: Job, spool: Spool, progress: Progress) -> Parsed:
        """Read one file."""
        parsed = Parsed(spool, amount_unit=_contracts, piece=job.piece)
        for lines in numbered(job.path, parsed.bad, progress, job.piece):
            parsed.lines += lines.height
            # One line at a time, because a file has few lines, and each is a long answer.
            for line, text in lines.iter_rows():
                _take(line, text, job, parsed)
        return parsed


def _contracts(table: str, exchange: str, raw_symbol: str) -> CountedUnit:
    return CountedUnit.CONTRACTS


def _take(line: int, text: str, job: Job, parsed: Parsed) -> None:
    """Put the contracts of one line into the tables of funding and open interest."""
    match = _LINE.fullmatch(text)
    if match is None or not match[1].startswith(_ADDRESS):
        parsed.ignore("line that is no answer with instruments")
        return
    try:
        instruments = _instruments(match[3])
    except ValueError as error:
        parsed.bad.add(line, str(error))
        return
    rows = parsed.bad.take(checked(_texts(instruments, line), _FIELDS))
    rows = parsed.only(rows, job.raw_symbol, others="contract of another symbol")
    contracts = rows.with_columns(
        exchange=pl.lit(job.exchange or Cryptofeed.default_exchange),
        received=nanoseconds(pl.lit(match[2]), "s"),
        # The interval is written as a time: the interval after the start of the year 2000.
        funding_interval=nanoseconds(pl.col("interval"), ISO) - _YEAR_2000,
    )
    _put(contracts, parsed)


def _instruments(answer: str) -> list[dict[str, Any]]:
    """Return the instruments of an answer; ValueError says why it has none."""
    try:
        instruments = orjson.loads(answer)
    except orjson.JSONDecodeError:
        raise ValueError("the answer is no JSON") from None
    if not (isinstance(instruments, list) and all(isinstance(entry, dict) for entry in instruments)):
        raise ValueError("the answer is no list of instruments")
    return instruments


def _texts(instruments: list[dict[str, Any]], line: int) -> pl.DataFrame:
    """Return the fields of instruments as columns of text, by our names."""
    columns = {
        column: pl.Series(
            [None if (value := entry.get(field.name)) is None else str(value) for entry in instruments],
            dtype=pl.String,
        )
        for column, field in _FIELDS.items()
    }
    return pl.DataFrame(columns).with_columns(line=pl.lit(line, pl.Int64))


def _put(contracts: pl.DataFrame, parsed: Parsed) -> None:
    """Put checked contracts into the tables; quanto contracts have no open interest in coin."""
    has_funding = pl.any_horizontal(pl.col("rate", "predicted_rate").is_not_null())
    has_interest = pl.col("amount").is_not_null()
    is_quanto = pl.col("is_quanto").fill_null(value=False)
    parsed.batch(FUNDING).add(FUNDING.conform(contracts.filter(has_funding)))
    parsed.ignore("open interest of a quanto contract", contracts.filter(has_interest & is_quanto).height)
    interest = contracts.filter(has_interest & ~is_quanto)
    parsed.contracts.update(_sizes(interest))
    parsed.batch(OPEN_INTEREST).add(OPEN_INTEREST.conform(interest).with_columns(interest["price"]))
    other_contracts = contracts.filter(~has_funding & ~has_interest)
    parsed.ignore("contract without funding rate and open interest", other_contracts.height)


def _sizes(instruments: pl.DataFrame) -> Iterator[tuple[tuple[str, str], Contract]]:
    """Yield (market, contract) for each market whose entry says what one contract is."""
    columns = (
        "exchange",
        "raw_symbol",
        "is_inverse",
        "multiplier",
        "underlying_multiplier",
        "quote_multiplier",
    )
    for exchange, symbol, is_inverse, multiplier, underlying, quote in instruments.select(
        columns
    ).iter_rows():
        kind = ContractKind.INVERSE if is_inverse else ContractKind.LINEAR
        divisor = underlying if is_inverse else quote
        if is_inverse is not None and multiplier and divisor and multiplier / divisor > 0:
            yield (exchange, symbol), Contract(kind, exact(abs(multiplier)) / exact(abs(divisor)))


_YEAR_2000 = 946_684_800 * SECOND
