"""Files with a column map, for any table: delimited, JSON lines and Parquet hold the same rows."""

from __future__ import annotations

import datetime as dt
import json
from functools import partial

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ingested import ingest
from tidytape.cli._main import _as_option
from tidytape.errors import IngestError, QueryError, worded
from tidytape.lake.ingest import _lines
from tidytape.lake.ingest import _own_files as own_files

T = 1_700_000_000  # [s]
NS = 10**9
LAYOUTS = ("csv", "jsonl", "parquet")


@pytest.fixture
def save(tmp_path):
    def make(layout, rows, name="rows"):
        path = tmp_path / f"{name}.{layout}"
        if layout == "csv":
            pl.DataFrame(rows).write_csv(path)
        elif layout == "jsonl":
            path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        else:
            pl.DataFrame(rows).write_parquet(path)
        return path

    return make


def put(path, lake, layout, table, **options):
    return ingest(path, lake, layout=layout, table=table, **{"exchange": "X", **options})


def only(lake, table):
    (row,) = lake.scan(table).collect().to_dicts()
    return row


@pytest.mark.parametrize("layout", LAYOUTS)
def test_open_interest(save, lake, layout):
    path = save(
        layout, [{"when": T, "symbol": "BTCUSDT", "oi": 12.5, "value": 500, "mark": 40.0, "more": "x"}]
    )
    columns = {
        "timestamp": "when",
        "raw_symbol": "symbol",
        "amount": "oi",
        "quote_amount": "value",
        "price": "mark",
    }
    report = put(path, lake, layout, "open_interest", columns=columns)
    assert report.files[0].time_unit == "s"
    assert only(lake, "open_interest") == {
        "exchange": "X", "raw_symbol": "BTCUSDT", "timestamp": T * NS, "amount": 12.5, "quote_amount": 500.0,
        "received": None,
    }  # fmt: skip


