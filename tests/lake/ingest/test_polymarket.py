"""Prediction markets of the gamma API into the lake."""

from __future__ import annotations

import gzip
import json
from itertools import permutations

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from lakes import empty_lake
from tidytape.errors import IngestError, QueryError
from tidytape.lake import Lake
from tidytape.lake.ingest._prediction import ingest_prediction_markets

RECORDED = "nautilus_polymarket_gamma_market.json"
UP = "104239898038807136052399800151408521467737075933964991162589336683346093173875"
DOWN = "71183960810705820955071415844881728181970340514894896943812046065452395013351"
CONDITION = "0x78443f961b9a65869dcb39359de9960165c7e5cbad0904eac7f29cd77872a63b"


def market(**changes: object) -> dict[str, object]:
    fields = {
        "conditionId": "0x1",
        "slug": "rain-in-may",
        "question": "Rain in May?",
        "updatedAt": "2026-03-11T15:14:46Z",
        "startDate": "2026-03-01T00:00:00Z",
        "outcomes": '["Yes", "No"]',
        "clobTokenIds": '["11", "22"]',
        "lastTradePrice": 0.25,
    } | changes
    return {name: value for name, value in fields.items() if value is not ...}


def put_in(path, lake, **options):
    return ingest_prediction_markets(path, lake, exchange="POLYMARKET", **options)


def told(lake: Lake) -> dict[str, object]:
    row = lake.prediction_markets().row(0, named=True)
    return {name: value for name, value in row.items() if value is not None}


@pytest.mark.slow
def test_a_recorded_market_field_by_field(recorded, lake):
    report = put_in(recorded / RECORDED, lake)
    assert (report.prediction_markets, report.outcomes, report.changed) == (1, 2, True)
    assert told(lake) == {
        "exchange": "POLYMARKET",
        "condition_id": CONDITION,
        "reported": 1_773_242_086_097_817_000,
        "raw_symbols": [UP, DOWN],
        "event_slug": "btc-updown-5m-1773307200",
        "icon_url": "https://polymarket-upload.s3.us-east-2.amazonaws.com/BTC+fullsize.png",
        "slug": "btc-updown-5m-1773307200",
        "question": "Bitcoin Up or Down - March 12, 5:20AM-5:25AM ET",
        "outcomes": ["Up", "Down"],
        "last_price": 0.51,
        "total_volume": 9.999997,
        "order_price_min_tick_size": 0.01,
        "closed": False,
        "available_since": 1_773_221_341_328_428_000,
        "available_to": 1_773_307_500 * 10**9,
    }
    up, down = lake.markets().to_dicts()
    assert {name: value for name, value in down.items() if value is not None} == {
        "exchange": "POLYMARKET",
        "raw_symbol": DOWN,
        "normalized_symbol": "btc-updown-5m-1773307200:Down-USDC",
        "coin": "btc-updown-5m-1773307200:Down",
        "quote_coin": "USDC",
        "category": "SPOT",
        "tick_size": 0.01,
        "block_size": 0.001,
        "coin_name": "Down",
        "quote_coin_name": "USD Coin",
        "full_name": "Bitcoin Up or Down - March 12, 5:20AM-5:25AM ET Down",
        "icon_url": "https://polymarket-upload.s3.us-east-2.amazonaws.com/BTC+fullsize.png",
        "available_since": 1_773_221_341_328_428_000,
    }
    assert up["raw_symbol"] == UP
    version = lake.version()
    again = put_in(recorded / RECORDED, lake)
    assert not again.changed
    assert str(again).endswith("1 prediction market, 2 outcomes; nothing new")
    assert lake.version() == version


@pytest.mark.slow
def test_one_object_an_array_and_lines_are_the_same(tmp_path, write):
    both = [market(), market(conditionId="0x2", slug="snow", clobTokenIds=["33", "44"])]
    texts = {
        "array": json.dumps(both),
        "indented": json.dumps(both, indent=4),
        "lines": "\n\n".join(map(json.dumps, both)),
    }
    lakes = {}
    for name, text in texts.items():
        lakes[name] = empty_lake(tmp_path / f"lake-{name}")
        assert put_in(write(text, name=name, packed=name == "lines"), lakes[name]).outcomes == 4
    lakes["objects"] = empty_lake(tmp_path / "lake-objects")
    put_in([write(json.dumps(one), name=f"{n}") for n, one in enumerate(both)], lakes["objects"])
    for lake in lakes.values():
        assert_frame_equal(lake.prediction_markets(), lakes["array"].prediction_markets())
        assert_frame_equal(lake.markets(), lakes["array"].markets())


