"""Funding: golden numbers, signs, what is not known, and recorded rates."""

from __future__ import annotations

import csv
import gzip
import json
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from oracles.funding import apy
from tables import each_row
from tidytape.analytics import funding, pit
from tidytape.errors import MissingColumnError, NoMatchWarning, QueryError, SettlementWarning

pytestmark = pytest.mark.usefixtures("small_times")  # times are small numbers of nanoseconds

HOUR = 3_600_000_000_000
MIDNIGHT = datetime(2024, 8, 8, tzinfo=UTC)


def points(rates, *, every=8, **columns):
    """One market's rates, so many hours apart from midnight of the epoch."""
    times = [number * every * HOUR for number in range(len(rates))]
    frame = pl.DataFrame({"timestamp": times, "rate_close": pl.Series(rates, dtype=pl.Float64), **columns})
    return frame.with_columns(exchange=pl.lit("A"), raw_symbol=pl.lit("BTC"))


# --- over another interval, and per year ---------------------------------------------------------------------------


def test_rates_are_linear_in_their_interval():
    got = funding.normalized(points([0.0008, None, float("nan")]), to="1h", funding_interval="8h")
    assert got["rate_close"].to_list() == [0.0001, None, None]
    assert got["funding_interval"].to_list() == [HOUR] * 3


def test_a_row_that_is_there_twice_predicts_and_settles_nothing(engine):
    once = points([0.0001, 0.0002, 0.0004, 0.0008], predicted_close=[0.00025, 0.0003, 0.0005, 0.1])
    frame = pl.concat([once, once[1:2].with_columns(rate_close=0.5)])
    got = engine.polars(funding.predicted_error(engine.frame(frame), settled_every="8h", interval="8h"))
    assert got["timestamp"].to_list() == [0, 8 * HOUR, 16 * HOUR, 24 * HOUR]
    assert got["settled"].fill_nan(None).to_list() == [0.0001, None, 0.0004, 0.0008]
    assert got["predicted"].fill_nan(None).to_list() == [None, 0.00025, None, 0.0005]
    assert got["error"].fill_nan(None).is_null().to_list() == [True, True, True, False]


def test_a_market_that_is_there_twice_is_in_no_pair(engine):
    rows = [("A", 0.1), ("A", 0.2), ("B", 0.3), ("C", 0.5)]
    frame = pl.DataFrame(rows, schema=["exchange", "rate_close"], orient="row").with_columns(
        raw_symbol=pl.lit("X"), timestamp=pl.lit(0, pl.Int64)
    )
    got = engine.polars(funding.spread(engine.frame(frame)))
    assert got["exchange"].to_list() == ["A", "A", "B", "B", "C", "C"]
    assert got["spread"].fill_nan(None).to_list() == [
        None,
        None,
        None,
        pytest.approx(-0.2),
        None,
        pytest.approx(0.2),
    ]
    best = funding.carry(engine.frame(frame), costs=0.0, holding="8h", funding_interval="8h")
    assert engine.polars(best).select("long_exchange", "short_exchange").rows() == [("B", "C")]


def test_a_settlement_that_is_there_twice_pays_what_is_not_known(engine):
    frame = points([0.1, 0.2, 0.3])
    frame = pl.concat([frame, frame[1:2].with_columns(rate_close=0.5)])
    got = engine.polars(funding.accrued(engine.frame(frame), settled_every="8h", funding_interval="8h"))
    assert got["payment"].fill_nan(None).to_list() == [-0.1, None, None, -0.3]
    assert got["missed"].to_list() == [0, 1, 1, 1]
    assert got["accrued"].fill_nan(None).to_list() == [-0.1, None, None, None]


def test_a_rate_over_the_interval_wanted_stays_to_the_last_bit():
    rates = [0.1 + 0.2, 1e-17 / 3, -0.0001]
    assert funding.normalized(points(rates), to="8h", funding_interval="8h")["rate_close"].to_list() == rates


def test_a_normalized_frame_says_its_interval():
    hourly = funding.normalized(points([0.0001]), to="1h", funding_interval="8h")
    assert funding.normalized(hourly, to="8h")["rate_close"].item() == 0.0001
    assert funding.annualized(hourly)["apr"].item() == pytest.approx(0.1095, rel=1e-15)


def test_every_column_of_rates_is_normalized_and_no_other():
    frame = points([0.1], predicted_high=[0.2], predicted_rate=[0.4], open=[8.0])
    got = funding.normalized(frame, to="4h", funding_interval="8h")
    assert got.select("rate_close", "predicted_high", "predicted_rate", "open").row(0) == (
        0.05,
        0.1,
        0.2,
        8.0,
    )
    one = funding.normalized(frame, to="4h", funding_interval="8h", rates="predicted_high")
    assert one.select("rate_close", "predicted_high").row(0) == (0.1, 0.1)


