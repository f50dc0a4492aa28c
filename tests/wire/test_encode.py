"""Frames whose bodies are known to the byte, and frames that cannot be a body."""

from __future__ import annotations

import json

import orjson
import polars as pl
import pytest

from tables import each_row
from tidytape.catalogue import DATA_TYPES
from tidytape.errors import MissingColumnError, QueryError
from tidytape.schema import MARKETS, schema_of
from tidytape.wire import decode, decode_markets, encode, nested
from tidytape.wire._encode import encode_all
from tidytape.wire._lists import encode_markets

SKEW = "SKEW_OPTION_SUMMARY_AGG"
PROFILE = "VOLUME_PROFILE_AGG"
BOOK = "BLOCK_BOOK_SNAPSHOT_AGG"
SECOND = 1_000_000_000


def points(body: bytes) -> list[dict[str, object]]:
    """All payloads of a body, through an independent parser."""
    return [point["Point"] for series in json.loads(body)["series"] for point in series["points"]]


def test_candles_to_the_byte() -> None:
    frame = pl.DataFrame(
        {
            "exchange": ["X", "X"],
            "raw_symbol": ["BTCUSDT"] * 2,
            "category": ["SPOT"] * 2,
            "interval": ["MINUTE"] * 2,
            "timestamp": [60 * SECOND, 120 * SECOND],
            "open": [1.5, 2.0],
            "high": [1e300, None],
            "low": [float("nan"), float("-inf")],
            "first_timestamp": [60 * SECOND + 5, None],
        }
    )
    assert encode(frame, "TRADE_SIDE_AGNOSTIC_AGG") == (
        b'{"series":[{"id":{"type":"TRADE_SIDE_AGNOSTIC_AGG","exchange":"X","rawSymbol":"BTCUSDT",'
        b'"category":"SPOT","interval":"MINUTE"},"points":['
        b'{"Point":{"timestamp":{"s":60},"open":1.5,"high":1e+300,"low":"NaN","close":null,"volume":null,'
        b'"firstTimestamp":{"s":60,"ns":5}}},'
        b'{"Point":{"timestamp":{"s":120},"open":2.0,"high":null,"low":"-Infinity","close":null,"volume":null}}]}]}'
    )


def test_profile_to_the_byte() -> None:
    frame = pl.DataFrame(
        {
            "exchange": ["X"] * 3,
            "timestamp": [0, 0, 60 * SECOND],
            "price": [100.0, 101.0, 99.0],
            "buy_volume": [1.0, None, 0.1],
            "sell_volume": [2.0, 3.0, 0.2],
        }
    )
    assert encode(frame, PROFILE) == (
        b'{"series":[{"id":{"type":"VOLUME_PROFILE_AGG","exchange":"X"},"points":['
        b'{"Point":{"timestamp":{"s":0},"profile":[100.0,1.0,2.0,101.0,null,3.0]}},'
        b'{"Point":{"timestamp":{"s":60},"profile":[99.0,0.1,0.2]}}]}]}'
    )


def test_book_has_both_arrays_whatever_is_in_it() -> None:
    frame = pl.DataFrame(
        {
            "exchange": ["X"] * 4,
            "timestamp": [0, 0, 60, 120],
            "side": ["BID", "ASK", "ASK", "BID"],
            "price": [1.0, 2.0, 3.0, 4.0],
            "size": [5.0] * 4,
        }
    )
    assert encode(frame, BOOK) == (
        b'{"series":[{"id":{"type":"BLOCK_BOOK_SNAPSHOT_AGG","exchange":"X"},"points":['
        b'{"Point":{"timestamp":{"s":0},"bids":[1.0,5.0],"asks":[2.0,5.0]}},'
        b'{"Point":{"timestamp":{"s":0,"ns":60},"bids":[],"asks":[3.0,5.0]}},'
        b'{"Point":{"timestamp":{"s":0,"ns":120},"bids":[4.0,5.0],"asks":[]}}]}]}'
    )


def test_tpo_to_the_byte() -> None:
    levels = pl.DataFrame(
        {"timestamp": [0, 0], "price": [1.0, 2.0], "block_ids": [[0, 1], None], "tpo_count": [2, None]},
        schema_overrides={"block_ids": pl.List(pl.Int32)},
    )
    sessions = pl.DataFrame(
        {
            "timestamp": [0, 60],
            "poc_price": [1.0, None],
            "poor_highs": [[2.0], []],
            "single_prints": [[], None],
        },
        schema_overrides={"single_prints": pl.List(pl.Float64)},
    )
    assert encode(nested(levels, sessions), "TPO_AGG") == (
        b'{"series":[{"id":{"type":"TPO_AGG"},"points":[{"Point":{"TpoAggregation":{"timestamp":{"s":0},'
        b'"poc_price":1.0,"poor_highs":[2.0],"single_prints":[],'
        b'"levels":[{"price":1.0,"block_ids":[0,1],"buy_volume":null,"sell_volume":null,"tpo_count":2},'
        b'{"price":2.0,"buy_volume":null,"sell_volume":null}]}}},'
        b'{"Point":{"TpoAggregation":{"timestamp":{"s":0,"ns":60},"poor_highs":[],"levels":[]}}}]}]}'
    )


