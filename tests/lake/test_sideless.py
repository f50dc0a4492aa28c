"""Trades whose source does not tell their side: written, compared, checked, and kept apart from liquidations."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from tidytape.errors import IngestError
from tidytape.lake import TRADES, Lake, _delta, hygiene
from tidytape.lake._batch import Batch
from tidytape.lake._dedupe import one_id_each, with_ids
from tidytape.lake._tables import LIQUIDATIONS

UNKNOWN = pl.lit(None, pl.String)


def sides(lake: Lake) -> list[Any]:
    return lake.scan("trades").sort("sequence").collect()["side"].to_list()


@pytest.mark.parametrize("absent", [False, True])
def test_a_trade_without_a_side_is_kept_without(lake: Lake, tape: Any, absent: bool) -> None:  # noqa: FBT001 - a cell of the table
    rows = tape(0, 4).drop("side") if absent else tape(0, 4).with_columns(side=UNKNOWN)
    assert lake.writer().append("trades", rows, source="a").rows_new == 4
    assert (
        lake.writer().append("trades", rows, source="b").rows_new == 0
    )  # unknown is unknown: the same trades
    assert lake.writer().append("trades", tape(4, 6), source="c").rows_new == 2
    assert sides(lake) == [None] * 4 + ["BUY", "SELL"]
    assert hygiene.check(lake, progress=False).sound
    assert sorted(str(file.sideless) for file in lake._files("trades", "BINANCE", "BTCUSDT")) == ["0", "4"]


@pytest.mark.parametrize("known_first", [False, True])
def test_a_known_and_an_unknown_side_of_one_trade_contradict_each_other(
    lake: Lake,
    tape: Any,
    known_first: bool,  # noqa: FBT001 - a cell of the table
) -> None:
    files = [tape(0, 3).with_columns(side=UNKNOWN), tape(0, 3)]
    first, second = reversed(files) if known_first else files
    lake.writer().append("trades", first, source="a")
    with pytest.raises(IngestError, match=r"'BUY' and None|None and 'BUY'"):
        lake.writer().append("trades", second, source="b")
    assert sides(lake) == first["side"].to_list()


def test_a_liquidation_has_a_side(lake: Lake, tape: Any) -> None:
    events = LIQUIDATIONS.conform(tape(0, 2))
    assert not LIQUIDATIONS["side"].nullable
    with pytest.raises(IngestError, match="null in column 'side'"):
        lake.writer().append("liquidations", events.with_columns(side=UNKNOWN), source="a")


def test_ids_that_are_made_of_content_do_not_need_a_side() -> None:
    event = {"exchange": "X", "raw_symbol": "Y", "timestamp": 5, "price": 10.0, "amount": 2.0}
    rows = pl.DataFrame(
        [event | {"side": side} for side in (None, "BUY", None)], schema_overrides={"side": pl.String}
    )
    first = with_ids(rows, Batch(TRADES))
    assert first["id"].to_list() == ["5/10.0/2.0/0", "5/10.0/2.0/BUY/0", "5/10.0/2.0/1"]
    before = Batch(TRADES)
    before.add(TRADES.conform(first.with_columns(sequence=pl.int_range(pl.len()), quote_amount=pl.lit(20.0))))
    # A later block of the file counts on from the earlier one.
    assert with_ids(rows, before)["id"].to_list() == ["5/10.0/2.0/2", "5/10.0/2.0/BUY/1", "5/10.0/2.0/3"]
    of_one_id = rows.with_columns(id=pl.lit("7"))
    reasons = one_id_each(of_one_id, TRADES.same)["reason"]
    assert reasons.is_not_null().to_list() == [False, True, False]


def test_compaction_and_versions_keep_what_is_unknown(lake: Lake, tape: Any) -> None:
    half = tape(0, 50).with_columns(side=pl.when(pl.col("sequence") % 3 > 0).then("side"))
    lake.writer().append("trades", half[:20], source="a")
    version = lake.version()["trades"]
    lake.writer().append("trades", half[20:], source="b")
    assert hygiene.compact(lake, everything=True, progress=False)
    assert_frame_equal(lake.scan("trades").sort("sequence").collect(), half)
    assert_frame_equal(lake.at({"trades": version}).scan("trades").sort("sequence").collect(), half[:20])
    (file,) = _delta.files(lake.delta("trades"), ("BINANCE", "BTCUSDT"))
    assert file.sideless == half["side"].null_count()
