"""Trades without a side: what needs no side counts them as before, and what tells sides never guesses one."""

from __future__ import annotations

from itertools import product
from math import isnan
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from lakes import empty_lake
from thorough import often
from tidytape import aggregate
from tidytape.analytics import flow
from tidytape.catalogue import NoteCode
from tidytape.errors import QueryError
from tidytape.lake import Lake, hygiene
from tidytape.lake._tables import TRADES
from tidytape.lake.rollup import rollup
from tidytape.query import PointsQuery
from tidytape.schema import TPO_SESSIONS
from tidytape.service.answer._engine import Engine
from tidytape.service.proto import market_data_pb2 as pb
from tidytape.service.proto._encode import encode_all as encode_proto
from tidytape.wire import decode, encode, from_arrow, levels_of, sessions_of, to_arrow
from tidytape.wire._encode import encode_all

MINUTE = 60 * 10**9
HOUR = 60 * MINUTE
T0 = 1_723_161_600 * 10**9  # 2024-08-09T00:00:00Z
HOURS = 3
SIDES = ("buy_volume", "sell_volume")
BY_SIDE = ("TRADE", "TRADE_AGG", "VOLUME_PROFILE_AGG", "TPO_AGG")

few = settings(max_examples=often(6, thoroughly=60), deadline=None)
trade = st.tuples(
    st.sampled_from(["X", "Y"]),
    st.integers(0, HOURS * HOUR - 1) | st.sampled_from([0, 1, HOUR - 1, HOUR]),
    st.sampled_from(["BUY", "SELL"]),
    st.integers(200, 260).map(lambda number: number / 2),
    st.integers(1, 10**6).map(lambda number: number / 10**4),
    st.booleans(),
)
tapes = st.lists(trade, min_size=1, max_size=25)


