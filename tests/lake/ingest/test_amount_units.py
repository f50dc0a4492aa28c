"""What amounts count, in every layout and every table: refused until it is said, or known from the data itself."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from ingested import ingest
from lakes import empty_lake
from tables import each_row
from tidytape import Client
from tidytape.errors import IngestError, QueryError
from tidytape.lake._amount_units import CountedUnit, documented, of_mapped, of_symbol
from tidytape.lake._tables import OPTION_QUOTES
from tidytape.lake.ingest import LAYOUTS, Csv, Market
from tidytape.lake.ingest import ingest as ingest_as
from tidytape.lake.ingest._contracts import COUNTED
from tidytape.lake.ingest._conversions import units_of

MAPPED = ("csv", "jsonl", "parquet")

T = 1_723_161_600  # 2024-08-09 00:00 UTC [s]
SAID = {"contract": "inverse", "contract_size": 100}

# --- the files ------------------------------------------------------------------------------------------------------


def vision(kind, symbol):
    """A dump of data.binance.vision without a header's help: its name says what it is."""
    lines = {
        "trades": ["id,price,qty,base_qty,time,is_buyer_maker", f"1,50000,12,0.024,{T}000,true"]
        if symbol.startswith("BTCUSD_")
        else ["id,price,qty,quote_qty,time,is_buyer_maker", f"1,50000,12,600000,{T}000,true"],
        "liquidationSnapshot": [
            (
                "time,side,order_type,time_in_force,original_quantity,price,average_price,order_status,"
                "last_fill_quantity,accumulated_fill_quantity"
            ),
            f"{T}000,SELL,LIMIT,IOC,12,50000,50000,FILLED,12,12",
        ],
    }
    return f"{symbol}-{kind}-2024-08-09.csv", lines[kind]


def log(symbol, kind, **more):
    """A recorded WebSocket log of one message."""
    own = {
        "trade": {"t": 1, "p": "50000", "q": "12", "T": T * 1000, "m": False},
        "depthUpdate": {"U": 1, "u": 2, "pu": 0, "b": [["50000", "12"]], "a": []},
    }
    data = {"e": kind, "E": T * 1000, "s": symbol, **own[kind], **more}
    return "log", [f"{T}000000000 " + json.dumps({"stream": f"{symbol.lower()}@{kind}", "data": data})]


FIRST = "exchange,symbol,timestamp,local_timestamp"
TARDIS = {
    "trades": ("trades", f"{FIRST},id,side,price,amount", "a,buy,50000,12"),
    "liquidations": ("liquidations", f"{FIRST},id,side,price,amount", "a,buy,50000,12"),
    "book": ("incremental_book_L2", f"{FIRST},is_snapshot,side,price,amount", "true,bid,50000,12"),
    "open_interest": (
        "derivative_ticker",
        f"{FIRST},funding_timestamp,funding_rate,predicted_funding_rate,open_interest,last_price,index_price,mark_price",
        ",,,12,,,50000",
    ),
}


def tardis(table, exchange, symbol):
    name, head, rest = TARDIS[table]
    return f"x_{name}_x.csv", [head, f"{exchange},{symbol},{T}000000,{T}000160,{rest}"]


def message(table, exchange, symbol):
    """A normalised message of tardis-node."""
    time = "2024-08-09T00:00:00.000Z"
    own = {
        "trades": {"type": "trade", "id": "a", "price": 50000, "amount": 12, "side": "buy"},
        "liquidations": {"type": "liquidation", "id": "a", "price": 50000, "amount": 12, "side": "buy"},
        "open_interest": {"type": "derivative_ticker", "openInterest": 12, "markPrice": 50000},
    }
    both = {"exchange": exchange, "symbol": symbol, "timestamp": time, "localTimestamp": time}
    return "messages", [json.dumps(both | own[table])]


ROWS = {
    "trades": {"side": "buy", "price": 50000, "amount": 12},
    "book": {"is_snapshot": "true", "side": "bid", "price": 50000, "size": 12},
    "liquidations": {"side": "buy", "price": 50000, "amount": 12},
    "candles": {"interval": "1m", "open": 1, "high": 1, "low": 1, "close": 1, "volume": 12},
    "open_interest": {"amount": 12, "price": 50000},
    "cme_open_interest": {"amount": 12, "price": 50000},
}


