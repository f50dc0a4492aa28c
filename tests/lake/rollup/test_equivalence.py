"""The answer never depends on whether, when, or how often a rollup ran."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import polars as pl
import pytest

from lakes import empty_lake
from simulated import rollup_events as events
from thorough import often
from tidytape.lake import Lake
from tidytape.lake.rollup import ROLLUP_TABLES, rollup
from tidytape.lake.rollup._recipes import RECIPES, Ask
from tidytape.query import PointsQuery
from tidytape.service.answer._engine import Engine

START, MINUTE = events.START, events.MINUTE

TYPES = [
    ("TRADE_SIDE_AGNOSTIC_AGG", {}),
    ("TRADE_AGG", {"gapfill": True}),
    ("TRADE_SIDE_AGNOSTIC_AGG", {"group_by": "SUM"}),
    ("VOLUME_PROFILE_AGG", {}),
    ("VOLUME_PROFILE_AGG", {"block_size": "2", "quote": "USD"}),
    ("VOLUME_PROFILE_AGG", {"block_size": "0.75"}),
    ("TPO_AGG", {"tpo_block_minutes": 5}),
    ("TPO_AGG", {"group_by": "SUM", "tpo_session": "daily"}),
    ("OPEN_INTEREST_AGG", {"quote": "USD"}),
    ("OPEN_INTEREST_AGG", {"group_by": "SUM"}),
    ("FUNDING_RATE_AGG", {"funding_interval": "1h"}),
    ("FUNDING_RATE_AGG", {"group_by": "OPEN_INTEREST_WEIGHTED_AVG"}),
    ("LIQUIDATION_AGG", {"quote": "USD"}),
    ("BLOCK_BOOK_SNAPSHOT_AGG", {}),
    ("BLOCK_BOOK_SNAPSHOT_AGG", {"quote": "USD", "max_depth": 3, "block_size": "1"}),
    ("BLOCK_BOOK_SNAPSHOT_AGG", {"group_by": "SUM"}),
]


def answers(lake: Lake, start: int, minutes: int, intervals: tuple[str, ...]) -> dict[str, pl.DataFrame]:
    engine = Engine(lake, clock=lambda: START + 10 * 60 * MINUTE)
    found = {}
    for name, options in TYPES:
        for interval in intervals:
            query = PointsQuery(
                type=name,
                exchange="X",
                coin="BTC",
                interval=interval,
                start=start // 10**9,
                end=start // 10**9 + minutes * 60,
                **options,
            )
            ((_, frame),) = engine.frames(query, engine.markets(query))
            found[f"{name} {options} {interval}"] = frame
    return found


def assert_same(rolled: Lake, plain: Lake, window: tuple[int, int], interval: str) -> None:
    equal(answers(rolled, *window, (interval,)), answers(plain, *window, (interval,)))


def equal(found: dict[str, pl.DataFrame], expected: dict[str, pl.DataFrame]) -> None:
    for what, frame in found.items():
        assert frame.equals(expected[what]), what


@pytest.mark.long
@pytest.mark.parametrize("seed", range(often(1, thoroughly=4)))
def test_an_answer_does_not_depend_on_rollups(tmp_path, seed):
    rng = np.random.default_rng(seed)
    rolled, plain = empty_lake(tmp_path / "rolled"), empty_lake(tmp_path / "plain")
    for lake in (rolled, plain):
        events.market(lake)
    for number, (table, rows) in enumerate(events.pieces(seed, 24)):
        for lake in (rolled, plain):
            lake.writer().append(table, rows, source=str(number))
        if rng.random() < 0.3:
            rollup(rolled, is_complete=bool(rng.random() < 0.5))
        if number == 12:
            assert_same(rolled, plain, (START + int(rng.integers(120)) * MINUTE, 60), "5m")
    whole = (START, events.HOURS * 60 + 120)
    expected = answers(plain, *whole, ("1m",))
    assert all(frame.height for frame in expected.values())
    equal(answers(rolled, *whole, ("1m",)), expected)
    rollup(rolled)
    equal(answers(rolled, *whole, ("1m",)), expected)
    rollup(rolled, is_complete=True)
    equal(answers(rolled, *whole, ("1m",)), expected)
    assert_same(rolled, plain, (START + int(rng.integers(120)) * MINUTE, 60), "1h")


@pytest.mark.long
@pytest.mark.parametrize("seed", range(often(1, thoroughly=3)))
def test_what_is_kept_is_what_raw_events_give(tmp_path, seed):
    lake = empty_lake(tmp_path)
    events.market(lake)
    for number, (table, rows) in enumerate(events.pieces(seed + 100, 24)):
        lake.writer().append(table, rows, source=str(number))
        if number % 5 == 0:
            rollup(lake)
    rollup(lake)
    assert [done.rows for done in rollup(lake)] == [0] * len(ROLLUP_TABLES)  # nothing new, nothing written
    sizes = dict(lake.markets().select("raw_symbol", "block_size").iter_rows())
    for name, recipe in RECIPES.items():
        kept = pl.scan_delta(lake.delta(name)).collect()
        assert kept.height, name
        for exchange, symbol in lake.markets_in(recipe.raw.name):
            first, last = lake.extent(recipe.raw.name, exchange, symbol)
            ask = Ask(
                exchange,
                symbol,
                first // MINUTE * MINUTE,
                last // MINUTE * MINUTE,
                Decimal(str(sizes[symbol])) if recipe.has_levels else None,
            )
            made = recipe.minutes(lake, ask).select(recipe.table.names).collect().sort(recipe.table.order)
            mine = kept.filter(pl.col("raw_symbol") == symbol).select(recipe.table.names)
            assert mine.sort(recipe.table.order).equals(made), (name, symbol)
