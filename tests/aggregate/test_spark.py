"""A folder of raw Parquet in, a folder of points out, by Spark: what one machine's polars says, to the last bit.

No tolerance is needed: prices are picked and not computed, rows of the grid are one correctly rounded division, and
amounts are summed as whole numbers, so neither the order nor the partition of the rows can show.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from deltalake import DeltaTable
from polars.testing import assert_frame_equal

from tidytape import aggregate
from tidytape.demo._lake import tables
from tidytape.demo._market import START_NS
from tidytape.lake import Lake

pytestmark = pytest.mark.long


@pytest.fixture(params=["spark", "connect"])
def session(request: pytest.FixtureRequest) -> Any:
    """Return a classic session, and one of Spark Connect."""
    return request.getfixturevalue(request.param)


MINUTE = 60 * 10**9
MIDNIGHT = START_NS + 1440 * MINUTE

KEY = ["exchange", "raw_symbol", "side", "timestamp", "block_id", "price", "id"]

Points = Callable[[Any], Any]


@pytest.fixture(scope="module")
def trades() -> pl.DataFrame:
    """Half an hour of two markets around midnight, and trades on the last nanosecond of a minute and the first."""
    tape = pl.concat(rows for _, table, rows in tables(days=2) if table == "trades").filter(
        pl.col("timestamp").is_between(MIDNIGHT - 20 * MINUTE, MIDNIGHT + 10 * MINUTE, closed="left"),
        pl.col("exchange").is_in(["DEMO_SPOT", "DEMO_PERP"]),
        pl.col("raw_symbol").is_in(["BTCUSDT", "BTC-PERP"]),
    )
    edges = pl.Series([MIDNIGHT + offset for offset in (-1, 0, MINUTE - 1, MINUTE)] * 2)
    at_the_edges = tape.head(8).with_columns(
        timestamp=edges,
        sequence=pl.Series(range(8)),
        id=pl.Series([f"edge {number}" for number in range(8)]),
        # Amounts of half of what sums count in, on which engines round apart.
        amount=pl.Series([0.5e-8, 1.5e-8, 2.5e-8, 1e-17, 12.5e-9, 3.0, 4e10, 1e-9]),
    )
    return pl.concat([tape, at_the_edges]).sample(fraction=1, shuffle=True, seed=5)


@pytest.fixture(scope="module")
def raw(trades: pl.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The trades as three files, cut anywhere."""
    folder = tmp_path_factory.mktemp("raw")
    for number in range(3):
        trades.gather_every(3, offset=number).write_parquet(folder / f"part-{number}.parquet")
    return folder


POINTS: dict[str, Points] = {
    "candles": lambda frame: aggregate.candles(frame, interval="1m"),
    "candles by side": lambda frame: aggregate.candles(frame, interval="1m", by_side=True),
    "weekly candles": lambda frame: aggregate.candles(frame, interval="1w"),
    "volume profile": lambda frame: aggregate.volume_profile(frame, interval="1m", block_size="0.1"),
    "TPO": lambda frame: aggregate.tpo(frame, interval="1d", block_size=5, now=MIDNIGHT),
    "touches of months": lambda frame: aggregate.tpo_touches(
        frame, interval="1d", block_size=5, session="monthly", block_minutes=5
    ),
    "raw trades": aggregate.raw_trades,
}


@pytest.mark.parametrize(
    "points",
    [
        pytest.param(points, id=name, marks=[] if name == "candles" else pytest.mark.long)
        for name, points in POINTS.items()
    ],
)
def test_a_folder_of_parquet_becomes_one_of_points(
    session: Any, trades: pl.DataFrame, raw: Path, tmp_path: Path, points: Points
) -> None:
    points(session.read.parquet(str(raw))).write.parquet(str(tmp_path / "points"))
    same(pl.read_parquet(tmp_path / "points" / "*.parquet"), points(trades))


def test_the_files_of_a_lake_are_a_folder_of_parquet(
    spark: Any, trades: pl.DataFrame, tmp_path: Path
) -> None:
    """Without Spark's own reader of Delta, which is another package: its log names the files that count."""
    lake = Lake.create(tmp_path / "lake")
    lake.writer().append("trades", trades, source="test")
    table = DeltaTable(tmp_path / "lake" / "trades")
    frame = spark.read.option("basePath", str(tmp_path / "lake" / "trades")).parquet(*table.file_uris())
    aggregate.candles(frame, interval="1m").write.parquet(str(tmp_path / "points"))
    expected = aggregate.candles(lake.scan("trades"), interval="1m").collect()
    same(pl.read_parquet(tmp_path / "points" / "*.parquet"), expected)


def same(got: pl.DataFrame, expected: pl.DataFrame) -> None:
    key = [name for name in KEY if name in expected.columns]
    assert got.height > 0
    assert_frame_equal(got.sort(key), expected.sort(key), check_exact=True)
