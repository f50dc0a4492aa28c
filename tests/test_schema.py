"""One tidy shape per data type: columns, dtypes and keys typed in by hand, and frames made to fit them."""

from __future__ import annotations

from datetime import UTC, date, datetime

import numpy as np
import pandas as pd
import polars as pl
import pytest

from tables import each_row
from tidytape.catalogue import DATA_TYPES
from tidytape.errors import DecodeError, MissingColumnError, QueryError
from tidytape.schema import (
    BLOCK_SIZES,
    MARKETS,
    PREDICTION_MARKET_ENTRY,
    PREDICTION_MARKETS,
    TPO_SESSIONS,
    Schema,
    column_name,
    data_type,
    schema_of,
    wire_schema,
)

SERIES = "exchange raw_symbol normalized_symbol coin category interval"
AMOUNTS = "amount_unit is_final"
LEVELS = "amount_unit block_size is_final"
OTHER = "normalized_symbol coin category interval"  # identity beside the market
MARKET = f"timestamp exchange raw_symbol {OTHER}"
SIDED = f"timestamp exchange raw_symbol side {OTHER}"
OF_TENOR = f"timestamp exchange raw_symbol tenor {OTHER}"
OF_COIN = "timestamp exchange raw_symbol coin normalized_symbol category interval"
CANDLE = "first_timestamp last_timestamp open high low close volume"

COLUMNS = {
    "TRADE": f"{SIDED} amount_unit id price amount quote_amount",
    "TRADE_SIDE_AGNOSTIC_AGG": f"{MARKET} {AMOUNTS} {CANDLE}",
    "TRADE_AGG": f"{SIDED} {AMOUNTS} {CANDLE}",
    "OPEN_INTEREST_AGG": f"{MARKET} {AMOUNTS} open high low close",
    "FUNDING_RATE_AGG": f"{MARKET} is_final rate_open rate_high rate_low "
    "predicted_open predicted_high predicted_low predicted_close rate_close",
    "LIQUIDATION_AGG": f"{SIDED} {AMOUNTS} liquidations",
    "TOKEN_SUPPLY_AGG": f"{OF_COIN} is_final chain contract_address first_marketcap total_supply max_supply "
    "total_value_locked fully_diluted_valuation total_volume cg_marketcap_rank "
    "circulating_supply usd_price marketcap marketcap_dominance_percent",
    "IMPLIED_VOLATILITY_OPTION_SUMMARY_AGG": f"{OF_TENOR} is_final implied_volatility",
    "SKEW_OPTION_SUMMARY_AGG": f"{OF_TENOR} is_final skew",
    "VOLUME_PROFILE_AGG": f"{MARKET} {LEVELS} price buy_volume sell_volume volume",
    "TPO_AGG": f"{MARKET} {LEVELS} buy_volume sell_volume first_touch_block last_touch_block "
    "is_single_print is_poor_high is_poor_low is_in_progress price block_ids tpo_count volume",
    "VENUEX_LIQUIDATION_AGG": f"{OF_COIN} {LEVELS} price liquidations",
    "BLOCK_BOOK_SNAPSHOT_AGG": f"{MARKET} {LEVELS} side price size",
    "CME_OPEN_INTEREST_AGG": f"{MARKET} {AMOUNTS} open high low value_open value_high value_low "
    "price_open price_high price_low price_close value_close close",
    "OPTION_OPEN_INTEREST_AGG": f"{MARKET} {AMOUNTS} underlying_price_close oi_close",
}

# Every column that is not a double; a name has one dtype wherever it appears.
DTYPES = {
    **dict.fromkeys([*SERIES.split(), "side", "tenor", "amount_unit"], "category"),
    **dict.fromkeys(["is_final", "is_single_print", "is_poor_high", "is_poor_low", "is_in_progress"], "bool"),
    **dict.fromkeys(["timestamp", "first_timestamp", "last_timestamp"], "timestamp"),
    **dict.fromkeys(["id", "chain", "contract_address"], "string"),
    **dict.fromkeys(["tpo_count", "cg_marketcap_rank"], "int64"),
    **dict.fromkeys(["first_touch_block", "last_touch_block"], "int64"),
    "block_ids": "list[int32]",
}