def mapped(layout, table, folder):
    row = {"timestamp": T} | ROWS[table]
    path = folder / f"{table}.{layout}"
    if layout == "parquet":
        pl.DataFrame([row]).write_parquet(path)
    elif layout == "jsonl":
        path.write_text(json.dumps(row) + "\n")
    else:
        path.write_text(f"{','.join(row)}\n{','.join(map(str, row.values()))}\n")
    return path


# --- what decides ---------------------------------------------------------------------------------------------------

OF_TARDIS = "Tardis's own name of the exchange, and the symbol"
OF_THE_MAP = "the map (coins), unless the symbol or the exchange is known to count something else"
DECIDES = {
    ("binance-vision", "trades"): "the symbol, or a column `base_qty`",
    ("binance-vision", "candles"): "the column of coins that the file also has",
    ("binance-vision", "open_interest"): "the column with the value in coins that the file also has",
    ("binance-vision", "liquidations"): "the symbol",
    ("binance-ws", "trades"): "`ps` in the messages, or the symbol",
    ("binance-ws", "book"): "`ps` in the messages, or the symbol",
    ("cryptofeed", "open_interest"): "the list of instruments itself",
    ("deribit-chain", "option_quotes"): "the layout: coins",
    **{("tardis", table): OF_TARDIS for table in ("trades", "book", "open_interest", "liquidations")},
    ("tardis", "option_quotes"): f"{OF_TARDIS}; if they do not show the unit, open interest is null",
    **{("tardis-node", table): OF_TARDIS for table in ("trades", "open_interest", "liquidations")},
    ("tardis-node", "option_quotes"): f"{OF_TARDIS}; if they do not show the unit, open interest is null",
    **{
        (layout, table): OF_THE_MAP
        for layout in MAPPED
        for table in (*(table.name for table in COUNTED), OPTION_QUOTES.name)
    },
}


def test_every_layout_says_what_decides():
    """The guide's table derives from it."""
    said = {
        (name, table): decides
        for name, layout in LAYOUTS.items()
        for table, decides in layout.amounts.items()
    }
    assert said.items() >= DECIDES.items()
    assert all(said.values())
    assert {table for _, table in said} <= {*(table.name for table in COUNTED), OPTION_QUOTES.name}
    assert {layout for layout, _ in said} == set(LAYOUTS)
    assert all(units == CountedUnit(units) for units in CountedUnit)


AMOUNT = {"book": "size", "candles": "volume"}


def amounts(lake, table):
    return lake.scan(table).collect()[AMOUNT.get(table, "amount")].to_list()


