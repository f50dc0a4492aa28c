"""Trades as a client fetches them: times with a zone, names as categories, no ``sequence``."""

from __future__ import annotations

import polars as pl
import polars.selectors as cs
import pytest
from polars.testing import assert_frame_equal

import tidytape
from tidytape import aggregate
from tidytape.analytics import pit, profile
from tidytape.errors import QueryError

TIME = pl.Datetime("us", "UTC")
TIMES = ("timestamp", "period_start", "period_end", "first_timestamp", "last_timestamp")
FUNCTIONS = {
    "candles": lambda trades: aggregate.candles(trades, interval="1m"),
    "volume_profile": lambda trades: aggregate.volume_profile(trades, interval="1h", block_size="0.1"),
    "tpo": lambda trades: aggregate.tpo(trades, interval="1h", block_size="0.1"),
    "tpo_sessions": lambda trades: aggregate.tpo_sessions(trades, interval="1h", block_size="0.1"),
    "tpo_touches": lambda trades: aggregate.tpo_touches(
        trades, period="monthly", interval="1h", block_size="0.1"
    ),
}


@pytest.mark.long
@pytest.mark.parametrize("name", list(FUNCTIONS))
def test_times_of_any_kind_are_taken_and_given_back(engine, trades, name):
    counted = trades.with_columns(pl.col("timestamp") // 1_000 * 1_000)
    timed = counted.with_columns(
        pl.from_epoch("timestamp", "ns").dt.replace_time_zone("UTC").dt.cast_time_unit("us")
    )
    wanted = FUNCTIONS[name](counted)
    found = engine.polars(FUNCTIONS[name](engine.frame(timed)))
    assert all(found.schema[time].is_temporal() for time in TIMES if time in found.columns)
    in_utc = found.with_columns(cs.datetime().dt.convert_time_zone("UTC").dt.timestamp("ns"))
    key = [k for k in ("exchange", "raw_symbol", "timestamp", "block_id", "price") if k in wanted.columns]
    assert_frame_equal(in_utc.sort(key), wanted.sort(key), check_dtypes=False)


def test_categories_and_the_index_of_pandas_are_the_callers(trades):
    frame = trades.with_columns(
        pl.from_epoch("timestamp", "ns").dt.replace_time_zone("UTC"),
        pl.col("exchange", "raw_symbol", "side").cast(pl.Categorical),
    )
    given = frame.to_pandas()
    given.index = given.index[::-1]
    found = aggregate.volume_profile(given, interval="1h", block_size="0.1")
    assert str(found["exchange"].dtype) == "category"
    assert str(found["timestamp"].dtype) == "datetime64[ns, UTC]"
    assert list(found.index) == list(range(len(found)))


@pytest.mark.long
def test_without_an_order_within_a_moment_only_what_it_decides_is_unknown(engine, trades):
    for name in ("volume_profile", "tpo_touches", "tpo", "tpo_sessions"):
        wanted = FUNCTIONS[name](trades)
        found = engine.polars(FUNCTIONS[name](engine.frame(trades.drop("sequence"))))
        if name == "tpo_sessions":
            # Of X on A two trades opened the second hour, at 0.6 and 0.7, and closed it; two opened the first.
            at = (pl.col("exchange") == "A") & (pl.col("raw_symbol") == "X") & (pl.col("timestamp") >= 0)
            late = pl.col("timestamp") >= 3600 * 10**9
            wanted = wanted.with_columns(
                opening_price=pl.when(~at).then("opening_price"),
                closing_price=pl.when(~(at & late)).then("closing_price"),
            )
        key = [k for k in ("exchange", "raw_symbol", "timestamp", "block_id", "price") if k in wanted.columns]
        assert_frame_equal(found.sort(key), wanted.sort(key), check_dtypes=False)


@pytest.mark.slow
def test_trades_of_one_moment_at_one_price_need_no_order(trades):
    alike = trades.with_columns(price=pl.lit(0.5))
    for name in ("tpo", "tpo_sessions"):
        assert FUNCTIONS[name](alike.drop("sequence")).equals(FUNCTIONS[name](alike))


def test_ids_that_are_numbers_order_the_trades_of_one_time(engine):
    trades = pl.DataFrame(
        {
            "exchange": "A", "raw_symbol": "X", "timestamp": [5, 5, 5, 7, 7], "id": ["9", "10", "11", "99", "100"],
            "price": [2.0, 1.0, 3.0, 5.0, 4.0], "amount": 1.0, "side": ["BUY", "SELL", "BUY", "BUY", "BUY"],
        }
    )  # fmt: skip
    names = ("open", "high", "low", "close", "volume")
    for order in ([3, 1, 4, 0, 2], [2, 0, 4, 1, 3]):
        got = engine.polars(aggregate.candles(engine.frame(trades[order]), interval="1m"))
        assert got.select(names).rows() == [(2.0, 5.0, 1.0, 4.0, 5.0)]
    # Without an order, the open and the close of several prices at one time are unknown.
    for unordered in (trades.drop("id"), trades.with_columns(id=pl.col("id") + "x")):
        got = engine.polars(aggregate.candles(engine.frame(unordered), interval="1m"))
        assert got.select(names).fill_nan(None).rows() == [(None, 5.0, 1.0, None, 5.0)]
    sides = engine.polars(aggregate.candles(engine.frame(trades.drop("id")), interval="1m", by_side=True))
    assert sides.select("side", *names).fill_nan(None).rows() == [
        ("BUY", None, 5.0, 2.0, None, 4.0),
        ("SELL", 1.0, 1.0, 1.0, 1.0, 1.0),
    ]


@pytest.mark.parametrize("name", list(FUNCTIONS))
def test_times_without_a_zone_are_refused(trades, name):
    with pytest.raises(QueryError, match="zone"):
        FUNCTIONS[name](trades.with_columns(pl.from_epoch("timestamp", "ns")))


def test_a_size_that_makes_too_many_rows_is_refused_at_once(trades):
    timed = trades.with_columns(pl.from_epoch("timestamp", "ns").dt.replace_time_zone("UTC"))
    with pytest.raises(QueryError, match="block_size"):
        aggregate.tpo(timed, interval="1h", block_size="0.0000001")


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["polars", "pandas"])
def test_trades_of_a_client_make_what_the_service_makes_of_them(backend):
    client = tidytape.Client.demo(backend=backend)
    asked = {"exchange": "DEMO_SPOT", "raw_symbol": "BTCUSDT", "start": "2024-08-07", "end": "2024-08-08"}
    cut = {"interval": "1d", "block_size": 50}
    trades = client.trades(**asked)

    def common(ours, theirs):
        ours, theirs = (pl.from_pandas(frame) if backend == "pandas" else frame for frame in (ours, theirs))
        names = [name for name in ours.columns if name in theirs.columns]
        assert len(names) >= 6
        words = cs.by_name("exchange", "raw_symbol").cast(pl.String)
        assert_frame_equal(ours.select(names).with_columns(words), theirs.select(names).with_columns(words))

    common(aggregate.candles(trades, interval="1m"), client.candles(interval="1m", **asked))
    common(aggregate.volume_profile(trades, **cut), client.volume_profile(**cut, **asked))
    levels, sessions = aggregate.tpo(trades, **cut), aggregate.tpo_sessions(trades, **cut)
    common(levels, client.tpo(**cut, **asked))
    common(sessions, client.tpo_sessions(**cut, **asked))
    touches = aggregate.tpo_touches(trades, **cut)
    rules = {"count": "tpo_count", "row_size": 50}
    ended = profile.with_sessions(levels, sessions)
    area, of_touches = profile.value_area(ended, **rules), profile.value_area(touches, **rules)
    assert list(area["poc"]) == list(of_touches["poc"])
    assert list(pit.known_at(area)["known_at"]) == list(sessions["period_end"])
