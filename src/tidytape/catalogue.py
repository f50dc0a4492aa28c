"""The facts of the service, as data: types, enumerations, payload fields, limits, error codes.

Each fact stands only here, and this module computes nothing. The facts come from the service's specification; where it
is silent, ``docs/reference/service.md`` says what was chosen.

Examples
--------
>>> DATA_TYPES["VOLUME_PROFILE_AGG"].max_points
20000
>>> Interval.HOUR.seconds, Interval.HOUR.alias
(3600, '1h')
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Literal, Self

__all__ = [
    "AMOUNT",
    "BLOCK_SIZE_FIELDS",
    "COVERAGE",
    "DATA_TYPES",
    "DEFAULT_FUNDING_INTERVAL_MS",
    "DEFAULT_TPO_BLOCK_MINUTES",
    "DESCRIPTOR_FIELDS",
    "ERROR_MEANING",
    "ERROR_STATUS",
    "IDENTITY_FIELDS",
    "LEVEL_VOLUMES",
    "LISTS",
    "LISTS_OF_A_TYPE",
    "MARKET_FIELDS",
    "NOTE_FIELDS",
    "POINTS_PER_WEIGHT",
    "PREDICTION_MARKET_FIELDS",
    "RATE_LIMIT_HEADERS",
    "SURCHARGE_PARTS",
    "TPO_BLOCK_MINUTES",
    "USAGE_FIELDS",
    "USD_QUOTES",
    "WEIGHT_WINDOW_SECONDS",
    "AmountUnit",
    "BookSide",
    "Category",
    "Change",
    "DataType",
    "Field",
    "GroupBy",
    "Interval",
    "Levels",
    "MarketSortField",
    "NoteCode",
    "Quote",
    "Selection",
    "Side",
    "SortDirection",
    "StreamEnd",
    "TPOSession",
    "Tenor",
    "TierName",
]


# --- enumerations ---------------------------------------------------------------------------------------------------


class _Named(StrEnum):
    """An enumeration whose members have a short ``alias`` that users may write, and the service's number if known."""

    alias: str
    number: int | None

    def __new__(cls, value: str, alias: str, number: int | None = None) -> Self:
        """Make a member with its facts."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.alias = alias
        member.number = number
        return member


class Interval(StrEnum):
    """Aggregation interval.

    Attributes: ``seconds`` [s], ``alias``, ``number`` in the service definition, ``offset``. The first interval starts
    ``offset`` seconds after the Unix epoch in UTC. The epoch began on a Thursday, so the offset of weeks makes them
    start on Mondays.
    """

    seconds: int
    alias: str
    number: int | None
    offset: int

    def __new__(cls, value: str, seconds: int, alias: str, number: int | None, offset: int = 0) -> Self:
        """Make a member with its facts."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.seconds = seconds
        member.alias = alias
        member.number = number
        member.offset = offset
        return member

    MINUTE = "MINUTE", 60, "1m", 2
    FIVE_MINUTES = "FIVE_MINUTES", 300, "5m", 3
    FIFTEEN_MINUTES = "FIFTEEN_MINUTES", 900, "15m", 4
    THIRTY_MINUTES = "THIRTY_MINUTES", 1800, "30m", None
    HOUR = "HOUR", 3600, "1h", 5
    FOUR_HOURS = "FOUR_HOURS", 14_400, "4h", 6
    DAY = "DAY", 86_400, "1d", 7
    WEEK = "WEEK", 604_800, "1w", 8, 345_600