CANDLE = {"timestamp": T // 60 * 60, "open": 1.5, "high": 3.0, "low": 1.0, "close": 2.0, "volume": 4.0}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    ("column", "options"),
    [
        ({"interval": 60 * NS}, {}),
        ({"interval": "1m"}, {}),
        ({"span": "MINUTE"}, {"columns": {"interval": "span"}}),
        ({}, {"interval": "1m"}),
    ],
)
def test_candles(save, lake, layout, column, options):
    put(save(layout, [CANDLE | column]), lake, layout, "candles", raw_symbol="BTCUSDT", **options)
    assert only(lake, "candles") == {
        "exchange": "X", "raw_symbol": "BTCUSDT", "timestamp": CANDLE["timestamp"] * NS, "interval": 60 * NS,
        "open": 1.5, "high": 3.0, "low": 1.0, "close": 2.0, "volume": 4.0, "quote_volume": None, "buy_volume": None,
        "buy_quote_volume": None, "received": None,
    }  # fmt: skip
    assert lake.markets().select("normalized_symbol", "block_size").rows() == [("BTC-USDT", 5e-05)]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"interval": "1M"}, "the interval '.*' is not an interval such as 1m, or a number of ns"),
        ({"interval": 60}, "the interval '.*' is not"),  # which unit was meant?
        ({"interval": 3600 * NS}, "no candle of its length starts at "),
        ({"interval": "1m", "high": 1.2}, "the open or the close is not between low and high"),
        ({"interval": "1m", "low": 0.0}, "a price is not above 0"),
        ({"interval": "1m", "volume": -1.0}, "the volume '.*' is not a finite number, 0 or above"),
    ],
)
def test_what_is_no_candle(save, lake, layout, change, reason):
    path = save(layout, [CANDLE | change])
    with pytest.raises(IngestError, match=reason):
        put(path, lake, layout, "candles", raw_symbol="BTCUSDT")


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("days", "is_taken"), [((0, 1, 2, 5), False), ((0, 24), True), ((0, 1, 3, 6), True)])
def test_candles_that_all_start_several_lengths_apart_are_of_another_length(
    save, lake, layout, days, is_taken
):
    """A few candles may be missing between two, but not the same number between most."""
    rows = [CANDLE | {"timestamp": (T // 86_400 + day) * 86_400} for day in days]
    arguments = (save(layout, rows), lake, layout, "candles")
    if is_taken:
        put(*arguments, raw_symbol="BTCUSDT", interval="1h")
        return
    with pytest.raises(IngestError, match=r"BTCUSDT start 1d apart, .* 1h: is interval 1d"):
        put(*arguments, raw_symbol="BTCUSDT", interval="1h")
    assert lake.scan("candles").collect().is_empty()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_candles_of_no_told_length_are_refused(save, lake, layout):
    with pytest.raises(QueryError, match="interval: left out, expected how long the candles are"):
        put(save(layout, [CANDLE]), lake, layout, "candles", raw_symbol="BTCUSDT")
    with pytest.raises(QueryError, match="interval: got '1M', expected one of 1s, "):
        put(save(layout, [CANDLE]), lake, layout, "candles", raw_symbol="BTCUSDT", interval="1M")
    with pytest.raises(QueryError, match=f"interval: got '1m', expected nothing, {layout} files of trades"):
        put(save(layout, [CANDLE]), lake, layout, "trades", raw_symbol="BTCUSDT", interval="1m")


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    ("table", "said"),
    [
        ("markets", "markets are registered with the events of theirs"),
        ("prediction_markets", "tidytape ingest polymarket-gamma"),
    ],
)
def test_registries_are_no_tables_of_events(save, lake, layout, table, said):
    with pytest.raises(QueryError, match=said) as caught:
        put(save(layout, [CANDLE]), lake, layout, table, raw_symbol="BTCUSDT")
    assert caught.value.parameter == "table"
    assert not {"markets", "prediction_markets"} & set(caught.value.expected.split(", "))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_funding_with_times_written_in_two_ways(save, lake, layout):
    rows = [
        {
            "timestamp": T * 1000,
            "rate": -1e-7,
            "next_funding": "2023-11-15T00:00:00Z",
            "funding_interval": None,
        },
        {"timestamp": T * 1000 + 1, "rate": 1e-4, "next_funding": None, "funding_interval": 8 * 3600 * NS},
    ]
    put(save(layout, rows), lake, layout, "funding", raw_symbol="BTCUSDT")
    found = lake.scan("funding").sort("timestamp").collect()
    assert found["rate"].to_list() == [-1e-7, 1e-4]
    assert found["next_funding"].to_list() == [1_700_006_400 * NS, None]
    assert found["funding_interval"].to_list() == [None, 8 * 3600 * NS]
    assert found["predicted_rate"].null_count() == 2


@pytest.mark.slow
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    ("column", "word", "side"),
    [
        ("side", "long", "BUY"), ("side", "Buy", "BUY"), ("side", "short", "SELL"),
        ("order_side", "sell", "BUY"), ("order_side", "BUY", "SELL"),
    ],
)  # fmt: skip
def test_liquidations(save, lake, layout, column, word, side):
    rows = [{"timestamp": T, "price": 10, "amount": 2, column: word}] * 2
    put(save(layout, rows), lake, layout, "liquidations", raw_symbol="BTCUSDT")
    first, second = lake.scan("liquidations").sort("id").collect().to_dicts()
    assert (first["side"], first["quote_amount"]) == (side, 20.0)
    assert first["id"] == f"{T * NS}/10.0/2.0/{side}/0"
    assert second["id"] == f"{T * NS}/10.0/2.0/{side}/1"


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_book(save, lake, layout):
    rows = [
        {"timestamp": T, "is_snapshot": True, "side": "bid", "price": 10, "size": 1, "last_id": 5},
        {"timestamp": T, "is_snapshot": True, "side": "ASK", "price": 11, "size": 0, "last_id": 5},
    ]
    put(save(layout, rows), lake, layout, "book", raw_symbol="BTCUSDT")
    found = lake.scan("book").sort("sequence").collect()
    assert found.select("side", "price", "size", "last_id", "is_snapshot").rows() == [
        ("BID", 10.0, 1.0, 5, True),
        ("ASK", 11.0, 0.0, 5, True),
    ]


@pytest.mark.slow
@pytest.mark.parametrize("layout", LAYOUTS)
def test_trades(save, lake, layout):
    rows = [
        {"tid": 9, "t": T, "px": 10.5, "qty": 2, "m": True},
        {"tid": 8, "t": T, "px": 10.25, "qty": 1, "m": False},
    ]
    columns = {"id": "tid", "timestamp": "t", "price": "px", "amount": "qty", "buyer_is_maker": "m"}
    for table in (None, "trades"):  # one and the same
        report = put(save(layout, rows), lake, layout, table, columns=columns, raw_symbol="BTC-USD")
    assert report.files[0].already_ingested
    found = lake.scan("trades").sort("sequence").collect()
    assert found.select("id", "sequence", "side", "price").rows() == [
        ("8", 8, "BUY", 10.25),
        ("9", 9, "SELL", 10.5),
    ]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_tables_without_venue_need_none(save, lake, layout):
    path = save(layout, [{"quote_coin": "EUR", "timestamp": T, "usd": 1.1}])
    ingest(path, lake, layout=layout, table="quote_rates")
    assert only(lake, "quote_rates") == {"quote_coin": "EUR", "timestamp": T * NS, "usd": 1.1}
    with pytest.raises(QueryError, match="exchange: left out"):
        ingest(save(layout, [{"timestamp": T, "amount": 1}], "b"), lake, layout=layout, table="open_interest")


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_coin_that_is_given_is_that_of_every_row(save, lake, layout):
    rows = [
        {
            "timestamp": T, "expiry": T + 100, "option_type": "c", "strike": 5, "raw_symbol": "A",
            "implied_volatility": 60.5,
        },
    ]  # fmt: skip
    put(save(layout, rows), lake, layout, "option_quotes", coin="BTC")
    row = only(lake, "option_quotes")
    assert (row["coin"], row["option_type"], row["implied_volatility"]) == ("BTC", "CALL", 60.5)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_one_market_is_taken_out_of_several(save, lake, layout):
    rows = [{"timestamp": T, "raw_symbol": name, "amount": 1} for name in ("A-USD", "B-USD", "C-USD")]
    report = put(save(layout, rows), lake, layout, "open_interest", raw_symbol="B-USD")
    assert report.files[0].ignored == (("row of another market", 2),)
    assert only(lake, "open_interest")["raw_symbol"] == "B-USD"


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    ("table", "columns", "said"),
    [
        ("open_interests", {}, "did you mean 'open_interest'"),
        ("markets", {}, "expected one of trades, book"),
        ("open_interest", {"amonut": "oi"}, r"one of .* to be mapped; did you mean 'amount'"),
        ("open_interest", {"sequence": "oi"}, "to be mapped"),
        (
            "open_interest",
            {"amount": "ois"},
            "for amount one of the columns of .*: when, oi; did you mean 'oi'",
        ),
        ("open_interest", {"timestamp": "when"}, "expected amount mapped to one of the columns"),
        ("open_interest", {}, "expected timestamp, amount mapped to one of the columns"),
    ],
)
def test_what_cannot_be_mapped(save, lake, layout, table, columns, said):
    path = save(layout, [{"when": T, "oi": 1}])
    with pytest.raises(QueryError, match=said):
        put(path, lake, layout, table, columns=columns, raw_symbol="A-USD")


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_market_must_be_known(save, lake, layout):
    with pytest.raises(QueryError, match="raw_symbol: left out"):
        put(save(layout, [{"timestamp": T, "amount": 1}]), lake, layout, "open_interest")


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    ("table", "row", "columns", "hint"),
    [
        ("open_interest", {"time": T, "oi": 1}, {}, "timestamp=time,amount=oi"),
        ("open_interest", {"when": T, "oi": 1}, {"timestamp": "when"}, "timestamp=when,amount=oi"),
        (
            "trades",
            {"tid": 1, "time": T, "px": 1, "qty": 1, "isBuyerMaker": "true"},
            {},
            "timestamp=time,price=px,amount=qty,buyer_is_maker=isBuyerMaker,id=tid",
        ),
        ("liquidations", {"timestamp": T, "px": 1, "size": 1, "side": "buy"}, {}, "price=px,amount=size"),
    ],
)
def test_a_map_is_suggested_from_the_names_of_the_file(save, lake, layout, table, row, columns, hint):
    with pytest.raises(QueryError) as raised:
        put(save(layout, [row]), lake, layout, table, columns=columns, raw_symbol="A-USD")
    suggested = dict(pair.split("=") for pair in hint.split(","))
    assert str(raised.value).endswith(f"try columns={suggested}")
    in_cli = worded(raised.value.marked, partial(_as_option, ("ingest", layout)))
    assert in_cli.endswith(f"try --map {hint}")
    put(save(layout, [row]), lake, layout, table, columns=suggested, raw_symbol="A-USD")  # and it works


