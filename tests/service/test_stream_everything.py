"""The law of streams for data types, groups and conversions beside those of the state machine."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import stream_readers
from stream_readers import Driven, streams_of
from thorough import often
from tidytape.lake import TABLES, Lake, hygiene
from tidytape.lake.rollup import rollup
from tidytape.query import StreamQuery
from tidytape.schema import schema_of
from tidytape.times import DAY, HOUR, SECOND

pytestmark = pytest.mark.long

START = 1_723_161_600 * SECOND
COMMITS = 24
MARKETS = [
    ("X", "BTCUSDT", "BTC-USD", "BTC", "USDT"),
    ("X", "ETHUSD", "ETH-USD", "ETH", "USD"),
    ("Y", "BTCUSD", "BTC-USD", "BTC", "USD"),
    ("Z", "BTCEUR", "BTC-EUR", "BTC", "EUR"),
]
ONE = {"exchange": "X", "coin": "BTC"}
GROUP = {"exchange": ["X", "Y"], "normalized_symbol": ["BTC-USD", "ETH-USD"], "group_by": "sum"}
EUR = {"exchange": "Z", "coin": "BTC", "quote": "USD"}
# What is streamed: the query, the tables that grow, and the time that they grow over.
STREAMED: dict[str, tuple[dict[str, Any], tuple[str, ...], int]] = {
    "open interest": ({"type": "OPEN_INTEREST_AGG", **ONE}, ("open_interest",), HOUR),
    "funding": ({"type": "FUNDING_RATE_AGG", **ONE, "interval": "5m"}, ("funding",), HOUR),
    "liquidations of a side": ({"type": "LIQUIDATION_AGG", "side": "BUY", **ONE}, ("liquidations",), HOUR),
    "a heatmap of liquidations": ({"type": "VENUEX_LIQUIDATION_AGG", **ONE, "max_depth": 3}, ("liquidations",), HOUR),
    "groups of trades": ({"type": ["TRADE_AGG", "VOLUME_PROFILE_AGG"], **GROUP}, ("trades",), HOUR),
    "groups of open interest": ({"type": "OPEN_INTEREST_AGG", **GROUP}, ("open_interest",), HOUR),
    "groups of liquidations": ({"type": "LIQUIDATION_AGG", **GROUP}, ("liquidations",), HOUR),
    "market profiles of a group": ({"type": "TPO_AGG", **GROUP, "interval": "1h"}, ("trades",), 5 * HOUR),
    "another quote": ({"type": "TRADE_AGG", **EUR}, ("trades", "quote_rates"), HOUR),
    "weekly sessions": ({"type": "TPO_AGG", **ONE, "interval": "1d", "tpo_session": "weekly"}, ("trades",), 21 * DAY),
    "monthly sessions": ({"type": "TPO_AGG", **ONE, "interval": "1d", "tpo_session": "monthly"}, ("trades",), 75 * DAY),
    "weeks": ({"type": "TRADE_AGG", **ONE, "interval": "1w"}, ("trades",), 21 * DAY),
    "several types": (
        {"type": ["TRADE_AGG", "OPEN_INTEREST_AGG", "LIQUIDATION_AGG"], "exchange": ["X", "Y"], "coin": ["BTC", "ETH"]},
        ("trades", "open_interest", "liquidations"),
        HOUR,
    ),
}  # fmt: skip


def rows(table: str, times: np.ndarray, chance: np.random.Generator, number: int) -> pl.DataFrame:
    count = len(times)
    market = chance.integers(0, len(MARKETS), count)
    price = (200 + np.cumsum(chance.integers(-3, 4, count))) * 0.25
    amount = chance.integers(1, 10**6, count) / 1e4
    columns: dict[str, Any] = {
        "exchange": [MARKETS[one][0] for one in market],
        "raw_symbol": [MARKETS[one][1] for one in market],
        "id": [f"{number}.{row}" for row in range(count)],
        "timestamp": times,
        "sequence": np.arange(count) + number * 1_000,
        "side": chance.choice(["BUY", "SELL"], count),
        "price": price,
        "amount": amount,
        "quote_amount": price * amount,
        "rate": chance.normal(0, 1e-4, count),
        "predicted_rate": chance.normal(0, 1e-4, count),
        "funding_interval": 8 * HOUR,
        "quote_coin": "EUR",
        "usd": 1 + chance.random(count) / 10,
    }
    return TABLES[table].conform(pl.DataFrame(columns)).unique(TABLES[table].key, keep="first")


@pytest.fixture
def grouped(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a group the coin tells series apart."""
    query, _, _ = STREAMED[request.getfixturevalue("name")]
    if "group_by" in query:

        def points(name: str) -> list[str]:
            side = (
                ["side"]
                if "side" in schema_of(name).names and name in {"TRADE_AGG", "LIQUIDATION_AGG"}
                else []
            )
            return ["coin", *side, "timestamp"]

        def plain(frame: pl.DataFrame, name: str, columns: list[str]) -> pl.DataFrame:
            kept = [one for one in columns if one not in {"is_final", "data_until"}]
            return frame.select(kept).sort(schema_of(name).key_of(grouped=True))

        monkeypatch.setattr(stream_readers, "point_of", points)
        monkeypatch.setattr(stream_readers, "plain", plain)


@pytest.mark.parametrize("seed", range(often(1, thoroughly=20)))
@pytest.mark.parametrize("name", STREAMED)
def test_finals_and_revisions_are_history(name: str, seed: int, tmp_path: Path, grouped: None) -> None:
    asked, tables, span = STREAMED[name]
    chance = np.random.default_rng(seed)
    lake = Lake.create(tmp_path / "lake")
    names = ("exchange", "raw_symbol", "normalized_symbol", "coin", "quote_coin")
    lake.writer().register(
        pl.DataFrame([dict(zip(names, one, strict=True)) for one in MARKETS]).with_columns(
            tenor=pl.lit(None, pl.String), category=pl.lit("PERPETUAL"), block_size=0.5
        )
    )
    for number, table in enumerate(tables):
        first = START - DAY if table == "quote_rates" else START
        lake.writer().append(
            table, rows(table, np.arange(first, first + 12), chance, 900 + number), source=table
        )
    query = StreamQuery(**({"interval": "1m"} | asked), start=START // SECOND)

    async def read() -> None:
        streams = streams_of(lake)
        reader = await Driven(streams, query).open()
        for number in range(COMMITS):
            at, late = number / COMMITS, chance.random() < 0.3
            begin = chance.uniform(0, at) if late else at
            width = chance.choice([0.002, 0.03, 0.3])
            times = np.sort(chance.uniform(begin, begin + width, int(chance.integers(1, 40))))
            table = str(chance.choice(tables))
            lake.writer().append(
                table, rows(table, (START + times * span).astype(int), chance, number), source=str(number)
            )
            other = chance.random()
            if other < 0.1:
                hygiene.compact(lake, everything=True, progress=False)
            elif other < 0.2:
                rollup(lake, progress=False)
            elif other < 0.35:
                held = reader.held
                await reader.close()
                streams = streams_of(Lake(lake.path)) if other < 0.3 else streams
                reader = Driven(streams, query.model_copy(update={"token": held.token}))
                reader.held = held
                await reader.open()
            if chance.random() < 0.6:
                await streams.look()
                await reader.caught_up()
                assert reader.held.end is None
                (window,) = query.window(START // SECOND, (START + 3 * span) // SECOND)
                reader.held.require_answer(lake, window)
        await reader.close()
        assert reader.held.batches > 3

    asyncio.run(read())
