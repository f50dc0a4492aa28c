"""Recorded WebSocket logs: what is kept, what is counted, what is refused."""

from __future__ import annotations

import pytest

from ingested import ingest
from lakes import empty_lake
from tidytape.errors import IngestError, QueryError

MS = 10**6


def take(path, lake, **options):
    return ingest(path, lake, layout="binance-ws", exchange="BINANCE", **options)


@pytest.mark.parametrize("packed", [False, True])
def test_a_trade_is_kept_in_full(write, log, lake, packed):
    report = take(write(log.trade(7), log.trade(8, m=False), packed=packed), lake)
    rows = lake.scan("trades").sort("sequence").collect().to_dicts()
    assert rows[0] == {
        "exchange": "BINANCE", "raw_symbol": "BTCUSDT", "id": "7", "timestamp": 1_723_161_255_007 * MS,
        "sequence": 7, "side": "SELL", "price": 61837.63, "amount": 0.02, "quote_amount": 61837.63 * 0.02,
        "received": 1_723_161_253_001 * MS,
    }  # fmt: skip
    assert rows[1]["side"] == "BUY"  # the buyer was not the maker
    assert (report.trades_read, report.trades_new, report.bad_lines) == (2, 2, 0)


def test_times_in_microseconds_are_told_apart(write, log, lake):
    take(write(log.trade(7, T=1_723_161_255_007_123)), lake)
    assert lake.scan("trades").collect()["timestamp"].to_list() == [1_723_161_255_007_123_000]


def test_the_receive_time_may_run_before_the_exchange(write, log, lake):
    take(write(log.trade(7)), lake)
    row = lake.scan("trades").collect().row(0, named=True)
    assert row["received"] < row["timestamp"]


def test_book_events_are_kept_in_order(write, log, lake):
    lines = [
        log.update(3, 5, bids=[["10.0", "1.5"], ["9.5", "0"]], asks=[["11.0", "2"]]),
        log.snapshot(6, bids=[["10.0", "1"]], asks=[["11.0", "3"], ["11.5", "4"]]),
        log.update(6, 8, asks=[["11.5", "0.00"]]),
        log.update(9, 9),  # an update may change nothing
    ]
    report = take(write(*lines), lake)
    columns = ["last_id", "first_id", "is_snapshot", "side", "price", "size"]
    book = lake.scan("book").sort("last_id", "sequence").collect()
    assert book.select(columns).rows() == [
        (5, 3, False, "BID", 10.0, 1.5),
        (5, 3, False, "BID", 9.5, 0.0),
        (5, 3, False, "ASK", 11.0, 2.0),
        (6, None, True, "BID", 10.0, 1.0),
        (6, None, True, "ASK", 11.0, 3.0),
        (6, None, True, "ASK", 11.5, 4.0),
        (8, 6, False, "ASK", 11.5, 0.0),
    ]
    assert book["raw_symbol"].unique().to_list() == ["BTCUSDT"]
    snapshot = book.filter("is_snapshot")
    assert (snapshot["timestamp"] == snapshot["received"]).all()  # it has no other time
    assert (book.filter(last_id=5)["timestamp"] == 1_723_161_255_005 * MS).all()
    assert report.book_rows_new == 7


def test_a_snapshot_with_a_time_keeps_it(write, log, lake):
    lines = [log.update(3, 5), log.snapshot(6, bids=[["1", "2"]], E=1_723_161_256_501, T=1_723_161_256_493)]
    take(write(*lines), lake)
    assert lake.scan("book").collect()["timestamp"].to_list() == [1_723_161_256_501 * MS]


