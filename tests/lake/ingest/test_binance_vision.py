"""Dumps of data.binance.vision, in the layouts of https://github.com/binance/binance-public-data."""

from __future__ import annotations

import zipfile

import pytest

from ingested import ingest
from tidytape.errors import IngestError, QueryError
from tidytape.lake._batch import Spool
from tidytape.lake.ingest import BinanceVision, Market
from tidytape.lake.ingest._layout import Job

MS = 10**6
T = 1_723_075_200_000  # 2024-08-08 00:00 UTC [ms]

SPOT = "51175358,17.80180000,5.69000000,101.29224200,{time},True,True"
FUTURE = "28457,4.00000100,12.00000000,48.00,{time},true"
FUTURE_HEADER = "id,price,qty,quote_qty,time,is_buyer_maker"
AGG_HEADER = "agg_trade_id,price,quantity,first_trade_id,last_trade_id,transact_time,is_buyer_maker"
AGG = "26129,0.01633102,4.70443515,27781,27783,{time},false"
KLINE_HEADER = (
    "open_time,open,high,low,close,volume,close_time,quote_volume,count,taker_buy_volume,"
    "taker_buy_quote_volume,ignore"
)
KLINE = f"{T},4.15,4.16,4.14,4.155,539.23,{T + 59_999},2240.4,13,401.82,1669.98,0"
FUNDING = ("calc_time,funding_interval_hours,last_funding_rate", f"{T + 1},8,0.00010000")
METRICS = (
    "create_time,symbol,sum_open_interest,sum_open_interest_value,count_toptrader_long_short_ratio,"
    "sum_toptrader_long_short_ratio,count_long_short_ratio,sum_taker_long_short_vol_ratio"
)
LIQUIDATIONS = (
    "time,side,order_type,time_in_force,original_quantity,price,average_price,order_status,last_fill_quantity,"
    "accumulated_fill_quantity"
)
SOLD = f"{T},SELL,LIMIT,IOC,7,30741.3,30631.6,FILLED,6,7"


def put(path, lake, **options):
    return ingest(path, lake, layout="binance-vision", **{"exchange": "BINANCE", **options})


def rows(lake, table):
    return lake.scan(table).sort("timestamp").collect().to_dicts()


def zipped(tmp_path, name, *lines):
    path = tmp_path / name
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr(name.replace(".zip", ".csv"), "".join(f"{line}\n" for line in lines))
    return path


@pytest.mark.parametrize(("time", "unit"), [(T, "ms"), (T * 1000 + 7, "us")])
def test_spot_trades_have_no_header_and_times_in_ms_or_us(tmp_path, lake, time, unit):
    report = put(zipped(tmp_path, "BTCUSDT-trades-2024-08-08.zip", SPOT.format(time=time)), lake)
    assert report.files[0].time_unit == unit
    assert rows(lake, "trades") == [
        {
            "exchange": "BINANCE", "raw_symbol": "BTCUSDT", "id": "51175358", "sequence": 51175358,
            "timestamp": T * MS + (7000 if unit == "us" else 0), "side": "SELL", "price": 17.8018, "amount": 5.69,
            "quote_amount": pytest.approx(101.292242, abs=1e-9), "received": None,
        }
    ]  # fmt: skip


def test_futures_have_a_header(write, lake):
    put(write(FUTURE_HEADER, FUTURE.format(time=T), name="ETHUSDT-trades-2024-08.csv"), lake)
    (row,) = rows(lake, "trades")
    assert (row["raw_symbol"], row["amount"], row["side"]) == ("ETHUSDT", 12.0, "SELL")


COIN_FUTURE = "28457,2500,12,0.048,{time},true"
COIN_HEADER = FUTURE_HEADER.replace("quote", "base")
TEN = {"contract": "inverse", "contract_size": 10}


