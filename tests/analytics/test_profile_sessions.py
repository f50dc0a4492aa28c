"""What is read off the blocks of sessions: literal values, drawn by hand."""

from __future__ import annotations

import tracemalloc
from datetime import UTC, datetime, timedelta

import numpy as np
import pandas as pd
import polars as pl
import pytest

from analytics.touching import DAY, levels_of, lists_of, touches_of
from tables import each_row
from tidytape import Session
from tidytape.analytics import profile
from tidytape.errors import MissingColumnError, QueryError

pytestmark = pytest.mark.usefixtures("small_times")  # times are small numbers of nanoseconds

# A drawn day of half hours, rows of 1, letters as blocks 0, 1, 2, …:
#
#   16  F            tail
#   15  EF
#   14  DE
#   13  D            single print
#   12  CD
#   11  ABC
#   10  AB           poor low
DRAWN = {
    10.0: [0, 1],
    11.0: [0, 1, 2],
    12.0: [2, 3],
    13.0: [3],
    14.0: [3, 4],
    15.0: [4, 5],
    16.0: [5],
}
LISTS = lists_of({("BTCUSDT", DAY): DRAWN})


def day(session, **more):
    return lists_of({("BTCUSDT", DAY): session, **more})


def picked(frame, *columns):
    return frame.select(columns).rows()


def test_initial_balance_is_the_first_hour_and_extends_from_its_edges():
    # definitions: blocks that start within 60 minutes; x1.5, x2, x3 from the edges.
    found = profile.initial_balance(LISTS).row(0, named=True)
    assert (found["initial_balance_high"], found["initial_balance_low"]) == (11, 10)
    assert [found[f"extension_up_{k}"] for k in ("x1_5", "x2", "x3")] == [12.5, 13, 14]
    assert [found[f"extension_down_{k}"] for k in ("x1_5", "x2", "x3")] == [8.5, 8, 7]
    assert (found["is_extended_up"], found["is_extended_down"]) == (True, False)
    assert (found["initial_balance_minutes"], found["extension_from"]) == (60, "edge")


@pytest.mark.slow
def test_initial_balance_of_coarser_rows_is_that_of_the_summary():
    sessions = {("BTCUSDT", DAY): DRAWN}
    for frame in (LISTS, touches_of(sessions), levels_of(sessions)):
        for row_size in (None, 1, 2.5):
            found = profile.initial_balance(frame, row_size=row_size, block_minutes=30)
            whole = profile.summary(frame, row_size=row_size, block_minutes=30)
            assert found.equals(whole.select(found.columns)), row_size
    coarse = profile.initial_balance(LISTS, row_size=4)
    assert picked(coarse, "initial_balance_low", "initial_balance_high") == [(8, 8)]


def test_extensions_may_count_the_whole_range():
    found = profile.initial_balance(LISTS, extension_from="opposite").row(0, named=True)
    assert [found[f"extension_up_{k}"] for k in ("x1_5", "x2", "x3")] == [11.5, 12, 13]
    assert [found[f"extension_down_{k}"] for k in ("x1_5", "x2", "x3")] == [9.5, 9, 8]


@each_row(("minutes", "high"), [(1, 11), (30, 11), (60, 11), (61, 12), (90, 12), (120, 14), (9999, 16)])
def test_a_block_is_in_the_balance_if_it_starts_in_it(minutes, high):
    assert profile.initial_balance(LISTS, minutes=minutes)["initial_balance_high"].item() == high


def test_an_hour_without_trades_has_no_balance():
    found = profile.initial_balance(day({10.0: [2], 11.0: [2, 3]})).row(0, named=True)
    assert found["initial_balance_high"] is None
    assert found["is_extended_up"] is None


def test_argument_for_the_length_of_a_block_goes_before_the_column():
    assert profile.initial_balance(LISTS, block_minutes=60)["initial_balance_high"].item() == 11
    assert profile.initial_balance(LISTS, block_minutes=5)["initial_balance_high"].item() == 16
    unknown = LISTS.with_columns(block_size_minutes=pl.lit(None, pl.Int64))
    assert profile.initial_balance(unknown)["initial_balance_high"].item() is None
    with pytest.raises(QueryError, match="the length of a block, which the frame does not say"):
        profile.initial_balance(touches_of({("BTCUSDT", DAY): DRAWN}))


