"""Resampling: literal values on every engine, recorded candles against pandas, and what is refused."""

from __future__ import annotations

import zipfile
from decimal import Decimal

import pandas as pd
import polars as pl
import pytest

from engines import Engine
from tables import in_columns
from tidytape import Client
from tidytape.aggregate import candles, gapfill, resample, volume_profile
from tidytape.aggregate._resample import _RESAMPLABLE
from tidytape.errors import MissingColumnError, QueryError

MINUTE = 60 * 10**9
AGNOSTIC = "TRADE_SIDE_AGNOSTIC_AGG"


@pytest.mark.parametrize(("interval", "by_side"), [("1m", False), ("1w", False), ("1h", True)])
def test_candles_equal_those_of_the_trades(engine, trades, interval, by_side):
    fine = candles(engine.frame(trades), interval="1m", by_side=by_side)
    name = "TRADE_AGG" if by_side else AGNOSTIC
    got = engine.polars(resample(fine, data_type=name, interval=interval, source="1m"))
    expected = candles(trades, interval=interval, by_side=by_side).with_columns(coverage=1.0)
    assert in_columns(got, expected.columns).rows() == expected.rows()


def test_profiles_equal_those_of_the_trades(engine, trades):
    fine = volume_profile(engine.frame(trades), interval="1m", block_size="0.1")
    got = engine.polars(resample(fine, data_type="VOLUME_PROFILE_AGG", interval="4h"))
    expected = volume_profile(trades, interval="4h", block_size="0.1").with_columns(coverage=1.0)
    assert in_columns(got, expected.columns).rows() == expected.rows()


def open_interest(prefix: str = "") -> pl.DataFrame:
    """Three minutes and an hour later: the first without an open, the last with nothing but a close."""
    rows = [
        (0, None, 5.0, 3.0, 4.0),
        (1, 4.0, 9.0, 4.0, 6.0),
        (2, 6.0, 7.0, 2.0, None),
        (60, None, None, None, 8.0),
    ]
    names = ["timestamp", *(prefix + name for name in ("open", "high", "low", "close"))]
    frame = pl.DataFrame(rows, schema=names, orient="row")
    return frame.select(exchange=pl.lit("A"), raw_symbol=pl.lit("X"), **{n: pl.col(n) for n in names})


def test_a_stock_has_the_first_the_extremes_and_the_last_that_are_known(engine):
    points = open_interest().with_columns(pl.col("timestamp") * MINUTE)
    got = engine.polars(resample(engine.frame(points), data_type="OPEN_INTEREST_AGG", interval="1h"))
    assert in_columns(got, [*points.columns, "coverage"]).rows() == [
        ("A", "X", 0, 4.0, 9.0, 2.0, 6.0, 2 / 3),
        ("A", "X", 60 * MINUTE, None, None, None, 8.0, 1.0),
    ]


@pytest.mark.parametrize(
    ("name", "prefixes"),
    [("FUNDING_RATE_AGG", ("rate_", "predicted_")), ("CME_OPEN_INTEREST_AGG", ("", "value_", "price_"))],
)
def test_funding_and_futures_join_like_a_stock(engine, name, prefixes):
    parts = [open_interest(prefix).drop("exchange", "raw_symbol", "timestamp") for prefix in prefixes]
    key = open_interest().select("exchange", "raw_symbol", pl.col("timestamp") * MINUTE)
    points = pl.concat([key, *parts], how="horizontal")
    got = engine.polars(resample(engine.frame(points), data_type=name, interval="1h"))
    got = in_columns(got, [*points.columns, "coverage"])
    assert got.row(0) == ("A", "X", 0, *(4.0, 9.0, 2.0, 6.0) * len(prefixes), 2 / 3)