@pytest.mark.slow
@pytest.mark.parametrize("symbol", ["ETHUSD_PERP", "ETHUSD_240927"])
@pytest.mark.parametrize(
    ("kind", "lines"),
    [
        ("trades", (COIN_HEADER, COIN_FUTURE.format(time=T))),
        ("aggTrades", (AGG_HEADER, f"26129,2500,12,27781,27783,{T},true")),
        ("liquidationSnapshot", (LIQUIDATIONS, f"{T},SELL,LIMIT,IOC,12,2500,2500,FILLED,12,12")),
    ],
)
def test_amounts_of_futures_with_margin_in_coin_are_contracts(write, lake, symbol, kind, lines):
    path = write(*lines, name=f"{symbol}-{kind}-2024-08-08.csv")
    version = lake.version()
    with pytest.raises(
        QueryError, match=f"contract: left out, expected INVERSE, .* BINANCE {symbol} are numbers"
    ):
        put(path, lake)
    with pytest.raises(QueryError, match="contract: got 'LINEAR', expected INVERSE"):
        put(path, lake, contract="linear", contract_size=10)
    assert lake.version() == version
    put(path, lake, **TEN)
    (row,) = rows(lake, "liquidations" if kind == "liquidationSnapshot" else "trades")
    assert (row["amount"], row["quote_amount"]) == (0.048, 120.0)
    # The registered contract is known from now on.
    assert put(write(*lines, "", name=f"{symbol}-{kind}-2024-08-09.csv"), lake).bad_lines == 0


def test_a_column_of_coins_tells_a_future_with_margin_in_coin_whatever_its_symbol(write, lake):
    path = write(COIN_HEADER, COIN_FUTURE.format(time=T))
    with pytest.raises(QueryError, match="contract: left out"):
        put(path, lake, raw_symbol="ETH")
    put(path, lake, raw_symbol="ETH", normalized_symbol="ETH-USD", **TEN)
    assert [row["amount"] for row in rows(lake, "trades")] == [0.048]


def test_a_contract_must_agree_with_the_coins_in_the_file(write, lake):
    path = write(COIN_HEADER, COIN_FUTURE.format(time=T), name="ETHUSD_PERP-trades-2024-08.csv")
    version = lake.version()
    with pytest.raises(
        IngestError, match=r"1 amount not as .*: 0.48 by the size of a contract and 0.048 by the file"
    ):
        put(path, lake, contract="inverse", contract_size=100)
    assert lake.version() == version
    put(path, lake, **TEN)


@pytest.mark.slow
def test_a_contract_can_be_said_after_what_was_told_in_coin(write, lake):
    """Open interest and candles bring their coins along, so they do not forbid a contract later."""
    metrics = write(METRICS, '2024-08-08 00:05:00,ETHUSD_PERP,12,0.048,"","","",1.1')
    put(metrics, lake)
    put(write(KLINE, name="ETHUSD_PERP-1m-2024-08-08.csv"), lake)
    put(write(COIN_HEADER, COIN_FUTURE.format(time=T), name="ETHUSD_PERP-trades-2024-08.csv"), lake, **TEN)
    with pytest.raises(QueryError, match="stored with: INVERSE of 10"):
        put(metrics, lake, contract="inverse", contract_size=100)
    assert [row["amount"] for row in rows(lake, "open_interest")] == [0.048]


@pytest.mark.parametrize("header", [True, False])
@pytest.mark.parametrize("more", ["", ",True"])
def test_aggregate_trades(write, lake, header, more):
    lines = [AGG.format(time=T) + more]
    if header:
        lines.insert(0, AGG_HEADER + (more and ",is_best_match"))
    put(write(*lines, name="BTCUSDT-aggTrades-2024-08-08.csv.gz", packed=True), lake)
    (row,) = rows(lake, "trades")
    assert (row["id"], row["price"], row["amount"], row["side"]) == ("26129", 0.01633102, 4.70443515, "BUY")


def test_funding(write, lake):
    put(write(*FUNDING, name="BTCUSDT-fundingRate-2024-08.csv"), lake)
    (row,) = rows(lake, "funding")
    assert (row["timestamp"], row["rate"], row["funding_interval"]) == ((T + 1) * MS, 1e-4, 8 * 3600 * 10**9)
    assert (row["predicted_rate"], row["next_funding"]) == (None, None)


def test_open_interest(write, lake):
    lines = (
        '2024-08-08 00:05:00,BTCUSDT,1000.5,60030000,"","","",1.1',
        '2024-08-08 00:10:00,BTCUSDT,"","","","","",1.1',
    )
    report = put(write(METRICS, *lines, name="BTCUSDT-metrics-2024-08-08.csv"), lake)
    assert report.files[0].ignored == (("metrics without open interest", 1),)
    (row,) = rows(lake, "open_interest")
    assert (row["timestamp"], row["amount"], row["quote_amount"]) == (
        (T + 300_000) * MS,
        1000.5,
        60_030_000.0,
    )