@pytest.mark.parametrize(
    ("rate", "interval", "apr", "percent"),
    [(0.0001, "8h", 0.1095, None), (0.0000125, "1h", 0.1095, 11.57)],
    ids=["0.01% per 8 h", "0.00125% per hour"],
)
def test_golden_rates_per_year(rate, interval, apr, percent):
    got = funding.annualized(points([rate]), funding_interval=interval)
    assert got["apr"].item() == pytest.approx(apr, rel=1e-15)
    if percent is not None:
        assert round(100 * got["apy"].item(), 2) == percent


@pytest.mark.slow
@each_row("rate", [1e-17, 1e-12, -3e-9, 1.25e-5, 1e-4, -1e-4, 0.003, -0.01, 0.01, 0.0])
def test_compounding_is_right_to_the_last_digits(rate):
    got = funding.annualized(points([rate]), funding_interval="8h")["apy"].item()
    assert got == pytest.approx(apy(rate, times=1095), rel=5e-15, abs=0)


def test_a_rate_that_takes_all_has_no_compounded_year():
    got = funding.annualized(points([-1.0, -1.5, None, float("inf")]), funding_interval="8h")
    assert got["apy"].to_list() == [None] * 4
    assert got["apr"].to_list() == [-1095.0, -1642.5, None, None]


def test_an_interval_that_is_not_positive_is_not_known():
    frame = points([0.1] * 4, funding_interval=[8 * HOUR, 0, -1, None])
    assert funding.annualized(frame)["apr"].round(9).to_list() == [109.5, None, None, None]
    assert frame.schema["funding_interval"] == funding.annualized(frame).schema["funding_interval"]
    assert funding.normalized(frame, to="8h")["rate_close"].to_list() == [0.1, None, None, None]


@pytest.mark.parametrize(
    "call",
    [
        lambda frame, **given: funding.normalized(frame, to="1h", **given),
        funding.annualized,
        lambda frame, **given: funding.accrued(frame, settled_every="8h", **given),
        lambda frame, **given: funding.carry(frame, costs=0, holding="1d", **given),
    ],
    ids=["normalized", "annualized", "accrued", "carry"],
)
def test_the_interval_of_a_rate_is_asked_for_and_never_guessed(call):
    with pytest.raises(QueryError, match="the client brings rates to 8h unless it is told otherwise"):
        call(points([0.1]))
    with pytest.raises(QueryError, match="the frame's column funding_interval says it"):
        call(points([0.1], funding_interval=[HOUR]), funding_interval="8h")
    with pytest.raises(QueryError, match="nanoseconds in column funding_interval"):
        call(points([0.1], funding_interval=["8h"]))
    with pytest.raises(QueryError, match="a positive duration"):
        call(points([0.1]), funding_interval="0h")


@pytest.mark.parametrize("bare", [8, 8.0, "80", True, None])
def test_a_number_without_a_unit_is_no_duration(bare):
    with pytest.raises(QueryError, match=r"'\d+h'"):
        funding.normalized(points([0.1]), to=bare, funding_interval="8h")
    with pytest.raises(QueryError, match=r"'\d+h'"):
        funding.accrued(points([0.1]), settled_every=bare, funding_interval="8h")
    assert funding.normalized(points([0.8]), to=timedelta(hours=1), funding_interval="8h")[
        "rate_close"
    ].item() == pytest.approx(0.1)


# --- settlements ---------------------------------------------------------------------------------------------------


def test_longs_pay_shorts_where_funding_is_positive():
    frame = points([0.0001, 0.0002, -0.0004])
    long = funding.accrued(frame, settled_every="8h", funding_interval="8h", position=10_000)
    assert long["payment"].to_list() == pytest.approx([-1, -2, 4])
    assert long["accrued"].to_list() == pytest.approx([-1, -3, 1])
    short = funding.accrued(frame, settled_every="8h", funding_interval="8h", position=-10_000)
    assert short["accrued"].to_list() == [-paid for paid in long["accrued"].to_list()]


def test_the_same_rate_told_every_hour_is_paid_once_per_settlement():
    hourly = points([0.0001] * 8 + [0.0003] * 8 + [0.0002], every=1)
    got = funding.accrued(hourly, settled_every="8h", funding_interval="8h", position=-1.0)
    assert got["timestamp"].to_list() == [0, 8 * HOUR, 16 * HOUR]
    assert got["accrued"].to_list() == pytest.approx([0.0001, 0.0004, 0.0006])


EIGHT_HOURS = {"settled_every": "8h", "funding_interval": "8h"}


