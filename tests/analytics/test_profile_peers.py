"""Value areas beside the package MarketProfile, in its own mode."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from tidytape.analytics import profile

market_profile = pytest.importorskip(
    "market_profile", reason="MarketProfile is not installed: pip install MarketProfile"
)

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("small_times")]

PROFILES = 400
STEP = 0.5
RULES = {"rule": "one_row", "tie": "up", "stop": "exceed", "poc_tie": "center"}


def theirs(levels: pl.DataFrame, step: float) -> tuple[float, float, float]:
    """Return what MarketProfile says of a profile: its point of control, value area low and high."""
    times = np.arange(levels.height).astype("datetime64[s]")
    candles = levels.select(Close="price", High="price", Low="price", Volume="volume")
    found = market_profile.MarketProfile(candles.to_pandas().set_index(times), tick_size=step)
    day = found[times[0] : times[-1]]
    return day.poc_price, *day.value_area


def test_equals_market_profile_in_its_own_mode():
    """400 random profiles on a grid of halves, with volume on every row and no two rows alike."""
    draw = np.random.default_rng(8)
    levels = pl.concat(
        pl.DataFrame(
            {
                "session": number,
                "price": 100 + np.arange(rows) * STEP,
                # Where several rows are largest it has another middle: of 2, 4, 6 rows the one above.
                "volume": (draw.permutation(rows) + 1.0) * draw.integers(1, 9),
            }
        )
        for number, rows in enumerate(draw.integers(1, 60, PROFILES))
    )
    ours = profile.value_area(levels, by="session", row_size=STEP, **RULES)
    sessions = levels.partition_by("session", maintain_order=True)
    assert ours.select("poc", "val", "vah").rows() == [theirs(session, STEP) for session in sessions]


def test_equals_market_profile_where_sides_tie():
    draw = np.random.default_rng(9)
    for _ in range(100):
        volumes = [float(volume) for volume in draw.integers(1, 5, 15)]
        volumes[int(draw.integers(0, 15))] = 9.0
        levels = pl.DataFrame({"session": 0, "price": np.arange(15.0), "volume": volumes})
        ours = profile.value_area(levels, by="session", **RULES)
        assert ours.select("poc", "val", "vah").row(0) == theirs(levels, 1)
