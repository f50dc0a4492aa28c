from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import polars as pl
import pytest
from matplotlib.dates import date2num
from matplotlib.figure import Figure
from numpy.testing import assert_allclose

from tidytape import plot
from tidytape.errors import MissingColumnError, QueryError
from tidytape.schema import schema_of

START = datetime(2024, 8, 8, tzinfo=UTC)
WHOSE = {
    "exchange": "X",
    "raw_symbol": "BTCUSDT",
    "normalized_symbol": "BTC-USDT",
    "coin": "BTC",
    "amount_unit": "COIN",
}
ROWS = (
    # minute, side, price, size
    (0, "BID", 99.0, 3.0),
    (0, "BID", 99.5, 1.0),
    (0, "ASK", 100.0, 2.0),
    (1, "BID", 99.5, 4.0),
    (1, "ASK", 100.5, 8.0),
    (3, "BID", 99.5, 5.0),
    (3, "ASK", 99.5, 6.0),
)


def book(*rows, interval="MINUTE", **whose):
    levels = pl.DataFrame(
        rows,
        schema={"minute": pl.Int64, "side": pl.String, "price": pl.Float64, "size": pl.Float64},
        orient="row",
    )
    frame = levels.with_columns(
        pl.Series(
            "timestamp", [START + timedelta(minutes=m) for m in levels["minute"]], pl.Datetime("ns", "UTC")
        ),
        *(pl.lit(value).alias(name) for name, value in (WHOSE | whose | {"interval": interval}).items()),
    )
    return schema_of("BLOCK_BOOK_SNAPSHOT_AGG").conform(frame.drop("minute"))


def matrix(image):
    return np.ma.filled(image.get_array().astype(float), np.nan)


def test_sizes_stand_at_their_time_and_price(ax, native):
    drawn = plot.book_heatmap(native(book(*ROWS)), ax=ax)
    nan = np.nan
    assert_allclose(matrix(drawn.bids), [[3, nan, nan, nan], [1, 4, nan, 5], [nan] * 4, [nan] * 4])
    assert_allclose(
        matrix(drawn.asks), [[nan] * 4, [nan, nan, nan, 6], [2, nan, nan, nan], [nan, 8, nan, nan]]
    )
    left, right, bottom, top = drawn.bids.get_extent()
    assert (bottom, top, drawn.block_size) == (99.0, 101.0, 0.5)
    assert_allclose([left, right], date2num([START, START + timedelta(minutes=4)]))
    assert drawn.bids.get_extent() == drawn.asks.get_extent()


def test_sides_are_told_apart_on_one_scale(ax):
    drawn = plot.book_heatmap(book(*ROWS), ax=ax)
    assert drawn.bids.get_cmap() != drawn.asks.get_cmap()
    assert drawn.bids.get_clim() == drawn.asks.get_clim()
    low, high = drawn.bids.get_clim()
    assert 0 < low < high <= 8.0


def test_axes_are_labelled_with_units(ax):
    plot.book_heatmap(book(*ROWS), ax=ax, timezone="Asia/Tokyo")
    assert ax.get_ylabel() == "Price [USDT per BTC]"
    assert ax.get_xlabel() == "Time [Asia/Tokyo]"
    assert ax.get_title(loc="left") == "Order book · X BTCUSDT, 1m"
    scales = [inset.get_ylabel() for inset in ax.child_axes]
    assert scales == ["Bids [BTC per 0.5 USDT]", "Asks [BTC per 0.5 USDT]"]
    ax.figure.canvas.draw()


def test_sizes_asked_for_in_usd_say_so(ax):
    plot.book_heatmap(book(*ROWS).with_columns(amount_unit=pl.lit("USD")), ax=ax)
    assert ax.child_axes[0].get_ylabel() == "Bids [USD per 0.5 USDT]"
    plot.book_heatmap(book(*ROWS).drop("amount_unit"), ax=ax)
    assert ax.child_axes[2].get_ylabel() == "Bids"


def test_larger_blocks_add_up(ax):
    drawn = plot.book_heatmap(book(*ROWS), ax=ax, block_size=1)
    assert_allclose(matrix(drawn.bids)[0], [4, 4, np.nan, 5])
    assert drawn.block_size == 1.0


@pytest.mark.parametrize("step", [0.1, 0.01])
def test_regridding_keeps_sums(ax, step):
    rows = [(0, "BID", round(100 - step * n, 2), 1 + n % 7) for n in range(1000)]
    drawn = plot.book_heatmap(book(*rows), ax=ax, prices=(0, 1000))
    assert np.nansum(matrix(drawn.bids)) == sum(size for *_, size in rows)
    assert len(matrix(drawn.bids)) <= 401
    assert_allclose(drawn.block_size, 5 * step)


