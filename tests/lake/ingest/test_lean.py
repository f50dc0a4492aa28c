"""Zips of LEAN: candles of trades of every security, and open interest of futures."""

from __future__ import annotations

import zipfile
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from tables import each_row
from tidytape.errors import IngestError, QueryError
from tidytape.lake.ingest import Lean, Market, ingest
from tidytape.lake.ingest._layouts import recognised

NAME = "20221213_btcusdt_minute_trade.csv"
DAY = 1_670_889_600 * 10**9  # 2022-12-13 00:00 UTC
X = Market(exchange="BYBIT")
MINUTE = 60 * 10**9


@pytest.fixture
def zipped(tmp_path):
    def make(*lines, name=NAME, archive="20221213_trade.zip", folder=""):
        return archived({name: lines}, archive=archive, folder=folder)

    def archived(members, *, archive="20240808_trade.zip", folder=""):
        path = tmp_path / "data" / folder / archive
        path.parent.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(path, "w") as made:
            for name, lines in members.items():
                made.writestr(name, "".join(f"{line}\n" for line in lines))
        return path

    make.members = archived
    return make


def utc(text):
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * 10**9


def candles(lake):
    """Return symbol, time in UTC, open, high, low, close and volume of each candle in a lake."""
    rows = lake.scan("candles").sort("raw_symbol", "timestamp").collect()
    times = [
        datetime.fromtimestamp(time // 10**9, UTC).strftime("%Y-%m-%d %H:%M:%S") for time in rows["timestamp"]
    ]
    values = rows.select("open", "high", "low", "close", "volume").rows()
    return [(symbol, time, *row) for symbol, time, row in zip(rows["raw_symbol"], times, values, strict=True)]


def registered(lake):
    rows = lake.markets().sort("raw_symbol")
    return rows.select("exchange", "raw_symbol", "normalized_symbol", "coin", "quote_coin", "category").rows()


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
        ("20131008_bac_Trade_Tick.csv", "ticks, whose lines do not say who the aggressor was"),
        ("20221213_spy_tick_trade.csv", "ticks, whose lines do not say who the aggressor was"),
        (
            "20140606_aapl_minute_openinterest_american_call_10000000_20150117.csv",
            "open interest of options, which the lake keeps in the quotes of a chain",
        ),
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


# -- shares ------------------------------------------------------------------------------------------------------

SHARES = ("34200000,1000000,1010000,990000,1005000,500", "34260000,1005000,1006000,1000000,1001000,300")
HOURS = (
    "20240808 09:00,1000000,1010000,990000,1005000,500",
    "20240808 10:00,1005000,1006000,1000000,1001000,300",
)
DAYS = (
    "20240808 00:00,1000000,1010000,990000,1005000,500",
    "20240809 00:00,1005000,1006000,1000000,1001000,300",
)
MINUTES = {
    "name": "20240808_gbtc_minute_trade.csv",
    "archive": "20240808_trade.zip",
    "folder": "equity/usa/minute/gbtc",
}


def expected(symbol, first, second):
    """The two candles of shares at two times."""
    return [
        (symbol, first, 100.0, 101.0, 99.0, 100.5, 500.0),
        (symbol, second, 100.5, 100.6, 100.0, 100.1, 300.0),
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("lines", "where", "times"),
    [
        (SHARES, MINUTES, ("2024-08-08 13:30:00", "2024-08-08 13:31:00")),
        (
            SHARES,
            MINUTES | {"name": "20240808_gbtc_second_trade.csv", "folder": "equity/usa/second/gbtc"},
            ("2024-08-08 13:30:00", "2024-08-08 13:31:00"),
        ),
        (
            HOURS,
            {"name": "gbtc.csv", "archive": "gbtc.zip", "folder": "equity/usa/hour"},
            ("2024-08-08 13:00:00", "2024-08-08 14:00:00"),
        ),
        (
            DAYS,
            {"name": "gbtc.csv", "archive": "gbtc.zip", "folder": "Equity/USA/daily"},
            ("2024-08-08 00:00:00", "2024-08-09 00:00:00"),
        ),
        (
            SHARES,
            MINUTES | {"folder": "equity/india/minute/gbtc"},
            ("2024-08-08 04:00:00", "2024-08-08 04:01:00"),
        ),
    ],
)
def test_the_folder_tells_that_a_file_is_of_shares(zipped, lake, lines, where, times):
    path = zipped(*lines, **where)
    report = ingest(path, lake, market=Market(exchange="NYSE"))  # recognised
    assert candles(lake) == expected("GBTC", *times)
    quote = "INR" if "india" in where["folder"] else "USD"
    assert registered(lake) == [("NYSE", "GBTC", f"GBTC-{quote}", "GBTC", quote, "SPOT")]
    assert "guessed" not in str(report)
    zone = "Asia/Kolkata" if "india" in where["folder"] else "America/New_York"
    assert f"2 candles, whose times were read in {zone}" in str(report)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("lines", "name", "times"),
    [
        (SHARES, "20240808_abcd_minute_trade.csv", ("2024-08-08 13:30:00", "2024-08-08 13:31:00")),
        (HOURS, "abcd.csv", ("2024-08-08 13:00:00", "2024-08-08 14:00:00")),
        (DAYS, "abcd.csv", ("2024-08-08 00:00:00", "2024-08-09 00:00:00")),
    ],
)
def test_without_folders_one_option_says_what_a_file_is_of(zipped, lake, lines, name, times):
    path = zipped(*lines, name=name, archive="x.zip")
    assert recognised(path).name == "lean"
    with pytest.raises(
        QueryError, match="security: left out, expected equity or index or crypto: neither folder"
    ):
        ingest(path, lake, market=Market(exchange="NASDAQ"))
    ingest(path, lake, Lean(security="equity"), market=Market(exchange="NASDAQ"))
    assert candles(lake) == expected("ABCD", *times)


