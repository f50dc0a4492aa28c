"""The methods that fetch series: one per kind of data, each saying what it wants and nothing of how that is fetched."""

from __future__ import annotations

from typing import TypeVar

from tidytape.client.series.derivatives import Derivatives
from tidytape.client.series.heatmaps import Heatmaps
from tidytape.client.series.options import Options
from tidytape.client.series.prices import Prices
from tidytape.client.series.profiles import Profiles
from tidytape.client.series.supply import Supply
from tidytape.client.series.wanted import Wanted

__all__ = ["SeriesMethods", "Wanted"]

ResultT = TypeVar("ResultT")


class SeriesMethods(
    Prices[ResultT],
    Derivatives[ResultT],
    Profiles[ResultT],
    Heatmaps[ResultT],
    Options[ResultT],
    Supply[ResultT],
):
    """Every method that asks for points. All arguments are keyword-only.

    Windows are half-open: ``start`` belongs to them, ``end`` does not. Times are epoch seconds, datetimes, dates or
    ISO 8601 strings; what has no zone is UTC. A candle or profile belongs to the window when its interval starts in it:
    a window from 23:50 to 00:05 has one hour in it, that of midnight. A window longer than one request may cover is
    asked for in several requests.
    """