REFUSED = [
    ("binance-vision", "trades", vision("trades", "BTCUSD_PERP")),
    ("binance-vision", "trades", vision("trades", "BTCUSD_240927")),
    ("binance-vision", "liquidations", vision("liquidationSnapshot", "BTCUSD_PERP")),
    ("binance-ws", "trades", log("BTCUSD_PERP", "trade")),
    ("binance-ws", "trades", log("BTCUSD_240927", "trade")),
    ("binance-ws", "trades", log("BTCUSD", "trade", ps="BTCUSD")),
    ("binance-ws", "book", log("BTCUSD_PERP", "depthUpdate")),
    ("binance-ws", "book", log("BTCUSD", "depthUpdate", ps="BTCUSD")),
    *(("tardis", table, tardis(table, "binance-delivery", "BTCUSD_PERP")) for table in TARDIS),
    *(("tardis", table, tardis(table, "bitmex", "XBTUSD")) for table in TARDIS),
    *(("tardis", table, tardis(table, "okex-swap", "BTC-USDT-SWAP")) for table in TARDIS),
    *(("tardis", table, tardis(table, "deribit", "BTC-PERPETUAL")) for table in TARDIS),
    *(("tardis", table, tardis(table, "new-exchange", "BTCUSDT")) for table in TARDIS),
    *(
        ("tardis-node", table, message(table, "huobi-dm-swap", "BTC-USD"))
        for table in ("trades", "open_interest", "liquidations")
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize(("layout", "table", "file"), REFUSED)
@pytest.mark.parametrize(
    "exchange",
    ["WHATEVER", pytest.param("BINANCE", marks=pytest.mark.long)],
)
def test_what_counts_contracts_is_refused_until_it_is_said(write, lake, layout, table, file, exchange):
    name, lines = file
    path = write(*lines, name=name)
    version = lake.version()
    with pytest.raises(QueryError, match=r"(contract|amount_unit): left out, expected .*the amounts of"):
        ingest(path, lake, layout=layout, exchange=exchange)
    assert lake.version() == version
    ingest(path, lake, layout=layout, exchange=exchange, **SAID)
    assert amounts(lake, table) == [12 * 100 / 50000]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("symbol", "exchange"),
    [
        ("XBTUSD", "BITMEX"),
        pytest.param("BTCUSD_PERP", "X", marks=pytest.mark.long),
        pytest.param("BTC-USD-SWAP", "X", marks=pytest.mark.long),
    ],
)
@pytest.mark.parametrize("table", [table.name for table in COUNTED])
@pytest.mark.parametrize("layout", MAPPED)
def test_a_map_does_not_make_coins_of_contracts(tmp_path, lake, layout, table, symbol, exchange):
    path = mapped(layout, table, tmp_path)
    market = {"layout": layout, "table": table, "exchange": exchange, "raw_symbol": symbol}
    with pytest.raises(QueryError, match="contract: left out"):
        ingest(path, lake, **market)
    assert lake.scan(table).collect().is_empty()
    ingest(path, lake, **market, **SAID)
    assert amounts(lake, table) == [None if table == "candles" else 12 * 100 / 50000]
    other = empty_lake(tmp_path / "other")
    ingest(path, other, **market, amount_unit="coin")  # whoever converted them may say so
    assert amounts(other, table) == [12.0]


COINS = [
    ("binance-vision", "trades", vision("trades", "BTCUSDT_240927")),
    ("binance-vision", "trades", vision("trades", "BTCUSDT")),
    ("binance-ws", "trades", log("BTCUSDT_240927", "trade")),
    ("binance-ws", "trades", log("BTCBUSD_210129", "trade")),
    ("binance-ws", "trades", log("BTCUSDT_240927", "trade", ps="BTCUSDT")),
    ("binance-ws", "book", log("BTCUSDT", "depthUpdate")),
    *(("tardis", table, tardis(table, "binance-futures", "BTCUSDT")) for table in TARDIS),
    *(("tardis", table, tardis(table, "binance-futures", "BTCUSDT_240927")) for table in TARDIS),
    *(("tardis", table, tardis(table, "bybit", "BTCUSDT")) for table in TARDIS),
    *(("tardis", table, tardis(table, "deribit", "BTC_USDC-PERPETUAL")) for table in TARDIS),
    *(("tardis", table, tardis(table, "ftx", "BTC-PERP")) for table in TARDIS),
    ("tardis-node", "trades", message("trades", "coinbase-international", "BTC-PERP")),
]


@pytest.mark.slow
@pytest.mark.parametrize(("layout", "table", "file"), COINS)
def test_what_counts_coins_goes_in_as_it_is(write, lake, layout, table, file):
    name, lines = file
    ingest(write(*lines, name=name), lake, layout=layout, exchange="BINANCE_COINM")
    assert amounts(lake, table) == [12.0]


@pytest.mark.slow
@pytest.mark.parametrize("symbol", ["BTCUSDT", "BTCUSDT_240927", "BTC-USDT", "PERP_BTC_USDT"])
@pytest.mark.parametrize("table", [table.name for table in COUNTED])
def test_a_map_of_coins_goes_in_as_it_is(tmp_path, lake, table, symbol):
    ingest(mapped("csv", table, tmp_path), lake, layout="csv", table=table, exchange="X", raw_symbol=symbol)
    assert amounts(lake, table) == [12.0]


@pytest.mark.slow
def test_a_depth_answer_of_a_future_names_its_market(write, lake):
    """A log without any update: the answer itself says what it is of."""
    answer = {
        "lastUpdateId": 7, "E": T * 1000, "symbol": "BTCUSD_PERP", "pair": "BTCUSD", "bids": [["50000", "12"]],
        "asks": [],
    }  # fmt: skip
    path = write(f"{T}000000000 " + json.dumps(answer))
    with pytest.raises(QueryError, match="BTCUSD_PERP are numbers of contracts"):
        ingest(path, lake, layout="binance-ws", exchange="X")
    ingest(path, lake, layout="binance-ws", exchange="X", **SAID)
    assert amounts(lake, "book") == [0.024]


@pytest.mark.slow
def test_a_coin_margined_log_as_it_is_recorded(write, lake):
    """83,241 contracts of 100 USD are 134.97 BTC, whatever the exchange is called."""
    prices_and_contracts = [("61700.0", "40000"), ("61650.5", "43241")]
    lines = [
        log("BTCUSD_PERP", "trade", t=number, p=price, q=count)[1][0]
        for number, (price, count) in enumerate(prices_and_contracts)
    ]
    path = write(*lines)
    with pytest.raises(QueryError, match="contract: left out, expected INVERSE"):
        ingest(path, lake, exchange="BINANCE")
    with pytest.raises(QueryError, match="amount_unit: got 'coin', expected contracts"):
        ingest(path, lake, exchange="BINANCE", amount_unit="coin")
    ingest(path, lake, exchange="BINANCE", **SAID)
    trades = lake.scan("trades").collect()
    assert trades["amount"].sum() == pytest.approx(134.96875003)
    assert trades["quote_amount"].sum() == 8_324_100.0


@pytest.mark.long
def test_the_recorded_spot_and_linear_logs_count_coins(recorded, lake):
    names = ("binance-spot_ws_btcusdt_20240808.gz", "binance-usdm_ws_btcusdt_20240808.gz")
    ingest(recorded / names[0], lake, exchange="BINANCE")
    ingest(recorded / names[1], lake, exchange="BINANCE_USDM")
    assert lake.markets()["contract"].to_list() == [None, None]


# --- said by the caller ---------------------------------------------------------------------------------------------

CANDLE = "timestamp,interval,open,high,low,close,volume"
MARKET = {"layout": "csv", "exchange": "FTX", "raw_symbol": "BTC-PERP"}


def candles(lake):
    return lake.scan("candles").sort("timestamp").select("volume", "quote_volume").collect().rows()


@pytest.mark.slow
def test_candles_that_count_the_quote_have_no_volume_in_coin(write, lake):
    path = write(CANDLE, f"{T},1h,60000,61000,59000,60500,1210000")
    with pytest.raises(
        QueryError, match=r"amount_unit: left out, expected quote .* FTX BTC-PERP count the quote"
    ):
        ingest(path, lake, table="candles", **MARKET)
    ingest(path, lake, table="candles", amount_unit="quote", **MARKET)
    assert candles(lake) == [(None, 1_210_000.0)]
    # The registry remembers it for the candles of this market, and for nothing else.
    ingest(write(CANDLE, f"{T + 3600},1h,1,1,1,1,5", name="b"), lake, table="candles", **MARKET)
    ingest(write("timestamp,side,price,amount", f"{T},buy,60000,2", name="c"), lake, **MARKET)
    assert candles(lake) == [(None, 1_210_000.0), (None, 5.0)]
    assert amounts(lake, "trades") == [2.0]
    assert units_of(lake.markets()["amount_units"].item()) == {"candles": CountedUnit.QUOTE}


@pytest.mark.slow
def test_such_candles_answer_in_dollars_and_are_unknown_in_coins(write, lake):
    path = write(CANDLE, f"{T},1h,60000,61000,59000,60500,1210000")
    ingest(path, lake, table="candles", amount_unit="quote", **MARKET)
    asked = {"exchange": "FTX", "raw_symbol": "BTC-PERP", "interval": "1h", "start": T, "end": T + 3600}
    with Client.local(lake.path) as client:
        assert client.candles(**asked).select("close", "volume").rows() == [(60500.0, None)]
        assert client.candles(quote="USD", **asked)["volume"].to_list() == [1_210_000.0]


def test_trades_that_count_the_quote_are_divided_by_their_price(write, lake):
    path = write("timestamp,side,price,amount", f"{T},buy,50000,125000")
    ingest(path, lake, amount_unit="quote", **MARKET)
    assert lake.scan("trades").collect().select("amount", "quote_amount").rows() == [(2.5, 125_000.0)]


@pytest.mark.slow
@pytest.mark.parametrize(("first", "then"), [("coin", "quote"), ("quote", "coin")])
def test_a_market_keeps_one_unit_in_each_table(write, lake, first, then):
    head = "timestamp,side,price,amount"
    ingest(write(head, f"{T},buy,5,2"), lake, amount_unit=first, **MARKET)
    version = lake.version()
    with pytest.raises(QueryError, match=f"amount_unit: got '{then}', .*was stored with: amounts in {first}"):
        ingest(write(head, f"{T + 1},buy,5,2", name="b"), lake, amount_unit=then, **MARKET)
    with pytest.raises(QueryError, match="was stored with: amounts in"):
        ingest(write(head, f"{T + 1},buy,5,2", name="b"), lake, **SAID, **MARKET)
    assert lake.version() == version


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"amount_unit": "coins"}, "amount_unit: got 'coins', expected one of coin, quote, contracts; did you"),
        ({"amount_unit": "contracts"}, "contract: left out, expected what one contract is"),
        ({"amount_unit": "contracts", "contract": "linear"}, "contract_size: left out"),
        ({"amount_unit": "contracts", "contract_size": 1}, "contract_size: got 1, expected contract beside it"),
        ({"amount_unit": "coin", **SAID}, "amount_unit: got 'coin', expected contracts, or nothing, beside contract"),
    ],
)  # fmt: skip
def test_what_cannot_be_right_is_named(write, lake, options, reason):
    with pytest.raises(QueryError, match=reason):
        ingest(write("timestamp,side,price,amount", f"{T},buy,5,2"), lake, **options, **MARKET)


