"""Trades and aggregated trades are the same trades under other ids: a market takes one kind, whatever the names."""

from __future__ import annotations

import gzip
import threading
import zipfile
from itertools import product
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from lakes import empty_lake
from tidytape.errors import IngestError
from tidytape.lake import Batch, Lake
from tidytape.lake._tables import TRADES
from tidytape.lake.hygiene import compact, vacuum
from tidytape.lake.ingest import BinanceVision, BinanceWs, Csv, Market, Tardis, ingest
from tidytape.lake.record import follow

T = 1_740_787_200_012_345  # 2025-03-01, in us
NAMES = {"trades": "BTCUSDT-trades-2025-03-01.csv", "aggTrades": "BTCUSDT-aggTrades-2025-03-01.csv"}
HEADERS = {
    "trades": "id,price,qty,quote_qty,time,is_buyer_maker",
    "aggTrades": "agg_trade_id,price,quantity,first_trade_id,last_trade_id,transact_time,is_buyer_maker",
}
ROWS = {
    "trades": [
        f"101,60000.00,0.10,6000.0,{T},False",
        f"102,60001.00,0.20,12000.2,{T + 1},True",
        f"103,60001.00,0.30,18000.3,{T + 1},True",
    ],
    "aggTrades": [f"51,60000.00,0.10,101,101,{T},False", f"52,60001.00,0.50,102,103,{T + 1},True"],
}
BINANCE = Market(exchange="BINANCE", raw_symbol="BTCUSDT", category="SPOT")
KINDS = tuple(NAMES)
FORMS = list(product(("as it is", "renamed"), (True, False), ("", ".gz", ".zip")))
"""Name, header and packing of a file."""


def made(folder: Path, kind: str, form: tuple[str, bool, str]) -> Path:
    name, has_header, packing = form
    # Files of the spot market have one more column and no header.
    rows = ROWS[kind] if has_header else [f"{row},True" for row in ROWS[kind]]
    text = "\n".join([*([HEADERS[kind]] if has_header else []), *rows, ""])
    folder.mkdir(exist_ok=True)
    called = NAMES[kind] if name == "as it is" else "btc.csv"
    path = folder / (called + packing).replace(".csv.zip", ".zip")
    if packing == ".zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr(called, text)
    else:
        path.write_bytes(gzip.compress(text.encode()) if packing else text.encode())
    return path


def amount(lake: Lake) -> float:
    total: float = lake.scan("trades").select(pl.col("amount").sum()).collect().item()
    return total


@pytest.mark.slow
@pytest.mark.parametrize("kinds", list(product(KINDS, KINDS)), ids=" ".join)
def test_any_two_files_of_one_market(tmp_path: Path, kinds: tuple[str, str]) -> None:
    """In either order, renamed or not, with or without a header, packed or not."""
    pairs = [(FORMS[at], FORMS[(at + shift) % len(FORMS)]) for shift in (0, 5, 7) for at in range(len(FORMS))]
    for number, (first, second) in enumerate(pairs):
        lake = empty_lake(tmp_path / f"lake{number}")
        ingest(made(tmp_path / "first", kinds[0], first), lake, BinanceVision(), market=BINANCE)
        path = made(tmp_path / "second", kinds[1], second)
        if kinds[0] != kinds[1]:
            with pytest.raises(
                IngestError, match=rf"BINANCE BTCUSDT is in the lake as {kinds[0]}, .* these are {kinds[1]}"
            ) as caught:
                ingest(path, lake, BinanceVision(), market=BINANCE)
            assert "another exchange or into another lake" in str(caught.value)
        else:
            ingest(path, lake, BinanceVision(), market=BINANCE)
        assert amount(lake) == pytest.approx(0.6)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("packing", ["", ".gz", ".zip"])
def test_a_file_that_is_called_as_the_other_kind_is_refused(
    lake: Lake, tmp_path: Path, kind: str, packing: str
) -> None:
    (other,) = set(KINDS) - {kind}
    for has_header, part in ((True, "header"), (False, "first row")):
        path = made(tmp_path, kind, ("renamed", has_header, packing))
        path = path.rename(tmp_path / (NAMES[other] + packing).replace(".csv.zip", ".zip"))
        with pytest.raises(IngestError, match=f"its name says {other}, and its {part} {kind}"):
            ingest(path, lake, market=BINANCE)


@pytest.mark.parametrize("kind", KINDS)
def test_the_first_row_tells_the_kind_of_a_file_without_header_and_name(
    lake: Lake, tmp_path: Path, kind: str
) -> None:
    for columns in ("", ",True"):  # of futures, and of the spot market
        path = tmp_path / f"x{columns}.csv"
        path.write_text("".join(f"{row}{columns}\n" for row in ROWS[kind]))
        ingest(path, lake, BinanceVision(), market=BINANCE)
        assert lake.scan("trades").collect().height == len(ROWS[kind])


def put(lake: Lake, folder: Path, kind: str, **market: str) -> None:
    path = made(folder, kind, ("renamed", True, ""))
    ingest(
        path,
        lake,
        BinanceVision(),
        market=Market(**{"exchange": "BINANCE", "raw_symbol": "BTCUSDT", "category": "SPOT"} | market),
    )