def test_single_prints_lie_strictly_inside_and_tails_at_the_ends():
    columns = ("low", "high", "rows", "first_block", "last_block")
    assert picked(profile.single_prints(LISTS), *columns) == [(13, 13, 1, 3, 3)]
    assert picked(profile.tails(LISTS), "end", *columns, "is_excess") == [("high", 16, 16, 1, 5, 5, False)]
    assert picked(profile.tails(LISTS, min_excess_rows=1), "is_excess", "min_excess_rows") == [(True, 1)]


def test_a_row_that_nothing_touched_ends_a_run():
    session = {10.0: [0, 1], 11.0: [1], 13.0: [2], 14.0: [2, 3]}
    assert picked(profile.single_prints(day(session)), "low", "high") == [(11, 13)]
    assert picked(profile.single_prints(day(session), row_size=1), "low", "high") == [(11, 11), (13, 13)]
    empty = {**session, 12.0: []}
    assert picked(profile.single_prints(day(empty), row_size=1), "low", "high") == [(11, 11), (13, 13)]


def test_one_block_is_a_tail_of_both_ends():
    session = day({10.0: [0], 11.0: [0]})
    assert picked(profile.tails(session), "end", "rows") == [("high", 2), ("low", 2)]
    assert picked(profile.single_prints(session), "rows") == []


@pytest.mark.parametrize(
    ("now", "in_progress"),
    [
        (None, [False, False]),
        (DAY + timedelta(hours=3), [False, False]),
        (DAY + timedelta(hours=3, seconds=-1), [False, True]),
        ("2024-08-08T01:59:59Z", [True, True]),
    ],
)
def test_block_in_progress_is_flagged(now, in_progress):
    assert profile.single_prints(LISTS, now=now)["is_in_progress"].to_list() == in_progress[:1]
    assert profile.tails(LISTS, now=now)["is_in_progress"].to_list() == in_progress[1:]
    extremes = profile.poor_extremes(LISTS, now=now)
    assert extremes["is_high_in_progress"].item() == in_progress[1]


def test_poor_extremes_and_excess():
    found = profile.poor_extremes(LISTS).row(0, named=True)
    assert (found["high"], found["high_blocks"], found["tail_high_rows"]) == (16, 1, 1)
    assert (found["low"], found["low_blocks"], found["tail_low_rows"]) == (10, 2, 0)
    # One single row is no excess of two, and not poor either.
    assert (found["is_poor_high"], found["has_excess_high"], found["is_poor_low"]) == (False, False, True)
    assert profile.poor_extremes(LISTS, min_excess_rows=1)["has_excess_high"].item() is True


def test_coarser_rows_count_a_block_once():
    found = profile.poor_extremes(LISTS, row_size=5).row(0, named=True)
    assert (found["high"], found["high_blocks"], found["low_blocks"]) == (15, 2, 5)
    # Numbers of blocks do not say which of them two levels share.
    found = profile.poor_extremes(levels_of({("BTCUSDT", DAY): DRAWN}), row_size=5).row(0, named=True)
    assert (found["high"], found["is_poor_high"]) == (None, None)


def test_blocks_of_a_list_go_before_the_number_that_was_sent():
    sent = LISTS.with_columns(tpo_count=99, first_touch_block=0, last_touch_block=99)
    assert profile.single_prints(sent).equals(profile.single_prints(LISTS))


@each_row(
    "function",
    [
        profile.initial_balance,
        profile.single_prints,
        profile.tails,
        profile.poor_extremes,
        profile.day_type,
        lambda levels: profile.developing(levels, block_minutes=30),
    ],
)
def test_what_needs_blocks_says_so(function):
    volumes = LISTS.drop("block_ids", "block_size_minutes").with_columns(block_size_minutes=30)
    with pytest.raises(QueryError, match="a volume profile has no blocks"):
        function(volumes)