class Tenor(StrEnum):
    """Time-to-expiry bucket of an option summary.

    Attributes: ``days`` [d], ``alias``.
    """

    days: int
    alias: str

    def __new__(cls, value: str, days: int, alias: str) -> Self:
        """Make a member with its facts."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.days = days
        member.alias = alias
        return member

    ONE_D = "ONE_D", 1, "1d"
    THREE_D = "THREE_D", 3, "3d"
    ONE_W = "ONE_W", 7, "1w"
    ONE_M = "ONE_M", 30, "1m"
    TWO_M = "TWO_M", 60, "2m"
    THREE_M = "THREE_M", 90, "3m"
    SIX_M = "SIX_M", 180, "6m"
    ONE_Y = "ONE_Y", 365, "1y"


class Side(_Named):
    """Side of a series. Of a trade: the aggressor. Of a liquidation: BUY = longs liquidated."""

    SELL = "SELL", "sell", 1
    BUY = "BUY", "buy", 2


class BookSide(StrEnum):
    """Side of a resting order."""

    BID = "BID"
    ASK = "ASK"


class Category(_Named):
    """Class of a market."""

    SPOT = "SPOT", "spot"
    PERPETUAL = "PERPETUAL", "perpetual"
    FUTURE = "FUTURE", "future", 3
    OPTION = "OPTION", "option", 4
    COMBO = "COMBO", "combo", 5


class SortDirection(_Named):
    """Order of the points of a series in time."""

    ASC = "SORT_DIRECTION_ASC", "asc"
    DESC = "SORT_DIRECTION_DESC", "desc"


class TPOSession(_Named):
    """Length of a market-profile session; unspecified means one ``interval``."""

    DAILY = "TPO_SESSION_DAILY", "daily"
    WEEKLY = "TPO_SESSION_WEEKLY", "weekly"
    MONTHLY = "TPO_SESSION_MONTHLY", "monthly"


class GroupBy(_Named):
    """How the selected exchanges become one series."""

    SUM = "GROUP_BY_TYPE_SUM", "sum"
    OPEN_INTEREST_WEIGHTED_AVG = "GROUP_BY_TYPE_OPEN_INTEREST_WEIGHTED_AVG", "open_interest_weighted_avg"


class Change(StrEnum):
    """How a point of a stream differs from what the stream sent before. A batch has its points in this order."""

    REVISION = "revision"
    """The service sent the point as final, or its interval was over, and it has changed since."""
    FINAL = "final"
    """The events of its market are known until after the end of the point. The service sends it once."""
    UPDATE = "update"
    """The interval of the point is in progress."""


class StreamEnd(StrEnum):
    """Why the service ended a stream."""

    PERIOD_OVER = "PERIOD_OVER"
    """All intervals before the end of the window are final."""
    SLOW_READER = "SLOW_READER"
    """The caller reads too slowly and is too far behind."""
    SHUTTING_DOWN = "SHUTTING_DOWN"
    """This process of the service stops; another one can continue the stream from the token."""
    TOKEN_EXPIRED = "TOKEN_EXPIRED"
    """The lake no longer has the files or versions from which the stream would continue."""
    INVALID_API_KEY = "INVALID_API_KEY"
    """The key was revoked, or it has expired."""
    INTERNAL_ERROR = "INTERNAL_ERROR"
    """The service failed."""


class NoteCode(StrEnum):
    """Why the points of a market do not fill the window, or what else an answer says of itself.

    Attributes: ``meaning``, ``warns``: whether Python warns the caller, because the market has no points at all in the
    window for another reason than that nothing happened.
    """

    meaning: str
    warns: bool

    def __new__(cls, value: str, meaning: str, warns: bool = False) -> Self:  # noqa: FBT001, FBT002 - how members are made
        """Make a member with its facts."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.meaning = meaning
        member.warns = warns
        return member

    NO_DATA = "NO_DATA", "The market has no data of this type, of this interval or of this tenor", True
    OUTSIDE = "OUTSIDE", "The window lies before the first event that is held, or after the last", True
    NOT_BEGUN = "NOT_BEGUN", "No interval or session starts in the window, or none that does has begun", True
    TIER = "TIER", "The tier of the key does not see this market or this window", True
    QUIET = "QUIET", "The market is covered, and nothing happened in the window"
    PART = (
        "PART",
        "The points begin after the window does, or end before it, or only longer candles tell of some of it",
    )
    IGNORED = "IGNORED", "The data type has no use for some parameters of the query, so they changed nothing"
    SUMMED = (
        "SUMMED",
        "The lake names no exchange for this data type, so the points are sums over several exchanges",
    )
    NO_SIDE = (
        "NO_SIDE",
        "Some trades in the window have no side: they are a series of their own, and the sides of levels are null",
    )


class Quote(_Named):
    """Denomination that values can be converted to."""

    USD = "USD", "usd"


class AmountUnit(StrEnum):
    """What amounts count: coins of the series' base asset, or US dollars."""

    COIN = "COIN"
    USD = "USD"


class MarketSortField(_Named):
    """What ``/v1/markets`` can be sorted by."""

    VOLUME_24H = "VOLUME_24H", "volume_24h"
    PRICE_CHANGE_24H = "PRICE_CHANGE_24H", "price_change_24h"
    PCT_FROM_ATH = "PCT_FROM_ATH", "pct_from_ath"
    OI_CHANGE_24H = "MARKET_SYMBOL_OI_CHANGE_24H", "oi_change_24h"
    ATR_PERCENT = "MARKET_SYMBOL_ATR_PERCENT", "atr_percent"
    MARKETCAP = "MARKET_SYMBOL_MARKETCAP", "marketcap"
    AVAILABLE_SINCE = "AVAILABLE_SINCE", "available_since"


class TierName(_Named):
    """The tiers of an account, from narrow to wide."""

    BASIC = "BASIC", "basic"
    ADVANCED = "ADVANCED", "advanced"
    ENTERPRISE = "ENTERPRISE", "enterprise"


class Selection(StrEnum):
    """The parameters that select the markets of a data type, marked as in the text of an error."""

    MARKET = "``exchange``, and exactly one of ``raw_symbol``, ``normalized_symbol`` and ``coin``"
    OPTION_SUMMARY = "``exchange``, and ``coin`` or ``raw_symbol`` or both"
    OPTION_SKEW = "one ``exchange``, ``coin``, ``raw_symbol`` and ``tenor``, all four"
    TOKEN = "``token_name`` or ``coin``"
    COIN = "``coin``"