POLARS = {
    "category": pl.Categorical(),
    "string": pl.String(),
    "float64": pl.Float64(),
    "int64": pl.Int64(),
    "bool": pl.Boolean(),
    "timestamp": pl.Datetime("ns", "UTC"),
    "list[int32]": pl.List(pl.Int32),
}
PANDAS = {
    "category": "category",
    "string": "str" if pd.__version__ >= "3" else "object",
    "float64": "float64",
    "int64": "Int64",
    "bool": "boolean",
    "timestamp": "datetime64[ns, UTC]",
    "list[int32]": "object",
    "list[float64]": "object",
}

KEYS = {
    "TRADE": "exchange raw_symbol side timestamp id",
    "TRADE_SIDE_AGNOSTIC_AGG": "exchange raw_symbol timestamp",
    "TRADE_AGG": "exchange raw_symbol side timestamp",
    "OPEN_INTEREST_AGG": "exchange raw_symbol timestamp",
    "FUNDING_RATE_AGG": "exchange raw_symbol timestamp",
    "LIQUIDATION_AGG": "exchange raw_symbol side timestamp",
    "IMPLIED_VOLATILITY_OPTION_SUMMARY_AGG": "exchange raw_symbol tenor timestamp",
    "SKEW_OPTION_SUMMARY_AGG": "exchange raw_symbol tenor timestamp",
    "VOLUME_PROFILE_AGG": "exchange raw_symbol timestamp price",
    "TPO_AGG": "exchange raw_symbol timestamp price",
    "BLOCK_BOOK_SNAPSHOT_AGG": "exchange raw_symbol timestamp side price",
    "CME_OPEN_INTEREST_AGG": "exchange raw_symbol timestamp",
    "OPTION_OPEN_INTEREST_AGG": "exchange raw_symbol timestamp",
}

every_type = pytest.mark.parametrize("name", sorted(COLUMNS))


def dtype_of(column: str) -> str:
    return DTYPES.get(column, "float64")


# --- shape ---


@every_type
def test_columns_in_order(name: str) -> None:
    assert " ".join(schema_of(name).names) == COLUMNS[name]


@every_type
def test_empty_frame_keeps_columns_and_dtypes(name: str) -> None:
    empty = schema_of(name).empty()
    assert empty.height == 0
    assert dict(empty.schema) == {column: POLARS[dtype_of(column)] for column in COLUMNS[name].split()}


@every_type
def test_empty_pandas_frame_keeps_columns_and_dtypes(name: str) -> None:
    schema = schema_of(name)
    empty = schema.to_pandas(schema.empty())
    assert len(empty) == 0
    assert {column: str(dtype) for column, dtype in empty.dtypes.items()} == {
        column: PANDAS[dtype_of(column)] for column in COLUMNS[name].split()
    }


def test_a_text_that_is_null_is_null_in_pandas() -> None:
    supply = schema_of("TOKEN_SUPPLY_AGG")
    frame = supply.to_pandas(supply.empty().clear(2))
    assert frame["chain"].isna().tolist() == [True, True]


@each_row(("name", "expected"), KEYS.items())
def test_key(name: str, expected: str) -> None:
    assert " ".join(schema_of(name).key) == expected


@pytest.mark.parametrize("name", ["TOKEN_SUPPLY_AGG", "VENUEX_LIQUIDATION_AGG"])
def test_key_tells_coins_apart_where_there_is_no_market(name: str) -> None:
    # Picked by coin, several at once, without exchange or raw symbol: only the coin tells two series apart.
    assert "coin" in schema_of(name).key


@every_type
def test_key_columns_beside_identity_are_never_null(name: str) -> None:
    schema = schema_of(name)
    assert [key for key in schema.key if key not in schema.identity and schema[key].nullable] == []


@every_type
def test_identity_is_what_a_series_is_named_by(name: str) -> None:
    columns = COLUMNS[name].split()
    assert list(schema_of(name).identity) == [
        column for column in (*SERIES.split(), "side", "tenor") if column in columns
    ]


