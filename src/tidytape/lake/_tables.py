"""The tables of a lake as data: what a row is, its columns with units, its key and its partitions.

Each Delta table has the same text as comments of its columns, so that every engine that opens it can show them.

Examples
--------
>>> TABLES["trades"].key
('exchange', 'raw_symbol', 'id')
>>> TABLES["book"]["size"].unit
'coin'
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

import polars as pl

from tidytape.catalogue import PREDICTION_MARKET_FIELDS, Field
from tidytape.errors import IngestError, MissingColumnError
from tidytape.schema import Column, Columns

ROW_GROUP = 262_144
"""Most rows of a row group: few enough to skip most of a file by time, enough to compress and scan well. [rows]"""


@dataclass(frozen=True, slots=True)
class Table(Columns):
    """One Delta table of a lake.

    Attributes
    ----------
    name : str
        Folder below the lake.
    rows : str
        What a row holds.
    columns : tuple of Column
        In the order of the frame.
    key : tuple of str
        Columns that together identify a row. A row with a null in one of them duplicates no other row.
    same : tuple of str
        Columns in which two rows of one key must agree; if they differ, one of the sources is wrong.
    partitions : tuple of str
        Columns that are folders.
    order : tuple of str
        Order of the rows inside a file, so that a reader can skip by time.
    identity : str, optional
        Column of the key that tells the events of one market apart. Two files whose ranges of its values do not overlap
        have no row in common.
    row_group : int
        Most rows of a row group, the smallest unit that a reader reads. It is small if an answer needs a small part
        of a file. [rows]
    stated : Column, optional
        What is stored instead of ``quote_amount``, which mostly follows from price and amount, see
        `tidytape.lake._quotes`.
    """

    same: tuple[str, ...]
    partitions: tuple[str, ...]
    order: tuple[str, ...]
    identity: str = ""
    row_group: int = ROW_GROUP
    stated: Column | None = None

    @property
    def stored(self) -> tuple[Column, ...]:
        """The columns of a table that this release makes."""
        return tuple(
            self.stated if self.stated and column.name == "quote_amount" else column
            for column in self.columns
        )

    @property
    def place(self) -> list[str]:
        """The columns that show in which partition, and under which key, a row is stored."""
        return list(dict.fromkeys((*self.key, *self.partitions)))

    @property
    def tells_states(self) -> bool:
        """Whether a row is a report of a state, instead of an event that happened once."""
        return self.identity == "timestamp"

    def conform(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Return ``frame`` with exactly the table's columns and dtypes; an absent nullable column becomes null.

        Parameters
        ----------
        frame : polars.DataFrame, n rows
            Other columns are dropped.

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
        absent_columns = [c.name for c in self.columns if not c.nullable and c.name not in frame.columns]
        if absent_columns:
            raise MissingColumnError(absent_columns, available=frame.columns)
        dtypes = self.polars()
        try:
            rows = frame.select(
                pl.col(name).cast(dtype) if name in frame.columns else pl.lit(None, dtype).alias(name)
                for name, dtype in dtypes.items()
            )
        except pl.exceptions.PolarsError as error:
            raise IngestError(f"{self.name}: a column does not have its dtype: {error}") from error
        for column in self.columns:
            if not column.nullable and rows[column.name].null_count():
                raise IngestError(f"{self.name}: null in column {column.name!r}, which may not be null")
        return rows


_EXCHANGE = Column("exchange", "string", "", "Exchange identifier")
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
        Column(
            "side",
            "string",
            "",
            "Side of the aggressor, BUY or SELL; null if the source does not tell",
            nullable=True,
        ),
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
    stated=Column(
        "stated_quote_amount",
        "float64",
        "quote",
        "Amount in terms of the quote; null where it is price times amount to the last bit",
        nullable=True,
    ),
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

An update counts if its ``last_id`` is above the snapshot's, even if it arrived earlier and its first id is below the
snapshot's. So a book is rebuilt in the order of ``last_id``, never of ``timestamp``: snapshots and updates may have
different clocks.
"""

_TIME = Column("timestamp", "int64", "ns since the epoch, UTC", "When it was so, by the exchange's clock")
_STATE_KEY = ("exchange", "raw_symbol", "timestamp")
_PARTITIONS = ("exchange", "raw_symbol")


