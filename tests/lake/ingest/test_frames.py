"""Frames of polars and pandas into a lake."""

from __future__ import annotations

import gzip
import io

import pandas as pd
import polars as pl
import pytest

from lakes import empty_lake
from tidytape.errors import IngestError, QueryError
from tidytape.lake.ingest import Csv, Market, ingest, ingest_frame

T = 1_700_000_040  # 2023-11-14 22:14 UTC, a whole minute [s]
X = Market(exchange="X", raw_symbol="BTC-USD")
TRADES = {"timestamp": [T, T + 1], "price": [10.5, 11.0], "amount": [2.0, 1.0], "side": ["buy", "sell"]}
OHLCV = ["timestamp", "open", "high", "low", "close", "volume"]


def in_order(lake):
    """The trades in their order; a file's line of the first is 2, a frame's 1."""
    return lake.scan("trades").sort("timestamp", "sequence").drop("sequence").collect()


@pytest.mark.parametrize("kind", [pl.DataFrame, pd.DataFrame], ids=["polars", "pandas"])
def test_a_frame_is_what_its_file_would_be(write, lake, tmp_path, kind):
    report = ingest_frame(kind(TRADES), lake, market=X, time_unit="s")
    assert (report.trades_new, report.files[0].path, report.files[0].lines) == (2, "frame", 2)
    other = empty_lake(tmp_path / "other")
    ingest(write(pl.DataFrame(TRADES).write_csv().strip(), name="a.csv"), other, Csv(), market=X)
    assert in_order(lake).equals(in_order(other))
    assert lake.markets().equals(other.markets())


def test_a_frame_that_went_in_before_changes_nothing(lake):
    frame = pl.DataFrame(TRADES)
    ingest_frame(frame, lake, market=X, time_unit="s")
    version = lake.version()
    assert ingest_frame(frame, lake, market=X, time_unit="s").files[0].already_ingested
    assert lake.version() == version
    more = pl.concat([frame, frame.with_columns(timestamp=pl.col("timestamp") + 10)])
    assert ingest_frame(more.tail(3), lake, market=X, time_unit="s").trades_new == 2


@pytest.mark.parametrize(
    ("times", "what"),
    [([T, T + 1], "int64"), ([float(T), T + 1.0], "double"), (["2023-11-14T22:14:00Z"] * 2, "large_string")],
)
def test_no_unit_is_guessed(lake, times, what):
    frame = pl.DataFrame(TRADES | {"timestamp": times})
    with pytest.raises(QueryError, match=f"time_unit: left out, .*timestamp are written, .*they are {what}"):
        ingest_frame(frame, lake, market=X)
    assert not lake.markets().height
    ingest_frame(frame, lake, market=X, time_unit="iso" if what == "large_string" else "s")
    assert lake.scan("trades").collect()["timestamp"].min() == T * 10**9


@pytest.mark.parametrize("kind", ["polars", "pandas"])
def test_times_have_a_zone_or_are_said_to_be_in_utc(lake, kind):
    naive = pl.DataFrame(TRADES).with_columns(pl.from_epoch("timestamp"))
    zoned = naive.with_columns(
        pl.col("timestamp").dt.replace_time_zone("UTC").dt.convert_time_zone("Asia/Tokyo")
    )
    frames = [frame.to_pandas() if kind == "pandas" else frame for frame in (naive, zoned)]
    with pytest.raises(QueryError, match="time_unit: left out, expected iso, to say that timestamp of frame"):
        ingest_frame(frames[0], lake, market=X)
    ingest_frame(frames[1], lake, market=X)
    assert ingest_frame(frames[0], lake, market=X, time_unit="iso").trades_new == 0
    assert sorted(lake.scan("trades").collect()["timestamp"]) == [T * 10**9, (T + 1) * 10**9]


def test_candles_of_yfinance(lake):
    """Capitals, an index of times, and a level of tickers."""
    index = pd.DatetimeIndex(["2023-11-14", "2023-11-15"], name="Date")
    names = pd.MultiIndex.from_product([["Close", "High", "Low", "Open", "Volume"], ["BTC-USD"]])
    frame = pd.DataFrame([[11.0, 12.0, 9.0, 10.0, 5], [11.5, 13.0, 11.0, 11.0, 7]], index, names)
    how = {"table": "candles", "interval": "1d", "market": Market(exchange="YAHOO", raw_symbol="BTC-USD")}
    with pytest.raises(QueryError, match="time_unit: left out, expected iso"):
        ingest_frame(frame, lake, **how)
    assert str(ingest_frame(frame, lake, time_unit="iso", **how).files[0]) == "frame: 2 candles; times in iso"
    first = lake.scan("candles").sort("timestamp").collect().row(0, named=True)
    assert first["timestamp"] == 1_699_920_000 * 10**9
    assert [first[name] for name in OHLCV[1:]] == [10.0, 12.0, 9.0, 11.0, 5.0]
    both = pd.concat([frame, frame], axis=1)
    with pytest.raises(QueryError, match="frame: got 'columns that are called alike', expected one market"):
        ingest_frame(both, lake, **how)


