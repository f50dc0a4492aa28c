"""The files that blocks of the documentation read, by name: a page asks for them with ``<!-- files: NAME -->``."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from zipfile import ZipFile

SECOND = 1_723_075_200  # 2024-08-08T00:00Z, where the demo and the pages have their day
STEP = 600  # between two rows of a day [s]


def trades(scale: int = 1) -> Iterator[tuple[int, int, float, float, str]]:
    """Yield trades of one day: id, time in units of ``1 / scale`` s, price, amount, side of the aggressor."""
    for number in range(86_400 // STEP):
        side = ("buy", "sell")[number % 2]
        yield number + 1, (SECOND + STEP * number) * scale, 60_000.0 + 5 * (number % 40), 0.25, side


def csv(path: Path) -> None:
    """Write trades with the columns of an exchange that no layout knows."""
    rows = [f"{number},{price},{amount},{side},{time}" for number, time, price, amount, side in trades()]
    written(path, "tid,px,qty,side,time", rows)


def binance_trades(path: Path) -> None:
    """Write trades as data.binance.vision has them."""
    rows = [
        f"{number},{price},{amount},{price * amount},{time},{str(side == 'sell').lower()}"
        for number, time, price, amount, side in trades(scale=1_000)
    ]
    written(path, "id,price,qty,quote_qty,time,is_buyer_maker", rows)


def dated_trades(path: Path) -> None:
    """Write trades whose times are days of Europe."""
    instants = [datetime.fromtimestamp(time, UTC) for _, time, *_ in trades()]
    rows = [
        f"{number},{price},{amount},{side},{instant:%d-%m-%Y %H:%M:%S}"
        for instant, (number, _, price, amount, side) in zip(instants, trades(), strict=True)
    ]
    written(path, "tid,px,qty,side,time", rows)


def inverse_trades(path: Path) -> None:
    """Write trades of contracts of 100 USD as data.binance.vision has them, with their coins."""
    rows = [
        f"{number},{price},3,{300 / price:.8f},{time},{str(side == 'sell').lower()}"
        for number, time, price, _, side in trades(scale=1_000)
    ]
    written(path, "id,price,qty,base_qty,time,is_buyer_maker", rows)


def hours(path: Path) -> None:
    """Write candles of an hour under our names of the columns."""
    rows = [f"{SECOND + 3_600 * hour},60000,60200,59900,60100,12.5" for hour in range(24)]
    written(path, "timestamp,open,high,low,close,volume", rows)


def days(path: Path) -> None:
    """Write daily candles, of which the last one is not over; ``daily_2.csv`` was downloaded a day later."""
    count = int(path.stem[-1]) + 2
    rows = [
        f"{SECOND + 86_400 * day},60000,60200,59900,60100,{12.5 if day < count - 1 else 1.5}"
        for day in range(count)
    ]
    written(path, "timestamp,open,high,low,close,volume", rows)


def broker_minutes(path: Path) -> None:
    """Write minutes of a share in the time of New York, as programs of brokers export them."""
    rows = [
        f"08/08/2024,{9 + minute // 60:02}:{minute % 60:02},212.1,212.4,211.9,212.3,1500"
        for minute in range(30, 60)
    ]
    written(path, "Date,Time,Open,High,Low,Close,Volume", rows)


def yahoo_days(path: Path) -> None:
    """Write daily candles of a share as ``to_csv`` of a frame of yfinance does."""
    names = ["Close,High,Low,Open,Volume", ",".join(["AAPL"] * 5), ",,,,"]
    head = [f"{first},{rest}" for first, rest in zip(("Price", "Ticker", "Date"), names, strict=True)]
    rows = [f"2024-08-{day:02},213.3,214.2,208.8,213.1,47161100" for day in (5, 6, 7, 8, 9)]
    written(path, "\n".join(head), rows)


def binance_candles(path: Path) -> None:
    """Write candles of a minute as data.binance.vision has them, without a head."""
    starts = [(SECOND + 60 * minute) * 1_000 for minute in range(1_440)]
    rows = [f"{start},60000,60200,59900,60100,2,{start + 59_999},120100,9,1,60050,0" for start in starts]
    written(path, None, rows)


def tardis_ticker(path: Path) -> None:
    """Write funding as Tardis has it, which does not say over which interval."""
    rows = [
        f"bitmex,XBTUSD,{time},{time + 50_000},{SECOND * 1_000_000 + 28_800_000_000},0.0001,0.0001,,60000,60001,60002"
        for _, time, *_ in trades(scale=1_000_000)
    ]
    head = "exchange,symbol,timestamp,local_timestamp,funding_timestamp,funding_rate,predicted_funding_rate"
    written(path, f"{head},open_interest,last_price,index_price,mark_price", rows)


def tardis_messages(path: Path) -> None:
    """Write trades as tardis-node sends them, of a market whose symbol names no coin."""
    rows = []
    for number, time, _, amount, side in trades():
        instant = f"{datetime.fromtimestamp(time, UTC):%Y-%m-%dT%H:%M:%S}.000Z"
        rows.append(
            json.dumps(
                {
                    "type": "trade",
                    "symbol": "BUSZ2",
                    "exchange": "gate-io",
                    "id": str(number),
                    "price": 1.0,
                    "amount": amount,
                    "side": side,
                    "timestamp": instant,
                    "localTimestamp": instant,
                }
            )
        )
    written(path, None, rows)


def lake(path: Path) -> None:
    """Make a lake of two commits, with trades of two exchanges."""
    from tidytape.lake import Lake
    from tidytape.lake.ingest import Market, ingest

    file = path.parent / "BTCUSDT-trades-2024-08-08.csv"
    binance_trades(file)
    made = Lake.create(path)
    for exchange in ("X", "Y"):
        ingest(file, made, market=Market(exchange=exchange))


def written(path: Path, head: str | None, rows: list[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = ("\n".join([*filter(None, [head]), *rows]) + "\n").encode()
    if path.suffix == ".zip":
        with ZipFile(path, "w") as packed:
            packed.writestr(f"{path.stem}.csv", text)
    else:
        path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)


FILES: dict[str, Callable[[Path], None]] = {
    "AAPL.csv": yahoo_days,
    "BTCUSDT-1m-2024-08-08.zip": binance_candles,
    "BTCUSD_PERP-trades-2024-08-08.zip": inverse_trades,
    "AAPL_minutes.csv": broker_minutes,
    "bitmex_derivative_ticker_XBTUSD.csv.gz": tardis_ticker,
    "daily_1.csv": days,
    "daily_2.csv": days,
    "dated_trades.csv": dated_trades,
    "ftx_hours.csv": hours,
    "futures/BTCUSDT-trades-2024-08-08.csv": binance_trades,
    "hours.csv": hours,
    "lake": lake,
    "spot/BTCUSDT-trades-2024-08-08.csv": binance_trades,
    "trades.csv.gz": csv,
    "trades.jsonl.gz": tardis_messages,
}
