"""Gap filling, USD and grouping through the real app."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import polars as pl
import pytest
from deltalake import write_deltalake

from lakes import empty_lake
from tidytape.client._local import AppTransport
from tidytape.lake import Lake
from tidytape.query import PointsQuery
from tidytape.service import Key, Keys, create_app, hashed
from tidytape.service.answer._engine import Engine

NS = 1_000_000_000
T0 = 1_723_161_600  # 2024-08-09T00:00:00Z
DAY = 86_400
SUM = {"transform.groupBy.type": "GROUP_BY_TYPE_SUM"}
USD = {"transform.normalize.quote": "USD"}
Get = Callable[..., Any]

# venue, symbol, coin, quote, class, block size, seconds after T0 of trades with side, price, amount
MARKETS: list[tuple[str, str, str, str, str, float, list[tuple[float, str, float, float]]]] = [
    ("ALPHA", "BTCUSDT", "BTC", "USDT", "SPOT", 0.5, [
        (-40 * DAY, "BUY", 90.0, 1.0),
        (-2 * DAY, "SELL", 95.0, 1.0),
        (60.0, "BUY", 100.0, 0.1),
        (61.0, "SELL", 101.0, 0.2),
        (180.0, "BUY", 103.5, 0.4),
    ]),
    ("BETA", "BTC-PERP", "BTC", "USD", "PERPETUAL", 2.0, [
        (-100.0, "SELL", 99.0, 1.0),
        (60.5, "BUY", 99.5, 0.3),
        (62.0, "SELL", 102.0, 0.5),
    ]),
    ("ALPHA", "BTCEUR", "BTC", "EUR", "SPOT", 0.5, [(60.0, "BUY", 80.0, 1.0), (120.0, "BUY", 81.0, 1.0)]),
    ("ALPHA", "EURUSDT", "EUR", "USDT", "SPOT", 0.1, [(-90.0, "BUY", 1.25, 1.0), (90.0, "BUY", 1.5, 1.0)]),
    ("ALPHA", "ETHUSDT", "ETH", "USDT", "SPOT", 0.5, [(60.0, "SELL", 10.0, 2.0)]),
    ("BETA", "ETH-PERP", "ETH", "USD", "PERPETUAL", 0.5, [(61.0, "SELL", 11.0, 3.0)]),
    ("ALPHA", "ETHTRY", "ETH", "TRY", "SPOT", 0.5, [(60.0, "BUY", 300.0, 2.0)]),
]  # fmt: skip


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("options") / "lake"
    made = empty_lake(path)
    made.writer().register(
        pl.DataFrame(
            [
                {
                    "exchange": exchange,
                    "raw_symbol": symbol,
                    "normalized_symbol": f"{coin}-{quote}",
                    "coin": coin,
                    "quote_coin": quote,
                    "category": category,
                    "block_size": block_size,
                    "available_since": T0 * NS + int(rows[0][0] * NS),
                }
                for exchange, symbol, coin, quote, category, block_size, rows in MARKETS
            ]
        )
    )
    for exchange, symbol, *_, rows in MARKETS:
        trades = [
            {
                "exchange": exchange,
                "raw_symbol": symbol,
                "id": str(number),
                "timestamp": T0 * NS + int(second * NS),
                "sequence": number,
                "side": side,
                "price": price,
                "amount": amount,
                "quote_amount": price * amount,
            }
            for number, (second, side, price, amount) in enumerate(rows)
        ]
        made.writer().append("trades", pl.DataFrame(trades), source=f"test:{exchange}/{symbol}")
    return path


@pytest.fixture
def get(lake: Path) -> Iterator[Get]:
    keys = Keys([Key(tier, hashed(tier), tier, created=0) for tier in ("basic", "enterprise")])
    transport = AppTransport(create_app(Lake(lake), keys, clock=lambda: 1_800_000_000 * NS))
    client = httpx.Client(transport=transport, base_url="http://service")

    def ask(key: str = "enterprise", **changed: Any) -> httpx.Response:
        base = {
            "type": "TRADE_SIDE_AGNOSTIC_AGG",
            "exchange": "ALPHA",
            "rawSymbol": "BTCUSDT",
            "interval": "MINUTE",
            "from": T0,
            "period": 300,
        }
        params = {name: value for name, value in {**base, **changed}.items() if value is not None}
        return client.get("/v1/points", params=params, headers={"X-Service-Key": key})

    yield ask
    transport.close()


def bought(response: httpx.Response) -> list[dict[str, Any]]:
    assert response.status_code == 200, response.text
    return response.json()["series"]


def rows(series: dict[str, Any], *names: str) -> list[tuple[Any, ...]]:
    points = [one["Point"] for one in series["points"]]
    return [((p["timestamp"]["s"] - T0) // 60, *(p.get(name) for name in names)) for p in points]


# --- gapfill ---


@pytest.mark.slow
def test_gaps_are_filled_from_the_last_trade_before_the_window(get: Get) -> None:
    (series,) = bought(get(gapfill="true"))
    assert rows(series, "open", "close", "volume") == [
        (0, 95.0, 95.0, 0.0),  # of two days before
        (1, 100.0, 101.0, 0.3),
        (2, 101.0, 101.0, 0.0),
        (3, 103.5, 103.5, 0.4),
        (4, 103.5, 103.5, 0.0),
    ]
    filled = series["points"][2]["Point"]
    assert filled == {
        "timestamp": {"s": T0 + 120}, "open": 101.0, "high": 101.0, "low": 101.0, "close": 101.0, "volume": 0.0,
    }  # fmt: skip
    without = bought(get(gapfill="false"))
    assert rows(without[0]) == [(1,), (3,)]


@pytest.mark.slow
def test_each_side_has_its_own_last_close(get: Get) -> None:
    buys, sells = bought(get(type="TRADE_AGG", gapfill="true"))
    assert (buys["id"]["side"], sells["id"]["side"]) == ("BUY", "SELL")
    assert [close for _, close in rows(buys, "close")] == [90.0, 100.0, 100.0, 103.5, 103.5]
    assert [close for _, close in rows(sells, "close")] == [95.0, 101.0, 101.0, 101.0, 101.0]
    (only,) = bought(get(type="TRADE_AGG", gapfill="true", side="SELL"))
    assert rows(only, "close") == rows(sells, "close")


@pytest.mark.slow
def test_nothing_is_invented_before_the_first_trade(get: Get) -> None:
    (series,) = bought(get(rawSymbol="ETHUSDT", gapfill="true"))
    assert rows(series, "close") == [(minute, 10.0) for minute in (1, 2, 3, 4)]
    assert bought(get(rawSymbol="ETHUSDT", gapfill="true", period=60)) == []


def test_a_window_without_a_trade_is_filled_whole_and_newest_first(get: Get) -> None:
    params = {"from": T0 + 600, "period": 120, "sortDirection": "SORT_DIRECTION_DESC"}
    (series,) = bought(get(gapfill="true", **params))
    assert rows(series, "close", "volume") == [(11, 103.5, 0.0), (10, 103.5, 0.0)]


def test_no_gap_is_filled_that_has_not_begun(lake: Path) -> None:
    engine = Engine(Lake(lake), clock=lambda: (T0 + 150) * NS)
    query = PointsQuery(
        type="TRADE_SIDE_AGNOSTIC_AGG", exchange="ALPHA", raw_symbol="ETHUSDT", interval="1m", start=T0,
        end=T0 + 600, gapfill=True,
    )  # fmt: skip
    ((_, frame),) = engine.frames(query, engine.markets(query))
    assert frame["timestamp"].to_physical().to_list() == [(T0 + 60) * NS, (T0 + 120) * NS]


# --- USD ---


@pytest.mark.slow
def test_usd_multiplies_the_volume_by_the_price_and_leaves_the_prices(get: Get) -> None:
    (series,) = bought(get(**USD))
    assert rows(series, "open", "high", "volume") == [(1, 100.0, 101.0, 30.2), (3, 103.5, 103.5, 41.4)]
    buys, sells = bought(get(type="TRADE_AGG", **USD))
    assert [rows(one, "volume")[0] for one in (buys, sells)] == [(1, 10.0), (1, 20.2)]
    (profile,) = bought(get(type="VOLUME_PROFILE_AGG", interval="HOUR", **USD))
    assert rows(profile, "profile") == [(0, [100.0, 10.0, 0.0, 101.0, 0.0, 20.2, 103.5, 41.4, 0.0])]


@pytest.mark.slow
def test_another_quote_is_worth_what_its_own_market_says(get: Get) -> None:
    (series,) = bought(get(rawSymbol="BTCEUR", **USD))
    assert rows(series, "close", "volume") == [(1, 80.0, 100.0), (2, 81.0, 121.5)]


def test_rates_of_the_lake_come_before_those_of_a_market(lake: Path, tmp_path: Path) -> None:
    copied = shutil.copytree(lake, tmp_path / "lake")
    reported = pl.DataFrame({"quote_coin": ["EUR"], "timestamp": [(T0 - 9) * NS], "usd": [2.0]})
    write_deltalake(copied / "quote_rates", reported.to_arrow(), mode="append")
    engine = Engine(Lake(copied))
    query = PointsQuery(
        type="TRADE_SIDE_AGNOSTIC_AGG", exchange="ALPHA", raw_symbol="BTCEUR", interval="1m", start=T0,
        end=T0 + 300, quote="USD",
    )  # fmt: skip
    ((_, frame),) = engine.frames(query, engine.markets(query))
    assert frame["volume"].to_list() == [160.0, 162.0]


def test_a_quote_of_unknown_worth_is_unsupported_by_name_and_free(get: Get) -> None:
    response = get(rawSymbol="ETHTRY", **USD)
    assert (response.status_code, response.json()["error"]) == (400, "UNSUPPORTED")
    assert "got 'TRY'" in response.json()["message"]
    assert response.headers["x-ratelimit-remaining"] == "1500"
    assert bought(get(rawSymbol="ETHTRY"))  # in its own terms it is served


# --- grouping ---

VENUES = {"exchange": ["ALPHA", "BETA"], "rawSymbol": None, **SUM}


def named(series: dict[str, Any]) -> dict[str, Any]:
    """What names a series, without what describes it."""
    return {name: value for name, value in series["id"].items() if name not in {"amountUnit", "dataUntil"}}


@pytest.mark.slow
def test_a_group_sums_usd_and_keeps_the_extremes(get: Get) -> None:
    response = get(**VENUES, normalizedSymbol=["BTC-USDT", "BTC-USD"])
    (series,) = bought(response)
    assert named(series) == {"type": "TRADE_SIDE_AGNOSTIC_AGG", "coin": "BTC", "interval": "MINUTE"}
    assert series["id"]["amountUnit"] == "USD"
    assert rows(series, "open", "high", "low", "close") == [
        (1, 100.0, 102.0, 99.5, 102.0),
        (3, 103.5, 103.5, 103.5, 103.5),
    ]
    usd = [0.1 * 100 + 0.2 * 101 + 0.3 * 99.5 + 0.5 * 102, 0.4 * 103.5]
    assert [volume for _, volume in rows(series, "volume")] == pytest.approx(usd, rel=1e-12)
    first = series["points"][0]["Point"]
    assert first["firstTimestamp"] == {"s": T0 + 60}
    assert first["lastTimestamp"] == {"s": T0 + 62}


@pytest.mark.slow
def test_what_the_members_share_names_the_group(get: Get) -> None:
    (series,) = bought(get(**VENUES, normalizedSymbol="ETH-USDT"))
    assert named(series) == {
        "type": "TRADE_SIDE_AGNOSTIC_AGG",
        "normalizedSymbol": "ETH-USDT",
        "coin": "ETH",
        "category": "SPOT",
        "interval": "MINUTE",
    }


@pytest.mark.slow
def test_each_coin_and_each_side_is_a_series(get: Get) -> None:
    symbols = ["BTC-USDT", "BTC-USD", "ETH-USDT", "ETH-USD"]
    found = bought(get(**VENUES, normalizedSymbol=symbols, type="TRADE_AGG"))
    assert [(one["id"]["coin"], one["id"]["side"]) for one in found] == [
        ("BTC", "BUY"), ("BTC", "SELL"), ("ETH", "SELL"),
    ]  # fmt: skip
    assert rows(found[-1], "volume") == [(1, 53.0)]


@pytest.mark.slow
def test_a_grouped_profile_is_on_the_coarsest_grid_of_its_members(get: Get) -> None:
    asked = {
        **VENUES,
        "type": "VOLUME_PROFILE_AGG",
        "interval": "HOUR",
        "normalizedSymbol": ["BTC-USDT", "BTC-USD"],
    }
    (series,) = bought(get(**asked))
    ((_, profile),) = rows(series, "profile")
    assert profile[::3] == [98.0, 100.0, 102.0]
    assert profile[1::3] == pytest.approx([29.85, 10.0, 41.4])
    assert profile[2::3] == pytest.approx([0.0, 20.2, 51.0])
    (finer,) = bought(get(**asked, blockSize="0.5"))
    assert rows(finer, "profile")[0][1][::3] == [99.5, 100.0, 101.0, 102.0, 103.5]


@pytest.mark.slow
def test_a_group_is_filled_from_the_member_that_traded_last(get: Get) -> None:
    asked = {**VENUES, "normalizedSymbol": ["BTC-USDT", "BTC-USD"], "gapfill": "true"}
    (series,) = bought(get(**asked))
    assert [close for _, close in rows(series, "close")] == [99.0, 102.0, 102.0, 103.5, 103.5]
    buys, sells = bought(get(**asked, type="TRADE_AGG"))
    assert [close for _, close in rows(buys, "close")] == [90.0, 99.5, 99.5, 103.5, 103.5]
    assert [close for _, close in rows(sells, "close")] == [99.0, 102.0, 102.0, 102.0, 102.0]


@pytest.mark.slow
def test_prices_in_quotes_that_cannot_be_compared_are_not_grouped(get: Get) -> None:
    response = get(exchange="ALPHA", rawSymbol=None, coin="BTC", **SUM)
    assert (response.status_code, response.json()["error"]) == (400, "UNSUPPORTED")
    assert "got 'markets of BTC in EUR, USDT'" in response.json()["message"]
    (alone,) = bought(get(exchange="ALPHA", rawSymbol=None, normalizedSymbol="BTC-EUR", **SUM))
    assert rows(alone, "close", "volume") == [(1, 80.0, 100.0), (2, 81.0, 121.5)]


@pytest.mark.slow
def test_grouping_venues_needs_a_tier_and_weighs_more(get: Get) -> None:
    asked = {**VENUES, "normalizedSymbol": ["BTC-USDT", "BTC-USD"]}
    refused = get("basic", **asked)
    assert (refused.status_code, refused.json()["error"]) == (403, "AGGREGATION_NOT_PERMITTED")
    assert get(**asked).headers["x-ratelimit-used"] == "2"
