"""Market profiles, by their artists."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import polars as pl
import pytest
from matplotlib.dates import date2num
from matplotlib.figure import Figure
from numpy.testing import assert_allclose

from tidytape import Session, plot
from tidytape.analytics import profile
from tidytape.errors import MissingColumnError, QueryError

START = datetime(2024, 8, 8, tzinfo=UTC)
DAY = timedelta(days=1)
# Three sessions of four time blocks. The first POC, 102, is touched in the third; the third is naked, as the last.
SESSIONS = (
    {100: [0], 101: [0, 1], 102: [0, 1, 2], 103: [2], 104: [2, 3], 105: [3]},
    {106: [0, 1], 107: [0, 1, 2, 3], 108: [3]},
    {101: [2, 3], 102: [2], 103: [0, 1, 2], 104: [0, 1, 2, 3]},
)


def levels(*sessions, start=START, **columns):
    rows = [
        {
            "timestamp": start + n * DAY,
            "period_end": start + (n + 1) * DAY,
            "price": float(price),
            "block_ids": ids,
        }
        for n, session in enumerate(sessions)
        for price, ids in session.items()
    ]
    schema = {
        "timestamp": pl.Datetime("ns", "UTC"),
        "period_end": pl.Datetime("ns", "UTC"),
        "price": pl.Float64,
        "block_ids": pl.List(pl.Int32),
    }
    whose = {"exchange": "X", "raw_symbol": "BTCUSDT", "normalized_symbol": "BTC-USDT", "coin": "BTC"}
    return (
        pl.DataFrame(rows, schema=schema)
        .with_columns(
            *(pl.lit(value).alias(name) for name, value in whose.items()),
            interval=pl.lit("1d"),
            block_size=pl.lit(1.0),
            block_size_minutes=pl.lit(360, pl.Int64),
        )
        .with_columns(**{name: pl.lit(value) for name, value in columns.items()})
    )


def day(number):
    return date2num(START + number * DAY)


def boxes(collection):
    """Left, right, low and high of each rectangle."""
    found = [path.get_extents() for path in collection.get_paths()]
    return [(box.x0, box.x1, box.y0, box.y1) for box in found]


@pytest.fixture
def drawn(ax):
    return plot.market_profile(levels(*SESSIONS), ax=ax)


def test_every_touch_is_a_block_at_its_price_with_its_time(drawn):
    assert len(drawn.blocks.get_paths()) == sum(len(ids) for session in SESSIONS for ids in session.values())
    hours = [6 * block for session in SESSIONS for ids in session.values() for block in ids]
    assert_allclose(drawn.blocks.get_array(), hours)
    lows = [price for session in SESSIONS for price, ids in session.items() for _ in ids]
    assert_allclose([box[2] for box in boxes(drawn.blocks)], lows)
    assert_allclose([box[3] - box[2] for box in boxes(drawn.blocks)], 1)


def test_rows_of_all_sessions_have_one_scale_and_stay_in_their_session(drawn):
    widths = np.array([right - left for left, right, *_ in boxes(drawn.blocks)])
    assert_allclose(widths, widths[0], rtol=1e-6)
    place = 0
    for n, session in enumerate(SESSIONS):
        size = sum(map(len, session.values()))
        own = boxes(drawn.blocks)[place : place + size]
        assert all(day(n) <= left < right <= day(n + 1) for left, right, *_ in own)
        longest = max(map(len, session.values()))
        assert_allclose(max(right for _, right, *_ in own) - own[0][0], longest * widths[0], rtol=1e-5)
        place += size


def test_points_of_control_and_value_areas_are_those_of_analytics(drawn):
    areas = profile.value_area(
        levels(*SESSIONS).with_columns(n=pl.col("block_ids").list.len()),
        by="timestamp",
        count="n",
        row_size=1,
    )
    assert_allclose([segment[0][1] for segment in drawn.pocs.get_segments()], areas["poc"] + 0.5)
    assert_allclose([box[2] for box in boxes(drawn.value_areas)], areas["val"])
    assert_allclose([box[3] for box in boxes(drawn.value_areas)], areas["vah"] + 1)
    assert_allclose(
        [segment[:, 0] for segment in drawn.pocs.get_segments()], [(day(n), day(n + 1)) for n in range(3)]
    )


def test_a_point_of_control_goes_on_until_the_price_comes_back(drawn):
    ends = [segment[1][0] for segment in drawn.later_pocs.get_segments()]
    # Block 2 of the third session touches 102. The other two stay naked.
    assert_allclose(ends, [day(2) + 12 / 24, drawn.ax.get_xlim()[1], drawn.ax.get_xlim()[1]])
    assert drawn.naked == (107.0, 104.0)
    assert [text.get_text() for text in drawn.ax.texts] == ["107", "104"]


def test_initial_balances_and_single_prints_are_marked(drawn):
    # The first hour is block 0, of six hours.
    assert_allclose(
        [segment[:, 1] for segment in drawn.initial_balances.get_segments()],
        [(100, 103), (106, 108), (103, 105)],
    )
    # 100 and 105 are tails, and so is 108.
    singles = boxes(drawn.single_prints)
    assert_allclose(singles, [(day(0), day(1), 103, 104), (day(2), day(3), 102, 103)])


# --- time blocks count trading time ---

TOKYO = Session("09:00", "15:00", zone="Asia/Tokyo", pause=("11:30", "12:30"))
STOCKS = Session("09:30", "16:00", zone="America/New_York")


def at(*when):
    return datetime(2024, 8, *when, tzinfo=UTC)


def traded(opens, *sessions, minutes, ends=()):
    """Levels of sessions that open at these times, without their ends, or with those given."""
    frame = levels(*sessions, block_size_minutes=minutes).drop("period_end")
    times = pl.DataFrame({"opens": opens, "period_end": ends or [None] * len(opens)}).cast(
        pl.Datetime("ns", "UTC")
    )
    starts = frame["timestamp"].unique().sort()
    frame = frame.join(times.with_columns(timestamp=starts), on="timestamp", maintain_order="left")
    frame = frame.with_columns(timestamp="opens").drop("opens")
    return frame if ends else frame.drop("period_end")


def minutes_traded(session, start):
    """Each minute in which a market trades from a time on, one by one."""
    rows = session.schedule(start.date() - DAY, start.date() + 9 * DAY).iter_rows(named=True)
    for row in rows:
        moment = row["open"]
        while moment < row["close"]:
            in_break = row["break_start"] and row["break_start"] <= moment < row["break_end"]
            if moment >= start and not in_break:
                yield moment
            moment += timedelta(minutes=1)


@pytest.mark.parametrize("library", ["static", "interactive"])
@pytest.mark.parametrize("block", [0, 1, 2, 3, 4])
def test_the_line_of_a_point_of_control_ends_where_trading_time_says(block, library):
    # The first session is at 102; the second one comes back to it in a block of an hour before or after the break.
    first = {101: [0], 102: [0, 1, 2, 3, 4], 103: [1]}
    second = {102: [block], 103: [0, 1, 2, 3, 4], 104: [0, 4]}
    frame = traded([at(7, 0), at(8, 0)], first, second, minutes=60)
    wanted = list(minutes_traded(TOKYO, at(8, 0)))[60 * block]
    assert (wanted - at(8, 0) == block * timedelta(hours=1)) == (block < 3)
    if library == "static":
        drawn = plot.market_profile(frame, session=TOKYO, ax=Figure().add_subplot())
        ends = [segment[1][0] for segment in drawn.later_pocs.get_segments()]
    else:
        pytest.importorskip("plotly")
        figure = plot.interactive.market_profile(frame, session=TOKYO, timezone="UTC")
        (trace,) = [trace for trace in figure.data if trace.name == "POC until touched"]
        ends = date2num(np.array(trace.x[1::3], dtype="datetime64[ms]"))
    assert_allclose(ends[0], date2num(wanted), rtol=0, atol=1e-8)


def test_trading_time_of_a_week_goes_on_over_its_nights(ax):
    # Weeks of blocks of 90 minutes: 22 of them are the sessions of Monday to Friday, 32.5 hours.
    first = {101: [0], 102: [0, 1, 2, 21], 103: [1]}
    second = {102: [9], 103: [0, 1, 2, 9, 21], 104: [0]}
    opens = [at(5, 13, 30), at(12, 13, 30)]
    drawn = plot.market_profile(traded(opens, first, second, minutes=90), session=STOCKS, ax=ax)
    wanted = list(minutes_traded(STOCKS, opens[1]))[9 * 90]
    assert wanted == at(14, 14)  # 13.5 hours are two sessions and half an hour
    assert_allclose(drawn.later_pocs.get_segments()[0][1][0], date2num(wanted))
    # Without ``period_end`` the week ends with the session in which its last block begins, that of Friday.
    assert_allclose(widths(drawn)[0], date2num([opens[0], at(9, 20)]))


@pytest.mark.parametrize("ends", [(), (at(7, 20), at(8, 20))])
def test_a_session_ends_at_its_close_and_nights_leave_the_axis(ax, ends):
    # Blocks of an hour: the last one has half an hour.
    touched = {101: [0, 1, 6], 102: [0, 1, 2, 6], 103: [1]}
    frame = traded([at(7, 13, 30), at(8, 13, 30)], touched, touched, minutes=60, ends=ends)
    drawn = plot.market_profile(frame, session=STOCKS, ax=ax)
    assert_allclose(widths(drawn), [date2num([at(day, 13, 30), at(day, 20)]) for day in (7, 8)])
    pixels = ax.transData.transform([(end, 100) for pair in widths(drawn) for end in pair])[:, 0]
    assert_allclose(pixels[1], pixels[2], atol=0.01)
    ax.figure.canvas.draw()
    assert ax.get_xlabel() == "Time [America/New_York], 2024-08-07 to 2024-08-08, longest row: 4 × 60 min"
    # Blocks have the room that the night leaves them.
    boxes_there = ax.transData.transform([box[:2] for box in boxes(drawn.blocks)])[:, 0]
    assert boxes_there.max() - boxes_there.min() > 0.8 * (pixels[2] - pixels[0])


def test_the_image_of_the_page_has_its_place_without_the_nights(ax):
    pytest.importorskip("plotly")
    touched = {101: [0, 1, 6], 102: [0, 1, 2, 6], 103: [1]}
    frame = traded([at(7, 13, 30), at(8, 13, 30)], touched, touched, minutes=60)
    layout = plot.interactive.market_profile(frame, session=STOCKS).layout
    (image,) = layout.images
    assert [list(gap.bounds) for gap in layout.xaxis.rangebreaks] == [
        ["2024-08-07T16:00:00.001", "2024-08-08T09:30:00.000"]
    ]
    assert image.sizex == pytest.approx(13 * 3_600_000 * 1.02)


def test_levels_of_another_session_are_refused(ax):
    with pytest.raises(QueryError, match="opens when they do"):
        plot.market_profile(levels(*SESSIONS), session=STOCKS, ax=ax)
    whole = plot.market_profile(levels(*SESSIONS), session=Session.utc_day(), ax=ax)
    assert_allclose(widths(whole), [(day(number), day(number + 1)) for number in range(3)])


# --- letters ---


def test_letters_name_the_time_blocks(ax):
    drawn = plot.market_profile(levels(*SESSIONS), ax=ax, style="letters")
    assert drawn.blocks is None
    texts = [text.get_text() for text in drawn.letters]
    assert texts[:6] == ["A", "AB", "ABC", "C", "CD", "D"]
    assert len(texts) == sum(map(len, SESSIONS))
    assert ax.get_xlabel() == "Time [UTC], letters of 360 min"
    assert [text.get_text() for text in drawn.letters if text.get_weight() == "bold"] == [
        "ABC",
        "ABCD",
        "ABCD",
    ]


@pytest.mark.slow
def test_letters_without_room_are_blocks():
    ax = Figure(figsize=(1.5, 1.2)).add_subplot()
    many = {100 + n: [*range(48)] for n in range(40)}
    drawn = plot.market_profile(levels(many, block_size_minutes=30), ax=ax, style="letters")
    assert drawn.letters == ()
    assert len(drawn.blocks.get_paths()) == 48 * 20  # the rows of letters


def test_larger_rows_count_a_block_once(ax):
    drawn = plot.market_profile(levels(*SESSIONS[:1]), ax=ax, row_size=2)
    rows = {}
    for _, _, low, high in boxes(drawn.blocks):
        assert high - low == 2
        rows[low] = rows.get(low, 0) + 1
    assert rows == {100: 2, 102: 3, 104: 2}
    assert "rows of 2 USDT" in ax.get_title(loc="left")


@pytest.mark.slow
def test_rows_too_many_to_see_become_larger_ones(ax):
    drawn = plot.market_profile(levels({100 + n: [0] for n in range(500)}), ax=ax)
    assert drawn.row_height == 5
    assert len(drawn.blocks.get_paths()) == 100


@pytest.mark.slow
def test_touches_of_trades_look_as_their_levels(ax, native):
    touches = levels(*SESSIONS).explode("block_ids").rename({"block_ids": "block_id"})
    drawn = plot.market_profile(native(touches), ax=ax)
    wanted = plot.market_profile(levels(*SESSIONS), ax=Figure(figsize=(8, 5)).add_subplot())
    assert boxes(drawn.blocks) == boxes(wanted.blocks)


def test_frames_of_every_kind_look_the_same(ax, native):
    drawn = plot.market_profile(native(levels(*SESSIONS)), ax=ax)
    assert drawn.naked == (107.0, 104.0)
    assert len(drawn.blocks.get_paths()) == 27
    ax.figure.canvas.draw()


def test_title_and_axes_say_what_is_drawn(drawn):
    ax = drawn.ax
    assert ax.get_title(loc="left") == "Market profile · X BTCUSDT, 3 sessions of 1 d, rows of 1 USDT"
    assert ax.get_ylabel() == "Price [USDT per BTC]"
    assert ax.get_xlabel() == "Time [UTC], longest row: 4 × 360 min"
    assert [inset.get_ylabel() for inset in ax.child_axes] == ["Time into the session [h]"]
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert labels == ["Value area, 70%", "POC", "POC until touched", "Initial balance", "Single prints"]


@pytest.mark.slow
def test_a_profile_of_candles_says_so(ax):
    plot.market_profile(levels(*SESSIONS, spreading="uniform"), ax=ax)
    assert ax.get_title(loc="left").endswith("rows of 1 USDT, made of candles")


def widths(drawn):
    """Return the start and the end of each session, in days, as its point of control is drawn."""
    return [tuple(segment[:, 0]) for segment in drawn.pocs.get_segments()]


def test_a_session_without_its_end_is_as_long_as_its_time_blocks(ax, native):
    bare = levels(SESSIONS[0], interval="1h").drop("period_end", "block_size_minutes")
    drawn = plot.market_profile(native(bare), ax=ax, block_minutes=30)
    assert_allclose(widths(drawn), [(day(0), day(2 / 24))])
    assert ax.get_xlabel().endswith("longest row: 3 × 30 min")


def test_sessions_without_an_end_are_as_long_as_the_time_to_the_next(ax):
    # The time blocks that were touched fill two hours; the second session starts two days later.
    bare = levels(*SESSIONS, interval="1h").drop("period_end", "block_size_minutes")
    first_and_third = bare.filter(pl.col("timestamp") != START + DAY)
    drawn = plot.market_profile(first_and_third, ax=ax, block_minutes=30)
    assert_allclose(widths(drawn), [(day(0), day(2)), (day(2), day(4))])


def test_an_end_that_is_known_counts_and_one_that_is_not_follows_from_blocks(ax):
    is_first = pl.col("timestamp") == START
    part = levels(*SESSIONS[:2], block_size_minutes=30).with_columns(
        period_end=pl.when(is_first).then("period_end")
    )
    half = part.with_columns(pl.col("period_end").dt.offset_by("-12h"))
    assert_allclose(widths(plot.market_profile(half, ax=ax)), [(day(0), day(0.5)), (day(1), day(2))])


@pytest.mark.slow
@pytest.mark.parametrize("missing", [[], ["block_size_minutes"], ["block_size_minutes", "period_end"]])
def test_the_argument_is_the_column_of_the_length_of_a_block(missing):
    two = [Figure().add_subplot() for _ in range(2)]
    told = plot.market_profile(levels(*SESSIONS), ax=two[0])
    asked = plot.market_profile(levels(*SESSIONS).drop(missing), ax=two[1], block_minutes=360)
    assert widths(asked) == widths(told)
    for boxes, own in zip(told.initial_balances.get_paths(), asked.initial_balances.get_paths(), strict=True):
        assert_allclose(own.vertices, boxes.vertices)
    assert two[0].get_xlabel() == two[1].get_xlabel()


def test_the_argument_counts_before_the_column(ax):
    # An initial balance of blocks of 30 minutes is two blocks; of blocks of six hours it is one.
    drawn = plot.market_profile(levels(SESSIONS[0]), ax=ax, block_minutes=30)
    assert ax.get_xlabel().endswith("30 min")
    assert drawn.initial_balances.get_paths()[0].vertices[:, 1].max() == 103


@pytest.mark.parametrize("column", [{}, {"block_size_minutes": pl.when(price=100).then(30).otherwise(60)}])
def test_levels_that_do_not_say_how_long_a_block_is_are_refused(ax, native, column):
    bare = levels(*SESSIONS).drop("block_size_minutes").with_columns(**column)
    with pytest.raises(QueryError, match=r"block_minutes.*with_sessions adds it"):
        plot.market_profile(native(bare), ax=ax)


@pytest.mark.slow
@pytest.mark.parametrize("sessions", [(), ({100: []},)])
@pytest.mark.parametrize("style", ["blocks", "letters"])
def test_nothing_to_show_says_no_data(ax, native, sessions, style):
    drawn = plot.market_profile(native(levels(*sessions)), ax=ax, style=style)
    assert [text.get_text() for text in ax.texts] == ["no data"]
    assert (drawn.row_height, drawn.naked, drawn.letters, drawn.blocks) == (None, (), (), None)
    ax.figure.canvas.draw()


@pytest.mark.parametrize(
    ("arguments", "parameter"),
    [
        ({"style": "bars"}, "style"),
        ({"row_size": 0}, "row_size"),
        ({"row_size": 1.5}, "row_size"),
        ({"share": 2}, "share"),
        ({"timezone": "Mars"}, "timezone"),
        ({"block_minutes": 0}, "block_minutes"),
        ({"block_minutes": "30m"}, "block_minutes"),
    ],
)
def test_wrong_arguments_are_refused(ax, arguments, parameter):
    with pytest.raises(QueryError) as caught:
        plot.market_profile(levels(*SESSIONS), ax=ax, **arguments)
    assert caught.value.parameter == parameter


def test_levels_that_do_not_say_their_blocks_are_refused(ax):
    with pytest.raises(MissingColumnError, match="block_ids"):
        plot.market_profile(levels(*SESSIONS).drop("block_ids"), ax=ax)


def test_several_markets_are_refused(ax):
    both = pl.concat([levels(*SESSIONS), levels(*SESSIONS).with_columns(exchange=pl.lit("Y"))])
    with pytest.raises(QueryError, match="filter the frame to one exchange"):
        plot.market_profile(both, ax=ax)
