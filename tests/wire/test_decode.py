"""Bodies as the specification shows them, and bodies that are not: what comes out, or where it went wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import orjson
import polars as pl
import pyarrow.parquet
import pytest
from polars.testing import assert_frame_equal

from tables import each_row
from tidytape.catalogue import DATA_TYPES
from tidytape.client._metadata import fingerprint
from tidytape.errors import DecodeError, QueryError
from tidytape.schema import TPO_SESSIONS, data_type, schema_of, wire_schema
from tidytape.wire import _columnar as columnar
from tidytape.wire import (
    decode,
    decode_list,
    decode_markets,
    encode,
    from_arrow,
    levels_of,
    sessions_of,
    to_arrow,
)
from tidytape.wire._tidy import concatenated

CANDLES = "TRADE_SIDE_AGNOSTIC_AGG"
PROFILE = "VOLUME_PROFILE_AGG"
BOOK = "BLOCK_BOOK_SNAPSHOT_AGG"
SKEW = "SKEW_OPTION_SUMMARY_AGG"
HEATMAP = "VENUEX_LIQUIDATION_AGG"

# spec.md, "Response envelope", "Series identifier", "Timestamp" and the payload of candles.
CANDLE_BODY = b"""
{
  "series": [
    {
      "id": {"type": "TRADE_SIDE_AGNOSTIC_AGG", "exchange": "BINANCE", "rawSymbol": "BTCUSDT",
             "normalizedSymbol": "BTC-USDT", "category": "SPOT", "interval": "MINUTE", "coin": "BTC"},
      "points": [
        {"Point": {"open": 61000.1, "high": 61010, "low": 60990.5, "close": 61005, "volume": 12.25,
                   "timestamp": {"s": 1723161240}, "firstTimestamp": {"s": 1723161240, "ns": 17000000},
                   "lastTimestamp": {"s": 1723161299, "ns": 999999999}}},
        {"Point": {"open": 61005, "high": 61005, "low": 61005, "close": 61005, "volume": 0,
                   "timestamp": {"s": 1723161300}}}
      ]
    }
  ]
}
"""


def body(payload: str, identity: str = '"exchange":"X","rawSymbol":"BTCUSDT"') -> bytes:
    return f'{{"series":[{{"id":{{{identity}}},"points":[{{"Point":{payload}}}]}}]}}'.encode()


def candle(members: str) -> bytes:
    return body(f'{{"timestamp":{{"s":60}}{members}}}')


def ns(frame: pl.DataFrame, column: str = "timestamp") -> list[int | None]:
    return frame[column].dt.epoch("ns").to_list()


# --- what the specification shows ---------------------------------------------------------------------------


def test_candles() -> None:
    frame = decode(CANDLE_BODY, CANDLES)
    assert frame.schema == pl.Schema(schema_of(CANDLES).polars())
    assert frame.select(
        "exchange", "raw_symbol", "normalized_symbol", "coin", "category", "interval"
    ).unique().rows() == [("BINANCE", "BTCUSDT", "BTC-USDT", "BTC", "SPOT", "1m")]
    assert frame.select("open", "high", "low", "close", "volume").rows() == [
        (61000.1, 61010.0, 60990.5, 61005.0, 12.25),
        (61005.0, 61005.0, 61005.0, 61005.0, 0.0),
    ]
    assert ns(frame) == [1723161240_000000000, 1723161300_000000000]
    assert ns(frame, "first_timestamp") == [1723161240_017000000, None]
    assert ns(frame, "last_timestamp") == [1723161299_999999999, None]


def test_series_per_side_follow_one_another() -> None:
    one = '{{"id":{{"type":"LIQUIDATION_AGG","exchange":"X","side":"{}"}},"points":[{}]}}'
    point = '{{"Point":{{"liquidations":{},"timestamp":{{"s":{}}}}}}}'
    buys = one.format("BUY", point.format(1, 0) + "," + point.format(2, 60))
    sells = one.format("SELL", point.format(3, 0))
    frame = decode(f'{{"series":[{buys},{sells}]}}'.encode(), "LIQUIDATION_AGG")
    assert frame.select("side", "liquidations").rows() == [("BUY", 1.0), ("BUY", 2.0), ("SELL", 3.0)]


def test_volume_profile_becomes_rows_with_their_sum() -> None:
    points = ",".join(
        f'{{"Point":{{"timestamp":{{"s":{second}}},"profile":{values}}}}}'
        for second, values in ((0, "[100,1,2,101,3,4]"), (60, "[]"), (120, "[99.5,0,1e-3]"))
    )
    frame = decode(f'{{"series":[{{"id":{{}},"points":[{points}]}}]}}'.encode(), PROFILE)
    assert frame.select("price", "buy_volume", "sell_volume", "volume").rows() == [
        (100.0, 1.0, 2.0, 3.0),
        (101.0, 3.0, 4.0, 7.0),
        (99.5, 0.0, 1e-3, 1e-3),
    ]
    assert ns(frame) == [0, 0, 120_000_000_000]  # a point without levels has no rows


def test_book_gives_bids_then_asks_of_each_point() -> None:
    points = ",".join(
        f'{{"Point":{{"timestamp":{{"s":{second}}},{sides}}}}}'
        for second, sides in (
            (0, '"asks":[101,5,102,6],"bids":[100,1]'),
            (60, '"asks":[103,7]'),
            (120, '"bids":[99,8]'),
        )
    )
    frame = decode(f'{{"series":[{{"id":{{}},"points":[{points}]}}]}}'.encode(), BOOK)
    assert frame.select("side", "price", "size").rows() == [
        ("BID", 100.0, 1.0),
        ("ASK", 101.0, 5.0),
        ("ASK", 102.0, 6.0),
        ("ASK", 103.0, 7.0),
        ("BID", 99.0, 8.0),
    ]


# spec.md, TPO_AGG: under Point.TpoAggregation, snake_case.
TPO = (
    '"timestamp":{"s":86400},"period_start":{"s":86400},"period_end":{"s":172800},'
    '"levels":[{"price":100,"block_ids":[0,1],"buy_volume":1.5,"sell_volume":2},'
    '{"price":101,"block_ids":[1],"buy_volume":0,"sell_volume":1,"tpo_count":1}],'
    '"poc_price":100,"poor_highs":[101],"total_tpo_count":3'
)


@pytest.mark.parametrize(
    "payload", [f'{{"TpoAggregation":{{{TPO}}}}}', f"{{{TPO}}}"], ids=["enveloped", "inlined"]
)
def test_tpo_is_levels_and_sessions(payload: str) -> None:
    frame = decode(body(payload), "TPO_AGG")
    columns = ("price", "block_ids", "buy_volume", "tpo_count", "is_poor_high", "is_single_print")
    assert levels_of(frame).select(columns).rows() == [
        (100.0, [0, 1], 1.5, None, False, None),
        (101.0, [1], 0.0, 1, True, None),
    ]
    sessions = sessions_of(frame)
    assert sessions.select("poc_price", "poor_highs", "total_tpo_count").rows() == [(100.0, [101.0], 3)]
    assert ns(sessions, "period_end") == [172_800_000_000_000]


@pytest.mark.parametrize(
    ("payload", "identity"),
    [
        ('"coin":"BTC",', ""),
        ("", '"coin":"BTC"'),
        ('"coin":"BTC",', '"coin":"BTC"'),
        ('"coin":null,', '"coin":"BTC"'),
    ],
)
def test_coin_of_the_heatmap_comes_from_wherever_it_is(payload: str, identity: str) -> None:
    frame = decode(body(f'{{"timestamp":{{"s":0}},{payload}"levels":[100,5]}}', identity), HEATMAP)
    assert frame.select("coin", "price", "liquidations").rows() == [("BTC", 100.0, 5.0)]
    assert frame.schema == pl.Schema(schema_of(HEATMAP).polars())


@each_row("field", ["side", "coin", "category"])
@each_row("lane", ["", '"open":"1",'])  # a number as a string is not read from bytes
def test_a_field_of_a_point_does_not_replace_that_of_its_series(field: str, lane: str) -> None:
    points = ",".join(
        f'{{"Point":{{"timestamp":{{"s":{second}}},{lane}"{field}":"{value}"}}}}'
        for second, value in ((0, "SELL"), (60, "BUY"))
    )
    series = (
        f'{{"id":{{"type":"TRADE_AGG","exchange":"X","rawSymbol":"B","{field}":"BUY"}},"points":[{points}]}}'
    )
    frame = decode(f'{{"series":[{series}]}}'.encode(), "TRADE_AGG")
    assert frame[field].to_list() == ["BUY", "BUY"]
    assert frame[f"point_{field}"].to_list() == ["SELL", "BUY"]
    assert_frame_equal(decode(encode(frame, "TRADE_AGG"), "TRADE_AGG"), frame)


def test_a_field_of_a_point_that_repeats_its_series_adds_no_column() -> None:
    frame = decode(body('{"timestamp":{"s":0},"exchange":"X"}', '"exchange":"X"'), CANDLES)
    assert frame.columns == list(schema_of(CANDLES).names)


def test_a_field_of_a_level_does_not_replace_that_of_its_series() -> None:
    payload = f'{{"TpoAggregation":{{{TPO}}}}}'.replace('"price":101', '"price":101,"coin":"ETH"')
    frame = levels_of(decode(body(payload, '"coin":"BTC"'), "TPO_AGG"))
    assert frame.select("coin", "level_coin").rows() == [("BTC", None), ("BTC", "ETH")]


SEVERAL = ",".join(
    f'{{"id":{identity},"points":[{{"Point":{{"timestamp":{{"s":1}},"skew":1}}}}]}}'
    for identity in (
        '{"type":"TRADE"}',
        '{"type":"SKEW_OPTION_SUMMARY_AGG"}',
        '{"type":null}',
        "{}",
        "null",
    )
)


def test_of_several_types_that_were_asked_for_one_is_read() -> None:
    frame = decode(f'{{"series":[{SEVERAL}]}}'.encode(), SKEW, among=["TRADE", SKEW])
    assert frame.height == 4


@each_row("label", ['"TRADE"', '"CANDLES"', '""', "9", "{}", '"UNKNOWN_TYPE"'])
@each_row("points", ["", '{"Point":{"timestamp":{"s":1},"skew":1}}'])
def test_series_of_another_type_are_refused(label: str, points: str) -> None:
    known = '{"id":{"type":"SKEW_OPTION_SUMMARY_AGG"},"points":[]}'
    other = f'{{"id":{{"type":{label}}},"points":[{points}]}}'
    with pytest.raises(
        DecodeError, match=r"series 1: it is of type .*, and SKEW_OPTION_SUMMARY_AGG was asked"
    ):
        decode(f'{{"series":[{known},{other}]}}'.encode(), SKEW)


@each_row("nothing", [b"{}", b'{"series":null}', b'{"series":[]}', b' \r\n\t{"series":[{}]}\n'])
@each_row("name", DATA_TYPES)
def test_nothing_is_an_empty_frame_of_the_schema(name: str, nothing: bytes) -> None:
    frame = decode(nothing, name)
    assert frame.height == 0
    assert frame.schema == pl.Schema(wire_schema(name).polars())


@each_row("name", DATA_TYPES)
def test_plain_bodies_of_every_type_are_read_from_their_bytes(name: str) -> None:
    kind = data_type(name)
    payload = {"timestamp": {"s": 60}, "id": "7"} if name == "TRADE" else {"timestamp": {"s": 60}}
    for levels in kind.levels:
        payload[levels.name] = [1.5] * len(levels.fields) if levels.flat else [{"price": 1.5}]
    point = {kind.envelope: payload} if kind.envelope else payload
    plain = orjson.dumps({"series": [{"id": {"type": name}, "points": [{"Point": point}]}]})
    parts = columnar.read(plain, kind)
    assert parts is not None
    assert parts.frame(kind).equals(decode(plain, name))


# --- long bodies, which are read in pieces ------------------------------------------------------------------

POINTS = ",".join(f'{{"Point":{{"timestamp":{{"s":{second}}},"open":{second}}}}}' for second in range(5))


@pytest.fixture
def cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut every body between all points."""
    monkeypatch.setattr(columnar, "PIECE", 1)


