"""One small file of each kind that vendors write, and what a lake must hold after ``tidytape ingest auto FILE``.

The values are worked out by hand from what the vendors document, without the code that reads the files. No row is
copied from a real file.

`Sample.name` is the name that users have, with the vendor's folders where these say something. `needed` are the
options for the facts that neither the file nor its name nor its folders show: with them the file goes in, and without
any one of them it is refused with an error that names this option.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import polars as pl

SECOND = 10**9
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR
NOON = 1_723_118_400 * SECOND
"""2024-08-08T12:00:00Z. [ns]"""
MIDNIGHT = NOON - 12 * HOUR

TRADE = ("timestamp", "side", "price", "amount")
CANDLE = ("timestamp", "interval", "open", "high", "low", "close", "volume")
PRICES = CANDLE[:-1]
FUNDING = ("timestamp", "rate", "funding_interval")
QUOTE = ("timestamp", "coin", "option_type", "strike", "implied_volatility", "delta")

Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A file of one kind.

    Attributes
    ----------
    name : str
        Path of the file below some folder; ``.gz`` is written gzipped, ``.zip`` as an archive of one CSV.
    content : str or polars.DataFrame
        What is in it.
    needed, said : mapping of str to str
        Options and their values: those without which the file is refused, and those that may be said besides.
    table : str
        The table that it fills.
    columns : tuple of str
        Columns of ``rows``.
    rows : tuple of tuples
        The rows that the lake must hold, in the order of their columns.
    exchange, raw_symbol, normalized_symbol, category : str
        Patterns of the market's names; an empty one is not compared.
    refused : str
        If the file is nothing for a lake: a pattern of what the error says.
    """

    name: str
    content: str | pl.DataFrame
    needed: Mapping[str, str] = field(default_factory=dict)
    said: Mapping[str, str] = field(default_factory=dict)
    table: str = "trades"
    columns: tuple[str, ...] = TRADE
    rows: tuple[Row, ...] = ()
    exchange: str = ""
    raw_symbol: str = ""
    normalized_symbol: str = ""
    category: str = ""
    refused: str = ""


def lines(*texts: str, end: str = "\n") -> str:
    return "".join(text + end for text in texts)


def candles(**facts: Any) -> Sample:
    return Sample(**{"table": "candles", "columns": CANDLE, **facts})


_BYBIT = "timestamp,symbol,side,size,price,tickDirection,trdMatchID,grossValue,homeNotional,foreignNotional"
_IDS = ("0b9c7d52-0000-4000-8000-000000000001", "0b9c7d52-0000-4000-8000-000000000002")

BYBIT = {
    "bybit_linear": Sample(
        name="BTCUSDT2024-08-08.csv.gz",
        content=lines(
            f"{_BYBIT},RPI",
            f"1723118400.1234,BTCUSDT,Sell,0.25,60000.50,MinusTick,{_IDS[0]},1.5000125e+12,0.25,15000.125,0",
            f"1723118401.5,BTCUSDT,Buy,0.5,60001.00,PlusTick,{_IDS[1]},3.00005e+12,0.5,30000.5,0",
        ),
        rows=((NOON + 123_400_000, "SELL", 60000.5, 0.25), (NOON + 1_500_000_000, "BUY", 60001.0, 0.5)),
        exchange="BYBIT",
        raw_symbol="BTCUSDT",
        normalized_symbol="BTC-USDT",
        category="PERPETUAL",
    ),
    # Old files begin with the newest trade. The size is in USD: 6,000 / 60,000 and 3,000 / 60,000.
    "bybit_inverse": Sample(
        name="BTCUSD2024-08-08.csv.gz",
        content=lines(
            _BYBIT,
            f"1723118401.2,BTCUSD,Sell,3000,60000.00,ZeroMinusTick,{_IDS[1]},5000000,3000,0.05",
            f"1723118400.1,BTCUSD,Buy,6000,60000.00,PlusTick,{_IDS[0]},10000000,6000,0.1",
        ),
        rows=((NOON + 100_000_000, "BUY", 60000.0, 0.1), (NOON + 1_200_000_000, "SELL", 60000.0, 0.05)),
        exchange="BYBIT",
        raw_symbol="BTCUSD",
        normalized_symbol="BTC-USD",
        category="PERPETUAL",
    ),
    "bybit_spot": Sample(
        name="BTCUSDT_2024-08-08.csv.gz",
        content=lines(
            "id,timestamp,price,volume,side,rpi",
            "1,1723118400100,60000,0.5,buy,0",
            "2,1723118401100,60010,0.25,sell,0",
        ),
        rows=((NOON + 100_000_000, "BUY", 60000.0, 0.5), (NOON + 1_100_000_000, "SELL", 60010.0, 0.25)),
        exchange="BYBIT_SPOT",
        raw_symbol="BTCUSDT",
        normalized_symbol="BTC-USDT",
        category="SPOT",
    ),
    "bybit_spot_of_a_month": Sample(
        name="BTCUSDT-2024-08.csv.gz",
        content=lines("id,timestamp,price,volume,side", "1,1723118400100,60000,0.5,buy"),
        rows=((NOON + 100_000_000, "BUY", 60000.0, 0.5),),
        exchange="BYBIT_SPOT",
        raw_symbol="BTCUSDT",
    ),
    # Bybit's clock for MetaTrader is UTC+3 all year.
    "bybit_candles_for_metatrader": candles(
        name="BTCUSDT_60_2024-08-01_2024-08-31.csv.gz",
        content=lines(
            "2024.08.08 15:00,60000,60100,59900,60050,10.5", "2024.08.08 16:00,60050,60060,60000,60010,2"
        ),
        rows=(
            (NOON, HOUR, 60000.0, 60100.0, 59900.0, 60050.0, 10.5),
            (NOON + HOUR, HOUR, 60050.0, 60060.0, 60000.0, 60010.0, 2.0),
        ),
        exchange="BYBIT",
        raw_symbol="BTCUSDT",
        category="PERPETUAL",
    ),
}

_CDD = "https://www.CryptoDataDownload.com"
_CDD_HOURS = lines(
    _CDD,
    "Unix,Date,Symbol,Open,High,Low,Close,Volume BTC,Volume USDT,tradecount",
    "1723122000000,2024-08-08 13:00:00,BTCUSDT,60000,60100,59900,60050,10,600250,120",
    "1723118400,2024-08-08 12:00:00,BTCUSDT,59900,60000,59800,60000,5,299500,NULL",
)
_CDD_ROWS = (
    (NOON, HOUR, 59900.0, 60000.0, 59800.0, 60000.0, 5.0),
    (NOON + HOUR, HOUR, 60000.0, 60100.0, 59900.0, 60050.0, 10.0),
)

