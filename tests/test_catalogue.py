"""The catalogue, held against the service specification: every expected value is typed in from its tables."""

from __future__ import annotations

import pytest

from tables import each_row
from tidytape import catalogue
from tidytape.catalogue import DATA_TYPES, Field

# Specification, "Data type catalogue" and "PointType numbers": multiplier, max points, tier, number.
# The last three types are only named there; they are weighed as 1x, 100,000 points, all tiers.
LIMITS = {
    "TRADE_SIDE_AGNOSTIC_AGG": (1, 100_000, "BASIC", 107),
    "TRADE_AGG": (1, 100_000, "BASIC", 9),
    "OPEN_INTEREST_AGG": (1, 100_000, "BASIC", 10),
    "FUNDING_RATE_AGG": (1, 100_000, "BASIC", 11),
    "LIQUIDATION_AGG": (1, 100_000, "BASIC", 12),
    "TOKEN_SUPPLY_AGG": (1, 100_000, "ADVANCED", None),
    "IMPLIED_VOLATILITY_OPTION_SUMMARY_AGG": (1, 100_000, "ADVANCED", None),
    "SKEW_OPTION_SUMMARY_AGG": (1, 100_000, "ADVANCED", None),
    "VOLUME_PROFILE_AGG": (2, 20_000, "BASIC", None),
    "TPO_AGG": (5, 20_000, "BASIC", None),
    "VENUEX_LIQUIDATION_AGG": (5, 5_000, "ADVANCED", 147),
    "BLOCK_BOOK_SNAPSHOT_AGG": (10, 4_000, "BASIC", None),
    "TRADE": (1, 100_000, "BASIC", 1),
    "CME_OPEN_INTEREST_AGG": (1, 100_000, "BASIC", 19),
    "OPTION_OPEN_INTEREST_AGG": (1, 100_000, "BASIC", 59),
}

SUM = "GROUP_BY_TYPE_SUM"
WEIGHTED = "GROUP_BY_TYPE_OPEN_INTEREST_WEIGHTED_AVG"

# Specification, "Capabilities" and what `transform.normalize.quote` applies to:
# USD, group by, whether grouping wants `coin` rather than `rawSymbol`, gapfill.
CAPABILITIES = {
    "TRADE_SIDE_AGNOSTIC_AGG": (True, SUM, True, True),
    "TRADE_AGG": (True, SUM, True, True),
    "OPEN_INTEREST_AGG": (True, SUM, False, False),
    "FUNDING_RATE_AGG": (False, WEIGHTED, False, False),
    "LIQUIDATION_AGG": (True, SUM, False, False),
    "VOLUME_PROFILE_AGG": (True, SUM, False, False),
    "TPO_AGG": (True, SUM, True, False),
    "BLOCK_BOOK_SNAPSHOT_AGG": (True, SUM, False, False),
    "SKEW_OPTION_SUMMARY_AGG": (False, None, False, False),
    "VENUEX_LIQUIDATION_AGG": (True, None, False, False),
    "TOKEN_SUPPLY_AGG": (False, None, False, False),
    "IMPLIED_VOLATILITY_OPTION_SUMMARY_AGG": (False, None, False, False),
    "TRADE": (False, None, False, False),
    "CME_OPEN_INTEREST_AGG": (False, None, False, False),
    "OPTION_OPEN_INTEREST_AGG": (False, None, False, False),
}

# Specification, "Point payloads", and for those it does not show "Payloads not shown": wire name, kind.
CANDLE = """timestamp timestamp, open double, high double, low double, close double, volume double,
    firstTimestamp timestamp, lastTimestamp timestamp"""