@pytest.mark.slow
def test_a_market_is_available_since_its_first_event_by_the_exchanges_clock(write, log, lake):
    def since():
        return lake.markets()["available_since"].to_list()

    snapshot = log.snapshot(6, bids=[["10.0", "1"]], asks=[["11.0", "3"]])  # received before everything
    take(write(snapshot), lake, raw_symbol="BTCUSDT")
    assert since() == [1_723_161_253_001 * MS]  # there is nothing else
    other = empty_lake(lake.path + "2")
    take(write(snapshot, log.trade(9), log.update(3, 5, bids=[["10.0", "1.5"]])), other)
    assert other.markets()["available_since"].to_list() == [1_723_161_255_005 * MS]
    take(write(log.snapshot(7, bids=[["10.0", "1"]]), name="later"), other, raw_symbol="BTCUSDT")
    assert other.markets()["available_since"].to_list() == [1_723_161_255_005 * MS]
    timed = log.snapshot(8, bids=[["10.0", "1"]], E=1_723_161_255_001)
    take(write(timed, name="timed"), other, raw_symbol="BTCUSDT")
    assert other.markets()["available_since"].to_list() == [1_723_161_255_001 * MS]


def test_other_messages_are_counted(write, log, lake):
    lines = [
        log.trade(1),
        log.ticker(),
        log.ticker(),
        log.line({"stream": "btcusdt@markPrice", "data": {"e": "markPriceUpdate", "p": "1"}}),
        log.line({"result": None, "id": 1}),
    ]
    report = take(write(*lines), lake)
    assert report.files[0].ignored == (("bookTicker", 2), ("markPriceUpdate", 1), ("other", 1))
    assert report.files[0].lines == 5


@pytest.mark.slow
def test_several_symbols_in_one_file(write, log, lake):
    lines = [log.trade(1), log.trade(1, s="ETHUSDT", p="2600"), log.update(3, 5, bids=[["10", "1"]])]
    report = take(write(*lines), lake)
    assert [(m.raw_symbol, m.normalized_symbol, m.block_size) for m in report.markets] == [
        ("BTCUSDT", "BTC-USDT", 2.0),
        ("ETHUSDT", "ETH-USDT", 0.1),
    ]
    with pytest.raises(QueryError, match="files of one market; these hold BTCUSDT, ETHUSDT"):
        take(write(*lines, log.trade(2)), lake, coin="BTC")


@pytest.mark.slow
def test_one_symbol_of_several_can_be_taken(write, log, lake):
    path = write(log.trade(1), log.trade(1, s="ETHUSDT", p="2600"))
    assert take(path, lake, raw_symbol="ETHUSDT").trades_new == 1
    assert lake.scan("trades").collect()["raw_symbol"].to_list() == ["ETHUSDT"]
    with pytest.raises(IngestError, match="has no 'SOLUSDT', only BTCUSDT, ETHUSDT"):
        take(path, lake, raw_symbol="SOLUSDT")


def test_a_snapshot_among_several_symbols_belongs_to_none(write, log, lake):
    path = write(log.trade(1), log.trade(1, s="ETHUSDT"), log.snapshot(6, bids=[["1", "2"]]))
    with pytest.raises(IngestError, match="a depth snapshot names no symbol, and the file has 2") as caught:
        take(path, lake)
    assert caught.value.line == 3