@pytest.mark.slow
def test_snapshots_may_come_in_any_order(tmp_path, write):
    snapshots = [
        market(lastTradePrice=0.2, line=1.5, icon="http://old"),
        market(updatedAt="2026-03-12T00:00:00Z", lastTradePrice=0.3, orderPriceMinTickSize="0.001"),
        market(updatedAt="2026-03-13T00:00:00.5+00:00", closed=True, question="Rain in May 2026?"),
        market(updatedAt="2026-03-13T00:00:00.5+00:00", closed=True, question="Rain in May 2026?"),
    ]
    paths = [write(json.dumps(one), name=str(number)) for number, one in enumerate(snapshots)]
    states = []
    for number, order in enumerate(permutations(paths)):
        lake = empty_lake(tmp_path / f"lake{number}")
        if number % 2:
            put_in(order, lake)
        else:
            for path in order:
                put_in(path, lake)
        states.append((lake.prediction_markets(), lake.markets()))
        if number == 5:
            break
    for predictions, markets in states:
        assert_frame_equal(predictions, states[0][0])
        assert_frame_equal(markets, states[0][1])
    row = states[0][0].row(0, named=True)
    assert (row["last_price"], row["line"], row["closed"]) == (0.25, 1.5, True)
    first = states[0][1].row(0, named=True)
    assert (first["full_name"], first["tick_size"], first["icon_url"]) == (
        "Rain in May 2026? Yes", 0.001, "http://old",
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "column", "value"),
    [
        ({"lastTradePrice": "0.05"}, "last_price", 0.05),
        ({"lastTradePrice": "1"}, "last_price", 1.0),
        ({"lastTradePrice": ""}, "last_price", None),
        ({"lastTradePrice": None}, "last_price", None),
        ({"oneDayPriceChange": -0.25}, "one_day_price_change", -0.25),
        ({"volume": "12.5", "volumeNum": 12}, "total_volume", 12.5),
        ({"volumeNum": 12}, "total_volume", 12.0),
        ({"openInterest": 0}, "open_interest", 0.0),
        ({"line": "-3.5"}, "line", -3.5),
        ({"sportsMarketType": "spreads"}, "sports_market_type", "spreads"),
        ({"groupItemTitle": " June "}, "group_item_title", "June"),
        ({"groupItemTitle": ""}, "group_item_title", None),
        ({"closed": True}, "closed", True),
        ({"closed": ...}, "closed", None),
        ({"endDate": "2026-05-31T23:59:59Z"}, "available_to", 1_780_271_999 * 10**9),
        ({"startDate": ...}, "available_since", None),
        ({"outcomes": ["Yes", "No"]}, "outcomes", ["Yes", "No"]),
        ({"outcomes": "[]", "clobTokenIds": ""}, "outcomes", None),
        ({"clobTokenIds": ...}, "raw_symbols", None),
        ({"events": [{"slug": "rain"}]}, "event_slug", "rain"),
        ({"events": []}, "event_slug", None),
        # No history, though there are prices.
        ({"outcomePrices": '["0.5", "0.5"]'}, "prices", None),
    ],
)
def test_every_spelling_of_a_value(write, lake, changes, column, value):
    put_in(write(json.dumps(market(**changes))), lake)
    assert lake.prediction_markets()[column].to_list() == [value]


