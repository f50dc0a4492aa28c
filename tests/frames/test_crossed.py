"""Rows with numbers, and dates as times, on every engine."""

from __future__ import annotations

from datetime import date

import narwhals.stable.v2 as nw
import polars as pl

from engines import Engine
from tidytape.frames._rows import crossed
from tidytape.frames._table import OpenTable
from tidytape.frames._times import midnights


def lazy(engine: Engine, frame: pl.DataFrame) -> nw.LazyFrame:
    return OpenTable.of(engine.frame(frame)).rows


def read(engine: Engine, frame: nw.LazyFrame) -> pl.DataFrame:
    native = frame.to_native()
    return native.collect() if isinstance(native, pl.LazyFrame) else engine.polars(native)


def test_every_row_meets_every_number_to_the_last_bit(engine: Engine) -> None:
    values = [0.1, 1 / 3, 1e-9, 30, -2.5, 123456789.123456789, 1e300, 0.0]
    got = read(engine, crossed(lazy(engine, pl.DataFrame({"coin": ["BTC", None]})), "days", values))
    assert got.schema["days"] == pl.Float64
    for coin in ("BTC", None):
        of = got.filter(pl.col("coin").is_null() if coin is None else pl.col("coin") == coin)
        assert sorted(of["days"]) == sorted(map(float, values))
    assert len(got) == 2 * len(values)


def test_a_date_is_its_midnight_in_utc(engine: Engine) -> None:
    dates = [date(2026, 3, 27), None, date(1969, 12, 31)]
    got = read(engine, midnights(lazy(engine, pl.DataFrame({"row": [0, 1, 2], "expiry": dates})), "expiry"))
    assert got.sort("row")["expiry"].to_list() == [1_774_569_600_000_000_000, None, -86_400_000_000_000]


def test_a_date_out_of_reach_has_no_midnight(engine: Engine) -> None:
    dates = [date(9999, 12, 31), date(2262, 4, 12), date(2262, 4, 11), date(1677, 9, 22), date(1600, 1, 1)]
    got = read(engine, midnights(lazy(engine, pl.DataFrame({"row": range(5), "expiry": dates})), "expiry"))
    days = [(day - date(1970, 1, 1)).days * 86_400_000_000_000 for day in dates[2:4]]
    assert got.sort("row")["expiry"].to_list() == [None, None, *days, None]
