"""The demo's lake: every kind of data, the same on every machine, and none that contradicts another."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import tidytape
from simulated.fingerprint import fingerprint
from tidytape.catalogue import DATA_TYPES
from tidytape.client.series import SeriesMethods, Wanted
from tidytape.demo import fill
from tidytape.demo.lake import tables
from tidytape.demo.market import START_NS, markets
from tidytape.demo.minutes import minutes_of
from tidytape.lake import TABLES, Lake
from tidytape.lake.hygiene import check
from tidytape.times import MINUTE

END_NS = START_NS + 2 * 24 * 60 * MINUTE
DAY: dict[str, Any] = {"interval": "1d", "start": "2024-08-08", "end": "2024-08-09"}
PERPETUAL: dict[str, Any] = {"exchange": "DEMO_PERP", "coin": "BTC"} | DAY
SPOT: dict[str, Any] = {"exchange": "DEMO_SPOT", "coin": "BTC"} | DAY
OPTIONS: dict[str, Any] = {"exchange": "DEMO_OPTIONS", "coin": "BTC"} | DAY

ASKED: dict[str, dict[str, Any]] = {
    "candles": SPOT,
    "trades": {"exchange": "DEMO_SPOT", "coin": "BTC", "start": "2024-08-08", "end": "2024-08-08T00:10"},
    "open_interest": PERPETUAL,
    "funding": PERPETUAL,
    "liquidations": PERPETUAL,
    "cme_open_interest": {"exchange": "DEMO_CME", "coin": "BTC"} | DAY,
    "volume_profile": SPOT,
    "tpo": SPOT,
    "tpo_sessions": SPOT,
    "book_heatmap": SPOT,
    "liquidation_heatmap": {"coin": "BTC"} | DAY,
    "implied_volatility": OPTIONS,
    "skew": OPTIONS | {"raw_symbol": "BTC_25", "tenor": "1w"},
    "option_open_interest": OPTIONS,
    "token_supply": {"coin": "BTC"} | DAY,
}


@pytest.fixture(scope="module")
def made() -> dict[str, pl.DataFrame]:
    return dict(tables())


@pytest.fixture(scope="module")
def client() -> Iterator[tidytape.Client[pl.DataFrame]]:
    with tidytape.Client.demo() as demo:
        yield demo


class Asked(SeriesMethods[Wanted]):
    def _points(self, wanted: Wanted) -> Wanted:
        return wanted


@pytest.mark.slow
def test_every_method_and_data_type_has_rows(client: Any) -> None:
    assert set(ASKED) == {name for name in dir(SeriesMethods) if not name.startswith("_")}
    asked = [ASKED["candles"] | {"by_side": True}]
    kinds = {"TRADE_AGG"} if client.candles(**asked[0]).height else set()
    for name, arguments in ASKED.items():
        assert getattr(client, name)(**arguments).height, name
        kinds |= set(getattr(Asked(), name)(**arguments).queries[0].type)
    assert kinds == set(DATA_TYPES)


@pytest.mark.slow
def test_every_list_has_something(client: Any) -> None:
    assert set(client.types()) == set(DATA_TYPES)
    assert client.block_sizes()["raw_symbol"].to_list() == ["BTC-PERP", "BTCUSDT"]
    assert client.prediction_markets()["raw_symbol"].to_list() == ["1001", "1002"]
    assert client.tenors() == ["ONE_D", "THREE_D", "ONE_W", "ONE_M", "TWO_M", "THREE_M"]
    assert (
        client.candles(exchange="DEMO_EVENTS", coin="above-60000:Yes", event="above-60000", **DAY).height == 1
    )


def test_rows_are_those_of_the_lakes_tables(made: dict[str, pl.DataFrame]) -> None:
    assert set(made) == set(TABLES) - {"candles", "quote_rates", "markets", "prediction_markets"}
    for name, rows in made.items():
        table = TABLES[name]
        conformed = table.conform(rows)
        assert set(rows.columns) <= set(table.names), name
        assert conformed.select(table.key).is_unique().all(), name
        assert conformed["timestamp"].is_between(START_NS, END_NS, closed="left").all(), name


# Written down once; integers and exactly rounded floats have no excuse to differ.
FINGERPRINTS = {
    "trades": "9b65b1bfb4fe4147",
    "book": "d1382337b625dc16",
    "open_interest": "537f40db5f2b25a4",
    "funding": "64aa12b58a07fdfb",
    "liquidations": "0f58ff1279e33e37",
    "cme_open_interest": "35c2896b971f514c",
    "option_quotes": "33bcaeb8a609e468",
    "token_supply": "9b91295f3589f681",
}


def test_every_machine_gives_the_same_data(made: dict[str, pl.DataFrame]) -> None:
    found = {}
    for name, rows in made.items():
        whole = TABLES[name].conform(rows).drop("received", "first_id", strict=False)
        told = [column.name for column in whole if not column.null_count()]
        found[name] = fingerprint(whole.select(told))[:16]
    assert found == FINGERPRINTS


def test_another_seed_gives_other_data(made: dict[str, pl.DataFrame]) -> None:
    for name, rows in tables(seed=8):
        assert not rows.equals(made[name]), name


@pytest.mark.slow
def test_filling_again_changes_nothing(tmp_path: Path) -> None:
    lake = Lake.create(tmp_path / "lake")
    fill(lake.path)
    before = {name: lake.scan(name).select(pl.len()).collect().item() for name in dict(tables())}
    fill(lake.path)
    assert {name: lake.scan(name).select(pl.len()).collect().item() for name in before} == before
    report = check(lake)
    assert report.sound, str(report)


def test_demo_clients_do_not_share_a_lake() -> None:
    first, second = tidytape.Client.demo(), tidytape.Client.demo()
    first.close()
    assert second.coins(type="TOKEN_SUPPLY_AGG") == ["BTC", "ETH"]
    second.close()


# --- what follows from what ---


def test_minutes_are_the_last_prices(made: dict[str, pl.DataFrame]) -> None:
    tape = made["trades"].filter(pl.col("exchange").is_in(markets()["exchange"].to_list()))
    minutes = minutes_of(tape)
    assert len(minutes) == 2 * 24 * 60
    for price, exchange in ((minutes.spot, "DEMO_SPOT"), (minutes.perpetual, "DEMO_PERP")):
        before = tape.filter(pl.col("exchange") == exchange, pl.col("timestamp") < minutes.end[100])
        assert price[100] == before["price"][-1]


def test_books_do_not_cross_and_hold_the_price(made: dict[str, pl.DataFrame]) -> None:
    best = (
        made["book"]
        .group_by("exchange", "timestamp")
        .agg(
            bid=pl.col("price").filter(pl.col("side") == "BID").max(),
            ask=pl.col("price").filter(pl.col("side") == "ASK").min(),
            sizes=pl.col("size").min(),
        )
    )
    assert best.height == 2 * 2 * 24 * 60
    assert (best["ask"] - best["bid"] == 10).all()
    assert (best["sizes"] > 0).all()


def test_funding_is_the_mean_premium_of_the_eight_hours_before(made: dict[str, pl.DataFrame]) -> None:
    minutes = minutes_of(made["trades"].filter(pl.col("exchange").is_in(["DEMO_SPOT", "DEMO_PERP"])))
    premium = minutes.perpetual / minutes.spot - 1
    funding = made["funding"]
    assert funding["rate"][480] == pytest.approx(premium[:480].mean())
    assert funding["predicted_rate"][700] == pytest.approx(premium[480:701].mean())
    assert funding["next_funding"][480] == START_NS + 2 * 480 * MINUTE
    assert (funding["next_funding"] > funding["timestamp"]).all()


def test_liquidations_are_trades_against_those_who_held(made: dict[str, pl.DataFrame]) -> None:
    rows = made["liquidations"].with_columns(id=pl.col("id").str.slice(1))
    both = rows.join(made["trades"], on=["exchange", "raw_symbol", "id", "timestamp", "price", "amount"])
    assert both.height == rows.height > 500
    assert (both["side"] != both["side_right"]).all()
    assert set(rows["side"]) == {"BUY", "SELL"}


@pytest.mark.slow
def test_puts_are_dearer_than_calls_and_no_option_outlives_its_expiry(
    made: dict[str, pl.DataFrame], client: Any
) -> None:
    quotes = made["option_quotes"]
    assert (quotes["timestamp"] < quotes["expiry"]).all()
    assert quotes["implied_volatility"].is_between(20, 200).all()
    assert quotes["raw_symbol"][0] == "BTC-9AUG24-40000-C"
    for tenor in client.tenors():
        assert client.skew(**OPTIONS | {"raw_symbol": "BTC_25", "tenor": tenor})["skew"].item() > 0


def test_outcomes_of_a_question_add_up_to_one(made: dict[str, pl.DataFrame]) -> None:
    prices = (
        made["trades"]
        .filter(exchange="DEMO_EVENTS")
        .pivot(on="raw_symbol", index="timestamp", values="price")
    )
    assert np.allclose(prices["1001"] + prices["1002"], 1)
    assert prices["1001"].is_between(0.02, 0.98).all()