CRYPTODATADOWNLOAD = {
    "cryptodatadownload_hours": candles(
        name="Binance_BTCUSDT_1h.csv",
        content=_CDD_HOURS,
        columns=(*CANDLE, "quote_volume"),
        rows=((*_CDD_ROWS[0], 299_500.0), (*_CDD_ROWS[1], 600_250.0)),
        exchange="BINANCE",
        raw_symbol="BTCUSDT",
        normalized_symbol="BTC-USDT",
    ),
    "cryptodatadownload_renamed": candles(
        name="prices.csv",
        content=_CDD_HOURS,
        needed={"--exchange": "BINANCE", "--interval": "1h"},
        rows=_CDD_ROWS,
        exchange="BINANCE",
        raw_symbol="BTCUSDT",
    ),
    # 12-AM is midnight and 12-PM noon.
    "cryptodatadownload_am_pm": candles(
        name="Bitstamp_BTCUSD_1h.csv",
        content=lines(
            _CDD,
            "Date,Symbol,Open,High,Low,Close,Volume BTC,Volume USD",
            "2024-08-08 01-PM,BTCUSD,60000,60100,59900,60050,10,600250",
            "2024-08-08 12-PM,BTCUSD,59900,60000,59800,60000,5,299500",
            "2024-08-08 12-AM,BTCUSD,59000,59100,58900,59050,1,59000",
        ),
        rows=((MIDNIGHT, HOUR, 59000.0, 59100.0, 58900.0, 59050.0, 1.0), *_CDD_ROWS),
        exchange="BITSTAMP",
        raw_symbol="BTCUSD",
        normalized_symbol="BTC-USD",
    ),
    "cryptodatadownload_days": candles(
        name="Binance_BTCUSDT_d.csv",
        content=lines(
            _CDD,
            "unix,date,symbol,open,high,low,close,Volume BTC,Volume USDT,tradecount",
            "1723161600000,2024-08-09 00:00:00,BTCUSDT,61000,62000,60000,61500,100,6130000,1000",
            "1723075200.0,2024-08-08,BTCUSDT,60000,61500,59500,61000,200,12100000,NULL",
        ),
        rows=(
            (MIDNIGHT, DAY, 60000.0, 61500.0, 59500.0, 61000.0, 200.0),
            (MIDNIGHT + DAY, DAY, 61000.0, 62000.0, 60000.0, 61500.0, 100.0),
        ),
        exchange="BINANCE",
        raw_symbol="BTCUSDT",
    ),
    "cryptodatadownload_minutes": candles(
        name="Binance_BTCUSDT_2024_minute.csv",
        content=lines(
            _CDD,
            "unix,date,symbol,open,high,low,close,Volume USDT,Volume BTC",
            "1723118460,2024-08-08 12:01:00,BTCUSDT,60000,60100,59900,60050,30015,0.5",
            "1723118400,2024-08-08 12:00:00,BTCUSDT,59900,60000,59800,60000,59900,1",
        ),
        rows=(
            (NOON, MINUTE, 59900.0, 60000.0, 59800.0, 60000.0, 1.0),
            (NOON + MINUTE, MINUTE, 60000.0, 60100.0, 59900.0, 60050.0, 0.5),
        ),
        exchange="BINANCE",
        raw_symbol="BTCUSDT",
    ),
}

_NAMED = {"--exchange": "KRAKEN", "--raw-symbol": "BTC/USD"}
_ONE_STEP = {"--interval": "1m"}
"""Two rows have one step, which may be a gap; three show the length."""
_TWO_MINUTES = (
    (NOON, MINUTE, 60000.5, 60001.0, 59999.0, 60001.0, 0.75),
    (NOON + MINUTE, MINUTE, 60001.0, 60002.0, 60001.0, 60002.0, 0.1),
)

PANDAS = {
    "pandas_index_without_a_name": candles(
        name="prices.csv",
        content=lines(
            ",open,high,low,close,volume",
            "2024-08-08 12:00:00,60000.5,60001.0,59999.0,60001.0,0.75",
            "2024-08-08 12:01:00,60001.0,60002.0,60001.0,60002.0,0.1",
        ),
        needed=_NAMED | _ONE_STEP,
        rows=_TWO_MINUTES,
        exchange="KRAKEN",
        normalized_symbol="BTC-USD",
    ),
    "pandas_numbered_rows": candles(
        name="prices.csv",
        content=lines(
            ",Timestamp,Open,High,Low,Close,Volume",
            "0,2024-08-08 12:00:00+00:00,60000.5,60001.0,59999.0,60001.0,0.75",
            "1,2024-08-08 12:01:00+00:00,60001.0,60002.0,60001.0,60002.0,0.1",
        ),
        needed=_NAMED | _ONE_STEP,
        rows=_TWO_MINUTES,
    ),
    "pandas_three_rows": candles(
        name="prices.csv",
        content=lines(
            "Date,Open,High,Low,Close,Volume",
            "2024-08-08 12:00:00,60000.5,60001.0,59999.0,60001.0,0.75",
            "2024-08-08 12:01:00,60001.0,60002.0,60001.0,60002.0,0.1",
            "2024-08-08 12:02:00,60002.0,60003.0,60002.0,60003.0,0.2",
        ),
        needed=_NAMED,
        rows=(*_TWO_MINUTES, (NOON + 2 * MINUTE, MINUTE, 60002.0, 60003.0, 60002.0, 60003.0, 0.2)),
    ),
    "ccxt_csv": candles(
        name="BTC_USD-1m.csv",
        content=lines(
            "timestamp,open,high,low,close,volume",
            "1723118400000,60000.5,60001.0,59999.0,60001.0,0.75",
            "1723118460000,60001.0,60002.0,60001.0,60002.0,0.1",
        ),
        needed={"--exchange": "KRAKEN"},
        rows=_TWO_MINUTES,
        normalized_symbol="BTC-USD",
    ),
    "ccxt_json": candles(
        name="ohlcv.json",
        content="[[1723118400000, 60000.5, 60001.0, 59999.0, 60001.0, 0.75],"
        " [1723118460000, 60001.0, 60002.0, 60001.0, 60002.0, 0.1]]",
        needed=_NAMED | _ONE_STEP,
        rows=_TWO_MINUTES,
    ),
}

