"""Levels of sessions, by hand and by a plain loop."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from oracles import levels as oracle
from tables import each_row
from tidytape import Session, aggregate
from tidytape.analytics import pit, profile
from tidytape.errors import MissingColumnError, QueryError

CHICAGO = ZoneInfo("America/Chicago")
WHOLE = Session("17:00", "16:00", zone="America/Chicago")
REGULAR = Session("08:30", "15:00", zone="America/Chicago")
HOURS = {"session": WHOLE, "regular": REGULAR}
ROWS = {"block_size": 1, "spreading": "close"}
MINUTE = timedelta(minutes=1)


def at(day: int, hour: str, *, month: int = 10) -> datetime:
    """A time of Chicago's clock in 2024, in UTC."""
    hours, minutes = map(int, hour.split(":"))
    return datetime(2024, month, day, hours, minutes, tzinfo=CHICAGO).astimezone(UTC)


def candles(*rows: tuple, minutes: int = 30, **columns) -> pl.DataFrame:
    """Candles of (time, low, high, close, volume)."""
    names = ["timestamp", "low", "high", "close", "volume"]
    frame = pl.DataFrame(
        rows,
        schema=dict(zip(names, [pl.Datetime("us", "UTC"), *[pl.Float64] * 4], strict=True)),
        orient="row",
    )
    return frame.with_columns(
        interval=pl.lit(f"{minutes}m"), **{name: pl.lit(value) for name, value in columns.items()}
    )


# Wednesday, Thursday and Friday of October 2024; Chicago is five hours behind UTC.
WEEK = candles(
    (at(9, "07:30"), 89, 91, 90, 4),  # overnight, before the first regular session
    (at(9, "08:30"), 90, 95, 94, 10),
    (at(9, "09:00"), 92, 99, 93, 20),  # the end of the first hour
    (at(9, "09:30"), 93, 101, 100, 30),
    (at(9, "14:30"), 96, 98, 97, 5),
    (at(9, "15:00"), 97, 104, 103, 7),  # overnight since the close
    (at(9, "17:00"), 95, 99, 98, 2),  # the evening belongs to Thursday
    (at(10, "08:00"), 98, 99, 98, 1),
    (at(10, "08:30"), 98, 106, 105, 9),
    (at(10, "10:00"), 104, 110, 108, 11),
    (at(11, "08:30"), 99, 103, 101, 3),
)


def test_three_sessions_by_hand():
    found = profile.levels(WEEK, **HOURS, **ROWS)
    assert found["session_date"].to_list() == [date(2024, 10, day) for day in (9, 10, 11, 14)]
    assert found["timestamp"].to_list() == [at(day, "08:30") for day in (9, 10, 11, 14)]
    assert found["period_end"].to_list() == [at(day, "15:00") for day in (9, 10, 11, 14)]
    wanted = {
        "prior_high": [None, 101, 110, 103],
        "prior_low": [None, 90, 98, 99],
        "prior_close": [None, 97, 108, 101],
        # Wednesday: 20 at 93, 10 at 94, 5 at 97 and 30 at 100; 70 % of 65 are 45.5. There is nothing above 100. Pairs
        # below: 98 and 99 with 0, 96 and 97 with 5, 94 and 95 with 10, which make 45, and 93.
        "prior_poc": [None, 100, 108, 101],
        "prior_val": [None, 93, 105, 101],
        "prior_vah": [None, 100, 108, 101],
        "overnight_high": [91, 104, None, None],
        "overnight_low": [89, 95, None, None],
        "initial_balance_high": [99, 106, 103, None],
        "initial_balance_low": [90, 98, 99, None],
        # By the rule "close" the rows of Thursday reach from 105 to 108, and those of Friday are 101: none touches.
        "naked_pocs": [None, 1, 2, 3],
        "naked_poc_above": [None, 100, None, 108],
        "naked_poc_below": [None, None, 108, 101],
    }
    for name, values in wanted.items():
        assert found[name].to_list() == values, name
    assert found["prior_known_at"].to_list() == [
        at(9, "08:00"),
        at(9, "15:00"),
        at(10, "15:00"),
        at(11, "15:00"),
    ]
    assert found["overnight_known_at"].to_list() == found["timestamp"].to_list()
    assert found["initial_balance_known_at"].to_list() == [at(day, "09:30") for day in (9, 10, 11, 14)]
    assert found["known_at"].to_list() == found["initial_balance_known_at"].to_list()