BAD = {
    "no time": lambda log: '{"stream":"btcusdt@trade"}',
    "no json": lambda log: "1723161253937085768 hello",
    "time in ms": lambda log: '1723161253937 {"stream":"x"}',
    "cut": lambda log: log.trade(5)[:-9],
    "two objects": lambda log: log.trade(5) + ',{"a":1}',
    "an array": lambda log: "1723161253937085768 [1]",
    "nan literal": lambda log: log.trade(5).replace('"61837.63000000"', "NaN"),
    "no price": lambda log: log.trade(5, p=...),
    "null price": lambda log: log.trade(5, p=None),
    "a word for a price": lambda log: log.trade(5, p="cheap"),
    "infinite price": lambda log: log.trade(5, p="inf"),
    "nan price": lambda log: log.trade(5, p="NaN"),
    "amount 0": lambda log: log.trade(5, q="0.00000000"),
    "negative amount": lambda log: log.trade(5, q="-1"),
    "no amount": lambda log: log.trade(5, q=...),
    "no id": lambda log: log.trade(5, t=...),
    "id of another type": lambda log: log.trade(5, t="five"),
    "no symbol": lambda log: log.trade(5, s=...),
    "a symbol with a tab": lambda log: log.trade(5, s="BTC\tUSDT"),
    "a symbol with a space before": lambda log: log.update(1, 2, bids=[["1", "2"]], s=" BTCUSDT"),
    "a symbol too long": lambda log: log.trade(5, s="B" * 250),
    "no maker": lambda log: log.trade(5, m=...),
    "maker of another type": lambda log: log.trade(5, m="yes"),
    "time 0": lambda log: log.trade(5, T=0),
    "time in s": lambda log: log.trade(5, T=1_723_161_255),
    "depth without ids": lambda log: log.update(1, 2, bids=[["1", "2"]], u=None),
    "depth without bids": lambda log: log.update(1, 2, b=None),
    "level of one": lambda log: log.update(1, 2, bids=[["1"]]),
    "level of three": lambda log: log.update(1, 2, asks=[["1", "2", "3"]]),
    "level of words": lambda log: log.update(1, 2, asks=[["1", "2"], ["a", "b"]]),
    "negative size": lambda log: log.update(1, 2, asks=[["1", "-2"]]),
    "snapshot without asks": lambda log: log.snapshot(1, bids=[["1", "2"]], asks=None),
    "not utf-8": lambda log: log.trade(5).encode().replace(b"BTCUSDT", b"\xff\xfe"),
}


@pytest.mark.slow
@pytest.mark.parametrize("what", BAD)
def test_a_broken_line_is_named_and_nothing_is_stored(write, log, lake, what):
    path = write(log.trade(1), "", log.trade(2), BAD[what](log), log.trade(3))
    version = lake.version()
    with pytest.raises(IngestError, match=r"log:4: .*; skip_bad=True leaves them out") as caught:
        take(path, lake)
    assert (caught.value.path, caught.value.line, caught.value.bad_lines) == (str(path), 4, 1)
    assert lake.version() == version
    report = take(path, lake, skip_bad=True)
    assert (report.trades_new, report.book_rows_new, report.bad_lines) == (3, 0, 1)
    assert report.files[0].first_bad_lines[0][0] == 4
    assert sorted(lake.scan("trades").collect()["sequence"]) == [1, 2, 3]


@pytest.mark.slow
def test_many_broken_lines_are_counted(write, log, lake):
    lines = [log.trade(n) if n % 3 else log.trade(n)[:-2] + "]}" for n in range(1, 3001)]
    with pytest.raises(IngestError, match=r"log:3: .*1000 bad lines in all") as caught:
        take(write(*lines), lake)
    assert caught.value.bad_lines == 1000
    report = take(write(*lines), lake, skip_bad=True)
    assert (report.trades_new, report.bad_lines) == (2000, 1000)
    assert [line for line, _ in report.files[0].first_bad_lines] == [3, 6, 9, 12, 15]


def test_only_broken_lines_are_an_error_whatever_was_said(write, lake):
    with pytest.raises(IngestError, match="and no good one"):
        take(write("hello", "world"), lake, skip_bad=True)


def test_a_file_as_csv_is_refused(write, log, lake):
    with pytest.raises(QueryError, match=r"columns: .* binance-ws files have none to choose"):
        take(write(log.trade(1)), lake, columns={"price": "p"})


