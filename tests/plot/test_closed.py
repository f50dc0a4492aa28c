"""Pictures of a market that closes: the axis shows open time only."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from inspect import signature
from zoneinfo import ZoneInfo

import numpy as np
import polars as pl
import pytest
from matplotlib.dates import date2num, num2date
from matplotlib.figure import Figure
from numpy.testing import assert_allclose, assert_array_equal

from plot.test_interactive import ASKED
from tidytape import Client, Session, plot
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
        # A break hides its first moment, so the end of a session is before it.
        ["2024-10-31T16:00:00.001", "2024-11-01T09:30:00.000"],
        ["2024-11-01T16:00:00.001", "2024-11-04T10:30:00.000"],  # the clock of a figure has one offset
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


# --- candles of a day ---

FX = Session.of("FX")
# Sundays to Thursdays at 17:00 in New York, where the sessions of Mondays to Fridays open.
EVENINGS = [datetime(2024, 8, day, 21, tzinfo=UTC) for day in (4, 5, 6, 7, 8, 11, 12)]
MIDNIGHTS = [datetime(2024, 8, day, tzinfo=UTC) for day in (5, 6, 7, 8, 9, 12, 13)]
TOKYO = Session("09:00", "15:30", zone="Asia/Tokyo", pause=("11:30", "12:30"))


def days_of(times):
    frame = bars(DAYS[:1]).head(len(times))
    return frame.with_columns(
        timestamp=pl.Series(times, dtype=pl.Datetime("ns", "UTC")), interval=pl.lit("1d")
    )


def starts(drawn):
    return [segment[0][0] - 0.5 for segment in drawn.wicks.get_segments()]


@pytest.mark.parametrize("times", [EVENINGS, MIDNIGHTS])
def test_candles_of_a_day_stand_at_the_date_of_their_session(ax, times):
    drawn = plot.candles(days_of(times), session=FX, ax=ax)
    assert_allclose(starts(drawn), date2num(MIDNIGHTS))
    assert ax.get_title(loc="left") == "Candles · X ACME, 1d"
    assert ax.get_xlabel() == "Date of the session, 2024-08-05 to 2024-08-13"
    ax.figure.canvas.draw()
    texts = [text.get_text() for text in ax.get_xticklabels()]
    assert texts == ["05 Aug", "06 Aug", "07 Aug", "08 Aug", "09 Aug", "12 Aug", "13 Aug"]
    steps = np.diff(across(ax, starts(drawn)))
    assert_allclose(steps, steps[0], rtol=1e-4)


def test_a_date_at_midnight_counts_where_the_market_trades_then_and_where_it_does_not(ax):
    # At 00:00 UTC it is 09:00 in Tokyo, the open, and 20:00 of the day before in New York, after the close.
    for session in (TOKYO, STOCKS):
        drawn = plot.candles(days_of(MIDNIGHTS), session=session, ax=Figure().add_subplot())
        assert_allclose(starts(drawn), date2num(MIDNIGHTS))


def test_a_day_without_a_session_is_counted(ax):
    saturday = datetime(2024, 8, 10, tzinfo=UTC)
    drawn = plot.candles(days_of([*MIDNIGHTS[:5], saturday]), session=FX, ax=ax)
    assert len(starts(drawn)) == 5
    assert ax.get_title(loc="left").endswith("1 outside the sessions left out")


def test_the_page_has_the_dates_too():
    interactive = pytest.importorskip("plotly") and plot.interactive
    figure = interactive.candles(days_of(EVENINGS), session=FX)
    assert list(figure.data[0].x) == [f"{time:%Y-%m-%dT%H:%M}" for time in MIDNIGHTS]
    axis = figure.layout.xaxis
    assert [list(span.bounds) for span in axis.rangebreaks] == [
        ["2024-08-10T00:00:00.001", "2024-08-12T00:00:00.000"]
    ]
    assert axis.title.text == "Date of the session, 2024-08-05 to 2024-08-13"


def test_a_candle_of_a_day_that_is_moved_stays_within_its_profile(levels):
    candles = days_of(EVENINGS)
    profile = levels((100.0, 1.0, 2.0), (101.0, 3.0, 2.0), interval="1d").with_columns(
        exchange=pl.lit("X"), raw_symbol=pl.lit("ACME"), timestamp=candles["timestamp"].max()
    )
    profile = pl.concat([profile, profile.with_columns(timestamp=candles["timestamp"].min())])
    drawn = plot.candles_with_profile(
        candles.with_columns(coin=pl.lit("BTC")), profile, session=FX, axes=plot.panels(Figure())
    )
    assert_allclose(starts(drawn), date2num(MIDNIGHTS))


def test_nothing_that_is_inside_says_no_data(ax):
    weekend = bars([datetime(2024, 11, 2, tzinfo=NEW_YORK)])
    drawn = plot.candles(weekend, session=STOCKS, ax=ax)
    assert [text.get_text() for text in ax.texts] == ["no data"]
    assert ax.get_title(loc="left") == "Candles · 13 outside the sessions left out"
    holiday = Session(
        "09:30",
        "16:00",
        zone="America/New_York",
        days_off=[f"2024-11-{day:02}" for day in range(1, 31)],
    )
    drawn = plot.candles(
        bars([datetime(2024, 11, 14, tzinfo=NEW_YORK)]), session=holiday, ax=Figure().add_subplot()
    )
    assert "13 outside" in drawn.ax.get_title(loc="left")


# --- every picture ---

TAKERS = sorted(name for name in ASKED if "session" in signature(getattr(plot, name)).parameters)
HOURS = Session("08:30", "15:00", zone="America/Chicago")
OPENS = [datetime(2024, 8, day, 13, 30, tzinfo=UTC) for day in (7, 8)]


@pytest.fixture(scope="module")
def client():
    with Client.demo() as client:
        yield client


def test_pictures_of_cells_and_of_what_never_closes_take_no_session():
    assert {name for name in ASKED if "timezone" in signature(getattr(plot, name)).parameters} - {*TAKERS} == {
        "book_heatmap", "completeness", "coverage", "depth", "footprint", "funding", "liquidation_heatmap", "slippage",
        "smile", "surface", "term_structure",
    }  # fmt: skip


@pytest.mark.parametrize("name", [name for name in TAKERS if name != "market_profile"])
def test_each_picture_leaves_the_same_time_out_in_both_libraries(client, name):
    frames, asked = ASKED[name](client)
    plotly = pytest.importorskip("plotly") and plot.interactive
    drawn = getattr(plot, name)(*frames, session=HOURS, **asked)
    panels = [panel for panel in drawn.model.panels if panel.x.kind == "time"]
    for panel in panels:
        begins, ends = panel.x.runs
        # An hour counts if the market trades in a part of it.
        assert [num2date(time) for time in begins] == [time.replace(minute=0) for time in OPENS]
        rules = [
            mark.at for mark in panel.marks if getattr(mark, "is_upright", False) and hasattr(mark, "at")
        ]
        assert_allclose(rules, begins[1:])
        for mark in panel.marks:
            x = np.asarray(getattr(mark, "start", getattr(mark, "x", getattr(mark, "edges", []))), float)
            place = np.searchsorted(begins, x + 1e-9) - 1
            assert ((place >= 0) & (x <= ends[place] + 1e-9)).all(), type(mark)
    assert panels[-1].x.unit == HOURS.zone
    figure = getattr(plotly, name)(*frames, session=HOURS, **asked)
    assert len(figure.layout.xaxis.rangebreaks) == len(panels[0].x.runs[0]) - 1
    assert figure.layout.xaxis.title.text.startswith("Time [America/Chicago]")
    assert "outside the sessions left out" in drawn.model.panels[0].title
    # A break hides its first moment, and the times of its lines are no numbers of the vertical axis.
    assert all(span.bounds[0].endswith("15:00:00.001") for span in figure.layout.xaxis.rangebreaks)
    axes = [figure.layout[name] for name in figure.layout if name.startswith("yaxis")]
    assert max((max(axis.autorangeoptions.include or (0,)) for axis in axes), default=0) < 1_000


def test_sums_leave_out_what_is_not_traded_in_the_session(client):
    frames, _ = ASKED["order_flow"](client)
    inside = HOURS.label(frames[1]).filter(pl.col("segment") != "closed")
    # The hour from 13:00 to 14:00 UTC is a part of the session's first one.
    first = frames[1].filter(pl.col("timestamp").dt.hour() == 13)
    sides = pl.concat([inside.select(first.columns), first]).unique().sort("timestamp")
    delta = sides.group_by("timestamp", maintain_order=True).agg(
        (pl.col("volume") * pl.when(pl.col("side") == "BUY").then(1).otherwise(-1)).sum()
    )
    drawn = plot.order_flow(*frames, session=HOURS)
    cvd = drawn.cvd.get_data().values
    assert_allclose(cvd[np.isfinite(cvd)], delta["volume"].cum_sum())
    whole = Session("08:00", "15:00", zone="America/Chicago")  # the candles of an hour begin at its open
    again = plot.order_flow(*frames, session=whole, anchor="session").cvd.get_data().values
    assert np.isfinite(again).sum() == 14
    assert_allclose(again[np.isfinite(again)][:7], cvd[np.isfinite(cvd)][:7])
    assert_allclose(again[np.isfinite(again)][7:], delta["volume"][7:].cum_sum())


def test_the_page_draws_the_last_step_before_a_break(client):
    interactive = pytest.importorskip("plotly") and plot.interactive
    frames, _ = ASKED["order_flow"](client)
    (trace,) = [trace for trace in interactive.order_flow(*frames, session=HOURS).data if trace.name == "CVD"]
    gap = int(np.flatnonzero(np.isnan(np.array(trace.y, float)))[0])
    assert list(trace.x[gap - 2 : gap + 1]) == ["2024-08-07T14:00", "2024-08-07T15:00", "2024-08-07T15:00"]
    assert trace.y[gap - 2] == trace.y[gap - 1]


def test_a_line_goes_on_over_closed_time_and_has_its_gaps_else(ax):
    days = [*EVENINGS[:2], *EVENINGS[3:]]
    frame = pl.DataFrame(
        {
            "exchange": "X",
            "coin": "EUR",
            "interval": "1d",
            "tenor": "ONE_W",
            "timestamp": pl.Series(days, dtype=pl.Datetime("ns", "UTC")),
            "implied_volatility": np.arange(len(days)) * 1.0,
        }
    )
    (line,) = plot.volatility(frame, session=FX, ax=ax).lines.values()
    is_gap = np.isnan(line.get_ydata())
    assert is_gap.sum() == 1  # Wednesday; the weekend is none
    assert_allclose(line.get_xdata()[is_gap], date2num(MIDNIGHTS[2]))
    (plain,) = plot.volatility(frame, ax=Figure().add_subplot()).lines.values()
    assert np.isnan(plain.get_ydata()).sum() == 2


def test_what_is_no_session_is_refused(ax):
    with pytest.raises(QueryError, match="session"):
        plot.candles(bars(), session="XNYS", ax=ax)
