"""CSV datasets of tardis.dev, in the layouts of https://docs.tardis.dev/downloadable-csv-files/data-types."""

from __future__ import annotations

import gzip

import pytest

from ingested import ingest
from tidytape.aggregate import book_at, book_runs
from tidytape.errors import IngestError
from tidytape.lake._tables import FUNDING, OPEN_INTEREST
from tidytape.lake.ingest import TableCount, _lines

US = 1000
T = 1_583_020_803_145_000  # 2020-03-01 00:00:03.145 UTC [us]
FIRST = "exchange,symbol,timestamp,local_timestamp"
TRADES = f"{FIRST},id,side,price,amount"
UPDATES = f"{FIRST},is_snapshot,side,price,amount"
TICKER = (
    f"{FIRST},funding_timestamp,funding_rate,predicted_funding_rate,open_interest,last_price,"
    "index_price,mark_price"
)
OPTIONS = (
    f"{FIRST},type,strike_price,expiration,open_interest,last_price,bid_price,bid_amount,bid_iv,ask_price,ask_amount,"
    "ask_iv,mark_price,mark_iv,underlying_index,underlying_price,delta,gamma,vega,theta,rho"
)
# The row of Tardis's own preview of options_chain.
OPTION = (
    "deribit,BTC-9JUN20-9875-P,1591574399413000,1591574400196008,put,9875,1591689600000000,0.1,0.0295,0.0205,15.0,"
    "55.91,0.0235,15.0,68.94,0.02210436,62.89,SYN.BTC-9JUN20,9756.36,-0.61752,0.00103,2.24964,-53.05655,-0.22796"
)


def put(path, lake, **options):
    return ingest(path, lake, layout="tardis", **options)


def line(*fields, time=T, exchange="binance-futures", symbol="BTCUSDT"):
    return ",".join(map(str, (exchange, symbol, time, time + 160, *fields)))


def rows(lake, table, *order):
    return lake.scan(table).sort(*(order or ("timestamp",))).collect().to_dicts()


@pytest.mark.parametrize("packed", [False, True])
def test_a_trade_is_kept_in_full(write, lake, packed):
    put(write(TRADES, line("a-1", "sell", 8531.5, 2152), name="bitmex_trades_x.csv", packed=packed), lake)
    assert rows(lake, "trades") == [
        {
            "exchange": "BINANCE_FUTURES", "raw_symbol": "BTCUSDT", "id": "a-1", "timestamp": T * US, "sequence": 2,
            "side": "SELL", "price": 8531.5, "amount": 2152.0, "quote_amount": 8531.5 * 2152,
            "received": (T + 160) * US,
        }
    ]  # fmt: skip


@pytest.mark.slow
def test_the_venue_is_spelled_as_ours_unless_it_is_given(write, lake):
    path = write(TRADES, line(1, "buy", 1, 1, exchange="binance-futures"), name="x_trades_x.csv")
    put(path, lake)
    put(path, lake, exchange="OTHER")
    assert [row["exchange"] for row in rows(lake, "trades", "exchange")] == ["BINANCE_FUTURES", "OTHER"]
    both = write(
        TRADES, line(1, "buy", 1, 1), line(1, "buy", 1, 1, exchange="deribit"), name="y_trades_x.csv"
    )
    with pytest.raises(IngestError, match="holds binance-futures, deribit and not OTHER alone"):
        put(both, lake, exchange="OTHER")


@pytest.mark.slow
def test_venues_are_told_apart_across_blocks(write, lake, monkeypatch):
    monkeypatch.setattr(_lines, "BLOCK", 256)
    lines = [line(number, "buy", 1, 1, exchange="a" if number < 50 else "b") for number in range(100)]
    with pytest.raises(IngestError, match="holds a, b and not X alone"):
        put(write(TRADES, *lines, name="y_trades_x.csv"), lake, exchange="X")


