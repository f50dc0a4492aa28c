"""Order flow: who traded, who was liquidated, and what open interest says of it.

Of candles by side, of raw trades, or of anything with ``buy_volume`` and ``sell_volume``:

- `delta` : volume bought minus volume sold.
- `cvd` : the same cumulated, from an anchor.
- `imbalance` : the same as a share of what was traded.
- `vwap` : the volume-weighted average price since an anchor.
- `large_trade_share` : the share of the volume that large trades make.

Of open interest and candles:

- `oi_price_quadrant` : whether positions are opened or closed, and on which side.

Of liquidations:

- `liquidation_imbalance` : longs liquidated against shorts.
- `liquidation_cascades` : runs of liquidations.

A trade's side is that of the aggressor. A liquidation's is that of the position, BUY = longs liquidated.
"""

from __future__ import annotations

from tidytape.analytics.flow._anchored import cvd, vwap
from tidytape.analytics.flow._large import large_trade_share, liquidation_cascades
from tidytape.analytics.flow._quadrants import oi_price_quadrant
from tidytape.analytics.flow._sides import delta, imbalance, liquidation_imbalance

__all__ = [
    "cvd",
    "delta",
    "imbalance",
    "large_trade_share",
    "liquidation_cascades",
    "liquidation_imbalance",
    "oi_price_quadrant",
    "vwap",
]
