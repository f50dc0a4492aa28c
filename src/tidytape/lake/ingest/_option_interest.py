"""Convert the open interest of option quotes to coin, or make it null if its unit is unknown."""

from __future__ import annotations

from functools import partial

import polars as pl

from tidytape.lake._amount_units import CountedUnit
from tidytape.lake._tables import OPTION_QUOTES
from tidytape.lake.ingest._contracts import ContractKind
from tidytape.lake.ingest._layout import Parsed
from tidytape.lake.ingest._market import Market
from tidytape.lake.ingest._report import Note

_LEFT_OUT = (
    "whose open interest counts contracts or an unknown unit and is left out; amount_unit (--amount-unit coin), or "
    "contract and contract_size, say what it counts"
)


def known_option_interest(parsed: Parsed, market: Market) -> None:
    """Convert the open interest of option quotes to coin; if its unit is unknown, make it null and note the count.

    A file is not refused for this: the registry has no options, and a chain is useful without its open interest.
    """
    batch = parsed.batch(OPTION_QUOTES)
    contract = market.stated_contract
    if contract is not None and contract.kind is not ContractKind.INVERSE:
        batch.change(partial(_multiplied, size=float(contract.size)))
        return
    exchanges = _exchanges_of_unknown_unit(parsed, market)
    for exchange in exchanges:
        has_interest = (pl.col("exchange") == exchange) & pl.col("open_interest").is_not_null()
        count = sum(part.frame().filter(has_interest).height for part in batch)
        if count:
            parsed.notes.append(Note("option quote", _LEFT_OUT, count, exchange))
    if exchanges:
        batch.change(partial(_without_interest, exchanges=exchanges))


def _exchanges_of_unknown_unit(parsed: Parsed, market: Market) -> list[str]:
    """Return the exchanges whose open interest cannot be converted to coin."""
    if market.stated_unit is CountedUnit.COIN:
        return []
    exchanges = sorted({name[0] for name in parsed.batch(OPTION_QUOTES).markets})
    if market.stated_unit is not None:
        return exchanges
    return [
        exchange
        for exchange in exchanges
        if parsed.amount_unit(OPTION_QUOTES.name, exchange, "") is not CountedUnit.COIN
    ]


def _multiplied(quotes: pl.DataFrame, *, size: float) -> pl.DataFrame:
    return quotes.with_columns(pl.col("open_interest") * size)


def _without_interest(quotes: pl.DataFrame, *, exchanges: list[str]) -> pl.DataFrame:
    is_known = ~pl.col("exchange").is_in(exchanges)
    return quotes.with_columns(open_interest=pl.when(is_known).then("open_interest"))