def test_one_side_or_the_other(save, lake):
    path = save("csv", [{"timestamp": T, "price": 1, "amount": 1, "a": "buy", "b": "buy"}])
    with pytest.raises(QueryError, match="either side or order_side"):
        put(path, lake, "csv", "liquidations", raw_symbol="A", columns={"side": "a", "order_side": "b"})


@pytest.mark.slow
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"timestamp": "soon"}, "the timestamp '.*' is not an epoch time in s"),
        ({"timestamp": str(T * 1000)}, "the timestamp '.*' is not an epoch time in s"),
        ({"oi": "-1"}, "the oi '.*' is not a finite number, 0 or above"),
        ({"oi": None}, "no oi"),
        ({"value": "much"}, "the value '.*' is not a finite number"),
        ({"raw_symbol": None}, "no raw_symbol"),
    ],
)
def test_a_broken_row_is_named_and_nothing_goes_in(save, lake, layout, changes, reason):
    good = {"timestamp": str(T), "oi": "1", "value": "2", "raw_symbol": "A-USD"}
    path = save(layout, [good, good | {"timestamp": str(T + 1)}, good | changes])
    options = {"columns": {"amount": "oi", "quote_amount": "value"}}
    with pytest.raises(IngestError, match=reason) as caught:
        put(path, lake, layout, "open_interest", **options)
    assert caught.value.line == (4 if layout == "csv" else 3)
    assert lake.scan("open_interest").collect().is_empty()
    assert put(path, lake, layout, "open_interest", skip_bad=True, **options).bad_lines == 1
    assert lake.scan("open_interest").collect().height == 2


