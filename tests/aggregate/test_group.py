"""Grouping: literal values on every engine, two recorded venues against pandas, and what is refused."""

from __future__ import annotations

import zipfile

import duckdb
import pandas as pd
import polars as pl
import pytest

from tables import in_columns
from tidytape.aggregate import candles, group, resample, volume_profile
from tidytape.errors import MissingColumnError, QueryError

MINUTE = 60 * 10**9
HOUR = 60 * MINUTE
AGNOSTIC = "TRADE_SIDE_AGNOSTIC_AGG"
RATES = [f"{which}_{name}" for which in ("rate", "predicted") for name in ("open", "high", "low", "close")]


def both(engine, *frames):
    """Frames of one engine that know each other."""
    if engine.name != "duckdb":
        return [engine.frame(frame) for frame in frames]
    connection = duckdb.connect()
    return [connection.from_arrow(frame.to_arrow()) for frame in frames]


def members(**columns) -> pl.DataFrame:
    return pl.DataFrame({"exchange": ["A", "B", "A"], "raw_symbol": ["X", "Y", "Z"], **columns})


CANDLES = members(
    coin=["BTC", "BTC", "BTC"],
    normalized_symbol=["BTC-USDT", "BTC-USD", "BTC-USDT"],
    category=["SPOT", None, "SPOT"],
    interval=["1m"] * 3,
    timestamp=[0, 0, 0],
    open=[10.0, 11.0, 12.0],
    high=[13.0, 14.0, 12.0],
    low=[9.0, 11.0, 8.0],
    close=[10.5, 11.5, 12.5],
    volume=[0.1, 0.2, 0.3],
    first_timestamp=[5, 4, 6],
    last_timestamp=[50, 40, 30],
)


def test_candles_open_with_the_first_member_and_close_with_the_last(engine):
    got = engine.polars(group(engine.frame(CANDLES), data_type=AGNOSTIC))
    assert got.to_dicts() == [
        {
            "normalized_symbol": None,  # they do not agree
            "coin": "BTC",
            "category": "SPOT",  # they do, as far as they say
            "interval": "1m",
            "timestamp": 0,
            "open": 11.0,
            "high": 14.0,
            "low": 8.0,
            "close": 10.5,
            "volume": 0.6,
            "first_timestamp": 4,
            "last_timestamp": 50,
            "coverage": 1.0,
        }
    ]


def test_members_that_traded_at_once_are_ordered_by_venue_and_symbol(engine):
    tied = CANDLES.with_columns(first_timestamp=pl.lit(4), last_timestamp=pl.lit(50))
    got = engine.polars(group(engine.frame(tied), data_type=AGNOSTIC))
    assert got.select("open", "close").rows() == [(10.0, 11.5)]  # (A, X) and (B, Y)


@pytest.mark.slow
def test_the_open_of_members_whose_first_trade_is_not_known_is_not_known(engine):
    recorded = CANDLES.with_columns(
        first_timestamp=pl.Series([5, None, 6], dtype=pl.Int64),
        last_timestamp=pl.Series([50, 40, None], dtype=pl.Int64),
    )
    names = ["open", "high", "low", "close", "volume", "first_timestamp", "last_timestamp"]
    got = engine.polars(group(engine.frame(recorded), data_type=AGNOSTIC))
    assert got.select(names).rows() == [(None, 14.0, 8.0, None, 0.6, None, None)]
    alone = engine.polars(group(engine.frame(recorded[1:2]), data_type=AGNOSTIC))
    assert alone.select(names).rows() == [(11.0, 14.0, 11.0, 11.5, 0.2, None, 40)]