OKX = {
    "okx_trades_of_a_swap": Sample(
        name="BTC-USDT-SWAP-trades-2024-08-08.csv",
        content=lines(
            "instrument_name,trade_id,side,price,size,created_time",
            "BTC-USDT-SWAP,1,buy,60000.1,10.0,1723118400000",
            "BTC-USDT-SWAP,2,sell,60000.0,5.0,1723118401000",
        ),
        needed={"--contract": "LINEAR", "--contract-size": "0.01"},
        rows=((NOON, "BUY", 60000.1, 0.1), (NOON + SECOND, "SELL", 60000.0, 0.05)),
        exchange="OKEX_SWAP|OKX(_SWAP)?",
        raw_symbol="BTC-USDT-SWAP",
        normalized_symbol="BTC-USDT",
        category="PERPETUAL",
    ),
    "okx_trades_of_spot": Sample(
        name="BTC-USDT-trades-2024-08-08.zip",
        content=lines(
            "instrument_name,trade_id,side,price,size,created_time,source",
            "BTC-USDT,1,buy,60000.1,0.5,1723118400000,0",
            "BTC-USDT,2,sell,60000.0,1.772e-05,1723118401000,0",
        ),
        rows=((NOON, "BUY", 60000.1, 0.5), (NOON + SECOND, "SELL", 60000.0, 0.00001772)),
        exchange="OKE?X",
        raw_symbol="BTC-USDT",
        category="SPOT",
    ),
    # The volume in coins is vol_ccy. The last candle is still open.
    "okx_candles_of_a_swap": candles(
        name="BTC-USDT-SWAP-candlesticks-2024-08-08.csv",
        content=lines(
            "instrument_name,open,high,low,close,vol,vol_ccy,vol_quote,open_time,confirm",
            "BTC-USDT-SWAP,60000.5,60001.0,59999.0,60001.0,75,0.75,45000.3,1723118400000,1",
            "BTC-USDT-SWAP,60001.0,60002.0,60001.0,60002.0,10,0.1,6000.15,1723118460000,1",
            "BTC-USDT-SWAP,60002.0,60002.0,60002.0,60002.0,1,0.01,600.02,1723118520000,0",
        ),
        said={"--interval": "1m"},
        rows=_TWO_MINUTES,
        exchange="OKEX_SWAP|OKX(_SWAP)?",
        raw_symbol="BTC-USDT-SWAP",
        category="PERPETUAL",
    ),
    "okx_funding": Sample(
        name="BTC-USDT-SWAP-fundingrates-2024-08.csv",
        content=lines(
            "instrument_name,funding_rate,funding_time",
            "BTC-USDT-SWAP,0.0001,1723075200000",
            "BTC-USDT-SWAP,-0.00002,1723104000000",
            "BTC-USDT-SWAP,0.00003,1723132800000",
        ),
        said={"--funding-interval": "8h"},
        table="funding",
        columns=FUNDING,
        rows=(
            (MIDNIGHT, 0.0001, 8 * HOUR),
            (MIDNIGHT + 8 * HOUR, -0.00002, 8 * HOUR),
            (MIDNIGHT + 16 * HOUR, 0.00003, 8 * HOUR),
        ),
        exchange="OKEX_SWAP|OKX(_SWAP)?",
        raw_symbol="BTC-USDT-SWAP",
        category="PERPETUAL",
    ),
}

KRAKEN = {
    # Two equal lines are two trades, because there is no id.
    "kraken_trades": Sample(
        name="XBTUSD.csv",
        content=lines(
            "1723118400,60000.50000,0.25000000",
            "1723118400,60000.50000,0.25000000",
            "1723118401.1234,60001.00000,0.50000000",
        ),
        needed={"--exchange": "KRAKEN"},
        rows=(
            (NOON, None, 60000.5, 0.25),
            (NOON, None, 60000.5, 0.25),
            (NOON + 1_123_400_000, None, 60001.0, 0.5),
        ),
        exchange="KRAKEN",
        raw_symbol="XBTUSD",
        normalized_symbol="BTC-USD",
        category="SPOT",
    ),
    "kraken_trades_in_their_folder": Sample(
        name="Kraken_Trading_History/ETHEUR.csv",
        content=lines("1723118400,2500.50,1.5"),
        rows=((NOON, None, 2500.5, 1.5),),
        exchange="KRAKEN",
        raw_symbol="ETHEUR",
        normalized_symbol="ETH-EUR",
    ),
    "kraken_candles": candles(
        name="XBTUSD_60.csv",
        content=lines(
            "1723118400,60000.5,60001.0,59999.0,60001.0,0.75,2",
            "1723129200,60001.0,60002.0,60001.0,60002.0,0.1,1",
        ),
        rows=(
            (NOON, HOUR, 60000.5, 60001.0, 59999.0, 60001.0, 0.75),
            (NOON + 3 * HOUR, HOUR, 60001.0, 60002.0, 60001.0, 60002.0, 0.1),
        ),
        exchange="KRAKEN",
        raw_symbol="XBTUSD",
        normalized_symbol="BTC-USD",
    ),
}