@pytest.mark.slow
def test_the_value_area_is_that_of_the_profile_of_the_session():
    wednesday = WEEK.filter(pl.col("timestamp").is_between(at(9, "08:30"), at(9, "15:00"), closed="left"))
    for spreading in ("close", "uniform"):
        for rules in (
            {},
            {"rule": "one_row", "share": 0.5, "tie": "down", "stop": "exceed", "poc_tie": "upper"},
        ):
            levels = aggregate.candle_profile(wednesday, interval="1d", block_size=2.5, spreading=spreading)
            wanted = profile.value_area(levels, row_size=2.5, **rules)
            found = profile.levels(WEEK, **HOURS, block_size=2.5, spreading=spreading, **rules)
            names = ["poc", "val", "vah"]
            assert found.select(f"prior_{name}" for name in names).row(1) == wanted.select(names).row(0)
            given = ["share", "rule", "tie", "stop", "poc_tie", "block_size"]
            assert found.select(given).row(0) == (*wanted.select(given[:-1]).row(0), 2.5)
            assert found["spreading"].unique().to_list() == [spreading]


@pytest.mark.slow
def test_naked_points_of_control_are_those_of_naked_pocs():
    draw = np.random.default_rng(3)
    frame = random_candles(draw, days=40)
    found = profile.levels(frame, **HOURS, block_size=2, spreading="uniform")
    regular = WHOLE.label(frame, regular=REGULAR).filter(pl.col("segment") == "regular")
    daily = aggregate.candle_profile(
        regular.with_columns(timestamp=pl.col("session_date").cast(pl.Datetime("us", "UTC"))),
        interval="1d", block_size=2, spreading="uniform",
    )  # fmt: skip
    for row in found.filter(pl.col("prior_close").is_not_null()).iter_rows(named=True):
        known = daily.filter(pl.col("timestamp").dt.date() < row["session_date"])
        naked = profile.naked_pocs(known, row_size=2).filter("is_naked")["poc"].to_list()
        assert row["naked_pocs"] == len(naked)
        assert row["naked_poc_above"] == min((poc for poc in naked if poc > row["prior_close"]), default=None)
        assert row["naked_poc_below"] == max(
            (poc for poc in naked if poc <= row["prior_close"]), default=None
        )
    assert found["naked_pocs"].max() > 3


# --- sessions ---


@pytest.mark.slow
def test_without_regular_hours_what_trades_outside_is_overnight():
    stocks = Session("08:30", "15:00", zone="America/Chicago")
    found = profile.levels(WEEK, session=stocks, **ROWS)
    both = profile.levels(WEEK, **HOURS, **ROWS)
    assert_frame_equal(found.drop("session"), both.drop("session"))
    # With the whole hours, what trades while the market is closed counts nowhere.
    closed = candles((at(9, "16:00"), 1, 999, 5, 5))
    assert_frame_equal(profile.levels(pl.concat([WEEK, closed]), **HOURS, **ROWS), both)
    assert (
        profile.levels(pl.concat([WEEK, closed]), session=stocks, **ROWS)["overnight_high"].to_list()[1]
        == 999
    )


def test_the_utc_day_has_no_night():
    found = profile.levels(WEEK, session=Session.utc_day(), minutes=30, **ROWS)
    assert found["overnight_high"].null_count() == len(found)
    assert found["timestamp"].to_list() == [datetime(2024, 10, day, tzinfo=UTC) for day in (9, 10, 11, 12)]
    # The evening of Wednesday, 22:00 UTC, is still the same day.
    assert found.select("prior_high", "prior_low", "prior_close").row(1) == (104, 89, 98)


def test_the_open_moves_with_the_clock_of_the_zone():
    frame = candles(
        (at(1, "08:30", month=11), 10, 11, 11, 1),
        (at(4, "08:30", month=11), 12, 13, 13, 1),  # after the change to winter time
    )
    found = profile.levels(frame, **HOURS, **ROWS)
    opens = [datetime(2024, 11, 1, 13, 30, tzinfo=UTC), datetime(2024, 11, 4, 14, 30, tzinfo=UTC)]
    assert found["timestamp"].to_list()[:2] == opens
    assert found["initial_balance_high"].to_list() == [11, 13, None]


