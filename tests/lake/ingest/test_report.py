"""What an ingest says of itself."""

from __future__ import annotations

import pytest

from tidytape.lake import TABLES
from tidytape.lake._tables import FUNDING, OPEN_INTEREST, TRADES
from tidytape.lake.ingest import (
    Csv,
    FileReport,
    IngestReport,
    Market,
    MarketReport,
    Note,
    TableCount,
    Tardis,
    ingest,
    summary,
)


def test_counts_of_any_table_are_told_in_words():
    file = FileReport(
        "x",
        counts=(
            TableCount("trades", 9757, 9700),
            TableCount("open_interest", 12, 10, 2),
            TableCount("funding", 1, 1),
        ),
    )
    assert str(file) == (
        "x: 9,757 trades, 9,700 of them new, 12 open interest reports, 10 of them new, 2 superseded, 1 funding report"
    )
    assert str(FileReport("x")) == "x: no events"
    assert str(FileReport("x", already_ingested=True)) == "x: already in the lake"


def test_the_old_names_are_views_of_the_counts():
    files = tuple(
        FileReport(
            name,
            counts=(TableCount("trades", 3, 2), TableCount("book", 5, 5), TableCount("option_quotes", 7, 1)),
        )
        for name in "ab"
    )
    whole = IngestReport(files, ())
    for report, times in ((files[0], 1), (whole, 2)):
        assert (report.trades_read, report.trades_new) == (3 * times, 2 * times)
        assert (report.book_rows_read, report.book_rows_new) == (5 * times, 5 * times)
        assert (report.quotes_read, report.quotes_new) == (7 * times, times)
        assert report.count(OPEN_INTEREST) == TableCount("open_interest")
        assert report.count(TRADES).new == 2 * times
    assert whole.superseded == 0
    assert whole.count(FUNDING).read == 0


def test_every_table_of_events_can_be_told():
    for name in TABLES:
        assert str(TableCount(name, 1, 1)).startswith("1 ")


def market(number, **facts):
    names = {
        "normalized_symbol": f"C{number}-USD",
        "coin": f"C{number}",
        "quote_coin": "USD",
        "category": "SPOT",
    }
    return MarketReport(
        **({"exchange": "X", "raw_symbol": f"C{number}USD"} | names | facts | {"block_size": None})
    )


def test_few_files_and_markets_are_told_one_by_one():
    files = tuple(FileReport(name, counts=(TableCount("trades", 1, 1),)) for name in "ab")
    report = IngestReport(files, (market(1, trades=1, guessed=False),))
    assert summary(report) == str(report)
    assert summary(report).splitlines() == [
        "a: 1 trade",
        "b: 1 trade",
        "X C1USD: C1-USD, coin C1, SPOT; 1 trade in the lake",
    ]


@pytest.mark.slow
def test_of_a_market_the_rows_are_counted_that_were_written(write, lake):
    at = Market(exchange="X", raw_symbol="BTC-USD")
    rates = write("timestamp,rate", "1723161255,0.001", "1723161256,0.002", name="rates.csv")
    trades = write("timestamp,price,amount,side", "1723161255,10,1,buy", name="trades.csv")
    hours = write("timestamp,open,high,low,close,volume", "1723161600,1,1,1,1,1", name="hours.csv")
    ends = [
        (rates, Csv(table="funding"), 0, "2 funding reports in the lake"),
        (trades, Csv(), 1, "1 trade in the lake"),
        (hours, Csv(table="candles", interval="1h"), 1, "1 candle in the lake"),
        (
            rates,
            Csv(table="funding"),
            1,
            "1 trade, 1 candle, 2 funding reports in the lake",
        ),  # none was written
    ]
    for path, layout, count, end in ends:
        report = ingest(path, lake, layout, market=at)
        assert str(report.markets[0]).endswith(f"; {end}")
        assert report.markets[0].trades == count
    both = IngestReport(
        (), tuple(market(n, trades=0, guessed=False, rows=(("funding", n),)) for n in range(1, 8))
    )
    assert summary(both).startswith("7 markets, 28 funding reports in the lake: ")


