"""What the error about a missing column suggests: calls that exist, and return the columns that are needed."""

from __future__ import annotations

import inspect

import polars as pl
import pytest

from tidytape import Client, aggregate, analytics, plot
from tidytape.analytics import depth, flow, options, profile
from tidytape.catalogue import DATA_TYPES
from tidytape.client._endpoints import Queries
from tidytape.errors import MissingColumnError
from tidytape.frames._sources import CLIENT_CALLS, sources, suggestion

DAY = {"interval": "1h", "start": "2024-08-08", "end": "2024-08-09"}
SPOT = {"exchange": "DEMO_SPOT", "raw_symbol": "BTCUSDT"}
PERP = {"exchange": "DEMO_PERP", "raw_symbol": "BTC-PERP"}
# How the data types whose series are no markets are selected.
MARKETS = {
    "SKEW_OPTION_SUMMARY_AGG": {"exchange": "X", "raw_symbol": "BTC_25", "coin": "BTC", "tenor": "1m"},
    "TOKEN_SUPPLY_AGG": {"token_name": "Bitcoin"},
    "VENUEX_LIQUIDATION_AGG": {"coin": "BTC"},
}
PROFILES = "client.volume_profile(...) or client.tpo(...) returns it"


@pytest.fixture(scope="module")
def frames():
    client = Client.demo()
    minutes = {"start": "2024-08-08", "end": "2024-08-08T00:10Z"}
    return {
        "candles": client.candles(**SPOT, **DAY),
        "trades": client.trades(**SPOT, **minutes),
        "profile": client.volume_profile(**SPOT, **DAY),
        "book": client.book_heatmap(**PERP, **DAY, block_size=100),
    }


def test_every_data_type_has_the_method_that_fetches_it():
    assert set(CLIENT_CALLS) == set(DATA_TYPES)
    for name, call in CLIENT_CALLS.items():
        method = getattr(Queries(), call.partition("(")[0])
        more = MARKETS.get(name, {"exchange": "X", "raw_symbol": "Y"})
        window = DAY if name != "TRADE" else {"start": DAY["start"], "end": DAY["end"]}
        asked = method(**more, **window, **({"by_side": True} if "by_side=True" in call else {}))
        assert {query.type for query in asked.queries} == {(name,)}, call


def test_every_call_exists():
    for source in sources():
        room, *path = source.call.partition("(")[0].split(".")
        found = {"client": Client, "aggregate": aggregate, "analytics": analytics}[room]
        for name in path:
            found = getattr(found, name)
        assert callable(found)
        if "by_side" in source.call:
            assert "by_side" in inspect.signature(found).parameters


@pytest.mark.parametrize(
    ("call", "given", "expected"),
    [
        (flow.cvd, "candles", "client.candles(..., by_side=True) returns it"),
        (flow.delta, "candles", "client.candles(..., by_side=True) returns it"),
        (profile.value_area, "candles", f"{PROFILES}; aggregate.candle_profile(...) makes it of this frame"),
        (
            profile.point_of_control,
            "trades",
            f"{PROFILES}; aggregate.volume_profile(...) or aggregate.tpo(...) makes it of this frame",
        ),
        (profile.single_prints, "candles", "client.tpo(...) returns it"),
        (profile.day_type, "candles", "client.tpo(...) returns it"),
        (depth.depth_within, "profile", "client.book_heatmap(...) returns it"),
        (depth.regrid, "candles", "client.book_heatmap(...) returns it"),
        (plot.book_heatmap, "candles", "client.book_heatmap(...) returns it"),
        (options.smile, "candles", "analytics.options.svi(...) returns it"),
        (options.tenor_structure, "candles", "client.implied_volatility(...) or client.skew(...) returns it"),
    ],
)
def test_a_frame_of_another_kind_is_told_what_returns_the_right_one(frames, call, given, expected):
    with pytest.raises(MissingColumnError) as caught:
        call(frames[given])
    assert caught.value.hint == expected
    assert str(caught.value).endswith(f"; {expected}")


@pytest.mark.slow
def test_what_is_suggested_works(frames):
    sides = Client.demo().candles(**SPOT, **DAY, by_side=True)
    assert flow.cvd(sides)["cvd"].null_count() == 0
    made = aggregate.candle_profile(frames["candles"], interval="1d", block_size=50, spreading="close")
    assert profile.value_area(made)["poc"].null_count() == 0
    made = aggregate.volume_profile(frames["trades"], interval="1m", block_size=10)
    assert profile.point_of_control(made)["poc"].null_count() == 0


def test_trades_without_an_order_are_not_said_to_make_candles(frames):
    columns = set(frames["trades"].columns)
    assert "aggregate.candles" not in suggestion(["open", "close", "volume"], columns)
    assert "aggregate.candles(...)" in suggestion(["open", "close", "volume"], columns | {"sequence"})


def test_columns_of_the_caller_are_no_cause_and_common_ones_suggest_nothing():
    assert suggestion(["day", "price", "volume"], ["day", "close", "volume"]).startswith(
        "client.volume_profile"
    )
    assert suggestion(["day", "price", "volume"], ["price", "volume"]) is None
    assert suggestion(["coin", "timestamp"], ["price"]) is None
    assert suggestion(["price"], ["close"]) is None
    with pytest.raises(MissingColumnError) as caught:
        flow.cvd(pl.DataFrame({"timestamp": [0], "side": ["BUY"], "volumes": [1.0]}))
    assert "did you mean 'volumes'?" in str(caught.value)