def test_a_share_whose_ticker_looks_like_a_pair_is_no_crypto(zipped, lake):
    path = zipped(*SHARES, name="20240808_gbtc_minute_trade.csv")
    with pytest.raises(QueryError, match="security: left out"):
        ingest(path, lake, market=Market(exchange="NASDAQ"))


@pytest.mark.slow
def test_shares_in_another_zone_are_in_a_currency_that_must_be_said(zipped, lake):
    path = zipped(*SHARES, name="20240808_infy_minute_trade.csv")
    layout = Lean(security="equity", time_zone="Asia/Kolkata")
    with pytest.raises(QueryError, match="quote: left out, expected the currency of INFY"):
        ingest(path, lake, layout, market=Market(exchange="NSE"))
    ingest(path, lake, layout, market=Market(exchange="NSE", quote="INR"))
    assert candles(lake) == expected("INFY", "2024-08-08 04:00:00", "2024-08-08 04:01:00")


def test_one_candle_at_midnight_has_no_length(zipped, lake):
    path = zipped(DAYS[0], name="abcd.csv", archive="abcd.zip")
    with pytest.raises(QueryError, match="interval: left out, expected 1h or 1d"):
        ingest(path, lake, Lean(security="equity"), market=X)
    ingest(path, lake, Lean(security="equity", interval="1d"), market=X)
    assert [candle[1] for candle in candles(lake)] == ["2024-08-08 00:00:00"]


def test_a_length_that_the_names_contradict_is_refused(zipped, lake):
    with pytest.raises(
        QueryError, match="interval: got '1h', expected nothing, files of 1m have none to choose"
    ):
        ingest(zipped("0,1,1,1,1,1"), lake, Lean(interval="1h"), market=X)


@pytest.mark.slow
def test_rows_before_2000_are_counted_and_left_out(zipped, lake):
    path = zipped("19991231 15:00,1,1,1,1,1", *HOURS, name="abcd.csv", archive="abcd.zip")
    report = ingest(path, lake, Lean(security="equity"), market=X)
    assert report.files[0].ignored == (("row before 2000", 1),)
    assert len(candles(lake)) == 2