@pytest.mark.slow
def test_a_filled_gap_counts_where_no_member_traded(engine):
    times = {
        name: pl.Series([None, 4, None], dtype=pl.Int64) for name in ("first_timestamp", "last_timestamp")
    }
    idle = CANDLES.with_columns(**times, volume=pl.Series([0.0, 0.2, 0.0]))
    flat = pl.col("exchange") == "A"
    fills = idle.with_columns(
        pl.when(flat).then(12.5).otherwise(pl.col(name)).alias(name)
        for name in ("open", "high", "low", "close")
    )
    got = engine.polars(group(engine.frame(fills), data_type=AGNOSTIC))
    assert got.select("open", "high", "low", "close").rows() == [(11.0, 14.0, 11.0, 11.5)]
    # A candle without volume whose price moved is no fill, and nobody knows when it was first traded.
    got = engine.polars(group(engine.frame(idle), data_type=AGNOSTIC))
    assert got.select("open", "high", "low", "close").rows() == [(None, 14.0, 8.0, None)]


def test_each_coin_and_each_side_is_a_series(engine):
    points = pl.concat(
        CANDLES.with_columns(coin=pl.Series(["BTC", "ETH", "BTC"]), side=pl.lit(side))
        for side in ("BUY", "SELL")
    )
    got = engine.polars(group(engine.frame(points), data_type="TRADE_AGG"))
    assert got.select("coin", "side", "normalized_symbol", "volume").rows() == [
        ("BTC", "BUY", "BTC-USDT", 0.4),
        ("BTC", "SELL", "BTC-USDT", 0.4),
        ("ETH", "BUY", "BTC-USD", 0.2),
        ("ETH", "SELL", "BTC-USD", 0.2),
    ]


def test_without_a_coin_all_are_one_series(engine):
    bare = CANDLES.drop("coin", "normalized_symbol", "category", "interval")
    got = engine.polars(group(engine.frame(bare), data_type=AGNOSTIC))
    assert got.columns[0] == "timestamp"
    assert got.height == 1


def test_levels_of_one_price_are_summed(engine, trades):
    points = volume_profile(trades, interval="1d", block_size="1")
    got = engine.polars(group(engine.frame(points), data_type="VOLUME_PROFILE_AGG"))
    whole = trades.with_columns(exchange=pl.lit("A"), raw_symbol=pl.lit("X"))
    expected = volume_profile(whole, interval="1d", block_size="1").drop("exchange", "raw_symbol")
    expected = expected.with_columns(coverage=pl.lit(1.0))
    assert in_columns(got, expected.columns).rows() == expected.rows()


def test_books_are_summed_by_side_and_price(engine):
    book = members(timestamp=[0] * 3, side=["BID", "BID", "ASK"], price=[9.0, 9.0, 9.0], size=[0.1, 0.2, 4.0])
    got = engine.polars(group(engine.frame(book), data_type="BLOCK_BOOK_SNAPSHOT_AGG"))
    assert got.select("side", "price", "size").rows() == [("ASK", 9.0, 4.0), ("BID", 9.0, 0.3)]


def test_liquidations_are_summed_by_side(engine):
    points = members(timestamp=[0] * 3, side=["BUY", "BUY", "SELL"], liquidations=[0.1, 0.2, 5.0])
    got = engine.polars(group(engine.frame(points), data_type="LIQUIDATION_AGG"))
    assert got.select("side", "timestamp", "liquidations").rows() == [("BUY", 0, 0.3), ("SELL", 0, 5.0)]


def stock(rows) -> pl.DataFrame:
    columns = ["exchange", "raw_symbol", "timestamp", "open", "high", "low", "close"]
    return pl.DataFrame(rows, schema=columns, orient="row").with_columns(pl.col("timestamp") * HOUR)


