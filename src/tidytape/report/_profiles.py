"""The section about profiles: where the volume traded and where the time was spent."""

from __future__ import annotations

import polars as pl

from tidytape.analytics import profile
from tidytape.report._answers import MARKET, Answers
from tidytape.report._candle_profiles import candle_profiles
from tidytape.report._overview import name_of
from tidytape.report._picture import Picture, Plot
from tidytape.report._section import Section
from tidytape.report._table import Shown, table

__all__ = ["profiles"]


def profiles(answers: Answers, timezone: str) -> Section | None:
    """Return the last session's profile beside its candles, and the value area of every session.

    Where the tape has no profiles, those of its candles.
    """
    levels = answers.points("VOLUME_PROFILE_AGG")
    if levels is None:
        return candle_profiles(answers, timezone)
    candles = answers.points("TRADE_SIDE_AGNOSTIC_AGG")
    section = Section(
        reading="Most of a session's volume trades in its value area. When a price leaves the value area of the "
        "session before, it either returns, or trading moves to the new price.",
        rule="The value area holds 70% of the volume around the point of control, grown by the larger of the next two "
        "rows above or below (rule two_row).",
        entries=levels.entries + (candles.entries if candles else ()),
    )
    market = (candles or levels).largest
    of_market = levels.of(**market)
    if candles is not None and of_market.height:
        last = max(of_market["timestamp"])
        bars = candles.of(**market).filter(
            pl.col("timestamp").is_between(last, last + levels.length, closed="left")
        )
        session = of_market.filter(pl.col("timestamp") == last)
        shown = Plot.of("candles_with_profile", bars, session, timezone=timezone)
        text = f"The last session of {name_of(market)}, and the volume at each of its prices."
        section.parts.append(Picture.of(text, 5.4, shown))
    sessions = answers.points("TPO_AGG")
    touched = None if sessions is None else sessions.of(**market)
    if sessions is not None and touched is not None and touched.height:
        section.entries += sessions.entries
        section.rule += " Market profiles count time blocks, so their points of control may be others."
        section.parts.append(
            Picture.of(
                f"Market profiles of {name_of(market)}: how long the price was where. The bar at the left of a session "
                "is its initial balance; the line of a point of control ends where the price came back to it.",
                5.0,
                Plot.of("market_profile", touched, timezone=timezone),
            )
        )
    areas = profile.value_area(levels.frame)
    section.parts.append(
        table(
            areas.sort(*MARKET, "timestamp"),
            {
                "timestamp": Shown("Session", "time", "UTC"),
                "exchange": Shown("Exchange"),
                "raw_symbol": Shown("Symbol"),
                "val": Shown("Value area low", "number"),
                "poc": Shown("Point of control", "number"),
                "vah": Shown("Value area high", "number"),
                "value_area_share": Shown("Held by it", "percent", "of the volume"),
            },
            f"One row per market and session of {levels.interval}. Prices are in the quote of the market.",
        )
    )
    return section
