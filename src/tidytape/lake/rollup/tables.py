"""The tables of minutes, with units."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tidytape.lake.table import Table
from tidytape.lake.tables import BOOK, FUNDING, LIQUIDATIONS, OPEN_INTEREST, TRADES
from tidytape.schema import Column

__all__ = [
    "BOOKS",
    "CANDLES",
    "CANDLES_OF_BOTH",
    "FUNDINGS",
    "LIQUIDATED",
    "OPEN_INTERESTS",
    "PROFILES",
    "ROLLUP_TABLES",
]

_INSTRUMENT = ("exchange", "raw_symbol")
_MINUTE = Column("timestamp", "int64", "ns since the epoch, UTC", "Start of the minute")
# A week of candles is 20,000 rows of a file of 200,000; of price rows a minute has many.
_ROW_GROUP, _ROW_GROUP_OF_ROWS = 8_192, 32_768

_ROW = Column("price", "float64", "quote per coin", "Low edge of the price row")


def _minutes(raw: Table, name: str, rows: str, *columns: Column, key: tuple[str, ...] = ()) -> Table:
    """A table of minutes of the instruments of ``raw``."""
    order = (*_INSTRUMENT, "timestamp", *key)
    return Table(
        name=f"{name}_1m",
        rows=f"one row per instrument, minute{''.join(f', {part}' for part in key)} {rows}",
        columns=(*(raw[part] for part in _INSTRUMENT), _MINUTE, *columns),
        key=order,
        same=(),
        partitions=_INSTRUMENT,
        order=order,
        row_group=_ROW_GROUP_OF_ROWS if _ROW in columns else _ROW_GROUP,
    )


def _numbers(unit: str, **docs: str) -> tuple[Column, ...]:
    return tuple(Column(name, "float64", unit, doc) for name, doc in docs.items())


def _maybe(unit: str, **docs: str) -> tuple[Column, ...]:
    return tuple(Column(name, "float64", unit, doc, nullable=True) for name, doc in docs.items())


_CANDLE = (
    *_numbers("quote per coin", open="First price", high="Highest", low="Lowest", close="Last price"),
    *_numbers("coin", volume="Amount traded"),
    *_numbers("quote", quote_volume="Amount traded in terms of the quote"),
    *(
        Column(f"{end}_{name}", "int64", unit, f"Of the {end} trade")
        for name, unit in (("timestamp", "ns since the epoch, UTC"), ("sequence", ""))
        for end in ("first", "last")
    ),
    Column("trades", "int64", "", "How many"),
)

CANDLES = _minutes(TRADES, "candles", "with a trade", TRADES["side"], *_CANDLE, key=("side",))
"""Minutes of trades, per side. Candles of sides are made of them."""

CANDLES_OF_BOTH = _minutes(TRADES, "candles_of_both", "with a trade, whichever side's", *_CANDLE)
"""Minutes of trades, of both sides together: the candles that are asked for most, and all others over both sides are
made of them. They follow from those of sides, at several times the cost of reading them."""

PROFILES = _minutes(
    TRADES,
    "profile",
    "with a trade; of the block size that the market had when they were made",
    _ROW,
    *_numbers("coin", buy_volume="Bought on the row", sell_volume="Sold on the row"),
    *_numbers("quote", buy_quote_volume="The same in terms of the quote", sell_quote_volume="The same"),
    key=("price",),
)
"""Minutes of trades, per price row. Volume profiles, and with the candles market profiles, are made of them."""

OPEN_INTERESTS = _minutes(
    OPEN_INTEREST,
    "open_interest",
    "with a report",
    *_maybe("coin", open="First report", high="Highest", low="Lowest", close="Last report"),
)
"""Minutes of open interest."""

FUNDINGS = _minutes(
    FUNDING,
    "funding",
    "with a rate",
    *_maybe(
        "1 per 8 hours",
        **{
            f"{of}_{end}": f"{word} {of} rate"
            for of in ("rate", "predicted")
            for end, word in zip(
                ("open", "high", "low", "close"), ("First", "Highest", "Lowest", "Last"), strict=True
            )
        },
    ),
)
"""Minutes of funding rates, brought to 8 hours."""

LIQUIDATED = _minutes(
    LIQUIDATIONS,
    "liquidations",
    "with a liquidation",
    LIQUIDATIONS["side"],
    *_numbers("coin", liquidations="Amount liquidated"),
    *_numbers("quote", quote_liquidations="Amount liquidated in terms of the quote"),
    key=("side",),
)
"""Minutes of liquidations, per side of the liquidated position."""

BOOKS = _minutes(
    BOOK,
    "book",
    "with resting size, as the book stood when the minute ended",
    BOOK["side"],
    _ROW,
    *_numbers("coin", size="Resting on the row"),
    *_numbers("quote", quote_size="The same, at the prices of its orders"),
    key=("side", "price"),
)
"""Books at the ends of minutes, per price row."""

_ALL = (CANDLES, CANDLES_OF_BOTH, PROFILES, OPEN_INTERESTS, FUNDINGS, LIQUIDATED, BOOKS)

ROLLUP_TABLES: Mapping[str, Table] = MappingProxyType({table.name: table for table in _ALL})
"""Every table of minutes by its name."""
