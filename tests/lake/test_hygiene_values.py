"""Checks of values, of what the log says, and of minutes that are gone."""

from __future__ import annotations

import importlib
from pathlib import Path

import deltalake
import polars as pl
import pytest
from deltalake.exceptions import CommitFailedError

from lakes import as_stored
from tidytape.errors import IngestError
from tidytape.lake import TABLES, Lake, hygiene
from tidytape.lake.rollup import rollup

DAY = 86_400 * 10**9
EPOCH = 19_700 * DAY


def found(lake: Lake) -> set[tuple[str, str]]:
    report = hygiene.check(Lake(lake.path), progress=False)
    return {(finding.check, finding.table) for finding in report.findings}


def put_raw(lake: Lake, table: str, **columns: object) -> None:
    """Append one row as another tool would, past every guard of ours."""
    row = {
        name: {"string": "X", "int64": EPOCH, "float64": 1.0, "bool": True}.get(column.dtype)
        for name, column in ((column.name, column) for column in TABLES[table].columns)
    }
    frame = TABLES[table].conform(pl.DataFrame([row | columns]))
    deltalake.write_deltalake(f"{lake.path}/{table}", as_stored(frame, table).to_arrow(), mode="append")


@pytest.mark.parametrize(
    ("table", "columns", "check"),
    [
        ("trades", {"side": "buy"}, "words"),
        ("trades", {"side": "BUY", "quote_amount": float("nan")}, "numbers"),
        ("book", {"side": "BUY"}, "words"),
        ("book", {"side": "BID", "size": -1.0}, "values"),
        ("open_interest", {"amount": -1.0}, "values"),
        ("candles", {"low": 2.0}, "values"),
        ("option_quotes", {"option_type": "C"}, "words"),
        ("option_quotes", {"option_type": "PUT", "strike": 0.0}, "values"),
        ("quote_rates", {"usd": 0.0}, "values"),
        ("quote_rates", {"usd": float("nan")}, "numbers"),
        ("markets", {"contract": "LINEAR", "block_size": 0.0}, "values"),
    ],
)
def test_a_value_that_cannot_be_is_found(
    lake: Lake, table: str, columns: dict[str, object], check: str
) -> None:
    put_raw(lake, table, **columns)
    assert (check, table) in found(lake)


def test_a_block_size_that_is_none_is_not_registered(lake: Lake) -> None:
    for size in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(IngestError, match="block_size of X A is"):
            lake.writer().register(pl.DataFrame({"exchange": "X", "raw_symbol": ["A"], "block_size": size}))


def test_tables_that_are_not_written_by_time_are_not_called_unordered(lake: Lake) -> None:
    rates = {"quote_coin": ["EUR", "EUR", "GBP", "GBP"], "timestamp": [EPOCH, EPOCH + 1] * 2, "usd": 1.0}
    lake.writer().append("quote_rates", pl.DataFrame(rates), source="a")
    assert found(lake) == set()


@pytest.mark.slow
def test_minutes_that_are_all_gone_are_found(lake: Lake, tape) -> None:
    lake.writer().append("trades", tape(0, 1_000), source="a")
    rollup(lake)
    assert found(lake) == set()
    deltalake.DeltaTable(f"{lake.path}/candles_1m").delete()
    assert ("conserved", "candles_1m") in found(lake)


@pytest.mark.slow
def test_lost_commits_are_found(lake: Lake, tape) -> None:
    lake.writer().append("trades", tape(0, 1_000), source="a")
    rollup(lake)
    log = Path(lake.path) / "trades" / "_delta_log"
    max(log.glob("*.json")).unlink()
    assert ("conserved", "candles_1m") in found(lake)


@pytest.mark.slow
def test_a_log_that_cannot_be_read_keeps_nothing_else_from_being_checked(lake: Lake, tape) -> None:
    lake.writer().append("trades", tape(0, 10), source="a")
    put_raw(lake, "quote_rates", usd=0.0)
    log = Path(lake.path) / "trades" / "_delta_log"
    max(log.glob("*.json")).write_text("garbage")
    assert {("log", "trades"), ("values", "quote_rates")} <= found(lake)
    report = hygiene.check(Lake(lake.path), tables=["trades"], progress=False)
    assert "\n" not in report.findings[0].example


@pytest.mark.slow
def test_times_of_which_the_log_says_something_else_are_found(lake: Lake, tape) -> None:
    lake.writer().append("trades", tape(0, 1_000), source="a")
    last = lake.extent("trades", *lake.markets_in("trades")[0])[1]
    commit = max((Path(lake.path) / "trades" / "_delta_log").glob("*.json"))
    commit.write_text(commit.read_text().replace(str(last), str(last - 10**9)))
    assert ("log", "trades") in found(lake)