def test_developing_is_of_blocks_that_have_closed():
    found = profile.developing(LISTS, row_size=1)
    expected = [
        (0, 10, 10, 11),  # counts from 10 upwards: 1 1
        (1, 10, 10, 11),  # 2 2
        (2, 11, 10, 11),  # 2 3 1
        (3, 11, 10, 13),  # 2 3 2 1 1
        (4, 11, 11, 15),  # 2 3 2 1 2 1
        (5, 11, 11, 15),  # 2 3 2 1 2 2 1
    ]
    assert picked(found, "block", "poc", "val", "vah") == expected
    assert found["known_at"].to_list() == [DAY + timedelta(minutes=30 * block) for block in range(1, 7)]


def test_developing_until_now():
    found = profile.developing(LISTS, now=DAY + timedelta(minutes=89))
    assert found["block"].to_list() == [0, 1]
    assert profile.developing(LISTS, now=DAY + timedelta(minutes=90))["block"].to_list() == [0, 1, 2]


@pytest.mark.slow
def test_last_block_ends_with_its_session():
    short = LISTS.with_columns(period_end=pl.lit(DAY + timedelta(minutes=170)))
    night = Session("00:00", "02:50", zone="UTC")
    found = profile.developing(short, session=night)["known_at"].to_list()
    assert found == [DAY + timedelta(minutes=minutes) for minutes in (30, 60, 90, 120, 150, 170)]


def test_developing_volume_needs_touches():
    with pytest.raises(QueryError, match="in which block they traded what") as error:
        profile.developing(LISTS, count="volume")
    assert error.value.parameter == "count"
    touches = touches_of({("BTCUSDT", DAY): {10.0: [0, 1], 11.0: [1]}})
    touches = touches.with_columns(volume=pl.Series([5.0, 1.0, 8.0]))
    found = profile.developing(touches, count="volume", block_minutes=30)
    assert picked(found, "poc", "value_area_share") == [(10, 1), (11, 1)]


def test_developing_from_what_is_unknown_on_has_no_answer():
    found = profile.developing(day({10.0: [0, 1, 2], None: [1]}))
    assert found["poc"].to_list() == [10, None, None]


def test_naked_pocs_are_touched_by_a_range_and_not_by_a_jump():
    days = [DAY + timedelta(days=number) for number in range(4)]
    sessions = {
        ("BTCUSDT", days[0]): {10.0: [0, 1], 11.0: [0]},
        ("BTCUSDT", days[1]): {20.0: [0], 21.0: [0, 1]},  # jumped over 12 to 19
        ("BTCUSDT", days[2]): {9.0: [0], 12.0: [0, 1]},  # nothing at 10, and yet its range
        ("ETHUSDT", days[3]): {21.0: [0]},  # another series
    }
    found = profile.naked_pocs(levels_of(sessions), count="tpo_count")
    assert picked(found, "poc", "is_naked", "touched_at") == [
        (10, False, days[2]),
        (21, True, None),
        (12, True, None),
        (21, True, None),
    ]


@pytest.mark.slow
def test_naked_pocs_of_many_sessions_take_little_memory():
    count, nanoseconds = 20_000, 1_723_161_600_000_000_001
    session = np.repeat(np.arange(count), 2)
    levels = pd.DataFrame(
        {
            "timestamp": nanoseconds + session,
            "price": (session * 7_919 % count + np.tile([0, 1], count)).astype("float64"),
            "volume": np.tile([2.0, 1.0], count),
        }
    )
    tracemalloc.start()
    try:
        found = profile.naked_pocs(levels)
        assert tracemalloc.get_traced_memory()[1] < 2**27
    finally:
        tracemalloc.stop()
    # A price is that of one session, and the upper one of the session that has the price below it.
    low = np.arange(count) * 7_919 % count
    place_of = np.argsort(low)
    below = place_of[np.maximum(low - 1, 0)]
    is_touched = (below > np.arange(count)) & (low > 0)
    assert (found["is_naked"].to_numpy() == ~is_touched).all()
    assert (found["touched_at"][is_touched] == nanoseconds + below[is_touched]).all()


def test_naked_pocs_without_identity_are_of_one_series():
    levels = pl.DataFrame({"timestamp": [1, 2], "price": [5.0, 5.0], "volume": [1, 1]})
    assert profile.naked_pocs(levels)["touched_at"].to_list() == [2, None]


