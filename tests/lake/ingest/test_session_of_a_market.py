"""The session that a caller states of a market: the registry keeps it, and candles of days may start at its open."""

from __future__ import annotations

import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingested import ingest
from lakes import empty_lake
from tables import each_row
from tidytape import Session
from tidytape.errors import IngestError, QueryError
from tidytape.lake import Lake, hygiene
from tidytape.lake.ingest import Csv, Market
from tidytape.lake.ingest import ingest as ingest_layout
from tidytape.lake.ingest._session_dates import on_utc_days
from tidytape.times import DAY

STOCKS = "09:30-16:00 America/New_York Mon-Fri"
FX = "17:00-17:00 America/New_York Mon-Fri"
COLUMNS = "timestamp=time,open=o,high=h,low=l,close=c,volume=v"
PRICES = (10.0, 12.0, 9.0, 11.0)
SESSIONS = (
    STOCKS,
    FX,
    "17:00-16:00 America/Chicago Mon-Fri",
    "09:00-15:30 Asia/Tokyo Mon-Fri pause=11:30-12:30",
    "10:00-16:00 Pacific/Auckland Sun-Thu",
    "00:00-00:00 UTC Mon-Sun",
)


def daily(folder: Path, *times: str, interval: str = "1d", **options: Any) -> Lake:
    """Put candles of these times into a new lake below a folder."""
    path = Path(tempfile.mkdtemp(dir=folder))
    lines = ["time,o,h,l,c,v", *(f"{time},10,12,9,11,{place + 1}" for place, time in enumerate(times))]
    (path / "candles.csv").write_text("\n".join(lines) + "\n")
    lake = empty_lake(path / "lake")
    ingest(
        [path / "candles.csv"], lake, layout="csv", table="candles", interval=interval,
        columns=dict(pair.split("=") for pair in COLUMNS.split(",")), exchange="NY", raw_symbol="ACME",
        quote="USD", **options,
    )  # fmt: skip
    return lake


def dates(lake: Lake) -> list[str]:
    times = lake.scan("candles").sort("timestamp").collect()["timestamp"]
    assert (times % DAY == 0).all()
    return times.cast(pl.Datetime("ns")).dt.strftime("%Y-%m-%d").to_list()


# --- the registry ---


@pytest.mark.slow
@each_row(
    ("session", "text"),
    [
        (STOCKS, STOCKS),
        (Session.parsed(FX), FX),
        ("XNYS", "09:30-16:00 America/New_York Mon-Fri calendar=XNYS"),
        ("FX", FX),
    ],
)
def test_the_registry_keeps_the_text_that_a_session_writes(session: Any, text: str, tmp_path: Path) -> None:
    assert Market(session=session).session == text
    lake = daily(tmp_path, "2024-08-08T00:00:00Z", session=str(session))
    assert lake.markets()["session"].to_list() == [text]
    shown = hygiene.markets(lake).filter(table="candles")
    assert shown.select("raw_symbol", "recorded_in", "session").rows() == [("ACME", None, text)]


@pytest.mark.slow
@each_row("session", ["09:30", "09:30-16:00 Nowhere Mon-Fri", "9-16 UTC Mon", "", 930, "XNYSE"])
def test_what_is_no_session_is_refused(session: Any) -> None:
    with pytest.raises(QueryError, match=r"session|zone|open|calendar"):
        Market(session=session)


@pytest.mark.slow
def test_a_later_statement_replaces_an_earlier_one_and_silence_keeps_it(tmp_path: Path) -> None:
    lake = daily(tmp_path, "2024-08-07T00:00:00Z", session=STOCKS)
    layout = Csv(table="candles", interval="1d", columns={"timestamp": "time", "open": "o", "high": "h",
                                                         "low": "l", "close": "c", "volume": "v"})  # fmt: skip
    for day, stated, kept in (("08", None, STOCKS), ("09", FX, FX), ("12", None, FX)):
        file = tmp_path / f"{day}.csv"
        file.write_text(f"time,o,h,l,c,v\n2024-08-{day}T00:00:00Z,10,12,9,11,1\n")
        market = Market(exchange="NY", raw_symbol="ACME", quote="USD", session=stated)
        ingest_layout([file], lake, layout, market=market)
        assert lake.markets()["session"].to_list() == [kept]


@pytest.mark.slow
def test_a_file_that_is_in_the_lake_is_read_again_to_state_its_session(tmp_path: Path) -> None:
    lake = daily(tmp_path, "2024-08-07T00:00:00Z", "2024-08-08T13:30:00Z", skip_bad=True)
    assert dates(lake) == ["2024-08-07"]
    (file,) = tmp_path.glob("*/candles.csv")
    for session, is_known in ((STOCKS, False), (STOCKS, True), (None, True)):
        report = ingest(
            [file], lake, layout="csv", table="candles", interval="1d", exchange="NY", raw_symbol="ACME", quote="USD",
            columns=dict(pair.split("=") for pair in COLUMNS.split(",")), session=session, skip_bad=True,
        )  # fmt: skip
        assert report.files[0].already_ingested == is_known
        assert dates(lake) == ["2024-08-07", "2024-08-08"]
        assert lake.markets()["session"].to_list() == [STOCKS]