YAHOO = {
    "yahoo_shares": candles(
        name="AAPL.csv",
        content=lines(
            "Date,Open,High,Low,Close,Adj Close,Volume",
            "2024-08-07,200,210,199,205,204.5,1000000",
            "2024-08-08,null,null,null,null,null,null",
            "2024-08-09,205,212,204,211,210.4,900000",
        ),
        needed={"--exchange": "NASDAQ", "--quote": "USD"},
        said={"--interval": "1d"},
        rows=(
            (MIDNIGHT - DAY, DAY, 200.0, 210.0, 199.0, 205.0, 1_000_000.0),
            (MIDNIGHT + DAY, DAY, 205.0, 212.0, 204.0, 211.0, 900_000.0),
        ),
        exchange="NASDAQ",
        raw_symbol="AAPL",
        normalized_symbol="AAPL-USD",
    ),
    # yfinance: history labels a day by its first instant in New York, and download has three lines above.
    "yfinance_history": candles(
        name="AAPL.csv",
        content=lines(
            "Date,Open,High,Low,Close,Volume,Dividends,Stock Splits",
            "2024-08-08 00:00:00-04:00,200,210,199,205,1000000,0.0,0.0",
            "2024-11-08 00:00:00-05:00,205,212,204,211,900000,0.25,0.0",
        ),
        needed={"--exchange": "NASDAQ", "--quote": "USD"},
        rows=(
            (MIDNIGHT, DAY, 200.0, 210.0, 199.0, 205.0, 1_000_000.0),
            (MIDNIGHT + 92 * DAY, DAY, 205.0, 212.0, 204.0, 211.0, 900_000.0),
        ),
        raw_symbol="AAPL",
        normalized_symbol="AAPL-USD",
    ),
    "yfinance_download": candles(
        name="prices.csv",
        content=lines(
            "Price,Close,High,Low,Open,Volume",
            "Ticker,AAPL,AAPL,AAPL,AAPL,AAPL",
            "Date,,,,,",
            "2024-08-08,205,210,199,200,1000000",
        ),
        needed={"--exchange": "NASDAQ", "--quote": "USD"},
        rows=((MIDNIGHT, DAY, 200.0, 210.0, 199.0, 205.0, 1_000_000.0),),
        raw_symbol="AAPL",
        normalized_symbol="AAPL-USD",
    ),
    # Yahoo's volume of cryptocurrencies is in dollars.
    "yahoo_crypto": candles(
        name="BTC-USD.csv",
        content=lines(
            "Date,Open,High,Low,Close,Adj Close,Volume", "2024-08-08,60000,61500,59500,61000,61000,12100000"
        ),
        needed={"--exchange": "YAHOO"},
        said={"--interval": "1d"},
        columns=(*CANDLE, "quote_volume"),
        rows=((MIDNIGHT, DAY, 60000.0, 61500.0, 59500.0, 61000.0, None, 12_100_000.0),),
        raw_symbol="BTC-USD",
        normalized_symbol="BTC-USD",
    ),
}


def _freqtrade(*rows: Row) -> pl.DataFrame:
    names = ("date", "open", "high", "low", "close", "volume")
    frame = pl.DataFrame(rows, schema=names, orient="row")
    return frame.with_columns(pl.col("date").cast(pl.Datetime("ns", "UTC")))


_FREQTRADE = "user_data/data/binance"

FREQTRADE = {
    "freqtrade_json": candles(
        name=f"{_FREQTRADE}/BTC_USDT-1h.json",
        content="[[1723118400000,60000.5,60001.0,59999.0,60001.0,0.75],"
        "[1723122000000,60001.0,60002.0,60001.0,60002.0,0.1]]",
        rows=(
            (NOON, HOUR, 60000.5, 60001.0, 59999.0, 60001.0, 0.75),
            (NOON + HOUR, HOUR, 60001.0, 60002.0, 60001.0, 60002.0, 0.1),
        ),
        exchange="BINANCE",
        raw_symbol="BTC[/_]USDT",
        normalized_symbol="BTC-USDT",
        category="SPOT",
    ),
    "freqtrade_feather": candles(
        name=f"{_FREQTRADE}/futures/BTC_USDT_USDT-1h-futures.feather",
        content=_freqtrade((NOON, 60000.5, 60001.0, 59999.0, 60001.0, 0.75)),
        rows=((NOON, HOUR, 60000.5, 60001.0, 59999.0, 60001.0, 0.75),),
        exchange="BINANCE(_FUTURES)?",
        raw_symbol="BTC[/_]USDT[:_]USDT",
        normalized_symbol="BTC-USDT",
        category="PERPETUAL",
    ),
    # The name has the length of the mark price's candles, the rows have the settlements.
    "freqtrade_funding": Sample(
        name=f"{_FREQTRADE}/futures/BTC_USDT_USDT-1h-funding_rate.feather",
        content=_freqtrade(
            (MIDNIGHT, 0.0001, 0.0, 0.0, 0.0, 0.0),
            (MIDNIGHT + 8 * HOUR, -0.00002, 0.0, 0.0, 0.0, 0.0),
            (MIDNIGHT + 16 * HOUR, 0.00003, 0.0, 0.0, 0.0, 0.0),
        ),
        said={"--funding-interval": "8h"},
        table="funding",
        columns=FUNDING,
        rows=(
            (MIDNIGHT, 0.0001, 8 * HOUR),
            (MIDNIGHT + 8 * HOUR, -0.00002, 8 * HOUR),
            (MIDNIGHT + 16 * HOUR, 0.00003, 8 * HOUR),
        ),
        exchange="BINANCE(_FUTURES)?",
        category="PERPETUAL",
    ),
    "freqtrade_mark": candles(
        name=f"{_FREQTRADE}/futures/BTC_USDT_USDT-1h-mark.feather",
        content=_freqtrade((NOON, 60000.5, 60001.0, 59999.0, 60001.0, 0.0)),
        refused=r"\bmark\b",
    ),
}

_BROKER = {"--exchange": "BROKER", "--time-zone": "America/New_York+7h"}
_EURUSD = (
    (NOON, MINUTE, 1.0912, 1.0915, 1.0911, 1.0914, None),
    (NOON + MINUTE, MINUTE, 1.0914, 1.0916, 1.0913, 1.0915, None),
)

METATRADER = {
    # The broker's clock is seven hours ahead of New York, so 15:00 in August is noon in UTC. Ticks are no volume.
    "metatrader_4": candles(
        name="EURUSD1.csv",
        content=lines(
            "2024.08.08,15:00,1.0912,1.0915,1.0911,1.0914,57",
            "2024.08.08,15:01,1.0914,1.0916,1.0913,1.0915,61",
        ),
        needed=_BROKER,
        rows=_EURUSD,
        raw_symbol="EURUSD",
        normalized_symbol="EUR-USD",
    ),
    "metatrader_5": candles(
        name="EURUSD_M1_202408081500_202408081501.csv",
        content=lines(
            "<DATE>\t<TIME>\t<OPEN>\t<HIGH>\t<LOW>\t<CLOSE>\t<TICKVOL>\t<VOL>\t<SPREAD>",
            "2024.08.08\t15:00:00\t1.0912\t1.0915\t1.0911\t1.0914\t57\t0\t3",
            "2024.08.08\t15:01:00\t1.0914\t1.0916\t1.0913\t1.0915\t61\t0\t3",
            end="\r\n",
        ),
        needed=_BROKER,
        rows=_EURUSD,
        raw_symbol="EURUSD",
        normalized_symbol="EUR-USD",
    ),
    "metatrader_5_ticks": Sample(
        name="EURUSD_202408081500_202408081501.csv",
        content=lines(
            "<DATE>\t<TIME>\t<BID>\t<ASK>\t<LAST>\t<VOLUME>\t<FLAGS>",
            "2024.08.08\t15:00:00.123\t1.0912\t1.0913\t\t\t6",
        ),
        said=_BROKER,
        refused="bid|quote",
    ),
}