def test_a_break_is_no_part_of_the_first_hour():
    tokyo = Session("09:00", "15:00", zone="Asia/Tokyo", pause=("09:30", "12:30"))
    opens = datetime(2024, 10, 9, 0, 0, tzinfo=UTC)
    times = [opens, opens + timedelta(hours=3, minutes=30), opens + timedelta(hours=4)]
    frame = candles(*((time, 10.0 + number, 20.0 + number, 15, 1) for number, time in enumerate(times)))
    row = profile.levels(frame, session=tokyo, **ROWS).row(0, named=True)
    assert (row["initial_balance_low"], row["initial_balance_high"]) == (10, 21)
    assert row["initial_balance_known_at"] == opens + timedelta(hours=4)


def test_an_early_close_ends_the_session_and_a_short_one_its_first_hour():
    early = Session("08:30", "15:00", zone="America/Chicago", early_closes={"2024-10-09": "09:00"})
    found = profile.levels(WEEK, session=early, **ROWS)
    assert found["prior_close"].to_list()[1] == 94
    assert found["overnight_high"].to_list()[1] == 104
    assert found["initial_balance_known_at"].to_list()[0] == at(9, "09:00")


def test_a_day_that_did_not_trade_is_left_out_and_the_levels_stay_those_before():
    frame = pl.concat(
        [WEEK.filter(pl.col("timestamp") < at(10, "00:00")), WEEK.tail(1)]
    )  # Thursday is a holiday
    found = profile.levels(frame, **HOURS, **ROWS)
    assert found["session_date"].to_list() == [date(2024, 10, day) for day in (9, 10, 11, 14)]
    assert found["prior_close"].to_list() == [None, 97, 97, 101]
    # Nobody can know of Friday's row before something trades on it.
    assert found["prior_known_at"].to_list()[2] == at(11, "09:00")
    assert found["overnight_known_at"].to_list()[2] == at(11, "09:00")
    assert found["initial_balance_known_at"].to_list()[2] == at(11, "09:30")


def test_a_long_holiday_has_a_session_before_it():
    frame = candles((at(1, "08:30"), 10, 11, 11, 1), (at(21, "08:30"), 12, 13, 13, 1))
    off = Session(
        "08:30", "15:00", zone="America/Chicago", days_off=[date(2024, 10, day) for day in range(2, 21)]
    )
    found = profile.levels(frame, session=off, **ROWS)
    assert found["session_date"].to_list() == [date(2024, 10, day) for day in (1, 21, 22)]
    assert found["prior_known_at"].to_list()[1] == at(1, "15:00")


# --- when levels are known ---


@pytest.mark.slow
@each_row(
    ("at", "known", "hidden"),
    [
        ("prior_close", "prior", ["overnight", "initial_balance"]),
        ("open", "overnight", ["initial_balance"]),
        ("initial_balance", "initial_balance", []),
    ],
)
def test_a_row_waits_for_levels_up_to_a_time(at, known, hidden):
    whole, found = profile.levels(WEEK, **HOURS, **ROWS), profile.levels(WEEK, **HOURS, **ROWS, at=at)
    assert found["known_at"].to_list() == whole[f"{known}_known_at"].to_list()
    names = [f"{group}_{end}" for group in hidden for end in ("high", "low")]
    assert found.select(names).null_count().row(0) == (4,) * len(names)
    assert_frame_equal(found.drop("known_at", *names), whole.drop("known_at", *names))
    assert found.schema == whole.schema


def random_candles(
    draw: np.random.Generator, *, days: int, minutes: int = 30, share: float = 0.7
) -> pl.DataFrame:
    """Candles at some times of weeks, nights and weekends among them."""
    count = days * 24 * 60 // minutes
    close = 100 + np.cumsum(draw.normal(0, 1.5, count)).round(2)
    frame = pl.DataFrame(
        {
            "exchange": "X",
            "raw_symbol": "ES",
            "interval": f"{minutes}m",
            "timestamp": [at(7, "00:00") + number * minutes * MINUTE for number in range(count)],
            "low": close - draw.random(count).round(2),
            "high": close + draw.random(count).round(2),
            "close": close,
            "volume": draw.integers(0, 9, count).astype(float),
        }
    )
    return frame.filter(pl.Series(draw.random(count) < share))