def test_many_files_are_told_in_sum():
    files = [
        FileReport(
            f"{number}.csv",
            counts=(TableCount("trades", 10, 9), TableCount("funding", 2, 1, 1)),
            ignored=(("ticker without funding rate", number),),
            bad_lines=1,
            first_bad_lines=((number, "no price"),),
            time_unit="ms",
            notes=(Note("funding report", "not served", 2),),
        )
        for number in range(1, 400)
    ]
    files.append(FileReport("400.csv", already_ingested=True, time_unit="ms"))
    assert summary(IngestReport(tuple(files), ())).splitlines() == [
        (
            "400 files, 1 of them already in the lake: 3,990 trades, 3,591 of them new, 798 funding reports, 399 of "
            "them new, 399 superseded; "
            "times in ms; not kept: ticker without funding rate (79,800); 399 bad lines skipped"
        ),
        "  line 1: no price (1.csv)",
        "  line 2: no price (2.csv)",
        "  line 3: no price (3.csv)",
        "  798 funding reports, not served",
    ]


def test_many_markets_are_told_by_what_is_to_be_known_of_them():
    unnamed = {"normalized_symbol": None, "coin": None, "quote_coin": None, "category": None}
    markets = [market(number, trades=10, guessed=number > 1) for number in range(1, 101)]
    markets += [market(101, trades=1, guessed=False, **unnamed)]
    assert summary(IngestReport((), tuple(markets))).splitlines() == [
        "101 markets, 1,001 trades in the lake: X C1USD, X C2USD, X C3USD and 98 more",
        "  99 names guessed from the raw symbol: X C2USD as C2-USD, X C3USD as C3-USD, X C4USD as C4-USD and 96 more",
        (
            "  1 market without names, which no rule reads out of the raw symbol: X C101USD; to name one, ingest its "
            "file again with --raw-symbol SYMBOL --normalized-symbol COIN-QUOTE; "
            "until then exchange and raw symbol select it"
        ),
        "  1 market of unknown class: X C101USD; pass it with --category",
    ]


def test_what_is_to_be_known_of_many_venues_is_told_once():
    notes = tuple(Note("amount", "taken for coins", count, f"V{count}") for count in (1, 5, 2, 4))
    files = (FileReport("a", notes=notes), FileReport("b", notes=notes[:1]))
    assert summary(IngestReport(files, ())).splitlines() == [
        "a: no events",
        "b: no events",
        "  13 amounts of 4 exchanges, taken for coins: V5 (5), V4 (4), V1 (2) and 1 more",
    ]
    assert str(files[0]).splitlines()[1] == "  1 amount of V1, taken for coins"


HEAD = "exchange,symbol,timestamp,local_timestamp"


@pytest.mark.slow
def test_tables_whose_rows_are_of_no_registered_market_are_not_counted_by_market(lake, write):
    trades = write("timestamp,price,amount,side", "1723075200,60000,0.5,buy", name="trades.csv")
    quotes = write(
        "raw_symbol,timestamp,strike,forward,option_type,expiry,implied_volatility",
        *(f"BTC-{n},2024-08-08T00:00:00Z,{n},70000,CALL,2024-09-27T08:00:00Z,50" for n in range(1, 6)),
        name="quotes.csv",
    )
    btc = Market(exchange="X", raw_symbol="BTC-USD")
    ingest(trades, lake, Csv(), market=btc)
    chain = Csv(table="option_quotes")
    reports = [ingest(quotes, lake, chain, market=Market(exchange="X", coin="BTC")) for _ in range(2)]
    for report in reports:
        for text in (str(report), summary(report)):
            assert "quotes in the lake" not in text
            assert " 0 " not in text
    assert "5 option quotes" in str(reports[0])


def test_an_exchange_that_is_not_used_is_told(lake, write):
    ticker = write(
        f"{HEAD},id,side,price,amount",
        "binance,BTCUSDT,1723075200000000,,7,buy,60000,0.5",
        name="x_trades_y.csv",
    )
    said = "  1 file, whose exchange its layout knows: MINE is not used"
    report = ingest(ticker, lake, market=Market(exchange="MINE"))
    assert said in str(report).splitlines()
    assert said in summary(report).splitlines()
    assert report.markets[0].exchange == "BINANCE"
    assert "not used" not in str(ingest(ticker, lake, Tardis(), market=Market(exchange="MINE")))
