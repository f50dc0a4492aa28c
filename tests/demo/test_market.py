from __future__ import annotations

import time
from decimal import Decimal

import numpy as np
import polars as pl
import pytest

from simulated.fingerprint import fingerprint
from tidytape.demo.exact import Bits, exp
from tidytape.demo.market import START_NS, markets, trades
from tidytape.errors import QueryError

MINUTE_NS = 60_000_000_000
VENUES = ("DEMO_SPOT", "DEMO_PERP")


@pytest.fixture(scope="module")
def tape():
    return trades()


def test_layout_is_that_of_the_lakes_trades(tape):
    assert dict(tape.schema) == {
        "exchange": pl.String,
        "raw_symbol": pl.String,
        "id": pl.String,
        "timestamp": pl.Int64,
        "sequence": pl.Int64,
        "side": pl.String,
        "price": pl.Float64,
        "amount": pl.Float64,
        "quote_amount": pl.Float64,
        "received": pl.Int64,
    }
    assert sum(tape.null_count().row(0)) == 0


def test_same_arguments_give_the_same_market(tape):
    assert tape.equals(trades())


def test_every_machine_gives_the_same_market(tape):
    # Written down once; integers and exactly rounded floats have no excuse to differ.
    assert fingerprint(tape) == "c359b82c9c0bc36e87462194b1c6abc60ee8a7abd28ba5cef5132220fe4cfed4"
    assert (
        fingerprint(trades(seed=1, minutes=90, venues=["DEMO_SPOT"]))
        == "e1495b4a99f3942e04509a2ccbbc1bc79b481bcef5ecdf8e5df779c10d84368a"
    )


def test_another_seed_gives_another_market():
    assert not trades(minutes=10).equals(trades(seed=8, minutes=10))


@pytest.mark.parametrize("venue", VENUES)
def test_a_venue_does_not_depend_on_the_others(venue):
    alone = trades(minutes=30, venues=[venue])
    assert alone.equals(trades(minutes=30).filter(exchange=venue))


def test_there_are_about_two_hundred_thousand(tape):
    assert 180_000 < len(tape) < 220_000
    assert set(tape["exchange"]) == set(VENUES)


def test_two_days_take_less_than_a_second():
    fastest = min(_seconds() for _ in range(3))
    assert fastest < 1


def _seconds():
    began = time.perf_counter()
    trades()
    return time.perf_counter() - began


def test_rows_are_in_order_and_inside_the_market(tape):
    assert tape.equals(tape.sort("timestamp", "exchange", "sequence"))
    assert tape["timestamp"].min() >= START_NS
    assert tape["timestamp"].max() < START_NS + 2 * 24 * 60 * MINUTE_NS
    assert (tape["timestamp"] % 1_000_000 == 0).all()
    assert (tape["received"] > tape["timestamp"]).all()


@pytest.mark.parametrize("venue", VENUES)
def test_sequence_and_ids_count_up(tape, venue):
    rows = tape.filter(exchange=venue)
    assert rows["sequence"].to_list() == list(range(1, len(rows) + 1))
    ids = rows["id"].cast(pl.Int64)
    assert (ids.diff().drop_nulls() == 1).all()
    assert (rows["received"].diff().drop_nulls() >= 0).all()


@pytest.mark.parametrize("market", markets().to_dicts(), ids=VENUES)
def test_prices_are_exactly_on_the_tick_grid(tape, market):
    prices = tape.filter(exchange=market["exchange"])["price"].unique()
    tick = Decimal(str(market["tick_size"]))
    assert all(Decimal(repr(price)) % tick == 0 for price in prices)
    assert Decimal(str(market["block_size"])) % tick == 0


def test_amounts_are_positive_decimals_and_multiply_exactly(tape):
    assert (tape["amount"] > 0).all()
    for row in tape.sample(2000, seed=1).iter_rows(named=True):
        exact = Decimal(repr(row["price"])) * Decimal(repr(row["amount"]))
        assert row["quote_amount"] == float(exact)


def test_both_sides_trade_about_as_much(tape):
    sides = tape.group_by("exchange", "side").agg(pl.len())
    assert sides.height == 4
    shares = sides.with_columns(share=pl.col("len") / pl.col("len").sum().over("exchange"))["share"]
    assert shares.is_between(0.4, 0.6).all()


