"""Amounts of several units do not add up, nor do levels of several heights: in one series they are no number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl
import pytest
from tests.engines import Engine

from tidytape import Client
from tidytape.analytics import cross, depth, flow, profile
from tidytape.errors import NoMatchWarning, QueryError

PERP: dict[str, Any] = {"exchange": "DEMO_PERP", "raw_symbol": "BTC-PERP", "interval": "1h"}
DAY: dict[str, Any] = {**PERP, "start": "2024-08-08", "end": "2024-08-09"}
DAY_BEFORE: dict[str, Any] = {**PERP, "start": "2024-08-07", "end": "2024-08-08"}


@pytest.fixture(scope="module")
def client() -> Client:
    return Client.demo()


@pytest.fixture(scope="module")
def book(client: Client) -> pl.DataFrame:
    return client.book_heatmap(**DAY, block_size=20)


@pytest.fixture(scope="module")
def mixed_book(client: Client, book: pl.DataFrame) -> pl.DataFrame:
    return pl.concat([book, client.book_heatmap(**DAY, block_size=20, quote="USD")])


READINGS: dict[str, tuple[Callable[..., Any], list[str]]] = {
    "depth_within": (lambda frame, **more: depth.depth_within(frame, bps=[10], **more), ["mid", "bid_depth"]),
    "imbalance": (depth.imbalance, ["imbalance"]),
    "slippage": (lambda frame, **more: depth.slippage(frame, size=1, **more), ["filled", "slippage"]),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", READINGS)
def test_a_book_of_coins_and_dollars_has_no_depth(name: str, mixed_book: pl.DataFrame) -> None:
    read, columns = READINGS[name]
    with pytest.raises(QueryError, match="amount_unit"):
        read(mixed_book)
    found = read(mixed_book.lazy()).select(columns).collect()
    assert found.height > 0
    assert set(found.null_count().row(0)) == {found.height}


@pytest.mark.slow
def test_walls_and_regridded_books_are_of_one_unit(mixed_book: pl.DataFrame) -> None:
    for read in (
        lambda frame: depth.walls(frame, threshold=1),
        lambda frame: depth.regrid(frame, block_size=100),
    ):
        with pytest.raises(QueryError, match=r"COIN and USD in one series.*one amount unit per series"):
            read(mixed_book)
    assert depth.walls(mixed_book.lazy(), threshold=1).collect().is_empty()
    assert depth.regrid(mixed_book.lazy(), block_size=100).collect()["size"].is_null().all()
    apart = depth.regrid(mixed_book, block_size=100, by=["raw_symbol", "amount_unit"])
    assert apart["size"].null_count() == 0
    with pytest.raises(QueryError, match="amount_unit"):
        depth.matrix(mixed_book)


@pytest.mark.slow
@pytest.mark.parametrize("name", READINGS)
@pytest.mark.parametrize("block_size", [10, 30, 40])
def test_an_argument_does_not_contradict_the_height_of_the_blocks(
    name: str, block_size: int, book: pl.DataFrame
) -> None:
    read, columns = READINGS[name]
    with pytest.raises(QueryError, match="20, the block_size of the levels") as caught:
        read(book, block_size=block_size)
    assert caught.value.parameter == "block_size"
    found = read(book.lazy(), block_size=block_size).select(columns).collect()
    assert set(found.null_count().row(0)) == {found.height}
    assert read(book, block_size=20).equals(read(book))


def test_rows_of_a_heatmap_are_whole_multiples_of_its_blocks(book: pl.DataFrame) -> None:
    for read in (depth.regrid, depth.matrix):
        with pytest.raises(QueryError, match="a whole multiple of 20") as caught:
            read(book, block_size=30)
        assert caught.value.parameter == "block_size"
    assert depth.regrid(book.lazy(), block_size=30).collect()["price"].is_null().all()


@pytest.mark.slow
def test_a_regridded_book_has_the_height_of_its_rows(book: pl.DataFrame, engine: Engine) -> None:
    coarse = engine.polars(depth.regrid(engine.frame(book), block_size=100))
    assert set(coarse["block_size"]) == {100.0}
    assert set(coarse["amount_unit"]) == {"COIN"}
    given = depth.depth_within(coarse.drop("block_size"), bps=[100], block_size=100)
    found = depth.depth_within(coarse, bps=[100])
    assert found["mid"].to_list() == given["mid"].to_list()
    assert (found["mid"] % 50 == 0).all()
    unknown = book.with_columns(block_size=pl.lit(None, pl.Float64))
    assert depth.regrid(unknown, block_size=100)["block_size"].is_null().all()


@pytest.mark.slow
def test_blocks_of_two_heights_are_no_one_book(client: Client, book: pl.DataFrame) -> None:
    both = pl.concat([book, client.book_heatmap(**DAY, block_size=100)])
    for read in (
        depth.imbalance,
        lambda frame: depth.regrid(frame, block_size=100),
        lambda frame: depth.walls(frame, threshold=1),
        depth.matrix,
    ):
        with pytest.raises(QueryError, match="block_size"):
            read(both)
    assert depth.imbalance(both.lazy()).collect()["imbalance"].is_null().all()


def levels(client: Client, days: dict[str, Any], **more: Any) -> pl.DataFrame:
    return client.volume_profile(**{**days, "interval": "1d"}, **{"block_size": 50, **more})


PROFILES: dict[str, Callable[..., Any]] = {
    "value_area": profile.value_area,
    "point_of_control": profile.point_of_control,
    "nodes": profile.nodes,
    "shape": profile.shape,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", PROFILES)
def test_a_profile_is_of_one_unit_and_one_height(name: str, client: Client) -> None:
    read, coins = PROFILES[name], levels(client, DAY)
    for other, said in (
        (levels(client, DAY_BEFORE, quote="USD"), "one amount unit per series"),
        (levels(client, DAY, block_size=10), "one block size per series"),
    ):
        both = pl.concat([coins, other])
        with pytest.raises(QueryError, match=said) as caught:
            read(both, by="exchange")
        assert caught.value.parameter == "levels"
        lazy = read(both.lazy(), by="exchange").collect()
        assert lazy.is_empty() or lazy[{"nodes": "price"}.get(name, lazy.columns[-1])].is_null().all()
    if name != "point_of_control":
        twice = pl.concat([coins, levels(client, DAY, block_size=10)])
        with pytest.raises(QueryError, match="one block size per series"):
            read(twice, by="exchange", row_size=50)


def test_days_of_several_units_are_profiles_of_their_own(client: Client) -> None:
    both = pl.concat([levels(client, DAY), levels(client, DAY_BEFORE, quote="USD", block_size=10)])
    assert profile.value_area(both)["poc"].null_count() == 0
    assert profile.value_area(both, by=["timestamp", "amount_unit"]).height == 2


@pytest.mark.long
def test_a_composite_has_the_height_of_its_rows(client: Client, engine: Engine) -> None:
    both = pl.concat([levels(client, DAY), levels(client, DAY_BEFORE)])
    week = engine.polars(profile.composite(engine.frame(both), row_size=100))
    assert set(week["block_size"]) == {100.0}
    assert set(week["amount_unit"]) == {"COIN"}
    assert profile.value_area(week, row_size=200)["poc"].null_count() == 0
    with pytest.raises(QueryError, match="a whole multiple of 100"):
        profile.value_area(week, row_size=10)
    # Days of 50 and of 10 lie on one grid of 50.
    finer = pl.concat([levels(client, DAY), levels(client, DAY_BEFORE, block_size=10)])
    assert profile.composite(finer, row_size=50)["volume"].sum() == pytest.approx(both["volume"].sum())
    mixed = pl.concat([levels(client, DAY), levels(client, DAY_BEFORE, quote="USD")])
    with pytest.raises(QueryError, match="one amount unit per series"):
        profile.composite(mixed, row_size=50)
    assert profile.composite(mixed.lazy(), row_size=50).collect()["volume"].is_null().all()


LIQUIDATED: dict[str, Callable[..., Any]] = {
    "liquidation_imbalance": flow.liquidation_imbalance,
    "liquidation_cascades": lambda frame: flow.liquidation_cascades(frame, threshold=1, gap="1h"),
}
TRADED: dict[str, Callable[..., Any]] = {
    "cvd": flow.cvd,
    "delta": flow.delta,
    "imbalance": flow.imbalance,
    "large_trade_share": lambda frame: flow.large_trade_share(frame, at_least=1, volume="volume"),
}
FLOWING: dict[str, Callable[..., Any]] = LIQUIDATED | TRADED


@pytest.mark.slow
@pytest.mark.parametrize("name", FLOWING)
def test_flows_of_coins_and_dollars_are_no_one_series(name: str, client: Client) -> None:
    fetch = (
        client.liquidations if name in LIQUIDATED else lambda **query: client.candles(by_side=True, **query)
    )
    dollars, coins = fetch(quote="USD", **DAY_BEFORE), fetch(**DAY)
    both, read = pl.concat([dollars, coins]), FLOWING[name]
    with pytest.raises(QueryError, match=r"COIN and USD in one series.*one amount unit per series"):
        read(both)
    column = {
        "liquidation_cascades": "liquidations",
        "liquidation_imbalance": "liquidation_imbalance",
    }.get(name, name)
    assert read(both.lazy()).select(column).collect()[column].is_null().all()
    assert not read(coins.lazy()).select(column).collect()[column].is_null().all()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["cvd", "delta", "imbalance"])
def test_candles_of_one_side_say_nothing_of_the_other(name: str, client: Client) -> None:
    read = TRADED[name]
    with pytest.raises(QueryError, match=r"candles of side BUY alone.*by_side=True"):
        read(client.candles(side="BUY", **DAY))
    assert read(client.candles(side="SELL", **DAY).lazy()).collect()[name].is_null().all()
    candles = client.candles(by_side=True, **DAY)
    first = pl.col("timestamp") == pl.col("timestamp").min()
    quiet = candles.filter(~((pl.col("side") == "SELL") & first))
    for found in (read(quiet), read(quiet.lazy()).collect()):
        assert found["sell_volume"][0] == 0
        assert found[name].null_count() == 0
    assert read(candles.clear()).is_empty()


@pytest.mark.slow
def test_open_interest_in_dollars_has_no_quadrants(client: Client) -> None:
    candles, dollars = client.candles(**DAY), client.open_interest(quote="USD", **DAY)
    with pytest.raises(QueryError, match="open interest in coin") as caught:
        flow.oi_price_quadrant(dollars, candles)
    assert caught.value.parameter == "open_interest"
    lazy = flow.oi_price_quadrant(dollars.lazy(), candles.lazy()).collect()
    assert lazy.height == 24
    assert lazy["quadrant"].is_null().all()
    assert flow.oi_price_quadrant(client.open_interest(**DAY), candles)["quadrant"].null_count() == 1


@pytest.mark.slow
def test_volumes_count_what_the_argument_says(client: Client) -> None:
    coins, dollars = client.candles(**DAY), client.candles(quote="USD", **DAY)
    for frame, unit, said in ((coins, "quote", "COIN"), (dollars, "coin", "USD")):
        with pytest.raises(QueryError, match=f"amount_unit {said}") as caught:
            cross.volume_weighted(frame, unit=unit)
        assert caught.value.parameter == "unit"
        assert cross.volume_weighted(frame.lazy(), unit=unit).collect()["vwap"].is_null().all()
    unknown = dollars.with_columns(amount_unit=pl.lit(None, pl.String))
    assert cross.volume_weighted(unknown, unit="quote").equals(cross.volume_weighted(dollars, unit="quote"))


@pytest.mark.long
def test_prices_of_markets_of_several_units_are_known(client: Client, engine: Engine) -> None:
    spot = {**DAY, "exchange": "DEMO_SPOT", "raw_symbol": "BTCUSDT"}
    coins, other = client.candles(**DAY), client.candles(**spot)
    mixed, prices = pl.concat([coins, client.candles(quote="USD", **spot)]), ["open", "high", "low", "close"]
    found = engine.polars(cross.consolidated(engine.frame(mixed), by="coin"))
    expected = cross.consolidated(pl.concat([coins, other]), by="coin")
    assert found.select(prices).rows() == expected.select(prices).rows()
    for carry in (None, "1h"):
        total = engine.polars(cross.total(engine.frame(mixed), amount="volume", by="coin", carry=carry))
        for got in (found, total):
            assert got.select("volume", "coverage").fill_nan(None).null_count().row(0) == (24, 24)
            assert set(got["markets"]) == {2}


def test_a_premium_over_no_market_warns(client: Client) -> None:
    candles = client.candles(**DAY)
    with pytest.warns(
        NoMatchWarning, match=r"no row is of the reference.*did you mean 'DEMO_PERP'"
    ) as caught:
        found = cross.premium(candles, reference={"exchange": "DEMO_PERPS"})
    assert caught[0].filename == __file__
    assert found["premium"].is_null().all()
    cross.premium(candles, reference={"exchange": "DEMO_PERP"})
    cross.premium(candles.clear(), reference={"exchange": "NOPE"})
