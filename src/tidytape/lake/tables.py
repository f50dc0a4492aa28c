"""The tables of a lake, as data: what a row is, its columns with units, its key and how it is partitioned.

Nothing here computes. The same facts are written into each Delta table as the comments of its columns, so that every
engine that opens the table can show them.

Examples
--------
>>> TABLES["trades"].key
('exchange', 'raw_symbol', 'id')
>>> TABLES["book"]["size"].unit
'coin'
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

import polars as pl

from tidytape.errors import IngestError, MissingColumnError

__all__ = ["BOOK", "MARKETS", "TABLES", "TRADES", "Column", "Table"]

Dtype = Literal["string", "float64", "int64", "bool"]

_POLARS: Mapping[Dtype, pl.DataType] = MappingProxyType(
    {"string": pl.String(), "float64": pl.Float64(), "int64": pl.Int64(), "bool": pl.Boolean()}
)


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table.

    Attributes
    ----------
    name : str
        snake_case, never with the unit in it.
    dtype : {"string", "float64", "int64", "bool"}
        Type of the values.
    unit : str
        Unit of the values, empty where they have none.
    doc : str
        Meaning in a few words.
    nullable : bool
        Whether a row may lack it.
    """

    name: str
    dtype: Dtype
    unit: str
    doc: str
    nullable: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """One Delta table of a lake.

    Attributes
    ----------
    name : str
        Folder below the lake.
    rows : str
        What one row is.
    columns : tuple of Column
        In the order of the frame.
    key : tuple of str
        Columns that together name a row once. A row with a null among them is nobody's duplicate.
    same : tuple of str
        Columns in which two rows of one key must agree; where they do not, one of the sources is wrong.
    partitions : tuple of str
        Columns that are folders.
    order : tuple of str
        Order of the rows inside a file, so that a reader can skip by time.
    identity : str, optional
        Column of the key that tells the events of one instrument apart. A file whose range of it lies elsewhere holds
        no repeated row.
    """

    name: str
    rows: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    same: tuple[str, ...]
    partitions: tuple[str, ...]
    order: tuple[str, ...]
    identity: str = ""

    def __getitem__(self, name: str) -> Column:
        for column in self.columns:
            if column.name == name:
                return column
        raise MissingColumnError([name], available=self.names)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns, in order."""
        return tuple(column.name for column in self.columns)

    def polars(self) -> dict[str, pl.DataType]:
        """Return the polars dtype of every column, in order."""
        return {column.name: _POLARS[column.dtype] for column in self.columns}

    def empty(self) -> pl.DataFrame:
        """Return the frame with no rows: all columns, all dtypes.

        Examples
        --------
        >>> TABLES["trades"].empty().shape
        (0, 10)
        """
        return pl.DataFrame(schema=self.polars())

    def conform(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Return ``frame`` with exactly the table's columns and dtypes; absent nullable columns become null.

        Parameters
        ----------
        frame : polars.DataFrame, n rows
            More columns are dropped.

        Returns
        -------
        polars.DataFrame, n rows, same order

        Raises
        ------
        MissingColumnError
            If a column that may not be null is absent.
        IngestError
            If a value does not fit its dtype, or is null where it may not be.
        """
        missing = [c.name for c in self.columns if not c.nullable and c.name not in frame.columns]
        if missing:
            raise MissingColumnError(missing, available=frame.columns)
        dtypes = self.polars()
        try:
            whole = frame.select(
                pl.col(name).cast(dtype) if name in frame.columns else pl.lit(None, dtype).alias(name)
                for name, dtype in dtypes.items()
            )
        except pl.exceptions.PolarsError as error:
            raise IngestError(f"{self.name}: a column does not have its dtype: {error}") from error
        for column in self.columns:
            if not column.nullable and whole[column.name].null_count():
                raise IngestError(f"{self.name}: null in column {column.name!r}, which may not be null")
        return whole


_EXCHANGE = Column("exchange", "string", "", "Venue identifier")
_RAW_SYMBOL = Column("raw_symbol", "string", "", "Exchange-native symbol")
_RECEIVED = Column(
    "received",
    "int64",
    "ns since the epoch, UTC",
    "When the recorder saw it, by its own clock, which may run before the exchange's",
    nullable=True,
)