@pytest.mark.usefixtures("cut")
@pytest.mark.parametrize("space", ["", " "])
def test_pieces_give_the_frame_of_the_whole(space: str) -> None:
    one = f'{{"id":{{"type":"{CANDLES}","exchange":"X"}},"points":[{POINTS}]}}'
    other = one.replace("X", "Y").replace(CANDLES, "TRADE_AGG")
    last = f'{{"points":[{POINTS}]}}'
    series = f"{one},{other},{{}},{last}".replace("},{", f"}},{space}{{")
    frame = decode(f'{{"series":[{series}]}}\n'.encode(), CANDLES, among=["TRADE_AGG"])
    assert frame["exchange"].to_list() == ["X"] * 5 + [None] * 5
    assert frame["open"].to_list() == [0.0, 1.0, 2.0, 3.0, 4.0] * 2
    assert len(columnar.pieces(f'{{"series":[{series}]}}\n'.encode())) == 13


@pytest.mark.usefixtures("cut")
@pytest.mark.parametrize(
    ("series", "rows"),
    [
        # What follows the points of a series belongs to it, and of a key given twice the last counts.
        (f'{{"points":[{POINTS}],"id":{{"exchange":"X"}}}}', [("X", second) for second in range(5)]),
        (
            f'{{"id":{{"exchange":"X"}},"points":[{POINTS}],"id":null}}',
            [(None, second) for second in range(5)],
        ),
        (f'{{"points":[{POINTS}],"points":[{POINTS}]}}', [(None, second) for second in range(5)]),
        (f'{{"points":[{POINTS}],"points":[]}}', []),
        (f'{{"points":[{POINTS}]}}],"series":[', []),
        # Text may look like a place between points.
        (
            f'{{"id":{{"exchange":"a,{{\\"Point\\""}},"points":[{POINTS}]}}',
            [('a,{"Point"', i) for i in range(5)],
        ),
        # A later piece may be unusual.
        (f'{{"points":[{POINTS.replace("4", chr(34) + "4" + chr(34))}]}}', [(None, i) for i in range(5)]),
    ],
)
def test_a_cut_changes_nothing(series: str, rows: list[tuple[str | None, float]]) -> None:
    frame = decode(f'{{"series":[{series}]}}'.encode(), CANDLES)
    assert frame.select("exchange", "open").rows() == rows