def test_liquidations_are_summed_by_side_and_a_sum_with_an_unknown_amount_is_unknown(engine):
    points = pl.DataFrame(
        {
            "exchange": ["A"] * 5,
            "raw_symbol": ["X"] * 5,
            "interval": ["MINUTE"] * 5,
            "side": ["BUY", "BUY", "SELL", "BUY", "SELL"],
            "timestamp": [0, MINUTE, MINUTE, 4 * MINUTE, 5 * MINUTE],
            "liquidations": [0.1, 0.2, 4.0, 0.3, None],
            "coverage": [0.5] * 5,  # of another sum
        }
    )
    got = engine.polars(resample(engine.frame(points), data_type="LIQUIDATION_AGG", interval="5m"))
    assert got.select("interval", "side", "timestamp", "liquidations", "coverage").rows() == [
        ("5m", "BUY", 0, 0.6, 1.0),  # as floats 0.6000000000000001
        ("5m", "SELL", 0, 4.0, 1.0),
        ("5m", "SELL", 5 * MINUTE, None, 0.0),
    ]
    got = engine.polars(resample(engine.frame(points), data_type="LIQUIDATION_AGG", interval="1h"))
    assert got.select("side", "liquidations", "coverage").rows() == [("BUY", 0.6, 1.0), ("SELL", None, 0.5)]


def test_candles_of_unknown_volumes_have_their_prices(engine):
    points = pl.DataFrame(
        {
            "exchange": "A",
            "raw_symbol": "X",
            "timestamp": [0, MINUTE, 2 * MINUTE, 3 * MINUTE],
            "open": [1.0, 2.0, 3.0, 4.0],
            "high": [9.0, 2.0, 3.0, 4.0],
            "low": [1.0, 0.5, 3.0, 4.0],
            "close": [2.0, 3.0, 4.0, 5.0],
            "volume": [1.0, None, 2.0, 3.0],
            "first_timestamp": pl.Series([None] * 4, dtype=pl.Int64),
            "last_timestamp": pl.Series([None] * 4, dtype=pl.Int64),
        }
    )
    got = engine.polars(resample(engine.frame(points), data_type=AGNOSTIC, interval="1h"))
    assert got.select("open", "high", "low", "close", "volume", "coverage").rows() == [
        (1.0, 9.0, 0.5, 5.0, None, 0.75)
    ]


def test_a_candle_that_fills_a_gap_does_not_open_a_bucket_that_traded(engine, trades):
    one = trades.filter(exchange="A", raw_symbol="X")
    fine = gapfill(engine.frame(candles(one, interval="1m")), interval="1m", start=0, end=180 * MINUTE)
    coarse = engine.polars(resample(fine, data_type=AGNOSTIC, interval="1h"))
    alone = candles(one, interval="1h")
    coarse = in_columns(coarse, [*alone.columns, "coverage"])
    assert coarse.head(3).rows() == alone.with_columns(coverage=1.0).rows()
    assert coarse.row(3)[3:] == (None, None, 0.7, 0.7, 0.7, 0.7, 0.0, 1.0)
    assert coarse["timestamp"][3] == 120 * MINUTE


def test_a_series_without_a_venue_and_unknown_columns(engine, trades):
    points = candles(trades.filter(exchange="B"), interval="1m").drop("exchange", "raw_symbol")
    points = points.with_columns(coin=pl.lit("BTC"), strange=pl.lit(1.0))
    got = engine.polars(resample(engine.frame(points), data_type=AGNOSTIC, interval="1d"))
    assert got.columns[:2] == ["timestamp", "coin"]
    assert "strange" not in got.columns


@pytest.mark.parametrize("name", ["TPO_AGG", "BLOCK_BOOK_SNAPSHOT_AGG", "SKEW_OPTION_SUMMARY_AGG", "TRADE"])
def test_a_type_whose_points_cannot_be_joined_is_refused(trades, name):
    with pytest.raises(QueryError, match=f"data_type: got '{name}', expected one of TRADE_SIDE") as caught:
        resample(trades, data_type=name, interval="1h")
    assert caught.value.code == "UNSUPPORTED"


