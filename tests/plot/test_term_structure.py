from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

import numpy as np
import polars as pl
import pytest
from matplotlib.colors import rgb_to_hsv, to_rgb
from matplotlib.dates import date2num
from matplotlib.figure import Figure
from numpy.testing import assert_allclose

from tidytape import plot
from tidytape.catalogue import Tenor
from tidytape.errors import MissingColumnError, QueryError
from tidytape.schema import schema_of

START = datetime(2026, 3, 5, 4, tzinfo=UTC)


@pytest.fixture
def summary():
    """A summary of (symbol, hour, tenor, value) rows."""

    def frame(*rows, value="implied_volatility", exchange="DERIBIT", interval="HOUR"):
        columns = ["raw_symbol", "hour", "tenor", value]
        numbers = pl.DataFrame(rows, schema=columns, orient="row").with_columns(
            pl.col(value).cast(pl.Float64)
        )
        return schema_of(f"{value.upper()}_OPTION_SUMMARY_AGG").conform(
            numbers.with_columns(
                pl.Series(
                    "timestamp",
                    [START + timedelta(hours=hour) for hour in numbers["hour"]],
                    pl.Datetime("ns", "UTC"),
                ),
                exchange=pl.lit(exchange),
                interval=pl.lit(interval),
            ).drop("hour")
        )

    return frame


BTC = (("BTC_ATM", 0, "ONE_M", 52.0), ("BTC_ATM", 0, "ONE_D", 54.0), ("BTC_ATM", 0, "ONE_W", 55.0))


