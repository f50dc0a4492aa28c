"""Rows find their session on every engine, as a walk through the schedule finds it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines import Engine
from tables import each_row
from tidytape.errors import MissingColumnError, QueryError
from tidytape.sessions import Session

TOKYO = Session("09:00", "15:30", zone="Asia/Tokyo", pause=("11:30", "12:30"))
CHICAGO = Session(
    "17:00", "16:00", zone="America/Chicago", days_off=["2024-11-28"], early_closes={"2024-11-29": "12:15"}
)
REGULAR = Session("08:30", "15:00", zone="America/Chicago", days_off=["2024-11-28"])
FX = Session("17:00", "17:00", zone="America/New_York")


def _walked(times: pl.Series, session: Session, regular: Session | None) -> list[tuple[Any, str]]:
    """The label of each time, found by looking at every session."""
    first, last = times.min().date() - timedelta(days=4), times.max().date() + timedelta(days=4)  # type: ignore[union-attr]
    schedules = [one.schedule(first, last).rows(named=True) for one in (session, regular or session)]

    def found(time: datetime, schedule: list[dict[str, Any]]) -> tuple[Any, bool]:
        for row in schedule:
            is_break = row["break_start"] is not None and row["break_start"] <= time < row["break_end"]
            if row["open"] <= time < row["close"]:
                return row["session_date"], not is_break
        return None, False

    labels = []
    for time in times:
        (date, is_open), (_, is_regular) = (found(time, schedule) for schedule in schedules)
        labels.append((date, "closed" if not is_open else "regular" if is_regular else "overnight"))
    return labels


START = datetime(2024, 10, 30, tzinfo=UTC)


@pytest.mark.slow
@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.integers(0, 60 * 24 * 40), min_size=1, max_size=60),
    st.sampled_from(
        [(TOKYO, None), (CHICAGO, REGULAR), (CHICAGO, None), (FX, None), (Session.utc_day(), None)]
    ),
)
def test_rows_have_the_label_that_a_walk_finds(
    minutes: list[int], sessions: tuple[Session, Session | None]
) -> None:
    session, regular = sessions
    times = pl.Series("timestamp", [START + timedelta(minutes=minute) for minute in minutes])
    frame = pl.DataFrame({"timestamp": times.cast(pl.Datetime("ns", "UTC")), "number": range(len(times))})
    got = session.label(frame, regular=regular)
    assert got.drop("session_date", "segment").equals(frame)
    assert got.select("session_date", "segment").rows() == _walked(times, session, regular)


@pytest.mark.slow
def test_labels_are_the_same_on_every_engine(engine: Engine) -> None:
    edges = [datetime(2024, 11, day, hour, minute, tzinfo=UTC) for day in (1, 3, 4, 28, 29) for hour in range(24)
             for minute in (0, 15, 29, 30)]  # fmt: skip
    frame = pl.DataFrame({"timestamp": edges}, schema={"timestamp": pl.Datetime("us", "UTC")})
    expected = CHICAGO.label(frame, regular=REGULAR)
    got = engine.polars(CHICAGO.label(engine.frame(frame), regular=REGULAR)).sort("timestamp")
    assert got["session_date"].cast(pl.Date).to_list() == expected["session_date"].to_list()
    assert got["segment"].to_list() == expected["segment"].to_list()
    assert expected.select("session_date", "segment").rows() == _walked(frame["timestamp"], CHICAGO, REGULAR)


def test_no_rows_get_no_labels() -> None:
    empty = pl.DataFrame(schema={"timestamp": pl.Datetime("ns", "UTC"), "close": pl.Float64()})
    got = FX.label(empty)
    assert got.schema == {**empty.schema, "session_date": pl.Date(), "segment": pl.String()}
    nothing = pl.DataFrame({"timestamp": [None]}, schema={"timestamp": pl.Datetime("ns", "UTC")})
    assert FX.label(nothing).rows() == [(None, None, None)]


@pytest.mark.parametrize("name", ["polars", "polars lazy", "pandas", "duckdb"])
def test_a_frame_that_has_a_label_already_is_refused(name: str) -> None:
    engine = Engine(name)
    frame = engine.frame(FX.label(pl.DataFrame({"timestamp": [START]})))
    with pytest.raises(QueryError, match=r"frame: got .a column 'segment'.*drop or rename it"):
        FX.label(frame)
    with pytest.raises(QueryError, match=r"regular: got 'CME', expected a Session; Session\.of"):
        FX.label(engine.frame(pl.DataFrame({"timestamp": [START]})), regular="CME")  # type: ignore[arg-type]


def test_what_has_no_times_is_refused() -> None:
    with pytest.raises(MissingColumnError, match="timestamp"):
        FX.label(pl.DataFrame({"close": [1.0]}))
    with pytest.raises(QueryError, match="zone"):
        FX.label(pl.DataFrame({"timestamp": [datetime(2024, 8, 8)]}))  # noqa: DTZ001 - that is wrong with it


OF_CHICAGO = {"zone": "America/Chicago"}
OF_FUTURES = Session(
    "17:00", "16:00", **OF_CHICAGO, days_off=["2024-08-09"], early_closes={"2024-08-12": "12:00"}
)


@pytest.mark.slow
@each_row(
    ("regular", "left"),
    [
        (
            Session("08:30", "15:00", **OF_CHICAGO),
            None,
        ),  # also on the day off, and on that of the early close
        (Session("08:30", "15:00", **OF_CHICAGO, weekdays="Mon-Sun"), None),
        (Session("17:00", "16:00", **OF_CHICAGO), None),
        (
            Session("18:00", "20:00", **OF_CHICAGO, weekdays="Mon-Thu"),
            "2024-08-08",
        ),  # Thursday evening has no session
        (Session("08:30", "16:30", **OF_CHICAGO), "2024-08-05"),
        (Session("16:30", "15:00", **OF_CHICAGO), "2024-08-05"),
        (Session("09:00", "15:00", zone="Asia/Tokyo", weekdays="Tue-Fri"), None),
        (Session("05:00", "06:30", zone="Asia/Tokyo", weekdays="Tue-Fri"), "2024-08-06"),
    ],
)
def test_regular_hours_lie_inside_of_the_session(regular: Session, left: str | None) -> None:
    times = [datetime(2024, 8, 6, tzinfo=UTC), datetime(2024, 8, 12, 18, tzinfo=UTC)]
    frame = pl.DataFrame({"timestamp": times})
    if left is None:
        assert OF_FUTURES.label(frame, regular=regular).height == 2
        return
    with pytest.raises(QueryError, match=f"regular: got .* which they leave on {left}; .*session") as caught:
        OF_FUTURES.label(frame, regular=regular)
    assert caught.value.parameter == "regular"