def test_a_date_has_to_be_said_to_be_one(save, lake):
    path = save("csv", [{"timestamp": "2023-11-14", "rate": 1e-4}])
    with pytest.raises(IngestError, match="is not a written date and time between"):
        put(path, lake, "csv", "funding", raw_symbol="A-USD")
    put(path, lake, "csv", "funding", raw_symbol="A-USD", time_unit="date")
    assert only(lake, "funding")["timestamp"] == 1_699_920_000 * NS


def test_fields_that_come_later_and_objects_that_are_none(write, lake):
    path = write(
        '{"t": 1700000000, "r": 0.001}', '{"t": 1700000001, "r": null, "p": 2}', "[1]", '{"t": 1,', ""
    )
    columns = {"timestamp": "t", "rate": "r", "predicted_rate": "p"}
    with pytest.raises(IngestError, match=r":3: no JSON object.*2 bad lines in all"):
        put(path, lake, "jsonl", "funding", raw_symbol="A", columns=columns)
    report = put(path, lake, "jsonl", "funding", raw_symbol="A", columns=columns, skip_bad=True)
    assert (report.files[0].lines, report.bad_lines) == (4, 2)
    found = lake.scan("funding").sort("timestamp").select("rate", "predicted_rate").collect()
    assert found.rows() == [(0.001, None), (None, 2.0)]


@pytest.mark.parametrize("text", ["[1]", "", "nonsense"])
def test_json_lines_of_nothing(write, lake, text):
    with pytest.raises(IngestError, match=r"no lines of JSON objects|the file has no lines"):
        put(write(text), lake, "jsonl", "funding", raw_symbol="A")


