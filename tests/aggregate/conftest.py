"""Frames of every engine, built from one polars frame and read back into one.

Spark takes seconds for what takes the others milliseconds, so these tests are run on it only when asked to:
``TIDYTAPE_TEST_SPARK=1 pytest tests/aggregate -k spark``. What `test_spark` tests is always run on it.
"""

from __future__ import annotations

import os
import re
import runpy
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
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
    spark: Any = None
    folder: Path | None = None

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
            case "spark":
                file = self._folder() / "frame.parquet"
                data.write_parquet(file)
                return self.spark.read.parquet(str(file))
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
            case "spark":
                folder = self._folder() / "result"
                native.coalesce(1).write.parquet(
                    str(folder)
                )  # one file, so that a sorted frame is read back sorted
                return pl.read_parquet(folder / "*.parquet")
        raise AssertionError(self.name)

    def _folder(self) -> Path:
        assert self.folder is not None
        return Path(tempfile.mkdtemp(dir=self.folder))


ENGINES = ["polars", "polars lazy", "pandas", "pyarrow", "duckdb"]
if os.environ.get("TIDYTAPE_TEST_SPARK"):
    ENGINES.append("spark")


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Engine:
    if request.param == "spark":
        return Engine("spark", request.getfixturevalue("spark"), tmp_path)
    return Engine(request.param)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Spark on two threads of this machine; it listens on the loopback address alone and serves no pages."""
    pyspark = pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'tidytape[spark]'")
    if java() < 17:
        pytest.skip("Spark needs a Java runtime of 17 or newer")
    home = tmp_path_factory.mktemp("spark")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        settings = {
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.memory": "1g",
            "spark.local.dir": str(home),
            # Of so few rows nearly all the time goes into plans and generated code: as little of both as there can be.
            "spark.sql.adaptive.enabled": "false",
            "spark.sql.codegen.wholeStage": "false",
            "spark.sql.session.timeZone": "Asia/Tokyo",  # which must not matter
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.warehouse.dir": str(home / "warehouse"),
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
        }
        session = pyspark.sql.SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()
        session.sparkContext.setLogLevel("ERROR")
        yield session
        session.stop()


def java() -> int:
    """Return the version of the Java runtime that Spark would find, 0 without one."""
    home = os.environ.get("JAVA_HOME")
    program = f"{home}/bin/java" if home else shutil.which("java")
    try:
        said = subprocess.run([str(program), "-version"], capture_output=True, text=True, check=True).stderr
    except (OSError, subprocess.CalledProcessError):
        return 0
    version = re.search(r'version "(?:1\.)?(\d+)', said)
    return int(version[1]) if version else 0


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
