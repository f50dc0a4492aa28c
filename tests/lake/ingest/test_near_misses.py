"""Files that look like a kind and are another: refused, or asked about, and never taken for the kind."""

from __future__ import annotations

import copy
import pickle
import re
from typing import TYPE_CHECKING, Any

import pytest

from tidytape.errors import QueryError, TidytapeError
from tidytape.lake import Lake
from tidytape.lake.ingest import Auto, Csv, Feather, Json, Jsonl, Market, Parquet, ingest
from tidytape.lake.ingest._descriptions import DESCRIPTIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

T = 1_723_118_400  # 2024-08-08T12:00:00Z
X = Market(exchange="X", raw_symbol="BTC-USD")
NONE = Market()


def rows(made: Callable[[int], Iterable[object]], header: str = "", count: int = 5) -> str:
    lines = [",".join(map(str, made(number))) for number in range(count)]
    return "\n".join([header, *lines] if header else lines) + "\n"


def prices(number: int) -> tuple[int, int, int, int]:
    """Return open, high, low and close; each candle opens where the one before it closes."""
    return 60000 + number, 60003 + number, 59999 + number, 60001 + number


def names(text: str, made: Callable[[int], Iterable[object]], count: int = 5) -> str:
    return rows(made, text, count)


def put(folder: Path, name: str, content: str, market: Market, layout: Any = None) -> Lake:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    lake = Lake.create(folder / "lake")
    ingest(path, lake, layout, market=market, progress=False)
    return lake


KRAKEN = rows(lambda i: (T + 60 * i, *prices(i), 1.5, 12))
SWAPPED = rows(lambda i: (T + 60 * i, *prices(i)[::-1][:1], *prices(i)[1:3], prices(i)[0], 1.5, 12))
TRADES = rows(lambda i: (T + i, 60000, 0.5))
CANDLES = names("timestamp,open,high,low,close,volume", lambda i: (T + 60 * i, *prices(i), 1.5))
DAYS = "date,open,high,low,close,adj close,volume"
BYBIT_SPOT = names("id,timestamp,price,volume,side", lambda i: (i, T * 1000 + i, 60000, 0.5, "buy"))
KUCOIN = names("trade_id,trade_time,price,size,side", lambda i: (i, T * 1000 + i, 60000, 5, "buy"))
FREQTRADE = f"[[{T * 1000},1,2,1,2,3],[{(T + 3600) * 1000},2,2,1,2,3]]"
DATABENTO = "ts_event,rtype,publisher_id,instrument_id,open,high,low,close,volume,symbol"
MISSES = {
    "open and close the other way round": ("XBTUSD_1.csv", SWAPPED, NONE, "the other way round"),
    "a symbol that Kraken does not write": ("BTCUSDT_1.csv", KRAKEN, NONE, "exchange: left out"),
    "a year is no length": ("XBTUSD_2024.csv", KRAKEN, NONE, "exchange: left out"),
    "Kraken's candles in another's folder": ("binance/ETHUSD_1.csv", KRAKEN, NONE, "exchange: left out"),
    "a folder that only begins like Kraken": ("krakenstuff/XBTUSD.csv", TRADES, NONE, "exchange: left out"),
    "any name and USD is no exchange": ("ethUSD.csv", TRADES, NONE, "exchange: left out"),
    "closes of minutes are no trades": (
        "XBTUSD.csv", rows(lambda i: (T + 60 * i, 60000, 0.5)), Market(exchange="KRAKEN"), "whole minutes",
    ),
    "any folder is no exchange": ("downloads/BTC_USDT-1h.json", FREQTRADE, NONE, "exchange: left out"),
    "ids, times and prices of anybody": ("my.csv", BYBIT_SPOT, Market(raw_symbol="BTCUSDT"), "layout: left out"),
    "columns of Bybit in another's folder": ("okx/BTCUSDT_2024-08.csv", BYBIT_SPOT, NONE, "exchange: left out"),
    "columns of KuCoin from anybody": ("my.csv", KUCOIN, Market(raw_symbol="BTCUSDT"), "exchange: left out"),
    "KuCoin's futures": ("XBTUSDTM-trades-2024-08-08.csv", KUCOIN, NONE, "contract: left out"),
    "KuCoin's futures as the caller says": (
        "BTCUSDT-trades-2024-08-08.csv", KUCOIN, Market(exchange="KUCOIN_FUTURES"), "contract: left out",
    ),
    "Gate.io's futures by freqtrade": (
        "gateio/futures/BTC_USDT_USDT-1h-futures.json", FREQTRADE, NONE, "contract: left out",
    ),
    "mark prices": ("BTC-USD-1m-mark.csv", CANDLES, X, "mark or index prices"),
    "mark prices by a folder": ("markPriceKlines/BTCUSDT-1m.csv", CANDLES, X, "mark or index prices"),
    "a volume in the quote": (
        "a.csv", CANDLES.replace("volume", "Volume USDT"), X, "volume mapped to one of the columns",
    ),
    "months": (
        "AAPL.csv", names(DAYS, lambda i: (f"2024-0{i + 1}-01", *prices(i), 1, 9)),
        Market(exchange="NASDAQ", quote="USD"), "a month or more apart",
    ),
    "a pair of coins among shares": (
        "mine.csv", names(DAYS, lambda i: (f"2024-08-0{i + 1}", *prices(i), 1, 9)),
        Market(exchange="X", raw_symbol="DOGE-USD", quote="USD"), "quote: got 'USD'",
    ),
    "a ticker is no pair": ("GBTC-1m.csv", CANDLES, Market(exchange="NYSE"), "raw_symbol: left out"),
    "a class of shares is no pair": ("a.csv", CANDLES, Market(exchange="NYSE", raw_symbol="BRK.B"), "symbol"),
    "prices without decimals": (
        "glbx-mdp3-20240808.ohlcv-1m.csv",
        names(DATABENTO, lambda i: (f"{T + 60 * i}000000000", 33, 1, 42, *prices(i), 9, "ESU4")),
        Market(contract="VANILLA", quote="USD"), "too small for a number of billionths",
    ),
    "a day is no hour": (
        "BTC-USD_1h.csv", names("date,open,high,low,close,volume", lambda i: (f"2024-08-0{i + 1}", *prices(i), 1)),
        X, "start 1d apart",
    ),
    "date and time of nobody knows where": (
        "a.csv", names("Date,Time,Open,High,Low,Close", lambda i: ("2024.08.08", f"12:0{i}", *prices(i))),
        X, "time_zone: left out",
    ),
}  # fmt: skip