def test_no_multiple_an_unknown_interval_and_a_missing_column_are_named(engine, trades):
    points = engine.frame(candles(trades, interval="1h"))
    with pytest.raises(QueryError, match="interval: got '1m', expected a whole multiple of 1h") as caught:
        resample(points, data_type=AGNOSTIC, interval="1m", source="1h")
    assert caught.value.code == "INVALID_INTERVAL"
    with pytest.raises(QueryError, match="interval: got '2x'"):
        resample(points, data_type=AGNOSTIC, interval="2x")
    with pytest.raises(MissingColumnError, match="side"):
        resample(points, data_type="TRADE_AGG", interval="1d")


def lean(path, day="2022-12-13"):
    """Minute candles of one day and venue, as pandas reads them."""
    with zipfile.ZipFile(path) as archive, archive.open(archive.namelist()[0]) as file:
        frame = pd.read_csv(file, names=["ms", "open", "high", "low", "close", "volume"])
    frame.index = pd.Timestamp(day) + pd.to_timedelta(frame.pop("ms"), unit="ms")
    return frame.astype(float)


def hourly(path):
    frame = pd.read_csv(path)
    frame.columns = frame.columns.str.lower()
    frame.index = pd.to_datetime(frame.pop("date"), format="%d-%m-%Y %H:%M")
    return frame.astype(float)


def timed(frame):
    """The times as columns: all that is known of a candle's first and last trade is the start of the candle."""
    epoch = frame.index.astype("datetime64[ns]").astype("int64")
    return frame.assign(**dict.fromkeys(("timestamp", "first_timestamp", "last_timestamp"), epoch))


PRICES = {"open": "first", "high": "max", "low": "min", "close": "last"}
RULE = {**PRICES, "volume": "sum", "first_timestamp": "min", "last_timestamp": "max"}
LEAN = {"5m": ("5min", 288), "15m": ("15min", 96), "1h": ("1h", 24), "4h": ("4h", 6), "1d": ("1D", 1)}
HOURLY = {"4h": ("4h", 4386), "1d": ("1D", 731), "1w": ("W-MON", 105)}


@pytest.mark.parametrize(
    ("file", "interval", "rule", "height"),
    [
        (file, interval, *found)
        for file, rules in {
            "lean_binance_btcbusd_1m_20221213_trade.zip": LEAN,
            "lean_bybit_btcusdt_1m_20221213_trade.zip": LEAN,
            "binance-vision_BTCUSDT_1h_Cleaned.csv.gz": HOURLY,
        }.items()
        for interval, found in rules.items()
    ],
)
def test_recorded_candles_agree_with_pandas(recorded, file, interval, rule, height):
    frame = timed(lean(recorded / file) if file.startswith("lean") else hourly(recorded / file))
    wanted = frame.resample(rule, closed="left", label="left").agg(RULE)
    wanted["timestamp"] = wanted.index.astype("datetime64[ns]").astype("int64")
    points = pl.from_pandas(frame.assign(exchange="A", raw_symbol="X").reset_index(drop=True))
    got = resample(points, data_type=AGNOSTIC, interval=interval)
    assert got.height == height
    assert set(got.columns) == {"exchange", "raw_symbol", "timestamp", *RULE, "coverage"}
    for name in ("timestamp", *PRICES, "first_timestamp", "last_timestamp"):
        assert got[name].to_list() == wanted[name].to_list(), name
    # pandas adds floats, from the first to the last; ours is the decimal one would get by hand.
    assert got["volume"].to_list() == pytest.approx(wanted["volume"].to_list(), rel=1e-12)
    texts = [Decimal(repr(volume)) for volume in frame["volume"]]
    assert got["volume"].sum() == pytest.approx(float(sum(texts)), rel=1e-15)


