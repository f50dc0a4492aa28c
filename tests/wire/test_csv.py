"""A flat frame: what CSV cannot hold is text, and the text says what was there."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import tidytape
from simulated.asked import LISTS, SERIES, predicted
from simulated.everything import everything
from tables import each_row
from tidytape.errors import QueryError
from tidytape.wire import flat

NOON = datetime(2024, 8, 8, 12, tzinfo=UTC)
FRAME = pl.DataFrame(
    {
        "timestamp": [NOON, NOON + timedelta(milliseconds=500), None],
        "outcomes": [["Yes, sir", 'a "quoted" word\n'], [], None],
        "prices": [[0.1 + 0.2, 1e300, 5e-324], [], None],
        "block_ids": pl.Series([[1, 2], [], None], dtype=pl.List(pl.Int32)),
        "gap_starts": [[NOON, NOON + timedelta(microseconds=1)], [], None],
        "longest_gap": [timedelta(minutes=90), timedelta(seconds=-1), None],
        "price": [0.1 + 0.2, -0.0, None],
    }
)
TEXTS = {
    "timestamp": ["2024-08-08T12:00:00Z", "2024-08-08T12:00:00.500Z", None],
    "outcomes": ['["Yes, sir","a \\"quoted\\" word\\n"]', "[]", None],
    "prices": ["[0.30000000000000004,1e+300,5e-324]", "[]", None],
    "block_ids": ["[1,2]", "[]", None],
    "gap_starts": ['["2024-08-08T12:00:00Z","2024-08-08T12:00:00.000001Z"]', "[]", None],
    "longest_gap": ["PT1H30M", "-PT1S", None],
}


def test_lists_and_times_are_text() -> None:
    assert flat(FRAME).select([*TEXTS]).to_dict(as_series=False) == TEXTS
    assert flat(FRAME)["price"].equals(FRAME["price"])
    assert flat(FRAME).columns == FRAME.columns
    assert flat(FRAME.clear()).schema == flat(FRAME).schema


@each_row("convert", [pl.DataFrame.to_pandas, pl.DataFrame.to_arrow, pl.DataFrame.lazy])
def test_every_engine_has_the_same_text(convert: Any) -> None:
    frame = convert(FRAME)
    result: Any = flat(frame)
    assert type(result) is type(frame)
    back = result.collect() if isinstance(result, pl.LazyFrame) else pl.DataFrame(result)
    assert back.select([*TEXTS]).to_dict(as_series=False) == TEXTS


def test_pandas_keeps_its_index_and_what_polars_cannot_hold() -> None:
    objects = [object(), {1}]
    frame = pd.DataFrame({"prices": [[0.5], [1.5]], "note": objects}, index=[7, 3])
    result = flat(frame)
    assert result.index.to_list() == [7, 3]
    assert result["prices"].to_list() == ["[0.5]", "[1.5]"]
    assert result["note"].to_list() == objects


def test_a_time_of_another_zone_is_in_utc_and_one_without_a_zone_says_nothing() -> None:
    there = datetime(2024, 8, 8, 8, tzinfo=ZoneInfo("America/New_York"))
    naive = there.replace(tzinfo=None)
    result = flat(pl.DataFrame({"there": [there], "naive": [naive]}))
    assert result.row(0) == ("2024-08-08T12:00:00Z", "2024-08-08T08:00:00")
    assert flat(pd.DataFrame({"there": [there]}))["there"].to_list() == ["2024-08-08T12:00:00Z"]


def test_the_recipe_for_pandas_reads_it_back() -> None:
    text = flat(FRAME.to_pandas()).to_csv(index=False)
    back = pd.read_csv(io.StringIO(text), parse_dates=["timestamp"], date_format="ISO8601")
    for name in ("prices", "outcomes"):
        back[name] = back[name].map(json.loads, na_action="ignore")
        assert back[name].to_list()[:2] == FRAME[name].to_list()[:2]
        assert pd.isna(back[name][2])
    assert back["timestamp"].dropna().to_list() == FRAME["timestamp"].drop_nulls().to_list()
    assert pd.to_timedelta(back["longest_gap"]).dropna().to_list() == [
        timedelta(minutes=90),
        timedelta(seconds=-1),
    ]


@each_row("frame", [duckdb.sql("select 1 as price"), FRAME["price"], 3])
def test_other_frames_are_refused(frame: Any) -> None:
    with pytest.raises(QueryError, match="expected a frame of polars, pandas or pyarrow"):
        flat(frame)


def test_pyarrow_keeps_the_types_of_other_columns() -> None:
    table = pa.table({"side": pa.array(["BUY"]).dictionary_encode(), "prices": [[0.5]]})
    assert flat(table).schema.field("side").type == table.schema.field("side").type


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Any:
    lake = predicted(everything(tmp_path_factory.mktemp("csv") / "lake"))
    with tidytape.Client.local(lake.path) as local:
        yield local


@pytest.mark.slow
@each_row("name", [*SERIES, *(name for name in LISTS if name != "usage")])
def test_every_frame_of_a_client_can_be_written(client: Any, name: str) -> None:
    frame = getattr(client, name)(**(SERIES[name][1] if name in SERIES else LISTS[name]))
    if isinstance(frame, pl.DataFrame):
        assert pl.read_csv(flat(frame).write_csv().encode(), infer_schema=False).shape == frame.shape
