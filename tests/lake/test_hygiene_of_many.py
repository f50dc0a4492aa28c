"""A check of many small markets looks at all of them at once, and finds what a look at each finds."""

from __future__ import annotations

import importlib
import shutil
from pathlib import Path
from typing import Any

import deltalake
import polars as pl
import pytest

from lakes import as_stored, empty_lake
from simulated.everything import everything
from tidytape.lake import TABLES, TRADES, Lake, hygiene
from tidytape.lake.rollup import ROLLUP_TABLES, rollup

check = importlib.import_module("tidytape.lake.hygiene._check")  # the package has a function of this name


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory, tape) -> Path:
    """A lake of twelve sound markets beside one of every kind, rolled up."""
    path = tmp_path_factory.mktemp("many") / "lake"
    made = everything(path)
    symbols = [f"S{number:02}USDT" for number in range(12)]
    made.writer().append(
        "trades", pl.concat(tape(0, 200, raw_symbol=symbol) for symbol in symbols), source="tape"
    )
    made.writer().register(pl.DataFrame({"exchange": "BINANCE", "raw_symbol": symbols, "block_size": 0.5}))
    rollup(made, progress=False)
    return path


@pytest.fixture
def lake(sound: Path, tmp_path: Path) -> Lake:
    return Lake(shutil.copytree(sound, tmp_path / "lake"))


def findings(lake: Lake, monkeypatch: pytest.MonkeyPatch, *tables: str) -> list[str]:
    """What is found in tables, by a look at many markets and by a look at each."""
    many = [str(finding) for finding in hygiene.check(lake, tables=tables, progress=False).findings]
    with monkeypatch.context() as patched:
        patched.setattr(check, "_AT_ONCE", 0)
        each = [str(finding) for finding in hygiene.check(lake, tables=tables, progress=False).findings]
    assert many == each
    return many


@pytest.mark.long
def test_a_look_at_many_finds_what_a_look_at_each_finds(sound: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    findings(Lake(sound), monkeypatch, *TABLES, *ROLLUP_TABLES)


@pytest.mark.long
def test_what_is_wrong_with_some_is_found_by_name(lake: Lake, monkeypatch: pytest.MonkeyPatch, tape) -> None:
    before = findings(lake, monkeypatch, "trades")
    trades = tape(300, 303, raw_symbol="S07USDT")
    repeated = tape(5, 8, raw_symbol="S11USDT")
    # Other markets have the same ids, and their quote amounts are right.
    wrong_quote = tape(20_000, 20_100, raw_symbol="S03USDT").with_columns(pl.col("quote_amount") * 100)
    for rows in (
        trades.with_columns(amount=pl.lit(-1.0)),
        trades.with_columns(side=pl.lit("UP"), id=pl.col("id") + "x"),
        repeated,
        wrong_quote,
    ):
        deltalake.write_deltalake(
            f"{lake.path}/trades", as_stored(TRADES.conform(rows)).to_arrow(), mode="append"
        )
    new = [line for line in findings(lake, monkeypatch, "trades") if line not in before]
    told = {(line.split(": ")[1], line.split(": ")[2].removeprefix("trades BINANCE ")) for line in new}
    assert {
        ("amounts", "S07USDT"),
        ("words", "S07USDT"),
        ("keys", "S11USDT"),
        ("quote", "S03USDT"),
    } <= told
    assert {symbol for _, symbol in told} == {"S03USDT", "S07USDT", "S11USDT"}


@pytest.mark.long
def test_minutes_that_are_not_what_events_say_are_found_by_name(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = findings(lake, monkeypatch, "candles_1m")
    deltalake.DeltaTable(f"{lake.path}/candles_1m").update(
        {"close": "close + 1"}, predicate="raw_symbol = 'S05USDT' AND side = 'BUY'"
    )
    new = [line for line in findings(Lake(lake.path), monkeypatch, "candles_1m") if line not in before]
    assert any(line.startswith("error: conserved: candles_1m BINANCE S05USDT") for line in new)
    assert all("S05USDT" in line for line in new)


@pytest.mark.long
def test_a_file_that_is_gone_keeps_no_other_from_being_checked(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = findings(lake, monkeypatch, "trades")
    next((Path(lake.path) / "trades/exchange=BINANCE/raw_symbol=S09USDT").glob("*.parquet")).unlink()
    (line,) = [line for line in findings(lake, monkeypatch, "trades") if line not in before]
    assert line.startswith("error: files: trades BINANCE S09USDT: 1, first: ")


def test_looks_do_not_grow_with_the_markets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tape) -> None:
    looks: list[int] = []
    opened = pl.LazyFrame.collect
    monkeypatch.setattr(
        pl.LazyFrame, "collect", lambda *given, **more: looks.append(0) or opened(*given, **more)
    )
    counts = []
    for count in (3, 30):
        lake = empty_lake(tmp_path / str(count))
        symbols = [f"S{number:02}" for number in range(count)]
        lake.writer().append(
            "trades", pl.concat(tape(0, 20, raw_symbol=symbol) for symbol in symbols), source="tape"
        )
        looks.clear()
        assert hygiene.check(lake, tables=["trades"], progress=False).sound
        counts.append(len(looks))
    few, more = counts
    assert more - few < 27  # less than one for each further market


@pytest.mark.slow
def test_a_batch_holds_no_more_rows_than_memory_does(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    of_batch = check._of_batch

    def listed(batch: list[Any], chosen: list[Any]) -> object:
        sizes.append(len(batch))
        assert len(batch) == 1 or sum(subject.size for subject in batch) <= 500
        return of_batch(batch, chosen)

    monkeypatch.setattr(check, "_AT_ONCE", 500)
    monkeypatch.setattr(check, "_of_batch", listed)
    hygiene.check(lake, tables=["trades"], progress=False)
    assert max(sizes) == 2