def test_heatmap_names_its_coin_in_both_places() -> None:
    frame = pl.DataFrame({"coin": ["BTC"], "timestamp": [0], "price": [1.0], "liquidations": [2.0]})
    assert encode(frame, "VENUEX_LIQUIDATION_AGG") == (
        b'{"series":[{"id":{"type":"VENUEX_LIQUIDATION_AGG","coin":"BTC"},"points":['
        b'{"Point":{"timestamp":{"s":0},"coin":"BTC","levels":[1.0,2.0]}}]}]}'
    )


def test_strings_are_escaped() -> None:
    hard = '"\\/\b\f\n\r\t\x00\x1f\x7f\u2028é\U0001f600</script>'
    frame = pl.DataFrame({"exchange": [hard], "timestamp": [0], "id": [hard], "price": [1.0]})
    body = encode(frame, "TRADE")
    assert json.loads(body) == orjson.loads(body)
    unknown = {"amount": None, "quote_amount": None}
    assert points(body) == [{"timestamp": {"s": 0}, "id": hard, "price": 1.0, **unknown}]
    assert decode(body, "TRADE").select("exchange", "id").rows() == [(hard, hard)]


@each_row(
    "value",
    [0.1, 1 / 3, -0.0, 5e-324, 1.7976931348623157e308, 1e15, 1e16, 1e22, 1e-7, 2.0**53 + 2, 123456789.123],
)
def test_numbers_are_written_so_that_they_read_back(value: float) -> None:
    frame = pl.DataFrame({"exchange": ["X"], "timestamp": [0], "skew": [value]})
    ((_, back),) = [tuple(point.values()) for point in points(encode(frame, SKEW))]
    assert repr(back) == repr(value)


@each_row("name", DATA_TYPES)
def test_no_rows(name: str) -> None:
    assert encode(schema_of(name).empty(), name) == b'{"series":[]}'


def test_times_before_the_epoch() -> None:
    frame = pl.DataFrame({"exchange": ["X"], "timestamp": [-1], "skew": [1.0]})
    assert points(encode(frame, SKEW)) == [{"timestamp": {"s": -1, "ns": 999_999_999}, "skew": 1.0}]


def test_series_and_points_come_together_in_the_order_of_their_first_row() -> None:
    frame = pl.DataFrame(
        {
            "exchange": ["B", "A", "B", None, "A", "B"],
            "timestamp": [60, 0, 0, 0, 0, 60],
            "price": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
            "buy_volume": [0.0] * 6,
            "sell_volume": [1.0] * 6,
        }
    )
    series = json.loads(encode(frame, PROFILE))["series"]
    assert [one["id"].get("exchange") for one in series] == ["B", "A", None]
    assert [[p["Point"]["profile"][::3] for p in one["points"]] for one in series] == [
        [[1.0, 6.0], [3.0]],
        [[2.0, 5.0]],
        [[4.0]],
    ]


def test_bids_come_before_asks_however_the_rows_lie() -> None:
    frame = pl.DataFrame(
        {
            "timestamp": [0, 0, 0, 0],
            "side": ["ASK", "BID", "ASK", "BID"],
            "price": [3.0, 2.0, 4.0, 1.0],
            "size": [1.0] * 4,
        }
    )
    assert points(encode(frame, BOOK)) == [
        {"timestamp": {"s": 0}, "bids": [2.0, 1.0, 1.0, 1.0], "asks": [3.0, 1.0, 4.0, 1.0]}
    ]


def test_identity_may_be_text_or_categories() -> None:
    frame = pl.DataFrame({"exchange": ["X", "Y"], "timestamp": [0, 0], "skew": [1.0, 2.0]})
    categories = frame.with_columns(pl.col("exchange").cast(pl.Categorical))
    enum = frame.with_columns(pl.col("exchange").cast(pl.Enum(["Y", "X"])))
    assert encode(frame, SKEW) == encode(categories, SKEW) == encode(enum, SKEW)


def test_several_types_in_one_body() -> None:
    skew = pl.DataFrame({"exchange": ["X"], "timestamp": [0], "skew": [1.0]})
    profile = pl.DataFrame({"timestamp": [0], "price": [1.0], "buy_volume": [1.0], "sell_volume": [0.5]})
    body = encode_all([(PROFILE, profile), ("TRADE", schema_of("TRADE").empty()), (SKEW, skew)])
    assert [one["id"]["type"] for one in json.loads(body)["series"]] == [PROFILE, SKEW]
    for name, frame in ((SKEW, skew), (PROFILE, profile)):
        assert decode(body, name, among=[SKEW, PROFILE]).equals(decode(encode(frame, name), name))