@pytest.mark.slow
def test_the_kind_outlives_checkpoints_compaction_and_vacuum(lake: Lake, tmp_path: Path, tape: Any) -> None:
    put(lake, tmp_path, "aggTrades")
    for number in range(110):  # past a checkpoint
        lake.writer().append("trades", tape(number, number + 1, raw_symbol="ETHUSDT"), source=str(number))
    compact(lake)
    vacuum(lake, retention_hours=0, dry_run=False)
    again = Lake(lake.path)
    with pytest.raises(IngestError, match="in the lake as aggTrades"):
        put(again, tmp_path, "trades")
    assert amount(again) == pytest.approx(
        0.6 + lake.scan("trades", raw_symbol="ETHUSDT").select(pl.sum("amount")).collect().item()
    )


def test_other_markets_and_lakes_without_notes_take_any_kind(lake: Lake, tmp_path: Path, tape: Any) -> None:
    lake.writer().append("trades", tape(0, 3), source="an older release")
    for kind, market in (
        ("aggTrades", {}),
        ("trades", {"raw_symbol": "ETHUSDT"}),
        ("trades", {"exchange": "B"}),
    ):
        put(lake, tmp_path, kind, **market)
    with pytest.raises(IngestError, match="in the lake as aggTrades"):
        put(lake, tmp_path, "trades")
    path = tmp_path / "own.csv"
    path.write_text(f"timestamp,price,amount,side\n{T},60000,0.5,buy\n")
    assert ingest(path, lake, Csv(), market=BINANCE).trades_new == 1  # a file that does not say its kind


@pytest.mark.slow
def test_a_recording_of_trades_and_dumps(lake: Lake, tmp_path: Path, write: Any, log: Any) -> None:
    recording = write(log.trade(101, p="60000.00", q="0.10", T=T // 1000, m=False))
    spot = Market(exchange="BINANCE", category="SPOT")
    ingest(recording, lake, BinanceWs(), market=spot)
    with pytest.raises(IngestError, match="in the lake as trades, and these are aggTrades"):
        put(lake, tmp_path, "aggTrades")
    other = empty_lake(tmp_path / "other")
    put(other, tmp_path, "aggTrades")
    for way in (ingest, follow):
        with pytest.raises(IngestError, match="in the lake as aggTrades, and these are trades"):
            way(recording, other, BinanceWs(), market=spot, **({"tidy": None} if way is follow else {}))
    assert amount(other) == pytest.approx(0.6)


def tardis(exchange: str, kind: str) -> str:
    head = "exchange,symbol,timestamp,local_timestamp,id,side,price,amount"
    identity = "101" if kind == "trades" else ""
    return f"{head}\n{exchange},BTCUSDT,{T},{T + 5},{identity},buy,60000,0.1\n"


@pytest.mark.slow
def test_tardis_has_the_trades_of_binance(lake: Lake, tmp_path: Path) -> None:
    path = tmp_path / "binance_trades_2025-03-01_BTCUSDT.csv"
    path.write_text(tardis("binance", "trades"))
    put(lake, tmp_path, "aggTrades")
    with pytest.raises(IngestError, match="in the lake as aggTrades, and these are trades"):
        ingest(path, lake, Tardis())
    path.write_text(tardis("kraken", "trades"))
    assert ingest(path, lake, Tardis(), market=Market(amount_unit="coin", exchange="BINANCE")).trades_new == 1


@pytest.mark.slow
def test_liquidations_have_kinds_too(lake: Lake, tmp_path: Path) -> None:
    head = (
        "time,side,order_type,time_in_force,original_quantity,price,average_price,order_status,last_fill_quantity,"
        "accumulated_fill_quantity"
    )
    dump = tmp_path / "BTCUSDT-liquidationSnapshot-2025-03-01.csv"
    dump.write_text(f"{head}\n{T // 1000},SELL,LIMIT,IOC,0.1,60000,60000,FILLED,0.1,0.1\n")
    ingest(dump, lake, market=Market(exchange="BINANCE_FUTURES"))
    path = tmp_path / "binance-futures_liquidations_2025-03-01_BTCUSDT.csv"
    path.write_text(tardis("binance-futures", "liquidations"))
    with pytest.raises(IngestError, match="in the lake as liquidationSnapshot, and these are forceOrder"):
        ingest(path, lake, Tardis())
    assert lake.scan("liquidations").collect().height == 1


@pytest.mark.slow
def test_of_two_kinds_at_once_one_goes_in(lake: Lake, tape: Any) -> None:
    for round_number in range(5):
        symbol, failures = f"BTC{round_number}", []
        barrier = threading.Barrier(2)

        def put_in(
            kind: str, first: int, symbol: str, failures: list[str], barrier: threading.Barrier
        ) -> None:
            batch = Batch(TRADES)
            batch.add(tape(first, first + 10, raw_symbol=symbol))
            batch.kind = kind
            barrier.wait()
            try:
                Lake(lake.path).writer().append("trades", batch, source=f"{kind} {symbol}")
            except IngestError:
                failures.append(kind)

        threads = [
            threading.Thread(target=put_in, args=(kind, first, symbol, failures, barrier))
            for kind, first in (("trades", 0), ("aggTrades", 100))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(failures) == 1
        assert lake.scan("trades", raw_symbol=symbol).collect().height == 10


def test_a_kind_that_no_release_knows_is_named_by_its_note(lake: Lake, tape: Any) -> None:
    for kind, first in (("of my own: ü/%", 0), ("another", 10)):
        batch = Batch(TRADES)
        batch.add(tape(first, first + 3))
        batch.kind = kind
        if first == 0:
            lake.writer().append("trades", batch, source=kind)
            continue
        with pytest.raises(IngestError, match="in the lake as of my own: ü/%, and these are another"):
            lake.writer().append("trades", batch, source=kind)
