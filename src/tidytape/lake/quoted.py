"""Compare amounts in coin with amounts in the quote: their ratio is a price at which the market traded."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import polars as pl

from tidytape.lake.tables import LIQUIDATIONS, RECORDED_CANDLES, TRADES

__all__ = ["QUOTED", "description", "mismatched"]

_TRADED = ("price", "price", "amount", "quote_amount")
QUOTED: Mapping[str, tuple[str, str, str, str]] = MappingProxyType(
    {
        TRADES.name: _TRADED,
        LIQUIDATIONS.name: _TRADED,
        RECORDED_CANDLES.name: ("low", "high", "volume", "quote_volume"),
    }
)
"""Tables with both amounts: lowest and highest price, amount in coin and amount in the quote."""

_TOLERANCE = 0.01
"""Relative difference that rounding by the exchange explains; a wrong unit differs by a factor."""


def mismatched(rows: pl.LazyFrame, table: str, *, by: list[pl.Expr]) -> pl.DataFrame:
    """Return the groups whose amount in the quote is not the amount in coin at any of their prices.

    Sums of a group are compared, because exchanges round the amounts of a row.

    Parameters
    ----------
    rows : polars.LazyFrame
        Rows of one of the tables `QUOTED`.
    table : str
        Its name.
    by : list of expressions
        Expressions that group the rows.

    Returns
    -------
    polars.DataFrame, one row per such group, sorted by ``by``
        ``by``, and ``ratio``: the quote over the nearest amount that a price gives. [1]

    Examples
    --------
    >>> rows = pl.LazyFrame({"raw_symbol": "A", "price": [2.0], "amount": [3.0], "quote_amount": [60.0]})
    >>> mismatched(rows, "trades", by=[pl.col("raw_symbol")]).rows()
    [('A', 10.0)]
    """
    low, high, amount, quote = (pl.col(name) for name in QUOTED[table])
    known = (amount > 0) & amount.is_finite() & quote.is_finite() & low.is_finite() & high.is_finite()
    least, most, total = pl.col("__least"), pl.col("__most"), pl.col("__quote")
    above = total > most + _TOLERANCE * most.abs()
    below = total < least - _TOLERANCE * least.abs()
    return (
        rows.filter(known)
        .group_by(by)
        .agg(__quote=quote.sum(), __least=(low * amount).sum(), __most=(high * amount).sum())
        .filter(above | below)
        .with_columns(ratio=total / pl.when(above).then(most).otherwise(least))
        .drop("__quote", "__least", "__most")
        .sort([expression.meta.output_name() for expression in by])
        .collect(engine="streaming")
    )


def description(table: str, ratio: float) -> str:
    """Describe a mismatch, for a message."""
    _, _, amount, quote = QUOTED[table]
    return f"{quote} is {ratio:.4g} times {amount} × price, so one of them counts something else"
