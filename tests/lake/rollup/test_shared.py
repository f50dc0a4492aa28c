"""A first rollup reads trades once for three tables, whose minutes are those that each table computes by itself."""

from __future__ import annotations

import shutil
from decimal import Decimal
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from lakes import empty_lake
from tidytape.errors import LakeError
from tidytape.lake import Lake
from tidytape.lake.rollup import _build, rollup
from tidytape.lake.rollup._recipes import RECIPES, Ask, of_trades
from tidytape.times import MINUTE

START = 28_717_920 * MINUTE
OF_TRADES = ("candles_1m", "candles_of_both_1m", "profile_1m")
SIZES = {"A": 2.0, "B": 0.1, "C": None}
"""Block sizes of the markets."""


def trades(symbol: str, seed: int, count: int = 3000) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    price = np.round(100 + np.cumsum(rng.normal(0, 0.05, count)), 2)
    amount = np.round(rng.exponential(0.5, count) + 1e-8, 8)
    return pl.DataFrame(
        {
            "id": np.arange(count).astype(str),
            "timestamp": START + np.sort(rng.integers(0, 20, count)) * 20_000_000_000,  # many of one time
            "sequence": rng.permutation(count),
            "side": rng.choice(["BUY", "SELL", None], count, p=[0.5, 0.45, 0.05]),
            "price": price,
            "amount": amount,
            "quote_amount": np.where(rng.random(count) < 0.3, np.round(price * amount, 4), price * amount),
        }
    ).with_columns(exchange=pl.lit("X"), raw_symbol=pl.lit(symbol))


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = empty_lake(tmp_path / "lake")
    for seed, (symbol, size) in enumerate(SIZES.items()):
        lake.writer().append("trades", trades(symbol, seed), source=symbol)
        market = {"exchange": ["X"], "raw_symbol": [symbol], "block_size": [size]}
        lake.writer().register(pl.DataFrame(market, schema_overrides={"block_size": pl.Float64}))
    return lake


def stored(lake: Lake) -> dict[str, pl.DataFrame]:
    tables = {name: RECIPES[name].table for name in OF_TRADES}
    return {
        name: pl.scan_delta(f"{lake.path}/{name}").collect().sort(table.key) for name, table in tables.items()
    }


@pytest.mark.slow
def test_minutes_of_one_reading_are_those_of_each_table(lake):
    end = START + 30 * MINUTE
    asks = [Ask("X", name, START, end, Decimal(repr(size)) if size else None) for name, size in SIZES.items()]
    minutes = of_trades(lake, asks)
    for name in OF_TRADES:
        recipe = RECIPES[name]
        own_asks = [ask for ask in asks if ask.block_size or not recipe.has_levels]
        expected = recipe.minutes(lake, *own_asks).collect().sort(recipe.table.key)
        got = minutes[name].select(expected.columns).sort(recipe.table.key)
        assert expected.height > 20
        assert_frame_equal(got, expected, check_exact=True)


@pytest.mark.slow
def test_a_rollup_that_shares_stores_what_one_that_does_not_stores(lake, tmp_path, monkeypatch):
    alone = Lake(shutil.copytree(lake.path, tmp_path / "alone"))
    rollup(alone, progress=False)
    computed: list[str] = []
    original = _build._Maker._computed
    monkeypatch.setattr(_build, "_WORTH_SHARING", 0)
    monkeypatch.setattr(
        _build._Maker,
        "_computed",
        lambda self, steps: computed.append(self.table.name) or original(self, steps),
    )
    rollup(lake, progress=False)
    assert not set(computed) & set(OF_TRADES)
    for name, rows in stored(alone).items():
        assert_frame_equal(stored(lake)[name], rows, check_exact=True)
    # Trades that come later: only their minutes are computed, once more together.
    for each in (lake, alone):
        later = trades("A", 9).with_columns(pl.col("id") + "b", pl.col("timestamp") + 60 * MINUTE)
        each.writer().append("trades", later, source="later")
        rollup(each, progress=False)
    for name, rows in stored(alone).items():
        assert_frame_equal(stored(lake)[name], rows, check_exact=True)


@pytest.mark.slow
def test_minutes_of_another_edition_of_the_trades_are_not_stored(lake, monkeypatch):
    """Trades that another process adds after the minutes were computed must not be missing for ever."""
    monkeypatch.setattr(_build, "_WORTH_SHARING", 0)
    original = _build._Maker._make_ready

    def then_append(self, steps):
        original(self, steps)
        late = trades("A", 5, 50).with_columns(pl.col("id") + "late")
        lake.writer().append("trades", late, source="late")

    monkeypatch.setattr(_build._Maker, "_make_ready", then_append)
    rollup(lake, progress=False)
    rollup(lake, progress=False)
    for name in OF_TRADES:
        recipe = RECIPES[name]
        asks = [
            Ask("X", symbol, START, START + 6 * MINUTE, Decimal(repr(size)) if size else None)
            for symbol, size in SIZES.items()
            if size or not recipe.has_levels
        ]
        expected = recipe.minutes(lake, *asks).collect().sort(recipe.table.key)
        got = stored(lake)[name].filter(pl.col("timestamp") < START + 6 * MINUTE).select(expected.columns)
        assert_frame_equal(got, expected, check_exact=True)


def test_a_table_that_cannot_be_computed_stops_no_other(lake, monkeypatch):
    monkeypatch.setattr(_build, "_WORTH_SHARING", 0)

    def fails(*_: object) -> None:
        raise LakeError("cannot")

    monkeypatch.setattr(_build, "of_trades", fails)
    assert all(done.rows for done in rollup(lake, progress=False) if done.table in OF_TRADES)