HISTDATA = {
    # Eastern Standard Time all year: UTC-5. The volume is always 0, so there is none.
    "histdata": candles(
        name="DAT_ASCII_EURUSD_M1_202408.csv",
        content=lines(
            "20240808 070000;1.091200;1.091500;1.091100;1.091400;0",
            "20240808 070100;1.091400;1.091600;1.091300;1.091500;0",
        ),
        needed={"--exchange": "HISTDATA"},
        rows=_EURUSD,
        raw_symbol="EURUSD",
        normalized_symbol="EUR-USD",
    ),
    "histdata_for_metatrader": candles(
        name="DAT_MT_EURUSD_M1_202408.csv",
        content=lines(
            "2024.08.08,07:00,1.091200,1.091500,1.091100,1.091400,0",
            "2024.08.08,07:01,1.091400,1.091600,1.091300,1.091500,0",
        ),
        needed={"--exchange": "HISTDATA"},
        rows=_EURUSD,
        raw_symbol="EURUSD",
    ),
    "histdata_ticks": Sample(
        name="DAT_ASCII_EURUSD_T_202408.csv",
        content=lines("20240808 070000123,1.091200,1.091300,0"),
        said={"--exchange": "HISTDATA"},
        refused="bid|quote",
    ),
}

_EURUSD_PRICES = tuple(row[:-1] for row in _EURUSD)

DUKASCOPY = {
    # The day comes first. The unit of the volume is not documented, so it is not compared.
    "dukascopy": candles(
        name="EURUSD_Candlestick_1_M_BID_01.08.2024-31.08.2024.csv",
        content=lines(
            "Gmt time,Open,High,Low,Close,Volume",
            "08.08.2024 12:00:00.000,1.0912,1.0915,1.0911,1.0914,57.4",
            "08.08.2024 12:01:00.000,1.0914,1.0916,1.0913,1.0915,61.2",
        ),
        needed={"--exchange": "DUKASCOPY"},
        columns=PRICES,
        rows=_EURUSD_PRICES,
        raw_symbol="EURUSD",
        normalized_symbol="EUR-USD",
    ),
    "dukascopy_utc": candles(
        name="EURUSD_Candlestick_1_M_BID_01.09.2024-30.09.2024.csv",
        content=lines(
            "UTC,Open,High,Low,Close,Volume",
            "09.08.2024 12:00:00.000 UTC,1.0912,1.0915,1.0911,1.0914,57.4",
        ),
        needed={"--exchange": "DUKASCOPY"},
        columns=PRICES,
        rows=((NOON + DAY, MINUTE, 1.0912, 1.0915, 1.0911, 1.0914),),
        raw_symbol="EURUSD",
    ),
}

BITMEX = {
    # Contracts of 1 USD; homeNotional has the coins.
    "bitmex": Sample(
        name="20240808.csv.gz",
        content=lines(
            f"{_BYBIT},trdType",
            f"2024-08-08D12:00:00.123456000,XBTUSD,Buy,6000,60000.0,PlusTick,{_IDS[0]},10000000,0.1,6000,Regular",
            f"2024-08-08D12:00:01.000000000,XBTUSD,Sell,3000,60000.0,MinusTick,{_IDS[1]},5000000,0.05,3000,Regular",
        ),
        rows=((NOON + 123_456_000, "BUY", 60000.0, 0.1), (NOON + SECOND, "SELL", 60000.0, 0.05)),
        exchange="BITMEX",
        raw_symbol="XBTUSD",
        normalized_symbol="BTC-USD",
        category="PERPETUAL",
    ),
}

_DATABENTO = "ts_recv,ts_event,rtype,publisher_id,instrument_id,action,side,depth,price,size,flags,ts_in_delta,sequence"
_LOTS = {"--contract": "VANILLA", "--quote": "USD"}

DATABENTO = {
    # B is a buyer who takes, A a seller who takes; N is unknown. `sequence` repeats, so it is no id.
    "databento_trades": Sample(
        name="glbx-mdp3-20240808.trades.csv",
        content=lines(
            f"{_DATABENTO},symbol",
            "2024-08-08T12:00:00.000100000Z,2024-08-08T12:00:00.000000001Z,0,1,118,T,B,0,5300.250000000,2,0,100,10,ESU4",
            "2024-08-08T12:00:01.000100000Z,2024-08-08T12:00:01.000000000Z,0,1,118,T,A,0,5300.000000000,3,0,100,11,ESU4",
            "2024-08-08T12:00:01.000100000Z,2024-08-08T12:00:01.000000000Z,0,1,118,T,N,0,5300.000000000,1,0,100,11,ESU4",
        ),
        needed=_LOTS,
        said={"--category": "FUTURE"},
        rows=(
            (NOON + 1, "BUY", 5300.25, 2.0),
            (NOON + SECOND, "SELL", 5300.0, 3.0),
            (NOON + SECOND, None, 5300.0, 1.0),
        ),
        exchange="CME|GLBX",
        raw_symbol="ESU4",
    ),
    "databento_trades_raw": Sample(
        name="glbx-mdp3-20240808.trades.csv",
        content=lines(
            _DATABENTO,
            "1723118400000100000,1723118400000000000,0,1,118,T,B,0,5300250000000,2,0,100,10",
            "1723118401000100000,1723118401000000000,0,1,118,T,A,0,5300000000000,3,0,100,11",
        ),
        needed={"--raw-symbol": "ESU4", **_LOTS},
        said={"--category": "FUTURE"},
        rows=((NOON, "BUY", 5300.25, 2.0), (NOON + SECOND, "SELL", 5300.0, 3.0)),
        exchange="CME|GLBX",
        raw_symbol="ESU4",
    ),
    "databento_bars": candles(
        name="glbx-mdp3-20240808.ohlcv-1h.csv",
        content=lines(
            "ts_event,rtype,publisher_id,instrument_id,open,high,low,close,volume,symbol",
            "2024-08-08T12:00:00.000000000Z,34,1,118,5300.000000000,5301.000000000,5299.000000000,5300.250000000,20,ESU4",
        ),
        needed=_LOTS,
        said={"--category": "FUTURE"},
        rows=((NOON, HOUR, 5300.0, 5301.0, 5299.0, 5300.25, 20.0),),
        exchange="CME|GLBX",
        raw_symbol="ESU4",
    ),
    # 33 stands for a minute; 2**63 - 1 is no price.
    "databento_bars_raw": candles(
        name="bars.csv",
        content=lines(
            "ts_event,rtype,publisher_id,instrument_id,open,high,low,close,volume",
            "1723118400000000000,33,1,118,5300000000000,5301000000000,5299000000000,5300250000000,20",
            "1723118460000000000,33,1,118,9223372036854775807,9223372036854775807,9223372036854775807,9223372036854775807,0",
        ),
        needed={"--raw-symbol": "ESU4", **_LOTS},
        said={"--category": "FUTURE"},
        rows=((NOON, MINUTE, 5300.0, 5301.0, 5299.0, 5300.25, 20.0),),
        exchange="CME|GLBX",
    ),
}

