"""Look-ahead that is planted is found, in strategies as people write them, and none is found when they are mended."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import count

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from tables import each_row
from tidytape import aggregate
from tidytape.analytics import pit, profile
from tidytape.errors import MissingColumnError, QueryError

START = datetime(2024, 8, 5, tzinfo=UTC)
DAYS = 3
DRAW = np.random.default_rng(7)
STEPS = DRAW.normal(0, 1, 96 * DAYS).round(1)
CLOSE = 100 + np.cumsum(STEPS)
CANDLES = pl.DataFrame(
    {
        "exchange": "X",
        "raw_symbol": "BTCUSDT",
        "interval": "15m",
        "timestamp": [START + number * timedelta(minutes=15) for number in range(96 * DAYS)],
        "open": CLOSE - STEPS,
        "high": np.maximum(CLOSE, CLOSE - STEPS) + 0.2,
        "low": np.minimum(CLOSE, CLOSE - STEPS) - 0.2,
        "close": CLOSE,
        "volume": DRAW.integers(1, 50, 96 * DAYS).astype(float),
    }
)
HOUR = timedelta(hours=1)


# --- three strategies as people write them, each with its mistake, and without it ---


def z_score_of_the_sample(candles):
    returns = pl.col("close").pct_change()
    z_score = (returns - returns.mean()) / returns.std()
    return candles.with_columns(
        signal=pl.when(z_score > 1).then(-1).when(z_score < -1).then(1).otherwise(0), z_score=z_score
    )


def z_score_of_a_window(candles):
    returns = pl.col("close").pct_change()
    z_score = (returns - returns.rolling_mean(48)) / returns.rolling_std(48)
    return candles.with_columns(
        signal=pl.when(z_score > 1).then(-1).when(z_score < -1).then(1).otherwise(0), z_score=z_score
    )


def smoothed_in_the_middle(candles):
    frame = candles.copy()
    frame["smooth"] = frame["close"].rolling(9, center=True).mean()
    frame["is_long"] = frame["close"] < frame["smooth"]
    return frame


def smoothed_up_to_now(candles):
    frame = candles.copy()
    frame["smooth"] = frame["close"].rolling(9).mean()
    frame["is_long"] = frame["close"] < frame["smooth"]
    return frame


def value_areas(candles):
    levels = aggregate.candle_profile(candles, interval="1d", block_size=1, spreading="uniform")
    return profile.value_area(levels, row_size=1)


def above_the_value_of_today(candles):
    areas = value_areas(candles).select("vah", "val", day=pl.col("timestamp").dt.date())
    with_areas = candles.with_columns(day=pl.col("timestamp").dt.date()).join(areas, on="day", how="left")
    return with_areas.sort("timestamp").with_columns(is_above=pl.col("close") > pl.col("vah"))


def above_the_value_of_yesterday(candles):
    areas = value_areas(candles).select("exchange", "raw_symbol", "timestamp", "interval", "vah", "val")
    joined = pit.asof_join(pit.known_at(candles), areas, on="known_at", suffix="_area")
    return joined.with_columns(is_above=pl.col("close") > pl.col("vah"))


@pytest.mark.slow
@each_row(
    ("planted", "mended", "kind", "columns", "minutes"),
    [
        # The last candle of all reaches back to the first value, which is known after two candles.
        (z_score_of_the_sample, z_score_of_a_window, "polars", {"signal", "z_score"}, (96 * DAYS - 2) * 15),
        (smoothed_in_the_middle, smoothed_up_to_now, "pandas", {"smooth", "is_long"}, 4 * 15),
        (above_the_value_of_today, above_the_value_of_yesterday, "polars", {"vah", "val", "is_above"}, None),
    ],
)
def test_a_planted_look_ahead_is_found_and_none_in_the_mended_form(planted, mended, kind, columns, minutes):
    candles = CANDLES if kind == "polars" else CANDLES.to_pandas()
    found = pit.leaks(planted, candles)
    assert found
    assert isinstance(found.frame, type(candles))
    frame = pl.DataFrame(found.frame)
    assert set(frame["column"]) == columns
    assert (frame["minutes"] > 0).all()
    if minutes is None:  # at most the length of the day, less the first candle of it
        assert 12 * 60 < frame["minutes"].max() <= 24 * 60 - 15
    else:
        assert frame["minutes"].max() == minutes
    nothing = pit.leaks(mended, candles)
    assert not nothing, str(nothing)
    assert len(nothing.frame) == 0
    assert nothing.cuts == found.cuts == 20
    assert list(nothing.frame.columns) == list(found.frame.columns)
    assert columns <= set(nothing.columns)
    assert nothing.values > 1_000


# --- what a row of the answer says ---


def hours(*closes, **columns):
    times = [START + number * HOUR for number in range(len(closes))]
    return pl.DataFrame({"timestamp": times, "interval": "HOUR", "close": closes, **columns})


def next_close(candles):
    return candles.with_columns(next=pl.col("close").shift(-1))


def test_each_value_that_changes_has_a_row_by_hand():
    found = pit.leaks(next_close, hours(1.0, 2.0, 4.0))
    assert found.cuts == 2
    assert found.columns == ("close", "next")
    # 1 row and 2 rows known, of two columns; the first row has its next close at the second cut.
    assert found.values == 6
    assert found.frame.rows(named=True) == [
        {
            "timestamp": START + row * HOUR,
            "interval": "1h",
            "known_at": START + (row + 1) * HOUR,
            "column": "next",
            "cut_at": START + (row + 1) * HOUR,
            "difference": None,
            "with_future": value,
            "without_future": None,
            "minutes": 60.0,
        }
        for row, value in enumerate(["2.0", "4.0"])
    ]
    assert repr(found) == "the future changed 2 values: 6 values of 2 columns compared in 2 cuts"


def test_rows_that_only_the_future_makes_or_takes_are_found():
    def without_the_last(candles):
        return candles.filter(pl.col("close") < pl.col("close").max())

    found = pit.leaks(without_the_last, hours(1.0, 2.0, 3.0, 2.5))
    assert found.frame.select("timestamp", "column", "with_future", "without_future").rows() == [
        (START, "timestamp", START.isoformat(), None),
        (START + HOUR, "timestamp", (START + HOUR).isoformat(), None),
    ]

    def the_largest(candles):
        return candles.filter(pl.col("close") == pl.col("close").max())

    found = pit.leaks(the_largest, hours(1.0, 2.0, 3.0, 2.5))
    assert found.frame.select("timestamp", "with_future", "without_future").rows() == [
        (START, None, START.isoformat()),
        (START + HOUR, None, (START + HOUR).isoformat()),
    ]


def test_the_first_cut_that_changes_a_value_shows_it_and_the_last_says_how_far():
    def mean(candles):
        return candles.with_columns(mean=pl.col("close").mean())

    first = pit.leaks(mean, hours(1.0, 3.0, 8.0, 4.0)).frame.row(0, named=True)
    assert (first["with_future"], first["without_future"], first["difference"]) == ("4.0", "1.0", 3.0)
    # The second cut says 2, and the third happens to say 4 as the whole does: the third row changed it.
    assert first["minutes"] == 120.0


def test_a_row_is_known_when_the_function_says_so():
    def daily(candles):
        levels = candles.group_by(timestamp=pl.col("timestamp").dt.truncate("2h")).agg(pl.col("close").max())
        return levels.with_columns(known_at=pl.col("timestamp") + 2 * HOUR)

    def too_early(candles):
        return daily(candles).with_columns(known_at=pl.col("timestamp") + HOUR)

    frame = hours(1.0, 2.0, 3.0, 4.0)
    assert not pit.leaks(daily, frame)
    assert set(pit.leaks(too_early, frame).frame["timestamp"]) == {START, START + 2 * HOUR}


def test_all_frames_are_cut_at_the_same_times():
    funding = hours(0.1, 0.2, 0.3, 0.4).select("timestamp", "interval", rate="close")
    candles = hours(1.0, 2.0, 3.0, 4.0)

    def beside(candles, funding):
        return candles.join(funding.select("timestamp", "rate"), on="timestamp", how="left")

    def ahead(candles, funding):
        later = funding.select(pl.col("timestamp") - HOUR, "rate")
        return candles.join(later, on="timestamp", how="left")

    assert not pit.leaks(beside, candles, others=[funding])
    assert set(pit.leaks(ahead, candles, others=[funding]).frame["minutes"]) == {60.0}
    # What a function gets in another way is not cut.
    assert not pit.leaks(lambda frame: ahead(frame, funding), candles)


@pytest.mark.slow
@each_row(
    "dtype",
    [pl.Categorical, pl.String, pl.Boolean, pl.List(pl.Int64), pl.Datetime("us", "UTC"), pl.Int64, pl.Date],
)
def test_values_of_any_type_are_compared(dtype):
    values = {
        pl.Categorical: ["a", "b"],
        pl.String: ["a", "b"],
        pl.Boolean: [True, False],
        pl.List(pl.Int64): [[1], [1, 2]],
        pl.Datetime("us", "UTC"): [START, START + HOUR],
        pl.Int64: [2**62, 2**62 + 1],  # which are one float
        pl.Date: [START.date(), (START + 24 * HOUR).date()],
    }[dtype]

    def last(candles):
        return candles.with_columns(last=pl.col("value").last())

    frame = hours(1.0, 1.0, 1.0, value=pl.Series([values[0], values[0], values[1]], dtype=dtype))
    found = pit.leaks(last, frame).frame
    assert found["column"].to_list() == ["last", "last"]
    assert found["with_future"].to_list() == [str(values[1])] * 2
    assert not pit.leaks(lambda candles: candles, frame)


@pytest.mark.slow
@each_row(
    ("noise", "tolerance", "is_found"),
    [(1e-12, 1e-9, False), (1e-6, 1e-9, True), (1e-6, 1e-5, False), (1e-12, 0, True), (0.0, 0, False)],
)
def test_floats_may_differ_by_the_tolerance(noise, tolerance, is_found):
    def noisy(candles):
        return candles.with_columns(noisy=pl.col("close") * (1 + noise * pl.len()))

    assert bool(pit.leaks(noisy, hours(1.0, 2.0, 3.0), tolerance=tolerance)) is is_found


def test_rounding_noise_around_zero_is_no_look_ahead():
    def nearly_zero(candles):
        return candles.with_columns(x=pl.when(pl.col("close") == 2).then(1e-17 * pl.len()).otherwise("close"))

    assert not pit.leaks(nearly_zero, hours(1.0, 2.0, 3.0))


@pytest.mark.slow
@each_row(
    ("value", "other", "is_found"),
    [("nan", "nan", False), ("inf", "inf", False), ("inf", "1", True), ("nan", "1", True)],
)
def test_what_is_no_number_is_itself(value, other, is_found):
    def odd(candles):
        return candles.with_columns(x=float(value) if len(candles) == 3 else float(other))

    assert bool(pit.leaks(odd, hours(1.0, 2.0, 3.0))) is is_found


# --- frames of every kind ---


def all_kinds():
    frame = hours(1.0, 2.0, 4.0, 3.0, 9.0)
    return {"polars": frame, "lazy": frame.lazy(), "pandas": frame.to_pandas(), "pyarrow": frame.to_arrow()}


@pytest.mark.slow
@each_row("kind", [*all_kinds()])
def test_frames_of_every_kind_say_the_same(kind):
    def share(candles):
        mean = pl.DataFrame(candles.collect() if kind == "lazy" else candles)["close"].mean()
        if kind == "pandas":
            return candles.assign(share=candles["close"] / mean)
        if kind == "pyarrow":
            return pl.DataFrame(candles).with_columns(share=pl.col("close") / mean).to_arrow()
        return candles.with_columns(share=pl.col("close") / mean)

    frames = all_kinds()
    found = pit.leaks(share, frames[kind])
    assert isinstance(found.frame, type(frames[kind]))
    plain = pl.DataFrame(found.frame.collect() if kind == "lazy" else found.frame)
    wanted = pit.leaks(
        lambda candles: candles.with_columns(share=pl.col("close") / pl.col("close").mean()), frames["polars"]
    )
    texts = ["with_future", "without_future"]  # means of two libraries differ in the last digit
    assert_frame_equal(plain.drop(texts), wanted.frame.drop(texts), check_dtypes=False)
    assert len(found) == len(wanted) == len(plain) > 0


def test_a_frame_of_pandas_keeps_its_index_and_is_the_function_s_own():
    frame = hours(1.0, 2.0, 4.0).to_pandas().set_index(pd.Index([7, 5, 9], name="number"))

    def changing(candles):
        candles["index"] = candles.index
        candles["close"] = candles["close"] * 2
        return candles

    before = frame.copy()
    assert not pit.leaks(changing, frame)
    pd.testing.assert_frame_equal(frame, before)


def test_times_may_be_nanoseconds():
    frame = hours(1.0, 2.0, 4.0).with_columns(pl.col("timestamp").dt.timestamp("ns"))
    found = pit.leaks(next_close, frame).frame
    assert (
        found["known_at"].to_list()
        == found["cut_at"].to_list()
        == [int((START + row * HOUR).timestamp()) * 10**9 for row in (1, 2)]
    )


def test_a_frame_of_an_sql_engine_must_be_collected():
    relation = duckdb.connect().from_arrow(hours(1.0, 2.0).to_arrow())
    with pytest.raises(QueryError, match="collect it first"):
        pit.leaks(lambda candles: candles, relation)


# --- cuts ---


@pytest.mark.slow
def test_cuts_are_the_same_for_one_seed():
    def cuts_of(**options):
        seen = []

        def noting(candles):
            seen.append(len(candles))
            return candles

        assert pit.leaks(noting, CANDLES, **options).cuts == len(seen) - 2
        return seen

    first = cuts_of(cuts=5)
    assert first == cuts_of(cuts=5) != cuts_of(cuts=5, seed=1)
    assert first[:2] == [len(CANDLES)] * 2
    assert first[-1] == len(CANDLES) - 1
    assert first[2:] == sorted(first[2:])
    assert len({cut // 58 for cut in first[2:]}) >= 4
    assert cuts_of(cuts=1)[2:] == [len(CANDLES) - 1]
    late = cuts_of(cuts=50, start=START + 48 * HOUR)
    assert min(late) >= 48 * 4


@pytest.mark.slow
def test_a_mistake_that_few_rows_show_is_found_by_more_cuts():
    def of_one_hour(candles):
        is_odd = pl.col("timestamp") == START + 30 * HOUR
        return candles.with_columns(x=pl.when(is_odd).then(pl.col("close").shift(-1)).otherwise("close"))

    candles = CANDLES.filter(pl.col("timestamp").dt.minute() == 0)
    assert not pit.leaks(of_one_hour, candles, cuts=3, seed=1)
    assert len(pit.leaks(of_one_hour, candles, cuts=len(candles))) == 1


# --- what cannot be compared ---


def test_an_error_of_the_function_says_which_history_it_got():
    def needs_three(candles):
        if len(candles) < 3:
            raise ZeroDivisionError("too short")
        return candles

    with pytest.raises(ZeroDivisionError, match="too short") as caught:
        pit.leaks(needs_three, hours(1.0, 2.0, 3.0, 4.0))
    (note,) = caught.value.__notes__
    assert (
        note
        == "pit.leaks had called the function with the history known at 2024-08-05T01:00:00+00:00, cut 1 of 3"
    )
    assert not pit.leaks(needs_three, hours(1.0, 2.0, 3.0, 4.0), start=START + 3 * HOUR)


def test_a_function_that_draws_anew_is_refused():
    numbers = count()
    with pytest.raises(QueryError, match="0 and then 1 in column 'x' for the same frame"):
        pit.leaks(lambda candles: candles.with_columns(x=next(numbers)), hours(1.0, 2.0))


@each_row(
    ("function", "frame", "options", "named"),
    [
        (5, hours(1.0, 2.0), {}, "function"),
        (len, hours(1.0, 2.0), {}, "function"),
        (lambda candles: candles, 5, {}, "frame"),
        (lambda candles: candles, hours(1.0), {}, "frame"),
        (lambda candles: candles, hours(1.0, 2.0), {"start": START + 9 * HOUR}, "frame"),
        (lambda candles: candles, hours(1.0, 2.0), {"others": 5}, "others"),
        (lambda candles, other: candles, hours(1.0, 2.0), {"others": [5]}, "others"),
        (lambda candles: candles, hours(1.0, 2.0), {"cuts": 0}, "cuts"),
        (lambda candles: candles, hours(1.0, 2.0), {"seed": -1}, "seed"),
        (lambda candles: candles, hours(1.0, 2.0), {"tolerance": -1}, "tolerance"),
        (lambda candles: pl.concat([candles, candles]), hours(1.0, 2.0), {}, "by"),
        (lambda candles: candles.filter(pl.col("close") > 9), hours(1.0, 2.0), {}, "function"),
        (
            lambda candles: candles.with_columns(known_at=pl.col("timestamp") + 9 * HOUR),
            hours(1.0, 2.0),
            {},
            "function",
        ),
        (
            lambda candles: candles.with_columns(**{f"x_{len(candles)}": 1}),
            hours(1.0, 2.0),
            {},
            "function",
        ),
    ],
)
def test_what_cannot_be_compared_is_refused(function, frame, options, named):
    with pytest.raises(QueryError) as caught:
        pit.leaks(function, frame, **options)
    assert caught.value.parameter == named


def test_an_answer_must_say_when_it_is_known():
    with pytest.raises(MissingColumnError, match="interval") as caught:
        pit.leaks(lambda candles: candles.select("timestamp", "close"), hours(1.0, 2.0))
    assert caught.value.__notes__ == ["pit.leaks had called the function with the whole frame"]


def test_a_frame_without_rows_has_no_cuts():
    nothing = pit.leaks(next_close, hours(1.0, 2.0).clear())
    assert (nothing.cuts, nothing.values, len(nothing)) == (0, 0, 0)
    assert nothing.frame.schema == pit.leaks(next_close, hours(1.0, 2.0)).frame.schema


# --- our own functions ---


@pytest.mark.slow
def test_our_own_functions_keep_the_law():
    from tidytape.analytics import flow

    assert not pit.leaks(
        lambda candles: aggregate.resample(
            candles, data_type="TRADE_SIDE_AGNOSTIC_AGG", interval="1h", source="15m"
        ),
        CANDLES,
    )
    assert not pit.leaks(lambda candles: flow.vwap(candles, anchor="session", period="1d"), CANDLES)
    assert not pit.leaks(value_areas, CANDLES)
    by_hand = pit.known_at(CANDLES, rule="event")  # as if a candle were known when it begins
    found = pit.leaks(
        lambda candles: pit.known_at(
            aggregate.resample(
                candles.drop("known_at", "known_at_rule"),
                data_type="TRADE_SIDE_AGNOSTIC_AGG",
                interval="1h",
                source="15m",
            ),
            rule="event",
        ),
        by_hand,
    )
    assert {"close", "high", "volume"} <= set(found.frame["column"])
