"""What the door reads exactly, and what it refuses: one test per kind of column, on every engine."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import narwhals.stable.v2 as nw
import pandas as pd
import polars as pl
import pytest

from engines import Engine
from tidytape.analytics._arguments import volatility_kind
from tidytape.catalogue import Interval
from tidytape.errors import QueryError
from tidytape.frames._kinds import KINDS, Kind
from tidytape.frames._table import OpenTable
from tidytape.frames._times import interval_words, length_of
from tidytape.times import UNIT_SECONDS, frame_interval

NOW = datetime(2024, 8, 8, tzinfo=UTC)


def read(frame: Any, name: str, **arguments: Any) -> list[Any]:
    """Return a column as the door reads it."""
    rows: Any = OpenTable.of(frame, [name], **arguments).rows.collect("polars")
    values: list[Any] = rows[name].to_list()
    return values


def test_the_name_of_a_column_says_what_it_is():
    assert {name: KINDS[name] for name in ("price", "amount", "sequence", "since", "side", "interval")} == {
        "price": Kind.NUMBER,
        "amount": Kind.AMOUNT,
        "sequence": Kind.COUNT,
        "since": Kind.TIME,
        "side": Kind.SIDE,
        "interval": Kind.INTERVAL,
    }
    assert not {"exchange", "raw_symbol", "coin", "id", "is_final"} & set(KINDS)


@pytest.mark.parametrize("text", ["0.1", "0.7", "60000.3", "1e-09", "123456.79"])
def test_a_float32_and_a_decimal_are_the_number_that_they_show(engine: Engine, text: str):
    narrow = pl.DataFrame({"price": pl.Series([text]).cast(pl.Float64).cast(pl.Float32)})
    assert read(engine.frame(narrow), "price") == [float(text)]
    exact = pl.DataFrame({"price": pl.Series([Decimal(text)], dtype=pl.Decimal(38, 12))})
    assert read(engine.frame(exact), "price") == [float(text)]


def test_a_number_that_is_none_is_null(engine: Engine):
    assert read(engine.frame(pl.DataFrame({"price": [1.5, float("nan"), None]})), "price") == [
        1.5,
        None,
        None,
    ]


def test_text_is_no_number_and_the_hint_has_the_cast_of_the_library(engine: Engine):
    casts = {
        "pandas": "astype",
        "pyarrow": "cast('float64')",
        "duckdb": "CAST(price AS DOUBLE)",
        "spark": ".cast('double')",
    }
    with pytest.raises(QueryError, match="price: String") as caught:
        read(engine.frame(pl.DataFrame({"price": ["9999.5"]})), "price")
    assert casts.get(engine.name, "pl.col('price').cast(pl.Float64)") in str(caught.value.hint)


def test_a_flag_is_no_number(engine: Engine):
    with pytest.raises(QueryError, match="price: Boolean"):
        read(engine.frame(pl.DataFrame({"price": [True]})), "price")


def test_clean_columns_pass_without_a_copy():
    frame = pl.DataFrame({"price": [1.0, 2.0], "side": pl.Series(["BUY", None], dtype=pl.Categorical)})
    table = OpenTable.of(frame, ["price", "side"])
    assert "SELECT" not in table.rows.to_native().explain()
    assert "WITH_COLUMNS" not in table.rows.to_native().explain()


def test_negative_amounts_are_refused_in_memory_and_null_on_a_plan():
    frame = pl.DataFrame({"amount": [1.0, -2.0]})
    with pytest.raises(QueryError, match=r"amount: -2.0.*0 or more"):
        read(frame, "amount")
    assert read(frame.lazy(), "amount") == [1.0, None]


@pytest.mark.parametrize(("unit", "word"), [("s", "seconds"), ("ms", "milliseconds"), ("us", "microseconds")])
def test_integers_of_another_unit_are_no_times(unit: Any, word: str):
    count = pl.Series([NOW]).dt.epoch(unit)
    frame = pl.DataFrame({"timestamp": count})
    with pytest.raises(QueryError, match=f"looks like {word}: pl.from_epoch.*{unit}"):
        read(frame, "timestamp")
    with pytest.raises(
        QueryError, match=rf"looks like {word}: pd.to_datetime\(frame\['timestamp'\], unit='{unit}'"
    ):
        read(frame.to_pandas(), "timestamp")
    assert read(frame.lazy(), "timestamp") == [None]
    with pytest.raises(QueryError, match=f"looks like {word}"):
        read(frame.cast(pl.Float64), "timestamp")


def test_zero_is_the_epoch_in_every_unit():
    assert read(pl.DataFrame({"timestamp": [0, None]}), "timestamp") == [0, None]


@pytest.mark.parametrize(
    ("kind", "spellings", "word"),
    [
        ({}, ["buy", "B", " Buy"], "BUY"),
        ({}, ["sell", "s", "SELL"], "SELL"),
        ({}, ["N", "none", "", "unknown"], None),
        ({"side": Kind.BOOK_SIDE}, ["bid", "b", "BID"], "BID"),
        ({"side": Kind.BOOK_SIDE}, ["ask", "A"], "ASK"),
    ],
)
def test_sides_come_in_any_case(engine: Engine, kind: Any, spellings: list[str], word: str):
    frame = engine.frame(pl.DataFrame({"side": spellings}))
    assert read(frame, "side", kinds=kind) == [word] * len(spellings)


@pytest.mark.parametrize("word", ["bid", "ask", "A", "maker"])
def test_words_that_are_no_side_of_a_trade_are_refused_in_memory_and_null_on_a_plan(word: str):
    frame = pl.DataFrame({"side": ["BUY", word]})
    with pytest.raises(QueryError, match=f"side: '{word}'.*buy or sell"):
        read(frame, "side")
    assert read(frame.lazy(), "side") == ["BUY", None]


def test_option_types_come_in_any_case(engine: Engine):
    words = {"call": "CALL", "C": "CALL", "ce": "CALL", "Put": "PUT", "p": "PUT", "PE": "PUT"}
    assert read(engine.frame(pl.DataFrame({"option_type": list(words)})), "option_type") == list(
        words.values()
    )


@pytest.mark.parametrize("unit", ["ns", "us", "ms"])
def test_a_duration_means_itself_and_comes_back(unit: Any):
    frame = pl.DataFrame({"funding_interval": pl.Series([timedelta(hours=8)], dtype=pl.Duration(unit))})
    table = OpenTable.of(frame, ["funding_interval"])
    assert table.rows.collect()["funding_interval"].to_list() == [8 * 3_600 * 10**9]
    assert table.closed(table.rows).equals(frame)
    arrow = OpenTable.of(frame.to_pandas(), ["funding_interval"])
    pd.testing.assert_frame_equal(arrow.closed(arrow.rows), frame.to_pandas())


def test_hours_are_no_nanoseconds():
    frame = pl.DataFrame({"funding_interval": [8]})
    with pytest.raises(QueryError, match=r"funding_interval: 8.*a second or more.*timedelta\(hours=8\)"):
        read(frame, "funding_interval")
    assert read(frame.lazy(), "funding_interval") == [None]


def test_intervals_become_the_word_of_the_client(engine: Engine):
    words = {"HOUR": "1h", "1H": "1h", "60min": "1h", "day": "1d", "2h": "2h", "7d": "1w", "10s": "10s"}
    frame = engine.frame(pl.DataFrame({"interval": list(words)}))
    of_plan = words | {
        "60min": "60m",
        "7d": "7d",
    }  # the same lengths; a plan is not asked which is the shortest word
    assert read(frame, "interval") == [*(words if OpenTable.of(frame).is_eager else of_plan).values()]


def test_a_plan_reads_the_same_lengths_as_memory():
    units = [unit for name in UNIT_SECONDS for unit in (name, name.upper(), name.title()) if "_" not in name]
    numbers = (
        "",
        "0",
        "1",
        "2",
        "7",
        "8",
        "59",
        "168",
        "169",
        "10080",
        "10081",
        "604800",
        "604801",
        "1000000",
    )
    words = [f"{number}{gap}{unit}" for number in numbers for unit in units for gap in ("", " ")]
    words += [word for interval in Interval for word in (interval.value, interval.alias)] + [
        "",
        "1",
        "h1",
        "1 month",
    ]
    rows = nw.from_native(pl.DataFrame({"interval": words}).lazy())
    lengths: Any = rows.select(length=length_of(interval_words(nw.col("interval")))).collect()
    assert lengths["length"].to_list() == [_length(word) for word in words]


@pytest.mark.parametrize("count", [0, 1, 2, 8, 9, 40])
@pytest.mark.parametrize("dtype", [pl.String, pl.Categorical])
def test_lengths_of_few_words_and_of_many_are_the_same(count: int, dtype: Any):
    words = ["HOUR", "60min", "1h", "2 h", "WEEK", *(f"{number}s" for number in range(61, 96))][:count]
    frame = pl.DataFrame({"interval": pl.Series([*words, None, *words], dtype=dtype)})
    for native in (frame, frame.to_arrow(), frame.lazy(), frame.to_pandas()):
        table = OpenTable.of(native)
        lengths = [frame_interval(word).nanoseconds for word in words]
        found: Any = table.rows.select(length=table.lengths).collect()
        assert found["length"].to_list() == [*lengths, 0, *lengths]


def _length(word: str) -> int:
    try:
        return frame_interval(word).nanoseconds
    except QueryError:
        return 0


@pytest.mark.parametrize("word", ["fortnight", "1M", "2w", "h1", "0s"])
def test_words_that_are_no_interval_are_refused_in_memory_and_null_on_a_plan(word: str):
    frame = pl.DataFrame({"interval": ["1h", word], "price": 1.0})
    with pytest.raises(QueryError, match=f"interval: '{word}'"):
        read(frame, "price")
    assert read(frame.lazy(), "interval") == ["1h", None]


def test_contracts_are_no_unit():
    frame = pl.DataFrame({"amount_unit": ["coin", "CONTRACTS"], "amount": 1.0})
    with pytest.raises(QueryError, match="amount_unit: 'CONTRACTS'"):
        read(frame, "amount")
    assert read(frame.lazy(), "amount_unit") == ["COIN", "CONTRACTS"]


def test_volatilities_as_decimals_are_asked_for_in_memory_and_become_percent(engine: Engine):
    frame = engine.frame(pl.DataFrame({"implied_volatility": [0.625, 4.5, None]}))
    unsaid, decimal, percent = (
        {"implied_volatility": volatility_kind(u)} for u in (None, "decimal", "percent")
    )
    assert read(frame, "implied_volatility", kinds=decimal) == [62.5, 450.0, None]
    assert read(frame, "implied_volatility", kinds=percent) == [0.625, 4.5, None]
    if not OpenTable.of(frame).is_eager:
        return
    with pytest.raises(QueryError, match="volatility_unit='decimal'"):
        read(frame, "implied_volatility", kinds=unsaid)


@pytest.mark.parametrize("values", [[0.625, 5.0], [0.0, None], [None], []])
def test_volatilities_in_percent_and_unknown_ones_pass(values: list[float | None]):
    frame = pl.DataFrame({"implied_volatility": pl.Series(values, dtype=pl.Float64)})
    assert read(frame, "implied_volatility", kinds={"implied_volatility": volatility_kind(None)}) == values


def test_a_column_is_read_once():
    table = OpenTable.of(pl.DataFrame({"price": pl.Series([0.5], dtype=pl.Float32)}), ["price"])
    assert OpenTable.of(table, ["price"]) is table
    assert table.schema["price"] == nw.Float64