def legend(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def test_times_may_be_nanoseconds(summary, ax, native):
    counted = summary(*BTC).with_columns(pl.col("timestamp").dt.timestamp("ns"))
    drawn = plot.term_structure(native(counted), ax=ax)
    expected = plot.term_structure(summary(*BTC), ax=Figure().add_subplot())
    assert list(drawn.lines) == list(expected.lines)


def test_a_line_goes_through_the_tenors_in_order(summary, ax, native):
    drawn = plot.term_structure(native(summary(*BTC)), ax=ax)
    assert list(drawn.lines) == [("BTC_ATM", START)]
    days, values = drawn.lines["BTC_ATM", START].get_data()
    assert_allclose(days, [1, 3, 7, 30])
    assert_allclose(values, [54.0, np.nan, 55.0, 52.0])
    assert len(ax.lines) == 1


def test_axes_are_labelled_with_units(summary, ax):
    plot.term_structure(summary(*BTC), ax=ax)
    assert ax.get_ylabel() == "Implied volatility [%]"
    assert ax.get_xlabel() == "Tenor [d, log scale]"
    assert ax.get_xscale() == "log"
    ticks = [tick.get_text() for tick in ax.get_xticklabels()]
    assert ticks == ["1d\n1", "3d\n3", "1w\n7", "1m\n30", "2m\n60", "3m\n90", "6m\n180", "1y\n365"]
    assert_allclose(ax.get_xticks(), [tenor.days for tenor in Tenor])


def test_one_line_is_named_by_the_title_alone(summary, ax):
    plot.term_structure(summary(*BTC), ax=ax, timezone="Asia/Tokyo")
    assert ax.get_title(loc="left") == "Term structure · DERIBIT BTC_ATM, 1h, 2026-03-05 13:00 Asia/Tokyo"
    assert ax.get_legend() is None


def test_times_of_a_symbol_go_from_pale_to_full(summary, ax):
    rows = [("BTC_25", hour, tenor, 4.0) for hour in (11, 0, 5) for tenor in ("ONE_D", "ONE_W")]
    drawn = plot.term_structure(summary(*rows, value="skew"), ax=ax)
    assert [time.hour for _, time in drawn.lines] == [4, 9, 15]
    colours = [to_rgb(line.get_color()) for line in drawn.lines.values()]
    strength = [rgb_to_hsv(colour)[1] for colour in colours]
    assert strength == sorted(strength)
    assert_allclose(colours[-1], to_rgb("#0072b2"))
    assert ax.get_title(loc="left") == "Term structure of skew · DERIBIT BTC_25, 1h"
    assert legend(ax) == ["2026-03-05 04:00", "2026-03-05 09:00", "2026-03-05 15:00"]
    assert ax.get_legend().get_title().get_text() == "Time [UTC]"
    assert ax.get_ylabel() == "Skew, put minus call [vol points]"


def test_symbols_differ_in_colour(summary, ax):
    drawn = plot.term_structure(summary(*BTC, ("ETH_ATM", 0, "ONE_D", 70.0)), ax=ax)
    assert len({line.get_color() for line in drawn.lines.values()}) == 2
    assert ax.get_title(loc="left") == "Term structure · DERIBIT, 1h, 2026-03-05 04:00 UTC"
    assert legend(ax) == ["BTC_ATM", "ETH_ATM"]


def test_venues_are_named_where_they_differ(summary, ax):
    plot.term_structure(pl.concat([summary(*BTC), summary(*BTC, exchange="OKX")]), ax=ax)
    assert legend(ax) == ["DERIBIT BTC_ATM", "OKX BTC_ATM"]


def test_of_many_times_the_legend_lists_the_first_and_the_last(summary, ax):
    many = summary(*(("BTC_ATM", hour, "ONE_D", 50.0) for hour in range(20)))
    plot.term_structure(many, as_map=False, ax=ax)
    assert legend(ax) == ["2026-03-05 04:00", "2026-03-05 23:00"]


def test_skew_has_its_zero(summary, ax):
    plot.term_structure(summary(("BTC_25", 0, "ONE_D", 4.0), value="skew"), ax=ax)
    low, high = ax.get_ylim()
    assert low < 0
    assert high > 4


def test_only_what_tells_the_lines_apart_is_needed(summary, ax):
    plot.term_structure(summary(*BTC).select("tenor", "timestamp", "implied_volatility"), ax=ax)
    assert ax.get_title(loc="left") == "Term structure · 2026-03-05 04:00 UTC"


def test_nothing_to_draw_says_no_data(summary, ax, native):
    plot.term_structure(native(summary(("BTC_ATM", 0, "ONE_D", None))), ax=ax)
    assert [text.get_text() for text in ax.texts] == ["no data"]
    ax.figure.canvas.draw()


def test_order_of_the_rows_does_not_matter(summary, ax):
    frame = summary(*BTC, ("ETH_ATM", 1, "ONE_D", 70.0))
    first, second = (plot.term_structure(rows, ax=ax).lines for rows in (frame, frame.reverse()))
    assert list(first) == list(second)
    for key, line in first.items():
        assert_allclose(line.get_xydata(), second[key].get_xydata())


def test_several_rows_of_one_point_are_refused(summary, ax):
    with pytest.raises(QueryError, match="filter the frame to one interval"):
        plot.term_structure(pl.concat([summary(*BTC), summary(*BTC, interval="DAY")]), ax=ax)


def test_what_is_wrong_is_named(summary, ax):
    with pytest.raises(MissingColumnError, match="'tenor'"):
        plot.term_structure(summary(*BTC).drop("tenor"), ax=ax)
    with pytest.raises(MissingColumnError, match="'implied_volatility'"):
        plot.term_structure(summary(*BTC).drop("implied_volatility"), ax=ax)
    with pytest.raises(MissingColumnError, match="'skew'"):
        plot.term_structure(summary(*BTC), value="skew", ax=ax)
    with pytest.raises(QueryError, match="value: got 'iv'"):
        plot.term_structure(summary(*BTC), value="iv", ax=ax)
    with pytest.raises(QueryError, match="the frame has both"):
        plot.term_structure(summary(*BTC).with_columns(skew=1.0), ax=ax)
    with pytest.raises(QueryError, match="tenor TWO_Y"):
        plot.term_structure(summary(("BTC_ATM", 0, "TWO_Y", 50.0)), ax=ax)
    with pytest.raises(QueryError, match="times with a zone"):
        plot.term_structure(summary(*BTC).with_columns(pl.col("timestamp").cast(pl.String)), ax=ax)
    with pytest.raises(QueryError, match="a frame of polars, pandas"):
        plot.term_structure([1])


def test_of_both_values_one_can_be_chosen(summary, ax):
    plot.term_structure(summary(*BTC).with_columns(skew=1.0), value="skew", ax=ax)
    assert ax.get_ylabel() == "Skew, put minus call [vol points]"


# -- by days to expiry


def expiries(*rows, **columns):
    coin, days, value = zip(*rows, strict=True)
    frame = {
        "exchange": "DERIBIT",
        "coin": coin,
        "timestamp": START,
        "days": days,
        "implied_volatility": value,
    }
    return pl.DataFrame(
        {**frame, **columns}, schema_overrides={"days": pl.Float64, "implied_volatility": pl.Float64}
    )


def test_expiries_are_drawn_by_their_days(ax, native):
    frame = expiries(("BTC", 30.5, 52.0), ("BTC", 0.5, 54.0), ("BTC", 8.0, None), ("BTC", -1.0, None))
    drawn = plot.term_structure(native(frame), ax=ax)
    [(name, line)] = drawn.lines.items()
    assert name == ("BTC", START)
    assert_allclose(line.get_xydata(), [[0.5, 54.0], [8.0, np.nan], [30.5, 52.0]])
    assert ax.get_xlabel() == "Time to expiry [d, log scale]"
    assert_allclose(ax.get_xlim(), [0.4, 30.5 * 1.25])
    assert ax.get_title(loc="left") == "Term structure · DERIBIT BTC, 2026-03-05 04:00 UTC"


def test_coins_differ_in_colour(ax):
    plot.term_structure(expiries(("BTC", 7, 52), ("ETH", 7, 70), ("ETH", 14, 71)), ax=ax)
    assert legend(ax) == ["BTC", "ETH"]


def test_expiries_without_a_value_say_no_data(ax):
    plot.term_structure(expiries(("BTC", 7, None), ("BTC", -1, 50)), ax=ax)
    assert [text.get_text() for text in ax.texts] == ["no data"]


def test_several_rows_of_one_expiry_are_refused(ax):
    with pytest.raises(QueryError, match="one row per symbol, time and days"):
        plot.term_structure(expiries(("BTC", 7, 50), ("BTC", 7, 51)), ax=ax)


# -- maps


def test_many_times_of_one_symbol_are_a_map(summary, ax, native):
    rows = [("BTC_ATM", hour, tenor, 50 + hour) for hour in range(7) for tenor in ("ONE_D", "ONE_M")]
    drawn = plot.term_structure(native(summary(*rows)), ax=ax)
    assert drawn.lines == {}
    values = np.ma.filled(drawn.mesh.get_array(), np.nan)
    hours = np.arange(50.0, 57)
    # The tenors between the two have no value.
    assert_allclose(values, [hours, [np.nan] * 7, [np.nan] * 7, hours])
    edges = drawn.mesh.get_coordinates()
    assert_allclose((edges[0, :, 0] - date2num(START)) * 24, range(8), atol=1e-6)
    assert_allclose(
        edges[1, 0, 1], math.sqrt(1 * 3)
    )  # half way between 1 and 3 days, as the axis is logarithmic
    assert ax.get_title(loc="left") == "Term structure · DERIBIT BTC_ATM, 1h, 7 times"
    assert ax.get_ylabel() == "Tenor [log scale]"
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["1d", "3d", "1w", "1m"]
    bar = ax.child_axes[0]
    assert bar.get_ylabel() == "Implied volatility [%]"
    assert len(bar.get_yticks()) > 1
    ax.figure.canvas.draw()


def test_few_times_are_a_map_if_told_so(summary, ax):
    assert plot.term_structure(summary(*BTC), as_map=True, ax=ax).mesh.get_array().shape == (4, 1)
    both = summary(*BTC, ("ETH_ATM", 0, "ONE_D", 70.0))
    with pytest.raises(QueryError, match="2 symbols"):
        plot.term_structure(both, as_map=True, ax=ax)
    assert plot.term_structure(summary(*BTC).clear(), as_map=True, ax=ax).mesh is None


def test_a_map_has_gaps_where_times_are_missing(summary, ax):
    rows = [("BTC_ATM", hour, "ONE_D", 50.0) for hour in (*range(7), 9)]
    values = np.ma.filled(plot.term_structure(summary(*rows), ax=ax).mesh.get_array(), np.nan)
    assert_allclose(values, [[*[50.0] * 7, np.nan, 50.0]])


def test_colours_of_both_signs_are_centred(summary, ax):
    rows = [("BTC_25", hour, "ONE_D", hour - 2.0) for hour in range(7)]
    mesh = plot.term_structure(summary(*rows, value="skew"), ax=ax).mesh
    assert mesh.get_clim() == (-4, 4)
    assert ax.child_axes[0].get_ylabel() == "Skew, put minus call [vol points]"


def test_expiries_that_come_nearer_show_the_nearest_and_nothing_beyond(ax):
    days = np.array([2.0, 8.0, 32.0])
    frame = pl.concat(
        pl.DataFrame(
            {
                "coin": "BTC", "timestamp": START + timedelta(hours=hour), "days": days - hour / 24,
                "implied_volatility": [60.0, 55.0, 50.0],
            }
        )
        for hour in range(8)
    )  # fmt: skip
    mesh = plot.term_structure(frame, ax=ax).mesh
    values, edges = mesh.get_array(), mesh.get_coordinates()
    centres = np.sqrt(edges[1:, 0, 1] * edges[:-1, 0, 1])
    for column in range(8):
        own = days - column / 24
        nearest = np.abs(np.log(centres[:, None] / own)).argmin(axis=1)
        inside = (centres >= own[0]) & (centres <= own[-1])
        expected = np.where(inside, np.array([60.0, 55.0, 50.0])[nearest], np.nan)
        assert_allclose(np.ma.filled(values[:, column], np.nan), expected)
    assert set(values.compressed()) == {60.0, 55.0, 50.0}
