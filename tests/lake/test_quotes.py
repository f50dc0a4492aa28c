"""Amounts in the quote that are price times amount are not stored, and a reader gets all of them to the last bit."""

from __future__ import annotations

import math
import shutil
import struct
import tempfile
from dataclasses import replace
from pathlib import Path

import deltalake
import duckdb
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakes import empty_lake
from thorough import often
from tidytape.errors import LakeError
from tidytape.lake import TRADES, Lake, _delta, hygiene

STATED = "stated_quote_amount"
finite = st.floats(1e-150, 1e150) | st.sampled_from([0.1, 3.0, 61837.63, 1e-8])


def bits(number: float) -> bytes:
    return struct.pack(">d", number)


@st.composite
def tapes(draw: st.DrawFn) -> pl.DataFrame:
    rows = []
    for number in range(draw(st.integers(1, 6))):
        price, amount = draw(finite | st.just(0.0)), draw(finite)
        product = price * amount
        quote = draw(st.sampled_from([product, math.nextafter(product, math.inf), 0.0, -0.0, -product, 7.0]))
        rows.append((number, str(number), price, amount, quote))
    schema = ["timestamp", "id", "price", "amount", "quote_amount"]
    return TRADES.conform(
        pl.DataFrame(rows, schema, orient="row").with_columns(
            exchange=pl.lit("X"), raw_symbol=pl.lit("BTC"), sequence="timestamp", side=pl.lit("BUY")
        )
    )


def quotes(frame: pl.DataFrame) -> list[bytes]:
    return [bits(quote) for quote in frame.sort("timestamp")["quote_amount"]]


@pytest.mark.slow
@settings(max_examples=often(15, thoroughly=300), deadline=None)
@given(tapes(), tapes())
def test_every_amount_comes_back_to_the_last_bit(first, second):
    second = second.with_columns(pl.col("timestamp", "sequence") + 10, pl.col("id") + "b")
    expected = quotes(pl.concat([first, second]))
    with tempfile.TemporaryDirectory() as folder:
        lake = empty_lake(Path(folder) / "lake")
        for source, tape in (("a", first), ("b", second)):
            lake.writer().append("trades", tape, source=source)
        assert quotes(lake.scan("trades").collect()) == expected
        hygiene.compact(lake, tables=["trades"], everything=True, progress=False)
        assert quotes(lake.scan("trades").collect()) == expected
        raw = pl.DataFrame(deltalake.DeltaTable(f"{lake.path}/trades").to_pyarrow_table())
        is_product = pl.col(STATED) == pl.col("price") * pl.col("amount")
        assert raw.filter(is_product, pl.col(STATED) != 0).is_empty()


def test_other_engines_get_them_as_the_comment_says(tmp_path, tape):
    lake = empty_lake(tmp_path / "lake")
    rows = tape(0, 10).with_columns(
        quote_amount=pl.when(pl.col("sequence") != 3).then("quote_amount").otherwise(99.5)
    )
    lake.writer().append("trades", rows, source="a")
    delta = deltalake.DeltaTable(f"{lake.path}/trades")
    field = {field.name: field for field in delta.schema().fields}[STATED]
    assert "null where it is price times amount" in field.metadata["comment"]
    assert "quote_amount" not in {field.name for field in delta.schema().fields}
    (path,) = delta.file_uris()
    query = f"coalesce({STATED}, price * amount) quote_amount from '{path}' order by timestamp"
    assert duckdb.sql(f"select {query}").fetchall() == rows.sort("timestamp").select("quote_amount").rows()
    assert duckdb.sql(f"select count({STATED}) from '{path}'").fetchall() == [(1,)]
    scanned = pl.scan_delta(f"{lake.path}/trades").select(STATED).collect()
    assert scanned.null_count().item() == 9


def test_a_reader_of_other_columns_computes_and_reads_none(tmp_path, tape):
    lake = empty_lake(tmp_path / "lake")
    lake.writer().append("trades", tape(0, 10), source="a")
    plan = lake.scan("trades", start=2, end=5).select("timestamp", "side").explain()
    assert STATED not in plan
    assert "FILTER" not in plan.replace("SELECTION", "")  # the filter is in the scan, which skips files by it


@pytest.mark.parametrize("release", ["08a9902", "6424d2f"])
def test_a_lake_of_an_older_release_goes_on_storing_all(tmp_path, release):
    path = shutil.copytree(Path(__file__).parents[1] / "frozen" / release / "lake", tmp_path / "lake")
    lake = Lake(path)
    before = lake.scan("trades").collect()
    rows = before.head(3).with_columns(pl.col("id") + "x", pl.col("timestamp") + 10**18)
    lake.writer().append("trades", rows, source="new")
    stored = pl.scan_delta(f"{path}/trades").collect()
    assert "quote_amount" in stored.columns
    assert stored["quote_amount"].null_count() == 0
    after = lake.scan("trades").collect()
    assert after.sort("id").equals(pl.concat([before, rows]).sort("id"))


def test_an_older_release_refuses_to_read_instead_of_taking_null(tmp_path):
    lake = empty_lake(tmp_path / "lake")
    with pytest.raises(LakeError, match="no column 'quote_amount'"):
        _delta.require_readable(lake.delta("trades"), replace(TRADES, stated=None))
