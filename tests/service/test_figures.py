"""Figures of the last 24 hours, against pandas and against arithmetic by hand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from lakes import as_stored, empty_lake
from tidytape import Client
from tidytape.lake import TABLES, Lake
from tidytape.lake.rollup import rollup

NS = 10**9
DAY, HOUR = 86_400, 3_600
NEWEST = 1_723_200_000 + 17 * HOUR + 123  # seconds; the newest trade of the lake
FIGURES = ["last_price", "volume_24h", "volume_change_24h", "price_change_24h", "oi_change_24h"]


def trades(symbol: str, times: Any, prices: Any, amounts: Any) -> pl.DataFrame:
    frame = pl.DataFrame({"timestamp": np.asarray(times) * NS, "price": prices, "amount": amounts})
    return TABLES["trades"].conform(
        frame.with_columns(
            exchange=pl.lit("X"),
            raw_symbol=pl.lit(symbol),
            id=pl.int_range(pl.len()).cast(pl.String),
            sequence=pl.int_range(pl.len()),
            side=pl.lit("BUY"),
            quote_amount=pl.col("price") * pl.col("amount"),
        ).with_columns(pl.col("price", "amount").cast(pl.Float64))
    )


@pytest.fixture(scope="module")
def tape() -> pl.DataFrame:
    """Twenty days of a market."""
    rng = np.random.default_rng(3)
    times = np.sort(rng.integers(NEWEST - 20 * DAY, NEWEST, 6000))
    times[-1] = NEWEST
    return trades(
        "BTCUSDT", times, 100 + np.cumsum(rng.integers(-1, 2, 6000)) * 0.25, rng.integers(1, 9, 6000)
    )


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory, tape: pl.DataFrame) -> Lake:
    made = empty_lake(tmp_path_factory.mktemp("figures") / "lake")
    made.writer().append("trades", tape, source="btc")
    made.writer().append("trades", trades("OLDUSDT", [NEWEST - 5 * DAY], [7.5], [2.0]), source="old")
    made.writer().append("trades", trades("ETHBTC", [NEWEST - HOUR], [0.05], [2.0]), source="eth")
    made.writer().append("trades", trades("ADAXYZ", [NEWEST - HOUR], [3.0], [2.0]), source="ada")
    interest = {"exchange": "X", "raw_symbol": "BTCUSDT", "amount": [50.0, 40.0, 44.0]}
    times = [(NEWEST - ago) * NS for ago in (2 * DAY - HOUR, DAY + HOUR, HOUR)]
    made.writer().append("open_interest", pl.DataFrame(interest | {"timestamp": times}), source="interest")
    symbols = ["BTCUSDT", "OLDUSDT", "ETHBTC", "ADAXYZ", "NEVERUSDT"]
    made.writer().register(
        pl.DataFrame(
            {
                "exchange": "X",
                "raw_symbol": symbols,
                "normalized_symbol": ["BTC-USDT", "OLD-USDT", "ETH-BTC", "ADA-XYZ", "NEVER-USDT"],
                "coin": ["BTC", "OLD", "ETH", "ADA", "NEVER"],
                "quote_coin": ["USDT", "USDT", "BTC", "XYZ", "USDT"],
                "category": "SPOT",
                "marketcap": [3.0, 1.0, 2.0, None, 4.0],
            }
        )
    )
    return made


@pytest.fixture
def markets(lake: Lake) -> Callable[..., pl.DataFrame]:
    def asked(**options: Any) -> pl.DataFrame:
        with Client.local(lake.path) as client:
            return client.markets(**options)

    return asked


def entry(found: pl.DataFrame, symbol: str) -> dict[str, Any]:
    return found.filter(pl.col("raw_symbol") == symbol).row(0, named=True)


@pytest.mark.slow
def test_figures_equal_pandas(markets: Any, tape: pl.DataFrame) -> None:
    frame = pd.DataFrame(tape.select("timestamp", "price", "quote_amount").to_dict(as_series=False))
    end = (NEWEST // 300 + 1) * 300
    frame = frame[frame["timestamp"] >= (end - 2 * DAY) * NS]
    new = frame[frame["timestamp"] >= (end - DAY) * NS]
    old = frame[frame["timestamp"] < (end - DAY) * NS]
    got = entry(markets(), "BTCUSDT")
    assert got["last_price"] == new["price"].iloc[-1]
    assert got["volume_24h"] == pytest.approx(new["quote_amount"].sum(), rel=1e-12)
    change = 100 * (new["quote_amount"].sum() / old["quote_amount"].sum() - 1)
    assert got["volume_change_24h"] == pytest.approx(change, rel=1e-9)
    assert got["price_change_24h"] == pytest.approx(
        100 * (new["price"].iloc[-1] / old["price"].iloc[-1] - 1), rel=1e-9
    )
    assert got["oi_change_24h"] == pytest.approx(10.0)  # 44 after 40


@pytest.mark.slow
def test_what_is_not_known_is_null(markets: Any) -> None:
    found = markets()
    assert [entry(found, "NEVERUSDT")[name] for name in FIGURES] == [None] * 5
    # Five days ago: a last price, and nothing to compare.
    assert [entry(found, "OLDUSDT")[name] for name in FIGURES] == [7.5, None, None, None, None]
    ada = entry(found, "ADAXYZ")
    assert (ada["last_price"], ada["volume_24h"]) == (3.0, None)  # nobody knows what an XYZ is worth


@pytest.mark.slow
def test_volume_is_in_usd_by_the_worth_of_the_quote(markets: Any, tape: pl.DataFrame) -> None:
    """0.1 BTC at the last close of a minute of BTCUSDT before."""
    before = tape.filter(pl.col("timestamp") < (NEWEST - HOUR) // 60 * 60 * NS)["price"][-1]
    assert entry(markets(), "ETHBTC")["volume_24h"] == pytest.approx(0.1 * before, rel=1e-9)


@pytest.mark.long
def test_sorted_by_every_field_in_both_directions(markets: Any) -> None:
    def symbols(field: str, direction: str) -> list[str]:
        return markets(sort_field=field, sort_direction=direction)["raw_symbol"].to_list()

    assert symbols("volume_24h", "desc")[:2] == ["BTCUSDT", "ETHBTC"]
    assert symbols("volume_24h", "asc")[:2] == ["ETHBTC", "BTCUSDT"]
    assert symbols("marketcap", "desc") == ["NEVERUSDT", "BTCUSDT", "ETHBTC", "OLDUSDT", "ADAXYZ"]
    assert symbols("marketcap", "asc")[-1] == "ADAXYZ"  # not known is last either way
    # Of one trade the last price is the highest of all; of BTCUSDT it is not.
    assert symbols("pct_from_ath", "asc")[0] == "BTCUSDT"
    assert symbols("pct_from_ath", "desc")[-2:] == ["BTCUSDT", "NEVERUSDT"]
    for field in ("price_change_24h", "oi_change_24h", "atr_percent"):
        assert symbols(field, "desc")[0] == symbols(field, "asc")[0] == "BTCUSDT"  # nobody else has any


@pytest.mark.slow
def test_the_true_range_is_of_fourteen_whole_days(lake: Lake, tape: pl.DataFrame) -> None:
    from tidytape.catalogue import MarketSortField
    from tidytape.service.answer._markets import MarketStatistics

    frame = pd.DataFrame(tape.select("timestamp", "price").to_dict(as_series=False))
    days = frame.groupby(frame["timestamp"] // (DAY * NS))["price"].agg(["max", "min", "last"])
    today = (NEWEST // 300 + 1) * 300 // DAY
    days = days[days.index < today].tail(15)
    before = days["last"].shift(1)
    ranges = (np.maximum(days["max"], before) - np.minimum(days["min"], before)).iloc[1:]
    assert len(ranges) == 14
    figures = MarketStatistics(lake, clock=lambda: 2 * NEWEST * NS)
    got = figures.of(lake.markets(), sort_field=MarketSortField.ATR_PERCENT)
    assert entry(got, "BTCUSDT")["atr_percent"] == pytest.approx(
        100 * ranges.mean() / frame["price"].iloc[-1], rel=1e-9
    )
    assert entry(got, "OLDUSDT")["atr_percent"] is None
    highest = figures.of(lake.markets(), sort_field=MarketSortField.PCT_FROM_ATH)
    expected = 100 * (frame["price"].iloc[-1] / frame["price"].max() - 1)
    assert entry(highest, "BTCUSDT")["pct_from_ath"] == pytest.approx(expected, rel=1e-9)


def test_the_highest_price_is_told_by_the_log_or_read(lake: Lake, tape: pl.DataFrame, tmp_path: Path) -> None:
    import deltalake

    highest = tape["price"].max()
    assert (
        lake._highest("trades", "price").filter(pl.col("raw_symbol") == "BTCUSDT")["highest"].item()
        == highest
    )
    other = empty_lake(tmp_path / "lake")
    assert other._highest("trades", "price").schema == lake._highest("trades", "price").schema
    other.writer().append("trades", tape, source="tape")
    # Another tool, that notes nothing of the prices.
    more = tape.head(1).with_columns(id=pl.lit("x"), price=pl.lit(1e6))
    deltalake.write_deltalake(
        f"{other.path}/trades",
        as_stored(more),
        mode="append",
        configuration={"delta.dataSkippingStatsColumns": "timestamp"},
    )
    assert other._highest("trades", "price")["highest"].item() == 1e6


@pytest.mark.slow
def test_figures_follow_the_lake_and_do_not_depend_on_rollups(tmp_path: Path, tape: pl.DataFrame) -> None:
    lake = empty_lake(tmp_path / "lake")
    lake.writer().append("trades", tape.head(5990), source="a")
    lake.writer().register(
        tape.select("exchange", "raw_symbol").head(1).with_columns(quote_coin=pl.lit("USDT"))
    )
    with Client.local(lake.path) as client:
        first = client.markets()
        lake.writer().append("trades", tape.tail(10), source="b")
        second = client.markets()
        rollup(lake, progress=False)
        third = client.markets()
    assert first["last_price"].item() == tape["price"][5989]
    assert second["last_price"].item() == tape["price"][-1]
    assert third.equals(second)


@pytest.mark.slow
def test_distinct_takes_the_venue_that_trades_most(tmp_path: Path) -> None:
    lake = empty_lake(tmp_path / "lake")
    for venue, amount in (("A", 1.0), ("B", 5.0), ("C", 2.0)):
        rows = trades("BTCUSDT", [NEWEST], [10.0], [amount]).with_columns(exchange=pl.lit(venue))
        lake.writer().append("trades", rows, source=venue)
    lake.writer().register(
        pl.DataFrame(
            {
                "exchange": ["A", "B", "C"],
                "raw_symbol": "BTCUSDT",
                "normalized_symbol": "BTC-USDT",
                "quote_coin": "USDT",
            }
        )
    )
    with Client.local(lake.path) as client:
        assert client.markets(distinct=True)["exchange"].to_list() == ["B"]


@pytest.mark.slow
def test_option_summaries_are_markets_with_a_tenor(tmp_path: Path) -> None:
    from simulated.everything import everything

    lake = everything(tmp_path / "lake")
    with Client.local(lake.path) as client:
        found = client.markets(exchange="DERIBIT")
        typed = client.markets(type="SKEW_OPTION_SUMMARY_AGG")
    names = ["raw_symbol", "normalized_symbol", "coin", "category", "tenor"]
    assert found.select(pl.col(names).cast(pl.String)).rows() == [
        (symbol, "BTC", "BTC", "OPTION", "ONE_W") for symbol in ("BTC_10", "BTC_25", "BTC_ATM")
    ]
    assert typed["raw_symbol"].to_list() == ["BTC_10", "BTC_25"]


def many(path: Path, count: int) -> Lake:
    """Markets of two exchanges and three quotes: some rolled up, some with later trades, some of candles alone."""
    made = empty_lake(path)
    rng = np.random.default_rng(5)
    names = []
    for number in range(count):
        exchange, quote = "AB"[number % 2], ("USDT", "BTC", "XYZ")[number % 3]
        symbol = f"S{number}{quote}"
        names.append({"exchange": exchange, "raw_symbol": symbol, "quote_coin": quote, "coin": f"S{number}"})
        ago = rng.integers(0, 3 * DAY if number % 5 else 9 * DAY, 40)
        rows = trades(symbol, np.sort(NEWEST - ago), rng.integers(1, 50, 40), rng.integers(1, 9, 40))
        rows = rows.with_columns(exchange=pl.lit(exchange))
        if number % 4 == 3:
            candles = rows.select(
                "exchange", "raw_symbol", pl.col("timestamp") // (300 * NS) * (300 * NS), open="price", high="price",
                low="price", close="price", volume="amount", quote_volume="quote_amount", interval=300 * NS,
            )  # fmt: skip
            made.writer().append(
                "candles", candles.unique("timestamp", keep="first"), source=f"candles {number}"
            )
        else:
            made.writer().append("trades", rows.head(25 if number % 2 else 40), source=f"trades {number}")
    btc = trades("BTCUSDT", range(NEWEST - 10 * DAY, NEWEST, 3600), [100.0] * 240, [1.0] * 240)
    made.writer().append("trades", btc.with_columns(exchange=pl.lit("A")), source="btc")
    names.append({"exchange": "A", "raw_symbol": "BTCUSDT", "quote_coin": "USDT", "coin": "BTC"})
    made.writer().register(pl.DataFrame(names))
    rollup(made, progress=False)
    later = trades("S0USDT", [NEWEST - 60], [77.0], [1.0]).with_columns(
        exchange=pl.lit("A"), id=pl.lit("later")
    )
    made.writer().append("trades", later, source="later")
    return made


@pytest.mark.long
def test_figures_of_many_markets_are_those_of_each(tmp_path: Path) -> None:
    from tidytape.service.answer._markets import MarketStatistics

    lake = many(tmp_path / "lake", 24)
    markets = lake.markets()
    at_once = MarketStatistics(lake, clock=lambda: 2 * NEWEST * NS).of(markets)
    alone = MarketStatistics(lake, clock=lambda: 2 * NEWEST * NS)
    assert at_once.equals(pl.concat(alone.of(one) for one in markets.iter_slices(1)))
    assert entry(at_once, "S0USDT")["last_price"] == 77.0
    assert at_once["last_price"].null_count() < 6
    unpriced = at_once.filter(quote_coin="XYZ")["volume_24h"]  # nobody knows what an XYZ is worth
    assert unpriced.null_count() == len(unpriced) == 8


@pytest.mark.long
def test_looks_into_the_lake_do_not_grow_with_the_markets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tidytape.lake import _delta
    from tidytape.service.answer._markets import MarketStatistics

    looks: list[str] = []
    scanned = _delta.scanned
    monkeypatch.setattr(_delta, "scanned", lambda *given, **more: looks.append("") or scanned(*given, **more))
    counts = []
    for count in (12, 48):
        lake = many(tmp_path / str(count), count)
        looks.clear()
        MarketStatistics(lake, clock=lambda: 2 * NEWEST * NS).of(lake.markets())
        counts.append(len(looks))
    few, more = counts
    assert more < 2 * few  # a day on which markets traded last is one look


@pytest.mark.slow
def test_marketcap_is_the_last_known_one_of_the_coin(tmp_path: Path) -> None:
    lake = empty_lake(tmp_path / "lake")
    coins = {"AUSDT": "A", "BUSDT": "B", "CUSDT": "C", "DUSDT": "D", "EUSDT": None, "BBTC": "B"}
    lake.writer().register(
        pl.DataFrame(
            {"exchange": "X", "raw_symbol": list(coins), "coin": list(coins.values()), "quote_coin": "USDT"}
        )
    )
    reports = [
        ("a", "A", 1, 50.0),
        ("a", "A", 3, 70.0),
        ("a", None, 4, None),  # a report without one does not make it unknown
        ("b", "B", 1, 900.0),
        ("b", "B", 2, 800.0),
        ("wrapped-b", "B", 3, 3.0),
        ("c", "C", 1, float("nan")),
    ]
    columns = ["token_name", "coin", "timestamp", "marketcap"]
    lake.writer().append("token_supply", pl.DataFrame(reports, schema=columns, orient="row"), source="supply")
    with Client.local(lake.path) as client:
        found = client.markets()
        orders = {
            direction: client.markets(sort_field="marketcap", sort_direction=direction)[
                "raw_symbol"
            ].to_list()
            for direction in ("asc", "desc")
        }
    assert dict(found.select(pl.col("raw_symbol").cast(pl.String), "marketcap").iter_rows()) == {
        "AUSDT": 70.0, "BUSDT": 800.0, "BBTC": 800.0, "CUSDT": None, "DUSDT": None, "EUSDT": None,
    }  # fmt: skip
    unknown = ["CUSDT", "DUSDT", "EUSDT"]
    assert orders["asc"] == ["AUSDT", "BBTC", "BUSDT", *unknown]
    assert orders["desc"] == ["BBTC", "BUSDT", "AUSDT", *unknown]


@pytest.mark.slow
def test_candles_of_another_market_do_not_end_the_24_hours_of_those_with_trades(
    tmp_path: Path, tape: pl.DataFrame
) -> None:
    made = empty_lake(tmp_path / "lake")
    made.writer().append("trades", tape, source="btc")

    def figures(symbol: str) -> dict[str, Any]:
        with Client.local(made.path) as client:
            row = entry(client.markets(), symbol)
        return {name: row[name] for name in FIGURES}

    names = {"raw_symbol": ["BTCUSDT", "HOURUSDT", "FOURUSDT"], "quote_coin": "USDT"}
    made.writer().register(pl.DataFrame({"exchange": "X", **names}))
    before = figures("BTCUSDT")
    hours = [(NEWEST // HOUR + 24 * 400 + hour) * HOUR * NS for hour in range(48)]
    prices = {"open": 1.0, "high": 3.0, "low": 1.0, "volume": 10.0, "quote_volume": 20.0, "exchange": "X"}
    for symbol, length in (("HOURUSDT", 1), ("FOURUSDT", 4)):
        own = {"raw_symbol": symbol, "timestamp": hours[::length], "interval": length * HOUR * NS}
        closes = [2.0] * (47 // length) + [3.0]
        made.writer().append("candles", pl.DataFrame({**own, "close": closes, **prices}), source=symbol)
    assert before["volume_24h"] is not None
    assert figures("BTCUSDT") == before
    assert figures("HOURUSDT") == {
        "last_price": 3.0,
        "volume_24h": 480.0,
        "volume_change_24h": 0.0,
        "price_change_24h": 50.0,
        "oi_change_24h": None,
    }
    assert figures("FOURUSDT") == {**dict.fromkeys(FIGURES), "last_price": 3.0}
