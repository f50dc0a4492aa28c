"""Normalised messages of tardis-node."""

from __future__ import annotations

import json

import polars as pl
import pytest

from ingested import ingest
from tidytape.errors import IngestError
from tidytape.lake._batch import Spool
from tidytape.lake._tables import FUNDING, OPEN_INTEREST
from tidytape.lake.ingest import TardisNode
from tidytape.lake.ingest._layout import Job
from tidytape.lake.ingest._lines import BadLines, numbered

HEAD = {"symbol": "BTCUSDT", "exchange": "binance-futures"}
TIMES = {"timestamp": "2024-02-29T23:59:59.998Z", "localTimestamp": "2024-03-01T00:00:00.001Z"}
AT, SEEN = 1_709_251_199_998_000_000, 1_709_251_200_001_000_000
TRADE = {"type": "trade", **HEAD, "id": "7", "price": 61130.98, "amount": 0.00145, "side": "sell", **TIMES}
LIQUIDATION = TRADE | {"type": "liquidation", "id": None}
TICKER = {
    "type": "derivative_ticker", **HEAD, "lastPrice": 1, "openInterest": 5, "fundingRate": 1e-5,
    "fundingTimestamp": "2024-03-01T08:00:00.000Z", "predictedFundingRate": None, "indexPrice": 1, "markPrice": 2.5,
    **TIMES,
}  # fmt: skip
OPTION = {
    "type": "option_summary", "symbol": "MATIC_USDC-9MAR24-1D02-C", "exchange": "deribit", "optionType": "call",
    "strikePrice": 1.02, "expirationDate": "2024-03-09T08:00:00.000Z", "bestBidPrice": None, "openInterest": 0,
    "markPrice": 0.139, "markIV": 209.64, "delta": 0.9, "underlyingPrice": 1.1367, **TIMES,
}  # fmt: skip
FILES = {
    "trade": "tardis-node_normalized_trade.jsonl.gz",
    "derivative_ticker": "tardis-node_normalized_derivative_ticker.jsonl.gz",
    "liquidation": "tardis-node_normalized_liquidation.jsonl",
    "option_summary": "tardis-node_normalized_option_summary.jsonl",
}


def put(path, lake, **options):
    return ingest(path, lake, layout="tardis-node", **options)


@pytest.fixture
def messages(write):
    return lambda *found, **how: write(*map(json.dumps, found), **how)


def only(lake, table):
    (row,) = lake.scan(table).collect().to_dicts()
    return row


@pytest.mark.slow
@pytest.mark.parametrize("packed", [False, True])
def test_each_kind_goes_into_its_table(messages, lake, packed):
    report = put(messages(TRADE, LIQUIDATION, TICKER, OPTION, packed=packed), lake)
    assert (report.bad_lines, report.files[0].ignored) == (0, ())
    trade = only(lake, "trades")
    assert (trade["exchange"], trade["raw_symbol"], trade["id"]) == ("BINANCE_FUTURES", "BTCUSDT", "7")
    assert (trade["timestamp"], trade["received"], trade["side"]) == (AT, SEEN, "SELL")
    assert (trade["price"], trade["amount"]) == (61130.98, 0.00145)
    liquidation = only(lake, "liquidations")
    assert (liquidation["side"], liquidation["id"]) == ("BUY", f"{AT}/61130.98/0.00145/BUY/0")
    funding = only(lake, "funding")
    assert (funding["rate"], funding["predicted_rate"]) == (1e-5, None)
    assert funding["next_funding"] == 1_709_280_000 * 10**9
    assert only(lake, "open_interest")["amount"] == 5.0
    option = only(lake, "option_quotes")
    assert (option["coin"], option["option_type"], option["strike"]) == ("MATIC", "CALL", 1.02)
    assert (option["implied_volatility"], option["forward"], option["open_interest"]) == (209.64, 1.1367, 0.0)
    assert option["expiry"] == 1_709_971_200 * 10**9