@pytest.mark.usefixtures("cut")
@pytest.mark.parametrize(
    "hostile",
    [
        f'{{"series":[{{"points":[{POINTS}]}}]}}{{"series":[{{"points":[{POINTS}]}}]}}',
        f'{{"series":[{{"points":[{POINTS}',
        f'{{"series":[{{"points":[{POINTS}]',
        f'{{"series":[{{"points":[{POINTS}]}}]}}]}}',
        f'{{"series":[{{"points":[[{POINTS}]]}}]}}',
        f'{{"series":[{{"points":{{"x":[{POINTS}]}}}}]}}',
        f'{{"series":[{POINTS},"points":[]]}}',
        f'{{"series":[{{"points":[{POINTS},]}}]}}',
        f'{{"series":[{{"points":[{POINTS.replace("3", "Inf")}]}}]}}',
        f'{{"series":[{{"points":[{POINTS.replace("3", "1e999")}]}}]}}',
        f'{{"series":[{{"points":[{POINTS}]}}]}}]}}\n{{"series":[{{"id":{{}},"points":[{POINTS}]}}]}}',
        f'{{"series":[{{"id":"x,{{"Point","points":[{POINTS}]}}]}}',
    ],
)
def test_a_cut_makes_nothing_whole(hostile: str) -> None:
    with pytest.raises(DecodeError):
        decode(hostile.encode(), CANDLES)


ARRAYS = [
    *("", "1,2,3", "1,2,3,4,5,6", "1,2,3,4", "-0.0,0,0.1", "1e5,2E-5,3e+0", "5e-324,1e-400,2.5"),
    *("123456789012345678901234567890,9007199254740993,1", "1,null,3", "null,2,3", '"1",2,3', '"NaN",2,3'),
    *(
        " 1,2,3",
        "1, 2, 3",
        "1, 2,3",
        "1,  2, 3",
        "1, 2, 3, ",
        "1\t,2,3",
        "01,2,3",
        "-01,2,3",
        "00,2,3",
        "+1,2,3",
        ".5,2,3",
        "-.5,2,3",
        "1.,2,3",
    ),
    *("1.e5,2,3", "1e,2,3", "-,2,3", "--1,2,3", "1_0,2,3", "0x1,2,3", "1 2,3,4", "1,,3", "1,2,3,", ",1,2,3"),
    *(
        "inf,2,3",
        "nan,2,3",
        "1,NaN,3",
        "1,-NaN,3",
        "1,Infinity,3",
        "1e999,2,3",
        "9" * 400 + ",2,3",
        "true,2,3",
    ),
    *("1,2,3]", "[1,2,3]", '{"profile":[1,2,3]}', '"profile":[1,2,3', '1,2,3],"profile":[4,5,6', "1,2,3}"),
    *('1,2,3],"foo":[4', '1,2,3],"foo":{"profile":[4,5,6]},"bar":[7', '1,2,3],"foo":"[","bar":["]"', "é,2,3"),
    '1,2,3],"foo":"\\"profile\\":[1,2,3]","bar":[',
]