@pytest.mark.parametrize("kind", ["polars", "pandas"])
def test_candles_of_ccxt(lake, kind):
    rows = [[T * 1000, 10.0, 12.0, 9.0, 11.0, 3.5], [(T + 60) * 1000, 11.0, 11.0, 11.0, 11.0, 0.0]]
    frame = (
        pl.DataFrame(rows, schema=OHLCV, orient="row")
        if kind == "polars"
        else pd.DataFrame(rows, columns=OHLCV)
    )
    how = {"table": "candles", "interval": "1m", "market": X}
    with pytest.raises(QueryError, match="time_unit: left out, expected how the times of timestamp"):
        ingest_frame(frame, lake, **how)
    ingest_frame(frame, lake, time_unit="ms", **how)
    assert sorted(lake.scan("candles").collect()["timestamp"]) == [T * 10**9, (T + 60) * 10**9]


def test_a_broken_row_is_named_and_nothing_goes_in(lake):
    frame = pl.DataFrame(TRADES | {"price": [10.5, float("nan")]})
    with pytest.raises(IngestError, match="frame:2: the price 'NaN' is not a finite number") as caught:
        ingest_frame(frame, lake, market=X, time_unit="s")
    assert caught.value.line == 2
    assert lake.scan("trades").collect().is_empty()
    report = ingest_frame(frame, lake, market=X, time_unit="s", skip_bad=True)
    assert (report.trades_new, report.bad_lines) == (1, 1)


def test_candles_that_are_taken_for_trades_are_told_their_table(lake):
    times = {"timestamp": [1_723_118_400], "Open": [1.0], "High": [1.0], "Low": [1.0], "Close": [1.0]}
    with pytest.raises(QueryError, match=r"; candles go into a table of their own: table=\"candles\"$"):
        ingest_frame(pl.DataFrame(times), lake, market=X, time_unit="s")


def test_amounts_and_names_are_those_of_a_file(lake):
    frame = pl.DataFrame(TRADES).rename({"price": "px"})
    market = Market(exchange="BITMEX", raw_symbol="XBTUSD")
    with pytest.raises(
        QueryError, match="columns: left out, expected price mapped to one of the columns of frame"
    ):
        ingest_frame(frame, lake, market=market, time_unit="s")
    with pytest.raises(QueryError, match="contract: left out"):
        ingest_frame(frame, lake, market=market, time_unit="s", columns={"price": "px"})
    said = Market(exchange="BITMEX", raw_symbol="XBTUSD", contract="inverse", contract_size=1)
    ingest_frame(frame, lake, market=said, time_unit="s", columns={"price": "px"})
    assert lake.scan("trades").sort("timestamp").collect()["amount"].to_list() == [2 / 10.5, 1 / 11]


@pytest.mark.parametrize("kind", ["polars", "pandas", "index"])
def test_one_market_is_taken_out_of_several(lake, kind):
    frame = pl.DataFrame(TRADES | {"raw_symbol": ["BTC-USD", "ETH-USD"], "n": [1, 2]})
    frame = frame if kind == "polars" else frame.to_pandas()
    report = ingest_frame(
        frame.set_index(["raw_symbol", "n"]) if kind == "index" else frame, lake, market=X, time_unit="s"
    )
    assert (report.trades_new, report.files[0].ignored) == (1, (("trade of another market", 1),))
    assert lake.markets()["raw_symbol"].to_list() == ["BTC-USD"]


@pytest.mark.parametrize("table", ["trades", "open_interest"])
def test_markets_of_several_exchanges_do_not_become_one(lake, table):
    frame = pl.DataFrame(TRADES | {"exchange": ["A", "B"]})
    with pytest.raises(QueryError, match=r"exchange: got 'X', expected rows of one exchange; .* has A, B"):
        ingest_frame(frame, lake, table=table, market=X, time_unit="s")
    ingest_frame(frame[:1], lake, table=table, market=X, time_unit="s")
    assert lake.scan(table).collect()["exchange"].to_list() == ["X"]


def test_an_index_with_a_name_is_a_column(lake):
    frame = pd.DataFrame(TRADES)
    ingest_frame(frame.set_index("timestamp"), lake, market=X, time_unit="s")
    assert sorted(lake.scan("trades").collect()["timestamp"]) == [T * 10**9, (T + 1) * 10**9]
    days = pd.date_range("2023-11-14", periods=2, tz="UTC")
    for index, name in [(days, "timestamp"), (pd.Index([1, 2], name="price"), "price")]:
        with pytest.raises(QueryError, match=f"got '{name} in the index and in a column'"):
            ingest_frame(frame.set_axis(index), lake, market=X, time_unit="s")


