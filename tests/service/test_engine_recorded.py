"""Markets that are known by recorded candles, worth that is known from the window on, depth of groups, tokens."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from lakes import copied_lake, empty_lake
from tidytape.client import Client
from tidytape.errors import EmptyAnswerWarning, QueryError
from tidytape.lake import BOOK, Lake
from tidytape.lake._tables import RECORDED_CANDLES, TOKEN_SUPPLY
from tidytape.query import PointsQuery
from tidytape.service.answer._engine import Engine
from tidytape.wire import decode, encode

HOUR = 3_600 * 10**9
T0 = 1_723_161_600 * 10**9  # 2024-08-09T00:00:00Z


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return copied_lake(tmp_path / "lake", filled)


def filled(path: Path) -> Lake:
    made = empty_lake(path)
    for exchange, quote in (("A", "EUR"), ("B", "EUR"), ("C", "USDT"), ("D", "USDT")):
        names = {"exchange": exchange, "raw_symbol": "BTC", "coin": "BTC", "quote_coin": quote}
        made.writer().register(pl.DataFrame([names | {"category": "PERPETUAL", "block_size": 1.0}]))
    made.writer().append(
        "quote_rates", pl.DataFrame({"quote_coin": ["EUR"], "timestamp": [T0], "usd": [1.5]}), source="eur"
    )
    for exchange in "ABCD":
        reports = pl.select(
            exchange=pl.lit(exchange),
            raw_symbol=pl.lit("BTC"),
            timestamp=T0 + pl.int_range(24) * HOUR,
            amount=pl.lit(2.0),
        )
        made.writer().append("open_interest", reports, source=exchange)
        made.writer().append("candles", recorded(exchange, HOUR, 24), source=exchange)
    return made


def recorded(exchange: str, interval: int, count: int) -> pl.DataFrame:
    """Candles of one length, in which one coin a minute was traded at 100."""
    minutes = interval / HOUR * 60
    return RECORDED_CANDLES.conform(
        pl.select(
            exchange=pl.lit(exchange),
            raw_symbol=pl.lit("BTC"),
            timestamp=T0 + pl.int_range(count) * interval,
            interval=pl.lit(interval),
            **{name: pl.lit(100.0) for name in ("open", "high", "low", "close")},
            volume=pl.lit(minutes),
            quote_volume=pl.lit(minutes * 100),
        )
    )


def answer(
    lake: Lake, kind: str, hours: tuple[int, int], interval: str = "1h", **more: object
) -> pl.DataFrame:
    start, end = (T0 // 10**9 + hour * 3_600 for hour in hours)
    query = PointsQuery(type=kind, interval=interval, start=start, end=end, **more)
    engine = Engine(lake, clock=lambda: T0 + 1_000 * HOUR)
    return engine.frames(query, engine.markets(query))[0][1]


@pytest.mark.slow
def test_a_group_needs_no_worth_of_the_day_before_the_window(lake: Lake) -> None:
    group = {"exchange": ["A", "B"], "coin": "BTC"}
    points = answer(lake, "OPEN_INTEREST_AGG", (1, 3), group_by="sum", **group)
    assert points["close"].to_list() == [2 * 2.0 * 100 * 1.5] * 2


@pytest.mark.slow
def test_open_interest_of_a_market_without_trades_is_worth_its_recorded_close(lake: Lake) -> None:
    points = answer(lake, "OPEN_INTEREST_AGG", (1, 3), exchange="C", raw_symbol="BTC", quote="USD")
    assert points["close"].to_list() == [200.0, 200.0]


@pytest.mark.slow
def test_a_recorded_close_fills_gaps(lake: Lake) -> None:
    points = answer(lake, "TRADE_SIDE_AGNOSTIC_AGG", (30, 32), exchange="C", raw_symbol="BTC", gapfill=True)
    assert points.select("close", "volume").rows() == [(100.0, 0.0)] * 2


def test_recorded_candles_of_another_quote_are_worth_usd(lake: Lake) -> None:
    points = answer(lake, "TRADE_SIDE_AGNOSTIC_AGG", (1, 2), exchange="A", raw_symbol="BTC", quote="USD")
    assert points["volume"].to_list() == [60 * 100 * 1.5]


def unvalued(lake: Lake) -> None:
    """Add a market whose recorded candles have no quote volume; its volume in coins is known."""
    lake.writer().append("candles", recorded("E", HOUR, 24).with_columns(quote_volume=None), source="E")
    names = {"exchange": "E", "raw_symbol": "BTC", "coin": "BTC", "quote_coin": "USDT"}
    lake.writer().register(pl.DataFrame([names | {"category": "PERPETUAL"}]))


@pytest.mark.slow
def test_volume_in_usd_is_null_where_recorded_candles_have_no_quote_volume(lake: Lake) -> None:
    unvalued(lake)
    asked = {"exchange": "E", "raw_symbol": "BTC"}
    assert answer(lake, "TRADE_SIDE_AGNOSTIC_AGG", (0, 2), **asked)["volume"].to_list() == [60.0, 60.0]
    points = answer(lake, "TRADE_SIDE_AGNOSTIC_AGG", (0, 2), quote="USD", **asked)
    assert points.select("close", "volume").rows() == [(100.0, None)] * 2
    assert encode(points, "TRADE_SIDE_AGNOSTIC_AGG").count(b'"volume":null') == 2


@pytest.mark.slow
@pytest.mark.parametrize("interval", ["1h", "4h"])
def test_a_group_with_a_member_of_unknown_volume_has_an_unknown_volume(lake: Lake, interval: str) -> None:
    unvalued(lake)
    group = {"exchange": ["C", "D", "E"], "coin": "BTC", "group_by": "sum"}
    points = answer(lake, "TRADE_SIDE_AGNOSTIC_AGG", (0, 4), interval, **group)
    prices = points.select("open", "high", "low", "close", "volume", "coverage").rows()
    # Recorded candles do not say when they traded first and last, so which member opened the interval is not known.
    assert set(prices) == {(None, 100.0, 100.0, None, None, 2 / 3)}
    known = answer(lake, "TRADE_SIDE_AGNOSTIC_AGG", (0, 4), interval, **group | {"exchange": ["C", "D"]})
    hours = int(interval[0])
    assert set(known.select("volume", "coverage").rows()) == {(2 * 60 * 100.0 * hours, 1.0)}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::tidytape.errors.EmptyAnswerWarning")
def test_a_client_sees_the_coverage_of_a_group_in_any_form(lake: Lake) -> None:
    unvalued(lake)
    asked = {"exchange": ["C", "E"], "coin": "BTC", "interval": "1h", "group_by": "sum"}
    day = {"start": "2024-08-09", "end": "2024-08-10"}
    with Client.local(lake.path) as client:
        candles = client.candles(**asked, **day)
        empty = client.candles(**asked, start="2023-01-01", end="2023-01-02")
    place = candles.columns.index("coverage")
    assert candles.columns[place - 1] == "is_final"
    assert candles.select("volume", "coverage").unique().rows() == [(None, 0.5)]
    assert (empty.height, empty.schema) == (0, candles.schema)
    body = encode(candles, "TRADE_SIDE_AGNOSTIC_AGG")
    own = ["timestamp", "close", "volume", "coverage"]
    assert decode(body, "TRADE_SIDE_AGNOSTIC_AGG").select(own).equals(candles.select(own))


@pytest.mark.slow
def test_a_day_is_of_minutes_where_candles_of_hours_end(lake: Lake) -> None:
    lake.writer().append("candles", recorded("E", HOUR, 12), source="hours")
    lake.writer().append("candles", recorded("E", HOUR // 60, 24 * 60), source="minutes")
    lake.writer().register(pl.DataFrame({"exchange": "E", "raw_symbol": ["BTC"], "coin": "BTC"}))
    points = answer(lake, "TRADE_SIDE_AGNOSTIC_AGG", (0, 24), "1d", exchange="E", raw_symbol="BTC")
    assert points["volume"].to_list() == [24 * 60.0]


@pytest.mark.slow
def test_each_time_is_of_the_shortest_candles_that_tell_it_whole(lake: Lake) -> None:
    """Quarters of 1 coin a minute but one, hours of 2 without the last; of the four hours none is told twice."""
    quarters = recorded("E", HOUR // 4, 16)
    hours = recorded("E", HOUR, 3).with_columns(pl.col("volume") * 2)
    lake.writer().append(
        "candles", quarters.filter(pl.col("timestamp") != T0 + HOUR + HOUR // 4), source="quarters"
    )
    lake.writer().append("candles", hours, source="hours")
    lake.writer().register(pl.DataFrame({"exchange": "E", "raw_symbol": ["BTC"], "coin": "BTC"}))
    asked = {"exchange": "E", "raw_symbol": "BTC"}
    by_hour = answer(lake, "TRADE_SIDE_AGNOSTIC_AGG", (0, 4), "1h", **asked)
    assert by_hour["volume"].to_list() == [60.0, 120.0, 60.0, 60.0]
    assert answer(lake, "TRADE_SIDE_AGNOSTIC_AGG", (0, 4), "4h", **asked)["volume"].to_list() == [300.0]
    by_quarter = answer(lake, "TRADE_SIDE_AGNOSTIC_AGG", (1, 2), "15m", **asked)
    assert by_quarter["volume"].to_list() == [15.0] * 3


@pytest.mark.slow
def test_a_group_is_cut_to_its_depth_after_it_is_joined(lake: Lake) -> None:
    for exchange, bids in (("C", (100, 99, 98)), ("D", (98, 97, 96))):
        book = pl.DataFrame({"price": [*map(float, bids), 105.0]})
        book = book.with_columns(
            exchange=pl.lit(exchange),
            raw_symbol=pl.lit("BTC"),
            timestamp=T0,
            last_id=1,
            is_snapshot=True,
            side=pl.when(pl.col("price") < 105).then(pl.lit("BID")).otherwise(pl.lit("ASK")),
            size=1.0,
            sequence=pl.int_range(pl.len()),
        )
        lake.writer().append("book", BOOK.conform(book), source=exchange)
    group = {"exchange": ["C", "D"], "coin": "BTC", "group_by": "sum"}
    points = answer(lake, "BLOCK_BOOK_SNAPSHOT_AGG", (0, 1), max_depth=3, **group)
    bids = points.filter(pl.col("side") == "BID").sort("price", descending=True)
    assert bids.select("price", "size").rows() == [(100.0, 100.0), (99.0, 99.0), (98.0, 2 * 98.0)]


@pytest.mark.slow
def test_a_token_whose_coin_some_reports_lack_is_one(lake: Lake) -> None:
    reports = pl.DataFrame({"coin": ["ABC", None], "timestamp": [T0, T0 + HOUR], "marketcap": [1.0, 2.0]})
    lake.writer().append(
        "token_supply", TOKEN_SUPPLY.conform(reports.with_columns(token_name=pl.lit("abc"))), source="a"
    )
    points = answer(lake, "TOKEN_SUPPLY_AGG", (0, 2), token_name="abc")
    assert points.select("coin", "marketcap").rows() == [("ABC", 1.0), ("ABC", 2.0)]


@pytest.mark.slow
def test_candles_finer_than_those_that_were_recorded_are_refused_not_empty(lake: Lake) -> None:
    def asked(hours: tuple[int, int], interval: str, **more: str) -> dict[str, Any]:
        start, end = (T0 // 10**9 + hour * 3_600 for hour in hours)
        return {
            "exchange": "C",
            "raw_symbol": "BTC",
            "interval": interval,
            "start": start,
            "end": end,
            **more,
        }

    with Client.local(lake.path) as client:
        for interval in ("1m", "30m"):
            with pytest.raises(
                QueryError, match="make up: HOUR, FOUR_HOURS, DAY, WEEK; there are no"
            ) as caught:
                client.candles(**asked((1, 3), interval))
            assert (caught.value.parameter, caught.value.code, caught.value.status) == (
                "interval", "INVALID_INTERVAL", 400,
            )  # fmt: skip
        assert client.usage().used == 0
        assert client.candles(**asked((1, 3), "1h")).height == 2
        with pytest.warns(EmptyAnswerWarning, match="and none in"):
            assert client.candles(**asked((50, 52), "1m")).is_empty()
        with pytest.warns(EmptyAnswerWarning, match="C BTC has no TRADE_AGG"):
            assert client.candles(**asked((1, 3), "1m"), by_side=True).is_empty()
        assert client.open_interest(**asked((1, 3), "1m", quote="USD")).height
        assert client.markets(exchange="C").height == 1


@pytest.mark.slow
def test_a_group_leaves_out_no_member_whose_candles_are_too_long(lake: Lake) -> None:
    """D has candles of minutes, C of hours alone: a minute of both is not known."""
    lake.writer().append("candles", recorded("D", HOUR // 60, 60), source="minutes")
    asked: dict[str, Any] = {
        "exchange": ["C", "D"],
        "coin": "BTC",
        "group_by": "sum",
        "start": T0 // 10**9,
        "end": T0 // 10**9 + 3_600,
    }
    with Client.local(lake.path) as client:
        with pytest.raises(QueryError, match="make up: HOUR, FOUR_HOURS, DAY, WEEK"):
            client.candles(**asked, interval="1m")
        assert client.usage().used == 0
        assert client.candles(**asked, interval="1h")["volume"].to_list() == [2 * 60 * 100.0]
