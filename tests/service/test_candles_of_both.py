"""Markets with recorded candles and trades: each bucket has one source, and none is silently a part."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from lakes import empty_lake
from tidytape.catalogue import NoteCode
from tidytape.client import Client
from tidytape.client._reasons import Reason
from tidytape.errors import EmptyAnswerWarning, QueryError
from tidytape.lake import TABLES, Lake
from tidytape.lake.rollup import rollup
from tidytape.query import PointsQuery
from tidytape.service.answer._engine import Engine
from tidytape.service.answer._estimate import Statistics, estimated
from tidytape.service.answer._markets import MarketStatistics
from tidytape.wire._notes import Note

NS = 10**9
MINUTE, HOUR = 60 * NS, 3_600 * NS
T0 = 1_723_161_600 * NS  # 2024-08-09T00:00:00Z
CANDLES = "TRADE_SIDE_AGNOSTIC_AGG"
HOURS = 6
BTC = {"exchange": "X", "raw_symbol": "BTC"}


def recorded(length: int, starts: Any, *, each: float, price: float = 100.0) -> pl.DataFrame:
    """Candles of one length in which ``each`` coins were traded per minute."""
    volume = each * length / MINUTE
    return TABLES["candles"].conform(
        pl.DataFrame({"timestamp": [T0 + start for start in starts]}, schema={"timestamp": pl.Int64}).with_columns(
            exchange=pl.lit("X"), raw_symbol=pl.lit("BTC"), interval=pl.lit(length), volume=pl.lit(volume),
            quote_volume=pl.lit(volume * price),
            **{name: pl.lit(price) for name in ("open", "high", "low", "close")},
        )
    )  # fmt: skip


def trades(times: Any, *, amount: float = 1.0, price: float = 100.0) -> pl.DataFrame:
    frame = pl.DataFrame({"timestamp": [T0 + time for time in times]})
    return TABLES["trades"].conform(
        frame.with_columns(
            exchange=pl.lit("X"), raw_symbol=pl.lit("BTC"), side=pl.lit("BUY"), price=pl.lit(price),
            amount=pl.lit(amount), quote_amount=pl.lit(amount * price), sequence=pl.int_range(pl.len()),
            id=pl.col("timestamp").cast(pl.String),
        )
    )  # fmt: skip


def made(
    path: Path, candles: list[pl.DataFrame], events: pl.DataFrame | None, *, quote: str = "USDT"
) -> Lake:
    lake = empty_lake(path / "lake")
    lake.writer().register(
        pl.DataFrame([BTC | {"coin": "BTC", "quote_coin": quote, "category": "PERPETUAL", "block_size": 1.0}])
    )
    for place, rows in enumerate(candles):
        lake.writer().append("candles", rows, source=f"candles {place}")
    if events is not None:
        lake.writer().append("trades", events, source="trades")
    return lake


def every_minute(first: int, last: int) -> range:
    """One time a minute, half a minute in."""
    return range(first + MINUTE // 2, last, MINUTE)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Six hours of minutes with 1 coin each, and trades of 5 coins a minute from 02:15:30 to 04:44:30."""
    return made(
        tmp_path,
        [recorded(MINUTE, range(0, HOURS * HOUR, MINUTE), each=1.0)],
        trades(every_minute(2 * HOUR + 15 * MINUTE, 4 * HOUR + 45 * MINUTE), amount=5.0, price=200.0),
    )


