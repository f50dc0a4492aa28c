"""Sums since the open of a session: of a market that closes, and whose open follows the clock of its zone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines import Engine
from tidytape import Session
from tidytape.analytics import flow
from tidytape.errors import QueryError

FX = Session.of("FX")
NEW_YORK = Session("09:30", "16:00", zone="America/New_York")
FUTURES = Session("17:00", "16:00", zone="America/Chicago")
START = datetime(2024, 10, 31, tzinfo=UTC)  # the clock of New York changes on 3 November


def _candles(minutes: list[int], interval: str | None = None) -> pl.DataFrame:
    """Candles of one series at some minutes, with sides and prices drawn from the minute."""
    times = [START + timedelta(minutes=minute) for minute in sorted({*minutes})]
    draws = np.array([minute * 7919 % 13 for minute in sorted({*minutes})], float)
    frame = pl.DataFrame(
        {"timestamp": times, "buy_volume": draws, "sell_volume": draws[::-1] % 5},
        schema_overrides={"timestamp": pl.Datetime("ns", "UTC")},
    ).with_columns(high=10.0 + pl.col("buy_volume"), low=9.0, close=10.0)
    frame = frame.with_columns(volume=pl.col("buy_volume") + pl.col("sell_volume"))
    return frame if interval is None else frame.with_columns(interval=pl.lit(interval))


def _walked(frame: pl.DataFrame, session: Session, length: int) -> list[tuple[Any, float | None]]:
    """The open and the CVD of each row, found one by one."""
    first, last = frame["timestamp"].min().date(), frame["timestamp"].max().date()  # type: ignore[union-attr]
    schedule = session.schedule(first - timedelta(days=3), last + timedelta(days=4)).rows(named=True)
    spoiled, sums, results = set(), {}, []
    for row in frame.iter_rows(named=True):
        begin, end = row["timestamp"], row["timestamp"] + timedelta(minutes=length)
        touched = [one for one in schedule if one["open"] < end and begin < one["close"]]
        spoiled |= {one["open"] for one in touched if not (one["open"] <= begin and end <= one["close"])}
        opened = next((one["open"] for one in touched if one["open"] <= begin < one["close"]), None)
        if opened is None:
            results.append((None, None))
            continue
        sums[opened] = sums.get(opened, 0.0) + row["buy_volume"] - row["sell_volume"]
        results.append((opened, None if opened in spoiled else sums[opened]))
    return results


@pytest.mark.slow
@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.integers(0, 60 * 24 * 6), min_size=1, max_size=80),
    st.sampled_from([FX, NEW_YORK, FUTURES]),
    st.sampled_from([(None, 0), ("1m", 1), ("1h", 60), ("4h", 240), ("7h", 420)]),
)
def test_a_sum_starts_at_each_open_and_a_cut_candle_spoils_it(
    minutes: list[int], session: Session, lengths: tuple[str | None, int]
) -> None:
    interval, length = lengths
    frame = _candles(minutes, interval)
    got = flow.cvd(frame, anchor="session", session=session)
    expected = _walked(frame, session, length or 0)
    assert got["anchored_at"].to_list() == [opened for opened, _ in expected]
    assert got["cvd"].to_list() == [total for _, total in expected]
    means = flow.vwap(frame, anchor="session", session=session)
    assert means["anchored_at"].to_list() == got["anchored_at"].to_list()
    assert (means["vwap"].is_null() | got["cvd"].is_not_null()).all()


@pytest.mark.slow
@settings(deadline=None, max_examples=40)
@given(st.lists(st.integers(0, 60 * 24 * 6), min_size=1, max_size=60), st.sampled_from([None, "1h", "7h"]))
def test_the_day_of_the_service_gives_the_bytes_of_a_day(minutes: list[int], interval: str | None) -> None:
    frame = _candles(minutes, interval)
    for function in (flow.cvd, flow.vwap):
        by_length = function(frame, anchor="session")
        assert function(frame, anchor="session", session=Session.utc_day()).equals(by_length)


@pytest.mark.slow
def test_sessions_are_the_same_on_every_engine(engine: Engine) -> None:
    frame = _candles([*range(0, 60 * 24 * 6, 30)], "30m").cast({"timestamp": pl.Datetime("us", "UTC")})
    for function in (flow.cvd, flow.vwap):
        for session in (FX, FUTURES):
            expected = function(frame, anchor="session", session=session)
            got = engine.polars(function(engine.frame(frame), anchor="session", session=session))
            got = got.sort("timestamp").cast(expected.schema)
            assert got["anchored_at"].to_list() == expected["anchored_at"].to_list()
            result = expected.columns[-1]
            assert np.allclose(
                got[result].to_numpy(), expected[result].to_numpy(), rtol=1e-12, equal_nan=True
            )


def test_a_day_of_new_york_follows_its_clock() -> None:
    frame = _candles([*range(0, 60 * 24 * 6, 60)], "1h")
    got = flow.vwap(frame, anchor="session", session=FX)
    opens = got["anchored_at"].drop_nulls().unique().dt.convert_time_zone("America/New_York").dt.hour()
    assert opens.unique().to_list() == [17]
    by_length = flow.vwap(frame, anchor="session", period="1d", session_open="2024-10-31T21:00Z")
    assert (
        by_length["anchored_at"].unique().dt.convert_time_zone("America/New_York").dt.hour().n_unique() == 2
    )


def test_a_length_as_session_still_works_and_says_its_new_name() -> None:
    frame = _candles([*range(0, 60 * 24 * 2, 60)], "1h")
    with pytest.warns(DeprecationWarning, match=r"``session`` takes a Session; a length is ``period='8h'``"):
        old = flow.cvd(frame, anchor="session", session="8h")
    assert old.equals(flow.cvd(frame, anchor="session", period="8h"))


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"session": FX}, "session: got Session.*anchor='session' too"),
        ({"anchor": "session", "session": FX, "period": "1d"}, "period: got '1d', expected none"),
        ({"anchor": "session", "session": FX, "session_open": 0}, "session_open: got 0, expected none"),
        ({"anchor": "session", "session": "1d", "period": "1d"}, "session: got '1d', expected a Session"),
        ({"anchor": "session", "session": "CME"}, r"session: got 'CME', expected a Session; Session\.of"),
        (
            {"anchor": "session", "session": "08:30-15:00 UTC Mon-Fri"},
            r"expected a Session; .*Session\.parsed",
        ),
        ({"anchor": "session", "session": ("08:30", "15:00")}, r"expected a Session; .*Session\(open, close"),
        ({"anchor": "session", "session": NEW_YORK, "interval": "1h"}, "interval: got '1h'.*'30m'"),
        ({"anchor": "session", "session": NEW_YORK, "interval": "1d"}, "interval: got '1d'"),
    ],
    ids=str,
)
def test_arguments_that_do_not_fit_are_refused(how: dict[str, Any], message: str) -> None:
    frame = _candles([0, 60, 2_000])
    with pytest.raises(QueryError, match=message):
        flow.cvd(frame, **how)


def test_intervals_that_end_at_the_open_are_summed_first() -> None:
    frame = _candles([*range(0, 60 * 24 * 2, 1)])
    whole = flow.cvd(frame, anchor="session", session=NEW_YORK, interval="30m")
    minutes = flow.cvd(frame, anchor="session", session=NEW_YORK)
    last = minutes.group_by_dynamic("timestamp", every="30m").agg(pl.col("cvd").last())
    assert whole["cvd"].to_list() == last["cvd"].to_list()