TRADES = Table(
    name="trades",
    rows="one row per trade",
    columns=(
        _EXCHANGE,
        _RAW_SYMBOL,
        Column("id", "string", "", "Exchange-native trade id, or one made from the trade's content"),
        Column("timestamp", "int64", "ns since the epoch, UTC", "When it happened, by the exchange's clock"),
        Column(
            "sequence",
            "int64",
            "",
            "Order among trades of one timestamp: the id, or the line in its file, counted on from the lake",
        ),
        Column("side", "string", "", "Side of the aggressor, BUY or SELL"),
        Column("price", "float64", "quote per coin", "Price"),
        Column("amount", "float64", "coin", "Amount"),
        Column("quote_amount", "float64", "quote", "Amount in terms of the quote"),
        _RECEIVED,
    ),
    key=("exchange", "raw_symbol", "id"),
    same=("timestamp", "side", "price", "amount"),
    partitions=("exchange", "raw_symbol"),
    order=("exchange", "raw_symbol", "timestamp", "sequence"),
    identity="id",
)
"""Trades."""

BOOK = Table(
    name="book",
    rows="one row per price level that an update or a snapshot names",
    columns=(
        _EXCHANGE,
        _RAW_SYMBOL,
        Column(
            "timestamp",
            "int64",
            "ns since the epoch, UTC",
            "When it happened, by the exchange's clock; of a snapshot without such a time, when it was received",
        ),
        Column(
            "first_id",
            "int64",
            "",
            "First update id that an update covers; null in a snapshot",
            nullable=True,
        ),
        Column("last_id", "int64", "", "Last update id that an update or snapshot covers", nullable=True),
        Column("is_snapshot", "bool", "", "The whole book at last_id, instead of a change to it"),
        Column("side", "string", "", "Side of the resting orders, BID or ASK"),
        Column("price", "float64", "quote per coin", "Price of the level"),
        Column("size", "float64", "coin", "Resting size at the level from now on; 0 removes it"),
        Column("sequence", "int64", "", "Order of the rows in their file"),
        _RECEIVED,
    ),
    key=("exchange", "raw_symbol", "is_snapshot", "last_id", "side", "price"),
    same=("size",),
    partitions=("exchange", "raw_symbol"),
    order=("exchange", "raw_symbol", "timestamp", "last_id", "sequence"),
    identity="last_id",
)
"""Order-book events.

An update counts when its ``last_id`` is above the snapshot's, even one that arrived before the snapshot and straddles
it. So a book is rebuilt in the order of ``last_id``, never of ``timestamp``: the two may run on different clocks.
"""

MARKETS = Table(
    name="markets",
    rows="one row per instrument",
    columns=(
        _EXCHANGE,
        _RAW_SYMBOL,
        Column("normalized_symbol", "string", "", "Cross-exchange symbol", nullable=True),
        Column("coin", "string", "", "Base asset", nullable=True),
        Column("quote_coin", "string", "", "Quote asset", nullable=True),
        Column("category", "string", "", "Market class", nullable=True),
        Column("tick_size", "float64", "quote per coin", "Smallest price step", nullable=True),
        Column(
            "block_size",
            "float64",
            "quote per coin",
            "Height of a price row of profiles, decided when the market is first registered",
            nullable=True,
        ),
        Column("coin_name", "string", "", "Full coin name", nullable=True),
        Column("quote_coin_name", "string", "", "Quote asset name", nullable=True),
        Column("full_name", "string", "", "Full market name", nullable=True),
        Column("icon_url", "string", "", "Asset icon URL", nullable=True),
        Column("marketcap", "float64", "USD", "Market capitalization", nullable=True),
        Column(
            "available_since", "int64", "ns since the epoch, UTC", "Time of its first event", nullable=True
        ),
    ),
    key=("exchange", "raw_symbol"),
    same=(),
    partitions=(),
    order=("exchange", "raw_symbol"),
)
"""The instruments, and what is known about them that is no event."""

TABLES: Mapping[str, Table] = MappingProxyType({table.name: table for table in (TRADES, BOOK, MARKETS)})
"""Every table by its name."""