@every_type
def test_descriptors_stand_between_identity_and_values_and_are_in_no_key(name: str) -> None:
    schema = schema_of(name)
    described = [name for name in schema.names if name in {"amount_unit", "block_size", "is_final"}]
    assert list(schema.descriptors) == described
    assert not {*schema.descriptors} & {*schema.identity, *schema.key}
    assert all(schema[column].nullable for column in schema.descriptors)
    series = [column for column in schema.identity if column != "side" or schema.names[-3] != "side"]
    identified = 1 + len(series)
    assert set(schema.names[:identified]) == {"timestamp", *series}
    assert list(schema.names[identified : identified + len(described)]) == described


def test_amounts_say_where_their_unit_stands() -> None:
    amounts = {
        name: [c.name for c in schema_of(name).columns if c.unit == "coin or USD, see amount_unit"]
        for name in COLUMNS
    }
    assert {name for name, columns in amounts.items() if columns} == {
        name for name in COLUMNS if "amount_unit" in schema_of(name).names
    }
    assert amounts["TRADE"] == ["amount"]
    assert amounts["VOLUME_PROFILE_AGG"] == ["buy_volume", "sell_volume", "volume"]
    assert amounts["CME_OPEN_INTEREST_AGG"] == ["open", "high", "low", "close"]


@every_type
def test_no_column_twice(name: str) -> None:
    names = schema_of(name).names
    assert len(set(names)) == len(names)


def test_rows_say_what_one_row_is() -> None:
    assert {
        name: schema_of(name).rows for name in ("TRADE", "TRADE_AGG", "TPO_AGG", "BLOCK_BOOK_SNAPSHOT_AGG")
    } == {
        "TRADE": "one row per trade",
        "TRADE_AGG": "one row per series and timestamp",
        "TPO_AGG": "one row per series, timestamp and price",
        "BLOCK_BOOK_SNAPSHOT_AGG": "one row per series, timestamp, side and price",
    }


@pytest.mark.parametrize(
    ("schema", "key", "odd"),
    [
        (
            MARKETS,
            ("exchange", "raw_symbol", "tenor"),
            {"available_since": "timestamp", "renamed_at": "timestamp"},
        ),
        (
            PREDICTION_MARKETS,
            ("exchange", "raw_symbol", "slug"),
            {
                "outcomes": "list[string]",
                "prices": "list[float64]",
                "closed": "bool",
                "available_since": "timestamp",
                "available_to": "timestamp",
            },
        ),
    ],
    ids=["markets", "prediction"],
)
def test_shape_of_the_market_lists(schema: Schema, key: tuple[str, ...], odd: dict[str, str]) -> None:
    assert schema.key == key
    assert {c.name: c.dtype for c in schema.columns if c.dtype not in {"string", "float64"}} == odd


def test_prediction_markets_are_the_entries_with_their_market() -> None:
    entry = PREDICTION_MARKET_ENTRY.names
    assert sorted(PREDICTION_MARKETS.names) == sorted(("exchange", "raw_symbol", *entry))
    assert PREDICTION_MARKETS.names[:3] == ("exchange", "raw_symbol", "slug")
    assert PREDICTION_MARKETS.names[-4:] == ("outcome", "one_day_price_change", "total_volume", "last_price")
    assert PREDICTION_MARKET_ENTRY.key == ("slug",)


def test_block_sizes_are_of_markets() -> None:
    assert BLOCK_SIZES.key == ("exchange", "raw_symbol")
    assert (BLOCK_SIZES["block_size"].unit, BLOCK_SIZES["block_size"].nullable) == ("quote per coin", False)


def test_a_level_has_nothing_of_its_session_and_a_session_nothing_of_its_levels() -> None:
    levels, facts = schema_of("TPO_AGG"), data_type("TPO_AGG")
    shared = {*levels.names} & {*TPO_SESSIONS.names}
    assert shared == {"timestamp", *levels.identity, *levels.descriptors}
    assert {field.column for field in facts.fields} <= {*TPO_SESSIONS.names}
    assert {field.column for field in facts.levels[0].fields} <= {*levels.names}
    assert [column.name for column in levels.columns if column.dtype.startswith("list")] == ["block_ids"]
    assert TPO_SESSIONS.names[-4:] == ("total_volume", "val_price", "poc_price", "vah_price")
    assert TPO_SESSIONS.key == ("exchange", "raw_symbol", "timestamp")
    assert TPO_SESSIONS.key_of(grouped=True)[0] == "coin"


