"""The columns that a column map may name: those of each table, those that a file needs, and what each column holds."""

from __future__ import annotations

from tidytape.catalogue import BookSide, Category, Side
from tidytape.lake._tables import (
    BOOK,
    LIQUIDATIONS,
    OPEN_INTEREST,
    OPTION_QUOTES,
    RECORDED_CANDLES,
    REGISTRIES,
    TABLES,
    TRADES,
    Table,
)
from tidytape.lake.ingest._fields import (
    ABOVE_ZERO,
    FLAG,
    INTEGER,
    INTERVAL,
    NAME,
    NOT_NEGATIVE,
    NUMBER,
    TEXT,
    Kind,
    word,
)
from tidytape.schema import Column

EVENTS = tuple(name for name, table in TABLES.items() if table not in REGISTRIES)
"""Names of the tables that rows of a file can go into."""

CONSTANT_COLUMNS = ("exchange", "raw_symbol", "coin", "interval")
"""Columns for which the caller may give one value for the whole file."""

_OF_TRADES = ("timestamp", "price", "amount", "side", "buyer_is_maker", "id", "raw_symbol")
_MORE = {LIQUIDATIONS.name: ("order_side",), OPEN_INTEREST.name: ("price",)}
_NEEDED = {RECORDED_CANDLES.name: ("volume",), TRADES.name: ("side",)}
"""Columns that a file needs, although a conversion may make them null."""
_COMPUTED = {
    LIQUIDATIONS.name: ("id", "quote_amount"),
    OPTION_QUOTES.name: ("raw_symbol",),
    RECORDED_CANDLES.name: ("volume",),
}
"""Columns that are computed, or unknown, if a file does not have them."""
INSTEAD_OF_SIDE = {TRADES.name: "buyer_is_maker", LIQUIDATIONS.name: "order_side"}
"""The column of a file that may give the side instead of ``side``, by table."""
_BUY, _SELL = Side.BUY.value, Side.SELL.value
_BID, _ASK = BookSide.BID.value, BookSide.ASK.value
_WORDS = {
    (TRADES.name, "side"): {"buy": _BUY, "b": _BUY, "sell": _SELL, "s": _SELL},
    (TRADES.name, "buyer_is_maker"): {
        "true": _SELL, "t": _SELL, "1": _SELL, "false": _BUY, "f": _BUY, "0": _BUY,
    },
    (LIQUIDATIONS.name, "side"): {
        "buy": _BUY, "b": _BUY, "long": _BUY, "sell": _SELL, "s": _SELL, "short": _SELL,
    },
    (LIQUIDATIONS.name, "order_side"): {"sell": _BUY, "s": _BUY, "buy": _SELL, "b": _SELL},
    (BOOK.name, "side"): {
        "bid": _BID, "buy": _BID, "b": _BID, "ask": _ASK, "sell": _ASK, "s": _ASK, "a": _ASK,
    },
    (OPTION_QUOTES.name, "option_type"): {"call": "CALL", "c": "CALL", "put": "PUT", "p": "PUT"},
}  # fmt: skip
_ABOVE_ZERO = {
    (TRADES.name, "amount"), (LIQUIDATIONS.name, "amount"), ("option_quotes", "strike"), ("quote_rates", "usd"),
}  # fmt: skip
BELOW_ZERO = {Category.FUTURE.value, Category.COMBO.value}
"""Categories whose prices may be 0 or negative: oil for May 2020, and the differences of a combo."""
_NOT_NEGATIVE = {
    "size",
    "amount",
    "volume",
    "quote_volume",
    "buy_volume",
    "buy_quote_volume",
    "quote_amount",
    "usd_amount",
    "open_interest",
    "implied_volatility",
    "marketcap",
}


def known_columns(table: Table) -> tuple[str, ...]:
    """Return the columns of a table that a column map may name."""
    if table is TRADES:
        return _OF_TRADES
    return (*(name for name in table.names if name != "sequence"), *_MORE.get(table.name, ()))


def needed_columns(table: Table) -> tuple[str, ...]:
    """Return the columns that a file must have, mapped or under our names; another column may give the side."""
    if table is TRADES:
        return tuple(name for name in _OF_TRADES if name not in {"buyer_is_maker", "id"})
    computed_columns = {"sequence", *_COMPUTED.get(table.name, ())}
    return tuple(
        column.name
        for column in table.columns
        if is_needed(table, column) and column.name not in computed_columns
    )


def is_needed(table: Table, column: Column) -> bool:
    """Return whether a line without a value of this column is broken."""
    return not column.nullable or column.name in _NEEDED.get(table.name, ())


def is_time(column: Column | None) -> bool:
    """Return whether a column holds times."""
    return column is not None and column.unit.startswith("ns since the epoch")


def column_of(table: Table, name: str) -> Column | None:
    """Return a column of a table; None for the columns that only files have, such as ``buyer_is_maker``."""
    return next((column for column in table.columns if column.name == name), None)


def kind_of(table: Table, name: str, column: Column | None) -> Kind:
    """Return what a column holds, unless it holds times; ``name`` is our name of the column."""
    if (table.name, name) in _WORDS:
        return word(_WORDS[table.name, name])
    if name in {*table.partitions, "exchange", "raw_symbol"}:
        return NAME
    if (table.name, name) == (RECORDED_CANDLES.name, "interval"):
        return INTERVAL
    if column is None:  # the price that a file of open interest may have
        return NUMBER
    if column.dtype == "float64":
        if (table.name, name) in _ABOVE_ZERO:
            return ABOVE_ZERO
        return NOT_NEGATIVE if name in _NOT_NEGATIVE else NUMBER
    return {"string": TEXT, "int64": INTEGER, "bool": FLAG}[column.dtype]