def test_of_two_columns_in_capitals_none_is_guessed(lake):
    frame = pl.DataFrame(TRADES).rename({"price": "Price"}).with_columns(PRICE=1.0)
    with pytest.raises(QueryError, match="got 'columns Price and PRICE', expected one for price"):
        ingest_frame(frame, lake, market=X, time_unit="s")
    ingest_frame(frame, lake, market=X, time_unit="s", columns={"price": "PRICE"})
    assert lake.scan("trades").collect()["price"].to_list() == [1.0, 1.0]


ODD = {
    "objects": pl.Series([object(), 1], dtype=pl.Object),
    "128 bits": pl.Series([1, 2], dtype=pl.Int128),
    "mixed": pd.Series([10.5, "x"], dtype=object),
    "things": pd.Series([object(), 1], dtype=object),
    "beyond 64 bits": pd.Series([10**30, 1], dtype=object),
    "complex": pd.Series([1 + 2j, 3]),
    "durations": pd.Series(pd.to_timedelta([1, 2], unit="s")),
    "intervals": pd.Series(pd.interval_range(0, 2)),
}


@pytest.mark.parametrize("values", ODD.values(), ids=ODD.keys())
def test_a_column_that_holds_no_values_is_refused_if_it_is_ours(lake, values):
    frame = pl.DataFrame(TRADES) if isinstance(values, pl.Series) else pd.DataFrame(TRADES)
    columns = {"price": values, "other": values}
    odd, other = (
        frame.with_columns(column.alias(name))
        if isinstance(column, pl.Series)
        else frame.assign(**{name: column})
        for name, column in columns.items()
    )
    with pytest.raises(QueryError, match=r"frame: got .*, expected .* of numbers, texts, flags or times"):
        ingest_frame(odd, lake, market=X, time_unit="s")
    assert ingest_frame(other, lake, market=X, time_unit="s").trades_new == 2


@pytest.mark.parametrize("frame", [[1], pl.LazyFrame(TRADES), None])
def test_what_is_no_frame(lake, frame):
    with pytest.raises(QueryError, match="expected an eager frame of polars or pandas"):
        ingest_frame(frame, lake, market=X)


@pytest.mark.parametrize(("name", "value"), [("market", "X"), ("columns", ["price"]), ("time_unit", 5)])
def test_arguments_of_another_kind_are_named(lake, write, name, value):
    frame = pl.DataFrame(TRADES)
    with pytest.raises(QueryError, match=f"{name}: got"):
        ingest_frame(frame, lake, **({"market": X, "time_unit": "s"} | {name: value}))
    if name == "market":
        with pytest.raises(QueryError, match="market: got 'X', expected a Market"):
            ingest(write(frame.write_csv().strip()), lake, Csv(), market=value)


def test_an_empty_frame_changes_nothing(lake):
    report = ingest_frame(pl.DataFrame(TRADES).clear(), lake, market=X, time_unit="s")
    assert report.trades_read == 0
    assert lake.scan("trades").collect().is_empty()


def test_a_recorded_tape_as_a_frame(recorded, lake, tmp_path):
    path = recorded / "coinbase_btc-usd_trades_20230905.csv.gz"
    columns, market = {"raw_symbol": "symbol"}, Market(exchange="COINBASE")
    frame = pd.read_csv(io.BytesIO(gzip.decompress(path.read_bytes())), parse_dates=["timestamp"])
    ingest_frame(frame, lake, market=market, columns=columns)
    other = empty_lake(tmp_path / "other")
    ingest(path, other, Csv(columns=columns), market=market)
    assert in_order(lake).equals(in_order(other))
    assert in_order(lake).height == 5882


def test_what_a_frame_does_not_say_is_asked_for_with_the_words_that_say_it(lake):
    candles = pl.DataFrame([[T, 10.0, 12.0, 9.0, 11.0, 3.5]], schema=OHLCV, orient="row")
    said = {"table": "candles", "time_unit": "s"}
    with pytest.raises(QueryError, match=r'interval: left out, .*; interval="1d" says it for all'):
        ingest_frame(candles, lake, market=X, **said)
    with pytest.raises(QueryError, match=r'exchange: left out, .*; market=Market\(exchange="BINANCE"\)'):
        ingest_frame(candles, lake, interval="1m", **said)
    with pytest.raises(QueryError, match=r'raw_symbol: left out, .*; market=Market\(raw_symbol="BTC-USD"\)'):
        ingest_frame(candles, lake, interval="1m", market=Market(exchange="X"), **said)
    assert ingest_frame(candles, lake, interval="1m", market=X, **said).markets[0].rows == (("candles", 1),)
