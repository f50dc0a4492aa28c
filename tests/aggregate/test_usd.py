"""Conversion to USD: literal values on every engine, and what is refused."""

from __future__ import annotations

import duckdb
import polars as pl
import pytest

from tidytape.aggregate import candles, to_usd, volume_profile
from tidytape.catalogue import USD_QUOTES
from tidytape.errors import MissingColumnError, QueryError

RATES = pl.DataFrame(
    {"quote_coin": ["EUR", "EUR", "BTC"], "timestamp": [0, 60 * 10**9, 0], "usd": [1.25, 1.5, 60_000.0]}
)


def both(engine, *frames):
    """Frames of one engine that know each other."""
    if engine.name != "duckdb":
        return [engine.frame(frame) for frame in frames]
    connection = duckdb.connect()
    return [connection.from_arrow(frame.to_arrow()) for frame in frames]


def by_time(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.sort("exchange", "raw_symbol", "timestamp", "sequence")


@pytest.mark.parametrize("quote", sorted(USD_QUOTES))
def test_a_dollar_is_a_dollar(engine, trades, quote):
    got = engine.polars(to_usd(engine.frame(trades), quote=quote))
    assert got.columns == trades.columns
    assert (
        by_time(got)["amount"].to_list()
        == by_time(trades.with_columns(amount=pl.col("price") * pl.col("amount")))["amount"].to_list()
    )
    assert by_time(got).drop("amount").rows() == by_time(trades).drop("amount").rows()


def test_the_recorded_amount_in_the_quote_is_taken_as_it_is(engine, trades):
    frame = trades.with_columns(quote_amount=pl.lit(7.0))
    got = engine.polars(to_usd(engine.frame(frame), quote="USDT"))
    assert set(got["amount"]) == {7.0}


def test_another_quote_is_worth_what_was_last_known(engine, trades):
    native, rates = both(engine, trades, RATES)
    got = by_time(engine.polars(to_usd(native, quote="EUR", rates=rates))).filter(
        exchange="A", raw_symbol="X"
    )
    ratio = got.select(
        got["amount"] / (got["price"] * by_time(trades).filter(exchange="A", raw_symbol="X")["amount"])
    )
    # half a second before the first rate; three within its minute; then the second rate
    assert ratio.to_series().round(9).to_list() == [None, 1.25, 1.25, 1.25, 1.5, 1.5, 1.5]
    assert got.columns == trades.columns


def test_candles_and_profiles_of_converted_trades_are_in_usd(engine, trades):
    native = to_usd(engine.frame(trades), quote="USD")
    one = engine.polars(candles(native, interval="1m")).filter(exchange="A", raw_symbol="X")
    assert one["volume"].to_list() == pytest.approx([0.6, 0.3 + 0.2 + 1.4, 0.2, 0.075 + 0.175])
    assert one["open"].to_list() == [0.2, 0.3, 0.4, 0.6]  # prices stay
    levels = engine.polars(
        volume_profile(to_usd(engine.frame(trades), quote="USD"), interval="1d", block_size=10)
    )
    assert levels.filter(exchange="B")["volume"].to_list() == [13.0 * 16.0]


@pytest.mark.parametrize(
    ("name", "columns"),
    [
        ("VOLUME_PROFILE_AGG", ["buy_volume", "sell_volume", "volume"]),
        ("BLOCK_BOOK_SNAPSHOT_AGG", ["size"]),
        ("VENUEX_LIQUIDATION_AGG", ["liquidations"]),
    ],
)
def test_levels_are_worth_their_price(engine, name, columns):
    levels = pl.DataFrame({"timestamp": [0, 0], "price": [2.0, 4.0], **{n: [1.0, 3.0] for n in columns}})
    native, rates = both(engine, levels, RATES)
    got = engine.polars(to_usd(native, data_type=name, quote="EUR", rates=rates)).sort("price")
    doubled = [2.0 if one == "volume" else 1.0 for one in columns]  # the sum of both sides
    assert [got[n].to_list() for n in columns] == [[2.5 * k, 15.0 * k] for k in doubled]


def test_open_interest_is_worth_the_close_of_its_bucket(engine):
    hour = 3_600 * 10**9
    key = {"exchange": ["A"] * 3, "raw_symbol": ["X", "X", "Y"], "timestamp": [0, 2 * hour, 0]}
    points = pl.DataFrame({**key, "open": [1.0, 2.0, 3.0], "high": 4.0, "low": 0.5, "close": [2.0, 3.0, 4.0]})
    closes = pl.DataFrame({"exchange": "A", "raw_symbol": "X", "timestamp": [0, hour], "close": [10.0, 20.0]})
    native, prices = both(engine, points, closes)
    got = engine.polars(to_usd(native, data_type="OPEN_INTEREST_AGG", quote="USDC", prices=prices))
    assert got.sort("raw_symbol", "timestamp").select("open", "high", "low", "close").rows() == [
        (10.0, 40.0, 5.0, 20.0),
        (40.0, 80.0, 10.0, 60.0),  # no trade in its own hour
        (None, None, None, None),  # never any
    ]


def test_a_quote_without_rates_is_named(engine, trades):
    for quote, said in (("EUR", "got 'EUR'"), (None, "left out")):
        with pytest.raises(QueryError, match=f"quote: {said}, expected a quote that counts") as caught:
            to_usd(engine.frame(trades), quote=quote)
        assert caught.value.code == "UNSUPPORTED"


def test_what_has_no_price_is_refused(trades):
    points = pl.DataFrame(schema=["exchange", "raw_symbol", "timestamp", "open", "high", "low", "close"])
    with pytest.raises(QueryError, match="prices: left out"):
        to_usd(points, data_type="OPEN_INTEREST_AGG", quote="USD")
    for name in ("TRADE_AGG", "LIQUIDATION_AGG", "FUNDING_RATE_AGG", "TPO_AGG"):
        with pytest.raises(QueryError, match="convert the raw events first") as caught:
            to_usd(trades, data_type=name, quote="USD")
        assert caught.value.code == "UNSUPPORTED"
    with pytest.raises(MissingColumnError, match="price"):
        to_usd(trades.drop("price"), quote="USD")


def test_amounts_in_usd_say_so() -> None:
    levels = pl.DataFrame({"timestamp": 0, "price": [10.0], "size": [2.0], "amount_unit": "COIN"})
    converted = to_usd(levels, quote="USDT", data_type="BLOCK_BOOK_SNAPSHOT_AGG")
    assert converted.select("size", "amount_unit").rows() == [(20.0, "USD")]
    plain = to_usd(levels.drop("amount_unit"), quote="USDT", data_type="BLOCK_BOOK_SNAPSHOT_AGG")
    assert plain.columns == ["timestamp", "price", "size"]
