"""Units of amounts: coins by the prices beside them, and by what the symbol says."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import polars as pl

from tidytape.errors import counted
from tidytape.lake.amount_units import AmountUnit, of_symbol
from tidytape.lake.hygiene._subject import Found, Subject
from tidytape.lake.quoted import description, mismatched
from tidytape.lake.tables import BOOK, LIQUIDATIONS, TRADES
from tidytape.times import DAY, SECOND

SYMBOLIC = (TRADES, BOOK, LIQUIDATIONS)
"""Tables whose recorded amounts count what the symbol says; candles and open interest may come with their coins."""

_ADVICE = "put its files into a new lake and say what amounts count: --amount-unit, or --contract and --contract-size"


def unlike_quote(subject: Subject) -> Iterator[Found]:
    """Days on which the amount in the quote is not what the amount in coin is worth at any traded price."""
    day = (pl.col("timestamp") // DAY).alias("day")
    names = [pl.col(name) for name in subject.table.partitions] if subject.members else []
    days = mismatched(subject.rows, subject.table.name, by=[day, *names])
    if days.height:
        first, ratio = days.select("day", "ratio").row(0)
        date = datetime.fromtimestamp(first * DAY // SECOND, UTC).date()
        yield days.height, f"on {date} {description(subject.table.name, ratio)}; {_ADVICE}"


def contracts_as_coins(subject: Subject) -> Iterator[Found]:
    """Markets whose symbol says that they count contracts or the quote, stored without a word on what they count."""
    for market in subject.members or (subject,):
        yield from _contracts_as_coins(market)


def _contracts_as_coins(subject: Subject) -> Iterator[Found]:
    exchange, raw_symbol = (str(value) for value in subject.partition.values())
    unit = of_symbol(raw_symbol)
    if unit in {None, AmountUnit.COIN}:
        return
    market = subject.lake.markets().filter(exchange=exchange, raw_symbol=raw_symbol)
    if market.filter(pl.any_horizontal(pl.col("contract", "amount_units").is_not_null())).height:
        return
    counts = "contracts" if unit is AmountUnit.CONTRACTS else "the quote"
    rows = counted(subject.size, "amount")
    yield subject.size, f"{raw_symbol} counts {counts} by its symbol, and {rows} went in as coins; {_ADVICE}"
