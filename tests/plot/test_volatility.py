from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import polars as pl
import pytest
from numpy.testing import assert_allclose

from tidytape import plot
from tidytape.errors import MissingColumnError, QueryError

START = datetime(2024, 8, 8, tzinfo=UTC)


def summary(*rows, value="implied_volatility", **columns):
    """A summary of (hour, tenor, value)."""
    hours, tenor, values = zip(*rows, strict=True)
    return pl.DataFrame(
        {
            "exchange": "X", "raw_symbol": "BTC_ATM", "coin": "BTC", "interval": "HOUR", "tenor": tenor,
            "timestamp": [START + timedelta(hours=hour) for hour in hours], value: values, **columns,
        },
        schema_overrides={value: pl.Float64},
    )  # fmt: skip


FOUR = summary((1, "ONE_W", 51), (0, "ONE_M", 60), (0, "ONE_W", 50), (3, "ONE_M", 63), (0, "ONE_Y", None))


def legend(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def test_a_line_per_tenor_from_the_shortest(ax, native):
    drawn = plot.volatility(native(FOUR), ax=ax)
    assert list(drawn.lines) == [7, 30]  # of a year nothing is known
    assert_allclose(drawn.lines[7].get_ydata(), [50, 51])
    assert_allclose(drawn.lines[30].get_ydata(), [60, np.nan, 63])
    assert drawn.realized is None
    assert legend(ax) == ["1m", "1w"]
    assert ax.get_ylabel() == "Implied volatility [%]"
    assert ax.get_title(loc="left") == "Volatility · X BTC_ATM, 1h"
    ax.figure.canvas.draw()


def test_realised_volatility_lies_beside(ax, native):
    realized = pl.DataFrame(
        {
            "interval": "HOUR", "timestamp": [START, START + timedelta(hours=1)], "realized_volatility": [None, 44.0],
            "window": 24,
        }
    )  # fmt: skip
    drawn = plot.volatility(native(FOUR), realized=native(realized), ax=ax)
    assert_allclose(drawn.realized.get_ydata(), [np.nan, 44])
    assert legend(ax) == ["implied, 1m", "implied, 1w", "realised, 24 × 1h"]
    assert ax.get_ylabel() == "Volatility [%]"


def test_days_are_a_length_too(ax):
    days = {"ONE_W": 7.0, "ONE_M": 30.0, "ONE_Y": 365.0}
    constant = FOUR.with_columns(pl.col("tenor").replace_strict(days).alias("days")).drop("tenor")
    drawn = plot.volatility(constant.rename({"implied_volatility": "iv_atm"}), ax=ax)
    assert list(drawn.lines) == [7, 30]
    assert legend(ax) == ["30 d", "7 d"]
    many = pl.DataFrame({"timestamp": START, "days": np.arange(13.0), "implied_volatility": 50.0})
    with pytest.raises(QueryError, match="constant_maturity"):
        plot.volatility(many, ax=ax)


def test_skew_says_its_sign(ax, native):
    drawn = plot.skew(native(summary((0, "ONE_W", -2), (1, "ONE_W", 3), value="skew")), ax=ax)
    assert_allclose(drawn.lines[7].get_ydata(), [-2, 3])
    assert ax.get_ylabel() == "Skew, put minus call [vol points]"
    assert ax.get_title(loc="left") == "Skew · X BTC_ATM, 1h, 1w"
    assert ax.get_legend() is None


def test_risk_reversals_say_theirs(ax):
    value = "rr25_call_minus_put"
    plot.skew(summary((0, "ONE_W", -2), value=value), ax=ax)
    assert ax.get_ylabel() == "25-delta risk reversal, call minus put [vol points]"
    with pytest.raises(QueryError, match="one risk reversal"):
        plot.skew(summary((0, "ONE_W", -2), value=value, rr10_call_minus_put=1.0), ax=ax)


@pytest.mark.parametrize("draw", [plot.volatility, plot.skew])
def test_no_values_say_no_data(ax, native, draw):
    frame = FOUR.clear().with_columns(skew=pl.lit(None, pl.Float64))
    assert draw(native(frame), ax=ax).lines == {}
    assert [text.get_text() for text in ax.texts] == ["no data"]


def test_what_is_wrong_is_named(ax):
    with pytest.raises(MissingColumnError, match="'implied_volatility'"):
        plot.volatility(FOUR.drop("implied_volatility"), ax=ax)
    with pytest.raises(MissingColumnError, match="'skew'"):
        plot.skew(FOUR, ax=ax)
    with pytest.raises(MissingColumnError, match="'days'"):
        plot.volatility(FOUR.drop("tenor"), ax=ax)
    other = FOUR.with_columns(raw_symbol=pl.lit("ETH_ATM"))
    with pytest.raises(QueryError, match="those of one market"):
        plot.volatility(pl.concat([FOUR, other]), ax=ax)
    with pytest.raises(QueryError, match="tenor TWO_W"):
        plot.volatility(summary((0, "TWO_W", 1)), ax=ax)
    with pytest.raises(QueryError, match="several rows"):
        plot.volatility(pl.concat([FOUR, FOUR]), ax=ax)