@pytest.mark.slow
@each_row("at", ["prior_close", "open", "initial_balance"])
@each_row(("share", "days"), [(0.01, 60), (0.7, 10)])
def test_no_level_looks_ahead(at, share, days):
    frame = random_candles(np.random.default_rng(5), days=days, share=share)
    found = pit.leaks(lambda candles: profile.levels(candles, **HOURS, **ROWS, at=at), frame, cuts=30)
    assert not found, found.frame
    assert found.values > 300


@pytest.mark.slow
def test_levels_that_say_they_are_known_too_early_are_found():
    frame = random_candles(np.random.default_rng(5), days=5)

    def too_early(candles):
        return profile.levels(candles, **HOURS, **ROWS).with_columns(known_at="overnight_known_at")

    found = pit.leaks(too_early, frame, cuts=40)
    assert {"initial_balance_high", "initial_balance_low"} >= set(found.frame["column"])
    assert len(found)


@pytest.mark.slow
def test_levels_join_to_candles_when_they_are_known():
    stages = [
        profile.levels(WEEK, **HOURS, **ROWS, at=at) for at in ("prior_close", "open", "initial_balance")
    ]
    known = pl.concat(stages).unique(["timestamp", "known_at"], keep="last", maintain_order=True)
    joined = pit.asof_join(pit.known_at(WEEK), known, on="known_at", suffix="_levels")
    rows = {row["timestamp"]: row for row in joined.iter_rows(named=True)}
    evening, open_, hour = rows[at(9, "17:00")], rows[at(10, "08:00")], rows[at(10, "10:00")]
    assert (evening["prior_close"], evening["overnight_high"], evening["initial_balance_high"]) == (
        97,
        None,
        None,
    )
    assert (open_["prior_close"], open_["overnight_high"], open_["initial_balance_high"]) == (97, 104, None)
    assert (hour["prior_close"], hour["overnight_high"], hour["initial_balance_high"]) == (97, 104, 106)
    # On the whole answer, a candle of the first hour still has the levels of the day before.
    late = pit.asof_join(pit.known_at(WEEK), stages[-1], on="known_at", suffix="_levels")
    assert late.filter(pl.col("timestamp") == at(10, "08:00"))["session_date"].item() == date(2024, 10, 9)


def test_a_session_that_opens_as_the_last_one_closes_has_two_groups_at_one_time():
    def stages(frame):
        return pl.concat(
            profile.levels(frame, session=Session.utc_day(), minutes=30, **ROWS, at=at)
            for at in ("prior_close", "open", "initial_balance")
        )

    found = stages(WEEK)
    known = found.unique(["timestamp", "known_at"], keep="last", maintain_order=True)
    assert len(found) == 12
    # Of the first day, before which nothing traded, all is known with its first candle.
    assert len(known) == 1 + 3 * 2
    joined = pit.asof_join(pit.known_at(WEEK), known, on="known_at", suffix="_levels")
    thursday = joined.filter(pl.col("timestamp") >= at(10, "08:00"))
    assert thursday["prior_close"].null_count() == 0


# --- every frame ---


@pytest.mark.slow
@each_row("spreading", ["close", "uniform"])
@each_row("seed", range(3))
def test_equals_the_plain_loop(seed, spreading):
    frame = random_candles(np.random.default_rng(seed), days=9, share=[0.05, 0.5, 1.0][seed])
    found = profile.levels(frame, **HOURS, block_size=1, spreading=spreading)
    wanted = oracle.levels(frame.rows(named=True), WHOLE, REGULAR)
    names = ["timestamp", *next(iter(wanted))] if wanted else []
    assert [row["timestamp"] for row in wanted] == found["timestamp"].to_list()
    for name in names:
        assert found[name].to_list() == [row[name] for row in wanted], name


def test_an_unknown_price_or_volume_makes_what_depends_on_it_null():
    odd = WEEK.with_columns(
        high=pl.when(pl.col("timestamp") == at(9, "15:00")).then(None).otherwise("high"),
        volume=pl.when(pl.col("timestamp") == at(10, "10:00")).then(float("nan")).otherwise("volume"),
    )
    found = profile.levels(odd, **HOURS, **ROWS)
    assert found["overnight_high"].to_list() == [91, None, None, None]
    assert found["overnight_low"].to_list() == [89, None, None, None]
    assert found["prior_high"].to_list() == [None, 101, 110, 103]
    assert found["prior_poc"].to_list() == [None, 100, None, 101]
    assert found["naked_pocs"].to_list() == [None, 1, 1, 2]
    twice = pl.concat([WEEK, WEEK.filter(pl.col("timestamp") == at(9, "14:30"))])
    assert profile.levels(twice, **HOURS, **ROWS)["prior_close"].to_list() == [None, None, 108, 101]


