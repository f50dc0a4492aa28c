"""Leave out amounts in the quote that are price times amount, which take more room than all other columns together.

A table with `Table.stated` has that column instead of ``quote_amount``. It is null where the amount in the quote is
price times amount to the last bit, and a reader gives the product back. The column has another name, so that an older
release refuses the table, and nobody takes a null for an amount that is not known (ADR 57).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TypeVar

import polars as pl

from tidytape.lake._tables import Table

AnyFrame = TypeVar("AnyFrame", pl.DataFrame, pl.LazyFrame)

_PRODUCT = pl.col("price") * pl.col("amount")


def leaves_out(table: Table, stored_names: Collection[str]) -> bool:
    """Return whether a stored table leaves out amounts in the quote that are price times amount.

    ``stored_names`` are the names of its stored columns.
    """
    return table.stated is not None and table.stated.name in stored_names


def without_products(rows: pl.DataFrame, table: Table, stored_names: Collection[str]) -> pl.DataFrame:
    """Return rows as a table stores them: without such amounts, if the table leaves them out, see `leaves_out`."""
    if table.stated is None or not leaves_out(table, stored_names):
        return rows
    quote = pl.col("quote_amount")
    # A zero is stored, because 0.0 equals -0.0, which has other bits.
    stated = pl.when((quote != _PRODUCT) | (quote == 0)).then(quote)
    return rows.with_columns(stated.alias(table.stated.name)).drop("quote_amount")


def with_products(rows: AnyFrame, table: Table, stored_names: Collection[str]) -> AnyFrame:
    """Return stored rows with all their amounts in the quote, see `leaves_out`."""
    if table.stated is None or not leaves_out(table, stored_names):
        return rows
    return rows.with_columns(pl.coalesce(table.stated.name, _PRODUCT).alias("quote_amount"))