BROKEN = [
    ({"conditionId": ""}, "no conditionId"),
    ({"slug": ...}, "no slug"),
    ({"updatedAt": None}, "no updatedAt"),
    ({"updatedAt": "yesterday"}, "updatedAt is no written date and time"),
    ({"endDate": "2026-13-01T00:00:00Z"}, "endDate is no written date and time"),
    ({"startDate": 5}, "startDate is no text"),
    ({"lastTradePrice": "half"}, "lastTradePrice is no finite number"),
    ({"lastTradePrice": "nan"}, "lastTradePrice is no finite number"),
    ({"lastTradePrice": "1e999"}, "lastTradePrice is no finite number"),
    ({"lastTradePrice": True}, "lastTradePrice is no finite number"),
    ({"lastTradePrice": 1.01}, "lastTradePrice is 1.01, and not between 0 and 1"),
    ({"oneDayPriceChange": -2}, "oneDayPriceChange is -2"),
    ({"volume": -1}, "volume is -1"),
    ({"orderPriceMinTickSize": 0}, "orderPriceMinTickSize is 0"),
    ({"closed": "no"}, "closed is neither"),
    ({"outcomes": "Yes, No"}, "outcomes is no list in JSON"),
    ({"outcomes": '{"Yes": 1}'}, "outcomes is no list of texts"),
    ({"outcomes": "[1, 2]"}, "outcomes is no list of texts"),
    ({"outcomes": '["Yes"]'}, "1 outcome, and 2 clobTokenIds"),
    ({"outcomes": '["Yes", "Yes"]'}, "outcomes names one twice"),
    ({"clobTokenIds": '["11", "11"]'}, "clobTokenIds names one twice"),
    ({"clobTokenIds": [11, 22]}, "clobTokenIds is no list of texts"),
    ({"clobTokenIds": ["a\tb", "22"]}, "clobTokenIds: got"),
    ({"outcomes": ["x" * 300, "No"]}, "outcomes: got"),
    ({"events": {"slug": "rain"}}, "events is no list of objects"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("changes", "reason"), BROKEN)
def test_a_broken_one_is_refused_with_its_place_and_reason(write, lake, changes, reason):
    version = lake.version()
    path = write(json.dumps([market(conditionId="0x2"), market(**changes)]))
    with pytest.raises(IngestError, match="skip_bad=True leaves them out") as caught:
        put_in(path, lake)
    assert str(caught.value).startswith(f"{path}:2: ")
    assert reason in str(caught.value)
    assert lake.version() == version
    report = put_in(path, lake, skip_bad=True)
    assert (report.files[0].reports, report.files[0].bad, report.prediction_markets) == (1, 1, 1)
    assert reason in str(report)


@pytest.mark.parametrize("text", ["5", "[5]", "null", '["a"]', "[[]]"])
def test_what_is_no_object_is_refused(write, lake, text):
    with pytest.raises(IngestError, match="not a JSON object"):
        put_in(write(text), lake)


@pytest.mark.parametrize("text", ["{", '{"a": 1', "[\n{},\n", "slug\nrain", '{"a": NaN}', " \n "])
def test_what_is_no_json_is_refused(write, lake, text):
    with pytest.raises(IngestError):
        put_in(write(text), lake, skip_bad=True)


def test_a_broken_line_has_its_number(write, lake):
    path = write(json.dumps(market()), "", '{"conditionId": ', json.dumps(market(conditionId="0x2")))
    with pytest.raises(IngestError, match=r":3: no JSON"):
        put_in(path, lake)
    assert put_in(path, lake, skip_bad=True).prediction_markets == 2


def test_an_empty_array_is_nothing(write, lake):
    report = put_in(write("[]"), lake)
    assert (report.prediction_markets, report.outcomes, report.changed) == (0, 0, False)
    assert put_in([], lake).files == ()


def test_a_file_that_breaks_off_is_refused(tmp_path, lake):
    path = tmp_path / "cut.gz"
    path.write_bytes(gzip.compress(json.dumps([market(question="x" * n) for n in range(50)]).encode())[:-40])
    with pytest.raises(IngestError, match="breaks off"):
        put_in(path, lake)
    with pytest.raises(IngestError, match="No such file"):
        put_in(tmp_path / "nothing", lake)


def test_the_venue_is_a_name(write, lake):
    with pytest.raises(QueryError, match="exchange"):
        ingest_prediction_markets(write(json.dumps(market())), lake, exchange=" ")


@pytest.mark.slow
def test_a_market_that_was_traded_before_keeps_what_is_known(write, lake):
    known = {"exchange": ["POLYMARKET"], "raw_symbol": ["11"], "coin": ["RAIN"], "available_since": [5]}
    lake.writer().register(pl.DataFrame(known))
    put_in(write(json.dumps(market())), lake)
    row = lake.markets().row(0, named=True)
    assert (row["coin"], row["available_since"], row["full_name"]) == ("RAIN", 5, "Rain in May? Yes")