@pytest.mark.slow
def test_open_interest_of_options_whose_unit_is_not_known_is_null_and_counted(write, lake):
    head = f"{FIRST},type,strike_price,expiration,open_interest,mark_price,mark_iv,delta,underlying_price"
    rest = f"{T}000000,{T}000160,call,60000,{T + 86_400}000000,486,0.02,60,0.5,61000"
    rows = (f"okex-options,BTC-USD-240810-60000-C,{rest}", f"deribit,BTC-10AUG24-60000-C,{rest}")
    report = ingest(write(head, *rows), lake, layout="tardis")
    quotes = lake.scan("option_quotes").sort("exchange").collect()
    assert quotes["open_interest"].to_list() == [486.0, None]
    assert "1 option quote of OKEX_OPTIONS, whose open interest counts contracts" in str(report)
    other = empty_lake(Path(lake.path).parent / "other")
    ingest(write(head, rows[0], name="b"), other, layout="tardis", contract="linear", contract_size=0.5)
    assert other.scan("option_quotes").collect()["open_interest"].to_list() == [243.0]


@pytest.mark.parametrize(("quote_volume", "ratio"), [(121_000, None), (12_100, "0.1"), (1_220_000, "10")])
def test_candles_whose_own_quote_volume_no_price_explains_are_refused(write, lake, quote_volume, ratio):
    """2 contracts of 0.1 BTC are worth a tenth of 2 BTC: the file says it itself."""
    path = write(f"{CANDLE},quote_volume", f"{T},1h,60500,61000,60500,60500,2,{quote_volume}")
    market = {"layout": "csv", "table": "candles", "exchange": "X", "raw_symbol": "BTCUSDT"}
    if ratio is None:
        ingest(path, lake, **market)
        return
    with pytest.raises(
        IngestError, match=f"of X BTCUSDT quote_volume is {ratio} times volume × price, so one of"
    ):
        ingest(path, lake, **market)
    assert candles(lake) == []
    if ratio == "0.1":
        ingest(path, lake, contract="linear", contract_size=0.1, **market)
        assert candles(lake) == [(0.2, 12_100.0)]


