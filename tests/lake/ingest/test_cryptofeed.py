"""BitMEX's list of instruments, as cryptofeed records it."""

from __future__ import annotations

import json

import pytest

from tidytape.errors import IngestError
from tidytape.lake.ingest import ingest

ADDRESS = "https://www.bitmex.com/api/v1/instrument/active -> 1626993367.384902: "
CONTRACT = {
    "symbol": "XBTUSD", "timestamp": "2021-07-22T22:36:05.000Z", "fundingRate": 0.0001,
    "indicativeFundingRate": 0.0002, "fundingTimestamp": "2021-07-23T04:00:00.000Z",
    "fundingInterval": "2000-01-01T08:00:00.000Z", "openInterest": 574264600, "markPrice": 32184.89, "ignored": [],
}  # fmt: skip


def put(path, lake, **options):
    return ingest(path, lake, layout="cryptofeed", **options)


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
    assert lake.scan("open_interest").collect()["amount"].to_list() == [574_264_600.0]


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


def test_the_recorded_list(lake, recorded):
    path = recorded / "cryptofeed_BITMEX.0_instruments.gz"
    report = put(path, lake)
    assert report.files[0].ignored == (("line that is no answer with instruments", 1),)
    funding, interest = lake.scan("funding").collect(), lake.scan("open_interest").collect()
    assert (funding.height, interest.height) == (23, 34)
    assert funding["funding_interval"].unique().to_list() == [8 * 3600 * 10**9]
    assert interest.filter(raw_symbol="XBTUSD")["amount"].to_list() == [574_264_600.0]
    one = put(path, lake, raw_symbol="XBTUSD", exchange="OTHER")
    assert dict(one.files[0].ignored)["contract of another symbol"] == 33