_MASSIVE = "ticker,volume,open,close,high,low,window_start,transactions"

MASSIVE = {
    # The close comes before the high. The folder says that these are shares of the United States, in minutes.
    "massive_minutes": candles(
        name="us_stocks_sip/minute_aggs_v1/2024/08/2024-08-08.csv.gz",
        content=lines(
            _MASSIVE, "GBTC,20,50,51,52,49,1723118400000000000,3", "GBTC,10,51,50,51,50,1723118460000000000,1"
        ),
        needed={"--exchange": "SIP"},
        rows=(
            (NOON, MINUTE, 50.0, 52.0, 49.0, 51.0, 20.0),
            (NOON + MINUTE, MINUTE, 51.0, 51.0, 50.0, 50.0, 10.0),
        ),
        raw_symbol="GBTC",
        normalized_symbol="GBTC-USD",
    ),
    "massive_crypto_minutes": candles(
        name="global_crypto/minute_aggs_v1/2024/08/2024-08-08.csv.gz",
        content=lines(_MASSIVE, "X:BTC-USD,0.75,60000.5,60001,60001,59999,1723118400000000000,3"),
        needed={"--exchange": "MASSIVE"},
        rows=((NOON, MINUTE, 60000.5, 60001.0, 59999.0, 60001.0, 0.75),),
        normalized_symbol="BTC-USD",
        category="SPOT",
    ),
    # Shares' trades have no side, and an id is unique within one exchange only.
    "massive_trades": Sample(
        name="us_stocks_sip/trades_v1/2024/08/2024-08-08.csv.gz",
        content=lines(
            "ticker,conditions,correction,exchange,id,participant_timestamp,price,sequence_number,sip_timestamp,size,"
            "tape,trf_id,trf_timestamp",
            'AAPL,"12,37",0,11,7,1723118400000000000,200.5,1,1723118400000020000,5,1,0,0',
            "AAPL,12,0,4,7,1723118401000000000,200.25,2,1723118401000020000,8,1,0,0",
            # A trade that was cancelled later, and the record of its cancel.
            "AAPL,12,7,4,8,1723118402000000000,2000.0,3,1723118402000020000,8,1,0,0",
            "AAPL,12,10,4,8,1723118402000000000,2000.0,4,1723118403000020000,8,1,0,0",
        ),
        needed={"--exchange": "SIP"},
        columns=("side", "price", "amount"),
        rows=((None, 200.5, 5.0), (None, 200.25, 8.0)),
        raw_symbol="AAPL",
        normalized_symbol="AAPL-USD",
    ),
}

_SOLD_AND_BOUGHT = ((NOON, "SELL", 60000.0, 0.5), (NOON + SECOND, "BUY", 60001.0, 0.25))
_HYPERLIQUID = {
    "exchange": "HYPERLIQUID",
    "raw_symbol": "BTC",
    "normalized_symbol": "BTC-USDC?",
    "category": "PERPETUAL",
}

HYPERLIQUID = {
    # A hits the bid: the seller takes.
    "hyperliquid_array": Sample(
        name="recent_trades.json",
        content='[{"coin": "BTC", "side": "A", "px": "60000.0", "sz": "0.5", "time": 1723118400000, "hash": "0x0", '
        '"tid": 1}, {"coin": "BTC", "side": "B", "px": "60001.0", "sz": "0.25", "time": 1723118401000, '
        '"hash": "0x0", "tid": 2}]',
        rows=_SOLD_AND_BOUGHT,
        **_HYPERLIQUID,
    ),
    "hyperliquid_messages": Sample(
        name="trades.jsonl",
        content=lines(
            '{"channel": "trades", "data": [{"coin": "BTC", "side": "A", "px": "60000.0", "sz": "0.5",'
            ' "time": 1723118400000, "hash": "0x0", "tid": 1, "users": ["0x1", "0x2"]}]}',
            '{"channel": "trades", "data": [{"coin": "BTC", "side": "B", "px": "60001.0", "sz": "0.25",'
            ' "time": 1723118401000, "hash": "0x0", "tid": 2, "users": ["0x1", "0x2"]}]}',
        ),
        rows=_SOLD_AND_BOUGHT,
        **_HYPERLIQUID,
    ),
}

