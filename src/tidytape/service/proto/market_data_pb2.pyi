from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class PointType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    UNKNOWN_TYPE: _ClassVar[PointType]
    TRADE: _ClassVar[PointType]
    TRADE_AGG: _ClassVar[PointType]
    OPEN_INTEREST_AGG: _ClassVar[PointType]
    FUNDING_RATE_AGG: _ClassVar[PointType]
    LIQUIDATION_AGG: _ClassVar[PointType]
    CME_OPEN_INTEREST_AGG: _ClassVar[PointType]
    OPTION_OPEN_INTEREST_AGG: _ClassVar[PointType]
    TRADE_SIDE_AGNOSTIC_AGG: _ClassVar[PointType]
    VENUEX_LIQUIDATION_AGG: _ClassVar[PointType]
    TOKEN_SUPPLY_AGG: _ClassVar[PointType]
    IMPLIED_VOLATILITY_OPTION_SUMMARY_AGG: _ClassVar[PointType]
    SKEW_OPTION_SUMMARY_AGG: _ClassVar[PointType]
    VOLUME_PROFILE_AGG: _ClassVar[PointType]
    TPO_AGG: _ClassVar[PointType]
    BLOCK_BOOK_SNAPSHOT_AGG: _ClassVar[PointType]

class Interval(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    UNKNOWN_AGGREGATION_INTERVAL: _ClassVar[Interval]
    MINUTE: _ClassVar[Interval]
    FIVE_MINUTES: _ClassVar[Interval]
    FIFTEEN_MINUTES: _ClassVar[Interval]
    HOUR: _ClassVar[Interval]
    FOUR_HOURS: _ClassVar[Interval]
    DAY: _ClassVar[Interval]
    WEEK: _ClassVar[Interval]
    THIRTY_MINUTES: _ClassVar[Interval]

class Category(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    UNKNOWN_CATEGORY: _ClassVar[Category]
    SPOT: _ClassVar[Category]
    PERPETUAL: _ClassVar[Category]
    FUTURE: _ClassVar[Category]
    OPTION: _ClassVar[Category]
    COMBO: _ClassVar[Category]

class Side(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    UNKNOWN_SIDE: _ClassVar[Side]
    SELL: _ClassVar[Side]
    BUY: _ClassVar[Side]

class Tenor(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    UNKNOWN_TENOR: _ClassVar[Tenor]
    ONE_D: _ClassVar[Tenor]
    THREE_D: _ClassVar[Tenor]
    ONE_W: _ClassVar[Tenor]
    ONE_M: _ClassVar[Tenor]
    TWO_M: _ClassVar[Tenor]
    THREE_M: _ClassVar[Tenor]
    SIX_M: _ClassVar[Tenor]
    ONE_Y: _ClassVar[Tenor]

class SortDirection(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SORT_DIRECTION_UNSPECIFIED: _ClassVar[SortDirection]
    SORT_DIRECTION_ASC: _ClassVar[SortDirection]
    SORT_DIRECTION_DESC: _ClassVar[SortDirection]

class TPOSession(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TPO_SESSION_UNSPECIFIED: _ClassVar[TPOSession]
    TPO_SESSION_DAILY: _ClassVar[TPOSession]
    TPO_SESSION_WEEKLY: _ClassVar[TPOSession]
    TPO_SESSION_MONTHLY: _ClassVar[TPOSession]

class GroupByType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    GROUP_BY_TYPE_UNSPECIFIED: _ClassVar[GroupByType]
    GROUP_BY_TYPE_SUM: _ClassVar[GroupByType]
    GROUP_BY_TYPE_OPEN_INTEREST_WEIGHTED_AVG: _ClassVar[GroupByType]

class MarketSortField(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    UNKNOWN_MARKET_SORT_FIELD: _ClassVar[MarketSortField]
    VOLUME_24H: _ClassVar[MarketSortField]
    PRICE_CHANGE_24H: _ClassVar[MarketSortField]
    PCT_FROM_ATH: _ClassVar[MarketSortField]
    MARKET_SYMBOL_OI_CHANGE_24H: _ClassVar[MarketSortField]
    MARKET_SYMBOL_ATR_PERCENT: _ClassVar[MarketSortField]
    MARKET_SYMBOL_MARKETCAP: _ClassVar[MarketSortField]
    AVAILABLE_SINCE: _ClassVar[MarketSortField]

class AmountUnit(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    UNKNOWN_AMOUNT_UNIT: _ClassVar[AmountUnit]
    COIN: _ClassVar[AmountUnit]
    USD: _ClassVar[AmountUnit]

class NoteCode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    UNKNOWN_NOTE: _ClassVar[NoteCode]
    NO_DATA: _ClassVar[NoteCode]
    OUTSIDE: _ClassVar[NoteCode]
    NOT_BEGUN: _ClassVar[NoteCode]
    TIER: _ClassVar[NoteCode]
    QUIET: _ClassVar[NoteCode]
    PART: _ClassVar[NoteCode]
    IGNORED: _ClassVar[NoteCode]
    SUMMED: _ClassVar[NoteCode]
    NO_SIDE: _ClassVar[NoteCode]
UNKNOWN_TYPE: PointType
TRADE: PointType
TRADE_AGG: PointType
OPEN_INTEREST_AGG: PointType
FUNDING_RATE_AGG: PointType
LIQUIDATION_AGG: PointType
CME_OPEN_INTEREST_AGG: PointType
OPTION_OPEN_INTEREST_AGG: PointType
TRADE_SIDE_AGNOSTIC_AGG: PointType
VENUEX_LIQUIDATION_AGG: PointType
TOKEN_SUPPLY_AGG: PointType
IMPLIED_VOLATILITY_OPTION_SUMMARY_AGG: PointType
SKEW_OPTION_SUMMARY_AGG: PointType
VOLUME_PROFILE_AGG: PointType
TPO_AGG: PointType
BLOCK_BOOK_SNAPSHOT_AGG: PointType
UNKNOWN_AGGREGATION_INTERVAL: Interval
MINUTE: Interval
FIVE_MINUTES: Interval
FIFTEEN_MINUTES: Interval
HOUR: Interval
FOUR_HOURS: Interval
DAY: Interval
WEEK: Interval
THIRTY_MINUTES: Interval
UNKNOWN_CATEGORY: Category
SPOT: Category
PERPETUAL: Category
FUTURE: Category
OPTION: Category
COMBO: Category
UNKNOWN_SIDE: Side
SELL: Side
BUY: Side
UNKNOWN_TENOR: Tenor
ONE_D: Tenor
THREE_D: Tenor
ONE_W: Tenor
ONE_M: Tenor
TWO_M: Tenor
THREE_M: Tenor
SIX_M: Tenor
ONE_Y: Tenor
SORT_DIRECTION_UNSPECIFIED: SortDirection
SORT_DIRECTION_ASC: SortDirection
SORT_DIRECTION_DESC: SortDirection
TPO_SESSION_UNSPECIFIED: TPOSession
TPO_SESSION_DAILY: TPOSession
TPO_SESSION_WEEKLY: TPOSession
TPO_SESSION_MONTHLY: TPOSession
GROUP_BY_TYPE_UNSPECIFIED: GroupByType
GROUP_BY_TYPE_SUM: GroupByType
GROUP_BY_TYPE_OPEN_INTEREST_WEIGHTED_AVG: GroupByType
UNKNOWN_MARKET_SORT_FIELD: MarketSortField
VOLUME_24H: MarketSortField
PRICE_CHANGE_24H: MarketSortField
PCT_FROM_ATH: MarketSortField
MARKET_SYMBOL_OI_CHANGE_24H: MarketSortField
MARKET_SYMBOL_ATR_PERCENT: MarketSortField
MARKET_SYMBOL_MARKETCAP: MarketSortField
AVAILABLE_SINCE: MarketSortField
UNKNOWN_AMOUNT_UNIT: AmountUnit
COIN: AmountUnit
USD: AmountUnit
UNKNOWN_NOTE: NoteCode
NO_DATA: NoteCode
OUTSIDE: NoteCode
NOT_BEGUN: NoteCode
TIER: NoteCode
QUIET: NoteCode
PART: NoteCode
IGNORED: NoteCode
SUMMED: NoteCode
NO_SIDE: NoteCode

class Timestamp(_message.Message):
    __slots__ = ("seconds", "nanoseconds")
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    NANOSECONDS_FIELD_NUMBER: _ClassVar[int]
    seconds: int
    nanoseconds: int
    def __init__(self, seconds: _Optional[int] = ..., nanoseconds: _Optional[int] = ...) -> None: ...

class PointRequest(_message.Message):
    __slots__ = ("type", "exchange", "normalizedSymbol", "coin", "category", "rawSymbol", "side", "interval", "period", "maxDepth", "event", "tokenName", "tenor", "sortDirection", "gapfill", "transform", "tpoBlockSizeMinutes", "tpoSession", "blockSize", "token")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    EXCHANGE_FIELD_NUMBER: _ClassVar[int]
    NORMALIZEDSYMBOL_FIELD_NUMBER: _ClassVar[int]
    COIN_FIELD_NUMBER: _ClassVar[int]
    CATEGORY_FIELD_NUMBER: _ClassVar[int]
    RAWSYMBOL_FIELD_NUMBER: _ClassVar[int]
    SIDE_FIELD_NUMBER: _ClassVar[int]
    INTERVAL_FIELD_NUMBER: _ClassVar[int]
    FROM_FIELD_NUMBER: _ClassVar[int]
    PERIOD_FIELD_NUMBER: _ClassVar[int]
    MAXDEPTH_FIELD_NUMBER: _ClassVar[int]
    EVENT_FIELD_NUMBER: _ClassVar[int]
    TOKENNAME_FIELD_NUMBER: _ClassVar[int]
    TENOR_FIELD_NUMBER: _ClassVar[int]
    SORTDIRECTION_FIELD_NUMBER: _ClassVar[int]
    GAPFILL_FIELD_NUMBER: _ClassVar[int]
    TRANSFORM_FIELD_NUMBER: _ClassVar[int]
    TPOBLOCKSIZEMINUTES_FIELD_NUMBER: _ClassVar[int]
    TPOSESSION_FIELD_NUMBER: _ClassVar[int]
    BLOCKSIZE_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    type: _containers.RepeatedScalarFieldContainer[PointType]
    exchange: _containers.RepeatedScalarFieldContainer[str]
    normalizedSymbol: _containers.RepeatedScalarFieldContainer[str]
    coin: _containers.RepeatedScalarFieldContainer[str]
    category: _containers.RepeatedScalarFieldContainer[Category]
    rawSymbol: _containers.RepeatedScalarFieldContainer[str]
    side: Side
    interval: Interval
    period: int
    maxDepth: int
    event: _containers.RepeatedScalarFieldContainer[str]
    tokenName: str
    tenor: Tenor
    sortDirection: SortDirection
    gapfill: bool
    transform: Transform
    tpoBlockSizeMinutes: int
    tpoSession: TPOSession
    blockSize: float
    token: str
    def __init__(self, type: _Optional[_Iterable[_Union[PointType, str]]] = ..., exchange: _Optional[_Iterable[str]] = ..., normalizedSymbol: _Optional[_Iterable[str]] = ..., coin: _Optional[_Iterable[str]] = ..., category: _Optional[_Iterable[_Union[Category, str]]] = ..., rawSymbol: _Optional[_Iterable[str]] = ..., side: _Optional[_Union[Side, str]] = ..., interval: _Optional[_Union[Interval, str]] = ..., period: _Optional[int] = ..., maxDepth: _Optional[int] = ..., event: _Optional[_Iterable[str]] = ..., tokenName: _Optional[str] = ..., tenor: _Optional[_Union[Tenor, str]] = ..., sortDirection: _Optional[_Union[SortDirection, str]] = ..., gapfill: bool = ..., transform: _Optional[_Union[Transform, _Mapping]] = ..., tpoBlockSizeMinutes: _Optional[int] = ..., tpoSession: _Optional[_Union[TPOSession, str]] = ..., blockSize: _Optional[float] = ..., token: _Optional[str] = ..., **kwargs) -> None: ...

class Transform(_message.Message):
    __slots__ = ("normalize", "groupBy")
    class Normalize(_message.Message):
        __slots__ = ("quote", "fundingInterval")
        QUOTE_FIELD_NUMBER: _ClassVar[int]
        FUNDINGINTERVAL_FIELD_NUMBER: _ClassVar[int]
        quote: str
        fundingInterval: int
        def __init__(self, quote: _Optional[str] = ..., fundingInterval: _Optional[int] = ...) -> None: ...
    class GroupBy(_message.Message):
        __slots__ = ("type",)
        TYPE_FIELD_NUMBER: _ClassVar[int]
        type: GroupByType
        def __init__(self, type: _Optional[_Union[GroupByType, str]] = ...) -> None: ...
    NORMALIZE_FIELD_NUMBER: _ClassVar[int]
    GROUPBY_FIELD_NUMBER: _ClassVar[int]
    normalize: Transform.Normalize
    groupBy: Transform.GroupBy
    def __init__(self, normalize: _Optional[_Union[Transform.Normalize, _Mapping]] = ..., groupBy: _Optional[_Union[Transform.GroupBy, _Mapping]] = ...) -> None: ...

class PointMetaRequest(_message.Message):
    __slots__ = ("type", "exchange", "category", "coin", "rawSymbol", "normalizedSymbol", "to")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    EXCHANGE_FIELD_NUMBER: _ClassVar[int]
    CATEGORY_FIELD_NUMBER: _ClassVar[int]
    COIN_FIELD_NUMBER: _ClassVar[int]
    RAWSYMBOL_FIELD_NUMBER: _ClassVar[int]
    NORMALIZEDSYMBOL_FIELD_NUMBER: _ClassVar[int]
    FROM_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    type: _containers.RepeatedScalarFieldContainer[PointType]
    exchange: _containers.RepeatedScalarFieldContainer[str]
    category: _containers.RepeatedScalarFieldContainer[Category]
    coin: _containers.RepeatedScalarFieldContainer[str]
    rawSymbol: _containers.RepeatedScalarFieldContainer[str]
    normalizedSymbol: _containers.RepeatedScalarFieldContainer[str]
    to: int
    def __init__(self, type: _Optional[_Iterable[_Union[PointType, str]]] = ..., exchange: _Optional[_Iterable[str]] = ..., category: _Optional[_Iterable[_Union[Category, str]]] = ..., coin: _Optional[_Iterable[str]] = ..., rawSymbol: _Optional[_Iterable[str]] = ..., normalizedSymbol: _Optional[_Iterable[str]] = ..., to: _Optional[int] = ..., **kwargs) -> None: ...

class MarketRequest(_message.Message):
    __slots__ = ("exchange", "coin", "category", "type", "symbolFilter", "pageSize", "pageOffset", "sortCriteria", "distinct")
    class SortCriteria(_message.Message):
        __slots__ = ("field", "direction")
        FIELD_FIELD_NUMBER: _ClassVar[int]
        DIRECTION_FIELD_NUMBER: _ClassVar[int]
        field: MarketSortField
        direction: SortDirection
        def __init__(self, field: _Optional[_Union[MarketSortField, str]] = ..., direction: _Optional[_Union[SortDirection, str]] = ...) -> None: ...
    EXCHANGE_FIELD_NUMBER: _ClassVar[int]
    COIN_FIELD_NUMBER: _ClassVar[int]
    CATEGORY_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    SYMBOLFILTER_FIELD_NUMBER: _ClassVar[int]
    PAGESIZE_FIELD_NUMBER: _ClassVar[int]
    PAGEOFFSET_FIELD_NUMBER: _ClassVar[int]
    SORTCRITERIA_FIELD_NUMBER: _ClassVar[int]
    DISTINCT_FIELD_NUMBER: _ClassVar[int]
    exchange: _containers.RepeatedScalarFieldContainer[str]
    coin: _containers.RepeatedScalarFieldContainer[str]
    category: _containers.RepeatedScalarFieldContainer[Category]
    type: _containers.RepeatedScalarFieldContainer[PointType]
    symbolFilter: str
    pageSize: int
    pageOffset: int
    sortCriteria: MarketRequest.SortCriteria
    distinct: bool
    def __init__(self, exchange: _Optional[_Iterable[str]] = ..., coin: _Optional[_Iterable[str]] = ..., category: _Optional[_Iterable[_Union[Category, str]]] = ..., type: _Optional[_Iterable[_Union[PointType, str]]] = ..., symbolFilter: _Optional[str] = ..., pageSize: _Optional[int] = ..., pageOffset: _Optional[int] = ..., sortCriteria: _Optional[_Union[MarketRequest.SortCriteria, _Mapping]] = ..., distinct: bool = ...) -> None: ...

class UsageRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class PointResponse(_message.Message):
    __slots__ = ("series", "notes")
    SERIES_FIELD_NUMBER: _ClassVar[int]
    NOTES_FIELD_NUMBER: _ClassVar[int]
    series: _containers.RepeatedCompositeFieldContainer[Series]
    notes: _containers.RepeatedCompositeFieldContainer[Note]
    def __init__(self, series: _Optional[_Iterable[_Union[Series, _Mapping]]] = ..., notes: _Optional[_Iterable[_Union[Note, _Mapping]]] = ...) -> None: ...

class Series(_message.Message):
    __slots__ = ("id", "points")
    ID_FIELD_NUMBER: _ClassVar[int]
    POINTS_FIELD_NUMBER: _ClassVar[int]
    id: SeriesId
    points: _containers.RepeatedCompositeFieldContainer[Point]
    def __init__(self, id: _Optional[_Union[SeriesId, _Mapping]] = ..., points: _Optional[_Iterable[_Union[Point, _Mapping]]] = ...) -> None: ...

class SeriesId(_message.Message):
    __slots__ = ("type", "exchange", "rawSymbol", "normalizedSymbol", "category", "interval", "side", "coin", "tenor", "amountUnit", "blockSize", "dataUntil", "session")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    EXCHANGE_FIELD_NUMBER: _ClassVar[int]
    RAWSYMBOL_FIELD_NUMBER: _ClassVar[int]
    NORMALIZEDSYMBOL_FIELD_NUMBER: _ClassVar[int]
    CATEGORY_FIELD_NUMBER: _ClassVar[int]
    INTERVAL_FIELD_NUMBER: _ClassVar[int]
    SIDE_FIELD_NUMBER: _ClassVar[int]
    COIN_FIELD_NUMBER: _ClassVar[int]
    TENOR_FIELD_NUMBER: _ClassVar[int]
    AMOUNTUNIT_FIELD_NUMBER: _ClassVar[int]
    BLOCKSIZE_FIELD_NUMBER: _ClassVar[int]
    DATAUNTIL_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    type: PointType
    exchange: str
    rawSymbol: str
    normalizedSymbol: str
    category: Category
    interval: Interval
    side: Side
    coin: str
    tenor: Tenor
    amountUnit: AmountUnit
    blockSize: float
    dataUntil: Timestamp
    session: str
    def __init__(self, type: _Optional[_Union[PointType, str]] = ..., exchange: _Optional[str] = ..., rawSymbol: _Optional[str] = ..., normalizedSymbol: _Optional[str] = ..., category: _Optional[_Union[Category, str]] = ..., interval: _Optional[_Union[Interval, str]] = ..., side: _Optional[_Union[Side, str]] = ..., coin: _Optional[str] = ..., tenor: _Optional[_Union[Tenor, str]] = ..., amountUnit: _Optional[_Union[AmountUnit, str]] = ..., blockSize: _Optional[float] = ..., dataUntil: _Optional[_Union[Timestamp, _Mapping]] = ..., session: _Optional[str] = ...) -> None: ...

class Point(_message.Message):
    __slots__ = ("trade", "trade_agg", "open_interest_agg", "funding_rate_agg", "liquidation_agg", "cme_open_interest_agg", "option_open_interest_agg", "trade_side_agnostic_agg", "venuex_liquidation_agg", "token_supply_agg", "implied_volatility_option_summary_agg", "skew_option_summary_agg", "volume_profile_agg", "tpo_agg", "block_book_snapshot_agg")
    TRADE_FIELD_NUMBER: _ClassVar[int]
    TRADE_AGG_FIELD_NUMBER: _ClassVar[int]
    OPEN_INTEREST_AGG_FIELD_NUMBER: _ClassVar[int]
    FUNDING_RATE_AGG_FIELD_NUMBER: _ClassVar[int]
    LIQUIDATION_AGG_FIELD_NUMBER: _ClassVar[int]
    CME_OPEN_INTEREST_AGG_FIELD_NUMBER: _ClassVar[int]
    OPTION_OPEN_INTEREST_AGG_FIELD_NUMBER: _ClassVar[int]
    TRADE_SIDE_AGNOSTIC_AGG_FIELD_NUMBER: _ClassVar[int]
    VENUEX_LIQUIDATION_AGG_FIELD_NUMBER: _ClassVar[int]
    TOKEN_SUPPLY_AGG_FIELD_NUMBER: _ClassVar[int]
    IMPLIED_VOLATILITY_OPTION_SUMMARY_AGG_FIELD_NUMBER: _ClassVar[int]
    SKEW_OPTION_SUMMARY_AGG_FIELD_NUMBER: _ClassVar[int]
    VOLUME_PROFILE_AGG_FIELD_NUMBER: _ClassVar[int]
    TPO_AGG_FIELD_NUMBER: _ClassVar[int]
    BLOCK_BOOK_SNAPSHOT_AGG_FIELD_NUMBER: _ClassVar[int]
    trade: Trade
    trade_agg: Candle
    open_interest_agg: OpenInterest
    funding_rate_agg: FundingRate
    liquidation_agg: Liquidation
    cme_open_interest_agg: FuturesOpenInterest
    option_open_interest_agg: OptionOpenInterest
    trade_side_agnostic_agg: Candle
    venuex_liquidation_agg: LiquidationHeatmap
    token_supply_agg: TokenSupply
    implied_volatility_option_summary_agg: ImpliedVolatility
    skew_option_summary_agg: Skew
    volume_profile_agg: VolumeProfile
    tpo_agg: TpoAggregation
    block_book_snapshot_agg: BookSnapshot
    def __init__(self, trade: _Optional[_Union[Trade, _Mapping]] = ..., trade_agg: _Optional[_Union[Candle, _Mapping]] = ..., open_interest_agg: _Optional[_Union[OpenInterest, _Mapping]] = ..., funding_rate_agg: _Optional[_Union[FundingRate, _Mapping]] = ..., liquidation_agg: _Optional[_Union[Liquidation, _Mapping]] = ..., cme_open_interest_agg: _Optional[_Union[FuturesOpenInterest, _Mapping]] = ..., option_open_interest_agg: _Optional[_Union[OptionOpenInterest, _Mapping]] = ..., trade_side_agnostic_agg: _Optional[_Union[Candle, _Mapping]] = ..., venuex_liquidation_agg: _Optional[_Union[LiquidationHeatmap, _Mapping]] = ..., token_supply_agg: _Optional[_Union[TokenSupply, _Mapping]] = ..., implied_volatility_option_summary_agg: _Optional[_Union[ImpliedVolatility, _Mapping]] = ..., skew_option_summary_agg: _Optional[_Union[Skew, _Mapping]] = ..., volume_profile_agg: _Optional[_Union[VolumeProfile, _Mapping]] = ..., tpo_agg: _Optional[_Union[TpoAggregation, _Mapping]] = ..., block_book_snapshot_agg: _Optional[_Union[BookSnapshot, _Mapping]] = ...) -> None: ...

class Trade(_message.Message):
    __slots__ = ("timestamp", "id", "price", "amount", "quote_amount")
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    PRICE_FIELD_NUMBER: _ClassVar[int]
    AMOUNT_FIELD_NUMBER: _ClassVar[int]
    QUOTE_AMOUNT_FIELD_NUMBER: _ClassVar[int]
    timestamp: Timestamp
    id: str
    price: float
    amount: float
    quote_amount: float
    def __init__(self, timestamp: _Optional[_Union[Timestamp, _Mapping]] = ..., id: _Optional[str] = ..., price: _Optional[float] = ..., amount: _Optional[float] = ..., quote_amount: _Optional[float] = ...) -> None: ...

class Candle(_message.Message):
    __slots__ = ("timestamp", "open", "high", "low", "close", "volume", "firstTimestamp", "lastTimestamp", "coverage")
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    OPEN_FIELD_NUMBER: _ClassVar[int]
    HIGH_FIELD_NUMBER: _ClassVar[int]
    LOW_FIELD_NUMBER: _ClassVar[int]
    CLOSE_FIELD_NUMBER: _ClassVar[int]
    VOLUME_FIELD_NUMBER: _ClassVar[int]
    FIRSTTIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    LASTTIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    COVERAGE_FIELD_NUMBER: _ClassVar[int]
    timestamp: Timestamp
    open: float
    high: float
    low: float
    close: float
    volume: float
    firstTimestamp: Timestamp
    lastTimestamp: Timestamp
    coverage: float
    def __init__(self, timestamp: _Optional[_Union[Timestamp, _Mapping]] = ..., open: _Optional[float] = ..., high: _Optional[float] = ..., low: _Optional[float] = ..., close: _Optional[float] = ..., volume: _Optional[float] = ..., firstTimestamp: _Optional[_Union[Timestamp, _Mapping]] = ..., lastTimestamp: _Optional[_Union[Timestamp, _Mapping]] = ..., coverage: _Optional[float] = ...) -> None: ...

class OpenInterest(_message.Message):
    __slots__ = ("timestamp", "open", "high", "low", "close", "coverage")
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    OPEN_FIELD_NUMBER: _ClassVar[int]
    HIGH_FIELD_NUMBER: _ClassVar[int]
    LOW_FIELD_NUMBER: _ClassVar[int]
    CLOSE_FIELD_NUMBER: _ClassVar[int]
    COVERAGE_FIELD_NUMBER: _ClassVar[int]
    timestamp: Timestamp
    open: float
    high: float
    low: float
    close: float
    coverage: float
    def __init__(self, timestamp: _Optional[_Union[Timestamp, _Mapping]] = ..., open: _Optional[float] = ..., high: _Optional[float] = ..., low: _Optional[float] = ..., close: _Optional[float] = ..., coverage: _Optional[float] = ...) -> None: ...

class FundingRate(_message.Message):
    __slots__ = ("timestamp", "rateOpen", "rateHigh", "rateLow", "rateClose", "predictedOpen", "predictedHigh", "predictedLow", "predictedClose", "coverage")
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    RATEOPEN_FIELD_NUMBER: _ClassVar[int]
    RATEHIGH_FIELD_NUMBER: _ClassVar[int]
    RATELOW_FIELD_NUMBER: _ClassVar[int]
    RATECLOSE_FIELD_NUMBER: _ClassVar[int]
    PREDICTEDOPEN_FIELD_NUMBER: _ClassVar[int]
    PREDICTEDHIGH_FIELD_NUMBER: _ClassVar[int]
    PREDICTEDLOW_FIELD_NUMBER: _ClassVar[int]
    PREDICTEDCLOSE_FIELD_NUMBER: _ClassVar[int]
    COVERAGE_FIELD_NUMBER: _ClassVar[int]
    timestamp: Timestamp
    rateOpen: float
    rateHigh: float
    rateLow: float
    rateClose: float
    predictedOpen: float
    predictedHigh: float
    predictedLow: float
    predictedClose: float
    coverage: float
    def __init__(self, timestamp: _Optional[_Union[Timestamp, _Mapping]] = ..., rateOpen: _Optional[float] = ..., rateHigh: _Optional[float] = ..., rateLow: _Optional[float] = ..., rateClose: _Optional[float] = ..., predictedOpen: _Optional[float] = ..., predictedHigh: _Optional[float] = ..., predictedLow: _Optional[float] = ..., predictedClose: _Optional[float] = ..., coverage: _Optional[float] = ...) -> None: ...

class Liquidation(_message.Message):
    __slots__ = ("timestamp", "liquidations", "coverage")
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    LIQUIDATIONS_FIELD_NUMBER: _ClassVar[int]
    COVERAGE_FIELD_NUMBER: _ClassVar[int]
    timestamp: Timestamp
    liquidations: float
    coverage: float
    def __init__(self, timestamp: _Optional[_Union[Timestamp, _Mapping]] = ..., liquidations: _Optional[float] = ..., coverage: _Optional[float] = ...) -> None: ...

class TokenSupply(_message.Message):
    __slots__ = ("timestamp", "marketcap", "firstMarketcap", "marketcapDominancePercent", "circulatingSupply", "totalSupply", "maxSupply", "totalValueLocked", "fullyDilutedValuation", "totalVolume", "usdPrice", "cgMarketcapRank", "chain", "contractAddress")
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    MARKETCAP_FIELD_NUMBER: _ClassVar[int]
    FIRSTMARKETCAP_FIELD_NUMBER: _ClassVar[int]
    MARKETCAPDOMINANCEPERCENT_FIELD_NUMBER: _ClassVar[int]
    CIRCULATINGSUPPLY_FIELD_NUMBER: _ClassVar[int]
    TOTALSUPPLY_FIELD_NUMBER: _ClassVar[int]
    MAXSUPPLY_FIELD_NUMBER: _ClassVar[int]
    TOTALVALUELOCKED_FIELD_NUMBER: _ClassVar[int]
    FULLYDILUTEDVALUATION_FIELD_NUMBER: _ClassVar[int]
    TOTALVOLUME_FIELD_NUMBER: _ClassVar[int]
    USDPRICE_FIELD_NUMBER: _ClassVar[int]
    CGMARKETCAPRANK_FIELD_NUMBER: _ClassVar[int]
    CHAIN_FIELD_NUMBER: _ClassVar[int]
    CONTRACTADDRESS_FIELD_NUMBER: _ClassVar[int]
    timestamp: Timestamp
    marketcap: float
    firstMarketcap: float
    marketcapDominancePercent: float
    circulatingSupply: float
    totalSupply: float
    maxSupply: float
    totalValueLocked: float
    fullyDilutedValuation: float
    totalVolume: float
    usdPrice: float
    cgMarketcapRank: int
    chain: str
    contractAddress: str
    def __init__(self, timestamp: _Optional[_Union[Timestamp, _Mapping]] = ..., marketcap: _Optional[float] = ..., firstMarketcap: _Optional[float] = ..., marketcapDominancePercent: _Optional[float] = ..., circulatingSupply: _Optional[float] = ..., totalSupply: _Optional[float] = ..., maxSupply: _Optional[float] = ..., totalValueLocked: _Optional[float] = ..., fullyDilutedValuation: _Optional[float] = ..., totalVolume: _Optional[float] = ..., usdPrice: _Optional[float] = ..., cgMarketcapRank: _Optional[int] = ..., chain: _Optional[str] = ..., contractAddress: _Optional[str] = ...) -> None: ...

class ImpliedVolatility(_message.Message):
    __slots__ = ("timestamp", "impliedVolatility")
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    IMPLIEDVOLATILITY_FIELD_NUMBER: _ClassVar[int]
    timestamp: Timestamp
    impliedVolatility: float
    def __init__(self, timestamp: _Optional[_Union[Timestamp, _Mapping]] = ..., impliedVolatility: _Optional[float] = ...) -> None: ...

class Skew(_message.Message):
    __slots__ = ("timestamp", "skew")
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    SKEW_FIELD_NUMBER: _ClassVar[int]
    timestamp: Timestamp
    skew: float
    def __init__(self, timestamp: _Optional[_Union[Timestamp, _Mapping]] = ..., skew: _Optional[float] = ...) -> None: ...

class VolumeProfile(_message.Message):
    __slots__ = ("timestamp", "profile", "coverage", "levelVolumes")
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    PROFILE_FIELD_NUMBER: _ClassVar[int]
    COVERAGE_FIELD_NUMBER: _ClassVar[int]
    LEVELVOLUMES_FIELD_NUMBER: _ClassVar[int]
    timestamp: Timestamp
    profile: _containers.RepeatedScalarFieldContainer[float]
    coverage: float
    levelVolumes: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, timestamp: _Optional[_Union[Timestamp, _Mapping]] = ..., profile: _Optional[_Iterable[float]] = ..., coverage: _Optional[float] = ..., levelVolumes: _Optional[_Iterable[float]] = ...) -> None: ...

class TPOLevel(_message.Message):
    __slots__ = ("price", "block_ids", "buy_volume", "sell_volume", "tpo_count", "volume", "first_touch_block", "last_touch_block")
    PRICE_FIELD_NUMBER: _ClassVar[int]
    BLOCK_IDS_FIELD_NUMBER: _ClassVar[int]
    BUY_VOLUME_FIELD_NUMBER: _ClassVar[int]
    SELL_VOLUME_FIELD_NUMBER: _ClassVar[int]
    TPO_COUNT_FIELD_NUMBER: _ClassVar[int]
    VOLUME_FIELD_NUMBER: _ClassVar[int]
    FIRST_TOUCH_BLOCK_FIELD_NUMBER: _ClassVar[int]
    LAST_TOUCH_BLOCK_FIELD_NUMBER: _ClassVar[int]
    price: float
    block_ids: _containers.RepeatedScalarFieldContainer[int]
    buy_volume: float
    sell_volume: float
    tpo_count: int
    volume: float
    first_touch_block: int
    last_touch_block: int
    def __init__(self, price: _Optional[float] = ..., block_ids: _Optional[_Iterable[int]] = ..., buy_volume: _Optional[float] = ..., sell_volume: _Optional[float] = ..., tpo_count: _Optional[int] = ..., volume: _Optional[float] = ..., first_touch_block: _Optional[int] = ..., last_touch_block: _Optional[int] = ...) -> None: ...

class TpoAggregation(_message.Message):
    __slots__ = ("timestamp", "period_start", "period_end", "block_size_minutes", "poc_price", "vah_price", "val_price", "profile_high", "profile_low", "opening_price", "closing_price", "ibr_high", "ibr_low", "total_tpo_count", "value_area_percentage", "poor_highs", "poor_lows", "total_volume", "single_prints", "levels", "coverage")
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    PERIOD_START_FIELD_NUMBER: _ClassVar[int]
    PERIOD_END_FIELD_NUMBER: _ClassVar[int]
    BLOCK_SIZE_MINUTES_FIELD_NUMBER: _ClassVar[int]
    POC_PRICE_FIELD_NUMBER: _ClassVar[int]
    VAH_PRICE_FIELD_NUMBER: _ClassVar[int]
    VAL_PRICE_FIELD_NUMBER: _ClassVar[int]
    PROFILE_HIGH_FIELD_NUMBER: _ClassVar[int]
    PROFILE_LOW_FIELD_NUMBER: _ClassVar[int]
    OPENING_PRICE_FIELD_NUMBER: _ClassVar[int]
    CLOSING_PRICE_FIELD_NUMBER: _ClassVar[int]
    IBR_HIGH_FIELD_NUMBER: _ClassVar[int]
    IBR_LOW_FIELD_NUMBER: _ClassVar[int]
    TOTAL_TPO_COUNT_FIELD_NUMBER: _ClassVar[int]
    VALUE_AREA_PERCENTAGE_FIELD_NUMBER: _ClassVar[int]
    POOR_HIGHS_FIELD_NUMBER: _ClassVar[int]
    POOR_LOWS_FIELD_NUMBER: _ClassVar[int]
    TOTAL_VOLUME_FIELD_NUMBER: _ClassVar[int]
    SINGLE_PRINTS_FIELD_NUMBER: _ClassVar[int]
    LEVELS_FIELD_NUMBER: _ClassVar[int]
    COVERAGE_FIELD_NUMBER: _ClassVar[int]
    timestamp: Timestamp
    period_start: Timestamp
    period_end: Timestamp
    block_size_minutes: int
    poc_price: float
    vah_price: float
    val_price: float
    profile_high: float
    profile_low: float
    opening_price: float
    closing_price: float
    ibr_high: float
    ibr_low: float
    total_tpo_count: int
    value_area_percentage: float
    poor_highs: _containers.RepeatedScalarFieldContainer[float]
    poor_lows: _containers.RepeatedScalarFieldContainer[float]
    total_volume: float
    single_prints: _containers.RepeatedScalarFieldContainer[float]
    levels: _containers.RepeatedCompositeFieldContainer[TPOLevel]
    coverage: float
    def __init__(self, timestamp: _Optional[_Union[Timestamp, _Mapping]] = ..., period_start: _Optional[_Union[Timestamp, _Mapping]] = ..., period_end: _Optional[_Union[Timestamp, _Mapping]] = ..., block_size_minutes: _Optional[int] = ..., poc_price: _Optional[float] = ..., vah_price: _Optional[float] = ..., val_price: _Optional[float] = ..., profile_high: _Optional[float] = ..., profile_low: _Optional[float] = ..., opening_price: _Optional[float] = ..., closing_price: _Optional[float] = ..., ibr_high: _Optional[float] = ..., ibr_low: _Optional[float] = ..., total_tpo_count: _Optional[int] = ..., value_area_percentage: _Optional[float] = ..., poor_highs: _Optional[_Iterable[float]] = ..., poor_lows: _Optional[_Iterable[float]] = ..., total_volume: _Optional[float] = ..., single_prints: _Optional[_Iterable[float]] = ..., levels: _Optional[_Iterable[_Union[TPOLevel, _Mapping]]] = ..., coverage: _Optional[float] = ...) -> None: ...

class LiquidationHeatmap(_message.Message):
    __slots__ = ("timestamp", "coin", "levels")
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    COIN_FIELD_NUMBER: _ClassVar[int]
    LEVELS_FIELD_NUMBER: _ClassVar[int]
    timestamp: Timestamp
    coin: str
    levels: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, timestamp: _Optional[_Union[Timestamp, _Mapping]] = ..., coin: _Optional[str] = ..., levels: _Optional[_Iterable[float]] = ...) -> None: ...

class BookSnapshot(_message.Message):
    __slots__ = ("timestamp", "bids", "asks", "coverage")
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    BIDS_FIELD_NUMBER: _ClassVar[int]
    ASKS_FIELD_NUMBER: _ClassVar[int]
    COVERAGE_FIELD_NUMBER: _ClassVar[int]
    timestamp: Timestamp
    bids: _containers.RepeatedScalarFieldContainer[float]
    asks: _containers.RepeatedScalarFieldContainer[float]
    coverage: float
    def __init__(self, timestamp: _Optional[_Union[Timestamp, _Mapping]] = ..., bids: _Optional[_Iterable[float]] = ..., asks: _Optional[_Iterable[float]] = ..., coverage: _Optional[float] = ...) -> None: ...

class FuturesOpenInterest(_message.Message):
    __slots__ = ("timestamp", "open", "high", "low", "close", "valueOpen", "valueHigh", "valueLow", "valueClose", "priceOpen", "priceHigh", "priceLow", "priceClose")
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    OPEN_FIELD_NUMBER: _ClassVar[int]
    HIGH_FIELD_NUMBER: _ClassVar[int]
    LOW_FIELD_NUMBER: _ClassVar[int]
    CLOSE_FIELD_NUMBER: _ClassVar[int]
    VALUEOPEN_FIELD_NUMBER: _ClassVar[int]
    VALUEHIGH_FIELD_NUMBER: _ClassVar[int]
    VALUELOW_FIELD_NUMBER: _ClassVar[int]
    VALUECLOSE_FIELD_NUMBER: _ClassVar[int]
    PRICEOPEN_FIELD_NUMBER: _ClassVar[int]
    PRICEHIGH_FIELD_NUMBER: _ClassVar[int]
    PRICELOW_FIELD_NUMBER: _ClassVar[int]
    PRICECLOSE_FIELD_NUMBER: _ClassVar[int]
    timestamp: Timestamp
    open: float
    high: float
    low: float
    close: float
    valueOpen: float
    valueHigh: float
    valueLow: float
    valueClose: float
    priceOpen: float
    priceHigh: float
    priceLow: float
    priceClose: float
    def __init__(self, timestamp: _Optional[_Union[Timestamp, _Mapping]] = ..., open: _Optional[float] = ..., high: _Optional[float] = ..., low: _Optional[float] = ..., close: _Optional[float] = ..., valueOpen: _Optional[float] = ..., valueHigh: _Optional[float] = ..., valueLow: _Optional[float] = ..., valueClose: _Optional[float] = ..., priceOpen: _Optional[float] = ..., priceHigh: _Optional[float] = ..., priceLow: _Optional[float] = ..., priceClose: _Optional[float] = ...) -> None: ...

class OptionOpenInterest(_message.Message):
    __slots__ = ("timestamp", "underlyingPriceClose", "oiClose")
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    UNDERLYINGPRICECLOSE_FIELD_NUMBER: _ClassVar[int]
    OICLOSE_FIELD_NUMBER: _ClassVar[int]
    timestamp: Timestamp
    underlyingPriceClose: float
    oiClose: float
    def __init__(self, timestamp: _Optional[_Union[Timestamp, _Mapping]] = ..., underlyingPriceClose: _Optional[float] = ..., oiClose: _Optional[float] = ...) -> None: ...

class Note(_message.Message):
    __slots__ = ("code", "type", "exchange", "rawSymbol", "coin", "first", "last", "types", "intervals", "tenors", "parameters", "exchanges", "renamedFrom", "renamedTo", "renamedAt")
    CODE_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    EXCHANGE_FIELD_NUMBER: _ClassVar[int]
    RAWSYMBOL_FIELD_NUMBER: _ClassVar[int]
    COIN_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    TYPES_FIELD_NUMBER: _ClassVar[int]
    INTERVALS_FIELD_NUMBER: _ClassVar[int]
    TENORS_FIELD_NUMBER: _ClassVar[int]
    PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    EXCHANGES_FIELD_NUMBER: _ClassVar[int]
    RENAMEDFROM_FIELD_NUMBER: _ClassVar[int]
    RENAMEDTO_FIELD_NUMBER: _ClassVar[int]
    RENAMEDAT_FIELD_NUMBER: _ClassVar[int]
    code: NoteCode
    type: PointType
    exchange: str
    rawSymbol: str
    coin: str
    first: Timestamp
    last: Timestamp
    types: _containers.RepeatedScalarFieldContainer[PointType]
    intervals: _containers.RepeatedScalarFieldContainer[Interval]
    tenors: _containers.RepeatedScalarFieldContainer[Tenor]
    parameters: _containers.RepeatedScalarFieldContainer[str]
    exchanges: _containers.RepeatedScalarFieldContainer[str]
    renamedFrom: str
    renamedTo: str
    renamedAt: Timestamp
    def __init__(self, code: _Optional[_Union[NoteCode, str]] = ..., type: _Optional[_Union[PointType, str]] = ..., exchange: _Optional[str] = ..., rawSymbol: _Optional[str] = ..., coin: _Optional[str] = ..., first: _Optional[_Union[Timestamp, _Mapping]] = ..., last: _Optional[_Union[Timestamp, _Mapping]] = ..., types: _Optional[_Iterable[_Union[PointType, str]]] = ..., intervals: _Optional[_Iterable[_Union[Interval, str]]] = ..., tenors: _Optional[_Iterable[_Union[Tenor, str]]] = ..., parameters: _Optional[_Iterable[str]] = ..., exchanges: _Optional[_Iterable[str]] = ..., renamedFrom: _Optional[str] = ..., renamedTo: _Optional[str] = ..., renamedAt: _Optional[_Union[Timestamp, _Mapping]] = ...) -> None: ...

class PointBatch(_message.Message):
    __slots__ = ("revision", "final", "update", "over", "token", "end")
    class OverEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: Timestamp
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[Timestamp, _Mapping]] = ...) -> None: ...
    class End(_message.Message):
        __slots__ = ("code", "message")
        CODE_FIELD_NUMBER: _ClassVar[int]
        MESSAGE_FIELD_NUMBER: _ClassVar[int]
        code: str
        message: str
        def __init__(self, code: _Optional[str] = ..., message: _Optional[str] = ...) -> None: ...
    REVISION_FIELD_NUMBER: _ClassVar[int]
    FINAL_FIELD_NUMBER: _ClassVar[int]
    UPDATE_FIELD_NUMBER: _ClassVar[int]
    OVER_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    revision: _containers.RepeatedCompositeFieldContainer[Series]
    final: _containers.RepeatedCompositeFieldContainer[Series]
    update: _containers.RepeatedCompositeFieldContainer[Series]
    over: _containers.MessageMap[str, Timestamp]
    token: str
    end: PointBatch.End
    def __init__(self, revision: _Optional[_Iterable[_Union[Series, _Mapping]]] = ..., final: _Optional[_Iterable[_Union[Series, _Mapping]]] = ..., update: _Optional[_Iterable[_Union[Series, _Mapping]]] = ..., over: _Optional[_Mapping[str, Timestamp]] = ..., token: _Optional[str] = ..., end: _Optional[_Union[PointBatch.End, _Mapping]] = ...) -> None: ...

class PointMetaResponse(_message.Message):
    __slots__ = ("types", "exchanges", "categories", "coins", "rawSymbols", "normalizedSymbols", "tenors", "blockSizes")
    TYPES_FIELD_NUMBER: _ClassVar[int]
    EXCHANGES_FIELD_NUMBER: _ClassVar[int]
    CATEGORIES_FIELD_NUMBER: _ClassVar[int]
    COINS_FIELD_NUMBER: _ClassVar[int]
    RAWSYMBOLS_FIELD_NUMBER: _ClassVar[int]
    NORMALIZEDSYMBOLS_FIELD_NUMBER: _ClassVar[int]
    TENORS_FIELD_NUMBER: _ClassVar[int]
    BLOCKSIZES_FIELD_NUMBER: _ClassVar[int]
    types: _containers.RepeatedScalarFieldContainer[PointType]
    exchanges: _containers.RepeatedScalarFieldContainer[str]
    categories: _containers.RepeatedScalarFieldContainer[Category]
    coins: _containers.RepeatedScalarFieldContainer[str]
    rawSymbols: _containers.RepeatedScalarFieldContainer[str]
    normalizedSymbols: _containers.RepeatedScalarFieldContainer[str]
    tenors: _containers.RepeatedScalarFieldContainer[Tenor]
    blockSizes: _containers.RepeatedCompositeFieldContainer[BlockSize]
    def __init__(self, types: _Optional[_Iterable[_Union[PointType, str]]] = ..., exchanges: _Optional[_Iterable[str]] = ..., categories: _Optional[_Iterable[_Union[Category, str]]] = ..., coins: _Optional[_Iterable[str]] = ..., rawSymbols: _Optional[_Iterable[str]] = ..., normalizedSymbols: _Optional[_Iterable[str]] = ..., tenors: _Optional[_Iterable[_Union[Tenor, str]]] = ..., blockSizes: _Optional[_Iterable[_Union[BlockSize, _Mapping]]] = ...) -> None: ...

class BlockSize(_message.Message):
    __slots__ = ("exchange", "rawSymbol", "blockSize")
    EXCHANGE_FIELD_NUMBER: _ClassVar[int]
    RAWSYMBOL_FIELD_NUMBER: _ClassVar[int]
    BLOCKSIZE_FIELD_NUMBER: _ClassVar[int]
    exchange: str
    rawSymbol: str
    blockSize: float
    def __init__(self, exchange: _Optional[str] = ..., rawSymbol: _Optional[str] = ..., blockSize: _Optional[float] = ...) -> None: ...

class MarketResponse(_message.Message):
    __slots__ = ("symbols", "nextOffset")
    SYMBOLS_FIELD_NUMBER: _ClassVar[int]
    NEXTOFFSET_FIELD_NUMBER: _ClassVar[int]
    symbols: _containers.RepeatedCompositeFieldContainer[Market]
    nextOffset: int
    def __init__(self, symbols: _Optional[_Iterable[_Union[Market, _Mapping]]] = ..., nextOffset: _Optional[int] = ...) -> None: ...

class Market(_message.Message):
    __slots__ = ("exchange", "rawSymbol", "normalizedSymbol", "coin", "category", "tenor", "coinName", "quoteCoinName", "fullName", "lastPrice", "volume24h", "volumeChange24h", "priceChange24h", "oiChange24h", "marketcap", "iconUrl", "availableSince", "predictionMarkets", "factor", "renamedTo", "renamedAt", "session")
    EXCHANGE_FIELD_NUMBER: _ClassVar[int]
    RAWSYMBOL_FIELD_NUMBER: _ClassVar[int]
    NORMALIZEDSYMBOL_FIELD_NUMBER: _ClassVar[int]
    COIN_FIELD_NUMBER: _ClassVar[int]
    CATEGORY_FIELD_NUMBER: _ClassVar[int]
    TENOR_FIELD_NUMBER: _ClassVar[int]
    COINNAME_FIELD_NUMBER: _ClassVar[int]
    QUOTECOINNAME_FIELD_NUMBER: _ClassVar[int]
    FULLNAME_FIELD_NUMBER: _ClassVar[int]
    LASTPRICE_FIELD_NUMBER: _ClassVar[int]
    VOLUME24H_FIELD_NUMBER: _ClassVar[int]
    VOLUMECHANGE24H_FIELD_NUMBER: _ClassVar[int]
    PRICECHANGE24H_FIELD_NUMBER: _ClassVar[int]
    OICHANGE24H_FIELD_NUMBER: _ClassVar[int]
    MARKETCAP_FIELD_NUMBER: _ClassVar[int]
    ICONURL_FIELD_NUMBER: _ClassVar[int]
    AVAILABLESINCE_FIELD_NUMBER: _ClassVar[int]
    PREDICTIONMARKETS_FIELD_NUMBER: _ClassVar[int]
    FACTOR_FIELD_NUMBER: _ClassVar[int]
    RENAMEDTO_FIELD_NUMBER: _ClassVar[int]
    RENAMEDAT_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    exchange: str
    rawSymbol: str
    normalizedSymbol: str
    coin: str
    category: Category
    tenor: Tenor
    coinName: str
    quoteCoinName: str
    fullName: str
    lastPrice: float
    volume24h: float
    volumeChange24h: float
    priceChange24h: float
    oiChange24h: float
    marketcap: float
    iconUrl: str
    availableSince: Timestamp
    predictionMarkets: _containers.RepeatedCompositeFieldContainer[PredictionMarket]
    factor: float
    renamedTo: str
    renamedAt: Timestamp
    session: str
    def __init__(self, exchange: _Optional[str] = ..., rawSymbol: _Optional[str] = ..., normalizedSymbol: _Optional[str] = ..., coin: _Optional[str] = ..., category: _Optional[_Union[Category, str]] = ..., tenor: _Optional[_Union[Tenor, str]] = ..., coinName: _Optional[str] = ..., quoteCoinName: _Optional[str] = ..., fullName: _Optional[str] = ..., lastPrice: _Optional[float] = ..., volume24h: _Optional[float] = ..., volumeChange24h: _Optional[float] = ..., priceChange24h: _Optional[float] = ..., oiChange24h: _Optional[float] = ..., marketcap: _Optional[float] = ..., iconUrl: _Optional[str] = ..., availableSince: _Optional[_Union[Timestamp, _Mapping]] = ..., predictionMarkets: _Optional[_Iterable[_Union[PredictionMarket, _Mapping]]] = ..., factor: _Optional[float] = ..., renamedTo: _Optional[str] = ..., renamedAt: _Optional[_Union[Timestamp, _Mapping]] = ..., session: _Optional[str] = ...) -> None: ...

class PredictionMarket(_message.Message):
    __slots__ = ("slug", "question", "groupItemTitle", "outcomes", "lastPrice", "oneDayPriceChange", "prices", "totalVolume", "buyVolume24H", "sellVolume24H", "volumeChange24H", "openInterest", "oneDayOIChange", "uniqueTraders", "orderPriceMinTickSize", "conditionId", "closed", "availableSince", "availableTo", "sportsMarketType", "line", "outcome")
    SLUG_FIELD_NUMBER: _ClassVar[int]
    QUESTION_FIELD_NUMBER: _ClassVar[int]
    GROUPITEMTITLE_FIELD_NUMBER: _ClassVar[int]
    OUTCOMES_FIELD_NUMBER: _ClassVar[int]
    LASTPRICE_FIELD_NUMBER: _ClassVar[int]
    ONEDAYPRICECHANGE_FIELD_NUMBER: _ClassVar[int]
    PRICES_FIELD_NUMBER: _ClassVar[int]
    TOTALVOLUME_FIELD_NUMBER: _ClassVar[int]
    BUYVOLUME24H_FIELD_NUMBER: _ClassVar[int]
    SELLVOLUME24H_FIELD_NUMBER: _ClassVar[int]
    VOLUMECHANGE24H_FIELD_NUMBER: _ClassVar[int]
    OPENINTEREST_FIELD_NUMBER: _ClassVar[int]
    ONEDAYOICHANGE_FIELD_NUMBER: _ClassVar[int]
    UNIQUETRADERS_FIELD_NUMBER: _ClassVar[int]
    ORDERPRICEMINTICKSIZE_FIELD_NUMBER: _ClassVar[int]
    CONDITIONID_FIELD_NUMBER: _ClassVar[int]
    CLOSED_FIELD_NUMBER: _ClassVar[int]
    AVAILABLESINCE_FIELD_NUMBER: _ClassVar[int]
    AVAILABLETO_FIELD_NUMBER: _ClassVar[int]
    SPORTSMARKETTYPE_FIELD_NUMBER: _ClassVar[int]
    LINE_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    slug: str
    question: str
    groupItemTitle: str
    outcomes: _containers.RepeatedScalarFieldContainer[str]
    lastPrice: float
    oneDayPriceChange: float
    prices: _containers.RepeatedScalarFieldContainer[float]
    totalVolume: float
    buyVolume24H: float
    sellVolume24H: float
    volumeChange24H: float
    openInterest: float
    oneDayOIChange: float
    uniqueTraders: float
    orderPriceMinTickSize: float
    conditionId: str
    closed: bool
    availableSince: Timestamp
    availableTo: Timestamp
    sportsMarketType: str
    line: float
    outcome: str
    def __init__(self, slug: _Optional[str] = ..., question: _Optional[str] = ..., groupItemTitle: _Optional[str] = ..., outcomes: _Optional[_Iterable[str]] = ..., lastPrice: _Optional[float] = ..., oneDayPriceChange: _Optional[float] = ..., prices: _Optional[_Iterable[float]] = ..., totalVolume: _Optional[float] = ..., buyVolume24H: _Optional[float] = ..., sellVolume24H: _Optional[float] = ..., volumeChange24H: _Optional[float] = ..., openInterest: _Optional[float] = ..., oneDayOIChange: _Optional[float] = ..., uniqueTraders: _Optional[float] = ..., orderPriceMinTickSize: _Optional[float] = ..., conditionId: _Optional[str] = ..., closed: bool = ..., availableSince: _Optional[_Union[Timestamp, _Mapping]] = ..., availableTo: _Optional[_Union[Timestamp, _Mapping]] = ..., sportsMarketType: _Optional[str] = ..., line: _Optional[float] = ..., outcome: _Optional[str] = ...) -> None: ...

class UsageResponse(_message.Message):
    __slots__ = ("limit", "remaining", "used", "reset", "window_seconds")
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    REMAINING_FIELD_NUMBER: _ClassVar[int]
    USED_FIELD_NUMBER: _ClassVar[int]
    RESET_FIELD_NUMBER: _ClassVar[int]
    WINDOW_SECONDS_FIELD_NUMBER: _ClassVar[int]
    limit: int
    remaining: int
    used: int
    reset: int
    window_seconds: int
    def __init__(self, limit: _Optional[int] = ..., remaining: _Optional[int] = ..., used: _Optional[int] = ..., reset: _Optional[int] = ..., window_seconds: _Optional[int] = ...) -> None: ...
