"""Recorded candles of several lengths with holes: a bucket is what the buckets inside of it are together."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thorough import often
from tidytape.lake import TABLES, Lake
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
        lake = Lake.create(Path(folder) / "lake")
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
