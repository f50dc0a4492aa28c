"""Option chains: a builder of small ones, and the recorded ones."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl
import pytest

from recorded_chains import recorded_chains

NOW = datetime(2026, 3, 5, 8, tzinfo=UTC)


@pytest.fixture(autouse=True)
def _columns_to_add(columns_to_add: None) -> None:
    """No function here adds no columns."""


@pytest.fixture
def quotes() -> Callable[..., pl.DataFrame]:
    """A chain of (days, C or P, strike, volatility) rows, the forward being 100."""

    def frame(*rows: tuple[float, str, float, float | None], at: datetime = NOW) -> pl.DataFrame:
        return pl.DataFrame(
            {
                "exchange": "DERIBIT",
                "coin": "BTC",
                "timestamp": [at for _ in rows],
                "expiry": [at + timedelta(days=days) for days, *_ in rows],
                "option_type": [{"C": "CALL", "P": "PUT"}.get(kind, kind) for _, kind, *_ in rows],
                "strike": [float(row[2]) for row in rows],
                "implied_volatility": pl.Series([row[3] for row in rows], dtype=pl.Float64),
                "forward": 100.0,
            }
        )

    return frame


@pytest.fixture(scope="session")
def chains(recorded: Path) -> pl.DataFrame:
    return recorded_chains(recorded)