@pytest.mark.slow
@each_row("values", ARRAYS)
@each_row(
    "after", ['"profile":[1,2,3]', '"foo":1', '"profile":null', '"profile" : [1,2,3]', '"profile": [1, 2, 3]']
)
def test_arrays_that_are_read_apart_are_what_they_are_in_the_body(
    values: str, after: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = f'"timestamp":{{"s":0}},"profile":[{values}]', f'"timestamp":{{"s":60}},{after}'
    points = f'{{"Point":{{{first}}}}},{{"Point":{{{second}}}}}'
    text = f'{{"series":[{{"id":{{"exchange":"[X]"}},"points":[{points}]}}]}}'.encode()

    def outcome(piece: int) -> object:
        monkeypatch.setattr(columnar, "PIECE", piece)
        try:
            frame = decode(text, PROFILE)
        except DecodeError as error:
            return str(error), error.series, error.point, error.length
        return frame.schema, repr(frame.rows())

    assert outcome(1) == outcome(10**9)


@pytest.mark.usefixtures("cut")
@pytest.mark.parametrize("space", ["", " "])
def test_arrays_of_numbers_need_not_be_read_with_the_body(
    space: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    payload = {"timestamp": {"s": 0}, "asks": [101, 5], "bids": [100, 1, 99, 2]}
    text = body(json.dumps(payload, separators=("," + space, ":" + space)))
    kept = []
    document = columnar._document
    monkeypatch.setattr(columnar, "_document", lambda rest, type_: kept.append(rest) or document(rest, type_))
    assert decode(text, BOOK)["price"].to_list() == [100.0, 99.0, 101.0]
    assert [rest.replace(b" ", b"") for rest in kept] == [body('{"timestamp":{"s":0},"asks":[],"bids":[]}')]


@pytest.mark.usefixtures("cut")
def test_arrays_that_are_read_apart_stay_with_their_points() -> None:
    sides = (
        '"bids":[1,2]',
        '"asks":[3,4],"bids":[5,6]',
        '"asks":[]',
        '"bids":null,"asks":[7,8]',
        '"bids":[]',
    )
    points = [f'{{"Point":{{"timestamp":{{"s":{n}}},{side}}}}}' for n, side in enumerate(sides)]
    series = [
        f'{{"id":{{"type":"{type_}","exchange":"{type_}"}},"points":[{",".join(points)}]}}'
        for type_ in (BOOK, "TRADE", BOOK)
    ]
    rows = [(0, 1.0), (1, 5.0), (1, 3.0), (3, 7.0)]
    for several, wanted in ((series[::2], [BOOK]), (series, [BOOK, "TRADE"])):
        frame = decode(f'{{"series":[{",".join(several)}]}}'.encode(), BOOK, among=wanted)
        seconds = frame["timestamp"].dt.epoch("s")
        assert list(zip(seconds, frame["price"], strict=True)) == rows * 2


# --- values -------------------------------------------------------------------------------------------------


@each_row(
    ("text", "value"),
    [
        ("5", 5.0),
        ("1E2", 100.0),
        ("-0.0", -0.0),
        ("0.1", 0.1),
        ("1e-400", 0.0),
        ("5e-324", 5e-324),
        ("1.7976931348623157e308", 1.7976931348623157e308),
        ("9007199254740993", 9007199254740992.0),
        ("123456789012345678901234567890", 1.2345678901234568e29),
        ('"12"', 12.0),
        ('"-1.5e3"', -1500.0),
        ('"NaN"', float("nan")),
        ('"Infinity"', float("inf")),
        ('"-Infinity"', float("-inf")),
        ("NaN", float("nan")),  # bare words, as Python's own json writes them
        ("-Infinity", float("-inf")),
        ("null", None),
    ],
)
def test_doubles(text: str, value: float | None) -> None:
    assert repr(decode(candle(f',"open":{text}'), CANDLES)["open"].to_list()) == repr([value])


@pytest.mark.parametrize(
    "text", ["9007199254740993", '"9007199254740993"', '"-9223372036854775808"', "1.0", "1e3"]
)
def test_integers_are_exact(text: str) -> None:
    frame = decode(candle(f',"cgMarketcapRank":{text}'), "TOKEN_SUPPLY_AGG")
    assert frame["cg_marketcap_rank"].to_list() == [
        int(float(text)) if "." in text or "e" in text else int(text.strip('"'))
    ]


def test_strings_that_look_like_something_else_stay_strings() -> None:
    for text in ("007", "1e5", "2024-01-01", "2024-01-01T00:00:00Z", "null", "NaN", "", "é\U0001f600"):
        frame = decode(candle(f',"id":"{text}"'), "TRADE")
        assert frame["id"].to_list() == [text]
        assert decode(candle(f',"foo":"{text}"'), CANDLES)["foo"].to_list() == [text]


@each_row(
    ("text", "value"),
    [
        ("{}", 0),
        ('{"s":60}', 60_000_000_000),
        ('{"ns":5}', 5),
        ('{"s":"60","ns":"1"}', 60_000_000_001),
        ('{"s":null,"ns":null}', 0),
        ('{"s":60,"zone":"UTC"}', 60_000_000_000),
        ('{"s":-1,"ns":999999999}', -1),
        ('{"s":9223372036,"ns":854775807}', 2**63 - 1),
        ('{"s":-9223372037,"ns":145224192}', -(2**63)),
    ],
)
def test_timestamps(text: str, value: int) -> None:
    assert ns(decode(body(f'{{"timestamp":{text}}}'), CANDLES)) == [value]


# --- unknown fields -----------------------------------------------------------------------------------------


@each_row(
    ("value", "dtype", "kept"),
    [
        ("1", pl.Int64(), 1),
        ("9007199254740993", pl.Int64(), 9007199254740993),
        ("1.5", pl.Float64(), 1.5),
        ('"a"', pl.String(), "a"),
        ("true", pl.Boolean(), True),
        ("18446744073709551615", pl.String(), "18446744073709551615"),
        ('"2024-01-01"', pl.String(), "2024-01-01"),
        ("[1,2]", pl.String(), "[1,2]"),
        ('{"a":[1],"b":"2024-01-01"}', pl.String(), '{"a":[1],"b":"2024-01-01"}'),
        ('[1,"a"]', pl.String(), '[1,"a"]'),
        ("[" * 20 + "1" + "]" * 20, pl.String(), "[" * 20 + "1" + "]" * 20),
    ],
)
@each_row("documented", ["1", '"1"'])
def test_unknown_payload_fields_are_kept_after_the_schema(
    documented: str, value: str, dtype: pl.DataType, kept: object
) -> None:
    frame = decode(candle(f',"takerBuyRatio":{value},"open":{documented}'), CANDLES)
    assert frame.columns == [*schema_of(CANDLES).names, "taker_buy_ratio"]
    assert frame.schema["taker_buy_ratio"] == dtype
    assert frame["taker_buy_ratio"].to_list() == [kept]


def test_unknown_fields_of_all_three_places() -> None:
    payload = f'{{"TpoAggregation":{{{TPO},"sessionName":"Asia"}}}}'.replace(
        '"price":101', '"price":101,"isPoor":true'
    )
    frame = decode(body(payload, '"exchange":"X","region":"EU"'), "TPO_AGG")
    levels, sessions = levels_of(frame), sessions_of(frame)
    assert levels.columns == [*schema_of("TPO_AGG").names, "is_poor"]
    assert levels["is_poor"].to_list() == [None, True]
    assert sessions.columns == [*TPO_SESSIONS.names, "session_name", "region"]
    assert sessions.select("session_name", "region").rows() == [("Asia", "EU")]


def test_unknown_field_whose_column_is_taken_says_where_it_was() -> None:
    frame = decode(body('{"timestamp":{"s":0},"price":7,"profile":[1,2,3]}', '"volume":"high"'), PROFILE)
    assert frame.select("price", "volume", "point_price", "series_volume").rows() == [(1.0, 5.0, 7, "high")]


def test_unknown_fields_that_are_always_null_leave_no_column() -> None:
    assert decode(candle(',"foo":null'), CANDLES).columns == list(schema_of(CANDLES).names)


MANY = {f"f{number}": number for number in range(100_000)}


@pytest.mark.long
@pytest.mark.parametrize(
    "series",
    [
        {"points": [{"Point": {"timestamp": {"s": 0}} | MANY}]},
        {"points": [{"Point": {"timestamp": {"s": 0}, "open": "1"} | MANY}]},
        {"points": [{"Point": {"timestamp": {"s": 0}, name: 1}} for name in MANY]},
        {"id": MANY},
    ],
    ids=["point", "another spelling", "points", "series"],
)
def test_more_unknown_fields_than_a_frame_takes(series: dict[str, object]) -> None:
    with pytest.raises(DecodeError, match="100000 different unknown fields, and a frame takes 256"):
        decode(orjson.dumps({"series": [series]}), CANDLES)


@pytest.mark.long
@pytest.mark.parametrize(
    "series",
    [
        {"points": [{"Point": {"timestamp": {"s": 0}, "foo": [[{name: 1}]]}} for name in MANY]},
        {"points": [{"Point": {"timestamp": {"s": 0} | MANY}}]},
        {"points": [{"Point": {"timestamp": {"s": 0}}}]} | MANY,
    ],
    ids=["nested", "timestamp", "beside the points"],
)
def test_unknown_fields_inside_others_make_no_columns(series: dict[str, object]) -> None:
    assert decode(orjson.dumps({"series": [series]}), CANDLES).width <= len(schema_of(CANDLES).names) + 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("hostile", "why"),
    [
        (b'{"series":[{}' + b",{}" * 2**20 + b"]}", "1048579 objects and arrays in 3145743 bytes"),
        (b'{"x":[[]' + b",[]" * 2**20 + b"]}", "1048579 objects and arrays"),
    ],
    ids=["empty series", "empty arrays"],
)
def test_bodies_of_more_things_than_values(hostile: bytes, why: str) -> None:
    with pytest.raises(DecodeError, match=why):
        decode(hostile, CANDLES)


@pytest.mark.parametrize("extra", [{}, {"tpo_count": "1"}], ids=["columnar", "tolerant"])
def test_a_session_with_many_levels_and_long_lists_has_each_once(extra: dict[str, str]) -> None:
    count = 20_000  # on each level, the lists would have 8 * 10**8 values
    prices = [float(price) for price in range(count)]
    profile = {"timestamp": {"s": 0}, "single_prints": prices, "poor_highs": prices}
    profile["levels"] = [{"price": price} | extra for price in prices]
    point = {"Point": {"TpoAggregation": profile}}
    frame = decode(orjson.dumps({"series": [{"id": {}, "points": [point]}]}), "TPO_AGG")
    assert frame["single_prints"].list.len().to_list() == [count]
    assert levels_of(frame)["is_single_print"].to_list() == [True] * count


def test_a_frame_out_of_proportion_to_its_body(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidytape.wire._faults._FREE_CELLS", 2**12)
    extra = {f"f{number}": number for number in range(100)}
    first, others = {"timestamp": {"s": 0}}, [{"Point": {"timestamp": {"s": 1}}}] * 100
    levels = {"id": extra, "points": [{"Point": first | {"profile": [1, 2, 3] * 100}}]}
    with pytest.raises(DecodeError, match="there would be 100 rows of 114 columns, and a frame takes"):
        decode(orjson.dumps({"series": [levels]}), PROFILE)
    for documented in ({}, {"open": "1"}):
        points = [{"Point": first | documented | extra}, *others]
        with pytest.raises(DecodeError, match=r"there would be 101 rows of 100 columns, and a frame takes"):
            decode(orjson.dumps({"series": [{"points": points}]}), CANDLES)
    market = {"exchange": "X", "rawSymbol": "A"}
    with pytest.raises(DecodeError, match=r"a frame takes .* cells"):
        decode_markets(orjson.dumps({"symbols": [market | extra, *[market] * 100]}))


def test_honest_bodies_are_far_within_the_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidytape.wire._faults._FREE_CELLS", 0)
    monkeypatch.setattr("tidytape.wire._faults._FREE_CONTAINERS", 0)
    monkeypatch.setattr("tidytape.wire._faults._CELLS_PER_BYTE", 1.2)
    assert decode(CANDLE_BODY, CANDLES).height == 2
    levels = ",".join(f"{price},1.5,2" for price in range(60_000, 61_000))
    assert decode(body(f'{{"timestamp":{{"s":0}},"profile":[{levels}]}}'), PROFILE).height == 1000


@pytest.mark.parametrize("documented", [1, "1"], ids=["number", "number as text"])
def test_as_many_unknown_fields_as_a_frame_takes(documented: object) -> None:
    most = dict(list(MANY.items())[:256])
    payload = {"timestamp": {"s": 0}, "open": documented} | most
    frame = decode(orjson.dumps({"series": [{"points": [{"Point": payload}] * 3}]}), CANDLES)
    assert frame[:, -256:].rows() == [tuple(most.values())] * 3


def test_mixed_kinds_over_points_do_not_lose_the_body() -> None:
    points = ",".join(
        f'{{"Point":{{"timestamp":{{"s":{i}}},"foo":{foo}}}}}'
        for i, foo in enumerate(["1", '"a"', "null", "{}"])
    )
    frame = decode(f'{{"series":[{{"points":[{points}]}}]}}'.encode(), CANDLES)
    assert frame["foo"].to_list() == ["1", "a", None, "{}"]


@pytest.mark.parametrize("documented", [1, "1"], ids=["number", "number as text"])
@pytest.mark.parametrize("value", [{}, [{}], {"a": {}}, [], [None], {"a": None}])
def test_unknown_fields_of_next_to_nothing_can_be_kept_in_files(
    value: object, documented: object, tmp_path: Path
) -> None:
    frame = decode(
        candle(f',"foo":{orjson.dumps(value).decode()},"open":{orjson.dumps(documented).decode()}'), CANDLES
    )
    assert orjson.loads(frame["foo"][0]) == value
    frame.write_parquet(tmp_path / "kept.parquet")
    assert_frame_equal(pl.read_parquet(tmp_path / "kept.parquet"), frame, categorical_as_str=True)
    pyarrow.parquet.write_table(frame.to_arrow(), tmp_path / "written.parquet")


@pytest.mark.slow
@each_row("documented", [1, "1"])
@each_row("value", [1, 1.5, "x", [1.5], {"a": 1}, [{"a": 1}], True])
@each_row("name", ["", "\\u0000", "*", "^.*$", "^open$", "^nothing$", "foo bar", "é"])
def test_strange_names_of_unknown_fields(name: str, value: object, documented: object) -> None:
    told = f',"{name}":{orjson.dumps(value).decode()},"open":{orjson.dumps(documented).decode()}'
    frame = decode(candle(told), CANDLES)
    assert frame.width == len(schema_of(CANDLES).names) + 1
    kept = orjson.dumps(value).decode() if isinstance(value, list | dict) else value
    assert frame.to_series(-1).to_list() == [kept]
    assert frame["open"].to_list() == [1.0]
    assert len(fingerprint(frame)) == 64
    assert decode(encode(frame, CANDLES), CANDLES).equals(frame)
    assert_frame_equal(from_arrow(to_arrow(frame, CANDLES), CANDLES), frame)
    assert concatenated([frame, frame]).rows() == frame.rows() * 2


def test_names_that_the_decoder_once_used_itself() -> None:
    market = {"exchange": "X", "rawSymbol": "A", "tidytape.wire.row": 1, "predictionMarkets": [{"slug": "s"}]}
    frame, _ = decode_markets(orjson.dumps({"symbols": [market]}))
    assert frame["tidytape.wire.row"].to_list() == [1]
    assert frame["prediction_markets"][0][0]["slug"] == "s"


def test_other_spelling_of_a_documented_field() -> None:
    assert decode(candle(',"first_timestamp":{"s":1}'), CANDLES)["first_timestamp"].null_count() == 0
    payload = f'{{"TpoAggregation":{{{TPO}}}}}'.replace("period_start", "periodStart").replace(
        "buy_volume", "buyVolume"
    )
    assert decode(body(payload), "TPO_AGG").equals(decode(body(f'{{"TpoAggregation":{{{TPO}}}}}'), "TPO_AGG"))


def test_the_last_of_two_equal_keys_counts() -> None:
    assert decode(candle(',"open":1,"open":2'), CANDLES)["open"].to_list() == [2.0]


# --- what is not the contract -------------------------------------------------------------------------------


@each_row(
    "hostile",
    [
        b"",
        b"  ",
        b"null",
        b"null null",
        b"[]",
        b"5",
        b'"series"',
        b"{}{}",
        b"{} x",
        b"{}\nnull",
        b"null{}",
        b'{"series":[]',
        b'{"series":[],}',
        b"{'series':[]}",
        b'{"series":{}}',
        b'{"series":[null]}',
        b'{"series":[[]]}',
        b'{"series":[{"id":[]}]}',
        b'{"series":[{"id":{"exchange":5}}]}',
        b'{"series":[{"points":{}}]}',
        b"\xff",
        b'{"series":[{"id":{"exchange":"\xff"}}]}',
        b'{"series":[{"id":{"exchange":"\\ud800"}}]}',
        b'{"series":[{"id":{"exchange":"a\nb"}}]}',
        candle(',"open":1e999'),
        candle(',"open":Inf'),
        candle(',"open":-NaN'),
        candle(',"open":1e400'),
        candle(f',"open":{"9" * 400}'),
        candle(f',"open":-{"9" * 400}.5'),
        candle(f',"open":"{"9" * 400}"'),
        candle(f',"foo":{"9" * 400}'),
        candle(f',"foo":[{{"a":{"9" * 400}}}]'),
        candle(',"open":1e400,"high":Infinity'),
        candle(f',"open":{"9" * 400},"high":NaN'),
        body(f'{{"timestamp":{{"s":0}},"profile":[1,2,{"9" * 400}]}}'),
        candle(',"open":01'),
        candle(',"open":+1'),
        candle(',"open":1.'),
        candle(',"foo":NaN,"bar":"\\ud800"'),
    ],
)
def test_a_body_that_is_not_the_contract(hostile: bytes) -> None:
    with pytest.raises(DecodeError):
        decode(hostile, CANDLES)


@each_row(
    ("members", "why"),
    [
        (',"open":"abc"', "open: 'abc' is no number"),
        (',"open":" 1"', "open: ' 1' is no number"),
        (',"open":"1_0"', "open: '1_0' is no number"),
        (',"open":"1e999"', "open: '1e999' is too large for a double"),
        (',"open":true', "open: True is no number"),
        (',"open":[1]', "open: an array is no number"),
        (',"firstTimestamp":5', "firstTimestamp: 5 is no timestamp; it takes an object with s and ns"),
        (',"firstTimestamp":{"s":1.5}', "firstTimestamp: 1.5 is no integer"),
        (',"firstTimestamp":{"ns":1000000000}', "firstTimestamp: ns is 1000000000, outside 0 to 999999999"),
        (',"firstTimestamp":{"ns":-1}', "firstTimestamp: ns is -1, outside 0 to 999999999"),
        (
            ',"firstTimestamp":{"s":9223372036,"ns":854775808}',
            "firstTimestamp: s is 9223372036, outside what int64 nanoseconds hold",
        ),
        (',"firstTimestamp":{"s":1e300}', "firstTimestamp: 1e+300 is no integer"),
    ],
)
def test_a_wrong_value_says_where_it_is(members: str, why: str) -> None:
    with pytest.raises(DecodeError) as caught:
        decode(candle(members), CANDLES)
    assert str(caught.value) == f"{CANDLES}, series exchange=X, rawSymbol=BTCUSDT, point 0: {why}"
    assert (caught.value.data_type, caught.value.point) == (CANDLES, 0)


@pytest.mark.parametrize(
    ("point", "why"),
    [
        ("null", "it is not an object with its payload under the key Point"),
        ('{"timestamp":{"s":0},"open":1}', "it is not an object with its payload under the key Point"),
        ('{"Point":null}', "it is not an object with its payload under the key Point"),
        ('{"Point":{"open":1}}', "it has no timestamp"),
        ('{"Point":{"timestamp":null}}', "it has no timestamp"),
    ],
)
def test_a_point_that_is_none(point: str, why: str) -> None:
    good = '{"Point":{"timestamp":{"s":0}}}'
    with pytest.raises(DecodeError, match=why) as caught:
        decode(f'{{"series":[{{}},{{"id":{{"exchange":"X"}},"points":[{good},{point}]}}]}}'.encode(), CANDLES)
    assert (caught.value.series, caught.value.point) == ("exchange=X", 1)


def test_an_array_that_ends_within_a_level() -> None:
    first, second = (
        '{"Point":{"timestamp":{"s":0},"profile":[1,2,3]}}',
        '{"Point":{"timestamp":{"s":60},"profile":[1,2,3,4]}}',
    )
    with pytest.raises(DecodeError, match="profile has 4 values, not a multiple of 3") as caught:
        decode(f'{{"series":[{{"id":{{"exchange":"X"}},"points":[{first},{second}]}}]}}'.encode(), PROFILE)
    error = caught.value
    assert (error.data_type, error.series, error.point, error.length) == (PROFILE, "exchange=X", 1, 4)


def test_lengths_that_only_fit_together_are_refused() -> None:
    # 2 + 4 values would make two levels, of two points.
    points = ",".join(
        f'{{"Point":{{"timestamp":{{"s":{i}}},"profile":{p}}}}}' for i, p in enumerate(["[1,2]", "[3,4,5,6]"])
    )
    with pytest.raises(DecodeError) as caught:
        decode(f'{{"series":[{{"points":[{points}]}}]}}'.encode(), PROFILE)
    assert (caught.value.point, caught.value.length) == (0, 2)


def test_a_level_without_a_price() -> None:
    with pytest.raises(DecodeError, match="a level without a price"):
        decode(candle(',"profile":[null,1,2]'), PROFILE)
    assert decode(candle(',"profile":[1,null,2]'), PROFILE).select("buy_volume", "volume").rows() == [
        (None, None)
    ]
    # As a field of an object it is 0, which proto3 leaves out.
    profile = decode(body('{"TpoAggregation":{"timestamp":{"s":0},"levels":[{}]}}'), "TPO_AGG")
    assert levels_of(profile)["price"].to_list() == [0.0]


def test_a_type_the_catalogue_does_not_have() -> None:
    with pytest.raises(QueryError, match="did you mean 'TRADE_AGG'"):
        decode(b"{}", "TRADE_AG")


# A crash would take the test run with it, so these have a process of their own.
HOSTILE = """
    from tidytape.errors import DecodeError
    from tidytape.wire import decode
    deep = 100_000
    bodies = [
        b"null", b" null", b"null null", b"{}null", b"[" * deep, b'{"a":' * deep, b"[" * deep + b"]" * deep,
        b'{"series":' + b"[" * deep + b"]" * deep + b"}",
        b'{"foo":' + b"[" * deep + b"]" * deep + b"}",
        b'{"foo":' * deep + b"1" + b"}" * deep,
        b'{"series":[{"points":[{"Point":{"timestamp":{"s":0},"foo":' + b"[" * deep + b"]" * deep + b"}}]}]}",
        b'{"series":[{"points":[{"Point":{"timestamp":{"s":0},"foo":'
        + b"[" * deep + b"NaN" + b"]" * deep + b"}}]}]}",
    ]
    for body in bodies:
        try:
            decode(body, "TRADE_SIDE_AGNOSTIC_AGG")
        except DecodeError:
            print("refused")
        else:
            print("read", body[:80])
    print("alive")
"""


@pytest.mark.slow
def test_hostile_nesting_does_not_take_the_process_down() -> None:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(HOSTILE)],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        timeout=120,
        check=False,
    )
    assert done.stdout.split() == ["refused"] * 12 + ["alive"], done.stderr