# --- fields ---------------------------------------------------------------------------------------------------------

Kind = Literal["double", "int64", "string", "bool", "timestamp", "int32[]", "double[]", "string[]"]


@dataclass(frozen=True, slots=True)
class Field:
    """One documented field: its name on the wire, its column in a tidy frame, kind, unit and meaning.

    Every point has its ``plain`` numbers; proto3 leaves out a plain number that is 0. Other numbers are optional: if
    one is left out, it is unknown. A ``signed`` number can be below 0; the others cannot.
    """

    name: str
    column: str
    kind: Kind
    unit: str
    doc: str
    plain: bool = False
    signed: bool = False


@dataclass(frozen=True, slots=True)
class Levels:
    """An array of a payload that becomes rows: one row per level.

    A ``flat`` array has the values of ``fields`` one after the other, level by level. Another array has an object per
    level. ``book_side`` is the value of the column ``side`` in the rows of the array.
    """

    name: str
    fields: tuple[Field, ...]
    flat: bool = True
    book_side: BookSide | None = None


@dataclass(frozen=True, slots=True)
class DataType:
    """The facts of one data type in the specification.

    Attributes
    ----------
    name : str
        Value of the ``type`` parameter.
    title : str
        The data type in words.
    number : int or None
        Number of the data type in the service definition, if it has one.
    multiplier : int
        Weight of 1,000 points. [weight]
    max_points : int
        Largest number of points in one request.
    tier : TierName
        The lowest tier that includes the data type.
    selection : Selection
        The parameters that select its markets.
    fields : tuple of Field
        Scalar payload fields, ``timestamp`` first.
    levels : tuple of Levels
        Arrays that become rows; empty for a type with one row per point.
    per_side : bool
        Whether a market has one series per side.
    per_tenor : bool
        Whether a market has one series per tenor.
    usd : bool
        Whether values can be converted to USD.
    group_by : GroupBy or None
        The only way to aggregate its exchanges; None if there is none.
    group_by_raw_symbol : bool
        Whether markets that ``raw_symbol`` selects may be aggregated.
    gapfill : bool
        Whether missing intervals can be filled.
    dense : bool
        Whether a market that is traded has a point in nearly every interval. Then an answer that ends early may have
        been cut.
    funding_interval : bool
        Whether its rates can be converted to another funding interval.
    included_depth : int or None
        Number of levels that add no weight; None if the weight does not depend on the depth.
    envelope : str or None
        Key under ``Point`` that has the payload; None if the payload stands directly under ``Point``.
    interval_optional : bool
        Whether ``interval`` may be left out, because its points have no intervals.
    categories : tuple of Category
        Market classes that have the data type; empty if the specification does not say.
    """

    name: str
    title: str
    fields: tuple[Field, ...]
    number: int | None = None
    multiplier: int = 1
    max_points: int = 100_000
    tier: TierName = TierName.BASIC
    selection: Selection = Selection.MARKET
    levels: tuple[Levels, ...] = ()
    per_side: bool = False
    per_tenor: bool = False
    usd: bool = False
    group_by: GroupBy | None = None
    group_by_raw_symbol: bool = True
    gapfill: bool = False
    dense: bool = False
    funding_interval: bool = False
    included_depth: int | None = None
    envelope: str | None = None
    interval_optional: bool = False
    categories: tuple[Category, ...] = ()

    @property
    def has_amounts(self) -> bool:
        """Whether a field counts coins or US dollars; ``amount_unit`` of a series then says which."""
        levels = (field for levels in self.levels for field in levels.fields)
        return any(field.unit == AMOUNT for field in (*self.fields, *levels))

    @property
    def derives_volume(self) -> bool:
        """Whether levels have both sides and no volume on the wire, because it is the sum of the two."""
        columns = {field.column for levels in self.levels for field in levels.fields}
        return {"buy_volume", "sell_volume"} <= columns and "volume" not in columns

    @property
    def has_sessions(self) -> bool:
        """Whether a point is a session with facts of its own: then its levels and its sessions are two frames."""
        return any(not levels.flat for levels in self.levels)

    @property
    def level_rows(self) -> tuple[Levels, ...]:
        """The arrays of levels that are rows of a frame as it travels; those of a session are a column of its row."""
        return () if self.has_sessions else self.levels


def _double(name: str, column: str, unit: str, doc: str, *, signed: bool = False) -> Field:
    return Field(name, column, "double", unit, doc, signed=signed)


def _plain(name: str, column: str, unit: str, doc: str, *, signed: bool = False) -> Field:
    return Field(name, column, "double", unit, doc, plain=True, signed=signed)


def _rate(name: str, column: str, doc: str) -> Field:
    return Field(name, column, "double", "1 per funding interval", doc, signed=True)


