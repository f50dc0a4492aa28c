"""Candles of data.binance.vision, in the layout of https://github.com/binance/binance-public-data."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingested import ingest
from lakes import empty_lake
from tidytape import Client, aggregate
from tidytape.catalogue import Interval
from tidytape.errors import IngestError, QueryError
from tidytape.lake._tables import RECORDED_CANDLES
from tidytape.lake.ingest._fields import LENGTHS, impossible, length

MS = 10**6
T = 1_723_075_200_000  # 2024-08-08 00:00 UTC, a Thursday [ms]
MONDAY = T - 3 * 86_400_000
HEADER = (
    "open_time,open,high,low,close,volume,close_time,quote_volume,count,taker_buy_volume,"
    "taker_buy_quote_volume,ignore"
)


def kline(
    time=T, step=60_000, prices="4.15,4.16,4.14,4.155", volumes=("539.23", "2240.4", 13, "401.82", "1669.98")
):
    volume, quote, count, bought, paid = volumes
    return f"{time},{prices},{volume},{time + step - 1},{quote},{count},{bought},{paid},0"


def put(path, lake, **options):
    return ingest(path, lake, layout="binance-vision", **{"exchange": "BINANCE", **options})


def rows(lake):
    return lake.scan("candles").sort("timestamp").collect().to_dicts()


@pytest.mark.parametrize("header", [True, False])
@pytest.mark.parametrize(("scale", "unit"), [(1, "ms"), (1000, "us")])
def test_a_candle_in_full(write, lake, header, scale, unit):
    lines = [HEADER] * header + [kline(T * scale, 60_000 * scale)]
    report = put(write(*lines, name="BTCUSDT-1m-2024-08-08.csv"), lake)
    assert report.files[0].time_unit == unit
    assert "1 candle;" in str(report)
    assert rows(lake) == [
        {
            "exchange": "BINANCE", "raw_symbol": "BTCUSDT", "timestamp": T * MS, "interval": 60 * 10**9,
            "open": 4.15, "high": 4.16, "low": 4.14, "close": 4.155, "volume": 539.23, "quote_volume": 2240.4,
            "buy_volume": 401.82, "buy_quote_volume": 1669.98, "received": None,
        }
    ]  # fmt: skip
    (market,) = lake.markets().to_dicts()
    names = ("normalized_symbol", "category", "available_since")
    assert [market[name] for name in names] == ["BTC-USDT", "PERPETUAL" if header else "SPOT", T * MS]
    assert market["block_size"] == float(aggregate.recommended_block_size(4.15))


@pytest.mark.slow
@pytest.mark.parametrize(
    "word", ["1s", "1m", "3m", "5m", "15m", "30m", "1h", "2h", "4h", "6h", "8h", "12h", "1d", "3d", "1w"]
)
@pytest.mark.parametrize("named", [True, False])
def test_the_name_or_else_the_first_row_tells_the_length(write, lake, word, named):
    start = MONDAY if word == "1w" else T
    line = kline(start, LENGTHS[word] // MS)
    name = f"BTCUSDT-{word}-2024-08.csv" if named else "BTCUSDT.csv"
    put(write(HEADER, line, name=name), lake, raw_symbol="BTCUSDT")
    assert [row["interval"] for row in rows(lake)] == [LENGTHS[word]]


@pytest.mark.parametrize(
    ("name", "line", "reason"),
    [
        ("BTCUSDT-5m-2024-08-08.csv", kline(), "it does not close after 5m, as the name of the file says"),
        ("x", kline(step=61_000), "it closes when no candle would whose length is one of 1s, 1m,"),
        ("x", kline(step=31 * 86_400_000), "it closes when no candle would"),
        ("x", kline(T + 1), "no candle of its length starts at "),
        ("x", kline(T, 7 * 86_400_000), "no candle of its length starts at "),  # a week from Thursday
        ("x", kline(T + 3_600_000, 3 * 86_400_000), "no candle of its length starts at "),
        ("x", kline(prices="4.15,4.16,4.14,4.17"), "the open or the close is not between low and high"),
        ("x", kline(prices="4.13,4.16,4.14,4.15"), "the open or the close is not between low and high"),
        ("x", kline(prices="0,4.16,0,4.15"), "a price is not above 0"),
        ("x", kline(prices="x,4.16,4.1,4.15"), "the open '.*' is not a finite number"),
        ("x", kline(volumes=(1, 4, 1, 2, 4)), "the buy_volume is more than the volume"),
        ("x", kline(volumes=(1, 4, 1, 1, 5)), "the buy_quote_volume is more than the quote_volume"),
        ("x", kline(volumes=(0, 0, 60, 0, 0)), "no volume, but a price that moved: of a mark, index or premium"),
        ("x", kline(volumes=(0, 0, 0, 0, 0)), "no volume, but a price that moved"),
    ],
)  # fmt: skip
def test_what_is_no_candle_is_a_bad_line(write, lake, name, line, reason):
    with pytest.raises(IngestError, match=reason) as caught:
        put(write(HEADER, line, name=name), lake, raw_symbol="BTCUSDT")
    assert caught.value.line == 2
    assert rows(lake) == []


@pytest.mark.slow
def test_every_row_must_agree_across_blocks(write, lake, monkeypatch):
    monkeypatch.setattr("tidytape.lake.ingest._lines.BLOCK", 256)
    lines = [kline(T + number * 60_000) for number in range(50)]
    other = kline(T + 3_600_000, 300_000)
    path = write(HEADER, *lines, other)
    with pytest.raises(IngestError, match=r":52: it does not close after 1m, as a row before it says"):
        put(path, lake, raw_symbol="BTCUSDT")
    report = put(path, lake, raw_symbol="BTCUSDT", skip_bad=True)
    assert (report.bad_lines, len(rows(lake))) == (1, 50)


def test_a_minute_without_trades_is_a_candle(write, lake):
    idle = kline(prices="4,4,4,4", volumes=(0, 0, 0, 0, 0))
    put(write(idle, name="BTCUSDT-1m-2024-08-08.csv"), lake)
    assert [row["volume"] for row in rows(lake)] == [0.0]


CONTRACTS = kline(prices="2500,2600,2400,2500", volumes=(120, "0.48", 13, 20, "0.08"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("said", "quotes"), [({}, (None, None)), ({"contract": "inverse", "contract_size": 10}, (1200.0, 200.0))]
)
def test_the_volume_of_futures_with_margin_in_coin_is_their_coins(write, lake, said, quotes):
    put(write(CONTRACTS, name="ETHUSD_PERP-1m-2024-08-08.csv"), lake, **said)
    (row,) = rows(lake)
    assert (row["volume"], row["buy_volume"]) == (0.48, 0.08)
    assert (row["quote_volume"], row["buy_quote_volume"]) == quotes
    with pytest.raises(QueryError, match="contract: got 'LINEAR', expected INVERSE"):
        put(write(CONTRACTS, name="ETHUSD_PERP-1m-2024-08-09.csv"), lake, contract="linear", contract_size=10)


def test_more_was_bought_than_traded_in_coin(write, lake):
    line = kline(prices="2500,2600,2400,2500", volumes=(120, "0.48", 13, 20, "0.49"))
    with pytest.raises(IngestError, match="the buy_volume is more than the volume"):
        put(write(line, name="ETHUSD_PERP-1m-2024-08-08.csv"), lake)


@pytest.mark.slow
def test_the_service_answers_from_them_and_lists_the_market(write, lake):
    lines = [
        kline(T + n * 60_000, prices=f"{n + 1},{n + 3},{n + 1},{n + 2}", volumes=(1, n + 2, 1, 1, 2))
        for n in range(10)
    ]
    put(write(*lines, name="BTCUSDT-1m-2024-08-08.csv"), lake)
    asked = {"exchange": "BINANCE", "raw_symbol": "BTCUSDT", "start": T // 1000, "end": T // 1000 + 600}
    with Client.local(lake.path) as client:
        found = client.candles(interval="5m", **asked)
        listed = client.markets(type="TRADE_SIDE_AGNOSTIC_AGG")
        of_trades = client.markets(type="TRADE")
    assert found.select("open", "high", "low", "close", "volume").rows() == [
        (1.0, 7.0, 1.0, 6.0, 5.0),
        (6.0, 12.0, 6.0, 11.0, 5.0),
    ]
    assert (listed["raw_symbol"].to_list(), of_trades.height) == (["BTCUSDT"], 0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("times", "answer"),
    [
        ((T - 1_000, T, T + 60_000), (9.5, 2.0)),
        # Trades that begin or end inside the minute are a part of it, and the candle is whole.
        ((T,), (4.15, 539.23)),
        ((T - 1_000, T), (4.15, 539.23)),
    ],
)
def test_trades_are_preferred_where_they_reach_over_the_whole_bucket(write, lake, times, answer):
    put(write(kline(), name="BTCUSDT-1m-2024-08-08.csv"), lake)
    lines = [f"{number},9.5,2,19,{time},True,True" for number, time in enumerate(times, 1)]
    put(write(*lines, name="BTCUSDT-trades-2024-08-08.csv"), lake)
    with Client.local(lake.path) as client:
        found = client.candles(
            exchange="BINANCE", raw_symbol="BTCUSDT", interval="1m", start=T // 1000, end=T // 1000 + 60
        )
    assert found.select("open", "volume").rows() == [answer]


# --- the laws of a candle -------------------------------------------------------------------------------------------

CANDLE = {"open": 2.0, "high": 3.0, "low": 1.0, "close": 2.0, "volume": 1.0}
NS = st.integers(946_684_800 * 10**9, 4_102_444_800 * 10**9)


@pytest.mark.slow
@given(time=NS, interval=st.sampled_from(list(Interval)))
def test_the_grid_is_that_of_the_services_buckets(time, interval):
    """A candle of a length of the service starts exactly where a bucket of it does."""
    start = aggregate.candles(
        pl.DataFrame(
            {"exchange": "X", "raw_symbol": "Y", "timestamp": time, "sequence": 1, "side": "BUY", "price": 1.0,
             "amount": 1.0, "quote_amount": 1.0}
        ),
        interval=interval.value,
    )["timestamp"].item()  # fmt: skip
    step = interval.seconds * 10**9
    frame = pl.DataFrame([{**CANDLE, "timestamp": at, "interval": step} for at in (start, time)])
    reasons = impossible(frame)["reason"].to_list()
    assert reasons[0] is None
    assert (reasons[1] is None) == (time == start)


prices = st.floats(-1, 5, allow_nan=False)


@given(open_=prices, high=prices, low=prices, close=prices)
def test_only_candles_whose_prices_are_in_order_are_possible(open_, high, low, close):
    frame = pl.DataFrame(
        {"timestamp": T * MS, "interval": 60 * 10**9, "open": open_, "high": high, "low": low, "close": close,
         "volume": 1.0}
    )  # fmt: skip
    good = min(open_, high, low, close) > 0 and low <= min(open_, close) <= max(open_, close) <= high
    assert (impossible(frame)["reason"].item() is None) == good


@pytest.mark.parametrize(("word", "seconds"), [("1s", 1), ("8h", 28_800), ("1w", 604_800), ("WEEK", 604_800)])
def test_words_for_lengths(word, seconds):
    assert length(word) == seconds * 10**9


@pytest.mark.parametrize("word", ["1M", "1mo", "", "60", None])
def test_what_is_no_length(word):
    with pytest.raises(QueryError, match=r"interval: (got|left out)"):
        length(word)


trades = st.lists(
    st.tuples(st.integers(0, 3_599_999), st.integers(1, 500), st.integers(1, 100), st.booleans()),
    min_size=1,
    max_size=30,
)


@pytest.mark.long
@settings(max_examples=15, deadline=None)
@given(found=trades)
def test_candles_of_recorded_minutes_are_those_of_the_trades(tmp_path_factory, found):
    """What is served of somebody's minutes is what is served of the trades they were made of."""
    folder = tmp_path_factory.mktemp("law")
    lines = [
        f"{number},{price / 4},{amount / 8},{price * amount / 32},{T + at},{maker},True"
        for number, (at, price, amount, maker) in enumerate(sorted(found))
    ]
    (folder / "BTCUSDT-trades-2024-08-08.csv").write_text("\n".join([*lines, ""]))
    put(folder / "BTCUSDT-trades-2024-08-08.csv", empty_lake(folder / "a"))
    asked = {"exchange": "BINANCE", "raw_symbol": "BTCUSDT", "start": T // 1000, "end": T // 1000 + 3600}
    with Client.local(folder / "a") as client:
        minutes = client.candles(interval="1m", **asked)
        wanted = {interval: client.candles(interval=interval, **asked) for interval in ("5m", "1h")}
    made = []
    for row in minutes.iter_rows(named=True):
        prices = ",".join(str(row[name]) for name in ("open", "high", "low", "close"))
        volumes = (row["volume"], row["volume"] * row["close"], 1, 0, 0)
        made.append(kline(int(row["timestamp"].timestamp() * 1000), prices=prices, volumes=volumes))
    (folder / "BTCUSDT-1m-2024-08-08.csv").write_text("\n".join([*made, ""]))
    put(folder / "BTCUSDT-1m-2024-08-08.csv", empty_lake(folder / "b"))
    columns = ["timestamp", "open", "high", "low", "close", "volume"]
    with Client.local(folder / "b") as client:
        for interval, frame in wanted.items():
            assert client.candles(interval=interval, **asked).select(columns).equals(frame.select(columns))


@pytest.mark.slow
def test_recorded_hours(recorded, lake, tmp_path):
    """Two years of real hours, rewritten as a dump of hours and as a table with a column map, are the same candles."""
    hours = pl.read_csv(recorded / "binance-vision_BTCUSDT_1h_Cleaned.csv.gz").with_columns(
        pl.col("Date").str.to_datetime("%d-%m-%Y %H:%M", time_unit="ms").dt.epoch("ms")
    )
    lines = [
        kline(
            time, 3_600_000, f"{open_},{high},{low},{close}", (volume, volume * close, int(volume > 0), 0, 0)
        )
        for time, open_, high, low, close, volume in hours.iter_rows()
    ]
    (tmp_path / "BTCUSDT-1h-2024-01.csv").write_text("\n".join([*lines, ""]))
    hours.write_csv(tmp_path / "hours.csv")
    assert put(tmp_path / "BTCUSDT-1h-2024-01.csv", lake).count(RECORDED_CANDLES).new == 17_544
    names = {"timestamp": "Date"} | {name.lower(): name for name in hours.columns[1:]}
    report = ingest(
        tmp_path / "hours.csv", lake, layout="csv", table="candles", columns=names, interval="1h",
        exchange="BINANCE", raw_symbol="BTCUSDT",
    )  # fmt: skip
    assert report.count(RECORDED_CANDLES).read == 17_544
    assert report.count(RECORDED_CANDLES).new == 0
    with Client.local(lake.path) as client:
        days = client.candles(
            exchange="BINANCE", raw_symbol="BTCUSDT", interval="1d", start="2024-01-01", end="2026-01-01"
        )
    assert days.height == 731
    assert days["volume"].sum() == pytest.approx(hours["Volume"].sum())
    assert (days["high"].max(), days["low"].min()) == (hours["High"].max(), hours["Low"].min())
