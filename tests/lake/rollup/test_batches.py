"""A rollup writes the minutes of many markets in one commit, and of no more events at once than memory holds."""

from __future__ import annotations

import shutil
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from lakes import empty_lake
from simulated.rollup_events import MINUTE, START
from tidytape.errors import LakeError
from tidytape.lake import TRADES, Lake
from tidytape.lake.rollup import _build as build
from tidytape.lake.rollup import rollup, sources

MARKETS = 20
TABLES = ("candles_1m", "candles_of_both_1m", "profile_1m")


def trades(symbol: str, count: int, *, at: int = 0) -> pl.DataFrame:
    """Two trades a minute."""
    number = at + pl.int_range(count, dtype=pl.Int64)
    frame = pl.select(
        id=number.cast(pl.String),
        timestamp=START + number * MINUTE // 2,
        sequence=number,
        price=100.0 + number % 7,
        amount=1.0 + number % 3,
    ).with_columns(exchange=pl.lit("X"), raw_symbol=pl.lit(symbol), side=pl.lit("BUY"))
    return TRADES.conform(frame.with_columns(quote_amount=pl.col("price") * pl.col("amount")))


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Markets of which each ends at another minute, and of two block sizes."""
    made = empty_lake(tmp_path / "lake")
    symbols = [f"S{number:02}" for number in range(MARKETS)]
    made.writer().append(
        "trades", pl.concat(trades(symbol, 40 + int(symbol[1:])) for symbol in symbols), source="first"
    )
    sizes = [1.0 + number % 2 for number in range(MARKETS)]
    made.writer().register(pl.DataFrame({"exchange": "X", "raw_symbol": symbols, "block_size": sizes}))
    return made


def kept(lake: Lake) -> list[pl.DataFrame]:
    frames = [pl.read_delta(lake.uri(name)) for name in TABLES]
    return [
        frame.sort("raw_symbol", "timestamp", *set(frame.columns) & {"side", "price"}) for frame in frames
    ]


def versions(lake: Lake) -> list[int]:
    return [lake.delta(name).version() for name in TABLES]


@pytest.mark.slow
def test_a_first_rollup_is_one_commit_per_table(lake: Lake) -> None:
    rollup(lake)
    # The table is made, its minutes are written, and the pass is noted.
    assert versions(lake) == [2, 2, 2]
    assert {frame["raw_symbol"].n_unique() for frame in kept(lake)} == {MARKETS}


@pytest.mark.slow
def holes(lake: Lake, table: str, symbol: str, minutes: int) -> list[tuple[int, int]]:
    end = START + minutes * MINUTE
    return sources(lake, table, exchange="X", raw_symbol=symbol, start=START, end=end).holes


@pytest.mark.slow
def test_a_complete_lake_leaves_no_minute_to_a_query(lake: Lake) -> None:
    name, symbol, minutes = TABLES[1], "S01", 21
    rollup(lake)
    newest = START + (minutes - 1) * MINUTE
    assert holes(lake, name, symbol, minutes) == [(newest, newest + MINUTE)]
    rollup(lake, is_complete=True)  # although no event is new
    assert holes(lake, name, symbol, minutes) == []
    rows = lake.scan("trades", exchange="X", raw_symbol=symbol).collect().height
    assert kept(lake)[1].filter(raw_symbol=symbol)["trades"].sum() == rows

    late = trades(symbol, 2, at=2 * minutes).with_columns(timestamp=pl.lit(newest + MINUTE - 1))
    lake.writer().append("trades", late, source="late")
    assert holes(lake, name, symbol, minutes) == [(newest, newest + MINUTE)]
    rollup(lake)
    assert kept(lake)[1].filter(raw_symbol=symbol)["trades"].sum() == rows + 2


@pytest.mark.slow
def test_what_is_new_of_many_markets_is_one_commit_more(lake: Lake) -> None:
    rollup(lake)
    lake.writer().append(
        "trades", pl.concat(trades(f"S{number:02}", 30, at=100) for number in range(MARKETS)), source="next"
    )
    rollup(lake)
    assert versions(lake) == [4, 4, 4]
    again = empty_lake(Path(lake.path).parent / "again")
    again.writer().append("trades", lake.scan("trades").collect(), source="all")
    again.writer().register(lake.markets())
    rollup(again)
    for one, other in zip(kept(lake), kept(again), strict=True):
        assert_frame_equal(one, other)


@pytest.mark.slow
def test_a_batch_holds_no_more_events_than_memory_does(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    rollup(lake)
    expected = kept(lake)
    for name in TABLES:
        shutil.rmtree(lake.uri(name))
    monkeypatch.setattr(build, "_EVENTS", 120)
    made: list[float] = []
    write = build._Maker._written

    def listed(maker: build._Maker, delta: object, steps: list[build._Step]) -> int:
        made.append(sum(step.events for step in steps))
        return write(maker, delta, steps)  # type: ignore[arg-type]

    monkeypatch.setattr(build._Maker, "_written", listed)
    anew = Lake(lake.path)
    rollup(anew)
    assert max(made) <= 120
    assert len(made) < 3 * MARKETS  # still several markets at once
    for one, other in zip(kept(anew), expected, strict=True):
        assert_frame_equal(one, other)


@pytest.mark.slow
def test_a_bad_market_is_found_among_many(lake: Lake) -> None:
    bad = trades("S07", 4, at=1000).with_columns(price=pl.lit(float("nan")))
    lake.writer().append("trades", bad, source="bad")
    with pytest.raises(LakeError, match="profile_1m X S07 failed") as caught:
        rollup(lake)
    assert "more" not in str(caught.value)
    *_, profiles = kept(lake)
    assert profiles["raw_symbol"].n_unique() == MARKETS - 1


@pytest.mark.slow
def test_what_cannot_be_written_ends_the_rollup(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []

    def full(*_: object, **__: object) -> None:
        tried.append("")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tidytape.lake._commit.write_parts", full)
    with pytest.raises(LakeError, match="No space left on device"):
        rollup(lake)
    assert len(tried) == 1
    monkeypatch.undo()
    rollup(Lake(lake.path))
    assert {frame["raw_symbol"].n_unique() for frame in kept(lake)} == {MARKETS}


@pytest.mark.slow
def test_a_full_disk_is_one_clear_error_before_anything_is_written(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The writer of delta-rs panics where the disk is full, and prints that, so it is not asked then."""
    rollup(lake)
    late = trades("S03", 2).with_columns(pl.col("id") + "-late")
    lake.writer().append("trades", late, source="late")  # its minutes are there already, and are replaced
    before = versions(lake)
    asked: list[object] = []
    monkeypatch.setattr("tidytape.lake._commit.write_deltalake", lambda *_, **__: asked.append(""))
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(10**9, 10**9, 0))
    with pytest.raises(LakeError, match="No space left on device"):
        rollup(lake)
    with pytest.raises(LakeError, match="No space left on device"):
        lake.writer().register(pl.DataFrame({"exchange": ["X"], "raw_symbol": ["NEW"]}))
    assert not asked
    assert versions(lake) == before
    monkeypatch.undo()
    rollup(lake)
    assert [after - version for version, after in zip(before, versions(lake), strict=True)] == [2, 2, 2]
