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
the quote counts as an inverse contract of size 1, `QUOTE`.

Candles do not show at which prices their volume traded. For LINEAR and VANILLA contracts ``volume`` is n s, and
``quote_volume`` stays as the file has it. For INVERSE contracts ``quote_volume`` is n s, and ``volume`` is null: the
quote divided by the close would be a guess. If a file also has the coins, its layout adds the contracts as columns
``contracts`` and ``buy_contracts``; then ``volume`` stays.

A layout may add a column ``coins`` to trades: the amount in coin that the exchange reports. The converted amount must
agree with it.

A report of open interest has no price. A layout may add a column ``price``, e.g. the mark price at that time. Without a
price, open interest of inverse contracts is refused. For linear contracts ``quote_amount`` is computed from the price;
without a price it stays as the file has it.
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
from tidytape.lake._dedupe import written_time
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
"""Relative difference up to which amounts agree: exchanges round, and a wrong size makes a larger difference. [1]"""
_FINEST = 1e-8
"""Absolute difference up to which amounts agree. [coin]"""


class ContractKind(StrEnum):
    """How a number of contracts is converted to coin."""

    INVERSE = "INVERSE"
    LINEAR = "LINEAR"
    VANILLA = "VANILLA"


@dataclass(frozen=True, slots=True)
class Contract:
    """What one contract of a market is.

    Attributes
    ----------
    kind : ContractKind
        How it is converted to coin.
    size : Decimal
        Quote per contract if inverse, else coin per contract.
    """

    kind: ContractKind
    size: Decimal


QUOTE = Contract(ContractKind.INVERSE, Decimal(1))
"""The contract that converts amounts in the quote."""


def in_coin(batch: Batch, contracts: Mapping[tuple[str, str], Contract]) -> None:
    """Convert the amounts of a batch to coin; this happens when its rows are read.

    Parameters
    ----------
    batch : Batch
        Rows of one of the tables `COUNTED`; batches of other tables stay as they are.
    contracts : mapping of (str, str) to Contract
        The contract by (exchange, raw_symbol). Amounts of other markets are in coin.

    Raises
    ------
    IngestError
        When the rows are read, if a needed price is missing, or the file's own amounts in coin differ.
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
    """Make a batch check its amounts in the quote against its other amounts when its rows are read.

    Raises
    ------
    IngestError
        When the rows are read, if the ratio of a market's two sums is not a price at which it traded.
    """
    if batch.table.name in QUOTED:
        batch.change(partial(_with_quotes, table=batch.table))


def _with_quotes(rows: pl.DataFrame, *, table: Table) -> pl.DataFrame:
    mismatches = mismatched(rows.lazy(), table.name, by=[pl.col(name) for name in _MARKET])
    if mismatches.height:
        exchange, symbol, ratio = mismatches.row(0)
        raise IngestError(
            f"{table.name}: of {exchange} {symbol} {description(table.name, ratio)}: ``amount_unit``, or "
            "``contract`` and ``contract_size``, say what amounts count"
        )
    return rows


def _facts(contract: Contract) -> tuple[bool, float, float]:
    """Return whether a contract is inverse, and its size as a fraction of integers, to convert exactly."""
    numerator, denominator = contract.size.as_integer_ratio()
    return contract.kind is ContractKind.INVERSE, float(numerator), float(denominator)


def _converted(rows: pl.DataFrame, *, table: Table, sizes: pl.DataFrame) -> pl.DataFrame:
    amount = "size" if table is BOOK else "amount"
    is_inverse = pl.col("__inverse").fill_null(value=False)
    has_contract = pl.col("__times").is_not_null()
    joined = rows.join(sizes, on=_MARKET, how="left", maintain_order="left")
    price = pl.col("price") if "price" in rows.columns else pl.lit(None, pl.Float64)
    lacks_price = is_inverse & (pl.col(amount) != 0) & ~(price > 0).fill_null(value=False)
    if count := joined.select(lacks_price.sum()).item():
        row = joined.filter(lacks_price).row(0, named=True)
        raise IngestError(
            f"{table.name}: {counted(count, 'amount')} of inverse contracts or in the quote without a price above 0 to "
            f"convert them to coin: {row['exchange']} {row['raw_symbol']} at {written_time(row['timestamp'])}"
        )
    contracts_times_size = _times(amount)
    coin = (
        pl.when(is_inverse & (contracts_times_size != 0))
        .then(contracts_times_size / price)
        .otherwise(contracts_times_size)
    )
    new_columns = {amount: pl.when(has_contract).then(coin).otherwise(pl.col(amount))}
    if "quote_amount" in rows.columns:
        quote = (
            pl.when(is_inverse)
            .then(contracts_times_size)
            .otherwise(pl.coalesce(contracts_times_size * price, "quote_amount"))
        )
        new_columns["quote_amount"] = pl.when(has_contract).then(quote).otherwise(pl.col("quote_amount"))
    converted = joined.with_columns(**new_columns)
    if "coins" in rows.columns:
        _require_equal(converted.filter(has_contract), table, "amount", "coins", "coin")
    return converted.select(rows.columns)


def _times(column: str) -> pl.Expr:
    """Return a number of contracts times the size, rounded to the digits that a float holds exactly."""
    return (pl.col(column) * pl.col("__times") / pl.col("__over")).round_sig_figs(_DIGITS)


def _require_equal(rows: pl.DataFrame, table: Table, amount: str, reported: str, unit: str) -> None:
    """Raise IngestError if a converted amount differs from the amount that the file reports."""
    is_different = (pl.col(amount) - pl.col(reported)).abs() > _APART * pl.col(reported) + _FINEST
    unequal = rows.filter(is_different.fill_null(value=False))
    if unequal.is_empty():
        return
    row = unequal.row(0, named=True)
    raise IngestError(
        f"{table.name}: {counted(unequal.height, 'amount')} not as the file says in {unit}: {row[amount]:.8g} by the "
        f"size of a contract and {row[reported]:.8g} by the file, {row['exchange']} {row['raw_symbol']} at "
        f"{written_time(row['timestamp'])}: is the size another?"
    )


def _converted_candles(rows: pl.DataFrame, *, sizes: pl.DataFrame) -> pl.DataFrame:
    candles = rows.join(sizes, on=_MARKET, how="left", maintain_order="left")
    is_inverse = pl.col("__inverse").fill_null(value=False)
    is_linear = pl.col("__times").is_not_null() & ~is_inverse
    has_coins = "contracts" in rows.columns
    counted_column = "contracts" if has_coins else "volume"
    new_columns = {}
    for side in ("", "buy_"):
        volume, contracts_times_size = pl.col(f"{side}volume"), _times(f"{side}{counted_column}")
        linear_volume = pl.when(is_linear).then(_times(f"{side}volume"))
        new_columns[f"{side}volume"] = (
            linear_volume if has_coins else linear_volume.when(is_inverse).then(None)
        ).otherwise(volume)
        new_columns[f"{side}quote_volume"] = (
            pl.when(is_inverse).then(contracts_times_size).otherwise(pl.col(f"{side}quote_volume"))
        )
    converted = candles.with_columns(__reported=pl.col("quote_volume")).with_columns(**new_columns)
    _require_equal(converted.filter(is_inverse), RECORDED_CANDLES, "quote_volume", "__reported", "quote")
    return converted.select(rows.columns)