@pytest.mark.slow
def test_recorded_logs(recorded, lake):
    files = {
        ("BINANCE", "binance-spot_ws_btcusdt_20240808.gz"): (9757, 126_090),
        ("BINANCE", "binance-spot_ws_ethusdt_20240808.gz"): (6106, 108_814),
        ("BINANCE_FUTURES", "binance-usdm_ws_btcusdt_20240808.gz"): (21_313, 445_521),
    }
    for _ in range(2):
        for exchange, name in files:
            category = "PERPETUAL" if exchange == "BINANCE_FUTURES" else None
            ingest(recorded / name, lake, layout="binance-ws", exchange=exchange, category=category)
    counts = lake.scan("trades").group_by("exchange", "raw_symbol").len().sort("len").collect()
    assert counts.rows() == [
        ("BINANCE", "ETHUSDT", 6106),
        ("BINANCE", "BTCUSDT", 9757),
        ("BINANCE_FUTURES", "BTCUSDT", 21_313),
    ]
    assert lake.scan("book").collect().height == sum(levels for _, levels in files.values())
    assert lake.markets().select("coin", "quote_coin", "category", "block_size").rows() == [
        ("BTC", "USDT", "SPOT", 2.0),
        ("ETH", "USDT", "SPOT", 0.1),
        ("BTC", "USDT", "PERPETUAL", 2.0),
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "shared_ids"),
    [
        ("binance-spot_ws_btcusdt_20240808.gz", 564),
        ("binance-spot_ws_ethusdt_20240808.gz", 577),
        ("binance-usdm_ws_btcusdt_20240808.gz", 629),
    ],
)
def test_the_stored_book_equals_the_ticker(recorded, lake, name, shared_ids):
    """Enough is stored to rebuild the book: a delta counts when its last id is above the snapshot's."""
    import gzip
    import json

    ingest(recorded / name, lake, layout="binance-ws", exchange="BINANCE")
    ticker = {}
    with gzip.open(recorded / name, "rt") as lines:
        for line in lines:
            message = json.loads(line.split(" ", 1)[1])
            if message.get("stream", "").endswith("@bookTicker"):
                data = message["data"]
                ticker[data["u"]] = tuple(float(data[field]) for field in "bBaA")
    rows = lake.scan("book").collect().sort("last_id", "is_snapshot", "sequence")
    snapshot = rows.filter("is_snapshot")
    book = {"BID": {}, "ASK": {}}
    for side, price, size in snapshot.select("side", "price", "size").iter_rows():
        book[side][price] = size
    updates = rows.filter(~rows["is_snapshot"] & (rows["last_id"] > snapshot["last_id"][0]))
    compared = 0
    for (last_id,), levels in updates.group_by("last_id", maintain_order=True):
        for side, price, size in levels.select("side", "price", "size").iter_rows():
            if size:
                book[side][price] = size
            else:
                book[side].pop(price, None)
        if last_id in ticker:
            bid, ask = max(book["BID"]), min(book["ASK"])
            assert (bid, book["BID"][bid], ask, book["ASK"][ask]) == ticker[last_id]
            compared += 1
    assert compared == shared_ids


@pytest.mark.long
def test_futures_are_not_mixed_with_a_spot_market_of_the_same_name(recorded, tmp_path):
    """Both call themselves BTCUSDT; the updates of futures alone tell the id of the one before."""
    spot, futures = (recorded / f"binance-{kind}_ws_btcusdt_20240808.gz" for kind in ("spot", "usdm"))
    lake = empty_lake(tmp_path / "lake")
    ingest(spot, lake, exchange="BINANCE")
    with pytest.raises(QueryError, match="BINANCE BTCUSDT is a spot market"):
        ingest(futures, lake, exchange="BINANCE")
    assert lake.scan("trades").collect().height == 9757
    ingest(futures, lake, exchange="BINANCE_USDM")
    assert dict(lake.markets().select("exchange", "category").iter_rows()) == {
        "BINANCE": "SPOT",
        "BINANCE_USDM": None,
    }
    with pytest.raises(QueryError, match="of futures"):
        ingest(futures, empty_lake(tmp_path / "other"), exchange="BINANCE", category="spot")