@pytest.mark.parametrize("kind", ["polars", "lazy", "pandas", "pyarrow"])
def test_coins_and_dollars_do_not_add_up(kind: str) -> None:
    minutes = pl.DataFrame(
        {
            "raw_symbol": ["A", "A", "B", "B", "C", "C"],
            "side": "BUY",
            "timestamp": [0, 60_000_000_000] * 3,
            "amount_unit": ["COIN", "USD", "USD", "USD", "COIN", None],
            "liquidations": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
        }
    )
    native = {
        "polars": minutes,
        "lazy": minutes.lazy(),
        "pandas": minutes.to_pandas(),
        "pyarrow": minutes.to_arrow(),
    }
    points = resample(native[kind], data_type="LIQUIDATION_AGG", interval="5m")
    frame = points.collect() if isinstance(points, pl.LazyFrame) else pl.DataFrame(points)
    frame = frame.sort("raw_symbol").with_columns(pl.col("liquidations").fill_nan(None))
    assert frame.select("raw_symbol", "liquidations").rows() == [("A", None), ("B", 7.0), ("C", None)]
    assert "amount_unit" not in frame.columns


@pytest.fixture(scope="module")
def demo_frames() -> dict[str, pl.DataFrame]:
    """One frame of the demo's client per data type that can be resampled, an hour and a half of minutes."""
    span = {"interval": "1m", "start": "2024-08-08", "end": "2024-08-08T01:30"}
    spot, perp = ({"exchange": name, "coin": "BTC"} for name in ("DEMO_SPOT", "DEMO_PERP"))
    with Client.demo() as client:
        return {
            AGNOSTIC: client.candles(**spot, **span),
            "TRADE_AGG": client.candles(**spot, **span, by_side=True),
            "OPEN_INTEREST_AGG": client.open_interest(**perp, **span),
            "FUNDING_RATE_AGG": client.funding(**perp, **span),
            "LIQUIDATION_AGG": client.liquidations(**perp, **span),
            "VOLUME_PROFILE_AGG": client.volume_profile(**spot, **span),
            "CME_OPEN_INTEREST_AGG": client.cme_open_interest(
                exchange="DEMO_CME", raw_symbol="BTCQ4", **span
            ),
        }


def plain(frame: pl.DataFrame) -> pl.DataFrame:
    """The same with times as int64 and words as text."""
    times = pl.selectors.datetime().dt.epoch("ns")
    return frame.with_columns(times, pl.selectors.categorical().cast(pl.String))


@pytest.mark.parametrize("name", _RESAMPLABLE)
@pytest.mark.parametrize("kind", ["polars", "polars lazy", "pyarrow", "pandas"])
def test_frames_of_a_client_keep_their_types(demo_frames, name, kind):
    frame = demo_frames[name]
    engine = Engine(kind)
    native = frame.to_pandas() if kind == "pandas" else engine.frame(frame)
    got = engine.polars(resample(native, data_type=name, interval="1h"))
    assert got.height >= 1
    assert {column: got.schema[column] for column in frame.columns if column in got.columns} == {
        column: dtype for column, dtype in frame.schema.items() if column in got.columns
    }
    expected = resample(plain(frame), data_type=name, interval="1h")
    assert plain(got).equals(expected)


@pytest.mark.parametrize("kind", ["polars", "pandas", "pyarrow"])
def test_points_that_say_their_interval_are_not_made_finer(kind):
    points = pl.DataFrame(
        {
            "exchange": ["X"] * 2,
            "side": ["BUY"] * 2,
            "interval": ["FIFTEEN_MINUTES"] * 2,
            "timestamp": [0, 900 * 10**9],
            "liquidations": [1.0, 2.0],
        }
    )
    frame = Engine(kind).frame(points)
    for interval in ("1m", "5m"):
        with pytest.raises(QueryError, match="expected a whole multiple of 15m"):
            resample(frame, data_type="LIQUIDATION_AGG", interval=interval)
    hour = Engine(kind).polars(resample(frame, data_type="LIQUIDATION_AGG", interval="1h"))
    assert hour["liquidations"].to_list() == [3.0]


def test_wrong_arguments_are_told_as_those_of_the_function():
    with pytest.raises(TypeError, match="missing a required argument: 'data_type'"):
        resample(pl.DataFrame(), interval="1h")
    with pytest.raises(
        QueryError, match="data_type: got 'candles', expected one of TRADE_SIDE_AGNOSTIC_AGG, "
    ):
        resample(pl.DataFrame(), data_type="candles", interval="1h")
