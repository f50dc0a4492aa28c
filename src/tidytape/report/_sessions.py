"""Pictures of market profiles and tables of value areas, for fetched profiles and for profiles from candles."""

from __future__ import annotations

from datetime import UTC, datetime

import polars as pl

from tidytape.report._answers import MARKET
from tidytape.report._picture import Picture, Plot
from tidytape.report._section import ReportTable
from tidytape.report._table import Shown, table
from tidytape.times import DAY, SECOND

READING_OF_TIME = (
    "Most of a session's time is spent in its value area. When a price leaves the value area of the session before, it "
    "either returns, or trading moves to the new price."
)


def begun(start: int) -> str:
    """Return a note if a window starts within a daily session, and an empty text if it starts at midnight.

    Examples
    --------
    >>> begun(1_723_129_200)
    ' The window begins within the first session, at 2024-08-08 15:00 UTC.'
    """
    return (
        ""
        if _is_midnight(start)
        else f" The window begins within the first session, at {_minute(start)} UTC."
    )


def unfinished(end: int) -> str:
    """Return a note if a window ends within a daily session, and an empty text if it ends at midnight.

    Only profiles from candles need the note: a service returns a whole session if it starts within the window.

    Examples
    --------
    >>> unfinished(1_723_161_600), unfinished(1_723_129_200)
    ('', ' The last session is not over: the window ends at 2024-08-08 15:00 UTC.')
    """
    return (
        "" if _is_midnight(end) else f" The last session is not over: the window ends at {_minute(end)} UTC."
    )


def _is_midnight(time: int) -> bool:
    return time * SECOND % DAY == 0


def _minute(time: int) -> str:
    return f"{datetime.fromtimestamp(time, UTC):%Y-%m-%d %H:%M}"


def market_profiles(market_name: str, levels: pl.DataFrame, timezone: str, *, origin: str = "") -> Picture:
    """Return the picture of a market's sessions; ``origin`` follows the market's name in the caption."""
    text = (
        f"Market profiles of {market_name}{origin}: how long the price was where. The bar at the left of a session is "
        "its initial balance; the line of a point of control ends where the price came back to it."
    )
    return Picture.of(text, 5.0, Plot.of("market_profile", levels, timezone=timezone))


def value_areas(areas: pl.DataFrame, *, of: str, rows: str, note: str = "") -> ReportTable:
    """Return the table of value areas; ``of`` (volume or time) and ``rows`` (what a row is) are for its texts."""
    return table(
        areas.sort(*MARKET, "timestamp"),
        {
            "timestamp": Shown("Session", "time", "UTC"),
            "exchange": Shown("Exchange"),
            "raw_symbol": Shown("Symbol"),
            "val": Shown("Value area low", "number"),
            "poc": Shown("Point of control", "number"),
            "vah": Shown("Value area high", "number"),
            "value_area_share": Shown("Held by it", "percent", f"of the {of}"),
        },
        f"One row per {rows}. Prices are in the quote of the market.{note}",
    )