# --- lists --------------------------------------------------------------------------------------------------


@each_row(
    ("text", "found"),
    [
        (b'{"coins":["BTC","ETH"]}', ["BTC", "ETH"]),
        (b'["BTC"]', ["BTC"]),
        (b'{"data":["BTC"],"total":1}', ["BTC"]),
        (b'{"coins":null}', []),
        (b"{}", []),
        (b"[]", []),
    ],
)
def test_lists_in_every_shape(text: bytes, found: list[str]) -> None:
    assert decode_list(text, ["coins"]) == found


@each_row("text", [b"", b"null", b"5", b'{"a":[1],"b":[2]}', b'{"coins":5}', b'{"error":"NOT_FOUND"}'])
def test_what_is_no_list(text: bytes) -> None:
    with pytest.raises(DecodeError):
        decode_list(text, ["coins"])


# spec.md, "Market entry" and "PredictionMarket entry".
MARKETS_BODY = b"""{"symbols": [
    {"exchange": "BINANCE", "rawSymbol": "BTCUSDT", "normalizedSymbol": "BTC-USDT", "coin": "BTC", "category":
    "SPOT",
     "coinName": "Bitcoin", "lastPrice": 61000.5, "volume24h": "1e9", "availableSince": {"s": 1502942400}},
    {"exchange": "P", "rawSymbol": "e", "listed": true, "predictionMarkets": [
        {"slug": "a", "outcomes": ["Yes", "No"], "prices": [0.4, 0.6], "closed": false, "availableTo": {"s":
        1}}, {"slug": "b", "buyVolume24H": 5, "oneDayOIChange": 2}]}
], "nextOffset": "2"}"""


