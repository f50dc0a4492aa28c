"""Amounts in contracts: what they are in coin and in quote.

A contract of size s is worth, for n of them at price p:

=========== =================== ===================
kind        amount [coin]       quote_amount [quote]
=========== =================== ===================
LINEAR      n s                 n s p
VANILLA     n s                 n s p
INVERSE     n s / p             n s
=========== =================== ===================

Sizes are decimals, and n s is the float nearest to the decimal product: 3 contracts of 0.001 are 0.003.

Candles have no price of their own. Volumes of LINEAR and VANILLA contracts are multiplied, ``quote_volume`` stays as
the file has it. Of INVERSE ones the coins cannot be told, so they have to be there: a layout that has both hands over
the numbers of contracts in columns ``contracts`` and ``buy_contracts`` beside the table's, and n s is ``quote_volume``.

A layout may also hand over trades with a column ``coins`` beside the table's, what the venue says they are in coin. It
must be what comes out, or the contract is another one.

Open interest has no price of its own. A layout may hand over its rows with a column ``price`` beside the table's, e.g.
the mark price of that moment; the open interest of an inverse contract cannot go in without. Of a linear contract it
gives ``quote_amount``, which else stays as the file has it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from functools import partial

import polars as pl

from tidytape.errors import IngestError, counted
from tidytape.lake.batch import Batch
from tidytape.lake.ingest.report import Note
from tidytape.lake.table import Table
from tidytape.lake.tables import (
    BOOK,
    CME_OPEN_INTEREST,
    LIQUIDATIONS,
    OPEN_INTEREST,
    RECORDED_CANDLES,
    TRADES,
)

__all__ = ["COUNTED", "Contract", "ContractKind", "assumed_coins", "in_coin"]

_COUNTING = frozenset(
    {
        "BINANCE_DELIVERY", "BITMEX", "BYBIT", "CRYPTOFACILITIES", "DERIBIT", "GATE_IO_FUTURES", "HUOBI_DM",
        "HUOBI_DM_LINEAR_SWAP", "HUOBI_DM_SWAP", "KUCOIN_FUTURES", "OKEX_FUTURES", "OKEX_SWAP", "PHEMEX",
    }
)  # fmt: skip
"""Venues whose amounts are numbers of contracts, in all or some of their markets."""

COUNTED = (TRADES, BOOK, RECORDED_CANDLES, OPEN_INTEREST, LIQUIDATIONS, CME_OPEN_INTEREST)
"""The tables whose amounts may be numbers of contracts."""

_INSTRUMENT = ["exchange", "raw_symbol"]
_DIGITS = 15
"""A float holds so many decimal digits exactly."""
_APART = 1e-3
"""Shares of an amount that two of its writings may lie apart: the venue's is rounded, and sizes differ by factors."""
_FINEST = 1e-8
"""What such amounts are rounded to. [coin]"""


class ContractKind(StrEnum):
    """How a number of contracts becomes coin."""

    INVERSE = "INVERSE"
    LINEAR = "LINEAR"
    VANILLA = "VANILLA"


@dataclass(frozen=True, slots=True)
class Contract:
    """What one contract of a market is.

    Attributes
    ----------
    kind : ContractKind
        How it converts.
    size : Decimal
        Quote per contract if inverse, else coin per contract.
    """

    kind: ContractKind
    size: Decimal


_TAKEN_FOR_COINS = (
    "taken for coins, though many markets there count contracts; --contract and --contract-size, when a file first "
    "goes in, say what one is"
)


def in_coin(batch: Batch, contracts: Mapping[tuple[str, str], Contract]) -> None:
    """Have the amounts of a batch converted when its rows are read.

    Parameters
    ----------
    batch : Batch
        Rows of one of the tables `COUNTED`, amounts in contracts; others are left alone.
    contracts : mapping of (str, str) to Contract
        By (exchange, raw_symbol). The amounts of an instrument that is not among them are in coin.

    Raises
    ------
    IngestError
        When the rows are read, if they need a price and have none, or the venue says other amounts in coin.
    """
    if batch.table not in COUNTED or contracts.keys().isdisjoint(batch.instruments):
        return
    rows = [(*instrument, *_facts(contract)) for instrument, contract in contracts.items()]
    schema = {
        "exchange": pl.String,
        "raw_symbol": pl.String,
        "__inverse": pl.Boolean,
        "__times": pl.Float64,
        "__over": pl.Float64,
    }
    sizes = pl.DataFrame(rows, schema=schema, orient="row")
    if batch.table is RECORDED_CANDLES:
        batch.change(partial(_converted_candles, sizes=sizes))
    else:
        batch.change(partial(_converted, table=batch.table, sizes=sizes))


