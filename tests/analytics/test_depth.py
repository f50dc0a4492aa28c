"""Coarser grids, depth near the mid, slippage and walls; numbers by hand."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from tables import each_row
from tidytape import Client
from tidytape.analytics import depth
from tidytape.errors import MissingColumnError, QueryError
from tidytape.schema import schema_of

START = datetime(2024, 8, 8, tzinfo=UTC)
NAN = float("nan")


def book(*rows, **whose):
    """Return a frame of (minute, side, price, size) rows."""
    schema = {"minute": pl.Int64, "side": pl.String, "price": pl.Float64, "size": pl.Float64}
    frame = pl.DataFrame(rows, schema=schema, orient="row")
    time = [START + timedelta(minutes=minute) for minute in frame["minute"]]
    return frame.drop("minute").with_columns(
        pl.Series("timestamp", time, pl.Datetime("ns", "UTC")),
        **{name: pl.lit(value) for name, value in whose.items()},
    )


ROWS = (
    (0, "BID", 98.0, 4.0),
    (0, "BID", 99.0, 3.0),
    (0, "BID", 99.9, 1.0),
    (0, "ASK", 100.1, 2.0),
    (0, "ASK", 101.0, 5.0),
    (0, "ASK", 103.0, 6.0),
)


def test_depth_is_summed_on_both_ends_of_the_band():
    near = depth.depth_within(book(*ROWS), bps=[10, 100, 150, 300])
    assert near.columns == [
        *("timestamp", "bps", "bid_covered", "ask_covered", "is_crossed", "mid", "bid_depth", "ask_depth"),
    ]
    assert near["mid"].to_list() == [100.0] * 4
    assert near["bid_depth"].to_list() == [1.0, 4.0, 4.0, 8.0]
    assert near["ask_depth"].to_list() == [2.0, 7.0, 7.0, 13.0]


def test_a_band_that_the_book_sent_does_not_reach_says_so():
    near = depth.depth_within(book(*ROWS), bps=[200, 201, 300, 301])
    assert near["bid_covered"].to_list() == [True, False, False, False]
    assert near["ask_covered"].to_list() == [True, True, True, False]


def test_blocks_count_at_their_middle():
    rows = [(0, "BID", 99.0, 1.0), (0, "BID", 98.0, 5.0), (0, "ASK", 101.0, 2.0)]
    near = depth.depth_within(book(*rows), bps=150, block_size=1)
    assert near["mid"].item() == 100.5
    assert near["bid_depth"].item() == 1.0  # 99.5 is 99.5 bps away, 98.5 is 199


def test_imbalance_is_signed_towards_bids():
    found = depth.imbalance(book(*ROWS), bps=[10, 100])
    assert found["imbalance"].to_list() == [(1 - 2) / 3, (4 - 7) / 11]


@pytest.mark.parametrize(
    "row",
    [
        (0, "BID", 97.0, None),
        (0, "BID", None, 1.0),
        (0, "ASK", NAN, 1.0),
        (0, None, 97.0, 1.0),
        (0, "BID", 97.0, -1.0),
    ],
)
def test_a_book_that_is_not_known_has_no_numbers(row):
    frame = book(*ROWS, row, *((1, *rest) for _, *rest in ROWS))
    near = depth.imbalance(frame, bps=10)
    assert near["mid"].to_list() == [None, 100.0]
    assert near["bid_depth"].to_list() == [None, 1.0]
    assert near["bid_covered"].to_list() == [None, True]
    cost = depth.slippage(frame, size=1).filter(side="BUY")
    assert cost.select("filled", "unfilled", "average_price", "slippage").row(0) == (None,) * 4
    assert cost["filled"].to_list() == [None, 1.0]


def test_one_side_alone_has_no_mid_but_a_price_to_trade_at():
    frame = book((0, "ASK", 100.0, 2.0), (0, "BID", 99.0, 0.0))
    assert depth.imbalance(frame).select("mid", "bid_depth", "imbalance").row(0) == (None, None, None)
    buy, sell = depth.slippage(frame, size=1).iter_rows(named=True)
    assert (buy["average_price"], buy["worst_price"], buy["slippage"]) == (100.0, 100.0, None)
    assert (sell["filled"], sell["unfilled"], sell["average_price"]) == (0.0, 1.0, None)


def test_a_book_whose_bids_lie_above_its_asks_says_so():
    frame = book(
        *((0, "BID", 101.0, 1.0), (0, "ASK", 99.0, 1.0)),
        *((1, "BID", 100.0, 1.0), (1, "ASK", 100.0, 1.0)),  # a block may hold both
        *((2, "BID", 101.0, 0.0), (2, "BID", 98.0, 1.0), (2, "ASK", 99.0, 1.0)),
        *((3, "BID", 101.0, 1.0), (4, "BID", 101.0, 1.0), (4, "ASK", 99.0, None)),
    )
    expected = [True, False, False, None, None]
    assert depth.imbalance(frame)["is_crossed"].to_list() == expected
    buys = depth.slippage(frame, size=1).filter(side="BUY")
    assert buys["is_crossed"].to_list() == expected
    assert buys["slippage"].to_list()[:2] == [-100.0, None]
    assert depth.depth_within(frame, block_size="0.1")["is_crossed"].to_list() == expected


@pytest.mark.slow
@pytest.mark.parametrize("given", [{}, {"block_size": 100}])
def test_what_a_trade_costs_inside_the_one_block_of_both_sides_is_not_known(given):
    """Bids up to 59,990 and asks from 60,010 are one block of 100, from 59,950 say: it holds no spread."""
    rows = [("BID", 59_900.0, 5.0), ("BID", 60_000.0, 2.0), ("ASK", 60_000.0, 3.0), ("ASK", 60_100.0, 4.0)]
    curve = depth.slippage(book(*((0, *row) for row in rows)), size=[1, 2, 3, 4], **given)
    buys, sells = (curve.filter(side=side) for side in ("BUY", "SELL"))
    assert curve["shares_block"].all()
    assert buys["slippage"].is_null().to_list() == [True, True, True, False]
    assert sells["slippage"].is_null().to_list() == [True, True, False, False]
    middle = 60_000 + given.get("block_size", 0) / 2
    assert buys["slippage"][3] == pytest.approx((middle + 25) / middle * 1e4 - 1e4)
    assert buys["average_price"].to_list() == [middle, middle, middle, middle + 25]
    apart = depth.slippage(book(*((0, *row) for row in (rows[0], rows[2]))), size=1, **given)
    assert apart["shares_block"].to_list() == [False, False]
    assert (apart["slippage"] > 0).all()
    one_side = depth.slippage(book((0, *rows[0])), size=1)
    assert one_side["shares_block"].to_list() == [None, None]


@pytest.mark.slow
def test_sizes_that_count_something_else_have_no_slippage():
    """A book of 200,000 USD is none of 200,000 bitcoin: a size of 1 was filled at the best price for nothing."""
    usd = book((0, "BID", 59_990.0, 2e5), (0, "ASK", 60_010.0, 2e5)).with_columns(amount_unit=pl.lit("USD"))
    with pytest.raises(QueryError, match=r"amount_unit USD.*amount='quote'") as caught:
        depth.slippage(usd, size=1)
    assert caught.value.parameter == "amount"
    assert depth.slippage(usd.lazy(), size=1).collect()["filled"].to_list() == [None, None]
    assert depth.slippage(usd, size=1e5, amount="quote")["filled"].to_list() == [1e5, 1e5]
    for unit in ("COIN", None):
        known = usd.with_columns(amount_unit=pl.lit(unit, pl.String))
        assert depth.slippage(known, size=1)["filled"].to_list() == [1.0, 1.0]
    with pytest.raises(QueryError, match="amount_unit COIN"):
        depth.slippage(usd.with_columns(amount_unit=pl.lit("COIN")), size=1, amount="quote")
    empty = depth.slippage(usd.clear(), size=1)
    assert empty.schema == depth.slippage(known, size=1).schema


@pytest.mark.slow
def test_the_height_of_blocks_comes_from_the_frame():
    frame = book(*ROWS).with_columns(block_size=pl.lit(0.5))
    for read in (lambda *args, **rest: depth.slippage(*args, size=[1, 4], **rest), depth.imbalance):
        expected = read(book(*ROWS), block_size=0.5)
        assert_frame_equal(read(frame), expected)
        assert_frame_equal(read(frame, block_size="0.5"), expected)
        unknown = frame.with_columns(block_size=pl.lit(None, pl.Float64))
        assert_frame_equal(read(unknown), read(book(*ROWS)))


def test_depth_nearer_than_half_a_block_is_not_known():
    rows = [(0, "BID", 9_900.0, 5.0), (0, "BID", 9_800.0, 7.0), (0, "ASK", 10_000.0, 3.0)]
    near = depth.imbalance(book(*rows), bps=[1, 49, 50, 150], block_size=100)
    assert near["mid"].to_list() == [10_000.0] * 4
    assert near["bid_depth"].to_list() == [None, None, 5.0, 12.0]
    assert near["ask_depth"].to_list() == [None, None, 3.0, 3.0]
    assert near["imbalance"].to_list() == [None, None, 2 / 8, 9 / 15]
    # Without a height the price is all that is known of a level.
    assert depth.depth_within(book(*rows), bps=1)["bid_depth"].to_list() == [0.0]


def test_slippage_walks_the_book():
    curve = depth.slippage(book(*ROWS), size=[2, 4, 13, 14])
    buys = curve.filter(side="BUY")
    assert buys["average_price"].to_list()[:3] == [100.1, 100.55, pytest.approx((200.2 + 505 + 618) / 13)]
    assert buys["worst_price"].to_list() == [100.1, 101.0, 103.0, None]
    assert buys["slippage"].to_list()[:2] == [pytest.approx(10.0), pytest.approx(55.0)]
    assert buys.row(3, named=True)["filled"] == 13.0
    assert buys["unfilled"].to_list() == [0, 0, 0, 1.0]
    assert buys.select("average_price", "worst_price", "slippage").row(3) == (None, None, None)
    sells = curve.filter(side="SELL")
    assert sells["average_price"].to_list()[:2] == [(99.9 + 99.0) / 2, (99.9 + 3 * 99.0) / 4]
    assert sells["slippage"][0] == pytest.approx(55.0)
    assert sells["unfilled"].to_list() == [0, 0, 5, 6]


def test_sizes_in_quote_buy_fewer_coins_as_the_price_rises():
    frame = book((0, "ASK", 100.0, 1000.0), (0, "ASK", 125.0, 1000.0), (0, "BID", 75.0, 1.0))
    (cost,) = depth.slippage(frame, size=2000, amount="quote").filter(side="BUY").iter_rows(named=True)
    assert cost["average_price"] == pytest.approx(2000 / 18)  # 10 coins and 8
    assert (cost["mid"], cost["filled"]) == (87.5, 2000.0)


def test_a_size_that_is_just_there_is_filled():
    frame = book(
        (0, "ASK", 100.0, 0.1), (0, "ASK", 101.0, 0.2), (0, "ASK", 102.0, 5.0), (0, "BID", 99.0, 0.7)
    )
    buy = depth.slippage(frame, size=0.3).row(0, named=True)
    assert (buy["worst_price"], buy["unfilled"]) == (101.0, 0.0)  # 0.1 + 0.2 is more than 0.3 in floats
    frame = frame.filter(pl.col("price") < 102)
    assert depth.slippage(frame, size=0.3)["unfilled"].to_list() == [0.0, 0.0]


def test_walls_are_runs_of_snapshots():
    sizes = {0: 50.0, 1: 60.0, 2: 1.0, 3: 70.0, 4: 80.0, 5: 90.0}
    rows = [(minute, "BID", 99.0, size) for minute, size in sizes.items()]
    found = depth.walls(book(*rows, (2, "ASK", 100.0, 99.0)), threshold=50, snapshots=2)
    assert found.select(
        "side", "price", "snapshots", "size_min", "size_mean", "size_max", "is_standing"
    ).rows() == [
        ("BID", 99.0, 2, 50.0, 55.0, 60.0, False),
        ("BID", 99.0, 3, 70.0, 80.0, 90.0, True),
    ]
    assert found["first_timestamp"].to_list() == [START, START + timedelta(minutes=3)]
    assert found["last_timestamp"].to_list() == [START + timedelta(minutes=1), START + timedelta(minutes=5)]
    assert found.schema["first_timestamp"] == pl.Datetime("ns", "UTC")


def test_a_snapshot_without_the_price_ends_a_wall():
    rows = [(0, "BID", 99.0, 9.0), (1, "BID", 98.0, 9.0), (2, "BID", 99.0, 9.0)]
    assert depth.walls(book(*rows), threshold=5, snapshots=2).is_empty()
    assert len(depth.walls(book(*rows), threshold=5, snapshots=1)) == 3


def test_walls_can_be_asked_to_last_and_not_to_bridge_gaps():
    rows = [(minute, "ASK", 99.0, 9.0) for minute in (0, 1, 2, 30, 31)]
    ends = {
        gap: depth.walls(book(*rows), threshold=9, max_gap=gap, snapshots=2)["snapshots"].to_list()
        for gap in (None, timedelta(minutes=5), timedelta(minutes=28))
    }
    assert list(ends.values()) == [[5], [3, 2], [5]]
    lasting = depth.walls(
        book(*rows), threshold=9, snapshots=1, duration=timedelta(minutes=2), max_gap=timedelta(minutes=5)
    )
    assert lasting["snapshots"].to_list() == [3]


def test_the_gap_between_snapshots_is_measured_to_the_nanosecond(engine):
    later = START + timedelta(milliseconds=2)
    frame = book((0, "BID", 99.0, 9.0), (1, "BID", 99.0, 9.0)).with_columns(
        timestamp=pl.Series([START, later], dtype=pl.Datetime("ns", "UTC"))
    )
    for gap, found in ((timedelta(milliseconds=2), 1), (timedelta(milliseconds=2, microseconds=-1), 0)):
        walls = depth.walls(engine.frame(frame), threshold=9, snapshots=2, max_gap=gap)
        assert len(engine.polars(walls)) == found


@pytest.mark.parametrize("name", ["at", "known", "number", "place", "run"])
def test_walls_of_series_of_any_name(name):
    rows = [(minute, "BID", 99.0, 9.0) for minute in (0, 1, 2)]
    found = depth.walls(book(*rows, **{name: 1}), threshold=5, by=name, max_gap=timedelta(hours=1))
    assert found.select(name, "snapshots").rows() == [(1, 3)]


def test_unknown_sizes_end_a_wall():
    rows = [(0, "BID", 99.0, 9.0), (1, "BID", 99.0, None), (2, "BID", 99.0, 9.0)]
    assert depth.walls(book(*rows), threshold=5, snapshots=1)["snapshots"].to_list() == [1, 1]


KNOWN = ["is_start_known", "is_end_known"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("side", "inner", "outer"), [("BID", 99.0, 98.0), ("ASK", 99.0, 100.0)], ids=["bids", "asks"]
)
def test_a_wall_that_comes_into_sight_may_have_stood_before(engine, side, inner, outer):
    def ends(*rows):
        walls = depth.walls(engine.frame(book(*rows)), threshold=5, snapshots=2)
        return engine.polars(walls).select("price", *KNOWN).rows()

    wall = [(1, side, outer, 9.0), (2, side, outer, 9.0)]
    beyond = [(0, side, inner, 1.0), (3, side, inner, 1.0)]
    shown = [(0, side, outer, 1.0), (3, side, outer, 1.0)]
    assert ends(*wall) == [(outer, False, False)]
    assert ends(*wall, *beyond) == [(outer, False, False)]
    assert ends(*wall, *shown) == [(outer, True, True)]
    assert ends(*wall, beyond[0], shown[1]) == [(outer, False, True)]
    # Inside of the best price, and within the range of the side, no row means no orders.
    inside = [(1, side, inner, 9.0), (2, side, inner, 9.0)]
    assert ends(*inside, *shown) == [(inner, True, True)]
    # A side without a row shows nothing.
    other = "ASK" if side == "BID" else "BID"
    assert ends(*wall, (0, other, outer, 1.0), (3, other, outer, 1.0)) == [(outer, False, False)]


def test_an_unknown_size_or_a_gap_beside_a_wall_does_not_tell_whether_it_was_there():
    wall = [(1, "BID", 99.0, 9.0), (2, "BID", 99.0, 9.0)]
    unknown = [(0, "BID", 99.0, None), (0, "BID", 98.0, 1.0), (3, "BID", 99.0, NAN), (3, "BID", 98.0, 1.0)]
    assert depth.walls(book(*wall, *unknown), threshold=5, snapshots=2).select(KNOWN).rows() == [
        (False, False)
    ]
    empty = [(0, "BID", 98.0, 1.0), (9, "BID", 98.0, 1.0)]
    for gap, known in ((timedelta(minutes=7), (True, True)), (timedelta(minutes=6), (True, False))):
        found = depth.walls(book(*wall, *empty), threshold=5, snapshots=2, max_gap=gap)
        assert found.select(KNOWN).rows() == [known]


def test_regrid_takes_the_last_book_of_an_interval_or_the_mean():
    rows = [(0, "BID", 99.0, 3.0), (1, "BID", 99.0, 1.0), (1, "BID", 99.5, 4.0), (5, "BID", 98.0, 2.0)]
    frame = book(*rows, interval="MINUTE")
    last = depth.regrid(frame, interval="5m")
    assert last.select("interval", "price", "size", "time_rule").rows() == [
        ("5m", 99.0, 1.0, "last"),
        ("5m", 99.5, 4.0, "last"),
        ("5m", 98.0, 2.0, "last"),
    ]
    assert last["timestamp"].to_list() == [START, START, START + timedelta(minutes=5)]
    mean = depth.regrid(frame, interval="5m", time="mean", block_size=1)
    assert mean.select("price", "size").rows() == [(99.0, 4.0), (98.0, 2.0)]


def test_regrid_keeps_decimals_on_their_rows_and_sums_exact():
    rows = [(0, "ASK", price, 0.1) for price in (0.1, 0.2, 0.3, 0.4, 0.5)]
    found = depth.regrid(book(*rows), block_size="0.3")
    assert found.select("price", "size").rows() == [(0.0, 0.2), (0.3, 0.3)]


def test_regridded_liquidations_are_summed_over_time():
    frame = book((0, "BID", 100.0, 1.0), (59, "BID", 100.0, 2.0), (60, "BID", 100.0, 4.0))
    frame = frame.drop("side").rename({"size": "liquidations"})
    found = depth.regrid(frame, interval="1h")
    assert found.select("price", "liquidations", "time_rule").rows() == [
        (100.0, 3.0, "sum"),
        (100.0, 4.0, "sum"),
    ]


def test_regrid_keeps_what_is_not_known_apart():
    rows = [(0, "BID", 99.0, None), (0, "BID", 99.5, 1.0), (0, "BID", None, 2.0), (0, "BID", NAN, 3.0)]
    found = depth.regrid(book(*rows), block_size=1)
    assert sorted(found.select("price", "size").rows(), key=str) == [(99.0, None), (None, 5.0)]


@pytest.mark.parametrize("interval", [None, "5m"])
def test_regrid_of_prices_that_are_none(engine, interval):
    prices = [0.25, None, NAN, float("inf"), float("-inf"), 1e300, 1.7e308, 0.2]
    frame = pl.DataFrame(
        {
            "interval": pl.Series(["1m"] * 8, dtype=pl.Enum(["1m"])),
            "timestamp": [START] * 8,
            "side": ["BID"] * 8,
            "price": prices,
            "size": [1.0] * 8,
        },
        schema_overrides={"timestamp": pl.Datetime("us", "UTC")},
    )
    got = engine.polars(depth.regrid(engine.frame(frame), block_size="0.1", interval=interval))
    got = got.with_columns(pl.col("price").fill_nan(None)).sort("price")
    # One beyond 2**53 rows has no row either.
    assert got["price"].to_list() == [None, 0.2]
    assert got["size"].to_list() == [6.0, 2.0]
    assert set(got["interval"].cast(pl.String)) == {"5m" if interval else "1m"}


@pytest.mark.slow
def test_frames_of_the_client_go_through():
    client = Client.demo()
    day = {"interval": "1h", "start": "2024-08-08", "end": "2024-08-09"}
    frame = client.book_heatmap(exchange="DEMO_PERP", raw_symbol="BTC-PERP", block_size=20, **day)
    coarse = depth.regrid(frame, interval="4h", block_size=100)
    key = schema_of("BLOCK_BOOK_SNAPSHOT_AGG").key
    assert coarse.select(key).is_unique().all()
    assert coarse["interval"].unique().to_list() == ["4h"]
    assert coarse.schema["interval"] == frame.schema["interval"]
    near = depth.imbalance(frame, bps=[25, 100], block_size=20)
    assert len(near) == 2 * frame["timestamp"].n_unique()
    assert near["imbalance"].is_between(-1, 1).all()
    curve = depth.slippage(frame, size=[1, 10], block_size=20)
    assert (curve["slippage"].drop_nulls() > 0).all()
    assert curve["slippage"].null_count() > 0  # in a block that has both sides
    assert len(depth.walls(frame, threshold=frame["size"].median(), snapshots=2))


@each_row(
    ("function", "arguments", "named"),
    [
        ("depth_within", {"bps": 0}, "bps"),
        ("depth_within", {"bps": []}, "bps"),
        ("depth_within", {"bps": [1, 1]}, "bps"),
        ("depth_within", {"by": "mid"}, "by"),
        ("imbalance", {"block_size": -1}, "block_size"),
        ("slippage", {"size": -1}, "size"),
        ("slippage", {"size": 1, "amount": "usd"}, "amount"),
        ("walls", {"threshold": 0}, "threshold"),
        ("walls", {"threshold": 1, "snapshots": 0}, "snapshots"),
        ("walls", {"threshold": 1, "duration": 5}, "duration"),
        ("walls", {"threshold": 1, "duration": "5"}, "duration"),
        ("walls", {"threshold": 1, "max_gap": "long"}, "max_gap"),
        ("walls", {"threshold": 1, "max_gap": timedelta(-1)}, "max_gap"),
        ("regrid", {"time": "first"}, "time"),
        ("regrid", {"interval": "2x"}, "interval"),
        ("regrid", {"block_size": "wide"}, "block_size"),
    ],
)
def test_arguments_are_checked_before_any_row(function, arguments, named):
    with pytest.raises(QueryError) as caught:
        getattr(depth, function)(book(*ROWS).lazy(), **arguments)
    assert caught.value.parameter == named


@pytest.mark.parametrize("missing", ["timestamp", "side", "price", "size"])
def test_missing_columns_are_named(missing):
    for call in (
        depth.depth_within,
        lambda frame: depth.slippage(frame, size=1),
        lambda frame: depth.walls(frame, threshold=1),
        depth.regrid,
    ):
        with pytest.raises(MissingColumnError, match=missing):
            call(book(*ROWS).drop(missing))


@pytest.mark.parametrize(("interval", "size"), [("30m", None), ("1h", 1.0), ("4h", 1.0), ("1d", 1.0)])
def test_regrid_does_not_make_a_coarse_book_finer(interval, size):
    frame = book((0, "BID", 99.0, 1.0)).with_columns(interval=pl.lit("HOUR"))
    assert depth.regrid(frame, interval=interval)["size"].to_list() == [size]
