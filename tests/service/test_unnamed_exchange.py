"""The liquidation heatmap of a lake that names no exchange, and parameters that a data type has no use for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import polars as pl
import pytest
from typer.testing import CliRunner

from lakes import empty_lake
from tidytape import Client
from tidytape.catalogue import NoteCode
from tidytape.cli import app
from tidytape.errors import QueryError
from tidytape.lake import TABLES, Lake
from tidytape.query import PointsQuery
from tidytape.service.answer._engine import Engine
from tidytape.wire._encode import encode_all

T0 = 1_723_161_600  # 2024-08-09T00:00:00Z
HEATMAP = {"type": "VENUEX_LIQUIDATION_AGG", "coin": "BTC", "interval": "1h", "start": T0, "end": T0 + 3600}


def lake_of(path: Path, *exchanges: str) -> Lake:
    """A lake in which one coin was liquidated at 100 and at 101 on each exchange, in two quotes that count as USD."""
    lake = empty_lake(path / "lake")
    for number, exchange in enumerate(exchanges):
        markets = pl.DataFrame({"raw_symbol": ["A", "B"], "quote_coin": ["USD", "USDT"]}).with_columns(
            exchange=pl.lit(exchange), coin=pl.lit("BTC"), category=pl.lit("PERPETUAL"), block_size=1.0
        )
        lake.writer().register(markets)
        events = markets.select("exchange", "raw_symbol", id="raw_symbol").with_columns(
            timestamp=pl.int_range(pl.len()) + T0 * 10**9 + number, sequence=1, side=pl.lit("BUY"),
            price=pl.Series([100.0, 101.0]), amount=1.0 + number, quote_amount=100.0,
        )  # fmt: skip
        lake.writer().append("liquidations", TABLES["liquidations"].conform(events), source=exchange)
    return lake


def answer(lake: Lake, **query: Any) -> dict[str, Any]:
    asked = PointsQuery(**query)
    engine = Engine(lake, clock=lambda: (T0 + 10**6) * 10**9)
    markets = engine.markets(asked)
    frames = engine.frames(asked, markets)
    return orjson.loads(encode_all(frames, engine.notes(asked, markets, frames)))


@pytest.mark.slow
def test_without_a_name_the_liquidations_of_all_exchanges_are_summed(tmp_path: Path) -> None:
    lake = lake_of(tmp_path, "Y", "X")
    body = answer(lake, **HEATMAP)
    [series] = body["series"]
    assert "exchange" not in series["id"]
    assert series["id"]["coin"] == "BTC"
    assert [point["Point"]["levels"] for point in series["points"]] == [[100.0, 3.0, 101.0, 3.0]]
    [note] = body["notes"]
    assert note == {"code": "SUMMED", "type": HEATMAP["type"], "coin": "BTC", "exchanges": ["X", "Y"]}
    [series] = answer(lake, exchange="X", **HEATMAP)["series"]
    assert series["id"]["exchange"] == "X"
    with Client.local(lake.path) as client:
        fetched = client.fetch(
            client.query.liquidation_heatmap(coin="BTC", interval="1h", start=T0, end=T0 + 3600)
        )
    assert fetched.frame.select("price", "liquidations").rows() == [(100.0, 3.0), (101.0, 3.0)]
    [reason] = fetched.metadata.reason
    assert reason.code is NoteCode.SUMMED
    assert str(reason) == "BTC has VENUEX_LIQUIDATION_AGG of several exchanges, summed: X, Y"


@pytest.mark.slow
def test_a_lake_may_name_its_exchange(tmp_path: Path) -> None:
    lake = lake_of(tmp_path, "X", "Y")
    with pytest.raises(
        QueryError, match=r"exchange: got 'Z', expected an exchange of which the lake has .*: X, Y"
    ):
        lake.writer().name_heatmap_exchange("Z")
    before = lake.now()
    assert before.heatmap_exchange() is None
    assert (
        CliRunner().invoke(app, ["lake", "set", "--lake", lake.path, "--heatmap-exchange", "Y"]).exit_code
        == 0
    )
    lake.writer().register(pl.DataFrame({"exchange": ["W"], "raw_symbol": ["A"]}))
    assert (Lake(lake.path).heatmap_exchange(), before.heatmap_exchange()) == ("Y", None)
    body = answer(Lake(lake.path), **HEATMAP)
    assert [series["id"]["exchange"] for series in body["series"]] == ["Y"]
    assert body["notes"] == []


@pytest.mark.slow
def test_with_a_name_only_that_exchange_counts(tmp_path: Path) -> None:
    body = answer(lake_of(tmp_path, "X", "VENUEX"), **HEATMAP)
    assert [series["id"]["exchange"] for series in body["series"]] == ["VENUEX"]
    assert body["notes"] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("field", "wire"),
    [("max_depth", "maxDepth"), ("funding_interval", "transform.normalize.fundingInterval")],
)
def test_a_parameter_without_use_has_a_note(tmp_path: Path, field: str, wire: str) -> None:
    lake = lake_of(tmp_path, "X")
    query = HEATMAP | {"type": "LIQUIDATION_AGG", "exchange": "X"}
    plain, noted = answer(lake, **query), answer(lake, **query, **{field: 3_600_000})
    assert noted["series"] == plain["series"]
    assert plain["notes"] == []
    assert noted["notes"] == [{"code": "IGNORED", "type": "LIQUIDATION_AGG", "parameters": [wire]}]