@pytest.mark.parametrize("kind", [pl.DataFrame, pl.DataFrame.to_pandas, pl.DataFrame.to_arrow])
def test_a_rate_that_changes_between_settlements_is_a_warning(kind):
    hourly = points([0.0001] * 12 + [0.0003] * 4 + [0.0002], every=1, interval="HOUR")
    other = hourly.with_columns(exchange=pl.lit("B"), rate_close=0.5)
    frame = kind(pl.concat([other, hourly]))
    with pytest.warns(
        SettlementWarning, match="exchange='A', raw_symbol='BTC' changes at 1970-01-01T12"
    ) as caught:
        funding.accrued(frame, **EIGHT_HOURS)
    (warning,) = caught
    assert warning.filename == __file__
    assert (warning.message.parameter, warning.message.got) == ("settled_every", "8h")
    assert warning.message.hint.endswith("is 4h; if the market settles so often, pass settled_every='4h'")
    funding.accrued(frame, settled_every="4h", funding_interval="8h")


def test_an_anchor_that_is_not_the_market_s_is_a_warning():
    hourly = points([0.0001] * 8 + [0.0003] * 8, every=1)
    with pytest.warns(SettlementWarning, match=r"rate_close changes at 1970-01-01T08:00:00Z$"):
        funding.accrued(hourly, anchor="1970-01-01T04:00:00Z", by=[], **EIGHT_HOURS)


def test_rates_that_prove_nothing_do_not_warn():
    noise = points([0.0003, 0.1 + 0.2, 0.3, None, float("nan"), 0.3], every=1)[1:]
    funding.accrued(noise, **EIGHT_HOURS)
    # A row that reaches over a settlement closes with the rate of the next one.
    over = points([0.0001, 0.0002, 0.0003], every=6)
    funding.accrued(over, interval="6h", **EIGHT_HOURS)
    with pytest.warns(SettlementWarning):
        funding.accrued(over, interval="1h", **EIGHT_HOURS)
    # A row that is there twice is unknown, and is counted as missed.
    funding.accrued(pl.concat([points([0.1]), points([0.2])]), **EIGHT_HOURS)
    # Nobody reads a lazy frame to warn.
    funding.accrued(points([0.1, 0.2], every=1).lazy(), **EIGHT_HOURS).collect()
    funding.accrued(points([0.1, 0.2], every=1), settled_every="row")


def test_it_is_a_sum_of_settlements_and_no_mean_times_time():
    # What was held when it settled counts, not what was held on average: 1 at the high rate, 3 at the low one.
    frame = points([0.01, 0.0], held=[1.0, 3.0])
    got = funding.accrued(frame, settled_every="8h", funding_interval="8h", position="held")
    assert got["accrued"].to_list() == [-0.01, -0.01]  # mean position x mean rate x 2 would say -0.02


def test_a_rate_over_another_interval_is_paid_in_parts():
    # Rates per 8 hours of a market that settles every hour: an eighth each time.
    hourly = points([0.0008] * 8, every=1)
    got = funding.accrued(hourly, settled_every="1h", funding_interval="8h", position=-1.0)
    assert got["payment"].to_list() == pytest.approx([0.0001] * 8)
    assert got["accrued"].to_list()[-1] == pytest.approx(0.0008)


def test_a_coin_position_is_valued_at_the_price_it_settles_at():
    frame = points([0.0001, 0.0001], mark=[60_000.0, 70_000.0])
    got = funding.accrued(frame, settled_every="8h", funding_interval="8h", position=2, price="mark")
    assert got["payment"].to_list() == pytest.approx([-12, -14])


def test_settlements_that_are_not_known_are_counted():
    frame = points([0.1, None, 0.1, 0.1, float("nan")]).filter(pl.col("timestamp") != 24 * HOUR)
    got = funding.accrued(frame, settled_every="8h", funding_interval="8h", position=-1.0)
    assert got["payment"].to_list() == [0.1, None, 0.1, None]
    assert got["accrued"].to_list() == [0.1, None, None, None]
    assert got["missed"].to_list() == [0, 1, 1, 3]
    assert got["coverage"].to_list() == [1.0, 1 / 2, 2 / 3, 2 / 5]
    nothing = funding.accrued(points([None, None]), settled_every="8h", funding_interval="8h")
    assert nothing.select("accrued", "missed", "coverage").rows() == [(None, 1, 0.0), (None, 2, 0.0)]
    # Each series from its own first settlement on.
    later = frame.with_columns(pl.col("timestamp") + 800 * HOUR, exchange=pl.lit("B"))
    both = funding.accrued(pl.concat([later, frame]), settled_every="8h", funding_interval="8h")
    assert both["missed"].to_list() == [0, 1, 1, 3] * 2
    # Points that are coarser than the settlements: two of three are missed.
    daily = funding.accrued(points([0.1] * 3, every=24), settled_every="8h", funding_interval="8h")
    assert daily["missed"].to_list() == [0, 2, 4]


