"""Tables with columns of lists."""

from __future__ import annotations

import polars as pl
import pytest

from tidytape.errors import IngestError
from tidytape.lake import Column, Table
from tidytape.lake._tables import MARKETS, PREDICTION_MARKETS, TABLES
from tidytape.schema import MARKETS as MARKET_ENTRY
from tidytape.schema import PREDICTION_MARKET_ENTRY as PREDICTION_ENTRY

LISTS = Table(
    name="lists",
    rows="one row per name",
    columns=(
        Column("name", "string", "", "Name"),
        Column("words", "list[string]", "", "Words", nullable=True),
        Column("sizes", "list[float64]", "m", "Sizes", nullable=True),
    ),
    key=("name",),
    same=(),
    partitions=(),
    order=("name",),
)


def test_lists_have_their_dtypes():
    assert LISTS.empty().schema == {
        "name": pl.String,
        "words": pl.List(pl.String),
        "sizes": pl.List(pl.Float64),
    }
    got = LISTS.conform(pl.DataFrame({"name": ["a", "b"], "sizes": [[1], None]}))
    assert got.rows() == [("a", None, [1.0]), ("b", None, None)]
    assert got.schema == LISTS.empty().schema


@pytest.mark.parametrize("column", [{"words": ["one"]}, {"sizes": [1.5]}, {"sizes": [["one"]]}])
def test_what_is_no_list_is_refused(column):
    with pytest.raises(IngestError, match="lists"):
        LISTS.conform(pl.DataFrame({"name": ["a"]} | column))


def test_every_fact_of_the_entries_is_a_column():
    # What follows from the events of the lake is not kept.
    computed = {"last_price", "volume_24h", "volume_change_24h", "price_change_24h", "oi_change_24h"}
    assert set(MARKET_ENTRY.names) - set(MARKETS.names) == computed
    assert set(PREDICTION_ENTRY.names) <= set(PREDICTION_MARKETS.names)


def test_every_column_is_documented_once():
    for table in TABLES.values():
        assert len(set(table.names)) == len(table.names)
        assert all(column.doc for column in table.columns)
        assert set(table.key) | set(table.order) | set(table.partitions) <= set(table.names)