def _value(name: str, unit: str, doc: str, *, nullable: bool = True) -> Column:
    return Column(name, "float64", unit, doc, nullable=nullable)


def _ticks(name: str, rows: str, *columns: Column, same: tuple[str, ...]) -> Table:
    """Return a table of reports of a state, one row per market and time."""
    return Table(
        name=name,
        rows=rows,
        columns=(_EXCHANGE, _RAW_SYMBOL, _TIME, *columns, _RECEIVED),
        key=_STATE_KEY,
        same=same,
        partitions=_PARTITIONS,
        order=_STATE_KEY,
        identity="timestamp",
    )


RECORDED_CANDLES = Table(
    name="candles",
    rows="one row per candle that was recorded as such",
    columns=(
        _EXCHANGE,
        _RAW_SYMBOL,
        Column("timestamp", "int64", "ns since the epoch, UTC", "Start of the candle"),
        Column("interval", "int64", "ns", "Length of the candle"),
        _value("open", "quote per coin", "First price", nullable=False),
        _value("high", "quote per coin", "Highest price", nullable=False),
        _value("low", "quote per coin", "Lowest price", nullable=False),
        _value("close", "quote per coin", "Last price", nullable=False),
        _value("volume", "coin", "Amount traded; null where only the quote is known"),
        _value("quote_volume", "quote", "Amount traded in terms of the quote"),
        _value("buy_volume", "coin", "Of it, what aggressors bought"),
        _value("buy_quote_volume", "quote", "The same in terms of the quote"),
        _RECEIVED,
    ),
    key=("exchange", "raw_symbol", "interval", "timestamp"),
    same=("open", "high", "low", "close", "volume"),
    partitions=_PARTITIONS,
    order=("exchange", "raw_symbol", "interval", "timestamp"),
    identity="timestamp",
)
"""Candles that another source made, for markets whose trades are not known."""

OPEN_INTEREST = _ticks(
    "open_interest",
    "one row per report of a market's open interest",
    _value("amount", "coin", "Open interest", nullable=False),
    _value("quote_amount", "quote", "Open interest in terms of the quote"),
    same=("amount",),
)
"""Open interest: a report counts until the next one."""

FUNDING = _ticks(
    "funding",
    "one row per report of a market's funding rate",
    _value("rate", "1 per funding interval", "Funding rate; positive: longs pay shorts"),
    _value("predicted_rate", "1 per funding interval", "Predicted rate of the next settlement"),
    Column(
        "funding_interval", "int64", "ns", "Time between settlements, over which the rates are", nullable=True
    ),
    Column("next_funding", "int64", "ns since the epoch, UTC", "Time of the next settlement", nullable=True),
    same=("rate", "predicted_rate"),
)
"""Funding rates, settled and predicted."""

LIQUIDATIONS = Table(
    name="liquidations",
    rows="one row per liquidation",
    columns=(
        _EXCHANGE,
        _RAW_SYMBOL,
        Column("id", "string", "", "Exchange-native id, or one made from its content"),
        _TIME,
        Column("sequence", "int64", "", "Order among liquidations of one timestamp"),
        Column("side", "string", "", "Side of the liquidated position: BUY = a long was liquidated"),
        _value("price", "quote per coin", "Price", nullable=False),
        _value("amount", "coin", "Amount", nullable=False),
        _value("quote_amount", "quote", "Amount in terms of the quote", nullable=False),
        _RECEIVED,
    ),
    key=("exchange", "raw_symbol", "id"),
    same=("timestamp", "side", "price", "amount"),
    partitions=_PARTITIONS,
    order=("exchange", "raw_symbol", "timestamp", "sequence"),
    identity="id",
)
"""Liquidations. Feeds are sampled, so totals are lower bounds.

A liquidation always has a side: every answer about liquidations is by side, so it could not count one without.
"""