DERIBIT_AND_COINBASE = {
    # Amounts of inverse markets are USD, those of linear ones coins.
    "deribit": Sample(
        name="last_trades.json",
        content='{"jsonrpc": "2.0", "result": {"trades": [{"amount": 6000.0, "direction": "buy", "instrument_name": '
        '"BTC-PERPETUAL", "price": 60000.0, "timestamp": 1723118400000, "trade_id": "1", "trade_seq": 1, '
        '"tick_direction": 0, "mark_price": 60000.1, "index_price": 60000.2}], "has_more": false}}',
        rows=((NOON, "BUY", 60000.0, 0.1),),
        exchange="DERIBIT",
        raw_symbol="BTC-PERPETUAL",
        normalized_symbol="BTC-USD",
        category="PERPETUAL",
    ),
    "deribit_linear": Sample(
        name="last_trades.json",
        content='{"jsonrpc": "2.0", "result": {"trades": [{"amount": 0.25, "direction": "sell", "instrument_name": '
        '"BTC_USDC-PERPETUAL", "price": 60000.0, "timestamp": 1723118400000, "trade_id": "1"}], "has_more": false}}',
        rows=((NOON, "SELL", 60000.0, 0.25),),
        exchange="DERIBIT",
        raw_symbol="BTC_USDC-PERPETUAL",
        normalized_symbol="BTC-USDC",
        category="PERPETUAL",
    ),
    # The side is the maker's: a maker who bought met a taker who sold.
    "coinbase_trades": Sample(
        name="trades.json",
        content='[{"trade_id": 2, "side": "sell", "size": "0.25", "price": "60001.0", "time": "2024-08-08T12:00:01Z"},'
        ' {"trade_id": 1, "side": "buy", "size": "0.5", "price": "60000.0", "time": "2024-08-08T12:00:00Z"}]',
        needed={"--raw-symbol": "BTC-USD"},
        rows=_SOLD_AND_BOUGHT,
        exchange="COINBASE",
        raw_symbol="BTC-USD",
        category="SPOT",
    ),
}

_STOOQ = "<TICKER>,<PER>,<DATE>,<TIME>,<OPEN>,<HIGH>,<LOW>,<CLOSE>,<VOL>,<OPENINT>"
_SHARES = {"--exchange": "NASDAQ", "--quote": "USD"}

STOOQ = {
    "stooq_days": candles(
        name="aapl_us_d.csv",
        content=lines(
            "Date,Open,High,Low,Close,Volume",
            "2024-08-07,200,210,199,205,1000000",
            "2024-08-08,205,212,204,211,900000",
        ),
        needed=_SHARES,
        said={"--interval": "1d"},
        rows=(
            (MIDNIGHT - DAY, DAY, 200.0, 210.0, 199.0, 205.0, 1_000_000.0),
            (MIDNIGHT, DAY, 205.0, 212.0, 204.0, 211.0, 900_000.0),
        ),
        raw_symbol="(?i)aapl[._]us",
    ),
    "stooq_ticker": candles(
        name="aapl.us.txt",
        content=lines(_STOOQ, "AAPL.US,D,20240808,000000,205,212,204,211,900000,0"),
        needed=_SHARES,
        rows=((MIDNIGHT, DAY, 205.0, 212.0, 204.0, 211.0, 900_000.0),),
        raw_symbol="AAPL.US",
    ),
    "stooq_five_minutes": candles(
        name="aapl.us.txt",
        content=lines(
            _STOOQ,
            "AAPL.US,5,20240808,160000,205,212,204,211,900,0",
            "AAPL.US,5,20240808,160500,211,211,210,210,800,0",
        ),
        needed={**_SHARES, "--time-zone": "Europe/Warsaw"},
        rows=(
            (NOON + 2 * HOUR, 5 * MINUTE, 205.0, 212.0, 204.0, 211.0, 900.0),
            (NOON + 2 * HOUR + 5 * MINUTE, 5 * MINUTE, 211.0, 211.0, 210.0, 210.0, 800.0),
        ),
        raw_symbol="AAPL.US",
    ),
}

_OPTIONSDX = (
    "[QUOTE_UNIXTIME], [QUOTE_READTIME], [QUOTE_DATE], [QUOTE_TIME_HOURS], [UNDERLYING_LAST], [EXPIRE_DATE], "
    "[EXPIRE_UNIX], [DTE], [C_DELTA], [C_GAMMA], [C_VEGA], [C_THETA], [C_RHO], [C_IV], [C_VOLUME], [C_LAST], [C_SIZE], "
    "[C_BID], [C_ASK], [STRIKE], [P_BID], [P_ASK], [P_SIZE], [P_LAST], [P_DELTA], [P_GAMMA], [P_VEGA], [P_THETA], "
    "[P_RHO], [P_IV], [P_VOLUME], [STRIKE_DISTANCE], [STRIKE_DISTANCE_PCT]"
)

CHAINS = {
    # The quotes and volatilities are those of 15:45 in New York.
    "cboe": Sample(
        name="UnderlyingOptionsEODCalcs_2024-08-08.csv",
        content=lines(
            "underlying_symbol,quote_date,root,expiration,strike,option_type,open,high,low,close,trade_volume,bid_size_1545,"
            "bid_1545,ask_size_1545,ask_1545,underlying_bid_1545,underlying_ask_1545,implied_underlying_price_1545,"
            "active_underlying_price_1545,implied_volatility_1545,delta_1545,gamma_1545,theta_1545,vega_1545,rho_1545,"
            "bid_size_eod,bid_eod,ask_size_eod,ask_eod,underlying_bid_eod,underlying_ask_eod,vwap,open_interest,delivery_code",
            "^SPX,2024-08-08,SPXW,2024-08-16,5000.000,C,10,11,9,10,100,5,9.9,6,10.1,5319,5319.6,5320,5319.3,0.1800,0.5000,"
            "0.001,-1,2,1,5,9.9,6,10.1,5319,5319.6,10,1000,",
            "^SPX,2024-08-08,SPXW,2024-08-16,5000.000,P,10,11,9,10,100,5,9.9,6,10.1,5319,5319.6,5320,5319.3,0.1900,-0.5000,"
            "0.001,-1,2,1,5,9.9,6,10.1,5319,5319.6,10,900,",
        ),
        table="option_quotes",
        columns=QUOTE,
        rows=(
            (NOON + 7 * HOUR + 45 * MINUTE, "SPX", "CALL", 5000.0, 18.0, 0.5),
            (NOON + 7 * HOUR + 45 * MINUTE, "SPX", "PUT", 5000.0, 19.0, -0.5),
        ),
        exchange="CBOE",
    ),
    # One line has a call and a put.
    "optionsdx": Sample(
        name="spx_eod_202408.txt",
        content=lines(
            _OPTIONSDX,
            "1723147200, 2024-08-08 16:00, 2024-08-08, 16.000000, 5319.300000, 2024-08-16, 1723838400, 8.000000, "
            "0.500000, 0.001000, 2.000000, -1.000000, 1.000000, 0.180000, 100, 10.000000, 5 x 6, 9.900000, 10.100000, "
            "5000.000000, 9.900000, 10.100000, 5 x 6, 10.000000, -0.500000, 0.001000, 2.000000, -1.000000, -1.000000, "
            "0.190000, 90, 319.3, 0.06",
        ),
        needed={"--exchange": "CBOE"},
        table="option_quotes",
        columns=(*QUOTE, "expiry"),
        rows=(
            (NOON + 8 * HOUR, "SPX", "CALL", 5000.0, 18.0, 0.5, NOON + 8 * DAY + 8 * HOUR),
            (NOON + 8 * HOUR, "SPX", "PUT", 5000.0, 19.0, -0.5, NOON + 8 * DAY + 8 * HOUR),
        ),
    ),
}