_EXCHANGE = Field("exchange", "exchange", "string", "", "Exchange")
_RAW_SYMBOL = Field("rawSymbol", "raw_symbol", "string", "", "Symbol of the market on its exchange")
_COIN = Field("coin", "coin", "string", "", "Base asset")
_CATEGORY = Field("category", "category", "string", "", "Market class")
_SESSION = Field(
    "session", "session", "string", "", "When the market trades; null where not stated: the UTC day"
)

IDENTITY_FIELDS: tuple[Field, ...] = (
    _EXCHANGE,
    _RAW_SYMBOL,
    Field(
        "normalizedSymbol", "normalized_symbol", "string", "", "Cross-exchange symbol; for options the coin"
    ),
    _COIN,
    _CATEGORY,
    Field("interval", "interval", "string", "", "Aggregation interval"),
    Field("side", "side", "string", "", "BUY or SELL, for per-side types; null if the source does not tell"),
    Field("tenor", "tenor", "string", "", "Time-to-expiry bucket, for option summaries"),
)
"""The fields of a series identifier that tell series apart, beside ``type``."""

DESCRIPTOR_FIELDS: tuple[Field, ...] = (
    Field(
        "amountUnit", "amount_unit", "string", "", "Unit of the amounts, COIN or USD; null where not known"
    ),
    _double("blockSize", "block_size", "quote per coin", "Height of a price level; null where not known"),
    Field("dataUntil", "data_until", "timestamp", "UTC", "Time up to which the market is known"),
    _SESSION,
)
"""The fields of a series identifier that describe the series; a service may leave them out."""

COVERAGE = Field(
    "coverage",
    "coverage",
    "double",
    "1",
    "Share of what was added up that is known; null where that is unknown",
)
"""The field that the points of groups have in addition to the fields of their data type."""

AMOUNT = "coin or USD, see amount_unit"
"""The unit of the fields that count coins or US dollars."""

LEVEL_VOLUMES = Field(
    "levelVolumes",
    "level_volumes",
    "double[]",
    AMOUNT,
    "Volume of each level; left out where every level has both of its sides, whose sum it is",
)
"""The field that points with flat levels of sides have in addition, where a trade has no side."""

_START = Field("timestamp", "timestamp", "timestamp", "UTC", "Start of the interval")
_CANDLE = (
    _START,
    _plain("open", "open", "quote per coin", "Price of the first trade"),
    _plain("high", "high", "quote per coin", "Highest price"),
    _plain("low", "low", "quote per coin", "Lowest price"),
    _plain("close", "close", "quote per coin", "Price of the last trade"),
    _plain("volume", "volume", AMOUNT, "Traded volume, of the series' side where it has one"),
    Field("firstTimestamp", "first_timestamp", "timestamp", "UTC", "Time of the first trade"),
    Field("lastTimestamp", "last_timestamp", "timestamp", "UTC", "Time of the last trade"),
)
_OPEN_INTEREST = (
    _START,
    _double("open", "open", AMOUNT, "First open interest"),
    _double("high", "high", AMOUNT, "Highest open interest"),
    _double("low", "low", AMOUNT, "Lowest open interest"),
    _double("close", "close", AMOUNT, "Last open interest"),
)
_FUNDING = (
    _START,
    _rate("rateOpen", "rate_open", "First funding rate; positive: longs pay shorts"),
    _rate("rateHigh", "rate_high", "Highest funding rate"),
    _rate("rateLow", "rate_low", "Lowest funding rate"),
    _rate("rateClose", "rate_close", "Last funding rate"),
    _rate("predictedOpen", "predicted_open", "First predicted rate of the next settlement"),
    _rate("predictedHigh", "predicted_high", "Highest predicted rate"),
    _rate("predictedLow", "predicted_low", "Lowest predicted rate"),
    _rate("predictedClose", "predicted_close", "Last predicted rate"),
)
_TPO = (
    Field("timestamp", "timestamp", "timestamp", "UTC", "Session start"),
    Field("period_start", "period_start", "timestamp", "UTC", "Profile period start"),
    Field("period_end", "period_end", "timestamp", "UTC", "Profile period end"),
    Field("block_size_minutes", "block_size_minutes", "int64", "min", "Length of a time block"),
    _double("poc_price", "poc_price", "quote per coin", "Point of control"),
    _double("vah_price", "vah_price", "quote per coin", "Value area high"),
    _double("val_price", "val_price", "quote per coin", "Value area low"),
    _double("profile_high", "profile_high", "quote per coin", "Highest level"),
    _double("profile_low", "profile_low", "quote per coin", "Lowest level"),
    _double("opening_price", "opening_price", "quote per coin", "First price of the session"),
    _double("closing_price", "closing_price", "quote per coin", "Last price of the session"),
    _double("ibr_high", "ibr_high", "quote per coin", "Initial balance high"),
    _double("ibr_low", "ibr_low", "quote per coin", "Initial balance low"),
    Field("total_tpo_count", "total_tpo_count", "int64", "TPO", "Sum of the levels' counts"),
    _double(
        "value_area_percentage", "value_area_percentage", "%", "Share of the counts inside the value area"
    ),
    Field("poor_highs", "poor_highs", "double[]", "quote per coin", "Poor highs"),
    Field("poor_lows", "poor_lows", "double[]", "quote per coin", "Poor lows"),
    _double("total_volume", "total_volume", AMOUNT, "Sum of the levels' volumes"),
    Field(
        "single_prints", "single_prints", "double[]", "quote per coin", "Levels touched by exactly one block"
    ),
)
_TPO_LEVEL = (
    _double("price", "price", "quote per coin", "Low edge of the level"),
    Field(
        "block_ids",
        "block_ids",
        "int32[]",
        "",
        "Blocks, from 0 at the session's start, that touched the level",
    ),
    _plain("buy_volume", "buy_volume", AMOUNT, "Volume of aggressive buys at the level"),
    _plain("sell_volume", "sell_volume", AMOUNT, "Volume of aggressive sells at the level"),
    Field("tpo_count", "tpo_count", "int64", "TPO", "Number of blocks that touched the level"),
    _double("volume", "volume", AMOUNT, "Volume at the level"),
    Field("first_touch_block", "first_touch_block", "int64", "", "First block that touched the level"),
    Field("last_touch_block", "last_touch_block", "int64", "", "Last block that touched the level"),
)
_PRICE = _double("price", "price", "quote per coin", "Low edge of the level")
_PROFILE_LEVEL = (
    _PRICE,
    _double("buyVolume", "buy_volume", AMOUNT, "Volume of aggressive buys at the level"),
    _double("sellVolume", "sell_volume", AMOUNT, "Volume of aggressive sells at the level"),
)
_BOOK_LEVEL = (_PRICE, _double("size", "size", AMOUNT, "Resting size at the level"))
_LIQUIDATION_LEVEL = (
    _PRICE,
    _double("liquidations", "liquidations", AMOUNT, "Liquidation volume at the level"),
)