@pytest.mark.slow
def test_rows_longer_than_the_time_between_settlements_do_not_tell_them():
    terms = {"settled_every": "8h", "funding_interval": "8h"}
    daily = points([0.1, 0.2], every=24, interval=["DAY", "DAY"])
    got = funding.accrued(daily, **terms)
    # Three a day, those of the last day after its start among them.
    assert got.select("payment", "accrued", "missed", "coverage").rows() == [
        (None, None, 3, 0.0),
        (None, None, 6, 0.0),
    ]
    # The hours that follow do tell theirs.
    mixed = points([0.1, 0.2], every=24, interval=["DAY", "HOUR"])
    got = funding.accrued(mixed, by="exchange", position=-1.0, **terms)
    assert got.select("payment", "missed").rows() == [(None, 3), (0.2, 3)]
    nameless = funding.accrued(daily.with_columns(interval=pl.lit("2D")), **terms)
    assert nameless["payment"].to_list() == [None, None]
    plain = daily.drop("interval")
    with pytest.raises(QueryError, match="no longer than settled_every"):
        funding.accrued(plain, interval="1d", **terms)
    assert funding.accrued(plain, interval="8h", **terms)["missed"].to_list() == [0, 2]
    with pytest.raises(QueryError, match="the frame's column interval says it"):
        funding.accrued(daily, interval="1h", **terms)


def test_a_day_ends_with_another_rate_than_the_one_that_settled_at_its_start():
    daily = points([0.1, 0.2], every=24, interval=["DAY", "DAY"], predicted_close=[0.3, 0.4])
    got = funding.predicted_error(daily, settled_every="8h")
    # What was predicted when the day ended is of the settlement that came then.
    assert got.select("predicted", "settled", "error").rows() == [(None, None, None), (0.3, None, None)]
    with pytest.raises(QueryError, match="no longer than settled_every"):
        funding.predicted_error(daily.drop("interval"), settled_every="8h", interval="1d")
    each = funding.predicted_error(daily, settled_every="row")
    assert each["settled"].to_list() == [0.1, 0.2]


def test_each_row_may_be_a_settlement_of_its_own():
    frame = points([0.1, None, 0.3], every=4)
    got = funding.accrued(frame.with_columns(pl.col("timestamp") + 3), settled_every="row", position=-1.0)
    assert got["accrued"].to_list() == [0.1, None, None]
    assert got["missed"].to_list() == [0, 1, 1]
    with pytest.raises(QueryError, match="funding_interval: got '8h', expected nothing"):
        funding.accrued(frame, settled_every="row", funding_interval="8h")


def test_settlements_may_be_at_other_hours():
    hourly = points([0.0] * 4 + [4.0] * 8 + [12.0] * 8 + [20.0] * 4, every=1)
    got = funding.accrued(
        hourly, settled_every="8h", anchor="2024-08-08T04:00", funding_interval="8h", position=-1
    )
    assert got["payment"].to_list() == [4.0, 12.0, 20.0]


def test_arguments_of_accrued_that_cannot_be_right_are_refused():
    frame = points([0.1])
    for bad in (float("nan"), True, None):
        with pytest.raises(QueryError, match="position"):
            funding.accrued(frame, settled_every="8h", funding_interval="8h", position=bad)
    with pytest.raises(MissingColumnError, match="held"):
        funding.accrued(frame, settled_every="8h", funding_interval="8h", position="held")
    with pytest.raises(QueryError, match="settled_every"):
        funding.accrued(frame, settled_every="rows", funding_interval="8h")


# --- predicted -----------------------------------------------------------------------------------------------------


def test_the_prediction_is_of_the_interval_before():
    frame = points([0.1, 0.2, 0.4], predicted_close=[0.25, 0.3, 9.0])
    got = funding.predicted_error(frame, settled_every="8h", interval="8h")
    assert got["predicted"].to_list() == [None, 0.25, 0.3]
    assert got["settled"].to_list() == [0.1, 0.2, 0.4]
    assert got["error"].to_list() == pytest.approx([None, 0.05, -0.1])


def test_a_prediction_across_a_gap_is_none():
    frame = points([0.1, 0.2, 0.4], predicted_close=[0.25, 0.3, 9.0]).filter(pl.col("timestamp") != 8 * HOUR)
    assert funding.predicted_error(frame, settled_every="8h", interval="8h")["predicted"].to_list() == [
        None,
        None,
    ]


def test_what_was_known_an_hour_ahead_is_the_close_before():
    hourly = points([0.1] * 17, every=1, predicted_close=[hour / 100 for hour in range(17)])
    last = funding.predicted_error(hourly, settled_every="8h", interval="1h")
    assert last["predicted"].to_list() == [None, 0.07, 0.15]
    assert last["predicted_known_at"].to_list() == last["timestamp"].to_list()
    ahead = funding.predicted_error(hourly, settled_every="8h", interval="1h", lead="1h")
    assert ahead["predicted"].to_list() == [None, 0.06, 0.14]
    assert ahead["predicted_known_at"].to_list() == [time - HOUR for time in ahead["timestamp"].to_list()]