def test_trades_of_unknown_side_and_without_id(write, lake):
    lines = (
        line("", "buy", 5, 1),
        line("", "unknown", 5, 1),
        line("", "buy", 5, 1),
        line("n", "buy", 5, 1),
    )
    report = put(write(TRADES, *lines, name="a_trades_x.csv"), lake)
    assert report.files[0].ignored == ()
    assert [(row["id"], row["side"]) for row in rows(lake, "trades", "sequence")] == [
        (f"{T * US}/5.0/1.0/BUY/0", "BUY"),
        (f"{T * US}/5.0/1.0/0", None),
        (f"{T * US}/5.0/1.0/BUY/1", "BUY"),
        ("n", "BUY"),
    ]


def test_one_id_for_two_trades_is_a_bad_line(write, lake):
    path = write(
        TRADES, line("a", "buy", 5, 1), line("a", "buy", 5, 1), line("a", "buy", 5, 2), name="a_trades_x.csv"
    )
    with pytest.raises(IngestError, match=r":4: another event before it has the same id"):
        put(path, lake)
    assert put(path, lake, skip_bad=True).trades_new == 1


def test_one_market_can_be_taken(write, lake):
    lines = (line(1, "buy", 5, 1), line(1, "buy", 5, 1, symbol="ETHUSD"))
    report = put(write(TRADES, *lines, name="a_trades_x.csv"), lake, raw_symbol="ETHUSD")
    assert report.files[0].ignored == (("trade of another market", 1),)
    assert [row["raw_symbol"] for row in rows(lake, "trades")] == ["ETHUSD"]


def test_a_liquidating_order_that_sells_closes_a_long(write, lake):
    lines = (line(1, "sell", 5, 2), line(2, "buy", 6, 3))
    put(write(TRADES, *lines, name="bitmex_liquidations_2020-03-01_XBTUSD.csv"), lake)
    long, short = rows(lake, "liquidations", "id")
    assert (long["side"], short["side"]) == ("BUY", "SELL")
    assert (long["amount"], long["quote_amount"], long["received"]) == (2.0, 10.0, (T + 160) * US)


@pytest.mark.parametrize("name", ["x.csv", "a_liquidations_trades_x.csv", "mytrades.csv"])
def test_trades_and_liquidations_are_told_by_the_name_alone(write, lake, name):
    with pytest.raises(IngestError, match="must hold _trades_ or _liquidations_"):
        put(write(TRADES, line(1, "buy", 5, 1), name=name), lake)


def test_updates_make_a_book(write, lake):
    lines = [
        line("true", "ask", 11, 1, time=T),
        line("true", "bid", 10, 2, time=T),
        line("false", "bid", 10, 0, time=T + 5),
        line("false", "bid", 9, 4, time=T + 5),
        line("true", "ask", 12, 7, time=T + 9),
        line("true", "bid", 8, 7, time=T + 9),
    ]
    report = put(write(UPDATES, *lines), lake)
    assert report.book_rows_new == 6
    events = lake.scan("book").collect()
    assert events["last_id"].null_count() == 6
    instants = events.select("exchange", "raw_symbol", "timestamp").unique()
    book = book_at(book_runs(events), instants).sort("timestamp", "price")
    assert book.select("timestamp", "side", "price", "size").rows() == [
        (T * US, "BID", 10.0, 2.0),
        (T * US, "ASK", 11.0, 1.0),
        ((T + 5) * US, "BID", 9.0, 4.0),
        ((T + 5) * US, "ASK", 11.0, 1.0),
        ((T + 9) * US, "BID", 8.0, 7.0),
        ((T + 9) * US, "ASK", 12.0, 7.0),
    ]


@pytest.mark.slow
def test_snapshots_by_line(write, lake, monkeypatch):
    header = f"{FIRST}," + ",".join(
        f"{side}[{level}].{what}"
        for level in range(2)
        for side in ("asks", "bids")
        for what in ("price", "amount")
    )
    lines = [
        line(11, 1, 10, 2, 12, 1, 9, 3),
        line(11, 5, 10, 6, "", "", 9, 7),  # one level less of the asks, at the same time
        line(11, 8, 10, 9, 12, 1, 9, 3, time=T + 1),
    ]
    monkeypatch.setattr(_lines, "BLOCK", 128)
    report = put(write(header, *lines), lake)
    assert report.files[0].ignored == (("snapshot overtaken at its own timestamp", 1),)
    events = lake.scan("book").sort("sequence").collect()
    assert events["is_snapshot"].all()
    assert events.filter(timestamp=T * US).select("side", "price", "size").rows() == [
        ("BID", 10.0, 6.0),
        ("BID", 9.0, 7.0),
        ("ASK", 11.0, 5.0),
    ]
    half = write(header, line(11, 1, 10, 2, 12, "", 9, 3), name="half")
    with pytest.raises(IngestError, match="a level with a price or an amount alone"):
        put(half, lake)