def frames(rows: list[Any]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return trades, and the same trades of which some have no side."""
    columns = ["exchange", "timestamp", "side", "price", "amount", "is_blank"]
    tape = pl.DataFrame(rows, schema=columns, orient="row").with_columns(
        pl.col("timestamp") + T0,
        raw_symbol=pl.lit("BTCUSDT"),
        sequence=pl.int_range(pl.len()),
        id=pl.int_range(pl.len()).cast(pl.String),
        quote_amount=pl.col("price") * pl.col("amount"),
    )
    blanked = tape.with_columns(side=pl.when(~pl.col("is_blank")).then("side"))
    return TRADES.conform(tape), TRADES.conform(blanked)


def lake_of(folder: str, *parts: pl.DataFrame, rolled_up: int = 0) -> Lake:
    """Return a lake of trades that came in some parts; minutes are stored after as many of them."""
    lake = empty_lake(Path(folder))
    market = {"raw_symbol": "BTCUSDT", "normalized_symbol": "BTC-USDT", "coin": "BTC", "quote_coin": "USDT"}
    names = [market | {"exchange": name, "category": "SPOT", "block_size": 1.0} for name in "XY"]
    lake.writer().register(pl.DataFrame(names))
    for number, part in enumerate(parts, 1):
        lake.writer().append("trades", part, source=str(number))
        if number == rolled_up:
            rollup(lake, progress=False)
    return lake


def answered(lake: Lake, name: str, **more: Any) -> tuple[pl.DataFrame, list[Any]]:
    """Return the tidy frame and the notes of an answer; market profiles are levels, or sessions."""
    if name == TPO_SESSIONS.name:
        points, notes = sent(lake, "TPO_AGG", **more)
        return sessions_of(points), notes
    points, notes = sent(lake, name, **more)
    return levels_of(points) if name == "TPO_AGG" else points, notes


def sent(lake: Lake, name: str, **more: Any) -> tuple[pl.DataFrame, list[Any]]:
    """Return the points as they travel, and the notes of an answer."""
    start = T0 // 10**9
    engine = Engine(lake, clock=lambda: T0 + 1_000 * HOUR)
    window = {"interval": "1h", "start": start, "end": start + HOURS * 3_600}
    query = PointsQuery(type=name, exchange=["X", "Y"], coin="BTC", **{**window, **more})
    markets = engine.markets(query)
    answer = engine.frames(query, markets)
    notes = engine.notes(query, markets, answer)
    body = engine.body(query, markets)
    if body is not None:  # points that stay in memory have the same bytes
        assert body[0] == encode_all(engine.frames(query, markets), notes)
    return answer[0][1], notes


def options(name: str) -> list[dict[str, Any]]:
    """Return the options that a type takes."""
    if name == "TRADE":
        return [{}, {"interval": None}]
    gapfill = [{"gapfill": True}] if name.startswith("TRADE") else []
    return [{}, {"interval": "1m"}, {"quote": "USD"}, {"group_by": "sum"}, *gapfill]


@pytest.mark.long
@few
@given(tapes)
def test_blanking_sides_changes_no_answer_that_needs_none(rows):
    tape, blanked = frames(rows)
    with TemporaryDirectory() as one, TemporaryDirectory() as other:
        lake, sideless_lake = lake_of(one, tape), lake_of(other, blanked)
        for more in options("TRADE_SIDE_AGNOSTIC_AGG"):
            before, notes_before = answered(lake, "TRADE_SIDE_AGNOSTIC_AGG", **more)
            after, notes = answered(sideless_lake, "TRADE_SIDE_AGNOSTIC_AGG", **more)
            assert_frame_equal(after, before, check_exact=True)
            assert notes == notes_before
        for name, more in product(("TPO_AGG", TPO_SESSIONS.name), options("TPO_AGG")):
            before, _ = answered(lake, name, **more)
            after, _ = answered(sideless_lake, name, **more)
            of_sides = [name for name in (*SIDES, "coverage") if name in before.columns]
            assert_frame_equal(after.drop(of_sides), before.drop(of_sides), check_exact=True)
        for more in options("VOLUME_PROFILE_AGG"):
            before, _ = answered(lake, "VOLUME_PROFILE_AGG", **more)
            after, _ = answered(sideless_lake, "VOLUME_PROFILE_AGG", **more)
            of_sides = [name for name in (*SIDES, "coverage") if name in before.columns]
            # The sum of the sides of a level may differ from the sum of its trades in the last bit.
            assert_frame_equal(after.drop(of_sides), before.drop(of_sides), rel_tol=1e-14, abs_tol=0)
    keys = ["exchange", "raw_symbol"]
    assert_frame_equal(
        flow.vwap(blanked.drop("side"), by=keys, interval="1h"),
        flow.vwap(tape.drop("side"), by=keys, interval="1h"),
        check_exact=True,
    )


@pytest.mark.long
@few
@given(tapes)
def test_a_side_counts_the_trades_that_have_it_and_a_note_says_that_some_have_none(rows):
    _, blanked = frames(rows)
    sided = blanked.filter(pl.col("side").is_not_null())
    sideless = blanked.filter(pl.col("side").is_null())
    with TemporaryDirectory() as one, TemporaryDirectory() as other:
        lake, sided_lake = lake_of(one, blanked), lake_of(other, sided)
        for name in ("TRADE", "TRADE_AGG"):
            for more in options(name):
                points, notes = answered(lake, name, **more)
                of_sides, _ = answered(sided_lake, name, **more)
                known = points.filter(pl.col("side").is_not_null())
                # The rest, among them up to when a market is known, is that of all trades.
                same = [column for column in known.columns if column not in ("is_final", "data_until")]
                assert_frame_equal(known.select(same), of_sides.select(same), check_exact=True)
                assert {note.exchange for note in notes if note.code is NoteCode.NO_SIDE} == {
                    *sideless["exchange"]
                }
                for side in ("BUY", "SELL"):
                    of_side, notes_of_side = answered(lake, name, **more, side=side)
                    assert_frame_equal(of_side, points.filter(side=side), check_exact=True)
                    codes = [note for note in notes_of_side if note.code is NoteCode.NO_SIDE]
                    assert {note.exchange for note in codes} == {*sideless["exchange"]}
        for name in ("VOLUME_PROFILE_AGG", "TPO_AGG"):
            points, notes = answered(lake, name)
            assert {note.exchange for note in notes if note.code is NoteCode.NO_SIDE} == {
                *sideless["exchange"]
            }
            level = {"price": pl.col("price").floor(), "timestamp": pl.col("timestamp") // HOUR * HOUR}
            key = ["exchange", "timestamp", "price"]
            sideless_levels = sideless.with_columns(**level).select(key).unique()
            rows_of_points = points.with_columns(
                pl.col("timestamp").dt.epoch("ns"), pl.col("exchange").cast(pl.String)
            )
            unknown = rows_of_points.join(sideless_levels, on=key)
            known = rows_of_points.join(sideless_levels, on=key, how="anti")
            assert unknown.height == sideless_levels.height
            assert unknown[SIDES[0]].null_count() == unknown[SIDES[1]].null_count() == unknown.height
            assert not unknown["volume"].null_count()
            assert not sum(known[column].null_count() for column in (*SIDES, "volume"))
            of_sides, _ = answered(sided_lake, name)
            both = known.join(
                of_sides.with_columns(pl.col("timestamp").dt.epoch("ns"), pl.col("exchange").cast(pl.String)),
                on=key,
                suffix="_sided",
            )
            for column in (*SIDES, "volume"):
                assert both[column].to_list() == both[f"{column}_sided"].to_list()


@pytest.mark.long
@few
@given(tapes, st.integers(0, 25), st.sampled_from(["none", "first", "all"]))
def test_an_answer_is_that_of_the_trades_in_memory_however_they_came(rows, cut, minutes):
    _, blanked = frames(rows)
    names = pl.col("exchange", "raw_symbol").cast(pl.String)
    with TemporaryDirectory() as folder:
        parts = [part for part in (blanked[:cut], blanked[cut:]) if part.height]
        rolled_up = {"none": 0, "first": 1, "all": len(parts)}[minutes]
        lake = lake_of(folder, *parts, rolled_up=rolled_up)
        for compacted in (False, True):
            if compacted:
                hygiene.compact(lake, everything=True, progress=False)
            for interval in ("1m", "1h"):
                for name, expected in {
                    "TRADE_SIDE_AGNOSTIC_AGG": aggregate.candles(blanked, interval=interval),
                    "TRADE_AGG": aggregate.candles(blanked, interval=interval, by_side=True),
                    "VOLUME_PROFILE_AGG": aggregate.volume_profile(blanked, interval=interval, block_size=1),
                    "TPO_AGG": aggregate.tpo(blanked, interval=interval, block_size=1).drop("is_in_progress"),
                    "TPO_SESSIONS": aggregate.tpo_sessions(blanked, interval=interval, block_size=1),
                }.items():
                    points, _ = answered(lake, name, interval=interval)
                    columns = [column for column in expected.columns if column in points.columns]
                    of_times = [c for c in columns if points.schema[c] == pl.Datetime("ns", "UTC")]
                    got = points.with_columns(names, pl.col(of_times).dt.epoch("ns"))
                    sides = [pl.col("side").cast(pl.String)] if "side" in columns else []
                    got = got.with_columns(*sides).select(columns)
                    order = [c for c in ("exchange", "side", "timestamp", "price") if c in columns]
                    assert_frame_equal(
                        got.sort(order), expected.select(columns).sort(order), check_exact=True
                    )
        report = hygiene.check(lake, progress=False)
        assert report.sound, report


@pytest.mark.long
@few
@given(tapes)
def test_what_is_sent_is_what_is_read(rows):
    _, blanked = frames(rows)
    with TemporaryDirectory() as folder:
        lake = lake_of(folder, blanked)
        for name in BY_SIDE:
            for more in options(name):
                points, notes = sent(lake, name, **more)
                shown = [column for column in points.columns if column != "is_final"]
                body = decode(encode(points, name), name)
                assert_frame_equal(body.select(shown), points.select(shown), check_exact=True)
                table = from_arrow(to_arrow(points, name), name)
                assert_frame_equal(table.select(shown), points.select(shown), check_exact=True)
                message = pb.PointResponse.FromString(encode_proto([(name, points)], notes))
                assert {note.code for note in message.notes} >= (
                    {pb.NO_SIDE} if blanked["side"].null_count() else set()
                )
                if name in {"TRADE", "TRADE_AGG"}:
                    sides = {None if not one.id.side else pb.Side.Name(one.id.side) for one in message.series}
                    assert sides == {*points["side"]}
                if name == "VOLUME_PROFILE_AGG":
                    volumes = [v for one in message.series for point in one.points for v in _volumes(point)]
                    assert volumes == points["volume"].to_list()


def _volumes(point: Any) -> list[float]:
    """Return the volumes of the levels of a point as a caller of gRPC computes them."""
    profile = point.volume_profile_agg
    if profile.levelVolumes:
        return [
            total if isnan(buy + sell) else buy + sell
            for total, buy, sell in zip(
                profile.levelVolumes, profile.profile[1::3], profile.profile[2::3], strict=True
            )
        ]
    return [buy + sell for buy, sell in zip(profile.profile[1::3], profile.profile[2::3], strict=True)]


def test_a_frame_of_a_service_may_be_resampled_grouped_and_converted():
    _, blanked = frames(
        [
            ("X", 0, "BUY", 100.0, 1.0, False),
            ("X", MINUTE, "BUY", 100.0, 2.0, True),
            ("Y", 0, "SELL", 100.0, 4.0, False),
            ("X", 0, "SELL", 110.0, 8.0, False),
        ]
    )
    minutes = aggregate.volume_profile(blanked, interval="1m", block_size=1)
    hours = aggregate.resample(minutes, data_type="VOLUME_PROFILE_AGG", interval="1h", source="1m")
    columns = ["exchange", "price", *SIDES, "volume"]
    assert hours.select(columns).rows() == [
        ("X", 100.0, None, None, 3.0), ("X", 110.0, 0.0, 8.0, 8.0), ("Y", 100.0, 0.0, 4.0, 4.0),
    ]  # fmt: skip
    grouped = aggregate.group(hours, data_type="VOLUME_PROFILE_AGG")
    assert grouped.select(columns[1:]).rows() == [(100.0, None, None, 7.0), (110.0, 0.0, 8.0, 8.0)]
    in_usd = aggregate.to_usd(hours, quote="USDT", data_type="VOLUME_PROFILE_AGG")
    assert in_usd["volume"].to_list() == [300.0, 880.0, 400.0]
    with pytest.raises(QueryError):
        aggregate.group(hours, data_type="TPO_AGG")
