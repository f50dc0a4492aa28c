"""Prediction markets on ``/v1/markets``, from the recorded file to the client's frame."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from ingested import ingest
from lakes import empty_lake
from tidytape import Client
from tidytape.lake import Lake
from tidytape.lake._predictions import outcome_markets
from tidytape.lake.ingest._prediction import ingest_prediction_markets
from tidytape.schema import PREDICTION_MARKET_ENTRY
from tidytape.wire import decode_markets
from tidytape.wire._lists import encode_markets

EVERY_FIELD = {
    "slug": "rain-in-may", "question": "Rain in May?", "group_item_title": "May", "outcomes": ["Yes", "No"],
    "last_price": 0.25, "one_day_price_change": -0.05, "prices": [0.3, 0.25], "total_volume": 1e6,
    "buy_volume_24h": 10.0, "sell_volume_24h": 20.0, "volume_change_24h": -5.5, "open_interest": 1234.5,
    "one_day_oi_change": 1.5, "unique_traders": 77.0, "order_price_min_tick_size": 0.01, "condition_id": "0x1",
    "closed": True, "available_since": 1_700_000_000_000_000_001, "available_to": 1_800_000_000 * 10**9,
    "sports_market_type": "totals", "line": 2.5, "outcome": "Yes",
}  # fmt: skip
OF_THE_SECOND = {"outcome": "No", "last_price": 0.75, "one_day_price_change": 0.05, "prices": [0.7, 0.75]}
"""What the report gives of the first outcome, as it is of the second: one of the two will happen."""


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    made = empty_lake(tmp_path / "lake")
    made.writer().register(
        pl.DataFrame(
            {
                "exchange": ["ALPHA", "P", "P", "P"],
                "raw_symbol": ["11", "11", "22", "33"],
                "normalized_symbol": ["X-USD", "rain:Yes-USDC", "rain:No-USDC", None],
            }
        )
    )
    report = {name: fact for name, fact in EVERY_FIELD.items() if name != "outcome"}
    report |= {"exchange": "P", "reported": 1, "raw_symbols": ["11", "22"], "event_slug": "rain"}
    made.writer().register_prediction_markets(pl.DataFrame([report]))
    return made


@pytest.fixture
def client(lake: Lake) -> Iterator[Client[pl.DataFrame]]:
    with Client.local(lake.path) as local:
        yield local


@pytest.mark.slow
def test_every_field_comes_back_with_each_of_its_outcomes(client: Any) -> None:
    assert set(EVERY_FIELD) == set(PREDICTION_MARKET_ENTRY.names)
    got = client.markets()
    of = {(row["exchange"], row["raw_symbol"]): row["prediction_markets"] for row in got.to_dicts()}
    assert of["ALPHA", "11"] is None
    assert of["P", "33"] is None
    entries = (
        got.filter(pl.col("exchange") == "P")
        .explode("prediction_markets")
        .unnest("prediction_markets", separator=".")
    )
    for symbol, own in (("11", {}), ("22", OF_THE_SECOND)):
        row = entries.filter(raw_symbol=symbol)
        assert row.height == 1
        for name, value in (EVERY_FIELD | own).items():
            column = row[f"prediction_markets.{name}"]
            assert (column.dt.epoch("ns") if column.dtype.is_temporal() else column).to_list() == [value], (
                name
            )


@pytest.mark.slow
def test_other_venues_have_no_such_field(client: Any) -> None:
    assert "prediction_markets" not in client.markets(exchange="ALPHA").columns
    assert "prediction_markets" not in client.markets(exchange="P", symbol_filter="33").columns


@pytest.mark.slow
def test_pages_with_and_without_them_make_one_list(lake: Lake) -> None:
    with Client.local(lake.path) as client:
        listed = client.markets(page_size=1)
    assert listed["raw_symbol"].to_list() == ["11", "11", "22", "33"]
    assert listed["prediction_markets"].is_null().to_list() == [True, False, False, True]


@pytest.mark.slow
def test_pandas_has_them_too(lake: Lake) -> None:
    with Client.local(lake.path, backend="pandas") as client:
        listed = client.markets(exchange="P")
    assert listed["prediction_markets"][0][0]["slug"] == "rain-in-may"


@pytest.mark.slow
def test_distinct_tells_markets_without_a_symbol_apart(client: Any, lake: Lake) -> None:
    lake.writer().register(pl.DataFrame({"exchange": ["P"], "raw_symbol": ["44"]}))
    assert client.markets(exchange="P", distinct=True)["raw_symbol"].to_list() == ["11", "22", "33", "44"]


@pytest.mark.slow
def test_a_lake_without_the_table_lists_its_markets(lake: Lake) -> None:
    folder = Path(lake.path, "prediction_markets")
    for file in sorted(folder.rglob("*"), reverse=True):
        file.unlink() if file.is_file() else file.rmdir()
    folder.rmdir()
    with Client.local(lake.path) as client:
        assert client.markets().height == 4


@pytest.mark.slow
def test_the_recorded_market_comes_back_field_by_field(recorded: Path, tmp_path: Path) -> None:
    path = recorded / "nautilus_polymarket_gamma_market.json"
    gamma = json.loads(path.read_bytes())
    lake = empty_lake(tmp_path / "recorded")
    ingest_prediction_markets(path, lake, exchange="POLYMARKET")
    with Client.local(lake.path) as client:
        listed = client.markets(exchange="POLYMARKET", symbol_filter="bitcoin up or down")
    assert listed["raw_symbol"].to_list() == sorted(json.loads(gamma["clobTokenIds"]))
    # Its best bid of 0.5 and best ask of 0.51, and its price of 0.505, are those of Up.
    assert (gamma["lastTradePrice"], json.loads(gamma["outcomes"])) == (0.51, ["Up", "Down"])
    symbols = json.loads(gamma["clobTokenIds"])
    last_prices = dict(zip(symbols, (0.51, 0.49), strict=True))
    outcomes = dict(zip(symbols, ("Up", "Down"), strict=True))
    for symbol, (entry,) in listed.select("raw_symbol", "prediction_markets").iter_rows():
        assert {name: value for name, value in entry.items() if value is not None} == {
            "slug": gamma["slug"],
            "question": gamma["question"],
            "outcomes": json.loads(gamma["outcomes"]),
            "last_price": last_prices[symbol],
            "total_volume": float(gamma["volume"]),
            "order_price_min_tick_size": gamma["orderPriceMinTickSize"],
            "condition_id": gamma["conditionId"],
            "closed": gamma["closed"],
            "available_since": datetime(2026, 3, 11, 9, 29, 1, 328428, tzinfo=UTC),
            "available_to": datetime(2026, 3, 12, 9, 25, tzinfo=UTC),
            "outcome": outcomes[symbol],
        }
    body = encode_markets(listed, None)
    assert encode_markets(decode_markets(body)[0], None) == body


@pytest.mark.slow
def test_each_outcome_has_its_own_price(tmp_path: Path) -> None:
    prices = {"two": ["Yes", "No"], "three": ["Home", "Draw", "Away"], "one": ["Yes"]}
    lake = empty_lake(tmp_path / "lake")
    reports = [
        {"exchange": "P", "condition_id": slug, "reported": 1, "slug": slug, "outcomes": outcomes,
         "raw_symbols": [f"{slug}-{outcome}" for outcome in outcomes],
         "last_price": 0.9, "one_day_price_change": None, "prices": [0.2, 0.9]}
        for slug, outcomes in prices.items()
    ]  # fmt: skip
    lake.writer().register_prediction_markets(pl.DataFrame(reports))
    lake.writer().register(
        outcome_markets(lake.prediction_markets(), quote_coin="USDC", quote_coin_name="USD Coin")
    )
    with Client.local(lake.path) as client:
        rows = client.prediction_markets().select(
            "raw_symbol", "last_price", "one_day_price_change", "prices"
        )
    assert {symbol: figures for symbol, *figures in rows.iter_rows()} == {
        "two-Yes": [0.9, None, [0.2, 0.9]],
        "two-No": [0.1, None, [0.8, 0.1]],
        "one-Yes": [0.9, None, [0.2, 0.9]],
        "three-Home": [0.9, None, [0.2, 0.9]],
        "three-Draw": [None, None, None],
        "three-Away": [None, None, None],
    }


@pytest.mark.slow
def test_an_outcome_is_a_market_like_any_other(tmp_path: Path) -> None:
    lake = empty_lake(tmp_path / "traded")
    market = {"conditionId": "0x1", "slug": "rain", "updatedAt": "2026-03-11T15:14:46Z",
              "outcomes": '["Yes", "No"]', "clobTokenIds": '["11", "22"]'}  # fmt: skip
    (tmp_path / "rain.json").write_text(json.dumps(market))
    ingest_prediction_markets(tmp_path / "rain.json", lake, exchange="P")
    # Registered before, so nothing has to be guessed from the token's number.
    (tmp_path / "trades.csv").write_text("timestamp,price,amount,side\n1773307201,0.25,100,buy\n")
    ingest(tmp_path / "trades.csv", lake, layout="csv", exchange="P", raw_symbol="11")
    span = {"interval": "1m", "start": 1_773_307_200, "end": 1_773_307_260}
    with Client.local(lake.path) as client:
        for name in ({"raw_symbol": "11"}, {"coin": "rain:Yes"}, {"normalized_symbol": "rain:Yes-USDC"}):
            candles = client.candles(exchange="P", **name, **span)
            assert candles.select("raw_symbol", "close", "volume").rows() == [("11", 0.25, 100.0)]
        rows = client.volume_profile(exchange="P", coin="rain:Yes", **span)
        assert rows.select("price", "buy_volume").rows() == [(0.25, 100.0)]
