"""Newest first is the exact reverse of oldest first, inside one time too, in JSON and in the frame."""

from __future__ import annotations

from pathlib import Path

import orjson
import polars as pl
import pytest

from lakes import empty_lake
from tidytape.lake import TABLES
from tidytape.query import PointsQuery
from tidytape.service.answer._engine import Engine
from tidytape.wire import encode

T0 = 1_723_161_600  # 2024-08-09T00:00:00Z
NAMES = ("exchange", "raw_symbol", "side")


@pytest.mark.slow
def test_trades_of_one_time_are_reversed_too(tmp_path: Path) -> None:
    trades = pl.DataFrame(
        {
            "id": ["9", "10", "11", "12", "13", "14"], "timestamp": [5, 5, 5, 5, 7, 7], "sequence": [1, 2, 3, 4, 5, 6],
            "side": ["BUY", "BUY", "SELL", "BUY", "SELL", "BUY"], "price": [3.0, 1.0, 2.0, 5.0, 4.0, 6.0],
        },
    )  # fmt: skip
    trades = trades.with_columns(
        pl.col("timestamp") + T0 * 10**9, exchange=pl.lit("X"), amount=1.0, quote_amount=pl.col("price")
    )
    lake = empty_lake(tmp_path / "lake")
    both = [trades.with_columns(raw_symbol=pl.lit(symbol)) for symbol in ("A", "B")]
    lake.writer().register(
        pl.DataFrame({"exchange": "X", "raw_symbol": ["A", "B"], "coin": "C", "quote_coin": "USD"})
    )
    lake.writer().append("trades", TABLES["trades"].conform(pl.concat(both)), source="trades")
    answers = []
    for direction in ("asc", "desc"):
        query = PointsQuery(
            type="TRADE", exchange="X", coin="C", start=T0, end=T0 + 60, sort_direction=direction
        )
        engine = Engine(lake, clock=lambda: (T0 + 100) * 10**9)
        answers.append(engine.frames(query, engine.markets(query))[0][1])
    oldest, newest = (
        [one["points"] for one in orjson.loads(encode(frame, "TRADE"))["series"]] for frame in answers
    )
    assert len(oldest) == 4
    assert newest == [points[::-1] for points in oldest]
    of_series = [part.reverse() for part in answers[0].partition_by(NAMES, maintain_order=True)]
    assert answers[1].equals(pl.concat(of_series))