def test_nodes_report_a_plateau_once():
    levels = pl.DataFrame({"timestamp": 0, "price": range(9), "volume": [9, 1, 5, 5, 5, 2, 2, 3, 1]})
    found = profile.nodes(levels, within=1)
    assert picked(found, "kind", "low", "high", "rows", "count") == [
        ("hvn", 0, 0, 1, 9),
        ("lvn", 1, 1, 1, 1),
        ("hvn", 2, 4, 3, 5),
        ("lvn", 5, 6, 2, 2),
        ("hvn", 7, 7, 1, 3),
    ]
    assert found["poc_share"].to_list() == [1, 1 / 9, 5 / 9, 2 / 9, 3 / 9]
    assert picked(profile.nodes(levels, within=5), "kind", "low") == [("hvn", 0), ("lvn", 1)]


def test_nodes_see_rows_without_levels_on_a_grid():
    levels = pl.DataFrame({"timestamp": 0, "price": [0.1, 0.2, 0.6], "volume": [3, 4, 2]})
    assert picked(profile.nodes(levels, row_size=0.1), "kind", "low", "high", "rows") == [
        ("hvn", 0.2, 0.2, 1),
        ("lvn", 0.3, 0.5, 3),
        ("hvn", 0.6, 0.6, 1),
    ]


@pytest.mark.parametrize("volumes", [[3], [2, 2, 2], [0, 0], [1, None, 1]])
def test_a_flat_profile_has_no_node(volumes):
    levels = pl.DataFrame({"timestamp": 0, "price": range(len(volumes)), "volume": volumes})
    assert profile.nodes(levels).is_empty()


def test_composite_adds_what_value_areas_do_not():
    levels = pl.DataFrame(
        {
            "coin": "BTC",
            "timestamp": [0, 0, 0, 1, 1, 1],
            "price": [10.0, 11.0, 12.0, 11.0, 12.0, 13.0],
            "volume": [9.0, 1.0, 1.0, 1.0, 1.0, 9.0],
        }
    )
    both = profile.composite(levels, row_size=1)
    assert both.columns == ["timestamp", "coin", "sessions", "price", "volume"]
    assert both.rows() == [
        (0, "BTC", 2, price, volume) for price, volume in [(10, 9), (11, 2), (12, 2), (13, 9)]
    ]
    assert picked(profile.value_area(both), "val", "poc", "vah") == [(10, 10, 13)]
    assert picked(profile.value_area(levels), "val", "vah") == [(10, 10), (13, 13)]


def test_composite_of_what_is_unknown_is_unknown_there():
    levels = pl.DataFrame({"coin": "BTC", "price": [1.0, 1.0, 2.0, None], "volume": [1.0, None, 2.0, 3.0]})
    found = profile.composite(levels, row_size=1)
    assert sorted(found.rows(), key=str) == [("BTC", 1, None), ("BTC", 2, 2), ("BTC", None, 3)]
    assert profile.value_area(found, by="coin")["poc"].item() is None


@each_row(
    ("arguments", "parameter"),
    [
        ({"row_size": None}, "row_size"),
        ({"row_size": 0}, "row_size"),
        ({"row_size": 1, "count": []}, "count"),
        ({"row_size": 1, "count": ["volume", "volume"]}, "count"),
        ({"row_size": 1, "count": "price"}, "count"),
        ({"row_size": 1, "count": "raw_symbol"}, "count"),
        ({"row_size": 1, "count": "timestamp"}, "count"),
        ({"row_size": 1, "by": ["sessions"]}, "by"),
        ({"row_size": 1, "by": ["volume"]}, "by"),
    ],
)
def test_composite_refuses_what_cannot_be_right(arguments, parameter):
    with pytest.raises(QueryError) as error:
        profile.composite(LISTS, **arguments)
    assert error.value.parameter == parameter