def test_more_rows_than_a_slice_holds() -> None:
    count = 50_001
    frame = pl.DataFrame(
        {"timestamp": [i // 7 for i in range(count)], "price": [float(i) for i in range(count)]}
    ).with_columns(
        buy_volume=pl.col("price") / 3,
        sell_volume=pl.col("price") / 7,
        exchange=pl.when(pl.col("price") > 30_000).then(pl.lit("X")),
    )
    back = decode(encode(frame, PROFILE), PROFILE)
    assert back.select("exchange", "price", "buy_volume", "sell_volume").equals(
        schema_of(PROFILE).conform(frame).select("exchange", "price", "buy_volume", "sell_volume")
    )


def test_unknown_columns_go_into_the_payload() -> None:
    frame = pl.DataFrame(
        {
            "timestamp": [0, 1],
            "skew": [1.0, 2.0],
            "note": ['a"', None],
            "count": [1, 2],
            "live": [True, None],
            "vols": [[1.0], []],
        }
    )
    back = decode(encode(frame, SKEW), SKEW)
    extras = ["note", "count", "live", "vols"]
    assert back.select(extras).equals(frame.select(extras).with_columns(vols=pl.Series(["[1.0]", "[]"])))
    assert back.columns == [*schema_of(SKEW).names, *extras]


def test_unknown_columns_of_object_levels_go_into_the_level() -> None:
    levels = pl.DataFrame({"timestamp": [0, 0], "price": [1.0, 2.0], "poor": [True, False]})
    frame = nested(levels, pl.DataFrame({"timestamp": [0], "label": ["Asia"]}))
    assert encode(frame, "TPO_AGG").endswith(
        b'{"timestamp":{"s":0},"label":"Asia","levels":['
        b'{"price":1.0,"buy_volume":null,"sell_volume":null,"poor":true},'
        b'{"price":2.0,"buy_volume":null,"sell_volume":null,"poor":false}]}}}]}]}'
    )
    assert decode(encode(frame, "TPO_AGG"), "TPO_AGG").equals(frame)


# --- frames that cannot be a body ---------------------------------------------------------------------------


def test_a_frame_without_a_required_column() -> None:
    with pytest.raises(MissingColumnError) as caught:
        encode(pl.DataFrame({"timestamp": [0], "prices": [1.0]}), PROFILE)
    assert caught.value.missing == ("price",)


@pytest.mark.parametrize("column", ["timestamp", "price"])
def test_a_row_without_a_required_value(column: str) -> None:
    frame = pl.DataFrame({"timestamp": [0], "price": [1.0]}).with_columns(pl.lit(None).alias(column))
    with pytest.raises(QueryError) as caught:
        encode(frame, PROFILE)
    assert caught.value.parameter == column


def test_a_book_with_another_side() -> None:
    with pytest.raises(QueryError, match="side: got 'BUY', expected one of BID, ASK"):
        encode(pl.DataFrame({"timestamp": [0], "side": ["BUY"], "price": [1.0], "size": [1.0]}), BOOK)


def test_a_type_the_catalogue_does_not_have() -> None:
    with pytest.raises(QueryError):
        encode(pl.DataFrame({"timestamp": [0]}), "CANDLES")


# --- markets ------------------------------------------------------------------------------------------------


def test_markets_to_the_byte() -> None:
    frame = pl.DataFrame(
        {
            "exchange": ["P", "X"],
            "raw_symbol": ["a", 'b"'],
            "last_price": [0.5, None],
            "volume_24h": [None, 1e9],
            "available_since": [60 * SECOND, None],
            "prediction_markets": [
                [{"slug": "s", "outcomes": ["Yes", "No"], "prices": [0.25], "closed": True}],
                None,
            ],
        }
    )
    body = encode_markets(frame, 2)
    assert body == (
        b'{"symbols":[{"exchange":"P","rawSymbol":"a","lastPrice":0.5,"availableSince":{"s":60},'
        b'"predictionMarkets":['
        b'{"slug":"s","outcomes":["Yes","No"],"prices":[0.25],"closed":true}]},'
        b'{"exchange":"X","rawSymbol":"b\\"","volume24h":1000000000.0}],"nextOffset":2}'
    )
    back, next_offset = decode_markets(body)
    assert (encode_markets(back, next_offset), next_offset) == (body, 2)


def test_no_markets() -> None:
    assert encode_markets(MARKETS.empty(), None) == b'{"symbols":[]}'
    assert encode_markets(MARKETS.empty(), 0) == b'{"symbols":[],"nextOffset":0}'


def test_a_market_without_a_symbol() -> None:
    with pytest.raises(MissingColumnError):
        encode_markets(pl.DataFrame({"exchange": ["X"]}), None)
    with pytest.raises(QueryError):
        encode_markets(pl.DataFrame({"exchange": ["X"], "raw_symbol": [None]}), None)