def test_a_market_whose_session_nobody_stated_has_none(tmp_path: Path) -> None:
    lake = daily(tmp_path, "2024-08-07T00:00:00Z")
    assert lake.markets()["session"].to_list() == [None]
    assert hygiene.markets(lake)["session"].to_list() == [None]


# --- candles of days ---


@pytest.mark.slow
@each_row(
    ("session", "times", "expected"),
    [
        # The open moves from 14:30 to 13:30 UTC when the clock changes on 10 March.
        (STOCKS, ["2024-03-08T14:30:00Z", "2024-03-11T13:30:00Z"], ["2024-03-08", "2024-03-11"]),
        # Midnight of the date in New York.
        (STOCKS, ["2024-03-08T05:00:00Z", "2024-03-11T04:00:00Z"], ["2024-03-08", "2024-03-11"]),
        # The session of Monday opens on Sunday evening; on Friday evening none does.
        (FX, ["2024-08-04T21:00:00Z", "2024-08-05T21:00:00Z"], ["2024-08-05", "2024-08-06"]),
        (FX, ["2024-08-05T04:00:00Z", "2024-08-09T04:00:00Z"], ["2024-08-05", "2024-08-09"]),
        ("09:00-15:30 Asia/Tokyo Mon-Fri", ["2024-08-07T15:00:00Z"], ["2024-08-08"]),
        ("10:00-16:00 Pacific/Auckland Mon-Fri", ["2024-08-07T22:00:00Z"], ["2024-08-08"]),
        # What is stamped with its date already stays, and one file may have both.
        (STOCKS, ["2024-08-07T00:00:00Z", "2024-08-08T13:30:00Z"], ["2024-08-07", "2024-08-08"]),
    ],
)
def test_a_candle_of_a_session_is_stored_on_its_date(
    session: str, times: list[str], expected: list[str], tmp_path: Path
) -> None:
    assert dates(daily(tmp_path, *times, session=session)) == expected


@pytest.mark.slow
@each_row(
    ("session", "time"),
    [
        (None, "2024-03-08T14:30:00Z"),
        (None, "2024-03-08T05:00:00Z"),
        (STOCKS, "2024-03-11T14:30:00Z"),  # an hour after the open
        (STOCKS, "2024-03-09T14:30:00Z"),  # a Saturday
        (STOCKS, "2024-03-09T05:00:00Z"),
        (STOCKS, "2024-03-08T20:00:00Z"),
        (STOCKS + " off=2024-07-04", "2024-07-04T13:30:00Z"),
        (FX, "2024-08-09T21:00:00Z"),  # Friday evening
        (STOCKS, "2362-03-08T05:00:00Z"),  # farther than any calendar
    ],
)
def test_other_starts_are_refused_with_a_hint(session: str | None, time: str, tmp_path: Path) -> None:
    with pytest.raises((IngestError, QueryError), match=r"session|time") as raised:
        daily(tmp_path, time, session=session)
    assert "2362" in time or "no candle of its length starts at" in str(raised.value)


@pytest.mark.slow
@each_row(
    ("session", "time", "allowed"),
    [
        (STOCKS, "2024-03-11T14:30:00Z", ("2024-03-11", "2024-03-11T13:30:00Z", "2024-03-11T04:00:00Z")),
        (STOCKS, "2024-03-09T14:30:00Z", ("2024-03-08", "2024-03-08T14:30:00Z", "2024-03-08T05:00:00Z")),
        # The session of Monday opens on Sunday evening.
        (FX, "2024-08-04T22:00:00Z", ("2024-08-05", "2024-08-04T21:00:00Z", "2024-08-05T04:00:00Z")),
    ],
)
def test_the_hint_has_the_starts_that_the_session_allows(
    session: str, time: str, allowed: tuple[str, ...], tmp_path: Path
) -> None:
    with pytest.raises(IngestError) as raised:
        daily(tmp_path, time, session=session)
    message = str(raised.value)
    assert all(start in message for start in allowed)
    assert "session`` when" not in message
    assert dates(daily(tmp_path, allowed[1], session=session)) == [allowed[0]]
    assert dates(daily(tmp_path, allowed[2], session=session)) == [allowed[0]]


EXTENDED = "04:00-20:00 America/New_York Mon-Fri"
WHOLE = "00:00-00:00 America/Chicago Mon-Sun"