KAIKO = {
    "kaiko_trades": Sample(
        name="Coinbase_BTCUSD_trades_2024_08_08.csv.gz",
        content=lines(
            "id,exchange,symbol,date,price,amount,sell",
            "1,cb,btcusd,1723118400000,60000.0,0.5,true",
            "2,cb,btcusd,1723118401000,60001.0,0.25,false",
        ),
        rows=_SOLD_AND_BOUGHT,
        exchange="COINBASE|CB",
        raw_symbol="(?i)btcusd",
        normalized_symbol="BTC-USD",
    ),
    "kaiko_candles": candles(
        name="cb_btcusd_ohlcv_1h_2024.csv",
        content=lines("1723118400000,60000.5,60001.0,59999.0,60001.0,0.75"),
        rows=((NOON, HOUR, 60000.5, 60001.0, 59999.0, 60001.0, 0.75),),
        exchange="COINBASE|CB",
        normalized_symbol="BTC-USD",
    ),
}

COINAPI = {
    # A side that CoinAPI estimates is not known.
    "coinapi_trades": Sample(
        name="T-TRADES/D-20240808/E-BINANCE/IDDI-1234+SC-BINANCE_SPOT_BTC_USDT+S-BTCUSDT.csv.gz",
        content=lines(
            "time_exchange;time_coinapi;guid;price;base_amount;taker_side;id_exch_guid;id_exch_int_inc;order_id_maker;order_id_taker",
            f"2024-08-08T12:00:00.0000000;2024-08-08T12:00:00.1000000;{_IDS[0]};60000.0;0.5;SELL;;;;",
            f"2024-08-08T12:00:01.0000000;2024-08-08T12:00:01.1000000;{_IDS[1]};60001.0;0.25;BUY_ESTIMATED;;;;",
        ),
        rows=((NOON, "SELL", 60000.0, 0.5), (NOON + SECOND, None, 60001.0, 0.25)),
        exchange="BINANCE",
        raw_symbol="BTCUSDT",
        normalized_symbol="BTC-USDT",
        category="SPOT",
    ),
}

_TOKEN = "71321045863084981365469005770620412523470745398083994982746259498689308907982"
_POLYMARKET = (
    f'"asset": "{_TOKEN}", "conditionId": "0x1", "outcome": "Yes", "outcomeIndex": 0, "slug": "rain"'
)

POLYMARKET = {
    # Two fills of one transaction are two trades.
    "polymarket": Sample(
        name="trades.json",
        content=f'[{{"proxyWallet": "0x1", "side": "BUY", {_POLYMARKET}, "size": 100, "price": 0.55,'
        f' "timestamp": 1723118401, "title": "Rain?", "transactionHash": "0xa"}},'
        f' {{"proxyWallet": "0x2", "side": "SELL", {_POLYMARKET}, "size": 50, "price": 0.53,'
        f' "timestamp": 1723118400, "title": "Rain?", "transactionHash": "0xa"}}]',
        rows=((NOON, "SELL", 0.53, 50.0), (NOON + SECOND, "BUY", 0.55, 100.0)),
        exchange="POLYMARKET",
        raw_symbol=_TOKEN,
    ),
}

OTHERS = {
    # The sign of a future's size is the taker's side; columns of candles are volume, close, high, low, open.
    "gate_futures": Sample(
        name="futures_usdt/trades/202408/BTC_USDT-202408.csv.gz",
        content=lines("1723118400.000000,1,60000.0,-5000", "1723118401.000000,2,60001.0,2500"),
        needed={"--contract": "LINEAR", "--contract-size": "0.0001"},
        rows=_SOLD_AND_BOUGHT,
        exchange="GATE_?IO_FUTURES",
        raw_symbol="BTC_USDT",
        normalized_symbol="BTC-USDT",
        category="PERPETUAL",
    ),
    "gate_candles": candles(
        name="spot/candlesticks_1h/202408/BTC_USDT-202408.csv.gz",
        content=lines("1723118400,0.75,60001.0,60001.0,59999.0,60000.5"),
        rows=((NOON, HOUR, 60000.5, 60001.0, 59999.0, 60001.0, 0.75),),
        exchange="GATE_?IO",
        raw_symbol="BTC_USDT",
        category="SPOT",
    ),
    "bitget": Sample(
        name="trades/UMCBL/BTCUSDT/20240808_001.csv",
        content=lines(
            "trade_id,timestamp,price,side,volume(quote),size(base)",
            "1,1723118400000,60000.0,sell,30000,0.5",
            "2,1723118401000,60001.0,buy,15000.25,0.25",
        ),
        rows=_SOLD_AND_BOUGHT,
        exchange="BITGET_FUTURES",
        raw_symbol="BTCUSDT",
        normalized_symbol="BTC-USDT",
        category="PERPETUAL",
    ),
    # The name is one of Binance's.
    "kucoin": Sample(
        name="BTCUSDT-trades-2024-08-08.csv",
        content=lines(
            "trade_id,trade_time,price,size,side",
            "1,1723118400000,60000.0,0.5,SELL",
            "2,1723118401000,60001.0,0.25,BUY",
        ),
        rows=_SOLD_AND_BOUGHT,
        exchange="KUCOIN",
        normalized_symbol="BTC-USDT",
        category="SPOT",
    ),
}

SAMPLES: Mapping[str, Sample] = {
    **BYBIT,
    **CRYPTODATADOWNLOAD,
    **PANDAS,
    **OKX,
    **KRAKEN,
    **YAHOO,
    **FREQTRADE,
    **METATRADER,
    **HISTDATA,
    **DUKASCOPY,
    **BITMEX,
    **DATABENTO,
    **MASSIVE,
    **HYPERLIQUID,
    **DERIBIT_AND_COINBASE,
    **STOOQ,
    **CHAINS,
    **KAIKO,
    **COINAPI,
    **POLYMARKET,
    **OTHERS,
}