def test_a_market_profile_travels_as_sessions_with_their_levels() -> None:
    for grouped in (False, True):
        schema = wire_schema("TPO_AGG", grouped=grouped)
        sessions = TPO_SESSIONS.with_coverage() if grouped else TPO_SESSIONS
        assert schema.columns[:-1] == sessions.columns
        assert schema.names[-1] == "levels"
        assert schema.key == TPO_SESSIONS.key
    others = [name for name in DATA_TYPES if name != "TPO_AGG"]
    assert [wire_schema(name, grouped=True) for name in others] == [
        schema_of(name, grouped=True) for name in others
    ]


def test_lists_of_levels_get_their_fields_in_order_and_keep_unknown_ones() -> None:
    given = pl.DataFrame({"levels": [[{"extra": "a", "tpo_count": 2.0, "price": 1}], [], None]})
    frame = wire_schema("TPO_AGG").conform(given)
    expected = dict(wire_schema("TPO_AGG").polars()["levels"].inner.to_schema())
    assert dict(frame.schema["levels"].inner.to_schema()) == expected | {"extra": pl.String()}
    assert frame["levels"].list.len().to_list() == [1, 0, None]
    assert {name: value for name, value in frame["levels"][0][0].items() if value is not None} == {
        "price": 1.0, "tpo_count": 2, "extra": "a"
    }  # fmt: skip
    with pytest.raises(DecodeError, match="TPO_AGG"):
        wire_schema("TPO_AGG").conform(pl.DataFrame({"levels": [[{"price": "much"}]]}))


def test_empty_prediction_markets_have_pandas_dtypes() -> None:
    empty = PREDICTION_MARKETS.to_pandas(PREDICTION_MARKETS.empty())
    assert str(empty.dtypes["closed"]) == "boolean"
    assert str(empty.dtypes["available_to"]) == "datetime64[ns, UTC]"


def test_describe_is_one_row_per_column() -> None:
    described = schema_of("LIQUIDATION_AGG").describe()
    assert described.columns == ["column", "dtype", "unit", "signed", "nullable", "key", "meaning"]
    assert described["column"].to_list() == [*SIDED.split(), *AMOUNTS.split(), "liquidations"]
    assert described.filter(column="timestamp").row(0)[1:6] == ("timestamp", "UTC", False, False, True)
    assert described.filter(column="liquidations").row(0)[1:6] == (
        "float64",
        "coin or USD, see amount_unit",
        False,
        True,
        False,
    )


def test_rates_skew_changes_and_lines_alone_have_a_sign() -> None:
    signed = {column.name for name in DATA_TYPES for column in schema_of(name).columns if column.signed}
    rates = {f"{rate}_{end}" for rate in ("rate", "predicted") for end in ("open", "high", "low", "close")}
    assert signed == rates | {"skew"}
    of_lists = {
        column.name for table in (MARKETS, PREDICTION_MARKETS) for column in table.columns if column.signed
    }
    changes = {
        "volume_change_24h",
        "price_change_24h",
        "oi_change_24h",
        "one_day_price_change",
        "one_day_oi_change",
    }
    assert of_lists == changes | {"line"}


def test_volume_of_a_profile_is_in_the_schema_though_not_on_the_wire() -> None:
    assert (
        schema_of("VOLUME_PROFILE_AGG")["volume"].doc == "buy_volume + sell_volume, and trades without a side"
    )


# --- making a frame fit ---


def test_conform_orders_casts_fills_and_keeps_the_unknown_last() -> None:
    given = pl.DataFrame(
        {"new_field": [1], "liquidations": [2], "timestamp": [1_723_161_600_000_000_000], "side": ["BUY"]}
    )
    frame = schema_of("LIQUIDATION_AGG").conform(given)
    assert frame.columns == [*schema_of("LIQUIDATION_AGG").names, "new_field"]
    assert dict(frame.drop("new_field").schema) == schema_of("LIQUIDATION_AGG").polars()
    assert frame.row(0, named=True) == {
        **dict.fromkeys([*SERIES.split(), *AMOUNTS.split()]),
        "side": "BUY",
        "timestamp": datetime(2024, 8, 9, tzinfo=UTC),
        "liquidations": 2.0,
        "new_field": 1,
    }


