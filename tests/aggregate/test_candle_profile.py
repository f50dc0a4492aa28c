"""Volume profiles of candles: literal values on every engine, what adds nothing, and what is refused."""

from __future__ import annotations

from datetime import UTC, datetime

import polars as pl
import pytest

from tables import in_columns
from tidytape.aggregate import candle_profile, candles, volume_profile
from tidytape.analytics.profile import value_area
from tidytape.errors import MissingColumnError, QueryError

HOUR = 3_600_000_000_000

CANDLES = pl.DataFrame(
    [
        ("A", "X", 0, 10.5, 12.5, 12.0, 4.0),  # a quarter, a half, a quarter
        ("A", "X", 1, 12.0, 12.0, 12.0, 1.0),  # one price
        ("A", "X", 2, 11.0, 13.0, 11.0, 2.0),  # ends on an edge: the row above gets nothing
        ("A", "X", HOUR, 0.2, 0.4, 0.3, 3.0),
        ("B", "X", 0, -0.5, 0.5, 0.5, 8.0),
        ("B", "X", 1, 5.0, 5.5, 5.0, 0.0),  # nothing was traded
    ],
    schema=["exchange", "raw_symbol", "timestamp", "low", "high", "close", "volume"],
    orient="row",
)


def rows(found: pl.DataFrame, *columns: str) -> list[tuple]:
    return found.select("exchange", "timestamp", "price", *columns).rows()


def test_uniform_is_even_over_the_range(engine) -> None:
    found = engine.polars(
        candle_profile(engine.frame(CANDLES), interval="1h", block_size=1, spreading="uniform")
    )
    found = in_columns(
        found,
        [
            "exchange",
            "raw_symbol",
            "timestamp",
            "block_size",
            "price",
            "volume",
            "spreading",
        ],
    )
    assert rows(found, "volume", "spreading") == [
        ("A", 0, 10.0, 1.0, "uniform"),
        ("A", 0, 11.0, 3.0, "uniform"),
        ("A", 0, 12.0, 3.0, "uniform"),
        ("A", HOUR, 0.0, 3.0, "uniform"),
        ("B", 0, -1.0, 4.0, "uniform"),
        ("B", 0, 0.0, 4.0, "uniform"),
    ]


def test_close_is_where_candles_closed(engine) -> None:
    found = engine.polars(
        candle_profile(engine.frame(CANDLES), interval="1h", block_size=1, spreading="close")
    )
    assert rows(found, "volume", "spreading") == [
        ("A", 0, 11.0, 2.0, "close"),
        ("A", 0, 12.0, 5.0, "close"),
        ("A", HOUR, 0.0, 3.0, "close"),
        ("B", 0, 0.0, 8.0, "close"),
    ]


def test_rows_are_those_of_exact_decimals() -> None:
    found = candle_profile(CANDLES[3:4], interval="1h", block_size="0.1", spreading="uniform")
    assert found["price"].to_list() == [0.2, 0.3]
    assert found["volume"].to_list() == pytest.approx([1.5, 1.5], rel=1e-15)


def test_sides_are_told_apart(engine) -> None:
    sided = pl.concat(
        [
            CANDLES[:1].with_columns(side=pl.lit("BUY")),
            CANDLES[:1].with_columns(side=pl.lit("SELL"), volume=8.0),
        ]
    )
    found = engine.polars(
        candle_profile(engine.frame(sided), interval="1h", block_size=1, spreading="uniform")
    )
    volumes = found.select("price", "buy_volume", "sell_volume", "volume")
    assert volumes.rows() == [(10.0, 1.0, 2.0, 3.0), (11.0, 2.0, 4.0, 6.0), (12.0, 1.0, 2.0, 3.0)]


def test_times_stay_of_their_kind_and_intervals_are_named(engine) -> None:
    noon = datetime(2024, 8, 8, 12, tzinfo=UTC)
    fetched = CANDLES[:1].with_columns(timestamp=pl.lit(noon), interval=pl.lit("MINUTE"), coin=pl.lit("BTC"))
    found = engine.polars(
        candle_profile(engine.frame(fetched), interval="1d", block_size=5, spreading="close")
    )
    assert found["timestamp"].dt.convert_time_zone("UTC").to_list() == [datetime(2024, 8, 8, tzinfo=UTC)]
    assert found.select("coin", "interval").rows() == [("BTC", "1d")]


@pytest.mark.parametrize("bad", [None, float("nan"), float("inf")])
@pytest.mark.parametrize(
    ("spreading", "wanted"),
    [
        ("uniform", [(10.0, 1.0), (11.0, None), (12.0, None)]),  # 11 to 13; the row of 13 gets nothing of it
        ("close", [(11.0, None), (12.0, 5.0)]),
    ],
)
def test_a_level_that_a_candle_of_unknown_volume_reaches_is_unknown(engine, bad, spreading, wanted) -> None:
    volume = pl.when((pl.col("timestamp") == 2) & (pl.col("exchange") == "A")).then(bad).otherwise("volume")
    candles = CANDLES.with_columns(volume=volume).filter(exchange="A").head(3)
    found = engine.polars(
        candle_profile(engine.frame(candles), interval="1h", block_size=1, spreading=spreading)
    )
    assert found.select("price", "volume").rows() == wanted


