"""One market profile of several markets: blocks united, volumes summed."""

from __future__ import annotations

from collections import defaultdict
from decimal import Decimal

import numpy as np
import polars as pl
import pytest

from tidytape import aggregate

MINUTE = 60 * 10**9


def _trades(seed: int) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    n = 300
    symbol = rng.choice(["A", "B", "C"], n)
    apart = np.select(
        [symbol == "A", symbol == "B"], [0.0, 1.5], 6.0
    )  # so that nobody trades between two of them
    price = 100 + apart + rng.integers(-4, 5, n) / 4
    amount = rng.integers(1, 50, n) / 8
    return pl.DataFrame(
        {
            "exchange": np.where(symbol == "A", "X", "Y"),
            "raw_symbol": symbol,
            "timestamp": np.sort(rng.integers(0, 3 * 1_440 * MINUTE, n)),
            "sequence": np.arange(n),
            "side": rng.choice(["BUY", "SELL"], n),
            "price": price,
            "amount": amount,
            "quote_amount": price * amount,
        }
    )


def _by_hand(trades: pl.DataFrame, size: Decimal) -> dict[tuple[int, float], tuple[list[int], float, float]]:
    """Blocks, bought and sold volume of each (day, row), by walking through the trades."""
    ranges: dict[tuple[int, int, str], list[int]] = defaultdict(list)
    volumes: dict[tuple[int, int], dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for time, symbol, side, price, amount in trades.select(
        "timestamp", "raw_symbol", "side", "price", "amount"
    ).iter_rows():
        day, row = time // (1_440 * MINUTE), int(Decimal(str(price)) // size)
        ranges[day, time % (1_440 * MINUTE) // (30 * MINUTE), symbol].append(row)
        volumes[day, row][side] += amount
    blocks: dict[tuple[int, int], set[int]] = defaultdict(set)
    for (day, block, _), rows in ranges.items():
        for row in range(min(rows), max(rows) + 1):
            blocks[day, row].add(block)
    return {
        (day * 1_440 * MINUTE, float(row * size)): (
            sorted(touched),
            volumes[day, row]["BUY"],
            volumes[day, row]["SELL"],
        )
        for (day, row), touched in blocks.items()
    }


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_a_row_is_touched_if_it_was_on_any_member(seed: int) -> None:
    trades, size = _trades(seed), Decimal("0.5")
    made = aggregate.minute_candles(trades), aggregate.minute_profile(trades, block_size=size)
    cut = {"interval": "1d", "block_size": size, "united": True}
    levels = aggregate.tpo_of(*made, **cut)
    touches = aggregate.tpo_touches_of(*made, **cut)
    blocks = touches.group_by("timestamp", "price").agg(pl.col("block_id").sort())
    found = {
        (time, price): (ids, buy, sell)
        for time, price, ids, buy, sell, count in levels.join(blocks, on=["timestamp", "price"])
        .select("timestamp", "price", "block_id", "buy_volume", "sell_volume", "tpo_count")
        .iter_rows()
        if count == len(ids)
    }
    assert found == _by_hand(trades, size)
    assert levels["exchange"].unique().to_list() == [""]
    first = trades.sort("timestamp", "sequence").group_by(
        pl.col("timestamp") // (1_440 * MINUTE) * (1_440 * MINUTE), maintain_order=True
    )
    opening = dict(first.agg(pl.col("price").first()).iter_rows())
    sessions = aggregate.tpo_sessions_of(*made, **cut)
    assert dict(sessions.select("timestamp", "opening_price").iter_rows()) == opening


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_of_one_member_it_is_its_own(seed: int) -> None:
    trades = _trades(seed).filter(pl.col("raw_symbol") == "A")
    made = aggregate.minute_candles(trades), aggregate.minute_profile(trades, block_size="0.5")
    names = ["exchange", "raw_symbol"]
    cut = {"interval": "1d", "block_size": "0.5"}
    for make_of, make in (
        (aggregate.tpo_of, aggregate.tpo),
        (aggregate.tpo_sessions_of, aggregate.tpo_sessions),
    ):
        own, united = (make_of(*made, **cut, united=each).drop(names) for each in (False, True))
        assert own.equals(united)
        assert own.equals(make(trades, **cut).drop(names))
