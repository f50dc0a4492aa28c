"""Figures of the last 24 hours, against pandas and against arithmetic by hand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

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
    made = Lake.create(tmp_path_factory.mktemp("figures") / "lake")
    made.append("trades", tape, source="btc")
    made.append("trades", trades("OLDUSDT", [NEWEST - 5 * DAY], [7.5], [2.0]), source="old")
    made.append("trades", trades("ETHBTC", [NEWEST - HOUR], [0.05], [2.0]), source="eth")
    made.append("trades", trades("ADAXYZ", [NEWEST - HOUR], [3.0], [2.0]), source="ada")
    interest = {"exchange": "X", "raw_symbol": "BTCUSDT", "amount": [50.0, 40.0, 44.0]}
    times = [(NEWEST - ago) * NS for ago in (2 * DAY - HOUR, DAY + HOUR, HOUR)]
    made.append("open_interest", pl.DataFrame(interest | {"timestamp": times}), source="interest")
    symbols = ["BTCUSDT", "OLDUSDT", "ETHBTC", "ADAXYZ", "NEVERUSDT"]
    made.register(
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


def test_what_is_not_known_is_null(markets: Any) -> None:
    found = markets()
    assert [entry(found, "NEVERUSDT")[name] for name in FIGURES] == [None] * 5
    # Five days ago: a last price, and nothing to compare.
    assert [entry(found, "OLDUSDT")[name] for name in FIGURES] == [7.5, None, None, None, None]
    ada = entry(found, "ADAXYZ")
    assert (ada["last_price"], ada["volume_24h"]) == (3.0, None)  # nobody knows what an XYZ is worth


def test_volume_is_in_usd_by_the_worth_of_the_quote(markets: Any, tape: pl.DataFrame) -> None:
    """0.1 BTC at the last close of a minute of BTCUSDT before."""
    before = tape.filter(pl.col("timestamp") < (NEWEST - HOUR) // 60 * 60 * NS)["price"][-1]
    assert entry(markets(), "ETHBTC")["volume_24h"] == pytest.approx(0.1 * before, rel=1e-9)


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


def test_the_true_range_is_of_fourteen_whole_days(lake: Lake, tape: pl.DataFrame) -> None:
    from tidytape.catalogue import MarketSortField
    from tidytape.service.figures import Figures

    frame = pd.DataFrame(tape.select("timestamp", "price").to_dict(as_series=False))
    days = frame.groupby(frame["timestamp"] // (DAY * NS))["price"].agg(["max", "min", "last"])
    today = (NEWEST // 300 + 1) * 300 // DAY
    days = days[days.index < today].tail(15)
    before = days["last"].shift(1)
    ranges = (np.maximum(days["max"], before) - np.minimum(days["min"], before)).iloc[1:]
    assert len(ranges) == 14
    figures = Figures(lake, clock=lambda: 2 * NEWEST * NS)
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
        lake.highest("trades", "price").filter(pl.col("raw_symbol") == "BTCUSDT")["highest"].item() == highest
    )
    other = Lake.create(tmp_path / "lake")
    assert other.highest("trades", "price").schema == lake.highest("trades", "price").schema
    other.append("trades", tape, source="tape")
    # Another tool, that notes nothing of the prices.
    more = tape.head(1).with_columns(id=pl.lit("x"), price=pl.lit(1e6))
    deltalake.write_deltalake(
        f"{other.path}/trades",
        more,
        mode="append",
        configuration={"delta.dataSkippingStatsColumns": "timestamp"},
    )
    assert other.highest("trades", "price")["highest"].item() == 1e6


def test_figures_follow_the_lake_and_do_not_depend_on_rollups(tmp_path: Path, tape: pl.DataFrame) -> None:
    lake = Lake.create(tmp_path / "lake")
    lake.append("trades", tape.head(5990), source="a")
    lake.register(tape.select("exchange", "raw_symbol").head(1).with_columns(quote_coin=pl.lit("USDT")))
    with Client.local(lake.path) as client:
        first = client.markets()
        lake.append("trades", tape.tail(10), source="b")
        second = client.markets()
        rollup(lake, progress=False)
        third = client.markets()
    assert first["last_price"].item() == tape["price"][5989]
    assert second["last_price"].item() == tape["price"][-1]
    assert third.equals(second)


def test_distinct_takes_the_venue_that_trades_most(tmp_path: Path) -> None:
    lake = Lake.create(tmp_path / "lake")
    for venue, amount in (("A", 1.0), ("B", 5.0), ("C", 2.0)):
        rows = trades("BTCUSDT", [NEWEST], [10.0], [amount]).with_columns(exchange=pl.lit(venue))
        lake.append("trades", rows, source=venue)
    lake.register(
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