OPTION_QUOTES = Table(
    name="option_quotes",
    rows="one row per option and time it was quoted",
    columns=(
        _EXCHANGE,
        _RAW_SYMBOL,
        _TIME,
        Column("coin", "string", "", "Base asset"),
        Column("option_type", "string", "", "CALL or PUT"),
        _value("strike", "quote per coin", "Strike", nullable=False),
        Column("expiry", "int64", "ns since the epoch, UTC", "Expiry"),
        _value("implied_volatility", "%", "Implied volatility of the mark price, annualised"),
        _value("delta", "1", "Delta as quoted"),
        _value("forward", "quote per coin", "Forward price of the expiry"),
        _value("mark_price", "coin", "Mark price, as quoted"),
        _value("open_interest", "coin", "Open interest"),
        _RECEIVED,
    ),
    key=_STATE_KEY,
    same=("implied_volatility", "forward"),
    partitions=("exchange", "coin"),
    order=("exchange", "coin", "timestamp", "expiry", "strike"),
    identity="timestamp",
)
"""Option quotes: a chain is the rows of one coin and time."""

CME_OPEN_INTEREST = _ticks(
    "cme_open_interest",
    "one row per report of a regulated future's open interest",
    _value("amount", "coin", "Open interest"),
    _value("usd_amount", "USD", "Value of the open interest"),
    _value("price", "quote per coin", "Price"),
    same=("amount", "usd_amount", "price"),
)
"""Open interest of regulated futures."""

TOKEN_SUPPLY = Table(
    name="token_supply",
    rows="one row per token and report",
    columns=(
        Column("token_name", "string", "", "Token"),
        Column("coin", "string", "", "Base asset", nullable=True),
        Column("timestamp", "int64", "ns since the epoch, UTC", "When it was so"),
        _value("marketcap", "USD", "Market capitalization"),
        _value("circulating_supply", "coin", "Circulating supply"),
        _value("total_supply", "coin", "Total supply"),
        _value("max_supply", "coin", "Maximum supply"),
        _value("total_value_locked", "USD", "Total value locked"),
        _value("fully_diluted_valuation", "USD", "Fully diluted valuation"),
        _value("total_volume", "USD", "Traded volume over 24 hours"),
        _value("usd_price", "USD per coin", "Price"),
        Column("cg_marketcap_rank", "int64", "", "Rank by market capitalization", nullable=True),
        Column("chain", "string", "", "Chain the token lives on", nullable=True),
        Column("contract_address", "string", "", "Address of the token's contract", nullable=True),
    ),
    key=("token_name", "timestamp"),
    same=("marketcap",),
    partitions=(),
    order=("token_name", "timestamp"),
    identity="timestamp",
)
"""Supply and market capitalization of tokens."""

QUOTE_RATES = Table(
    name="quote_rates",
    rows="one row per quote asset and report",
    columns=(
        Column("quote_coin", "string", "", "Quote asset"),
        Column("timestamp", "int64", "ns since the epoch, UTC", "When it was so"),
        _value("usd", "USD per quote", "What one of it is worth", nullable=False),
    ),
    key=("quote_coin", "timestamp"),
    same=("usd",),
    partitions=(),
    order=("quote_coin", "timestamp"),
    identity="timestamp",
)
"""USD prices of quote assets that do not count as USD."""