@each_row(
    ("session", "time", "close"),
    [
        (EXTENDED, "2024-01-10T09:00:00Z", "2024-01-11T01:00:00Z"),
        (EXTENDED, "2024-01-10T05:00:00Z", "2024-01-11T01:00:00Z"),
        (EXTENDED, "2024-01-10T10:00:00Z", "2024-01-11T01:00:00Z"),  # no start, but the session decides
        (WHOLE, "2024-01-10T06:00:00Z", "2024-01-11T06:00:00Z"),
        (WHOLE, "2024-08-08T05:00:00Z", "2024-08-09T05:00:00Z"),
    ],
)
def test_a_candle_of_a_session_that_closes_after_its_date_is_refused(
    session: str, time: str, close: str, tmp_path: Path
) -> None:
    """At the end of its date the service would call the candle known, before the session closes."""
    with pytest.raises(
        IngestError, match=f"closes at {close}, .* ingest minutes or hours, or state the regular"
    ):
        daily(tmp_path, time, session=session)


@pytest.mark.slow
def test_a_close_at_the_end_of_the_date_is_early_enough(tmp_path: Path) -> None:
    assert dates(daily(tmp_path, "2024-08-08T08:00:00Z", session=EXTENDED)) == ["2024-08-08"]
    assert dates(daily(tmp_path, "2024-01-10T00:00:00Z", session=EXTENDED)) == ["2024-01-10"]
    early = EXTENDED + " early=2024-01-10T17:00"
    assert dates(daily(tmp_path, "2024-01-10T09:00:00Z", session=early)) == ["2024-01-10"]


@pytest.mark.slow
@given(session=st.sampled_from([*SESSIONS, EXTENDED, WHOLE]), day=st.integers(0, 3_000))
def test_no_candle_that_moves_is_known_before_its_session_closes(session: str, day: int) -> None:
    stated = Session.parsed(session)
    date = (datetime(2019, 1, 1, tzinfo=UTC) + timedelta(days=day)).date()
    for row in stated.schedule(date, date + timedelta(days=1)).iter_rows(named=True):
        midnight = datetime(date.year, date.month, date.day, tzinfo=ZoneInfo(stated.zone)).astimezone(UTC)
        starts = pl.Series([row["open"], midnight]).dt.epoch("ns")
        moved = on_utc_days(pl.DataFrame({"timestamp": starts, "interval": DAY}), stated)["timestamp"]
        closes = pl.Series([row["close"]]).dt.epoch("ns").item()
        for start, now in zip(starts, moved, strict=True):
            date_start = int(datetime(date.year, date.month, date.day, tzinfo=UTC).timestamp()) * 10**9
            may_move = start % DAY != 0 and closes <= date_start + DAY
            assert now == (date_start if may_move else start)


def test_candles_of_hours_start_where_they_did(tmp_path: Path) -> None:
    with pytest.raises(IngestError, match="no candle of its length starts at") as raised:
        daily(tmp_path, "2024-03-08T14:30:00Z", interval="1h", session=STOCKS)
    assert "session" not in str(raised.value)


def test_two_candles_of_one_session_contradict_each_other(tmp_path: Path) -> None:
    with pytest.raises(IngestError):
        daily(tmp_path, "2024-03-08T05:00:00Z", "2024-03-08T14:30:00Z", session=STOCKS)


@pytest.mark.slow
@given(
    session=st.sampled_from(SESSIONS),
    days=st.lists(st.integers(0, 3_000), min_size=1, max_size=9),
    data=st.data(),
)
def test_a_candle_moves_to_the_date_of_its_session_alone(
    session: str, days: list[int], data: st.DataObject
) -> None:
    """The oracle asks, for one time at a time, which date's open or midnight it is."""
    stated = Session.parsed(session)
    zone = ZoneInfo(stated.zone)
    first = datetime(2019, 1, 1, tzinfo=UTC)
    starts = []
    for day in days:
        date = (first + timedelta(days=day)).date()
        table = stated.schedule(date, date + timedelta(days=1))
        opens = [row["open"] for row in table.iter_rows(named=True)]
        midnight = datetime(date.year, date.month, date.day, tzinfo=zone)
        shift = timedelta(minutes=data.draw(st.sampled_from([0, 0, 0, 30, -60])))
        starts.append(data.draw(st.sampled_from([*opens, midnight])).astimezone(UTC) + shift)

    def date_of(start: datetime) -> datetime:
        if (start - first) % timedelta(days=1) == timedelta():
            return start
        for back in (-1, 0, 1):
            day = (start + timedelta(days=back)).date()
            for row in stated.schedule(day, day + timedelta(days=1)).iter_rows(named=True):
                midnight = datetime(day.year, day.month, day.day, tzinfo=zone)
                if start in (row["open"], midnight.astimezone(UTC)):
                    return datetime(day.year, day.month, day.day, tzinfo=UTC)
        return start

    candles = pl.DataFrame({"timestamp": pl.Series(starts).dt.epoch("ns"), "interval": DAY})
    moved = on_utc_days(candles, stated)["timestamp"].cast(pl.Datetime("ns", "UTC"))
    assert moved.dt.strftime("%F %T").to_list() == [f"{date_of(start):%F %T}" for start in starts]
    hours = candles.with_columns(interval=pl.lit(DAY // 24))
    assert on_utc_days(hours, stated).equals(hours)