def test_conform_keeps_the_order_of_rows() -> None:
    given = pl.DataFrame({"timestamp": [3, 1, 2], "liquidations": [30.0, 10.0, 20.0]})
    assert schema_of("LIQUIDATION_AGG").conform(given)["liquidations"].to_list() == [30.0, 10.0, 20.0]


@every_type
def test_conform_leaves_a_conforming_frame_alone(name: str) -> None:
    schema = schema_of(name)
    nulls = pl.DataFrame({column: [None] for column in schema.names}, schema=schema.polars())
    assert schema.conform(nulls).equals(nulls)
    assert schema.conform(nulls).schema == nulls.schema


def test_conform_of_no_columns_at_all_is_empty() -> None:
    assert schema_of("TRADE").conform(pl.DataFrame()).schema == schema_of("TRADE").empty().schema
    assert schema_of("TRADE").conform(pl.DataFrame()).height == 0


@each_row(
    "given",
    [
        pl.Series([1_723_161_600_000_000_000], dtype=pl.Int64),
        pl.Series([1_723_161_600_000_000_000], dtype=pl.UInt64),
        pl.Series([datetime(2024, 8, 9)]),  # noqa: DTZ001  what has no zone is UTC
        pl.Series([datetime(2024, 8, 9)], dtype=pl.Datetime("ms")),  # noqa: DTZ001
        pl.Series([datetime(2024, 8, 9, tzinfo=UTC)]),
        pl.Series([datetime(2024, 8, 9, 2)]).dt.replace_time_zone("Europe/Berlin"),  # noqa: DTZ001
        pl.Series([date(2024, 8, 9)]),
    ],
)
def test_conform_reads_times_as_the_same_instant(given: pl.Series) -> None:
    frame = schema_of("LIQUIDATION_AGG").conform(pl.DataFrame({"timestamp": given}))
    assert frame.schema["timestamp"] == pl.Datetime("ns", "UTC")
    assert frame["timestamp"].to_list() == [datetime(2024, 8, 9, tzinfo=UTC)]


def test_conform_reads_an_enum_as_a_category() -> None:
    given = pl.DataFrame({"side": pl.Series(["BUY", None], dtype=pl.Enum(["BUY", "SELL"]))})
    frame = schema_of("LIQUIDATION_AGG").conform(given)
    assert frame.schema["side"] == pl.Categorical()
    assert frame["side"].to_list() == ["BUY", None]


@pytest.mark.parametrize(
    ("name", "column", "values"),
    [
        ("LIQUIDATION_AGG", "liquidations", ["much"]),
        ("LIQUIDATION_AGG", "timestamp", [datetime(2500, 1, 1, tzinfo=UTC)]),  # beyond int64 nanoseconds
        ("TPO_AGG", "block_ids", [[2**31]]),
        ("TPO_AGG", "tpo_count", [1.5]),  # half a count is lost if it is cut
        ("TPO_AGG", "tpo_count", [float("nan")]),
    ],
)
def test_conform_refuses_what_does_not_fit(name: str, column: str, values: list[object]) -> None:
    with pytest.raises(DecodeError, match=name) as caught:
        schema_of(name).conform(pl.DataFrame({column: values}))
    assert caught.value.data_type == name


def test_conform_takes_whole_floats_as_counts() -> None:
    frame = TPO_SESSIONS.conform(pl.DataFrame({"total_tpo_count": [3.0, None]}))
    assert frame["total_tpo_count"].to_list() == [3, None]


def test_require_names_every_missing_column() -> None:
    names = [name for name in schema_of("LIQUIDATION_AGG").names if name not in {"coin", "liquidations"}]
    with pytest.raises(MissingColumnError, match="'coin', 'liquidations'") as caught:
        schema_of("LIQUIDATION_AGG").require(names)
    assert caught.value.missing == ("coin", "liquidations")
    assert caught.value.available == tuple(names)