_ALL = (
    DataType(
        "TRADE",
        "Raw trades",
        number=1,
        fields=(
            Field("timestamp", "timestamp", "timestamp", "UTC", "Time of the trade"),
            Field("id", "id", "string", "", "Exchange-native trade id"),
            _plain("price", "price", "quote per coin", "Price"),
            _plain("amount", "amount", AMOUNT, "Amount"),
            _plain("quote_amount", "quote_amount", "quote", "Amount in terms of the quote"),
        ),
        per_side=True,
        interval_optional=True,
    ),
    DataType(
        "TRADE_SIDE_AGNOSTIC_AGG",
        "Candles, buys and sells combined",
        number=107,
        fields=_CANDLE,
        usd=True,
        group_by=GroupBy.SUM,
        group_by_raw_symbol=False,
        gapfill=True,
        dense=True,
        categories=(Category.SPOT, Category.PERPETUAL),
    ),
    DataType(
        "TRADE_AGG",
        "Candles per trade side",
        number=9,
        fields=_CANDLE,
        per_side=True,
        usd=True,
        group_by=GroupBy.SUM,
        group_by_raw_symbol=False,
        gapfill=True,
        dense=True,
        categories=(Category.SPOT, Category.PERPETUAL),
    ),
    DataType(
        "OPEN_INTEREST_AGG",
        "Open interest",
        number=10,
        fields=_OPEN_INTEREST,
        usd=True,
        dense=True,
        group_by=GroupBy.SUM,
        categories=(Category.PERPETUAL,),
    ),
    DataType(
        "FUNDING_RATE_AGG",
        "Funding rate with predicted rate",
        number=11,
        fields=_FUNDING,
        dense=True,
        group_by=GroupBy.OPEN_INTEREST_WEIGHTED_AVG,
        funding_interval=True,
        categories=(Category.PERPETUAL,),
    ),
    DataType(
        "LIQUIDATION_AGG",
        "Liquidation volume per side",
        number=12,
        fields=(_START, _plain("liquidations", "liquidations", AMOUNT, "Liquidated volume; BUY = longs")),
        per_side=True,
        usd=True,
        group_by=GroupBy.SUM,
    ),
    DataType(
        "TOKEN_SUPPLY_AGG",
        "Dominance and token supply",
        tier=TierName.ADVANCED,
        selection=Selection.TOKEN,
        fields=(
            _START,
            _plain("marketcap", "marketcap", "USD", "Market capitalization, last of the interval"),
            _plain(
                "firstMarketcap", "first_marketcap", "USD", "Market capitalization, first of the interval"
            ),
            _double("marketcapDominancePercent", "marketcap_dominance_percent", "%", "Share of the total"),
            _double("circulatingSupply", "circulating_supply", "coin", "Circulating supply"),
            _double("totalSupply", "total_supply", "coin", "Total supply"),
            _double("maxSupply", "max_supply", "coin", "Maximum supply"),
            _double("totalValueLocked", "total_value_locked", "USD", "Total value locked"),
            _double("fullyDilutedValuation", "fully_diluted_valuation", "USD", "Fully diluted valuation"),
            _double("totalVolume", "total_volume", "USD", "Traded volume over 24 hours"),
            _double("usdPrice", "usd_price", "USD per coin", "Price"),
            Field("cgMarketcapRank", "cg_marketcap_rank", "int64", "", "Rank by market capitalization"),
            Field("chain", "chain", "string", "", "Chain the token lives on"),
            Field("contractAddress", "contract_address", "string", "", "Address of the token's contract"),
        ),
    ),
    DataType(
        "IMPLIED_VOLATILITY_OPTION_SUMMARY_AGG",
        "Option implied volatility summary",
        tier=TierName.ADVANCED,
        selection=Selection.OPTION_SUMMARY,
        fields=(
            _START,
            _plain("impliedVolatility", "implied_volatility", "%", "Implied volatility, annualised"),
        ),
        per_tenor=True,
    ),
    DataType(
        "SKEW_OPTION_SUMMARY_AGG",
        "Option skew summary",
        tier=TierName.ADVANCED,
        selection=Selection.OPTION_SKEW,
        fields=(
            _START,
            _plain(
                "skew",
                "skew",
                "vol points",
                "Volatility of the put minus that of the call; positive: puts are dearer",
                signed=True,
            ),
        ),
        per_tenor=True,
    ),
    DataType(
        "VOLUME_PROFILE_AGG",
        "Volume profile",
        multiplier=2,
        max_points=20_000,
        fields=(_START,),
        levels=(Levels("profile", _PROFILE_LEVEL),),
        usd=True,
        group_by=GroupBy.SUM,
    ),
    DataType(
        "TPO_AGG",
        "Time price opportunity (market profile)",
        multiplier=5,
        max_points=20_000,
        fields=_TPO,
        levels=(Levels("levels", _TPO_LEVEL, flat=False),),
        usd=True,
        group_by=GroupBy.SUM,
        group_by_raw_symbol=False,
        envelope="TpoAggregation",
    ),
    DataType(
        "VENUEX_LIQUIDATION_AGG",
        "Liquidation heatmap of a single exchange",
        number=147,
        multiplier=5,
        max_points=5_000,
        tier=TierName.ADVANCED,
        selection=Selection.COIN,
        fields=(_START, _COIN),
        levels=(Levels("levels", _LIQUIDATION_LEVEL),),
        usd=True,
        included_depth=1500,
    ),
    DataType(
        "BLOCK_BOOK_SNAPSHOT_AGG",
        "Order-book heatmap",
        multiplier=10,
        max_points=4_000,
        fields=(_START,),
        levels=(
            Levels("bids", _BOOK_LEVEL, book_side=BookSide.BID),
            Levels("asks", _BOOK_LEVEL, book_side=BookSide.ASK),
        ),
        usd=True,
        group_by=GroupBy.SUM,
        included_depth=3500,
    ),
    DataType(
        "CME_OPEN_INTEREST_AGG",
        "Open interest of regulated futures",
        number=19,
        fields=(
            *_OPEN_INTEREST,
            _double("valueOpen", "value_open", "USD", "First value of the open interest"),
            _double("valueHigh", "value_high", "USD", "Highest value"),
            _double("valueLow", "value_low", "USD", "Lowest value"),
            _double("valueClose", "value_close", "USD", "Last value"),
            _double("priceOpen", "price_open", "quote per coin", "First price"),
            _double("priceHigh", "price_high", "quote per coin", "Highest price"),
            _double("priceLow", "price_low", "quote per coin", "Lowest price"),
            _double("priceClose", "price_close", "quote per coin", "Last price"),
        ),
    ),
    DataType(
        "OPTION_OPEN_INTEREST_AGG",
        "Option open interest",
        number=59,
        fields=(
            _START,
            _double(
                "underlyingPriceClose", "underlying_price_close", "quote per coin", "Last underlying price"
            ),
            _double("oiClose", "oi_close", AMOUNT, "Last open interest"),
        ),
    ),
)