def test_sizes_have_a_long_tail(tape):
    assert (tape["amount"].mean() or 0) > 1.5 * (tape["amount"].median() or 0)


@pytest.mark.parametrize("seed", range(6))
def test_price_stays_realistic(seed):
    tape = trades(seed=seed)
    low, high = tape["price"].min(), tape["price"].max()
    assert 48_000 < low < high < 72_000
    assert high / low > 1.01


def minutes_of(tape, venue="DEMO_SPOT"):
    return (
        tape.filter(exchange=venue)
        .group_by(minute=pl.col("timestamp") // MINUTE_NS, maintain_order=True)
        .agg(
            trades=pl.len(),
            move=(pl.col("price").last() / pl.col("price").first()).log(),
            lean=pl.when(side="BUY").then(1.0).otherwise(-1.0).mean(),
        )
    )


def test_aggressors_follow_the_price(tape):
    assert minutes_of(tape).select(pl.corr("move", "lean")).item() > 0.25


def test_volatility_comes_in_clusters_and_brings_trades(tape):
    size = pl.col("move").abs()
    found = minutes_of(tape).select(
        again=pl.corr(size, size.shift(1)), busy=pl.corr(size, "trades"), tails=pl.col("move").kurtosis()
    )
    again, busy, tails = found.row(0)
    assert again > 0.15
    assert busy > 0.3
    assert tails > 1


def test_trades_come_in_bursts(tape):
    counts = minutes_of(tape)["trades"]
    assert counts.var() > 3 * counts.mean()  # of a steady stream both are equal


def test_venues_share_a_price_up_to_a_small_basis(tape):
    last = (
        tape.group_by("exchange", minute=pl.col("timestamp") // MINUTE_NS)
        .agg(pl.col("price").last())
        .pivot(on="exchange", index="minute", values="price")
        .drop_nulls()
    )
    basis = last["DEMO_PERP"] / last["DEMO_SPOT"] - 1
    assert 0.0001 < basis.mean() < 0.001
    assert basis.abs().quantile(0.99) < 0.004


def test_markets_are_named_apart_and_normalized_alike():
    frame = markets()
    assert frame.columns == [
        "exchange", "raw_symbol", "normalized_symbol", "coin", "quote_coin", "category", "tick_size", "block_size",
    ]  # fmt: skip
    assert frame["raw_symbol"].to_list() == ["BTCUSDT", "BTC-PERP"]
    assert frame["category"].to_list() == ["SPOT", "PERPETUAL"]
    assert set(frame["normalized_symbol"]) == {"BTC-USDT"}


@pytest.mark.parametrize(
    ("arguments", "parameter"),
    [
        ({"seed": -1}, "seed"),
        ({"seed": True}, "seed"),
        ({"start_ns": 1.5}, "start_ns"),
        ({"minutes": 0}, "minutes"),
        ({"venues": ["DEMO_SPAT"]}, "venues"),
        ({"venues": []}, "venues"),
    ],
)
def test_wrong_arguments_are_refused(arguments, parameter):
    with pytest.raises(QueryError) as caught:
        trades(**arguments)
    assert caught.value.parameter == parameter


def test_unknown_venue_has_a_hint():
    with pytest.raises(QueryError, match="did you mean 'DEMO_SPOT'"):
        trades(venues=["DEMO_SPAT"])


@pytest.mark.parametrize("start_ns", [0, START_NS, START_NS + 12_345_678_901])
def test_a_single_minute_anywhere(start_ns):
    tape = trades(start_ns=start_ns, minutes=1)
    assert len(tape) > 0
    assert tape["timestamp"].is_between(start_ns, start_ns + MINUTE_NS, closed="left").all()


def test_normal_draws_are_nearly_normal():
    draws = Bits(1, 0).normal(200_000)
    assert abs(draws.mean()) < 0.01
    assert abs(draws.std() - 1) < 0.01
    assert abs((np.abs(draws) < 1).mean() - 0.6827) < 0.01


def test_powers_of_e_are_close():
    x = np.linspace(-1, 1, 101)
    np.testing.assert_allclose(exp(x), np.exp(x), rtol=6e-4)
