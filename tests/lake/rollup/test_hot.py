"""Stored minutes in memory: never older than the lake, never more than their bound, and the same rows."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakes import empty_lake
from tidytape.lake import Lake
from tidytape.lake._recent import Recent
from tidytape.lake.rollup import _hot as hot
from tidytape.lake.rollup import minutes, rollup
from tidytape.times import DAY, MINUTE

START = 1_722_988_800 * 10**9 // DAY * DAY
MARKET = {"exchange": "X", "raw_symbol": "BTC"}


def trades(prices: list[float], *, first: int = 0) -> pl.DataFrame:
    """Return a trade a minute, from minute ``first`` on."""
    numbers = range(first, first + len(prices))
    return pl.DataFrame(
        {
            "id": [f"{number}:{prices[0]}" for number in numbers],
            "timestamp": [START + number * MINUTE for number in numbers],
            "sequence": list(numbers),
            "side": "BUY",
            "price": prices,
            "amount": 1.0,
            "quote_amount": prices,
        }
    ).with_columns(pl.lit(value).alias(name) for name, value in MARKET.items())


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Return a lake of three days, a trade a minute, rolled up."""
    made = empty_lake(tmp_path / "lake")
    made.writer().append(
        "trades", trades([float(number) for number in range(1, 3 * 1440 + 1)]), source="first"
    )
    rollup(made, progress=False)
    return made


@pytest.fixture(autouse=True)
def kept(monkeypatch: pytest.MonkeyPatch) -> Recent[Any, Any]:
    """Return the days that are in memory, of this test alone."""
    days = Recent[Any, Any](2**24)
    monkeypatch.setattr(hot, "DAYS", days)
    return days


def closes(lake: Lake, first: int, last: int) -> list[float]:
    """Return the closes of the minutes from one number to another."""
    start, end = START + first * MINUTE, START + last * MINUTE
    rows = minutes(lake, "candles_of_both_1m", **MARKET, start=start, end=end)
    return rows.sort("timestamp").collect()["close"].to_list()


@pytest.mark.slow
def test_what_was_read_is_in_memory(lake: Lake, kept: Recent[Any, Any]) -> None:
    assert closes(lake, 10, 1500) == [float(number) for number in range(11, 1501)]
    for file in Path(lake.uri("candles_of_both_1m")).rglob("*.parquet"):
        file.unlink()
    assert closes(lake, 500, 520) == [float(number) for number in range(501, 521)]
    assert kept.size > 0


@pytest.mark.slow
@given(st.integers(0, 4300), st.integers(1, 2000))
def test_any_window_has_its_own_rows(rolled: Lake, first: int, length: int) -> None:
    last = min(first + length, 3 * 1440)
    assert closes(rolled, first, last) == [float(number) for number in range(first + 1, last + 1)]


@pytest.fixture(scope="module")
def rolled(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    made = empty_lake(tmp_path_factory.mktemp("hot") / "lake")
    made.writer().append(
        "trades", trades([float(number) for number in range(1, 3 * 1440 + 1)]), source="first"
    )
    rollup(made, progress=False)
    return made


@pytest.mark.slow
def test_an_answer_is_never_older_than_the_lake(lake: Lake) -> None:
    """Late trades, a rollup of them, and new days: the next answer has each of them."""
    assert closes(lake, 100, 103) == [101.0, 102.0, 103.0]
    late = trades([7.0], first=101).with_columns(pl.col("timestamp") + 1, sequence=pl.lit(10**6))
    lake.writer().append("trades", late, source="late")
    assert closes(lake, 100, 103) == [101.0, 7.0, 103.0]
    rollup(lake, progress=False)
    assert closes(lake, 100, 103) == [101.0, 7.0, 103.0]
    lake.writer().append("trades", trades([8.0, 9.0], first=3 * 1440), source="next")
    assert closes(lake, 3 * 1440 - 1, 3 * 1440 + 2) == [4320.0, 8.0, 9.0]
    rollup(lake, progress=False)
    assert closes(lake, 3 * 1440 - 1, 3 * 1440 + 2) == [4320.0, 8.0, 9.0]


@pytest.mark.slow
def test_a_lake_that_is_made_anew_in_its_place_is_another(lake: Lake, tmp_path: Path) -> None:
    assert closes(lake, 0, 2) == [1.0, 2.0]
    shutil.rmtree(tmp_path / "lake")
    other = empty_lake(tmp_path / "lake")
    other.writer().append("trades", trades([50.0, 60.0, 70.0]), source="first")
    rollup(other, progress=False)
    assert closes(other, 0, 2) == [50.0, 60.0]


@pytest.mark.slow
def test_a_long_window_and_many_rows_are_read_from_files(
    lake: Lake, kept: Recent[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len(closes(lake, -20 * 1440, 3 * 1440)) == 3 * 1440
    assert kept.size == 0
    monkeypatch.setattr(hot, "_MOST_ROWS", 100)
    assert len(closes(lake, 0, 1440)) == 1440
    assert kept.size == 0