@pytest.mark.slow
def test_other_messages_are_counted(messages, lake):
    change = {"type": "book_change", **HEAD, "isSnapshot": True, "bids": [], "asks": [], **TIMES}
    report = put(messages(TRADE, change, change, {"type": "disconnect", "exchange": "x"}), lake)
    assert report.files[0].ignored == (("book_change message", 2), ("disconnect message", 1))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ([], "no JSON object with a type"),
        ({"exchange": "x"}, "no JSON object with a type"),
        (TRADE | {"price": "ten"}, "the price '.*' is not a finite number"),
        (TRADE | {"price": {"a": 1}}, "no JSON object with a type, or a field is no text or number"),
        (TRADE | {"side": None}, "no side"),
        (TRADE | {"timestamp": "soon"}, "the timestamp '.*' is not a written date and time"),
        (TRADE | {"amount": 0}, "the amount '.*' is not a finite number above 0"),
        (OPTION | {"symbol": "-X"}, "the symbol does not begin with a coin"),
        (OPTION | {"exchange": "elsewhere"}, "whether elsewhere quotes volatility"),
        (TICKER | {"openInterest": -1}, "the openInterest '.*' is not a finite number, 0 or above"),
    ],
)
def test_a_broken_message_is_named_and_nothing_goes_in(messages, lake, message, reason):
    path = messages(TRADE, message)
    with pytest.raises(IngestError, match=reason) as caught:
        put(path, lake)
    assert caught.value.line == 2
    assert lake.scan("trades").collect().is_empty()
    assert put(path, lake, skip_bad=True).trades_new == 1


@pytest.mark.slow
def test_a_given_venue_is_that_of_one_venue(messages, lake):
    put(messages(TRADE), lake, exchange="BINANCE")
    assert only(lake, "trades")["exchange"] == "BINANCE"
    with pytest.raises(IngestError, match="holds binance-futures, deribit and not X alone"):
        put(messages(TRADE, OPTION, name="b"), lake, exchange="X")


def parsed(recorded, kind):
    return TardisNode().read(Job(recorded / FILES[kind]), Spool(), lambda _: None)


# Every recorded message is a row, counted, or refused with a reason.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "lines", "kept", "superseded", "venues", "ignored", "bad"),
    [
        ("trade", 159, {"trades": 156}, {}, 56, {}, 3),
        (
            "derivative_ticker", 133, {"open_interest": 71, "funding": 59}, {"open_interest": 11, "funding": 14}, 29,
            {"ticker without funding rate and open interest": 29}, 0,
        ),
        # Two messages of one liquidation are the same row.
        ("liquidation", 38, {"liquidations": 37}, {}, 17, {}, 0),
        ("option_summary", 30, {"option_quotes": 24}, {"option_quotes": 6}, 6, {}, 0),
    ],
)  # fmt: skip
def test_the_recorded_messages(recorded, lake, kind, lines, kept, superseded, venues, ignored, bad):
    report = put(recorded / FILES[kind], lake, skip_bad=True, amount_unit="coin")
    (file,) = report.files
    assert file.lines == lines
    assert {one.table: one.new for one in file.counts} == kept
    assert {one.table: one.superseded for one in file.counts if one.superseded} == superseded
    assert (dict(file.ignored), file.bad_lines) == (ignored, bad)
    exchanges = pl.concat(lake.scan(table).select("exchange").collect() for table in kept)
    assert exchanges["exchange"].n_unique() == venues


@pytest.mark.slow
def test_every_recorded_ticker_is_accounted_for(recorded, lake):
    counts = put(recorded / FILES["derivative_ticker"], lake, amount_unit="coin")
    texts = pl.concat(
        block["text"] for block in numbered(recorded / FILES["derivative_ticker"], BadLines(), lambda _: None)
    )
    tickers = [json.loads(text) for text in texts]
    rated = [t for t in tickers if t["fundingRate"] is not None or t["predictedFundingRate"] is not None]
    interest = [t for t in tickers if t["openInterest"] is not None]
    for found, count in ((rated, counts.count(FUNDING)), (interest, counts.count(OPEN_INTEREST))):
        assert len(found) == count.read == count.new + count.superseded
    last = {(t["exchange"], t["symbol"], t["timestamp"]): t["fundingRate"] for t in rated}
    assert len(last) == counts.count(FUNDING).new
    kucoin = [t["fundingRate"] for t in rated if t["exchange"] == "kucoin-futures"]
    kept = lake.scan("funding", exchange="KUCOIN_FUTURES").collect()
    assert kept.filter(timestamp=1_706_068_800 * 10**9)["rate"].to_list() == [kucoin[-1]]


def test_the_recorded_trades_that_are_refused_share_an_id(recorded):
    found = parsed(recorded, "trade")
    assert {reason for _, reason in found.bad.first} == {"another event before it has the same id"}


@pytest.mark.slow
def test_the_recorded_volatilities_are_percent(lake, recorded):
    put(recorded / FILES["option_summary"], lake)
    quotes = lake.scan("option_quotes").collect()
    assert quotes["implied_volatility"].drop_nulls().is_between(40, 300).all()