MARKETS = Table(
    name="markets",
    rows="one row per market",
    columns=(
        _EXCHANGE,
        _RAW_SYMBOL,
        Column("normalized_symbol", "string", "", "Cross-exchange symbol", nullable=True),
        Column("coin", "string", "", "Base asset", nullable=True),
        Column("quote_coin", "string", "", "Quote asset", nullable=True),
        Column("category", "string", "", "Market class", nullable=True),
        Column("tenor", "string", "", "Tenor of an option summary; null in all other markets", nullable=True),
        Column("tick_size", "float64", "quote per coin", "Smallest price step", nullable=True),
        Column(
            "block_size",
            "float64",
            "quote per coin",
            "Height of a level of profiles, decided when the market is first registered",
            nullable=True,
        ),
        Column(
            "contract",
            "string",
            "",
            "How contracts convert to coin: INVERSE, LINEAR or VANILLA",
            nullable=True,
        ),
        Column(
            "contract_size",
            "float64",
            "quote per contract if inverse, else coin per contract",
            "Size of one contract",
            nullable=True,
        ),
        Column(
            "factor",
            "float64",
            "coins per unit",
            "Coins in one unit that the exchange trades, such as 1,000 for 1000PEPE; null where a unit is a coin",
            nullable=True,
        ),
        Column(
            "amount_units",
            "string",
            "",
            "What the amounts of recorded files counted, by table, where it was said: candles=quote,trades=coin",
            nullable=True,
        ),
        Column(
            "session",
            "string",
            "",
            "When the market trades, as `tidytape.Session` writes it; null where that is not stated: the UTC day",
            nullable=True,
        ),
        Column(
            "renamed_to",
            "string",
            "",
            "Symbol under which the exchange goes on with the market since ``renamed_at``",
            nullable=True,
        ),
        Column("renamed_at", "int64", "ns since the epoch, UTC", "When it got that symbol", nullable=True),
        Column("coin_name", "string", "", "Full coin name", nullable=True),
        Column("quote_coin_name", "string", "", "Quote asset name", nullable=True),
        Column("full_name", "string", "", "Full market name", nullable=True),
        Column("icon_url", "string", "", "Asset icon URL", nullable=True),
        Column("marketcap", "float64", "USD", "Market capitalization", nullable=True),
        Column(
            "available_since",
            "int64",
            "ns since the epoch, UTC",
            "Time of its first event, or of its opening where its exchange tells that",
            nullable=True,
        ),
    ),
    # One summary symbol has a series per tenor, and each of them is a market; here two nulls are the same tenor.
    key=("exchange", "raw_symbol", "tenor"),
    same=(),
    partitions=(),
    order=("exchange", "raw_symbol", "tenor"),
)
"""The markets, and the facts about them that are no events.

The lake does not store the last price of a market and its values of the last 24 hours, even if a source reports them:
they follow from the events, are stale when the next event comes, and two sources would contradict each other.
"""


def _field(field: Field) -> Column:
    """Return the column of a documented field."""
    column = Column.of(field, nullable=True)
    return (
        replace(column, dtype="int64", unit="ns since the epoch, UTC")
        if field.kind == "timestamp"
        else column
    )


PREDICTION_MARKETS = Table(
    name="prediction_markets",
    rows="one row per report of a prediction market, with what no newer report tells",
    columns=(
        _EXCHANGE,
        Column("condition_id", "string", "", "Exchange condition identifier"),
        Column("reported", "int64", "ns since the epoch, UTC", "When it was so, by the exchange's clock"),
        Column(
            "raw_symbols",
            "list[string]",
            "",
            "Exchange-native symbol of each outcome's market, in the order of outcomes",
            nullable=True,
        ),
        Column("event_slug", "string", "", "Slug of the event it is grouped in", nullable=True),
        Column("icon_url", "string", "", "Icon URL", nullable=True),
        *(_field(field) for field in PREDICTION_MARKET_FIELDS if field.column != "condition_id"),
    ),
    key=("exchange", "condition_id", "reported"),
    same=(),
    partitions=(),
    order=("exchange", "condition_id", "reported"),
)
"""The prediction markets: every documented field, the markets of the outcomes, and the time of the report.

The values are the exchange's own (its traders and its 24 hours do not follow from a tape), so the lake stores them. One
prediction market has as many markets as outcomes. `_predictions.py` merges the reports, so most prediction markets have
one row; other rows have the values that only older reports had.
"""

REGISTRIES = (MARKETS, PREDICTION_MARKETS)
"""The tables in which a lake registers rows instead of appending them."""

_ALL = (
    TRADES,
    BOOK,
    RECORDED_CANDLES,
    OPEN_INTEREST,
    FUNDING,
    LIQUIDATIONS,
    OPTION_QUOTES,
    CME_OPEN_INTEREST,
    TOKEN_SUPPLY,
    QUOTE_RATES,
    *REGISTRIES,
)

HEATMAP_EXCHANGE = "tidytape.heatmap_exchange"
"""The property of the registry of markets that names the exchange of liquidation heatmaps."""

TABLES: Mapping[str, Table] = MappingProxyType({table.name: table for table in _ALL})
"""Every table by its name."""

MINUTES_OF: Mapping[str, str] = MappingProxyType(
    {"trades": "candles_1m"}
    | {table.name: f"{table.name}_1m" for table in (BOOK, OPEN_INTEREST, FUNDING, LIQUIDATIONS)}
)
"""For each table that a rollup reads, a table of minutes that exists if the rollup made minutes of it."""