@pytest.mark.parametrize(
    ("volumes", "letter"),
    [
        ([1, 2, 4, 7, 4, 2, 1], "D"),
        ([1, 1, 1, 2, 4, 8, 5], "P"),
        ([5, 8, 4, 2, 1, 1, 1], "b"),
        ([2, 6, 3, 1, 3, 7, 2], "B"),
        ([2, 6, 5, 5, 5, 7, 2], "P"),  # no valley
        ([2, 1, 4, 9, 4, 0, 2], "D"),  # a valley with too little behind it
        ([3], None),
        ([0, 0], None),
    ],
)
def test_shapes(volumes, letter):
    levels = pl.DataFrame({"timestamp": 0, "price": range(len(volumes)), "volume": volumes})
    assert profile.shape(levels)["shape"].item() == letter


def test_thresholds_move_the_letter_and_stand_beside_it():
    levels = pl.DataFrame({"timestamp": 0, "price": range(7), "volume": [1, 4, 9, 4, 1, 0, 2]})
    found = profile.shape(levels, min_second=0.05)
    assert picked(found, "shape", "valley_depth", "second_share", "min_second") == [("B", 0, 2 / 21, 0.05)]
    assert profile.shape(levels, low_poc=0.3)["shape"].item() == "D"
    with pytest.raises(QueryError, match=r"at most high_poc, 0\.5"):
        profile.shape(levels, low_poc=0.6, high_poc=0.5)


DAY_TYPES = {
    # All of it in the first hour.
    "normal": {10.0: [0, 1, 3], 11.0: [0, 1, 2], 12.0: [0, 2, 3], 13.0: [1]},
    # A little beyond on one side, and back.
    "normal_variation": {10.0: [0, 1, 3], 11.0: [0, 1, 3], 12.0: [1, 2, 3], 13.0: [2, 3], 14.0: [2]},
    # One way, and it ends there.
    "trend": {10.0: [0], 11.0: [0, 1], 12.0: [1, 2], 13.0: [2, 3], 14.0: [3], 15.0: [4], 16.0: [5]},
    # Beyond on both sides.
    "neutral": {9.0: [2], 10.0: [0, 1, 2, 3], 11.0: [0, 1, 3], 12.0: [3]},
    # Two distributions, with a single print between them.
    "double_distribution": {
        10.0: [0, 1, 2],
        11.0: [0, 1, 2, 3],
        12.0: [3],
        13.0: [3],
        14.0: [4, 5, 6],
        15.0: [4, 5, 6, 7],
    },
}


@pytest.mark.parametrize("kind", DAY_TYPES)
def test_day_types(kind):
    assert profile.day_type(day(DAY_TYPES[kind]), row_size=1)["day_type"].item() == kind


def test_a_quiet_day_is_measured_against_those_before():
    wide, narrow = DAY_TYPES["trend"], {10.0: [0, 1], 11.0: [1, 2], 12.0: [2]}
    sessions = {("BTCUSDT", DAY + timedelta(days=n)): [wide, wide, narrow, wide][n] for n in range(4)}
    found = profile.day_type(lists_of(sessions), lookback=2, row_size=1)
    assert found["range_ratio"].to_list() == [None, None, 2 / 6, 6 / 4]
    assert found["day_type"].to_list() == ["trend", "trend", "non_trend", "trend"]


def test_day_features():
    found = profile.day_type(LISTS).row(0, named=True)
    assert (found["balance_share"], found["extension_up_share"], found["extension_down_share"]) == (
        1 / 6,
        5 / 6,
        0,
    )
    assert found["close_position"] == (15.5 - 10) / 6  # the last block touched 15 and 16