def test_open_interest_of_one_market(write, lake):
    line = '2024-08-08 00:05:00,{},1000.5,60030000,"","","",1.1'
    path = write(METRICS, line.format("BTCUSDT"), line.format("ETHUSDT"))
    report = put(path, lake, raw_symbol="ETHUSDT")
    assert report.files[0].ignored == (("metrics of another market", 1),)
    assert rows(lake, "open_interest")[0]["raw_symbol"] == "ETHUSDT"


def test_an_order_that_sells_liquidates_a_long(write, lake):
    bought = SOLD.replace("SELL", "BUY")
    report = put(
        write(LIQUIDATIONS, SOLD, SOLD, bought, bought, name="BTCUSDT-liquidationSnapshot-2024-08-08.csv"),
        lake,
    )
    assert report.files[0].ignored == (("repeated row", 2),)
    long, short = lake.scan("liquidations").sort("sequence").collect().to_dicts()
    assert (long["side"], short["side"]) == ("BUY", "SELL")
    assert (long["raw_symbol"], long["price"], long["amount"]) == ("BTCUSDT", 30631.6, 7.0)
    assert long["quote_amount"] == pytest.approx(214_421.2)


@pytest.mark.slow
def test_repeated_liquidations_are_seen_across_blocks(write, lake, monkeypatch):
    monkeypatch.setattr("tidytape.lake.ingest._lines.BLOCK", 300)
    others = [SOLD.replace(str(T), str(T + number)) for number in range(20)]
    report = put(write(LIQUIDATIONS, *others, *others), lake, raw_symbol="BTCUSDT")
    assert report.files[0].ignored == (("repeated row", 20),)
    assert lake.scan("liquidations").collect().height == 20


def test_an_order_that_was_not_filled_is_counted(write, lake):
    report = put(
        write(LIQUIDATIONS, SOLD, f"{T},SELL,LIMIT,IOC,7,30741.3,0,EXPIRED,0,0"), lake, raw_symbol="X-USD"
    )
    assert report.files[0].ignored == (("liquidating order that was not filled", 1),)


@pytest.mark.parametrize(
    ("name", "lines", "said"),
    [
        ("BTCUSDT-1mo-2024-08.csv", [KLINE], "klines of months: they differ in length"),
        ("BTCUSDT-7m-2024-08-08.csv", [KLINE], "klines of 7m: none of 1s, 1m, 3m, .* 3d, 1w"),
        (
            "x",
            ["timestamp,percentage,depth,notional", "2024-08-08 00:00:09,-5,1,2"],
            "bookDepth: amounts within",
        ),
        ("BTCUSDT-bookDepth-2024-08-08.csv", ["2024-08-08 00:00:09,-5,1,2"], "bookDepth: amounts within"),
        (
            "x",
            ["update_id,best_bid_price,best_bid_qty,best_ask_price,best_ask_qty,transaction_time,event_time"],
            "bookTicker: the best bid and ask alone",
        ),
        ("x", ["1,2,3"], "neither the first line nor the name tells"),
        ("x", [""], "the file has no lines"),
        (
            "BTCUSDT-trades-2024-08-08.csv",
            [AGG_HEADER, AGG.format(time=T)],
            "its name says trades, and its header aggT",
        ),
        ("BTCUSDT-trades-2024-08-08.csv", ["1,2,3"], "3 columns instead of 6 or 7"),
        ("BTCUSDT-metrics-2024-08-08.csv", ["1,2,3"], "metrics without its header"),
    ],
)
def test_what_is_refused(write, lake, name, lines, said):
    with pytest.raises(IngestError, match=said):
        put(write(*lines, name=name), lake)