# --- what is known of symbols and exchanges -------------------------------------------------------------------------

COIN, QUOTE, CONTRACTS = CountedUnit


@each_row(
    ("symbol", "unit"),
    [
        ("BTCUSD_PERP", CONTRACTS), ("btcusd_perp", CONTRACTS), ("1000SHIBUSD_PERP", CONTRACTS),
        ("BTCUSD_240927", CONTRACTS), ("BTCUSDT_240927", COIN), ("BTCBUSD_210129", COIN), ("ETHUSDC_250627", COIN),
        ("BTC-USDT-SWAP", CONTRACTS), ("BTC-USD-240927", CONTRACTS), ("BTC_CQ", CONTRACTS), ("PI_XBTUSD", QUOTE),
        ("FI_XBTUSD_240927", QUOTE), ("BTCUSDT", None), ("BTC-PERP", None), ("BTC_USDT", None), ("BTC-USD", None),
    ],
)  # fmt: skip
def test_a_symbol_says_what_it_counts(symbol, unit):
    assert of_symbol(symbol) is unit


@each_row(
    ("exchange", "symbol", "table", "unit"),
    [
        ("bybit", "BTCUSD", "trades", QUOTE), ("bybit", "BTCUSDM21", "book", QUOTE), ("bybit", "BTCPERP", "book", COIN),
        ("deribit", "BTC-27DEC24", "trades", QUOTE), ("deribit", "BTC-27DEC24-60000-C", "trades", COIN),
        ("deribit", "BTC-FS-27DEC24_PERP", "trades", None), ("phemex", "LINKUSD", "trades", CONTRACTS),
        ("phemex", "BTCUSDT", "trades", COIN), ("cryptofacilities", "PF_XBTUSD", "trades", COIN),
        ("bitget-futures", "BTCUSDZ24", "trades", None), ("lighter", "1", "open_interest", None),
        ("lighter", "1", "trades", COIN), ("ftx", "BTC-PERP", "candles", QUOTE), ("nowhere", "BTC-USD", "trades", None),
    ],
)  # fmt: skip
def test_an_exchange_is_known_by_what_it_documents(exchange, symbol, table, unit):
    assert documented(exchange, symbol, table, otherwise=None) is unit


