"""Pictures of tidy frames, with matplotlib: one function per subject.

- `candles` : prices over time.
- `volume` : traded volume over time.
- `volume_profile` : traded volume by price, with the point of control and the value area.
- `candles_with_profile` : the three of them on shared axes, laid out by `panels`.

Every function draws on the axes it is given, or on a figure of its own, and returns what it drew. None shows a
window, and none touches a setting or a figure that is not its own. Polars and pandas frames look the same.
"""

from __future__ import annotations

from tidytape.plot._candles import Candles, Volume, candles, volume
from tidytape.plot._panels import CandlesWithProfile, Panels, candles_with_profile, panels
from tidytape.plot._profile import Profile, volume_profile

__all__ = [
    "Candles",
    "CandlesWithProfile",
    "Panels",
    "Profile",
    "Volume",
    "candles",
    "candles_with_profile",
    "panels",
    "volume",
    "volume_profile",
]
