"""Frames of every engine, built from one polars frame and read back into one."""

from __future__ import annotations

import runpy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pytest


@dataclass(frozen=True)
class Engine:
    name: str

    def frame(self, data: pl.DataFrame) -> Any:
        match self.name:
            case "polars":
                return data
            case "polars lazy":
                return data.lazy()
            case "pandas":
                return data.to_pandas()
            case "pyarrow":
                return data.to_arrow()
            case "duckdb":
                return duckdb.connect().from_arrow(data.to_arrow())
        raise AssertionError(self.name)

    def polars(self, native: Any) -> pl.DataFrame:
        """Back to polars; also asserts that the frame is of this engine's own kind."""
        match self.name:
            case "polars":
                assert isinstance(native, pl.DataFrame)
                return native
            case "polars lazy":
                assert isinstance(native, pl.LazyFrame)
                return native.collect(engine="streaming")
            case "pandas":
                assert list(native.index) == list(range(len(native)))
                return pl.from_pandas(native)
            case "pyarrow":
                assert isinstance(native, pa.Table)
                return pl.DataFrame(native)
            case "duckdb":
                assert isinstance(native, duckdb.DuckDBPyRelation)
                return native.pl()
        raise AssertionError(self.name)


@pytest.fixture(params=["polars", "polars lazy", "pandas", "pyarrow", "duckdb"])
def engine(request: pytest.FixtureRequest) -> Engine:
    return Engine(request.param)


@pytest.fixture(scope="session")
def oracle() -> dict[str, Any]:
    return runpy.run_path(str(Path(__file__).parent / "oracle.py"))


@pytest.fixture
def trades() -> pl.DataFrame:
    """Two instruments, two hours, equal timestamps, prices on and beside the grid, in no order."""
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