@pytest.mark.slow
def test_series_are_apart():
    other = WEEK.with_columns(pl.col("low", "high", "close") * 2)
    both = pl.concat(
        [WEEK.with_columns(raw_symbol=pl.lit("A")), other.with_columns(raw_symbol=pl.lit(None, pl.String))]
    )
    found = profile.levels(both, **HOURS, **ROWS)
    one = profile.levels(WEEK, **HOURS, **ROWS)
    assert_frame_equal(found.filter(pl.col("raw_symbol") == "A").drop("raw_symbol"), one)
    double = found.filter(pl.col("raw_symbol").is_null())
    assert double["prior_high"].to_list() == [None, 202, 220, 206]
    assert_frame_equal(profile.levels(both, **HOURS, **ROWS, by="raw_symbol"), found)


@pytest.mark.slow
def test_an_empty_frame_has_no_sessions():
    found = profile.levels(WEEK.clear(), **HOURS, **ROWS)
    assert found.schema == profile.levels(WEEK, **HOURS, **ROWS).schema
    assert len(found) == 0


# --- what is refused ---


@pytest.mark.slow
@each_row(
    "split",
    [
        (at(9, "08:15"), 15),  # into the open
        (at(9, "09:15"), 15),  # into the end of the first hour
        (at(9, "14:45"), 15),  # into the close
    ],
)
def test_a_candle_in_two_parts_of_a_day_is_refused(split):
    time, minutes = split
    frame = candles((time, 90, 95, 94, 10), (at(10, "08:30"), 90, 95, 94, 10))
    assert len(profile.levels(frame.with_columns(interval=pl.lit(f"{minutes}m")), **HOURS, **ROWS))
    with pytest.raises(QueryError, match=f"a candle of 30 minutes from {time.isoformat()[:16]}"):
        profile.levels(frame, **HOURS, **ROWS)
    with pytest.raises(QueryError, match="a candle of 30 minutes"):
        profile.levels(frame.lazy(), **HOURS, **ROWS)


def test_a_candle_of_unknown_length_is_refused():
    with pytest.raises(QueryError, match="a candle of unknown length"):
        profile.levels(WEEK.with_columns(interval=pl.lit(None, pl.String)), **HOURS, **ROWS)


def test_daily_candles_are_refused():
    daily = candles((datetime(2024, 10, 9, tzinfo=UTC), 90, 95, 94, 10), minutes=24 * 60)
    with pytest.raises(QueryError, match="a candle of 1440 minutes"):
        profile.levels(daily, session=REGULAR, **ROWS)


@each_row(
    ("changed", "options", "named"),
    [
        ({}, {"session": "CME"}, "session"),
        ({}, {"regular": "RTH"}, "regular"),
        ({}, {"regular": Session("08:00", "15:00", zone="Asia/Tokyo"), "session": REGULAR}, "regular"),
        ({}, {"block_size": 0}, "block_size"),
        ({}, {"spreading": "even"}, "spreading"),
        ({}, {"at": "close"}, "at"),
        ({}, {"minutes": 0}, "minutes"),
        ({}, {"rule": "three_row"}, "rule"),
        ({}, {"interval": "30m"}, "interval"),
        ({}, {"by": "prior_poc"}, "by"),
        ({"side": "BUY"}, {}, "candles"),
        ({"interval": None}, {}, "interval"),
        ({}, {"block_size": 1e-9, "spreading": "uniform"}, "block_size"),
    ],
)
def test_arguments_are_checked(changed, options, named):
    frame = WEEK.with_columns(**{name: pl.lit(value) for name, value in changed.items()})
    frame = frame.drop(name for name, value in changed.items() if value is None)
    with pytest.raises(QueryError) as caught:
        profile.levels(frame, **{**HOURS, **ROWS, **options})
    assert caught.value.parameter == named


def test_missing_columns_are_named():
    with pytest.raises(MissingColumnError, match="volume"):
        profile.levels(WEEK.drop("volume"), **HOURS, **ROWS)
    plain = WEEK.drop("interval")
    assert_frame_equal(
        profile.levels(plain, **HOURS, **ROWS, interval="30m"), profile.levels(WEEK, **HOURS, **ROWS)
    )