def assumed_coins(batches: Iterable[Batch], contracts: Mapping[tuple[str, str], Contract]) -> list[Note]:
    """Return how many amounts are taken for coins at venues that count contracts, a note for each venue.

    Parameters
    ----------
    batches : iterable of Batch
        Rows of a file whose amounts may be contracts.
    contracts : mapping of (str, str) to Contract
        Of the instruments whose contract is known, by (exchange, raw_symbol).
    """
    counts: Counter[str] = Counter()
    for batch in batches:
        if batch.table not in COUNTED:
            continue
        suspects = {name for name in batch.instruments if name[0] in _COUNTING and name[:2] not in contracts}
        if suspects:
            venue = pl.struct(_INSTRUMENT).is_in(
                [dict(zip(_INSTRUMENT, name, strict=True)) for name in suspects]
            )
            for part in batch:
                counts.update(part.frame().filter(venue)["exchange"].to_list())
    return [Note("amount", _TAKEN_FOR_COINS, count, venue) for venue, count in sorted(counts.items())]


def _facts(contract: Contract) -> tuple[bool, float, float]:
    """The size as a fraction of integers, so that a whole number of contracts is multiplied and divided once each."""
    times, over = contract.size.as_integer_ratio()
    return contract.kind is ContractKind.INVERSE, float(times), float(over)


def _converted(rows: pl.DataFrame, *, table: Table, sizes: pl.DataFrame) -> pl.DataFrame:
    amount = "size" if table is BOOK else "amount"
    inverse = pl.col("__inverse").fill_null(value=False)
    known = pl.col("__times").is_not_null()
    told = rows.join(sizes, on=_INSTRUMENT, how="left", maintain_order="left")
    price = pl.col("price") if "price" in rows.columns else pl.lit(None, pl.Float64)
    needed = inverse & (pl.col(amount) != 0) & ~(price > 0).fill_null(value=False)
    if wrong := told.select(needed.sum()).item():
        row = told.filter(needed).row(0, named=True)
        raise IngestError(
            f"{table.name}: {counted(wrong, 'amount')} of inverse contracts without a price above 0 to convert them to "
            f"coin: {row['exchange']} {row['raw_symbol']} at {row['timestamp']}"
        )
    worth = _times(amount)
    coin = pl.when(inverse & (worth != 0)).then(worth / price).otherwise(worth)
    new = {amount: pl.when(known).then(coin).otherwise(pl.col(amount))}
    if "quote_amount" in rows.columns:
        quote = pl.when(inverse).then(worth).otherwise(pl.coalesce(worth * price, "quote_amount"))
        new["quote_amount"] = pl.when(known).then(quote).otherwise(pl.col("quote_amount"))
    done = told.with_columns(**new)
    if "coins" in rows.columns:
        _agree(done.filter(known), table)
    return done.select(rows.columns)


def _times(column: str) -> pl.Expr:
    """Contracts times size. Rounding takes the error of the product away, where a float can tell its decimals."""
    return (pl.col(column) * pl.col("__times") / pl.col("__over")).round_sig_figs(_DIGITS)


def _agree(rows: pl.DataFrame, table: Table) -> None:
    """Raise IngestError where what the venue says in coin is another amount."""
    apart = (pl.col("amount") - pl.col("coins")).abs() > _APART * pl.col("coins") + _FINEST
    wrong = rows.filter(apart.fill_null(value=False))
    if wrong.is_empty():
        return
    row = wrong.row(0, named=True)
    raise IngestError(
        f"{table.name}: {counted(wrong.height, 'amount')} not as the file says in coin: {row['amount']:.8g} by the "
        f"size of a contract and {row['coins']:.8g} by the file, {row['exchange']} {row['raw_symbol']} at "
        f"{row['timestamp']}: is the size another?"
    )


def _converted_candles(rows: pl.DataFrame, *, sizes: pl.DataFrame) -> pl.DataFrame:
    told = rows.join(sizes, on=_INSTRUMENT, how="left", maintain_order="left")
    inverse = pl.col("__inverse").fill_null(value=False)
    both = "contracts" in rows.columns
    if not both and (wrong := told.select(inverse.sum()).item()):
        row = told.filter(inverse).row(0, named=True)
        raise IngestError(
            f"{RECORDED_CANDLES.name}: {counted(wrong, 'volume')} of inverse contracts, which are not told in coin: "
            f"{row['exchange']} {row['raw_symbol']} at {row['timestamp']}"
        )
    linear = pl.col("__times").is_not_null() & ~inverse
    new = {
        name: pl.when(linear).then(_times(name)).otherwise(pl.col(name)) for name in ("volume", "buy_volume")
    }
    if both:
        new |= {
            f"{side}quote_volume": pl.when(inverse).then(_times(f"{side}contracts")) for side in ("", "buy_")
        }
    return told.with_columns(**new).select(rows.columns)