def test_markets() -> None:
    frame, next_offset = decode_markets(MARKETS_BODY)
    assert next_offset == 2
    assert frame.columns[:3] == ["exchange", "raw_symbol", "normalized_symbol"]
    assert frame.columns[-2:] == ["listed", "prediction_markets"]
    assert frame.select("coin_name", "last_price", "volume_24h", "listed").rows() == [
        ("Bitcoin", 61000.5, 1e9, None),
        (None, None, None, True),
    ]
    assert ns(frame, "available_since") == [1502942400_000000000, None]
    none, (first, second) = frame["prediction_markets"].to_list()
    assert none is None
    assert (first["slug"], first["outcomes"], first["prices"], first["closed"]) == (
        "a",
        ["Yes", "No"],
        [0.4, 0.6],
        False,
    )
    assert (second["slug"], second["buy_volume_24h"], second["one_day_oi_change"]) == ("b", 5.0, 2.0)


def test_no_markets() -> None:
    frame, next_offset = decode_markets(b"{}")
    assert (frame.height, next_offset) == (0, None)


@pytest.mark.slow
@pytest.mark.parametrize(
    "hostile",
    [
        b"[]",
        b'{"symbols":5}',
        b'{"symbols":[5]}',
        b'{"symbols":[{"exchange":"X"}]}',
        b'{"symbols":[{"exchange":"X","rawSymbol":"Y","lastPrice":"much"}]}',
        b'{"symbols":[{"exchange":"X","rawSymbol":"Y","predictionMarkets":[{}]}]}',
        b'{"symbols":[],"nextOffset":"x"}',
        orjson.dumps({"symbols": [{"exchange": "X", "rawSymbol": "Y"} | MANY]}),
        orjson.dumps({"symbols": [{"exchange": "X", "rawSymbol": "Y", name: 1} for name in MANY]}),
    ],
)
def test_markets_that_are_none(hostile: bytes) -> None:
    with pytest.raises(DecodeError, match="MARKETS"):
        decode_markets(hostile)


