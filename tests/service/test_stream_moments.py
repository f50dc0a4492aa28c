"""What moments of a stream are made of: tables and partitions that its points read, and versions that a token names."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from tidytape.lake import Lake
from tidytape.query import PointsQuery
from tidytape.service.answer._engine import Engine
from tidytape.service.stream._moments import Moment, partitions_read
from tidytape.service.stream._tokens import Position


def test_points_read_the_events_the_prices_and_the_rates_of_their_markets(tmp_path: Path) -> None:
    lake = Lake.create(tmp_path / "lake")
    markets = [("X", "BTCEUR", "BTC", "EUR"), ("X", "BTCUSD", "BTC", "USD"), ("V", "EURUSD", "EUR", "USD")]
    lake.writer().register(
        pl.DataFrame(markets, schema=["exchange", "raw_symbol", "coin", "quote_coin"], orient="row")
    )
    moment = Moment(Engine(lake))

    def read(symbol: str, **more: str) -> set[tuple[str, ...]]:
        query = PointsQuery(
            type="OPEN_INTEREST_AGG", exchange="X", raw_symbol=symbol, interval="1m", start=0, end=60, **more
        )
        selected = moment.engine.markets(query, rates=False)["OPEN_INTEREST_AGG"]
        return {(table, *names) for table, names in partitions_read(query, selected, moment)}

    assert read("BTCEUR") == {("open_interest", "X", "BTCEUR")}
    tables = ("open_interest", "trades", "candles")
    rates = {("quote_rates",)}
    assert read("BTCUSD", quote="USD") == {(table, "X", "BTCUSD") for table in tables} | rates
    assert read("BTCEUR", quote="USD") > {(table, "X", "BTCEUR") for table in tables} | rates
    assert ("trades", "V", "EURUSD") in read("BTCEUR", quote="USD")


def test_a_token_of_an_older_release_may_name_more_tables() -> None:
    position = Position({"trades": 5, "candles": 2}, {"trades": 4, "candles": 2}, 60, 0)
    assert position.narrowed(["trades"]) == Position({"trades": 5}, {"trades": 4}, 60, 0)
    assert position.narrowed(["trades", "book"]).at == {"trades": 5, "book": -1}
    assert Position({"trades": 5}, None, None, 0).narrowed(["trades"]).since is None
