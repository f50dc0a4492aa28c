"""Market profiles of candles: those of the trades that the candles were made of, but for where volume lies."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tidytape
from tidytape import aggregate
from tidytape.analytics.profile import developing, initial_balance, summary, value_area
from tidytape.errors import MissingColumnError, QueryError
from tidytape.schema import TPO_SESSIONS, schema_of

MINUTE = 60 * 10**9
HOUR, DAY = 60 * MINUTE, 1_440 * MINUTE
SESSION = ["exchange", "raw_symbol", "timestamp"]
OF_TOUCHES = [
    *SESSION,
    "price",
    "tpo_count",
    "first_touch_block",
    "last_touch_block",
    "is_single_print",
    "is_poor_low",
]
"""What of a level does not depend on where the volume lies."""
LISTS = {"poor_highs", "poor_lows", "single_prints"}
ASIDE = {*TPO_SESSIONS.descriptors, *TPO_SESSIONS.identity, *LISTS, "total_volume"}
OF_SESSIONS = [*SESSION, *(name for name in TPO_SESSIONS.names if name not in {*ASIDE, *SESSION})]


def trades_of(rows: list[tuple[int, float, float, str]]) -> pl.DataFrame:
    schema = {"timestamp": pl.Int64, "price": pl.Float64, "amount": pl.Float64, "side": pl.String}
    return (
        pl.DataFrame(rows, schema=schema, orient="row")
        .with_row_index("sequence")
        .with_columns(
            pl.col("sequence").cast(pl.Int64), exchange=pl.lit("X"), raw_symbol=pl.lit("BTCUSDT"),
            quote_amount=pl.col("price") * pl.col("amount"),
        )
    )  # fmt: skip


trades = st.lists(
    st.tuples(
        st.integers(0, 3 * DAY // 10**9).map(lambda second: second * 10**9),
        st.integers(900, 1_100).map(lambda ticks: ticks / 10),
        st.integers(1, 1_000).map(lambda lots: lots / 100),
        st.sampled_from(["BUY", "SELL"]),
    ),
    min_size=1,
    max_size=60,
).map(trades_of)
sizes = st.sampled_from(["0.1", "0.25", "1", "5"])
cuts = st.sampled_from(
    [{"period": "daily"}, {"period": "weekly", "block_minutes": 240}, {"period": "monthly", "block_minutes": 60},
     {"interval": "1h", "block_minutes": 5}, {"interval": "1d"}]
)  # fmt: skip


few = settings(max_examples=10)


@pytest.mark.slow
@few
@given(trades, sizes, cuts, st.sampled_from(["1m", "5m"]))
def test_touches_of_candles_are_those_of_trades(tape, size, cut, length) -> None:
    cut = {"interval": "1d", **cut, "block_size": size}
    candles = aggregate.candles(tape, interval=length).with_columns(interval=pl.lit(length))
    found, exact = aggregate.candle_tpo(candles, **cut), aggregate.tpo(tape, **cut)
    assert found.select(OF_TOUCHES).equals(exact.select(OF_TOUCHES))
    found, exact = aggregate.candle_tpo_sessions(candles, **cut), aggregate.tpo_sessions(tape, **cut)
    assert found.select(OF_SESSIONS).equals(exact.select(OF_SESSIONS))


@pytest.mark.slow
@few
@given(trades, sizes, cuts, st.sampled_from(["uniform", "close"]))
def test_volume_is_kept(tape, size, cut, spreading) -> None:
    candles = aggregate.candles(tape, interval="1m").with_columns(interval=pl.lit("1m"))
    cut = {"interval": "1d", **cut, "block_size": size}
    found = aggregate.candle_tpo(candles, spreading=spreading, **cut)
    assert found["volume"].sum() == pytest.approx(tape["amount"].sum(), rel=1e-12)
    totals = aggregate.candle_tpo_sessions(candles, spreading=spreading, **cut)["total_volume"].to_list()
    assert totals == pytest.approx(aggregate.tpo_sessions(tape, **cut)["total_volume"].to_list(), rel=1e-12)


@pytest.mark.slow
@few
@given(trades, sizes, st.sampled_from(["uniform", "close"]))
def test_candles_of_one_price_make_the_exact_profiles(tape, size, spreading) -> None:
    tape = tape.unique(pl.col("timestamp") // MINUTE, keep="first", maintain_order=True)
    sided = aggregate.candles(tape, interval="1m", by_side=True).with_columns(interval=pl.lit("1m"))
    columns = [*SESSION, "price", "buy_volume", "sell_volume", "volume"]
    exact = aggregate.volume_profile(tape, interval="1d", block_size=size)
    found = aggregate.candle_profile(sided, interval="1d", block_size=size, spreading=spreading)
    assert found.select(columns).equals(exact.select(columns))
    market = aggregate.tpo(tape, interval="1d", block_size=size)
    of_candles = aggregate.candle_tpo(sided, block_size=size, spreading=spreading)
    assert of_candles.select(*OF_TOUCHES, *columns[4:]).equals(market.select(*OF_TOUCHES, *columns[4:]))


# --- as a client has them ---


@pytest.fixture(scope="module")
def client() -> Any:
    with tidytape.Client.demo() as one:
        yield one


DEMO: dict[str, Any] = {
    "exchange": "DEMO_SPOT",
    "raw_symbol": "BTCUSDT",
    "start": "2024-08-08",
    "end": "2024-08-09",
}


PAIRS = {
    "levels": (aggregate.candle_tpo, tidytape.Client.tpo, schema_of("TPO_AGG")),
    "sessions": (aggregate.candle_tpo_sessions, tidytape.Client.tpo_sessions, TPO_SESSIONS),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", PAIRS)
def test_it_has_what_a_market_profile_of_the_client_has(client: Any, name: str) -> None:
    make, fetch, schema = PAIRS[name]
    served = fetch(client, interval="1d", session="daily", block_size=50, **DEMO)
    found = make(client.candles(interval="1m", **DEMO), period="daily", block_size=50)
    missing = {"is_final", "buy_volume", "sell_volume"}
    names = [column for column in found.columns if column != "spreading"]
    assert names == [column for column in schema.names if column not in missing]
    alike = [
        column
        for column in found.columns
        if column not in {"volume", "spreading", "total_volume", "interval", "is_in_progress"}
    ]
    assert {column: found.schema[column] for column in alike if found.schema[column] != pl.String} == {
        column: served.schema[column] for column in alike if found.schema[column] != pl.String
    }
    text = pl.selectors.categorical().cast(pl.String)
    assert found.select(alike).with_columns(text).equals(served.select(alike).with_columns(text))
    if name == "sessions":
        assert found["total_volume"][0] == pytest.approx(served["total_volume"][0], rel=1e-12)


@pytest.mark.slow
def test_analytics_take_it(client: Any) -> None:
    candles = client.candles(interval="1m", **DEMO)
    profile = aggregate.candle_tpo(candles, period="daily", block_size=50)
    served = client.tpo(interval="1d", session="daily", block_size=50, **DEMO)
    ways = [
        partial(value_area, count="tpo_count"),
        partial(initial_balance, block_minutes=30),
        partial(developing, block_minutes=30),
    ]
    for function in ways:
        columns = [name for name in function(served).columns if name in function(profile).columns]
        numbers = pl.selectors.float() | pl.selectors.integer()
        assert (
            function(profile)
            .select(columns)
            .select(numbers)
            .equals(function(served).select(columns).select(numbers))
        )
    ours, theirs = (summary(levels, block_minutes=30)["poc"].to_list() for levels in (profile, served))
    assert ours == theirs


@pytest.mark.slow
def test_pandas_stays_pandas(client: Any) -> None:
    candles = client.candles(interval="1m", **DEMO)
    found = aggregate.candle_tpo(candles.to_pandas(), block_size=50)
    expected = aggregate.candle_tpo(candles, block_size=50)
    assert list(found.columns) == expected.columns
    assert found["tpo_count"].to_list() == expected["tpo_count"].to_list()
    assert [list(blocks) for blocks in found["block_ids"]] == expected["block_ids"].to_list()


# --- what candles may be ---

CANDLES = pl.DataFrame(
    {
        "timestamp": [datetime(2024, 8, 8, tzinfo=UTC) + timedelta(minutes=minute) for minute in (0, 1, 40)],
        "open": [10.0, 11.0, 12.0], "high": [11.0, 12.0, 12.5], "low": [10.0, 11.0, 12.0],
        "close": [11.0, 12.0, 12.5], "volume": [2.0, 2.0, 1.0],
    }
)  # fmt: skip


@pytest.mark.slow
def test_a_file_of_candles_needs_no_names() -> None:
    found = aggregate.candle_tpo(CANDLES, block_size=1)
    assert found.select("price", "block_ids", "volume").rows() == [
        (10.0, [0], 2.0), (11.0, [0], 2.0), (12.0, [0, 1], 1.0)
    ]  # fmt: skip
    assert "exchange" not in found.columns
    sessions = aggregate.candle_tpo_sessions(CANDLES, block_size=1)
    assert "exchange" not in sessions.columns
    prices = ("opening_price", "closing_price", "ibr_high", "ibr_low")
    assert sessions.select(prices).rows() == [(10.0, 12.5, 12.5, 10.0)]
    assert found["timestamp"].dtype == CANDLES["timestamp"].dtype
    lazy = aggregate.candle_tpo(CANDLES.lazy(), block_size=1)
    assert isinstance(lazy, pl.LazyFrame)
    assert lazy.collect().equals(found)


@pytest.mark.slow
@pytest.mark.parametrize(
    "broken", [{"low": None}, {"high": float("nan")}, {"low": 20.0}, {"close": 9.0}], ids=str
)
def test_a_lost_candle_makes_the_volumes_of_its_session_unknown(broken: dict[str, Any]) -> None:
    ((name, value),) = broken.items()
    candles = pl.concat([CANDLES, CANDLES.with_columns(pl.col("timestamp") + timedelta(days=1))])
    at = pl.col("timestamp") == CANDLES["timestamp"][2]
    worse = candles.with_columns(pl.when(at).then(pl.lit(value, pl.Float64)).otherwise(name).alias(name))
    found = aggregate.candle_tpo(worse, block_size=1)
    first = found.filter(pl.col("timestamp") == CANDLES["timestamp"][0])
    assert first.select("price", "block_ids").rows() == [(10.0, [0]), (11.0, [0]), (12.0, [0])]
    assert aggregate.candle_tpo_sessions(worse, block_size=1)["total_volume"].to_list() == [None, 5.0]
    assert found["volume"].to_list()[3:] == [2.0, 2.0, 1.0]
    nothing = worse.with_columns(volume=pl.when(at).then(0.0).otherwise("volume"))
    assert aggregate.candle_tpo_sessions(nothing, block_size=1)["total_volume"].to_list() == [4.0, 5.0]


@pytest.mark.slow
def test_candles_longer_than_a_time_block_are_refused() -> None:
    times = [datetime(2024, 8, 8, hour, tzinfo=UTC) for hour in range(3)]
    hours = CANDLES.with_columns(
        pl.Series("timestamp", times, CANDLES.schema["timestamp"]), interval=pl.lit("1h")
    )
    with pytest.raises(
        QueryError, match=r"block_minutes: got '30 with candles of 60 minutes'.*column interval"
    ):
        aggregate.candle_tpo(hours, block_size=1)
    assert aggregate.candle_tpo(hours, block_size=1, block_minutes=60).height == 3
    assert aggregate.candle_tpo(hours.lazy(), block_size=1).collect().is_empty()
    apart = pl.concat([CANDLES[[0, 2]], CANDLES[2:].with_columns(pl.col("timestamp") + timedelta(hours=1))])
    with pytest.raises(QueryError, match="a column interval, such as '1m', says how long"):
        aggregate.candle_tpo(apart, block_size=1)
    assert aggregate.candle_tpo(apart.with_columns(interval=pl.lit("1m")), block_size=1).height == 3


def test_what_is_none_is_refused() -> None:
    with pytest.raises(QueryError, match="spreading"):
        aggregate.candle_tpo(CANDLES, block_size=1, spreading="normal")
    with pytest.raises(QueryError, match="block_size"):
        aggregate.candle_tpo(CANDLES, block_size=0)
    with pytest.raises(MissingColumnError, match="high"):
        aggregate.candle_tpo(CANDLES.drop("high"), block_size=1)
    duckdb = pytest.importorskip("duckdb")
    in_sql = duckdb.from_arrow(CANDLES.with_columns(pl.col("timestamp").to_physical()).to_arrow())
    with pytest.raises(QueryError, match="collect it first"):
        aggregate.candle_tpo(in_sql, block_size=1)


@pytest.mark.slow
def test_no_candles_give_no_rows_but_all_columns() -> None:
    found = aggregate.candle_tpo(CANDLES.clear(), block_size=1)
    assert found.is_empty()
    assert found.columns == aggregate.candle_tpo(CANDLES, block_size=1).columns


@pytest.mark.slow
def test_volumes_in_coins_and_in_dollars_are_not_added():
    candles = pl.DataFrame(
        {
            "timestamp": [0, 30 * 60 * 10**9], "open": 10.0, "high": 11.0, "low": 10.0, "close": 10.0,
            "volume": [1.0, 10.0], "interval": "1m", "amount_unit": ["COIN", "USD"],
        }
    )  # fmt: skip
    with pytest.raises(QueryError, match="COIN and USD in one series"):
        aggregate.candle_tpo(candles, block_size=1)
    lazy = aggregate.candle_tpo(candles.lazy(), block_size=1).collect()
    assert lazy["volume"].to_list() == [None, 0.0]  # the price only touched the second level
    assert aggregate.candle_tpo(candles.head(1), block_size=1)["amount_unit"].unique().to_list() == ["COIN"]
