"""Convert amounts in contracts or in the quote to coin.

n contracts of size s at price p are:

=========== =================== ===================
kind        amount [coin]       quote_amount [quote]
=========== =================== ===================
LINEAR      n s                 n s p
VANILLA     n s                 n s p
INVERSE     n s / p             n s
=========== =================== ===================

Sizes are decimals, and n s is the float nearest to the decimal product: 3 contracts of 0.001 are 0.003. An amount in
the quote is an inverse contract of size 1, `QUOTE`.

Candles do not tell at which prices their volume traded. For LINEAR and VANILLA contracts ``volume`` is n s, and
``quote_volume`` stays as the file has it. For INVERSE contracts ``quote_volume`` is n s, and ``volume`` is null: the
quote divided by the close would be a guess. If a file also has the coins, its layout adds the contracts as columns
``contracts`` and ``buy_contracts``; then ``volume`` stays.

A layout may add a column ``coins`` to trades: the amount in coin that the exchange reports. The converted amount must
agree with it.

A report of open interest has no price. A layout may add a column ``price``, e.g. the mark price at that time. Without
it, open interest of inverse contracts is refused. For linear contracts the price gives ``quote_amount``, which stays
as the file has it if there is no price.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from functools import partial

import polars as pl

from tidytape.errors import IngestError, counted
from tidytape.lake._amount_units import QUOTED, description, mismatched
from tidytape.lake._batch import Batch
from tidytape.lake._tables import (
    BOOK,
    CME_OPEN_INTEREST,
    LIQUIDATIONS,
    OPEN_INTEREST,
    RECORDED_CANDLES,
    TRADES,
    Table,
)

COUNTED = (TRADES, BOOK, RECORDED_CANDLES, OPEN_INTEREST, LIQUIDATIONS, CME_OPEN_INTEREST)
"""The tables whose amounts may be numbers of contracts."""

_MARKET = ["exchange", "raw_symbol"]
_DIGITS = 15
"""Number of decimal digits that a float holds exactly."""
_APART = 1e-3
"""Relative difference up to which amounts agree: exchanges round, while a wrong size makes a larger difference."""
_FINEST = 1e-8
"""Absolute difference up to which amounts agree. [coin]"""


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


QUOTE = Contract(ContractKind.INVERSE, Decimal(1))
"""An amount that counts the quote."""


def in_coin(batch: Batch, contracts: Mapping[tuple[str, str], Contract]) -> None:
    """Convert the amounts of a batch to coin; this happens when its rows are read.

    Parameters
    ----------
    batch : Batch
        Rows of one of the tables `COUNTED`; batches of other tables stay as they are.
    contracts : mapping of (str, str) to Contract
        By (exchange, raw_symbol). Amounts of other markets are in coin.

    Raises
    ------
    IngestError
        When the rows are read, if a price is needed and missing, or the file has other amounts in coin.
    """
    if batch.table not in COUNTED or contracts.keys().isdisjoint(batch.markets):
        return
    rows = [(*market, *_facts(contract)) for market, contract in contracts.items()]
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


def require_quotes(batch: Batch) -> None:
    """Refuse a batch, when its rows are read, if the file's amounts in the quote contradict its other amounts.

    Raises
    ------
    IngestError
        When the rows are read, if the ratio of a market's two sums is not a price at which it traded.
    """
    if batch.table.name in QUOTED:
        batch.change(partial(_with_quotes, table=batch.table))


def _with_quotes(rows: pl.DataFrame, *, table: Table) -> pl.DataFrame:
    wrong = mismatched(rows.lazy(), table.name, by=[pl.col(name) for name in _MARKET])
    if wrong.height:
        exchange, symbol, ratio = wrong.row(0)
        raise IngestError(
            f"{table.name}: of {exchange} {symbol} {description(table.name, ratio)}: ``amount_unit``, or "
            "``contract`` and ``contract_size``, say what amounts count"
        )
    return rows


def _facts(contract: Contract) -> tuple[bool, float, float]:
    """Return the kind and the size as a fraction of integers, so that one multiplication and one division convert."""
    times, over = contract.size.as_integer_ratio()
    return contract.kind is ContractKind.INVERSE, float(times), float(over)


def _converted(rows: pl.DataFrame, *, table: Table, sizes: pl.DataFrame) -> pl.DataFrame:
    amount = "size" if table is BOOK else "amount"
    inverse = pl.col("__inverse").fill_null(value=False)
    known = pl.col("__times").is_not_null()
    joined = rows.join(sizes, on=_MARKET, how="left", maintain_order="left")
    price = pl.col("price") if "price" in rows.columns else pl.lit(None, pl.Float64)
    needed = inverse & (pl.col(amount) != 0) & ~(price > 0).fill_null(value=False)
    if wrong := joined.select(needed.sum()).item():
        row = joined.filter(needed).row(0, named=True)
        raise IngestError(
            f"{table.name}: {counted(wrong, 'amount')} of inverse contracts or in the quote without a price above 0 to "
            f"convert them to coin: {row['exchange']} {row['raw_symbol']} at {row['timestamp']}"
        )
    worth = _times(amount)
    coin = pl.when(inverse & (worth != 0)).then(worth / price).otherwise(worth)
    new = {amount: pl.when(known).then(coin).otherwise(pl.col(amount))}
    if "quote_amount" in rows.columns:
        quote = pl.when(inverse).then(worth).otherwise(pl.coalesce(worth * price, "quote_amount"))
        new["quote_amount"] = pl.when(known).then(quote).otherwise(pl.col("quote_amount"))
    done = joined.with_columns(**new)
    if "coins" in rows.columns:
        _require_equal(done.filter(known), table, "amount", "coins", "coin")
    return done.select(rows.columns)


def _times(column: str) -> pl.Expr:
    """Return contracts times size, rounded to the digits that a float holds exactly."""
    return (pl.col(column) * pl.col("__times") / pl.col("__over")).round_sig_figs(_DIGITS)


def _require_equal(rows: pl.DataFrame, table: Table, amount: str, reported: str, unit: str) -> None:
    """Raise IngestError if a converted amount differs from the amount that the file reports."""
    apart = (pl.col(amount) - pl.col(reported)).abs() > _APART * pl.col(reported) + _FINEST
    wrong = rows.filter(apart.fill_null(value=False))
    if wrong.is_empty():
        return
    row = wrong.row(0, named=True)
    raise IngestError(
        f"{table.name}: {counted(wrong.height, 'amount')} not as the file says in {unit}: {row[amount]:.8g} by the "
        f"size of a contract and {row[reported]:.8g} by the file, {row['exchange']} {row['raw_symbol']} at "
        f"{row['timestamp']}: is the size another?"
    )


def _converted_candles(rows: pl.DataFrame, *, sizes: pl.DataFrame) -> pl.DataFrame:
    candles = rows.join(sizes, on=_MARKET, how="left", maintain_order="left")
    inverse = pl.col("__inverse").fill_null(value=False)
    linear = pl.col("__times").is_not_null() & ~inverse
    has_coins = "contracts" in rows.columns
    counted_in = "contracts" if has_coins else "volume"
    new = {}
    for side in ("", "buy_"):
        volume, worth = pl.col(f"{side}volume"), _times(f"{side}{counted_in}")
        in_coin_ = pl.when(linear).then(_times(f"{side}volume"))
        new[f"{side}volume"] = (in_coin_ if has_coins else in_coin_.when(inverse).then(None)).otherwise(
            volume
        )
        new[f"{side}quote_volume"] = pl.when(inverse).then(worth).otherwise(pl.col(f"{side}quote_volume"))
    done = candles.with_columns(__reported=pl.col("quote_volume")).with_columns(**new)
    _require_equal(done.filter(inverse), RECORDED_CANDLES, "quote_volume", "__reported", "quote")
    return done.select(rows.columns)
