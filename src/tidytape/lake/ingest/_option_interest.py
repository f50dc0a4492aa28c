"""Open interest of option quotes: in coin, or null where its unit is not known.

Options are no markets of the registry, and a chain is worth having without its open interest. So a quote whose open
interest counts contracts of an unknown size is kept with a null there, and the report counts such quotes.
"""

from __future__ import annotations

from functools import partial

import polars as pl

from tidytape.lake.amount_units import AmountUnit
from tidytape.lake.ingest._job import Parsed
from tidytape.lake.ingest._markets import Given
from tidytape.lake.ingest.contracts import ContractKind
from tidytape.lake.ingest.report import Note
from tidytape.lake.tables import OPTION_QUOTES

_LEFT_OUT = (
    "whose open interest counts contracts or an unknown unit and is left out; amount_unit (--amount-unit coin), or "
    "contract and contract_size, say what it counts"
)


def in_coin_or_unknown(parsed: Parsed, given: Given) -> None:
    """Convert the open interest of option quotes to coin, or make it null and note how many there are."""
    batch = parsed.batch(OPTION_QUOTES)
    contract = given.as_contract
    if contract is not None and contract.kind is not ContractKind.INVERSE:
        batch.change(partial(_times, size=float(contract.size)))
        return
    if given.unit is AmountUnit.COIN:
        return
    unknown = [
        exchange
        for exchange in sorted({name[0] for name in batch.instruments})
        if given.unit is not None
        or parsed.amount_unit(OPTION_QUOTES.name, exchange, "") is not AmountUnit.COIN
    ]
    if not unknown:
        return
    left_out = pl.col("exchange").is_in(unknown) & pl.col("open_interest").is_not_null()
    for exchange in unknown:
        count = sum(part.frame().filter(left_out & (pl.col("exchange") == exchange)).height for part in batch)
        if count:
            parsed.notes.append(Note("option quote", _LEFT_OUT, count, exchange))
    batch.change(partial(_without, exchanges=unknown))


def _times(quotes: pl.DataFrame, *, size: float) -> pl.DataFrame:
    return quotes.with_columns(pl.col("open_interest") * size)


def _without(quotes: pl.DataFrame, *, exchanges: list[str]) -> pl.DataFrame:
    known = ~pl.col("exchange").is_in(exchanges)
    return quotes.with_columns(open_interest=pl.when(known).then("open_interest"))