def test_a_stock_carries_for_a_day(engine):
    points = stock(
        [
            ("A", "X", 0, 1.0, 4.0, 0.5, 2.0),
            ("A", "X", 48, 8.0, 8.0, 8.0, 8.0),
            ("B", "X", 24, None, 10.0, None, 5.0),  # its open and low count as its close
            ("B", "X", 25, 6.0, 6.0, 6.0, 6.0),
            ("B", "X", 49, 7.0, 7.0, 7.0, None),  # a report that does not say how much
            ("B", "X", 74, 7.0, 7.0, 7.0, 7.0),
        ]
    )
    got = engine.polars(group(engine.frame(points), data_type="OPEN_INTEREST_AGG"))
    got = got.select(pl.col("timestamp") // HOUR, "open", "high", "low", "close", "coverage")
    assert got.rows() == [
        (0, 1.0, 4.0, 0.5, 2.0, 1.0),
        (24, 7.0, 12.0, 7.0, 7.0, 1.0),  # the 2 of A is just a day old
        (25, 6.0, 6.0, 6.0, 6.0, 1.0),  # and now it is older
        (48, 14.0, 14.0, 14.0, 14.0, 1.0),  # while B's is 23 hours old
        (49, None, None, None, None, 0.5),  # of the two that stand, one is known
        (74, 7.0, 7.0, 7.0, 7.0, 1.0),  # A's has lapsed
    ]


def test_a_stock_is_unknown_until_the_member_reports_again(engine):
    points = stock(
        [
            ("A", "X", 0, *[None] * 4),
            *(("B", "X", hour, *[1.0] * 4) for hour in range(3)),
            ("A", "X", 2, *[4.0] * 4),
        ]
    )
    got = engine.polars(group(engine.frame(points), data_type="OPEN_INTEREST_AGG"))
    assert got.select("close", "coverage").rows() == [(None, 0.5), (None, 0.5), (5.0, 1.0)]


@pytest.mark.parametrize("unknown", [None, float("nan")])
def test_a_sum_with_an_unknown_member_is_unknown(engine, unknown):
    volumes = pl.Series([0.1, unknown, 0.3], dtype=pl.Float64, strict=False)
    got = engine.polars(group(engine.frame(CANDLES.with_columns(volume=volumes)), data_type=AGNOSTIC))
    assert got.select("open", "high", "low", "close").rows() == [(11.0, 14.0, 8.0, 10.5)]
    assert got.select("volume", "coverage").rows() == [(None, pytest.approx(2 / 3))]
    sides = members(timestamp=[0] * 3, side=["BUY", "BUY", "SELL"], liquidations=volumes)
    got = engine.polars(group(engine.frame(sides), data_type="LIQUIDATION_AGG"))
    assert got.select("side", "liquidations", "coverage").rows() == [("BUY", None, 0.5), ("SELL", 0.3, 1.0)]


def test_the_coverage_of_levels_is_of_the_whole_point(engine):
    levels = members(
        timestamp=[0, 0, MINUTE], price=[9.0, 10.0, 9.0], buy_volume=[1.0, None, 3.0], sell_volume=[0.0] * 3
    )
    got = engine.polars(group(engine.frame(levels), data_type="VOLUME_PROFILE_AGG"))
    assert got.select("price", "buy_volume", "sell_volume", "volume", "coverage").rows() == [
        (9.0, 1.0, 0.0, 1.0, 0.5),
        (10.0, None, 0.0, None, 0.5),
        (9.0, 3.0, 0.0, 3.0, 1.0),
    ]


def test_a_stock_carries_only_into_the_buckets_of_its_own_coin(engine):
    points = stock([("A", "X", 0, *[1.0] * 4), ("A", "Y", 1, *[2.0] * 4), ("B", "X", 2, *[4.0] * 4)])
    points = points.with_columns(coin=pl.Series([None, "ETH", None], dtype=pl.String))
    got = engine.polars(group(engine.frame(points), data_type="OPEN_INTEREST_AGG"))
    rows = got.with_columns(pl.col("timestamp") // HOUR).select("coin", "timestamp", "close").rows()
    assert sorted(rows, key=str) == [("ETH", 1, 2.0), (None, 0, 1.0), (None, 2, 5.0)]


def test_funding_is_weighted_by_open_interest(engine):
    # definitions.md: 0.05% on 10bn and 0.2% on 0.1bn give 0.051485%.
    rates = members(timestamp=[0] * 3, **{name: [0.0005, 0.002, 0.9] for name in RATES})
    rates = rates.with_columns(predicted_open=pl.Series([None, 0.002, None], dtype=pl.Float64))
    weights = members(timestamp=[0, 0, HOUR], close=[10e9, 0.1e9, 1.0])  # of the third another bucket
    points, open_interest = both(engine, rates, weights)
    got = engine.polars(group(points, data_type="FUNDING_RATE_AGG", weights=open_interest))
    assert got["rate_close"].round(8).to_list() == [0.00051485]
    assert got["predicted_open"].to_list() == [0.002]  # of those that have one
    assert got["coverage"].to_list() == [None]  # the third has a rate, and its open interest is not known


def test_the_coverage_of_funding_is_a_share_of_the_open_interest(engine):
    rates = members(timestamp=[0] * 3, **{name: [0.0005, 0.002, 0.9] for name in RATES})
    rates = pl.concat([rates.filter(pl.col("raw_symbol") != "Z"), rates.with_columns(timestamp=HOUR)])
    weights = members(timestamp=[0] * 3, close=[3.0, 1.0, 4.0])
    weights = pl.concat(
        [weights, weights.with_columns(timestamp=pl.lit(HOUR), close=pl.Series([3.0, 0.0, 1.0]))]
    )
    points, open_interest = both(engine, rates, weights)
    got = engine.polars(group(points, data_type="FUNDING_RATE_AGG", weights=open_interest))
    assert got.select("timestamp", "coverage").rows() == [(0, 0.5), (HOUR, 1.0)]


def test_a_member_without_any_rate_is_not_covered(engine):
    rates = members(timestamp=[0] * 3, **{name: [0.0005, 0.002, 0.9] for name in RATES})
    rates = rates.with_columns(coin=pl.Series(["BTC", None, "ETH"])).head(2)
    weights = members(timestamp=[0] * 3, close=[100.0, 50.0, 300.0])
    more = weights.with_columns(raw_symbol=pl.col("raw_symbol") + "2", close=pl.Series([300.0, 50.0, None]))
    weights = pl.concat([weights, more]).with_columns(coin=pl.Series(["BTC", None, "ETH"] * 2))
    points, open_interest = both(engine, rates, weights)
    got = engine.polars(group(points, data_type="FUNDING_RATE_AGG", weights=open_interest))
    assert set(got.select("coin", "rate_close", "coverage").rows()) == {
        ("BTC", 0.0005, 0.25),  # definitions.md: the share of the open interest that was used
        (None, 0.002, 0.5),
    }


@pytest.mark.slow
def test_a_member_with_neither_rate_nor_open_interest_is_none(engine):
    rates = members(timestamp=[0] * 3, **{name: [0.1] * 3 for name in RATES}).head(1)
    weights = members(timestamp=[0] * 3, close=[100.0, None, None])
    points, open_interest = both(engine, rates, weights)
    got = engine.polars(group(points, data_type="FUNDING_RATE_AGG", weights=open_interest))
    assert got["coverage"].to_list() == [1.0]


@pytest.mark.parametrize("close", [None, 0.0, -1.0])
def test_funding_without_open_interest_has_no_point(engine, close):
    rates = members(timestamp=[0] * 3, **{name: [0.1] * 3 for name in RATES})
    weights = members(timestamp=[0] * 3, close=pl.Series([close] * 3, dtype=pl.Float64))
    points, open_interest = both(engine, rates, weights)
    got = engine.polars(group(points, data_type="FUNDING_RATE_AGG", weights=open_interest))
    assert got.height == 0
    got = in_columns(got, ["timestamp", *RATES, "coverage"])


@pytest.mark.parametrize("name", ["TPO_AGG", "CME_OPEN_INTEREST_AGG", "TRADE", "SKEW_OPTION_SUMMARY_AGG"])
def test_a_type_that_cannot_be_grouped_is_refused(trades, name):
    with pytest.raises(QueryError, match=f"data_type: got '{name}', expected one of") as caught:
        group(trades, data_type=name)
    assert caught.value.code == "UNSUPPORTED"


def test_missing_and_needless_weights_and_missing_columns_are_named():
    with pytest.raises(QueryError, match="weights: got 'NoneType', expected open interest"):
        group(CANDLES, data_type="FUNDING_RATE_AGG")
    with pytest.raises(QueryError, match="weights: got 'DataFrame', expected nothing"):
        group(CANDLES, data_type=AGNOSTIC, weights=CANDLES)
    with pytest.raises(MissingColumnError, match="side"):
        group(CANDLES, data_type="TRADE_AGG")


@pytest.mark.parametrize(("interval", "minutes"), [("1m", 1), ("15m", 15), ("1h", 60), ("1d", 1440)])
def test_two_recorded_venues_agree_with_pandas(recorded, interval, minutes):
    """Minutes of two venues, joined to longer candles of each, and then to one series."""
    files = {
        "BINANCE": "lean_binance_btcbusd_1m_20221213_trade.zip",
        "BYBIT": "lean_bybit_btcusdt_1m_20221213_trade.zip",
    }
    frames = []
    for exchange, name in files.items():
        with zipfile.ZipFile(recorded / name) as archive, archive.open(archive.namelist()[0]) as file:
            frame = pd.read_csv(file, names=["timestamp", "open", "high", "low", "close", "volume"])
        frames.append(frame.assign(exchange=exchange, raw_symbol="BTC"))
    table = pd.concat(frames, ignore_index=True).astype(
        dict.fromkeys(("open", "high", "low", "close", "volume"), float)
    )
    table["timestamp"] = 1_670_889_600 * 10**9 + table["timestamp"] * 10**6  # 2022-12-13
    table["first_timestamp"] = table["last_timestamp"] = table["timestamp"]
    # Both traded at the very start of each minute, as far as the files say: the first venue opens, the last closes.
    bucket = table["timestamp"] // (minutes * MINUTE) * (minutes * MINUTE)
    expected = (
        table.sort_values(["timestamp", "exchange"])
        .groupby(bucket)
        .agg(
            {
                "open": "first", "high": "max", "low": "min", "close": "last",
                "first_timestamp": "min", "last_timestamp": "max", "volume": "sum",
            }
        )
    )  # fmt: skip
    points = pl.from_pandas(table)
    got = group(resample(points, data_type=AGNOSTIC, interval=interval), data_type=AGNOSTIC)
    assert got.height == 1440 // minutes
    assert set(got.columns) == {"timestamp", *expected.columns, "coverage"}
    assert got["timestamp"].to_list() == expected.index.to_list()
    for name in expected.columns.drop("volume"):
        assert got[name].to_list() == expected[name].to_list(), name
    assert got["volume"].to_list() == pytest.approx(expected["volume"].to_list(), rel=1e-12)


def test_a_group_of_one_is_itself(engine, trades):
    one = candles(trades.filter(exchange="A", raw_symbol="X"), interval="1m")
    got = engine.polars(group(engine.frame(one), data_type=AGNOSTIC))
    expected = one.drop("exchange", "raw_symbol").with_columns(coverage=1.0)
    assert in_columns(got, expected.columns).rows() == expected.rows()


def test_members_that_count_different_things_do_not_add_up() -> None:
    points = pl.DataFrame(
        {
            "exchange": ["A", "B"],
            "raw_symbol": "M",
            "side": "BUY",
            "timestamp": 0,
            "amount_unit": ["COIN", "USD"],
            "liquidations": [1.0, 2.0],
        }
    )
    assert group(points, data_type="LIQUIDATION_AGG")["liquidations"].to_list() == [None]
    in_usd = points.with_columns(amount_unit=pl.lit("USD"))
    assert group(in_usd, data_type="LIQUIDATION_AGG")["liquidations"].to_list() == [3.0]