def test_a_damaged_page_is_found_in_a_column_that_nothing_else_looks_at(lake: Lake) -> None:
    rows = 2_000
    supply = pl.select(
        token_name=pl.lit("bitcoin"),
        timestamp=EPOCH + pl.int_range(rows),
        total_volume=(pl.int_range(rows) * 0.37).sin(),
    )
    lake.writer().append("token_supply", TABLES["token_supply"].conform(supply), source="a")
    (path,) = (Path(lake.path) / "token_supply").glob("*.parquet")
    held = bytearray(path.read_bytes())
    held[len(held) // 2] ^= 0xFF
    path.write_bytes(held)
    assert ("files", "token_supply") in found(lake)


def test_a_file_that_cannot_be_read_to_its_end_is_found(lake: Lake, tape) -> None:
    lake.writer().append("trades", tape(0, 10), source="a")
    (path,) = (Path(lake.path) / "trades").rglob("part-*.parquet")
    held = bytearray(path.read_bytes())
    held[4:400] = b"\xff" * 396  # the footer stays whole
    path.write_bytes(held)
    assert found(lake) == {("files", "trades")}


@pytest.mark.slow
def test_a_vacuum_that_loses_a_race_begins_again(lake: Lake, tape, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3):
        lake.writer().append("trades", tape(number * 10, number * 10 + 10), source=str(number))
    hygiene.compact(lake, progress=False)
    module = importlib.import_module(
        "tidytape.lake.hygiene._files"
    )  # the package has a function of that name
    lost: list[bool] = []
    once = module._vacuum

    def overtaken(delta: deltalake.DeltaTable, hours: int, **more: bool) -> list[str]:
        if not more["dry_run"] and not lost:
            lost.append(True)
            raise CommitFailedError("a concurrent transaction deleted data this operation read")
        return once(delta, hours, **more)

    monkeypatch.setattr(module, "_vacuum", overtaken)
    done = hygiene.vacuum(lake, retention_hours=0, dry_run=False, tables=["trades"])
    assert lost
    assert done[0].files == 3


def candles(
    day: int, *, volume: float, quote_volume: float | None, low: float = 100.0, high: float = 110.0
) -> pl.DataFrame:
    """Return one hour of a market, on a day since `EPOCH`."""
    prices = {"open": low, "high": high, "low": low, "close": high}
    row = {"exchange": "X", "raw_symbol": "BTCUSDT", "timestamp": EPOCH + day * DAY, "interval": 3600 * 10**9}
    return TABLES["candles"].conform(
        pl.DataFrame([row | prices | {"volume": volume, "quote_volume": quote_volume}])
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("quote_volume", "ratio"),
    [
        (200.0, None),
        (220.0, None),
        (210.0, None),
        (None, None),
        (221.0, None),
        (617 * 220.0, "617"),
        (2.0, "0.01"),
    ],
)
def test_a_quote_volume_that_no_price_explains_is_found(
    lake: Lake, quote_volume: float | None, ratio: str | None
) -> None:
    rows = pl.concat(
        [candles(0, volume=2, quote_volume=210), candles(1, volume=2, quote_volume=quote_volume)]
    )
    lake.writer().append("candles", rows, source="a")
    findings = hygiene.check(Lake(lake.path), progress=False).findings
    assert [(one.check, one.severity, one.table, one.market, one.count) for one in findings] == (
        [] if ratio is None else [("quote", "error", "candles", "X BTCUSDT", 1)]
    )
    for one in findings:
        assert one.example.startswith(
            f"on 2023-12-10 quote_volume is {ratio} times volume × price, so one of them"
        )
        assert "--contract and --contract-size" in one.example


@pytest.mark.slow
def test_a_quote_amount_that_is_not_amount_times_price_is_found(lake: Lake, tape) -> None:
    trades = tape(0, 100)
    lake.writer().append("trades", trades.with_columns(pl.col("quote_amount") * 1.0001), source="a")
    assert found(lake) == set()
    more = tape(200, 300).with_columns(pl.col("quote_amount") / 50)
    lake.writer().append("trades", more, source="b")
    assert ("quote", "trades") in found(lake)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("symbol", "said", "wrong"),
    [
        ("BTCUSD_PERP", {}, "units"),
        ("BTCUSD_PERP", {"contract": "INVERSE", "contract_size": 100.0}, ""),
        ("BTCUSD_PERP", {"amount_units": "trades=coin"}, ""),
        ("PI_XBTUSD", {}, "units"),
        ("BTCUSDT_240927", {}, ""),
        ("BTCUSDT", {}, ""),
    ],
)
def test_contracts_that_went_in_as_coins_are_found(
    lake: Lake, tape, symbol: str, said: dict, wrong: str
) -> None:
    """An older release stored contracts times price as the amount in the quote, so only the symbol can tell."""
    lake.writer().append("trades", tape(0, 10).with_columns(raw_symbol=pl.lit(symbol)), source="a")
    lake.writer().register(
        pl.DataFrame([{"exchange": tape(0, 1)["exchange"][0], "raw_symbol": symbol} | said])
    )
    assert [check for check, table in found(lake) if table == "trades"] == ([wrong] if wrong else [])
