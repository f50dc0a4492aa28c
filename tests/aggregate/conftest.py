"""Trades to aggregate, and the plain loops that say what should come out.

Every function of `aggregate` reads its frames through the door, which `tests/frames` tests on every engine. Behind the
door a plan is lazy, so the tests here need polars, lazy polars and DuckDB, and no pandas or pyarrow.

Spark takes seconds for what takes the others milliseconds: what `test_spark` tests is always run on it, the rest only
when asked to (see `engines`).
"""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from engines import ENGINES, Engine


@pytest.fixture(params=[name for name in ENGINES if name not in {"pandas", "pyarrow"}])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Engine:
    """Override the fixture of all tests, which has pandas and pyarrow too."""
    return Engine.of(request, tmp_path)


@pytest.fixture(autouse=True)
def _small_times(small_times: None) -> None:
    """Times in these tests are small whole numbers of nanoseconds."""


@pytest.fixture(autouse=True)
def _columns_to_add(columns_to_add: None) -> None:
    """No function here adds no columns."""


@pytest.fixture(scope="session")
def oracle() -> dict[str, Any]:
    return runpy.run_path(str(Path(__file__).parent / "oracle.py"))


@pytest.fixture
def trades() -> pl.DataFrame:
    """Trades of two markets, two hours, equal timestamps, prices on and beside the grid, in no order."""
    rows = [
        # exchange, symbol, second, sequence, side, price, amount
        ("A", "X", 0.0, 1, "BUY", 0.3, 1.0),
        ("A", "X", 0.0, 2, "SELL", 0.1, 2.0),
        ("A", "X", 59.999999999, 3, "BUY", 0.35, 4.0),
        ("A", "X", 60.0, 4, "SELL", 0.4, 0.5),
        ("A", "X", 3600.0, 6, "SELL", 0.7, 0.25),
        ("A", "X", 3600.0, 5, "SELL", 0.6, 0.125),
        ("A", "X", -0.5, 0, "BUY", 0.2, 3.0),
        ("A", "Y", 1.0, 9, "BUY", 12.0, 8.0),
        ("B", "X", 1.0, 9, "SELL", 13.0, 16.0),
    ]
    columns = ["exchange", "raw_symbol", "second", "sequence", "side", "price", "amount"]
    frame = pl.DataFrame(rows, schema=columns, orient="row")
    seconds = pl.col("second")
    whole = seconds.floor().cast(pl.Int64)
    nanoseconds = ((seconds - seconds.floor()) * 1e9).round().cast(pl.Int64)
    shuffled = frame.with_columns(timestamp=whole * 10**9 + nanoseconds).drop("second")
    return shuffled.sample(fraction=1, shuffle=True, seed=7)
