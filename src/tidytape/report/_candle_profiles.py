"""Market profiles computed from candles, for a tape without profiles, as of a lake that has only candles."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import polars as pl

from tidytape import aggregate
from tidytape.analytics import profile
from tidytape.catalogue import DEFAULT_TPO_BLOCK_MINUTES, TPO_BLOCK_MINUTES
from tidytape.frames._grid import largest_125
from tidytape.report._answers import Answers
from tidytape.report._overview import name_of
from tidytape.report._section import Section
from tidytape.report._sessions import READING_OF_TIME, begun, market_profiles, unfinished, value_areas
from tidytape.times import DAY, SECOND

_LEVELS = 40  # levels of a session of median range; a picture would blur more levels


def candle_profiles(answers: Answers, timezone: str) -> Section | None:
    """Return market profiles of the largest market; None without candles, or if they are longer than any time block."""
    candles = answers.points("TRADE_SIDE_AGNOSTIC_AGG")
    if candles is None:
        return None
    usual_blocks = (minutes for minutes in TPO_BLOCK_MINUTES if minutes >= DEFAULT_TPO_BLOCK_MINUTES)
    blocks = [minutes for minutes in usual_blocks if candles.length <= timedelta(minutes=minutes)]
    if not blocks:
        return None
    market = candles.largest
    bars = candles.of(**market)
    # Leave out a session that began before the window: the picture would not show that a part is missing.
    full_sessions = bars.filter(pl.col("timestamp") >= _next_midnight(candles.query.start))
    bars = bars if full_sessions.is_empty() else full_sessions
    ranges = bars.group_by(pl.col("timestamp").dt.truncate("1d")).agg(
        height=pl.col("high").max() - pl.col("low").min()
    )
    usual_range = ranges.select(pl.col("height").median()).item()
    if not usual_range:  # null, or 0 because the price did not move: there are no levels
        return None
    size = largest_125(usual_range / _LEVELS)
    arguments: dict[str, Any] = {"period": "daily", "block_size": size, "block_minutes": blocks[0]}
    levels = profile.with_sessions(
        aggregate.candle_tpo(bars, **arguments), aggregate.candle_tpo_sessions(bars, **arguments)
    )
    return Section(
        reading=READING_OF_TIME,
        rule=f"These profiles are made of candles of {candles.interval}, by aggregate.candle_tpo(candles, "
        f'period="daily", block_size={size}, block_minutes={blocks[0]}): time at each price is exact, because no '
        f"candle is longer than a time block of {blocks[0]} minutes. A volume profile needs trades, and is left out. "
        "The value area holds 70% of the time around the point of control (rule two_row).",
        parts=[
            market_profiles(name_of(market), levels, timezone, origin=", made of candles"),
            value_areas(
                profile.value_area(levels, count="tpo_count"),
                of="time",
                rows="session of the market",
                note=(begun(candles.query.start) if full_sessions.is_empty() else "")
                + unfinished(candles.query.end),
            ),
        ],
        entries=candles.entries,
    )


def _next_midnight(start: int) -> datetime:
    """Return the first start of a daily session, midnight in UTC, at or after a time [s]."""
    return datetime.fromtimestamp(-(-start * SECOND // DAY) * DAY // SECOND, UTC)