@pytest.mark.slow
def test_summary_says_what_the_functions_say():
    sessions = {("BTCUSDT", DAY + timedelta(days=n)): of for n, of in enumerate([DRAWN, *DAY_TYPES.values()])}
    levels = levels_of(sessions).with_columns(volume=pl.col("tpo_count") * 2.5)
    found = profile.summary(levels, row_size=1, lookback=3, rule="one_row", min_excess_rows=1)
    apart = [
        profile.value_area(levels, row_size=1, rule="one_row"),
        profile.point_of_control(levels),
        profile.initial_balance(levels),
        profile.poor_extremes(levels, row_size=1, min_excess_rows=1),
        profile.shape(levels, row_size=1),
        profile.day_type(levels, row_size=1, lookback=3),
        profile.naked_pocs(levels, row_size=1),
    ]
    for frame in apart:
        assert found.select(frame.columns).equals(frame)
    nodes, runs = profile.nodes(levels, row_size=1), profile.single_prints(levels, row_size=1)
    assert found["high_nodes"].sum() == len(nodes.filter(pl.col("kind") == "hvn"))
    assert found["low_nodes"].sum() == len(nodes.filter(pl.col("kind") == "lvn"))
    assert (found["single_print_runs"].sum(), found["single_print_rows"].sum()) == (
        len(runs),
        runs["rows"].sum(),
    )
    assert found["has_blocks"].all()
    assert found["count"].unique().to_list() == ["volume"]


@pytest.mark.slow
def test_summary_of_volumes_lacks_what_needs_blocks_and_keeps_its_columns():
    levels = levels_of({("BTCUSDT", DAY): DRAWN})
    whole = profile.summary(levels)
    volumes = profile.summary(levels.select("exchange", "raw_symbol", "timestamp", "price", "volume"))
    assert volumes.schema == whole.schema
    assert volumes["has_blocks"].item() is False
    assert volumes["poc"].item() == whole["poc"].item()
    needs = ["initial_balance_high", "is_poor_low", "tail_high_rows", "single_print_runs", "day_type"]
    assert volumes.select(needs).row(0) == (None,) * len(needs)
    assert None not in whole.select(needs).row(0)


def test_summary_refuses_a_threshold_it_does_not_know():
    with pytest.raises(QueryError, match="did you mean 'max_valley'"):
        profile.summary(LISTS, thresholds={"max_valey": 0.1})


def test_sessions_need_a_time():
    with pytest.raises(MissingColumnError, match="timestamp"):
        profile.summary(LISTS.drop("timestamp"))
    naive = LISTS.with_columns(timestamp=pl.lit(datetime(2024, 8, 8, tzinfo=UTC).replace(tzinfo=None)))
    with pytest.raises(QueryError, match="times with a zone"):
        profile.naked_pocs(naive)


BLOCKS = pl.DataFrame(
    {"timestamp": [0] * 4, "price": [0.0, 1.0, 2.0, 3.0], "block_ids": [[0, 1], [0, 1], [2], [2, 3, 4]]}
).with_columns(tpo_count=pl.col("block_ids").list.len(), volume=1.0, block_size_minutes=30.0)


@pytest.mark.slow
def test_a_block_that_touched_two_levels_of_a_row_counts_once() -> None:
    """Of rows of two the blocks are 0, 1 and 2, 3, 4: 2 and 3, where the levels' counts add up to 4 and 4."""
    sent = {"count": "tpo_count", "row_size": 2}
    found = profile.summary(BLOCKS, **sent).row(0, named=True)
    assert (found["poc"], found["poc_count"], found["total"]) == (2.0, 3.0, 5.0)
    area = profile.value_area(BLOCKS, by="timestamp", share=0.6, **sent)
    assert area.select("poc", "val", "vah", "value_area_share").row(0) == (2.0, 2.0, 2.0, 0.6)
    assert profile.naked_pocs(BLOCKS, **sent)["poc"].to_list() == [2.0]
    assert profile.nodes(BLOCKS, by="timestamp", **sent)["count"].to_list() == [3.0]
    two = pl.concat([BLOCKS, BLOCKS.with_columns(timestamp=pl.lit(1, pl.Int64))]).with_columns(
        coin=pl.lit("BTC")
    )
    rows = profile.composite(two, by="coin", count=["tpo_count", "volume"], row_size=2)
    assert rows.rows() == [(0, "BTC", 2, 0.0, 4.0, 4.0), (0, "BTC", 2, 2.0, 6.0, 4.0)]