@pytest.mark.parametrize(
    ("symbol", "unit"), [("BTC-PERP", None), ("BTC-27DEC24", None), ("BTC-USD", COIN), ("BTC", COIN)]
)
def test_a_future_in_dollars_of_an_exchange_that_is_not_known_may_count_anything(symbol, unit):
    assert of_mapped("trades", "X", symbol) is unit


@pytest.mark.parametrize("name", ["bybit", "BITMEX", "Deribit"])
def test_another_name_for_the_exchange_of_a_file_does_not_make_its_amounts_coins(tmp_path, name):
    symbol = "BTC-PERPETUAL" if name == "Deribit" else "BTCUSD"
    file = tmp_path / "trades.csv"
    file.write_text(
        "exchange,symbol,id,price,amount,side,timestamp\n"
        f"{name},{symbol},1,60000,100,buy,2024-08-08T00:00:00Z\n"
    )
    layout = Csv(columns={"raw_symbol": "symbol"})
    for market in (Market(exchange="FOO"), Market(exchange="FOO", raw_symbol=symbol)):
        with pytest.raises(QueryError, match=r"amounts of FOO [A-Z-]+ (count|are)") as raised:
            ingest_as(file, empty_lake(tmp_path / "lake"), layout, market=market)
        assert raised.value.parameter in {"amount_unit", "contract"}
    # A name of a file that is not known has no say about an exchange that is.
    file.write_text(file.read_text().replace(name, "elsewhere"))
    with pytest.raises(QueryError, match="amounts of"):
        ingest_as(file, empty_lake(tmp_path / "lake"), layout, market=Market(exchange=name.upper()))


@pytest.mark.parametrize(
    ("exchange", "symbol", "unit", "of_perpetual"),
    [
        ("BYBIT_INVERSE", "BTCUSD", "quote", "quote"),
        ("BYBIT_PERP", "BTCUSDT", "coin", "coin"),
        ("BITMEX_PERP", "XBTUSD", "contracts", "contracts"),
        ("GATEIO_FUTURES", "BTC_USDT", "contracts", "contracts"),
        ("MEXC_FUTURES", "BTC_USDT", None, None),
        ("HTX_FUTURES", "BTC-USDT", None, None),
        ("OKEX_PERP", "BTCUSDT", None, None),
        ("BINANCE", "BTCUSDT", "coin", "coin"),
        ("binance-futures", "BTCUSDT", "coin", "coin"),
        ("X", "BTCUSDT", "coin", None),
    ],
)
def test_a_part_of_an_exchange_counts_as_it_does_and_a_perpetual_that_is_not_known_must_say(
    exchange, symbol, unit, of_perpetual
):
    assert of_mapped("trades", exchange, symbol) == unit
    assert of_mapped("trades", exchange, symbol, "PERPETUAL") == of_perpetual
