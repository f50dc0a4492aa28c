"""Recorded candles of several lengths with holes: a bucket is what the buckets inside of it are together."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakes import empty_lake
from thorough import often
from tidytape.aggregate import resample
from tidytape.lake import TABLES
from tidytape.query import PointsQuery
from tidytape.service.answer._engine import Engine

QUARTER = 15 * 60
T0 = 1_723_161_600  # 2024-08-09T00:00:00Z
COUNT = 16
LENGTHS = {"15m": 1, "1h": 4, "4h": 16}
"""In quarters of an hour, of which the window has sixteen."""

Candle = tuple[int, int]
"""Length and start. [quarters of an hour]"""

holes = st.sets(
    st.sampled_from([(length, at) for length in LENGTHS.values() for at in range(0, COUNT, length)])
)
"""Candles that are missing: few in one market, most in another."""

EVERY = {(length, at) for length in LENGTHS.values() for at in range(0, COUNT, length)}
markets = st.lists(st.one_of(holes, holes.map(EVERY.difference)), min_size=2, max_size=2)


def answers(lacking: list[set[Candle]]) -> dict[str, dict[tuple[str, int], float]]:
    """Return the volume of each bucket of each interval, by market and the quarter at which it starts.

    Each candle adds another power of two, so the choice between candles is seen.
    """
    names = list(map(str, range(len(lacking))))
    rows = [
        {"raw_symbol": name, "length": length, "at": at, "volume": 2.0**place}
        for name, holes in zip(names, lacking, strict=True)
        for place, (length, at) in enumerate(sorted(EVERY))
        if (length, at) not in holes
    ]
    schema = {"raw_symbol": pl.String, "length": pl.Int64, "at": pl.Int64, "volume": pl.Float64}
    frame = pl.DataFrame(rows, schema=schema).with_columns(
        exchange=pl.lit("X"),
        timestamp=(T0 + pl.col("at") * QUARTER) * 10**9,
        interval=pl.col("length") * QUARTER * 10**9,
        **{name: pl.lit(1.0) for name in ("open", "high", "low", "close")},
    )
    with TemporaryDirectory() as folder:
        lake = empty_lake(Path(folder) / "lake")
        lake.writer().register(pl.DataFrame({"exchange": "X", "raw_symbol": names}))
        lake.writer().append("candles", TABLES["candles"].conform(frame), source="candles")
        engine = Engine(lake, clock=lambda: (T0 + 10**6) * 10**9)
        found = {}
        for interval in LENGTHS:
            query = PointsQuery(
                type="TRADE_SIDE_AGNOSTIC_AGG", exchange="X", raw_symbol=names, interval=interval,
                start=T0, end=T0 + COUNT * QUARTER,
            )  # fmt: skip
            points = engine.frames(query, engine.markets(query))[0][1]
            at = (points["timestamp"].dt.epoch("s") - T0) // QUARTER
            keys = zip(points["raw_symbol"].cast(pl.String), at, strict=True)
            found[interval] = dict(zip(keys, points["volume"], strict=True))
        return found


@pytest.mark.slow
@settings(max_examples=often(4, thoroughly=60), deadline=None)
@given(markets)
def test_a_bucket_is_the_sum_of_those_inside_of_it(lacking):
    volumes = answers(lacking)
    for name, holes in enumerate(lacking):
        for fine, coarse in pairwise(LENGTHS):
            step, length = LENGTHS[fine], LENGTHS[coarse]
            for at in range(0, COUNT, length):
                inside = [one for one in EVERY - holes if one[0] <= length and at <= one[1] < at + length]
                told = {first + place for size, first in inside if size <= step for place in range(size)}
                longer = {first + place for size, first in inside if size > step for place in range(size)}
                if not longer <= told:
                    continue  # only a longer candle tells of some time, which the finer buckets therefore lack
                parts = range(at, at + length, step)
                total = sum(volumes[fine].get((str(name), part), 0.0) for part in parts)
                assert volumes[coarse].get((str(name), at), 0.0) == total


# --- candles without volume -------------------------------------------------------------------------------------------

PRICES = ("open", "high", "low", "close")
prices = st.sampled_from([1.0, 2.0, 3.0, 4.0])
moves = st.tuples(st.booleans(), st.booleans(), prices, prices, prices, prices)
"""Whether a quarter of an hour has a candle, whether it has volume, and four prices of it."""


def quarters(moves: list[tuple[bool, bool, float, float, float, float]], *, repeats: bool) -> pl.DataFrame:
    """Return candles of a quarter of an hour; if ``repeats``, two of three without volume repeat the last close."""
    rows, last = [], 1.0
    for at, (is_there, has_volume, *four) in enumerate(moves):
        first, second = four[:2]
        is_fill = repeats and not has_volume and at % 3 > 0
        candle = (last,) * 4 if is_fill else (first, max(four), min(four), second)
        if is_there:
            rows.append((at, *candle, float(2**at) if has_volume else 0.0))
            last = candle[3]
    schema = {"at": pl.Int64, **dict.fromkeys((*PRICES, "volume"), pl.Float64)}
    return pl.DataFrame(rows, schema=schema, orient="row").select(
        exchange=pl.lit("X"), raw_symbol=pl.lit("BTC"), interval=pl.lit(QUARTER * 10**9),
        timestamp=(T0 + pl.col("at") * QUARTER) * 10**9, **{name: pl.col(name) for name in (*PRICES, "volume")},
    )  # fmt: skip


def hours(candles: pl.DataFrame) -> list[tuple[float, ...]]:
    """Return the hours of candles by a plain loop: start, four prices and volume."""
    buckets: dict[int, list[tuple[dict[str, float], bool]]] = {}
    before = None
    for candle in candles.iter_rows(named=True):
        fills = candle["volume"] == 0 and all(candle[name] == before for name in PRICES)
        buckets.setdefault(candle["timestamp"] // HOUR * HOUR, []).append((candle, fills))
        before = candle["close"]
    points = []
    for start, members in buckets.items():
        counting = [candle for candle, fills in members if not fills] or [candle for candle, _ in members]
        points.append(
            (
                start,
                counting[0]["open"],
                max(candle["high"] for candle in counting),
                min(candle["low"] for candle in counting),
                counting[-1]["close"],
                sum(candle["volume"] for candle in counting),
            )
        )
    return points


HOUR = 4 * QUARTER * 10**9
COLUMNS = ("timestamp", *PRICES, "volume")


@pytest.mark.slow
@given(st.lists(moves, min_size=1, max_size=24), st.booleans())
def test_candles_of_no_volume_that_moved_count_in_longer_intervals(moves, repeats):
    candles = quarters(moves, repeats=repeats)
    unknown = pl.lit(None, pl.Int64)
    frame = candles.drop("interval").with_columns(first_timestamp=unknown, last_timestamp=unknown)
    points = resample(frame.reverse(), data_type="TRADE_SIDE_AGNOSTIC_AGG", interval="1h")
    assert points.select(COLUMNS).rows() == hours(candles)


@pytest.mark.slow
@settings(max_examples=often(6, thoroughly=60), deadline=None)
@given(st.lists(moves, min_size=12, max_size=24), st.booleans())
def test_the_service_counts_them_too_wherever_a_window_starts(moves, repeats):
    candles = quarters(moves, repeats=repeats)
    expected = hours(candles)
    with TemporaryDirectory() as folder:
        lake = empty_lake(Path(folder) / "lake")
        lake.writer().register(pl.DataFrame({"exchange": ["X"], "raw_symbol": ["BTC"]}))
        lake.writer().append("candles", TABLES["candles"].conform(candles), source="candles")
        engine = Engine(lake, clock=lambda: (T0 + 10**6) * 10**9)
        for start in range(T0, T0 + 6 * 3600, 3600):
            query = PointsQuery(
                type="TRADE_SIDE_AGNOSTIC_AGG", exchange="X", raw_symbol="BTC", interval="1h", start=start,
                end=T0 + 6 * 3600,
            )  # fmt: skip
            points = engine.frames(query, engine.markets(query))[0][1]
            points = points.with_columns(pl.col("timestamp").to_physical())
            assert points.select(COLUMNS).rows() == [row for row in expected if row[0] >= start * 10**9]