@pytest.mark.parametrize("said", [True, False])
def test_a_lead_is_of_whole_intervals(said):
    hourly = points([0.1] * 17, every=1, predicted_close=[hour / 100 for hour in range(17)])
    length = {"interval": "1h"}
    if said:
        hourly, length = hourly.with_columns(interval=pl.lit("HOUR")), {}
    for lead, expected in (("30m", 0.06), ("60m", 0.06), ("61m", 0.05)):
        ahead = funding.predicted_error(hourly, settled_every="8h", lead=lead, **length)
        assert ahead["predicted"].to_list()[1] == expected
        hours = 2 if lead == "61m" else 1
        known = [time - hours * HOUR for time in ahead["timestamp"].to_list()]
        assert ahead["predicted_known_at"].to_list() == known


def test_an_error_is_known_when_it_settles_and_not_when_it_was_predicted():
    hourly = points([0.1] * 17, every=1, predicted_close=[0.2] * 17).with_columns(
        pl.from_epoch("timestamp", "ns").dt.replace_time_zone("UTC")
    )
    errors = funding.predicted_error(hourly, settled_every="8h", interval="1h", lead="4h")
    assert errors["known_at"].to_list() == errors["timestamp"].to_list()
    assert len(pit.as_of(errors, 8 * 3600 - 1)) == 1  # four hours after the prediction, and not yet settled
    assert len(pit.as_of(errors, 8 * 3600)) == 2


def test_no_prediction_is_joined_to_its_own_settlement():
    # The prediction in the settlement's row is made of what came after: it must not matter.
    hourly = points([0.1] * 17, every=1, predicted_close=[hour / 100 for hour in range(17)])
    at = pl.col("timestamp") % (8 * HOUR) == 0
    changed = hourly.with_columns(predicted_close=pl.when(at).then(99.0).otherwise("predicted_close"))
    calls = [funding.predicted_error(frame, settled_every="8h", interval="1h") for frame in (hourly, changed)]
    assert calls[0].equals(calls[1])


def test_the_length_of_rows_is_said_once():
    frame = points([0.1], predicted_close=[0.1])
    with pytest.raises(QueryError, match="the length of the rows' intervals"):
        funding.predicted_error(frame, settled_every="8h")
    with pytest.raises(QueryError, match="the frame's column interval says it"):
        funding.predicted_error(
            frame.with_columns(interval=pl.lit("HOUR")), settled_every="8h", interval="1h"
        )


# --- venues --------------------------------------------------------------------------------------------------------


def venues(**rates):
    return pl.DataFrame(
        {
            "exchange": list(rates),
            "raw_symbol": ["BTC"] * len(rates),
            "timestamp": [MIDNIGHT] * len(rates),
            "rate_close": pl.Series(list(rates.values()), dtype=pl.Float64),
        }
    )


def test_the_spread_is_a_matrix_without_its_diagonal():
    got = funding.spread(venues(A=0.5, B=0.25, C=None))
    assert got.select("exchange", "other_exchange", "spread").rows() == [
        ("A", "B", 0.25),
        ("A", "C", None),
        ("B", "A", -0.25),
        ("B", "C", None),
        ("C", "A", None),
        ("C", "B", None),
    ]


def test_two_symbols_of_one_venue_are_two_markets():
    frame = venues(A=0.5, B=0.25).with_columns(exchange=pl.lit("A"), raw_symbol=pl.Series(["X", "Y"]))
    got = funding.spread(frame).select("raw_symbol", "other_raw_symbol", "spread").rows()
    assert got == [("X", "Y", 0.25), ("Y", "X", -0.25)]


def test_a_frame_may_have_columns_called_like_those_of_a_pair():
    frame = venues(A=0.5, B=0.25)
    named = frame.with_columns(other_exchange=pl.lit("Z"), gross=9.0, apr=9.0)
    assert funding.spread(named).equals(funding.spread(frame))
    terms = {"costs": 0, "holding": "8h", "funding_interval": "8h"}
    assert funding.carry(named, **terms).equals(funding.carry(frame, **terms))
    with pytest.raises(QueryError, match="other_exchange"):
        funding.spread(named, by="other_exchange")