@pytest.mark.slow
def test_far_levels_are_left_out_unless_asked_for(ax):
    rows = (*ROWS, (0, "BID", 0.5, 1.0), (0, "ASK", 10_000.0, 1.0))
    assert ax.get_ylim() != plot.book_heatmap(book(*rows), ax=ax).ax.get_ylim() == (99.0, 101.0)
    assert plot.book_heatmap(book(*rows), ax=ax, prices=(0, 99.5)).ax.get_ylim() == (0.5, 100.0)


def test_books_a_second_apart_need_no_interval(ax):
    frame = book(*ROWS).with_columns(
        timestamp=START + (pl.col("timestamp") - START) / 60, interval=pl.lit(None)
    )
    assert matrix(plot.book_heatmap(frame, ax=ax).bids).shape == (4, 4)


def test_uneven_instants_are_refused(ax):
    times = [START, START + timedelta(microseconds=1), START + timedelta(days=1)]
    frame = book(*ROWS[:3], interval=None).with_columns(
        timestamp=pl.Series(times, dtype=pl.Datetime("ns", "UTC"))
    )
    with pytest.raises(QueryError, match="even steps"):
        plot.book_heatmap(frame, ax=ax)


def test_order_of_the_rows_does_not_matter(ax):
    drawn = [plot.book_heatmap(frame, ax=ax) for frame in (book(*ROWS), book(*reversed(ROWS)))]
    assert_allclose(matrix(drawn[0].asks), matrix(drawn[1].asks))


@pytest.mark.parametrize("rows", [(), ((0, "BID", None, 1.0), (0, "BID", 1.0, None), (0, "ASK", 1.0, 0.0))])
def test_nothing_to_show_says_no_data(ax, native, rows):
    drawn = plot.book_heatmap(native(book(*rows)), ax=ax)
    assert [text.get_text() for text in ax.texts] == ["no data"]
    assert (drawn.bids, drawn.asks, drawn.block_size) == (None, None, None)
    ax.figure.canvas.draw()


@pytest.mark.parametrize("rows", [ROWS[:1], ROWS[2:3]])
def test_one_level_of_one_side(rows):
    ax = Figure(layout="constrained").add_subplot()
    plot.book_heatmap(book(*rows), ax=ax)
    ax.figure.canvas.draw()


@pytest.mark.parametrize(
    ("arguments", "parameter"),
    [({"block_size": 0}, "block_size"), ({"prices": (2, 1)}, "prices"), ({"timezone": "Mars"}, "timezone")],
)
@pytest.mark.parametrize("rows", [(), ROWS])
def test_wrong_arguments_are_refused_whatever_the_data(ax, arguments, parameter, rows):
    with pytest.raises(QueryError) as caught:
        plot.book_heatmap(book(*rows), ax=ax, **arguments)
    assert caught.value.parameter == parameter


@pytest.mark.parametrize("name", ["timestamp", "side", "price", "size"])
def test_missing_column_is_named(ax, name):
    with pytest.raises(MissingColumnError, match=f"'{name}'"):
        plot.book_heatmap(book(*ROWS).drop(name), ax=ax)


def test_several_markets_are_refused(ax):
    with pytest.raises(QueryError, match="filter the frame to one exchange"):
        plot.book_heatmap(pl.concat([book(*ROWS), book(*ROWS, exchange="Y")]), ax=ax)


@pytest.mark.slow
def test_times_must_be_datetimes_or_nanoseconds(ax):
    counted = pl.col("timestamp").to_physical()
    drawn = plot.book_heatmap(book(*ROWS).with_columns(counted), ax=ax)
    assert drawn.bids.get_extent() == plot.book_heatmap(book(*ROWS), ax=ax).bids.get_extent()
    with pytest.raises(QueryError, match="times with a zone"):
        plot.book_heatmap(book(*ROWS).with_columns(counted.cast(pl.Float64)), ax=ax)


def trades(*rows, **whose):
    """Trades of (minute, side, price, amount)."""
    columns = {"minute": pl.Float64, "side": pl.String, "price": pl.Float64, "amount": pl.Float64}
    frame = pl.DataFrame(rows, schema=columns, orient="row")
    times = [START + timedelta(minutes=m) for m in frame["minute"]]
    return frame.with_columns(
        pl.Series("timestamp", times, pl.Datetime("ns", "UTC")),
        *(pl.lit(value).alias(name) for name, value in (WHOSE | whose).items()),
    )


