"""What is shown of sessions, whatever their profiles are made of: market profiles side by side, and value areas."""

from __future__ import annotations

from datetime import UTC, datetime

import polars as pl

from tidytape.report._answers import MARKET
from tidytape.report._picture import Picture, Plot
from tidytape.report._section import Table
from tidytape.report._table import Shown, table
from tidytape.times import DAY, SECOND

__all__ = ["READING_OF_TIME", "market_profiles", "unfinished", "value_areas"]

READING_OF_TIME = (
    "Most of a session's time is spent in its value area. When a price leaves the value area of the session before, it "
    "either returns, or trading moves to the new price."
)


def unfinished(end: int) -> str:
    """Return what stands below sessions of days of which the window cuts the last, and nothing if it cuts none.

    Examples
    --------
    >>> unfinished(1_723_161_600), unfinished(1_723_129_200)
    ('', ' The last session is not over: the window ends at 2024-08-08 15:00 UTC.')
    """
    if end * SECOND % DAY == 0:
        return ""
    return f" The last session is not over: the window ends at {datetime.fromtimestamp(end, UTC):%Y-%m-%d %H:%M} UTC."


def market_profiles(whose: str, levels: pl.DataFrame, timezone: str, *, made: str = "") -> Picture:
    """Return the picture of a market's sessions side by side; ``made`` says of what, e.g. ``", made of candles"``."""
    text = (
        f"Market profiles of {whose}{made}: how long the price was where. The bar at the left of a session is its "
        "initial balance; the line of a point of control ends where the price came back to it."
    )
    return Picture.of(text, 5.0, Plot.of("market_profile", levels, timezone=timezone))


def value_areas(areas: pl.DataFrame, *, of: str, rows: str, note: str = "") -> Table:
    """Return the table of value areas: ``of`` says what they hold a share of, ``rows`` what a row is."""
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
