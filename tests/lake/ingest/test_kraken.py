"""Saved answers of Kraken's REST API, in the form of its documentation."""

from __future__ import annotations

import json

import pytest

from tidytape.errors import IngestError, QueryError
from tidytape.lake.ingest import Kraken, ingest
from tidytape.lake.ingest._layouts import recognised

T = 1_688_671_200  # 2023-07-06 19:20 UTC
TRADES = [
    ["30243.40000", "0.34507674", T + 0.8277, "b", "m", "", 61044952],
    ["30243.30000", "0.00376960", T + 0.8277, "s", "l", "", 61044953],
]
CANDLES = [
    [T, "30306.1", "30306.2", "30305.7", "30305.7", "30306.1", "3.39243896", 23],
    [T + 60, "30304.5", "30304.5", "30300.0", "30300.0", "30300.0", "4.42996871", 18],
]


def answer(entries, pair="XXBTZUSD", errors=()):
    return json.dumps({"error": list(errors), "result": {pair: entries, "last": "1688671969993150842"}})


def test_trades_say_their_pair_and_the_side_of_the_taker(write, lake):
    path = write(answer(TRADES))
    assert recognised(path).name == "kraken"
    report = ingest(path, lake)
    assert (report.trades_new, report.files[0].lines) == (2, 2)
    first, second = lake.scan("trades").sort("sequence").collect().to_dicts()
    assert first == {
        "exchange": "KRAKEN", "raw_symbol": "XXBTZUSD", "id": "61044952", "sequence": 61044952,
        "timestamp": T * 10**9 + 827_700_000, "side": "BUY", "price": 30243.4, "amount": 0.34507674,
        "quote_amount": 30243.4 * 0.34507674, "received": None,
    }  # fmt: skip
    assert second["side"] == "SELL"
    assert ingest(path, lake).files[0].already_ingested


def test_trades_of_older_answers_have_no_id(write, lake):
    path = write(answer([entry[:-1] for entry in [*TRADES, TRADES[0]]]))
    assert ingest(path, lake).trades_new == 3
    assert lake.scan("trades").collect()["id"].n_unique() == 3


@pytest.mark.slow
def test_the_open_candle_is_left_out(write, lake):
    path = write(answer(CANDLES))
    with pytest.raises(QueryError, match="interval: left out, expected how long the candles of log are"):
        ingest(path, lake)
    report = ingest(path, lake, Kraken(interval="1m"))
    assert report.files[0].ignored == (("candle that was still open", 1),)
    (row,) = lake.scan("candles").collect().to_dicts()
    assert [row[name] for name in ("timestamp", "interval")] == [T * 10**9, 60 * 10**9]
    assert [row[name] for name in ("open", "high", "low", "close", "volume")] == [
        30306.1, 30306.2, 30305.7, 30305.7, 3.39243896,
    ]  # fmt: skip


def test_an_answer_per_line(write, lake):
    path = write(answer(TRADES), answer([], pair="XETHZUSD"), answer(TRADES, pair="XETHZUSD"))
    assert ingest(path, lake, Kraken()).trades_new == 4
    assert lake.markets()["raw_symbol"].to_list() == ["XETHZUSD", "XXBTZUSD"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (answer([TRADES[0], ["ten", *TRADES[1][1:]]]), "the price 'ten' is not a finite number"),
        (answer([TRADES[0], [*TRADES[1][:3], "x", *TRADES[1][4:]]]), "the side 'x' is not one of buy, b"),
        (answer([TRADES[0], TRADES[1][:4]]), "neither a trade nor a candle of Kraken"),
    ],
)
def test_a_broken_entry_is_named_by_its_number(write, lake, text, reason):
    path = write(text)
    with pytest.raises(IngestError, match=reason) as caught:
        ingest(path, lake)
    assert caught.value.line == 2
    assert lake.scan("trades").collect().is_empty()
    assert ingest(path, lake, skip_bad=True).bad_lines == 1


@pytest.mark.parametrize("entry", [["1"], ["1"] * 9, 5, None, "abcdefg", {}, []], ids=repr)
def test_a_broken_entry_takes_no_other_along(write, lake, entry):
    path = write(answer([entry, TRADES[0], entry, TRADES[1]]), answer([*TRADES, entry], pair="XETHZUSD"))
    report = ingest(path, lake, Kraken(), skip_bad=True)
    assert (report.trades_new, report.bad_lines) == (4, 3)


def test_a_broken_candle_takes_no_other_along(write, lake):
    path = write(answer([["1"], CANDLES[0], None, *CANDLES[1:]]))
    report = ingest(path, lake, Kraken(interval="1m"), skip_bad=True)
    assert (lake.scan("candles").collect().height, report.bad_lines) == (1, 2)


@pytest.mark.parametrize("entries", [5, None, "abc", {"a": 1}], ids=repr)
def test_what_is_no_array_of_entries_is_one_broken_entry(write, lake, entries):
    report = ingest(write(answer(entries), answer(TRADES)), lake, Kraken(), skip_bad=True)
    assert (report.trades_new, report.bad_lines) == (2, 1)


@pytest.mark.parametrize("is_newer_first", [True, False])
def test_trades_without_an_id_among_others_with_one_are_broken(write, lake, is_newer_first):
    answers = [answer(TRADES), answer([entry[:-1] for entry in TRADES], pair="XETHZUSD")]
    path = write(*answers if is_newer_first else answers[::-1])
    with pytest.raises(IngestError, match="no id; 2 bad lines in all"):
        ingest(path, lake, Kraken())


def test_an_error_is_no_answer(write, lake):
    path = write(json.dumps({"error": ["EQuery:Unknown asset pair"]}))
    with pytest.raises(IngestError, match="no answer of Kraken with a result"):
        ingest(path, lake, Kraken())