DATA_TYPES: Mapping[str, DataType] = MappingProxyType({data_type.name: data_type for data_type in _ALL})
"""Every data type by its name."""

# --- market entries -------------------------------------------------------------------------------------------------

_SINCE = Field("availableSince", "available_since", "timestamp", "UTC", "When the market became available")
_RENAMED_TO = Field("renamedTo", "renamed_to", "string", "", "Symbol that the market has since its renaming")
_RENAMED_AT = Field("renamedAt", "renamed_at", "timestamp", "UTC", "When the market was renamed")

NOTE_FIELDS: tuple[Field, ...] = (
    Field("code", "code", "string", "", "Why the points do not fill the window"),
    Field("type", "type", "string", "", "Data type that was asked for"),
    _EXCHANGE,
    _RAW_SYMBOL,
    _COIN,
    Field("first", "first", "timestamp", "UTC", "First event that is held of this type"),
    Field("last", "last", "timestamp", "UTC", "Last event that is held of this type"),
    Field("types", "types", "string[]", "", "Types that the market has where it does not have this one"),
    Field(
        "intervals",
        "intervals",
        "string[]",
        "",
        "Intervals that the market's candles make up, where this one is not among them",
    ),
    Field(
        "tenors",
        "tenors",
        "string[]",
        "",
        "Tenors that the market's newest quotes make up, where this one is not among them",
    ),
    Field("parameters", "parameters", "string[]", "", "Parameters of the query that changed nothing"),
    Field("exchanges", "exchanges", "string[]", "", "Exchanges that the points are sums over"),
    Field("renamedFrom", "renamed_from", "string", "", "Symbol that the market had until its renaming"),
    _RENAMED_TO,
    _RENAMED_AT,
)
"""Fields of a note beside the series; only ``code`` is always there."""