@pytest.mark.long
@pytest.mark.parametrize("row_size", [None, 0.5, 1, 2])
@pytest.mark.parametrize("lazy", [False, True])
def test_touches_are_counted_as_the_blocks_of_a_list_are(row_size, lazy):
    """Touches have no column of their own for it, and any column of theirs would count a block twice."""
    lists = BLOCKS.with_columns(coin=pl.lit("BTC"))
    touches = (
        lists.explode("block_ids").rename({"block_ids": "block_id"}).sample(fraction=1, shuffle=True, seed=1)
    )
    counts = {"count": "tpo_count"} | ({} if row_size is None else {"row_size": row_size})
    for name in ("value_area", "summary", "naked_pocs", "nodes", "shape", "composite", "point_of_control"):
        arguments = dict(counts)
        if name == "point_of_control":
            arguments.pop("row_size", None)
        if name == "composite":
            arguments.setdefault("row_size", 1)
        function = getattr(profile, name)
        wanted = function(lists, **arguments)
        for frame in (touches, touches.drop("tpo_count")):
            found = function(frame.lazy(), **arguments).collect() if lazy else function(frame, **arguments)
            assert found.equals(wanted), name
    alike = profile.developing(touches.drop("tpo_count"), **counts)
    assert alike.equals(profile.developing(touches, row_size=row_size))
    both = profile.composite(touches.drop("tpo_count"), row_size=2, count=["tpo_count", "block_size_minutes"])
    assert both.select("tpo_count", "block_size_minutes").rows() == [(2, 120), (3, 120)]


def test_a_frame_without_blocks_has_no_number_of_them():
    with pytest.raises(MissingColumnError, match="tpo_count"):
        profile.value_area(LISTS.drop("block_ids"), count="tpo_count")


def test_a_composite_is_a_session_from_the_first_start_to_the_last_end():
    day = 24 * 3600 * 10**9
    levels = pl.DataFrame(
        {
            "coin": ["A", "A", "A", "B", None],
            "timestamp": [day, day, 3 * day, 0, 0],
            "price": 1.0,
            "volume": 1.0,
        }
    )
    span = ["timestamp", "period_end", "sessions"]
    ended = profile.composite(levels.with_columns(period_end=pl.col("timestamp") + 7 * day), row_size=1)
    assert ended.select(span).rows() == [(0, 7 * day, 1), (day, 10 * day, 2), (0, 7 * day, 1)]
    # Volume profiles last as long as their interval.
    timed = profile.composite(levels.with_columns(interval=pl.lit("DAY")), row_size=1)
    assert timed.select(span).rows() == [(0, day, 1), (day, 4 * day, 2), (0, day, 1)]
    strange = pl.Series(["DAY", "DAY", None, None, "DAY"])
    unknown = profile.composite(levels.with_columns(interval=strange), by="coin", row_size=1)
    assert unknown["period_end"].to_list() == [day, None, None]
    # Sessions of blocks need not: nothing says when the last ends, and no interval seems to.
    silent = profile.composite(levels.with_columns(interval=pl.lit("DAY"), tpo_count=1), row_size=1)
    assert silent.columns == ["timestamp", "coin", "sessions", "price", "volume"]
    named = profile.composite(ended, row_size=2, by=["coin", "timestamp"])
    assert named.columns == ["timestamp", "coin", "period_end", "sessions", "price", "volume"]
    assert named.drop("price").equals(ended.drop("price"))


def test_a_composite_of_composites_says_how_many_sessions_there_are():
    levels = pl.DataFrame({"coin": "A", "timestamp": range(7), "price": 1.0, "volume": 1.0})
    parts = [profile.composite(levels[rows], row_size=1) for rows in (slice(0, 3), slice(3, 7))]
    assert profile.composite(pl.concat(parts), row_size=1).equals(profile.composite(levels, row_size=1))


def test_blocks_that_are_only_numbered_are_not_known_of_coarser_rows() -> None:
    numbered = BLOCKS.drop("block_ids")
    area = profile.value_area(numbered, by="timestamp", count="tpo_count", row_size=2)
    assert area.select("poc", "vah").row(0) == (None, None)
    assert profile.summary(numbered, count="tpo_count", row_size=2)["poc"].to_list() == [None]
    assert (
        profile.composite(numbered, by="timestamp", count="tpo_count", row_size=2)["tpo_count"].to_list()
        == [None] * 2
    )
    fine = profile.value_area(numbered, by="timestamp", count="tpo_count", row_size=1)
    assert fine["poc"].to_list() == [3.0]


