"""The tables of minutes, and how each is computed from raw events."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from types import MappingProxyType
from typing import TYPE_CHECKING

import narwhals.stable.v2 as nw
import polars as pl

from tidytape import aggregate
from tidytape.aggregate._minutes import candles_of_sums, minute_sums, profile_of_sums, united_sums
from tidytape.catalogue import DEFAULT_FUNDING_INTERVAL_MS
from tidytape.frames._grid import Grid
from tidytape.frames._table import Rows, planned
from tidytape.lake._tables import BOOK, FUNDING, LIQUIDATIONS, OPEN_INTEREST, TRADES, Table
from tidytape.schema import Column
from tidytape.times import MINUTE

if TYPE_CHECKING:
    from tidytape.lake._reader import LakeReader


# -- the tables of minutes --------------------------------------------------------------------------------------------

_MARKET = ("exchange", "raw_symbol")
_MINUTE = Column("timestamp", "int64", "ns since the epoch, UTC", "Start of the minute")
# Small, because a query reads a part of a file: a week of candles is 20,000 rows of 200,000. A minute has many levels.
_ROW_GROUP, _ROW_GROUP_OF_LEVELS = 8_192, 32_768

_LEVEL = Column("price", "float64", "quote per coin", "Low edge of the level")


def _minutes(raw: Table, name: str, rows: str, *columns: Column, key: tuple[str, ...] = ()) -> Table:
    """Return a table of minutes of the markets of ``raw``."""
    order = (*_MARKET, "timestamp", *key)
    return Table(
        name=f"{name}_1m",
        rows=f"one row per market, minute{''.join(f', {part}' for part in key)} {rows}",
        columns=(*(raw[part] for part in _MARKET), _MINUTE, *columns),
        key=order,
        same=(),
        partitions=_MARKET,
        order=order,
        row_group=_ROW_GROUP_OF_LEVELS if _LEVEL in columns else _ROW_GROUP,
    )


def _numbers(unit: str, **docs: str) -> tuple[Column, ...]:
    return tuple(Column(name, "float64", unit, doc) for name, doc in docs.items())


def _nullable_numbers(unit: str, **docs: str) -> tuple[Column, ...]:
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
"""Minutes of trades, per side, for candles of sides; trades without a side have minutes of their own."""

CANDLES_OF_BOTH = _minutes(TRADES, "candles_of_both", "with a trade, whichever side's", *_CANDLE)
"""Minutes of all trades together, which the most frequent queries read. Computing them from the minutes per
side takes several times as long as reading them."""

PROFILES = _minutes(
    TRADES,
    "profile",
    "with a trade; of the block size that the market had when they were made",
    _LEVEL,
    *_nullable_numbers("coin", buy_volume="Bought at the level", sell_volume="Sold at the level"),
    *_nullable_numbers(
        "quote", buy_quote_volume="The same in terms of the quote", sell_quote_volume="The same"
    ),
    *_nullable_numbers("coin", volume="Traded at the level, if a trade has no side; else null"),
    *_nullable_numbers("quote", quote_volume="The same in terms of the quote"),
    key=("price",),
)
"""Minutes of trades, per level, for volume profiles, and together with candles for market profiles."""

OPEN_INTERESTS = _minutes(
    OPEN_INTEREST,
    "open_interest",
    "with a report",
    *_nullable_numbers("coin", open="First report", high="Highest", low="Lowest", close="Last report"),
)
"""Minutes of open interest."""

FUNDINGS = _minutes(
    FUNDING,
    "funding",
    "with a rate",
    *_nullable_numbers(
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
    _LEVEL,
    *_numbers("coin", size="Resting at the level"),
    *_numbers("quote", quote_size="The same, at the prices of its orders"),
    key=("side", "price"),
)
"""Books at the ends of minutes, per level."""

# -- how they are made -----------------------------------------------------------------------------------------------

SKEW = 5 * MINUTE
"""Largest difference between the clock of a snapshot and the clock of the updates around it. [ns]"""


@dataclass(frozen=True, slots=True)
class Ask:
    """A request for some minutes of one market.

    Attributes
    ----------
    exchange, raw_symbol : str
        The market.
    start, end : int
        Minutes that start at ``start <= timestamp < end``, both on the minute. [ns since the epoch]
    block_size : Decimal or None
        Height of the levels, if the minutes have any. [quote per coin]
    """

    exchange: str
    raw_symbol: str
    start: int
    end: int
    block_size: Decimal | None = None

    @property
    def names(self) -> tuple[str, str]:
        """The market."""
        return self.exchange, self.raw_symbol


@dataclass(frozen=True, slots=True)
class Recipe:
    """How the minutes of a table are computed.

    Attributes
    ----------
    table : Table
        The table of minutes.
    raw : Table
        The table of the events that the minutes are computed from.
    make : callable
        Takes a lake and some asks, and returns their minutes, computed only from raw events, in no order.
    has_levels : bool
        Whether the minutes have levels, and so a block size.
    lasts : bool
        Whether all minutes after an event depend on it, as those of a book do.
    """

    table: Table
    raw: Table
    make: Callable[[LakeReader, Sequence[Ask]], pl.LazyFrame]
    has_levels: bool = False
    lasts: bool = False

    def minutes(self, lake: LakeReader, *asks: Ask) -> pl.LazyFrame:
        """Return the minutes of some asks, computed only from raw events, in no order."""
        return self.make(lake, asks)


def within(rows: pl.LazyFrame, asks: Sequence[Ask]) -> pl.LazyFrame:
    """Return the rows in the spans of some asks; spans of one market must not overlap."""
    exchange, symbol, time = pl.col("exchange"), pl.col("raw_symbol"), pl.col("timestamp")
    # These conditions let the reader skip files; the join then leaves out the rows between the spans.
    candidates = rows.filter(
        exchange.is_in(sorted({ask.exchange for ask in asks})),
        symbol.is_in(sorted({ask.raw_symbol for ask in asks})),
        time >= min(ask.start for ask in asks),
        time < max(ask.end for ask in asks),
    )
    if len(asks) == 1:
        return candidates
    spans = pl.LazyFrame(
        [(ask.exchange, ask.raw_symbol, ask.start, ask.end) for ask in asks],
        schema={"exchange": pl.String, "raw_symbol": pl.String, _FIRST: pl.Int64, _END: pl.Int64},
        orient="row",
    )
    rows_with_spans = candidates.join(spans, on=["exchange", "raw_symbol"])
    return rows_with_spans.filter(time >= pl.col(_FIRST), time < pl.col(_END)).drop(_FIRST, _END)


_FIRST, _END = "__first", "__end"


def _events(lake: LakeReader, table: Table, asks: Sequence[Ask]) -> pl.LazyFrame:
    return within(lake.scan(table.name), asks)


def _candles(lake: LakeReader, asks: Sequence[Ask]) -> pl.LazyFrame:
    return planned(aggregate.minute_candles.core, _events(lake, TRADES, asks))


def _candles_of_both(lake: LakeReader, asks: Sequence[Ask]) -> pl.LazyFrame:
    return planned(aggregate.minute_candles.core, _events(lake, TRADES, asks), by_side=False)


def _profiles(lake: LakeReader, asks: Sequence[Ask]) -> pl.LazyFrame:
    asks_by_size: dict[Decimal, list[Ask]] = {}
    for ask in asks:
        asks_by_size.setdefault(_size(ask), []).append(ask)
    return pl.concat(
        planned(aggregate.minute_profile.core, _events(lake, TRADES, asks_of_size), block_size=size)
        for size, asks_of_size in asks_by_size.items()
    )


def of_trades(lake: LakeReader, asks: Sequence[Ask]) -> dict[str, pl.DataFrame]:
    """Return the minutes of all tables of trades by the table's name, for which the trades are read once.

    Profiles are those of the asks with a block size.
    """
    grids = {size: Grid.of(size or 1) for size in {ask.block_size for ask in asks}}
    plans = [
        planned(
            _sums_of_rows,
            _events(lake, TRADES, [ask for ask in asks if ask.block_size == size]),
            grid=grid,
        )
        for size, grid in grids.items()
    ]
    sums = dict(zip(grids, pl.collect_all(plans, engine="streaming"), strict=True))
    all_sums = pl.concat(sums.values()).lazy()
    minutes = {
        CANDLES.name: [planned(candles_of_sums, planned(united_sums, all_sums, "side"), "side")],
        CANDLES_OF_BOTH.name: [planned(candles_of_sums, planned(united_sums, all_sums))],
        PROFILES.name: [
            planned(profile_of_sums, rows.lazy(), grids[size]) for size, rows in sums.items() if size
        ],
    }
    return {name: pl.concat(plans).collect() for name, plans in minutes.items() if plans}


def _sums_of_rows(trades: Rows, /, *, grid: Grid) -> Rows:
    return minute_sums(trades.with_columns(row=grid.row(nw.col("price"))), "side", "row")


def _open_interests(lake: LakeReader, asks: Sequence[Ask]) -> pl.LazyFrame:
    return aggregate.open_interest(_events(lake, OPEN_INTEREST, asks), interval="1m")


def _fundings(lake: LakeReader, asks: Sequence[Ask]) -> pl.LazyFrame:
    reports = _events(lake, FUNDING, asks)
    return aggregate.funding(reports, interval="1m", funding_interval=DEFAULT_FUNDING_INTERVAL_MS)


def _liquidated(lake: LakeReader, asks: Sequence[Ask]) -> pl.LazyFrame:
    events = _events(lake, LIQUIDATIONS, asks)
    in_quote = events.with_columns(amount=pl.col("quote_amount"))
    coins, quotes = (aggregate.liquidations(frame, interval="1m") for frame in (events, in_quote))
    return coins.join(quotes.rename({"liquidations": "quote_liquidations"}), on=LIQUIDATED.key)


def _books(lake: LakeReader, asks: Sequence[Ask]) -> pl.LazyFrame:
    return pl.concat(_book(lake, ask) for ask in asks)


def _book(lake: LakeReader, ask: Ask) -> pl.LazyFrame:
    events = lake.scan(BOOK.name, exchange=ask.exchange, raw_symbol=ask.raw_symbol)
    time = pl.col("timestamp")
    # A book is known from a snapshot on, so begin at the last snapshot before the span.
    snapshot_time = events.filter("is_snapshot", time <= ask.start - SKEW).select(time.max())
    last_snapshot = snapshot_time.collect(engine="streaming").item()
    first_time = ask.start - SKEW if last_snapshot is None else last_snapshot
    _, last_event = lake.extent(BOOK.name, *ask.names)
    events_around = events.filter(time >= first_time // MINUTE * MINUTE - SKEW, time < ask.end + SKEW)
    return aggregate.book_heatmap(
        events_around, interval="1m", block_size=_size(ask), in_quote=True, last=last_event
    ).filter(time.is_between(ask.start, ask.end, closed="left"))


def _size(ask: Ask) -> Decimal:
    if ask.block_size is None:
        raise ValueError("minutes with levels need a block size")
    return ask.block_size


_ALL = (
    Recipe(CANDLES, TRADES, _candles),
    Recipe(CANDLES_OF_BOTH, TRADES, _candles_of_both),
    Recipe(PROFILES, TRADES, _profiles, has_levels=True),
    Recipe(OPEN_INTERESTS, OPEN_INTEREST, _open_interests),
    Recipe(FUNDINGS, FUNDING, _fundings),
    Recipe(LIQUIDATED, LIQUIDATIONS, _liquidated),
    Recipe(BOOKS, BOOK, _books, has_levels=True, lasts=True),
)

RECIPES: Mapping[str, Recipe] = MappingProxyType({recipe.table.name: recipe for recipe in _ALL})
"""The recipe of each table of minutes."""

ROLLUP_TABLES: Mapping[str, Table] = MappingProxyType(
    {name: recipe.table for name, recipe in RECIPES.items()}
)
"""Every table of minutes by its name."""