# -- time zones --------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("day", ["20240308", "20240310", "20240311", "20241101", "20241103", "20241104"])
@pytest.mark.parametrize("resolution", ["minute", "hour"])
def test_the_clock_of_new_york_counts_on_every_day(zipped, lake, day, resolution):
    """The times of a day, one per hour, are those that the standard library gives, or are refused."""
    zone = ZoneInfo("America/New_York")
    minutes = (0, 1) if resolution == "minute" else (0,)
    walls = [datetime.strptime(f"{day}{hour:02}", "%Y%m%d%H").replace(minute=minute, tzinfo=zone)
             for hour in range(24) for minute in minutes]  # fmt: skip
    instants = [
        int(wall.timestamp()) * 10**9
        for wall in walls
        if wall.utcoffset() == wall.replace(fold=1).utcoffset()  # neither twice nor never
    ]
    if resolution == "minute":
        times = [str((wall.hour * 60 + wall.minute) * 60_000) for wall in walls]
    else:
        times = [f"{wall:%Y%m%d %H:%M}" for wall in walls]
    lines, name = [f"{time},10,10,10,10,1" for time in times], f"{day}_abcd_minute_trade.csv"
    name = name if resolution == "minute" else "abcd.csv"
    path = zipped(*lines, name=name, archive="x.zip")
    layout = Lean(security="equity")
    assert (len(instants) < len(walls)) == (day in {"20240310", "20241103"})
    if len(instants) < len(walls):
        with pytest.raises(
            IngestError, match="the clocks of America/New_York show twice, or never, on that day"
        ):
            ingest(path, lake, layout, market=X)
    ingest(path, lake, layout, market=X, skip_bad=True)
    assert lake.scan("candles").collect()["timestamp"].sort().to_list() == instants


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"time_zone": "New York"}, "time_zone: got 'New York', expected the name of a time zone"),
        ({"security": "shares"}, "security: got 'shares', expected one of equity, option"),
        ({"interval": "1m"}, "interval: got '1m', expected one of 1h, 1d"),
    ],
)
def test_options_that_cannot_be_right(options, reason):
    with pytest.raises(QueryError, match=reason):
        Lean(**options)


# -- indices -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("folder", "ticker", "time", "name"),
    [
        ("index/usa/minute/spx", "spx", "2024-08-08 13:30:00", "SPX-USD"),
        ("index/eurex/minute/dax", "dax", "2024-08-08 06:30:00", "DAX-EUR"),
        ("index/hkfe/minute/hsi", "hsi", "2024-08-08 00:30:00", "HSI-HKD"),
    ],
)
def test_an_index_has_actual_values_and_no_volume(zipped, lake, folder, ticker, time, name):
    path = zipped(
        "30600000,3764.61,3769.99,3764.5,3766.63,59",
        name=f"20240808_{ticker}_minute_trade.csv",
        folder=folder,
    )
    ingest(path, lake, market=Market(exchange="CBOE"))
    assert candles(lake) == [(ticker.upper(), time, 3764.61, 3769.99, 3764.5, 3766.63, None)]
    assert registered(lake) == [("CBOE", ticker.upper(), name, ticker.upper(), name[-3:], None)]


def test_the_zone_of_another_american_index_must_be_said(zipped, lake):
    path = zipped("30600000,1,1,1,1,0", name="20240808_rut_minute_trade.csv", folder="index/usa/minute/rut")
    with pytest.raises(QueryError, match="time_zone: left out"):
        ingest(path, lake, market=Market(exchange="CBOE"))
    ingest(path, lake, Lean(time_zone="America/New_York"), market=Market(exchange="CBOE"))
    assert [candle[1] for candle in candles(lake)] == ["2024-08-08 12:30:00"]
    assert registered(lake)[0][2] == "RUT-USD"


# -- crypto ------------------------------------------------------------------------------------------------------