@pytest.mark.slow
def test_the_mid_is_drawn_where_both_sides_are_known(ax):
    drawn = plot.book_heatmap(book(*ROWS, (4, "BID", 99.0, 1.0)), ax=ax)
    assert_allclose(drawn.mid.get_data().values, [99.75, 100, np.nan, 99.5, np.nan])
    # Of blocks it lies between the middles of the best ones.
    blocks = book(*ROWS, block_size=0.5)
    assert_allclose(plot.book_heatmap(blocks, ax=ax).mid.get_data().values, [100, 100.25, np.nan, 99.75])
    assert plot.book_heatmap(book(*ROWS[:2]), ax=ax).mid is None


@pytest.mark.slow
def test_the_picture_shows_the_market_and_not_what_rests_far_away(ax):
    near = [
        (m, side, 100.0 + m + sign * n, 5.0) for m in range(9) for n in range(1, 40) for side, sign in SIDES
    ]
    far = [
        (m, side, 100.0 + m + sign * n, 1.0) for m in range(9) for n in range(40, 99) for side, sign in SIDES
    ]
    low, high = plot.book_heatmap(book(*near, *far), ax=ax).ax.get_ylim()
    # The mid goes from 100 to 108; 20 levels and one more, beyond either end.
    assert (low, high) == (79, 130)
    assert plot.book_heatmap(book(*near, *far), ax=ax, prices=(50, 60)).ax.get_ylim() == (50, 61)


SIDES = (("BID", -1), ("ASK", 1))


def test_the_price_has_a_third_of_the_picture_where_it_moves(ax):
    rows = [
        (m, side, 1000.0 + 50 * m + sign * n, 5.0)
        for m in range(9)
        for n in range(0, 900, 5)
        for side, sign in SIDES
    ]
    low, high = plot.book_heatmap(book(*rows), ax=ax).ax.get_ylim()
    assert high - low == pytest.approx(3 * 400, abs=20)


def test_trades_are_dots_by_side_and_amount(ax, native):
    rows = trades(
        (0.25, "BUY", 100.0, 1.0), (0.75, "BUY", 100.0, 3.0), (1.5, "SELL", 99.5, 2.0), (9, "BUY", 100.0, 9.0)
    )
    drawn = plot.book_heatmap(book(*ROWS), ax=ax, trades=native(rows))
    # One dot per column, side and price: at the mean time of its trades. The one of minute 9 is outside.
    (bought,) = drawn.buys.get_offsets()
    assert_allclose(bought, [date2num(START + timedelta(minutes=0.625)), 100.0])
    (sold,) = drawn.sells.get_offsets()
    assert_allclose(sold, [date2num(START + timedelta(minutes=1.5)), 99.5])
    assert drawn.buys.get_sizes()[0] == pytest.approx(2 * drawn.sells.get_sizes()[0])
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert labels == ["Mid", "Buys, up to 4 BTC", "Sells, up to 2 BTC"]


def test_the_largest_trades_are_drawn(ax):
    rows = [(n / 1000, "BUY", 99.0 + n % 97 / 60, 1.0 + n) for n in range(4000)]
    drawn = plot.book_heatmap(book(*ROWS), ax=ax, trades=trades(*rows))
    assert len(drawn.buys.get_offsets()) <= 300
    assert drawn.sells is None


def test_trades_of_another_market_are_refused(ax):
    with pytest.raises(QueryError, match="trades of ETH-USDT"):
        plot.book_heatmap(
            book(*ROWS), ax=ax, trades=trades((0, "BUY", 1.0, 1.0), normalized_symbol="ETH-USDT")
        )


def test_rows_that_no_memory_has_room_for_are_refused(ax):
    with pytest.raises(QueryError, match="block_size"):
        plot.book_heatmap(book(*ROWS), block_size=1e-9, ax=ax)


def test_a_block_size_that_is_text_is_refused(ax):
    with pytest.raises(QueryError, match="numbers in column block_size"):
        plot.book_heatmap(book(*ROWS).with_columns(block_size=pl.lit("1.0")), ax=ax)


@pytest.mark.slow
def test_sizes_below_what_a_cell_can_hold_are_drawn_as_nothing(ax):
    drawn = plot.book_heatmap(book((0, "BID", 100.0, 1e-300), (0, "ASK", 101.0, 2e-300)), ax=ax)
    drawn.ax.get_figure().draw_without_rendering()
    assert drawn.bids.norm.vmin > 0
