"""The examples of ``tidytape ingest LAYOUT --help``, run on files as their exchanges and recorders write them."""

from __future__ import annotations

import gzip
import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any
from zipfile import ZipFile

import polars as pl
import pytest
from typer.testing import CliRunner

from tidytape.cli import app
from tidytape.cli._examples import EXAMPLES, INGEST
from tidytape.lake import Lake

TIME = 1_723_075_200  # 2024-08-08T00:00Z [s]
OWN_TRADES = "timestamp,px,qty,side\n1723075200,60000,0.5,buy\n"
BINANCE_TRADES = "id,price,qty,quote_qty,time,is_buyer_maker\n1,60000,0.5,30000,1723075200000,true\n"
BINANCE_MESSAGE = {
    "e": "trade", "E": TIME * 1_000, "s": "BTCUSDT", "t": 1, "p": "60000", "q": "0.5", "T": TIME * 1_000, "m": True,
}  # fmt: skip
CHAIN = (
    "timestamp,instrument_name,option_type,strike,expiry_datetime,mark_price,futures_price,implied_volatility,delta,"
    "open_interest,currency\n"
    "2026-03-05T04:27:46+00:00,BTC-25DEC26-100000-C,call,100000,2026-12-25T08:00:00+00:00,0.07,75082,0.49,0.33,2,BTC\n"
)
BITMEX_LIST = [
    {
        "symbol": "XBTUSD", "timestamp": "2024-08-08T00:00:00.000Z", "fundingRate": 0.0001, "openInterest": 5_000,
        "fundingTimestamp": "2024-08-08T04:00:00.000Z", "fundingInterval": "2000-01-01T08:00:00.000Z",
        "markPrice": 60_000.0, "isInverse": True, "isQuanto": False, "multiplier": -100_000_000,
        "underlyingToSettleMultiplier": -100_000_000, "quoteToSettleMultiplier": None,
    }
]  # fmt: skip
TARDIS_TRADES = (
    "exchange,symbol,timestamp,local_timestamp,id,side,price,amount\n"
    f"deribit,BTC-PERPETUAL,{TIME}000000,{TIME}000001,1,buy,60000,10\n"
)
NODE_TRADE = {
    "type": "trade", "symbol": "BTC-USD", "exchange": "coinbase", "id": "1", "price": 60_000, "amount": 0.5,
    "side": "buy", "timestamp": "2024-08-08T00:00:00.000Z", "localTimestamp": "2024-08-08T00:00:00.001Z",
}  # fmt: skip
COINBASE_TRADE = {
    "time": "2024-08-08T00:00:00.5Z", "trade_id": 1, "price": "60000", "size": "0.5", "side": "sell",
}  # fmt: skip
PREDICTION_MARKET = {
    "conditionId": "0x1", "slug": "rain", "updatedAt": "2024-08-08T00:00:00Z", "outcomes": '["Yes", "No"]',
    "clobTokenIds": '["11", "22"]',
}  # fmt: skip
CANDLE = {"timestamp": [TIME], "open": [1.0], "high": [2.0], "low": [1.0], "close": [2.0], "volume": [3.0]}
KRAKEN_TRADE = ["60000.0", "0.5", TIME + 0.5, "b", "m", "", 1]

FILES: Mapping[str, Any] = MappingProxyType(
    {
        "auto": BINANCE_TRADES,
        "binance-vision": BINANCE_TRADES,
        "binance-ws": f"{TIME}000000001 {json.dumps({'stream': 'btcusdt@trade', 'data': BINANCE_MESSAGE})}\n",
        "coinbase": json.dumps([COINBASE_TRADE]),
        "cryptofeed": f"https://www.bitmex.com/api/v1/instrument/active -> {TIME}.5: {json.dumps(BITMEX_LIST)}\n",
        "csv": OWN_TRADES,
        "deribit-chain": CHAIN,
        "feather": CANDLE,
        "json": json.dumps(
            {"result": {"trades": [{"timestamp": TIME, "px": 60_000, "amount": 0.5, "side": "buy"}]}}
        ),
        "jsonl": json.dumps({"timestamp": TIME, "px": 60_000, "qty": 0.5, "side": "buy"}) + "\n",
        "kraken": json.dumps({"error": [], "result": {"XXBTZUSD": [KRAKEN_TRADE], "last": "1"}}),
        "lean": "0,10,12,9,11,1.5\n",
        "polymarket-gamma": json.dumps([PREDICTION_MARKET]),
        "parquet": CANDLE,
        "tardis": TARDIS_TRADES,
        "tardis-node": json.dumps(NODE_TRADE) + "\n",
    }
)
"""By layout: the content of the file that its example names."""

INSIDE = {"20221213_trade.zip": "20221213_btcbusd_minute_trade.csv"}
"""The name of the file inside an archive, where it is not that of the archive."""


def save(path: Path, content: Any) -> None:
    """Write a file, packed as its name says."""
    if path.suffix in {".feather", ".parquet"}:
        candles = pl.DataFrame(content).with_columns(pl.from_epoch("timestamp").dt.replace_time_zone("UTC"))
        candles.write_parquet(path) if path.suffix == ".parquet" else candles.write_ipc(path)
    elif path.suffix == ".zip":
        with ZipFile(path, "w") as archive:
            archive.writestr(INSIDE.get(path.name, f"{path.stem}.csv"), content)
    else:
        path.write_bytes(gzip.compress(content.encode()) if path.suffix == ".gz" else content.encode())


WORDS = {**INGEST, "polymarket-gamma": EXAMPLES["ingest polymarket-gamma"]}


def test_every_layout_has_a_file() -> None:
    assert set(FILES) == set(WORDS)


@pytest.mark.slow
@pytest.mark.parametrize("layout", FILES)
def test_an_example_of_ingest_puts_its_file_into_the_lake(
    layout: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = shlex.split(WORDS[layout])
    save(tmp_path / words[0], FILES[layout])
    done = CliRunner().invoke(app, ["ingest", layout, *words], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert any(Lake("lake").version().values())  # a table has a commit after that which made it