PERPETUAL = ("0,60000,60010,59990,60005,1.5", "60000,60005,60020,60000,60010,2.5")


@pytest.mark.slow
@pytest.mark.parametrize("folder", ["", "cryptofuture/binance/minute/btcusdt"])
def test_a_perpetual(zipped, lake, folder):
    path = zipped(*PERPETUAL, name="20240808_btcusdt_minute_trade_perp.csv", folder=folder)
    ingest(path, lake, market=Market(exchange=None if folder else "BINANCE"))
    assert candles(lake) == [
        ("BTCUSDT", "2024-08-08 00:00:00", 60_000.0, 60_010.0, 59_990.0, 60_005.0, 1.5),
        ("BTCUSDT", "2024-08-08 00:01:00", 60_005.0, 60_020.0, 60_000.0, 60_010.0, 2.5),
    ]
    assert registered(lake) == [("BINANCE", "BTCUSDT", "BTC-USDT", "BTC", "USDT", "PERPETUAL")]


@each_row(
    ("exchange", "name", "reason"),
    [
        (
            "X",
            "20240808_btcusdt_minute_trade_perp.csv",
            "nothing says which of them the amounts of X BTCUSDT count",
        ),
        ("BINANCE", "20240808_btcusd_minute_trade_perp.csv", "BINANCE BTCUSD are numbers of contracts"),
        ("BINANCE", "20240808_btcusd_minute_trade_202409.csv", "time_zone: left out"),
        ("BYBIT", "20240808_btcusd_minute_trade_perp.csv", "BYBIT BTCUSD count the quote"),
    ],
)
def test_a_unit_that_is_not_known_is_asked_for(zipped, lake, exchange, name, reason):
    with pytest.raises(QueryError, match=reason):
        ingest(zipped(*PERPETUAL, name=name), lake, market=Market(exchange=exchange))


@pytest.mark.slow
def test_a_dated_future_of_crypto_counts_what_its_perpetual_counts(zipped, lake):
    folder = "cryptofuture/binance/minute/btcusd"
    path = zipped(*PERPETUAL, name="20240808_btcusd_minute_trade_202409.csv", folder=folder)
    with pytest.raises(QueryError, match="BINANCE BTCUSD-202409 are numbers of contracts"):
        ingest(path, lake)
    ingest(path, lake, market=Market(contract="inverse", contract_size=100))
    assert registered(lake) == [("BINANCE", "BTCUSD-202409", "BTC-USD", "BTC", "USD", "FUTURE")]
    assert lake.scan("candles").collect()["quote_volume"].to_list() == [150.0, 250.0]