PAYLOADS = {
    "TRADE_SIDE_AGNOSTIC_AGG": CANDLE,
    "TRADE_AGG": CANDLE,
    "OPEN_INTEREST_AGG": "timestamp timestamp, open double, high double, low double, close double",
    "FUNDING_RATE_AGG": """timestamp timestamp,
        rateOpen double, rateHigh double, rateLow double, rateClose double,
        predictedOpen double, predictedHigh double, predictedLow double, predictedClose double""",
    "LIQUIDATION_AGG": "timestamp timestamp, liquidations double",
    "SKEW_OPTION_SUMMARY_AGG": "timestamp timestamp, skew double",
    "IMPLIED_VOLATILITY_OPTION_SUMMARY_AGG": "timestamp timestamp, impliedVolatility double",
    "TRADE": "timestamp timestamp, id string, price double, amount double, quote_amount double",
    "CME_OPEN_INTEREST_AGG": """timestamp timestamp, open double, high double, low double, close double,
        valueOpen double, valueHigh double, valueLow double, valueClose double,
        priceOpen double, priceHigh double, priceLow double, priceClose double""",
    "OPTION_OPEN_INTEREST_AGG": "timestamp timestamp, underlyingPriceClose double, oiClose double",
    "TOKEN_SUPPLY_AGG": """timestamp timestamp, marketcap double, firstMarketcap double,
        marketcapDominancePercent double, circulatingSupply double, totalSupply double, maxSupply double,
        totalValueLocked double, fullyDilutedValuation double, totalVolume double, usdPrice double,
        cgMarketcapRank int64, chain string, contractAddress string""",
    "VOLUME_PROFILE_AGG": "timestamp timestamp",
    "BLOCK_BOOK_SNAPSHOT_AGG": "timestamp timestamp",
    "VENUEX_LIQUIDATION_AGG": "timestamp timestamp, coin string",
}

# Arrays that become rows: name, values of one level, flat or objects, side of the book.
LEVELS = {
    "VOLUME_PROFILE_AGG": [("profile", ["price", "buyVolume", "sellVolume"], True, None)],
    "VENUEX_LIQUIDATION_AGG": [("levels", ["price", "liquidations"], True, None)],
    "BLOCK_BOOK_SNAPSHOT_AGG": [
        ("bids", ["price", "size"], True, "BID"),
        ("asks", ["price", "size"], True, "ASK"),
    ],
    "TPO_AGG": [
        (
            "levels",
            [
                *("price", "block_ids", "buy_volume", "sell_volume"),
                *("tpo_count", "volume", "first_touch_block", "last_touch_block"),
            ],
            False,
            None,
        )
    ],
}


def written(fields: tuple[Field, ...]) -> str:
    return ", ".join(f"{field.name} {field.kind}" for field in fields)


def test_types_are_the_specifications() -> None:
    assert set(DATA_TYPES) == set(LIMITS)
    assert all(kind.name == name for name, kind in DATA_TYPES.items())


@each_row(("name", "expected"), LIMITS.items())
def test_limits_of_a_type(name: str, expected: tuple[int, int, str, int | None]) -> None:
    kind = DATA_TYPES[name]
    assert (kind.multiplier, kind.max_points, str(kind.tier), kind.number) == expected


@each_row(("name", "expected"), CAPABILITIES.items())
def test_capabilities_of_a_type(name: str, expected: tuple[bool, str | None, bool, bool]) -> None:
    kind = DATA_TYPES[name]
    group_by = None if kind.group_by is None else str(kind.group_by)
    wants_coin = group_by is not None and not kind.group_by_raw_symbol
    assert (kind.usd, group_by, wants_coin, kind.gapfill) == expected


def test_depth_is_weighed_for_two_types_only() -> None:
    depths = {
        name: kind.included_depth for name, kind in DATA_TYPES.items() if kind.included_depth is not None
    }
    assert depths == {"BLOCK_BOOK_SNAPSHOT_AGG": 3500, "VENUEX_LIQUIDATION_AGG": 1500}


def test_types_with_a_series_per_side() -> None:
    # The specification names TRADE_AGG and LIQUIDATION_AGG; raw trades have the side on the series id.
    assert {name for name, kind in DATA_TYPES.items() if kind.per_side} == {
        "TRADE_AGG",
        "LIQUIDATION_AGG",
        "TRADE",
    }


def test_types_with_a_series_per_tenor() -> None:
    assert {name for name, kind in DATA_TYPES.items() if kind.per_tenor} == {
        "IMPLIED_VOLATILITY_OPTION_SUMMARY_AGG",
        "SKEW_OPTION_SUMMARY_AGG",
    }


def test_only_raw_trades_need_no_interval() -> None:
    assert [name for name, kind in DATA_TYPES.items() if kind.interval_optional] == ["TRADE"]