def test_coins_and_times_do_not_meet():
    frame = venues(A=0.5, B=0.25, C=1.0, D=2.0).with_columns(coin=pl.Series(["BTC", "BTC", None, None]))
    got = funding.spread(frame).select("coin", "exchange", "spread").rows()
    assert sorted(got, key=str) == [
        ("BTC", "A", 0.25),
        ("BTC", "B", -0.25),
        (None, "C", -1.0),
        (None, "D", 1.0),
    ]
    later = frame.with_columns(timestamp=pl.Series([MIDNIGHT + timedelta(hours=n) for n in range(4)]))
    assert len(funding.spread(later)) == 0


def test_rates_over_unlike_intervals_have_no_spread():
    frame = venues(A=0.5, B=0.25, C=0.125).with_columns(
        funding_interval=pl.Series([8 * HOUR, 8 * HOUR, HOUR])
    )
    assert funding.spread(frame).filter(pl.col("spread").is_not_null())["exchange"].to_list() == ["A", "B"]
    alike = funding.spread(funding.normalized(frame, to="8h"))
    assert alike.filter(exchange="C")["spread"].to_list() == [0.5, 0.75]


def test_the_best_pair_is_short_where_funding_is_high():
    got = funding.carry(
        venues(A=0.0003, B=-0.0001, C=0.0002), costs=0.001, holding="30d", funding_interval="8h"
    )
    row = got.row(0, named=True)
    assert (row["long_exchange"], row["short_exchange"]) == ("B", "A")
    assert row["gross"] == pytest.approx(0.0004 * 90)
    assert row["costs"] == 0.002
    assert row["carry"] == pytest.approx(0.034)
    assert row["apr"] == pytest.approx(0.034 * 365 / 30)


def test_costs_of_other_exchanges_make_no_pair():
    frame = venues(A=0.0003, B=-0.0001)
    with pytest.warns(
        NoMatchWarning, match="no market is of a, b, and there is no cost for A, B, whose"
    ) as caught:
        found = funding.carry(frame, costs={"a": 0.1, "b": 0.1}, holding="1d", funding_interval="8h")
    assert len(found) == 0
    assert caught[0].filename == __file__
    with pytest.raises(QueryError, match="costs"):
        funding.carry(frame, costs={}, holding="1d", funding_interval="8h")


def test_costs_decide_which_pair_is_best():
    frame = venues(A=0.0003, B=-0.0001, C=0.0002)
    dear = funding.carry(
        frame, costs={"A": 0.02, "B": 0.001, "C": 0.001}, holding="30d", funding_interval="8h"
    )
    assert dear.select("long_exchange", "short_exchange").row(0) == ("B", "C")
    # Of what costs are not known nothing is said.
    two = funding.carry(frame, costs={"A": 0.02, "C": 0.001}, holding="30d", funding_interval="8h")
    assert two.select("long_exchange", "short_exchange").row(0) == ("C", "A")
    assert two["carry"].item() == pytest.approx(0.009 - 0.021)  # the best there is, and a loss
    column = frame.with_columns(fee=pl.Series([0.02, 0.001, 0.001]))
    same = funding.carry(column, costs="fee", holding="30d", funding_interval="8h")
    assert same.equals(dear)


def test_of_equal_pairs_the_first_by_name_is_taken():
    got = funding.carry(venues(D=0.5, B=0.0, C=0.5, A=0.0), costs=0, holding="8h", funding_interval="8h")
    assert got.select("long_exchange", "short_exchange").row(0) == ("A", "C")
    alike = funding.carry(venues(B=0.5, A=0.5), costs=0, holding="8h", funding_interval="8h")
    assert alike.select("long_exchange", "short_exchange").row(0) == ("A", "B")


def test_one_venue_has_no_pair():
    assert len(funding.carry(venues(A=0.5, B=None), costs=0, holding="8h", funding_interval="8h")) == 0


@pytest.mark.parametrize("costs", [{}, {"A": "0.1"}, None, float("inf"), True])
def test_costs_that_are_none_are_refused(costs):
    with pytest.raises(QueryError, match="costs"):
        funding.carry(venues(A=0.5), costs=costs, holding="8h", funding_interval="8h")


# --- basis ---------------------------------------------------------------------------------------------------------


def prices(future, spot, **columns):
    return pl.DataFrame({"timestamp": [MIDNIGHT], "future": [future], "spot": [spot], **columns})


def test_basis_is_over_spot_and_per_year_of_365_days():
    got = funding.basis(prices(101.0, 100.0), expiry=MIDNIGHT + timedelta(days=36.5))
    assert got.select("basis", "days", "basis_annualized").row(0) == pytest.approx((0.01, 36.5, 0.1))


def test_closes_are_of_the_end_of_their_interval():
    days = {"expiry": MIDNIGHT + timedelta(days=8)}
    assert funding.basis(prices(101.0, 100.0, interval=["DAY"]), **days)["days"].item() == 7
    assert funding.basis(prices(101.0, 100.0), interval="4h", **days)["days"].item() == pytest.approx(
        8 - 1 / 6
    )
    assert funding.basis(prices(101.0, 100.0), **days)["days"].item() == 8
    with pytest.raises(QueryError, match="the frame's column interval says it"):
        funding.basis(prices(101.0, 100.0, interval=["DAY"]), interval="1d", **days)