@pytest.mark.slow
def test_a_perpetual_does_not_go_into_a_spot_market_of_its_name(zipped, lake):
    ingest(zipped(*PERPETUAL), lake, market=Market(exchange="BINANCE"))
    perpetual = zipped(*PERPETUAL, name="20240808_btcusdt_minute_trade_perp.csv")
    with pytest.raises(QueryError, match="the file is of futures, and BINANCE BTCUSDT is a spot market"):
        ingest(perpetual, lake, market=Market(exchange="BINANCE"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("lines", "archive", "where"),
    [
        (("20240808 00:00,1,2,1,2,3", "20240808 01:00,2,2,2,2,1"), "btcusdt_trade.zip", "crypto/kraken/hour"),
        (
            ("20240808 00:00,1,2,1,2,3", "20240809 00:00,2,2,2,2,1"),
            "btcusdt_trade.zip",
            "crypto/kraken/daily",
        ),
    ],
)
def test_crypto_of_hours_and_days_is_in_utc(zipped, lake, lines, archive, where):
    report = ingest(zipped(*lines, name="btcusdt.csv", archive=archive, folder=where), lake)
    first, second = (utc(f"{line[:4]}-{line[4:6]}-{line[6:14]}") for line in lines)
    stored = lake.scan("candles").sort("timestamp").collect()
    assert stored.select("timestamp", "interval").rows() == [
        (first, second - first),
        (second, second - first),
    ]
    assert not report.files[0].notes
    assert registered(lake) == [("KRAKEN", "BTCUSDT", "BTC-USDT", "BTC", "USDT", "SPOT")]


def test_quotes_of_hours_are_known_by_their_columns(zipped, lake):
    path = zipped("20240808 00:00,1,1,1,1,5,2,2,2,2,5", name="btcusdt.csv", folder="crypto/kraken/hour")
    with pytest.raises(IngestError, match="quotes, which are no candles of trades"):
        ingest(path, lake)


# -- futures and options -----------------------------------------------------------------------------------------

FUTURES = {
    "20240808_es_minute_trade_202409.csv": ["43200000,5300,5301,5299,5300.5,10"],
    "20240808_es_minute_trade_202412.csv": ["43200000,5350,5351,5349,5350.5,2"],
}


@pytest.mark.slow
@pytest.mark.parametrize("folder", ["", "future/cme/minute/es"])
def test_an_archive_of_futures_has_a_market_per_member(zipped, lake, folder):
    path = zipped.members(FUTURES, folder=folder)
    exchange = None if folder else "CME"
    assert recognised(path).name == "lean"
    with pytest.raises(QueryError, match="CME ES-202409 are numbers of contracts"):
        ingest(path, lake, market=Market(exchange=exchange))
    ingest(path, lake, market=Market(exchange=exchange, contract="vanilla"))
    assert candles(lake) == [
        ("ES-202409", "2024-08-08 12:00:00", 5300.0, 5301.0, 5299.0, 5300.5, 10.0),
        ("ES-202412", "2024-08-08 12:00:00", 5350.0, 5351.0, 5349.0, 5350.5, 2.0),
    ]
    assert registered(lake) == [
        ("CME", "ES-202409", "ES-USD", "ES", "USD", "FUTURE"),
        ("CME", "ES-202412", "ES-USD", "ES", "USD", "FUTURE"),
    ]


@pytest.mark.slow
def test_one_future_of_an_archive(zipped, lake):
    market = Market(exchange="CME", contract="linear", contract_size=50, raw_symbol="ES-202412")
    report = ingest(zipped.members(FUTURES), lake, market=market)
    assert [(candle[0], candle[-1]) for candle in candles(lake)] == [("ES-202412", 100.0)]
    assert report.files[0].ignored == (("row of another market", 1),)


@pytest.mark.parametrize(
    ("exchange", "ticker", "time"),
    [
        ("COMEX", "gc", "2024-08-08 12:00:00"),
        ("EUREX", "fesx", "2024-08-08 10:00:00"),
        ("ICE", "dx", "2024-08-08 16:00:00"),
        ("ICE", "kc", "2024-08-08 12:00:00"),
    ],
)
def test_the_zone_of_futures_is_that_of_their_exchange(zipped, lake, exchange, ticker, time):
    path = zipped("43200000,10,10,10,10,1", name=f"20240808_{ticker}_minute_trade_202409.csv")
    ingest(path, lake, market=Market(exchange=exchange, contract="vanilla"))
    assert [candle[1] for candle in candles(lake)] == [time]
    with pytest.raises(QueryError, match="time_zone: left out"):
        ingest(path, lake, market=Market(exchange="ELSEWHERE", contract="vanilla"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("security", "name", "row"),
    [
        (
            "option",
            "20140606_gbtc_minute_trade_american_call_6450000_20140613.csv",
            ("GBTC-20140613-645-C", 1.7, 1.75, 1.6, 1.65),
        ),
        (
            "indexoption",
            "20140606_spx_minute_trade_european_put_18725000_20140613.csv",
            ("SPX-20140613-1872.5-P", 1.7, 1.75, 1.6, 1.65),
        ),
        (
            "futureoption",
            "20140606_es_minute_trade_american_put_18725000_20140613.csv",
            ("ES-20140613-1872.5-P", 17_000.0, 17_500.0, 16_000.0, 16_500.0),
        ),
    ],
)
def test_options(zipped, lake, security, name, row):
    path = zipped("34200000,17000,17500,16000,16500,28", name=name, archive="20140606_trade_american.zip")
    with pytest.raises(
        QueryError, match="security: left out, expected option or indexoption or futureoption"
    ):
        ingest(path, lake, market=Market(exchange="CME"))
    with pytest.raises(QueryError, match="are numbers of contracts"):
        ingest(path, lake, Lean(security=security), market=Market(exchange="CME"))
    market = Market(exchange="CME", contract="linear", contract_size=100)
    ingest(path, lake, Lean(security=security), market=market)
    time = "2014-06-06 09:30:00" if security == "futureoption" else "2014-06-06 13:30:00"
    assert candles(lake) == [(row[0], time, *row[1:], 2800.0)]
    ticker = row[0].partition("-")[0]
    assert registered(lake) == [("CME", row[0], f"{ticker}-USD", ticker, "USD", "OPTION")]


@pytest.mark.slow
def test_many_members_are_read_together_and_broken_lines_are_found_in_theirs(zipped, lake):
    names = [f"aapl_trade_american_call_{strike}0000_20150117.csv" for strike in range(100, 400)]
    lines = ["20140606 09:00,17000,17000,17000,17000,28", "20140606 10:00,16000,16000,14800,14800,50"]
    files = dict.fromkeys(names, lines) | {names[7]: [lines[0], "20140606 10:00,x,1,1,1,1"]}
    path = zipped.members(files, archive="aapl_2014_trade_american.zip", folder="option/usa/hour")
    market = Market(exchange="CBOE", contract="vanilla")
    with pytest.raises(IngestError, match=f":2: {names[7]}: the open 'x' is not a finite number") as caught:
        ingest(path, lake, market=market)
    assert caught.value.bad_lines == 1
    report = ingest(path, lake, market=market, skip_bad=True)
    assert (report.files[0].lines, len(candles(lake)), len(registered(lake))) == (600, 599, 300)


@pytest.mark.parametrize(
    ("folder", "files", "times"),
    [
        (
            "future/cme/minute/es",
            {"20131007_es_minute_openinterest_201312.csv": ["21960000,2691941", "49320000,2674467"]},
            ("2013-10-07 06:06:00", "2013-10-07 13:42:00"),
        ),
        (
            "future/cme/daily",
            {"es_openinterest_201312.csv": ["20131006 00:00,2691941", "20131007 00:00,2674467"]},
            ("2013-10-06 00:00:00", "2013-10-07 00:00:00"),
        ),
    ],
)
def test_open_interest_of_futures(zipped, lake, folder, files, times):
    path = zipped.members(files, folder=folder)
    with pytest.raises(QueryError, match=r"CME ES-201312 are numbers of contracts \(open_interest\)"):
        ingest(path, lake)
    ingest(path, lake, market=Market(contract="linear", contract_size=50))
    reports = lake.scan("open_interest").sort("timestamp").collect()
    assert reports["timestamp"].to_list() == [utc(time) for time in times]
    assert reports["amount"].to_list() == [2_691_941.0 * 50, 2_674_467.0 * 50]


def test_members_of_another_kind_are_refused(zipped, lake):
    files = {**FUTURES, "20240808_es_minute_quote_202409.csv": ["1,2"]}
    with pytest.raises(IngestError, match=r"quote_202409\.csv is of another kind than 20240808_es"):
        ingest(zipped.members(files), lake, market=Market(exchange="CME"))


def test_the_way_in_which_a_file_was_read_is_part_of_its_source(zipped, lake):
    path = zipped(*SHARES, name="20240808_spx_minute_trade.csv")
    ingest(path, lake, Lean(security="equity"), market=X)
    assert ingest(path, lake, Lean(security="equity"), market=X).files[0].already_ingested
    assert not ingest(path, lake, Lean(security="index"), market=X).files[0].already_ingested
