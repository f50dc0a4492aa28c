"""Frames of every engine, built from one polars frame and read back into one."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pytest

__all__ = ["ALL_ENGINES", "ENGINES", "Engine", "java"]


@cache
def _connection() -> duckdb.DuckDBPyConnection:
    """One for all frames, for those of two do not join; in a zone that must not matter."""
    connection = duckdb.connect()
    connection.execute("SET timezone = 'Asia/Tokyo'")
    return connection


@dataclass(frozen=True)
class Engine:
    name: str
    spark: Any = None
    folder: Path | None = None

    @classmethod
    def of(cls, request: pytest.FixtureRequest, folder: Path) -> Engine:
        """Return the engine that a fixture's parameter names; the fixtures ``spark`` and ``connect`` start Spark."""
        if fixture := _SESSIONS.get(request.param):
            return cls("spark", request.getfixturevalue(fixture), folder)
        return cls(request.param)

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
                return _connection().from_arrow(data.to_arrow())
            case "spark":
                file = self._folder() / "frame.parquet"
                data.cast({pl.Datetime("ns", "UTC"): pl.Datetime("us", "UTC")}).write_parquet(file)
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
                # In one file, so that a sorted frame is read back sorted.
                native.coalesce(1).write.parquet(str(folder))
                return pl.read_parquet(folder / "*.parquet")
        raise AssertionError(self.name)

    def _folder(self) -> Path:
        assert self.folder is not None
        return Path(tempfile.mkdtemp(dir=self.folder))


# Both sessions of Spark are asked for the same frames, so both are the engine "spark".
_SESSIONS = {"spark": "spark", "spark connect": "connect"}

ALL_ENGINES = ["polars", "polars lazy", "pandas", "pyarrow", "duckdb", *_SESSIONS]

# Spark takes seconds for what takes the others milliseconds, so most tests are run on it only when asked to:
# ``TIDYTAPE_TEST_SPARK=1 pytest tests -k spark``.
ENGINES = ALL_ENGINES if os.environ.get("TIDYTAPE_TEST_SPARK") else ALL_ENGINES[: -len(_SESSIONS)]


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