def test_only_tpo_wraps_its_payload() -> None:
    envelopes = {name: kind.envelope for name, kind in DATA_TYPES.items() if kind.envelope is not None}
    assert envelopes == {"TPO_AGG": "TpoAggregation"}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("FUNDING_RATE_AGG", ["PERPETUAL"]),
        ("OPEN_INTEREST_AGG", ["PERPETUAL"]),
        ("TRADE_AGG", ["SPOT", "PERPETUAL"]),
    ],
)
def test_market_classes_of_a_type(name: str, expected: list[str]) -> None:
    assert [str(category) for category in DATA_TYPES[name].categories] == expected


@each_row(("name", "expected"), PAYLOADS.items())
def test_payload_of_a_type(name: str, expected: str) -> None:
    assert written(DATA_TYPES[name].fields) == " ".join(expected.split())


def test_payload_of_tpo() -> None:
    # The specification gives no kinds for the derived fields; the names are all it fixes.
    fields = DATA_TYPES["TPO_AGG"].fields
    assert written(fields[:3]) == "timestamp timestamp, period_start timestamp, period_end timestamp"
    assert [field.name for field in fields[3:]] == [
        *("block_size_minutes", "poc_price", "vah_price", "val_price", "profile_high", "profile_low"),
        *(
            "opening_price",
            "closing_price",
            "ibr_high",
            "ibr_low",
            "total_tpo_count",
            "value_area_percentage",
        ),
        *("poor_highs", "poor_lows", "total_volume", "single_prints"),
    ]


def test_level_of_tpo() -> None:
    documented = DATA_TYPES["TPO_AGG"].levels[0].fields[:4]
    assert written(documented) == "price double, block_ids int32[], buy_volume double, sell_volume double"


@each_row("name", sorted(LIMITS))
def test_levels_of_a_type(name: str) -> None:
    levels = [
        (one.name, [field.name for field in one.fields], one.flat, one.book_side and str(one.book_side))
        for one in DATA_TYPES[name].levels
    ]
    assert levels == LEVELS.get(name, [])


def test_every_field_is_documented() -> None:
    kinds = DATA_TYPES.values()
    fields = [field for kind in kinds for field in kind.fields]
    fields += [field for kind in kinds for levels in kind.levels for field in levels.fields]
    fields += [*catalogue.IDENTITY_FIELDS, *catalogue.MARKET_FIELDS, *catalogue.PREDICTION_MARKET_FIELDS]
    assert [field.name for field in fields if not field.doc] == []
    assert [field.name for field in fields if field.kind == "timestamp" and field.unit != "UTC"] == []


# --- entries ---


def test_series_identifier() -> None:
    assert written(catalogue.IDENTITY_FIELDS) == (
        "exchange string, rawSymbol string, normalizedSymbol string, coin string, category string, "
        "interval string, side string, tenor string"
    )


def test_market_entry() -> None:
    assert written(catalogue.MARKET_FIELDS) == (
        "exchange string, rawSymbol string, normalizedSymbol string, coin string, category string, "
        "tenor string, coinName string, quoteCoinName string, fullName string, lastPrice double, "
        "volume24h double, "
        "volumeChange24h double, priceChange24h double, oiChange24h double, marketcap double, "
        "iconUrl string, availableSince timestamp, "
        # Ours: what an exchange does to a symbol, and when the market trades.
        "factor double, renamedTo string, renamedAt timestamp, session string"
    )


def test_prediction_market_entry() -> None:
    assert written(catalogue.PREDICTION_MARKET_FIELDS) == (
        "slug string, question string, groupItemTitle string, outcomes string[], lastPrice double, "
        "oneDayPriceChange double, prices double[], totalVolume double, buyVolume24H double, "
        "sellVolume24H double, volumeChange24H double, openInterest double, oneDayOIChange double, "
        "uniqueTraders double, "
        "orderPriceMinTickSize double, conditionId string, closed bool, availableSince timestamp, "
        "availableTo timestamp, sportsMarketType string, line double, outcome string"
    )


@pytest.mark.parametrize("change", ["volumeChange24h", "priceChange24h"])
def test_percent_where_the_specification_says_percent(change: str) -> None:
    units = {field.name: field.unit for field in catalogue.MARKET_FIELDS}
    assert units[change] == "%"


# --- enumerations ---


def test_intervals() -> None:
    assert [(str(one), one.number, one.seconds, one.alias) for one in catalogue.Interval] == [
        ("MINUTE", 2, 60, "1m"),
        ("FIVE_MINUTES", 3, 300, "5m"),
        ("FIFTEEN_MINUTES", 4, 900, "15m"),
        ("THIRTY_MINUTES", None, 1_800, "30m"),
        ("HOUR", 5, 3_600, "1h"),
        ("FOUR_HOURS", 6, 14_400, "4h"),
        ("DAY", 7, 86_400, "1d"),
        ("WEEK", 8, 604_800, "1w"),
    ]