def test_a_ticker_is_funding_and_open_interest(write, lake):
    soon = T + 3600 * 10**6
    lines = [
        line(soon, 0.0001, "", 500, 8531, 8530, 8532.5, time=T),
        line(soon, 0.0002, 0.0003, 501, 8531, 8530, 8532.5, time=T),
        line("", "", "", "", 8531, 8530, 8532.5, time=T + 1),
        line("", "", "", 502, 8531, 8530, "", time=T + 2),
    ]
    report = put(write(TICKER, *lines), lake)
    assert report.files[0].ignored == (("ticker without funding rate and open interest", 1),)
    assert (report.count(FUNDING).superseded, report.count(OPEN_INTEREST).superseded) == (1, 1)
    (funding,) = rows(lake, "funding")
    assert (funding["rate"], funding["predicted_rate"], funding["next_funding"]) == (2e-4, 3e-4, soon * US)
    assert funding["funding_interval"] is None
    interest = rows(lake, "open_interest")
    assert [(row["timestamp"], row["amount"], row["quote_amount"]) for row in interest] == [
        (T * US, 501.0, None),
        ((T + 2) * US, 502.0, None),
    ]


@pytest.mark.slow
def test_the_latest_report_of_a_timestamp_is_kept_across_blocks(write, lake, monkeypatch):
    monkeypatch.setattr(_lines, "BLOCK", 256)
    lines = [line("", 0.0001 * number, "", "", "", "", "", time=T + number // 50) for number in range(100)]
    report = put(write(TICKER, *lines), lake)
    assert report.count(FUNDING) == TableCount("funding", read=100, new=2, superseded=98)
    assert [row["rate"] for row in rows(lake, "funding")] == [pytest.approx(0.0049), pytest.approx(0.0099)]


@pytest.mark.slow
def test_an_option_quote(write, lake):
    put(write(OPTIONS, OPTION), lake)
    assert rows(lake, "option_quotes") == [
        {
            "exchange": "DERIBIT", "raw_symbol": "BTC-9JUN20-9875-P", "timestamp": 1_591_574_399_413_000_000,
            "coin": "BTC", "option_type": "PUT", "strike": 9875.0, "expiry": 1_591_689_600 * 10**9,
            "implied_volatility": 62.89, "delta": -0.61752, "forward": 9756.36, "mark_price": 0.02210436,
            "open_interest": 0.1, "received": 1_591_574_400_196_008_000,
        }
    ]  # fmt: skip


@pytest.mark.slow
def test_volatility_is_percent_of_every_venue_or_refused(write, lake):
    put(write(OPTIONS, OPTION.replace("deribit", "okex-options").replace("62.89", "0.6289")), lake)
    assert rows(lake, "option_quotes")[0]["implied_volatility"] == pytest.approx(62.89)
    with pytest.raises(IngestError, match="whether new-venue quotes volatility in percent or as a decimal"):
        put(write(OPTIONS, OPTION.replace("deribit", "new-venue"), name="b"), lake)
    put(write(OPTIONS, OPTION.replace("deribit", "new-venue").replace("62.89", ""), name="c"), lake)


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([f"{FIRST},ask_amount,ask_price,bid_price,bid_amount"], "quotes: the best bid and ask alone"),
        (["time,price"], "no dataset of tardis.dev"),
        ([f"{FIRST},other"], "a dataset that is not known"),
        ([f"{FIRST},asks[0].price,bids[0].price"], "2 columns of levels, and a book 1 deep has 4"),
        ([""], "no header, the file has no lines"),
    ],
)
def test_what_is_refused(write, lake, lines, said):
    with pytest.raises(IngestError, match=said):
        put(write(*lines), lake)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ((f"{T},", f"{T // 1000},"), "the timestamp '.*' is not an epoch time in us"),
        (("sell", "Verkauf"), "the side '.*' is not one of buy, sell, unknown"),
        (("8531.5", "1e999"), "the price '.*' is not a finite number"),
        (("2152", "-1"), "the amount '.*' is not a finite number above 0"),
        (("BTCUSDT", ""), "no symbol"),
        (("BTCUSDT", "X" * 300), "the symbol '.*' is not a printable name"),
        (("binance-futures", ""), "no exchange"),
        ((",2152", ""), "7 columns, and the header has 8"),
    ],
)
def test_a_broken_line_is_named_and_nothing_goes_in(write, lake, changes, reason):
    good = line("a", "sell", 8531.5, 2152)
    path = write(TRADES, good, good.replace(*changes), name="a_trades_x.csv")
    with pytest.raises(IngestError, match=reason) as caught:
        put(path, lake)
    assert caught.value.line == 3
    assert rows(lake, "trades") == []


