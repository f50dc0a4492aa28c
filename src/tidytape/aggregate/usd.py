"""Amounts to USD: by the price at which they happened, and by what the quote was worth then."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import narwhals.stable.v2 as nw
from narwhals.stable.v2.typing import IntoFrameT

from tidytape.catalogue import USD_QUOTES, AmountUnit
from tidytape.errors import QueryError
from tidytape.frames.door import INSTRUMENT
from tidytape.frames.joined import as_of
from tidytape.frames.table import Rows, Table
from tidytape.schema import schema_of

_AMOUNTS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "TRADE": ("amount",),
        "OPEN_INTEREST_AGG": ("open", "high", "low", "close"),
        "VOLUME_PROFILE_AGG": ("buy_volume", "sell_volume"),
        "BLOCK_BOOK_SNAPSHOT_AGG": ("size",),
        "VENUEX_LIQUIDATION_AGG": ("liquidations",),
    }
)
"""Columns of amounts that a price converts, by data type."""


def to_usd(
    frame: IntoFrameT,
    /,
    *,
    quote: str | None,
    data_type: str = "TRADE",
    rates: IntoFrameT | None = None,
    prices: IntoFrameT | None = None,
) -> IntoFrameT:
    r"""Amounts in USD instead of coin; prices stay as they are.

    .. math:: a_\mathrm{usd} = a\, p\, r

    with the price p at which it happened, and r, what one of the quote was worth then. Of events, the amount in terms
    of the quote is taken as recorded where the frame has it. Candles, profiles and sums of liquidations in USD are
    those of events in USD: convert first, then aggregate.

    Parameters
    ----------
    frame : frame, n rows, in any order
        Events or points with ``timestamp`` int64 [ns since the epoch] or with a zone. Events: ``price`` [quote per
        coin], ``amount`` [coin] and, if known, ``quote_amount`` [quote]. Points with levels: ``price`` and amounts
        [coin]. Open interest: ``exchange``, ``raw_symbol`` and amounts [coin].
    quote : str
        What the prices are in. A quote of `tidytape.catalogue.USD_QUOTES` counts as one USD.
    data_type : str
        ``TRADE`` for events, which are trades or single liquidations; or ``OPEN_INTEREST_AGG``,
        ``VOLUME_PROFILE_AGG``, ``BLOCK_BOOK_SNAPSHOT_AGG`` or ``VENUEX_LIQUIDATION_AGG``.
    rates : frame of the same kind, optional
        ``quote_coin``, ``timestamp`` int64 [ns] or with a zone, ``usd`` [USD per quote]; needed for another quote. The
        newest rate that is no newer than a row's ``timestamp`` counts.
    prices : frame of the same kind, optional
        ``exchange``, ``raw_symbol``, ``timestamp`` int64 [ns] or with a zone, start of the bucket, ``close`` [quote per
        coin]: candles; needed for open interest. A bucket without a trade counts at the close before it.

    Returns
    -------
    frame, n rows, same columns, of the same kind as ``frame``
        Amounts in USD, null where there is no rate or no price yet; ``amount_unit`` is USD where the frame has it.
        In the same order, unless rates or prices had to be found.

    Raises
    ------
    MissingColumnError
        If a column is absent.
    QueryError
        If another quote comes without rates, open interest without prices, or the type has no price to convert by.

    Examples
    --------
    >>> import polars as pl
    >>> trades = pl.DataFrame({"timestamp": [5, 9], "price": [10.0, 12.0], "amount": [1.0, 2.0]})
    >>> to_usd(trades, quote="USDT")["amount"].to_list()
    [10.0, 24.0]
    >>> rates = pl.DataFrame({"quote_coin": ["EUR"], "timestamp": [8], "usd": [1.25]})
    >>> to_usd(trades, quote="EUR", rates=rates).sort("timestamp")["amount"].to_list()
    [None, 30.0]
    """
    schema_of(data_type)
    if data_type not in _AMOUNTS:
        raise QueryError(
            "data_type",
            got=data_type,
            expected="one of " + ", ".join(_AMOUNTS),
            hint="convert the raw events first, then aggregate them",
            code="UNSUPPORTED",
        )
    is_stock = data_type == "OPEN_INTEREST_AGG"
    if is_stock and prices is None:
        raise QueryError("prices", got=None, expected="a frame of closes; open interest has no price")
    if quote not in USD_QUOTES and rates is None:
        raise QueryError(
            "quote",
            got=quote,
            expected="a quote that counts as USD: " + ", ".join(sorted(USD_QUOTES)),
            hint="another one needs rates",
            code="UNSUPPORTED",
        )
    beside = INSTRUMENT if is_stock else ("price",)
    table = Table.opened(frame, [*beside, "timestamp", *_AMOUNTS[data_type]], times=["timestamp"])
    closes = worth = None
    if prices is not None and is_stock:
        closes = Table.opened(prices, [*INSTRUMENT, "close"], times=["timestamp"], parameter="prices").rows
    if rates is not None and quote not in USD_QUOTES:
        worth = Table.opened(rates, ["quote_coin", "usd"], times=["timestamp"], parameter="rates").rows
    return table.closed(in_usd(table.rows, quote, data_type, worth, closes))


def in_usd(
    rows: Rows,
    quote: str | None,
    data_type: str = "TRADE",
    rates: Rows | None = None,
    prices: Rows | None = None,
) -> Rows:
    """Return what `to_usd` does, of rates if the quote does not count as USD, and of prices for open interest."""
    names = rows.collect_schema().names()
    price: nw.Expr = nw.col("price")
    rate: nw.Expr | float = 1.0
    if prices is not None:
        rows = as_of(rows, prices.rename({"close": "__price"}), "__price", by=INSTRUMENT)
        price = nw.col("__price")
    if rates is not None:
        worth = rates.filter(nw.col("quote_coin") == quote)
        rows = as_of(rows, worth.rename({"usd": "__usd"}), "__usd", by=())
        rate = nw.col("__usd")
        price = price * rate
    if data_type == "TRADE" and "quote_amount" in names:
        rows = rows.with_columns(amount=nw.col("quote_amount") * rate)
    else:
        rows = rows.with_columns(nw.col(name) * price for name in _AMOUNTS[data_type])
    if data_type == "VOLUME_PROFILE_AGG" and "volume" in names:
        rows = rows.with_columns(volume=nw.col("buy_volume") + nw.col("sell_volume"))
    if "amount_unit" in names:
        rows = rows.with_columns(amount_unit=nw.lit(AmountUnit.USD.value))
    return rows.select(*names)