@pytest.mark.parametrize("function", [profile.developing, profile.initial_balance, profile.day_type])
def test_a_volume_profile_is_told_that_it_has_no_blocks(function) -> None:
    with pytest.raises(QueryError, match="a volume profile has no blocks"):
        function(BLOCKS.select("timestamp", "price", "volume"))


@pytest.mark.slow
@pytest.mark.parametrize("minutes", [0, -30, float("nan"), float("inf"), 1e300, None])
@pytest.mark.parametrize("of", [pl.DataFrame, pl.DataFrame.to_pandas, pl.DataFrame.to_arrow])
def test_a_column_that_says_no_length_of_a_block_says_nothing(minutes, of):
    levels = of(LISTS.with_columns(block_size_minutes=pl.lit(minutes, pl.Float64)))
    for found, unknown in (
        (profile.initial_balance(levels), "initial_balance_high"),
        (profile.day_type(levels), "day_type"),
        # What a block traded is known, and not when it was known.
        (profile.developing(levels), "known_at"),
    ):
        result = pl.DataFrame(found)
        assert len(result) > 0
        assert result[unknown].null_count() == len(result)
    assert pl.DataFrame(profile.developing(levels))["poc"].null_count() == 0


def test_a_block_that_ends_after_years_has_no_end():
    levels = lists_of({("BTCUSDT", DAY): {10.0: [2_000_000]}})
    assert profile.developing(levels).select("block", "known_at").rows() == [(2_000_000, None)]
    with pytest.raises(QueryError, match="at most a year"):
        profile.developing(LISTS, block_minutes=1e300)


@pytest.mark.parametrize(
    "words",
    [
        {"block_ids": pl.lit(["a"])},
        {"block_id": pl.lit("a")},
        {"tpo_count": pl.lit("3"), "first_touch_block": 0, "last_touch_block": 1},
    ],
)
def test_blocks_are_numbers(words):
    levels = LISTS.drop("block_ids").with_columns(**words)
    for function in (profile.initial_balance, profile.tails):
        with pytest.raises(QueryError, match=next(iter(words))):
            function(levels)


@pytest.mark.slow
@pytest.mark.parametrize(("usual", "glitch"), [(1e-6, 1e10), (1.0, 1e18), (3.0, 1e300)])
@pytest.mark.parametrize("of", [pl.DataFrame, pl.DataFrame.to_pandas])
def test_one_absurd_range_counts_as_long_as_it_is_looked_back_on(usual, glitch, of):
    ranges = [usual, glitch, *[usual] * 8]
    sessions = {
        ("BTCUSDT", DAY + timedelta(days=n)): {0.0: [0], width: [0]} for n, width in enumerate(ranges)
    }
    found = pl.DataFrame(profile.day_type(of(lists_of(sessions)), lookback=3))
    assert found["range_ratio"].to_list() == [
        *[None] * 3,
        *[pytest.approx(usual / (glitch / 3), rel=1e-12)] * 2,
        *[pytest.approx(1.0, rel=1e-12)] * 5,
    ]


@pytest.mark.slow
@pytest.mark.parametrize("order", [[0, 1, 2, 3, 4], [4, 0, 1, 2, 3], [0, 1, 4, 2, 3]])
@pytest.mark.parametrize("backend", [None, "numpy_nullable", "pyarrow"])
def test_a_session_without_a_start_is_one_wherever_its_rows_stand(order, backend):
    starts = pd.to_datetime([DAY, DAY, DAY + timedelta(days=1), DAY + timedelta(days=1), None], utc=True)
    levels = pd.DataFrame(
        {"coin": "BTC", "timestamp": starts, "price": [1.0, 2, 2, 3, 2], "volume": [1.0, 2, 3, 4, 5]}
    )
    mixed = (
        levels.iloc[order] if backend is None else levels.iloc[order].convert_dtypes(dtype_backend=backend)
    )
    for function in (profile.value_area, profile.naked_pocs, profile.summary):
        found, expected = function(mixed), function(pl.from_pandas(levels))
        assert found["poc"].tolist() == expected["poc"].to_list()
