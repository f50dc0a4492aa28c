"""The section about profiles: volume by price, and time by price."""

from __future__ import annotations

import polars as pl

from tidytape.analytics import profile
from tidytape.report._answers import Answers, Points
from tidytape.report._candle_profiles import candle_profiles
from tidytape.report._overview import name_of
from tidytape.report._picture import Picture, Plot
from tidytape.report._section import Section
from tidytape.report._sessions import READING_OF_TIME, market_profiles, value_areas


def profiles(answers: Answers, timezone: str) -> Section | None:
    """Return the last session's profile beside its candles, and the value area of every session.

    Without volume by price the section has only market profiles; without both it has market profiles from candles.
    """
    levels, sessions = answers.points("VOLUME_PROFILE_AGG"), answers.points("TPO_AGG")
    if levels is None:
        return candle_profiles(answers, timezone) if sessions is None else _of_time(sessions, timezone)
    candles = answers.points("TRADE_SIDE_AGNOSTIC_AGG")
    section = Section(
        reading="Most of a session's volume trades in its value area. When a price leaves the value area of the "
        "session before, it either returns, or trading moves to the new price.",
        rule="The value area holds 70% of the volume around the point of control, grown by the larger of the next two "
        "rows above or below (rule two_row).",
        entries=levels.entries + (candles.entries if candles else ()),
    )
    market = (candles or levels).largest
    market_levels = levels.of(**market)
    if candles is not None and market_levels.height:
        last = max(market_levels["timestamp"])
        bars = candles.of(**market).filter(
            pl.col("timestamp").is_between(last, last + levels.length, closed="left")
        )
        session = market_levels.filter(pl.col("timestamp") == last)
        plot = Plot.of("candles_with_profile", bars, session, timezone=timezone)
        text = f"The last session of {name_of(market)}, and the volume at each of its prices."
        section.parts.append(Picture.of(text, 5.4, plot))
    if sessions is not None:
        market_sessions = sessions.of(**market)
        if market_sessions.is_empty():
            answers.leave(sessions)
        else:
            section.entries += sessions.entries
            section.rule += " Market profiles count time blocks, so their points of control may be others."
            section.parts.append(market_profiles(name_of(market), market_sessions, timezone))
    rows = f"market and session of {levels.interval}"
    section.parts.append(value_areas(profile.value_area(levels.frame), of="volume", rows=rows))
    return section


def _of_time(sessions: Points, timezone: str) -> Section:
    """Return the section if the tape has market profiles but no volume by price."""
    return Section(
        reading=READING_OF_TIME,
        rule="The value area holds 70% of the time blocks around the point of control, grown by the larger of the next "
        "two rows above or below (rule two_row).",
        parts=[
            market_profiles(name_of(sessions.largest), sessions.of(**sessions.largest), timezone),
            value_areas(
                profile.value_area(sessions.frame, count="tpo_count"),
                of="time",
                rows="market and session",
            ),
        ],
        entries=sessions.entries,
    )
