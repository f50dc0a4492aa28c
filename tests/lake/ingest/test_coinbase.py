"""Saved answers of Coinbase Exchange's REST API, in the form of its documentation."""

from __future__ import annotations

import json

import pytest

from tidytape.errors import IngestError, QueryError
from tidytape.lake.ingest import Coinbase, Market, ingest
from tidytape.lake.ingest._layouts import recognised

T = 1_584_664_560  # 2020-03-20 00:36 UTC
TRADE = {
    "time": "2020-03-20T00:36:59.860Z", "trade_id": 86327327, "price": "6225.32000000", "size": "0.06469797",
    "side": "sell",
}  # fmt: skip
BTC = Market(raw_symbol="BTC-USD")


def test_the_side_of_a_trade_is_that_of_the_maker(write, lake):
    older = TRADE | {"trade_id": 86327326, "side": "buy"}
    path = write(json.dumps([TRADE, older], indent=1))
    assert recognised(path).name == "coinbase"
    ingest(path, lake, market=BTC)
    first, second = lake.scan("trades").sort("sequence").collect().to_dicts()
    assert (first["id"], first["side"]) == ("86327326", "SELL")
    assert second == {
        "exchange": "COINBASE", "raw_symbol": "BTC-USD", "id": "86327327", "sequence": 86327327,
        "timestamp": (T + 59) * 10**9 + 860_000_000, "side": "BUY", "price": 6225.32, "amount": 0.06469797,
        "quote_amount": 6225.32 * 0.06469797, "received": None,
    }  # fmt: skip


def test_candles_are_of_the_length_that_is_said(write, lake):
    # time, low, high, open, close, volume; the newest first
    candles = [[T + 60, 0.32, 4.2, 0.35, 4.2, 12.3], [T, 0.3, 0.4, 0.3, 0.35, 1]]
    path = write(json.dumps(candles))
    with pytest.raises(QueryError, match="interval: left out, expected how long the candles of log are"):
        ingest(path, lake, Coinbase(), market=BTC)
    ingest(path, lake, Coinbase(interval="1m"), market=BTC)
    _, last = lake.scan("candles").sort("timestamp").collect().to_dicts()
    assert (last["timestamp"], last["interval"]) == ((T + 60) * 10**9, 60 * 10**9)
    assert [last[name] for name in ("open", "high", "low", "close", "volume")] == [0.35, 4.2, 0.32, 4.2, 12.3]


def test_an_answer_per_line(write, lake):
    path = write(json.dumps([TRADE]), json.dumps([TRADE | {"trade_id": 86327328}]))
    assert ingest(path, lake, Coinbase(), market=BTC).trades_new == 2
    assert ingest(path, lake, Coinbase(), market=BTC).files[0].already_ingested


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        (TRADE | {"price": "ten"}, "the price 'ten' is not a finite number"),
        (TRADE | {"side": None}, "the side 'none' is not one of buy, b, sell, s"),
        (TRADE | {"time": "soon"}, "the timestamp 'soon' is not a written date and time"),
        ({"message": "NotFound"}, "neither a trade nor a candle of Coinbase"),
        ([1, 2], "neither a trade nor a candle of Coinbase"),
    ],
)
def test_a_broken_entry_is_named_by_its_number(write, lake, entry, reason):
    path = write(json.dumps([TRADE, entry]))
    with pytest.raises(IngestError, match=reason) as caught:
        ingest(path, lake, Coinbase(), market=BTC)
    assert caught.value.line == 2
    assert lake.scan("trades").collect().is_empty()
    assert ingest(path, lake, Coinbase(), market=BTC, skip_bad=True).bad_lines == 1


@pytest.mark.parametrize("entry", [[1, 2], 5, None, "x", {}, []], ids=repr)
def test_a_broken_entry_takes_no_other_along(write, lake, entry):
    first, second, third = (TRADE | {"trade_id": number} for number in range(3))
    path = write(json.dumps([entry, first, entry, second]), json.dumps([third]))
    report = ingest(path, lake, Coinbase(), market=BTC, skip_bad=True)
    assert (report.trades_new, report.bad_lines) == (3, 2)


def test_arrays_in_arrays_are_no_answer(write, lake):
    path = write(json.dumps([TRADE]), "[" * 1_000 + "]" * 1_000)
    report = ingest(path, lake, Coinbase(), market=BTC, skip_bad=True)
    assert (report.trades_new, report.bad_lines) == (1, 1)


def test_the_product_is_asked_for(write, lake):
    with pytest.raises(QueryError, match="raw_symbol: left out"):
        ingest(write(json.dumps([TRADE])), lake)


def test_what_is_no_json_is_refused(write, lake):
    with pytest.raises(IngestError, match="no JSON"):
        ingest(write("time,price"), lake, Coinbase(), market=BTC)
    with pytest.raises(QueryError, match="interval: got '90s'"):
        Coinbase(interval="90s")
