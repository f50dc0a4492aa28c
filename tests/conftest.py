"""The engines that frames are computed on, for the tests that say: the same on every engine."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import narwhals.stable.v2 as nw
import pytest

from engines import ENGINES, Engine, java


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark as slow all but the first case of a function on DuckDB, which takes five times as long as the others."""
    functions = set()
    for item in items:
        callspec = getattr(item, "callspec", None)
        texts = [value for value in callspec.params.values() if isinstance(value, str)] if callspec else []
        if "duckdb" in texts and item.get_closest_marker("slow") is None:
            function = item.nodeid.partition("[")[0]
            if function in functions:
                item.add_marker(pytest.mark.slow)
            functions.add(function)


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Engine:
    return Engine.of(request, tmp_path)


@pytest.fixture
def small_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let frames have times near the epoch, for tests of formulas that write nanoseconds as small whole numbers.

    The door refuses these from callers, because milliseconds read as nanoseconds are small too; `frames/test_kinds`
    tests that.
    """
    monkeypatch.setattr("tidytape.frames._kinds.FIRST_TIME", 0)


@pytest.fixture
def columns_to_add(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every engine refuse ``with_columns`` of no columns, as Spark Connect does."""
    add = nw.LazyFrame.with_columns

    def with_columns(frame: Any, *columns: Any, **named: Any) -> Any:
        if len(columns) == 1 and isinstance(columns[0], Iterable):
            columns = tuple(columns[0])
        assert columns or named, "with_columns of no columns: use tidytape.frames._rows.with_all"
        return add(frame, *columns, **named)

    monkeypatch.setattr(nw.LazyFrame, "with_columns", with_columns)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Spark on two threads of this machine; it listens on the loopback address alone and serves no pages."""
    pyspark = pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'tidytape[spark]'")
    if java() < 17:
        pytest.skip("Spark needs a Java runtime of 17 or newer")
    with warnings.catch_warnings(), suppress(ImportError):  # `connect` says which package it lacks
        # It warns of a pandas newer than itself, which these tests do not let it use. The classic session imports some
        # modules of Connect too; without this filter they would stay half imported.
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
        import pyspark.sql.connect.session
    home = tmp_path_factory.mktemp("spark")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        settings = {
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.memory": "1g",
            # The same Java also serves Spark Connect, for starting another takes long; see `connect`.
            "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.connect.grpc.binding.port": "0",
            "spark.python.sql.dataFrameDebugging.enabled": "false",  # which asks Java where each column was written
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


@pytest.fixture(scope="session")
def connect(spark: Any) -> Iterator[Any]:
    """Return a session of Spark Connect, served by the Java of the classic session."""
    for part in ("grpc", "grpc_status", "google.rpc", "zstandard"):
        pytest.importorskip(part, reason="Spark Connect needs more packages: pip install 'pyspark[connect]'")
    from pyspark.sql.connect.session import SparkSession

    service = getattr(spark._jvm, "org.apache.spark.sql.connect.service.SparkConnectService$")
    port = getattr(service, "MODULE$").localPort()
    session = SparkSession.builder.remote(f"sc://127.0.0.1:{port}").getOrCreate()
    yield session
    session.stop()
