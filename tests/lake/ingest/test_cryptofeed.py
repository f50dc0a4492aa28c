"""BitMEX's list of instruments, as cryptofeed records it."""

from __future__ import annotations

import json

import pytest

from ingested import ingest
from tidytape.errors import IngestError, QueryError

ADDRESS = "https://www.bitmex.com/api/v1/instrument/active -> 1626993367.384902: "
CONTRACT = {
    "symbol": "XBTUSD", "timestamp": "2021-07-22T22:36:05.000Z", "fundingRate": 0.0001,
    "indicativeFundingRate": 0.0002, "fundingTimestamp": "2021-07-23T04:00:00.000Z",
    "fundingInterval": "2000-01-01T08:00:00.000Z", "openInterest": 574264600, "markPrice": 32184.89,
    "isInverse": True, "isQuanto": False,
    "multiplier": -100000000, "underlyingToSettleMultiplier": -100000000, "quoteToSettleMultiplier": None,
    "ignored": [],
}  # fmt: skip


def put(path, lake, **options):
    return ingest(path, lake, layout="cryptofeed", **options)


@pytest.mark.slow
def test_a_contract_is_funding_and_open_interest(write, lake):
    dated = {"symbol": "XBTU21", "timestamp": "2021-07-22T22:36:05.000Z", "openInterest": None}
    put(write(ADDRESS + json.dumps([CONTRACT, dated]), "configuration: {}"), lake)
    assert lake.scan("funding").collect().to_dicts() == [
        {
            "exchange": "BITMEX", "raw_symbol": "XBTUSD", "timestamp": 1_626_993_365 * 10**9, "rate": 1e-4,
            "predicted_rate": 2e-4, "funding_interval": 8 * 3600 * 10**9, "next_funding": 1_627_012_800 * 10**9,
            "received": 1_626_993_367_384_902_000,
        }
    ]  # fmt: skip
    (interest,) = lake.scan("open_interest").collect().select("amount", "quote_amount").rows()
    assert interest == (574_264_600 / 32184.89, 574_264_600.0)
    (market,) = lake.markets().filter(raw_symbol="XBTUSD").select("contract", "contract_size").rows()
    assert market == ("INVERSE", 1.0)


LINEAR = CONTRACT | {
    "symbol": "XBTUSDT", "isInverse": False, "multiplier": 1, "underlyingToSettleMultiplier": None,
    "quoteToSettleMultiplier": 1_000_000, "openInterest": 3_000, "markPrice": 30_000.0,
}  # fmt: skip


@pytest.mark.slow
def test_the_list_says_what_a_contract_is(write, lake):
    """Trades of the same market need no contract after the list, and another one is refused."""
    put(write(ADDRESS + json.dumps([LINEAR])), lake)
    assert lake.scan("open_interest").collect()["amount"].to_list() == [0.003]
    trade = "bitmex,XBTUSDT,1626993365000000,1626993365000001,a,buy,30000,2000"
    head = "exchange,symbol,timestamp,local_timestamp,id,side,price,amount"
    ingest(write(head, trade, name="bitmex_trades_x.csv"), lake)
    assert lake.scan("trades").collect().select("amount", "quote_amount").rows() == [(0.002, 60.0)]
    later = LINEAR | {"timestamp": "2021-07-22T22:37:05.000Z"}
    with pytest.raises(
        QueryError, match="contract: got 'LINEAR of 5', expected what the list of instruments"
    ):
        put(write(ADDRESS + json.dumps([later]), name="b"), lake, contract="linear", contract_size=5)


@pytest.mark.slow
def test_a_contract_that_no_list_describes_is_refused(write, lake):
    bare = {name: value for name, value in CONTRACT.items() if name not in {"isInverse", "multiplier"}}
    with pytest.raises(QueryError, match="BITMEX XBTUSD are numbers of contracts"):
        put(write(ADDRESS + json.dumps([bare])), lake)
    put(write(ADDRESS + json.dumps([bare]), name="b"), lake, contract="inverse", contract_size=1)
    assert lake.scan("open_interest").collect()["quote_amount"].to_list() == [574_264_600.0]


@pytest.mark.slow
def test_open_interest_of_a_quanto_contract_is_no_number_of_coins(write, lake):
    report = put(write(ADDRESS + json.dumps([CONTRACT | {"isInverse": False, "isQuanto": True}])), lake)
    assert dict(report.files[0].ignored) == {"open interest of a quanto contract": 1}
    assert lake.scan("open_interest").collect().is_empty()
    assert lake.scan("funding").collect().height == 1


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("[{", "the answer is no JSON"),
        ("{}", "the answer is no list of instruments"),
        (json.dumps([CONTRACT | {"fundingRate": "x"}]), "the fundingRate '.*' is not a finite number"),
        (json.dumps([CONTRACT | {"symbol": None}]), "no symbol"),
    ],
)
def test_a_broken_answer_is_a_bad_line(write, lake, answer, said):
    with pytest.raises(IngestError, match=said):
        put(write(ADDRESS + answer), lake)


@pytest.mark.slow
def test_the_recorded_list(lake, recorded):
    path = recorded / "cryptofeed_BITMEX.0_instruments.gz"
    report = put(path, lake)
    assert report.files[0].ignored == (
        ("line that is no answer with instruments", 1),
        ("open interest of a quanto contract", 22),
    )
    funding, interest = lake.scan("funding").collect(), lake.scan("open_interest").collect()
    assert (funding.height, interest.height) == (23, 12)
    assert funding["funding_interval"].unique().to_list() == [8 * 3600 * 10**9]
    assert interest.filter(raw_symbol="XBTUSD")["quote_amount"].to_list() == [574_264_600.0]
    assert interest.filter(raw_symbol="XRPU21")["amount"].to_list() == [2_326_060.0]
    one = put(path, lake, raw_symbol="XBTUSD", exchange="OTHER")
    assert dict(one.files[0].ignored)["contract of another symbol"] == 33
