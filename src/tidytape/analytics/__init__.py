"""Analytics: points to insight. Every function is pure, a frame in and a frame of the same kind out.

- `cross` : the markets of a coin combined, and compared with each other: sums, averages, shares, premiums.
- `depth` : books as arrays and numbers: matrices, coarser grids, depth near the mid, walls, slippage.
- `flow` : who trades and at whose cost: delta, CVD, imbalance, open interest and price, liquidations, large trades.
- `funding` : rates over any interval and per year, what positions paid, spreads and carry between exchanges, basis.
- `options` : smiles, term structures, curves and surfaces of chains; summaries by tenor; realised volatility.
- `pit` : point in time: what was known at which time; as-of views and joins, candles for backtests.
- `profile` : points of control, value areas and other measures of volume and market profiles.
- `quality` : what is wrong with a frame: audits, gaps, completeness.

A module is imported when it is first used.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING

from tidytape import _other_clients

if TYPE_CHECKING:
    from tidytape.analytics import cross, depth, flow, funding, options, pit, profile, quality
else:

    def __getattr__(name):
        if name in __all__:
            return import_module(f"tidytape.analytics.{name}")
        raise _other_clients.unknown_name(sys.modules[__name__], name, __all__)

    def __dir__():
        return sorted(__all__)


__all__ = ["cross", "depth", "flow", "funding", "options", "pit", "profile", "quality"]
