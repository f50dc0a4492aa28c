"""Market profiles: an example worked by hand, and random trades against a plain loop, on every engine."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import narwhals.stable.v2 as nw
import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from lakes import empty_lake
from oracles.profile import value_area
from tables import each_row, in_columns
from tidytape.aggregate import _counts, candles, tpo, tpo_sessions, tpo_touches
from tidytape.aggregate._tpo import _with_month_start
from tidytape.catalogue import TPO_BLOCK_MINUTES, Interval, TPOSession
from tidytape.errors import MissingColumnError, QueryError
from tidytape.schema import TPO_SESSIONS, schema_of

MINUTE = 60 * 10**9
DAY = 1440 * MINUTE
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FLAGS = ["is_single_print", "is_poor_high", "is_poor_low", "is_in_progress"]
LISTS = ["poor_highs", "poor_lows", "single_prints"]
SESSION = ["exchange", "raw_symbol", "timestamp"]


def frame(rows):
    """Trades of one market from (minute, side, price, amount)."""
    minutes, side, price, amount = zip(*rows, strict=True)
    return pl.DataFrame(
        {
            "timestamp": [round(minute * MINUTE) for minute in minutes],
            "sequence": range(len(rows)),
            "side": side,
            "price": price,
            "amount": amount,
        }
    ).select(pl.lit("A").alias("exchange"), pl.lit("X").alias("raw_symbol"), pl.all())


# Rows by block of 30 minutes: 0 touches 101 to 103, 1 touches 101 and 102, 2 touches 103 to 105, 3 touches 105 and
# 106, 4 does not trade, 5 touches 106.
BY_HAND = frame(
    [
        (0, "BUY", 101.0, 1.0),
        (29, "SELL", 103.5, 2.0),
        (30, "SELL", 102.0, 0.1),
        (31, "SELL", 101.9, 0.2),
        (60, "BUY", 103.0, 4.0),
        (89, "BUY", 105.0, 8.0),
        (90, "SELL", 106.0, 16.0),
        (91, "SELL", 105.25, 32.0),
        (150, "BUY", 106.2, 64.0),
    ]
)


@pytest.mark.slow
def test_by_hand(engine):
    got = engine.polars(tpo(engine.frame(BY_HAND), interval="1d", block_size=1))
    assert got.select(
        "price", "buy_volume", "sell_volume", "volume", "tpo_count", "first_touch_block", "last_touch_block"
    ).rows() == [
        (101.0, 1.0, 0.2, 1.2, 2, 0, 1),
        (102.0, 0.0, 0.1, 0.1, 2, 0, 1),
        (103.0, 4.0, 2.0, 6.0, 2, 0, 2),
        (104.0, 0.0, 0.0, 0.0, 1, 2, 2),
        (105.0, 8.0, 32.0, 40.0, 2, 2, 3),
        (106.0, 64.0, 16.0, 80.0, 2, 3, 5),
    ]
    sessions = engine.polars(tpo_sessions(engine.frame(BY_HAND), interval="1d", block_size=1))
    # The point of control is the largest row closest to the middle, 103.5. It has 2 of 11 and wants 7.7: below are 4,
    # above 3, so 101 and 102 join, then 104 and 105.
    expected = {
        "exchange": "A", "raw_symbol": "X", "timestamp": 0, "period_start": 0, "period_end": DAY,
        "block_size_minutes": 30, "poc_price": 103.0, "vah_price": 105.0, "val_price": 101.0,
        "profile_high": 106.0, "profile_low": 101.0, "opening_price": 101.0, "closing_price": 106.2,
        "ibr_high": 103.5, "ibr_low": 101.0, "total_tpo_count": 11,
        "value_area_percentage": pytest.approx(900 / 11), "total_volume": 127.3,
    }  # fmt: skip
    assert sessions.to_dicts() == [expected]
    assert [got.filter(flag)["price"].to_list() for flag in FLAGS] == [[104.0], [106.0], [101.0], []]


MADE = {
    "tpo": (tpo, schema_of("TPO_AGG"), ["block_ids"]),
    "tpo_sessions": (tpo_sessions, TPO_SESSIONS, LISTS),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MADE)
def test_columns_are_those_of_the_schema_but_the_lists(engine, name):
    make, schema, lists = MADE[name]
    scalars = [
        column.name
        for column in schema.columns
        if column.dtype != "category" and column.name not in {*lists, *schema.descriptors}
    ]
    for trades in (BY_HAND, BY_HAND.clear()):
        got = engine.polars(make(engine.frame(trades), interval="1d", block_size=1))
        got = in_columns(got, ["exchange", "raw_symbol", *scalars])
    assert got.height == 0


@pytest.mark.parametrize("name", MADE)
def test_dtypes(engine, name):
    make, schema, _ = MADE[name]
    got = engine.polars(make(engine.frame(BY_HAND), interval="1d", block_size=1)).schema
    known = schema.polars()
    for column in {*got.names()} - {"exchange", "raw_symbol"}:
        expected = pl.Int64 if isinstance(known[column], pl.Datetime) else known[column]
        assert got[column] == expected, column


def session_bounds(time, interval, session):
    """Start and end of the session, by the calendar."""
    moment = EPOCH + timedelta(microseconds=time // 1000)
    day = moment.replace(hour=0, minute=0, second=0, microsecond=0)
    if session == "monthly":
        start = day.replace(day=1)
        end = (start + timedelta(days=31)).replace(day=1)
    elif session == "weekly" or (session is None and interval == "1w"):
        start = day - timedelta(days=day.weekday())
        end = start + timedelta(days=7)
    elif session == "daily":
        start, end = day, day + timedelta(days=1)
    else:
        length = timedelta(seconds=next(each.seconds for each in Interval if each.alias == interval))
        start = EPOCH + (moment - EPOCH) // length * length
        end = start + length
    return tuple((bound - EPOCH) // timedelta(microseconds=1) * 1000 for bound in (start, end))


def in_a_tail(row, counts):
    """Whether all rows from this one to an end of the profile were touched by one block."""
    return any(
        all(counts.get(other) == 1 for other in range(*ends))
        for ends in [(min(counts), row + 1), (row, max(counts) + 1)]
    )


def plain_tpo(trades, row_of, *, interval, block_size, period=None, block_minutes=30):
    """Levels and sessions with loops and dictionaries."""
    sessions = {}
    for trade in sorted(trades, key=lambda trade: (trade["timestamp"], trade["sequence"])):
        start, end = session_bounds(trade["timestamp"], interval, period)
        sessions.setdefault((trade["exchange"], trade["raw_symbol"], start, end), []).append(trade)
    levels, results = [], []
    for (exchange, symbol, start, end), members in sorted(sessions.items()):
        blocks, volumes = {}, {}
        for trade in members:
            blocks.setdefault((trade["timestamp"] - start) // (block_minutes * MINUTE), []).append(
                trade["price"]
            )
            sides = volumes.setdefault(
                row_of(trade["price"], block_size), {"BUY": Decimal(0), "SELL": Decimal(0)}
            )
            sides[trade["side"]] += Decimal(repr(trade["amount"]))
        touches = {}
        for block, prices in sorted(blocks.items()):
            for row in range(row_of(min(prices), block_size), row_of(max(prices), block_size) + 1):
                touches.setdefault(row, []).append(block)
        prices = {row: float(row * Decimal(block_size)) for row in touches}
        counts = {row: len(ids) for row, ids in touches.items()}
        poc, val, vah, share = value_area(
            [(prices[row], count) for row, count in counts.items()], row_size=block_size
        )
        balance = [price for block, seen in blocks.items() if block * block_minutes < 60 for price in seen]
        market = {"exchange": exchange, "raw_symbol": symbol, "timestamp": start}
        results.append(
            market
            | {
                "period_start": start,
                "period_end": end,
                "block_size_minutes": block_minutes,
                "poc_price": poc,
                "vah_price": vah,
                "val_price": val,
                "profile_high": prices[max(prices)],
                "profile_low": prices[min(prices)],
                "opening_price": members[0]["price"],
                "closing_price": members[-1]["price"],
                "ibr_high": max(balance, default=None),
                "ibr_low": min(balance, default=None),
                "total_tpo_count": sum(counts.values()),
                "value_area_percentage": pytest.approx(100 * share, rel=1e-11),
                "total_volume": float(sum(sum(both.values()) for both in volumes.values())),
            }
        )
        for row, ids in sorted(touches.items()):
            sides = volumes.get(row, {"BUY": Decimal(0), "SELL": Decimal(0)})
            one = len(ids) == 1
            levels.append(
                market
                | {
                    "price": prices[row],
                    "buy_volume": float(sides["BUY"]),
                    "sell_volume": float(sides["SELL"]),
                    "tpo_count": len(ids),
                    "volume": float(sides["BUY"] + sides["SELL"]),
                    "first_touch_block": ids[0],
                    "last_touch_block": ids[-1],
                    "is_single_print": one and not in_a_tail(row, counts),
                    "is_poor_high": row == max(counts) and not one,
                    "is_poor_low": row == min(counts) and not one,
                    "is_in_progress": False,
                }
            )
    return levels, results


def random_trades(seed, *, count=200, days=70):
    """Bursts of trades of three markets around the turn of a leap year's February, in no order."""
    draw = np.random.default_rng(seed)
    opening = (datetime(2024, 1, 20, tzinfo=UTC) - EPOCH) // timedelta(microseconds=1) * 1000
    bursts = draw.integers(0, days * 1440, count // 15) * MINUTE
    milliseconds = draw.integers(0, 200 * 60_000, count)
    return pl.DataFrame(
        {
            "exchange": draw.choice(["A", "B"], count, p=[0.8, 0.2]),
            "raw_symbol": draw.choice(["X", "Y"], count, p=[0.9, 0.1]),
            "timestamp": opening + draw.choice(bursts, count) + milliseconds * 10**6,
            "sequence": draw.permutation(count),
            "side": draw.choice(["BUY", "SELL"], count),
            "price": np.round(5 + np.cumsum(draw.normal(0, 0.1, count)), 2),
            "amount": np.round(draw.exponential(1.0, count), 5),
        }
    ).sample(fraction=1, shuffle=True, seed=seed)


WAYS = [(interval.alias, None) for interval in Interval] + [("1h", session.alias) for session in TPOSession]


@pytest.mark.long
@pytest.mark.parametrize(("interval", "session"), WAYS)
@pytest.mark.parametrize("block_minutes", TPO_BLOCK_MINUTES)
def test_equals_the_plain_loop(oracle, interval, session, block_minutes):
    for seed, block_size in enumerate(["0.1", "0.03"]):
        trades = random_trades(seed)
        ways = {"interval": interval, "period": session, "block_minutes": block_minutes}
        ways["block_size"] = block_size
        got = tpo(trades, **ways).to_dicts(), tpo_sessions(trades, **ways).to_dicts()
        assert got == plain_tpo(trades.to_dicts(), oracle["row"], **ways)


@pytest.mark.long
@pytest.mark.parametrize(
    ("interval", "session", "block_minutes"),
    [("1d", None, 30), ("15m", None, 240), ("1h", "weekly", 60), ("1h", "monthly", 5)],
)
def test_equals_the_plain_loop_on_every_engine(engine, oracle, interval, session, block_minutes):
    ways = {"interval": interval, "period": session, "block_minutes": block_minutes, "block_size": "0.2"}
    trades = random_trades(7)
    got = tuple(engine.polars(make(engine.frame(trades), **ways)).to_dicts() for make in (tpo, tpo_sessions))
    assert got == plain_tpo(trades.to_dicts(), oracle["row"], **ways)


@pytest.mark.slow
@pytest.mark.parametrize("session", [None, "monthly"])
def test_order_of_the_rows_changes_nothing(session):
    trades = random_trades(3)
    ways = {"interval": "1d", "block_size": "0.1", "period": session}
    for make in (tpo, tpo_sessions):
        first = make(trades, **ways)
        for seed in range(5):
            assert make(trades.sample(fraction=1, shuffle=True, seed=seed), **ways).equals(first)


def test_touches_are_one_row_per_block_and_level(engine):
    got = engine.polars(tpo_touches(engine.frame(BY_HAND), interval="1d", block_size=1))
    got = in_columns(got, [*SESSION, "block_id", "price", "buy_volume", "sell_volume", "volume"])
    assert got.select(pl.exclude(SESSION)).rows() == [
        (0, 101.0, 1.0, 0.0, 1.0),
        (0, 102.0, 0.0, 0.0, 0.0),
        (0, 103.0, 0.0, 2.0, 2.0),
        (1, 101.0, 0.0, 0.2, 0.2),
        (1, 102.0, 0.0, 0.1, 0.1),
        (2, 103.0, 4.0, 0.0, 4.0),
        (2, 104.0, 0.0, 0.0, 0.0),
        (2, 105.0, 8.0, 0.0, 8.0),
        (3, 105.0, 0.0, 32.0, 32.0),
        (3, 106.0, 0.0, 16.0, 16.0),
        (5, 106.0, 64.0, 0.0, 64.0),
    ]


@pytest.mark.slow
@pytest.mark.parametrize("session", [None, "daily", "weekly", "monthly"])
def test_counts_are_touches_and_volume_is_conserved(session):
    trades = random_trades(11)
    ways = {"interval": "4h", "block_size": "0.1", "period": session}
    levels, sessions, touches = (make(trades, **ways) for make in (tpo, tpo_sessions, tpo_touches))
    assert levels["tpo_count"].sum() == touches.height
    per_session = levels.group_by(SESSION).agg(pl.col("tpo_count").sum()).sort(SESSION)
    assert per_session["tpo_count"].equals(sessions["total_tpo_count"], check_names=False)
    for side in ("BUY", "SELL"):
        amounts = trades.filter(side=side)["amount"].sum()
        for table in (levels, touches):
            assert table[f"{side.lower()}_volume"].sum() == pytest.approx(amounts, rel=1e-12)
    assert sessions["total_volume"].sum() == pytest.approx(trades["amount"].sum(), rel=1e-12)


@pytest.mark.parametrize("session", [None, "weekly", "monthly"])
def test_levels_counted_in_cells_are_those_that_are_grouped(session, monkeypatch):
    trades = random_trades(12)
    ways = {"interval": "4h", "block_size": "0.1", "period": session}
    in_cells = tpo(trades, **ways)
    monkeypatch.setattr(_counts, "_CELLS", 0)
    assert_frame_equal(tpo(trades, **ways), in_cells, check_exact=True)


@pytest.mark.slow
def test_a_session_with_a_wide_gap_has_levels_on_either_side_of_it(engine):
    trades = frame([(0, "BUY", 1.0, 1.0), (31, "SELL", 1e9, 2.0), (61, "SELL", 1e9, None)])
    got = engine.polars(tpo(engine.frame(trades), interval="1d", block_size="0.01"))
    found = got.select("price", "tpo_count", "buy_volume", "sell_volume").rows()
    assert found == [(1.0, 1, 1.0, 0.0), (1e9, 2, 0.0, None)]
    sessions = engine.polars(tpo_sessions(engine.frame(trades), interval="1d", block_size="0.01"))
    assert sessions.select("total_tpo_count", "total_volume").rows() == [(3, None)]


def test_the_lists_follow_from_the_flags_and_touches():
    """By the recipes of the docstrings."""
    ways = {"interval": "1d", "block_size": 1}
    row = [*SESSION, "price"]
    blocks = tpo_touches(BY_HAND, **ways).group_by(row).agg(pl.col("block_id").sort().alias("block_ids"))
    levels = tpo(BY_HAND, **ways).join(blocks, on=row).sort("price")
    assert levels["block_ids"].to_list() == [[0, 1], [0, 1], [0, 2], [2], [2, 3], [3, 5]]
    prints = levels.group_by(SESSION).agg(pl.col("price").filter("is_single_print").sort())
    assert prints["price"].to_list() == [[104.0]]


@pytest.mark.slow
def test_blocks_of_random_trades_agree_with_the_counts():
    trades, ways = random_trades(5), {"interval": "1d", "block_size": "0.1"}
    levels = tpo(trades, **ways)
    row = [*SESSION, "price"]
    blocks = (
        tpo_touches(trades, **ways)
        .group_by(row)
        .agg(pl.len().cast(pl.Int64), first=pl.col("block_id").min(), last=pl.col("block_id").max())
    )
    counts = levels.select(*row, len="tpo_count", first="first_touch_block", last="last_touch_block")
    assert blocks.sort(row).equals(counts.sort(row))


@pytest.mark.long
@pytest.mark.parametrize(
    ("counts", "single_prints", "poor_high", "poor_low"),
    [
        ([1, 2, 1, 2, 1], [3], False, False),
        ([1, 1, 2, 1, 1, 2, 1], [4, 5], False, False),
        ([2, 1, 1], [], False, True),  # a tail at the top is excess
        ([1, 1, 1], [], False, False),
        ([2, 1, 3], [2], True, True),
        ([1, 0, 2, 1], [], False, False),
        ([1, 0, 1, 0, 1], [3], False, False),  # a row that nobody touched ends a tail
        ([3], [], True, True),
    ],
)
def test_single_prints_lie_inside_and_poor_extremes_lack_a_tail(
    engine, counts, single_prints, poor_high, poor_low
):
    prices = [float(row) for row, count in enumerate(counts, start=1) for _ in range(count)]
    # Each trade in a block of its own, so that a row's trades are its count.
    trades = frame([(5 * block, "BUY", price, 1.0) for block, price in enumerate(prices)])
    ways = {"interval": "1w", "block_size": 1, "block_minutes": 5}
    got = engine.polars(tpo(engine.frame(trades), **ways))
    assert dict(got.select("price", "tpo_count").rows()) == {
        row: count for row, count in enumerate(counts, start=1) if count
    }
    assert got.filter("is_single_print")["price"].to_list() == single_prints
    assert got.filter("is_poor_high")["price"].to_list() == [float(len(counts))] * poor_high
    assert got.filter("is_poor_low")["price"].to_list() == [1.0] * poor_low


@pytest.mark.slow
def test_the_block_in_progress_is_flagged():
    def touched(minute, **ways):
        levels = tpo(BY_HAND, block_size=1, now=minute * MINUTE, **ways)
        return levels.filter("is_in_progress")["price"].to_list()

    assert touched(179, interval="1d") == [106.0]  # block 5 goes on until 180
    assert touched(180, interval="1d") == []
    assert touched(95, interval="1d") == [105.0, 106.0]
    # A block ends with its session: here the one that began at 150.
    assert touched(154, interval="5m", block_minutes=240) == [106.0]
    assert touched(155, interval="5m", block_minutes=240) == []


@pytest.mark.slow
def test_without_trades_in_its_blocks_there_is_no_initial_balance(engine):
    trades = BY_HAND.with_columns(pl.col("timestamp") + 60 * MINUTE)
    got = engine.polars(tpo_sessions(engine.frame(trades), interval="1d", block_size=1))
    assert got.select("ibr_high", "ibr_low").rows() == [(None, None)]


@pytest.mark.parametrize(("block_minutes", "high"), [(5, 3.0), (30, 3.0), (60, 3.0), (240, 5.0)])
def test_the_initial_balance_is_the_blocks_that_start_in_the_first_hour(block_minutes, high):
    rows = [(0, "BUY", 2.0, 1.0), (59.9, "BUY", 3.0, 1.0), (60, "BUY", 4.0, 1.0), (239, "BUY", 5.0, 1.0)]
    got = tpo_sessions(frame(rows), interval="1d", block_size=1, block_minutes=block_minutes)
    assert got.select("ibr_high", "ibr_low").row(0) == (high, 2.0)


@pytest.mark.slow
def test_open_and_close_are_decided_by_time_then_sequence(engine):
    rows = [(0, "BUY", 2.0, 1.0), (0, "BUY", 1.0, 1.0), (9, "BUY", 4.0, 1.0), (9, "BUY", 3.0, 1.0)]
    trades = frame(rows).with_columns(sequence=pl.Series([8, 7, 6, 5]))
    got = engine.polars(tpo_sessions(engine.frame(trades), interval="1d", block_size=1))
    assert got.select("opening_price", "closing_price").row(0) == (1.0, 4.0)


@pytest.mark.slow
def test_months_are_those_of_the_calendar():
    days = [datetime(1970, 1, 1, tzinfo=UTC) + timedelta(days=day) for day in range(365 * 131 + 40)]
    assert days[-1].year > 2100
    times = [(day - EPOCH).days * DAY + offset for day in days for offset in (0, DAY - 1)]
    firsts = [(day.replace(day=1) - EPOCH).days * DAY for day in days for _ in range(2)]
    frame = nw.from_native(pl.LazyFrame({"time": times}))
    got = _with_month_start(frame, nw.col("time"), "month").to_native().collect()
    assert got["month"].to_list() == firsts


@pytest.mark.long
@pytest.mark.parametrize(
    ("month", "days"), [("2024-02", 29), ("2023-02", 28), ("2100-02", 28), ("2023-12", 31), ("2024-04", 30)]
)
def test_a_month_ends_where_the_next_begins(engine, month, days):
    first = (datetime.fromisoformat(f"{month}-01T00:00:00+00:00") - EPOCH).days
    trades = BY_HAND.head(4).with_columns(
        timestamp=pl.Series([first * DAY - 1, first * DAY, (first + days) * DAY - 1, (first + days) * DAY])
    )
    ways = {"interval": "1d", "period": "monthly", "block_size": 1}
    got = engine.polars(tpo_touches(engine.frame(trades), **ways))
    blocks = got.group_by("timestamp").agg(pl.col("block_id").unique().sort()).sort("timestamp")
    assert blocks.rows()[1] == (first * DAY, [0, days * 48 - 1])
    assert blocks["timestamp"][2] == (first + days) * DAY
    periods = engine.polars(tpo_sessions(engine.frame(trades), **ways)).sort("timestamp")
    assert periods["period_end"][1] == (first + days) * DAY


@pytest.mark.slow
@pytest.mark.parametrize("rows", [1, 2, 32, 33, 1024, 1025, 32_769])
def test_every_row_between_is_touched(engine, rows):
    trades = frame([(0, "BUY", 7.0, 1.0), (1, "SELL", 6.0 + rows, 2.0)])
    got = engine.polars(tpo_touches(engine.frame(trades), interval="1d", block_size=1))
    assert got["price"].to_list() == [7.0 + row for row in range(rows)]
    assert got["volume"].sum() == 3.0


@pytest.mark.slow
def test_a_block_has_at_most_2_to_the_20_rows():
    def touches(rows, kind=pl.DataFrame.lazy):
        trades = frame([(0, "BUY", 1.0, 1.0), (1, "SELL", float(rows), 2.0)])
        return tpo_touches(kind(trades), interval="1d", block_size=1)

    assert touches(2**20).select(pl.len()).collect().item() == 2**20
    for eager in (pl.DataFrame.clone, pl.DataFrame.to_pandas, pl.DataFrame.to_arrow):
        with pytest.raises(QueryError, match=r"block_size: got '1', .* 1,048,576 rows; one has 1,048,577"):
            touches(2**20 + 1, eager)
    for rows in (2**20 + 1, 10**15):  # a lazy frame is not read before its engine computes
        with pytest.raises(pl.exceptions.InvalidOperationError):
            touches(rows).collect()


@pytest.mark.slow
def test_duckdb_refuses_more_rows_too():
    import duckdb

    trades = frame([(0, "BUY", 1.0, 1.0), (1, "SELL", 2.0**20 + 1, 2.0)])
    relation = duckdb.connect().from_arrow(trades.to_arrow())
    with pytest.raises(duckdb.ConversionException):
        tpo_touches(relation, interval="1d", block_size=1).pl()


@pytest.mark.slow
def test_names_aliases_and_members_are_one():
    trades = random_trades(1)
    expected = tpo(trades, interval="1h", block_size=1, period="weekly")
    for session in ("TPO_SESSION_WEEKLY", TPOSession.WEEKLY):
        assert tpo(trades, interval="HOUR", block_size="1.0", period=session).equals(expected)


@each_row(
    ("wrong", "message"),
    [
        ({"interval": "2m"}, "interval: got '2m'"),
        (
            {"session": "weakly"},
            "session: got 'weakly', expected a Session, or .* weekly, monthly; .* 'weekly'",
        ),
        ({"period": "weakly"}, "period: got 'weakly', expected one of daily, weekly, monthly; .* 'weekly'"),
        ({"block_minutes": 15}, "block_minutes: got 15, expected one of 5, 30, 60, 240"),
        ({"block_size": 0}, "block_size: got 0, expected a positive finite number"),
    ],
)
@each_row("function", [tpo, tpo_touches])
def test_a_wrong_argument_is_named(function, wrong, message):
    with pytest.raises(QueryError, match=message):
        function(BY_HAND, **{"interval": "1d", "block_size": 1} | wrong)


@pytest.mark.parametrize("function", [tpo, tpo_touches])
def test_missing_columns_are_named(function):
    with pytest.raises(MissingColumnError) as caught:
        function(BY_HAND.drop("side", "amount"), interval="1d", block_size=1)
    assert caught.value.missing == ("side", "amount")


@pytest.mark.slow
def test_recorded_trades(recorded, tmp_path, oracle):
    from ingested import ingest

    lake = empty_lake(tmp_path / "lake")
    ingest(recorded / "binance-spot_ws_btcusdt_20240808.gz", lake, layout="binance-ws", exchange="BINANCE")
    trades = lake.scan("trades", exchange="BINANCE", raw_symbol="BTCUSDT")
    ways = {"interval": "1d", "block_size": "0.5", "block_minutes": 5}
    got, sessions = tpo(trades, **ways).collect(), tpo_sessions(trades, **ways).collect()
    rows = trades.select(
        "exchange", "raw_symbol", "timestamp", "sequence", "side", "price", "amount"
    ).collect()
    expected = plain_tpo(rows.to_dicts(), oracle["row"], **ways)
    assert (got.to_dicts(), sessions.to_dicts()) == expected
    # 2024-08-08 23:54 to midnight, and a few trades of the next day.
    assert got["timestamp"].unique().sort().to_list() == [19_943 * DAY, 19_944 * DAY]
    last_blocks = got.filter(timestamp=19_943 * DAY).select("first_touch_block", "last_touch_block")
    assert (last_blocks.min().row(0)[0], last_blocks.max().row(0)[1]) == (286, 287)
    days = candles(trades, interval="1d").collect()
    assert sessions.select(open="opening_price", close="closing_price", volume="total_volume").equals(
        days.select("open", "close", "volume")
    )