def test_require_allows_more_columns() -> None:
    # Raising is the only thing it does, so the frame with one column less must be refused and this one not.
    names = [*schema_of("LIQUIDATION_AGG").names, "new_field"]
    schema_of("LIQUIDATION_AGG").require(names)
    with pytest.raises(MissingColumnError):
        schema_of("LIQUIDATION_AGG").require(names[1:])


# --- pandas ---


def test_pandas_dtypes_do_not_depend_on_the_values() -> None:
    schema = TPO_SESSIONS
    full = schema.conform(
        pl.DataFrame(
            {
                "exchange": ["X", "X"],
                "timestamp": [0, 60_000_000_000],
                "total_tpo_count": [3, None],
                "poc_price": [None, None],
                "single_prints": [[1.0], None],
            }
        )
    )
    frame = schema.to_pandas(full)
    assert frame.dtypes.astype(str).to_dict() == schema.to_pandas(schema.empty()).dtypes.astype(str).to_dict()
    assert frame["total_tpo_count"].tolist() == [3, pd.NA]
    assert frame["timestamp"].tolist() == [pd.Timestamp(0, tz="UTC"), pd.Timestamp(60, unit="s", tz="UTC")]
    assert np.asarray(frame["single_prints"][0]).tolist() == [1.0]
    assert frame.index.tolist() == [0, 1]


def test_pandas_keeps_nanoseconds_and_large_integers() -> None:
    schema = schema_of("TOKEN_SUPPLY_AGG")
    given = pl.DataFrame(
        {"timestamp": [1_723_161_600_000_000_001, 0], "cg_marketcap_rank": [2**53 + 1, None]}
    )
    frame = schema.to_pandas(schema.conform(given))
    assert frame["timestamp"][0].value == 1_723_161_600_000_000_001
    assert frame["cg_marketcap_rank"][0] == 2**53 + 1


def test_pandas_keeps_columns_the_schema_does_not_know() -> None:
    schema = schema_of("LIQUIDATION_AGG")
    frame = schema.to_pandas(schema.conform(pl.DataFrame({"new_field": [7]})))
    assert frame["new_field"].tolist() == [7]


# --- names ---


@each_row(
    ("wire", "expected"),
    [
        ("volume", "volume"),
        ("takerBuyRatio", "taker_buy_ratio"),
        ("OIChange", "oi_change"),
        ("oneDayOIChange", "one_day_oi_change"),
        ("cgMarketcapRank", "cg_marketcap_rank"),
        ("already_snake", "already_snake"),
        ("iconUrl", "icon_url"),
        ("volume24h", "volume_24h"),
        ("buyVolume24H", "buy_volume_24h"),
    ],
)
def test_column_name_of_a_wire_name(wire: str, expected: str) -> None:
    # The last four are documented fields: an unknown one is to be named the way the known ones are.
    assert column_name(wire) == expected


@pytest.mark.parametrize("schema", [MARKETS, PREDICTION_MARKETS], ids=["markets", "prediction"])
def test_schema_has_no_column_named_like_the_wire(schema: Schema) -> None:
    assert [name for name in schema.names if name != name.lower()] == []


# --- errors ---


def test_unknown_column_names_the_nearest() -> None:
    with pytest.raises(MissingColumnError, match="did you mean 'volume'") as caught:
        schema_of("TRADE_AGG")["volumes"]
    assert caught.value.missing == ("volumes",)


@pytest.mark.parametrize("ask", [schema_of, data_type], ids=["schema_of", "data_type"])
def test_unknown_type_names_the_nearest(ask) -> None:
    with pytest.raises(QueryError, match="did you mean 'TRADE_AGG'") as caught:
        ask("TRADE_AG")
    assert (caught.value.parameter, caught.value.got, caught.value.code) == (
        "type",
        "TRADE_AG",
        "INVALID_TYPE",
    )


def test_a_schema_is_made_once() -> None:
    assert schema_of("TRADE_AGG") is schema_of("TRADE_AGG")