MARKET_FIELDS: tuple[Field, ...] = (
    _EXCHANGE,
    _RAW_SYMBOL,
    Field("normalizedSymbol", "normalized_symbol", "string", "", "Cross-exchange symbol"),
    _COIN,
    _CATEGORY,
    Field("tenor", "tenor", "string", "", "Option summary tenor"),
    Field("coinName", "coin_name", "string", "", "Full coin name"),
    Field("quoteCoinName", "quote_coin_name", "string", "", "Quote asset name"),
    Field("fullName", "full_name", "string", "", "Full market name"),
    _double("lastPrice", "last_price", "quote per coin", "Last traded price"),
    _double("volume24h", "volume_24h", "as served", "Volume of the last 24 hours"),
    _double("volumeChange24h", "volume_change_24h", "%", "Change of that volume", signed=True),
    _double("priceChange24h", "price_change_24h", "%", "Change of the price over 24 hours", signed=True),
    _double(
        "oiChange24h", "oi_change_24h", "as served", "Change of the open interest over 24 hours", signed=True
    ),
    _double("marketcap", "marketcap", "USD", "Market capitalization"),
    Field("iconUrl", "icon_url", "string", "", "Asset icon URL"),
    _SINCE,
    _double(
        "factor",
        "factor",
        "coins per unit",
        "Coins in one unit that the exchange trades, where a unit is not a coin; the service has converted them",
    ),
    _RENAMED_TO,
    _RENAMED_AT,
    _SESSION,
)
"""The fields of a market entry, beside ``predictionMarkets``."""

PREDICTION_MARKET_FIELDS: tuple[Field, ...] = (
    Field("slug", "slug", "string", "", "Market URL slug"),
    Field("question", "question", "string", "", "Market question"),
    Field("groupItemTitle", "group_item_title", "string", "", "Title within a grouped market"),
    Field("outcomes", "outcomes", "string[]", "", "Possible outcomes"),
    _double("lastPrice", "last_price", "probability", "Last price, 0 to 1"),
    _double("oneDayPriceChange", "one_day_price_change", "probability", "24-hour price change", signed=True),
    Field("prices", "prices", "double[]", "probability", "Recent price history"),
    _double("totalVolume", "total_volume", "USD", "Total volume traded"),
    _double("buyVolume24H", "buy_volume_24h", "USD", "24-hour buy volume"),
    _double("sellVolume24H", "sell_volume_24h", "USD", "24-hour sell volume"),
    _double("volumeChange24H", "volume_change_24h", "%", "24-hour volume change", signed=True),
    _double("openInterest", "open_interest", "USD", "Current open interest"),
    _double("oneDayOIChange", "one_day_oi_change", "USD", "24-hour open interest change", signed=True),
    _double("uniqueTraders", "unique_traders", "traders", "Number of unique traders"),
    _double("orderPriceMinTickSize", "order_price_min_tick_size", "probability", "Minimum price tick"),
    Field("conditionId", "condition_id", "string", "", "Condition identifier of the exchange"),
    Field("closed", "closed", "bool", "", "Whether the market has resolved"),
    _SINCE,
    Field("availableTo", "available_to", "timestamp", "UTC", "Market expiry"),
    Field("sportsMarketType", "sports_market_type", "string", "", "Sports market type"),
    _double("line", "line", "", "Line value for sports markets", signed=True),
    Field(
        "outcome", "outcome", "string", "", "Outcome that the market is; null where the service does not tell"
    ),
)
"""The fields of a prediction-market entry."""

BLOCK_SIZE_FIELDS: tuple[Field, ...] = (
    _EXCHANGE,
    _RAW_SYMBOL,
    _double(
        "blockSize", "block_size", "quote per coin", "Recommended height of a level of the order-book heatmap"
    ),
)
"""The fields of an entry of ``/v1/block-sizes``."""

