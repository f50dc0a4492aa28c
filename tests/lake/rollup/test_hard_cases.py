"""What a random market seldom does: clocks that differ, names with slashes, tables made anew, one bad market."""

from __future__ import annotations

import shutil
from decimal import Decimal
from pathlib import Path

import polars as pl
import pytest
from deltalake import DeltaTable, write_deltalake

from lakes import as_stored, empty_lake
from simulated.rollup_events import MINUTE, START
from tidytape.errors import LakeError
from tidytape.lake import BOOK, TRADES, Lake
from tidytape.lake.rollup import _build as build
from tidytape.lake.rollup import minutes, rollup
from tidytape.query import PointsQuery
from tidytape.service.answer._engine import Engine


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return empty_lake(tmp_path / "lake")


def register(lake: Lake, exchange: str = "X", symbol: str = "A") -> None:
    names = {"exchange": exchange, "raw_symbol": symbol, "coin": "BTC", "quote_coin": "USD"}
    lake.writer().register(pl.DataFrame([names | {"block_size": 1.0}]))


def trades(
    count: int, exchange: str = "X", symbol: str = "A", price: float = 10.0, at: int = 0
) -> pl.DataFrame:
    """A trade a minute."""
    number = at + pl.int_range(count, dtype=pl.Int64)
    return pl.select(
        exchange=pl.lit(exchange),
        raw_symbol=pl.lit(symbol),
        id=number.cast(pl.String),
        timestamp=START + number * MINUTE,
        sequence=number,
        side=pl.lit("BUY"),
        price=pl.lit(price),
        amount=pl.lit(1.0),
        quote_amount=pl.lit(price),
    )


def volume(lake: Lake, exchange: str = "X", symbol: str = "A") -> float:
    made = minutes(
        lake, "candles_1m", exchange=exchange, raw_symbol=symbol, start=START, end=START + 600 * MINUTE
    )
    return made.select(pl.col("volume").sum()).collect().item()


def books(lake: Lake) -> pl.DataFrame:
    made = minutes(
        lake,
        "book_1m",
        exchange="X",
        raw_symbol="A",
        start=START,
        end=START + 60 * MINUTE,
        block_size=Decimal(1),
        made_at=Decimal(1),
    )
    return made.collect().sort("timestamp", "side", "price")


@pytest.mark.slow
@pytest.mark.parametrize("late", [-4, 1, 4])
def test_a_snapshot_timed_by_another_clock_changes_the_minutes_it_tells_of(lake: Lake, late: int) -> None:
    register(lake)

    def levels(rows: list[tuple[int, int, bool]]) -> pl.DataFrame:
        names = ["timestamp", "last_id", "is_snapshot"]
        frame = pl.DataFrame(rows, schema=names, orient="row")
        both = pl.concat(
            frame.with_columns(side=pl.lit(side), price=pl.lit(price))
            for side, price in (("BID", 10.0), ("ASK", 20.0))
        )
        return BOOK.conform(
            both.with_columns(exchange=pl.lit("X"), raw_symbol=pl.lit("A"), size=1.0 + pl.col("last_id"))
            .with_columns(sequence=pl.int_range(pl.len()))
        )  # fmt: skip

    lake.writer().append(
        "book", levels([(START + i * MINUTE, 100 + i, False) for i in range(20)]), source="updates"
    )
    rollup(lake)
    # It is of the sixth minute by its id.
    lake.writer().append("book", levels([(START + (6 + late) * MINUTE, 106, True)]), source="snapshot")
    before = books(lake)
    rollup(lake)
    after = books(lake)
    shutil.rmtree(Path(lake.path) / "book_1m")
    raw = books(Lake(lake.path))
    assert raw.height > 0
    assert before.equals(raw)
    assert after.equals(raw)


@pytest.mark.slow
def test_names_that_read_alike_with_slashes_are_two_markets(lake: Lake) -> None:
    lake.writer().append("trades", trades(10, "A", "B/C"), source="one")
    lake.writer().append("trades", trades(20, "A/B", "C"), source="other")
    rollup(lake)
    assert volume(lake, "A/B", "C") == 20


@pytest.mark.slow
def test_events_that_were_put_in_the_place_of_others_are_rolled_up_anew(lake: Lake) -> None:
    for number in range(3):
        lake.writer().append("trades", trades(10, at=number * 10), source=str(number))
    rollup(lake)
    shutil.rmtree(Path(lake.path) / "trades")
    for number in range(3):  # as many commits as before
        again = Lake.create(lake.path)
        again.writer().append("trades", trades(10, price=99.0, at=number * 10), source=str(number))
    assert volume(again) == 30
    candles = minutes(again, "candles_1m", exchange="X", raw_symbol="A", start=START, end=START + MINUTE)
    assert candles.collect()["open"].to_list() == [99.0]
    rollup(again)
    assert DeltaTable(f"{again.path}/candles_1m").to_pyarrow_table().column("open").unique().to_pylist() == [
        99.0
    ]


@pytest.mark.slow
def test_one_bad_market_keeps_no_other_from_being_made(lake: Lake) -> None:
    for symbol in ("A", "B"):
        register(lake, symbol=symbol)
    bad = TRADES.conform(trades(10, price=float("nan")))
    write_deltalake(f"{lake.path}/trades", as_stored(bad).to_arrow(), mode="append")
    lake.writer().append("trades", trades(10, symbol="B"), source="good")
    with pytest.raises(LakeError, match="candles_1m X A failed"):
        rollup(lake)
    assert ("X", "B") in {
        (row["exchange"], row["raw_symbol"])
        for row in pl.read_delta(f"{lake.path}/profile_1m").iter_rows(named=True)
    }
    with pytest.raises(LakeError, match="candles_1m X A failed"):  # not passed over the next time
        rollup(lake)


@pytest.mark.slow
def test_a_window_in_which_no_interval_begins_has_no_points(lake: Lake) -> None:
    register(lake)
    lake.writer().append("trades", trades(300), source="one")
    rollup(lake)
    start = START // 10**9 + 3_600
    query = PointsQuery(
        type="TRADE_SIDE_AGNOSTIC_AGG",
        exchange="X",
        raw_symbol="A",
        interval="4h",
        start=start,
        end=start + 60,
    )
    engine = Engine(lake)
    ((_, points),) = engine.frames(query, engine.markets(query))
    assert points.is_empty()


@pytest.mark.slow
def test_only_what_changed_is_asked_again(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    for symbol in "ABC":
        register(lake, symbol=symbol)
        lake.writer().append("trades", trades(10, symbol=symbol), source=symbol)
    rollup(lake)
    asked: list[str] = []
    make = build._Maker.make

    def listed(maker: build._Maker, markets: list[tuple[str, str]]) -> int:
        asked.extend(symbol for _, symbol in markets)
        return make(maker, markets)

    monkeypatch.setattr(build._Maker, "make", listed)
    rollup(lake)
    assert asked == []
    lake.writer().append("trades", trades(10, symbol="B", at=10), source="more")
    rollup(lake)
    assert asked == ["B", "B", "B"]  # candles of sides and of both, and profile
    lake.writer().register(
        pl.DataFrame({"exchange": "X", "raw_symbol": ["C"], "block_size": 2.0}), replace=["block_size"]
    )
    rollup(lake)
    assert asked.count("C") == 1  # the profile's rows are of another height
    assert volume(lake, symbol="B") == 20