def stamped(path, kind, values=(dt.datetime(2023, 11, 14, 22, 13, 20),)):  # noqa: DTZ001  # naive on purpose
    table = pa.table({"timestamp": pa.array(values, kind), "rate": pa.array([1e-4] * len(values))})
    pq.write_table(table, path)
    return path


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "+02:00"])
def test_timestamps_of_parquet(tmp_path, lake, unit, zone):
    put(stamped(tmp_path / "a", pa.timestamp(unit, zone)), lake, "parquet", "funding", raw_symbol="A")
    assert only(lake, "funding")["timestamp"] == T * NS


def test_timestamps_without_a_zone_are_refused_unless_they_are_said_to_be_utc(tmp_path, lake):
    path = stamped(tmp_path / "a", pa.timestamp("us"))
    with pytest.raises(QueryError, match=r"time_unit: left out, expected iso, to say that timestamp of a"):
        put(path, lake, "parquet", "funding", raw_symbol="A")
    put(path, lake, "parquet", "funding", raw_symbol="A", time_unit="iso")
    assert only(lake, "funding")["timestamp"] == T * NS


def test_dates_of_parquet(tmp_path, lake):
    path = stamped(tmp_path / "a", pa.date32(), [dt.date(2023, 11, 14)])
    with pytest.raises(QueryError, match="expected date, to say that timestamp"):
        put(path, lake, "parquet", "funding", raw_symbol="A")
    put(path, lake, "parquet", "funding", raw_symbol="A", time_unit="date")
    assert only(lake, "funding")["timestamp"] == 1_699_920_000 * NS


@pytest.mark.slow
def test_parquet_is_read_in_blocks(tmp_path, lake, monkeypatch):
    monkeypatch.setattr(own_files, "_ROWS", 100)
    path = tmp_path / "a"
    frame = pl.DataFrame({"timestamp": [T + n for n in range(1000)], "rate": [0.0001] * 999 + [float("nan")]})
    frame.with_columns(unused=pl.lit([1, 2])).write_parquet(path)
    with pytest.raises(IngestError, match=r":1000: the rate 'NaN' is not a finite number"):
        put(path, lake, "parquet", "funding", raw_symbol="A")
    put(path, lake, "parquet", "funding", raw_symbol="A", skip_bad=True)
    assert lake.scan("funding").collect().height == 999


@pytest.mark.parametrize("data", [b"no parquet", b"PAR1 cut off"])
def test_what_is_no_parquet_file(tmp_path, lake, data):
    path = tmp_path / "a"
    path.write_bytes(data)
    with pytest.raises(IngestError, match="no Parquet file that can be read"):
        put(path, lake, "parquet", "funding", raw_symbol="A")


@pytest.mark.slow
def test_units_are_found_where_the_first_block_has_no_time(write, lake, monkeypatch):
    monkeypatch.setattr(_lines, "BLOCK", 64)
    path = write("timestamp,rate", *["x,0.0001"] * 40, f"{T},0.0001")
    report = put(path, lake, "csv", "funding", raw_symbol="A", skip_bad=True)
    assert (report.bad_lines, report.files[0].time_unit) == (40, "s")
    assert only(lake, "funding")["timestamp"] == T * NS


@pytest.mark.parametrize("coin", ["bitcoin", "ethereum"])
def test_the_recorded_token_supply(lake, recorded, coin):
    columns = {
        "token_name": "coinId", "usd_price": "price", "marketcap": "marketCap", "total_volume": "totalVolume"
    }  # fmt: skip
    path = recorded / f"hathix_coingecko_{coin}.csv"
    ingest(
        path,
        lake,
        layout="csv",
        table="token_supply",
        columns=columns,
        coin={"bitcoin": "BTC"}.get(coin, "ETH"),
    )
    found = lake.scan("token_supply").sort("timestamp").collect()
    assert found.height == 366  # each day at 00:00, and the moment of the download
    first = found.row(0, named=True)
    assert (first["token_name"], first["timestamp"]) == (coin, 1_609_459_200 * NS)
    assert first["usd_price"] == {"bitcoin": 29022.41839530417, "ethereum": 738.6169381520413}[coin]
    # Coins in circulation, as the two numbers tell: 18.587 million BTC, 114 million ETH at the start of 2021.
    supply = first["marketcap"] / first["usd_price"] / 1e6
    assert supply == pytest.approx({"bitcoin": 18.587, "ethereum": 113.8}[coin], rel=1e-3)