def test_the_venue_and_the_market_must_be_known(write, lake):
    path = write(FUTURE_HEADER, FUTURE.format(time=T))
    with pytest.raises(QueryError, match="exchange: left out"):
        ingest(path, lake, layout="binance-vision", raw_symbol="X-USD")
    with pytest.raises(QueryError, match="raw_symbol: left out"):
        put(path, lake)
    put(path, lake, raw_symbol="ETHUSDT")
    assert rows(lake, "trades")[0]["raw_symbol"] == "ETHUSDT"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        (("28457", "x1"), "the id '.*' is not an integer"),
        (("4.00000100", "nan"), "the price '.*' is not a finite number"),
        (("12.00000000", "0"), "the qty '.*' is not a finite number above 0"),
        (("true", "maybe"), "the is_buyer_maker '.*' is not one of true"),
        ((f"{T}", "1723075200"), "the time '.*' is not an epoch time in ms between 2000 and 2100"),
        ((f"{T}", f"{T}000"), "the time '.*' is not an epoch time in ms"),
        ((",true", ""), "5 columns, and the header has 6"),
        ((",true", ",true,1"), "more columns than the header"),
        (("4.00000100", ""), "no price"),
    ],
)
def test_a_broken_line_is_named_and_nothing_goes_in(write, lake, changes, reason):
    good = FUTURE.format(time=T)
    path = write(FUTURE_HEADER, good, good.replace(*changes), name="ETHUSDT-trades-2024-08-08.csv")
    with pytest.raises(IngestError, match=reason) as caught:
        put(path, lake)
    assert caught.value.line == 3
    assert rows(lake, "trades") == []
    assert put(path, lake, skip_bad=True).bad_lines == 1


def test_a_first_line_that_is_no_text_is_a_bad_line_where_dumps_have_no_header(write, lake):
    path = write(
        b"\xff" + SPOT.format(time=T).encode(), SPOT.format(time=T), name="BTCUSDT-trades-2024-08-08.csv"
    )
    with pytest.raises(IngestError, match=":1: not UTF-8"):
        put(path, lake)
    assert put(path, lake, skip_bad=True).bad_lines == 1
    assert [row["id"] for row in rows(lake, "trades")] == ["51175358"]


def test_a_stream_that_breaks_off_is_a_bad_line(write, lake):
    path = write(FUTURE_HEADER, *(FUTURE.format(time=T + n) for n in range(500)), name="a.gz", packed=True)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(IngestError, match="the gzip stream breaks off"):
        put(path, lake, raw_symbol="ETHUSDT")


def test_the_recorded_open_interest(lake, recorded):
    put(recorded / "binance-vision_quoted_rows_BTCUSD_PERP_metrics.csv", lake)
    # The file counts contracts of 100 dollars, 5,578,700 of them, and says what they are worth in coin.
    assert [
        (row["timestamp"], row["raw_symbol"], row["amount"], row["quote_amount"])
        for row in rows(lake, "open_interest")
    ] == [
        (1_687_651_200 * 10**9, "BTCUSD_PERP", 18265.00911826, None),
        (1_687_651_500 * 10**9, "BTCUSD_PERP", 18261.90678854, None),
        (1_687_651_800 * 10**9, "BTCUSD_PERP", 18244.30356547, None),
    ]


@pytest.mark.slow
def test_the_recorded_liquidations_come_doubled(lake, recorded):
    path = recorded / "binance-vision_quoted_rows_BTCUSD_PERP_liquidationSnapshot.csv"
    report = put(path, lake, raw_symbol="BTCUSD_PERP", contract="inverse", contract_size=100)
    assert report.files[0].ignored == (("repeated row", 1),)
    assert [
        (row["timestamp"], row["side"], row["price"], row["amount"]) for row in rows(lake, "liquidations")
    ] == [
        (1_687_656_471_926 * MS, "SELL", 30631.6, 700 / 30631.6),
        (1_687_656_473_356 * MS, "SELL", 30631.6, 4300 / 30631.6),
    ]


def test_open_interest_is_in_coin_where_trades_are_contracts(recorded):
    path = recorded / "binance-vision_quoted_rows_BTCUSD_PERP_metrics.csv"
    assert BinanceVision().read(Job(path, Market(exchange="X")), Spool(), lambda _: None).coins == {
        "open_interest"
    }


@pytest.mark.slow
def test_equal_rates_of_two_markets_are_two_files(write, lake):
    rates = ("calc_time,funding_interval_hours,last_funding_rate", "1723161600000,8,0.0001")
    for symbol in ("BTCUSDT", "ETHUSDT", "BTCUSDT"):
        report = ingest(
            write(*rates, name=f"{symbol}-fundingRate-2024-08.csv"),
            lake,
            layout="binance-vision",
            exchange="BINANCE",
        )
    assert report.files[0].already_ingested
    assert set(lake.scan("funding").collect()["raw_symbol"]) == {"BTCUSDT", "ETHUSDT"}