def asked(span: tuple[int, int], interval: str, kind: str = CANDLES, **more: Any) -> PointsQuery:
    start, end = ((T0 + time) // NS for time in span)
    return PointsQuery(**{"type": kind, "interval": interval, "start": start, "end": end} | BTC | more)


def answer(
    lake: Lake, span: tuple[int, int], interval: str, kind: str = CANDLES, **more: Any
) -> pl.DataFrame:
    query = asked(span, interval, kind, **more)
    engine = Engine(lake, clock=lambda: T0 + 1_000 * HOUR)
    return engine.frames(query, engine.markets(query))[0][1]


DAY = (0, HOURS * HOUR)
FROM_BOTH = [60.0, 60.0, 60.0, 300.0, 60.0, 60.0]
"""03:00 lies inside of the trades; at 02:00 and 04:00 they begin and end, and the candles are whole."""


@pytest.mark.slow
def test_trades_answer_inside_their_extent_and_candles_outside(lake: Lake) -> None:
    got = answer(lake, DAY, "1h")
    assert got["volume"].to_list() == FROM_BOTH
    assert got["close"].to_list() == [100.0, 100.0, 100.0, 200.0, 100.0, 100.0]
    assert got["first_timestamp"].is_null().to_list() == [True, True, True, False, True, True]


@pytest.mark.slow
def test_the_source_of_a_bucket_does_not_depend_on_the_window_or_a_rollup(lake: Lake) -> None:
    hours = [answer(lake, (hour * HOUR, (hour + 1) * HOUR), "1h")["volume"].item() for hour in range(HOURS)]
    assert hours == FROM_BOTH
    whole = answer(lake, DAY, "1h")
    rollup(lake, progress=False)
    assert answer(lake, DAY, "1h").equals(whole)


@pytest.mark.slow
def test_a_minute_in_which_trades_begin_is_the_recorded_one(lake: Lake) -> None:
    got = answer(lake, (2 * HOUR + 14 * MINUTE, 2 * HOUR + 17 * MINUTE), "1m")
    assert got["volume"].to_list() == [1.0, 1.0, 5.0]


@pytest.mark.slow
def test_a_bucket_that_no_candle_covers_is_of_its_trades(tmp_path: Path) -> None:
    events = trades(every_minute(HOUR, 2 * HOUR))
    lake = made(tmp_path, [recorded(MINUTE, range(0, HOUR, MINUTE), each=1.0)], events)
    got = answer(lake, DAY, "1h")
    assert got["volume"].to_list() == [60.0, 60.0]
    assert got["first_timestamp"].is_null().to_list() == [True, False]


@pytest.mark.slow
def test_candles_that_end_where_trades_begin_make_up_one_bucket(tmp_path: Path) -> None:
    """Neither is whole: each minute counts once."""
    events = trades(every_minute(40 * MINUTE, 3 * HOUR), amount=2.0)
    lake = made(tmp_path, [recorded(MINUTE, range(0, 50 * MINUTE, MINUTE), each=1.0)], events)
    got = answer(lake, DAY, "1h")
    assert got["volume"].to_list() == [50 * 1.0 + 10 * 2.0, 120.0, 120.0]


@pytest.mark.slow
def test_candles_answer_between_two_recordings_of_trades(tmp_path: Path) -> None:
    events = pl.concat([trades(every_minute(0, 90 * MINUTE)), trades(every_minute(4 * HOUR, 6 * HOUR))])
    hours = recorded(HOUR, range(0, HOURS * HOUR, HOUR), each=3.0)
    got = answer(made(tmp_path, [hours], events), DAY, "1h")
    # Trades begin half a minute after midnight, stop at 01:29:30, begin again at 04:00:30 and end at 05:59:30.
    assert got["volume"].to_list() == [180.0] * 6
    fine = recorded(MINUTE, range(0, HOURS * HOUR, MINUTE), each=3.0)
    got = answer(made(tmp_path / "fine", [fine], events), DAY, "1h")
    assert got["volume"].to_list() == [180.0] * 6


@pytest.mark.slow
def test_a_quiet_candle_inside_of_the_trades_proves_nothing(tmp_path: Path) -> None:
    events = pl.concat([trades([0]), trades(every_minute(0, HOUR)), trades(every_minute(2 * HOUR, 3 * HOUR))])
    candles = recorded(MINUTE, range(HOUR, 2 * HOUR, MINUTE), each=0.0)
    got = answer(made(tmp_path, [candles], events), DAY, "1h")
    assert got["volume"].to_list() == [61.0, 60.0]
    assert got["first_timestamp"].null_count() == 0


@pytest.mark.slow
@pytest.mark.parametrize("more", [{"quote": "USD"}, {"group_by": "sum"}])
def test_in_usd_and_in_groups_each_bucket_has_its_source(lake: Lake, more: dict[str, str]) -> None:
    group = {"raw_symbol": (), "coin": "BTC"} if "group_by" in more else {}
    got = answer(lake, DAY, "1h", **more, **group)
    assert got["volume"].to_list() == [6_000.0, 6_000.0, 6_000.0, 60_000.0, 6_000.0, 6_000.0]


@pytest.mark.slow
def test_another_quote_is_worth_usd_from_both_sources(tmp_path: Path) -> None:
    events = trades(every_minute(0, 3 * HOUR), amount=5.0)
    lake = made(tmp_path, [recorded(MINUTE, range(0, HOURS * HOUR, MINUTE), each=1.0)], events, quote="EUR")
    lake.writer().append(
        "quote_rates", pl.DataFrame({"quote_coin": ["EUR"], "timestamp": [T0], "usd": [1.5]}), source="r"
    )
    got = answer(lake, DAY, "1h", quote="USD")
    assert got["volume"].to_list() == [9_000.0, 45_000.0, 9_000.0, 9_000.0, 9_000.0, 9_000.0]


@pytest.mark.slow
def test_gaps_are_filled_from_the_newer_of_candle_and_trade(lake: Lake) -> None:
    got = answer(lake, (7 * HOUR, 8 * HOUR), "1h", gapfill=True)
    assert got.select("close", "volume").rows() == [
        (100.0, 0.0)
    ]  # the candle of 05:59, not the trade of 04:44
    inside = answer(lake, (4 * HOUR, 5 * HOUR), "1m", gapfill=True)
    assert inside.height == 60


@pytest.mark.slow
def test_the_last_close_inside_of_the_trades_is_a_trade(tmp_path: Path) -> None:
    events = trades([0, MINUTE, 10 * MINUTE + 1], price=200.0)
    lake = made(tmp_path, [recorded(MINUTE, range(0, 3 * MINUTE, MINUTE), each=0.0)], events)
    got = answer(lake, (5 * MINUTE, 7 * MINUTE), "1m", gapfill=True)
    assert got["close"].to_list() == [200.0, 200.0]


@pytest.mark.slow
def test_open_interest_is_worth_the_close_of_either(lake: Lake) -> None:
    reports = pl.select(
        timestamp=T0 + pl.int_range(HOURS) * HOUR,
        amount=pl.lit(2.0),
        **{k: pl.lit(v) for k, v in BTC.items()},
    )
    lake.writer().append("open_interest", reports, source="oi")
    got = answer(lake, DAY, "1h", "OPEN_INTEREST_AGG", quote="USD")
    assert got["close"].to_list() == [200.0, 200.0, 200.0, 400.0, 200.0, 200.0]
    query = asked(DAY, "1h", "OPEN_INTEREST_AGG")
    dear, cheap = (
        estimated(one, Engine(lake).markets(one), Statistics(lake)).rows
        for one in (asked(DAY, "1h", "OPEN_INTEREST_AGG", quote="USD"), query)
    )
    assert dear >= cheap + HOURS * 60  # the closes are read, too


def notes(lake: Lake, query: PointsQuery) -> list[Note]:
    engine = Engine(lake, clock=lambda: T0 + 1_000 * HOUR)
    subjects = engine.markets(query)
    return engine.notes(query, subjects, engine.frames(query, subjects))


@pytest.mark.slow
def test_sides_are_known_of_trades_alone_and_the_reason_says_so(lake: Lake) -> None:
    (note,) = notes(lake, asked((0, HOUR), "1h", "TRADE_AGG"))
    assert (note.code, note.types) == (NoteCode.OUTSIDE, (CANDLES,))
    (part,) = notes(lake, asked((0, 3 * HOUR), "1h", "TRADE_AGG"))
    assert (part.code, part.types) == (NoteCode.PART, (CANDLES,))
    with Client.local(lake.path) as client:
        span = {"start": T0 // NS, "end": T0 // NS + 3_600}
        with pytest.warns(EmptyAnswerWarning, match=f"and none in .*; there it has {CANDLES}"):
            assert client.candles(**BTC, interval="1h", by_side=True, **span).is_empty()
        assert client.candles(**BTC, interval="1h", **span)["volume"].to_list() == [60.0]


@pytest.mark.slow
def test_an_answer_from_both_sources_needs_no_reason(lake: Lake) -> None:
    assert notes(lake, asked(DAY, "1h")) == []
    (note,) = notes(lake, asked((0, 9 * HOUR), "1h"))
    assert (note.code, note.first, note.last) == (NoteCode.PART, T0, T0 + HOURS * HOUR - MINUTE)


@pytest.fixture
def coarse(tmp_path: Path) -> Lake:
    """Six hours of candles of an hour, and trades of every minute from 02:15:30 to 04:44:30."""
    return made(
        tmp_path / "coarse",
        [recorded(HOUR, range(0, HOURS * HOUR, HOUR), each=1.0)],
        trades(every_minute(2 * HOUR + 15 * MINUTE, 4 * HOUR + 45 * MINUTE)),
    )


@pytest.mark.slow
def test_candles_too_long_for_the_interval_are_never_passed_over_in_silence(coarse: Lake) -> None:
    (note,) = notes(coarse, asked(DAY, "1m"))
    assert (note.code, note.intervals) == (NoteCode.PART, ("HOUR", "FOUR_HOURS", "DAY", "WEEK"))
    assert notes(coarse, asked((3 * HOUR, 4 * HOUR), "1m")) == []
    said = str(Reason(note.code, CANDLES, "X", "BTC", intervals=note.intervals))
    assert said.endswith("; its candles make up HOUR, FOUR_HOURS, DAY, WEEK")
    with Client.local(coarse.path) as client:
        span = {"start": T0 // NS, "end": (T0 + 6 * HOUR) // NS}
        for more in ({"gapfill": True}, {"group_by": "sum", "coin": "BTC", "raw_symbol": None}):
            with pytest.raises(QueryError, match="make up: HOUR, FOUR_HOURS") as caught:
                client.candles(**BTC | {"interval": "1m"} | more, **span)
            assert caught.value.code == "INVALID_INTERVAL"
        with pytest.raises(QueryError, match="make up: HOUR"):  # a window inside of one candle
            client.candles(**BTC, interval="1m", start=T0 // NS + 600, end=T0 // NS + 1_200)
        assert client.candles(**BTC, interval="1m", **span).height == 150


@pytest.mark.slow
def test_a_market_is_known_up_to_the_newest_of_both(lake: Lake, coarse: Lake) -> None:
    assert answer(lake, DAY, "1h")["is_final"].to_list() == [True] * 5 + [False]
    assert answer(lake, DAY, "1h")["amount_unit"].unique().to_list() == ["COIN"]
    # Candles of an hour tell nothing of minutes: more trades of 04:44 may come in.
    assert not answer(coarse, DAY, "1m")["is_final"][-1]


@pytest.mark.slow
def test_figures_are_of_both(lake: Lake, coarse: Lake) -> None:
    def figures(of: Lake) -> dict[str, Any]:
        return MarketStatistics(of, clock=lambda: T0 + 1_000 * HOUR).of(of.markets()).row(0, named=True)

    got = figures(lake)
    # Up to 04:45, where the newest trade lies: 136 minutes of candles before, and 148 of trades between; the candle of
    # five minutes in which trades begin is the recorded one, and so is the one in which they end.
    inside = 2 * HOUR + 20 * MINUTE, 4 * HOUR + 40 * MINUTE
    minutes = (inside[1] - inside[0]) // MINUTE
    assert got["volume_24h"] == minutes * 5 * 200.0 + (4 * 60 + 45 - minutes) * 100.0
    assert got["last_price"] == 100.0
    # Candles of an hour cannot be cut at 04:45, so what was traded is not known.
    assert figures(coarse)["volume_24h"] is None
    assert figures(coarse)["last_price"] == 100.0
