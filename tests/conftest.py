"""The engines that frames are computed on, for the tests that say: the same on every engine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engines import ENGINES, Engine, java


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
