from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import polars as pl
import pytest
from numpy.testing import assert_allclose

from tidytape import plot
from tidytape.errors import MissingColumnError, QueryError

START = datetime(2024, 8, 8, tzinfo=UTC)
YEAR = 365 * 3 * 100  # settlements of 8 hours in a year, in percent


def rates(*rows):
    """Rates of (exchange, hour, settled, predicted)."""
    exchange, hours, settled, predicted = zip(*rows, strict=True)
    return pl.DataFrame(
        {
            "exchange": exchange, "raw_symbol": "BTC", "coin": "BTC", "interval": "HOUR",
            "timestamp": [START + timedelta(hours=hour) for hour in hours],
            "rate_close": settled, "predicted_close": predicted,
        },
        schema_overrides={"rate_close": pl.Float64, "predicted_close": pl.Float64},
    )  # fmt: skip


def interest(*rows, unit="USD", coin="BTC"):
    """Open interest of (exchange, hour, amount)."""
    exchange, hours, amount = zip(*rows, strict=True)
    return pl.DataFrame(
        {
            "exchange": exchange, "raw_symbol": "BTC", "coin": coin, "interval": "HOUR", "amount_unit": unit,
            "timestamp": [START + timedelta(hours=hour) for hour in hours], "close": amount,
        },
        schema_overrides={"close": pl.Float64},
    )  # fmt: skip


TWO = rates(("A", 1, 0.0002, None), ("A", 0, 0.0001, 0.0003), ("B", 0, 0.0004, None))


def test_lines_are_rates_per_year(ax, native):
    drawn = plot.funding(native(TWO), ax=ax)
    assert_allclose(drawn.settled["A"].get_ydata(), np.array([0.0001, 0.0002, 0.0002]) * YEAR)
    assert_allclose(drawn.settled["B"].get_ydata(), np.array([0.0004, 0.0004]) * YEAR)
    assert_allclose(drawn.predicted["A"].get_ydata(), [0.0003 * YEAR, np.nan])
    assert list(drawn.predicted) == ["A"]  # B has none
    assert drawn.means == {}
    assert drawn.settled["A"].get_drawstyle() == "steps-post"
    assert (
        drawn.settled["A"].get_color() == drawn.predicted["A"].get_color() != drawn.settled["B"].get_color()
    )
    ax.figure.canvas.draw()


@pytest.mark.slow
def test_title_says_the_funding_interval(ax):
    plot.funding(TWO, ax=ax)
    assert ax.get_title(loc="left") == "Funding · BTC, 2 markets, 1h, from rates per 8h"
    assert ax.get_ylabel() == "Funding rate [% per year]"
    drawn = plot.funding(TWO, funding_interval="1h", ax=ax)
    assert ax.get_title(loc="left") == "Funding · BTC, 2 markets, 1h, from rates per 1h"
    assert_allclose(drawn.settled["B"].get_ydata(), 0.0004 * 8 * YEAR)


def test_a_column_says_the_interval_of_each_rate(ax):
    own = TWO.with_columns(funding_interval=pl.lit(4 * 3_600_000_000_000))
    drawn = plot.funding(own, ax=ax)
    assert_allclose(drawn.settled["B"].get_ydata(), 0.0004 * 2 * YEAR)
    assert ax.get_title(loc="left") == "Funding · BTC, 2 markets, 1h"
    with pytest.raises(QueryError, match="funding_interval"):
        plot.funding(own, funding_interval="8h", ax=ax)


@pytest.mark.slow
def test_the_mean_weighs_by_open_interest(ax, native):
    """0.05% on 10 billion and 0.2% on 0.1 billion are 0.051485%, as definitions say."""
    pair = rates(("A", 0, 0.0005, None), ("B", 0, 0.002, None))
    drawn = plot.funding(native(pair), open_interest=native(interest(("A", 0, 10e9), ("B", 0, 0.1e9))), ax=ax)
    assert_allclose(drawn.means[""].get_ydata(), 0.00051485 * YEAR, rtol=1e-4)
    assert legend(ax)[-1] == "mean by open interest"


def test_the_legend_says_what_the_mean_does_not_cover(ax):
    more = interest(("A", 0, 6.0), ("B", 0, 1.0), ("C", 0, 3.0))  # C has no rate
    plot.funding(TWO, open_interest=more, ax=ax)
    assert legend(ax)[-1] == "mean by open interest,\n60% or more of it"  # in the hour in which B has none


def legend(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def test_coins_of_several_cannot_be_added(ax):
    several = pl.concat([interest(("A", 0, 1.0), unit="COIN", coin=coin) for coin in ("BTC", "ETH")])
    with pytest.raises(QueryError, match="in coin of 2 coins"):
        plot.funding(TWO, open_interest=several, ax=ax)


def test_no_rates_say_no_data(ax, native):
    drawn = plot.funding(native(TWO.clear()), ax=ax)
    assert (drawn.settled, drawn.predicted, drawn.means) == ({}, {}, {})
    assert [text.get_text() for text in ax.texts] == ["no data"]
    with pytest.raises(MissingColumnError, match="'rate_close'"):
        plot.funding(TWO.drop("rate_close"), ax=ax)
    with pytest.raises(QueryError, match="time zone"):
        plot.funding(TWO, timezone="Mars")


def test_open_interest_that_came_twice_is_refused(ax):
    twice = interest(("A", 0, 10e9), ("B", 0, 1e9), ("A", 0, 10e9))
    with pytest.raises(
        QueryError, match="open_interest: got '1 row with the exchange, raw_symbol and timestamp"
    ):
        plot.funding(TWO, open_interest=twice, ax=ax)