@pytest.mark.parametrize("low", [None, float("nan"), float("inf"), 13.0, -1e300])
def test_a_candle_without_usable_prices_is_a_row_without_a_price(engine, low) -> None:
    candles = CANDLES[:1].vstack(CANDLES[2:3].with_columns(low=pl.lit(low, pl.Float64), high=12.0))
    call = lambda frame: candle_profile(frame, interval="1h", block_size=1, spreading="uniform")  # noqa: E731
    found = engine.polars(call(engine.frame(candles))).select("price", "volume")
    wanted = {(10.0, 1.0), (11.0, 2.0), (12.0, 1.0), (None, 2.0)}
    assert found.height == 4
    assert set(found.rows()) == wanted
    nothing = candles.with_columns(volume=pl.col("timestamp").replace_strict({0: 4.0, 2: 0.0}))
    assert engine.polars(call(engine.frame(nothing)))["price"].to_list() == [10.0, 11.0, 12.0]
    areas = value_area(call(candles))
    assert areas["poc"].to_list() == [None]


@pytest.mark.parametrize("side", ["UNKNOWN", None])
def test_a_candle_of_an_unknown_side_makes_both_sides_unknown(engine, side) -> None:
    sided = pl.concat(
        [
            CANDLES[:1].with_columns(side=pl.lit("BUY")),
            CANDLES[2:3].with_columns(side=pl.lit(side, pl.String)),
        ]
    )
    found = engine.polars(candle_profile(engine.frame(sided), interval="1h", block_size=1, spreading="close"))
    volumes = found.select("price", "buy_volume", "sell_volume", "volume")
    assert volumes.rows() == [(11.0, None, None, None), (12.0, 4.0, 0.0, 4.0)]


def test_no_candles_give_no_rows_but_all_columns(engine) -> None:
    found = engine.polars(
        candle_profile(engine.frame(CANDLES.clear()), interval="1h", block_size=1, spreading="uniform")
    )
    found = in_columns(
        found,
        [
            "exchange",
            "raw_symbol",
            "timestamp",
            "block_size",
            "price",
            "volume",
            "spreading",
        ],
    )
    assert found.is_empty()


def test_what_is_none_is_refused() -> None:
    with pytest.raises(QueryError, match="spreading"):
        candle_profile(CANDLES, interval="1h", block_size=1, spreading="normal")
    with pytest.raises(QueryError, match="block_size"):
        candle_profile(CANDLES, interval="1h", block_size=0, spreading="close")
    with pytest.raises(MissingColumnError, match="low"):
        candle_profile(CANDLES.drop("low"), interval="1h", block_size=1, spreading="uniform")


# --- how far from the truth ---


@pytest.mark.parametrize(
    ("size", "rule", "elsewhere", "off"),
    [
        (10, "uniform", 0.06, (0, 0, 0)),
        (5, "uniform", 0.12, (0, 0, 0)),
        (1, "uniform", 0.22, (-9, 1, -17)),
        (10, "close", 0.17, (-2, 0, -2)),
        (5, "close", 0.25, (2, -6, 4)),
        (1, "close", 0.56, (-24, -27, -24)),
    ],
)
def test_how_far_minutes_are_from_recorded_trades(recorded, size, rule, elsewhere, off) -> None:
    """The table of the guide about profiles."""
    file = recorded / "coinbase_btc-usd_trades_20230905.csv.gz"
    trades = pl.read_csv(file, try_parse_dates=True).with_row_index("sequence").with_columns(
        exchange=pl.lit("COINBASE"), raw_symbol=pl.lit("BTC-USD"), side=pl.col("side").str.to_uppercase(),
        timestamp=pl.col("timestamp").dt.replace_time_zone(None).dt.replace_time_zone("UTC"),
    )  # fmt: skip
    assert trades.height == 5_882
    exact = volume_profile(trades, interval="1h", block_size=size)
    minutes = candles(trades, interval="1m")
    assert (minutes["high"] - minutes["low"]).mean() == pytest.approx(14, abs=0.5)
    found = candle_profile(minutes, interval="1h", block_size=size, spreading=rule)
    both = exact.join(found, on="price", how="full", coalesce=True).fill_null(0)
    moved = (both["volume"] - both["volume_right"]).abs().sum() / 2
    assert moved / exact["volume"].sum() == pytest.approx(elsewhere, abs=0.005)
    ends = [value_area(frame).select("val", "poc", "vah").row(0) for frame in (exact, found)]
    assert tuple(round((other - one) / size) for one, other in zip(*ends, strict=True)) == off


@pytest.mark.parametrize(("number", "high"), [(1, 2.0e6), (70_000, 1.0e6)])
def test_candles_that_no_memory_has_room_for_are_refused(number: int, high: float) -> None:
    frame = pl.select(timestamp=pl.int_range(number), low=1.0, high=high, volume=1.0)
    with pytest.raises(QueryError, match="at most 1,048,576 rows"):
        candle_profile(frame, interval="1d", block_size=1, spreading="uniform")


def test_a_level_of_a_candle_does_not_depend_on_the_candles_beside_it() -> None:
    prices = {"low": 0.0, "high": 0.08, "close": 0.0, "volume": 1e-6}
    flat = pl.DataFrame({"timestamp": [0, 1], **dict.fromkeys(prices, 0.0)})
    wide = pl.DataFrame({"timestamp": [2], **prices})
    levels = [
        candle_profile(frame, interval="1h", block_size="0.01", spreading="uniform")["volume"].to_list()
        for frame in (wide, pl.concat([wide, flat]), pl.concat([flat, wide]))
    ]
    assert levels[0] == levels[1] == levels[2]
