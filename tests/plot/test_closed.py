"""Pictures of a market that closes: the axis shows open time only."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import polars as pl
import pytest
from matplotlib.dates import num2date
from matplotlib.figure import Figure
from numpy.testing import assert_allclose, assert_array_equal

from tidytape import Session, plot
from tidytape.errors import QueryError

STOCKS = Session("09:30", "16:00", zone="America/New_York")
NEW_YORK = ZoneInfo("America/New_York")
# A Thursday to a Monday across the change to winter time, on 3 November 2024.
DAYS = [datetime(*day, tzinfo=NEW_YORK) for day in ((2024, 10, 31), (2024, 11, 1), (2024, 11, 4))]


def bars(days=DAYS, *, early=0, minutes=30):
    """Candles of half an hour of regular hours, and ``early`` candles before the open of each day."""
    opens = [day.replace(hour=9, minute=30).astimezone(UTC) for day in days]
    each = timedelta(minutes=minutes)
    times = [opened + place * each for opened in opens for place in range(-early, 390 // minutes)]
    price = 100 + np.arange(len(times)) % 7
    return pl.DataFrame(
        {
            "exchange": "X",
            "raw_symbol": "ACME",
            "interval": "30m" if minutes == 30 else "1m",
            "timestamp": pl.Series(times).dt.cast_time_unit("ns").dt.convert_time_zone("UTC"),
            "open": price,
            "high": price + 2.0,
            "low": price - 1.0,
            "close": price + 1.0,
            "volume": price * 1.0,
        }
    )


def across(ax, dates):
    """The positions of times along the axes, in pixels."""
    return ax.transData.transform(np.column_stack([dates, np.full(len(dates), 100.0)]))[:, 0]


def test_candles_stand_side_by_side_over_nights_a_weekend_and_the_change_of_the_clock(ax):
    drawn = plot.candles(bars(), session=STOCKS, ax=ax)
    steps = np.diff(across(ax, [segment[0][0] for segment in drawn.wicks.get_segments()]))
    assert len(steps) == 38
    assert_allclose(steps, steps[0], rtol=1e-4)
    plot.candles(bars(), ax=(plain := Figure().add_subplot()))
    steps = np.diff(across(plain, [segment[0][0] for segment in drawn.wicks.get_segments()]))
    assert steps.max() > 50 * steps.min()


def test_times_are_those_of_the_session_and_breaks_are_lines(ax):
    drawn = plot.candles(bars(), session=STOCKS, ax=ax)
    ax.figure.canvas.draw()
    assert ax.get_xlabel() == "Time [America/New_York], 2024-10-31 to 2024-11-04"
    texts = [text.get_text() for text in ax.get_xticklabels()]
    assert [text for text in texts if "\n" in text] == ["09:30\n31 Oct", "09:30\n01 Nov", "09:30\n04 Nov"]
    (rules,) = [[mark.at for mark in drawn.model.panels[0].marks if mark.order == 2.05]]
    assert [f"{num2date(at, NEW_YORK):%d %H:%M}" for at in rules] == ["01 09:30", "04 09:30"]
    plot.candles(bars(), session=STOCKS, timezone="UTC", ax=(other := Figure().add_subplot()))
    assert other.get_xlabel().startswith("Time [UTC]")


def test_values_outside_of_the_sessions_are_left_out_and_counted(ax):
    drawn = plot.volume(bars(early=2), session=STOCKS, ax=ax)
    assert ax.get_title(loc="left") == "Volume · X ACME, 30m, 6 outside the sessions left out"
    assert np.isfinite(drawn.steps.get_data().values).sum() == 39


def test_a_market_that_never_closes_looks_as_without_a_session(ax):
    frame = bars()
    day = plot.candles(frame, session=Session.utc_day(), ax=ax)
    plain = plot.candles(frame, ax=Figure().add_subplot())
    assert_array_equal(day.wicks.get_segments(), plain.wicks.get_segments())
    assert [mark for mark in day.model.panels[0].marks if mark.order == 2.05] == []


def test_many_sessions_have_a_tick_per_date_and_joined_candles_stay_in_them(ax):
    days = [datetime(2024, 9, 2, tzinfo=NEW_YORK) + timedelta(days=day) for day in range(25) if day % 7 < 5]
    drawn = plot.candles(bars(days, minutes=1), session=STOCKS, ax=ax)
    assert "joined from 7,410 rows" in ax.get_title(loc="left")
    assert ":" not in "".join(text.get_text() for text in ax.get_xticklabels())
    positions = across(ax, [segment[0][0] for segment in drawn.wicks.get_segments()])
    assert (np.diff(positions) > 0).all()


def test_both_pictures_leave_out_the_same_time():
    interactive = pytest.importorskip("plotly") and plot.interactive
    axis = interactive.candles(bars(), session=STOCKS).layout.xaxis
    assert [list(span.bounds) for span in axis.rangebreaks] == [
        ["2024-10-31T16:00", "2024-11-01T09:30"],
        ["2024-11-01T16:00", "2024-11-04T10:30"],  # the clock of a figure has one offset
    ]
    figure = interactive.volume(bars(), session=STOCKS)
    assert figure.layout.xaxis.rangebreaks == axis.rangebreaks


def test_candles_and_their_volume_share_open_time():
    levels = pl.DataFrame(
        {"price": [99.0, 100.0, 101.0], "buy_volume": [1.0, 4.0, 2.0], "sell_volume": [1.0, 2.0, 3.0]}
    )
    axes = plot.panels(Figure(figsize=(9, 6)))
    plot.candles_with_profile(bars(), levels, session=STOCKS, axes=axes)
    axes.price.figure.canvas.draw()
    starts = list(axes.price.get_xlim())
    assert_allclose(across(axes.price, starts), across(axes.volume, starts))


def test_what_is_no_session_is_refused(ax):
    with pytest.raises(QueryError, match="session"):
        plot.candles(bars(), session="XNYS", ax=ax)
