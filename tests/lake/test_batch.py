"""What a part of a batch knows of its rows without being read: whether its identities rise."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakes import empty_lake
from tidytape.errors import IngestError
from tidytape.lake import TRADES
from tidytape.lake._batch import Batch


def trades(ids: list[str | None], *, symbol: str | list[str] = "S", amount: float = 1.0) -> pl.DataFrame:
    rows = pl.DataFrame({"id": ids, "raw_symbol": symbol}, schema_overrides={"id": pl.String})
    number = pl.col("id").cast(pl.Int64, strict=False).fill_null(0)
    columns = {"exchange": pl.lit("X"), "side": pl.lit("BUY"), "price": pl.lit(2.0), "amount": pl.lit(amount)}
    quote = pl.lit(2.0 * amount).alias("quote_amount")
    return rows.with_columns(quote, timestamp=number, sequence=number, **columns)


def part_of(rows: pl.DataFrame) -> bool:
    batch = Batch(TRADES)
    batch.add(rows.select(name for name in TRADES.names if name in rows.columns))
    (part,) = batch.parts
    return part.rises


@given(st.lists(st.text("019é", max_size=3), min_size=1, max_size=6))
def test_ids_that_rise_are_all_different(ids: list[str]) -> None:
    rises = part_of(trades(list(ids)))
    assert not rises or len(set(ids)) == len(ids)
    ordered = sorted(ids, key=lambda text: (len(text.encode()), text.encode()))
    assert rises == (ids == ordered and len(set(ids)) == len(ids))


@pytest.mark.parametrize(
    ("ids", "symbol", "rises"),
    [
        (["9", "10", "11"], "S", True),
        (["10", "9"], "S", False),
        (["9", "9"], "S", False),
        (["9", None, "10"], "S", False),
        (["9", "10"], ["S", "T"], False),
    ],
)
def test_when_ids_rise(ids: list[str | None], symbol: str | list[str], *, rises: bool) -> None:
    assert part_of(trades(ids, symbol=symbol)) is rises


def test_repeats_between_parts_that_rise_are_found(tmp_path) -> None:
    lake = empty_lake(tmp_path)
    batch = Batch(TRADES)
    for ids in (["1", "2", "3"], ["3", "4"], ["5"]):
        batch.add(TRADES.conform(trades(list(ids))))
    assert lake.writer().append("trades", batch, source="parts").rows_new == 5
    assert lake.writer().append("trades", trades(["5", "6"]), source="more").rows_new == 1
    with pytest.raises(IngestError):
        lake.writer().append("trades", trades(["6", "7"], amount=3.0), source="another amount")
