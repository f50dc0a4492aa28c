"""Option quotes in the lake, whose partitions are coins, not markets."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from tidytape.errors import IngestError
from tidytape.lake import TABLES, Lake

QUOTES = TABLES["option_quotes"]


def chain(time: int, *strikes: int, coin: str = "BTC") -> pl.DataFrame:
    """Calls on one coin, each determined by its strike and time."""
    frame = pl.DataFrame({"strike": [float(strike) for strike in strikes]}).with_columns(
        exchange=pl.lit("DERIBIT"),
        raw_symbol=pl.format("{}-27MAR26-{}-C", pl.lit(coin), pl.col("strike").cast(pl.Int64)),
        timestamp=pl.lit(time, pl.Int64),
        coin=pl.lit(coin),
        option_type=pl.lit("CALL"),
        expiry=pl.lit(10**18, pl.Int64),
        implied_volatility=50.0 + pl.col("strike") / 1000,
        forward=pl.lit(70_000.0),
    )
    return QUOTES.conform(frame)


def test_overlapping_chains_are_added_once(lake: Lake) -> None:
    both = pl.concat([chain(1, 60_000, 70_000), chain(1, 2_000, coin="ETH")])
    assert lake.writer().append("option_quotes", both, source="a").rows_new == 3
    assert lake.writer().append("option_quotes", both, source="a").already_ingested
    more = pl.concat([chain(1, 70_000, 80_000), chain(2, 70_000)])
    assert lake.writer().append("option_quotes", more, source="b").rows_new == 2
    stored = lake.scan("option_quotes", raw_symbol="BTC-27MAR26-70000-C").collect()
    assert stored["timestamp"].sort().to_list() == [1, 2]
    assert lake.scan("option_quotes").collect().height == 5


def test_a_quote_that_contradicts_another_is_an_error(lake: Lake) -> None:
    lake.writer().append("option_quotes", chain(1, 70_000), source="a")
    other = chain(1, 70_000).with_columns(implied_volatility=pl.lit(1.0))
    with pytest.raises(IngestError, match=r"option_quotes: .* implied_volatility 1\.0 and 120\.0"):
        lake.writer().append("option_quotes", other, source="b")


def test_a_commit_counts_coins_not_markets(lake: Lake) -> None:
    """Thousands of options come and go; the log keeps every counter for good."""
    lake.writer().append(
        "option_quotes", pl.concat([chain(1, *range(100)), chain(1, 5, coin="ETH")]), source="a"
    )
    log = (Path(lake.path) / "option_quotes" / "_delta_log" / f"{1:020}.json").read_text()
    counted = [json.loads(line)["txn"]["appId"] for line in log.splitlines() if '"txn"' in line]
    assert sorted(counted) == ["instrument:DERIBIT/BTC", "instrument:DERIBIT/ETH", "source:a"]
