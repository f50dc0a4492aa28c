"""Zips of LEAN: candles of one day, in milliseconds since midnight."""

from __future__ import annotations

import zipfile

import pytest

from tidytape.errors import IngestError, QueryError
from tidytape.lake.ingest import Lean, Market, ingest
from tidytape.lake.ingest._layouts import recognised

NAME = "20221213_btcusdt_minute_trade.csv"
DAY = 1_670_889_600 * 10**9  # 2022-12-13 00:00 UTC
X = Market(exchange="BYBIT")


@pytest.fixture
def zipped(tmp_path):
    def make(*lines, name=NAME, archive="20221213_trade.zip"):
        path = tmp_path / archive
        with zipfile.ZipFile(path, "w") as made:
            made.writestr(name, "".join(f"{line}\n" for line in lines))
        return path

    return make


@pytest.mark.slow
def test_the_day_and_the_market_are_in_the_name_inside(zipped, lake):
    path = zipped("0,10,12,9,11,1.5", "60000,11,11,11,11,0")
    assert recognised(path).name == "lean"
    report = ingest(path, lake, market=X)
    assert (report.files[0].lines, report.files[0].time_unit) == (2, "ms")
    first, second = lake.scan("candles").sort("timestamp").collect().to_dicts()
    assert first == {
        "exchange": "BYBIT", "raw_symbol": "BTCUSDT", "timestamp": DAY, "interval": 60 * 10**9, "open": 10.0,
        "high": 12.0, "low": 9.0, "close": 11.0, "volume": 1.5, "quote_volume": None, "buy_volume": None,
        "buy_quote_volume": None, "received": None,
    }  # fmt: skip
    assert (second["timestamp"], second["volume"]) == (DAY + 60 * 10**9, 0.0)
    assert ingest(path, lake, market=X).files[0].already_ingested


def test_seconds_and_another_name(zipped, lake):
    path = zipped("1000,10,12,9,11,1.5", name="20221213_btcusdt_second_trade.csv")
    ingest(path, lake, Lean(), market=Market(exchange="BYBIT", raw_symbol="BTC-USDT"))
    (row,) = lake.scan("candles").collect().to_dicts()
    assert (row["raw_symbol"], row["interval"], row["timestamp"]) == ("BTC-USDT", 10**9, DAY + 10**9)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("86400000,1,1,1,1,1", "'86400000' is no number of milliseconds since midnight"),
        ("-1,1,1,1,1,1", "'-1' is no number"),
        ("noon,1,1,1,1,1", "'noon' is no number"),
        (",1,1,1,1,1", "'' is no number"),
        ("30000,1,1,1,1,1", "no candle of its length starts at "),
        ("60000,1,1,2,1,1", "the open or the close is not between low and high"),
        ("60000,1,1,1,1", "5 columns, and the header has 6"),
        ("60000,1,1,1,1,", "no volume"),
    ],
)
def test_a_broken_line_is_named(zipped, lake, line, reason):
    path = zipped("0,10,12,9,11,1.5", line)
    with pytest.raises(IngestError, match=reason) as caught:
        ingest(path, lake, Lean(), market=X)
    assert caught.value.line == 2
    assert lake.scan("candles").collect().is_empty()
    assert ingest(path, lake, Lean(), market=X, skip_bad=True).bad_lines == 1


def test_a_first_line_that_is_no_text_is_a_broken_line(zipped, lake):
    path = zipped()
    with zipfile.ZipFile(path, "w") as made:
        made.writestr(NAME, b"\xff,10,12,9,11,1.5\n60000,11,11,11,11,0\n")
    with pytest.raises(IngestError, match=":1: not UTF-8"):
        ingest(path, lake, Lean(), market=X)
    assert ingest(path, lake, Lean(), market=X, skip_bad=True).bad_lines == 1
    assert lake.scan("candles").collect()["timestamp"].to_list() == [DAY + 60 * 10**9]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("20221213_btcusdt_minute_quote.csv", "quotes, which are no candles of trades"),
        ("candles.csv", "no candles of LEAN by its name"),
        ("20221341_btcusdt_minute_trade.csv", "20221341 is no day"),
    ],
)
def test_other_files_are_refused(zipped, lake, name, reason):
    with pytest.raises(IngestError, match=reason):
        ingest(zipped("0,1,1,1,1,1", name=name), lake, Lean(), market=X)


def test_the_exchange_is_asked_for(zipped, lake):
    with pytest.raises(QueryError, match="exchange: left out"):
        ingest(zipped("0,1,1,1,1,1"), lake)


@pytest.mark.parametrize(
    ("exchange", "symbol", "volume"),
    [("BINANCE", "BTCBUSD", 182_861.34542), ("BYBIT", "BTCUSDT", 6_979.514601)],
)
def test_the_recorded_days(recorded, lake, exchange, symbol, volume):
    (path,) = recorded.glob(f"lean_{exchange.lower()}_*.zip")
    report = ingest(path, lake, market=Market(exchange=exchange))
    assert (report.bad_lines, report.files[0].lines) == (0, 1440)
    candles = lake.scan("candles").sort("timestamp").collect()
    assert candles.height == 1440
    assert candles["raw_symbol"].unique().to_list() == [symbol]
    assert candles["timestamp"].to_list() == [DAY + minute * 60 * 10**9 for minute in range(1440)]
    assert candles["volume"].sum() == pytest.approx(volume, rel=1e-9)
