"""What the service says of a group, and what these functions make of its single markets: the same numbers."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import tidytape
from lakes import empty_lake
from tidytape.analytics import cross, funding
from tidytape.lake import TABLES, Lake

# GAMMA has no open interest, which the client warns of.
pytestmark = pytest.mark.filterwarnings("ignore::tidytape.errors.EmptyAnswerWarning")

NS = 1_000_000_000
START, HOUR, DAY = 1_723_161_600, 3_600, 86_400  # 2024-08-09T00:00:00Z
MARKETS = [
    ("ALPHA", "BTCUSDT", "BTC", "USDT", 60_000.0),
    ("ALPHA", "BTCUSDC", "BTC", "USDC", 60_010.0),
    ("ALPHA", "ETHUSDT", "ETH", "USDT", 2_500.0),
    ("BETA", "BTC-PERP", "BTC", "USD", 59_990.0),
    ("BETA", "ETH-PERP", "ETH", "USD", 2_501.0),
    ("GAMMA", "XBT", "BTC", "USD", 60_020.0),  # without open interest
]
ASKED: dict[str, Any] = {
    "exchange": ["ALPHA", "BETA", "GAMMA"],
    "coin": ["BTC", "ETH"],
    "interval": "1h",
    "start": START,
    "end": START + 2 * DAY,
}
TOKENS = {"BTC": "Bitcoin", "ETH": "Ethereum", "USDT": "Tether"}
KEYS = ["coin", "timestamp"]
RATES = [f"{which}_{name}" for which in ("rate", "predicted") for name in ("open", "high", "low", "close")]


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cross") / "lake"
    fill(empty_lake(path), random.Random(11))
    return path


@pytest.fixture(scope="module")
def client(lake: Path) -> Iterator[Any]:
    with tidytape.Client.local(lake) as client:
        yield client


def fill(lake: Lake, draw: random.Random) -> None:
    lake.writer().register(
        pl.DataFrame(
            [
                {
                    "exchange": exchange, "raw_symbol": symbol, "normalized_symbol": f"{coin}-{quote}", "coin": coin,
                    "quote_coin": quote, "category": "PERPETUAL", "block_size": price / 100,
                }
                for exchange, symbol, coin, quote, price in MARKETS
            ]
        )
    )  # fmt: skip
    events: dict[str, list[dict[str, Any]]] = {
        "trades": [],
        "liquidations": [],
        "open_interest": [],
        "funding": [],
    }
    for exchange, symbol, _, _, price in MARKETS:
        # Some at the start of an hour, which several markets share.
        seconds = [draw.choice([START + hour * HOUR for hour in range(48)]) for _ in range(30)]
        seconds += [draw.randrange(START - 2 * DAY, START + 2 * DAY) for _ in range(300)]
        for number, second in enumerate(sorted(seconds)):
            trade = {
                "exchange": exchange,
                "raw_symbol": symbol,
                "id": f"{number}",
                "timestamp": second * NS,
                "sequence": number,
                "side": draw.choice(["BUY", "SELL"]),
                "price": round(price * draw.uniform(0.95, 1.05), 1),
                "amount": round(draw.uniform(0.001, 3), 3),
            }
            trade["quote_amount"] = trade["price"] * trade["amount"]
            events["trades"].append(trade)
            if number % 4 == 0:
                events["liquidations"].append(trade)
        for second in sorted(draw.sample(range(START - DAY, START + 2 * DAY), 40)):
            reported = {"exchange": exchange, "raw_symbol": symbol, "timestamp": second * NS}
            rates = {"rate": draw.uniform(-1e-4, 3e-4), "predicted_rate": draw.choice([None, 1e-4, 2e-4])}
            hours = 1 if exchange == "BETA" else 8
            events["funding"].append(reported | rates | {"funding_interval": hours * HOUR * NS})
            # One market reports seldom, so that what it reported lapses; one never.
            if exchange != "GAMMA" and (symbol != "BTCUSDC" or second % 4 == 0):
                events["open_interest"].append(reported | {"amount": round(draw.uniform(100, 9_000), 2)})
    silent = range(START - 10 * HOUR, START + 30 * HOUR)
    events["open_interest"] = [
        report
        for report in events["open_interest"]
        if report["raw_symbol"] != "BTC-PERP" or report["timestamp"] // NS not in silent
    ]
    events["token_supply"] = [
        # On the hour, for a report lapses a day after it was made, and points say when their interval starts.
        {
            "token_name": name,
            "coin": coin,
            "timestamp": (START + hour * HOUR) * NS,
            "marketcap": draw.uniform(1e11, 3e12),
        }
        for coin, name in TOKENS.items()
        for hour in sorted(draw.sample(range(-24, 48), 40 if coin != "USDT" else 3))
    ]
    for table, rows in events.items():
        lake.writer().append(table, TABLES[table].conform(pl.DataFrame(rows)), source="test")


def same(mine: pl.DataFrame, theirs: pl.DataFrame, keys: list[str], columns: list[str]) -> None:
    """Assert that both have the same rows, to the last bit."""
    assert theirs["exchange"].null_count() == len(theirs)
    assert len(theirs) > 40
    mine, theirs = (frame.with_columns(pl.col(pl.Categorical).cast(pl.String)) for frame in (mine, theirs))
    assert mine.select(*keys, *columns).sort(keys).equals(theirs.select(*keys, *columns).sort(keys))


@pytest.mark.slow
@pytest.mark.parametrize("by_side", [False, True])
def test_candles(client: Any, *, by_side: bool) -> None:
    columns = ["open", "high", "low", "close", "volume", "first_timestamp", "last_timestamp"]
    grouped = client.candles(**ASKED, by_side=by_side, group_by="sum")
    mine = cross.consolidated(client.candles(**ASKED, by_side=by_side, quote="USD"))
    same(mine, grouped, [*KEYS, *(["side"] if by_side else [])], columns)
    assert mine["markets"].max() == 4


@pytest.mark.slow
def test_candles_with_gaps_filled(client: Any) -> None:
    minutes = ASKED | {"interval": "5m", "end": START + 4 * HOUR}
    grouped = client.candles(**minutes, gapfill=True, group_by="sum")
    mine = cross.consolidated(client.candles(**minutes, gapfill=True, quote="USD"))
    traded = mine.filter(pl.col("markets") > 0)
    theirs = grouped.filter(pl.col("volume") > 0)
    same(traded, theirs, KEYS, ["open", "high", "low", "close", "volume"])
    # The service fills what is left of the group from its own last close; these are of single markets, without trade.
    assert mine.filter(pl.col("markets") == 0)["volume"].sum() == 0


@pytest.mark.slow
def test_liquidations(client: Any) -> None:
    grouped = client.liquidations(**ASKED, group_by="sum")
    mine = cross.total(client.liquidations(**ASKED, quote="USD"), amount="liquidations")
    same(mine, grouped, [*KEYS, "side"], ["liquidations"])


@pytest.mark.slow
def test_open_interest(client: Any) -> None:
    columns = ["open", "high", "low", "close"]
    grouped = client.open_interest(**ASKED, group_by="sum")
    before = client.open_interest(**ASKED | {"start": START - DAY}, quote="USD")
    mine = cross.total(before, amount=columns)
    assert mine.equals(cross.total(before, amount=columns, carry="24h"))
    same(mine.filter(pl.col("timestamp") >= grouped["timestamp"].min()), grouped, KEYS, columns)
    # It matters: without carrying, markets that are silent are missed.
    assert cross.total(before, amount=columns, carry="0s")["close"].sum() < 0.9 * mine["close"].sum()


@pytest.mark.slow
def test_levels(client: Any) -> None:
    levels = ASKED | {"interval": "4h", "coin": "BTC"}
    grouped = client.volume_profile(**levels, block_size=500, group_by="sum")
    single = client.volume_profile(**levels, block_size=500, quote="USD")
    mine = cross.total(single, amount=["buy_volume", "sell_volume"], by=["coin", "price"])
    same(mine, grouped, [*KEYS, "price"], ["buy_volume", "sell_volume"])


@pytest.mark.slow
def test_funding(client: Any) -> None:
    grouped = client.funding(**ASKED, group_by="open_interest_weighted_avg")
    rates = client.funding(**ASKED)
    before = client.open_interest(**ASKED | {"start": START - DAY}, quote="USD")
    # A rate that no market with open interest has is null there, and no row here.
    for rate in RATES:
        mine = cross.oi_weighted(rates, before, rate=rate)
        same(mine, grouped.drop_nulls(rate), KEYS, [rate])
        assert mine["coverage"].is_between(0, 1).all()
    assert 0 < mine["coverage"].min() < 0.9
    assert mine["coverage"].max() == 1


@pytest.mark.slow
def test_dominance(client: Any) -> None:
    window = {name: ASKED[name] for name in ("interval", "start", "end")}
    caps = pl.concat(
        client.token_supply(token_name=name, **window | {"start": START - DAY}) for name in TOKENS.values()
    )
    mine = cross.dominance(caps, universe=list(TOKENS)).filter(pl.col("dominance").is_not_null())
    assert len(mine) > 10
    assert mine["universe_known"].min() == len(TOKENS)
    inside = mine.filter(pl.col("timestamp") >= pl.from_epoch(pl.lit(START)).dt.replace_time_zone("UTC"))
    assert (100 * inside["dominance"]).to_list() == pytest.approx(
        inside["marketcap_dominance_percent"].to_list(), rel=1e-14
    )


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::tidytape.errors.SettlementWarning")
def test_frames_of_pandas_as_they_are_fetched(lake: Path, client: Any) -> None:
    """Categories, times of nanoseconds and nulls as the client gives them."""
    with tidytape.Client.local(lake, backend="pandas") as pandas:
        fetched = [
            (one.candles(**ASKED, quote="USD"), one.funding(**ASKED), one.open_interest(**ASKED, quote="USD"))
            for one in (client, pandas)
        ]
    for call in (
        lambda candles, rates, interest: cross.consolidated(candles),
        lambda candles, rates, interest: cross.oi_weighted(rates, interest),
        lambda candles, rates, interest: funding.spread(rates),
        lambda candles, rates, interest: funding.accrued(rates, settled_every="8h", funding_interval="8h"),
        lambda candles, rates, interest: funding.predicted_error(rates, settled_every="8h"),
    ):
        wanted, got = (call(*frames) for frames in fetched)
        assert_frame_equal(pl.from_pandas(got), wanted, rel_tol=1e-12, abs_tol=1e-13)