USAGE_FIELDS: tuple[Field, ...] = (
    Field("limit", "limit", "int64", "weight per window", "Budget of the tier"),
    Field("remaining", "remaining", "int64", "weight", "Weight that is left now"),
    Field("used", "used", "int64", "weight", "Weight taken in the last window"),
    Field(
        "reset", "reset", "int64", "s", "Time since 1970 at which the bucket is full again, burst included"
    ),
    Field("window_seconds", "window_seconds", "int64", "s", "Length of the window"),
)
"""The fields of a caller's quota."""

RATE_LIMIT_HEADERS: Mapping[str, str] = MappingProxyType(
    {
        "X-RateLimit-Limit": "limit",
        "X-RateLimit-Remaining": "remaining",
        "X-RateLimit-Used": "used",
        "X-RateLimit-Reset": "reset",
    }
)
"""The headers of every response to a known key, and the field of the quota that each shows."""

LISTS: Mapping[str, str] = MappingProxyType(
    {
        "types": "types",
        "exchanges": "exchanges",
        "categories": "categories",
        "coins": "coins",
        "symbols": "rawSymbols",
        "normalized-symbols": "normalizedSymbols",
        "tenors": "tenors",
        "block-sizes": "blockSizes",
    }
)
"""The list endpoints below ``/v1/``, and the field of the answer that is the list."""

LISTS_OF_A_TYPE: tuple[str, ...] = ("symbols", "normalized-symbols")
"""The lists that need a ``type``."""

# --- constants ------------------------------------------------------------------------------------------------------

TPO_BLOCK_MINUTES: tuple[int, ...] = (5, 30, 60, 240)
"""Allowed lengths of a TPO block. [min]"""

DEFAULT_TPO_BLOCK_MINUTES = 30
"""Length of a TPO block if the query does not state it. [min]"""

DEFAULT_FUNDING_INTERVAL_MS = 28_800_000
"""The interval to which funding rates are converted if the query does not state it. [ms]"""

POINTS_PER_WEIGHT = 1_000
"""Number of points that the weight of one multiplier pays for."""

SURCHARGE_PARTS = 5
"""Each aggregated exchange adds one fifth to the weight, and so does each included depth after the first."""

WEIGHT_WINDOW_SECONDS = 60
"""Window of the weight budget. [s]"""

USD_QUOTES: frozenset[str] = frozenset(
    {"USD", "USDT", "USDC", "BUSD", "FDUSD", "TUSD", "DAI", "USDP", "PYUSD"}
)
"""Quotes that count as one USD."""

_ERRORS = (
    (
        "INVALID_PARAMS",
        400,
        "A parameter is unknown, missing, repeated or has a wrong value, or the request weighs too much",
    ),
    ("INVALID_TYPE", 400, "The data type does not exist or is missing"),
    ("INVALID_EXCHANGE", 400, "The exchange does not exist, or the query needs an exchange and has none"),
    (
        "INVALID_SYMBOL",
        400,
        "The symbol, coin or token does not exist, or the query has none or several of the parameters that select it",
    ),
    (
        "INVALID_INTERVAL",
        400,
        "The interval does not exist or is missing, or the lake has only candles that are longer than it",
    ),
    ("UNSUPPORTED", 400, "The data type or the market does not support a parameter of the query"),
    ("INVALID_REQUEST", 400, "The bytes are not an HTTP request"),
    ("INVALID_API_KEY", 401, "The key is missing, unknown or expired"),
    ("TYPE_NOT_PERMITTED", 403, "The tier does not include the data type"),
    ("HISTORY_NOT_PERMITTED", 403, "The window begins before the history of the tier"),
    ("AGGREGATION_NOT_PERMITTED", 403, "The tier does not combine exchanges into one series"),
    ("POINT_LIMIT_EXCEEDED", 403, "The window has more points than one request may have"),
    ("STREAM_LIMIT_EXCEEDED", 403, "The key already has as many open streams as its tier allows"),
    ("NOT_FOUND", 404, "The path does not exist"),
    ("METHOD_NOT_ALLOWED", 405, "The method is not GET"),
    (
        "TOKEN_EXPIRED",
        410,
        "The lake no longer has the files or versions from which the stream would continue",
    ),
    ("URI_TOO_LONG", 414, "The path and the query string are too long"),
    ("HEADERS_TOO_LONG", 431, "The headers are too long"),
    (
        "RATE_LIMITED",
        429,
        "The key does not have enough weight left; `retry_after` is the number of seconds until it has",
    ),
    ("INTERNAL_ERROR", 500, "The service failed; the operator finds the request by its id"),
    (
        "UNAVAILABLE",
        503,
        "Too many queries wait or streams are open, or the service cannot reach the store that counts the weight",
    ),
    ("TIMEOUT", 504, "The answer took too long"),
)

ERROR_STATUS: Mapping[str, int] = MappingProxyType({code: status for code, status, _ in _ERRORS})
"""HTTP status of each error code."""

ERROR_MEANING: Mapping[str, str] = MappingProxyType({code: meaning for code, _, meaning in _ERRORS})
"""The meaning of each error code."""