def test_a_perpetual_has_a_basis_and_no_year():
    assert funding.basis(prices(99.0, 100.0)).columns == ["timestamp", "future", "spot", "basis"]


def test_without_time_left_there_is_no_year():
    got = funding.cash_and_carry(prices(101.0, 100.0), expiry=MIDNIGHT)
    assert got.select("basis_annualized", "carry", "carry_annualized", "trade").row(0) == (None,) * 4


@pytest.mark.parametrize(
    ("future", "carry", "trade"),
    [
        (103.0, 0.023, "cash_and_carry"),
        (101.1, 0.004, "cash_and_carry"),
        (100.6, -0.001, "none"),
        (98.0, 0.023, "reverse"),
    ],
)
def test_the_better_of_two_trades_after_costs_and_financing(future, carry, trade):
    got = funding.cash_and_carry(
        prices(future, 100.0), expiry=MIDNIGHT + timedelta(days=36.5), costs=0.002, financing=0.05
    )
    assert got["carry"].item() == pytest.approx(carry)
    assert got["carry_annualized"].item() == pytest.approx(carry * 10)
    assert got["trade"].item() == trade


def test_an_expiry_may_be_a_column_or_a_time():
    column = funding.basis(prices(101.0, 100.0, ends=[MIDNIGHT + timedelta(days=1)]), expiry="ends")
    written = funding.basis(prices(101.0, 100.0), expiry="2024-08-09T00:00Z")
    assert column["days"].item() == written["days"].item() == 1
    with pytest.raises(MissingColumnError, match="expires"):
        funding.basis(prices(101.0, 100.0), expiry="expires")
    for bad in ({"costs": -1}, {"costs": "0"}, {"financing": float("nan")}, {"expiry": None}):
        with pytest.raises(QueryError, match=next(iter(bad))):
            funding.cash_and_carry(prices(101.0, 100.0), **({"expiry": "2024-08-09"} | bad))


def test_an_expiry_that_is_a_date_is_eight_in_the_morning_utc_as_of_options(engine):
    time = funding.basis(prices(101.0, 100.0), expiry="2024-08-09T08:00Z")
    assert time["days"].item() == pytest.approx(1 + 1 / 3)
    for day in (date(2024, 8, 9), "2024-08-09"):
        assert funding.basis(prices(101.0, 100.0), expiry=day).equals(time)
    column = prices(101.0, 100.0, ends=[date(2024, 8, 9)])
    if engine.name == "pandas":
        frame = engine.frame(column.drop("ends"))
        frame["ends"] = pd.array([date(2024, 8, 9)], dtype=pd.ArrowDtype(pa.date32()))
    else:
        frame = engine.frame(column)
    for function in (funding.basis, funding.cash_and_carry):
        found = engine.polars(function(frame, expiry="ends"))
        assert found["days"].item() == pytest.approx(1 + 1 / 3)
        assert found["ends"].to_list() == [date(2024, 8, 9)]


# --- recorded ------------------------------------------------------------------------------------------------------


def test_recorded_days_accrue_to_the_sum_of_their_settlements(recorded: Path):
    """Daily means of three settlements each: a short of 1 earned three times the sum of the means."""
    with gzip.open(recorded / "lukmol_btc_funding_daily.csv.gz", "rt") as lines:
        rows = list(csv.DictReader(lines))
    frame = pl.DataFrame(
        {
            "timestamp": [datetime.fromisoformat(row["date"]).replace(tzinfo=UTC) for row in rows],
            "rate_close": [float(row["funding_mean"]) for row in rows],
        }
    )
    got = funding.accrued(frame, settled_every="1d", funding_interval="8h", position=-1.0)
    assert len(got) == len(rows) == 2348
    assert got["accrued"].to_list()[-1] == pytest.approx(3 * sum(frame["rate_close"]), rel=1e-12)
    days = (frame["timestamp"][-1] - frame["timestamp"][0]).days + 1
    assert got["missed"].to_list()[-1] == days - len(rows)
    per_year = funding.annualized(frame, funding_interval="8h")
    assert per_year["apr"].to_list() == pytest.approx(
        [rate * 1095 for rate in frame["rate_close"]], rel=1e-14
    )