# --- levels without sides ---

LEVELS = '"timestamp":{"s":60},"profile":[100,null,null,101,1,2]'


@each_row("volumes", ['"levelVolumes":[5,3]', '"level_volumes":["5","3"]', '"levelVolumes":[5,null]'])
def test_the_volume_of_a_level_without_sides_comes_beside_them(volumes: str) -> None:
    frame = decode(body(f"{{{LEVELS},{volumes}}}"), PROFILE)
    assert frame.select("price", "buy_volume", "sell_volume", "volume").rows() == [
        (100.0, None, None, 5.0), (101.0, 1.0, 2.0, 3.0),
    ]  # fmt: skip
    assert frame.columns == list(schema_of(PROFILE).names)
    assert decode(encode(frame, PROFILE), PROFILE).equals(frame)
    assert from_arrow(to_arrow(frame, PROFILE), PROFILE).equals(frame)


def test_points_with_and_without_such_levels_lie_in_one_body() -> None:
    points = [
        '{"timestamp":{"s":60},"profile":[100,1,2]}',
        '{"timestamp":{"s":120},"profile":[]}',
        f'{{{LEVELS.replace("60", "180")},"levelVolumes":[5,3]}}',
        '{"timestamp":{"s":240},"profile":[100,null,null],"levelVolumes":null}',
    ]
    joined = ",".join(f'{{"Point":{point}}}' for point in points)
    frame = decode(f'{{"series":[{{"id":{{"exchange":"X"}},"points":[{joined}]}}]}}'.encode(), PROFILE)
    assert frame["volume"].to_list() == [3.0, 5.0, 3.0, None]
    assert encode(frame, PROFILE).count(b"levelVolumes") == 1
    assert decode(encode(frame, PROFILE), PROFILE).equals(frame)


def test_volumes_of_another_number_of_levels_are_refused() -> None:
    with pytest.raises(DecodeError, match="levelVolumes has 1 values for 2 levels"):
        decode(body(f'{{{LEVELS},"levelVolumes":[5]}}'), PROFILE)