def test_a_stream_that_breaks_off_is_a_bad_line(tmp_path, lake):
    path = tmp_path / "a_trades_x.csv.gz"
    text = "\n".join([TRADES, *(line(number, "sell", 8531.5, 2152) for number in range(500))])
    path.write_bytes(gzip.compress(text.encode())[:-20])
    with pytest.raises(IngestError, match="the gzip stream breaks off"):
        put(path, lake)


def test_a_line_that_is_no_text_before_the_header_is_a_bad_line(write, lake):
    path = write(b"\xff", TRADES, line("a-1", "sell", 8531.5, 2152), name="bitmex_trades_x.csv")
    with pytest.raises(IngestError, match=":1: not UTF-8"):
        put(path, lake)
    assert put(path, lake, skip_bad=True).bad_lines == 1
    assert len(rows(lake, "trades")) == 1
    headless = write(b"\xff", line("a-1", "sell", 8531.5, 2152), name="headless_trades_x.csv")
    with pytest.raises(IngestError, match=r"headless_trades_x\.csv:1: the header cannot be read: not UTF-8"):
        put(headless, lake, skip_bad=True)


@pytest.mark.slow
def test_the_recorded_trades(lake, recorded):
    report = put(recorded / "tardis_bitmex_trades_XBTUSD.csv", lake, contract="inverse", contract_size=1)
    assert (report.trades_new, report.files[0].ignored) == (10, ())
    trades = rows(lake, "trades", "timestamp", "sequence")
    assert {row["exchange"] for row in trades} == {"BITMEX"}
    assert {row["price"] for row in trades} == {8531.5}
    assert sum(row["quote_amount"] for row in trades) == 2161  # contracts of a dollar
    assert sum(row["amount"] for row in trades) == pytest.approx(2161 / 8531.5)
    assert trades[0]["id"] == "ccc3c1fa-212c-e8b0-1706-9b9c4f3d5ecf"


def test_the_recorded_updates(lake, recorded):
    report = put(recorded / "tardis_deribit_incremental_book_L2_BTC-PERPETUAL.csv", lake, amount_unit="quote")
    assert report.book_rows_new == 15
    runs = book_runs(lake.scan("book").collect())
    assert runs.height == 15
    assert runs["side"].unique().to_list() == ["ASK"]
    assert runs["price"].min() == 6421.5
    assert (runs["price"] * runs["size"]).sum() == pytest.approx(317_490.0)


@pytest.mark.slow
def test_the_recorded_snapshots(lake, recorded):
    report = put(recorded / "tardis_binance-futures_book_snapshot_25_BTCUSDT.csv", lake)
    assert report.book_rows_new == 500
    events = lake.scan("book").collect()
    instants = events.select("exchange", "raw_symbol", "timestamp").unique()
    book = book_at(book_runs(events), instants)
    best = (
        book.filter(side="ASK").sort("timestamp", "price").group_by("timestamp", maintain_order=True).first()
    )
    assert book.group_by("timestamp", "side").len()["len"].to_list() == [25] * 20
    assert best["price"].to_list() == [11657.08] * 10
    assert best["size"].to_list() == [1.714] * 2 + [1.476] + [1.475] * 7