def test_recorded_tickers_of_one_moment_pair_up(recorded: Path):
    """Bitcoin perpetuals of several venues, as if of one moment: the pair a loop finds."""
    with gzip.open(recorded / "tardis-node_normalized_derivative_ticker.jsonl.gz", "rt") as lines:
        messages = [json.loads(line) for line in lines]
    found = {
        (one["exchange"], one["symbol"]): one
        for one in messages
        if one["fundingRate"] is not None and "BTC" in one["symbol"] and one["indexPrice"]
    }
    assert len(found) > 8
    frame = pl.DataFrame(
        {
            "exchange": [exchange for exchange, _ in found],
            "raw_symbol": [symbol for _, symbol in found],
            "timestamp": [0] * len(found),
            "rate_close": [float(one["fundingRate"]) for one in found.values()],
            "future": [one["markPrice"] and float(one["markPrice"]) for one in found.values()],
            "spot": [float(one["indexPrice"]) for one in found.values()],
        }
    )
    best = funding.carry(frame, costs=0.0005, holding="8h", funding_interval="8h").row(0, named=True)
    rates = frame.sort("rate_close", "exchange", "raw_symbol")["rate_close"]
    assert best["gross"] == pytest.approx(rates[-1] - rates[0])
    assert len(funding.spread(frame)) == len(found) * (len(found) - 1)
    basis = funding.basis(frame)["basis"].drop_nulls()
    assert len(basis) > 8
    assert basis.abs().max() < 0.02


def test_a_future_that_expires_out_of_reach_has_no_year_and_keeps_its_expiry(engine):
    expiries = [datetime(9999, 12, 31, tzinfo=UTC), datetime(2026, 3, 15, tzinfo=UTC)]
    start = datetime(2026, 3, 5, tzinfo=UTC)
    frame = pl.DataFrame({"timestamp": start, "expiry": expiries, "future": 101.0, "spot": 100.0})
    got = engine.polars(funding.basis(engine.frame(frame), expiry="expiry")).fill_nan(None).sort("days")
    if engine.name != "spark":  # which writes times into Parquet as nanoseconds that are too many
        assert got["expiry"].dt.convert_time_zone("UTC").to_list() == expiries
    assert got["days"].to_list() == [None, 10.0]
    carried = engine.polars(funding.cash_and_carry(engine.frame(frame), expiry="expiry"))
    added = {"costs", "financing", "carry", "carry_annualized", "trade"}
    assert set(carried.columns) == {*got.columns, *added}


# --- markets that change their interval ---------------------------------------------------------------------------


CHANGED = pl.DataFrame(
    {
        "timestamp": [*range(0, 56, 8), *range(49, 72)],
        "rate_close": [0.0008] * 7 + [0.0001] * 23,
        "funding_interval": [8 * HOUR] * 7 + [HOUR] * 23,
    }
).with_columns(pl.col("timestamp") * HOUR)  # 8 hours, then every hour, from 2025-08 (freqtrade#12583)


def test_the_funding_interval_of_each_row_says_when_it_settled(engine):
    got = engine.polars(funding.accrued(engine.frame(CHANGED), interval="1h", position=10_000.0)).sort(
        "timestamp"
    )
    assert got["accrued"][-1] == pytest.approx(-79.0, abs=1e-9)
    assert got["missed"][-1] == 0
    # Points between two settlements tell the same rate again.
    hours = pl.DataFrame({"timestamp": [hour * HOUR for hour in range(72)]}).join(
        CHANGED, on="timestamp", how="left"
    )
    hours = hours.with_columns(pl.all().forward_fill())
    assert funding.accrued(hours, position=10_000.0)["accrued"][-1] == pytest.approx(-79.0, abs=1e-9)
    # A settlement that is not there is missed, at the interval of the row after it.
    lacking = funding.accrued(CHANGED.filter(~pl.col("timestamp").is_in([16 * HOUR, 50 * HOUR])))
    assert lacking["missed"].to_list() == [0, 0, *[1] * 5, *[2] * 21][: len(lacking)]
    assert lacking["accrued"].null_count() == len(lacking) - 2
    unknown = CHANGED.with_columns(
        funding_interval=pl.when(pl.int_range(pl.len()) != 3).then("funding_interval")
    )
    assert funding.accrued(unknown)["accrued"].null_count() == len(CHANGED) - 3


def test_rows_that_contradict_an_explicit_interval_are_not_paid():
    with pytest.warns(SettlementWarning):
        got = funding.accrued(CHANGED, settled_every="8h", interval="1h", position=10_000.0)
    assert got["payment"].to_list() == [*[pytest.approx(-8.0)] * 7, None, None]
    assert got["accrued"].to_list()[-3:] == [pytest.approx(-56.0), None, None]


def test_without_a_time_between_settlements_one_must_be_said():
    with pytest.raises(QueryError, match="settled_every: left out, expected the time between settlements"):
        funding.accrued(CHANGED.drop("funding_interval"))
    with pytest.raises(QueryError, match="funding_interval"):
        funding.accrued(CHANGED, funding_interval="8h")
