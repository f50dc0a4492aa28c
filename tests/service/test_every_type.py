"""Every data type, from raw events in a lake to the frame that a client gets."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from lakes import empty_lake
from simulated import rollup_events as events
from simulated.everything import ASKED, everything
from tidytape import Client, aggregate
from tidytape.catalogue import DATA_TYPES
from tidytape.errors import TidytapeError
from tidytape.lake import TABLES, Lake
from tidytape.lake.rollup import rollup
from tidytape.query import PointsQuery
from tidytape.schema import LISTS, schema_of
from tidytape.service.answer._engine import Engine
from tidytape.wire import decode, encode, from_arrow, levels_of, nested, sessions_of, to_arrow
from tidytape.wire._tidy import DATA_UNTIL

START, MINUTE = events.START, events.MINUTE
S0 = START // 10**9
DAY = 86_400


def _points(client: Client[pl.DataFrame], **asked: Any) -> pl.DataFrame:
    return client.fetch(PointsQuery(**asked)).frame


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return everything(tmp_path_factory.mktemp("every") / "lake")


def test_there_is_an_answer_to_every_type_of_the_catalogue() -> None:
    assert set(ASKED) == set(DATA_TYPES)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(ASKED))
def test_a_client_gets_what_the_engine_made(lake: Lake, name: str) -> None:
    interval = "1d" if name in {"TOKEN_SUPPLY_AGG", "TPO_AGG"} else "1h"
    asked = {"type": name, "interval": interval, "start": S0, "end": S0 + DAY, **ASKED[name]}
    query = PointsQuery(**asked)
    engine = Engine(lake)
    ((_, made),) = engine.frames(query, engine.markets(query))
    assert made.height
    assert made["timestamp"].null_count() == 0
    with Client.local(lake.path) as client:
        got = _points(client, **asked)
    assert list(got.columns) == list(schema_of(name).names)
    if name == "TPO_AGG":
        made = levels_of(made)
    assert got.sort(schema_of(name).key).equals(made.select(got.columns).sort(schema_of(name).key))


@pytest.mark.slow
@pytest.mark.parametrize("more", [{}, {"group_by": "SUM"}, {"sort_direction": "desc"}], ids=str)
def test_a_market_profile_is_the_same_pair_in_every_form(lake: Lake, more: dict[str, str]) -> None:
    asked = {"type": "TPO_AGG", "interval": "1h", "start": S0, "end": S0 + DAY, "tpo_block_minutes": 5}
    query = PointsQuery(**asked, **ASKED["TPO_AGG"], **more)
    engine = Engine(lake)
    ((name, frame),) = engine.frames(query, engine.markets(query))
    assert frame.select(pl.col(*LISTS.values()).list.len().sum()).row(0) > (0, 0, 0)
    pair = levels_of(frame), sessions_of(frame)
    assert pair[0].select(pl.col(*LISTS).sum()).row(0) == frame.select(
        pl.col(*LISTS.values()).list.len().sum()
    ).row(0)
    for write, read in ((encode, decode), (to_arrow, from_arrow)):
        body = write(nested(*pair).with_columns(frame[DATA_UNTIL]), name)
        again = read(body, name)
        for made, expected in zip((levels_of(again), sessions_of(again)), pair, strict=True):
            assert made.drop(DATA_UNTIL, strict=False).equals(expected.drop(DATA_UNTIL, strict=False))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::tidytape.errors.EmptyAnswerWarning")
@pytest.mark.parametrize("name", sorted(ASKED))
def test_a_window_without_events_is_empty_with_every_column(lake: Lake, name: str) -> None:
    asked = {"type": name, "interval": "1d", "start": S0 - 100 * DAY, "end": S0 - 90 * DAY, **ASKED[name]}
    with Client.local(lake.path) as client:
        got = _points(client, **asked)
    assert got.height == 0
    assert got.schema == schema_of(name).empty().schema


@pytest.mark.slow
def test_usd_open_interest_is_that_of_the_buckets_close(lake: Lake) -> None:
    asked = {"exchange": "X", "raw_symbol": "BTCUSDT", "interval": "1h", "start": S0, "end": S0 + DAY}
    with Client.local(lake.path) as client:
        coins, usd = (
            _points(client, type="OPEN_INTEREST_AGG", **asked, **more) for more in ({}, {"quote": "USD"})
        )
        candles = _points(client, type="TRADE_SIDE_AGNOSTIC_AGG", **asked, gapfill=True)
    both = coins.join(usd, on="timestamp", suffix="_usd").join(
        candles.select("timestamp", price="close"), on="timestamp"
    )
    assert both.height > 1
    assert np.allclose(both["close"] * both["price"], both["close_usd"], rtol=1e-12, equal_nan=True)


@pytest.mark.slow
def test_recorded_candles_answer_where_there_are_no_trades(lake: Lake) -> None:
    asked = {"exchange": "X", "raw_symbol": "OLDUSDT", "start": S0, "end": S0 + DAY}
    with Client.local(lake.path) as client:
        hours = _points(client, type="TRADE_SIDE_AGNOSTIC_AGG", interval="1h", **asked)
        minutes = _points(client, type="TRADE_SIDE_AGNOSTIC_AGG", interval="1m", **asked)
    row = ["open", "high", "low", "close", "volume"]
    assert hours.select(row).rows() == [(1.0, 5.0, 0.5, 4.0, 30.0), (3.0, 4.0, 3.0, 3.5, 60.0)]
    assert minutes.height == 2  # the hour is no minute


@pytest.mark.slow
def test_a_bucket_is_whole_whatever_the_window(lake: Lake) -> None:
    """The last bucket that starts inside the window is not cut at its end."""
    asked = {"type": "TRADE_SIDE_AGNOSTIC_AGG", "interval": "1h", **ASKED["TRADE"], "start": S0}
    with Client.local(lake.path) as client:
        whole = _points(client, **asked, end=S0 + 3 * 3_600)
        cut = _points(client, **asked, end=S0 + 2 * 3_600 + 60)
    assert cut.equals(whole)


@pytest.mark.slow
def test_the_trades_of_a_lake_without_rollups_are_those_of_one_with(lake: Lake, tmp_path: Path) -> None:
    asked = {"type": "TRADE_AGG", "interval": "5m", **ASKED["TRADE"], "start": S0, "end": S0 + DAY}
    with Client.local(lake.path) as client:
        before = _points(client, **asked)
    rollup(lake)
    with Client.local(lake.path) as client:
        assert _points(client, **asked).equals(before)
    direct = aggregate.candles(lake.scan("trades", exchange="X"), interval="5m", by_side=True).collect()
    assert np.allclose(before["volume"].sum(), direct["volume"].sum(), rtol=1e-12)
    assert before.height == direct.height


@pytest.mark.slow
def test_groups_of_several_coins_reach_the_client(tmp_path: Path) -> None:
    """A group has no venue and no symbol, so its coin alone tells it from another."""
    made = empty_lake(tmp_path / "lake")
    rows = [
        {
            "exchange": exchange,
            "raw_symbol": f"{coin}USDT",
            "id": str(number),
            "timestamp": START + number * MINUTE,
            "sequence": number,
            "side": "BUY",
            "price": price,
            "amount": 1.0,
            "quote_amount": price,
        }
        for exchange, (coin, price), number in product(("X", "Y"), (("BTC", 10.0), ("ETH", 2.0)), range(3))
    ]
    made.writer().append("trades", TABLES["trades"].conform(pl.DataFrame(rows)), source="by hand")
    markets = pl.DataFrame(rows).select("exchange", "raw_symbol").unique()
    coin = pl.col("raw_symbol").str.head(3)
    made.writer().register(
        markets.with_columns(coin=coin, normalized_symbol=coin + "-USDT", quote_coin=pl.lit("USDT"))
    )
    asked = {
        "type": "TRADE_SIDE_AGNOSTIC_AGG", "interval": "1m", "exchange": ["X", "Y"], "coin": ["BTC", "ETH"],
        "start": S0, "end": S0 + DAY, "group_by": "SUM",
    }  # fmt: skip
    with Client.local(made.path) as client:
        got = _points(client, **asked)
        newest = _points(client, **asked, sort_direction="DESC")
    assert got.select(pl.col("coin").cast(pl.String), "close", "volume").rows() == [
        *[("BTC", 10.0, 20.0)] * 3,
        *[("ETH", 2.0, 4.0)] * 3,
    ]
    assert newest["timestamp"].to_list() == [*got["timestamp"][:3][::-1], *got["timestamp"][3:][::-1]]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"type": "TOKEN_SUPPLY_AGG", "token_name": "bitcoyn"}, "bitcoin"),
        ({"type": "VENUEX_LIQUIDATION_AGG", "coin": "BTX"}, "BTC"),
        ({"type": "IMPLIED_VOLATILITY_OPTION_SUMMARY_AGG", "exchange": "DERIBIT", "coin": "BTX"}, "BTC"),
        ({"type": "OPTION_OPEN_INTEREST_AGG", "exchange": "DERIBID", "coin": "BTC"}, "DERIBIT"),
    ],
)
def test_what_the_lake_does_not_hold_is_named_with_the_nearest(lake: Lake, changed, message) -> None:
    with Client.local(lake.path) as client, pytest.raises(TidytapeError, match=message):
        _points(client, interval="1d", start=S0, end=S0 + DAY, **changed)