def test_categories() -> None:
    assert [(str(one), one.number) for one in catalogue.Category] == [
        ("SPOT", None),
        ("PERPETUAL", None),
        ("FUTURE", 3),
        ("OPTION", 4),
        ("COMBO", 5),
    ]


def test_sides() -> None:
    assert {str(one): one.number for one in catalogue.Side} == {"SELL": 1, "BUY": 2}


def test_tenors() -> None:
    assert [(str(one), one.alias) for one in catalogue.Tenor] == [
        ("ONE_D", "1d"),
        ("THREE_D", "3d"),
        ("ONE_W", "1w"),
        ("ONE_M", "1m"),
        ("TWO_M", "2m"),
        ("THREE_M", "3m"),
        ("SIX_M", "6m"),
        ("ONE_Y", "1y"),
    ]


def test_tenors_grow_in_days() -> None:
    assert [one.days for one in catalogue.Tenor] == [1, 3, 7, 30, 60, 90, 180, 365]


@each_row(
    ("kind", "expected"),
    [
        (catalogue.SortDirection, "SORT_DIRECTION_ASC SORT_DIRECTION_DESC"),
        (catalogue.TPOSession, "TPO_SESSION_DAILY TPO_SESSION_WEEKLY TPO_SESSION_MONTHLY"),
        (catalogue.GroupBy, "GROUP_BY_TYPE_SUM GROUP_BY_TYPE_OPEN_INTEREST_WEIGHTED_AVG"),
        (
            catalogue.MarketSortField,
            (
                "VOLUME_24H PRICE_CHANGE_24H PCT_FROM_ATH MARKET_SYMBOL_OI_CHANGE_24H "
                "MARKET_SYMBOL_ATR_PERCENT MARKET_SYMBOL_MARKETCAP AVAILABLE_SINCE"
            ),
        ),
        (catalogue.Quote, "USD"),
        (catalogue.TierName, "BASIC ADVANCED ENTERPRISE"),
    ],
)
def test_enumeration(kind: type, expected: str) -> None:
    assert " ".join(map(str, kind)) == expected


# --- constants and errors ---


def test_constants() -> None:
    assert catalogue.TPO_BLOCK_MINUTES == (5, 30, 60, 240)
    assert catalogue.DEFAULT_TPO_BLOCK_MINUTES == 30
    assert catalogue.DEFAULT_FUNDING_INTERVAL_MS == 28_800_000
    assert catalogue.POINTS_PER_WEIGHT == 1_000
    assert catalogue.WEIGHT_WINDOW_SECONDS == 60


def test_error_codes_and_statuses() -> None:
    assert dict(catalogue.ERROR_STATUS) == {
        "INVALID_API_KEY": 401,
        "INVALID_PARAMS": 400,
        "INVALID_TYPE": 400,
        "INVALID_EXCHANGE": 400,
        "INVALID_SYMBOL": 400,
        "INVALID_INTERVAL": 400,
        "UNSUPPORTED": 400,
        "TYPE_NOT_PERMITTED": 403,
        "HISTORY_NOT_PERMITTED": 403,
        "AGGREGATION_NOT_PERMITTED": 403,
        "POINT_LIMIT_EXCEEDED": 403,
        "NOT_FOUND": 404,
        "METHOD_NOT_ALLOWED": 405,
        "RATE_LIMITED": 429,
        "INTERNAL_ERROR": 500,
        "INVALID_REQUEST": 400,  # ours, as are the next three: what the specification has no word for
        "URI_TOO_LONG": 414,
        "HEADERS_TOO_LONG": 431,
        "UNAVAILABLE": 503,
        "TIMEOUT": 504,
        "STREAM_LIMIT_EXCEEDED": 403,  # ours, of streams
        "TOKEN_EXPIRED": 410,
    }


@pytest.mark.parametrize("table", ["DATA_TYPES", "ERROR_STATUS"])
def test_tables_cannot_be_changed(table: str) -> None:
    with pytest.raises(TypeError, match="does not support item assignment"):
        getattr(catalogue, table)["X"] = 1