@pytest.mark.parametrize("miss", MISSES)
def test_a_near_miss_of_a_kind_is_refused_and_nothing_is_stored(tmp_path: Path, miss: str) -> None:
    name, content, market, reason = MISSES[miss]
    with pytest.raises(TidytapeError, match=re.escape(reason)):
        put(tmp_path, name, content, market)
    lake = Lake(tmp_path / "lake")
    assert lake.scan("candles").collect().is_empty()
    assert lake.scan("trades").collect().is_empty()


HITS = {
    "Kraken's candles": ("ETHUSD_1.csv", KRAKEN, NONE, ("KRAKEN", "ETHUSD")),
    "Kraken's candles in its folder": ("Kraken_OHLCVT/XBTUSD_1.csv", KRAKEN, NONE, ("KRAKEN", "XBTUSD")),
    "Kraken's candles, renamed": (
        "kraken_headerless_1.csv", KRAKEN, Market(raw_symbol="XBTUSD"), ("KRAKEN", "XBTUSD"),
    ),
    "an index of a frame": (
        "unnamed_index.csv", names(",open,high,low,close", lambda i: (f"2024-08-08 12:0{i}:00", *prices(i))),
        X, ("X", "BTC-USD"),
    ),
    "a symbol per row": (
        "a.csv", names("time,Symbol,open,high,low,close", lambda i: (T + 60 * i, "BTC-USD", *prices(i))),
        Market(exchange="X"), ("X", "BTC-USD"),
    ),
    "days": (
        "a.csv", names("Date,Open,High,Low,Close,Volume", lambda i: (f"2024-08-0{i + 1}", *prices(i), 1)),
        X, ("X", "BTC-USD"),
    ),
    "quotes around all cells": (
        "BTC-USDT-candlesticks.csv",
        re.sub(
            r"[^,\n]+", r'"\g<0>"',
            names(
                "instrument_name,open,high,low,close,vol,vol_ccy,vol_quote,open_time,confirm",
                lambda i: ("BTC-USDT", *prices(i), 1, 60001, 60001, (T + 60 * i) * 1000, 1),
            ),
        ),
        NONE, ("OKEX", "BTC-USDT"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("hit", HITS)
def test_the_kinds_themselves_go_in(tmp_path: Path, hit: str) -> None:
    name, content, market, expected = HITS[hit]
    candles = put(tmp_path, name, content, market).scan("candles").collect()
    assert candles.select("exchange", "raw_symbol").unique().rows() == [expected]
    assert candles.height == 5


@pytest.mark.slow
@pytest.mark.parametrize("column", ["symbol", "Ticker", "tic", "instrument"])
def test_markets_of_a_column_that_nobody_mapped_do_not_become_one(tmp_path: Path, column: str) -> None:
    content = names(
        f"timestamp,{column},price,amount,side",
        lambda i: (T + i, ["BTC-USD", "ETH-USD"][i // 3], 1, 1, "buy"),
    )
    with pytest.raises(TidytapeError, match=r"which names BTC-USD, ETH-USD"):
        put(tmp_path, "a.csv", content, X, Csv())
    mapped = put(tmp_path / "b", "a.csv", content, X, Csv(columns={"raw_symbol": column}))
    assert mapped.scan("trades").collect().height == 3
    unmapped = put(tmp_path / "c", "a.csv", content, X, Csv(columns={"raw_symbol": ""}))
    assert unmapped.scan("trades").collect().height == 5


TOLD = {
    "the symbol": ("XBTUSD_1.csv", "ETHUSD_1.csv", KRAKEN),
    "the exchange": ("binance/BTC_USDT-1h.json", "bybit/BTC_USDT-1h.json", FREQTRADE),
    "the class": ("binance/BTC_USDT-1h.json", "binance/futures/BTC_USDT_USDT-1h-futures.json", FREQTRADE),
}


@pytest.mark.slow
@pytest.mark.parametrize("told", TOLD)
def test_a_file_under_another_name_that_tells_another_market_is_another_file(
    tmp_path: Path, told: str
) -> None:
    *given, content = TOLD[told]
    lake = put(tmp_path, given[0], content, NONE)
    path = tmp_path / given[1]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    ingest(path, lake, progress=False)
    assert len(lake.markets()) == 2
    counts = lake.scan("candles").group_by("exchange", "raw_symbol").len().collect()["len"].to_list()
    assert len(counts) == 2
    assert len(set(counts)) == 1
    assert ingest(path, lake, progress=False).files[0].already_ingested


OKX = names(
    "instrument_name,trade_id,side,price,size,created_time",
    lambda i: ("BTC-USDT", i, "buy", 60000, 1, T * 1000 + i),
)


@pytest.mark.slow
@pytest.mark.parametrize("first", ["BTC-USDT-trades-2024-08-08.csv", "renamed.csv"])
@pytest.mark.parametrize("second", ["BTC-USDT-aggtrades-2024-08-08.csv", "BTC-USDT-aggTrades.csv"])
def test_trades_and_aggregated_trades_of_okx_do_not_add_up(tmp_path: Path, first: str, second: str) -> None:
    lake = put(tmp_path, first, OKX, NONE)
    (tmp_path / second).write_text(OKX.replace("BTC-USDT,", "BTC-USDT,9"))
    with pytest.raises(TidytapeError, match="which would count twice"):
        ingest(tmp_path / second, lake, progress=False)


@pytest.mark.parametrize("beginning", [b"PAR1", b"ARROW1"])
def test_a_damaged_file_of_a_frame_is_an_error_of_tidytape(tmp_path: Path, beginning: bytes) -> None:
    (tmp_path / "a").write_bytes(beginning + b" and nothing else")
    with pytest.raises(TidytapeError, match="that can be read"):
        ingest(tmp_path / "a", Lake.create(tmp_path / "lake"), progress=False)


MAPS: dict[str, Any] = {
    "columns": {"price": "px"},
    "words": {"side": {"A": "sell"}},
    "time_unit": {"timestamp": "ms"},
}
LAYOUTS = [
    *(kind(**options) for kind in (Csv, Json, Jsonl, Parquet, Feather) for options in ({}, MAPS)),
    Auto(interval="1h"),
    *(layout for description in DESCRIPTIONS for layout in description.reads),
    *DESCRIPTIONS,
]


def test_layouts_are_values() -> None:
    for layout in LAYOUTS:
        for other in (pickle.loads(pickle.dumps(layout)), copy.deepcopy(layout)):
            assert other == layout
            assert hash(other) == hash(layout)
            assert repr(other) == repr(layout)


@pytest.mark.parametrize(
    "options",
    [
        {"columns": {"price": 3}}, {"columns": ["price"]}, {"words": 3}, {"words": {"side": "A"}},
        {"words": {"side": {1: "buy"}}}, {"words": {"sid": {"A": "buy"}}}, {"time_zone": 3}, {"header": ["a"]},
        {"skip_lines": -1}, {"skip_lines": "x"}, {"at": 3},
    ],
)  # fmt: skip
def test_an_option_of_another_type_is_refused(options: dict[str, Any]) -> None:
    kind: Any = Json if "at" in options else Csv
    with pytest.raises(QueryError, match=next(iter(options))):
        kind(**options)


@pytest.mark.parametrize("header", ["timestamp,price,amount", "timestamp,price,amount,side,-"])
def test_names_of_arrays_are_as_many_as_their_values(tmp_path: Path, header: str) -> None:
    with pytest.raises(QueryError, match="expected 4 names"):
        put(tmp_path, "a.json", f'[[{T},1,1,"buy"]]', X, Json(header=header))