def test_the_recorded_daily_funding(lake, recorded):
    path = recorded / "lukmol_btc_funding_daily.csv.gz"
    columns = {"timestamp": "date", "rate": "funding_mean"}
    put(path, lake, "csv", "funding", raw_symbol="BTCUSDT", columns=columns, time_unit="date")
    found = lake.scan("funding").sort("timestamp").collect()
    assert found["timestamp"][0] == 1_568_073_600 * NS  # 2019-09-10
    assert found["rate"][0] == 1e-4
    assert found["timestamp"].diff().drop_nulls().unique().to_list() == [86_400 * NS]


OPTION = "timestamp,expiry,strike,option_type,coin"


@pytest.mark.slow
def test_times_of_each_column_are_written_in_a_way_of_their_own(write, lake):
    path = write(OPTION, "1700000000000,2024-03-29,60000,call,BTC")
    market = {"layout": "csv", "table": "option_quotes", "exchange": "X", "raw_symbol": "BTC-29MAR24-60000-C"}
    with pytest.raises(IngestError, match="the expiry '2024-03-29' is not"):
        ingest(path, lake, time_unit="ms", **market)
    report = ingest(path, lake, time_unit={"timestamp": "ms", "expiry": "date"}, **market)
    (quote,) = lake.scan("option_quotes").collect().select("timestamp", "expiry").rows()
    assert quote == (1_700_000_000 * 10**9, 1_711_670_400 * 10**9)
    assert report.files[0].time_unit == "ms"
    again = write(OPTION, "1700000001000,2024-03-29,60000,call,BTC", name="b")
    ingest(again, lake, time_unit={"expiry": "date"}, **market)  # the other column says it itself
    assert lake.scan("option_quotes").collect().height == 2


def test_a_parquet_file_may_say_a_unit_of_one_column(tmp_path, lake):
    times = pl.Series([1_700_000_000_000_000]).cast(pl.Datetime("us"))
    rows = pl.DataFrame({"timestamp": ["2023-11-14T22:13:20Z"], "next_funding": times, "rate": [1e-4]})
    rows.write_parquet(tmp_path / "a.parquet")
    market = {"layout": "parquet", "table": "funding", "exchange": "X", "raw_symbol": "BTCUSDT"}
    with pytest.raises(QueryError, match="time_unit: left out, expected iso, to say that next_funding"):
        ingest(tmp_path / "a.parquet", lake, time_unit={"timestamp": "iso"}, **market)
    ingest(tmp_path / "a.parquet", lake, time_unit={"next_funding": "iso"}, **market)
    assert lake.scan("funding").collect()["timestamp"].to_list() == [1_700_000_000 * 10**9]


@pytest.mark.parametrize(
    ("unit", "reason"),
    [
        (
            {"expires": "date"},
            "got 'expires', expected one of the columns of times of option_quotes: .*did you mean",
        ),
        (
            {"strike": "date"},
            "got 'strike', expected one of the columns of times of option_quotes: timestamp, expiry",
        ),
        ({"expiry": "day"}, "got 'day', expected one of iso, date, epoch, s, ms, us, ns"),
    ],
)
def test_a_unit_of_a_column_without_times_is_refused(write, lake, unit, reason):
    market = {"layout": "csv", "table": "option_quotes", "exchange": "X", "raw_symbol": "A"}
    with pytest.raises(QueryError, match=f"time_unit: {reason}"):
        ingest(write(OPTION, "1700000000000,2024-03-29,60000,call,BTC"), lake, time_unit=unit, **market)
