"""A small lake and small tapes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from lakes import empty_lake
from tidytape.lake import TRADES, Lake


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return empty_lake(tmp_path / "lake")


@pytest.fixture(scope="session")
def tape() -> Callable[..., pl.DataFrame]:
    def make(
        first: int, last: int, *, exchange: str = "BINANCE", raw_symbol: str = "BTCUSDT"
    ) -> pl.DataFrame:
        """Trades with the ids first..last-1, one per second, each determined by its id."""
        number = pl.int_range(first, last, eager=True)
        frame = pl.DataFrame({"sequence": number}).with_columns(
            exchange=pl.lit(exchange),
            raw_symbol=pl.lit(raw_symbol),
            id=pl.col("sequence").cast(pl.String),
            timestamp=pl.col("sequence") * 10**9 + 1_700_000_000 * 10**9,
            side=pl.when(pl.col("sequence") % 2 == 0).then(pl.lit("BUY")).otherwise(pl.lit("SELL")),
            price=100.0 + pl.col("sequence") % 7,
            amount=1.0 + pl.col("sequence") % 3,
        )
        return TRADES.conform(frame.with_columns(quote_amount=pl.col("price") * pl.col("amount")))

    return make
