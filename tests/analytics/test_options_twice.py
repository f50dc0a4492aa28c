"""What is there twice in series of volatilities: nobody knows which of the two holds, so neither does."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import polars as pl
import pytest

from engines import Engine
from tables import each_row
from tidytape.analytics import options

NOW = datetime(2026, 3, 5, tzinfo=UTC)
HOURS = [NOW + timedelta(hours=hour) for hour in range(8)]

Asked = Callable[[Any], Any]


def asked(engine: Engine, frame: pl.DataFrame, call: Asked, *columns: str, sort: str) -> list[Any]:
    """The answer, of the rows in either order."""
    answers = [
        engine.polars(call(engine.frame(rows))).sort(sort).select(*columns)
        for rows in (frame, frame.reverse())
    ]
    assert answers[0].fill_nan(None).equals(answers[1].fill_nan(None))
    found = answers[0].fill_nan(None)
    return found.to_series().to_list() if len(columns) == 1 else found.rows()


def points(days: list[float], volatilities: list[float]) -> pl.DataFrame:
    return pl.DataFrame({"coin": "BTC", "timestamp": NOW, "days": days, "iv_atm": volatilities})


@pytest.mark.parametrize("other", [60.0, 70.0])
def test_a_maturity_that_is_there_twice_says_nothing_of_those_around_it(engine: Engine, other: float):
    frame = points([7.0, 14.0, 28.0, 28.0, 56.0, 90.0], [65.0, 63.0, 60.0, other, 58.0, 57.0])
    call = partial(options.constant_maturity, days=[10, 20, 28, 30, 70])
    found = asked(engine, frame, call, "iv_atm", sort="days")
    assert [value is None for value in found] == [False, True, True, True, False]


def test_a_term_structure_passes_over_a_maturity_that_is_there_twice(engine: Engine):
    frame = points([14.0, 28.0, 28.0, 56.0], [63.0, 60.0, 70.0, 58.0]).rename(
        {"iv_atm": "implied_volatility"}
    )
    found = asked(engine, frame, options.forward_volatility, "days", "next_days", sort="days")
    assert found == [(14.0, 56.0)]


def test_a_slope_has_no_end_that_is_there_twice(engine: Engine):
    frame = points([14.0, 28.0, 28.0, 56.0], [63.0, 60.0, 70.0, 58.0]).rename(
        {"iv_atm": "implied_volatility"}
    )
    call = partial(options.slope, short=28, long=56)
    assert asked(engine, frame, call, "short", "long", "slope", "structure", sort="timestamp") == [
        (None, 58.0, None, None)
    ]


def test_a_tenor_that_is_there_twice_has_no_value(engine: Engine):
    frame = pl.DataFrame(
        {"timestamp": NOW, "tenor": ["ONE_W", "ONE_W", "ONE_M"], "implied_volatility": [54.0, 55.0, 52.0]}
    )
    call = partial(options.tenor_slope, short="1w", long="1m")
    assert asked(engine, frame, call, "short", "long", "slope", sort="timestamp") == [(None, 52.0, None)]


def test_values_of_a_time_that_is_there_twice_are_compared_with_nothing(engine: Engine):
    hours = [0, 1, 2, 2, 3, 4]
    frame = pl.DataFrame(
        {"timestamp": [HOURS[hour] for hour in hours], "skew": [1.0, 3.0, 5.0, 9.0, 2.0, 4.0]}
    )
    call = partial(options.percentile, value="skew", window=4, least=2)
    assert asked(engine, frame, call, "percentile", sort="timestamp") == [None, None, None, None, 50.0, 100.0]
    call = partial(options.z_score, value="skew", window=4, least=2)
    assert asked(engine, frame, call, "z_score", sort="timestamp") == [
        *[None] * 4,
        0.0,
        pytest.approx(1.5 / 0.5**0.5),
    ]


FIT = {"a": 0.04, "b": 0.1, "rho": 0.0, "m": 0.0, "sigma": 0.2, "lowest": -0.4, "highest": 0.4}


def fits() -> pl.DataFrame:
    days = [14.0, 28.0, 28.0, 56.0, 90.0]
    least = [0.02, 0.04, 0.05, 0.06, 0.09]
    return pl.DataFrame({"timestamp": NOW, "days": days, **FIT, "a": least})


def test_a_surface_has_a_hole_around_a_fit_that_is_there_twice(engine: Engine):
    call = partial(options.surface, days=[14, 20, 28, 30, 70], moneyness=0)
    found = asked(engine, fits(), call, "implied_volatility", sort="days")
    assert [value is None for value in found] == [False, True, True, True, False]


@pytest.mark.parametrize("kind", ["polars", "pandas"])
def test_no_calendar_arbitrage_is_told_next_to_a_fit_that_is_there_twice(kind: str):
    found = asked(Engine(kind), fits(), options.svi_arbitrage, "least_gain", sort="days")
    assert [value is None for value in found] == [True, True, True, False, True]


def candles(hours: list[int], **prices: list[float | None]) -> pl.DataFrame:
    return pl.DataFrame({"timestamp": [HOURS[hour] for hour in hours], **prices})


@pytest.mark.parametrize(
    "estimator", ["close_to_close", "yang_zhang", "garman_klass", "parkinson", "rogers_satchell"]
)
def test_a_candle_that_is_there_twice_hides_no_gap(engine: Engine, estimator: str):
    closes = [100.0, 101.0, 101.0, 103.0, 104.0, 106.0, 107.0]
    highs, lows = [close + 2 for close in closes], [close - 3 for close in closes]
    frame = candles([0, 1, 1, 3, 4, 5, 6], open=closes, high=highs, low=lows, close=closes)
    call = partial(options.realized_volatility, window=3, estimator=estimator, interval="1h")
    found = asked(engine, frame, call, "realized_volatility", sort="timestamp")
    first = 6 if estimator in ("close_to_close", "yang_zhang") else 5
    assert [value is not None for value in found] == [place >= first for place in range(7)]


@pytest.mark.slow
@each_row("bad", [None, -5.0, 0.0])
@each_row("column", ["open", "high", "low", "close"])
@each_row("estimator", ["yang_zhang", "garman_klass", "parkinson", "rogers_satchell"])
def test_a_candle_without_a_price_has_no_volatility(estimator: str, column: str, bad: float | None):
    prices = {
        name: [100.0 + shift] * 4 for name, shift in {"open": 0, "high": 2, "low": -1, "close": 1}.items()
    }
    prices[column] = [*prices[column][:3], bad]
    frame = candles([0, 1, 2, 3], **prices)
    found = options.realized_volatility(frame, window=2, estimator=estimator, interval="1h")[
        "realized_volatility"
    ]
    assert found[2] is not None
    assert found[3] is None
