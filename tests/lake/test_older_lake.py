"""A lake that an older version of the library made: it lacks columns and tables."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import deltalake
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from lakes import empty_lake
from simulated.everything import everything
from tidytape import aggregate
from tidytape.errors import LakeError
from tidytape.lake import MARKETS, PREDICTION_MARKETS, TABLES, TRADES, Lake, Table, _commit, _delta, hygiene
from tidytape.lake._tables import MINUTES_OF
from tidytape.lake._tables import RECORDED_CANDLES as CANDLES
from tidytape.lake.hygiene import require_readable
from tidytape.lake.rollup import minutes as minute_rows
from tidytape.lake.rollup import rollup
from tidytape.lake.rollup._recipes import RECIPES
from tidytape.times import MINUTE

OLD_MARKETS = (
    "exchange", "raw_symbol", "normalized_symbol", "coin", "quote_coin", "category", "tick_size", "block_size",
    "coin_name", "quote_coin_name", "full_name", "icon_url", "marketcap", "available_since",
)  # fmt: skip


def older(table: Table, without: set[str]) -> Table:
    columns = tuple(column for column in table.columns if column.name not in without)
    return replace(table, columns=columns, stated=None)


@pytest.fixture
def old(tmp_path) -> Lake:
    """A lake with two tables, each without its newest columns, and a row in the registry."""
    lacks = set(MARKETS.names) - set(OLD_MARKETS)
    assert lacks == {
        "tenor",
        "contract",
        "contract_size",
        "factor",
        "amount_units",
        "renamed_to",
        "renamed_at",
        "session",
    }
    _delta.create(f"{tmp_path}/trades", older(TRADES, {"received"}), None)
    _delta.create(f"{tmp_path}/markets", older(MARKETS, lacks), None)
    row = pl.DataFrame({"exchange": ["BINANCE"], "raw_symbol": ["BTCUSDT"], "block_size": [2.0]})
    known = MARKETS.conform(row).select(OLD_MARKETS)
    deltalake.write_deltalake(f"{tmp_path}/markets", known.to_arrow(), mode="append")
    return Lake(tmp_path)


def test_what_it_lacks_reads_as_null_and_empty(old):
    version = old.version()
    row = old.markets().row(0, named=True)
    assert list(row) == list(MARKETS.names)
    assert (row["block_size"], row["tenor"], row["contract"], row["contract_size"]) == (2.0, None, None, None)
    for name, table in TABLES.items():
        got = old.scan(name).collect()
        assert dict(got.schema) == table.polars()
        assert got.height == (name == "markets")
    assert old.prediction_markets().schema == PREDICTION_MARKETS.empty().schema
    assert not old.has_source("prediction_markets", "a")
    # Reading changes nothing, and a table that is not there is told from an empty one.
    assert old.version() == version == dict.fromkeys(TABLES, -1) | {"trades": 0, "markets": 1}


def test_registering_adds_the_columns_with_their_meaning(old):
    new = pl.DataFrame(
        {"exchange": ["BINANCE"], "raw_symbol": ["BTCUSDT"], "contract": ["LINEAR"], "contract_size": [0.1]}
    )
    old.writer().register(new, sources=["a"])
    assert old.markets().select("block_size", "contract", "contract_size").rows() == [(2.0, "LINEAR", 0.1)]
    assert old.has_source("markets", "a")
    fields = {field.name: field for field in deltalake.DeltaTable(f"{old.path}/markets").schema().fields}
    assert set(fields) == set(MARKETS.names)
    assert fields["contract_size"].metadata["unit"] == MARKETS["contract_size"].unit
    version = old.version()
    old.writer().register(new)
    assert old.version() == version


def test_registering_nothing_new_changes_nothing(old):
    version = old.version()
    old.writer().register(old.markets())
    assert old.version() == version


def test_appending_adds_the_columns(old, tape):
    frame = tape(0, 5).with_columns(received=pl.col("timestamp") + 1)
    assert old.writer().append("trades", frame, source="a").rows_new == 5
    assert old.writer().append("trades", tape(3, 8), source="b").rows_new == 3
    got = old.scan("trades").collect().sort("sequence")
    assert_frame_equal(got[:5], frame)
    assert got["received"][5:].null_count() == 3


def test_appending_makes_the_table(old):
    rates = pl.DataFrame({"quote_coin": ["EUR"], "timestamp": [1], "usd": [1.1]})
    assert not old.has_source("quote_rates", "a")
    assert old.writer().append("quote_rates", rates, source="a").rows_new == 1
    assert old.writer().append("quote_rates", rates, source="a").already_ingested
    assert old.scan("quote_rates").collect().rows() == rates.rows()


def test_creating_makes_the_tables(old):
    again = Lake.create(old.path)
    assert again.version() == dict.fromkeys(TABLES, 0) | {"markets": 1}
    assert again.markets()["block_size"].to_list() == [2.0]


@pytest.mark.slow
def test_writers_that_add_the_same_columns_lose_nothing(old):
    def register(number: int) -> None:
        Lake(old.path).writer().register(
            pl.DataFrame({"exchange": ["A"], "raw_symbol": [str(number)], "tenor": ["ONE_W"]})
        )

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(register, range(8)))
    assert old.markets()["raw_symbol"].to_list() == [*map(str, range(8)), "BTCUSDT"]


def test_a_table_without_what_cannot_be_null_is_not_ours(tmp_path):
    _delta.create(f"{tmp_path}/markets", older(MARKETS, {"raw_symbol"}), None)
    with pytest.raises(LakeError, match="no column 'raw_symbol'"):
        Lake(tmp_path).markets()


def test_a_lake_that_was_removed_is_no_older_lake(old, tmp_path):
    assert old.scan("book").collect().is_empty()  # which this lake never had
    shutil.rmtree(tmp_path)
    with pytest.raises(LakeError, match="no lake at"):
        old.scan("book")
    with pytest.raises(LakeError, match="no lake at"):
        old.extents("funding")


@pytest.mark.slow
@pytest.mark.parametrize("rolled_up", [False, True])
def test_a_lake_without_trades_has_lost_them(old, tape, rolled_up):
    old.writer().append("trades", tape(0, 500), source="a")
    if rolled_up:
        rollup(old, progress=False)
    shutil.rmtree(old.uri("trades"))
    lake = Lake(old.path)  # one that has not read them before
    assert lake._lost() == ("trades",)
    for read in (lake.version, lambda: lake.scan("trades"), lambda: lake.extents("trades")):
        with pytest.raises(LakeError, match="table 'trades' is gone"):
            read()
    with pytest.raises(LakeError, match="trades"):
        require_readable(lake, ["markets"])
    report = hygiene.check(lake, progress=False)
    assert ("log", "trades", "the table is gone: restore its folder") in [
        (one.check, one.table, one.example) for one in report.findings
    ]
    assert hygiene.check(lake, tables=["markets"], progress=False).sound


@pytest.mark.slow
def test_a_lake_with_minutes_has_lost_the_events_that_they_are_made_of(tmp_path):
    lake = everything(tmp_path / "lake")
    rollup(lake, progress=False)
    assert lake._lost() == ()
    for table, minutes in MINUTES_OF.items():
        moved = Path(lake.uri(table)).rename(tmp_path / table)
        assert Lake(lake.path)._lost() == (table,)
        Path(lake.uri(minutes)).rename(tmp_path / minutes)
        assert Lake(lake.path)._lost() == (("trades",) if table == "trades" else ())
        moved.rename(lake.uri(table))


def test_the_minutes_that_tell_of_events_are_made_of_them():
    assert {minutes: RECIPES[minutes].raw.name for minutes in MINUTES_OF.values()} == {
        minutes: table for table, minutes in MINUTES_OF.items()
    }
    assert set(MINUTES_OF) == {recipe.raw.name for recipe in RECIPES.values()}


@pytest.mark.slow
def test_candles_without_a_volume_in_coin_go_into_a_table_that_required_one(tmp_path):
    lake = empty_lake(tmp_path / "lake")
    shutil.rmtree(lake.uri("candles"))
    columns = tuple(replace(one, nullable=one.nullable and one.name != "volume") for one in CANDLES.columns)
    _delta.create(lake.uri("candles"), replace(CANDLES, columns=columns), None)
    candle = {"exchange": "X", "raw_symbol": "Y", "interval": 60 * 10**9} | dict.fromkeys(
        ("open", "high", "low", "close"), 1.0
    )
    for time, volume in ((1, 2.0), (2, None)):
        row = pl.DataFrame(
            [candle | {"timestamp": time, "volume": volume}], schema_overrides=CANDLES.polars()
        )
        assert Lake(lake.path).writer().append("candles", row, source=str(time)).rows_new == 1
    assert Lake(lake.path).scan("candles").sort("timestamp").collect()["volume"].to_list() == [2.0, None]
    assert {
        field.name: field.nullable for field in deltalake.DeltaTable(lake.uri("candles")).schema().fields
    }["volume"]


@pytest.fixture
def sided(tmp_path, tape, monkeypatch) -> Lake:
    """A lake of a release in which every trade had a side, with minutes that this release stored."""
    lake = empty_lake(tmp_path / "lake")
    shutil.rmtree(lake.uri("trades"))
    required = replace(
        TRADES, columns=tuple(replace(c, nullable=c.name == "received") for c in TRADES.columns)
    )
    _delta.create(lake.uri("trades"), required, None)
    monkeypatch.setattr(_commit, "_widen", _delta.require_writable)
    lake = Lake(lake.path)
    market = {"exchange": "BINANCE", "raw_symbol": "BTCUSDT", "coin": "BTC", "block_size": 1.0}
    lake.writer().register(pl.DataFrame(market))
    lake.writer().append("trades", tape(0, 600), source="a")
    old_recipes = dict(RECIPES)
    for name, without in (("candles_1m", set()), ("profile_1m", {"volume", "quote_volume"})):
        table = older(RECIPES[name].table, without)
        columns = tuple(replace(column, nullable=False) for column in table.columns)
        old_recipes[name] = replace(RECIPES[name], table=replace(table, columns=columns))
    with monkeypatch.context() as context:
        context.setattr("tidytape.lake.rollup._build.RECIPES", old_recipes)
        rollup(lake, progress=False)
    monkeypatch.undo()
    assert not any(
        field.nullable
        for name in ("trades", "profile_1m", "candles_1m")
        for field in deltalake.DeltaTable(lake.uri(name)).schema().fields
        if field.name in {"side", "buy_volume"}
    )
    return Lake(lake.path)


def minutes_of(lake: Lake, name: str) -> pl.DataFrame:
    found = minute_rows(
        lake, name, exchange="BINANCE", raw_symbol="BTCUSDT", start=0, end=2**62 // MINUTE * MINUTE,
        block_size=Decimal(1), made_at=Decimal(1),
    )  # fmt: skip
    return found.collect().sort(RECIPES[name].table.key)


@pytest.mark.slow
@pytest.mark.parametrize("compacted", [False, True])
def test_a_lake_in_which_every_trade_had_a_side_takes_trades_without(sided, tape, compacted):
    sideless = tape(600, 1_200).with_columns(side=pl.lit(None, pl.String))
    late = tape(5, 6).with_columns(
        side=pl.lit(None, pl.String), id=pl.lit("late"), sequence=pl.lit(10_000, pl.Int64)
    )
    stored = {name: minutes_of(sided, name) for name in ("candles_1m", "profile_1m")}
    if compacted:
        assert hygiene.compact(sided, everything=True, progress=False)
        assert {name: minutes_of(sided, name).equals(rows) for name, rows in stored.items()} == dict.fromkeys(
            stored, True
        )
    before = sided.version()["trades"]
    assert sided.writer().append("trades", sideless, source="b").rows_new == 600
    assert sided.writer().append("trades", late, source="c").rows_new == 1
    spans = _delta.spans_since(sided.delta("trades"), before)
    assert spans is not None  # so that minutes and streams know what is new
    assert [len(of_market) for of_market in spans.values()] == [2]
    in_memory = pl.concat([tape(0, 600), sideless, late])
    expected = {
        "candles_1m": aggregate.minute_candles(in_memory),
        "profile_1m": aggregate.minute_profile(in_memory, block_size=1),
    }
    for rolled_up in (False, True):
        if rolled_up:
            written = {one.table: one.rows for one in rollup(sided, progress=False)}
            assert (
                written["candles_of_both_1m"] == 11
            )  # the late minute, and those since the last trade of old
        for name, rows in expected.items():
            got = minutes_of(Lake(sided.path), name)
            assert_frame_equal(got, rows.select(got.columns).sort(RECIPES[name].table.key), check_exact=True)
    assert hygiene.check(sided, progress=False).sound
    assert sided.scan("trades").filter(pl.col("side").is_null()).collect().height == 601


def test_a_table_that_lacks_a_column_can_be_compacted(old, tape):
    rows = tape(0, 5).drop("received").to_arrow()
    for _ in range(2):
        deltalake.write_deltalake(f"{old.path}/trades", rows, mode="append")
    assert hygiene.compact(Lake(old.path), tables=["trades"], everything=True, progress=False)
    assert Lake(old.path).scan("trades").collect().height == 10
